//! What can befall a state from outside: disks that take no more, directories that cannot be written,
//! files that are damaged. The run ends with a message that says what to do, nothing wrong has come
//! out, and the next run goes on and loses nothing.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[cfg(target_os = "linux")]
#[path = "place/flush.rs"]
mod flush;
#[path = "place/lacking.rs"]
mod lacking;
mod place;

#[cfg(target_os = "linux")]
use flush::Flush;
use place::Place;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A count for each of many keys, in two windows, some epochs long.
const COUNTS: &str = r#"
[pipeline]
name = "counts"
shards = 2
[state]
dir = "state"
epoch = "20ms"
[limits]
batch_records = 50
[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"
[record]
time = "ts"
fields = { k = "text" }
[watermark]
kind = "bounded"
out_of_orderness = "0s"
[[group]]
name = "counts"
key = ["k"]
window = { fixed = "2s" }
allowed_lateness = "1h"
mode = "accumulating"
aggregates = { records = "count()" }
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#;

const RECORDS: u64 = 4_000;

impl Place {
    fn with_records() -> Self {
        let place = Self::new(COUNTS);
        let line = |mut text: String, ts: u64| {
            writeln!(text, r#"{{"ts":{ts},"k":"k{}"}}"#, ts / 2).unwrap();
            text
        };
        place.write("in.ndjson", &(0..RECORDS).fold(String::new(), line));
        place
    }

    /// Exit code and stderr of a run behind a line of the shell, and with more arguments.
    fn run(&self, before: &str, args: &str) -> (i32, String) {
        let line = format!("{before} exec \"$0\" run pipeline.toml {args}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).arg(self.command(&[]).get_program());
        let output = shell.current_dir(self.folder()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// The run fails with this code and says all of this.
    fn fails(&self, (before, args): (&str, &str), code: i32, what: &[&str]) {
        let (found, stderr) = self.run(before, args);
        assert_eq!(found, code, "{stderr}");
        for what in what {
            assert!(stderr.contains(what), "`{what}` is not in {stderr}");
        }
    }

    /// What is wrong is put right, and the run goes on to its end.
    fn goes_on(&self, wanted: &[String]) {
        let (code, stderr) = self.run("", "");
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(self.lines(), wanted);
    }

    /// The lines of the output in order.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.read("out.ndjson").lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// The output of a run that nothing befalls; its state is gone.
    fn undisturbed(&self) -> Vec<String> {
        let (code, stderr) = self.run("", "");
        assert_eq!(code, 0, "{stderr}");
        let lines = self.lines();
        assert_eq!(lines.len() as u64, RECORDS / 2);
        self.anew();
        lines
    }

    fn anew(&self) {
        fs::remove_dir_all(self.path("state")).unwrap();
        fs::remove_file(self.path("out.ndjson")).unwrap();
    }
}

#[test]
fn a_file_that_may_not_grow_loses_nothing() {
    let place = Place::with_records();
    let wanted = place.undisturbed();
    // In blocks of 512 bytes; without a signal, as on a disk that is full. Whether the state or the
    // output comes to its limit first depends on how many epochs there were by then.
    for blocks in [40, 300] {
        let before = format!("trap '' XFSZ; ulimit -f {blocks};");
        place.fails((&before, ""), 4, &["check the disk"]);
        // Once more makes nothing better, and nothing worse.
        let (code, stderr) = place.run(&before, "");
        assert_ne!(code, 0, "{stderr}");
        place.goes_on(&wanted);
        place.anew();
    }
}

#[test]
fn an_output_that_is_full_loses_nothing() {
    if !lacking::has("/dev/full", Path::new("/dev/full").exists()) {
        return;
    }
    let place = Place::with_records();
    let wanted = place.undisturbed();
    symlink("/dev/full", place.path("out.ndjson")).unwrap();
    place.fails(("", ""), 4, &["sink `out`: cannot write `out.ndjson`", "free some space"]);
    fs::remove_file(place.path("out.ndjson")).unwrap();
    place.goes_on(&wanted);
}

/// The last step of a commit fails: the epoch is durable, and nobody has been told.
#[test]
fn a_commit_that_fails_loses_nothing() {
    let place = Place::with_records();
    let wanted = place.undisturbed();
    // One run makes the state, and stores nothing: its input is not there.
    fs::rename(place.path("in.ndjson"), place.path("later")).unwrap();
    assert_ne!(place.run("", "").0, 0);
    fs::rename(place.path("later"), place.path("in.ndjson")).unwrap();
    fs::create_dir_all(place.path("state/last.new")).unwrap();
    place.fails(("", ""), 4, &["the state directory `state`", "check the disk and start again"]);
    assert_eq!(place.read("out.ndjson"), "", "nothing that is not durable has come out");
    fs::remove_dir(place.path("state/last.new")).unwrap();
    place.goes_on(&wanted);
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let place = Place::with_records();
    let what = ["cannot use the state directory", "check that it may be written", "`state.dir`"];
    // Where nobody may write, whoever runs the test.
    place.fails(("", "--state /proc/state"), 5, &what);
    place.write("file", "");
    place.fails(("", "--state file/state"), 5, &what);
    fs::create_dir_all(place.path("odd/lock")).unwrap();
    place.fails(("", "--state odd"), 5, &what);
    assert!(!place.path("out.ndjson").exists(), "nothing is touched");
}

/// Every file below `path` but the lock, and what it holds.
fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| !path.ends_with("lock")).flat_map(|path| {
        if path.is_dir() { files(&path) } else { vec![(path.clone(), fs::read(&path).unwrap())] }
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// There is no room when a run begins: for anything at all, for the copy in which the state is read,
/// for what opening it writes.
#[test]
fn a_disk_that_is_full_at_the_start_changes_nothing() {
    let place = Place::with_records();
    let wanted = place.undisturbed();
    // One run stores some epochs and fails.
    place.fails(("trap '' XFSZ; ulimit -f 300;", ""), 4, &["check the disk"]);
    let (before, written) = (files(&place.path("state")), place.lines());
    for (blocks, what) in [
        (0, "cannot read or write the state directory `state`"),
        (8, "free twice as much space as the directory takes, or leave the check out"),
    ] {
        let limit = format!("trap '' XFSZ; ulimit -f {blocks};");
        place.fails((&limit, ""), 4, &[what]);
        assert!(files(&place.path("state")) == before, "{blocks} blocks");
        assert_eq!(place.lines(), written, "{blocks} blocks");
    }
    place.goes_on(&wanted);
}

/// Keys leave memory for a disk that takes nothing more.
#[test]
fn a_disk_that_is_full_while_keys_leave_memory_loses_nothing() {
    let place = Place::with_records();
    let wanted = place.undisturbed();
    // Windows stay, epochs are rare: nearly all that is written are pages.
    let pages = "--set state.memory=8KiB --set state.epoch=1h --set group.counts.window.fixed=1h";
    for blocks in [1, 40, 300] {
        let limit = format!("trap '' XFSZ; ulimit -f {blocks};");
        place.fails((&limit, pages), 4, &["state directory `state`", "start again"]);
        assert!(!place.path("out.ndjson").exists() || place.lines().is_empty());
        place.anew();
    }
    place.goes_on(&wanted);
}

/// A state that is there, in a directory that nobody may write to any more.
#[test]
fn a_state_that_may_only_be_read_is_refused_and_can_be_looked_at() {
    let place = Place::with_records();
    place.undisturbed();
    place.fails(("trap '' XFSZ; ulimit -f 300;", ""), 4, &["check the disk"]);
    // What root may write to is not up to permissions.
    let chmod = |modes: &[(&str, &str)]| {
        for (mode, path) in modes {
            let done = Command::new("chmod").args(["-R", mode]).arg(place.path(path)).status();
            assert!(done.unwrap().success());
        }
    };
    chmod(&[("a+rX", "."), ("a-w", "state")]);
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let nobody = "exec setpriv --reuid=65534 --regid=65534 --clear-groups";
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if is_root && !lacking::has("setpriv", has_setpriv) {
        return;
    }
    let before = files(&place.path("state"));
    let run = |line: &str| {
        let exec = if is_root { nobody } else { "exec" };
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{exec} \"$0\" {line}")]).arg(place.command(&[]).get_program());
        shell.current_dir(place.folder()).output().unwrap()
    };
    let refused = run("run pipeline.toml");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(said.contains("cannot use the state directory `state`"), "{said}");
    assert!(said.contains("check that it may be written"), "{said}");
    for look in ["state ls state", "state verify state", "plan pipeline.toml --state state"] {
        let shown = run(look);
        assert!(shown.status.success(), "{look}: {}", String::from_utf8_lossy(&shown.stderr));
    }
    chmod(&[("u+w", "state")]);
    assert!(files(&place.path("state")) == before, "nothing is touched");
}

/// What a shell says so that flushes of the state fail from then on.
#[cfg(target_os = "linux")]
fn flushes_fail(place: &Place, (call, after): (&'static str, u64)) -> String {
    let environment = Flush { call, after }.environment(place, "fail");
    environment.map(|(name, value)| format!("export {name}={value};")).concat()
}

/// The disk takes what is written, and fails when it is to keep it: while the directory is made, in
/// the middle of a run, in the copy in which a state is read, while it is opened.
#[cfg(target_os = "linux")]
#[test]
fn a_flush_that_fails_loses_nothing() {
    let place = Place::with_records();
    let wanted = place.undisturbed();
    // So that there are many epochs, however fast it goes.
    let epochs = "--set state.max_epoch_bytes=4KiB";
    let fails = |flush| {
        let what = ["state directory `state`: ", "Input/output error", "check the disk and start"];
        place.fails((&flushes_fail(&place, flush), epochs), 4, &what);
        let out = place.path("out.ndjson");
        let written = if out.exists() { place.lines() } else { Vec::new() };
        assert!(written.iter().all(|line| wanted.contains(line)), "{flush:?}");
    };
    for flush in [0, 1, 2, 3, 8].map(|after| ("fsync", after)) {
        fails(flush);
        place.goes_on(&wanted);
        place.anew();
    }
    for flush in [0, 1, 3, 60].map(|after| ("sync_file_range", after)) {
        fails(flush);
        place.goes_on(&wanted);
        place.anew();
    }
    // And on what the one before it has left.
    fails(("fsync", 8));
    for after in 0..8 {
        fails(("fsync", after));
    }
    for after in [0, 1, 2, 40] {
        fails(("sync_file_range", after));
    }
    place.goes_on(&wanted);
}
