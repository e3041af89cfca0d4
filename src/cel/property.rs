//! Random well-typed expressions on random records: the same answers as the `cel` crate's own
//! interpreter, where CEL has an answer.
//!
//! The one difference allowed: whole numbers beyond 64 bits are an error in CEL, a value here.

use super::compile;
use cel::{Context, ExecutionError, Program};
use nilometer_model::expr::EvalError;
use nilometer_model::row::{Field, Position, RowBatch, RowLayout};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;
use nilometer_model::value::{Type, Value};
use proptest::prelude::*;
use std::sync::Arc;

const FIELDS: [(&str, Type); 8] = [
    ("i", Type::I64),
    ("u", Type::U32),
    ("d", Type::F64),
    ("e", Type::F64),
    ("b", Type::Bool),
    ("c", Type::Bool),
    ("s", Type::Text),
    ("t", Type::Text),
];

/// Expressions of each kind, nested no deeper than the level they are made for.
#[derive(Clone)]
struct Level {
    int: BoxedStrategy<String>,
    double: BoxedStrategy<String>,
    truth: BoxedStrategy<String>,
    text: BoxedStrategy<String>,
}

const TEXTS: [&str; 6] = ["", "a", "b", "ab", "aba", "\u{e9}\\"];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\"))
}

fn int_literal(is_wide: bool) -> BoxedStrategy<String> {
    let edge = prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(1_i64 << 53), any::<i64>()];
    let small = 1_i64..=9;
    if is_wide { prop_oneof![small, edge].boxed() } else { small.boxed() }
        .prop_map(|number| number.to_string())
        .boxed()
}

/// Those that are not wide stay small as whole numbers, too, or cannot be one at all.
fn double(is_wide: bool) -> impl Strategy<Value = f64> {
    let small = prop_oneof![Just(0.0), Just(-0.0), Just(0.5), Just(2.0), Just(1e300)];
    let large = prop_oneof![Just(9_007_199_254_740_992.0), Just(9_223_372_036_854_775_808.0)];
    let whole = (-9_i8..=9).prop_map(f64::from);
    prop_oneof![5 => small, if is_wide { 2 } else { 0 } => large, 7 => whole]
}

fn leaves(is_wide: bool) -> Level {
    let field = |names: &'static [&'static str]| {
        proptest::sample::select(names).prop_map(str::to_owned).boxed()
    };
    let text = proptest::sample::select(&TEXTS[..]).prop_map(quoted);
    Level {
        int: prop_oneof![2 => field(&["i", "u"]), 1 => int_literal(is_wide)].boxed(),
        double: prop_oneof![2 => field(&["d", "e"]), 1 => double(is_wide).prop_map(|d| format!("{d:?}"))]
            .boxed(),
        truth: prop_oneof![4 => field(&["b", "c"]), 1 => field(&["true", "false"])].boxed(),
        text: prop_oneof![2 => field(&["s", "t"]), 1 => text].boxed(),
    }
}

/// `(a operator b)`.
fn pair(
    a: &BoxedStrategy<String>,
    operators: &'static [&'static str],
    b: &BoxedStrategy<String>,
) -> BoxedStrategy<String> {
    (a.clone(), proptest::sample::select(operators), b.clone())
        .prop_map(|(a, operator, b)| format!("({a} {operator} {b})"))
        .boxed()
}

fn choice(level: &Level, value: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    (level.truth.clone(), value.clone(), value.clone())
        .prop_map(|(condition, a, b)| format!("({condition} ? {a} : {b})"))
        .boxed()
}

/// `(value in [...])`.
fn membership(
    value: &BoxedStrategy<String>,
    element: impl Strategy<Value = String> + 'static,
) -> BoxedStrategy<String> {
    (value.clone(), proptest::collection::vec(element, 0..5))
        .prop_map(|(value, list)| format!("({value} in [{}])", list.join(", ")))
        .boxed()
}

fn call(form: &'static str, operand: &BoxedStrategy<String>) -> BoxedStrategy<String> {
    operand.clone().prop_map(move |operand| form.replace('?', &operand)).boxed()
}

const ARITHMETIC: &[&str] = &["+", "-", "*", "/"];
const WHOLE: &[&str] = &["+", "-", "*", "/", "%"];
const RELATIONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];

