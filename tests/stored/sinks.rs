//! Sinks that change while results of the last epoch are still to be written: none is lost unless it
//! is given up by name, and no file that a sink of the state has written is written over.

use crate::place::Place;
use std::fs;

const OUT: &str = "name = \"out\"\nkind = \"file\"\npath = \"out.ndjson\"";

/// A state whose last results are not written, and its pipeline with another sink.
fn with_sink(sink: &str) -> Place {
    let place = Place::stored();
    let pipeline = place.read("pipeline.toml");
    assert!(pipeline.contains(OUT));
    place.write("pipeline.toml", &pipeline.replace(OUT, sink));
    place
}

impl Place {
    /// The run does not start, says this, and nothing is touched.
    #[track_caller]
    fn stops(&self, said: &str) {
        let database = fs::read(self.path("state/epochs/db")).unwrap();
        let output = self.read("out.ndjson");
        let run = self.command(&["run", "pipeline.toml"]).output().unwrap();
        let stderr = String::from_utf8(run.stderr).unwrap();
        let error = stderr.split_once("error: ").map_or("", |(_, error)| error);
        let expected = format!("the state in `state` does not fit the pipeline:\n{said}");
        assert_eq!((run.status.code(), error), (Some(5), &*expected), "{stderr}");
        assert_eq!(self.read("out.ndjson"), output);
        assert!(fs::read(self.path("state/last")).is_ok() && !database.is_empty());
        assert!(!self.path("other.ndjson").exists());
    }
}

const WAYS: &str = "start once with the sinks as they were, which writes what is missing; or go on \
                    without what the state holds of them: --drop-state sink.out; or set another \
                    `state.dir` to begin everything anew\n";

#[test]
fn what_a_sink_has_not_written_stops_its_removal() {
    let place = with_sink("name = \"other\"\nkind = \"file\"\npath = \"other.ndjson\"");
    place.stops(&format!(
        "  sink `out`: it is not in the pipeline any more\n  \
         sink `out`: its last results may not have been written\nput the settings back; or {WAYS}"
    ));
    let before = place.read("out.ndjson");
    place.prints(&["run", "pipeline.toml", "--drop-state", "sink.out"]);
    assert_eq!(place.read("out.ndjson"), before, "what was given up is not written");
    assert!(place.read("other.ndjson").lines().count() > 100);
}

#[test]
fn what_a_sink_has_not_written_stops_its_change() {
    let place = with_sink("name = \"out\"\nkind = \"file\"\npath = \"other.ndjson\"");
    place.stops(&format!(
        "  sink `out`: path was out.ndjson, and is other.ndjson\n  \
         sink `out`: its last results may not have been written\nput the settings back; or {WAYS}"
    ));
    // Started once as it was, it may change.
    let pipeline = place.read("pipeline.toml");
    place.write("pipeline.toml", &pipeline.replace("other.ndjson", "out.ndjson"));
    place.prints(&["run", "pipeline.toml"]);
    let whole = place.read("out.ndjson");
    place.write("pipeline.toml", &pipeline);
    place.prints(&["run", "pipeline.toml"]);
    assert_eq!(place.read("out.ndjson"), whole);
    assert_eq!(place.read("other.ndjson"), "", "all had come before");
}

#[test]
fn a_file_of_the_state_is_not_written_over_however_its_path_is_written() {
    for path in ["out.ndjson", "./out.ndjson", "state/../out.ndjson"] {
        let place = with_sink(&format!("name = \"other\"\nkind = \"file\"\npath = \"{path}\""));
        place.stops(&format!(
            "  sink `other`: it is new\n  \
             sink `other`: `{path}` holds what sink `out` has written\n  \
             sink `out`: it is not in the pipeline any more\n  \
             sink `out`: its last results may not have been written\n\
             put the settings back; or give `other` another path; or {WAYS}"
        ));
    }
}
