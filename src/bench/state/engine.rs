//! One run of the real actors over records in memory, with a state on disk or without.

use super::feed::{Done, Feed, Records};
use crate::bench::BenchError;
use nilometer_actors::checkpoint::{Changes, Checkpoint, Shape};
use nilometer_actors::credit::Limits;
use nilometer_actors::node::{Node, Outcome, Parts, SinkPart, SourcePart, StatePart};
use nilometer_actors::trace::Tracing;
use nilometer_connectors::memory::{MemorySink, MemorySource};
use nilometer_connectors::sink::{Sink, Writer};
use nilometer_connectors::store::Directory;
use nilometer_connectors::store::database::Database;
use nilometer_model::aggregate::Function;
use nilometer_model::epoch::Bounds;
use nilometer_model::expr::Refinement;
use nilometer_model::memory::MemoryUse;
use nilometer_model::pane::{AccumulationMode, PaneBatch};
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn, Plan};
use nilometer_model::row::Field;
use nilometer_model::symbol::Symbols;
use nilometer_model::time::Span;
use nilometer_model::value::{Datum, Type};
use nilometer_model::watermark::{ProgressRules, WatermarkSettings, WatermarkSpec};
use nilometer_model::window::{Phase, WindowFn};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SINK: &str = "panes";
const SOURCE: &str = "records";

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is drained: windows stay for the next run.
    Drains,
    /// Its input ends: all windows fire.
    Ends,
}

/// How to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) plan: &'a Arc<Plan>,
    pub(super) shards: usize,
    /// From one epoch to the next, ms.
    pub(super) epoch: u32,
    /// Where the state lies; `None` stores nothing.
    pub(super) state: Option<&'a Path>,
    /// Bytes of memory that it may take; `None`: as much as it needs.
    pub(super) memory: Option<usize>,
    pub(super) ending: Ending,
}

/// What a run has shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Ran {
    /// From nothing to actors that have what was stored.
    pub(super) start_seconds: f64,
    /// From then on until the last record was read.
    pub(super) reading_seconds: f64,
    pub(super) epochs: u64,
    pub(super) bytes: u64,
    /// The longest pause of a shard.
    pub(super) pause_max_ms: f64,
    /// What the state took in memory, and how many keys went and came, where it has a budget.
    pub(super) memory: MemoryUse,
    /// Results, and how many records these have counted.
    pub(super) results: u64,
    pub(super) counted: u64,
}

impl Ran {
    pub(super) fn records_per_second(&self, records: u64) -> f64 {
        records as f64 / self.reading_seconds.max(f64::MIN_POSITIVE)
    }

    pub(super) fn bytes_per_epoch(&self) -> f64 {
        self.bytes as f64 / (self.epochs as f64).max(1.0)
    }
}

/// Counts and sums by key, in windows of an hour.
pub(super) fn plan() -> Result<Arc<Plan>, BenchError> {
    let size = Span::from_millis(3_600_000);
    let mut sums =
        Grouping::new("sums", WindowFn::Fixed { size, offset: 0, phase: Phase::Aligned });
    sums.key = vec![KeyColumn::plain("k")];
    sums.mode = AccumulationMode::Discarding;
    sums.aggregates = vec![
        AggregateSpec::new("count", Function::Count, None),
        AggregateSpec::new("sum", Function::Sum, Some("v")),
    ];
    sums.sinks = vec![SINK.into()];
    let fields = vec![Field::new("k", Type::U64), Field::new("v", Type::U32)];
    let job = Job::new("state", fields, vec![sums]);
    let plan = nilometer_model::planner::plan(&job).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        BenchError::Plan(errors.join("; "))
    })?;
    Ok(Arc::new(plan))
}

