//! Numbers and times as text, exactly: no digit passes through a float unless a float is wanted.

use crate::account::Reason;
use jiff::Timestamp;
use nilometer_model::time::EventTime;

/// A decimal number, `mantissa x 10^exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    mantissa: i128,
    exponent: i32,
}

/// Digits of 10^38, the largest power of ten in an `i128`.
const DIGITS_MAX: u32 = 38;

impl Decimal {
    /// Reads an optional sign, digits, an optional fraction and an optional exponent.
    fn parse(text: &str) -> Result<Self, Reason> {
        let (is_negative, digits) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (digits, power) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => {
                let (digits, power) = digits.split_at(at);
                (digits, exponent(power.get(1..).unwrap_or_default())?)
            }
            None => (digits, 0),
        };
        let (whole, fraction) = match digits.iter().position(|byte| *byte == b'.') {
            Some(at) => {
                let (whole, rest) = digits.split_at(at);
                let fraction = rest.get(1..).unwrap_or_default();
                if fraction.is_empty() {
                    return Err(Reason::WrongType);
                }
                (whole, fraction)
            }
            None => (digits, &[][..]),
        };
        if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return Err(Reason::WrongType);
        }
        let kept = fraction.len() - fraction.iter().rev().take_while(|byte| **byte == b'0').count();
        let digits = whole.iter().chain(fraction.iter().take(kept)).map(|byte| byte - b'0');
        let mantissa = mantissa(digits, is_negative).ok_or(Reason::OutOfRange)?;
        let places = i32::try_from(kept).map_err(|_| Reason::OutOfRange)?;
        Ok(Self { mantissa, exponent: power.saturating_sub(places) })
    }

    /// The number times `10^shift`: its largest whole number not above it, and whether that is all.
    fn floor(self, shift: i32) -> Result<(i128, bool), Reason> {
        let exponent = self.exponent.saturating_add(shift);
        let power = exponent.unsigned_abs();
        if self.mantissa == 0 || power == 0 {
            return Ok((self.mantissa, true));
        }
        if exponent >= 0 {
            let scale = (power <= DIGITS_MAX).then(|| 10i128.pow(power));
            let scaled = scale.and_then(|scale| self.mantissa.checked_mul(scale));
            return Ok((scaled.ok_or(Reason::OutOfRange)?, true));
        }
        if power > DIGITS_MAX {
            return Ok((if self.mantissa < 0 { -1 } else { 0 }, false));
        }
        let scale = 10i128.pow(power);
        Ok((self.mantissa.div_euclid(scale), self.mantissa % scale == 0))
    }
}

/// The number that `digits` are, if it fits.
fn mantissa(mut digits: impl Iterator<Item = u8>, is_negative: bool) -> Option<i128> {
    // Nearly all numbers fit a word, where steps cost a tenth.
    let (mut low, mut next) = (0u64, digits.next());
    while let Some(digit) = next {
        match low.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit))) {
            Some(sum) => (low, next) = (sum, digits.next()),
            None => break,
        }
    }
    let signed = |number: i128| if is_negative { -number } else { number };
    next.into_iter().chain(digits).try_fold(signed(i128::from(low)), |sum, digit| {
        sum.checked_mul(10)?.checked_add(signed(i128::from(digit)))
    })
}

fn exponent(digits: &[u8]) -> Result<i32, Reason> {
    let (is_negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Reason::WrongType);
    }
    // Beyond 10^9 every number but zero is out of range or a tiny fraction, whatever follows.
    let power = digits.iter().fold(0i32, |power, digit| {
        power.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(1_000_000_000)
    });
    Ok(if is_negative { -power } else { power })
}

/// The whole number that `text` is, however it is written: `5`, `5.0`, `5e0`.
///
/// # Errors
/// [`Reason::WrongType`] if it is no number or not whole, [`Reason::OutOfRange`] beyond `i128`.
pub(crate) fn whole(text: &str) -> Result<i128, Reason> {
    let bytes = text.as_bytes();
    // Nearly all numbers are short rows of digits.
    if (1..=18).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit) {
        let number = bytes.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        return Ok(i128::from(number));
    }
    match Decimal::parse(text)?.floor(0)? {
        (number, true) => Ok(number),
        (_, false) => Err(Reason::WrongType),
    }
}

/// The double nearest to the number that `text` is.
///
/// # Errors
/// [`Reason::WrongType`] if it is no number, [`Reason::OutOfRange`] beyond the largest double.
pub(crate) fn double(text: &str) -> Result<f64, Reason> {
    let begins = text.bytes().find(|byte| !matches!(byte, b'-' | b'+'));
    if !begins.is_some_and(|byte| byte.is_ascii_digit()) {
        return Err(Reason::WrongType);
    }
    let number: f64 = text.parse().map_err(|_| Reason::WrongType)?;
    if number.is_finite() { Ok(number) } else { Err(Reason::OutOfRange) }
}

/// How event times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeUnit {
    /// Seconds since the Unix epoch, a fraction allowed.
    Seconds,
    /// Milliseconds since the Unix epoch.
    #[default]
    Millis,
    /// Microseconds since the Unix epoch.
    Micros,
    /// Nanoseconds since the Unix epoch.
    Nanos,
    /// RFC 3339 text, with its offset: `2026-01-31T09:30:00.5+01:00`.
    Rfc3339,
}

