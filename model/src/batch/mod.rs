//! The oracle: what a job must give, straight from the definitions, over a finished list of what
//! arrived.
//!
//! Each grouping is evaluated from the records themselves, on plain values in ordered maps: no
//! packed words, no accumulators, no cascade, no state. It is slow and obvious on purpose; every
//! property test compares the engine with it. What it shares with the engine is the definition of
//! windows ([`crate::time`], [`crate::window`]), the order of values and the frozen hashes. Windows
//! that merge (sessions) depend on each other; they are refused, not guessed at.

mod input;
mod total;

use crate::aggregate::Overflow;
use crate::plan::{Job, Plan, StageInput};
use crate::time::{EventTime, Lateness, Watermark, Window, judge};
use crate::value::Value;
use crate::window::WindowFn;
use input::{Copy, Interval, Reader};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use total::Inputs;

/// A record: its event time and the values of all fields of the job, in the job's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Event time.
    pub time: EventTime,
    /// One value per field of [`Job::fields`].
    pub values: Vec<Value>,
}

/// One thing that reaches the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// A record.
    Record(Record),
    /// The pipeline's watermark stands here from now on.
    Watermark(Watermark),
}

/// Values of a key, ordered field by field.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyValues(pub Vec<Value>);

impl Eq for KeyValues {}

impl PartialOrd for KeyValues {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyValues {
    fn cmp(&self, other: &Self) -> Ordering {
        let fields = self.0.iter().zip(&other.0).map(|(a, b)| a.compare(b));
        let first = fields.into_iter().find(|order| order.is_ne());
        first.unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

/// Where a result stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the grouping.
    pub grouping: Box<str>,
    /// Its key; the entity fields of an `other` entry are null.
    pub key: KeyValues,
    /// The window.
    pub window: Window,
    /// Whether this is the entry that carries what a top-K does not list.
    pub is_other: bool,
}

/// What a job gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evaluation {
    /// Results by place: one value per aggregate, in the grouping's order.
    pub totals: BTreeMap<Place, Vec<Value>>,
    /// Window copies dropped because their window had expired, by place in the grouping that reads
    /// the records.
    pub expired: BTreeMap<Place, u64>,
}

/// For each grouping of the job, the index of the grouping through whose panes the plan reads the
/// records: the one whose windows and lateness decide what is dropped.
pub fn readers(job: &Job, plan: &Plan) -> Vec<usize> {
    let index_of = |name: &str| {
        // The full sums below a top-K are a stage of the grouping's own.
        job.groupings.iter().position(|grouping| {
            name == &*grouping.name || name.strip_suffix("/all") == Some(&*grouping.name)
        })
    };
    let reader = |(index, grouping): (usize, &crate::plan::Grouping)| {
        let mut stage = plan.stage(&grouping.name);
        while let Some(StageInput::Panes(panes)) = stage.map(|stage| &stage.input) {
            stage = plan.stages.get(panes.parent.index());
        }
        stage.and_then(|stage| index_of(&stage.name)).unwrap_or(index)
    };
    job.groupings.iter().enumerate().map(reader).collect()
}

/// A job that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A sum does not fit 128 bits.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// A grouping has windows that merge.
    #[error("grouping `{grouping}` has session windows: the oracle does not merge windows")]
    Merging {
        /// The grouping.
        grouping: Box<str>,
    },
}

/// Evaluates `job` over what arrived, in order; `readers` as from [`readers()`]. Without a watermark
/// among the arrivals nothing is late and nothing is dropped: the batch.
///
/// # Errors
/// A sum does not fit 128 bits, or windows merge.
pub fn evaluate(
    job: &Job,
    readers: &[usize],
    arrivals: &[Arrival],
) -> Result<Evaluation, BatchError> {
    for grouping in &job.groupings {
        if let WindowFn::Session { .. } = grouping.window {
            return Err(BatchError::Merging { grouping: grouping.name.clone() });
        }
    }
    let mut watermark = Watermark::MIN;
    let mut inputs: Vec<BTreeMap<(KeyValues, Window), Inputs>> =
        vec![BTreeMap::new(); job.groupings.len()];
    let mut evaluation = Evaluation::default();
    for arrival in arrivals {
        match arrival {
            Arrival::Watermark(given) => watermark = watermark.max(*given),
            Arrival::Record(record) => {
                for (index, inputs) in inputs.iter_mut().enumerate() {
                    let reader = readers.get(index).copied().unwrap_or(index);
                    let judged = judge_copies(job, reader, record, watermark);
                    if reader == index {
                        count_expired(job, index, &judged, &mut evaluation);
                    }
                    take(job, index, record, &judged, inputs);
                }
            }
        }
    }
    for (grouping, inputs) in job.groupings.iter().zip(inputs) {
        total::finish(job, grouping, inputs, &mut evaluation.totals)?;
    }
    Ok(evaluation)
}

/// A copy of a record in the grouping that reads records, and what became of its window copies.
struct JudgedCopy {
    copy: Copy,
    /// What of it counts, where records cover intervals.
    interval: Option<Interval>,
    /// The windows that it touches, in order, and whether each was dropped.
    windows: Vec<(Window, bool)>,
}

fn judge_copies(
    job: &Job,
    reader: usize,
    record: &Record,
    watermark: Watermark,
) -> Vec<JudgedCopy> {
    let Some(grouping) = job.groupings.get(reader) else { return Vec::new() };
    let reader = Reader { job, grouping };
    let judged = reader.copies(record).into_iter().map(|copy| {
        let (windows, interval) = reader.read(record, &copy);
        let windows = windows.into_iter().map(|window| {
            let verdict = judge(window, watermark, grouping.allowed_lateness);
            (window, verdict == Lateness::Expired)
        });
        JudgedCopy { windows: windows.collect(), interval, copy }
    });
    judged.collect()
}

fn count_expired(job: &Job, index: usize, judged: &[JudgedCopy], evaluation: &mut Evaluation) {
    let Some(grouping) = job.groupings.get(index) else { return };
    for copy in judged {
        for (window, _) in copy.windows.iter().filter(|(_, is_dropped)| *is_dropped) {
            let place = Place {
                grouping: grouping.name.clone(),
                key: copy.copy.key.clone(),
                window: *window,
                is_other: false,
            };
            *evaluation.expired.entry(place).or_default() += 1;
        }
    }
}

/// Adds what `record` brings to grouping `index`, less what its reader dropped.
fn take(
    job: &Job,
    index: usize,
    record: &Record,
    judged: &[JudgedCopy],
    inputs: &mut BTreeMap<(KeyValues, Window), Inputs>,
) {
    let Some(grouping) = job.groupings.get(index) else { return };
    let reader = Reader { job, grouping };
    for (number, copy) in reader.copies(record).into_iter().enumerate() {
        // A reader that makes copies makes them for all who regroup its panes, in step.
        let Some(read) = judged.get(number).or_else(|| judged.first()) else { continue };
        for window in reader.windows(record, &copy, read.interval) {
            let inside = || read.windows.iter().filter(|(inner, _)| window.covers(*inner));
            if inside().all(|(_, is_dropped)| *is_dropped) {
                continue;
            }
            let dropped: Vec<_> =
                inside().filter(|(_, is_dropped)| *is_dropped).map(|(inner, _)| *inner).collect();
            let values = reader.values((record, &copy), read.interval, window, &dropped);
            inputs.entry((copy.key.clone(), window)).or_default().add(record.time, values);
        }
    }
}

#[cfg(test)]
mod tests;
