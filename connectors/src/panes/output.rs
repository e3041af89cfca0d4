//! Where lines go: a file or standard output. Errors name it and say what to do.
//!
//! Lines are collected and handed over by and by; or they are held until they are asked for and
//! given back, stored, by whoever lets them be published.

use super::{Delivery, PaneTarget};
use crate::sink::{Held, Receipt, SinkError, create};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// An open output.
pub(crate) struct Output {
    /// Path as the user wrote it, or `stdout`.
    name: Box<str>,
    destination: Destination,
    /// Lines not yet handed over. Cleared when it reaches `BUFFER_BYTES`, or when it is taken.
    pub(crate) lines: String,
    is_held: bool,
}

enum Destination {
    /// A file, and how long it is.
    File(File, u64),
    Other(Box<dyn Write + Send>),
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Output {
    const BUFFER_BYTES: usize = 64 << 10;

    /// Opens `target`. A file is empty then, or ends where its delivery goes on.
    ///
    /// # Errors
    /// The file cannot be created, or is shorter than what was written to it.
    pub(crate) fn open(target: &PaneTarget, delivery: Delivery) -> Result<Self, SinkError> {
        let is_held = delivery != Delivery::AtOnce;
        let mut output = match (target, delivery) {
            (PaneTarget::Stdout, _) => Self::stdout(),
            (PaneTarget::File(path), Delivery::Resumed { behind: Some(length) }) => {
                Self::behind(path, length)?
            }
            (PaneTarget::File(path), Delivery::AtOnce | Delivery::Held)
            | (PaneTarget::File(path), Delivery::Resumed { behind: None }) => {
                let (name, file) = (path.to_string_lossy(), create(path)?);
                // A pipe or a device has no length.
                let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
                if is_file {
                    Self::new(&name, Destination::File(file, 0))
                } else {
                    Self::over(&name, Box::new(file))
                }
            }
        };
        output.is_held = is_held;
        Ok(output)
    }

    /// The first `length` bytes of the file at `path`.
    fn behind(path: &Path, length: u64) -> Result<Self, SinkError> {
        let name: Box<str> = path.to_string_lossy().into();
        let open = || -> io::Result<(File, u64)> {
            let mut file = OpenOptions::new().write(true).open(path)?;
            let found = file.metadata()?.len();
            if found >= length {
                file.set_len(length)?;
                file.seek(SeekFrom::End(0))?;
            }
            Ok((file, found))
        };
        let (file, found) = match open() {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound && length > 0 => {
                return Err(SinkError::Shorter { path: name, found: 0, written: length });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (create(path)?, 0),
            Err(source) => return Err(SinkError::Create { path: name, source }),
        };
        if found < length {
            return Err(SinkError::Shorter { path: name, found, written: length });
        }
        Ok(Self::new(&name, Destination::File(file, length)))
    }

    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::over("stdout", Box::new(io::stdout()))
    }

    /// Any writer, under the name that errors give it.
    pub(crate) fn over(name: &str, writer: Box<dyn Write + Send>) -> Self {
        Self::new(name, Destination::Other(writer))
    }

    fn new(name: &str, destination: Destination) -> Self {
        Self { name: name.into(), destination, lines: String::new(), is_held: false }
    }

    /// Ends a line of `lines`, and hands over what has come together.
    pub(crate) fn end_line(&mut self) -> Result<(), SinkError> {
        self.lines.push('\n');
        if self.lines.len() >= Self::BUFFER_BYTES { self.hand_over() } else { Ok(()) }
    }

    /// Hands over all lines, unless they are held, and lets readers see them.
    pub(crate) fn flush(&mut self) -> Result<(), SinkError> {
        if self.is_held {
            return Ok(());
        }
        self.hand_over()?;
        let flushed = self.destination.writer().flush();
        flushed.map_err(|source| self.error(source))
    }

    /// Takes the lines out that are held, if they are at least `least` bytes; `None` if they are not.
    pub(crate) fn take(&mut self, least: usize) -> Option<Held> {
        if !self.is_held || self.lines.len() < least {
            return None;
        }
        let begins = match &self.destination {
            Destination::File(_, length) => Some(*length),
            Destination::Other(_) => None,
        };
        Some(Held { block: std::mem::take(&mut self.lines).into_bytes(), begins })
    }

    /// Writes lines that were taken out; behind the last of them neither the process nor the machine
    /// can lose them.
    pub(crate) fn publish(&mut self, lines: &[u8], is_last: bool) -> Result<Receipt, SinkError> {
        self.write(lines)?;
        let written = match &mut self.destination {
            _ if !is_last => Ok(()),
            Destination::File(file, _) => file.sync_data(),
            Destination::Other(writer) => writer.flush(),
        };
        written.map(|()| Receipt::Taken).map_err(|source| self.error(source))
    }

    fn hand_over(&mut self) -> Result<(), SinkError> {
        if self.is_held {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        self.write(lines.as_bytes())?;
        self.lines = lines;
        self.lines.clear();
        Ok(())
    }

    /// Writes bytes behind all that was written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let written = self.destination.writer().write_all(bytes);
        written.map_err(|source| self.error(source))?;
        if let Destination::File(_, length) = &mut self.destination {
            *length = length.saturating_add(bytes.len() as u64);
        }
        Ok(())
    }

    fn error(&self, source: io::Error) -> SinkError {
        SinkError::Write { path: self.name.clone(), source }
    }
}

impl Destination {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::File(file, _) => file,
            Self::Other(writer) => writer,
        }
    }
}
