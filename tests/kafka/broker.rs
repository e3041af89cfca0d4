//! A real broker for tests, by `tests/services/kafka`, and what a test does with one: topics, records,
//! what a group has committed.

use crate::run::PATIENCE;
use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// How long a question to the broker may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(20);

/// The level of isolation that shows what transactions have committed.
const COMMITTED: &str = "read_committed";

/// A broker that ends with this process.
pub(crate) struct Broker {
    folder: PathBuf,
    pub(crate) address: String,
    /// Whether it ends with this value.
    is_own: bool,
}

/// What became of the records of a producer.
#[derive(Default)]
struct Reports(Mutex<Report>);

#[derive(Default)]
struct Report {
    delivered: usize,
    failed: Vec<String>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut report = self.0.lock().unwrap();
        match result {
            Ok(_) => report.delivered += 1,
            Err((error, _)) => report.failed.push(error.to_string()),
        }
    }
}

static SHARED: LazyLock<Broker> = LazyLock::new(|| {
    // It outlives every test, and is killed by its keeper.
    Broker::start_in(tempfile::tempdir().unwrap().keep(), &[])
});

/// One record to produce: partition, timestamp, key, value.
pub(crate) type Given<'a> = (i32, i64, Option<&'a [u8]>, Option<&'a [u8]>);

/// A reader that goes on where it was.
pub(crate) struct Follower {
    consumer: BaseConsumer,
    taken: Vec<Taken>,
}

impl Follower {
    /// What has been seen so far: all that the broker has been asked for, and perhaps not all there is.
    pub(crate) fn taken(&mut self) -> &[Taken] {
        // An end, or a broker that is away, is nothing to be taken.
        while let Some(found) = self.consumer.poll(Duration::from_millis(10)) {
            self.taken.extend(found.ok().map(|message| Taken::of(&message)));
        }
        &self.taken
    }

    pub(crate) fn count(&mut self) -> usize {
        self.taken().len()
    }

    /// Waits until more than `before` have been seen.
    pub(crate) fn wait(&mut self, before: usize) {
        let since = Instant::now();
        while self.taken.len() <= before {
            assert!(since.elapsed() < PATIENCE, "there are never more than {before}");
            let found = self.consumer.poll(Duration::from_millis(50)).and_then(Result::ok);
            self.taken.extend(found.map(|message| Taken::of(&message)));
        }
    }
}

/// A record of a topic.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) partition: i32,
    pub(crate) key: String,
    /// `None` is a tombstone.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Taken {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let text =
            |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().into()).unwrap();
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        let headers = headers.map(|header| (header.key.to_owned(), text(header.value)));
        Self {
            partition: message.partition(),
            key: text(message.key()),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.collect(),
        }
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(self.value.as_deref().unwrap()).unwrap()
    }

    /// What tells it from every other result.
    pub(crate) fn identity(&self) -> String {
        let header = |name: &str| &self.headers[&format!("nilometer.{name}")];
        format!("{} {} {}", self.key, header("index"), header("kind"))
    }
}

