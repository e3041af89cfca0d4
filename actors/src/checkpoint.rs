//! The parts of an epoch as they lie in a store: what each actor puts there, and how all of it is
//! found again.

use nilometer_connectors::account::SourceAccount;
use nilometer_connectors::store::{Store, StoreError};
use nilometer_model::cold::PageError;
use nilometer_model::epoch::Epoch;
use nilometer_model::image::{
    Begins, Cut, ImageError, Restoration, Segment, pack, place_displaced,
};
use nilometer_model::plan::Plan;
use nilometer_model::shard::Shard;
use nilometer_model::symbol::Symbols;
use nilometer_model::watermark::{Coordinator, EstimatesImage, Renumbering};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// A piece of a part: its name, and its bytes.
pub type Piece = (Box<str>, Vec<u8>);

/// A stored epoch cannot be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not what this program stores.
    #[error(
        "the stored epoch {epoch} has no usable part `{part}`; run the version that wrote it, or delete the state directory to start anew"
    )]
    Part {
        /// The epoch.
        epoch: Epoch,
        /// Name of the part.
        part: Box<str>,
    },
}

/// What an actor puts into an epoch.
#[derive(Debug, Clone)]
pub struct Part {
    /// What is of this epoch.
    pub pieces: Vec<Piece>,
    /// Of a shard: what goes into the log.
    pub segments: Vec<Segment>,
    /// Of a shard: from which epoch on it builds on the log.
    pub oldest: Option<Epoch>,
}

impl From<Vec<Piece>> for Part {
    fn from(pieces: Vec<Piece>) -> Self {
        Self { pieces, segments: Vec::new(), oldest: None }
    }
}

/// Stored shards cannot be made anew.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// What is stored of them cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It does not fit.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Keys that are not in memory cannot be had.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// A source where it was cut.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceCut {
    /// Its position, as the source told it.
    pub position: Vec<u8>,
    /// Whether its input gives the same records again from there.
    pub is_exact: bool,
    /// What it had counted.
    pub account: SourceAccount,
    /// Its watermark estimates.
    pub estimates: EstimatesImage,
    /// Records of the cycle of micro-batches that it had handed on.
    pub cycle_records: u64,
}

/// A shard where it was cut, but for what it keeps by key.
#[derive(Debug, Clone)]
pub struct ShardCut {
    /// Records that it had taken.
    pub records: u64,
    /// What it keeps that is of no key.
    pub part: Vec<u8>,
}

/// A sink where it was cut.
#[derive(Debug, Clone)]
pub struct SinkCut {
    /// Where its output begins that is of this epoch, if it can be cut off there.
    pub begins: Option<u64>,
    /// Blocks of its output of this epoch, as they are published: see [`outbox_block`].
    pub blocks: u32,
    /// Whether that has been published, as far as is known.
    pub is_published: bool,
    /// What it had counted.
    pub counts: SinkCounts,
}

/// What a sink had counted: panes, retractions, late copies.
pub type SinkCounts = (u64, u64, u64);

impl SinkCut {
    /// The blocks that are to be published before anything else, by number: what was cut off is
    /// written again; what cannot be cut off, only if it is missing.
    pub const fn missing(&self) -> Range<u32> {
        let is_missing = self.begins.is_some() || !self.is_published;
        0..if is_missing { self.blocks } else { 0 }
    }
}

/// A stored epoch.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its number.
    pub epoch: Epoch,
    /// Its sources, by partition; `None` for one that begins anew.
    pub sources: Vec<Option<SourceCut>>,
    /// Its sinks, in their order; `None` for one that begins anew.
    pub sinks: Vec<Option<SinkCut>>,
    /// The coordinator.
    pub coordinator: Coordinator,
    /// The shards that there were, by number.
    pub shards: Vec<ShardCut>,
    /// Which numbers partitions and shares of the records have in it.
    pub renumbering: Renumbering,
    /// What of the shards begins anew.
    pub begins: Begins,
}

/// What goes on with an epoch: the names of its sources and sinks.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// Names of the sources, by partition.
    pub sources: &'a [Arc<str>],
    /// Names of the sinks.
    pub sinks: &'a [Arc<str>],
    /// How they differ from what the epoch was stored of.
    pub changes: &'a Changes,
}

/// How what goes on differs from what was stored. What a host does not name here and the epoch does
/// not hold is an error; what the epoch holds beyond it is forgotten.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Which partitions and shares of the records the epoch has; `None`: all, as they are.
    pub renumbering: Option<Renumbering>,
    /// Sinks that begin anew.
    pub new_sinks: Vec<Arc<str>>,
    /// What of the shards begins anew; the watermark is that of the epoch.
    pub begins: Begins,
}

