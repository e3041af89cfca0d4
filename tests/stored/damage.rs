//! A state that is damaged anywhere: a run goes on with it as if nothing had happened, if all that it needs
//! is there, or refuses it with a way out, and then leaves it as it was, byte for byte. It never gives
//! other results, never begins anew, and never panics.
//!
//! `NILOMETER_DAMAGES` says how many cases there are (60); they are spread evenly over the files.

use crate::copy_all;
use crate::place::Place;
use crate::tools::files;
use nilometer_connectors::store::Directory;
use nilometer_connectors::store::database::Database;
use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

/// What can be done to a file, at a place between 0 and its length.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// One bit is another one.
    Flip(u32),
    /// It ends there.
    Cut,
    /// What a lost block of a disk reads as.
    Zeros,
    /// Bytes of something else.
    Noise,
}

impl Damage {
    fn of(case: usize) -> Self {
        match case % 8 {
            5 => Self::Cut,
            6 => Self::Zeros,
            7 => Self::Noise,
            bit => Self::Flip((bit + case / 8) as u32 % 8),
        }
    }

    fn inflict(self, bytes: &mut Vec<u8>, at: usize) {
        let block = |length: usize| at..bytes_end(at, 512, length);
        match self {
            Self::Flip(bit) => bytes[at] ^= 1 << bit,
            Self::Cut => bytes.truncate(at),
            Self::Zeros => {
                let block = block(bytes.len());
                bytes[block].fill(0);
            }
            Self::Noise => {
                let block = block(bytes.len());
                let noise = (at as u64..).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 13) as u8);
                bytes[block].iter_mut().zip(noise).for_each(|(byte, noise)| *byte = noise);
            }
        }
    }
}

fn bytes_end(at: usize, wanted: usize, length: usize) -> usize {
    length.min(at.saturating_add(wanted))
}

/// A place with a state that was closed in order, so that its database has a summary of its log.
fn sound() -> Place {
    let place = Place::stored();
    let directory = Directory::open(&place.path("state"), "golden").unwrap();
    drop(Database::open(directory, "golden").unwrap());
    place
}

