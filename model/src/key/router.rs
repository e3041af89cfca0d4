//! Which shard owns a key.

use super::{KeyGroup, KeyLayout, KeyPacker, encode, stable_hash};
use crate::row::{Field, RowLayout};
use crate::symbol::Symbols;

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
