//! A shard's state as bytes and back: what a restart needs, in a form that outlives the process.
//!
//! Symbols are written as texts, keys as values; numbers of cells, groups and symbols are not
//! written. An image carries its version and fits one plan: another plan's is refused, never
//! guessed at. Taken between two rounds, when nothing waits.

mod read;
mod write;

use crate::account::StageAccount;
use crate::aggregate::Values;
use crate::key_machine::KeyMachine;
use crate::pane::Timing;
use crate::plan::Plan;
use crate::shard::{Machine, Shard};
use crate::symbol::{Symbols, SymbolsFull};
use crate::time::{EventTime, ProcessingTime, Watermark, Window};
use read::Reader;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use write::Writer;

/// Version of the image format.
pub const IMAGE_VERSION: u16 = 2;

/// An image that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The bytes are not an image, or a damaged one.
    #[error("the state is damaged or no state at all: {0}")]
    Damaged(#[from] postcard::Error),
    /// Another version wrote it.
    #[error(
        "the state has format version {found}, this program reads {IMAGE_VERSION}: run the version that wrote it, or start anew"
    )]
    Version {
        /// The version found.
        found: u16,
    },
    /// It is the state of another plan.
    #[error(
        "the state is of another pipeline: {what} differs; start it with the configuration that wrote it, or start anew"
    )]
    OtherPlan {
        /// What does not fit.
        what: Box<str>,
    },
    /// The texts do not fit the table.
    #[error(transparent)]
    Texts(#[from] SymbolsFull),
}

#[derive(Serialize, Deserialize)]
struct ShardImage {
    version: u16,
    /// Name of the engine: another would wait for what it has done, or do it again.
    engine: Box<str>,
    /// By stage: its watermarks received over an exchange.
    senders: Vec<Option<Vec<Watermark>>>,
    stages: Vec<StageImage>,
}

#[derive(Serialize, Deserialize)]
struct StageImage {
    name: Box<str>,
    watermark: Watermark,
    /// The output watermark, where holds may keep it back.
    output: Watermark,
    /// The last tick, where triggers wait for it.
    now: Option<ProcessingTime>,
    /// The second watermarks that the trigger waits for.
    shares: Vec<Watermark>,
    account: StageAccount,
    keys: Vec<KeyImage>,
    machines: Vec<MachineImage>,
    groups: Vec<GroupImage>,
    slices: Vec<SlicesImage>,
}

#[derive(Serialize, Deserialize)]
struct KeyImage {
    key: Vec<Stored>,
    /// Newest first.
    cells: Vec<CellImage>,
}

#[derive(Serialize, Deserialize)]
struct SlicesImage {
    key: Vec<Stored>,
    /// Where they start, and what is in them.
    slices: Vec<(EventTime, Words)>,
}

#[derive(Serialize, Deserialize)]
struct MachineImage {
    key: Vec<Stored>,
    /// Texts of the accumulators stand beside, in the order of windows and words.
    machine: KeyMachine,
    texts: Vec<Box<str>>,
    /// Values that its windows keep.
    kept: Vec<KeptImage>,
}

/// A value that a window keeps.
#[derive(Serialize, Deserialize)]
struct KeptImage {
    /// Number of the window in the machine.
    window: u32,
    /// Number of the aggregate.
    aggregate: u32,
    value: Stored,
    time: EventTime,
    count: i64,
}

#[derive(Serialize, Deserialize)]
struct CellImage {
    window: Window,
    index: u32,
    has_news: bool,
    sent: Option<Timing>,
    delta: Words,
    total: Option<Words>,
}

#[derive(Serialize, Deserialize)]
struct GroupImage {
    parent: Vec<Stored>,
    window: Window,
    index: u32,
    sent: Option<Timing>,
    total: Words,
    candidates: Vec<(Vec<Stored>, Words)>,
    /// Candidates with news, and what came for them where panes tell it.
    news: Vec<(u32, Option<Words>)>,
    listed: Vec<(u32, i128, SentImage)>,
    other: Option<SentImage>,
}

#[derive(Serialize, Deserialize)]
struct SentImage {
    values: Words,
    index: u32,
    timing: Timing,
}

/// A value of a key.
#[derive(Serialize, Deserialize)]
enum Stored {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Box<str>),
    Object(Box<str>),
    Ip(u128),
}

/// Accumulator words; those that name a text carry it beside.
#[derive(Serialize, Deserialize)]
struct Words {
    words: Vec<u64>,
    texts: Vec<Box<str>>,
}

