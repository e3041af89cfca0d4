//! Flow records from files: captures of what exporters sent, and files of one datagram each.
//!
//! [`FlowFiles`] reads its files one after the other, as one partition; templates and options data
//! of one file hold for the next. A file that ends early or is damaged gives what it holds up to
//! there, and a notice.

use crate::capture::pcap::{Capture, is_capture};
use crate::capture::single::DatagramFile;
use crate::capture::{CaptureError, Ending};
use crate::flow_feed::{FeedImage, FlowFeed, tell_packets};
use crate::flow_intake::{FlowContext, FlowIntake};
use crate::input::{Gauge, Input};
use crate::netflow::{DecoderSettings, FlowDecoder};
use crate::source::{
    Polled, Position, Progress, Source, SourceError, State, position_of, state_of,
};
use crate::text::TRUNCATED_INPUT;
use nilometer_model::row::RowLayout;
use nilometer_model::symbol::Symbols;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the files of a source hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowFormat {
    /// A capture, pcap or pcapng.
    Capture,
    /// The content of one datagram.
    Datagram,
    /// A capture if it begins like one, else the content of one datagram.
    Either,
}

/// What a source of flow files reads.
#[derive(Debug, Clone)]
pub struct FlowFilesSettings {
    /// The files, in the order in which they are read; at least one.
    pub paths: Vec<PathBuf>,
    /// What they hold.
    pub format: FlowFormat,
    /// Who sent the datagrams of files that do not say.
    pub exporter: IpAddr,
    /// How their datagrams are decoded.
    pub decoder: DecoderSettings,
    /// How their flows are normalised.
    pub context: FlowContext,
    /// The source partition that their records belong to.
    pub partition: u32,
}

impl FlowFilesSettings {
    /// The exporter of a file of one datagram, unless set otherwise: an address for documentation.
    pub const EXPORTER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
}

/// A source of flow files.
#[derive(Debug)]
pub struct FlowFiles {
    waiting: VecDeque<PathBuf>,
    format: FlowFormat,
    exporter: SocketAddr,
    open: Option<OpenCapture>,
    feed: FlowFeed,
    /// The file that was begun last, and how many datagrams of it were read.
    last: (Arc<str>, u64),
    /// Bytes of the files read to their end.
    done: u64,
    total: u64,
}

/// A position of such a source. `D` is its decoder, or a reference to it.
#[derive(Debug, Serialize, Deserialize)]
struct FlowPosition<D> {
    /// Files that wait.
    waiting: usize,
    /// Whether the file that was begun last is open.
    is_open: bool,
    /// The file that was begun last, and how many datagrams of it were read.
    last: (Box<str>, u64),
    /// Bytes of the files read to their end.
    done: u64,
    feed: FeedImage<D>,
}

#[derive(Debug)]
struct OpenCapture {
    capture: Capture,
    gauge: Gauge,
}

/// Datagrams that one poll reads at most: some ten milliseconds of work, whatever they hold.
const POLL_DATAGRAMS: usize = 2_000;

impl FlowFiles {
    /// A source of records of `layout`.
    ///
    /// # Errors
    /// One of the files does not exist, cannot be opened, or is no capture where it must be one.
    pub fn open(
        settings: FlowFilesSettings,
        layout: &Arc<RowLayout>,
        symbols: Arc<Symbols>,
    ) -> Result<Self, SourceError> {
        let mut total = 0u64;
        for path in &settings.paths {
            let input = Input::open(path).map_err(|source| unreadable(path, source))?;
            total = total.saturating_add(input.total());
            if settings.format == FlowFormat::Capture {
                capture(path, input)?;
            }
        }
        let intake = FlowIntake::new(settings.context, layout, symbols, settings.partition);
        Ok(Self {
            waiting: settings.paths.into(),
            format: settings.format,
            exporter: SocketAddr::new(settings.exporter, 0),
            open: None,
            feed: FlowFeed::new(settings.decoder, intake),
            last: ("".into(), 0),
            done: 0,
            total,
        })
    }

    /// Opens the capture at `path`, and leaves out the datagrams that were read.
    fn resume_capture(&mut self, path: &Path) -> Result<(), SourceError> {
        let input = Input::open(path).map_err(|source| unreadable(path, source))?;
        let gauge = input.gauge();
        let mut capture = capture(path, input)?;
        let (origin, read) = &self.last;
        for number in 0..*read {
            let datagram = capture.next_datagram().map_err(|source| unreadable(path, source))?;
            if datagram.is_none() {
                let detail = format!("it has {number} datagrams, and {read} of it were read");
                return Err(SourceError::resume(origin, detail));
            }
        }
        self.open = Some(OpenCapture { capture, gauge });
        Ok(())
    }

