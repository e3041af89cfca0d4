//! What happens to the records of one source partition between its reader and the shards: every
//! event time moves the partition's watermark estimate, records are refined (derived fields,
//! filter), and each goes to the shard that owns its key.
//!
//! Invariant: of the records taken in, each is in exactly one part, filtered, or failed.

use crate::expr::{Failed, Refinement};
use crate::key::Router;
use crate::plan::Plan;
use crate::row::RowBatch;
use crate::symbol::Symbols;
use crate::time::{ProcessingTime, Watermark};
use crate::watermark::{Generator, Observed, WatermarkSettings};
use std::sync::Arc;

/// The way of one partition's records to the shards.
#[derive(Debug)]
pub struct Ingest {
    symbols: Arc<Symbols>,
    refinement: Arc<Refinement>,
    /// The partition's watermark estimate. Part of a checkpoint.
    generator: Generator,
    router: Router,
    shards: usize,
    /// The shard of each record of a batch. Holds nothing between two batches.
    owners: Vec<u32>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Taken {
    /// Records by the shard that owns them, in arrival order; no part is empty.
    pub parts: Vec<(usize, RowBatch)>,
    /// Records that the filter left out.
    pub filtered: u64,
    /// Records whose filter or derived field could not be computed.
    pub failed: Vec<Failed>,
    /// Records that came after one with a larger event time. A mark, no outcome.
    pub reordered: u64,
    /// Records too far ahead of the clock to move the watermark. A mark, no outcome.
    pub clamped: u64,
}

impl Ingest {
    /// For one partition of a plan that runs on `shards` shards.
    pub fn new(
        plan: &Plan,
        symbols: Arc<Symbols>,
        refinement: Arc<Refinement>,
        watermark: WatermarkSettings,
        shards: usize,
    ) -> Self {
        Self {
            symbols,
            refinement,
            generator: Generator::new(watermark),
            router: Router::from_row(&plan.row, &plan.shard_by, plan.key_groups, shards),
            shards,
            owners: Vec::new(),
        }
    }

    /// Takes the records of `batch`, which is left empty. `now` is the last tick.
    ///
    /// A record that the filter leaves out has told the time all the same: it was read, and none
    /// earlier is promised behind it.
    pub fn take(&mut self, batch: &mut RowBatch, now: Option<ProcessingTime>) -> Taken {
        let mut taken = Taken::default();
        for index in 0..batch.len() {
            match self.generator.observe(batch.time(index), now) {
                Observed::InOrder => {}
                Observed::Reordered => taken.reordered += 1,
                Observed::Clamped => taken.clamped += 1,
            }
        }
        let refined = self.refinement.apply(batch, &self.symbols);
        (taken.filtered, taken.failed) = (refined.filtered, refined.failed);
        taken.parts = self.split(batch);
        taken
    }

    /// What the partition may promise behind the records taken so far.
    pub fn watermark(&self) -> Watermark {
        self.generator.watermark()
    }

    fn split(&mut self, batch: &mut RowBatch) -> Vec<(usize, RowBatch)> {
        if batch.is_empty() {
            return Vec::new();
        }
        if self.shards <= 1 {
            let empty = RowBatch::new(batch.layout().clone());
            return vec![(0, std::mem::replace(batch, empty))];
        }
        self.owners.clear();
        let mut counts = vec![0; self.shards];
        for index in 0..batch.len() {
            let owner = self.router.shard(batch.row(index), &self.symbols);
            if let Some(count) = counts.get_mut(owner) {
                *count += 1;
            }
            // A shard's number fits: there are fewer than key groups.
            self.owners.push(owner as u32);
        }
        let part = |count| RowBatch::with_capacity(batch.layout().clone(), count);
        let mut parts: Vec<_> = counts.into_iter().map(part).collect();
        for (index, owner) in self.owners.iter().enumerate() {
            if let Some(part) = parts.get_mut(*owner as usize) {
                part.push_row(batch.row(index), batch.time(index), batch.position(index));
            }
        }
        batch.clear();
        parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()).collect()
    }
}
