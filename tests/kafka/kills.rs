//! Runs that are killed at instants of chance, now and then while the broker is away: flows of captures
//! and generated ones, out of their order and late, in six partitions without keys. A reader of committed
//! records sees each result once, and they come to what is known.

use crate::broker::{Broker, Given};
use crate::netflow::{Captures, datagram};
use crate::place::Place;
use crate::restart::Dice;
use crate::run::{Book, result, sums_to_topic};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PARTITIONS: i32 = 6;
/// When the exporter of the generated flows started, in seconds: behind all captures.
const STARTED: u32 = 1_900_000_000;
/// Interfaces from here on are those of the generated flows.
const INTERFACES: u16 = 60_000;
/// Flows of a generated datagram, a millisecond apart.
const FLOWS: u32 = 10;

/// Bytes by interface and second out of topic `once`, a little at a time. `UNTIL` stands for an end.
fn pipeline(address: &str, until: &str) -> String {
    format!(
        r#"
[pipeline]
name = "once"
shards = 2
[[source]]
kind = "kafka"
brokers = "{address}"
topics = ["once"]
group = "once-readers"
format = "netflow"
exporter = "192.0.2.1"
options = {{ "fetch.message.max.bytes" = 10000, "queued.min.messages" = 100, "reconnect.backoff.max.ms" = 500 }}
{until}
[source.watermark]
kind = "bounded"
out_of_orderness = "0s"
max_future_skew = "off"
[[group]]
name = "by_interface"
key = ["if_index"]
window = {{ fixed = "1s" }}
allowed_lateness = "36500d"
mode = "accumulating"
aggregates = {{ n = "count()", bytes = "sum(bytes)" }}
[[sink]]
name = "out"
kind = "kafka"
brokers = "{address}"
topic = "once-sums"
options = {{ "reconnect.backoff.max.ms" = 500 }}
[state]
dir = "state"
epoch = "100ms"
[limits]
batch_records = 200
in_flight_records = 2000
"#
    )
}

/// What lies in the topic, and what must come of it.
struct Ledger {
    captures: Captures,
    /// How often the captures lie in each partition.
    times: i64,
    /// Datagrams in the topic.
    datagrams: i64,
    /// Generated flows in their order so far.
    flows: u32,
    /// Records and bytes of the generated flows, by interface and start of the second.
    generated: Results,
}

type Results = BTreeMap<(i64, i64), (i64, i64)>;

impl Ledger {
    fn new() -> Self {
        let generated = Results::new();
        Self { captures: Captures::read(), times: 0, datagrams: 0, flows: 0, generated }
    }

    /// Puts the captures into every partition, and `count` more generated flows, each up to ten
    /// milliseconds out of its order.
    fn put(&mut self, broker: &Broker, count: u32) {
        let captured = self.captures.datagrams.clone();
        let parts =
            captured.into_iter().flat_map(|one| (0..PARTITIONS).map(move |at| (at, one.clone())));
        let mut records: Vec<_> = parts.collect();
        self.times += 1;
        let end = self.flows + count;
        while self.flows < end {
            let numbers = self.flows..self.flows + FLOWS;
            let datagram =
                self.write(numbers.map(|number| (number, number + 10 - number * 7 % 10)));
            records.push((i32::try_from(self.flows * 31 / 70).unwrap() % PARTITIONS, datagram));
            self.flows += FLOWS;
        }
        self.produce(broker, &records);
    }

    /// Puts flows that come too late for the first result of their seconds into every partition.
    fn put_late(&mut self, broker: &Broker) {
        let apart = self.flows / FLOWS;
        let datagrams = 0..u32::try_from(PARTITIONS).unwrap();
        let records: Vec<_> = datagrams
            .map(|at| {
                let late = (0..FLOWS).map(|number| (number + at, apart * number));
                (i32::try_from(at).unwrap(), self.write(late))
            })
            .collect();
        self.produce(broker, &records);
    }

    /// A datagram of flows, each with its number and the millisecond in which it ended.
    fn write(&mut self, flows: impl Iterator<Item = (u32, u32)>) -> Vec<u8> {
        let flow = |(number, ended): (u32, u32)| {
            let interface = INTERFACES + u16::try_from(number % 5).unwrap();
            (interface, number % 97 + 1, ended)
        };
        let flows: Vec<_> = flows.map(flow).collect();
        for (interface, bytes, ended) in &flows {
            let second = (i64::from(STARTED) + i64::from(ended / 1_000)) * 1_000;
            let sum = self.generated.entry((i64::from(*interface), second)).or_default();
            *sum = (sum.0 + 1, sum.1 + i64::from(*bytes));
        }
        datagram((STARTED, self.flows + 100), &flows)
    }

    fn produce(&mut self, broker: &Broker, records: &[(i32, Vec<u8>)]) {
        let given: Vec<Given<'_>> =
            records.iter().map(|(at, value)| (*at, 0, None, Some(&value[..]))).collect();
        broker.produce("once", &given);
        self.datagrams += i64::try_from(records.len()).unwrap();
    }

