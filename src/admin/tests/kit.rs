//! Runs that go on until they are told to end, and a client that asks their port.

use crate::admin::Admin;
use crate::config::{Pipeline, load_text};
use crate::logs::{self, Level};
use crate::metrics::Watched;
use crate::progress::Bar;
use crate::{state, telemetry, topology};
use actix::System;
use nilometer_actors::node::{News, Node, Outcome};
use nilometer_actors::trace::Tracing;
use nilometer_connectors::plight::Plights;
use nilometer_connectors::source::{Polled, Position, Progress, Source, SourceError, State};
use nilometer_model::epoch::Wish;
use opentelemetry_proto::tonic::resource::v1::Resource;
use serde_json::Value as Json;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What the token of guarded ports is.
pub(crate) const TOKEN: &str = "0123456789abcdef-token";

/// Two windows of 10 s, of which the watermark, 21 s, completes the first with two keys; one line is
/// no record, one is left out.
pub(crate) const RECORDS: &str = r#"{"t":1000,"k":"a","v":1}
{"t":2000,"k":"b","v":2}
{"t":3000,"k":"a","v":3}
{"t":21000,"k":"a","v":4}
not json
{"t":4000,"k":"b","v":5}
{"t":21000,"k":"c","v":-1}
"#;

/// The pipeline that reads them; `more` is appended.
pub(crate) fn text(directory: &Path, more: &str) -> String {
    let (input, output) = (directory.join("in.ndjson"), directory.join("out.ndjson"));
    format!(
        r#"
filter = "v >= 0"
[pipeline]
name = "seen"
shards = 2
[[source]]
name = "in"
kind = "files"
format = "ndjson"
paths = [{input:?}]
[record]
time = "t"
fields = {{ k = "text", v = "i64" }}
[watermark]
out_of_orderness = "0ms"
[[group]]
name = "sums"
key = ["k"]
window = {{ fixed = "10s" }}
allowed_lateness = "1h"
trigger = {{ repeat = {{ any = [{{ signal = "flush" }}, "after_watermark"] }} }}
aggregates = {{ v = "sum(v)" }}
[[sink]]
name = "out"
kind = "file"
path = {output:?}
{more}
"#
    )
}

/// A source that waits for more where its input ends.
struct Waiting(Box<dyn Source>);

impl Source for Waiting {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        match self.0.poll(records_max, out)? {
            State::End => Ok(State::Pending),
            other => Ok(other),
        }
    }

    fn progress(&self) -> Option<Progress> {
        self.0.progress()
    }

    fn position(&self) -> Position {
        self.0.position()
    }
}

/// A run, its admin port, and where it writes.
pub(crate) struct Run {
    pub(crate) node: Node,
    pub(crate) admin: Admin,
    pub(crate) watched: Watched,
    pub(crate) resource: Resource,
    pub(crate) directory: tempfile::TempDir,
}

impl Run {
    /// Starts a run of the records, with `more` settings.
    pub(crate) fn start(more: &str) -> Self {
        let run = Self::unwatched(more);
        run.admin.watch(run.watched.clone());
        run
    }

    /// The same, and the port has not heard of it yet.
    pub(crate) fn unwatched(more: &str) -> Self {
        // Its lines are not for whoever reads what tests say.
        logs::start_into(|_| {}, logs::Form::Text, Level::Info);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("in.ndjson"), RECORDS).unwrap();
        std::fs::write(directory.path().join("token"), format!("{TOKEN}\n")).unwrap();
        let more = more.replace("DIR", &directory.path().to_string_lossy());
        let text = text(directory.path(), &more);
        let pipeline = load_text(("p.toml", &text), &[], &|_| None);
        let pipeline = pipeline.unwrap_or_else(|errors| panic!("{errors}"));
        let admin = Admin::open(&pipeline, &Plights::default()).unwrap().unwrap();
        let (node, watched) = begin(&pipeline);
        let resource = telemetry::resource(&pipeline);
        Self { node, admin, watched, resource, directory }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Asks until `is_so` of the answer to a look at `path`.
    pub(crate) async fn until(&self, path: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
        let mut turn = tokio::time::interval(Duration::from_millis(20));
        loop {
            let answer = get(self.address(), path).await;
            if is_so(&answer) {
                return answer;
            }
            turn.tick().await;
        }
    }

    /// Asks until the shards have taken the five records that pass, and what follows has been shown.
    pub(crate) async fn until_read(&self) {
        self.until("/api/v1/pipeline", |answer| {
            let json = answer.json();
            let taken = json["shards"].as_array().unwrap().iter().map(|shard| &shard["records"]);
            let taken: u64 = taken.filter_map(Json::as_u64).sum();
            taken == 5 && json["sinks"][0]["panes"] == 2 && json["sources"][0]["read"] == 7
        })
        .await;
    }

    /// Lets it end, and gives what it has counted.
    pub(crate) async fn end(mut self) -> (Outcome, tempfile::TempDir) {
        self.node.drain();
        while !matches!(self.node.news().await, News::Ended) {}
        (self.node.finish().await, self.directory)
    }
}

fn begin(pipeline: &Pipeline) -> (Node, Watched) {
    let bar = Bar::new(false);
    let asked = state::Asked { wish: Wish::Start, drops: &[] };
    let state = state::open_for(pipeline, asked).unwrap();
    let mut parts = topology::build(pipeline, state, Tracing::default(), &bar).unwrap();
    for source in &mut parts.sources {
        let reader = std::mem::replace(&mut source.reader, Box::new(Nothing));
        source.reader = Box::new(Waiting(reader));
    }
    let node = Node::start(parts).unwrap();
    let watched = Watched {
        node: node.handle(),
        plan: pipeline.plan.clone(),
        pipeline: Arc::from(&*pipeline.job.name),
        has_state: pipeline.state.is_some(),
        begun: Instant::now(),
        pushes: Arc::default(),
        spans: None,
    };
    (node, watched)
}

/// A source of nothing.
struct Nothing;

impl Source for Nothing {
    fn poll(&mut self, _: usize, _: &mut Polled) -> Result<State, SourceError> {
        Ok(State::End)
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

/// Runs `test` in an actor system; one that hangs is a failure, not a hanging test.
pub(crate) fn in_system<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    System::new().block_on(async { tokio::time::timeout(limit, test).await.expect("it hangs") })
}

/// An answer of the port.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The answer that is written in `bytes`; `None` if there is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head: head.to_ascii_lowercase(), body: body.into() })
    }
}

/// Sends `request` as it is; gives what comes until the port closes the connection.
pub(crate) async fn raw(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The port may have answered, and closed, before all of it was sent.
    stream.write_all(request).await.ok();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.ok();
    bytes
}

/// Asks with `method` at `path`, with lines of the head and a body.
pub(crate) async fn ask(
    address: SocketAddr,
    (method, path): (&str, &str),
    head: &str,
    body: &str,
) -> Answer {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{head}\r\n{body}"
    );
    let bytes = raw(address, request.as_bytes()).await;
    Answer::read(&bytes).unwrap_or_else(|| panic!("no answer to {request}"))
}

/// Looks at `path`.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, ("GET", path), "", "").await
}

/// Tells it something at `path`, with the token.
pub(crate) async fn post(address: SocketAddr, path: &str) -> Answer {
    ask(address, ("POST", path), &format!("authorization: Bearer {TOKEN}\r\n"), "").await
}
