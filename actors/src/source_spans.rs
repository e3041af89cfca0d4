//! The spans of a source: of a batch that it reads, and of a change of what it reads.
//!
//! A batch of records that one span made is part of that span; if several did, it points to them.

use crate::trace::{Cause, OpenSpan, Tracing, Work};
use nilometer_connectors::source::Polled;
use opentelemetry::trace::SpanContext;
use std::time::SystemTime;

/// What a source knows of its spans.
#[derive(Debug)]
pub(crate) struct SourceSpans {
    tracing: Tracing,
    /// The span of the batch that was read last, if it is traced.
    context: Option<SpanContext>,
    /// Since when it reads, and how many records and rejected ones there were before. Cleared behind it.
    since: Option<(SystemTime, u64, u64)>,
}

impl SourceSpans {
    pub(crate) const fn new(tracing: Tracing) -> Self {
        Self { tracing, context: None, since: None }
    }

    /// The span of the batch that was read last.
    pub(crate) const fn context(&self) -> Option<&SpanContext> {
        self.context.as_ref()
    }

    /// It is cut from now on, for the epoch in flight.
    pub(crate) fn open_cut(&self, name: &str) -> Option<OpenSpan> {
        let mut open = self.tracing.open_in_epoch(Work::EpochCut, self.tracing.now())?;
        open.set("nilometer.source", name.to_owned());
        Some(open)
    }

    /// It reads from now on.
    pub(crate) fn begin(&mut self, polled: &mut Polled) {
        self.since = self.tracing.now().map(|now| {
            polled.contexts.clear();
            (now, polled.account.read, polled.account.rejected())
        });
    }

    /// It has read: what it found begins a span, unless it is nothing.
    pub(crate) fn end(&mut self, name: &str, partition: u32, polled: &mut Polled) {
        for rebalance in polled.rebalances.drain(..) {
            self.tracing.rebalanced(name, &rebalance);
        }
        let Some((since, read, rejected)) = self.since.take() else { return };
        let read = polled.account.read.saturating_sub(read);
        if read == 0 {
            return;
        }
        let cause = Cause::of(polled.contexts.as_slice());
        let open = self.tracing.open(Work::SourceBatch, cause, Some(since));
        self.context = open.map(|mut open| {
            open.set("nilometer.source", name.to_owned());
            open.count("nilometer.partition", u64::from(partition));
            open.count("nilometer.records", read);
            open.count("nilometer.rejected", polled.account.rejected().saturating_sub(rejected));
            open.context().clone()
        });
    }
}
