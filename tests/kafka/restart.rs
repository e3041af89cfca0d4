//! Processes that end and come back: nothing is read twice, nothing left out unless the broker no
//! longer has it, and two do not read at once.

use crate::broker::Broker;
use crate::place::Place;
use crate::run::{Book, sums};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::time::Duration;

const STATE: &str = "\n[state]\ndir = \"state\"\nepoch = \"50ms\"\n";
const BOUNDED: &str = "[source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"1s\"";

/// A sequence of numbers that looks like chance: xorshift.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[test]
fn whoever_is_killed_goes_on_and_no_pane_comes_twice() {
    const KILLS: u64 = 10;
    let broker = Broker::shared();
    broker.topic("killed", 6);
    let mut book = Book::default();
    book.fill(6, (0, 120_000));
    broker.produce("killed", &book.records());
    // Small pieces, so that all partitions come on together.
    let options =
        "options = { \"fetch.message.max.bytes\" = 10000, \"queued.min.messages\" = 200 }";
    let source = format!("until = \"now\"\n{options}\n{BOUNDED}");
    let limits = "\n[limits]\nbatch_records = 200\nin_flight_records = 2000\n";
    let place = Place::new(&(sums(&broker.address, "killed", &source) + STATE + limits));
    let seed = std::env::var("KAFKA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut dice = Dice(seed);
    let mut in_the_middle = 0;
    for kill in 0..KILLS {
        let mut run = place.start(&[]);
        // Every other one anywhere, also before it has read anything.
        if kill % 2 == 0 {
            let before = place.results().len();
            let goes_on = |found: usize| found > before || found == book.results.len();
            run.until("it goes on", || goes_on(place.results().len()));
        }
        run.listen(Duration::from_millis(dice.roll(if kill % 2 == 0 { 200 } else { 2_000 })));
        run.kill();
        let found = place.results().len();
        in_the_middle += usize::from(found > 0 && found < book.results.len());
    }
    let said = place.run(&[], 0);
    assert!(in_the_middle > 0, "KAFKA_SEED={seed}: no kill came in the middle");
    assert_eq!(place.results(), book.results, "KAFKA_SEED={seed}\n{said}");
    let mut identities = BTreeSet::new();
    for line in place.read("out.ndjson").lines() {
        let pane: Json = serde_json::from_str(line).unwrap();
        let identity = format!("{} {} {}", pane["key"], pane["window"], pane["pane"]);
        assert!(identities.insert(identity), "KAFKA_SEED={seed}: twice: {line}");
    }
    assert_eq!(place.summary()["records"]["accepted"], 120_000);
    // Those who watch the group see that all has been read.
    let committed = broker.committed("killed-readers", "killed", 6);
    assert_eq!(committed.iter().flatten().sum::<i64>(), 120_000, "{committed:?}");
}

/// A state that was stored without an end takes one up; when that has been reached, it is over.
#[test]
fn an_end_that_is_set_later_is_taken_up() {
    let broker = Broker::shared();
    broker.topic("ends", 2);
    let mut book = Book::default();
    book.fill(2, (0, 3_000));
    broker.produce("ends", &book.records());
    let place = Place::new(&(sums(&broker.address, "ends", BOUNDED) + STATE));
    let read = |place: &Place| place.summary()["records"]["accepted"].clone();
    let mut run = place.start(&[]);
    let all = |sum| {
        move || broker.committed("ends-readers", "ends", 2).iter().flatten().sum::<i64>() == sum
    };
    run.until("all is read", all(3_000));
    run.stop();
    let mut more = Book::default();
    more.fill(2, (3_000, 2_000));
    broker.produce("ends", &more.records());
    book.fill(2, (3_000, 2_000));
    let until = "--set=source.0.until=now";
    place.run(&[until], 0);
    assert_eq!((place.results(), read(&place)), (book.results, 5_000.into()));
    broker.produce("ends", &more.records());
    place.run(&[until], 0);
    assert_eq!(read(&place), 5_000, "its end is what it was");
    let said = place.run(&[], 3);
    assert!(said.contains("it has been read to the end that `until` stood for"), "{said}");
}

const GAP: &str = "`gap/0` no longer has the offsets 1000 to 1299: 300 records are lost at most";

#[test]
fn what_the_broker_has_deleted_meanwhile_is_counted_and_named() {
    let broker = Broker::shared();
    broker.topic("gap", 1);
    let mut book = Book::default();
    book.fill(1, (0, 1_000));
    broker.produce("gap", &book.records());
    let place = Place::new(&(sums(&broker.address, "gap", BOUNDED) + STATE));
    let mut run = place.start(&[]);
    run.until("all is read", || broker.committed("gap-readers", "gap", 1) == [Some(1_000)]);
    run.stop();
    let mut more = Book::default();
    more.fill(1, (1_000, 500));
    broker.produce("gap", &more.records());
    broker.forget("gap", 0, 1_300);
    // However often it ends before or behind an epoch that holds the gap.
    for wait in [0, 40, 80] {
        let mut run = place.start(&[]);
        run.hear(GAP);
        run.listen(Duration::from_millis(wait));
        run.kill();
    }
    let mut run = place.start(&[]);
    run.until("it goes on", || broker.committed("gap-readers", "gap", 1) == [Some(1_500)]);
    run.stop();
    let summary = place.summary();
    assert_eq!(summary["marks"]["kafka_offsets_lost"], 300);
    assert_eq!(summary["records"]["accepted"], 1_200);
    assert_eq!(summary["partitions"][0]["lag"], 0);
}

/// Two records in two of three partitions, whose sum no number holds: which is the second one is up to
/// the broker.
#[test]
fn a_start_is_held_at_offsets_of_partitions_and_those_alone_are_left_out() {
    let broker = Broker::shared();
    broker.topic("fails", 3);
    let mut book = Book::default();
    book.fill(3, (0, 3_000));
    broker.produce("fails", &book.records());
    let pipeline = sums(&broker.address, "fails", BOUNDED) + STATE;
    let place = Place::new(&pipeline.replace("v = \"i64\"", "v = \"i128\""));
    let all = |sum| {
        move || broker.committed("fails-readers", "fails", 3).iter().flatten().sum::<i64>() == sum
    };
    let mut run = place.start(&[]);
    run.until("all is read", all(3_000));
    run.stop();
    let large = format!("{{\"ts\":1700000004000,\"k\":\"k\",\"v\":{}}}", i128::MAX);
    let large: Vec<_> = (0..2).map(|at| (at, 0, None, Some(large.as_bytes()))).collect();
    broker.produce("fails", &large);
    for _ in 0..3 {
        let said = place.run(&[], 1);
        assert!(said.contains("overflows 128 bits"), "{said}");
    }
    let (said, again) = (place.run(&[], 7), place.run(&[], 7));
    assert_eq!(said, again);
    let at = said.split("the last one at ").nth(1).and_then(|text| text.split(", behind").next());
    let at = at.unwrap_or_else(|| panic!("{said}"));
    assert!(said.contains("start with --skip-batch to put these records among the dead"), "{said}");
    let mut run = place.start(&["--skip-batch"]);
    run.hear(&format!("leaves out {at}: they count as `skipped`"));
    run.until("it goes on", all(3_002));
    let mut more = Book::default();
    more.fill(3, (3_000, 300));
    broker.produce("fails", &more.records());
    run.until("what comes behind is read", all(3_302));
    run.stop();
    let mut letters = place.letters();
    letters.sort();
    let named: Vec<_> = letters
        .iter()
        .map(|(origin, offset, _)| format!("offset {offset} of `{origin}`"))
        .collect();
    let mut held: Vec<_> = at.split(", ").collect();
    held.sort();
    assert_eq!(named, held);
    assert!(letters.iter().all(|(.., reason)| reason == "skipped"), "{letters:?}");
    let records = &place.summary()["records"];
    assert_eq!(records["accepted"], 3_302 - letters.len(), "{records}");
}

#[test]
fn two_processes_do_not_read_at_once() {
    let broker = Broker::shared();
    broker.topic("twice", 2);
    let mut book = Book::default();
    book.fill(2, (0, 4_000));
    broker.produce("twice", &book.records());
    let pipeline = sums(&broker.address, "twice", BOUNDED);
    let read = |place: &Place| !place.results().is_empty();
    let places = [(); 3].map(|()| Place::new(&pipeline));
    let mut first = places[0].start(&[]);
    first.until("the first reads", || read(&places[0]));
    // A second one under the same name takes its place.
    let mut second = places[1].start(&[]);
    let said = first.end(3);
    assert!(said.contains("another process reads as `nilometer` in this group"), "{said}");
    second.until("the second reads", || read(&places[1]));
    // One under another name takes a partition.
    let third = places[2].start(&["--set", "source.0.instance=other"]);
    let said = second.end(3);
    assert!(said.contains("taken away: another reader has joined group `twice-readers`"), "{said}");
    third.kill();
}
