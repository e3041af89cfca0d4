//! `config/packets.toml` on steps read off packets: the mapping that docs/sequences.md explains gives
//! the numbers and the attempts that are known, in whatever order the packets come.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]

mod place;

use place::Place;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Runs the pipeline over `packets`; returns what it writes of attempts and of counts.
fn run(packets: &str, sets: &[&str]) -> [Vec<Json>; 2] {
    let place = Place::new("");
    place.write("packets.jsonl", packets);
    let mut command = place.command(&["run"]);
    command.arg(root().join("config/packets.toml"));
    let output = command.args(sets.iter().flat_map(|set| ["--set", set])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ["attempts", "counts"].map(|name| {
        let text = place.read(&format!("{name}.ndjson"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    })
}

/// How a client came out at an access point, in the words of `truth.json`; nothing if there was no
/// step.
fn attempts(session: &Json) -> Option<Json> {
    let steps = session["steps"].as_array().unwrap();
    steps.first()?;
    let step = |name: &str| steps.iter().find(|step| step["step"] == name);
    let result = |name: &str| step(name).map(|step| step["result"].clone()).unwrap_or_default();
    let mut told = json!({
        "client": session["key"]["client"],
        "ap": session["key"]["ap"],
        "t_first": session["t_first"],
        "attempts": session["restarts"].as_i64().unwrap() + 1,
        "end": session["close_cause"],
    });
    let mut say = |name: &str, value: Json| told[name] = value;
    if result("auth") == "success" {
        say("auth", json!("ok"));
    }
    match (result("assoc").as_str(), step("assoc")) {
        (Some("success"), _) => say("assoc", json!("ok")),
        (Some("failure"), Some(step)) => say("assoc", json!(format!("status{}", step["reason"]))),
        _ => {}
    }
    if result("eap") == "success" {
        say("eap", json!("success"));
    }
    // The last packet says how far the step came.
    let status = |name: &str| Some(step(name)?["status"].as_str()?.to_owned());
    if let Some(key) = status("fourway") {
        say("fourway", json!(key.strip_prefix("eapol_key_").unwrap().parse::<u8>().unwrap()));
    }
    if let Some(last) = status("dhcp") {
        say("dhcp", json!(last.strip_prefix("dhcp_").unwrap()));
    }
    if let Some(last) = status("radius") {
        say("radius", json!(last.strip_prefix("radius_access_").unwrap()));
    }
    Some(told)
}

#[test]
fn packets_give_the_numbers_and_attempts_that_are_known() {
    let folder = root().join("tests/data/connections");
    let truth: Json =
        serde_json::from_str(&fs::read_to_string(folder.join("truth.json")).unwrap()).unwrap();
    for (name, truth) in truth.as_object().unwrap() {
        let text = fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
        let reversed: Vec<_> = text.lines().rev().map(|line| format!("{line}\n")).collect();
        for (packets, sets) in [
            (text.clone(), vec!["pipeline.shards=1"]),
            (reversed.concat(), vec!["watermark.out_of_orderness=\"10m\"", "pipeline.shards=3"]),
        ] {
            let [sessions, counts] = run(&packets, &sets);
            let by_client = |told: &Json| (told["client"].to_string(), told["ap"].to_string());
            let mut told: Vec<_> = sessions.iter().filter_map(attempts).collect();
            let mut known = truth["attempts"].as_array().unwrap().clone();
            known.iter_mut().for_each(|attempt| {
                attempt.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                let ap = attempt.get("ap").cloned().unwrap_or_default();
                attempt["ap"] = ap;
            });
            told.sort_by_key(by_client);
            known.sort_by_key(by_client);
            assert_eq!(told, known, "{name} {sets:?}");
            let kinds: BTreeMap<_, _> = counts
                .iter()
                .filter(|pane| pane["stage"] == "packets")
                .map(|pane| {
                    (pane["key"]["packet"].as_str().unwrap(), pane["values"]["packets"].clone())
                })
                .collect();
            assert_eq!(json!(kinds), truth["kinds"], "{name}");
            let clients = counts.iter().find(|pane| pane["stage"] == "clients").unwrap();
            assert_eq!(clients["values"]["packets"], truth["packets"]);
            assert_eq!(clients["values"]["clients"], truth["clients"]);
        }
    }
}
