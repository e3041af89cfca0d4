//! Rows of results on their way into the stage that groups them: changes of the stage below become
//! rows with a sign, are refined, judged and added to windows, or taken out of them.
//!
//! Rows of one change count together or not at all: a change has expired if a window of any of its
//! rows has. Where the stage is exchanged the sending end judges, by the watermark that it has sent;
//! the receiver's is never higher, so that it takes whatever comes.
#![expect(clippy::indexing_slicing, reason = "rows and halves stand side by side")]

use crate::account::{DropReason, StageAccount};
use crate::aggregate::{AggregateLayout, Overflow, Values};
use crate::changes::Changes;
use crate::expr::Refinement;
use crate::flow::phase_shift;
use crate::intake::{Copy, Judged, Takes, phase};
use crate::kept::KeptValue;
use crate::key::{KeyLayout, Router};
use crate::late::Aside;
use crate::machine_table::MachineTable;
use crate::open_window::OpenWindow;
use crate::plan::{ChangeInput, ResultSource, Stage};
use crate::row::{Position, RowBatch, RowWriter, read};
use crate::symbol::Symbols;
use crate::time::{EventTime, Lateness, Span, Watermark, Window, judge};
use crate::value::Datum;
use crate::window::{Phase, WindowFn};
use std::ops::Range;

/// What a row of a batch of rows is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Half {
    /// Which copy of the row it is.
    copy: usize,
    /// Whether it is taken back.
    is_minus: bool,
    /// Whether it ends a change.
    is_last: bool,
}

/// Rows of results that come, or are taken back.
#[derive(Debug, Clone)]
pub struct SignedRows {
    rows: RowBatch,
    halves: Vec<Half>,
}

impl SignedRows {
    fn new(input: &ChangeInput) -> Self {
        Self { rows: RowBatch::new(input.row.clone()), halves: Vec::new() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.halves.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.halves.is_empty()
    }

    /// Bytes that the rows take.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.halves.len() * size_of::<Half>()
    }

    /// The rows of each change.
    fn changes(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        let ends = self.halves.iter().enumerate().filter(|(_, half)| half.is_last);
        ends.map(move |(index, _)| std::mem::replace(&mut start, index + 1)..index + 1)
    }
}

/// Reads the changes of the stage below for one stage. Keeps nothing between two rounds.
#[derive(Debug)]
pub(crate) struct ChangeReader {
    input: ChangeInput,
    window: WindowFn,
    key: KeyLayout,
    allowed_lateness: Span,
    /// `None` if its texts do not fit the table: then no row can be computed, and each is counted.
    refinement: Option<Refinement>,
    /// Room for a key, for windows, and for what a row adds.
    scratch: Vec<u64>,
    windows: Vec<Window>,
    added: Values,
}

impl ChangeReader {
    /// The reader of `stage`, which reads `input`.
    pub(crate) fn new(stage: &Stage, input: &ChangeInput, symbols: &Symbols) -> Self {
        let (derived, filter) = (&input.derived, input.filter.as_ref());
        Self {
            window: stage.window,
            key: stage.key.clone(),
            allowed_lateness: stage.allowed_lateness,
            refinement: Refinement::bind(derived, filter, &input.row, symbols).ok(),
            scratch: vec![0; stage.key.words()],
            windows: Vec::new(),
            added: stage.aggregates.empty(),
            input: input.clone(),
        }
    }

    /// Takes what `parent` told in this round.
    pub(crate) fn take(
        &mut self,
        table: &mut MachineTable,
        (changes, parent): (&Changes, &Stage),
        aside: &mut Aside,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let rows = self.read((changes, parent), &mut table.account, symbols);
        for change in rows.changes() {
            if self.is_expired(&rows, change.clone(), (table.watermark, symbols)) {
                self.refuse((&rows, change), &mut table.account, aside, symbols);
                continue;
            }
            for index in change {
                self.enter(table, (&rows, index), aside, symbols)?;
            }
        }
        Ok(())
    }

