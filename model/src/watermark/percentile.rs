//! How late the last records were: exact quantiles over a sliding window of them, in offset order.
//!
//! Kept are the lateness of each of the last N records, and how often each value occurs; every
//! quantile that is asked for follows its rank as records come and go, a step at a time. Whatever
//! comes, memory is bounded by N, and the state is a function of the records alone: how they were
//! cut into batches does not matter.

use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// A share of records: above 0 %, at most 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Percentile(u32);

impl Percentile {
    const WHOLE: u32 = 100_000;

    /// So many thousandths of a percent, 1 to 100,000.
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths == 0 || thousandths > Self::WHOLE { None } else { Some(Self(thousandths)) }
    }

    /// So many percent, rounded to thousandths; `None` unless it is from 0.001 to 100.
    pub fn from_percent(percent: f64) -> Option<Self> {
        // A range holds nothing that is no number.
        let is_in_range = (0.001..=100.0).contains(&percent);
        // Rounded and in range: the cast is exact.
        let thousandths = (percent * 1_000.0).round() as u32;
        if is_in_range { Self::from_thousandths(thousandths) } else { None }
    }

    /// The rank, from 1, of the smallest of `count` values that this share of them does not exceed.
    fn rank(self, count: usize) -> u64 {
        let part = (count as u64).saturating_mul(u64::from(self.0));
        part.div_ceil(u64::from(Self::WHOLE)).max(1)
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000, self.0 % 1_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let rest = format!("{rest:03}");
        write!(f, "{whole}.{}", rest.trim_end_matches('0'))
    }
}

/// The lateness of the last records of one partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Stored", from = "Stored")]
pub(crate) struct Lateness {
    records_max: usize,
    /// In offset order, the oldest first; at most `records_max`.
    recent: VecDeque<Span>,
    /// How often each value occurs among the recent ones; none is zero.
    counts: BTreeMap<Span, u64>,
    quantiles: Vec<Quantile>,
}

/// A quantile that is followed.
#[derive(Debug, Clone, Copy)]
struct Quantile {
    percentile: Percentile,
    /// Its value; zero while there are no records.
    value: Span,
    /// How many of the recent values are smaller.
    below: u64,
}

/// What a checkpoint keeps; the rest follows from it.
#[derive(Serialize, Deserialize)]
struct Stored {
    records_max: u32,
    recent: Vec<Span>,
    percentiles: Vec<Percentile>,
}

impl Lateness {
    /// Nothing yet; of at most `records_max` records (at least 1), for these percentiles.
    pub(crate) fn new(records_max: u32, percentiles: &[Percentile]) -> Self {
        let follow = |percentile: &Percentile| Quantile {
            percentile: *percentile,
            value: Span::ZERO,
            below: 0,
        };
        Self {
            records_max: records_max.max(1) as usize,
            recent: VecDeque::new(),
            counts: BTreeMap::new(),
            quantiles: percentiles.iter().map(follow).collect(),
        }
    }

    /// Takes the lateness of the next record; the oldest goes where there are too many.
    pub(crate) fn push(&mut self, lateness: Span) {
        let oldest =
            if self.recent.len() >= self.records_max { self.recent.pop_front() } else { None };
        self.recent.push_back(lateness);
        if oldest == Some(lateness) {
            return;
        }
        *self.counts.entry(lateness).or_default() += 1;
        if let Some(oldest) = oldest
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
        for quantile in &mut self.quantiles {
            quantile.below += u64::from(lateness < quantile.value);
            quantile.below -= u64::from(oldest.is_some_and(|oldest| oldest < quantile.value));
            quantile.settle(&self.counts, self.recent.len());
        }
    }

    /// The quantile of the percentile with this number, as they were given; zero without records.
    pub(crate) fn quantile(&self, number: usize) -> Span {
        self.quantiles.get(number).map_or(Span::ZERO, |quantile| quantile.value)
    }
}

impl Quantile {
    /// Moves to the value that has the rank.
    fn settle(&mut self, counts: &BTreeMap<Span, u64>, len: usize) {
        let rank = self.percentile.rank(len);
        loop {
            let here = counts.get(&self.value).copied().unwrap_or(0);
            let next = if rank <= self.below {
                counts.range(..self.value).next_back().map(|(value, count)| (value, *count))
            } else if rank > self.below + here {
                let above = (std::ops::Bound::Excluded(self.value), std::ops::Bound::Unbounded);
                counts.range(above).next().map(|(value, _)| (value, here))
            } else {
                return;
            };
            // A rank between 1 and the number of values always has one.
            let Some((value, passed)) = next else { return };
            self.below =
                if *value < self.value { self.below - passed } else { self.below + passed };
            self.value = *value;
        }
    }
}

