//! State directories as users meet them: what is refused and how, and what a drain leaves behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod place;

use place::Place;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

/// Sums of `v` by `k` in windows of ten milliseconds, to a file.
const SUMS: &str = r#"
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
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#;

impl Place {
    fn start(&self, args: &[&str]) -> Child {
        self.command(&["run", "pipeline.toml"])
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Exit code and stderr.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let output = self.start(args).wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// The run fails with this code and says this.
    fn refused(&self, args: &[&str], code: i32, what: &str) {
        let (found, stderr) = self.run(args);
        assert!(found == code && stderr.contains(what), "exit code {found}, {stderr}");
    }
}

const RECORDS: &str = "{\"ts\":1,\"k\":\"a\",\"v\":1}\n{\"ts\":12,\"k\":\"a\",\"v\":2}\n";

#[test]
fn a_state_that_does_not_fit_is_refused_and_nothing_is_touched() {
    let place = Place::new(SUMS);
    place.write("in.ndjson", RECORDS);
    // However slow the machine is, the end of the input is the only epoch.
    let (code, stderr) = place.run(&["--set", "state.epoch=1h"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("state: 1 epoch stored, "), "{stderr}");
    let whole = place.read("out.ndjson");
    assert_eq!(whole.lines().count(), 2);

    for (args, code, what) in [
        (
            &["--set", "group.sums.window.fixed=20ms"][..],
            5,
            "error: the state in `state` does not fit the pipeline:\n  \
             stage `sums`: window was fixed 10ms, and is fixed 20ms\nput the settings back; or",
        ),
        (&["--set", "filter=v > 0"], 5, "  stage `sums`: filter was nothing, and is v > 0\n"),
        (&["--set", "pipeline.name=other"], 5, "belongs to pipeline `sums`, this is `other`"),
        (&["--state", "."], 5, "and no state of nilometer"),
        (&["--state", "in.ndjson"], 5, "cannot use the state directory `in.ndjson`"),
        (&["--check-totals"], 2, "--check-totals adds up the results of one run"),
        (
            &["--set", "pipeline.engine=batch"],
            5,
            "  stage `sums`: engine was streaming, and is batch\n",
        ),
    ] {
        place.refused(args, code, what);
    }
    assert_eq!(place.read("out.ndjson"), whole);
    assert!(place.path("in.ndjson").exists());

    // What has no part in the results may change.
    let (code, stderr) =
        place.run(&["--set", "limits.batch_records=7", "--set", "pipeline.shards=2"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("goes on behind epoch 1\n"), "{stderr}");
    assert_eq!(place.read("out.ndjson"), whole);

    // Files that are not what they were.
    place.write("out.ndjson", "x\n");
    place.refused(&[], 4, "`out.ndjson` has 2 bytes and");
    place.write("out.ndjson", &whole);

    let database = place.path("state/epochs");
    fs::rename(&database, place.path("elsewhere")).unwrap();
    place.refused(&[], 5, "is incomplete: `epochs` is missing; restore the directory from a copy");
    fs::rename(place.path("elsewhere"), &database).unwrap();
    // Without a word of whose it is: also where nothing says what it must hold.
    for lost in ["state/pipeline", "state/last"] {
        fs::remove_file(place.path(lost)).unwrap();
        place.refused(&[], 5, "is incomplete: `pipeline` is missing; restore the directory");
    }
    place.write("state/pipeline", "9\nsums\n");
    place.refused(&[], 5, "has format version 9, this program reads 2");
}

/// Far more windows than may be in memory, all of them kept until the end: the same results.
#[test]
fn results_are_the_same_with_less_memory_than_state() {
    use std::fmt::Write as _;
    let mut records = String::new();
    for number in 0..6_000 {
        let (time, key) = (number / 2, number * 7_919 % 1_000);
        writeln!(records, "{{\"ts\":{time},\"k\":\"{key}\",\"v\":{number}}}").unwrap();
    }
    let results = |args: &[&str]| {
        let place = Place::new(SUMS);
        place.write("in.ndjson", &records);
        let (code, stderr) = place.run(args);
        assert_eq!(code, 0, "{stderr}");
        let mut lines: Vec<_> = place.read("out.ndjson").lines().map(str::to_owned).collect();
        lines.sort_unstable();
        (lines, stderr)
    };
    let (all, _) = results(&[]);
    assert!(all.len() > 5_000);
    let (tight, stderr) = results(&["--set", "state.memory=20KiB", "--set", "state.epoch=10ms"]);
    assert_eq!(tight, all);
    let gone = "on disk: 0 keys in 0 bytes of pages; ";
    assert!(stderr.contains(gone) && !stderr.contains("pages; 0 keys went"), "{stderr}");
}

/// Windows come and go, most of them by way of pages: in the end nothing of them is stored.
#[test]
fn nothing_is_left_of_windows_that_have_expired() {
    use std::fmt::Write as _;
    let place = Place::new(SUMS);
    let line = |mut text: String, number: u64| {
        let key = number * 7_919 % 1_000;
        writeln!(text, "{{\"ts\":{},\"k\":\"{key}\",\"v\":1}}", number / 10).unwrap();
        text
    };
    place.write("in.ndjson", &(0..4_000).fold(String::new(), line));
    let settings = ["state.memory=8KiB", "state.max_epoch_bytes=16KiB"];
    let expires = ["group.sums.allowed_lateness=0s", "group.sums.window.fixed=50ms"];
    let args = settings.iter().chain(&expires).flat_map(|setting| ["--set", setting]);
    let (code, stderr) = place.run(&args.collect::<Vec<_>>());
    assert_eq!(code, 0, "{stderr}");
    assert!(!stderr.contains("pages; 0 keys went"), "{stderr}");
    let ls = place.command(&["state", "ls", "state", "--format", "json"]).output().unwrap();
    let listing: serde_json::Value = serde_json::from_slice(&ls.stdout).unwrap();
    for what in ["keys", "in_pages", "windows", "bytes"] {
        assert_eq!(listing["stages"][0][what], 0, "{what}: {listing}");
    }
    assert_eq!(listing["sinks"][0]["unwritten_bytes"], 0, "{listing}");
}

#[test]
fn a_state_without_its_sink_table_takes_no_table() {
    let place =
        Place::new(&SUMS.replace("kind = \"file\"\npath = \"out.ndjson\"", "kind = \"table\""));
    place.write("in.ndjson", RECORDS);
    place.refused(&[], 2, "sink `out` shows the results of one run");
}

/// What the generator gives never ends, so that a run can be stopped anywhere.
const ENDLESS: &str = r#"
[pipeline]
name = "endless"
[state]
dir = "state"
epoch = "50ms"
[[source]]
name = "invented"
kind = "generator"
[watermark]
kind = "bounded"
out_of_orderness = "20m"
[[group]]
name = "counts"
key = ["exporter"]
window = { fixed = "60s" }
mode = "discarding"
aggregates = { flows = "count()" }
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#;

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// Waits until the file has some results.
fn wait_for_output(place: &Place, bytes: u64) {
    let length = || fs::metadata(place.path("out.ndjson")).map_or(0, |metadata| metadata.len());
    while length() < bytes {
        std::thread::yield_now();
    }
}

#[test]
fn one_process_at_a_time_and_a_drain_is_gone_on_with() {
    let place = Place::new(ENDLESS);
    let first = place.start(&[]);
    wait_for_output(&place, 100);
    let what = format!("in use by process {}; stop that one first", first.id());
    place.refused(&["--set", "sink.out.path=other"], 5, &what);
    assert!(!place.path("other").exists(), "nothing is touched");
    signal(&first, "-TERM");
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("kept for the next run: "), "{stderr}");

    let before = place.read("out.ndjson");
    let second = place.start(&["--summary", "summary.json"]);
    wait_for_output(&place, before.len() as u64 + 500);
    signal(&second, "-INT");
    assert!(second.wait_with_output().unwrap().status.success());
    let after = place.read("out.ndjson");
    assert!(after.starts_with(&before), "what was published stays as it is");
    let mut identities: Vec<_> =
        after.lines().map(|line| line.split_once(",\"event_time\"").unwrap().0).collect();
    let panes = identities.len();
    identities.sort_unstable();
    identities.dedup();
    assert_eq!(identities.len(), panes, "no pane twice");
    // The account goes on, too: all records of both runs, and each has an outcome.
    let summary: serde_json::Value = serde_json::from_str(&place.read("summary.json")).unwrap();
    let count = |name: &str| summary["records"][name].as_u64().unwrap();
    let cost = |name: &str| summary["state"][name].as_f64().unwrap();
    let names = ["epochs", "bytes", "last_epoch_bytes", "disk_bytes", "open_ms", "epoch_ms"];
    for name in names.into_iter().chain(["pause_ms_max"]) {
        assert!(cost(name) > 0.0, "{name}: {summary}");
    }
    assert!(cost("epoch_ms_max") >= cost("epoch_ms") && cost("bytes") > cost("last_epoch_bytes"));
    assert_eq!((count("read"), count("in_flight")), (count("accepted"), 0));
    let flows = after.lines().map(|line| {
        let pane: serde_json::Value = serde_json::from_str(line).unwrap();
        pane["values"]["flows"].as_u64().unwrap()
    });
    assert!(flows.sum::<u64>() <= count("read"));
}

#[test]
fn an_output_that_cannot_be_cut_off_says_that_results_may_come_twice() {
    let file = "kind = \"file\"\npath = \"out.ndjson\"";
    for (sink, may_come_twice) in [
        (file, false),
        ("kind = \"stdout\"", true),
        (&*file.replace("out.ndjson", "/dev/null"), true),
    ] {
        let place = Place::new(&SUMS.replace(file, sink));
        place.write("in.ndjson", RECORDS);
        let (code, stderr) = place.run(&[]);
        assert_eq!(code, 0, "{stderr}");
        let is_said = stderr.contains("sink `out`: cannot be cut off; results of the last epoch");
        assert_eq!(is_said, may_come_twice, "{sink}: {stderr}");
    }
}

/// A collector cannot be read again, and says so; what exporters have told is kept.
#[test]
fn a_collector_keeps_its_templates() {
    let data = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/flows/");
        fs::read(format!("{folder}{name}")).unwrap()
    };
    let place = Place::new(
        r#"
[pipeline]
name = "collector"
[state]
dir = "state"
epoch = "50ms"
[[source]]
name = "collector"
kind = "udp"
listen = "127.0.0.1:0"
[watermark]
kind = "bounded"
out_of_orderness = "1m"
[[group]]
name = "counts"
key = ["exporter_address"]
window = "global"
trigger = { every = "200ms" }
mode = "accumulating"
aggregates = { flows = "count()" }
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#,
    );
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |datagrams: &[&str]| {
        let before = fs::metadata(place.path("out.ndjson")).map_or(0, |metadata| metadata.len());
        let mut child = place.start(&[]);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "{said}");
            said.push_str(&line);
            if let Some((_, address)) = line.trim_end().split_once("listens on ") {
                break address.to_owned();
            }
        };
        // Read on, so that it is never full.
        let reading = std::thread::spawn(move || {
            stderr.lines().map(|line| line.unwrap() + "\n").collect::<String>()
        });
        for datagram in datagrams {
            sender.send_to(&data(datagram), &address).unwrap();
        }
        wait_for_output(&place, before + 1);
        signal(&child, "-TERM");
        assert!(child.wait().unwrap().success());
        said + &reading.join().unwrap()
    };
    // Flows of version 5 need no template: they show that the templates before them were read.
    let told =
        send(&["python-netflow/PACKET_V9_TEMPLATE-0.bin", "goflow2/TestDecodeNetFlowV5-0.bin"]);
    assert!(told.contains("source `collector`: cannot be read again"), "{told}");
    let first = place.read("out.ndjson");
    let told = send(&["python-netflow/PACKETS_V9-0.bin"]);
    assert!(told.contains("goes on behind epoch"), "{told}");
    let all = place.read("out.ndjson");
    let last = all.lines().last().unwrap();
    assert!(all.starts_with(&first) && last.contains(r#""values":{"flows":26}"#), "{all}");
}
