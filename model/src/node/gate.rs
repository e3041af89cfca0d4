//! The gate of a shard: lets through what belongs to the epoch that is being cut, and holds what lies
//! behind its barriers until the shard has been cut.
//!
//! Around [`Barriers`], which decides. Invariant: what is held goes on in the order in which it
//! came, and nothing is held once the shard has been cut.

use crate::epoch::{Barriers, Epoch, Origin, Step};

/// The gate in front of a shard. `M` is a message.
#[derive(Debug)]
pub struct Gate<M> {
    barriers: Barriers,
    /// What lies behind a barrier, in the order in which it came. Empty unless a cut is under way.
    held: Vec<M>,
}

impl<M> Gate<M> {
    /// Behind the epoch that `barriers` know of.
    pub const fn new(barriers: Barriers) -> Self {
        Self { barriers, held: Vec::new() }
    }

    /// The epoch that is cut next.
    pub const fn epoch(&self) -> Epoch {
        self.barriers.last_cut().next()
    }

    /// The message, unless it waits for the cut.
    pub fn admit<N: Into<M>>(&mut self, origin: Origin, message: N) -> Option<N> {
        if self.barriers.holds(origin) {
            self.held.push(message.into());
            return None;
        }
        Some(message)
    }

    /// The barrier of a source has come.
    pub fn came(&mut self, source: u32) -> Step {
        self.barriers.came(source)
    }

    /// A shard has told of a round of the barriers.
    pub fn told(&mut self, shard: usize, round: usize) -> Step {
        self.barriers.told(shard, round)
    }

    /// The shard has been cut: what was held goes on, in this order, and comes to the gate again.
    #[must_use]
    pub fn open(&mut self) -> Vec<M> {
        self.barriers.release();
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Epoch;
    use crate::invariant::POS_1;

    #[test]
    fn what_lies_behind_a_barrier_goes_on_in_its_order() {
        let mut gate: Gate<&str> = Gate::new(Barriers::new(Epoch::NONE, 2, 1, 0));
        assert_eq!(gate.admit(Origin::Source(0), "a"), Some("a"));
        assert_eq!(gate.came(0), Step::Wait);
        assert_eq!(gate.admit(Origin::Source(0), "b"), None, "{POS_1}");
        assert_eq!(gate.admit(Origin::Source(1), "c"), Some("c"), "{POS_1}");
        assert_eq!(gate.admit(Origin::Mark(Epoch::from_number(1)), "d"), None, "{POS_1}");
        assert_eq!(gate.came(1), Step::Cut);
        assert_eq!(gate.open(), ["b", "d"]);
        assert_eq!(gate.admit(Origin::Source(0), "b"), Some("b"));
        assert_eq!(gate.open(), [""; 0]);
    }
}
