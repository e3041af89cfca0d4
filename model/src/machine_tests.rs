//! Merging windows and composed triggers by hand: the public examples, pane by pane.

use crate::pane::{AccumulationMode, Emission, TimestampCombiner};
use crate::plan::Grouping;
use crate::shard::Machine;
use crate::shard_tests::{Run, grouping};
use crate::time::Span;
use crate::trigger::Trigger;
use crate::watermark::Percentile;
use crate::window::{Phase, Touching, WindowFn};

fn early_late(early: Option<Trigger>, late: Option<Trigger>) -> Trigger {
    Trigger::AfterWatermark { early: early.map(Box::new), late: late.map(Box::new) }
}

fn fixed(size: i64) -> WindowFn {
    WindowFn::Fixed { size: Span::from_millis(size), offset: 0, phase: Phase::Aligned }
}

fn sessions(gap: i64) -> WindowFn {
    WindowFn::Session {
        gap: Span::from_millis(gap),
        max_duration: None,
        touching: Touching::Separate,
    }
}

fn run(window: WindowFn, trigger: Trigger, mode: AccumulationMode, lateness: i64) -> Run {
    let mut sums = grouping("s", &["a"], mode);
    sums.window = window;
    sums.trigger = trigger;
    sums.allow_closing = true;
    sums.allowed_lateness = Span::from_millis(lateness);
    Run::new(vec![sums])
}

/// Records of key 1, whose value is given.
fn at(records: &[(i64, i64)]) -> Vec<(i64, [u32; 3], i64)> {
    records.iter().map(|(time, value)| (*time, [1, 0, 0], *value)).collect()
}

#[test]
fn early_panes_come_once_a_batch_and_the_on_time_pane_carries_the_rest() {
    let trigger = early_late(Some(Trigger::AfterCount(2)), None);
    let mut run = run(fixed(10), trigger, AccumulationMode::Discarding, 0);
    assert_eq!(run.records(&at(&[(1, 1), (2, 2), (3, 4)])), ["s 1 [0,10)#0 early +7"]);
    assert_eq!(run.records(&at(&[(4, 8)])), Vec::<String>::new());
    run.restart();
    assert_eq!(run.watermark(10), ["s 1 [0,10)#1 on +8 last"]);
    assert!(run.shard.is_empty());
}

#[test]
fn what_a_trigger_left_is_emitted_at_expiry() {
    let trigger = Trigger::Repeat(Box::new(Trigger::AfterCount(2)));
    let mut run = run(fixed(10), trigger, AccumulationMode::Discarding, 5);
    assert_eq!(run.records(&at(&[(1, 1), (2, 2)])), ["s 1 [0,10)#0 early +3"]);
    assert_eq!(run.records(&at(&[(3, 4)])), Vec::<String>::new());
    assert_eq!(run.watermark(14), Vec::<String>::new());
    // The hold kept the output watermark before the end: the pane is on time downstream.
    assert_eq!(run.watermark(15), ["s 1 [0,10)#1 on +4 last"]);
    assert!(run.shard.is_empty());
}

#[test]
fn a_finished_trigger_closes_its_window_and_later_records_are_counted() {
    let mut run = run(fixed(10), Trigger::AfterCount(2), AccumulationMode::Accumulating, 5);
    assert_eq!(run.records(&at(&[(1, 1), (2, 2)])), ["s 1 [0,10)#0 early +3 last"]);
    assert_eq!(run.records(&at(&[(3, 4)])), Vec::<String>::new());
    assert_eq!(run.shard.accounts()[0].closed, 1);
    assert_eq!(run.watermark(15), Vec::<String>::new());
    assert!(run.shard.is_empty());
}

#[test]
fn merged_sessions_retract_what_their_parts_sent() {
    let trigger = Trigger::Repeat(Box::new(early_late(None, None)));
    let mut run = run(sessions(10), trigger, AccumulationMode::Retracting, 100);
    run.records(&at(&[(1, 3), (25, 7)]));
    assert_eq!(run.watermark(40), ["s 1 [1,11)#0 on +3", "s 1 [25,35)#0 on +7"]);
    run.restart();
    assert_eq!(
        run.records(&at(&[(9, 1), (17, 2)])),
        ["s 1 [1,11)#0 on -3", "s 1 [25,35)#0 on -7", "s 1 [1,35)#0 late +13"]
    );
    // The bounds stay: the window goes on.
    assert_eq!(run.records(&at(&[(12, 5)])), ["s 1 [1,35)#0 late -13", "s 1 [1,35)#1 late +18"]);
    assert_eq!(run.watermark(i64::MAX), Vec::<String>::new());
    assert!(run.shard.is_empty());
}

