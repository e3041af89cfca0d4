//! Topics read to an end: every partition, every format, and whatever is no record.

use crate::broker::{Broker, Given};
use crate::netflow::datagram;
use crate::place::Place;
use crate::run::{Book, sums};

const BOUNDED: &str = "until = \"now\"";

/// Later than the beginning of time, which a client takes for no time.
const HOUR: i64 = 3_600_000;

#[test]
fn every_record_of_every_partition_counts_once() {
    let broker = Broker::shared();
    broker.topic("bounded", 3);
    let mut book = Book::default();
    book.fill(3, (0, 5_000));
    broker.produce("bounded", &book.records());
    let place = Place::new(&sums(&broker.address, "bounded", BOUNDED));
    let said = place.run(&[], 0);
    assert_eq!(place.results(), book.results);
    let summary = place.summary();
    assert_eq!(summary["records"]["accepted"], 5_000);
    let partitions = summary["partitions"].as_array().unwrap();
    let finished = |partition: &serde_json::Value| {
        partition["lag"] == 0 && partition["state"] == "finished" && partition["next"] != 0
    };
    assert!(partitions.len() == 3 && partitions.iter().all(finished), "{partitions:?}");
    assert_eq!(partitions[1]["partition"], "bounded/1");
    assert!(said.contains("in bounded/2"), "{said}");
    assert_eq!(broker.committed("bounded-readers", "bounded", 1), [None], "nothing is stored");
}

#[test]
fn reading_begins_and_ends_where_it_is_to() {
    let broker = Broker::shared();
    broker.topic("between", 2);
    let value = |v: i64| format!("{{\"k\":\"a\",\"v\":{v}}}");
    let values: Vec<_> = (0..10).map(value).collect();
    let record = |(number, text): (usize, &String)| {
        (number as i32 % 2, HOUR + 1_000 * number as i64, text.clone().into_bytes())
    };
    let records: Vec<_> = values.iter().enumerate().map(record).collect();
    let given: Vec<Given<'_>> =
        records.iter().map(|(part, time, value)| (*part, *time, None, Some(&value[..]))).collect();
    broker.produce("between", &given);
    // The times of the records are those of their partitions.
    let read = |source: &str| {
        let source = format!("event_time = \"timestamp\"\n{source}");
        let place = Place::new(&sums(&broker.address, "between", &source));
        place.run(&[], 0);
        place.results().into_iter().map(|((_, start), (_, sum))| (start, sum)).collect::<Vec<_>>()
    };
    let all: Vec<_> = (0..10).map(|number| (HOUR + 1_000 * number, number)).collect();
    assert_eq!(read(BOUNDED), all);
    let at = "start = \"1970-01-01T01:00:03Z\"\nuntil = \"1970-01-01T01:00:07Z\"";
    assert_eq!(read(at), all[3..7]);
    assert_eq!(read("start = \"1970-01-01T01:00:09.5Z\"\nuntil = \"now\""), []);
    assert_eq!(read("start = \"latest\"\nuntil = \"now\""), []);
}

