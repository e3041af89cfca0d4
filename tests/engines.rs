//! `nilometer run` on each engine: the same totals, and panes as the engine wants them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Sums of `v` by `k`, and over all `k`, in windows of ten milliseconds.
const SUMS: &str = r#"
[pipeline]
name = "sums"
shard_by = ["k"]

[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"

[record]
time = "ts"
fields = { k = "text", v = "i128" }

[watermark]
kind = "bounded"
out_of_orderness = "5ms"

[defaults]
window = { fixed = "10ms" }
allowed_lateness = "1h"
aggregates = { sum = "sum(v)" }

[[group]]
name = "by_key"
key = ["k"]

[[group]]
name = "all"
key = []
"#;

/// An endless stream of flows, counted.
const FLOWS: &str = r#"
[pipeline]
name = "flows"

[[source]]
kind = "generator"
seed = 7

[watermark]
out_of_orderness = "1d"

[[group]]
name = "all"
key = []
window = { calendar = "year", time_zone = "UTC" }
aggregates = { flows = "count()" }
"#;

/// A run in a directory of its own.
fn start(folder: &Path, pipeline: &str, engine: &str, sets: &[&str]) -> Child {
    fs::write(folder.join("pipeline.toml"), pipeline).unwrap();
    let sets =
        sets.iter().map(|set| (*set).to_owned()).chain([format!("pipeline.engine={engine}")]);
    Command::new(env!("CARGO_BIN_EXE_nilometer"))
        .args(["run", "pipeline.toml", "--summary", "summary.json"])
        .args(sets.flat_map(|set| ["--set".to_owned(), set]))
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(fs::File::create(folder.join("stderr")).unwrap())
        .spawn()
        .unwrap()
}

/// Runs to the end: exit code, panes, stderr.
fn run(pipeline: &str, input: &str, engine: &str, sets: &[&str]) -> (i32, Vec<Json>, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.ndjson"), input).unwrap();
    let output = start(folder.path(), pipeline, engine, sets).wait_with_output().unwrap();
    let panes = String::from_utf8(output.stdout).unwrap();
    let panes = panes.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = fs::read_to_string(folder.path().join("stderr")).unwrap();
    (output.status.code().unwrap(), panes, told)
}

/// Records of 7 keys, up to 40 ms out of order.
fn records(count: i64) -> String {
    let record = |n: i64| {
        let ts = n / 2 + n * 37 % 41;
        format!("{{\"ts\":{ts},\"k\":\"k{}\",\"v\":{}}}\n", n % 7, n % 10)
    };
    (0..count).map(record).collect()
}

/// Sums by stage, key and start of the window, as [`records`] says.
fn expected(count: i64) -> BTreeMap<(String, String, i64), i64> {
    let mut sums = BTreeMap::new();
    for n in 0..count {
        let start = (n / 2 + n * 37 % 41) / 10 * 10;
        let key = format!("{{\"k\":\"k{}\"}}", n % 7);
        for place in [("by_key".into(), key, start), ("all".into(), "{}".into(), start)] {
            *sums.entry(place).or_default() += n % 10;
        }
    }
    sums
}

fn place(pane: &Json) -> (String, String, i64) {
    let stage = pane["stage"].as_str().unwrap().into();
    (stage, pane["key"].to_string(), pane["window"]["start"].as_i64().unwrap())
}

fn sum(pane: &Json) -> i64 {
    pane["values"]["sum"].to_string().trim_matches('"').parse().unwrap()
}

#[test]
fn every_engine_ends_with_the_same_totals() {
    let (input, expected) = (records(5_000), expected(5_000));
    for engine in [
        r#""streaming""#,
        r#""batch""#,
        r#"{ micro_batch = "1ms" }"#,
        r#"{ micro_batch = "1 record" }"#,
        r#"{ micro_batch = "777 records" }"#,
    ] {
        for shards in [1, 3] {
            let sets = [format!("pipeline.shards={shards}")];
            let (code, panes, told) = run(SUMS, &input, engine, &[&sets[0]]);
            assert_eq!(code, 0, "{told}");
            let totals: BTreeMap<_, _> =
                panes.iter().map(|pane| (place(pane), sum(pane))).collect();
            assert!(totals == expected, "{engine}, {shards} shards");
        }
    }
}

#[test]
fn a_batch_gives_each_window_once_and_in_order() {
    let (code, panes, told) = run(SUMS, &records(2_000), "batch", &["pipeline.shards=1"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(panes.len(), expected(2_000).len());
    for pane in &panes {
        let pane = &pane["pane"];
        let said = (&pane["index"], &pane["timing"], &pane["is_last"]);
        assert_eq!(said, (&0.into(), &"on_time".into(), &true.into()));
    }
    for stage in ["by_key", "all"] {
        let starts = panes.iter().map(place).filter(|place| place.0 == stage).map(|place| place.2);
        assert!(starts.is_sorted(), "{stage}");
    }
    assert!(told.contains("pipeline.engine = \"batch\"  (flag)"), "{told}");
}

#[test]
fn cycles_of_records_are_the_same_in_every_run() {
    let one = "{\"ts\":3,\"k\":\"a\",\"v\":1}\n";
    let engine = r#"{ micro_batch = "10 records" }"#;
    for limit in ["limits.batch_records=3", "limits.batch_records=4096"] {
        let (code, panes, told) = run(SUMS, &one.repeat(35), engine, &[limit]);
        assert_eq!(code, 0, "{told}");
        for stage in ["by_key", "all"] {
            let of_stage = panes.iter().filter(|pane| pane["stage"] == stage);
            let sums: Vec<_> = of_stage
                .map(|pane| (sum(pane), pane["pane"]["timing"].as_str().unwrap()))
                .collect();
            assert_eq!(sums, [(10, "early"), (20, "early"), (30, "early"), (35, "on_time")]);
        }
    }
    let engine = r#"{ micro_batch = "250 records" }"#;
    let sets = ["source.0.records=1000", "source.0.start=2026-06-01T00:00:00Z"];
    let (code, panes, told) = run(FLOWS, "", engine, &sets);
    assert_eq!(code, 0, "{told}");
    let counts: Vec<_> =
        panes.iter().map(|pane| pane["values"]["flows"].as_u64().unwrap()).collect();
    assert_eq!(counts, [250, 500, 750, 1_000]);
}

#[test]
fn a_signal_ends_the_cycle_and_what_was_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let engine = r#"{ micro_batch = "1000 records" }"#;
    let sets = ["source.0.start=2026-06-01T00:00:00Z"];
    let mut child = start(folder.path(), FLOWS, engine, &sets);
    let mut panes = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    panes.read_line(&mut first).unwrap();
    assert!(first.contains("\"flows\":1000"), "{first}");
    let kill = format!("kill -TERM {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let mut rest = String::new();
    panes.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // The window of the last pane is that of the last records; all windows hold all that was read.
    let mut last = BTreeMap::new();
    for line in first.lines().chain(rest.lines()) {
        let pane: Json = serde_json::from_str(line).unwrap();
        last.insert(place(&pane), pane["values"]["flows"].as_u64().unwrap());
    }
    let summary = fs::read_to_string(folder.path().join("summary.json")).unwrap();
    let summary: Json = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["records"]["accepted"], last.values().sum::<u64>());
}

#[test]
fn a_stage_that_fails_in_a_cycle_ends_the_run_with_the_reason() {
    // Each key fits by itself; together they do only at the end of the cycle, on another shard.
    let huge = i128::MAX / 2;
    let record = |key: u32| format!("{{\"ts\":1,\"k\":\"k{key}\",\"v\":{huge}}}\n");
    let input: String = (0..8).map(record).collect();
    for (engine, shards) in [("batch", 1), ("batch", 3), (r#"{ micro_batch = "8 records" }"#, 3)] {
        let sets = [format!("pipeline.shards={shards}")];
        let (code, _, told) = run(SUMS, &input, engine, &[&sets[0]]);
        assert_eq!(code, 1, "{told}");
        assert!(told.contains("stage `all`"), "{told}");
    }
}
