//! `--set path=value`: the last word on any setting.
//!
//! A path names tables by their keys, elements of an array by number from 0 or, where they have a
//! `name`, by that name (`group.HOSTS.top_k.k`). A value is TOML; what is not is a text. Every
//! argument is a text of its own, so that a mistake in it is shown where it was typed.

use super::node::{self, Entry, Node, NodeValue, Origin};
use super::place::{Place, Texts, has_credentials};
use super::problem::{Problems, help_on_names};
use nilometer_connectors::secret::secret_in;
use toml_edit::Key;

/// Applies the `--set` argument `argument` to the tree.
pub(crate) fn apply(root: &mut Node, argument: &str, texts: &mut Texts, problems: &mut Problems) {
    let text = texts.add("--set", argument);
    let whole = Place::new(text, 0..argument.len());
    let Some((path, value)) = argument.split_once('=') else {
        problems.add_with_help(
            whole,
            format!("`{argument}` does not set anything"),
            "write `--set path=value`, for example `--set watermark.out_of_orderness=1m`",
        );
        return;
    };
    let path_place = Place::new(text, 0..path.len());
    let value_place = Place::new(text, path.len() + 1..argument.len());
    if secret_in(argument).is_some() || has_credentials(value) {
        texts.hide(value_place);
    }
    let segments: Vec<_> = match Key::parse(path) {
        Ok(keys) => keys.iter().map(|key| key.get().to_owned()).collect(),
        Err(_) => {
            problems.add_with_help(
                path_place,
                format!("`{path}` is not a path"),
                "join names with points, and quote names that hold other than letters, digits, \
                 `_` and `-`: `group.\"a b\".mode`",
            );
            return;
        }
    };
    let node = node::from_literal(value, (value_place, Origin::Flag));
    insert(root, &segments, (node, path_place), problems);
}

fn insert(at: &mut Node, path: &[String], (node, place): (Node, Place), problems: &mut Problems) {
    let Some((name, rest)) = path.split_first() else {
        *at = node;
        return;
    };
    match &mut at.value {
        NodeValue::Table(entries) => {
            let index = entries.iter().position(|entry| entry.name == *name);
            let index = index.unwrap_or_else(|| {
                let empty = NodeValue::Table(Vec::new());
                let empty = Node::new(empty, place, Origin::Flag);
                entries.push(Entry { name: name.clone(), name_place: place, node: empty });
                entries.len() - 1
            });
            if let Some(entry) = entries.get_mut(index) {
                insert(&mut entry.node, rest, (node, place), problems);
            }
        }
        NodeValue::Array(elements) => match find(elements, name) {
            Ok(element) => insert(element, rest, (node, place), problems),
            Err(help) => {
                let message = format!("there is no element `{name}` to set a value in");
                problems.add_with_help(place, message, help);
            }
        },
        NodeValue::Text(_)
        | NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::Bool(_)
        | NodeValue::Date(_)
        | NodeValue::Wrong => {
            let message = format!("`{name}` cannot be set inside {}", at.kind());
            problems.add_with_help(place, message, "only tables and arrays have settings inside");
        }
    }
}

/// The element with that number or name, or what to say if there is none.
fn find<'a>(elements: &'a mut [Node], name: &str) -> Result<&'a mut Node, String> {
    let names: Vec<_> = elements.iter().map(|element| element.get("name")?.text()).collect();
    let by_name = names.iter().position(|known| *known == Some(name));
    let index = by_name.or_else(|| name.parse().ok()).filter(|index| *index < elements.len());
    let known: Vec<_> = names.iter().flatten().copied().collect();
    let help = match elements.len().checked_sub(1) {
        None => "the array is empty: set it as a whole".into(),
        Some(last) if known.is_empty() => format!("elements are numbered from 0 to {last}"),
        Some(_) => help_on_names(name, &known),
    };
    index.and_then(|index| elements.get_mut(index)).ok_or(help)
}
