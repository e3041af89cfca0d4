//! Epochs: consistent cuts through a running node, decided without a clock or a store.
//!
//! An epoch is cut by barriers that flow with the records: what lies before them belongs to it.
//! [`Schedule`] says when one begins, [`Barriers`] where a shard is cut, [`SinkBarriers`] where a
//! sink is, [`handover`] what each key group then hands over, [`Gathering`] when all parts are there. A stored epoch holds the positions of all
//! sources, the state of all shards behind exactly the records before those positions (POS-1), and
//! the panes that came of them; it counts as a whole or not at all (EPOCH-2). [`Aborts`] says whether a
//! node may start that has failed behind one again and again.

mod abort;
mod barriers;
mod handover;
mod schedule;

pub use abort::{Abort, Aborts, BatchPlace, OffsetRange, Stored, Verdict, Wish};
pub use barriers::{Barriers, Gathering, Origin, SinkBarriers, Step};
pub(crate) use handover::is_turn;
pub use handover::{GroupFacts, Handover, TURNS, handover};
pub use schedule::{Next, Schedule};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of an epoch: the first is 1, and 0 is the time before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Epoch(u64);

impl Epoch {
    /// Before the first epoch: nothing has been stored.
    pub const NONE: Self = Self(0);

    /// Epoch `number`.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The epoch after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// How much an epoch may hold, and how much may wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of records that a source hands on between two barriers, exceeded by one batch; then it
    /// demands the next epoch, and waits for it to begin. At least 1.
    pub epoch_bytes_max: usize,
    /// Bytes of output of a sink that wait to be published. Beyond it nothing more is taken while an
    /// epoch is being stored or published, and the next one begins as soon as it can.
    pub unpublished_bytes_max: usize,
    /// Bytes of a block of an outbox, at least; it goes to the store then.
    pub block_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            epoch_bytes_max: 256 << 20,
            unpublished_bytes_max: 256 << 20,
            block_bytes: 256 << 10,
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
