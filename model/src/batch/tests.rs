//! The oracle against results worked out by hand.

use super::*;
use crate::aggregate::Function;
use crate::custom::{Custom, CustomWindow};
use crate::pane::AccumulationMode;
use crate::plan::{AggregateSpec, Grouping, KeyColumn, Spread, Ties, TopKSpec};
use crate::row::Field;
use crate::time::Span;
use crate::trigger::Trigger;
use crate::value::Type;
use crate::window::{Phase, Touching, WindowFn};

fn spec(name: &str, function: Function, field: &str, spread: bool) -> AggregateSpec {
    let fields = if field.is_empty() { Vec::new() } else { vec![field.into()] };
    AggregateSpec { name: name.into(), function, fields, spread }
}

fn grouping(name: &str, key: &[&str], aggregates: Vec<AggregateSpec>) -> Grouping {
    Grouping {
        name: name.into(),
        key: key.iter().map(|name| KeyColumn::plain(name)).collect(),
        window: WindowFn::Fixed { size: Span::from_millis(10), offset: 0, phase: Phase::Aligned },
        trigger: Trigger::default_trigger(),
        emission: crate::pane::Emission::default(),
        gap_field: None,
        allow_closing: false,
        mode: AccumulationMode::Accumulating,
        allowed_lateness: Span::from_millis(5),
        aggregates,
        top_k: None,
        sinks: vec!["out".into()],
        late: None,
        of: None,
        sequence: None,
    }
}

/// Fields: `p` and `k` (texts), `n` (a number), `first` and `last` (instants).
fn job(groupings: Vec<Grouping>) -> Job {
    let field = |name, ty| Field::new(name, ty);
    Job {
        name: "test".into(),
        fields: vec![
            field("p", Type::Text),
            field("k", Type::Text),
            field("n", Type::I64),
            field("first", Type::I64),
            field("last", Type::I64),
        ],
        groupings,
        shard_by: None,
        key_groups: 8,
        extra_fields: Vec::new(),
        spread: None,
        phase: None,
        cascade: true,
    }
}

fn record(time: i64, p: &str, k: &str, n: i128) -> Arrival {
    covering((time, time), p, k, n)
}

fn covering((first, last): (i64, i64), p: &str, k: &str, n: i128) -> Arrival {
    let text = |text: &str| if text.is_empty() { Value::Null } else { Value::Text(text.into()) };
    Arrival::Record(Record {
        time: EventTime::from_millis(last),
        values: vec![
            text(p),
            text(k),
            Value::Int(n),
            Value::Int(first.into()),
            Value::Int(last.into()),
        ],
    })
}

fn mark(time: i64) -> Arrival {
    Arrival::Watermark(Watermark(EventTime::from_millis(time)))
}

/// Results as `name key [start,end): values`, `other` entries with a `+` before the key.
fn lines(places: &BTreeMap<Place, Vec<Value>>) -> Vec<String> {
    let json = |values: &[Value]| {
        let mut out = String::new();
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                out.push(' ');
            }
            value.write_json(&mut out);
        }
        out.replace('"', "")
    };
    let line = |(place, values): (&Place, &Vec<Value>)| {
        let other = if place.is_other { "+" } else { "" };
        let key = json(&place.key.0);
        format!("{} {other}{key} {}: {}", place.grouping, place.window, json(values))
    };
    places.iter().map(line).collect()
}

fn run(job: &Job, arrivals: &[Arrival]) -> Evaluation {
    let readers: Vec<_> = (0..job.groupings.len()).collect();
    evaluate(job, &readers, arrivals).unwrap()
}

#[test]
fn every_function_by_its_definition() {
    let names = ["count", "sum", "min", "max", "mean", "first", "last"];
    let aggregates = Function::FIXED.iter().zip(names).map(|(function, name)| {
        let field = if *function == Function::Count { "" } else { "n" };
        spec(name, *function, field, false)
    });
    let job = job(vec![grouping("all", &["k"], aggregates.collect())]);
    let arrivals = [
        record(3, "", "a", 5),
        record(1, "", "a", -7),
        record(3, "", "a", 9),
        record(-1, "", "a", 1),
        record(2, "", "", 2),
    ];
    assert_eq!(
        lines(&run(&job, &arrivals).totals),
        [
            "all null [0,10): 1 2 2 2 2.0 2 2",
            "all a [-10,0): 1 1 1 1 1.0 1 1",
            "all a [0,10): 3 7 -7 9 2.3333333333333335 -7 9",
        ]
    );
}

