//! A small job, sources and sinks in memory, and a node that runs them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use actix::System;
use nilometer_actors::credit::Limits;
use nilometer_actors::node::{Node, Outcome, Parts, SinkPart, SourcePart};
use nilometer_actors::trace::Tracing;
use nilometer_connectors::memory::{MemorySink, MemorySource};
use nilometer_connectors::sink::{SinkError, Writer};
use nilometer_connectors::source::Source;
use nilometer_model::aggregate::Function;
use nilometer_model::pane::{AccumulationMode, PaneBatch, PaneKind};
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn, Plan};
use nilometer_model::planner::plan;
use nilometer_model::row::{Field, Position, RowBatch};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{EventTime, Span};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Datum, Type};
use nilometer_model::watermark::{ProgressRules, WatermarkSettings, WatermarkSpec};
use nilometer_model::window::{Phase, WindowFn};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A record: event time, two key fields, a value.
pub(crate) type Record = (i64, u32, u32, i64);

/// Results by stage, key and start of the window.
pub(crate) type Totals = BTreeMap<(String, Vec<i128>, i64), i128>;

/// Length of the windows of the job.
pub(crate) const WINDOW: i64 = 10;

fn grouping(name: &str, key: &[&str]) -> Grouping {
    Grouping {
        name: name.into(),
        key: key.iter().map(|name| KeyColumn::plain(name)).collect(),
        window: WindowFn::Fixed {
            size: Span::from_millis(WINDOW),
            offset: 0,
            phase: Phase::Aligned,
        },
        trigger: Trigger::default_trigger(),
        emission: nilometer_model::pane::Emission::default(),
        gap_field: None,
        allow_closing: false,
        mode: AccumulationMode::Accumulating,
        allowed_lateness: Span::from_millis(1_000_000),
        aggregates: vec![AggregateSpec {
            name: "sum".into(),
            function: Function::Sum,
            fields: vec!["v".into()],
            spread: false,
        }],
        top_k: None,
        sinks: vec!["out".into()],
        late: None,
        of: None,
        sequence: None,
    }
}

/// Sums by (a, b), by a, by b and in all, placed by a: the last two cross shards.
pub(crate) fn job() -> Job {
    Job {
        name: "test".into(),
        fields: vec![
            Field::new("a", Type::U32),
            Field::new("b", Type::U32),
            Field::new("v", Type::I64),
        ],
        groupings: vec![
            grouping("fine", &["a", "b"]),
            grouping("by_a", &["a"]),
            grouping("by_b", &["b"]),
            grouping("all", &[]),
        ],
        shard_by: Some(vec!["a".into()]),
        key_groups: 256,
        extra_fields: Vec::new(),
        spread: None,
        phase: None,
        cascade: true,
    }
}

/// The sums of the job, straight from its definition.
pub(crate) fn expected(records: &[Record]) -> Totals {
    let mut totals = Totals::new();
    for (time, a, b, v) in records {
        let (a, b, start) = (i128::from(*a), i128::from(*b), time.div_euclid(WINDOW) * WINDOW);
        for (stage, key) in
            [("fine", vec![a, b]), ("by_a", vec![a]), ("by_b", vec![b]), ("all", vec![])]
        {
            *totals.entry((stage.to_owned(), key, start)).or_default() += i128::from(*v);
        }
    }
    totals
}

pub(crate) fn batch(plan: &Plan, records: &[Record]) -> RowBatch {
    let mut batch = RowBatch::new(plan.row.clone());
    for (offset, (time, a, b, v)) in (0..).zip(records) {
        let position = Position { partition: 0, offset };
        let mut row = batch.push(EventTime::from_millis(*time), position);
        for (name, value) in [("a", i128::from(*a)), ("b", i128::from(*b)), ("v", (*v).into())] {
            if let Some(slot) = plan.row.slot(name) {
                row.set(slot, Datum::Int(value));
            }
        }
    }
    batch
}

