//! The plan as a document with a stable schema: what `--format json` prints, and what the other
//! formats are drawn from.

use super::sequence::SequenceDocument;
use crate::config::{Pipeline, Setting};
use crate::state::StateReport;
use nilometer_model::engine::{Engine, Pace};
use nilometer_model::pane::{Emission, TimestampCombiner};
use nilometer_model::plan::{LateSpec, Plan, Rejected, Stage, StageInput, StageKind};
use nilometer_model::trigger::Earliest;
use nilometer_model::window::{Phase, Touching, WindowFn};
use serde::Serialize;

/// Version of the schema.
const SCHEMA: u32 = 1;

/// A plan, by names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanDocument {
    schema: u32,
    /// Name of the pipeline.
    pub pipeline: String,
    /// How the plan is run.
    pub engine: EngineDocument,
    /// How many stages read records.
    pub record_reads: usize,
    /// Fields that place records on shards.
    pub shard_by: Vec<String>,
    /// Stages, parents before children.
    pub stages: Vec<StageDocument>,
    /// Every setting in force.
    pub settings: Vec<Setting>,
    /// What a start makes of a stored state, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<StateReport>,
}

/// How a plan is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EngineDocument {
    /// `streaming`, `micro_batch` or `batch`.
    pub kind: &'static str,
    /// On the clock, from one end of a cycle to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<i64>,
    /// Records of each source that make a cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
}

/// A stage, by names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageDocument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: StageKind,
    /// `records`, or the stage whose panes or results it reads.
    pub reads: String,
    /// Why it reads that.
    pub reason: String,
    /// What it does not read, and why.
    pub rejected: Vec<Rejected>,
    /// Key columns.
    pub key: Vec<String>,
    /// Its windows.
    pub window: WindowDocument,
    /// When it emits.
    pub trigger: String,
    /// Which panes come beside those that bring something new, and what time they carry; left out
    /// where it is the usual.
    #[serde(skip_serializing_if = "EmissionDocument::is_usual")]
    pub emission: EmissionDocument,
    /// What sinks see.
    pub mode: &'static str,
    /// How long state is kept after completion.
    pub allowed_lateness_ms: i64,
    /// What it computes.
    pub aggregates: Vec<AggregateDocument>,
    /// Whether its input comes from all shards.
    pub exchanged: bool,
    /// Where its panes go.
    pub sinks: Vec<String>,
    /// What whoever reads the plan may not expect; left out where there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where copies of records go that come late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<LateDocument>,
    /// How it judges records as a chain of steps; left out where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceDocument>,
}

/// Which panes come, and what time they carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EmissionDocument {
    /// `when_new` or `always`: whether the on-time pane needs news.
    pub on_time: &'static str,
    /// The same of the last pane.
    pub closing: &'static str,
    /// Event time of panes.
    pub timestamp: TimestampCombiner,
}

/// An output of a stage for copies of records that come late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LateDocument {
    /// Name of the sink.
    pub sink: String,
    /// Whether it takes those that still count.
    pub include_late: bool,
}

impl EmissionDocument {
    /// Only what is new, at the end of the window.
    fn is_usual(&self) -> bool {
        (self.on_time, self.closing) == ("when_new", "when_new")
            && self.timestamp == TimestampCombiner::EndOfWindow
    }
}

/// Windows of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WindowDocument {
    /// `global`, `fixed`, `sliding`, `session` or `calendar`.
    pub kind: &'static str,
    /// Length; none where windows are unbounded, or as long as records or the calendar say.
    pub size_ms: Option<i64>,
    /// Where a window begins, since the Unix epoch.
    pub offset_ms: i64,
    /// Whether windows of different keys are shifted against each other.
    pub phase: Phase,
    /// From one start of sliding windows to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<i64>,
    /// How many sliding windows hold a record, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<i64>,
    /// Gap that ends a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<i64>,
    /// Field with the gap of each record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_field: Option<String>,
    /// What the sessions of a stage are cut at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<i64>,
    /// Whether sessions exactly one gap apart are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touching: Option<Touching>,
    /// Unit and time zone of calendar windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// Name of a custom window function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
}

