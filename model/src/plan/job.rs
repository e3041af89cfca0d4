//! What the user wants of one pipeline: groupings by name, as a configuration says it.
//!
//! Names are not resolved here, nor is anything checked: [`crate::planner::plan`] does both.

use crate::aggregate::Function;
use crate::expr::TypedExpr;
use crate::pane::{AccumulationMode, Emission};
use crate::row::Field;
use crate::sequence::spec::SequenceSpec;
use crate::time::Span;
use crate::trigger::Trigger;
use crate::window::WindowFn;
use std::cmp::Ordering;
use std::sync::Arc;

/// What the user wants of one pipeline.
#[derive(Debug, Clone)]
pub struct Job {
    /// Name of the pipeline.
    pub name: Box<str>,
    /// Every field that a record can have, derived ones included.
    pub fields: Vec<Field>,
    /// The groupings wanted, in the order of the configuration.
    pub groupings: Vec<Grouping>,
    /// Fields to place keys by; `None` takes those that all groupings share.
    pub shard_by: Option<Vec<Box<str>>>,
    /// Number of key groups, at least 1.
    pub key_groups: u16,
    /// Fields that a row must carry beside those that stages read (filters, derived fields).
    pub extra_fields: Vec<Box<str>>,
    /// Records that cover an interval and are split over the windows they touch.
    pub spread: Option<Spread>,
    /// What shifts windows `by_key`; `None` hashes each grouping's whole key.
    pub phase: Option<PhaseBy>,
    /// Whether groupings may regroup the panes of others; `false` reads records for each.
    pub cascade: bool,
}

impl Job {
    /// A job over records with `fields`: instants, placed by the fields that all groupings share in
    /// 256 key groups, rolled up where that can be.
    pub fn new(name: &str, fields: Vec<Field>, groupings: Vec<Grouping>) -> Self {
        Self {
            name: name.into(),
            fields,
            groupings,
            shard_by: None,
            key_groups: 256,
            extra_fields: Vec::new(),
            spread: None,
            phase: None,
            cascade: true,
        }
    }
}

/// Records that cover an interval of event time, both ends inclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Field with the first instant, ms.
    pub first: Box<str>,
    /// Field with the last instant, ms.
    pub last: Box<str>,
    /// Longest part that counts, measured back from the last instant; what lies before is cut, and
    /// counted.
    pub max_duration: Option<Span>,
}

/// What shifts windows `by_key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseBy {
    /// Whole-number field (32 bits count) that is hashed.
    pub field: Box<str>,
    /// Key column that decides the field: a rollup must keep it.
    pub column: Box<str>,
}

/// One grouping that the user wants.
#[derive(Debug, Clone)]
pub struct Grouping {
    /// Name; the stage and its panes are called so.
    pub name: Box<str>,
    /// Key fields, in the order of output.
    pub key: Vec<KeyColumn>,
    /// Window function.
    pub window: WindowFn,
    /// Trigger.
    pub trigger: Trigger,
    /// What sinks see.
    pub mode: AccumulationMode,
    /// Which panes are emitted beside those with news, and what time they carry.
    pub emission: Emission,
    /// Whether the trigger may finish and so close windows for records that come later.
    pub allow_closing: bool,
    /// How long state is kept after completion.
    pub allowed_lateness: Span,
    /// Aggregates, in the order of output.
    pub aggregates: Vec<AggregateSpec>,
    /// For sessions: field with the record's own gap, ms; null or less than 1 takes the default.
    pub gap_field: Option<Box<str>>,
    /// Emits only the largest entries of each parent key.
    pub top_k: Option<TopKSpec>,
    /// Names of the sinks that its panes go to.
    pub sinks: Vec<Box<str>>,
    /// Where copies go that its windows do not take, or take late.
    pub late: Option<LateSpec>,
    /// Reads the results of another grouping, as they change, in place of records. All names of the
    /// grouping are then names of results, see [`crate::planner::result_fields`].
    pub of: Option<OfSpec>,
    /// Judges the records of each key as a chain of steps in place of grouping them. It has no
    /// windows, triggers and aggregates of its own: its results are [`crate::sequence`]'s.
    pub sequence: Option<Arc<SequenceSpec>>,
}

