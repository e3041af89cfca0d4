//! What is in force: precedence, inheritance, defaults; and what of it reaches the pipeline.

use crate::config::{FileFormat, Origin, Pipeline, Records, SinkKind, SourceKind, load_text};
use nilometer_model::pane::AccumulationMode;
use nilometer_model::time::Span;
use nilometer_model::watermark::{FutureSkew, WatermarkSpec};
use nilometer_model::window::WindowFn;

const TEXT: &str = r#"
filter = "v > 0"
[pipeline]
name = "${NAME:-p}"
[[source]]
name = "in"
kind = "files"
format = "csv"
delimiter = ";"
paths = ["${DIR}/a.csv", "b.csv.gz"]
[record]
time = "at"
fields = { k = "text", v = "i64", at = { type = "i64", from = "when" } }
[derive]
twice = "v * 2"
unread = "v * 3"
[defaults]
window = { fixed = "1m" }
mode = "retracting"
aggregates = { n = "count()" }
top_k = { k = 5 }
[[group]]
name = "all"
key = ["k", "twice"]
[[group]]
name = "best"
key = ["k"]
mode = "discarding"
aggregates = { sum = "sum(v)" }
top_k = { entity = ["k"], rank = ["sum"] }
"#;

fn load(sets: &[&str]) -> Pipeline {
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    let lookup = |name: &str| (name == "DIR").then(|| "/data".to_owned());
    load_text(("p.toml", TEXT), &sets, &lookup).unwrap()
}

#[test]
fn secrets_of_clients_are_blotted_out_however_their_names_are_typed() {
    let text = r#"
[pipeline]
name = "p"
[[source]]
name = "in"
kind = "kafka"
brokers = "127.0.0.1:9092"
topics = ["t"]
group = "g"
format = "json"
[source.options]
ssl.key.pem = "hunter2"
"ssl.key.password" = "hunter2"
sasl = { password.file = "of/password", oauthbearer.config = "hunter2" }
[record]
time = "at"
fields = { k = "text" }
[[group]]
name = "all"
key = ["k"]
aggregates = { n = "count()" }
window = { fixed = "1m" }
[watermark]
out_of_orderness = "1s"
"#;
    let pipeline = load_text(("p.toml", text), &[], &|_| None).unwrap();
    let options: Vec<_> = pipeline
        .settings
        .iter()
        .filter_map(|setting| {
            let name = setting.path.strip_prefix("source.in.options.")?;
            Some((name, setting.value.as_str().unwrap()))
        })
        .collect();
    assert_eq!(
        options,
        [
            ("ssl.key.pem", "***"),
            ("\"ssl.key.password\"", "***"),
            ("sasl.password.file", "of/password"),
            ("sasl.oauthbearer.config", "***"),
        ]
    );
}

#[test]
fn a_set_goes_before_a_variable_before_the_file_before_a_default() {
    let sets = ["group.best.top_k.k=7", "pipeline.shards=2", "group.all.window.fixed=2m"];
    let pipeline = load(&sets);
    for (path, value, origin) in [
        ("pipeline.name", "\"p\"", Origin::File),
        ("pipeline.key_groups", "256", Origin::Default),
        ("pipeline.shards", "2", Origin::Flag),
        ("source.in.paths", "[\"/data/a.csv\",\"b.csv.gz\"]", Origin::Env),
        ("source.in.line_max", "\"1MiB\"", Origin::Default),
        ("record.fields.at.from", "\"when\"", Origin::File),
        ("watermark.kind", "\"end_of_input\"", Origin::Default),
        ("watermark.idle_after", "\"off\"", Origin::Default),
        ("group.all.window.fixed", "\"2m\"", Origin::Flag),
        ("group.best.window.fixed", "\"1m\"", Origin::File),
        ("group.best.window.phase", "\"aligned\"", Origin::Default),
        ("group.all.mode", "\"retracting\"", Origin::File),
        ("group.best.mode", "\"discarding\"", Origin::File),
        ("group.best.top_k.k", "7", Origin::Flag),
        ("group.best.top_k.other", "false", Origin::Default),
        ("group.best.sinks", "[\"stdout\"]", Origin::Default),
        ("sink.stdout.kind", "\"stdout\"", Origin::Default),
    ] {
        let found: Vec<_> =
            pipeline.settings.iter().filter(|setting| setting.path == path).collect();
        let [setting] = found.as_slice() else { panic!("{path}: {found:?}") };
        assert_eq!((setting.value.to_string().as_str(), setting.origin), (value, origin), "{path}");
    }
    let has = |prefix: &str| pipeline.settings.iter().any(|s| s.path.starts_with(prefix));
    assert!(!has("defaults.") && !has("flows.") && !has("group.all.top_k"));
}

