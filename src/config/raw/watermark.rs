//! Raw types of `[watermark]` and of the `watermark` of a source.

use super::quantity::{Length, Limit};
use super::reader::Presence::{Default, Optional, Required};
use super::reader::{FromNode, Reader};
use super::scalar::{Whole, or_variable, raw_names};
use super::table::raw_table;
use crate::config::node::{Node, NodeValue, Origin};
use nilometer_model::watermark::Percentile;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

raw_table! {
    /// How far event time has certainly come.
    pub(crate) struct RawWatermark {
        /// How it is estimated; `end_of_input` by default where all sources are bounded, else `bounded`.
        kind: RawWatermarkKind = Optional,
        /// How far behind the largest event time a record may come and still be in time; must be given for `bounded`. For `percentile`, the least that is subtracted; by default nothing.
        out_of_orderness: Length = Optional,
        /// For `percentile`: how many percent of the records shall be in time; above 0, at most 100.
        percentile: RawPercentile = Optional,
        /// How many of the last records of a source percentiles are taken of, 1 to 1000000.
        lateness_records: Whole<1, 1_000_000> = Default("10000"),
        /// For `punctuated`: an expression over the fields of a record, in CEL. A whole number is the watermark, in ms since the Unix epoch; a truth value says whether the event time of the record is.
        mark: String = Optional,
        /// A source that is at its end and silent for so long holds nothing back, or `"off"`; by default `"30s"` where a source is live.
        idle_after: Limit = Optional,
        /// An event time further in the future than this does not move the watermark past the present, or `"off"`; by default `"5m"` for a live source. The present of a live source is the clock's; of a bounded one, where the furthest of the other sources is.
        max_future_skew: Limit = Optional,
        /// What becomes of a record that lies so far in the future: `keep` it, or `reject` it as a dead letter.
        clamped: RawClamped = Default("\"keep\""),
        /// What the watermark does while all sources are idle: `"hold"`, or `{ advance = delay }` to follow the clock.
        all_idle: RawAllIdle = Default("\"hold\""),
        /// Sources are read in step: one that is further ahead of the slowest than this waits, or `"off"`.
        max_drift: Limit = Default("\"off\""),
        /// When the watermark has stood still for so long while all sources are at their ends, windows emit what they hold, timed out, or `"off"`.
        close_after: Limit = Default("\"off\""),
    }
}

raw_table! {
    /// How the watermark of one source is estimated, where that differs from `[watermark]`.
    pub(crate) struct RawSourceWatermark {
        /// How it is estimated; settings that go with another kind are then not taken over.
        kind: RawWatermarkKind = Optional,
        /// How far behind the largest event time a record may come and still be in time; for `percentile`, the least that is subtracted.
        out_of_orderness: Length = Optional,
        /// For `percentile`: how many percent of the records shall be in time.
        percentile: RawPercentile = Optional,
        /// How many of the last records percentiles are taken of, 1 to 1000000.
        lateness_records: Whole<1, 1_000_000> = Optional,
        /// For `punctuated`: the expression that says what a record promises.
        mark: String = Optional,
        /// At its end and silent for so long, the source holds nothing back, or `"off"`.
        idle_after: Limit = Optional,
        /// How far in the future an event time may lie, or `"off"`.
        max_future_skew: Limit = Optional,
        /// What becomes of a record that lies further in the future: `keep` or `reject`.
        clamped: RawClamped = Optional,
    }
}

raw_names! {
    /// How the watermark is estimated.
    pub(crate) enum RawWatermarkKind ("watermark") {
        /// Nothing is complete before all input is read.
        EndOfInput = "end_of_input",
        /// The largest event time less a bound.
        Bounded = "bounded",
        /// The largest event time less what most of the last records were late by.
        Percentile = "percentile",
        /// What records say.
        Punctuated = "punctuated",
        /// The time of arrival, which is then the event time of every record.
        Ingestion = "ingestion",
    }
}

raw_names! {
    /// What becomes of a record too far in the future.
    pub(crate) enum RawClamped ("treatment") {
        /// It counts.
        Keep = "keep",
        /// It is a dead letter.
        Reject = "reject",
    }
}

raw_table! {
    /// How the watermark follows the clock.
    pub(crate) struct RawAdvance {
        /// How far behind the clock it is.
        advance: Length = Required,
    }
}

/// What the watermark does while all sources are idle.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawAllIdle {
    /// It stands still.
    Hold,
    /// It follows the clock.
    Advance(RawAdvance),
}

impl FromNode for RawAllIdle {
    const EXPECTED: &'static str = "\"hold\" or a table";

    fn from_node(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            NodeValue::Text(text) if text == "hold" => Some(Self::Hold),
            NodeValue::Table(_) => RawAdvance::from_node(node, reader).map(Self::Advance),
            _ => {
                let message = format!("{} must be {}", reader.here(), Self::EXPECTED);
                let help = "write \"hold\" or { advance = \"10s\" }";
                reader.problems.add_with_help(node.place, message, help);
                None
            }
        }
    }
}

impl JsonSchema for RawAllIdle {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AllIdle".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<RawAdvance>();
        json_schema!({ "anyOf": [{ "const": "hold" }, table] })
    }
}

/// A share of records in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawPercentile(pub(crate) Percentile);

impl FromNode for RawPercentile {
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
        let percentile = Percentile::from_percent(number);
        if percentile.is_none() {
            let message = format!("{} must not be {number}", reader.here());
            let help = "percent, from 0.001 to 100: 99, 99.9";
            reader.problems.add_with_help(node.place, message, help);
        }
        percentile.map(Self)
    }
}

impl JsonSchema for RawPercentile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Percentile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        or_variable(serde_json::json!({ "type": "number", "minimum": 0.001, "maximum": 100 }))
    }
}
