//! What a shard hands on: the output of its machine in the order that keeps ORDER-1, the credits of
//! its sources, and its part of closing.
//!
//! Each message is one step of the machine; what it gives goes out at once: panes and late copies to
//! the sinks, deltas and stage marks to the other shards, and behind them the watermark they belong
//! to. A step that fires very much gives it in slices, and while too much waits in front of sinks
//! the shard is held: whoever brings it messages keeps them, in their order, until it is not.
//! Invariants: credits of every batch go back exactly once, also after a failure, so that sources can
//! always drain; and a cycle is finished, also by a shard that has failed, so that the others can go
//! on and end.

use super::Mark;
use super::closing::{Closing, Step};
use super::credit::{Backlog, Credit, Limits, Taker};
use super::sent::PanesSent;
use crate::engine::Cycle;
use crate::epoch::Epoch;
use crate::image::{Cut, ImageError, Look, LookError, WrittenKey};
use crate::late::LateBatch;
use crate::pane::{PaneBatch, StageId};
use crate::row::RowBatch;
use crate::shard::{ExchangeDeltas, ExchangeMark, Output, Shard, StageError};
use crate::tick::Tick;
use crate::time::Watermark;
use std::sync::Arc;

/// Where the output of a stage goes.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// Numbers of the sinks of its panes.
    pub panes: Vec<usize>,
    /// Numbers of the sinks of its late copies, and whether they take those that still counted.
    pub late: Vec<(usize, bool)>,
}

/// What a shard sends, in this order. `T` says whose credits it gives back.
#[derive(Debug)]
pub enum FromShard<T> {
    /// Panes to a sink.
    Panes {
        /// Number of the sink.
        sink: usize,
        /// The panes.
        panes: Arc<PaneBatch>,
        /// To be told back once they are written.
        bytes: usize,
    },
    /// Late copies to a sink.
    Late {
        /// Number of the sink.
        sink: usize,
        /// The copies.
        late: Arc<LateBatch>,
        /// To be told back once they are written.
        bytes: usize,
    },
    /// Deltas of an exchanged stage to the shard that owns their keys.
    Exchanged {
        /// Number of the shard.
        to: usize,
        /// The deltas.
        deltas: ExchangeDeltas,
        /// To be told back once they are handled.
        bytes: usize,
    },
    /// To every shard: the watermark of an exchanged stage.
    StageMarked(ExchangeMark),
    /// To every sink: what has passed, behind its panes.
    Passed(Watermark),
    /// To every sink: nothing more will come.
    PassedAll,
    /// To the coordinator: a cycle is finished.
    CycleFinished(u64),
    /// To every shard: a round of closing.
    Closed {
        /// Number of the round, from 1.
        round: usize,
    },
    /// Credits to the source that they are owed to.
    Returned {
        /// Whose they are.
        to: T,
        /// The credits.
        credit: Credit,
    },
    /// The machine cannot go on, for whoever is to know.
    Failed(StageError),
    /// It has handled everything.
    Ended,
}

/// What a shard is made of.
#[derive(Debug)]
pub struct ShardParts {
    /// Its machine.
    pub shard: Shard,
    /// Number of shards, and of stages that are exchanged between them.
    pub closing: Closing,
    /// How much of its output may wait.
    pub limits: Limits,
    /// Per stage, where its output goes.
    pub routes: Vec<Route>,
}

/// The way of one shard.
#[derive(Debug)]
pub struct ShardNode<T> {
    shard: Shard,
    routes: Vec<Route>,
    backlog: Backlog<T>,
    closing: Closing,
    /// What a step gives. Empty between two messages.
    output: Output,
    /// Records taken by the machine. Grows only.
    records: u64,
    /// Panes sent, by stage. Grow only; count from the beginning of the process.
    panes: Vec<PanesSent>,
    /// Whether the input has ended: behind its end nothing fires by the clock, since the rounds of
    /// closing have begun.
    has_ended: bool,
    /// What has been passed on to the sinks. Rises only (WM-1).
    passed: Watermark,
    /// The last cycle that the coordinator knows to be finished here. Rises only.
    finished: u64,
    /// Whether a step has failed: the machine is then left alone.
    has_failed: bool,
    /// What is to be sent. Emptied by [`ShardNode::take_sends`].
    out: Vec<FromShard<T>>,
}

