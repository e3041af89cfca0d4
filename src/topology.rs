//! From a pipeline to the parts of a node: every input and output opened, everything that shares
//! something given the same one. Which actor sends to which is wired in `nilometer-actors`.
//!
//! Whatever cannot be opened is an error here, before anything is read.

use crate::config::{FlowConfig, Pipeline, Records, SinkConfig, SinkFormat, SinkKind};
use crate::inputs::Inputs;
use crate::outlets::{Carriers, letter_topic};
use crate::progress::Bar;
use crate::run_failure::RunFailure;
use crate::state::{self, State};
use nilometer_actors::checkpoint::SinkCut;
use nilometer_actors::node::{Parts, SinkPart};
use nilometer_actors::trace::Tracing;
use nilometer_connectors::dead_letter::{DeadLetterFile, DeadLetters};
use nilometer_connectors::flow_intake::FlowContext;
use nilometer_connectors::flow_tables::{read_applications, read_exporters};
use nilometer_connectors::panes::{
    Delivery, LateWriter, PaneFormat, PaneTarget, PaneWriter, TableSettings, TableSink,
};
use nilometer_connectors::sink::{Sink, SinkError, Writer};
use nilometer_model::late::LateBatch;
use nilometer_model::plan::Plan;
use nilometer_model::symbol::Symbols;
use std::sync::Arc;
use std::thread::available_parallelism;

/// Opens the inputs and the outputs of `pipeline`, where it was left if it has a state. Sinks on the
/// terminal write behind `bar`; spans go to `tracing`.
///
/// # Errors
/// An input, an output or a table cannot be opened.
pub fn build(
    pipeline: &Pipeline,
    state: Option<State>,
    tracing: Tracing,
    bar: &Bar,
) -> Result<Parts, RunFailure> {
    let shards = shards(pipeline);
    let checkpoint = state.as_ref().and_then(|state| state.part.checkpoint.as_ref());
    let symbols = Arc::new(Symbols::with_limit(pipeline.max_texts));
    let refinement = Arc::new(pipeline.refinement(&symbols)?);
    let context = context(&pipeline.records)?;
    let carriers = Carriers::new(pipeline);
    let inputs = Inputs { pipeline, symbols: &symbols, context, carriers: &carriers, bar };
    let mut sources = Vec::new();
    for (partition, source) in (0..).zip(&pipeline.sources) {
        sources.push(inputs.open(source, partition)?);
    }
    if let Some(state) = &state {
        state::resume(&mut sources, state, bar)?;
        state.supervision.prepare(&mut sources);
    }
    let is_live = pipeline.sources.iter().any(|source| source.kind.is_live());
    let (plan, symbols_of) = (&pipeline.plan, &symbols);
    let outputs = Outputs { plan, symbols: symbols_of, carriers: &carriers, is_live, bar };
    let mut sinks = Vec::new();
    for (number, sink) in pipeline.sinks.iter().enumerate() {
        let cut = checkpoint.and_then(|checkpoint| checkpoint.sinks.get(number)?.as_ref());
        let mut part = outputs.open(sink, (state.is_some(), cut))?;
        if let (Some(state), Some(cut)) = (&state, cut) {
            state::publish(&mut part.writer, (state, &sink.name), cut)?;
        }
        if state.is_some() {
            state::declare(sink, bar);
        }
        sinks.push(part);
    }
    let dead_letters = open_letters(pipeline, checkpoint.is_some(), bar);
    Ok(Parts {
        shards,
        plan: pipeline.plan.clone(),
        symbols,
        progress: pipeline.progress,
        refinement,
        sources,
        sinks,
        dead_letters: dead_letters.map_err(RunFailure::DeadLetters)?,
        limits: pipeline.limits,
        state: state.map(|state| state.part),
        tracing,
    })
}

/// Where dead letters go, if they are kept: behind what was written, if the run goes on.
fn open_letters(
    pipeline: &Pipeline,
    goes_on: bool,
    bar: &Bar,
) -> Result<Option<DeadLetters>, SinkError> {
    let config = &pipeline.dead_letters;
    let open = if goes_on { DeadLetterFile::append } else { DeadLetterFile::create };
    let file = config.file.as_deref().map(open).transpose()?;
    let topic = config.topic.as_ref().map(|topic| letter_topic(topic, bar)).transpose()?;
    Ok(config.is_set().then(|| DeadLetters::new(file, topic)))
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

/// What outputs share.
struct Outputs<'a> {
    plan: &'a Arc<Plan>,
    symbols: &'a Arc<Symbols>,
    carriers: &'a Carriers,
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
            SinkKind::Kafka(config) => {
                let known = (self.plan.clone(), self.symbols.clone());
                let has_output = cut.is_some_and(|cut| cut.blocks > 0);
                self.carriers.writer((name, config), (delivery, has_output), known, self.bar)
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
