//! Sources of Kafka: what is read, how the cluster is reached, and which options are not the user's.

use crate::config::pipeline::{KafkaConfig, SourceKind, ValueFormat};
use crate::config::problem::Problems;
use crate::config::raw::options::RawOptions;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::scalar::Choice;
use crate::config::raw::source::{RawEventTime, RawKafka, RawKafkaFormat};
use crate::config::raw::text_or_table::{RawKafkaStart, RawStart};
use nilometer_connectors::kafka::client::{ClientOption, ClientSettings};
use nilometer_connectors::kafka::source::{KafkaStart, KafkaUntil, RecordTime};
use nilometer_connectors::secret::Secret;
use std::net::IpAddr;

/// Options of the client that follow from settings, or that what is promised depends on, and what to
/// do instead of setting them.
const OWN: [(&str, &str); 10] = [
    ("bootstrap.servers", "set `brokers`"),
    ("metadata.broker.list", "set `brokers`"),
    ("group.id", "set `group`"),
    ("group.instance.id", "set `instance`"),
    ("enable.auto.commit", "offsets are committed behind the epoch that holds them"),
    ("enable.auto.offset.store", "offsets are committed behind the epoch that holds them"),
    ("auto.offset.reset", "set `start`"),
    ("enable.partition.eof", "it is on"),
    ("partition.assignment.strategy", "it follows from `nodes`"),
    ("statistics.interval.ms", "it is 500"),
];

/// The source that the user typed; what is wrong with it is reported.
pub(crate) fn source(raw: &RawKafka, problems: &mut Problems) -> Option<SourceKind> {
    let format = format(raw, problems);
    for (text, what) in
        [(&raw.brokers, "brokers"), (&raw.group, "group"), (&raw.instance, "instance")]
    {
        if let Some(text) = text.get().filter(|text| text.value.trim().is_empty()) {
            problems.add_with_help(text.place, format!("`{what}` is empty"), "give a name");
        }
    }
    if let Some(topics) = raw.topics.get().filter(|topics| topics.value.is_empty()) {
        let help = "topics = [\"flows\"], or a pattern: [\"^flows-.*\"]";
        problems.add_with_help(topics.place, "no topic is named", help);
    }
    let options = options(raw.options.value()?, &OWN, problems);
    let text = |text: &Given<String>| text.value().map(|text| Box::<str>::from(text.trim()));
    let topics = raw.topics.value()?.iter().map(|topic| topic.value.clone());
    Some(SourceKind::Kafka(Box::new(KafkaConfig {
        client: ClientSettings { brokers: text(&raw.brokers)?, options: options? },
        topics: topics.collect(),
        group: text(&raw.group)?,
        instance: text(&raw.instance)?,
        nodes: raw.nodes.value()?.count(),
        format: format?,
        record_bytes_max: raw.record_max.value()?.0,
        start: match raw.start.value()? {
            RawKafkaStart::Earliest => KafkaStart::Earliest,
            RawKafkaStart::Latest => KafkaStart::Latest,
            RawKafkaStart::At(millis) => KafkaStart::At(*millis),
        },
        until: match &raw.until {
            Given::Absent => None,
            Given::Wrong => return None,
            Given::Value(Spanned { value: RawStart::Now, .. }) => Some(KafkaUntil::Now),
            Given::Value(Spanned { value: RawStart::At(millis), .. }) => {
                Some(KafkaUntil::At(*millis))
            }
        },
        queue_bytes_max: raw.queue.value()?.0,
    })))
}

/// Whether a source gives flows, whatever may be wrong with it.
pub(crate) fn gives_flows(raw: &RawKafka) -> bool {
    match raw.format.value() {
        Some(RawKafkaFormat::FlowProtobuf | RawKafkaFormat::Netflow) => true,
        Some(RawKafkaFormat::Json) | None => !raw.preset.is_absent(),
    }
}

fn format(raw: &RawKafka, problems: &mut Problems) -> Option<ValueFormat> {
    let format = raw.format.get()?;
    let name = format.value.name();
    if let Some(preset) = raw.preset.get()
        && format.value != RawKafkaFormat::Json
    {
        let message = format!("a preset means nothing to format `{name}`");
        problems.add_with_help(preset.place, message, "presets are layouts of `json` values");
    }
    let exporter = match &raw.exporter {
        Given::Absent => None,
        Given::Wrong => return None,
        Given::Value(exporter) => {
            if format.value != RawKafkaFormat::Netflow {
                let message = format!("format `{name}` names its exporters itself");
                problems.add_with_help(exporter.place, message, "leave `exporter` out");
            }
            let address: Option<IpAddr> = exporter.value.parse().ok();
            if address.is_none() {
                let message = format!("`{}` is not an IP address", exporter.value);
                let help = "an IP address: exporter = \"192.0.2.1\"";
                problems.add_with_help(exporter.place, message, help);
            }
            Some(address?)
        }
    };
    let is_plain = format.value == RawKafkaFormat::Json && raw.preset.is_absent();
    let time = raw.event_time.get()?;
    if time.value == RawEventTime::Timestamp && !is_plain {
        let message = "flows have times of their own";
        problems.add_with_help(time.place, message, "leave `event_time` out");
    }
    Some(match (format.value, &raw.preset) {
        (_, Given::Wrong) => return None,
        (RawKafkaFormat::FlowProtobuf, _) => ValueFormat::FlowProtobuf,
        (RawKafkaFormat::Netflow, _) => ValueFormat::Netflow { exporter },
        (RawKafkaFormat::Json, Given::Value(preset)) => ValueFormat::Flows(preset.value.layout()),
        (RawKafkaFormat::Json, Given::Absent) => ValueFormat::Json(match time.value {
            RawEventTime::Field => RecordTime::Field,
            RawEventTime::Timestamp => RecordTime::Timestamp,
        }),
    })
}

/// The options that the user typed; those among `own` are reported.
pub(crate) fn options(
    raw: &RawOptions,
    own: &[(&str, &str)],
    problems: &mut Problems,
) -> Option<Vec<ClientOption>> {
    let mut options = Vec::new();
    for (name, place, text) in &raw.options {
        let (name, value) = Secret::of(name, text);
        if let Some((_, instead)) = own.iter().find(|(own, _)| *own == name) {
            let message = format!("option `{name}` is not yours to set");
            problems.add_with_help(*place, message, *instead);
        }
        options.push(ClientOption { name: name.into(), value });
    }
    raw.is_whole.then_some(options)
}