impl<T> ShardNode<T> {
    /// A shard that has handled nothing.
    pub fn new(parts: ShardParts) -> Self {
        Self {
            shard: parts.shard.in_slices(parts.limits.slice_panes),
            panes: vec![PanesSent::default(); parts.routes.len()],
            routes: parts.routes,
            backlog: Backlog::new(parts.limits),
            closing: parts.closing,
            output: Output::default(),
            records: 0,
            has_ended: false,
            passed: Watermark::MIN,
            finished: 0,
            has_failed: false,
            out: Vec::new(),
        }
    }

    /// The same shard, in a process that goes on where it had taken so many records.
    #[must_use]
    pub fn behind(self, records: u64) -> Self {
        Self { records, ..self }
    }

    /// Whether a step has failed: its state is no state then.
    pub const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Takes what is to be sent, in order.
    pub fn take_sends(&mut self) -> Vec<FromShard<T>> {
        std::mem::take(&mut self.out)
    }

    /// Hands over what has changed since the last cut: see [`Shard::cut`].
    ///
    /// # Errors
    /// The state does not serialise: never, as far as known.
    pub fn cut(&mut self, epoch: Epoch) -> Result<Cut, ImageError> {
        self.shard.cut(epoch)
    }

    /// The machine.
    pub const fn shard(&self) -> &Shard {
        &self.shard
    }

    /// What the machine holds of a key, see [`Shard::look`].
    ///
    /// # Errors
    /// See [`LookError`].
    pub fn look(&mut self, stage: StageId, key: &WrittenKey) -> Result<Look, LookError> {
        self.shard.look(stage, key)
    }

    /// Whether it must be given nothing but what [`ShardNode::handled`] takes: a step is not done, or
    /// too much of its output waits in front of sinks.
    pub const fn is_held(&self) -> bool {
        !self.has_failed && (self.shard.is_firing() || !self.backlog.has_room())
    }

    /// Bytes of its output that wait in front of sinks: within their limit, but for one slice.
    pub const fn in_front_of_sinks(&self) -> usize {
        self.backlog.in_front_of_sinks()
    }

    /// Records that the machine has taken.
    pub const fn records_taken(&self) -> u64 {
        self.records
    }

    /// Panes that have been sent to sinks since the process began, by stage in plan order.
    pub fn panes_sent(&self) -> &[PanesSent] {
        &self.panes
    }

    /// Takes records, and the credit that `source` has given for them.
    pub fn records(&mut self, batch: &RowBatch, credit: Credit, source: T) {
        if self.step(|shard, output| shard.records(batch, output)) {
            self.records = self.records.saturating_add(batch.len() as u64);
        }
        self.backlog.owe(source, credit);
        self.give_back();
    }

    /// Takes a mark of the whole input.
    pub fn marked(&mut self, mark: Mark) {
        match mark {
            Mark::Watermark(watermark) => {
                self.step(|shard, output| shard.watermark(watermark, output));
                self.give_back();
            }
            Mark::Shares(shares) => {
                self.step(|shard, output| shard.shares(&shares, output));
            }
            Mark::Cycle(cycle) => self.cycle(cycle),
            Mark::Signal(name) => {
                self.step(|shard, output| shard.signal(&name, output));
                self.give_back();
            }
            Mark::End => {
                self.has_ended = true;
                self.close(self.closing.input_ended());
            }
        }
    }

    /// Takes deltas of an exchange; whoever sent them is then told so.
    pub fn exchanged(&mut self, deltas: &ExchangeDeltas) {
        self.step(|shard, output| shard.exchange(deltas, output));
    }

    /// Takes a mark of an exchange.
    pub fn stage_marked(&mut self, mark: &ExchangeMark) {
        self.step(|shard, output| shard.mark(mark, output));
    }

    /// Takes the time.
    pub fn tick(&mut self, tick: Tick) {
        if !self.has_ended {
            self.step(|shard, output| shard.tick(tick, output));
            self.give_back();
        }
    }

    /// A shard has told of a round of closing.
    pub fn closed(&mut self, round: usize) {
        let step = self.closing.told(round);
        self.close(step);
    }

    /// Output of so many bytes has been handled.
    pub fn handled(&mut self, by: Taker, bytes: usize) {
        self.backlog.handled(by, bytes);
        self.go_on();
        self.give_back();
    }

