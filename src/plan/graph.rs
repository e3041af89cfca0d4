//! The plan as a graph, for Graphviz and for Mermaid.

use super::document::{PlanDocument, RECORDS, StageDocument};
use nilometer_model::plan::StageKind;
use std::collections::BTreeSet;

/// The plan in the language of Graphviz.
pub(crate) fn dot(plan: &PlanDocument) -> String {
    let mut out = format!("digraph {} {{\n", quoted(&plan.pipeline));
    out.push_str("  rankdir = LR;\n  node [shape = box, fontname = \"sans-serif\"];\n");
    out.push_str(&format!("  {} [shape = cylinder];\n", quoted(RECORDS)));
    for stage in &plan.stages {
        let shape = match stage.kind {
            StageKind::Window | StageKind::Rollup | StageKind::Results => "box",
            StageKind::TopK => "invtrapezium",
            StageKind::Sequence => "cds",
        };
        let label = quoted(&label(stage));
        out.push_str(&format!("  {} [shape = {shape}, label = {label}];\n", quoted(&stage.name)));
        out.push_str(&format!(
            "  {} -> {} [tooltip = {}{}];\n",
            quoted(&stage.reads),
            quoted(&stage.name),
            quoted(&stage.reason),
            if stage.exchanged { ", style = dashed" } else { "" },
        ));
    }
    for sink in sinks(plan) {
        let node = quoted(&format!("sink {sink}"));
        out.push_str(&format!("  {node} [shape = note, label = {}];\n", quoted(sink)));
        for stage in writers(plan, sink) {
            out.push_str(&format!("  {} -> {node};\n", quoted(&stage.name)));
        }
    }
    out.push_str("}\n");
    out
}

/// The plan as a Mermaid flowchart.
pub(crate) fn mermaid(plan: &PlanDocument) -> String {
    let mut out = format!("flowchart LR\n  {RECORDS}[(\"{RECORDS}\")]\n");
    let number = |name: &str| plan.stages.iter().position(|stage| stage.name == name);
    let node = |name: &str| number(name).map_or_else(|| RECORDS.into(), |n| format!("s{n}"));
    for stage in &plan.stages {
        let label = escaped(&label(stage));
        let (open, close) = match stage.kind {
            StageKind::Window | StageKind::Rollup | StageKind::Results => ("[", "]"),
            StageKind::TopK => ("[/", "\\]"),
            StageKind::Sequence => ("[[", "]]"),
        };
        out.push_str(&format!("  {}{open}\"{label}\"{close}\n", node(&stage.name)));
        let arrow = if stage.exchanged { "-.->" } else { "-->" };
        out.push_str(&format!("  {} {arrow} {}\n", node(&stage.reads), node(&stage.name)));
    }
    for (index, sink) in sinks(plan).into_iter().enumerate() {
        out.push_str(&format!("  out{index}>\"{}\"]\n", escaped(sink)));
        for stage in writers(plan, sink) {
            out.push_str(&format!("  {} --> out{index}\n", node(&stage.name)));
        }
    }
    out
}

/// The sinks that panes go to.
fn sinks(plan: &PlanDocument) -> BTreeSet<&str> {
    plan.stages.iter().flat_map(|stage| &stage.sinks).map(String::as_str).collect()
}

/// The stages whose panes go to `sink`.
fn writers<'a>(plan: &'a PlanDocument, sink: &str) -> impl Iterator<Item = &'a StageDocument> {
    plan.stages.iter().filter(move |stage| stage.sinks.iter().any(|name| name == sink))
}

/// What a stage is called in a graph: its name and key.
fn label(stage: &StageDocument) -> String {
    let key = if stage.key.is_empty() { "(no key)".into() } else { stage.key.join(", ") };
    format!("{}\n{key}", stage.name)
}

/// A text of Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// A text between the quotes of Mermaid.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('\n', "<br/>")
}
