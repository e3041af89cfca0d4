//! A round of a shard: what it begins with, what it brings to a stage, and in which order a stage
//! fires in it.
//!
//! A stream fires in every round; when its watermark has stood still for too long, a cycle makes
//! windows emit what they hold. Under micro-batches a stage only takes until its cycle ends. Then
//! the keys fire of which the watermark of the cycle makes a window due, in the order of these, and
//! then all others that have changed; a key fires its windows in their order.

use crate::aggregate::{AggregateLayout, Overflow};
use crate::changes::Changes;
use crate::engine::Cycle;
use crate::exchange::{Brought, ExchangeDeltas, Marked};
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
use crate::time::{ProcessingTime, Span, Watermark};
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
    Tick(ProcessingTime),
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
    /// What the round is to stages that read records.
    pub(crate) const fn for_readers(&self) -> Passing {
        match self {
            Self::Watermark(watermark) => {
                Passing { ends_cycle: false, watermark: Some(*watermark) }
            }
            Self::Cycle(cycle) => Passing { ends_cycle: true, watermark: Some(cycle.watermark) },
            Self::Records(_)
            | Self::Exchange(_)
            | Self::Mark(..)
            | Self::Shares(_)
            | Self::Tick(_)
            | Self::Signal(_) => Passing { ends_cycle: false, watermark: None },
        }
    }

    /// What it is to `stage`, which is exchanged.
    pub(crate) fn for_exchanged(&self, stage: StageId) -> Passing {
        match self {
            Self::Mark(marked, mark) if *marked == stage => {
                Passing { ends_cycle: mark.ends_cycle, watermark: Some(mark.watermark) }
            }
            Self::Records(_)
            | Self::Watermark(_)
            | Self::Cycle(_)
            | Self::Exchange(_)
            | Self::Mark(..)
            | Self::Shares(_)
            | Self::Tick(_)
            | Self::Signal(_) => Passing::default(),
        }
    }

    /// What an exchange brings to `stage`.
    pub(crate) fn brought_to(&self, stage: StageId) -> Option<&Brought> {
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
}

/// What a round brings to one stage.
pub(crate) struct Feed<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) start: &'a Start<'a>,
    /// Deltas of the stage below, in its key and aggregates.
    pub(crate) local: Option<(&'a PaneInput, &'a Deltas, (&'a KeyLayout, &'a AggregateLayout))>,
    /// What the stage below told of its results.
    pub(crate) told: Option<(&'a Changes, &'a Stage)>,
    pub(crate) symbols: &'a Symbols,
}

impl<'a> Feed<'a> {
    /// What a round that begins with `start` brings to `stage`, given what the stages `below` have
    /// fired in it; to one that is exchanged only what the exchange brings.
    pub(crate) fn new(
        (stage, start, is_exchanged): (&'a Stage, &'a Start<'a>, bool),
        (plan, below): (&'a Plan, &'a [Fired]),
        symbols: &'a Symbols,
    ) -> Self {
        let mut feed = Self { stage, start, local: None, told: None, symbols };
        let parent = stage.input.parent().filter(|_| !is_exchanged);
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

    pub(crate) fn give<T: Takes>(
        &self,
        table: &mut T,
        shape: &mut Shape,
        aside: &mut Aside,
    ) -> Result<(), Overflow> {
        if let (StageInput::Records(input), Start::Records(batch)) = (&self.stage.input, self.start)
        {
            take_records(table, shape, input, (*batch, self.symbols), aside)?;
        }
        if let Some((input, deltas, parent)) = self.local {
            take_deltas(table, shape, input, (deltas, parent, self.symbols), aside)?;
        }
        if let Some(Brought::Deltas(deltas)) = self.start.brought_to(self.stage.id) {
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
        if let (StageInput::Records(input), Start::Records(batch)) = (&self.stage.input, self.start)
        {
            take_sliced(table, shape, input, (*batch, self.symbols), aside)?;
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
        if let Some(Brought::Rows(rows)) = self.start.brought_to(self.stage.id) {
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
        if let Some(Brought::Deltas(deltas)) = self.start.brought_to(self.stage.id) {
            table.take_exchanged(deltas, self.symbols, aside)?;
        }
        Ok(())
    }
}

/// When a stage fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Firing {
    /// What the round brought fires, then what its watermark makes due.
    AtOnce,
    /// The watermark has stood still for too long: what it has not completed fires, then as ever.
    TimedOut,
    /// A cycle ends: what its watermark makes due fires, then all else that has changed.
    InCycle,
    /// Nothing fires before the cycle ends.
    Held,
}

/// The key actors of a stage, as far as a round makes them fire.
pub(crate) trait Fires {
    /// What has changed fires; what `upcoming` makes due waits for it.
    fn end_round(
        &mut self,
        upcoming: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow>;

    /// The watermark rises.
    fn advance(
        &mut self,
        watermark: Watermark,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow>;

    /// It has stood still for too long: windows that it has not completed emit what they hold.
    fn time_out(&mut self, fired: &mut Fired, symbols: &Symbols) -> Result<(), Overflow>;

    /// Fires what is to fire in this round.
    fn fire(
        &mut self,
        firing: Firing,
        watermark: Option<Watermark>,
        fired: &mut Fired,
        symbols: &Symbols,
    ) -> Result<(), Overflow> {
        match firing {
            Firing::Held => Ok(()),
            Firing::TimedOut => {
                // Before triggers are asked: what they would fire is complete by the clock.
                self.time_out(fired, symbols)?;
                self.fire(Firing::AtOnce, watermark, fired, symbols)
            }
            Firing::AtOnce => {
                self.end_round(watermark, fired, symbols)?;
                watermark.map_or(Ok(()), |watermark| self.advance(watermark, fired, symbols))
            }
            Firing::InCycle => {
                watermark.map_or(Ok(()), |watermark| self.advance(watermark, fired, symbols))?;
                self.end_round(None, fired, symbols)
            }
        }
    }
}
