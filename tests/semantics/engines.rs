//! The three engines over one stage: what a micro-batch and a batch give where a stream would have
//! fired by its triggers.

use crate::drawing::{Curve, arrivals, millis, paper};
use crate::kit::{Pane, Run, after_watermark, check_on, fixed, repeat, sessions, span, sums};
use nilometer_model::engine::{Engine, Pace};
use nilometer_model::pane::{AccumulationMode, Emission, Timing};
use nilometer_model::plan::Grouping;
use nilometer_model::time::{EventTime, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::window::{Touching, WindowFn};
use serde_json::Value;

use AccumulationMode::{Accumulating, Discarding, Retracting};
use Timing::{Early, Late, OnTime};

const MINUTE: i64 = 60_000;
const MICRO_BATCH: Engine = Engine::MicroBatch(Pace::Records(1));

/// A stage whose trigger neither a micro-batch nor a batch heeds.
fn stage(window: WindowFn, mode: AccumulationMode, lateness: i64) -> Grouping {
    let trigger = after_watermark(Some(Trigger::AfterCount(3)), Some(Trigger::AfterCount(2)));
    Grouping { allowed_lateness: span(lateness), ..sums(window, trigger, mode) }
}

/// The panes of a figure, as (value, window).
fn drawn(figure: &str) -> Vec<(i128, Window)> {
    let paper = paper();
    let panes = paper["figures"][figure]["panes"].as_array().unwrap();
    let bound = |pane: &Value, at: usize| {
        EventTime::from_millis(millis(pane["window"][at].as_f64().unwrap()))
    };
    let pane = |pane: &Value| {
        let window = Window::new(bound(pane, 0), bound(pane, 1));
        (pane["value"].as_i64().unwrap().into(), window)
    };
    panes.iter().map(pane).collect()
}

fn shown(panes: &[Pane]) -> Vec<(i128, Window)> {
    panes.iter().map(|pane| (pane.value, pane.window)).collect()
}

#[test]
fn figure_11_in_micro_batches_of_a_minute() {
    let (paper, expected) = (paper(), drawn("fig11_fixed2m_microbatch1m"));
    let curve = Curve::actual(&paper);
    let mut run = Run::on(MICRO_BATCH, stage(fixed(2 * MINUTE), Accumulating, 1_000 * MINUTE));
    let mut panes = Vec::new();
    for (minute, expected) in
        (1..).zip([&expected[..2], &expected[2..4], &expected[4..6], &expected[6..]])
    {
        let end = minute * MINUTE;
        for arrival in arrivals(&paper) {
            if end - MINUTE < arrival.at && arrival.at <= end {
                assert_eq!(run.records(&[("k", arrival.time, arrival.value)]), []);
            }
        }
        let round = run.cycle(curve.at(end).unwrap());
        assert_eq!(shown(&round), expected, "minute {minute}");
        panes.extend(round);
    }
    // The real watermark says what is early and what is late.
    let timings: Vec<_> = panes.iter().map(|pane| pane.timing).collect();
    assert_eq!(timings, [OnTime, Early, Early, Early, OnTime, Early, Late, Early]);
    assert_eq!(run.end(), [], "nothing has changed");
}

#[test]
fn figure_10_as_a_batch() {
    for trigger in [Trigger::default_trigger(), repeat(Trigger::AfterCount(2)), Trigger::Never] {
        for window in [fixed(2 * MINUTE), WindowFn::Global] {
            let grouping = sums(window, trigger.clone(), Accumulating);
            let mut run = Run::on(Engine::Batch, grouping);
            for arrival in arrivals(&paper()) {
                assert_eq!(run.records(&[("k", arrival.time, arrival.value)]), []);
                assert_eq!(run.tick(arrival.at), []);
            }
            let panes = run.end();
            let expected = match window {
                WindowFn::Global => vec![(51, Window::GLOBAL)],
                _ => drawn("fig10_fixed2m_batch"),
            };
            assert_eq!(shown(&panes), expected);
            let is_whole = |pane: &Pane| pane.timing == OnTime && pane.is_last && pane.index == 0;
            assert!(panes.iter().all(is_whole), "{panes:?}");
        }
    }
}

#[test]
fn a_window_fires_once_a_cycle_and_only_if_it_has_changed() {
    for mode in [Discarding, Accumulating] {
        let (second, third) = if mode == Discarding { (1, 64) } else { (4, 100) };
        check_on(
            MICRO_BATCH,
            &stage(fixed(10), mode, 20),
            &format!(
                "
                records 1=1 12=32
                records 2=2
                watermark 500
                tick 500
                cycle 5
                  [0,10) +3 #0 early @9
                  [10,20) +32 #0 early @19
                cycle 6
                records 3=1
                cycle 10
                  [0,10) +{second} #1 on_time @9
                records 4=32
                records 5=32
                records 13=4
                cycle 29
                  [0,10) +{} #2 late @9
                  [10,20) +{} #1 on_time @19
                records 6=32
                cycle 30
                  [0,10) +{third} #3 late @9 last
                records 7=1
                cycle 35
                dropped
                  expired 1 closed 0 refused 0
                end
                ",
                if mode == Discarding { 64 } else { 68 },
                if mode == Discarding { 4 } else { 36 },
                third = if mode == Discarding { 32 } else { third },
            ),
        );
    }
}

#[test]
fn records_are_judged_by_the_watermark_of_the_cycle_before() {
    check_on(
        MICRO_BATCH,
        &stage(fixed(10), Accumulating, 0),
        "
        records 1=1
        cycle 10
          [0,10) +1 #0 on_time @9 last
        records 2=2 11=4
        cycle 40
          [10,20) +4 #0 on_time @19 last
        dropped
          expired 1 closed 0 refused 0
        end
        ",
    );
}

#[test]
fn what_is_always_emitted_comes_once_too() {
    let emission = Emission { on_time_always: true, closing_always: true, ..Emission::default() };
    let always = Grouping { emission, ..stage(fixed(10), Accumulating, 5) };
    check_on(
        MICRO_BATCH,
        &always,
        "
        records 1=1
        cycle 5
          [0,10) +1 #0 early @9
        cycle 12
          [0,10) +1 #1 on_time @9
        records 2=2
        cycle 15
          [0,10) +3 #2 late @9 last
        records 13=4
        cycle 100
          [10,20) +4 #0 on_time @19 last
        end
        ",
    );
}

#[test]
fn sessions_of_a_cycle_merge_before_they_fire() {
    check_on(
        MICRO_BATCH,
        &stage(sessions(10, Touching::Separate), Retracting, 100),
        "
        records 1=1 25=2
        records 8=4
        cycle 20
          [1,18) +5 #0 on_time @17
          [25,35) +2 #0 early @34
        records 17=8
        cycle 40
          [1,18) -5 #0 on_time @17
          [25,35) -2 #0 early @34
          [1,35) +15 #0 on_time @34
        end
        ",
    );
    check_on(
        Engine::Batch,
        &stage(sessions(10, Touching::Separate), Retracting, 100),
        "
        records 1=1 25=2
        tick 3
        records 8=4 17=8 60=16
        watermark 0
        end
          [1,35) +15 #0 on_time @34 last
          [60,70) +16 #0 on_time @69 last
        ",
    );
}
