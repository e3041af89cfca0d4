//! How a stage takes its input: records split and copied into windows, deltas regrouped by a
//! coarser key.
//!
//! Both end in the same place, [`Takes::enter`]; nothing here keeps state between batches but room
//! for a key and for windows.
#![expect(clippy::indexing_slicing, reason = "batches and their rows have the sizes of the plan")]

use crate::account::{DropReason, StageAccount};
use crate::aggregate::{AggregateLayout, Overflow, Step, ValuesMut, ValuesRef};
use crate::flow::{Extent, phase_shift, share};
use crate::key::{KeyLayout, encode, stable_hash};
use crate::late::{Aside, LateReason};
use crate::pane::Deltas;
use crate::plan::{PaneCopy, PaneInput, RecordCopy, RecordInput, Stage};
use crate::row::{RowBatch, Slot, is_null, read, wide};
use crate::symbol::Symbols;
use crate::time::{EventTime, Span, Watermark, Window};
use crate::value::{Datum, Type};
use crate::window::{Phase, WindowFn};

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
    /// The window that held all of the record before, and the shift that it was found with: mostly
    /// the next record's, too.
    recent: (Window, i64),
}

impl Shape {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            window: stage.window,
            scratch: vec![0; stage.key.words()],
            key: stage.key.clone(),
            windows: Vec::new(),
            // Holds nothing.
            recent: (Window::new(EventTime::MIN, EventTime::MIN), 0),
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
        if let (WindowFn::Fixed { .. }, [only]) = (self.window, self.windows.as_slice()) {
            self.recent = (*only, shift);
        }
        from
    }
}

/// One record on its way into windows.
#[derive(Clone, Copy)]
pub(crate) struct Covering<'a> {
    /// Where it stands.
    pub(crate) source: (&'a RowBatch, usize),
    pub(crate) row: &'a [u64],
    time: EventTime,
    /// What it covers; one instant where records do not cover intervals.
    pub(crate) extent: Extent,
    /// Where counting begins: later than the extent's first instant where the old part is cut.
    pub(crate) from: EventTime,
    pub(crate) is_spread: bool,
}

impl Covering<'_> {
    pub(crate) fn last(&self) -> EventTime {
        self.extent.last()
    }

    /// Whether the record, of which nothing is cut, lies in `window` with all of its extent.
    fn is_whole_in(&self, window: Window) -> bool {
        self.from == self.extent.first()
            && window.start() <= self.from
            && window.contains(self.extent.last())
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

pub(crate) fn covering<'a>(source: (&'a RowBatch, usize), input: &RecordInput) -> Covering<'a> {
    let (batch, index) = source;
    let (row, time) = (batch.row(index), batch.time(index));
    let Some(spread) = input.spread else {
        let extent = Extent::new(time, time);
        return Covering { source, row, time, extent, from: time, is_spread: false };
    };
    let last = instant(row, spread.last).unwrap_or(time);
    let extent = Extent::new(instant(row, spread.first).unwrap_or(last), last);
    let from = match spread.max_duration {
        Some(longest) => {
            let oldest = last.saturating_sub(longest).saturating_add(Span::from_millis(1));
            extent.first().max(oldest.min(last))
        }
        None => extent.first(),
    };
    Covering { source, row, time, extent, from, is_spread: true }
}

