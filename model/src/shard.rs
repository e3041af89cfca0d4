//! All stages of one shard: records in, panes out, the cascade in one straight line.
//!
//! A round is one batch, one watermark, one tick, one signal or one message of an exchange. In a round the stages run in
//! order, each after the stage below has finished the whole of it: first what came is taken, then
//! late windows fire, then the watermark is delivered. So a delta can never reach a stage after
//! the watermark that fired it, and each key and window fires at most once a round.
//!
//! A stage whose key does not contain what places records is *exchanged*: its deltas go to the
//! shard that owns the coarser key, and every shard sends its stage watermark to all. The
//! receiver's stage watermark is the minimum over senders. ORDER-1 holds on the exchange as long as
//! messages between two shards keep their order: deltas are handed out before the mark.

use crate::account::{Dropped, StageAccount};
use crate::aggregate::{AggregateLayout, Overflow};
use crate::intake::{Shape, Takes, take_deltas, take_exchanged, take_records};
use crate::key::{KeyLayout, Router};
use crate::late::{Aside, LateBatch};
use crate::machine_table::MachineTable;
use crate::pane::{Deltas, PaneBatch, StageId};
use crate::plan::{PaneInput, Plan, Stage, StageInput};
use crate::row::RowBatch;
use crate::symbol::Symbols;
use crate::table::{Fired, KeyTable};
use crate::time::{ProcessingTime, Watermark, Window};
use crate::topk::TopKTable;
use std::sync::Arc;

/// Data that no stage can go on with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// A sum no longer fits.
    #[error("stage `{stage}`: {overflow}")]
    Overflow {
        /// Name of the stage.
        stage: Box<str>,
        /// Which aggregate.
        overflow: Overflow,
    },
}

/// Deltas on their way to the shard that owns their coarser key, in the receiving stage's own key
/// and aggregates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeDeltas {
    /// The receiving stage.
    pub stage: StageId,
    /// The deltas.
    pub deltas: Deltas,
}

/// A sending shard's watermark for an exchanged stage: behind it come no deltas of windows that
/// were complete before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeMark {
    /// The receiving stage.
    pub stage: StageId,
    /// Number of the sending shard.
    pub from: usize,
    /// Its watermark.
    pub watermark: Watermark,
}

/// What a round gives to the world outside the shard, in order.
#[derive(Debug, Default)]
pub struct Output {
    /// Panes for sinks, stage by stage.
    pub panes: Vec<PaneBatch>,
    /// Deltas for other shards (and this one), to be sent before the marks.
    pub exchanges: Vec<(usize, ExchangeDeltas)>,
    /// Marks for every shard, this one included.
    pub marks: Vec<ExchangeMark>,
    /// Copies dropped, while drops are traced.
    pub dropped: Vec<Dropped>,
    /// Copies that came late, with their records, of the stages that are asked for them.
    pub late: Vec<LateBatch>,
}

impl Output {
    /// Removes everything.
    pub fn clear(&mut self) {
        self.panes.clear();
        self.exchanges.clear();
        self.marks.clear();
        self.dropped.clear();
        self.late.clear();
    }
}

#[derive(Debug)]
pub(crate) enum Machine {
    Keys(Box<KeyTable>, Shape),
    Machines(Box<MachineTable>, Shape),
    TopK(Box<TopKTable>),
}

impl Machine {
    fn new(stage: &Stage, symbols: &Symbols) -> Self {
        let shape = Shape::new(stage);
        match &stage.top_k {
            Some(spec) => Self::TopK(Box::new(TopKTable::new(stage, spec))),
            None if stage.is_plain() => Self::Keys(Box::new(KeyTable::new(stage)), shape),
            None => Self::Machines(Box::new(MachineTable::new(stage, symbols)), shape),
        }
    }

    fn account(&self) -> &StageAccount {
        match self {
            Self::Keys(table, _) => &table.account,
            Self::Machines(table, _) => &table.account,
            Self::TopK(table) => &table.account,
        }
    }
}

