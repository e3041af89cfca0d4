//! The store: the only actor that waits for the disk that state lies on. A shell around a
//! [`Store`].
//!
//! It writes the parts of an epoch as they come, commits when the [`StoreNode`] says so, lets the sinks
//! publish what is durable, and tells the coordinator when they have.

use crate::checkpoint::{Part, outbox_block, sink_name, write_part};
use crate::clock::Stopwatch;
use crate::coordinator::CoordinatorActor;
use crate::deliver::{self, Reports};
use crate::figures::StoreFigures;
use crate::histogram::Histogram;
use crate::message::{Block, Finished, GivenUp, Published, Wanted};
use crate::meter::Meters;
use crate::report::{Failure, Report, StoreReport};
use crate::sink::SinkActor;
use crate::source::SourceActor;
use crate::trace::{Tracing, Work};
use actix::{Actor, Addr, Context, Handler};
use nilometer_connectors::store::{Store, StoreError};
use nilometer_model::node::StoreNode;
use nilometer_model::plan::Plan;
use std::sync::Arc;

/// Stores epochs.
pub(crate) struct StoreActor {
    /// `None` once it has failed, or has been closed.
    pub(crate) store: Option<Box<dyn Store>>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) tracing: Tracing,
    pub(crate) keeper: StoreNode,
    /// Blocks of the epoch behind the one whose parts come, which is written first. Emptied by its
    /// commit; a sink sends few before it hears that they have been written.
    pub(crate) early: Vec<Block>,
    /// Bytes of the blocks that have been written ahead. Cleared by the commit of their epoch.
    pub(crate) ahead_bytes: u64,
    pub(crate) sources: Vec<Addr<SourceActor>>,
    pub(crate) sinks: Vec<Addr<SinkActor>>,
    pub(crate) coordinator: Addr<CoordinatorActor>,
    /// Actors that may still have something to say. Falls only.
    pub(crate) open: usize,
    pub(crate) meters: Arc<Meters>,
    /// Since the first part of the epoch that is being stored has come, and how many bytes have.
    pub(crate) begun: Option<(Stopwatch, u64)>,
    pub(crate) report: StoreReport,
    /// How long epochs took.
    pub(crate) epochs: Histogram,
    pub(crate) reports: Reports,
}

impl StoreActor {
    /// Calls the store, unless it has failed before.
    fn attempt(&mut self, call: impl FnOnce(&mut dyn Store) -> Result<(), StoreError>) -> bool {
        let Some(store) = &mut self.store else { return false };
        let result = self.meters.storing.during(|| call(&mut **store));
        let Err(error) = result else { return true };
        self.fail(Failure::Store(error));
        false
    }

    fn fail(&mut self, failure: Failure) {
        self.store = None;
        self.reports.report(Report::Failure(failure));
        self.give_up();
    }

    /// Nothing is stored any more: nobody waits for it.
    fn give_up(&mut self) {
        self.early.clear();
        deliver::sinks_given_up(&self.sinks);
    }

    fn write(&mut self, Block { epoch, piece: (name, bytes), sink }: Block) {
        let count = bytes.len();
        self.ahead_bytes = self.ahead_bytes.saturating_add(count as u64);
        if self.attempt(|store| store.put(epoch, &name, &bytes)) {
            deliver::written(&sink, count);
        }
    }

    fn commit(&mut self) {
        let epoch = self.keeper.epoch();
        let oldest = self.keeper.oldest();
        let mut span = self.tracing.open_in_epoch(Work::EpochFlush, self.tracing.now());
        if !self.attempt(|store| store.commit(epoch, oldest)) {
            span.iter_mut().for_each(|span| span.fail("the store has failed"));
            return;
        }
        drop(span);
        self.measure();
        self.meters.set_durable(epoch);
        let (epoch, is_concluded) = self.keeper.committed();
        deliver::durable((&self.sources, &self.sinks), epoch);
        for block in std::mem::take(&mut self.early) {
            self.write(block);
        }
        if is_concluded {
            deliver::concluded(&self.coordinator, epoch);
        }
    }
}

impl StoreActor {
    /// Counts an epoch that has been committed.
    fn measure(&mut self) {
        let (begun, bytes) = self.begun.take().unzip();
        let ahead = std::mem::take(&mut self.ahead_bytes);
        let took = begun.map(|begun: Stopwatch| begun.elapsed()).unwrap_or_default();
        // What cannot be found out stays as it was: the epoch is durable all the same.
        let disk_bytes = self.store.as_ref().and_then(|store| store.bytes_on_disk().ok());
        let report = &mut self.report;
        report.epochs = report.epochs.saturating_add(1);
        report.last_bytes = bytes.unwrap_or(0).saturating_add(ahead);
        report.bytes = report.bytes.saturating_add(report.last_bytes);
        report.disk_bytes = disk_bytes.unwrap_or(report.disk_bytes);
        (report.took, report.took_max) = (took, took.max(report.took_max));
        self.epochs.observe(took, 1);
        self.meters.set_store(StoreFigures { report: report.clone(), epochs: self.epochs });
    }
}

impl Actor for StoreActor {
    type Context = Context<Self>;
}

impl Handler<Part> for StoreActor {
    type Result = ();

    fn handle(&mut self, part: Part, _: &mut Self::Context) {
        let (epoch, plan) = (self.keeper.epoch(), self.plan.clone());
        let mut span = self.tracing.open_in_epoch(Work::EpochWrite, self.tracing.now());
        let (begun, before) = self.begun.take().unwrap_or_else(|| (Stopwatch::start(), 0));
        self.keeper.needs(part.oldest.unwrap_or(epoch));
        let mut bytes = 0;
        if !self.attempt(|store| {
            bytes = write_part(store, epoch, part, &plan)?;
            Ok(())
        }) {
            return;
        }
        self.begun = Some((begun, before.saturating_add(bytes)));
        if let Some(span) = &mut span {
            span.count("nilometer.bytes", bytes);
        }
        drop(span);
        if self.keeper.part_came() {
            self.commit();
        }
    }
}

impl Handler<Block> for StoreActor {
    type Result = ();

    fn handle(&mut self, block: Block, _: &mut Self::Context) {
        if block.epoch > self.keeper.epoch() {
            self.early.push(block);
        } else {
            self.write(block);
        }
    }
}

impl Handler<Wanted> for StoreActor {
    type Result = ();

    fn handle(&mut self, Wanted { name, number, sink }: Wanted, _: &mut Self::Context) {
        let Some(store) = &self.store else { return };
        match outbox_block(&**store, &name, number) {
            Ok(block) => deliver::given(&sink, block),
            Err(error) => self.fail(Failure::Outbox(error)),
        }
    }
}

impl Handler<GivenUp> for StoreActor {
    type Result = ();

    fn handle(&mut self, _: GivenUp, _: &mut Self::Context) {
        self.give_up();
    }
}

impl Handler<Published> for StoreActor {
    type Result = ();

    fn handle(&mut self, Published { sink, epoch }: Published, _: &mut Self::Context) {
        self.attempt(|store| store.note(&sink_name(&sink), epoch));
        if self.keeper.published() {
            deliver::concluded(&self.coordinator, epoch);
        }
    }
}

impl Handler<Finished> for StoreActor {
    type Result = ();

    fn handle(&mut self, _: Finished, _: &mut Self::Context) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            // Closing it makes notes durable, and lets another process have it.
            self.store = None;
            self.reports.report(Report::Store(self.report.clone()));
        }
    }
}
