//! All stages of one shard: records in, panes out, the cascade in one straight line.
//!
//! A round is one batch, one watermark, one tick, one signal, one end of a cycle, or one message of
//! an exchange. In a round the stages run in order, each after the stage below has finished the
//! whole of it: first what came is taken, then late windows fire, then the watermark is delivered
//! (see [`crate::engine`] for micro-batches). So a delta can never reach a stage after the watermark
//! that fired it, and each key and window fires at most once a round. How a round runs, in slices
//! where very much fires, is said in `running`.
//!
//! A stage whose key does not contain what places records is exchanged, see `exchange`.

use crate::account::{Dropped, StageAccount};
use crate::aggregate::Overflow;
use crate::cold::PageError;
use crate::engine::{Cycle, Engine};
use crate::exchange::ExchangeEnds;
use crate::intake::Shape;
use crate::late::LateBatch;
use crate::machine_table::MachineTable;
use crate::memory::{Memory, Restored, cold_windows};
use crate::pane::{PaneBatch, StageId};
use crate::plan::{Plan, Stage, StageInput};
use crate::round::{Round, Start, trailing};
use crate::row::RowBatch;
use crate::rows::ChangeReader;
use crate::sequence::{SequenceTable, SequenceUse};
use crate::sliding::SlidingTable;
use crate::symbol::Symbols;
use crate::table::{Fired, KeyTable};
use crate::tick::Tick;
use crate::time::{Span, Watermark, Window};
use crate::topk::TopKTable;
use std::sync::Arc;

pub use crate::exchange::{Brought, ExchangeDeltas, ExchangeMark};
pub use crate::rows::SignedRows;

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
    /// Keys that are not in memory cannot be had, or none can leave it.
    #[error("stage `{stage}`: {error}")]
    Page {
        /// Name of the stage.
        stage: Box<str>,
        /// What happened.
        error: PageError,
    },
    /// A sequence keeps as much as it may, and is told to fail then.
    #[error(
        "sequence `{stage}` keeps {sessions} sessions in {bytes} bytes in one shard, as much as it may: raise `max_sessions` or `max_bytes`, or choose another `on_overflow`"
    )]
    NoRoom {
        /// Name of the stage.
        stage: Box<str>,
        /// Sessions that it keeps.
        sessions: usize,
        /// Bytes that they take, about.
        bytes: usize,
    },
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
    Sliding(Box<SlidingTable>, Shape),
    Machines(Box<MachineTable>, Shape),
    TopK(Box<TopKTable>),
    Sequence(Box<SequenceTable>),
}

impl Machine {
    fn new(stage: &Stage, symbols: &Symbols, (engine, shards): (Engine, usize)) -> Self {
        let shape = Shape::new(stage);
        if let Some(table) = SequenceTable::new(stage, symbols, (engine, shards)) {
            return Self::Sequence(Box::new(table));
        }
        if let Some(spec) = &stage.top_k {
            return Self::TopK(Box::new(TopKTable::new(stage, spec)));
        }
        if stage.is_plain() {
            return Self::Keys(Box::new(KeyTable::new(stage)), shape);
        }
        match SlidingTable::new(stage, engine) {
            Some(table) => Self::Sliding(Box::new(table), shape),
            None => Self::Machines(Box::new(MachineTable::new(stage, symbols)), shape),
        }
    }

    /// The watermark that the stage has been promised.
    pub(crate) const fn input(&self) -> Watermark {
        match self {
            Self::Keys(table, _) => table.watermark,
            Self::Sliding(table, _) => table.windows.watermark,
            Self::Machines(table, _) => table.watermark,
            Self::TopK(table) => table.watermark,
            Self::Sequence(table) => table.watermark,
        }
    }

    /// The watermark that the stage has promised to those above it.
    pub(crate) fn output(&self) -> Watermark {
        match self {
            Self::Keys(table, _) => table.watermark,
            Self::Sliding(table, _) => table.windows.watermark,
            Self::Machines(table, _) => table.output,
            Self::TopK(table) => table.watermark,
            Self::Sequence(table) => table.output,
        }
    }

    pub(crate) fn account_mut(&mut self) -> &mut StageAccount {
        match self {
            Self::Keys(table, _) => &mut table.account,
            Self::Sliding(table, _) => &mut table.windows.account,
            Self::Machines(table, _) => &mut table.account,
            Self::TopK(table) => &mut table.account,
            Self::Sequence(table) => &mut table.account,
        }
    }

    pub(crate) fn account(&self) -> &StageAccount {
        match self {
            Self::Keys(table, _) => &table.account,
            Self::Sliding(table, _) => &table.windows.account,
            Self::Machines(table, _) => &table.account,
            Self::TopK(table) => &table.account,
            Self::Sequence(table) => &table.account,
        }
    }
}

