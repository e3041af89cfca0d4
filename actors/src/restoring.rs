//! What actors begin with: nothing, or what the last epoch holds of each of them.

use crate::checkpoint::{
    Checkpoint, RestoreError, ShardCut, SinkCut, SourceCut, keep_within, restore_shards,
};
use crate::report::SinkReport;
use nilometer_connectors::source::Polled;
use nilometer_connectors::store::Store;
use nilometer_model::epoch::Epoch;
use nilometer_model::image::Begins;
use nilometer_model::ingest::Ingest;
use nilometer_model::plan::Plan;
use nilometer_model::shard::Shard;
use nilometer_model::symbol::Symbols;
use nilometer_model::watermark::{Coordinator, Renumbering};
use std::sync::Arc;
use std::vec::IntoIter;

/// The last epoch, to be handed out actor by actor, in their order; or nothing.
#[derive(Default)]
pub(crate) struct Restoring {
    epoch: Epoch,
    coordinator: Option<Coordinator>,
    sources: IntoIter<Option<SourceCut>>,
    shards: Vec<ShardCut>,
    sinks: IntoIter<Option<SinkCut>>,
    renumbering: Renumbering,
    begins: Begins,
}

impl Restoring {
    pub(crate) fn new(checkpoint: Option<Checkpoint>) -> Self {
        checkpoint.map_or_else(Self::default, |checkpoint| Self {
            epoch: checkpoint.epoch,
            coordinator: Some(checkpoint.coordinator),
            sources: checkpoint.sources.into_iter(),
            shards: checkpoint.shards,
            sinks: checkpoint.sinks.into_iter(),
            renumbering: checkpoint.renumbering,
            begins: checkpoint.begins,
        })
    }

    /// The epoch that was stored last.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What the next source goes on with; returns how many records of the cycle it has handed on.
    pub(crate) fn source(&mut self, polled: &mut Polled, ingest: &mut Ingest) -> u64 {
        let Some(cut) = self.sources.next().flatten() else { return 0 };
        if !self.begins.counts {
            polled.account = cut.account;
        }
        ingest.restore(cut.estimates, &self.renumbering);
        cut.cycle_records
    }

    /// The machines of all shards, which keep `memory` bytes of state in memory, and how many records
    /// each has taken. What `store` has of them is read.
    pub(crate) fn shards(
        &mut self,
        (plan, symbols): (&Arc<Plan>, &Arc<Symbols>),
        (shards, memory): (usize, Option<usize>),
        store: Option<&dyn Store>,
    ) -> Result<Vec<(Shard, u64)>, RestoreError> {
        if let (Some(store), false) = (store, self.shards.is_empty()) {
            let cuts = (std::mem::take(&mut self.shards), self.begins.clone());
            return restore_shards(store, cuts, (plan, symbols), (shards, memory));
        }
        let new = |id| Shard::new(plan.clone(), symbols.clone(), id, shards);
        let mut new: Vec<_> = (0..shards).map(new).collect();
        if let Some(store) = store {
            keep_within(&mut new, memory, store)?;
        }
        Ok(new.into_iter().map(|shard| (shard, 0)).collect())
    }

    /// What the next sink has counted.
    pub(crate) fn sink(&mut self, report: &mut SinkReport) {
        if let Some(cut) = self.sinks.next().flatten().filter(|_| !self.begins.counts) {
            (report.panes, report.retracts, report.late) = cut.counts;
        }
    }

    /// What the coordinator goes on with.
    pub(crate) fn coordinator(&mut self, machine: &mut Coordinator) {
        if let Some(image) = self.coordinator.take() {
            machine.restore(&image, &self.renumbering);
        }
    }
}
