//! The program killed at any instant, again and again: its files hold in the end what they would
//! have held, and what the batch engine gives over the same input.
//!
//! A seed decides when: at least half of the kills fall into the start of a process or into a flush,
//! which is looked at afterwards, and some are no kills but a signal to drain. Each process has another
//! number of shards. `NILOMETER_KILLS` says how many kills there are at least, over all scenarios (40),
//! `NILOMETER_SEED` where the dice begin; a failure prints both.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod compare;
#[path = "../place/flush.rs"]
mod flush;
mod instants;
#[path = "../place/mod.rs"]
mod place;

use compare::{same_lines, same_totals};
use instants::{Doing, End, Instant};
use nilometer_connectors::generator::Dice;
use place::Place;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

/// Scenarios, which share the kills.
const SCENARIOS: u64 = 3;

/// Written above the pipelines that run with a state.
const STATE: &str = "[state]\ndir = \"state\"\nepoch = \"50ms\"\n";

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

impl Place {
    fn process(&self, out: &str, pipeline: &str, args: &[&str]) -> Command {
        let mut command = self.command(&["run", pipeline]);
        command
            .args(args)
            .env("OUT", out)
            .env("DATA", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/flows"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.path("stderr")).unwrap());
        command
    }

    /// Runs in peace, to the end.
    fn run(&self, out: &str, pipeline: &str, args: &[&str]) {
        let ended = self.process(out, pipeline, args).status().unwrap();
        assert!(ended.success(), "{}", self.read("stderr"));
    }

    /// Runs with a state on so many shards, until `instant` at most.
    fn run_until(&self, instant: &Instant, shards: u64) -> End {
        let shards = format!("pipeline.shards={shards}");
        let mut command = self.process("killed", "pipeline.toml", &["--set", &shards]);
        let mut child = command.envs(instant.environment(self)).spawn().unwrap();
        let (status, doing) = instant.end(self, &mut child);
        let stderr = || self.read("stderr");
        match (doing, status.code()) {
            (Some(doing), _) => End::Killed(doing),
            (None, Some(0)) if stderr().contains("draining") => End::Drained,
            (None, Some(0)) => End::Finished,
            (None, _) => panic!("{status} at {instant:?}: {}", stderr()),
        }
    }
}

/// Kills so far, by what they fell into.
#[derive(Debug, Default)]
struct Kills {
    starting: u64,
    flushing: u64,
    anything: u64,
}

impl Kills {
    const fn all(&self) -> u64 {
        self.starting + self.flushing + self.anything
    }

    /// Whether fewer than half fell into a start or a flush, or would if the next one did not.
    const fn is_short(&self) -> bool {
        self.starting + self.flushing <= self.anything
    }

