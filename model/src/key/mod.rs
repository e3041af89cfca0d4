//! Keys: what records are grouped by, packed into machine words; and the one function that places
//! a key on a group and a group on a shard.
//!
//! Packing serves the tables (compare and hash a few words). The stable form, [`encode`], serves
//! everything that outlives the process: it orders as the values do, starts with a version, and its
//! hash places the key. That hash never changes (golden test below); the tables' hash is seeded
//! per process, since keys come from outside.
#![expect(clippy::indexing_slicing, reason = "offsets come from the layout that sized the key")]

mod packer;
mod router;
mod stable;

pub use packer::KeyPacker;
pub(crate) use router::Placing;
pub use router::Router;
pub use stable::{KEY_GROUPS, KEY_VERSION, KeyGroup, encode, stable_hash};
pub(crate) use stable::{encode_data, stable_datum_hash};

use crate::row::{Field, wide};
use crate::symbol::{Symbol, Symbols};
use crate::value::{Datum, Type, Value};
use std::cmp::Ordering;

/// Where a field lies in a packed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySlot {
    word: u16,
    shift: u8,
    null_word: u16,
    null_bit: u8,
    ty: Type,
}

/// How a key is packed: fields of 8 to 128 bits, none across a word border, and a null bit each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyLayout {
    fields: Vec<Field>,
    slots: Vec<KeySlot>,
    words: usize,
}

