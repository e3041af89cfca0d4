//! Whether a state is whole, found out before anything of it is changed.
//!
//! Opening a database of sled changes it: what lies behind the first damage of its log is overwritten,
//! before anybody has noticed that it is missing. So a state is opened in a copy first, and read there to its
//! last byte. Invariant: the database that lies in the directory is opened only if all of it was
//! there; one that is damaged stays as it was, byte for byte, for whoever can still get something out
//! of it.

use super::database::Database;
use super::directory::Directory;
use super::{Examination, StoreError};
use std::time::Instant;

impl Database {
    /// As [`Database::open`], once a copy beside it, which is removed again, has shown that all of it
    /// is whole. The time that this takes is part of [`super::Store::opened_in`].
    ///
    /// # Errors
    /// It is damaged, and nothing of it has been changed; or there is no room for a copy, or it
    /// cannot be read or written.
    pub fn open_proven(directory: Directory, pipeline: &str) -> Result<Self, StoreError> {
        let begun = Instant::now();
        prove(&directory, pipeline)?;
        let mut database = Self::open(directory, pipeline)?;
        database.opened_in = begun.elapsed();
        Ok(database)
    }
}

fn prove(directory: &Directory, pipeline: &str) -> Result<(), StoreError> {
    directory.abort_file().read()?;
    let Some((copy, _folder)) = directory.copy_beside()? else { return Ok(()) };
    let found = Examination::of(&Database::open(copy, pipeline)?)?;
    match found.damage.as_slice() {
        [] => Ok(()),
        [only] => Err(StoreError::damaged(&directory.name(), only.as_str())),
        [first, others @ ..] => {
            let detail = format!("{first}, nor are {} others", others.len());
            Err(StoreError::damaged(&directory.name(), detail))
        }
    }
}
