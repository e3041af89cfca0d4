//! What a store of epochs stands on: rows in the order of their keys.
//!
//! The rules of epochs are written once, in [`super::database`], over any rows: those of a database
//! on disk, and those in memory that a simulation tears. Nothing more is asked of rows than that
//! what was flushed is there afterwards; of the writes since then, any may be lost.

use super::StoreError;
use super::pages::SharedRows;
use nilometer_model::epoch::Epoch;
use sled::IVec;
use std::fmt::Debug;
use std::sync::Arc;

/// A row: its key, and its value.
pub(crate) type Row = (IVec, IVec);

/// A write: a key, and its new value; without one the row goes.
pub(crate) type Write = (Vec<u8>, Option<Vec<u8>>);

/// Rows of one caller. After an error of a write they are not used again.
pub(crate) trait Rows: Debug + Send {
    /// The value of a row, if it is there.
    ///
    /// # Errors
    /// It cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<IVec>, StoreError>;

    /// The rows whose keys begin with `prefix`, in order.
    fn scan(
        &self,
        prefix: &[u8],
    ) -> Box<dyn DoubleEndedIterator<Item = Result<Row, StoreError>> + '_>;

    /// Takes some writes; none of them is durable yet.
    ///
    /// # Errors
    /// They cannot be written.
    fn apply(&mut self, writes: Vec<Write>) -> Result<(), StoreError>;

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// It cannot be written.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// Notes beside the rows that they have `epoch`, which is durable, so that it is seen if they
    /// have lost it. A note that is lost leaves the one before it.
    ///
    /// # Errors
    /// It cannot be written.
    fn promise(&mut self, epoch: Epoch) -> Result<(), StoreError>;

    /// Bytes that they take where they lie.
    ///
    /// # Errors
    /// That cannot be found out.
    fn bytes(&self) -> Result<u64, StoreError>;

    /// The same rows, for others than the one caller.
    fn shared(&self) -> Arc<dyn SharedRows>;
}
