//! The one way of a flow into a batch: normalised, its doubts counted as marks, rejected with a
//! reason where it cannot be used.
//!
//! Every source of flows goes through here, whatever its format, so that a flow means the same
//! from everywhere.

use crate::account::Reason;
use crate::source::{Found, Polled};
use nilometer_model::flow::{
    Applications, Biflow, Exporters, Flow, FlowRows, FlowSettings, normalise, reverse,
};
use nilometer_model::row::{Position, RowLayout};
use nilometer_model::symbol::Symbols;
use std::sync::Arc;

/// What normalisation needs to know beside the flow.
#[derive(Debug, Clone, Default)]
pub struct FlowContext {
    /// The exporters that the user has named.
    pub exporters: Arc<Exporters>,
    /// The rules that name applications.
    pub applications: Arc<Applications>,
    /// How flows are normalised.
    pub settings: FlowSettings,
}

/// Puts the flows of one source into batches.
#[derive(Debug)]
pub struct FlowIntake {
    context: FlowContext,
    rows: FlowRows,
    symbols: Arc<Symbols>,
    /// Where the next record stands.
    position: Position,
    /// Whether records come one behind the other, and no one says where each stands.
    is_counted: bool,
}

impl FlowIntake {
    /// An intake for rows of `layout`, whose records belong to source partition `partition`.
    pub fn new(
        context: FlowContext,
        layout: &RowLayout,
        symbols: Arc<Symbols>,
        partition: u32,
    ) -> Self {
        let position = Position { partition, offset: 0 };
        Self { context, rows: FlowRows::new(layout), symbols, position, is_counted: true }
    }

    /// How many records were begun.
    pub(crate) fn count_so_far(&self) -> u64 {
        self.position.offset
    }

    /// Goes on behind `count` records that were begun by another.
    pub(crate) fn resume(&mut self, count: u64) {
        self.position.offset = count;
    }

    /// The next records stand at `position`, as many as they are.
    pub(crate) fn place(&mut self, position: Position) {
        self.position = position;
        self.is_counted = false;
    }

    /// Counts `flow` as read and appends it to the batch of `out`, or rejects it. The reverse
    /// direction of a biflow is a record of its own where the settings say so.
    pub fn take(&mut self, flow: &Flow, found: Found<'_>, out: &mut Polled) {
        self.enter(flow, found, out);
        if self.context.settings.biflow == Biflow::Split
            && let Some(back) = reverse(flow)
        {
            self.enter(&back, found, out);
        }
    }

    /// Counts input as read that makes no flow, and rejects it.
    pub fn reject(&mut self, found: Found<'_>, reason: Reason, detail: &str, out: &mut Polled) {
        self.count(out);
        out.reject(found, reason, detail);
    }

    fn enter(&mut self, flow: &Flow, found: Found<'_>, out: &mut Polled) {
        let position = self.count(out);
        let FlowContext { exporters, applications, settings } = &self.context;
        let normal = match normalise(flow, exporters, applications, *settings) {
            Ok(normal) => normal,
            Err(malformed) => {
                return out.reject(found, Reason::Flow(malformed), &malformed.to_string());
            }
        };
        let mut row = out.batch.push(normal.extent.last(), position);
        if let Err(full) = self.rows.write(&normal, &self.symbols, &mut row) {
            out.batch.pop();
            return out.reject(found, Reason::TooManyTexts, &full.to_string());
        }
        for (name, is_noted) in normal.notes.named() {
            if is_noted {
                out.account.marks.add(name, 1);
            }
        }
    }

    fn count(&mut self, out: &mut Polled) -> Position {
        let position = self.position;
        if self.is_counted {
            self.position.offset = self.position.offset.saturating_add(1);
        }
        out.account.read = out.account.read.saturating_add(1);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letter::Place;
    use nilometer_model::flow::Node;
    use nilometer_model::row::Field;
    use nilometer_model::value::Type;

    fn flow() -> Flow {
        Flow {
            node: Some(Node::new(1, None, None)),
            last_ms: Some(5),
            bytes: Some(7),
            reverse_bytes: Some(70),
            location: Some("here".into()),
            ..Flow::default()
        }
    }

    #[test]
    fn every_flow_has_one_outcome() {
        let layout = Arc::new(RowLayout::new([
            Field::new("bytes", Type::Big),
            Field::new("location", Type::Text),
        ]));
        let origin: Arc<str> = "a.pcap".into();
        let found = Found::new(&origin, Place::Record(1), b"");
        for (biflow, symbols_max, records, marks, reasons) in [
            (Biflow::Count, 9, 1, vec![("reverse_direction", 1)], vec![("missing_exporter", 1)]),
            (Biflow::Split, 9, 2, vec![], vec![("missing_exporter", 2)]),
            (Biflow::Count, 0, 0, vec![], vec![("missing_exporter", 1), ("too_many_texts", 1)]),
        ] {
            let symbols = Arc::new(Symbols::with_limit(symbols_max));
            let settings = FlowSettings { biflow, ..FlowSettings::default() };
            let context = FlowContext { settings, ..FlowContext::default() };
            let mut intake = FlowIntake::new(context, &layout, symbols, 3);
            let mut out = Polled::new(layout.clone(), false);
            intake.take(&flow(), found, &mut out);
            intake.take(&Flow { node: None, ..flow() }, found, &mut out);
            assert_eq!(out.batch.len(), records);
            assert_eq!(out.account.marks.sorted(), marks);
            assert_eq!(out.account.malformed.sorted(), reasons);
            let outcomes = records as u64 + out.account.malformed.total();
            assert_eq!(out.account.read, outcomes);
            if records > 0 {
                assert_eq!(out.batch.position(0), Position { partition: 3, offset: 0 });
                assert_eq!(out.batch.time(0).as_millis(), 5);
            }
        }
    }
}