fn state_part(path: &Path, settings: &Settings<'_>) -> Result<StatePart, BenchError> {
    // As a run opens it.
    let store = Database::open_proven(Directory::open(path, "bench")?, "bench")?;
    let (sources, sinks) = ([Arc::from(SOURCE)], [Arc::from(SINK)]);
    let changes = Changes::default();
    let shape = Shape { sources: &sources, sinks: &sinks, changes: &changes };
    let checkpoint =
        Checkpoint::load(&store, shape).map_err(|error| BenchError::Engine(error.to_string()))?;
    let interval = Span::from_millis(settings.epoch.into());
    let (store, host, memory) = (Box::new(store), Vec::new(), settings.memory);
    Ok(StatePart { store, interval, bounds: Bounds::default(), memory, host, checkpoint })
}

/// Runs over `records`.
pub(super) fn run(settings: Settings<'_>, records: Records) -> Result<Ran, BenchError> {
    let Settings { plan, shards, state, ending, .. } = settings;
    let slot = |name| plan.row.slot(name).ok_or_else(|| BenchError::Plan("no field".into()));
    let done = Arc::new(Done::default());
    let (layout, slots) = (plan.row.clone(), [slot("k")?, slot("v")?]);
    let ends = ending == Ending::Ends;
    let feed = Feed { records, layout, slots, done: done.clone(), ends, given: 0 };
    let counts = Arc::new(Counts::default());
    let sink = counting_sink(plan.clone(), counts.clone());
    let begun = Instant::now();
    let parts = Parts {
        plan: plan.clone(),
        symbols: Arc::new(Symbols::default()),
        shards,
        progress: ProgressRules::default(),
        refinement: Arc::new(Refinement::default()),
        sources: vec![SourcePart {
            name: SOURCE.into(),
            reader: Box::new(MemorySource::new(feed, None)),
            watermark: WatermarkSettings::new(WatermarkSpec::Bounded {
                out_of_orderness: Span::ZERO,
            })
            .into(),
            skipped: Vec::new(),
        }],
        sinks: vec![SinkPart { name: SINK.into(), writer: Writer::Panes(sink) }],
        dead_letters: None,
        limits: Limits::default(),
        state: state.map(|path| state_part(path, &settings)).transpose()?,
        tracing: Tracing::default(),
    };
    let (started, outcome) = run_node(parts, &done, ending)?;
    let memory = outcome.memory().unwrap_or_default();
    if let Some(failure) = outcome.failures.into_iter().next() {
        return Err(BenchError::Engine(failure.to_string()));
    }
    let pauses = outcome.shards.iter().filter_map(|shard| shard.pause_max);
    let store = outcome.store.unwrap_or_default();
    let read = done.at().map_or(Duration::ZERO, |at| at.saturating_duration_since(started));
    Ok(Ran {
        start_seconds: started.duration_since(begun).as_secs_f64(),
        reading_seconds: read.as_secs_f64(),
        epochs: store.epochs,
        bytes: store.bytes,
        pause_max_ms: pauses.max().unwrap_or_default().as_secs_f64() * 1_000.0,
        memory,
        results: counts.results.load(Ordering::Relaxed),
        counted: counts.counted.load(Ordering::Relaxed),
    })
}

/// Results, and how many records these have counted.
#[derive(Debug, Default)]
struct Counts {
    results: AtomicU64,
    counted: AtomicU64,
}

/// A sink that counts results, and the records that they have counted.
fn counting_sink(plan: Arc<Plan>, counts: Arc<Counts>) -> Box<dyn Sink> {
    Box::new(MemorySink::new(move |panes: &PaneBatch| {
        let Some(stage) = plan.stages.get(panes.stage.index()) else { return Ok(()) };
        for (_, _, values) in panes.iter(stage.key.words(), stage.aggregates.words()) {
            counts.results.fetch_add(1, Ordering::Relaxed);
            if let Datum::Int(count) = stage.aggregates.finish(values, 0) {
                counts.counted.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
            }
        }
        Ok(())
    }))
}

/// Runs a node to its end; returns when it had started.
fn run_node(parts: Parts, done: &Done, ending: Ending) -> Result<(Instant, Outcome), BenchError> {
    actix::System::new().block_on(async {
        let node = Node::start(parts)?;
        let started = Instant::now();
        if ending == Ending::Drains {
            done.wait().await;
            node.drain();
        }
        Ok((started, node.finish().await))
    })
}
