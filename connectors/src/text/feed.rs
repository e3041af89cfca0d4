//! Bytes of one file on their way to lines: bounded in memory and in time, whatever the file holds.
//!
//! An error of the operating system is one; bytes that do not unpack are an early end of the
//! input, with what came before it kept.

use crate::input::Input;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader};

/// The rest of one file.
#[derive(Debug)]
pub(crate) struct Feed {
    input: BufReader<Input>,
    /// Where the next byte stands in the content, from 0.
    at: u64,
    /// Line that the next byte belongs to, from 1.
    line: u64,
    is_started: bool,
    /// Why the input ended before its end.
    damage: Option<String>,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct FilePlace {
    /// Bytes of the content before it.
    pub(crate) at: u64,
    /// The line that it is on, from 1.
    pub(crate) line: u64,
}

/// How a piece of the input ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line (or a row of several lines) with its line end.
    Whole,
    /// The last one, without a line end.
    Last,
    /// One beyond the size limit, of which only the beginning was kept.
    TooLong,
    /// The budget is used up: call again.
    Pause,
    /// There is none.
    End,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Feed {
    const BUFFER_BYTES: usize = 64 << 10;

    /// The content of `input` from its beginning.
    pub(crate) fn new(input: Input) -> Self {
        let input = BufReader::with_capacity(Self::BUFFER_BYTES, input);
        Self { input, at: 0, line: 1, is_started: false, damage: None }
    }

    /// The content of `input`, which begins at `place` of a file.
    pub(crate) fn behind(input: Input, place: FilePlace) -> Self {
        let FilePlace { at, line } = place;
        Self { at, line, is_started: at > 0, ..Self::new(input) }
    }

    /// Where the next byte stands.
    pub(crate) fn place(&self) -> FilePlace {
        FilePlace { at: self.at, line: self.line }
    }

    /// Bytes taken from the file.
    pub(crate) fn done(&self) -> u64 {
        self.input.get_ref().done()
    }

    /// Line that the next byte belongs to, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Why the input ended before its end, if it did.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The bytes at hand; none at the end.
    ///
    /// # Errors
    /// The operating system cannot read the file.
    pub(crate) fn bytes(&mut self) -> io::Result<&[u8]> {
        if self.damage.is_some() {
            return Ok(&[]);
        }
        if !self.is_started {
            self.is_started = true;
            if self.fill()?.starts_with(BOM) {
                self.input.consume(BOM.len());
                self.at = BOM.len() as u64;
            }
        }
        self.fill()?;
        // What was filled in is handed out without being read again.
        Ok(if self.damage.is_some() { &[] } else { self.input.buffer() })
    }

    fn fill(&mut self) -> io::Result<&[u8]> {
        loop {
            match self.input.fill_buf() {
                Ok(_) => return Ok(self.input.buffer()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error().is_some() => return Err(error),
                Err(error) => {
                    self.damage = Some(match error.kind() {
                        io::ErrorKind::UnexpectedEof => "it ends early".to_owned(),
                        _ => format!("it is damaged ({error})"),
                    });
                    return Ok(&[]);
                }
            }
        }
    }

    /// The bytes at hand, without reading more.
    pub(crate) fn at_hand(&self) -> &[u8] {
        self.input.buffer()
    }

    /// Takes `count` of the bytes at hand, which hold `lines` line ends.
    pub(crate) fn take(&mut self, count: usize, lines: u64) {
        self.input.consume(count);
        self.at = self.at.saturating_add(count as u64);
        self.line = self.line.saturating_add(lines);
    }
}

/// The lines of a feed.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes_max: usize,
    /// The line being read, without its line end.
    line: Vec<u8>,
    /// Bytes of that line, those that were not kept included.
    bytes: u64,
    /// Where it begins.
    began: FilePlace,
    is_complete: bool,
}

impl Lines {
    /// A reader of lines of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let began = FilePlace::default();
        Self { bytes_max, line: Vec::new(), bytes: 0, began, is_complete: true }
    }

    /// Makes ready for another file.
    pub(crate) fn begin_file(&mut self) {
        self.is_complete = true;
    }

    /// The line read last, without its line end; of one that was too long, the beginning.
    pub(crate) fn text(&self) -> &[u8] {
        &self.line
    }

