//! How a stage takes its input: records split and copied into windows, deltas regrouped by a
//! coarser key.
//!
//! Both end in the same place, [`KeyTable::enter`]; nothing here keeps state between batches but
//! room for a key.
#![expect(clippy::indexing_slicing, reason = "batches and their rows have the sizes of the plan")]

use crate::account::Dropped;
use crate::aggregate::{AggregateLayout, Function, Overflow};
use crate::flow::{Extent, phase_shift, share};
use crate::key::{KeyLayout, encode, stable_hash};
use crate::pane::Deltas;
use crate::plan::{PaneCopy, PaneInput, RecordCopy, RecordInput};
use crate::row::{RowBatch, Slot, read};
use crate::symbol::Symbols;
use crate::table::KeyTable;
use crate::time::{EventTime, Span, Window};
use crate::value::Datum;
use crate::window::WindowFn;

/// Most windows that one record may be split over; what lies before them is cut, and counted. A
/// week of minutes.
pub(crate) const SPLITS_MAX: usize = 10_080;

/// What the windows and keys of a stage are.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) window: WindowFn,
    pub(crate) key: KeyLayout,
    /// Room for a key.
    scratch: Vec<u64>,
}

impl Shape {
    pub(crate) fn new(window: WindowFn, key: KeyLayout) -> Self {
        let scratch = vec![0; key.words()];
        Self { window, key, scratch }
    }

    fn size(&self) -> Span {
        match self.window {
            WindowFn::Global => Span::ZERO,
            WindowFn::Fixed { size, .. } => size,
        }
    }
}

/// One record on its way into windows.
#[derive(Clone, Copy)]
struct Covering<'a> {
    row: &'a [u64],
    time: EventTime,
    /// What it covers; one instant where records do not cover intervals.
    extent: Extent,
    /// Where counting begins: later than the extent's first instant where the old part is cut.
    from: EventTime,
    is_spread: bool,
}

/// Takes a batch of records.
pub(crate) fn take_records(
    table: &mut KeyTable,
    shape: &mut Shape,
    input: &RecordInput,
    (batch, symbols): (&RowBatch, &Symbols),
    dropped: &mut Vec<Dropped>,
) -> Result<(), Overflow> {
    for index in 0..batch.len() {
        let row = batch.row(index);
        let record = covering(row, batch.time(index), input);
        for copy in &input.copies {
            let mut key = std::mem::take(&mut shape.scratch);
            copy.key.pack(row, &mut key);
            let result = take_copy(table, shape, (input, copy), (&record, &key, symbols), dropped);
            shape.scratch = key;
            result?;
        }
    }
    Ok(())
}