/// One partition has five times as many records for the same two hours as the other, and both are
/// fetched a little at a time: read alike, the one with few would be ahead by nearly all of them.
#[test]
fn a_partition_that_is_ahead_waits_for_the_one_behind() {
    const START: i64 = 1_700_000_000_000;
    let broker = Broker::shared();
    broker.topic("drift", 2);
    let pad = "x".repeat(2_000);
    let value =
        |key: &str, time| format!("{{\"ts\":{time},\"k\":\"{key}\",\"v\":1,\"pad\":\"{pad}\"}}");
    let few = (0..400).map(|number| (0, START + number * 20_000, "few"));
    let many = (0..2_000).map(|number| (1, START + number * 4_000, "many"));
    let records: Vec<_> =
        few.chain(many).map(|(at, time, key)| (at, time, value(key, time))).collect();
    let given: Vec<Given<'_>> =
        records.iter().map(|(at, time, text)| (*at, *time, None, Some(text.as_bytes()))).collect();
    // A batch is fetched as a whole.
    broker.produce_as("drift", &given, &[("batch.num.messages", "5")]);
    let small = "queue = \"200kB\"\noptions = { \"fetch.message.max.bytes\" = 10000, \"queued.min.messages\" = 10, \
                 \"fetch.queue.backoff.ms\" = 5 }";
    let pipeline = sums(&broker.address, "drift", &format!("{BOUNDED}\n{small}"))
        .replace("shards = 2", "shards = 1")
        .replace("mode = \"accumulating\"", "mode = \"accumulating\"\ntrigger = { count = 1 }");
    let limits = "\n[limits]\nbatch_records = 20\nin_flight_records = 40\n";
    let drift =
        "\n[watermark]\nkind = \"bounded\"\nout_of_orderness = \"1s\"\nmax_drift = \"2m\"\n";
    let place = Place::new(&format!("{pipeline}{drift}{limits}"));
    place.run(&[], 0);
    // How far the one with few records was ahead at most: results come as records are read.
    let (mut heads, mut ahead) = ([START; 2], 0);
    for line in place.read("out.ndjson").lines() {
        let pane: serde_json::Value = serde_json::from_str(line).unwrap();
        let head = &mut heads[usize::from(pane["key"]["k"] == "many")];
        *head = pane["window"]["start"].as_i64().unwrap().max(*head);
        ahead = ahead.max(heads[0] - heads[1]);
    }
    assert_eq!(place.summary()["records"]["accepted"], 2_400);
    // What had been read when it was told to wait: in flight, in the batch that is being filled, in our
    // queue, and twice a batch in the client, which has at most 15 in its queue and 5 on the way.
    let already_read = (40 + 20 + 100 + 20 + 20) * 20_000;
    assert!(ahead <= 120_000 + already_read, "{ahead} ms ahead");
}

#[test]
fn what_is_no_record_is_kept_aside_with_its_place() {
    let broker = Broker::shared();
    broker.topic("poison", 2);
    let good: &[u8] = br#"{"ts":1700000000000,"k":"a","v":1}"#;
    let large = format!(r#"{{"ts":1,"k":"{}","v":1}}"#, "x".repeat(5_000_000));
    let values: [Option<&[u8]>; 9] = [
        Some(good),
        None,
        Some(b""),
        Some(b"{"),
        Some(b"\xff\xfe{}"),
        Some(large.as_bytes()),
        Some(br#"{"k":"a","v":1}"#),
        Some(br#"{"ts":1700000000000,"k":"a","v":"one"}"#),
        Some(good),
    ];
    let keys: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"\xff")];
    let given: Vec<Given<'_>> =
        values.iter().enumerate().map(|(number, value)| (1, 5, keys[number % 3], *value)).collect();
    broker.produce("poison", &given);
    let place = Place::new(&sums(&broker.address, "poison", BOUNDED));
    place.run(&[], 0);
    let key = ("a".to_owned(), 1_700_000_000_000);
    assert_eq!(place.results(), [(key, (2, 2))].into(), "{}", place.read("summary.json"));
    let reasons = [
        (1, "no_value"),
        (2, "no_value"),
        (3, "not_json"),
        (4, "not_utf8"),
        (5, "too_long"),
        (6, "missing_time"),
        (7, "wrong_type"),
    ];
    let expected = reasons.map(|(offset, reason)| ("poison/1".into(), offset, reason.to_owned()));
    assert_eq!(place.letters(), expected);
    assert_eq!(place.summary()["records"]["dead_lettered"], 7);
}

/// One flow of 1000 bytes on interface 4, by the field numbers and wire types that OpenNMS publishes: see
/// `flow.proto`.
const WIRE: &[u8] = &[
    0x12, 3, 0x08, 0xE8, 0x07, 0x18, 0x00, 0x6A, 7, 0x08, 0x90, 0xD3, 0x99, 0xFE, 0xBC, 0x31, 0x8A,
    0x01, 2, 0x08, 4, 0xA2, 0x02, 2, 0x18, 7, // What nobody knows: enum values, and a field.
    0xB8, 0x01, 99, 0x88, 0x02, 77, 0xB8, 0x3E, 5,
];

/// The same as JSON.
const DOCUMENT: &[u8] = br#"{"num_bytes":1000,"direction":"INGRESS","last_switched":1700000000400,
    "input_snmp_ifindex":4,"exporter_node":{"node_id":7}}"#;

