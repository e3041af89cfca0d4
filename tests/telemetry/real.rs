//! The same against the collector of OpenTelemetry itself, which `tests/services/otelcol` builds: what it
//! has understood stands in its file.

use super::{SECONDS, TOKEN, place, run, told};
use serde_json::Value as Json;
use std::path::Path;
use std::process::{Command, Output};

fn script(args: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/otelcol");
    Command::new(script).args(args).output().unwrap()
}

/// What the script says where there is no Go that could build a collector.
const NO_GO: i32 = 3;

#[test]
fn a_real_collector_understands_what_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let started = script(&["start", dir, "--while", &std::process::id().to_string()]);
    let said = String::from_utf8_lossy(&started.stderr);
    if started.status.code() == Some(NO_GO) {
        println!("not tested against a real collector: {said}");
        return;
    }
    assert!(started.status.success(), "{said}");
    let addresses = String::from_utf8(started.stdout).unwrap();
    for (protocol, address) in ["grpc", "http"].into_iter().zip(addresses.split_whitespace()) {
        let place = place(&told(protocol, address));
        let (_, said) = run(&place, &[TOKEN]);
        assert!(!said.contains("dropped"), "{said}");
    }
    assert!(script(&["stop", dir]).status.success());
    let told = std::fs::read_to_string(folder.path().join("telemetry.json")).unwrap();
    let requests = told.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let requests: Vec<_> = requests.collect();
    let all = |from: &Json, name: &str| from[name].as_array().cloned().unwrap_or_default();
    let scopes = requests.iter().flat_map(|request| all(request, "resourceSpans"));
    let scopes = scopes.flat_map(|resource| all(&resource, "scopeSpans"));
    let spans: Vec<_> = scopes.flat_map(|scope| all(&scope, "spans")).collect();
    let batches = spans.iter().filter(|span| span["name"] == "source batch");
    let records = batches.flat_map(|span| all(span, "attributes"));
    let records = records.filter(|attribute| attribute["key"] == "nilometer.records");
    let count = |attribute: Json| attribute["value"]["intValue"].as_str().unwrap().parse::<u64>();
    let read: u64 = records.map(|attribute| count(attribute).unwrap()).sum();
    assert_eq!(read, 2 * SECONDS * 100);
    assert!(
        spans.iter().any(|span| span["name"] == "sink write" && !all(span, "links").is_empty())
    );
}
