//! Dead letters: input that makes no record, kept with its place and the reason.
//!
//! The file is NDJSON, one letter per line, as `docs/output.md` describes it. A letter is bounded:
//! of a raw input that is longer than [`DeadLetter::RAW_BYTES_MAX`] only the beginning is kept,
//! and its full length is told.

use crate::account::Reason;
use crate::kafka::out::letters::LetterTopic;
use crate::sink::SinkError;
use crate::source::Found;
use nilometer_model::value::write_json_text;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Where in its origin the input stood, counted from 1 unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Line of a text file.
    Line(u64),
    /// Packet of a capture, or datagram since the collector was opened.
    Packet(u64),
    /// Record of a source.
    Record(u64),
    /// Offset in a partition, from 0.
    Offset(u64),
}

impl Place {
    const fn parts(self) -> (&'static str, u64) {
        match self {
            Self::Line(number) => ("line", number),
            Self::Packet(number) => ("packet", number),
            Self::Record(number) => ("record", number),
            Self::Offset(number) => ("offset", number),
        }
    }
}

/// Input that makes no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    origin: Arc<str>,
    place: Place,
    reason: &'static str,
    detail: Box<str>,
    raw: Box<[u8]>,
    bytes: u64,
}

impl DeadLetter {
    /// Most bytes of the raw input that a letter keeps.
    pub const RAW_BYTES_MAX: usize = 1 << 16;

    /// A letter about the input `found`, rejected for `reason`; `detail` may be empty.
    pub fn new(found: Found<'_>, reason: Reason, detail: &str) -> Self {
        let kept = found.raw.get(..Self::RAW_BYTES_MAX).unwrap_or(found.raw);
        Self {
            origin: found.origin.clone(),
            place: found.place,
            reason: reason.name(),
            detail: detail.into(),
            raw: kept.into(),
            bytes: found.bytes,
        }
    }

    /// Why the input is no record.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Particulars for people; may be empty.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What the input stood in.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Where it stood there: the unit, and the number.
    pub(crate) const fn place(&self) -> (&'static str, u64) {
        self.place.parts()
    }

    /// The input, up to what a letter keeps of it.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Bytes that the input had.
    pub(crate) const fn full_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that the letter takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.detail.len() + self.raw.len()
    }

    /// Appends the letter as one line of JSON.
    pub fn write_json(&self, out: &mut String) {
        let (unit, number) = self.place.parts();
        out.push_str("{\"origin\":");
        write_json_text(&self.origin, out);
        out.push_str(&format!(",\"{unit}\":{number},\"reason\":\"{}\",\"detail\":", self.reason));
        write_json_text(&self.detail, out);
        out.push_str(&format!(",\"bytes\":{},", self.bytes));
        match self.text() {
            Some(text) => {
                out.push_str("\"raw\":");
                write_json_text(text, out);
            }
            None => {
                out.push_str("\"raw_hex\":\"");
                for byte in &self.raw {
                    out.push_str(&format!("{byte:02x}"));
                }
                out.push('"');
            }
        }
        out.push_str("}\n");
    }

    /// The raw input as text, if it is text; a character cut in two by the bound is left out.
    fn text(&self) -> Option<&str> {
        match std::str::from_utf8(&self.raw) {
            Ok(text) => Some(text),
            Err(error) if error.error_len().is_none() && (self.raw.len() as u64) < self.bytes => {
                std::str::from_utf8(self.raw.get(..error.valid_up_to())?).ok()
            }
            Err(_) => None,
        }
    }
}

/// Where dead letters go.
#[derive(Debug)]
pub struct DeadLetters {
    file: Option<DeadLetterFile>,
    topic: Option<LetterTopic>,
}

impl DeadLetters {
    /// Into a file, a topic, or both.
    pub const fn new(file: Option<DeadLetterFile>, topic: Option<LetterTopic>) -> Self {
        Self { file, topic }
    }

    /// Takes `letters`, and leaves none.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, letters: &mut Vec<DeadLetter>) -> Result<(), SinkError> {
        if let Some(topic) = &mut self.topic {
            letters.iter().try_for_each(|letter| topic.write(letter))?;
        }
        match &mut self.file {
            Some(file) => file.write(letters),
            None => {
                letters.clear();
                Ok(())
            }
        }
    }

    /// Hands over what is buffered: behind it, no letter is lost with the process.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        if let Some(topic) = &mut self.topic {
            topic.flush()?;
        }
        self.file.as_mut().map_or(Ok(()), DeadLetterFile::flush)
    }
}

