//! The figures of the paper: values, windows, order and signs exact, at the instants at which the
//! triggers become ready on the drawn watermark.
//!
//! Figures 12 to 14 are drawn about a second late; the file has the strict instants, to a thousandth
//! of a minute. Sessions merge where they touch. A pane without news is not emitted.

use crate::drawing::{AXIS, Arrival, Curve, STEP, Show, Shown, arrivals, millis, paper};
use crate::kit::{Pane, after_watermark, fixed, job, repeat, sessions, span, sums};
use nilometer_model::batch::{Arrival as Arrived, Record, evaluate};
use nilometer_model::pane::{AccumulationMode, Timing};
use nilometer_model::plan::{Grouping, Job};
use nilometer_model::time::{EventTime, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::Value as Datum;
use nilometer_model::window::{Touching, WindowFn};
use serde_json::Value;

use AccumulationMode::{Accumulating, Discarding, Retracting};

const MINUTE: i64 = 60_000;

fn two_minutes() -> WindowFn {
    fixed(2 * MINUTE)
}

fn at_watermark() -> Trigger {
    after_watermark(None, None)
}

fn at_period(minutes: i64) -> Trigger {
    Trigger::Every(span(minutes * MINUTE))
}

/// The trigger of figures 13 and 14: each minute until the watermark passes the end, then with every
/// late record.
fn partial() -> Trigger {
    let until = Trigger::RepeatUntil(Box::new(at_period(1)), Box::new(at_watermark()));
    Trigger::Sequence(vec![until, repeat(at_watermark())])
}

/// A stage that counts late records for ever.
fn patient(window: WindowFn, trigger: Trigger, mode: AccumulationMode) -> Grouping {
    Grouping { allowed_lateness: span(1_000 * MINUTE), ..sums(window, trigger, mode) }
}

/// Compares panes with those of a figure. `slack` is how much later than drawn they may come, or
/// earlier, in ms: none where the instant is exact.
fn compare(figure: &str, shown: &Shown, slack: impl Fn(&Value) -> (i64, i64)) {
    let paper = paper();
    let expected = paper["figures"][figure]["panes"].as_array().unwrap();
    assert_eq!(shown.panes.len(), expected.len(), "{figure}");
    for ((at, pane), expected) in shown.panes.iter().zip(expected) {
        let window = match &expected["window"] {
            Value::Array(bounds) => {
                let bound =
                    |index: usize| EventTime::from_millis(millis(bounds[index].as_f64().unwrap()));
                Window::new(bound(0), bound(1))
            }
            _ => Window::GLOBAL,
        };
        let is_retraction = expected["retraction"].as_bool().unwrap_or(false);
        let value = expected["value"].as_i64().unwrap();
        let found = (pane.value, pane.window, pane.is_retraction);
        assert_eq!(found, (i128::from(value), window, is_retraction), "{figure}");
        let (instant, slack) = slack(expected);
        assert!((at - instant).abs() <= slack, "{figure}: {pane} at {at}, not {instant}");
    }
}

/// The strict instant of a pane: exact, but for those of the watermark, which the file has rounded
/// to a thousandth of a minute.
fn strict(pane: &Value) -> (i64, i64) {
    match pane["strict_trigger_semantics_emit_min"].as_f64() {
        Some(minutes) => (millis(minutes), STEP),
        None => (millis(pane["emit_proc_min_after_1205"].as_f64().unwrap()), 0),
    }
}

/// The instant at which a pane is drawn, to half a second.
fn drawn(pane: &Value) -> (i64, i64) {
    (millis(pane["emit_proc_min_after_1205"].as_f64().unwrap()), 500)
}

/// Figure 5, with the drawn watermark.
fn stream(grouping: Grouping) -> Shown {
    let paper = paper();
    let (arrivals, curve) = (arrivals(&paper), Curve::actual(&paper));
    Show { arrivals: &arrivals, curve: Some(&curve), clock: AXIS, until: millis(4.5) }.to(grouping)
}

/// Figure 5, with the watermark at the beginning of time.
fn still(grouping: Grouping) -> Shown {
    let arrivals = arrivals(&paper());
    Show { arrivals: &arrivals, curve: None, clock: AXIS, until: millis(4.5) }.to(grouping)
}

/// Figure 5, all there before the watermark passes over it: a batch.
fn batch(grouping: Grouping) -> Shown {
    let curve = Curve::lines(&[(0.0, 4.25), (8.0, 4.375)]);
    let arrivals = arrivals(&paper());
    Show { arrivals: &arrivals, curve: Some(&curve), clock: AXIS, until: millis(4.375) }
        .to(grouping)
}

#[test]
fn figure_6_classic_batch() {
    let mut shown = batch(sums(WindowFn::Global, Trigger::default_trigger(), Accumulating));
    // It comes with the end of the input, drawn right behind the last of the watermark.
    assert_eq!(shown.panes[0].0, i64::MAX);
    shown.panes[0].0 = millis(4.375);
    compare("fig6_classic_batch", &shown, drawn);
}

#[test]
fn figures_7_and_8_global_windows_each_minute() {
    for (figure, mode) in [
        ("fig7_global_atperiod1m_accumulating", Accumulating),
        ("fig8_global_atperiod1m_discarding", Discarding),
    ] {
        let grouping = || sums(WindowFn::Global, repeat(at_period(1)), mode);
        compare(figure, &still(grouping()), strict);
        compare(figure, &stream(grouping()), strict);
    }
}

#[test]
fn figure_9_global_windows_by_count() {
    let shown = still(sums(WindowFn::Global, repeat(Trigger::AfterCount(2)), Discarding));
    compare("fig9_global_atcount2_discarding", &shown, strict);
}

#[test]
fn figure_10_fixed_windows_as_a_batch() {
    let shown = batch(sums(two_minutes(), Trigger::default_trigger(), Accumulating));
    assert_eq!(shown.expired, 0);
    compare("fig10_fixed2m_batch", &shown, drawn);
    // The oracle of the property tests, which shares no state with the engine.
    let grouping = sums(two_minutes(), Trigger::default_trigger(), Accumulating);
    let job = Job { cascade: false, ..job(grouping, &[]) };
    let record = |arrival: &Arrival| {
        let value = Datum::Int(i128::from(arrival.value));
        let (time, values) = (EventTime::from_millis(arrival.time), vec![Datum::Null, value]);
        Arrived::Record(Record { time, values })
    };
    let records: Vec<_> = arrivals(&paper()).iter().map(record).collect();
    let totals = evaluate(&job, &[0], &records).unwrap().totals;
    let totals: Vec<_> = totals.into_values().flatten().collect();
    assert_eq!(totals, [14, 22, 3, 12].map(Datum::Int));
}

#[test]
fn figure_11_fixed_windows_in_batches_of_a_minute() {
    // What a micro-batch is to a stage: all records of a minute in one batch, and each window that
    // they have changed fires once.
    let arrivals = arrivals(&paper()).into_iter().map(|arrival| {
        let minutes = arrival.at.div_euclid(MINUTE) + i64::from(arrival.at % MINUTE != 0);
        Arrival { at: minutes * MINUTE, ..arrival }
    });
    let arrivals: Vec<_> = arrivals.collect();
    let show = Show { arrivals: &arrivals, curve: None, clock: AXIS, until: millis(4.5) };
    let each_batch = repeat(Trigger::AfterCount(1));
    let shown = show.to(sums(two_minutes(), each_batch, Accumulating));
    // Panes of a batch are drawn along its own watermark; they all come with the batch.
    compare("fig11_fixed2m_microbatch1m", &shown, |pane| {
        (pane["emit_proc_min_after_1205"].as_f64().unwrap().floor() as i64 * MINUTE, 0)
    });
}

#[test]
fn figure_12_fixed_windows_at_the_watermark() {
    let shown = stream(patient(two_minutes(), repeat(at_watermark()), Accumulating));
    compare("fig12_fixed2m_streaming_watermark", &shown, strict);
    let timings: Vec<_> = shown.panes.iter().map(|(_, pane)| pane.timing).collect();
    let on_time = Timing::OnTime;
    assert_eq!(timings, [on_time, on_time, on_time, Timing::Late, on_time]);
}

#[test]
fn figure_13_fixed_windows_with_partial_results() {
    let shown = stream(patient(two_minutes(), partial(), Accumulating));
    compare("fig13_fixed2m_streaming_partial_accumulating", &shown, strict);
}

#[test]
fn figure_14_sessions_with_retractions() {
    let window = sessions(MINUTE, Touching::Merge);
    let shown = stream(patient(window, partial(), Retracting));
    compare("fig14_sessions1m_retracting", &shown, strict);
    // What was taken back is what was sent, under its own index.
    for (number, (_, retraction)) in shown.panes.iter().enumerate() {
        if retraction.is_retraction {
            let is_it = |(_, pane): &&(i64, Pane)| {
                pane.window == retraction.window && pane.value == -retraction.value
            };
            let sent = shown.panes[..number].iter().rfind(is_it).unwrap();
            assert_eq!(sent.1.index, retraction.index);
            assert_eq!(sent.1.timing, retraction.timing);
        }
    }
}
