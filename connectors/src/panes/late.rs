//! The format `late`: a copy that came late, or too late, as one JSON object, its record in it.
//! A public schema, as that of panes.

use crate::panes::output::Output;
use crate::panes::pane_json::{write_name, write_window};
use crate::panes::value::{bound, write_int, write_json};
use crate::panes::{Delivery, PaneTarget};
use crate::sink::{Held, Receipt, Sink, SinkError};
use nilometer_model::late::{LateBatch, LateCopy};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::row::{RowLayout, read};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{EventTime, Watermark};
use nilometer_model::value::write_json_text;
use std::sync::Arc;

/// Writes copies that came late as lines.
#[derive(Debug)]
pub struct LateWriter {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    output: Output,
}

impl LateWriter {
    /// A sink for the stages of `plan`, which writes to `target`.
    ///
    /// # Errors
    /// The target cannot be created.
    pub fn open(
        target: &PaneTarget,
        delivery: Delivery,
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
    ) -> Result<Self, SinkError> {
        Ok(Self { plan, symbols, output: Output::open(target, delivery)? })
    }
}

impl Sink<LateBatch> for LateWriter {
    fn write(&mut self, batch: &LateBatch) -> Result<(), SinkError> {
        let plan = self.plan.clone();
        let Some(stage) = plan.stages.get(batch.stage.index()) else { return Ok(()) };
        let text = LateText::of(&plan.name, stage, batch);
        for copy in batch.iter() {
            text.write(copy, &self.symbols, &mut self.output.lines);
            self.output.end_line()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.output.flush()
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.flush()
    }

    fn take(&mut self, least: usize) -> Option<Held> {
        self.output.take(least)
    }

    fn publish(&mut self, block: &[u8], is_last: bool) -> Result<Receipt, SinkError> {
        self.output.publish(block, is_last)
    }
}

/// Writes the text of the copies of a batch: what they share.
pub(crate) struct LateText<'a> {
    pipeline: &'a str,
    stage: &'a Stage,
    layout: &'a RowLayout,
    watermark: Watermark,
}

impl<'a> LateText<'a> {
    /// For the copies of `batch`, which are of `stage`.
    pub(crate) fn of(pipeline: &'a str, stage: &'a Stage, batch: &'a LateBatch) -> Self {
        Self { pipeline, stage, layout: batch.layout(), watermark: batch.watermark }
    }

    /// Appends `copy` without a line end.
    pub(crate) fn write(&self, copy: LateCopy<'_>, symbols: &Symbols, out: &mut String) {
        out.push_str("{\"pipeline\":");
        write_json_text(self.pipeline, out);
        out.push_str(",\"stage\":");
        write_json_text(&self.stage.name, out);
        out.push_str(",\"reason\":\"");
        out.push_str(copy.reason.name());
        out.push_str("\",\"key\":{");
        for (number, field) in self.stage.key.fields().iter().enumerate() {
            write_name(number, &field.name, out);
            write_json(self.stage.key.read(copy.key, number), symbols, out);
        }
        out.push_str("},\"window\":");
        write_window(copy.window, out);
        out.push_str(",\"event_time\":");
        write_int(copy.time.as_millis(), out);
        out.push_str(",\"watermark\":");
        write_instant(self.watermark.0, out);
        out.push_str(",\"position\":{\"partition\":");
        write_int(copy.position.partition, out);
        out.push_str(",\"offset\":");
        write_int(copy.position.offset, out);
        out.push_str("},\"record\":");
        write_record(self.layout, copy.row, symbols, out);
        out.push('}');
    }
}

/// Appends the fields of a record as a JSON object: those that its pipeline reads, under their names.
pub fn write_record(layout: &RowLayout, row: &[u64], symbols: &Symbols, out: &mut String) {
    out.push('{');
    for (number, (field, slot)) in layout.fields().iter().zip(layout.slots()).enumerate() {
        write_name(number, &field.name, out);
        write_json(read(row, *slot), symbols, out);
    }
    out.push('}');
}

/// Appends an instant in ms; `null` for one beyond all times.
fn write_instant(instant: EventTime, out: &mut String) {
    match bound(instant) {
        Some(millis) => write_int(millis, out),
        None => out.push_str("null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panes::tests::{grouping, plan_of};
    use nilometer_model::aggregate::Function;
    use nilometer_model::late::LateReason;
    use nilometer_model::pane::StageId;
    use nilometer_model::row::{Position, RowBatch};
    use nilometer_model::time::Window;
    use nilometer_model::value::{Type, Value};

    #[test]
    fn a_copy_is_one_line_with_its_record() {
        let fields = [("k", Type::Text), ("v", Type::I64), ("unread", Type::Bool)];
        let sums = grouping("sums", &["k"], &[("sum", Function::Sum, "v")]);
        let plan = plan_of(&fields, vec![sums]);
        let symbols = Arc::new(Symbols::default());
        let mut records = RowBatch::new(plan.row.clone());
        let time = EventTime::from_millis(59_999);
        for (offset, v) in [(4, Value::Int(-7)), (9, Value::Null)] {
            let mut row = records.push(time, Position { partition: 1, offset });
            let text = Value::Text("a \"b\"".into()).intern(&symbols).unwrap();
            row.set(plan.row.slot("k").unwrap(), text);
            row.set(plan.row.slot("v").unwrap(), v.intern(&symbols).unwrap());
        }
        let stage = &plan.stages[0];
        let mut key = vec![0; stage.key.words()];
        stage.key.write(&[Value::Text("a \"b\"".into()).intern(&symbols).unwrap()], &mut key);
        let mark = Watermark(EventTime::from_millis(180_000));
        let mut batch = LateBatch::new(StageId(0), mark, key.len(), plan.row.clone());
        let minute =
            |start| Window::fixed(time, nilometer_model::time::Span::from_millis(start), 0);
        batch.push(LateReason::Expired, (&key, minute(60_000)), (&records, 0));
        batch.push(LateReason::Closed, (&key, Window::GLOBAL), (&records, 1));

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("late.ndjson");
        let target = PaneTarget::File(path.clone());
        let mut writer =
            LateWriter::open(&target, Delivery::AtOnce, plan.clone(), symbols).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let written = std::fs::read_to_string(path).unwrap();
        let expected = [
            r#"{"pipeline":"flows \"x\"","stage":"sums","reason":"expired","key":{"k":"a \"b\""},"window":{"start":0,"end":60000},"event_time":59999,"watermark":180000,"position":{"partition":1,"offset":4},"record":{"k":"a \"b\"","v":-7}}"#,
            r#"{"pipeline":"flows \"x\"","stage":"sums","reason":"closed","key":{"k":"a \"b\""},"window":{"start":null,"end":null},"event_time":59999,"watermark":180000,"position":{"partition":1,"offset":9},"record":{"k":"a \"b\"","v":null}}"#,
        ];
        assert_eq!(written.lines().collect::<Vec<_>>(), expected);
    }
}
