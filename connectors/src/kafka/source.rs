//! Topics as a source: every partition with a watermark of its own, read at positions that the
//! pipeline stores.

use super::client::{ClientSettings, KafkaError, not_made};
use super::decode::Decoder;
use super::ears::Ears;
use super::out::carrier::Carrier;
use super::partitions::{Start, Until};
use super::poller::{Assignment, Poller};
use super::position::{self, KafkaPosition, Stored, offsets};
use super::queue::{self, Chunk, Known, Queue};
use super::standing::{progress, stands};
use super::statistics;
use crate::dead_letter::Place;
use crate::flow_intake::FlowContext;
use crate::plight::Plight;
use crate::source::{
    PartitionLag, Polled, Position, Progress, Source, SourceError, State, position_of,
};
use crate::text::{FlowLayout, RecordSchema};
use nilometer_model::row::{self, RowLayout};
use nilometer_model::symbol::Symbols;
use rdkafka::consumer::{BaseConsumer, Consumer};
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use super::partitions::{Start as KafkaStart, Until as KafkaUntil};
pub use super::position::stored_offsets;

/// What the values of records are.
#[derive(Debug, Clone)]
pub enum KafkaFormat {
    /// Flow documents, as messages of protocol buffers; see `flow.proto`.
    FlowProtobuf(FlowContext),
    /// JSON objects, read by a field map.
    Json {
        /// Which member is which field.
        schema: RecordSchema,
        /// Where event times come from.
        time: RecordTime,
    },
    /// Flows as JSON objects of a known layout.
    Flows(FlowLayout, FlowContext),
    /// Datagrams of exporters, one per record; the key says who sent it.
    Netflow {
        /// How their flows are normalised.
        context: FlowContext,
        /// Who sent those whose key is no address.
        exporter: Option<IpAddr>,
    },
}

/// Where event times come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordTime {
    /// The member of the value that the schema names.
    Field,
    /// The timestamp of the record in its partition.
    Timestamp,
}

/// What a source of topics reads.
#[derive(Debug, Clone)]
pub struct KafkaSettings {
    /// How the cluster is reached.
    pub client: ClientSettings,
    /// Topics by name, or patterns that begin with `^`; at least one.
    pub topics: Vec<String>,
    /// The group of consumers that this one is in.
    pub group: Box<str>,
    /// The name of this process in the group: the same in the next process.
    pub instance: Box<str>,
    /// How many processes read the group, at least 1.
    pub nodes: usize,
    /// What values are.
    pub format: KafkaFormat,
    /// Most bytes of a value; a larger one is rejected.
    pub record_bytes_max: usize,
    /// Where to begin in partitions that nothing is stored of, when the pipeline begins.
    pub start: Start,
    /// Where to end; `None` for never.
    pub until: Option<Until>,
    /// Bytes of records that wait for the engine, about; beyond it partitions are paused.
    pub queue_bytes_max: usize,
    /// What takes offsets to a sink that commits them; `None`: they are committed here.
    pub carrier: Option<Arc<Carrier>>,
    /// Whether headers are looked at for the spans that made records.
    pub is_traced: bool,
    /// Where it is told what holds it up.
    pub plight: Plight,
}

/// Offsets that the brokers no longer had when they were to be read.
pub const LOST_OFFSETS: &str = "kafka_offsets_lost";

/// A source of topics.
pub struct KafkaSource {
    queue: Arc<Queue>,
    decoder: Decoder,
    origins: Vec<Arc<str>>,
    /// What has been taken from the queue, and how many records of it have been read.
    open: (Chunk, usize),
    /// What the thread that polls is made from; `None` once it runs.
    waiting: Option<(BaseConsumer<Ears>, Assignment)>,
    until: Option<Until>,
    carrier: Option<Arc<Carrier>>,
    instance: Arc<str>,
}

/// How long a poll waits for the first record.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long the thread that polls is waited for at the end.
const FAREWELL: Duration = Duration::from_secs(5);

