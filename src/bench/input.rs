//! The input of the benchmark: generated flow records, decoded or as JSON text.
//!
//! Every conversation comes equally often, in a scrambled order: the hard case for caches, and the
//! one in which the number of keys is exact. No record comes behind the watermark, so that both
//! sides agree on what counts.

use super::job::{OUT_OF_ORDERNESS, WINDOW};
use super::packed::{Place, Record, What};
use nilometer_connectors::flow_intake::{FlowContext, FlowIntake};
use nilometer_connectors::generator::{
    FlowGenerator, GeneratorSettings, GeneratorSource, Start, write_opennms,
};
use nilometer_connectors::kafka::write_flow;
use nilometer_connectors::source::{Polled, Source, SourceError, State};
use nilometer_connectors::text::{FlowLayout, TextFiles, TextFormat, TextSettings};
use nilometer_model::flow::{
    Applications, Exporters, Flow, FlowSettings, MalformedFlow, normalise,
};
use nilometer_model::row::{RowBatch, RowLayout};
use nilometer_model::symbol::{SymbolCache, Symbols, SymbolsFull};
use nilometer_model::time::{EventTime, Span};
use nilometer_model::value::ip_bits;
use std::sync::Arc;

/// Records of one batch.
pub(super) const BATCH_RECORDS: usize = 4_096;

/// How many and which records are generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InputSettings {
    /// Conversations, all of which are live in every window.
    pub(super) keys: u64,
    /// Records in all.
    pub(super) records: u64,
    pub(super) seed: u64,
}

impl InputSettings {
    /// In how many windows the records lie.
    const WINDOWS: u64 = 4;

    /// Event time of the first record; a multiple of the window.
    const START: EventTime = EventTime::from_millis(1_700_000_040_000);

    /// The settings of the generator.
    pub(super) fn generator(self) -> GeneratorSettings {
        let seconds = WINDOW.as_millis().unsigned_abs() / 1_000 * Self::WINDOWS;
        GeneratorSettings {
            seed: self.seed,
            records: Some(self.records),
            rate: (self.records / seconds).max(1),
            start: Start::At(Self::START),
            // Enough of both that shards get about the same.
            exporters: 8,
            interfaces: 8,
            hosts: (self.keys / 4).clamp(64, 4_000_000) as u32,
            applications: 60,
            dscps: 4,
            conversations: self.keys,
            skew: 0.0,
            // Longest flow and disorder together stay below the out-of-orderness.
            disorder: Span::from_millis(OUT_OF_ORDERNESS.as_millis() / 4),
            late_share: 0.0,
            late_by: Span::ZERO,
            duration: Span::from_millis(OUT_OF_ORDERNESS.as_millis() / 4),
            long_share: 0.0,
            long_duration: Span::ZERO,
            sampling: vec![1, 1, 10, 1_000],
            ipv6_share: 0.2,
        }
    }

    fn flows(self) -> FlowGenerator {
        FlowGenerator::new(self.generator(), Self::START)
    }
}

/// A source that generates while it is read.
pub(super) fn source(
    settings: InputSettings,
    layout: &RowLayout,
    symbols: &Arc<Symbols>,
) -> GeneratorSource {
    let intake = FlowIntake::new(FlowContext::default(), layout, symbols.clone(), 0);
    GeneratorSource::new(settings.generator(), intake)
}

/// The records as batches of rows.
pub(super) fn batches(
    settings: InputSettings,
    layout: &Arc<RowLayout>,
    symbols: &Arc<Symbols>,
) -> Result<Vec<RowBatch>, SourceError> {
    let mut source = source(settings, layout, symbols);
    let mut polled = Polled::new(layout.clone(), false);
    let mut batches = Vec::new();
    loop {
        let state = source.poll(BATCH_RECORDS, &mut polled)?;
        batches.push(std::mem::replace(&mut polled.batch, RowBatch::new(layout.clone())));
        if state != State::More {
            return Ok(batches);
        }
    }
}

/// A source over lines of JSON in memory.
pub(super) fn json_source(
    text: String,
    layout: &Arc<RowLayout>,
    symbols: &Arc<Symbols>,
) -> Result<TextFiles, SourceError> {
    let settings = TextSettings {
        paths: Vec::new(),
        format: TextFormat::Flows(FlowLayout::Opennms, FlowContext::default()),
        line_bytes_max: TextSettings::LINE_BYTES_MAX,
        partition: 0,
    };
    TextFiles::over(("memory", text.into_bytes()), &settings, layout, symbols.clone())
}

/// The records as lines of JSON.
pub(super) fn json(settings: InputSettings) -> String {
    let mut text = String::new();
    for flow in settings.flows() {
        write_opennms(&flow, &mut text);
    }
    text
}

/// The records as JSON, each by itself.
pub(super) fn json_values(settings: InputSettings) -> impl Iterator<Item = Vec<u8>> {
    settings.flows().map(|flow| {
        let mut text = String::new();
        write_opennms(&flow, &mut text);
        text.into_bytes()
    })
}

/// The records as messages of protocol buffers.
pub(super) fn protobuf(settings: InputSettings) -> impl Iterator<Item = Vec<u8>> {
    settings.flows().map(|flow| write_flow(&flow))
}

/// A generated record that the job cannot use.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    /// It cannot be normalised.
    #[error("generated record: {0}")]
    Malformed(#[from] MalformedFlow),
    /// There are too many texts.
    #[error("generated record: {0}")]
    Texts(#[from] SymbolsFull),
    /// An amount that the hand-written loop cannot hold.
    #[error("generated record: {0} does not fit 64 bits")]
    TooLarge(u128),
}

/// The records as the hand-written loop wants them.
pub(super) fn records(
    settings: InputSettings,
    symbols: &Symbols,
) -> Result<Vec<Record>, InputError> {
    let mut decoder = Decoder::default();
    settings.flows().map(|flow| decoder.record(&flow, symbols)).collect()
}

/// Makes records of flows.
#[derive(Debug, Default)]
struct Decoder {
    exporters: Exporters,
    applications: Applications,
    texts: SymbolCache,
    text: String,
}

impl Decoder {
    fn record(&mut self, flow: &Flow, symbols: &Symbols) -> Result<Record, InputError> {
        let normal = normalise(flow, &self.exporters, &self.applications, FlowSettings::default())?;
        self.text.clear();
        normal.exporter.write_json(&mut self.text);
        let exporter = self.texts.intern(symbols, &self.text)?;
        let application = self.texts.intern(symbols, normal.application)?;
        let location = flow.location.as_deref().unwrap_or("");
        let location = self.texts.intern(symbols, location)?;
        let narrow = |amount| u64::try_from(amount).map_err(|_| InputError::TooLarge(amount));
        Ok(Record {
            place: Place::new(exporter, normal.if_index),
            what: What::new(application, location, flow.protocol.unwrap_or(0), normal.dscp),
            lower: normal.lower.map_or(0, ip_bits),
            upper: normal.upper.map_or(0, ip_bits),
            bytes: narrow(normal.bytes)?,
            packets: narrow(normal.packets)?,
            first: normal.extent.first().as_millis(),
            last: normal.extent.last().as_millis(),
            is_ingress: normal.direction == nilometer_model::flow::Direction::Ingress,
            is_congested: normal.is_congestion_encountered(),
            is_non_ect: normal.is_non_ect(),
        })
    }
}
