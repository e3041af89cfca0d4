//! The directory of a state: whose it is, and that one process works on it at a time.
//!
//! It holds `lock` (locked as long as a process works on it, with the number of that process),
//! `pipeline` (format version and name of the pipeline), `epochs` (the database) and `last` (the
//! number of the epoch that the database must have at least: see [`Directory::promised`]),
//! `aborts` where a run has failed (see [`AbortFile`]), `import` until a state that is being made is
//! whole (see [`ImportMark`]), and `copy` and `fresh` while it is found out whether
//! the database is whole, and it is written anew: `fresh` takes the place of `epochs`, and is it where
//! that has gone. A directory that holds anything else is refused, and nothing in it is touched.

use super::beside::{ABORTS, ABORTS_NEW, AbortFile, IMPORT, ImportMark, replace, sync_folder};
use super::frame::{open_epoch, seal_epoch};
use super::look::{Folder, copy_all};
use super::{STORE_VERSION, StoreError};
use nilometer_model::epoch::Epoch;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A state directory that this process has for itself, until it is dropped.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// As users know it: of a copy, what it is a copy of.
    shown: Box<str>,
    /// Locked.
    _lock: File,
    /// Whose it is, if it has been claimed.
    pipeline: Option<Box<str>>,
    /// What `last` says. Rises only.
    promised: Epoch,
}

const LOCK: &str = "lock";
pub(super) const PIPELINE: &str = "pipeline";
const PIPELINE_NEW: &str = "pipeline.new";
const EPOCHS: &str = "epochs";
const LAST: &str = "last";
const LAST_NEW: &str = "last.new";
const COPY: &str = "copy";
/// The database written anew; whole and durable when `epochs` goes.
const FRESH: &str = "fresh";

impl Directory {
    /// Opens the state of `pipeline` in the directory at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// The directory cannot be used, another process has it, or it holds something else than the
    /// state of this pipeline in this version.
    pub fn open(path: &Path, pipeline: &str) -> Result<Self, StoreError> {
        let made = fs::create_dir_all(path);
        made.map_err(|source| StoreError::Directory {
            path: path.to_string_lossy().into(),
            source,
        })?;
        Self::take(path)?.of(pipeline)
    }

    /// Makes a directory at `path` for a state of `pipeline`, unless there is an empty one.
    ///
    /// # Errors
    /// It cannot be made, or is not empty.
    pub fn new(path: &Path, pipeline: &str) -> Result<Self, StoreError> {
        let found = fs::read_dir(path).ok().and_then(|mut entries| entries.next()?.ok());
        if let Some(found) = found {
            return Err(StoreError::NotEmpty {
                path: path.to_string_lossy().into(),
                found: found.file_name().to_string_lossy().into(),
            });
        }
        Self::open(path, pipeline)
    }

    /// The same, if it is that of `pipeline` or of none yet.
    ///
    /// # Errors
    /// It is that of another.
    pub fn of(self, pipeline: &str) -> Result<Self, StoreError> {
        match &self.pipeline {
            Some(found) if **found != *pipeline => Err(StoreError::OtherPipeline {
                path: self.name(),
                found: found.clone(),
                wanted: pipeline.into(),
            }),
            Some(_) | None => Ok(self),
        }
    }

    fn take(path: &Path) -> Result<Self, StoreError> {
        check_names(path)?;
        let lock = lock(path)?;
        finish_swap(path).map_err(|source| StoreError::Directory {
            path: path.to_string_lossy().into(),
            source,
        })?;
        let (owner, promised) = facts(path)?;
        let shown = path.to_string_lossy().into();
        Ok(Self { path: path.into(), shown, _lock: lock, pipeline: owner, promised })
    }

    /// A copy in `folder` of the state in the directory at `path`, whose lock is held meanwhile; and
    /// the file that tells of its failed runs.
    ///
    /// # Errors
    /// There is no state in this version, another process has it, or it cannot be copied.
    pub(super) fn copied(path: &Path, folder: &Path) -> Result<(Self, AbortFile), StoreError> {
        check_state(path)?;
        check_names(path)?;
        let shown: Box<str> = path.to_string_lossy().into();
        let _held = lock_to_look(path)?;
        let (pipeline, promised) = facts(path)?;
        if pipeline.is_none() {
            return Err(StoreError::Missing { path: shown });
        }
        let aborts = AbortFile::new(path, &shown);
        let copy = copy_of(path, folder, Facts { shown, pipeline, promised });
        let copy = copy.map_err(|source| StoreError::Copy { path: folder.into(), source })?;
        Ok((copy, aborts))
    }

