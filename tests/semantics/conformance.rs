//! The conformance list of the reference, C.8: what Beam's Java runner is tested for, as scripts.
//!
//! Triggers that Beam's tests fire by hand wait here for a signal. Where those look at holds, these
//! look at the output watermark.

use crate::kit::{after_watermark, check, fixed, repeat, sessions, span, sums};
use nilometer_model::pane::{AccumulationMode, Emission, TimestampCombiner};
use nilometer_model::plan::Grouping;
use nilometer_model::trigger::Trigger;
use nilometer_model::window::{Touching, WindowFn};

use AccumulationMode::{Accumulating, Discarding};

/// Panes carry the earliest time; on-time panes are always emitted, last ones if told.
pub(crate) fn stage(
    (window, trigger): (WindowFn, Trigger),
    mode: AccumulationMode,
    (allowed_lateness, closing_always): (i64, bool),
) -> Grouping {
    let mut stage = sums(window, trigger, mode);
    stage.allowed_lateness = span(allowed_lateness);
    stage.emission =
        Emission { on_time_always: true, closing_always, timestamp: TimestampCombiner::Earliest };
    stage
}

pub(crate) fn end() -> Trigger {
    after_watermark(None, None)
}

fn or_finally(first: Trigger, second: Trigger) -> Trigger {
    Trigger::OrFinally(Box::new(first), Box::new(second))
}

pub(crate) fn signal() -> Trigger {
    Trigger::OnSignal("fire".into())
}

fn delay(millis: i64) -> Trigger {
    Trigger::AfterProcessingTime(span(millis))
}

fn beam_sessions() -> WindowFn {
    sessions(10, Touching::Separate)
}

#[test]
fn early_on_time_and_last_panes_say_what_they_are() {
    // testPaneInfoAllStatesAfterWatermark, ...Accumulating, noEmptyPanesFinalAlways,
    // noEmptyPanesFinalIfNonEmpty.
    let trigger = || repeat(Trigger::Any(vec![Trigger::AfterCount(2), end()]));
    check(
        &stage((fixed(10), trigger()), Discarding, (100, true)),
        "
        watermark 0
        records 1=1 2=2
          [0,10) +3 #0 early @1
        watermark 50
          [0,10) +0 #1 on_time @9
        watermark 150
          [0,10) +0 #2 late @9 last
        end
    ",
    );
    check(
        &stage((fixed(10), trigger()), Accumulating, (100, true)),
        "
        watermark 0
        records 1=1 2=2
          [0,10) +3 #0 early @1
        watermark 20
          [0,10) +3 #1 on_time @9
        watermark 250
          [0,10) +3 #2 late @9 last
        end
    ",
    );
    check(
        &stage((fixed(10), trigger()), Accumulating, (100, false)),
        "
        watermark 0
        records 1=1 2=2
          [0,10) +3 #0 early @1
        watermark 20
          [0,10) +3 #1 on_time @9
        watermark 250
        end
    ",
    );
}

#[test]
fn a_finished_trigger_emits_its_last_pane_at_once() {
    // testPaneInfoFinalAndOnTime: nothing at expiry, since the trigger has finished.
    let trigger = or_finally(repeat(Trigger::AfterCount(2)), end());
    check(
        &stage((fixed(10), trigger), Discarding, (100, true)),
        "
        watermark 0
        records 1=1 2=2
          [0,10) +3 #0 early @1
        watermark 150
          [0,10) +0 #1 on_time @9 last
        end
    ",
    );
    // testEmptyOnTimeWithOnTimeBehaviorBackwardCompatibility.
    let trigger = after_watermark(Some(Trigger::AfterCount(1)), None);
    check(
        &stage((fixed(10), trigger), Accumulating, (0, false)),
        "
        watermark 0
        records 1=1
          [0,10) +1 #0 early @1
        watermark 11
          [0,10) +1 #1 on_time @9 last
        end
    ",
    );
    // testOnlyOneOnTimePane.
    check(
        &stage((fixed(10), Trigger::default_trigger()), Accumulating, (100, false)),
        "
        watermark 0
        records 1=1
        watermark 10
          [0,10) +1 #0 on_time @1
        records 3=3
          [0,10) +4 #1 late @9
        end
    ",
    );
}

#[test]
fn an_empty_on_time_pane_leaves_no_trace_unless_it_is_wanted() {
    // testEmptyOnTimeWithOnTimeBehaviorFireIfNonEmptyAndLateData.
    let trigger = Trigger::Sequence(vec![or_finally(repeat(delay(5)), end()), repeat(delay(25))]);
    let mut stage = stage((fixed(10), trigger), Accumulating, (100, false));
    stage.emission.on_time_always = false;
    check(
        &stage,
        "
        watermark 0
        tick 0
        records 1=1 3=1 7=1 5=1
        tick 6
          [0,10) +4 #0 early @1
        watermark 11
        records 9=1
        tick 32
          [0,10) +5 #1 late @9
        end
    ",
    );
}

