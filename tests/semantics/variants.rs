//! Variants of the figures from the animations that go with the paper, and the worked examples of
//! its section 2 (reference A.3.2, A.3.3).

use crate::drawing::{AXIS, Arrival, Curve, Show, Shown, arrivals, millis, paper};
use crate::kit::{Run, after_watermark, check, fixed, repeat, sessions, sliding, span, sums};
use nilometer_model::pane::AccumulationMode;
use nilometer_model::plan::{Grouping, KeyColumn};
use nilometer_model::time::{EventTime, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Type, Value};
use nilometer_model::window::{Touching, WindowFn};

use AccumulationMode::{Accumulating, Discarding, Retracting};

const MINUTE: i64 = 60_000;

/// Panes as `value [start,end) timing`, in minutes; the instants as they came, on the axis.
fn said(shown: &Shown) -> Vec<String> {
    let panes = shown.panes.iter().map(|(_, pane)| {
        let minutes = |time: EventTime| match time {
            EventTime::MIN | EventTime::MAX => time.to_string(),
            time => (time.as_millis() / MINUTE).to_string(),
        };
        let (start, end) = (minutes(pane.window.start()), minutes(pane.window.end()));
        format!("{} [{start},{end}) {}", pane.value, pane.timing.name())
    });
    panes.collect()
}

fn instants(shown: &Shown) -> Vec<i64> {
    shown.panes.iter().map(|(at, _)| *at).collect()
}

fn at_period(minutes: i64) -> Trigger {
    repeat(Trigger::Every(span(minutes * MINUTE)))
}

/// Each minute until the watermark passes the end, then with every late record.
fn early_on_time_late() -> Trigger {
    let each_minute = Trigger::Every(span(MINUTE));
    after_watermark(Some(each_minute), Some(Trigger::AfterCount(1)))
}

fn stage(trigger: Trigger, mode: AccumulationMode, lateness: i64) -> Grouping {
    Grouping { allowed_lateness: span(lateness), ..sums(fixed(2 * MINUTE), trigger, mode) }
}

fn show(arrivals: &[Arrival], curve: Option<&Curve>, grouping: Grouping) -> Shown {
    Show { arrivals, curve, clock: AXIS, until: millis(5.0) }.to(grouping)
}

/// A watermark that knows of the late value 9, and passes the ends of windows as in the animation.
fn perfect() -> Curve {
    let passes = [(0.0, 0.0), (1.444, 3.333), (2.0, 3.73), (4.0, 3.93), (6.0, 4.25), (8.0, 4.37)];
    Curve::lines(&passes)
}

#[test]
fn a_perfect_watermark_makes_nothing_late() {
    let (arrivals, curve) = (arrivals(&paper()), perfect());
    let shown = show(&arrivals, Some(&curve), stage(Trigger::default_trigger(), Accumulating, 0));
    let expected = ["14 [0,2) on_time", "22 [2,4) on_time", "3 [4,6) on_time", "12 [6,8) on_time"];
    assert_eq!(said(&shown), expected);
    assert_eq!(instants(&shown), [3.73, 3.93, 4.25, 4.37].map(millis));
}

#[test]
fn every_two_minutes_on_the_clock() {
    let arrivals = arrivals(&paper());
    // The animations draw boundaries at 2 and 4 on the axis, and at 1, 3 and 5: the clock of the
    // first is a minute behind.
    for (mode, clock, panes, at) in [
        (Accumulating, AXIS - MINUTE, vec![22, 51], vec![2, 4]),
        (Discarding, AXIS, vec![12, 21, 18], vec![1, 3, 5]),
    ] {
        let show = Show { arrivals: &arrivals, curve: None, clock, until: millis(5.0) };
        let shown = show.to(sums(WindowFn::Global, at_period(2), mode));
        let values: Vec<_> = shown.panes.iter().map(|(_, pane)| pane.value).collect();
        assert_eq!(values, panes);
        let at: Vec<_> = at.into_iter().map(|minutes| minutes * MINUTE).collect();
        assert_eq!(instants(&shown), at);
    }
}

