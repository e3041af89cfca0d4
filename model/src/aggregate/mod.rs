//! Aggregates as fixed-width accumulators: a few machine words each, side by side.
//!
//! Each is a commutative monoid (`zero`, `add`, `merge`): the result does not depend on order or
//! on how records were batched. Whole numbers are summed in 128 bits, exactly; an overflow is an
//! error, never a wrap. Float sums are compensated (Neumaier 1974) and marked approximate.
#![expect(clippy::indexing_slicing, reason = "offsets come from the layout that sized the words")]

mod words;

use crate::row::wide;
use crate::symbol::Symbols;
use crate::time::EventTime;
use crate::value::{Datum, Type};
use words::{
    add_float, add_int, count, float_sum, keep_extreme, keep_timed, load_option, option_words,
    overflow, smaller, whole,
};

/// What an aggregate computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Number of records.
    Count,
    /// Sum of the values; 0 for none.
    Sum,
    /// Smallest value; null for none.
    Min,
    /// Largest value; null for none.
    Max,
    /// Arithmetic mean as a float; null for none.
    Mean,
    /// Value with the earliest event time (of several, the smallest value); null for none.
    First,
    /// Value with the latest event time (of several, the largest value); null for none.
    Last,
}

impl Function {
    /// Every function.
    pub const ALL: [Self; 7] =
        [Self::Count, Self::Sum, Self::Min, Self::Max, Self::Mean, Self::First, Self::Last];

    /// The name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::First => "first",
            Self::Last => "last",
        }
    }

    /// Whether values of type `ty` can be aggregated so.
    pub const fn accepts(self, ty: Type) -> bool {
        match self {
            Self::Count | Self::Min | Self::Max | Self::First | Self::Last => true,
            Self::Sum | Self::Mean => ty.is_numeric(),
        }
    }

    /// Whether a part can be taken out of a whole again.
    pub const fn is_subtractable(self) -> bool {
        match self {
            Self::Count | Self::Sum | Self::Mean => true,
            Self::Min | Self::Max | Self::First | Self::Last => false,
        }
    }
}

/// A sum no longer fits 128 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "aggregate `{aggregate}` overflows 128 bits: the values of its field are out of all reason; filter them out"
)]
pub struct Overflow {
    /// Name of the aggregate.
    pub aggregate: Box<str>,
}

/// One aggregate of a stage and where its words lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accumulator {
    /// Name, unique in its stage.
    pub name: Box<str>,
    /// What it computes.
    pub function: Function,
    /// Type of the values it takes; [`Type::U64`] for a count.
    pub ty: Type,
    word: usize,
    step: Step,
}

/// How a value goes into its words: the frequent ways without a look at function and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// One word counts, signed.
    Count,
    /// Two words hold a whole sum.
    Whole,
    /// One word holds the largest value and one, or zero for none.
    Largest,
    /// One word holds the smallest value and one, or zero for none.
    Smallest,
    /// Any other way.
    Other,
}

impl Step {
    const fn of(function: Function, ty: Type) -> Self {
        let is_narrow = matches!(ty, Type::Bool | Type::U8 | Type::U16 | Type::U32);
        match function {
            Function::Count => Self::Count,
            Function::Sum if ty.is_integer() => Self::Whole,
            Function::Max if is_narrow => Self::Largest,
            Function::Min if is_narrow => Self::Smallest,
            Function::Sum
            | Function::Min
            | Function::Max
            | Function::Mean
            | Function::First
            | Function::Last => Self::Other,
        }
    }
}

impl Accumulator {
    /// How its values go into its words.
    pub(crate) const fn step(&self) -> Step {
        self.step
    }

    /// Whether its result is exact; float sums are not.
    pub fn is_exact(&self) -> bool {
        match self.function {
            Function::Sum => self.ty != Type::F64,
            Function::Mean => false,
            Function::Count | Function::Min | Function::Max | Function::First | Function::Last => {
                true
            }
        }
    }

    /// The type of its result.
    pub const fn result_type(&self) -> Type {
        match self.function {
            Function::Count => Type::U64,
            Function::Mean => Type::F64,
            Function::Sum => match self.ty {
                Type::F64 => Type::F64,
                Type::Bool
                | Type::U8
                | Type::U16
                | Type::U32
                | Type::U64
                | Type::I64
                | Type::Big
                | Type::Text
                | Type::Ip
                | Type::Object => Type::Big,
            },
            Function::Min | Function::Max | Function::First | Function::Last => self.ty,
        }
    }

    fn words(&self) -> usize {
        match self.function {
            Function::Count => 1,
            Function::Sum => 2,
            Function::Mean => 3,
            Function::Min | Function::Max => option_words(self.ty),
            Function::First | Function::Last => 1 + option_words(self.ty),
        }
    }
}

/// The accumulators of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AggregateLayout {
    accumulators: Vec<Accumulator>,
    words: usize,
}

