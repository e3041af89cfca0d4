//! `config/connections.toml` as its users see it, on generated records whose truth is known: in
//! order of arrival they give clients that are connected and are not, in order of event time every
//! verdict is true, and what is rolled up is the sum of the verdicts, corrections included.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]

mod place;

use place::Place;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CHAIN: [&str; 4] = ["assoc", "auth", "dhcp", "dns"];

/// The lateness of `config/connections.toml`: that of records in time, and what may be corrected.
const IN_TIME_MS: i64 = 10_000;
const CORRECTED_MS: i64 = 600_000;

fn lines(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn int(value: &Json) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Generated records, and what is true of their sessions.
struct Input {
    place: Place,
    records: Vec<Json>,
    truths: Vec<Json>,
}

impl Input {
    fn generate(args: &[&str]) -> Self {
        let place = Place::new("");
        let mut command = place.command(&["generate", "connections", "--truth", "truth.ndjson"]);
        let output = command.args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        place.write("connections.ndjson", &text);
        let mut truths = lines(&place.read("truth.ndjson"));
        // What a bot does has no end, and so no verdict.
        truths.retain(|truth| truth.get("outcome").is_some());
        Self { records: lines(&text), truths, place }
    }

    /// Runs the pipeline over the records; returns what it has written in the end.
    fn run(&self, sets: &[&str]) -> Results {
        let pipeline = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/connections.toml");
        let mut command = self.place.command(&["run", "--summary", "summary.json"]);
        command.arg(pipeline).args(sets.iter().flat_map(|set| ["--set", set]));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Results {
            sessions: sessions(&lines(&self.place.read("sessions.ndjson"))),
            panes: ["connects", "steps", "reasons"]
                .map(|stage| lines(&self.place.read(&format!("{stage}.ndjson"))))
                .concat(),
            summary: serde_json::from_str(&self.place.read("summary.json")).unwrap(),
        }
    }

    /// Sessions all of whose records came, none of them later than this.
    fn judged(&self, behind_ms: i64) -> impl Iterator<Item = &Json> {
        self.truths
            .iter()
            .filter(move |truth| int(&truth["lost"]) == 0 && int(&truth["behind_ms"]) <= behind_ms)
    }
}

/// What a run has written.
struct Results {
    /// By client and first record.
    sessions: BTreeMap<(String, i64), Json>,
    panes: Vec<Json>,
    summary: Json,
}

/// The sessions that hold in the end; never two of one name.
fn sessions(written: &[Json]) -> BTreeMap<(String, i64), Json> {
    let mut live: BTreeMap<String, Json> = BTreeMap::new();
    for session in written {
        let id = session["session_id"].as_str().unwrap().to_owned();
        if session["kind"] == "retraction" {
            let taken = live.remove(&id).unwrap();
            assert_eq!(taken["revision"], session["revision"]);
        } else {
            let before = live.insert(id, session.clone());
            assert_eq!(before, None, "two live records of one session");
        }
    }
    let place = |session: &Json| {
        (session["key"]["client"].as_str().unwrap().to_owned(), int(&session["t_first"]))
    };
    live.into_values().map(|session| (place(&session), session)).collect()
}

fn place_of(truth: &Json) -> (String, i64) {
    (truth["client"].as_str().unwrap().to_owned(), int(&truth["t_first"]))
}

/// What a session says beside its steps, in the words of the truth.
fn verdict(session: &Json, key: &str) -> String {
    let get = |name: &str| session.get(name).cloned().unwrap_or_default();
    let names = ["outcome", "step", "reason", "time_to_connect_ms", "t_last", "ap"];
    let counts = ["restarts", "roams", "roam_failures", key];
    names.into_iter().chain(counts).map(|name| get(name).to_string() + " ").collect()
}

/// What it says of its steps.
fn steps(session: &Json) -> Vec<String> {
    let told = session["steps"].as_array().unwrap().iter();
    let told = told.map(|step| {
        format!("{} {} {} {}", step["step"], step["result"], step["attempts"], step["duration_ms"])
    });
    told.collect()
}

fn true_steps(truth: &Json) -> Vec<String> {
    let known = CHAIN.into_iter().filter_map(|name| Some((name, truth.get(name)?)));
    let get = |step: &Json, name: &str| step.get(name).cloned().unwrap_or_default();
    let told = known.map(|(name, step)| {
        format!("\"{name}\" {} {} {}", get(step, "result"), step["attempts"], get(step, "ms"))
    });
    told.collect()
}

/// Every session whose records came within the lateness is told as it was; returns how many.
fn check_verdicts(input: &Input, results: &Results) -> usize {
    let mut count = 0;
    for truth in input.judged(IN_TIME_MS + CORRECTED_MS) {
        let session = results.sessions.get(&place_of(truth)).unwrap_or_else(|| panic!("{truth}"));
        // What changes nothing else is not told anew: a late record may be missing in the number.
        let is_in_time = int(&truth["behind_ms"]) <= IN_TIME_MS;
        let (ours, theirs) = if is_in_time { ("n_events", "records") } else { ("", "") };
        assert_eq!(verdict(session, ours), verdict(truth, theirs), "{session}\n{truth}");
        assert_eq!(steps(session), true_steps(truth), "{session}\n{truth}");
        count += 1;
    }
    count
}

/// A judge who takes records as they come. In order of event time it is never wrong.
#[derive(Default)]
struct Naive<'a> {
    /// By step of the chain: whether it has succeeded last.
    passed: [bool; 4],
    at: usize,
    is_connected: bool,
    seen: BTreeSet<(&'a str, i64, &'a str)>,
}