#[test]
fn touching_sessions_merge_only_if_told_so_and_are_then_complete_one_instant_later() {
    let default = || Trigger::Repeat(Box::new(early_late(None, None)));
    let mut apart = run(sessions(10), default(), AccumulationMode::Accumulating, 0);
    apart.records(&at(&[(0, 1), (10, 2)]));
    assert_eq!(apart.watermark(20), ["s 1 [0,10)#0 on +1 last", "s 1 [10,20)#0 on +2 last"]);
    let merging = WindowFn::Session {
        gap: Span::from_millis(10),
        max_duration: None,
        touching: Touching::Merge,
    };
    let mut joined = run(merging, default(), AccumulationMode::Accumulating, 0);
    joined.records(&at(&[(0, 1), (10, 2)]));
    assert_eq!(joined.watermark(20), Vec::<String>::new());
    assert_eq!(joined.watermark(21), ["s 1 [0,20)#0 on +3 last"]);
}

#[test]
fn sessions_are_cut_at_blocks_however_records_come() {
    let cut = WindowFn::Session {
        gap: Span::from_millis(10),
        max_duration: Some(Span::from_millis(20)),
        touching: Touching::Merge,
    };
    for order in [[3, 12, 19, 24], [24, 19, 3, 12], [12, 24, 3, 19]] {
        let mut run = run(cut, Trigger::default_trigger(), AccumulationMode::Accumulating, 0);
        for time in order {
            run.records(&at(&[(time, time)]));
        }
        let expected = ["s 1 [3,20)#0 on +34 last", "s 1 [24,34)#0 on +24 last"];
        assert_eq!(run.watermark(100), expected, "{order:?}");
    }
}

#[test]
fn records_bring_gaps_of_their_own_and_bad_ones_take_the_default() {
    let mut sums = grouping("s", &["a"], AccumulationMode::Accumulating);
    sums.window = sessions(10);
    sums.gap_field = Some("c".into());
    let mut run = Run::new(vec![sums]);
    // The first record waits for the second for 30 ms; a gap of zero is none.
    run.records(&[(0, [1, 0, 30], 1), (29, [1, 0, 5], 2), (40, [1, 0, 0], 4)]);
    assert_eq!(run.watermark(34), ["s 1 [0,34)#0 on +3"]);
    assert_eq!(run.watermark(49), Vec::<String>::new());
    assert_eq!(run.watermark(50), ["s 1 [40,50)#0 on +4"]);
}

#[test]
fn sliding_windows_hold_a_record_in_each_and_gaps_in_none() {
    let sliding = |size, period| WindowFn::Sliding {
        size: Span::from_millis(size),
        period: Span::from_millis(period),
        offset: 0,
    };
    let default = Trigger::default_trigger;
    let mut overlapping = run(sliding(10, 5), default(), AccumulationMode::Accumulating, 0);
    overlapping.records(&at(&[(-1, 1), (6, 2)]));
    assert_eq!(
        overlapping.watermark(100),
        [
            "s 1 [-10,0)#0 on +1 last",
            "s 1 [-5,5)#0 on +1 last",
            "s 1 [0,10)#0 on +2 last",
            "s 1 [5,15)#0 on +2 last"
        ]
    );
    let mut gaps = run(sliding(5, 10), default(), AccumulationMode::Accumulating, 0);
    gaps.records(&at(&[(4, 1), (5, 2)]));
    assert_eq!(gaps.watermark(100), ["s 1 [0,5)#0 on +1 last"]);
    assert_eq!(gaps.shard.accounts()[0].no_window, 1);
}

#[test]
fn clock_triggers_fire_after_a_delay_and_on_the_beat() {
    let delay = Trigger::Repeat(Box::new(Trigger::AfterProcessingTime(Span::from_millis(5))));
    let mut delayed = run(fixed(10), delay, AccumulationMode::Accumulating, 0);
    delayed.tick(100);
    delayed.records(&at(&[(1, 1)]));
    delayed.tick(103);
    delayed.records(&at(&[(1, 2)]));
    assert_eq!(delayed.tick(104), Vec::<String>::new());
    assert_eq!(delayed.tick(105), ["s 1 [0,10)#0 early +3"]);
    assert_eq!(delayed.tick(200), Vec::<String>::new());
    assert_eq!(delayed.watermark(10), Vec::<String>::new());

    let beat = Trigger::Repeat(Box::new(Trigger::Every(Span::from_millis(10))));
    let mut beaten = run(fixed(10), beat, AccumulationMode::Discarding, 0);
    beaten.tick(103);
    beaten.records(&at(&[(1, 1)]));
    assert_eq!(beaten.tick(109), Vec::<String>::new());
    assert_eq!(beaten.tick(110), ["s 1 [0,10)#0 early +1"]);
}

