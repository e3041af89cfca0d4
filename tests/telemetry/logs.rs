//! What a run says on stderr: the same for people and for machines, and not without end.

use super::collector::{Collector, Manner};
use super::{TOKEN, lacking, place, told};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Files that are not whole, each of which is a notice.
const FILES: usize = 50;
/// Notices of one kind that are told.
const TOLD: usize = 20;

/// The beginning of a stream of gzip: its header, and a block with `text` that is not the last one.
fn half_packed(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0];
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(text.as_bytes());
    packed
}

/// What a run over files that are not whole says, told as `arguments` want it.
fn said(telemetry: &str, arguments: &[&str]) -> String {
    let place = place(telemetry);
    let names: Vec<_> = (0..FILES).map(|number| format!("{number}.ndjson.gz")).collect();
    for (number, name) in names.iter().enumerate() {
        let record = format!("{{\"ts\":{number},\"name\":\"n\",\"kind\":\"k\"}}\n");
        fs::write(place.path(name), half_packed(&record)).unwrap();
    }
    let paths = format!("source.0.paths={names:?}");
    let mut command: Command = place.command(&["run", "pipeline.toml", "--set", &paths]);
    let output = command.args(arguments).envs([TOKEN]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{said}");
    said
}

#[test]
fn people_are_told_what_repeats_a_few_times_and_how_often_it_came() {
    let said = said("", &[]);
    let notices: Vec<_> = said.lines().filter(|line| line.contains("is not whole")).collect();
    assert_eq!(notices.len(), TOLD + 1, "{said}");
    for (number, line) in notices.iter().enumerate() {
        // The one that speaks for those that were not told is the first of them.
        assert!(line.contains(&format!("`{number}.ndjson.gz`")), "{line}");
        let suppressed = line.ends_with(&format!(" suppressed={}", FILES - TOLD));
        assert_eq!(suppressed, number == TOLD, "{line}");
    }
}

#[test]
fn machines_are_told_in_objects_with_the_span_that_each_is_of() {
    let collector = Collector::start(Manner::Takes);
    let said = said(&told("grpc", collector.grpc), &["--log-format", "json"]);
    let lines: Vec<Json> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        for field in ["time", "level", "target", "message"] {
            assert!(line[field].is_string(), "{line}");
        }
    }
    let text = |line: &Json, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let is_notice = |line: &&Json| text(line, "message").contains("is not whole");
    let notices: Vec<_> = lines.iter().filter(is_notice).collect();
    assert_eq!(notices.len(), TOLD + 1, "{said}");
    assert_eq!(notices[TOLD]["suppressed"], FILES - TOLD);
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let spans = collector.spans();
    let batches = spans.iter().filter(|span| span.name == "source batch");
    let batches: HashSet<_> =
        batches.map(|span| (hex(&span.trace_id), hex(&span.span_id))).collect();
    for notice in &notices[..TOLD] {
        let of = (text(notice, "trace_id"), text(notice, "span_id"));
        assert!(batches.contains(&of), "{notice}: {batches:?}");
    }
    // What people see as tables is one object, and nothing is written beside.
    assert!(lines.iter().any(|line| text(line, "message").contains("dead-lettered")), "{said}");
}

#[test]
fn a_level_is_of_what_a_run_says_on_its_way_and_its_end_is_always_told() {
    let input = "{\"ts\":1,\"name\":\"n\",\"kind\":\"k\"}\n";
    for (form, level, is_told_on_its_way) in [
        ("text", "off", false),
        ("json", "off", false),
        ("json", "error", false),
        ("json", "info", true),
    ] {
        let flags = ["run", "pipeline.toml", "--log-format", form, "--log-level", level];
        let place = place("");
        place.write("in.ndjson", input);
        let output = place.command(&flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("sink `out`: 2 panes"), "{flags:?}: {said}");
        assert_eq!(said.contains("settings in force"), is_told_on_its_way, "{flags:?}: {said}");
        // A sink that cannot be opened, and one that fails while it runs.
        let has_full = lacking::has("/dev/full", Path::new("/dev/full").exists());
        let paths = ["in.ndjson/out.ndjson", "/dev/full"];
        for path in &paths[..1 + usize::from(has_full)] {
            let path = format!("sink.0.path={path:?}");
            let output = place.command(&flags).args(["--set", &path]).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(4), "{said}");
            let last = said.trim_end().lines().last().unwrap();
            if form == "json" {
                let last: Json = serde_json::from_str(last).unwrap();
                assert_eq!(last["level"], "ERROR", "{flags:?}: {said}");
                assert!(last["message"].as_str().unwrap().starts_with("error: "), "{said}");
            } else {
                assert!(last.starts_with("error: "), "{flags:?}: {said}");
            }
        }
    }
}
