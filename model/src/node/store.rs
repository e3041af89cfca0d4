//! Decides what a store does with an epoch: commit it when all parts are there, let it be published
//! when it is durable, conclude it when all sinks have published.
//!
//! Invariant EPOCH-2: no epoch is committed of which a part is missing, so one that an actor could
//! not cut is never durable; and none is told to be durable before its commit has come back.

use crate::epoch::{Epoch, Gathering};

/// How far a store has come with the epoch in flight.
#[derive(Debug)]
pub struct StoreNode {
    /// The epoch whose parts come. Rises only.
    epoch: Epoch,
    /// The first epoch whose log it builds on, as far as the parts have come.
    oldest: Epoch,
    parts: Gathering,
    /// Sinks that have published the epoch that is durable.
    published: Gathering,
    sinks: usize,
}

impl StoreNode {
    /// Behind epoch `last`; each epoch has so many parts, and is published by so many sinks.
    pub const fn new(last: Epoch, parts: usize, sinks: usize) -> Self {
        let (parts, published) = (Gathering::new(parts), Gathering::new(sinks));
        let epoch = last.next();
        Self { epoch, oldest: epoch, parts, published, sinks }
    }

    /// The epoch whose parts come.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The first epoch whose log the epoch builds on, once all parts have come.
    pub const fn oldest(&self) -> Epoch {
        self.oldest
    }

    /// A part builds on the log from this epoch on.
    pub fn needs(&mut self, oldest: Epoch) {
        self.oldest = oldest.min(self.oldest);
    }

    /// A part has been written; `true` if it was the last, and the epoch is to be committed.
    pub const fn part_came(&mut self) -> bool {
        self.parts.came()
    }

    /// The epoch has been committed: it is durable, and the next one follows. Returns its number,
    /// and whether it is concluded, since nobody publishes.
    pub const fn committed(&mut self) -> (Epoch, bool) {
        let epoch = self.epoch;
        self.epoch = epoch.next();
        self.oldest = self.epoch;
        (epoch, self.sinks == 0)
    }

    /// A sink has published; `true` if it was the last, and the epoch is concluded.
    pub const fn published(&mut self) -> bool {
        self.published.came()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::EPOCH_2;

    #[test]
    fn an_epoch_is_committed_whole_and_concluded_when_all_have_published() {
        let mut keeper = StoreNode::new(Epoch::from_number(4), 2, 2);
        for number in [5, 6] {
            assert_eq!(keeper.epoch().number(), number);
            assert!(!keeper.part_came(), "{EPOCH_2}");
            assert_eq!(keeper.oldest().number(), number, "alone");
            keeper.needs(Epoch::from_number(3));
            keeper.needs(Epoch::from_number(4));
            assert_eq!(keeper.oldest().number(), 3, "as far back as any part");
            assert!(keeper.part_came());
            assert_eq!(keeper.committed(), (Epoch::from_number(number), false));
            assert!(!keeper.published());
            assert!(keeper.published());
        }
        assert_eq!(StoreNode::new(Epoch::NONE, 1, 0).committed(), (Epoch::from_number(1), true));
    }
}
