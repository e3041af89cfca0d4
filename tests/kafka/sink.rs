//! Results in a topic: what a record is, and what else is kept in topics.

use crate::broker::{Broker, Taken};
use crate::place::Place;
use crate::run::sums_to_topic;
use serde_json::{Value as Json, json};

const STATE: &str = "\n[state]\ndir = \"state\"\nepoch = \"100ms\"\n";
const BOUNDED: &str = "[source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"1s\"";

fn put(broker: &Broker, topic: &str, records: &[(i64, &str, i64)]) {
    let text =
        |(time, k, v): &(i64, &str, i64)| format!("{{\"ts\":{time},\"k\":\"{k}\",\"v\":{v}}}");
    let values: Vec<_> = records.iter().map(text).collect();
    let given: Vec<_> = values.iter().map(|value| (0, 0, None, Some(value.as_bytes()))).collect();
    broker.produce(topic, &given);
}

#[test]
fn a_result_is_a_record_with_its_identity_beside_it() {
    let broker = Broker::shared();
    broker.topic("told", 1);
    let sink = "create = { partitions = 3, replication = 1 }\ncompression = \"zstd\"";
    // Its group is soon empty.
    let source = format!(
        "options = {{ \"session.timeout.ms\" = 1500, \"heartbeat.interval.ms\" = 300 }}\n{BOUNDED}"
    );
    let pipeline = sums_to_topic(&broker.address, "told", (&source, sink)) + STATE;
    let place = Place::new(&pipeline.replace("\"accumulating\"", "\"retracting\""));
    let said = first_and_late(&place, broker, "told");
    assert!(said.contains("sink `out`: topic `told-sums` was not there, and is made"), "{said}");
    let taken = broker.read("told-sums");
    let told: Vec<_> = taken.iter().filter(|taken| taken.key.contains("\"a\"")).collect();
    let kinds: Vec<_> = told.iter().map(|taken| &*taken.headers["nilometer.kind"]).collect();
    assert_eq!(kinds, ["insert", "retract", "insert"], "{told:?}");
    let key = json!({ "pipeline": "told", "stage": "sums", "key": { "k": "a" }, "window": { "start": 1_000, "end": 2_000 } });
    assert_eq!(serde_json::from_str::<Json>(&told[2].key).unwrap(), key);
    assert!(
        told.iter().all(|record| record.partition == told[0].partition),
        "one key, one partition"
    );
    let expected = [
        ("nilometer.index", "1"),
        ("nilometer.kind", "insert"),
        ("nilometer.pipeline", "told"),
        ("nilometer.stage", "sums"),
        ("nilometer.timing", "late"),
        ("nilometer.window", "1000/2000"),
    ];
    assert_eq!(told[2].headers, expected.map(|(name, value)| (name.into(), value.into())).into());
    assert_eq!(told[2].json()["values"], json!({ "n": 2, "sum": 14 }));
    // The stamp, and the same beside the offsets.
    let changelog = broker.read("nilometer.told.changelog");
    let stamps: Vec<_> =
        changelog.iter().filter(|record| record.key == "stamp/out/nilometer").collect();
    let stamp = stamps.last().unwrap().json();
    let number = |name: &str| stamp[name].as_u64().unwrap();
    let text = |number: u64, digest: u64, incarnation: u64| {
        // XXH64 of `nilometer.told.out.nilometer`, the name that it writes under.
        format!("nilometer/{number} {digest:016x} {incarnation:016x} 5e43b2451aaa9ff1")
    };
    let (digest, incarnation) = (number("digest"), number("incarnation"));
    assert_eq!(number("number"), stamps.len() as u64, "one for each epoch that has come out");
    let noted = text(number("number"), digest, incarnation);
    assert_eq!(broker.committed_as("told-readers", "told", 1), [(Some(4), noted)]);
    // As it was asked for.
    assert_eq!(broker.setting("told-sums", "cleanup.policy"), "delete");
    assert_eq!(broker.setting("nilometer.told.changelog", "cleanup.policy"), "compact");
    assert_eq!(
        (broker.partitions("told-sums"), broker.partitions("nilometer.told.changelog")),
        (3, 1)
    );
    assert!(broker.codecs("told-sums").iter().all(|codec| *codec == ZSTD));
    // The changelog has lost its last record, by what stands beside the offsets.
    let lost = text(number("number") + 1, digest, incarnation);
    broker.leave("told-readers");
    broker.commit(("told-readers", "told"), 4, &lost);
    put(broker, "told", &[(1_700, "a", 9)]);
    let said = place.run(&[], 5);
    assert!(said.contains("does not know of the last one"), "{said}");
}

