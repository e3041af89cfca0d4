//! States that lie on a disk: those that released versions have written, and the tools that look at
//! them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[path = "../crash/compare.rs"]
mod compare;
mod damage;
mod golden;
#[path = "../place/mod.rs"]
mod place;
mod sinks;
mod tools;

use place::Place;
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

impl Place {
    /// A state with something of everything, see `tests/data/state`.
    fn stored() -> Self {
        let place = Self::new("");
        let version = env!("CARGO_PKG_VERSION");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/state");
        copy_all(&Path::new(folder).join(version), place.folder());
        place
    }

    /// What the program prints with these arguments; it succeeds.
    #[track_caller]
    fn prints(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{args:?}: {stderr}\nif a format has changed, see tests/data/state/README.md"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn listing(&self) -> Json {
        serde_json::from_str(&self.prints(&["state", "ls", "state", "--format", "json"])).unwrap()
    }
}

/// Copies the files of a folder, and the folders in it.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
