//! CSV files: a header that names the columns, then a record per row.
//!
//! Quoting is that of RFC 4180. A row is bounded in memory: a quote that is never closed makes one
//! row that is too long, not a full memory.

use crate::account::Reason;
use crate::source::{Found, Polled};
use crate::text::feed::{Feed, FilePlace, Piece};
use crate::text::rows::Rows;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use std::io;
use std::ops::Range;

/// Cells of the rows of one file.
pub(crate) struct Cells {
    reader: Reader,
    bytes_max: usize,
    /// The cells of the row, one after the other.
    text: Vec<u8>,
    text_len: usize,
    /// Where each cell ends in `text`.
    ends: Vec<usize>,
    ends_len: usize,
    /// The row as it stands in the file, its first `bytes_max` bytes.
    raw: Vec<u8>,
    /// Bytes of the row in the file.
    bytes: u64,
    /// Where the row begins.
    began: FilePlace,
    is_too_long: bool,
    is_complete: bool,
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cells").field("began", &self.began).finish_non_exhaustive()
    }
}

impl Cells {
    /// Most columns of a row.
    const COLUMNS_MAX: usize = 1 << 16;

    /// A reader of rows of at most `bytes_max` bytes, whose cells `delimiter` parts.
    pub(crate) fn new(bytes_max: usize, delimiter: u8) -> Self {
        let mut cells = Self {
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            bytes_max,
            text: vec![0; 4096],
            text_len: 0,
            ends: vec![0; 64],
            ends_len: 0,
            raw: Vec::new(),
            bytes: 0,
            began: FilePlace::default(),
            is_too_long: false,
            is_complete: true,
        };
        cells.begin_file();
        cells
    }

    /// Makes ready for another file.
    pub(crate) fn begin_file(&mut self) {
        self.reader.reset();
        // The feed has taken the byte-order mark of the file. The reader looks for one, too, at the
        // first bytes that it sees: with a blank line before them that would be no such mark.
        self.reader.read_record(b"\n", &mut self.text, &mut self.ends);
        self.is_complete = true;
    }

    /// The row read last as it stands in the file; of one that was too long, the beginning.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Bytes that the row had in the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Line that the row begins on, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.began.line
    }

    /// Where to go on behind the rows read so far: one that was not read to its end is read again.
    pub(crate) fn place(&self, feed: &Feed) -> FilePlace {
        if self.is_complete { feed.place() } else { self.began }
    }

    /// The cells of the row read last, or why it has none; `None` if `piece` is no row.
    /// `is_damaged` says whether the input ended before its end.
    pub(crate) fn row(&self, piece: Piece, is_damaged: bool) -> Option<Result<Row<'_>, Fault>> {
        let fault = match piece {
            Piece::Pause | Piece::End => return None,
            Piece::TooLong => Fault {
                reason: Reason::TooLong,
                detail: "beyond `line_max`; is there a quote that is not closed?",
            },
            // It may look whole, with a number that is not.
            Piece::Last if is_damaged => {
                Fault { reason: Reason::CutShort, detail: "the file ends within the row" }
            }
            Piece::Whole | Piece::Last => match self.cells() {
                Some(row) => return Some(Ok(row)),
                None => Fault { reason: Reason::NotUtf8, detail: "not UTF-8" },
            },
        };
        Some(Err(fault))
    }

    fn cells(&self) -> Option<Row<'_>> {
        let text = std::str::from_utf8(self.text.get(..self.text_len)?).ok()?;
        Some(Row { text, ends: self.ends.get(..self.ends_len)? })
    }

    /// Reads on for the next row, as long as there is `budget`, from which it takes what it read.
    ///
    /// # Errors
    /// The operating system cannot read the file.
    pub(crate) fn read(&mut self, feed: &mut Feed, budget: &mut usize) -> io::Result<Piece> {
        loop {
            if *budget == 0 {
                return Ok(Piece::Pause);
            }
            let chunk = feed.bytes()?;
            let is_end = chunk.is_empty();
            if self.is_complete {
                if is_end {
                    return Ok(Piece::End);
                }
                // Blank lines, and the line feed that ends a row after its carriage return.
                let blank = chunk.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
                if blank > 0 {
                    self.skip(feed, blank, budget);
                    continue;
                }
                self.start(feed.place());
                continue;
            }
            let result = self.step(feed, budget)?;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.grow_text(),
                ReadRecordResult::OutputEndsFull => self.grow_ends(),
                ReadRecordResult::End => {
                    self.is_complete = true;
                    return Ok(Piece::End);
                }
                ReadRecordResult::Record => {
                    self.is_complete = true;
                    if self.is_too_long || self.bytes > self.bytes_max as u64 {
                        return Ok(Piece::TooLong);
                    }
                    return Ok(if is_end { Piece::Last } else { Piece::Whole });
                }
            }
        }
    }

    /// Feeds the bytes at hand to the reader once.
    fn step(&mut self, feed: &mut Feed, budget: &mut usize) -> io::Result<ReadRecordResult> {
        let chunk = feed.bytes()?;
        let (result, taken, written, ended) = self.reader.read_record(
            chunk,
            self.text.get_mut(self.text_len..).unwrap_or_default(),
            self.ends.get_mut(self.ends_len..).unwrap_or_default(),
        );
        let part = chunk.get(..taken).unwrap_or(chunk);
        let room = self.bytes_max.saturating_sub(self.raw.len());
        self.raw.extend_from_slice(part.get(..room).unwrap_or(part));
        self.bytes = self.bytes.saturating_add(taken as u64);
        self.text_len += written;
        self.ends_len += ended;
        self.skip(feed, taken, budget);
        Ok(result)
    }

    fn skip(&self, feed: &mut Feed, count: usize, budget: &mut usize) {
        let lines = feed.at_hand().get(..count).unwrap_or_default();
        let lines = memchr::memchr_iter(b'\n', lines).count() as u64;
        feed.take(count, lines);
        *budget = budget.saturating_sub(count);
    }

    fn start(&mut self, began: FilePlace) {
        self.text_len = 0;
        self.ends_len = 0;
        self.raw.clear();
        self.bytes = 0;
        self.began = began;
        self.is_too_long = false;
        self.is_complete = false;
    }

    /// Makes room for more text; beyond the limit, by forgetting what it held.
    fn grow_text(&mut self) {
        if self.text.len() < self.bytes_max {
            self.text.resize(self.text.len().saturating_mul(2).min(self.bytes_max), 0);
        } else {
            self.is_too_long = true;
            self.text_len = 0;
        }
    }

    fn grow_ends(&mut self) {
        if self.ends.len() < Self::COLUMNS_MAX {
            self.ends.resize(self.ends.len().saturating_mul(2), 0);
        } else {
            self.is_too_long = true;
            self.ends_len = 0;
        }
    }
}

