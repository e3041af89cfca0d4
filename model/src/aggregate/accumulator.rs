//! One aggregate of a stage: what it computes, where it lies, and how values go into it.

use super::function::Function;
use super::squares;
use super::words::option_words;
use crate::value::Type;

/// One aggregate of a stage and where its words, or its side value, lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accumulator {
    /// Name, unique in its stage.
    pub name: Box<str>,
    /// What it computes.
    pub function: Function,
    /// Type of the values it takes; [`Type::U64`] for a count.
    pub ty: Type,
    /// Its first word, if it has words.
    pub(super) word: usize,
    /// Its side value, if it has one.
    pub(super) side: usize,
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
    /// Any other way into words.
    Other,
    /// Into a side value.
    Side,
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
            | Function::Last
            | Function::Variance { .. } => Self::Other,
            Function::Side(_) => Self::Side,
        }
    }
}

impl Accumulator {
    /// An aggregate behind `word` words and `side` side values.
    pub(super) fn new(
        (name, function, ty): (Box<str>, Function, Type),
        (word, side): (usize, usize),
    ) -> Self {
        Self { name, function, ty, word, side, step: Step::of(function, ty) }
    }

    /// How its values go into it.
    pub(crate) const fn step(&self) -> Step {
        self.step
    }

    /// Whether its result is exact.
    pub fn is_exact(&self) -> bool {
        self.error().is_none()
    }

    /// How far its result may be from the exact one, for people; `None` if it is exact.
    pub fn error(&self) -> Option<String> {
        self.function.error(self.ty)
    }

    /// The type of its result.
    pub fn result_type(&self) -> Type {
        self.function.result_type(self.ty)
    }

    /// Whether its result is a text or list that it makes itself, not one of the records'.
    pub fn is_own_text(&self) -> bool {
        self.function.has_side() && matches!(self.result_type(), Type::Text | Type::Object)
    }

    /// Words that it takes.
    pub(super) fn words(&self) -> usize {
        match self.function {
            Function::Count => 1,
            Function::Sum => 2,
            Function::Mean => 3,
            Function::Min | Function::Max => option_words(self.ty),
            Function::First | Function::Last => 1 + option_words(self.ty),
            Function::Variance { .. } if self.ty == Type::F64 => squares::FLOAT_WORDS,
            Function::Variance { .. } => squares::WHOLE_WORDS,
            Function::Side(_) => 0,
        }
    }

    /// Whether what was added can be taken out again, and nothing is left of it: rounding would
    /// leave something of float sums.
    pub fn is_reversible(&self) -> bool {
        let is_sum =
            matches!(self.function, Function::Sum | Function::Mean | Function::Variance { .. });
        let rounds = is_sum && matches!(self.ty, Type::F64);
        self.function.is_subtractable() && !rounds
    }

    /// Its words among those of all.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.word..self.word + self.words()
    }
}
