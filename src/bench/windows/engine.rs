//! The side of the engine: one shard, fed by hand, timed.

use super::input::Record;
use super::{BenchError, Pane};
use crate::bench::measure::resident_bytes;
use nilometer_model::aggregate::Function;
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn, Plan};
use nilometer_model::row::{Field, Position, RowBatch};
use nilometer_model::shard::{Output, Shard, StageError};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{EventTime, Watermark};
use nilometer_model::value::{Datum, Type};
use nilometer_model::window::WindowFn;
use std::sync::Arc;
use std::time::Instant;

/// Records of one batch, after which the watermark rises to its last.
const BATCH_RECORDS: usize = 4_096;

/// Seconds that a run took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// With records.
    pub(super) taking: f64,
    /// With watermarks.
    pub(super) firing: f64,
}

impl Spent {
    pub(super) fn total(self) -> f64 {
        self.taking + self.firing
    }

    /// The shorter of two runs.
    pub(super) fn min(self, other: Self) -> Self {
        if other.total() < self.total() { other } else { self }
    }
}

/// Seconds of a run in which all sessions are open at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    /// With the first record of each.
    pub(super) opening: f64,
    /// With the second.
    pub(super) joining: f64,
    /// With the watermark that completes all.
    pub(super) firing: f64,
    /// By how much resident memory grew with the records.
    pub(super) grown_bytes: Option<u64>,
}

impl Opened {
    /// The best of each part.
    pub(super) fn min(self, other: Self) -> Self {
        Self {
            opening: self.opening.min(other.opening),
            joining: self.joining.min(other.joining),
            firing: self.firing.min(other.firing),
            ..self
        }
    }
}

/// Count and sum for each key, in windows of one function; nothing is kept after them.
pub(super) fn plan(window: WindowFn) -> Result<Arc<Plan>, BenchError> {
    let mut sums = Grouping::new("sums", window);
    sums.key = vec![KeyColumn::plain("k")];
    sums.aggregates = vec![
        AggregateSpec::new("count", Function::Count, None),
        AggregateSpec::new("sum", Function::Sum, Some("v")),
    ];
    sums.sinks = vec!["panes".into()];
    let fields = vec![Field::new("k", Type::U64), Field::new("v", Type::U32)];
    let job = Job::new("windows", fields, vec![sums]);
    let plan = nilometer_model::planner::plan(&job).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        BenchError::Plan(errors.join("; "))
    })?;
    Ok(Arc::new(plan))
}

/// The records as rows of the plan.
pub(super) fn batches(plan: &Plan, records: &[Record]) -> Vec<RowBatch> {
    let slots = (plan.row.slot("k"), plan.row.slot("v"));
    let batch = |records: &[Record]| {
        let mut batch = RowBatch::new(plan.row.clone());
        for record in records {
            let mut row = batch.push(EventTime::from_millis(record.time), Position::default());
            if let (Some(key), Some(value)) = slots {
                row.set(key, Datum::Int(record.key.into()));
                row.set(value, Datum::Int(record.value.into()));
            }
        }
        batch
    };
    records.chunks(BATCH_RECORDS).map(batch).collect()
}

/// Runs everything; panes are read while the clock stands.
pub(super) fn run(
    plan: &Arc<Plan>,
    batches: &[RowBatch],
) -> Result<(Spent, Vec<Pane>), BenchError> {
    let mut shard = Shard::new(plan.clone(), Arc::new(Symbols::default()), 0, 1);
    let (mut spent, mut panes, mut out) = (Spent::default(), Vec::new(), Output::default());
    for batch in batches {
        spent.taking += timed(|| shard.records(batch, &mut out))?;
        let last = batch.len().checked_sub(1).map(|last| batch.time(last));
        let watermark = last.map_or(Watermark::MIN, Watermark);
        spent.firing += timed(|| shard.watermark(watermark, &mut out))?;
        read(plan, &mut out, &mut panes);
    }
    spent.firing += timed(|| shard.watermark(Watermark::MAX, &mut out))?;
    read(plan, &mut out, &mut panes);
    Ok((spent, panes))
}

/// Opens a session with each record of the first batches, to which those of the second belong.
pub(super) fn open(
    plan: &Arc<Plan>,
    (first, second): (&[RowBatch], &[RowBatch]),
) -> Result<Opened, BenchError> {
    let mut shard = Shard::new(plan.clone(), Arc::new(Symbols::default()), 0, 1);
    let mut out = Output::default();
    let before = resident_bytes();
    let mut all = |batches: &[RowBatch]| -> Result<f64, BenchError> {
        batches.iter().map(|batch| timed(|| shard.records(batch, &mut out))).sum()
    };
    let (opening, joining) = (all(first)?, all(second)?);
    let grown = resident_bytes().zip(before).map(|(now, then)| now.saturating_sub(then));
    let firing = timed(|| shard.watermark(Watermark::MAX, &mut out))?;
    Ok(Opened { opening, joining, firing, grown_bytes: grown })
}

/// Seconds that a step took.
fn timed(step: impl FnOnce() -> Result<(), StageError>) -> Result<f64, BenchError> {
    let begun = Instant::now();
    let done = step();
    let spent = begun.elapsed().as_secs_f64();
    done.map(|()| spent).map_err(|error| BenchError::Engine(error.to_string()))
}

/// Reads the panes of a round.
fn read(plan: &Plan, out: &mut Output, panes: &mut Vec<Pane>) {
    for batch in &out.panes {
        panes.extend(of_batch(plan, batch));
    }
    out.clear();
}

fn of_batch<'a>(plan: &'a Plan, batch: &'a PaneBatch) -> impl Iterator<Item = Pane> + 'a {
    let stage = plan.stages.get(batch.stage.index());
    let number = |datum| match datum {
        Datum::Int(number) => u64::try_from(number).unwrap_or(u64::MAX),
        _ => 0,
    };
    stage.into_iter().flat_map(move |stage| {
        let panes = batch.iter(stage.key.words(), stage.aggregates.words());
        panes.map(move |(meta, key, values)| Pane {
            key: number(stage.key.read(key, 0)),
            start: meta.window.start().as_millis(),
            end: meta.window.end().as_millis(),
            count: number(stage.aggregates.finish(values, 0)),
            sum: number(stage.aggregates.finish(values, 1)),
        })
    })
}
