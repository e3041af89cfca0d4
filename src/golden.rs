//! Files of the tree that hold what the program gives, for tests.
//!
//! Invariant: a run that writes one is not a run that has passed, whatever it has written.

use std::path::Path;

/// Compares texts with files, each with its path from the root of the tree.
///
/// # Panics
/// One is another; and where the environment has `BLESS` they are written, which proves nothing.
pub(crate) fn golden(files: &[(&str, &str)]) {
    let is_blessed = std::env::var_os("BLESS").is_some();
    for (path, text) in files {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let result = if is_blessed {
            std::fs::write(file, text)
        } else {
            std::fs::read_to_string(file).map(|kept| compare(path, &kept, text))
        };
        result.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    assert!(!is_blessed, "written; look at what has changed, and run the test without BLESS");
}

fn compare(path: &str, kept: &str, text: &str) {
    for (number, (kept, text)) in (1..).zip(kept.lines().zip(text.lines())) {
        assert_eq!(text, kept, "{path}, line {number}: BLESS=1 writes it anew");
    }
    assert!(text == kept, "{path} is longer, or shorter: BLESS=1 writes it anew");
}
