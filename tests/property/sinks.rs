//! What sinks hold after a sequence of panes, and whether the sequence kept the rules on the way.

use crate::windows::only_grows;
use crate::world::Seen;
use nilometer_model::aggregate::side::SideFunction;
use nilometer_model::aggregate::{AggregateLayout, Function};
use nilometer_model::batch::KeyValues;
pub(crate) use nilometer_model::batch::Place;
use nilometer_model::invariant::{PANE_1, PANE_2};
use nilometer_model::pane::{AccumulationMode, PaneKind, PaneMeta, TimestampCombiner, Timing};
use nilometer_model::plan::{Plan, Stage, StageKind};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::Window;
use nilometer_model::value::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The place of a copy with this packed key and window in `stage`.
pub(crate) fn place_of(stage: &Stage, (key, window): (&[u64], Window), symbols: &Symbols) -> Place {
    Place {
        grouping: stage.name.strip_suffix("/all").unwrap_or(&stage.name).into(),
        key: KeyValues(stage.key.values(key, symbols)),
        window,
        is_other: false,
    }
}

/// What is known of one place.
#[derive(Debug, Clone)]
struct Known {
    /// The result; `None` where panes do not tell it (a mean of means).
    merged: Vec<Option<Value>>,
    last: Seen,
}

/// The contents of all sinks.
pub(crate) struct Sinks {
    known: BTreeMap<Place, Known>,
    /// Places whose last pane has come.
    ended: BTreeSet<Place>,
    /// Index of the last firing of a list.
    lists: BTreeMap<(Box<str>, KeyValues, Window), u32>,
}

impl Sinks {
    /// Takes panes in order; an error says which rule one of them breaks.
    pub(crate) fn of(plan: &Plan, panes: &[Seen]) -> Result<Self, String> {
        let mut sinks =
            Self { known: BTreeMap::new(), ended: BTreeSet::new(), lists: BTreeMap::new() };
        // What was taken back and waits for what replaces it.
        let mut replaced: Vec<Place> = Vec::new();
        for pane in panes {
            let stage = &plan.stages[pane.stage.index()];
            let place = Place {
                grouping: stage.name.clone(),
                key: pane.key.clone(),
                window: pane.meta.window,
                is_other: pane.meta.is_other,
            };
            let broken = |rule: &str| format!("{rule}: {place:?}: {pane:?}");
            check_alone(stage, pane).map_err(broken)?;
            let is_list = stage.kind == StageKind::TopK;
            let is_known = replaced.iter().all(|taken| {
                let is_same_key = taken.grouping == place.grouping && taken.key == place.key;
                is_same_key && (*taken == place || stage.window.is_merging())
            });
            if !is_list && !is_known {
                return Err(broken("a retract does not stand before its insert"));
            }
            match pane.meta.kind {
                PaneKind::Retract => {
                    sinks.retract(stage, &place, pane).map_err(broken)?;
                    if !is_list {
                        replaced.push(place);
                    }
                }
                PaneKind::Insert => {
                    sinks.insert(stage, place.clone(), pane)?;
                    // Windows that were merged away leave nothing.
                    for gone in replaced.drain(..).filter(|gone| *gone != place) {
                        sinks.known.remove(&gone);
                        sinks.ended.insert(gone);
                    }
                }
            }
        }
        if replaced.is_empty() { Ok(sinks) } else { Err(format!("nothing replaces {replaced:?}")) }
    }

    /// What sinks hold once windows that became part of others count with these: in a mode that
    /// takes nothing back, what was sent for them stays. `wanted` are the windows that there are.
    pub(crate) fn settle(
        mut self,
        plan: &Plan,
        wanted: &BTreeMap<&Place, &Vec<Value>>,
    ) -> Result<Self, String> {
        let parts: Vec<_> =
            self.places().filter(|place| !wanted.contains_key(place)).cloned().collect();
        for part in parts {
            let stage = plan.stage(&part.grouping).filter(|stage| stage.window.is_merging());
            let Some(stage) = stage else { continue };
            if stage.mode == AccumulationMode::Retracting {
                return Err(format!("merged away and not taken back: {part:?}"));
            }
            let holds = |whole: &&&Place| {
                let is_same_key = whole.grouping == part.grouping && whole.key == part.key;
                is_same_key && whole.window.covers(part.window)
            };
            // Another that holds it began when this one was gone, and so ends later.
            let whole = wanted.keys().filter(holds).min_by_key(|whole| whole.window.end());
            if whole.is_none() && only_grows(stage.window) {
                return Err(format!("part of nothing: {part:?}"));
            }
            let Some(known) = self.known.remove(&part) else { continue };
            let whole = whole.and_then(|whole| self.known.get_mut(*whole));
            if let (Some(whole), AccumulationMode::Discarding) = (whole, stage.mode) {
                whole.merged = merge(&stage.aggregates, &whole.merged, &known.merged);
            }
        }
        Ok(self)
    }

