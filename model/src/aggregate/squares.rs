//! Sums of squares for variances.
//!
//! Of whole numbers: the count in one word, the sum in two, the sum of squares in four, all exact
//! and signed, so that parts can be taken out; the result is rounded when it is divided. Of floats:
//! the sum and the sum of squares as two doubles each, the second what rounding has lost, so that
//! they are good to about 100 bits; the relative error of a variance of n values is below
//! 2^-50 + n^2 2^-104 (1 + mean^2 / variance), as long as no square is beyond the doubles.
#![expect(clippy::indexing_slicing, reason = "the caller hands over the words of one accumulator")]

use super::words::{add_float, count, whole};
use crate::row::split;
use std::cmp::Ordering;

/// Words of the variance of whole numbers: count, sum, sum of squares.
pub(super) const WHOLE_WORDS: usize = 7;
/// Words of the variance of floats.
pub(super) const FLOAT_WORDS: usize = 5;

/// 256 bits in two's complement, the low word first.
type Wide = [u64; 4];

const fn low(bits: u128) -> u64 {
    bits as u64
}

const fn high(bits: u128) -> u128 {
    bits >> 64
}

/// a x b, which has room.
const fn product(a: u128, b: u128) -> Wide {
    let (a0, a1) = (low(a) as u128, high(a));
    let (b0, b1) = (low(b) as u128, high(b));
    let (p00, p01, p10, p11) = (a0 * b0, a0 * b1, a1 * b0, a1 * b1);
    // Sums of three and four numbers of 64 bits; the last is the high half of what has room.
    let middle = high(p00) + low(p01) as u128 + low(p10) as u128;
    let top = p11 + high(p01) + high(p10) + high(middle);
    [low(p00), low(middle), low(top), low(high(top))]
}

/// a + b, and whether that overflows as a signed number.
fn sum(a: Wide, b: Wide) -> (Wide, bool) {
    let (mut result, mut carry) = ([0; 4], 0_u128);
    for ((result, a), b) in result.iter_mut().zip(a).zip(b) {
        let part = u128::from(a) + u128::from(b) + carry;
        (*result, carry) = (low(part), high(part));
    }
    let is_negative = |wide: Wide| wide[3] >> 63 == 1;
    let overflows = is_negative(a) == is_negative(b) && is_negative(result) != is_negative(a);
    (result, overflows)
}

fn negated(wide: Wide) -> Wide {
    sum(wide.map(|word| !word), [1, 0, 0, 0]).0
}

/// a x b modulo 2^256.
fn times(wide: Wide, by: u64) -> Wide {
    let (mut result, mut carry) = ([0; 4], 0_u128);
    for (result, word) in result.iter_mut().zip(wide) {
        let part = u128::from(word) * u128::from(by) + carry;
        (*result, carry) = (low(part), high(part));
    }
    result
}

/// As a float, rounded twice at most; `wide` without a sign.
fn as_float(wide: Wide) -> f64 {
    let half = |low: u64, high: u64| (u128::from(high) << 64 | u128::from(low)) as f64;
    half(wide[2], wide[3]) * 2_f64.powi(128) + half(wide[0], wide[1])
}

/// The square of a whole number.
pub(super) fn square(number: i128) -> Wide {
    product(number.unsigned_abs(), number.unsigned_abs())
}

/// Adds to the words of whole numbers; `None`, and nothing is added, if they overflow.
pub(super) fn add_whole(words: &mut [u64], n: i64, number: i128, squares: Wide) -> Option<()> {
    let total = whole(&words[1..3]).checked_add(number)?;
    let (all, overflows) = sum(squares_of(words), squares);
    if overflows {
        return None;
    }
    count(&mut words[0], n);
    words[1..3].copy_from_slice(&split(total as u128));
    words[3..7].copy_from_slice(&all);
    Some(())
}

fn squares_of(words: &[u64]) -> Wide {
    [words[3], words[4], words[5], words[6]]
}

/// Adds all that `part` holds, or takes it out; `None`, and nothing is changed, on overflow.
pub(super) fn merge_whole(words: &mut [u64], part: &[u64], is_taken_out: bool) -> Option<()> {
    let (n, total, squares) = (part[0] as i64, whole(&part[1..3]), squares_of(part));
    if is_taken_out {
        add_whole(words, n.saturating_neg(), total.checked_neg()?, negated(squares))
    } else {
        add_whole(words, n, total, squares)
    }
}

