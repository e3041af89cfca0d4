//! The contract of stores: what outlives the process, epoch by epoch.
//!
//! An epoch is a set of named parts, each a run of bytes, and pieces of a log, written ahead and made
//! durable by one commit: it is there as a whole or not at all (EPOCH-2). Parts are of one epoch;
//! pieces of the log stay as long as later epochs build on them. [`database`] keeps epochs as rows, on
//! disk, or in [`memory`], which loses what was not flushed when it is told to crash.

mod beside;
pub mod database;
mod directory;
mod examination;
mod frame;
mod look;
pub mod memory;
mod packing;
mod pages;
mod proof;
mod rows;
mod sled_rows;
mod trial;

pub use beside::{AbortFile, ImportMark};
pub use directory::Directory;
pub use examination::Examination;
pub use look::Look;
pub use trial::{panic_text, takes_panic};

use nilometer_model::cold::Pages;
use nilometer_model::epoch::Epoch;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A store of epochs.
///
/// One caller. For each epoch, one after another: any number of [`Store::put`], each part once, and of
/// [`Store::append`], then one [`Store::commit`]. Until that returns, nothing of the epoch can be read, and a restart
/// finds the epoch before it; afterwards no crash takes it away. After an error the store is not
/// used again, and what was committed last is what a restart finds, or the epoch that failed if all
/// of it had become durable.
pub trait Store: Send {
    /// The epoch that was committed last; [`Epoch::NONE`] if none was.
    fn last(&self) -> Epoch;

    /// The bytes of `part` of the epoch that was committed last; `None` if it has no such part.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    fn read(&self, part: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Writes a part of `epoch` ahead. The name holds no zero byte.
    ///
    /// # Errors
    /// It cannot be written.
    fn put(&mut self, epoch: Epoch, part: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Writes a piece of the log ahead, in `epoch`, behind those that were written before.
    ///
    /// # Errors
    /// It cannot be written.
    fn append(&mut self, epoch: Epoch, piece: &[u8]) -> Result<(), StoreError>;

    /// The pieces of the log that the epoch which was committed last builds on: those of the last
    /// epoch first, those of one epoch in the order in which they were written.
    fn log(&self) -> Vec<PieceId>;

    /// The bytes of a piece of the log.
    ///
    /// # Errors
    /// It is not there, cannot be read, or is damaged.
    fn piece(&self, piece: PieceId) -> Result<Vec<u8>, StoreError>;

    /// Makes `epoch` durable with all that was written of it. It builds on the log from epoch
    /// `oldest` on, which is not before that of the epoch before. That epoch is kept, too, with what
    /// it builds on; of older ones only pieces stay that one of the two needs.
    ///
    /// # Errors
    /// It cannot be written.
    fn commit(&mut self, epoch: Epoch, oldest: Epoch) -> Result<(), StoreError>;

    /// Notes that `name` has come to `epoch`. It is no part of an epoch: it becomes durable with
    /// the next commit, or when the store is closed by dropping it, and a crash may lose it.
    ///
    /// # Errors
    /// It cannot be written.
    fn note(&mut self, name: &str, epoch: Epoch) -> Result<(), StoreError>;

    /// To where `name` has come; [`Epoch::NONE`] if nothing was noted.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    fn noted(&self, name: &str) -> Result<Epoch, StoreError>;

    /// Bytes that it takes where it lies.
    ///
    /// # Errors
    /// That cannot be found out.
    fn bytes_on_disk(&self) -> Result<u64, StoreError>;

    /// How long it took to open.
    fn opened_in(&self) -> Duration;

    /// Where keys lie that are not in memory. Whoever has it writes to it and reads from it
    /// directly, at any time: what was written before a commit is durable with it.
    fn pages(&self) -> Arc<dyn Pages>;
}

/// A piece of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PieceId {
    /// The epoch in which it was written.
    pub epoch: Epoch,
    /// Its number among those of the epoch, from 0.
    pub number: u32,
}

/// Bytes of a row at most, but for its head: larger values are never reclaimed on disk, and many small ones
/// take memory.
const CHUNK_BYTES: usize = 64 << 10;

/// Version of what stores write.
pub const STORE_VERSION: u8 = 2;

