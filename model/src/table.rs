//! The key actors of one stage: each key's open windows, accumulators and deadline, and the one
//! machine that all of them run.
//!
//! A key actor is addressed by its key and touched by nobody else; here its state is a chain of
//! cells in a slab instead of an object behind a mailbox. It registers one deadline, the earliest
//! of its windows', re-armed lazily; a watermark is delivered to the actors whose deadline is due,
//! which is the same to them and O(due) to the machine. The machine, per window: a copy is judged
//! when it comes; when the watermark passes the end, what came is fired on time; what comes later
//! is fired at the end of its round; when state expires, the window is gone.
//!
//! Invariants PANE-1, PANE-2, LATE-1; GC-1: after expiry nothing of a window is left.

use crate::account::StageAccount;
use crate::aggregate::{AggregateLayout, Overflow, ValuesMut};
use crate::cells::{CellId, Cells, Meta};
use crate::changes::Changes;
use crate::cold::Shelf;
use crate::firing::Due;
use crate::intake::{Copy, Entered, Judged, Takes};
use crate::late::{Aside, LateReason};
use crate::pane::{AccumulationMode, Deltas, PaneBatch, StageId};
use crate::plan::Stage;
use crate::symbol::Symbols;
use crate::time::{EventTime, Lateness, Span, Watermark, Window, judge};
use crate::window::WindowFn;
use std::collections::BTreeMap;

mod cold;
mod firing;

/// What the rules of a stage are, taken from its plan.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) stage: StageId,
    pub(crate) aggregates: AggregateLayout,
    pub(crate) mode: AccumulationMode,
    pub(crate) allowed_lateness: Span,
    /// Panes go to sinks: their identity is kept until expiry.
    pub(crate) is_observed: bool,
    pub(crate) keeps_total: bool,
    pub(crate) has_children: bool,
}

impl Rules {
    pub(crate) fn of(stage: &Stage) -> Self {
        Self {
            stage: stage.id,
            aggregates: stage.aggregates.clone(),
            mode: stage.mode,
            allowed_lateness: stage.allowed_lateness,
            is_observed: stage.is_observed(),
            keeps_total: stage.keeps_total(),
            has_children: stage.has_children,
        }
    }
}

/// What a round of a stage gives.
#[derive(Debug)]
pub(crate) struct Fired {
    /// Deltas for the stages that read this one.
    pub(crate) deltas: Deltas,
    /// What changed of its results, for stages that group them.
    pub(crate) changes: Changes,
    /// Panes for sinks.
    pub(crate) panes: Option<PaneBatch>,
    /// What came late, where it is listed.
    pub(crate) aside: Aside,
    /// How many panes, deltas, or rows of changes a slice holds, at least 1. Exceeded by what one
    /// window, list or session gives at once.
    pub(crate) slice: usize,
}

impl Fired {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            deltas: Deltas::default(),
            changes: Changes::default(),
            panes: None,
            aside: Aside::new(stage),
            slice: usize::MAX,
        }
    }

    /// Whether the slice is full.
    pub(crate) fn is_full(&self) -> bool {
        let panes = self.panes.as_ref().map_or(0, |panes| panes.panes.len());
        crate::firing::is_full(self.slice, panes, (&self.deltas, &self.changes))
    }
}

/// Actors that are due at an instant, while the watermark is delivered to them.
#[derive(Debug)]
struct Bucket {
    deadline: EventTime,
    due: Due<CellId>,
    /// If they are the whole table, which goes at once: how many windows have fired.
    whole: Option<usize>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { deadline: EventTime::MIN, due: Due::default(), whole: None }
    }
}

/// All key actors of one stage in one shard.
#[derive(Debug)]
pub(crate) struct KeyTable {
    pub(crate) rules: Rules,
    pub(crate) cells: Cells,
    /// Heads by the deadline they registered. A head stands in every bucket it was ever armed
    /// for; only the bucket it is armed for now counts. Cleared as the watermark passes.
    deadlines: BTreeMap<EventTime, Vec<CellId>>,
    /// The bucket that is being worked on. Empty between two rounds.
    bucket: Bucket,
    /// Late windows with news, by head. Cleared at the end of the round.
    touched: Vec<(CellId, Window)>,
    /// What is asked at the end of the round. Empty between two rounds.
    ending: Due<(CellId, Window)>,
    /// What is asked since the watermark stands still. `None` between two rounds.
    timing_out: Option<Due<CellId>>,
    /// The stage's watermark. Never falls (WM-1).
    pub(crate) watermark: Watermark,
    /// The watermark before it, while it is delivered. `None` between two rounds.
    before: Option<Watermark>,
    pub(crate) account: StageAccount,
    /// Room for a new total while a pane is made.
    scratch: Vec<u64>,
    /// Where keys are that are not in memory; `None` if all are.
    shelf: Option<Box<Shelf>>,
}

impl KeyTable {
    pub(crate) fn new(stage: &Stage) -> Self {
        let rules = Rules::of(stage);
        let words = rules.aggregates.words();
        let cells = Cells::new(stage.key.words(), words, rules.keeps_total);
        let is_sliding = matches!(stage.window, WindowFn::Sliding { .. });
        Self {
            // A chain of windows is for keys that have few.
            cells: if is_sliding { cells.apart() } else { cells },
            deadlines: BTreeMap::new(),
            bucket: Bucket::default(),
            touched: Vec::new(),
            ending: Due::default(),
            timing_out: None,
            watermark: Watermark::MIN,
            before: None,
            account: StageAccount {
                cut: vec![0; rules.aggregates.accumulators().len()],
                ..StageAccount::default()
            },
            scratch: vec![0; words],
            shelf: None,
            rules,
        }
    }

