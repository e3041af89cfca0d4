//! Raw types of a group's aggregates.
//!
//! An aggregate is `"function(field)"`, or a table: one that says its `function`, or one in which a
//! setting named after the function says the field; that setting decides which others there are.

use super::lists::List;
use super::quantity::Size;
use super::reader::Presence::{Default, Optional, Required};
use super::reader::{FromNode, Given, Reader, Spanned};
use super::scalar::{Choice, Part, Whole, raw_names, read_choice};
use super::table::raw_table;
use super::text_or_table::RawFields;
use crate::config::node::{Node, NodeValue};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// An aggregate of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawAggregate {
    /// A function of a field, by name.
    Call(RawCall),
    /// A distinct count with its settings.
    Distinct(RawDistinct),
    /// A quantile.
    Quantile(RawQuantile),
    /// The most frequent values.
    Frequent(RawFrequent),
    /// The values themselves.
    Collect(RawCollect),
}

/// A function, and the field or fields that it takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RawCall {
    /// What it computes.
    pub(crate) function: Given<RawFunction>,
    /// The field.
    pub(crate) field: Given<String>,
    /// Several fields, in step with a column of several.
    pub(crate) each: Given<Vec<Spanned<String>>>,
}

raw_table! {
    /// An aggregate of one field, or of one field for each of a column's.
    pub(crate) struct RawAggregateTable {
        /// What it computes.
        function: RawFunction = Required,
        /// The field; none for `count`.
        field: String = Optional,
        /// The fields, in step with those of a key column that has `each`.
        each: List<String> = Optional,
    }
}

raw_names! {
    /// What an aggregate computes.
    pub(crate) enum RawFunction ("aggregate function") {
        /// Number of records.
        Count = "count",
        /// Sum.
        Sum = "sum",
        /// Smallest value.
        Min = "min",
        /// Largest value.
        Max = "max",
        /// Arithmetic mean.
        Mean = "mean",
        /// Value of the earliest record.
        First = "first",
        /// Value of the latest record.
        Last = "last",
        /// Variance of a population.
        Variance = "variance",
        /// Standard deviation of a population.
        Stddev = "stddev",
        /// Variance of a sample.
        VarianceSample = "variance_sample",
        /// Standard deviation of a sample.
        StddevSample = "stddev_sample",
        /// Number of different values.
        Distinct = "distinct",
        /// Value at a place in the order of all.
        Quantile = "quantile",
        /// Values that came most often.
        Frequent = "frequent",
        /// Values themselves.
        Collect = "collect",
    }
}

raw_table! {
    /// Number of different values: exact while there are few, then approximate.
    pub(crate) struct RawDistinct {
        /// The field, or one for each of those of a key column that has `each`.
        distinct: RawFields = Required,
        /// Two to this power is the number of registers, of a byte each: with 12 the standard error is 1.6 %, and each one more takes it down by a factor of 1.4.
        precision: Whole<4, 16> = Default("12"),
    }
}

raw_table! {
    /// The value below which a part of the values lies, approximately.
    pub(crate) struct RawQuantile {
        /// The field, of numbers, or one for each of those of a key column that has `each`.
        quantile: RawFields = Required,
        /// Which part: 0.5 is the median, 0.99 the 99th percentile. The ends are `min` and `max`.
        p: Part<1, 999_999> = Required,
        /// Largest relative error of the result.
        accuracy: Part<100, 500_000> = Default("0.01"),
    }
}

raw_table! {
    /// The values that came most often, each with how often at most, and by how much that may be too high.
    pub(crate) struct RawFrequent {
        /// The field, or one for each of those of a key column that has `each`.
        frequent: RawFields = Required,
        /// How many are shown.
        k: Whole<1, 10_000> = Default("10"),
        /// How many are counted, at least `k`, and ten times as many unless set: no count is too high by more than the number of records divided by this. While no more than twice as many different values come, all counts are exact.
        counters: Whole<1, 100_000> = Optional,
    }
}

raw_table! {
    /// The values themselves, the first by event time, and how many more there were.
    pub(crate) struct RawCollect {
        /// The field, or one for each of those of a key column that has `each`.
        collect: RawFields = Required,
        /// Most values.
        max: Whole<1, 1_000_000> = Required,
        /// Most bytes, of which a value takes 32 and those of its text; at most 64 MiB.
        max_bytes: Size = Required,
    }
}

/// The settings that say the function of a table.
const KINDS: [&str; 5] = ["function", "distinct", "quantile", "frequent", "collect"];

impl FromNode for RawAggregate {
    const EXPECTED: &'static str = "\"function(field)\" or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(text) => read_call(text, node, reader).map(Self::Call),
            NodeValue::Table(_) => read_table(node, reader),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

fn read_table(node: &Node, reader: &mut Reader<'_>) -> Option<RawAggregate> {
    let entries = node.entries().unwrap_or_default();
    let mut kinds = entries.iter().filter(|entry| KINDS.contains(&&*entry.name));
    let kind = kinds.next();
    if let (Some(kind), Some(second)) = (kind, kinds.next()) {
        let message = format!("{} is both `{}` and `{}`", reader.here(), kind.name, second.name);
        reader.problems.add_with_help(second.name_place, message, "leave one of them out");
        return None;
    }
    match kind.map(|kind| kind.name.as_str()) {
        Some("distinct") => RawDistinct::from_node(node, reader).map(RawAggregate::Distinct),
        Some("quantile") => RawQuantile::from_node(node, reader).map(RawAggregate::Quantile),
        Some("frequent") => RawFrequent::from_node(node, reader).map(RawAggregate::Frequent),
        Some("collect") => RawCollect::from_node(node, reader).map(RawAggregate::Collect),
        _ => {
            let table = RawAggregateTable::from_node(node, reader)?;
            let RawAggregateTable { function, field, each, .. } = table;
            Some(RawAggregate::Call(RawCall { function, field, each }))
        }
    }
}

/// Reads `function(field)`.
fn read_call(text: &str, node: &Node, reader: &mut Reader<'_>) -> Option<RawCall> {
    let call = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
    let Some((function, field)) = call else {
        let message = format!("{}: `{text}` is not {}", reader.here(), RawAggregate::EXPECTED);
        let names: Vec<_> = RawFunction::ALL.iter().map(|(name, _)| *name).collect();
        let help = format!("for example \"sum(bytes)\"; functions are {}", names.join(", "));
        reader.problems.add_with_help(node.place, message, help);
        return None;
    };
    let (function, field) = (function.trim(), field.trim());
    let part = |part: &str| {
        let start = text.find(part).unwrap_or(0);
        let place = node.place.inside(text.len(), start..start + part.len());
        Node::new(NodeValue::Text(part.into()), place, node.origin)
    };
    let function = part(function);
    let spanned = read_choice(&function, reader).map(|value| Spanned {
        value,
        place: function.place,
        origin: function.origin,
    });
    let field = if field.is_empty() {
        Given::Absent
    } else {
        let (value, node) = (field.to_owned(), part(field));
        Given::Value(Spanned { value, place: node.place, origin: node.origin })
    };
    let function = spanned.map_or(Given::Wrong, Given::Value);
    Some(RawCall { function, field, each: Given::Absent })
}

impl JsonSchema for RawAggregate {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Aggregate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string" },
            generator.subschema_for::<RawAggregateTable>(),
            generator.subschema_for::<RawDistinct>(),
            generator.subschema_for::<RawQuantile>(),
            generator.subschema_for::<RawFrequent>(),
            generator.subschema_for::<RawCollect>(),
        ] })
    }
}
