//! Files of a state directory beside its database: what is known of failed runs, and whether the state is
//! still being made.
//!
//! Invariant: each is replaced as a whole or not at all.

use super::StoreError;
use super::frame::{self, Unusable};
use nilometer_model::epoch::Aborts;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(super) const ABORTS: &str = "aborts";
pub(super) const ABORTS_NEW: &str = "aborts.new";
pub(super) const IMPORT: &str = "import";

/// The file in a state directory that tells of runs that have failed. It is of use only to whoever
/// has the directory for itself, and may be written by a process that comes to a bad end: it needs
/// nothing of the store.
#[derive(Debug, Clone)]
pub struct AbortFile {
    path: PathBuf,
    /// Of the directory, for people.
    shown: Box<str>,
}

impl AbortFile {
    /// That in the directory at `path`, which people know as `shown`.
    pub(super) fn new(path: &Path, shown: &str) -> Self {
        Self { path: path.into(), shown: shown.into() }
    }

    /// What was written last; nothing if nothing was.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read(&self) -> Result<Aborts, StoreError> {
        let name = self.shown.clone();
        let value = match fs::read(self.path.join(ABORTS)) {
            Ok(value) => value,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Aborts::default()),
            Err(source) => return Err(StoreError::Directory { path: name, source }),
        };
        let content = match frame::open(&value) {
            Ok(content) => content,
            Err(Unusable::Version(found)) => return Err(StoreError::Version { path: name, found }),
            Err(Unusable::Damaged) => &[],
        };
        postcard::from_bytes(content)
            .map_err(|_| StoreError::damaged(&name, "`aborts` makes no sense"))
    }

    /// Writes `aborts` in the place of what was there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, aborts: &Aborts) -> Result<(), StoreError> {
        // Into memory, of types that all serialise: nothing can fail.
        let content = postcard::to_stdvec(aborts).unwrap_or_default();
        replace((&self.path, &self.shown), (ABORTS_NEW, ABORTS), &frame::seal(&content))
    }
}

/// The mark of a state that is being made of an export. As long as it is there the directory is refused:
/// a process that was killed meanwhile leaves what looks like a state that has just begun.
#[derive(Debug)]
pub struct ImportMark {
    path: PathBuf,
    /// Of the directory, for people.
    shown: Box<str>,
}

impl ImportMark {
    /// Sets it in the directory at `path`, which people know as `shown`.
    pub(super) fn set(path: &Path, shown: &str) -> Result<Self, StoreError> {
        let set = || -> io::Result<()> {
            File::create(path.join(IMPORT))?;
            sync_folder(path)
        };
        set().map_err(|source| StoreError::io(shown, source))?;
        Ok(Self { path: path.into(), shown: shown.into() })
    }

    /// Whether it stands in the directory at `path`.
    pub(super) fn is_set(path: &Path) -> bool {
        path.join(IMPORT).exists()
    }

    /// Takes it away: the state is whole, and durable.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(self) -> Result<(), StoreError> {
        let removed =
            fs::remove_file(self.path.join(IMPORT)).and_then(|()| sync_folder(&self.path));
        removed.map_err(|source| StoreError::io(&self.shown, source))
    }
}

/// Makes durable which files are in a folder.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Puts `content` in the place of a file of `directory`, whole or not at all; people know it as `shown`.
pub(super) fn replace(
    (directory, shown): (&Path, &str),
    (new, name): (&str, &str),
    content: &[u8],
) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let mut file = File::create(directory.join(new))?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(directory.join(new), directory.join(name))
    };
    write().map_err(|source| StoreError::io(shown, source))
}
