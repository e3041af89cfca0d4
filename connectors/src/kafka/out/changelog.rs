//! The changelog of a pipeline: a compacted topic with the stamp of what has come out, and the claim
//! of who writes, for each sink and process. Read back at the start, and where it is not clear who
//! writes.

use super::settings::{TopicPlan, TransactionSettings};
use super::stamp::{Claim, Stamp};
use crate::kafka::client::{ClientSettings, KafkaError, not_made};
use rdkafka::Message;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use std::time::{Duration, Instant};

/// All of it lies in this partition, in the order in which it was written.
pub(crate) const PARTITION: i32 = 0;

/// How the topic is made.
pub(crate) const PLAN: TopicPlan =
    TopicPlan { partitions: Some(1), replication: None, is_compacted: true };

/// How long a poll waits for a record.
const PATIENCE: Duration = Duration::from_millis(200);

/// What the changelog says of one sink of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entries {
    pub(crate) stamp: Option<Stamp>,
    pub(crate) claim: Option<Claim>,
}

/// The keys of a sink of a process.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) stamp: String,
    pub(crate) claim: String,
}

impl Keys {
    pub(crate) fn new(settings: &TransactionSettings) -> Self {
        let TransactionSettings { sink, instance, .. } = settings;
        Self {
            stamp: format!("stamp/{sink}/{instance}"),
            claim: format!("claim/{sink}/{instance}"),
        }
    }
}

impl Entries {
    fn take(&mut self, keys: &Keys, key: &[u8], value: &[u8]) {
        // What another version has written for other ends is not for this one.
        if key == keys.stamp.as_bytes() {
            self.stamp = serde_json::from_slice(value).ok().or(self.stamp);
        } else if key == keys.claim.as_bytes() {
            self.claim = serde_json::from_slice(value).ok().or(self.claim);
        }
    }
}

/// A claim that is to be seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    pub(crate) claim: Claim,
    /// Where it was put, if the brokers said so.
    pub(crate) offset: Option<i64>,
}

impl Awaited {
    /// Whether the last claim, read at `offset`, is this one, or lies behind it: then compaction may
    /// have left only that.
    fn is_answered(self, claim: Option<Claim>, offset: i64) -> bool {
        claim == Some(self.claim) || self.offset.is_some_and(|put| offset > put)
    }
}

/// A client that logs nothing: what goes wrong comes out of [`read`], and its end is nothing wrong.
struct Silent;

impl ClientContext for Silent {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, _: ClientError, _: &str) {}
}

impl ConsumerContext for Silent {}

/// What `topic` says now, if the brokers say it within `patience`; `None` if they do not, or if it is not
/// there.
///
/// # Errors
/// The client cannot be made.
pub(crate) fn glance(
    (client, topic): (&ClientSettings, &str),
    keys: &Keys,
    patience: Duration,
) -> Result<Option<Entries>, KafkaError> {
    let reader = Reader::new(client)?;
    let is_there = reader.consumer.fetch_metadata(Some(topic), patience).is_ok_and(|metadata| {
        metadata.topics().iter().any(|known| known.error().is_none() && known.name() == topic)
    });
    if !is_there {
        return Ok(None);
    }
    let until = Instant::now() + patience;
    Ok(reader.read((topic, keys), None, Some(until))?.ok())
}

/// Reads `topic`: to its end, or, where there is a claim to wait for, until that claim is seen, or one
/// behind it. Says what the brokers said if they cannot be read from now.
///
/// # Errors
/// The client cannot be made.
pub(crate) fn read(
    (client, topic): (&ClientSettings, &str),
    keys: &Keys,
    awaited: Option<Awaited>,
) -> Result<Result<Entries, RDKafkaErrorCode>, KafkaError> {
    Reader::new(client)?.read((topic, keys), awaited, None)
}

/// A client that reads what is committed.
struct Reader {
    consumer: BaseConsumer<Silent>,
}

impl Reader {
    fn new(client: &ClientSettings) -> Result<Self, KafkaError> {
        let text = |text: &str| text.to_owned();
        let own = [
            // Never joined: nothing is committed.
            ("group.id", text("nilometer-changelog")),
            ("isolation.level", text("read_committed")),
            ("enable.auto.commit", text("false")),
            ("auto.offset.reset", text("earliest")),
            ("enable.partition.eof", text("true")),
        ];
        let made = client.config(&own)?.create_with_context(Silent);
        Ok(Self { consumer: made.map_err(not_made)? })
    }

