//! Pages of keys that are not in memory, as rows beside the epochs: `p` number.
//!
//! Shards write and read them themselves, so that none waits for the store. What an epoch knows of
//! must be durable before its commit row is, which may be there without what was written before it:
//! so the store asks whether pages have been written since it flushed last.

use super::StoreError;
use super::frame::{open, seal};
use super::packing::{Effort, pack, unpack};
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

fn number_of(key: &[u8]) -> Option<PageNumber> {
    let number = key.strip_prefix(PREFIX)?.try_into().ok()?;
    Some(PageNumber(u64::from_be_bytes(number)))
}

fn failed(error: StoreError) -> PageError {
    PageError::Store { reason: error.to_string().into() }
}

impl RowPages {
    /// The pages in `rows`.
    pub(crate) fn open(rows: Arc<dyn SharedRows>) -> Result<Self, StoreError> {
        let keys = rows.keys(PREFIX)?;
        let last = keys.last().and_then(|key| number_of(key));
        let next = AtomicU64::new(last.map_or(0, |last| last.0.saturating_add(1)));
        Ok(Self { rows, next, is_dirty: AtomicBool::new(false) })
    }

    /// The numbers of all pages.
    pub(crate) fn numbers(&self) -> Result<Vec<PageNumber>, StoreError> {
        let keys = self.rows.keys(PREFIX)?;
        Ok(keys.iter().filter_map(|key| number_of(key)).collect())
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
        let value = seal(&[&size, packed.as_slice()].concat());
        self.rows.set(&row_key(page), Some(value)).map_err(failed)?;
        self.is_dirty.store(true, Ordering::Release);
        Ok(page)
    }

    fn read(&self, page: PageNumber) -> Result<Vec<u8>, PageError> {
        let value = self.rows.get(&row_key(page)).map_err(failed)?;
        let content = value.as_deref().and_then(|value| {
            let (size, packed) = open(value).ok()?.split_first_chunk()?;
            unpack(packed, u32::from_le_bytes(*size) as usize)
        });
        content.ok_or(PageError::Damaged { page })
    }

    fn delete(&self, page: PageNumber) -> Result<(), PageError> {
        self.rows.set(&row_key(page), None).map_err(failed)
    }

    fn retain(&self, needed: &BTreeSet<PageNumber>) -> Result<(), PageError> {
        for key in self.rows.keys(PREFIX).map_err(failed)? {
            if number_of(&key).is_none_or(|page| !needed.contains(&page)) {
                self.rows.set(&key, None).map_err(failed)?;
            }
        }
        Ok(())
    }
}
