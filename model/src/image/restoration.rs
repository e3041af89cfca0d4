//! From the pieces of epochs back to shards, however many there are now.
//!
//! Pieces come newest epoch first, so that of every entry the first that comes is the one that
//! counts (`counting`). Every group goes to the shard that owns it now.

use super::bytes::Input;
use super::counting::Counting;
use super::dirty::Dirty;
use super::displaced::place;
use super::part::{ShardPart, merged};
use super::segment::{Shape, StoredSegment, TableId, TableKind, entry, segments};
use super::{Begins, ImageError, form, kinds, other_plan, pages, table_mut};
use crate::epoch::Epoch;
use crate::key::{KeyGroup, Placing};
use crate::memory::{Restored, RestoredPage};
use crate::plan::{Plan, Stage};
use crate::shard::Shard;
use crate::symbol::Symbols;
use hashbrown::HashSet;
use std::sync::Arc;

/// Shards that become what the cuts of an epoch say.
#[derive(Debug)]
pub struct Restoration {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    shards: Vec<Shard>,
    counting: Counting,
    /// Whose pages are forgotten, and have been found.
    forgotten: HashSet<(Box<str>, TableKind, KeyGroup), foldhash::fast::RandomState>,
    begins: Option<Begins>,
    /// Whether the next cut hands over everything, so that nothing of what is read here is read
    /// again: it holds what is forgotten, or what lies in another group now.
    is_rewritten: bool,
}

impl Restoration {
    /// `shards` shards, from the parts of all shards that there were, in their order.
    ///
    /// # Errors
    /// The bytes are damaged, of another version, or of another plan.
    pub fn new(
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
        shards: usize,
        parts: &[Vec<u8>],
    ) -> Result<Self, ImageError> {
        Self::but(plan, symbols, shards, parts, None)
    }

    /// The same, but for what begins anew.
    ///
    /// # Errors
    /// The bytes are damaged, of another version, or do not hold what is to go on.
    pub fn but(
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
        shards: usize,
        parts: &[Vec<u8>],
        begins: Option<Begins>,
    ) -> Result<Self, ImageError> {
        let parts = parts.iter().map(|part| ShardPart::read(part, &plan, begins.as_ref()));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let is_placed_anew = begins.as_ref().is_some_and(|begins| begins.is_placed_anew);
        let mut made = Vec::with_capacity(shards);
        for (id, part) in (0..shards).zip(merged(parts, shards, is_placed_anew)) {
            let mut shard = Shard::new(Arc::clone(&plan), Arc::clone(&symbols), id, shards);
            shard.take_part(part, begins.as_ref())?;
            if let Some(begins) = &begins {
                shard.begin(begins);
            }
            for (stage, machine) in plan.stages.iter().zip(&mut shard.machines) {
                for kind in kinds(machine) {
                    let words = form(machine, *kind, stage, &symbols).name_words();
                    if let Some(table) = table_mut(machine, *kind) {
                        *table.dirty() = Some(Box::new(Dirty::new(words, plan.key_groups)));
                    }
                }
            }
            made.push(shard);
        }
        Ok(Self {
            plan,
            symbols,
            shards: made,
            counting: Counting::default(),
            forgotten: HashSet::default(),
            is_rewritten: begins.as_ref().is_some_and(|begins| !begins.stages.is_empty()),
            begins,
        })
    }

    /// Takes a piece of `epoch`; none of a later epoch comes after it.
    ///
    /// # Errors
    /// The bytes are damaged, of another version, or of another plan.
    pub fn take(&mut self, epoch: Epoch, piece: &[u8]) -> Result<(), ImageError> {
        self.counting.begin(epoch);
        segments(piece)?.try_for_each(|segment| self.take_segment(epoch, segment?))
    }