    /// Begins the file at `path`. Returns the bytes of the dead letters that this gave.
    fn begin(&mut self, path: &Path, out: &mut Polled) -> Result<usize, SourceError> {
        self.last = (path.to_string_lossy().into(), 0);
        let mut input = Input::open(path).map_err(|source| unreadable(path, source))?;
        let is_single = match self.format {
            FlowFormat::Capture => false,
            FlowFormat::Datagram => true,
            FlowFormat::Either => {
                let mut head = Vec::new();
                // What cannot be read is no capture; it is read, and told, as a datagram.
                input.by_ref().take(4).read_to_end(&mut head).unwrap_or_default();
                input = Input::open(path).map_err(|source| unreadable(path, source))?;
                !is_capture(&head)
            }
        };
        if !is_single {
            let gauge = input.gauge();
            self.open = Some(OpenCapture { capture: capture(path, input)?, gauge });
            return Ok(0);
        }
        self.done = self.done.saturating_add(input.total());
        let file = DatagramFile::read(path).map_err(|source| unreadable(path, source))?;
        let (origin, number) = &mut self.last;
        *number += 1;
        let letter_bytes = self.feed.take(file.datagram(self.exporter), origin, *number, out);
        tell_ending(file.ending(), &self.last, out);
        Ok(letter_bytes)
    }

    /// Reads the next datagram of the open capture, or leaves the capture at its end.
    fn advance(&mut self, out: &mut Polled) -> Result<usize, SourceError> {
        let (Some(open), (origin, number)) = (&mut self.open, &mut self.last) else {
            return Ok(0);
        };
        let datagram = open.capture.next_datagram();
        if let Some(datagram) =
            datagram.map_err(|source| unreadable(Path::new(&**origin), source))?
        {
            *number += 1;
            return Ok(self.feed.take(datagram, origin, *number, out));
        }
        tell_packets(open.capture.counts(), &mut out.account);
        tell_ending(open.capture.ending().unwrap_or(&Ending::Whole), &self.last, out);
        self.done = self.done.saturating_add(open.gauge.done());
        self.open = None;
        Ok(0)
    }
}

impl Source for FlowFiles {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        let read_max = out.account.read.saturating_add(records_max as u64);
        let mut letter_bytes = 0;
        for _ in 0..POLL_DATAGRAMS {
            if out.account.read >= read_max || letter_bytes >= Polled::LETTER_BYTES_MAX {
                break;
            }
            letter_bytes += if self.open.is_some() {
                self.advance(out)?
            } else if let Some(path) = self.waiting.pop_front() {
                self.begin(&path, out)?
            } else {
                let (origin, number) = &self.last;
                self.feed.finish(origin, *number, out);
                return Ok(State::End);
            };
        }
        Ok(State::More)
    }

    fn progress(&self) -> Option<Progress> {
        let open = self.open.as_ref().map_or(0, |open| open.gauge.done());
        Some(Progress { done: self.done.saturating_add(open), total: self.total })
    }

    fn position(&self) -> Position {
        let (origin, read) = &self.last;
        let state = FlowPosition {
            waiting: self.waiting.len(),
            is_open: self.open.is_some(),
            last: ((&**origin).into(), *read),
            done: self.done,
            feed: self.feed.image(),
        };
        Position { bytes: position_of(&state), is_exact: true }
    }

    fn resume(&mut self, position: &[u8]) -> Result<(), SourceError> {
        let FlowPosition { waiting, is_open, last: (origin, read), done, feed } =
            state_of::<FlowPosition<FlowDecoder>>(position, "flow files")?;
        let mut begun = None;
        while self.waiting.len() > waiting {
            begun = self.waiting.pop_front();
        }
        self.last = (origin.into(), read);
        self.done = done;
        self.feed.resume(feed);
        match begun {
            Some(path) if is_open => self.resume_capture(&path),
            Some(_) | None => Ok(()),
        }
    }
}

fn unreadable(path: &Path, source: io::Error) -> SourceError {
    SourceError::File { path: path.to_string_lossy().into(), source }
}

fn capture(path: &Path, input: Input) -> Result<Capture, SourceError> {
    Capture::new(input).map_err(|error| match error {
        CaptureError::Io(source) => unreadable(path, source),
        CaptureError::NotACapture { .. } => SourceError::NotACapture {
            path: path.to_string_lossy().into(),
            found: error.to_string().into(),
        },
    })
}

/// Tells of a file that is not whole.
fn tell_ending(ending: &Ending, file: &(Arc<str>, u64), out: &mut Polled) {
    let what = match ending {
        Ending::Whole => return,
        Ending::CutShort => "it ends within a packet",
        Ending::Damaged { detail } => detail,
    };
    let (origin, number) = file;
    out.account.marks.add(TRUNCATED_INPUT, 1);
    out.notices.push(format!(
        "`{origin}` is not whole: {what}; the {number} datagrams before that are used, fetch the file again"
    ));
}

#[cfg(test)]
mod tests;
