//! Aggregates by the definition: results, cuts, overflow, subtraction.

use super::*;

type Input<'a> = &'a [(i64, Datum)];

fn run(function: Function, ty: Type, input: Input<'_>) -> Datum {
    let layout = AggregateLayout::new([("a".into(), function, ty)]);
    let symbols = Symbols::default();
    // Every way to cut the input in two parts must give the same result.
    let mut results = Vec::new();
    for cut in 0..=input.len() {
        let mut parts = [vec![0; layout.words()], vec![0; layout.words()]];
        for (index, (time, datum)) in input.iter().enumerate() {
            let part = &mut parts[usize::from(index >= cut)];
            let time = EventTime::from_millis(*time);
            layout.add(part, 0, (*datum, time), &symbols).unwrap();
        }
        let [mut left, right] = parts;
        layout.merge_all(&mut left, &right, &symbols).unwrap();
        results.push(layout.finish(&left, 0));
    }
    results.dedup();
    assert_eq!(results.len(), 1, "{function:?} depends on the cut: {results:?}");
    results[0]
}

#[test]
fn results_are_those_of_the_definition() {
    use Datum::{Bool, Float, Int, Null};
    let ints: Input<'_> = &[(3, Int(5)), (1, Int(-7)), (2, Null), (3, Int(9))];
    let floats: Input<'_> = &[(0, Float(1e100)), (0, Float(1.0)), (0, Float(-1e100))];
    let flags: Input<'_> = &[(0, Bool(false)), (0, Bool(true))];
    for (function, ty, input, expected) in [
        (Function::Count, Type::I64, ints, Int(3)),
        (Function::Sum, Type::I64, ints, Int(7)),
        (Function::Min, Type::I64, ints, Int(-7)),
        (Function::Max, Type::I64, ints, Int(9)),
        (Function::Mean, Type::I64, ints, Float(7.0 / 3.0)),
        (Function::First, Type::I64, ints, Int(-7)),
        (Function::Last, Type::I64, ints, Int(9)),
        (Function::Sum, Type::F64, floats, Float(1.0)),
        (Function::Max, Type::Bool, flags, Bool(true)),
        (Function::Min, Type::Bool, flags, Bool(false)),
        (Function::Sum, Type::I64, &[], Int(0)),
        (Function::Mean, Type::F64, &[], Null),
        (Function::Max, Type::Big, &[(0, Int(1 << 100))], Int(1 << 100)),
        (Function::First, Type::Ip, &[(2, Datum::Ip(7)), (1, Datum::Ip(8))], Datum::Ip(8)),
    ] {
        assert_eq!(run(function, ty, input), expected, "{function:?} {ty}");
    }
}

#[test]
fn an_overflow_is_an_error_and_changes_nothing() {
    let layout = AggregateLayout::new([("big".into(), Function::Sum, Type::Big)]);
    let symbols = Symbols::default();
    let mut words = vec![0; layout.words()];
    let add = |words: &mut [u64], number| {
        layout.add(words, 0, (Datum::Int(number), EventTime::MIN), &symbols)
    };
    add(&mut words, i128::MAX).unwrap();
    assert_eq!(add(&mut words, 1), Err(Overflow { aggregate: "big".into() }));
    assert_eq!(layout.finish(&words, 0), Datum::Int(i128::MAX));
}

