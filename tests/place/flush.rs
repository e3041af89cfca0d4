//! What happens to a process in one of its flushes: the disk fails, or the process is killed there.

use crate::place::Place;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Which flush of a file of the state: of those by this call, the one behind so many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flush {
    pub(crate) call: &'static str,
    pub(crate) after: u64,
}

impl Flush {
    /// What a process in `place` has in its environment so that `then` (`fail` or `kill`) happens there.
    pub(crate) fn environment(self, place: &Place, then: &str) -> [(&'static str, String); 5] {
        let library = place.path("flush.so");
        if !library.exists() {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/place/flush.c");
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).args([&library, &source]);
            assert!(cc.arg("-ldl").status().unwrap().success());
        }
        let state = fs::canonicalize(place.folder()).unwrap().join("state");
        [
            ("FLUSH_BELOW", state.display().to_string()),
            ("FLUSH_CALL", self.call.to_owned()),
            ("FLUSH_AFTER", self.after.to_string()),
            ("FLUSH_THEN", then.to_owned()),
            ("LD_PRELOAD", library.display().to_string()),
        ]
    }
}
