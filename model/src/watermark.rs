//! Watermarks: estimated per source partition, combined as a minimum that never goes back.
//!
//! A [`Generator`] sits in the reader of a partition and watches every event time. A
//! [`Coordinator`] takes the progress of all partitions and decides the pipeline's watermark and
//! who is idle. Neither has a clock: time comes with the tick. Invariant WM-1: what
//! [`Coordinator`] gives out only rises, whatever partitions do.

use crate::time::{EventTime, ProcessingTime, Span, Watermark};
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
}

/// Settings of the watermark of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkSettings {
    /// The estimate.
    pub spec: WatermarkSpec,
    /// A partition that is at its end and has been silent for so long is idle; `None`: never.
    pub idle_after: Option<Span>,
    /// An event time further ahead of the clock than this moves the watermark no further than to
    /// the clock; `None`: no limit.
    pub max_future_skew: Option<Span>,
}

/// What one event time did to the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It was the largest so far.
    InOrder,
    /// A larger one had come before.
    Reordered,
    /// It lies too far ahead of the clock: it moved the estimate at most to the clock.
    Clamped,
}

/// The watermark estimate of one source partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Generator {
    settings: WatermarkSettings,
    /// Largest event time that counts. Grows only; part of a checkpoint.
    max_event_time: EventTime,
}

impl Generator {
    /// An estimate that has seen nothing.
    pub const fn new(settings: WatermarkSettings) -> Self {
        Self { settings, max_event_time: EventTime::MIN }
    }

    /// Takes notice of a record at `time`, handled at `now` (`None` where no clock applies, as in
    /// a replay).
    pub fn observe(&mut self, time: EventTime, now: Option<ProcessingTime>) -> Observed {
        if let (Some(now), Some(skew)) = (now, self.settings.max_future_skew) {
            let clock = EventTime::from_millis(now.as_millis());
            if time > clock.saturating_add(skew) {
                self.max_event_time = self.max_event_time.max(clock);
                return Observed::Clamped;
            }
        }
        if time < self.max_event_time {
            return Observed::Reordered;
        }
        self.max_event_time = time;
        Observed::InOrder
    }

    /// What may be promised now.
    pub fn watermark(&self) -> Watermark {
        match self.settings.spec {
            WatermarkSpec::EndOfInput => Watermark::MIN,
            WatermarkSpec::Bounded { out_of_orderness } => {
                // A record at the end of time is not the end of the input.
                let last = EventTime::from_millis(i64::MAX - 1);
                Watermark(self.max_event_time.min(last).saturating_sub(out_of_orderness))
            }
        }
    }
}

/// What a source reports of one of its partitions, behind the batch that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of the partition, counted over all sources.
    pub partition: u32,
    /// Its estimate.
    pub watermark: Watermark,
    /// Whether the reader stands at the end of what there is.
    pub is_at_end: bool,
    /// Whether no record can follow: the partition then promises everything.
    pub is_finished: bool,
    /// Whether records came since the last report.
    pub has_records: bool,
}

/// What holds for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionState {
    /// It holds the watermark back.
    Active,
    /// It is at its end and silent: it does not count until it has caught up again.
    Idle,
    /// Idle, but records have come again: it counts as soon as it has reached the watermark or
    /// the end of its backlog.
    CatchingUp,
    /// It has ended.
    Finished,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Partition {
    watermark: Watermark,
    state: PartitionState,
    /// Since when it has been at its end without a record. Cleared by a record.
    silent_since: Option<ProcessingTime>,
}

/// The watermark of a pipeline over all of its source partitions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Coordinator {
    idle_after: Option<Span>,
    partitions: Vec<Partition>,
    /// What has been given out. Never falls (WM-1).
    watermark: Watermark,
    /// The last tick.
    now: ProcessingTime,
}

impl Coordinator {
    /// For `partitions` partitions, none of which has said anything: until each has spoken or is
    /// known to be idle, nothing is promised.
    pub fn new(settings: WatermarkSettings, partitions: u32) -> Self {
        let unheard = Partition {
            watermark: Watermark::MIN,
            state: PartitionState::Active,
            silent_since: None,
        };
        Self {
            idle_after: settings.idle_after,
            partitions: vec![unheard; partitions as usize],
            watermark: Watermark::MIN,
            now: ProcessingTime::from_millis(i64::MIN),
        }
    }