#[test]
fn texts_compare_as_texts_not_by_symbol() {
    let symbols = Symbols::default();
    let (b, a) = (symbols.intern("b").unwrap(), symbols.intern("a").unwrap());
    let layout = AggregateLayout::new([
        ("low".into(), Function::Min, Type::Text),
        ("last".into(), Function::Last, Type::Text),
    ]);
    let mut words = vec![0; layout.words()];
    for symbol in [b, a] {
        for index in 0..2 {
            let input = (Datum::Text(symbol), EventTime::from_millis(1));
            layout.add(&mut words, index, input, &symbols).unwrap();
        }
    }
    assert_eq!(layout.finish(&words, 0), Datum::Text(a));
    assert_eq!(layout.finish(&words, 1), Datum::Text(b));
    assert_eq!(layout.symbol_words().collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn what_was_added_can_be_taken_out_again() {
    let layout = AggregateLayout::new([
        ("n".into(), Function::Count, Type::U64),
        ("sum".into(), Function::Sum, Type::I64),
        ("max".into(), Function::Max, Type::I64),
    ]);
    let symbols = Symbols::default();
    let (mut whole, mut part) = (vec![0; layout.words()], vec![0; layout.words()]);
    for (number, in_part) in [(5, true), (8, false)] {
        for index in 0..3 {
            let input = (Datum::Int(number), EventTime::MIN);
            layout.add(&mut whole, index, input, &symbols).unwrap();
            if in_part {
                layout.add(&mut part, index, input, &symbols).unwrap();
            }
        }
    }
    layout.subtract_all(&mut whole, &part).unwrap();
    let results: Vec<_> = (0..3).map(|index| layout.finish(&whole, index)).collect();
    assert_eq!(results, [Datum::Int(1), Datum::Int(8), Datum::Null]);
    // The difference of a whole to a larger one is below zero, counts too.
    let mut less = vec![0; layout.words()];
    layout.subtract_all(&mut less, &whole).unwrap();
    assert_eq!(layout.finish(&less, 0), Datum::Int(-1));
    layout.merge_all(&mut less, &whole, &symbols).unwrap();
    assert_eq!(layout.finish(&less, 0), Datum::Int(0));
}

/// The result of values of `ty` cut in two parts, merged; the second taken out again.
fn variance(function: Function, ty: Type, values: &[Datum], cut: usize) -> (Datum, Datum) {
    let layout = AggregateLayout::new([("a".into(), function, ty)]);
    let symbols = Symbols::default();
    let mut parts = [layout.empty(), layout.empty()];
    for (index, datum) in values.iter().enumerate() {
        let part = &mut parts[usize::from(index >= cut)];
        layout.add(part, 0, (*datum, EventTime::MIN), &symbols).unwrap();
    }
    let [mut left, right] = parts;
    let before = layout.finish(&left, 0);
    layout.merge_all(&mut left, &right, &symbols).unwrap();
    let whole = layout.finish(&left, 0);
    layout.subtract_all(&mut left, &right).unwrap();
    assert!(near(layout.finish(&left, 0), before, 1e-9), "{left:?} {before:?}");
    (whole, before)
}

fn near(a: Datum, b: Datum, error: f64) -> bool {
    match (a, b) {
        (Datum::Float(a), Datum::Float(b)) => {
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= error * b.abs()
        }
        (a, b) => a == b,
    }
}

/// Exact values, from fractions worked out by hand.
#[test]
fn variances_are_those_of_the_definition_also_far_from_zero() {
    use Datum::{Float, Int, Null};
    let far = [4, 7, 13, 16];
    let ints = |base: i128| far.map(|value| Int(base + value)).to_vec();
    let floats = |base: f64| far.map(|value| Float(base + value as f64)).to_vec();
    let whole = 2_f64.powi(64) - 1.0;
    for (ty, values, population, sample) in [
        (Type::I64, ints(0), Float(22.5), Float(30.0)),
        (Type::I64, ints(-1_000_000_000), Float(22.5), Float(30.0)),
        (Type::Big, ints(i128::MAX / 8), Float(22.5), Float(30.0)),
        (Type::Big, ints(i128::MIN / 8), Float(22.5), Float(30.0)),
        (Type::F64, floats(0.0), Float(22.5), Float(30.0)),
        (Type::F64, floats(1e9), Float(22.5), Float(30.0)),
        // As far as doubles tell the values apart.
        (Type::F64, floats(1e15), Float(22.5), Float(30.0)),
        (Type::I64, vec![], Null, Null),
        (Type::F64, vec![Float(1e300)], Float(f64::NAN), Null),
        (Type::I64, vec![Int(-5)], Float(0.0), Null),
        (Type::F64, vec![Float(0.1)], Float(0.0), Null),
        (
            Type::U64,
            vec![Int(u64::MAX.into()), Int(0)],
            Float(whole * whole / 4.0),
            Float(whole * whole / 2.0),
        ),
        (
            Type::I64,
            [vec![Int(1); 9_999], vec![Int(0)]].concat(),
            Float(9_999.0 / 1e8),
            Float(1e-4),
        ),
    ] {
        for (function, expected) in
            [(Function::VARIANCE, population), (Function::VARIANCE_SAMPLE, sample)]
        {
            for cut in [0, values.len() / 2, values.len()] {
                let (got, _) = variance(function, ty, &values, cut);
                let is_same = near(got, expected, 1e-14);
                assert!(is_same, "{function:?} {ty} {cut}: {got:?} for {expected:?}");
            }
        }
        let (root, _) = variance(Function::STDDEV, ty, &values, 0);
        if let (Float(root), Float(population)) = (root, population) {
            assert!(near(Float(root), Float(population.sqrt()), 1e-14));
        }
    }
}
