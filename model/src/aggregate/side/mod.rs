//! Side values: what an aggregate keeps that has no fixed size.
//!
//! Each is a commutative monoid as the accumulators in words are, serialises as it is, and takes
//! no memory before the first value. What it is made of a value is decided by the function alone,
//! so that a side value needs no settings of its own until then.

mod distinct;
mod quantile;

pub use distinct::Distinct;
pub use quantile::Quantile;

use super::function::Function;
use crate::symbol::Symbols;
use crate::value::Datum;
use serde::{Deserialize, Serialize};

/// What one accumulator keeps beside the words of its window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Side {
    /// Nothing has come.
    #[default]
    Empty,
    /// Registers of a distinct count.
    Distinct(Box<Distinct>),
    /// Bins of a quantile.
    Quantile(Box<Quantile>),
}

impl Side {
    /// Whether it is what comes of no value.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Distinct(distinct) => distinct.is_empty(),
            Self::Quantile(quantile) => quantile.is_empty(),
        }
    }

    /// Takes one value, not null. A function that keeps nothing here takes nothing.
    pub(super) fn add(&mut self, function: Function, datum: Datum, symbols: &Symbols) {
        match function {
            Function::Distinct { precision } => {
                if let Self::Empty = self {
                    *self = Self::Distinct(Box::new(Distinct::new(precision)));
                }
                if let Self::Distinct(distinct) = self {
                    distinct.add(datum, symbols);
                }
            }
            Function::Quantile { accuracy, .. } => {
                if let Self::Empty = self {
                    *self = Self::Quantile(Box::new(Quantile::new(accuracy)));
                }
                if let Self::Quantile(quantile) = self {
                    quantile.add(datum);
                }
            }
            Function::Count
            | Function::Sum
            | Function::Min
            | Function::Max
            | Function::Mean
            | Function::First
            | Function::Last => {}
        }
    }

    /// Takes all that `part` has taken; both must be of one function.
    pub fn merge(&mut self, part: &Self) {
        match (&mut *self, part) {
            (_, Self::Empty) => {}
            (Self::Empty, part) => self.clone_from(part),
            (Self::Distinct(own), Self::Distinct(part)) => own.merge(part),
            (Self::Quantile(own), Self::Quantile(part)) => own.merge(part),
            (Self::Distinct(_) | Self::Quantile(_), _) => {
                debug_assert!(false, "side values of two functions never meet");
            }
        }
    }

    /// Takes out what `part` has taken, where that can be
    /// ([`Function::is_subtractable`]); otherwise it becomes empty.
    pub fn subtract(&mut self, part: &Self) {
        match (&mut *self, part) {
            (Self::Empty, Self::Quantile(part)) => {
                let mut less = part.clone();
                less.negate();
                *self = Self::Quantile(less);
            }
            (Self::Quantile(_), Self::Empty) => {}
            (Self::Quantile(own), Self::Quantile(part)) => {
                let mut less = part.clone();
                less.negate();
                own.merge(&less);
            }
            (Self::Empty | Self::Distinct(_) | Self::Quantile(_), _) => *self = Self::Empty,
        }
    }

    /// The result of `function`, which kept this.
    pub(super) fn finish(&self, function: Function) -> Datum {
        match (self, function) {
            (Self::Distinct(distinct), Function::Distinct { .. }) => {
                Datum::Int(i128::from(distinct.estimate()))
            }
            (Self::Quantile(quantile), Function::Quantile { p, .. }) => {
                quantile.at(p).map_or(Datum::Null, Datum::Float)
            }
            (Self::Empty, Function::Distinct { .. }) => Datum::Int(0),
            (Self::Empty | Self::Distinct(_) | Self::Quantile(_), _) => Datum::Null,
        }
    }

    /// Whether `function` may have kept this: what comes from outside is asked first.
    pub(crate) fn fits(&self, function: Function) -> bool {
        match (self, function) {
            (Self::Empty, _) => function.has_side(),
            (Self::Distinct(distinct), Function::Distinct { precision }) => {
                distinct.is_sound(precision)
            }
            (Self::Quantile(quantile), Function::Quantile { accuracy, .. }) => {
                quantile.is_sound(accuracy)
            }
            (Self::Distinct(_) | Self::Quantile(_), _) => false,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let beside = match self {
            Self::Empty => 0,
            Self::Distinct(distinct) => distinct.bytes(),
            Self::Quantile(quantile) => quantile.bytes(),
        };
        size_of::<Self>() + beside
    }
}