/// An exchanged stage's two ends.
#[derive(Debug)]
pub(crate) struct ExchangeEnds {
    router: Router,
    /// The regrouping at the sending end; keeps nothing.
    regroup: Shape,
    /// By sending shard: its watermark. The receiver's is the minimum.
    pub(crate) senders: Vec<Watermark>,
}

/// All key actors of one shard, for every stage of the plan.
#[derive(Debug)]
pub struct Shard {
    pub(crate) plan: Arc<Plan>,
    pub(crate) symbols: Arc<Symbols>,
    id: usize,
    pub(crate) machines: Vec<Machine>,
    pub(crate) exchanges: Vec<Option<ExchangeEnds>>,
    /// By stage: what it fired in the round that runs. Cleared at its end.
    fired: Vec<Fired>,
    shards: usize,
}

/// What a round begins with.
enum Start<'a> {
    Records(&'a RowBatch),
    Watermark(Watermark),
    Exchange(&'a ExchangeDeltas),
    Mark(StageId, Watermark),
    Tick(ProcessingTime),
    Signal(&'a str),
}

impl Start<'_> {
    fn watermark(&self) -> Option<Watermark> {
        match self {
            Self::Watermark(watermark) => Some(*watermark),
            Self::Records(_)
            | Self::Exchange(_)
            | Self::Mark(..)
            | Self::Tick(_)
            | Self::Signal(_) => None,
        }
    }

    /// What a mark for `stage` says.
    fn mark_of(&self, stage: StageId) -> Option<Watermark> {
        match self {
            Self::Mark(marked, watermark) if *marked == stage => Some(*watermark),
            Self::Records(_)
            | Self::Exchange(_)
            | Self::Mark(..)
            | Self::Watermark(_)
            | Self::Tick(_)
            | Self::Signal(_) => None,
        }
    }
}

/// What a round brings to one stage.
struct Feed<'a> {
    stage: &'a Stage,
    start: &'a Start<'a>,
    /// Deltas of the stage below, in its key and aggregates.
    local: Option<(&'a PaneInput, &'a Deltas, (&'a KeyLayout, &'a AggregateLayout))>,
    /// Deltas of an exchange, in the stage's own.
    brought: Option<&'a Deltas>,
    symbols: &'a Symbols,
}

impl Feed<'_> {
    fn give<T: Takes>(
        &self,
        table: &mut T,
        shape: &mut Shape,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        if let (StageInput::Records(input), Start::Records(batch)) = (&self.stage.input, self.start)
        {
            take_records(table, shape, input, (*batch, self.symbols), aside)?;
        }
        if let Some((input, deltas, parent)) = self.local {
            take_deltas(table, shape, input, (deltas, parent, self.symbols), aside)?;
        }
        if let Some(deltas) = self.brought {
            let source = (self.stage.key.words(), self.symbols);
            take_exchanged(table, deltas, source, aside)?;
        }
        Ok(())
    }
}

impl Shard {
    /// Shard `id` of `shards`, without state.
    pub fn new(plan: Arc<Plan>, symbols: Arc<Symbols>, id: usize, shards: usize) -> Self {
        let exchanges = plan.stages.iter().map(|stage| {
            let exchange = stage.exchange.as_ref().filter(|_| shards > 1)?;
            Some(ExchangeEnds {
                router: Router::new(
                    exchange.layout.clone(),
                    exchange.packer.clone(),
                    plan.key_groups,
                    shards,
                ),
                regroup: Shape::new(stage),
                senders: vec![Watermark::MIN; shards],
            })
        });
        Self {
            exchanges: exchanges.collect(),
            machines: plan.stages.iter().map(|stage| Machine::new(stage, &symbols)).collect(),
            fired: plan.stages.iter().map(Fired::new).collect(),
            plan,
            symbols,
            id,
            shards,
        }
    }