impl TimeUnit {
    /// Every unit.
    pub const ALL: [Self; 5] =
        [Self::Seconds, Self::Millis, Self::Micros, Self::Nanos, Self::Rfc3339];

    /// The name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
            Self::Rfc3339 => "rfc3339",
        }
    }

    /// The power of ten from this unit to milliseconds; none for text.
    const fn shift(self) -> Option<i32> {
        match self {
            Self::Seconds => Some(3),
            Self::Millis => Some(0),
            Self::Micros => Some(-3),
            Self::Nanos => Some(-6),
            Self::Rfc3339 => None,
        }
    }

    /// Whether times of this unit are numbers, not text.
    pub const fn is_number(self) -> bool {
        self.shift().is_some()
    }
}

/// The event time that `text` is in `unit`; what is finer than a millisecond is rounded down.
///
/// # Errors
/// [`Reason::WrongType`] if it is no such time, [`Reason::OutOfRange`] beyond what a time can be.
pub(crate) fn time(text: &str, unit: TimeUnit) -> Result<EventTime, Reason> {
    let millis = match unit.shift() {
        Some(shift) => Decimal::parse(text)?.floor(shift)?.0,
        None => {
            let instant: Timestamp = text.parse().map_err(|_| Reason::WrongType)?;
            instant.as_nanosecond().div_euclid(1_000_000)
        }
    };
    let millis = i64::try_from(millis).map_err(|_| Reason::OutOfRange)?;
    // The ends of the type are the infinities, which no record happened at.
    if millis == i64::MIN || millis == i64::MAX {
        return Err(Reason::OutOfRange);
    }
    Ok(EventTime::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact_however_written() {
        use Reason::{OutOfRange, WrongType};
        for (text, expected) in [
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("007", Ok(7)),
            ("+7", Ok(7)),
            ("18446744073709551615", Ok(u64::MAX.into())),
            ("170141183460469231731687303715884105727", Ok(i128::MAX)),
            ("-170141183460469231731687303715884105728", Ok(i128::MIN)),
            ("170141183460469231731687303715884105728", Err(OutOfRange)),
            ("5.000", Ok(5)),
            ("1.5e1", Ok(15)),
            ("150E-1", Ok(15)),
            ("9007199254740993.0", Ok(9_007_199_254_740_993)),
            ("1e38", Ok(10i128.pow(38))),
            ("1e39", Err(OutOfRange)),
            ("0e999999999999", Ok(0)),
            ("1e-999999999999", Err(WrongType)),
            ("5.5", Err(WrongType)),
            ("-1e-1", Err(WrongType)),
            ("", Err(WrongType)),
            ("-", Err(WrongType)),
            ("5.", Err(WrongType)),
            (".5", Err(WrongType)),
            ("1e", Err(WrongType)),
            ("0x10", Err(WrongType)),
            ("1 ", Err(WrongType)),
            ("٣", Err(WrongType)),
        ] {
            assert_eq!(whole(text), expected, "{text}");
        }
    }

    #[test]
    fn doubles_are_finite() {
        for (text, expected) in [
            ("-2.5e-3", Ok(-0.0025)),
            ("7", Ok(7.0)),
            ("1e309", Err(Reason::OutOfRange)),
            ("inf", Err(Reason::WrongType)),
            ("-inf", Err(Reason::WrongType)),
            ("NaN", Err(Reason::WrongType)),
            ("1,5", Err(Reason::WrongType)),
            ("", Err(Reason::WrongType)),
        ] {
            assert_eq!(double(text), expected, "{text}");
        }
    }

    #[test]
    fn times_are_rounded_down_to_milliseconds() {
        use Reason::{OutOfRange, WrongType};
        use TimeUnit::{Micros, Millis, Nanos, Rfc3339, Seconds};
        for (text, unit, expected) in [
            ("1591367999.305988", Seconds, Ok(1_591_367_999_305)),
            ("1.001", Seconds, Ok(1_001)),
            ("-0.0001", Seconds, Ok(-1)),
            ("1.5913679993e9", Seconds, Ok(1_591_367_999_300)),
            ("-5", Millis, Ok(-5)),
            ("0", Millis, Ok(0)),
            ("5.9", Millis, Ok(5)),
            ("1999", Micros, Ok(1)),
            ("-1", Nanos, Ok(-1)),
            ("9223372036854775806", Millis, Ok(i64::MAX - 1)),
            ("9223372036854775807", Millis, Err(OutOfRange)),
            ("-9223372036854775808", Millis, Err(OutOfRange)),
            ("9223372036854775807", Seconds, Err(OutOfRange)),
            ("1e300", Millis, Err(OutOfRange)),
            ("yesterday", Millis, Err(WrongType)),
            ("1970-01-01T00:00:01.0009Z", Rfc3339, Ok(1_000)),
            ("1969-12-31T23:59:59.9999Z", Rfc3339, Ok(-1)),
            ("2026-01-31T09:30:00+01:00", Rfc3339, Ok(1_769_848_200_000)),
            ("2026-01-31T09:30:00", Rfc3339, Err(WrongType)),
            ("2026-02-30T09:30:00Z", Rfc3339, Err(WrongType)),
        ] {
            let expected = expected.map(EventTime::from_millis);
            assert_eq!(time(text, unit), expected, "{text} {}", unit.name());
        }
    }
}