impl From<Lateness> for Stored {
    fn from(lateness: Lateness) -> Self {
        Self {
            records_max: u32::try_from(lateness.records_max).unwrap_or(u32::MAX),
            recent: lateness.recent.into(),
            percentiles: lateness.quantiles.iter().map(|quantile| quantile.percentile).collect(),
        }
    }
}

impl From<Stored> for Lateness {
    fn from(stored: Stored) -> Self {
        let mut lateness = Self::new(stored.records_max, &stored.percentiles);
        for one in stored.recent {
            lateness.push(one);
        }
        lateness
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn percent(percent: f64) -> Percentile {
        Percentile::from_percent(percent).unwrap()
    }

    #[test]
    fn percentiles_are_above_0_and_at_most_100() {
        for (given, shown) in [
            (50.0, Some("50")),
            (99.9, Some("99.9")),
            (99.95, Some("99.95")),
            (100.0, Some("100")),
            (0.001, Some("0.001")),
            (0.0009, None),
            (100.0001, None),
            (0.0, None),
            (-1.0, None),
            (100.001, None),
            (101.0, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            let got = Percentile::from_percent(given).map(|percentile| percentile.to_string());
            assert_eq!(got.as_deref(), shown, "{given}");
        }
        assert_eq!(
            (Percentile::from_thousandths(0), Percentile::from_thousandths(100_001)),
            (None, None)
        );
    }

    #[test]
    fn the_quantile_is_the_smallest_value_that_enough_records_do_not_exceed() {
        // Nearest rank, by hand: of 5 values the 50 % has rank 3, 90 % and 100 % rank 5, 20 % rank 1.
        let mut lateness =
            Lateness::new(5, &[percent(50.0), percent(90.0), percent(100.0), percent(20.0)]);
        for (next, expected) in [
            (7, [7, 7, 7, 7]), // 7
            (1, [1, 7, 7, 1]), // 1 7
            (3, [3, 7, 7, 1]), // 1 3 7
            (3, [3, 7, 7, 1]), // 1 3 3 7
            (9, [3, 9, 9, 1]), // 1 3 3 7 9
            (0, [3, 9, 9, 0]), // 0 1 3 3 9
            (0, [3, 9, 9, 0]), // 0 0 3 3 9
            (0, [0, 9, 9, 0]), // 0 0 0 3 9
            (0, [0, 9, 9, 0]), // 0 0 0 0 9
            (0, [0, 0, 0, 0]), // 0 0 0 0 0
            (i64::MAX, [0, i64::MAX, i64::MAX, 0]),
        ] {
            lateness.push(Span::from_millis(next));
            let got = [0, 1, 2, 3].map(|number| lateness.quantile(number).as_millis());
            assert_eq!(got, expected, "after {next}");
        }
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_window(
            values in prop::collection::vec(prop_oneof![0_i64..4, 0_i64..1_000, Just(i64::MAX)], 1..300),
            records_max in 1_u32..40,
            shares in prop::collection::vec(1_u32..=100_000, 1..4),
        ) {
            let percentiles: Vec<_> =
                shares.iter().map(|share| Percentile::from_thousandths(*share).unwrap()).collect();
            let mut lateness = Lateness::new(records_max, &percentiles);
            for (index, value) in values.iter().enumerate() {
                lateness.push(Span::from_millis(*value));
                let first = (index + 1).saturating_sub(records_max as usize);
                let mut window = values[first..=index].to_vec();
                window.sort_unstable();
                for (number, share) in shares.iter().enumerate() {
                    let rank = (window.len() * *share as usize).div_ceil(100_000);
                    prop_assert_eq!(lateness.quantile(number).as_millis(), window[rank - 1]);
                }
                if index == values.len() / 2 {
                    // A checkpoint keeps all that matters.
                    let bytes = postcard::to_allocvec(&lateness).unwrap();
                    lateness = postcard::from_bytes(&bytes).unwrap();
                }
            }
            prop_assert!(lateness.recent.len() <= records_max as usize);
        }
    }
}
