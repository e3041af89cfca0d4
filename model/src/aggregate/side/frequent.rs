//! The values that came most often: Space-Saving (Metwally et al. 2005) in the form that can be
//! merged (Agarwal et al. 2013), thinned out in one go when there are twice as many values as
//! counters (Anderson et al. 2017).
//!
//! Of n values, with m counters and `floor` <= n / m: a value with counter (count, error) came at
//! least count - error and at most count times, and error <= floor; one without came at most `floor`
//! times. This holds for any order, batches and merges. Which values near the floor have counters
//! depends on the order only if more than 2 m different values came; until then every error is 0.

use super::item::Item;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Counters of the most frequent values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequent {
    /// How many are left when values are thinned out.
    counters: u32,
    /// How often any value without a counter came, at most. Never falls.
    floor: u64,
    counts: BTreeMap<Item, Counter>,
}

/// How often a value came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Counter {
    /// At most.
    count: u64,
    /// By how much that may be too high.
    error: u64,
}

impl Frequent {
    /// No values.
    pub(super) const fn new(counters: u32) -> Self {
        Self { counters, floor: 0, counts: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub(super) fn add(&mut self, item: Item) {
        let floor = self.floor;
        let counter = self.counts.entry(item).or_insert(Counter { count: floor, error: floor });
        counter.count = counter.count.saturating_add(1);
        self.thin_out();
    }

    pub(super) fn merge(&mut self, part: &Self) {
        let floor = self.floor;
        // Whoever has no counter on one side came at most as often as its floor there.
        for (item, counter) in &mut self.counts {
            if !part.counts.contains_key(item) {
                counter.add(Counter { count: part.floor, error: part.floor });
            }
        }
        for (item, more) in &part.counts {
            let fresh = Counter { count: floor, error: floor };
            self.counts.entry(item.clone()).or_insert(fresh).add(*more);
        }
        self.floor = floor.saturating_add(part.floor);
        self.thin_out();
    }

    /// Of more values than twice the counters only as many as counters are left: the most
    /// frequent, of equal ones the smaller value.
    fn thin_out(&mut self) {
        let counters = self.counters.max(1) as usize;
        if self.counts.len() <= counters.saturating_mul(2) {
            return;
        }
        let mut all: Vec<_> = std::mem::take(&mut self.counts).into_iter().collect();
        all.sort_by_key(|(_, counter)| Reverse(counter.count));
        let lost = all.split_off(counters);
        let most = lost.first().map_or(0, |(_, counter)| counter.count);
        self.floor = self.floor.max(most);
        self.counts = all.into_iter().collect();
    }

    /// The `k` most frequent, best first, as a JSON object.
    pub(super) fn json(&self, k: u32) -> String {
        use std::fmt::Write as _;
        let mut all: Vec<_> = self.counts.iter().collect();
        all.sort_by_key(|(_, counter)| Reverse(counter.count));
        let k = (k as usize).min(all.len());
        let (shown, rest) = all.split_at(k);
        let mut out = String::from("{\"entries\":[");
        for (place, (item, Counter { count, error })) in shown.iter().enumerate() {
            out.push_str(if place > 0 { ",{\"value\":" } else { "{\"value\":" });
            item.value().write_json(&mut out);
            // Writing to a String cannot fail.
            write!(out, ",\"count\":{count},\"error\":{error}}}").unwrap_or_default();
        }
        let rest = rest.first().map_or(0, |(_, counter)| counter.count).max(self.floor);
        write!(out, "],\"others_at_most\":{rest}}}").unwrap_or_default();
        out
    }

    /// Whether what was read can be used with `counters`.
    pub(super) fn is_sound(&self, counters: u32) -> bool {
        self.counters == counters
            && self.counts.len() <= (counters.max(1) as usize).saturating_mul(2)
            && self.counts.values().all(|counter| counter.error <= counter.count)
    }

    pub(super) fn bytes(&self) -> usize {
        let texts = self.counts.keys().map(Item::text_bytes).sum::<usize>();
        size_of::<Self>() + texts + self.counts.len() * size_of::<(Item, Counter)>()
    }
}

impl Counter {
    fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.error = self.error.saturating_add(more.error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(counters: u32, numbers: &[u8]) -> Frequent {
        let mut frequent = Frequent::new(counters);
        for number in numbers {
            frequent.add(Item::Int((*number).into()));
        }
        frequent
    }

    #[test]
    fn few_values_are_counted_exactly_and_ties_go_to_the_smaller() {
        let frequent = of(2, &[3, 1, 2, 3, 0, 1]);
        assert_eq!(
            frequent.json(3),
            r#"{"entries":[{"value":1,"count":2,"error":0},{"value":3,"count":2,"error":0},{"value":0,"count":1,"error":0}],"others_at_most":1}"#
        );
        assert_eq!(of(2, &[]).json(3), r#"{"entries":[],"others_at_most":0}"#);
    }

    #[test]
    fn a_value_that_comes_back_says_how_much_it_may_have_lost() {
        // 0 twice; 1, 2, 3 and 4 once: five are more than four, so that 0 and 1 are left.
        let mut frequent = of(2, &[0, 0, 1, 2, 3, 4]);
        assert_eq!((frequent.floor, frequent.counts.len()), (1, 2));
        frequent.add(Item::Int(4));
        assert_eq!(
            frequent.json(9),
            r#"{"entries":[{"value":0,"count":2,"error":0},{"value":4,"count":2,"error":1},{"value":1,"count":1,"error":0}],"others_at_most":1}"#
        );
    }

    /// Few large numbers, many small ones.
    fn skewed() -> impl Strategy<Value = Vec<u8>> {
        let number = prop_oneof![Just(1_u8), Just(2), 0..8_u8, any::<u8>()];
        prop::collection::vec(number, 0..400)
    }

    proptest! {
        /// The bound holds for every value, with a counter or without, for any tree of merges, and
        /// memory is bounded.
        #[test]
        fn counts_are_within_their_errors_however_they_are_merged(
            parts in prop::collection::vec(skewed(), 1..6),
            counters in 1_u32..20,
            right_first in any::<bool>(),
        ) {
            let mut trees: Vec<_> = parts.iter().map(|part| of(counters, part)).collect();
            while trees.len() > 1 {
                let at = if right_first { trees.len() - 2 } else { 0 };
                let part = trees.remove(at + 1);
                trees[at].merge(&part);
                prop_assert!(trees[at].counts.len() <= 2 * counters as usize);
            }
            let all = parts.concat();
            let mut exact = BTreeMap::new();
            for number in &all {
                *exact.entry(Item::Int((*number).into())).or_insert(0_u64) += 1;
            }
            let whole = &trees[0];
            prop_assert!(whole.floor <= all.len() as u64 / u64::from(counters));
            for (item, n) in &exact {
                match whole.counts.get(item) {
                    Some(Counter { count, error }) => {
                        prop_assert!(n <= count && count - error <= *n, "{item:?}: {n}");
                        prop_assert!(*error <= whole.floor);
                    }
                    None => prop_assert!(*n <= whole.floor, "{item:?}: {n}"),
                }
            }
            if exact.len() <= 2 * counters as usize {
                prop_assert_eq!(whole, &of(counters, &all));
                prop_assert_eq!(whole.floor, 0);
            }
            prop_assert!(whole.is_sound(counters));
        }
    }
}