    /// Bytes that the line had, without its line end.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of the line in its file, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.began.line
    }

    /// Where to go on behind the lines read so far: one that was not read to its end is read again.
    pub(crate) fn place(&self, feed: &Feed) -> FilePlace {
        if self.is_complete { feed.place() } else { self.began }
    }

    /// Reads on for the next line that is not blank, as long as there is `budget`, from which it
    /// takes what it read.
    ///
    /// # Errors
    /// The operating system cannot read the file.
    pub(crate) fn read(&mut self, feed: &mut Feed, budget: &mut usize) -> io::Result<Piece> {
        if self.is_complete {
            self.start(feed);
        }
        loop {
            if *budget == 0 {
                return Ok(Piece::Pause);
            }
            let chunk = feed.bytes()?;
            if chunk.is_empty() {
                self.is_complete = true;
                self.trim();
                return Ok(if self.line.is_empty() { Piece::End } else { self.piece(Piece::Last) });
            }
            let end = memchr::memchr(b'\n', chunk);
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or(chunk);
            let room = self.bytes_max.saturating_sub(self.line.len());
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            self.bytes = self.bytes.saturating_add(part.len() as u64);
            let taken = part.len() + usize::from(end.is_some());
            *budget = budget.saturating_sub(taken);
            feed.take(taken, u64::from(end.is_some()));
            if end.is_some() {
                self.trim();
                if !self.line.is_empty() {
                    self.is_complete = true;
                    return Ok(self.piece(Piece::Whole));
                }
                self.start(feed);
            }
        }
    }

    fn start(&mut self, feed: &Feed) {
        self.line.clear();
        self.bytes = 0;
        self.began = feed.place();
        self.is_complete = false;
    }

    /// Takes the carriage return of a line end away, and all of a blank line.
    fn trim(&mut self) {
        if self.bytes > self.line.len() as u64 {
            return;
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
            self.bytes -= 1;
        }
        if self.line.trim_ascii().is_empty() {
            self.line.clear();
        }
    }

    fn piece(&self, piece: Piece) -> Piece {
        if self.bytes > self.line.len() as u64 { Piece::TooLong } else { piece }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    pub(crate) fn feed(content: &[u8]) -> Feed {
        let total = content.len() as u64;
        Feed::new(Input::unpack(io::Cursor::new(content.to_vec()), total).unwrap())
    }

    /// (what it is, the bytes kept, the bytes it had, its number)
    type Seen = (Piece, Vec<u8>, u64, u64);

    fn read_all(content: &[u8], bytes_max: usize, budget: usize) -> Vec<Seen> {
        let (mut feed, mut lines, mut seen) = (feed(content), Lines::new(bytes_max), Vec::new());
        loop {
            let piece = lines.read(&mut feed, &mut budget.clone()).unwrap();
            if piece == Piece::End {
                return seen;
            }
            if piece != Piece::Pause {
                seen.push((piece, lines.text().to_vec(), lines.bytes(), lines.number()));
            }
        }
    }

    #[test]
    fn lines_end_with_either_line_end_or_the_file() {
        use Piece::{Last, TooLong, Whole};
        let of =
            |piece, text: &str, line| (piece, text.as_bytes().to_vec(), text.len() as u64, line);
        for (content, expected) in [
            (&b""[..], vec![]),
            (b"\n \r\n\n", vec![]),
            (b"a\r\n\nbc", vec![of(Whole, "a", 1), of(Last, "bc", 3)]),
            (b"\xEF\xBB\xBFa\n", vec![of(Whole, "a", 1)]),
            (b"\na\rb\n\n", vec![of(Whole, "a\rb", 2)]),
            (
                b"12345\n123456\n1\n123456789",
                vec![
                    of(Whole, "12345", 1),
                    (TooLong, b"12345".to_vec(), 6, 2),
                    of(Whole, "1", 3),
                    (TooLong, b"12345".to_vec(), 9, 4),
                ],
            ),
            (b"      \n     7\n", {
                [1, 2].map(|number| (TooLong, b"     ".to_vec(), 6, number)).to_vec()
            }),
        ] {
            for budget in [1, 2, 1000] {
                assert_eq!(read_all(content, 5, budget), expected, "{content:?} by {budget}");
            }
        }
    }

    #[test]
    fn a_packed_file_that_ends_early_ends_there_with_the_reason() {
        let text = "0123456789abcdef\n".repeat(50_000);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        let whole = packer.finish().unwrap();
        let half = whole.get(..whole.len() / 2).unwrap();
        let mut changed = whole.clone();
        // The last bytes are the checksum and the size.
        changed.iter_mut().rev().take(8).for_each(|byte| *byte ^= 0xff);
        for (packed, lines_min, reason) in [
            (half, 10_000, "it ends early"),
            (
                &changed,
                50_000,
                "it is damaged (corrupt gzip stream does not have a matching checksum)",
            ),
        ] {
            let (mut feed, mut lines) = (feed(packed), Lines::new(100));
            let mut count = 0;
            while lines.read(&mut feed, &mut usize::MAX.clone()).unwrap() == Piece::Whole {
                assert_eq!(lines.text(), b"0123456789abcdef");
                count += 1;
            }
            assert!((lines_min..=50_000).contains(&count), "{count} lines");
            assert_eq!(feed.damage(), Some(reason));
        }
    }

    #[test]
    fn a_directory_is_an_error_of_the_operating_system() {
        let directory = tempfile::tempdir().unwrap();
        let error = Input::open(directory.path()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
