//! What a source of Kafka hands to a sink that writes in transactions: the offsets behind what was
//! read for an epoch, and the standing of its reader in the group.
//!
//! Invariant: the offsets are those of the last cut of the source. The epoch of that cut is the only
//! one under way, so they are those of the epoch that the sink lets out.

use super::producer::{ANSWER, code_of};
use super::stamp::Stamp;
use crate::kafka::client::{ClientSettings, KafkaError, not_made};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Topic, number in it, and the offset to go on at.
pub(crate) type Offsets = Vec<(Arc<str>, i32, i64)>;

/// Offsets on their way from a source to a sink.
pub struct Carrier {
    /// The group of the source.
    pub(crate) group: Box<str>,
    carried: Mutex<Carried>,
    /// Whether the group is to be asked anew how the reader stands in it.
    wants_group: AtomicBool,
}

/// What a sink takes up of a source.
#[derive(Default, Clone)]
pub(crate) struct Carried {
    /// Those of the last cut.
    pub(crate) offsets: Offsets,
    /// The node that has the state behind them.
    pub(crate) instance: Arc<str>,
    /// How the reader stands in its group, if that is known.
    pub(crate) group: Option<Arc<ConsumerGroupMetadata>>,
}

impl Carrier {
    /// For a source that reads as `group`.
    pub fn new(group: &str) -> Self {
        Self { group: group.into(), carried: Mutex::default(), wants_group: AtomicBool::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Carried> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source of `instance` has been cut behind `offsets`.
    pub(crate) fn cut(&self, offsets: Offsets, instance: &Arc<str>) {
        let mut carried = self.lock();
        carried.offsets = offsets;
        carried.instance = instance.clone();
    }

    /// The reader stands so in its group.
    pub(crate) fn stands(&self, group: ConsumerGroupMetadata) {
        self.wants_group.store(false, Ordering::Relaxed);
        self.lock().group = Some(Arc::new(group));
    }

    /// What was said of the group no longer holds.
    pub(crate) fn ask(&self) {
        self.wants_group.store(true, Ordering::Relaxed);
    }

    /// Whether the group is to be asked.
    pub(crate) fn is_asked(&self) -> bool {
        self.wants_group.load(Ordering::Relaxed)
    }

    /// What goes with the epoch.
    pub(crate) fn take_up(&self) -> Carried {
        self.lock().clone()
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("offsets", &self.lock().offsets).finish_non_exhaustive()
    }
}

/// Offsets as a client commits them, with a note beside each.
pub(crate) fn list(offsets: &Offsets, metadata: &str) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for (topic, partition, next) in offsets {
        let mut place = list.add_partition(topic, *partition);
        // An offset is never below 0.
        place.set_offset(Offset::Offset(*next)).ok();
        place.set_metadata(metadata);
    }
    list
}

/// The last stamp of what writes as `id` that stands beside the offsets of a source, if there is one; what the brokers
/// said if they cannot be asked now.
///
/// # Errors
/// The client cannot be made.
pub(crate) fn noted(
    client: &ClientSettings,
    carrier: &Carrier,
    id: &str,
) -> Result<Result<Option<Stamp>, RDKafkaErrorCode>, KafkaError> {
    let Carried { offsets, instance, .. } = carrier.take_up();
    if offsets.is_empty() {
        return Ok(Ok(None));
    }
    let own = [("group.id", carrier.group.to_string())];
    let consumer: BaseConsumer = client.config(&own)?.create().map_err(not_made)?;
    let answered = match consumer.committed_offsets(list(&offsets, ""), ANSWER) {
        Ok(answered) => answered,
        Err(error) => return Ok(Err(code_of(&error))),
    };
    let notes = answered.elements();
    let stamps = notes.iter().filter_map(|place| {
        let (owner, text) = place.metadata().rsplit_once('/')?;
        (owner == &*instance).then(|| Stamp::of_text(text, id))?
    });
    Ok(Ok(stamps.max_by_key(|stamp| stamp.number)))
}
