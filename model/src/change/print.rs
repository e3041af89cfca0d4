//! What decides what the state of a stage means.

use crate::aggregate::{Accumulator, Function, side::SideFunction};
use crate::engine::Engine;
use crate::key::KeyLayout;
use crate::pane::{Emission, TimestampCombiner};
use crate::plan::{
    AggregateSpec, Grouping, Job, KeyColumn, Plan, Stage, StageInput, StageKind, Ties, TopKSpec,
};
use crate::planner::grouping_of;
use crate::sequence::spec::{Begins, SequenceSpec, Which};
use crate::time::Span;
use crate::window::{WindowFn, display_span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a stage reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Records.
    Records,
    /// The panes of the stage of that name.
    Panes(Box<str>),
    /// The results of the stage of that name, as they change.
    Results(Box<str>),
}

impl Reads {
    /// The stage that it reads; `None` for records.
    pub fn stage(&self) -> Option<&str> {
        match self {
            Self::Records => None,
            Self::Panes(stage) | Self::Results(stage) => Some(stage),
        }
    }
}

impl std::fmt::Display for Reads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Records => f.write_str("records"),
            Self::Panes(stage) => write!(f, "panes of {stage}"),
            Self::Results(stage) => write!(f, "results of {stage}"),
        }
    }
}

/// What decides what the state of a stage means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePrint {
    /// Its name.
    pub name: Box<str>,
    /// What it reads.
    pub reads: Reads,
    /// Whether what it reads may be taken back later: it then has to have seen all of it.
    pub is_taken_back: bool,
    /// Everything else, by the name of the setting.
    pub settings: BTreeMap<Box<str>, Box<str>>,
}

impl StagePrint {
    /// The prints of the stages of `plan`, which is that of `job`, in plan order. `records` says what
    /// else decides what a record means to the grouping of that name: how its fields are computed,
    /// and which records count.
    pub fn of_plan(
        plan: &Plan,
        job: &Job,
        records: impl Fn(&Grouping) -> BTreeMap<Box<str>, Box<str>>,
    ) -> Vec<Self> {
        let mut prints: Vec<Self> = Vec::new();
        for stage in &plan.stages {
            let Some(grouping) = grouping_of(job, &stage.name) else { continue };
            let reads = reads(plan, stage);
            let parent = reads.stage().and_then(|name| prints.iter().find(|p| *p.name == *name));
            let is_taken_back =
                matches!(reads, Reads::Results(_)) || parent.is_some_and(|p| p.is_taken_back);
            let settings = Settings { plan, job, grouping, stage };
            let mut settings = settings.all();
            settings.extend(records(grouping));
            prints.push(Self { name: stage.name.clone(), reads, is_taken_back, settings });
        }
        prints
    }
}

fn reads(plan: &Plan, stage: &Stage) -> Reads {
    let parent = stage.input.parent().and_then(|id| plan.stages.get(id.index()));
    let name = parent.map_or("", |parent| &parent.name);
    match &stage.input {
        StageInput::Records(_) => Reads::Records,
        StageInput::Panes(_) => Reads::Panes(name.into()),
        StageInput::Changes(_) => Reads::Results(name.into()),
    }
}

/// Where the settings of a stage are found.
struct Settings<'a> {
    plan: &'a Plan,
    job: &'a Job,
    grouping: &'a Grouping,
    stage: &'a Stage,
}

impl Settings<'_> {
    fn all(&self) -> BTreeMap<Box<str>, Box<str>> {
        let Self { grouping, stage, .. } = self;
        let mut settings = BTreeMap::new();
        let mut set = |name: &str, value: String| {
            settings.insert(name.into(), value.into());
        };
        set("key", key(&grouping.key, &stage.key));
        set("window", self.window());
        set("trigger", stage.trigger.to_string());
        set("emit", emission(stage.emission));
        set("allowed_lateness", display_span(stage.allowed_lateness));
        // Nobody sees the panes of a stage without sinks: their mode decides nothing.
        let mode = if stage.is_observed() { stage.mode.name() } else { "without sinks" };
        set("mode", mode.into());
        let names = stage.aggregates.accumulators().iter().map(|known| &*known.name);
        set("aggregates", names.collect::<Vec<_>>().join(", "));
        let specs = grouping.aggregates.iter();
        for (accumulator, spec) in stage.aggregates.accumulators().iter().zip(specs) {
            set(&format!("aggregates.{}", accumulator.name), aggregate(accumulator, spec));
        }
        for (name, value) in grouping.sequence.iter().flat_map(|spec| sequence(spec)) {
            set(name, value);
        }
        if let (StageKind::TopK, Some(spec)) = (stage.kind, &grouping.top_k) {
            set("top_k", top_k(spec));
        }
        if let Some(spread) = &self.job.spread
            && grouping.aggregates.iter().any(|aggregate| aggregate.spread)
        {
            let longest = spread.max_duration.map_or("any length".into(), display_span);
            set("spread", format!("{} to {}, {longest}", spread.first, spread.last));
        }
        let readers = self.readers();
        if !readers.is_empty() {
            set("results", format!("read by {}", readers.join(", ")));
        }
        set("kept", self.kept().into());
        // Another would wait for what it has done, or do it again.
        set("engine", self.plan.engine.name().into());
        settings
    }

    /// The stages that group its results.
    fn readers(&self) -> Vec<&str> {
        let reads = |stage: &&Stage| match &stage.input {
            StageInput::Changes(changes) => changes.parent == self.stage.id,
            StageInput::Records(_) | StageInput::Panes(_) => false,
        };
        self.plan.stages.iter().filter(reads).map(|stage| &*stage.name).collect()
    }

    fn window(&self) -> String {
        let mut text = self.stage.window.to_string();
        if let (true, Some(phase)) = (self.stage.window.is_by_key(), &self.job.phase) {
            text.push_str(&format!(" of {}", phase.field));
        }
        if let (WindowFn::Session { .. }, Some(field)) =
            (self.stage.window, &self.grouping.gap_field)
        {
            text.push_str(&format!(" or {field}"));
        }
        text
    }

    /// In what form its state is kept.
    fn kept(&self) -> &'static str {
        let Self { plan, stage, .. } = self;
        let engine: Engine = plan.engine;
        if stage.sequence.is_some() {
            "sessions"
        } else if stage.top_k.is_some() {
            "lists"
        } else if stage.is_plain() {
            if stage.keeps_total() { "windows with totals" } else { "windows" }
        } else if stage.slicing(engine).is_some() {
            if stage.keeps_total() { "slices with totals" } else { "slices" }
        } else if stage.keeps_total() {
            "windows with triggers and totals"
        } else {
            "windows with triggers"
        }
    }
}