/// A source over `records`, `size` at a time.
pub(crate) fn source(plan: &Plan, records: &[Record], size: usize) -> Box<dyn Source> {
    let batches: Vec<_> = records.chunks(size).map(|part| Some(batch(plan, part))).collect();
    Box::new(MemorySource::new(batches.into_iter(), Some(records.len() as u64)))
}

/// Panes that a sink has got, in order.
#[derive(Clone, Default)]
pub(crate) struct Got(Arc<Mutex<Vec<PaneBatch>>>);

impl Got {
    pub(crate) fn push(&self, panes: &PaneBatch) {
        self.0.lock().unwrap().push(panes.clone());
    }

    pub(crate) fn sink(&self) -> SinkPart {
        let got = self.clone();
        sink(move |panes| {
            got.push(panes);
            Ok(())
        })
    }

    /// The last total of every place; a retraction or a pane index out of order is a failure.
    pub(crate) fn totals(&self, plan: &Plan) -> Totals {
        let mut totals = Totals::new();
        let mut indices = BTreeMap::new();
        for batch in &*self.0.lock().unwrap() {
            let stage = &plan.stages[batch.stage.index()];
            for (meta, key, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
                let int = |datum| match datum {
                    Datum::Int(number) => number,
                    other => panic!("{other:?}"),
                };
                let fields = 0..stage.key.fields().len();
                let key = fields.map(|field| int(stage.key.read(key, field))).collect();
                let place = (stage.name.to_string(), key, meta.window.start().as_millis());
                assert_eq!(meta.kind, PaneKind::Insert);
                let index = indices.entry(place.clone()).or_insert(0);
                assert_eq!(meta.index, *index, "{place:?}");
                *index += 1;
                totals.insert(place, int(stage.aggregates.finish(values, 0)));
            }
        }
        totals
    }
}

pub(crate) fn sink(
    take: impl FnMut(&PaneBatch) -> Result<(), SinkError> + Send + 'static,
) -> SinkPart {
    SinkPart { name: "out".into(), writer: Writer::Panes(Box::new(MemorySink::new(take))) }
}

pub(crate) fn bounded(out_of_orderness: i64) -> WatermarkSettings {
    WatermarkSettings::new(WatermarkSpec::Bounded {
        out_of_orderness: Span::from_millis(out_of_orderness),
    })
}

pub(crate) fn planned(job: &Job) -> Arc<Plan> {
    Arc::new(plan(job).unwrap())
}

/// The parts of a node; sources are called s0, s1 and so on.
pub(crate) fn parts(
    plan: &Arc<Plan>,
    sources: Vec<Box<dyn Source>>,
    sinks: Vec<SinkPart>,
) -> Parts {
    let name = |number: usize| format!("s{number}").into();
    let sources = sources.into_iter().enumerate();
    Parts {
        plan: plan.clone(),
        symbols: Arc::new(Symbols::default()),
        shards: 2,
        progress: ProgressRules::default(),
        refinement: Arc::default(),
        sources: sources
            .map(|(number, reader)| SourcePart {
                name: name(number),
                reader,
                watermark: bounded(0).into(),
                skipped: Vec::new(),
            })
            .collect(),
        sinks,
        dead_letters: None,
        state: None,
        tracing: Tracing::default(),
        limits: Limits::default(),
    }
}

/// Runs `test` in an actor system; a node that hangs is a failure, not a hanging test.
pub(crate) fn in_system<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    System::new().block_on(async { tokio::time::timeout(limit, test).await.expect("it hangs") })
}

pub(crate) fn run(parts: Parts) -> Outcome {
    in_system(async { Node::start(parts).unwrap().finish().await })
}

/// What must hold of every run without a failure.
pub(crate) fn check(outcome: &Outcome) {
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let records = outcome.records();
    assert_eq!(outcome.in_flight(), Some(0));
    assert_eq!(records.in_flight(), Some(0), "{records:?}");
}
