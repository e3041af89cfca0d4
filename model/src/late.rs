//! Copies that came late or too late, with the records that they were made of: what an output of
//! their own is told.
//!
//! Only stages whose groups ask for it list them; all others pay nothing. A batch is compact: a
//! record stands in it once, and copies of it whose windows follow one another at one distance are
//! one run, so that even a record that is split over thousands of windows takes a line.

use crate::account::{DropReason, Dropped};
use crate::pane::StageId;
use crate::plan::Stage;
use crate::row::{Position, RowBatch, RowLayout};
use crate::time::{EventTime, Span, Watermark, Window};
use std::sync::Arc;

/// What became of a copy that came late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LateReason {
    /// Its window was complete; it still counted.
    Late,
    /// The state of its window was gone: it was dropped.
    Expired,
    /// The trigger of its window had finished: it was dropped.
    Closed,
    /// It would have merged windows into one that has expired: it was dropped.
    Refused,
    /// There was no room for it: it was dropped.
    Overflow,
}

impl LateReason {
    /// The name in output: `late`, `expired`, `closed`, `refused` or `overflow`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::Overflow => "overflow",
        }
    }
}

/// One copy of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateCopy<'a> {
    /// What became of it.
    pub reason: LateReason,
    /// Its packed key, in the stage's key layout.
    pub key: &'a [u64],
    /// The window that it fell in; of a session, the one that its record makes by itself.
    pub window: Window,
    /// Event time of its record.
    pub time: EventTime,
    /// Where the record stands in its input.
    pub position: Position,
    /// The record: a row of the plan's layout.
    pub row: &'a [u64],
}

/// Copies of one record and key, for one reason, in windows that are `step` apart.
#[derive(Debug, Clone, Copy)]
struct Run {
    reason: LateReason,
    /// Number of the record in the batch.
    record: u32,
    /// Number of the key in the batch.
    key: u32,
    /// The first window.
    window: Window,
    /// From the start of one window to the start of the next, ms; any sign.
    step: i64,
    count: u32,
}

impl Run {
    fn window(&self, number: u32) -> Window {
        let by = self.step.saturating_mul(i64::from(number));
        let shifted = |time: EventTime| match by {
            0.. => time.saturating_add(Span::from_millis(by)),
            _ => time.saturating_sub(Span::from_millis(by.saturating_neg())),
        };
        Window::new(shifted(self.window.start()), shifted(self.window.end()))
    }

    /// Takes a copy in, if its window is the next one.
    fn take(&mut self, next: Window) -> bool {
        let mut longer = Self { count: self.count.saturating_add(1), ..*self };
        if self.count == 1 {
            let apart = next.start().as_millis().checked_sub(self.window.start().as_millis());
            let Some(apart) = apart else { return false };
            longer.step = apart;
        }
        let fits = longer.count > self.count && longer.window(self.count) == next;
        if fits {
            *self = longer;
        }
        fits
    }
}

/// Copies of one stage that one watermark has judged, in the order in which they came.
#[derive(Debug, Clone)]
pub struct LateBatch {
    /// The stage.
    pub stage: StageId,
    /// The stage's watermark when they came.
    pub watermark: Watermark,
    records: RowBatch,
    /// Packed keys, one after the other.
    keys: Vec<u64>,
    key_words: usize,
    runs: Vec<Run>,
    /// Number, in the input, of the record that stands last.
    last: Option<usize>,
}

impl LateBatch {
    /// No copies of `stage`, whose keys have `key_words` words; `layout` is that of records.
    pub fn new(
        stage: StageId,
        watermark: Watermark,
        key_words: usize,
        layout: Arc<RowLayout>,
    ) -> Self {
        let records = RowBatch::new(layout);
        let (keys, runs) = (Vec::new(), Vec::new());
        Self { stage, watermark, records, keys, key_words, runs, last: None }
    }

    /// Appends a copy of record `index` of `batch`; copies come in the order of their records.
    pub fn push(
        &mut self,
        reason: LateReason,
        (key, window): (&[u64], Window),
        (batch, index): (&RowBatch, usize),
    ) {
        let is_same_record = self.last == Some(index);
        if !is_same_record {
            let (time, position) = (batch.time(index), batch.position(index));
            self.records.push_row(batch.row(index), time, position);
            self.last = Some(index);
        }
        let is_same_key = self.keys.ends_with(key) && !self.runs.is_empty();
        if let Some(run) = self.runs.last_mut()
            && (is_same_record && is_same_key && run.reason == reason)
            && run.take(window)
        {
            return;
        }
        if !is_same_key {
            self.keys.extend_from_slice(key);
        }
        let number = |count: usize| u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
        self.runs.push(Run {
            reason,
            record: number(self.records.len()),
            key: number(self.keys.len().checked_div(self.key_words).unwrap_or(1)),
            window,
            step: 0,
            count: 1,
        });
    }

