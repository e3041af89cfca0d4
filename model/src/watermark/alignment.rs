//! Whose turn it is to read, where partitions are read in step: the one with the lowest head, and
//! those that are not too far ahead of it.
//!
//! A reader that has records at hand tells their earliest event time and waits for its turn. It
//! waits for those that are behind it and have something to read, never for one that stands at its
//! end or has been paused: waiting would not help that one on. So of the readers that have something to read the
//! lowest is always let go, whoever is silent, idle or paused, and nobody waits for ever.

use crate::time::{EventTime, Span};
use serde::{Deserialize, Serialize};

/// What a reader does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Turn {
    /// Nobody knows: everybody waits until it says what it has.
    #[default]
    Unheard,
    /// It has records at hand and waits.
    Waits,
    /// It hands records on, or looks for more.
    Goes,
    /// It stands at the end of what there is.
    AtEnd,
    /// It has been told to read no more for now.
    Paused,
    /// It reads no more.
    Ended,
}

/// The readers of a pipeline, by partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Alignment {
    max_drift: Option<Span>,
    /// A restart forgets turns: readers then tell anew what they have.
    #[serde(skip)]
    turns: Vec<Turn>,
    /// Event time of the earliest record that each had at hand last. Part of a checkpoint, since
    /// others are held against it.
    heads: Vec<Option<EventTime>>,
}

/// A reader may hand on what it has at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Number of its partition.
    pub partition: u32,
    /// How far the furthest of the others has come, those that have ended included; `None` if no
    /// other has had any record.
    pub others: Option<EventTime>,
}

impl Alignment {
    pub(crate) fn new(max_drift: Option<Span>, partitions: usize) -> Self {
        Self { max_drift, turns: vec![Turn::Unheard; partitions], heads: vec![None; partitions] }
    }

    /// Takes over what a stored partition had at hand last.
    pub(crate) fn recall(&mut self, partition: usize, (image, stored): (&Self, usize)) {
        let head = image.heads.get(stored).copied().flatten();
        if let Some(known) = self.heads.get_mut(partition) {
            *known = head;
        }
    }

    /// A reader has records at hand, the earliest at `head`.
    pub(crate) fn waits(&mut self, partition: usize, head: EventTime) {
        self.set(partition, Turn::Waits);
        if let Some(known) = self.heads.get_mut(partition) {
            *known = Some(head);
        }
    }

    /// A reader stands at its end.
    pub(crate) fn is_at_end(&mut self, partition: usize) {
        self.set(partition, Turn::AtEnd);
    }

    /// A reader reads no more until [`Self::resume`]; nobody waits for it.
    pub(crate) fn pauses(&mut self, partition: usize) {
        self.set(partition, Turn::Paused);
    }

    /// Readers that were paused read on: everybody waits until they say what they have.
    pub(crate) fn resume(&mut self) {
        for turn in self.turns.iter_mut().filter(|turn| **turn == Turn::Paused) {
            *turn = Turn::Unheard;
        }
    }

    /// A reader reads no more.
    pub(crate) fn has_ended(&mut self, partition: usize) {
        self.set(partition, Turn::Ended);
    }

    fn set(&mut self, partition: usize, turn: Turn) {
        if self.turns.len() < self.heads.len() {
            self.turns.resize(self.heads.len(), Turn::Unheard);
        }
        if let Some(known) = self.turns.get_mut(partition) {
            *known = turn;
        }
    }

    /// Those that wait and may go now; they then go.
    pub(crate) fn grants(&mut self) -> Vec<Grant> {
        if self.turns.contains(&Turn::Unheard) {
            return Vec::new();
        }
        let reading = self.turns.iter().zip(&self.heads);
        let lowest = reading.filter_map(|(turn, head)| match turn {
            Turn::Waits | Turn::Goes => *head,
            Turn::Unheard | Turn::AtEnd | Turn::Paused | Turn::Ended => None,
        });
        let lowest = lowest.min().unwrap_or(EventTime::MAX);
        let limit = self.max_drift.map_or(EventTime::MAX, |drift| lowest.saturating_add(drift));
        let mut grants = Vec::new();
        for (partition, turn) in (0_u32..).zip(&mut self.turns) {
            let head = self.heads.get(partition as usize).copied().flatten();
            if *turn == Turn::Waits && head.is_some_and(|head| head <= limit) {
                *turn = Turn::Goes;
                grants.push(Grant { partition, others: furthest_beside(partition, &self.heads) });
            }
        }
        grants
    }

    /// Whether a reader waits for its turn.
    pub(crate) fn is_waiting(&self, partition: usize) -> bool {
        self.turns.get(partition) == Some(&Turn::Waits)
    }
}

