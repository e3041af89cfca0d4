//! The plan: what is to be computed, in a form that cannot be wrong.
//!
//! A [`Job`] is what the user wants (groupings by name); [`crate::planner::plan`] turns it into a
//! [`Plan`]: stages in topological order, every name resolved to a slot, every projection compiled.
//! Nothing here is decided while data flow.

mod job;

pub use job::{
    AggregateSpec, Grouping, Job, KeyColumn, LateSpec, OfSpec, PhaseBy, Spread, Ties, TopKSpec,
};

use crate::aggregate::AggregateLayout;
use crate::engine::Engine;
use crate::expr::TypedExpr;
use crate::key::{KeyLayout, KeyPacker};
use crate::pane::{AccumulationMode, Emission, StageId};
use crate::row::{RowLayout, Slot};
use crate::sequence::RecordField;
use crate::sequence::spec::SequenceSpec;
use crate::sliding::{Early, Manner};
use crate::time::Span;
use crate::trigger::Trigger;
use crate::watermark::Percentile;
use crate::window::WindowFn;
use std::sync::Arc;

/// A validated pipeline.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the pipeline.
    pub name: Box<str>,
    /// The rows that sources fill: only what the plan reads.
    pub row: Arc<RowLayout>,
    /// Stages, parents before children.
    pub stages: Vec<Stage>,
    /// Fields that place a record on a shard; empty if stages share none (one shard then works).
    pub shard_by: Vec<Box<str>>,
    /// Number of key groups.
    pub key_groups: u16,
    /// How it is run.
    pub engine: Engine,
    /// The shares of the records of which triggers ask for a watermark of their own, ascending.
    pub shares: Vec<Percentile>,
}

impl Plan {
    /// The stage called `name`.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| &*stage.name == name)
    }

    /// Names of the key fields that place the state of `stage` on shards: those of its exchange, or
    /// else those that place the stage below, down to the records.
    pub fn placing_fields(&self, stage: &Stage) -> &[Box<str>] {
        let mut stage = self.stages.get(stage.id.index());
        while let Some(known) = stage {
            if let Some(exchange) = &known.exchange {
                return &exchange.fields;
            }
            stage = known.input.parent().and_then(|parent| self.stages.get(parent.index()));
        }
        &self.shard_by
    }

    /// How many stages read records.
    pub fn record_reads(&self) -> usize {
        self.stages.iter().filter(|stage| matches!(stage.input, StageInput::Records(_))).count()
    }
}

/// What a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// Reads records.
    Window,
    /// Regroups the panes of another stage.
    Rollup,
    /// Groups the results of another stage, as they change.
    Results,
    /// Lists the largest entries of a stage.
    TopK,
    /// Judges the records of each key as a chain of steps.
    Sequence,
}

/// One level of grouping.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Number, its index in the plan.
    pub id: StageId,
    /// Name.
    pub name: Box<str>,
    /// Kind.
    pub kind: StageKind,
    /// Key layout; for a top-K that of its entries.
    pub key: KeyLayout,
    /// Accumulators.
    pub aggregates: AggregateLayout,
    /// What it reads, compiled.
    pub input: StageInput,
    /// Window function.
    pub window: WindowFn,
    /// Trigger.
    pub trigger: Trigger,
    /// What sinks see.
    pub mode: AccumulationMode,
    /// Which panes are emitted beside those with news, and what time they carry.
    pub emission: Emission,
    /// How long state is kept after completion.
    pub allowed_lateness: Span,
    /// Sinks of its panes.
    pub sinks: Vec<Box<str>>,
    /// For a stage that reads records: who wants the copies that it drops or takes late. Its own
    /// group, and all that regroup its panes: what it does not take is missing in theirs, too.
    pub late: Vec<LateSpec>,
    /// For a top-K: how entries are grouped and ranked.
    pub top_k: Option<TopK>,
    /// For a sequence: how records are read and judged.
    pub sequence: Option<SequenceInput>,
    /// Whether other stages read its deltas.
    pub has_children: bool,
    /// Whether other stages read its results, as they change.
    pub tells_changes: bool,
    /// `Some` if its input comes from all shards: how keys are placed among them.
    pub exchange: Option<Exchange>,
    /// Why it reads what it reads, for people.
    pub reason: String,
    /// Stages that it could not or would not regroup, and why.
    pub rejected: Vec<Rejected>,
}

