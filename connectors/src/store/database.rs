//! Epochs on disk, in sled.
//!
//! One tree, few rows: parts are packed and cut into chunks of 64 kB, since that is what sled
//! stores well (larger values are never reclaimed, many small ones take its memory). Rows:
//!
//! - `e` epoch part 0 number: a chunk of a part,
//! - `c` epoch: the commit of an epoch, with the name, size and checksum of every part,
//! - `n` name: a note.
//!
//! Rows of an epoch without its commit row are a cut-off beginning; opening deletes them. sled's
//! log is recovered up to a point, so where the commit row is, everything before it is too; the
//! checksums prove it. Where the log is damaged that point lies too early, and sled does not say
//! so: what must be there is therefore written down beside it.

use super::directory::Directory;
use super::frame::{Unusable, checksum, open, open_epoch, seal, seal_epoch};
use super::{Store, StoreError};
use nilometer_model::epoch::Epoch;
use serde::{Deserialize, Serialize};
use sled::{Batch, Db};
use std::io;
use std::path::Path;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Rows that are written or deleted at a time at most: sled keeps a batch in memory until it is
/// flushed, and grows with large ones.
const BATCH_ROWS: usize = 100;
/// Memory that sled may fill with what it has read.
const CACHE_BYTES: u64 = 64 << 20;
/// Packing of parts: fast before small.
const PACKING_LEVEL: i32 = 1;

/// A store in a directory.
#[derive(Debug)]
pub struct Database {
    directory: Directory,
    db: Db,
    /// The commit of the last epoch.
    last: Commit,
    /// What was put of the epoch that is being written. Cleared by its commit.
    ahead: Vec<Part>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Commit {
    epoch: Epoch,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    name: Box<str>,
    /// Bytes of its content.
    bytes: u64,
    /// Bytes as packed.
    packed: u64,
    /// Checksum of its content.
    checksum: u64,
}

impl Database {
    /// Opens the epochs of `pipeline` in `directory`, and deletes what a crash has cut off.
    ///
    /// # Errors
    /// They cannot be read or written, or are damaged.
    pub fn open(directory: Directory, pipeline: &str) -> Result<Self, StoreError> {
        let path = directory.name();
        let db = open_db(&directory.epochs(), &path)?;
        let mut database = Self { directory, db, last: Commit::default(), ahead: Vec::new() };
        database.last = database.find_last()?;
        let promised = database.directory.promised();
        if database.last.epoch < promised {
            let found = database.last.epoch;
            let detail = format!("it has lost epoch {promised}, the last that it has is {found}");
            return Err(StoreError::damaged(&path, detail));
        }
        database.delete_old()?;
        if database.directory.is_new() {
            database.flush()?;
            database.directory.claim(pipeline, database.last.epoch)?;
        }
        Ok(database)
    }

    fn find_last(&self) -> Result<Commit, StoreError> {
        let Some(row) = self.db.scan_prefix(b"c").next_back() else {
            return Ok(Commit::default());
        };
        let (_, value) = row.map_err(|error| self.error(error))?;
        let content = self.content(&value, "a commit")?;
        postcard::from_bytes(content).map_err(|_| self.damaged("a commit"))
    }

    /// Deletes the rows of all epochs but the last and the one before it; commit rows first, so that
    /// no epoch looks whole that is not.
    fn delete_old(&self) -> Result<(), StoreError> {
        let last = self.last.epoch;
        let kept = [last, Epoch::from_number(last.number().saturating_sub(1))];
        for prefix in [b"c", b"e"] {
            let mut batch = Batch::default();
            let mut rows = 0;
            for key in self.db.scan_prefix(prefix).keys() {
                let key = key.map_err(|error| self.error(error))?;
                if epoch_of(&key).is_none_or(|epoch| kept.contains(&epoch)) {
                    continue;
                }
                batch.remove(key);
                rows += 1;
                if rows == BATCH_ROWS {
                    self.apply(std::mem::take(&mut batch))?;
                    rows = 0;
                }
            }
            self.apply(batch)?;
        }
        Ok(())
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.db.apply_batch(batch).map_err(|error| self.error(error))
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.db.flush().map(drop).map_err(|error| self.error(error))
    }

    fn chunks(&self, part: &Part) -> Result<Vec<u8>, StoreError> {
        let mut packed = Vec::new();
        for number in 0.. {
            if packed.len() as u64 >= part.packed {
                break;
            }
            let key = chunk_key(self.last.epoch, &part.name, number);
            let value = self.db.get(key).map_err(|error| self.error(error))?;
            let value = value.ok_or_else(|| self.damaged(&part.name))?;
            packed.extend_from_slice(self.content(&value, &part.name)?);
        }
        Ok(packed)
    }