    /// A copy of it in a folder in it, which is removed with the value beside; `None` if there is no
    /// database yet. Nothing else of it is written to.
    pub(super) fn copy_beside(&self) -> Result<Option<(Self, Folder)>, StoreError> {
        if !self.epochs().exists() {
            return Ok(None);
        }
        let folder = Folder::at(self.path.join(COPY));
        let facts =
            Facts { shown: self.name(), pipeline: self.pipeline.clone(), promised: self.promised };
        let copy = folder.clear().and_then(|()| copy_of(&self.path, folder.path(), facts));
        let copy = copy.map_err(|source| StoreError::NoCopy { path: self.name(), source })?;
        Ok(Some((copy, folder)))
    }

    /// A folder in it for the database written anew, which is removed with the value.
    pub(super) fn fresh(&self) -> Result<Folder, StoreError> {
        let folder = Folder::at(self.path.join(FRESH));
        folder.clear().map_err(|source| StoreError::NoCopy { path: self.name(), source })?;
        Ok(folder)
    }

    /// Puts the database that was written anew in the place of the other one, which goes to `away`.
    /// If the process ends in between, the next start goes on.
    pub(super) fn swap(&self, fresh: &Folder, away: &Folder) -> Result<(), StoreError> {
        let swap = || -> io::Result<()> {
            for folder in [fresh.path().join("blobs"), fresh.path().into(), self.path.clone()] {
                sync_folder(&folder)?;
            }
            fs::rename(self.epochs(), away.path().join("old"))?;
            fs::rename(fresh.path(), self.epochs())?;
            sync_folder(&self.path)
        };
        swap().map_err(|source| StoreError::io(&self.name(), source))
    }

    /// The epoch that the database must have at least. A database that has lost it is damaged, also
    /// where it does not say so: it reads its log up to the first damage, and takes that for the
    /// end.
    pub(crate) const fn promised(&self) -> Epoch {
        self.promised
    }

    /// Promises that the database has `epoch`, which is durable in it.
    pub(crate) fn promise(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        // Without its directory made durable the older promise may come back, which only asks less.
        self.replace((LAST_NEW, LAST), &seal_epoch(epoch))?;
        self.promised = epoch;
        Ok(())
    }

    /// The file that tells of runs that have failed.
    pub fn abort_file(&self) -> AbortFile {
        AbortFile::new(&self.path, &self.shown)
    }

    /// The mark that a state is being made here, which is set now.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn mark_import(&self) -> Result<ImportMark, StoreError> {
        ImportMark::set(&self.path, &self.shown)
    }

    fn replace(&self, names: (&str, &str), content: &[u8]) -> Result<(), StoreError> {
        replace((&self.path, &self.shown), names, content)
    }

    /// Whether nothing said whose it is.
    pub(crate) const fn is_new(&self) -> bool {
        self.pipeline.is_none()
    }

    /// Name of the pipeline whose state it is; `None` if nothing said so.
    pub fn pipeline(&self) -> Option<&str> {
        self.pipeline.as_deref()
    }

    /// Says whose it is, once there is a database, which has `epoch`.
    pub(crate) fn claim(&mut self, pipeline: &str, epoch: Epoch) -> Result<(), StoreError> {
        // A directory that is claimed has promised something.
        self.promise(epoch)?;
        let owner = format!("{STORE_VERSION}\n{pipeline}\n");
        self.replace((PIPELINE_NEW, PIPELINE), owner.as_bytes())?;
        sync_folder(&self.path).map_err(|source| StoreError::io(&self.name(), source))
    }

    /// The path as the user wrote it.
    pub fn name(&self) -> Box<str> {
        self.shown.clone()
    }

    /// Where the database lies.
    pub(crate) fn epochs(&self) -> PathBuf {
        self.path.join(EPOCHS)
    }
}

/// What is known of a state beside its database.
struct Facts {
    shown: Box<str>,
    pipeline: Option<Box<str>>,
    promised: Epoch,
}

/// Where the database lies in the directory at `path`.
fn database_in(path: &Path) -> PathBuf {
    let [epochs, fresh] = [EPOCHS, FRESH].map(|name| path.join(name));
    if !epochs.exists() && fresh.exists() { fresh } else { epochs }
}

/// Ends what a process has not that was putting a database in the place of another, or had not come
/// so far.
fn finish_swap(path: &Path) -> io::Result<()> {
    let fresh = path.join(FRESH);
    if database_in(path) == fresh {
        fs::rename(&fresh, path.join(EPOCHS))?;
        return sync_folder(path);
    }
    Folder::at(fresh).clear()
}

/// A copy in `folder` of the database in the directory at `path`.
fn copy_of(path: &Path, folder: &Path, facts: Facts) -> io::Result<Directory> {
    let Facts { shown, pipeline, promised } = facts;
    copy_all(&database_in(path), &folder.join(EPOCHS))?;
    let lock = File::create(folder.join(LOCK))?;
    Ok(Directory { path: folder.into(), shown, _lock: lock, pipeline, promised })
}

