//! The plan as a document with a stable schema: what `--format json` prints, and what the other
//! formats are drawn from.

use crate::config::{Pipeline, Setting};
use nilometer_model::plan::{Plan, Rejected, Stage, StageInput, StageKind};
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
    /// How many stages read records.
    pub record_reads: usize,
    /// Fields that place records on shards.
    pub shard_by: Vec<String>,
    /// Stages, parents before children.
    pub stages: Vec<StageDocument>,
    /// Every setting in force.
    pub settings: Vec<Setting>,
}

/// A stage, by names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageDocument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: StageKind,
    /// `records`, or the stage whose panes it reads.
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
    /// Gap that ends a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<i64>,
    /// What the sessions of a stage are cut at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<i64>,
    /// Whether sessions exactly one gap apart are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touching: Option<Touching>,
    /// Unit and time zone of calendar windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
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
            record_reads: plan.record_reads(),
            shard_by: owned(&plan.shard_by),
            stages: plan.stages.iter().map(|stage| StageDocument::new(stage, plan)).collect(),
            settings: pipeline.settings.clone(),
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

impl StageDocument {
    fn new(stage: &Stage, plan: &Plan) -> Self {
        let reads = match &stage.input {
            StageInput::Records(_) => RECORDS.into(),
            StageInput::Panes(panes) => {
                let parent = plan.stages.get(panes.parent.index());
                parent.map_or_else(String::new, |parent| parent.name.to_string())
            }
        };
        let aggregates =
            stage.aggregates.accumulators().iter().map(|aggregate| AggregateDocument {
                name: aggregate.name.to_string(),
                function: aggregate.function.name(),
                exact: aggregate.is_exact(),
            });
        Self {
            name: stage.name.to_string(),
            kind: stage.kind,
            reads,
            reason: stage.reason.clone(),
            rejected: stage.rejected.clone(),
            key: stage.key.fields().iter().map(|field| field.name.to_string()).collect(),
            window: WindowDocument::new(stage.window),
            trigger: stage.trigger.to_string(),
            mode: stage.mode.name(),
            allowed_lateness_ms: stage.allowed_lateness.as_millis(),
            aggregates: aggregates.collect(),
            exchanged: stage.exchange.is_some(),
            sinks: owned(&stage.sinks),
        }
    }
}

impl WindowDocument {
    fn new(window: WindowFn) -> Self {
        let plain = Self {
            kind: window.kind(),
            size_ms: None,
            offset_ms: 0,
            phase: Phase::Aligned,
            period_ms: None,
            gap_ms: None,
            max_duration_ms: None,
            touching: None,
            calendar: None,
        };
        match window {
            WindowFn::Global => plain,
            WindowFn::Fixed { size, offset, phase } => {
                Self { size_ms: Some(size.as_millis()), offset_ms: offset, phase, ..plain }
            }
            WindowFn::Sliding { size, period, offset } => Self {
                size_ms: Some(size.as_millis()),
                offset_ms: offset,
                period_ms: Some(period.as_millis()),
                ..plain
            },
            WindowFn::Session { gap, max_duration, touching } => Self {
                gap_ms: Some(gap.as_millis()),
                max_duration_ms: max_duration.map(|longest| longest.as_millis()),
                touching: Some(touching),
                ..plain
            },
            WindowFn::Calendar(calendar) => Self { calendar: Some(calendar.to_string()), ..plain },
        }
    }
}

fn owned(names: &[Box<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}
