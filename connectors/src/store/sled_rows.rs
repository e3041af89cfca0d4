//! Rows on disk, in sled, in a [`Directory`] of this process.

use super::StoreError;
use super::directory::Directory;
use super::pages::SharedRows;
use super::rows::{Row, Rows, Write};
use nilometer_model::epoch::Epoch;
use sled::{Batch, Db, IVec};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Memory that sled may fill with what it has read.
const CACHE_BYTES: u64 = 64 << 20;

/// The file of sled that holds everything.
const LOG: &str = "db";

/// The rows in a directory.
#[derive(Debug)]
pub(crate) struct SledRows {
    directory: Directory,
    db: Db,
    /// Whose directory it is to be, as long as it does not say so.
    owner: Option<Box<str>>,
    /// Whether the database's summary of its log could not be read, and was made anew.
    pub(super) is_mended: bool,
}

impl SledRows {
    /// Opens the rows in `directory`, which belongs to `pipeline`.
    ///
    /// # Errors
    /// They cannot be read or written, or are damaged.
    pub(crate) fn open(directory: Directory, pipeline: &str) -> Result<Self, StoreError> {
        let (db, is_mended) = open_db(&directory.epochs(), &directory.name())?;
        let owner = directory.is_new().then(|| pipeline.into());
        Ok(Self { directory, db, owner, is_mended })
    }

    fn error(&self, error: sled::Error) -> StoreError {
        store_error(&self.directory.name(), error)
    }
}

impl Drop for SledRows {
    /// sled panics if it cannot flush its file when it is closed. So that is done here first, which leaves
    /// it nothing to do; where it fails the database stays open, for the rest of the process.
    fn drop(&mut self) {
        let log = File::open(self.directory.epochs().join(LOG));
        if log.is_ok_and(|log| log.sync_all().is_err()) {
            std::mem::forget(self.db.clone());
        }
    }
}

impl Rows for SledRows {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, StoreError> {
        self.db.get(key).map_err(|error| self.error(error))
    }

    fn scan(
        &self,
        prefix: &[u8],
    ) -> Box<dyn DoubleEndedIterator<Item = Result<Row, StoreError>> + '_> {
        Box::new(self.db.scan_prefix(prefix).map(|row| row.map_err(|error| self.error(error))))
    }

    fn apply(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        self.db.apply_batch(batch).map_err(|error| self.error(error))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.db.flush().map(drop).map_err(|error| self.error(error))
    }

    fn promise(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        match self.owner.take() {
            Some(owner) => self.directory.claim(&owner, epoch),
            None if epoch > self.directory.promised() => self.directory.promise(epoch),
            None => Ok(()),
        }
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        self.db.size_on_disk().map_err(|error| self.error(error))
    }

    fn shared(&self) -> Arc<dyn SharedRows> {
        Arc::new(SharedSled { db: self.db.clone(), path: self.directory.name() })
    }
}

/// The database, for any thread.
#[derive(Debug)]
struct SharedSled {
    db: Db,
    /// Of the directory, for messages.
    path: Box<str>,
}

impl SharedRows for SharedSled {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.db.get(key).map_err(|error| store_error(&self.path, error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn set(&self, key: &[u8], value: Option<Vec<u8>>) -> Result<(), StoreError> {
        let before = match value {
            Some(value) => self.db.insert(key, value),
            None => self.db.remove(key),
        };
        before.map(drop).map_err(|error| store_error(&self.path, error))
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let keys = self.db.scan_prefix(prefix).keys();
        let keys = keys.map(|key| key.map(|key| key.to_vec()));
        keys.collect::<Result<_, _>>().map_err(|error| store_error(&self.path, error))
    }
}

/// Bytes that are written between two flushes: until then sled keeps them in memory.
const FLUSH_BYTES: usize = 16 << 20;

/// Writes all `rows` into a new database at `path`, durably: one without a history.
///
/// # Errors
/// They cannot be read, or not be written.
pub(super) fn write_anew(rows: &dyn Rows, path: &Path, name: &str) -> Result<(), StoreError> {
    let failed = |error| store_error(name, error);
    let (db, _) = open_db(path, name)?;
    let mut bytes = 0;
    for row in rows.scan(&[]) {
        let (key, value) = row?;
        bytes += key.len() + value.len();
        db.insert(key, value).map_err(failed)?;
        if bytes >= FLUSH_BYTES {
            db.flush().map_err(failed)?;
            bytes = 0;
        }
    }
    db.flush().map_err(failed)?;
    drop(db);
    closed(&path.join(LOG)).map_err(|source| StoreError::io(name, source))
}

/// How long sled's threads may take to let go of a database that was closed.
const CLOSES_WITHIN: Duration = Duration::from_secs(30);

/// Waits until nobody holds the lock of a file of sled, which its threads let go of in their own time.
fn closed(file: &Path) -> io::Result<()> {
    let file = File::open(file)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return file.unlock(),
            Err(TryLockError::WouldBlock) if begun.elapsed() < CLOSES_WITHIN => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens sled. Where it cannot read its own summary of the log (`snap.*`, cut short by a crash of
/// the machine), it makes it anew from the log; whether it did.
fn open_db(path: &Path, name: &str) -> Result<(Db, bool), StoreError> {
    let config = sled::Config::new().path(path).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    match config.open() {
        Ok(db) => Ok((db, false)),
        Err(error @ (sled::Error::Corruption { .. } | sled::Error::Io(_))) => {
            if !set_snapshots_aside(path).unwrap_or(false) {
                return Err(store_error(name, error));
            }
            config.open().map(|db| (db, true)).map_err(|error| store_error(name, error))
        }
        Err(error) => Err(store_error(name, error)),
    }
}

/// Renames the summaries of the log, so that they are not read; `false` if there is none.
fn set_snapshots_aside(path: &Path) -> io::Result<bool> {
    let mut has_any = false;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") {
            std::fs::rename(entry.path(), path.join(format!("unread.{name}")))?;
            has_any = true;
        }
    }
    Ok(has_any)
}

fn store_error(path: &str, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            StoreError::damaged(path, "a file of the database is cut short")
        }
        sled::Error::Io(source) => StoreError::io(path, source),
        sled::Error::Corruption { .. } => {
            StoreError::damaged(path, "the database cannot read what it has written")
        }
        sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_) => StoreError::damaged(path, error.to_string()),
    }
}
