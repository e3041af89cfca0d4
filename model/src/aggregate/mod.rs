//! Aggregates: accumulators as fixed words, a few each, side by side; and what has no fixed size
//! beside them.
//!
//! Each is a commutative monoid (`zero`, `add`, `merge`): the result does not depend on order or
//! on how records were batched. Whole numbers are summed in 128 bits, exactly; an overflow is an
//! error, never a wrap. Float sums are compensated (Neumaier 1974) and marked approximate. What
//! an aggregate computes is in `function`, side values are in [`side`].
#![expect(clippy::indexing_slicing, reason = "offsets come from the layout that sized the words")]

mod accumulator;
mod function;
mod results;
pub mod side;
mod squares;
mod values;
mod words;

#[cfg(test)]
mod tests;

pub use accumulator::Accumulator;
pub(crate) use accumulator::Step;
pub use function::Function;
pub(crate) use values::sides_bytes;
pub use values::{Values, ValuesMut, ValuesRef};

use crate::row::wide;
use crate::symbol::Symbols;
use crate::time::EventTime;
use crate::value::{Datum, Type};
use side::Side;
use words::{
    add_float, add_int, count, keep_extreme, keep_timed, load_option, overflow, smaller,
    store_option, whole,
};

/// A sum no longer fits 128 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "aggregate `{aggregate}` overflows 128 bits: the values of its field are out of all reason; filter them out"
)]
pub struct Overflow {
    /// Name of the aggregate.
    pub aggregate: Box<str>,
}

/// Merges sums of squares, or takes them out.
fn merge_squares(
    words: &mut [u64],
    (part, accumulator): (&[u64], &Accumulator),
    is_taken_out: bool,
) -> Result<(), Overflow> {
    if accumulator.ty == Type::F64 {
        squares::merge_double(words, part, is_taken_out);
        return Ok(());
    }
    let merged = squares::merge_whole(words, part, is_taken_out);
    merged.ok_or_else(|| overflow(accumulator))
}

/// The accumulators of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AggregateLayout {
    accumulators: Vec<Accumulator>,
    words: usize,
    sides: usize,
}

impl AggregateLayout {
    /// The layout of aggregates given as name, function and type of input.
    pub fn new(aggregates: impl IntoIterator<Item = (Box<str>, Function, Type)>) -> Self {
        let mut layout = Self::default();
        for aggregate in aggregates {
            let accumulator = Accumulator::new(aggregate, (layout.words, layout.sides));
            layout.words += accumulator.words();
            layout.sides += usize::from(accumulator.function.has_side());
            layout.accumulators.push(accumulator);
        }
        layout
    }

    /// Words of all accumulators. All zero is the empty aggregate.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Side values of all accumulators.
    pub fn sides(&self) -> usize {
        self.sides
    }

    /// Accumulators into which nothing has come.
    pub fn empty(&self) -> Values {
        Values { words: vec![0; self.words], sides: vec![Side::Empty; self.sides] }
    }

    /// Makes what was read from outside side values of this layout; says whether they can be that.
    pub(crate) fn give_sides(&self, sides: &mut [Side]) -> bool {
        let functions = self.accumulators.iter().filter_map(|known| match known.function {
            Function::Side(function) => Some(function),
            Function::Count
            | Function::Sum
            | Function::Min
            | Function::Max
            | Function::Mean
            | Function::First
            | Function::Last
            | Function::Variance { .. } => None,
        });
        sides.len() == self.sides
            && sides.iter_mut().zip(functions).all(|(side, function)| side.give_to(function))
    }

    /// The accumulators, in order.
    pub fn accumulators(&self) -> &[Accumulator] {
        &self.accumulators
    }

    /// Whether what `from`, accumulators of `other`, keep lies as it does in this layout.
    pub fn lies_as(&self, other: &AggregateLayout, from: &[usize]) -> bool {
        let lie = |known: &Accumulator| (known.function.kept(), known.ty, known.word, known.side);
        let own = self.accumulators.iter().map(|own| Some(lie(own)));
        let part = from.iter().map(|index| other.accumulators.get(*index).map(lie));
        (self.words, self.sides) == (other.words, other.sides) && own.eq(part)
    }

