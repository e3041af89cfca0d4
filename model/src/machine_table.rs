//! The key actors of a stage whose windows merge, overlap, or have triggers of their own.
//!
//! The general form of [`crate::table`]: each key has a [`KeyMachine`] of its own, registers one
//! deadline in event time and one in processing time, and may hold the stage's output watermark
//! back. Where both forms can run a stage they emit the same panes (a property test says so).
//!
//! Invariants WM-1 (the output watermark never falls) and GC-1.

use crate::account::StageAccount;
use crate::aggregate::{AggregateLayout, Overflow, ValuesMut};
use crate::cold::{Chills, Shelf};
use crate::firing::{Due, Fires, Flow, Otherwise};
use crate::holds::Holds;
use crate::image::Dirty;
use crate::intake::{Copy, Entered, Judged, Takes};
use crate::key_machine::{Incoming, Instants, KeyMachine, MachineRules, Verdict};
use crate::late::LateReason;
use crate::machine_shares::{Expected, Shares};
use crate::open_window::{OpenWindow, Outlet};
use crate::pane::{PaneBatch, PaneKind};
use crate::plan::{Stage, StageInput};
use crate::roster::{ActorId, HasKey, Roster};
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::time::{EventTime, ProcessingTime, Span, Watermark, Window};
use crate::watermark::Percentile;
use std::collections::BTreeMap;

