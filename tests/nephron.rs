//! The worked example of the flow summaries: five flows through `config/nephron.toml`, against the
//! documents computed by hand for the three largest entries of each list.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]

use nilometer::config::{self, Pipeline, Records};
use nilometer_connectors::flow_intake::FlowContext;
use nilometer_connectors::panes::{Delivery, PaneFormat, PaneTarget, PaneWriter};
use nilometer_connectors::sink::Sink;
use nilometer_connectors::source::{Polled, Source, State};
use nilometer_connectors::text::{FlowLayout, TextFiles, TextFormat, TextSettings};
use nilometer_model::row::RowBatch;
use nilometer_model::shard::{Output, Shard};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::{EventTime, Watermark};
use serde_json::Value;

use std::path::{Path, PathBuf};
use std::sync::Arc;

const W0: i64 = 1_699_999_963_410;
const W1: i64 = W0 + 60_000;

/// The documents of the first window: name without its common beginning, `dscp`, entity, bytes in
/// and out, flags, name of the host.
const FIRST_WINDOW: &str = r#"
- - - 2000/4300 CE,NE
TOS 0 - 1500/4300 NE
TOS 46 - 500/0 CE
TOS_APPLICATION 0 http 1000/4000 NE
TOS_APPLICATION 0 __unknown 500/0 NE
TOS_APPLICATION 0 dns 0/300 -
TOS_APPLICATION 46 http 500/0 CE
APPLICATION - http 1500/4000 CE,NE
APPLICATION - __unknown 500/0 NE
APPLICATION - dns 0/300 -
TOS_CONVERSATION 0 ["Default",6,"10.0.0.10","10.0.0.9","http"] 1000/4000 NE
TOS_CONVERSATION 0 ["Default",6,"10.0.0.7","10.0.0.7","__unknown"] 500/0 NE
TOS_CONVERSATION 46 ["Default",6,"10.0.0.10","10.0.0.9","http"] 500/0 CE
CONVERSATION - ["Default",6,"10.0.0.10","10.0.0.9","http"] 1500/4000 CE,NE
CONVERSATION - ["Default",6,"10.0.0.7","10.0.0.7","__unknown"] 500/0 NE
TOS_HOST 0 10.0.0.10=beta 1000/4000 NE
TOS_HOST 0 10.0.0.9=alpha 1000/4000 NE
TOS_HOST 0 10.0.0.7 1000/0 NE
TOS_HOST 46 10.0.0.10 500/0 CE
TOS_HOST 46 10.0.0.9 500/0 CE
HOST - 10.0.0.10=beta 1500/4000 CE,NE
HOST - 10.0.0.9=alpha 1500/4000 CE,NE
HOST - 10.0.0.7 1000/0 NE
"#;

/// The second window holds the rest of the third flow.
const SECOND_WINDOW: &str = r#"
- - - 500/0 CE
TOS 46 - 500/0 CE
TOS_APPLICATION 46 http 500/0 CE
APPLICATION - http 500/0 CE
TOS_CONVERSATION 46 ["Default",6,"10.0.0.10","10.0.0.9","http"] 500/0 CE
CONVERSATION - ["Default",6,"10.0.0.10","10.0.0.9","http"] 500/0 CE
TOS_HOST 46 10.0.0.10 500/0 CE
TOS_HOST 46 10.0.0.9 500/0 CE
HOST - 10.0.0.10 500/0 CE
HOST - 10.0.0.9 500/0 CE
"#;

/// What the first flow brings when it comes late: its share of ten of the keys above.
const FIRST_FLOW: &str = r#"
- - - 1000/0 NE
TOS 0 - 1000/0 NE
TOS_APPLICATION 0 http 1000/0 NE
APPLICATION - http 1000/0 NE
TOS_CONVERSATION 0 ["Default",6,"10.0.0.10","10.0.0.9","http"] 1000/0 NE
CONVERSATION - ["Default",6,"10.0.0.10","10.0.0.9","http"] 1000/0 NE
TOS_HOST 0 10.0.0.10=beta 1000/0 NE
TOS_HOST 0 10.0.0.9=alpha 1000/0 NE
HOST - 10.0.0.10=beta 1000/0 NE
HOST - 10.0.0.9=alpha 1000/0 NE
"#;