impl Stage {
    /// Whether its panes are seen by anybody, so that their identity must be kept.
    pub fn is_observed(&self) -> bool {
        !self.sinks.is_empty()
    }

    /// Whether its watermark stays 1 ms behind that of the stage below.
    pub(crate) const fn trails(&self) -> bool {
        match &self.input {
            StageInput::Changes(changes) => changes.trails,
            StageInput::Records(_) | StageInput::Panes(_) => false,
        }
    }

    /// Whether its key actors need nothing but the default trigger, windows that neither merge nor
    /// overlap, panes at the end of their window, and aggregates of fixed size: the short form of
    /// `table` will do. Sliding windows are apart where they come as such: as panes of a stage with
    /// the same windows.
    pub fn is_plain(&self) -> bool {
        let is_apart = match self.window {
            WindowFn::Global | WindowFn::Fixed { .. } | WindowFn::Calendar(_) => true,
            WindowFn::Sliding { .. } => matches!(self.input, StageInput::Panes(_)),
            WindowFn::Session { .. } | WindowFn::Custom(_) => false,
        };
        let has_changes = self.sequence.is_some()
            || self.tells_changes
            || matches!(self.input, StageInput::Changes(_));
        let is_usual = self.trigger.is_default() && self.emission == Emission::default();
        is_apart && is_usual && !has_changes && self.aggregates.sides() == 0
    }

    /// How its windows fire early if records are kept in slices, each once however many windows hold
    /// it; `None` if they are not.
    pub(crate) fn slicing(&self, engine: Engine) -> Option<Early> {
        let StageInput::Records(_) = self.input else { return None };
        if self.tells_changes || self.sequence.is_some() {
            // What was told of a window is kept with it.
            return None;
        }
        let manner = Manner {
            window: self.window,
            trigger: &self.trigger,
            emission: self.emission,
            allowed_lateness: self.allowed_lateness,
            has_sides: self.aggregates.sides() > 0,
            has_cycles: engine.pace().is_some(),
        };
        manner.early()
    }

    /// Whether a record is copied into each window that holds it, under this engine.
    pub fn copies_records(&self, engine: Engine) -> bool {
        let reads_records = matches!(self.input, StageInput::Records(_));
        reads_records && self.sequence.is_none() && self.slicing(engine).is_none()
    }

    /// Whether it keeps totals beside deltas: for what sinks see, for what its trigger reads, or for
    /// what it has told of its results.
    pub fn keeps_total(&self) -> bool {
        let is_read = self.is_observed() || self.trigger.reads_results();
        self.tells_changes || is_read && self.mode != AccumulationMode::Discarding
    }
}

/// A stage not chosen as parent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Rejected {
    /// Its name.
    pub parent: Box<str>,
    /// Why.
    pub reason: String,
}

/// What a stage reads.
#[derive(Debug, Clone)]
pub enum StageInput {
    /// Records.
    Records(RecordInput),
    /// Deltas of another stage.
    Panes(PaneInput),
    /// Results of another stage, as they change.
    Changes(ChangeInput),
}

impl StageInput {
    /// The stage that it comes from; `None` for records.
    pub const fn parent(&self) -> Option<StageId> {
        match self {
            Self::Records(_) => None,
            Self::Panes(panes) => Some(panes.parent),
            Self::Changes(changes) => Some(changes.parent),
        }
    }
}

/// How a stage reads records.
#[derive(Debug, Clone)]
pub struct RecordInput {
    /// One per copy of a record: how to make the key, and the slot of each aggregate's input.
    pub copies: Vec<RecordCopy>,
    /// For records that cover an interval: their slots and the longest part that counts.
    pub spread: Option<SpreadSlots>,
    /// Which aggregates are split over windows.
    pub is_spread: Vec<bool>,
    /// Slot whose value shifts windows `by_key`; `None` hashes the key.
    pub phase: Option<Slot>,
    /// Slot with the gap of a session; `None` takes the default.
    pub gap: Option<Slot>,
    /// Slots of the fields that a custom window function looks at.
    pub window: Vec<Slot>,
}