/// The variance of n whole numbers about their mean, times n / `of`.
///
/// With the sum = q n + r: n times the sum of squares about the mean is n A - r^2, where A, the sum
/// of squares about q, is computed modulo 2^256, which it is below.
pub(super) fn whole_variance(words: &[u64], of: i128) -> f64 {
    let n = u64::try_from(words[0] as i64).unwrap_or(0).max(1);
    let total = whole(&words[1..3]);
    let (q, r) = (total.div_euclid(n.into()), total.rem_euclid(n.into()).unsigned_abs());
    let mut about = sum(squares_of(words), negated(times(square(q), n))).0;
    let cross = product(q.unsigned_abs(), 2 * r);
    about = sum(about, if q < 0 { cross } else { negated(cross) }).0;
    let (n_float, of) = (n as f64, of as f64);
    if about[3] != 0 {
        // r^2 is 2^-64 of it, or less.
        return as_float(about) / of;
    }
    let scaled = sum(times(about, n), negated(product(r, r))).0;
    as_float(scaled) / n_float / of
}

/// Adds a float to the words of floats.
pub(super) fn add_double(words: &mut [u64], number: f64) {
    count(&mut words[0], 1);
    add_float(&mut words[1..3], number);
    let (square, rest) = two_product(number, number);
    add_float(&mut words[3..5], square);
    if square.is_finite() {
        add_float(&mut words[3..5], rest);
    }
}

/// Adds all that `part` holds, or takes it out.
pub(super) fn merge_double(words: &mut [u64], part: &[u64], is_taken_out: bool) {
    let n = part[0] as i64;
    count(&mut words[0], if is_taken_out { n.saturating_neg() } else { n });
    for pair in [1..3, 3..5] {
        for bits in &part[pair.clone()] {
            let number = f64::from_bits(*bits);
            add_float(&mut words[pair.clone()], if is_taken_out { -number } else { number });
        }
    }
}

/// As [`whole_variance`], of floats: NaN if a square was beyond the doubles.
pub(super) fn double_variance(words: &[u64], of: i128) -> f64 {
    let n = words[0] as i64 as f64;
    let pair = |at: usize| two_sum(f64::from_bits(words[at]), f64::from_bits(words[at + 1]));
    let ((total, total_rest), (squares, squares_rest)) = (pair(1), pair(3));
    if !squares.is_finite() || !total.is_finite() {
        return f64::NAN;
    }
    // The square of the sum over n, as two doubles, taken from the sum of squares.
    let (square, rest) = two_product(total, total);
    let rest = rest + 2.0 * total * total_rest;
    let mean = square / n;
    let (back, back_rest) = two_product(mean, n);
    let mean_rest = ((square - back) - back_rest + rest) / n;
    let (about, lost) = two_sum(squares, -mean);
    let about = about + (lost + (squares_rest - mean_rest));
    about.max(0.0) / of as f64
}

/// a + b, and what rounding has lost.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let lost = match a.abs().total_cmp(&b.abs()) {
        Ordering::Less => (b - sum) + a,
        Ordering::Equal | Ordering::Greater => (a - sum) + b,
    };
    (sum, lost)
}

/// a x b, and what rounding has lost.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_sums_of_256_bits() {
        let max = u128::MAX;
        assert_eq!(product(max, max), [1, 0, u64::MAX - 1, u64::MAX]);
        assert_eq!(product(1 << 64, 1 << 65), [0, 0, 2, 0]);
        assert_eq!(times([u64::MAX; 4], 2), [u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX]);
        assert_eq!(negated([1, 0, 0, 0]), [u64::MAX; 4]);
        let most = [u64::MAX, u64::MAX, u64::MAX, u64::MAX >> 1];
        assert_eq!(sum(most, [1, 0, 0, 0]), ([0, 0, 0, 1 << 63], true));
        assert!(!sum(most, [u64::MAX; 4]).1);
        assert_eq!(as_float([0, 0, 0, 1]), 2_f64.powi(192));
    }

    #[test]
    fn an_overflow_changes_nothing() {
        let mut words = [0; WHOLE_WORDS];
        let add = |words: &mut [u64], number: i128| add_whole(words, 1, number, square(number));
        // Squares of 2^254 each, sums that cancel: two have no room beside each other.
        assert_eq!(add(&mut words, i128::MIN + 1), Some(()));
        let before = words;
        assert_eq!(add(&mut words, i128::MAX), Some(()));
        assert_eq!(merge_whole(&mut words, &before, true), Some(()));
        assert_eq!(add(&mut words, i128::MAX), None);
    }
}