impl KeyLayout {
    /// The layout of `fields`. Their order is the order of the key; how they lie in the words is
    /// not.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Self {
        let fields: Vec<_> = fields.into_iter().collect();
        // Bits used of each word. Widest first, so that the words fill up.
        let mut used: Vec<usize> = Vec::new();
        let mut places = vec![(0, 0); fields.len()];
        let mut order: Vec<usize> = (0..fields.len()).collect();
        order.sort_by_key(|field| std::cmp::Reverse(fields[*field].ty.key_bits()));
        for field in order {
            places[field] = place(&mut used, fields[field].ty.key_bits());
        }
        let mut slots = Vec::with_capacity(fields.len());
        let mut nulls = (0, 0);
        for (index, field) in fields.iter().enumerate() {
            if index % 8 == 0 {
                nulls = place(&mut used, 8);
            }
            slots.push(KeySlot {
                word: places[index].0 as u16,
                shift: places[index].1 as u8,
                null_word: nulls.0 as u16,
                null_bit: (nulls.1 + index % 8) as u8,
                ty: field.ty,
            });
        }
        Self { fields, slots, words: used.len() }
    }

    /// Words of one key.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The fields, in key order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Number of the field called `name`.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| &*field.name == name)
    }

    /// Reads field number `field` of a packed key.
    pub fn read(&self, key: &[u64], field: usize) -> Datum {
        let Some(slot) = self.slots.get(field) else { return Datum::Null };
        if key[usize::from(slot.null_word)] >> slot.null_bit & 1 == 1 {
            return Datum::Null;
        }
        let word = usize::from(slot.word);
        let value = key[word] >> slot.shift & mask(slot.ty.key_bits().min(64));
        match slot.ty {
            Type::Bool => Datum::Bool(value != 0),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => Datum::Int(i128::from(value)),
            Type::I64 => Datum::Int(i128::from(value as i64)),
            Type::F64 => Datum::Float(f64::from_bits(value)),
            Type::Text => Datum::Text(Symbol::from_number(value as u32)),
            Type::Object => Datum::Object(Symbol::from_number(value as u32)),
            Type::Big => Datum::Int(wide(value, key[word + 1]) as i128),
            Type::Ip => Datum::Ip(wide(value, key[word + 1])),
        }
    }

    /// The values of a packed key, in key order.
    pub fn values(&self, key: &[u64], symbols: &Symbols) -> Vec<Value> {
        self.data(key).map(|datum| datum.value(symbols)).collect()
    }

    /// What a packed key holds, in key order.
    pub(crate) fn data(&self, key: &[u64]) -> impl Iterator<Item = Datum> {
        (0..self.fields.len()).map(|field| self.read(key, field))
    }

    /// Packs `data`, one per field and of its type, into `key`, which must be all zero.
    pub fn write(&self, data: &[Datum], key: &mut [u64]) {
        for (slot, datum) in self.slots.iter().zip(data) {
            let [low, high] = canonical(*datum);
            if *datum == Datum::Null {
                key[usize::from(slot.null_word)] |= 1 << slot.null_bit;
                continue;
            }
            key[usize::from(slot.word)] |= (low & mask(slot.ty.key_bits().min(64))) << slot.shift;
            if slot.ty.key_bits() == 128 {
                key[usize::from(slot.word) + 1] = high;
            }
        }
    }

    /// The order of two packed keys: field by field, texts as texts.
    pub fn compare(&self, a: &[u64], b: &[u64], symbols: &Symbols) -> Ordering {
        for field in 0..self.fields.len() {
            let order = self.read(a, field).compare(self.read(b, field), symbols);
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// The words of a datum in a key: -0.0 and 0.0 are one key, and so are all NaN.
fn canonical(datum: Datum) -> [u64; 2] {
    match datum {
        Datum::Float(number) if number.is_nan() => [f64::NAN.to_bits(), 0],
        Datum::Float(0.0) => [0, 0],
        Datum::Null
        | Datum::Bool(_)
        | Datum::Int(_)
        | Datum::Float(_)
        | Datum::Text(_)
        | Datum::Object(_)
        | Datum::Ip(_) => crate::row::words_of(datum),
    }
}

const fn mask(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Finds room for `bits` in the words used so far, adding words where there is none.
fn place(used: &mut Vec<usize>, bits: usize) -> (usize, usize) {
    if bits >= 64 {
        let word = used.len();
        used.extend(std::iter::repeat_n(64, bits / 64));
        return (word, 0);
    }
    if let Some(word) = used.iter().position(|taken| taken + bits <= 64) {
        let shift = used[word];
        used[word] += bits;
        return (word, shift);
    }
    used.push(bits);
    (used.len() - 1, 0)
}

/// Whether two packed keys are equal. Keys are a few words: a loop beats a call.
pub(crate) fn is_same_key(a: &[u64], b: &[u64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowLayout;
    use crate::row::{Position, RowBatch};
    use crate::time::EventTime;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn fields() -> Vec<Field> {
        Type::ALL.iter().map(|ty| Field::new(ty.name(), *ty)).collect()
    }

    fn data() -> impl Strategy<Value = Vec<Datum>> {
        let of = |ty: Type| -> BoxedStrategy<Datum> {
            let value = match ty {
                Type::Bool => any::<bool>().prop_map(Datum::Bool).boxed(),
                Type::F64 => any::<f64>().prop_map(Datum::Float).boxed(),
                Type::Text => {
                    any::<u32>().prop_map(|n| Datum::Text(Symbol::from_number(n))).boxed()
                }
                Type::Object => {
                    any::<u32>().prop_map(|n| Datum::Object(Symbol::from_number(n))).boxed()
                }
                Type::Ip => any::<u128>().prop_map(Datum::Ip).boxed(),
                Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I64 | Type::Big => {
                    let (low, high) = ty.integer_range().unwrap();
                    (low..=high).prop_map(Datum::Int).boxed()
                }
            };
            prop_oneof![4 => value, 1 => Just(Datum::Null)].boxed()
        };
        Type::ALL.map(of).to_vec()
    }

    fn same(a: Datum, b: Datum) -> bool {
        let float = |datum| match datum {
            Datum::Float(number) => Some(number),
            _ => None,
        };
        match (float(a), float(b)) {
            (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan(),
            _ => a == b,
        }
    }

    proptest! {
        #[test]
        fn packing_keeps_every_value_from_row_to_key_to_coarser_key(data in data()) {
            let row = Arc::new(RowLayout::new(fields()));
            let mut batch = RowBatch::new(row.clone());
            let mut writer = batch.push(EventTime::MIN, Position::default());
            for (slot, datum) in row.slots().iter().zip(&data) {
                writer.set(*slot, *datum);
            }
            let layout = KeyLayout::new(fields());
            let packer = KeyPacker::from_row(&layout, row.slots());
            let mut key = vec![7; layout.words()];
            packer.pack(batch.row(0), &mut key);
            for (index, datum) in data.iter().enumerate() {
                prop_assert!(same(layout.read(&key, index), *datum), "{datum:?}");
            }
            let mut written = vec![0; layout.words()];
            layout.write(&data, &mut written);
            prop_assert_eq!(&written, &key);

            // A coarser key of every other field, last first.
            let chosen: Vec<usize> = (0..data.len()).rev().step_by(2).collect();
            let coarse = KeyLayout::new(chosen.iter().map(|index| fields()[*index].clone()));
            let mut projected = vec![9; coarse.words()];
            KeyPacker::from_key(&coarse, &layout, &chosen).pack(&key, &mut projected);
            for (place, index) in chosen.iter().enumerate() {
                prop_assert!(same(coarse.read(&projected, place), data[*index]));
            }
        }

        #[test]
        fn encoded_keys_order_as_their_values(
            a in any::<(i64, f64, String, u128)>(), b in any::<(i64, f64, String, u128)>(),
        ) {
            let values = |(int, float, text, ip): &(i64, f64, String, u128)| {
                let float = if float.is_nan() { 0.0 } else { *float };
                vec![
                    Value::Text(text.as_str().into()),
                    Value::Int(i128::from(*int)),
                    Value::Float(if float == 0.0 { 0.0 } else { float }),
                    Value::Ip(crate::value::ip_address(*ip)),
                ]
            };
            let (x, y) = (values(&a), values(&b));
            let by_value = x.iter().zip(&y).map(|(a, b)| a.compare(b)).find(|o| o.is_ne());
            let (mut left, mut right) = (Vec::new(), Vec::new());
            encode(&x, &mut left);
            encode(&y, &mut right);
            prop_assert_eq!(left.cmp(&right), by_value.unwrap_or(Ordering::Equal));
        }

        #[test]
        fn every_group_has_exactly_one_shard_and_runs_are_contiguous(
            groups in 1_u16..2000, shards in 1_usize..64,
        ) {
            let owners: Vec<_> = (0..groups).map(|g| KeyGroup(g).shard(groups, shards)).collect();
            prop_assert!(owners.iter().all(|shard| *shard < shards));
            prop_assert!(owners.is_sorted());
            if usize::from(groups) >= shards {
                let mut distinct = owners.clone();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), shards);
            }
        }
    }

    #[test]
    fn the_stable_hash_is_golden() {
        // Reference values of XXH64 (seed 0): the empty input and "abc" are published vectors.
        assert_eq!(stable_hash(b""), 0xef46_db37_51d8_e999);
        assert_eq!(stable_hash(b"abc"), 0x44bc_2cf5_ad77_0999);
        let mut encoded = Vec::new();
        encode(&[Value::Text("a\0b".into()), Value::Int(5), Value::Null], &mut encoded);
        let mut expected = vec![KEY_VERSION, 1, b'a', 0, 0xff, b'b', 0, 0, 1, 0x80];
        expected.extend([0; 14]);
        expected.extend([5, 0]);
        assert_eq!(encoded, expected);
    }

    #[test]
    fn small_fields_share_words() {
        let layout = KeyLayout::new([
            Field::new("exporter", Type::Object),
            Field::new("if_index", Type::U32),
            Field::new("dscp", Type::U8),
            Field::new("location", Type::Text),
            Field::new("protocol", Type::U8),
            Field::new("lower", Type::Ip),
            Field::new("upper", Type::Ip),
            Field::new("application", Type::Text),
        ]);
        assert_eq!(layout.words(), 7);
    }
}
