//! From the sources of a pipeline to readers: every input opened. Whatever cannot be opened is an error
//! here, before anything is read.

use crate::config::{
    FileFormat, KafkaConfig, Pipeline, Records, SourceConfig, SourceKind, ValueFormat,
};
use crate::outlets::Carriers;
use crate::progress::Bar;
use crate::run_failure::RunFailure;
use nilometer_actors::node::SourcePart;
use nilometer_connectors::flow_collector::{FlowCollector, FlowCollectorSettings};
use nilometer_connectors::flow_files::{FlowFiles, FlowFilesSettings, FlowFormat};
use nilometer_connectors::flow_intake::{FlowContext, FlowIntake};
use nilometer_connectors::generator::{GeneratorSettings, GeneratorSource};
use nilometer_connectors::kafka::source::{KafkaFormat, KafkaSettings, KafkaSource};
use nilometer_connectors::netflow::DecoderSettings;
use nilometer_connectors::source::{Source, SourceError};
use nilometer_connectors::text::{RecordSchema, TextFiles, TextFormat, TextSettings, TimeUnit};
use nilometer_model::symbol::Symbols;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What inputs share.
pub(crate) struct Inputs<'a> {
    /// The pipeline.
    pub(crate) pipeline: &'a Pipeline,
    /// Where texts go.
    pub(crate) symbols: &'a Arc<Symbols>,
    /// What flows are normalised with.
    pub(crate) context: FlowContext,
    /// What takes offsets to sinks.
    pub(crate) carriers: &'a Carriers,
    /// Where people are told.
    pub(crate) bar: &'a Bar,
}

impl Inputs<'_> {
    /// Opens `source`, whose number is `partition`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(
        &self,
        source: &SourceConfig,
        partition: u32,
    ) -> Result<SourcePart, RunFailure> {
        let reader = match &source.kind {
            SourceKind::Files { paths, format, line_bytes_max } => match *format {
                FileFormat::Capture => {
                    self.flows(paths, (FlowFormat::Capture, FlowFilesSettings::EXPORTER), partition)
                }
                FileFormat::Datagram { exporter } => {
                    self.flows(paths, (FlowFormat::Datagram, exporter), partition)
                }
                FileFormat::Flows(layout) => {
                    let format = TextFormat::Flows(layout, self.context.clone());
                    self.texts(paths, (format, *line_bytes_max), partition)
                }
                FileFormat::Ndjson => {
                    let format = TextFormat::Ndjson(self.schema());
                    self.texts(paths, (format, *line_bytes_max), partition)
                }
                FileFormat::Csv { delimiter } => {
                    let format = TextFormat::Csv { schema: self.schema(), delimiter };
                    self.texts(paths, (format, *line_bytes_max), partition)
                }
            },
            SourceKind::Udp { listen, receive_buffer } => {
                self.collector(&source.name, (*listen, *receive_buffer), partition)
            }
            SourceKind::Kafka(config) => self.kafka(&source.name, config),
            SourceKind::Generator(settings) => Ok(self.generator(settings, partition)),
        };
        let name = source.name.as_str();
        let watermark = source.watermark.bind(&self.pipeline.plan.row, self.symbols)?;
        match reader {
            Ok(reader) => {
                let (name, skipped) = (name.into(), Vec::new());
                Ok(SourcePart { name, reader, watermark, skipped })
            }
            Err(error) => Err(RunFailure::Source { name: name.into(), error }),
        }
    }

    fn flows(
        &self,
        paths: &[PathBuf],
        (format, exporter): (FlowFormat, IpAddr),
        partition: u32,
    ) -> Result<Box<dyn Source>, SourceError> {
        let settings = FlowFilesSettings {
            paths: paths.to_vec(),
            format,
            exporter,
            decoder: DecoderSettings::BOUNDED,
            context: self.context.clone(),
            partition,
        };
        Ok(Box::new(FlowFiles::open(settings, &self.pipeline.plan.row, self.symbols.clone())?))
    }

    fn texts(
        &self,
        paths: &[PathBuf],
        (format, line_bytes_max): (TextFormat, usize),
        partition: u32,
    ) -> Result<Box<dyn Source>, SourceError> {
        let paths = paths.to_vec();
        let settings = TextSettings { paths, format, line_bytes_max, partition };
        Ok(Box::new(TextFiles::open(settings, &self.pipeline.plan.row, self.symbols.clone())?))
    }

    /// The fields of text records. A pipeline of flows has no text source that asks for them.
    fn schema(&self) -> RecordSchema {
        match &self.pipeline.records {
            Records::Declared(schema) => schema.clone(),
            Records::Flows(_) => {
                RecordSchema { time: "".into(), time_unit: TimeUnit::Millis, fields: Vec::new() }
            }
        }
    }

    fn collector(
        &self,
        name: &str,
        (address, queue_bytes_max): (SocketAddr, usize),
        partition: u32,
    ) -> Result<Box<dyn Source>, SourceError> {
        let settings = FlowCollectorSettings {
            address,
            queue_bytes_max,
            decoder: DecoderSettings::LIVE,
            context: self.context.clone(),
            partition,
        };
        let (layout, symbols) = (&self.pipeline.plan.row, self.symbols.clone());
        let collector = FlowCollector::listen(settings, layout, symbols, now_ms)?;
        self.bar.say(&format!("source `{name}`: listens on {}", collector.address()));
        Ok(Box::new(collector))
    }

    fn kafka(&self, name: &str, config: &KafkaConfig) -> Result<Box<dyn Source>, SourceError> {
        let context = self.context.clone();
        let settings = KafkaSettings {
            client: config.client.clone(),
            topics: config.topics.clone(),
            group: config.group.clone(),
            instance: config.instance.clone(),
            nodes: config.nodes,
            format: match config.format {
                ValueFormat::FlowProtobuf => KafkaFormat::FlowProtobuf(context),
                ValueFormat::Json(time) => KafkaFormat::Json { schema: self.schema(), time },
                ValueFormat::Flows(layout) => KafkaFormat::Flows(layout, context),
                ValueFormat::Netflow { exporter } => KafkaFormat::Netflow { context, exporter },
            },
            record_bytes_max: config.record_bytes_max,
            start: config.start,
            until: config.until,
            queue_bytes_max: config.queue_bytes_max,
            carrier: self.carriers.of_source(name),
            is_traced: self.pipeline.telemetry.traced().is_some(),
            plight: self.bar.plights().of(&format!("source `{name}`")),
        };
        let (layout, symbols) = (&self.pipeline.plan.row, self.symbols.clone());
        Ok(Box::new(KafkaSource::open(settings, layout, symbols)?))
    }

    fn generator(&self, settings: &GeneratorSettings, partition: u32) -> Box<dyn Source> {
        let (layout, symbols) = (&self.pipeline.plan.row, self.symbols.clone());
        let intake = FlowIntake::new(self.context.clone(), layout, symbols, partition);
        Box::new(GeneratorSource::new(settings.clone(), intake))
    }
}

/// When a datagram arrives, in milliseconds since the Unix epoch.
fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
