//! The checks can fail: a right run with one thing made wrong is rejected, by the rule that names it.

use crate::job::Style;
use crate::records::Event;
use crate::wide::Closing;
use crate::world::World;
use crate::{Case, check_run, planned, play, run, wide_cases};
use nilometer_model::engine::Engine;
use nilometer_model::invariant::{GC_1, LATE_1, PANE_1, PANE_2, ROLL_1};
use nilometer_model::pane::{AccumulationMode, PaneKind, Timing};
use nilometer_model::time::{EventTime, Span, Watermark, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::Value;
use nilometer_model::window::{Phase, Touching, WindowFn};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

const TEN: Span = Span::from_millis(10);
const FIXED: WindowFn = WindowFn::Fixed { size: TEN, offset: 0, phase: Phase::Aligned };
const SESSIONS: WindowFn =
    WindowFn::Session { gap: TEN, max_duration: None, touching: Touching::Merge };

/// One grouping without a key that counts, over records at the times given, batch by batch, with a
/// watermark of 35 behind the third.
fn case(window: WindowFn, mode: AccumulationMode, batches: &[&[i64]]) -> Case {
    let mut runner = TestRunner::deterministic();
    let any = wide_cases(Style::Any, Closing::Never).new_tree(&mut runner).unwrap().current();
    let mut job = any.job;
    job.spread = None;
    job.groupings.truncate(1);
    let grouping = &mut job.groupings[0];
    (grouping.window, grouping.mode, grouping.key) = (window, mode, Vec::new());
    (grouping.gap_field, grouping.allowed_lateness) = (None, Span::from_millis(20));
    grouping.aggregates.truncate(1);
    grouping.emission = Default::default();
    let each = || Some(Box::new(Trigger::AfterCount(1)));
    grouping.trigger = Trigger::AfterWatermark { early: each(), late: each() };
    let record = |time: &i64| nilometer_model::batch::Record {
        time: EventTime::from_millis(*time),
        values: vec![Value::Null; job.fields.len()],
    };
    let batches = batches.iter().map(|times| Event::Batch(times.iter().map(record).collect()));
    let mut script: Vec<_> = batches.collect();
    script.insert(3, Event::Watermark(Watermark(EventTime::from_millis(35))));
    Case { job, script, seed: 1, shards: 1, engine: Engine::Streaming }
}

/// Two early panes of one window and one of the next, a late one of the first; then a record that
/// has expired.
fn fixed(mode: AccumulationMode) -> Case {
    case(FIXED, mode, &[&[21], &[22], &[31], &[25], &[4]])
}

/// Two sessions become one.
fn sessions(mode: AccumulationMode) -> Case {
    case(SESSIONS, mode, &[&[20], &[40], &[60], &[30], &[55]])
}

/// What the checks say of a run that was tampered with.
fn verdict(case: &Case, tamper: impl FnOnce(&mut World)) -> String {
    let mut world = run(case, false);
    check_run(case, &world).unwrap();
    tamper(&mut world);
    check_run(case, &world).unwrap_err().to_string()
}

/// What is made wrong, the rule that says so, and how it is done.
type Rule = (&'static str, &'static str, fn(&mut World));

#[test]
fn panes_that_are_wrong_are_rejected() {
    use AccumulationMode::{Accumulating, Discarding, Retracting};
    let one = fixed(Accumulating);
    let kinds = run(&one, false).panes;
    let timings: Vec<_> = kinds.iter().map(|pane| pane.meta.timing).collect();
    assert_eq!(timings, [Timing::Early, Timing::Early, Timing::Early, Timing::Late]);
    let rules: [Rule; 9] = [
        ("a pane is missing at the end", ROLL_1, |world| drop(world.panes.pop())),
        ("a pane is missing before others", PANE_2, |world| drop(world.panes.remove(0))),
        ("a pane comes twice", PANE_2, |world| {
            let pane = world.panes[1].clone();
            world.panes.insert(1, pane);
        }),
        ("a count is wrong", ROLL_1, |world| world.panes[3].values[0] = Value::Int(4)),
        ("early after on time", PANE_1, |world| {
            world.panes[0].meta.timing = Timing::OnTime;
        }),
        ("after the last", "a pane after the last", |world| world.panes[0].meta.is_last = true),
        ("a window of its own", "the batch has no", |world| {
            let [start, end] = [70, 80].map(EventTime::from_millis);
            let mut pane = world.panes[2].clone();
            pane.meta.window = Window::new(start, end);
            pane.meta.event_time = pane.meta.window.last_instant();
            world.panes.push(pane);
        }),
        ("a time of its own", "event time", |world| {
            world.panes[0].meta.event_time = EventTime::from_millis(3);
        }),
        ("a retract", "retract in a mode without", |world| {
            let mut pane = world.panes[0].clone();
            pane.meta.kind = PaneKind::Retract;
            world.panes.insert(1, pane);
        }),
    ];
    for (what, rule, tamper) in rules {
        let said = verdict(&one, tamper);
        assert!(said.contains(rule), "{what}: {said}");
    }
    let said = verdict(&fixed(Discarding), |world| world.panes[1].values[0] = Value::Int(2));
    assert!(said.contains(ROLL_1), "a delta that is a total: {said}");
    let said = verdict(&fixed(Retracting), |world| {
        let retract = world.panes.iter().position(|pane| pane.meta.kind == PaneKind::Retract);
        world.panes.remove(retract.unwrap());
    });
    assert!(said.contains("an insert without its retract"), "{said}");
}

#[test]
fn sessions_that_leave_something_are_rejected() {
    use AccumulationMode::{Accumulating, Discarding, Retracting};
    let case = sessions(Retracting);
    let is_gone = |world: &World, number: usize| {
        let mut retracts = world.panes.iter().enumerate();
        let mut retracts =
            retracts.by_ref().filter(|(_, pane)| pane.meta.kind == PaneKind::Retract);
        retracts.nth(number).unwrap().0
    };
    let said = verdict(&case, |world| drop(world.panes.remove(is_gone(world, 0))));
    assert!(said.contains("merged away and not taken back"), "{said}");
    let said = verdict(&case, |world| {
        let retract = is_gone(world, 0);
        world.panes[retract].values[0] = Value::Int(9);
    });
    assert!(said.contains("a retract repeats the values"), "{said}");
    let said = verdict(&case, |world| {
        let last = is_gone(world, 1) + 1;
        world.panes.truncate(last);
    });
    assert!(said.contains("nothing replaces"), "{said}");
    // A part counts with the whole once.
    for mode in [Discarding, Accumulating] {
        let said = verdict(&sessions(mode), |world| {
            let last = world.panes.last_mut().unwrap();
            last.values[0] = Value::Int(7);
        });
        assert!(said.contains(ROLL_1), "{mode:?}: {said}");
    }
}

#[test]
fn wrong_drops_and_state_that_is_left_are_rejected() {
    let case = fixed(AccumulationMode::Accumulating);
    let said = verdict(&case, |world| world.dropped.clear());
    assert!(said.contains(LATE_1), "{said}");
    let said = verdict(&case, |world| world.late.clear());
    assert!(said.contains(LATE_1), "{said}");
    // Not all that came is in what is expected.
    let world = run(&case, false);
    let fewer = Case { script: case.script[1..].to_vec(), ..case.clone() };
    assert!(check_run(&fewer, &world).unwrap_err().to_string().contains(ROLL_1));
    // No lateness allowed: the oracle drops what the engine has counted.
    let mut strict = case.clone();
    strict.job.groupings[0].allowed_lateness = Span::ZERO;
    check_run(&strict, &world).unwrap_err();
    // The input goes on.
    let mut world = World::new(planned(&case), 1, 0);
    play(&mut world, &case, &case.script, false);
    world.settle();
    assert!(check_run(&case, &world).unwrap_err().to_string().contains(GC_1));
}
