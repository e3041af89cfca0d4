//! Epochs as rows, on disk in sled or in memory.
//!
//! Few rows: parts are packed and cut into chunks of 64 kB, since that is what sled stores well
//! (larger values are never reclaimed, many small ones take its memory). Rows:
//!
//! - `e` epoch part 0 number: a chunk of a part,
//! - `c` epoch: the commit of an epoch, with the name, size and checksum of every part,
//! - `n` name: a note.
//!
//! Rows of an epoch without its commit row are a cut-off beginning; opening deletes them. Of what
//! was written and not flushed any row may be missing, also under a commit row that is there: so an
//! epoch that nobody has promised is proven by its checksums, and is a cut-off beginning, too, if
//! it is not whole. Where sled's log is damaged sled takes that for its end, and does not say so:
//! what must be there is therefore written down beside it, and is an error if it is not.

use super::directory::Directory;
use super::frame::{Unusable, checksum, open, open_epoch, seal, seal_epoch};
use super::rows::{Rows, Write};
use super::sled_rows::SledRows;
use super::{Store, StoreError};
use nilometer_model::epoch::Epoch;
use serde::{Deserialize, Serialize};
use std::io;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Rows that are written or deleted at a time at most: sled keeps a batch in memory until it is
/// flushed, and grows with large ones.
const BATCH_ROWS: usize = 100;
/// Packing of parts: fast before small.
const PACKING_LEVEL: i32 = 1;

/// A store over rows.
#[derive(Debug)]
pub struct Database {
    /// For people.
    name: Box<str>,
    rows: Box<dyn Rows>,
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
        let (name, promised) = (directory.name(), directory.promised());
        Self::over(Box::new(SledRows::open(directory, pipeline)?), name, promised)
    }

    /// Opens the epochs in `rows`, which have at least epoch `promised`.
    pub(crate) fn over(
        rows: Box<dyn Rows>,
        name: Box<str>,
        promised: Epoch,
    ) -> Result<Self, StoreError> {
        let mut database = Self { name, rows, last: Commit::default(), ahead: Vec::new() };
        database.last = database.find_last(promised)?;
        let found = database.last.epoch;
        if found < promised {
            let detail = format!("it has lost epoch {promised}, the last that it has is {found}");
            return Err(StoreError::damaged(&database.name, detail));
        }
        database.delete_old()?;
        database.rows.flush()?;
        database.rows.promise(found)?;
        Ok(database)
    }

    /// The last epoch that is whole. One that was promised is taken at its word: what it lacks is
    /// found when it is read.
    fn find_last(&self, promised: Epoch) -> Result<Commit, StoreError> {
        for row in self.rows.scan(b"c").rev() {
            let (key, value) = row?;
            let is_promised = epoch_of(&key).is_some_and(|epoch| epoch <= promised);
            let commit = self.commit_of(&value);
            match commit.and_then(|commit| self.proven(commit, is_promised)) {
                Err(StoreError::Damaged { .. }) if !is_promised => {}
                found => return found,
            }
        }
        Ok(Commit::default())
    }

    fn commit_of(&self, value: &[u8]) -> Result<Commit, StoreError> {
        let content = self.content(value, "a commit")?;
        postcard::from_bytes(content).map_err(|_| self.damaged("a commit"))
    }

    fn proven(&self, commit: Commit, is_promised: bool) -> Result<Commit, StoreError> {
        for part in commit.parts.iter().filter(|_| !is_promised) {
            self.part(commit.epoch, part)?;
        }
        Ok(commit)
    }

    /// Deletes the rows of all epochs but the last and the one before it; commit rows first, so that
    /// no epoch looks whole that is not.
    fn delete_old(&mut self) -> Result<(), StoreError> {
        let last = self.last.epoch;
        let kept = [last, Epoch::from_number(last.number().saturating_sub(1))];
        for prefix in [b"c", b"e"] {
            let mut old: Vec<Write> = Vec::new();
            for row in self.rows.scan(prefix) {
                let (key, _) = row?;
                if epoch_of(&key).is_some_and(|epoch| !kept.contains(&epoch)) {
                    old.push((key.to_vec(), None));
                }
            }
            self.apply(old)?;
        }
        Ok(())
    }

    /// Takes writes, not too many at a time.
    fn apply(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut writes = writes.into_iter().peekable();
        while writes.peek().is_some() {
            self.rows.apply(writes.by_ref().take(BATCH_ROWS).collect())?;
        }
        Ok(())
    }

    /// What was put as `part` of `epoch`.
    fn part(&self, epoch: Epoch, part: &Part) -> Result<Vec<u8>, StoreError> {
        let packed = self.chunks(epoch, part)?;
        let bytes = usize::try_from(part.bytes).map_err(|_| self.damaged(&part.name))?;
        match zstd::bulk::decompress(&packed, bytes) {
            Ok(content) if content.len() == bytes && checksum(&content) == part.checksum => {
                Ok(content)
            }
            Ok(_) | Err(_) => Err(self.damaged(&part.name)),
        }
    }

    fn chunks(&self, epoch: Epoch, part: &Part) -> Result<Vec<u8>, StoreError> {
        let mut packed = Vec::new();
        for number in 0.. {
            if packed.len() as u64 >= part.packed {
                break;
            }
            let value = self.rows.get(&chunk_key(epoch, &part.name, number))?;
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
            Unusable::Version(found) => StoreError::Version { path: self.name.clone(), found },
            Unusable::Damaged => self.damaged(what),
        }
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::damaged(&self.name, format!("{what} is not what was stored"))
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
        self.part(self.last.epoch, part).map(Some)
    }

    fn put(&mut self, epoch: Epoch, part: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let packed = zstd::bulk::compress(bytes, PACKING_LEVEL)
            .map_err(|source| StoreError::io(&self.name, source))?;
        let rows = (0..).zip(packed.chunks(CHUNK_BYTES));
        let rows = rows.map(|(number, chunk)| (chunk_key(epoch, part, number), Some(seal(chunk))));
        self.apply(rows.collect())?;
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
            .map_err(|error| StoreError::io(&self.name, io::Error::other(error)))?;
        self.rows.apply(vec![(commit_key(epoch), Some(seal(&content)))])?;
        self.rows.flush()?;
        self.rows.promise(epoch)?;
        self.last = commit;
        self.delete_old()
    }

    fn note(&mut self, name: &str, epoch: Epoch) -> Result<(), StoreError> {
        self.rows.apply(vec![(note_key(name), Some(seal_epoch(epoch)))])
    }

    fn noted(&self, name: &str) -> Result<Epoch, StoreError> {
        let Some(value) = self.rows.get(&note_key(name))? else { return Ok(Epoch::NONE) };
        open_epoch(&value).map_err(|unusable| self.unusable(unusable, name))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // What is lost here are notes: a crash may lose them as well.
        self.rows.flush().ok();
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
