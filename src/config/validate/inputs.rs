//! Sources and what their records are.

use super::names::{check_unique, check_word};
use super::{generator, kafka};
use crate::config::node::Origin;
use crate::config::pipeline::{FileFormat, FlowConfig, Records, SourceKind};
use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::scalar::Choice;
use crate::config::raw::source::{RawFiles, RawFormat, RawPartitions, RawSource, RawUdp};
use crate::config::raw::text_or_table::RawField;
use crate::config::raw::watermark::RawSourceWatermark;
use crate::config::raw::{RawBiflow, RawConfig, RawFlows, RawRecord, RawTimeUnit, RawType};
use nilometer_connectors::flow_tables::{FlowTableError, read_applications, read_exporters};
use nilometer_connectors::text::{RecordField, RecordSchema, TimeUnit};
use nilometer_model::flow::{Biflow, FLOW_FIELDS, FlowSettings};
use nilometer_model::row::Field;
use nilometer_model::value::Type;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// A source, before it is decided how its watermark is estimated.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    /// Its name.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: SourceKind,
    /// Whether each of its files is a partition of its own.
    pub(crate) per_file: bool,
    /// What it says of its watermark.
    pub(crate) watermark: &'a Given<RawSourceWatermark>,
}

impl Input<'_> {
    /// How many partitions it has.
    pub(crate) fn partitions(&self) -> usize {
        match &self.kind {
            SourceKind::Files { paths, .. } if self.per_file => paths.len(),
            SourceKind::Files { .. }
            | SourceKind::Udp { .. }
            | SourceKind::Kafka(_)
            | SourceKind::Generator(_) => 1,
        }
    }
}

/// The sources; one that is wrong is reported and left out.
pub(crate) fn inputs<'a>(raw: &'a RawConfig, problems: &mut Problems) -> Vec<Input<'a>> {
    let raw = raw.source.value().map_or(&[][..], |sources| &sources.tables);
    let mut sources = Vec::new();
    for (index, source) in raw.iter().enumerate() {
        let (kind, name, default_name, watermark) = match source {
            RawSource::Files(files) => {
                (files_source(files, problems), &files.name, "files", &files.watermark)
            }
            RawSource::Udp(udp) => (udp_source(udp, problems), &udp.name, "udp", &udp.watermark),
            RawSource::Kafka(raw) => {
                (kafka::source(raw, problems), &raw.name, "kafka", &raw.watermark)
            }
            RawSource::Generator(generator) => {
                let kind = generator::source(generator);
                (kind, &generator.name, "generator", &generator.watermark)
            }
        };
        let per_file = match source {
            RawSource::Files(files) => files.partitions.value() == Some(&RawPartitions::PerFile),
            RawSource::Udp(_) | RawSource::Kafka(_) | RawSource::Generator(_) => false,
        };
        if let Given::Value(name) = name {
            check_word(&name.value, "source", name.place, problems);
        }
        let name = name.value().cloned().unwrap_or_else(|| format!("{default_name}-{index}"));
        sources.extend(kind.map(|kind| Input { name, kind, per_file, watermark }));
    }
    let named = raw.iter().filter_map(|source| match source {
        RawSource::Files(files) => files.name.get(),
        RawSource::Udp(udp) => udp.name.get(),
        RawSource::Kafka(kafka) => kafka.name.get(),
        RawSource::Generator(generator) => generator.name.get(),
    });
    check_unique("source", named.map(|name| (name.value.as_str(), name.place)), problems);
    sources
}

fn files_source(files: &RawFiles, problems: &mut Problems) -> Option<SourceKind> {
    if let Given::Value(paths) = &files.paths
        && paths.value.is_empty()
    {
        problems.add_with_help(
            paths.place,
            "no file is named",
            "name at least one, or give them with --set 'source.0.paths=[\"a.pcap\"]'",
        );
    }
    let format = files.format.get()?;
    refuse_preset(files, format, problems);
    let delimiter = delimiter(files, format, problems);
    let exporter = exporter(files, format, problems);
    let format = match format.value {
        RawFormat::Capture => FileFormat::Capture,
        RawFormat::Csv => FileFormat::Csv { delimiter: delimiter? },
        RawFormat::Datagram => FileFormat::Datagram { exporter: exporter? },
        RawFormat::Ndjson => match &files.preset {
            Given::Value(preset) => FileFormat::Flows(preset.value.layout()),
            Given::Absent => FileFormat::Ndjson,
            Given::Wrong => return None,
        },
    };
    let paths = files.paths.value()?.iter().map(|path| PathBuf::from(&path.value));
    let line_bytes_max = files.line_max.value()?.0;
    Some(SourceKind::Files { paths: paths.collect(), format, line_bytes_max })
}

