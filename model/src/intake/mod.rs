//! How a stage takes its input: records split and copied into windows, deltas regrouped by a
//! coarser key.
//!
//! Both end in the same place, [`Takes::enter`]; nothing here keeps state between batches but room
//! for a key and for windows.

mod deltas;
mod part;

pub(crate) use deltas::{regroup, take_deltas, take_exchanged};
pub(crate) use part::{Covering, Part, add, count_cut, covering};

use crate::account::{DropReason, StageAccount};
use crate::aggregate::{AggregateLayout, Overflow, ValuesMut};
use crate::flow::phase_shift;
use crate::key::{KeyLayout, encode, stable_hash};
use crate::late::{Aside, LateReason};
use crate::plan::{RecordCopy, RecordInput, Stage};
use crate::row::{RowBatch, read};
use crate::symbol::Symbols;
use crate::time::{EventTime, Span, Watermark, Window};
use crate::value::Datum;
use crate::window::{Phase, WindowFn};
use part::instant;

/// Most windows side by side that one record may be split over; what lies before them is cut, and
/// counted. A week of minutes.
pub(crate) const SPLITS_MAX: usize = 10_080;

/// As [`SPLITS_MAX`], of windows that may overlap: all that hold one instant count as one.
pub(crate) fn splits_max(window: WindowFn) -> usize {
    let more = usize::try_from(window.overlap()).unwrap_or(usize::MAX).saturating_sub(1);
    SPLITS_MAX.saturating_add(more)
}

/// A copy of a record, or a delta, on its way into a window of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy<'a> {
    /// Hash of the key in the table that takes it.
    pub(crate) hash: u64,
    pub(crate) key: &'a [u64],
    pub(crate) window: Window,
    pub(crate) time: EventTime,
    /// Size of the record as it is held.
    pub(crate) bytes: u64,
}

/// Where a copy has gone.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The cell that takes it, where the table has cells.
    pub(crate) cell: u32,
    /// Whether the window's delta is known to be empty.
    pub(crate) is_empty: bool,
    /// Whether the window was complete.
    pub(crate) is_late: bool,
}

/// What became of a copy.
#[derive(Debug)]
pub(crate) enum Judged {
    /// It counts.
    Into(Entered),
    /// It was dropped, and counted so.
    Dropped(LateReason),
}

/// The key actors of a stage, as far as its input needs to know them.
pub(crate) trait Takes {
    /// Hash of a key in this table.
    fn hash(&self, key: &[u64]) -> u64;

    /// The stage's aggregates.
    fn aggregates(&self) -> &AggregateLayout;

    /// The stage's account.
    fn account(&mut self) -> &mut StageAccount;

    /// The stage's watermark.
    fn watermark(&self) -> Watermark;

    /// Judges a copy, counts what became of it, and finds its window.
    fn enter(&mut self, copy: Copy<'_>, symbols: &Symbols) -> Result<Judged, Overflow>;

    /// The accumulators of the window that took the last copy.
    fn delta(&mut self, entered: &Entered) -> (&AggregateLayout, ValuesMut<'_>);
}

/// What the windows and keys of a stage are.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) window: WindowFn,
    pub(crate) key: KeyLayout,
    /// Room for a key.
    pub(crate) scratch: Vec<u64>,
    /// Room for the windows of a record.
    windows: Vec<Window>,
    /// The window that held all of the record before, or the delta, and the shift that it was found
    /// with: mostly the next one's, too. Only of windows that lie side by side.
    recent: (Window, i64),
}

impl Shape {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self::of(stage.window, stage.key.clone())
    }

    fn of(window: WindowFn, key: KeyLayout) -> Self {
        Self {
            window,
            scratch: vec![0; key.words()],
            key,
            windows: Vec::new(),
            // Holds nothing.
            recent: (Window::new(EventTime::MIN, EventTime::MIN), 0),
        }
    }

    /// The latest window that holds `time`, without a shift.
    pub(crate) fn window_at(&mut self, time: EventTime) -> Window {
        let (recent, shift) = self.recent;
        if shift == 0 && recent.start() <= time && time < recent.end() {
            return recent;
        }
        let window = self.window.assign(time, 0);
        self.remember(window, 0);
        window
    }

