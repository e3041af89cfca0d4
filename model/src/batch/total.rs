//! From what came to results: aggregates over lists of values, and the largest entries of a list.

use super::{KeyValues, Place, sided};
use crate::aggregate::{Function, Overflow};
use crate::plan::{AggregateSpec, Grouping, Job, TopKSpec};
use crate::row::Field;
use crate::time::{EventTime, Window};
use crate::value::{Type, Value};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Everything that came for one key and window: for each record, its time and a value (or
/// nothing) per aggregate.
#[derive(Debug, Clone, Default)]
pub(super) struct Inputs(Vec<(EventTime, Vec<Option<Value>>)>);

impl Inputs {
    pub(super) fn add(&mut self, time: EventTime, values: Vec<Option<Value>>) {
        self.0.push((time, values));
    }

    /// The values that came for one aggregate, nulls left out.
    fn of(&self, aggregate: usize) -> impl Iterator<Item = (EventTime, &Value)> + Clone {
        let values = self.0.iter().map(move |(time, values)| (*time, values.get(aggregate)));
        values.filter_map(|(time, value)| {
            value.and_then(Option::as_ref).filter(|v| **v != Value::Null).map(|value| (time, value))
        })
    }

    /// The results of `grouping`, one per aggregate.
    fn results(&self, job: &Job, grouping: &Grouping) -> Result<Vec<Value>, Overflow> {
        let result = |(index, spec): (usize, &AggregateSpec)| self.result(index, (job, spec));
        grouping.aggregates.iter().enumerate().map(result).collect()
    }

    fn result(&self, index: usize, (job, spec): (&Job, &AggregateSpec)) -> Result<Value, Overflow> {
        let values = self.of(index);
        let by_value = |a: &&Value, b: &&Value| a.compare(b);
        let by_time = |a: &(EventTime, &Value), b: &(EventTime, &Value)| {
            a.0.cmp(&b.0).then_with(|| a.1.compare(b.1))
        };
        let found = match spec.function {
            Function::Count => return Ok(Value::Int(values.count() as i128)),
            Function::Sum => return self.sum(index, (job, spec)),
            Function::Mean => {
                return Ok(self.mean(index, (job, spec))?.map_or(Value::Null, Value::Float));
            }
            Function::Min => values.map(|(_, value)| value).min_by(by_value),
            Function::Max => values.map(|(_, value)| value).max_by(by_value),
            Function::First => values.min_by(by_time).map(|(_, value)| value),
            Function::Last => values.max_by(by_time).map(|(_, value)| value),
            Function::Variance { is_sample, is_root } => {
                let variance = self.variance(index, (job, spec), is_sample)?;
                let root = |variance: f64| if is_root { variance.sqrt() } else { variance };
                return Ok(variance.map_or(Value::Null, |variance| Value::Float(root(variance))));
            }
            Function::Side(function) => return Ok(sided::result(function, values.collect())),
        };
        Ok(found.cloned().unwrap_or(Value::Null))
    }

    fn sum(&self, index: usize, (job, spec): (&Job, &AggregateSpec)) -> Result<Value, Overflow> {
        let mut whole = 0_i128;
        let mut float = 0.0;
        for (_, value) in self.of(index) {
            match value {
                Value::Int(number) => {
                    let overflow = || Overflow { aggregate: spec.name.clone() };
                    whole = whole.checked_add(*number).ok_or_else(overflow)?;
                }
                Value::Float(number) => float += number,
                Value::Null | Value::Bool(_) | Value::Text(_) | Value::Object(_) | Value::Ip(_) => {
                }
            }
        }
        let of = |field: &Field| spec.fields.contains(&field.name) && field.ty == Type::F64;
        Ok(if job.fields.iter().any(of) { Value::Float(float) } else { Value::Int(whole) })
    }

    /// By the definition, about the mean.
    fn variance(
        &self,
        index: usize,
        of: (&Job, &AggregateSpec),
        is_sample: bool,
    ) -> Result<Option<f64>, Overflow> {
        let Some(mean) = self.mean(index, of)? else { return Ok(None) };
        let numbers = self.of(index).map(|(_, value)| match value {
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::Object(_) | Value::Ip(_) => mean,
        });
        let squares: f64 = numbers.map(|number| (number - mean) * (number - mean)).sum();
        let of = self.of(index).count() - usize::from(is_sample);
        Ok((of > 0).then(|| squares / of as f64))
    }

    fn mean(&self, index: usize, of: (&Job, &AggregateSpec)) -> Result<Option<f64>, Overflow> {
        let count = self.of(index).count();
        let sum = match self.sum(index, of)? {
            Value::Int(number) => number as f64,
            Value::Float(number) => number,
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::Object(_) | Value::Ip(_) => 0.0,
        };
        Ok((count > 0).then(|| sum / count as f64))
    }
}

/// Adds the results of `grouping` to `totals`.
pub(super) fn finish(
    job: &Job,
    grouping: &Grouping,
    inputs: BTreeMap<(KeyValues, Window), Inputs>,
    totals: &mut BTreeMap<Place, Vec<Value>>,
) -> Result<(), Overflow> {
    let Some(top_k) = &grouping.top_k else {
        for ((key, window), inputs) in inputs {
            let place = Place { grouping: grouping.name.clone(), key, window, is_other: false };
            totals.insert(place, inputs.results(job, grouping)?);
        }
        return Ok(());
    };
    let mut lists: BTreeMap<(KeyValues, Window), Vec<(KeyValues, Inputs)>> = BTreeMap::new();
    for ((key, window), inputs) in inputs {
        let parent = masked(grouping, top_k, &key);
        lists.entry((parent, window)).or_default().push((key, inputs));
    }
    for ((parent, window), entries) in lists {
        list((job, grouping, top_k), (parent, window), entries, totals)?;
    }
    Ok(())
}

/// The key with its entity fields null: the parent key, in the layout of the entries.
fn masked(grouping: &Grouping, top_k: &TopKSpec, key: &KeyValues) -> KeyValues {
    let fields = grouping.key.iter().zip(&key.0);
    KeyValues(
        fields
            .map(
                |(column, value)| {
                    if top_k.entity.contains(&column.name) { Value::Null } else { value.clone() }
                },
            )
            .collect(),
    )
}

fn list(
    (job, grouping, top_k): (&Job, &Grouping, &TopKSpec),
    (parent, window): (KeyValues, Window),
    entries: Vec<(KeyValues, Inputs)>,
    totals: &mut BTreeMap<Place, Vec<Value>>,
) -> Result<(), Overflow> {
    let mut ranked = Vec::new();
    for (key, inputs) in entries {
        let results = inputs.results(job, grouping)?;
        let rank = rank(grouping, top_k, &results);
        let is_complete = top_k.require.iter().all(|name| {
            let field = grouping.key.iter().position(|column| column.name == *name);
            field.and_then(|field| key.0.get(field)).is_some_and(|value| *value != Value::Null)
        });
        // Those that may not be listed stand behind all others.
        ranked.push(((Reverse(is_complete), Reverse(rank)), key, inputs, results));
    }
    ranked.sort_by(|(a, a_key, ..), (b, b_key, ..)| {
        a.cmp(b).then_with(|| top_k.ties.order(a_key.cmp(b_key)))
    });
    let mut others = Inputs::default();
    let mut has_others = false;
    for (place, ((Reverse(is_complete), _), key, inputs, results)) in ranked.into_iter().enumerate()
    {
        if is_complete && place < top_k.k {
            let place = Place { grouping: grouping.name.clone(), key, window, is_other: false };
            totals.insert(place, results);
        } else {
            has_others = true;
            others.0.extend(inputs.0);
        }
    }
    if top_k.other && has_others {
        let place = Place { grouping: grouping.name.clone(), key: parent, window, is_other: true };
        let results = others.results(job, grouping)?.into_iter();
        // `other` is a total less the listed: what cannot be taken out of a total has no value.
        let results = results.zip(&grouping.aggregates).map(|(result, spec)| {
            if spec.function.is_subtractable() { result } else { Value::Null }
        });
        totals.insert(place, results.collect());
    }
    Ok(())
}

/// The sum of the aggregates that rank.
fn rank(grouping: &Grouping, top_k: &TopKSpec, results: &[Value]) -> i128 {
    let ranks = grouping.aggregates.iter().zip(results).map(|(spec, result)| match result {
        Value::Int(number) if top_k.rank.contains(&spec.name) => *number,
        Value::Int(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Object(_)
        | Value::Ip(_) => 0,
    });
    ranks.fold(0, i128::saturating_add)
}
