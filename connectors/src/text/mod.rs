//! Records from text files: NDJSON and CSV, plain or packed, by a field map or a preset.
//!
//! [`TextFiles`] reads its files one after the other, as one partition. Whatever a file holds, a
//! poll is bounded in time and memory, and every line ends as a record or as a counted reject.
//! A file that ends early or is damaged gives what it holds up to there, and a notice.

mod csv;
mod feed;
mod flow_documents;
mod flow_layout;
mod flow_values;
mod members;
mod ndjson;
mod number;
mod one_document;
mod rows;
pub mod schema;

#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod layout_tests;
#[cfg(test)]
mod tests;

pub(crate) use flow_documents::Documents;
pub use flow_layout::FlowLayout;
pub(crate) use ndjson::{Decoder as JsonDecoder, Records as JsonRecords};
pub use number::TimeUnit;
pub use one_document::{NoFlow, OneDocument};
pub(crate) use rows::Rows;
pub use schema::{RecordField, RecordSchema};

use crate::dead_letter::Place;
use crate::flow_intake::{FlowContext, FlowIntake};
use crate::input::Input;
use crate::source::{
    Found, Polled, Position, Progress, Source, SourceError, State, position_of, state_of,
};
use feed::{Feed, FilePlace, Lines, Piece};
use nilometer_model::row::RowLayout;
use nilometer_model::symbol::Symbols;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the files of a source hold.
#[derive(Debug, Clone)]
pub enum TextFormat {
    /// A JSON object per line, read by a field map.
    Ndjson(RecordSchema),
    /// Rows below a header line, read by a field map.
    Csv {
        /// Which column is which field.
        schema: RecordSchema,
        /// What parts the cells of a row: a comma unless set otherwise.
        delimiter: u8,
    },
    /// A flow per line, as a JSON object of a known layout.
    Flows(FlowLayout, FlowContext),
}

/// What a source of text files reads.
#[derive(Debug, Clone)]
pub struct TextSettings {
    /// The files, in the order in which they are read; at least one.
    pub paths: Vec<PathBuf>,
    /// What they hold.
    pub format: TextFormat,
    /// Most bytes of a line or row; a longer one is rejected.
    pub line_bytes_max: usize,
    /// The source partition that their records belong to.
    pub partition: u32,
}

impl TextSettings {
    /// Most bytes of a line unless set otherwise.
    pub const LINE_BYTES_MAX: usize = 1 << 20;
}

/// Mark of an input that ends before its end, or stops making sense.
pub const TRUNCATED_INPUT: &str = "truncated_input";

/// A source of text files.
#[derive(Debug)]
pub struct TextFiles {
    waiting: VecDeque<PathBuf>,
    open: Option<OpenFile>,
    reader: Reader,
    layout: Arc<RowLayout>,
    /// Bytes of the files read to their end.
    done: u64,
    total: u64,
}

/// A position of such a source.
#[derive(Debug, Serialize, Deserialize)]
struct TextPosition {
    /// Files that wait.
    waiting: usize,
    /// Where the open file was read to, and whether its header was read, if it has one.
    open: Option<(FilePlace, bool)>,
    /// Records begun.
    records: u64,
    /// Bytes of the files read to their end.
    done: u64,
}

#[derive(Debug)]
struct OpenFile {
    origin: Arc<str>,
    feed: Feed,
}

/// Cuts files into pieces, and makes records of them.
#[derive(Debug)]
enum Reader {
    Lines { lines: Lines, decoder: ndjson::Decoder },
    Rows { cells: Box<csv::Cells>, decoder: csv::Decoder },
}

/// Bytes that one poll reads at most: some ten milliseconds of work.
const POLL_BYTES: usize = 2 << 20;

impl TextFiles {
    /// A source of records of `layout`.
    ///
    /// # Errors
    /// One of the files does not exist or cannot be opened.
    pub fn open(
        settings: TextSettings,
        layout: &Arc<RowLayout>,
        symbols: Arc<Symbols>,
    ) -> Result<Self, SourceError> {
        let mut total = 0u64;
        for path in &settings.paths {
            total = total.saturating_add(size(path).map_err(|source| unreadable(path, source))?);
        }
        let reader = Reader::new(&settings, layout, symbols);
        let (waiting, layout) = (settings.paths.into(), layout.clone());
        Ok(Self { waiting, open: None, reader, layout, done: 0, total })
    }

