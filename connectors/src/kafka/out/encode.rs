//! From panes, sessions and late copies to records of a topic: key, value and headers.
//!
//! The key says which result it is: pipeline, stage, key and window, or the name of a session; in mode
//! `discarding`, where each pane counts for itself, the number of the pane as well. A public form: keys
//! decide which partition a result lies in, and what compaction keeps.

use super::block::{Block, Header};
use super::pane_message::{Scratch, write_message};
use super::{OutFormat, Retractions};
use crate::panes::pane_json::{write_head, write_window};
use crate::panes::session_json::write_session_id;
use crate::panes::value::{bound, write_int};
use crate::panes::{PaneFormat, PaneRef, PaneText, panes};
use nilometer_model::pane::{AccumulationMode, PaneBatch, PaneKind};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::Window;
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

/// What is used for each record anew.
#[derive(Debug, Default)]
struct Draft {
    key: String,
    /// The key of the record behind it.
    next_key: String,
    window: String,
    index: String,
    text: String,
    message: Vec<u8>,
    scratch: Scratch,
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
        let mut draft = Draft::default();
        let mut panes = panes(batch, stage).peekable();
        if let Some(pane) = panes.peek() {
            self.write_key(stage, *pane, &mut draft.next_key);
        }
        while let Some(pane) = panes.next() {
            std::mem::swap(&mut draft.key, &mut draft.next_key);
            draft.next_key.clear();
            if let Some(pane) = panes.peek() {
                self.write_key(stage, *pane, &mut draft.next_key);
            }
            let is_tombstone =
                pane.meta.kind == PaneKind::Retract && self.retractions == Retractions::Tombstones;
            // What replaces it stands behind it, and takes its place.
            if is_tombstone && draft.next_key == draft.key {
                continue;
            }
            draft.window.clear();
            draft.index.clear();
            write_bounds(pane.meta.window, &mut draft.window);
            write_int(pane.meta.index, &mut draft.index);
            if !is_tombstone {
                self.write_value(stage, pane, &mut draft);
            }
            let value = match &self.values {
                _ if is_tombstone => None,
                Values::Text(_) => Some(draft.text.as_bytes()),
                Values::Protobuf => Some(&*draft.message),
            };
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

    /// The value of `pane`, in `draft`.
    fn write_value(&self, stage: &Stage, pane: PaneRef<'_>, draft: &mut Draft) {
        let of = (&*self.plan.name, stage);
        match &self.values {
            Values::Text(form) => {
                draft.text.clear();
                form.write(of, pane, &self.symbols, &mut draft.text);
            }
            Values::Protobuf => {
                draft.message.clear();
                write_message(of, pane, &self.symbols, &mut draft.scratch, &mut draft.message);
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
