//! The format `pane` of a session: its record as one JSON object. A public schema: members never
//! change their order, their names or their meaning, and none is ever left out.

use crate::panes::PaneRef;
use crate::panes::pane_json::{write_head, write_name};
use crate::panes::value::{write_int, write_json};
use nilometer_model::pane::{PaneKind, PaneMeta, Timing};
use nilometer_model::plan::{SequenceInput, Stage};
use nilometer_model::sequence::{RecordField, StepField};
use nilometer_model::symbol::Symbols;
use nilometer_model::value::{Datum, write_json_text};
use std::fmt::Write;

/// What a record of a session is.
const fn kind(meta: &PaneMeta) -> &'static str {
    match (meta.kind, meta.timing, meta.index) {
        (PaneKind::Retract, _, _) => "retraction",
        (PaneKind::Insert, Timing::Early, _) => "early",
        // One that is told for the first time corrects nothing, however late it is.
        (PaneKind::Insert, Timing::OnTime | Timing::TimedOut, _)
        | (PaneKind::Insert, Timing::Late, 0) => "final",
        (PaneKind::Insert, Timing::Late, _) => "correction",
    }
}

/// Appends `pane` of `stage`, a sequence, of the pipeline called `pipeline`, without a line end.
pub(super) fn write_session(
    pipeline: &str,
    (stage, sequence): (&Stage, &SequenceInput),
    (pane, symbols): (PaneRef<'_>, &Symbols),
    out: &mut String,
) {
    write_head(pipeline, stage, (pane, symbols), out);
    let record = Record { stage, sequence, pane, symbols };
    out.push_str("},\"session_id\":");
    write_id(&record, out);
    out.push_str(",\"revision\":");
    write_int(pane.meta.index, out);
    out.push_str(",\"kind\":\"");
    out.push_str(kind(pane.meta));
    out.push_str("\",\"by_clock\":");
    out.push_str(if pane.meta.timing == Timing::TimedOut { "true" } else { "false" });
    out.push_str(",\"event_time\":");
    write_int(pane.meta.event_time.as_millis(), out);
    record.write_fields(out);
    out.push_str(",\"steps\":[");
    let mut is_first = true;
    for number in (0..sequence.spec.steps.len()).filter(|number| record.has_step(*number)) {
        out.push_str(if is_first { "{" } else { ",{" });
        is_first = false;
        record.write_step(number, out);
        out.push('}');
    }
    out.push_str("]}");
}

/// Appends the name of the session that `pane` of `stage` is of, in quotes.
pub(crate) fn write_session_id(
    (stage, sequence): (&Stage, &SequenceInput),
    (pane, symbols): (PaneRef<'_>, &Symbols),
    out: &mut String,
) {
    write_id(&Record { stage, sequence, pane, symbols }, out);
}

fn write_id(record: &Record<'_>, out: &mut String) {
    out.push('"');
    if let Some(Datum::Int(id)) = record.of(RecordField::SessionId) {
        write!(out, "{id:016x}").unwrap_or_default();
    }
    out.push('"');
}

/// The record of a session.
struct Record<'a> {
    stage: &'a Stage,
    sequence: &'a SequenceInput,
    pane: PaneRef<'a>,
    symbols: &'a Symbols,
}

impl Record<'_> {
    fn of(&self, field: RecordField) -> Option<Datum> {
        let index = self.sequence.fields.iter().position(|known| *known == field)?;
        Some(self.stage.aggregates.finish(self.pane.values, index))
    }

    /// Whether anything came of a step.
    fn has_step(&self, number: usize) -> bool {
        let attempts = self.of(RecordField::OfStep(number, StepField::Attempts));
        !matches!(attempts, None | Some(Datum::Null | Datum::Int(0)))
    }

    /// Appends what is not said elsewhere, behind commas.
    fn write_fields(&self, out: &mut String) {
        let results = self.stage.aggregates.accumulators();
        for (index, (field, result)) in self.sequence.fields.iter().zip(results).enumerate() {
            if matches!(
                field,
                RecordField::SessionId | RecordField::Revision | RecordField::OfStep(..)
            ) {
                continue;
            }
            out.push(',');
            write_json_text(&result.name, out);
            out.push(':');
            write_json(self.stage.aggregates.finish(self.pane.values, index), self.symbols, out);
        }
    }

    /// Appends the members of a step.
    fn write_step(&self, number: usize, out: &mut String) {
        out.push_str("\"step\":");
        write_json_text(self.sequence.spec.steps.get(number).map_or("", |step| &step.name), out);
        for (field, name) in [
            (StepField::Result, "result"),
            (StepField::Start, "t_start"),
            (StepField::End, "t_end"),
            (StepField::Duration, "duration_ms"),
            (StepField::Attempts, "attempts"),
            (StepField::Status, "status"),
            (StepField::Reason, "reason"),
            (StepField::Slow, "slow"),
        ] {
            out.push(',');
            write_name(0, name, out);
            let value = self.of(RecordField::OfStep(number, field)).unwrap_or(Datum::Null);
            write_json(value, self.symbols, out);
        }
    }
}
