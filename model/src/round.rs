//! A round of a shard: what it begins with, what it brings to a stage, and how far it has come. How
//! a stage fires in it is said in [`crate::firing`].

use crate::aggregate::{AggregateLayout, Overflow};
use crate::changes::Changes;
use crate::engine::Cycle;
use crate::exchange::{Brought, ExchangeDeltas, Marked};
use crate::firing::{Firing, Otherwise};
use crate::intake::{Shape, Takes, take_deltas, take_exchanged, take_records};
use crate::key::KeyLayout;
use crate::late::Aside;
use crate::machine_table::MachineTable;
use crate::pane::{Deltas, StageId};
use crate::plan::{PaneInput, Plan, Stage, StageInput};
use crate::row::RowBatch;
use crate::rows::ChangeReader;
use crate::sliding::{SlidingTable, take_sliced};
use crate::symbol::Symbols;
use crate::table::Fired;
use crate::tick::Tick;
use crate::time::{Span, Watermark};
use crate::topk::TopKTable;
use crate::watermark::Percentile;

/// What a round begins with.
pub(crate) enum Start<'a> {
    Records(&'a RowBatch),
    Watermark(Watermark),
    Cycle(Cycle),
    Exchange(&'a ExchangeDeltas),
    /// The marks of all senders may have risen, or ended a cycle.
    Mark(StageId, Marked),
    /// Second watermarks, for stages that read records.
    Shares(&'a [(Percentile, Watermark)]),
    Tick(Tick),
    Signal(&'a str),
}

/// What a round is to a stage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Passing {
    /// Whether a cycle ends here.
    pub(crate) ends_cycle: bool,
    /// The watermark, where it may have risen.
    pub(crate) watermark: Option<Watermark>,
}

impl Passing {
    /// As a stage sees it whose input is complete 1 ms later than windows end.
    pub(crate) fn trailing(self) -> Self {
        Self { watermark: self.watermark.map(trailing), ..self }
    }
}

/// A watermark as the stage above sees it where windows are complete 1 ms after their end. The end
/// of time stays.
pub(crate) const fn trailing(watermark: Watermark) -> Watermark {
    Watermark(watermark.0.saturating_sub(Span::from_millis(1)))
}

impl Start<'_> {
    /// What an exchange brings to `stage`.
    fn brought_to(&self, stage: StageId) -> Option<&Brought> {
        match self {
            Self::Exchange(message) if message.stage == stage => Some(&message.brought),
            Self::Records(_)
            | Self::Watermark(_)
            | Self::Cycle(_)
            | Self::Exchange(_)
            | Self::Mark(..)
            | Self::Shares(_)
            | Self::Tick(_)
            | Self::Signal(_) => None,
        }
    }

    /// Whether it brings something to `stage`.
    pub(crate) fn brings_to(&self, stage: &Stage) -> bool {
        match self {
            Self::Records(_) => matches!(stage.input, StageInput::Records(_)),
            Self::Exchange(message) => message.stage == stage.id,
            Self::Watermark(_)
            | Self::Cycle(_)
            | Self::Mark(..)
            | Self::Shares(_)
            | Self::Tick(_)
            | Self::Signal(_) => false,
        }
    }
}

/// A stage that fires: what the round is to it, and how far it has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) firing: Firing,
    pub(crate) passing: Passing,
    /// What it had promised before.
    pub(crate) output: Watermark,
    /// Parts of its firing that are done.
    pub(crate) parts: usize,
}

/// How far a round has come. Everything that it needs beside what it began with, so that it can wait
/// between two slices.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Whether it has not come to its end.
    pub(crate) is_open: bool,
    /// What it is to stages that read records.
    readers: Passing,
    /// An exchanged stage to which it is something.
    marked: Option<(StageId, Passing)>,
    pub(crate) otherwise: Otherwise,
    /// By stage: what the stages above see. Output watermarks that rose in this round, cycles that
    /// ended. Stages that hang on records take the coordinator's, exchanged ones that of all their
    /// senders.
    passings: Vec<Passing>,
    /// Number of the stage whose turn it is. Those before it have fired.
    pub(crate) at: usize,
    /// That stage, once it has begun to fire.
    pub(crate) step: Option<Step>,
}

impl Round {
    /// A round of a plan of so many stages that begins with `start`.
    pub(crate) fn begin(&mut self, start: &Start<'_>, stages: usize) {
        self.passings.clear();
        self.passings.resize(stages, Passing::default());
        (self.is_open, self.at, self.step) = (true, 0, None);
        (self.readers, self.marked) = (Passing::default(), None);
        self.otherwise = Otherwise::Nothing;
        match start {
            Start::Records(_) | Start::Exchange(_) => {}
            Start::Watermark(watermark) => self.readers.watermark = Some(*watermark),
            Start::Cycle(cycle) => {
                self.readers = Passing { ends_cycle: true, watermark: Some(cycle.watermark) };
            }
            Start::Mark(stage, mark) => {
                let (ends_cycle, watermark) = (mark.ends_cycle, Some(mark.watermark));
                self.marked = Some((*stage, Passing { ends_cycle, watermark }));
            }
            Start::Shares(shares) => self.otherwise = Otherwise::Shares((*shares).into()),
            Start::Tick(tick) => self.otherwise = Otherwise::Tick(*tick),
            Start::Signal(name) => self.otherwise = Otherwise::Signal((*name).into()),
        }
    }