/// One copy of a record in a stage.
#[derive(Debug, Clone)]
pub struct RecordCopy {
    /// Makes the key.
    pub key: KeyPacker,
    /// The input of each aggregate; `None` counts.
    pub inputs: Vec<Option<Slot>>,
}

/// How a sequence reads records.
#[derive(Debug, Clone)]
pub struct SequenceInput {
    /// What is declared of it.
    pub spec: Arc<SequenceSpec>,
    /// Makes the key.
    pub key: KeyPacker,
    /// Slot with the name of the step.
    pub step: Slot,
    /// Slot with the status.
    pub status: Option<Slot>,
    /// Slot with the reason.
    pub reason: Option<Slot>,
    /// Slot with what is equal in copies of a record.
    pub id: Option<Slot>,
    /// Slots of what a session takes over.
    pub carried: Vec<Slot>,
    /// What the results of the stage say, in their order.
    pub fields: Vec<RecordField>,
}

/// Slots of the interval that a record covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpreadSlots {
    /// First instant.
    pub first: Slot,
    /// Last instant.
    pub last: Slot,
    /// Longest part that counts.
    pub max_duration: Option<Span>,
}

/// How a stage reads the deltas of its parent.
#[derive(Debug, Clone)]
pub struct PaneInput {
    /// The stage below.
    pub parent: StageId,
    /// One per copy of a delta.
    pub copies: Vec<PaneCopy>,
    /// Whether windows are those of the parent; if not, they are assigned anew.
    pub same_window: bool,
}

/// One copy of a delta in a stage.
#[derive(Debug, Clone)]
pub struct PaneCopy {
    /// Makes the coarser key.
    pub key: KeyPacker,
    /// The parent's accumulator that feeds each of this stage's.
    pub from: Vec<usize>,
    /// Whether they are the parent's accumulators as they lie: words can then be copied.
    pub is_plain: bool,
}

/// How a stage reads the results of its parent: as rows that come, and are taken back.
#[derive(Debug, Clone)]
pub struct ChangeInput {
    /// The stage below.
    pub parent: StageId,
    /// The rows.
    pub row: Arc<RowLayout>,
    /// Where each field of a row comes from.
    pub sources: Vec<ResultSource>,
    /// Fields computed from others, in order.
    pub derived: Vec<(Box<str>, TypedExpr)>,
    /// Condition on rows.
    pub filter: Option<TypedExpr>,
    /// How rows are read.
    pub rows: RecordInput,
    /// Which aggregates keep every value that came, since one that is taken back cannot be taken
    /// out of them.
    pub keeps_values: Vec<bool>,
    /// Whether windows of the stage below are complete 1 ms after their end: its watermark then
    /// says 1 ms less to this stage.
    pub trails: bool,
}

/// Where a field of a row of results comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultSource {
    /// The key column of that number.
    Key(usize),
    /// The result of the aggregate of that number.
    Aggregate(usize),
    /// The start of the window, ms.
    WindowStart,
    /// The end of the window, ms.
    WindowEnd,
    /// The length of the window, ms.
    WindowLength,
    /// It is computed from others.
    Derived,
}

/// How the input of an exchanged stage is placed: by which of its key's fields.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Names of the fields.
    pub fields: Vec<Box<str>>,
    /// Their layout.
    pub layout: KeyLayout,
    /// Makes them from a key of the stage.
    pub packer: KeyPacker,
}

/// How a top-K stage groups and ranks its entries.
#[derive(Debug, Clone)]
pub struct TopK {
    /// Entries listed per parent key and window.
    pub k: usize,
    /// Layout of the parent key.
    pub parent: KeyLayout,
    /// Makes the parent key of an entry's key.
    pub parent_of: KeyPacker,
    /// Numbers of the key fields that make up an entry.
    pub entity: Vec<usize>,
    /// Numbers of the aggregates whose sum ranks.
    pub rank: Vec<usize>,
    /// Numbers of the key fields that an entry must have.
    pub require: Vec<usize>,
    /// Whether there is an `__other` entry.
    pub other: bool,
    /// Which of the entries of equal rank come first.
    pub ties: Ties,
    /// Whether its entries are made of results, which may be taken back.
    pub of_results: bool,
}
