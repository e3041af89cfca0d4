//! A topic that does not take results: what is said, and that all of them are there in the end, once.

use crate::broker::Broker;
use crate::place::Place;
use crate::run::{ADMIN, Book, Results, WELL, health, results_of, sums_to_topic};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;

const STATE: &str = "\n[state]\ndir = \"state\"\nepoch = \"100ms\"\n";
const BOUNDED: &str = "[source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"0s\"";

/// A pipeline that reads from the broker that is always there, and writes to `to`.
fn pipeline(to: &Broker, topic: &str, sink: &str) -> String {
    let from = &Broker::shared().address;
    let text = sums_to_topic(from, topic, (BOUNDED, sink)) + STATE;
    let sink = format!("kind = \"kafka\"\nbrokers = \"{from}\"\ntopic = \"{topic}-sums\"");
    text.replace(&sink, &sink.replace(from, &to.address))
}

/// Windows of `book` that are complete once its `records` have been read.
fn complete(book: &Book, records: i64) -> Results {
    let end = 1_700_000_000_000 + records;
    let complete = book.results.iter().filter(|((_, window), _)| window + 1_100 < end);
    complete.map(|(place, result)| (place.clone(), *result)).collect()
}

/// Whether each complete window is in the topic as it should be.
fn has_all(broker: &Broker, topic: &str, (book, records): (&Book, i64)) -> bool {
    let found = results_of(&broker.read(topic));
    complete(book, records).iter().all(|(place, result)| found.get(place) == Some(result))
}

#[test]
fn brokers_that_go_away_hold_results_up_and_lose_none() {
    let (from, folder) = (Broker::shared(), tempfile::tempdir().unwrap());
    let to = Broker::start_in(folder.path(), &[]);
    from.topic("away", 1);
    to.stop();
    let sink = "create = { partitions = 2, replication = 1 }\ntransaction_timeout = \"3s\"\n\
                options = { \"delivery.timeout.ms\" = 1500, \"reconnect.backoff.max.ms\" = 500 }";
    let place = Place::new(&(pipeline(&to, "away", sink) + ADMIN));
    let mut run = place.start(&[]);
    let address = run.admin();
    let mut book = Book::default();
    book.fill(1, (0, 10_000));
    from.produce("away", &book.records());
    run.hear("sink `out`: cannot reach Kafka at");
    run.until("it is shown", || health(&address).contains("\"sink `out`\":\"cannot reach Kafka"));
    to.start_again();
    run.hear("sink `out`: Kafka takes results again");
    run.until("nothing is held up", || health(&address).ends_with(WELL));
    run.until("all is out", || has_all(&to, "away-sums", (&book, 10_000)));
    // In the middle, for longer than a record may take.
    to.stop();
    let mut more = Book::default();
    more.fill(1, (10_000, 10_000));
    from.produce("away", &more.records());
    run.said.clear();
    run.hear("a transaction came to nothing");
    to.start_again();
    run.hear("sink `out`: Kafka takes results again");
    book.fill(1, (10_000, 10_000));
    run.until("all is out", || has_all(&to, "away-sums", (&book, 20_000)));
    run.stop();
}

#[test]
fn a_topic_that_is_not_there_is_waited_for() {
    let broker = Broker::shared();
    broker.topic("waits", 1);
    let mut book = Book::default();
    book.fill(1, (0, 5_000));
    broker.produce("waits", &book.records());
    let place = Place::new(&pipeline(broker, "waits", ""));
    let mut run = place.start(&[]);
    run.hear("sink `out`: topic `waits-sums` is not there; waits for it");
    broker.topic("waits-sums", 1);
    run.hear("sink `out`: Kafka takes results again");
    run.until("all is out", || has_all(broker, "waits-sums", (&book, 5_000)));
    run.stop();
}

