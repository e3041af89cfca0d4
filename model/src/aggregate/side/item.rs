//! A value that is kept as it is: owned, ordered as values are, and serialised as it is.

use crate::symbol::Symbols;
use crate::value::{Datum, Value, ip_address};
use serde::{Deserialize, Serialize};

/// A value that is not null. Both zeros of floats are one, and all that is not a number is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Item {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A float, by its place in the total order of floats.
    Float(i64),
    /// A text.
    Text(Box<str>),
    /// A JSON object as canonical text.
    Object(Box<str>),
    /// An address in its 128-bit form.
    Ip(u128),
}

impl Item {
    /// The item of a datum; `None` for null.
    pub fn of(datum: Datum, symbols: &Symbols) -> Option<Self> {
        Some(match datum {
            Datum::Null => return None,
            Datum::Bool(truth) => Self::Bool(truth),
            Datum::Int(number) => Self::Int(number),
            Datum::Float(number) => Self::Float(place(number)),
            Datum::Text(symbol) => Self::Text(symbols.text(symbol).into()),
            Datum::Object(symbol) => Self::Object(symbols.text(symbol).into()),
            Datum::Ip(bits) => Self::Ip(bits),
        })
    }

    /// The value.
    pub fn value(&self) -> Value {
        match self {
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Float(place) => Value::Float(f64::from_bits(turned(*place) as u64)),
            Self::Text(text) => Value::Text((**text).into()),
            Self::Object(text) => Value::Object((**text).into()),
            Self::Ip(bits) => Value::Ip(ip_address(*bits)),
        }
    }

    /// Bytes of its text, if it is one.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Object(text) => text.len(),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Ip(_) => 0,
        }
    }
}

/// The place of a float among all: negative ones have all other bits turned.
fn place(number: f64) -> i64 {
    let canonical = if number.is_nan() {
        f64::NAN
    } else if number == 0.0 {
        0.0
    } else {
        number
    };
    turned(canonical.to_bits() as i64)
}

/// Turns all bits but the sign of negative numbers; twice is nothing.
const fn turned(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_order_as_values_do_and_come_back() {
        let symbols = Symbols::default();
        let values = [
            Value::Bool(false),
            Value::Bool(true),
            Value::Int(i128::MIN),
            Value::Int(-1),
            Value::Int(i128::MAX),
            Value::Float(f64::NEG_INFINITY),
            Value::Float(-2.5),
            Value::Float(-0.5),
            Value::Float(0.0),
            Value::Float(1e-300),
            Value::Float(f64::INFINITY),
            Value::Text("a".into()),
            Value::Text("b".into()),
            Value::Object("{}".into()),
            Value::Ip("10.0.0.1".parse().unwrap()),
            Value::Ip("2001:db8::1".parse().unwrap()),
        ];
        let item = |value: &Value| Item::of(value.intern(&symbols).unwrap(), &symbols).unwrap();
        for a in &values {
            assert_eq!(item(a).value(), *a);
            for b in &values {
                assert_eq!(item(a).cmp(&item(b)), a.compare(b), "{a:?} {b:?}");
            }
        }
        assert_eq!(Item::of(Datum::Null, &symbols), None);
        assert_eq!(item(&Value::Float(-0.0)), item(&Value::Float(0.0)));
        assert_eq!(item(&Value::Float(-f64::NAN)), item(&Value::Float(f64::NAN)));
    }
}
