//! A pipeline as the rest of the program takes it: every name looked up, every default filled in.

use super::seen::{AdminConfig, TelemetryConfig};
use super::settings::Setting;
use nilometer_actors::credit::Limits;
use nilometer_connectors::generator::GeneratorSettings;
use nilometer_connectors::kafka::client::ClientSettings;
use nilometer_connectors::kafka::out::{Compression, OutFormat, Retractions, TopicPlan};
use nilometer_connectors::kafka::source::{KafkaStart, KafkaUntil, RecordTime};
use nilometer_connectors::text::{FlowLayout, RecordSchema};
use nilometer_model::epoch::Bounds;
use nilometer_model::expr::{BindError, Refinement, TypedExpr};
use nilometer_model::flow::FlowSettings;
use nilometer_model::plan::{Job, Plan};
use nilometer_model::row::RowLayout;
use nilometer_model::symbol::Symbols;
use nilometer_model::time::Span;
use nilometer_model::watermark::{Estimation, ProgressRules, Punctuation, WatermarkSettings};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// A valid pipeline.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// What the user wants computed.
    pub job: Job,
    /// How it is computed.
    pub plan: Arc<Plan>,
    /// Inputs; none for a pipeline that only transcripts feed.
    pub sources: Vec<SourceConfig>,
    /// What records are.
    pub records: Records,
    /// Fields computed from others, in this order.
    pub derived: Vec<(Box<str>, TypedExpr)>,
    /// Condition on records.
    pub filter: Option<TypedExpr>,
    /// How the watermark of a source is estimated: that of the first, if there are any.
    pub watermark: SourceWatermark,
    /// What holds for the watermark over all sources.
    pub progress: ProgressRules,
    /// Outputs, in the order of the file.
    pub sinks: Vec<SinkConfig>,
    /// Where records go that cannot be used.
    pub dead_letters: DeadLetterConfig,
    /// Shards that work in parallel; `None`: one per core.
    pub shards: Option<usize>,
    /// Most distinct texts kept at once.
    pub max_texts: usize,
    /// How much may be in flight.
    pub limits: Limits,
    /// How long a drain may take; `None`: as long as it takes.
    pub drain_timeout: Option<Span>,
    /// Where state is stored, if it is.
    pub state: Option<StateConfig>,
    /// The admin port, if there is one.
    pub admin: Option<AdminConfig>,
    /// What is told to a collector of OpenTelemetry.
    pub telemetry: TelemetryConfig,
    /// Every setting in force.
    pub settings: Vec<Setting>,
}

impl Pipeline {
    /// Derived fields and the filter, bound to the rows of the plan.
    ///
    /// # Errors
    /// `symbols` is full: the texts of expressions have no place in it.
    pub fn refinement(&self, symbols: &Symbols) -> Result<Refinement, BindError> {
        Refinement::bind(&self.derived, self.filter.as_ref(), &self.plan.row, symbols)
    }
}

/// Where state is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateConfig {
    /// The directory, relative to the working directory.
    pub dir: PathBuf,
    /// From the beginning of one epoch to that of the next.
    pub interval: Span,
    /// How much an epoch may hold, and how much may wait for it.
    pub bounds: Bounds,
    /// Bytes of memory that state may take, over all shards; `None`: as much as it needs.
    pub memory: Option<usize>,
    /// Whether a start reads a copy of it first, so that one that is damaged stays as it was.
    pub is_checked: bool,
}

/// How the watermark of a source is estimated.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceWatermark {
    /// The settings.
    pub settings: WatermarkSettings,
    /// What records say, where it is theirs to say.
    pub mark: Option<TypedExpr>,
}

impl SourceWatermark {
    /// The estimate for rows of `layout`.
    ///
    /// # Errors
    /// `symbols` is full: the texts of expressions have no place in it.
    pub fn bind(&self, layout: &RowLayout, symbols: &Symbols) -> Result<Estimation, BindError> {
        let bind = |mark| Punctuation::bind(mark, layout, symbols);
        let punctuation = self.mark.as_ref().map(bind).transpose()?;
        Ok(Estimation { settings: self.settings, punctuation })
    }
}

/// One input, which is one partition.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceConfig {
    /// Name in summaries, unique.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// How its watermark is estimated.
    pub watermark: SourceWatermark,
}

/// What an input is.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// Files, read in this order.
    Files {
        /// Their paths, relative to the working directory; at least one.
        paths: Vec<PathBuf>,
        /// What they hold.
        format: FileFormat,
        /// Most bytes of a line; a longer one is rejected.
        line_bytes_max: usize,
    },
    /// A collector of flow datagrams.
    Udp {
        /// Where it listens.
        listen: SocketAddr,
        /// Bytes of datagrams that wait for the engine at most.
        receive_buffer: usize,
    },
    /// Topics of Kafka.
    Kafka(Box<KafkaConfig>),
    /// Invented flows.
    Generator(GeneratorSettings),
}

