//! The words of single accumulators: whole sums, compensated sums, values that may be missing.
#![expect(clippy::indexing_slicing, reason = "the caller hands over the words of one accumulator")]

use super::{Accumulator, Function, Overflow};
use crate::row::{split, wide, words_of};
use crate::symbol::{Symbol, Symbols};
use crate::time::EventTime;
use crate::value::{Datum, Type};
use std::cmp::Ordering;

pub(super) fn overflow(accumulator: &Accumulator) -> Overflow {
    Overflow { aggregate: accumulator.name.clone() }
}

pub(super) fn add_int(
    words: &mut [u64],
    number: i128,
    accumulator: &Accumulator,
) -> Result<(), Overflow> {
    let sum = (wide(words[0], words[1]) as i128).checked_add(number);
    let [low, high] = split(sum.ok_or_else(|| overflow(accumulator))? as u128);
    words[0] = low;
    words[1] = high;
    Ok(())
}

/// The number of two words.
pub(super) fn whole(words: &[u64]) -> i128 {
    wide(words[0], words[1]) as i128
}

/// The smaller of two values, each one more than it is; zero is none.
pub(super) const fn smaller(a: u64, b: u64) -> u64 {
    // None becomes the largest of all.
    let (a, b) = (a.wrapping_sub(1), b.wrapping_sub(1));
    (if a < b { a } else { b }).wrapping_add(1)
}

/// Counts on by `more`. A count is signed: what is to be taken out of a larger one is below zero.
pub(super) fn count(word: &mut u64, more: i64) {
    *word = (*word as i64).saturating_add(more) as u64;
}

/// Neumaier's compensated addition: words are the sum and what rounding has lost.
pub(super) fn add_float(words: &mut [u64], number: f64) {
    let (sum, lost) = (f64::from_bits(words[0]), f64::from_bits(words[1]));
    let next = sum + number;
    let rounding =
        if sum.abs() >= number.abs() { (sum - next) + number } else { (number - next) + sum };
    words[0] = next.to_bits();
    // An infinite sum has lost nothing that could be given back.
    words[1] = if next.is_finite() { (lost + rounding).to_bits() } else { 0 };
}

pub(super) fn float_sum(words: &[u64]) -> f64 {
    f64::from_bits(words[0]) + f64::from_bits(words[1])
}

/// Words of a value that may be missing: narrow types fit one word as value + 1.
pub(super) const fn option_words(ty: Type) -> usize {
    if ty.key_bits() <= 32 { 1 } else { 1 + ty.words() }
}

pub(super) fn load_option(words: &[u64], ty: Type) -> Datum {
    if words[0] == 0 {
        return Datum::Null;
    }
    let narrow = words[0] - 1;
    match ty {
        Type::Bool => Datum::Bool(narrow != 0),
        Type::U8 | Type::U16 | Type::U32 => Datum::Int(i128::from(narrow)),
        Type::Text => Datum::Text(Symbol::from_number(narrow as u32)),
        Type::Object => Datum::Object(Symbol::from_number(narrow as u32)),
        Type::U64 => Datum::Int(i128::from(words[1])),
        Type::I64 => Datum::Int(i128::from(words[1] as i64)),
        Type::F64 => Datum::Float(f64::from_bits(words[1])),
        Type::Big => Datum::Int(wide(words[1], words[2]) as i128),
        Type::Ip => Datum::Ip(wide(words[1], words[2])),
    }
}

pub(super) fn store_option(words: &mut [u64], datum: Datum, ty: Type) {
    let value = words_of(datum);
    if option_words(ty) == 1 {
        words[0] = value[0] + 1;
    } else {
        words[0] = 1;
        words[1..1 + ty.words()].copy_from_slice(&value[..ty.words()]);
    }
}

pub(super) fn keep_extreme(
    words: &mut [u64],
    datum: Datum,
    accumulator: &Accumulator,
    symbols: &Symbols,
) {
    let kept = load_option(words, accumulator.ty);
    let wanted =
        if accumulator.function == Function::Min { Ordering::Less } else { Ordering::Greater };
    if kept == Datum::Null || datum.compare(kept, symbols) == wanted {
        store_option(words, datum, accumulator.ty);
    }
}

pub(super) fn keep_timed(
    words: &mut [u64],
    (datum, time): (Datum, EventTime),
    accumulator: &Accumulator,
    symbols: &Symbols,
) {
    let kept = load_option(&words[1..], accumulator.ty);
    let kept_time = EventTime::from_millis(words[0] as i64);
    let wanted =
        if accumulator.function == Function::First { Ordering::Less } else { Ordering::Greater };
    let order = time.cmp(&kept_time).then_with(|| datum.compare(kept, symbols));
    if kept == Datum::Null || order == wanted {
        words[0] = time.as_millis() as u64;
        store_option(&mut words[1..], datum, accumulator.ty);
    }
}