impl KafkaSource {
    /// A source of records of `layout`. Nothing is read before the first poll, and the brokers need
    /// not be there.
    ///
    /// # Errors
    /// An option is wrong.
    pub fn open(
        settings: KafkaSettings,
        layout: &Arc<RowLayout>,
        symbols: Arc<Symbols>,
    ) -> Result<Self, SourceError> {
        let consumer = consumer(&settings)?;
        let KafkaSettings { format, record_bytes_max, until, .. } = settings;
        let decoder = Decoder::new(format, record_bytes_max, layout, symbols);
        let instance = Arc::from(&*settings.instance);
        let assignment = Assignment {
            topics: settings.topics,
            start: settings.start,
            until,
            brokers: settings.client.brokers,
            group: settings.group,
            instance: settings.instance,
            nodes: settings.nodes,
            queue_bytes_max: settings.queue_bytes_max,
            carrier: settings.carrier.clone(),
            is_traced: settings.is_traced,
            plight: settings.plight,
        };
        Ok(Self {
            queue: Arc::default(),
            decoder,
            origins: Vec::new(),
            open: (Chunk::default(), 0),
            waiting: Some((consumer, assignment)),
            until,
            carrier: settings.carrier,
            instance,
        })
    }

    /// Joins the group and starts the thread that polls, if it does not run. Whoever joins shuts out the
    /// process before it: not before all else of the run is known to be right.
    fn start(&mut self) -> Result<(), SourceError> {
        let Some((consumer, assignment)) = self.waiting.take() else { return Ok(()) };
        let topics: Vec<&str> = assignment.topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics).map_err(not_made)?;
        let poller = Poller::new(consumer, self.queue.clone(), assignment);
        let thread = thread::Builder::new().name("kafka".into());
        let started = thread.spawn(move || poller.run());
        started.map(drop).map_err(|error| KafkaError::Client(error.to_string().into()).into())
    }

    /// Takes the next chunk, if the one before has been read; waits for it `patience`.
    fn take_chunk(&mut self, patience: Duration, out: &mut Polled) -> Result<(), SourceError> {
        let (chunk, read) = &self.open;
        if *read < chunk.records.len() {
            return Ok(());
        }
        let is_worth = |state: &queue::State| {
            let is_told = !state.notices.is_empty() || !state.rebalances.is_empty();
            !state.chunks.is_empty() || is_told || state.failure.is_some()
        };
        let mut state = self.queue.wait(patience, is_worth);
        out.notices.append(&mut state.notices);
        out.rebalances.append(&mut state.rebalances);
        let lost = state.partitions.iter_mut().map(Known::leap);
        out.account.marks.add(LOST_OFFSETS, lost.fold(0, u64::saturating_add));
        let found = state.partitions.iter().skip(self.origins.len());
        self.origins.extend(found.map(|known| known.lag().name));
        match state.chunks.pop_front() {
            Some(chunk) => {
                state.bytes = state.bytes.saturating_sub(chunk.size());
                let (read, _) = std::mem::replace(&mut self.open, (chunk, 0));
                state.has_read(read);
                Ok(())
            }
            None => state.failure.take().map_or(Ok(()), |failure| Err(failure.into())),
        }
    }

    /// Makes records of what is open, until `read_max` have been read or letters are enough.
    fn read(&mut self, (read_max, letter_bytes): (u64, &mut usize), out: &mut Polled) {
        let begun = self.open.1;
        let ends = self.ends();
        let (chunk, read) = (&self.open.0, &mut self.open.1);
        while let Some(raw) = chunk.records.get(*read) {
            if out.account.read >= read_max || *letter_bytes >= Polled::LETTER_BYTES_MAX {
                break;
            }
            *read += 1;
            let end = ends.get(raw.partition).copied().flatten();
            let Some(origin) = self.origins.get(raw.partition) else { continue };
            // Behind the end of what is to be read.
            if end.is_none_or(|end| raw.offset < end) {
                let letters = out.letters.len();
                self.decoder.take((chunk, raw), origin, out);
                *letter_bytes += out.letter_bytes(letters);
                if let Some(context) = chunk.context(raw) {
                    out.contexts.add(context.clone());
                }
            }
        }
        let done = chunk.records.get(begun..*read).unwrap_or_default();
        let mut lost = 0_u64;
        let mut state = self.queue.lock();
        for raw in done {
            if let Some(known) = state.partitions.get_mut(raw.partition) {
                lost = lost.saturating_add(known.take(raw.offset));
            }
        }
        out.account.marks.add(LOST_OFFSETS, lost);
    }

    /// Where the reading of each partition ends.
    fn ends(&self) -> Vec<Option<i64>> {
        self.queue.lock().partitions.iter().map(|known| known.until).collect()
    }

    /// Where each partition stands, and so where all do.
    fn stands(&self, out: &mut Polled) -> State {
        stands(&self.queue.lock(), self.until.is_some(), &mut out.partitions)
    }
}

