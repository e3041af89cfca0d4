//! Options of a client library: names with dots between their parts, which TOML also takes for tables.
//!
//! `sasl.password = "x"`, `"sasl.password" = "x"` and `sasl = { password = "x" }` are the same.

use super::reader::{FromNode, Given, Reader, Spanned};
use crate::config::node::{Node, NodeValue};
use crate::config::place::Place;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Options by name, in the order typed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RawOptions {
    /// What could be read: names, where they stand, and values.
    pub(crate) options: Vec<(String, Place, String)>,
    /// Whether that is all.
    pub(crate) is_whole: bool,
}

impl FromNode for RawOptions {
    const EXPECTED: &'static str = "a table";
    const HAS_SETTINGS: bool = true;

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(entries) = node.entries() else {
            reader.refuse_kind::<Self>(node);
            return None;
        };
        let (mut options, mut is_whole) = (Vec::new(), true);
        for entry in entries {
            let name = &entry.name;
            if let NodeValue::Table(_) = entry.node.value {
                match reader.inner::<Self>(&entry.node, name) {
                    Given::Value(Spanned { value, .. }) => {
                        is_whole &= value.is_whole;
                        let inner = value.options.into_iter();
                        options
                            .extend(inner.map(|(rest, place, text)| {
                                (format!("{name}.{rest}"), place, text)
                            }));
                    }
                    Given::Absent | Given::Wrong => is_whole = false,
                }
            } else {
                match reader.inner::<RawOption>(&entry.node, name) {
                    Given::Value(Spanned { value, .. }) => {
                        options.push((name.clone(), entry.name_place, value.0));
                    }
                    Given::Absent | Given::Wrong => is_whole = false,
                }
            }
        }
        Some(Self { options, is_whole })
    }
}

impl JsonSchema for RawOptions {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Options".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// The value of an option, as text.
#[derive(Debug, Clone, PartialEq)]
struct RawOption(String);

impl FromNode for RawOption {
    const EXPECTED: &'static str = "a text, a number or a truth value";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(text) => Some(Self(text.clone())),
            NodeValue::Int(number) => Some(Self(number.to_string())),
            NodeValue::Float(number) => Some(Self(number.to_string())),
            NodeValue::Bool(truth) => Some(Self(truth.to_string())),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

impl JsonSchema for RawOption {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Option".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
