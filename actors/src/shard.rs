//! A shard: one per core, on its own thread. A shell around [`nilometer_model::shard::Shard`], which
//! hosts the key actors of a run of key groups, for every stage.
//!
//! Each message is one step of the machine; what it gives is forwarded at once: deltas and stage
//! marks to the other shards, panes and late copies to the sinks, and behind them the watermark they
//! belong to.
//! Invariants: credits of every batch go back exactly once, also after a failure, so that sources
//! can always drain; and a cycle is finished, also by a shard that has failed, so that the others
//! can go on and end.

use crate::closing::{Closing, Step};
use crate::coordinator::CoordinatorActor;
use crate::credit::Backlog;
use crate::deliver::{self, Reports};
use crate::message::{
    Closed, CycleFinished, Exchanged, Handled, Late, Mark, Marked, Panes, Records, StageMarked,
    Tick,
};
use crate::report::{Failure, Report, ShardReport};
use crate::sink::SinkActor;
use crate::source::SourceActor;
use actix::{Actor, Addr, AsyncContext, Context, Handler};
use nilometer_model::engine::Cycle;
use nilometer_model::late::LateBatch;
use nilometer_model::pane::PaneBatch;
use nilometer_model::shard::{Output, Shard, StageError};
use nilometer_model::time::Watermark;
use std::sync::Arc;

/// Whom a shard sends to.
pub(crate) struct ShardLinks {
    /// All shards, this one included, by number.
    pub(crate) shards: Vec<Addr<ShardActor>>,
    pub(crate) sinks: Vec<Addr<SinkActor>>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    /// Per stage, where its output goes.
    pub(crate) routes: Vec<Route>,
    pub(crate) reports: Reports,
}

/// Where the output of a stage goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// Numbers of the sinks of its panes.
    pub(crate) panes: Vec<usize>,
    /// Numbers of the sinks of its late copies, and whether they take those that still counted.
    pub(crate) late: Vec<(usize, bool)>,
}

/// Hosts the key actors of a run of key groups.
pub(crate) struct ShardActor {
    pub(crate) id: usize,
    pub(crate) shard: Shard,
    pub(crate) links: ShardLinks,
    pub(crate) backlog: Backlog<Addr<SourceActor>>,
    pub(crate) closing: Closing,
    /// What a step gives. Empty between two messages.
    pub(crate) output: Output,
    /// Records taken by the machine. Grows only.
    pub(crate) records: u64,
    /// Whether the input has ended: behind its end nothing fires by the clock, since the rounds of
    /// closing have begun.
    pub(crate) has_ended: bool,
    /// What has been passed on to the sinks. Rises only (WM-1).
    pub(crate) passed: Watermark,
    /// The last cycle that the coordinator knows to be finished here. Rises only.
    pub(crate) finished: u64,
    /// Whether a step has failed: the machine is then left alone.
    pub(crate) has_failed: bool,
}

impl ShardActor {
    /// One step of the machine and everything it gives; returns whether it was taken.
    fn step(
        &mut self,
        ctx: &Context<Self>,
        step: impl FnOnce(&mut Shard, &mut Output) -> Result<(), StageError>,
    ) -> bool {
        if self.has_failed {
            return false;
        }
        let result = step(&mut self.shard, &mut self.output);
        self.forward(ctx);
        match result {
            Ok(()) => true,
            Err(error) => {
                self.has_failed = true;
                let failure = Failure::Stage { shard: self.id, error };
                self.links.reports.report(Report::Failure(failure));
                self.skip(self.shard.cycle_begun(), ctx);
                false
            }
        }
    }

    /// A shard that has failed ends its cycles all the same.
    fn skip(&mut self, cycle: u64, ctx: &Context<Self>) {
        self.shard.skip_cycle(cycle, &mut self.output);
        self.forward(ctx);
        self.tell_finished();
    }

    fn cycle(&mut self, cycle: Cycle, ctx: &Context<Self>) {
        if self.has_failed {
            return self.skip(cycle.number, ctx);
        }
        self.step(ctx, |shard, output| shard.cycle(cycle, output));
        self.tell_finished();
    }

    /// Behind what a cycle gave: it is finished, unless others have not ended theirs.
    fn tell_finished(&mut self) {
        let (shard, number) = (self.id, self.shard.finished_cycle());
        if number > self.finished {
            self.finished = number;
            deliver::cycle_finished(&self.links.coordinator, CycleFinished { shard, number });
        }
    }

