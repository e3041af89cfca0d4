//! Values of panes as text, straight from their words: nothing is allocated per value, but for
//! lists and texts that aggregates make.

use crate::panes::PaneRef;
use nilometer_model::plan::Stage;
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;
use nilometer_model::value::{Datum, Value, ip_address, write_json_text};
use std::fmt::Write;

/// What stands for every entity field of the entry that sums up what a top-K does not list.
pub(crate) const OTHER: &str = "__other";

/// Whether key field number `field` of `pane` is void: part of the entity of an `other` entry.
pub(crate) fn is_void(stage: &Stage, pane: PaneRef<'_>, field: usize) -> bool {
    pane.meta.is_other && stage.top_k.as_ref().is_some_and(|top_k| top_k.entity.contains(&field))
}

/// Appends a whole number.
pub(crate) fn write_int(number: impl itoa::Integer, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Appends `datum` as JSON: whole numbers of any size, floats that are not finite as text, objects
/// as they are.
pub(crate) fn write_json(datum: Datum, symbols: &Symbols, out: &mut String) {
    match datum {
        Datum::Int(number) => write_int(number, out),
        Datum::Text(symbol) => write_json_text(symbols.text(symbol), out),
        Datum::Object(symbol) => out.push_str(symbols.text(symbol)),
        Datum::Ip(bits) => write!(out, "\"{}\"", ip_address(bits)).unwrap_or_default(),
        Datum::Null => out.push_str("null"),
        Datum::Bool(truth) => out.push_str(if truth { "true" } else { "false" }),
        // The one place that knows how floats print.
        Datum::Float(number) => Value::Float(number).write_json(out),
    }
}

/// Appends the result of aggregate `number` of `pane` as JSON.
pub(crate) fn write_result(
    stage: &Stage,
    pane: PaneRef<'_>,
    number: usize,
    symbols: &Symbols,
    out: &mut String,
) {
    match stage.aggregates.own_result(pane.values, number) {
        Some(own) => own.write_json(out),
        None => write_json(stage.aggregates.finish(pane.values, number), symbols, out),
    }
}

/// Appends the result of aggregate `number` of `pane` as bare text; nothing for null.
pub(crate) fn write_plain_result(
    stage: &Stage,
    pane: PaneRef<'_>,
    number: usize,
    symbols: &Symbols,
    out: &mut String,
) {
    match stage.aggregates.own_result(pane.values, number) {
        Some(Value::Text(text)) => out.push_str(&text),
        Some(Value::Null) => {}
        Some(own) => own.write_json(out),
        None => write_plain(stage.aggregates.finish(pane.values, number), symbols, out),
    }
}

/// Appends `datum` as bare text; nothing for null.
pub(crate) fn write_plain(datum: Datum, symbols: &Symbols, out: &mut String) {
    match datum {
        Datum::Null => {}
        Datum::Text(symbol) => out.push_str(symbols.text(symbol)),
        Datum::Ip(bits) => write!(out, "{}", ip_address(bits)).unwrap_or_default(),
        Datum::Float(number) if !number.is_finite() => {
            out.push_str(if number.is_nan() {
                "NaN"
            } else if number > 0.0 {
                "inf"
            } else {
                "-inf"
            });
        }
        Datum::Bool(_) | Datum::Int(_) | Datum::Float(_) | Datum::Object(_) => {
            write_json(datum, symbols, out);
        }
    }
}

/// A bound of a window in milliseconds; `None` where the window has no such bound.
pub(crate) fn bound(time: EventTime) -> Option<i64> {
    (time != EventTime::MIN && time != EventTime::MAX).then(|| time.as_millis())
}
