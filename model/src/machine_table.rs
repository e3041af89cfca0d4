//! The key actors of a stage whose windows merge, overlap, or have triggers of their own.
//!
//! The general form of [`crate::table`]: each key has a [`KeyMachine`] of its own, registers one
//! deadline in event time and one in processing time, and may hold the stage's output watermark
//! back. Where both forms can run a stage they emit the same panes (a property test says so).
//!
//! Invariants WM-1 (the output watermark never falls) and GC-1.

use crate::account::StageAccount;
use crate::aggregate::{AggregateLayout, Overflow, ValuesMut};
use crate::cold::Shelf;
use crate::firing::Due;
use crate::holds::Holds;
use crate::image::Dirty;
use crate::intake::{Copy, Entered, Judged, Takes};
use crate::key_machine::{Incoming, Instants, KeyMachine, MachineRules, Verdict};
use crate::late::LateReason;
use crate::machine_shares::{Expected, Shares};
use crate::open_window::OpenWindow;
use crate::plan::{Stage, StageInput};
use crate::roster::{ActorId, HasKey, Roster};
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Watermark, Window};
use std::collections::BTreeMap;

mod cold;
mod firing;
mod waiting;

/// One key actor: its key, its machine, and what it has registered.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) key: Box<[u64]>,
    pub(crate) machine: KeyMachine,
    armed: Option<EventTime>,
    armed_tick: Option<ProcessingTime>,
    /// By second watermark.
    armed_shares: Vec<Option<EventTime>>,
    hold: Option<EventTime>,
    is_touched: bool,
    /// Whether something came since it was decided last which keys leave memory.
    is_used: bool,
    /// Bytes that it took when they were counted last.
    weight: usize,
}

impl HasKey for Actor {
    fn key(&self) -> &[u64] {
        &self.key
    }
}

/// What a table is firing, slice by slice.
#[derive(Debug, Default)]
struct Work {
    /// The watermark before, while one is delivered.
    before: Option<Watermark>,
    /// The deadline that is being delivered, and the actors that have registered it.
    bucket: Option<(EventTime, Due<ActorId>)>,
    /// The same on the clock.
    ticking: Option<(ProcessingTime, Due<ActorId>)>,
    /// The same of second watermarks, each with its deadline and its number.
    rising: Option<Due<Expected>>,
    /// Actors that are asked one after the other.
    asked: Option<Due<ActorId>>,
    /// The key whose turn it is, if some of its windows have been asked and others have not.
    inside: Option<Inside>,
}

/// How far the step of one key has come.
#[derive(Debug, Clone, Copy)]
struct Inside {
    /// What its windows held the output watermark at before the step.
    held: Option<EventTime>,
    /// How many of them have been asked.
    asked: usize,
}

/// All key actors of one stage in one shard.
#[derive(Debug)]
pub(crate) struct MachineTable {
    pub(crate) rules: MachineRules,
    actors: Roster<Actor>,
    /// Actors by the deadline they registered; only the one they are armed for counts. One that has
    /// moved on is registered anew when the old one comes: a session that every batch prolongs has
    /// one deadline, not one for every batch.
    deadlines: BTreeMap<EventTime, Vec<ActorId>>,
    ticks: BTreeMap<ProcessingTime, Vec<ActorId>>,
    pub(crate) shares: Shares,
    /// How many actors hold the output watermark at an instant.
    holds: Holds,
    /// Actors that got something. Cleared at the end of the round.
    touched: Vec<ActorId>,
    /// What is being fired. Empty between two rounds.
    work: Work,
    /// The window that took the last copy: of which actor, and its number there.
    entered: (ActorId, usize),
    pub(crate) watermark: Watermark,
    pub(crate) output: Watermark,
    now: ProcessingTime,
    pub(crate) account: StageAccount,
    /// Which actors have changed since the last cut; `None` where nothing is stored.
    pub(crate) dirty: Option<Box<Dirty>>,
    /// Where keys are that are not in memory; `None` if all are.
    shelf: Option<Box<Shelf>>,
    /// Whether it is counted what actors take: where they may leave memory.
    is_weighed: bool,
    /// Bytes of all actors, if that is counted.
    bytes: usize,
}

