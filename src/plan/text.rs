//! The plan as a tree for people: each stage below what it reads, with the reason; then the
//! settings.

use super::document::{EngineDocument, PlanDocument, RECORDS, StageDocument};
use nilometer_model::pane::TimestampCombiner;
use nilometer_model::plan::StageKind;
use nilometer_model::time::Span;
use nilometer_model::window::{Phase, Touching, display_span};

/// Draws the plan.
pub(crate) fn render(plan: &PlanDocument) -> String {
    let mut out = format!(
        "pipeline {}: {} stage{}, {} read{} records\n",
        plan.pipeline,
        plan.stages.len(),
        if plan.stages.len() == 1 { "" } else { "s" },
        plan.record_reads,
        if plan.record_reads == 1 { "s" } else { "" },
    );
    out.push_str(&match plan.shard_by.as_slice() {
        [] => "one shard: no field is in all keys\n".into(),
        fields => format!("shards by {}\n", fields.join(", ")),
    });
    out.push_str(&format!("engine {}\n\n", engine(plan.engine)));
    out.push_str(RECORDS);
    out.push('\n');
    children(plan, RECORDS, "", &mut out);
    out.push_str("\nsettings\n");
    settings(plan, &mut out);
    out
}

/// What the engine does to the plan.
fn engine(engine: EngineDocument) -> String {
    let cycle = match engine {
        EngineDocument { every_ms: Some(millis), .. } => display_span(Span::from_millis(millis)),
        EngineDocument { records: Some(1), .. } => "record of each source".into(),
        EngineDocument { records: Some(records), .. } => {
            format!("{records} records of each source")
        }
        EngineDocument { kind: "batch", .. } => {
            return "batch: all sources are read to their ends, whatever they promise before"
                .into();
        }
        EngineDocument { kind, .. } => return kind.into(),
    };
    format!("micro_batch: a cycle every {cycle}")
}

/// Draws the stages that read `parent`, below `indent`.
fn children(plan: &PlanDocument, parent: &str, indent: &str, out: &mut String) {
    let stages: Vec<_> = plan.stages.iter().filter(|stage| stage.reads == parent).collect();
    for (index, stage) in stages.iter().enumerate() {
        let is_last = index + 1 == stages.len();
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        out.push_str(&format!("{indent}{branch}{}\n", headline(stage)));
        let indent = format!("{indent}{below}");
        let has_children = plan.stages.iter().any(|child| child.reads == stage.name);
        let bar = if has_children { "│    " } else { "     " };
        for line in details(stage) {
            out.push_str(&format!("{indent}{bar}{line}\n"));
        }
        children(plan, &stage.name, &indent, out);
    }
}

fn headline(stage: &StageDocument) -> String {
    let kind = match stage.kind {
        StageKind::Window => "window",
        StageKind::Rollup => "rollup",
        StageKind::Results => "results",
        StageKind::TopK => "top-K",
        StageKind::Sequence => "sequence",
    };
    let span = |millis| display_span(Span::from_millis(millis));
    if stage.sequence.is_some() {
        return format!("{}  ({kind})", stage.name);
    }
    let mut window = match stage.window.size_ms {
        None => stage.window.kind.to_owned(),
        Some(size) => format!("{} {}", stage.window.kind, span(size)),
    };
    if let Some(period) = stage.window.period_ms {
        window.push_str(&format!(" every {}", span(period)));
    }
    if let Some(gap) = stage.window.gap_ms {
        window.push_str(&format!(" gap {}", span(gap)));
    }
    if let Some(field) = &stage.window.gap_field {
        window.push_str(&format!(", or what {field} says"));
    }
    if let Some(longest) = stage.window.max_duration_ms {
        window.push_str(&format!(" cut at {}", span(longest)));
    }
    if stage.window.touching == Some(Touching::Separate) {
        window.push_str(", touching ones separate");
    }
    if let Some(calendar) = &stage.window.calendar {
        window.push_str(&format!(" {calendar}"));
    }
    let phase = match stage.window.phase {
        Phase::Aligned => "",
        Phase::ByKey => ", shifted by key",
    };
    let exchanged = if stage.exchanged { ", exchanged between shards" } else { "" };
    format!("{}  ({kind}, {window}{phase}{exchanged})", stage.name)
}

fn details(stage: &StageDocument) -> Vec<String> {
    let key = if stage.key.is_empty() { "(none)".into() } else { stage.key.join(", ") };
    let mut lines = vec![format!("why    {}", stage.reason)];
    // A stage that reads another has found its parent; why not others only the JSON says.
    if stage.reads == RECORDS {
        let rejected = stage.rejected.iter();
        lines
            .extend(rejected.map(|other| format!("       not {}: {}", other.parent, other.reason)));
    }
    lines.push(format!("key    {key}"));
    if let Some(sequence) = &stage.sequence {
        lines.extend(sequence.lines());
    } else if stage.kind != StageKind::TopK {
        let aggregates = stage.aggregates.iter().map(|aggregate| {
            let error = aggregate.error.as_ref();
            let error = error.map_or_else(String::new, |error| format!(" (approximate: {error})"));
            format!("{} = {}{error}", aggregate.name, aggregate.function)
        });
        lines.push(format!("value  {}", aggregates.collect::<Vec<_>>().join(", ")));
    }
    if !stage.sinks.is_empty() {
        let late = match stage.allowed_lateness_ms {
            0 => "no late ones".to_owned(),
            millis => format!("late ones for {}", display_span(Span::from_millis(millis))),
        };
        let (mode, trigger, sinks) = (stage.mode, &stage.trigger, stage.sinks.join(", "));
        let always = match (stage.emission.on_time, stage.emission.closing) {
            ("always", "always") => ", on time and last always",
            ("always", _) => ", on time always",
            (_, "always") => ", last always",
            _ => "",
        };
        let time = match stage.emission.timestamp {
            TimestampCombiner::EndOfWindow => "",
            TimestampCombiner::Earliest => ", at the earliest record",
            TimestampCombiner::Latest => ", at the latest record",
            TimestampCombiner::EarliestTransformed => ", at the earliest record, moved",
        };
        lines.push(format!("panes  {mode}, {trigger}, {late}{always}{time}; to {sinks}"));
    }
    lines.extend(stage.notes.iter().map(|note| format!("note   {note}")));
    for late in &stage.late {
        let which = if late.include_late { "late and dropped" } else { "dropped" };
        lines.push(format!("late   {which} copies to {}", late.sink));
    }
    lines
}

fn settings(plan: &PlanDocument, out: &mut String) {
    let texts = || plan.settings.iter().map(|setting| (setting, setting.value.to_string()));
    let width = |length: Option<usize>| length.unwrap_or(0).min(60);
    let paths = width(plan.settings.iter().map(|setting| setting.path.chars().count()).max());
    let values = width(texts().map(|(_, value)| value.chars().count()).max());
    for (setting, value) in texts() {
        let (path, from) = (&setting.path, setting.origin.name());
        out.push_str(&format!("  {path:paths$}  {value:values$}  {from}\n"));
    }
}
