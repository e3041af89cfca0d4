//! The values themselves, bounded: the first by (event time, value) that fit both bounds, and how
//! many more there were.
//!
//! What is kept is the longest beginning of all values in that order that fits. Invariant: it
//! depends on the *multiset* of values alone, so that the order of values, batches and merges cannot
//! change a result.

use super::function::SideFunction;
use super::item::Item;
use crate::time::EventTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a value stands among all.
type Place = (i64, Item);

/// Values, up to a bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collect {
    values_max: u32,
    bytes_max: u32,
    /// How many values came.
    seen: u64,
    /// How many of them are kept, and their bytes.
    kept: u64,
    bytes: u64,
    /// Kept values and how often each came.
    values: BTreeMap<Place, u64>,
    /// The first value that was left out: none at it or behind it is taken any more.
    cut: Option<Place>,
}

impl Collect {
    /// No values, and room for so many of so many bytes.
    pub(super) const fn new(values_max: u32, bytes_max: u32) -> Self {
        let values = BTreeMap::new();
        Self { values_max, bytes_max, seen: 0, kept: 0, bytes: 0, values, cut: None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.seen == 0
    }

    pub(super) fn add(&mut self, item: Item, time: EventTime) {
        self.seen = self.seen.saturating_add(1);
        self.take((time.as_millis(), item), 1);
    }

    pub(super) fn merge(&mut self, part: &Self) {
        self.seen = self.seen.saturating_add(part.seen);
        for (place, copies) in &part.values {
            self.take(place.clone(), *copies);
        }
        if let Some(cut) = &part.cut {
            self.cut_at(cut.clone());
        }
    }

    fn take(&mut self, place: Place, copies: u64) {
        if self.cut.as_ref().is_some_and(|cut| place >= *cut) {
            return;
        }
        self.kept = self.kept.saturating_add(copies);
        self.bytes = self.bytes.saturating_add(bytes_of(&place).saturating_mul(copies));
        *self.values.entry(place).or_insert(0) += copies;
        while self.kept > self.values_max.into() || self.bytes > self.bytes_max.into() {
            let Some(mut last) = self.values.last_entry() else { return };
            let bytes = bytes_of(last.key());
            *last.get_mut() -= 1;
            (self.kept, self.bytes) = (self.kept - 1, self.bytes.saturating_sub(bytes));
            let place = if *last.get() == 0 { last.remove_entry().0 } else { last.key().clone() };
            self.cut = Some(place);
        }
    }

    /// Lets go of what is behind `cut`; copies at it were kept by whoever was cut there.
    fn cut_at(&mut self, cut: Place) {
        if self.cut.as_ref().is_some_and(|own| *own <= cut) {
            return;
        }
        let at = self.values.get(&cut).copied().unwrap_or(0);
        drop(self.values.split_off(&cut));
        if at > 0 {
            self.values.insert(cut.clone(), at);
        }
        self.kept = self.values.values().sum();
        self.bytes = self.values.iter().map(|(place, copies)| bytes_of(place) * copies).sum();
        self.cut = Some(cut);
    }

    /// The values in their order, and how many were left out, as a JSON object.
    pub(super) fn json(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::from("{\"values\":[");
        let mut is_first = true;
        for ((_, item), copies) in &self.values {
            let value = item.value();
            for _ in 0..*copies {
                if !std::mem::take(&mut is_first) {
                    out.push(',');
                }
                value.write_json(&mut out);
            }
        }
        // Writing to a String cannot fail.
        let left_out = self.seen.saturating_sub(self.kept);
        write!(out, "],\"left_out\":{left_out}}}").unwrap_or_default();
        out
    }

    /// Whether what was read can be used within these bounds.
    pub(super) fn is_sound(&self, values_max: u32, bytes_max: u32) -> bool {
        let (mut kept, mut bytes) = (0_u64, 0_u64);
        for (place, copies) in &self.values {
            kept = kept.saturating_add(*copies);
            bytes = bytes.saturating_add(bytes_of(place).saturating_mul(*copies));
        }
        (self.values_max, self.bytes_max) == (values_max, bytes_max)
            && (self.kept, self.bytes) == (kept, bytes)
            && kept <= values_max.into()
            && bytes <= bytes_max.into()
            && kept <= self.seen
    }

    pub(super) fn bytes(&self) -> usize {
        let texts = self.values.keys().map(|(_, item)| item.text_bytes()).sum::<usize>();
        size_of::<Self>() + texts + self.values.len() * size_of::<(Place, u64)>()
    }
}

/// Bytes that one copy of a value counts for.
fn bytes_of((_, item): &Place) -> u64 {
    u64::from(SideFunction::COLLECT_OVERHEAD) + item.text_bytes() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bounds: (u32, u32), texts: &[(i64, String)]) -> Collect {
        let mut collect = Collect::new(bounds.0, bounds.1);
        for (time, text) in texts {
            collect.add(Item::Text(text.as_str().into()), EventTime::from_millis(*time));
        }
        collect
    }

    fn texts(texts: &[(i64, &str)]) -> Vec<(i64, String)> {
        texts.iter().map(|(time, text)| (*time, (*text).to_owned())).collect()
    }

    #[test]
    fn the_first_are_kept_and_the_others_counted() {
        let came = texts(&[(3, "d"), (1, "b"), (1, "a"), (1, "b"), (2, "long as it is")]);
        for (bounds, json) in [
            ((9, 999), r#"{"values":["a","b","b","long as it is","d"],"left_out":0}"#),
            ((2, 999), r#"{"values":["a","b"],"left_out":3}"#),
            // Three short ones take 99 bytes; the long one has no room, and nothing behind it.
            ((9, 140), r#"{"values":["a","b","b"],"left_out":2}"#),
            ((9, 32), r#"{"values":[],"left_out":5}"#),
        ] {
            assert_eq!(of(bounds, &came).json(), json, "{bounds:?}");
        }
    }

    proptest! {
        /// The longest beginning that fits, for any order and tree of merges.
        #[test]
        fn what_is_kept_is_the_longest_beginning_that_fits(
            came in prop::collection::vec((0_i64..4, "[ab]{0,20}"), 0..40),
            cut in 0_usize..40,
            values_max in 1_u32..30,
            bytes_max in 32_u32..900,
        ) {
            let bounds = (values_max, bytes_max);
            let (left, right) = came.split_at(cut.min(came.len()));
            let whole = of(bounds, &came);
            let mut merged = of(bounds, left);
            merged.merge(&of(bounds, right));
            let mut turned = of(bounds, right);
            turned.merge(&of(bounds, left));
            prop_assert_eq!(&whole, &merged);
            prop_assert_eq!(&whole, &turned);
            let mut sorted = came.clone();
            sorted.sort();
            let mut bytes = 0;
            let fits = |(place, (_, text)): &(usize, &(i64, String))| {
                bytes += 32 + text.len();
                *place < values_max as usize && bytes <= bytes_max as usize
            };
            let kept = sorted.iter().enumerate().take_while(fits).count();
            let values: Vec<_> = sorted.iter().take(kept).map(|(_, text)| format!("{text:?}")).collect();
            let json = format!("{{\"values\":[{}],\"left_out\":{}}}", values.join(","), came.len() - kept);
            prop_assert_eq!(whole.json(), json);
            prop_assert!(whole.is_sound(values_max, bytes_max));
        }
    }
}
