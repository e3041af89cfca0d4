//! Values of fields: [`Datum`] as it lies in machine words, [`Value`] as a person reads it.
//!
//! A datum is `Copy` and names text by symbol; a value owns its text. Both order the same way:
//! null first, numbers by size across their types, text by bytes, addresses by their 128-bit form
//! (an IPv4 address is its IPv4-mapped IPv6 address, so that the two forms are one key).

use crate::symbol::{Symbol, Symbols, SymbolsFull};
use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Type {
    /// `true` or `false`.
    Bool,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits; also times in milliseconds.
    I64,
    /// Signed, 128 bits: sums and scaled byte counts.
    Big,
    /// IEEE double.
    F64,
    /// Text, interned.
    Text,
    /// IPv4 or IPv6 address.
    Ip,
    /// A JSON object as canonical text, printed as an object; interned.
    Object,
}

impl Type {
    /// Every type, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I64,
        Self::Big,
        Self::F64,
        Self::Text,
        Self::Ip,
        Self::Object,
    ];

    /// The name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::Big => "i128",
            Self::F64 => "f64",
            Self::Text => "text",
            Self::Ip => "ip",
            Self::Object => "object",
        }
    }

    /// Words of 64 bits that a row slot of this type takes.
    pub const fn words(self) -> usize {
        match self {
            Self::Big | Self::Ip => 2,
            Self::Bool
            | Self::U8
            | Self::U16
            | Self::U32
            | Self::U64
            | Self::I64
            | Self::F64
            | Self::Text
            | Self::Object => 1,
        }
    }

    /// Bits that a key needs for this type; at most 128.
    pub const fn key_bits(self) -> usize {
        match self {
            Self::Bool | Self::U8 => 8,
            Self::U16 => 16,
            Self::U32 | Self::Text | Self::Object => 32,
            Self::U64 | Self::I64 | Self::F64 => 64,
            Self::Big | Self::Ip => 128,
        }
    }

    /// Whether values are whole numbers, whose sums are exact.
    pub const fn is_integer(self) -> bool {
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::I64 | Self::Big => true,
            Self::Bool | Self::F64 | Self::Text | Self::Ip | Self::Object => false,
        }
    }

    /// Whether values can be added.
    pub const fn is_numeric(self) -> bool {
        self.is_integer() || matches!(self, Self::F64)
    }

    /// The smallest and largest whole number of this type, where it is one.
    pub const fn integer_range(self) -> Option<(i128, i128)> {
        match self {
            Self::U8 => Some((0, u8::MAX as i128)),
            Self::U16 => Some((0, u16::MAX as i128)),
            Self::U32 => Some((0, u32::MAX as i128)),
            Self::U64 => Some((0, u64::MAX as i128)),
            Self::I64 => Some((i64::MIN as i128, i64::MAX as i128)),
            Self::Big => Some((i128::MIN, i128::MAX)),
            Self::Bool | Self::F64 | Self::Text | Self::Ip | Self::Object => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value as it lies in a row, a key or an accumulator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Datum {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// Any whole number.
    Int(i128),
    /// A double.
    Float(f64),
    /// Interned text.
    Text(Symbol),
    /// An interned JSON object.
    Object(Symbol),
    /// An address in its 128-bit form.
    Ip(u128),
}

impl Datum {
    /// The address as its 128-bit form, IPv4 mapped.
    pub fn ip(address: IpAddr) -> Self {
        Self::Ip(ip_bits(address))
    }

    /// The value a person reads; texts are looked up in `symbols`.
    pub fn value(self, symbols: &Symbols) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => Value::Bool(truth),
            Self::Int(number) => Value::Int(number),
            Self::Float(number) => Value::Float(number),
            Self::Text(symbol) => Value::Text(symbols.text(symbol).into()),
            Self::Object(symbol) => Value::Object(symbols.text(symbol).into()),
            Self::Ip(bits) => Value::Ip(ip_address(bits)),
        }
    }

    /// The total order of values; texts are compared as texts.
    pub fn compare(self, other: Self, symbols: &Symbols) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(&b),
            (Self::Text(a), Self::Text(b)) | (Self::Object(a), Self::Object(b)) => {
                if a == b {
                    Ordering::Equal
                } else {
                    symbols.text(a).cmp(symbols.text(b))
                }
            }
            (Self::Ip(a), Self::Ip(b)) => a.cmp(&b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(&b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    /// Place of the kind among kinds; within one field only null and one other kind meet.
    const fn rank(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::Float(_) => 3,
            Self::Text(_) => 4,
            Self::Object(_) => 5,
            Self::Ip(_) => 6,
        }
    }
}

/// A value that owns its text: at the edges of the system, and in the oracle.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// Any whole number.
    Int(i128),
    /// A double.
    Float(f64),
    /// Text.
    Text(Arc<str>),
    /// A JSON object as canonical text.
    Object(Arc<str>),
    /// An address.
    Ip(IpAddr),
}

