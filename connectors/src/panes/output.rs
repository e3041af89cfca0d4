//! Where lines go: a file or standard output. Errors name it and say what to do.

use crate::sink::{SinkError, create};
use std::io::{self, Write};
use std::path::Path;

/// An open output.
pub(crate) struct Output {
    /// Path as the user wrote it, or `stdout`.
    name: Box<str>,
    writer: Box<dyn Write + Send>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Output {
    /// The file at `path`, empty, and the directories above it.
    pub(crate) fn file(path: &Path) -> Result<Self, SinkError> {
        let file = create(path)?;
        Ok(Self { name: path.to_string_lossy().into(), writer: Box::new(file) })
    }

    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::new("stdout", Box::new(io::stdout()))
    }

    /// Any writer, under the name that errors give it.
    pub(crate) fn new(name: &str, writer: Box<dyn Write + Send>) -> Self {
        Self { name: name.into(), writer }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.writer.write_all(bytes).map_err(|source| self.error(source))
    }

    pub(crate) fn flush(&mut self) -> Result<(), SinkError> {
        self.writer.flush().map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> SinkError {
        SinkError::Write { path: self.name.clone(), source }
    }
}