#[test]
fn end_and_expiry_in_one_jump_give_one_pane() {
    // testSessionEowAndGcTogether, testFixedWindowsEowAndGcTogether, ...FireIfNonEmpty.
    for closing_always in [true, false] {
        let default = Trigger::default_trigger;
        check(
            &stage((fixed(10), default()), Accumulating, (50, closing_always)),
            "
            watermark 0
            records 1=1
            watermark 100
              [0,10) +1 #0 on_time @1 last
            end
        ",
        );
        check(
            &stage((beam_sessions(), default()), Accumulating, (50, closing_always)),
            "
            watermark 0
            records 1=1
            watermark 100
              [1,11) +1 #0 on_time @1 last
            end
        ",
        );
    }
    // testCombiningAccumulatingEventTime.
    check(
        &stage((fixed(100), repeat(end())), Accumulating, (1, false)),
        "
        records 2=2 5=5
        watermark 1000
          [0,100) +7 #0 on_time @2 last
        end
    ",
    );
    // testCombiningAccumulatingProcessingTimeSeparateBundles: the clock fires nothing any more.
    check(
        &stage((fixed(100), repeat(delay(10))), Accumulating, (0, false)),
        "
        tick 5000
        records 2=2 5=5
        watermark 100
          [0,100) +7 #0 on_time @2 last
        tick 5011
        end
    ",
    );
    // testCombiningAccumulatingProcessingTime: at one instant the watermark goes before the clock.
    check(
        &stage((fixed(100), repeat(delay(10))), Accumulating, (0, false)),
        "
        tick 5000
        records 2=2 5=5
        watermark 100
          [0,100) +7 #0 on_time @2 last
        tick 5010
        end
    ",
    );
}

#[test]
fn a_jump_gives_what_a_stop_at_the_end_of_the_window_gives() {
    // The trigger does not look at the watermark: there is no on-time pane, unless something is left.
    let mut stage = stage((fixed(10), repeat(Trigger::AfterCount(2))), Accumulating, (100, false));
    check(
        &stage,
        "
        records 1=1 2=2
          [0,10) +3 #0 early @1
        watermark 110
        end
    ",
    );
    check(
        &stage,
        "
        records 1=1 2=2
          [0,10) +3 #0 early @1
        watermark 10
        watermark 110
        end
    ",
    );
    check(
        &stage,
        "
        records 1=1 2=2 3=4
          [0,10) +7 #0 early @1
        records 4=8
        watermark 110
          [0,10) +15 #1 on_time @4 last
        end
    ",
    );
    stage.allowed_lateness = span(0);
    check(
        &stage,
        "
        records 1=1 2=2
          [0,10) +3 #0 early @1
        watermark 10
          [0,10) +3 #1 on_time @9 last
        end
    ",
    );
}

#[test]
fn records_behind_the_output_watermark_neither_hold_it_nor_count_for_the_time_of_a_pane() {
    // testWatermarkHoldAndLateData.
    let early = or_finally(repeat(signal()), end());
    let trigger = Trigger::Sequence(vec![early, repeat(signal())]);
    check(
        &stage((fixed(10), trigger), Accumulating, (10, false)),
        "
        records 1=1
        records 3=3
        records 2=2
        signal fire
          [0,10) +6 #0 early @1
        watermark 4
        passed
          4
        records 2=2
        records 3=3
        records 5=5
        records 4=4
        signal fire
          [0,10) +20 #1 early @4
        watermark 8
        passed
          8
        records 6=6
        records 5=5
        records 4=4
        watermark 10
          [0,10) +35 #2 on_time @9
        records 8=8
        dropped
          expired 0 closed 0 refused 0
        watermark 50
          [0,10) +43 #3 late @9 last
        passed
          50
        end
    ",
    );
}

#[test]
fn what_is_emitted_holds_no_longer_and_what_came_late_never_did() {
    // testNoWatermarkTriggerNoHold.
    check(
        &stage((fixed(10), repeat(delay(5))), Accumulating, (1000, false)),
        "
        watermark 0
        tick 0
        records 1=1
        watermark 5
        passed
          1
        tick 6
          [0,10) +1 #0 early @1
        passed
          5
        watermark 109
        records 3=3
        passed
          109
        end
          [0,10) +4 #1 late @9 last
    ",
    );
    // setGarbageCollectionHoldOnLateElements.
    let trigger = after_watermark(None, Some(Trigger::AfterCount(2)));
    check(
        &stage((fixed(10), trigger), Discarding, (100, false)),
        "
        watermark 0
        records 1=1
        watermark 109
          [0,10) +1 #0 on_time @1
        records 2=2
        watermark 110
          [0,10) +2 #1 late @9 last
        end
    ",
    );
}

#[test]
fn the_end_of_time_flushes_the_global_window() {
    // fireNonEmptyOnDrainInGlobalWindow.
    let trigger = repeat(Trigger::AfterCount(3));
    check(
        &stage((WindowFn::Global, trigger), Discarding, (0, false)),
        "
        watermark 0
        records 0=1
        records 1=1
        records 2=1
          [-inf,+inf) +3 #0 early @0
        records 3=1
        records 4=1
        end
          [-inf,+inf) +2 #1 on_time @3 last
    ",
    );
    // fireEmptyOnDrainInGlobalWindowIfRequested.
    check(
        &stage((WindowFn::Global, repeat(delay(3))), Discarding, (0, false)),
        "
        tick 0
        records 0=1
        tick 1
        records 1=1
        tick 2
        records 2=1
        tick 3
          [-inf,+inf) +3 #0 early @0
        end
          [-inf,+inf) +0 #1 on_time @+inf last
    ",
    );
}

#[test]
fn a_late_never_waits_for_expiry() {
    // testFixedWindowEndOfTimeGarbageCollection: expiry beyond the end of time is at the end.
    let trigger = after_watermark(None, Some(Trigger::Never));
    let at = i64::MAX - 20;
    let script = format!(
        "
        records {at}=13
        watermark {}
          [{},{}) +13 #0 on_time @{at}
        records {at}=42
        end
          [{1},{2}) +55 #1 late @{} last
    ",
        at + 4,
        at - 7,
        at + 3,
        at + 2
    );
    check(&stage((fixed(10), trigger), Accumulating, (365 * 86_400_000, false)), &script);
}
