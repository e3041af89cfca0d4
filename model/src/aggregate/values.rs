//! The values of one set of accumulators: fixed words side by side, and beside them what has no
//! fixed size. The layout of the stage knows which is which.
//!
//! All words zero and all sides empty is the empty aggregate. Where a stage has no aggregate of
//! varying size, the sides are an empty list, and words alone will do.

use super::side::Side;
use serde::{Deserialize, Serialize};

/// The values of a set of accumulators.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Values {
    /// Accumulator words, in the layout of the stage.
    pub words: Vec<u64>,
    /// Side values, in the layout of the stage.
    pub sides: Vec<Side>,
}

/// Values that are only looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ValuesRef<'a> {
    /// Accumulator words.
    pub words: &'a [u64],
    /// Side values.
    pub sides: &'a [Side],
}

/// Values that are added to.
#[derive(Debug)]
pub struct ValuesMut<'a> {
    /// Accumulator words.
    pub words: &'a mut [u64],
    /// Side values.
    pub sides: &'a mut [Side],
}

impl Values {
    /// The values, to look at.
    pub fn view(&self) -> ValuesRef<'_> {
        ValuesRef { words: &self.words, sides: &self.sides }
    }

    /// The values, to add to.
    pub fn view_mut(&mut self) -> ValuesMut<'_> {
        ValuesMut { words: &mut self.words, sides: &mut self.sides }
    }

    /// Makes every aggregate empty, in place.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.sides.fill(Side::Empty);
    }

    /// Whether there is no accumulator at all: none was made, or they were let go.
    pub fn is_absent(&self) -> bool {
        self.words.is_empty() && self.sides.is_empty()
    }

    /// Bytes that the values take.
    pub fn bytes(&self) -> usize {
        self.view().bytes()
    }
}

impl ValuesRef<'_> {
    /// Bytes that the values take.
    pub fn bytes(self) -> usize {
        size_of_val(self.words) + sides_bytes(self.sides)
    }
}

/// Bytes that side values take.
pub(crate) fn sides_bytes(sides: &[Side]) -> usize {
    sides.iter().map(Side::bytes).sum()
}

impl<'a> ValuesMut<'a> {
    /// The same values, for as long as they are borrowed from here.
    pub fn reborrow(&mut self) -> ValuesMut<'_> {
        ValuesMut { words: self.words, sides: self.sides }
    }
}

impl From<ValuesRef<'_>> for Values {
    fn from(values: ValuesRef<'_>) -> Self {
        Self { words: values.words.to_vec(), sides: values.sides.to_vec() }
    }
}

impl<'a> From<&'a Values> for ValuesRef<'a> {
    fn from(values: &'a Values) -> Self {
        values.view()
    }
}

impl<'a> From<&'a mut Values> for ValuesMut<'a> {
    fn from(values: &'a mut Values) -> Self {
        values.view_mut()
    }
}

macro_rules! words_alone {
    ($($words:ty),*) => { $(
        impl<'a> From<&'a $words> for ValuesRef<'a> {
            fn from(words: &'a $words) -> Self {
                Self { words, sides: &[] }
            }
        }

        impl<'a> From<&'a mut $words> for ValuesMut<'a> {
            fn from(words: &'a mut $words) -> Self {
                Self { words, sides: &mut [] }
            }
        }
    )* };
}

words_alone!([u64], Vec<u64>, Box<[u64]>);
