//! What happens to the records of one source between its reader and the shards: every event time
//! moves the watermark estimate of its partition, records are refined (derived fields,
//! filter), and each goes to the shard that owns its key.
//!
//! Invariant: of the records taken in, each is in exactly one part, filtered, or failed.

use crate::expr::{Failed, Refinement};
use crate::key::Router;
use crate::plan::Plan;
use crate::row::RowBatch;
use crate::symbol::Symbols;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use crate::watermark::{
    Estimates, EstimatesImage, Estimation, Marks, Reader, Renumbering, Surroundings, TooFar,
};
use std::sync::Arc;

/// The way of one source's records to the shards.
#[derive(Debug)]
pub struct Ingest {
    symbols: Arc<Symbols>,
    refinement: Arc<Refinement>,
    /// What its partitions promise. Part of a checkpoint.
    estimates: Estimates,
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
    /// Number of records in all parts.
    pub accepted: u64,
    /// Records that the filter left out.
    pub filtered: u64,
    /// Records whose filter or derived field could not be computed.
    pub failed: Vec<Failed>,
    /// Records rejected because they lie too far in the future.
    pub too_far: Vec<TooFar>,
    /// The rows of these: of those in `too_far`, then of those in `failed`.
    pub rejected: Vec<Box<[u64]>>,
    /// What was remarkable about records, and no outcome.
    pub marks: Marks,
}

impl Ingest {
    /// For one source of a plan that runs on `shards` shards; the source is one partition.
    pub fn new(
        plan: &Plan,
        symbols: Arc<Symbols>,
        refinement: Arc<Refinement>,
        watermark: Estimation,
        shards: usize,
    ) -> Self {
        Self {
            symbols,
            refinement,
            estimates: Estimates::new(watermark, &plan.shares),
            router: Router::from_row(&plan.row, &plan.shard_by, plan.key_groups, shards),
            shards,
            owners: Vec::new(),
        }
    }

    /// Takes the records of `batch`, which is left empty.
    ///
    /// A record that the filter leaves out has told the time all the same: it was read, and none
    /// earlier is promised behind it.
    pub fn take(&mut self, batch: &mut RowBatch, around: Surroundings) -> Taken {
        let mut taken = Taken::default();
        self.observe(batch, around, &mut taken);
        let refined = self.refinement.apply(batch, &self.symbols);
        (taken.filtered, taken.failed) = (refined.filtered, refined.failed);
        taken.rejected.extend(refined.rows);
        taken.accepted = batch.len() as u64;
        taken.parts = self.split(batch);
        taken
    }

    /// The same for a source of several partitions; see [`Estimates`].
    #[must_use]
    pub fn partitioned(self, max_drift: Option<Span>) -> Self {
        Self { estimates: self.estimates.partitioned(max_drift), ..self }
    }

    /// What the source may promise behind the records taken so far.
    pub fn watermark(&self) -> Watermark {
        self.estimates.watermark()
    }

    /// What it may promise while the records of `batch`, which were read and not taken yet, wait.
    pub fn watermark_before(&self, earliest: EventTime, around: Surroundings) -> Watermark {
        self.estimates.watermark_before(earliest, around)
    }

    /// Takes notice of where the readers of its partitions stand, behind the records taken so far.
    pub fn stand(&mut self, readers: &[Reader]) {
        self.estimates.stand(readers);
    }

    /// It may not read on.
    pub fn block(&mut self) {
        self.estimates.block();
    }

    /// The texts of its records.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Goes on with the estimates of `image`, see [`Estimates::restore`].
    pub fn restore(&mut self, image: EstimatesImage, renumbering: &Renumbering) {
        self.estimates.restore(image, renumbering);
    }

    /// The watermark estimates.
    pub const fn estimates(&self) -> &Estimates {
        &self.estimates
    }

    /// The time has come to `now`; what may be promised can rise by it.
    pub fn tick(&mut self, now: ProcessingTime) {
        self.estimates.tick(now);
    }

