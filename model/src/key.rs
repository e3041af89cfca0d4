//! Keys: what records are grouped by, packed into machine words; and the one function that places
//! a key on a group and a group on a shard.
//!
//! Packing serves the tables (compare and hash a few words). The stable form, [`encode`], serves
//! everything that outlives the process: it orders as the values do, starts with a version, and its
//! hash places the key. That hash never changes (golden test below); the tables' hash is seeded
//! per process, since keys come from outside.
#![expect(clippy::indexing_slicing, reason = "offsets come from the layout that sized the key")]

use crate::row::{Field, RowLayout, Slot, wide};
use crate::symbol::{Symbol, Symbols};
use crate::value::{Datum, Type, Value, ip_bits};
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
        (0..self.fields.len()).map(|field| self.read(key, field).value(symbols)).collect()
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

/// Whether two packed keys are equal. Keys are a few words: a loop beats a call.
pub(crate) fn is_same_key(a: &[u64], b: &[u64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Version of the stable encoding; the first byte of every encoded key.
pub const KEY_VERSION: u8 = 1;

/// Appends the stable, order-preserving form of a key to `out`: two keys of one layout compare as
/// their bytes do.
///
/// Null is 0x00; a value is 0x01 and then: integers as 16 bytes big-endian with the sign turned;
/// floats as their total-order bits; text with 0x00 escaped as 0x00 0xff and closed by 0x00 0x00;
/// addresses as 16 bytes; truth values as one byte.
pub fn encode(values: &[Value], out: &mut Vec<u8>) {
    out.push(KEY_VERSION);
    for value in values {
        if *value == Value::Null {
            out.push(0);
            continue;
        }
        out.push(1);
        match value {
            Value::Null => {}
            Value::Bool(truth) => out.push(u8::from(*truth)),
            Value::Int(number) => {
                out.extend_from_slice(&((*number as u128) ^ (1 << 127)).to_be_bytes());
            }
            Value::Float(number) => {
                let [bits, _] = canonical(Datum::Float(*number));
                let turned = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
                out.extend_from_slice(&turned.to_be_bytes());
            }
            Value::Text(text) | Value::Object(text) => {
                for byte in text.bytes() {
                    out.push(byte);
                    if byte == 0 {
                        out.push(0xff);
                    }
                }
                out.extend_from_slice(&[0, 0]);
            }
            Value::Ip(address) => out.extend_from_slice(&ip_bits(*address).to_be_bytes()),
        }
    }
}

/// The hash that places keys, over the stable form: XXH64 with seed 0. Fixed for ever.
pub fn stable_hash(encoded: &[u8]) -> u64 {
    twox_hash::XxHash64::oneshot(0, encoded)
}

/// A fixed hash bucket of keys: the unit that moves between shards and nodes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct KeyGroup(pub u16);

/// How many key groups a deployment has, unless set otherwise; never changed afterwards.
pub const KEY_GROUPS: u16 = 256;

impl KeyGroup {
    /// The group of a stable hash among `groups` (at least one).
    pub fn of(hash: u64, groups: u16) -> Self {
        Self((hash % u64::from(groups.max(1))) as u16)
    }

    /// The shard that owns the group: contiguous runs, as even as can be, over `shards`.
    pub fn shard(self, groups: u16, shards: usize) -> usize {
        usize::from(self.0) * shards.max(1) / usize::from(groups.max(1))
    }
}

/// Finds the shard of a row, remembering what it found: the stable hash is computed once per
/// shard key, not once per record.
#[derive(Debug)]
pub struct Router {
    layout: KeyLayout,
    packer: KeyPacker,
    groups: u16,
    shards: usize,
    /// Shards of the keys seen, by packed key. Cleared when it reaches `CACHE_MAX`.
    known: hashbrown::HashMap<Box<[u64]>, u32, foldhash::fast::RandomState>,
    key: Vec<u64>,
}

impl Router {
    const CACHE_MAX: usize = 1 << 16;

    /// A router by the key fields `fields` of rows of `row`; fields that the row lacks are left
    /// out.
    pub fn from_row(row: &RowLayout, fields: &[Box<str>], groups: u16, shards: usize) -> Self {
        let slots: Vec<_> = fields.iter().filter_map(|name| row.slot(name)).collect();
        let layout = KeyLayout::new(
            slots.iter().zip(fields).map(|(slot, name)| Field { name: name.clone(), ty: slot.ty }),
        );
        let packer = KeyPacker::from_row(&layout, &slots);
        Self::new(layout, packer, groups, shards)
    }

    /// A router by `layout`, whose keys `packer` makes.
    pub fn new(layout: KeyLayout, packer: KeyPacker, groups: u16, shards: usize) -> Self {
        let key = vec![0; layout.words()];
        Self { layout, packer, groups, shards, known: hashbrown::HashMap::default(), key }
    }

    /// The shard that owns the key of `source`, a row or key of the layout that the packer reads.
    pub fn shard(&mut self, source: &[u64], symbols: &Symbols) -> usize {
        if self.shards <= 1 {
            return 0;
        }
        self.packer.pack(source, &mut self.key);
        if let Some(shard) = self.known.get(self.key.as_slice()) {
            return *shard as usize;
        }
        let mut encoded = Vec::new();
        encode(&self.layout.values(&self.key, symbols), &mut encoded);
        let group = KeyGroup::of(stable_hash(&encoded), self.groups);
        let shard = group.shard(self.groups, self.shards);
        if self.known.len() >= Self::CACHE_MAX {
            self.known.clear();
        }
        self.known.insert(self.key.as_slice().into(), shard as u32);
        shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
