//! What the user says about text records: which field is where, of which type, and which is the
//! event time; and how one value in text becomes a datum.

use crate::account::Reason;
use crate::text::number::{TimeUnit, double, time, whole};
use nilometer_model::row::{RowLayout, Slot, fits};
use nilometer_model::symbol::{SymbolCache, Symbols};
use nilometer_model::time::EventTime;
use nilometer_model::value::{Datum, Type, write_json_text};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

/// The fields of text records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSchema {
    /// Where the event time is: a path of member names with dots between them (`src.host` also
    /// finds a member called `src.host`), or the name of a CSV column.
    pub time: Box<str>,
    /// How event times are written.
    pub time_unit: TimeUnit,
    /// Fields other than the event time; names are unique.
    pub fields: Vec<RecordField>,
}

/// One field of text records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordField {
    /// Name in the pipeline.
    pub name: Box<str>,
    /// Type of its values; a value of another type makes the record malformed.
    pub ty: Type,
    /// Where it is, as for [`RecordSchema::time`]. What is absent or null is null.
    pub from: Box<str>,
}

/// What a value is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The event time of the record.
    Time(TimeUnit),
    /// A slot of its row.
    Slot(Slot),
}

/// The places of a schema that rows of a layout need, each once, with all that is read there.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    places: Vec<(Box<str>, Vec<Target>)>,
}

impl Places {
    /// The places of `schema` that a row of `layout` needs, the event time first.
    pub(crate) fn new(schema: &RecordSchema, layout: &RowLayout) -> Self {
        let mut places = vec![(schema.time.clone(), vec![Target::Time(schema.time_unit)])];
        for field in &schema.fields {
            let Some(slot) = layout.slot(&field.name).filter(|slot| slot.ty == field.ty) else {
                continue;
            };
            match places.iter_mut().find(|(place, _)| *place == field.from) {
                Some((_, targets)) => targets.push(Target::Slot(slot)),
                None => places.push((field.from.clone(), vec![Target::Slot(slot)])),
            }
        }
        Self { places }
    }

    /// The names of the places, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(name, _)| &**name)
    }

    /// What is read at place number `index`.
    pub(crate) fn targets(&self, index: usize) -> &[Target] {
        self.places.get(index).map_or(&[], |(_, targets)| targets)
    }

    /// The name of place number `index`.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.places.get(index).map_or("", |(name, _)| name)
    }
}

