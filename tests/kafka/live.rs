//! Topics that go on: silent partitions, new ones, brokers that go away, sinks that hang.

use crate::broker::Broker;
use crate::place::Place;
use crate::run::{ADMIN, Book, PATIENCE, Running, WELL, health, sums};
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const WATERMARK: &str = "
options = { \"topic.metadata.refresh.interval.ms\" = 500 }
[source.watermark]
kind = \"bounded\"
out_of_orderness = \"2s\"
idle_after = \"600ms\"
max_future_skew = \"1m\"
";

fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Puts one record of `key`, 1 each, into each of `places`: partition and event time.
fn put(broker: &Broker, topic: &str, key: &str, places: &[(i32, i64)]) {
    let value = |time: i64| format!("{{\"ts\":{time},\"k\":\"{key}\",\"v\":1}}").into_bytes();
    let values: Vec<_> = places.iter().map(|(at, time)| (*at, *time, value(*time))).collect();
    let given: Vec<_> =
        values.iter().map(|(at, time, value)| (*at, *time, None, Some(&value[..]))).collect();
    broker.produce(topic, &given);
}

#[test]
fn results_flow_past_silent_partitions_new_ones_and_wrong_clocks() {
    let broker = Broker::shared();
    broker.topic("mixed", 3);
    let place = Place::new(&sums(&broker.address, "mixed", WATERMARK));
    let mut run = place.start(&[]);
    // Partition 2 never has a record.
    let base = clock() / 1_000 * 1_000;
    put(broker, "mixed", "early", &[(0, base - 9_000), (1, base - 9_000)]);
    put(broker, "mixed", "push", &[(0, base - 5_000), (1, base - 5_000)]);
    run.until("an empty partition is idle", || place.count("early") == 2);
    // Two days ahead: the watermark follows the clock at most. Partition 1 is silent meanwhile.
    put(broker, "mixed", "ahead", &[(0, base + 2 * 86_400_000)]);
    put(broker, "mixed", "honest", &[(0, base - 1_000), (1, base - 1_000)]);
    let later = clock();
    put(broker, "mixed", "push", &[(0, later + 4_000), (1, later + 4_000)]);
    run.until("honest records count", || place.count("honest") == 2);
    // A partition that was not there before.
    broker.grow("mixed", 4);
    put(broker, "mixed", "new", &[(3, clock() - 500), (3, clock() - 400)]);
    let pushed = clock() + 8_000;
    put(broker, "mixed", "push", &[(0, pushed), (1, pushed), (3, pushed)]);
    run.until("a new partition counts from its first record", || place.count("new") == 2);
    let said = run.stop();
    let summary = place.summary();
    assert_eq!(summary["marks"]["clamped"], 1, "{said}");
    assert_eq!(summary["stages"]["sums"]["expired"], 0);
    let partitions = summary["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 4);
    assert!(partitions[2]["state"] == "idle" && partitions[2]["watermark"].is_null());
}

#[test]
fn a_partition_that_comes_back_late_is_late_and_loses_nothing() {
    let broker = Broker::shared();
    broker.topic("returns", 2);
    let place = Place::new(&sums(&broker.address, "returns", WATERMARK));
    let mut run = place.start(&[]);
    let base = clock() / 1_000 * 1_000;
    put(broker, "returns", "first", &[(0, base - 20_000), (1, base - 20_000)]);
    // Partition 1 falls silent, and the other goes on alone.
    put(broker, "returns", "push", &[(0, base - 5_000)]);
    run.until("a silent partition is idle", || place.count("first") == 2);
    // A process that has just stood still doubts for a moment that the other one is silent.
    let (held, since) = ("held by source `in`, by its partition `returns/0`", Instant::now());
    while !run.said.contains(held) {
        assert!(since.elapsed() < PATIENCE, "{}", run.said);
        run.signal("-USR1");
        run.listen(Duration::from_millis(200));
    }
    put(broker, "returns", "back", &[(1, base - 15_000), (1, base - 4_000)]);
    run.until("what is late counts", || place.count("back") == 1);
    put(broker, "returns", "push", &[(0, base + 4_000), (1, base + 4_000)]);
    run.until("what is not counts when its time has come", || place.count("back") == 2);
    let said = run.stop();
    let stage = &place.summary()["stages"]["sums"];
    assert_eq!((&stage["late"], &stage["expired"]), (&1.into(), &0.into()), "{stage}\n{said}");
}

#[test]
fn brokers_that_go_away_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(folder.path(), &[]);
    broker.topic("outage", 2);
    let mut book = Book::default();
    book.fill(2, (0, 3_000));
    broker.produce("outage", &book.records());
    broker.stop();
    let source = "options = { \"reconnect.backoff.max.ms\" = 500 }\n\
                  [source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"1s\"";
    let place = Place::new(&(sums(&broker.address, "outage", source) + ADMIN));
    let mut run = place.start(&[]);
    let address = run.admin();
    run.hear("cannot reach Kafka");
    run.until("it is shown", || health(&address).contains("\"source `in`\":\"cannot reach Kafka"));
    broker.start_again();
    let is_there = |place: &Place, number: i64| {
        place.results().contains_key(&("k0".into(), 1_700_000_000_000 + number))
    };
    run.until("the brokers are found", || is_there(&place, 0));
    broker.stop();
    run.said.clear();
    run.hear("cannot reach Kafka");
    broker.start_again();
    run.hear("the brokers are back");
    run.until("nothing is held up", || health(&address).ends_with(WELL));
    let mut more = Book::default();
    more.fill(2, (3_000, 5_000));
    broker.produce("outage", &more.records());
    run.until("it goes on", || is_there(&place, 5_000));
    run.stop();
    book.fill(2, (3_000, 5_000));
    // What is complete: the watermark is at least a second behind the last records.
    let results = place.results();
    for ((key, window), expected) in &book.results {
        if *window <= 1_700_000_005_000 {
            assert_eq!(results.get(&(key.clone(), *window)), Some(expected), "{key} {window}");
        }
    }
}

#[test]
fn a_topic_that_is_not_there_yet_is_waited_for() {
    let broker = Broker::shared();
    let source = "options = { \"topic.metadata.refresh.interval.ms\" = 500 }\n\
                  [source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"0s\"";
    let place = Place::new(&sums(&broker.address, "later", source));
    let mut run = place.start(&[]);
    run.hear("waits for the topic");
    broker.topic("later", 1);
    put(broker, "later", "a", &[(0, 1_700_000_000_000), (0, 1_700_000_005_000)]);
    let first = ("a".to_owned(), 1_700_000_000_000);
    run.until("it is read", || place.results().contains_key(&first));
    run.stop();
}

/// The process stands still for longer than the group waits for it; both partitions were silent before.
#[test]
fn what_came_while_the_process_stood_still_is_not_late() {
    let broker = Broker::shared();
    broker.topic("stood", 2);
    let source = "options = { \"session.timeout.ms\" = 1500, \"heartbeat.interval.ms\" = 300 }\n\
                  [source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"20ms\"\nidle_after = \"300ms\"";
    let pipeline = sums(&broker.address, "stood", source).replace("\"1h\"", "\"0s\"");
    let place = Place::new(&pipeline);
    let mut run = place.start(&[]);
    let mut book = Book::default();
    book.fill_by_key(2, (0, 4_000));
    broker.produce("stood", &book.records());
    let first = ("k0".to_owned(), 1_700_000_000_000);
    run.until("it is read", || place.results().contains_key(&first));
    let stop = |run: &Running| run.signal("-STOP");
    run.listen(Duration::from_millis(700));
    stop(&run);
    let mut more = Book::default();
    more.fill_by_key(2, (4_000, 8_000));
    // One partition behind the other.
    more.values.sort_by_key(|(partition, ..)| *partition);
    broker.produce("stood", &more.records());
    run.listen(Duration::from_secs(3));
    run.signal("-CONT");
    run.hear("lost touch with its group");
    let last = ("k0".to_owned(), 1_700_000_010_000);
    run.until("what came meanwhile is read", || place.results().contains_key(&last));
    run.stop();
    let stage = &place.summary()["stages"]["sums"];
    assert_eq!((&stage["late"], &stage["expired"]), (&0.into(), &0.into()), "{stage}");
}

/// Topics by a pattern: those that are there, and one that comes later; of one that goes it is told once.
#[test]
fn a_pattern_takes_topics_that_come_later() {
    let broker = Broker::shared();
    broker.topic("some-a", 1);
    broker.topic("some-b", 2);
    broker.topic("other-some-c", 1);
    for topic in ["some-a", "some-b", "other-some-c"] {
        put(broker, topic, "before", &[(0, 1_700_000_000_000)]);
    }
    let source = "start = \"latest\"\n\
                  options = { \"topic.metadata.refresh.interval.ms\" = 500 }\n\
                  [source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"0s\"\nidle_after = \"300ms\"";
    let pipeline = sums(&broker.address, "^some-.*", source).replace("group = \"^", "group = \"");
    let place = Place::new(&pipeline.replace(".*-readers", "readers"));
    let mut run = place.start(&[]);
    let mut time = 1_700_000_000_000;
    run.until("what comes behind the start is read", || {
        time += 1_000;
        put(broker, "some-a", "a", &[(0, time)]);
        put(broker, "some-b", "b", &[(0, time), (1, time)]);
        put(broker, "other-some-c", "c", &[(0, time)]);
        place.count("a") > 0 && place.count("b") > 0
    });
    // What is found later is read from its first record.
    broker.topic("some-d", 1);
    put(broker, "some-d", "d", &[(0, time + 1_000)]);
    run.until("a later topic is read, and another one is silent", || {
        time += 1_000;
        put(broker, "some-a", "a", &[(0, time)]);
        put(broker, "some-d", "more", &[(0, time)]);
        place.count("d") > 0
    });
    broker.delete("some-b");
    run.hear("waits for the topic");
    let before = place.count("a");
    run.until("the others go on", || {
        time += 1_000;
        put(broker, "some-a", "a", &[(0, time)]);
        put(broker, "some-d", "more", &[(0, time)]);
        place.count("a") > before + 5
    });
    let said = run.stop();
    assert_eq!(said.matches("waits for the topic").count(), 1, "{said}");
    assert_eq!((place.count("before"), place.count("c"), place.count("d")), (0, 0, 1));
}

/// A run over `records` records of topic `topic`, to their end, whose sink is a pipe; both hold little.
struct Piped {
    place: Place,
    run: Running,
    pipe: std::fs::File,
}

impl Piped {
    fn start(topic: &str, records: i64, options: &str) -> Self {
        let broker = Broker::shared();
        broker.topic(topic, 2);
        let mut book = Book::default();
        book.fill(2, (0, records));
        // A batch is fetched as a whole.
        broker.produce_as(topic, &book.records(), &[("batch.num.messages", "100")]);
        let source = format!(
            "until = \"now\"\nqueue = \"64KiB\"\noptions = {{ {options} }}\n\
             [source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"1s\""
        );
        let pipeline = sums(&broker.address, topic, &source)
            .replace("fixed = \"1s\"", "fixed = \"10ms\"")
            .replace("path = \"out.ndjson\"", "path = \"pipe\"");
        let limits =
            "\n[limits]\nbatch_records = 500\nin_flight_records = 1000\noutput_bytes = \"16KiB\"\n";
        let place = Place::new(&(pipeline + limits));
        let made = Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
        assert!(made.success());
        let run = place.start(&[]);
        let pipe = std::fs::File::open(place.path("pipe")).unwrap();
        Self { place, run, pipe }
    }

    /// Takes what comes out of the pipe, to the end of the run; what was said, and the panes.
    fn end(self) -> (Place, String, String) {
        let Self { place, run, mut pipe } = self;
        let panes = std::thread::spawn(move || {
            let mut panes = String::new();
            pipe.read_to_string(&mut panes).unwrap();
            panes
        });
        let said = run.end(0);
        (place, said, panes.join().unwrap())
    }
}

/// The sink takes nothing for three times as long as the group waits for a poll.
#[test]
fn a_sink_that_hangs_stops_the_reading_and_not_the_polling() {
    const INTERVAL: Duration = Duration::from_secs(10);
    let millis = INTERVAL.as_millis();
    let options = format!(
        "\"max.poll.interval.ms\" = {millis}, \"session.timeout.ms\" = {millis}, \
         \"heartbeat.interval.ms\" = 500"
    );
    let mut piped = Piped::start("hang", 30_000, &options);
    piped.run.listen(INTERVAL * 3);
    let (place, said, panes) = piped.end();
    assert!(!said.contains("lost touch") && !said.contains("tries again"), "{said}");
    assert_eq!(place.summary()["records"]["accepted"], 30_000);
    // Far more than pipe and credits hold.
    assert!(panes.len() > 1 << 20, "{} bytes", panes.len());
    let sums = panes.lines().filter(|line| line.contains("\"index\":0"));
    assert!(sums.count() > 10_000);
}

/// The sink hangs, and meanwhile retention passes what has not been read yet.
#[test]
fn what_is_deleted_while_it_is_read_is_counted_and_named() {
    const RECORDS: i64 = 60_000;
    let broker = Broker::shared();
    let options = "\"fetch.message.max.bytes\" = 10000, \"queued.min.messages\" = 100";
    let mut piped = Piped::start("passed", RECORDS, options);
    // Reading has begun, and pipe, credits and queue hold less than a tenth of the records.
    piped.pipe.read_exact(&mut [0]).unwrap();
    let end = |at| broker.end("passed", at);
    let kept = 100;
    (0..2).for_each(|at| broker.forget("passed", at, end(at) - kept));
    let (place, said, _) = piped.end();
    let summary = place.summary();
    let lost = summary["marks"]["kafka_offsets_lost"].as_i64().unwrap();
    let read = summary["records"]["accepted"].as_i64().unwrap();
    assert_eq!(read + lost, RECORDS, "{said}");
    assert!(read > 2 * kept && lost > RECORDS / 2, "{said}");
    // Each gap once: from what was to be read next to what is left.
    let mut named = 0;
    for at in 0..2 {
        let gap = format!("`passed/{at}` no longer has the offsets ");
        let told: Vec<_> = said.lines().filter_map(|line| line.split_once(&gap)).collect();
        assert_eq!(told.len(), 1, "{said}");
        let offsets = told[0].1.split_once(':').unwrap().0;
        let (first, last) = offsets.split_once(" to ").unwrap();
        let (first, last): (i64, i64) = (first.parse().unwrap(), last.parse().unwrap());
        assert_eq!(last, end(at) - kept - 1, "{said}");
        named += last - first + 1;
    }
    assert_eq!(named, lost, "{said}");
}
