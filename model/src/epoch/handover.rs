//! Decides what a key group of a stage hands over at a cut: what has changed, or all that it holds.
//!
//! Changes alone would pile up, and a restart would have to read all of them. So a group hands over
//! all, its *base*, once its changes since the last base are as many as its entries, which at most
//! doubles what is written and what is kept; and each group has its turn every [`TURNS`] epochs, so
//! that nothing older than that is ever needed.

use super::Epoch;
use crate::key::KeyGroup;

/// From one turn of a group to its next, in epochs.
pub const TURNS: u64 = 256;

/// What a group hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover {
    /// Nothing: it is as it was.
    Nothing,
    /// The entries that have changed, or are gone.
    Changes,
    /// All entries.
    Base,
}

/// What is known of a group at a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupFacts {
    /// Entries that it has.
    pub live: u32,
    /// Entries that have changed since the last cut, those that are gone included.
    pub changed: u32,
    /// Entries that it has handed over as changes since its last base.
    pub since_base: u32,
    /// The epoch of its last base; `None` before the first.
    pub base: Option<Epoch>,
}

/// Whether it is the turn of `group` in `epoch` to hand over all.
pub(crate) fn is_turn(epoch: Epoch, group: KeyGroup) -> bool {
    epoch.number() % TURNS == u64::from(group.0) % TURNS
}

/// What `group` hands over at the cut of `epoch`.
pub fn handover(epoch: Epoch, group: KeyGroup, facts: GroupFacts) -> Handover {
    let GroupFacts { live, changed, since_base, base } = facts;
    let is_its_turn = is_turn(epoch, group);
    let has_outgrown = changed > 0 && since_base.saturating_add(changed) >= live;
    if base.is_none() || is_its_turn || has_outgrown {
        Handover::Base
    } else if changed > 0 {
        Handover::Changes
    } else {
        Handover::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_until_they_are_as_many_as_there_are_entries_or_it_is_its_turn() {
        use Handover::{Base, Changes, Nothing};
        let based = Some(Epoch::from_number(1));
        for (live, changed, since_base, base, epoch, handed_over) in [
            (100, 0, 0, None, 5, Base),
            (100, 0, 0, based, 5, Nothing),
            (100, 0, 99, based, 5, Nothing),
            (100, 1, 98, based, 5, Changes),
            (100, 1, 99, based, 5, Base),
            (100, 100, 0, based, 5, Base),
            (0, 3, 0, based, 5, Base),
            (0, 0, 0, based, 5, Nothing),
            (100, 0, 0, based, 7, Base),
            (0, 0, 0, based, 7 + TURNS, Base),
            (u32::MAX, u32::MAX, u32::MAX, based, 5, Base),
        ] {
            let facts = GroupFacts { live, changed, since_base, base };
            let found = handover(Epoch::from_number(epoch), KeyGroup(7), facts);
            assert_eq!(found, handed_over, "{facts:?} at {epoch}");
        }
        // Of more groups than turns several have theirs in one epoch, and each has one.
        let is_turn = |epoch: u64, group: u16| {
            let facts = GroupFacts { base: based, ..GroupFacts::default() };
            handover(Epoch::from_number(epoch), KeyGroup(group), facts) == Base
        };
        for group in [0, 255, 256, 40_000] {
            let turns = (1_000..1_000 + TURNS).filter(|epoch| is_turn(*epoch, group));
            assert_eq!(turns.count(), 1, "group {group}");
        }
    }
}