/// Why a row has no cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    reason: Reason,
    detail: &'static str,
}

/// The cells of one row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    text: &'a str,
    ends: &'a [usize],
}

impl<'a> Row<'a> {
    /// How many there are.
    pub(crate) fn len(self) -> usize {
        self.ends.len()
    }

    /// Cell number `index`; empty beyond the last.
    pub(crate) fn cell(self, index: usize) -> &'a str {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before).copied(),
            None => Some(0),
        };
        let range = start.zip(self.ends.get(index).copied());
        range.and_then(|(start, end)| self.text.get(Range { start, end })).unwrap_or("")
    }

    /// The cells in order.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a str> {
        (0..self.len()).map(move |index| self.cell(index))
    }
}

/// Makes records of rows.
#[derive(Debug)]
pub(crate) struct Decoder {
    rows: Rows,
    header: Header,
}

/// The header of a file.
#[derive(Debug)]
enum Header {
    /// It is the next row.
    Awaited,
    /// It has so many columns; and the column of each place that is wanted.
    Read { columns: usize, wanted: Vec<usize> },
    /// It is of no use: every row is rejected for this.
    Useless { reason: Reason, detail: String },
}

impl Decoder {
    /// Records for `rows`.
    pub(crate) fn new(rows: Rows) -> Self {
        Self { rows, header: Header::Awaited }
    }

    /// How many records were begun.
    pub(crate) fn count(&self) -> u64 {
        self.rows.count()
    }

    /// Goes on behind `count` records that were begun by another.
    pub(crate) fn resume(&mut self, count: u64) {
        self.rows.resume(count);
    }

    /// Whether the header of the file has been read.
    pub(crate) fn has_header(&self) -> bool {
        !matches!(self.header, Header::Awaited)
    }

    /// Begins a file: its first row is the header.
    pub(crate) fn begin_file(&mut self) {
        self.header = Header::Awaited;
    }

    /// Makes a record of the `row` that was `found` and counts it as read, or takes it as the
    /// header. A header that cannot be used spoils its file.
    pub(crate) fn take(&mut self, row: Result<Row<'_>, Fault>, found: Found<'_>, out: &mut Polled) {
        match (&self.header, row) {
            (Header::Awaited, row) => {
                self.header = Header::of(row, &self.rows);
                if let Header::Useless { detail, .. } = &self.header {
                    out.notices.push(format!("no row of `{}` can be used: {detail}", found.origin));
                }
            }
            (Header::Useless { reason, detail }, _) => {
                self.rows.begin(out);
                out.reject(found, *reason, detail);
            }
            (Header::Read { .. }, Err(fault)) => {
                self.rows.begin(out);
                out.reject(found, fault.reason, fault.detail);
            }
            (Header::Read { columns, wanted }, Ok(row)) => {
                self.rows.begin(out);
                if row.len() != *columns {
                    let detail = format!("the row has {} columns, the header {columns}", row.len());
                    return out.reject(found, Reason::WrongColumns, &detail);
                }
                for (place, column) in wanted.iter().enumerate() {
                    self.rows.cell(place, row.cell(*column));
                }
                self.rows.end(found, out);
            }
        }
    }
}

impl Header {
    fn of(row: Result<Row<'_>, Fault>, rows: &Rows) -> Self {
        let row = match row {
            Ok(row) => row,
            Err(Fault { reason, detail }) => {
                return Self::Useless {
                    reason,
                    detail: format!("its header is unusable: {detail}"),
                };
            }
        };
        let mut wanted = Vec::new();
        for place in rows.places() {
            let Some(column) = row.iter().position(|name| name == place) else {
                let detail = format!(
                    "it has no column `{place}`; its header is: {}",
                    row.iter().take(20).collect::<Vec<_>>().join(", ")
                );
                return Self::Useless { reason: Reason::MissingColumn, detail };
            };
            wanted.push(column);
        }
        Self::Read { columns: row.len(), wanted }
    }
}