    fn find_or_add(
        &mut self,
        hash: u64,
        key: &[u64],
        window: Window,
        is_late: bool,
    ) -> (CellId, CellId) {
        let mut known = self.cells.head(hash, key, window);
        if known.is_none() && self.shelf.is_some() {
            known = self.recall_head(key, window);
        }
        if let Some(head) = known
            && let Some(cell) = self.cells.find(head, window)
        {
            return (head, cell);
        }
        let (head, cell) = match known {
            Some(head) => (head, self.cells.insert_window(head, window)),
            None => {
                let head = self.cells.insert_key(hash, key, window);
                (head, head)
            }
        };
        // A late window that nobody observes does not outlive its round: it needs no deadline.
        if !is_late || self.rules.is_observed {
            self.register(head, self.deadline(window));
        }
        (head, cell)
    }

    /// When a window next needs its actor: at its end, then at its expiry.
    fn deadline(&self, window: Window) -> EventTime {
        if self.watermark.0 < window.end() {
            window.end()
        } else {
            window.end().saturating_add(self.rules.allowed_lateness)
        }
    }

    /// Registers the head's deadline if it is earlier than the one it has.
    fn register(&mut self, head: CellId, deadline: EventTime) {
        let armed = self.cells.armed(head).unwrap_or(EventTime::MAX);
        // A new key is armed at the end of time without standing in a bucket.
        let is_new = armed == EventTime::MAX && deadline == EventTime::MAX;
        if deadline < armed || is_new {
            self.cells.arm(head, deadline);
            self.deadlines.entry(deadline).or_default().push(head);
        }
    }

    /// Puts back a window as it was at the watermark, which must be set first; windows of one key
    /// come oldest first. Returns the head of its key.
    pub(crate) fn restore(
        &mut self,
        key: &[u64],
        window: Window,
        meta: Meta,
        (delta, total): (&[u64], Option<&[u64]>),
    ) -> CellId {
        let is_late = self.watermark.0 >= window.end();
        let (head, cell) = self.find_or_add(self.cells.hash(key), key, window, is_late);
        self.cells.settle(cell, total);
        self.cells.delta_mut(cell).copy_from_slice(delta);
        self.cells.set_meta(cell, meta);
        head
    }

    /// Late windows that have news wait for the end of a round.
    pub(crate) fn touch_news(&mut self) {
        for head in self.cells.heads().collect::<Vec<_>>() {
            let (meta, window) = (self.cells.meta(head), self.cells.window(head));
            if meta.has_news && self.watermark.0 >= window.end() {
                self.cells.set_meta(head, Meta { is_touched: true, ..meta });
                self.touched.push((head, window));
            }
        }
    }

    /// Whether no window and no deadline is left.
    pub(crate) fn is_empty(&self) -> bool {
        let has_cold = self.shelf.as_ref().is_some_and(|shelf| !shelf.cold.is_empty());
        self.cells.len() == 0 && self.deadlines.is_empty() && !has_cold
    }

    /// Every open window with its key.
    pub(crate) fn open_windows(&self) -> impl Iterator<Item = (&[u64], Window)> {
        self.cells.heads().flat_map(move |head| {
            let chain = std::iter::successors(Some(head), move |cell| self.cells.next(*cell));
            chain.map(move |cell| (self.cells.key(head), self.cells.window(cell)))
        })
    }
}

impl Takes for KeyTable {
    fn hash(&self, key: &[u64]) -> u64 {
        self.cells.hash(key)
    }

    fn aggregates(&self) -> &AggregateLayout {
        &self.rules.aggregates
    }

    fn account(&mut self) -> &mut StageAccount {
        &mut self.account
    }

    fn watermark(&self) -> Watermark {
        self.watermark
    }

    fn enter(&mut self, copy: Copy<'_>, _: &Symbols) -> Result<Judged, Overflow> {
        let Copy { hash, key, window, .. } = copy;
        self.account.assigned += 1;
        let is_late = match judge(window, self.watermark, self.rules.allowed_lateness) {
            Lateness::OnTime => {
                self.account.on_time += 1;
                false
            }
            Lateness::Late => {
                self.account.late += 1;
                true
            }
            Lateness::Expired => {
                self.account.expired += 1;
                return Ok(Judged::Dropped(LateReason::Expired));
            }
        };
        self.account.operations += 1;
        let (head, cell) = self.find_or_add(hash, key, window, is_late);
        self.cells.touch(head);
        let mut meta = self.cells.meta(cell);
        let is_empty = !meta.has_news;
        if is_empty || is_late && !meta.is_touched || !meta.is_used {
            (meta.has_news, meta.is_used) = (true, true);
            if is_late && !meta.is_touched {
                meta.is_touched = true;
                self.touched.push((head, window));
            }
            self.cells.set_meta(cell, meta);
        }
        Ok(Judged::Into(Entered { cell, is_empty, is_late }))
    }

    fn delta(&mut self, entered: &Entered) -> (&AggregateLayout, ValuesMut<'_>) {
        (&self.rules.aggregates, self.cells.delta_mut(entered.cell).into())
    }
}
