//! Epochs as rows, on disk in sled or in memory.
//!
//! Few rows: parts are packed and cut into chunks of 64 kB, since that is what sled stores well
//! (larger values are never reclaimed, many small ones take its memory). Rows:
//!
//! - `e` epoch part 0 number: a chunk of a part,
//! - `l` epoch piece 0 number: a chunk of a piece of the log,
//! - `c` epoch: the commit of an epoch, with the name, size and checksum of every part and piece, and
//!   from which epoch on the log is needed,
//! - `n` name: a note,
//! - `p` number, and `p` number number: a page of keys that are not in memory, see `super::pages`.
//!
//! Rows of an epoch without its commit row are a cut-off beginning; opening deletes them. Of what
//! was written and not flushed any row may be missing, also under a commit row that is there: so an
//! epoch that nobody has promised is proven by its checksums, and is a cut-off beginning, too, if
//! it is not whole. Where sled's log is damaged sled takes that for its end, and does not say so:
//! what must be there is therefore written down beside it, and is an error if it is not.

use super::directory::{Directory, PIPELINE};
use super::frame::{Unusable, checksum, open, open_epoch, seal, seal_epoch};
use super::packing::{Effort, pack, unpack};
use super::pages::RowPages;
use super::rows::{Rows, Write};
use super::sled_rows::{SledRows, write_anew};
use super::{CHUNK_BYTES, PieceId, Store, StoreError};
use nilometer_model::cold::{PageError, PageNumber, Pages};
use nilometer_model::epoch::Epoch;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows that are written or deleted at a time at most: sled keeps a batch in memory until it is
/// flushed, and grows with large ones.
const BATCH_ROWS: usize = 100;

/// A store over rows.
#[derive(Debug)]
pub struct Database {
    /// For people.
    name: Box<str>,
    rows: Box<dyn Rows>,
    pages: Arc<RowPages>,
    /// The commits of the epochs of which rows are kept, the oldest first.
    live: VecDeque<Commit>,
    /// What was written of the epoch that is being written. Cleared by its commit.
    ahead: Commit,
    pub(super) opened_in: Duration,
    pub(super) is_mended: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Commit {
    pub(super) epoch: Epoch,
    /// The first epoch whose log it builds on.
    oldest: Epoch,
    /// Empty once they are gone.
    pub(super) parts: Vec<Part>,
    /// Of the log; each is called by its number.
    pub(super) pieces: Vec<Part>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: Box<str>,
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
        let begun = Instant::now();
        let (name, promised) = (directory.name(), directory.promised());
        let is_new = directory.is_new();
        let rows = SledRows::open(directory, pipeline)?;
        let is_mended = rows.is_mended;
        if is_new && rows.scan(b"c").next().is_some() {
            // A directory is claimed before anything is committed in it.
            return Err(StoreError::Incomplete { path: name, missing: PIPELINE });
        }
        let mut database = Self::over(Box::new(rows), name, promised)?;
        (database.opened_in, database.is_mended) = (begun.elapsed(), is_mended);
        Ok(database)
    }

    /// Whether the summary of its log was damaged, and was made anew from the log, which is whole.
    pub const fn is_mended(&self) -> bool {
        self.is_mended
    }

    /// Opens the epochs in `rows`, which have at least epoch `promised`.
    pub(crate) fn over(
        rows: Box<dyn Rows>,
        name: Box<str>,
        promised: Epoch,
    ) -> Result<Self, StoreError> {
        let pages = Arc::new(RowPages::open(rows.shared())?);
        let mut database = Self {
            name,
            rows,
            pages,
            live: VecDeque::new(),
            ahead: Commit::default(),
            opened_in: Duration::ZERO,
            is_mended: false,
        };
        database.live = database.find_live(promised)?;
        let found = database.last();
        if found < promised {
            let detail = format!("it has lost epoch {promised}, the last that it has is {found}");
            return Err(StoreError::damaged(&database.name, detail));
        }
        database.sweep()?;
        database.rows.flush()?;
        database.rows.promise(found)?;
        Ok(database)
    }

    /// The last epoch that is whole, behind those that it, and the one before it, build on. One that
    /// was promised is taken at its word: what it lacks is found when it is read.
    fn find_live(&self, promised: Epoch) -> Result<VecDeque<Commit>, StoreError> {
        let mut live: VecDeque<Commit> = VecDeque::new();
        for row in self.rows.scan(b"c").rev() {
            let (key, value) = row?;
            let Some(epoch) = epoch_of(&key) else { continue };
            if live.len() > 1 && epoch < kept_from(&live) {
                break;
            }
            let is_proven = epoch <= promised || !live.is_empty();
            let commit = self.commit_of(&value);
            match commit.and_then(|commit| self.proven(commit, is_proven)) {
                Ok(commit) => live.push_front(commit),
                Err(StoreError::Damaged { .. }) if !is_proven => {}
                Err(error) => return Err(error),
            }
        }
        let is_next = |(one, other): (&Commit, &Commit)| one.epoch.next() == other.epoch;
        let first = live.front().map_or(Epoch::NONE, |commit| commit.epoch);
        let needed = live.back().map_or(Epoch::NONE, |commit| commit.oldest);
        if first > needed || !live.iter().zip(live.iter().skip(1)).all(is_next) {
            return Err(self.damaged("an epoch that others build on"));
        }
        Ok(live)
    }

