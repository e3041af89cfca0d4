//! What a start makes of a stored state: what goes on, what begins anew, and what stops the start.
//!
//! Facts in, decision out: the manifest of the state, that of the pipeline, and what the user has
//! said is to be dropped. Nothing that holds state goes away unless it is named.

use super::manifest::{Manifest, PartPrint};
use super::prints::PATH;
use nilometer_model::change::{Fate, Reason, compare};
use nilometer_model::planner::nearest;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;

/// All that differs, and all that does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// Whether a run would start.
    pub(crate) starts: bool,
    /// Stages, sources and sinks.
    pub(crate) entries: Vec<Entry>,
}

/// A stage, a source or a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    /// What it is.
    pub(crate) what: What,
    /// Its name.
    pub(crate) name: Box<str>,
    /// What becomes of it at the next start.
    pub(crate) at_start: AtStart,
    /// How `--drop-state` names it, if that is what would let the run start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drop: Option<Box<str>>,
    /// Why it does not go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) because: Vec<Because>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Stage,
    Source,
    Sink,
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AtStart {
    /// It goes on where the state ends.
    GoesOn,
    /// It begins where the state ends, and nothing is lost by it.
    Begins,
    /// It begins where the state ends; what the state holds of it is dropped.
    BeginsAnew,
    /// The pipeline has it no more, and what the state holds of it goes.
    IsForgotten,
    /// The run does not start.
    StopsTheStart,
}

/// Why an entry does not go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Because {
    /// A setting differs; `null` where it has none.
    Setting { name: Box<str>, was: Option<Box<str>>, is: Option<Box<str>> },
    /// The stage that it reads begins anew.
    InputBegins { stage: Box<str> },
    /// A stage that groups its results begins anew.
    ReaderBegins { stage: Box<str> },
    /// The state holds nothing of it.
    IsNew,
    /// The pipeline has it no more.
    IsGone,
    /// What it had to write last may not have been written.
    HasResults,
    /// It would write over what another sink has written.
    WritesOver { sink: Box<str>, path: Box<str> },
}

impl What {
    /// The name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Source => "source",
            Self::Sink => "sink",
        }
    }

    /// How `--drop-state` names one.
    fn argument(self, name: &str) -> Box<str> {
        match self {
            Self::Stage => name.into(),
            Self::Source | Self::Sink => format!("{}.{name}", self.name()).into(),
        }
    }
}

impl Difference {
    /// Everything, where nothing is to be dropped. `has_results` says whether what a sink of the
    /// state had to write last may not have been written.
    pub(crate) fn new(was: &Manifest, is: &Manifest, has_results: &BTreeSet<Box<str>>) -> Self {
        let mut entries: Vec<Entry> = compare(&was.prints(), &is.prints())
            .into_iter()
            .map(|change| stage(change.name, change.fate))
            .collect();
        entries.extend(is.sources.iter().map(|source| kept_source(source, was)));
        let gone = |old: &&PartPrint, now: &[PartPrint]| now.iter().all(|new| new.name != old.name);
        for source in was.sources.iter().filter(|source| gone(source, &is.sources)) {
            entries.push(Entry::dropping(What::Source, &source.name, vec![Because::IsGone]));
        }
        entries.extend(is.sinks.iter().map(|sink| kept_sink(sink, was, has_results)));
        for sink in was.sinks.iter().filter(|sink| gone(sink, &is.sinks)) {
            let because = vec![Because::IsGone, Because::HasResults];
            entries.push(if has_results.contains(&sink.name) {
                Entry::dropping(What::Sink, &sink.name, because)
            } else {
                Entry::new(What::Sink, &sink.name, AtStart::IsForgotten, vec![Because::IsGone])
            });
        }
        Self { starts: true, entries }.settled()
    }

    /// The same, where these are to be dropped, as `--drop-state` names them.
    ///
    /// # Errors
    /// What is wrong with them, a sentence each.
    pub(crate) fn dropping(mut self, names: &[String]) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        for name in names {
            let found = self.entries.iter_mut().find(|entry| *entry.argument() == **name);
            match found {
                Some(entry) if entry.drop.is_some() => {
                    let is_gone = entry.because.contains(&Because::IsGone);
                    entry.at_start =
                        if is_gone { AtStart::IsForgotten } else { AtStart::BeginsAnew };
                }
                Some(entry) => wrong.push(entry.why_not_dropped()),
                None => wrong.push(self.unknown(name)),
            }
        }
        if wrong.is_empty() { Ok(self.settled()) } else { Err(wrong) }
    }

    fn settled(mut self) -> Self {
        self.starts = self.entries.iter().all(|entry| entry.at_start != AtStart::StopsTheStart);
        self
    }

    fn unknown(&self, name: &str) -> String {
        let arguments: Vec<_> = self.entries.iter().map(Entry::argument).collect();
        let nearest = nearest(name, arguments.iter().map(|name| &**name));
        let nearest = nearest.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        format!("there is no `{name}`, only {}{nearest}", arguments.join(", "))
    }

    /// The entries that stop the start.
    pub(crate) fn stops(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.at_start == AtStart::StopsTheStart)
    }

    /// Whether counts add up only if they begin anew: sources or stages are not those of the state.
    pub(crate) fn counts_begin(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.what != What::Sink && entry.at_start != AtStart::GoesOn)
    }

    /// The entries of a kind that begin, anew or not.
    pub(crate) fn beginning(&self, what: What) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| {
            let begins = matches!(entry.at_start, AtStart::Begins | AtStart::BeginsAnew);
            begins && entry.what == what
        })
    }
}