/// Name of the part that the host gives.
const HOST: &str = "pipeline";
const COORDINATOR: &str = "coordinator";
/// Name of the part that says how many shards there were.
const SHARDS: &str = "shards";
/// Bytes of a piece of the log, about: chunks of it are filled, and it fits into memory.
const PIECE_BYTES: usize = 1 << 20;

/// What the host has stored with the last epoch of `store`; `None` if there is no epoch.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn host_part(store: &dyn Store) -> Result<Option<Vec<u8>>, CheckpointError> {
    if store.last() == Epoch::NONE { Ok(None) } else { Loader(store).bytes(HOST).map(Some) }
}

/// Block `number` of what the last epoch of `store` holds of the output of the sink called `sink`.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn outbox_block(
    store: &dyn Store,
    sink: &str,
    number: u32,
) -> Result<Vec<u8>, CheckpointError> {
    Loader(store).bytes(&outbox_name(sink, number))
}

/// Whether results of the last epoch may not have been written by the sink called `name`, which was
/// one of the epoch.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn has_results(store: &dyn Store, name: &str) -> Result<bool, CheckpointError> {
    let cut = Loader(store).sink(name, store.last())?;
    for number in if cut.is_published { 0..0 } else { 0..cut.blocks } {
        if !outbox_block(store, name, number)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl CheckpointError {
    /// What the host has stored with an epoch is not what it stores.
    pub fn no_host(epoch: Epoch) -> Self {
        Self::Part { epoch, part: HOST.into() }
    }
}

impl Checkpoint {
    /// The last epoch of `store`, which has this `shape`; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not one of this shape.
    pub fn load(store: &dyn Store, shape: Shape<'_>) -> Result<Option<Self>, CheckpointError> {
        let epoch = store.last();
        if epoch == Epoch::NONE {
            return Ok(None);
        }
        let loader = Loader(store);
        let coordinator: Coordinator = loader.part(COORDINATOR)?;
        let Changes { renumbering, new_sinks, begins } = shape.changes;
        let as_they_are = || Renumbering::none(shape.sources.len(), coordinator.shares().len());
        let renumbering = renumbering.clone().unwrap_or_else(as_they_are);
        let sources = shape.sources.iter().zip(&renumbering.partitions);
        let sources = sources.map(|(name, stored)| {
            stored.is_some().then(|| loader.part(&source_name(name))).transpose()
        });
        let sinks = shape.sinks.iter().map(|name| {
            let is_known = !new_sinks.contains(name);
            is_known.then(|| loader.sink(name, epoch)).transpose()
        });
        let shards = (0..loader.part(SHARDS)?).map(|shard| loader.shard(shard));
        Ok(Some(Self {
            epoch,
            sources: sources.collect::<Result<_, _>>()?,
            sinks: sinks.collect::<Result<_, _>>()?,
            shards: shards.collect::<Result<_, _>>()?,
            begins: Begins { watermark: coordinator.watermark(), ..begins.clone() },
            coordinator,
            renumbering,
        }))
    }
}

impl Checkpoint {
    /// By source, how many records had been read, and its position; nothing of one that begins.
    pub fn read(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.sources.iter().map(|cut| match cut {
            Some(cut) if self.begins.counts => (0, &*cut.position),
            Some(cut) => (cut.account.read, &*cut.position),
            None => (0, Default::default()),
        })
    }
}

/// Reads parts of the last epoch.
struct Loader<'a>(&'a dyn Store);

impl Loader<'_> {
    fn bytes(&self, part: &str) -> Result<Vec<u8>, CheckpointError> {
        self.0.read(part)?.ok_or_else(|| self.unusable(part))
    }

    fn part<T: for<'a> Deserialize<'a>>(&self, part: &str) -> Result<T, CheckpointError> {
        postcard::from_bytes(&self.bytes(part)?).map_err(|_| self.unusable(part))
    }

    fn shard(&self, shard: usize) -> Result<ShardCut, CheckpointError> {
        let records = self.part(&shard_count_name(shard))?;
        Ok(ShardCut { records, part: self.bytes(&shard_name(shard))? })
    }

    fn sink(&self, name: &str, epoch: Epoch) -> Result<SinkCut, CheckpointError> {
        let (begins, counts, blocks) = self.part(&sink_name(name))?;
        let is_published = self.0.noted(&sink_name(name))? >= epoch;
        Ok(SinkCut { begins, blocks, is_published, counts })
    }

    fn unusable(&self, part: &str) -> CheckpointError {
        CheckpointError::Part { epoch: self.0.last(), part: part.into() }
    }
}

fn source_name(name: &str) -> String {
    format!("source/{name}")
}

fn shard_name(shard: usize) -> String {
    format!("shard/{shard}")
}

fn shard_count_name(shard: usize) -> String {
    format!("shard/{shard}/records")
}

/// Name of a sink's part, and of the note that says up to where it has published.
pub fn sink_name(name: &str) -> String {
    format!("sink/{name}")
}

