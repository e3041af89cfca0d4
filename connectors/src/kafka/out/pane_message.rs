//! Results as messages of protocol buffers, straight into the bytes of a block: the messages `Pane` and
//! `Field` of `pane.proto`, written field by field so that nothing is allocated per pane; a test holds
//! them against the bytes that the schema asks for.
//!
//! Invariant: fields come in the order of their numbers, and those of a plain type are left out where
//! they have their default, as in every proto3 writer.

use crate::panes::PaneRef;
use crate::panes::value::{OTHER, bound, is_void};
use nilometer_model::pane::{AccumulationMode, PaneKind, Timing};
use nilometer_model::plan::Stage;
use nilometer_model::symbol::Symbols;
use nilometer_model::value::{Datum, Value, ip_address};
use prost::encoding::{WireType, bool, double, encode_key, encode_varint, int64, sint64, uint32};
use std::fmt::Write as _;

/// What is used for each pane anew.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The `Field` that is being written, whose length stands before it.
    field: Vec<u8>,
    /// The text of a value that has none of its own.
    text: String,
}

/// Appends `pane` of `stage` of the pipeline called `pipeline`.
pub(crate) fn write_message(
    (pipeline, stage): (&str, &Stage),
    pane: PaneRef<'_>,
    symbols: &Symbols,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    let meta = pane.meta;
    bytes(1, pipeline.as_bytes(), out);
    bytes(2, stage.name.as_bytes(), out);
    for (number, field) in stage.key.fields().iter().enumerate() {
        scratch.begin(&field.name);
        if is_void(stage, pane, number) {
            bytes(6, OTHER.as_bytes(), &mut scratch.field);
        } else {
            scratch.datum(stage.key.read(pane.key, number), symbols);
        }
        bytes(3, &scratch.field, out);
    }
    for (tag, time) in [(4, meta.window.start()), (5, meta.window.end())] {
        if let Some(millis) = bound(time) {
            int64::encode(tag, &millis, out);
        }
    }
    if meta.index != 0 {
        uint32::encode(6, &meta.index, out);
    }
    number(7, timing(meta.timing), out);
    if meta.is_last {
        bool::encode(8, &true, out);
    }
    number(9, kind(meta.kind), out);
    number(10, mode(stage.mode), out);
    if meta.event_time.as_millis() != 0 {
        int64::encode(11, &meta.event_time.as_millis(), out);
    }
    for (number, aggregate) in stage.aggregates.accumulators().iter().enumerate() {
        scratch.begin(&aggregate.name);
        match stage.aggregates.own_result(pane.values, number) {
            Some(Value::Text(text)) => bytes(6, text.as_bytes(), &mut scratch.field),
            Some(Value::Object(json)) => bytes(8, json.as_bytes(), &mut scratch.field),
            // An aggregate's own is a text or a list, or it has none.
            Some(Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Ip(_)) => {
            }
            None => scratch.datum(stage.aggregates.finish(pane.values, number), symbols),
        }
        bytes(12, &scratch.field, out);
    }
}

impl Scratch {
    /// Begins a `Field`.
    fn begin(&mut self, name: &str) {
        self.field.clear();
        if !name.is_empty() {
            bytes(1, name.as_bytes(), &mut self.field);
        }
    }

    /// Appends the value of the `Field`; nothing for null.
    fn datum(&mut self, datum: Datum, symbols: &Symbols) {
        let Self { field, text } = self;
        text.clear();
        match datum {
            Datum::Null => {}
            Datum::Bool(truth) => bool::encode(2, &truth, field),
            Datum::Int(number) => match i64::try_from(number) {
                Ok(number) => sint64::encode(3, &number, field),
                Err(_) => bytes(4, itoa::Buffer::new().format(number).as_bytes(), field),
            },
            Datum::Float(number) => double::encode(5, &number, field),
            Datum::Text(symbol) => bytes(6, symbols.text(symbol).as_bytes(), field),
            Datum::Ip(bits) => {
                write!(text, "{}", ip_address(bits)).unwrap_or_default();
                bytes(7, text.as_bytes(), field);
            }
            Datum::Object(symbol) => bytes(8, symbols.text(symbol).as_bytes(), field),
        }
    }
}

/// Appends a field that has a length before its bytes.
fn bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field of an enum.
fn number(tag: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(number, out);
}

/// The number in enum `Timing`.
const fn timing(timing: Timing) -> u64 {
    match timing {
        Timing::Early => 1,
        Timing::OnTime => 2,
        Timing::TimedOut => 3,
        Timing::Late => 4,
    }
}

/// The number in enum `Kind`.
const fn kind(kind: PaneKind) -> u64 {
    match kind {
        PaneKind::Insert => 1,
        PaneKind::Retract => 2,
    }
}

/// The number in enum `Mode`.
const fn mode(mode: AccumulationMode) -> u64 {
    match mode {
        AccumulationMode::Discarding => 1,
        AccumulationMode::Accumulating => 2,
        AccumulationMode::Retracting => 3,
    }
}