/// The same in the JSON of others, and something of theirs that is no flow.
const PRESETS: [(&str, &str, &str); 3] = [
    (
        "goflow2",
        r#"{"sampler_address":"192.0.2.7","time_flow_end_ns":1700000000400000000,"bytes":1000,
        "in_if":4}"#,
        r#"{"time_flow_end_ns":1700000000400000000}"#,
    ),
    (
        "pmacct",
        r#"{"event_type":"purge","peer_ip_src":"192.0.2.7","iface_in":4,
        "timestamp_end":"2023-11-14 22:13:20.400000","bytes":1000}"#,
        r#"{"event_type":"purge_close","writer_id":"default_kafka/1"}"#,
    ),
    (
        "akvorado",
        r#"{"TimeReceived":1700000000,"ExporterAddress":"::ffff:192.0.2.7","InIf":4,
        "Bytes":"1000"}"#,
        r#"{"TimeReceived":1700000000,"Bytes":"1000"}"#,
    ),
];

/// Produces `records` to a topic and reads them as `format`: one is the flow above, the others are
/// rejected, at these offsets and for these reasons.
fn flows(name: &str, format: &str, records: &[Given<'_>], rejected: &[(i64, &str)]) {
    let broker = Broker::shared();
    let topic = format!("flows-{name}");
    broker.topic(&topic, 1);
    broker.produce(&topic, records);
    let place = Place::new(&format!(
        r#"
dead_letters = "dead.ndjson"
[pipeline]
name = "flows"
[[source]]
kind = "kafka"
brokers = "{}"
topics = ["^flows-{name}$"]
group = "{topic}"
until = "now"
{format}
[[group]]
name = "by_interface"
key = ["if_index"]
window = "global"
aggregates = {{ bytes = "sum(bytes)" }}
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#,
        broker.address
    ));
    place.run(&[], 0);
    let out = place.read("out.ndjson");
    assert!(out.contains(r#""key":{"if_index":4}"#), "{name}: {out}");
    assert!(out.contains(r#""values":{"bytes":1000}"#), "{name}: {out}");
    let expected = rejected.iter().map(|(at, why)| (format!("{topic}/0"), *at, (*why).into()));
    assert_eq!(place.letters(), expected.collect::<Vec<_>>(), "{name}");
    assert_eq!(place.summary()["records"]["accepted"], 1, "{name}");
}

#[test]
fn flows_mean_the_same_in_every_format() {
    let records: [Given<'_>; 3] =
        [(0, 1, None, Some(WIRE)), (0, 1, None, Some(b"\x12")), (0, 1, None, Some(b"\x18\x09"))];
    let rejected = [(1, "not_protobuf"), (2, "missing_exporter")];
    flows("proto", "format = \"flow-protobuf\"", &records, &rejected);
    let records = [(0, 1, None, Some(DOCUMENT)), (0, 1, None, Some(&b"[]"[..]))];
    let format = "format = \"json\"\npreset = \"opennms\"";
    flows("json", format, &records, &[(1, "not_json")]);
    for (preset, flow, other) in PRESETS {
        let records = [(0, 1, None, Some(flow.as_bytes())), (0, 1, None, Some(other.as_bytes()))];
        let format = format!("format = \"json\"\npreset = \"{preset}\"");
        flows(preset, &format, &records, &[(1, "missing_exporter")]);
    }
    // The same as a datagram with one flow.
    let datagram = datagram((1_700_000_000, 10_000), &[(4, 1_000, 9_000)]);
    let records: [Given<'_>; 2] =
        [(0, 1, Some(b"192.0.2.7"), Some(&datagram)), (0, 1, None, Some(&datagram))];
    flows("netflow", "format = \"netflow\"", &records, &[(1, "missing_exporter")]);
}

#[test]
fn a_topic_that_is_not_there_ends_a_bounded_run() {
    let broker = Broker::shared();
    let place = Place::new(&sums(&broker.address, "nowhere", BOUNDED));
    let said = place.run(&[], 3);
    assert!(said.contains("nowhere") && said.contains("make the topic first"), "{said}");
}