    /// Number of copies.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.records.bytes() + self.keys.len() * 8 + self.runs.len() * size_of::<Run>()
    }

    /// The layout of the records.
    pub fn layout(&self) -> &Arc<RowLayout> {
        self.records.layout()
    }

    /// The batch without copies that still counted.
    pub fn dropped_only(self: &Arc<Self>) -> Arc<Self> {
        let is_dropped = |run: &Run| run.reason != LateReason::Late;
        if self.runs.iter().all(is_dropped) {
            return self.clone();
        }
        let mut batch = Self::clone(self);
        batch.runs.retain(is_dropped);
        Arc::new(batch)
    }

    /// The copies, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = LateCopy<'_>> {
        self.runs.iter().flat_map(move |run| {
            let (record, key) = (run.record as usize, run.key as usize);
            let key = self.keys.get(key * self.key_words..(key + 1) * self.key_words);
            (0..run.count).map(move |number| LateCopy {
                reason: run.reason,
                key: key.unwrap_or_default(),
                window: run.window(number),
                time: self.records.time(record),
                position: self.records.position(record),
                row: self.records.row(record),
            })
        })
    }
}

/// What a stage sets aside in a round beside deltas and panes.
#[derive(Debug)]
pub(crate) struct Aside {
    stage: StageId,
    key_words: usize,
    /// Whether drops are traced.
    pub(crate) traces_drops: bool,
    /// Whether somebody asks for copies that were dropped.
    lists_dropped: bool,
    /// Whether somebody asks for those that came late and counted.
    lists_late: bool,
    /// Drops, if they are traced. Cleared at the end of the round.
    pub(crate) dropped: Vec<Dropped>,
    /// What was asked for. Cleared at the end of the round.
    pub(crate) late: Option<LateBatch>,
}

