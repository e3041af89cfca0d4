//! Where a key belongs: its group, and the shard that owns that.

use super::stable::encode_data;
use super::{KeyGroup, KeyLayout, KeyPacker, stable_hash};
use crate::cells::hash_words;
use crate::plan::{Plan, Stage};
use crate::row::{Field, RowLayout};
use crate::symbol::Symbols;

/// Finds the group of a row or key by the fields that place it.
#[derive(Debug)]
pub(crate) struct Placing {
    layout: KeyLayout,
    packer: KeyPacker,
    groups: u16,
    key: Vec<u64>,
    encoded: Vec<u8>,
}

impl Placing {
    /// By `layout`, whose keys `packer` makes, among `groups`.
    pub(crate) fn new(layout: KeyLayout, packer: KeyPacker, groups: u16) -> Self {
        let key = vec![0; layout.words()];
        Self { layout, packer, groups, key, encoded: Vec::new() }
    }

    /// Of the keys that the state of `stage` is kept by: those of its exchange, or else as the
    /// records below it are placed.
    pub(crate) fn of_stage(plan: &Plan, stage: &Stage) -> Self {
        let key = stage.top_k.as_ref().map_or(&stage.key, |top_k| &top_k.parent);
        let fields = plan.placing_fields(stage);
        let numbers: Vec<_> = fields.iter().filter_map(|field| key.field(field)).collect();
        let fields = numbers.iter().filter_map(|number| key.fields().get(*number).cloned());
        let layout = KeyLayout::new(fields);
        let packer = KeyPacker::from_key(&layout, key, &numbers);
        Self::new(layout, packer, plan.key_groups)
    }

    fn pack(&mut self, source: &[u64]) {
        self.packer.pack(source, &mut self.key);
    }

    fn group_of_packed(&mut self, symbols: &Symbols) -> KeyGroup {
        self.encoded.clear();
        encode_data(self.layout.data(&self.key), symbols, &mut self.encoded);
        KeyGroup::of(stable_hash(&self.encoded), self.groups)
    }

    /// The group of `source`, a row or key of the layout that the packer reads.
    pub(crate) fn group(&mut self, source: &[u64], symbols: &Symbols) -> KeyGroup {
        self.pack(source);
        self.group_of_packed(symbols)
    }
}

/// Finds the shard of a row, remembering what it found of late: mostly the stable hash is computed
/// once per shard key, not once per record.
#[derive(Debug)]
pub struct Router {
    placing: Placing,
    shards: usize,
    known: Known,
}

/// Shards of packed keys that came of late. Each key has one place, which it shares with others: the
/// last that came has it. So with more keys than places nothing is allocated, moved or freed.
#[derive(Debug)]
struct Known {
    hasher: foldhash::fast::RandomState,
    /// The keys, one behind the other.
    keys: Vec<u64>,
    /// By place.
    shards: Vec<Option<u32>>,
}

impl Known {
    /// A power of two.
    const PLACES: usize = 1 << 12;

    fn new(words: usize) -> Self {
        Self {
            hasher: foldhash::fast::RandomState::default(),
            keys: vec![0; Self::PLACES.saturating_mul(words)],
            shards: vec![None; Self::PLACES],
        }
    }

    /// The place of a key, below [`Known::PLACES`].
    fn place(&self, key: &[u64]) -> usize {
        hash_words(&self.hasher, key) as usize % Self::PLACES
    }

    /// The shard of `key`, if it was the last that came of those at `place`.
    fn at(&self, place: usize, key: &[u64]) -> Option<usize> {
        let start = place * key.len();
        let is_it = self.keys.get(start..start + key.len())? == key;
        self.shards.get(place).copied().flatten().filter(|_| is_it).map(|shard| shard as usize)
    }

    fn put(&mut self, place: usize, key: &[u64], shard: usize) {
        let start = place * key.len();
        if let Some(known) = self.keys.get_mut(start..start + key.len()) {
            known.copy_from_slice(key);
        }
        if let Some(known) = self.shards.get_mut(place) {
            *known = u32::try_from(shard).ok();
        }
    }
}

impl Router {
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
        let placing = Placing::new(layout, packer, groups);
        let known = Known::new(placing.key.len());
        Self { placing, shards, known }
    }

    /// The shard that owns the key of `source`, a row or key of the layout that the packer reads.
    pub fn shard(&mut self, source: &[u64], symbols: &Symbols) -> usize {
        if self.shards <= 1 {
            return 0;
        }
        self.placing.pack(source);
        let place = self.known.place(&self.placing.key);
        if let Some(shard) = self.known.at(place, &self.placing.key) {
            return shard;
        }
        let group = self.placing.group_of_packed(symbols);
        let shard = group.shard(self.placing.groups, self.shards);
        self.known.put(place, &self.placing.key, shard);
        shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::encode;
    use crate::row::{Position, RowBatch};
    use crate::time::EventTime;
    use crate::value::{Datum, Type, Value};
    use std::sync::Arc;

    /// Many more keys than there are places, each of them again and again, between others.
    #[test]
    fn the_shard_of_a_key_is_that_of_its_stable_hash_whatever_came_before() {
        let row = RowLayout::new([Field::new("k", Type::I64), Field::new("v", Type::I64)]);
        let (slot, mut batch) = (row.slot("k").unwrap(), RowBatch::new(Arc::new(row.clone())));
        let (groups, shards) = (128, 5);
        let mut router = Router::from_row(&row, &["k".into()], groups, shards);
        let symbols = Symbols::default();
        let mut state = 1_u64;
        for number in 0..60_000_u64 {
            // Some keys often, most of them seldom.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let most = if number % 3 == 0 { 10 } else { 20_000 };
            let key = ((state >> 33) % most) as i64 - 9;
            batch.clear();
            let position = Position { partition: 0, offset: number };
            batch.push(EventTime::MIN, position).set(slot, Datum::Int(key.into()));
            let mut encoded = Vec::new();
            encode(&[Value::Int(key.into())], &mut encoded);
            let wanted = KeyGroup::of(stable_hash(&encoded), groups).shard(groups, shards);
            assert_eq!(router.shard(batch.row(0), &symbols), wanted, "key {key}");
        }
    }
}
