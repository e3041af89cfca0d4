//! How JSON objects of flows write their values: leniently where writers differ, never guessing.

use crate::account::Reason;
use crate::flow_tables::Protocol;
use crate::text::number::{TimeUnit, double, time, whole};
use crate::text::schema::Scalar;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use nilometer_model::flow::{Direction, FlowVersion};
use nilometer_model::time::EventTime;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) type Text<'a> = Cow<'a, str>;

/// Why a value does not fit, and what was expected.
pub(crate) type Misfit = (Reason, &'static str);

/// A whole number, plain or as text; null and empty text are no value.
fn integer(value: &Scalar<'_>, expected: &'static str) -> Result<Option<i128>, Misfit> {
    let digits = match value {
        Scalar::Null => return Ok(None),
        Scalar::Text(text) if text.is_empty() => return Ok(None),
        Scalar::Number(digits) => digits,
        Scalar::Text(digits) => &**digits,
        Scalar::Bool(_) | Scalar::Nested(_) => return Err((Reason::WrongType, expected)),
    };
    whole(digits).map(Some).map_err(|reason| (reason, expected))
}

pub(crate) fn unsigned<N: TryFrom<i128>>(
    value: &Scalar<'_>,
    expected: &'static str,
) -> Result<Option<N>, Misfit> {
    let number = integer(value, expected)?;
    number.map(|number| N::try_from(number).map_err(|_| (Reason::OutOfRange, expected))).transpose()
}

pub(crate) fn millis(value: &Scalar<'_>) -> Result<Option<i64>, Misfit> {
    match unsigned::<i64>(value, "time in ms")? {
        Some(before_1970) if before_1970 < 0 => Err((Reason::OutOfRange, "time in ms")),
        millis => Ok(millis),
    }
}

pub(crate) fn interval(value: &Scalar<'_>) -> Result<Option<f64>, Misfit> {
    let number = match value {
        Scalar::Null => return Ok(None),
        Scalar::Number(text) => double(text),
        Scalar::Text(text) => match &**text {
            "" => return Ok(None),
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            digits => double(digits),
        },
        Scalar::Bool(_) | Scalar::Nested(_) => Err(Reason::WrongType),
    };
    number.map(Some).map_err(|reason| (reason, "number"))
}

pub(crate) fn text<'a>(value: Scalar<'a>) -> Result<Option<Text<'a>>, Misfit> {
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Scalar::Bool(_) | Scalar::Number(_) | Scalar::Nested(_) => Err((Reason::WrongType, "text")),
    }
}

pub(crate) fn shared(value: Scalar<'_>) -> Result<Option<Arc<str>>, Misfit> {
    Ok(text(value)?.map(Arc::from))
}

pub(crate) fn address(value: &Scalar<'_>) -> Result<Option<IpAddr>, Misfit> {
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) if text.is_empty() => Ok(None),
        Scalar::Text(text) => {
            let address = text.parse::<IpAddr>().map_err(|_| (Reason::WrongType, "address"))?;
            Ok(Some(address.to_canonical()))
        }
        Scalar::Bool(_) | Scalar::Number(_) | Scalar::Nested(_) => {
            Err((Reason::WrongType, "address"))
        }
    }
}

/// A direction by name or number; whatever it does not know is unknown, as in the wire format.
pub(crate) fn direction(value: &Scalar<'_>) -> Result<Option<Direction>, Misfit> {
    let known = [Direction::Ingress, Direction::Egress, Direction::Unknown];
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => {
            let named = known.into_iter().find(|direction| direction.name() == &**text);
            Ok(Some(named.unwrap_or(Direction::Unknown)))
        }
        Scalar::Number(_) => {
            let number: Option<u64> = unsigned(value, "direction")?;
            Ok(number.map(Direction::from_number))
        }
        Scalar::Bool(_) | Scalar::Nested(_) => Err((Reason::WrongType, "direction")),
    }
}

/// An export format by name or number; one that is not known is none.
pub(crate) fn version(value: &Scalar<'_>) -> Result<Option<FlowVersion>, Misfit> {
    const BY_NUMBER: [FlowVersion; 4] =
        [FlowVersion::V5, FlowVersion::V9, FlowVersion::Ipfix, FlowVersion::Sflow];
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => Ok(text.parse().ok()),
        Scalar::Number(_) => {
            let number: Option<usize> = unsigned(value, "version")?;
            Ok(number.and_then(|number| BY_NUMBER.get(number)).copied())
        }
        Scalar::Bool(_) | Scalar::Nested(_) => Err((Reason::WrongType, "version")),
    }
}