impl AggregateLayout {
    /// The layout of aggregates given as name, function and type of input.
    pub fn new(aggregates: impl IntoIterator<Item = (Box<str>, Function, Type)>) -> Self {
        let mut layout = Self::default();
        for (name, function, ty) in aggregates {
            let step = Step::of(function, ty);
            let accumulator = Accumulator { name, function, ty, word: layout.words, step };
            layout.words += accumulator.words();
            layout.accumulators.push(accumulator);
        }
        layout
    }

    /// Words of all accumulators. All zero is the empty aggregate.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The accumulators, in order.
    pub fn accumulators(&self) -> &[Accumulator] {
        &self.accumulators
    }

    /// Whether the words of `from`, accumulators of `other`, lie as the words of this layout do.
    pub fn lies_as(&self, other: &AggregateLayout, from: &[usize]) -> bool {
        let part = |index: &usize| {
            let accumulator = other.accumulators.get(*index)?;
            Some((accumulator.function, accumulator.ty, accumulator.word))
        };
        let own = self.accumulators.iter().map(|own| Some((own.function, own.ty, own.word)));
        self.words == other.words && own.eq(from.iter().map(part))
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
    pub fn add(
        &self,
        words: &mut [u64],
        index: usize,
        (datum, time): (Datum, EventTime),
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let Some(accumulator) = self.accumulators.get(index) else { return Ok(()) };
        if datum == Datum::Null {
            return Ok(());
        }
        let words = &mut words[accumulator.word..accumulator.word + accumulator.words()];
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
            (
                Function::Sum | Function::Mean,
                Datum::Null | Datum::Bool(_) | Datum::Text(_) | Datum::Object(_) | Datum::Ip(_),
            ) => {}
        }
        Ok(())
    }