    /// What it is to `stage`, unless that is exchanged.
    pub(crate) fn inherited(&self, stage: &Stage) -> Passing {
        let Some(parent) = stage.input.parent() else { return self.readers };
        let passing = self.passings.get(parent.index()).copied().unwrap_or_default();
        if stage.trails() { passing.trailing() } else { passing }
    }

    /// What it is to `stage`, which is exchanged.
    pub(crate) fn for_exchanged(&self, stage: StageId) -> Passing {
        let marked = self.marked.filter(|(marked, _)| *marked == stage);
        marked.map(|(_, passing)| passing).unwrap_or_default()
    }

    /// The stage whose turn it is has fired; `passing` is what the stages above see.
    pub(crate) fn pass(&mut self, passing: Passing) {
        if let Some(slot) = self.passings.get_mut(self.at) {
            *slot = passing;
        }
        self.step = None;
        self.at += 1;
    }
}

/// What a round brings to one stage.
pub(crate) struct Feed<'a> {
    stage: &'a Stage,
    /// What the round began with, if it brings something to the stage.
    start: Option<&'a Start<'a>>,
    /// Deltas of the stage below, in its key and aggregates.
    local: Option<(&'a PaneInput, &'a Deltas, (&'a KeyLayout, &'a AggregateLayout))>,
    /// What the stage below told of its results.
    told: Option<(&'a Changes, &'a Stage)>,
    symbols: &'a Symbols,
}

impl<'a> Feed<'a> {
    /// What a round that begins with `start` brings to `stage` from outside.
    pub(crate) const fn outer(
        stage: &'a Stage,
        start: &'a Start<'a>,
        symbols: &'a Symbols,
    ) -> Self {
        Self { stage, start: Some(start), local: None, told: None, symbols }
    }

    /// What the stage below `stage` has fired and still holds, of those `below`.
    pub(crate) fn inner(
        stage: &'a Stage,
        (plan, below): (&'a Plan, &'a [Fired]),
        symbols: &'a Symbols,
    ) -> Self {
        let mut feed = Self { stage, start: None, local: None, told: None, symbols };
        let parent = stage.input.parent();
        let Some((parent, fired)) =
            parent.and_then(|id| Some((plan.stages.get(id.index())?, below.get(id.index())?)))
        else {
            return feed;
        };
        match &stage.input {
            StageInput::Panes(input) if !fired.deltas.is_empty() => {
                feed.local = Some((input, &fired.deltas, (&parent.key, &parent.aggregates)));
            }
            StageInput::Changes(_) if !fired.changes.is_empty() => {
                feed.told = Some((&fired.changes, parent));
            }
            StageInput::Panes(_) | StageInput::Changes(_) | StageInput::Records(_) => {}
        }
        feed
    }

    /// Records, if it brings any.
    pub(crate) const fn records(&self) -> Option<&'a RowBatch> {
        match self.start {
            Some(Start::Records(batch)) => Some(batch),
            Some(
                Start::Watermark(_)
                | Start::Cycle(_)
                | Start::Exchange(_)
                | Start::Mark(..)
                | Start::Shares(_)
                | Start::Tick(_)
                | Start::Signal(_),
            )
            | None => None,
        }
    }

    fn brought(&self) -> Option<&'a Brought> {
        self.start.and_then(|start| start.brought_to(self.stage.id))
    }

    pub(crate) fn give<T: Takes>(
        &self,
        table: &mut T,
        shape: &mut Shape,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        if let (StageInput::Records(input), Some(Start::Records(batch))) =
            (&self.stage.input, self.start)
        {
            take_records(table, shape, input, (batch, self.symbols), aside)?;
        }
        if let Some((input, deltas, parent)) = self.local {
            take_deltas(table, shape, input, (deltas, parent, self.symbols), aside)?;
        }
        if let Some(Brought::Deltas(deltas)) = self.brought() {
            let source = (self.stage.key.words(), self.symbols);
            take_exchanged(table, deltas, source, aside)?;
        }
        Ok(())
    }

    /// As [`Feed::give`], where sliding windows are kept in slices: they are made of records.
    pub(crate) fn give_sliced(
        &self,
        table: &mut SlidingTable,
        shape: &mut Shape,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        if let (StageInput::Records(input), Some(Start::Records(batch))) =
            (&self.stage.input, self.start)
        {
            take_sliced(table, shape, input, (batch, self.symbols), aside)?;
        }
        Ok(())
    }

    pub(crate) fn give_rows(
        &self,
        table: &mut MachineTable,
        reader: &mut ChangeReader,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        if let Some(told) = self.told {
            reader.take(table, told, aside, self.symbols)?;
        }
        if let Some(Brought::Rows(rows)) = self.brought() {
            reader.take_exchanged(table, rows, aside, self.symbols)?;
        }
        Ok(())
    }

    pub(crate) fn give_list(
        &self,
        table: &mut TopKTable,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        if let Some((input, deltas, parent)) = self.local {
            table.take(input, (deltas, parent), self.symbols, aside)?;
        }
        if let Some(Brought::Deltas(deltas)) = self.brought() {
            table.take_exchanged(deltas, self.symbols, aside)?;
        }
        Ok(())
    }
}
