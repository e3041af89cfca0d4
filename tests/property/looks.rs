//! Looking at keys of a node that runs: whoever asks for one sees the same wherever it lies.

use crate::job::Style;
use crate::wide::Closing;
use crate::world::World;
use crate::{Case, cases, planned, play, run, wide_cases};
use nilometer_model::image::{Seen, WrittenKey};
use nilometer_model::plan::Stage;
use nilometer_model::value::Value;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};

/// A key of `stage` as somebody writes it who asks for it; of a list, the key that its entries share.
fn written(stage: &Stage, key: &[Value]) -> WrittenKey {
    let asked = stage.top_k.as_ref().map_or(&stage.key, |top_k| &top_k.parent).fields();
    let named = stage.key.fields().iter().zip(key);
    let named = named.filter(|(field, _)| asked.iter().any(|asked| asked.name == field.name));
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::Bool(truth) => Some(truth.to_string().into()),
        Value::Int(number) => Some(number.to_string().into()),
        Value::Float(number) => Some(number.to_string().into()),
        Value::Text(text) | Value::Object(text) => Some((**text).into()),
        Value::Ip(address) => Some(address.to_string().into()),
    };
    named.map(|(field, value)| (field.name.clone(), text(value))).collect()
}

/// The same case in the middle, within a budget, in a process that has seen no text.
fn halfway(case: &Case, budget: Option<usize>) -> World {
    let mut world = World::new(planned(case), case.shards, case.seed);
    if budget.is_some() {
        world.keep_within(budget);
    }
    play(&mut world, case, &case.script[..case.script.len() / 2], false);
    world.restart();
    world
}

/// Entries, and candidates of lists, in an order of their own: theirs is nobody's promise.
fn sorted(mut entries: Vec<Seen>) -> Vec<String> {
    let told = |entry: &dyn std::fmt::Debug| format!("{entry:?}");
    for window in entries.iter_mut().flat_map(|entry| &mut entry.view.windows) {
        window.listed.sort_by_key(|listed| told(listed));
    }
    let mut entries: Vec<_> = entries.iter().map(|entry| told(entry)).collect();
    entries.sort();
    entries
}

#[test]
fn a_key_is_seen_wherever_it_lies() {
    let strategy = prop_oneof![cases(Style::Any), wide_cases(Style::Any, Closing::Allowed)];
    let mut runner = TestRunner::deterministic();
    let mut seen_in_pages: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..200 {
        // Across shards order is nobody's promise.
        let case = Case { shards: 1, ..strategy.new_tree(&mut runner).unwrap().current() };
        let panes = run(&case, false).panes;
        let (mut free, mut tight) = (halfway(&case, None), halfway(&case, Some(1)));
        let plan = free.plan.clone();
        let keys = panes.iter().map(|pane| {
            let stage = &plan.stages[pane.stage.index()];
            (stage.id, written(stage, &pane.key.0))
        });
        for (stage, key) in keys.collect::<BTreeSet<_>>() {
            let (known, mut found) = (free.look(stage, &key), tight.look(stage, &key));
            for Seen { kind, is_cold, .. } in &mut found {
                let count = seen_in_pages.entry(kind.name()).or_default();
                *count += usize::from(std::mem::take(is_cold));
            }
            assert_eq!(sorted(known), sorted(found), "{key:?} of {stage:?}");
        }
    }
    for kind in ["windows", "slices", "machines", "lists"] {
        let count = seen_in_pages.get(kind).copied().unwrap_or_default();
        assert!(count > 20, "{kind}: {seen_in_pages:?}");
    }
}
