//! Where a key tells of its sessions: records for sinks, changes for the groups that read them.
//!
//! What is taken back is what was told, to the bit; it stands directly before what replaces it, so
//! that there are never two records of one session.

use super::cut::after;
use super::entry::Entry;
use super::record::{Issued, RecordWriter, session_id};
use super::rules::Rules;
use super::verdict::{Counts, Verdict};
use crate::aggregate::Values;
use crate::changes::Told as Change;
use crate::key::KeyLayout;
use crate::pane::{PaneBatch, PaneKind, PaneMeta, StageId, Timing};
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::time::{EventTime, Window};

/// What holds for all keys of a stage.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) stage: StageId,
    pub(crate) rules: Rules,
    pub(crate) writer: RecordWriter,
    pub(crate) key: KeyLayout,
    /// Whether sinks see the records.
    pub(crate) is_observed: bool,
    /// Whether groups read them.
    pub(crate) tells_changes: bool,
}

/// One record of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) issued: Issued,
    pub(crate) timing: Timing,
    /// As it is written.
    pub(crate) values: Values,
}

/// Takes what one key tells.
pub(crate) struct Outlet<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) key: &'a [u64],
    pub(crate) symbols: &'a Symbols,
    pub(crate) fired: &'a mut Fired,
    /// Records told, and taken back.
    pub(crate) told: [u64; 2],
}

impl Outlet<'_> {
    /// The record that says so.
    pub(crate) fn telling(
        &self,
        said: (&Verdict, Counts),
        issued: Issued,
        timing: Timing,
    ) -> Telling {
        let frame = self.frame;
        Telling { issued, timing, values: frame.writer.write(said, issued, &frame.rules) }
    }

    /// What a session is told under that was named after `record`, and counts at `time`.
    pub(crate) fn issue(&self, record: &Entry, time: EventTime) -> Issued {
        let known = (&self.frame.rules, self.symbols);
        let id = session_id((&self.frame.key, self.key), record, known);
        Issued { id, first: record.time, time, revision: 0 }
    }

    /// Takes back `old`, if there is such a record, and tells `new`; `is_last` says that it stays.
    pub(crate) fn tell(&mut self, old: Option<&Telling>, new: &Telling, is_last: bool) {
        if let Some(old) = old {
            self.push(old, PaneKind::Retract, false);
        }
        self.push(new, PaneKind::Insert, is_last);
        self.fired.changes.end_change();
    }

    fn push(&mut self, telling: &Telling, kind: PaneKind, is_last: bool) {
        let Telling { issued, timing, values } = telling;
        let frame = self.frame;
        // A session is one place of event time, whatever is said of its end.
        let window = Window::new(issued.first, after(issued.first));
        let is_minus = kind == PaneKind::Retract;
        if let Some(count) = self.told.get_mut(usize::from(is_minus)) {
            *count += 1;
        }
        if frame.tells_changes {
            let change = Change { window, time: issued.time, is_minus, is_last: false };
            self.fired.changes.push(self.key, change, (&frame.writer.layout, values));
        }
        if frame.is_observed {
            let meta = PaneMeta {
                window,
                index: issued.revision,
                timing: *timing,
                is_last,
                kind,
                event_time: issued.time,
                is_other: false,
            };
            let panes = self.fired.panes.get_or_insert_with(|| PaneBatch::new(frame.stage));
            panes.push(self.key, meta, values);
        }
    }
}
