//! The program killed at any instant, again and again: its files hold in the end what they would
//! have held.
//!
//! A seed decides when: half of the kills fall into the first moments of a process, while it opens
//! its state, and some are no kills but a signal to drain. `NILOMETER_KILLS` says how many kills
//! each scenario takes at least, `NILOMETER_SEED` where the dice begin; a failure prints both.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod place;

use nilometer_connectors::generator::Dice;
use place::Place;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Killed,
    /// It was told to drain, and did.
    Drained,
    Finished,
}

impl Place {
    fn start(&self, out: &str, args: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_nilometer"))
            .args(["run", "pipeline.toml"])
            .args(args)
            .env("OUT", out)
            .env("DATA", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/flows"))
            .current_dir(self.folder())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.path("stderr")).unwrap())
            .spawn()
            .unwrap()
    }

    /// Runs with a state, and lets the process live for `patience` at most.
    fn run(&self, patience: Duration, is_gentle: bool) -> End {
        let child = self.start("killed", &["--state", "state"]);
        let pid = child.id().to_string();
        let (status, killed) = wait(child, patience, || {
            let signal = if is_gentle { "-TERM" } else { "-KILL" };
            // A process that has just ended is not there any more.
            let killed = Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status();
            assert!(killed.is_ok());
        });
        let stderr = || self.read("stderr");
        match (killed, status.code()) {
            (true, None) => End::Killed,
            (true, Some(0)) if stderr().contains("draining") => End::Drained,
            (_, Some(0)) => End::Finished,
            (_, Some(_)) | (false, None) => panic!("{status}: {}", stderr()),
        }
    }
}

/// Waits for the end of `child`; after `patience`, once it has been brought about by `end`.
fn wait(mut child: Child, patience: Duration, end: impl FnOnce()) -> (ExitStatus, bool) {
    let (tell, told) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let status = child.wait().unwrap();
        // Nobody listens if the test has failed.
        tell.send(()).ok();
        status
    });
    let is_late = told.recv_timeout(patience).is_err();
    if is_late {
        end();
    }
    (waiting.join().unwrap(), is_late)
}

/// Runs a pipeline once in peace and often under fire, and compares the files called `outputs`.
fn check(place: &Place, outputs: &[&str], compare: impl Fn(&str, &str)) {
    let (kills, seed) = (setting("NILOMETER_KILLS", 14), setting("NILOMETER_SEED", 1));
    let peace = place.start("whole", &[]).wait().unwrap();
    assert!(peace.success(), "{}", place.read("stderr"));
    let mut dice = Dice::new(seed);
    let mut killed = 0;
    while killed < kills {
        fs::remove_dir_all(place.path("state")).ok();
        loop {
            let millis = if dice.below(2) == 0 { dice.below(400) } else { 200 + dice.below(1_500) };
            let is_gentle = dice.below(8) == 0;
            match place.run(Duration::from_millis(millis), is_gentle) {
                End::Killed => killed += 1,
                End::Drained => {}
                End::Finished => break,
            }
        }
        for output in outputs {
            let read = |of: &str| place.read(&format!("{of}.{output}"));
            let (whole, found) = (read("whole"), read("killed"));
            assert!(whole.lines().count() > 10, "{output}: {whole}");
            eprintln!("NILOMETER_SEED={seed} after {killed} kills, {output}");
            compare(&whole, &found);
        }
    }
}

/// Not a byte differs but the order of the lines.
fn same_lines(whole: &str, found: &str) {
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let (whole, found) = (sorted(whole), sorted(found));
    let only_in = |one: &[String], other: &[String]| {
        let only = one.iter().filter(|line| other.binary_search(line).is_err()).take(3);
        only.cloned().collect::<Vec<_>>()
    };
    let (missing, more) = (only_in(&whole, &found), only_in(&found, &whole));
    assert!(whole == found, "missing: {missing:#?}\nmore: {more:#?}");
}

/// Stage, key and window.
type Result = (String, String, String);

