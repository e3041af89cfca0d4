//! From panes, sessions and late copies to records of a topic: key, value and headers.
//!
//! The key says which result it is: pipeline, stage, key and window, or the name of a session; in mode
//! `discarding`, where each pane counts for itself, the number of the pane as well. A public form: keys
//! decide which partition a result lies in, and what compaction keeps.

use super::block::{Block, Header};
use super::pane_message::Pane;
use super::{OutFormat, Retractions};
use crate::panes::pane_json::{write_head, write_window};
use crate::panes::session_json::write_session_id;
use crate::panes::value::{bound, write_int};
use crate::panes::{PaneFormat, PaneRef, PaneText, panes};
use nilometer_model::pane::{AccumulationMode, PaneBatch, PaneKind};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::Window;
use prost::Message;
use std::sync::Arc;

/// Encodes the panes of one plan.
#[derive(Debug)]
pub(crate) struct PaneRecords {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    values: Values,
    retractions: Retractions,
}

#[derive(Debug)]
enum Values {
    Text(PaneText),
    Protobuf,
}

/// A record while it is made.
#[derive(Debug, Default)]
struct Draft {
    key: String,
    window: String,
    index: String,
    value: Vec<u8>,
}

impl PaneRecords {
    pub(crate) fn new(
        (name, format): (&str, OutFormat),
        retractions: Retractions,
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
    ) -> Self {
        let text = |format| Values::Text(PaneText::new(format, &plan, name));
        let values = match format {
            OutFormat::Pane => text(PaneFormat::Pane),
            OutFormat::FlowSummary => text(PaneFormat::FlowSummary),
            OutFormat::Protobuf => Values::Protobuf,
        };
        Self { values, retractions, plan, symbols }
    }

    /// Appends the records of `batch` to `block`, with the headers `trace`.
    pub(crate) fn write(&self, batch: &PaneBatch, trace: &[Header<'_>], block: &mut Block) {
        let Some(stage) = self.plan.stages.get(batch.stage.index()) else { return };
        let mut next = Draft::default();
        let mut panes = panes(batch, stage).peekable();
        if let Some(pane) = panes.peek() {
            self.write_key(stage, *pane, &mut next.key);
        }
        while let Some(pane) = panes.next() {
            let mut draft = std::mem::take(&mut next);
            if let Some(pane) = panes.peek() {
                self.write_key(stage, *pane, &mut next.key);
            }
            let is_tombstone =
                pane.meta.kind == PaneKind::Retract && self.retractions == Retractions::Tombstones;
            // What replaces it stands behind it, and takes its place.
            if is_tombstone && next.key == draft.key {
                continue;
            }
            if !is_tombstone {
                self.write_value(stage, pane, &mut draft.value);
            }
            write_bounds(pane.meta.window, &mut draft.window);
            write_int(pane.meta.index, &mut draft.index);
            let value = (!is_tombstone).then_some(&*draft.value);
            let headers = [
                ("nilometer.pipeline", self.plan.name.as_bytes()),
                ("nilometer.stage", stage.name.as_bytes()),
                ("nilometer.kind", pane.meta.kind.name().as_bytes()),
                ("nilometer.timing", pane.meta.timing.name().as_bytes()),
                ("nilometer.index", draft.index.as_bytes()),
                ("nilometer.window", draft.window.as_bytes()),
            ];
            let headers = headers.iter().chain(trace);
            block.push(Some(draft.key.as_bytes()), value, headers.copied());
        }
    }

    fn write_key(&self, stage: &Stage, pane: PaneRef<'_>, out: &mut String) {
        write_head(&self.plan.name, stage, (pane, &self.symbols), out);
        if let Some(sequence) = &stage.sequence {
            out.push_str("},\"session_id\":");
            write_session_id((stage, sequence), (pane, &self.symbols), out);
        } else {
            out.push_str("},\"window\":");
            write_window(pane.meta.window, out);
            if stage.mode == AccumulationMode::Discarding {
                out.push_str(",\"index\":");
                write_int(pane.meta.index, out);
            }
        }
        out.push('}');
    }

    fn write_value(&self, stage: &Stage, pane: PaneRef<'_>, out: &mut Vec<u8>) {
        match &self.values {
            Values::Text(text) => {
                let mut value = String::new();
                text.write((&self.plan.name, stage), pane, &self.symbols, &mut value);
                *out = value.into_bytes();
            }
            Values::Protobuf => {
                *out = Pane::new(&self.plan.name, stage, pane, &self.symbols).encode_to_vec();
            }
        }
    }
}

/// Appends `start/end`; nothing stands for a bound that the window does not have.
pub(crate) fn write_bounds(window: Window, out: &mut String) {
    if let Some(start) = bound(window.start()) {
        write_int(start, out);
    }
    out.push('/');
    if let Some(end) = bound(window.end()) {
        write_int(end, out);
    }
}
