//! Pipelines that change between two runs over one state: what goes on, what begins anew, what is
//! refused and how it is said.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod middle;
#[path = "../place/mod.rs"]
mod place;

use place::Place;
use serde_json::Value as Json;
use std::process::{Child, Output, Stdio};

const HEAD: &str = r#"
[pipeline]
name = "change"
shards = 2
[state]
dir = "state"
epoch = "50ms"
"#;

const FILES: &str = r#"
[[source]]
name = "input"
kind = "files"
paths = ["in.ndjson"]
format = "ndjson"
[record]
time = "ts"
fields = { k = "text", j = "text", v = "i64" }
[watermark]
kind = "bounded"
out_of_orderness = "0s"
[defaults]
window = { fixed = "10ms" }
mode = "discarding"
aggregates = { sum = "sum(v)" }
"#;

const FINE: &str = "[[group]]\nname = \"fine\"\nkey = [\"k\", \"j\"]\n";
const COARSE: &str = "[[group]]\nname = \"coarse\"\nkey = [\"k\"]\n";
const OUT: &str = "[[sink]]\nname = \"out\"\nkind = \"file\"\npath = \"out.ndjson\"\n";

impl Place {
    fn start(&self, args: &[&str]) -> Child {
        let args = [&["run", "pipeline.toml"], args].concat();
        self.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs to the end of the input; what it said.
    #[track_caller]
    fn run(&self, args: &[&str]) -> String {
        succeeded(self.start(args).wait_with_output().unwrap()).1
    }

    /// The run does not start, and says this.
    #[track_caller]
    fn refused(&self, args: &[&str], code: i32, expected: &str) {
        let output = self.start(args).wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let said = stderr.split_once("error: ").map_or("", |(_, said)| said);
        assert_eq!((output.status.code(), said), (Some(code), expected), "{stderr}");
    }

    /// What a start makes of the state, as a table.
    #[track_caller]
    fn plan(&self, args: &[&str]) -> String {
        let args = [&["plan", "pipeline.toml", "--state", "state"], args].concat();
        succeeded(self.command(&args).output().unwrap()).0
    }
}

/// What a process that was right has said: stdout and stderr.
#[track_caller]
fn succeeded(output: Output) -> (String, String) {
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{stderr}");
    (stdout, stderr)
}

/// The place of a run over a few records, which has ended.
fn ended(groups: &[&str], sinks: &str) -> Place {
    let place = Place::new(&[&HEAD.replace("50ms", "1h"), FILES, &groups.concat(), sinks].concat());
    place.write("in.ndjson", "{\"ts\":1,\"k\":\"a\",\"j\":\"x\",\"v\":1}\n");
    place.run(&[]);
    place
}

/// The pipeline with other groups and sinks.
fn change(place: &Place, groups: &[&str], sinks: &str) {
    place.write(
        "pipeline.toml",
        &[&HEAD.replace("50ms", "1h"), FILES, &groups.concat(), sinks].concat(),
    );
}

const WAYS: &str = "put the settings back; or go on without what the state holds of them: ";
const ANEW: &str = "; or set another `state.dir` to begin everything anew\n";

#[test]
fn stages_that_changed_stop_the_start_unless_they_are_named() {
    let place = ended(&[FINE, COARSE], OUT);
    let whole = place.read("out.ndjson");
    let wider = &["--set", "group.fine.window.fixed=5ms"][..];
    place.refused(
        wider,
        5,
        &format!(
            "the state in `state` does not fit the pipeline:\n  \
             stage `fine`: window was fixed 10ms, and is fixed 5ms\n  \
             stage `coarse`: it reads `fine`, which begins anew\n\
             {WAYS}--drop-state fine --drop-state coarse{ANEW}"
        ),
    );
    // One of them alone will not do.
    place.refused(
        &[wider, &["--drop-state", "fine"]].concat(),
        5,
        &format!(
            "the state in `state` does not fit the pipeline:\n  \
             stage `coarse`: it reads `fine`, which begins anew\n\
             go on without what the state holds of them: --drop-state coarse{ANEW}"
        ),
    );
    let table = place.plan(wider);
    assert_eq!(
        table,
        format!(
            "state `state`, epoch 1, stored by nilometer {}

          name     at the next start   because
───────────────────────────────────────────────────────────────────────────────
 stage    fine     stops the start     window was fixed 10ms, and is fixed 5ms
 stage    coarse   stops the start     it reads `fine`, which begins anew
 source   input    goes on
 sink     out      goes on

a run would not start: {WAYS}--drop-state fine --drop-state coarse{ANEW}",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert_eq!(place.read("out.ndjson"), whole, "nothing is touched");
    let drops = &["--drop-state", "fine", "--drop-state", "coarse"][..];
    let said = place.run(&[wider, drops].concat());
    assert!(said.contains("stage `fine`: begins anew here; windows that began before"), "{said}");
    assert!(said.contains("stage `coarse`: begins anew here"), "{said}");
    assert!(said.contains("goes on behind epoch 1\n"), "{said}");
    // What was dropped is as it is now, and has no need any more.
    place.refused(
        &[wider, drops].concat(),
        5,
        "--drop-state: stage `fine` goes on as it is, so that nothing of it is to be dropped\n  \
         stage `coarse` goes on as it is, so that nothing of it is to be dropped\n",
    );
    place.run(wider);
}

#[test]
fn what_is_new_begins_and_what_is_gone_is_named() {
    let place = ended(&[COARSE], OUT);
    change(&place, &[FINE, COARSE], &[OUT, &OUT.replace("out", "more")].concat());
    let json: Json = serde_json::from_str(&place.plan(&["--format", "json"])).unwrap();
    assert_eq!(
        json["state"],
        serde_json::json!({
            "dir": "state",
            "epoch": 1,
            "stored_by": env!("CARGO_PKG_VERSION"),
            "starts": true,
            "entries": [
                { "what": "stage", "name": "fine", "at_start": "begins", "because": ["is_new"] },
                { "what": "stage", "name": "coarse", "at_start": "goes_on" },
                { "what": "source", "name": "input", "at_start": "goes_on" },
                { "what": "sink", "name": "out", "at_start": "goes_on" },
                { "what": "sink", "name": "more", "at_start": "begins", "because": ["is_new"] },
            ],
        })
    );
    place.refused(
        &["--drop-state", "cuorse", "--drop-state", "fine"],
        5,
        "--drop-state: there is no `cuorse`, only fine, coarse, source.input, sink.out, sink.more; \
         did you mean `coarse`?\n  stage `fine` is new, so that there is nothing to drop\n",
    );
    let said = place.run(&[]);
    assert!(said.contains("stage `fine`: is new and begins here; windows that"), "{said}");
    assert!(said.contains("sink `more`: begins here; what came before is not"), "{said}");
    assert_eq!(place.read("more.ndjson"), "");

    change(&place, &[FINE], &OUT.replace("out", "more"));
    place.refused(
        &[],
        5,
        &format!(
            "the state in `state` does not fit the pipeline:\n  \
             stage `coarse`: it is not in the pipeline any more\n\
             {WAYS}--drop-state coarse{ANEW}"
        ),
    );
    let said = place.run(&["--drop-state", "coarse"]);
    assert!(said.contains("stage `coarse`: is forgotten\n"), "{said}");
    assert!(said.contains("sink `out`: is forgotten\n"), "{said}");
}

#[test]
fn a_source_reads_what_it_did_under_its_name() {
    let place = ended(&[COARSE], OUT);
    place.write("more.ndjson", "{\"ts\":1,\"k\":\"a\",\"j\":\"x\",\"v\":1}\n");
    let more = "source.input.paths=[\"in.ndjson\", \"more.ndjson\"]";
    place.refused(
        &["--set", more],
        5,
        &format!(
            "the state in `state` does not fit the pipeline:\n  \
             source `input`: paths was in.ndjson, and is in.ndjson, more.ndjson\n\
             put the settings back; or give what `input` reads now a source of another name, which \
             reads it from its beginning{ANEW}"
        ),
    );
    let refused = place.start(&["--set", more, "--drop-state", "source.input"]);
    let said = String::from_utf8(refused.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("source `input` cannot be dropped under its name; give it"), "{said}");

    let renamed = ["--set", "source.0.name=other"];
    place.refused(
        &renamed,
        5,
        &format!(
            "the state in `state` does not fit the pipeline:\n  \
             source `input`: it is not in the pipeline any more\n\
             {WAYS}--drop-state source.input{ANEW}"
        ),
    );
    let said = place.run(&[&renamed[..], &["--drop-state", "source.input"]].concat());
    assert!(said.contains("source `input`: is forgotten\n"), "{said}");
    assert!(said.contains("source `other`: is new and is read from its beginning"), "{said}");
    // The first run has ended: everything is expired, and nothing goes missing.
    assert!(said.contains("expired"), "{said}");
    // What has no part in positions may change.
    place.run(&[&renamed[..], &["--set", "source.0.line_max=2MiB"]].concat());
}

#[test]
fn plan_says_where_there_is_no_state_and_leaves_nothing_behind() {
    let place = Place::new(&[&HEAD.replace("50ms", "1h"), FILES, COARSE, OUT].concat());
    let fails = |args: &[&str], code: i32, expected: &str| {
        let output = place.command(&[&["plan", "pipeline.toml"], args].concat()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*stderr), (Some(code), expected));
    };
    fails(
        &["--state", "state"],
        5,
        "error: there is no state in `state`; give the directory that `state.dir` or --state names\n",
    );
    assert!(!place.path("state").exists());
    fails(
        &["--state", "state", "--format", "dot"],
        2,
        "error: --state is shown as text or in JSON; leave `--format` out, or take `json`\n",
    );
    place.refused(
        &["--drop-state", "coarse"],
        5,
        "--drop-state: nothing is stored yet that could be dropped\n",
    );
}

#[test]
fn on_another_engine_a_stage_begins_anew() {
    let place = ended(&[FINE], OUT);
    let batch = &["--set", "pipeline.engine=batch"][..];
    place.refused(
        batch,
        5,
        &format!(
            "the state in `state` does not fit the pipeline:\n  \
             stage `fine`: engine was streaming, and is batch\n\
             {WAYS}--drop-state fine{ANEW}"
        ),
    );
    place.run(&[batch, &["--drop-state", "fine"]].concat());
    place.run(batch);
    assert!(place.plan(&[]).contains("engine was batch, and is streaming"));
}
