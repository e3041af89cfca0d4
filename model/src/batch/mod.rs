//! The oracle: what a job must give, straight from the definitions, over a finished list of what
//! arrived.
//!
//! Each grouping is evaluated from the records themselves, on plain values in ordered maps: no
//! packed words, no accumulators, no cascade, no state. It is slow and obvious on purpose; every
//! property test compares the engine with it. What it shares with the engine is the definition of
//! windows ([`crate::time`], [`crate::window`]), the order of values and the frozen hashes. Windows
//! that merge are found by `merging`. Triggers are not known here: what a trigger that has finished
//! keeps out is told by whoever asks. Sequences have an oracle of their own ([`judge_sequence`]): what
//! is late for them depends on what came together.

mod chain;
mod cuts;
mod input;
mod items;
mod merging;
mod results;
mod sequences;
mod sided;
mod total;

use crate::aggregate::Overflow;
use crate::plan::{Grouping, Job, Plan};
use crate::time::{EventTime, Lateness, Watermark, Window, judge};
use crate::value::Value;
use input::{Copy, Interval, Reader};
use merging::{Fate, Merged};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use total::Inputs;

pub use sequences::{Fates, Placed, Round, Session, Sessions, judge_sequence, roll_up};

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
    /// the records; of windows that merge, by the one that the record makes by itself.
    pub expired: BTreeMap<Place, u64>,
    /// Window copies dropped because with them windows would have merged into one that has expired.
    pub refused: BTreeMap<Place, u64>,
}

/// Window copies that a trigger keeps out since it has finished: the number of the record among
/// those that arrive, from 0, and the place in the grouping that reads it.
pub type Closed = BTreeSet<(usize, Place)>;

/// For each grouping of the job, the index of the grouping through whose panes the plan reads the
/// records: the one whose windows and lateness decide what is dropped.
pub fn readers(job: &Job, plan: &Plan) -> Vec<usize> {
    let index_of = |name: &str| {
        // The full sums below a top-K are a stage of the grouping's own.
        job.groupings.iter().position(|grouping| {
            name == &*grouping.name || name.strip_suffix("/all") == Some(&*grouping.name)
        })
    };
    let reader = |(index, grouping): (usize, &Grouping)| {
        let mut stage = plan.stage(&grouping.name);
        while let Some(parent) = stage.and_then(|stage| stage.input.parent()) {
            stage = plan.stages.get(parent.index());
        }
        stage.and_then(|stage| index_of(&stage.name)).unwrap_or(index)
    };
    job.groupings.iter().enumerate().map(reader).collect()
}

/// Evaluates `job` over what arrived, in order; `readers` as from [`readers()`]. Without a watermark
/// among the arrivals nothing is late and nothing is dropped: the batch.
///
/// # Errors
/// A sum does not fit 128 bits.
pub fn evaluate(
    job: &Job,
    readers: &[usize],
    arrivals: &[Arrival],
) -> Result<Evaluation, Overflow> {
    evaluate_without(job, readers, arrivals, &Closed::new())
}

/// As [`evaluate`], of what is not `closed`.
///
/// # Errors
/// A sum does not fit 128 bits.
pub fn evaluate_without(
    job: &Job,
    readers: &[usize],
    arrivals: &[Arrival],
    closed: &Closed,
) -> Result<Evaluation, Overflow> {
    let mut oracle = Oracle::new(job, readers, closed);
    for arrival in arrivals {
        match arrival {
            Arrival::Watermark(given) => oracle.watermark(*given),
            Arrival::Record(record) => oracle.record(record),
        }
    }
    oracle.finish()
}

/// What has come so far.
struct Oracle<'a> {
    job: &'a Job,
    readers: &'a [usize],
    closed: &'a Closed,
    watermark: Watermark,
    /// Records that have come.
    records: usize,
    /// By grouping: what counts.
    inputs: Vec<BTreeMap<(KeyValues, Window), Inputs>>,
    /// By grouping: what counts where windows merge.
    merged: Vec<Option<Merged<'a>>>,
    evaluation: Evaluation,
}

impl<'a> Oracle<'a> {
    fn new(job: &'a Job, readers: &'a [usize], closed: &'a Closed) -> Self {
        let merged =
            |grouping: &'a Grouping| grouping.window.is_merging().then(|| Merged::new(grouping));
        Self {
            job,
            readers,
            closed,
            watermark: Watermark::MIN,
            records: 0,
            inputs: vec![BTreeMap::new(); job.groupings.len()],
            merged: job.groupings.iter().map(merged).collect(),
            evaluation: Evaluation::default(),
        }
    }

    fn watermark(&mut self, given: Watermark) {
        self.watermark = given.max(self.watermark);
        for merged in self.merged.iter_mut().flatten() {
            merged.expire(self.watermark);
        }
    }

