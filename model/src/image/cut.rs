//! What a shard hands over at a cut: its part, and per table and key group the entries that have
//! changed, or all of them ([`handover`] decides).

use super::bytes::put_bytes;
use super::dirty::Dirty;
use super::form::Form;
use super::keyed::Keyed;
use super::segment::{Segment, TableId};
use super::{ImageError, form, kinds, pages, table_mut};
use crate::epoch::{Epoch, GroupFacts, Handover, handover};
use crate::key::{KeyGroup, Placing};
use crate::memory::shelves_mut;
use crate::shard::Shard;
use std::sync::Arc;

/// Bytes of entries of one group after which another segment goes on.
const SEGMENT_BYTES: usize = 256 << 10;

/// What a shard hands over for an epoch.
#[derive(Debug, Clone)]
pub struct Cut {
    /// What is not kept by key. The last one counts alone.
    pub part: Vec<u8>,
    /// Entries, in order; see [`super::pack`].
    pub segments: Vec<Segment>,
    /// The oldest epoch whose segments are needed to make this shard anew.
    pub oldest: Epoch,
    /// How many entries have been written, those that are gone included.
    pub entries: u64,
}

impl Shard {
    /// Hands over what has changed since the last cut; the first time everything, and from then on
    /// changes are noted. Every cut must be kept, and epochs rise: what is handed over here is not
    /// handed over again.
    ///
    /// # Errors
    /// The state does not serialise: never, as far as known.
    pub fn cut(&mut self, epoch: Epoch) -> Result<Cut, ImageError> {
        let mut cut = Cut { part: self.part()?, segments: Vec::new(), oldest: epoch, entries: 0 };
        let plan = Arc::clone(&self.plan);
        let symbols = Arc::clone(&self.symbols);
        let (id, shards) = self.place();
        let groups = (0..plan.key_groups).map(KeyGroup);
        let owned: Vec<_> =
            groups.map(|group| group.shard(plan.key_groups, shards) == id).collect();
        for (stage, machine) in plan.stages.iter().zip(&mut self.machines) {
            let mut placing = Placing::of_stage(&plan, stage);
            for kind in kinds(machine) {
                let form = form(machine, *kind, stage, &symbols);
                let Some(table) = table_mut(machine, *kind) else { continue };
                let mut writer = Writer {
                    table: TableId { stage: stage.id, kind: *kind },
                    form,
                    epoch,
                    groups: Vec::new(),
                    done: Vec::new(),
                    entries: 0,
                    scratch: (Vec::new(), Vec::new()),
                };
                let oldest = writer.write(table, &mut placing, &owned)?;
                cut.oldest = oldest.unwrap_or(epoch).min(cut.oldest);
                cut.entries += writer.entries;
                cut.segments.append(&mut writer.done);
            }
            for (kind, shelf) in shelves_mut(machine) {
                let table = TableId { stage: stage.id, kind: kind.pages() };
                for (group, known) in shelf.cold.hand_over(epoch) {
                    let mut entries = Vec::new();
                    known.iter().for_each(|known| pages::put(known, &mut entries));
                    cut.segments.push(Segment { table, group, is_base: true, entries });
                }
                cut.oldest = shelf.cold.oldest().unwrap_or(epoch).min(cut.oldest);
            }
        }
        self.cut_pages()?;
        Ok(cut)
    }
}

/// A group on its way out.
struct Open {
    handover: Handover,
    /// Whether the next segment is the first one of a base.
    is_base: bool,
    entries: Vec<u8>,
}

/// Writes what one table hands over.
struct Writer<'a> {
    table: TableId,
    form: Form<'a>,
    epoch: Epoch,
    /// By key group.
    groups: Vec<Open>,
    done: Vec<Segment>,
    entries: u64,
    /// Room for a name as words, and for an entry.
    scratch: (Vec<u64>, Vec<u8>),
}

