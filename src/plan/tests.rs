//! The plan of a small pipeline in every format, and those of the shipped pipelines.

use super::{PlanDocument, graph, text};
use crate::config::{load, load_text};
use serde_json::{Value as Json, json};
use std::path::Path;

const PIPELINE: &str = r#"
[pipeline]
name = "p"
shards = 1
[record]
time = "t"
fields = { k = "text", v = "i64", api_token = "text" }
[[group]]
name = "hours"
key = ["k"]
window = { fixed = "1h" }
allowed_lateness = "2h"
aggregates = { sum = "sum(v)", mean = "mean(v)" }
late = { sink = "late" }
[[group]]
name = "best"
key = ["k", "v"]
window = { fixed = "1m", offset = "5s" }
aggregates = { sum = "sum(v)", mean = "mean(v)" }
top_k = { k = 3, entity = ["v"], rank = ["sum"] }
[[group]]
name = "total"
key = []
window = "global"
mode = "retracting"
aggregates = { sum = "sum(v)" }
sinks = []
late = { sink = "late", include_late = true }
[[sink]]
name = "stdout"
kind = "stdout"
[[sink]]
name = "late"
kind = "file"
path = "late.ndjson"
format = "late"
"#;

fn document() -> PlanDocument {
    PlanDocument::new(&load_text(("p.toml", PIPELINE), &[], &|_| None).unwrap())
}

/// Compares with a file of `src/plan/tests`.
fn golden(file: &str, text: &str) {
    crate::golden::golden(&[(&format!("src/plan/tests/{file}"), text)]);
}

#[test]
fn the_tree_shows_each_stage_below_what_it_reads() {
    let tree = text::render(&document());
    let (tree, settings) = tree.split_once("\nsettings\n").unwrap();
    golden("tree.txt", tree);
    for setting in
        [["pipeline.shards", "1", "file"], ["record.fields.api_token", "\"***\"", "file"]]
    {
        let is_line = |line: &str| line.split_whitespace().eq(setting);
        assert!(settings.lines().any(is_line), "{setting:?} in {settings}");
    }
}

const WINDOWS: &str = r#"
[pipeline]
name = "w"
[record]
time = "t"
fields = { k = "text", v = "i64", gap = "u32" }
[defaults]
aggregates = { sum = "sum(v)" }
[[group]]
name = "moving"
key = ["k"]
window = { sliding = "60s", every = "1s" }
trigger = { early = { every = "10s" }, late = { count = 1 } }
allowed_lateness = "1h"
[[group]]
name = "samples"
key = ["k"]
window = { sliding = "1s", every = "1m", offset = "-5s" }
trigger = { once = { count = 100 } }
allow_closing = true
emit = { on_time = "always", closing = "always" }
[[group]]
name = "visits"
key = ["k"]
window = { session = "10m", gap_field = "gap", touching = "separate" }
mode = "retracting"
[[group]]
name = "short_visits"
key = ["k"]
window = { session = "10m", max_duration = "1d" }
emit = { closing = "always", timestamp = "earliest" }
[[group]]
name = "weeks"
key = ["k"]
window = { calendar = "week", time_zone = "Europe/Athens", week_start = "sunday" }
trigger = { repeat = { any = [{ when = "sum > 100" }, "after_watermark"] } }
emit = { on_time = "always", timestamp = "latest" }
"#;

#[test]
fn windows_and_triggers_show_what_they_do() {
    let plan = PlanDocument::new(&load_text(("w.toml", WINDOWS), &[], &|_| None).unwrap());
    let tree = text::render(&plan);
    golden("windows.txt", tree.split_once("\nsettings\n").unwrap().0);
    let json: Json = serde_json::from_str(&plan.to_json()).unwrap();
    let window = |stage: usize| json["stages"][stage]["window"].clone();
    let plain = json!({"size_ms": null, "offset_ms": 0, "phase": "aligned"});
    let with = |members: Json| {
        let mut window = plain.clone();
        let members = members.as_object().unwrap().clone();
        window.as_object_mut().unwrap().extend(members);
        window
    };
    assert_eq!(
        window(0),
        with(json!({"kind": "sliding", "size_ms": 60_000, "period_ms": 1_000, "overlap": 60}))
    );
    assert_eq!(
        window(2),
        with(json!({
            "kind": "session", "gap_ms": 600_000, "gap_field": "gap", "touching": "separate"
        }))
    );
    assert_eq!(
        window(3),
        with(json!({
            "kind": "session", "gap_ms": 600_000, "max_duration_ms": 86_400_000, "touching": "merge"
        }))
    );
    assert_eq!(
        window(4),
        with(json!({"kind": "calendar", "calendar": "week from Sunday in Europe/Athens"}))
    );
    assert_eq!(json["stages"][1]["emission"]["closing"], json!("always"));
}

