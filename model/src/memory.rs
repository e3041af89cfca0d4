//! How much memory the state of a shard takes, and where the rest of it lies.
//!
//! A shard has a budget. Whenever its tables take more than that, each lets keys go that were not
//! used, in proportion to what it takes; between two times it may grow into what the others leave.
//! What must be in memory - keys in use, and where those are that are not - is there all the same,
//! and told if it is more than the budget.
//!
//! A page belongs to epochs as everything does: one that a cut knows of is deleted when no epoch is
//! kept any more that does. Without a budget a table has no shelf, and looks for none.

use crate::cold::{Chills, KnownPage, PageError, PageNumber, Pages, Shelf};
use crate::epoch::Epoch;
use crate::image::TableKind;
use crate::pane::StageId;
use crate::plan::Plan;
use crate::shard::{Machine, Shard, StageError};
use crate::symbol::Symbols;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// What a shard's state takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Bytes that keys in memory take, and knowing where the others are.
    pub bytes: usize,
    /// The most bytes that it took when it had let go of what could go.
    pub bytes_max: usize,
    /// What it may take.
    pub budget: Option<usize>,
    /// Keys in pages.
    pub cold_keys: usize,
    /// Bytes of these pages, before packing.
    pub cold_bytes: usize,
    /// Keys that have gone into pages so far.
    pub went: u64,
    /// Keys that have come back so far.
    pub came: u64,
}

impl MemoryUse {
    /// Adds what another shard takes.
    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.bytes_max += other.bytes_max;
        self.budget = self.budget.map(|budget| budget + other.budget.unwrap_or_default());
        self.cold_keys += other.cold_keys;
        self.cold_bytes += other.cold_bytes;
        self.went += other.went;
        self.came += other.came;
    }
}

/// The part of a shard that knows of memory.
#[derive(Debug)]
pub(crate) struct Memory {
    pages: Arc<dyn Pages>,
    /// Bytes; `None`: everything comes back into memory, and stays.
    budget: Option<usize>,
    /// Most bytes in memory behind a round. Rises only.
    bytes_max: usize,
    /// Cuts so far. Grows only.
    cuts: u64,
    /// Pages whose keys are to be placed anew. Taken by [`Shard::take_displaced`].
    displaced: Vec<RestoredPage>,
    /// Pages that are no longer needed, with the first cut that does not know of them.
    gone: VecDeque<(u64, PageNumber)>,
}

impl Memory {
    /// Bytes of what is known of pages that no table knows any more.
    fn bytes(&self) -> usize {
        self.gone.capacity() * size_of::<(u64, PageNumber)>()
    }
}

/// What pages there are of a state that is restored.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// Those that hold some of it.
    pub(crate) pages: Vec<RestoredPage>,
    /// Those that hold keys which lie in other groups now.
    pub(crate) displaced: Vec<RestoredPage>,
    /// Those of what is forgotten: the next cut does not know of them.
    pub(crate) gone: Vec<PageNumber>,
    /// Whether the next cut hands over everything.
    pub(crate) is_rewritten: bool,
}

/// A page that holds some of a state that is restored.
#[derive(Debug)]
pub(crate) struct RestoredPage {
    /// Place of its stage in the plan.
    pub(crate) stage: usize,
    /// Of its entries.
    pub(crate) kind: TableKind,
    /// The epoch that handed it over.
    pub(crate) epoch: Epoch,
    pub(crate) known: KnownPage,
}

/// Pages whose keys are to be placed anew, and where they are read.
pub(crate) struct Displaced {
    pub(crate) at: Arc<dyn Pages>,
    pub(crate) pages: Vec<RestoredPage>,
}

/// What is done with each table of a machine.
trait Visit {
    fn visit<T: Chills>(&mut self, kind: TableKind, table: &mut T);
}

fn visit(machine: &mut Machine, visitor: &mut impl Visit) {
    match machine {
        Machine::Keys(table, _) => visitor.visit(TableKind::Windows, &mut **table),
        Machine::Sliding(table, _) => {
            visitor.visit(TableKind::Windows, &mut table.windows);
            visitor.visit(TableKind::Slices, &mut **table);
        }
        Machine::Machines(table, _) => visitor.visit(TableKind::Machines, &mut **table),
        Machine::TopK(table) => visitor.visit(TableKind::Lists, &mut **table),
        Machine::Sequence(table) => visitor.visit(TableKind::Sequences, &mut **table),
    }
}