    /// Takes a report; returns the pipeline's watermark if it rose. A report of a partition that
    /// does not exist is ignored.
    pub fn progress(&mut self, report: Progress) -> Option<Watermark> {
        let (now, given) = (self.now, self.watermark);
        let partition = self.partitions.get_mut(report.partition as usize)?;
        if report.is_finished {
            partition.state = PartitionState::Finished;
            return self.advance();
        }
        partition.watermark = partition.watermark.max(report.watermark);
        if report.has_records || !report.is_at_end {
            partition.silent_since = None;
            if partition.state == PartitionState::Idle {
                partition.state = PartitionState::CatchingUp;
            }
        } else if partition.silent_since.is_none() {
            partition.silent_since = Some(now);
        }
        let has_caught_up = partition.watermark >= given || report.is_at_end;
        if partition.state == PartitionState::CatchingUp && has_caught_up {
            partition.state = PartitionState::Active;
        }
        self.advance()
    }

    /// Takes the time; returns the pipeline's watermark if it rose because a partition became
    /// idle.
    pub fn tick(&mut self, now: ProcessingTime) -> Option<Watermark> {
        self.now = self.now.max(now);
        let idle_after = self.idle_after?;
        for partition in &mut self.partitions {
            let Some(since) = partition.silent_since else { continue };
            // Silent since before the first tick: the clock starts with this one.
            let since = if since.as_millis() == i64::MIN { now } else { since };
            partition.silent_since = Some(since);
            let may_rest = match partition.state {
                PartitionState::Active | PartitionState::CatchingUp => true,
                PartitionState::Idle | PartitionState::Finished => false,
            };
            if may_rest && now.since(since) >= idle_after {
                partition.state = PartitionState::Idle;
            }
        }
        self.advance()
    }

    /// Takes notice that a partition is idle, from a source that knows so; returns the pipeline's
    /// watermark if it rose. A partition that has ended, or does not exist, stays as it is.
    pub fn rest(&mut self, partition: u32) -> Option<Watermark> {
        let partition = self.partitions.get_mut(partition as usize)?;
        if partition.state != PartitionState::Finished {
            partition.state = PartitionState::Idle;
        }
        self.advance()
    }