fn run(place: &Place) -> Output {
    place.command(&["run", "pipeline.toml"]).output().unwrap()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

const WAYS_OUT: [&str; 3] =
    ["restore it from a copy", "run the version that wrote it", "set another `state.dir`"];

/// How often a run refused the state, and how often it made a summary of the log anew.
#[derive(Debug, Default)]
struct Count {
    refused: usize,
    mended: usize,
}

/// Damages the state of `place` in `cases` ways, of which every second is tried, from `first` on.
fn damage(place: &Place, (first, cases): (usize, usize), wanted: &str) -> Count {
    let sound: BTreeMap<_, _> = files(&place.path("state"));
    let names: Vec<_> = sound.keys().filter(|name| !sound[*name].is_empty()).cloned().collect();
    let written = place.read("out.ndjson");
    let mut count = Count::default();
    for case in (first..cases).step_by(2) {
        // Two in three befall the log; the others are small.
        let name = match case % 3 {
            0 => &names[case / 3 % names.len()],
            _ => "epochs/db",
        };
        let damage = Damage::of(case);
        let mut bytes = sound[name].clone();
        let at = case * bytes.len() / cases;
        damage.inflict(&mut bytes, at);
        fs::write(place.path("state").join(name), bytes).unwrap();
        place.write("out.ndjson", &written);
        let before = files(&place.path("state"));

        let output = run(place);
        let said = String::from_utf8_lossy(&output.stderr);
        let told = format!("case {case}, {damage:?} at {at} of `{name}`: {said}");
        match output.status.code() {
            Some(0) => {
                assert!(sorted(&place.read("out.ndjson")) == sorted(wanted), "results: {told}");
                count.mended += usize::from(said.contains("the summary of its log was damaged"));
            }
            Some(5) => {
                assert!(WAYS_OUT.iter().any(|way| said.contains(way)), "no way out: {told}");
                assert!(files(&place.path("state")) == before, "it was changed: {told}");
                assert!(place.read("out.ndjson") == written, "output was touched: {told}");
                count.refused += 1;
            }
            _ => panic!("{:?}, {told}", output.status),
        }
        fs::remove_dir_all(place.path("state")).unwrap();
        for (name, bytes) in &sound {
            let path = place.path("state").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    count
}

#[test]
fn a_damaged_state_is_gone_on_with_exactly_or_left_as_it_was() {
    let undisturbed = sound();
    assert!(run(&undisturbed).status.success());
    let wanted = undisturbed.read("out.ndjson");
    let names = files(&sound().path("state"));
    assert!(names.keys().any(|name| name.starts_with("epochs/snap.")), "{:?}", names.keys());
    let cases = std::env::var("NILOMETER_DAMAGES").map_or(60, |text| text.parse().unwrap());
    let count = in_halves(sound, cases, &wanted);
    assert!(count.refused > cases / 4 && count.mended > 0, "{count:?}");
}

/// The first half of the cases and the second at once, each in a place of its own.
fn in_halves(place: fn() -> Place, cases: usize, wanted: &str) -> Count {
    let halves = std::thread::scope(|scope| {
        let half = |first| scope.spawn(move || damage(&place(), (first, cases), wanted));
        [half(0), half(1)].map(|half| half.join().unwrap())
    });
    let [one, other] = halves;
    Count { refused: one.refused + other.refused, mended: one.mended + other.mended }
}

/// A count for each of many keys, in one window that stays open to the end.
const MANY: &str = r#"
[pipeline]
name = "golden"
shards = 2
[state]
dir = "state"
epoch = "20ms"
[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"
[record]
time = "ts"
fields = { k = "text" }
[[group]]
name = "counts"
key = ["k"]
window = { fixed = "1h" }
aggregates = { records = "count()" }
[[sink]]
name = "out"
kind = "file"
path = "out.ndjson"
"#;

/// A place with a state that was killed by a disk that was full: its database has seen many epochs.
fn killed() -> Place {
    let place = Place::new(MANY);
    let lines = (0..30_000).map(|ts| format!("{{\"ts\":{ts},\"k\":\"key {}\"}}\n", ts % 20_000));
    place.write("in.ndjson", &lines.collect::<String>());
    let mut shell = std::process::Command::new("sh");
    let line = "trap '' XFSZ; ulimit -f 4000; exec \"$0\" run pipeline.toml";
    shell.args(["-c", line]).arg(place.command(&[]).get_program());
    let output = shell.current_dir(place.folder()).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    place
}

/// A database of some size gives up where one of a few pages only misses something.
#[test]
fn a_large_state_that_is_damaged_is_gone_on_with_exactly_or_left_as_it_was() {
    let undisturbed = killed();
    assert!(run(&undisturbed).status.success());
    let wanted = undisturbed.read("out.ndjson");
    assert_eq!(wanted.lines().count(), 20_000);
    let cases = std::env::var("NILOMETER_DAMAGES").map_or(16, |text| text.parse().unwrap());
    let count = in_halves(killed, cases, &wanted);
    assert!(count.refused > 0, "{count:?}");
}

/// A summary of the log that a stopped machine has cut short is made anew, and the run says so; the
/// log is whole, and nothing is lost.
#[test]
fn a_summary_that_was_cut_short_is_made_anew_and_told_of() {
    let place = sound();
    let mut entries = fs::read_dir(place.path("state/epochs")).unwrap().map(Result::unwrap);
    let is_summary = |name: &str| name.starts_with("snap.");
    let summary = entries.find(|entry| is_summary(&entry.file_name().to_string_lossy())).unwrap();
    fs::write(summary.path(), "").unwrap();
    let shown = place.command(&["plan", "pipeline.toml", "--state", "state"]).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    assert_eq!(fs::read(summary.path()).unwrap(), b"", "a look changes nothing");
    let output = run(&place);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("the summary of its log was damaged"),
        "{said}"
    );
}

/// Without the check a start takes no room, and is refused all the same where something is missing.
#[test]
fn a_start_may_leave_the_check_out() {
    let place = sound();
    let unchecked = &["run", "pipeline.toml", "--set", "state.check=false"];
    let mut bytes = fs::read(place.path("state/epochs/db")).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(place.path("state/epochs/db"), bytes).unwrap();
    let output = place.command(unchecked).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    fs::remove_dir_all(place.path("state")).unwrap();
    copy_all(&self::sound().path("state"), &place.path("state"));
    assert!(place.command(unchecked).output().unwrap().status.success());
}