    fn commit_of(&self, value: &[u8]) -> Result<Commit, StoreError> {
        let content = self.content(value, "a commit")?;
        postcard::from_bytes(content).map_err(|_| self.damaged("a commit"))
    }

    fn proven(&self, commit: Commit, is_promised: bool) -> Result<Commit, StoreError> {
        if !is_promised {
            for part in &commit.parts {
                self.part((b'e', commit.epoch), part)?;
            }
            for piece in &commit.pieces {
                self.part((b'l', commit.epoch), piece)?;
            }
        }
        Ok(commit)
    }

    /// Deletes all rows that are not needed, of which a crash may have left any.
    fn sweep(&mut self) -> Result<(), StoreError> {
        let (last, kept_from) = (self.last(), kept_from(&self.live));
        let before = Epoch::from_number(last.number().saturating_sub(1));
        // Commits first, so that no epoch looks whole that is not.
        for (prefix, kept_from) in [(b"c", kept_from), (b"e", before), (b"l", kept_from)] {
            let mut old: Vec<Write> = Vec::new();
            for row in self.rows.scan(prefix) {
                let (key, _) = row?;
                if epoch_of(&key).is_some_and(|epoch| epoch < kept_from || epoch > last) {
                    old.push((key.to_vec(), None));
                }
            }
            self.apply(old)?;
        }
        self.live.retain(|commit| commit.epoch >= kept_from);
        Ok(())
    }

    /// Deletes the rows that are no longer needed behind a commit.
    fn let_go(&mut self) -> Result<(), StoreError> {
        let (kept_from, count) = (kept_from(&self.live), self.live.len());
        let mut old: Vec<Write> = Vec::new();
        let mut delete = |prefix, epoch, parts: &[Part]| {
            for part in parts {
                let chunks = part.packed.div_ceil(CHUNK_BYTES as u64);
                let numbers = (0..).take(usize::try_from(chunks).unwrap_or(usize::MAX));
                let keys = numbers.map(|number| chunk_key((prefix, epoch), &part.name, number));
                old.extend(keys.map(|key| (key, None)));
            }
        };
        let mut commits: Vec<Write> = Vec::new();
        for commit in self.live.iter_mut().take(count.saturating_sub(2)) {
            delete(b'e', commit.epoch, &std::mem::take(&mut commit.parts));
            if commit.epoch < kept_from {
                delete(b'l', commit.epoch, &commit.pieces);
                commits.push((commit_key(commit.epoch), None));
            }
        }
        self.live.retain(|commit| commit.epoch >= kept_from);
        // Commits first, so that no epoch looks whole that is not.
        self.apply(commits)?;
        self.apply(old)
    }

    /// The parts of the last epoch, and how many bytes each has.
    pub fn parts(&self) -> impl Iterator<Item = (&str, u64)> {
        let parts = self.live.back().map_or(&[][..], |last| &last.parts);
        parts.iter().map(|part| (&*part.name, part.bytes))
    }

    /// What is known of the epochs of which something is kept.
    pub(super) fn commits(&self) -> impl Iterator<Item = &Commit> {
        self.live.iter()
    }

    /// Every page, and what it holds.
    pub(super) fn all_pages(
        &self,
    ) -> Result<impl Iterator<Item = (PageNumber, Result<Vec<u8>, PageError>)>, StoreError> {
        let numbers = self.pages.numbers()?;
        Ok(numbers.into_iter().map(|number| (number, self.pages.read(number))))
    }

    /// Reads every row, also those that nothing asks for.
    pub(super) fn read_rows(&self) -> Result<(), StoreError> {
        self.rows.scan(&[]).try_for_each(|row| row.map(drop))
    }

    /// Writes all of its rows into a new database at `path`.
    pub(super) fn write_anew(&self, path: &Path) -> Result<(), StoreError> {
        write_anew(&*self.rows, path, &self.name)
    }

    /// Takes writes, not too many at a time.
    fn apply(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut writes = writes.into_iter().peekable();
        while writes.peek().is_some() {
            self.rows.apply(writes.by_ref().take(BATCH_ROWS).collect())?;
        }
        Ok(())
    }

    /// Packs `bytes` and writes the chunks.
    fn write(
        &mut self,
        (prefix, epoch): (u8, Epoch),
        name: &str,
        bytes: &[u8],
    ) -> Result<Part, StoreError> {
        let packed =
            pack(bytes, Effort::Fast).map_err(|source| StoreError::io(&self.name, source))?;
        let rows = (0..).zip(packed.chunks(CHUNK_BYTES));
        let rows = rows
            .map(|(number, chunk)| (chunk_key((prefix, epoch), name, number), Some(seal(chunk))));
        self.apply(rows.collect())?;
        Ok(Part {
            name: name.into(),
            bytes: bytes.len() as u64,
            packed: packed.len() as u64,
            checksum: checksum(bytes),
        })
    }

