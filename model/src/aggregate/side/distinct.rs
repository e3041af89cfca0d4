//! How many different values came: HyperLogLog (Flajolet et al. 2007) with the estimator of Ertl
//! (2017, "New cardinality estimation algorithms for HyperLogLog sketches"), which needs no tables
//! of corrections.
//!
//! Few values are kept as their hashes: their count is exact. Beyond 2^precision / 8 of them, which
//! take the room of the registers, registers follow. Invariant: what is kept depends on the *set*
//! of values alone, so that the order of values, batches and merges cannot change a result.

use crate::key::stable_datum_hash;
use crate::symbol::Symbols;
use crate::value::Datum;
use serde::{Deserialize, Serialize};

/// A set of values that can be counted, not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distinct {
    precision: u8,
    kept: Kept,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Kept {
    /// The hashes of all values, ascending.
    Hashes(Vec<u64>),
    /// By the first bits of a hash: one more than the most zeros that stood behind them.
    Registers(Vec<u8>),
}

impl Distinct {
    /// No values; 2^`precision` registers when there are many.
    pub(super) const fn new(precision: u8) -> Self {
        Self { precision, kept: Kept::Hashes(Vec::new()) }
    }

    pub(super) const fn is_empty(&self) -> bool {
        match &self.kept {
            Kept::Hashes(hashes) => hashes.is_empty(),
            Kept::Registers(_) => false,
        }
    }

    /// Most hashes that are kept as such.
    const fn hashes_max(&self) -> usize {
        (1 << self.precision) / 8
    }

    pub(super) fn add(&mut self, datum: Datum, symbols: &Symbols) {
        self.add_hash(stable_datum_hash(datum, symbols));
    }

    fn add_hash(&mut self, hash: u64) {
        let hashes_max = self.hashes_max();
        match &mut self.kept {
            Kept::Hashes(hashes) => {
                let Err(place) = hashes.binary_search(&hash) else { return };
                if hashes.len() < hashes_max {
                    hashes.insert(place, hash);
                    return;
                }
                let mut registers = vec![0; 1 << self.precision];
                for known in hashes.iter().chain([&hash]) {
                    register(&mut registers, self.precision, *known);
                }
                self.kept = Kept::Registers(registers);
            }
            Kept::Registers(registers) => register(registers, self.precision, hash),
        }
    }

    pub(super) fn merge(&mut self, part: &Self) {
        match (&mut self.kept, &part.kept) {
            (_, Kept::Hashes(hashes)) => {
                for hash in hashes {
                    self.add_hash(*hash);
                }
            }
            (Kept::Hashes(_), Kept::Registers(_)) => {
                let own = std::mem::replace(self, part.clone());
                self.merge(&own);
            }
            (Kept::Registers(own), Kept::Registers(part)) => {
                for (own, part) in own.iter_mut().zip(part) {
                    *own = (*own).max(*part);
                }
            }
        }
    }

    /// About how many different values came.
    pub(super) fn estimate(&self) -> u64 {
        match &self.kept {
            Kept::Hashes(hashes) => hashes.len() as u64,
            Kept::Registers(registers) => estimate(registers, self.precision).round() as u64,
        }
    }

    /// Whether what was read can be used with 2^`precision` registers.
    pub(super) fn is_sound(&self, precision: u8) -> bool {
        let is_whole = match &self.kept {
            Kept::Hashes(hashes) => {
                hashes.len() <= self.hashes_max() && hashes.is_sorted_by(|a, b| a < b)
            }
            Kept::Registers(registers) => {
                registers.len() == 1 << precision
                    && registers.iter().all(|rank| *rank <= rank_max(precision))
            }
        };
        self.precision == precision && is_whole
    }

    pub(super) fn bytes(&self) -> usize {
        let kept = match &self.kept {
            Kept::Hashes(hashes) => hashes.capacity() * 8,
            Kept::Registers(registers) => registers.capacity(),
        };
        size_of::<Self>() + kept
    }
}

/// The rank of a hash whose bits behind the register's number are all zero.
const fn rank_max(precision: u8) -> u8 {
    64 - precision + 1
}

