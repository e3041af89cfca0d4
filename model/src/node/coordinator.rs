//! Whom the coordinator tells of what: the watermark and the cycles to the shards, turns to read to
//! the sources, and the end behind everything.
//!
//! Around [`Coordinator`], which decides the watermark and whose turn it is, and [`Cycles`], which
//! decides when micro-batches end, and [`Schedule`], which decides when an epoch begins; and it knows
//! when all sources have ended. Invariant: a mark is
//! told after the progress that allows it was handled, and the end after the last watermark and the
//! last cycle.

use super::Mark;
use crate::engine::{Begin, Cycle, Cycles, Engine};
use crate::epoch::{Epoch, Next, Schedule};
use crate::time::{EventTime, ProcessingTime, Watermark};
use crate::watermark::{Coordinator, Progress, Standing};
use std::sync::Arc;

/// What the coordinator sends, in this order.
#[derive(Debug)]
pub enum FromCoordinator {
    /// To every shard.
    Marked(Mark),
    /// To a source: its turn has come.
    Granted {
        /// Number of its partition.
        partition: u32,
        /// How far the furthest of the others has come.
        others: Option<EventTime>,
    },
    /// To every source: a cycle has begun.
    CycleBegun(u64),
    /// For whoever is to know: the watermark has not risen for long.
    StandsStill(Standing),
    /// For whoever is to know: the end, and how the watermark stands.
    Ended(Standing),
}

/// The way of the coordinator.
#[derive(Debug)]
pub struct CoordinatorNode {
    machine: Coordinator,
    engine: Engine,
    /// `None` unless the engine has cycles.
    cycles: Option<Cycles>,
    /// When epochs begin; it knows of none where nothing is stored.
    schedule: Schedule,
    /// The epoch that begins. Emptied by [`CoordinatorNode::take_epoch`].
    begun: Option<Epoch>,
    /// Sources that have not ended. Falls only.
    open_sources: usize,
    /// Whether one was told to stop, and the cycle is left to the next process: none begins any more.
    is_cut_short: bool,
    /// What is to be sent. Emptied by [`CoordinatorNode::take_sends`].
    out: Vec<FromCoordinator>,
}

impl CoordinatorNode {
    /// For so many sources and shards; nothing has been heard of.
    pub fn new(machine: Coordinator, engine: Engine, sources: usize, shards: usize) -> Self {
        Self {
            machine,
            engine,
            cycles: engine.pace().map(|pace| Cycles::new(pace, sources, shards)),
            schedule: Schedule::new(None, Epoch::NONE),
            begun: None,
            open_sources: sources,
            is_cut_short: false,
            out: Vec::new(),
        }
    }

