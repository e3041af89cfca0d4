//! The two ends of an exchanged stage: one whose key does not contain what places records.
//!
//! Its deltas go to the shard that owns the coarser key, and every shard sends its stage watermark
//! to all; the receiver's stage watermark is the minimum over senders. ORDER-1 holds on the
//! exchange as long as messages between two shards keep their order: deltas are handed out before
//! the mark. A mark may end a sender's cycle; the stage has all of a cycle once every sender has
//! ended it.

use crate::account::StageAccount;
use crate::changes::Changes;
use crate::intake::Shape;
use crate::key::Router;
use crate::late::Aside;
use crate::pane::{Deltas, StageId};
use crate::plan::{PaneInput, Plan, Stage};
use crate::rows::{ChangeReader, SignedRows};
use crate::symbol::Symbols;
use crate::time::Watermark;

/// What is on its way to the shard that owns its key in the receiving stage.
#[derive(Debug, Clone)]
pub struct ExchangeDeltas {
    /// The receiving stage.
    pub stage: StageId,
    /// What it receives.
    pub brought: Brought,
}

/// What an exchange brings.
#[derive(Debug, Clone)]
pub enum Brought {
    /// Deltas, in the receiving stage's own key and aggregates.
    Deltas(Deltas),
    /// Rows of results, as the receiving stage reads them.
    Rows(SignedRows),
}

impl Brought {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Deltas(deltas) => deltas.bytes(),
            Self::Rows(rows) => rows.bytes(),
        }
    }
}

/// A sending shard's watermark for an exchanged stage: behind it come no deltas of windows that
/// were complete before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeMark {
    /// The receiving stage.
    pub stage: StageId,
    /// Number of the sending shard.
    pub from: usize,
    /// Its watermark.
    pub watermark: Watermark,
    /// The last cycle that it has ended; 0 before any.
    pub cycle: u64,
}

/// What the marks of all senders say to a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marked {
    /// The lowest watermark.
    pub(crate) watermark: Watermark,
    /// Whether, with this mark, every sender has ended a cycle.
    pub(crate) ends_cycle: bool,
}

/// An exchanged stage's two ends.
#[derive(Debug)]
pub(crate) struct ExchangeEnds {
    router: Router,
    /// The last watermark that this shard has sent. Rises only.
    pub(crate) sent: Watermark,
    /// The regrouping at the sending end; keeps nothing but the window of the delta before.
    regroup: Shape,
    /// By sending shard: its watermark. The receiver's is the minimum.
    pub(crate) senders: Vec<Watermark>,
    /// By sending shard: the last cycle that it has ended.
    cycles: Vec<u64>,
    /// The last cycle that all have ended. Rises only.
    pub(crate) cycle: u64,
}

impl ExchangeEnds {
    /// The ends of `stage` among `shards` shards; `None` if its input stays on its shard.
    pub(crate) fn new(stage: &Stage, plan: &Plan, shards: usize) -> Option<Self> {
        let exchange = stage.exchange.as_ref().filter(|_| shards > 1)?;
        let (layout, packer) = (exchange.layout.clone(), exchange.packer.clone());
        Some(Self {
            router: Router::new(layout, packer, plan.key_groups, shards),
            sent: Watermark::MIN,
            regroup: Shape::new(stage),
            senders: vec![Watermark::MIN; shards],
            cycles: vec![0; shards],
            cycle: 0,
        })
    }

    /// Takes a mark of one sender.
    pub(crate) fn mark(&mut self, mark: &ExchangeMark) -> Marked {
        if let Some(sender) = self.senders.get_mut(mark.from) {
            *sender = mark.watermark.max(*sender);
        }
        if let Some(cycle) = self.cycles.get_mut(mark.from) {
            *cycle = mark.cycle.max(*cycle);
        }
        let cycle = self.cycles.iter().min().copied().unwrap_or(0);
        let ends_cycle = cycle > self.cycle;
        self.cycle = cycle.max(self.cycle);
        let watermark = self.senders.iter().min().copied().unwrap_or(Watermark::MIN);
        Marked { watermark, ends_cycle }
    }

    /// Regroups deltas of `parent` for the stage that receives them, by the shard that owns them.
    pub(crate) fn place(
        &mut self,
        deltas: &Deltas,
        (parent, stage, input): (&Stage, &Stage, &PaneInput),
        symbols: &Symbols,
    ) -> Vec<(usize, ExchangeDeltas)> {
        let mut parts = vec![Deltas::default(); self.senders.len()];
        let mut key = vec![0; stage.key.words()];
        let mut values = stage.aggregates.empty();
        for (source, window, from_values) in
            deltas.iter(parent.key.words(), parent.aggregates.words())
        {
            let window =
                if input.same_window { window } else { self.regroup.window_at(window.start()) };
            for copy in &input.copies {
                copy.key.pack(source, &mut key);
                values.clear();
                for (to, from) in copy.from.iter().enumerate() {
                    // Into an empty accumulator: nothing can overflow that did not before.
                    let empty = (values.view_mut(), to);
                    let part = (from_values, *from);
                    let merged = stage.aggregates.merge(empty, &parent.aggregates, part, symbols);
                    debug_assert!(merged.is_ok(), "a merge into nothing cannot overflow");
                }
                let shard = self.router.shard(&key, symbols);
                if let Some(part) = parts.get_mut(shard) {
                    part.push(&key, window, &values);
                }
            }
        }
        let parts = parts.into_iter().enumerate().filter(|(_, deltas)| !deltas.is_empty());
        let brought = |deltas| ExchangeDeltas { stage: stage.id, brought: Brought::Deltas(deltas) };
        parts.map(|(shard, deltas)| (shard, brought(deltas))).collect()
    }

    /// Rows of what `parent` told for the stage that receives them, by the shard that owns them.
    pub(crate) fn place_rows(
        &mut self,
        reader: &mut ChangeReader,
        (changes, parent): (&Changes, &Stage),
        counted: (&mut StageAccount, &mut Aside),
        symbols: &Symbols,
    ) -> Vec<(usize, Brought)> {
        let to = (&mut self.router, self.senders.len());
        let parts = reader.place((changes, parent, self.sent), to, counted, symbols);
        let parts = parts.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
        parts.map(|(shard, rows)| (shard, Brought::Rows(rows))).collect()
    }
}