/// The instant in a slot; whole numbers beyond the type are cut to it.
fn instant(row: &[u64], slot: Slot) -> Option<EventTime> {
    match read(row, slot) {
        Datum::Int(millis) => {
            let millis = millis.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
            i64::try_from(millis).ok().map(EventTime::from_millis)
        }
        Datum::Null
        | Datum::Bool(_)
        | Datum::Float(_)
        | Datum::Text(_)
        | Datum::Object(_)
        | Datum::Ip(_) => None,
    }
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

/// The part of a record in one window.
pub(crate) struct Part {
    window: Window,
    from: EventTime,
    /// Whether the record's last instant lies in the window.
    is_home: bool,
    /// Whether all of the record does.
    is_whole: bool,
}

impl Part {
    /// The part of `record` in `window`, counted from `from` on.
    pub(crate) fn new(window: Window, record: &Covering<'_>, from: EventTime) -> Self {
        let (is_home, is_whole) = (window.contains(record.last()), record.is_whole_in(window));
        Self { window, from, is_home, is_whole }
    }

    /// This part of `amount`, by the extent of the record.
    fn of(&self, extent: Extent, amount: i128) -> i128 {
        if self.is_whole {
            return amount;
        }
        let counted = Window::new(self.window.start().max(self.from), self.window.end());
        signed_share(extent, amount, counted)
    }
}

fn signed_share(extent: Extent, amount: i128, window: Window) -> i128 {
    let part = share(extent, amount.unsigned_abs(), window);
    let part = i128::try_from(part).unwrap_or(i128::MAX);
    if amount < 0 { -part } else { part }
}

pub(crate) fn add(
    (aggregates, mut values): (&AggregateLayout, ValuesMut<'_>),
    (input, copy): (&RecordInput, &RecordCopy),
    (record, part): (&Covering<'_>, &Part),
    symbols: &Symbols,
) -> Result<(), Overflow> {
    // What is not split is counted once, where the record ends.
    let is_counted = !record.is_spread || part.is_home;
    for (index, accumulator) in aggregates.accumulators().iter().enumerate() {
        let words = &mut *values.words;
        let Some(slot) = copy.inputs[index] else {
            if is_counted {
                AggregateLayout::count_one(words, accumulator);
            }
            continue;
        };
        if is_null(record.row, slot.index) {
            continue;
        }
        let is_split = record.is_spread && input.is_spread[index];
        match (accumulator.step(), whole(record.row, slot)) {
            (Step::Whole, Some(amount)) if is_split => {
                let amount = part.of(record.extent, amount);
                AggregateLayout::add_whole(words, accumulator, amount)?;
            }
            (Step::Whole, Some(amount)) if is_counted => {
                AggregateLayout::add_whole(words, accumulator, amount)?;
            }
            (Step::Count, _) if is_split || is_counted => {
                AggregateLayout::count_one(words, accumulator);
            }
            (Step::Whole | Step::Count, _) => {}
            (Step::Largest | Step::Smallest, _) => {
                let word = record.row[usize::from(slot.word)];
                AggregateLayout::keep_narrow(words, accumulator, word);
            }
            (Step::Other | Step::Side, amount) => {
                if accumulator.function.counts_once() && !is_split && !is_counted {
                    continue;
                }
                let datum = match amount {
                    Some(amount) if is_split => Datum::Int(part.of(record.extent, amount)),
                    Some(_) | None => read(record.row, slot),
                };
                aggregates.add(values.reborrow(), index, (datum, record.time), symbols)?;
            }
        }
    }
    Ok(())
}

/// The whole number in a slot that holds one.
fn whole(row: &[u64], slot: Slot) -> Option<i128> {
    let word = usize::from(slot.word);
    match slot.ty {
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Some(i128::from(row[word])),
        Type::I64 => Some(i128::from(row[word] as i64)),
        Type::Big => Some(wide(row[word], row[word + 1]) as i128),
        Type::Bool | Type::F64 | Type::Text | Type::Ip | Type::Object => None,
    }
}

/// Counts what of a record lies before `from`.
pub(crate) fn count_cut<T: Takes>(
    table: &mut T,
    (input, copy): (&RecordInput, &RecordCopy),
    record: &Covering<'_>,
    from: EventTime,
) {
    let account = table.account();
    account.cut_records += 1;
    let before = Window::new(EventTime::MIN, from);
    for (index, slot) in copy.inputs.iter().enumerate() {
        let (Some(slot), true) = (slot, input.is_spread[index]) else { continue };
        if let Datum::Int(amount) = read(record.row, *slot) {
            let part = signed_share(record.extent, amount, before);
            let cut = &mut account.cut[index];
            *cut = cut.saturating_add(part);
        }
    }
}

/// Takes deltas of the parent stage, whose key and aggregates are `parent`'s.
pub(crate) fn take_deltas<T: Takes>(
    table: &mut T,
    shape: &mut Shape,
    input: &PaneInput,
    (deltas, parent, symbols): (&Deltas, (&KeyLayout, &AggregateLayout), &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let (parent_key, parent_values) = parent;
    for (source, window, values) in deltas.iter(parent_key.words(), parent_values.words()) {
        let time = window.last_instant();
        let window =
            if input.same_window { window } else { shape.window.assign(window.start(), 0) };
        for copy in &input.copies {
            copy.key.pack(source, &mut shape.scratch);
            let key = shape.scratch.as_slice();
            let bytes = values.bytes() as u64;
            let incoming = Copy { hash: table.hash(key), key, window, time, bytes };
            let Some(entered) = enter(table, incoming, symbols, aside)? else { continue };
            let (aggregates, delta) = table.delta(&entered);
            regroup(aggregates, (delta, entered.is_empty), copy, (parent_values, values), symbols)?;
        }
    }
    Ok(())
}

/// Merges a parent's accumulators into `delta`, which may be known to be empty.
pub(crate) fn regroup(
    aggregates: &AggregateLayout,
    (mut delta, is_empty): (ValuesMut<'_>, bool),
    copy: &PaneCopy,
    (parent, values): (&AggregateLayout, ValuesRef<'_>),
    symbols: &Symbols,
) -> Result<(), Overflow> {
    if copy.is_plain {
        if is_empty {
            delta.words.copy_from_slice(values.words);
            delta.sides.clone_from_slice(values.sides);
            return Ok(());
        }
        return aggregates.merge_all(delta, values, symbols);
    }
    for (to, from) in copy.from.iter().enumerate() {
        aggregates.merge((delta.reborrow(), to), parent, (values, *from), symbols)?;
    }
    Ok(())
}

/// Takes deltas that are already in the stage's own key and aggregates: what an exchange brings.
pub(crate) fn take_exchanged<T: Takes>(
    table: &mut T,
    deltas: &Deltas,
    (key_words, symbols): (usize, &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let value_words = table.aggregates().words();
    for (key, window, values) in deltas.iter(key_words, value_words) {
        let (time, bytes) = (window.last_instant(), values.bytes() as u64);
        let incoming = Copy { hash: table.hash(key), key, window, time, bytes };
        let Some(entered) = enter(table, incoming, symbols, aside)? else { continue };
        let (aggregates, delta) = table.delta(&entered);
        aggregates.merge_all(delta, values, symbols)?;
    }
    Ok(())
}

/// Judges a delta. It carries no record that could be listed.
fn enter<T: Takes>(
    table: &mut T,
    delta: Copy<'_>,
    symbols: &Symbols,
    aside: &mut Aside,
) -> Result<Option<Entered>, Overflow> {
    match table.enter(delta, symbols)? {
        Judged::Into(entered) => Ok(Some(entered)),
        Judged::Dropped(reason) => {
            aside.drop_late(reason, delta.key);
            Ok(None)
        }
    }
}