/// The shelves of a machine.
pub(crate) fn shelves(machine: &Machine) -> impl Iterator<Item = (TableKind, &Shelf)> {
    let shelves = match machine {
        Machine::Keys(table, _) => [Some((TableKind::Windows, table.shelf_ref())), None],
        Machine::Sliding(table, _) => [
            Some((TableKind::Windows, table.windows.shelf_ref())),
            Some((TableKind::Slices, table.shelf_ref())),
        ],
        Machine::Machines(table, _) => [Some((TableKind::Machines, table.shelf_ref())), None],
        Machine::TopK(table) => [Some((TableKind::Lists, table.shelf_ref())), None],
        Machine::Sequence(table) => [Some((TableKind::Sequences, table.shelf_ref())), None],
    };
    shelves.into_iter().flatten().filter_map(|(kind, shelf)| Some((kind, shelf?)))
}

/// As [`shelves`], to be changed.
pub(crate) fn shelves_mut(machine: &mut Machine) -> impl Iterator<Item = (TableKind, &mut Shelf)> {
    let shelves = match machine {
        Machine::Keys(table, _) => [Some((TableKind::Windows, table.shelf())), None],
        Machine::Sliding(table, _) => {
            let (windows, slices) = table.shelves();
            [Some((TableKind::Windows, windows)), Some((TableKind::Slices, slices))]
        }
        Machine::Machines(table, _) => [Some((TableKind::Machines, table.shelf())), None],
        Machine::TopK(table) => [Some((TableKind::Lists, table.shelf())), None],
        Machine::Sequence(table) => [Some((TableKind::Sequences, table.shelf())), None],
    };
    let shelves = shelves.into_iter().flatten();
    shelves.filter_map(|(kind, shelf)| Some((kind, shelf.as_deref_mut()?)))
}

/// Adds up what tables take.
struct Weigh(usize);

impl Visit for Weigh {
    fn visit<T: Chills>(&mut self, _: TableKind, table: &mut T) {
        self.0 += taken(table);
    }
}

/// Bytes that a table takes, its shelf and what is noted of its changes included.
fn taken(table: &mut impl Chills) -> usize {
    let dirty = table.dirty().as_ref().map_or(0, |dirty| dirty.bytes());
    table.held() + table.shelf_ref().map_or(0, |shelf| shelf.cold.memory()) + dirty
}

/// Says how much tables may take: so much more than they do.
struct Grow(usize);

impl Visit for Grow {
    fn visit<T: Chills>(&mut self, _: TableKind, table: &mut T) {
        let limit = taken(table).saturating_add(self.0);
        if let Some(shelf) = table.shelf() {
            shelf.limit = limit;
        }
    }
}

/// Lets keys go, so that all tables together take no more than the budget.
struct Shrink {
    taken: usize,
    budget: usize,
}

impl Visit for Shrink {
    fn visit<T: Chills>(&mut self, _: TableKind, table: &mut T) {
        let share = taken(table) as u128 * self.budget as u128 / self.taken.max(1) as u128;
        if let Some(shelf) = table.shelf() {
            shelf.limit = share as usize;
        }
        table.tidy();
    }
}

/// Counts anew what tables take.
struct Reweigh;

impl Visit for Reweigh {
    fn visit<T: Chills>(&mut self, _: TableKind, table: &mut T) {
        table.weigh_all();
    }
}

/// Lets keys go that are beyond the limit.
struct Tidy;

impl Visit for Tidy {
    fn visit<T: Chills>(&mut self, _: TableKind, table: &mut T) {
        table.tidy();
    }
}

/// Gives tables of one stage their shelves.
struct Equip<'a> {
    parts: (&'a Arc<Plan>, &'a Arc<Symbols>),
    stage: usize,
    pages: &'a Arc<dyn Pages>,
}

impl Visit for Equip<'_> {
    fn visit<T: Chills>(&mut self, _: TableKind, table: &mut T) {
        let shape = (self.stage, table.has_window(), table.shares());
        let shelf = Shelf::new(self.parts, shape, self.pages.clone());
        *table.shelf() = shelf.map(Box::new);
        table.weigh_all();
    }
}