#[test]
fn copies_are_dropped_by_the_window_of_their_reader() {
    let sum = || vec![spec("n", Function::Sum, "n", false)];
    let fine = grouping("fine", &["p", "k"], sum());
    let coarse = Grouping {
        window: WindowFn::Fixed { size: Span::from_millis(20), offset: 0, phase: Phase::Aligned },
        ..grouping("coarse", &["p"], sum())
    };
    let job = job(vec![fine, coarse]);
    let arrivals = [
        record(1, "x", "a", 1),
        mark(14),
        record(9, "x", "a", 10),
        mark(15),
        mark(3),
        record(9, "x", "a", 100),
        record(15, "x", "b", 1000),
    ];
    let alone = run(&job, &arrivals);
    let coarse_alone = "coarse x [0,20): 1111";
    let fine = ["fine x a [0,10): 11", "fine x b [10,20): 1000"];
    assert_eq!(lines(&alone.totals), [&[coarse_alone], &fine[..]].concat());
    // Read through the panes of `fine`, what `fine` drops is missing above, too.
    let cascaded = evaluate(&job, &[0, 0], &arrivals).unwrap();
    assert_eq!(lines(&cascaded.totals), [&["coarse x [0,20): 1011"], &fine[..]].concat());
    let expired: Vec<_> = cascaded.expired.iter().collect();
    assert_eq!(expired.len(), 1);
    assert_eq!(
        (&*expired[0].0.grouping, expired[0].0.window.to_string().as_str()),
        ("fine", "[0,10)")
    );
    assert_eq!(*expired[0].1, 1);
}

#[test]
fn a_record_counts_in_every_window_that_holds_it() {
    let sum = vec![spec("n", Function::Sum, "n", false)];
    let millis = Span::from_millis;
    let sliding = |size, period| Grouping {
        window: WindowFn::Sliding { size: millis(size), period: millis(period), offset: 0 },
        ..grouping("g", &["k"], sum.clone())
    };
    let arrivals = [record(1, "", "a", 1), record(7, "", "a", 10)];
    assert_eq!(
        lines(&run(&job(vec![sliding(10, 5)]), &arrivals).totals),
        ["g a [-5,5): 1", "g a [0,10): 11", "g a [5,15): 10"]
    );
    // A period longer than the size leaves gaps.
    assert_eq!(lines(&run(&job(vec![sliding(5, 10)]), &arrivals).totals), ["g a [0,5): 1"]);
    // Late for one of them, in time for the other: judged window by window.
    let arrivals = [mark(10), record(1, "", "a", 1), record(7, "", "a", 10)];
    let evaluation = run(&job(vec![sliding(10, 5)]), &arrivals);
    assert_eq!(lines(&evaluation.totals), ["g a [0,10): 11", "g a [5,15): 10"]);
    assert_eq!(evaluation.expired.values().sum::<u64>(), 1);
}

#[test]
fn intervals_are_split_and_each_part_is_judged_by_its_window() {
    let aggregates = vec![
        spec("n", Function::Sum, "n", true),
        spec("records", Function::Count, "", false),
        spec("max", Function::Max, "n", false),
    ];
    let mut job = job(vec![grouping("g", &["k"], aggregates)]);
    job.spread = Some(Spread { first: "first".into(), last: "last".into(), max_duration: None });
    // 25 ms, 100: floor(100 * 5 / 25) = 20, 40, 40.
    let arrivals = [covering((5, 29), "", "a", 100), mark(15), covering((5, 29), "", "a", 100)];
    let evaluation = run(&job, &arrivals);
    assert_eq!(
        lines(&evaluation.totals),
        ["g a [0,10): 20 0 100", "g a [10,20): 80 0 100", "g a [20,30): 80 2 100"]
    );
    assert_eq!(evaluation.expired.values().sum::<u64>(), 1);
    // What lies more than 12 ms back is cut: the 12 instants from 18 to 29 count.
    if let Some(spread) = &mut job.spread {
        spread.max_duration = Some(Span::from_millis(12));
    }
    let evaluation = run(&job, &arrivals[..1]);
    assert_eq!(lines(&evaluation.totals), ["g a [10,20): 8 0 100", "g a [20,30): 40 1 100"]);
    // An end before the beginning is one instant at the end.
    let evaluation = run(&job, &[covering((35, 29), "", "a", 7)]);
    assert_eq!(lines(&evaluation.totals), ["g a [20,30): 7 1 7"]);
}

#[test]
fn the_largest_are_listed_and_the_rest_is_other() {
    let top_k = TopKSpec {
        k: 2,
        entity: vec!["k".into()],
        rank: vec!["n".into()],
        require: vec!["k".into()],
        other: true,
        ties: Ties::Ascending,
    };
    let aggregates =
        vec![spec("n", Function::Sum, "n", false), spec("max", Function::Max, "n", false)];
    let top = Grouping { top_k: Some(top_k), ..grouping("top", &["p", "k"], aggregates) };
    let arrivals = [
        record(1, "x", "c", 5),
        record(1, "x", "b", 5),
        record(1, "x", "a", 3),
        record(1, "x", "", 90),
        record(1, "y", "a", 1),
        record(2, "x", "d", 4),
        record(2, "x", "d", 2),
    ];
    assert_eq!(
        lines(&run(&job(vec![top]), &arrivals).totals),
        [
            // What may not be listed counts here; a largest value cannot be told.
            "top +x null [0,10): 98 null",
            // `b` before `c`: a tie goes to the smaller key.
            "top x b [0,10): 5 5",
            "top x d [0,10): 6 4",
            "top y a [0,10): 1 1",
        ]
    );
}

