//! The demonstration as its users see it: `config/demo.toml` runs, its totals agree, and what came
//! of the captures is what is known to be in them.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Sessions of the demonstration whose exporters are theirs alone.
const SESSIONS: [&str; 4] = [
    "graylog/netgraph-netflow5.pcap",
    "graylog/nprobe-netflow9-3.pcap",
    "netflow_parser/IPFIX.pcap",
    "tcpdump/sflow-print-v6.pcap",
];

/// Runs the demonstration with few generated records, its files in `place`; returns its stdout.
fn run(place: &Path) -> String {
    let file = |name: &str| place.join(name).to_string_lossy().into_owned();
    let sets = [
        "source.generator.records=5_000".to_owned(),
        format!("sink.panes.path={:?}", file("panes.ndjson")),
        format!("sink.summaries.path={:?}", file("summaries.ndjson")),
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_nilometer"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["run", "config/demo.toml", "--check-totals", "--summary", &file("summary.json")])
        .args(sets.iter().flat_map(|set| ["--set", set]))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(place: &Path, name: &str) -> Json {
    serde_json::from_str(&fs::read_to_string(place.join(name)).unwrap()).unwrap()
}

fn number(value: &Json) -> i128 {
    value.to_string().parse().unwrap()
}

/// What panes say in the end: by stage, key and window the values of the last insert.
fn results(place: &Path) -> BTreeMap<(String, String, String), Json> {
    let mut results = BTreeMap::new();
    for line in fs::read_to_string(place.join("panes.ndjson")).unwrap().lines() {
        let pane: Json = serde_json::from_str(line).unwrap();
        let text = |name: &str| pane[name].to_string();
        let at = (pane["stage"].as_str().unwrap().to_owned(), text("key"), text("window"));
        if pane["pane"]["kind"] == "insert" {
            results.insert(at, pane);
        } else {
            results.remove(&at);
        }
    }
    results
}

/// Sum of `aggregate` over all results of `stage`, by exporter.
fn by_exporter(
    results: &BTreeMap<(String, String, String), Json>,
    stage: &str,
    aggregate: &str,
) -> BTreeMap<String, i128> {
    let mut sums = BTreeMap::new();
    for ((of, ..), pane) in results.iter().filter(|((of, ..), _)| of == stage) {
        let exporter = &pane["key"]["exporter"];
        let name = exporter.get("address").unwrap_or(&exporter["foreign_id"]).as_str().unwrap();
        let sum = sums.entry(name.to_owned()).or_insert(0);
        *sum += number(&pane["values"][aggregate]);
        assert_eq!(of, stage);
    }
    sums
}

#[test]
fn the_demonstration_is_exact() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let stdout = run(place);
    let summary = json(place, "summary.json");
    let records = number(&summary["records"]["read"]);
    let last = stdout.lines().last().unwrap().replace(',', "");
    assert_eq!(last, format!("demo: {records} records totals agree"));

    let results = results(place);
    let total = |stage: &str, aggregate: &str| by_exporter(&results, stage, aggregate);
    let flows = total("EXPORTER_INTERFACE", "flows");
    assert_eq!(flows.values().sum::<i128>(), records);
    for aggregate in ["bytes_ingress", "bytes_egress", "packets_ingress", "flows"] {
        let interface = total("EXPORTER_INTERFACE", aggregate);
        let twice: BTreeMap<_, _> =
            interface.iter().map(|(exporter, sum)| (exporter.clone(), 2 * sum)).collect();
        for (stage, expected) in [
            ("EXPORTER_INTERFACE_TOS", &interface),
            ("EXPORTER_INTERFACE_APPLICATION", &interface),
            ("EXPORTER_INTERFACE_TOS_APPLICATION", &interface),
            ("EXPORTER_INTERFACE_CONVERSATION", &interface),
            ("EXPORTER_INTERFACE_TOS_CONVERSATION", &interface),
            ("EXPORTER_INTERFACE_HOST", &twice),
            ("EXPORTER_INTERFACE_TOS_HOST", &twice),
        ] {
            assert_eq!(total(stage, aggregate), *expected, "{stage} {aggregate}");
        }
    }

    // Published truth about the captures: records and bytes of each exporter.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let truth = json(root, "tests/data/flows/truth.json");
    let (ingress, egress) =
        (total("EXPORTER_INTERFACE", "bytes_ingress"), total("EXPORTER_INTERFACE", "bytes_egress"));
    for session in SESSIONS {
        let truth = &truth["sessions"][session];
        let groups = truth["groups"].as_object().unwrap();
        let mut exporters: Vec<_> =
            groups.keys().map(|group| group.split('|').next().unwrap()).collect();
        exporters.sort_unstable();
        exporters.dedup();
        let of = |sums: &BTreeMap<String, i128>| -> i128 {
            exporters.iter().map(|exporter| sums[*exporter]).sum()
        };
        assert_eq!(of(&flows), number(&truth["records"]), "{session}");
        assert_eq!(of(&ingress) + of(&egress), number(&truth["bytes_scaled"]), "{session}");
    }

    let summaries = fs::read_to_string(place.join("summaries.ndjson")).unwrap();
    let panes = fs::read_to_string(place.join("panes.ndjson")).unwrap();
    assert_eq!(summaries.lines().count(), panes.lines().count());
}