/// Knows of pages again.
struct Restore {
    kind: TableKind,
    epoch: Epoch,
    known: Option<KnownPage>,
    result: Result<(), PageError>,
}

impl Visit for Restore {
    fn visit<T: Chills>(&mut self, kind: TableKind, table: &mut T) {
        if kind == self.kind
            && let Some(known) = self.known.take()
        {
            self.result = table.restore_page(known, self.epoch);
        }
    }
}

/// Takes everything back into memory.
struct Empty;

impl Visit for Empty {
    fn visit<T: Chills>(&mut self, _: TableKind, table: &mut T) {
        table.recall_all();
    }
}

impl Shard {
    /// Keeps state in memory as far as `budget` bytes allow it, and the rest in `pages`; all of it
    /// in memory, if there is no budget. To be called before anything is taken. What has been
    /// decoded may lie there already.
    ///
    /// # Errors
    /// A page that is needed cannot be read.
    pub fn keep_within(
        &mut self,
        budget: Option<usize>,
        pages: Arc<dyn Pages>,
    ) -> Result<(), PageError> {
        let restored = std::mem::take(&mut self.restored);
        let displaced = restored.displaced;
        let gone = displaced.iter().map(|page| page.known.number).chain(restored.gone);
        let gone = gone.map(|page| (1, page)).collect();
        let memory = Memory { pages, budget, bytes_max: 0, cuts: 0, displaced, gone };
        if budget.is_some() || !restored.pages.is_empty() {
            self.equip(&memory.pages);
        }
        for RestoredPage { stage, kind, epoch, known } in restored.pages {
            let Some(machine) = self.machines.get_mut(stage) else { continue };
            let mut restore = Restore { kind, epoch, known: Some(known), result: Ok(()) };
            visit(machine, &mut restore);
            restore.result?;
            if let Machine::Sliding(table, _) = machine {
                table.wait_for_cold();
            }
        }
        if restored.is_rewritten {
            let shelves = self.machines.iter_mut().flat_map(shelves_mut);
            shelves.for_each(|(_, shelf)| shelf.cold.rewrite());
        }
        if budget.is_none() {
            // Shelves stay, to hand over that nothing is on them.
            self.machines.iter_mut().for_each(|machine| visit(machine, &mut Empty));
        }
        self.memory = Some(memory);
        self.shrink();
        self.check_pages()
    }

    /// Entries have been installed: what is too much goes.
    pub(crate) fn reweigh(&mut self) -> Result<(), PageError> {
        if self.memory.as_ref().is_some_and(|memory| memory.budget.is_some()) {
            self.machines.iter_mut().for_each(|machine| visit(machine, &mut Reweigh));
            self.shrink();
        }
        self.check_pages()
    }

