//! Single values with bounds: texts, numbers, names of choices.
//!
//! A number or truth value may also come as a text where a variable, or its default, gave it.

use super::reader::{FromNode, Reader};
use crate::config::node::{Node, NodeValue};
use crate::config::problem::help_on_names;
use nilometer_model::aggregate::side::Millionths;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value as Json;
use std::borrow::Cow;

/// Pattern of a text that has a variable in it, whatever the variable may hold.
const VARIABLE: &str = r"\$\{";

/// The schema of something that may also be given by a variable.
pub(crate) fn or_variable(schema: Json) -> Schema {
    json_schema!({ "anyOf": [schema, { "type": "string", "pattern": VARIABLE }] })
}

impl FromNode for String {
    const EXPECTED: &'static str = "a text";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(text) if text.is_empty() => {
                let message = format!("{} is empty", reader.here());
                reader.problems.add_with_help(node.place, message, "leave it out, or give a text");
                None
            }
            NodeValue::Text(text) => Some(text.clone()),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

impl FromNode for bool {
    const EXPECTED: &'static str = "`true` or `false`";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let given = match &node.value {
            NodeValue::Bool(truth) => Some(*truth),
            _ => node.variable_text().and_then(|text| text.parse().ok()),
        };
        if given.is_none() {
            reader.refuse_kind::<Self>(node);
        }
        given
    }
}

/// A whole number between `MIN` and `MAX`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole<const MIN: i64, const MAX: i64>(pub i64);

impl<const MIN: i64, const MAX: i64> Whole<MIN, MAX> {
    /// The number as a count; one below zero is none.
    pub(crate) fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }
}

impl<const MIN: i64, const MAX: i64> FromNode for Whole<MIN, MAX> {
    const EXPECTED: &'static str = "a whole number";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let number = match &node.value {
            NodeValue::Int(number) => Some(*number),
            _ => node.variable_text().and_then(|text| text.parse().ok()),
        };
        let Some(number) = number else {
            reader.refuse_kind::<Self>(node);
            return None;
        };
        if !(MIN..=MAX).contains(&number) {
            let message = format!("{} must not be {number}", reader.here());
            let help = if number < MIN {
                format!("the smallest that works is {MIN}")
            } else {
                format!("the largest that works is {MAX}")
            };
            reader.problems.add_with_help(node.place, message, help);
            return None;
        }
        Some(Self(number))
    }
}

impl<const MIN: i64, const MAX: i64> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Whole{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        or_variable(serde_json::json!({ "type": "integer", "minimum": MIN, "maximum": MAX }))
    }
}

/// The number that stands for a `T`, whole or not; anything else is refused.
fn number<T: FromNode>(node: &Node, reader: &mut Reader<'_>) -> Option<f64> {
    let number = match &node.value {
        NodeValue::Int(number) => Some(*number as f64),
        NodeValue::Float(number) => Some(*number),
        _ => node.variable_text().and_then(|text| text.parse().ok()),
    };
    if number.is_none() {
        reader.refuse_kind::<T>(node);
    }
    number
}

/// A number between 0 and `MAX`, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio<const MAX: i64>(pub(crate) f64);

impl<const MAX: i64> FromNode for Ratio<MAX> {
    const EXPECTED: &'static str = "a number";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let number = number::<Self>(node, reader)?;
        if !(0.0..=MAX as f64).contains(&number) {
            let message = format!("{} must not be {number}", reader.here());
            let help = format!("a number between 0 and {MAX}");
            reader.problems.add_with_help(node.place, message, help);
            return None;
        }
        Some(Self(number))
    }
}

impl<const MAX: i64> JsonSchema for Ratio<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("RatioTo{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        or_variable(serde_json::json!({ "type": "number", "minimum": 0, "maximum": MAX }))
    }
}

/// A part of one between `MIN` and `MAX` millionths, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<const MIN: u32, const MAX: u32>(pub Millionths);

impl<const MIN: u32, const MAX: u32> FromNode for Part<MIN, MAX> {
    const EXPECTED: &'static str = "a number";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let number = number::<Self>(node, reader)?;
        // What is out of the range of the type becomes one of its ends.
        let millionths = (number * f64::from(Millionths::ONE.0)).round() as u32;
        if number.is_nan() || !(MIN..=MAX).contains(&millionths) {
            let message = format!("{} must not be {number}", reader.here());
            let (low, high) = (Millionths(MIN), Millionths(MAX));
            let percent = number / 100.0;
            let is_percent = number >= 1.0 && percent <= high.as_f64();
            let meant =
                if is_percent { format!("; did you mean {percent}?") } else { String::new() };
            let help = format!("a number from {low} to {high}{meant}");
            reader.problems.add_with_help(node.place, message, help);
            return None;
        }
        Some(Self(Millionths(millionths)))
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Part<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Part{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let [low, high] = [Millionths(MIN), Millionths(MAX)].map(Millionths::as_f64);
        or_variable(serde_json::json!({ "type": "number", "minimum": low, "maximum": high }))
    }
}

/// One of several names. Implemented by `raw_names!`.
pub(crate) trait Choice: Sized + Copy + 'static {
    /// What it chooses, for messages.
    const WHAT: &'static str;
    /// Every choice and its name.
    const ALL: &'static [(&'static str, Self)];

    /// The name in configuration files.
    fn name(self) -> &'static str
    where
        Self: PartialEq,
    {
        Self::ALL.iter().find(|(_, choice)| *choice == self).map_or("", |(name, _)| *name)
    }
}

/// Reads a choice by its name.
pub(crate) fn read_choice<T: Choice + FromNode>(node: &Node, reader: &mut Reader<'_>) -> Option<T> {
    let Some(text) = node.text() else {
        reader.refuse_kind::<T>(node);
        return None;
    };
    let choice = T::ALL.iter().find(|(name, _)| *name == text);
    if choice.is_none() {
        let names: Vec<_> = T::ALL.iter().map(|(name, _)| *name).collect();
        let message = format!("{}: there is no {} `{text}`", reader.here(), T::WHAT);
        reader.problems.add_with_help(node.place, message, help_on_names(text, &names));
    }
    choice.map(|(_, choice)| *choice)
}

/// Declares an enum of which the configuration takes the names.
macro_rules! raw_names {
    (
        $(#[$meta:meta])*
        pub(crate) enum $name:ident ($what:literal) {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $crate::config::raw::scalar::Choice for $name {
            const WHAT: &'static str = $what;
            const ALL: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),*];
        }

        impl $crate::config::raw::reader::FromNode for $name {
            const EXPECTED: &'static str = concat!("the name of a ", $what);

            fn from_node(
                node: &$crate::config::node::Node,
                reader: &mut $crate::config::raw::reader::Reader<'_>,
            ) -> Option<Self> {
                $crate::config::raw::scalar::read_choice(node, reader)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).trim_start_matches("Raw").into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::config::raw::scalar::or_variable(serde_json::json!({ "enum": [$($text),*] }))
            }
        }
    };
}

pub(crate) use raw_names;
