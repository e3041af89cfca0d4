//! The program from outside: what it prints where, and its exit codes.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "place/lacking.rs"]
mod lacking;

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn nilometer(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilometer"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
    command
}

fn output(args: &[&str]) -> Output {
    nilometer(args).output().expect("the program starts")
}

fn stdout(args: &[&str]) -> String {
    let output = output(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    assert!(errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

#[test]
fn a_valid_pipeline_is_said_to_be_valid() {
    let said = stdout(&["check", "config/flows.toml"]);
    assert_eq!(
        said,
        "config/flows.toml: pipeline `flows` is valid: 8 groupings, 1 stage reads records\n"
    );
}

#[test]
fn mistakes_go_to_stderr_with_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("p.toml");
    std::fs::write(&file, "[pipeline]\nnam = \"p\"\n").expect("a file");
    let file = file.to_string_lossy();
    for (args, expected) in [
        (&["check", &file] as &[&str], "`pipeline` has no setting `nam`"),
        (&["check", &file], "did you mean `name`?"),
        (&["plan", &file, "--set", "pipeline.key_groups=0"], "--set:1:21"),
        (&["check", "no/such.toml"], "cannot read `no/such.toml`"),
        (&["check", "tests/data"], "cannot read `tests/data`"),
        (&["chek"], "check"),
        (&["check"], "<FILE>"),
        (&["plan", &file, "--format", "svg"], "mermaid"),
    ] {
        let output = output(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(errors.contains(expected), "{args:?}: {errors}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(!errors.contains('\u{1b}'), "no colours off a terminal: {errors}");
    }
}

#[test]
fn what_is_meant_for_programs_can_be_read_by_them() {
    let plan = stdout(&["plan", "config/nephron.toml", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    assert_eq!(plan.get("pipeline"), Some(&serde_json::json!("nephron")));
    let schema = stdout(&["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    assert!(schema.get("properties").is_some());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&["completions", shell]).contains("nilometer"), "{shell}");
    }
    assert!(stdout(&["plan", "config/flows.toml", "--format", "dot"]).starts_with("digraph"));
    assert!(stdout(&["plan", "config/flows.toml", "--format", "mermaid"]).starts_with("flowchart"));
}

#[test]
fn the_environment_gives_variables() {
    let variables = [("LISTEN", "[::1]:9995"), ("SUMMARIES", "out.ndjson")];
    let output = nilometer(&["plan", "config/flows.toml"]).envs(variables).output();
    let plan = String::from_utf8(output.expect("the program starts").stdout).expect("UTF-8");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for expected in [
        ["source.collector.listen", "\"[::1]:9995\"", "env"],
        ["sink.summaries.path", "\"out.ndjson\"", "env"],
    ] {
        assert!(plan.lines().any(|line| words(line) == expected), "{expected:?} in {plan}");
    }
}

#[test]
fn output_that_cannot_be_written_is_exit_code_4_and_a_closed_pipe_is_none() {
    if lacking::has("/dev/full", Path::new("/dev/full").exists()) {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = nilometer(&["schema"]).stdout(full).stderr(Stdio::piped()).output();
        let output = output.expect("the program starts");
        assert_eq!(output.status.code(), Some(4));
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to stdout"));
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = nilometer(&["schema"]).stdout(writer).status().expect("the program starts");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn every_command_has_examples() {
    let help = stdout(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"plan"), "{help}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let help = stdout(&[name, "--help"]);
        assert!(help.contains("Examples:\n  nilometer "), "{help}");
    }
}
