//! A pipeline that changes in the middle of a stream: every stage has every record once, or those behind
//! the place of the change.

use crate::place::Place;
use crate::{HEAD, OUT, succeeded};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Flows that never end within a test, so that a run can be stopped in the middle.
const FLOWS: &str = r#"
[[source]]
name = "invented"
kind = "generator"
records = 60000
rate = 500
[watermark]
kind = "bounded"
out_of_orderness = "20s"
[defaults]
window = { fixed = "10s" }
mode = "discarding"
allowed_lateness = "1h"
aggregates = { flows = "count()" }
"#;

fn group(name: &str, key: &str) -> String {
    format!("[[group]]\nname = \"{name}\"\nkey = {key}\n")
}

/// Flows by key and window of a stage, all panes together.
fn flows(text: &str, stage: &str) -> BTreeMap<(String, i64), u64> {
    let mut flows: BTreeMap<_, u64> = BTreeMap::new();
    for line in text.lines() {
        let pane: Json = serde_json::from_str(line).unwrap();
        if pane["stage"] == stage {
            let window = (pane["key"].to_string(), pane["window"]["start"].as_i64().unwrap());
            *flows.entry(window).or_default() += pane["values"]["flows"].as_u64().unwrap();
        }
    }
    // A flow counts in one window, and has a part in all that it lasts for.
    flows.retain(|_, count| *count > 0);
    flows
}

/// Flows by protocol and window of so many ms, of the lines of a generated file.
fn by_protocol<'a>(
    lines: impl Iterator<Item = &'a str>,
    size: i64,
) -> BTreeMap<(String, i64), u64> {
    let mut flows = BTreeMap::new();
    for line in lines {
        let record: Json = serde_json::from_str(line).unwrap();
        let time = record["timestamp"].as_i64().unwrap();
        let key = format!("{{\"protocol\":{}}}", record["protocol"]);
        *flows.entry((key, time - time.rem_euclid(size))).or_default() += 1;
    }
    flows
}

#[test]
fn in_the_middle_of_a_stream_stages_go_on_exactly_and_new_ones_take_what_comes() {
    let said = changed_in_the_middle("");
    assert!(!said.contains("bytes of pages"), "{said}");
}

/// Pages of what goes on are taken apart where its keys lie elsewhere now, and those of what is
/// dropped go.
#[test]
fn keys_that_lie_in_pages_go_on_as_well() {
    let said = changed_in_the_middle("memory = \"1KiB\"\n");
    assert!(said.contains("bytes of pages"), "{said}");
    assert!(!said.contains("on disk: 0 keys in "), "no key lies in pages: {said}");
}

/// What the run has said that was stopped in the middle. Everything is held against sums over the
/// generated records, which `generate` prints: all of them, or those behind the place of the change.
fn changed_in_the_middle(memory: &str) -> String {
    let (fine, coarse) =
        (group("fine", "[\"exporter\", \"protocol\"]"), group("coarse", "[\"protocol\"]"));
    let (beside, wide) = (group("beside", "[\"dscp\"]"), group("wide", "[\"protocol\"]"));
    // Their windows are made of no other stage's, so that they read records.
    let longer = format!("{}window = {{ fixed = \"15s\" }}\n", wide.replace("wide", "longer"));
    let wide = format!("{wide}window = {{ fixed = \"25s\" }}\n");
    let pipeline = |groups: &[&str]| [HEAD, memory, FLOWS, &groups.concat(), OUT].concat();
    let place = Place::new(&pipeline(&[&coarse, &beside, &longer.replace("15s", "10s")]));
    let records = succeeded(
        place
            .command(&["generate", "flows", "--records", "60000", "--rate", "500"])
            .output()
            .unwrap(),
    );

    // However slow the disk is, no more than some epochs are read before the first results are out.
    let small = ["--set", "state.max_epoch_bytes=64KiB"];
    let child = place.start(&[&["--summary", "first.json"], &small[..]].concat());
    while fs::metadata(place.path("out.ndjson")).map_or(0, |metadata| metadata.len()) == 0 {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let (_, said) = succeeded(child.wait_with_output().unwrap());
    let before = place.read("out.ndjson");
    // `coarse` reads panes of `fine` now, `beside` is gone, `longer` is not what it was.
    place.write("pipeline.toml", &pipeline(&[&fine, &coarse, &longer, &wide]));
    let drop = ["--drop-state", "beside", "--drop-state", "longer", "--set", "pipeline.shards=3"];
    place.run(&[&["--summary", "second.json"], &drop[..]].concat());
    let all = place.read("out.ndjson");

    let summary = |name: &str| serde_json::from_str::<Json>(&place.read(name)).unwrap();
    let read = |name: &str| summary(name)["records"]["read"].as_u64().unwrap() as usize;
    let place_of_change = read("first.json");
    assert!(read("second.json") > 0, "it was stopped in the middle");
    assert_eq!(place_of_change + read("second.json"), 60_000, "counts begin where stages do");
    let lines = || records.0.lines();
    assert_eq!(flows(&all, "coarse"), by_protocol(lines(), 10_000), "it has lost nothing");
    let after = all.strip_prefix(&before).unwrap();
    for (stage, size) in [("longer", 15_000), ("wide", 25_000)] {
        let truth = by_protocol(lines().skip(place_of_change), size);
        assert_eq!(flows(after, stage), truth, "{stage} begins at the place of the change");
    }
    said
}
