//! A sink: one per output, on its own thread, since writing may block. A shell around a
//! [`Writer`]: it writes panes or late copies, flushes when the clock ticks, and closes when all shards have ended.
//!
//! Invariants: what a shard sent is told back to it exactly once, also after a failure, so that a
//! broken output stops the sources but never holds them; and no pane that fires on time comes
//! behind the watermark that completed its window (checked here, since here all order ends).

use crate::clock::{self, Stopwatch};
use crate::deliver::{self, Reports};
use crate::figures::{Outgoing, SinkFigures};
use crate::message::{Late, Panes, Passed, Tick};
use crate::meter::Meters;
use crate::outbox::{HeldOutput, Outbox};
use crate::report::{Failure, Report, SinkReport};
use crate::trace::{Cause, OpenSpan, Tracing, Work};
use actix::{Actor, Context, Handler};
use nilometer_connectors::sink::{SinkError, Writer};
use nilometer_model::late::LateBatch;
use nilometer_model::node::{Overtaken, SinkOrder};
use nilometer_model::pane::{PaneBatch, PaneKind};
use std::sync::Arc;

/// Writes to one output.
pub(crate) struct SinkActor {
    /// Its number: that of its meter.
    pub(crate) number: usize,
    pub(crate) writer: Writer,
    pub(crate) order: SinkOrder,
    /// Whether something was written since the last flush.
    pub(crate) is_dirty: bool,
    /// `None` where nothing is stored.
    pub(crate) outbox: Option<Outbox>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) tracing: Tracing,
    pub(crate) report: SinkReport,
    /// How long things took; its report is put beside that when it is shown.
    pub(crate) figures: SinkFigures,
    /// Panes written that are not out yet.
    pub(crate) outgoing: Outgoing,
    pub(crate) reports: Reports,
}

impl SinkActor {
    /// Calls the writer, unless it has failed before.
    pub(crate) fn attempt(
        &mut self,
        call: impl FnOnce(&mut Writer) -> Result<(), SinkError>,
    ) -> bool {
        if self.report.has_failed {
            return false;
        }
        let Self { writer, meters, number, .. } = self;
        let call = || call(writer);
        let (result, took) = clock::timed(|| match meters.writing.get(*number) {
            Some(busy) => busy.during(call),
            None => call(),
        });
        self.figures.calls.observe(took, 1);
        let Err(error) = result else { return true };
        self.fail(Failure::Sink { name: self.report.name.clone(), error });
        false
    }

    fn fail(&mut self, failure: Failure) {
        self.report.has_failed = true;
        self.reports.report(Report::Failure(failure));
        self.give_up();
    }

    /// Shows what it has counted.
    fn publish_figures(&mut self) {
        self.figures.report = self.report.clone();
        self.meters.set_sink(self.number, self.figures.clone());
    }

    fn write(&mut self, panes: &PaneBatch, since: Stopwatch) {
        // The wiring sends a sink only what it takes.
        let is_written = self.attempt(|writer| match writer {
            Writer::Panes(sink) => sink.write(panes),
            Writer::Late(_) => Ok(()),
        });
        if is_written {
            self.is_dirty = true;
            for pane in &panes.panes {
                match pane.kind {
                    PaneKind::Insert => self.report.panes += 1,
                    PaneKind::Retract => self.report.retracts += 1,
                }
            }
            self.outgoing.written(since, panes);
            // Where state is stored they are out once their epoch has been published.
            if self.outbox.is_none() {
                self.outgoing.out(clock::now(), &mut self.figures);
            }
        }
    }

    fn write_late(&mut self, late: &LateBatch) {
        let is_written = self.attempt(|writer| match writer {
            Writer::Panes(_) => Ok(()),
            Writer::Late(sink) => sink.write(late),
        });
        if is_written {
            self.is_dirty = true;
            self.report.late = self.report.late.saturating_add(late.len());
        }
    }

    /// Begins the span of a write, and lets the writer know of it.
    fn open(&mut self, panes: &Panes) -> Option<OpenSpan> {
        let origin = panes.origin.as_deref()?;
        let cause = Cause::Span(&origin.context);
        let mut open = self.tracing.open(Work::SinkWrite, cause, self.tracing.now())?;
        origin.batches.iter().for_each(|batch| open.link(batch.clone()));
        open.set("nilometer.sink", self.report.name.to_string());
        open.count("nilometer.shard", panes.shard as u64);
        open.count("nilometer.panes", panes.panes.panes.len() as u64);
        self.writer.trace(Some(open.context().clone()));
        Some(open)
    }

    /// Ends it.
    fn close(&mut self, span: Option<OpenSpan>) {
        let Some(mut span) = span else { return };
        self.writer.trace(None);
        if self.report.has_failed {
            span.fail("the sink has failed");
        }
    }

    /// A pane that a watermark should have come behind, and did not.
    fn check_order(&mut self, shard: usize, panes: &PaneBatch) {
        let Err(Overtaken { shard, stage, passed }) = self.order.panes(shard, panes) else {
            return;
        };
        if !self.report.has_failed {
            let name = self.report.name.clone();
            self.fail(Failure::Order { name, shard, stage, passed });
        }
    }
}

impl Actor for SinkActor {
    type Context = Context<Self>;
}

impl Handler<Panes> for SinkActor {
    type Result = ();

    fn handle(&mut self, message: Panes, ctx: &mut Self::Context) {
        if self.holds(message.shard) {
            return self.hold(HeldOutput::Panes(message));
        }
        self.check_order(message.shard, &message.panes);
        let span = self.open(&message);
        self.write(&message.panes, message.since);
        self.close(span);
        self.settle((message.sender, message.bytes), ctx);
    }
}

impl Handler<Late> for SinkActor {
    type Result = ();

    fn handle(&mut self, message: Late, ctx: &mut Self::Context) {
        if self.holds(message.shard) {
            return self.hold(HeldOutput::Late(message));
        }
        self.write_late(&message.late);
        self.settle((message.sender, message.bytes), ctx);
    }
}

impl Handler<Passed> for SinkActor {
    type Result = ();

    fn handle(&mut self, message: Passed, ctx: &mut Self::Context) {
        match message {
            Passed::Watermark { shard, .. } | Passed::All { shard } if self.holds(shard) => {
                self.hold(HeldOutput::Passed(message));
            }
            Passed::Barrier { shard } => self.barrier(shard, ctx),
            Passed::Watermark { shard, watermark } => self.order.passed(shard, watermark),
            Passed::All { .. } => {
                if self.order.ended() {
                    self.attempt(|writer| writer.close());
                    if let Some(outbox) = &self.outbox {
                        deliver::finished(&outbox.store);
                    }
                    self.publish_figures();
                    self.reports.report(Report::Sink(self.report.clone()));
                }
            }
        }
    }
}

impl Handler<Tick> for SinkActor {
    type Result = ();

    fn handle(&mut self, _: Tick, _: &mut Self::Context) {
        if std::mem::take(&mut self.is_dirty) {
            self.attempt(|writer| writer.flush());
        }
        self.publish_figures();
    }
}
