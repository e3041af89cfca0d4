//! The program over topics: a pipeline in a folder, started, watched and stopped.

use crate::broker::Taken;
use crate::place::Place;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// How long something that must happen may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Settings of a port to ask how a run goes.
pub(crate) const ADMIN: &str = "\n[admin]\nlisten = \"127.0.0.1:0\"\n";

/// What `/health` shows where nothing is held up.
pub(crate) const WELL: &str = r#"{"status":"running","held_up":{}}"#;

/// What `/health` answers.
pub(crate) fn health(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sums of `v` by `k` in windows of a second. `SOURCE` stands for more lines of the source.
pub(crate) fn sums(address: &str, topic: &str, source: &str) -> String {
    format!(
        r#"
dead_letters = "dead.ndjson"
[pipeline]
name = "sums"
shards = 2
[[source]]
kind = "kafka"
name = "in"
brokers = "{address}"
topics = ["{topic}"]
group = "{topic}-readers"
format = "json"
{source}
[record]
time = "ts"
fields = {{ k = "text", v = "i64" }}
[[group]]
name = "sums"
key = ["k"]
window = {{ fixed = "1s" }}
allowed_lateness = "1h"
mode = "accumulating"
aggregates = {{ n = "count()", sum = "sum(v)" }}
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#
    )
}

/// Count and sum by key and start of the window.
pub(crate) type Results = BTreeMap<(String, i64), (i64, i64)>;

/// The same into topic `{topic}-sums`, which has to be there. `SINK` stands for more lines of the sink.
pub(crate) fn sums_to_topic(address: &str, topic: &str, (source, sink): (&str, &str)) -> String {
    let to_topic =
        format!("kind = \"kafka\"\nbrokers = \"{address}\"\ntopic = \"{topic}-sums\"\n{sink}");
    sums(address, topic, source)
        .replace("kind = \"file\"\npath = \"out.ndjson\"", &to_topic)
        .replace("name = \"sums\"\nshards", &format!("name = \"{topic}\"\nshards"))
}

/// The key and window of a result, its count and its sum.
pub(crate) fn result(pane: &Json) -> ((String, i64), (i64, i64)) {
    let number = |value: &Json| value.as_i64().unwrap();
    let key = pane["key"]["k"].as_str().unwrap().to_owned();
    let values = &pane["values"];
    let window = number(&pane["window"]["start"]);
    ((key, window), (number(&values["n"]), number(&values["sum"])))
}

/// The last result of each key and window among records, each of whose panes is there once.
pub(crate) fn results_of(taken: &[Taken]) -> Results {
    let mut identities = BTreeSet::new();
    for record in taken {
        assert!(identities.insert(record.identity()), "twice: {record:?}");
    }
    taken.iter().map(|record| result(&record.json())).collect()
}

/// A run of the program.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// What it has said so far.
    pub(crate) said: String,
}

impl Place {
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut child = self
            .command(&["run", "pipeline.toml", "--summary", "summary.json"])
            .args(args)
            .stdout(std::fs::File::create(self.path("stdout")).unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Running { child, lines, said: String::new() }
    }

    /// Runs to the end, which must come with `code`; what was said.
    pub(crate) fn run(&self, args: &[&str], code: i32) -> String {
        self.start(args).end(code)
    }

    pub(crate) fn summary(&self) -> Json {
        serde_json::from_str(&self.read("summary.json")).unwrap()
    }

    /// The last result of each key and window: (key, start of the window) to (count, sum).
    pub(crate) fn results(&self) -> Results {
        let text = std::fs::read_to_string(self.path("out.ndjson")).unwrap_or_default();
        // The last line may be on its way.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| result(&serde_json::from_str::<Json>(line).unwrap())).collect()
    }

    /// How many records of `key` have been counted in results so far.
    pub(crate) fn count(&self, key: &str) -> i64 {
        let results = self.results().into_iter();
        results.filter(|((known, _), _)| known == key).map(|(_, (count, _))| count).sum()
    }