    fn content<'a>(&self, value: &'a [u8], what: &str) -> Result<&'a [u8], StoreError> {
        open(value).map_err(|unusable| self.unusable(unusable, what))
    }

    fn unusable(&self, unusable: Unusable, what: &str) -> StoreError {
        match unusable {
            Unusable::Version(found) => StoreError::Version { path: self.directory.name(), found },
            Unusable::Damaged => self.damaged(what),
        }
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::damaged(&self.directory.name(), format!("{what} is not what was stored"))
    }

    fn error(&self, error: sled::Error) -> StoreError {
        store_error(&self.directory.name(), error)
    }
}

impl Store for Database {
    fn last(&self) -> Epoch {
        self.last.epoch
    }

    fn read(&self, part: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(part) = self.last.parts.iter().find(|known| &*known.name == part) else {
            return Ok(None);
        };
        let packed = self.chunks(part)?;
        let bytes = usize::try_from(part.bytes).map_err(|_| self.damaged(&part.name))?;
        let content = zstd::bulk::decompress(&packed, bytes);
        match content {
            Ok(content) if content.len() == bytes && checksum(&content) == part.checksum => {
                Ok(Some(content))
            }
            Ok(_) | Err(_) => Err(self.damaged(&part.name)),
        }
    }

    fn put(&mut self, epoch: Epoch, part: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let packed = zstd::bulk::compress(bytes, PACKING_LEVEL)
            .map_err(|source| StoreError::io(&self.directory.name(), source))?;
        let rows: Vec<_> = (0..).zip(packed.chunks(CHUNK_BYTES)).collect();
        for rows in rows.chunks(BATCH_ROWS) {
            let mut batch = Batch::default();
            for (number, chunk) in rows {
                batch.insert(chunk_key(epoch, part, *number), seal(chunk));
            }
            self.apply(batch)?;
        }
        self.ahead.push(Part {
            name: part.into(),
            bytes: bytes.len() as u64,
            packed: packed.len() as u64,
            checksum: checksum(bytes),
        });
        Ok(())
    }

    fn commit(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        let commit = Commit { epoch, parts: std::mem::take(&mut self.ahead) };
        let content = postcard::to_stdvec(&commit)
            .map_err(|error| StoreError::io(&self.directory.name(), io::Error::other(error)))?;
        let inserted = self.db.insert(commit_key(epoch), seal(&content));
        inserted.map_err(|error| self.error(error))?;
        self.flush()?;
        self.directory.promise(epoch)?;
        self.last = commit;
        self.delete_old()
    }

    fn note(&mut self, name: &str, epoch: Epoch) -> Result<(), StoreError> {
        let value = seal_epoch(epoch);
        self.db.insert(note_key(name), value).map(drop).map_err(|error| self.error(error))
    }

    fn noted(&self, name: &str) -> Result<Epoch, StoreError> {
        let value = self.db.get(note_key(name)).map_err(|error| self.error(error))?;
        let Some(value) = value else { return Ok(Epoch::NONE) };
        open_epoch(&value).map_err(|unusable| self.unusable(unusable, name))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // What is lost here are notes: a crash may lose them as well.
        self.flush().ok();
    }
}

/// Opens sled. Where it cannot read its own summary of the log (`snap.*`, cut short by a crash of
/// the machine), it makes it anew from the log.
fn open_db(path: &Path, name: &str) -> Result<Db, StoreError> {
    let config = sled::Config::new().path(path).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    match config.open() {
        Ok(db) => Ok(db),
        Err(error @ (sled::Error::Corruption { .. } | sled::Error::Io(_))) => {
            if !set_snapshots_aside(path).unwrap_or(false) {
                return Err(store_error(name, error));
            }
            config.open().map_err(|error| store_error(name, error))
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
        sled::Error::Io(source) => StoreError::io(path, source),
        sled::Error::Corruption { .. } => {
            StoreError::damaged(path, "the database cannot read what it has written")
        }
        sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_) => StoreError::damaged(path, error.to_string()),
    }
}

fn commit_key(epoch: Epoch) -> Vec<u8> {
    let mut key = vec![b'c'];
    key.extend_from_slice(&epoch.number().to_be_bytes());
    key
}

fn chunk_key(epoch: Epoch, part: &str, number: u32) -> Vec<u8> {
    let mut key = vec![b'e'];
    key.extend_from_slice(&epoch.number().to_be_bytes());
    key.extend_from_slice(part.as_bytes());
    key.push(0);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn note_key(name: &str) -> Vec<u8> {
    let mut key = vec![b'n'];
    key.extend_from_slice(name.as_bytes());
    key
}

/// The epoch of a commit or a chunk.
fn epoch_of(key: &[u8]) -> Option<Epoch> {
    let number = key.get(1..9)?.try_into().ok()?;
    Some(Epoch::from_number(u64::from_be_bytes(number)))
}
