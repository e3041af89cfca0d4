//! From accumulators to results, and what snapshots must know of the words.
#![expect(clippy::indexing_slicing, reason = "offsets come from the layout that sized the words")]

use super::accumulator::Step;
use super::squares;
use super::values::ValuesRef;
use super::words::{float_sum, load_option, whole};
use super::{AggregateLayout, Function};
use crate::row::wide;
use crate::symbol::Symbols;
use crate::value::{Datum, Type, Value};

impl AggregateLayout {
    /// The result of accumulator `index` as a value, texts and lists included.
    pub fn result<'a>(
        &self,
        values: impl Into<ValuesRef<'a>>,
        index: usize,
        symbols: &Symbols,
    ) -> Value {
        let values = values.into();
        let own = self.own_result(values, index);
        own.unwrap_or_else(|| self.finish(values, index).value(symbols))
    }

    /// The result of accumulator `index` if it is a text or list of its own, which no datum names.
    pub fn own_result<'a>(&self, values: impl Into<ValuesRef<'a>>, index: usize) -> Option<Value> {
        let accumulator = self.accumulators.get(index)?;
        let Function::Side(function) = accumulator.function else { return None };
        let is_own = accumulator.is_own_text();
        is_own.then(|| values.into().sides[accumulator.side].finish(function))
    }

    /// The result of accumulator `index`; null where it is a text or list of its own
    /// ([`AggregateLayout::result`]).
    pub fn finish<'a>(&self, values: impl Into<ValuesRef<'a>>, index: usize) -> Datum {
        let Some(accumulator) = self.accumulators.get(index) else { return Datum::Null };
        let values = values.into();
        let words = &values.words[accumulator.range()];
        match accumulator.function {
            Function::Variance { is_sample, is_root } => {
                let n = i128::from(words[0] as i64);
                let of = if is_sample { n - 1 } else { n };
                if of < 1 {
                    return Datum::Null;
                }
                let variance = if accumulator.ty == Type::F64 {
                    squares::double_variance(words, of)
                } else {
                    squares::whole_variance(words, of)
                };
                Datum::Float(if is_root { variance.sqrt() } else { variance })
            }
            Function::Side(_) if accumulator.is_own_text() => Datum::Null,
            Function::Side(function) => match values.sides[accumulator.side].finish(function) {
                Value::Bool(truth) => Datum::Bool(truth),
                Value::Int(number) => Datum::Int(number),
                Value::Float(number) => Datum::Float(number),
                Value::Ip(address) => Datum::ip(address),
                Value::Null | Value::Text(_) | Value::Object(_) => Datum::Null,
            },
            Function::Count => Datum::Int(i128::from(words[0] as i64)),
            Function::Sum if accumulator.ty == Type::F64 => Datum::Float(float_sum(words)),
            Function::Sum => Datum::Int(wide(words[0], words[1]) as i128),
            Function::Mean if words[2] == 0 => Datum::Null,
            Function::Mean if accumulator.ty == Type::F64 => {
                Datum::Float(float_sum(words) / words[2] as i64 as f64)
            }
            Function::Mean => {
                Datum::Float((wide(words[0], words[1]) as i128) as f64 / words[2] as i64 as f64)
            }
            Function::Min | Function::Max => load_option(words, accumulator.ty),
            Function::First | Function::Last => load_option(&words[1..], accumulator.ty),
        }
    }

    /// The result of accumulator `index` if it is a whole sum or a count, else 0.
    pub(crate) fn number(&self, words: &[u64], index: usize) -> i128 {
        let Some(accumulator) = self.accumulators.get(index) else { return 0 };
        let at = accumulator.word;
        match accumulator.step() {
            Step::Whole => whole(&words[at..at + 2]),
            Step::Count => i128::from(words[at] as i64),
            Step::Largest | Step::Smallest | Step::Other | Step::Side => 0,
        }
    }

    /// Whether every result of `a` equals that of `b`.
    pub fn same_results<'a, 'b>(
        &self,
        a: impl Into<ValuesRef<'a>>,
        b: impl Into<ValuesRef<'b>>,
    ) -> bool {
        let (a, b) = (a.into(), b.into());
        a == b
            || (0..self.accumulators.len()).all(|index| {
                self.finish(a, index) == self.finish(b, index)
                    && self.own_result(a, index) == self.own_result(b, index)
            })
    }

    /// The words that hold one-based symbol numbers: what a snapshot must write as text.
    pub fn symbol_words(&self) -> impl Iterator<Item = usize> + '_ {
        self.accumulators.iter().filter_map(|accumulator| {
            let is_text = matches!(accumulator.ty, Type::Text | Type::Object);
            match accumulator.function {
                Function::Min | Function::Max if is_text => Some(accumulator.word),
                Function::First | Function::Last if is_text => Some(accumulator.word + 1),
                Function::Count
                | Function::Sum
                | Function::Mean
                | Function::Min
                | Function::Max
                | Function::First
                | Function::Last
                | Function::Variance { .. }
                | Function::Side(_) => None,
            }
        })
    }
}