impl<'a> Naive<'a> {
    fn take(&mut self, record: &'a Json) {
        let (step, status) = (record["step"].as_str().unwrap(), record["status"].as_str().unwrap());
        let Some(number) = CHAIN.iter().position(|name| *name == step) else { return };
        let is_copy = !self.seen.insert((step, int(&record["time"]), status));
        if is_copy || self.is_connected {
            return;
        }
        let is_start = [["request"; 2], ["discover", "query"]].concat()[number] == status;
        if is_start && (number < self.at || number == self.at && self.passed[number]) {
            self.passed = [false; 4];
        }
        self.at = number;
        self.passed[number] = ["ok", "accept", "ack", "answer"][number] == status;
        self.is_connected = self.passed[0] && self.passed[3];
    }

    fn judge(records: impl Iterator<Item = &'a Json>) -> bool {
        let mut judge = Self::default();
        records.for_each(|record| judge.take(record));
        judge.is_connected
    }
}

/// How often a judge in order of arrival says that a client is connected which is not, how often
/// that it is not although it is, and of how many sessions.
fn naive_errors(input: &Input) -> (usize, usize, usize) {
    let mut by_client: BTreeMap<&str, Vec<&Json>> = BTreeMap::new();
    for record in &input.records {
        by_client.entry(record["client"].as_str().unwrap()).or_default().push(record);
    }
    let (mut wrong, mut missed, mut all) = (0, 0, 0);
    for truth in input.judged(i64::MAX) {
        let span = int(&truth["t_first"])..=int(&truth["t_last"]);
        let of_client = &by_client[truth["client"].as_str().unwrap()];
        let own = of_client.iter().copied().filter(|record| span.contains(&int(&record["time"])));
        let mut in_order: Vec<_> = own.clone().collect();
        in_order.sort_by_key(|record| int(&record["time"]));
        let is_connected = truth["outcome"] == "connected";
        assert_eq!(Naive::judge(in_order.into_iter()), is_connected, "{truth}");
        let told = Naive::judge(own);
        all += 1;
        wrong += usize::from(told && !is_connected);
        missed += usize::from(!told && is_connected);
    }
    (wrong, missed, all)
}

#[test]
fn in_order_of_arrival_verdicts_are_false_and_in_order_of_event_time_all_are_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sequences.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (seed, late_share, sets) in [
        ("1", "0.005", [["pipeline.shards=1", "limits.batch_records=4096"]].concat()),
        ("2", "0.03", [["pipeline.shards=2", "limits.batch_records=7"]].concat()),
        ("3", "0.03", [["pipeline.shards=5", "limits.batch_records=500"]].concat()),
    ] {
        let input = Input::generate(&["--seed", seed, "--late-share", late_share]);
        let (wrong, missed, all) = naive_errors(&input);
        assert!(wrong > 0 && missed > 0);
        // The documentation shows these numbers.
        let args = if late_share == "0.005" { "" } else { &*format!(" --late-share {late_share}") };
        let row = format!("| `--seed {seed}{args}` | {all} | {wrong} | {missed} |\n");
        assert!(page.contains(&row), "docs/sequences.md has no row {row}");
        let results = input.run(&sets);
        let judged = check_verdicts(&input, &results);
        assert!(judged > 900, "{judged}");
        // Every record is accounted for, and what never ends is cut.
        let account = &results.summary["stages"]["sessions"];
        let sum: i64 = ["on_time", "late", "expired", "closed", "late_no_effect", "duplicate"]
            .iter()
            .map(|name| account.get(*name).map_or(0, int))
            .sum();
        assert_eq!(sum, input.records.len() as i64, "{account}");
        for session in results.sessions.values() {
            assert!(int(&session["n_events"]) <= 1_000);
            let length = int(&session["t_last"]) - int(&session["t_first"]);
            assert!(length < 3_600_000, "{session}");
        }
    }
}

