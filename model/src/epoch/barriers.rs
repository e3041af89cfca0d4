//! Decides what a shard, a sink and the store make of the barriers of an epoch: facts in, decision
//! out.
//!
//! A shard takes in whatever lies before the barriers and holds what lies behind them: records of a
//! source whose barrier has come, watermarks given out after the epoch began, and, while it waits
//! for the other shards, the clock. Once the barriers of all sources are there, the shards tell
//! each other, one round per level of exchange, as they do to close: whoever has heard of round n
//! from all shards has handled all that the barrier covers on n levels. Behind the last round the
//! shard is cut, and what was held goes on in its order.
//!
//! Invariant POS-1: the state that is cut has taken exactly the records that lie before the
//! barriers.

use super::Epoch;

/// Where a message to a shard comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Records of this source.
    Source(u32),
    /// A mark of the coordinator, which began this epoch before it.
    Mark(Epoch),
    /// The clock.
    Clock,
    /// An exchange with this shard.
    Shard(usize),
}

/// What a shard does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It waits.
    Wait,
    /// It tells every shard, itself included, about this round.
    Tell {
        /// Number of the round, from 1.
        round: usize,
    },
    /// It is cut here.
    Cut,
}

/// The barriers of one epoch at one shard.
#[derive(Debug, Clone)]
pub struct Barriers {
    /// The epoch that was cut last. Rises only.
    cut: Epoch,
    /// By source: whether its barrier has come. Cleared by the cut.
    came: Vec<bool>,
    /// By shard: the last round that it told of. Cleared by the cut.
    told: Vec<usize>,
    /// Levels of exchange.
    rounds: usize,
}

impl Barriers {
    /// For a shard, one of `shards`, of a plan with `exchanges` exchanged stages, behind epoch
    /// `cut`.
    pub fn new(cut: Epoch, sources: usize, shards: usize, exchanges: usize) -> Self {
        let rounds = if shards > 1 { exchanges } else { 0 };
        Self { cut, came: vec![false; sources], told: vec![0; shards], rounds }
    }

    /// The epoch that was cut last.
    pub const fn last_cut(&self) -> Epoch {
        self.cut
    }

    /// Whether a message is held until the shard is cut.
    pub fn holds(&self, origin: Origin) -> bool {
        match origin {
            Origin::Source(source) => self.came.get(source as usize).copied().unwrap_or(false),
            Origin::Mark(epoch) => epoch > self.cut,
            Origin::Clock => self.have_all_come(),
            // Behind its last round it has been cut, or will be before it handles anything.
            Origin::Shard(shard) => {
                self.rounds > 0 && self.told.get(shard).is_some_and(|round| *round >= self.rounds)
            }
        }
    }

    /// The barrier of a source has come.
    pub fn came(&mut self, source: u32) -> Step {
        let Some(came) = self.came.get_mut(source as usize) else { return Step::Wait };
        if std::mem::replace(came, true) || !self.have_all_come() {
            Step::Wait
        } else if self.rounds == 0 {
            Step::Cut
        } else {
            Step::Tell { round: 1 }
        }
    }

    /// A shard has told of a round.
    pub fn told(&mut self, shard: usize, round: usize) -> Step {
        if let Some(known) = self.told.get_mut(shard) {
            *known = round.max(*known);
        }
        // A shard tells of a round only once it has heard of the one before from all, so nobody
        // can be two rounds ahead, and the round is complete when the slowest has told of it.
        let slowest = self.told.iter().min().copied().unwrap_or(0);
        if slowest < round {
            Step::Wait
        } else if round < self.rounds {
            Step::Tell { round: round + 1 }
        } else {
            Step::Cut
        }
    }

    /// The shard has been cut: nothing is held any more.
    pub fn release(&mut self) {
        self.cut = self.cut.next();
        self.came.fill(false);
        self.told.fill(0);
    }

    fn have_all_come(&self) -> bool {
        self.came.iter().all(|came| *came)
    }
}

/// The barriers of one epoch at one sink.
#[derive(Debug)]
pub struct SinkBarriers {
    /// By shard: whether its barrier has come. Cleared when all have.
    came: Vec<bool>,
}

impl SinkBarriers {
    /// For the panes of so many shards.
    pub fn new(shards: usize) -> Self {
        Self { came: vec![false; shards] }
    }