#[test]
fn early_on_time_and_late_in_the_three_modes() {
    let paper = paper();
    let (arrivals, curve) = (arrivals(&paper), Curve::actual(&paper));
    let patience = 1_000 * MINUTE;
    for (mode, expected) in [
        (
            Accumulating,
            vec![
                "5 [0,2) on_time",
                "7 [2,4) early",
                "14 [2,4) early",
                "3 [4,6) early",
                "22 [2,4) on_time",
                "3 [6,8) early",
                "14 [0,2) late",
                "12 [6,8) early",
            ],
        ),
        (
            Discarding,
            vec![
                "5 [0,2) on_time",
                "7 [2,4) early",
                "7 [2,4) early",
                "3 [4,6) early",
                "8 [2,4) on_time",
                "3 [6,8) early",
                "9 [0,2) late",
                "9 [6,8) early",
            ],
        ),
        (
            Retracting,
            vec![
                "5 [0,2) on_time",
                "7 [2,4) early",
                "-7 [2,4) early",
                "14 [2,4) early",
                "3 [4,6) early",
                "-14 [2,4) early",
                "22 [2,4) on_time",
                "3 [6,8) early",
                "-5 [0,2) on_time",
                "14 [0,2) late",
                "-3 [6,8) early",
                "12 [6,8) early",
            ],
        ),
    ] {
        let shown = show(&arrivals, Some(&curve), stage(early_on_time_late(), mode, patience));
        assert_eq!(said(&shown), expected, "{mode:?}");
    }
}

#[test]
fn state_goes_with_the_allowed_lateness() {
    let paper = paper();
    let curve = Curve::actual(&paper);
    let mut arrivals = arrivals(&paper);
    arrivals.push(Arrival { at: millis(1.666), time: millis(0.888), value: 6 });
    let shown = show(&arrivals, Some(&curve), stage(early_on_time_late(), Accumulating, MINUTE));
    let first: Vec<_> = said(&shown).into_iter().filter(|line| line.contains("[0,2)")).collect();
    assert_eq!(first, ["5 [0,2) on_time", "11 [0,2) late"]);
    assert_eq!(shown.panes[2].0, millis(1.666));
    assert_eq!(shown.expired, 1, "the 9");
    // The animation draws the first two at 2.45 and 2.6, and the others where its own watermark
    // passes them; the drawn one of the paper passes 7 just behind 3, and ends at 8.
    for (start, passed) in [(0, 3.0), (2, 5.0), (4, 7.0)] {
        let bound = |minutes: i64| EventTime::from_millis(minutes * MINUTE);
        let gone = shown.gone[&Window::new(bound(start), bound(start + 2))];
        let ahead = |at: i64| curve.at(at).unwrap() < millis(passed);
        assert!(!ahead(gone) && ahead(gone - 60), "[{start},..) at {gone}");
    }
    let gone = |start: i64| {
        let bound = |minutes: i64| EventTime::from_millis(minutes * MINUTE);
        shown.gone[&Window::new(bound(start), bound(start + 2))]
    };
    assert!((gone(0) - millis(2.45)).abs() < 2_000 && (gone(2) - millis(2.6)).abs() < 2_000);

    // Without patience there is neither an 11 nor a 14.
    let shown = show(&arrivals, Some(&curve), stage(early_on_time_late(), Accumulating, 0));
    let first: Vec<_> = said(&shown).into_iter().filter(|line| line.contains("[0,2)")).collect();
    assert_eq!(first, ["5 [0,2) on_time"]);
    assert_eq!(shown.expired, 2);
}

#[test]
fn arrival_as_event_time_gives_windows_of_the_clock() {
    let arrivals = arrivals(&paper()).into_iter();
    let arrivals: Vec<_> =
        arrivals.map(|arrival| Arrival { time: AXIS + arrival.at, ..arrival }).collect();
    // The watermark is the clock: a window of [12:04,12:06) is complete at 12:06.
    let curve = Curve::lines(&[(5.0, 0.0), (10.0, 5.0)]);
    let shown = show(&arrivals, Some(&curve), stage(Trigger::default_trigger(), Accumulating, 0));
    assert_eq!(said(&shown), ["12 [4,6) on_time", "21 [6,8) on_time", "18 [8,10) on_time"]);
    assert_eq!(instants(&shown), [1.0, 3.0, 5.0].map(millis));
}