#[test]
fn bots_that_never_stop_are_told_in_parts() {
    let input = Input::generate(&["--late-share", "0", "--seed", "4"]);
    let results = input.run(&["sequence.sessions.max_events_per_session=50", "pipeline.shards=2"]);
    let truths = lines(&input.place.read("truth.ndjson"));
    let bots: Vec<_> = truths.iter().filter(|truth| truth.get("outcome").is_none()).collect();
    assert_eq!(bots.len(), 2);
    for bot in bots {
        let own = results.sessions.iter().filter(|((client, _), _)| bot["client"] == **client);
        let parts: Vec<_> = own.map(|(_, session)| session).collect();
        assert!(parts.len() > 10, "{}", parts.len());
        assert!(parts.iter().all(|part| int(&part["n_events"]) <= 50), "{parts:?}");
        assert!(parts.iter().all(|part| part["outcome"] != "connected"), "{parts:?}");
        // Nothing is lost between them.
        let records: i64 = parts.iter().map(|part| int(&part["n_events"])).sum();
        assert_eq!(records, int(&bot["records"]));
    }
}

#[test]
fn records_that_come_too_late_are_counted_and_harm_no_other_session() {
    let args = ["--late-share", "0.02", "--late-by", "3000000", "--sessions", "600"];
    let input = Input::generate(&args);
    let results = input.run(&["sequence.sessions.allowed_lateness=\"1m\"", "pipeline.shards=2"]);
    let expired = int(&results.summary["stages"]["sessions"]["expired"]);
    assert!(expired > 0);
    let mut count = 0;
    for truth in input.judged(IN_TIME_MS + 60_000) {
        let session = &results.sessions[&place_of(truth)];
        assert_eq!(verdict(session, ""), verdict(truth, ""), "{session}\n{truth}");
        count += 1;
    }
    assert!(count > 300, "{count}");
}

/// Sums by stage, access point or network, step, and minute.
type Sums = BTreeMap<String, BTreeMap<&'static str, i64>>;

/// What the panes of `connects` and `steps` say in the end.
fn told_sums(panes: &[Json]) -> Sums {
    let mut last: BTreeMap<String, Json> = BTreeMap::new();
    for pane in panes {
        let (key, start) = (&pane["key"], &pane["window"]["start"]);
        let part = |name: &str| key.get(name).and_then(Json::as_str).unwrap_or("-");
        let stage = pane["stage"].as_str().unwrap();
        let place = format!("{stage} {} {} {start}", part("ap"), part("step"));
        if pane["pane"]["kind"] == "insert" {
            last.insert(place, pane["values"].clone());
        } else {
            last.remove(&place);
        }
    }
    let mut sums = Sums::new();
    for (place, values) in last.iter().filter(|(place, _)| !place.starts_with("reasons")) {
        let names: &[&'static str] = if place.starts_with("steps") {
            &["prospective", "successful", "failed", "slow", "attempts"]
        } else {
            &["prospective", "connected", "failed", "stuck", "abandoned", "slow", "roams"]
        };
        let of = names.iter().map(|name| (*name, int(&values[*name])));
        sums.insert(place.clone(), of.collect());
    }
    // What has been taken back altogether is as if it had not been.
    sums.retain(|_, values| values.values().any(|value| *value != 0));
    sums
}

