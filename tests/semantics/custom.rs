//! Window functions of the user's own: windows that shrink, that swallow others, that look at fields,
//! and what a merge into the past does.

use crate::kit::{Run, after_watermark, check, span, sums};
use nilometer_model::custom::{Custom, CustomWindow};
use nilometer_model::pane::AccumulationMode;
use nilometer_model::plan::{Grouping, Job};
use nilometer_model::planner::{PlanError, plan};
use nilometer_model::row::Field;
use nilometer_model::time::{EventTime, Span, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Type, Value};
use nilometer_model::window::WindowFn;

use AccumulationMode::{Accumulating, Discarding, Retracting};

fn window(start: i64, end: i64) -> Window {
    Window::new(EventTime::from_millis(start), EventTime::from_millis(end))
}

/// From each record to the next.
#[derive(Debug)]
pub(crate) struct UntilTheNext;

impl CustomWindow for UntilTheNext {
    fn name(&self) -> &str {
        "until_the_next"
    }

    fn assign(&self, time: EventTime, _: &[Value], windows: &mut Vec<Window>) {
        windows.push(Window::new(time, EventTime::MAX));
    }

    fn is_merging(&self) -> bool {
        true
    }

    fn merge(&self, windows: &mut [Window]) {
        for number in 1..windows.len() {
            let next = windows[number].start();
            let window = &mut windows[number - 1];
            *window = Window::new(window.start(), window.end().min(next));
        }
    }
}

/// Ten around a record that is a multiple of ten; such a window swallows those inside it.
#[derive(Debug)]
struct Swallowing;

impl CustomWindow for Swallowing {
    fn name(&self) -> &str {
        "swallowing"
    }

    fn assign(&self, time: EventTime, _: &[Value], windows: &mut Vec<Window>) {
        let millis = time.as_millis();
        let size = if millis % 10 == 0 { 10 } else { 1 };
        windows.push(window(millis, millis + size));
    }

    fn is_merging(&self) -> bool {
        true
    }

    fn merge(&self, windows: &mut [Window]) {
        for number in 0..windows.len() {
            let one = windows[number];
            if let Some(whole) = windows.iter().find(|whole| whole.covers(one) && **whole != one) {
                windows[number] = *whole;
            }
        }
    }
}

/// Ten after each record; one at 99 makes one window of all, which may be there already.
#[derive(Debug)]
struct Collecting;

impl CustomWindow for Collecting {
    fn name(&self) -> &str {
        "collecting"
    }

    fn assign(&self, time: EventTime, _: &[Value], windows: &mut Vec<Window>) {
        let start = time.as_millis();
        windows.push(if start == 0 { window(0, 100) } else { window(start, start + 10) });
    }

    fn is_merging(&self) -> bool {
        true
    }

    fn merge(&self, windows: &mut [Window]) {
        if windows.iter().any(|window| window.start().as_millis() == 99) {
            windows.fill(window(0, 100));
        }
    }
}

/// As long as the record says, at its time; in none if it says nothing.
#[derive(Debug)]
struct AsLongAsItSays;

impl CustomWindow for AsLongAsItSays {
    fn name(&self) -> &str {
        "as_long_as_it_says"
    }

    fn fields(&self) -> &[&str] {
        &["length"]
    }

    fn assign(&self, time: EventTime, values: &[Value], windows: &mut Vec<Window>) {
        if let [Value::Int(length)] = values {
            let length = Span::from_millis(i64::try_from(*length).unwrap());
            windows.push(Window::new(time, time.saturating_add(length)));
            windows.push(Window::GLOBAL);
        }
    }
}

fn stage(
    function: &'static dyn CustomWindow,
    trigger: Trigger,
    mode: AccumulationMode,
) -> Grouping {
    Grouping {
        allowed_lateness: span(100),
        ..sums(WindowFn::Custom(Custom(function)), trigger, mode)
    }
}

fn early() -> Trigger {
    after_watermark(Some(Trigger::AfterCount(1)), Some(Trigger::AfterCount(1)))
}

