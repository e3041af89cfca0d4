//! Micro-batches and batches with a state: stopped and killed again and again, they give what they
//! would have given in peace.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod place;

use place::Place;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command, Stdio};

const SUMS: &str = r#"
[pipeline]
name = "sums"
shards = 1
engine = "batch"
[state]
dir = "state"
epoch = "1ms"
[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"
[record]
time = "ts"
fields = { k = "i64", v = "i64" }
[watermark]
kind = "bounded"
out_of_orderness = "20s"
[limits]
batch_records = 10
in_flight_records = 10
[defaults]
window = { fixed = "10s" }
allowed_lateness = "20s"
mode = "accumulating"
aggregates = { sum = "sum(v)", records = "count()" }
[[group]]
name = "by_key"
key = ["k"]
[[group]]
name = "all"
key = []
[[sink]]
name = "out"
kind = "file"
path = "${OUT}"
"#;

const RECORDS: i64 = 30_000;
/// How many processes do not come to their end, at most.
const DISTURBED: u32 = 6;

/// A place for `engine`, with records out of order, some of them late, some too late.
fn place(engine: &str) -> Place {
    let place = Place::new(&SUMS.replace("\"batch\"", engine));
    let text = (0..RECORDS).fold(String::new(), |mut text, number| {
        let behind = if number % 97 == 0 { number % 60_000 } else { number % 7 * 1_000 };
        let ts = (number * 10 - behind).max(0);
        writeln!(text, "{{\"ts\":{ts},\"k\":{},\"v\":{number}}}", number % 5).unwrap();
        text
    });
    place.write("in.ndjson", &text);
    place
}

fn start(place: &Place, out: &str, args: &[&str]) -> Child {
    place
        .command(&["run", "pipeline.toml", "--summary", &format!("{out}.json")])
        .args(args)
        .env("OUT", out)
        .stdout(Stdio::null())
        .stderr(fs::File::create(place.path("stderr")).unwrap())
        .spawn()
        .unwrap()
}

/// The files of a run in peace, with a state of its own, and of one whose first processes are ended
/// as soon as they have stored an epoch, now gently, now not.
fn disturbed(place: &Place) -> (String, String) {
    let peace = start(place, "whole", &["--state", "other"]).wait().unwrap();
    assert!(peace.success(), "{}", place.read("stderr"));
    let last = || fs::read(place.path("state/last")).ok();
    for processes in 0.. {
        let before = last();
        let mut child = start(place, "found", &[]);
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if processes < DISTURBED && last() != before {
                break None;
            }
            std::thread::yield_now();
        };
        if let Some(status) = ended {
            assert!(status.success(), "{}", place.read("stderr"));
            assert!(processes > 1, "it was not disturbed");
            break;
        }
        let signal = if processes % 2 == 0 { "-KILL" } else { "-TERM" };
        let pid = child.id().to_string();
        // One that has just ended is not there any more.
        Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status().unwrap();
        let status = child.wait().unwrap();
        // Where it had not begun to listen, the gentle signal is as rough as the other.
        assert!(status.success() || status.code().is_none(), "{}", place.read("stderr"));
    }
    // Every record of every process is in the account, once.
    let summary: Json = serde_json::from_str(&place.read("found.json")).unwrap();
    assert_eq!(summary["records"]["accepted"], RECORDS, "{summary}");
    (place.read("whole"), place.read("found"))
}

#[test]
fn a_batch_and_cycles_of_records_give_what_they_give_in_peace() {
    for engine in ["\"batch\"", "{ micro_batch = \"700 records\" }"] {
        let (whole, found) = disturbed(&place(engine));
        assert!(whole.lines().count() > 100, "{engine}: {whole}");
        // The order of keys within a window is that of tables, which differ from run to run.
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let (whole, found) = (sorted(&whole), sorted(&found));
        let more: Vec<_> = found.iter().filter(|line| !whole.contains(line)).take(3).collect();
        assert!(
            whole == found,
            "{engine}: of {} lines, {} came: {more:#?}",
            whole.len(),
            found.len()
        );
    }
}

/// The last values of each stage, key and window, and how many panes there were.
fn results(text: &str) -> BTreeMap<String, (u64, String)> {
    let mut results = BTreeMap::new();
    for line in text.lines() {
        let pane: Json = serde_json::from_str(line).unwrap();
        let name = format!("{} {} {}", pane["stage"], pane["key"], pane["window"]);
        let (panes, values) = results.entry(name).or_insert((0, String::new()));
        assert_eq!(pane["pane"]["index"], *panes, "none twice, none left out: {line}");
        (*panes, *values) = (*panes + 1, pane["values"].to_string());
    }
    results
}

/// When they end is up to the clock; what they come to is not, where nothing is too late.
#[test]
fn cycles_by_the_clock_come_to_the_same() {
    let place = place("{ micro_batch = \"30ms\" }");
    let pipeline = place.read("pipeline.toml").replace("lateness = \"20s\"", "lateness = \"1h\"");
    place.write("pipeline.toml", &pipeline);
    let (whole, found) = disturbed(&place);
    let values = |text: &str| -> BTreeMap<String, String> {
        results(text).into_iter().map(|(name, (_, values))| (name, values)).collect()
    };
    assert_eq!(values(&whole), values(&found));
}
