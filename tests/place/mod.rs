//! A pipeline in a directory of its own, in which the program runs. What a test does with it, it adds
//! itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The directory; it goes with the value.
pub(crate) struct Place(TempDir);

impl Place {
    /// A directory that holds `pipeline` as `pipeline.toml`.
    pub(crate) fn new(pipeline: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("pipeline.toml", pipeline);
        place
    }

    /// The program, to be run in the directory with these arguments.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nilometer"));
        command.args(args).current_dir(self.folder());
        command
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}
