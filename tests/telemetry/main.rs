//! What a run tells a collector: the spans of a file's way through a cascade, over gRPC and over HTTP; and
//! that a collector that is away, slow or full costs nothing but a counter.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[path = "../collector/mod.rs"]
mod collector;
mod encrypted;
#[path = "../place/lacking.rs"]
mod lacking;
mod logs;
#[path = "../place/mod.rs"]
mod place;
mod real;

use collector::{Collector, Manner};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use place::Place;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::process::Output;

/// Counts by name and kind and, of those, by kind, in windows of ten seconds.
const CASCADE: &str = r#"
[pipeline]
name = "cascade"
shards = 2
shard_by = ["kind"]
[limits]
batch_records = 100
[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"
[record]
time = "ts"
fields = { name = "text", kind = "text" }
[watermark]
kind = "bounded"
out_of_orderness = "0s"
[[group]]
name = "fine"
key = ["kind", "name"]
window = { fixed = "10s" }
aggregates = { records = "count()" }
[[group]]
name = "coarse"
key = ["kind"]
window = { fixed = "10s" }
aggregates = { records = "count()" }
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#;

/// Seconds of the input, one record in each hundredth.
const SECONDS: u64 = 40;

/// A place with the pipeline, `telemetry` behind it, and its input.
fn place(telemetry: &str) -> Place {
    let place = Place::new(&format!("{CASCADE}{telemetry}"));
    let line = |mut text: String, number: u64| {
        let (ts, name, kind) = (number * 10, number % 7, number % 3);
        writeln!(text, r#"{{"ts":{ts},"name":"n{name}","kind":"k{kind}"}}"#).unwrap();
        text
    };
    place.write("in.ndjson", &(0..SECONDS * 100).fold(String::new(), line));
    place
}

fn run(place: &Place, env: &[(&str, &str)]) -> (Output, String) {
    let mut command = place.command(&["run", "pipeline.toml"]);
    let output = command.envs(env.iter().copied()).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success(), "{said}");
    (output, said)
}

/// What comes out without anybody who watches.
fn results() -> String {
    let place = place("");
    run(&place, &[]);
    sorted(&place.read("out.ndjson"))
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn text(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    let value = found.and_then(|attribute| attribute.value.as_ref()?.value.clone());
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

type Id = (Vec<u8>, Vec<u8>);

fn id(span: &Span) -> Id {
    (span.trace_id.clone(), span.span_id.clone())
}

fn links(span: &Span) -> HashSet<Id> {
    span.links.iter().map(|link| (link.trace_id.clone(), link.span_id.clone())).collect()
}

/// The spans of a run of the cascade: each batch leads to a write, and each write comes of batches.
fn check_spans(collector: &Collector) {
    let spans = collector.spans();
    let known: HashMap<Id, &Span> = spans.iter().map(|span| (id(span), span)).collect();
    assert_eq!(known.len(), spans.len());
    let parent = |span: &Span| known[&(span.trace_id.clone(), span.parent_span_id.clone())];
    let batches = named(&spans, "source batch");
    let read = batches.iter().map(|span| text(&span.attributes, "nilometer.records"));
    let read: u64 = read.map(|count| count.parse::<u64>().unwrap()).sum();
    assert_eq!(read, SECONDS * 100);
    let shards = named(&spans, "shard batch");
    assert!(shards.iter().all(|span| parent(span).name == "source batch"));
    let led_to_shards: HashSet<_> = shards.iter().map(|span| id(parent(span))).collect();
    let all: HashSet<_> = batches.iter().map(|span| id(span)).collect();
    assert_eq!(led_to_shards, all);
    let writes = named(&spans, "sink write");
    assert!(writes.iter().all(|span| parent(span).name == "firing round"));
    let led_to_writes: HashSet<_> = writes.iter().flat_map(|span| links(span)).collect();
    assert_eq!(led_to_writes, all);
    assert!(spans.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano));
    collector.look(|got| {
        for resource in &got.spans {
            let attributes = &resource.resource.as_ref().unwrap().attributes;
            assert_eq!(text(attributes, "service.name"), "nilometer");
            assert_eq!(text(attributes, "nilometer.pipeline"), "cascade");
            assert!(!text(attributes, "nilometer.node").is_empty());
            assert_eq!(text(attributes, "deployment.environment"), "test");
        }
    });
}

/// Where a collector is, and that requests carry a token of the environment.
fn told(protocol: &str, address: impl std::fmt::Display) -> String {
    format!(
        r#"
[telemetry]
resource = {{ "deployment.environment" = "test" }}
[telemetry.otlp]
endpoint = "http://{address}"
protocol = "{protocol}"
timeout = "500ms"
metrics = "off"
headers = {{ authorization = "Bearer ${{TOKEN}}" }}
"#
    )
}

const TOKEN: (&str, &str) = ("TOKEN", "hunter2-hunter2");

#[test]
fn the_spans_of_a_way_through_a_cascade_hang_together() {
    let expected = results();
    for protocol in ["grpc", "http"] {
        let collector = Collector::start(Manner::Takes);
        let address = if protocol == "grpc" { collector.grpc } else { collector.http };
        let place = place(&told(protocol, address));
        let (_, said) = run(&place, &[TOKEN]);
        assert_eq!(sorted(&place.read("out.ndjson")), expected, "{protocol}");
        check_spans(&collector);
        collector.look(|got| {
            assert!(!got.authorizations.is_empty());
            assert!(got.authorizations.iter().all(|sent| sent == "Bearer hunter2-hunter2"));
        });
        assert!(!said.contains("hunter2") && !said.contains("dropped"), "{said}");
    }
}

/// What the metrics of a run say has become of its spans: how many were taken, and how many dropped.
fn spans_counted(collector: &Collector) -> (u64, u64) {
    collector.look(|got| {
        let scopes = got.metrics.iter().flat_map(|resource| &resource.scope_metrics);
        let metrics = scopes.flat_map(|scope| &scope.metrics);
        let mut metric = metrics.filter(|metric| metric.name == "nilometer_telemetry_spans_total");
        let Some(Data::Sum(sum)) = metric.next_back().unwrap().data.clone() else {
            panic!("no sum")
        };
        let count = |outcome: &str| {
            let mut points = sum.data_points.iter();
            let point = points.find(|point| text(&point.attributes, "outcome") == outcome);
            match point.unwrap().value {
                Some(Number::AsInt(count)) => u64::try_from(count).unwrap(),
                other => panic!("{other:?}"),
            }
        };
        (count("taken"), count("dropped"))
    })
}

#[test]
fn metrics_say_what_has_become_of_spans() {
    for (manner, protocol) in [
        (Manner::Takes, "grpc"),
        (Manner::Takes, "http"),
        (Manner::TakesMetrics, "grpc"),
        (Manner::TakesMetrics, "http"),
    ] {
        let collector = Collector::start(manner);
        let address = if protocol == "grpc" { collector.grpc } else { collector.http };
        // Metrics are told once, at the end.
        let place = place(&told(protocol, address).replace("\"off\"", "\"1h\""));
        let (_, said) = run(&place, &[TOKEN]);
        let (taken, dropped) = spans_counted(&collector);
        assert_eq!(taken, collector.spans().len() as u64, "{manner:?} {protocol}");
        let is_taken = manner == Manner::Takes;
        assert_eq!((taken > 0, dropped > 0), (is_taken, !is_taken), "{manner:?} {protocol}");
        let told_of = format!("spans: {dropped} were dropped");
        assert_eq!(said.replace(',', "").contains(&told_of), !is_taken, "{said}");
    }
}

#[test]
fn a_share_of_nothing_sends_nothing() {
    let collector = Collector::start(Manner::Takes);
    let place = place(&format!("{}traces = 0\n", told("grpc", collector.grpc)));
    run(&place, &[TOKEN]);
    assert_eq!(collector.spans(), []);
}

#[test]
fn a_collector_that_is_away_slow_or_full_costs_nothing_but_a_counter() {
    let expected = results();
    let refuses = Collector::start(Manner::Refuses);
    let hangs = Collector::start(Manner::Hangs);
    // Nobody listens there any more.
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (protocol, address, reason) in [
        ("grpc", away, "takes nothing"),
        ("http", away, "takes nothing"),
        ("grpc", refuses.grpc, "has enough"),
        ("http", refuses.http, "503"),
        ("grpc", hangs.grpc, "has not answered"),
        ("http", hangs.http, "has not answered"),
    ] {
        let place = place(&told(protocol, address));
        let (_, said) = run(&place, &[TOKEN]);
        assert_eq!(sorted(&place.read("out.ndjson")), expected, "{protocol} {reason}");
        assert!(said.contains(reason), "{protocol} {reason}: {said}");
        assert!(said.contains("were dropped"), "{protocol} {reason}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
