//! What a seed decides before a run begins: the job, the engine, the partitions and what they hold,
//! the rules of progress, the limits. Every run is of another kind: what is rare in one is common in
//! the next.

use crate::dice::Dice;
use crate::endings::Place;
use crate::job::{Style, jobs};
use crate::node::PUNCTUATION;
use crate::partition::{Entry, Partition};
use crate::records::{record, values};
use crate::sequences;
use crate::wide::{Closing, wide_jobs};
use nilometer_model::batch::Record;
use nilometer_model::engine::{Engine, Pace};
use nilometer_model::epoch::Bounds;
use nilometer_model::node::credit::Limits;
use nilometer_model::plan::{Job, LateSpec, Plan};
use nilometer_model::planner::plan_for;
use nilometer_model::time::{EventTime, Span};
use nilometer_model::watermark::{
    AllIdle, Clamped, FutureSkew, Percentile, ProgressRules, WatermarkSettings, WatermarkSpec,
};
use std::sync::Arc;

/// Ten years, in milliseconds.
pub(crate) const TEN_YEARS: i64 = 10 * 365 * 86_400_000;

/// What is run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) job: Job,
    pub(crate) plan: Arc<Plan>,
    pub(crate) shards: usize,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) watermarks: Vec<WatermarkSettings>,
    pub(crate) rules: ProgressRules,
    pub(crate) limits: Limits,
    /// Where the clock stands at first.
    pub(crate) now: i64,
    /// How far a tick goes, at most.
    pub(crate) tick: i64,
    /// Whether ticks may go back.
    pub(crate) clock_jumps: bool,
    /// Whether the machine sleeps now and then, for longer than it takes to be idle.
    pub(crate) sleeps: bool,
    /// One of how many choices falls on a tick.
    pub(crate) tick_in: usize,
    /// Whether sinks are slow, and shards.
    pub(crate) is_slow: (bool, bool),
    /// For so many steps of each process the sink of panes does nothing.
    pub(crate) hangs: usize,
    /// How its state is stored, if it is.
    pub(crate) stored: Option<Stored>,
}

/// How state is stored, and what becomes of processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// From one epoch to the next.
    pub(crate) interval: Span,
    /// Processes that do not come to their end, at most.
    pub(crate) endings: usize,
    /// One of how many steps ends a process, as long as there are endings left.
    pub(crate) ends_in: usize,
    /// Bytes of state that may lie in memory; the rest lies in pages.
    pub(crate) memory: Option<usize>,
    /// Whether each process may have another number of shards.
    pub(crate) shards_change: bool,
    /// Where processes like to die.
    pub(crate) favourite: Place,
    /// By sink: whether its output can be cut off.
    pub(crate) can_be_cut: [bool; 2],
    pub(crate) bounds: Bounds,
}

/// Bytes of state that may lie in memory: as much as there is, none, or the state of some keys.
pub(crate) const MEMORY: [Option<usize>; 4] = [None, Some(0), Some(2_000), Some(8_000)];

pub(crate) fn millis(millis: i64) -> Span {
    Span::from_millis(millis)
}

impl Options {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let engine = match dice.below(10) {
            0..7 => Engine::Streaming,
            7 => Engine::MicroBatch(Pace::Every(millis(dice.between(5, 40)))),
            8 => Engine::MicroBatch(Pace::Records(dice.between(1, 8) as u64)),
            _ => Engine::Batch,
        };
        let mut job = job(dice);
        // Read by every partition that is punctuated.
        job.extra_fields = vec![PUNCTUATION.into()];
        let stored = dice.below(3) > 0;
        let stored = stored.then(|| stored_as(dice));
        let plan = plan_for(&job, engine).unwrap_or_else(|errors| panic!("{errors:?}"));
        let base = match dice.below(12) {
            0 => i64::MIN + 50,
            1 => i64::MAX - 400,
            2..5 => 1_700_000_000_000,
            _ => 0,
        };
        // The clock knows nothing of the ends of event time.
        let now = base.clamp(-TEN_YEARS, 100 * TEN_YEARS);
        let (partitions, watermarks) = partitions(dice, &job, base, now);
        Self {
            plan: Arc::new(plan),
            shards: dice.between(1, 4) as usize,
            rules: rules(dice),
            limits: limits(dice),
            partitions,
            watermarks,
            now,
            tick: dice.pick(&[2, 10, 40]),
            clock_jumps: dice.one_in(4),
            sleeps: dice.one_in(6),
            tick_in: dice.pick(&[12, 40, 100]),
            is_slow: (dice.one_in(4), dice.one_in(6)),
            hangs: if dice.one_in(4) { dice.between(50, 1_500) as usize } else { 0 },
            stored,
            job,
        }
    }
}

fn job(dice: &mut Dice) -> Job {
    let mut job = match dice.below(3) {
        0 => return sequences::job(dice),
        1 => dice.draw(&jobs(Style::Any)),
        _ => dice.draw(&wide_jobs(Style::Any, Closing::Allowed)),
    };
    for grouping in &mut job.groupings {
        grouping.late = Some(LateSpec { sink: "late".into(), include_late: true });
    }
    job
}

