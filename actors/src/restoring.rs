//! What actors begin with: nothing, or what the last epoch holds of each of them.

use crate::checkpoint::{Checkpoint, ShardCut, SinkCut, SourceCut};
use crate::report::SinkReport;
use crate::wiring::StartError;
use nilometer_connectors::source::Polled;
use nilometer_model::epoch::Epoch;
use nilometer_model::ingest::Ingest;
use nilometer_model::plan::Plan;
use nilometer_model::shard::Shard;
use nilometer_model::symbol::Symbols;
use nilometer_model::watermark::Coordinator;
use std::sync::Arc;
use std::vec::IntoIter;

/// The last epoch, to be handed out actor by actor, in their order; or nothing.
#[derive(Default)]
pub(crate) struct Restoring {
    epoch: Epoch,
    coordinator: Option<Coordinator>,
    sources: IntoIter<SourceCut>,
    shards: IntoIter<ShardCut>,
    sinks: IntoIter<SinkCut>,
}

impl Restoring {
    pub(crate) fn new(checkpoint: Option<Checkpoint>) -> Self {
        checkpoint.map_or_else(Self::default, |checkpoint| Self {
            epoch: checkpoint.epoch,
            coordinator: Some(checkpoint.coordinator),
            sources: checkpoint.sources.into_iter(),
            shards: checkpoint.shards.into_iter(),
            sinks: checkpoint.sinks.into_iter(),
        })
    }

    /// The epoch that was stored last.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What the next source goes on with.
    pub(crate) fn source(&mut self, polled: &mut Polled, ingest: &mut Ingest) {
        if let Some(cut) = self.sources.next() {
            polled.account = cut.account;
            ingest.restore(cut.generator);
        }
    }

    /// The machine of the next shard, and how many records it has taken.
    pub(crate) fn shard(
        &mut self,
        plan: &Arc<Plan>,
        symbols: &Arc<Symbols>,
        (id, shards): (usize, usize),
    ) -> Result<(Shard, u64), StartError> {
        let (plan, symbols) = (plan.clone(), symbols.clone());
        let Some(cut) = self.shards.next() else {
            return Ok((Shard::new(plan, symbols, id, shards), 0));
        };
        let shard = Shard::decode(plan, symbols, (id, shards), &cut.image)?;
        Ok((shard, cut.records))
    }

    /// What the next sink has counted.
    pub(crate) fn sink(&mut self, report: &mut SinkReport) {
        if let Some(cut) = self.sinks.next() {
            (report.panes, report.retracts, report.late) = cut.counts;
        }
    }

    /// What the coordinator goes on with.
    pub(crate) fn coordinator(&mut self, machine: &mut Coordinator) {
        if let Some(image) = self.coordinator.take() {
            machine.restore(image);
        }
    }
}
