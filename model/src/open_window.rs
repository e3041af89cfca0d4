//! One open window of a key: what has come into it, what was emitted of it, and its firing.
//!
//! Timing is decided by the key's part of the output watermark ([`Instants::output`]) as it was
//! before the step, by the panes before, and by whether something of the pane came late; not by
//! what made the trigger ready.
//!
//! Invariants PANE-1, PANE-2; what a merged-away window sent, or told, is owed until it is taken
//! back.

use crate::aggregate::side::Side;
use crate::aggregate::{Overflow, Values, ValuesRef};
use crate::changes::{Changes, Told};
use crate::firing;
use crate::kept::Kept;
use crate::key_machine::{Instants, MachineRules};
use crate::pane::{AccumulationMode, Deltas, PaneBatch, PaneKind, PaneMeta, Timing};
use crate::symbol::Symbols;
use crate::time::{EventTime, Watermark, Window};
use crate::trigger::{Facts, TriggerState};
use serde::{Deserialize, Serialize};

/// What was sent, or told, of a window that is no more, to be taken back before the next pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owed {
    pub(crate) window: Window,
    pub(crate) index: u32,
    /// Timing of the pane that was sent.
    pub(crate) sent: Option<Timing>,
    /// Event time of the row that was told.
    pub(crate) told: Option<EventTime>,
    pub(crate) values: Values,
}

/// One open window of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenWindow {
    pub(crate) window: Window,
    /// What came since the pane before. Cleared by a firing. On merge: merged.
    pub(crate) delta: Values,
    /// What came up to the pane before. On merge: merged. Empty where nobody asks for it.
    pub(crate) total: Values,
    /// Cleared when the window goes. On merge: see [`TriggerState::merge`].
    pub(crate) trigger: TriggerState,
    /// Event time of the next pane; see [`OpenWindow::held`]. Cleared by a firing. On merge:
    /// combined, or taken anew from the merged window's end.
    pub(crate) hold: Option<EventTime>,
    /// Retractions of merged-away windows. Cleared by a pane. On merge: joined.
    pub(crate) owed: Vec<Owed>,
    /// Index of the next pane. On merge: kept by the window with the merged bounds, else 0.
    pub(crate) index: u32,
    /// Timing of the pane before. On merge: as the index.
    pub(crate) sent: Option<Timing>,
    /// Whether the pane before was taken back, and none has come since.
    pub(crate) is_withdrawn: bool,
    /// Event time of the row that stages above were told, if one stands. On merge: owed.
    pub(crate) told: Option<EventTime>,
    /// Rows of results that came, less those that were taken back. Such windows do not merge.
    pub(crate) rows: i64,
    /// Values that aggregates of such rows need again. Gone with the window.
    #[serde(skip)]
    pub(crate) kept: Kept,
    /// Whether something came since the pane before.
    pub(crate) has_news: bool,
    /// Whether some of it came late. Cleared by a firing. On merge: judged anew.
    pub(crate) has_late: bool,
    /// Whether it waits for the end of the round.
    #[serde(skip)]
    pub(crate) is_touched: bool,
}

/// Where a step puts what it emits.
pub(crate) struct Outlet<'a> {
    pub(crate) key: &'a [u64],
    pub(crate) deltas: &'a mut Deltas,
    pub(crate) changes: &'a mut Changes,
    pub(crate) panes: &'a mut PaneBatch,
    pub(crate) symbols: &'a Symbols,
    /// See [`crate::table::Fired::slice`].
    pub(crate) slice: usize,
}

impl Outlet<'_> {
    /// Whether the slice is full.
    pub(crate) fn is_full(&self) -> bool {
        firing::is_full(self.slice, self.panes.panes.len(), (self.deltas, self.changes))
    }
}

/// What a pane says of itself beside its values.
#[derive(Clone, Copy)]
struct Saying {
    timing: Timing,
    is_last: bool,
    /// Whether it is emitted even if nothing has come.
    is_wanted: bool,
}

impl OpenWindow {
    pub(crate) fn new(window: Window, rules: &MachineRules) -> Self {
        let empty = || rules.aggregates.empty();
        Self {
            window,
            delta: empty(),
            total: if rules.keeps_total { empty() } else { Values::default() },
            trigger: TriggerState::new(&rules.trigger),
            hold: None,
            owed: Vec::new(),
            index: 0,
            sent: None,
            is_withdrawn: false,
            told: None,
            rows: 0,
            kept: Kept::new(&rules.keeps_values, &rules.aggregates),
            has_news: false,
            has_late: false,
            is_touched: false,
        }
    }

