//! Where a key belongs: its group, and the shard that owns that.

use super::stable::encode_packed;
use super::{KeyGroup, KeyLayout, KeyPacker, stable_hash};
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
        encode_packed(&self.layout, &self.key, symbols, &mut self.encoded);
        KeyGroup::of(stable_hash(&self.encoded), self.groups)
    }

    /// The group of `source`, a row or key of the layout that the packer reads.
    pub(crate) fn group(&mut self, source: &[u64], symbols: &Symbols) -> KeyGroup {
        self.pack(source);
        self.group_of_packed(symbols)
    }
}

/// Finds the shard of a row, remembering what it found: the stable hash is computed once per
/// shard key, not once per record.
#[derive(Debug)]
pub struct Router {
    placing: Placing,
    shards: usize,
    /// Shards of the keys seen, by packed key. Cleared when it reaches `CACHE_MAX`.
    known: hashbrown::HashMap<Box<[u64]>, u32, foldhash::fast::RandomState>,
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
        let placing = Placing::new(layout, packer, groups);
        Self { placing, shards, known: hashbrown::HashMap::default() }
    }

    /// The shard that owns the key of `source`, a row or key of the layout that the packer reads.
    pub fn shard(&mut self, source: &[u64], symbols: &Symbols) -> usize {
        if self.shards <= 1 {
            return 0;
        }
        self.placing.pack(source);
        if let Some(shard) = self.known.get(self.placing.key.as_slice()) {
            return *shard as usize;
        }
        let group = self.placing.group_of_packed(symbols);
        let shard = group.shard(self.placing.groups, self.shards);
        if self.known.len() >= Self::CACHE_MAX {
            self.known.clear();
        }
        self.known.insert(self.placing.key.as_slice().into(), shard as u32);
        shard
    }
}
