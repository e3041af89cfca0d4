//! The second watermarks that the trigger of a stage waits for, and which actors are due by them.
//!
//! Beside the watermark, which promises that no record is still to come, they promise so of a share
//! of the records, so they are further on. Invariant WM-1: they only rise, and none is behind the
//! watermark.

use crate::roster::ActorId;
use crate::time::{EventTime, Watermark};
use crate::trigger::Trigger;
use crate::watermark::Percentile;
use std::collections::BTreeMap;

/// A deadline by a second watermark: when, by the watermark of which number, and of which actor.
pub(crate) type Expected = (EventTime, usize, ActorId);

/// The second watermarks of one stage in one shard. None of most.
#[derive(Debug)]
pub(crate) struct Shares {
    /// In the order of their percentiles.
    known: Vec<(Percentile, Watermark)>,
    /// For each: actors by the deadline that they registered; only the one they are armed for
    /// counts.
    deadlines: Vec<BTreeMap<EventTime, Vec<ActorId>>>,
}

impl Shares {
    /// Those that `trigger` waits for, nothing promised.
    pub(crate) fn new(trigger: &Trigger) -> Self {
        let known: Vec<_> =
            trigger.percentiles().into_iter().map(|share| (share, Watermark::MIN)).collect();
        Self { deadlines: vec![BTreeMap::new(); known.len()], known }
    }

    /// Percentiles and what is promised of them.
    pub(crate) fn known(&self) -> &[(Percentile, Watermark)] {
        &self.known
    }

    /// Puts back what was promised; `false` if it is of another trigger.
    pub(crate) fn restore(&mut self, promised: &[Watermark]) -> bool {
        for ((_, known), promised) in self.known.iter_mut().zip(promised) {
            *known = *promised;
        }
        promised.len() == self.known.len()
    }

    /// Registers an actor's deadline by the second watermark of that number.
    pub(crate) fn register(&mut self, number: usize, deadline: EventTime, id: ActorId) {
        if let Some(deadlines) = self.deadlines.get_mut(number) {
            deadlines.entry(deadline).or_default().push(id);
        }
    }

    /// The watermark itself has risen: whoever was due by less is due by it. Returns the actors
    /// whose deadlines have come so, as [`rise`](Self::rise) does.
    pub(crate) fn follow(&mut self, watermark: Watermark) -> Vec<Expected> {
        self.raise(|_| Some(watermark))
    }

    /// Takes what is promised now; returns the actors whose deadlines have come, earliest first.
    pub(crate) fn rise(&mut self, promised: &[(Percentile, Watermark)]) -> Vec<Expected> {
        self.raise(|percentile| {
            let told = promised.iter().find(|(told, _)| *told == percentile);
            told.map(|(_, told)| *told)
        })
    }

    fn raise(&mut self, told: impl Fn(Percentile) -> Option<Watermark>) -> Vec<Expected> {
        let mut due = Vec::new();
        let shares = self.known.iter_mut().zip(&mut self.deadlines).enumerate();
        for (number, ((percentile, known), deadlines)) in shares {
            let Some(told) = told(*percentile) else { continue };
            *known = told.max(*known);
            while let Some(first) = deadlines.first_entry() {
                if *first.key() > known.0 {
                    break;
                }
                let deadline = *first.key();
                due.extend(first.remove().into_iter().map(|id| (deadline, number, id)));
            }
        }
        due.sort_by_key(|(deadline, number, _)| (*deadline, *number));
        due
    }

    /// Forgets all deadlines.
    pub(crate) fn clear(&mut self) {
        self.deadlines.iter_mut().for_each(BTreeMap::clear);
    }

    /// How many deadlines are registered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.deadlines.iter().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    /// Whether no deadline is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.deadlines.iter().all(BTreeMap::is_empty)
    }
}