#[test]
fn what_cannot_be_evaluated_is_said() {
    let mut job = job(vec![grouping("g", &[], vec![spec("n", Function::Sum, "n", false)])]);
    job.fields[2] = Field::new("n", Type::Big);
    let arrivals = [record(0, "", "", i128::MAX), record(0, "", "", 1)];
    let error = evaluate(&job, &[0], &arrivals).unwrap_err();
    assert_eq!(error, Overflow { aggregate: "n".into() });
}

fn sessions(max_duration: Option<i64>, touching: Touching) -> WindowFn {
    let millis = Span::from_millis;
    WindowFn::Session { gap: millis(10), max_duration: max_duration.map(millis), touching }
}

/// One grouping by `k` with the sum of `n` in these windows, kept for 5 ms.
fn sums(window: WindowFn) -> Job {
    let sum = vec![spec("n", Function::Sum, "n", false)];
    job(vec![Grouping { window, ..grouping("g", &["k"], sum) }])
}

#[test]
fn sessions_are_what_a_sweep_over_their_records_finds() {
    use Touching::{Merge, Separate};
    let arrivals = [
        record(30, "", "a", 1),
        record(0, "", "a", 2),
        record(10, "", "a", 4),
        record(12, "", "b", 8),
        record(17, "", "a", 16),
        record(i64::MIN, "", "a", 32),
        record(i64::MAX, "", "a", 64),
    ];
    let last = "g a [+inf,+inf): 64";
    for (longest, touching, middle) in [
        (None, Merge, &["g a [0,27): 22", "g a [30,40): 1"][..]),
        (None, Separate, &["g a [0,10): 2", "g a [10,27): 20", "g a [30,40): 1"]),
        // Blocks of 15: [0,15), [15,30), [30,45).
        (Some(15), Merge, &["g a [0,15): 6", "g a [17,27): 16", "g a [30,40): 1"]),
    ] {
        let b = if longest.is_some() { "g b [12,15): 8" } else { "g b [12,22): 8" };
        // The block of 15 that begins before the beginning of time has 8 ms left in it.
        let first = i64::MIN + if longest.is_some() { 8 } else { 10 };
        let first = format!("g a [-inf,{first}): 32");
        let expected = [&[first.as_str()], middle, &[last, b]].concat();
        let job = sums(sessions(longest, touching));
        assert_eq!(lines(&run(&job, &arrivals).totals), expected);
    }
}

#[test]
fn a_record_has_a_gap_of_its_own() {
    let mut job = sums(sessions(None, Touching::Separate));
    job.groupings[0].gap_field = Some("first".into());
    // The fields are its first and last instant: the gap is the first of two.
    let gap = |gap: i64, time, n| covering((gap, time), "", "a", n);
    let arrivals = [gap(3, 0, 1), gap(0, 20, 2), gap(-9, 27, 4), gap(25, 5, 8), gap(1, 40, 16)];
    assert_eq!(
        lines(&run(&job, &arrivals).totals),
        ["g a [0,3): 1", "g a [5,37): 14", "g a [40,41): 16"]
    );
}

#[test]
fn a_record_joins_what_is_kept_and_nothing_else() {
    use Touching::{Merge, Separate};
    let (a, b, c) = (record(0, "", "a", 1), record(8, "", "a", 2), record(4, "", "a", 4));
    for (touching, at, totals, expired) in [
        // [0,18) is kept until 18 + 5, and one more where a record at 18 would join.
        (Separate, 22, &["g a [0,18): 7"][..], 0),
        (Separate, 23, &["g a [0,18): 3"], 1),
        (Merge, 23, &["g a [0,18): 7"], 0),
        (Merge, 24, &["g a [0,18): 3"], 1),
    ] {
        let job = sums(sessions(None, touching));
        let arrivals = [a.clone(), b.clone(), mark(at), mark(3), c.clone()];
        let evaluation = run(&job, &arrivals);
        assert_eq!(lines(&evaluation.totals), totals, "{touching:?} {at}");
        assert_eq!(evaluation.expired.values().sum::<u64>(), expired, "{touching:?} {at}");
    }
    // By itself it has expired: it is kept only by what it joins, and it may not join what is gone.
    let job = sums(sessions(None, Touching::Separate));
    let evaluation = run(&job, &[a, mark(20), b, c]);
    assert_eq!(lines(&evaluation.totals), ["g a [0,10): 1", "g a [4,18): 6"]);
}