#[test]
fn the_conformance_list_of_composed_triggers() {
    // ReduceFnRunnerTest.testProcessingTime: see the reference, C.8.
    let early = Trigger::OrFinally(
        Box::new(Trigger::Repeat(Box::new(Trigger::AfterProcessingTime(Span::from_millis(5))))),
        Box::new(early_late(None, None)),
    );
    let late = Trigger::Repeat(Box::new(Trigger::AfterProcessingTime(Span::from_millis(25))));
    let trigger = || Trigger::Sequence(vec![early.clone(), late.clone()]);
    let emission = |on_time_always, closing_always| Emission {
        on_time_always,
        closing_always,
        timestamp: TimestampCombiner::Earliest,
    };
    let make = |emission: Emission| -> Run {
        let mut sums: Grouping = grouping("s", &["a"], AccumulationMode::Accumulating);
        sums.trigger = trigger();
        sums.emission = emission;
        Run::new(vec![sums])
    };
    let ones = |times: &[i64]| at(&times.iter().map(|time| (*time, 1)).collect::<Vec<_>>());
    let mut run = make(emission(true, false));
    run.tick(0);
    run.watermark(0);
    assert_eq!(run.records(&ones(&[1, 3, 7, 5])), Vec::<String>::new());
    assert_eq!(run.tick(6), ["s 1 [0,10)#0 early +4"]);
    run.records(&ones(&[8, 4]));
    assert_eq!(run.watermark(11), ["s 1 [0,10)#1 on +6"]);
    run.records(&ones(&[8, 4, 5]));
    run.watermark(12);
    run.records(&ones(&[3]));
    run.tick(15);
    run.records(&ones(&[5]));
    assert_eq!(run.tick(32), ["s 1 [0,10)#2 late +11"]);
    run.records(&ones(&[3]));
    assert_eq!(run.watermark(125), ["s 1 [0,10)#3 late +12 last"]);
    assert!(run.shard.is_empty());

    // testEmptyOnTimeFromOrFinally, and with only the closing pane always emitted.
    for (emission, on_time, closing) in [
        (emission(true, false), vec!["s 1 [0,10)#1 on +4"], vec![]),
        (emission(false, true), vec![], vec!["s 1 [0,10)#1 late +4 last"]),
    ] {
        let mut run = make(emission);
        run.tick(0);
        run.records(&ones(&[1, 3, 7, 5]));
        assert_eq!(run.tick(6), ["s 1 [0,10)#0 early +4"]);
        assert_eq!(run.watermark(11), on_time);
        assert_eq!(run.watermark(110), closing);
    }
}

#[test]
fn all_any_and_or_finally_fire_as_their_parts_allow() {
    let end = || early_late(None, None);
    let late = at(&[(1, 10)]);
    for (trigger, on_time, later) in [
        (
            Trigger::Any(vec![Trigger::AfterCount(5), end()]),
            vec!["s 1 [0,100)#0 on +3 last"],
            vec![],
        ),
        (
            Trigger::All(vec![Trigger::AfterCount(3), end()]),
            vec![],
            vec!["s 1 [0,100)#0 late +13 last"],
        ),
        (
            Trigger::Repeat(Box::new(Trigger::Any(vec![Trigger::AfterCount(3), end()]))),
            vec!["s 1 [0,100)#0 on +3"],
            vec!["s 1 [0,100)#1 late +13"],
        ),
    ] {
        let text = trigger.to_string();
        let mut run = run(fixed(100), trigger, AccumulationMode::Accumulating, 100);
        assert_eq!(run.records(&at(&[(1, 1), (2, 2)])), Vec::<String>::new());
        assert_eq!(run.watermark(100), on_time, "{text}");
        assert_eq!(run.records(&late), later, "{text}");
    }
}