    /// What has come out is what lies in the topic, each result once.
    fn check(&self, broker: &Broker) -> Result<(), String> {
        let (mut identities, mut last) = (BTreeSet::new(), Results::new());
        for record in broker.read("once-sums") {
            if !identities.insert(record.identity()) {
                return Err(format!("twice: {record:?}"));
            }
            let pane = record.json();
            let number = |value: &Json| value.as_i64().unwrap();
            let place = (number(&pane["key"]["if_index"]), number(&pane["window"]["start"]));
            last.insert(place, (number(&pane["values"]["n"]), number(&pane["values"]["bytes"])));
        }
        let generated = last.split_off(&(i64::from(INTERFACES), i64::MIN));
        if generated != self.generated {
            return Err(format!("{generated:?} is not {:?}", self.generated));
        }
        self.check_captures(&last)
    }

    /// Each flow of a capture counts where it ended; its bytes lie in all seconds that it lasted.
    fn check_captures(&self, last: &Results) -> Result<(), String> {
        let times = self.times * i64::from(PARTITIONS);
        let (mut ended, mut bytes) = (BTreeMap::new(), BTreeMap::new());
        for (place, (count, sum)) in last {
            if *count > 0 {
                ended.insert(*place, *count);
            }
            *bytes.entry(place.0).or_insert(0) += sum;
        }
        let known = |one: &BTreeMap<i64, i64>| -> BTreeMap<_, _> {
            one.iter().map(|(interface, sum)| (*interface, sum * times)).collect()
        };
        let expected: BTreeMap<_, _> =
            self.captures.ended.iter().map(|(place, count)| (*place, count * times)).collect();
        if ended != expected {
            return Err(format!("{ended:?} of the captures, not {expected:?}"));
        }
        if bytes != known(&self.captures.bytes) {
            return Err(format!("{bytes:?} of the captures, not {:?}", self.captures.bytes));
        }
        Ok(())
    }

    fn records(&self) -> i64 {
        let generated = self.generated.values().map(|(records, _)| records).sum::<i64>();
        generated + self.captures.records * self.times * i64::from(PARTITIONS)
    }
}

/// How often, unless the environment says otherwise.
fn times(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|times| times.parse().ok()).unwrap_or(otherwise)
}

/// Each process but the last finds a part of the records only, whose last seconds are not complete: none
/// comes to the end, and every kill leaves something open. Every other one comes once something of that
/// part is out, the others at any time, also before anything has been read.
#[test]
fn whoever_is_killed_lets_each_result_out_once() {
    let (kills, outages) = (times("KAFKA_KILLS", 10), times("KAFKA_OUTAGES", 1));
    let seed = times("KAFKA_SEED", 7);
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(folder.path(), &[]);
    broker.topic("once", PARTITIONS);
    broker.topic("once-sums", 2);
    let place = Place::new(&pipeline(&broker.address, ""));
    let mut out = broker.follow("once-sums");
    let mut ledger = Ledger::new();
    let mut dice = Dice(seed);
    for kill in 0..kills {
        ledger.put(&broker, 4_500);
        let before = out.count();
        let mut run = place.start(&[]);
        if kill % 2 == 0 {
            run.until("it goes on", || out.count() > before);
        }
        run.listen(Duration::from_millis(dice.roll(if kill % 2 == 0 { 300 } else { 2_000 })));
        let is_outage = kill * outages / kills != (kill + 1) * outages / kills;
        if is_outage {
            broker.stop();
            run.listen(Duration::from_millis(dice.roll(1_000)));
        }
        run.kill();
        if is_outage {
            broker.start_again();
        }
        let open = ledger.check(&broker);
        assert!(open.is_err(), "KAFKA_SEED={seed}: everything was out before the kill");
    }
    ledger.put_late(&broker);
    place.write("pipeline.toml", &pipeline(&broker.address, "until = \"now\""));
    let said = place.run(&[], 0);
    assert_eq!(ledger.check(&broker), Ok(()), "KAFKA_SEED={seed}\n{said}");
    assert_eq!(place.summary()["records"]["accepted"], ledger.records());
    let committed = broker.committed("once-readers", "once", PARTITIONS);
    assert_eq!(committed.iter().flatten().sum::<i64>(), ledger.datagrams, "{committed:?}");
}

/// At least once: whoever is killed may write a result again, and the last one of each key is right.
#[test]
fn whoever_is_killed_without_transactions_repeats_and_loses_nothing() {
    let broker = Broker::shared();
    broker.topic("repeats", 2);
    broker.topic("repeats-sums", 2);
    let options =
        "options = { \"fetch.message.max.bytes\" = 10000, \"queued.min.messages\" = 100 }";
    let source = format!(
        "until = \"now\"\n{options}\n[source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"1s\""
    );
    let sink = "delivery = \"at_least_once\"";
    let rest = "\n[state]\ndir = \"state\"\nepoch = \"50ms\"\n[limits]\nbatch_records = 200\nin_flight_records = 1000\n";
    let place = Place::new(&(sums_to_topic(&broker.address, "repeats", (&source, sink)) + rest));
    let mut book = Book::default();
    book.fill(2, (0, 60_000));
    broker.produce("repeats", &book.records());
    let mut out = broker.follow("repeats-sums");
    let mut dice = Dice(times("KAFKA_SEED", 7));
    for _ in 0..3 {
        let before = out.count();
        let mut run = place.start(&[]);
        run.until("it goes on", || out.count() > before);
        run.listen(Duration::from_millis(dice.roll(100)));
        run.kill();
    }
    place.run(&[], 0);
    let taken = broker.read("repeats-sums");
    let last: crate::run::Results = taken.iter().map(|record| result(&record.json())).collect();
    assert_eq!(last, book.results);
}