impl Aside {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            stage: stage.id,
            key_words: stage.key.words(),
            traces_drops: false,
            lists_dropped: !stage.late.is_empty(),
            lists_late: stage.late.iter().any(|late| late.include_late),
            dropped: Vec::new(),
            late: None,
        }
    }

    /// Whether anybody asks what was dropped, beyond its number.
    pub(crate) const fn notices_drops(&self) -> bool {
        self.traces_drops || self.lists_dropped
    }

    /// Takes notice of a copy, or a delta, that was dropped.
    pub(crate) fn drop(&mut self, reason: DropReason, key: &[u64]) {
        if self.traces_drops {
            self.dropped.push(Dropped { reason, stage: self.stage, key: key.into() });
        }
    }

    /// As [`Aside::drop`], of one that came too late.
    pub(crate) fn drop_late(&mut self, reason: LateReason, key: &[u64]) {
        match reason {
            LateReason::Expired => self.drop(DropReason::Expired, key),
            LateReason::Closed => self.drop(DropReason::Closed, key),
            LateReason::Refused => self.drop(DropReason::Refused, key),
            LateReason::Overflow => self.drop(DropReason::Overflow, key),
            LateReason::Late => {}
        }
    }

    /// Takes notice of a copy of a record that came late, judged by `watermark`.
    pub(crate) fn list(
        &mut self,
        (reason, watermark): (LateReason, Watermark),
        copy: (&[u64], Window),
        (batch, index): (&RowBatch, usize),
    ) {
        let is_wanted = match reason {
            LateReason::Late => self.lists_late,
            LateReason::Expired
            | LateReason::Closed
            | LateReason::Refused
            | LateReason::Overflow => self.lists_dropped,
        };
        if is_wanted {
            let (stage, key_words) = (self.stage, self.key_words);
            let late = self.late.get_or_insert_with(|| {
                LateBatch::new(stage, watermark, key_words, batch.layout().clone())
            });
            late.push(reason, copy, (batch, index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pane::AccumulationMode;
    use crate::plan::LateSpec;
    use crate::row::{Field, read};
    use crate::shard::Output;
    use crate::shard_tests::{Run as Scene, grouping};
    use crate::trigger::Trigger;
    use crate::value::{Datum, Type};

    fn records(count: i64) -> RowBatch {
        let layout = Arc::new(RowLayout::new([Field::new("v", Type::I64)]));
        let mut batch = RowBatch::new(layout.clone());
        for number in 0..count {
            let position = Position { partition: 3, offset: 100 + number as u64 };
            let mut row = batch.push(EventTime::from_millis(number), position);
            row.set(layout.slot("v").unwrap(), Datum::Int(number.into()));
        }
        batch
    }

    fn window(start: i64, end: i64) -> Window {
        Window::new(EventTime::from_millis(start), EventTime::from_millis(end))
    }

    #[test]
    fn what_is_pushed_comes_out_in_order() {
        use LateReason::{Closed, Expired, Late};
        let input = records(4);
        let copies = [
            (Expired, [7_u64, 0], window(40, 50), 1),
            (Expired, [7, 0], window(30, 40), 1),
            (Expired, [7, 0], window(20, 30), 1),
            // Another distance, another length, another reason, another key, another record.
            (Expired, [7, 0], window(0, 10), 1),
            (Expired, [7, 0], window(-10, 5), 1),
            (Late, [7, 0], window(-25, -10), 1),
            (Late, [8, 0], window(-40, -25), 1),
            (Late, [8, 0], window(-40, -25), 3),
            (Closed, [8, 0], window(i64::MIN, i64::MAX), 3),
            (Closed, [8, 0], window(i64::MIN, i64::MAX), 3),
        ];
        let mut batch = LateBatch::new(StageId(2), Watermark::MIN, 2, input.layout().clone());
        for (reason, key, window, index) in &copies {
            batch.push(*reason, (key, *window), (&input, *index));
        }
        let read: Vec<_> = batch.iter().collect();
        let expected: Vec<_> = copies
            .iter()
            .map(|(reason, key, window, index)| LateCopy {
                reason: *reason,
                key,
                window: *window,
                time: input.time(*index),
                position: input.position(*index),
                row: input.row(*index),
            })
            .collect();
        assert_eq!(read, expected);
        assert_eq!(batch.len(), 10);
        let dropped = Arc::new(batch).dropped_only();
        assert_eq!(dropped.len(), 7);
        assert!(dropped.iter().all(|copy| copy.reason != Late));
        assert!(Arc::ptr_eq(&dropped, &dropped.dropped_only()));
    }

    #[test]
    fn a_record_split_over_thousands_of_windows_takes_a_line() {
        let input = records(2);
        let mut batch = LateBatch::new(StageId(0), Watermark::MIN, 0, input.layout().clone());
        for index in 0..2 {
            for number in 0..10_000 {
                let windows = window(-60_000 * number, 60_000 - 60_000 * number);
                batch.push(LateReason::Expired, (&[], windows), (&input, index));
            }
        }
        assert_eq!(batch.len(), 20_000);
        assert!(batch.bytes() < 300, "{}", batch.bytes());
        let last = batch.iter().last().unwrap();
        assert_eq!(last.window, window(-60_000 * 9_999, -60_000 * 9_998));
        assert_eq!(last.position.offset, 101);
    }

    /// What a batch of records makes a shard list: reason, stage, first key word, window,
    /// watermark, offset and value.
    fn listed(scene: &mut Scene, records: &[(i64, [u32; 3], i64)]) -> Vec<String> {
        let batch = scene.batch(records);
        let mut out = Output::default();
        scene.shard.records(&batch, &mut out).unwrap();
        let mut lines = Vec::new();
        for late in &out.late {
            let stage = &scene.plan.stages[late.stage.index()];
            let value = scene.plan.row.slot("v").unwrap();
            lines.extend(late.iter().map(|copy| {
                let Datum::Int(key) = stage.key.read(copy.key, 0) else { panic!() };
                let Datum::Int(value) = read(copy.row, value) else { panic!() };
                let watermark = late.watermark.0.as_millis();
                let (reason, window) = (copy.reason.name(), copy.window);
                let offset = copy.position.offset;
                format!("{reason} {} {key} {window} W{watermark} @{offset} {value}", stage.name)
            }));
        }
        lines
    }

    #[test]
    fn a_stage_lists_what_its_group_and_those_above_it_ask_for() {
        let ask = |include_late| Some(LateSpec { sink: "late".into(), include_late });
        for (fine_asks, top_asks, expected) in [
            (None, None, &[][..]),
            (ask(false), None, &["expired fine 3 [0,10) W115 @1 30"]),
            // What the stage below drops is missing above: it is listed there.
            (None, ask(false), &["expired fine 3 [0,10) W115 @1 30"]),
            (
                ask(false),
                ask(true),
                &["late fine 4 [10,20) W115 @0 40", "expired fine 3 [0,10) W115 @1 30"],
            ),
        ] {
            let mut fine = grouping("fine", &["a", "b"], AccumulationMode::Discarding);
            let mut top = grouping("top", &["a"], AccumulationMode::Discarding);
            (fine.late, top.late) = (fine_asks, top_asks);
            let mut scene = Scene::new(vec![top, fine]);
            assert_eq!(scene.plan.record_reads(), 1);
            scene.watermark(115);
            let records = [(12, [4, 0, 0], 40), (9, [3, 0, 0], 30), (120, [1, 0, 0], 1)];
            assert_eq!(listed(&mut scene, &records), expected);
        }
    }

    #[test]
    fn copies_of_closed_windows_are_listed_as_such() {
        let mut sums = grouping("s", &["a"], AccumulationMode::Discarding);
        sums.trigger = Trigger::AfterCount(1);
        sums.allow_closing = true;
        sums.late = Some(LateSpec { sink: "late".into(), include_late: false });
        let mut scene = Scene::new(vec![sums]);
        assert_eq!(listed(&mut scene, &[(1, [7, 0, 0], 1)]), Vec::<String>::new());
        assert_eq!(
            listed(&mut scene, &[(2, [8, 0, 0], 2), (3, [7, 0, 0], 3)]),
            [format!("closed s 7 [0,10) W{} @1 3", i64::MIN)]
        );
    }
}
