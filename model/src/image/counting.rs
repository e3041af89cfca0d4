//! Which entries of a log count: pieces come newest epoch first, and what is behind a base, or behind
//! the end of an entry, is passed over. Which of several entries of one name comes first is seen by
//! whoever takes them.

use super::bytes::Input;
use super::segment::TableId;
use crate::epoch::Epoch;
use crate::key::KeyGroup;
use hashbrown::{HashMap, HashSet};

type Random = foldhash::fast::RandomState;

/// Which entry of which table.
pub(super) type EntryName = (TableId, Box<[u8]>);

/// What has been seen of later epochs.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// The epoch of the last base of a group: nothing before it counts.
    based: HashMap<(TableId, KeyGroup), Epoch, Random>,
    /// The epoch whose pieces come.
    epoch: Epoch,
    /// Entries that have gone in a later one.
    gone: HashSet<EntryName, Random>,
    /// Entries that have gone in this one: it may have them anew.
    gone_now: Vec<EntryName>,
}

impl Counting {
    /// A piece of `epoch` comes; none of a later epoch comes after it.
    pub(super) fn begin(&mut self, epoch: Epoch) {
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.gone.extend(self.gone_now.drain(..));
        }
    }

    /// Whether a segment of the epoch that comes counts.
    pub(super) fn counts(&mut self, (table, group): (TableId, KeyGroup), is_base: bool) -> bool {
        if self.based.get(&(table, group)).is_some_and(|based| self.epoch < *based) {
            return false;
        }
        if is_base {
            self.based.insert((table, group), self.epoch);
        }
        true
    }

    /// Whether an entry of a segment that counts is there, as far as later epochs have told; it is
    /// gone from here on if it holds nothing.
    pub(super) fn is_there(&mut self, table: TableId, name: Input<'_>, content: Input<'_>) -> bool {
        if content.is_empty() {
            self.gone_now.push((table, name.0.into()));
            return false;
        }
        self.gone.is_empty() || !self.gone.contains(&(table, name.0.into()))
    }
}