    /// What the output watermark must not pass because of this window: its next pane must not be
    /// late for the stage above.
    pub(crate) fn held(&self) -> Option<EventTime> {
        self.hold.map(|hold| hold.min(self.window.last_instant()))
    }

    /// A record at `time` has come. It counts for the time of the next pane, and holds the output
    /// watermark, unless it is behind that already.
    pub(crate) fn add_hold(&mut self, time: EventTime, rules: &MachineRules, at: Instants<'_>) {
        let time = rules.pane_time(self.window, time);
        if Watermark(time.min(self.window.last_instant())) >= at.output(at.before) {
            self.hold = rules.combine_times(self.hold, Some(time));
        }
    }

    /// Whether other bounds change nothing but itself: nobody has seen it, and its trigger has not
    /// fired.
    pub(crate) fn is_unseen(&self) -> bool {
        self.sent.is_none() && self.told.is_none() && self.trigger.is_unfired()
    }

    /// Takes other bounds, where nobody has seen it: what [`OpenWindow::merged`] makes of it alone.
    pub(crate) fn stretch(&mut self, window: Window, rules: &MachineRules, at: Instants<'_>) {
        self.window = window;
        self.hold = self.moved_hold(window, rules, at);
        self.has_late &= at.watermark.0 >= rules.complete_at(window);
    }

    /// Its hold as a part of `window`. Bounds may shrink: what falls behind does not hold.
    fn moved_hold(
        &self,
        window: Window,
        rules: &MachineRules,
        at: Instants<'_>,
    ) -> Option<EventTime> {
        let time = rules.merged_time(window, self.hold?);
        let is_ahead = Watermark(time.min(window.last_instant())) >= at.output(at.before);
        is_ahead.then_some(time)
    }

    /// Makes one window of several. One that had the bounds `window` goes on; otherwise it is a new
    /// window, and what was sent for its parts is owed.
    pub(crate) fn merged(
        parts: Vec<Self>,
        (window, trigger): (Window, TriggerState),
        rules: &MachineRules,
        at: Instants<'_>,
        symbols: &Symbols,
    ) -> Result<Self, Overflow> {
        let mut whole = Self { trigger, is_touched: true, ..Self::new(window, rules) };
        let is_alone = parts.len() == 1;
        for part in parts {
            // The delta and total of a closed window may have been let go.
            if !part.delta.is_absent() {
                rules.aggregates.merge_all(&mut whole.delta, &part.delta, symbols)?;
            }
            if rules.keeps_total && !part.total.is_absent() {
                rules.aggregates.merge_all(&mut whole.total, &part.total, symbols)?;
            }
            whole.hold = rules.combine_times(whole.hold, part.moved_hold(window, rules, at));
            whole.has_news |= part.has_news;
            whole.has_late |= part.has_late && at.watermark.0 >= rules.complete_at(window);
            whole.owed.extend(part.owed);
            let goes_on = part.window == window;
            if goes_on {
                (whole.index, whole.sent) = (part.index, part.sent);
            } else if part.sent.is_some() {
                // Under its new bounds nobody has seen it.
                whole.has_news |= rules.mode != AccumulationMode::Discarding;
            }
            if goes_on && is_alone {
                whole.told = part.told;
                continue;
            }
            let sent = part.sent.filter(|_| rules.mode == AccumulationMode::Retracting);
            if sent.is_some() || part.told.is_some() {
                let index = part.index.saturating_sub(1);
                let Self { window, told, total: values, .. } = part;
                whole.owed.push(Owed { window, index, sent, told, values });
            }
        }
        Ok(whole)
    }

