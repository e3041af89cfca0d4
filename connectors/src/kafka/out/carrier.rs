//! What a source of Kafka hands to a sink that writes in transactions: the offsets behind what was
//! read for an epoch, and the standing of its reader in the group.
//!
//! Invariant: the offsets are those of the last cut of the source. The epoch of that cut is the only
//! one under way, so they are those of the epoch that the sink lets out.

use rdkafka::consumer::ConsumerGroupMetadata;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Topic, number in it, and the offset to go on at.
pub(crate) type Offsets = Vec<(Arc<str>, i32, i64)>;

/// Offsets on their way from a source to a sink.
#[derive(Default)]
pub struct Carrier {
    carried: Mutex<Carried>,
    /// Whether the group is to be asked anew how the reader stands in it.
    wants_group: AtomicBool,
}

#[derive(Default)]
struct Carried {
    offsets: Offsets,
    group: Option<Arc<ConsumerGroupMetadata>>,
}

impl Carrier {
    fn lock(&self) -> MutexGuard<'_, Carried> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source has been cut behind `offsets`.
    pub(crate) fn cut(&self, offsets: Offsets) {
        self.lock().offsets = offsets;
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

    /// The offsets of the last cut, and how the reader stands, if that is known.
    pub(crate) fn take_up(&self) -> (Offsets, Option<Arc<ConsumerGroupMetadata>>) {
        let carried = self.lock();
        (carried.offsets.clone(), carried.group.clone())
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("offsets", &self.lock().offsets).finish_non_exhaustive()
    }
}
