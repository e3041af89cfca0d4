//! The side of the engine: one shard fed by hand, timed; and the real actors over JSON.

use super::input::{NAMES, Record, STATUSES, STEPS};
use super::{BenchError, Outcome, Session};
use crate::bench::engine::{Run, Watch};
use crate::bench::measure::resident_bytes;
use crate::bench::{engine, job};
use nilometer_connectors::text::{
    RecordField, RecordSchema, TextFiles, TextFormat, TextSettings, TimeUnit,
};
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::{Grouping, Job, KeyColumn, Plan, Stage};
use nilometer_model::row::{Field, Position, RowBatch};
use nilometer_model::sequence::spec::{
    Bounds, OutputTime, OverflowPolicy, Regress, Release, SequenceSpec, StepSpec,
};
use nilometer_model::shard::{Output, Shard, StageError};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::value::{Datum, Type, Value};
use std::sync::Arc;
use std::time::Instant;

/// Records of one batch, after which the watermark rises.
const BATCH_RECORDS: usize = 4_096;

/// Steps in which the watermark passes the ends of all sessions.
const CLOSING_STEPS: i64 = 1_000;

/// Silence that ends a session.
const IDLE: Span = Span::from_millis(180_000);

/// What is run, and its texts.
pub(super) type Engine<'a> = (&'a Arc<Plan>, &'a Arc<Symbols>);

/// Seconds of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// With records, while the watermark rises.
    pub(super) taking: f64,
    /// With the watermarks that close sessions.
    pub(super) closing: f64,
    /// By how much resident memory grew with the records.
    pub(super) grown_bytes: Option<u64>,
}

impl Spent {
    pub(super) fn total(self) -> f64 {
        self.taking + self.closing
    }

    /// The shorter of two runs.
    pub(super) fn min(self, other: Self) -> Self {
        if other.total() < self.total() { other } else { self }
    }
}

fn fields() -> [Field; 3] {
    [
        Field::new("client", Type::U64),
        Field::new("step", Type::Text),
        Field::new("status", Type::Text),
    ]
}

/// A chain of four steps by client, all of which must succeed.
pub(super) fn plan() -> Result<Arc<Plan>, BenchError> {
    let text = |text: &str| vec![text.into()];
    let [bad, ok] = STATUSES;
    let step = |name: &str| StepSpec {
        name: name.into(),
        success: text(ok),
        failure: text(bad),
        slow_after: Some(Span::from_millis(300)),
        ..StepSpec::default()
    };
    let spec = SequenceSpec {
        step: "step".into(),
        status: Some("status".into()),
        reason: None,
        id: None,
        steps: NAMES.map(step).to_vec(),
        ends: Vec::new(),
        carried: Vec::new(),
        release: Release::Watermark,
        idle_timeout: IDLE,
        idle_timeout_processing: None,
        max_session_duration: Span::from_millis(3_600_000),
        max_events_per_session: 1_000,
        close_on_success: false,
        regress: Regress::Roam,
        output_time: OutputTime::First,
        bounds: Bounds { sessions: None, bytes: None, policy: OverflowPolicy::Fail },
    };
    let sessions = Grouping {
        sinks: vec![job::SINK.into()],
        ..Grouping::sequence("sessions", vec![KeyColumn::plain("client")], spec)
    };
    let job = Job::new("sequences", fields().to_vec(), vec![sessions]);
    let plan = nilometer_model::planner::plan(&job).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        BenchError::Plan(errors.join("; "))
    })?;
    Ok(Arc::new(plan))
}

/// The records as rows of the plan.
pub(super) fn batches(
    plan: &Plan,
    symbols: &Symbols,
    records: &[Record],
) -> Result<Vec<RowBatch>, BenchError> {
    let slot = |name| plan.row.slot(name).ok_or_else(|| BenchError::Plan("no field".into()));
    let (client, step, status) = (slot("client")?, slot("step")?, slot("status")?);
    let text = |text: &str| {
        let datum = Value::Text(text.into()).intern(symbols);
        datum.map_err(|error| BenchError::Input(error.to_string()))
    };
    let steps = NAMES.map(text).into_iter().collect::<Result<Vec<_>, _>>()?;
    let statuses = STATUSES.map(text).into_iter().collect::<Result<Vec<_>, _>>()?;
    let of = |texts: &[Datum], number: usize| texts.get(number).copied().unwrap_or(Datum::Null);
    let batch = |records: &[Record]| {
        let mut batch = RowBatch::with_capacity(plan.row.clone(), records.len());
        for record in records {
            let mut row = batch.push(EventTime::from_millis(record.time), Position::default());
            row.set(client, Datum::Int(record.client.into()));
            row.set(step, of(&steps, record.step.into()));
            row.set(status, of(&statuses, record.is_good.into()));
        }
        batch
    };
    Ok(records.chunks(BATCH_RECORDS).map(batch).collect())
}

