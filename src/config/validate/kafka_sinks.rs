//! Sinks of Kafka, and the topic of dead letters.

use super::kafka::options;
use crate::config::pipeline::{
    DeadLetterConfig, KafkaSinkConfig, KafkaSinkFormat, SinkConfig, SinkKind, TopicConfig,
};
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::options::RawOptions;
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::scalar::Whole;
use crate::config::raw::sink::{
    RawCompression, RawDelivery, RawKafkaSink, RawKafkaSinkFormat, RawRetractions, RawSink,
    RawTopic,
};
use crate::config::raw::text_or_table::RawDeadLetters;
use nilometer_connectors::kafka::client::ClientSettings;
use nilometer_connectors::kafka::out::{Compression, OutFormat, Retractions, TopicPlan};
use nilometer_model::pane::AccumulationMode;
use nilometer_model::plan::Plan;

/// Options of the client that follow from settings, or that what is promised depends on, and what to
/// do instead of setting them.
const OWN: [(&str, &str); 7] = [
    ("bootstrap.servers", "set `brokers`"),
    ("metadata.broker.list", "set `brokers`"),
    ("transactional.id", "set `instance`"),
    ("transaction.timeout.ms", "set `transaction_timeout`"),
    ("enable.idempotence", "it is on"),
    ("compression.type", "set `compression`"),
    ("compression.codec", "set `compression`"),
];

/// The sink that the user typed; what is wrong with it is reported.
pub(crate) fn sink(
    raw: &RawKafkaSink,
    has_state: bool,
    problems: &mut Problems,
) -> Option<SinkKind> {
    let delivery = raw.delivery.get();
    if let Some(delivery) = delivery
        && delivery.value == RawDelivery::ExactlyOnce
        && !has_state
    {
        let name = raw.name.value().map_or("", String::as_str);
        problems.add_with_help(
            delivery.place,
            format!("sink `{name}` can write each result exactly once only where state is stored"),
            "set `state.dir`, or run with --state DIR; or write delivery = \"at_least_once\"",
        );
    }
    not_blank(&raw.instance, "instance", problems);
    let retractions = match raw.retractions.value()? {
        RawRetractions::Records => Retractions::Records,
        RawRetractions::Tombstones => Retractions::Tombstones,
    };
    let is_compacted = retractions == Retractions::Tombstones;
    let topic = TopicParts {
        brokers: &raw.brokers,
        topic: &raw.topic,
        compression: &raw.compression,
        create: &raw.create,
        options: &raw.options,
    };
    let topic = topic.validate(is_compacted, problems);
    let timeout = u32::try_from(raw.transaction_timeout.value()?.0.as_millis()).ok();
    let timeout = timeout.unwrap_or(i32::MAX as u32).min(i32::MAX as u32);
    Some(SinkKind::Kafka(Box::new(KafkaSinkConfig {
        topic: topic?,
        format: match raw.format.value()? {
            RawKafkaSinkFormat::Pane => KafkaSinkFormat::Panes(OutFormat::Pane),
            RawKafkaSinkFormat::FlowSummary => KafkaSinkFormat::Panes(OutFormat::FlowSummary),
            RawKafkaSinkFormat::Protobuf => KafkaSinkFormat::Panes(OutFormat::Protobuf),
            RawKafkaSinkFormat::Late => KafkaSinkFormat::Late,
        },
        transaction_timeout_ms: match delivery?.value {
            RawDelivery::ExactlyOnce => Some(timeout),
            RawDelivery::AtLeastOnce => None,
        },
        instance: raw.instance.value()?.trim().into(),
        retractions,
        allows_repeats: *raw.allow_repeats.value()?,
    })))
}

/// Where records go that cannot be used; what is wrong with it is reported.
pub(crate) fn dead_letters(raw: &RawConfig, problems: &mut Problems) -> Option<DeadLetterConfig> {
    match &raw.dead_letters {
        Given::Absent => Some(DeadLetterConfig::default()),
        Given::Wrong => None,
        Given::Value(Spanned { value: RawDeadLetters::File(path), .. }) => {
            Some(DeadLetterConfig { file: Some(path.into()), topic: None })
        }
        Given::Value(Spanned { value: RawDeadLetters::Topic(raw), .. }) => {
            let topic = TopicParts {
                brokers: &raw.brokers,
                topic: &raw.topic,
                compression: &raw.compression,
                create: &raw.create,
                options: &raw.options,
            };
            let topic = topic.validate(false, problems);
            let file = match &raw.file {
                Given::Absent => None,
                Given::Wrong => return None,
                Given::Value(file) => Some(file.value.as_str().into()),
            };
            Some(DeadLetterConfig { file, topic: Some(topic?) })
        }
    }
}