fn deeper(level: &Level, is_wide: bool) -> Level {
    let Level { int, double, truth, text } = level;
    let null = || Just("null".to_owned());
    let texts = proptest::sample::select(&TEXTS[..]).prop_map(quoted);
    let search = (text.clone(), proptest::sample::select(&["contains", "startsWith", "endsWith"]))
        .prop_flat_map({
            let text = text.clone();
            move |(a, name)| text.clone().prop_map(move |b| format!("{a}.{name}({b})"))
        });
    let any_field = proptest::sample::select(&FIELDS[..]).prop_map(|(name, _)| name.to_owned());
    let is_null = pair(&any_field.boxed(), &["==", "!="], &null().boxed());
    Level {
        int: prop_oneof![
            1 => int.clone(),
            4 => pair(int, WHOLE, int),
            1 => choice(level, int),
            1 => call("(-(?))", int),
            1 => call("size(?)", text),
            1 => call("int(?)", double),
        ]
        .boxed(),
        double: prop_oneof![
            1 => double.clone(),
            4 => pair(double, ARITHMETIC, double),
            1 => choice(level, double),
            1 => call("(-(?))", double),
            1 => call("double(?)", int),
        ]
        .boxed(),
        truth: prop_oneof![
            4 => pair(truth, &["&&", "||", "==", "!=", "<", ">="], truth),
            1 => call("(!?)", truth),
            1 => choice(level, truth),
            2 => pair(int, RELATIONS, int),
            1 => pair(double, RELATIONS, double),
            1 => pair(int, RELATIONS, double),
            1 => pair(double, RELATIONS, int),
            1 => pair(text, RELATIONS, text),
            1 => search,
            1 => is_null,
            1 => membership(int, prop_oneof![4 => int_literal(is_wide), 1 => null()]),
            1 => membership(double, prop_oneof![int_literal(is_wide), Just("0.5".to_owned())]),
            1 => membership(text, prop_oneof![4 => texts, 1 => null()]),
        ]
        .boxed(),
        text: prop_oneof![2 => text.clone(), 1 => choice(level, text)].boxed(),
    }
}

fn expression(is_wide: bool) -> BoxedStrategy<String> {
    let mut level = leaves(is_wide);
    for _ in 0..4 {
        level = deeper(&level, is_wide);
    }
    prop_oneof![level.int, level.double, level.truth, level.text].boxed()
}

