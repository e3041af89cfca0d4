//! A run that is told to end: it drains, and where it cannot it ends at once and loses nothing.
//!
//! Results are more than a pipe takes, so a test that does not read them holds the sink up.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod place;

use place::Place;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};

/// Each record is a result, and results go to stdout.
const COPIES: &str = r#"
[pipeline]
name = "copies"
shards = 1
[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"
[record]
time = "ts"
fields = { k = "i64" }
[watermark]
kind = "bounded"
out_of_orderness = "0s"
[[group]]
name = "copies"
key = ["k"]
window = { fixed = "10ms" }
aggregates = { n = "count()" }
[[sink]]
name = "out"
kind = "stdout"
"#;

const RECORDS: u64 = 5_000;

fn copies() -> Place {
    let place = Place::new(COPIES);
    let text = (0..RECORDS).fold(String::new(), |mut text, k| {
        writeln!(text, "{{\"ts\":0,\"k\":{k}}}").unwrap();
        text
    });
    place.write("in.ndjson", &text);
    place
}

fn start(place: &Place, args: &[&str]) -> Child {
    place
        .command(&["run", "pipeline.toml"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(fs::File::create(place.path("stderr")).unwrap())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// Starts a run whose sink is held up behind its first result, and tells it to end.
fn start_held_up(place: &Place, args: &[&str]) -> (Child, BufReader<impl Read + use<>>) {
    let mut child = start(place, args);
    let mut panes = BufReader::with_capacity(1, child.stdout.take().unwrap());
    let mut first = String::new();
    // It lives, and so hears the signal.
    panes.read_line(&mut first).unwrap();
    assert!(first.contains("\"stage\":\"copies\""), "{first}");
    signal(&child, "-TERM");
    (child, panes)
}

/// Keys of the results of a run that is left in peace.
fn keys(mut child: Child) -> BTreeSet<String> {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let key = |line: &str| line.split_once("\"key\":").unwrap().1.split_once('}').unwrap().0.into();
    text.lines().map(key).collect()
}

#[test]
fn a_drain_that_takes_too_long_ends_and_says_whom_it_waited_for() {
    let place = copies();
    for (args, kept) in [
        (&["--drain-timeout", "50ms"][..], "What was on its way is lost; allow more"),
        (
            &["--state", "state", "--set", "limits.drain_timeout=50ms"],
            "Nothing is lost: the next start goes on behind the last epoch",
        ),
    ] {
        let (mut child, panes) = start_held_up(&place, args);
        assert_eq!(child.wait().unwrap().code(), Some(6), "{}", place.read("stderr"));
        drop(panes);
        let stderr = place.read("stderr");
        let why = "not done within `limits.drain_timeout`, 0.05 s; it waited for sink `out`, whose output takes no more.";
        assert!(stderr.contains(why) && stderr.contains(kept), "{stderr}");
    }
    let all = keys(start(&place, &["--state", "state"]));
    assert_eq!(all.len() as u64, RECORDS, "whatever had not come out");
}

#[test]
fn a_second_signal_ends_at_once_and_loses_nothing() {
    let place = copies();
    let (mut child, panes) = start_held_up(&place, &["--state", "state", "--drain-timeout", "off"]);
    while !place.read("stderr").contains("draining: reads no more") {
        std::thread::yield_now();
    }
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(panes);
    assert_eq!(keys(start(&place, &["--state", "state"])).len() as u64, RECORDS);
}

#[test]
fn an_input_that_does_not_come_is_not_waited_for_for_ever() {
    let pipeline = COPIES.replace("\"in.ndjson\"", "\"pipe\"");
    let place = Place::new(&pipeline);
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let mut child = start(&place, &["--drain-timeout", "50ms"]);
    let mut input = fs::OpenOptions::new().write(true).open(place.path("pipe")).unwrap();
    // More of a line than a pipe takes: once it is written, the source is on the way to the rest of it.
    input.write_all(&[b' '; 100_000]).unwrap();
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(6), "{}", place.read("stderr"));
    let stderr = place.read("stderr");
    assert!(stderr.contains("waited for source `input`, which has not stopped"), "{stderr}");
    drop(input);
}

/// The failure is what the run ends with, whatever its drain waits for.
#[test]
fn a_failure_drains_no_longer_than_a_signal() {
    let second = "[[sink]]\nname = \"full\"\nkind = \"file\"\npath = \"/dev/full\"\n";
    let place = copies();
    place.write("pipeline.toml", &format!("{COPIES}{second}"));
    let mut child = start(&place, &["--drain-timeout", "50ms"]);
    assert_eq!(child.wait().unwrap().code(), Some(4), "{}", place.read("stderr"));
    let stderr = place.read("stderr");
    for said in ["waited for sink `out`", "error: sink `full`: cannot write", "free some space"] {
        assert!(stderr.contains(said), "`{said}` is not in {stderr}");
    }
}
