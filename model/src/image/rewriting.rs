//! Entries that were read one by one, written as the log of one epoch: whoever reads it finds exactly
//! these, all in memory.

use super::bytes::{Input, put_bytes};
use super::segment::{StoredSegment, TableKind};
use super::stored::{Layouts, StoredEntry};
use super::{ImageError, other_plan};
use crate::key::KeyGroup;
use std::collections::BTreeMap;

/// Bytes of entries of one group after which a segment is full.
const SEGMENT_BYTES: usize = 64 << 10;
/// Bytes of a piece, about.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of entries that are kept back at most, until their segments are full.
const OPEN_BYTES: usize = 32 << 20;

type Table = (Box<str>, TableKind, KeyGroup);

/// Writes entries as pieces.
#[derive(Debug)]
pub struct Rewriter<'a> {
    layouts: &'a Layouts,
    /// By table and group: entries of a segment that is not full.
    open: BTreeMap<Table, Vec<u8>>,
    open_bytes: usize,
    piece: Vec<u8>,
}

impl<'a> Rewriter<'a> {
    /// Of stages with these layouts.
    pub const fn new(layouts: &'a Layouts) -> Self {
        Self { layouts, open: BTreeMap::new(), open_bytes: 0, piece: Vec::new() }
    }

    /// Writes an entry; returns a piece when one is full.
    ///
    /// # Errors
    /// The entry is damaged, or of a stage that is not known.
    pub fn put(&mut self, entry: &StoredEntry<'_>) -> Result<Option<Vec<u8>>, ImageError> {
        self.layouts.view(entry)?;
        let table = (entry.stage.into(), entry.kind, entry.group);
        let entries = self.open.entry(table.clone()).or_default();
        let before = entries.len();
        put_bytes(entries, entry.name);
        put_bytes(entries, entry.content);
        self.open_bytes += entries.len() - before;
        if entries.len() >= SEGMENT_BYTES {
            self.close(&table)?;
        } else if self.open_bytes >= OPEN_BYTES {
            self.close_all()?;
        }
        let is_full = self.piece.len() >= PIECE_BYTES;
        Ok(is_full.then(|| std::mem::take(&mut self.piece)))
    }

    /// The last piece, if there is one.
    ///
    /// # Errors
    /// A stage is not known.
    pub fn finish(mut self) -> Result<Option<Vec<u8>>, ImageError> {
        self.close_all()?;
        Ok((!self.piece.is_empty()).then_some(self.piece))
    }

    fn close_all(&mut self) -> Result<(), ImageError> {
        while let Some((table, _)) = self.open.first_key_value() {
            let table = table.clone();
            self.close(&table)?;
        }
        Ok(())
    }

    fn close(&mut self, table: &Table) -> Result<(), ImageError> {
        let Some(entries) = self.open.remove(table) else { return Ok(()) };
        self.open_bytes -= entries.len();
        let (stage, kind, group) = (&*table.0, table.1, table.2);
        let shape = self.layouts.shape(stage);
        let shape = shape.ok_or_else(|| other_plan(&format!("stage `{stage}`")))?;
        let entries = Input(&entries);
        // One epoch has all entries of a group, in however many segments.
        StoredSegment { stage, kind, group, is_base: true, shape, entries }.put(&mut self.piece);
        Ok(())
    }
}