#[test]
fn what_is_replaced_needs_no_tombstone_and_what_leaves_a_list_has_one() {
    let broker = Broker::shared();
    broker.topic("listed", 1);
    let sink = "create = { partitions = 1, replication = 1 }\nretractions = \"tombstones\"\nformat = \"protobuf\"";
    let pipeline = sums_to_topic(&broker.address, "listed", (BOUNDED, sink)) + STATE;
    let place = Place::new(&pipeline.replace(
        "aggregates = {",
        "top_k = { k = 1, entity = [\"k\"], rank = [\"sum\"] }\naggregates = {",
    ));
    first_and_late(&place, broker, "listed");
    assert_eq!(broker.setting("listed-sums", "cleanup.policy"), "compact");
    let taken = broker.read("listed-sums");
    let of = |k: &str| {
        let records = taken.iter().filter(|taken| taken.key.contains(&format!("\"k\":\"{k}\"")));
        records.map(|taken| taken.value.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(of("b"), [true, false], "it has left the list: {taken:?}");
    assert_eq!(of("a"), [true]);
}

/// The number of the codec in the attributes of a batch of records.
const ZSTD: u8 = 4;

/// Sessions of orders out of topic `{topic}`, into `{topic}-sums`.
fn orders(address: &str, topic: &str, retractions: &str) -> String {
    format!(
        r#"
[pipeline]
name = "{topic}"
[[source]]
kind = "kafka"
brokers = "{address}"
topics = ["{topic}"]
group = "{topic}-readers"
format = "json"
{BOUNDED}
[record]
time = "ts"
fields = {{ order = "text", step = "text", status = "text" }}
[[sequence]]
name = "orders"
key = ["order"]
status = "status"
ends = ["cancelled"]
idle_timeout = "10s"
max_session_duration = "1h"
allowed_lateness = "1h"
sinks = ["out"]
[[sequence.steps]]
name = "placed"
success = ["done"]
[[sequence.steps]]
name = "paid"
success = ["done"]
[[sink]]
name = "out"
kind = "kafka"
brokers = "{address}"
topic = "{topic}-sums"
create = {{ partitions = 3, replication = 1 }}
retractions = "{retractions}"
{STATE}"#
    )
}

/// A session that was abandoned, and is complete once a late record has come; one that stays.
#[test]
fn sessions_are_told_by_name_and_corrected() {
    let broker = Broker::shared();
    let inserted = |revision, outcome| ("insert".to_owned(), revision, outcome);
    let (abandoned, connected) = ("abandoned".to_owned(), "connected".to_owned());
    let replaced = vec![inserted(0, abandoned.clone()), inserted(1, connected.clone())];
    let mut taken_back = replaced.clone();
    taken_back.insert(1, ("retract".to_owned(), 0, abandoned));
    for (retractions, expected) in [("records", taken_back), ("tombstones", replaced)] {
        let topic = format!("orders-{retractions}");
        broker.topic(&topic, 1);
        let put = |records: &[(i64, &str, &str)]| {
            let text = |(time, order, step): &(i64, &str, &str)| {
                format!(
                    "{{\"ts\":{time},\"order\":\"{order}\",\"step\":\"{step}\",\"status\":\"done\"}}"
                )
            };
            let values: Vec<_> = records.iter().map(text).collect();
            let given: Vec<_> =
                values.iter().map(|value| (0, 0, None, Some(value.as_bytes()))).collect();
            broker.produce(&topic, &given);
        };
        let group = format!("{topic}-readers");
        let read = |wanted| broker.committed(&group, &topic, 1) == [Some(wanted)];
        let place = Place::new(&orders(&broker.address, &topic, retractions));
        put(&[(1_000, "a", "placed"), (1_500, "b", "placed"), (2_000, "b", "paid")]);
        put(&[(60_000, "z", "placed")]);
        let mut run = place.start(&[]);
        run.until("the first sessions are out", || read(4));
        put(&[(3_000, "a", "paid")]);
        run.until("the correction is out", || read(5));
        run.stop();
        let taken = broker.read(&format!("{topic}-sums"));
        let of = |order: &str| {
            let order = json!({ "order": order });
            taken.iter().filter(|taken| taken.json()["key"] == order).collect::<Vec<_>>()
        };
        let told = |record: &&Taken| {
            let session = record.json();
            let revision = session["revision"].as_i64().unwrap();
            let outcome = session["outcome"].as_str().unwrap().to_owned();
            (record.headers["nilometer.kind"].clone(), revision, outcome)
        };
        assert_eq!(of("a").iter().map(told).collect::<Vec<_>>(), expected, "{retractions}");
        assert_eq!(of("b").iter().map(told).collect::<Vec<_>>(), [inserted(0, connected.clone())]);
        assert_eq!(taken.len(), expected.len() + 1, "what goes on is not told");
        // Whatever becomes of a session lies under its name, in one partition.
        let session = of("a")[0].json();
        let key = json!({
            "pipeline": topic, "stage": "orders", "key": session["key"], "session_id": session["session_id"]
        });
        for record in of("a") {
            assert_eq!(serde_json::from_str::<Json>(&record.key).unwrap(), key);
            assert_eq!(record.partition, of("a")[0].partition);
        }
        assert_ne!(of("b")[0].key, of("a")[0].key);
    }
}

/// Reads three records, lets their results out, and then reads one that comes late; what was said.
fn first_and_late(place: &Place, broker: &Broker, topic: &str) -> String {
    put(broker, topic, &[(1_000, "a", 5), (1_500, "b", 7), (9_000, "z", 1)]);
    let mut run = place.start(&[]);
    let read = |wanted| {
        let group = format!("{topic}-readers");
        move || broker.committed(&group, topic, 1) == [Some(wanted)]
    };
    run.until("the first results are out", read(3));
    put(broker, topic, &[(1_600, "a", 9)]);
    run.until("the late result is out", read(4));
    run.stop()
}

/// Records that cannot be used go to a topic as they came, copies of those that are too late to another.
#[test]
fn dead_letters_and_late_copies_lie_in_topics() {
    let broker = Broker::shared();
    let (address, made) = (&broker.address, "create = { partitions = 1, replication = 1 }");
    broker.topic("mixed-up", 1);
    let garbage = [0xff, 0, b'{'];
    let far = b"{\"ts\":90000000,\"k\":\"a\",\"v\":1}";
    broker.produce("mixed-up", &[(0, 0, None, Some(&garbage)), (0, 0, None, Some(far))]);
    let sink = format!("delivery = \"at_least_once\"\n{made}");
    let pipeline = sums_to_topic(address, "mixed-up", (BOUNDED, &sink));
    let letters = format!(
        "dead_letters = {{ file = \"dead.ndjson\", brokers = \"{address}\", topic = \"dead\", {made} }}"
    );
    let late = format!(
        "\n[[sink]]\nname = \"late\"\nkind = \"kafka\"\nbrokers = \"{address}\"\ntopic = \"late\"\n\
         format = \"late\"\ndelivery = \"at_least_once\"\n{made}\n"
    );
    let pipeline = pipeline.replace("dead_letters = \"dead.ndjson\"", &letters);
    let place = Place::new(
        &(pipeline.replace("mode = \"acc", "late = { sink = \"late\" }\nmode = \"acc") + &late),
    );
    let mut run = place.start(&[]);
    put(broker, "mixed-up", &[(90_005_000, "a", 1)]);
    run.until("the garbage is a letter", || broker.has("dead"));
    run.until("what is complete is out", || broker.has("mixed-up-sums"));
    put(broker, "mixed-up", &[(5_000, "a", 2)]);
    run.until("the late copy is out", || broker.has("late"));
    run.stop();
    let letters = broker.read("dead");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].value.as_deref(), Some(&garbage[..]), "as it came");
    let headers = [
        ("bytes", "3"),
        ("error", letters[0].headers["nilometer.error"].as_str()),
        ("origin", "mixed-up/0"),
        ("position", "0"),
        ("reason", "not_utf8"),
        ("unit", "offset"),
    ];
    let headers = headers.map(|(name, value)| (format!("nilometer.{name}"), value.to_owned()));
    assert_eq!(letters[0].headers, headers.into());
    assert_eq!(place.letters(), [("mixed-up/0".to_owned(), 0, "not_utf8".to_owned())]);
    let late = broker.read("late");
    assert_eq!(late[0].json()["record"], json!({ "k": "a", "v": 2 }));
    assert_eq!(late[0].headers["nilometer.reason"], "expired");
    assert_eq!(late[0].headers["nilometer.position"], "0/3");
}
