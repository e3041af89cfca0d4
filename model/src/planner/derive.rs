//! Who reads what: picks the cheapest parent of each grouping, and says why not the others.
//!
//! Facts in, decision out: groupings are compared by name and window only; nothing is compiled.

use crate::plan::{Grouping, Job, KeyColumn, Rejected};
use crate::window::display_span;
use std::cmp::Reverse;

/// A stage to be: its grouping, and the grouping whose panes it reads.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Index of the grouping in the job.
    pub(super) grouping: usize,
    /// Index of the grouping whose full sums it regroups; `None` reads records.
    pub(super) parent: Option<usize>,
    /// Whether another grouping regroups this one's full sums.
    pub(super) is_parent: bool,
    /// Why.
    pub(super) reason: String,
    /// The groupings not chosen.
    pub(super) rejected: Vec<Rejected>,
}

/// A node for every grouping, parents before children.
pub(super) fn derive(job: &Job) -> Vec<Node> {
    let mut nodes: Vec<_> = (0..job.groupings.len()).map(|index| choose(job, index)).collect();
    let parents: Vec<_> = nodes.iter().filter_map(|node| node.parent).collect();
    for node in &mut nodes {
        node.is_parent = parents.contains(&node.grouping);
    }
    // A parent has a finer key or a finer window than its child, or the same and a lower index:
    // following parents ends, and depth orders them.
    let depths: Vec<_> = nodes.iter().map(|node| depth(&nodes, node)).collect();
    let mut order: Vec<_> = depths.into_iter().zip(nodes.drain(..)).collect();
    order.sort_by_key(|(depth, node)| (*depth, node.grouping));
    order.into_iter().map(|(_, node)| node).collect()
}

fn depth(nodes: &[Node], node: &Node) -> usize {
    let mut depth = 0;
    let mut parent = node.parent;
    while let Some(above) = parent {
        depth += 1;
        parent = nodes.get(above).and_then(|node| node.parent);
    }
    depth
}

/// What is not to choose: what a grouping of results, or a sequence, reads.
fn given(job: &Job, index: usize, grouping: &Grouping) -> Option<Node> {
    let (parent, reason) = match &grouping.of {
        Some(of) => (
            job.groupings.iter().position(|parent| parent.name == of.grouping),
            format!(
                "groups the results of {}, as they change: minus the old, plus the new",
                of.grouping
            ),
        ),
        None if grouping.sequence.is_some() => {
            (None, "reads records: it needs each of them, in order".to_owned())
        }
        None => return None,
    };
    Some(Node { grouping: index, parent, is_parent: false, reason, rejected: Vec::new() })
}

fn choose(job: &Job, index: usize) -> Node {
    let mut rejected = Vec::new();
    let mut best: Option<(usize, Cost)> = None;
    let Some(grouping) = job.groupings.get(index) else {
        return Node {
            grouping: index,
            parent: None,
            is_parent: false,
            reason: String::new(),
            rejected,
        };
    };
    if let Some(node) = given(job, index, grouping) {
        return node;
    }
    for (other, parent) in job.groupings.iter().enumerate() {
        if other == index || !job.cascade {
            continue;
        }
        let is_later_twin = other > index && is_same_level(job, grouping, parent);
        let refusal = why_not(job, grouping, parent).or_else(|| {
            is_later_twin
                .then(|| "it has the same key and window, and regroups this one".to_owned())
        });
        if let Some(reason) = refusal {
            rejected.push(Rejected { parent: parent.name.clone(), reason });
            continue;
        }
        let cost = cost(parent);
        let loser = match best {
            Some((_, best_cost)) if best_cost <= cost => other,
            Some((previous, _)) => {
                best = Some((other, cost));
                previous
            }
            None => {
                best = Some((other, cost));
                continue;
            }
        };
        if let Some(loser) = job.groupings.get(loser) {
            rejected.push(Rejected {
                parent: loser.name.clone(),
                reason: "possible, but its panes are more: a finer key or window".to_owned(),
            });
        }
    }
    let parent = best.map(|(parent, _)| parent);
    let reason = match parent.and_then(|parent| job.groupings.get(parent)) {
        Some(parent) => format!(
            "regroups the panes of {}: the smallest key that holds ({})",
            parent.name,
            columns(grouping).join(", ")
        ),
        None if !job.cascade => "reads records: the cascade is switched off".to_owned(),
        None if rejected.is_empty() => "reads records: it is the only grouping".to_owned(),
        None => "reads records: no other grouping holds what it needs".to_owned(),
    };
    Node { grouping: index, parent, is_parent: false, reason, rejected }
}

/// Lower is cheaper: fewer key columns, then fewer panes per time.
type Cost = (usize, Reverse<i64>);

fn cost(parent: &Grouping) -> Cost {
    use crate::window::WindowFn;
    let length = match parent.window {
        WindowFn::Global => i64::MAX,
        WindowFn::Fixed { size, .. } => size.as_millis(),
        WindowFn::Calendar(calendar) => calendar.nominal().as_millis(),
        // Nothing regroups these.
        WindowFn::Sliding { .. } | WindowFn::Session { .. } | WindowFn::Custom(_) => 0,
    };
    (parent.key.len(), Reverse(length))
}

fn columns(grouping: &Grouping) -> Vec<&str> {
    grouping.key.iter().map(|column| &*column.name).collect()
}