#[test]
fn the_short_and_the_general_form_emit_the_same_panes() {
    // A sequence of the default with itself is the default, but not plain.
    let general = Trigger::Sequence(vec![Trigger::default_trigger()]);
    for mode in
        [AccumulationMode::Discarding, AccumulationMode::Accumulating, AccumulationMode::Retracting]
    {
        let mut short = run(fixed(10), Trigger::default_trigger(), mode, 20);
        let mut long = run(fixed(10), general.clone(), mode, 20);
        assert!(short.plan.stages[0].is_plain() && !long.plan.stages[0].is_plain());
        let mut seed = 7_u64;
        let mut next = move |bound: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        let mut watermark = 0;
        for _ in 0..300 {
            let count = next(4) + 1;
            let batch: Vec<_> = (0..count)
                .map(|_| {
                    let time = watermark + next(40) as i64 - 30;
                    (time, [next(3) as u32, 0, 0], next(5) as i64 - 2)
                })
                .collect();
            let (mut a, mut b) = (short.records(&batch), long.records(&batch));
            a.sort();
            b.sort();
            assert_eq!(a, b);
            watermark += next(12) as i64;
            let (mut a, mut b) = (short.watermark(watermark), long.watermark(watermark));
            a.sort();
            b.sort();
            assert_eq!(a, b);
        }
        let (a, b) = (short.shard.accounts(), long.shard.accounts());
        assert_eq!(a, b);
        short.watermark(i64::MAX);
        long.watermark(i64::MAX);
        assert!(short.shard.is_empty() && long.shard.is_empty());
    }
}

#[test]
fn a_cascade_with_early_panes_fires_each_level_with_the_one_below() {
    let trigger = || early_late(Some(Trigger::AfterCount(2)), Some(Trigger::AfterCount(1)));
    let level = |name: &str, key: &[&str]| {
        let mut level = grouping(name, key, AccumulationMode::Accumulating);
        level.trigger = trigger();
        level
    };
    let mut list = level("list", &["a", "b"]);
    list.top_k = Some(crate::plan::TopKSpec {
        k: 1,
        entity: vec!["b".into()],
        rank: vec!["sum".into()],
        require: Vec::new(),
        other: true,
        ties: crate::plan::Ties::Ascending,
    });
    let mut run = Run::new(vec![level("top", &["a"]), list]);
    assert_eq!(run.plan.record_reads(), 1);
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let early = run.records(&[(1, [1, 7, 0], 3), (2, [1, 7, 0], 4), (3, [1, 8, 0], 5)]);
    assert_eq!(
        sorted(early),
        ["list 1,7 [0,10)#0 early +7", "top 1 [0,10)#0 early +7"],
        "one record of 8 waits for its second"
    );
    assert_eq!(
        sorted(run.watermark(10)),
        ["list 1,- [0,10)#1 on +5", "top 1 [0,10)#1 on +12"],
        "once a round at every level"
    );
    assert_eq!(
        sorted(run.records(&[(4, [1, 8, 0], 6)])),
        [
            "list 1,- [0,10)#2 late +7",
            "list 1,7 [0,10)#0 early -7",
            "list 1,8 [0,10)#2 late +11",
            "top 1 [0,10)#2 late +18"
        ]
    );
    run.watermark(i64::MAX);
    assert!(run.shard.is_empty());
}

#[test]
fn a_trigger_waits_for_each_of_its_instants() {
    let delay = |millis| Trigger::AfterProcessingTime(Span::from_millis(millis));
    let both = Trigger::Repeat(Box::new(Trigger::All(vec![delay(5), delay(10)])));
    let mut run = run(fixed(10), both, AccumulationMode::Discarding, 0);
    run.tick(100);
    run.records(&at(&[(1, 1)]));
    assert_eq!(run.tick(105), Vec::<String>::new());
    run.restart();
    assert_eq!(run.tick(109), Vec::<String>::new());
    assert_eq!(run.tick(110), ["s 1 [0,10)#0 early +1"]);
}

#[test]
fn a_session_that_grows_beyond_the_watermark_returns_to_its_early_phase() {
    // Early until the end, then for each second record; by two forms.
    let until_end = Trigger::RepeatUntil(
        Box::new(Trigger::AfterCount(3)),
        Box::new(Trigger::AfterWatermark { early: None, late: None }),
    );
    let late = || Trigger::AfterCount(2);
    for trigger in [
        early_late(Some(Trigger::AfterCount(3)), Some(late())),
        Trigger::Sequence(vec![until_end, Trigger::Repeat(Box::new(late()))]),
    ] {
        let text = trigger.to_string();
        let mut run = run(sessions(10), trigger, AccumulationMode::Accumulating, 100);
        run.records(&at(&[(1, 1)]));
        assert_eq!(run.watermark(12), ["s 1 [1,11)#0 on +1"], "{text}");
        // Late for its own session and for the one it joins; the second makes a pane.
        assert_eq!(run.records(&at(&[(1, 2)])), Vec::<String>::new(), "{text}");
        assert_eq!(run.records(&at(&[(0, 4)])), ["s 1 [0,11)#0 late +7"], "{text}");
        // The end is ahead again: three records since the last pane are needed, or the watermark.
        assert_eq!(run.records(&at(&[(10, 8)])), Vec::<String>::new(), "{text}");
        assert_eq!(run.records(&at(&[(10, 16)])), Vec::<String>::new(), "{text}");
        run.restart();
        assert_eq!(run.records(&at(&[(11, 32)])), ["s 1 [0,21)#0 early +63"], "{text}");
        run.records(&at(&[(11, 64)]));
        assert_eq!(run.watermark(21), ["s 1 [0,21)#1 on +127"], "{text}");
        run.watermark(i64::MAX);
        assert!(run.shard.is_empty());
    }
}

