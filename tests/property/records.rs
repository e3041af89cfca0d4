//! Random records in random order, cut into batches, with watermarks and restarts between.
//!
//! Skewed on purpose: few keys, few distinct times around window edges, bursts at one time, times
//! before 1970 and at both ends of the type, days that the clocks are changed on.

use nilometer_model::batch::{Arrival, Record};
use nilometer_model::time::{EventTime, ProcessingTime, Span, Watermark};
use nilometer_model::value::Value;
use proptest::prelude::*;

/// What happens to the engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// One message.
    Batch(Vec<Record>),
    /// The pipeline's watermark rises, or tries to.
    Watermark(Watermark),
    /// The clock ticks.
    Tick(ProcessingTime),
    /// The signal is given that triggers wait for.
    Signal,
    /// Everything is encoded to bytes and decoded.
    Restart,
}

/// What arrives, batches forgotten.
pub(crate) fn arrivals(script: &[Event]) -> Vec<Arrival> {
    let arrival = |event: &Event| match event {
        Event::Batch(records) => records.iter().cloned().map(Arrival::Record).collect(),
        Event::Watermark(watermark) => vec![Arrival::Watermark(*watermark)],
        Event::Tick(_) | Event::Signal | Event::Restart => Vec::new(),
    };
    script.iter().flat_map(arrival).collect()
}

/// The same script with every batch cut anew: `size` records each at most, not across a
/// watermark, a tick or a signal.
pub(crate) fn recut(script: &[Event], size: usize) -> Vec<Event> {
    let mut cut = Vec::new();
    let mut open: Vec<Record> = Vec::new();
    let close = |open: &mut Vec<Record>, cut: &mut Vec<Event>| {
        cut.extend(open.chunks(size).map(|records| Event::Batch(records.to_vec())));
        open.clear();
    };
    for event in script {
        match event {
            Event::Batch(records) => open.extend(records.iter().cloned()),
            Event::Watermark(_) | Event::Tick(_) | Event::Signal => {
                close(&mut open, &mut cut);
                cut.push(event.clone());
            }
            Event::Restart => {}
        }
    }
    close(&mut open, &mut cut);
    cut
}

fn or_null(values: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    prop_oneof![9 => values, 1 => Just(Value::Null)].boxed()
}

fn address(last: u8) -> Value {
    Value::Ip(std::net::IpAddr::from([10, 0, 0, last]))
}

fn numbers() -> BoxedStrategy<Value> {
    let few = (-3_i128..=9).prop_map(Value::Int);
    let ends = prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(|n| Value::Int(n.into()));
    prop_oneof![12 => few, 1 => ends].boxed()
}

/// Values of the fields `a` to `flag`.
pub(crate) fn values() -> impl Strategy<Value = Vec<Value>> {
    let texts = prop_oneof![Just(""), Just("x"), Just("y"), Just("é\u{0}")];
    let big = prop_oneof![
        4 => 0_i128..20,
        1 => Just(1 << 100),
        1 => Just(-7_i128),
    ];
    // Quarters: sums of them are exact in every order.
    let floats = prop_oneof![9 => (-8_i32..8).prop_map(|n| f64::from(n) / 4.0), 1 => Just(-0.0)];
    vec![
        or_null((0_i128..3).prop_map(Value::Int)),
        or_null(texts.prop_map(|text| Value::Text(text.into()))),
        or_null((1_u8..4).prop_map(address)),
        or_null((1_u8..4).prop_map(address)),
        or_null(numbers()),
        or_null(big.prop_map(Value::Int)),
        or_null(floats.prop_map(Value::Float)),
        or_null(any::<bool>().prop_map(Value::Bool)),
    ]
}

/// A record at `time`, which covers up to `length` ms before it.
pub(crate) fn record(time: i64, length: i64, mut values: Vec<Value>) -> Record {
    // A length below zero: the first instant is not known, or lies after the last.
    let first = match length {
        -2 => Value::Null,
        length => Value::Int(time.saturating_sub(length).into()),
    };
    values.extend([first, Value::Int(time.into())]);
    Record { time: EventTime::from_millis(time), values }
}

/// What a script is made of: an instant, and how long a step is.
type Scale = (i64, i64);

fn bases() -> BoxedStrategy<Scale> {
    prop_oneof![
        6 => Just((0, 1)),
        1 => Just((1_700_000_000_000, 1)),
        1 => Just((i64::MIN, 1)),
        1 => Just((i64::MAX, 1)),
    ]
    .boxed()
}

