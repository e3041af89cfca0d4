//! A place in one line of a transcript: words, times, numbers and JSON, with comments left out.
//!
//! Invariant: a cursor only moves forward, and a `#` inside a JSON text is never a comment.

use super::parse::Problem;
use crate::time::{EventTime, Window};
use crate::watermark::Percentile;

/// A place in a line.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or("")
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Whether nothing but blanks and a comment follows.
    pub(super) fn is_done(&mut self) -> bool {
        self.skip_blanks();
        self.rest().is_empty() || self.rest().starts_with('#')
    }

    /// The comment that follows, with its `#`; empty where there is none.
    pub(super) fn comment(&mut self) -> &'a str {
        self.skip_blanks();
        self.rest()
    }

    /// Moves behind `text` if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Moves behind `text`.
    pub(super) fn want(&mut self, text: &'static str) -> Result<(), Problem> {
        if self.eat(text) { Ok(()) } else { Err(self.missing(text)) }
    }

    /// What stands here instead of `wanted`.
    pub(super) fn missing(&mut self, wanted: &'static str) -> Problem {
        self.skip_blanks();
        let found: String = self.rest().chars().take(40).collect();
        if found.is_empty() {
            Problem::Incomplete { wanted }
        } else {
            Problem::Unexpected { wanted, found: found.into() }
        }
    }

    /// Everything up to the next blank, bracket, brace, comma, `#` or the end.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_blanks();
        let rest = self.rest();
        let is_end = |letter: char| letter.is_whitespace() || "[](){},#".contains(letter);
        let word = rest.get(..rest.find(is_end).unwrap_or(rest.len())).unwrap_or("");
        self.at += word.len();
        word
    }

    /// A name: of a stage, a signal.
    pub(super) fn name(&mut self, wanted: &'static str) -> Result<&'a str, Problem> {
        match self.word() {
            "" => Err(self.missing(wanted)),
            name => Ok(name),
        }
    }

    /// A JSON object.
    pub(super) fn object(
        &mut self,
        wanted: &'static str,
    ) -> Result<serde_json::Map<String, serde_json::Value>, Problem> {
        self.skip_blanks();
        if !self.rest().starts_with('{') {
            return Err(self.missing(wanted));
        }
        let mut stream = serde_json::Deserializer::from_str(self.rest()).into_iter();
        match stream.next() {
            Some(Ok(object)) => {
                self.at += stream.byte_offset();
                Ok(object)
            }
            Some(Err(error)) => Err(Problem::Json { wanted, message: error.to_string().into() }),
            None => Err(Problem::Incomplete { wanted }),
        }
    }

    /// A time.
    pub(super) fn time(&mut self) -> Result<EventTime, Problem> {
        let word = self.word();
        if word.is_empty() {
            return Err(self.missing("a time"));
        }
        time(word).ok_or_else(|| Problem::Time { found: word.into() })
    }

    /// A percentile, `99%`, if one stands here.
    pub(super) fn percentile(&mut self) -> Result<Option<Percentile>, Problem> {
        let word = self.clone().word();
        let Some(number) = word.strip_suffix('%') else { return Ok(None) };
        self.word();
        let percentile = number.parse().ok().and_then(Percentile::from_percent);
        let found = || Problem::Percentile { found: word.into() };
        percentile.map(Some).ok_or_else(found)
    }

    /// A window, `[start,end)`.
    pub(super) fn window(&mut self) -> Result<Window, Problem> {
        self.want("[")?;
        let start = self.time()?;
        self.want(",")?;
        let end = self.time()?;
        self.want(")")?;
        if end <= start {
            return Err(Problem::EmptyWindow { start, end });
        }
        Ok(Window::new(start, end))
    }

    /// A number below 2^32 that follows `mark` directly.
    pub(super) fn number(&mut self, mark: &'static str) -> Result<u32, Problem> {
        self.want(mark)?;
        let word = self.word();
        word.parse().map_err(|_error| Problem::Number { found: word.into() })
    }
}

/// Reads a time: whole milliseconds, a whole number of `s`, `m`, `h` or `d`, RFC 3339, `-inf`,
/// `+inf`.
fn time(word: &str) -> Option<EventTime> {
    match word {
        "-inf" => return Some(EventTime::MIN),
        "+inf" => return Some(EventTime::MAX),
        _ => {}
    }
    if let Ok(millis) = word.parse() {
        return Some(EventTime::from_millis(millis));
    }
    for (unit, length) in [("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)] {
        if let Some(number) = word.strip_suffix(unit) {
            let millis = number.parse::<i64>().ok()?.checked_mul(length)?;
            return Some(EventTime::from_millis(millis));
        }
    }
    let instant: jiff::Timestamp = word.parse().ok()?;
    // Event time has no finer part: a time that has one is refused, not cut.
    let is_whole = instant.subsec_nanosecond() % 1_000_000 == 0;
    is_whole.then(|| EventTime::from_millis(instant.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_four_forms() {
        for (word, expected) in [
            ("0", Some(0)),
            ("-15", Some(-15)),
            ("+15", Some(15)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("2s", Some(2_000)),
            ("-2m", Some(-120_000)),
            ("3h", Some(10_800_000)),
            ("1d", Some(86_400_000)),
            ("106751991168d", None),
            ("-inf", Some(i64::MIN)),
            ("+inf", Some(i64::MAX)),
            ("inf", None),
            ("1970-01-01T00:00:01Z", Some(1_000)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("2017-07-14T04:40:00+02:00", Some(1_500_000_000_000)),
            ("2017-07-14T02:40:00.0005Z", None),
            ("2017-02-30T00:00:00Z", None),
            ("2017-07-14T02:40:00", None),
            ("1.5", None),
            ("5ms", None),
            ("s", None),
            ("", None),
        ] {
            assert_eq!(time(word).map(EventTime::as_millis), expected, "{word}");
        }
    }

    #[test]
    fn a_hash_inside_json_is_no_comment() {
        let mut cursor = Cursor::new("  {\"a\":\"#1\"} # why");
        let object = cursor.object("a key").unwrap();
        assert_eq!(object["a"], "#1");
        assert!(cursor.is_done());
        assert_eq!(cursor.comment(), "# why");
    }
}
