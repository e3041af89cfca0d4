//! JSON in transcripts: fields of records become values, values are compared as JSON.

use crate::value::{Type, Value};
use serde_json::Value as Json;

/// How far two floats may lie apart, relative to the larger.
const TOLERANCE: f64 = 1e-9;

/// A field of a record is not of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}`: {found} is no {ty}")]
pub struct WrongField {
    /// The field.
    pub field: Box<str>,
    /// What stands there, as JSON.
    pub found: Box<str>,
    /// What the field takes.
    pub ty: &'static str,
}

/// The value of a field of type `ty`.
pub(super) fn value(field: &str, ty: Type, json: &Json) -> Result<Value, WrongField> {
    let wrong =
        || WrongField { field: field.into(), found: json.to_string().into(), ty: ty.name() };
    match (ty, json) {
        (_, Json::Null) => Ok(Value::Null),
        (Type::Bool, Json::Bool(truth)) => Ok(Value::Bool(*truth)),
        (Type::F64, Json::Number(number)) => {
            // The text may be a whole number of any size; what f64 cannot hold is infinite, and
            // not meant.
            let number = number.as_str().parse().ok().filter(|number: &f64| number.is_finite());
            number.map(Value::Float).ok_or_else(wrong)
        }
        (Type::F64, Json::String(text)) => match text.as_str() {
            "NaN" => Ok(Value::Float(f64::NAN)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "-inf" => Ok(Value::Float(f64::NEG_INFINITY)),
            _ => Err(wrong()),
        },
        (Type::Text, Json::String(text)) => Ok(Value::Text(text.as_str().into())),
        (Type::Ip, Json::String(text)) => text.parse().map(Value::Ip).map_err(|_error| wrong()),
        (Type::Object, Json::Object(_)) => Ok(Value::Object(json.to_string().into())),
        (_, Json::Number(number)) => {
            let (low, high) = ty.integer_range().ok_or_else(wrong)?;
            let whole = number.as_str().parse().ok();
            whole.filter(|whole| (low..=high).contains(whole)).map(Value::Int).ok_or_else(wrong)
        }
        (_, Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_)) => Err(wrong()),
    }
}

/// Whether two JSON values are the same: whole numbers exactly, other numbers within
/// [`TOLERANCE`], objects whatever the order of their members.
pub(super) fn is_same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => is_same_number(a.as_str(), b.as_str()),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let has_same = |(name, value)| b.get(name).is_some_and(|other| is_same(value, other));
            a.len() == b.len() && a.iter().all(has_same)
        }
        (Json::Null | Json::Bool(_) | Json::String(_), _)
        | (Json::Number(_) | Json::Array(_) | Json::Object(_), _) => a == b,
    }
}

fn is_same_number(a: &str, b: &str) -> bool {
    let is_whole = |text: &str| !text.contains(['.', 'e', 'E']);
    if is_whole(a) && is_whole(b) {
        // "-0" is the one whole number that is written in two ways.
        return a == b || (a == "-0" && b == "0") || (a == "0" && b == "-0");
    }
    let (Ok(a), Ok(b)) = (a.parse::<f64>(), b.parse::<f64>()) else { return false };
    a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

/// The JSON of named values, in their order.
pub(super) fn object_text<'a>(members: impl IntoIterator<Item = (&'a str, &'a Value)>) -> String {
    let mut text = String::from("{");
    for (name, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        crate::value::write_json_text(name, &mut text);
        text.push(':');
        value.write_json(&mut text);
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn values_compare_as_json() {
        for (a, b, expected) in [
            ("12", "12", true),
            ("12", "12.0", true),
            ("1.2e1", "12", true),
            ("12", "13", false),
            ("0", "-0", true),
            ("-0", "0.0", true),
            ("0.1", "0.10000000001", true),
            ("0.1", "0.100000001", false),
            ("1e300", "1.0000000001e300", true),
            ("0.0", "1e-300", false),
            // Beyond what a double holds exactly.
            (
                "170141183460469231731687303715884105727",
                "170141183460469231731687303715884105726",
                false,
            ),
            ("9007199254740993", "9007199254740992", false),
            ("\"NaN\"", "\"NaN\"", true),
            ("\"12\"", "12", false),
            ("null", "0", false),
            ("{\"a\":1,\"b\":[2,{}]}", "{\"b\":[2.0,{}],\"a\":1}", true),
            ("{\"a\":1}", "{\"a\":1,\"b\":null}", false),
            ("{\"a\":1,\"b\":null}", "{\"a\":1}", false),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,2]", false),
        ] {
            assert_eq!(is_same(&json(a), &json(b)), expected, "{a} {b}");
        }
    }

    #[test]
    fn fields_take_what_their_type_holds() {
        for (ty, text, expected) in [
            (Type::Bool, "true", Some(Value::Bool(true))),
            (Type::Bool, "1", None),
            (Type::U8, "255", Some(Value::Int(255))),
            (Type::U8, "256", None),
            (Type::U8, "-1", None),
            (Type::U8, "1.0", None),
            (Type::I64, "-9223372036854775808", Some(Value::Int(i128::from(i64::MIN)))),
            (Type::Big, "170141183460469231731687303715884105727", Some(Value::Int(i128::MAX))),
            (Type::Big, "170141183460469231731687303715884105728", None),
            (Type::F64, "3", Some(Value::Float(3.0))),
            (Type::F64, "1e999", None),
            (Type::F64, "\"-inf\"", Some(Value::Float(f64::NEG_INFINITY))),
            (Type::F64, "\"x\"", None),
            (Type::Text, "\"é\"", Some(Value::Text("é".into()))),
            (Type::Text, "5", None),
            (Type::Ip, "\"::ffff:10.0.0.1\"", Some(Value::Ip("::ffff:10.0.0.1".parse().unwrap()))),
            (Type::Ip, "\"10.0.0\"", None),
            (Type::Object, "{\"b\":1,\"a\":2}", Some(Value::Object("{\"a\":2,\"b\":1}".into()))),
            (Type::Object, "[]", None),
            (Type::U64, "null", Some(Value::Null)),
        ] {
            assert_eq!(value("f", ty, &json(text)).ok(), expected, "{ty} {text}");
        }
        let wrong = value("n", Type::U8, &json("\"7\"")).unwrap_err();
        assert_eq!(wrong.to_string(), "field `n`: \"7\" is no u8");
    }
}
