//! How a plan is run: as a stream, in small batches, or as one batch. The plan is the same.
//!
//! - Streaming: with each batch of records, watermark and tick windows fire when their
//!   triggers say so.
//! - Micro-batch: records are taken as they come and nothing fires, until a cycle is begun: then
//!   every window that has changed since the cycle before fires once. Lateness and expiry follow
//!   the real watermark, which moves with the cycles.
//! - Batch: the watermark stands at the beginning of time until all input has been read, then runs
//!   over the ends of all windows: each fires once, on time, and that is its last pane.
//!
//! Here is what the engines do to a job, and who decides when a cycle begins: [`Cycles`] at the
//! coordinator, [`Cut`] at a source. Facts in, decision out; time comes with the tick.

use crate::plan::Job;
use crate::time::{ProcessingTime, Span, Watermark};
use crate::trigger::Trigger;
use crate::watermark::ProgressRules;
use serde::{Deserialize, Serialize};

/// How a plan is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// Results come as soon as triggers say so.
    #[default]
    Streaming,
    /// Results come cycle by cycle.
    MicroBatch(Pace),
    /// Results come at the end of the input, once.
    Batch,
}

/// When a cycle of micro-batches ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// At multiples of this span of processing time since the Unix epoch; at least 1 ms.
    Every(Span),
    /// When every source has read so many records, or has ended: at the same records in every run.
    /// At least 1. A source that cannot stop in the middle reads a few more; one that is idle is
    /// not waited for.
    Records(u64),
}

impl Engine {
    /// The name in configuration and plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::MicroBatch(_) => "micro_batch",
            Self::Batch => "batch",
        }
    }

    /// When cycles end; `None` if there are none.
    pub const fn pace(self) -> Option<Pace> {
        match self {
            Self::MicroBatch(pace) => Some(pace),
            Self::Streaming | Self::Batch => None,
        }
    }

    /// Whether the shards hear of a watermark as soon as the pipeline has come to it. Micro-batches
    /// carry it with their cycles; a batch waits for the end of all input, whatever sources promise
    /// before.
    pub fn passes_on(self, watermark: Watermark) -> bool {
        match self {
            Self::Streaming => true,
            Self::MicroBatch(_) => false,
            Self::Batch => watermark == Watermark::MAX,
        }
    }

    /// What this engine heeds of the rules of progress: only in a stream there are results that wait
    /// for a watermark which stands still.
    pub fn heeds(self, rules: ProgressRules) -> ProgressRules {
        match self {
            Self::Streaming => rules,
            Self::MicroBatch(_) | Self::Batch => ProgressRules { close_after: None, ..rules },
        }
    }

    /// The job as this engine runs it: it decides when windows fire in the place of their triggers.
    pub(crate) fn adapt(self, job: &Job) -> Job {
        let mut job = job.clone();
        for grouping in &mut job.groupings {
            match self {
                Self::Streaming => {}
                Self::MicroBatch(_) => grouping.trigger = each_cycle(),
                Self::Batch => grouping.trigger = Trigger::default_trigger(),
            }
        }
        job
    }
}

/// Ready whenever something has come, and at the end of the window; asked once a cycle.
fn each_cycle() -> Trigger {
    let any = || Some(Box::new(Trigger::AfterCount(1)));
    Trigger::AfterWatermark { early: any(), late: any() }
}

/// The end of a cycle, for the shards. A stream has no cycles but one whenever its watermark has
/// stood still for too long: windows then emit what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Its number, from 1.
    pub number: u64,
    /// The pipeline's watermark at its end: records of the next cycle are judged by it.
    pub watermark: Watermark,
}

/// What the coordinator knows of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Stand {
    Reading,
    /// It has read what belongs to this cycle, or has nothing to read.
    AtCut,
    Ended,
}

/// A cycle may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// Number of the cycle, from 1.
    pub number: u64,
    /// Whether all input has ended: no cycle follows.
    pub is_last: bool,
}

/// Decides when cycles begin: when they are due, and all shards have finished the one before. So
/// nothing of two cycles is ever on the way between shards, and slow shards make cycles longer,
/// not more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cycles {
    pace: Pace,
    sources: Vec<Stand>,
    /// By shard: the last cycle that it has finished. Rise only.
    finished: Vec<u64>,
    /// The last cycle that has begun. Rises only.
    number: u64,
    now: ProcessingTime,
    /// When the next cycle is due, where the clock decides. `None` before the first tick.
    due: Option<ProcessingTime>,
    is_over: bool,
}

impl Cycles {
    /// No cycle has begun.
    pub fn new(pace: Pace, sources: usize, shards: usize) -> Self {
        Self {
            pace,
            sources: vec![Stand::Reading; sources],
            finished: vec![0; shards],
            number: 0,
            now: ProcessingTime::from_millis(i64::MIN),
            due: None,
            is_over: false,
        }
    }

