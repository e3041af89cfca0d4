//! Expressions built by hand, evaluated on one row: values at the edges, and errors.

use super::*;
use crate::row::{Field, Position, RowBatch, RowLayout};
use crate::symbol::Symbols;
use crate::time::EventTime;
use crate::value::{Type, Value};
use std::sync::Arc;

/// Evaluates what `make` makes of the fields `a` and `b`, which hold `values`.
fn with_two(
    types: [Type; 2],
    values: [Value; 2],
    make: impl Fn(TypedExpr, TypedExpr) -> TypedExpr,
) -> Result<Value, EvalError> {
    let fields = [Field::new("a", types[0]), Field::new("b", types[1])];
    let symbols = Symbols::default();
    let layout = Arc::new(RowLayout::new(fields.clone()));
    let mut batch = RowBatch::new(layout.clone());
    let mut row = batch.push(EventTime::MIN, Position::default());
    for (slot, value) in layout.slots().iter().zip(values) {
        row.set(*slot, value.intern(&symbols).unwrap());
    }
    let [a, b] = fields.map(|field| TypedExpr::field(&field));
    let expr = make(a, b).bind(&layout, &symbols).unwrap();
    expr.eval(batch.row(0), &symbols).map(|datum| datum.value(&symbols))
}

fn binary(operator: Binary) -> impl Fn(TypedExpr, TypedExpr) -> TypedExpr {
    move |a, b| TypedExpr::binary(operator, a, b).unwrap()
}

