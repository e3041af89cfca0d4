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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Binary, Literal, Relation, TypedExpr};
    use crate::key::{KeyGroup, encode, stable_hash};
    use crate::row::{Field, Position, RowLayout, read};
    use crate::time::{EventTime, Span};
    use crate::value::{Datum, Type, Value};
    use crate::watermark::WatermarkSpec;

    fn plan() -> Plan {
        let row = RowLayout::new([Field::new("k", Type::U32), Field::new("v", Type::I64)]);
        let shard_by = vec!["k".into()];
        Plan { name: "t".into(), row: Arc::new(row), stages: Vec::new(), shard_by, key_groups: 64 }
    }

    fn ingest(plan: &Plan, shards: usize) -> Ingest {
        let v = TypedExpr::field(&Field::new("v", Type::I64));
        let zero = TypedExpr::literal(Literal::Int(0));
        let filter = TypedExpr::binary(Binary::Compare(Relation::Greater), v, zero).unwrap();
        let symbols = Arc::new(Symbols::default());
        let refinement = Refinement::bind(&[], Some(&filter), &plan.row, &symbols).unwrap();
        let out_of_orderness = Span::from_millis(5);
        let watermark = WatermarkSettings {
            spec: WatermarkSpec::Bounded { out_of_orderness },
            idle_after: None,
            max_future_skew: Some(Span::from_millis(50)),
        };
        Ingest::new(plan, symbols, Arc::new(refinement), watermark, shards)
    }

    fn batch(plan: &Plan, records: &[(i64, u32, Datum)]) -> RowBatch {
        let mut batch = RowBatch::new(plan.row.clone());
        for (offset, (time, k, v)) in (0..).zip(records) {
            let position = Position { partition: 0, offset };
            let mut row = batch.push(EventTime::from_millis(*time), position);
            row.set(plan.row.slot("k").unwrap(), Datum::Int(i128::from(*k)));
            row.set(plan.row.slot("v").unwrap(), *v);
        }
        batch
    }

    #[test]
    fn every_record_is_handed_on_filtered_or_failed_and_tells_the_time() {
        let plan = plan();
        let mut ingest = ingest(&plan, 1);
        let now = Some(ProcessingTime::from_millis(100));
        let mut records = batch(
            &plan,
            &[
                (10, 1, Datum::Int(1)),
                (40, 1, Datum::Int(-1)),
                (20, 1, Datum::Null),
                (500, 1, Datum::Int(2)),
            ],
        );
        let taken = ingest.take(&mut records, now);
        assert!(records.is_empty());
        let [(0, part)] = &*taken.parts else { panic!("{:?}", taken.parts) };
        let offsets: Vec<_> = (0..part.len()).map(|at| part.position(at).offset).collect();
        assert_eq!((offsets, taken.filtered, taken.failed.len()), (vec![0, 3], 1, 1));
        assert_eq!((taken.reordered, taken.clamped), (1, 1));
        // The clock, less the out-of-orderness: the filtered record counted, the clamped did not.
        assert_eq!(ingest.watermark(), Watermark(EventTime::from_millis(95)));
        let taken = ingest.take(&mut records, now);
        assert!(taken.parts.is_empty(), "no part is empty");
    }

    #[test]
    fn a_record_goes_to_the_shard_of_its_key_group_in_order() {
        let plan = plan();
        let records: Vec<_> = (0..500).map(|n| (n, n as u32 % 40, Datum::Int(1))).collect();
        for shards in [2, 7] {
            let taken = ingest(&plan, shards).take(&mut batch(&plan, &records), None);
            let mut handed_on = 0;
            for (shard, part) in &taken.parts {
                handed_on += part.len();
                for at in 0..part.len() {
                    let Datum::Int(k) = read(part.row(at), plan.row.slot("k").unwrap()) else {
                        panic!()
                    };
                    let mut encoded = Vec::new();
                    encode(&[Value::Int(k)], &mut encoded);
                    let group = KeyGroup::of(stable_hash(&encoded), plan.key_groups);
                    assert_eq!(group.shard(plan.key_groups, shards), *shard);
                    assert!(at == 0 || part.position(at - 1) < part.position(at));
                }
            }
            assert_eq!((handed_on, taken.parts.len()), (500, shards));
        }
    }
}
