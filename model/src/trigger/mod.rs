//! Triggers: when a window emits. A specification (an enum, validated) and a state machine.
//!
//! The machine is asked at the end of every round in which its window was touched, and when one of
//! its deadlines is due: is it ready? If it is, the window fires once and the machine moves on.
//! Firing, finishing and merging follow Beam's trigger state machines; names are the paper's.
//! Readiness is monotone: more records never take a trigger from ready to not ready.
//!
//! Facts in, decision out: the watermark, the time and the window's aggregates are arguments.

mod condition;
mod safety;
mod signals;
mod state;

pub use condition::Condition;
pub use safety::{Closing, Earliest};
pub use signals::signals;
pub(crate) use state::Arrival;
pub use state::{Facts, Remembered, TriggerState};

use crate::aggregate::AggregateLayout;
use crate::symbol::Symbols;
use crate::time::{ProcessingTime, Span};
use crate::watermark::Percentile;
use std::fmt;
use std::sync::Arc;

/// When a stage emits the pane of a window.
#[derive(Debug, Clone)]
pub enum Trigger {
    /// When the watermark passes the end of the window. Before that `early` fires, after it `late`;
    /// both repeat by themselves. Without `late` it finishes at the end of the window.
    AfterWatermark {
        /// Fires before the end.
        early: Option<Box<Trigger>>,
        /// Fires after the end.
        late: Option<Box<Trigger>>,
    },
    /// When the second watermark of that share of the records passes the end of the window, which
    /// is before the watermark itself does.
    AfterWatermarkPercentile(Percentile),
    /// When at least so many records have come (at least 1).
    AfterCount(u64),
    /// When at least so many bytes of records have come (at least 1).
    AfterBytes(u64),
    /// When so much processing time has passed since the first record.
    AfterProcessingTime(Span),
    /// At the next multiple of the period on the clock, once a record has come.
    Every(Span),
    /// When an expression over the window's aggregates is true.
    When(Arc<Condition>),
    /// When the signal of that name is given from outside.
    OnSignal(Box<str>),
    /// Never; what has come is emitted when the window expires.
    Never,
    /// When all are ready.
    All(Vec<Trigger>),
    /// When one is ready.
    Any(Vec<Trigger>),
    /// One after the other: each until it finishes.
    Sequence(Vec<Trigger>),
    /// Again and again.
    Repeat(Box<Trigger>),
    /// The first again and again, until the second has fired.
    RepeatUntil(Box<Trigger>, Box<Trigger>),
    /// The first, until it finishes or the second fires, which ends it.
    OrFinally(Box<Trigger>, Box<Trigger>),
    /// One that the user wrote.
    Custom(Arc<dyn CustomTrigger>),
}

/// A trigger that the user writes: a monotone predicate over what a window has seen.
///
/// It is asked once per round for each window that something has come into, whenever the watermark
/// completes one, and at the instant that [`CustomTrigger::due`] names. It must be a pure function
/// of its arguments: the same facts must give the same answer, and more records, a higher watermark
/// or a later time must not take it from ready to not ready, else results depend on batching. It
/// finishes when it has fired; wrap it in [`Trigger::Repeat`] to fire again (what it has seen then
/// starts anew).
pub trait CustomTrigger: fmt::Debug + Send + Sync {
    /// The name in plans and logs; triggers of one name are taken for the same.
    fn name(&self) -> &str;

    /// Whether a window is ready, given what it has seen since the trigger was last reset.
    fn is_ready(&self, facts: &Facts<'_>, seen: Seen) -> bool;

    /// The instant at which to ask about a window whose first record has come at `now`, if the
    /// trigger waits for the clock. Of merged windows the earliest counts.
    fn due(&self, now: ProcessingTime) -> Option<ProcessingTime> {
        let _ = now;
        None
    }
}

/// What a custom trigger has seen since it was last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Records that have come.
    pub records: u64,
    /// Whether the instant that it waits for has come.
    pub is_due: bool,
}

impl Trigger {
    /// The default: on time, and then for every batch of late records.
    pub fn default_trigger() -> Self {
        Self::Repeat(Box::new(Self::AfterWatermark { early: None, late: None }))
    }

    /// The trigger of a stage that reads panes of one with a trigger of its own: whenever they come.
    pub fn continuation() -> Self {
        Self::Repeat(Box::new(Self::AfterCount(1)))
    }

    /// Whether this is the default, which needs no state per window.
    pub fn is_default(&self) -> bool {
        match self {
            Self::Repeat(inner) => {
                matches!(&**inner, Self::AfterWatermark { early: None, late: None })
            }
            Self::AfterWatermark { .. }
            | Self::AfterWatermarkPercentile(_)
            | Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::When(_)
            | Self::OnSignal(_)
            | Self::Never
            | Self::All(_)
            | Self::Any(_)
            | Self::Sequence(_)
            | Self::RepeatUntil(..)
            | Self::OrFinally(..)
            | Self::Custom(_) => false,
        }
    }