/// An aggregate of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AggregateDocument {
    /// Its name.
    pub name: String,
    /// What it computes.
    pub function: &'static str,
    /// Whether the result is exact.
    pub exact: bool,
    /// How far it may be from the exact one; left out where it is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a stage that reads no other stage reads.
pub(crate) const RECORDS: &str = "records";

impl PlanDocument {
    /// The plan of a pipeline.
    pub fn new(pipeline: &Pipeline) -> Self {
        let plan = &pipeline.plan;
        Self {
            schema: SCHEMA,
            pipeline: plan.name.to_string(),
            engine: EngineDocument::new(plan.engine),
            record_reads: plan.record_reads(),
            shard_by: owned(&plan.shard_by),
            stages: plan.stages.iter().map(|stage| StageDocument::new(stage, plan)).collect(),
            settings: pipeline.settings.clone(),
            state: None,
        }
    }

    /// The document as JSON, on several lines.
    pub fn to_json(&self) -> String {
        // Names and numbers only: there is nothing that JSON could not say.
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }
}

impl EngineDocument {
    const fn new(engine: Engine) -> Self {
        let (every_ms, records) = match engine.pace() {
            Some(Pace::Every(period)) => (Some(period.as_millis()), None),
            Some(Pace::Records(records)) => (None, Some(records)),
            None => (None, None),
        };
        Self { kind: engine.name(), every_ms, records }
    }
}

/// What decides when a stage emits: its trigger, or the engine in its place.
fn trigger(stage: &Stage, engine: Engine) -> String {
    match engine {
        Engine::Streaming if stage.sequence.is_some() => "when a session is over".into(),
        Engine::Streaming => stage.trigger.to_string(),
        Engine::MicroBatch(_) => "with every cycle that changes it".into(),
        Engine::Batch => "once, at the end of all input".into(),
    }
}

impl StageDocument {
    fn new(stage: &Stage, plan: &Plan) -> Self {
        let parent = stage.input.parent().and_then(|id| plan.stages.get(id.index()));
        let reads = parent.map_or_else(|| RECORDS.into(), |parent| parent.name.to_string());
        // A session is a record, not a result of aggregates.
        let is_group = stage.sequence.is_none();
        let aggregates = stage.aggregates.accumulators().iter().filter(|_| is_group);
        let aggregates = aggregates.map(|aggregate| AggregateDocument {
            name: aggregate.name.to_string(),
            function: aggregate.function.name(),
            exact: aggregate.is_exact(),
            error: aggregate.error(),
        });
        Self {
            name: stage.name.to_string(),
            kind: stage.kind,
            reads,
            reason: stage.reason.clone(),
            rejected: stage.rejected.clone(),
            key: stage.key.fields().iter().map(|field| field.name.to_string()).collect(),
            window: WindowDocument::new(stage, plan),
            trigger: trigger(stage, plan.engine),
            emission: EmissionDocument::new(stage.emission),
            mode: stage.mode.name(),
            allowed_lateness_ms: stage.allowed_lateness.as_millis(),
            aggregates: aggregates.collect(),
            exchanged: stage.exchange.is_some(),
            sinks: owned(&stage.sinks),
            notes: notes(stage, plan.engine),
            late: stage.late.iter().map(LateDocument::new).collect(),
            sequence: SequenceDocument::new(stage),
        }
    }
}

impl EmissionDocument {
    const fn new(emission: Emission) -> Self {
        const fn when(always: bool) -> &'static str {
            if always { "always" } else { "when_new" }
        }
        Self {
            on_time: when(emission.on_time_always),
            closing: when(emission.closing_always),
            timestamp: emission.timestamp,
        }
    }
}