/// A variable is written as a text, whatever is meant; what stands in for it is read alike.
#[test]
fn a_variable_gives_numbers_and_truth_values() {
    let text = TEXT.replace(
        "[pipeline]",
        "[pipeline]\nshards = \"${SHARDS:-2}\"\ncascade = \"${CASCADE:-false}\"",
    );
    for (shards, cascade) in [(Some("3"), Some("true")), (None, None)] {
        let lookup = |name: &str| match name {
            "DIR" => Some("/data".to_owned()),
            "SHARDS" => shards.map(str::to_owned),
            "CASCADE" => cascade.map(str::to_owned),
            _ => None,
        };
        let pipeline = load_text(("p.toml", &text), &[], &lookup).unwrap();
        assert_eq!(pipeline.shards, Some(if shards.is_some() { 3 } else { 2 }));
        let sets = ["pipeline.key_groups=\"${GROUPS:-8}\"".to_owned()];
        let pipeline = load_text(("p.toml", &text), &sets, &lookup).unwrap();
        assert_eq!(pipeline.plan.key_groups, 8);
    }
    // Without a variable a text is a text.
    for wrong in ["shards = \"2\"", "cascade = \"true\"", "shards = \"$${A}2\""] {
        let text = TEXT.replace("[pipeline]", &format!("[pipeline]\n{wrong}"));
        let lookup = |name: &str| (name == "DIR").then(|| "/data".to_owned());
        assert!(load_text(("p.toml", &text), &[], &lookup).is_err(), "{wrong}");
    }
}

#[test]
fn a_pipeline_is_what_was_typed() {
    let pipeline = load(&[]);
    let [source] = pipeline.sources.as_slice() else { panic!("{:?}", pipeline.sources) };
    let SourceKind::Files { paths, format, line_bytes_max } = &source.kind else {
        panic!("{source:?}")
    };
    assert_eq!((source.name.as_str(), paths.len(), *line_bytes_max), ("in", 2, 1 << 20));
    assert_eq!(*format, FileFormat::Csv { delimiter: b';' });
    let Records::Declared(schema) = &pipeline.records else { panic!("{:?}", pipeline.records) };
    assert_eq!(&*schema.time, "when");
    assert_eq!(pipeline.watermark.settings.spec, WatermarkSpec::EndOfInput);
    assert_eq!(pipeline.watermark.settings.future_skew, FutureSkew::Off);
    assert_eq!(pipeline.sinks.first().map(|sink| sink.name.as_str()), Some("stdout"));
    assert!(matches!(pipeline.sinks.first().unwrap().kind, SinkKind::Stdout { .. }));
    let [all, best] = pipeline.job.groupings.as_slice() else { panic!("{:?}", pipeline.job) };
    assert_eq!(all.mode, AccumulationMode::Retracting);
    let WindowFn::Fixed { size, .. } = all.window else { panic!("{:?}", all.window) };
    assert_eq!(size, Span::from_millis(60_000));
    let names: Vec<_> = best.aggregates.iter().map(|aggregate| &*aggregate.name).collect();
    assert_eq!(names, ["n", "sum"]);
    assert_eq!(best.top_k.as_ref().map(|top_k| top_k.k), Some(5));
    // Rows carry what groupings and the filter read, directly or through derived fields.
    let row: Vec<_> = pipeline.plan.row.fields().iter().map(|field| &*field.name).collect();
    assert!(row.contains(&"v") && row.contains(&"twice") && !row.contains(&"unread"), "{row:?}");
}

#[test]
fn flows_are_split_over_windows_by_their_amounts() {
    let text = r#"
[pipeline]
name = "p"
[[source]]
kind = "udp"
listen = "127.0.0.1:2055"
[watermark]
out_of_orderness = "2m"
[flows]
max_flow_duration = "15m"
[[group]]
name = "g"
key = ["exporter", "host", "conversation"]
window = { fixed = "60s" }
aggregates = { b = "sum(bytes)", n = "count()", p = "max(packets)", h = "min(host_name)" }
"#;
    let pipeline = load_text(("p.toml", text), &[], &|_| None).unwrap();
    let spread = pipeline.job.spread.unwrap();
    assert_eq!((&*spread.first, &*spread.last), ("first_switched", "last_switched"));
    assert_eq!(spread.max_duration, Some(Span::from_millis(900_000)));
    let group = pipeline.job.groupings.first().unwrap();
    let spread: Vec<_> = group.aggregates.iter().map(|aggregate| aggregate.spread).collect();
    assert_eq!(spread, [true, false, false, false]);
    let key: Vec<_> = group.key.iter().map(|column| &*column.name).collect();
    assert_eq!(
        key,
        [
            "exporter",
            "host",
            "location",
            "protocol",
            "address_lower",
            "address_upper",
            "application"
        ]
    );
    assert_eq!(group.key.get(1).unwrap().each.len(), 2);
    assert_eq!(pipeline.watermark.settings.idle_after, Some(Span::from_millis(30_000)));
    let skew = FutureSkew::Clock(Span::from_millis(300_000));
    assert_eq!(pipeline.watermark.settings.future_skew, skew);
}