    /// Whether it looks at the results of its window.
    pub fn reads_results(&self) -> bool {
        match self {
            Self::When(_) | Self::Custom(_) => true,
            Self::AfterWatermark { .. }
            | Self::AfterWatermarkPercentile(_)
            | Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::OnSignal(_)
            | Self::Never
            | Self::All(_)
            | Self::Any(_)
            | Self::Sequence(_)
            | Self::Repeat(_)
            | Self::RepeatUntil(..)
            | Self::OrFinally(..) => self.children().any(Self::reads_results),
        }
    }

    /// The trigger with its conditions made ready for windows of `aggregates`. A condition that
    /// does not fit them, which a validated plan does not have, never holds.
    pub(crate) fn bind(&self, aggregates: &AggregateLayout, symbols: &Symbols) -> Self {
        let one = |inner: &Self| Box::new(inner.bind(aggregates, symbols));
        let all =
            |inner: &[Self]| inner.iter().map(|inner| inner.bind(aggregates, symbols)).collect();
        match self {
            Self::AfterWatermark { early, late } => Self::AfterWatermark {
                early: early.as_deref().map(one),
                late: late.as_deref().map(one),
            },
            Self::When(condition) => match condition.bind(aggregates, symbols) {
                Ok(bound) => Self::When(Arc::new(bound)),
                Err(_) => self.clone(),
            },
            Self::All(inner) => Self::All(all(inner)),
            Self::Any(inner) => Self::Any(all(inner)),
            Self::Sequence(inner) => Self::Sequence(all(inner)),
            Self::Repeat(inner) => Self::Repeat(one(inner)),
            Self::RepeatUntil(first, second) => Self::RepeatUntil(one(first), one(second)),
            Self::OrFinally(first, second) => Self::OrFinally(one(first), one(second)),
            Self::AfterWatermarkPercentile(_)
            | Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::OnSignal(_)
            | Self::Never
            | Self::Custom(_) => self.clone(),
        }
    }

    /// The shares of records whose second watermarks it waits for, ascending.
    pub(crate) fn percentiles(&self) -> Vec<Percentile> {
        let mut all = match self {
            Self::AfterWatermarkPercentile(percentile) => vec![*percentile],
            Self::AfterWatermark { .. }
            | Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::When(_)
            | Self::OnSignal(_)
            | Self::Never
            | Self::All(_)
            | Self::Any(_)
            | Self::Sequence(_)
            | Self::Repeat(_)
            | Self::RepeatUntil(..)
            | Self::OrFinally(..)
            | Self::Custom(_) => Vec::new(),
        };
        all.extend(self.children().flat_map(Self::percentiles));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The triggers directly inside, in order.
    pub fn children(&self) -> impl Iterator<Item = &Self> {
        let (first, second, others): (Option<&Self>, Option<&Self>, &[Self]) = match self {
            Self::AfterWatermark { early, late } => (early.as_deref(), late.as_deref(), &[]),
            Self::All(inner) | Self::Any(inner) | Self::Sequence(inner) => (None, None, inner),
            Self::Repeat(inner) => (Some(inner), None, &[]),
            Self::RepeatUntil(first, second) | Self::OrFinally(first, second) => {
                (Some(first), Some(second), &[])
            }
            Self::AfterWatermarkPercentile(_)
            | Self::AfterCount(_)
            | Self::AfterBytes(_)
            | Self::AfterProcessingTime(_)
            | Self::Every(_)
            | Self::When(_)
            | Self::OnSignal(_)
            | Self::Never
            | Self::Custom(_) => (None, None, &[]),
        };
        first.into_iter().chain(second).chain(others)
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |span: &Span| crate::window::display_span(*span);
        match self {
            Self::AfterWatermark { early: None, late: None } => f.write_str("after_watermark"),
            Self::AfterWatermark { early, late } => {
                f.write_str("after_watermark(")?;
                if let Some(early) = early {
                    write!(f, "early = {early}")?;
                }
                if let Some(late) = late {
                    let comma = if early.is_some() { ", " } else { "" };
                    write!(f, "{comma}late = {late}")?;
                }
                f.write_str(")")
            }
            Self::AfterWatermarkPercentile(percentile) => {
                write!(f, "after_watermark_percentile({percentile})")
            }
            Self::AfterCount(count) => write!(f, "count({count})"),
            Self::AfterBytes(bytes) => write!(f, "bytes({bytes})"),
            Self::AfterProcessingTime(delay) => write!(f, "processing_time({})", span(delay)),
            Self::Every(period) => write!(f, "every({})", span(period)),
            Self::When(condition) => write!(f, "when({condition})"),
            Self::OnSignal(name) => write!(f, "on_signal({name})"),
            Self::Never => f.write_str("never"),
            Self::All(inner) => list(f, "all", inner),
            Self::Any(inner) => list(f, "any", inner),
            Self::Sequence(inner) => list(f, "sequence", inner),
            Self::Repeat(inner) => write!(f, "repeat({inner})"),
            Self::RepeatUntil(first, second) => write!(f, "repeat_until({first}, {second})"),
            Self::OrFinally(first, second) => write!(f, "or_finally({first}, {second})"),
            Self::Custom(custom) => f.write_str(custom.name()),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, name: &str, inner: &[Trigger]) -> fmt::Result {
    write!(f, "{name}(")?;
    for (index, trigger) in inner.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{trigger}")?;
    }
    f.write_str(")")
}