    const fn add(&mut self, doing: Doing) {
        let kills = match doing {
            Doing::Starting => &mut self.starting,
            Doing::Flushing => &mut self.flushing,
            Doing::Anything => &mut self.anything,
        };
        *kills += 1;
    }
}

/// An output, and how it is compared: with an undisturbed run, and with the batch engine.
type Output = (&'static str, fn(&str, &str), Option<fn(&str, &str)>);

/// Runs a pipeline once in peace, once as a batch and often under fire, and compares its outputs.
fn check(pipeline: &str, inputs: impl Fn(&Place), outputs: &[Output]) {
    let place = Place::new(&format!("{STATE}{pipeline}"));
    place.write("batch.toml", pipeline);
    inputs(&place);
    place.run("batch", "batch.toml", &["--set", "pipeline.engine=batch"]);
    place.run("whole", "batch.toml", &[]);
    let seed = setting("NILOMETER_SEED", 1);
    let kills = setting("NILOMETER_KILLS", 40).div_ceil(SCENARIOS);
    let mut dice = Dice::new(seed);
    let mut killed = Kills::default();
    while killed.all() < kills {
        fs::remove_dir_all(place.path("state")).ok();
        loop {
            let instant = Instant::draw(&mut dice, killed.is_short());
            let shards = 1 + dice.below(4);
            // Shown where it fails.
            eprintln!("NILOMETER_SEED={seed}, after {killed:?}: {shards} shards, {instant:?}");
            match place.run_until(&instant, shards) {
                End::Killed(doing) => killed.add(doing),
                End::Drained => {}
                End::Finished => break,
            }
        }
        for (output, compare, compare_batch) in outputs {
            let read = |of: &str| place.read(&format!("{of}.{output}"));
            let (whole, found, batch) = (read("whole"), read("killed"), read("batch"));
            assert!(whole.lines().count() > 10, "{output}: {whole}");
            eprintln!("comparing {output}");
            compare(&whole, &found);
            if let Some(compare) = compare_batch {
                compare(&batch, &found);
            }
        }
    }
    // What was aimed at one of them and missed is less than a tenth.
    let aimed = killed.starting + killed.flushing;
    assert!(killed.starting > 0 && killed.flushing > 0, "{killed:?}");
    assert!(aimed * 2 + killed.all() / 10 + 1 >= killed.all(), "{killed:?}");
    eprintln!("{killed:?}");
}

#[test]
fn captures_are_counted_once() {
    const PIPELINE: &str = r#"
[pipeline]
name = "captures"
shards = 2
[[source]]
name = "captures"
kind = "files"
format = "capture"
paths = ["${DATA}/softflowd-exports/ndpi-1kxun.v9-sampled10.pcap",
         "${DATA}/netflow_parser/IPFIX.pcap.gz", "${DATA}/graylog/nprobe-netflow9-3.pcap"]
[watermark]
kind = "end_of_input"
[defaults]
window = { fixed = "60s" }
mode = "accumulating"
aggregates = { records = "count()", bytes = "sum(bytes)", last = "max(last_switched)" }
[[group]]
name = "by_interface"
key = ["exporter_address", "input_snmp_ifindex"]
[[group]]
name = "largest"
key = ["exporter_address", "src_address"]
top_k = { k = 5, rank = ["bytes"], other = true, entity = ["src_address"] }
[[group]]
name = "by_application"
key = ["application"]
[[sink]]
name = "out"
kind = "file"
path = "${OUT}.ndjson"
"#;
    check(PIPELINE, |_| {}, &[("ndjson", same_lines, Some(same_totals))]);
}

#[test]
fn late_records_count_once() {
    const PIPELINE: &str = r#"
[pipeline]
name = "generated"
shards = 2
[[source]]
name = "generated"
kind = "generator"
records = 30000
rate = 200
seed = 7
late_share = 0.05
[watermark]
kind = "bounded"
out_of_orderness = "30s"
[defaults]
window = { fixed = "60s" }
allowed_lateness = "1d"
mode = "accumulating"
aggregates = { bytes = "sum(bytes)", flows = "count()" }
[[group]]
name = "by_interface"
key = ["exporter", "if_index"]
[[group]]
name = "by_application"
key = ["application"]
trigger = { early = { count = 50 }, late = { count = 5 } }
[[group]]
name = "all"
key = []
[[sink]]
name = "out"
kind = "file"
path = "${OUT}.ndjson"
"#;
    check(PIPELINE, |_| {}, &[("ndjson", same_totals, Some(same_totals))]);
}

/// Two inputs that read in step: fixed and sliding windows, sessions, and a header that must not come
/// twice; with early panes, sessions that are taken back, and groups of their results.
const TEXTS: &str = r#"
[pipeline]
name = "texts"
shards = 2
[[source]]
name = "lines"
kind = "files"
format = "ndjson"
paths = ["a.ndjson", "b.ndjson"]
[[source]]
name = "rows"
kind = "files"
format = "csv"
paths = ["c.csv"]
[record]
time = "t"
fields = { k = "text", user = "text", v = "i64" }
[watermark]
kind = "bounded"
out_of_orderness = "0s"
max_drift = "10s"
[limits]
batch_records = 200
[defaults]
allowed_lateness = "1h"
aggregates = { sum = "sum(v)", records = "count()" }
sinks = ["panes"]
[[group]]
name = "minutes"
key = ["k"]
window = { fixed = "60s" }
mode = "retracting"
[[group]]
name = "sliding"
key = ["k"]
window = { sliding = "60s", every = "20s" }
mode = "discarding"
[[group]]
name = "users"
key = ["user"]
window = { session = "7s" }
mode = "accumulating"
sinks = ["rows"]
[[group]]
name = "visits"
key = ["user", "k"]
window = { session = "20s" }
trigger = { early = { count = 2 }, late = { count = 1 } }
mode = "retracting"
sinks = ["early"]
[[group]]
name = "lengths"
of = "visits"
derive = { bucket = "records / 4" }
key = ["bucket"]
window = { fixed = "60s" }
trigger = { early = { count = 5 }, late = { count = 1 } }
mode = "retracting"
aggregates = { visits = "count()", sum = "sum(sum)" }
sinks = ["early"]
[[sink]]
name = "panes"
kind = "file"
path = "${OUT}.ndjson"
[[sink]]
name = "early"
kind = "file"
path = "${OUT}.early"
[[sink]]
name = "rows"
kind = "file"
format = "csv"
path = "${OUT}.csv"
"#;

/// Records of each of two files of lines; the table has as many as both.
const LINES: u64 = 2_500;

fn write_texts(place: &Place) {
    let mut dice = Dice::new(5);
    let mut record = |number: u64| {
        let (k, user) = (dice.below(9), dice.below(40));
        (number * 100 + dice.below(100), format!("k{k}"), format!("user {user}"), dice.below(1_000))
    };
    let lines = |from: u64, record: &mut dyn FnMut(u64) -> (u64, String, String, u64)| {
        (from..from + LINES).fold(String::new(), |mut text, number| {
            let (t, k, user, v) = record(number);
            writeln!(text, r#"{{"t":{t},"k":"{k}","user":"{user}","v":{v}}}"#).unwrap();
            text
        })
    };
    let (a, b) = (lines(0, &mut record), lines(LINES, &mut record));
    let mut c = "user,t,v,k\n".to_owned();
    for number in 0..2 * LINES {
        let (t, k, user, v) = record(number);
        writeln!(c, "{user},{t},{v},{k}").unwrap();
    }
    for (name, text) in [("a.ndjson", a), ("b.ndjson", b), ("c.csv", c)] {
        place.write(name, &text);
    }
}

#[test]
fn texts_in_step_are_counted_once() {
    let outputs: [Output; 3] = [
        ("ndjson", same_lines, Some(same_totals)),
        ("csv", same_lines, None),
        // When early panes come depends on which input is ahead.
        ("early", same_totals, Some(same_totals)),
    ];
    check(TEXTS, write_texts, &outputs);
}