/// The dead-letter file.
#[derive(Debug)]
pub struct DeadLetterFile {
    path: Box<str>,
    file: BufWriter<File>,
    line: String,
}

impl DeadLetterFile {
    /// Creates the file and the directories above it; what it held is lost.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> Result<Self, SinkError> {
        let name: Box<str> = path.to_string_lossy().into();
        let file = crate::sink::create(path)?;
        Ok(Self { path: name, file: BufWriter::new(file), line: String::new() })
    }

    /// Opens the file behind what processes before this one have written.
    ///
    /// # Errors
    /// It cannot be opened or created.
    pub fn append(path: &Path) -> Result<Self, SinkError> {
        let name: Box<str> = path.to_string_lossy().into();
        let open = || match OpenOptions::new().append(true).open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        };
        match open() {
            Ok(Some(file)) => {
                Ok(Self { path: name, file: BufWriter::new(file), line: String::new() })
            }
            Ok(None) => Self::create(path),
            Err(source) => Err(SinkError::Create { path: name, source }),
        }
    }

    /// Writes `letters`, and takes them out.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, letters: &mut Vec<DeadLetter>) -> Result<(), SinkError> {
        for letter in letters.drain(..) {
            self.line.clear();
            letter.write_json(&mut self.line);
            self.file.write_all(self.line.as_bytes()).map_err(|source| self.error(source))?;
        }
        Ok(())
    }

    /// Hands over what is buffered.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.file.flush().map_err(|source| self.error(source))
    }

    fn error(&self, source: std::io::Error) -> SinkError {
        SinkError::Write { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(reason: Reason, detail: &str, raw: &[u8]) -> DeadLetter {
        DeadLetter::new(Found::new(&"a.ndjson".into(), Place::Line(7), raw), reason, detail)
    }

    #[test]
    fn letters_are_one_line_of_json_each_and_bounded() {
        let mut long = "x".repeat(DeadLetter::RAW_BYTES_MAX - 1);
        let kept = long.clone();
        long.push_str("éé");
        let cases = [
            (
                letter(Reason::NotJson, "at \"x\"", b"{\"a\":\n"),
                r#"{"origin":"a.ndjson","line":7,"reason":"not_json","detail":"at \"x\"","bytes":6,"raw":"{\"a\":\n"}"#.to_owned(),
            ),
            (
                letter(Reason::NotUtf8, "", b"\xff\x00"),
                r#"{"origin":"a.ndjson","line":7,"reason":"not_utf8","detail":"","bytes":2,"raw_hex":"ff00"}"#.to_owned(),
            ),
            (
                letter(Reason::TooLong, "", long.as_bytes()),
                format!(r#"{{"origin":"a.ndjson","line":7,"reason":"too_long","detail":"","bytes":65539,"raw":"{kept}"}}"#),
            ),
        ];
        for (letter, expected) in cases {
            let mut out = String::new();
            letter.write_json(&mut out);
            assert_eq!(out, expected + "\n");
        }
    }

    #[test]
    fn a_letter_file_says_what_to_do_when_it_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let blocked = directory.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let error = DeadLetterFile::create(&blocked.join("x/dead.ndjson")).unwrap_err().to_string();
        assert!(error.contains("file/x/dead.ndjson") && error.contains("`path`"), "{error}");

        let path = directory.path().join("new/dead.ndjson");
        let mut file = DeadLetterFile::create(&path).unwrap();
        let mut letters = vec![letter(Reason::NotJson, "", b"x")];
        file.write(&mut letters).unwrap();
        file.flush().unwrap();
        assert!(letters.is_empty());
        let one = std::fs::read_to_string(&path).unwrap();
        assert!(one.ends_with("\"raw\":\"x\"}\n"));
        drop(file);
        for (lines, path) in [(2, &path), (1, &directory.path().join("other.ndjson"))] {
            let mut file = DeadLetterFile::append(path).unwrap();
            file.write(&mut vec![letter(Reason::NotJson, "", b"x")]).unwrap();
            file.flush().unwrap();
            assert_eq!(std::fs::read_to_string(path).unwrap(), one.repeat(lines));
        }
    }
}
