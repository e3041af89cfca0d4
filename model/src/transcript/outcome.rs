//! What came of one input, in the words of a transcript.

use super::json::object_text;
use crate::account::DropReason;
use crate::key::KeyLayout;
use crate::pane::{PaneBatch, PaneKind, Timing};
use crate::plan::Stage;
use crate::symbol::Symbols;
use crate::time::{EventTime, Window};
use crate::value::Value;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A pane that came.
#[derive(Debug, Clone, PartialEq)]
pub struct Emitted {
    /// Insert or retract.
    pub kind: PaneKind,
    /// Name of the stage.
    pub stage: Box<str>,
    /// Key as an object.
    pub key: Json,
    /// The same as text, members in the order of the key.
    pub key_text: Box<str>,
    /// The window.
    pub window: Window,
    /// Number of the pane in its window.
    pub index: u32,
    /// Early, on time or late.
    pub timing: Timing,
    /// Whether no pane can follow.
    pub is_last: bool,
    /// Its event time.
    pub event_time: EventTime,
    /// Values as an object.
    pub values: Json,
    /// The same as text, members in the order of the aggregates.
    pub values_text: Box<str>,
}

impl fmt::Display for Emitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            PaneKind::Insert => "pane",
            PaneKind::Retract => "retract",
        };
        // As a rule it is that of the window, which is then not worth a word.
        let time = if self.event_time == self.window.last_instant() {
            String::new()
        } else {
            format!(" @{}", self.event_time)
        };
        write!(
            f,
            "{word} {} {} {} #{} {}{}{time} {}",
            self.stage,
            self.key_text,
            self.window,
            self.index,
            self.timing.name(),
            if self.is_last { " last" } else { "" },
            self.values_text
        )
    }
}

/// A window copy that was dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct Dropped {
    /// Why.
    pub reason: DropReason,
    /// Name of the stage.
    pub stage: Box<str>,
    /// Key as an object.
    pub key: Json,
    /// The same as text, members in the order of the key.
    pub key_text: Box<str>,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dropped {} {} {}", self.reason.name(), self.stage, self.key_text)
    }
}

/// What came of one input.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Panes, in the order in which they came.
    pub panes: Vec<Emitted>,
    /// Window copies that were dropped.
    pub dropped: Vec<Dropped>,
    /// Records that a filter or derived field could not be computed for: line and reason.
    pub refused: Vec<(usize, Box<str>)>,
    /// Numbers of the `gone` expectations that do not hold.
    pub not_gone: BTreeSet<usize>,
    /// Numbers of the expectations that name a stage or key that the plan lacks, and what that is.
    pub unknown: BTreeMap<usize, Box<str>>,
    /// Stages with state left, after the end.
    pub left: Vec<Box<str>>,
}

/// The panes of a batch of `stage`.
pub(super) fn emitted(
    batch: &PaneBatch,
    stage: &Stage,
    symbols: &Symbols,
) -> impl Iterator<Item = Emitted> {
    batch.iter(stage.key.words(), stage.aggregates.words()).map(move |(meta, key, values)| {
        let void = stage.top_k.as_ref().filter(|_| meta.is_other).map(|top_k| &*top_k.entity);
        let key_text = key_text(&stage.key, key, void, symbols);
        let accumulators = stage.aggregates.accumulators();
        let results: Vec<_> = (0..accumulators.len())
            .map(|index| stage.aggregates.result(values, index, symbols))
            .collect();
        let names = accumulators.iter().map(|accumulator| &*accumulator.name);
        let values_text = object_text(names.zip(&results));
        Emitted {
            kind: meta.kind,
            stage: stage.name.clone(),
            key: json(&key_text),
            key_text: key_text.into(),
            window: meta.window,
            index: meta.index,
            timing: meta.timing,
            is_last: meta.is_last,
            event_time: meta.event_time,
            values: json(&values_text),
            values_text: values_text.into(),
        }
    })
}

/// The key as JSON; the fields of `void` name the entry of what a list does not show.
pub(super) fn key_text(
    layout: &KeyLayout,
    key: &[u64],
    void: Option<&[usize]>,
    symbols: &Symbols,
) -> String {
    let mut values = layout.values(key, symbols);
    for field in void.unwrap_or_default() {
        if let Some(value) = values.get_mut(*field) {
            *value = Value::Text("__other".into());
        }
    }
    object_text(layout.fields().iter().map(|field| &*field.name).zip(&values))
}

/// Our own output is JSON; were it not, nothing would equal it.
pub(super) fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or(serde_json::Value::Null)
}