/// The same from the truth; the time at which a session counts is that of its record.
fn true_sums(input: &Input, results: &Results) -> Sums {
    let mut sums = Sums::new();
    for truth in &input.truths {
        let minute = int(&results.sessions[&place_of(truth)]["event_time"]).div_euclid(60_000);
        let (minute, ap) = (minute * 60_000, truth["ap"].as_str().unwrap());
        let is = |outcome: &str| i64::from(truth["outcome"] == outcome);
        let is_slow = |ms: Option<&Json>, most: i64| i64::from(ms.is_some_and(|ms| int(ms) > most));
        let mut add = |place: String, values: &[(&'static str, i64)]| {
            let own = sums.entry(place).or_default();
            values.iter().for_each(|(name, value)| *own.entry(*name).or_default() += value);
        };
        add(
            format!("connects {ap} - {minute}"),
            &[
                ("prospective", 1),
                ("connected", is("connected")),
                ("failed", is("failed")),
                ("stuck", is("stuck")),
                ("abandoned", is("abandoned")),
                ("slow", is_slow(truth.get("time_to_connect_ms"), 4_000)),
                ("roams", int(&truth["roams"])),
            ],
        );
        for name in CHAIN {
            let Some(step) = truth.get(name) else { continue };
            let result = step.get("result").and_then(Json::as_str).unwrap_or_default();
            add(
                format!("steps {ap} {name} {minute}"),
                &[
                    ("prospective", i64::from(!result.is_empty())),
                    ("successful", i64::from(result == "success")),
                    ("failed", i64::from(result == "failure")),
                    ("slow", is_slow(step.get("ms"), 300)),
                    ("attempts", int(&step["attempts"])),
                ],
            );
        }
    }
    sums
}

#[test]
fn what_is_rolled_up_is_the_sum_of_the_true_verdicts_corrections_included() {
    let args = ["--lost-share", "0", "--bots", "0", "--late-share", "0.03", "--rate", "1"];
    let input = Input::generate(&args);
    for (counts_at, time) in [("first", "t_first"), ("close", "t_closed")] {
        let output_time = format!("sequence.sessions.output_time=\"{counts_at}\"");
        let results = input.run(&["pipeline.shards=2", &output_time]);
        check_verdicts(&input, &results);
        assert_eq!(told_sums(&results.panes), true_sums(&input, &results), "{counts_at}");
        let told = || results.sessions.values();
        // What is corrected goes on counting where it was told first.
        let (corrected, other): (Vec<_>, Vec<_>) =
            told().partition(|session| session["kind"] == "correction");
        assert!(corrected.len() > 20 && other.len() > 500);
        assert!(other.iter().all(|session| session["event_time"] == session[time]), "{counts_at}");
    }
}

#[test]
fn quantiles_and_reasons_are_those_of_the_true_sessions() {
    let args = ["--lost-share", "0", "--bots", "0", "--late-share", "0.03", "--aps", "1"];
    let input = Input::generate(&args);
    let results = input.run(&["defaults.window={ fixed = \"1d\" }"]);
    let of = |stage: &str, network: &str, step: Option<&str>| {
        let mut panes = results.panes.iter().rev();
        let is_it = |pane: &&Json| {
            let key = &pane["key"];
            pane["stage"] == stage
                && key["network"] == network
                && step.is_none_or(|step| key["step"] == step)
        };
        panes.find(is_it).unwrap_or_else(|| panic!("{stage} {network} {step:?}"))["values"].clone()
    };
    for network in ["net-1", "net-2"] {
        let truths = || input.truths.iter().filter(|truth| truth["network"] == network);
        let near = |values: &Json, name: &str, p: f64, mut known: Vec<i64>| {
            known.sort_unstable();
            let place = (p * (known.len() - 1) as f64).floor() as usize;
            let (told, exact) = (values[name].as_f64().unwrap(), known[place] as f64);
            assert!((told - exact).abs() <= 0.0101 * exact, "{network} {name}: {told} {exact}");
        };
        let ttc = || truths().filter_map(|truth| truth.get("time_to_connect_ms")).map(int);
        let values = of("connects", network, None);
        for (name, p) in [("ttc_p50", 0.5), ("ttc_p95", 0.95), ("ttc_p99", 0.99)] {
            near(&values, name, p, ttc().collect());
        }
        for step in CHAIN {
            let steps = || truths().filter_map(|truth| truth.get(step));
            let values = of("steps", network, Some(step));
            for (name, p) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
                near(
                    &values,
                    name,
                    p,
                    steps().filter_map(|step| step.get("ms")).map(int).collect(),
                );
            }
            let took = steps().filter_map(|step| step.get("ms")).map(|ms| int(ms) as f64);
            let took: Vec<f64> = took.collect();
            let mean_of =
                |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / took.len() as f64;
            let mean = mean_of(&mut took.iter().copied());
            let variance = mean_of(&mut took.iter().map(|ms| (ms - mean).powi(2)));
            for (name, exact) in [("mean", mean), ("deviation", variance.sqrt())] {
                let told = values[name].as_f64().unwrap();
                assert!(
                    (told - exact).abs() <= 1e-9 * exact,
                    "{network} {step} {name}: {told} {exact}"
                );
            }
            let mut reasons: BTreeMap<String, i64> = BTreeMap::new();
            for truth in truths().filter(|truth| truth.get("step").is_some_and(|s| s == step)) {
                let Some(reason) = truth.get("reason") else { continue };
                *reasons.entry(reason.as_str().unwrap().to_owned()).or_default() += 1;
            }
            let values = of("reasons", network, Some(step));
            assert_eq!(int(&values["sessions"]), reasons.values().sum::<i64>());
            let entries = values["reasons"]["entries"].as_array().unwrap();
            let told = entries
                .iter()
                .map(|entry| (entry["value"].as_str().unwrap().to_owned(), int(&entry["count"])));
            assert_eq!(told.collect::<BTreeMap<_, _>>(), reasons);
        }
    }
}