/// A value as text gives it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number, as it is written.
    Number(&'a str),
    /// Text.
    Text(Cow<'a, str>),
    /// A JSON object or array, as it is written.
    Nested(&'a str),
}

impl<'a> Scalar<'a> {
    /// The value that the JSON text `raw` is, which must be valid JSON without space around it.
    ///
    /// # Errors
    /// [`Reason::NotJson`] for text with half a surrogate pair, which the grammar lets through.
    pub(crate) fn of_json(raw: &'a str) -> Result<Self, Reason> {
        Ok(match raw.as_bytes() {
            [b'n', ..] => Self::Null,
            [b't', ..] => Self::Bool(true),
            [b'f', ..] => Self::Bool(false),
            [b'"', inner @ .., b'"'] => match std::str::from_utf8(inner) {
                Ok(text) if !text.contains('\\') => Self::Text(Cow::Borrowed(text)),
                Ok(_) | Err(_) => {
                    let text = serde_json::from_str(raw).map_err(|_| Reason::NotJson)?;
                    Self::Text(Cow::Owned(text))
                }
            },
            [b'{' | b'[', ..] => Self::Nested(raw),
            _ => Self::Number(raw),
        })
    }

    /// The value that the CSV cell `cell` is in a field of type `ty`. An empty cell is null.
    pub(crate) fn of_cell(cell: &'a str, ty: Type) -> Self {
        if cell.is_empty() {
            return Self::Null;
        }
        match ty {
            Type::Bool if cell == "true" => Self::Bool(true),
            Type::Bool if cell == "false" => Self::Bool(false),
            Type::F64 if double(cell).is_err() => Self::Text(Cow::Borrowed(cell)),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I64 | Type::Big | Type::F64 => {
                Self::Number(cell)
            }
            Type::Object => Self::Nested(cell),
            Type::Bool | Type::Text | Type::Ip => Self::Text(Cow::Borrowed(cell)),
        }
    }

    /// The event time that the value is; `None` for null.
    ///
    /// # Errors
    /// It is no such time, or out of range.
    pub(crate) fn time(&self, unit: TimeUnit) -> Result<Option<EventTime>, Reason> {
        match self {
            Self::Null => Ok(None),
            Self::Number(text) if unit.is_number() => time(text, unit).map(Some),
            Self::Text(text) if !unit.is_number() => time(text, unit).map(Some),
            Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::Nested(_) => {
                Err(Reason::WrongType)
            }
        }
    }

    /// The datum that the value is in a field of type `ty`.
    ///
    /// # Errors
    /// It is of another type, out of range, or text that finds no room in the table.
    pub(crate) fn datum(&self, ty: Type, texts: &mut Texts) -> Result<Datum, Reason> {
        let datum = match (self, ty) {
            (Self::Null, _) => Datum::Null,
            (Self::Bool(truth), Type::Bool) => Datum::Bool(*truth),
            (Self::Number(text), Type::F64) => Datum::Float(double(text)?),
            (Self::Text(text), Type::F64) => Datum::Float(not_finite(text)?),
            (Self::Number(text), ty) if ty.is_integer() => Datum::Int(whole(text)?),
            (Self::Text(text), Type::Text) => texts.text(text)?,
            (Self::Text(text), Type::Ip) => {
                let address: IpAddr = text.parse().map_err(|_| Reason::WrongType)?;
                Datum::ip(address)
            }
            (Self::Nested(raw), Type::Object) => texts.object(raw)?,
            (
                Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::Nested(_),
                Type::Bool
                | Type::U8
                | Type::U16
                | Type::U32
                | Type::U64
                | Type::I64
                | Type::Big
                | Type::F64
                | Type::Text
                | Type::Ip
                | Type::Object,
            ) => return Err(Reason::WrongType),
        };
        if fits(datum, ty) { Ok(datum) } else { Err(Reason::OutOfRange) }
    }
}

/// The floats that JSON numbers cannot say, as our own output writes them.
fn not_finite(text: &str) -> Result<f64, Reason> {
    match text {
        "NaN" => Ok(f64::NAN),
        "inf" => Ok(f64::INFINITY),
        "-inf" => Ok(f64::NEG_INFINITY),
        _ => Err(Reason::WrongType),
    }
}

/// The texts of one source: a table that all share, and this source's view of it.
#[derive(Debug)]
pub(crate) struct Texts {
    symbols: Arc<Symbols>,
    /// Holds the symbols of the texts seen. It bounds itself.
    cache: SymbolCache,
    /// Scratch for canonical objects.
    canonical: String,
}

impl Texts {
    /// No text seen yet.
    pub(crate) fn new(symbols: Arc<Symbols>) -> Self {
        Self { symbols, cache: SymbolCache::default(), canonical: String::new() }
    }

    fn text(&mut self, text: &str) -> Result<Datum, Reason> {
        self.cache.intern(&self.symbols, text).map(Datum::Text).map_err(|_| Reason::TooManyTexts)
    }

    fn object(&mut self, raw: &str) -> Result<Datum, Reason> {
        let value: Json = serde_json::from_str(raw).map_err(|_| Reason::WrongType)?;
        if !value.is_object() {
            return Err(Reason::WrongType);
        }
        self.canonical.clear();
        write_canonical(&value, &mut self.canonical);
        self.cache
            .intern(&self.symbols, &self.canonical)
            .map(Datum::Object)
            .map_err(|_| Reason::TooManyTexts)
    }
}

/// Appends `value` without space, members in the order of their names: equal objects are then equal
/// texts. No deeper than the parser's own limit.
fn write_canonical(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number.to_string()),
        Json::String(text) => write_json_text(text, out),
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                write_canonical(item, out);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (index, (name, member)) in members.iter().enumerate() {
                out.push(if index == 0 { '{' } else { ',' });
                write_json_text(name, out);
                out.push(':');
                write_canonical(member, out);
            }
            out.push_str(if members.is_empty() { "{}" } else { "}" });
        }
    }
}

