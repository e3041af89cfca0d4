//! Meters: numbers that the host may read at any time, while the node runs.
//!
//! Each is written by one actor, once per batch, and is only as exact as that: what has to add up
//! comes with the [`crate::report`]s at the end. How the watermark stands is noted with each tick.

use crate::clock::Stopwatch;
use crate::figures::{ShardFigures, SinkFigures, SourceFigures, StoreFigures};
use crate::report::StoreReport;
use nilometer_connectors::account::SourceAccount;
use nilometer_connectors::source::Progress;
use nilometer_model::epoch::Epoch;
use nilometer_model::node::credit::Credit;
use nilometer_model::pane::StageId;
use nilometer_model::sequence::SequenceUse;
use nilometer_model::time::{EventTime, Watermark};
use nilometer_model::watermark::Standing;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whether an actor is in a call that may take as long as others like: to its input, its output or
/// the disk.
#[derive(Debug, Default)]
pub(crate) struct Busy(AtomicBool);

impl Busy {
    /// What `call` gives, during which it says so.
    pub(crate) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.0.store(true, Relaxed);
        let given = call();
        self.0.store(false, Relaxed);
        given
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// What is shown. Whoever shows it or looks at it holds it for as long as a copy takes.
fn held<T>(shown: &Mutex<T>) -> MutexGuard<'_, T> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Meters of one source.
#[derive(Debug, Default)]
pub struct SourceMeter {
    pub(crate) reading: Busy,
    records: AtomicU64,
    done: AtomicU64,
    total: AtomicU64,
    /// Locked by the source for as long as it takes to put another in its place.
    holder: Mutex<Option<Arc<str>>>,
    /// Names of its partitions, by number. Locked by the source, when there are more of them.
    names: Mutex<Vec<Arc<str>>>,
    /// What it has counted. Locked by the source, at a tick, for as long as it takes to put others
    /// in its place.
    figures: Mutex<SourceFigures>,
}

impl SourceMeter {
    pub(crate) fn set(&self, records: u64, progress: Option<Progress>) {
        self.records.store(records, Relaxed);
        if let Some(progress) = progress {
            self.done.store(progress.done, Relaxed);
            self.total.store(progress.total, Relaxed);
        }
    }

    pub(crate) fn set_holder(&self, partition: Option<Arc<str>>) {
        *held(&self.holder) = partition;
    }

    /// The name of the partition that holds the source back, if it reads several and one does.
    pub fn holder(&self) -> Option<Arc<str>> {
        held(&self.holder).clone()
    }

    pub(crate) fn set_names(&self, names: Vec<Arc<str>>) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// The name of partition `number` of a source of several, as soon as a record of it was read.
    pub fn name(&self, number: u32) -> Option<Arc<str>> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(number as usize).cloned()
    }

    /// What it had counted at the last tick.
    pub fn figures(&self) -> SourceFigures {
        held(&self.figures).clone()
    }

    /// What it has counted before it reads on, which may take as long as its input likes.
    pub(crate) fn set_account(&self, account: &SourceAccount, in_flight: Credit) {
        let mut figures = held(&self.figures);
        figures.account.clone_from(account);
        figures.in_flight = in_flight;
    }

    pub(crate) fn set_figures(&self, figures: SourceFigures) {
        *held(&self.figures) = figures;
    }

    /// Records read so far.
    pub fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// How far a bounded input has been read; a total of 0 where the end is not known.
    pub fn progress(&self) -> Progress {
        Progress { done: self.done.load(Relaxed), total: self.total.load(Relaxed) }
    }
}

/// Meters of a node.
#[derive(Debug)]
pub struct Meters {
    sources: Vec<SourceMeter>,
    /// Whether somebody looks at figures while the node runs. Set once.
    is_watched: AtomicBool,
    /// By sink.
    pub(crate) writing: Vec<Busy>,
    pub(crate) storing: Busy,
    watermark: AtomicI64,
    /// Number of the last epoch that is durable.
    durable: AtomicU64,
    /// Microseconds of the longest pause of a shard. Rises only.
    pause_max: AtomicU64,
    /// Locked by the store for as long as it takes to put another in its place.
    store: Mutex<Option<StoreFigures>>,
    /// Locked by the coordinator for as long as it takes to put another in its place.
    standing: Mutex<Option<(Standing, Stopwatch)>>,
    /// By shard. Each is locked by its shard, at a tick, for as long as it takes to put others in
    /// its place; `None` before the first.
    shards: Vec<Mutex<Option<ShardFigures>>>,
    /// By sink, the same.
    sinks: Vec<Mutex<SinkFigures>>,
}

