//! What an output to Kafka is set to.

use crate::kafka::client::ClientSettings;
use crate::panes::Delivery;
use crate::plight::Plight;
use std::fmt;
use std::sync::Arc;

/// How values are compressed on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Its name, as librdkafka and topics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutFormat {
    /// A pane, or the record of a session, as a JSON object.
    Pane,
    /// A flow summary document.
    FlowSummary,
    /// A message of protocol buffers, see `pane.proto`.
    Protobuf,
}

/// How results are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retractions {
    /// By a record that repeats what it takes back.
    Records,
    /// By a record without a value, for topics that are compacted; only where nothing replaces the
    /// result.
    Tombstones,
}

/// How a topic is made, if it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    /// Partitions; `None` for what the brokers take.
    pub partitions: Option<i32>,
    /// Copies of each; `None` for what the brokers take.
    pub replication: Option<i32>,
    /// Whether only the last record of each key is kept.
    pub is_compacted: bool,
}

/// Where records go, and how.
#[derive(Debug, Clone)]
pub struct KafkaSinkSettings {
    /// How the cluster is reached.
    pub client: ClientSettings,
    /// The topic.
    pub topic: Box<str>,
    /// How the topic is made if it is not there; `None`: it is waited for.
    pub create: Option<TopicPlan>,
    /// How values are compressed.
    pub compression: Compression,
    /// For transactions; `None`: what may have been lost is sent again.
    pub transactions: Option<TransactionSettings>,
    /// When it is sent.
    pub delivery: Delivery,
    /// Who is told of what happens.
    pub teller: Teller,
}

impl KafkaSinkSettings {
    /// How many epochs have come out, as the state knows.
    pub(crate) fn published(&self) -> u64 {
        match self.delivery {
            Delivery::Resumed { behind } => behind.unwrap_or(0),
            Delivery::AtOnce | Delivery::Held => 0,
        }
    }
}

/// What exactly-once takes.
#[derive(Debug, Clone)]
pub struct TransactionSettings {
    /// Name of the pipeline.
    pub pipeline: Box<str>,
    /// Name of the sink in it.
    pub sink: Box<str>,
    /// Name of the process: the same in the next one.
    pub instance: Box<str>,
    /// How long a transaction may take, in milliseconds, before the brokers end it.
    pub timeout_ms: u32,
    /// Offsets that go with the results.
    pub carriers: Vec<Arc<super::carrier::Carrier>>,
}

impl TransactionSettings {
    /// The topic that holds the stamps of a pipeline.
    pub(crate) fn changelog(&self) -> String {
        format!("nilometer.{}.changelog", self.pipeline)
    }

    /// The name that the brokers know the transactions of a sink by.
    pub(crate) fn id(&self) -> String {
        format!("nilometer.{}.{}.{}", self.pipeline, self.sink, self.instance)
    }
}

/// Tells the operator something, one sentence.
#[derive(Clone)]
pub struct Teller {
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    plight: Plight,
}

impl Teller {
    /// Calls `tell`; what holds the sink up goes to `plight`, too.
    pub fn new(plight: Plight, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell), plight }
    }

    /// Tells what holds the sink up.
    pub(crate) fn holds_up(&self, text: &str) {
        self.plight.is(text);
        self.say(text);
    }

    /// Tells that it is over.
    pub(crate) fn is_over(&self, text: &str) {
        self.plight.is_over();
        self.say(text);
    }

    /// Tells it.
    pub fn say(&self, text: &str) {
        (self.tell)(text);
    }
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}
