//! The conformance list of the reference, C.8, continued: what is merged, closed and dropped.

use crate::conformance::{end, signal, stage};
use crate::kit::{check, fixed, repeat, sessions, sliding};
use nilometer_model::pane::{AccumulationMode, TimestampCombiner};
use nilometer_model::trigger::Trigger;
use nilometer_model::window::{Touching, WindowFn};

use AccumulationMode::{Accumulating, Discarding};

fn beam_sessions() -> WindowFn {
    sessions(10, Touching::Separate)
}

#[test]
fn the_first_pane_after_the_end_is_late_if_something_in_it_came_late() {
    let by_count = |window, count, timestamp| {
        let trigger = repeat(Trigger::AfterCount(count));
        let mut stage = stage((window, trigger), Accumulating, (100, false));
        stage.emission.timestamp = timestamp;
        stage
    };
    for (timestamp, times) in
        [(TimestampCombiner::EndOfWindow, [9, 19, 15]), (TimestampCombiner::Earliest, [1, 12, 1])]
    {
        let [first, second, session] = times;
        check(
            &by_count(fixed(10), 2, timestamp),
            &format!(
                "
                records 1=1 12=2
                watermark 15
                records 4=4
                  [0,10) +5 #0 late @{first}
                records 5=8
                watermark 130
                  [0,10) +13 #1 late @9 last
                  [10,20) +2 #0 on_time @{second} last
                end
                ",
            ),
        );
        // What was late for a session is not for the longer one that it becomes.
        check(
            &by_count(beam_sessions(), 4, timestamp),
            &format!(
                "
                records 1=1
                watermark 15
                records 3=2
                records 6=4
                watermark 60
                watermark 130
                  [1,16) +7 #0 on_time @{session} last
                end
                ",
            ),
        );
    }
}

#[test]
fn sessions_whose_trigger_has_finished_stay_closed_until_they_grow_before_their_end() {
    // testMergeBeforeFinalizing.
    check(
        &stage((beam_sessions(), end()), Discarding, (0, false)),
        "
        records 1=1 10=10
        watermark 100
          [1,20) +11 #0 on_time @1 last
        end
    ",
    );
    // testMergingWithCloseBeforeGC.
    check(
        &stage((beam_sessions(), end()), Discarding, (50, false)),
        "
        records 1=1 10=10
        watermark 30
          [1,20) +11 #0 on_time @1 last
        watermark 100
        end
    ",
    );
    // testMergingWithCloseTrigger, testMergingWithReusedWindow.
    check(
        &stage((beam_sessions(), end()), Discarding, (50, false)),
        "
        records 1=1 2=2
        watermark 13
          [1,12) +3 #0 on_time @1 last
        records 1=1 2=2
        dropped
          expired 0 closed 2 refused 0
        watermark 100
        end
    ",
    );
    // testMergingWithClosedRepresentative.
    check(
        &stage((beam_sessions(), Trigger::AfterCount(2)), Discarding, (50, false)),
        "
        records 1=1 8=8
          [1,18) +9 #0 early @1 last
        records 1=1 2=2 8=8
        dropped
          expired 0 closed 3 refused 0
        watermark 100
        end
    ",
    );
    // testMergingWithClosedDoesNotPoison.
    check(
        &stage((beam_sessions(), signal()), Discarding, (50, false)),
        "
        records 2=2
        signal fire
          [2,12) +2 #0 early @2 last
        records 1=1 2=2 3=3
        watermark 100
          [1,13) +6 #0 on_time @1 last
        end
    ",
    );
}

#[test]
fn a_record_that_joins_a_live_session_counts_however_late_it_is_by_itself() {
    // C.4: merge first, then judge; else results depend on bundling. An expired session is gone.
    let mut stage = stage((beam_sessions(), repeat(end())), Accumulating, (5, false));
    stage.emission.timestamp = TimestampCombiner::EndOfWindow;
    check(
        &stage,
        "
        records 20=1 30=2 29=4
        watermark 33
        records 15=8
        records 14=16
        records 3=32
        dropped
          expired 1 closed 0 refused 0
        watermark 40
          [14,40) +31 #0 on_time @39
        watermark 45
        records 36=64
        records 35=128
        dropped
          expired 1 closed 0 refused 0
        end
          [35,46) +192 #0 on_time @45 last
        ",
    );
}

#[test]
fn a_record_is_dropped_for_the_windows_that_are_closed_and_kept_for_the_others() {
    // testDropDataMultipleWindowsFinishedTrigger.
    let mut stage = stage((sliding(100, 30), end()), Accumulating, (1000, false));
    stage.emission.timestamp = TimestampCombiner::EndOfWindow;
    check(
        &stage,
        "
        records 23=10 40=12
        dropped
          expired 0 closed 0 refused 0
        watermark 70
          [-60,40) +10 #0 on_time @39 last
          [-30,70) +22 #0 on_time @69 last
        records 60=14
        dropped
          expired 0 closed 1 refused 0
        watermark 130
          [0,100) +36 #0 on_time @99 last
          [30,130) +26 #0 on_time @129 last
        records 40=16
        dropped
          expired 0 closed 4 refused 0
        end
          [60,160) +14 #0 on_time @159 last
    ",
    );
}