#[test]
fn a_window_that_shrinks_takes_what_it_holds_with_it() {
    let script = "
        records 10=1
        records 50=2
        watermark 60
          [10,50) +1 #0 on_time @49
        records 30=4
          [10,50) -1 #0 on_time @49
          [10,30) +1 #0 late @29
          [30,50) +4 #0 late @49
        end
          [50,+inf) +2 #0 on_time @+inf last
        ";
    check(&stage(&UntilTheNext, Trigger::default_trigger(), Retracting), script);
    // What was sent under the old bounds is taken back with the next pane, here at expiry.
    let script = "
        records 10=1
          [10,+inf) +1 #0 early @+inf
        records 50=2
          [50,+inf) +2 #0 early @+inf
        watermark 60
          [10,+inf) -1 #0 early @+inf
          [10,50) +1 #0 on_time @49
        records 30=4
          [30,50) +4 #0 late @49
        watermark 130
          [10,50) -1 #0 on_time @49
          [10,30) +1 #0 late @29 last
        end
        ";
    check(&stage(&UntilTheNext, early(), Retracting), script);
    // In the other modes nothing can be taken back; what was sent is not sent again as a delta.
    let script = "
        records 10=1
          [10,+inf) +1 #0 early @+inf
        records 50=2
          [50,+inf) +2 #0 early @+inf
        watermark 60
        end
        ";
    check(&stage(&UntilTheNext, early(), Discarding), script);
}

#[test]
fn a_record_that_would_turn_a_window_into_an_expired_one_is_refused() {
    // With it, 10 would have been valid until 20 only: that window has expired at 30.
    let mut grouping = stage(&UntilTheNext, Trigger::default_trigger(), Accumulating);
    grouping.allowed_lateness = span(10);
    check(
        &grouping,
        "
        records 10=1
        watermark 40
        records 20=2
        dropped
          expired 0 closed 0 refused 1
        records 31=4
          [10,31) +1 #0 late @30
        watermark 41
        records 20=8
        dropped
          expired 1 closed 0 refused 1
        end
          [31,+inf) +4 #0 on_time @+inf last
        ",
    );
}

#[test]
fn a_window_that_swallows_another_goes_on_with_both() {
    check(
        &stage(&Swallowing, early(), Retracting),
        "
        records 10=1
          [10,20) +1 #0 early @19
        records 23=2
          [23,24) +2 #0 early @23
        records 20=4
          [23,24) -2 #0 early @23
          [20,30) +6 #0 early @29
        records 24=8
          [20,30) -6 #0 early @29
          [20,30) +14 #1 early @29
        end
        ",
    );
}

#[test]
fn a_merge_into_a_window_that_was_there_takes_back_both_and_goes_on() {
    check(
        &stage(&Collecting, early(), Retracting),
        "
        records 0=1
          [0,100) +1 #0 early @99
        records 0=2
          [0,100) -1 #0 early @99
          [0,100) +3 #1 early @99
        records 50=4
          [50,60) +4 #0 early @59
        records 99=8
          [0,100) -3 #1 early @99
          [50,60) -4 #0 early @59
          [0,100) +15 #2 early @99
        end
        ",
    );
}

#[test]
fn windows_may_depend_on_the_record() {
    let grouping = stage(&AsLongAsItSays, Trigger::default_trigger(), Accumulating);
    let mut run = Run::with_fields(grouping.clone(), &[("length", Type::U32)]);
    let row = |time: i64, value: i128, length: Value| {
        (time, vec![("key", Value::Text("k".into())), ("v", Value::Int(value)), ("length", length)])
    };
    let length = |millis: i128| Value::Int(millis);
    run.rows(&[row(5, 1, length(3)), row(5, 2, length(3)), row(6, 4, length(3))]);
    run.rows(&[row(7, 8, Value::Null)]);
    assert_eq!(run.account().no_window, 1);
    let panes: Vec<_> = run.end().iter().map(ToString::to_string).collect();
    assert_eq!(
        panes,
        [
            "[-inf,+inf) +7 #0 on_time @+inf last",
            "[5,8) +3 #0 on_time @7 last",
            "[6,9) +4 #0 on_time @8 last",
        ]
    );
    // A field that records do not have is a mistake in the job.
    let fields = vec![Field::new("key", Type::Text), Field::new("v", Type::I64)];
    let errors = plan(&Job::new("custom", fields, vec![grouping])).unwrap_err();
    assert!(
        errors.iter().any(|error| matches!(
            error,
            PlanError::UnknownField { field, .. } if &**field == "length"
        )),
        "{errors:?}"
    );
}