impl Grouping {
    /// A grouping without key, aggregates or sinks, and with the defaults: totals so far, on time and
    /// then for every batch of late records, of which none are allowed.
    pub fn new(name: &str, window: WindowFn) -> Self {
        Self {
            name: name.into(),
            key: Vec::new(),
            window,
            trigger: Trigger::default_trigger(),
            mode: AccumulationMode::Accumulating,
            emission: Emission::default(),
            allow_closing: false,
            allowed_lateness: Span::ZERO,
            aggregates: Vec::new(),
            gap_field: None,
            top_k: None,
            sinks: Vec::new(),
            late: None,
            of: None,
            sequence: None,
        }
    }

    /// A sequence of the records of each `key`, without sinks; of late records none are allowed.
    pub fn sequence(name: &str, key: Vec<KeyColumn>, spec: SequenceSpec) -> Self {
        Self {
            key,
            mode: AccumulationMode::Retracting,
            sequence: Some(Arc::new(spec)),
            ..Self::new(name, WindowFn::Global)
        }
    }
}

/// A key field: one field of the record, or each of several (a record then counts once for each).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Name in output.
    pub name: Box<str>,
    /// The fields; several make copies of the record, all columns with several run in step.
    pub each: Vec<Box<str>>,
}

impl KeyColumn {
    /// The field called `name`, under its own name.
    pub fn plain(name: &str) -> Self {
        Self { name: name.into(), each: vec![name.into()] }
    }
}

/// An aggregate that the user wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateSpec {
    /// Name in output.
    pub name: Box<str>,
    /// What it computes.
    pub function: Function,
    /// The field; none for a count, several in step with a key column of several.
    pub fields: Vec<Box<str>>,
    /// Whether the value is split over the windows that the record touches.
    pub spread: bool,
}

impl AggregateSpec {
    /// `function` of `field`, called `name`; a count needs no field.
    pub fn new(name: &str, function: Function, field: Option<&str>) -> Self {
        let fields = field.into_iter().map(Into::into).collect();
        Self { name: name.into(), function, fields, spread: false }
    }
}

/// An output for copies that came late, with their records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateSpec {
    /// Name of the sink.
    pub sink: Box<str>,
    /// Whether it takes copies that still counted, too: else only those that were dropped.
    pub include_late: bool,
}

/// The results that a grouping reads, each as one row.
#[derive(Debug, Clone, PartialEq)]
pub struct OfSpec {
    /// Name of the grouping whose results they are.
    pub grouping: Box<str>,
    /// Fields computed from others, in this order: each may use those above it.
    pub derived: Vec<(Box<str>, TypedExpr)>,
    /// Condition on rows: only those for which it is true are counted.
    pub filter: Option<TypedExpr>,
}

/// Which entries of a grouping are emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopKSpec {
    /// How many entries per parent key and window, at least 1.
    pub k: usize,
    /// Key fields that make up an entry; the others are the parent key.
    pub entity: Vec<Box<str>>,
    /// Aggregates whose sum ranks an entry.
    pub rank: Vec<Box<str>>,
    /// Key fields that must not be null for an entry to be listed.
    pub require: Vec<Box<str>>,
    /// Whether an `__other` entry carries what is not listed.
    pub other: bool,
    /// Which of the entries of equal rank come first.
    pub ties: Ties,
}

/// Which of the entries of equal rank come first in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// Those with the smaller key.
    #[default]
    Ascending,
    /// Those with the larger key.
    Descending,
}

impl Ties {
    /// The place in the list of keys that compare as `keys`.
    pub const fn order(self, keys: Ordering) -> Ordering {
        match self {
            Self::Ascending => keys,
            Self::Descending => keys.reverse(),
        }
    }
}
