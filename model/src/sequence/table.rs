//! The key actors of a sequence stage: the sessions of each key, its one deadline in event time and
//! its one by the clock, both registered lazily; the holds; and what bounds them all.
//!
//! The clock counts active time ([`Tick::active`]), so that neither a restart nor a
//! machine that slept closes sessions.
//!
//! Invariants WM-1 (the output watermark never falls) and GC-1.

mod agenda;
mod cold;
mod firing;
mod gauges;
mod room;
mod taking;

pub use gauges::SequenceUse;

use super::cut::after;
use super::entry::Entry;
use super::outlet::{Frame, Outlet, Telling};
use super::record::RecordWriter;
use super::rules::Rules;
use super::sessions::{Corrected, Now, Sessions};
use crate::account::StageAccount;
use crate::cold::Shelf;
use crate::engine::Engine;
use crate::holds::Holds;
use crate::image::Dirty;
use crate::plan::{SequenceInput, Stage};
use crate::roster::{ActorId, HasKey, Roster};
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::tick::Tick;
use crate::time::{EventTime, Span, Watermark, Window};
use agenda::Agenda;
use std::collections::VecDeque;

/// One key actor.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) key: Box<[u64]>,
    pub(crate) sessions: Sessions,
    /// The deadline that it is registered for.
    armed: Option<EventTime>,
    /// The same by the clock.
    armed_tick: Option<Span>,
    hold: Option<EventTime>,
    /// Whether it is to be asked when the round, or the cycle, ends.
    pub(crate) is_touched: bool,
    /// Whether it was used since keys left memory last.
    is_used: bool,
}

impl HasKey for Actor {
    fn key(&self) -> &[u64] {
        &self.key
    }
}

/// All key actors of one stage in one shard.
#[derive(Debug)]
pub(crate) struct SequenceTable {
    pub(crate) frame: Frame,
    input: SequenceInput,
    actors: Roster<Actor>,
    /// Actors by the deadline they registered; only the one they are armed for counts.
    deadlines: Agenda<EventTime>,
    /// The same by the clock.
    ticks: Agenda<Span>,
    /// How many actors hold the output watermark at an instant.
    holds: Holds,
    /// Actors to be asked at the end of the round. Cleared there.
    touched: VecDeque<ActorId>,
    /// What held before the watermark that is being delivered. Cleared when that is done.
    advancing: Option<Now>,
    /// Records kept by all actors.
    records: usize,
    pub(crate) watermark: Watermark,
    pub(crate) output: Watermark,
    /// For how long this process was active at the last tick.
    heard: Span,
    /// The time for which the clock has run, in all processes.
    pub(crate) active: Span,
    /// Whether anything happens by the clock, or by the number of records that wait.
    is_live: bool,
    /// Whether nothing is told before a cycle ends.
    has_cycles: bool,
    /// Sessions and bytes that were kept when there was no room, where the run is to fail then.
    pub(crate) no_room: Option<(usize, usize)>,
    /// Most sessions and bytes of this shard.
    limits: (usize, usize),
    pub(crate) account: StageAccount,
    /// What is noted of changes; nothing before the first cut.
    pub(crate) dirty: Option<Box<Dirty>>,
    /// Where keys are that are not in memory; `None` if all are.
    shelf: Option<Box<Shelf>>,
    ahead: taking::Ahead,
}

impl SequenceTable {
    /// The table of `stage`, if it is a sequence; `shards` share what it may keep.
    pub(crate) fn new(
        stage: &Stage,
        symbols: &Symbols,
        (engine, shards): (Engine, usize),
    ) -> Option<Self> {
        let input = stage.sequence.clone()?;
        let rules = Rules::new(&input, stage.allowed_lateness, symbols);
        let share = |limit: Option<u64>| {
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
            limit.div_ceil(shards.max(1))
        };
        let bounds = input.spec.bounds;
        let frame = Frame {
            stage: stage.id,
            writer: RecordWriter::new(&input.fields, &stage.aggregates, symbols),
            rules,
            key: stage.key.clone(),
            is_observed: stage.is_observed(),
            tells_changes: stage.tells_changes,
        };
        Some(Self {
            frame,
            input,
            actors: Roster::default(),
            deadlines: Agenda::default(),
            ticks: Agenda::default(),
            holds: Holds::default(),
            touched: VecDeque::new(),
            advancing: None,
            no_room: None,
            has_cycles: engine.pace().is_some(),
            records: 0,
            watermark: Watermark::MIN,
            output: Watermark::MIN,
            heard: Span::ZERO,
            active: Span::ZERO,
            is_live: engine != Engine::Batch,
            limits: (share(bounds.sessions), share(bounds.bytes)),
            account: StageAccount::default(),
            dirty: None,
            shelf: None,
            ahead: taking::Ahead::default(),
        })
    }

    const fn instants(&self) -> Now {
        Now { watermark: self.watermark, output: self.output, active: self.active }
    }

    pub(crate) fn find(&self, key: &[u64]) -> Option<ActorId> {
        self.actors.find(self.actors.hash(key), key)
    }

    /// An actor by its number.
    pub(crate) fn actor(&self, id: ActorId) -> Option<&Actor> {
        self.actors.get(id)
    }

    fn insert(&mut self, hash: u64, key: &[u64]) -> ActorId {
        let actor = Actor {
            key: key.into(),
            sessions: Sessions::default(),
            armed: None,
            armed_tick: None,
            hold: None,
            is_touched: false,
            is_used: true,
        };
        self.actors.insert(hash, actor)
    }

    fn touch(&mut self, id: ActorId) {
        if let Some(actor) = self.actors.get_mut(id)
            && !std::mem::replace(&mut actor.is_touched, true)
        {
            self.touched.push_back(id);
        }
    }

