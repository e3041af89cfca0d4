//! Stages that begin anew beside others that go on: empty, and where what they read has come to.

use crate::plan::Plan;
use crate::round::trailing;
use crate::shard::{Machine, Shard};
use crate::time::Watermark;

/// What begins anew where an image ends.
#[derive(Debug, Clone)]
pub struct Begins {
    /// Names of the stages. What the image holds of them, and of stages that the plan does not have,
    /// is forgotten.
    pub stages: Vec<Box<str>>,
    /// The watermark of the pipeline.
    pub watermark: Watermark,
    /// Whether counts begin, too, also those of stages that go on.
    pub counts: bool,
    /// Whether keys lie in other groups than those that the image has them in.
    pub is_placed_anew: bool,
}

impl Default for Begins {
    /// Nothing.
    fn default() -> Self {
        Self { stages: Vec::new(), watermark: Watermark::MIN, counts: false, is_placed_anew: false }
    }
}

impl Begins {
    pub(super) fn has(&self, stage: &str) -> bool {
        self.stages.iter().any(|name| **name == *stage)
    }

    /// Whether what an image holds of a stage is not wanted.
    pub(super) fn forgets(&self, stage: &str, plan: &Plan) -> bool {
        self.has(stage) || plan.stage(stage).is_none()
    }
}

impl Shard {
    /// Lets stages begin where what they read has come to: what is older than that is late for them
    /// as for all others. All stages that go on have been put back before.
    pub(super) fn begin(&mut self, begins: &Begins) {
        let plan = self.plan.clone();
        for stage in plan.stages.iter().filter(|stage| begins.has(&stage.name)) {
            let index = stage.id.index();
            let parent = stage.input.parent().and_then(|parent| self.machines.get(parent.index()));
            let reached = parent.map_or(begins.watermark, Machine::output);
            let mut reached = if stage.trails() { trailing(reached) } else { reached };
            if let Some(Some(ends)) = self.exchanges.get(index) {
                // How far other shards have come they tell with their next marks.
                reached = ends.senders.iter().min().copied().unwrap_or(Watermark::MIN);
            }
            match self.machines.get_mut(index) {
                Some(Machine::Keys(table, _)) => table.watermark = reached,
                Some(Machine::Sliding(table, _)) => table.windows.watermark = reached,
                Some(Machine::Machines(table, _)) => {
                    (table.watermark, table.output) = (reached, reached);
                }
                Some(Machine::TopK(table)) => table.watermark = reached,
                Some(Machine::Sequence(table)) => {
                    (table.watermark, table.output) = (reached, reached);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageError;
    use crate::pane::AccumulationMode::{Accumulating, Discarding};
    use crate::plan::Grouping;
    use crate::shard_tests::{Run, grouping};
    use crate::symbol::Symbols;
    use crate::time::EventTime;
    use std::sync::Arc;

    fn fine() -> Grouping {
        grouping("fine", &["a", "b"], Accumulating)
    }

    fn coarse() -> Grouping {
        grouping("coarse", &["a"], Accumulating)
    }

    fn beside() -> Grouping {
        grouping("beside", &["c"], Accumulating)
    }

    /// Goes on with other groupings, of which some begin anew, on so many shards.
    fn change(run: &mut Run, groupings: Vec<Grouping>, anew: &[&str]) -> Result<Run, ImageError> {
        let changed = Run::new(groupings);
        let begins = Begins {
            stages: anew.iter().map(|name| (*name).into()).collect(),
            watermark: Watermark(EventTime::from_millis(12)),
            counts: true,
            is_placed_anew: true,
        };
        run.log.cut(&run.plan, std::slice::from_mut(&mut run.shard)).unwrap();
        let symbols = Arc::new(Symbols::default());
        let mut shards = run.log.restore_but(&changed.plan, &symbols, 1, Some(begins))?;
        let mut changed = Run { shard: shards.remove(0), log: run.log.clone(), ..changed };
        // What was forgotten does not come back with a later restart.
        changed.restart();
        Ok(changed)
    }

    /// Panes in order of their lines: stages may come in any order.
    fn sorted(mut lines: Vec<String>) -> Vec<String> {
        lines.sort();
        lines
    }

    /// A run of these, in the middle of the window of 10: 7 is in it for a = 1, and 3 in the one before,
    /// which has fired.
    fn begun(groupings: Vec<Grouping>) -> Run {
        let mut run = Run::new(groupings);
        run.records(&[(5, [1, 2, 3], 3), (13, [1, 2, 3], 7)]);
        run.watermark(12);
        run
    }

    #[test]
    fn a_stage_goes_on_behind_a_new_one_and_loses_nothing() {
        let mut run = begun(vec![coarse(), beside()]);
        let mut run = change(&mut run, vec![fine(), coarse(), beside()], &["fine"]).unwrap();
        run.records(&[(14, [1, 2, 3], 5)]);
        assert_eq!(
            sorted(run.watermark(20)),
            ["beside 3 [10,20)#0 on +12", "coarse 1 [10,20)#0 on +12", "fine 1,2 [10,20)#0 on +5",]
        );
        // What is late for all is late for the new one, too: it was not on time.
        assert_eq!(
            sorted(run.records(&[(6, [1, 2, 3], 1)])),
            ["beside 3 [0,10)#1 late +4", "coarse 1 [0,10)#1 late +4", "fine 1,2 [0,10)#0 late +1"]
        );
        run.watermark(i64::MAX);
        assert!(run.shard.is_empty());
    }

    #[test]
    fn what_begins_anew_begins_with_what_comes_and_what_is_beside_it_goes_on() {
        let mut run = begun(vec![fine(), coarse(), beside()]);
        let mut other = fine();
        other.mode = Discarding;
        let groupings = vec![other, coarse(), beside()];
        let mut changed = change(&mut run, groupings.clone(), &["fine", "coarse"]).unwrap();
        changed.records(&[(14, [1, 2, 3], 5)]);
        assert_eq!(
            sorted(changed.watermark(20)),
            ["beside 3 [10,20)#0 on +12", "coarse 1 [10,20)#0 on +5", "fine 1,2 [10,20)#0 on +5"]
        );
        // A new one above gets what the one below it has not handed on yet.
        let mut above =
            change(&mut begun(vec![fine()]), vec![fine(), coarse()], &["coarse"]).unwrap();
        above.records(&[(14, [1, 2, 3], 5)]);
        assert_eq!(
            sorted(above.watermark(20)),
            ["coarse 1 [10,20)#0 on +12", "fine 1,2 [10,20)#0 on +12"]
        );
        // A stage that the plan has no more is forgotten.
        let mut alone = change(&mut run, vec![beside()], &[]).unwrap();
        assert_eq!(alone.watermark(20), ["beside 3 [10,20)#0 on +7"]);
    }

    #[test]
    fn what_is_not_said_to_begin_must_be_there() {
        let mut run = begun(vec![beside()]);
        let result = change(&mut run, vec![beside(), coarse()], &[]).map(|_| ());
        assert!(matches!(result, Err(ImageError::OtherPlan { .. })), "{result:?}");
    }
}
