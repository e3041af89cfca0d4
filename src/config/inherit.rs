//! `[defaults]`: what groups take over unless they say otherwise.
//!
//! Works on the tree, so that what is inherited keeps the place where it was typed and shows in
//! the list of effective settings like anything else.

use super::node::{Entry, Node, NodeValue};

/// Gives every group the defaults that it does not set itself. Aggregates come before those of
/// the group, by name; an `emit` completes that of the group, a `top_k` that of a group that has one.
/// Aggregates and lists name fields of records: a group that reads results takes over neither.
pub(crate) fn inherit(root: &mut Node) {
    let Some(defaults) = root.get("defaults").and_then(Node::entries) else { return };
    let defaults = defaults.to_vec();
    let NodeValue::Table(entries) = &mut root.value else { return };
    let groups = entries.iter_mut().find(|entry| entry.name == "group");
    let Some(NodeValue::Array(groups)) = groups.map(|entry| &mut entry.node.value) else { return };
    for group in groups {
        if let NodeValue::Table(group) = &mut group.value {
            defaults.iter().for_each(|default| inherit_entry(group, default));
        }
    }
}

fn inherit_entry(group: &mut Vec<Entry>, default: &Entry) {
    let reads_results = group.iter().any(|entry| entry.name == "of");
    if reads_results && matches!(default.name.as_str(), "aggregates" | "top_k") {
        return;
    }
    let own = group.iter_mut().find(|entry| entry.name == default.name);
    match (default.name.as_str(), own) {
        ("aggregates", Some(own)) => complete(&mut own.node, &default.node, true),
        ("emit" | "top_k", Some(own)) => complete(&mut own.node, &default.node, false),
        (
            "window" | "trigger" | "allow_closing" | "emit" | "allowed_lateness" | "mode" | "sinks"
            | "late" | "aggregates",
            None,
        ) => {
            group.push(default.clone());
        }
        // What is not a default of groups is reported where it was typed.
        _ => {}
    }
}

/// Adds to a table what only the defaults have.
fn complete(own: &mut Node, defaults: &Node, come_first: bool) {
    let (NodeValue::Table(own), NodeValue::Table(defaults)) = (&mut own.value, &defaults.value)
    else {
        return;
    };
    let is_missing = |default: &&Entry| !own.iter().any(|entry| entry.name == default.name);
    let missing: Vec<_> = defaults.iter().filter(is_missing).cloned().collect();
    let at = if come_first { 0 } else { own.len() };
    own.splice(at..at, missing);
}