fn lines(table: &str) -> Vec<&str> {
    let mut lines: Vec<_> = table.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines
}

/// The lines of `table` whose keys are among those of `keys`.
fn of_keys<'a>(table: &'a str, keys: &str) -> Vec<&'a str> {
    let key = |line: &str| {
        let words: Vec<_> = line
            .split(' ')
            .take(3)
            .map(|word| word.split('=').next().unwrap().to_owned())
            .collect();
        words
    };
    let keys: Vec<_> = lines(keys).into_iter().map(key).collect();
    lines(table).into_iter().filter(|line| keys.contains(&key(line))).collect()
}

/// A document in the form of the tables above; everything that all documents share is checked.
fn line_of(document: &Value, (mode, kind): (&str, &str), window: i64) -> Option<String> {
    let text = |name: &str| document[name].as_str().map(str::to_owned);
    if document["range_start"] != window || document["pane"]["kind"] != kind {
        return None;
    }
    let end = window + 60_000;
    assert_eq!((&document["range_end"], &document["@timestamp"]), (&end.into(), &end.into()));
    assert_eq!(
        document["exporter"].to_string(),
        r#"{"foreign_id":"R1","foreign_source":"FS","node_id":1}"#
    );
    assert_eq!((&document["if_index"], &document["pane"]["mode"]), (&5.into(), &mode.into()));
    let grouping = text("grouped_by")?;
    let name = grouping.strip_prefix("EXPORTER_INTERFACE").unwrap().trim_start_matches('_');
    let is_total = matches!(name, "" | "TOS");
    assert_eq!(document["aggregation_type"], if is_total { "TOTAL" } else { "TOPK" });
    let (ingress, egress) = (&document["bytes_ingress"], &document["bytes_egress"]);
    let total = ingress.as_i64()? + egress.as_i64()?;
    assert_eq!(document["bytes_total"], total);
    let entity = text("application").or(text("conversation_key"));
    let host = text("host_address").map(|host| match text("host_name") {
        Some(name) => format!("{host}={name}"),
        None => host,
    });
    let flags =
        match (document["congestion_encountered"].as_bool()?, document["non_ect"].as_bool()?) {
            (true, true) => "CE,NE",
            (true, false) => "CE",
            (false, true) => "NE",
            (false, false) => "-",
        };
    let name = if name.is_empty() { "-" } else { name };
    let dscp = document["dscp"].as_u64().map_or("-".to_owned(), |dscp| dscp.to_string());
    let entity = entity.or(host).unwrap_or("-".to_owned());
    Some(format!("{name} {dscp} {entity} {ingress}/{egress} {flags}"))
}

/// The pipeline and its five flows.
struct Example {
    pipeline: Pipeline,
    symbols: Arc<Symbols>,
    flows: RowBatch,
}

impl Example {
    fn new(mode: &str) -> Self {
        let sets = ["defaults.top_k.k=3".to_owned(), format!("defaults.mode=\"{mode}\"")];
        let pipeline = match config::load(Path::new("config/nephron.toml"), &sets) {
            Ok(pipeline) => pipeline,
            Err(errors) => panic!("{errors}"),
        };
        let Records::Flows(flows) = &pipeline.records else { panic!("{:?}", pipeline.records) };
        let context = FlowContext { settings: flows.settings, ..FlowContext::default() };
        let settings = TextSettings {
            paths: vec![PathBuf::from("tests/data/nephron-b8.ndjson")],
            format: TextFormat::Flows(FlowLayout::Opennms, context),
            line_bytes_max: TextSettings::LINE_BYTES_MAX,
            partition: 0,
        };
        let symbols = Arc::new(Symbols::default());
        let layout = &pipeline.plan.row;
        let mut source = TextFiles::open(settings, layout, symbols.clone()).unwrap();
        let mut polled = Polled::new(layout.clone(), false);
        while source.poll(100, &mut polled).unwrap() != State::End {}
        assert_eq!((polled.account.read, polled.batch.len()), (5, 5));
        Self { pipeline, symbols, flows: polled.batch }
    }

