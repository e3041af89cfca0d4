//! Side values: what an aggregate keeps that has no fixed size.
//!
//! Each is a commutative monoid as the accumulators in words are, serialises as it is, and takes
//! no memory before the first value. What it is made of a value is decided by the function alone,
//! so that a side value needs no settings of its own until then.

mod collect;
mod custom;
mod distinct;
mod frequent;
mod function;
mod item;
mod quantile;

pub use collect::Collect;
pub use custom::{CustomAggregate, CustomFunction, CustomState};
pub use distinct::Distinct;
pub use frequent::Frequent;
pub use function::{Millionths, SideFunction};
pub use item::Item;
pub use quantile::Quantile;

use crate::symbol::Symbols;
use crate::time::EventTime;
use crate::value::{Datum, Value};
use serde::{Deserialize, Serialize};

/// What one accumulator keeps beside the words of its window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Side {
    /// Nothing has come.
    #[default]
    Empty,
    /// Of a distinct count.
    Distinct(Box<Distinct>),
    /// Of a quantile.
    Quantile(Box<Quantile>),
    /// Of the most frequent values.
    Frequent(Box<Frequent>),
    /// Values themselves.
    Collect(Box<Collect>),
    /// Of an aggregate of the user's.
    Custom(Box<CustomState>),
}

impl Side {
    /// What `function` keeps before the first value.
    fn new(function: SideFunction) -> Self {
        match function {
            SideFunction::Distinct { precision } => {
                Self::Distinct(Box::new(Distinct::new(precision)))
            }
            SideFunction::Quantile { accuracy, .. } => {
                Self::Quantile(Box::new(Quantile::new(accuracy)))
            }
            SideFunction::Frequent { counters, .. } => {
                Self::Frequent(Box::new(Frequent::new(counters)))
            }
            SideFunction::Collect { values_max, bytes_max } => {
                Self::Collect(Box::new(Collect::new(values_max, bytes_max)))
            }
            SideFunction::Custom(custom) => Self::Custom(Box::new(CustomState::zero(custom))),
        }
    }

