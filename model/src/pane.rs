//! Panes: what a stage emits. Deltas go down the cascade, panes go to the sinks.
//!
//! Inside, a firing carries its delta: what came since the pane before. That is all that the next
//! stage ever reads, so no accumulated value can be counted twice. What a sink sees is the mode of
//! the stage. Invariant PANE-1: timings of one window follow `EARLY* (ON_TIME | TIMED_OUT)? LATE*`.
//! Invariant PANE-2: indices of one window have no gap.

use crate::aggregate::side::Side;
use crate::aggregate::{ValuesRef, sides_bytes};
use crate::time::{EventTime, Window};
use serde::{Deserialize, Serialize};

/// Number of a stage in its plan. Parents come before children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageId(pub u16);

impl StageId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// When a pane came, relative to the completion of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Before the watermark passed the end of the window.
    Early,
    /// When it passed.
    OnTime,
    /// Before it passed, since it had stood still for too long: the clock completed the window in
    /// its place. What comes behind is late.
    TimedOut,
    /// After it had passed, or after the pane that completed the window.
    Late,
}

impl Timing {
    /// Whether the window was complete with a pane of this timing: all that follow are late.
    pub const fn completes(self) -> bool {
        match self {
            Self::Early => false,
            Self::OnTime | Self::TimedOut | Self::Late => true,
        }
    }

    /// The number of the timing of a pane that was sent, if one was: 0 to 4. Never changed, since it
    /// is stored.
    pub(crate) const fn code(sent: Option<Self>) -> u8 {
        match sent {
            None => 0,
            Some(Self::Early) => 1,
            Some(Self::OnTime) => 2,
            Some(Self::Late) => 3,
            Some(Self::TimedOut) => 4,
        }
    }

    /// What has this number; `None` if nothing has.
    pub(crate) const fn of_code(code: u8) -> Option<Option<Self>> {
        match code {
            0 => Some(None),
            1 => Some(Some(Self::Early)),
            2 => Some(Some(Self::OnTime)),
            3 => Some(Some(Self::Late)),
            4 => Some(Some(Self::TimedOut)),
            _ => None,
        }
    }

    /// The name in output: `early`, `on_time`, `timed_out` or `late`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Early => "early",
            Self::OnTime => "on_time",
            Self::TimedOut => "timed_out",
            Self::Late => "late",
        }
    }
}

/// Whether a pane stands or takes an earlier one back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaneKind {
    /// A result.
    Insert,
    /// Takes back the pane whose index, timing and values it repeats.
    Retract,
}

impl PaneKind {
    /// The name in output: `insert` or `retract`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Retract => "retract",
        }
    }
}

/// What the panes of a stage carry for sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccumulationMode {
    /// What came since the pane before.
    Discarding,
    /// The total so far.
    Accumulating,
    /// Minus the last total sent, then the new one, as one ordered unit.
    Retracting,
}

impl AccumulationMode {
    /// The name in configuration and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discarding => "discarding",
            Self::Accumulating => "accumulating",
            Self::Retracting => "retracting",
        }
    }
}

/// Which instant a pane carries as its event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampCombiner {
    /// The last instant of the window.
    EndOfWindow,
    /// The earliest of its records that were not behind the output watermark when they came.
    Earliest,
    /// The latest of them.
    Latest,
    /// As `Earliest`, of the times that a custom window function makes of theirs.
    EarliestTransformed,
}

/// Which panes are emitted beside those that bring something new, and what time they carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Emission {
    /// Whether the on-time pane is emitted even if nothing has come since the pane before.
    pub on_time_always: bool,
    /// Whether the last pane is emitted even if nothing has come since the pane before.
    pub closing_always: bool,
    /// Event time of panes.
    pub timestamp: TimestampCombiner,
}

impl Default for Emission {
    /// The paper's: a pane without news is not emitted; panes carry the end of the window.
    fn default() -> Self {
        Self {
            on_time_always: false,
            closing_always: false,
            timestamp: TimestampCombiner::EndOfWindow,
        }
    }
}