/// The particulars of a value that does not fit: `field "v" is not a u8: 256`.
pub(crate) fn complaint(name: &str, expected: &str, raw: &str) -> String {
    const SHOWN: usize = 60;
    let shown: String = raw.chars().take(SHOWN).collect();
    let more = if shown.len() < raw.len() { "..." } else { "" };
    format!("`{name}` is no {expected}: {shown}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_model::value::Value;

    fn value(scalar: Result<Scalar<'_>, Reason>, ty: Type) -> Result<Value, Reason> {
        let symbols = Arc::new(Symbols::default());
        let datum = scalar?.datum(ty, &mut Texts::new(symbols.clone()))?;
        Ok(datum.value(&symbols))
    }

    fn text(text: &str) -> Result<Value, Reason> {
        Ok(Value::Text(text.into()))
    }

    #[test]
    fn json_values_are_checked_against_their_type() {
        use Reason::{NotJson, OutOfRange, WrongType};
        let object = |text: &str| Ok(Value::Object(text.into()));
        for (raw, ty, expected) in [
            ("null", Type::U8, Ok(Value::Null)),
            ("true", Type::Bool, Ok(Value::Bool(true))),
            ("1", Type::Bool, Err(WrongType)),
            ("255", Type::U8, Ok(Value::Int(255))),
            ("256", Type::U8, Err(OutOfRange)),
            ("-1", Type::U64, Err(OutOfRange)),
            ("5.0", Type::I64, Ok(Value::Int(5))),
            ("5.5", Type::I64, Err(WrongType)),
            ("\"5\"", Type::I64, Err(WrongType)),
            ("5", Type::F64, Ok(Value::Float(5.0))),
            ("1e999", Type::F64, Err(OutOfRange)),
            ("\"-inf\"", Type::F64, Ok(Value::Float(f64::NEG_INFINITY))),
            ("\"five\"", Type::F64, Err(WrongType)),
            ("\"a\\u00e9\\n\"", Type::Text, text("aé\n")),
            ("\"\"", Type::Text, text("")),
            ("\"\\ud800\"", Type::Text, Err(NotJson)),
            ("7", Type::Text, Err(WrongType)),
            ("\"::ffff:10.0.0.1\"", Type::Ip, Ok(Value::Ip("10.0.0.1".parse().unwrap()))),
            ("\"10.0.0\"", Type::Ip, Err(WrongType)),
            (
                r#"{"b": [1, {}, []], "a" :{"d":1.50,"c":"\u0041"}}"#,
                Type::Object,
                object(r#"{"a":{"c":"A","d":1.50},"b":[1,{},[]]}"#),
            ),
            ("[1]", Type::Object, Err(WrongType)),
            ("{}", Type::Text, Err(WrongType)),
        ] {
            assert_eq!(value(Scalar::of_json(raw), ty), expected, "{raw} as {ty}");
        }
    }

    #[test]
    fn csv_cells_are_read_as_their_type() {
        use Reason::{OutOfRange, WrongType};
        for (cell, ty, expected) in [
            ("", Type::Text, Ok(Value::Null)),
            ("", Type::U8, Ok(Value::Null)),
            ("null", Type::Text, text("null")),
            ("true", Type::Bool, Ok(Value::Bool(true))),
            ("TRUE", Type::Bool, Err(WrongType)),
            ("-3", Type::I64, Ok(Value::Int(-3))),
            ("65536", Type::U16, Err(OutOfRange)),
            (" 1", Type::U16, Err(WrongType)),
            ("2.5", Type::F64, Ok(Value::Float(2.5))),
            ("inf", Type::F64, Ok(Value::Float(f64::INFINITY))),
            ("2,5", Type::F64, Err(WrongType)),
            ("::1", Type::Ip, Ok(Value::Ip("::1".parse().unwrap()))),
            ("{\"a\":1", Type::Object, Err(WrongType)),
        ] {
            assert_eq!(value(Ok(Scalar::of_cell(cell, ty)), ty), expected, "{cell} as {ty}");
        }
    }

    #[test]
    fn a_full_table_of_texts_is_a_reason() {
        let mut texts = Texts::new(Arc::new(Symbols::with_limit(0)));
        for (scalar, ty) in
            [(Scalar::Text("a".into()), Type::Text), (Scalar::Nested("{}"), Type::Object)]
        {
            assert_eq!(scalar.datum(ty, &mut texts), Err(Reason::TooManyTexts));
        }
    }

    #[test]
    fn event_times_have_the_type_of_their_unit() {
        let millis = |millis| Ok(Some(EventTime::from_millis(millis)));
        for (raw, unit, expected) in [
            ("null", TimeUnit::Millis, Ok(None)),
            ("17", TimeUnit::Millis, millis(17)),
            ("\"17\"", TimeUnit::Millis, Err(Reason::WrongType)),
            ("\"1970-01-01T00:00:00Z\"", TimeUnit::Rfc3339, millis(0)),
            ("17", TimeUnit::Rfc3339, Err(Reason::WrongType)),
            ("{}", TimeUnit::Seconds, Err(Reason::WrongType)),
        ] {
            assert_eq!(Scalar::of_json(raw).unwrap().time(unit), expected, "{raw}");
        }
    }

    #[test]
    fn places_are_those_that_the_layout_needs() {
        let field =
            |name: &str, ty, from: &str| RecordField { name: name.into(), ty, from: from.into() };
        let schema = RecordSchema {
            time: "ts".into(),
            time_unit: TimeUnit::Millis,
            fields: vec![
                field("when", Type::I64, "ts"),
                field("a", Type::U8, "x.a"),
                field("unread", Type::U8, "x.b"),
            ],
        };
        let layout = RowLayout::new([
            nilometer_model::row::Field::new("a", Type::U8),
            nilometer_model::row::Field::new("when", Type::I64),
        ]);
        let places = Places::new(&schema, &layout);
        assert_eq!(places.names().collect::<Vec<_>>(), ["ts", "x.a"]);
        let when = Target::Slot(layout.slot("when").unwrap());
        assert_eq!(places.targets(0), [Target::Time(TimeUnit::Millis), when]);
        assert_eq!(places.targets(1), [Target::Slot(layout.slot("a").unwrap())]);
    }

    #[test]
    fn complaints_are_short() {
        assert_eq!(complaint("v", "u8", "256"), "`v` is no u8: 256");
        let long = complaint("v", "ip", &"é".repeat(100));
        assert_eq!(long, format!("`v` is no ip: {}...", "é".repeat(60)));
    }
}
