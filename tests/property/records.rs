//! Random records in random order, cut into batches, with watermarks and restarts between.
//!
//! Skewed on purpose: few keys, few distinct times around window edges, bursts at one time, times
//! before 1970 and at both ends of the type.

use nilometer_model::batch::{Arrival, Record};
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::value::Value;
use proptest::prelude::*;

/// What happens to the engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// One message.
    Batch(Vec<Record>),
    /// The pipeline's watermark rises, or tries to.
    Watermark(Watermark),
    /// Everything is encoded to bytes and decoded.
    Restart,
}

/// What arrives, batches forgotten.
pub(crate) fn arrivals(script: &[Event]) -> Vec<Arrival> {
    let arrival = |event: &Event| match event {
        Event::Batch(records) => records.iter().cloned().map(Arrival::Record).collect(),
        Event::Watermark(watermark) => vec![Arrival::Watermark(*watermark)],
        Event::Restart => Vec::new(),
    };
    script.iter().flat_map(arrival).collect()
}

/// The same script with every batch cut anew: `size` records each at most, not across a watermark.
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
            Event::Watermark(watermark) => {
                close(&mut open, &mut cut);
                cut.push(Event::Watermark(*watermark));
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
fn values() -> impl Strategy<Value = Vec<Value>> {
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
fn record(time: i64, length: i64, mut values: Vec<Value>) -> Record {
    // A length below zero: the first instant is not known, or lies after the last.
    let first = match length {
        -2 => Value::Null,
        length => Value::Int(time.saturating_sub(length).into()),
    };
    values.extend([first, Value::Int(time.into())]);
    Record { time: EventTime::from_millis(time), values }
}

fn bases() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => Just(0),
        1 => Just(1_700_000_000_000),
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
    ]
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
    let records = (offsets(), -2_i64..45, values(), 0_i64..100, any::<u8>());
    let records = prop::collection::vec(records, 0..40);
    let slack = prop_oneof![3 => Just(0_i64), 1 => Just(5), 1 => Just(20), 1 => Just(100)];
    let disorder = prop_oneof![1 => Just(1_i64), 2 => Just(15), 3 => Just(100)];
    (records, bases(), slack, disorder, 1_usize..8).prop_map(
        |(records, base, slack, disorder, batch)| {
            let mut keyed: Vec<_> = records
                .into_iter()
                .map(|(offset, length, values, jitter, dice)| {
                    let time = base.saturating_add(offset);
                    let place = i128::from(time) + i128::from(jitter % disorder);
                    (place, record(time, length, values), dice)
                })
                .collect();
            keyed.sort_by_key(|(place, ..)| *place);
            let mut script = Vec::new();
            let mut open = Vec::new();
            let mut highest = EventTime::MIN;
            for (_, record, dice) in keyed {
                highest = highest.max(record.time);
                open.push(record);
                if open.len() >= batch || dice % 5 == 0 {
                    script.push(Event::Batch(std::mem::take(&mut open)));
                }
                if dice % 3 == 0 {
                    script.extend(
                        (!open.is_empty()).then(|| Event::Batch(std::mem::take(&mut open))),
                    );
                    // A record at the end of time is not the end of the input.
                    let promised = highest.min(EventTime::from_millis(i64::MAX - 1));
                    let promised = promised.saturating_sub(Span::from_millis(slack));
                    script.push(Event::Watermark(Watermark(promised)));
                }
                if dice % 11 == 0 {
                    script.push(Event::Restart);
                }
            }
            script.extend((!open.is_empty()).then_some(Event::Batch(open)));
            script
        },
    )
}
