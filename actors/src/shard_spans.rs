//! The spans of a shard: of a batch that it takes in, and of a round in which it fires panes.
//!
//! Whatever is fired while a batch is taken in belongs to the span of the batch; what a watermark, the
//! clock or another shard lets fire, to a round of its own, which points to the batches that its panes
//! can come from.

use crate::trace::{Cause, OpenSpan, Origin, Tracing, Work};
use nilometer_model::node::{Ancestor, Lineage};
use nilometer_model::pane::PaneBatch;
use nilometer_model::row::RowBatch;
use opentelemetry::trace::SpanContext;
use std::sync::Arc;
use std::time::SystemTime;

/// What a shard knows of its spans.
#[derive(Debug)]
pub(crate) struct ShardSpans {
    tracing: Tracing,
    shard: usize,
    /// Batches that were traced. Bounded.
    lineage: Lineage<SpanContext>,
    /// Since when a message is handled, and what it is. Cleared behind it.
    since: Option<(SystemTime, &'static str)>,
    /// The span of the message, if there is one. Ends with it.
    open: Option<OpenSpan>,
    /// What it points to, if it is of a round. Emptied with it.
    linked: Option<Vec<SpanContext>>,
    /// Panes that were sent under the open span.
    panes: usize,
}

impl ShardSpans {
    /// Of shard number `shard`; `is_spread` as in [`Lineage::new`].
    pub(crate) const fn new(tracing: Tracing, shard: usize, is_spread: bool) -> Self {
        Self {
            tracing,
            shard,
            lineage: Lineage::new(is_spread),
            since: None,
            open: None,
            linked: None,
            panes: 0,
        }
    }

    /// A message is handled from now on.
    pub(crate) fn begin(&mut self, what: &'static str) {
        self.since = self.tracing.now().map(|now| (now, what));
    }

    /// It is a batch of `partition`, whose span is `context` if it has one.
    pub(crate) fn takes(
        &mut self,
        context: Option<&SpanContext>,
        partition: u32,
        batch: &RowBatch,
    ) {
        let (Some(context), Some((since, _))) = (context, self.since) else { return };
        let open = self.tracing.open(Work::ShardBatch, Cause::Span(context), Some(since));
        self.open = open.map(|mut open| {
            open.count("nilometer.shard", self.shard as u64);
            open.count("nilometer.partition", u64::from(partition));
            open.count("nilometer.records", batch.len() as u64);
            open
        });
        if let Some(taken) = Ancestor::of(context.clone(), batch.times()) {
            self.lineage.took(taken);
        }
    }

    /// Batches that another shard has taken, of which something comes to this one.
    pub(crate) fn brought(&mut self, batches: Vec<Ancestor<SpanContext>>) {
        batches.into_iter().rev().for_each(|batch| self.lineage.took(batch));
    }

    /// Batches that something comes of for another shard.
    pub(crate) fn batches(&self) -> Vec<Ancestor<SpanContext>> {
        if self.since.is_some() { self.lineage.last() } else { Vec::new() }
    }

    /// Where panes come from that are sent now; `None` if that is not traced.
    pub(crate) fn origin(&mut self, panes: &PaneBatch) -> Option<Arc<Origin>> {
        let (since, what) = self.since?;
        let batches = self.lineage.of(panes);
        if self.open.is_none() {
            let open = self.tracing.open(Work::FiringRound, Cause::Spans(&batches), Some(since));
            self.linked = Some(batches.clone());
            self.open = open.map(|mut open| {
                open.count("nilometer.shard", self.shard as u64);
                open.set("nilometer.cause", what);
                open
            });
        }
        let open = self.open.as_mut()?;
        if let Some(linked) = &mut self.linked {
            for batch in &batches {
                if linked.len() < LINKS_MAX && !linked.contains(batch) {
                    linked.push(batch.clone());
                    open.link(batch.clone());
                }
            }
        }
        self.panes = self.panes.saturating_add(panes.panes.len());
        Some(Arc::new(Origin { context: open.context().clone(), batches }))
    }

    /// It is cut from now on, for the epoch in flight.
    pub(crate) fn open_cut(&self) -> Option<OpenSpan> {
        let mut open = self.tracing.open_in_epoch(Work::EpochCut, self.tracing.now())?;
        open.count("nilometer.shard", self.shard as u64);
        Some(open)
    }

    /// What a failure was of.
    pub(crate) fn context(&self) -> Option<Box<SpanContext>> {
        self.open.as_ref().map(|open| Box::new(open.context().clone()))
    }

    /// The message has been handled.
    pub(crate) fn end(&mut self) {
        self.since = None;
        if let Some(mut open) = self.open.take() {
            open.count("nilometer.panes", self.panes as u64);
        }
        self.linked = None;
        self.panes = 0;
    }
}

/// Most batches that one span points to.
const LINKS_MAX: usize = 128;
