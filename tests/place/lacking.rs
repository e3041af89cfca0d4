//! What a test needs of the machine beyond the program.
//!
//! Invariant: where everything is to be tested, nothing is left out without a word.

/// Whether the machine has `what`, as `is_there` says. A test without it is left out, on a developer's
/// machine; continuous integration (`.ci/run`) sets `NILOMETER_TEST_ALL`, and there it fails.
#[expect(clippy::print_stdout, reason = "a test tells what it leaves out")]
pub(crate) fn has(what: &str, is_there: bool) -> bool {
    let may_lack = std::env::var_os("NILOMETER_TEST_ALL").is_none();
    assert!(is_there || may_lack, "everything is to be tested, and there is no {what}");
    if !is_there {
        println!("left out: there is no {what}");
    }
    is_there
}