    /// See [`read`]; it gives up at `until`.
    fn read(
        &self,
        (topic, keys): (&str, &Keys),
        awaited: Option<Awaited>,
        until: Option<Instant>,
    ) -> Result<Result<Entries, RDKafkaErrorCode>, KafkaError> {
        let mut places = TopicPartitionList::new();
        places.add_partition_offset(topic, PARTITION, Offset::Beginning).map_err(not_made)?;
        self.consumer.assign(&places).map_err(not_made)?;
        let mut entries = Entries::default();
        loop {
            match self.consumer.poll(PATIENCE) {
                None => {}
                Some(Ok(record)) => {
                    let (key, value) = (record.key(), record.payload());
                    let key = key.unwrap_or_default();
                    entries.take(keys, key, value.unwrap_or_default());
                    let is_claim = key == keys.claim.as_bytes();
                    let answers =
                        |awaited: Awaited| awaited.is_answered(entries.claim, record.offset());
                    if is_claim && awaited.is_some_and(answers) {
                        return Ok(Ok(entries));
                    }
                }
                // What is awaited is there: it lies behind a transaction that is not over.
                Some(Err(ClientError::PartitionEOF(_))) if awaited.is_some() => {}
                Some(Err(ClientError::PartitionEOF(_))) => return Ok(Ok(entries)),
                // The group is a name that a client must have: whoever does not join it needs no right to it.
                Some(Err(error))
                    if error.rdkafka_error_code()
                        == Some(RDKafkaErrorCode::GroupAuthorizationFailed) => {}
                Some(Err(error)) => {
                    return Ok(Err(error
                        .rdkafka_error_code()
                        .unwrap_or(RDKafkaErrorCode::Unknown)));
                }
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Err(RDKafkaErrorCode::OperationTimedOut));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

    #[test]
    fn a_claim_is_awaited_until_it_or_one_behind_it_is_seen() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("log", 1, 1).unwrap();
        let brokers = cluster.bootstrap_servers();
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        let keys = Keys { stamp: "stamp/out/n".into(), claim: "claim/out/n".into() };
        let claim = |incarnation| Claim { incarnation, number: 1 };
        for (key, incarnation) in [
            ("claim/out/n", 1),
            ("claim/out/n", 2),
            ("claim/other/n", 9),
            // Here was one that compaction has removed.
            ("else", 9),
            ("claim/out/n", 4),
        ] {
            let value = serde_json::to_vec(&claim(incarnation)).unwrap();
            let record = BaseRecord::to("log").partition(PARTITION).key(key).payload(&value);
            producer.send(record).unwrap();
        }
        producer.flush(Duration::from_secs(20)).unwrap();
        let client = ClientSettings { brokers: brokers.into(), options: Vec::new() };
        for (incarnation, offset, seen) in [
            (1, Some(0), 1),
            (2, Some(1), 2),
            (2, None, 2),
            (3, Some(3), 4),
            (4, Some(4), 4),
            (4, None, 4),
        ] {
            let awaited = Awaited { claim: claim(incarnation), offset };
            let entries = read((&client, "log"), &keys, Some(awaited)).unwrap().unwrap();
            assert_eq!(entries.claim, Some(claim(seen)), "{awaited:?}");
        }
    }

    #[test]
    fn the_last_entries_of_a_sink_count() {
        let keys = Keys { stamp: "stamp/out/n".into(), claim: "claim/out/n".into() };
        let stamp = |number| Stamp { number, digest: u64::MAX, incarnation: 3 };
        let mut entries = Entries::default();
        for (key, value) in [
            ("stamp/out/n", serde_json::to_vec(&stamp(1)).unwrap()),
            ("stamp/other/n", serde_json::to_vec(&stamp(9)).unwrap()),
            ("stamp/out/n", serde_json::to_vec(&stamp(2)).unwrap()),
            ("claim/out/n", b"{\"incarnation\":18446744073709551615,\"number\":1}".to_vec()),
            ("chunk/7", b"whatever".to_vec()),
        ] {
            entries.take(&keys, key.as_bytes(), &value);
        }
        let claim = Some(Claim { incarnation: u64::MAX, number: 1 });
        assert_eq!(entries, Entries { stamp: Some(stamp(2)), claim });
    }
}
