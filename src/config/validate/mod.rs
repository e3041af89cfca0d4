//! From what the user typed to a pipeline that cannot be wrong.
//!
//! Looks up every name, weighs settings against each other, and lets the planner plan. All
//! mistakes are reported; only if there is none is there a [`Pipeline`].

mod aggregates;
mod engine;
mod estimates;
mod expressions;
mod generator;
mod groups;
mod inputs;
mod kafka;
mod kafka_sinks;
mod names;
mod nodes;
mod outputs;
mod planned;
mod results;
mod sequences;
mod state;
mod telemetry;
mod topics;
mod triggers;
mod watermarks;
mod windows;

use super::pipeline::{Pipeline, Records};
use super::problem::Problems;
use super::raw::RawConfig;
use super::raw::reader::{Given, Spanned};
use super::raw::text_or_table::RawShards;
use super::settings::Setting;
use expressions::Expressions;
use groups::Scope;
use nilometer_actors::credit::Limits;
use nilometer_model::plan::{Job, PhaseBy, Spread};
use std::sync::Arc;
use watermarks::Watermarks;

/// Validates a configuration whose settings have been read; `None` if anything is wrong, which
/// has then been reported.
pub(crate) fn validate(
    raw: &RawConfig,
    mut settings: Vec<Setting>,
    problems: &mut Problems,
) -> Option<Pipeline> {
    let inputs = inputs::inputs(raw, problems);
    let records = inputs::records(raw, &inputs, problems);
    let sinks = outputs::sinks(raw, problems);
    let is_live = inputs.iter().any(|input| input.kind.is_live());
    let mut scope = Scope::new(raw, &records, is_live);
    // Before there are derived fields: the filter may leave out what carries a watermark.
    let watermarks = watermarks::watermarks(raw, &inputs, &scope, (&mut settings, problems));
    let expressions = Expressions::new(raw, &mut scope, problems);
    let groupings = groups::groups(raw, &scope, problems);
    let engine = engine::engine(raw, &inputs, problems);
    let state = state::state(raw, problems);
    let admin = telemetry::admin(raw, problems);
    let telemetry = telemetry::telemetry(raw, problems);
    let dead_letters = kafka_sinks::dead_letters(raw, problems);
    topics::check(raw, problems);
    if let Some(name) = raw.pipeline.value().and_then(|pipeline| pipeline.name.get()) {
        names::check_word(&name.value, "pipeline", name.place, problems);
    }
    let (pipeline, name) = raw.pipeline.value().and_then(|raw| Some((raw, raw.name.value()?)))?;
    let is_flow = matches!(records, Some(Records::Flows(_)));
    // Defaults are in force where groups have taken them over.
    settings.retain(|setting| !setting.path.starts_with("defaults."));
    if !is_flow {
        settings.retain(|setting| !setting.path.starts_with("flows."));
    }
    outputs::default_sinks(raw, &mut settings);
    let marks = watermarks.iter().flat_map(Watermarks::fields);
    let extra_fields = expressions.fields(&groupings).into_iter().chain(marks).collect();
    let job = Job {
        name: name.as_str().into(),
        fields: scope.fields().to_vec(),
        groupings,
        shard_by: texts(&pipeline.shard_by),
        key_groups: u16::try_from(pipeline.key_groups.value()?.0).ok()?,
        extra_fields,
        spread: is_flow.then(|| flow_spread(raw)).flatten(),
        phase: is_flow
            .then(|| PhaseBy { field: "window_phase".into(), column: names::EXPORTER.into() }),
        cascade: *pipeline.cascade.value()?,
    };
    let plan = planned::plan((&job, engine?), raw, problems)?;
    kafka_sinks::check_repeats(&plan, &sinks, raw, problems);
    nodes::check(&plan, raw, problems);
    let watermarks = watermarks?;
    Some(Pipeline {
        job,
        plan: Arc::new(plan),
        sources: watermarks.sources,
        records: records?,
        derived: expressions.derived,
        filter: expressions.filter,
        watermark: watermarks.first,
        progress: watermarks.rules,
        sinks,
        dead_letters: dead_letters?,
        shards: match pipeline.shards.value()? {
            RawShards::Cores => None,
            RawShards::Number(number) => Some(*number),
        },
        max_texts: pipeline.max_texts.value()?.count(),
        limits: limits(raw)?,
        drain_timeout: raw.limits.value()?.drain_timeout.value()?.0,
        state: state?,
        admin: admin?,
        telemetry: telemetry?,
        settings,
    })
}

/// Flows cover the time from their first to their last packet.
fn flow_spread(raw: &RawConfig) -> Option<Spread> {
    Some(Spread {
        first: "first_switched".into(),
        last: "last_switched".into(),
        max_duration: raw.flows.value()?.max_flow_duration.value()?.0,
    })
}

fn limits(raw: &RawConfig) -> Option<Limits> {
    let raw = raw.limits.value()?;
    Some(Limits {
        batch_records: raw.batch_records.value()?.count(),
        in_flight_records_max: raw.in_flight_records.value()?.count(),
        in_flight_bytes_max: raw.in_flight_bytes.value()?.0,
        output_bytes_max: raw.output_bytes.value()?.0,
        slice_panes: raw.slice_panes.value()?.count(),
    })
}

fn texts(list: &Given<Vec<Spanned<String>>>) -> Option<Vec<Box<str>>> {
    let list = list.value()?;
    Some(list.iter().map(|name| name.value.as_str().into()).collect())
}
