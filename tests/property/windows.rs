//! Random windows of every kind, custom functions among them: small ones, around the edges that
//! records are drawn at.

use jiff::civil::Weekday;
use nilometer_model::calendar::{Calendar, CalendarUnit, Zone};
use nilometer_model::custom::{Custom, CustomWindow};
use nilometer_model::time::{EventTime, Span, Window};
use nilometer_model::value::Value;
use nilometer_model::window::{Phase, Touching, WindowFn};
use proptest::prelude::*;

/// Zones whose days are not all of 24 hours: by an hour, by half of one, at midnight itself.
pub(crate) const ZONES: [&str; 5] =
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"];

/// Blocks of ten; those that touch are one window. As sessions do, it grows only.
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
                let parts = windows.iter_mut().filter(|one| **one == before || **one == next);
                parts.for_each(|part| *part = both);
            }
        }
    }
}

/// From each instant with a record to the next: windows shrink, into the past, too.
#[derive(Debug)]
struct UntilTheNext;

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
        let starts: Vec<_> = windows.iter().map(|window| window.start()).collect();
        for window in windows {
            let next = starts.iter().find(|start| **start > window.start());
            let end = next.map_or(window.end(), |next| window.end().min(*next));
            *window = Window::new(window.start(), end);
        }
    }
}

/// As many windows as the field `a` says, each ten times as long as the one before; or none.
#[derive(Debug)]
struct AsManyAsItSays;

impl CustomWindow for AsManyAsItSays {
    fn name(&self) -> &str {
        "as_many_as_it_says"
    }

    fn fields(&self) -> &[&str] {
        &["a"]
    }

    fn assign(&self, time: EventTime, values: &[Value], windows: &mut Vec<Window>) {
        if let [Value::Int(number)] = values {
            let sizes = std::iter::successors(Some(3), |size| Some(size * 10));
            let sizes = sizes.take(usize::try_from(*number).unwrap_or(0));
            windows.extend(sizes.map(|size| Window::fixed(time, Span::from_millis(size), 0)));
        }
    }
}

/// Whether what windows of this kind become under new bounds still covers what they were.
pub(crate) fn only_grows(window: WindowFn) -> bool {
    window != WindowFn::Custom(Custom(&UntilTheNext))
}

fn millis(millis: i64) -> Span {
    Span::from_millis(millis)
}

fn calendars() -> impl Strategy<Value = WindowFn> {
    let unit = prop_oneof![
        4 => Just(CalendarUnit::Day),
        1 => prop_oneof![Just(Weekday::Monday), Just(Weekday::Sunday)].prop_map(CalendarUnit::Week),
        1 => Just(CalendarUnit::Month),
        1 => Just(CalendarUnit::Year),
    ];
    (unit, prop::sample::select(&ZONES[..])).prop_map(|(unit, zone)| {
        WindowFn::Calendar(Calendar { unit, zone: Zone::named(zone).unwrap() })
    })
}

fn sessions() -> impl Strategy<Value = WindowFn> {
    let longest = prop_oneof![3 => Just(None), 1 => prop_oneof![Just(15), Just(40)].prop_map(Some)];
    let touching = prop_oneof![2 => Just(Touching::Merge), 1 => Just(Touching::Separate)];
    (prop_oneof![Just(1), Just(7), Just(10), Just(30)], longest, touching).prop_map(
        |(gap, longest, touching)| WindowFn::Session {
            gap: millis(gap),
            max_duration: longest.map(millis),
            touching,
        },
    )
}

fn fixed() -> impl Strategy<Value = WindowFn> {
    let phase = prop_oneof![3 => Just(Phase::Aligned), 1 => Just(Phase::ByKey)];
    (prop_oneof![Just(1), Just(10), Just(20), Just(60)], prop_oneof![Just(0), Just(-7)], phase)
        .prop_map(|(size, offset, phase)| WindowFn::Fixed { size: millis(size), offset, phase })
}

fn sliding() -> impl Strategy<Value = WindowFn> {
    let bounds = (prop_oneof![Just(10), Just(20)], prop_oneof![Just(5), Just(7), Just(15)]);
    (bounds, prop_oneof![Just(0), Just(3)]).prop_map(|((size, period), offset)| WindowFn::Sliding {
        size: millis(size),
        period: millis(period),
        offset,
    })
}

/// Windows of any kind.
pub(crate) fn windows() -> impl Strategy<Value = WindowFn> {
    let custom: [&'static dyn CustomWindow; 3] = [&Blocks, &UntilTheNext, &AsManyAsItSays];
    prop_oneof![
        1 => Just(WindowFn::Global),
        3 => fixed(),
        2 => sliding(),
        4 => sessions(),
        2 => calendars(),
        2 => prop::sample::select(custom.to_vec()).prop_map(|f| WindowFn::Custom(Custom(f))),
    ]
}
