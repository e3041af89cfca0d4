//! From the pieces of epochs back to shards, however many there are now.
//!
//! Pieces come newest epoch first, so that of every entry the first that comes is the one that
//! counts (`counting`). Every group goes to the shard that owns it now.

use super::bytes::Input;
use super::counting::Counting;
use super::dirty::Dirty;
use super::part::{ShardPart, merged};
use super::segment::{Shape, StoredSegment, TableId, entry, segments};
use super::{Begins, ImageError, form, kinds, other_plan, pages, table_mut};
use crate::epoch::Epoch;
use crate::key::Placing;
use crate::memory::RestoredPage;
use crate::plan::{Plan, Stage};
use crate::shard::Shard;
use crate::symbol::Symbols;
use std::sync::Arc;

/// Shards that become what the cuts of an epoch say.
#[derive(Debug)]
pub struct Restoration {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    shards: Vec<Shard>,
    counting: Counting,
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
            if kind.in_pages().is_some() {
                return Err(ImageError::InPages);
            }
            self.is_rewritten = true;
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
        if kind.in_pages().is_some() && begins.is_some_and(Begins::changes) {
            return Err(ImageError::InPages);
        }
        if is_placed_anew {
            self.is_rewritten = true;
            return self.place_anew(stage, table_id, entries);
        }
        let id = group.shard(plan.key_groups, self.shards.len());
        if let (Some(kind), Some(shard)) = (kind.in_pages(), self.shards.get_mut(id)) {
            while !entries.is_empty() {
                let known = pages::known(group, &mut entries)?;
                let stage = stage.id.index();
                shard.restored.push(RestoredPage { stage, kind, epoch, known });
            }
            return Ok(());
        }
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
            let machines = self.shards.first().and_then(|s| s.machines.get(stage.id.index()));
            let Some(machine) = machines else { continue };
            let (key, _) =
                form(machine, table_id.kind, stage, &symbols).name(&mut Input(name.0))?;
            let group = placing.group(&key, &symbols);
            let id = group.shard(plan.key_groups, self.shards.len());
            let machine = self.shards.get_mut(id);
            let machine = machine.and_then(|shard| shard.machines.get_mut(stage.id.index()));
            let Some(machine) = machine else { continue };
            let form = form(machine, table_id.kind, stage, &symbols);
            let Some(table) = table_mut(machine, table_id.kind) else {
                return Err(other_plan(&format!("the window or trigger of `{}`", stage.name)));
            };
            table.install(name, content, &form)?;
        }
        Ok(())
    }

    /// The shards.
    pub fn finish(mut self) -> Vec<Shard> {
        let has_cycles = self.plan.engine.pace().is_some();
        for shard in &mut self.shards {
            shard.recall_sent();
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
