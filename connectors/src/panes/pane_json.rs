//! The format `pane`: all of a pane as one JSON object. A public schema: members never change their
//! order, their names or their meaning, and none is ever left out.

use crate::panes::PaneRef;
use crate::panes::session_json::write_session;
use crate::panes::value::{OTHER, bound, is_void, write_int, write_json, write_result};
use nilometer_model::plan::Stage;
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{EventTime, Window};
use nilometer_model::value::write_json_text;

/// Appends `pane` of `stage` of the pipeline called `pipeline`, without a line end: of a sequence the
/// record of a session.
pub fn write_pane(
    pipeline: &str,
    stage: &Stage,
    pane: PaneRef<'_>,
    symbols: &Symbols,
    out: &mut String,
) {
    if let Some(sequence) = &stage.sequence {
        return write_session(pipeline, (stage, sequence), (pane, symbols), out);
    }
    write_head(pipeline, stage, (pane, symbols), out);
    out.push_str("},\"window\":");
    write_window(pane.meta.window, out);
    out.push_str(",\"pane\":");
    write_identity(stage, pane, out);
    out.push_str(",\"event_time\":");
    write_int(pane.meta.event_time.as_millis(), out);
    out.push_str(",\"values\":{");
    for (number, aggregate) in stage.aggregates.accumulators().iter().enumerate() {
        write_name(number, &aggregate.name, out);
        write_result(stage, pane, number, symbols, out);
    }
    out.push_str("}}");
}

/// Appends what every object of a stage begins with: pipeline, stage, and the open object of the key.
pub(crate) fn write_head(
    pipeline: &str,
    stage: &Stage,
    (pane, symbols): (PaneRef<'_>, &Symbols),
    out: &mut String,
) {
    out.push_str("{\"pipeline\":");
    write_json_text(pipeline, out);
    out.push_str(",\"stage\":");
    write_json_text(&stage.name, out);
    out.push_str(",\"key\":{");
    for (number, field) in stage.key.fields().iter().enumerate() {
        write_name(number, &field.name, out);
        if is_void(stage, pane, number) {
            write_json_text(OTHER, out);
        } else {
            write_json(stage.key.read(pane.key, number), symbols, out);
        }
    }
}

/// Appends a member's name, behind a comma unless it is the first.
pub(crate) fn write_name(number: usize, name: &str, out: &mut String) {
    if number > 0 {
        out.push(',');
    }
    write_json_text(name, out);
    out.push(':');
}

pub(crate) fn write_window(window: Window, out: &mut String) {
    let mut write = |name: &str, time: EventTime| {
        out.push_str(name);
        match bound(time) {
            Some(millis) => write_int(millis, out),
            None => out.push_str("null"),
        }
    };
    write("{\"start\":", window.start());
    write(",\"end\":", window.end());
    out.push('}');
}

/// Appends the object that tells a pane of its window from the others.
pub(crate) fn write_identity(stage: &Stage, pane: PaneRef<'_>, out: &mut String) {
    let meta = pane.meta;
    out.push_str("{\"index\":");
    write_int(meta.index, out);
    for (name, text) in [
        (",\"timing\":\"", meta.timing.name()),
        ("\",\"is_last\":", if meta.is_last { "true" } else { "false" }),
        (",\"kind\":\"", meta.kind.name()),
        ("\",\"mode\":\"", stage.mode.name()),
    ] {
        out.push_str(name);
        out.push_str(text);
    }
    out.push_str("\"}");
}
