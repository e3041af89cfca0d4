//! Pages of keys that are not in memory, as rows beside the epochs: `p` number, and for what does not fit
//! into one chunk, `p` number chunk.
//!
//! A page of one very large key is cut as parts of epochs are, since the database never reclaims large
//! values. Behind a chunk that is full there is another, unless the page ends with it; one that is longer
//! was written before pages were cut, and is all of its page. The first chunk is written last and deleted
//! first: so where it is, the page is.
//!
//! Shards write and read them themselves, so that none waits for the store. What an epoch knows of
//! must be durable before its commit row is, which may be there without what was written before it:
//! so the store asks whether pages have been written since it flushed last.

use super::frame::{open, seal};
use super::packing::{Effort, pack, unpack};
use super::{CHUNK_BYTES, StoreError};
use nilometer_model::cold::{PageError, PageNumber, Pages};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rows that any thread reads and writes.
pub(crate) trait SharedRows: Debug + Send + Sync {
    /// The value of a row, if it is there.
    ///
    /// # Errors
    /// It cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Sets the value of a row; without one the row goes. It is not durable yet.
    ///
    /// # Errors
    /// It cannot be written.
    fn set(&self, key: &[u8], value: Option<Vec<u8>>) -> Result<(), StoreError>;

    /// The keys that begin with `prefix`, in order.
    ///
    /// # Errors
    /// They cannot be read.
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError>;
}

/// Pages in rows.
#[derive(Debug)]
pub(crate) struct RowPages {
    rows: Arc<dyn SharedRows>,
    /// Number of the next page. Grows only.
    next: AtomicU64,
    /// Whether a page was written since the last flush.
    is_dirty: AtomicBool,
}

const PREFIX: &[u8] = b"p";

fn row_key(page: PageNumber) -> Vec<u8> {
    [PREFIX, &page.0.to_be_bytes()].concat()
}

/// The key of a chunk of a page; of the first that of the page.
fn chunk_key(page: PageNumber, chunk: u32) -> Vec<u8> {
    let mut key = row_key(page);
    if chunk > 0 {
        key.extend_from_slice(&chunk.to_be_bytes());
    }
    key
}

/// The page of a row, and whether it is the first of it.
fn number_of(key: &[u8]) -> Option<(PageNumber, bool)> {
    let (number, chunk) = key.strip_prefix(PREFIX)?.split_first_chunk()?;
    Some((PageNumber(u64::from_be_bytes(*number)), chunk.is_empty()))
}

fn failed(error: StoreError) -> PageError {
    PageError::Store { reason: error.to_string().into() }
}

impl RowPages {
    /// The pages in `rows`.
    pub(crate) fn open(rows: Arc<dyn SharedRows>) -> Result<Self, StoreError> {
        let keys = rows.keys(PREFIX)?;
        let last = keys.last().and_then(|key| number_of(key));
        let next = AtomicU64::new(last.map_or(0, |(last, _)| last.0.saturating_add(1)));
        Ok(Self { rows, next, is_dirty: AtomicBool::new(false) })
    }

    /// The numbers of all pages.
    pub(crate) fn numbers(&self) -> Result<Vec<PageNumber>, StoreError> {
        let keys = self.rows.keys(PREFIX)?;
        let firsts = keys.iter().filter_map(|key| number_of(key)).filter(|(_, is_first)| *is_first);
        Ok(firsts.map(|(page, _)| page).collect())
    }

    /// Whether a page was written since this was asked last: then a flush is due.
    pub(crate) fn take_dirty(&self) -> bool {
        self.is_dirty.swap(false, Ordering::AcqRel)
    }
}

impl Pages for RowPages {
    fn write(&self, content: &[u8]) -> Result<PageNumber, PageError> {
        let page = PageNumber(self.next.fetch_add(1, Ordering::Relaxed));
        let packed = pack(content, Effort::Least);
        let packed =
            packed.map_err(|error| PageError::Store { reason: error.to_string().into() })?;
        let size = (content.len() as u32).to_le_bytes();
        let content = [&size, packed.as_slice()].concat();
        for (chunk, bytes) in content.chunks(CHUNK_BYTES).enumerate().rev() {
            self.rows.set(&chunk_key(page, chunk as u32), Some(seal(bytes))).map_err(failed)?;
        }
        self.is_dirty.store(true, Ordering::Release);
        Ok(page)
    }

