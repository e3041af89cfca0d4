//! What decides what the state of a pipeline means, in the words of its settings: of its stages, its
//! sources and its sinks.
//!
//! What is not named here may change from one start to the next. The texts are stored, see
//! [`nilometer_model::change`].

use super::manifest::PartPrint;
use crate::config::{
    FileFormat, KafkaSinkFormat, Pipeline, Records, SinkConfig, SinkFormat, SinkKind, SourceConfig,
    SourceKind, ValueFormat, setting_path,
};
use nilometer_connectors::generator::{GeneratorSettings, Start};
use nilometer_connectors::kafka::out::OutFormat;
use nilometer_connectors::panes::csv_columns;
use nilometer_connectors::text::RecordSchema;
use nilometer_model::change::StagePrint;
use nilometer_model::expr::TypedExpr;
use nilometer_model::flow::Biflow;
use nilometer_model::plan::{Grouping, Plan};
use nilometer_model::window::display_span;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

type Settings = BTreeMap<Box<str>, Box<str>>;

/// The prints of the stages, in plan order.
pub(super) fn stages(pipeline: &Pipeline) -> Vec<StagePrint> {
    StagePrint::of_plan(&pipeline.plan, &pipeline.job, |grouping| records(pipeline, grouping))
}

/// What decides what a record, or a result, means to a grouping: which ones count, and how the fields
/// that it reads come to be.
fn records(pipeline: &Pipeline, grouping: &Grouping) -> Settings {
    let mut settings = Settings::new();
    let mut read = fields(grouping);
    if let Some(of) = &grouping.of {
        let path = |rest: &[&str]| setting_path(&[&["group", &grouping.name], rest].concat());
        let expressions = Expressions { derived: &of.derived, filter: of.filter.as_ref() };
        expressions.add(pipeline, &mut read, path, &mut settings);
        // What is read of records is the business of the grouping below.
        return settings;
    }
    let expressions = Expressions { derived: &pipeline.derived, filter: pipeline.filter.as_ref() };
    expressions.add(pipeline, &mut read, |path| setting_path(path), &mut settings);
    match &pipeline.records {
        Records::Declared(schema) => declared(schema, &read, &mut settings),
        Records::Flows(flows) => {
            let biflow = match flows.settings.biflow {
                Biflow::Count => "count",
                Biflow::Split => "split",
            };
            settings.insert("flows.biflow".into(), biflow.into());
            let correction = flows.settings.clock_correction.map_or("off".into(), display_span);
            settings.insert("flows.clock_correction".into(), correction.into());
        }
    }
    settings
}

/// Names of the fields that a grouping reads.
fn fields(grouping: &Grouping) -> BTreeSet<Box<str>> {
    let columns = grouping.key.iter().flat_map(|column| &column.each);
    let values = grouping.aggregates.iter().flat_map(|aggregate| &aggregate.fields);
    let sequence = grouping.sequence.iter().flat_map(|sequence| sequence.fields());
    let named = columns.chain(values).chain(&grouping.gap_field).cloned();
    named.chain(sequence.map(Into::into)).collect()
}

/// Expressions over what a grouping reads.
struct Expressions<'a> {
    derived: &'a [(Box<str>, TypedExpr)],
    filter: Option<&'a TypedExpr>,
}

