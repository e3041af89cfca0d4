//! Single values with units and bounds: texts, numbers, spans of time, sizes, names of choices.
//!
//! A number may also come as a text where a variable of the environment gave it.

use super::reader::{FromNode, Reader};
use crate::config::node::{Node, NodeValue, Origin};
use crate::config::problem::help_on_names;
use nilometer_model::time::Span;
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
            NodeValue::Text(text) if node.origin != Origin::Default => match text.as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            _ => None,
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
            NodeValue::Text(text) if node.origin == Origin::Env => text.parse().ok(),
            _ => None,
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

/// A number between 0 and `MAX`, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio<const MAX: i64>(pub(crate) f64);

impl<const MAX: i64> FromNode for Ratio<MAX> {
    const EXPECTED: &'static str = "a number";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let number = match &node.value {
            NodeValue::Int(number) => Some(*number as f64),
            NodeValue::Float(number) => Some(*number),
            NodeValue::Text(text) if node.origin == Origin::Env => text.parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            reader.refuse_kind::<Self>(node);
            return None;
        };
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

/// Units of time and their milliseconds, the longest first.
const TIME_UNITS: [(&str, i64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const TIME_HELP: &str = "a whole number and a unit: \"500ms\", \"60s\", \"2m\", \"4h\", \"1d\"";

/// Units of size and their bytes.
const SIZE_UNITS: [(&str, i64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const SIZE_HELP: &str = "a whole number and a unit: \"512B\", \"64KiB\", \"10MB\", \"1GiB\"";

enum BadQuantity {
    Form,
    TooLarge,
}

/// Reads a whole number, which may have a sign, and its unit.
fn quantity(text: &str, units: &[(&str, i64)]) -> Result<i64, BadQuantity> {
    let digits_end = text.rfind(|letter: char| letter.is_ascii_digit()).map_or(0, |last| last + 1);
    let (number, unit) = text.split_at(digits_end);
    let unit = unit.trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or(BadQuantity::Form)?;
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    if digits.is_empty() || !digits.chars().all(|letter| letter.is_ascii_digit()) {
        return Err(BadQuantity::Form);
    }
    let number: i64 = number.parse().map_err(|_| BadQuantity::TooLarge)?;
    number.checked_mul(*factor).ok_or(BadQuantity::TooLarge)
}

/// Reads a quantity; reports what is wrong with it.
fn read_quantity<T: FromNode>(
    node: &Node,
    (units, help): (&[(&str, i64)], &str),
    reader: &mut Reader<'_>,
) -> Option<i64> {
    let here = reader.here();
    let (message, help) = match &node.value {
        NodeValue::Text(text) => match quantity(text, units) {
            Ok(number) => return Some(number),
            Err(BadQuantity::Form) => (format!("{here}: `{text}` is not {}", T::EXPECTED), help),
            Err(BadQuantity::TooLarge) => (format!("{here}: `{text}` is too large"), help),
        },
        NodeValue::Int(number) => (format!("{here}: {number} lacks a unit"), help),
        _ => {
            reader.refuse_kind::<T>(node);
            return None;
        }
    };
    reader.problems.add_with_help(node.place, message, help);
    None
}

fn time_schema(pattern: &str) -> Schema {
    or_variable(serde_json::json!({ "type": "string", "pattern": pattern }))
}

/// A span of time, not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length(pub Span);

impl FromNode for Length {
    const EXPECTED: &'static str = "a span of time";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let millis = read_quantity::<Self>(node, (&TIME_UNITS, TIME_HELP), reader)?;
        if millis < 0 {
            let message = format!("{} must not be negative", reader.here());
            reader.problems.add_with_help(node.place, message, TIME_HELP);
            return None;
        }
        Some(Self(Span::from_millis(millis)))
    }
}

impl JsonSchema for Length {
    fn schema_name() -> Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        time_schema("^\\+?[0-9]+ *(ms|s|m|h|d)$")
    }
}

/// A span of time, or `"off"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub Option<Span>);

impl FromNode for Limit {
    const EXPECTED: &'static str = "a span of time or \"off\"";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if node.text() == Some("off") {
            return Some(Self(None));
        }
        let millis = read_quantity::<Self>(node, (&TIME_UNITS, TIME_HELP), reader)?;
        if millis <= 0 {
            let message = format!("{} must be longer than nothing", reader.here());
            reader.problems.add_with_help(node.place, message, "no limit is \"off\"");
            return None;
        }
        Some(Self(Some(Span::from_millis(millis))))
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        time_schema("^(off|\\+?[0-9]+ *(ms|s|m|h|d))$")
    }
}

/// A shift in time, in milliseconds; may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shift(pub i64);

impl FromNode for Shift {
    const EXPECTED: &'static str = "a span of time";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        read_quantity::<Self>(node, (&TIME_UNITS, TIME_HELP), reader).map(Self)
    }
}

impl JsonSchema for Shift {
    fn schema_name() -> Cow<'static, str> {
        "Shift".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        time_schema("^[+-]?[0-9]+ *(ms|s|m|h|d)$")
    }
}

/// A number of bytes, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub usize);

impl FromNode for Size {
    const EXPECTED: &'static str = "a size";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let bytes = read_quantity::<Self>(node, (&SIZE_UNITS, SIZE_HELP), reader)?;
        match usize::try_from(bytes) {
            Ok(bytes) if bytes > 0 => Some(Self(bytes)),
            _ => {
                let message = format!("{} must be at least one byte", reader.here());
                reader.problems.add_with_help(node.place, message, SIZE_HELP);
                None
            }
        }
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        time_schema("^\\+?[0-9]+ *(B|kB|MB|GB|KiB|MiB|GiB)$")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_whole_numbers_with_a_unit() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("60s", Some(60_000)),
            ("2 m", Some(120_000)),
            ("4h", Some(14_400_000)),
            ("1d", Some(86_400_000)),
            ("0s", Some(0)),
            ("-5m", Some(-300_000)),
            ("106751991167d", Some(9_223_372_036_828_800_000)),
            ("106751991168d", None),
            ("99999999999999999999ms", None),
            ("1.5h", None),
            ("h", None),
            ("", None),
            ("5", None),
            ("5 parsecs", None),
            ("1m30s", None),
            ("--5m", None),
            ("٣s", None),
        ] {
            assert_eq!(quantity(text, &TIME_UNITS).ok(), expected, "{text}");
        }
        for (text, expected) in
            [("64KiB", Some(65_536)), ("10MB", Some(10_000_000)), ("1kib", None)]
        {
            assert_eq!(quantity(text, &SIZE_UNITS).ok(), expected, "{text}");
        }
    }
}