    /// Fires if the trigger is ready; emits what is left if the window has expired.
    pub(crate) fn settle(
        &mut self,
        rules: &MachineRules,
        at: Instants<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), Overflow> {
        let owes_rows = self.owed.iter().any(|owed| owed.told.is_some());
        let has_news = self.has_news || owes_rows;
        // A window that is closed has news only where its bounds have changed: of these nobody knows.
        let is_moved = self.trigger.is_finished() && has_news;
        if self.trigger.is_finished() && !is_moved {
            return Ok(());
        }
        // Asked often, fired seldom: values are made when somebody looks at them.
        let looks = rules.trigger.reads_results();
        let looked_at = if looks { Some(self.values(rules, outlet.symbols)?) } else { None };
        let shown = match (&looked_at, rules.mode) {
            (None, _) => ValuesRef::default(),
            (Some(_), AccumulationMode::Discarding) => self.delta.view(),
            (Some(values), AccumulationMode::Accumulating | AccumulationMode::Retracting) => {
                values.view()
            }
        };
        let facts = Facts {
            complete_at: rules.complete_at(self.window),
            watermark: at.watermark,
            shares: at.shares,
            now: at.now,
            aggregates: &rules.aggregates,
            values: shown,
            symbols: outlet.symbols,
        };
        let is_ready = self.trigger.is_ready(&rules.trigger, &facts);
        let is_expired = at.watermark.0 >= rules.expires_at(self.window);
        if !is_ready && !is_expired && !is_moved {
            return Ok(());
        }
        let timing = self.timing(rules, at, is_ready || is_moved);
        if is_ready {
            self.trigger.fire(&rules.trigger, &facts);
        }
        let is_last = is_expired || self.trigger.is_finished();
        let is_wanted = timing == Timing::OnTime && rules.emission.on_time_always
            || is_last && rules.emission.closing_always;
        if has_news || is_wanted {
            let values = match looked_at {
                Some(values) => values,
                None => self.values(rules, outlet.symbols)?,
            };
            self.emit(rules, Saying { timing, is_last, is_wanted }, values, outlet);
        }
        (self.hold, self.has_late) = (None, false);
        if self.trigger.is_finished() && !rules.window.is_merging() {
            // Closed: only its name is kept until it expires.
            (self.delta, self.total) = (Values::default(), Values::default());
        }
        Ok(())
    }

    /// The watermark has stood still for too long: what has come is emitted, and nothing else
    /// changes. The trigger does not hear of it.
    pub(crate) fn time_out(
        &mut self,
        rules: &MachineRules,
        at: Instants<'_>,
        outlet: &mut Outlet<'_>,
    ) -> Result<(), Overflow> {
        let is_complete = at.watermark.0 >= rules.complete_at(self.window);
        if is_complete || !self.has_news || self.trigger.is_finished() {
            return Ok(());
        }
        let values = self.values(rules, outlet.symbols)?;
        let was_complete = self.sent.is_some_and(Timing::completes);
        let timing = if was_complete { Timing::Late } else { Timing::TimedOut };
        self.emit(rules, Saying { timing, is_last: false, is_wanted: false }, values, outlet);
        self.hold = None;
        Ok(())
    }

    /// All that the next pane would show: the total, or without one what came since the pane before.
    fn values(&mut self, rules: &MachineRules, symbols: &Symbols) -> Result<Values, Overflow> {
        if self.total.is_absent() {
            return Ok(self.delta.clone());
        }
        let mut values = self.total.clone();
        rules.aggregates.merge_all(&mut values, &self.delta, symbols)?;
        self.kept.settle(&mut values, &rules.aggregates, symbols)?;
        Ok(values)
    }

    /// The timing of a pane that is emitted now.
    fn timing(&self, rules: &MachineRules, at: Instants<'_>, is_ready: bool) -> Timing {
        let complete_at = rules.complete_at(self.window);
        // A jump over end and expiry gives what a stop in between would have given: there a trigger
        // that is not ready even now would not have fired.
        let has_stopped = !is_ready && rules.expires_at(self.window) > complete_at;
        let before = if has_stopped { at.watermark } else { at.before };
        let was_complete = self.sent.is_some_and(Timing::completes);
        let is_complete = at.watermark.0 >= complete_at;
        if was_complete || at.output(before).0 >= complete_at || (is_complete && self.has_late) {
            Timing::Late
        } else if is_complete {
            Timing::OnTime
        } else {
            Timing::Early
        }
    }

    /// Emits the pane: its delta and what changed to the next stages, to the sinks what the mode
    /// wants.
    fn emit(
        &mut self,
        rules: &MachineRules,
        saying: Saying,
        values: Values,
        outlet: &mut Outlet<'_>,
    ) {
        if rules.has_children && self.has_news {
            outlet.deltas.push(outlet.key, self.window, &self.delta);
        }
        if rules.tells_changes {
            self.tell(rules, &values, outlet);
        }
        if rules.is_observed && (self.has_news || saying.is_wanted) {
            self.show(rules, saying, &values, outlet);
        }
        self.owed.clear();
        if rules.keeps_total {
            self.total = values;
        }
        self.delta.clear();
        self.has_news = false;
    }