impl Expressions<'_> {
    /// Adds the texts of those that have a part in `read`, which grows by what they read.
    fn add(
        &self,
        pipeline: &Pipeline,
        read: &mut BTreeSet<Box<str>>,
        path: impl Fn(&[&str]) -> String,
        settings: &mut Settings,
    ) {
        let mut add = |rest: &[&str]| {
            let path = path(rest);
            let setting = pipeline.settings.iter().find(|setting| setting.path == path);
            let text = setting.map(|setting| match &setting.value {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            settings.insert(rest.join(".").into(), text.unwrap_or_default().into());
        };
        if let Some(filter) = self.filter {
            add(&["filter"]);
            read.extend(filter.fields().into_iter().map(Into::into));
        }
        // One uses only those above it.
        for (name, expression) in self.derived.iter().rev() {
            if read.contains(name) {
                add(&["derive", name]);
                read.extend(expression.fields().into_iter().map(Into::into));
            }
        }
    }
}

/// Where the event time and the fields of records are found.
fn declared(schema: &RecordSchema, read: &BTreeSet<Box<str>>, settings: &mut Settings) {
    let time = format!("{}, in {}", schema.time, schema.time_unit.name());
    settings.insert("record.time".into(), time.into());
    for field in schema.fields.iter().filter(|field| read.contains(&field.name)) {
        let from =
            if field.from == field.name { String::new() } else { format!(" from {}", field.from) };
        let text = format!("{}{from}", field.ty);
        settings.insert(format!("record.fields.{}", field.name).into(), text.into());
    }
}

/// What the position of a source is of.
pub(super) fn source(source: &SourceConfig) -> PartPrint {
    let mut settings = Settings::new();
    let mut set = |name: &str, value: String| {
        settings.insert(name.into(), value.into());
    };
    match &source.kind {
        SourceKind::Files { paths, format, line_bytes_max: _ } => {
            set("kind", "files".into());
            set("paths", listed(paths));
            set("format", file_format(*format));
        }
        // Where it listens has no part in what exporters have told.
        SourceKind::Udp { listen: _, receive_buffer: _ } => set("kind", "udp".into()),
        // How the cluster is reached says nothing of what is read.
        SourceKind::Kafka(kafka) => {
            set("kind", "kafka".into());
            set("topics", kafka.topics.join(", "));
            set("group", kafka.group.to_string());
            set("format", value_format(kafka.format));
        }
        SourceKind::Generator(generator) => {
            set("kind", "generator".into());
            for (name, value) in invented(generator) {
                set(name, value);
            }
        }
    }
    PartPrint { name: source.name.as_str().into(), settings }
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(", ")
}

fn value_format(format: ValueFormat) -> String {
    match format {
        ValueFormat::FlowProtobuf => "protocol buffers of flows".into(),
        ValueFormat::Json(_) => "json".into(),
        ValueFormat::Flows(layout) => format!("json of {}", layout.name()),
        ValueFormat::Netflow { exporter: None } => "datagrams".into(),
        ValueFormat::Netflow { exporter: Some(exporter) } => format!("datagrams of {exporter}"),
    }
}

fn file_format(format: FileFormat) -> String {
    match format {
        FileFormat::Capture => "capture".into(),
        FileFormat::Datagram { exporter } => format!("datagram of {exporter}"),
        FileFormat::Flows(layout) => format!("ndjson of {}", layout.name()),
        FileFormat::Ndjson => "ndjson".into(),
        FileFormat::Csv { delimiter } => format!("csv with {:?}", char::from(delimiter)),
    }
}

/// Everything that decides which records a generator gives.
fn invented(settings: &GeneratorSettings) -> [(&'static str, String); 17] {
    let text = |number: &dyn ToString| number.to_string();
    let start = match settings.start {
        Start::At(time) => time.to_string(),
        Start::Now => "now".into(),
    };
    let sampling = settings.sampling.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let records = settings.records.map_or("endless".into(), |records| records.to_string());
    [
        ("seed", text(&settings.seed)),
        ("records", records),
        ("rate", text(&settings.rate)),
        ("start", start),
        ("exporters", text(&settings.exporters)),
        ("interfaces", text(&settings.interfaces)),
        ("hosts", text(&settings.hosts)),
        ("applications", text(&settings.applications)),
        ("dscps", text(&settings.dscps)),
        ("conversations", text(&settings.conversations)),
        ("skew", text(&settings.skew)),
        ("disorder", display_span(settings.disorder)),
        ("late", format!("{} by {}", settings.late_share, display_span(settings.late_by))),
        ("duration", display_span(settings.duration)),
        ("long", format!("{} of {}", settings.long_share, display_span(settings.long_duration))),
        ("sampling", sampling),
        ("ipv6_share", text(&settings.ipv6_share)),
    ]
}

/// What the output of a sink is.
pub(super) fn sink(sink: &SinkConfig, plan: &Plan) -> PartPrint {
    let mut settings = Settings::new();
    let mut set = |name: &str, value: String| {
        settings.insert(name.into(), value.into());
    };
    let format = match &sink.kind {
        SinkKind::File { path, format } => {
            set("kind", "file".into());
            set(PATH, path.to_string_lossy().into());
            Some(*format)
        }
        SinkKind::Stdout { format } => {
            set("kind", "stdout".into());
            Some(*format)
        }
        SinkKind::Table => {
            set("kind", "table".into());
            None
        }
        SinkKind::Kafka(kafka) => {
            set("kind", "kafka".into());
            set("topic", kafka.topic.topic.to_string());
            set("instance", kafka.instance.to_string());
            set("format", topic_format(kafka.format).into());
            let is_once = kafka.transaction_timeout_ms.is_some();
            set("delivery", if is_once { "exactly_once" } else { "at_least_once" }.into());
            None
        }
    };
    let format = format.map(|format| match format {
        SinkFormat::Pane => "pane".into(),
        SinkFormat::FlowSummary => "flow-summary".into(),
        SinkFormat::Late => "late".into(),
        // One header stands above all rows.
        SinkFormat::Csv => format!("csv with {}", csv_columns(plan, &sink.name).join(", ")),
    });
    if let Some(format) = format {
        set("format", format);
    }
    PartPrint { name: sink.name.as_str().into(), settings }
}

fn topic_format(format: KafkaSinkFormat) -> &'static str {
    match format {
        KafkaSinkFormat::Panes(OutFormat::Pane) => "pane",
        KafkaSinkFormat::Panes(OutFormat::FlowSummary) => "flow-summary",
        KafkaSinkFormat::Panes(OutFormat::Protobuf) => "protobuf",
        KafkaSinkFormat::Late => "late",
    }
}

/// The setting of a sink that says which file it writes.
pub(super) const PATH: &str = "path";