    /// The last cycle that has begun; 0 before the first.
    pub const fn begun(&self) -> u64 {
        self.number
    }

    /// The clock ticks.
    pub fn tick(&mut self, now: ProcessingTime) -> Option<Begin> {
        self.now = self.now.max(now);
        self.begin()
    }

    /// A source has read what belongs to the cycle that begins behind cycle `after`. What it says
    /// of an earlier one has been overtaken, and means nothing.
    pub fn cut(&mut self, source: usize, after: u64) -> Option<Begin> {
        if after == self.number {
            self.set_aside(source);
        }
        self.begin()
    }

    /// A source has nothing to read for long: a cycle that counts records does not wait for it.
    pub fn rest(&mut self, source: usize) -> Option<Begin> {
        self.set_aside(source);
        self.begin()
    }

    fn set_aside(&mut self, source: usize) {
        if let Some(stand) = self.sources.get_mut(source)
            && *stand == Stand::Reading
        {
            *stand = Stand::AtCut;
        }
    }

    /// A source reads no more.
    pub fn ended(&mut self, source: usize) -> Option<Begin> {
        if let Some(stand) = self.sources.get_mut(source) {
            *stand = Stand::Ended;
        }
        self.begin()
    }

    /// A shard has finished `cycle`.
    pub fn finished(&mut self, shard: usize, cycle: u64) -> Option<Begin> {
        if let Some(finished) = self.finished.get_mut(shard) {
            *finished = cycle.max(*finished);
        }
        self.begin()
    }

    /// Begins a cycle if one is due.
    fn begin(&mut self) -> Option<Begin> {
        let is_last = self.sources.iter().all(|stand| *stand == Stand::Ended);
        let is_due = match self.pace {
            Pace::Every(period) => {
                let due = *self.due.get_or_insert(self.now.next_multiple(period));
                self.now >= due
            }
            Pace::Records(_) => self.sources.iter().all(|stand| *stand != Stand::Reading),
        };
        let is_in_flight = self.finished.iter().any(|finished| *finished < self.number);
        if self.is_over || is_in_flight || !(is_due || is_last) {
            return None;
        }
        if let Pace::Every(period) = self.pace {
            self.due = Some(self.now.next_multiple(period));
        }
        for stand in &mut self.sources {
            if *stand == Stand::AtCut {
                *stand = Stand::Reading;
            }
        }
        self.number = self.number.saturating_add(1);
        self.is_over = is_last;
        Some(Begin { number: self.number, is_last })
    }
}

/// Where a source stops reading until the next cycle begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cut {
    /// Records of a cycle; `None` where something else decides.
    records: Option<u64>,
    /// The last cycle that has begun.
    after: u64,
    /// Records of this cycle that were read.
    read: u64,
}

impl Cut {
    /// At the beginning of the first cycle.
    pub const fn new(engine: Engine) -> Self {
        let records = match engine {
            Engine::MicroBatch(Pace::Records(records)) => Some(records),
            Engine::MicroBatch(Pace::Every(_)) | Engine::Streaming | Engine::Batch => None,
        };
        Self { records, after: 0, read: 0 }
    }

    /// The same, where so many records of the first cycle were read in a process before this one.
    #[must_use]
    pub const fn behind(self, read: u64) -> Self {
        Self { read, ..self }
    }

    /// How many records of this cycle were read.
    pub const fn records_read(&self) -> u64 {
        self.read
    }

    /// The last cycle that has begun: records that are read now belong to the one behind it.
    pub const fn after(&self) -> u64 {
        self.after
    }