    /// The same, where epochs begin by `schedule`.
    #[must_use]
    pub fn with_epochs(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// The epoch that begins, if one does: behind everything that is to be sent. The state that
    /// belongs to it is that of [`CoordinatorNode::machine`] now.
    pub const fn take_epoch(&mut self) -> Option<Epoch> {
        self.begun.take()
    }

    /// Takes what is to be sent, in order.
    pub fn take_sends(&mut self) -> Vec<FromCoordinator> {
        std::mem::take(&mut self.out)
    }

    /// The machine that decides the watermark.
    pub const fn machine(&self) -> &Coordinator {
        &self.machine
    }

    /// A source reports.
    pub fn progress(&mut self, report: &Progress) {
        let risen = self.machine.progress(report);
        self.tell(risen);
    }

    /// A source has read records and waits for its turn.
    pub fn waiting(&mut self, partition: u32, head: EventTime, watermark: Watermark) {
        let risen = self.machine.wait(partition, head, watermark);
        self.tell(risen);
    }

    /// Takes the time.
    pub fn tick(&mut self, now: ProcessingTime) {
        // Nothing follows the end.
        if self.open_sources == 0 {
            return;
        }
        let risen = self.machine.tick(now);
        self.tell(risen);
        if let Some(cycle) = self.machine.closes() {
            self.out.push(FromCoordinator::Marked(Mark::Cycle(cycle)));
        }
        let next = self.schedule.tick(now);
        self.go_on(next);
        self.turn(|cycles| cycles.tick(now));
        let idle: Vec<_> = self.machine.idle().collect();
        for partition in idle {
            self.turn(|cycles| cycles.rest(partition as usize));
        }
        if let Some(standing) = self.machine.take_standstill() {
            self.out.push(FromCoordinator::StandsStill(standing));
        }
    }

    /// A source has read what belongs to the cycle after `after`.
    pub fn cut(&mut self, partition: u32, after: u64) {
        // Else a cycle has begun meanwhile, and the source reads on.
        if self.cycles.as_ref().is_some_and(|cycles| cycles.begun() == after) {
            self.machine.pause(partition);
        }
        self.turn(|cycles| cycles.cut(partition as usize, after));
        self.tell(None);
    }

    /// A shard has finished a cycle.
    pub fn cycle_finished(&mut self, shard: usize, number: u64) {
        self.turn(|cycles| cycles.finished(shard, number));
    }

    /// A source reads no more.
    pub fn ended(&mut self, partition: u32) {
        self.machine.stop(partition);
        self.tell(None);
        self.open_sources = self.open_sources.saturating_sub(1);
        // Told to stop in the middle of a cycle, it has not read what belongs to it: where state is
        // stored, the next process reads the rest.
        let is_cut_short = self.schedule.is_on() && !self.machine.has_finished(partition);
        if is_cut_short {
            self.is_cut_short = true;
        } else if !self.is_cut_short {
            self.turn(|cycles| cycles.ended(partition as usize));
        }
        // With cycles the end follows the last of them, with epochs the last of those.
        if self.open_sources == 0 && (self.cycles.is_none() || self.is_cut_short) {
            self.input_ended();
        }
    }

    fn input_ended(&mut self) {
        let next = self.schedule.input_ended();
        self.go_on(next);
    }

    /// An epoch is stored, and what belongs to it has been published.
    pub fn concluded(&mut self, epoch: Epoch) {
        let next = self.schedule.concluded(epoch);
        self.go_on(next);
    }

    /// Somebody waits for the next epoch to begin.
    pub fn demanded(&mut self) {
        let next = self.schedule.demanded();
        self.go_on(next);
    }

    /// A signal from outside: every shard hears of it behind what it has been told before.
    pub fn signal(&mut self, name: Arc<str>) {
        // Nothing follows the end.
        if self.open_sources > 0 {
            self.out.push(FromCoordinator::Marked(Mark::Signal(name)));
        }
    }

    /// Nothing can be stored any more.
    pub fn give_up(&mut self) {
        let next = self.schedule.give_up();
        self.go_on(next);
    }

    /// Does what the schedule of epochs says.
    fn go_on(&mut self, next: Next) {
        match next {
            Next::Wait => {}
            Next::Begin(epoch) => self.begun = Some(epoch),
            Next::End => self.end(),
        }
    }

    /// Tells everybody what follows from a fact.
    fn tell(&mut self, risen: Option<Watermark>) {
        if let Some(watermark) = risen.filter(|watermark| self.engine.passes_on(*watermark)) {
            self.out.push(FromCoordinator::Marked(Mark::Watermark(watermark)));
        }
        if let Some(shares) = self.machine.take_shares() {
            self.out.push(FromCoordinator::Marked(Mark::Shares(shares.into())));
        }
        for grant in self.machine.grants() {
            let (partition, others) = (grant.partition, grant.others);
            self.out.push(FromCoordinator::Granted { partition, others });
        }
    }

    /// Takes a fact about the cycles; one begins if that makes it due.
    fn turn(&mut self, fact: impl FnOnce(&mut Cycles) -> Option<Begin>) {
        if self.is_cut_short {
            return;
        }
        let Some(Begin { number, is_last }) = self.cycles.as_mut().and_then(fact) else { return };
        let watermark = self.machine.watermark();
        self.out.push(FromCoordinator::Marked(Mark::Cycle(Cycle { number, watermark })));
        if is_last {
            return self.input_ended();
        }
        self.machine.resume();
        self.out.push(FromCoordinator::CycleBegun(number));
    }

    fn end(&mut self) {
        self.out.push(FromCoordinator::Marked(Mark::End));
        self.out.push(FromCoordinator::Ended(self.machine.standing()));
    }
}
