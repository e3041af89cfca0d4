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

/// Runs the pipeline over `packets`; returns what it writes of attempts, of exchanges and of counts.
fn run(packets: &str, sets: &[&str]) -> [Vec<Json>; 3] {
    let place = Place::new("");
    place.write("packets.jsonl", packets);
    let mut command = place.command(&["run"]);
    command.arg(root().join("config/packets.toml"));
    let output = command.args(sets.iter().flat_map(|set| ["--set", set])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ["attempts", "exchanges", "counts"].map(|name| {
        let text = place.read(&format!("{name}.ndjson"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    })
}

fn step<'a>(session: &'a Json, name: &str) -> Option<&'a Json> {
    session["steps"].as_array().unwrap().iter().find(|step| step["step"] == name)
}

/// The status that a step has ended with, or stands at, without what all its packets begin with.
fn last(session: &Json, name: &str, prefix: &str) -> Option<String> {
    let status = step(session, name)?["status"].as_str()?;
    Some(status.strip_prefix(prefix).unwrap().to_owned())
}

/// An attempt in the words of `truth.json`; none if no step was begun.
fn attempt(session: &Json, counts: &[Json]) -> Option<Json> {
    let steps = session["steps"].as_array().unwrap();
    let start = steps.iter().filter_map(|step| step["t_start"].as_i64()).min()?;
    let result = |name| step(session, name).map(|step| step["result"].as_str().unwrap());
    let mut told = json!({
        "client": session["key"]["client"],
        "ap": session["key"]["ap"],
        "start": start,
        "kind": session["association"].as_str().unwrap_or("assoc"),
    });
    let mut say = |name: &str, value: Json| told[name] = value;
    if result("auth") == Some("success") {
        say("auth", json!("ok"));
    }
    match result("assoc") {
        Some("success") => say("assoc", json!("ok")),
        Some("failure") => {
            let reason = &step(session, "assoc").unwrap()["reason"];
            say("assoc", json!(format!("status{reason}")));
        }
        _ => {}
    }
    if result("eap") == Some("success") {
        say("eap", json!("success"));
    }
    if let Some(key) = last(session, "fourway", "eapol_key_") {
        say("fourway", json!(key.parse::<u8>().unwrap()));
    }
    // What was answered, else what was asked first.
    let asked = || last(session, "address", "dhcp_");
    if let Some(packet) = last(session, "dhcp", "dhcp_").or_else(asked) {
        say("dhcp", json!(packet));
    }
    if step(session, "dns").is_some() {
        say("dns", names(&session["key"], counts));
    }
    if let Some(ended) = session["ended"].as_str() {
        say("end", json!(format!("{ended}:{}", session["ended_reason"])));
    }
    if session["asked_alg"].is_number() {
        say("alg", session["asked_alg"].clone());
    }
    Some(told)
}

/// How many names a client has asked for at an access point, and what was answered.
fn names(key: &Json, counts: &[Json]) -> Json {
    let mut told = BTreeMap::<String, u64>::new();
    let of = |pane: &&Json| pane["stage"] == "answers";
    for pane in counts.iter().filter(of) {
        let (of, number) = (&pane["key"], pane["values"]["packets"].as_u64().unwrap());
        let packet = of["packet"].as_str().unwrap();
        if let Some(what) = packet
            .strip_prefix("dns_")
            .filter(|_| of["client"] == key["client"] && of["ap"] == key["ap"])
        {
            *told.entry(what.to_owned()).or_default() += number;
            if let Some(code) = of["rcode"].as_u64().filter(|code| *code > 0) {
                told.insert(format!("rcode{code}"), number);
            }
        }
    }
    json!(told)
}

/// What became of a question to a RADIUS server.
fn exchange(session: &Json) -> Json {
    let radius = step(session, "radius").unwrap();
    let answer = match radius["result"].as_str().unwrap() {
        "success" => json!(last(session, "radius", "radius_access_")),
        _ => Json::Null,
    };
    json!({
        "client": session["key"]["client"],
        "start": session["t_first"],
        "requests": radius["attempts"],
        "answer": answer,
    })
}

fn ordered(mut told: Vec<Json>) -> Vec<Json> {
    told.sort_by_key(|told| {
        (told["client"].to_string(), told["ap"].to_string(), told["start"].as_i64())
    });
    told
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
            let [attempts, exchanges, counts] = run(&packets, &sets);
            let told = attempts.iter().filter_map(|session| attempt(session, &counts)).collect();
            let known = |what: &str| ordered(truth[what].as_array().unwrap().clone());
            assert_eq!(ordered(told), known("attempts"), "{name} {sets:?}");
            let told = exchanges.iter().map(exchange).collect();
            assert_eq!(ordered(told), known("exchanges"), "{name} {sets:?}");
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
