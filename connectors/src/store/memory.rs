//! A store in memory that outlives a crash of its user, and loses what a crash would lose.
//!
//! For simulations and tests, and for programs that embed the engine and bring their own storage.

use super::{Store, StoreError};
use nilometer_model::epoch::Epoch;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is left when the process is gone. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    durable: Durable,
    /// Written and not durable yet.
    notes: BTreeMap<Box<str>, Epoch>,
    /// Operations that succeed before every further one fails; `None`: all do.
    left: Option<u64>,
}

#[derive(Debug, Default)]
struct Durable {
    last: Epoch,
    parts: BTreeMap<Box<str>, Vec<u8>>,
    notes: BTreeMap<Box<str>, Epoch>,
}

impl Disk {
    /// The power goes: what was not committed is lost.
    pub fn crash(&self) {
        let mut content = self.content();
        content.notes = content.durable.notes.clone();
    }

    /// Lets every write fail after `operations` more of them; never if `None`.
    pub fn fail_after(&self, operations: Option<u64>) {
        self.content().left = operations;
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store on a [`Disk`].
#[derive(Debug)]
pub struct MemoryStore {
    disk: Disk,
    /// Parts put and not committed. Cleared by the commit.
    ahead: BTreeMap<Box<str>, Vec<u8>>,
}

impl MemoryStore {
    /// Opens what `disk` holds.
    pub fn open(disk: Disk) -> Self {
        Self { disk, ahead: BTreeMap::new() }
    }

    /// The disk, unless it fails now.
    fn write(&self) -> Result<MutexGuard<'_, Content>, StoreError> {
        let mut content = self.disk.content();
        match &mut content.left {
            Some(0) => Err(StoreError::io("memory", io::ErrorKind::StorageFull.into())),
            Some(left) => {
                *left -= 1;
                Ok(content)
            }
            None => Ok(content),
        }
    }
}

impl Store for MemoryStore {
    fn last(&self) -> Epoch {
        self.disk.content().durable.last
    }

    fn read(&self, part: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.disk.content().durable.parts.get(part).cloned())
    }

    fn put(&mut self, _epoch: Epoch, part: &str, bytes: &[u8]) -> Result<(), StoreError> {
        drop(self.write()?);
        self.ahead.insert(part.into(), bytes.into());
        Ok(())
    }

    fn commit(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        let parts = std::mem::take(&mut self.ahead);
        let mut content = self.write()?;
        let notes = content.notes.clone();
        content.durable = Durable { last: epoch, parts, notes };
        Ok(())
    }

    fn note(&mut self, name: &str, epoch: Epoch) -> Result<(), StoreError> {
        self.write()?.notes.insert(name.into(), epoch);
        Ok(())
    }

    fn noted(&self, name: &str) -> Result<Epoch, StoreError> {
        Ok(self.disk.content().notes.get(name).copied().unwrap_or_default())
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        let mut content = self.disk.content();
        content.durable.notes = content.notes.clone();
    }
}
