//! Settings with a short form (a text) and a long one (a table, or an array).

use super::group::RawColumnTable;
use super::lists::List;
use super::reader::{FromNode, Reader};
use super::scalar::{Whole, read_choice};
use super::sink::RawLetterTopic;
use super::{RawFieldTable, RawType};
use crate::config::node::{Node, NodeValue};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// A key column: the name of a field, or a column of several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawColumn {
    /// A field under its own name.
    Field(String),
    /// Each of several fields.
    Each(RawColumnTable),
}

impl FromNode for RawColumn {
    const EXPECTED: &'static str = "the name of a field or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(_) => String::from_node(node, reader).map(Self::Field),
            NodeValue::Table(_) => RawColumnTable::from_node(node, reader).map(Self::Each),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

/// What an aggregate is computed of: a field, or each of several, in step with a key column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawFields {
    /// A field.
    One(String),
    /// Each of several fields.
    Each(List<String>),
}

impl FromNode for RawFields {
    const EXPECTED: &'static str = "the name of a field or an array of names";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(_) => String::from_node(node, reader).map(Self::One),
            NodeValue::Array(_) => List::from_node(node, reader).map(Self::Each),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

/// The type of a field, and perhaps where it is found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawField {
    /// A type.
    Type(RawType),
    /// A type and a place.
    From(RawFieldTable),
}

impl FromNode for RawField {
    const EXPECTED: &'static str = "the name of a type or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Table(_) => RawFieldTable::from_node(node, reader).map(Self::From),
            NodeValue::Text(_) => read_choice(node, reader).map(Self::Type),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

/// Where records go that cannot be used: a file, or a topic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawDeadLetters {
    /// A file.
    File(String),
    /// A topic, and perhaps a file.
    Topic(Box<RawLetterTopic>),
}

impl FromNode for RawDeadLetters {
    const EXPECTED: &'static str = "the name of a file or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(_) => String::from_node(node, reader).map(Self::File),
            NodeValue::Table(_) => {
                RawLetterTopic::from_node(node, reader).map(Box::new).map(Self::Topic)
            }
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

/// How many shards: a number, or as many as there are cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawShards {
    /// One per core.
    Cores,
    /// So many.
    Number(usize),
}

impl FromNode for RawShards {
    const EXPECTED: &'static str = "a whole number or \"cores\"";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if node.text() == Some("cores") {
            return Some(Self::Cores);
        }
        if matches!(node.value, NodeValue::Int(_) | NodeValue::Text(_)) {
            let number = Whole::<1, 1024>::from_node(node, reader)?;
            return Some(Self::Number(number.count()));
        }
        reader.refuse_kind::<Self>(node);
        None
    }
}

/// When generated records begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawStart {
    /// Now, and in real time.
    Now,
    /// At this event time, in milliseconds since the Unix epoch.
    At(i64),
}

impl FromNode for RawStart {
    const EXPECTED: &'static str = "a time in RFC 3339 or \"now\"";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if node.text() == Some("now") {
            return Some(Self::Now);
        }
        read_time::<Self>(node, reader).map(Self::At)
    }
}

/// Where a topic is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawKafkaStart {
    /// At the first record.
    Earliest,
    /// Behind the last record.
    Latest,
    /// At this time, in milliseconds since the Unix epoch.
    At(i64),
}

impl FromNode for RawKafkaStart {
    const EXPECTED: &'static str = "\"earliest\", \"latest\" or a time in RFC 3339";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.text() {
            Some("earliest") => Some(Self::Earliest),
            Some("latest") => Some(Self::Latest),
            _ => read_time::<Self>(node, reader).map(Self::At),
        }
    }
}

impl JsonSchema for RawKafkaStart {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "KafkaStart".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// A time in RFC 3339, in milliseconds since the Unix epoch.
fn read_time<T: FromNode>(node: &Node, reader: &mut Reader<'_>) -> Option<i64> {
    let text = match &node.value {
        NodeValue::Text(text) | NodeValue::Date(text) => text,
        _ => {
            reader.refuse_kind::<T>(node);
            return None;
        }
    };
    let time: Option<jiff::Timestamp> = text.parse().ok();
    if time.is_none() {
        let message = format!("{}: `{text}` is not {}", reader.here(), T::EXPECTED);
        let help = "for example \"2026-01-31T09:30:00Z\"";
        reader.problems.add_with_help(node.place, message, help);
    }
    time.map(jiff::Timestamp::as_millisecond)
}

impl JsonSchema for RawStart {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Start".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Implements [`JsonSchema`] for types that take either of two forms.
macro_rules! either_schema {
    ($($name:ident: $generator:ident => $short:expr, $long:ty;)*) => {
        $(
            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).trim_start_matches("Raw").into()
                }

                fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                    let short: Schema = $short;
                    json_schema!({ "anyOf": [short, $generator.subschema_for::<$long>()] })
                }
            }
        )*
    };
}

either_schema! {
    RawColumn: generator => json_schema!({ "type": "string" }), RawColumnTable;
    RawDeadLetters: generator => json_schema!({ "type": "string" }), RawLetterTopic;
    RawField: generator => generator.subschema_for::<RawType>(), RawFieldTable;
    RawFields: generator => json_schema!({ "type": "string" }), List<String>;
    RawShards: generator => json_schema!({ "const": "cores" }), Whole<1, 1024>;
}
