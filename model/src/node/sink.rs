//! What a sink checks before it writes: that no pane that fires in time comes behind the watermark
//! that completed its window. All order ends here, so here it is seen whether it was kept.

use crate::pane::{PaneBatch, PaneKind, PaneMeta, StageId, Timing};
use crate::plan::{Plan, Stage};
use crate::time::Watermark;
use crate::window::WindowFn;

/// A pane that a watermark should have come behind, and did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overtaken {
    /// Number of the shard that sent it.
    pub shard: usize,
    /// The stage.
    pub stage: StageId,
    /// What that shard had let pass before.
    pub passed: Watermark,
}

/// What a sink knows of the order of what comes.
#[derive(Debug, Clone)]
pub struct SinkOrder {
    /// By stage; `None` for sequences, whose records stand at an instant.
    windows: Vec<Option<WindowFn>>,
    /// What each shard has let pass. Rises only (WM-1).
    passed: Vec<Watermark>,
    /// Shards that have not ended. Falls only.
    open_shards: usize,
}

impl SinkOrder {
    /// Nothing has come.
    pub fn new(plan: &Plan, shards: usize) -> Self {
        Self {
            windows: plan.stages.iter().map(window_of).collect(),
            passed: vec![Watermark::MIN; shards],
            open_shards: shards,
        }
    }

    /// Takes notice of panes of a shard.
    ///
    /// # Errors
    /// One of them was overtaken.
    pub fn panes(&self, shard: usize, panes: &PaneBatch) -> Result<(), Overtaken> {
        let stage = panes.stage;
        let (Some(passed), Some(window)) =
            (self.passed.get(shard).copied(), self.windows.get(stage.index()))
        else {
            return Ok(());
        };
        let mut panes = panes.panes.iter();
        if panes.any(|pane| is_overtaken(*window, pane, passed)) {
            Err(Overtaken { shard, stage, passed })
        } else {
            Ok(())
        }
    }

    /// A shard has let a watermark pass.
    pub fn passed(&mut self, shard: usize, watermark: Watermark) {
        if let Some(passed) = self.passed.get_mut(shard) {
            *passed = watermark.max(*passed);
        }
    }

    /// A shard has ended; returns whether all have.
    pub fn ended(&mut self) -> bool {
        self.open_shards = self.open_shards.saturating_sub(1);
        self.open_shards == 0
    }
}

/// What completes the windows of a stage, if it has windows.
fn window_of(stage: &Stage) -> Option<WindowFn> {
    stage.sequence.is_none().then_some(stage.window)
}

/// Whether a pane of `stage` comes too late to be what its timing says: `passed` has passed before.
pub fn is_behind(stage: &Stage, pane: &PaneMeta, passed: Watermark) -> bool {
    is_overtaken(window_of(stage), pane, passed)
}

fn is_overtaken(window: Option<WindowFn>, pane: &PaneMeta, passed: Watermark) -> bool {
    match (pane.kind, pane.timing, window) {
        // A retraction repeats the timing of what it takes back.
        (PaneKind::Retract, _, _) | (PaneKind::Insert, Timing::Late, _) => false,
        // What is told of a session that goes on promises nothing.
        (PaneKind::Insert, Timing::Early, None) => false,
        (PaneKind::Insert, Timing::OnTime | Timing::TimedOut, None) => pane.event_time < passed.0,
        (PaneKind::Insert, Timing::Early | Timing::OnTime | Timing::TimedOut, Some(window)) => {
            window.complete_at(pane.window) <= passed.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::ValuesRef;
    use crate::pane::AccumulationMode;
    use crate::plan::{Grouping, Job, KeyColumn};
    use crate::planner::plan;
    use crate::row::Field;
    use crate::sequence::machine_tests::wifi;
    use crate::shard_tests::{grouping, job};
    use crate::time::{EventTime, Span, Window};
    use crate::value::Type;
    use crate::window::Touching;

    fn panes(kind: PaneKind, timing: Timing) -> PaneBatch {
        let window = Window::new(EventTime::from_millis(0), EventTime::from_millis(10));
        let event_time = window.last_instant();
        let (index, is_last, is_other) = (0, false, false);
        let mut panes = PaneBatch::new(StageId(0));
        let meta = PaneMeta { window, index, timing, is_last, kind, event_time, is_other };
        panes.push(&[], meta, ValuesRef::default());
        panes
    }

    /// The order of what two shards send of windows of this kind.
    fn order(window: Option<Touching>) -> SinkOrder {
        let mut sums = grouping("s", &["a"], AccumulationMode::Discarding);
        if let Some(touching) = window {
            let gap = Span::from_millis(10);
            sums.window = WindowFn::Session { gap, max_duration: None, touching };
        }
        SinkOrder::new(&plan(&job(vec![sums])).unwrap(), 2)
    }

    #[test]
    fn a_pane_behind_its_watermark_is_a_failure() {
        use PaneKind::{Insert, Retract};
        let sessions = Some(Touching::Merge);
        for (window, passed, shard, kind, timing, is_overtaken) in [
            (None, 9, 0, Insert, Timing::OnTime, false),
            (None, 10, 0, Insert, Timing::OnTime, true),
            (None, 10, 0, Insert, Timing::Early, true),
            (None, 10, 0, Insert, Timing::TimedOut, true),
            (None, 10, 0, Insert, Timing::Late, false),
            (None, 10, 0, Retract, Timing::OnTime, false),
            (None, 10, 1, Insert, Timing::OnTime, false),
            // A record at 10 would still join: the session is not complete.
            (sessions, 10, 0, Insert, Timing::OnTime, false),
            (sessions, 10, 0, Insert, Timing::Early, false),
            (sessions, 11, 0, Insert, Timing::OnTime, true),
            (Some(Touching::Separate), 10, 0, Insert, Timing::Early, true),
        ] {
            let mut order = order(window);
            order.passed(0, Watermark(EventTime::from_millis(passed)));
            let checked = order.panes(shard, &panes(kind, timing));
            assert_eq!(checked.is_err(), is_overtaken, "{kind:?} {timing:?} {passed} {window:?}");
        }
    }

    #[test]
    fn a_session_comes_before_the_watermark_passes_the_time_it_counts_at() {
        let sessions = Grouping {
            sinks: vec!["out".into()],
            ..Grouping::sequence("s", vec![KeyColumn::plain("client")], wifi())
        };
        let fields = ["client", "step", "status"].map(|name| Field::new(name, Type::Text));
        let job = Job::new("p", fields.to_vec(), vec![sessions]);
        let mut order = SinkOrder::new(&plan(&job).unwrap(), 1);
        order.passed(0, Watermark(EventTime::from_millis(1_000)));
        for (event_time, timing, is_overtaken) in [
            // However long ago it began.
            (1_000, Timing::OnTime, false),
            (999, Timing::OnTime, true),
            (999, Timing::TimedOut, true),
            (999, Timing::Late, false),
            (999, Timing::Early, false),
        ] {
            let mut panes = panes(PaneKind::Insert, timing);
            panes.panes[0].event_time = EventTime::from_millis(event_time);
            assert_eq!(order.panes(0, &panes).is_err(), is_overtaken, "{event_time} {timing:?}");
        }
    }

    #[test]
    fn it_ends_with_the_last_shard() {
        let mut order = order(None);
        assert!(!order.ended());
        assert!(order.ended());
    }
}
