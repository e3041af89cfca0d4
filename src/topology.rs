//! From a pipeline to the parts of a node: every input and output opened, everything that shares
//! something given the same one. Which actor sends to which is wired in `nilometer-actors`.
//!
//! Whatever cannot be opened is an error here, before anything is read.

use crate::config::{
    FileFormat, FlowConfig, Pipeline, Records, SinkConfig, SinkFormat, SinkKind, SourceConfig,
    SourceKind,
};
use crate::progress::Bar;
use crate::run_failure::RunFailure;
use crate::state::{self, State};
use nilometer_actors::checkpoint::SinkCut;
use nilometer_actors::node::{Parts, SinkPart, SourcePart};
use nilometer_connectors::dead_letter::DeadLetterFile;
use nilometer_connectors::flow_collector::{FlowCollector, FlowCollectorSettings};
use nilometer_connectors::flow_files::{FlowFiles, FlowFilesSettings, FlowFormat};
use nilometer_connectors::flow_intake::{FlowContext, FlowIntake};
use nilometer_connectors::flow_tables::{read_applications, read_exporters};
use nilometer_connectors::generator::{GeneratorSettings, GeneratorSource};
use nilometer_connectors::netflow::DecoderSettings;
use nilometer_connectors::panes::{
    Delivery, LateWriter, PaneFormat, PaneTarget, PaneWriter, TableSettings, TableSink,
};
use nilometer_connectors::sink::{Sink, SinkError, Writer};
use nilometer_connectors::source::{Source, SourceError};
use nilometer_connectors::text::{RecordSchema, TextFiles, TextFormat, TextSettings, TimeUnit};
use nilometer_model::late::LateBatch;
use nilometer_model::plan::Plan;
use nilometer_model::symbol::Symbols;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

/// Opens the inputs and the outputs of `pipeline`, where it was left if it has a state. Sinks on the
/// terminal write behind `bar`.
///
/// # Errors
/// An input, an output or a table cannot be opened.
pub fn build(pipeline: &Pipeline, state: Option<State>, bar: &Bar) -> Result<Parts, RunFailure> {
    let shards = shards(pipeline);
    let checkpoint = state.as_ref().and_then(|state| state.part.checkpoint.as_ref());
    let symbols = Arc::new(Symbols::with_limit(pipeline.max_texts));
    let refinement = Arc::new(pipeline.refinement(&symbols)?);
    let context = context(&pipeline.records)?;
    let inputs = Inputs { pipeline, symbols: &symbols, context, bar };
    let mut sources = Vec::new();
    for (partition, source) in (0..).zip(&pipeline.sources) {
        sources.push(inputs.open(source, partition)?);
    }
    if let Some(state) = &state {
        state::resume(&mut sources, checkpoint, bar)?;
        state.supervision.prepare(&mut sources);
    }
    let is_live = pipeline.sources.iter().any(|source| source.kind.is_live());
    let outputs = Outputs { plan: &pipeline.plan, symbols: &symbols, is_live, bar };
    let mut sinks = Vec::new();
    for (number, sink) in pipeline.sinks.iter().enumerate() {
        let cut = checkpoint.and_then(|checkpoint| checkpoint.sinks.get(number));
        let mut part = outputs.open(sink, (state.is_some(), cut))?;
        if let (Some(state), Some(cut)) = (&state, cut) {
            state::publish(&mut part.writer, (state, &sink.name), cut)?;
        }
        sinks.push(part);
    }
    let open_letters =
        if checkpoint.is_some() { DeadLetterFile::append } else { DeadLetterFile::create };
    let dead_letters = pipeline.dead_letters.as_deref().map(open_letters);
    Ok(Parts {
        shards,
        plan: pipeline.plan.clone(),
        symbols,
        progress: pipeline.progress,
        refinement,
        sources,
        sinks,
        dead_letters: dead_letters.transpose().map_err(RunFailure::DeadLetters)?,
        limits: pipeline.limits,
        state: state.map(|state| state.part),
    })
}

/// As many shards as cores, unless set otherwise; where stages share no field that places records,
/// one shard works.
fn shards(pipeline: &Pipeline) -> usize {
    if pipeline.plan.shard_by.is_empty() {
        return 1;
    }
    let cores = || available_parallelism().map_or(1, usize::from);
    let groups = usize::from(pipeline.plan.key_groups);
    pipeline.shards.unwrap_or_else(cores).clamp(1, groups.max(1))
}