    /// Whether anything is in it: rows of results may all have been taken back.
    const fn is_filled(&self, rules: &MachineRules) -> bool {
        !rules.reads_changes || self.rows != 0
    }

    /// Tells stages that group results what has changed: every row that no longer holds, then the
    /// one that does.
    fn tell(&mut self, rules: &MachineRules, values: &Values, outlet: &mut Outlet<'_>) {
        let is_filled = self.is_filled(rules);
        let aggregates = &rules.aggregates;
        let owes = self.owed.iter().any(|owed| owed.told.is_some());
        let is_same = match self.told {
            Some(_) => is_filled && aggregates.same_results(&self.total, values),
            None => !is_filled,
        };
        if is_same && !owes {
            return;
        }
        let mut push = |window, time, is_minus, values: &Values| {
            let row = Told { window, time, is_minus, is_last: false };
            outlet.changes.push(outlet.key, row, (aggregates, values));
        };
        for owed in &self.owed {
            if let Some(time) = owed.told {
                push(owed.window, time, true, &owed.values);
            }
        }
        if let Some(time) = self.told.take() {
            push(self.window, time, true, &self.total);
        }
        if is_filled {
            let time = self.hold.unwrap_or(self.window.last_instant());
            push(self.window, time, false, values);
            self.told = Some(time);
        }
        outlet.changes.end_change();
    }

    /// Whether a pane would say nothing that the one before has not said.
    fn is_unchanged(&self, rules: &MachineRules, values: &Values) -> bool {
        let is_filled = self.is_filled(rules);
        let stands = self.sent.is_some() && !self.is_withdrawn;
        let is_same = || rules.aggregates.same_results(&self.total, values);
        match rules.mode {
            AccumulationMode::Retracting if stands => {
                self.owed.is_empty() && is_filled && is_same()
            }
            AccumulationMode::Retracting => !is_filled,
            AccumulationMode::Accumulating => {
                rules.reads_changes && if stands { is_same() } else { !is_filled }
            }
            AccumulationMode::Discarding => {
                let is_nothing = self.delta.words.iter().all(|word| *word == 0)
                    && self.delta.sides.iter().all(Side::is_empty);
                rules.reads_changes && is_nothing && (stands || !is_filled)
            }
        }
    }

    /// Hands the pane to the sinks, as the mode wants it.
    fn show(
        &mut self,
        rules: &MachineRules,
        Saying { timing, is_last, is_wanted }: Saying,
        values: &Values,
        outlet: &mut Outlet<'_>,
    ) {
        if self.is_unchanged(rules, values) && !is_wanted {
            return;
        }
        let pane = PaneMeta {
            window: self.window,
            index: self.index,
            timing,
            is_last,
            kind: PaneKind::Insert,
            event_time: self.hold.unwrap_or(self.window.last_instant()),
            is_other: false,
        };
        self.retract(rules, pane, outlet);
        let is_retracting = rules.mode == AccumulationMode::Retracting;
        self.is_withdrawn = is_retracting && !self.is_filled(rules) && !is_wanted;
        if self.is_withdrawn {
            return;
        }
        let shown = match rules.mode {
            AccumulationMode::Discarding => &self.delta,
            AccumulationMode::Accumulating | AccumulationMode::Retracting => values,
        };
        outlet.panes.push(outlet.key, pane, shown);
        self.index = self.index.saturating_add(1);
        self.sent = Some(timing);
    }

    /// Takes back what merged-away windows and this one have sent.
    fn retract(&self, rules: &MachineRules, pane: PaneMeta, outlet: &mut Outlet<'_>) {
        let kind = PaneKind::Retract;
        let mut is_own_owed = false;
        for owed in &self.owed {
            let Some(timing) = owed.sent else { continue };
            is_own_owed |= owed.window == self.window;
            let (window, index, event_time) = (owed.window, owed.index, owed.window.last_instant());
            let meta = PaneMeta { window, index, timing, kind, is_last: false, event_time, ..pane };
            outlet.panes.push(outlet.key, meta, &owed.values);
        }
        let is_own = rules.mode == AccumulationMode::Retracting && !self.is_withdrawn;
        if let (Some(timing), true, false) = (self.sent, is_own, is_own_owed) {
            let index = self.index.saturating_sub(1);
            let meta = PaneMeta { index, timing, kind, is_last: false, ..pane };
            outlet.panes.push(outlet.key, meta, &self.total);
        }
    }
}