    /// What was written as `part` of an epoch.
    pub(super) fn part(&self, of: (u8, Epoch), part: &Part) -> Result<Vec<u8>, StoreError> {
        let packed = self.chunks(of, part)?;
        let bytes = usize::try_from(part.bytes).map_err(|_| self.damaged(&part.name))?;
        let content = unpack(&packed, bytes);
        let content = content.filter(|content| checksum(content) == part.checksum);
        content.ok_or_else(|| self.damaged(&part.name))
    }

    fn chunks(&self, of: (u8, Epoch), part: &Part) -> Result<Vec<u8>, StoreError> {
        let mut packed = Vec::new();
        for number in 0.. {
            if packed.len() as u64 >= part.packed {
                break;
            }
            let value = self.rows.get(&chunk_key(of, &part.name, number))?;
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
        self.live.back().map_or(Epoch::NONE, |commit| commit.epoch)
    }

    fn read(&self, part: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(last) = self.live.back() else { return Ok(None) };
        let known = last.parts.iter().find(|known| &*known.name == part);
        known.map(|part| self.part((b'e', last.epoch), part)).transpose()
    }

    fn put(&mut self, epoch: Epoch, part: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let part = self.write((b'e', epoch), part, bytes)?;
        self.ahead.parts.push(part);
        Ok(())
    }

    fn append(&mut self, epoch: Epoch, piece: &[u8]) -> Result<(), StoreError> {
        let name = self.ahead.pieces.len().to_string();
        let piece = self.write((b'l', epoch), &name, piece)?;
        self.ahead.pieces.push(piece);
        Ok(())
    }

    fn log(&self) -> Vec<PieceId> {
        let oldest = self.live.back().map_or(Epoch::NONE, |commit| commit.oldest);
        let needed = self.live.iter().rev().take_while(|commit| commit.epoch >= oldest);
        let pieces = needed.flat_map(|commit| {
            let numbers = (0..).take(commit.pieces.len());
            numbers.map(|number| PieceId { epoch: commit.epoch, number })
        });
        pieces.collect()
    }

    fn piece(&self, PieceId { epoch, number }: PieceId) -> Result<Vec<u8>, StoreError> {
        let commit = self.live.iter().find(|commit| commit.epoch == epoch);
        let piece = commit.and_then(|commit| commit.pieces.get(number as usize));
        let piece = piece.ok_or_else(|| self.damaged("a piece of the log"))?;
        self.part((b'l', epoch), piece)
    }

    fn commit(&mut self, epoch: Epoch, oldest: Epoch) -> Result<(), StoreError> {
        let commit = Commit { epoch, oldest, ..std::mem::take(&mut self.ahead) };
        let content = postcard::to_stdvec(&commit)
            .map_err(|error| StoreError::io(&self.name, io::Error::other(error)))?;
        if self.pages.take_dirty() {
            // The commit proves its parts by their checksums, but not the pages.
            self.rows.flush()?;
        }
        self.rows.apply(vec![(commit_key(epoch), Some(seal(&content)))])?;
        self.rows.flush()?;
        self.rows.promise(epoch)?;
        self.live.push_back(commit);
        self.let_go()
    }

    fn note(&mut self, name: &str, epoch: Epoch) -> Result<(), StoreError> {
        self.rows.apply(vec![(note_key(name), Some(seal_epoch(epoch)))])
    }

    fn noted(&self, name: &str) -> Result<Epoch, StoreError> {
        let Some(value) = self.rows.get(&note_key(name))? else { return Ok(Epoch::NONE) };
        open_epoch(&value).map_err(|unusable| self.unusable(unusable, name))
    }

    fn bytes_on_disk(&self) -> Result<u64, StoreError> {
        self.rows.bytes()
    }

    fn opened_in(&self) -> Duration {
        self.opened_in
    }

    fn pages(&self) -> Arc<dyn Pages> {
        self.pages.clone()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // What is lost here are notes: a crash may lose them as well.
        self.rows.flush().ok();
    }
}

/// The first epoch of which the log is kept: the one before the last needs it.
fn kept_from(live: &VecDeque<Commit>) -> Epoch {
    let mut last = live.iter().rev();
    let (last, before) = (last.next(), last.next());
    before.or(last).map_or(Epoch::NONE, |commit| commit.oldest)
}

fn commit_key(epoch: Epoch) -> Vec<u8> {
    let mut key = vec![b'c'];
    key.extend_from_slice(&epoch.number().to_be_bytes());
    key
}

fn chunk_key((prefix, epoch): (u8, Epoch), part: &str, number: u32) -> Vec<u8> {
    let mut key = vec![prefix];
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