/// What parts the cells of rows; a comma unless given.
fn delimiter(files: &RawFiles, format: &Spanned<RawFormat>, problems: &mut Problems) -> Option<u8> {
    let delimiter = match &files.delimiter {
        Given::Absent => return Some(b','),
        Given::Wrong => return None,
        Given::Value(delimiter) => delimiter,
    };
    if format.value != RawFormat::Csv {
        let message = format!("a delimiter means nothing to format `{}`", format.value.name());
        problems.add_with_help(delimiter.place, message, "leave `delimiter` out");
        return None;
    }
    match delimiter.value.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
        _ => {
            let message = format!("{:?} cannot part cells", delimiter.value);
            let help = "give one ASCII character: \",\", \";\", \"\\t\"";
            problems.add_with_help(delimiter.place, message, help);
            None
        }
    }
}

fn refuse_preset(files: &RawFiles, format: &Spanned<RawFormat>, problems: &mut Problems) {
    if let Given::Value(preset) = &files.preset
        && format.value != RawFormat::Ndjson
    {
        let message = format!("a preset means nothing to format `{}`", format.value.name());
        problems.add_with_help(preset.place, message, "presets are layouts of `ndjson` lines");
    }
}

/// The exporter of datagram files; reports one that is missing, wrong or of no use.
fn exporter(
    files: &RawFiles,
    format: &Spanned<RawFormat>,
    problems: &mut Problems,
) -> Option<IpAddr> {
    const HELP: &str = "an IP address: exporter = \"192.0.2.1\"";
    match (&files.exporter, format.value == RawFormat::Datagram) {
        (Given::Value(exporter), true) => {
            let address = exporter.value.parse().ok();
            if address.is_none() {
                let message = format!("`{}` is not an IP address", exporter.value);
                problems.add_with_help(exporter.place, message, HELP);
            }
            address
        }
        (Given::Value(exporter), false) => {
            let message = format!("format `{}` names its exporters itself", format.value.name());
            problems.add_with_help(exporter.place, message, "leave `exporter` out");
            None
        }
        (Given::Absent, true) => {
            let message = "a datagram file does not say who sent it";
            problems.add_with_help(format.place, message, HELP);
            None
        }
        (Given::Absent, false) | (Given::Wrong, _) => None,
    }
}

fn udp_source(udp: &RawUdp, problems: &mut Problems) -> Option<SourceKind> {
    let listen = udp.listen.get()?;
    let address = listen.value.parse::<SocketAddr>();
    if address.is_err() {
        problems.add_with_help(
            listen.place,
            format!("`{}` is not an address to listen on", listen.value),
            "an IP address and a port: \"127.0.0.1:2055\", \"[::1]:4739\"",
        );
    }
    let receive_buffer = udp.receive_buffer.value()?.0;
    Some(SourceKind::Udp { listen: address.ok()?, receive_buffer })
}

