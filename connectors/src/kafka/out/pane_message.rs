//! Results as messages of protocol buffers. These types are `pane.proto`, declared by hand so that a
//! build needs no compiler for it; a test holds them against the bytes that the schema asks for.

use crate::panes::PaneRef;
use crate::panes::value::{OTHER, bound, is_void};
use nilometer_model::pane::{AccumulationMode, PaneKind, Timing};
use nilometer_model::plan::Stage;
use nilometer_model::symbol::Symbols;
use nilometer_model::value::Value;
use prost::{Enumeration, Message, Oneof};

/// Message `Pane`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pane {
    #[prost(string, tag = "1")]
    pipeline: String,
    #[prost(string, tag = "2")]
    stage: String,
    #[prost(message, repeated, tag = "3")]
    key: Vec<Field>,
    #[prost(int64, optional, tag = "4")]
    window_start: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    window_end: Option<i64>,
    #[prost(uint32, tag = "6")]
    index: u32,
    #[prost(enumeration = "PaneTiming", tag = "7")]
    timing: i32,
    #[prost(bool, tag = "8")]
    is_last: bool,
    #[prost(enumeration = "Kind", tag = "9")]
    kind: i32,
    #[prost(enumeration = "Mode", tag = "10")]
    mode: i32,
    #[prost(int64, tag = "11")]
    event_time: i64,
    #[prost(message, repeated, tag = "12")]
    values: Vec<Field>,
}

/// Enum `Timing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
enum PaneTiming {
    Unspecified = 0,
    Early = 1,
    OnTime = 2,
    TimedOut = 3,
    Late = 4,
}

/// Enum `Kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
enum Kind {
    Unspecified = 0,
    Insert = 1,
    Retract = 2,
}

/// Enum `Mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
enum Mode {
    Unspecified = 0,
    Discarding = 1,
    Accumulating = 2,
    Retracting = 3,
}

/// Message `Field`.
#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "FieldValue", tags = "2, 3, 4, 5, 6, 7, 8")]
    value: Option<FieldValue>,
}

/// The value of a `Field`.
#[derive(Clone, PartialEq, Oneof)]
enum FieldValue {
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(sint64, tag = "3")]
    Integer(i64),
    #[prost(string, tag = "4")]
    LargeInteger(String),
    #[prost(double, tag = "5")]
    Float(f64),
    #[prost(string, tag = "6")]
    Text(String),
    #[prost(string, tag = "7")]
    Address(String),
    #[prost(string, tag = "8")]
    Json(String),
}

impl FieldValue {
    fn of(value: Value) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(truth) => Self::Truth(truth),
            Value::Int(number) => match i64::try_from(number) {
                Ok(number) => Self::Integer(number),
                Err(_) => Self::LargeInteger(number.to_string()),
            },
            Value::Float(number) => Self::Float(number),
            Value::Text(text) => Self::Text(text.to_string()),
            Value::Object(json) => Self::Json(json.to_string()),
            Value::Ip(address) => Self::Address(address.to_string()),
        })
    }
}

impl Pane {
    /// `pane` of `stage` of the pipeline called `pipeline`.
    pub(crate) fn new(pipeline: &str, stage: &Stage, pane: PaneRef<'_>, symbols: &Symbols) -> Self {
        let meta = pane.meta;
        let key = stage.key.fields().iter().enumerate().map(|(number, field)| {
            let value = if is_void(stage, pane, number) {
                Some(FieldValue::Text(OTHER.to_owned()))
            } else {
                FieldValue::of(stage.key.read(pane.key, number).value(symbols))
            };
            Field { name: field.name.to_string(), value }
        });
        let values = stage.aggregates.accumulators().iter().enumerate();
        let values = values.map(|(number, aggregate)| {
            let value = stage.aggregates.result(pane.values, number, symbols);
            Field { name: aggregate.name.to_string(), value: FieldValue::of(value) }
        });
        Self {
            pipeline: pipeline.to_owned(),
            stage: stage.name.to_string(),
            key: key.collect(),
            window_start: bound(meta.window.start()),
            window_end: bound(meta.window.end()),
            index: meta.index,
            timing: timing(meta.timing).into(),
            is_last: meta.is_last,
            kind: kind(meta.kind).into(),
            mode: mode(stage.mode).into(),
            event_time: meta.event_time.as_millis(),
            values: values.collect(),
        }
    }
}

const fn timing(timing: Timing) -> PaneTiming {
    match timing {
        Timing::Early => PaneTiming::Early,
        Timing::OnTime => PaneTiming::OnTime,
        Timing::TimedOut => PaneTiming::TimedOut,
        Timing::Late => PaneTiming::Late,
    }
}

const fn kind(kind: PaneKind) -> Kind {
    match kind {
        PaneKind::Insert => Kind::Insert,
        PaneKind::Retract => Kind::Retract,
    }
}

const fn mode(mode: AccumulationMode) -> Mode {
    match mode {
        AccumulationMode::Discarding => Mode::Discarding,
        AccumulationMode::Accumulating => Mode::Accumulating,
        AccumulationMode::Retracting => Mode::Retracting,
    }
}