/// The settings that say which topic is written, and how.
struct TopicParts<'a> {
    brokers: &'a Given<String>,
    topic: &'a Given<String>,
    compression: &'a Given<RawCompression>,
    create: &'a Given<RawTopic>,
    options: &'a Given<RawOptions>,
}

impl TopicParts<'_> {
    fn validate(&self, is_compacted: bool, problems: &mut Problems) -> Option<TopicConfig> {
        not_blank(self.brokers, "brokers", problems);
        if let Some(topic) = self.topic.get() {
            check_topic(topic, problems);
        }
        let options = options(self.options.value()?, &OWN, problems);
        let number = |given: &Option<i64>| given.and_then(|number| i32::try_from(number).ok());
        let create = match self.create {
            Given::Absent => None,
            Given::Wrong => return None,
            Given::Value(create) => Some(TopicPlan {
                partitions: number(&whole(&create.value.partitions)?),
                replication: number(&whole(&create.value.replication)?),
                is_compacted,
            }),
        };
        Some(TopicConfig {
            client: ClientSettings {
                brokers: self.brokers.value()?.trim().into(),
                options: options?,
            },
            topic: self.topic.value()?.as_str().into(),
            compression: match self.compression.value()? {
                RawCompression::None => Compression::None,
                RawCompression::Gzip => Compression::Gzip,
                RawCompression::Snappy => Compression::Snappy,
                RawCompression::Lz4 => Compression::Lz4,
                RawCompression::Zstd => Compression::Zstd,
            },
            create,
        })
    }
}

/// A number that may be left out; `None` if it is wrong.
fn whole<const MIN: i64, const MAX: i64>(given: &Given<Whole<MIN, MAX>>) -> Option<Option<i64>> {
    match given {
        Given::Absent => Some(None),
        Given::Wrong => None,
        Given::Value(number) => Some(Some(number.value.0)),
    }
}

fn not_blank(text: &Given<String>, what: &str, problems: &mut Problems) {
    if let Some(text) = text.get().filter(|text| text.value.trim().is_empty()) {
        problems.add_with_help(text.place, format!("`{what}` is empty"), "give a name");
    }
}

/// What Kafka takes for the name of a topic.
pub(super) fn check_topic(topic: &Spanned<String>, problems: &mut Problems) {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let name = topic.value.as_str();
    if name.len() > 249 || name == "." || name == ".." || !name.chars().all(is_known) {
        problems.add_with_help(
            topic.place,
            format!("`{name}` cannot be the name of a topic"),
            "at most 249 of a-z, A-Z, 0-9, `.`, `_` and `-`",
        );
    }
}

/// Results that are added up must not come twice, unless that is wanted.
pub(crate) fn check_repeats(
    plan: &Plan,
    sinks: &[SinkConfig],
    raw: &RawConfig,
    problems: &mut Problems,
) {
    let raw = raw.sink.value().map_or(&[][..], |sinks| &sinks.tables);
    for sink in sinks {
        let SinkKind::Kafka(kafka) = &sink.kind else { continue };
        if kafka.transaction_timeout_ms.is_some() || kafka.allows_repeats {
            continue;
        }
        let adds_up = plan.stages.iter().find(|stage| {
            stage.mode == AccumulationMode::Discarding
                && stage.sinks.iter().any(|name| **name == *sink.name)
        });
        let typed = raw.iter().find_map(|raw| match raw {
            RawSink::Kafka(raw) if raw.name.value() == Some(&sink.name) => raw.delivery.get(),
            _ => None,
        });
        if let (Some(stage), Some(delivery)) = (adds_up, typed) {
            problems.add_with_help(
                delivery.place,
                format!(
                    "results of `{}` are added up, and with sink `{}` some may come twice",
                    stage.name, sink.name
                ),
                "write delivery = \"exactly_once\", or let the group accumulate: mode = \
                 \"accumulating\"; or accept it: allow_repeats = true",
            );
        }
    }
}
