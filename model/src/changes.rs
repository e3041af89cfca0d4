//! Changes: what a stage tells of its results to stages that group them.
//!
//! A change takes back the rows that no longer hold and gives the one that does: minus the old,
//! plus the new; where windows have merged, minus all that were told of their parts. A row is the
//! key, the window and the finished results of one total; what is taken back is what was told, to
//! the bit. Rows of one change stand side by side, the old ones first.

use crate::aggregate::{AggregateLayout, Values};
use crate::time::{EventTime, Window};
use crate::value::Datum;

/// One row of results that comes, or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// The window of the result.
    pub(crate) window: Window,
    /// Event time of the pane that it came with.
    pub(crate) time: EventTime,
    /// Whether it is taken back.
    pub(crate) is_minus: bool,
    /// Whether it ends a change: its rows count together, or not at all.
    pub(crate) is_last: bool,
}

/// The changes of one stage in one round, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Packed keys, one after the other.
    keys: Vec<u64>,
    /// Results, one row after the other.
    results: Vec<Datum>,
    rows: Vec<Told>,
}

impl Changes {
    /// Appends a row to the change that is open.
    pub(crate) fn push(
        &mut self,
        key: &[u64],
        row: Told,
        (aggregates, values): (&AggregateLayout, &Values),
    ) {
        self.keys.extend_from_slice(key);
        let all = 0..aggregates.accumulators().len();
        self.results.extend(all.map(|index| aggregates.finish(values, index)));
        self.rows.push(row);
    }

    /// Ends the change that is open.
    pub(crate) fn end_change(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.is_last = true;
        }
    }

    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Removes all, keeps the room.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.results.clear();
        self.rows.clear();
    }

    /// The rows as (row, key words, results), for keys of `key_words` words and `results` results.
    pub(crate) fn iter(
        &self,
        key_words: usize,
        results: usize,
    ) -> impl Iterator<Item = (Told, &[u64], &[Datum])> {
        self.rows.iter().enumerate().map(move |(index, row)| {
            let key = self.keys.get(index * key_words..(index + 1) * key_words);
            let values = self.results.get(index * results..(index + 1) * results);
            (*row, key.unwrap_or_default(), values.unwrap_or_default())
        })
    }
}