    /// Number of the aggregate called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.accumulators.iter().position(|accumulator| &*accumulator.name == name)
    }

    /// Adds one value of one record to accumulator `index`. Null adds nothing (a count counts
    /// records: give it any value).
    ///
    /// # Errors
    /// [`Overflow`]; the words are then as before.
    pub fn add<'a>(
        &self,
        values: impl Into<ValuesMut<'a>>,
        index: usize,
        (datum, time): (Datum, EventTime),
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let Some(accumulator) = self.accumulators.get(index) else { return Ok(()) };
        if datum == Datum::Null {
            return Ok(());
        }
        let values = values.into();
        let words = &mut values.words[accumulator.range()];
        match (accumulator.function, datum) {
            (Function::Count, _) => count(&mut words[0], 1),
            (Function::Sum, Datum::Int(number)) => add_int(words, number, accumulator)?,
            (Function::Mean, Datum::Int(number)) => {
                add_int(words, number, accumulator)?;
                count(&mut words[2], 1);
            }
            (Function::Sum, Datum::Float(number)) => add_float(words, number),
            (Function::Mean, Datum::Float(number)) => {
                add_float(words, number);
                count(&mut words[2], 1);
            }
            (Function::Min | Function::Max, datum) => {
                keep_extreme(words, datum, accumulator, symbols);
            }
            (Function::First | Function::Last, datum) => {
                keep_timed(words, (datum, time), accumulator, symbols);
            }
            (Function::Variance { .. }, Datum::Int(number)) => {
                squares::add_whole(words, 1, number, squares::square(number))
                    .ok_or_else(|| overflow(accumulator))?;
            }
            (Function::Variance { .. }, Datum::Float(number)) => {
                squares::add_double(words, number);
            }
            (Function::Side(function), datum) => {
                values.sides[accumulator.side].add(function, (datum, time), symbols);
            }
            (
                Function::Sum | Function::Mean | Function::Variance { .. },
                Datum::Null | Datum::Bool(_) | Datum::Text(_) | Datum::Object(_) | Datum::Ip(_),
            ) => {}
        }
        Ok(())
    }

    /// Makes `datum` the only value of accumulator `index`, which keeps the largest or the smallest.
    pub(crate) fn put(&self, values: &mut Values, index: usize, datum: Datum) {
        let Some(accumulator) = self.accumulators.get(index) else { return };
        let words = &mut values.words[accumulator.range()];
        if datum == Datum::Null {
            words.fill(0);
        } else {
            store_option(words, datum, accumulator.ty);
        }
    }

    /// Merges accumulator `from` of `other` (values of `source`) into accumulator `to` of `values`;
    /// both must keep the same and have the same type.
    ///
    /// # Errors
    /// [`Overflow`]; the values are then as before.
    pub fn merge(
        &self,
        (values, to): (ValuesMut<'_>, usize),
        other: &AggregateLayout,
        (source, from): (ValuesRef<'_>, usize),
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let (Some(into), Some(part)) = (self.accumulators.get(to), other.accumulators.get(from))
        else {
            return Ok(());
        };
        let (words, sides) = (&mut values.words[into.range()], values.sides);
        let (source, parts) = (&source.words[part.range()], source.sides);
        match into.function {
            Function::Side(_) => sides[into.side].merge(&parts[part.side]),
            Function::Variance { .. } => merge_squares(words, (source, into), false)?,
            Function::Count => count(&mut words[0], source[0] as i64),
            Function::Sum | Function::Mean => {
                if into.ty == Type::F64 {
                    add_float(words, f64::from_bits(source[0]));
                    add_float(words, f64::from_bits(source[1]));
                } else {
                    add_int(words, wide(source[0], source[1]) as i128, into)?;
                }
                if into.function == Function::Mean {
                    count(&mut words[2], source[2] as i64);
                }
            }
            Function::Min | Function::Max => {
                let datum = load_option(source, part.ty);
                if datum != Datum::Null {
                    keep_extreme(words, datum, into, symbols);
                }
            }
            Function::First | Function::Last => {
                let datum = load_option(&source[1..], part.ty);
                let time = EventTime::from_millis(source[0] as i64);
                if datum != Datum::Null {
                    keep_timed(words, (datum, time), into, symbols);
                }
            }
        }
        Ok(())
    }

    /// Merges all accumulators of `source`, which has this layout.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn merge_all<'a, 'b>(
        &self,
        values: impl Into<ValuesMut<'a>>,
        source: impl Into<ValuesRef<'b>>,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let (mut values, source) = (values.into(), source.into());
        for (index, accumulator) in self.accumulators.iter().enumerate() {
            let at = accumulator.word;
            let (words, part) = (&mut *values.words, source.words);
            match accumulator.step() {
                Step::Count => count(&mut words[at], part[at] as i64),
                Step::Whole => {
                    add_int(&mut words[at..at + 2], whole(&part[at..at + 2]), accumulator)?;
                }
                Step::Largest => words[at] = words[at].max(part[at]),
                Step::Smallest => words[at] = smaller(words[at], part[at]),
                Step::Other | Step::Side => {
                    self.merge((values.reborrow(), index), self, (source, index), symbols)?;
                }
            }
        }
        Ok(())
    }

    /// Adds `number` to the whole sum of `accumulator`, one of this layout.
    ///
    /// # Errors
    /// [`Overflow`]; the words are then as before.
    pub(crate) fn add_whole(
        words: &mut [u64],
        accumulator: &Accumulator,
        number: i128,
    ) -> Result<(), Overflow> {
        add_int(&mut words[accumulator.word..accumulator.word + 2], number, accumulator)
    }

    /// Counts one in `accumulator`, a count of this layout.
    pub(crate) fn count_one(words: &mut [u64], accumulator: &Accumulator) {
        count(&mut words[accumulator.word], 1);
    }

    /// Takes the narrow value of a row's word into `accumulator`, an extreme of this layout.
    pub(crate) fn keep_narrow(words: &mut [u64], accumulator: &Accumulator, value: u64) {
        let (kept, value) = (&mut words[accumulator.word], value.saturating_add(1));
        *kept = match accumulator.step() {
            Step::Smallest => smaller(*kept, value),
            Step::Largest | Step::Count | Step::Whole | Step::Other | Step::Side => {
                value.max(*kept)
            }
        };
    }

    /// Takes `part` out of `values`, where the functions allow it ([`Function::is_subtractable`]);
    /// the others become empty.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn subtract_all<'a, 'b>(
        &self,
        values: impl Into<ValuesMut<'a>>,
        part: impl Into<ValuesRef<'b>>,
    ) -> Result<(), Overflow> {
        let (values, source) = (values.into(), part.into());
        for accumulator in &self.accumulators {
            let words = &mut values.words[accumulator.range()];
            let part = &source.words[accumulator.range()];
            match accumulator.function {
                Function::Variance { .. } => merge_squares(words, (part, accumulator), true)?,
                Function::Side(_) => {
                    let at = accumulator.side;
                    values.sides[at].subtract(&source.sides[at]);
                }
                Function::Count => count(&mut words[0], (part[0] as i64).saturating_neg()),
                Function::Sum | Function::Mean => {
                    if accumulator.ty == Type::F64 {
                        add_float(words, -f64::from_bits(part[0]));
                        add_float(words, -f64::from_bits(part[1]));
                    } else {
                        let less = (wide(part[0], part[1]) as i128).checked_neg();
                        let less = less.ok_or_else(|| overflow(accumulator))?;
                        add_int(words, less, accumulator)?;
                    }
                    if accumulator.function == Function::Mean {
                        count(&mut words[2], (part[2] as i64).saturating_neg());
                    }
                }
                Function::Min | Function::Max | Function::First | Function::Last => words.fill(0),
            }
        }
        Ok(())
    }

    /// Makes accumulator `index` empty.
    pub(crate) fn reset(&self, values: &mut Values, index: usize) {
        let Some(accumulator) = self.accumulators.get(index) else { return };
        values.words[accumulator.range()].fill(0);
        if accumulator.function.has_side() {
            values.sides[accumulator.side] = Side::Empty;
        }
    }

    /// Puts what accumulator `index` of `source` keeps in its place in `values`; both have this
    /// layout.
    pub(crate) fn replace(&self, values: &mut Values, source: &Values, index: usize) {
        let Some(accumulator) = self.accumulators.get(index) else { return };
        let range = accumulator.range();
        values.words[range.clone()].copy_from_slice(&source.words[range]);
        if accumulator.function.has_side() {
            values.sides[accumulator.side].clone_from(&source.sides[accumulator.side]);
        }
    }
}