impl Meters {
    pub(crate) fn new(sources: usize, shards: usize, sinks: usize) -> Self {
        Self {
            sources: (0..sources).map(|_| SourceMeter::default()).collect(),
            is_watched: AtomicBool::new(false),
            writing: (0..sinks).map(|_| Busy::default()).collect(),
            storing: Busy::default(),
            watermark: AtomicI64::new(Watermark::MIN.0.as_millis()),
            durable: AtomicU64::new(0),
            pause_max: AtomicU64::new(0),
            store: Mutex::default(),
            standing: Mutex::default(),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            sinks: (0..sinks).map(|_| Mutex::default()).collect(),
        }
    }

    /// From now on somebody looks: what takes time to find out is found out.
    pub(crate) fn watch(&self) {
        self.is_watched.store(true, Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Relaxed)
    }

    /// The meters of the sources, in their order.
    pub fn sources(&self) -> &[SourceMeter] {
        &self.sources
    }

    /// The watermark that was broadcast last.
    pub fn watermark(&self) -> Watermark {
        Watermark(EventTime::from_millis(self.watermark.load(Relaxed)))
    }

    /// The last epoch that this process has made durable; [`Epoch::NONE`] before the first.
    pub fn durable(&self) -> Epoch {
        Epoch::from_number(self.durable.load(Relaxed))
    }

    /// What the store has counted so far; `None` before the first epoch is durable.
    pub fn store(&self) -> Option<StoreReport> {
        self.store_figures().map(|figures| figures.report)
    }

    /// What the store has counted so far, and how long epochs took.
    pub fn store_figures(&self) -> Option<StoreFigures> {
        held(&self.store).clone()
    }

    /// The longest time that handing its state over has stopped a shard for, so far.
    pub fn pause_max(&self) -> Duration {
        Duration::from_micros(self.pause_max.load(Relaxed))
    }

    pub(crate) fn set_store(&self, figures: StoreFigures) {
        *held(&self.store) = Some(figures);
    }

    pub(crate) fn set_pause(&self, pause: Duration) {
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.pause_max.fetch_max(micros, Relaxed);
    }

    pub(crate) fn set_durable(&self, epoch: Epoch) {
        self.durable.store(epoch.number(), Relaxed);
    }

    /// How the watermark stood at the last tick: who holds it and by how much, and every source by
    /// its place among them. `None` before the first tick.
    pub fn standing(&self) -> Option<Standing> {
        self.noted().map(|(standing, _)| standing)
    }

    /// How long ago the last tick was; `None` before the first.
    pub fn since_tick(&self) -> Option<Duration> {
        self.noted().map(|(_, noted)| noted.elapsed())
    }

    fn noted(&self) -> Option<(Standing, Stopwatch)> {
        held(&self.standing).clone()
    }

    pub(crate) fn set_standing(&self, standing: Standing) {
        *held(&self.standing) = Some((standing, Stopwatch::start()));
    }

    /// What the sequences of all shards kept at the last tick, by stage.
    pub fn sequences(&self) -> BTreeMap<StageId, SequenceUse> {
        let shards = self.shards();
        SequenceUse::total(shards.iter().flatten().flat_map(|shard| &shard.sequences))
    }

    /// What each shard had counted at the last tick; `None` before the first.
    pub fn shards(&self) -> Vec<Option<ShardFigures>> {
        let figures = |shard: &Mutex<Option<ShardFigures>>| held(shard).clone();
        self.shards.iter().map(figures).collect()
    }

    pub(crate) fn set_shard(&self, shard: usize, figures: ShardFigures) {
        if let Some(known) = self.shards.get(shard) {
            *held(known) = Some(figures);
        }
    }

    /// What each sink had counted at the last tick.
    pub fn sinks(&self) -> Vec<SinkFigures> {
        let figures = |sink: &Mutex<SinkFigures>| held(sink).clone();
        self.sinks.iter().map(figures).collect()
    }

    pub(crate) fn set_sink(&self, sink: usize, figures: SinkFigures) {
        if let Some(known) = self.sinks.get(sink) {
            *held(known) = figures;
        }
    }

    pub(crate) fn set_watermark(&self, watermark: Watermark) {
        self.watermark.store(watermark.0.as_millis(), Relaxed);
    }
}