/// The process stands still while a transaction of it is open, for longer than the brokers wait; again if
/// it was at its end.
#[test]
fn a_transaction_that_the_brokers_end_is_written_again() {
    let (from, folder) = (Broker::shared(), tempfile::tempdir().unwrap());
    let cleanup = "transaction.abort.timed.out.transaction.cleanup.interval.ms=100";
    let to = Broker::start_in(folder.path(), &[cleanup]);
    from.topic("long", 1);
    to.topic("long-sums", 2);
    // A result of every record, so that a transaction has much to write.
    let text = pipeline(&to, "long", "transaction_timeout = \"1s\"");
    let mode = "mode = \"accumulating\"";
    let place = Place::new(&text.replace(mode, &format!("{mode}\ntrigger = {{ count = 1 }}")));
    let mut run = place.start(&[]);
    let mut written = to.follow_all("long-sums");
    let mut book = Book::default();
    let mut records = 0;
    while !run.said.contains("a transaction came to nothing") {
        assert!(records < 300_000, "{}", run.said);
        let before = written.count();
        let mut more = Book::default();
        more.fill(1, (records, 5_000));
        from.produce("long", &more.records());
        book.fill(1, (records, 5_000));
        records += 5_000;
        written.wait(before);
        run.signal("-STOP");
        // The time that it has, and twice that until the brokers have looked.
        run.listen(Duration::from_millis(1_000 + 2 * 100));
        run.signal("-CONT");
        run.listen(Duration::from_millis(200));
    }
    run.until("all is out", || has_all(&to, "long-sums", (&book, records)));
    run.stop();
}

#[test]
fn who_is_shut_out_by_another_ends_and_who_is_not_goes_on() {
    let broker = Broker::shared();
    broker.topic("fenced", 1);
    broker.topic("fenced-sums", 1);
    let mut book = Book::default();
    book.fill(1, (0, 5_000));
    broker.produce("fenced", &book.records());
    let text = pipeline(broker, "fenced", "");
    let place = Place::new(&text);
    let mut run = place.start(&[]);
    run.until("all is out", || has_all(broker, "fenced-sums", (&book, 5_000)));
    let mut more = Book::default();
    more.fill(1, (5_000, 5_000));
    broker.produce("fenced", &more.records());
    book.fill(1, (5_000, 5_000));
    run.until("all is out", || has_all(broker, "fenced-sums", (&book, 10_000)));
    // Another state under the same names shuts out nobody: neither who reads nor who writes.
    let other = Place::new(&text).run(&[], 5);
    assert!(other.contains("it is not the state that wrote them"), "{other}");
    let members = broker.members("fenced-readers");
    more = Book::default();
    more.fill(1, (10_000, 1_000));
    broker.produce("fenced", &more.records());
    book.fill(1, (10_000, 1_000));
    run.until("whoever was there goes on", || has_all(broker, "fenced-sums", (&book, 11_000)));
    assert_eq!(members, 1);
    let shut_out = |claim: Option<&str>| {
        let id = ("transactional.id", "nilometer.fenced.out.nilometer");
        let producer: BaseProducer = broker.config(&[id]).create().unwrap();
        let patience = Duration::from_secs(20);
        producer.init_transactions(patience).unwrap();
        producer.begin_transaction().unwrap();
        if let Some(claim) = claim {
            let record = BaseRecord::to("nilometer.fenced.changelog").partition(0);
            producer.send(record.key("claim/out/nilometer").payload(claim)).unwrap();
        }
        producer.commit_transaction(patience).unwrap();
    };
    // Shut out, and nobody has taken its place.
    shut_out(None);
    more = Book::default();
    more.fill(1, (11_000, 4_000));
    broker.produce("fenced", &more.records());
    book.fill(1, (11_000, 4_000));
    run.until("it goes on", || has_all(broker, "fenced-sums", (&book, 15_000)));
    shut_out(Some("{\"incarnation\":1,\"number\":1}"));
    more = Book::default();
    more.fill(1, (15_000, 5_000));
    broker.produce("fenced", &more.records());
    let said = run.end(4);
    assert!(said.contains("another process writes as `nilometer.fenced.out.nilometer`"), "{said}");
}
