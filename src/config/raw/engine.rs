//! Raw type of `engine`: a name, or a table that says when the cycles of micro-batches end.

use super::quantity::Pace;
use super::reader::Presence::Required;
use super::reader::{FromNode, Reader};
use super::scalar::{raw_names, read_choice};
use super::table::raw_table;
use crate::config::node::{Node, NodeValue};
use nilometer_model::engine;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

raw_names! {
    /// An engine that takes nothing.
    pub(crate) enum RawEngineName ("engine") {
        /// Results come as soon as triggers say so.
        Streaming = "streaming",
        /// Results come at the end of all input, once.
        Batch = "batch",
    }
}

raw_table! {
    /// Micro-batches.
    pub(crate) struct RawMicroBatch {
        /// When a cycle ends: on the clock at multiples of a span of time, `"10s"`, or when every source has read so many records, `"100000 records"`.
        micro_batch: Pace = Required,
    }
}

/// How a pipeline is run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawEngine {
    /// `streaming` or `batch`.
    Named(RawEngineName),
    /// Cycle by cycle.
    MicroBatch(RawMicroBatch),
}

impl RawEngine {
    /// The engine; `None` if it is wrong, which has been reported.
    pub(crate) fn engine(&self) -> Option<engine::Engine> {
        Some(match self {
            Self::Named(RawEngineName::Streaming) => engine::Engine::Streaming,
            Self::Named(RawEngineName::Batch) => engine::Engine::Batch,
            Self::MicroBatch(table) => engine::Engine::MicroBatch(table.micro_batch.value()?.0),
        })
    }
}

impl FromNode for RawEngine {
    const EXPECTED: &'static str = "the name of an engine or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(text) if text == "micro_batch" => {
                let message =
                    format!("{}: micro-batches need to know when they end", reader.here());
                let help = "{ micro_batch = \"10s\" } or { micro_batch = \"100000 records\" }";
                reader.problems.add_with_help(node.place, message, help);
                None
            }
            NodeValue::Text(_) => read_choice(node, reader).map(Self::Named),
            NodeValue::Table(_) => RawMicroBatch::from_node(node, reader).map(Self::MicroBatch),
            _ => {
                reader.refuse_kind::<Self>(node);
                None
            }
        }
    }
}

impl JsonSchema for RawEngine {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Engine".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<RawEngineName>();
        json_schema!({ "anyOf": [name, generator.subschema_for::<RawMicroBatch>()] })
    }
}
