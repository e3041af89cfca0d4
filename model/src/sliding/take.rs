//! How records go into slices: once each, and by themselves only into windows that are complete.
//!
//! Every window of a record is judged, as in the copying form, but counted by arithmetic: windows
//! follow one another, so those on time, late and expired are three runs of them.

use super::grid::Touched;
use super::table::SlidingTable;
use crate::account::DropReason;
use crate::aggregate::Overflow;
use crate::intake::{
    Covering, Part, Shape, Taken, Takes, add, count_cut, covering, splits_max, take_window,
};
use crate::late::{Aside, LateReason};
use crate::plan::{RecordCopy, RecordInput};
use crate::row::RowBatch;
use crate::symbol::Symbols;
use crate::time::{EventTime, Span};

/// Takes a batch of records.
pub(crate) fn take_sliced(
    table: &mut SlidingTable,
    shape: &mut Shape,
    input: &RecordInput,
    (batch, symbols): (&RowBatch, &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    let most = splits_max(shape.window) as u64;
    let mut key = std::mem::take(&mut shape.scratch);
    for index in 0..batch.len() {
        let row = batch.row(index);
        let record = covering((batch, index), input);
        let (touched, from) = touched(table, &record, most);
        for copy in &input.copies {
            copy.key.pack(row, &mut key);
            let (hash, bytes) = (table.windows.hash(&key), row.len() as u64 * 8);
            let taken = Taken { record: &record, key: &key, hash, bytes, from };
            take_copy(table, touched, (input, copy), (&taken, symbols), aside)?;
        }
    }
    shape.scratch = key;
    Ok(())
}

/// The windows of a record, and where counting begins.
fn touched(table: &mut SlidingTable, record: &Covering<'_>, most: u64) -> (Touched, EventTime) {
    if !record.is_spread {
        return (table.touched_at(record.last()), record.from);
    }
    let (from, last) = (record.from, record.last());
    let touched = table.grid.touched(from, last, most.saturating_add(1));
    if touched.count <= most {
        return (touched, from);
    }
    let mut kept = touched;
    kept.count = most;
    (kept, table.grid.window(touched, most).end())
}

fn take_copy(
    table: &mut SlidingTable,
    touched: Touched,
    (input, copy): (&RecordInput, &RecordCopy),
    (taken, symbols): (&Taken<'_>, &Symbols),
    aside: &mut Aside,
) -> Result<(), Overflow> {
    if taken.record.extent.first() < taken.from {
        count_cut(&mut table.windows, (input, copy), taken.record, taken.from);
    }
    if touched.count == 0 {
        table.windows.account.no_window += 1;
        aside.drop(DropReason::NoWindow, taken.key);
        return Ok(());
    }
    let allowed = table.windows.rules.allowed_lateness;
    let split = table.grid.split(touched, table.windows.watermark, allowed);
    if split.on_time > 0 {
        table.windows.account.assigned += split.on_time;
        table.windows.account.on_time += split.on_time;
        let oldest = table.grid.window(touched, split.on_time - 1).start();
        add_to_slices(table, oldest, (input, copy), (taken, symbols))?;
    }
    for number in split.on_time..split.kept {
        let window = table.grid.window(touched, number);
        take_window(&mut table.windows, window, (input, copy), (taken, symbols), aside)?;
    }
    drop_expired(table, touched, split.kept, taken, aside);
    Ok(())
}

/// Adds a record to the slices that it touches, from that which starts at `oldest` on.
fn add_to_slices(
    table: &mut SlidingTable,
    oldest: EventTime,
    (input, copy): (&RecordInput, &RecordCopy),
    (taken, symbols): (&Taken<'_>, &Symbols),
) -> Result<(), Overflow> {
    let Taken { record, key, hash, from, .. } = *taken;
    let until = oldest.max(from);
    let mut time = record.last();
    loop {
        let slice = table.slice_at(time);
        if !record.is_spread || !table.grid.is_between(time) {
            let part = Part::new(slice, record, from);
            table.windows.account.operations += 1;
            let (layout, values) = table.slice((hash, key), slice.start());
            add((layout, values.into()), (input, copy), (record, &part), symbols)?;
        }
        if slice.start() <= until {
            return Ok(());
        }
        time = slice.start().saturating_sub(Span::from_millis(1));
    }
}

/// Counts the windows from number `first` on, which have expired.
fn drop_expired(
    table: &mut SlidingTable,
    touched: Touched,
    first: u64,
    taken: &Taken<'_>,
    aside: &mut Aside,
) {
    let expired = touched.count - first;
    table.windows.account.assigned += expired;
    table.windows.account.expired += expired;
    if !aside.notices_drops() {
        return;
    }
    let judged = (LateReason::Expired, table.windows.watermark);
    for number in first..touched.count {
        let window = table.grid.window(touched, number);
        aside.list(judged, (taken.key, window), taken.record.source);
        aside.drop_late(LateReason::Expired, taken.key);
    }
}
