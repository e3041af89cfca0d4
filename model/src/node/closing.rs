//! Decides when a shard has handled everything, so that it may close its sinks.
//!
//! The end of the input comes from the coordinator, behind the last watermark. What the other
//! shards still exchange with this one does not lie in front of it, so the shards tell each other,
//! one round per level of exchange: whoever has heard of round n from all shards has handled all
//! that was sent before it, has passed on what that gave rise to, and starts round n + 1. A plan
//! with n exchanged stages is empty after n rounds; with one shard nothing is exchanged and the end
//! comes at once. Invariant: a shard closes once, and hears of nothing afterwards.

/// What a shard does next to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It waits for the other shards.
    Wait,
    /// It tells every shard, itself included, about this round.
    Tell {
        /// Number of the round, from 1.
        round: usize,
    },
    /// Everything has been handled.
    Close,
}

/// How far a shard has come with closing.
#[derive(Debug)]
pub struct Closing {
    shards: usize,
    /// Per round, how many shards have told of it.
    heard: Vec<usize>,
}

impl Closing {
    /// For `shards` shards of a plan with `exchanges` exchanged stages.
    pub fn new(shards: usize, exchanges: usize) -> Self {
        let rounds = if shards > 1 { exchanges } else { 0 };
        Self { shards, heard: vec![0; rounds] }
    }

    /// The input has ended: no record and no watermark can follow.
    pub fn input_ended(&self) -> Step {
        if self.heard.is_empty() { Step::Close } else { Step::Tell { round: 1 } }
    }

    /// A shard has told of `round`.
    pub fn told(&mut self, round: usize) -> Step {
        let rounds = self.heard.len();
        let Some(heard) = self.heard.get_mut(round.wrapping_sub(1)) else { return Step::Wait };
        *heard += 1;
        if *heard < self.shards {
            Step::Wait
        } else if round < rounds {
            Step::Tell { round: round + 1 }
        } else {
            Step::Close
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_exchanged_closes_at_once() {
        assert_eq!(Closing::new(1, 5).input_ended(), Step::Close);
        assert_eq!(Closing::new(4, 0).input_ended(), Step::Close);
    }

    #[test]
    fn each_round_waits_for_all_shards_even_if_they_are_ahead() {
        let mut closing = Closing::new(2, 2);
        // The other shard has heard of the end before this one has.
        for (round, step) in [
            (1, Step::Wait),
            (1, Step::Tell { round: 2 }),
            (2, Step::Wait),
            (2, Step::Close),
            (3, Step::Wait),
        ] {
            assert_eq!(closing.told(round), step, "round {round}");
        }
        assert_eq!(closing.input_ended(), Step::Tell { round: 1 });
        assert_eq!(closing.told(0), Step::Wait);
    }
}
