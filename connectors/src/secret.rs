//! A text that nobody may see: it stands in the configuration, or in a file of its own.
//!
//! Invariant: nothing that is printed of it is it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A text that may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// As it stands.
    Text(Box<str>),
    /// The content of a file, without a line end behind it.
    File(PathBuf),
}

/// The file of a secret cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{}`: {source}; check that you may read it", path.display())]
pub struct SecretError {
    /// Path as the user wrote it.
    pub path: PathBuf,
    /// What the operating system says.
    pub source: io::Error,
}

impl Secret {
    /// What it says.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn read(&self) -> Result<String, SecretError> {
        match self {
            Self::Text(text) => Ok(text.to_string()),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(source) => Err(SecretError { path: path.clone(), source }),
            },
        }
    }

    /// What `name` is set to: with `.file` behind it, the text of the file at `text`. Returns the name
    /// that is meant.
    pub fn of<'a>(name: &'a str, text: &str) -> (&'a str, Self) {
        match name.strip_suffix(".file") {
            Some(name) => (name, Self::File(text.into())),
            None => (name, Self::Text(text.into())),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