    /// Takes a batch of records.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn records(&mut self, batch: &RowBatch, out: &mut Output) -> Result<(), StageError> {
        self.run(Start::Records(batch), out)
    }

    /// Takes a watermark of the coordinator. One that does not rise changes nothing.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn watermark(&mut self, watermark: Watermark, out: &mut Output) -> Result<(), StageError> {
        self.run(Start::Watermark(watermark), out)
    }

    /// Takes deltas of an exchange.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn exchange(
        &mut self,
        message: &ExchangeDeltas,
        out: &mut Output,
    ) -> Result<(), StageError> {
        self.run(Start::Exchange(message), out)
    }

    /// Takes a mark of an exchange.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn mark(&mut self, mark: &ExchangeMark, out: &mut Output) -> Result<(), StageError> {
        let Some(Some(ends)) = self.exchanges.get_mut(mark.stage.index()) else { return Ok(()) };
        if let Some(sender) = ends.senders.get_mut(mark.from) {
            *sender = mark.watermark.max(*sender);
        }
        let lowest = ends.senders.iter().min().copied().unwrap_or(Watermark::MIN);
        self.run(Start::Mark(mark.stage, lowest), out)
    }

    /// Takes the time: triggers that wait for it fire.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn tick(&mut self, now: ProcessingTime, out: &mut Output) -> Result<(), StageError> {
        self.run(Start::Tick(now), out)
    }

    /// Gives a signal from outside to every trigger that waits for it.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn signal(&mut self, name: &str, out: &mut Output) -> Result<(), StageError> {
        self.run(Start::Signal(name), out)
    }

    fn run(&mut self, start: Start<'_>, out: &mut Output) -> Result<(), StageError> {
        let plan = Arc::clone(&self.plan);
        // The output watermarks that rose in this round: what children see. Stages that hang on
        // records take the coordinator's, exchanged ones the minimum over their senders' marks.
        let mut risen: Vec<Option<Watermark>> = vec![None; plan.stages.len()];
        for stage in &plan.stages {
            let index = stage.id.index();
            let inherited = match &stage.input {
                StageInput::Records(_) => start.watermark(),
                StageInput::Panes(input) => risen.get(input.parent.index()).copied().flatten(),
            };
            let is_exchanged = self.exchanges.get(index).is_some_and(Option::is_some);
            let watermark = if is_exchanged {
                self.send(stage, inherited, out);
                start.mark_of(stage.id)
            } else {
                inherited
            };
            let output = self.step(stage, &start, watermark, is_exchanged);
            let output = output
                .map_err(|overflow| StageError::Overflow { stage: stage.name.clone(), overflow })?;
            if let Some(slot) = risen.get_mut(index) {
                *slot = output;
            }
        }
        for fired in &mut self.fired {
            fired.deltas.clear();
            out.panes.extend(fired.panes.take().filter(|panes| !panes.panes.is_empty()));
            out.dropped.append(&mut fired.aside.dropped);
            out.late.extend(fired.aside.late.take());
        }
        Ok(())
    }

    /// One stage in one round; returns its output watermark if it rose.
    fn step(
        &mut self,
        stage: &Stage,
        start: &Start<'_>,
        watermark: Option<Watermark>,
        is_exchanged: bool,
    ) -> Result<Option<Watermark>, Overflow> {
        let index = stage.id.index();
        let Self { plan, symbols, machines, fired, .. } = self;
        // Parents come first: what a stage reads lies before what it writes.
        let (below, own) = fired.split_at_mut(index);
        let (Some(machine), Some(own)) = (machines.get_mut(index), own.first_mut()) else {
            return Ok(None);
        };
        let brought = match start {
            Start::Exchange(message) if message.stage == stage.id => Some(&message.deltas),
            Start::Records(_)
            | Start::Watermark(_)
            | Start::Tick(_)
            | Start::Signal(_)
            | Start::Exchange(_)
            | Start::Mark(..) => None,
        };
        let local = match &stage.input {
            StageInput::Panes(input) if !is_exchanged => {
                let parent = plan.stages.get(input.parent.index());
                let deltas = below.get(input.parent.index()).map(|fired| &fired.deltas);
                deltas
                    .filter(|deltas| !deltas.is_empty())
                    .zip(parent)
                    .map(|(deltas, parent)| (input, deltas, (&parent.key, &parent.aggregates)))
            }
            StageInput::Panes(_) | StageInput::Records(_) => None,
        };
        let feed = Feed { stage, start, local, brought, symbols };
        match machine {
            Machine::Keys(table, shape) => {
                feed.give(&mut **table, shape, &mut own.aside)?;
                table.end_round(own, symbols)?;
                watermark.map_or(Ok(()), |watermark| table.advance(watermark, own, symbols))?;
                Ok(watermark)
            }
            Machine::Machines(table, shape) => {
                let before = table.output;
                feed.give(&mut **table, shape, &mut own.aside)?;
                table.end_round(watermark, own, symbols)?;
                watermark.map_or(Ok(()), |watermark| table.advance(watermark, own, symbols))?;
                match start {
                    Start::Tick(now) => table.tick(*now, own, symbols)?,
                    Start::Signal(name) => table.signal(name, own, symbols)?,
                    Start::Records(_)
                    | Start::Watermark(_)
                    | Start::Exchange(_)
                    | Start::Mark(..) => {}
                }
                Ok((table.output > before).then_some(table.output))
            }
            Machine::TopK(table) => {
                if let Some((input, deltas, parent)) = local {
                    table.take(input, (deltas, parent), symbols, &mut own.aside)?;
                }
                if let Some(deltas) = brought {
                    table.take_exchanged(deltas, symbols, &mut own.aside)?;
                }
                table.end_round(watermark, own, symbols)?;
                watermark.map_or(Ok(()), |watermark| table.advance(watermark, own, symbols))?;
                Ok(watermark)
            }
        }
    }

    /// The sending end of an exchanged stage: what its parent fired, regrouped and placed, then
    /// the mark.
    fn send(&mut self, stage: &Stage, watermark: Option<Watermark>, out: &mut Output) {
        let StageInput::Panes(input) = &stage.input else { return };
        let Self { plan, symbols, exchanges, fired, .. } = self;
        let (Some(parent), Some(deltas), Some(Some(ends))) = (
            plan.stages.get(input.parent.index()),
            fired.get(input.parent.index()).map(|fired| &fired.deltas),
            exchanges.get_mut(stage.id.index()),
        ) else {
            return;
        };
        if !deltas.is_empty() {
            let mut parts = vec![Deltas::default(); self.shards];
            place(deltas, (parent, stage, input), ends, &mut parts, symbols);
            for (shard, deltas) in parts.into_iter().enumerate() {
                if !deltas.is_empty() {
                    out.exchanges.push((shard, ExchangeDeltas { stage: stage.id, deltas }));
                }
            }
        }
        if let Some(watermark) = watermark {
            out.marks.push(ExchangeMark { stage: stage.id, from: self.id, watermark });
        }
    }

    /// What has passed all stages: behind the output of the last call, no window that it completes
    /// fires on time any more. Never falls (WM-1).
    pub fn passed(&self) -> Watermark {
        let of_machine = |machine: &Machine| match machine {
            Machine::Keys(table, _) => table.watermark,
            Machine::Machines(table, _) => table.output,
            Machine::TopK(table) => table.watermark,
        };
        self.machines.iter().map(of_machine).min().unwrap_or(Watermark::MIN)
    }

    /// Whether no window, timer or key is left.
    pub fn is_empty(&self) -> bool {
        self.machines.iter().all(|machine| match machine {
            Machine::Keys(table, _) => table.is_empty(),
            Machine::Machines(table, _) => table.is_empty(),
            Machine::TopK(table) => table.is_empty(),
        })
    }

    /// The account of each stage, in plan order.
    pub fn accounts(&self) -> Vec<StageAccount> {
        self.machines.iter().map(|machine| machine.account().clone()).collect()
    }

    /// Keys (of a top-K: candidates) and bytes of state of each stage, in plan order.
    pub fn sizes(&self) -> Vec<(usize, usize)> {
        let size = |machine: &Machine| match machine {
            Machine::Keys(table, _) => (table.cells.keys(), table.cells.bytes()),
            Machine::Machines(table, _) => table.size(),
            Machine::TopK(table) => table.size(),
        };
        self.machines.iter().map(size).collect()
    }

    /// Whether copies that are dropped are listed in [`Output::dropped`]; off at first.
    pub fn trace_drops(&mut self, on: bool) {
        for fired in &mut self.fired {
            fired.aside.traces_drops = on;
        }
    }

    /// Windows of each stage, in plan order, that are not complete: nothing of them was emitted on
    /// time.
    pub fn incomplete_windows(&self) -> Vec<usize> {
        let of_machine = |machine: &Machine| match machine {
            Machine::Keys(table, _) => {
                let windows = table.open_windows();
                windows.filter(|(_, window)| table.watermark.0 < window.end()).count()
            }
            Machine::Machines(table, _) => {
                let windows = table.open_windows();
                let is_open = |window| table.watermark.0 < table.rules.complete_at(window);
                windows.filter(|(_, window)| is_open(*window)).count()
            }
            Machine::TopK(table) => {
                let windows = table.groups.iter().filter_map(|group| group.window);
                windows.filter(|window| table.watermark.0 < window.end()).count()
            }
        };
        self.machines.iter().map(of_machine).collect()
    }

    /// Every open window: its stage, its key in the layout of the stage (of the parent key for a
    /// top-K), and its bounds.
    pub fn windows(&self) -> Vec<(StageId, Box<[u64]>, Window)> {
        let mut windows = Vec::new();
        for (stage, machine) in self.plan.stages.iter().zip(&self.machines) {
            match machine {
                Machine::Keys(table, _) => {
                    let open = table.open_windows();
                    windows.extend(open.map(|(key, window)| (stage.id, key.into(), window)));
                }
                Machine::Machines(table, _) => {
                    let open = table.open_windows();
                    windows.extend(open.map(|(key, window)| (stage.id, key.into(), window)));
                }
                Machine::TopK(table) => {
                    let open = table
                        .groups
                        .iter()
                        .filter_map(|group| Some((stage.id, group.parent.clone(), group.window?)));
                    windows.extend(open);
                }
            }
        }
        windows
    }
}

/// Regroups deltas for the stage that receives them, and places each on its shard.
fn place(
    deltas: &Deltas,
    (parent, stage, input): (&Stage, &Stage, &PaneInput),
    ends: &mut ExchangeEnds,
    parts: &mut [Deltas],
    symbols: &Symbols,
) {
    let mut key = vec![0; stage.key.words()];
    let mut values = vec![0; stage.aggregates.words()];
    for (source, window, words) in deltas.iter(parent.key.words(), parent.aggregates.words()) {
        let window =
            if input.same_window { window } else { ends.regroup.window.assign(window.start(), 0) };
        for copy in &input.copies {
            copy.key.pack(source, &mut key);
            values.fill(0);
            for (to, from) in copy.from.iter().enumerate() {
                // Into an empty accumulator: nothing can overflow that did not before.
                let empty = (values.as_mut_slice(), to);
                if stage
                    .aggregates
                    .merge(empty, &parent.aggregates, (words, *from), symbols)
                    .is_err()
                {
                    debug_assert!(false, "a merge into nothing cannot overflow");
                }
            }
            let shard = ends.router.shard(&key, symbols);
            if let Some(part) = parts.get_mut(shard) {
                part.push(&key, window, &values);
            }
        }
    }
}
