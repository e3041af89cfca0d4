//! The format `csv`: a row per pane. Its columns are those of all stages that write to the sink, so
//! that one file can hold several; a cell that a stage has no value for is empty, as null is.

use crate::panes::PaneRef;
use crate::panes::value::{OTHER, bound, is_void, write_int, write_plain, write_plain_result};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;

/// The columns before those of keys and values.
const FIXED: &str = "pipeline,stage,window_start,window_end,pane_index,pane_timing,pane_is_last,pane_kind,pane_mode,event_time";

/// Where the cells of a stage are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// In its key.
    Key(usize),
    /// Among its aggregates.
    Value(usize),
}

/// The columns of the sink called `name`, behind those that each has: of keys first, then of values,
/// both in the order in which the stages name them first.
pub fn columns(plan: &Plan, name: &str) -> Vec<Box<str>> {
    let stages =
        || plan.stages.iter().filter(|stage| stage.sinks.iter().any(|sink| **sink == *name));
    let keys = stages().flat_map(|stage| stage.key.fields()).map(|field| &field.name);
    let values =
        stages().flat_map(|stage| stage.aggregates.accumulators()).map(|value| &value.name);
    let mut columns: Vec<Box<str>> = Vec::new();
    for name in keys.chain(values) {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    columns
}

/// Writes rows for one sink.
#[derive(Debug)]
pub(crate) struct CsvRows {
    pipeline: Box<str>,
    /// Names of the columns of keys and values.
    columns: Vec<Box<str>>,
    /// For each stage of the plan, what it has for each of the columns.
    cells: Vec<Vec<Option<Cell>>>,
}

impl CsvRows {
    /// Rows for the sink called `name`.
    pub(crate) fn new(plan: &Plan, name: &str) -> Self {
        let columns = columns(plan, name);
        let find = |stage: &Stage, name: &str| {
            let value = || stage.aggregates.find(name).map(Cell::Value);
            stage.key.field(name).map(Cell::Key).or_else(value)
        };
        let cells = plan.stages.iter();
        let cells =
            cells.map(|stage| columns.iter().map(|name| find(stage, name)).collect()).collect();
        Self { pipeline: plan.name.clone(), columns, cells }
    }

    /// Appends the header with its line end.
    pub(crate) fn write_header(&self, out: &mut String) {
        out.push_str(FIXED);
        for column in &self.columns {
            out.push(',');
            cell(out, |out| out.push_str(column));
        }
        out.push('\n');
    }

    /// Appends `pane` without a line end.
    pub(crate) fn write(
        &self,
        stage: &Stage,
        pane: PaneRef<'_>,
        symbols: &Symbols,
        out: &mut String,
    ) {
        let meta = pane.meta;
        let millis = |time: EventTime, out: &mut String| {
            if let Some(millis) = bound(time) {
                write_int(millis, out);
            }
            out.push(',');
        };
        cell(out, |out| out.push_str(&self.pipeline));
        out.push(',');
        cell(out, |out| out.push_str(&stage.name));
        out.push(',');
        millis(meta.window.start(), out);
        millis(meta.window.end(), out);
        write_int(meta.index, out);
        let is_last = if meta.is_last { "true" } else { "false" };
        for word in ["", meta.timing.name(), is_last, meta.kind.name(), stage.mode.name()] {
            out.push_str(word);
            out.push(',');
        }
        write_int(meta.event_time.as_millis(), out);
        for place in self.cells.get(stage.id.index()).into_iter().flatten() {
            out.push(',');
            cell(out, |out| match place {
                None => {}
                Some(Cell::Key(field)) if is_void(stage, pane, *field) => out.push_str(OTHER),
                Some(Cell::Key(field)) => {
                    write_plain(stage.key.read(pane.key, *field), symbols, out);
                }
                Some(Cell::Value(number)) => {
                    write_plain_result(stage, pane, *number, symbols, out);
                }
            });
        }
    }
}

/// Appends what `write` appends as one cell, in quotes where its text needs them (RFC 4180).
fn cell(out: &mut String, write: impl FnOnce(&mut String)) {
    let start = out.len();
    write(out);
    let text = out.get(start..).unwrap_or_default();
    if text.contains(['"', ',', '\r', '\n']) {
        let quoted = format!("\"{}\"", text.replace('"', "\"\""));
        out.truncate(start);
        out.push_str(&quoted);
    }
}