    /// Bytes that are kept, about.
    fn bytes(&self) -> usize {
        // A list grows by doubling: a quarter of its places is free, on average.
        let entries = self.records.saturating_mul(size_of::<Entry>() * 5 / 4);
        let mut actor = size_of::<Option<Actor>>() + self.frame.key.words() * 8 + 48;
        if self.frame.rules.spec.release.is_early() {
            // What was told is kept, to be taken back.
            actor += size_of::<Telling>() + self.frame.writer.layout.words() * 8;
        }
        entries.saturating_add(self.actors.len().saturating_mul(actor))
    }

    /// One step of one actor, and what it then registers.
    fn step(
        &mut self,
        id: ActorId,
        (fired, symbols): (&mut Fired, &Symbols),
        step: impl FnOnce(&mut Sessions, Now, &mut Outlet<'_>) -> Corrected,
    ) {
        let now = self.instants();
        let frame = &self.frame;
        let Some(actor) = self.actors.get_mut(id) else { return };
        actor.is_touched = false;
        let mut outlet = Outlet { frame, key: &actor.key, symbols, fired, told: [0, 0] };
        let before = actor.sessions.records();
        let corrected = step(&mut actor.sessions, now, &mut outlet);
        let [told, taken_back] = outlet.told;
        self.account.panes += told;
        self.account.retracts += taken_back;
        self.account.operations += 1;
        self.account.late += corrected.told;
        self.account.late_no_effect += corrected.without_effect;
        self.records = (self.records + actor.sessions.records()).saturating_sub(before);
        self.register(id);
    }

    /// Registers an actor's deadlines and hold anew; retires it if nothing is left.
    fn register(&mut self, id: ActorId) {
        self.settle_hold(id);
        let now = self.instants();
        let Some(actor) = self.actors.get_mut(id) else { return };
        if let Some(dirty) = &mut self.dirty {
            if actor.sessions.is_empty() {
                dirty.remove(id, |name| name.extend_from_slice(&actor.key));
            } else {
                dirty.touch(id);
            }
        }
        if actor.sessions.is_empty() {
            self.actors.remove(id);
            return;
        }
        let deadline = actor.sessions.next_deadline(&self.frame.rules, now);
        let armed = actor.armed;
        if let Some(due) = deadline.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            self.arm(id, due);
        }
        self.register_tick(id);
    }

    fn arm(&mut self, id: ActorId, deadline: EventTime) {
        if let Some(actor) = self.actors.get_mut(id) {
            actor.armed = Some(deadline);
            self.deadlines.add(deadline, id);
        }
    }

    fn register_tick(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(id) else { return };
        if !self.is_live {
            return;
        }
        let tick = actor.sessions.next_tick(&self.frame.rules);
        let armed = actor.armed_tick;
        if let Some(due) = tick.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            actor.armed_tick = Some(due);
            self.ticks.add(due, id);
        }
    }

    fn settle_hold(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(id) else { return };
        let hold = actor.sessions.hold();
        if hold == actor.hold {
            return;
        }
        self.holds.remove(actor.hold);
        self.holds.add(hold);
        actor.hold = hold;
    }

    /// The output watermark follows the input as far as records are let in and holds let it, and
    /// never falls (WM-1).
    fn settle_output(&mut self) {
        let passed = Watermark(self.frame.rules.released(self.watermark));
        let held = self.held_at().map_or(passed, Watermark);
        self.output = self.output.max(passed.min(held));
    }

    /// The clock ticks.
    pub(crate) fn hear(&mut self, tick: Tick) {
        let passed = tick.active().saturating_sub(self.heard);
        self.heard = self.heard.max(tick.active());
        self.active = self.active.saturating_add(passed);
    }

    /// Whether no session, deadline or hold is left.
    pub(crate) fn is_empty(&self) -> bool {
        let has_none = self.actors.is_empty() && self.cold_keys() == 0;
        has_none && self.holds.is_empty() && self.deadlines.len() == 0
    }

    /// Number of keys, and of bytes that they take in memory, about.
    pub(crate) fn size(&self) -> (usize, usize) {
        let dirty = self.dirty.as_ref().map_or(0, |dirty| dirty.bytes());
        (self.actors.len() + self.cold_keys(), self.bytes().saturating_add(dirty))
    }

    /// The numbers of all actors.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ActorId> + '_ {
        self.actors.ids()
    }

    /// Puts back an actor as it was, and whether it is to be asked; the watermarks and the clock must
    /// be set first.
    pub(crate) fn restore(
        &mut self,
        key: &[u64],
        (sessions, is_touched): (Sessions, bool),
    ) -> ActorId {
        let hash = self.actors.hash(key);
        let id = self.insert(hash, key);
        self.records = self.records.saturating_add(sessions.records());
        if let Some(actor) = self.actors.get_mut(id) {
            actor.sessions = sessions;
        }
        self.register(id);
        if is_touched {
            self.touch(id);
        }
        id
    }

    /// All actors.
    pub(crate) fn actors(&self) -> impl Iterator<Item = &Actor> {
        self.actors.iter()
    }

    /// Every session kept, with its key: the one that goes on, if it does, and those that are closed.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&[u64], Window)> {
        self.actors().flat_map(|actor| {
            let closed = actor.sessions.closed.iter().map(|closed| closed.issued.first);
            let open = actor.sessions.entries.first().map(|first| first.time);
            let firsts = closed.chain(open);
            firsts.map(|first| (&*actor.key, Window::new(first, after(first))))
        })
    }

    /// How many keys have a session that goes on.
    pub(crate) fn open(&self) -> usize {
        self.actors().filter(|actor| !actor.sessions.entries.is_empty()).count()
    }
}