fn int(number: i128) -> TypedExpr {
    TypedExpr::literal(Literal::Int(number))
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn ip(address: &str) -> Value {
    Value::Ip(address.parse().unwrap())
}

#[test]
fn whole_numbers_are_exact_in_128_bits_and_checked() {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    let u64_max = i128::from(u64::MAX);
    for (ty, a, operator, b, expected) in [
        (Type::U64, u64_max, Add, u64_max, Ok(36_893_488_147_419_103_230)),
        (Type::U64, 0, Subtract, u64_max, Ok(-18_446_744_073_709_551_615)),
        (Type::U64, u64_max, Multiply, u64_max, Err(EvalError::Overflow)),
        (Type::U32, 4_294_967_295, Multiply, 4_294_967_295, Ok(18_446_744_065_119_617_025)),
        (Type::Big, i128::MAX, Add, 1, Err(EvalError::Overflow)),
        (Type::Big, i128::MIN, Subtract, 1, Err(EvalError::Overflow)),
        (Type::Big, i128::MIN, Divide, -1, Err(EvalError::Overflow)),
        (Type::Big, i128::MIN, Remainder, -1, Err(EvalError::Overflow)),
        (Type::I64, -7, Divide, 2, Ok(-3)),
        (Type::I64, -7, Remainder, 2, Ok(-1)),
        (Type::I64, 7, Divide, 0, Err(EvalError::DivisionByZero)),
        (Type::I64, 7, Remainder, 0, Err(EvalError::DivisionByZero)),
    ] {
        let make = binary(Binary::Arithmetic(operator));
        let value = with_two([ty; 2], [Value::Int(a), Value::Int(b)], make);
        assert_eq!(value, expected.map(Value::Int), "{a} {operator:?} {b}");
    }
}

#[test]
fn values_compare_within_and_across_types() {
    use Relation::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let (u64_max, nan) = (Value::Int(u64::MAX.into()), Value::Float(f64::NAN));
    for (types, a, relation, b, expected) in [
        ([Type::U64, Type::I64], u64_max.clone(), Greater, Value::Int(-1), Ok(true)),
        ([Type::U64, Type::Big], u64_max.clone(), Less, Value::Int(1 << 64), Ok(true)),
        ([Type::U64, Type::Big], u64_max, Equal, Value::Int((1 << 64) - 1), Ok(true)),
        ([Type::U8, Type::F64], Value::Int(2), Less, Value::Float(2.5), Ok(true)),
        ([Type::F64, Type::U8], Value::Float(2.0), Equal, Value::Int(2), Ok(true)),
        ([Type::F64, Type::F64], Value::Float(-0.0), Equal, Value::Float(0.0), Ok(true)),
        ([Type::F64, Type::F64], nan.clone(), Equal, nan.clone(), Ok(false)),
        ([Type::F64, Type::F64], nan.clone(), NotEqual, nan.clone(), Ok(true)),
        ([Type::F64, Type::U8], nan, Less, Value::Int(1), Err(EvalError::NotANumber)),
        ([Type::Text, Type::Text], text("b"), Greater, text("a"), Ok(true)),
        ([Type::Text, Type::Text], text("Z"), LessOrEqual, text("a"), Ok(true)),
        ([Type::Text, Type::Text], text("é"), Equal, text("é"), Ok(true)),
        ([Type::Bool, Type::Bool], Value::Bool(false), Less, Value::Bool(true), Ok(true)),
        ([Type::Ip, Type::Ip], ip("10.0.0.1"), Equal, ip("::ffff:10.0.0.1"), Ok(true)),
        ([Type::Text, Type::Text], Value::Null, Equal, Value::Null, Ok(true)),
        ([Type::U8, Type::U8], Value::Null, Equal, Value::Int(0), Ok(false)),
        ([Type::U8, Type::U8], Value::Int(0), NotEqual, Value::Null, Ok(true)),
        (
            [Type::U8, Type::U8],
            Value::Null,
            GreaterOrEqual,
            Value::Null,
            Err(EvalError::NullOperand),
        ),
        ([Type::Text, Type::Text], text("a"), Less, Value::Null, Err(EvalError::NullOperand)),
    ] {
        let value = with_two(types, [a.clone(), b.clone()], binary(Binary::Compare(relation)));
        assert_eq!(value, expected.map(Value::Bool), "{a:?} {relation:?} {b:?}");
    }
}

#[test]
fn a_decisive_operand_hides_the_error_of_the_other() {
    let (no, yes, null) = (Value::Bool(false), Value::Bool(true), Value::Null);
    let failed = Err(EvalError::NullOperand);
    for (a, b, and, or) in [
        (&no, &no, Ok(false), Ok(false)),
        (&no, &yes, Ok(false), Ok(true)),
        (&yes, &no, Ok(false), Ok(true)),
        (&yes, &yes, Ok(true), Ok(true)),
        (&no, &null, Ok(false), failed),
        (&null, &no, Ok(false), failed),
        (&yes, &null, failed, Ok(true)),
        (&null, &yes, failed, Ok(true)),
        (&null, &null, failed, failed),
    ] {
        for (operator, expected) in [(Binary::And, and), (Binary::Or, or)] {
            let value = with_two([Type::Bool; 2], [a.clone(), b.clone()], binary(operator));
            assert_eq!(value, expected.map(Value::Bool), "{a:?} {operator:?} {b:?}");
        }
    }
}

#[test]
fn texts_are_searched_and_measured_in_characters() {
    for (a, search, b, expected) in [
        ("tcp/http", Search::Contains, "/h", true),
        ("tcp/http", Search::Contains, "H", false),
        ("tcp/http", Search::StartsWith, "tcp", true),
        ("tcp/http", Search::StartsWith, "http", false),
        ("tcp/http", Search::EndsWith, "http", true),
        ("tcp/http", Search::EndsWith, "", true),
    ] {
        let value = with_two([Type::Text; 2], [text(a), text(b)], binary(Binary::Search(search)));
        assert_eq!(value, Ok(Value::Bool(expected)), "{a} {search:?} {b}");
    }
    let size = |a, _| TypedExpr::unary(Unary::Size, a).unwrap();
    let value = with_two([Type::Text; 2], [text("πέντε"), Value::Null], size);
    assert_eq!(value, Ok(Value::Int(5)));
}

#[test]
fn conversions_cut_towards_zero_and_stay_within_64_bits() {
    for (number, expected) in [
        (2.9, Ok(2)),
        (-2.9, Ok(-2)),
        (9_223_372_036_854_774_784.0, Ok(9_223_372_036_854_774_784)),
        (9_223_372_036_854_775_808.0, Err(EvalError::Overflow)),
        (-9_223_372_036_854_775_808.0, Err(EvalError::Overflow)),
        (f64::INFINITY, Err(EvalError::Overflow)),
        (f64::NAN, Err(EvalError::NotANumber)),
    ] {
        let value = with_two([Type::F64; 2], [Value::Float(number), Value::Null], |a, _| {
            TypedExpr::unary(Unary::Int, a).unwrap()
        });
        assert_eq!(value, expected.map(Value::Int), "{number}");
    }
}

#[test]
fn lists_are_searched_by_equality() {
    let list =
        |values: &[Literal]| -> Vec<_> { values.iter().cloned().map(TypedExpr::literal).collect() };
    let ports = list(&[Literal::Int(443), Literal::Int(80), Literal::Int(8080)]);
    let floats = list(&[Literal::Int(2), Literal::Double(0.5), Literal::Null]);
    let texts = list(&[Literal::Text("b".into()), Literal::Text("a".into())]);
    let addresses = list(&[Literal::Ip([10, 0, 0, 9].into()), Literal::Ip([10, 0, 0, 1].into())]);
    for (ty, value, list, expected) in [
        (Type::U16, Value::Int(80), &ports, true),
        (Type::U16, Value::Int(81), &ports, false),
        (Type::U16, Value::Null, &ports, false),
        (Type::F64, Value::Float(2.0), &floats, true),
        (Type::F64, Value::Float(2.5), &floats, false),
        (Type::F64, Value::Null, &floats, true),
        (Type::Text, text("a"), &texts, true),
        (Type::Text, text("c"), &texts, false),
        (Type::Ip, ip("10.0.0.1"), &addresses, true),
        (Type::Ip, ip("10.0.0.2"), &addresses, false),
        (Type::Bool, Value::Bool(true), &Vec::new(), false),
    ] {
        let found = with_two([ty; 2], [value.clone(), Value::Null], |a, _| {
            TypedExpr::is_in(a, list.clone()).unwrap()
        });
        assert_eq!(found, Ok(Value::Bool(expected)), "{value:?}");
    }
}

#[test]
fn derived_types_are_the_narrowest_that_fit() {
    let field = |ty| TypedExpr::field(&Field::new("f", ty));
    let arithmetic = |operator, a, b| TypedExpr::binary(Binary::Arithmetic(operator), a, b);
    let divided = arithmetic(Arithmetic::Divide, field(Type::U8), int(4)).unwrap();
    let remainder = arithmetic(Arithmetic::Remainder, field(Type::U64), int(1000)).unwrap();
    let product = arithmetic(Arithmetic::Multiply, field(Type::U64), int(8)).unwrap();
    let difference = arithmetic(Arithmetic::Subtract, field(Type::U16), int(1)).unwrap();
    let null = || TypedExpr::literal(Literal::Null);
    let choice = TypedExpr::conditional(field(Type::Bool), null(), int(300)).unwrap();
    let folded = arithmetic(Arithmetic::Multiply, int(60), int(1000)).unwrap();
    for (expr, ty) in [
        (divided, Some(Type::U8)),
        (remainder, Some(Type::U16)),
        (product, Some(Type::Big)),
        (difference, Some(Type::I64)),
        (choice, Some(Type::U16)),
        (field(Type::U64), Some(Type::U64)),
        (folded, Some(Type::U16)),
        (TypedExpr::unary(Unary::Family, field(Type::Ip)).unwrap(), Some(Type::U8)),
        (TypedExpr::unary(Unary::Double, field(Type::Big)).unwrap(), Some(Type::F64)),
        (null(), None),
    ] {
        assert_eq!(expr.ty(), ty, "{expr:?}");
    }
}

#[test]
fn depth_is_bounded_and_constants_that_always_fail_are_refused() {
    let mut deep = TypedExpr::field(&Field::new("f", Type::Bool));
    for _ in 1..DEPTH_MAX {
        deep = TypedExpr::unary(Unary::Not, deep).unwrap();
    }
    let refused = TypedExpr::unary(Unary::Not, deep);
    assert_eq!(refused, Err(TypeError::TooDeep { limit: DEPTH_MAX }));

    let zero = TypedExpr::field(&Field::new("f", Type::U8));
    for (operator, left, right, error) in [
        (Arithmetic::Divide, zero.clone(), int(0), EvalError::DivisionByZero),
        (Arithmetic::Remainder, zero, int(0), EvalError::DivisionByZero),
        (Arithmetic::Add, int(i128::MAX), int(1), EvalError::Overflow),
    ] {
        let refused = TypedExpr::binary(Binary::Arithmetic(operator), left, right);
        assert_eq!(refused, Err(TypeError::Fails(error)));
    }
    let refused = TypedExpr::unary(Unary::Negate, int(i128::MIN));
    assert_eq!(refused, Err(TypeError::Fails(EvalError::Overflow)));
}

#[test]
fn nulls_are_found_by_has_and_fail_everything_else() {
    let field = Field::new("a", Type::Ip);
    for (value, expected) in [(Value::Null, false), (ip("::"), true)] {
        let found = with_two([Type::Ip; 2], [value, Value::Null], |_, _| TypedExpr::has(&field));
        assert_eq!(found, Ok(Value::Bool(expected)));
    }
    let inside =
        |a, _| TypedExpr::unary(Unary::Within(Cidr::parse("10.0.0.0/8").unwrap()), a).unwrap();
    let value = with_two([Type::Ip; 2], [ip("10.1.2.3"), Value::Null], inside);
    assert_eq!(value, Ok(Value::Bool(true)));
    let value = with_two([Type::Ip; 2], [Value::Null, Value::Null], inside);
    assert_eq!(value, Err(EvalError::NullOperand));
    let chosen = |a, b| TypedExpr::conditional(a, b, TypedExpr::literal(Literal::Null)).unwrap();
    for (condition, expected) in [
        (Value::Bool(true), Ok(Value::Int(7))),
        (Value::Bool(false), Ok(Value::Null)),
        (Value::Null, Err(EvalError::NullOperand)),
    ] {
        let value = with_two([Type::Bool, Type::U8], [condition, Value::Int(7)], chosen);
        assert_eq!(value, expected);
    }
}

#[test]
fn fields_are_named_once() {
    let a = TypedExpr::field(&Field::new("z", Type::U8));
    let has = TypedExpr::has(&Field::new("a", Type::Ip));
    let same = TypedExpr::binary(Binary::Compare(Relation::Equal), a.clone(), a).unwrap();
    let both = TypedExpr::binary(Binary::And, same, has).unwrap();
    assert_eq!(both.fields(), ["a", "z"]);
}