/// Whether each could regroup the other; by transitivity the lower index may then be the parent.
fn is_same_level(job: &Job, a: &Grouping, b: &Grouping) -> bool {
    why_not(job, a, b).is_none() && why_not(job, b, a).is_none()
}

/// Where a column of a child comes from in its parent: the parent's columns, one for each copy.
pub(super) fn column_sources(child: &KeyColumn, parent: &Grouping) -> Option<Vec<usize>> {
    // The parent has the very column, copies and all.
    if let Some(index) = parent.key.iter().position(|column| column.each == child.each) {
        return Some(vec![index]);
    }
    child
        .each
        .iter()
        .map(|field| {
            let is_field =
                |column: &KeyColumn| matches!(column.each.as_slice(), [only] if only == field);
            parent.key.iter().position(is_field)
        })
        .collect()
}

/// Where an aggregate of a child comes from: the parent's aggregates, one for each copy.
pub(super) fn aggregate_sources(
    child: &crate::plan::AggregateSpec,
    parent: &Grouping,
) -> Option<Vec<usize>> {
    let find = |fields: &[Box<str>]| {
        parent.aggregates.iter().position(|aggregate| {
            aggregate.function.kept() == child.function.kept()
                && aggregate.spread == child.spread
                && aggregate.fields == fields
        })
    };
    if let Some(index) = find(&child.fields) {
        return Some(vec![index]);
    }
    if child.fields.len() < 2 {
        return None;
    }
    child.fields.iter().map(|field| find(std::slice::from_ref(field))).collect()
}

/// Why `child` cannot regroup the panes of `parent`; `None` if it can.
fn why_not(job: &Job, child: &Grouping, parent: &Grouping) -> Option<String> {
    if let Some(of) = &parent.of {
        return Some(format!("it groups the results of {}, not records", of.grouping));
    }
    if parent.sequence.is_some() {
        return Some("it judges records, and does not add them up".to_owned());
    }
    for column in &child.key {
        if column_sources(column, parent).is_none() {
            return Some(format!("its key has no `{}`", column.name));
        }
    }
    // Copies that the parent made must be asked for by the child too: else it counts them twice.
    let makes_copies = parent.key.iter().find(|column| column.each.len() > 1);
    if let Some(made) = makes_copies {
        let is_wanted = child.key.iter().any(|column| column.each == made.each);
        let makes_more = child
            .key
            .iter()
            .any(|column| column_sources(column, parent).is_some_and(|sources| sources.len() > 1));
        if !is_wanted || makes_more {
            return Some(format!("it counts a record once for each `{}`", made.name));
        }
    }
    for aggregate in &child.aggregates {
        let sources = aggregate_sources(aggregate, parent);
        if sources.is_none_or(|sources| makes_copies.is_some() && sources.len() > 1) {
            return Some(format!("it has no aggregate to make `{}` of", aggregate.name));
        }
    }
    if parent.window.is_merging() {
        return Some("its windows merge, each key's by themselves".to_owned());
    }
    if child.window.is_merging() {
        return Some("its panes do not tell the times that sessions are made of".to_owned());
    }
    if child.trigger.reads_results() {
        return Some(format!("{} is asked of its own results, not of these", child.trigger));
    }
    let has_same_trigger = child.trigger.to_string() == parent.trigger.to_string();
    if !child.trigger.is_default() && !has_same_trigger {
        return Some(format!("it fires when {} says, not {}", parent.trigger, child.trigger));
    }
    if let Some(reason) = parent.window.why_not_nested_in(child.window) {
        return Some(reason);
    }
    if let Some(reason) = why_not_shifted(job, child, parent) {
        return Some(reason);
    }
    let waits = |grouping: &Grouping| display_span(grouping.allowed_lateness);
    if child.allowed_lateness < parent.allowed_lateness {
        return Some(format!(
            "its allowed lateness ({}) is longer than this one's ({})",
            waits(parent),
            waits(child)
        ));
    }
    if child.allowed_lateness > parent.allowed_lateness {
        return Some(format!(
            "its allowed lateness ({}) is shorter than this one's ({}): it drops what this one takes",
            waits(parent),
            waits(child)
        ));
    }
    None
}

/// Why not, where windows are shifted by the key.
fn why_not_shifted(job: &Job, child: &Grouping, parent: &Grouping) -> Option<String> {
    if !parent.window.is_by_key() || parent.window != child.window {
        return None;
    }
    // Keys of one rolled-up key would have different windows, unless what shifts them is kept.
    let has = |column: &KeyColumn| child.key.iter().any(|kept| kept.each == column.each);
    let lost = match &job.phase {
        Some(phase) => parent.key.iter().find(|column| column.name == phase.column && !has(column)),
        None => parent.key.iter().find(|column| !has(column)),
    };
    if let Some(lost) = lost {
        return Some(format!("its windows are shifted by `{}`, which this key lacks", lost.name));
    }
    let is_same = |(own, other): (&KeyColumn, &KeyColumn)| own.each == other.each;
    let is_same_key =
        child.key.len() == parent.key.len() && child.key.iter().zip(&parent.key).all(is_same);
    (job.phase.is_none() && !is_same_key)
        .then(|| "its windows are shifted by a hash of its key, column by column".to_owned())
}