    fn part(&self, rows: std::ops::Range<usize>) -> RowBatch {
        let mut part = RowBatch::new(self.flows.layout().clone());
        for row in rows {
            part.push_row(self.flows.row(row), self.flows.time(row), self.flows.position(row));
        }
        part
    }

    /// The documents of what `play` does to a shard.
    fn documents(&self, play: impl FnOnce(&mut Shard, &mut Output)) -> Vec<Value> {
        let plan = &self.pipeline.plan;
        let mut shard = Shard::new(plan.clone(), self.symbols.clone(), 0, 1);
        let mut output = Output::default();
        play(&mut shard, &mut output);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("summaries.ndjson");
        let target = (&PaneTarget::File(path.clone()), PaneFormat::FlowSummary);
        let mut sink = PaneWriter::open(
            "summaries",
            target,
            Delivery::AtOnce,
            plan.clone(),
            self.symbols.clone(),
        )
        .unwrap();
        for batch in &output.panes {
            if plan.stages[batch.stage.index()].is_observed() {
                sink.write(batch).unwrap();
            }
        }
        sink.close().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn at(millis: i64) -> Watermark {
    Watermark(EventTime::from_millis(millis))
}

fn of_window(documents: &[Value], filter: (&str, &str), window: i64) -> Vec<String> {
    let mut lines: Vec<_> =
        documents.iter().filter_map(|document| line_of(document, filter, window)).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn five_flows_give_the_documents_of_the_worked_example() {
    for mode in ["discarding", "accumulating", "retracting"] {
        let example = Example::new(mode);
        let documents = example.documents(|shard, output| {
            shard.records(&example.part(0..5), output).unwrap();
            shard.watermark(at(W1), output).unwrap();
            shard.watermark(Watermark::MAX, output).unwrap();
        });
        assert_eq!(of_window(&documents, (mode, "insert"), W0), lines(FIRST_WINDOW), "{mode}");
        assert_eq!(of_window(&documents, (mode, "insert"), W1), lines(SECOND_WINDOW), "{mode}");
        assert_eq!(documents.len(), 23 + 10, "{mode}");
    }
}

#[test]
fn the_first_flow_may_come_late() {
    let before = r#"
- - - 1000/4300 CE,NE
TOS 0 - 500/4300 NE
TOS_APPLICATION 0 http 0/4000 -
APPLICATION - http 500/4000 CE
TOS_CONVERSATION 0 ["Default",6,"10.0.0.10","10.0.0.9","http"] 0/4000 -
CONVERSATION - ["Default",6,"10.0.0.10","10.0.0.9","http"] 500/4000 CE
TOS_HOST 0 10.0.0.10=beta 0/4000 -
TOS_HOST 0 10.0.0.9=alpha 0/4000 -
HOST - 10.0.0.10=beta 500/4000 CE
HOST - 10.0.0.9=alpha 500/4000 CE
"#;
    for (mode, inserts, retracts) in [
        ("discarding", lines(FIRST_FLOW), vec![]),
        ("accumulating", of_keys(FIRST_WINDOW, FIRST_FLOW), vec![]),
        ("retracting", of_keys(FIRST_WINDOW, FIRST_FLOW), lines(before)),
    ] {
        assert_eq!(inserts.len(), 10);
        let example = Example::new(mode);
        let documents = example.documents(|shard, output| {
            shard.records(&example.part(1..5), output).unwrap();
            shard.watermark(at(W1), output).unwrap();
            output.clear();
            shard.records(&example.part(0..1), output).unwrap();
        });
        assert_eq!(of_window(&documents, (mode, "insert"), W0), inserts, "{mode}");
        assert_eq!(of_window(&documents, (mode, "retract"), W0), retracts, "{mode}");
        assert_eq!(documents.len(), inserts.len() + retracts.len(), "{mode}");
        // A retract stands directly before its insert.
        for pair in documents.windows(2).filter(|pair| pair[0]["pane"]["kind"] == "retract") {
            for name in ["grouped_by", "dscp", "application", "host_address", "conversation_key"] {
                assert_eq!(pair[0][name], pair[1][name], "{mode}");
            }
            assert_eq!(pair[1]["pane"]["kind"], "insert");
        }
    }
}