    fn retract(&mut self, stage: &Stage, place: &Place, pane: &Seen) -> Result<(), &'static str> {
        if self.ended.contains(place) && !stage.window.is_merging() {
            return Err("a retract after the last pane");
        }
        let Some(known) = self.known.remove(place) else { return Err("retract of nothing") };
        if stage.kind != StageKind::TopK && stage.mode != AccumulationMode::Retracting {
            return Err("retract in a mode without");
        }
        let (sent, taken) = (&known.last.meta, &pane.meta);
        if (sent.index, sent.timing) != (taken.index, taken.timing) || taken.is_last {
            return Err("a retract repeats index and timing");
        }
        // A list that sends deltas takes back the sum of what it sent.
        let differs =
            known.merged.iter().zip(&pane.values).any(|(merged, value)| {
                merged.as_ref().is_some_and(|merged| !is_same(merged, value))
            });
        if differs {
            return Err("a retract repeats the values");
        }
        if stage.kind != StageKind::TopK {
            // The insert that follows goes on counting.
            self.known.insert(place.clone(), Known { merged: Vec::new(), last: pane.clone() });
        }
        Ok(())
    }

    fn insert(&mut self, stage: &Stage, place: Place, pane: &Seen) -> Result<(), String> {
        let broken = |rule: &str| Err(format!("{rule}: {place:?}: {pane:?}"));
        if self.ended.contains(&place) {
            return broken("a pane after the last");
        }
        let known = self.known.remove(&place);
        let before = known.as_ref().map(|known| known.last.meta.timing);
        let may_follow = match before {
            None | Some(Timing::Early) => true,
            Some(Timing::OnTime | Timing::TimedOut | Timing::Late) => {
                pane.meta.timing == Timing::Late
            }
        };
        if stage.kind == StageKind::TopK {
            let list = (stage.name.clone(), parent(stage, &pane.key), pane.meta.window);
            let last = self.lists.get(&list).copied();
            let next = last.map_or(0, |last| last + 1);
            if pane.meta.index != next && Some(pane.meta.index) != last {
                return broken(PANE_2);
            }
            self.lists.insert(list, pane.meta.index);
        } else {
            let next = known.as_ref().map_or(0, |known| known.last.meta.index + 1);
            if pane.meta.index != next {
                return broken(PANE_2);
            }
            if !may_follow {
                return broken(PANE_1);
            }
        }
        // The default trigger does not fire early.
        if pane.meta.timing == Timing::Early && stage.trigger.is_default() {
            return broken(PANE_1);
        }
        let is_retracted = known.as_ref().is_some_and(|known| known.merged.is_empty());
        let must_retract = stage.mode == AccumulationMode::Retracting;
        if known.is_some() && must_retract != is_retracted && !pane.values.is_empty() {
            return broken("an insert without its retract");
        }
        let values: Vec<_> = pane.values.iter().cloned().map(Some).collect();
        let merged = match (known, stage.mode) {
            (Some(known), AccumulationMode::Discarding) => {
                merge(&stage.aggregates, &known.merged, &values)
            }
            (Some(_) | None, _) => values,
        };
        if pane.meta.is_last && stage.kind != StageKind::TopK {
            self.ended.insert(place.clone());
        }
        self.known.insert(place, Known { merged, last: pane.clone() });
        Ok(())
    }

    /// Every place that sinks hold a result for.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.known.keys()
    }

    /// Whether sinks hold a result for `place`.
    pub(crate) fn has(&self, place: &Place) -> bool {
        self.known.contains_key(place)
    }

    /// What is held for `place` of one aggregate; `None` where panes do not tell it.
    pub(crate) fn result(&self, place: &Place, aggregate: usize) -> Option<&Value> {
        self.known.get(place)?.merged.get(aggregate)?.as_ref()
    }

    /// How what is held for `place` of `stage` differs from `expected`.
    pub(crate) fn differs(
        &self,
        stage: &Stage,
        place: &Place,
        expected: &[Value],
    ) -> Option<String> {
        let known = self.known.get(place)?;
        let functions = stage.aggregates.accumulators().iter().map(|known| known.function);
        let is_different = known.merged.len() != expected.len()
            || known.merged.iter().zip(expected).zip(functions).any(
                |((merged, expected), function)| {
                    merged.as_ref().is_some_and(|merged| !is_near(function, merged, expected))
                },
            );
        is_different.then(|| format!("sinks hold {:?}, the batch has {expected:?}", known.merged))
    }
}

