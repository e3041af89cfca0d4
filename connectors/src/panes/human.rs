//! Values as people read them in a table: bytes with units, digits in threes, times in UTC.

use jiff::Timestamp;
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;
use nilometer_model::value::{Datum, Value};
use serde_json::Value as Json;

/// An amount of bytes with a decimal unit: `999 B`, `1.23 kB`, `-45.6 MB`.
pub(crate) fn bytes(amount: i128) -> String {
    const UNITS: [&str; 8] = ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    if amount.unsigned_abs() < 1000 {
        return format!("{amount} B");
    }
    let mut scaled = amount as f64 / 1000.0;
    let mut unit = "kB";
    for next in UNITS.iter().skip(1) {
        // What would print as 1000 takes the next unit.
        if scaled.abs() < 999.5 {
            break;
        }
        scaled /= 1000.0;
        unit = next;
    }
    let places = match scaled.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.places$} {unit}")
}

/// A whole number, its digits in threes: `-1,234,567`.
pub(crate) fn count(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in UTC, its milliseconds only where there are some; plain milliseconds where the calendar
/// ends.
pub(crate) fn time(time: EventTime) -> String {
    let millis = time.as_millis();
    let format = if millis.rem_euclid(1000) == 0 { "%F %T" } else { "%F %T%.3f" };
    Timestamp::from_millisecond(millis)
        .map_or_else(|_| format!("{millis} ms"), |instant| instant.strftime(format).to_string())
}

/// Any value. Whole numbers are bytes if `is_bytes`.
pub(crate) fn value(datum: Datum, is_bytes: bool, symbols: &Symbols) -> String {
    match datum {
        Datum::Null => String::new(),
        Datum::Bool(truth) => if truth { "yes" } else { "no" }.to_owned(),
        Datum::Int(number) if is_bytes => bytes(number),
        Datum::Int(number) => count(number),
        Datum::Float(number) => format!("{number:.3}"),
        Datum::Text(symbol) => symbols.text(symbol).to_owned(),
        Datum::Object(symbol) => object(symbols.text(symbol)),
        Datum::Ip(bits) => nilometer_model::value::ip_address(bits).to_string(),
    }
}

/// Most entries of a list that a cell shows.
const LIST_MAX: usize = 5;

/// A text or list that an aggregate makes: of a list the first entries, the most frequent values
/// with their counts, and how many there are beside them.
pub(crate) fn own_result(result: &Value) -> String {
    let text = match result {
        Value::Null => return String::new(),
        Value::Text(text) => return text.to_string(),
        Value::Object(text) => text.to_string(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Ip(_) => {
            let mut text = String::new();
            result.write_json(&mut text);
            text
        }
    };
    let Ok(Json::Object(members)) = serde_json::from_str(&text) else { return text };
    let list = |name: &str| members.get(name).and_then(Json::as_array);
    let (shown, left_out) = match (list("entries"), list("values")) {
        (Some(entries), _) => (entries.iter().map(entry).collect::<Vec<_>>(), 0),
        (None, Some(values)) => {
            let left_out = members.get("left_out").and_then(Json::as_u64).unwrap_or(0);
            (values.iter().map(plain).collect(), left_out)
        }
        (None, None) => return text,
    };
    let more = shown.len().saturating_sub(LIST_MAX) as u64 + left_out;
    let mut text = shown.get(..LIST_MAX).unwrap_or(&shown).join(", ");
    if more > 0 {
        text.push_str(&format!(" and {} more", count(more.into())));
    }
    text
}

/// A frequent value, how often it came, and by how much that may be too high.
fn entry(entry: &Json) -> String {
    let number = |name: &str| entry.get(name).and_then(Json::as_u64).unwrap_or(0);
    let (value, error) = (entry.get("value").map_or_else(String::new, plain), number("error"));
    let often = count(number("count").into());
    if error == 0 {
        format!("{value} ({often})")
    } else {
        let least = number("count").saturating_sub(error);
        format!("{value} ({} to {often})", count(least.into()))
    }
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// An object: an exporter by the shortest name it has, anything else as it is.
fn object(text: &str) -> String {
    let Ok(Json::Object(members)) = serde_json::from_str(text) else { return text.to_owned() };
    let member = |name: &str| members.get(name).and_then(Json::as_str);
    match (member("foreign_source"), member("foreign_id"), member("address")) {
        (Some(source), Some(id), _) => format!("{source}:{id}"),
        (_, _, Some(address)) => address.to_owned(),
        (_, _, None) => match members.get("node_id") {
            Some(Json::Number(number)) => format!("node {number}"),
            Some(_) | None => text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_bytes_have_three_digits_and_a_unit() {
        for (amount, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (1_234, "1.23 kB"),
            (12_345, "12.3 kB"),
            (123_456, "123 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (9_996, "10.0 kB"),
            (-45_600_000, "-45.6 MB"),
            (i128::MAX, "170141183460469 YB"),
        ] {
            assert_eq!(bytes(amount), text, "{amount}");
        }
    }

    #[test]
    fn numbers_have_their_digits_in_threes() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")]
        {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn times_are_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01 00:00:00"),
            (1_699_999_963_410, "2023-11-14 22:12:43.410"),
            (-1, "1969-12-31 23:59:59.999"),
            (i64::MAX - 1, "9223372036854775806 ms"),
        ] {
            assert_eq!(time(EventTime::from_millis(millis)), text);
        }
    }

    #[test]
    fn lists_show_their_first_entries_and_how_many_there_are() {
        let object = |text: &str| own_result(&Value::Object(text.into()));
        let entry = |value: &str, count: u64, error: u64| {
            format!(r#"{{"value":{value},"count":{count},"error":{error}}}"#)
        };
        let entries = [entry("\"a\"", 1_200, 0), entry("7", 9, 4)].join(",");
        let frequent = format!(r#"{{"entries":[{entries}],"others_at_most":4}}"#);
        for (text, shown) in [
            (frequent.as_str(), "a (1,200), 7 (5 to 9)"),
            (r#"{"values":[1,2,3,4,5,6],"left_out":2000}"#, "1, 2, 3, 4, 5 and 2,001 more"),
            (r#"{"values":[],"left_out":0}"#, ""),
            (r#"{"mine":1}"#, r#"{"mine":1}"#),
        ] {
            assert_eq!(object(text), shown);
        }
        assert_eq!(own_result(&Value::Text("t".into())), "t");
    }

    #[test]
    fn exporters_have_short_names() {
        for (text, short) in [
            (r#"{"node_id":1,"foreign_source":"FS","foreign_id":"R1"}"#, "FS:R1"),
            (r#"{"node_id":7,"foreign_source":null,"foreign_id":null}"#, "node 7"),
            (r#"{"node_id":0,"address":"192.0.2.1"}"#, "192.0.2.1"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(object(text), short);
        }
    }
}