/// All key actors of one shard, for every stage of the plan.
#[derive(Debug)]
pub struct Shard {
    pub(crate) plan: Arc<Plan>,
    pub(crate) symbols: Arc<Symbols>,
    pub(crate) id: usize,
    shards: usize,
    pub(crate) machines: Vec<Machine>,
    pub(crate) exchanges: Vec<Option<ExchangeEnds>>,
    /// By stage: how it reads the results of another, if it does.
    pub(crate) readers: Vec<Option<ChangeReader>>,
    /// The round that runs, or ran last.
    pub(crate) round: Round,
    /// By stage: what it fired in the slice of the round that runs. Cleared at its end.
    pub(crate) fired: Vec<Fired>,
    /// The last cycle that has begun. Rises only.
    pub(crate) cycle: u64,
    /// How much may be in memory; `None` where nothing is stored.
    pub(crate) memory: Option<Memory>,
    /// Pages of a state that was restored. Taken by [`Shard::keep_within`].
    pub(crate) restored: Restored,
}

impl Shard {
    /// Shard `id` of `shards`, without state.
    pub fn new(plan: Arc<Plan>, symbols: Arc<Symbols>, id: usize, shards: usize) -> Self {
        let exchanges = plan.stages.iter().map(|stage| ExchangeEnds::new(stage, &plan, shards));
        let readers = plan.stages.iter().map(|stage| match &stage.input {
            StageInput::Changes(input) => Some(ChangeReader::new(stage, input, &symbols)),
            StageInput::Records(_) | StageInput::Panes(_) => None,
        });
        Self {
            exchanges: exchanges.collect(),
            readers: readers.collect(),
            machines: plan
                .stages
                .iter()
                .map(|stage| Machine::new(stage, &symbols, (plan.engine, shards)))
                .collect(),
            fired: plan.stages.iter().map(Fired::new).collect(),
            round: Round::default(),
            plan,
            symbols,
            id,
            shards,
            cycle: 0,
            memory: None,
            restored: Restored::default(),
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
        let marked = ends.mark(mark);
        if self.has_cycles() && !marked.ends_cycle {
            return Ok(());
        }
        self.run(Start::Mark(mark.stage, marked), out)
    }

    /// Ends a cycle of micro-batches: what has changed fires. The cycle is finished when
    /// [`Shard::finished_cycle`] says so: until then no other may begin.
    ///
    /// In a stream windows that the watermark has not completed emit what they hold, as
    /// [`Timing::TimedOut`](crate::pane::Timing::TimedOut), since it has stood still for too long.
    /// Nothing else changes: what comes later still counts, and windows go when the watermark says
    /// so. Nobody has to wait for the end of such a cycle.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn cycle(&mut self, cycle: Cycle, out: &mut Output) -> Result<(), StageError> {
        self.cycle = cycle.number.max(self.cycle);
        self.run(Start::Cycle(cycle), out)
    }

    /// Its number, and how many shards there are.
    pub(crate) const fn place(&self) -> (usize, usize) {
        (self.id, self.shards)
    }

    /// The last cycle that has begun.
    pub const fn cycle_begun(&self) -> u64 {
        self.cycle
    }

    /// The last cycle that all stages of this shard have ended.
    pub fn finished_cycle(&self) -> u64 {
        let exchanged = self.exchanges.iter().flatten().map(|ends| ends.cycle);
        exchanged.fold(self.cycle, u64::min)
    }

    /// Ends a cycle (and all before it) without computing anything, for a shard that must not go on:
    /// the others do not wait for it. Without micro-batches nothing waits, and nothing is done.
    pub fn skip_cycle(&mut self, number: u64, out: &mut Output) {
        if !self.has_cycles() {
            return;
        }
        self.cycle = number.max(self.cycle);
        let (from, cycle) = (self.id, self.cycle);
        for (stage, ends) in self.plan.stages.iter().zip(&mut self.exchanges) {
            if let Some(ends) = ends {
                ends.cycle = cycle;
                // Nothing more than it has promised before.
                let watermark = ends.sent;
                out.marks.push(ExchangeMark { stage: stage.id, from, watermark, cycle });
            }
        }
    }

    /// Ends of exchanges know what they have sent: after a restart that is what stages have
    /// promised.
    pub(crate) fn recall_sent(&mut self) {
        for (stage, ends) in self.plan.stages.iter().zip(&mut self.exchanges) {
            let parent = stage.input.parent().and_then(|parent| self.machines.get(parent.index()));
            if let (Some(ends), Some(parent)) = (ends, parent) {
                let output = parent.output();
                ends.sent = if stage.trails() { trailing(output) } else { output };
            }
        }
    }

    /// Whatever has not been emitted waits for the end of the cycle.
    pub(crate) fn touch_news(&mut self) {
        for machine in &mut self.machines {
            match machine {
                Machine::Keys(table, _) => table.touch_news(),
                Machine::Sliding(table, _) => table.windows.touch_news(),
                Machine::Machines(table, _) => table.touch_news(),
                Machine::TopK(table) => table.touch_news(),
                // What it tells depends on no cycle.
                Machine::Sequence(_) => {}
            }
        }
    }

    pub(crate) fn has_cycles(&self) -> bool {
        self.plan.engine.pace().is_some()
    }

