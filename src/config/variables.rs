//! `${NAME}` and `${NAME:-default}` in texts of a configuration.
//!
//! Only values of settings are searched, never their names. `$${` stands for a plain `${`.

use super::node::{Node, NodeValue, Origin};
use super::problem::Problems;

/// Looks up a variable of the environment.
pub type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Puts the values of variables in the place of their names, all over the tree.
pub(crate) fn interpolate(node: &mut Node, lookup: &Lookup<'_>, problems: &mut Problems) {
    match &mut node.value {
        NodeValue::Text(text) => match expand(text, lookup) {
            Ok(expanded) => {
                *text = expanded.text;
                node.has_variable = expanded.has_variable;
                if expanded.is_from_env {
                    node.origin = node.origin.max(Origin::Env);
                }
            }
            Err(wrong) => {
                let (message, help) = match wrong {
                    Wrong::Unset(name) => (
                        format!("the variable `{name}` is not set"),
                        format!("set it, or give a default: `${{{name}:-value}}`"),
                    ),
                    Wrong::Form(reference) => (
                        format!("`{reference}` is not the name of a variable"),
                        "write `${NAME}` or `${NAME:-default}`; `$${` is a plain `${`".into(),
                    ),
                };
                problems.add_with_help(node.place, message, help);
                node.value = NodeValue::Wrong;
            }
        },
        NodeValue::Array(nodes) => {
            nodes.iter_mut().for_each(|node| interpolate(node, lookup, problems));
        }
        NodeValue::Table(entries) => {
            entries.iter_mut().for_each(|entry| interpolate(&mut entry.node, lookup, problems));
        }
        NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::Bool(_)
        | NodeValue::Date(_)
        | NodeValue::Wrong => {}
    }
}

enum Wrong {
    Unset(String),
    Form(String),
}

struct Expanded {
    text: String,
    /// Whether a variable stood in it.
    has_variable: bool,
    /// Whether any of it came from the environment, and not from a default.
    is_from_env: bool,
}

/// The text with its variables replaced.
fn expand(text: &str, lookup: &Lookup<'_>) -> Result<Expanded, Wrong> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let (mut has_variable, mut is_from_env) = (false, false);
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let form = || Wrong::Form(format!("${{{after}"));
        let (reference, after) = after.split_once('}').ok_or_else(form)?;
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        let is_name = !name.is_empty()
            && !name.starts_with(|letter: char| letter.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !is_name {
            return Err(Wrong::Form(format!("${{{reference}}}")));
        }
        has_variable = true;
        // As in a shell, `:-` also stands in for a variable that is set to nothing.
        match (lookup(name), default) {
            (Some(value), default) if default.is_none() || !value.is_empty() => {
                is_from_env = true;
                out.push_str(&value);
            }
            (_, Some(default)) => out.push_str(default),
            (_, None) => return Err(Wrong::Unset(name.into())),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(Expanded { text: out, has_variable, is_from_env })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_by_their_values() {
        for (text, expected, is_from_env) in [
            ("plain $A {A}", "plain $A {A}", false),
            ("${A}", "one", true),
            ("x-${A}/${A}.y", "x-one/one.y", true),
            ("${NONE:-two}", "two", false),
            ("${NONE:-}", "", false),
            ("${A:-two}", "one", true),
            ("${EMPTY:-two}", "two", false),
            ("${EMPTY}", "", true),
            ("$${A} ${A}", "${A} one", true),
            ("$${A}", "${A}", false),
        ] {
            let expanded = expand(text, &lookup).ok().unwrap();
            assert_eq!((&*expanded.text, expanded.is_from_env), (expected, is_from_env), "{text}");
        }
    }

    #[test]
    fn what_is_unset_or_malformed_is_said() {
        for (text, expected) in [
            ("${NONE}", "unset NONE"),
            ("a ${A", "form ${A"),
            ("${}", "form ${}"),
            ("${1A}", "form ${1A}"),
            ("${A B}", "form ${A B}"),
        ] {
            let wrong = match expand(text, &lookup) {
                Err(Wrong::Unset(name)) => format!("unset {name}"),
                Err(Wrong::Form(reference)) => format!("form {reference}"),
                Ok(expanded) => expanded.text,
            };
            assert_eq!(wrong, expected, "{text}");
        }
    }
}