fn covering<'a>(row: &'a [u64], time: EventTime, input: &RecordInput) -> Covering<'a> {
    let Some(spread) = input.spread else {
        let extent = Extent::new(time, time);
        return Covering { row, time, extent, from: time, is_spread: false };
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
    Covering { row, time, extent, from, is_spread: true }
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

fn take_copy(
    table: &mut KeyTable,
    shape: &Shape,
    (input, copy): (&RecordInput, &RecordCopy),
    (record, key, symbols): (&Covering<'_>, &[u64], &Symbols),
    dropped: &mut Vec<Dropped>,
) -> Result<(), Overflow> {
    let shift = if shape.window.is_by_key() {
        phase_shift(phase(record.row, key, (input, &shape.key), symbols), shape.size().as_millis())
    } else {
        0
    };
    let hash = table.cells.hash(key);
    let last = shape.window.assign(record.extent.last(), shift);
    let mut window = shape.window.assign(record.from, shift);
    let mut from = record.from;
    if let Some(oldest) = oldest_window(shape.window, last)
        && window.start() < oldest.start()
    {
        (window, from) = (oldest, oldest.start());
    }
    if record.extent.first() < from {
        count_cut(table, (input, copy), record, from);
    }
    loop {
        if let Some(entered) = table.enter(hash, key, window, dropped) {
            let part = Part { window, from, is_home: window == last };
            add(table, entered.cell, (input, copy), (record, &part), symbols)?;
        }
        if window.end() > record.extent.last() || window == last {
            return Ok(());
        }
        window = shape.window.assign(window.end(), shift);
    }
}

/// The earliest window that a record whose last window is `last` may reach.
fn oldest_window(window: WindowFn, last: Window) -> Option<Window> {
    match window {
        WindowFn::Global => None,
        WindowFn::Fixed { size, .. } => {
            let back = i64::try_from(SPLITS_MAX - 1).unwrap_or(i64::MAX);
            let back = Span::from_millis(size.as_millis().saturating_mul(back));
            let start = last.start().saturating_sub(back);
            Some(Window::new(start, start.saturating_add(size)))
        }
    }
}

/// The number that shifts the windows of a key.
fn phase(
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
struct Part {
    window: Window,
    from: EventTime,
    /// Whether the record's last instant lies in the window.
    is_home: bool,
}

impl Part {
    /// This part of `amount`, by the extent of the record.
    fn of(&self, extent: Extent, amount: i128) -> i128 {
        let counted = Window::new(self.window.start().max(self.from), self.window.end());
        signed_share(extent, amount, counted)
    }
}

fn signed_share(extent: Extent, amount: i128, window: Window) -> i128 {
    let part = share(extent, amount.unsigned_abs(), window);
    let part = i128::try_from(part).unwrap_or(i128::MAX);
    if amount < 0 { -part } else { part }
}

fn add(
    table: &mut KeyTable,
    cell: u32,
    (input, copy): (&RecordInput, &RecordCopy),
    (record, part): (&Covering<'_>, &Part),
    symbols: &Symbols,
) -> Result<(), Overflow> {
    let aggregates = &table.rules.aggregates;
    let words = table.cells.delta_mut(cell);
    for (index, accumulator) in aggregates.accumulators().iter().enumerate() {
        // A count counts records, or values where a field is named.
        let datum = copy.inputs[index].map_or(Datum::Bool(true), |slot| read(record.row, slot));
        let datum = if !record.is_spread {
            datum
        } else if input.is_spread[index] {
            match datum {
                Datum::Int(amount) => Datum::Int(part.of(record.extent, amount)),
                Datum::Null
                | Datum::Bool(_)
                | Datum::Float(_)
                | Datum::Text(_)
                | Datum::Object(_)
                | Datum::Ip(_) => datum,
            }
        } else {
            match accumulator.function {
                // What is not split is counted once, where the record ends.
                Function::Count | Function::Sum | Function::Mean if !part.is_home => continue,
                Function::Count
                | Function::Sum
                | Function::Mean
                | Function::Min
                | Function::Max
                | Function::First
                | Function::Last => datum,
            }
        };
        aggregates.add(words, index, (datum, record.time), symbols)?;
    }
    Ok(())
}

/// Counts what of a record lies before `from`.
fn count_cut(
    table: &mut KeyTable,
    (input, copy): (&RecordInput, &RecordCopy),
    record: &Covering<'_>,
    from: EventTime,
) {
    table.account.cut_records += 1;
    let before = Window::new(EventTime::MIN, from);
    for (index, slot) in copy.inputs.iter().enumerate() {
        let (Some(slot), true) = (slot, input.is_spread[index]) else { continue };
        if let Datum::Int(amount) = read(record.row, *slot) {
            let part = signed_share(record.extent, amount, before);
            let cut = &mut table.account.cut[index];
            *cut = cut.saturating_add(part);
        }
    }
}

/// Takes deltas of the parent stage, whose key and aggregates are `parent`'s.
pub(crate) fn take_deltas(
    table: &mut KeyTable,
    shape: &mut Shape,
    input: &PaneInput,
    (deltas, parent, symbols): (&Deltas, (&KeyLayout, &AggregateLayout), &Symbols),
    dropped: &mut Vec<Dropped>,
) -> Result<(), Overflow> {
    let (parent_key, parent_values) = parent;
    for (source, window, values) in deltas.iter(parent_key.words(), parent_values.words()) {
        let window =
            if input.same_window { window } else { shape.window.assign(window.start(), 0) };
        for copy in &input.copies {
            copy.key.pack(source, &mut shape.scratch);
            let hash = table.cells.hash(&shape.scratch);
            let Some(entered) = table.enter(hash, &shape.scratch, window, dropped) else {
                continue;
            };
            let aggregates = &table.rules.aggregates;
            let words = table.cells.delta_mut(entered.cell);
            regroup(aggregates, (words, entered.is_empty), copy, (parent_values, values), symbols)?;
        }
    }
    Ok(())
}

/// Merges a parent's accumulators into `words`, which may be known to be empty.
pub(crate) fn regroup(
    aggregates: &AggregateLayout,
    (words, is_empty): (&mut [u64], bool),
    copy: &PaneCopy,
    (parent, values): (&AggregateLayout, &[u64]),
    symbols: &Symbols,
) -> Result<(), Overflow> {
    if copy.is_plain && is_empty {
        words.copy_from_slice(values);
        return Ok(());
    }
    for (to, from) in copy.from.iter().enumerate() {
        aggregates.merge((words, to), parent, (values, *from), symbols)?;
    }
    Ok(())
}

/// Takes deltas that are already in the stage's own key and aggregates: what an exchange brings.
pub(crate) fn take_exchanged(
    table: &mut KeyTable,
    deltas: &Deltas,
    (key_words, symbols): (usize, &Symbols),
    dropped: &mut Vec<Dropped>,
) -> Result<(), Overflow> {
    let value_words = table.rules.aggregates.words();
    for (key, window, values) in deltas.iter(key_words, value_words) {
        let hash = table.cells.hash(key);
        let Some(entered) = table.enter(hash, key, window, dropped) else { continue };
        let aggregates = &table.rules.aggregates;
        aggregates.merge_all(table.cells.delta_mut(entered.cell), values, symbols)?;
    }
    Ok(())
}