    fn remember(&mut self, window: Window, shift: i64) {
        match self.window {
            WindowFn::Fixed { .. } | WindowFn::Calendar(_) => self.recent = (window, shift),
            WindowFn::Global
            | WindowFn::Sliding { .. }
            | WindowFn::Session { .. }
            | WindowFn::Custom(_) => {}
        }
    }

    /// Fills `self.windows` with the windows of a record, latest first; returns where counting
    /// begins.
    fn assign(&mut self, input: &RecordInput, record: &Covering<'_>, shift: i64) -> EventTime {
        let (recent, recent_shift) = self.recent;
        let first = record.extent.first();
        let holds = |time| recent.start() <= time && time < recent.end();
        self.windows.clear();
        if shift == recent_shift && first == record.from && holds(first) && holds(record.last()) {
            self.windows.push(recent);
            return first;
        }
        let from = assign(self.window, (input, record), shift, &mut self.windows);
        if let [only] = self.windows.as_slice() {
            self.remember(*only, shift);
        }
        from
    }
}

/// Takes a batch of records.
pub(crate) fn take_records<T: Takes>(
    table: &mut T,
    shape: &mut Shape,
    input: &RecordInput,
    (batch, symbols): (&RowBatch, &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let mut key = std::mem::take(&mut shape.scratch);
    for index in 0..batch.len() {
        let row = batch.row(index);
        let record = covering((batch, index), input);
        for copy in &input.copies {
            copy.key.pack(row, &mut key);
            take_copy(table, shape, (input, copy), (&record, &key, symbols), aside)?;
        }
    }
    shape.scratch = key;
    Ok(())
}

fn take_copy<T: Takes>(
    table: &mut T,
    shape: &mut Shape,
    (input, copy): (&RecordInput, &RecordCopy),
    (record, key, symbols): (&Covering<'_>, &[u64], &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let shift = match shape.window {
        WindowFn::Fixed { size, phase: Phase::ByKey, .. } => {
            let number = phase(record.row, key, (input, &shape.key), symbols);
            phase_shift(number, size.as_millis())
        }
        WindowFn::Global
        | WindowFn::Fixed { phase: Phase::Aligned, .. }
        | WindowFn::Sliding { .. }
        | WindowFn::Session { .. }
        | WindowFn::Calendar(_)
        | WindowFn::Custom(_) => 0,
    };
    let from = match shape.window {
        WindowFn::Custom(custom) => {
            let values = input.window.iter().map(|slot| read(record.row, *slot).value(symbols));
            shape.windows.clear();
            custom.0.assign(record.time, &values.collect::<Vec<_>>(), &mut shape.windows);
            record.from
        }
        WindowFn::Global
        | WindowFn::Fixed { .. }
        | WindowFn::Sliding { .. }
        | WindowFn::Session { .. }
        | WindowFn::Calendar(_) => shape.assign(input, record, shift),
    };
    let windows = std::mem::take(&mut shape.windows);
    if record.extent.first() < from {
        count_cut(table, (input, copy), record, from);
    }
    if windows.is_empty() {
        table.account().no_window += 1;
        aside.drop(DropReason::NoWindow, key);
    }
    let (hash, bytes) = (table.hash(key), record.row.len() as u64 * 8);
    for window in &windows {
        let taken = Taken { record, key, hash, bytes, from };
        take_window(table, *window, (input, copy), (&taken, symbols), aside)?;
    }
    shape.windows = windows;
    Ok(())
}

/// A copy of a record under one of its keys.
pub(crate) struct Taken<'a> {
    pub(crate) record: &'a Covering<'a>,
    pub(crate) key: &'a [u64],
    /// Hash of the key in the table that takes it.
    pub(crate) hash: u64,
    /// Size of the record as it is held.
    pub(crate) bytes: u64,
    /// Where counting begins.
    pub(crate) from: EventTime,
}

