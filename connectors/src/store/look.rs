//! A state that is looked at and not gone on with.
//!
//! Opening a database changes it: what a crash has cut off goes, and where its log is damaged, sled
//! overwrites what lies behind. So it is copied, and the copy is opened. Invariant: of the state itself
//! nothing is written but the number of this process into its lock, which is held while it is copied.

use super::beside::AbortFile;
use super::database::Database;
use super::directory::Directory;
use super::trial::on_trial;
use super::{Store, StoreError};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A copy of a state.
#[derive(Debug)]
pub struct Look {
    /// Closed before the copy goes.
    database: Database,
    pipeline: Box<str>,
    aborts: AbortFile,
    _copy: TempDir,
}

impl Look {
    /// Copies the state in the directory at `path`, of whatever pipeline it is, and opens the copy.
    ///
    /// # Errors
    /// There is no state, another process works on it, it is damaged, or there is no room for a copy.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_if(path, Ok)
    }

    /// The same, if it is the state of `pipeline`.
    ///
    /// # Errors
    /// As of [`Look::open`]; or it is that of another.
    pub fn open_of(path: &Path, pipeline: &str) -> Result<Self, StoreError> {
        Self::open_if(path, |directory| directory.of(pipeline))
    }

    fn open_if(
        path: &Path,
        is_wanted: impl FnOnce(Directory) -> Result<Directory, StoreError>,
    ) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Copy { path: std::env::temp_dir(), source };
        let copy = tempfile::Builder::new().prefix("nilometer-state-").tempdir().map_err(failed)?;
        let (directory, aborts) = Directory::copied(path, copy.path())?;
        let directory = is_wanted(directory)?;
        let missing = || StoreError::Missing { path: path.to_string_lossy().into() };
        let pipeline: Box<str> = directory.pipeline().ok_or_else(missing)?.into();
        let of = pipeline.clone();
        let database = on_trial(&directory.name(), move || {
            let database = Database::open(directory, &of)?;
            database.read_rows()?;
            Ok(database)
        })?;
        Ok(Self { database, pipeline, aborts, _copy: copy })
    }

    /// The epochs.
    pub const fn store(&self) -> &Database {
        &self.database
    }

    /// Name of the pipeline whose state it is.
    pub fn pipeline(&self) -> &str {
        &self.pipeline
    }

    /// The file that tells of runs that have failed: that of the state itself, to be read.
    pub const fn abort_file(&self) -> &AbortFile {
        &self.aborts
    }

    /// Bytes of the database.
    ///
    /// # Errors
    /// That cannot be found out.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        self.database.bytes_on_disk()
    }
}

/// A folder that goes with this value.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The one at `path`, whatever is there.
    pub(super) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes what is there.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        self.clear().ok();
    }
}

/// Copies the files of a folder, and the folders in it.
pub(super) fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            // Without its permissions: what may only be read is looked at, too.
            io::copy(&mut File::open(entry.path())?, &mut File::create(target)?)?;
        }
    }
    Ok(())
}
