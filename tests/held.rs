//! A state whose runs fail again and again: what is remembered, when a start is held, and the ways
//! out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod place;

use nilometer::config;
use nilometer::state::{self, Asked};
use nilometer::supervision::abort_on_panic;
use place::Place;
use serde_json::Value as Json;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Sums that can become too large, read two records at a time.
const SUMS: &str = r#"
dead_letters = "dead.ndjson"
[pipeline]
name = "sums"
shards = 1
[state]
dir = "state"
epoch = "50ms"
[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"
[record]
time = "ts"
fields = { k = "i64", v = "i128" }
[watermark]
kind = "bounded"
out_of_orderness = "0s"
[limits]
batch_records = 2
[[group]]
name = "sums"
key = ["k"]
window = { fixed = "1h" }
mode = "accumulating"
aggregates = { sum = "sum(v)" }
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#;

/// Twenty records of keys of their own, but for the eleventh and the twelfth, which have one key and
/// no sum.
fn records() -> String {
    (0..20).fold(String::new(), |mut text, number| {
        let (k, v) = if matches!(number, 10 | 11) { (10, i128::MAX) } else { (number, number) };
        writeln!(text, "{{\"ts\":{number},\"k\":{k},\"v\":{v}}}").unwrap();
        text
    })
}

impl Place {
    /// Exit code and stderr.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let run = ["run", "pipeline.toml", "--summary", "summary.json"];
        let output = self.command(&run).args(args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn ends(&self, args: &[&str], code: i32, what: &[&str]) {
        let (found, stderr) = self.run(args);
        assert_eq!(found, code, "{stderr}");
        for words in what {
            assert!(stderr.contains(words), "`{words}` is not in {stderr}");
        }
    }
}

#[test]
fn the_start_behind_the_third_failure_is_held_until_its_batch_is_left_out() {
    let place = Place::new(SUMS);
    place.write("in.ndjson", &records());
    for _ in 0..3 {
        place.ends(&[], 1, &["stage `sums`", "overflows 128 bits"]);
    }
    let held = [
        "error: the pipeline starts held, and nothing was read: its last 3 runs have failed",
        "the last one at records 11 to 12 of source `input`, behind epoch ",
        ": shard 0: stage `sums`: ",
        "start with --skip-batch to put these records among the dead letters, or with --retry",
    ];
    for _ in 0..2 {
        place.ends(&[], 7, &held);
    }
    let before = "the run before this one failed at records 11 to 12 of source `input`";
    place.ends(&["--retry"], 1, &[before]);
    place.ends(&["--retry", "--skip-batch"], 2, &["cannot be used with"]);
    place.ends(&["--skip-batch"], 0, &["leaves out records 11 to 12 of source `input`"]);

    let letters = place.read("dead.ndjson");
    let letters: Vec<Json> =
        letters.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(letters.len(), 2, "{letters:?}");
    for (letter, number) in letters.iter().zip([11, 12]) {
        assert_eq!((&letter["reason"], &letter["record"]), (&"skipped".into(), &number.into()));
        assert!(letter["raw"].as_str().unwrap().contains(&i128::MAX.to_string()), "{letter}");
    }
    let summary: Json = serde_json::from_str(&place.read("summary.json")).unwrap();
    let records = &summary["records"];
    assert_eq!((&records["read"], &records["dead_lettered"]), (&20.into(), &2.into()));
    let out = place.read("out.ndjson");
    let sums = out
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["values"]["sum"].as_u64().unwrap());
    assert_eq!(sums.sum::<u64>(), (0..20).sum::<u64>() - 10 - 11);

    // It is behind.
    let nothing = "there is no batch that the run before failed in";
    place.ends(&["--skip-batch"], 0, &[nothing]);
    assert_eq!(place.read("out.ndjson"), out);
    let (_, stderr) = place.run(&[]);
    assert!(!stderr.contains("leaves out") && !stderr.contains("failed"), "{stderr}");
}

#[test]
fn failures_of_inputs_and_outputs_are_not_held() {
    let place = Place::new(&SUMS.replace("\"out.ndjson\"", "\"/dev/full\""));
    place.write("in.ndjson", &records().replace(&i128::MAX.to_string(), "1"));
    for _ in 0..5 {
        place.ends(&[], 4, &["cannot write `/dev/full`"]);
    }
    let place = Place::new(&SUMS.replace("[state]\ndir = \"state\"\nepoch = \"50ms\"\n", ""));
    place.write("in.ndjson", &records());
    for _ in 0..4 {
        place.ends(&[], 1, &["overflows 128 bits"]);
    }
    place.ends(&["--retry"], 2, &["which takes a state; give its directory with --state"]);
}

/// Where a process of this test finds a pipeline that it is to panic in.
const PANIC_IN: &str = "NILOMETER_TEST_PANICS";

/// Runs as a process of its own, too, which panics as a fault of the program would.
#[test]
fn a_panic_ends_the_process_and_is_counted() {
    if std::env::var_os(PANIC_IN).is_some() {
        let pipeline = config::load(Path::new("pipeline.toml"), &[]).unwrap();
        let state = state::open_for(&pipeline, Asked::default()).unwrap().unwrap();
        abort_on_panic(Some(state.supervision.clone()));
        // On another thread, as an actor's is.
        std::thread::spawn(|| panic!("for the test")).join().ok();
        return;
    }
    let place = Place::new(SUMS);
    place.write("in.ndjson", &records());
    for _ in 0..3 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_panic_ends_the_process_and_is_counted"])
            .env(PANIC_IN, "1")
            .current_dir(place.folder())
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(6), "it aborts: {child:?}");
    }
    let held = ["its last 3 runs have failed", "panicked at tests/held.rs:", ": for the test\n"];
    place.ends(&[], 7, &held);
    place.ends(&[], 7, &["there are no records that --skip-batch could leave out"]);
    place.ends(&["--skip-batch"], 7, &["there are no records that --skip-batch could leave out"]);
    place.ends(&["--retry"], 1, &["overflows 128 bits"]);
}
