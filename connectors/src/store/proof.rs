//! Whether a state is whole, found out before anything of it is changed.
//!
//! Opening a database of sled changes it: what lies behind the first damage of its log is overwritten,
//! before anybody has noticed that it is missing. So a state is opened in a copy first, and read there to its
//! last byte. What was read is written into a new database, which takes the place of the other: of
//! a log in which something is damaged sled may read all rows, and still give one of its pages to
//! two of them later. Invariant: of a database whose rows are not all there nothing is changed,
//! not a byte, for whoever can still get something out of it; and a run goes on with no log that
//! anybody else has had in their hands.

use super::database::Database;
use super::directory::Directory;
use super::trial::on_trial;
use super::{Examination, StoreError};
use std::time::Instant;

impl Database {
    /// As [`Database::open`], once a copy beside it, which is removed again, has shown that all of it
    /// is whole, and that has been written anew. The time that this takes is part of
    /// [`super::Store::opened_in`].
    ///
    /// # Errors
    /// It is damaged, and nothing of it has been changed; or there is no room for copies, or it
    /// cannot be read or written.
    pub fn open_proven(directory: Directory, pipeline: &str) -> Result<Self, StoreError> {
        let begun = Instant::now();
        let is_mended = prove(&directory, pipeline)?;
        let mut database = Self::open(directory, pipeline)?;
        (database.opened_in, database.is_mended) = (begun.elapsed(), is_mended);
        Ok(database)
    }
}

/// Whether the summary of its log had to be made anew.
fn prove(directory: &Directory, pipeline: &str) -> Result<bool, StoreError> {
    directory.abort_file().read()?;
    let Some((copy, folder)) = directory.copy_beside()? else { return Ok(false) };
    let fresh = directory.fresh()?;
    let (path, pipeline) = (fresh.path().to_owned(), pipeline.to_owned());
    let (found, is_mended) = on_trial(&directory.name(), move || {
        let database = Database::open(copy, &pipeline)?;
        let found = Examination::of(&database)?;
        if found.damage.is_empty() {
            database.write_anew(&path).map_err(no_room)?;
        }
        Ok((found, database.is_mended()))
    })?;
    match found.damage.as_slice() {
        [] => directory.swap(&fresh, &folder).map(|()| is_mended),
        [only] => Err(StoreError::damaged(&directory.name(), only.as_str())),
        [first, others @ ..] => {
            let detail = format!("{first}, nor are {} others", others.len());
            Err(StoreError::damaged(&directory.name(), detail))
        }
    }
}

/// Where a new database finds no room nothing is wrong with the one that is there.
fn no_room(error: StoreError) -> StoreError {
    match error {
        StoreError::Full { path, source } | StoreError::Io { path, source } => {
            StoreError::copying(path, source)
        }
        error => error,
    }
}
