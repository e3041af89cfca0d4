//! `nilometer test` as its users see it, on the transcripts of this folder: those in
//! `transcripts/` and in its folders match, those in `transcripts/bad/` fail for the reasons that
//! they state.
//!
//! The first line of a transcript names its pipeline in `pipelines/`.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The transcripts of a folder, in order, with their texts.
fn transcripts(folder: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "txt")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// All transcripts that match.
fn all_transcripts() -> Vec<(PathBuf, String)> {
    let folders = ["", "/book", "/paper", "/triggers", "/windows"];
    folders.into_iter().flat_map(|name| transcripts(&format!("transcripts{name}"))).collect()
}

fn pipeline(text: &str) -> PathBuf {
    let name = text.lines().next().and_then(|line| line.strip_prefix("# pipeline: ")).unwrap();
    root().join("pipelines").join(name).with_extension("toml")
}

fn run(flags: &[&str], pipeline: &Path, transcripts: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilometer"));
    command.arg("test").args(flags).arg(pipeline).args(transcripts).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a text against a pipeline of the folder; returns exit code and stderr without the path.
fn check(name: &str, text: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    fs::write(&path, text).unwrap();
    let pipeline = root().join("pipelines").join(name).with_extension("toml");
    let output = run(&[], &pipeline, &[&path]);
    assert!(output.stdout.is_empty());
    let told = stderr(&output).replace(&*path.to_string_lossy(), "t.txt");
    (output.status.code().unwrap(), told)
}

#[test]
fn the_transcripts_match() {
    for (path, text) in all_transcripts() {
        let output = run(&[], &pipeline(&text), &[&path]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains(": ok, "), "{}", stderr(&output));
    }
}

/// A transcript with a restart in front of every input: lines that are neither indented nor comments,
/// and not within a batch.
fn with_restarts(text: &str) -> String {
    let mut is_batch = false;
    let mut restarted = String::new();
    for line in text.lines() {
        let is_input = line.starts_with(|first: char| first != '#' && !first.is_whitespace());
        if is_input && !is_batch {
            restarted.push_str("restart\n");
        }
        is_batch = if is_batch { !line.starts_with('}') } else { line.starts_with("batch") };
        restarted.push_str(line);
        restarted.push('\n');
    }
    restarted
}

/// Windows and their triggers, what the clock has to fire, pane indices, watermarks of partitions and
/// who is idle, what is late: all of it is stored, and a restart changes nothing of what follows.
#[test]
fn a_restart_between_any_two_lines_of_any_transcript_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut restarts = 0;
    let mut differences = Vec::new();
    for (path, text) in all_transcripts() {
        let restarted = with_restarts(&text);
        restarts += restarted.lines().filter(|line| *line == "restart").count();
        let copy = folder.path().join(path.file_name().unwrap());
        fs::write(&copy, restarted).unwrap();
        let output = run(&[], &pipeline(&text), &[&copy]);
        if output.status.code() != Some(0) {
            differences.push(format!("{}: {}", path.display(), stderr(&output)));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(restarts > 1_000, "{restarts}");
}

#[test]
fn every_pipeline_for_transcripts_has_one() {
    let used: Vec<_> = all_transcripts().iter().map(|(_, text)| pipeline(text)).collect();
    for folder in ["", "/book", "/paper", "/triggers", "/windows"] {
        for entry in fs::read_dir(root().join(format!("pipelines{folder}"))).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                assert!(used.contains(&path), "no transcript of {}", path.display());
            }
        }
    }
}

#[test]
fn the_bad_transcripts_fail_for_the_reasons_that_they_state() {
    for (path, text) in transcripts("transcripts/bad") {
        let output = run(&[], &pipeline(&text), &[&path]);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{}: {told}", path.display());
        let reasons: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("# fails: ")).collect();
        for reason in &reasons {
            assert!(told.contains(reason), "{}: no `{reason}` in: {told}", path.display());
        }
        let plural = if reasons.len() == 1 { "" } else { "s" };
        let count = format!(": {} difference{plural}: ", reasons.len());
        assert!(told.contains(&count), "{}: {told}", path.display());
    }
}

/// The blocks of a Markdown text, as (kind, content).
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(kind) if !is_open => {
                blocks.push((kind, String::new()));
                is_open = true;
            }
            Some(_) => is_open = false,
            None if is_open => {
                let block = &mut blocks.last_mut().unwrap().1;
                block.push_str(line);
                block.push('\n');
            }
            None => {}
        }
    }
    blocks
}