fn register(registers: &mut [u8], precision: u8, hash: u64) {
    let number = (hash >> (64 - precision)) as usize;
    let rank = (hash << precision).leading_zeros() as u8 + 1;
    if let Some(register) = registers.get_mut(number) {
        *register = (*register).max(rank.min(rank_max(precision)));
    }
}

/// Ertl's improved estimator (algorithm 6): unbiased over the whole range. Only sums, products and
/// square roots, which are the same everywhere.
fn estimate(registers: &[u8], precision: u8) -> f64 {
    let mut counts = [0_u32; 66];
    for rank in registers {
        if let Some(count) = counts.get_mut(usize::from(*rank)) {
            *count += 1;
        }
    }
    let of = |rank: u8| f64::from(counts.get(usize::from(rank)).copied().unwrap_or(0));
    let registers = f64::from(1_u32 << precision);
    let top = rank_max(precision);
    let mut sum = registers * tau(1.0 - of(top) / registers);
    for rank in (1..top).rev() {
        sum = 0.5 * (sum + of(rank));
    }
    sum += registers * sigma(of(0) / registers);
    registers * registers / (2.0 * std::f64::consts::LN_2 * sum)
}

/// x + the sum over k of x^(2^k) 2^(k-1): what empty registers say.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

/// A third of 1 - x - the sum over k of (1 - x^(2^-k))^2 2^-k: what full registers say.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::side::SideFunction;
    use proptest::prelude::*;

    fn of(precision: u8, numbers: impl IntoIterator<Item = u64>) -> Distinct {
        let (mut distinct, symbols) = (Distinct::new(precision), Symbols::default());
        for number in numbers {
            distinct.add(Datum::Int(number.into()), &symbols);
        }
        distinct
    }

    #[test]
    fn few_values_are_counted_exactly() {
        for n in [0, 1, 2, 511, 512] {
            let twice = of(12, (0..n).chain((0..n).rev()));
            assert_eq!(twice.estimate(), n);
            assert_eq!(twice.is_empty(), n == 0);
        }
    }

    #[test]
    fn values_of_all_types_are_told_apart_and_equal_ones_are_not() {
        let symbols = Symbols::default();
        let text = symbols.intern("1").unwrap();
        let mut distinct = Distinct::new(12);
        for datum in [
            Datum::Int(1),
            Datum::Int(-1),
            Datum::Text(text),
            Datum::Bool(true),
            Datum::Ip(1),
            Datum::Float(1.0),
            Datum::Float(0.0),
            Datum::Float(-0.0),
            Datum::Float(f64::NAN),
            Datum::Float(-f64::NAN),
        ] {
            distinct.add(datum, &symbols);
        }
        assert_eq!(distinct.estimate(), 8);
    }

    /// The standard error is 1.04 / sqrt(registers); five of them are one in two million.
    #[test]
    fn many_values_are_counted_within_the_error() {
        for precision in [4, 8, SideFunction::PRECISION, SideFunction::PRECISION_MAX] {
            let error = 1.04 / f64::from(1_u32 << precision).sqrt();
            let mut distinct = Distinct::new(precision);
            let mut known = 0;
            for n in [600, 3_000, 20_000, 60_000] {
                distinct.merge(&of(precision, known..n));
                known = n;
                let off = distinct.estimate() as f64 / n as f64 - 1.0;
                assert!(off.abs() < 5.0 * error, "2^{precision} registers, {n}: {off}");
            }
        }
    }

    proptest! {
        /// What is kept is a function of the set, however it is cut and merged.
        #[test]
        fn the_order_and_the_cut_do_not_matter(
            numbers in prop::collection::vec(0_u64..500, 0..400),
            cut in 0_usize..400,
        ) {
            let (left, right) = numbers.split_at(cut.min(numbers.len()));
            let whole = of(10, numbers.iter().copied());
            let mut merged = of(10, left.iter().copied());
            merged.merge(&of(10, right.iter().rev().copied()));
            let mut turned = of(10, right.iter().copied());
            turned.merge(&of(10, left.iter().copied()));
            prop_assert_eq!(&whole, &merged);
            prop_assert_eq!(&whole, &turned);
            prop_assert!(whole.is_sound(10) && !whole.is_sound(11));
        }
    }
}