    /// Takes rows that an exchange brings.
    pub(crate) fn take_exchanged(
        &mut self,
        table: &mut MachineTable,
        rows: &SignedRows,
        aside: &mut Aside,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        for index in 0..rows.len() {
            self.enter(table, (rows, index), aside, symbols)?;
        }
        Ok(())
    }

    /// Places what `parent` told in this round on shards, by the key that each row has here;
    /// `sent` is the watermark that they know of.
    pub(crate) fn place(
        &mut self,
        (changes, parent, sent): (&Changes, &Stage, Watermark),
        (router, shards): (&mut Router, usize),
        (account, aside): (&mut StageAccount, &mut Aside),
        symbols: &Symbols,
    ) -> Vec<SignedRows> {
        let rows = self.read((changes, parent), account, symbols);
        let mut parts = vec![SignedRows::new(&self.input); shards];
        for change in rows.changes() {
            if self.is_expired(&rows, change.clone(), (sent, symbols)) {
                self.refuse((&rows, change), account, aside, symbols);
                continue;
            }
            for index in change {
                self.find_windows((&rows, index), symbols);
                if let Some(part) = parts.get_mut(router.shard(&self.scratch, symbols)) {
                    let (row, time) = (rows.rows.row(index), rows.rows.time(index));
                    part.rows.push_row(row, time, Position::default());
                    part.halves.push(rows.halves[index]);
                }
            }
        }
        parts
    }

    /// Makes rows of changes; those that are left out are counted when they come, not when they
    /// go.
    fn read(
        &self,
        (changes, parent): (&Changes, &Stage),
        account: &mut StageAccount,
        symbols: &Symbols,
    ) -> SignedRows {
        let mut made = SignedRows::new(&self.input);
        let mut first = 0;
        let results = parent.aggregates.accumulators().len();
        for (told, key, results) in changes.iter(parent.key.words(), results) {
            let mut row = made.rows.push(told.time, Position::default());
            self.fill(&mut row, (told.window, key, results), parent);
            let index = made.halves.len();
            let kept = self
                .refinement
                .as_ref()
                .map(|refinement| refinement.refine(&mut made.rows, index, symbols).map_err(drop));
            match kept.unwrap_or(Err(())) {
                Ok(true) => self.copy(&mut made, told.is_minus),
                Ok(false) => {
                    made.rows.pop();
                    account.filtered += u64::from(!told.is_minus);
                }
                Err(()) => {
                    made.rows.pop();
                    account.failed += u64::from(!told.is_minus);
                }
            }
            if told.is_last {
                if let Some(last) = made.halves[first..].last_mut() {
                    last.is_last = true;
                }
                first = made.halves.len();
            }
        }
        made
    }

    fn fill(
        &self,
        row: &mut RowWriter<'_>,
        (window, key, results): (Window, &[u64], &[Datum]),
        parent: &Stage,
    ) {
        let millis = |time: EventTime| Datum::Int(i128::from(time.as_millis()));
        for (slot, source) in self.input.row.slots().iter().zip(&self.input.sources) {
            let datum = match source {
                ResultSource::Key(field) => parent.key.read(key, *field),
                ResultSource::Aggregate(index) => {
                    results.get(*index).copied().unwrap_or(Datum::Null)
                }
                ResultSource::WindowStart => millis(window.start()),
                ResultSource::WindowEnd => millis(window.end()),
                ResultSource::WindowLength => Datum::Int(i128::from(window.length().as_millis())),
                ResultSource::Derived => continue,
            };
            row.set(*slot, datum);
        }
    }

    /// Notes the copies that the stage makes of the row that stands last.
    fn copy(&self, made: &mut SignedRows, is_minus: bool) {
        let index = made.rows.len().saturating_sub(1);
        for copy in 0..self.input.rows.copies.len() {
            if copy > 0 {
                let (row, time) = (made.rows.row(index).to_vec(), made.rows.time(index));
                made.rows.push_row(&row, time, Position::default());
            }
            made.halves.push(Half { copy, is_minus, is_last: false });
        }
    }

