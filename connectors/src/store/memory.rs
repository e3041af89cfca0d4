//! Rows in memory that outlive a crash of their user, and lose what a crash would lose.
//!
//! For simulations and tests, and for programs that embed the engine and bring their own storage.

use super::StoreError;
use super::database::Database;
use super::pages::SharedRows;
use super::rows::{Row, Rows, Write};
use nilometer_model::epoch::Epoch;
use sled::IVec;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is left when the process is gone. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    /// What no crash takes away.
    durable: BTreeMap<IVec, IVec>,
    /// What is read: with the writes since the last flush.
    written: BTreeMap<IVec, IVec>,
    /// The writes since the last flush, in order.
    ahead: Vec<Write>,
    /// What is promised, and what a crash may leave of it.
    promised: (Epoch, Epoch),
    /// Operations that succeed before every further one fails; `None`: all do.
    left: Option<u64>,
}

impl Content {
    /// One more operation, unless the disk fails now.
    fn operate(&mut self) -> Result<(), StoreError> {
        match &mut self.left {
            Some(0) => Err(StoreError::io(NAME, io::ErrorKind::StorageFull.into())),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// What errors call it.
const NAME: &str = "memory";

fn write(rows: &mut BTreeMap<IVec, IVec>, (key, value): &Write) {
    match value {
        Some(value) => rows.insert(key.as_slice().into(), value.as_slice().into()),
        None => rows.remove(key.as_slice()),
    };
}

impl Disk {
    /// The power goes: what was not flushed is lost.
    pub fn crash(&self) {
        self.tear(|| false);
    }

    /// The power goes while the disk is writing: of what was not flushed each write has reached it,
    /// or not, as `reaches` says.
    pub fn tear(&self, mut reaches: impl FnMut() -> bool) {
        let content = &mut *self.content();
        let reached = std::mem::take(&mut content.ahead).into_iter().filter(|_| reaches());
        reached.for_each(|one| write(&mut content.durable, &one));
        content.written = content.durable.clone();
        if !reaches() {
            content.promised.0 = content.promised.1;
        }
    }

    /// Lets every write fail after `operations` more of them; never if `None`.
    pub fn fail_after(&self, operations: Option<u64>) {
        self.content().left = operations;
    }

    /// Opens the epochs on it.
    ///
    /// # Errors
    /// It fails.
    pub fn open(&self) -> Result<Database, StoreError> {
        let promised = self.content().promised.0;
        Database::over(Box::new(self.clone()), NAME.into(), promised)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedRows for Disk {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.content().written.get(key).map(|value| value.to_vec()))
    }

    fn set(&self, key: &[u8], value: Option<Vec<u8>>) -> Result<(), StoreError> {
        Rows::apply(&mut self.clone(), vec![(key.into(), value)])
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        self.scan(prefix).map(|row| row.map(|(key, _)| key.to_vec())).collect()
    }
}

impl Rows for Disk {
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, StoreError> {
        Ok(self.content().written.get(key).cloned())
    }

    fn scan(
        &self,
        prefix: &[u8],
    ) -> Box<dyn DoubleEndedIterator<Item = Result<Row, StoreError>> + '_> {
        let content = self.content();
        let from = content.written.range(IVec::from(prefix)..);
        let rows = from.take_while(|(key, _)| key.starts_with(prefix));
        let rows: Vec<_> = rows.map(|(key, value)| Ok((key.clone(), value.clone()))).collect();
        Box::new(rows.into_iter())
    }

    fn apply(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        let content = &mut *self.content();
        content.operate()?;
        for one in writes {
            write(&mut content.written, &one);
            content.ahead.push(one);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let content = &mut *self.content();
        if content.ahead.is_empty() {
            return Ok(());
        }
        content.operate()?;
        content.ahead.clear();
        content.durable = content.written.clone();
        Ok(())
    }

    fn promise(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        let content = &mut *self.content();
        if epoch <= content.promised.0 {
            return Ok(());
        }
        content.operate()?;
        content.promised = (epoch, content.promised.0);
        Ok(())
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let content = self.content();
        let rows = content.written.iter().map(|(key, value)| (key.len() + value.len()) as u64);
        Ok(rows.fold(0, u64::saturating_add))
    }

    fn shared(&self) -> Arc<dyn SharedRows> {
        Arc::new(self.clone())
    }
}
