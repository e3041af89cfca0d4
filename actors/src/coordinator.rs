//! The coordinator: one per node. A shell around [`nilometer_model::watermark::Coordinator`], which
//! decides the watermark and whose turn it is to read, and around [`Cycles`], which decides when
//! micro-batches end; and it knows when all sources have ended.
//!
//! Invariant: a mark is broadcast after the progress that allows it was handled, and the end after
//! the last watermark and the last cycle.

use crate::deliver::{self, Reports};
use crate::message::{Cut, CycleFinished, Ended, Granted, Mark, Progress, Tick, Waiting};
use crate::meter::Meters;
use crate::report::Report;
use crate::shard::ShardActor;
use crate::source::SourceActor;
use actix::{Actor, Addr, Context, Handler};
use nilometer_model::engine::{Begin, Cycle, Cycles, Engine};
use nilometer_model::time::Watermark;
use nilometer_model::watermark::Coordinator;
use std::sync::Arc;

/// Takes progress per source partition, broadcasts the watermark and the end.
pub(crate) struct CoordinatorActor {
    pub(crate) machine: Coordinator,
    pub(crate) engine: Engine,
    /// `None` unless the engine has cycles.
    pub(crate) cycles: Option<Cycles>,
    /// All sources, by partition.
    pub(crate) sources: Vec<Addr<SourceActor>>,
    pub(crate) shards: Vec<Addr<ShardActor>>,
    /// Sources that have not ended. Falls only.
    pub(crate) open_sources: usize,
    pub(crate) meters: Arc<Meters>,
    pub(crate) reports: Reports,
}

impl CoordinatorActor {
    /// Tells everybody what follows from a fact.
    fn tell(&mut self, risen: Option<Watermark>) {
        if let Some(watermark) = risen {
            self.meters.set_watermark(watermark);
            if self.engine.passes_on(watermark) {
                deliver::marked(&self.shards, Mark::Watermark(watermark));
            }
        }
        for grant in self.machine.grants() {
            let Some(source) = self.sources.get(grant.partition as usize) else { continue };
            deliver::granted(source, Granted { others: grant.others });
        }
    }

    /// Takes a fact about the cycles; one begins if that makes it due.
    fn turn(&mut self, fact: impl FnOnce(&mut Cycles) -> Option<Begin>) {
        let Some(Begin { number, is_last }) = self.cycles.as_mut().and_then(fact) else { return };
        let watermark = self.machine.watermark();
        deliver::marked(&self.shards, Mark::Cycle(Cycle { number, watermark }));
        if is_last {
            return self.end();
        }
        self.machine.resume();
        deliver::cycle_begun(&self.sources, number);
    }

    fn end(&self) {
        deliver::marked(&self.shards, Mark::End);
        self.reports.report(Report::Coordinator(self.machine.standing()));
    }
}

impl Actor for CoordinatorActor {
    type Context = Context<Self>;
}

impl Handler<Progress> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Progress(report): Progress, _: &mut Self::Context) {
        let risen = self.machine.progress(&report);
        self.tell(risen);
    }
}

impl Handler<Waiting> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, message: Waiting, _: &mut Self::Context) {
        let Waiting { partition, head, watermark } = message;
        let risen = self.machine.wait(partition, head, watermark);
        self.tell(risen);
    }
}

impl Handler<Tick> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Tick(now): Tick, _: &mut Self::Context) {
        // Nothing follows the end.
        if self.open_sources == 0 {
            return;
        }
        let risen = self.machine.tick(now);
        self.tell(risen);
        if let Some(cycle) = self.machine.closes() {
            deliver::marked(&self.shards, Mark::Cycle(cycle));
        }
        self.turn(|cycles| cycles.tick(now));
        let idle: Vec<_> = self.machine.idle().collect();
        for partition in idle {
            self.turn(|cycles| cycles.rest(partition as usize));
        }
        if let Some(standing) = self.machine.take_standstill() {
            self.reports.report(Report::StandsStill(standing));
        }
    }
}

impl Handler<Cut> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Cut { partition, after }: Cut, _: &mut Self::Context) {
        // Else a cycle has begun meanwhile, and the source reads on.
        if self.cycles.as_ref().is_some_and(|cycles| cycles.begun() == after) {
            self.machine.pause(partition);
        }
        self.turn(|cycles| cycles.cut(partition as usize, after));
        self.tell(None);
    }
}

impl Handler<CycleFinished> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, message: CycleFinished, _: &mut Self::Context) {
        self.turn(|cycles| cycles.finished(message.shard, message.number));
    }
}

impl Handler<Ended> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Ended { partition }: Ended, _: &mut Self::Context) {
        self.machine.stop(partition);
        self.tell(None);
        self.open_sources = self.open_sources.saturating_sub(1);
        self.turn(|cycles| cycles.ended(partition as usize));
        // With cycles the end follows the last of them.
        if self.open_sources == 0 && self.cycles.is_none() {
            self.end();
        }
    }
}