    /// The pipeline's watermark.
    pub const fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// State and watermark of every partition, by number.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionState, Watermark)> + '_ {
        self.partitions.iter().map(|partition| (partition.state, partition.watermark))
    }

    /// The partition that holds the watermark back, if one does.
    pub fn holder(&self) -> Option<u32> {
        let active = self.partitions.iter().enumerate();
        let active = active.filter(|(_, partition)| partition.state == PartitionState::Active);
        let holder = active.min_by_key(|(_, partition)| partition.watermark)?;
        u32::try_from(holder.0).ok()
    }

    fn advance(&mut self) -> Option<Watermark> {
        let mut lowest = None;
        let mut is_finished = true;
        for partition in &self.partitions {
            match partition.state {
                PartitionState::Active => {
                    is_finished = false;
                    let so_far = lowest.unwrap_or(Watermark::MAX);
                    lowest = Some(partition.watermark.min(so_far));
                }
                PartitionState::Idle | PartitionState::CatchingUp => is_finished = false,
                PartitionState::Finished => {}
            }
        }
        let candidate = match lowest {
            Some(lowest) => lowest,
            None if is_finished => Watermark::MAX,
            // All idle: hold.
            None => return None,
        };
        if candidate <= self.watermark {
            return None;
        }
        self.watermark = candidate;
        Some(candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: WatermarkSettings = WatermarkSettings {
        spec: WatermarkSpec::Bounded { out_of_orderness: Span::from_millis(10) },
        idle_after: Some(Span::from_millis(100)),
        max_future_skew: Some(Span::from_millis(50)),
    };

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    fn mark(millis: i64) -> Watermark {
        Watermark(at(millis))
    }

    fn clock(millis: i64) -> ProcessingTime {
        ProcessingTime::from_millis(millis)
    }

    fn records(partition: u32, watermark: i64) -> Progress {
        Progress {
            partition,
            watermark: mark(watermark),
            is_at_end: false,
            is_finished: false,
            has_records: true,
        }
    }

    fn silent(partition: u32) -> Progress {
        Progress {
            partition,
            watermark: Watermark::MIN,
            is_at_end: true,
            is_finished: false,
            has_records: false,
        }
    }

    #[test]
    fn the_estimate_follows_the_largest_time_and_never_falls() {
        let mut generator = Generator::new(SETTINGS);
        for (time, now, observed, watermark) in [
            (100, None, Observed::InOrder, 90),
            (95, None, Observed::Reordered, 90),
            (100, None, Observed::InOrder, 90),
            (1_000, Some(200), Observed::Clamped, 190),
            (250, Some(200), Observed::InOrder, 240),
            (1_000, Some(100), Observed::Clamped, 240),
            (i64::MAX, None, Observed::InOrder, i64::MAX - 11),
        ] {
            assert_eq!(generator.observe(at(time), now.map(clock)), observed, "{time}");
            assert_eq!(generator.watermark(), mark(watermark), "{time}");
        }
        let settings = WatermarkSettings { spec: WatermarkSpec::EndOfInput, ..SETTINGS };
        let mut generator = Generator::new(settings);
        generator.observe(at(5), None);
        assert_eq!(generator.watermark(), Watermark::MIN);
    }

    #[test]
    fn the_watermark_is_the_minimum_and_waits_for_all() {
        let mut all = Coordinator::new(SETTINGS, 2);
        assert_eq!(all.progress(records(0, 50)), None);
        assert_eq!(all.progress(records(1, 30)), Some(mark(30)));
        assert_eq!(all.holder(), Some(1));
        assert_eq!(all.progress(records(1, 20)), None);
        assert_eq!(all.watermark(), mark(30));
        let finished = Progress { is_finished: true, ..records(1, 0) };
        assert_eq!(all.progress(finished), Some(mark(50)));
        let finished = Progress { is_finished: true, ..records(0, 0) };
        assert_eq!(all.progress(finished), Some(Watermark::MAX));
        assert_eq!(all.progress(records(7, 0)), None);
    }

    #[test]
    fn a_partition_that_never_spoke_is_idle_once_its_end_is_confirmed() {
        let mut all = Coordinator::new(SETTINGS, 2);
        all.tick(clock(0));
        all.progress(records(0, 50));
        assert_eq!(all.tick(clock(1_000)), None, "its end is not confirmed");
        all.progress(silent(1));
        assert_eq!(all.tick(clock(1_099)), None);
        assert_eq!(all.tick(clock(1_100)), Some(mark(50)));
    }

    #[test]
    fn a_waking_partition_counts_when_it_has_caught_up_and_never_lowers_the_watermark() {
        let mut all = Coordinator::new(SETTINGS, 2);
        all.tick(clock(0));
        all.progress(records(0, 50));
        all.progress(records(1, 40));
        all.progress(silent(1));
        assert_eq!(all.tick(clock(100)), Some(mark(50)));
        assert_eq!(all.progress(records(1, 45)), None);
        assert_eq!(all.progress(records(0, 60)), Some(mark(60)), "still catching up");
        assert_eq!(all.progress(records(1, 70)), None);
        assert_eq!(all.progress(records(0, 100)), Some(mark(70)), "it holds again");
    }

    #[test]
    fn a_partition_that_is_said_to_be_idle_holds_no_longer() {
        let mut all = Coordinator::new(SETTINGS, 2);
        all.progress(records(0, 50));
        assert_eq!(all.rest(1), Some(mark(50)));
        assert_eq!(all.rest(7), None);
        assert_eq!(all.progress(records(1, 20)), None);
        assert_eq!(all.progress(records(0, 60)), Some(mark(60)), "it is catching up");
        let finished = Progress { is_finished: true, ..records(1, 0) };
        all.progress(finished);
        all.rest(1);
        assert_eq!(all.partitions().nth(1).unwrap().0, PartitionState::Finished);
    }

    #[test]
    fn all_idle_holds() {
        let mut all = Coordinator::new(SETTINGS, 1);
        all.tick(clock(0));
        all.progress(records(0, 50));
        all.progress(silent(0));
        assert_eq!(all.tick(clock(500)), None);
        assert_eq!(all.watermark(), mark(50));
    }
}
