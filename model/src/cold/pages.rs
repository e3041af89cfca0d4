//! Where pages lie: the contract, and pages in memory.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of a page: every page that is written has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageNumber(pub u64);

impl fmt::Display for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A page cannot be read or written. The shard that needs it must not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The store says no.
    #[error("{reason}")]
    Store {
        /// What it says, and what to do.
        reason: Box<str>,
    },
    /// What is read is not what was written.
    #[error(
        "page {page} of the state is damaged: restore the state from a copy, or delete it to start anew"
    )]
    Damaged {
        /// The page.
        page: PageNumber,
    },
}

/// A place for pages outside of the memory of a shard.
///
/// All shards share it. A page is written once, read any number of times, and deleted once no epoch
/// needs it. What is written can be read at once; it outlives the process with the next epoch that
/// is committed. After an error the shard that met it does no more.
pub trait Pages: fmt::Debug + Send + Sync {
    /// Writes a page; returns its number, which no page had before.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&self, content: &[u8]) -> Result<PageNumber, PageError>;

    /// The content of a page.
    ///
    /// # Errors
    /// There is none, it cannot be read, or is damaged.
    fn read(&self, page: PageNumber) -> Result<Vec<u8>, PageError>;

    /// Deletes a page that no epoch needs.
    ///
    /// # Errors
    /// The store cannot be written.
    fn delete(&self, page: PageNumber) -> Result<(), PageError>;

    /// Deletes all pages but those that are needed: what a crash has left behind.
    ///
    /// # Errors
    /// The store cannot be read or written.
    fn retain(&self, needed: &BTreeSet<PageNumber>) -> Result<(), PageError>;
}

/// Pages in memory: for simulations, tests, and programs that bring no store.
#[derive(Debug, Default)]
pub struct MemoryPages(Mutex<(u64, BTreeMap<u64, Vec<u8>>)>);

impl MemoryPages {
    /// How many pages there are.
    pub fn count(&self) -> usize {
        self.content().1.len()
    }

    fn content(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Vec<u8>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages for MemoryPages {
    fn write(&self, content: &[u8]) -> Result<PageNumber, PageError> {
        let mut pages = self.content();
        pages.0 += 1;
        let number = pages.0;
        pages.1.insert(number, content.into());
        Ok(PageNumber(number))
    }

    fn read(&self, page: PageNumber) -> Result<Vec<u8>, PageError> {
        self.content().1.get(&page.0).cloned().ok_or(PageError::Damaged { page })
    }

    fn delete(&self, page: PageNumber) -> Result<(), PageError> {
        self.content().1.remove(&page.0);
        Ok(())
    }

    fn retain(&self, needed: &BTreeSet<PageNumber>) -> Result<(), PageError> {
        self.content().1.retain(|number, _| needed.contains(&PageNumber(*number)));
        Ok(())
    }
}