impl Entry {
    fn new(what: What, name: &str, at_start: AtStart, because: Vec<Because>) -> Self {
        Self { what, name: name.into(), at_start, drop: None, because }
    }

    /// One that stops the start unless it is dropped.
    fn dropping(what: What, name: &str, because: Vec<Because>) -> Self {
        let drop = Some(what.argument(name));
        Self { drop, ..Self::new(what, name, AtStart::StopsTheStart, because) }
    }

    /// How `--drop-state` names it.
    fn argument(&self) -> Box<str> {
        self.what.argument(&self.name)
    }

    fn why_not_dropped(&self) -> String {
        let (what, name) = (self.what.name(), &self.name);
        match self.at_start {
            AtStart::GoesOn => {
                format!("{what} `{name}` goes on as it is, so that nothing of it is to be dropped")
            }
            AtStart::Begins => format!("{what} `{name}` is new, so that there is nothing to drop"),
            AtStart::IsForgotten => {
                format!("{what} `{name}` is forgotten anyway: all that it had to write is written")
            }
            AtStart::StopsTheStart | AtStart::BeginsAnew => {
                format!("{what} `{name}` cannot be dropped under its name; give it another one")
            }
        }
    }
}

fn stage(name: Box<str>, fate: Fate) -> Entry {
    match fate {
        Fate::Continues => Entry::new(What::Stage, &name, AtStart::GoesOn, Vec::new()),
        Fate::New => Entry::new(What::Stage, &name, AtStart::Begins, vec![Because::IsNew]),
        Fate::Removed => Entry::dropping(What::Stage, &name, vec![Because::IsGone]),
        Fate::Changed(reasons) => {
            let because = reasons.into_iter().map(Because::of).collect();
            Entry::dropping(What::Stage, &name, because)
        }
    }
}

impl Because {
    fn of(reason: Reason) -> Self {
        match reason {
            Reason::Setting { name, was, is } => Self::Setting { name, was, is },
            Reason::Input { was, is } => {
                let text = |reads: nilometer_model::change::Reads| Some(reads.to_string().into());
                Self::Setting { name: "input".into(), was: text(was), is: text(is) }
            }
            Reason::InputBegins { stage } => Self::InputBegins { stage },
            Reason::ReaderBegins { stage } => Self::ReaderBegins { stage },
        }
    }
}

/// The settings that differ.
fn differing(was: &PartPrint, is: &PartPrint) -> Vec<Because> {
    let names = was.settings.keys().chain(is.settings.keys()).map(|name| &**name);
    let differs = |name: &&str| was.settings.get(*name) != is.settings.get(*name);
    let because = |name: &str| Because::Setting {
        name: name.into(),
        was: was.settings.get(name).cloned(),
        is: is.settings.get(name).cloned(),
    };
    let names: BTreeSet<_> = names.collect();
    names.into_iter().filter(differs).map(because).collect()
}

/// A source of the pipeline: under its name its input must be what it was.
fn kept_source(source: &PartPrint, was: &Manifest) -> Entry {
    let Some(old) = was.sources.iter().find(|old| old.name == source.name) else {
        return Entry::new(What::Source, &source.name, AtStart::Begins, vec![Because::IsNew]);
    };
    let because = differing(old, source);
    let at_start = if because.is_empty() { AtStart::GoesOn } else { AtStart::StopsTheStart };
    Entry::new(What::Source, &source.name, at_start, because)
}

/// Whether two paths lead to one file, however they are written.
fn is_same_file(one: &str, other: &str) -> bool {
    let file = |path: &str| fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok();
    one == other || file(one).is_some_and(|one| file(other) == Some(one))
}

/// A sink of the pipeline. One that changes is a new one; what was written stays.
fn kept_sink(sink: &PartPrint, was: &Manifest, has_results: &BTreeSet<Box<str>>) -> Entry {
    let old = was.sinks.iter().find(|old| old.name == sink.name);
    let mut because = old.map_or_else(|| vec![Because::IsNew], |old| differing(old, sink));
    if because.is_empty() {
        return Entry::new(What::Sink, &sink.name, AtStart::GoesOn, because);
    }
    let path = sink.settings.get(PATH);
    let has_path = |other: &&PartPrint| {
        let paths = path.zip(other.settings.get(PATH));
        paths.is_some_and(|(path, other)| is_same_file(path, other))
    };
    if let (Some(other), Some(path)) = (was.sinks.iter().find(has_path), path) {
        because.push(Because::WritesOver { sink: other.name.clone(), path: path.clone() });
        return Entry::new(What::Sink, &sink.name, AtStart::StopsTheStart, because);
    }
    if old.is_some() && has_results.contains(&sink.name) {
        because.push(Because::HasResults);
        return Entry::dropping(What::Sink, &sink.name, because);
    }
    Entry::new(What::Sink, &sink.name, AtStart::Begins, because)
}