    fn record(&mut self, record: &Record) {
        let number = self.records;
        self.records += 1;
        for (index, grouping) in self.job.groupings.iter().enumerate() {
            if grouping.of.is_some() || grouping.sequence.is_some() {
                continue;
            }
            if self.merged.get(index).is_some_and(Option::is_some) {
                self.merge(index, (number, record));
                continue;
            }
            let reader = self.readers.get(index).copied().unwrap_or(index);
            let judged = self.judge(reader, (number, record));
            if reader == index {
                count_expired(self.job, index, &judged, &mut self.evaluation);
            }
            if let Some(inputs) = self.inputs.get_mut(index) {
                take(self.job, (reader, index), record, &judged, inputs);
            }
        }
    }

    /// The copies of a record in the grouping that reads records, and what becomes of each.
    fn judge(&self, reader: usize, (number, record): (usize, &Record)) -> Vec<JudgedCopy> {
        let Some(grouping) = self.job.groupings.get(reader) else { return Vec::new() };
        let reader = Reader { job: self.job, grouping };
        let judged = reader.copies(record).into_iter().map(|copy| {
            let (windows, interval) = reader.read(record, &copy);
            let windows = windows.into_iter().map(|window| {
                let place = place(grouping, &copy, window);
                let fate = match judge(window, self.watermark, grouping.allowed_lateness) {
                    Lateness::Expired => Judged::Expired,
                    _ if self.closed.contains(&(number, place)) => Judged::Closed,
                    Lateness::OnTime | Lateness::Late => Judged::Taken,
                };
                (window, fate)
            });
            JudgedCopy { windows: windows.collect(), interval, copy }
        });
        judged.collect()
    }

    /// A record comes to grouping `index`, whose windows merge.
    fn merge(&mut self, index: usize, (number, record): (usize, &Record)) {
        let (Some(grouping), Some(Some(merged))) =
            (self.job.groupings.get(index), self.merged.get_mut(index))
        else {
            return;
        };
        let reader = Reader { job: self.job, grouping };
        for copy in reader.copies(record) {
            for window in reader.windows(record, &copy, None) {
                let place = place(grouping, &copy, window);
                if self.closed.contains(&(number, place.clone())) {
                    continue;
                }
                let values = reader.values((record, &copy), None, window, &[]);
                let own = (window, record.time);
                let dropped = match merged.take(&copy.key, own, values, self.watermark) {
                    Fate::Taken => continue,
                    Fate::Expired => &mut self.evaluation.expired,
                    Fate::Refused => &mut self.evaluation.refused,
                };
                *dropped.entry(place).or_default() += 1;
            }
        }
    }

    fn finish(self) -> Result<Evaluation, Overflow> {
        let mut evaluation = self.evaluation;
        let all = self.job.groupings.iter().zip(self.inputs).zip(self.merged);
        for ((grouping, inputs), merged) in all {
            if grouping.of.is_some() || grouping.sequence.is_some() {
                continue;
            }
            let inputs = merged.map_or(inputs, Merged::finish);
            total::finish(self.job, grouping, inputs, &mut evaluation.totals)?;
        }
        results::finish(self.job, &mut evaluation.totals, &[])?;
        Ok(evaluation)
    }
}

/// A copy of a record in the grouping that reads records, and what became of its window copies.
struct JudgedCopy {
    copy: Copy,
    /// What of it counts, where records cover intervals.
    interval: Option<Interval>,
    /// The windows that it touches, in order, and what became of each.
    windows: Vec<(Window, Judged)>,
}

/// What became of a window copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Taken,
    Expired,
    Closed,
}

fn place(grouping: &Grouping, copy: &Copy, window: Window) -> Place {
    let (grouping, key) = (grouping.name.clone(), copy.key.clone());
    Place { grouping, key, window, is_other: false }
}

fn count_expired(job: &Job, index: usize, judged: &[JudgedCopy], evaluation: &mut Evaluation) {
    let Some(grouping) = job.groupings.get(index) else { return };
    for copy in judged {
        for (window, _) in copy.windows.iter().filter(|(_, fate)| *fate == Judged::Expired) {
            let place = place(grouping, &copy.copy, *window);
            *evaluation.expired.entry(place).or_default() += 1;
        }
    }
}

/// Adds what `record` brings to grouping `index`, less what its reader dropped.
fn take(
    job: &Job,
    (reads, index): (usize, usize),
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
            // Its own windows may lie in each other; what it reads of others lies in its own.
            let is_inside = |inner: Window| {
                if reads == index { inner == window } else { window.covers(inner) }
            };
            let inside = || read.windows.iter().filter(|(inner, _)| is_inside(*inner));
            if inside().all(|(_, fate)| *fate != Judged::Taken) {
                continue;
            }
            let dropped = inside().filter(|(_, fate)| *fate != Judged::Taken);
            let dropped: Vec<_> = dropped.map(|(inner, _)| *inner).collect();
            let values = reader.values((record, &copy), read.interval, window, &dropped);
            inputs.entry((copy.key.clone(), window)).or_default().add(record.time, values);
        }
    }
}

#[cfg(test)]
mod tests;
