//! The coordinator: one per node. A shell around [`nilometer_model::watermark::Coordinator`], which
//! decides the watermark and whose turn it is to read; and it knows when all sources have ended.
//!
//! Invariant: a mark is broadcast after the progress that allows it was handled, and the end after
//! the last watermark.

use crate::deliver::{self, Reports};
use crate::message::{Ended, Granted, Mark, Progress, Tick, Waiting};
use crate::meter::Meters;
use crate::report::Report;
use crate::shard::ShardActor;
use crate::source::SourceActor;
use actix::{Actor, Addr, Context, Handler};
use nilometer_model::time::Watermark;
use nilometer_model::watermark::Coordinator;
use std::sync::Arc;

/// Takes progress per source partition, broadcasts the watermark and the end.
pub(crate) struct CoordinatorActor {
    pub(crate) machine: Coordinator,
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
            deliver::marked(&self.shards, Mark::Watermark(watermark));
        }
        for grant in self.machine.grants() {
            let Some(source) = self.sources.get(grant.partition as usize) else { continue };
            deliver::granted(source, Granted { others: grant.others });
        }
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
        let risen = self.machine.tick(now);
        self.tell(risen);
        if let Some(standing) = self.machine.take_standstill() {
            self.reports.report(Report::StandsStill(standing));
        }
    }
}

impl Handler<Ended> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Ended { partition }: Ended, _: &mut Self::Context) {
        self.machine.stop(partition);
        self.tell(None);
        self.open_sources = self.open_sources.saturating_sub(1);
        if self.open_sources == 0 {
            deliver::marked(&self.shards, Mark::End);
            self.reports.report(Report::Coordinator(self.machine.standing()));
        }
    }
}