mod cold;

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

    /// Delivers second watermarks to the actors that are due by them.
    fn share(
        &mut self,
        promised: &[(Percentile, Watermark)],
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        loop {
            let rising = self.work.rising.take();
            let mut rising = rising.unwrap_or_else(|| Due::of(self.shares.rise(promised)));
            while let Some(expected) = rising.first() {
                if fired.is_full() {
                    self.work.rising = Some(rising);
                    return Ok(Flow::More);
                }
                if self.work.inside.is_some() || self.still_expects(expected) {
                    let out = (&mut *fired, symbols);
                    let flow = self.step(expected.2, self.watermark, out, KeyMachine::advance)?;
                    if flow == Flow::More {
                        self.work.rising = Some(rising);
                        return Ok(Flow::More);
                    }
                }
                rising.pass();
            }
            if !self.recall_any_shared() {
                break;
            }
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Delivers a tick to the actors that are due.
    fn tick(
        &mut self,
        now: ProcessingTime,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        self.now = self.now.max(now);
        loop {
            if let Some((due, mut ids)) = self.work.ticking.take() {
                while let Some(id) = ids.first() {
                    if fired.is_full() {
                        self.work.ticking = Some((due, ids));
                        return Ok(Flow::More);
                    }
                    if self.work.inside.is_some() || self.still_waits_for_tick(id, due) {
                        let out = (&mut *fired, symbols);
                        if self.step(id, self.watermark, out, KeyMachine::advance)? == Flow::More {
                            self.work.ticking = Some((due, ids));
                            return Ok(Flow::More);
                        }
                    }
                    ids.pass();
                }
            }
            if self.shelf.is_some() {
                let hot = self.ticks.first_key_value().map(|(tick, _)| *tick);
                self.recall_ticking(hot, self.now, self.watermark.0);
            }
            match self.ticks.first_entry() {
                Some(first) if *first.key() <= self.now => {
                    self.work.ticking = Some((*first.key(), Due::of(first.remove())));
                }
                Some(_) | None => break,
            }
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Gives a signal to every actor that waits for it.
    fn signal(
        &mut self,
        name: &str,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        // Those that wait are asked once; then it has been given.
        if self.work.asked.is_none() {
            self.recall_each();
            self.signal_to(self.ids().collect(), name);
        }
        loop {
            if self.end_round(None, fired, symbols)? == Flow::More {
                return Ok(Flow::More);
            }
            let Some(ids) = self.recall_next(self.watermark.0) else { return Ok(Flow::Done) };
            self.signal_to(ids, name);
        }
    }

    /// Tells actors of a signal; those that wait for it are asked at the end of the round.
    fn signal_to(&mut self, ids: Vec<ActorId>, name: &str) {
        for id in ids {
            let actor = self.actors.get_mut(id);
            if actor.is_some_and(|actor| actor.machine.signal(&self.rules, name)) {
                self.touch(id);
            }
        }
    }

    /// Asks actors one after the other, from where it was on.
    fn ask(
        &mut self,
        all: impl FnOnce(&mut Self) -> Vec<ActorId>,
        (fired, symbols): (&mut Fired, &Symbols),
        step: impl Fn(
            &mut KeyMachine,
            (&MachineRules, Instants<'_>),
            &mut usize,
            &mut Outlet<'_>,
        ) -> Result<Flow, Overflow>,
    ) -> Result<Flow, Overflow> {
        let mut asked = match self.work.asked.take() {
            Some(asked) => asked,
            None => Due::of(all(self)),
        };
        while let Some(id) = asked.first() {
            if fired.is_full() {
                self.work.asked = Some(asked);
                return Ok(Flow::More);
            }
            if self.step(id, self.watermark, (&mut *fired, symbols), &step)? == Flow::More {
                self.work.asked = Some(asked);
                return Ok(Flow::More);
            }
            asked.pass();
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// Delivers the watermark to the actors of the bucket that is being worked on.
    fn fire_bucket(
        &mut self,
        (watermark, before): (Watermark, Watermark),
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let Some((deadline, mut due)) = self.work.bucket.take() else { return Ok(Flow::Done) };
        while let Some(id) = due.first() {
            if fired.is_full() {
                self.work.bucket = Some((deadline, due));
                return Ok(Flow::More);
            }
            if self.work.inside.is_some() || self.still_waits(id, deadline, before) {
                self.watermark = watermark;
                let out = (&mut *fired, symbols);
                if self.step(id, before, out, KeyMachine::advance)? == Flow::More {
                    self.work.bucket = Some((deadline, due));
                    return Ok(Flow::More);
                }
            }
            due.pass();
        }
        Ok(Flow::Done)
    }

    /// Whether an actor that has registered `deadline` still waits for it; one that has moved on is
    /// registered anew.
    fn still_waits(&mut self, id: ActorId, deadline: EventTime, before: Watermark) -> bool {
        let Some(actor) = self.actors.get_mut(id) else { return false };
        if actor.armed != Some(deadline) {
            return false;
        }
        actor.armed = None;
        let next = actor.machine.next_deadline(&self.rules, before);
        if let Some(later) = next.filter(|next| *next > deadline) {
            self.arm(id, later);
            return false;
        }
        true
    }

    /// One step of one actor, and what it then registers; `before` is the watermark before it. If
    /// the slice is full before all of its windows have been asked, the step goes on with the next.
    fn step(
        &mut self,
        id: ActorId,
        before: Watermark,
        (fired, symbols): (&mut Fired, &Symbols),
        step: impl FnOnce(
            &mut KeyMachine,
            (&MachineRules, Instants<'_>),
            &mut usize,
            &mut Outlet<'_>,
        ) -> Result<Flow, Overflow>,
    ) -> Result<Flow, Overflow> {
        let Some(actor) = self.actors.get_mut(id) else { return Ok(Flow::Done) };
        actor.is_touched = false;
        let begun = self.work.inside.take();
        let mut inside = begun.unwrap_or_else(|| Inside { held: actor.machine.hold(), asked: 0 });
        let (held, shares) = (inside.held, self.shares.known());
        let at = Instants { watermark: self.watermark, before, held, shares, now: self.now };
        let panes = fired.panes.get_or_insert_with(|| PaneBatch::new(self.rules.stage));
        let before = panes.panes.len();
        let (deltas, changes, slice) = (&mut fired.deltas, &mut fired.changes, fired.slice);
        let mut outlet = Outlet { key: &actor.key, deltas, changes, panes, symbols, slice };
        let flow = step(&mut actor.machine, (&self.rules, at), &mut inside.asked, &mut outlet)?;
        for meta in panes.panes.iter().skip(before) {
            match meta.kind {
                PaneKind::Insert => self.account.panes += 1,
                PaneKind::Retract => self.account.retracts += 1,
            }
        }
        match flow {
            Flow::More => self.work.inside = Some(inside),
            Flow::Done => self.register(id),
        }
        Ok(flow)
    }

    /// Registers an actor's deadlines and hold anew; retires it if it has no window left.
    fn register(&mut self, id: ActorId) {
        let Some(actor) = self.actors.get_mut(id) else { return };
        if let Some(dirty) = &mut self.dirty {
            if actor.machine.windows.is_empty() {
                dirty.remove(id, |name| name.extend_from_slice(&actor.key));
            } else {
                dirty.touch(id);
            }
        }
        let hold = actor.machine.hold();
        if hold != actor.hold {
            self.holds.remove(actor.hold);
            self.holds.add(hold);
            actor.hold = hold;
        }
        if actor.machine.windows.is_empty() {
            if let Some(gone) = self.actors.remove(id) {
                self.bytes -= gone.weight;
            }
            return;
        }
        let deadline = actor.machine.next_deadline(&self.rules, self.watermark);
        let armed = actor.armed;
        if let Some(deadline) = deadline.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            self.arm(id, deadline);
        }
        self.register_others(id);
        if self.is_weighed {
            self.weigh(id);
        }
    }

    /// Registers a deadline of an actor.
    fn arm(&mut self, id: ActorId, deadline: EventTime) {
        if let Some(actor) = self.actors.get_mut(id) {
            actor.armed = Some(deadline);
            self.deadlines.entry(deadline).or_default().push(id);
        }
    }

    /// Registers what an actor waits for beside the watermark, second ones and the clock, where it
    /// comes before what it has registered.
    fn register_others(&mut self, id: ActorId) {
        for number in 0..self.shares.known().len() {
            self.arm_share(id, number);
        }
        let Some(actor) = self.actors.get_mut(id) else { return };
        let tick = actor.machine.next_tick(&self.rules, self.now);
        let armed = actor.armed_tick;
        if let Some(tick) = tick.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            actor.armed_tick = Some(tick);
            self.ticks.entry(tick).or_default().push(id);
        }
    }

    /// Registers what an actor waits for by the second watermark of that number.
    fn arm_share(&mut self, id: ActorId, number: usize) {
        let known = self.shares.known().get(number);
        let (Some((_, known)), Some(actor)) = (known, self.actors.get_mut(id)) else { return };
        let deadline = actor.machine.next_completion(&self.rules, *known);
        let Some(armed) = actor.armed_shares.get_mut(number) else { return };
        if let Some(deadline) = deadline.filter(|due| armed.is_none_or(|armed| *due < armed)) {
            *armed = Some(deadline);
            self.shares.register(number, deadline, id);
        }
    }

    /// Takes back what an actor has registered with a second watermark; `false` if it is not what
    /// the actor is armed for.
    fn disarm_share(&mut self, (deadline, number, id): Expected) -> bool {
        let actor = self.actors.get_mut(id);
        let armed = actor.and_then(|actor| actor.armed_shares.get_mut(number));
        let Some(armed) = armed.filter(|armed| **armed == Some(deadline)) else { return false };
        *armed = None;
        true
    }

    /// As [`still_waits`](Self::still_waits), of a deadline by a second watermark.
    fn still_expects(&mut self, expected: Expected) -> bool {
        if !self.disarm_share(expected) {
            return false;
        }
        let (deadline, number, id) = expected;
        let known = self.shares.known().get(number).map(|(_, known)| known.0);
        let before = Watermark(deadline.saturating_sub(Span::from_millis(1)));
        let actor = self.actors.get(id);
        let next = actor.and_then(|actor| actor.machine.next_completion(&self.rules, before));
        let is_due = next.zip(known).is_some_and(|(next, known)| next <= known);
        if !is_due {
            self.arm_share(id, number);
        }
        is_due
    }

    /// As [`still_waits`](Self::still_waits), of a deadline on the clock.
    fn still_waits_for_tick(&mut self, id: ActorId, due: ProcessingTime) -> bool {
        let Some(actor) = self.actors.get_mut(id) else { return false };
        if actor.armed_tick != Some(due) {
            return false;
        }
        actor.armed_tick = None;
        let before = due.saturating_sub(Span::from_millis(1));
        let next = actor.machine.next_tick(&self.rules, before);
        if let Some(later) = next.filter(|next| *next > self.now) {
            actor.armed_tick = Some(later);
            self.ticks.entry(later).or_default().push(id);
        }
        next.is_some_and(|next| next <= self.now)
    }

    /// The output watermark follows the input as far as holds let it, and never falls (WM-1).
    fn settle_output(&mut self) {
        let held = self.holds.first().map_or(self.watermark, Watermark);
        self.output = self.output.max(self.watermark.min(held));
    }

    /// How many deadlines are registered, those that actors have moved on from included.
    #[cfg(test)]
    pub(crate) fn deadlines(&self) -> usize {
        let by_watermark = self.deadlines.values().map(Vec::len).sum::<usize>();
        by_watermark + self.shares.len() + self.ticks.values().map(Vec::len).sum::<usize>()
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

impl Fires for MachineTable {
    /// Ends what a round brought: actors that got something are asked once. Windows that `upcoming`,
    /// the watermark of the same round, completes are asked when it is delivered.
    fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let touched = |table: &mut Self| std::mem::take(&mut table.touched);
        self.ask(touched, (fired, symbols), |machine, at, asked, outlet| {
            machine.end_round(upcoming, at, asked, outlet)
        })
    }

    /// Delivers a watermark to the actors that are due.
    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        let before = match self.work.before {
            Some(before) => before,
            None if watermark <= self.watermark => return Ok(Flow::Done),
            None => {
                // Those that wait for the end of the round have not said what they are due.
                for id in self.touched.clone() {
                    self.register(id);
                }
                for expected in self.shares.follow(watermark) {
                    if self.disarm_share(expected) {
                        self.arm_share(expected.2, expected.1);
                    }
                }
                *self.work.before.insert(self.watermark)
            }
        };
        // One instant at a time: windows fire in the order of their ends.
        loop {
            if self.fire_bucket((watermark, before), fired, symbols)? == Flow::More {
                return Ok(Flow::More);
            }
            if self.shelf.is_some() {
                let hot = self.deadlines.first_key_value().map(|(deadline, _)| *deadline);
                self.recall_due(hot, |at| at <= watermark.0, watermark.0);
            }
            match self.deadlines.first_entry() {
                Some(first) if *first.key() <= watermark.0 => {
                    self.work.bucket = Some((*first.key(), Due::of(first.remove())));
                }
                Some(_) | None => break,
            }
        }
        self.work.before = None;
        self.watermark = watermark;
        if self.actors.is_empty() {
            // Nobody is left who waits for the clock.
            self.ticks.clear();
        }
        self.settle_output();
        Ok(Flow::Done)
    }

    /// The watermark has stood still for too long: every actor emits what its windows hold.
    fn time_out(&mut self, fired: &mut Fired, symbols: &Symbols) -> Result<Flow, Overflow> {
        let mut ids = Vec::new();
        if self.work.asked.is_none() {
            self.recall_each();
            ids = self.ids().collect();
        }
        loop {
            if self.ask(|_| ids, (&mut *fired, symbols), KeyMachine::time_out)? == Flow::More {
                return Ok(Flow::More);
            }
            let Some(next) = self.recall_next(self.watermark.0) else { return Ok(Flow::Done) };
            ids = next;
        }
    }

    fn otherwise(
        &mut self,
        what: &Otherwise,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<Flow, Overflow> {
        match what {
            Otherwise::Nothing => Ok(Flow::Done),
            Otherwise::Shares(promised) => self.share(promised, fired, symbols),
            Otherwise::Tick(now) => self.tick(*now, fired, symbols),
            Otherwise::Signal(name) => self.signal(name, fired, symbols),
        }
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