impl Broker {
    /// The one that tests share which leave it as it is.
    pub(crate) fn shared() -> &'static Self {
        &SHARED
    }

    /// One of its own, with its data in `folder`.
    pub(crate) fn start_in(folder: impl AsRef<Path>, options: &[&str]) -> Self {
        let folder = folder.as_ref().to_owned();
        let address = script(&["start", folder.to_str().unwrap()], options);
        Self { folder, address: address.trim().to_owned(), is_own: true }
    }

    /// The same for who is inside, and may do everything: a listener that asks nobody who they are.
    pub(crate) fn inside(&self) -> Self {
        let settings = std::fs::read_to_string(self.path("server.properties")).unwrap();
        let address = settings.split("INSIDE://").nth(1).unwrap().split(',').next().unwrap();
        Self { folder: self.folder.clone(), address: address.to_owned(), is_own: false }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Goes on after [`Self::stop`], where it was.
    pub(crate) fn start_again(&self) {
        script(&["start", self.folder.to_str().unwrap()], &[]);
    }

    pub(crate) fn stop(&self) {
        script(&["stop", self.folder.to_str().unwrap(), "--kill"], &[]);
    }

    /// A client's configuration, with options such as credentials.
    pub(crate) fn config(&self, options: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address);
        for (name, value) in options {
            config.set(*name, *value);
        }
        config
    }

    pub(crate) fn admin(&self, options: &[(&str, &str)]) -> AdminClient<DefaultClientContext> {
        self.config(options).create().unwrap()
    }

    /// Makes a topic whose records are never deleted, however old.
    pub(crate) fn topic(&self, name: &str, partitions: i32) {
        self.topic_as(name, partitions, &[]);
    }

    pub(crate) fn topic_as(&self, name: &str, partitions: i32, options: &[(&str, &str)]) {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1))
            .set("retention.ms", "-1")
            .set("message.timestamp.before.max.ms", "9223372036854775807")
            .set("message.timestamp.after.max.ms", "9223372036854775807")
            .set("max.message.bytes", "16000000");
        let admin = self.admin(options);
        let made = now(admin.create_topics([&topic], &AdminOptions::new())).unwrap();
        made.into_iter().for_each(|topic| drop(topic.unwrap()));
        // What the controller has made, the broker knows of a moment later; whoever asked before that
        // would read of no partition, for ever.
        let (client, since) = (admin.inner(), Instant::now());
        let known =
            || client.fetch_metadata(Some(name), ANSWER).unwrap().topics()[0].partitions().len();
        while i32::try_from(known()).unwrap() < partitions {
            assert!(since.elapsed() < ANSWER, "{name} does not appear");
        }
    }

    /// The names of all topics.
    pub(crate) fn topics(&self) -> Vec<String> {
        let consumer: BaseConsumer = self.config(&[]).create().unwrap();
        let metadata = consumer.fetch_metadata(None, ANSWER).unwrap();
        metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
    }

    /// How many partitions a topic has.
    pub(crate) fn partitions(&self, topic: &str) -> usize {
        let consumer: BaseConsumer = self.config(&[]).create().unwrap();
        let metadata = consumer.fetch_metadata(Some(topic), ANSWER).unwrap();
        metadata.topics()[0].partitions().len()
    }

    /// A setting of a topic, as the broker has it.
    pub(crate) fn setting(&self, topic: &str, name: &str) -> String {
        let asked = [ResourceSpecifier::Topic(topic)];
        let told = now(self.admin(&[]).describe_configs(&asked, &AdminOptions::new())).unwrap();
        let told = told.into_iter().next().unwrap().unwrap();
        told.get(name).and_then(|entry| entry.value.clone()).unwrap()
    }

    /// The codecs that the batches of partition 0 and on are compressed with, as they lie on the disk of
    /// the broker: each batch begins with its first offset (8 bytes) and its length behind it (4), and
    /// the last three bits of its attributes, 21 bytes in, are the codec.
    pub(crate) fn codecs(&self, topic: &str) -> Vec<u8> {
        let mut codecs = Vec::new();
        for partition in 0..self.partitions(topic) {
            let log = format!("data/{topic}-{partition}/00000000000000000000.log");
            let bytes = std::fs::read(self.path(&log)).unwrap();
            let mut rest = &bytes[..];
            while rest.len() > 22 {
                let length = u32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize;
                // Marks of transactions are never compressed.
                if rest[22] & 0x20 == 0 {
                    codecs.push(rest[22] & 7);
                }
                rest = rest.get(12 + length..).unwrap_or_default();
            }
        }
        assert!(!codecs.is_empty());
        codecs
    }

    /// Commits an offset of partition 0 for a group that nobody is in, with a note beside it.
    pub(crate) fn commit(&self, (group, topic): (&str, &str), offset: i64, note: &str) {
        let options = [("group.id", group), ("enable.auto.commit", "false")];
        let consumer: BaseConsumer = self.config(&options).create().unwrap();
        let mut list = TopicPartitionList::new();
        let mut place = list.add_partition(topic, 0);
        place.set_offset(Offset::Offset(offset)).unwrap();
        place.set_metadata(note);
        consumer.commit(&list, CommitMode::Sync).unwrap();
    }

    /// Takes all members out of a group: those with a name stay in it when they end.
    pub(crate) fn leave(&self, group: &str) {
        let since = Instant::now();
        while self.members(group) > 0 {
            assert!(since.elapsed() < PATIENCE, "{group} is never empty");
        }
    }

    pub(crate) fn delete(&self, topic: &str) {
        now(self.admin(&[]).delete_topics(&[topic], &AdminOptions::new())).unwrap();
    }

    /// Raises the number of partitions.
    pub(crate) fn grow(&self, topic: &str, partitions: usize) {
        let wanted = NewPartitions::new(topic, partitions);
        let admin = self.admin(&[]);
        now(admin.create_partitions([&wanted], &AdminOptions::new())).unwrap();
    }

    /// Deletes the records of a partition before `offset`, as retention does.
    pub(crate) fn forget(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        let admin = self.admin(&[]);
        now(admin.delete_records(&list, &AdminOptions::new())).unwrap();
    }

    pub(crate) fn produce(&self, topic: &str, records: &[Given<'_>]) {
        self.produce_as(topic, records, &[]);
    }

    pub(crate) fn produce_as(&self, topic: &str, records: &[Given<'_>], options: &[(&str, &str)]) {
        let mut config = self.config(options);
        config.set("enable.idempotence", "true").set("message.max.bytes", "16000000");
        let producer: BaseProducer<Reports> =
            config.create_with_context(Reports::default()).unwrap();
        for (partition, timestamp, key, value) in records {
            let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(*partition);
            record = record.timestamp(*timestamp);
            record.key = *key;
            record.payload = *value;
            while let Err((error, back)) = producer.send(record) {
                let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                assert!(is_full, "{topic}: {error}");
                producer.poll(Duration::from_millis(20));
                record = back;
            }
        }
        producer.flush(ANSWER).unwrap();
        let reports = producer.context().0.lock().unwrap();
        assert_eq!(reports.failed, Vec::<String>::new(), "{topic}");
        assert_eq!(reports.delivered, records.len(), "{topic}");
    }

    /// The offset behind the last record of a partition.
    pub(crate) fn end(&self, topic: &str, partition: i32) -> i64 {
        let consumer: BaseConsumer = self.config(&[("group.id", "test")]).create().unwrap();
        consumer.fetch_watermarks(topic, partition, ANSWER).unwrap().1
    }

    /// Whether a topic is there, and has records.
    pub(crate) fn has(&self, topic: &str) -> bool {
        let consumer: BaseConsumer = self.config(&[("group.id", "test")]).create().unwrap();
        consumer.fetch_watermarks(topic, 0, ANSWER).is_ok_and(|(low, high)| high > low)
    }

    /// A reader of a whole topic, and of how many partitions; at this level of isolation.
    fn reader(&self, topic: &str, level: &str) -> (BaseConsumer, usize) {
        let options = [
            ("group.id", "test"),
            ("isolation.level", level),
            ("reconnect.backoff.max.ms", "500"),
            ("auto.offset.reset", "earliest"),
            ("enable.partition.eof", "true"),
        ];
        let consumer: BaseConsumer = self.config(&options).create().unwrap();
        let metadata = consumer.fetch_metadata(Some(topic), ANSWER).unwrap();
        let mut places = TopicPartitionList::new();
        let partitions = metadata.topics()[0].partitions();
        for partition in partitions {
            places.add_partition_offset(topic, partition.id(), Offset::Beginning).unwrap();
        }
        consumer.assign(&places).unwrap();
        (consumer, partitions.len())
    }

    /// What is committed in a topic, from its beginning on.
    pub(crate) fn follow(&self, topic: &str) -> Follower {
        Follower { consumer: self.reader(topic, COMMITTED).0, taken: Vec::new() }
    }

    /// What comes to a topic, also in transactions that are open or came to nothing.
    pub(crate) fn follow_all(&self, topic: &str) -> Follower {
        Follower { consumer: self.reader(topic, "read_uncommitted").0, taken: Vec::new() }
    }

    /// All records of a topic that a reader of committed records sees, partition by partition.
    pub(crate) fn read(&self, topic: &str) -> Vec<Taken> {
        let (consumer, mut open) = self.reader(topic, COMMITTED);
        let mut taken = Vec::new();
        while open > 0 {
            match consumer.poll(ANSWER).unwrap() {
                Ok(message) => taken.push(Taken::of(&message)),
                Err(KafkaError::PartitionEOF(_)) => open -= 1,
                Err(error) => panic!("{topic}: {error}"),
            }
        }
        taken
    }

    /// What `group` has committed, by partition.
    pub(crate) fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<Option<i64>> {
        self.committed_as(group, topic, partitions).into_iter().map(|(offset, _)| offset).collect()
    }

    /// The same, with what was noted beside it.
    pub(crate) fn committed_as(
        &self,
        group: &str,
        topic: &str,
        partitions: i32,
    ) -> Vec<(Option<i64>, String)> {
        let consumer: BaseConsumer = self.config(&[("group.id", group)]).create().unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition(topic, partition);
        }
        let committed = consumer.committed_offsets(list, ANSWER).unwrap();
        let offset = |partition| {
            let place = committed.find_partition(topic, partition).unwrap();
            let offset = match place.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            (offset, place.metadata().to_owned())
        };
        (0..partitions).map(offset).collect()
    }

    /// How many members a group has.
    pub(crate) fn members(&self, group: &str) -> usize {
        let consumer: BaseConsumer = self.config(&[]).create().unwrap();
        let groups = consumer.fetch_group_list(Some(group), ANSWER).unwrap();
        groups.groups().iter().map(|group| group.members().len()).sum()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.is_own {
            self.stop();
        }
    }
}

/// Runs the script of the service; what it prints.
fn script(args: &[&str], options: &[&str]) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/kafka");
    let mut command = Command::new(here);
    command.args(args).args(options).stdin(Stdio::null());
    if args.first() == Some(&"start") {
        command.args(["--while", &std::process::id().to_string()]);
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn now<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
