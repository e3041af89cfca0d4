//! What a pipeline may say about its watermark: per source how it is estimated, and for all of
//! them together what happens when they stand still or run apart.

use super::percentile::Percentile;
use super::punctuation::Punctuation;
use crate::time::Span;
use serde::{Deserialize, Serialize};

/// How the watermark of a partition is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatermarkSpec {
    /// Nothing is promised until the input has ended: the default of bounded files.
    EndOfInput,
    /// Largest event time seen, less `out_of_orderness`.
    Bounded {
        /// How far behind the largest event time a record may come and still be in time.
        out_of_orderness: Span,
    },
    /// Largest event time seen, less what `percentile` of the last records were late by: it lets
    /// stragglers go.
    Percentile {
        /// The share of records that shall be in time.
        percentile: Percentile,
        /// The least that is subtracted, however punctual records are.
        out_of_orderness: Span,
    },
    /// What records say by themselves, see [`super::Punctuation`].
    Punctuated,
    /// The time of arrival, which is the event time of every record, whatever the record says.
    Ingestion,
}

/// What an event time is held against to see that it lies too far in the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FutureSkew {
    /// Nothing.
    Off,
    /// The clock, where input is live.
    Clock(Span),
    /// Where the other partitions of the pipeline have come to, where input is replayed. Without
    /// others that have come to anything, there is no limit.
    Others(Span),
}

/// What becomes of a record that lies too far in the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clamped {
    /// It counts, in the window of its event time.
    Keep,
    /// It is rejected.
    Reject,
}

/// Settings of the watermark of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkSettings {
    /// The estimate.
    pub spec: WatermarkSpec,
    /// A partition that is at its end and has been silent for so long is idle; `None`: never.
    pub idle_after: Option<Span>,
    /// An event time that lies further ahead than this does not move the watermark past what it is
    /// held against.
    pub future_skew: FutureSkew,
    /// What becomes of such a record.
    pub clamped: Clamped,
    /// How many of the last records percentiles are taken of; at least 1.
    pub lateness_records: u32,
}

impl WatermarkSettings {
    /// How many of the last records percentiles are taken of, unless set otherwise.
    pub const LATENESS_RECORDS: u32 = 10_000;

    /// The estimate and nothing else: never idle, no limit to the future.
    pub const fn new(spec: WatermarkSpec) -> Self {
        Self {
            spec,
            idle_after: None,
            future_skew: FutureSkew::Off,
            clamped: Clamped::Keep,
            lateness_records: Self::LATENESS_RECORDS,
        }
    }
}

/// How the watermark of a source is estimated, ready for its records.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimation {
    /// The settings.
    pub settings: WatermarkSettings,
    /// What records say, where the estimate is [`WatermarkSpec::Punctuated`].
    pub punctuation: Option<Punctuation>,
}

impl From<WatermarkSettings> for Estimation {
    fn from(settings: WatermarkSettings) -> Self {
        Self { settings, punctuation: None }
    }
}

/// What the watermark does while all partitions are idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AllIdle {
    /// It stands still.
    #[default]
    Hold,
    /// It follows the clock, so far behind.
    Advance(Span),
}

/// Settings of the watermark of a pipeline, over all of its partitions. The default does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgressRules {
    /// What it does while all partitions are idle.
    pub all_idle: AllIdle,
    /// A partition further ahead of the slowest than this waits; `None`: none waits.
    pub max_drift: Option<Span>,
    /// When the watermark has stood still for so long, and all partitions are at their ends, open
    /// windows emit what they hold; `None`: never.
    pub close_after: Option<Span>,
}

impl ProgressRules {
    /// Whether sources wait for their turns: so that none runs ahead, or so that each knows what the
    /// others have come to before its records count. One that is alone waits for the watermark, too:
    /// it may have several partitions, and with `max_drift` its batches meet the watermark that those
    /// before them have made.
    pub fn reads_in_step<'a>(self, mut sources: impl Iterator<Item = &'a Estimation>) -> bool {
        self.max_drift.is_some()
            || sources.any(|source| matches!(source.settings.future_skew, FutureSkew::Others(_)))
    }
}