fn stored_as(dice: &mut Dice) -> Stored {
    Stored {
        interval: millis(dice.pick(&[1, 2, 5, 20, 100])),
        endings: dice.pick(&[0, 1, 2, 3, 4, 6, 9]),
        ends_in: dice.pick(&[40, 100, 300, 1_000]),
        memory: dice.pick(&MEMORY),
        shards_change: dice.one_in(2),
        favourite: dice.pick(&Place::ALL),
        can_be_cut: [dice.one_in(2), dice.one_in(2)],
        bounds: Bounds {
            epoch_bytes_max: dice.pick(&[1, 500, 1 << 20]),
            unpublished_bytes_max: dice.pick(&[0, 30, 1 << 20]),
            block_bytes: dice.pick(&[1, 12, 1 << 20]),
        },
    }
}

fn rules(dice: &mut Dice) -> ProgressRules {
    ProgressRules {
        all_idle: if dice.one_in(3) { AllIdle::Advance(millis(20)) } else { AllIdle::Hold },
        max_drift: dice.one_in(3).then(|| millis(dice.pick(&[0, 5, 30]))),
        close_after: dice.one_in(4).then(|| millis(30)),
    }
}

fn limits(dice: &mut Dice) -> Limits {
    Limits {
        batch_records: dice.pick(&[1, 3, 8]),
        in_flight_records_max: dice.pick(&[1, 5, 1_000]),
        in_flight_bytes_max: dice.pick(&[1, 2_000, 1 << 20]),
        output_bytes_max: dice.pick(&[0, 500, 1 << 20]),
        slice_panes: dice.pick(&[1, 3, 4_096]),
    }
}

/// How a watermark is estimated; where it is hasty, more comes late.
fn watermark(dice: &mut Dice, is_hasty: bool) -> WatermarkSettings {
    // What comes late makes sequences worth a look.
    let patience: &[i64] = if is_hasty { &[0, 0, 5, 20] } else { &[0, 5, 20, 100] };
    let out_of_orderness = millis(dice.pick(patience));
    let spec = match dice.below(10) {
        0 => WatermarkSpec::EndOfInput,
        1 => WatermarkSpec::Ingestion,
        3 => WatermarkSpec::Punctuated,
        2 => {
            let percentile = Percentile::from_percent(80.0).unwrap();
            WatermarkSpec::Percentile { percentile, out_of_orderness }
        }
        _ => WatermarkSpec::Bounded { out_of_orderness },
    };
    WatermarkSettings {
        idle_after: dice.one_in(2).then(|| millis(dice.pick(&[5, 30]))),
        future_skew: match dice.below(4) {
            0 => FutureSkew::Clock(millis(50)),
            1 => FutureSkew::Others(millis(200)),
            _ => FutureSkew::Off,
        },
        clamped: if dice.one_in(2) { Clamped::Keep } else { Clamped::Reject },
        lateness_records: 8,
        ..WatermarkSettings::new(spec)
    }
}

/// Partitions around an event time, and how the watermark of each is estimated.
fn partitions(
    dice: &mut Dice,
    job: &Job,
    base: i64,
    now: i64,
) -> (Vec<Partition>, Vec<WatermarkSettings>) {
    let sequence = sequences::of(job);
    // As many keys as a sequence is given room for, or ten times as many.
    let keys = sequence.map(|_| dice.pick(&[1, 3, 3, 40]));
    let one = watermark(dice, sequence.is_some());
    let is_alike = dice.one_in(2);
    let mut watermarks = Vec::new();
    let mut partitions = Vec::new();
    let mut number = 0;
    for _ in 0..dice.between(1, 4) {
        watermarks.push(if is_alike { one } else { watermark(dice, sequence.is_some()) });
        let mut partition = partition(dice, keys, base, now);
        for entry in &mut partition.entries {
            entry.number = number;
            number += 1;
        }
        partitions.push(partition);
    }
    if sequence.is_some() {
        sequences::copy_some(dice, &mut partitions);
    }
    (partitions, watermarks)
}

fn partition(dice: &mut Dice, keys: Option<i64>, base: i64, now: i64) -> Partition {
    let mut entries = Vec::new();
    let (mut time, mut at) = (base.saturating_add(dice.between(0, 20)), now);
    let (pace, disorder) = (dice.pick(&[0, 3, 8]), dice.pick(&[0, 6, 40]));
    // One that never speaks has nothing.
    let count = if dice.one_in(6) { 0 } else { dice.between(1, 30) };
    let jumps_at = dice.one_in(6).then(|| dice.between(0, count));
    let late_at = dice.one_in(4).then(|| dice.between(0, count));
    let rests_at = dice.one_in(3).then(|| dice.between(0, count));
    for index in 0..count {
        time = time.saturating_add(dice.between(0, pace));
        if rests_at == Some(index) {
            at += dice.between(20, 200);
        }
        if dice.one_in(4) {
            at += dice.between(0, 10);
        }
        let mut seen = time.saturating_sub(dice.between(0, disorder));
        if jumps_at == Some(index) {
            seen = time.saturating_add(TEN_YEARS);
        }
        if late_at.is_some_and(|late_at| (late_at..late_at + 4).contains(&index)) {
            seen = time.saturating_sub(150);
        }
        let record = match keys {
            Some(keys) => {
                Record { time: EventTime::from_millis(seen), values: sequences::values(dice, keys) }
            }
            None => {
                let values = dice.draw(&values());
                record(seen, dice.between(-2, 30), values)
            }
        };
        entries.push(Entry { number: 0, at, record });
    }
    let patience = dice.pick(&[10, 10, 300]);
    let ends_at = at + dice.between(0, patience);
    Partition { entries, ends_at, read: 0 }
}
