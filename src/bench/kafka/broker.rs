//! A topic of the benchmark: made, filled, and counted by the client library alone.

use crate::bench::BenchError;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the brokers may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A topic that goes with the value.
pub(super) struct Topic {
    name: String,
    brokers: String,
    partitions: i32,
    admin: AdminClient<DefaultClientContext>,
}

/// Counts what the brokers have taken.
#[derive(Default)]
struct Reports {
    delivered: AtomicU64,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        self.delivered.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
    }
}

impl Topic {
    /// Makes it; records are kept however old their times are.
    pub(super) fn make(brokers: &str, name: &str, partitions: i32) -> Result<Self, BenchError> {
        let admin: AdminClient<_> = config(brokers).create().map_err(fault)?;
        let topic = Self { name: name.to_owned(), brokers: brokers.to_owned(), partitions, admin };
        let new =
            NewTopic::new(name, partitions, TopicReplication::Fixed(-1)).set("retention.ms", "-1");
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        for made in now(topic.admin.create_topics([&new], &options))?.map_err(fault)? {
            made.map_err(|(name, code)| BenchError::Kafka(format!("topic `{name}`: {code}")))?;
        }
        Ok(topic)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Puts `values` into the partitions in turn; how many bytes they are.
    pub(super) fn fill(&self, values: impl Iterator<Item = Vec<u8>>) -> Result<u64, BenchError> {
        let mut config = config(&self.brokers);
        config.set("enable.idempotence", "true").set("linger.ms", "50");
        config.set("batch.size", "1000000");
        let producer: BaseProducer<Reports> =
            config.create_with_context(Reports::default()).map_err(fault)?;
        let (mut bytes, mut count) = (0, 0);
        for (partition, value) in (0..self.partitions).cycle().zip(values) {
            let mut record = BaseRecord::<(), [u8]>::to(&self.name).partition(partition);
            record = record.payload(&value);
            while let Err((error, back)) = producer.send(record) {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    return Err(fault(error));
                }
                producer.poll(Duration::from_millis(10));
                record = back;
            }
            count += 1;
            bytes += value.len() as u64;
        }
        producer.flush(PATIENCE).map_err(fault)?;
        let delivered = producer.context().delivered.load(Ordering::Relaxed);
        if delivered == count {
            return Ok(bytes);
        }
        Err(BenchError::Kafka(format!("the brokers took {delivered} records of {count}")))
    }

    /// Reads `records` records and does nothing with them: what no reader can be faster than. How many
    /// bytes their values are.
    pub(super) fn count(&self, records: u64) -> Result<u64, BenchError> {
        let mut config = config(&self.brokers);
        config.set("group.id", &self.name).set("enable.auto.commit", "false");
        let consumer: BaseConsumer = config.create().map_err(fault)?;
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions {
            list.add_partition_offset(&self.name, partition, Offset::Beginning).map_err(fault)?;
        }
        consumer.assign(&list).map_err(fault)?;
        let (mut count, mut bytes) = (0, 0);
        while count < records {
            match consumer.poll(PATIENCE) {
                Some(Ok(message)) => {
                    count += 1;
                    bytes += message.payload_len() as u64;
                }
                Some(Err(error)) => return Err(fault(error)),
                None => {
                    return Err(BenchError::Kafka(format!("{count} records came of {records}")));
                }
            }
        }
        Ok(bytes)
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        // What cannot be deleted stays; its name says whose it is.
        now(self.admin.delete_topics(&[&self.name], &options)).ok();
    }
}

fn config(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("client.id", "nilometer-bench");
    config
}

fn fault(error: KafkaError) -> BenchError {
    BenchError::Kafka(error.to_string())
}

fn now<F: Future>(future: F) -> Result<F::Output, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| BenchError::Kafka(error.to_string()))?;
    Ok(runtime.block_on(future))
}