    /// The dead letters: origin, offset and reason.
    pub(crate) fn letters(&self) -> Vec<(String, i64, String)> {
        let letter = |line: &str| {
            let letter: Json = serde_json::from_str(line).unwrap();
            let text = |name: &str| letter[name].as_str().unwrap().to_owned();
            (text("origin"), letter["offset"].as_i64().unwrap(), text("reason"))
        };
        self.read("dead.ndjson").lines().map(letter).collect()
    }
}

impl Running {
    /// Waits until it says something with `text` in it.
    pub(crate) fn hear(&mut self, text: &str) {
        let since = Instant::now();
        while !self.said.contains(text) {
            let left = PATIENCE.saturating_sub(since.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said += &(line + "\n"),
                Err(_) => panic!("it never said {text:?}, but:\n{}", self.said),
            }
        }
    }

    /// The address of its admin port.
    pub(crate) fn admin(&mut self) -> String {
        self.hear("admin port: http://");
        let address = self.said.split("admin port: http://").nth(1).unwrap();
        address.lines().next().unwrap().to_owned()
    }

    /// Listens for `patience`, or until it has ended.
    pub(crate) fn listen(&mut self, patience: Duration) {
        let since = Instant::now();
        while let Some(left) = patience.checked_sub(since.elapsed()) {
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said += &(line + "\n"),
                Err(_) => break,
            }
        }
    }

    /// Listens until `is_so`.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let since = Instant::now();
        while !is_so() {
            assert!(since.elapsed() < PATIENCE, "never: {what}; it said:\n{}", self.said);
            self.listen(Duration::from_millis(50));
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it, wherever it is.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it as an operator does.
    pub(crate) fn stop(self) -> String {
        self.signal("-TERM");
        self.end(0)
    }

    /// Waits for its end, which must come with `code`; what was said.
    pub(crate) fn end(mut self, code: i32) -> String {
        self.listen(PATIENCE);
        let ended = self.lines.try_recv() == Err(TryRecvError::Disconnected);
        assert!(ended, "it does not end; it said:\n{}", self.said);
        let found = self.child.wait().unwrap().code();
        assert_eq!(found, Some(code), "{}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Running {
    /// A test that fails leaves nothing behind, and shows what each of its processes has said.
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            self.said.extend(self.lines.iter().map(|line| line + "\n"));
            eprintln!("one of its processes said:\n{}", self.said);
        }
    }
}

/// Records of the pipeline above, produced and reckoned with: what must come of them.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) values: Vec<(i32, i64, String)>,
    pub(crate) results: Results,
}

impl Book {
    /// `count` records in partitions `0..partitions`, a millisecond of event time apart from `first`
    /// on, some ten out of their order.
    pub(crate) fn fill(&mut self, partitions: i32, (first, count): (i64, i64)) {
        for number in first..first + count {
            let partition = i32::try_from((number * 31 / 7) % i64::from(partitions)).unwrap();
            self.put(partition, 1_700_000_000_000 + number - (number * 7) % 10, number);
        }
    }

    /// `count` records whose key says which partition they are in, from `first` on.
    pub(crate) fn fill_by_key(&mut self, partitions: i32, (first, count): (i64, i64)) {
        for number in first..first + count {
            let partition = number % i64::from(partitions);
            let time = 1_700_000_000_000 + number - (number * 7) % 10;
            self.put_as(
                &format!("k{partition}"),
                (i32::try_from(partition).unwrap(), time),
                number,
            );
        }
    }

    fn put(&mut self, partition: i32, time: i64, number: i64) {
        self.put_as(&format!("k{}", number % 5), (partition, time), number);
    }

    fn put_as(&mut self, key: &str, (partition, time): (i32, i64), number: i64) {
        let value = number % 97 - 40;
        let text = format!("{{\"ts\":{time},\"k\":\"{key}\",\"v\":{value}}}");
        self.values.push((partition, time, text));
        let result = self.results.entry((key.into(), time - time.rem_euclid(1_000))).or_default();
        *result = (result.0 + 1, result.1 + value);
    }

    pub(crate) fn records(&self) -> Vec<crate::broker::Given<'_>> {
        self.values
            .iter()
            .map(|(partition, time, text)| (*partition, *time, None, Some(text.as_bytes())))
            .collect()
    }
}