/// What flows are normalised with; the default where records are no flows.
pub(crate) fn context(records: &Records) -> Result<FlowContext, RunFailure> {
    let FlowConfig { exporters, applications, settings } = match records {
        Records::Flows(config) => config,
        Records::Declared(_) => return Ok(FlowContext::default()),
    };
    let exporters = exporters.as_deref().map(read_exporters).transpose()?;
    let applications = applications.as_deref().map(read_applications).transpose()?;
    Ok(FlowContext {
        exporters: Arc::new(exporters.unwrap_or_default()),
        applications: Arc::new(applications.unwrap_or_default()),
        settings: *settings,
    })
}

/// What inputs share.
struct Inputs<'a> {
    pipeline: &'a Pipeline,
    symbols: &'a Arc<Symbols>,
    context: FlowContext,
    bar: &'a Bar,
}

impl Inputs<'_> {
    fn open(&self, source: &SourceConfig, partition: u32) -> Result<SourcePart, RunFailure> {
        let reader = match &source.kind {
            SourceKind::Files { paths, format, line_bytes_max } => match *format {
                FileFormat::Capture => {
                    self.flows(paths, (FlowFormat::Capture, FlowFilesSettings::EXPORTER), partition)
                }
                FileFormat::Datagram { exporter } => {
                    self.flows(paths, (FlowFormat::Datagram, exporter), partition)
                }
                FileFormat::Opennms => {
                    let format = TextFormat::Opennms(self.context.clone());
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

/// What outputs share.
struct Outputs<'a> {
    plan: &'a Arc<Plan>,
    symbols: &'a Arc<Symbols>,
    is_live: bool,
    bar: &'a Bar,
}

impl Outputs<'_> {
    /// Opens a sink; it is told whether there is a state, and what the last epoch holds of the sink.
    fn open(
        &self,
        sink: &SinkConfig,
        (has_state, cut): (bool, Option<&SinkCut>),
    ) -> Result<SinkPart, RunFailure> {
        let name = sink.name.as_str();
        let delivery = state::delivery(has_state, cut);
        let writer = match &sink.kind {
            SinkKind::File { path, format } => {
                self.writer(name, &PaneTarget::File(path.clone()), *format, delivery)
            }
            SinkKind::Stdout { format } => {
                self.writer(name, &PaneTarget::Stdout, *format, delivery)
            }
            SinkKind::Table => {
                let settings = TableSettings { is_live: self.is_live, ..TableSettings::default() };
                let (plan, symbols) = (self.plan.clone(), self.symbols.clone());
                let table = Box::new(TableSink::stdout(settings, plan, symbols));
                Ok(Writer::Panes(self.bar.before(table)))
            }
        };
        match writer {
            Ok(writer) => Ok(SinkPart { name: name.into(), writer }),
            Err(error) => Err(RunFailure::Sink { name: name.into(), error }),
        }
    }

    fn writer(
        &self,
        name: &str,
        target: &PaneTarget,
        format: SinkFormat,
        delivery: Delivery,
    ) -> Result<Writer, SinkError> {
        let (plan, symbols) = (self.plan.clone(), self.symbols.clone());
        let format = match format {
            SinkFormat::Pane => PaneFormat::Pane,
            SinkFormat::FlowSummary => PaneFormat::FlowSummary,
            SinkFormat::Csv => PaneFormat::Csv,
            SinkFormat::Late => {
                let late: Box<dyn Sink<LateBatch>> =
                    Box::new(LateWriter::open(target, delivery, plan, symbols)?);
                return Ok(Writer::Late(self.behind(target, late)));
            }
        };
        let panes: Box<dyn Sink> =
            Box::new(PaneWriter::open(name, (target, format), delivery, plan, symbols)?);
        Ok(Writer::Panes(self.behind(target, panes)))
    }

    /// What writes to the terminal must not write into the bar.
    fn behind<B: 'static>(&self, target: &PaneTarget, sink: Box<dyn Sink<B>>) -> Box<dyn Sink<B>> {
        match target {
            PaneTarget::File(_) => sink,
            PaneTarget::Stdout => self.bar.before(sink),
        }
    }
}
