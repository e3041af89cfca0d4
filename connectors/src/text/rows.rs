//! From values of a text record to its row, whatever the format: each value is checked, and one
//! that does not fit makes the record malformed.

use crate::account::Reason;
use crate::source::{Found, Polled};
use crate::text::schema::{Places, RecordSchema, Scalar, Target, Texts, complaint};
use nilometer_model::row::{Position, RowBatch, RowLayout};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;
use nilometer_model::value::Datum;
use std::sync::Arc;

/// Builds the rows of one source, one at a time.
#[derive(Debug)]
pub(crate) struct Rows {
    places: Places,
    texts: Texts,
    /// The row being built, alone in its batch.
    row: RowBatch,
    time: Option<EventTime>,
    /// What was wrong first with the record being built.
    fault: Option<(Reason, String)>,
    /// Where the next record stands.
    position: Position,
    /// Whether records come one behind the other, and no one says where each stands.
    is_counted: bool,
    /// The event time of the next record, where it is not its own to say.
    given_time: Option<EventTime>,
}

impl Rows {
    /// A builder of rows of `layout` from records of `schema` for source partition `partition`.
    pub(crate) fn new(
        schema: &RecordSchema,
        layout: &Arc<RowLayout>,
        symbols: Arc<Symbols>,
        partition: u32,
    ) -> Self {
        Self {
            places: Places::new(schema, layout),
            texts: Texts::new(symbols),
            row: RowBatch::new(layout.clone()),
            time: None,
            fault: None,
            position: Position { partition, offset: 0 },
            is_counted: true,
            given_time: None,
        }
    }

    /// The places that values are wanted of, numbered in this order.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        self.places.names()
    }

    /// How many records were begun.
    pub(crate) fn count(&self) -> u64 {
        self.position.offset
    }

    /// Goes on behind `count` records that were begun by another.
    pub(crate) fn resume(&mut self, count: u64) {
        self.position.offset = count;
    }

    /// The next record stands at `position`; its event time is `time` if it is not its own to say.
    pub(crate) fn place(&mut self, position: Position, time: Option<EventTime>) {
        self.position = position;
        self.is_counted = false;
        self.given_time = time;
    }

    /// Begins a record and counts it as read.
    pub(crate) fn begin(&mut self, out: &mut Polled) {
        out.account.read = out.account.read.saturating_add(1);
        self.row.clear();
        self.row.push(EventTime::MIN, self.position);
        if self.is_counted {
            self.position.offset = self.position.offset.saturating_add(1);
        }
        self.time = None;
        self.fault = None;
    }

    /// Takes the JSON text `raw` as the value at place number `place`; of several, the last counts.
    pub(crate) fn json(&mut self, place: usize, raw: &str) {
        match Scalar::of_json(raw) {
            Ok(value) => self.each(place, raw, |_| value.clone()),
            Err(reason) => self.fail(reason, place, "text", raw),
        }
    }

    /// Takes a CSV cell as the value at place number `place`.
    pub(crate) fn cell(&mut self, place: usize, cell: &str) {
        self.each(place, cell, |target| match target {
            Target::Time(_) if cell.is_empty() => Scalar::Null,
            Target::Time(unit) if unit.is_number() => Scalar::Number(cell),
            Target::Time(_) => Scalar::Text(cell.into()),
            Target::Slot(slot) => Scalar::of_cell(cell, slot.ty),
        });
    }

    /// Ends the record that was begun: appends its row to the batch, or rejects what was `found`.
    pub(crate) fn end(&mut self, found: Found<'_>, out: &mut Polled) {
        match (self.fault.take(), self.given_time.or(self.time)) {
            (Some((reason, detail)), _) => out.reject(found, reason, &detail),
            (None, None) => {
                let detail = format!("`{}` is missing or null", self.places.name(0));
                out.reject(found, Reason::MissingTime, &detail);
            }
            (None, Some(time)) => {
                out.batch.push_row(self.row.row(0), time, self.row.position(0));
            }
        }
    }

    fn each<'a>(&mut self, place: usize, raw: &str, value: impl Fn(Target) -> Scalar<'a>) {
        for index in 0.. {
            let Some(target) = self.places.targets(place).get(index).copied() else { return };
            let value = value(target);
            let (result, expected) = match target {
                Target::Time(unit) => {
                    let expected = if unit.is_number() { "time" } else { "RFC 3339 time" };
                    (value.time(unit).map(|time| self.time = time), expected)
                }
                Target::Slot(slot) => {
                    let datum = value.datum(slot.ty, &mut self.texts);
                    self.row.row_mut(0).set(slot, datum.unwrap_or(Datum::Null));
                    (datum.map(drop), slot.ty.name())
                }
            };
            if let Err(reason) = result {
                self.fail(reason, place, expected, raw);
            }
        }
    }

    fn fail(&mut self, reason: Reason, place: usize, expected: &str, raw: &str) {
        if self.fault.is_none() {
            let detail = match reason {
                Reason::TooManyTexts => TEXTS_FULL.to_owned(),
                _ => complaint(self.places.name(place), expected, raw),
            };
            self.fault = Some((reason, detail));
        }
    }
}

/// What to do about [`Reason::TooManyTexts`].
pub(crate) const TEXTS_FULL: &str =
    "the table of texts is full: raise `max_texts`, or group by fewer text fields";
