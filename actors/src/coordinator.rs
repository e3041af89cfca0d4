//! The coordinator: one per node. A shell around [`nilometer_model::watermark::Coordinator`], which
//! decides the watermark; and it knows when all sources have ended.
//!
//! Invariant: a mark is broadcast after the progress that allows it was handled, and the end after
//! the last watermark.

use crate::deliver::{self, Reports};
use crate::message::{Ended, Mark, Progress, Tick};
use crate::meter::Meters;
use crate::report::Report;
use crate::shard::ShardActor;
use actix::{Actor, Addr, Context, Handler};
use nilometer_model::time::Watermark;
use nilometer_model::watermark::Coordinator;
use std::sync::Arc;

/// Takes progress per source partition, broadcasts the watermark and the end.
pub(crate) struct CoordinatorActor {
    pub(crate) machine: Coordinator,
    pub(crate) shards: Vec<Addr<ShardActor>>,
    /// Sources that have not ended. Falls only.
    pub(crate) open_sources: usize,
    pub(crate) meters: Arc<Meters>,
    pub(crate) reports: Reports,
}

impl CoordinatorActor {
    fn broadcast(&mut self, risen: Option<Watermark>) {
        if let Some(watermark) = risen {
            self.meters.set_watermark(watermark);
            deliver::marked(&self.shards, Mark::Watermark(watermark));
        }
    }
}

impl Actor for CoordinatorActor {
    type Context = Context<Self>;
}

impl Handler<Progress> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Progress(report): Progress, _: &mut Self::Context) {
        let risen = self.machine.progress(report);
        self.broadcast(risen);
    }
}

impl Handler<Tick> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, Tick(now): Tick, _: &mut Self::Context) {
        let risen = self.machine.tick(now);
        self.broadcast(risen);
    }
}

impl Handler<Ended> for CoordinatorActor {
    type Result = ();

    fn handle(&mut self, _: Ended, _: &mut Self::Context) {
        self.open_sources = self.open_sources.saturating_sub(1);
        if self.open_sources == 0 {
            deliver::marked(&self.shards, Mark::End);
            self.reports.report(Report::Coordinator(self.machine.watermark()));
        }
    }
}