/// The panes of each result by their index: no pane twice, none left out.
fn panes(text: &str) -> BTreeMap<Result, Vec<Json>> {
    let mut panes: BTreeMap<Result, BTreeMap<u64, Json>> = BTreeMap::new();
    for line in text.lines() {
        let pane: Json = serde_json::from_str(line).unwrap();
        let of = |name: &str| pane[name].to_string();
        let index = pane["pane"]["index"].to_string().parse().unwrap();
        let known = panes.entry((of("stage"), of("key"), of("window"))).or_default();
        let before = known.insert(index, pane.clone());
        assert!(before.is_none(), "twice: {line}");
    }
    let in_order = |(result, panes): (Result, BTreeMap<u64, Json>)| {
        let indices: Vec<_> = panes.keys().copied().collect();
        assert_eq!(indices, (0..indices.len() as u64).collect::<Vec<_>>(), "{result:?}");
        (result, panes.into_values().collect())
    };
    panes.into_iter().map(in_order).collect()
}

/// Which records are late depends on when a watermark comes by, in every run; what each window
/// comes to does not.
fn same_totals(whole: &str, found: &str) {
    let totals = |text: &str| -> BTreeMap<Result, Json> {
        let last = |panes: Vec<Json>| panes.last().unwrap()["values"].clone();
        panes(text).into_iter().map(|(result, panes)| (result, last(panes))).collect()
    };
    assert_eq!(totals(whole), totals(found));
}

#[test]
fn captures_are_counted_once() {
    let place = Place::new(
        r#"
[pipeline]
name = "captures"
shards = 2
[state]
dir = "state"
epoch = "100ms"
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
"#,
    );
    check(&place, &["ndjson"], same_lines);
}

#[test]
fn late_records_count_once() {
    let place = Place::new(
        r#"
[pipeline]
name = "generated"
shards = 2
[state]
dir = "state"
epoch = "100ms"
[[source]]
name = "generated"
kind = "generator"
records = 60000
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
"#,
    );
    check(&place, &["ndjson"], same_totals);
}

/// Two inputs that read in step, sessions, retractions, and a header that must not come twice.
const TEXTS: &str = r#"
[pipeline]
name = "texts"
shards = 2
[state]
dir = "state"
epoch = "100ms"
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
[defaults]
allowed_lateness = "1h"
aggregates = { sum = "sum(v)", records = "count()" }
[[group]]
name = "minutes"
key = ["k"]
window = { fixed = "60s" }
mode = "retracting"
sinks = ["panes"]
[[group]]
name = "users"
key = ["user"]
window = { session = "20s" }
mode = "accumulating"
sinks = ["rows"]
[[sink]]
name = "panes"
kind = "file"
path = "${OUT}.ndjson"
[[sink]]
name = "rows"
kind = "file"
format = "csv"
path = "${OUT}.csv"
"#;

#[test]
fn texts_in_step_are_counted_once() {
    let place = Place::new(TEXTS);
    let mut dice = Dice::new(5);
    let mut record = |number: u64| {
        let (k, user) = (dice.below(9), dice.below(40));
        (number * 100 + dice.below(100), format!("k{k}"), format!("user {user}"), dice.below(1_000))
    };
    let lines = |from: u64, record: &mut dyn FnMut(u64) -> (u64, String, String, u64)| {
        (from..from + 20_000).fold(String::new(), |mut text, number| {
            let (t, k, user, v) = record(number);
            writeln!(text, r#"{{"t":{t},"k":"{k}","user":"{user}","v":{v}}}"#).unwrap();
            text
        })
    };
    let (a, b) = (lines(0, &mut record), lines(20_000, &mut record));
    let mut c = "user,t,v,k\n".to_owned();
    for number in 0..40_000 {
        let (t, k, user, v) = record(number);
        writeln!(c, "{user},{t},{v},{k}").unwrap();
    }
    for (name, text) in [("a.ndjson", a), ("b.ndjson", b), ("c.csv", c)] {
        fs::write(place.path(name), text).unwrap();
    }
    check(&place, &["ndjson", "csv"], same_lines);
}
