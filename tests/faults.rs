//! What can befall a state from outside: disks that take no more, directories that cannot be written,
//! files that are damaged. The run ends with a message that says what to do, nothing wrong has come
//! out, and the next run goes on and loses nothing.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod place;

use nilometer_connectors::generator::Dice;
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
    if !Path::new("/dev/full").exists() {
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

/// Every file below `path`.
fn files(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Whatever is damaged, a run either does what it would have done, or is refused with a way out.
#[test]
fn a_damaged_state_is_refused_or_whole() {
    let place = Place::with_records();
    let wanted = place.undisturbed();
    place.goes_on(&wanted);
    let sound: Vec<_> = {
        let mut files = files(&place.path("state"));
        files.sort();
        files.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect()
    };
    let mut dice = Dice::new(11);
    let mut refused = 0;
    for (bytes, path) in &sound {
        for case in 0..4 {
            fs::remove_dir_all(place.path("state")).unwrap();
            for (bytes, path) in &sound {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            let mut damaged = bytes.clone();
            let at = dice.below(bytes.len().max(1) as u64) as usize;
            match case {
                0 => damaged.clear(),
                1 => damaged.truncate(at),
                _ if bytes.is_empty() => {}
                _ => damaged[at] ^= 1 << dice.below(8),
            }
            fs::write(path, damaged).unwrap();
            let (code, stderr) = place.run("", "");
            let name = path.display();
            assert!(code == 0 || code == 5, "{name}, byte {at}, case {case}: {stderr}");
            if code == 5 {
                refused += 1;
                let ways = ["restore it from a copy", "run the version", "set another `state.dir`"];
                assert!(ways.iter().any(|way| stderr.contains(way)), "{stderr}");
            }
            assert_eq!(place.lines(), wanted, "{name}, byte {at}, case {case}");
        }
    }
    assert!(refused > 8, "{refused}");
}
