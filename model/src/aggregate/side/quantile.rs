//! The value at a place in the order of all values: DDSketch (Masson, Rim, Lee 2019), bins whose
//! bounds grow by one factor, so that the middle of a bin is within the accuracy of all it holds.
//!
//! Counts are signed, so that a part can be taken out again. Invariant: the bins depend on the
//! *multiset* of values alone, not on their order, batches or merges: of more bins than
//! [`bins_max`] the lowest become one, and the highest always have the same bounds.

use super::function::Millionths;
use crate::value::Datum;
use serde::{Deserialize, Serialize};

/// Counts of values by size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantile {
    /// Largest relative error, in millionths.
    accuracy: u32,
    /// Code of a bin and its count, not 0; in the order of values.
    bins: Vec<(i32, i64)>,
}

/// Code of the bin of zero; those of negative values lie below, of positive ones above.
const ZERO: i32 = 0;
/// Code of the bin that holds 1, or ends at it.
const ONE: i32 = 1 << 30;
/// Code of infinity; that of its opposite is the opposite.
const INFINITY: i32 = i32::MAX - 1;
/// Code of what is not a number: behind all that are.
const NAN: i32 = i32::MAX;

impl Quantile {
    /// No values.
    pub(super) const fn new(accuracy: Millionths) -> Self {
        Self { accuracy: accuracy.0, bins: Vec::new() }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    pub(super) fn add(&mut self, datum: Datum) {
        let number = match datum {
            Datum::Int(number) => number as f64,
            Datum::Float(number) => number,
            Datum::Null | Datum::Bool(_) | Datum::Text(_) | Datum::Object(_) | Datum::Ip(_) => {
                return;
            }
        };
        self.count(self.code(number), 1);
        self.collapse();
    }

    /// Logarithm of the factor from one bin to the next.
    fn step(&self) -> f64 {
        let accuracy = Millionths(self.accuracy).as_f64();
        ((1.0 + accuracy) / (1.0 - accuracy)).ln()
    }

    fn code(&self, number: f64) -> i32 {
        if number.is_nan() {
            return NAN;
        }
        if number == 0.0 {
            return ZERO;
        }
        let code = if number.is_infinite() {
            INFINITY
        } else {
            // At most 745 by the logarithm of the finest factor: a few millions.
            ONE + (number.abs().ln() / self.step()).ceil() as i32
        };
        if number < 0.0 { -code } else { code }
    }

    /// The value that stands for all of a bin.
    fn middle(&self, code: i32) -> f64 {
        match code {
            ZERO => 0.0,
            NAN => f64::NAN,
            INFINITY => f64::INFINITY,
            code if code == -INFINITY => f64::NEG_INFINITY,
            code if code < 0 => -self.middle(-code),
            code => {
                let step = self.step();
                // The bin reaches from bound / factor to bound; the bound itself may be infinite.
                let middle = (2.0 / (1.0 + step.exp())).ln();
                (f64::from(code - ONE) * step + middle).exp().min(f64::MAX)
            }
        }
    }

    fn count(&mut self, code: i32, more: i64) {
        match self.bins.binary_search_by_key(&code, |(code, _)| *code) {
            Ok(place) => {
                if let Some((_, count)) = self.bins.get_mut(place) {
                    *count = count.saturating_add(more);
                    if *count == 0 {
                        self.bins.remove(place);
                    }
                }
            }
            Err(place) => self.bins.insert(place, (code, more)),
        }
    }

    /// Makes one bin of the lowest, if there are too many.
    fn collapse(&mut self) {
        let surplus = self.bins.len().saturating_sub(bins_max(self.accuracy));
        if surplus == 0 {
            return;
        }
        let lost = self.bins.drain(..surplus).fold(0_i64, |sum, (_, n)| sum.saturating_add(n));
        if let Some((_, lowest)) = self.bins.first_mut() {
            *lowest = lowest.saturating_add(lost);
        }
    }

    pub(super) fn merge(&mut self, part: &Self) {
        // Two ascending runs: sorting finds them.
        self.bins.extend_from_slice(&part.bins);
        self.bins.sort_by_key(|(code, _)| *code);
        self.bins.dedup_by(|(code, more), (kept, count)| {
            let is_same = code == kept;
            if is_same {
                *count = count.saturating_add(*more);
            }
            is_same
        });
        self.bins.retain(|(_, count)| *count != 0);
        self.collapse();
    }

    /// Turns all counts around.
    pub(super) fn negate(&mut self) {
        for (_, count) in &mut self.bins {
            *count = count.saturating_neg();
        }
    }

    /// The value at place floor(p (n - 1)) of n in ascending order, within the accuracy; `None` if
    /// there are none.
    pub(super) fn at(&self, p: Millionths) -> Option<f64> {
        let sum = self.bins.iter().fold(0_i128, |sum, (_, count)| sum + i128::from(*count));
        let place = (sum - 1) * i128::from(p.0) / i128::from(Millionths::ONE.0);
        let mut below = 0_i128;
        let bin = self.bins.iter().find(|(_, count)| {
            below += i128::from(*count);
            below > place
        });
        bin.filter(|_| sum > 0).map(|(code, _)| self.middle(*code))
    }

    /// Whether what was read can be used with `accuracy`.
    pub(super) fn is_sound(&self, accuracy: Millionths) -> bool {
        self.accuracy == accuracy.0
            && self.bins.is_sorted_by(|(a, _), (b, _)| a < b)
            && self.bins.iter().all(|(_, count)| *count != 0)
            && self.bins.len() <= bins_max(accuracy.0)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.bins.capacity() * size_of::<(i32, i64)>()
    }
}

/// Most bins at an accuracy in millionths: as many as values of one sign take that differ by a
/// factor of 10^18. Only if there are more are the lowest counted as the lowest of these.
pub(super) fn bins_max(accuracy: u32) -> usize {
    // ln(10^18) / ln((1 + a) / (1 - a)) is a little below 41.45 / 2a: whole numbers are the same
    // everywhere.
    (20_725_000 / accuracy.max(1)) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::side::SideFunction;
    use proptest::prelude::*;

    const MILLION: u32 = Millionths::ONE.0;

    fn of(accuracy: u32, numbers: &[f64]) -> Quantile {
        let mut quantile = Quantile::new(Millionths(accuracy));
        for number in numbers {
            quantile.add(Datum::Float(*number));
        }
        quantile
    }

    #[test]
    fn places_are_those_of_the_definition() {
        let hundred: Vec<_> = (1..=100).map(f64::from).collect();
        let quantile = of(1_000, &hundred);
        for (p, exact) in [(10_000, 1.0), (500_000, 50.0), (900_000, 90.0), (999_999, 99.0)] {
            let got = quantile.at(Millionths(p)).unwrap();
            assert!((got / exact - 1.0).abs() <= 0.001_000_1, "{p}: {got}");
        }
        assert_eq!(of(1_000, &[]).at(Millionths(500_000)), None);
        assert_eq!(of(1_000, &[0.0, -0.0, 0.0]).at(Millionths(500_000)), Some(0.0));
    }

    #[test]
    fn the_ends_of_the_type_have_their_places() {
        let ends = [f64::NEG_INFINITY, f64::MIN, -1.0, 0.0, f64::MIN_POSITIVE, f64::MAX];
        let quantile = of(10_000, &[&ends[..], &[f64::INFINITY, f64::NAN]].concat());
        for (place, exact) in ends.iter().enumerate() {
            // The next higher millionth: places are rounded down.
            let p = (place as u32 * MILLION).div_ceil(7);
            let got = quantile.at(Millionths(p)).unwrap();
            let off = if *exact == got { 0.0 } else { (got / exact - 1.0).abs() };
            assert!(off <= 0.010_001, "{place}: {got} for {exact}");
        }
        assert_eq!(quantile.at(Millionths((6 * MILLION).div_ceil(7))), Some(f64::INFINITY));
        assert!(quantile.at(Millionths::ONE).unwrap().is_nan());
        let mut whole = Quantile::new(Millionths(10_000));
        whole.add(Datum::Int(i128::MAX));
        assert!(
            (whole.at(Millionths(500_000)).unwrap() / 2_f64.powi(127) - 1.0).abs() <= 0.010_001
        );
    }

    #[test]
    fn of_too_many_bins_the_lowest_are_one() {
        let accuracy = SideFunction::ACCURACY.0;
        let wide: Vec<_> =
            (-300..300).flat_map(|e| [1.0, 2.0, 4.0, 7.0].map(|m| m * 10_f64.powi(e))).collect();
        let bins_max = bins_max(accuracy);
        assert_eq!(bins_max, 2_073);
        let quantile = of(accuracy, &wide);
        assert_eq!(quantile.bins.len(), bins_max);
        // Room for twice as many, at most.
        assert!(quantile.bytes() < 2 * 16 * bins_max);
        let mut turned = wide.clone();
        turned.reverse();
        assert_eq!(of(accuracy, &turned), quantile);
        // The highest are as they would be without the bound.
        let got = quantile.at(Millionths(900_000)).unwrap();
        let exact = wide[(wide.len() - 1) * 9 / 10];
        assert!((got / exact - 1.0).abs() <= 0.010_001, "{got} for {exact}");
    }

    proptest! {
        /// Any cut, any order; within the accuracy of the value that sorting gives; and what was
        /// taken in can be taken out.
        #[test]
        fn quantiles_are_within_the_accuracy_however_they_are_cut(
            numbers in prop::collection::vec(prop_oneof![-1e9..1e9_f64, -10.0..10.0_f64], 1..200),
            cut in 0_usize..200,
            p in 1..MILLION,
            accuracy in 1_000..100_000_u32,
        ) {
            let (left, right) = numbers.split_at(cut.min(numbers.len()));
            let whole = of(accuracy, &numbers);
            let mut merged = of(accuracy, right);
            merged.merge(&of(accuracy, left));
            prop_assert_eq!(&whole, &merged);
            let mut sorted = numbers.clone();
            sorted.sort_by(f64::total_cmp);
            let exact = sorted[((sorted.len() - 1) as u64 * u64::from(p) / 1_000_000) as usize];
            let (got, error) = (whole.at(Millionths(p)).unwrap(), f64::from(accuracy) / 1e6 + 1e-9);
            prop_assert!((got - exact).abs() <= exact.abs() * error, "{} for {}", got, exact);
            let mut less = of(accuracy, left);
            less.negate();
            merged.merge(&less);
            prop_assert_eq!(merged, of(accuracy, right));
            prop_assert!(whole.is_sound(Millionths(accuracy)));
        }
    }
}