/// What whoever reads the plan may not expect of a stage.
fn notes(stage: &Stage, engine: Engine) -> Vec<String> {
    let mut notes = Vec::new();
    if stage.kind == StageKind::TopK {
        // Its stage of full sums has said so.
        return notes;
    }
    let overlap = stage.window.overlap();
    if overlap > 1 {
        let copies = if stage.copies_records(engine) { ", and copied into each" } else { "" };
        notes.push(format!("a record is in up to {overlap} windows at a time{copies}"));
    }
    match stage.window {
        WindowFn::Sliding { size, period, .. } if size < period => {
            notes.push("records between two windows are in none, and counted".into());
        }
        WindowFn::Session { max_duration: None, .. }
            if stage.trigger.first_firing() != Earliest::Early =>
        {
            notes.push(
                "nothing comes of a session that does not end: max_duration or an early trigger \
                 would see to it"
                    .into(),
            );
        }
        WindowFn::Global
        | WindowFn::Fixed { .. }
        | WindowFn::Sliding { .. }
        | WindowFn::Session { .. }
        | WindowFn::Calendar(_)
        | WindowFn::Custom(_) => {}
    }
    if let StageInput::Changes(changes) = &stage.input {
        let aggregates = stage.aggregates.accumulators().iter().zip(&changes.keeps_values);
        let kept: Vec<_> = aggregates
            .filter(|(_, keeps)| **keeps)
            .map(|(aggregate, _)| format!("{} = {}", aggregate.name, aggregate.function.name()))
            .collect();
        if !kept.is_empty() {
            notes.push(format!(
                "keeps every distinct value of a window for {}: results are taken back",
                kept.join(", ")
            ));
        }
        if changes.trails {
            notes.push(
                "sessions are complete 1 ms after their end, and so are windows over them".into(),
            );
        }
    }
    if let Some(closing) = stage.trigger.closing(stage.allowed_lateness) {
        notes.push(closing.to_string());
    }
    notes
}

impl LateDocument {
    fn new(late: &LateSpec) -> Self {
        Self { sink: late.sink.to_string(), include_late: late.include_late }
    }
}

impl WindowDocument {
    fn new(stage: &Stage, plan: &Plan) -> Self {
        let plain = Self {
            kind: stage.window.kind(),
            size_ms: None,
            offset_ms: 0,
            phase: Phase::Aligned,
            period_ms: None,
            overlap: None,
            gap_ms: None,
            gap_field: None,
            max_duration_ms: None,
            touching: None,
            calendar: None,
            custom: None,
        };
        match stage.window {
            WindowFn::Global => plain,
            WindowFn::Fixed { size, offset, phase } => {
                Self { size_ms: Some(size.as_millis()), offset_ms: offset, phase, ..plain }
            }
            WindowFn::Sliding { size, period, offset } => Self {
                size_ms: Some(size.as_millis()),
                offset_ms: offset,
                period_ms: Some(period.as_millis()),
                overlap: Some(stage.window.overlap()),
                ..plain
            },
            WindowFn::Session { gap, max_duration, touching } => Self {
                gap_ms: Some(gap.as_millis()),
                gap_field: gap_field(stage, plan),
                max_duration_ms: max_duration.map(|longest| longest.as_millis()),
                touching: Some(touching),
                ..plain
            },
            WindowFn::Calendar(calendar) => Self { calendar: Some(calendar.to_string()), ..plain },
            WindowFn::Custom(custom) => Self { custom: Some(custom.to_string()), ..plain },
        }
    }
}

/// The field with the gap of each record, if sessions have one.
fn gap_field(stage: &Stage, plan: &Plan) -> Option<String> {
    let StageInput::Records(input) = &stage.input else { return None };
    let fields = plan.row.slots().iter().zip(plan.row.fields());
    let mut named = fields.filter(|(slot, _)| Some(**slot) == input.gap);
    named.next().map(|(_, field)| field.name.to_string())
}

fn owned(names: &[Box<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}
