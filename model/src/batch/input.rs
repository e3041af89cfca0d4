//! What one record brings to one grouping: its copies, its windows, and its value for each
//! aggregate in each window.

use super::{KeyValues, Record};
use crate::aggregate::Function;
use crate::flow::phase_shift;
use crate::intake::splits_max;
use crate::key::{encode, stable_hash};
use crate::plan::{AggregateSpec, Grouping, Job};
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

    /// What a copy covers; `None` where records are instants.
    fn interval(&self, record: &Record, copy: &Copy) -> Option<Interval> {
        // Windows that follow from their records have no parts: a record counts where it ends.
        let spread = match self.grouping.window {
            WindowFn::Session { .. } | WindowFn::Custom(_) => None,
            WindowFn::Global
            | WindowFn::Fixed { .. }
            | WindowFn::Sliding { .. }
            | WindowFn::Calendar(_) => self.job.spread.as_ref(),
        }?;
        let instant = |name: &str| whole(self.field(record, name)).map(EventTime::from_millis);
        let last = instant(&spread.last).unwrap_or(record.time);
        let first = instant(&spread.first).unwrap_or(last).min(last);
        let kept = match spread.max_duration {
            // Both ends are inclusive: a span of n ms holds n instants, and one always counts.
            Some(most) => {
                first.max(last.saturating_sub(most).saturating_add(Span::from_millis(1)).min(last))
            }
            None => first,
        };
        let mut interval = Interval { first, kept, last };
        let windows = self.windows(record, copy, Some(interval));
        let (function, shift) = (self.grouping.window, self.shift(record, copy));
        if let Some(oldest) = windows.first()
            && windows.len() == splits_max(function)
            && let Some(cut) = function.before(*oldest, shift)
        {
            interval.kept = kept.max(cut.end());
        }
        Some(interval)
    }

    /// The windows that a copy touches, in order, and what of it counts.
    pub(super) fn read(&self, record: &Record, copy: &Copy) -> (Vec<Window>, Option<Interval>) {
        let interval = self.interval(record, copy);
        (self.windows(record, copy, interval), interval)
    }

    /// The windows that what counts of a copy touches, in order; at most [`splits_max`] of
    /// an interval, the latest.
    pub(super) fn windows(
        &self,
        record: &Record,
        copy: &Copy,
        interval: Option<Interval>,
    ) -> Vec<Window> {
        let (function, shift) = (self.grouping.window, self.shift(record, copy));
        let mut windows = Vec::new();
        match function {
            WindowFn::Session { gap, max_duration, .. } => {
                return vec![self.session(record, gap, max_duration)];
            }
            WindowFn::Custom(custom) => {
                let values = custom.0.fields().iter().map(|name| self.field(record, name).clone());
                custom.0.assign(record.time, &values.collect::<Vec<_>>(), &mut windows);
                return windows;
            }
            WindowFn::Global
            | WindowFn::Fixed { .. }
            | WindowFn::Sliding { .. }
            | WindowFn::Calendar(_) => {}
        }
        match interval {
            None => function.assign_all(record.time, shift, &mut windows),
            Some(Interval { kept, last, .. }) => {
                let latest = function.assign(last, shift);
                let back =
                    std::iter::successors(Some(latest), |after| function.before(*after, shift));
                let touches = |window: &Window| window.end() > kept || window.contains(kept);
                windows.extend(back.take_while(touches).take(splits_max(function)));
            }
        }
        windows.reverse();
        windows
    }

    /// The session that a record makes by itself.
    fn session(&self, record: &Record, gap: Span, max_duration: Option<Span>) -> Window {
        let own = self.grouping.gap_field.as_ref().and_then(|name| whole(self.field(record, name)));
        let gap = own.filter(|gap| *gap >= 1).unwrap_or(gap.as_millis().max(1));
        let end = EventTime::from_millis(record.time.as_millis().saturating_add(gap));
        let block = max_duration.map(|longest| Window::fixed(record.time, longest, 0));
        Window::new(record.time, block.map_or(end, |block| end.min(block.end())))
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
    /// a value, or `None` for nothing. `interval` is what its reader counts of it.
    pub(super) fn values(
        &self,
        (record, copy): (&Record, &Copy),
        interval: Option<Interval>,
        window: Window,
        dropped: &[Window],
    ) -> Vec<Option<Value>> {
        let is_in = |time: EventTime| {
            window.contains(time) && !dropped.iter().any(|part| part.contains(time))
        };
        let value = |spec: &AggregateSpec| {
            let value = match spec.function {
                Function::Count if spec.fields.is_empty() => Value::Int(1),
                Function::Count
                | Function::Sum
                | Function::Min
                | Function::Max
                | Function::Mean
                | Function::First
                | Function::Last
                | Function::Variance { .. }
                | Function::Side(_) => self.nth(record, &spec.fields, copy.number).clone(),
            };
            match (interval, &value) {
                (Some(interval), Value::Int(total)) if spec.spread => {
                    let lost = dropped.iter().map(|part| interval.share(*total, *part));
                    Some(Value::Int(interval.share(*total, window) - lost.sum::<i128>()))
                }
                // Counted once, where the record ends.
                (Some(interval), _) if !spec.spread && spec.function.counts_once() => {
                    is_in(interval.last).then_some(value)
                }
                _ => Some(value),
            }
        };
        self.grouping.aggregates.iter().map(value).collect()
    }
}

/// What a record covers, both ends inclusive, and from where on it counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    first: EventTime,
    kept: EventTime,
    last: EventTime,
}

impl Interval {
    /// The part of `total` that falls into `window`, by the formula; a negative total is split as
    /// its opposite is.
    fn share(self, total: i128, window: Window) -> i128 {
        let [first, kept, last] =
            [self.first, self.kept, self.last].map(|time| i128::from(time.as_millis()));
        let until = last + 1;
        // A window without an end holds the last instant of time too.
        let end = match window.end() {
            EventTime::MAX => until,
            end => until.min(i128::from(end.as_millis())),
        };
        let start = kept.max(i128::from(window.start().as_millis()));
        if end <= start {
            return 0;
        }
        let upto = |instant: i128| fraction(instant - first, total.abs(), until - first);
        (upto(end) - upto(start)) * total.signum()
    }
}

/// floor(part x total / whole) of a total that is not negative, by long multiplication: one bit of
/// the total after the other.
fn fraction(part: i128, total: i128, whole: i128) -> i128 {
    let (mut quotient, mut rest) = (0, 0);
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

/// A whole number, cut to the type; `None` for anything else.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => {
            let cut = (*number).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
            i64::try_from(cut).ok()
        }
        Value::Null
        | Value::Bool(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Object(_)
        | Value::Ip(_) => None,
    }
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