    fn take_segment(&mut self, epoch: Epoch, segment: StoredSegment<'_>) -> Result<(), ImageError> {
        let StoredSegment { kind, group, is_base, shape, mut entries, .. } = segment;
        let begins = self.begins.as_ref();
        if begins.is_some_and(|begins| begins.forgets(segment.stage, &self.plan)) {
            self.is_rewritten = true;
            if kind.in_pages().is_some() {
                self.forget_pages((segment.stage, kind, group), entries)?;
            }
            return Ok(());
        }
        let is_placed_anew = begins.is_some_and(|begins| begins.is_placed_anew);
        if group.0 >= self.plan.key_groups && !is_placed_anew {
            return Err(other_plan("the number of key groups"));
        }
        let plan = Arc::clone(&self.plan);
        let Some(stage) = plan.stage(segment.stage) else {
            return Err(other_plan(&format!("stage `{}`", segment.stage)));
        };
        let table_id = TableId { stage: stage.id, kind };
        if !self.counting.counts((table_id, group), is_base) {
            return Ok(());
        }
        Shape::of(stage).check(shape)?;
        self.is_rewritten |= is_placed_anew;
        if let Some(kind) = kind.in_pages() {
            let table = TableId { kind, ..table_id };
            return self.take_pages((table, group, epoch), entries, is_placed_anew);
        }
        if is_placed_anew {
            return self.place_anew(stage, table_id, entries);
        }
        let id = group.shard(plan.key_groups, self.shards.len());
        let machine = self.shards.get_mut(id).and_then(|s| s.machines.get_mut(stage.id.index()));
        let Some(machine) = machine else { return Ok(()) };
        let form = form(machine, kind, stage, &self.symbols);
        let Some(table) = table_mut(machine, kind) else {
            return Err(other_plan(&format!("the window or trigger of `{}`", stage.name)));
        };
        let mut count = 0_u32;
        let mut installed = Vec::new();
        while !entries.is_empty() {
            let (name, content) = entry(&mut entries)?;
            count = count.saturating_add(1);
            if self.counting.is_there(table_id, name, content) {
                installed.extend(table.install(name, content, &form)?);
            }
        }
        let Some(dirty) = table.dirty() else { return Ok(()) };
        installed.into_iter().for_each(|entry| dirty.restored(entry, group));
        if let Some(facts) = dirty.facts_mut(group) {
            if is_base {
                facts.base = Some(epoch);
            }
            let is_of_base = facts.base == Some(epoch);
            facts.since_base =
                if is_of_base { facts.since_base } else { facts.since_base.saturating_add(count) };
        }
        Ok(())
    }

    /// Takes notice of pages, which are read once it is known where their keys belong.
    fn take_pages(
        &mut self,
        (TableId { stage, kind }, group, epoch): (TableId, KeyGroup, Epoch),
        mut entries: Input<'_>,
        is_placed_anew: bool,
    ) -> Result<(), ImageError> {
        let id = group.shard(self.plan.key_groups, self.shards.len());
        let id = if is_placed_anew { 0 } else { id };
        let Some(shard) = self.shards.get_mut(id) else { return Ok(()) };
        let Restored { pages, displaced, .. } = &mut shard.restored;
        let known = if is_placed_anew { displaced } else { pages };
        while !entries.is_empty() {
            let (stage, page) = (stage.index(), pages::known(group, &mut entries)?);
            known.push(RestoredPage { stage, kind, epoch, known: page });
        }
        Ok(())
    }

    /// Pages of a stage that is forgotten stay until no epoch is kept that knows of them: the run may
    /// end before it stores one, and the next go back to what the pipeline was.
    fn forget_pages(
        &mut self,
        (stage, kind, group): (&str, TableKind, KeyGroup),
        mut entries: Input<'_>,
    ) -> Result<(), ImageError> {
        // Of what an earlier epoch knows, the numbers may have been given to others.
        let is_newest = self.forgotten.insert((stage.into(), kind, group));
        let Some(shard) = self.shards.first_mut().filter(|_| is_newest) else { return Ok(()) };
        while !entries.is_empty() {
            shard.restored.gone.push(pages::known(group, &mut entries)?.number);
        }
        Ok(())
    }

    /// Puts the entries of a segment where their keys lie now.
    fn place_anew(
        &mut self,
        stage: &Stage,
        table_id: TableId,
        mut entries: Input<'_>,
    ) -> Result<(), ImageError> {
        let (plan, symbols) = (Arc::clone(&self.plan), Arc::clone(&self.symbols));
        let mut placing = Placing::of_stage(&plan, stage);
        while !entries.is_empty() {
            let (name, content) = entry(&mut entries)?;
            if !self.counting.is_there(table_id, name, content) {
                continue;
            }
            let (of, table) = ((&*plan, stage, &*symbols), (&mut placing, table_id.kind));
            place(&mut self.shards, of, table, (name, content))?;
        }
        Ok(())
    }

    /// The shards.
    pub fn finish(mut self) -> Vec<Shard> {
        let has_cycles = self.plan.engine.pace().is_some();
        for shard in &mut self.shards {
            shard.recall_sent();
            shard.restored.is_rewritten = self.is_rewritten;
            if has_cycles {
                shard.touch_news();
            }
            for machine in &mut shard.machines {
                for kind in kinds(machine) {
                    let table = table_mut(machine, *kind);
                    let Some(table) = table else { continue };
                    if self.is_rewritten {
                        *table.dirty() = None;
                    } else if let Some(dirty) = table.dirty() {
                        dirty.settle();
                    }
                }
            }
        }
        self.shards
    }
}