/// Midnights around which days are longer or shorter, in the zones of `windows`.
const MIDNIGHTS: [i64; 6] = [
    // Berlin, 31 March and 27 October 2024.
    1_711_839_600_000,
    1_729_980_000_000,
    // New York, 10 March 2024; Lord Howe, 7 April 2024, by half an hour.
    1_710_046_800_000,
    1_712_408_400_000,
    // Sao Paulo, 4 November 2018: the day began at one.
    1_541_300_400_000,
    // A year ends in Berlin.
    1_704_063_600_000,
];

/// As `bases`, and the midnights, by milliseconds and by hours.
fn bases_and_midnights() -> BoxedStrategy<Scale> {
    let midnights = (prop::sample::select(&MIDNIGHTS[..]), prop_oneof![Just(1), Just(3_600_000)]);
    prop_oneof![3 => bases(), 1 => midnights].boxed()
}

/// Where in time: window edges more often than between them.
fn offsets() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => (-2_i64..5).prop_map(|tens| tens * 10),
        2 => (-2_i64..5).prop_map(|tens| tens * 10 - 1),
        3 => -30_i64..60,
        1 => Just(5),
    ]
}

/// Scripts: records in an order that is off by at most an out-of-orderness, watermarks
/// that follow it more or less closely.
pub(crate) fn scripts() -> impl Strategy<Value = Vec<Event>> {
    scripts_around(bases())
}

/// Scripts in which the clock ticks, now and then back, and signals are given.
pub(crate) fn clocked_scripts() -> impl Strategy<Value = Vec<Event>> {
    let steps = prop::collection::vec((0_u8..10, -5_i64..30), 0..40);
    (scripts_around(bases_and_midnights()), steps).prop_map(|(script, steps)| {
        let mut now = 1_000;
        let mut clocked = vec![Event::Tick(ProcessingTime::from_millis(now))];
        let mut steps = steps.into_iter();
        for event in script {
            clocked.push(event);
            match steps.next() {
                Some((0..4, step)) => {
                    now += step;
                    clocked.push(Event::Tick(ProcessingTime::from_millis(now)));
                }
                Some((4, _)) => clocked.push(Event::Signal),
                Some(_) | None => {}
            }
        }
        clocked
    })
}

fn scripts_around(bases: BoxedStrategy<Scale>) -> impl Strategy<Value = Vec<Event>> {
    let records = (offsets(), -2_i64..45, values(), 0_i64..100, any::<u8>());
    let records = prop::collection::vec(records, 0..40);
    let slack = prop_oneof![3 => Just(0_i64), 1 => Just(5), 1 => Just(20), 1 => Just(100)];
    let disorder = prop_oneof![1 => Just(1_i64), 2 => Just(15), 3 => Just(100)];
    (records, bases, slack, disorder, 1_usize..8).prop_map(
        |(records, (base, step), slack, disorder, batch)| {
            let mut keyed: Vec<_> = records
                .into_iter()
                .map(|(offset, length, values, jitter, dice)| {
                    // Around a whole step there is one before it and one behind it.
                    let beside = if step > 1 { i64::from(dice % 3) - 1 } else { 0 };
                    let time = base.saturating_add(offset * step + beside);
                    let place = i128::from(time) + i128::from(jitter % disorder * step);
                    (place, record(time, length, values), dice)
                })
                .collect();
            keyed.sort_by_key(|(place, ..)| *place);
            cut(keyed, Span::from_millis(slack * step), batch)
        },
    )
}

/// Cuts records into batches of at most `batch`, with watermarks `slack` behind the highest time.
fn cut(records: Vec<(i128, Record, u8)>, slack: Span, batch: usize) -> Vec<Event> {
    let mut script = Vec::new();
    let mut open = Vec::new();
    let mut highest = EventTime::MIN;
    for (_, record, dice) in records {
        highest = highest.max(record.time);
        open.push(record);
        if open.len() >= batch || dice % 5 == 0 {
            script.push(Event::Batch(std::mem::take(&mut open)));
        }
        if dice % 3 == 0 {
            script.extend((!open.is_empty()).then(|| Event::Batch(std::mem::take(&mut open))));
            // A record at the end of time is not the end of the input.
            let promised = highest.min(EventTime::LAST).saturating_sub(slack);
            script.push(Event::Watermark(Watermark(promised)));
        }
        if dice % 11 == 0 {
            script.push(Event::Restart);
        }
    }
    script.extend((!open.is_empty()).then_some(Event::Batch(open)));
    script
}