impl MachineTable {
    pub(crate) fn new(stage: &Stage, symbols: &Symbols) -> Self {
        let rules = MachineRules {
            stage: stage.id,
            aggregates: stage.aggregates.clone(),
            window: stage.window,
            trigger: stage.trigger.bind(&stage.aggregates, symbols),
            mode: stage.mode,
            emission: stage.emission,
            allowed_lateness: stage.allowed_lateness,
            is_observed: stage.is_observed(),
            keeps_total: stage.keeps_total(),
            has_children: stage.has_children,
            tells_changes: stage.tells_changes,
            reads_changes: matches!(stage.input, StageInput::Changes(_)),
            keeps_values: match &stage.input {
                StageInput::Changes(changes) => changes.keeps_values.clone(),
                StageInput::Records(_) | StageInput::Panes(_) => Vec::new(),
            },
        };
        Self {
            actors: Roster::default(),
            deadlines: BTreeMap::new(),
            ticks: BTreeMap::new(),
            shares: Shares::new(&rules.trigger),
            holds: Holds::default(),
            touched: Vec::new(),
            work: Work::default(),
            entered: (0, 0),
            watermark: Watermark::MIN,
            output: Watermark::MIN,
            now: ProcessingTime::from_millis(i64::MIN),
            account: StageAccount {
                cut: vec![0; rules.aggregates.accumulators().len()],
                ..StageAccount::default()
            },
            dirty: None,
            shelf: None,
            is_weighed: false,
            bytes: 0,
            rules,
        }
    }

    /// An actor by its number.
    pub(crate) fn get(&self, id: ActorId) -> Option<&Actor> {
        self.actors.get(id)
    }

    /// The actor of a key, if it has windows.
    pub(crate) fn find(&self, key: &[u64]) -> Option<ActorId> {
        self.actors.find(self.actors.hash(key), key)
    }

    fn actor(&mut self, hash: u64, key: &[u64]) -> ActorId {
        if let Some(id) = self.actors.find(hash, key) {
            return id;
        }
        if self.shelf.is_some()
            && let Some(id) = self.recall_actor(key)
        {
            return id;
        }
        let actor = Actor {
            key: key.into(),
            machine: KeyMachine::default(),
            armed: None,
            armed_tick: None,
            armed_shares: vec![None; self.shares.known().len()],
            hold: None,
            is_touched: false,
            is_used: true,
            weight: 0,
        };
        self.actors.insert(hash, actor)
    }

    fn touch(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(id)
            && !std::mem::replace(&mut actor.is_touched, true)
        {
            actor.is_used = true;
            self.touched.push(id);
        }
    }

    /// Whether no window, deadline or hold is left.
    pub(crate) fn is_empty(&self) -> bool {
        let is_due =
            !self.deadlines.is_empty() || !self.shares.is_empty() || !self.ticks.is_empty();
        let has_cold = self.shelf.as_ref().is_some_and(|shelf| !shelf.cold.is_empty());
        self.actors.is_empty() && self.holds.is_empty() && !is_due && !has_cold
    }

    /// The window that took the last copy, and the stage's aggregates.
    pub(crate) fn entered(&mut self) -> Option<(&AggregateLayout, &mut OpenWindow)> {
        let (id, number) = self.entered;
        let actor = self.actors.get_mut(id)?;
        Some((&self.rules.aggregates, actor.machine.windows.get_mut(number)?))
    }

    /// Number of keys, and of bytes they take, roughly.
    pub(crate) fn size(&self) -> (usize, usize) {
        let dirty = self.dirty.as_ref().map_or(0, |dirty| dirty.bytes());
        let bytes: usize = self.actors.iter().map(Actor::bytes).sum();
        (self.actors.len(), bytes + self.actors.index_bytes() + dirty)
    }