#[test]
fn the_examples_of_the_documentation_match() {
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, path) = (folder.path().join("p.toml"), folder.path().join("t.txt"));
    for (page, least) in [("transcripts", 4), ("engines", 3), ("sequences", 1)] {
        let page = fs::read_to_string(root().join(format!("../docs/{page}.md"))).unwrap();
        let mut count = 0;
        for (kind, content) in blocks(&page) {
            match kind {
                "toml" => fs::write(&pipeline, content).unwrap(),
                "transcript" => {
                    fs::write(&path, &content).unwrap();
                    let output = run(&[], &pipeline, &[&path]);
                    assert_eq!(output.status.code(), Some(0), "{content}{}", stderr(&output));
                    count += 1;
                }
                _ => {}
            }
        }
        assert!(count >= least);
    }
}

#[test]
fn the_documentation_shows_what_a_difference_looks_like() {
    let page = fs::read_to_string(root().join("../docs/transcripts.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, path) = (folder.path().join("p.toml"), folder.path().join("t.txt"));
    let (_, example) = blocks(&page).into_iter().find(|(kind, _)| *kind == "transcript").unwrap();
    let shown = blocks(&page).into_iter().find(|(_, text)| text.contains("2 differences")).unwrap();
    fs::write(&path, example.replace("{\"v\":12}", "{\"v\":13}")).unwrap();
    let sums = blocks(&page).into_iter().find(|(kind, _)| *kind == "toml").unwrap();
    fs::write(&pipeline, sums.1).unwrap();
    let output = run(&[], &pipeline, &[&path]);
    let told = stderr(&output).replace(&*path.to_string_lossy(), "late.txt");
    assert!(told.starts_with(&shown.1), "{told}");
}

#[test]
fn files_that_cannot_be_used_say_why_line_by_line() {
    for (text, told) in [
        ("recrod @1 {}\n", "t.txt:1: `recrod` starts no line"),
        ("recrod @1 {}\n", "did you mean `record`?"),
        ("record @1\n", "t.txt:1: the line ends where the fields of the record is expected"),
        ("record 1 {}\n", "t.txt:1: expected @, found `1 {}`"),
        ("record @1 {\"k\":}\n", "t.txt:1: the fields of the record is no JSON object"),
        ("record @1h5 {}\n", "t.txt:1: `1h5` is no time"),
        ("record @9223372036854775808 {}\n", "is no time"),
        ("record p=x @1 {}\n", "t.txt:1: `x` is no whole number"),
        ("record p=5000 @1 {}\n", "partition 5000 is too large"),
        ("record @1 {} {}\n", "t.txt:1: expected the end of the line, found `{}`"),
        ("  gone sums {\"k\":\"a\"} [0,10)\n", "t.txt:1: an expectation follows the input"),
        ("end\ngone sums {} [0,10)\n", "t.txt:2: an expectation is indented"),
        ("end\n  gone sums {} [10,10)\n", "t.txt:2: the window [10,10) holds no instant"),
        (
            "end\n  dropped late sums {}\n",
            "expected a reason (expired, closed, refused, no_window or overflow)",
        ),
        ("end\n  pane sums {} [0,1) #0 soon {}\n", "expected a timing"),
        ("end\n  pane sums {} [0,1) 0 late {}\n", "t.txt:2: expected #, found `0 late {}`"),
        ("\n\nbatch {\nrecord @1 {}\n", "t.txt:3: the batch that starts here is not closed"),
        ("batch {\nwatermark 1\n}\n", "t.txt:2: a batch holds records only"),
        ("idle\n", "t.txt:1: the line ends where p= and the number of a partition is expected"),
        ("# a comment\nrecord @1 {\"kk\":1}\n", "t.txt:2: the records have no field `kk`"),
        ("record @1 {\"v\":\"x\"}\n", "t.txt:1: field `v`: \"x\" is no i64"),
        ("batch {\nrecord @1 {}\nrecord @1 {\"v\":0.5}\n}\n", "t.txt:3: field `v`: 0.5 is no i64"),
        (
            "watermark 99% 5\n",
            "t.txt:1: no trigger of the pipeline waits for the watermark of 99%\n",
        ),
        ("watermark 0% 5\n", "t.txt:1: `0%` is no percentile: write 99% or 99.9%, from 0.001%"),
        ("watermark p=1 101% 5\n", "t.txt:1: `101%` is no percentile"),
        ("watermark x% 5\n", "t.txt:1: `x%` is no percentile"),
        ("watermark 50%\n", "t.txt:1: the line ends where a time is expected"),
        ("signal go\n", "t.txt:1: no trigger of the pipeline waits for signal `go`"),
    ] {
        let (code, got) = check("sums", text);
        assert_eq!(code, 2, "{text}: {got}");
        assert!(got.contains(told), "{text}: {got}");
    }
    // All lines at once.
    let (_, got) = check("sums", "recrod\nend\nwatermark x\n");
    assert_eq!(got.lines().filter(|line| line.starts_with("t.txt:")).count(), 2, "{got}");
    let output = run(&[], &root().join("pipelines/sums.toml"), &[Path::new("no/such.txt")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no/such.txt: cannot be read"));
    let output = run(&[], Path::new("no/such.toml"), &[Path::new("no/such.txt")]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn one_bad_transcript_among_good_ones_is_told_and_decides() {
    let good = root().join("transcripts/fixed.txt");
    let bad = root().join("transcripts/bad/value.txt");
    let sums = root().join("pipelines/sums.toml");
    let output = run(&[], &sums, &[&bad, &good]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("fixed.txt: ok"));
    assert!(stderr(&output).contains("1 of 2 transcripts differ"));
}

#[test]
fn print_writes_only_the_panes_that_came_each_with_its_line() {
    let text =
        "watermark 9\n\nrecord @1 {\"k\":\"a\",\"v\":5}\n\nwatermark 10 # this is line 5\nend\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    fs::write(&path, text).unwrap();
    let output = run(&["--print"], &root().join("pipelines/sums.toml"), &[&path]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "{\"pipeline\":\"sums\",\"stage\":\"sums\",\"key\":{\"k\":\"a\"},\
         \"window\":{\"start\":0,\"end\":10},\"pane\":{\"index\":0,\"timing\":\"on_time\",\
         \"is_last\":false,\"kind\":\"insert\",\"mode\":\"discarding\"},\"event_time\":9,\
         \"values\":{\"v\":5,\"n\":1},\"line\":5}\n"
    );
}

#[test]
fn sessions_are_printed_as_sinks_write_them() {
    let text = "\
record @0 {\"network\":\"n\",\"client\":\"c\",\"ap\":\"x\",\"step\":\"assoc\",\"status\":\"request\"}
record @20 {\"network\":\"n\",\"client\":\"c\",\"ap\":\"x\",\"step\":\"assoc\",\"status\":\"ok\"}
record @50 {\"network\":\"n\",\"client\":\"c\",\"ap\":\"x\",\"step\":\"dns\",\"status\":\"answer\"}
watermark 10m
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    fs::write(&path, text).unwrap();
    let pipeline = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/connections.toml");
    let output = run(&["--print"], &pipeline, &[&path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sessions: Vec<_> = lines.iter().filter(|line| line["stage"] == "sessions").collect();
    assert_eq!(sessions.len(), 1, "{lines:?}");
    let session = sessions[0];
    for (member, value) in [
        ("kind", "final".into()),
        ("revision", 0.into()),
        ("outcome", "connected".into()),
        ("time_to_connect_ms", serde_json::Value::from(50)),
        ("close_cause", "idle".into()),
        ("line", 4.into()),
    ] {
        assert_eq!(session[member], value, "{member} of {session}");
    }
    assert_eq!(session["session_id"].as_str().map(str::len), Some(16));
    assert_eq!(session["steps"][0]["step"], "assoc");
    assert_eq!(session["steps"][0]["duration_ms"], 20);
    assert_eq!(session["steps"][1]["step"], "dns");
    // The rows of its groups stay panes.
    assert!(
        lines.iter().any(|line| line["stage"] == "connects" && line["window"]["end"] == 60_000)
    );
}

#[test]
fn bless_writes_what_came_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    let sums = root().join("pipelines/sums.toml");
    let before = "\
# about this file

record @1 {\"k\":\"a\",\"v\":5}   # five
record @2 {\"k\":\"b\",\"v\":7}
watermark 10
  # b comes, too
  pane  sums {\"k\":\"b\"}  [0,10) #0 on_time {\"n\":1,\"v\":7.0}   # as written
  # wrong
  pane sums {\"k\":\"a\"} [0,10) #0 on_time {\"v\":6,\"n\":1} # why six?
  gone sums {\"k\":\"c\"} [0,10)
  gone sums {\"k\":\"b\"} [0,10)

record @12 {\"k\":\"a\",\"v\":1}
# the end";
    let after = "\
# about this file

record @1 {\"k\":\"a\",\"v\":5}   # five
record @2 {\"k\":\"b\",\"v\":7}
watermark 10
  pane sums {\"k\":\"a\"} [0,10) #0 on_time {\"v\":5,\"n\":1}
  # b comes, too
  pane  sums {\"k\":\"b\"}  [0,10) #0 on_time {\"n\":1,\"v\":7.0}   # as written
  # wrong
  # why six?
  gone sums {\"k\":\"c\"} [0,10)

record @12 {\"k\":\"a\",\"v\":1}
# the end
end
  pane sums {\"k\":\"a\"} [10,20) #0 on_time last {\"v\":1,\"n\":1}
";
    fs::write(&path, before).unwrap();
    let output = run(&["--bless"], &sums, &[&path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
    assert_eq!(run(&[], &sums, &[&path]).status.code(), Some(0));
    let output = run(&["--bless"], &sums, &[&path]);
    assert!(stderr(&output).contains(": unchanged"));
    assert_eq!(fs::read_to_string(&path).unwrap(), after);
}

#[test]
fn every_transcript_can_be_written_anew_from_its_inputs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    for (source, text) in all_transcripts() {
        let is_expectation = |line: &&str| {
            let words = ["pane ", "retract ", "gone ", "dropped "];
            words.iter().any(|word| line.trim_start().starts_with(word))
        };
        let inputs: Vec<_> = text.lines().filter(|line| !is_expectation(line)).collect();
        fs::write(&path, inputs.join("\n")).unwrap();
        let blessed = run(&["--bless"], &pipeline(&text), &[&path]);
        assert_eq!(blessed.status.code(), Some(0), "{}", stderr(&blessed));
        let output = run(&[], &pipeline(&text), &[&path]);
        assert_eq!(output.status.code(), Some(0), "{}: {}", source.display(), stderr(&output));
        // What was written by hand is what was written by the program, but for order and spelling.
        let count = |text: &str, word| text.lines().filter(|l| l.trim().starts_with(word)).count();
        let written = fs::read_to_string(&path).unwrap();
        for word in ["pane ", "retract ", "dropped "] {
            assert_eq!(count(&written, word), count(&text, word), "{}", source.display());
        }
    }
}

/// A record of flows may be a document as OpenNMS writes it: sampling, direction and addresses are
/// worked out as in a run.
#[test]
fn a_flow_document_is_normalised() {
    let document = r#"record @74999 {"exporter_node":{"node_id":1},"direction":"INGRESS",
"input_snmp_ifindex":5,"first_switched":45000,"num_bytes":"100","sampling_interval":10,
"src_address":"10.0.0.2","dst_address":"10.0.0.1"}"#;
    let document = document.replace('\n', "");
    let expected = r#"
watermark 1m
  pane interfaces {"exporter":{"node_id":1,"foreign_source":null,"foreign_id":null},"if_index":5} [0,1m) #0 on_time {"bytes":500,"flows":0}
  pane hosts {"exporter":{"node_id":1,"foreign_source":null,"foreign_id":null},"if_index":5,"host":"10.0.0.1"} [0,1m) #0 on_time {"bytes":500,"flows":0}
  pane hosts {"exporter":{"node_id":1,"foreign_source":null,"foreign_id":null},"if_index":5,"host":"10.0.0.2"} [0,1m) #0 on_time {"bytes":500,"flows":0}
end
  pane interfaces {"exporter":{"node_id":1,"foreign_source":null,"foreign_id":null},"if_index":5} [1m,2m) #0 on_time last {"bytes":500,"flows":1}
  pane hosts {"exporter":{"node_id":1,"foreign_source":null,"foreign_id":null},"if_index":5,"host":"10.0.0.1"} [1m,2m) #0 on_time last {"bytes":500,"flows":1}
  pane hosts {"exporter":{"node_id":1,"foreign_source":null,"foreign_id":null},"if_index":5,"host":"10.0.0.2"} [1m,2m) #0 on_time last {"bytes":500,"flows":1}
"#;
    let (code, told) = check("flows", &format!("{document}{expected}"));
    assert_eq!((code, told.as_str()), (0, "t.txt: ok, 3 inputs, 6 panes\n"));
    let (code, told) = check("flows", r#"record @5 {"exporter_node":{},"protocol":300}"#);
    assert_eq!(code, 2);
    let reason = "t.txt:1: no flow document: out_of_range: `protocol` is no u8: 300";
    assert!(told.starts_with(reason), "{told}");
}
