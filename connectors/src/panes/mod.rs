//! Sinks for panes: files and standard output in three formats, and a table for people; and the
//! sink for copies that came late, which writes to the same places.
//!
//! Panes are written in the order in which they come, so that a retract stands directly before
//! the insert that replaces it. `docs/output.md` is the public description of the formats.

mod csv_rows;
mod human;
mod late;
mod output;
pub(crate) mod pane_json;
pub(crate) mod session_json;
mod summary;
mod table;
pub(crate) mod value;

#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod summary_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
pub(crate) mod tests;

pub use csv_rows::columns as csv_columns;
pub(crate) use late::LateText;
pub use late::{LateWriter, write_record};
pub use pane_json::write_pane;
pub use table::{TableSettings, TableSink};

use crate::sink::{Held, Receipt, Sink, SinkError};
use csv_rows::CsvRows;
use nilometer_model::aggregate::ValuesRef;
use nilometer_model::pane::{PaneBatch, PaneMeta};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::symbol::Symbols;
use output::Output;
use std::path::PathBuf;
use std::sync::Arc;
use summary::Summaries;

/// How panes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PaneFormat {
    /// One JSON object per line, all of the pane in it.
    #[default]
    Pane,
    /// One flow summary document per line.
    FlowSummary,
    /// Comma-separated values below a header.
    Csv,
}

impl PaneFormat {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Pane, Self::FlowSummary, Self::Csv];

    /// The name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pane => "pane",
            Self::FlowSummary => "flow-summary",
            Self::Csv => "csv",
        }
    }
}

/// Where panes are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneTarget {
    /// A file; what it held is lost, directories above it are made.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// When what is written reaches its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// As it comes.
    AtOnce,
    /// When it is published, see [`Sink::take`].
    Held,
    /// The same, behind what processes before this one have written.
    Resumed {
        /// The bytes of a file that stay, what lies behind them is cut off; `None` for an output
        /// that cannot be cut.
        behind: Option<u64>,
    },
}

/// One pane of a batch.
#[derive(Debug, Clone, Copy)]
pub struct PaneRef<'a> {
    /// What identifies it beside its stage and key.
    pub meta: &'a PaneMeta,
    /// Its packed key, in the stage's key layout.
    pub key: &'a [u64],
    /// Its values, in the stage's aggregate layout.
    pub values: ValuesRef<'a>,
}

/// The panes of `batch`, which are of `stage`.
pub(crate) fn panes<'a>(batch: &'a PaneBatch, stage: &Stage) -> impl Iterator<Item = PaneRef<'a>> {
    batch.iter(stage.key.words(), stage.aggregates.words()).map(|(meta, key, values)| PaneRef {
        meta,
        key,
        values,
    })
}

/// Writes panes as lines.
#[derive(Debug)]
pub struct PaneWriter {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    text: PaneText,
    output: Output,
}

/// Writes the text of panes of one plan.
#[derive(Debug)]
pub(crate) enum PaneText {
    /// See [`PaneFormat::Pane`].
    Pane,
    /// See [`PaneFormat::FlowSummary`].
    Summary(Summaries),
    /// See [`PaneFormat::Csv`].
    Csv(CsvRows),
}

impl PaneText {
    /// In `format`, for the sink called `name` of `plan`.
    pub(crate) fn new(format: PaneFormat, plan: &Plan, name: &str) -> Self {
        match format {
            PaneFormat::Pane => Self::Pane,
            PaneFormat::FlowSummary => Self::Summary(Summaries::new(plan)),
            PaneFormat::Csv => Self::Csv(CsvRows::new(plan, name)),
        }
    }

    /// Appends `pane` of `stage` of the pipeline called `pipeline`, without a line end.
    pub(crate) fn write(
        &self,
        (pipeline, stage): (&str, &Stage),
        pane: PaneRef<'_>,
        symbols: &Symbols,
        out: &mut String,
    ) {
        match self {
            Self::Pane => write_pane(pipeline, stage, pane, symbols, out),
            Self::Summary(summaries) => summaries.write(stage, pane, symbols, out),
            Self::Csv(rows) => rows.write(stage, pane, symbols, out),
        }
    }
}

impl PaneWriter {
    /// The sink called `name` of `plan`, which writes to `target`.
    ///
    /// # Errors
    /// The target cannot be created or written.
    pub fn open(
        name: &str,
        (target, format): (&PaneTarget, PaneFormat),
        delivery: Delivery,
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
    ) -> Result<Self, SinkError> {
        let mut output = Output::open(target, delivery)?;
        let is_first = !matches!(delivery, Delivery::Resumed { .. });
        let text = PaneText::new(format, &plan, name);
        if let (PaneText::Csv(rows), true) = (&text, is_first) {
            rows.write_header(&mut output.lines);
        }
        Ok(Self { plan, symbols, text, output })
    }
}

impl Sink for PaneWriter {
    fn write(&mut self, batch: &PaneBatch) -> Result<(), SinkError> {
        let plan = self.plan.clone();
        let Some(stage) = plan.stages.get(batch.stage.index()) else { return Ok(()) };
        for pane in panes(batch, stage) {
            let lines = &mut self.output.lines;
            self.text.write((&plan.name, stage), pane, &self.symbols, lines);
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