    /// A source of records of `layout` over `bytes` in memory, which may be packed, called `name`;
    /// the paths of the settings are not read.
    ///
    /// # Errors
    /// The beginning of `bytes` is that of a packed file, but damaged.
    pub fn over(
        (name, bytes): (&str, Vec<u8>),
        settings: &TextSettings,
        layout: &Arc<RowLayout>,
        symbols: Arc<Symbols>,
    ) -> Result<Self, SourceError> {
        let total = bytes.len() as u64;
        let input = Input::unpack(io::Cursor::new(bytes), total)
            .map_err(|source| unreadable(Path::new(name), source))?;
        let mut reader = Reader::new(settings, layout, symbols);
        reader.begin_file();
        let open = Some(OpenFile { origin: name.into(), feed: Feed::new(input) });
        let (waiting, layout) = (VecDeque::new(), layout.clone());
        Ok(Self { waiting, open, reader, layout, done: 0, total })
    }

    /// Opens the next file; `false` if there is none.
    fn open_next(&mut self) -> Result<bool, SourceError> {
        let Some(path) = self.waiting.pop_front() else { return Ok(false) };
        let input = Input::open(&path).map_err(|source| unreadable(&path, source))?;
        self.reader.begin_file();
        self.open =
            Some(OpenFile { origin: path.to_string_lossy().into(), feed: Feed::new(input) });
        Ok(true)
    }

    /// Opens the next file at `place`.
    fn resume_file(&mut self, place: FilePlace, has_header: bool) -> Result<(), SourceError> {
        let Some(path) = self.waiting.front().cloned() else {
            return Err(SourceError::resume("text files", "it has fewer files than before"));
        };
        self.open_next()?;
        let Some(file) = &mut self.open else { return Ok(()) };
        if has_header {
            // Its header stands at its beginning. What there was to tell about it has been told.
            let mut out = Polled::new(self.layout.clone(), false);
            while !self.reader.has_header() {
                let piece = self.reader.next(file, &mut usize::MAX.clone(), &mut out);
                if piece.map_err(|source| unreadable(&path, source))? == Piece::End {
                    break;
                }
            }
        }
        let input = Input::open_at(&path, place.at).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => SourceError::resume(
                &file.origin,
                format!("it ends before byte {}, up to which it was read", place.at),
            ),
            _ => unreadable(&path, source),
        })?;
        file.feed = Feed::behind(input, place);
        self.reader.begin_piece();
        Ok(())
    }

    /// Leaves the file that is open, with a notice if it was not whole.
    fn close(&mut self, out: &mut Polled) {
        let Some(file) = self.open.take() else { return };
        self.done = self.done.saturating_add(file.feed.done());
        if let Some(damage) = file.feed.damage() {
            out.account.marks.add(TRUNCATED_INPUT, 1);
            out.notices.push(format!(
                "`{}` is not whole: {damage}; what it holds up to line {} is used, fetch the file again",
                file.origin,
                file.feed.line()
            ));
        }
    }
}

impl Source for TextFiles {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        let mut budget = POLL_BYTES;
        let mut letter_bytes = 0;
        let read_max = out.account.read.saturating_add(records_max as u64);
        while out.account.read < read_max && letter_bytes < Polled::LETTER_BYTES_MAX {
            let Some(file) = &mut self.open else {
                if self.open_next()? {
                    continue;
                }
                return Ok(State::End);
            };
            let letters = out.letters.len();
            let piece = self.reader.next(file, &mut budget, out);
            letter_bytes += out.letter_bytes(letters);
            let origin = &file.origin;
            match piece.map_err(|source| unreadable(Path::new(&**origin), source))? {
                Piece::End => self.close(out),
                Piece::Pause => return Ok(State::More),
                Piece::Whole | Piece::Last | Piece::TooLong => {}
            }
        }
        Ok(State::More)
    }

    fn progress(&self) -> Option<Progress> {
        let open = self.open.as_ref().map_or(0, |file| file.feed.done());
        Some(Progress { done: self.done.saturating_add(open), total: self.total })
    }

    fn position(&self) -> Position {
        let open = self.open.as_ref().map(|file| self.reader.place(&file.feed));
        let (waiting, records, done) = (self.waiting.len(), self.reader.count(), self.done);
        let state = TextPosition { waiting, open, records, done };
        Position { bytes: position_of(&state), is_exact: true }
    }

    fn resume(&mut self, position: &[u8]) -> Result<(), SourceError> {
        let TextPosition { waiting, open, records, done } = state_of(position, "text files")?;
        while self.waiting.len() > waiting + usize::from(open.is_some()) {
            self.waiting.pop_front();
        }
        if let Some((place, has_header)) = open {
            self.resume_file(place, has_header)?;
        }
        self.done = done;
        self.reader.resume(records);
        Ok(())
    }
}

