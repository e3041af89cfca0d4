//! `nilometer state`: what it says of a state, against what its input holds; that an export makes the
//! same state again; that whatever is damaged or in use is refused, and nothing that is looked at is
//! changed.

use crate::compare::{same_lines, totals};
use crate::copy_all;
use crate::place::Place;
use nilometer_connectors::store::Directory;
use nilometer_model::epoch::{Abort, Aborts, Epoch};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

/// Every file below `path` but the lock, and what it holds.
pub(crate) fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            let below = files(&entry.path()).into_iter();
            found.extend(below.map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else if name != "lock" {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

impl Place {
    fn state(&self, args: &[&str]) -> Output {
        self.command(&[&["state"], args].concat()).output().unwrap()
    }

    /// The tool does nothing, and says this.
    #[track_caller]
    fn refused(&self, args: &[&str], code: i32, what: &str) {
        let output = self.state(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_said = stderr.starts_with("error: ") && stderr.contains(what);
        assert!(is_said && output.status.code() == Some(code), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }

    /// What is held of the keys of a stage, a value for each entry.
    fn held(&self, stage: &str, key: &[&str]) -> Vec<Json> {
        let args = ["state", "get", "state", stage, "--format", "json", "--limit", "1000"];
        let text = self.prints(&[&args[..], key].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The records that the state has read.
    fn records(&self) -> Vec<Json> {
        let read = self.listing()["sources"][0]["records_read"].as_u64().unwrap();
        let all = self.read("first.ndjson") + &self.read("second.ndjson");
        let records = all.lines().take(usize::try_from(read).unwrap());
        records.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs to the end of the input; the output.
    fn run(&self, args: &[&str]) -> String {
        let output = self.command(&[&["run", "pipeline.toml"], args].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.read("out.ndjson")
    }
}

fn int(value: &Json) -> i64 {
    value.as_i64().unwrap()
}

fn text(value: &Json) -> String {
    value.as_str().unwrap().to_owned()
}

/// By user and start of the window of a second: how many records, and their sum.
fn sums(records: &[Json]) -> BTreeMap<(String, i64), (i64, i64)> {
    let mut sums = BTreeMap::new();
    for record in records {
        let second = int(&record["ts"]).div_euclid(1000) * 1000;
        let (count, sum) = sums.entry((text(&record["user"]), second)).or_insert((0, 0));
        (*count, *sum) = (*count + 1, *sum + int(&record["v"]));
    }
    sums
}

#[test]
fn what_is_listed_is_what_the_input_holds() {
    let place = Place::stored();
    let (listing, records) = (place.listing(), place.records());
    let stage = |name: &str| {
        let mut stages = listing["stages"].as_array().unwrap().iter();
        stages.find(|stage| stage["name"] == name).unwrap()
    };
    let users: BTreeSet<_> = records.iter().map(|record| text(&record["user"])).collect();
    let hosts: BTreeSet<_> = records.iter().map(|record| text(&record["host"])).collect();
    let seconds: BTreeSet<_> = records
        .iter()
        .map(|record| (text(&record["host"]), int(&record["ts"]).div_euclid(1000)))
        .collect();
    for (name, keys, windows) in [
        ("by_user", users.len(), Some(sums(&records).len())),
        ("by_host", hosts.len(), Some(seconds.len())),
        ("largest", hosts.len(), Some(seconds.len())),
        ("visits", users.len(), None),
        ("connections", users.len(), Some(0)),
    ] {
        // Stages above others hold what these have handed on.
        let is_above = matches!(name, "by_host" | "largest");
        let found = |field: &str| usize::try_from(int(&stage(name)[field])).unwrap();
        assert_eq!(found("keys"), keys, "{name}: {listing:#}");
        if let Some(windows) = windows {
            let is_right = found("windows") == windows || is_above && found("windows") < windows;
            assert!(is_right, "{name}: {windows} {listing:#}");
        }
    }
    // What is behind the newest record by the disorder that is allowed for.
    let newest = records.iter().map(|record| int(&record["ts"])).max().unwrap();
    let watermark = int(&listing["watermark_ms"]);
    assert!((newest - 600..newest - 200).contains(&watermark) || watermark == newest - 200);
    assert_eq!(
        (&listing["pipeline"], &listing["failed_runs"], &listing["sources"][0]["is_exact"]),
        (&"golden".into(), &0.into(), &true.into())
    );
    let panes = totals_of(&place.read("out.ndjson"));
    let sink = &listing["sinks"][0];
    assert!(usize::try_from(int(&sink["panes"])).unwrap() > panes, "{sink}");

    let text = place.prints(&["state", "ls", "state"]);
    for said in [
        "state `state` of pipeline `golden`: epoch ",
        "watermark: 2023-11-14T22:13:",
        " stage         keys   in pages   windows   slices   sessions    bytes   watermark\n",
        " source   records read   is read again\n",
        " sink   panes   retractions   late copies   bytes to be written\n",
    ] {
        assert!(text.contains(said), "{text}");
    }
}

/// How many results a file holds, each as it was told last.
fn totals_of(text: &str) -> usize {
    let panes = text.lines().filter(|line| line.contains("\"pane\":{") && !line.contains("visits"));
    totals(&panes.map(|line| line.to_owned() + "\n").collect::<String>()).len()
}

#[test]
fn windows_of_a_key_are_shown_with_what_came_for_them() {
    let place = Place::stored();
    let records = place.records();
    let mut found = BTreeMap::new();
    let held = place.held("by_user", &[]);
    assert!(held.iter().any(|entry| entry["is_in_page"] == true));
    for entry in held {
        for window in entry["windows"].as_array().unwrap() {
            let part = |of: &str, name: &str| window[of][name].as_i64().unwrap_or(0);
            let whole = |name: &str| part("told", name) + part("news", name);
            let start = int(&window["start_ms"]);
            assert_eq!(int(&window["end_ms"]), start + 1_000);
            assert_eq!(window["last_pane"].is_null(), int(&window["panes"]) == 0);
            let user = text(&entry["key"]["user"]);
            found.insert((user, start), (whole("count"), whole("sum")));
        }
    }
    assert_eq!(found, sums(&records));

    // Sessions keep their records, but for copies.
    let user = text(&records[0]["user"]);
    let of_user = records.iter().filter(|record| record["user"] == *user);
    let own: BTreeSet<_> = of_user
        .map(|record| (int(&record["ts"]), text(&record["step"]), text(&record["status"])))
        .collect();
    let held = place.held("connections", &[&format!("user={user}")]);
    assert_eq!(held.len(), 1);
    let sessions = held[0]["sessions"].as_array().unwrap();
    let kept = sessions.iter().flat_map(|session| session["records"].as_array().unwrap());
    let kept: BTreeSet<_> = kept
        .map(|record| (int(&record["time_ms"]), text(&record["step"]), text(&record["status"])))
        .collect();
    assert_eq!(kept, own);

    // A list has every user of its host in that window.
    for entry in place.held("largest", &["host=h1"]) {
        let window = &entry["windows"][0];
        let start = int(&window["start_ms"]);
        let listed = window["listed"].as_array().unwrap();
        let totals = listed.iter().map(|listed| {
            let total = &listed["total"];
            ((text(&listed["key"]["user"]), start), (int(&total["count"]), int(&total["sum"])))
        });
        let wanted = sums(&records).into_iter().filter(|((user, second), _)| {
            let number: u64 = user[1..].parse().unwrap();
            number % 7 == 1 && *second == start
        });
        assert_eq!(totals.collect::<BTreeMap<_, _>>(), wanted.collect(), "{entry}");
        let places = listed.iter().filter_map(|listed| listed["place"].as_i64());
        assert_eq!(places.max(), Some(listed.len().min(3) as i64), "{entry}");
    }

    let shown = place.prints(&["state", "get", "state", "by_user", &format!("user={user}")]);
    assert!(shown.contains(&format!("user={user}\n  window 2023-11-14T22:13:")), "{shown}");
    let shown = place.prints(&["state", "get", "state", "by_user", "--limit", "2"]);
    assert_eq!(shown.lines().filter(|line| line.starts_with("host=")).count(), 2);
    assert!(shown.ends_with("and 58 more; ask for less, or for more with --limit\n"), "{shown}");
    let shown = place.prints(&["state", "get", "state", "connections", &format!("user={user}")]);
    assert!(shown.contains("  session, closed at ") && shown.contains("  login "), "{shown}");
}

#[test]
fn what_is_not_there_is_said() {
    let place = Place::stored();
    fs::create_dir(place.path("empty")).unwrap();
    for (args, code, what) in [
        (&["ls", "elsewhere"][..], 5, "there is no state in `elsewhere`"),
        (&["verify", "empty"], 5, "there is no state in `empty`"),
        (&["ls", "."], 5, "and no state of nilometer"),
        (&["get", "state", "by_use"], 2, "no stage `by_use`; it has connections, by_user, "),
        (
            &["get", "state", "by_user", "u1"],
            2,
            "`u1` is no FIELD=VALUE of the key of stage `by_user`",
        ),
        (&["get", "state", "by_user", "v=1"], 2, "by_user`; its fields are host, user"),
        (&["get", "state", "by_user", "user=x"], 1, "stage `by_user` holds no such key"),
        (&["import", "state", "first.ndjson"], 3, "line 1 of `first.ndjson`: this is no export"),
        (&["import", "new", "missing"], 3, "cannot read `missing`"),
        (&["export", "state", "-o", "no/such"], 4, "cannot write `no/such`"),
    ] {
        place.refused(args, code, what);
    }
    assert!(!place.path("new").exists() && !place.path("elsewhere").exists());
}

/// Entries of an export, without what is said about them and where they lay.
fn entries(export: &str) -> BTreeSet<String> {
    let lines = export.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let entry = |mut line: Json| {
        let entry = line.get_mut("entry")?.as_object_mut()?;
        entry.remove("about");
        Some(line.to_string())
    };
    lines.filter_map(entry).collect()
}

#[test]
fn an_export_makes_the_same_state_again() {
    let place = Place::stored();
    let undisturbed = Place::stored().run(&[]);
    let before = files(&place.path("state"));
    let export = place.prints(&["state", "export", "state"]);
    place.prints(&["state", "export", "state", "--output", "export.jsonl"]);
    assert_eq!(place.read("export.jsonl"), export);
    assert_eq!(place.prints(&["state", "import", "new", "export.jsonl"]), "");
    let again = place.prints(&["state", "export", "new"]);
    assert!(entries(&export).len() > 200);
    assert_eq!(entries(&again), entries(&export));
    assert!(place.prints(&["state", "verify", "new"]).contains(" is whole: epoch "));
    // With all keys in memory, with few of them, and on other shards.
    for args in [
        &["--state", "new"][..],
        &["--state", "tight", "--set", "state.memory=40KiB"],
        &["--state", "wide", "--set", "pipeline.shards=3"],
    ] {
        if args[1] != "new" {
            place.prints(&["state", "import", args[1], "export.jsonl"]);
        }
        let place_now = Place::stored();
        copy_all(&place.path(args[1]), &place_now.path(args[1]));
        same_lines(&undisturbed, &place_now.run(args));
    }
    assert_eq!(files(&place.path("state")), before, "what is looked at is not changed");
    place.refused(&["import", "new", "export.jsonl"], 5, "`new` holds `");
}

#[test]
fn an_export_that_is_not_whole_makes_no_state() {
    let place = Place::stored();
    let export = place.prints(&["state", "export", "state"]);
    let lines: Vec<_> = export.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let (last, middle) = (lines.len() - 1, lines.len() / 2);
    let without = |number: usize| joined(&[&lines[..number], &lines[number + 1..]].concat());
    let with = |number: usize, from: &str, to: &str| {
        let line = lines[number].replacen(from, to, 1);
        assert_ne!(line, lines[number]);
        joined(&[&lines[..number], &[&*line], &lines[number + 1..]].concat())
    };
    for (text, what) in [
        (joined(&lines[..last]), "the export ends here"),
        (without(middle), "lines before this one with checksum"),
        (without(0), "this is no export"),
        (with(middle, "\"group\":", "\"group\":1"), "lines before this one with checksum"),
        (with(middle, "\"content\":\"", "\"content\":\"ff"), "format version"),
        (with(0, "\"version\":1", "\"version\":2"), "has version 2"),
        (with(0, "\"image\":", "\"image\":1"), "this program reads 1 and"),
        (joined(&[&lines[..], &lines[..1]].concat()), "something follows the last line"),
        (String::new(), "the export ends here"),
    ] {
        place.write("broken.jsonl", &text);
        let output = place.state(&["import", "new", "broken.jsonl"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        // What an entry holds may be wrong in any way.
        let is_said = stderr.contains(what) || what == "format version";
        assert!(is_said && output.status.code() == Some(3), "{what}: {stderr}");
        assert!(stderr.contains("of `broken.jsonl`: "), "{stderr}");
        assert!(!place.path("new").exists(), "{what}");
    }
    fs::create_dir(place.path("new")).unwrap();
    place.refused(&["import", "new", "broken.jsonl"], 3, "the export ends here");
    assert_eq!(fs::read_dir(place.path("new")).unwrap().count(), 0);
}

/// An import that is killed leaves nothing that a run would take for a state that has just begun.
#[test]
fn an_import_that_was_cut_off_is_refused() {
    let place = Place::stored();
    let export = place.prints(&["state", "export", "state"]);
    let mut import = place.command(&["state", "import", "new"]);
    let mut import = import.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // The beginning comes, and the rest is awaited.
    let mut input = import.stdin.take().unwrap();
    input.write_all(&export.as_bytes()[..export.len() / 2]).unwrap();
    while !place.path("new/pipeline").exists() {
        assert!(import.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    import.kill().unwrap();
    import.wait().unwrap();
    let what = "`new` is not whole: an import into it was cut off; delete it and import again";
    place.refused(&["ls", "new"], 5, what);
    let run = place.command(&["run", "pipeline.toml", "--state", "new"]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.code() == Some(5) && said.contains(what), "{said}");
    fs::remove_dir_all(place.path("new")).unwrap();
    place.write("export.jsonl", &export);
    place.prints(&["state", "import", "new", "export.jsonl"]);
    assert!(place.prints(&["state", "verify", "new"]).contains(" is whole: epoch "));
}

/// What is remembered of failed runs goes with the state.
#[test]
fn a_state_that_is_held_is_so_elsewhere() {
    let place = Place::stored();
    let mut aborts = Aborts::default();
    for _ in 0..3 {
        let epoch = Epoch::from_number(place.listing()["epoch"].as_u64().unwrap());
        aborts.failed(Abort { epoch, place: None, error: "a sum".into() });
    }
    let directory = Directory::open(&place.path("state"), "golden").unwrap();
    directory.abort_file().write(&aborts).unwrap();
    drop(directory);
    place.prints(&["state", "export", "state", "-o", "export.jsonl"]);
    place.prints(&["state", "import", "new", "export.jsonl"]);
    for of in ["state", "new"] {
        let listing = place.prints(&["state", "ls", of]);
        assert!(listing.contains("its last 3 runs have failed, and come no further"), "{listing}");
        let held = place.command(&["run", "pipeline.toml", "--state", of]).output().unwrap();
        assert_eq!(held.status.code(), Some(7), "{held:?}");
    }
}

#[test]
fn a_state_in_use_is_refused() {
    let place = Place::stored();
    fs::remove_file(place.path("second.ndjson")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(place.path("second.ndjson")).status();
    assert!(pipe.unwrap().success());
    let mut command = place.command(&["run", "pipeline.toml"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let what = format!("is in use by process {}; stop that one first", run.id());
    while fs::read_to_string(place.path("state/lock")).unwrap().trim() != run.id().to_string() {
        assert!(run.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    for tool in [
        &["ls", "state"][..],
        &["get", "state", "sums"],
        &["verify", "state"],
        &["export", "state"],
    ] {
        place.refused(tool, 5, &what);
    }
    let planned = place.command(&["plan", "pipeline.toml", "--state", "state"]).output().unwrap();
    assert_eq!(planned.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&planned.stderr).contains(&what), "{planned:?}");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(place.prints(&["state", "verify", "state"]).contains("is whole"));
}

#[test]
fn damage_is_found_and_nothing_is_changed_by_looking() {
    let place = Place::stored();
    let sound = files(&place.path("state"));
    let mut refused = 0;
    for case in 0..24 {
        let name = if case % 8 == 7 { "last" } else { "epochs/db" };
        let mut bytes = sound[name].clone();
        let at = case * bytes.len() / 24;
        match case % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << (case % 8),
            _ => bytes.iter_mut().skip(at).take(4_096).for_each(|byte| *byte = 0xff),
        }
        fs::write(place.path("state").join(name), &bytes).unwrap();
        let before = files(&place.path("state"));
        let output = place.state(&["verify", "state"]);
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {}
            Some(5) => {
                assert!(said.contains("state") && said.contains("restore"), "{case}: {said}");
                refused += 1;
            }
            other => panic!("{case}: {other:?} {said}"),
        }
        assert_eq!(files(&place.path("state")), before, "{case}");
        fs::write(place.path("state").join(name), &sound[name]).unwrap();
    }
    assert!(refused > 10, "{refused}");
    assert!(place.prints(&["state", "verify", "state"]).contains(" is whole: epochs "));
}