    /// The numbers of all actors.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ActorId> {
        self.actors.ids()
    }

    /// Every open window with its key.
    pub(crate) fn open_windows(&self) -> impl Iterator<Item = (&[u64], Window)> {
        let windows = |actor: &'_ Actor| {
            actor.machine.windows.iter().map(|open| open.window).collect::<Vec<_>>()
        };
        self.actors
            .iter()
            .flat_map(move |actor| windows(actor).into_iter().map(|window| (&*actor.key, window)))
    }

    /// Puts back an actor as it was; the watermarks must be set first. Returns its number.
    pub(crate) fn restore(&mut self, key: &[u64], machine: KeyMachine) -> ActorId {
        let hash = self.actors.hash(key);
        let id = self.actor(hash, key);
        if let Some(actor) = self.actors.get_mut(id) {
            actor.machine = machine;
        }
        self.register(id);
        id
    }

    /// Every window that has news waits for the end of a round.
    pub(crate) fn touch_news(&mut self) {
        for id in self.ids().collect::<Vec<_>>() {
            let Some(actor) = self.actors.get_mut(id) else { continue };
            let mut has_news = false;
            for open in &mut actor.machine.windows {
                open.is_touched |= open.has_news;
                has_news |= open.has_news;
            }
            if has_news {
                self.touch(id);
            }
        }
    }

    /// The last tick.
    pub(crate) const fn now(&self) -> ProcessingTime {
        self.now
    }

    /// Sets the last tick, before anything else happens.
    pub(crate) const fn start_at(&mut self, now: ProcessingTime) {
        self.now = now;
    }
}

impl Takes for MachineTable {
    fn hash(&self, key: &[u64]) -> u64 {
        self.actors.hash(key)
    }

    fn aggregates(&self) -> &AggregateLayout {
        &self.rules.aggregates
    }

    fn account(&mut self) -> &mut StageAccount {
        &mut self.account
    }

    fn watermark(&self) -> Watermark {
        self.watermark
    }

    fn enter(&mut self, copy: Copy<'_>, symbols: &Symbols) -> Result<Judged, Overflow> {
        self.account.assigned += 1;
        let id = self.actor(copy.hash, copy.key);
        let Some(actor) = self.actors.get_mut(id) else {
            return Ok(Judged::Dropped(LateReason::Expired));
        };
        let watermark = self.watermark;
        // What the actor has registered may have risen in this round; it matters only if it holds.
        let is_held = actor.hold.is_some_and(|hold| Watermark(hold) < watermark);
        let held = if is_held { actor.machine.hold() } else { None };
        let shares = self.shares.known();
        let at = Instants { watermark, before: watermark, held, shares, now: self.now };
        let incoming = Incoming { window: copy.window, time: copy.time, bytes: copy.bytes };
        let verdict = actor.machine.enter(incoming, &self.rules, at, symbols)?;
        let reason = match verdict {
            Verdict::Into { number, is_late } => {
                let count =
                    if is_late { &mut self.account.late } else { &mut self.account.on_time };
                *count += 1;
                self.account.operations += 1;
                self.entered = (id, number);
                if let Some(dirty) = &mut self.dirty {
                    dirty.touch(id);
                }
                self.touch(id);
                // The delta may hold what came before the merge: never taken as empty.
                return Ok(Judged::Into(Entered { cell: 0, is_empty: false, is_late }));
            }
            Verdict::Expired => {
                self.account.expired += 1;
                LateReason::Expired
            }
            Verdict::Closed => {
                self.account.closed += 1;
                LateReason::Closed
            }
            Verdict::Refused => {
                self.account.refused += 1;
                LateReason::Refused
            }
        };
        if actor.machine.windows.is_empty() {
            self.register(id);
        }
        Ok(Judged::Dropped(reason))
    }

    fn delta(&mut self, _: &Entered) -> (&AggregateLayout, ValuesMut<'_>) {
        let (id, number) = self.entered;
        let actor = self.actors.get_mut(id);
        let open = actor.and_then(|actor| actor.machine.windows.get_mut(number));
        let nothing = || ValuesMut { words: &mut [], sides: &mut [] };
        (&self.rules.aggregates, open.map_or_else(nothing, |open| open.delta.view_mut()))
    }
}
