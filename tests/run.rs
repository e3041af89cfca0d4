//! `nilometer run` as its users see it: panes on stdout, the summary, signals, exit codes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod place;

use place::Place;
use serde_json::Value as Json;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

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

impl Place {
    fn start(&self, args: &[&str]) -> Running {
        let summary = ["--summary", "summary.json"];
        let summary = if args.contains(&"--summary") { &[][..] } else { &summary };
        let mut child = self
            .command(&["run", "pipeline.toml"])
            .args(summary)
            .args(args)
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
        self.read("stderr")
    }

    /// The summary, whose records have to add up.
    fn summary(&self) -> Json {
        let text = self.read("summary.json");
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

    /// Waits for what `look` finds; the run has to go on meanwhile.
    fn wait_for<T>(&mut self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "it has ended");
            std::thread::yield_now();
        }
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
fn what_comes_too_late_is_written_with_its_record() {
    let late = "late = { sink = \"late\" }\n[[sink]]\nname = \"late\"\nkind = \"file\"\npath = \"late.ndjson\"\nformat = \"late\"\n";
    let pipeline = SUMS.replace("\"1h\"", "\"0s\"").replace("[[sink]]", &format!("{late}[[sink]]"));
    let place = Place::new(&pipeline);
    // Newest first: whatever the watermark has seen, all others are behind it.
    let backwards: String = records(20_000).lines().rev().map(|line| format!("{line}\n")).collect();
    place.write("in.ndjson", &backwards);
    for shards in ["1", "3"] {
        let shards = format!("pipeline.shards={shards}");
        let few = ["limits.batch_records=8", "limits.in_flight_records=64"];
        let (code, panes, stderr) =
            place.run(&["--set", &shards, "--set", few[0], "--set", few[1]]);
        assert_eq!(code, 0, "{stderr}");
        let copies = fs::read_to_string(place.path("late.ndjson")).unwrap();
        let mut offsets = std::collections::BTreeSet::new();
        for copy in copies.lines() {
            let copy: Json = serde_json::from_str(copy).unwrap();
            assert_eq!((&copy["stage"], &copy["reason"]), (&"sums".into(), &"expired".into()));
            assert!(number(&copy["watermark"]) >= number(&copy["window"]["end"]));
            let (offset, time) = (number(&copy["position"]["offset"]), number(&copy["event_time"]));
            assert_eq!(time, 19_999 - offset, "{copy}");
            assert_eq!(copy["record"], serde_json::json!({"k": format!("k{}", time % 7), "v": 1}));
            assert!(offsets.insert(offset), "told twice: {copy}");
        }
        let summary = place.summary();
        assert_eq!(offsets.len() as u64, number(&summary["stages"]["sums"]["expired"]));
        assert_eq!(total(&panes) + offsets.len() as u64, 20_000);
        assert!(!offsets.is_empty());
        assert!(stderr.contains("late copies"), "{stderr}");
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
            running.wait_for(|| place.stderr().contains("draining").then_some(()));
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

/// Flows per second of their own time and port, by UDP.
const FLOOD: &str = r#"
[pipeline]
name = "flood"

[[source]]
name = "collector"
kind = "udp"
listen = "127.0.0.1:0"
receive_buffer = "64KiB"

[limits]
batch_records = 100
in_flight_records = 300
output_bytes = "1B"

[watermark]
kind = "bounded"
out_of_orderness = "0s"
max_future_skew = "off"

[[group]]
name = "ports"
key = ["exporter_address", "src_port"]
window = { fixed = "1s" }
allowed_lateness = "1h"
aggregates = { flows = "count()" }
sinks = ["out"]

[[sink]]
name = "out"
kind = "stdout"
format = "pane"
"#;

/// A NetFlow v5 datagram with 30 flows of second `second`, each of a port of its own.
fn netflow_5(second: u32) -> Vec<u8> {
    let uptime = 1_000_u32;
    let mut bytes = vec![0, 5, 0, 30];
    bytes.extend(uptime.to_be_bytes());
    bytes.extend((1_700_000_000 + second).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend((30 * second).to_be_bytes());
    bytes.extend([0; 4]);
    for port in 1..=30_u16 {
        // Addresses and next hop, interfaces, packets, bytes, first and last, ports, the rest.
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 2]);
        bytes.extend(1_u32.to_be_bytes());
        bytes.extend(100_u32.to_be_bytes());
        bytes.extend(uptime.to_be_bytes());
        bytes.extend(uptime.to_be_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 80, 0, 0, 6, 0, 0, 0, 0, 0, 24, 24, 0, 0]);
    }
    bytes
}

/// Where a collector listens.
fn port(place: &Place, running: &mut Running) -> u16 {
    running.wait_for(|| {
        let told = place.stderr();
        let (port, _) = told.split_once("listens on 127.0.0.1:")?.1.split_once('\n')?;
        port.parse().ok()
    })
}

/// Bytes that wait in the socket at `port` of this machine, as Linux tells.
fn waiting(port: u16) -> u64 {
    let table = fs::read_to_string("/proc/net/udp").unwrap();
    let local = format!(":{port:04X}");
    let line = table.lines().find(|line| {
        line.split_ascii_whitespace().nth(1).is_some_and(|address| address.ends_with(&local))
    });
    let queues = line.unwrap().split_ascii_whitespace().nth(4).unwrap();
    u64::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap()
}

#[test]
fn who_holds_the_watermark_is_told_to_whoever_asks() {
    let place = Place::new(FLOOD);
    let mut running = place.start(&[]);
    let port = port(&place, &mut running);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for second in [0, 5] {
        sender.send_to(&netflow_5(second), ("127.0.0.1", port)).unwrap();
    }
    running.line(); // It lives, and so hears the signal.
    while !place.stderr().contains("2023-11-14T22:13:25Z, held by source `collector`") {
        running.signal("USR1");
    }
    running.signal("INT");
    assert_eq!(running.finish().0.code(), Some(0), "{}", place.stderr());
}

#[test]
fn a_flood_is_dropped_and_counted_and_memory_stays_bounded() {
    const SENT: u64 = 20_000;
    let place = Place::new(FLOOD);
    let mut running = place.start(&[]);
    let port = port(&place, &mut running);
    // Nobody reads the panes: the sink stands, then the source, then the queue is full.
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for second in 0..SENT {
        sender.send_to(&netflow_5(second as u32), ("127.0.0.1", port)).unwrap();
    }
    running.wait_for(|| (waiting(port) == 0).then_some(()));
    let memory = fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    let peak: u64 = peak.strip_suffix(" kB").unwrap().parse().unwrap();
    running.signal("INT");
    let (status, panes) = running.finish();
    assert_eq!(status.code(), Some(0), "{}", place.stderr());
    let summary = place.summary();
    let of = |name: &str| number(&summary["datagrams"][name]);
    assert_eq!(of("read") + of("dropped"), SENT, "{summary}");
    assert!(of("read") < SENT / 10 && of("malformed") == 0, "{summary}");
    assert_eq!(number(&summary["records"]["read"]), 30 * of("read"));
    assert!(panes.len() as u64 > 30 * (of("read") - 1) - 30, "what was read is counted");
    // 20,000 datagrams are 30 MB, their records and panes far more.
    assert!(peak < 100_000, "{peak} kB");
}
