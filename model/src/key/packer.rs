//! Projections of keys, compiled: from a row, or from a finer key.
//!
//! Rests on null fields being all zero in rows and keys (`RowWriter` and the packer itself see to
//! that).
#![expect(clippy::indexing_slicing, reason = "offsets come from the layout that sized the key")]

use super::{KeyLayout, canonical, mask};
use crate::row::Slot;
use crate::value::{Datum, Type};

/// Moves up to 64 bits from a word of a row or key to a word of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    from: u16,
    from_shift: u8,
    to: u16,
    to_shift: u8,
    mask: u64,
    /// Whether equal values may have different bits.
    is_float: bool,
}

/// Where the null bits of one word of the source go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Nulls {
    word: u16,
    /// The bits that are fields of the key: if none is set, there is nothing to do.
    mask: u64,
    /// From bit, to word, to bit.
    bits: Vec<(u8, u16, u8)>,
}

/// A compiled projection: the key of a row, or the coarser key of a key. No look-up, no branch on
/// types, no allocation. It rests on null fields being all zero in rows and keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyPacker {
    moves: Vec<Move>,
    nulls: Vec<Nulls>,
    words: usize,
}

/// Where a field lies in the source of a projection.
struct Source {
    word: u16,
    shift: u8,
    null_word: u16,
    null_bit: u8,
}

impl KeyPacker {
    /// From a row: `sources` gives the row's slot of each key field, in key order.
    pub fn from_row(target: &KeyLayout, sources: &[Slot]) -> Self {
        Self::new(
            target,
            sources.iter().map(|slot| Source {
                word: slot.word,
                shift: 0,
                null_word: slot.index >> 6,
                null_bit: (slot.index & 63) as u8,
            }),
        )
    }

    /// From a finer key: `sources` gives its field number for each field of the target.
    pub fn from_key(target: &KeyLayout, parent: &KeyLayout, sources: &[usize]) -> Self {
        let slots = sources.iter().filter_map(|field| parent.slots.get(*field));
        Self::new(
            target,
            slots.map(|slot| Source {
                word: slot.word,
                shift: slot.shift,
                null_word: slot.null_word,
                null_bit: slot.null_bit,
            }),
        )
    }

    fn new(target: &KeyLayout, sources: impl Iterator<Item = Source>) -> Self {
        let mut packer = Self { moves: Vec::new(), nulls: Vec::new(), words: target.words };
        for (source, to) in sources.zip(&target.slots) {
            let bits = to.ty.key_bits();
            for half in 0..bits.div_ceil(64) as u16 {
                packer.moves.push(Move {
                    from: source.word + half,
                    from_shift: source.shift,
                    to: to.word + half,
                    to_shift: to.shift,
                    mask: mask(bits.min(64)),
                    is_float: to.ty == Type::F64,
                });
            }
            let known = packer.nulls.iter().position(|nulls| nulls.word == source.null_word);
            let at = known.unwrap_or_else(|| {
                packer.nulls.push(Nulls { word: source.null_word, mask: 0, bits: Vec::new() });
                packer.nulls.len() - 1
            });
            packer.nulls[at].mask |= 1 << source.null_bit;
            packer.nulls[at].bits.push((source.null_bit, to.null_word, to.null_bit));
        }
        packer
    }

    /// Words of the key that it makes.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Packs the key of `source` into `key`, whatever that held.
    pub fn pack(&self, source: &[u64], key: &mut [u64]) {
        key.fill(0);
        for step in &self.moves {
            let value = source[usize::from(step.from)] >> step.from_shift & step.mask;
            let value = if step.is_float { canonical_float(value) } else { value };
            key[usize::from(step.to)] |= value << step.to_shift;
        }
        for nulls in &self.nulls {
            let word = source[usize::from(nulls.word)];
            if word & nulls.mask != 0 {
                for (bit, to, to_bit) in &nulls.bits {
                    key[usize::from(*to)] |= (word >> bit & 1) << to_bit;
                }
            }
        }
    }
}

fn canonical_float(bits: u64) -> u64 {
    let [low, _] = canonical(Datum::Float(f64::from_bits(bits)));
    low
}
