//! Whole numbers with a unit: spans of time, sizes, and numbers of records.

use super::reader::{FromNode, Reader};
use super::scalar::or_variable;
use crate::config::node::{Node, NodeValue};
use nilometer_model::engine;
use nilometer_model::time::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;

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

/// Units of the length of a cycle beside those of time.
const RECORD_UNITS: [(&str, i64); 2] = [("record", 1), ("records", 1)];
const PACE_HELP: &str = "a span of time, \"10s\", or a number of records, \"100000 records\"";

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

/// A span of time, longer than nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period(pub Span);

impl FromNode for Period {
    const EXPECTED: &'static str = "a span of time";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let millis = read_quantity::<Self>(node, (&TIME_UNITS, TIME_HELP), reader)?;
        if millis < 1 {
            let message = format!("{} must be longer than nothing", reader.here());
            reader.problems.add_with_help(node.place, message, "the shortest is \"1ms\"");
            return None;
        }
        Some(Self(Span::from_millis(millis)))
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        time_schema("^\\+?[0-9]+ *(ms|s|m|h|d)$")
    }
}

/// When a cycle of micro-batches ends: after a span of time or a number of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace(pub engine::Pace);

impl FromNode for Pace {
    const EXPECTED: &'static str = "a span of time or a number of records";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let is_count = node.text().is_some_and(|text| text.contains("record"));
        let units: &[_] = if is_count { &RECORD_UNITS } else { &TIME_UNITS };
        let number = read_quantity::<Self>(node, (units, PACE_HELP), reader)?;
        let pace = match u64::try_from(number) {
            Ok(0) | Err(_) => {
                let message = format!("{} must be longer than nothing", reader.here());
                let help = "the shortest are \"1ms\" and \"1 record\"";
                reader.problems.add_with_help(node.place, message, help);
                return None;
            }
            Ok(records) if is_count => engine::Pace::Records(records),
            Ok(_) => engine::Pace::Every(Span::from_millis(number)),
        };
        Some(Self(pace))
    }
}

impl JsonSchema for Pace {
    fn schema_name() -> Cow<'static, str> {
        "Pace".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        time_schema("^\\+?[0-9]+ *(ms|s|m|h|d|records?)$")
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