/// What holds for a pane by itself.
fn check_alone(stage: &Stage, pane: &Seen) -> Result<(), &'static str> {
    if stage.sinks.is_empty() {
        return Err("a stage without sinks emits");
    }
    let PaneMeta { window, event_time, kind, .. } = pane.meta;
    let is_right = match stage.emission.timestamp {
        TimestampCombiner::EndOfWindow => event_time == window.last_instant(),
        TimestampCombiner::Earliest
        | TimestampCombiner::Latest
        | TimestampCombiner::EarliestTransformed => {
            let is_in = window.start() <= event_time && event_time <= window.last_instant();
            is_in || kind == PaneKind::Retract || !only_grows(stage.window)
        }
    };
    if is_right { Ok(()) } else { Err("event time") }
}

/// The fields of an entry's key that belong to its parent.
fn parent(stage: &Stage, key: &KeyValues) -> KeyValues {
    let Some(top_k) = &stage.top_k else { return key.clone() };
    let kept = key.0.iter().enumerate().filter(|(field, _)| !top_k.entity.contains(field));
    KeyValues(kept.map(|(_, value)| value.clone()).collect())
}

/// Whether `got` is within the stated error of the exact result.
pub(crate) fn is_near(function: Function, got: &Value, exact: &Value) -> bool {
    match (function, got, exact) {
        (
            Function::Side(SideFunction::Quantile { accuracy, .. }),
            Value::Float(got),
            Value::Int(_) | Value::Float(_),
        ) => {
            let exact = match exact {
                Value::Int(exact) => *exact as f64,
                Value::Float(exact) => *exact,
                _ => return false,
            };
            (got - exact).abs() <= exact.abs() * (accuracy.as_f64() + 1e-9)
        }
        (
            Function::Side(SideFunction::Frequent { counters, .. }),
            Value::Object(got),
            Value::Object(exact),
        ) => got == exact || are_within_errors(got, exact, counters),
        // Fewer than are kept one by one.
        (Function::Side(_), ..) => got == exact,
        // A root of nothing much.
        (Function::Variance { .. }, Value::Float(got), Value::Float(exact)) => {
            (got - exact).abs() <= 1e-6 * exact.abs().max(1.0)
        }
        _ => is_same(got, exact),
    }
}

/// Whether frequent values with so many counters are what Space-Saving promises; `exact` lists all.
fn are_within_errors(got: &str, exact: &str, counters: u32) -> bool {
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let (got, exact) = (json(got), json(exact));
    let entries = |list: &serde_json::Value| -> BTreeMap<String, (u64, u64)> {
        let entry = |entry: &serde_json::Value| {
            let number = |name: &str| entry[name].as_u64().unwrap();
            (entry["value"].to_string(), (number("count"), number("error")))
        };
        list["entries"].as_array().unwrap().iter().map(entry).collect()
    };
    let (listed, all) = (entries(&got), entries(&exact));
    let records: u64 = all.values().map(|(count, _)| count).sum();
    let others = got["others_at_most"].as_u64().unwrap();
    let is_right = |(value, (n, _)): (&String, &(u64, u64))| match listed.get(value) {
        Some((count, error)) => {
            count - error <= *n && n <= count && *error <= records / u64::from(counters)
        }
        None => *n <= others,
    };
    listed.keys().all(|value| all.contains_key(value)) && all.iter().all(is_right)
}

/// Two values are one result: floats are multiples of a quarter here, so sums are exact.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => {
            a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        _ => a == b,
    }
}

/// What a sink that adds deltas up has after one more.
fn merge(
    aggregates: &AggregateLayout,
    before: &[Option<Value>],
    delta: &[Option<Value>],
) -> Vec<Option<Value>> {
    let functions = aggregates.accumulators().iter().map(|accumulator| accumulator.function);
    let one = |((before, delta), function): ((&Option<Value>, &Option<Value>), Function)| {
        let (before, delta) = (before.as_ref()?, delta.as_ref()?);
        if matches!(function, Function::Mean | Function::Variance { .. } | Function::Side(_)) {
            // A mean without its count cannot be merged.
            return None;
        }
        if *delta == Value::Null {
            return Some(before.clone());
        }
        if *before == Value::Null {
            return Some(delta.clone());
        }
        let is_wanted = |order: Ordering| {
            let kept = if delta.compare(before) == order { delta } else { before };
            Some(kept.clone())
        };
        match (function, before, delta) {
            (Function::Count | Function::Sum, Value::Int(a), Value::Int(b)) => {
                Some(Value::Int(a + b))
            }
            (Function::Sum, Value::Float(a), Value::Float(b)) => Some(Value::Float(a + b)),
            (Function::Min, ..) => is_wanted(Ordering::Less),
            (Function::Max, ..) => is_wanted(Ordering::Greater),
            // Panes do not carry what it takes to merge these.
            _ => None,
        }
    };
    before.iter().zip(delta).zip(functions).map(one).collect()
}