/// Blocks of ten; those that touch are one window.
#[derive(Debug)]
struct Blocks;

impl CustomWindow for Blocks {
    fn name(&self) -> &str {
        "blocks"
    }

    fn assign(&self, time: EventTime, _: &[Value], windows: &mut Vec<Window>) {
        windows.push(Window::fixed(time, Span::from_millis(10), 0));
    }

    fn is_merging(&self) -> bool {
        true
    }

    fn merge(&self, windows: &mut [Window]) {
        for number in 1..windows.len() {
            let (before, next) = (windows[number - 1], windows[number]);
            if before.end() >= next.start() {
                let both = Window::new(before.start(), next.end().max(before.end()));
                windows.iter_mut().filter(|w| **w == before || **w == next).for_each(|w| *w = both);
            }
        }
    }
}

/// As long as the record's first instant says; of zero, in the past, where they merge with others.
#[derive(Debug)]
struct Collapsing;

impl CustomWindow for Collapsing {
    fn name(&self) -> &str {
        "collapsing"
    }

    fn fields(&self) -> &[&str] {
        &["first"]
    }

    fn assign(&self, time: EventTime, values: &[Value], windows: &mut Vec<Window>) {
        if let [Value::Int(length)] = values {
            let length = Span::from_millis(i64::try_from(*length).unwrap());
            windows.push(Window::new(time, time.saturating_add(length)));
        }
    }

    fn is_merging(&self) -> bool {
        true
    }

    fn merge(&self, windows: &mut [Window]) {
        if windows.iter().any(|window| window.start() == window.end()) {
            windows.fill(Window::new(EventTime::from_millis(0), EventTime::from_millis(1)));
        }
    }
}

#[test]
fn custom_windows_are_what_their_function_says() {
    let arrivals = [
        record(5, "", "a", 1),
        record(25, "", "a", 2),
        record(7, "", "a", 4),
        record(14, "", "a", 8),
        record(41, "", "a", 16),
    ];
    let job = sums(WindowFn::Custom(Custom(&Blocks)));
    assert_eq!(lines(&run(&job, &arrivals).totals), ["g a [0,30): 15", "g a [40,50): 16"]);

    let job = sums(WindowFn::Custom(Custom(&Collapsing)));
    let of = |length: i64, time, n| covering((length, time), "", "a", n);
    let whole = [of(10, 20, 1), of(30, 50, 2), of(0, 60, 4)];
    assert_eq!(lines(&run(&job, &whole).totals), ["g a [0,1): 7"]);
    // At 6 nothing is kept of [0,1).
    let [one, two, three] = whole;
    let evaluation = run(&job, &[one, two, mark(6), three]);
    assert_eq!(lines(&evaluation.totals), ["g a [20,30): 1", "g a [50,80): 2"]);
    assert_eq!(evaluation.refused.values().sum::<u64>(), 1);
    assert!(evaluation.expired.is_empty());
}

#[test]
fn where_windows_follow_from_records_an_interval_counts_where_it_ends() {
    let mut job = sums(sessions(None, Touching::Separate));
    job.groupings[0].aggregates[0].spread = true;
    job.spread = Some(Spread { first: "first".into(), last: "last".into(), max_duration: None });
    let arrivals = [covering((0, 29), "", "a", 100), covering((20, 33), "", "a", 7)];
    assert_eq!(lines(&run(&job, &arrivals).totals), ["g a [29,43): 107"]);
}

#[test]
fn what_a_trigger_keeps_out_is_not_there() {
    let arrivals = [record(1, "", "a", 1), record(2, "", "a", 2), record(30, "", "a", 4)];
    let fixed = WindowFn::Fixed { size: Span::from_millis(10), offset: 0, phase: Phase::Aligned };
    for (window, kept, closed) in [
        (fixed, &["g a [0,10): 1", "g a [30,40): 4"][..], (0, 10)),
        (sessions(None, Touching::Merge), &["g a [1,11): 1", "g a [30,40): 4"], (2, 12)),
    ] {
        let window_of =
            |(start, end)| Window::new(EventTime::from_millis(start), EventTime::from_millis(end));
        let place = Place {
            grouping: "g".into(),
            key: KeyValues(vec![Value::Text("a".into())]),
            window: window_of(closed),
            is_other: false,
        };
        let closed = Closed::from([(1, place)]);
        let evaluation = evaluate_without(&sums(window), &[0], &arrivals, &closed).unwrap();
        assert_eq!(lines(&evaluation.totals), kept);
        assert!(evaluation.expired.is_empty());
    }
}