    /// Takes second watermarks, in the order of [`Plan::shares`]: what is promised of those shares
    /// of the records. Triggers that wait for them fire. Those behind the watermark, or that do not
    /// rise, change nothing.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn shares(&mut self, promised: &[Watermark], out: &mut Output) -> Result<(), StageError> {
        let promised: Vec<_> =
            self.plan.shares.iter().copied().zip(promised.iter().copied()).collect();
        self.run(Start::Shares(&promised), out)
    }

    /// Takes the time: triggers that wait for it fire.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn tick(&mut self, tick: Tick, out: &mut Output) -> Result<(), StageError> {
        self.run(Start::Tick(tick), out)
    }

    /// Gives a signal from outside to every trigger that waits for it.
    ///
    /// # Errors
    /// [`StageError`]: the shard must not go on.
    pub fn signal(&mut self, name: &str, out: &mut Output) -> Result<(), StageError> {
        self.run(Start::Signal(name), out)
    }

    /// What has passed all stages: behind the output of the last call, no window that it completes
    /// fires on time any more. Never falls (WM-1).
    pub fn passed(&self) -> Watermark {
        self.machines.iter().map(Machine::output).min().unwrap_or(Watermark::MIN)
    }

    /// Whether no window, timer or key is left.
    pub fn is_empty(&self) -> bool {
        self.machines.iter().all(|machine| match machine {
            Machine::Keys(table, _) => table.is_empty(),
            Machine::Sliding(table, _) => table.is_empty(),
            Machine::Machines(table, _) => table.is_empty(),
            Machine::TopK(table) => table.is_empty(),
            Machine::Sequence(table) => table.is_empty(),
        })
    }

    /// Whether sources should wait until a sequence has room again.
    pub fn is_full(&self) -> bool {
        self.machines.iter().any(|machine| match machine {
            Machine::Sequence(table) => table.is_full(),
            Machine::Keys(..) | Machine::Sliding(..) | Machine::Machines(..) | Machine::TopK(_) => {
                false
            }
        })
    }

    /// Whether a sequence keeps as much as it may, and is told to fail then.
    pub(crate) fn check_room(&self) -> Result<(), StageError> {
        for (stage, machine) in self.plan.stages.iter().zip(&self.machines) {
            if let Machine::Sequence(table) = machine
                && let Some((sessions, bytes)) = table.no_room
            {
                return Err(StageError::NoRoom { stage: stage.name.clone(), sessions, bytes });
            }
        }
        Ok(())
    }

    /// The account of each stage, in plan order.
    pub fn accounts(&self) -> Vec<StageAccount> {
        self.machines.iter().map(|machine| machine.account().clone()).collect()
    }

    /// Keys (of a top-K: candidates) and bytes of state of each stage, in plan order.
    pub fn sizes(&self) -> Vec<(usize, usize)> {
        let size = |machine: &Machine| match machine {
            Machine::Keys(table, _) => (table.cells.keys(), table.cells.bytes()),
            Machine::Sliding(table, _) => table.size(),
            Machine::Machines(table, _) => table.size(),
            Machine::TopK(table) => table.size(),
            Machine::Sequence(table) => table.size(),
        };
        self.machines.iter().map(size).collect()
    }

    /// What each sequence keeps, in plan order.
    pub fn sequences(&self) -> impl Iterator<Item = (StageId, SequenceUse)> {
        self.sequence_tables().map(|(stage, table)| (stage, table.gauges()))
    }

    fn sequence_tables(&self) -> impl Iterator<Item = (StageId, &SequenceTable)> {
        let stages = self.plan.stages.iter().zip(&self.machines);
        stages.filter_map(|(stage, machine)| match machine {
            Machine::Sequence(table) => Some((stage.id, &**table)),
            Machine::Keys(..) | Machine::Sliding(..) | Machine::Machines(..) | Machine::TopK(_) => {
                None
            }
        })
    }

    /// For how long the clock has run, where sessions wait for it, by stage: as in all shards that
    /// have heard of the same tick (CLOCK-1).
    pub fn active(&self) -> impl Iterator<Item = (StageId, Span)> {
        self.sequence_tables().map(|(stage, table)| (stage, table.active))
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
        let in_memory = |machine: &Machine| match machine {
            Machine::Keys(table, _) => {
                let windows = table.open_windows();
                windows.filter(|(_, window)| table.watermark.0 < window.end()).count()
            }
            Machine::Sliding(table, _) => {
                let windows = table.open_windows().into_iter();
                windows.filter(|(_, window)| table.windows.watermark.0 < window.end()).count()
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
            Machine::Sequence(table) => table.open(),
        };
        let of_machine = |machine: &Machine| in_memory(machine) + cold_windows(machine);
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
                Machine::Sliding(table, _) => {
                    let open = table.open_windows().into_iter();
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
                Machine::Sequence(table) => {
                    let open = table.sessions();
                    windows.extend(open.map(|(key, window)| (stage.id, key.into(), window)));
                }
            }
        }
        windows
    }
}