    fn read(&self, page: PageNumber) -> Result<Vec<u8>, PageError> {
        let damaged = || PageError::Damaged { page };
        let mut content = Vec::new();
        for chunk in 0.. {
            let Some(value) = self.rows.get(&chunk_key(page, chunk)).map_err(failed)? else {
                break;
            };
            let bytes = open(&value).map_err(|_| damaged())?;
            content.extend_from_slice(bytes);
            if bytes.len() != CHUNK_BYTES {
                break;
            }
        }
        let parts = content.split_first_chunk();
        let unpacked =
            parts.and_then(|(size, packed)| unpack(packed, u32::from_le_bytes(*size) as usize));
        unpacked.ok_or_else(damaged)
    }

    fn delete(&self, page: PageNumber) -> Result<(), PageError> {
        for key in self.rows.keys(&row_key(page)).map_err(failed)? {
            self.rows.set(&key, None).map_err(failed)?;
        }
        Ok(())
    }

    fn retain(&self, needed: &BTreeSet<PageNumber>) -> Result<(), PageError> {
        for key in self.rows.keys(PREFIX).map_err(failed)? {
            if number_of(&key).is_none_or(|(page, _)| !needed.contains(&page)) {
                self.rows.set(&key, None).map_err(failed)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Disk;
    use super::super::rows::Rows;
    use super::*;

    /// Bytes that cannot be packed.
    fn noise(length: usize) -> Vec<u8> {
        let words = (0_u64..).map(|number| super::super::frame::checksum(&number.to_le_bytes()));
        words.flat_map(u64::to_le_bytes).take(length).collect()
    }

    fn rows(disk: &Disk) -> Vec<usize> {
        disk.scan(&[]).map(|row| row.unwrap().1.len()).collect()
    }

    #[test]
    fn a_page_of_any_length_lies_in_rows_that_are_short() {
        let disk = Disk::default();
        let pages = RowPages::open(disk.shared()).unwrap();
        // What packing and its size add to what cannot be packed.
        let extra = pack(&noise(CHUNK_BYTES), Effort::Least).unwrap().len() - CHUNK_BYTES + 4;
        let full = CHUNK_BYTES - extra;
        for (length, count) in [(0, 1), (full, 1), (full + 1, 2), (1_000_000, 16)] {
            let content = noise(length);
            let page = pages.write(&content).unwrap();
            assert_eq!(rows(&disk).len(), count, "{length}");
            assert!(rows(&disk).iter().all(|bytes| *bytes <= CHUNK_BYTES + 9), "{length}");
            assert_eq!(pages.read(page).unwrap(), content);
            assert_eq!(pages.numbers().unwrap(), [page], "one page, whatever rows it has");
            // Each of its rows is needed, and a page that has lost its first is none.
            for key in disk.keys(PREFIX).unwrap() {
                let value = SharedRows::get(&disk, &key).unwrap();
                disk.set(&key, None).unwrap();
                assert_eq!(pages.read(page), Err(PageError::Damaged { page }));
                let is_first = key.len() == PREFIX.len() + 8;
                assert_eq!(pages.numbers().unwrap().is_empty(), is_first);
                // What is left of it counts as its number, which is not given again.
                let again = RowPages::open(disk.shared()).unwrap();
                assert!(count == 1 || again.write(b"next").unwrap() > page);
                again.delete(PageNumber(page.0 + 1)).unwrap();
                disk.set(&key, value).unwrap();
            }
            pages.delete(page).unwrap();
            assert!(rows(&disk).is_empty());
        }
        let (kept, other) = (pages.write(&noise(200_000)).unwrap(), pages.write(b"x").unwrap());
        pages.retain(&BTreeSet::from([kept])).unwrap();
        assert_eq!(pages.numbers().unwrap(), [kept]);
        assert_eq!((pages.read(kept).unwrap(), rows(&disk).len()), (noise(200_000), 4));
        assert_eq!(pages.read(other), Err(PageError::Damaged { page: other }));
    }

    #[test]
    fn a_page_that_was_written_whole_is_read() {
        let disk = Disk::default();
        let pages = RowPages::open(disk.shared()).unwrap();
        for length in [10, CHUNK_BYTES, 300_000] {
            let content = noise(length);
            let packed = pack(&content, Effort::Fast).unwrap();
            let value = seal(&[&(length as u32).to_le_bytes(), packed.as_slice()].concat());
            disk.set(&row_key(PageNumber(7)), Some(value)).unwrap();
            assert_eq!(pages.read(PageNumber(7)).unwrap(), content);
        }
    }
}
