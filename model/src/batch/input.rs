//! What one record brings to one grouping: its copies, its windows, and its value for each
//! aggregate in each window.

use super::{KeyValues, Record};
use crate::aggregate::Function;
use crate::flow::phase_shift;
use crate::key::{encode, stable_hash};
use crate::plan::{Grouping, Job};
use crate::time::{EventTime, Span, Window};
use crate::value::Value;
use crate::window::WindowFn;

/// A record as one grouping reads it, under one of its keys.
pub(super) struct Copy {
    /// The key.
    pub(super) key: KeyValues,
    /// Number of the copy: which of several fields it reads.
    number: usize,
}

/// Reads records for a grouping.
pub(super) struct Reader<'a> {
    pub(super) job: &'a Job,
    pub(super) grouping: &'a Grouping,
}

impl Reader<'_> {
    fn field<'r>(&self, record: &'r Record, name: &str) -> &'r Value {
        let index = self.job.fields.iter().position(|field| &*field.name == name);
        index.and_then(|index| record.values.get(index)).unwrap_or(&Value::Null)
    }

    /// Field number `number` of those that stand for each other; a single one is read every time.
    fn nth<'r>(&self, record: &'r Record, names: &[Box<str>], number: usize) -> &'r Value {
        let name = names.get(number).or_else(|| names.first());
        name.map_or(&Value::Null, |name| self.field(record, name))
    }

    /// The copies of a record: one, or one for each of the fields that a column lists.
    pub(super) fn copies(&self, record: &Record) -> Vec<Copy> {
        let columns = self.grouping.key.iter().map(|column| column.each.len());
        let aggregates = self.grouping.aggregates.iter().map(|spec| spec.fields.len());
        let count = columns.chain(aggregates).max().unwrap_or(1).max(1);
        let copy = |number| {
            let key = self.grouping.key.iter();
            let key = key.map(|column| canonical(self.nth(record, &column.each, number)));
            Copy { key: KeyValues(key.collect()), number }
        };
        (0..count).map(copy).collect()
    }

    /// First and last instant that a record covers; `None` where records are instants.
    fn interval(&self, record: &Record) -> Option<(EventTime, EventTime)> {
        let spread = self.job.spread.as_ref()?;
        let instant = |name: &str| match self.field(record, name) {
            Value::Int(millis) => i64::try_from(*millis).ok().map(EventTime::from_millis),
            Value::Null
            | Value::Bool(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Object(_)
            | Value::Ip(_) => None,
        };
        let last = instant(&spread.last).unwrap_or(record.time);
        let first = instant(&spread.first).unwrap_or(last);
        Some((first.min(last), last))
    }

    /// The first instant that counts: records may be cut in front.
    fn first_kept(&self, (first, last): (EventTime, EventTime)) -> EventTime {
        match self.job.spread.as_ref().and_then(|spread| spread.max_duration) {
            // Both ends are inclusive: a span of n ms holds n instants.
            Some(most) => first.max(last.saturating_sub(most).saturating_add(Span::from_millis(1))),
            None => first,
        }
    }

    /// The windows that a copy touches, in order.
    pub(super) fn windows(&self, record: &Record, copy: &Copy) -> Vec<Window> {
        let shift = self.shift(record, copy);
        let assign = |time| self.grouping.window.assign(time, shift);
        let Some((first, last)) = self.interval(record) else { return vec![assign(record.time)] };
        let mut windows = vec![assign(self.first_kept((first, last)))];
        while let Some(window) = windows.last().filter(|window| !window.contains(last)) {
            windows.push(assign(window.end()));
        }
        windows
    }

    /// By how much the windows of a key are shifted.
    fn shift(&self, record: &Record, copy: &Copy) -> i64 {
        let WindowFn::Fixed { size, .. } = self.grouping.window else { return 0 };
        if !self.grouping.window.is_by_key() {
            return 0;
        }
        let number = match &self.job.phase {
            // The low 32 bits count.
            Some(phase) => match self.field(record, &phase.field) {
                Value::Int(number) => *number as u32,
                Value::Null
                | Value::Bool(_)
                | Value::Float(_)
                | Value::Text(_)
                | Value::Object(_)
                | Value::Ip(_) => 0,
            },
            None => {
                let mut encoded = Vec::new();
                encode(&copy.key.0, &mut encoded);
                stable_hash(&encoded) as u32
            }
        };
        phase_shift(number, size.as_millis())
    }

    /// What a copy adds to each aggregate in `window`, less what lies in the `dropped` parts of it:
    /// a value, or `None` for nothing.
    pub(super) fn values(
        &self,
        record: &Record,
        copy: &Copy,
        window: Window,
        dropped: &[Window],
    ) -> Vec<Option<Value>> {
        let interval = self.interval(record);
        let is_in = |time: EventTime| {
            window.contains(time) && !dropped.iter().any(|part| part.contains(time))
        };
        let value = |spec: &crate::plan::AggregateSpec| {
            let value = match spec.function {
                Function::Count if spec.fields.is_empty() => Value::Int(1),
                Function::Count
                | Function::Sum
                | Function::Min
                | Function::Max
                | Function::Mean
                | Function::First
                | Function::Last => self.nth(record, &spec.fields, copy.number).clone(),
            };
            match (interval, &value) {
                (Some(covered), Value::Int(total)) if spec.spread => {
                    let kept = self.share(covered, *total, window)
                        - dropped
                            .iter()
                            .map(|part| self.share(covered, *total, *part))
                            .sum::<i128>();
                    Some(Value::Int(kept))
                }
                // Counted once, where the record ends.
                (Some((_, last)), _) if counts_once(spec.function) => is_in(last).then_some(value),
                _ => Some(value),
            }
        };
        self.grouping.aggregates.iter().map(value).collect()
    }

    /// The part of `total` that falls into `window`, by the formula.
    fn share(&self, covered: (EventTime, EventTime), total: i128, window: Window) -> i128 {
        let kept = i128::from(self.first_kept(covered).as_millis());
        let first = i128::from(covered.0.as_millis());
        let until = i128::from(covered.1.as_millis()) + 1;
        // A window without an end holds the last instant of time too.
        let end = match window.end() {
            EventTime::MAX => until,
            end => until.min(i128::from(end.as_millis())),
        };
        let start = kept.max(i128::from(window.start().as_millis()));
        let upto = |instant: i128| fraction(instant - first, total, until - first);
        if start < end { upto(end) - upto(start) } else { 0 }
    }
}

/// Whether a function must see a record once only: of the others, seeing it again changes nothing.
fn counts_once(function: Function) -> bool {
    match function {
        Function::Count | Function::Sum | Function::Mean => true,
        Function::Min | Function::Max | Function::First | Function::Last => false,
    }
}

/// floor(part x total / whole), by long multiplication: one bit of the total after the other.
fn fraction(part: i128, total: i128, whole: i128) -> i128 {
    // The highest bit is the sign: it counts down.
    let sign = if total < 0 { -part } else { 0 };
    let (mut quotient, mut rest) = (sign.div_euclid(whole), sign.rem_euclid(whole));
    for bit in (0..i128::BITS - 1).rev() {
        quotient *= 2;
        rest *= 2;
        if total >> bit & 1 == 1 {
            rest += part;
        }
        quotient += rest.div_euclid(whole);
        rest = rest.rem_euclid(whole);
    }
    quotient
}

/// One form for values that are one key.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Float(number) if number.is_nan() => Value::Float(f64::NAN),
        Value::Float(0.0) => Value::Float(0.0),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Object(_)
        | Value::Ip(_) => value.clone(),
    }
}