/// What the records are: flows where a source gives flows, else what `[record]` declares.
pub(crate) fn records(
    raw: &RawConfig,
    sources: &[Input<'_>],
    problems: &mut Problems,
) -> Option<Records> {
    let is_flow = |source: &Input<'_>| source.kind.is_flow();
    let flow = sources.iter().find(|source| is_flow(source));
    let other = sources.iter().find(|source| !is_flow(source));
    let flows = raw.flows.get();
    if let Some(flows) = flows.filter(|flows| flows.origin != Origin::Default && flow.is_none()) {
        problems.add_with_help(
            flows.place,
            "`flows` means nothing here: no source gives flows",
            "leave it out, or add a source of flows",
        );
    }
    match (flow, other, &raw.record) {
        (_, _, Given::Wrong) => None,
        (Some(flow), Some(other), _) => {
            problems.add_with_help(
                record_place(raw),
                format!(
                    "source `{}` gives flows and source `{}` does not: one pipeline has one kind \
                     of record",
                    flow.name, other.name
                ),
                "make two pipelines, or give the other source a preset",
            );
            None
        }
        (Some(flow), None, Given::Value(record)) => {
            problems.add_with_help(
                record.place,
                format!("source `{}` gives flows, whose fields are known", flow.name),
                "leave `record` out",
            );
            None
        }
        (Some(_), None, Given::Absent) => {
            Some(Records::Flows(flow_config(&flows?.value, problems)))
        }
        (None, _, Given::Value(record)) => declared(&record.value, problems).map(Records::Declared),
        (None, _, Given::Absent) => {
            // Sources that could not be read may well give flows.
            let is_whole = raw
                .source
                .value()
                .is_some_and(|raw| raw.is_whole && raw.tables.len() == sources.len());
            if is_whole {
                problems.add_with_help(
                    record_place(raw),
                    "nothing says what records are",
                    "add [record] with `time` and `fields`, or a [[source]] of flows",
                );
            }
            None
        }
    }
}

/// The fields of records, as far as they can be read although something else about the records or
/// their sources is wrong, which has been reported; and whether they are flows.
pub(crate) fn readable_fields(raw: &RawConfig) -> (Option<Vec<Field>>, bool) {
    let has_flows = raw.source.value().is_some_and(|raw| raw.tables.iter().any(gives_flows));
    match &raw.record {
        // Nobody knows which of them is meant.
        Given::Value(_) if has_flows => (None, false),
        Given::Value(record) => {
            let names = record.value.fields.value().map(|fields| fields.names.as_slice());
            let known = |(name, raw): &(Spanned<String>, Spanned<RawField>)| {
                Some(Field::new(&name.value, field_type(&raw.value)?))
            };
            (names.and_then(|names| names.iter().map(known).collect()), false)
        }
        Given::Absent if has_flows => (Some(flow_fields()), true),
        Given::Absent | Given::Wrong => (None, false),
    }
}

/// The fields of flows.
pub(crate) fn flow_fields() -> Vec<Field> {
    FLOW_FIELDS.iter().map(|info| Field::new(info.name, info.ty)).collect()
}

/// Whether a source gives flows, whatever may be wrong with it.
fn gives_flows(source: &RawSource) -> bool {
    match source {
        RawSource::Files(files) => match files.format.value() {
            Some(RawFormat::Capture | RawFormat::Datagram) => true,
            Some(RawFormat::Csv | RawFormat::Ndjson) | None => !files.preset.is_absent(),
        },
        RawSource::Kafka(kafka) => kafka::gives_flows(kafka),
        RawSource::Udp(_) | RawSource::Generator(_) => true,
    }
}

fn record_place(raw: &RawConfig) -> Place {
    let first = raw.source.get().filter(|sources| sources.origin != Origin::Default);
    first.map_or(raw.place, |sources| sources.place)
}

fn flow_config(raw: &RawFlows, problems: &mut Problems) -> FlowConfig {
    let biflow = match raw.biflow.value() {
        Some(RawBiflow::Split) => Biflow::Split,
        Some(RawBiflow::Count) | None => Biflow::Count,
    };
    let clock_correction = raw.clock_correction.value().and_then(|limit| limit.0);
    // The tables are configuration too: what is wrong with them is said with all the rest.
    let mut check = |given: &Given<String>, read: fn(&Path) -> Result<(), FlowTableError>| {
        let path = given.get()?;
        if let Err(error) = read(Path::new(&path.value)) {
            problems.add(path.place, error.to_string());
        }
        Some(PathBuf::from(&path.value))
    };
    FlowConfig {
        exporters: check(&raw.exporters, |path| read_exporters(path).map(drop)),
        applications: check(&raw.applications, |path| read_applications(path).map(drop)),
        settings: FlowSettings { biflow, clock_correction },
    }
}

fn declared(raw: &RawRecord, problems: &mut Problems) -> Option<RecordSchema> {
    let mut fields = Vec::new();
    for (name, raw) in &raw.fields.value()?.names {
        check_word(&name.value, "field", name.place, problems);
        let from = match &raw.value {
            RawField::Type(_) => None,
            RawField::From(table) => table.from.value(),
        };
        let Some(ty) = field_type(&raw.value) else { continue };
        fields.push(RecordField {
            name: name.value.as_str().into(),
            ty,
            from: from.unwrap_or(&name.value).as_str().into(),
        });
    }
    let unit = match raw.time_unit.value()? {
        RawTimeUnit::Seconds => TimeUnit::Seconds,
        RawTimeUnit::Millis => TimeUnit::Millis,
        RawTimeUnit::Micros => TimeUnit::Micros,
        RawTimeUnit::Nanos => TimeUnit::Nanos,
        RawTimeUnit::Rfc3339 => TimeUnit::Rfc3339,
    };
    let time = raw.time.get()?;
    let as_field = fields.iter().find(|field| *field.name == *time.value);
    if let Some(field) = as_field {
        let is_text = field.ty == Type::Text;
        let fits = if unit.is_number() { field.ty.is_numeric() } else { is_text };
        if !fits {
            let (ty, unit) = (field.ty, unit.name());
            let message = format!("field `{}` of type {ty} cannot be a time in {unit}", time.value);
            let help = "times in rfc3339 are text, all others are numbers";
            problems.add_with_help(time.place, message, help);
        }
    }
    let time = as_field.map_or_else(|| time.value.as_str().into(), |field| field.from.clone());
    Some(RecordSchema { time, time_unit: unit, fields })
}

/// The type of a field, if it can be read.
fn field_type(raw: &RawField) -> Option<Type> {
    let ty = match raw {
        RawField::Type(ty) => Some(ty),
        RawField::From(table) => table.ty.value(),
    };
    ty.copied().map(model_type)
}

const fn model_type(ty: RawType) -> Type {
    match ty {
        RawType::Bool => Type::Bool,
        RawType::U8 => Type::U8,
        RawType::U16 => Type::U16,
        RawType::U32 => Type::U32,
        RawType::U64 => Type::U64,
        RawType::I64 => Type::I64,
        RawType::I128 => Type::Big,
        RawType::F64 => Type::F64,
        RawType::Text => Type::Text,
        RawType::Ip => Type::Ip,
        RawType::Object => Type::Object,
    }
}