    fn check_pages(&self) -> Result<(), PageError> {
        let mut shelves = self.machines.iter().flat_map(shelves);
        let failure = shelves.find_map(|(_, shelf)| shelf.cold.failure());
        failure.map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// The pages whose keys are to be placed anew; `None` if there are none.
    pub(crate) fn take_displaced(&mut self) -> Option<Displaced> {
        let memory = self.memory.as_mut()?;
        let pages = std::mem::take(&mut memory.displaced);
        (!pages.is_empty()).then(|| Displaced { at: memory.pages.clone(), pages })
    }

    fn equip(&mut self, pages: &Arc<dyn Pages>) {
        let parts = (&self.plan, &self.symbols);
        for (stage, machine) in self.machines.iter_mut().enumerate() {
            visit(machine, &mut Equip { parts, stage, pages });
        }
    }

    /// The pages that this shard needs, or that an epoch does which is kept.
    pub fn pages(&self) -> BTreeSet<PageNumber> {
        let mut pages = BTreeSet::new();
        for (_, shelf) in self.machines.iter().flat_map(shelves) {
            pages.extend(shelf.cold.known().map(|known| known.number));
            pages.extend(shelf.cold.gone());
        }
        let gone = self.memory.iter().flat_map(|memory| &memory.gone);
        pages.extend(gone.map(|(_, page)| *page));
        pages
    }

    /// What its state takes; `None` if it is not kept within a budget.
    pub fn memory(&self) -> Option<MemoryUse> {
        let memory = self.memory.as_ref().filter(|memory| memory.budget.is_some())?;
        let mut taken = MemoryUse {
            bytes: memory.bytes(),
            bytes_max: memory.bytes_max,
            budget: memory.budget,
            ..MemoryUse::default()
        };
        for machine in &self.machines {
            taken.bytes += held(machine);
            for (_, shelf) in shelves(machine) {
                taken.bytes += shelf.cold.memory();
                taken.cold_keys += shelf.cold.keys();
                taken.cold_bytes += shelf.cold.page_bytes();
                taken.went += shelf.cold.went;
                taken.came += shelf.cold.came;
            }
        }
        Some(taken)
    }

    /// What its state has taken at most and what it may take, in bytes, if it was more: with all keys
    /// gone that can go.
    pub fn excess(&self) -> Option<(usize, usize)> {
        let memory = self.memory.as_ref()?;
        let budget = memory.budget.filter(|budget| memory.bytes_max > *budget)?;
        Some((memory.bytes_max, budget))
    }

    fn weigh(&mut self) -> usize {
        let mut weigh = Weigh(self.memory.as_ref().map_or(0, Memory::bytes));
        self.machines.iter_mut().for_each(|machine| visit(machine, &mut weigh));
        weigh.0
    }

    /// A round begins: tables may grow into what is free.
    pub(crate) fn grow(&mut self) {
        let Some(budget) = self.memory.as_ref().and_then(|memory| memory.budget) else { return };
        let free = budget.saturating_sub(self.weigh());
        self.machines.iter_mut().for_each(|machine| visit(machine, &mut Grow(free)));
    }

    /// A stage that is not firing has been given something: what is too much goes.
    pub(crate) fn tidy(&mut self, stage: StageId) {
        if let Some(machine) = self.machines.get_mut(stage.index()) {
            visit(machine, &mut Tidy);
        }
    }

    /// A round is over: what is too much goes.
    pub(crate) fn shrink(&mut self) {
        let Some(budget) = self.memory.as_ref().and_then(|memory| memory.budget) else { return };
        let mut taken = self.weigh();
        if taken > budget {
            let mut shrink = Shrink { taken, budget };
            self.machines.iter_mut().for_each(|machine| visit(machine, &mut shrink));
            taken = self.weigh();
        }
        if let Some(memory) = &mut self.memory {
            memory.bytes_max = memory.bytes_max.max(taken);
        }
    }

    /// Why the state is no state any more, if it is none.
    pub(crate) fn check_stages(&self) -> Result<(), StageError> {
        for (stage, machine) in self.plan.stages.iter().zip(&self.machines) {
            for (_, shelf) in shelves(machine) {
                if let Some(error) = shelf.cold.failure() {
                    let (stage, error) = (stage.name.clone(), error.clone());
                    return Err(StageError::Page { stage, error });
                }
            }
        }
        Ok(())
    }

    /// The state is cut here. Deletes pages that no epoch needs any more: the cut before it is
    /// durable, and so is the one before that.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub(crate) fn cut_pages(&mut self) -> Result<(), PageError> {
        let Some(memory) = &mut self.memory else { return Ok(()) };
        memory.cuts += 1;
        for (_, shelf) in self.machines.iter_mut().flat_map(shelves_mut) {
            let gone = shelf.cold.take_gone().into_iter();
            memory.gone.extend(gone.map(|page| (memory.cuts, page)));
        }
        while let Some((cut, page)) = memory.gone.front().copied()
            && cut + 2 <= memory.cuts
        {
            memory.pages.delete(page)?;
            memory.gone.pop_front();
        }
        Ok(())
    }
}

fn held(machine: &Machine) -> usize {
    match machine {
        Machine::Keys(table, _) => table.held(),
        Machine::Sliding(table, _) => table.windows.held() + table.held(),
        Machine::Machines(table, _) => table.held(),
        Machine::TopK(table) => table.held(),
        Machine::Sequence(table) => table.held(),
    }
}

/// Windows of cold keys that are not complete.
pub(crate) fn cold_windows(machine: &Machine) -> usize {
    shelves(machine).map(|(_, shelf)| shelf.cold.open_windows()).sum()
}
