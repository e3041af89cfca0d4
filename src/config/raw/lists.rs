//! Several values in one setting: arrays, arrays of tables, tables with keys of the user's making.

use super::reader::{FromNode, Given, Reader, Spanned};
use crate::config::node::{Node, NodeValue};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Elements of an array, one setting as a whole.
pub(crate) type List<T> = Vec<Spanned<T>>;

impl<T: FromNode> FromNode for List<T> {
    const EXPECTED: &'static str = "an array";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let NodeValue::Array(nodes) = &node.value else {
            reader.refuse_kind::<Self>(node);
            return None;
        };
        let read = nodes.iter().map(|node| {
            let value = reader.read(node)?;
            Some(Spanned { value, place: node.place, origin: node.origin() })
        });
        // Every element is read, so that each mistake is reported.
        read.collect::<Vec<_>>().into_iter().collect()
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// Tables of an array (`[[group]]`), each with settings of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tables<T> {
    /// The tables that could be read.
    pub(crate) tables: Vec<T>,
    /// Whether that is all of them.
    pub(crate) is_whole: bool,
}

impl<T: FromNode> FromNode for Tables<T> {
    const EXPECTED: &'static str = "an array of tables";
    const HAS_SETTINGS: bool = true;

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let NodeValue::Array(nodes) = &node.value else {
            reader.refuse_kind::<Self>(node);
            return None;
        };
        let mut tables = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let name = node.get("name").and_then(Node::text);
            let name = name.map_or_else(|| index.to_string(), str::to_owned);
            if let Given::Value(table) = reader.inner(node, &name) {
                tables.push(table.value);
            }
        }
        let is_whole = tables.len() == nodes.len();
        Some(Self { tables, is_whole })
    }
}

impl<T: JsonSchema> JsonSchema for Tables<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}s", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<T>() })
    }
}

/// A table whose keys the user makes up, in the order typed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Names<T> {
    /// What could be read, by name.
    pub(crate) names: Vec<(Spanned<String>, Spanned<T>)>,
    /// Whether that is all.
    pub(crate) is_whole: bool,
}

impl<T: FromNode> FromNode for Names<T> {
    const EXPECTED: &'static str = "a table";
    const HAS_SETTINGS: bool = true;

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(entries) = node.entries() else {
            reader.refuse_kind::<Self>(node);
            return None;
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = Spanned {
                value: entry.name.clone(),
                place: entry.name_place,
                origin: entry.node.origin,
            };
            if let Given::Value(value) = reader.inner(&entry.node, &entry.name) {
                names.push((name, value));
            }
        }
        let is_whole = names.len() == entries.len();
        Some(Self { names, is_whole })
    }
}

impl<T: JsonSchema> JsonSchema for Names<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}s", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}
