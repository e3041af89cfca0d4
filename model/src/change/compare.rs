//! Which stages may go on with the state that was stored of them.
//!
//! A stage goes on if its settings are what they were, and if its state holds all that its input has
//! handed on, neither more nor less. Where the stage below begins anew, what was in it is missing
//! above; where what is read may be taken back, whoever reads has to have seen it.

use super::print::{Reads, StagePrint};
use std::collections::{BTreeMap, BTreeSet};

/// What is to become of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageChange {
    /// Its name.
    pub name: Box<str>,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a stage at a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It goes on with its state.
    Continues,
    /// There is no state of it: it begins where the state ends.
    New,
    /// Its state means something else now.
    Changed(Vec<Reason>),
    /// There is a state of it, and the plan has no such stage.
    Removed,
}

/// Why a state means something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A setting differs; `None` where there is no such setting.
    Setting {
        /// The setting.
        name: Box<str>,
        /// As it was when the state was stored.
        was: Option<Box<str>>,
        /// As it is in the plan.
        is: Option<Box<str>>,
    },
    /// It reads something else.
    Input {
        /// As it was when the state was stored.
        was: Reads,
        /// As it is in the plan.
        is: Reads,
    },
    /// The stage that it reads begins anew, without what was on its way to this one.
    InputBegins {
        /// The stage below.
        stage: Box<str>,
    },
    /// A stage that reads from it begins anew, and cannot take back what it has not seen.
    ReaderBegins {
        /// The stage above.
        stage: Box<str>,
    },
}

/// What becomes of each stage: those of the plan, in plan order, then those that it has no more.
pub fn compare(was: &[StagePrint], is: &[StagePrint]) -> Vec<StageChange> {
    let mut comparison = Comparison::new(was, is);
    while comparison.spread() {}
    let stages = is.iter().map(|stage| StageChange {
        name: stage.name.clone(),
        fate: comparison.fates.remove(&*stage.name).unwrap_or(Fate::New),
    });
    let mut changes: Vec<_> = stages.collect();
    let is_gone = |stage: &&StagePrint| is.iter().all(|known| known.name != stage.name);
    let gone = was.iter().filter(is_gone);
    changes.extend(gone.map(|stage| StageChange { name: stage.name.clone(), fate: Fate::Removed }));
    changes
}

struct Comparison<'a> {
    was: BTreeMap<&'a str, &'a StagePrint>,
    is: &'a [StagePrint],
    /// Of the stages of the plan. They go from continuing to changed, and not back.
    fates: BTreeMap<&'a str, Fate>,
}

impl<'a> Comparison<'a> {
    fn new(was: &'a [StagePrint], is: &'a [StagePrint]) -> Self {
        let was: BTreeMap<_, _> = was.iter().map(|stage| (&*stage.name, stage)).collect();
        let fate = |stage: &StagePrint| match was.get(&*stage.name) {
            None => Fate::New,
            Some(known) => {
                let reasons = settings(known, stage);
                if reasons.is_empty() { Fate::Continues } else { Fate::Changed(reasons) }
            }
        };
        let fates = is.iter().map(|stage| (&*stage.name, fate(stage))).collect();
        Self { was, is, fates }
    }

    fn continues(&self, stage: &str) -> bool {
        self.fates.get(stage) == Some(&Fate::Continues)
    }

    /// Finds a stage that cannot continue since another does not; `false` if there is none.
    fn spread(&mut self) -> bool {
        for stage in self.is {
            let name = &*stage.name;
            if self.continues(name) {
                if let Some(reason) = self.input(stage) {
                    self.fates.insert(name, Fate::Changed(vec![reason]));
                    return true;
                }
                continue;
            }
            let below = stage.reads.stage().filter(|_| stage.is_taken_back);
            if let Some(below) = below.filter(|below| self.continues(below))
                && let Some(below) = self.is.iter().find(|known| *known.name == *below)
            {
                let reason = Reason::ReaderBegins { stage: name.into() };
                self.fates.insert(&below.name, Fate::Changed(vec![reason]));
                return true;
            }
        }
        false
    }

    /// Why a stage cannot continue on what it reads.
    fn input(&self, stage: &StagePrint) -> Option<Reason> {
        let was = &self.was.get(&*stage.name)?.reads;
        let is = self.behind_new(&stage.reads);
        if was != is {
            return Some(Reason::Input { was: was.clone(), is: stage.reads.clone() });
        }
        let below = is.stage().filter(|below| !self.continues(below))?;
        Some(Reason::InputBegins { stage: below.into() })
    }

    /// What is read where new stages hand on what they read themselves: one that stands between a
    /// stage and what it has read before begins empty, and hands on exactly what comes from now on.
    fn behind_new(&self, reads: &'a Reads) -> &'a Reads {
        let mut found = reads;
        while let Reads::Panes(name) = found {
            let is_new = self.fates.get(&**name) == Some(&Fate::New);
            let Some(below) = self.is.iter().find(|known| is_new && known.name == *name) else {
                break;
            };
            found = &below.reads;
        }
        found
    }
}

/// The settings that differ.
fn settings(was: &StagePrint, is: &StagePrint) -> Vec<Reason> {
    let names = was.settings.keys().chain(is.settings.keys()).map(|name| &**name);
    let reason = |name: &str| {
        let (was, is) = (was.settings.get(name).cloned(), is.settings.get(name).cloned());
        (was != is).then(|| Reason::Setting { name: name.into(), was, is })
    };
    names.collect::<BTreeSet<_>>().into_iter().filter_map(reason).collect()
}
