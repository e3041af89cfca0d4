//! `nilometer run` as its users see it: panes on stdout, the summary, signals, exit codes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use serde_json::Value as Json;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// Sums of `v` by `k` in windows of ten milliseconds.
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
fields = { k = "text", v = "i64" }

[watermark]
kind = "bounded"
out_of_orderness = "0s"

[[group]]
name = "sums"
key = ["k"]
window = { fixed = "10ms" }
allowed_lateness = "1h"
mode = "accumulating"
aggregates = { sum = "sum(v)" }
sinks = ["out"]

[[sink]]
name = "out"
kind = "stdout"
format = "pane"
"#;

/// A directory that a pipeline runs in.
struct Place(TempDir);

impl Place {
    fn new(pipeline: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("pipeline.toml", pipeline);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn start(&self, args: &[&str]) -> Running {
        let summary = ["--summary", "summary.json"];
        let summary = if args.contains(&"--summary") { &[][..] } else { &summary };
        let mut child = Command::new(env!("CARGO_BIN_EXE_nilometer"))
            .args(["run", "pipeline.toml"])
            .args(summary)
            .args(args)
            .current_dir(self.0.path())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(self.path("stderr")).unwrap())
            .spawn()
            .unwrap();
        let panes = BufReader::new(child.stdout.take().unwrap());
        Running { child, panes }
    }

    /// Runs to the end: exit code, lines on stdout, stderr.
    fn run(&self, args: &[&str]) -> (i32, Vec<String>, String) {
        let (status, panes) = self.start(args).finish();
        (status.code().unwrap(), panes, self.stderr())
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.path("stderr")).unwrap()
    }

    /// The summary, whose records have to add up.
    fn summary(&self) -> Json {
        let text = fs::read_to_string(self.path("summary.json")).unwrap();
        let summary: Json = serde_json::from_str(&text).unwrap();
        let of = |name: &str| number(&summary["records"][name]);
        let outcomes = ["accepted", "malformed", "filtered", "dead_lettered", "in_flight"];
        assert_eq!(of("read"), outcomes.iter().map(|name| of(name)).sum::<u64>(), "{text}");
        summary
    }
}

fn number(json: &Json) -> u64 {
    json.to_string().parse().unwrap()
}

/// A run that goes on.
struct Running {
    child: Child,
    panes: BufReader<ChildStdout>,
}

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.panes.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn finish(mut self) -> (ExitStatus, Vec<String>) {
        let mut rest = String::new();
        self.panes.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        (status, rest.lines().map(str::to_owned).collect())
    }
}

/// Records of 7 keys, one per millisecond, each of value 1.
fn records(count: u64) -> String {
    (0..count).map(|ts| format!("{{\"ts\":{ts},\"k\":\"k{}\",\"v\":1}}\n", ts % 7)).collect()
}

/// The sum of the totals of panes, the last of each key and window.
fn total(panes: &[String]) -> u64 {
    let mut last = std::collections::BTreeMap::new();
    for pane in panes {
        let pane: Json = serde_json::from_str(pane).unwrap();
        let place = (pane["key"].to_string(), pane["window"].to_string());
        last.insert(place, number(&pane["values"]["sum"]));
    }
    last.values().sum()
}

#[test]
fn a_run_gives_every_record_an_outcome_and_says_it_in_the_schema() {
    let place = Place::new(SUMS);
    // One record behind the others but in the same batch, so not late; one line that is none.
    place.write("in.ndjson", &format!("{}{{\"ts\":5,\"k\":\"k0\",\"v\":9}}\nnone\n", records(40)));
    for shards in ["1", "3"] {
        let (code, panes, stderr) = place.run(&["--set", &format!("pipeline.shards={shards}")]);
        assert_eq!(code, 0, "{stderr}");
        assert_eq!((total(&panes), panes.len()), (49, 4 * 7));
        let text = fs::read_to_string(place.path("summary.json")).unwrap();
        let expected = concat!(
            r#"{"records":{"read":42,"accepted":41,"malformed":1,"filtered":0,"dead_lettered":0,"in_flight":0},"#,
            r#""datagrams":{"read":0,"malformed":0,"no_template":0,"dropped":0},"#,
            r#""stages":{"sums":{"on_time":41,"late":0,"expired":0,"closed":0,"no_window":0,"panes":28,"retracts":0}},"#,
            r#""marks":{"reordered":1}}"#,
            "\n"
        );
        assert_eq!(text, expected);
        for said in ["watermark.out_of_orderness = \"0s\"", "malformed: not_json 1", "28 panes"] {
            assert!(stderr.contains(said), "{said} is not in {stderr}");
        }
    }
}

#[test]
fn a_signal_in_the_middle_drains_and_a_second_one_ends() {
    let place = Place::new(SUMS);
    let count = 200_000;
    place.write("in.ndjson", &records(count));
    for (signal, is_impatient) in [("INT", false), ("TERM", false), ("INT", true)] {
        let mut running = place.start(&[]);
        let first = running.line();
        assert!(first.contains("\"stage\":\"sums\""), "{first}");
        // Nobody reads on: the sink stands, and soon the source too, long before its end.
        running.signal(signal);
        if is_impatient {
            // The first one has been heard once it is answered.
            while !place.stderr().contains("draining") {
                std::thread::yield_now();
            }
            running.signal("TERM");
            assert_eq!(running.finish().0.code(), Some(130));
            continue;
        }
        let (status, mut panes) = running.finish();
        panes.push(first);
        assert_eq!(status.code(), Some(0), "{}", place.stderr());
        let summary = place.summary();
        let read = number(&summary["records"]["read"]);
        assert!(read < count, "the source went on");
        assert_eq!(read, number(&summary["records"]["accepted"]), "everything has passed");
        // All but what is in the last window, which the watermark has not passed.
        assert_eq!(total(&panes), (read - 1) / 10 * 10);
        assert!(place.stderr().contains("not emitted: "), "{}", place.stderr());
    }
}

#[test]
fn failures_have_their_exit_codes_and_name_the_way_out() {
    let cases: [(&[&str], i32, &[&str]); 6] = [
        (&["--set", "source.0.paths=[\"no.ndjson\"]"], 3, &["no.ndjson", "check that it exists"]),
        (
            &["--set", "sink.0={name=\"out\",kind=\"file\",path=\"/proc/none/x\"}"],
            4,
            &["/proc/none"],
        ),
        (
            &["--set", "sink.0={name=\"out\",kind=\"file\",path=\"/dev/full\"}"],
            4,
            &["/dev/full", "space"],
        ),
        (&["--set", "dead_letters=\"/dev/full\""], 4, &["dead letters", "/dev/full"]),
        (&["--summary", "/proc/none/x"], 4, &["--summary"]),
        (&["--set", "source=[]"], 2, &["nilometer test"]),
    ];
    let place = Place::new(SUMS);
    place.write("in.ndjson", &format!("{}none\n", records(500)));
    for (args, expected, words) in cases {
        let (code, _, stderr) = place.run(args);
        assert_eq!(code, expected, "{args:?}: {stderr}");
        for word in words {
            assert!(stderr.contains(word), "{args:?}: `{word}` is not in {stderr}");
        }
    }
}