impl SourceKind {
    /// The name of this process among others that read the same, if it has one.
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::Kafka(kafka) => Some(&kafka.instance),
            Self::Files { .. } | Self::Udp { .. } | Self::Generator(_) => None,
        }
    }

    /// Whether the input may go on for ever.
    pub const fn is_live(&self) -> bool {
        match self {
            Self::Files { .. } => false,
            Self::Udp { .. } => true,
            Self::Kafka(config) => config.until.is_none(),
            Self::Generator(settings) => settings.records.is_none(),
        }
    }

    /// Whether its records are flows.
    pub const fn is_flow(&self) -> bool {
        match self {
            Self::Udp { .. } | Self::Generator(_) => true,
            Self::Kafka(config) => !matches!(config.format, ValueFormat::Json(_)),
            Self::Files { format, .. } => match format {
                FileFormat::Capture | FileFormat::Datagram { .. } | FileFormat::Flows(_) => true,
                FileFormat::Ndjson | FileFormat::Csv { .. } => false,
            },
        }
    }
}

/// Topics of Kafka as an input.
#[derive(Debug, Clone, PartialEq)]
pub struct KafkaConfig {
    /// How the cluster is reached.
    pub client: ClientSettings,
    /// Topics, or patterns that begin with `^`; at least one.
    pub topics: Vec<String>,
    /// The group that it reads as.
    pub group: Box<str>,
    /// The name of the process in the group.
    pub instance: Box<str>,
    /// How many processes read the group, at least 1.
    pub nodes: usize,
    /// What values are.
    pub format: ValueFormat,
    /// Most bytes of a value.
    pub record_bytes_max: usize,
    /// Where to begin.
    pub start: KafkaStart,
    /// Where to end; `None` for never.
    pub until: Option<KafkaUntil>,
    /// Bytes that wait for the engine, about.
    pub queue_bytes_max: usize,
}

/// What values of Kafka are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFormat {
    /// Flow documents as messages of protocol buffers.
    FlowProtobuf,
    /// JSON objects with the fields of `[record]`.
    Json(RecordTime),
    /// Flows as JSON objects of a known layout.
    Flows(FlowLayout),
    /// Datagrams of exporters.
    Netflow {
        /// Who sent those whose key is no address.
        exporter: Option<IpAddr>,
    },
}

/// What files hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// pcap or pcapng with flow datagrams.
    Capture,
    /// One flow datagram per file.
    Datagram {
        /// Who sent it.
        exporter: IpAddr,
    },
    /// Flows, one JSON object of a known layout per line.
    Flows(FlowLayout),
    /// One JSON object per line, with the fields of `[record]`.
    Ndjson,
    /// Values below a header line, with the fields of `[record]`.
    Csv {
        /// What parts them.
        delimiter: u8,
    },
}

/// What the records of a pipeline are.
#[derive(Debug, Clone, PartialEq)]
pub enum Records {
    /// Flows, with the fields of [`nilometer_model::flow::FLOW_FIELDS`].
    Flows(FlowConfig),
    /// Whatever the user has declared.
    Declared(RecordSchema),
}

/// How flows are read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowConfig {
    /// Table of exporters.
    pub exporters: Option<PathBuf>,
    /// Table of applications.
    pub applications: Option<PathBuf>,
    /// How they are normalised.
    pub settings: FlowSettings,
}

/// One output.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkConfig {
    /// Name, unique.
    pub name: String,
    /// What it is.
    pub kind: SinkKind,
}

/// What an output is.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkKind {
    /// A file.
    File {
        /// Its path, relative to the working directory.
        path: PathBuf,
        /// Form of a pane.
        format: SinkFormat,
    },
    /// Standard output.
    Stdout {
        /// Form of a pane.
        format: SinkFormat,
    },
    /// A table for people on standard output.
    Table,
    /// A topic of Kafka.
    Kafka(Box<KafkaSinkConfig>),
}

/// A topic of Kafka as an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSinkConfig {
    /// Where it is, and how it is reached.
    pub topic: TopicConfig,
    /// What values are.
    pub format: KafkaSinkFormat,
    /// For exactly-once: how long a transaction may take, in milliseconds.
    pub transaction_timeout_ms: Option<u32>,
    /// Name of the process among those that write for the sink.
    pub instance: Box<str>,
    /// How results are taken back.
    pub retractions: Retractions,
    /// Whether results that are added up may come twice.
    pub allows_repeats: bool,
}

/// What values of an output topic are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KafkaSinkFormat {
    /// Panes.
    Panes(OutFormat),
    /// Copies that came late.
    Late,
}

/// A topic that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// How the cluster is reached.
    pub client: ClientSettings,
    /// Its name.
    pub topic: Box<str>,
    /// How values are compressed.
    pub compression: Compression,
    /// How it is made if it is not there, if it is.
    pub create: Option<TopicPlan>,
}

/// Where records go that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterConfig {
    /// A file.
    pub file: Option<PathBuf>,
    /// A topic.
    pub topic: Option<TopicConfig>,
}

impl DeadLetterConfig {
    /// Whether they are kept anywhere.
    pub const fn is_set(&self) -> bool {
        self.file.is_some() || self.topic.is_some()
    }
}

/// Form of what is written to an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkFormat {
    /// One JSON object per line.
    Pane,
    /// The summary document of flows.
    FlowSummary,
    /// Comma-separated values.
    Csv,
    /// No pane, but a copy that came late.
    Late,
}