    /// How many of `wanted` records may be read: at least 1, unless the cut has been reached.
    pub fn room(&self, wanted: usize) -> usize {
        let Some(records) = self.records else { return wanted };
        let left = records.max(1).saturating_sub(self.read);
        wanted.min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Takes notice of records that were read; returns whether the cut has been reached.
    pub fn read(&mut self, records: usize) -> bool {
        self.read = self.read.saturating_add(records as u64);
        self.is_reached()
    }

    /// Whether nothing more is read before the next cycle begins.
    pub fn is_reached(&self) -> bool {
        self.records.is_some_and(|all| self.read >= all.max(1))
    }

    /// Cycle `number` has begun.
    pub const fn next(&mut self, number: u64) {
        self.after = number;
        self.read = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::EventTime;

    fn begin(number: u64, is_last: bool) -> Option<Begin> {
        Some(Begin { number, is_last })
    }

    fn at(millis: i64) -> ProcessingTime {
        ProcessingTime::from_millis(millis)
    }

    #[test]
    fn cycles_by_records_wait_for_every_source_and_every_shard() {
        let mut cycles = Cycles::new(Pace::Records(10), 2, 2);
        assert_eq!(cycles.tick(at(1_000)), None);
        assert_eq!(cycles.cut(0, 0), None);
        assert_eq!(cycles.cut(0, 0), None);
        assert_eq!(cycles.cut(1, 0), begin(1, false));
        assert_eq!(cycles.cut(1, 1), None);
        assert_eq!(cycles.finished(0, 1), None);
        assert_eq!(cycles.ended(0), None, "a shard is still busy with the first");
        assert_eq!(cycles.finished(1, 1), begin(2, false));
        assert_eq!(cycles.ended(1), None);
        assert_eq!(cycles.finished(1, 2), None);
        assert_eq!(cycles.finished(0, 2), begin(3, true));
        assert_eq!(cycles.finished(0, 3), None);
        assert_eq!(cycles.finished(1, 3), None, "no cycle follows the last");
    }

    #[test]
    fn a_source_that_ends_at_its_cut_is_not_waited_for() {
        let mut cycles = Cycles::new(Pace::Records(10), 2, 1);
        assert_eq!(cycles.cut(0, 0), None);
        assert_eq!(cycles.ended(0), None);
        assert_eq!(cycles.cut(1, 0), begin(1, false));
        assert_eq!(cycles.finished(0, 1), None);
        assert_eq!(cycles.ended(1), begin(2, true));
    }

    #[test]
    fn cycles_by_records_do_not_wait_for_a_source_that_is_silent() {
        let mut cycles = Cycles::new(Pace::Records(10), 2, 1);
        assert_eq!(cycles.cut(0, 0), None);
        assert_eq!(cycles.rest(1), begin(1, false));
        assert_eq!(cycles.finished(0, 1), None);
        // It has woken and filled the first cycle after all, but has not heard of its end.
        assert_eq!(cycles.cut(1, 0), None);
        assert_eq!(cycles.cut(0, 1), None, "it has not read what belongs to the second");
        assert_eq!(cycles.cut(1, 1), begin(2, false));
        assert_eq!(cycles.finished(0, 2), None);
        // While all are silent time goes on in empty cycles.
        assert_eq!((cycles.rest(0), cycles.rest(1)), (None, begin(3, false)));
    }

    #[test]
    fn cycles_by_the_clock_begin_at_multiples_of_the_period_and_never_two_at_once() {
        let mut cycles = Cycles::new(Pace::Every(Span::from_millis(100)), 1, 1);
        for (now, begun) in [
            (1_030, None),
            (1_099, None),
            (1_100, begin(1, false)),
            (1_210, None), // the shard is busy
        ] {
            assert_eq!(cycles.tick(at(now)), begun, "{now}");
        }
        assert_eq!(cycles.finished(0, 1), begin(2, false), "it was due");
        assert_eq!(cycles.finished(0, 2), None);
        assert_eq!(cycles.tick(at(1_299)), None);
        assert_eq!(cycles.tick(at(1_300)), begin(3, false));
        // The end does not wait for the clock, but for the shard.
        assert_eq!(cycles.ended(0), None);
        assert_eq!(cycles.finished(0, 3), begin(4, true));
    }

    #[test]
    fn shards_hear_of_watermarks_as_the_engine_wants() {
        let (some, end) = (Watermark(EventTime::from_millis(5)), Watermark::MAX);
        for (engine, heard) in [
            (Engine::Streaming, [true, true]),
            (Engine::MicroBatch(Pace::Records(1)), [false, false]),
            (Engine::Batch, [false, true]),
        ] {
            assert_eq!([some, end].map(|watermark| engine.passes_on(watermark)), heard);
        }
    }

    #[test]
    fn an_end_before_any_record_is_one_cycle() {
        for pace in [Pace::Every(Span::from_millis(10)), Pace::Records(1)] {
            let mut cycles = Cycles::new(pace, 1, 3);
            assert_eq!(cycles.ended(0), begin(1, true));
        }
    }

    #[test]
    fn a_source_reads_as_many_records_as_belong_to_the_cycle() {
        let mut cut = Cut::new(Engine::MicroBatch(Pace::Records(100)));
        assert_eq!((cut.room(64), cut.read(64)), (64, false));
        // It gave more than it was asked for.
        assert_eq!((cut.room(64), cut.read(40)), (36, true));
        assert_eq!(cut.room(64), 0);
        assert!(cut.is_reached());
        cut.next(1);
        assert_eq!((cut.after(), cut.is_reached()), (1, false));
        assert_eq!((cut.room(1_000), cut.read(100)), (100, true));
        let mut endless = Cut::new(Engine::Streaming);
        assert_eq!((endless.room(64), endless.read(usize::MAX), endless.room(64)), (64, false, 64));
    }
}