/// A value for every field; one in ten is null.
fn record(is_wide: bool) -> impl Strategy<Value = Vec<Value>> {
    let whole = if is_wide {
        prop_oneof![-9_i64..=9, Just(i64::MIN), Just(i64::MAX), any::<i64>()].boxed()
    } else {
        (-9_i64..=9).boxed()
    };
    let float = || prop_oneof![9 => double(is_wide), 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
    let text = || proptest::sample::select(&TEXTS[..]).prop_map(|text| Value::Text(text.into()));
    let unsigned = if is_wide { 0..=u32::MAX } else { 0..=9 };
    let values = (
        whole.prop_map(|number| Value::Int(number.into())),
        unsigned.prop_map(|number| Value::Int(number.into())),
        float().prop_map(Value::Float),
        float().prop_map(Value::Float),
        any::<bool>().prop_map(Value::Bool),
        any::<bool>().prop_map(Value::Bool),
        text(),
        text(),
    );
    let holes = proptest::collection::vec(proptest::bool::weighted(0.1), FIELDS.len());
    (values, holes).prop_map(|((i, u, d, e, b, c, s, t), holes)| {
        let values = [i, u, d, e, b, c, s, t].into_iter();
        values
            .zip(holes)
            .map(|(value, is_null)| if is_null { Value::Null } else { value })
            .collect()
    })
}

/// What the crate's interpreter makes of `source`.
fn reference(source: &str, record: &[Value]) -> Result<Value, ExecutionError> {
    let mut context = Context::default();
    for ((name, _), value) in FIELDS.iter().zip(record) {
        let value = match value {
            Value::Int(number) => cel::Value::Int(i64::try_from(*number).unwrap()),
            Value::Float(number) => cel::Value::Float(*number),
            Value::Bool(truth) => cel::Value::Bool(*truth),
            Value::Text(text) => cel::Value::String(Arc::new(text.to_string())),
            Value::Null => cel::Value::Null,
            Value::Ip(_) | Value::Object(_) => unreachable!("not among the fields"),
        };
        context.add_variable_from_value(*name, value);
    }
    Program::compile(source).unwrap().execute(&context).map(|value| match value {
        cel::Value::Int(number) => Value::Int(number.into()),
        cel::Value::Float(number) => Value::Float(number),
        cel::Value::Bool(truth) => Value::Bool(truth),
        cel::Value::String(text) => Value::Text(text.as_str().into()),
        cel::Value::Null => Value::Null,
        other => panic!("{source} gives {other:?}"),
    })
}

/// What we make of it; `None` if a part of it fails for every record.
fn ours(source: &str, record: &[Value]) -> Option<Result<Value, EvalError>> {
    let fields = FIELDS.map(|(name, ty)| Field::new(name, ty));
    let expr = match compile(source, &fields) {
        Ok(expr) => expr,
        Err(errors) => {
            let is_constant = |message: &str| message.starts_with("this fails for every record");
            assert!(errors.iter().all(|error| is_constant(&error.message)), "{source}: {errors:?}");
            return None;
        }
    };
    let symbols = Symbols::default();
    let layout = Arc::new(RowLayout::new(fields));
    let mut batch = RowBatch::new(layout.clone());
    let mut row = batch.push(EventTime::MIN, Position::default());
    for (slot, value) in layout.slots().iter().zip(record) {
        row.set(*slot, value.intern(&symbols).unwrap());
    }
    let value = expr.bind(&layout, &symbols).unwrap().eval(batch.row(0), &symbols);
    if let Ok(datum) = value {
        let ty = expr.ty().unwrap();
        assert!(nilometer_model::row::fits(datum, ty), "{source} is {datum:?}, not {ty}");
    }
    Some(value.map(|datum| datum.value(&symbols)))
}

/// The same value; NaN is NaN.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a == b || a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    }
}

proptest! {
    /// Numbers so small that nothing overflows: the two agree on values and on failures.
    #[test]
    fn small_numbers_agree_in_full(source in expression(false), record in record(false)) {
        let theirs = reference(&source, &record);
        match (ours(&source, &record), theirs) {
            (None, _) => {}
            (Some(Ok(ours)), Ok(theirs)) => {
                prop_assert!(is_same(&ours, &theirs), "{source}: {ours:?}, cel {theirs:?}");
            }
            (Some(Err(_)), Err(_)) => {}
            (Some(ours), theirs) => prop_assert!(false, "{source}: {ours:?}, cel {theirs:?}"),
        }
    }

    /// Numbers of any size: every value of CEL's is ours.
    #[test]
    fn values_of_cel_are_ours(source in expression(true), record in record(true)) {
        if let (Some(ours), Ok(theirs)) = (ours(&source, &record), reference(&source, &record)) {
            let is_same = ours.as_ref().is_ok_and(|ours| is_same(ours, &theirs));
            prop_assert!(is_same, "{source}: {ours:?}, cel {theirs:?}");
        }
    }

    /// Whatever the text: an answer, and places that lie in it.
    #[test]
    fn any_text_has_an_answer(parts in proptest::collection::vec(part(), 0..12)) {
        let source = parts.concat();
        let fields = FIELDS.map(|(name, ty)| Field::new(name, ty));
        for error in compile(&source, &fields).err().unwrap_or_default() {
            let end = error.offset + error.length;
            prop_assert!(source.get(error.offset..end).is_some(), "{source:?}: {error:?}");
        }
    }
}

/// A piece of an expression, or of nothing.
fn part() -> impl Strategy<Value = String> {
    let pieces = [
        "i",
        "s",
        "b",
        " ",
        "\n",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        "?",
        ":",
        "+",
        "-",
        "!",
        "==",
        "in",
        "&&",
        "1",
        "2u",
        "0.5",
        "'",
        "\"",
        "\\",
        "//",
        "has",
        "ip",
        "cidr",
        "size",
        "r'",
        "'''",
        "\u{e9}",
        "\u{0}",
        "1e",
        "0x",
        "`",
        "@",
        "true",
        "null",
        "package",
        "\u{1f600}",
    ];
    prop_oneof![9 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned), 1 => ".{0,4}"]
}
