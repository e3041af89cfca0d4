//! Values that a window keeps because one that is taken back cannot be taken out of its aggregate:
//! a signed multiset per aggregate, and the accumulator that adds up to.
//!
//! The accumulator is made anew from the values, in one order, whenever it might be another: so
//! results depend on which values stand, and never on what came and went before.

use crate::aggregate::side::SideFunction;
use crate::aggregate::{AggregateLayout, Function, Overflow, Values};
use crate::row::{datum_of, words_of};
use crate::symbol::Symbols;
use crate::time::EventTime;
use crate::value::{Datum, Type};
use std::collections::BTreeMap;

/// A value as it lies in words, and its time where that matters.
type Entry = ([u64; 2], i64);

/// The values of one aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Counted {
    /// How often each has come, less how often it was taken back; none stands at zero.
    counts: BTreeMap<Entry, i64>,
    /// Whether the accumulator must be made anew.
    is_stale: bool,
}

impl Counted {
    /// The values that stand and how often each does, in an order that depends on nothing else:
    /// symbols of texts are numbered as they came.
    fn in_order(&self, ty: Type, symbols: &Symbols) -> Vec<((Datum, EventTime), i64)> {
        let all = self.counts.iter().map(|((value, time), count)| {
            ((datum_of(*value, ty), EventTime::from_millis(*time)), *count)
        });
        let mut all: Vec<_> = all.collect();
        if matches!(ty, Type::Text | Type::Object) {
            all.sort_by(|((a, first), _), ((b, second), _)| {
                a.compare(*b, symbols).then(first.cmp(second))
            });
        }
        all
    }
}

/// Whether a function looks at the event times of its values.
const fn looks_at_times(function: Function) -> bool {
    match function {
        Function::First
        | Function::Last
        | Function::Side(SideFunction::Collect { .. } | SideFunction::Custom(_)) => true,
        Function::Count
        | Function::Sum
        | Function::Min
        | Function::Max
        | Function::Mean
        | Function::Variance { .. }
        | Function::Side(
            SideFunction::Distinct { .. }
            | SideFunction::Quantile { .. }
            | SideFunction::Frequent { .. },
        ) => false,
    }
}

/// The values that a window keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    /// By aggregate; `None` where none are kept. Empty if the stage keeps none at all.
    values: Vec<Option<Counted>>,
    /// What the values add up to, in the stage's layout; aggregates that keep none are empty.
    made: Values,
}

/// A kept value with its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KeptValue {
    /// Number of the aggregate.
    pub(crate) aggregate: usize,
    /// The value.
    pub(crate) datum: Datum,
    /// Its event time; the beginning of time where it does not matter.
    pub(crate) time: EventTime,
    /// How often it stands.
    pub(crate) count: i64,
}

impl Kept {
    /// No values, for aggregates of which those keep theirs for which `keeps` says so.
    pub(crate) fn new(keeps: &[bool], aggregates: &AggregateLayout) -> Self {
        if !keeps.contains(&true) {
            return Self::default();
        }
        let values = keeps.iter().map(|keeps| keeps.then(Counted::default));
        Self { values: values.collect(), made: aggregates.empty() }
    }

    /// Adds a value as often as `count` says, or takes it back.
    pub(crate) fn add(
        &mut self,
        added: KeptValue,
        aggregates: &AggregateLayout,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        let KeptValue { aggregate, datum, time, count } = added;
        let (Some(Some(values)), Some(accumulator)) =
            (self.values.get_mut(aggregate), aggregates.accumulators().get(aggregate))
        else {
            return Ok(());
        };
        let is_timed = looks_at_times(accumulator.function);
        let time = if is_timed { time } else { EventTime::MIN };
        let entry = (words_of(datum), time.as_millis());
        let stands = values.counts.entry(entry).or_default();
        *stands = stands.saturating_add(count);
        let is_gone = *stands == 0;
        if is_gone {
            values.counts.remove(&entry);
        }
        match accumulator.function {
            // One more can only be the new result, one less only the old one.
            Function::Min | Function::Max | Function::First | Function::Last if count > 0 => {
                if !values.is_stale {
                    aggregates.add(&mut self.made, aggregate, (datum, time), symbols)?;
                }
            }
            Function::Min | Function::Max | Function::First | Function::Last => {
                let result = words_of(aggregates.finish(&self.made, aggregate));
                values.is_stale |= is_gone && result == words_of(datum);
            }
            Function::Count
            | Function::Sum
            | Function::Mean
            | Function::Variance { .. }
            | Function::Side(_) => values.is_stale = true,
        }
        Ok(())
    }

    /// Puts what kept values add up to into `values`, which have the layout of `aggregates`.
    pub(crate) fn settle(
        &mut self,
        into: &mut Values,
        aggregates: &AggregateLayout,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        for (index, values) in self.values.iter_mut().enumerate() {
            let (Some(values), Some(accumulator)) = (values, aggregates.accumulators().get(index))
            else {
                continue;
            };
            if std::mem::take(&mut values.is_stale) {
                aggregates.reset(&mut self.made, index);
                for (added, count) in values.in_order(accumulator.ty, symbols) {
                    let times = if accumulator.function.counts_once() { count } else { 1 };
                    for _ in 0..times {
                        aggregates.add(&mut self.made, index, added, symbols)?;
                    }
                }
            }
            aggregates.replace(into, &self.made, index);
        }
        Ok(())
    }

    /// All values that stand, in one order.
    pub(crate) fn iter<'a>(
        &'a self,
        aggregates: &'a AggregateLayout,
    ) -> impl Iterator<Item = KeptValue> + 'a {
        let all = self.values.iter().zip(aggregates.accumulators()).enumerate();
        all.flat_map(|(aggregate, (values, accumulator))| {
            let counts = values.iter().flat_map(|values| &values.counts);
            counts.map(move |((value, time), count)| KeptValue {
                aggregate,
                datum: datum_of(*value, accumulator.ty),
                time: EventTime::from_millis(*time),
                count: *count,
            })
        })
    }

    /// Bytes held, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let counts = self.values.iter().flatten().map(|values| values.counts.len());
        counts.sum::<usize>() * size_of::<(Entry, i64)>() + self.made.bytes()
    }
}