/// Stored state cannot be used or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory cannot be made or opened.
    #[error(
        "cannot use the state directory `{path}`: {source}; check that it may be written, or set another `state.dir`"
    )]
    Directory {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// Another process works on it.
    #[error(
        "the state directory `{path}` is in use by process {pid}; stop that one first, or set another `state.dir`"
    )]
    Locked {
        /// Path as the user wrote it.
        path: Box<str>,
        /// Number of the process, as far as it is known.
        pid: Box<str>,
    },
    /// The directory holds something else.
    #[error(
        "`{path}` holds `{found}` and no state of nilometer; set `state.dir` to an empty directory or a new one"
    )]
    NotAState {
        /// Path as the user wrote it.
        path: Box<str>,
        /// Something that is in it.
        found: Box<str>,
    },
    /// There is no such directory, or nothing in it.
    #[error("there is no state in `{path}`; give the directory that `state.dir` or --state names")]
    Missing {
        /// Path as the user wrote it.
        path: Box<str>,
    },
    /// A new state is to be made, and there is something.
    #[error(
        "`{path}` holds `{found}`, and a state is imported into an empty directory or a new one"
    )]
    NotEmpty {
        /// Path as the user wrote it.
        path: Box<str>,
        /// Something that is in it.
        found: Box<str>,
    },
    /// A state is looked at in a copy, which cannot be made.
    #[error(
        "a state is looked at in a copy, which cannot be made in `{}`: {source}; name a place with more room in TMPDIR",
        path.display()
    )]
    Copy {
        /// Where it was to be.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A state is opened in a copy first and written anew, which cannot be done.
    #[error(
        "the state in `{path}` is read in a copy beside it and written anew before a run goes on with it, and that cannot be done: {source}; free twice as much space as the directory takes, or leave the check out with `state.check = false`"
    )]
    NoCopy {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// Part of the directory is gone.
    #[error(
        "the state directory `{path}` is incomplete: `{missing}` is missing; restore the directory from a copy, or delete it to start anew"
    )]
    Incomplete {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What is missing.
        missing: &'static str,
    },
    /// An import into it was cut off.
    #[error(
        "the state directory `{path}` is not whole: an import into it was cut off; delete it and import again"
    )]
    HalfImported {
        /// Path as the user wrote it.
        path: Box<str>,
    },
    /// It is the state of another pipeline.
    #[error(
        "the state directory `{path}` belongs to pipeline `{found}`, this is `{wanted}`; set another `state.dir`"
    )]
    OtherPipeline {
        /// Path as the user wrote it.
        path: Box<str>,
        /// Name of the pipeline that wrote it.
        found: Box<str>,
        /// Name of this pipeline.
        wanted: Box<str>,
    },
    /// Another version wrote it.
    #[error(
        "the state directory `{path}` has format version {found}, this program reads {STORE_VERSION}: run the version that wrote it, or delete the directory to start anew"
    )]
    Version {
        /// Path as the user wrote it.
        path: Box<str>,
        /// The version found.
        found: u8,
    },
    /// What was stored is not what is read.
    #[error(
        "the state directory `{path}` is damaged: {detail}; restore it from a copy, or delete it to start anew"
    )]
    Damaged {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What is wrong.
        detail: Box<str>,
    },
    /// There is no room.
    #[error(
        "cannot write the state directory `{path}`: {source}; free some space and start again: it goes on from the last epoch that was stored"
    )]
    Full {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
    /// The operating system refuses.
    #[error(
        "cannot read or write the state directory `{path}`: {source}; check the disk and start again: it goes on from the last epoch that was stored"
    )]
    Io {
        /// Path as the user wrote it.
        path: Box<str>,
        /// What the operating system says.
        source: io::Error,
    },
}

impl StoreError {
    /// The error of a directory that is open.
    pub(crate) fn io(path: &str, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { path, source }
            }
            _ => Self::Io { path, source },
        }
    }

    /// What the operating system says while a state is read in a copy and written anew.
    pub(crate) fn copying(path: Box<str>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::NoCopy { path, source },
            _ => Self::Io { path, source },
        }
    }

    pub(crate) fn damaged(path: &str, detail: impl Into<Box<str>>) -> Self {
        Self::Damaged { path: path.into(), detail: detail.into() }
    }
}