pub(crate) fn is_node(value: &Scalar<'_>) -> Result<bool, Misfit> {
    match value {
        Scalar::Null => Ok(false),
        Scalar::Nested(raw) if raw.starts_with('{') => Ok(true),
        Scalar::Nested(_) | Scalar::Bool(_) | Scalar::Number(_) | Scalar::Text(_) => {
            Err((Reason::WrongType, "node"))
        }
    }
}

/// A point in time: a number in `unit`, plain or as text; or a date and time, with an offset or, as
/// without one, in UTC. Null, empty text and the year 0 are no value.
pub(crate) fn instant(value: &Scalar<'_>, unit: TimeUnit) -> Result<Option<i64>, Misfit> {
    const EXPECTED: &str = "time";
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let at = match value {
        Scalar::Null => return Ok(None),
        Scalar::Text(text) if text.is_empty() || text.starts_with("0000-00-00") => return Ok(None),
        Scalar::Number(digits) => time(digits, unit),
        Scalar::Text(digits) if is_number(digits) => time(digits, unit),
        Scalar::Text(date) => time(date, TimeUnit::Rfc3339).or_else(|_| utc(date)),
        Scalar::Bool(_) | Scalar::Nested(_) => Err(Reason::WrongType),
    };
    match at.map_err(|reason| (reason, EXPECTED))?.as_millis() {
        before_1970 if before_1970 < 0 => Err((Reason::OutOfRange, EXPECTED)),
        millis => Ok(Some(millis)),
    }
}

fn utc(date: &str) -> Result<EventTime, Reason> {
    let date: DateTime = date.parse().map_err(|_| Reason::WrongType)?;
    let at = TimeZone::UTC.to_timestamp(date).map_err(|_| Reason::OutOfRange)?;
    Ok(EventTime::from_millis(at.as_millisecond()))
}

/// A sampling rate, of which 0 says that it is not known.
pub(crate) fn rate(value: &Scalar<'_>) -> Result<Option<f64>, Misfit> {
    Ok(interval(value)?.filter(|rate| *rate != 0.0))
}

/// A protocol by number or name; a name that is not known is none.
pub(crate) fn protocol(value: &Scalar<'_>) -> Result<Option<u8>, Misfit> {
    match value {
        Scalar::Text(name) if !name.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(name.parse().ok().map(|Protocol(number)| number))
        }
        Scalar::Null | Scalar::Number(_) | Scalar::Text(_) => unsigned(value, "protocol"),
        Scalar::Bool(_) | Scalar::Nested(_) => Err((Reason::WrongType, "protocol")),
    }
}

/// A direction of those who have a name for its being unknown, and count from it: whatever is neither
/// is not said.
pub(crate) fn way(value: &Scalar<'_>) -> Result<Option<Direction>, Misfit> {
    match value {
        Scalar::Text(name) => Ok(match &**name {
            "ingress" | "i" => Some(Direction::Ingress),
            "egress" | "e" => Some(Direction::Egress),
            _ => None,
        }),
        Scalar::Null | Scalar::Number(_) => Ok(match unsigned::<u64>(value, "direction")? {
            Some(1) => Some(Direction::Ingress),
            Some(2) => Some(Direction::Egress),
            Some(_) | None => None,
        }),
        Scalar::Bool(_) | Scalar::Nested(_) => Err((Reason::WrongType, "direction")),
    }
}

/// An export format by the name or number of goflow2; one that is not known is none.
pub(crate) fn export(value: &Scalar<'_>) -> Result<Option<FlowVersion>, Misfit> {
    const KNOWN: [(&str, FlowVersion); 4] = [
        ("SFLOW_5", FlowVersion::Sflow),
        ("NETFLOW_V5", FlowVersion::V5),
        ("NETFLOW_V9", FlowVersion::V9),
        ("IPFIX", FlowVersion::Ipfix),
    ];
    let known = match value {
        Scalar::Text(name) => KNOWN.iter().find(|(known, _)| *known == &**name),
        Scalar::Null | Scalar::Number(_) => {
            let number: Option<usize> = unsigned(value, "type")?;
            number.and_then(|number| KNOWN.get(number.checked_sub(1)?))
        }
        Scalar::Bool(_) | Scalar::Nested(_) => return Err((Reason::WrongType, "type")),
    };
    Ok(known.map(|(_, version)| *version))
}

/// The name of an application, of which `unknown` says that there is none.
pub(crate) fn class(value: Scalar<'_>) -> Result<Option<Arc<str>>, Misfit> {
    Ok(shared(value)?.filter(|name| &**name != "unknown"))
}