#[test]
fn no_other_key_changes_the_timing_of_a_pane() {
    let trigger = Trigger::Repeat(Box::new(Trigger::AfterCount(2)));
    let with = |others: &[(i64, [u32; 3], i64)]| {
        let mut run = run(fixed(10), trigger.clone(), AccumulationMode::Discarding, 100);
        run.records(others);
        run.watermark(20);
        let mut panes = run.records(&at(&[(1, 1), (2, 2)]));
        panes.extend(run.watermark(110));
        panes.retain(|pane| pane.starts_with("s 1 "));
        panes
    };
    assert_eq!(with(&[]), ["s 1 [0,10)#0 late +3"]);
    // The record of the other key waits for a second one, and holds the output watermark of the stage.
    assert_eq!(with(&[(1, [2, 0, 0], 5)]), ["s 1 [0,10)#0 late +3"]);
}

fn deadlines(run: &Run) -> usize {
    match &run.shard.machines[0] {
        Machine::Machines(table, _) => table.deadlines(),
        Machine::Keys(..) | Machine::Sliding(..) | Machine::TopK(..) | Machine::Sequence(_) => {
            panic!("sessions merge")
        }
    }
}

#[test]
fn a_session_that_is_prolonged_again_and_again_has_one_deadline_of_each_kind() {
    let half = Percentile::from_percent(50.0).unwrap();
    let wait = Span::from_millis(60_000);
    let trigger = Trigger::Repeat(Box::new(Trigger::Any(vec![
        Trigger::AfterWatermarkPercentile(half),
        Trigger::AfterProcessingTime(wait),
        Trigger::AfterCount(3),
    ])));
    let mut run = run(sessions(10), trigger, AccumulationMode::Discarding, 0);
    for time in 0..999 {
        run.tick(time);
        let fires = if time % 3 == 2 { 1 } else { 0 };
        assert_eq!(run.records(&at(&[(time, 1)])).len(), fires, "{time}");
        assert!(deadlines(&run) <= 3, "{time}");
    }
    run.records(&at(&[(999, 1)]));
    // Its end was at 10 when it registered, and the clock was at 0.
    assert_eq!(run.share(1_008), Vec::<String>::new());
    assert_eq!(run.tick(60_000), Vec::<String>::new());
    assert_eq!(deadlines(&run), 3);
    assert_eq!(run.share(1_009), ["s 1 [0,1009)#0 early +1"]);
    run.records(&at(&[(1_000, 2)]));
    assert_eq!(run.tick(119_999), Vec::<String>::new());
    assert_eq!(run.tick(120_000), ["s 1 [0,1010)#0 early +2"]);
    assert_eq!(
        run.watermark(1_010),
        Vec::<String>::new(),
        "nobody asked for it, and nothing is new"
    );
    assert_eq!(deadlines(&run), 0);
    assert!(run.shard.is_empty());
}

#[test]
fn a_session_that_is_prolonged_again_and_again_has_one_deadline() {
    let trigger = Trigger::default_trigger();
    let mut run = run(sessions(10), trigger, AccumulationMode::Discarding, 0);
    for time in 0..1_000 {
        run.records(&at(&[(time, 1)]));
        assert!(deadlines(&run) <= 1, "{time}");
    }
    assert_eq!(run.watermark(1_008), Vec::<String>::new());
    assert_eq!(deadlines(&run), 1);
    assert_eq!(run.watermark(1_009), ["s 1 [0,1009)#0 on +1000 last"]);
    assert_eq!(deadlines(&run), 0);
    assert!(run.shard.is_empty());
}

#[test]
fn no_timer_of_the_clock_outlives_its_windows() {
    let every = Trigger::Repeat(Box::new(Trigger::Every(Span::from_millis(1_000))));
    let mut run = run(fixed(10), every, AccumulationMode::Discarding, 0);
    run.tick(5);
    run.records(&at(&[(1, 1)]));
    assert_eq!(run.watermark(10), ["s 1 [0,10)#0 on +1 last"]);
    assert!(run.shard.is_empty());
}