    fn forward(&mut self, ctx: &Context<Self>) {
        for panes in std::mem::take(&mut self.output.panes) {
            self.emit(panes, ctx);
        }
        for late in std::mem::take(&mut self.output.late) {
            self.tell_late(late, ctx);
        }
        for (to, deltas) in std::mem::take(&mut self.output.exchanges) {
            let Some(shard) = self.links.shards.get(to) else { continue };
            let bytes = deltas.deltas.bytes();
            self.backlog.sent(bytes);
            deliver::exchanged(shard, Exchanged { deltas, bytes, sender: ctx.address() });
        }
        for mark in std::mem::take(&mut self.output.marks) {
            deliver::stage_marked(&self.links.shards, &mark);
        }
        // Behind the panes: what the slowest stage of this shard has completed.
        let watermark = self.shard.passed();
        if watermark > self.passed {
            self.passed = watermark;
            deliver::passed(&self.links.sinks, self.id, watermark);
        }
    }

    fn emit(&mut self, panes: PaneBatch, ctx: &Context<Self>) {
        let (bytes, panes) = (panes.bytes(), Arc::new(panes));
        let route = self.links.routes.get(panes.stage.index());
        for sink in route.map(|route| &route.panes).into_iter().flatten() {
            let Some(sink) = self.links.sinks.get(*sink) else { continue };
            self.backlog.sent(bytes);
            let (panes, sender) = (panes.clone(), ctx.address());
            deliver::panes(sink, Panes { panes, bytes, shard: self.id, sender });
        }
    }

    fn tell_late(&mut self, late: LateBatch, ctx: &Context<Self>) {
        let late = Arc::new(late);
        let dropped = late.dropped_only();
        let route = self.links.routes.get(late.stage.index());
        for (sink, include_late) in route.map(|route| &route.late).into_iter().flatten() {
            let told = if *include_late { &late } else { &dropped };
            let Some(sink) = self.links.sinks.get(*sink).filter(|_| !told.is_empty()) else {
                continue;
            };
            let (bytes, sender) = (told.bytes(), ctx.address());
            self.backlog.sent(bytes);
            deliver::late(sink, Late { late: told.clone(), bytes, sender });
        }
    }

    fn give_back(&mut self) {
        for (source, credit) in self.backlog.due() {
            deliver::returned(&source, credit);
        }
    }

    fn close(&mut self, step: Step) {
        match step {
            Step::Wait => {}
            Step::Tell { round } => deliver::closed(&self.links.shards, round),
            Step::Close => {
                deliver::passed_all(&self.links.sinks);
                self.links.reports.report(Report::Shard(ShardReport {
                    records: self.records,
                    accounts: self.shard.accounts(),
                    incomplete_windows: self.shard.incomplete_windows(),
                    is_empty: self.shard.is_empty(),
                }));
            }
        }
    }
}

impl Actor for ShardActor {
    type Context = Context<Self>;
}

impl Handler<Records> for ShardActor {
    type Result = ();

    fn handle(&mut self, message: Records, ctx: &mut Self::Context) {
        let Records { batch, credit, source } = message;
        if self.step(ctx, |shard, output| shard.records(&batch, output)) {
            self.records = self.records.saturating_add(batch.len() as u64);
        }
        self.backlog.owe(source, credit);
        self.give_back();
    }
}

impl Handler<Marked> for ShardActor {
    type Result = ();

    fn handle(&mut self, Marked(mark): Marked, ctx: &mut Self::Context) {
        match mark {
            Mark::Watermark(watermark) => {
                self.step(ctx, |shard, output| shard.watermark(watermark, output));
            }
            Mark::Cycle(cycle) => self.cycle(cycle, ctx),
            Mark::End => {
                self.has_ended = true;
                self.close(self.closing.input_ended());
            }
        }
    }
}

impl Handler<Exchanged> for ShardActor {
    type Result = ();

    fn handle(&mut self, message: Exchanged, ctx: &mut Self::Context) {
        self.step(ctx, |shard, output| shard.exchange(&message.deltas, output));
        deliver::handled(&message.sender, message.bytes);
    }
}

impl Handler<StageMarked> for ShardActor {
    type Result = ();

    fn handle(&mut self, StageMarked(mark): StageMarked, ctx: &mut Self::Context) {
        self.step(ctx, |shard, output| shard.mark(&mark, output));
        self.tell_finished();
    }
}

impl Handler<Tick> for ShardActor {
    type Result = ();

    fn handle(&mut self, Tick(now): Tick, ctx: &mut Self::Context) {
        if !self.has_ended {
            self.step(ctx, |shard, output| shard.tick(now, output));
        }
    }
}

impl Handler<Closed> for ShardActor {
    type Result = ();

    fn handle(&mut self, message: Closed, _: &mut Self::Context) {
        let step = self.closing.told(message.round);
        self.close(step);
    }
}

impl Handler<Handled> for ShardActor {
    type Result = ();

    fn handle(&mut self, message: Handled, _: &mut Self::Context) {
        self.backlog.handled(message.bytes);
        self.give_back();
    }
}