impl Shard {
    /// The state as bytes.
    ///
    /// # Errors
    /// The state does not serialise: never, as far as known.
    pub fn encode(&self) -> Result<Vec<u8>, ImageError> {
        let writer = Writer { symbols: &self.symbols };
        let stages = self.plan.stages.iter().zip(&self.machines).map(|(stage, machine)| {
            let image = StageImage {
                name: stage.name.clone(),
                watermark: Watermark::MIN,
                output: Watermark::MIN,
                now: None,
                shares: Vec::new(),
                account: StageAccount::default(),
                keys: Vec::new(),
                machines: Vec::new(),
                groups: Vec::new(),
                slices: Vec::new(),
            };
            match machine {
                Machine::Keys(table, _) => StageImage {
                    watermark: table.watermark,
                    account: table.account.clone(),
                    keys: writer.keys(table, &stage.key),
                    ..image
                },
                Machine::Sliding(table, _) => StageImage {
                    watermark: table.windows.watermark,
                    now: Some(table.now()),
                    account: table.windows.account.clone(),
                    keys: writer.keys(&table.windows, &stage.key),
                    slices: writer.slices(table, &stage.key),
                    ..image
                },
                Machine::Machines(table, _) => StageImage {
                    watermark: table.watermark,
                    output: table.output,
                    now: Some(table.now()),
                    shares: table.shares.known().iter().map(|(_, share)| *share).collect(),
                    account: table.account.clone(),
                    machines: writer.machines(table, &stage.key),
                    ..image
                },
                Machine::TopK(table) => StageImage {
                    watermark: table.watermark,
                    account: table.account.clone(),
                    groups: writer.groups(table),
                    ..image
                },
            }
        });
        let senders = self.exchanges.iter().map(|ends| Some(ends.as_ref()?.senders.clone()));
        let image = ShardImage {
            version: IMAGE_VERSION,
            engine: self.plan.engine.name().into(),
            senders: senders.collect(),
            stages: stages.collect(),
        };
        Ok(postcard::to_stdvec(&image)?)
    }

    /// Shard `id` of `shards` with the state of `bytes`, which the same plan must have written.
    ///
    /// # Errors
    /// The bytes are damaged, of another version, or of another plan.
    pub fn decode(
        plan: Arc<Plan>,
        symbols: Arc<Symbols>,
        (id, shards): (usize, usize),
        bytes: &[u8],
    ) -> Result<Self, ImageError> {
        let (found, _) = postcard::take_from_bytes::<u16>(bytes)?;
        if found != IMAGE_VERSION {
            return Err(ImageError::Version { found });
        }
        let image: ShardImage = postcard::from_bytes(bytes)?;
        let mut shard = Self::new(Arc::clone(&plan), Arc::clone(&symbols), id, shards);
        if *image.engine != *plan.engine.name() {
            return Err(other_plan("the engine"));
        }
        if image.stages.len() != plan.stages.len() || image.senders.len() != plan.stages.len() {
            return Err(other_plan("the number of stages"));
        }
        let reader = Reader { symbols: &symbols };
        for (index, (stage, image_stage)) in plan.stages.iter().zip(image.stages).enumerate() {
            if stage.name != image_stage.name {
                return Err(other_plan(&format!("stage `{}`", stage.name)));
            }
            let StageImage { keys, machines, groups, slices, .. } = &image_stage;
            let none = (keys.is_empty(), machines.is_empty(), groups.is_empty(), slices.is_empty());
            let fits = match shard.machines.get(index) {
                Some(Machine::Keys(..)) => matches!(none, (_, true, true, true)),
                Some(Machine::Sliding(..)) => matches!(none, (_, true, true, _)),
                Some(Machine::Machines(..)) => matches!(none, (true, _, true, true)),
                Some(Machine::TopK(_)) => matches!(none, (true, true, _, true)),
                None => true,
            };
            if !fits {
                return Err(other_plan(&format!("the window or trigger of `{}`", stage.name)));
            }
            match shard.machines.get_mut(index) {
                Some(Machine::Keys(table, _)) => reader.table(table, &stage.key, image_stage)?,
                Some(Machine::Sliding(table, _)) => {
                    reader.sliding(table, &stage.key, image_stage)?;
                }
                Some(Machine::Machines(table, _)) => {
                    reader.machines(table, &stage.key, image_stage)?;
                }
                Some(Machine::TopK(table)) => reader.top_k(table, image_stage)?,
                None => {}
            }
        }
        for (ends, senders) in shard.exchanges.iter_mut().zip(image.senders) {
            match (ends, senders) {
                (Some(ends), Some(senders)) if ends.senders.len() == senders.len() => {
                    ends.senders = senders;
                }
                (None, None) => {}
                (Some(_) | None, _) => return Err(other_plan("the number of shards")),
            }
        }
        shard.recall_sent();
        if plan.engine.pace().is_some() {
            shard.touch_news();
        }
        Ok(shard)
    }
}

fn other_plan(what: &str) -> ImageError {
    ImageError::OtherPlan { what: what.into() }
}

/// The values of all accumulators of a machine, in one order.
fn accumulators(machine: &mut KeyMachine) -> impl Iterator<Item = &mut Values> {
    machine.windows.iter_mut().flat_map(|open| {
        let owed = open.owed.iter_mut().map(|owed| &mut owed.values);
        let all = [&mut open.delta, &mut open.total].into_iter().chain(owed);
        all.filter(|values| !values.is_absent())
    })
}
