//! What the client's callbacks hear: they only note it, and the loop of the poller acts on it, since
//! a callback that waits would keep the client from answering the brokers.

use super::client::without_secrets;
use super::statistics::Statistics;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the callbacks of the client have heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Partitions that were given to this reader, or taken away; in order.
    pub(crate) changes: Vec<Change>,
    pub(crate) statistics: Option<Statistics>,
    /// What was said with the last error.
    pub(crate) reason: String,
}

/// A change of what this reader is to read: topics, and numbers in them.
#[derive(Debug)]
pub(crate) enum Change {
    /// Partitions were given to it.
    Given(Vec<(Arc<str>, i32)>),
    /// Partitions were taken away.
    Taken(Vec<(Arc<str>, i32)>),
}

/// Listens to the client.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    heard: Mutex<Heard>,
    /// Commits that were not answered.
    pub(crate) commits: AtomicUsize,
    /// Whether nobody acts on changes any more.
    pub(crate) is_closing: AtomicBool,
}

impl Ears {
    /// What was heard, for as long as it takes to look.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Ears {
    /// Whatever matters comes as an error, too.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn stats_raw(&self, statistics: &[u8]) {
        if let Some(statistics) = Statistics::of_json(statistics) {
            self.lock().statistics = Some(statistics);
        }
    }

    fn error(&self, _: KafkaError, reason: &str) {
        self.lock().reason = without_secrets(reason);
    }
}

impl ConsumerContext for Ears {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        code: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let names = names(list);
        if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.lock().changes.push(Change::Given(names));
        } else if self.is_closing.load(Ordering::Relaxed) {
            // Nobody is there any more to act on it.
            let unassigned = match consumer.rebalance_protocol() {
                RebalanceProtocol::Eager => consumer.unassign(),
                RebalanceProtocol::None | RebalanceProtocol::Cooperative => {
                    consumer.incremental_unassign(list)
                }
            };
            unassigned.ok();
        } else {
            self.lock().changes.push(Change::Taken(names));
        }
    }

    fn commit_callback(&self, _: KafkaResult<()>, _: &TopicPartitionList) {
        self.commits.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Topics, and numbers in them.
pub(crate) fn names(list: &TopicPartitionList) -> Vec<(Arc<str>, i32)> {
    let elements = list.elements();
    elements.iter().map(|element| (element.topic().into(), element.partition())).collect()
}