/// Takes a copy into one of its windows.
pub(crate) fn take_window<T: Takes>(
    table: &mut T,
    window: Window,
    (input, copy): (&RecordInput, &RecordCopy),
    (taken, symbols): (&Taken<'_>, &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let Taken { record, key, hash, bytes, from } = *taken;
    let incoming = Copy { hash, key, window, time: record.time, bytes };
    let entered = match table.enter(incoming, symbols)? {
        Judged::Into(entered) => entered,
        Judged::Dropped(reason) => {
            aside.list((reason, table.watermark()), (key, window), record.source);
            aside.drop_late(reason, key);
            return Ok(());
        }
    };
    if entered.is_late {
        let judged = (LateReason::Late, table.watermark());
        aside.list(judged, (key, window), record.source);
    }
    let part = Part::new(window, record, from);
    add(table.delta(&entered), (input, copy), (record, &part), symbols)
}

/// Appends the windows of a record, latest first; returns where counting begins.
fn assign(
    window: WindowFn,
    (input, record): (&RecordInput, &Covering<'_>),
    shift: i64,
    windows: &mut Vec<Window>,
) -> EventTime {
    if let (WindowFn::Session { .. }, Some(gap)) = (window, input.gap) {
        let gap = instant(record.row, gap).filter(|gap| gap.as_millis() >= 1);
        let gap = gap.map(|gap| Span::from_millis(gap.as_millis()));
        let proto = gap.map(|gap| window.proto_session(record.time, gap));
        windows.push(proto.unwrap_or_else(|| window.assign(record.time, shift)));
        return record.from;
    }
    if !record.is_spread {
        window.assign_all(record.time, shift, windows);
        return record.from;
    }
    // Back from the latest window, as long as they touch what is counted.
    let mut touched = window.assign(record.extent.last(), shift);
    // A window without an end holds the end of time, too.
    let holds = |window: Window| window.end() > record.from || window.contains(record.from);
    let most = splits_max(window);
    while holds(touched) && windows.len() < most {
        windows.push(touched);
        let Some(before) = window.before(touched, shift) else { return record.from };
        touched = before;
    }
    if holds(touched) { touched.end() } else { record.from }
}

/// The number that shifts the windows of a key.
pub(crate) fn phase(
    row: &[u64],
    key: &[u64],
    (input, layout): (&RecordInput, &KeyLayout),
    symbols: &Symbols,
) -> u32 {
    if let Some(slot) = input.phase {
        return match read(row, slot) {
            Datum::Int(number) => number as u32,
            Datum::Null
            | Datum::Bool(_)
            | Datum::Float(_)
            | Datum::Text(_)
            | Datum::Object(_)
            | Datum::Ip(_) => 0,
        };
    }
    let mut encoded = Vec::new();
    encode(&layout.values(key, symbols), &mut encoded);
    stable_hash(&encoded) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::{Calendar, CalendarUnit, Zone};

    /// Instants in and out of order, some of them in the window before, at both ends of it and of
    /// time.
    #[test]
    fn the_window_of_an_instant_is_the_same_whatever_came_before() {
        let zone = Zone::named("Europe/Athens").unwrap();
        let calendar = |unit| WindowFn::Calendar(Calendar { unit, zone });
        let size = Span::from_millis(60_000);
        for window in [
            WindowFn::Global,
            WindowFn::Fixed { size, offset: 7, phase: Phase::Aligned },
            calendar(CalendarUnit::Day),
            calendar(CalendarUnit::Month),
        ] {
            let mut shape = Shape::of(window, KeyLayout::new([]));
            let mut times = vec![i64::MIN, i64::MAX, i64::MAX - 1, i64::MAX, i64::MIN, 0, -1, 0];
            // The clocks of Athens go forward, and back.
            for instant in [1_711_846_800_000, 1_729_990_800_000, 1_700_000_000_000] {
                let bounds = window.assign(EventTime::from_millis(instant), 0);
                let (start, end) = (bounds.start().as_millis(), bounds.end().as_millis());
                for time in [instant, start, end, start, end, instant] {
                    times.extend([time.saturating_sub(1), time, time.saturating_add(1)]);
                }
            }
            for time in times.into_iter().map(EventTime::from_millis) {
                assert_eq!(shape.window_at(time), window.assign(time, 0), "{window:?} at {time}");
            }
        }
    }
}