#[test]
fn another_order_of_arrival_changes_partial_results_and_no_window() {
    let other = [
        (7, 2.444, 0.888),
        (3, 3.666, 1.111),
        (9, 1.444, 1.333),
        (8, 3.111, 1.777),
        (3, 6.666, 1.999),
        (5, 0.444, 2.111),
        (8, 7.444, 2.555),
        (4, 3.888, 2.888),
        (1, 7.777, 3.222),
        (3, 4.333, 3.888),
    ];
    let arrivals: Vec<_> = other
        .into_iter()
        .map(|(value, time, at)| Arrival { at: millis(at), time: millis(time), value })
        .collect();
    let shown = show(&arrivals, None, sums(WindowFn::Global, at_period(2), Discarding));
    let values: Vec<_> = shown.panes.iter().map(|(_, pane)| pane.value).collect();
    assert_eq!(values, [7, 40, 4]);
    assert_eq!(instants(&shown), [1.0, 3.0, 5.0].map(millis));
    let shown = show(&arrivals, None, stage(Trigger::default_trigger(), Accumulating, 0));
    let expected = ["14 [0,2) on_time", "22 [2,4) on_time", "3 [4,6) on_time", "12 [6,8) on_time"];
    assert_eq!(said(&shown), expected);
}

#[test]
fn sliding_windows_hold_a_copy_in_each() {
    // Figure 3, in minutes: (v1, 12:00) and (v2, 12:01), windows of two each minute.
    check(
        &sums(sliding(2, 1), Trigger::default_trigger(), Accumulating),
        "
        records 0=1 1=2
        end
          [-1,1) +1 #0 on_time @0 last
          [0,2) +3 #0 on_time @1 last
          [1,3) +2 #0 on_time @2 last
    ",
    );
}

#[test]
fn sessions_of_two_keys() {
    // Figure 4, in minutes after 13:00; values v1 to v4 are bits. The paper gives a result the end
    // of its window as its time; here it is the last instant in it.
    let mut run =
        Run::new(sums(sessions(30, Touching::Merge), Trigger::default_trigger(), Accumulating));
    run.records(&[("k1", 2, 1), ("k2", 14, 2), ("k1", 57, 4), ("k1", 20, 8)]);
    let results: Vec<_> = run.end().iter().map(|pane| format!("{:?} {pane}", pane.key)).collect();
    assert_eq!(
        results,
        [
            "Text(\"k2\") [14,44) +2 #0 on_time @43 last",
            "Text(\"k1\") [2,50) +9 #0 on_time @49 last",
            "Text(\"k1\") [57,87) +4 #0 on_time @86 last",
        ]
    );
}

#[test]
fn one_record_counts_for_each_of_its_keys() {
    // Section 2.1: (fix, 1) and (fit, 2), grouped by each of their prefixes; values are bits.
    let mut grouping = sums(WindowFn::Global, Trigger::default_trigger(), Accumulating);
    let prefixes = ["one", "two", "three"];
    let each = prefixes.iter().map(|name| (*name).into()).collect();
    grouping.key = vec![KeyColumn { name: "prefix".into(), each }];
    let fields = prefixes.map(|name| (name, Type::Text));
    let mut run = Run::with_fields(grouping, &fields);
    let row = |word: &str, value: i128| {
        let texts = (1..=3).map(|length| Value::Text(word[..length].into()));
        let mut row: Vec<_> = prefixes.into_iter().zip(texts).collect();
        row.push(("v", Value::Int(value)));
        (0, row)
    };
    run.rows(&[row("fix", 1), row("fit", 2)]);
    let mut results: Vec<_> =
        run.end().iter().map(|pane| format!("{:?} {}", pane.key, pane.value)).collect();
    results.sort();
    assert_eq!(results, ["Text(\"f\") 3", "Text(\"fi\") 3", "Text(\"fit\") 2", "Text(\"fix\") 1"]);
}