    /// One step of the machine and everything it gives; returns whether it was taken.
    fn step(
        &mut self,
        step: impl FnOnce(&mut Shard, &mut Output) -> Result<(), StageError>,
    ) -> bool {
        if self.has_failed {
            return false;
        }
        let result = step(&mut self.shard, &mut self.output);
        if self.has_given(result) {
            self.go_on();
        }
        !self.has_failed
    }

    /// Goes on with a step that is not done, as long as there is room for what it gives.
    fn go_on(&mut self) {
        while self.shard.is_firing() && self.backlog.has_room() && !self.has_failed {
            let result = self.shard.go_on(&mut self.output);
            self.has_given(result);
        }
    }

    /// A slice has been given; returns whether it has not failed.
    fn has_given(&mut self, result: Result<(), StageError>) -> bool {
        self.forward();
        if let Err(error) = result {
            self.has_failed = true;
            self.out.push(FromShard::Failed(error));
            self.skip(self.shard.cycle_begun());
        }
        !self.has_failed
    }

    /// A shard that has failed ends its cycles all the same.
    fn skip(&mut self, cycle: u64) {
        self.shard.skip_cycle(cycle, &mut self.output);
        self.forward();
    }

    fn cycle(&mut self, cycle: Cycle) {
        if self.has_failed {
            return self.skip(cycle.number);
        }
        self.step(|shard, output| shard.cycle(cycle, output));
    }

    /// Behind what a cycle gave: it is finished, unless others have not ended theirs.
    fn tell_finished(&mut self) {
        let number = self.shard.finished_cycle();
        if number > self.finished {
            self.finished = number;
            self.out.push(FromShard::CycleFinished(number));
        }
    }

    fn forward(&mut self) {
        for panes in std::mem::take(&mut self.output.panes) {
            self.emit(panes);
        }
        for late in std::mem::take(&mut self.output.late) {
            self.tell_late(late);
        }
        for (to, deltas) in std::mem::take(&mut self.output.exchanges) {
            let bytes = deltas.brought.bytes();
            self.backlog.sent(Taker::Shard, bytes);
            self.out.push(FromShard::Exchanged { to, deltas, bytes });
        }
        for mark in std::mem::take(&mut self.output.marks) {
            self.out.push(FromShard::StageMarked(mark));
        }
        self.output.dropped.clear();
        // Nothing has passed, and no cycle is finished, before all of it has fired.
        if self.shard.is_firing() {
            return;
        }
        // Behind the panes: what the slowest stage of this shard has completed.
        let watermark = self.shard.passed();
        if watermark > self.passed {
            self.passed = watermark;
            self.out.push(FromShard::Passed(watermark));
        }
        self.tell_finished();
    }

    fn emit(&mut self, panes: PaneBatch) {
        if let Some(sent) = self.panes.get_mut(panes.stage.index()) {
            sent.count(&panes);
        }
        let (bytes, panes) = (panes.bytes(), Arc::new(panes));
        let route = self.routes.get(panes.stage.index());
        for sink in route.map(|route| &route.panes).into_iter().flatten() {
            self.backlog.sent(Taker::Sink, bytes);
            self.out.push(FromShard::Panes { sink: *sink, panes: panes.clone(), bytes });
        }
    }

    fn tell_late(&mut self, late: LateBatch) {
        let late = Arc::new(late);
        let dropped = late.dropped_only();
        let route = self.routes.get(late.stage.index());
        for (sink, include_late) in route.map(|route| &route.late).into_iter().flatten() {
            let told = if *include_late { &late } else { &dropped };
            if told.is_empty() {
                continue;
            }
            let bytes = told.bytes();
            self.backlog.sent(Taker::Sink, bytes);
            self.out.push(FromShard::Late { sink: *sink, late: told.clone(), bytes });
        }
    }

    fn give_back(&mut self) {
        // Whoever waits for room gets nothing to read.
        if self.shard.is_full() && !self.has_ended && !self.has_failed {
            return;
        }
        for (to, credit) in self.backlog.due() {
            self.out.push(FromShard::Returned { to, credit });
        }
    }

    fn close(&mut self, step: Step) {
        match step {
            Step::Wait => {}
            Step::Tell { round } => self.out.push(FromShard::Closed { round }),
            Step::Close => {
                self.out.push(FromShard::PassedAll);
                self.out.push(FromShard::Ended);
            }
        }
    }
}