/// Name of a block of the outbox of a sink.
pub fn outbox_name(sink: &str, number: u32) -> String {
    format!("outbox/{sink}/{number}")
}

fn bytes_of(part: &impl Serialize) -> Vec<u8> {
    // Into memory, of types that all serialise: nothing can fail.
    postcard::to_stdvec(part).unwrap_or_default()
}

/// What the coordinator puts into an epoch; `host` is what the host gave.
pub fn coordinator_pieces(machine: &Coordinator, shards: usize, host: &[u8]) -> Vec<Piece> {
    let shards = (SHARDS.into(), bytes_of(&shards));
    vec![(COORDINATOR.into(), bytes_of(machine)), shards, (HOST.into(), host.into())]
}

/// What the source called `name` puts into an epoch.
pub fn source_pieces(name: &str, cut: &SourceCut) -> Vec<Piece> {
    vec![(source_name(name).into(), bytes_of(cut))]
}

/// What shard `shard`, which has taken so many records, puts into an epoch.
pub fn shard_part(shard: usize, records: u64, cut: Cut) -> Part {
    let count = (shard_count_name(shard).into(), bytes_of(&records));
    let pieces = vec![count, (shard_name(shard).into(), cut.part)];
    Part { pieces, segments: cut.segments, oldest: Some(cut.oldest) }
}

/// Writes a part of `epoch` ahead; returns its bytes.
///
/// # Errors
/// It cannot be written.
pub fn write_part(
    store: &mut dyn Store,
    epoch: Epoch,
    part: Part,
    plan: &Plan,
) -> Result<u64, StoreError> {
    let mut written = 0;
    for (name, bytes) in part.pieces {
        written += bytes.len() as u64;
        store.put(epoch, &name, &bytes)?;
    }
    for piece in pack(plan, part.segments, PIECE_BYTES) {
        written += piece.len() as u64;
        store.append(epoch, &piece)?;
    }
    Ok(written)
}

/// `shards` shards of `plan` as the last epoch of `store`, which `cuts` are of, has them, but for what
/// begins anew; and how many records each has taken. Together they keep `memory` bytes of state in
/// memory, if that is set.
///
/// # Errors
/// It cannot be read, is damaged, or is not of this plan.
pub fn restore_shards(
    store: &dyn Store,
    (cuts, begins): (Vec<ShardCut>, Begins),
    (plan, symbols): (&Arc<Plan>, &Arc<Symbols>),
    (shards, memory): (usize, Option<usize>),
) -> Result<Vec<(Shard, u64)>, RestoreError> {
    let counts_begin = begins.counts;
    let (counts, parts): (Vec<_>, Vec<_>) =
        cuts.into_iter().map(|cut| (cut.records, cut.part)).unzip();
    let (plan, symbols) = (Arc::clone(plan), Arc::clone(symbols));
    let mut restoration = Restoration::but(plan, symbols, shards, &parts, Some(begins))?;
    for piece in store.log() {
        restoration.take(piece.epoch, &store.piece(piece)?)?;
    }
    // What cannot be told apart any more is counted by the first.
    let is_same = counts.len() == shards;
    let mut counts = if is_same { counts } else { vec![counts.iter().sum()] };
    counts.resize(shards, 0);
    if counts_begin {
        counts.fill(0);
    }
    let mut restored = restoration.finish();
    keep_within(&mut restored, memory, store)?;
    Ok(restored.into_iter().zip(counts).collect())
}

/// Lets shards that have taken nothing yet keep `memory` bytes of state in memory, each its share of
/// it, and the rest in pages in `store`; all in memory if it is not set. Deletes the pages that none
/// of them needs.
///
/// # Errors
/// A page that is needed cannot be read, or others cannot be deleted.
pub fn keep_within(
    shards: &mut [Shard],
    memory: Option<usize>,
    store: &dyn Store,
) -> Result<(), PageError> {
    let (pages, count) = (store.pages(), shards.len().max(1));
    for shard in &mut *shards {
        shard.keep_within(memory.map(|memory| memory / count), pages.clone())?;
    }
    place_displaced(shards)?;
    pages.retain(&shards.iter().flat_map(Shard::pages).collect())
}

/// What the sink called `name` puts into an epoch behind the blocks that it has written ahead, so
/// many of them: where its output begins, what it has counted, and the last block.
pub fn sink_pieces(
    name: &str,
    (begins, counts): (Option<u64>, SinkCounts),
    (ahead, last): (u32, Vec<u8>),
) -> Vec<Piece> {
    let blocks = ahead.saturating_add(u32::from(!last.is_empty()));
    let mut pieces = vec![(sink_name(name).into(), bytes_of(&(begins, counts, blocks)))];
    if !last.is_empty() {
        pieces.push((outbox_name(name, ahead).into(), last));
    }
    pieces
}
