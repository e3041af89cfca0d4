//! The exact results of aggregates without a fixed size, from all values that came.
//!
//! What the engine approximates is exact here; whoever compares them knows the error. Lists are
//! those that the engine gives as long as it counts all values.

use super::KeyValues;
use crate::aggregate::side::SideFunction;
use crate::time::EventTime;
use crate::value::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The result of `function` over values and the times of their records.
pub(super) fn result(function: SideFunction, mut values: Vec<(EventTime, &Value)>) -> Value {
    match function {
        SideFunction::Distinct { .. } => Value::Int(counts(&values).len() as i128),
        SideFunction::Quantile { p, .. } => {
            values.sort_by(|(_, a), (_, b)| a.compare(b));
            let last = values.len().saturating_sub(1) as u128;
            // Of n values the one at place floor(p (n - 1)).
            let place = usize::try_from(last * u128::from(p.0) / 1_000_000).unwrap_or(0);
            values.get(place).map_or(Value::Null, |(_, value)| (*value).clone())
        }
        SideFunction::Frequent { k, .. } => {
            let counts = counts(&values);
            let mut all: Vec<_> = counts.into_iter().collect();
            all.sort_by_key(|(_, count)| Reverse(*count));
            let shown = all.iter().take(k as usize).map(|(value, count)| {
                format!("{{\"value\":{},\"count\":{count},\"error\":0}}", json(&value.0))
            });
            let shown: Vec<_> = shown.collect();
            let rest = all.get(k as usize).map_or(0, |(_, count)| *count);
            let entries = shown.join(",");
            Value::Object(format!("{{\"entries\":[{entries}],\"others_at_most\":{rest}}}").into())
        }
        SideFunction::Collect { values_max, bytes_max } => {
            values.sort_by(|(a_time, a), (b_time, b)| a_time.cmp(b_time).then(a.compare(b)));
            let (mut shown, mut bytes) = (Vec::new(), 0);
            for (_, value) in &values {
                bytes += SideFunction::COLLECT_OVERHEAD as usize + text_bytes(value);
                if shown.len() == values_max as usize || bytes > bytes_max as usize {
                    break;
                }
                shown.push(json(std::slice::from_ref(*value)));
            }
            let (left_out, shown) = (values.len() - shown.len(), shown.join(","));
            Value::Object(format!("{{\"values\":[{shown}],\"left_out\":{left_out}}}").into())
        }
        // The one function that is its own definition.
        SideFunction::Custom(custom) => custom.finish_all(values),
    }
}

/// How often each value came, in the order of values.
fn counts(values: &[(EventTime, &Value)]) -> BTreeMap<KeyValues, u64> {
    let mut counts = BTreeMap::new();
    for (_, value) in values {
        *counts.entry(KeyValues(vec![(*value).clone()])).or_default() += 1;
    }
    counts
}

fn json(values: &[Value]) -> String {
    let mut text = String::new();
    for value in values {
        value.write_json(&mut text);
    }
    text
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) | Value::Object(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Ip(_) => 0,
    }
}