    /// Packs the key of a row into `scratch`, and fills `windows`.
    fn find_windows(&mut self, (rows, index): (&SignedRows, usize), symbols: &Symbols) {
        let (row, time) = (rows.rows.row(index), rows.rows.time(index));
        let input = &self.input.rows;
        input.copies[rows.halves[index].copy].key.pack(row, &mut self.scratch);
        self.windows.clear();
        match self.window {
            WindowFn::Custom(custom) => {
                let values = input.window.iter().map(|slot| read(row, *slot).value(symbols));
                custom.0.assign(time, &values.collect::<Vec<_>>(), &mut self.windows);
            }
            WindowFn::Fixed { size, phase: Phase::ByKey, .. } => {
                let number = phase(row, &self.scratch, (input, &self.key), symbols);
                let shift = phase_shift(number, size.as_millis());
                self.windows.push(self.window.assign(time, shift));
            }
            WindowFn::Global
            | WindowFn::Fixed { phase: Phase::Aligned, .. }
            | WindowFn::Sliding { .. }
            | WindowFn::Session { .. }
            | WindowFn::Calendar(_) => self.window.assign_all(time, 0, &mut self.windows),
        }
    }

    fn is_expired(
        &mut self,
        rows: &SignedRows,
        mut change: Range<usize>,
        (watermark, symbols): (Watermark, &Symbols),
    ) -> bool {
        change.any(|index| {
            self.find_windows((rows, index), symbols);
            self.windows
                .iter()
                .any(|window| judge(*window, watermark, self.allowed_lateness) == Lateness::Expired)
        })
    }

    /// Counts the copies of a change that has expired.
    fn refuse(
        &mut self,
        (rows, change): (&SignedRows, Range<usize>),
        account: &mut StageAccount,
        aside: &mut Aside,
        symbols: &Symbols,
    ) {
        for index in change {
            self.find_windows((rows, index), symbols);
            for _ in &self.windows {
                account.assigned += 1;
                account.expired += 1;
                aside.drop(DropReason::Expired, &self.scratch);
            }
        }
    }

    /// Adds a row to its windows, or takes it out of them.
    fn enter(
        &mut self,
        table: &mut MachineTable,
        (rows, index): (&SignedRows, usize),
        aside: &mut Aside,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        self.find_windows((rows, index), symbols);
        let (row, time) = (rows.rows.row(index), rows.rows.time(index));
        let half = rows.halves[index];
        if self.windows.is_empty() && !half.is_minus {
            table.account.no_window += 1;
            aside.drop(DropReason::NoWindow, &self.scratch);
        }
        let (hash, bytes) = (table.hash(&self.scratch), row.len() as u64 * 8);
        for window in std::mem::take(&mut self.windows) {
            let copy = Copy { hash, key: &self.scratch, window, time, bytes };
            match table.enter(copy, symbols)? {
                Judged::Into(_) => {}
                Judged::Dropped(reason) => {
                    aside.drop_late(reason, &self.scratch);
                    continue;
                }
            }
            if let Some((aggregates, open)) = table.entered() {
                self.add((aggregates, open), (row, time, half), symbols)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        (aggregates, open): (&AggregateLayout, &mut OpenWindow),
        (row, time, half): (&[u64], EventTime, Half),
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let sign = if half.is_minus { -1 } else { 1 };
        open.rows = open.rows.saturating_add(sign);
        self.added.clear();
        for (aggregate, slot) in self.input.rows.copies[half.copy].inputs.iter().enumerate() {
            let datum = slot.map_or(Datum::Int(1), |slot| read(row, slot));
            if datum == Datum::Null {
                continue;
            }
            if self.input.keeps_values[aggregate] {
                let value = KeptValue { aggregate, datum, time, count: sign };
                open.kept.add(value, aggregates, symbols)?;
            } else {
                aggregates.add(&mut self.added, aggregate, (datum, time), symbols)?;
            }
        }
        if half.is_minus {
            aggregates.subtract_all(&mut open.delta, &self.added)
        } else {
            aggregates.merge_all(&mut open.delta, &self.added, symbols)
        }
    }
}