impl Writer<'_> {
    /// Writes what `table` hands over; returns the oldest epoch that it needs from then on.
    fn write(
        &mut self,
        table: &mut dyn Keyed,
        placing: &mut Placing,
        owned: &[bool],
    ) -> Result<Option<Epoch>, ImageError> {
        let mut dirty = table.dirty().take().unwrap_or_else(|| self.first(table, owned.len()));
        let mut name = Vec::new();
        let facts = dirty.count(|entry| {
            name.clear();
            table.name(entry, &mut name);
            placing.group(&name, self.form.symbols)
        });
        self.groups = (0..)
            .zip(facts.iter().zip(owned))
            .map(|(group, known)| self.open(KeyGroup(group), known))
            .collect();
        for (name, group) in dirty.gone() {
            if self.handover(group) == Handover::Changes {
                self.put_gone(name, group);
            }
        }
        if self.groups.iter().any(|open| open.handover == Handover::Base) {
            for (entry, group) in dirty.all() {
                if self.handover(group) == Handover::Base {
                    self.put(table, entry, group)?;
                }
            }
        }
        for (entry, group) in dirty.changed() {
            if self.handover(group) == Handover::Changes {
                self.put(table, entry, group)?;
            }
        }
        for group in 0..self.groups.len() {
            self.close(KeyGroup(group as u16));
        }
        dirty.clear(self.epoch, |group| self.handover(group) == Handover::Base);
        let oldest = dirty.oldest();
        *table.dirty() = Some(dirty);
        Ok(oldest)
    }

    /// Of a table that was never cut: everything has changed.
    fn first(&self, table: &dyn Keyed, groups: usize) -> Box<Dirty> {
        let mut dirty = Dirty::new(self.form.name_words(), groups as u16);
        for entry in table.entries() {
            dirty.touch(entry);
        }
        Box::new(dirty)
    }

    fn open(&self, group: KeyGroup, (facts, is_owned): (&GroupFacts, &bool)) -> Open {
        // What is of another shard is none of ours, unless it is here all the same.
        let is_here = *is_owned || facts.live > 0 || facts.changed > 0;
        let handover =
            if is_here { handover(self.epoch, group, *facts) } else { Handover::Nothing };
        Open { handover, is_base: handover == Handover::Base, entries: Vec::new() }
    }

    fn handover(&self, group: KeyGroup) -> Handover {
        let open = self.groups.get(usize::from(group.0));
        open.map_or(Handover::Nothing, |open| open.handover)
    }

    fn put_gone(&mut self, name: &[u64], group: KeyGroup) {
        let Some(open) = self.groups.get_mut(usize::from(group.0)) else { return };
        let (_, bytes) = &mut self.scratch;
        bytes.clear();
        self.form.put_name(bytes, name);
        put_bytes(&mut open.entries, bytes);
        put_bytes(&mut open.entries, &[]);
        self.entries += 1;
    }

    fn put(&mut self, table: &dyn Keyed, entry: u32, group: KeyGroup) -> Result<(), ImageError> {
        let Some(open) = self.groups.get_mut(usize::from(group.0)) else { return Ok(()) };
        let (name, bytes) = &mut self.scratch;
        name.clear();
        table.name(entry, name);
        bytes.clear();
        self.form.put_name(bytes, name);
        put_bytes(&mut open.entries, bytes);
        bytes.clear();
        table.put(entry, &self.form, bytes)?;
        put_bytes(&mut open.entries, bytes);
        self.entries += 1;
        if open.entries.len() >= SEGMENT_BYTES {
            self.close(group);
        }
        Ok(())
    }

    /// Ends a segment of a group. A base is told even where it is empty.
    fn close(&mut self, group: KeyGroup) {
        let Some(open) = self.groups.get_mut(usize::from(group.0)) else { return };
        let is_base = std::mem::take(&mut open.is_base);
        let entries = std::mem::take(&mut open.entries);
        if is_base || !entries.is_empty() {
            self.done.push(Segment { table: self.table, group, is_base, entries });
        }
    }
}