/// What identifies a pane beside its stage and key, and when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaneMeta {
    /// The window.
    pub window: Window,
    /// Number of the pane in its window (of its parent's window for a top-K entry), from 0.
    pub index: u32,
    /// Early, on time or late.
    pub timing: Timing,
    /// Whether no pane of this window can follow.
    pub is_last: bool,
    /// Insert or retract.
    pub kind: PaneKind,
    /// Event timestamp of the pane: the last instant of the window.
    pub event_time: EventTime,
    /// Whether this is the `__other` entry of a top-K: the entity fields of the key are then void.
    pub is_other: bool,
}

/// Panes of one stage for its sinks, in the order they were emitted; a retract stands directly
/// before the insert that replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneBatch {
    /// The stage.
    pub stage: StageId,
    /// Packed keys, one after the other, in the stage's key layout.
    pub keys: Vec<u64>,
    /// Accumulator words, one pane after the other, in the stage's aggregate layout.
    pub values: Vec<u64>,
    /// Side values, one pane after the other, in the same layout.
    pub sides: Vec<Side>,
    /// One entry per pane.
    pub panes: Vec<PaneMeta>,
}

impl PaneBatch {
    /// No panes of `stage`.
    pub const fn new(stage: StageId) -> Self {
        Self { stage, keys: Vec::new(), values: Vec::new(), sides: Vec::new(), panes: Vec::new() }
    }

    /// Appends a pane.
    pub fn push<'a>(&mut self, key: &[u64], meta: PaneMeta, values: impl Into<ValuesRef<'a>>) {
        let values = values.into();
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(values.words);
        self.sides.extend_from_slice(values.sides);
        self.panes.push(meta);
    }

    /// Bytes that its panes take.
    pub fn bytes(&self) -> usize {
        (self.keys.len() + self.values.len()) * 8
            + sides_bytes(&self.sides)
            + self.panes.len() * size_of::<PaneMeta>()
    }

    /// The panes as (meta, key words, values), for keys of `key_words` and values of `value_words`
    /// words.
    pub fn iter(
        &self,
        key_words: usize,
        value_words: usize,
    ) -> impl Iterator<Item = (&PaneMeta, &[u64], ValuesRef<'_>)> {
        let sides = self.sides.len() / self.panes.len().max(1);
        self.panes.iter().enumerate().map(move |(index, meta)| {
            let words = part(&self.values, index, value_words);
            let values = ValuesRef { words, sides: part(&self.sides, index, sides) };
            (meta, part(&self.keys, index, key_words), values)
        })
    }
}

/// Deltas of one stage: the only thing that the next stage reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deltas {
    /// Packed keys, one after the other.
    pub keys: Vec<u64>,
    /// Accumulator words, one delta after the other.
    pub values: Vec<u64>,
    /// Side values, one delta after the other.
    pub sides: Vec<Side>,
    /// The window of each delta.
    pub windows: Vec<Window>,
}

impl Deltas {
    /// Appends a delta.
    pub fn push<'a>(&mut self, key: &[u64], window: Window, values: impl Into<ValuesRef<'a>>) {
        let values = values.into();
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(values.words);
        self.sides.extend_from_slice(values.sides);
        self.windows.push(window);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Number of deltas.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Bytes that the deltas take.
    pub fn bytes(&self) -> usize {
        (self.keys.len() + self.values.len()) * 8
            + sides_bytes(&self.sides)
            + self.windows.len() * size_of::<Window>()
    }

    /// Removes all, keeps the room.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.sides.clear();
        self.windows.clear();
    }

    /// The deltas as (key words, window, values).
    pub fn iter(
        &self,
        key_words: usize,
        value_words: usize,
    ) -> impl Iterator<Item = (&[u64], Window, ValuesRef<'_>)> {
        let sides = self.sides.len() / self.windows.len().max(1);
        self.windows.iter().enumerate().map(move |(index, window)| {
            let words = part(&self.values, index, value_words);
            let values = ValuesRef { words, sides: part(&self.sides, index, sides) };
            (part(&self.keys, index, key_words), *window, values)
        })
    }
}

/// Part number `index` of a list of parts of `width` each.
fn part<T>(all: &[T], index: usize, width: usize) -> &[T] {
    all.get(index * width..(index + 1) * width).unwrap_or_default()
}