/// A consumer that has joined no group yet.
fn consumer(settings: &KafkaSettings) -> Result<BaseConsumer<Ears>, KafkaError> {
    let text = |text: &str| text.to_owned();
    // With a state that cannot move, each node is to get what it had, whoever came first.
    let strategy = if settings.nodes > 1 { "range" } else { "cooperative-sticky" };
    let mut own = vec![
        ("group.id", text(&settings.group)),
        ("group.instance.id", text(&settings.instance)),
        ("enable.auto.commit", text("false")),
        ("enable.auto.offset.store", text("false")),
        ("auto.offset.reset", text("error")),
        ("enable.partition.eof", text("true")),
        ("partition.assignment.strategy", text(strategy)),
        ("statistics.interval.ms", statistics::INTERVAL_MS.to_string()),
    ];
    // New topics and partitions are to be found soon.
    let refresh = "topic.metadata.refresh.interval.ms";
    if !settings.client.sets(refresh) {
        own.push((refresh, text("10000")));
    }
    let config = settings.client.config(&own)?;
    let consumer: BaseConsumer<Ears> =
        config.create_with_context(Ears::default()).map_err(not_made)?;
    Ok(consumer)
}

impl Source for KafkaSource {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        self.start()?;
        let read_max = out.account.read.saturating_add(records_max as u64);
        let (mut patience, mut letter_bytes) = (PATIENCE, 0);
        loop {
            self.take_chunk(patience, out)?;
            let before = self.open.1;
            self.read((read_max, &mut letter_bytes), out);
            let is_used_up = self.open.1 >= self.open.0.records.len();
            if before == self.open.1 || !is_used_up {
                break;
            }
            patience = Duration::ZERO;
        }
        Ok(self.stands(out))
    }

    /// Offsets of what is to be read, where reading has an end.
    fn progress(&self) -> Option<Progress> {
        self.until?;
        Some(progress(&self.queue.lock().partitions))
    }

    fn is_partitioned(&self) -> bool {
        true
    }

    fn hold(&mut self, partitions: &[bool]) {
        let mut state = self.queue.lock();
        if state.held != partitions {
            state.held = partitions.to_vec();
        }
    }

    fn partitions(&self) -> Vec<PartitionLag> {
        self.queue.lock().partitions.iter().map(Known::lag).collect()
    }

    fn find(&self, position: row::Position) -> Option<(Arc<str>, Place)> {
        let origin = self.origins.get(position.partition as usize)?;
        Some((origin.clone(), Place::Offset(position.offset)))
    }

    fn position(&self) -> Position {
        let partitions = self.queue.lock().partitions.iter().map(Stored::of).collect();
        let (until, feed) = (self.until, self.decoder.image());
        let position = KafkaPosition { partitions, until, feed };
        Position { bytes: position_of(&position), is_exact: true }
    }

    fn resume(&mut self, position: &[u8]) -> Result<(), SourceError> {
        let (partitions, feed) = position::resume(position, self.until)?;
        self.cut(position);
        self.queue.lock().partitions = partitions;
        self.decoder.resume(feed);
        Ok(())
    }

    fn cut(&mut self, position: &[u8]) {
        if let Some(carrier) = &self.carrier {
            carrier.cut(offsets(position), &self.instance);
        }
    }

    fn stored(&mut self, position: &[u8]) {
        let offsets = offsets(position);
        let mut state = self.queue.lock();
        // Both are by number.
        for (known, (.., next)) in state.partitions.iter_mut().zip(&offsets) {
            known.stored = *next;
        }
        if self.carrier.is_none() {
            state.commit = Some(offsets);
        }
    }
}

impl Drop for KafkaSource {
    /// The last commit is to arrive, if the brokers are there.
    fn drop(&mut self) {
        if self.waiting.is_none() {
            self.queue.lock().is_stopping = true;
            drop(self.queue.wait(FAREWELL, |state| state.has_stopped));
        }
    }
}

#[cfg(test)]
mod tests;