/// There must be a directory with something in it.
fn check_state(path: &Path) -> Result<(), StoreError> {
    let missing = || StoreError::Missing { path: path.to_string_lossy().into() };
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Err(missing()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
        // What else may be wrong is said by whoever reads on.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Nothing but parts of a state may be there.
fn check_names(path: &Path) -> Result<(), StoreError> {
    let name = || path.to_string_lossy().into();
    match stranger(path) {
        Ok(None) => Ok(()),
        Ok(Some(found)) => Err(StoreError::NotAState { path: name(), found }),
        Err(source) => Err(StoreError::Directory { path: name(), source }),
    }
}

/// Whose the directory is, if it says so, and the epoch that its database must have at least.
fn facts(path: &Path) -> Result<(Option<Box<str>>, Epoch), StoreError> {
    let incomplete =
        |missing| StoreError::Incomplete { path: path.to_string_lossy().into(), missing };
    if ImportMark::is_set(path) {
        return Err(StoreError::HalfImported { path: path.to_string_lossy().into() });
    }
    // Without an owner it was killed before it was claimed, and holds nothing.
    let owner = owner(path)?;
    if owner.is_some() && !database_in(path).join("db").exists() {
        return Err(incomplete(EPOCHS));
    }
    let promised = promised(path)?;
    if owner.is_some() && promised.is_none() {
        return Err(incomplete(LAST));
    }
    let promised = promised.unwrap_or(Epoch::NONE);
    if owner.is_none() && promised > Epoch::NONE {
        return Err(incomplete(PIPELINE));
    }
    Ok((owner, promised))
}

/// Something in the directory that is no part of a state.
fn stranger(path: &Path) -> io::Result<Option<Box<str>>> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let known = [
            LOCK,
            PIPELINE,
            PIPELINE_NEW,
            EPOCHS,
            LAST,
            LAST_NEW,
            ABORTS,
            ABORTS_NEW,
            COPY,
            FRESH,
            IMPORT,
        ];
        if !known.contains(&&*name) {
            return Ok(Some((*name).into()));
        }
    }
    Ok(None)
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let file = open.open(path.join(LOCK));
    let unusable = |source| StoreError::Directory { path: path.to_string_lossy().into(), source };
    let mut file = file.map_err(unusable)?;
    take_lock(path, &mut file)?;
    let mut tell = || -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    tell().map_err(|source| StoreError::io(&path.to_string_lossy(), source))?;
    Ok(file)
}

/// As [`lock`], of a directory that is not to be written to. Where it cannot be written, the lock is
/// taken as it lies there; without one nobody can work on it.
fn lock_to_look(path: &Path) -> Result<Option<File>, StoreError> {
    let error = match lock(path) {
        Ok(file) => return Ok(Some(file)),
        Err(error) => error,
    };
    match (&error, File::open(path.join(LOCK))) {
        (StoreError::Directory { .. }, Ok(mut file)) => {
            take_lock(path, &mut file)?;
            Ok(Some(file))
        }
        (StoreError::Directory { source, .. }, Err(_)) if is_unwritable(source) => Ok(None),
        (_, _) => Err(error),
    }
}

fn is_unwritable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn take_lock(path: &Path, file: &mut File) -> Result<(), StoreError> {
    let name = || path.to_string_lossy().into();
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // Told if it can be read.
            file.read_to_string(&mut pid).ok();
            let pid = pid.trim();
            let pid = if pid.is_empty() { "unknown" } else { pid }.into();
            Err(StoreError::Locked { path: name(), pid })
        }
        Err(TryLockError::Error(source)) => Err(StoreError::Directory { path: name(), source }),
    }
}

/// The epoch that the database must have at least, if that is said.
fn promised(path: &Path) -> Result<Option<Epoch>, StoreError> {
    let name: Box<str> = path.to_string_lossy().into();
    let content = match fs::read(path.join(LAST)) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Directory { path: name, source }),
    };
    let epoch = open_epoch(&content);
    epoch.map(Some).map_err(|_| StoreError::damaged(&name, "`last` makes no sense"))
}

/// The pipeline that the directory says it belongs to, if it says so.
fn owner(path: &Path) -> Result<Option<Box<str>>, StoreError> {
    let name: Box<str> = path.to_string_lossy().into();
    let text = match fs::read_to_string(path.join(PIPELINE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(StoreError::damaged(&name, "`pipeline` is no text"));
        }
        Err(source) => return Err(StoreError::Directory { path: name, source }),
    };
    let mut lines = text.lines();
    let version = lines.next().and_then(|line| line.parse().ok());
    match (version, lines.next()) {
        (Some(STORE_VERSION), Some(pipeline)) => Ok(Some(pipeline.into())),
        (Some(found), _) if found != STORE_VERSION => {
            Err(StoreError::Version { path: name, found })
        }
        (Some(_) | None, _) => Err(StoreError::damaged(&name, "`pipeline` makes no sense")),
    }
}