fn furthest_beside(partition: u32, heads: &[Option<EventTime>]) -> Option<EventTime> {
    let others = (0_u32..).zip(heads).filter(|(other, _)| *other != partition);
    others.filter_map(|(_, head)| *head).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn going(alignment: &mut Alignment) -> Vec<u32> {
        alignment.grants().iter().map(|grant| grant.partition).collect()
    }

    #[test]
    fn nobody_waits_for_a_paused_reader_until_it_reads_on() {
        let mut readers = Alignment::new(Some(Span::from_millis(10)), 3);
        readers.waits(0, at(100));
        readers.waits(1, at(50));
        readers.has_ended(2);
        assert_eq!(going(&mut readers), [1]);
        readers.pauses(1);
        assert_eq!(going(&mut readers), [0]);
        readers.waits(0, at(200));
        readers.pauses(0);
        readers.resume();
        readers.waits(0, at(200));
        assert!(going(&mut readers).is_empty(), "the other may have anything");
        readers.waits(1, at(60));
        assert_eq!(going(&mut readers), [1]);
    }

    #[test]
    fn the_lowest_goes_first_and_others_wait_within_the_drift() {
        let mut readers = Alignment::new(Some(Span::from_millis(10)), 3);
        readers.waits(0, at(100));
        readers.waits(1, at(89));
        assert!(going(&mut readers).is_empty(), "the third may have anything");
        readers.waits(2, at(99));
        assert_eq!(going(&mut readers), [1, 2]);
        assert!(readers.is_waiting(0));
        assert!(going(&mut readers).is_empty(), "the second has not moved");
        readers.waits(1, at(120));
        // The third is behind until it says what it has next.
        assert_eq!(going(&mut readers), [0]);
        readers.is_at_end(2);
        readers.waits(0, at(131));
        assert_eq!(going(&mut readers), [1], "nobody waits for one that is at its end");
        readers.has_ended(1);
        assert_eq!(going(&mut readers), [0]);
        // A backlog that comes up is read before what lies ahead of it.
        readers.waits(2, at(-50));
        readers.waits(0, at(140));
        assert_eq!(going(&mut readers), [2]);
    }

    #[test]
    fn without_a_drift_all_go_once_all_are_heard_and_know_of_the_others() {
        let mut readers = Alignment::new(None, 3);
        readers.waits(0, at(i64::MAX));
        readers.is_at_end(1);
        assert!(going(&mut readers).is_empty());
        readers.waits(2, at(7));
        let grants = readers.grants();
        assert_eq!(
            grants,
            [
                Grant { partition: 0, others: Some(at(7)) },
                Grant { partition: 2, others: Some(EventTime::MAX) }
            ]
        );
        readers.has_ended(2);
        readers.waits(0, at(9));
        assert_eq!(readers.grants(), [Grant { partition: 0, others: Some(at(7)) }]);
    }

    /// What is left of a partition, its next batch last; `None` stands for a moment at its end.
    type Rest = Vec<Option<i64>>;

    proptest! {
        /// Readers in any order and at any speed: all come to their ends, and none hands on
        /// records further ahead of one that has something to read than the drift allows.
        #[test]
        fn nobody_waits_for_ever_and_nobody_runs_ahead(
            mut rests in prop::collection::vec(
                prop::collection::vec(prop::option::weighted(0.8, -100_i64..100), 0..12), 1..5),
            drift in prop::option::of(0_i64..60),
            mut seed in any::<u64>(),
        ) {
            let mut readers = Alignment::new(drift.map(Span::from_millis), rests.len());
            let mut at_hand: Vec<Option<i64>> = vec![None; rests.len()];
            let mut reading: Vec<Option<i64>> = vec![None; rests.len()];
            let total: usize = rests.iter().map(Rest::len).sum();
            let mut steps = 0;
            while rests.iter().any(|rest| !rest.is_empty()) || at_hand.iter().any(Option::is_some) {
                steps += 1;
                prop_assert!(steps <= total, "somebody waits for ever");
                // One of those that can do something does it.
                let is_free = |n: &usize| at_hand[*n].is_none() && !rests[*n].is_empty();
                let free: Vec<_> = (0..rests.len()).filter(is_free).collect();
                prop_assert!(!free.is_empty(), "everybody waits");
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let reader = free[(seed >> 33) as usize % free.len()];
                let head = rests[reader].pop().flatten();
                (at_hand[reader], reading[reader]) = (head, head);
                match head {
                    Some(head) => readers.waits(reader, at(head)),
                    None => readers.is_at_end(reader),
                }
                // Whoever has handed on its last goes, which may let others go.
                let mut has_changed = true;
                while std::mem::take(&mut has_changed) {
                    for n in 0..rests.len() {
                        if rests[n].is_empty() && at_hand[n].is_none() {
                            reading[n] = None;
                            readers.has_ended(n);
                        }
                    }
                    for grant in readers.grants() {
                        let head = at_hand[grant.partition as usize].take().unwrap();
                        let lowest = reading.iter().flatten().min().unwrap();
                        prop_assert!(drift.is_none_or(|drift| head <= lowest + drift));
                        has_changed = true;
                    }
                }
            }
        }
    }
}