fn key(columns: &[KeyColumn], layout: &KeyLayout) -> String {
    let column = |(column, field): (&KeyColumn, &crate::row::Field)| match column.each.as_slice() {
        [only] if *only == column.name => format!("{}: {}", column.name, field.ty),
        each => format!("{}: {} of {}", column.name, field.ty, each.join(" and ")),
    };
    let columns: Vec<_> = columns.iter().zip(layout.fields()).map(column).collect();
    if columns.is_empty() { "nothing".into() } else { columns.join(", ") }
}

fn emission(emission: Emission) -> String {
    let when = |always| if always { "always" } else { "when_new" };
    let time = match emission.timestamp {
        TimestampCombiner::EndOfWindow => "end_of_window",
        TimestampCombiner::Earliest => "earliest",
        TimestampCombiner::Latest => "latest",
        TimestampCombiner::EarliestTransformed => "earliest_transformed",
    };
    let (on_time, closing) = (when(emission.on_time_always), when(emission.closing_always));
    format!("on_time {on_time}, closing {closing}, timestamp {time}")
}

/// What an aggregate computes, with its parameters.
fn aggregate(accumulator: &Accumulator, spec: &AggregateSpec) -> String {
    let (name, ty) = (accumulator.function.name(), accumulator.ty);
    let fields = match spec.fields.as_slice() {
        [] => String::new(),
        fields => format!("{}: {ty}", fields.join(" and ")),
    };
    let parameters = match accumulator.function {
        Function::Side(SideFunction::Distinct { precision }) => format!(", precision {precision}"),
        Function::Side(SideFunction::Quantile { p, accuracy }) => {
            format!(", p {p}, accuracy {accuracy}")
        }
        Function::Side(SideFunction::Frequent { k, counters }) => {
            format!(", k {k}, counters {counters}")
        }
        Function::Side(SideFunction::Collect { values_max, bytes_max }) => {
            format!(", max {values_max}, max_bytes {bytes_max}")
        }
        Function::Side(SideFunction::Custom(_))
        | Function::Count
        | Function::Sum
        | Function::Min
        | Function::Max
        | Function::Mean
        | Function::First
        | Function::Last
        | Function::Variance { .. } => String::new(),
    };
    let spread = if spec.spread { ", spread" } else { "" };
    format!("{name}({fields}{parameters}{spread})")
}

/// What a sequence reads, its chain, and what ends a session: records are kept by the numbers of their
/// steps, as they were judged when they came.
fn sequence(spec: &SequenceSpec) -> [(&'static str, String); 3] {
    let optional = |name: &Option<Box<str>>| name.as_deref().unwrap_or("-").to_owned();
    let carried = spec.carried.iter().map(|carried| match carried.which {
        Which::First => format!("first {}", carried.field),
        Which::Last => format!("last {}", carried.field),
    });
    let reads = format!(
        "step {}, status {}, reason {}, id {}, carry {}",
        spec.step,
        optional(&spec.status),
        optional(&spec.reason),
        optional(&spec.id),
        carried.collect::<Vec<_>>().join(" and "),
    );
    let span = |span: Option<Span>| span.map_or("-".into(), display_span);
    let steps = spec.steps.iter().map(|step| {
        format!(
            "{}{}{}{} (start {}; success {}; failure {}; timeout {}; slow {})",
            step.name,
            if step.optional { " optional" } else { "" },
            if step.repeatable { " repeatable" } else { "" },
            match step.begins {
                Begins::Anew => "",
                Begins::First => " begins first",
                Begins::Never => " begins never",
            },
            step.start.join(" "),
            step.success.join(" "),
            step.failure.join(" "),
            span(step.step_timeout),
            span(step.slow_after),
        )
    });
    let sessions = format!(
        "end with {}; idle {}, age {}, records {}; success {}; regress {:?}; release {:?}; at {:?}",
        spec.ends.join(" "),
        display_span(spec.idle_timeout),
        display_span(spec.max_session_duration),
        spec.max_events_per_session,
        if spec.close_on_success { "ends" } else { "goes on" },
        spec.regress,
        spec.release,
        spec.output_time,
    );
    let steps = steps.collect::<Vec<_>>().join(" > ");
    [("reads", reads), ("steps", steps), ("sessions", sessions)]
}

fn top_k(spec: &TopKSpec) -> String {
    let mut text = format!("{} of {} by {}", spec.k, spec.entity.join(", "), spec.rank.join(" + "));
    if !spec.require.is_empty() {
        text.push_str(&format!(", with {}", spec.require.join(", ")));
    }
    if spec.other {
        text.push_str(", and other");
    }
    match spec.ties {
        Ties::Ascending => {}
        Ties::Descending => text.push_str(", larger keys first"),
    }
    text
}
