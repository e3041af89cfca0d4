//! States that released versions have written: they open, are whole, and go on to the results of a run
//! that nothing has disturbed.
//!
//! `NILOMETER_GOLDEN=1 cargo test --test stored` writes that of this version anew; see
//! `tests/data/state/README.md`.

use crate::compare::{same_lines, same_totals};
use crate::copy_all;
use crate::place::Place;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/state")
}

impl Place {
    /// A copy of the state of `version`, its pipeline, its input and its output.
    fn of(version: &str) -> Self {
        static MADE: Once = Once::new();
        if std::env::var_os("NILOMETER_GOLDEN").is_some() {
            MADE.call_once(make);
        }
        Self::copy_of(version)
    }

    fn copy_of(version: &str) -> Self {
        let folder = golden().join(version);
        let place = Self::new("");
        copy_all(&folder, place.folder());
        place
    }
}

/// What a state has to hold so that something is proven by it.
fn holds_enough(listing: &Json) -> bool {
    let stages = listing["stages"].as_array().unwrap();
    let has = |name: &str| stages.iter().any(|stage| stage[name].as_u64().unwrap() > 0);
    let unwritten = listing["sinks"][0]["unwritten_bytes"].as_u64().unwrap();
    ["in_pages", "windows", "slices", "sessions"].into_iter().all(has) && unwritten > 0
}

/// The pipeline without its state.
fn without_state(pipeline: &str) -> String {
    let (head, rest) = pipeline.split_once("[state]\n").unwrap();
    head.to_owned() + rest.split_once("\n\n").unwrap().1
}

/// Lines for which this holds.
fn lines(text: &str, holds: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| holds(line)).map(|line| line.to_owned() + "\n").collect()
}

/// What both engines come to.
fn same_results(batch: &str, found: &str) {
    let is_session = |line: &str| !line.contains("\"pane\":{");
    let is_visit = |line: &str| line.contains("\"stage\":\"visits\"");
    let sessions = [batch, found].map(|text| lines(text, is_session));
    assert!(sessions[0].lines().count() > 200);
    same_lines(&sessions[0], &sessions[1]);
    // Windows that grow are told early by one of them; in the end they are the same.
    let visits = |text: &str| -> BTreeSet<String> {
        let panes = lines(text, is_visit);
        let panes = panes.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        panes.map(|pane| format!("{} {} {}", pane["key"], pane["window"], pane["values"])).collect()
    };
    let (batch_visits, visits) = (visits(batch), visits(found));
    assert!(batch_visits.len() > 100 && batch_visits.is_subset(&visits));
    let others = |line: &str| !is_session(line) && !is_visit(line);
    same_totals(&lines(batch, others), &lines(found, others));
}

#[test]
fn states_of_all_versions_open_and_go_on() {
    let mut versions = 0;
    for entry in fs::read_dir(golden()).unwrap() {
        let entry = entry.unwrap();
        if !entry.path().is_dir() {
            continue;
        }
        versions += 1;
        let version = entry.file_name().into_string().unwrap();
        let place = Place::of(&version);
        assert!(place.prints(&["state", "verify", "state"]).contains("is whole: epochs "));
        let listing = place.listing();
        assert!(holds_enough(&listing), "{version}: {listing}");
        let written = place.read("out.ndjson");
        assert_eq!(listing["sinks"][0]["written_bytes"], written.len(), "{version}");
        // As it was, with more memory, and on more shards.
        let ways = [&[][..], &["state.memory=1GiB"], &["pipeline.shards=3"]];
        for sets in ways {
            let place = Place::of(&version);
            let sets: Vec<_> = sets.iter().flat_map(|set| ["--set", *set]).collect();
            place.prints(&[&["run", "pipeline.toml"], &*sets].concat());
            let found = place.read("out.ndjson");
            assert!(found.starts_with(&written), "{version}: what was written stays");
            let plain = without_state(&place.read("pipeline.toml"));
            place.write("plain.toml", &plain.replace("out.ndjson", "whole.ndjson"));
            place.prints(&["run", "plain.toml"]);
            same_lines(&place.read("whole.ndjson"), &found);
            place.write("plain.toml", &plain.replace("out.ndjson", "batch.ndjson"));
            place.prints(&["run", "plain.toml", "--set", "pipeline.engine=batch"]);
            same_results(&place.read("batch.ndjson"), &found);
        }
    }
    assert!(versions > 0);
}

#[test]
fn a_state_of_a_newer_version_is_refused_and_not_touched() {
    let place = Place::of(env!("CARGO_PKG_VERSION"));
    let owner = place.read("state/pipeline");
    let (version, name) = owner.split_once('\n').unwrap();
    let newer = version.parse::<u8>().unwrap() + 1;
    place.write("state/pipeline", &format!("{newer}\n{name}"));
    let database = fs::read(place.path("state/epochs/db")).unwrap();
    let said = format!(
        "error: the state directory `state` has format version {newer}, this program reads \
         {version}: run the version that wrote it"
    );
    for args in [
        &["run", "pipeline.toml"][..],
        &["plan", "pipeline.toml", "--state", "state"],
        &["state", "ls", "state"],
        &["state", "verify", "state"],
        &["state", "export", "state"],
    ] {
        let output = place.command(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(&said), "{args:?}: {stderr}");
        assert_eq!(output.status.code(), Some(5), "{args:?}");
    }
    assert_eq!(fs::read(place.path("state/epochs/db")).unwrap(), database);
}

/// Writes the state of this version: of a run that is killed while the second file, a pipe that nobody
/// writes to, has nothing to give.
fn make() {
    let folder = golden().join(env!("CARGO_PKG_VERSION"));
    loop {
        let place = Place::copy_of(env!("CARGO_PKG_VERSION"));
        fs::remove_dir_all(place.path("state")).ok();
        fs::remove_file(place.path("out.ndjson")).ok();
        fs::remove_file(place.path("second.ndjson")).unwrap();
        let pipe = Command::new("mkfifo").arg(place.path("second.ndjson")).status().unwrap();
        assert!(pipe.success());
        let mut command = place.command(&["run", "pipeline.toml"]);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let length = || fs::metadata(place.path("out.ndjson")).map_or(0, |file| file.len());
        while length() < 100_000 {
            assert!(run.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
        run.kill().unwrap();
        run.wait().unwrap();
        let listing = place.listing();
        if !holds_enough(&listing) {
            continue;
        }
        // As if it had been killed before it wrote the results of its last epoch.
        let written = listing["sinks"][0]["written_bytes"].as_u64().unwrap();
        let output = place.read("out.ndjson");
        fs::remove_dir_all(folder.join("state")).ok();
        copy_all(&place.path("state"), &folder.join("state"));
        let output = &output[..usize::try_from(written).unwrap()];
        fs::write(folder.join("out.ndjson"), output).unwrap();
        return;
    }
}
