//! Outputs to Kafka, and what goes from its sources to its sinks: the offsets that are committed with
//! results.

use crate::config::{
    KafkaSinkConfig, KafkaSinkFormat, Pipeline, SinkKind, SourceConfig, SourceKind, TopicConfig,
};
use crate::progress::Bar;
use nilometer_connectors::kafka::out::carrier::Carrier;
use nilometer_connectors::kafka::out::letters::LetterTopic;
use nilometer_connectors::kafka::out::sink;
use nilometer_connectors::kafka::out::{KafkaSinkSettings, Teller, TransactionSettings};
use nilometer_connectors::panes::Delivery;
use nilometer_connectors::sink::{SinkError, Writer};
use nilometer_model::plan::Plan;
use nilometer_model::symbol::Symbols;
use std::sync::Arc;

/// The offsets that go with the results of one sink.
pub(crate) struct Carriers {
    /// The sink; `None` if none writes in transactions.
    sink: Option<String>,
    /// By name of the source.
    of_sources: Vec<(String, Arc<Carrier>)>,
}

impl Carriers {
    /// Offsets go with the first sink that writes in transactions, from the sources of its cluster.
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let found = pipeline.sinks.iter().find_map(|sink| match &sink.kind {
            SinkKind::Kafka(kafka) if kafka.transaction_timeout_ms.is_some() => {
                Some((&sink.name, &kafka.topic.client.brokers))
            }
            SinkKind::Kafka(_)
            | SinkKind::File { .. }
            | SinkKind::Stdout { .. }
            | SinkKind::Table => None,
        });
        let Some((sink, brokers)) = found else {
            return Self { sink: None, of_sources: Vec::new() };
        };
        let carrier = |source: &SourceConfig| match &source.kind {
            SourceKind::Kafka(kafka) if kafka.client.brokers == *brokers => {
                Some((source.name.clone(), Arc::new(Carrier::new(&kafka.group))))
            }
            SourceKind::Kafka(_)
            | SourceKind::Files { .. }
            | SourceKind::Udp { .. }
            | SourceKind::Generator(_) => None,
        };
        let of_sources = pipeline.sources.iter().filter_map(carrier);
        Self { sink: Some(sink.clone()), of_sources: of_sources.collect() }
    }

    /// What takes the offsets of the source called `name`, if anything does.
    pub(crate) fn of_source(&self, name: &str) -> Option<Arc<Carrier>> {
        let found = self.of_sources.iter().find(|(source, _)| source == name);
        found.map(|(_, carrier)| carrier.clone())
    }

    /// What writes to the topic of the sink called `name`. With a state, what has come out is looked at
    /// before anything is read: `has_output` says whether its last epoch holds output of the sink.
    ///
    /// # Errors
    /// An option is wrong, or the state is not the one that has written to the topic.
    pub(crate) fn writer(
        &self,
        (name, config): (&str, &KafkaSinkConfig),
        (delivery, has_output): (Delivery, bool),
        known: (Arc<Plan>, Arc<Symbols>),
        bar: &Bar,
    ) -> Result<Writer, SinkError> {
        let is_carrying = self.sink.as_deref() == Some(name);
        let carriers = self.of_sources.iter().filter(|_| is_carrying);
        let transactions = config.transaction_timeout_ms.map(|timeout_ms| TransactionSettings {
            pipeline: known.0.name.clone(),
            sink: name.into(),
            instance: config.instance.clone(),
            timeout_ms,
            carriers: carriers.map(|(_, carrier)| carrier.clone()).collect(),
        });
        let who = format!("sink `{name}`");
        let settings = settings(&config.topic, transactions, delivery, teller(who, bar));
        sink::check(&settings, has_output)?;
        Ok(match config.format {
            KafkaSinkFormat::Panes(format) => {
                Writer::Panes(sink::panes((name, format), config.retractions, settings, known)?)
            }
            KafkaSinkFormat::Late => Writer::Late(sink::late(settings, known)?),
        })
    }
}

/// The topic that takes dead letters.
///
/// # Errors
/// An option is wrong.
pub(crate) fn letter_topic(topic: &TopicConfig, bar: &Bar) -> Result<LetterTopic, SinkError> {
    let teller = teller("dead letters".into(), bar);
    LetterTopic::open(settings(topic, None, Delivery::AtOnce, teller))
}

fn settings(
    topic: &TopicConfig,
    transactions: Option<TransactionSettings>,
    delivery: Delivery,
    teller: Teller,
) -> KafkaSinkSettings {
    KafkaSinkSettings {
        client: topic.client.clone(),
        topic: topic.topic.clone(),
        create: topic.create.clone(),
        compression: topic.compression,
        transactions,
        delivery,
        teller,
    }
}

/// Tells people what `who` has to say.
fn teller(who: String, bar: &Bar) -> Teller {
    let (plight, bar) = (bar.plights().of(&who), bar.clone());
    Teller::new(plight, move |text| bar.say(&format!("{who}: {text}")))
}
