//! What of a record counts in one window: all of it, or its share by the time that it covers.
//!
//! The shares of a record over windows side by side add up to the record.
#![expect(clippy::indexing_slicing, reason = "records have the slots of the plan")]

use super::Takes;
use crate::aggregate::{AggregateLayout, Overflow, Step, ValuesMut};
use crate::flow::{Extent, share};
use crate::plan::{RecordCopy, RecordInput};
use crate::row::{RowBatch, Slot, is_null, read, wide};
use crate::symbol::Symbols;
use crate::time::{EventTime, Span, Window};
use crate::value::{Datum, Type};

/// One record on its way into windows.
#[derive(Clone, Copy)]
pub(crate) struct Covering<'a> {
    /// Where it stands.
    pub(crate) source: (&'a RowBatch, usize),
    pub(crate) row: &'a [u64],
    pub(super) time: EventTime,
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
pub(super) fn instant(row: &[u64], slot: Slot) -> Option<EventTime> {
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