impl Value {
    /// The datum of this value, its text interned.
    ///
    /// # Errors
    /// The table of texts is full.
    pub fn intern(&self, symbols: &Symbols) -> Result<Datum, SymbolsFull> {
        Ok(match self {
            Self::Null => Datum::Null,
            Self::Bool(truth) => Datum::Bool(*truth),
            Self::Int(number) => Datum::Int(*number),
            Self::Float(number) => Datum::Float(*number),
            Self::Text(text) => Datum::Text(symbols.intern(text)?),
            Self::Object(text) => Datum::Object(symbols.intern(text)?),
            Self::Ip(address) => Datum::ip(*address),
        })
    }

    /// The total order of values, the same as [`Datum::compare`].
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) | (Self::Object(a), Self::Object(b)) => a.cmp(b),
            (Self::Ip(a), Self::Ip(b)) => ip_bits(*a).cmp(&ip_bits(*b)),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::Float(_) => 3,
            Self::Text(_) => 4,
            Self::Object(_) => 5,
            Self::Ip(_) => 6,
        }
    }

    /// Appends the value as JSON: whole numbers of any size, non-finite floats as the strings
    /// "NaN", "inf" and "-inf", addresses as strings.
    pub fn write_json(&self, out: &mut String) {
        use fmt::Write as _;
        // Writing to a String cannot fail.
        match self {
            Self::Null => out.write_str("null"),
            Self::Bool(truth) => write!(out, "{truth}"),
            Self::Int(number) => write!(out, "{number}"),
            Self::Float(number) => write_float(*number, out),
            Self::Text(text) => {
                write_json_text(text, out);
                Ok(())
            }
            Self::Object(text) => out.write_str(text),
            Self::Ip(address) => write!(out, "\"{address}\""),
        }
        .unwrap_or_default();
    }
}

fn write_float(number: f64, out: &mut String) -> fmt::Result {
    use fmt::Write as _;
    if number.is_nan() {
        out.write_str("\"NaN\"")
    } else if number.is_infinite() {
        out.write_str(if number > 0.0 { "\"inf\"" } else { "\"-inf\"" })
    } else {
        // `{:?}` keeps the point and round-trips.
        write!(out, "{number:?}")
    }
}

/// Appends `text` as a JSON string, quoted and escaped.
pub fn write_json_text(text: &str, out: &mut String) {
    use fmt::Write as _;
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if u32::from(control) < 0x20 => {
                // Writing to a String cannot fail.
                write!(out, "\\u{:04x}", u32::from(control)).unwrap_or_default();
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// The 128-bit form of an address; IPv4 is mapped into `::ffff:0:0/96`.
pub fn ip_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The address of a 128-bit form; what is mapped comes back as IPv4.
pub fn ip_address(bits: u128) -> IpAddr {
    let v6 = Ipv6Addr::from_bits(bits);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_json() {
        let text = Value::Text("a\"\\\n\u{1}é".into());
        for (value, expected) in [
            (Value::Null, "null"),
            (Value::Int(i128::MAX), "170141183460469231731687303715884105727"),
            (Value::Float(2.0), "2.0"),
            (Value::Float(f64::NAN), "\"NaN\""),
            (Value::Float(f64::NEG_INFINITY), "\"-inf\""),
            (Value::Ip("10.0.0.1".parse().unwrap()), "\"10.0.0.1\""),
            (Value::Object("{\"a\":1}".into()), "{\"a\":1}"),
            (text, "\"a\\\"\\\\\\n\\u0001é\""),
        ] {
            let mut out = String::new();
            value.write_json(&mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn data_and_values_order_alike() {
        let symbols = Symbols::default();
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int(-3),
            Value::Int(4),
            Value::Float(-0.5),
            Value::Text("b".into()),
            Value::Text("a".into()),
            Value::Ip("10.0.0.10".parse().unwrap()),
            Value::Ip("10.0.0.9".parse().unwrap()),
            Value::Ip("::1".parse().unwrap()),
        ];
        for a in &values {
            for b in &values {
                let (x, y) = (a.intern(&symbols).unwrap(), b.intern(&symbols).unwrap());
                assert_eq!(a.compare(b), x.compare(y, &symbols), "{a:?} {b:?}");
                assert_eq!(x.value(&symbols), *a);
            }
        }
    }
}
