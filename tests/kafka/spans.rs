//! The way of a record from a topic through a cascade to a topic, as its spans tell it: from the span that made it, by its
//! header, to the header of the result.

use crate::broker::{ANSWER, Broker};
use crate::collector::{Collector, Manner};
use crate::place::Place;
use crate::run::sums_to_topic;
use opentelemetry_proto::tonic::trace::v1::Span;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

/// What made the records.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const MAKER: &str = "b7ad6b7169203331";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the deltas of the sums, and goes to the same topic.
const COARSER: &str = "[[group]]\nname = \"coarser\"\nkey = [\"k\"]\nwindow = { fixed = \"2s\" }\n\
    allowed_lateness = \"1h\"\nmode = \"accumulating\"\n\
    aggregates = { n = \"count()\", sum = \"sum(v)\" }\n";
/// Results of three windows, and of the two coarser ones.
const RESULTS: usize = 5;

/// Produces a record of each of three windows, by one span if `is_kept`, else by one that nobody keeps.
fn produce(broker: &Broker, topic: &str, is_kept: bool) {
    let producer: BaseProducer = broker.config(&[]).create().unwrap();
    let context = format!("00-{TRACE}-{MAKER}-0{}", u8::from(is_kept));
    for ts in [100, 1_100, 2_100] {
        let value = format!(r#"{{"ts":{ts},"k":"a","v":1}}"#);
        let context = Header { key: "traceparent", value: Some(&context) };
        let state = Header { key: "tracestate", value: Some("congo=t61rcWkgMzE") };
        let headers = OwnedHeaders::new().insert(context).insert(state);
        let record = BaseRecord::<[u8], str>::to(topic).partition(0).payload(&value);
        producer.send(record.headers(headers)).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(ANSWER).unwrap();
}

/// What a run over a topic of such records tells; the headers of its results that say a context.
fn run(topic: &str, is_kept: bool, more: &str) -> (Vec<Span>, Vec<String>) {
    let broker = Broker::shared();
    broker.topic(topic, 1);
    let results = format!("{topic}-sums");
    broker.topic(&results, 1);
    produce(broker, topic, is_kept);
    let collector = Collector::start(Manner::Takes);
    let telemetry = format!(
        "[telemetry.otlp]\nendpoint = \"http://{}\"\nmetrics = \"off\"\n{more}",
        collector.grpc
    );
    let source = "start = \"earliest\"\nuntil = \"now\"";
    let pipeline = sums_to_topic(&broker.address, topic, (source, "delivery = \"at_least_once\""));
    Place::new(&format!("{pipeline}{COARSER}{telemetry}")).run(&[], 0);
    let taken = broker.read(&results);
    assert_eq!(taken.len(), RESULTS);
    let contexts = taken.iter().filter_map(|record| record.headers.get("traceparent"));
    (collector.spans(), contexts.cloned().collect())
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn the_spans_of_a_record_go_from_the_header_of_its_maker_to_that_of_its_result() {
    let (spans, contexts) = run("spans-way", true, "traces = 0\n");
    // A share of nothing is no spans, and nobody looks at headers.
    assert!(spans.is_empty() && contexts.is_empty());
    // Nothing that begins here is kept, but what its maker has kept is.
    let (spans, contexts) = run("spans-kept", true, "traces = 0.000001\n");
    let batches = named(&spans, "source batch");
    assert!(!batches.is_empty());
    for batch in &batches {
        assert_eq!(
            (hex(&batch.trace_id), hex(&batch.parent_span_id)),
            (TRACE.into(), MAKER.into())
        );
        assert_eq!(batch.trace_state, "congo=t61rcWkgMzE");
    }
    let shards = named(&spans, "shard batch");
    for shard in &shards {
        assert!(batches.iter().any(|batch| batch.span_id == shard.parent_span_id));
        assert_eq!(hex(&shard.trace_id), TRACE);
    }
    let rounds = named(&spans, "firing round");
    assert!(!rounds.is_empty());
    for round in &rounds {
        assert!(!round.links.is_empty());
        for link in &round.links {
            assert!(batches.iter().any(|batch| batch.span_id == link.span_id));
        }
    }
    let writes = named(&spans, "sink write");
    for write in &writes {
        let fired = |span: &&&Span| span.span_id == write.parent_span_id;
        assert!(rounds.iter().chain(&shards).any(|span| fired(&span)), "{write:?}");
        assert!(!write.links.is_empty());
    }
    assert_eq!(contexts.len(), RESULTS);
    for context in contexts {
        let said =
            |write: &&Span| format!("00-{}-{}-01", hex(&write.trace_id), hex(&write.span_id));
        assert!(writes.iter().any(|write| said(write) == context), "{context}");
    }
    // What its maker has not kept is not kept here, either.
    let (spans, contexts) = run("spans-left", false, "");
    assert!(named(&spans, "source batch").is_empty());
    assert!(named(&spans, "shard batch").is_empty());
    // Results that come of nothing that is kept are told by the share, which is all.
    assert_eq!(contexts.len(), RESULTS);
}
