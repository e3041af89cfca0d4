//! A sink: one per output, on its own thread, since writing may block. A shell around a
//! [`Writer`]: it writes panes or late copies, flushes when the clock ticks, and closes when all shards have ended.
//!
//! Invariants: what a shard sent is told back to it exactly once, also after a failure, so that a
//! broken output stops the sources but never holds them; and no pane that fires on time comes
//! behind the watermark that completed its window (checked here, since here all order ends).

use crate::deliver::{self, Reports};
use crate::message::{Late, Panes, Passed, Tick};
use crate::report::{Failure, Report, SinkReport};
use actix::{Actor, Context, Handler};
use nilometer_connectors::sink::{SinkError, Writer};
use nilometer_model::late::LateBatch;
use nilometer_model::pane::{PaneBatch, PaneKind, Timing};
use nilometer_model::time::Watermark;

/// Writes to one output.
pub(crate) struct SinkActor {
    pub(crate) writer: Writer,
    /// What each shard has let pass. Rises only (WM-1).
    pub(crate) passed: Vec<Watermark>,
    /// Shards that have not ended. Falls only.
    pub(crate) open_shards: usize,
    /// Whether something was written since the last flush.
    pub(crate) is_dirty: bool,
    pub(crate) report: SinkReport,
    pub(crate) reports: Reports,
}

impl SinkActor {
    /// Calls the writer, unless it has failed before.
    fn attempt(&mut self, call: impl FnOnce(&mut Writer) -> Result<(), SinkError>) -> bool {
        if self.report.has_failed {
            return false;
        }
        let Err(error) = call(&mut self.writer) else { return true };
        self.fail(Failure::Sink { name: self.report.name.clone(), error });
        false
    }

    fn fail(&mut self, failure: Failure) {
        self.report.has_failed = true;
        self.reports.report(Report::Failure(failure));
    }

    fn write(&mut self, panes: &PaneBatch) {
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

    /// A pane that a watermark should have come behind, and did not.
    fn check_order(&mut self, shard: usize, panes: &PaneBatch) {
        let Some(passed) = self.passed.get(shard).copied() else { return };
        let is_overtaken = panes.panes.iter().any(|pane| match (pane.kind, pane.timing) {
            (PaneKind::Insert, Timing::Early | Timing::OnTime | Timing::TimedOut) => {
                pane.window.end() <= passed.0
            }
            // A retraction repeats the timing of what it takes back.
            (PaneKind::Retract, _) | (PaneKind::Insert, Timing::Late) => false,
        });
        if is_overtaken && !self.report.has_failed {
            let name = self.report.name.clone();
            self.fail(Failure::Order { name, shard, stage: panes.stage, passed });
        }
    }
}

impl Actor for SinkActor {
    type Context = Context<Self>;
}

impl Handler<Panes> for SinkActor {
    type Result = ();

    fn handle(&mut self, message: Panes, _: &mut Self::Context) {
        self.check_order(message.shard, &message.panes);
        self.write(&message.panes);
        deliver::handled(&message.sender, message.bytes);
    }
}

impl Handler<Late> for SinkActor {
    type Result = ();

    fn handle(&mut self, message: Late, _: &mut Self::Context) {
        self.write_late(&message.late);
        deliver::handled(&message.sender, message.bytes);
    }
}

impl Handler<Passed> for SinkActor {
    type Result = ();

    fn handle(&mut self, message: Passed, _: &mut Self::Context) {
        match message {
            Passed::Watermark { shard, watermark } => {
                if let Some(passed) = self.passed.get_mut(shard) {
                    *passed = watermark.max(*passed);
                }
            }
            Passed::All => {
                self.open_shards = self.open_shards.saturating_sub(1);
                if self.open_shards == 0 {
                    self.attempt(|writer| writer.close());
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_connectors::memory::MemorySink;
    use nilometer_model::aggregate::ValuesRef;
    use nilometer_model::pane::{PaneMeta, StageId};
    use nilometer_model::time::{EventTime, Window};

    fn panes(kind: PaneKind, timing: Timing) -> PaneBatch {
        let window = Window::new(EventTime::from_millis(0), EventTime::from_millis(10));
        let event_time = window.last_instant();
        let (index, is_last, is_other) = (0, false, false);
        let mut panes = PaneBatch::new(StageId(3));
        let meta = PaneMeta { window, index, timing, is_last, kind, event_time, is_other };
        panes.push(&[], meta, ValuesRef::default());
        panes
    }

    #[test]
    fn a_pane_behind_its_watermark_is_a_failure() {
        use PaneKind::{Insert, Retract};
        for (passed, shard, kind, timing, is_overtaken) in [
            (9, 0, Insert, Timing::OnTime, false),
            (10, 0, Insert, Timing::OnTime, true),
            (10, 0, Insert, Timing::Early, true),
            (10, 0, Insert, Timing::TimedOut, true),
            (10, 0, Insert, Timing::Late, false),
            (10, 0, Retract, Timing::OnTime, false),
            (10, 1, Insert, Timing::OnTime, false),
        ] {
            let (reports, mut reported) = Reports::new();
            let passed = Watermark(EventTime::from_millis(passed));
            let mut sink = SinkActor {
                writer: Writer::Panes(Box::new(MemorySink::new(|_| Ok(())))),
                passed: vec![passed, Watermark::MIN],
                open_shards: 2,
                is_dirty: false,
                report: SinkReport::default(),
                reports,
            };
            let panes = panes(kind, timing);
            sink.check_order(shard, &panes);
            sink.write(&panes);
            let is_told = matches!(
                reported.try_recv(),
                Ok(Report::Failure(Failure::Order { stage: StageId(3), .. }))
            );
            assert_eq!(is_told, is_overtaken, "{kind:?} {timing:?} of shard {shard}");
            assert_eq!(sink.report.has_failed, is_overtaken);
        }
    }
}