    /// Lets every record tell the time; those that tell one too far in the future are taken out,
    /// if they are to be.
    fn observe(&mut self, batch: &mut RowBatch, around: Surroundings, taken: &mut Taken) {
        // Ascending indices of the records to take out; allocates nothing if there is none.
        let mut out = Vec::new();
        for index in 0..batch.len() {
            let record = (&mut *batch, index);
            let watched = self.estimates.watch(record, around, &self.symbols, &mut taken.marks);
            if let Err(too_far) = watched {
                taken.too_far.push(too_far);
                taken.rejected.push(batch.row(index).into());
                out.push(index);
            }
        }
        let mut out = out.into_iter().peekable();
        if out.peek().is_some() {
            batch.retain(|index| out.next_if_eq(&index).is_none());
        }
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
    use crate::engine::Engine;
    use crate::expr::{Binary, Literal, Relation, TypedExpr};
    use crate::key::{KeyGroup, encode, stable_hash};
    use crate::row::{Field, Position, RowLayout, read};
    use crate::time::Span;
    use crate::value::{Datum, Type, Value};
    use crate::watermark::{Clamped, FutureSkew, Punctuation, WatermarkSettings, WatermarkSpec};

    fn plan() -> Plan {
        let row = RowLayout::new([Field::new("k", Type::U32), Field::new("v", Type::I64)]);
        let shard_by = vec!["k".into()];
        Plan {
            shares: Vec::new(),
            name: "t".into(),
            row: Arc::new(row),
            stages: Vec::new(),
            shard_by,
            key_groups: 64,
            engine: Engine::Streaming,
        }
    }

    const BOUNDED: WatermarkSettings = WatermarkSettings {
        future_skew: FutureSkew::Clock(Span::from_millis(50)),
        ..WatermarkSettings::new(WatermarkSpec::Bounded { out_of_orderness: Span::from_millis(5) })
    };

    fn ingest(plan: &Plan, watermark: Estimation, shards: usize) -> Ingest {
        let v = TypedExpr::field(&Field::new("v", Type::I64));
        let zero = TypedExpr::literal(Literal::Int(0));
        let filter = TypedExpr::binary(Binary::Compare(Relation::Greater), v, zero).unwrap();
        let symbols = Arc::new(Symbols::default());
        let refinement = Refinement::bind(&[], Some(&filter), &plan.row, &symbols).unwrap();
        Ingest::new(plan, symbols, Arc::new(refinement), watermark, shards)
    }

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn now(millis: i64) -> Surroundings {
        Surroundings { now: Some(ProcessingTime::from_millis(millis)), others: None }
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
        let mut ingest = ingest(&plan, BOUNDED.into(), 1);
        let now = now(100);
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
        assert_eq!(taken.marks, Marks { reordered: 1, clamped: 1, ..Marks::default() });
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
            let mut ingest = ingest(&plan, BOUNDED.into(), shards);
            let taken = ingest.take(&mut batch(&plan, &records), Surroundings::default());
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

    /// Offsets of the records handed on.
    fn offsets(taken: &Taken) -> Vec<u64> {
        let parts = taken.parts.iter();
        parts.flat_map(|(_, part)| (0..part.len()).map(|at| part.position(at).offset)).collect()
    }

    #[test]
    fn what_lies_too_far_in_the_future_is_rejected_where_that_is_wanted() {
        let plan = plan();
        let settings = WatermarkSettings { clamped: Clamped::Reject, ..BOUNDED };
        let mut ingest = ingest(&plan, settings.into(), 1);
        let decade = 315_360_000_000;
        // The filter would have left out the last.
        let one = Datum::Int(1);
        let records = [(10, 1, one), (decade, 1, one), (150, 1, one), (151, 1, Datum::Int(0))];
        let taken = ingest.take(&mut batch(&plan, &records), now(100));
        assert_eq!(offsets(&taken), [0, 2]);
        let position = |offset| Position { partition: 0, offset };
        let too_far = |offset, time| TooFar { position: position(offset), time: at(time) };
        assert_eq!(taken.too_far, [too_far(1, decade), too_far(3, 151)]);
        assert_eq!(taken.rejected.len(), 2);
        assert_eq!((taken.filtered, taken.marks.clamped), (0, 2));
        assert_eq!(ingest.watermark(), Watermark(at(145)));
        let text = "its event time 151 lies further in the future than `max_future_skew` allows";
        assert_eq!(taken.too_far[1].to_string(), text);
    }

    #[test]
    fn records_carry_the_watermark_even_if_they_are_filtered() {
        let plan = plan();
        let symbols = Symbols::default();
        let settings = WatermarkSettings { spec: WatermarkSpec::Punctuated, ..BOUNDED };
        // The value is the watermark, or a record of `k` 7 says that its own time is.
        let carried = TypedExpr::field(&Field::new("v", Type::I64));
        let seven = TypedExpr::literal(Literal::Int(7));
        let k = TypedExpr::field(&Field::new("k", Type::U32));
        let marker = TypedExpr::binary(Binary::Compare(Relation::Equal), k, seven).unwrap();
        let divided = TypedExpr::binary(
            Binary::Arithmetic(crate::expr::Arithmetic::Divide),
            TypedExpr::literal(Literal::Int(70)),
            carried.clone(),
        );
        let records = [
            (10, 1, Datum::Int(20)),
            (30, 7, Datum::Int(0)),
            (40, 1, Datum::Null),
            (50, 7, Datum::Int(15)),
            (45, 7, Datum::Int(i64::MAX.into())),
        ];
        for (expression, watermark, marks) in [
            (carried, 100, Marks { went_back: 2, clamped: 1, ..Marks::default() }),
            (marker, 50, Marks { went_back: 1, ..Marks::default() }),
            // 3, a division by zero, no value, 4, 0.
            (divided.unwrap(), 4, Marks { went_back: 1, unreadable: 2, ..Marks::default() }),
        ] {
            let punctuation = Punctuation::bind(&expression, &plan.row, &symbols).unwrap();
            let estimation = Estimation { settings, punctuation: Some(punctuation) };
            let mut ingest = ingest(&plan, estimation, 1);
            let taken = ingest.take(&mut batch(&plan, &records), now(100));
            assert_eq!(offsets(&taken), [0, 3, 4]);
            assert_eq!(ingest.watermark(), Watermark(at(watermark)), "{expression:?}");
            assert_eq!(taken.marks, Marks { reordered: 1, ..marks }, "{expression:?}");
        }
    }

    #[test]
    fn records_take_the_time_of_their_arrival() {
        let plan = plan();
        let settings = WatermarkSettings::new(WatermarkSpec::Ingestion);
        let mut ingest = ingest(&plan, settings.into(), 1);
        ingest.tick(ProcessingTime::from_millis(1_000));
        let records = [(i64::MAX, 1, Datum::Int(1)), (i64::MIN, 1, Datum::Int(1))];
        let taken = ingest.take(&mut batch(&plan, &records), now(1_000));
        let [(0, part)] = &*taken.parts else { panic!("{:?}", taken.parts) };
        assert_eq!(part.times(), [at(1_000), at(1_000)]);
        assert_eq!(ingest.watermark(), Watermark(at(1_000)));
        assert_eq!(taken.marks, Marks::default());
        ingest.tick(ProcessingTime::from_millis(2_000));
        assert_eq!(ingest.watermark(), Watermark(at(2_000)), "nobody has to come for that");
    }
}
