//! Spans of time, counted by how long they were.
//!
//! The bounds are the same for all, so that histograms add up. Plain integers, owned by one actor.

use std::time::Duration;

/// How many bounds there are.
pub const BOUNDS: usize = 18;

/// The bounds in milliseconds, ascending: a span counts below the first that it does not exceed.
pub const BOUNDS_MILLIS: [u64; BOUNDS] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
    900_000, 3_600_000,
];

/// Counts of spans of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    /// Up to each bound, beyond the one before.
    within: [u64; BOUNDS],
    /// Beyond all bounds.
    beyond: u64,
    /// Microseconds of all spans.
    micros: u64,
}

impl Histogram {
    /// No spans.
    pub const fn new() -> Self {
        Self { within: [0; BOUNDS], beyond: 0, micros: 0 }
    }

    /// Counts `times` spans of length `span`.
    pub fn observe(&mut self, span: Duration, times: u64) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS_MILLIS.partition_point(|bound| bound.saturating_mul(1_000) < micros);
        let count = self.within.get_mut(place).unwrap_or(&mut self.beyond);
        *count = count.saturating_add(times);
        self.micros = self.micros.saturating_add(micros.saturating_mul(times));
    }

    /// How many spans lie between each bound and the one before it, and beyond the last.
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.within.iter().copied().chain([self.beyond])
    }

    /// How many spans there are.
    pub fn count(&self) -> u64 {
        self.counts().fold(0, u64::saturating_add)
    }

    /// All spans together, in microseconds.
    pub const fn micros(&self) -> u64 {
        self.micros
    }

    /// Adds the spans of another.
    pub fn merge(&mut self, other: &Self) {
        let sum = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        for (mine, theirs) in self.within.iter_mut().zip(other.within) {
            sum(mine, theirs);
        }
        sum(&mut self.beyond, other.beyond);
        sum(&mut self.micros, other.micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_counts_up_to_its_bound_and_not_beyond() {
        for (micros, place) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (3_600_000_000, BOUNDS - 1),
            (3_600_000_001, BOUNDS),
        ] {
            let mut histogram = Histogram::default();
            histogram.observe(Duration::from_micros(micros), 3);
            let counts: Vec<_> = histogram.counts().collect();
            assert_eq!(counts.iter().position(|count| *count == 3), Some(place), "{micros}");
            assert_eq!((histogram.count(), histogram.micros()), (3, 3 * micros));
        }
    }

    #[test]
    fn nothing_wraps_and_histograms_add_up() {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::MAX, 2);
        assert_eq!((histogram.count(), histogram.micros()), (2, u64::MAX));
        let other = histogram;
        histogram.merge(&other);
        assert_eq!((histogram.count(), histogram.micros()), (4, u64::MAX));
    }
}