    /// Whether it is what comes of no value; of an aggregate of the user's, only before the first.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Distinct(distinct) => distinct.is_empty(),
            Self::Quantile(quantile) => quantile.is_empty(),
            Self::Frequent(frequent) => frequent.is_empty(),
            Self::Collect(collect) => collect.is_empty(),
            Self::Custom(_) => false,
        }
    }

    /// Takes one value of a record; null is none.
    pub(super) fn add(
        &mut self,
        function: SideFunction,
        (datum, time): (Datum, EventTime),
        symbols: &Symbols,
    ) {
        if let Self::Empty = self {
            *self = Self::new(function);
        }
        match self {
            Self::Empty => {}
            Self::Distinct(distinct) => distinct.add(datum, symbols),
            Self::Quantile(quantile) => quantile.add(datum),
            Self::Frequent(frequent) => {
                if let Some(item) = Item::of(datum, symbols) {
                    frequent.add(item);
                }
            }
            Self::Collect(collect) => {
                if let Some(item) = Item::of(datum, symbols) {
                    collect.add(item, time);
                }
            }
            Self::Custom(custom) => custom.add(&datum.value(symbols), time),
        }
    }

    /// Takes all that `part` has taken; both must be of one function.
    pub fn merge(&mut self, part: &Self) {
        match (&mut *self, part) {
            (_, Self::Empty) => {}
            (Self::Empty, part) => self.clone_from(part),
            (Self::Distinct(own), Self::Distinct(part)) => own.merge(part),
            (Self::Quantile(own), Self::Quantile(part)) => own.merge(part),
            (Self::Frequent(own), Self::Frequent(part)) => own.merge(part),
            (Self::Collect(own), Self::Collect(part)) => own.merge(part),
            (Self::Custom(own), Self::Custom(part)) => own.merge(part),
            (
                Self::Distinct(_)
                | Self::Quantile(_)
                | Self::Frequent(_)
                | Self::Collect(_)
                | Self::Custom(_),
                _,
            ) => debug_assert!(false, "side values of two functions never meet"),
        }
    }

    /// Takes out what `part` has taken, where that can be
    /// ([`SideFunction::is_subtractable`]); otherwise it becomes empty.
    pub fn subtract(&mut self, part: &Self) {
        let is_done = match (&mut *self, part) {
            (Self::Quantile(_) | Self::Custom(_), Self::Empty) => true,
            (Self::Empty, Self::Quantile(part)) => {
                let mut less = part.clone();
                less.negate();
                *self = Self::Quantile(less);
                true
            }
            (Self::Quantile(own), Self::Quantile(part)) => {
                let mut less = part.clone();
                less.negate();
                own.merge(&less);
                true
            }
            (Self::Empty, Self::Custom(part)) => {
                *self = part.negated().map_or(Self::Empty, |less| Self::Custom(Box::new(less)));
                true
            }
            (Self::Custom(own), Self::Custom(part)) => own.subtract(part),
            (
                Self::Empty
                | Self::Distinct(_)
                | Self::Quantile(_)
                | Self::Frequent(_)
                | Self::Collect(_)
                | Self::Custom(_),
                _,
            ) => false,
        };
        if !is_done {
            *self = Self::Empty;
        }
    }

    /// The result of `function`, which kept this.
    pub(crate) fn finish(&self, function: SideFunction) -> Value {
        let float = |number: Option<f64>| number.map_or(Value::Null, Value::Float);
        match (self, function) {
            (Self::Distinct(distinct), _) => Value::Int(distinct.estimate().into()),
            (Self::Quantile(quantile), SideFunction::Quantile { p, .. }) => float(quantile.at(p)),
            (Self::Frequent(frequent), SideFunction::Frequent { k, .. }) => {
                Value::Object(frequent.json(k).into())
            }
            (Self::Collect(collect), _) => Value::Object(collect.json().into()),
            (Self::Custom(custom), _) => custom.finish(),
            (Self::Empty, SideFunction::Quantile { .. }) => Value::Null,
            (Self::Empty, SideFunction::Custom(custom)) => custom.finish_all(Vec::new()),
            (Self::Empty, _) => Self::new(function).finish(function),
            (Self::Quantile(_) | Self::Frequent(_), _) => Value::Null,
        }
    }

    /// Makes what was read from outside what `function` keeps; says whether it can be that.
    pub(crate) fn give_to(&mut self, function: SideFunction) -> bool {
        match (self, function) {
            (Self::Empty, _) => true,
            (Self::Distinct(distinct), SideFunction::Distinct { precision }) => {
                distinct.is_sound(precision)
            }
            (Self::Quantile(quantile), SideFunction::Quantile { accuracy, .. }) => {
                quantile.is_sound(accuracy)
            }
            (Self::Frequent(frequent), SideFunction::Frequent { counters, .. }) => {
                frequent.is_sound(counters)
            }
            (Self::Collect(collect), SideFunction::Collect { values_max, bytes_max }) => {
                collect.is_sound(values_max, bytes_max)
            }
            (Self::Custom(custom), SideFunction::Custom(function)) => custom.give_to(function),
            (
                Self::Distinct(_)
                | Self::Quantile(_)
                | Self::Frequent(_)
                | Self::Collect(_)
                | Self::Custom(_),
                _,
            ) => false,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let beside = match self {
            Self::Empty => 0,
            Self::Distinct(distinct) => distinct.bytes(),
            Self::Quantile(quantile) => quantile.bytes(),
            Self::Frequent(frequent) => frequent.bytes(),
            Self::Collect(collect) => collect.bytes(),
            Self::Custom(custom) => custom.bytes(),
        };
        size_of::<Self>() + beside
    }
}