#[test]
fn the_json_has_the_published_schema() {
    let json: Json = serde_json::from_str(&document().to_json()).unwrap();
    let members = |value: &Json| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let sorted = |names: &[&str]| {
        let mut names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(
        members(&json),
        sorted(&["schema", "pipeline", "engine", "record_reads", "shard_by", "stages", "settings"])
    );
    assert_eq!((&json["schema"], &json["record_reads"]), (&json!(1), &json!(2)));
    assert_eq!(json["engine"], json!({"kind": "streaming"}));
    assert_eq!(
        json["stages"][0],
        json!({
            "name": "hours",
            "kind": "window",
            "reads": "records",
            "reason": "reads records: no other grouping holds what it needs",
            "rejected": [
                {"parent": "best", "reason": "fixed 1m offset 5000 ms windows do not nest in fixed 1h windows"},
                {"parent": "total", "reason": "its key has no `k`"},
            ],
            "key": ["k"],
            "window": {"kind": "fixed", "size_ms": 3_600_000, "offset_ms": 0, "phase": "aligned"},
            "trigger": "repeat(after_watermark)",
            "mode": "accumulating",
            "allowed_lateness_ms": 7_200_000,
            "aggregates": [
                {"name": "sum", "function": "sum", "exact": true},
                {"name": "mean", "function": "mean", "exact": false, "error": "rounding of floats"},
            ],
            "exchanged": false,
            "sinks": ["stdout"],
            "late": [{"sink": "late", "include_late": false}],
        })
    );
    let settings = json["settings"].as_array().unwrap();
    assert!(settings.contains(&json!({"path": "pipeline.name", "value": "p", "from": "file"})));
    assert!(settings.contains(
        &json!({"path": "group.best.window.phase", "value": "aligned", "from": "default"})
    ));
}

#[test]
fn the_engine_shows_what_it_does_to_triggers() {
    for (engine, json, head, panes) in [
        (
            r#"{ micro_batch = "90s" }"#,
            json!({"kind": "micro_batch", "every_ms": 90_000}),
            "engine micro_batch: a cycle every 90s",
            "accumulating, with every cycle that changes it, late ones for 2h; to stdout",
        ),
        (
            r#"{ micro_batch = "1 record" }"#,
            json!({"kind": "micro_batch", "records": 1}),
            "engine micro_batch: a cycle every record of each source",
            "accumulating, with every cycle that changes it, late ones for 2h; to stdout",
        ),
        (
            r#""batch""#,
            json!({"kind": "batch"}),
            "engine batch: all sources are read to their ends, whatever they promise before",
            "accumulating, once, at the end of all input, late ones for 2h; to stdout",
        ),
    ] {
        let sets = [format!("pipeline.engine={engine}")];
        let plan = PlanDocument::new(&load_text(("p.toml", PIPELINE), &sets, &|_| None).unwrap());
        let document: Json = serde_json::from_str(&plan.to_json()).unwrap();
        assert_eq!(document["engine"], json);
        let tree = text::render(&plan);
        for line in [head, panes] {
            assert!(tree.lines().any(|found| found.ends_with(line)), "{line} in {tree}");
        }
    }
}

#[test]
fn graphs_have_every_stage_edge_and_sink() {
    let plan = document();
    let (dot, mermaid) = (graph::dot(&plan), graph::mermaid(&plan));
    // Each stage reads one thing; two of them write panes, both to one sink.
    let stages = ["hours", "best/all", "best", "total"];
    assert_eq!(plan.stages.iter().map(|stage| &*stage.name).collect::<Vec<_>>(), stages);
    let lines = |text: &str, is: &dyn Fn(&str) -> bool| text.lines().filter(|l| is(l)).count();
    let nodes =
        |text: &str| lines(text, &|line| line.contains("[shape = ") && !line.contains("node ["));
    assert_eq!(nodes(&dot), 1 + stages.len() + 1, "{dot}");
    let has = |text: &str, start: &str| lines(text, &|line| line.trim().starts_with(start));
    for edge in [
        r#""records" -> "hours" "#,
        r#""records" -> "best/all" "#,
        r#""best/all" -> "best" "#,
        r#""best/all" -> "total" "#,
        r#""hours" -> "sink stdout";"#,
        r#""best" -> "sink stdout";"#,
    ] {
        assert_eq!(has(&dot, edge), 1, "{edge} in {dot}");
    }
    assert_eq!(lines(&dot, &|line| line.contains(" -> ")), 6, "{dot}");
    let is_edge = |line: &str| line.contains(" --> ") || line.contains(" -.-> ");
    for edge in [
        "records --> s0",
        "records --> s1",
        "s1 --> s2",
        "s1 -.-> s3",
        "s0 --> out0",
        "s2 --> out0",
    ] {
        assert_eq!(has(&mermaid, edge), 1, "{edge} in {mermaid}");
    }
    assert_eq!(lines(&mermaid, &is_edge), 6, "{mermaid}");
    // Behind the line that says what it is.
    let nodes = mermaid.lines().skip(1).filter(|line| !is_edge(line)).count();
    assert_eq!(nodes, 1 + stages.len() + 1, "{mermaid}");
    crate::golden::golden(&[
        ("src/plan/tests/plan.dot", &dot),
        ("src/plan/tests/plan.mmd", &mermaid),
    ]);
}

#[test]
fn the_eight_groupings_read_records_at_most_three_times() {
    for (file, reads) in [("flows", 1), ("nephron", 2), ("captures", 1)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("config/{file}.toml"));
        let plan = PlanDocument::new(&load(&path, &[]).unwrap());
        assert_eq!(plan.record_reads, reads, "{file}");
    }
}