/// Runs everything; sessions are read while the clock stands.
pub(super) fn run(
    (plan, symbols): Engine<'_>,
    batches: &[RowBatch],
) -> Result<(Spent, Vec<Session>), BenchError> {
    let mut shard = Shard::new(plan.clone(), symbols.clone(), 0, 1);
    let (mut spent, mut sessions, mut out) = (Spent::default(), Vec::new(), Output::default());
    let before = resident_bytes();
    let mut newest = EventTime::MIN;
    let first = batches.first().filter(|batch| !batch.is_empty()).map(|batch| batch.time(0));
    for batch in batches {
        spent.taking += timed(|| shard.records(batch, &mut out))?;
        newest = (0..batch.len()).map(|index| batch.time(index)).fold(newest, EventTime::max);
        let watermark = Watermark(newest.saturating_sub(job::OUT_OF_ORDERNESS));
        spent.taking += timed(|| shard.watermark(watermark, &mut out))?;
    }
    spent.grown_bytes = resident_bytes().zip(before).map(|(now, then)| now.saturating_sub(then));
    let from = first.unwrap_or(newest).saturating_add(IDLE);
    let length = newest.saturating_add(IDLE).since(from).as_millis();
    for step in 1..=CLOSING_STEPS {
        let at = from.saturating_add(Span::from_millis(length * step / CLOSING_STEPS));
        spent.closing += timed(|| shard.watermark(Watermark(at), &mut out))?;
        read((plan, symbols), &mut out, &mut sessions);
    }
    spent.closing += timed(|| shard.watermark(Watermark::MAX, &mut out))?;
    read((plan, symbols), &mut out, &mut sessions);
    Ok((spent, sessions))
}

/// Seconds that a step took.
fn timed(step: impl FnOnce() -> Result<(), StageError>) -> Result<f64, BenchError> {
    let begun = Instant::now();
    let done = step();
    let spent = begun.elapsed().as_secs_f64();
    done.map(|()| spent).map_err(|error| BenchError::Engine(error.to_string()))
}

/// Reads the sessions of a round.
fn read((plan, symbols): Engine<'_>, out: &mut Output, sessions: &mut Vec<Session>) {
    for batch in &out.panes {
        if let Some(stage) = plan.stages.get(batch.stage.index()) {
            of_batch((stage, symbols), batch, sessions);
        }
    }
    out.clear();
}

fn of_batch((stage, symbols): (&Stage, &Symbols), batch: &PaneBatch, sessions: &mut Vec<Session>) {
    let find = |name: &str| stage.aggregates.find(name);
    let of_steps = |ending: &str| NAMES.map(|name| find(&format!("{name}_{ending}")));
    let (outcome, step, ttc) = (find("outcome"), find("step"), find("time_to_connect_ms"));
    let (durations, attempts) = (of_steps("ms"), of_steps("attempts"));
    for (_, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
        let get = |field: Option<usize>| {
            field.map_or(Datum::Null, |field| stage.aggregates.finish(values, field))
        };
        let int = |field| match get(field) {
            Datum::Int(number) => i64::try_from(number).ok(),
            _ => None,
        };
        let is_text = |field, known: &str| match get(field) {
            Datum::Text(symbol) => symbols.text(symbol) == known,
            _ => false,
        };
        let is = |name: &str| is_text(outcome, name);
        sessions.push(Session {
            client: match stage.key.read(key, 0) {
                Datum::Int(client) => u64::try_from(client).unwrap_or(0),
                _ => 0,
            },
            outcome: match () {
                () if is("connected") => Outcome::Connected,
                () if is("failed") => Outcome::Failed,
                () => Outcome::Abandoned,
            },
            step: (0..STEPS as u8).find(|number| {
                NAMES.get(usize::from(*number)).is_some_and(|name| is_text(step, name))
            }),
            time_to_connect: int(ttc),
            durations: durations.map(int),
            attempts: attempts
                .map(|field| int(field).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)),
        });
    }
}

/// Runs the real actors over lines of JSON.
pub(super) fn run_json(
    (plan, symbols): Engine<'_>,
    text: String,
    shards: usize,
) -> Result<Run, BenchError> {
    let fields = fields().map(|field| RecordField {
        name: field.name.clone(),
        ty: field.ty,
        from: field.name,
    });
    let schema =
        RecordSchema { time: "time".into(), time_unit: TimeUnit::Millis, fields: fields.to_vec() };
    let settings = TextSettings {
        paths: Vec::new(),
        format: TextFormat::Ndjson(schema),
        line_bytes_max: TextSettings::LINE_BYTES_MAX,
        partition: 0,
    };
    let bytes = text.into_bytes();
    let source = TextFiles::over(("memory", bytes), &settings, &plan.row, symbols.clone())?;
    engine::run((plan, symbols), source, shards, Watch::Memory)
}
