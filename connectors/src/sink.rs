//! The contract of sinks: where panes go.
//!
//! A sink is made with the plan and the table of texts, and encodes the panes of any stage of that
//! plan. It keeps the order in which it gets them: a retract stands directly before its insert.

use nilometer_model::pane::PaneBatch;
use std::fs::File;
use std::io;
use std::path::Path;

/// A writer of panes.
///
/// One caller: any number of [`Sink::write`] and [`Sink::flush`], then one [`Sink::close`].
/// After an error the sink is not used again; what of the failed batch was written is not known.
pub trait Sink: Send {
    /// Encodes all panes of `panes`, in order. May keep them in a bounded buffer.
    ///
    /// # Errors
    /// The output cannot be written.
    fn write(&mut self, panes: &PaneBatch) -> Result<(), SinkError>;

    /// Hands over what is buffered, so that a reader of the output sees every pane written so far.
    /// Called when nothing else is to be done, at most a few times a second.
    ///
    /// # Errors
    /// The output cannot be written.
    fn flush(&mut self) -> Result<(), SinkError>;

    /// Writes what only the end allows (a table), then flushes.
    ///
    /// # Errors
    /// The output cannot be written.
    fn close(&mut self) -> Result<(), SinkError>;
}

/// The output cannot be written: the process ends with exit code 4.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// A file cannot be created.
    #[error(
        "cannot create `{path}`: {source}; check that its directory may be written, or set another `path`"
    )]
    Create {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// Writing failed midway.
    #[error("cannot write `{path}`: {source}; {}", remedy(source))]
    Write {
        /// Path as the user wrote it, or `stdout`.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
}

impl SinkError {
    /// Whether the reader of the output has gone away (a closed pipe), which is no fault of ours.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Create { .. } => false,
            Self::Write { source, .. } => source.kind() == io::ErrorKind::BrokenPipe,
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or set `path` to another disk"
        }
        io::ErrorKind::BrokenPipe => "its reader has closed the pipe",
        _ => "check the disk and that the file may be written",
    }
}

/// Creates the file at `path` and the directories above it; what it held is lost.
///
/// # Errors
/// It cannot be created.
pub(crate) fn create(path: &Path) -> Result<File, SinkError> {
    let directories = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => std::fs::create_dir_all(parent),
        Some(_) | None => Ok(()),
    };
    directories
        .and_then(|()| File::create(path))
        .map_err(|source| SinkError::Create { path: path.to_string_lossy().into(), source })
}
