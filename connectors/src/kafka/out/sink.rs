//! The sinks: panes and late copies, encoded into blocks, which are sent at once, or held until their
//! epoch is durable.

use super::block::{Block, Header};
use super::encode::PaneRecords;
use super::repeats::Repeats;
use super::settings::{KafkaSinkSettings, OutFormat, Retractions};
use super::transactions::{self, Transactions};
use crate::panes::{Delivery, LateText};
use crate::sink::{Held, Receipt, Sink, SinkError};
use crate::trace_context;
use nilometer_model::late::LateBatch;
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::Plan;
use nilometer_model::symbol::Symbols;
use opentelemetry::trace::SpanContext;
use std::sync::Arc;

/// Bytes that are sent together where nothing is held.
const TOGETHER: usize = 4 << 20;

/// What an epoch holds that has offsets and no results: bytes that are no record.
const NO_RECORDS: [u8; 1] = [0];

/// What blocks go through.
#[derive(Debug)]
struct Outlet {
    block: Block,
    /// Headers that say which span writes.
    trace: Vec<(&'static str, String)>,
    is_held: bool,
    way: Way,
}

#[derive(Debug)]
enum Way {
    ExactlyOnce(Box<Transactions>),
    AtLeastOnce(Box<Repeats>),
}

impl Outlet {
    fn open(settings: KafkaSinkSettings) -> Result<Self, SinkError> {
        let is_held = settings.delivery != Delivery::AtOnce;
        let way = match settings.transactions.clone() {
            Some(transactions) => {
                let made = Transactions::new(settings, transactions)?;
                Way::ExactlyOnce(Box::new(made))
            }
            None => Way::AtLeastOnce(Box::new(Repeats::new(settings)?)),
        };
        Ok(Self { block: Block::default(), trace: Vec::new(), is_held, way })
    }

    /// A batch has been encoded.
    fn written(&mut self) -> Result<(), SinkError> {
        if self.block.len() < TOGETHER { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if self.is_held || self.block.len() == 0 {
            return Ok(());
        }
        let block = self.block.take();
        while self.publish(&block, true)? == Receipt::Again {}
        Ok(())
    }

    fn take(&mut self, least: usize) -> Option<Held> {
        if !self.is_held || self.block.len() < least {
            return None;
        }
        let begins = match &mut self.way {
            Way::ExactlyOnce(transactions) => {
                // Asked for all there is, an epoch ends here.
                let is_news = least == 0 && transactions.cut();
                let begins = Some(transactions.published());
                if is_news && self.block.len() == 0 {
                    return Some(Held { block: NO_RECORDS.to_vec(), begins });
                }
                begins
            }
            Way::AtLeastOnce(_) => None,
        };
        Some(Held { block: self.block.take(), begins })
    }

    fn publish(&mut self, block: &[u8], is_last: bool) -> Result<Receipt, SinkError> {
        match &mut self.way {
            Way::ExactlyOnce(transactions) => Ok(transactions.publish(block, is_last)?),
            Way::AtLeastOnce(repeats) => {
                repeats.send(block)?;
                Ok(Receipt::Taken)
            }
        }
    }
}

/// Makes records of a topic of batches.
trait Encode<B>: Send {
    /// Appends the records of `batch` to `block`, with the headers `trace`.
    fn encode(&self, batch: &B, trace: &[Header<'_>], block: &mut Block);
}

impl Encode<PaneBatch> for PaneRecords {
    fn encode(&self, batch: &PaneBatch, trace: &[Header<'_>], block: &mut Block) {
        self.write(batch, trace, block);
    }
}

/// Encodes copies that came late.
struct LateRecords {
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
}

impl Encode<LateBatch> for LateRecords {
    fn encode(&self, batch: &LateBatch, trace: &[Header<'_>], block: &mut Block) {
        let plan = &self.plan;
        let Some(stage) = plan.stages.get(batch.stage.index()) else { return };
        let text = LateText::of(&plan.name, stage, batch);
        for copy in batch.iter() {
            let mut value = String::new();
            text.write(copy, &self.symbols, &mut value);
            let position = format!("{}/{}", copy.position.partition, copy.position.offset);
            let headers = [
                ("nilometer.pipeline", plan.name.as_bytes()),
                ("nilometer.stage", stage.name.as_bytes()),
                ("nilometer.kind", b"late".as_slice()),
                ("nilometer.reason", copy.reason.name().as_bytes()),
                ("nilometer.position", position.as_bytes()),
            ];
            let headers = headers.iter().chain(trace);
            block.push(None, Some(value.as_bytes()), headers.copied());
        }
    }
}

/// Writes batches to a topic.
struct TopicSink<E> {
    encoder: E,
    outlet: Outlet,
}

/// Looks whether the state goes with what has come out, if brokers say so within a moment: whoever is
/// refused then has shut out nobody. What they do not say now is looked at again before anything is
/// written. `has_output` says whether the last epoch of the state holds output of the sink.
///
/// # Errors
/// It does not, or an option is wrong.
pub fn check(settings: &KafkaSinkSettings, has_output: bool) -> Result<(), SinkError> {
    match &settings.transactions {
        Some(transactions) => Ok(transactions::check(settings, transactions, has_output)?),
        None => Ok(()),
    }
}

/// What writes panes, and the records of sessions, of `plan` to the sink called `name`. Connects with
/// nobody yet.
///
/// # Errors
/// An option is wrong.
pub fn panes(
    (name, format): (&str, OutFormat),
    retractions: Retractions,
    settings: KafkaSinkSettings,
    (plan, symbols): (Arc<Plan>, Arc<Symbols>),
) -> Result<Box<dyn Sink>, SinkError> {
    let encoder = PaneRecords::new((name, format), retractions, plan, symbols);
    Ok(Box::new(TopicSink { encoder, outlet: Outlet::open(settings)? }))
}

/// What writes copies that came late for stages of `plan`. Connects with nobody yet.
///
/// # Errors
/// An option is wrong.
pub fn late(
    settings: KafkaSinkSettings,
    (plan, symbols): (Arc<Plan>, Arc<Symbols>),
) -> Result<Box<dyn Sink<LateBatch>>, SinkError> {
    let encoder = LateRecords { plan, symbols };
    Ok(Box::new(TopicSink { encoder, outlet: Outlet::open(settings)? }))
}

impl<B, E: Encode<B>> Sink<B> for TopicSink<E> {
    fn write(&mut self, batch: &B) -> Result<(), SinkError> {
        let Outlet { block, trace, .. } = &mut self.outlet;
        let trace: Vec<_> = trace.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.encoder.encode(batch, &trace, block);
        self.outlet.written()
    }

    fn trace(&mut self, context: Option<SpanContext>) {
        self.outlet.trace = context.as_ref().map(trace_context::headers).unwrap_or_default();
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.outlet.flush()
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.outlet.flush()
    }

    fn take(&mut self, least: usize) -> Option<Held> {
        self.outlet.take(least)
    }

    fn publish(&mut self, block: &[u8], is_last: bool) -> Result<Receipt, SinkError> {
        self.outlet.publish(block, is_last)
    }
}