    /// Whether what a shard sends belongs to the next epoch, and is held.
    pub fn holds(&self, shard: usize) -> bool {
        self.came.get(shard).copied().unwrap_or(false)
    }

    /// The barrier of a shard has come; `true` if the sink is cut here. Nothing is held any more
    /// then.
    pub fn came(&mut self, shard: usize) -> bool {
        if let Some(came) = self.came.get_mut(shard) {
            *came = true;
        }
        let have_all = self.came.iter().all(|came| *came);
        if have_all {
            self.came.fill(false);
        }
        have_all
    }
}

/// The parts of an epoch as they come to the store. Invariant EPOCH-2: an epoch counts once all of
/// its parts have come, and not before.
#[derive(Debug)]
pub struct Gathering {
    parts: usize,
    /// Parts that have come. Cleared when all have.
    came: usize,
}

impl Gathering {
    /// Of so many parts, each of which comes once.
    pub const fn new(parts: usize) -> Self {
        Self { parts, came: 0 }
    }

    /// A part has come; `true` if it was the last.
    pub const fn came(&mut self) -> bool {
        self.came += 1;
        let is_whole = self.came >= self.parts;
        if is_whole {
            self.came = 0;
        }
        is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::{EPOCH_2, POS_1};

    fn epoch(number: u64) -> Epoch {
        Epoch::from_number(number)
    }

    #[test]
    fn what_lies_behind_a_barrier_is_held_until_the_cut() {
        let mut barriers = Barriers::new(epoch(4), 2, 1, 3);
        let held = |barriers: &Barriers| {
            [
                Origin::Source(0),
                Origin::Source(1),
                Origin::Mark(epoch(4)),
                Origin::Mark(epoch(5)),
                Origin::Clock,
                Origin::Shard(0),
            ]
            .map(|origin| barriers.holds(origin))
        };
        let before = [false, false, false, true, false, false];
        assert_eq!(held(&barriers), before, "{POS_1}");
        assert_eq!(barriers.came(1), Step::Wait);
        assert_eq!(held(&barriers), [false, true, false, true, false, false], "{POS_1}");
        assert_eq!(barriers.came(1), Step::Wait, "the same again");
        assert_eq!(barriers.came(9), Step::Wait, "nobody");
        assert_eq!(barriers.came(0), Step::Cut);
        barriers.release();
        assert_eq!(barriers.last_cut(), epoch(5));
        let next = [false, false, false, false, false, false];
        assert_eq!(held(&barriers), next, "marks of epoch 5 go on, those of 6 will wait");
        assert!(barriers.holds(Origin::Mark(epoch(6))));
    }

    #[test]
    fn shards_wait_for_each_other_level_by_level() {
        let mut barriers = Barriers::new(Epoch::NONE, 1, 2, 2);
        // The other shard is ahead: its first round comes before this one has all barriers.
        assert_eq!(barriers.told(1, 1), Step::Wait);
        assert!(!barriers.holds(Origin::Shard(1)), "what it sends before its last round counts");
        assert_eq!(barriers.came(0), Step::Tell { round: 1 });
        assert!(barriers.holds(Origin::Clock));
        assert_eq!(barriers.told(0, 1), Step::Tell { round: 2 });
        assert_eq!(barriers.told(1, 2), Step::Wait);
        assert!(barriers.holds(Origin::Shard(1)), "{POS_1}: it may have been cut");
        assert!(!barriers.holds(Origin::Shard(0)));
        assert_eq!(barriers.told(0, 2), Step::Cut);
        barriers.release();
        assert!(!barriers.holds(Origin::Shard(1)) && !barriers.holds(Origin::Clock));
    }

    #[test]
    fn a_sink_is_cut_when_all_shards_have_passed() {
        let mut sink = SinkBarriers::new(2);
        assert!(!sink.holds(0));
        assert!(!sink.came(0));
        assert!(sink.holds(0) && !sink.holds(1));
        assert!(sink.came(1));
        assert!(!sink.holds(0) && !sink.holds(1));
    }

    #[test]
    fn an_epoch_counts_once_all_parts_have_come() {
        let mut gathering = Gathering::new(3);
        for _ in 0..2 {
            let came = [(); 3].map(|()| gathering.came());
            assert_eq!(came, [false, false, true], "{EPOCH_2}");
        }
    }
}