    /// Merges accumulator `from` of `other` (words of `source`) into accumulator `to` of `words`;
    /// both must have the same function and type.
    ///
    /// # Errors
    /// [`Overflow`]; the words are then as before.
    pub fn merge(
        &self,
        (words, to): (&mut [u64], usize),
        other: &AggregateLayout,
        (source, from): (&[u64], usize),
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let (Some(into), Some(part)) = (self.accumulators.get(to), other.accumulators.get(from))
        else {
            return Ok(());
        };
        let words = &mut words[into.word..into.word + into.words()];
        let source = &source[part.word..part.word + part.words()];
        match into.function {
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
    pub fn merge_all(
        &self,
        words: &mut [u64],
        source: &[u64],
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        for (index, accumulator) in self.accumulators.iter().enumerate() {
            let at = accumulator.word;
            match accumulator.step {
                Step::Count => count(&mut words[at], source[at] as i64),
                Step::Whole => {
                    add_int(&mut words[at..at + 2], whole(&source[at..at + 2]), accumulator)?;
                }
                Step::Largest => words[at] = words[at].max(source[at]),
                Step::Smallest => words[at] = smaller(words[at], source[at]),
                Step::Other => self.merge((words, index), self, (source, index), symbols)?,
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
        *kept = match accumulator.step {
            Step::Smallest => smaller(*kept, value),
            Step::Largest | Step::Count | Step::Whole | Step::Other => value.max(*kept),
        };
    }

    /// Takes `part` out of `words`, where the functions allow it ([`Function::is_subtractable`]);
    /// the others become empty.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn subtract_all(&self, words: &mut [u64], part: &[u64]) -> Result<(), Overflow> {
        for accumulator in &self.accumulators {
            let range = accumulator.word..accumulator.word + accumulator.words();
            let (words, part) = (&mut words[range.clone()], &part[range]);
            match accumulator.function {
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

    /// The result of accumulator `index`.
    pub fn finish(&self, words: &[u64], index: usize) -> Datum {
        let Some(accumulator) = self.accumulators.get(index) else { return Datum::Null };
        let words = &words[accumulator.word..accumulator.word + accumulator.words()];
        match accumulator.function {
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
        match accumulator.step {
            Step::Whole => whole(&words[at..at + 2]),
            Step::Count => i128::from(words[at] as i64),
            Step::Largest | Step::Smallest | Step::Other => 0,
        }
    }

    /// Whether every result of `a` equals that of `b`.
    pub fn same_results(&self, a: &[u64], b: &[u64]) -> bool {
        a == b
            || (0..self.accumulators.len())
                .all(|index| self.finish(a, index) == self.finish(b, index))
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
                | Function::Last => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Input<'a> = &'a [(i64, Datum)];

    fn run(function: Function, ty: Type, input: Input<'_>) -> Datum {
        let layout = AggregateLayout::new([("a".into(), function, ty)]);
        let symbols = Symbols::default();
        // Every way to cut the input in two parts must give the same result.
        let mut results = Vec::new();
        for cut in 0..=input.len() {
            let mut parts = [vec![0; layout.words()], vec![0; layout.words()]];
            for (index, (time, datum)) in input.iter().enumerate() {
                let part = &mut parts[usize::from(index >= cut)];
                let time = EventTime::from_millis(*time);
                layout.add(part, 0, (*datum, time), &symbols).unwrap();
            }
            let [mut left, right] = parts;
            layout.merge_all(&mut left, &right, &symbols).unwrap();
            results.push(layout.finish(&left, 0));
        }
        results.dedup();
        assert_eq!(results.len(), 1, "{function:?} depends on the cut: {results:?}");
        results[0]
    }

    #[test]
    fn results_are_those_of_the_definition() {
        use Datum::{Bool, Float, Int, Null};
        let ints: Input<'_> = &[(3, Int(5)), (1, Int(-7)), (2, Null), (3, Int(9))];
        let floats: Input<'_> = &[(0, Float(1e100)), (0, Float(1.0)), (0, Float(-1e100))];
        let flags: Input<'_> = &[(0, Bool(false)), (0, Bool(true))];
        for (function, ty, input, expected) in [
            (Function::Count, Type::I64, ints, Int(3)),
            (Function::Sum, Type::I64, ints, Int(7)),
            (Function::Min, Type::I64, ints, Int(-7)),
            (Function::Max, Type::I64, ints, Int(9)),
            (Function::Mean, Type::I64, ints, Float(7.0 / 3.0)),
            (Function::First, Type::I64, ints, Int(-7)),
            (Function::Last, Type::I64, ints, Int(9)),
            (Function::Sum, Type::F64, floats, Float(1.0)),
            (Function::Max, Type::Bool, flags, Bool(true)),
            (Function::Min, Type::Bool, flags, Bool(false)),
            (Function::Sum, Type::I64, &[], Int(0)),
            (Function::Mean, Type::F64, &[], Null),
            (Function::Max, Type::Big, &[(0, Int(1 << 100))], Int(1 << 100)),
            (Function::First, Type::Ip, &[(2, Datum::Ip(7)), (1, Datum::Ip(8))], Datum::Ip(8)),
        ] {
            assert_eq!(run(function, ty, input), expected, "{function:?} {ty}");
        }
    }

    #[test]
    fn an_overflow_is_an_error_and_changes_nothing() {
        let layout = AggregateLayout::new([("big".into(), Function::Sum, Type::Big)]);
        let symbols = Symbols::default();
        let mut words = vec![0; layout.words()];
        let add = |words: &mut [u64], number| {
            layout.add(words, 0, (Datum::Int(number), EventTime::MIN), &symbols)
        };
        add(&mut words, i128::MAX).unwrap();
        assert_eq!(add(&mut words, 1), Err(Overflow { aggregate: "big".into() }));
        assert_eq!(layout.finish(&words, 0), Datum::Int(i128::MAX));
    }

    #[test]
    fn texts_compare_as_texts_not_by_symbol() {
        let symbols = Symbols::default();
        let (b, a) = (symbols.intern("b").unwrap(), symbols.intern("a").unwrap());
        let layout = AggregateLayout::new([
            ("low".into(), Function::Min, Type::Text),
            ("last".into(), Function::Last, Type::Text),
        ]);
        let mut words = vec![0; layout.words()];
        for symbol in [b, a] {
            for index in 0..2 {
                let input = (Datum::Text(symbol), EventTime::from_millis(1));
                layout.add(&mut words, index, input, &symbols).unwrap();
            }
        }
        assert_eq!(layout.finish(&words, 0), Datum::Text(a));
        assert_eq!(layout.finish(&words, 1), Datum::Text(b));
        assert_eq!(layout.symbol_words().collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn what_was_added_can_be_taken_out_again() {
        let layout = AggregateLayout::new([
            ("n".into(), Function::Count, Type::U64),
            ("sum".into(), Function::Sum, Type::I64),
            ("max".into(), Function::Max, Type::I64),
        ]);
        let symbols = Symbols::default();
        let (mut whole, mut part) = (vec![0; layout.words()], vec![0; layout.words()]);
        for (number, in_part) in [(5, true), (8, false)] {
            for index in 0..3 {
                let input = (Datum::Int(number), EventTime::MIN);
                layout.add(&mut whole, index, input, &symbols).unwrap();
                if in_part {
                    layout.add(&mut part, index, input, &symbols).unwrap();
                }
            }
        }
        layout.subtract_all(&mut whole, &part).unwrap();
        let results: Vec<_> = (0..3).map(|index| layout.finish(&whole, index)).collect();
        assert_eq!(results, [Datum::Int(1), Datum::Int(8), Datum::Null]);
        // The difference of a whole to a larger one is below zero, counts too.
        let mut less = vec![0; layout.words()];
        layout.subtract_all(&mut less, &whole).unwrap();
        assert_eq!(layout.finish(&less, 0), Datum::Int(-1));
        layout.merge_all(&mut less, &whole, &symbols).unwrap();
        assert_eq!(layout.finish(&less, 0), Datum::Int(0));
    }
}
