//! The whole numbers that an expression can have as its value: decides the type of a derived field.
//!
//! Bounds are those of exact arithmetic, saturated at 128 bits. They may be wider than what really
//! comes, never narrower, so that a value always fits the type chosen by [`Range::ty`].

use crate::value::Type;

/// A closed interval of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// Smallest value.
    pub(super) low: i128,
    /// Largest value.
    pub(super) high: i128,
}

impl Range {
    /// Every whole number.
    pub(super) const ALL: Self = Self { low: i128::MIN, high: i128::MAX };

    /// The interval from `low` to `high`, both in it.
    pub(super) const fn new(low: i128, high: i128) -> Self {
        Self { low, high }
    }

    /// The interval of one number.
    pub(super) const fn of(number: i128) -> Self {
        Self::new(number, number)
    }

    /// The narrowest type that holds all of it.
    pub(super) fn ty(self) -> Type {
        [Type::U8, Type::U16, Type::U32, Type::I64, Type::U64]
            .into_iter()
            .find(|ty| {
                ty.integer_range().is_some_and(|(low, high)| low <= self.low && self.high <= high)
            })
            .unwrap_or(Type::Big)
    }

    /// What lies in either.
    pub(super) fn union(self, other: Self) -> Self {
        Self::new(self.low.min(other.low), self.high.max(other.high))
    }

    pub(super) const fn negate(self) -> Self {
        Self::new(self.high.saturating_neg(), self.low.saturating_neg())
    }

    pub(super) const fn add(self, other: Self) -> Self {
        Self::new(self.low.saturating_add(other.low), self.high.saturating_add(other.high))
    }

    pub(super) const fn subtract(self, other: Self) -> Self {
        Self::new(self.low.saturating_sub(other.high), self.high.saturating_sub(other.low))
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        let corner = self.low.saturating_mul(other.low);
        [
            self.low.saturating_mul(other.high),
            self.high.saturating_mul(other.low),
            self.high.saturating_mul(other.high),
        ]
        .into_iter()
        .fold(Self::of(corner), |range, corner| range.union(Self::of(corner)))
    }

    /// Quotients, cut towards zero: extreme at the ends of the dividend, over the divisors nearest
    /// to and farthest from zero on either side.
    pub(super) fn divide(self, other: Self) -> Self {
        let divisors = [other.low, other.high, -1, 1]
            .into_iter()
            .filter(|divisor| *divisor != 0 && other.low <= *divisor && *divisor <= other.high);
        divisors
            .flat_map(|divisor| [self.low, self.high].map(|end| end.saturating_div(divisor)))
            .map(Self::of)
            .reduce(Self::union)
            // Nothing but zero to divide by: every evaluation fails.
            .unwrap_or(Self::of(0))
    }

    /// Remainders, which have the sign of the dividend and are smaller than the divisor.
    pub(super) fn remainder(self, other: Self) -> Self {
        let divisor = other.low.unsigned_abs().max(other.high.unsigned_abs());
        let most = i128::try_from(divisor.saturating_sub(1)).unwrap_or(i128::MAX);
        Self::new(self.low.min(0).max(-most), self.high.max(0).min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_narrowest_type_holds_the_range() {
        for (low, high, ty) in [
            (0, 255, Type::U8),
            (0, 256, Type::U16),
            (0, 65_536, Type::U32),
            (0, 1 << 32, Type::I64),
            (-1, 0, Type::I64),
            (0, i128::from(u64::MAX), Type::U64),
            (-1, i128::from(u64::MAX), Type::Big),
            (i128::MIN, i128::MAX, Type::Big),
        ] {
            assert_eq!(Range::new(low, high).ty(), ty, "{low}..={high}");
        }
    }

    #[test]
    fn ranges_at_the_ends_of_128_bits_saturate() {
        let all = Range::ALL;
        for range in [all.add(all), all.subtract(all), all.multiply(all), all.divide(all)] {
            assert_eq!(range, all);
        }
        assert_eq!(all.negate(), Range::new(-i128::MAX, i128::MAX));
        assert_eq!(all.remainder(all), Range::new(-i128::MAX, i128::MAX));
        assert_eq!(Range::of(7).divide(Range::of(0)), Range::of(0));
        assert_eq!(Range::of(7).remainder(Range::of(0)), Range::of(0));
    }

    fn range() -> impl Strategy<Value = (Range, i128)> {
        let end = prop_oneof![-9_i128..=9, Just(i128::MIN), Just(i128::MAX), any::<i128>()];
        (end.clone(), end.clone(), end).prop_map(|(a, b, c)| {
            let mut sorted = [a, b, c];
            sorted.sort_unstable();
            (Range::new(sorted[0], sorted[2]), sorted[1])
        })
    }

    proptest! {
        #[test]
        fn every_result_lies_in_its_range((a, x) in range(), (b, y) in range()) {
            for (result, range) in [
                (x.checked_add(y), a.add(b)),
                (x.checked_sub(y), a.subtract(b)),
                (x.checked_mul(y), a.multiply(b)),
                (x.checked_div(y), a.divide(b)),
                (x.checked_rem(y), a.remainder(b)),
                (x.checked_neg(), a.negate()),
                (Some(y), a.union(b)),
            ] {
                if let Some(result) = result {
                    prop_assert!(range.low <= result && result <= range.high, "{result} {range:?}");
                }
            }
        }
    }
}
