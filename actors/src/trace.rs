//! Spans: what a node tells of its work, one for each batch, round, write and epoch, never for a record.
//!
//! How they hang together across actors: records carry the context of their batch in their message,
//! panes that of the round that fired them and of the batches that they came from. An epoch, of which
//! one is in flight, lies in a cell that all actors share. See
//! `docs/adr/0033-spans-cross-actors-in-messages.md`.
//!
//! Invariants: what is off costs a branch and allocates nothing; a span that is not sampled is never
//! built; nothing waits for whoever takes spans.

use crate::clock;
use nilometer_connectors::source::Rebalance;
use nilometer_model::epoch::Epoch;
use opentelemetry::global::{BoxedSpan, BoxedTracer};
use opentelemetry::trace::{
    Link, Span, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer,
};
use opentelemetry::{Context, KeyValue, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// What makes spans; off by default.
#[derive(Debug, Clone, Default)]
pub struct Tracing(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    tracer: BoxedTracer,
    /// The context of the epoch in flight, if that is traced. Set before anybody hears of the epoch;
    /// cleared when it is concluded.
    epoch: Mutex<Option<SpanContext>>,
}

/// What a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    SourceBatch,
    ShardBatch,
    FiringRound,
    SinkWrite,
    Epoch,
    EpochCut,
    EpochWrite,
    EpochFlush,
    EpochPublish,
    Rebalance,
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Self::SourceBatch => "source batch",
            Self::ShardBatch => "shard batch",
            Self::FiringRound => "firing round",
            Self::SinkWrite => "sink write",
            Self::Epoch => "epoch",
            Self::EpochCut => "epoch cut",
            Self::EpochWrite => "epoch write",
            Self::EpochFlush => "epoch flush",
            Self::EpochPublish => "epoch publish",
            Self::Rebalance => "rebalance",
        }
    }

    const fn kind(self) -> SpanKind {
        match self {
            Self::SourceBatch => SpanKind::Consumer,
            Self::SinkWrite => SpanKind::Producer,
            Self::ShardBatch
            | Self::FiringRound
            | Self::Epoch
            | Self::EpochCut
            | Self::EpochWrite
            | Self::EpochFlush
            | Self::EpochPublish
            | Self::Rebalance => SpanKind::Internal,
        }
    }
}

/// Where a span comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause<'a> {
    /// One other span: it is part of that.
    Span(&'a SpanContext),
    /// Several others, or none: it begins a trace of its own, and points to them.
    Spans(&'a [SpanContext]),
}

impl<'a> Cause<'a> {
    /// One is a parent; several are pointed to.
    pub(crate) const fn of(spans: &'a [SpanContext]) -> Self {
        match spans {
            [parent] => Self::Span(parent),
            _ => Self::Spans(spans),
        }
    }
}

impl Tracing {
    /// Spans go to `tracer`.
    pub fn new(tracer: BoxedTracer) -> Self {
        Self(Some(Arc::new(Shared { tracer, epoch: Mutex::default() })))
    }

    /// The time, if anybody wants spans.
    pub(crate) fn now(&self) -> Option<SystemTime> {
        self.0.as_ref().map(|_| clock::wall())
    }

    /// Begins a span that began at `since`; `None` if nobody wants it.
    pub(crate) fn open(
        &self,
        work: Work,
        cause: Cause<'_>,
        since: Option<SystemTime>,
    ) -> Option<OpenSpan> {
        let (shared, since) = (self.0.as_ref()?, since?);
        let mut builder =
            SpanBuilder::from_name(work.name()).with_kind(work.kind()).with_start_time(since);
        let mut parent = Context::new();
        match cause {
            Cause::Span(context) => parent = parent.with_remote_span_context(context.clone()),
            Cause::Spans(contexts) => {
                let links = contexts.iter().cloned().map(Link::with_context);
                builder = builder.with_links(links.collect());
            }
        }
        let span = shared.tracer.build_with_context(builder, &parent);
        span.is_recording().then(|| OpenSpan { context: span.span_context().clone(), span })
    }

    /// Begins a span of the epoch in flight, if that is traced.
    pub(crate) fn open_in_epoch(&self, work: Work, since: Option<SystemTime>) -> Option<OpenSpan> {
        let epoch = self.cell()?.clone()?;
        self.open(work, Cause::Span(&epoch), since)
    }

    /// An epoch begins, and nobody has heard of it yet.
    pub(crate) fn epoch_begins(&self, epoch: Epoch) -> Option<OpenSpan> {
        let mut open = self.open(Work::Epoch, Cause::Spans(&[]), self.now())?;
        open.count("nilometer.epoch", epoch.number());
        *self.cell()? = Some(open.context().clone());
        Some(open)
    }

    /// The epoch in flight has ended.
    pub(crate) fn epoch_ends(&self) {
        if let Some(mut cell) = self.cell() {
            *cell = None;
        }
    }

    fn cell(&self) -> Option<std::sync::MutexGuard<'_, Option<SpanContext>>> {
        let shared = self.0.as_ref()?;
        Some(shared.epoch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells of a change of the partitions that `source` reads.
    pub(crate) fn rebalanced(&self, source: &str, rebalance: &Rebalance) {
        let (since, until) = rebalance.took;
        if let Some(mut open) = self.open(Work::Rebalance, Cause::Spans(&[]), Some(since)) {
            open.set("nilometer.source", source.to_owned());
            open.set("nilometer.change", rebalance.change.name());
            open.set("nilometer.partitions", rebalance.partitions.join(", "));
            open.span.end_with_timestamp(until);
        }
    }
}

/// A span that has begun, and ends when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    span: BoxedSpan,
    context: SpanContext,
}

impl OpenSpan {
    pub(crate) const fn context(&self) -> &SpanContext {
        &self.context
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.span.set_attribute(KeyValue::new(name, value));
    }

    pub(crate) fn count(&mut self, name: &'static str, count: u64) {
        // Attributes are signed.
        self.set(name, i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn link(&mut self, context: SpanContext) {
        self.span.add_link(context, Vec::new());
    }

    /// It has come to nothing.
    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        self.span.set_status(Status::error(why.into()));
    }
}

/// Where panes come from.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The round that fired them, or the batch.
    pub(crate) context: SpanContext,
    /// Batches whose records can be in them.
    pub(crate) batches: Vec<SpanContext>,
}