impl Reader {
    fn new(settings: &TextSettings, layout: &Arc<RowLayout>, symbols: Arc<Symbols>) -> Self {
        let TextSettings { line_bytes_max, partition, .. } = *settings;
        let lines = |decoder| Self::Lines { lines: Lines::new(line_bytes_max), decoder };
        match &settings.format {
            TextFormat::Ndjson(schema) => {
                let rows = rows::Rows::new(schema, layout, symbols, partition);
                lines(ndjson::Decoder::Records(ndjson::Records::new(rows)))
            }
            TextFormat::Csv { schema, delimiter } => {
                let rows = rows::Rows::new(schema, layout, symbols, partition);
                let cells = Box::new(csv::Cells::new(line_bytes_max, *delimiter));
                Self::Rows { cells, decoder: csv::Decoder::new(rows) }
            }
            TextFormat::Flows(names, context) => {
                let intake = FlowIntake::new(context.clone(), layout, symbols, partition);
                lines(ndjson::Decoder::Flows(Documents::new(*names, intake)))
            }
        }
    }

    fn begin_file(&mut self) {
        match self {
            Self::Lines { lines, .. } => lines.begin_file(),
            Self::Rows { cells, decoder } => {
                cells.begin_file();
                decoder.begin_file();
            }
        }
    }

    /// Makes ready for the next line or row of a file that was begun.
    fn begin_piece(&mut self) {
        match self {
            Self::Lines { lines, .. } => lines.begin_file(),
            Self::Rows { cells, .. } => cells.begin_file(),
        }
    }

    /// Where to go on in a file, and whether its header has been read.
    fn place(&self, feed: &Feed) -> (FilePlace, bool) {
        match self {
            Self::Lines { lines, .. } => (lines.place(feed), false),
            Self::Rows { cells, decoder } => (cells.place(feed), decoder.has_header()),
        }
    }

    fn has_header(&self) -> bool {
        match self {
            Self::Lines { .. } => true,
            Self::Rows { decoder, .. } => decoder.has_header(),
        }
    }

    /// Records begun.
    fn count(&self) -> u64 {
        match self {
            Self::Lines { decoder, .. } => decoder.count(),
            Self::Rows { decoder, .. } => decoder.count(),
        }
    }

    fn resume(&mut self, count: u64) {
        match self {
            Self::Lines { decoder, .. } => decoder.resume(count),
            Self::Rows { decoder, .. } => decoder.resume(count),
        }
    }

    /// Reads the next piece of `file`, if the budget allows, and decodes or rejects it.
    fn next(
        &mut self,
        file: &mut OpenFile,
        budget: &mut usize,
        out: &mut Polled,
    ) -> io::Result<Piece> {
        let OpenFile { origin, feed } = file;
        match self {
            Self::Lines { lines, decoder } => {
                let piece = lines.read(feed, budget)?;
                let place = Place::Line(lines.number());
                let found = Found { origin, place, raw: lines.text(), bytes: lines.bytes() };
                decoder.take(piece, found, out);
                Ok(piece)
            }
            Self::Rows { cells, decoder } => {
                let piece = cells.read(feed, budget)?;
                let place = Place::Line(cells.number());
                let found = Found { origin, place, raw: cells.raw(), bytes: cells.bytes() };
                if let Some(row) = cells.row(piece, feed.damage().is_some()) {
                    decoder.take(row, found, out);
                }
                Ok(piece)
            }
        }
    }
}

/// Bytes of the file at `path`, which is opened to see that it can be; a pipe is left alone.
fn size(path: &Path) -> io::Result<u64> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if metadata.is_file() {
        File::open(path)?;
    }
    Ok(metadata.len())
}

fn unreadable(path: &Path, source: io::Error) -> SourceError {
    SourceError::File { path: path.to_string_lossy().into(), source }
}
