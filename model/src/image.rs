//! A shard's state as bytes and back: what a restart needs, in a form that outlives the process.
//!
//! Symbols are written as texts, keys as values; numbers of cells, groups and symbols are not
//! written. An image carries its version and fits one plan: another plan's is refused, never
//! guessed at. Taken between two rounds, when nothing waits.
#![expect(clippy::indexing_slicing, reason = "lengths are checked against the plan first")]

use crate::account::StageAccount;
use crate::aggregate::AggregateLayout;
use crate::cells::Meta;
use crate::key::KeyLayout;
use crate::key_machine::KeyMachine;
use crate::machine_table::{Actor, MachineTable};
use crate::pane::Timing;
use crate::plan::Plan;
use crate::shard::{Machine, Shard};
use crate::symbol::{Symbol, Symbols, SymbolsFull};
use crate::table::KeyTable;
use crate::time::{ProcessingTime, Watermark, Window};
use crate::topk::{Listed, Sent, TopKTable};
use crate::value::{Datum, Value, ip_address, ip_bits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of the image format.
pub const IMAGE_VERSION: u16 = 1;

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
    account: StageAccount,
    keys: Vec<KeyImage>,
    machines: Vec<MachineImage>,
    groups: Vec<GroupImage>,
}

#[derive(Serialize, Deserialize)]
struct KeyImage {
    key: Vec<Stored>,
    /// Newest first.
    cells: Vec<CellImage>,
}

#[derive(Serialize, Deserialize)]
struct MachineImage {
    key: Vec<Stored>,
    /// Texts of the accumulators stand beside, in the order of windows and words.
    machine: KeyMachine,
    texts: Vec<Box<str>>,
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
                account: StageAccount::default(),
                keys: Vec::new(),
                machines: Vec::new(),
                groups: Vec::new(),
            };
            match machine {
                Machine::Keys(table, _) => StageImage {
                    watermark: table.watermark,
                    account: table.account.clone(),
                    keys: writer.keys(table, &stage.key),
                    ..image
                },
                Machine::Machines(table, _) => StageImage {
                    watermark: table.watermark,
                    output: table.output,
                    now: Some(table.now()),
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
        if image.stages.len() != plan.stages.len() || image.senders.len() != plan.stages.len() {
            return Err(other_plan("the number of stages"));
        }
        let reader = Reader { symbols: &symbols };
        for (index, (stage, image_stage)) in plan.stages.iter().zip(image.stages).enumerate() {
            if stage.name != image_stage.name {
                return Err(other_plan(&format!("stage `{}`", stage.name)));
            }
            match shard.machines.get_mut(index) {
                Some(Machine::Keys(table, _)) => reader.table(table, &stage.key, image_stage)?,
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
        Ok(shard)
    }
}

fn other_plan(what: &str) -> ImageError {
    ImageError::OtherPlan { what: what.into() }
}

/// Every accumulator of a machine, in one order.
fn accumulators(machine: &mut KeyMachine) -> impl Iterator<Item = &mut Vec<u64>> {
    machine.windows.iter_mut().flat_map(|open| {
        let owed = open.owed.iter_mut().map(|owed| &mut owed.values);
        [&mut open.delta, &mut open.total].into_iter().chain(owed).filter(|words| !words.is_empty())
    })
}

struct Writer<'a> {
    symbols: &'a Symbols,
}

impl Writer<'_> {
    fn key(&self, layout: &KeyLayout, key: &[u64]) -> Vec<Stored> {
        let stored = |value| match value {
            Value::Null => Stored::Null,
            Value::Bool(truth) => Stored::Bool(truth),
            Value::Int(number) => Stored::Int(number),
            Value::Float(number) => Stored::Float(number),
            Value::Text(text) => Stored::Text((*text).into()),
            Value::Object(text) => Stored::Object((*text).into()),
            Value::Ip(address) => Stored::Ip(ip_bits(address)),
        };
        layout.values(key, self.symbols).into_iter().map(stored).collect()
    }

    fn words(&self, layout: &AggregateLayout, words: &[u64]) -> Words {
        let mut image = Words { words: words.to_vec(), texts: Vec::new() };
        for at in layout.symbol_words() {
            if let Some(number) = words[at].checked_sub(1) {
                let symbol = Symbol::from_number(number as u32);
                image.texts.push(self.symbols.text(symbol).into());
                // A place holder that says "there is a text".
                image.words[at] = 1;
            }
        }
        image
    }

    fn keys(&self, table: &KeyTable, layout: &KeyLayout) -> Vec<KeyImage> {
        let aggregates = &table.rules.aggregates;
        let cells = &table.cells;
        let key = |head| {
            let chain = std::iter::successors(Some(head), |cell| cells.next(*cell));
            let image = chain.map(|cell| {
                let meta = cells.meta(cell);
                CellImage {
                    window: cells.window(cell),
                    index: meta.index,
                    has_news: meta.has_news,
                    sent: meta.sent,
                    delta: self.words(aggregates, cells.delta(cell)),
                    total: table
                        .rules
                        .keeps_total
                        .then(|| self.words(aggregates, cells.total(cell))),
                }
            });
            KeyImage { key: self.key(layout, cells.key(head)), cells: image.collect() }
        };
        cells.heads().map(key).collect()
    }

    fn machines(&self, table: &MachineTable, layout: &KeyLayout) -> Vec<MachineImage> {
        let aggregates = &table.rules.aggregates;
        let image = |actor: &Actor| {
            let (mut machine, mut texts) = (actor.machine.clone(), Vec::new());
            for words in accumulators(&mut machine) {
                let image = self.words(aggregates, words);
                words.clone_from(&image.words);
                texts.extend(image.texts);
            }
            MachineImage { key: self.key(layout, &actor.key), machine, texts }
        };
        table.actors().map(image).collect()
    }

    fn groups(&self, table: &TopKTable) -> Vec<GroupImage> {
        let aggregates = &table.rules.aggregates;
        let sent = |sent: &Sent| SentImage {
            values: self.words(aggregates, &sent.values),
            index: sent.index,
            timing: sent.timing,
        };
        let groups = table.groups.iter().filter_map(|group| {
            let window = group.window?;
            let chain = std::iter::successors(group.entries, |entry| table.candidates.next(*entry));
            let entries: Vec<_> = chain.collect();
            let place =
                |entry| entries.iter().position(|known| *known == entry).unwrap_or(0) as u32;
            let width = group.news_values.len() / group.news.len().max(1);
            let news = group.news.iter().enumerate().map(|(index, entry)| {
                let values = &group.news_values[index * width..(index + 1) * width];
                let values = (width > 0).then(|| self.words(aggregates, values));
                (place(*entry), values)
            });
            let candidates = entries.iter().map(|entry| {
                let key = self.key(&table.key, table.candidates.key(*entry));
                (key, self.words(aggregates, table.candidates.total(*entry)))
            });
            let listed = group
                .listed
                .iter()
                .map(|listed| (place(listed.entry), listed.rank, sent(&listed.sent)));
            Some(GroupImage {
                parent: self.key(&table.spec.parent, &group.parent),
                window,
                index: group.index,
                total: self.words(aggregates, &group.total),
                candidates: candidates.collect(),
                news: news.collect(),
                listed: listed.collect(),
                other: group.other.as_ref().map(sent),
            })
        });
        groups.collect()
    }
}

struct Reader<'a> {
    symbols: &'a Symbols,
}

impl Reader<'_> {
    fn key(&self, layout: &KeyLayout, stored: &[Stored]) -> Result<Vec<u64>, ImageError> {
        if stored.len() != layout.fields().len() {
            return Err(other_plan("a key"));
        }
        let mut data = Vec::with_capacity(stored.len());
        for (value, field) in stored.iter().zip(layout.fields()) {
            let value = match value {
                Stored::Null => Value::Null,
                Stored::Bool(truth) => Value::Bool(*truth),
                Stored::Int(number) => Value::Int(*number),
                Stored::Float(number) => Value::Float(*number),
                Stored::Text(text) => Value::Text((**text).into()),
                Stored::Object(text) => Value::Object((**text).into()),
                Stored::Ip(bits) => Value::Ip(ip_address(*bits)),
            };
            let datum = value.intern(self.symbols)?;
            if !crate::row::fits(datum, field.ty) {
                return Err(other_plan(&format!("the type of `{}`", field.name)));
            }
            data.push(datum);
        }
        let mut key = vec![0; layout.words()];
        layout.write(&data, &mut key);
        Ok(key)
    }

    fn words(&self, layout: &AggregateLayout, image: &Words) -> Result<Vec<u64>, ImageError> {
        if image.words.len() != layout.words() {
            return Err(other_plan("an aggregate"));
        }
        let mut words = image.words.clone();
        let mut texts = image.texts.iter();
        for at in layout.symbol_words() {
            if words[at] != 0 {
                let text = texts.next().ok_or_else(|| other_plan("an aggregate"))?;
                let Datum::Text(symbol) = Value::Text((**text).into()).intern(self.symbols)? else {
                    continue;
                };
                words[at] = u64::from(symbol.number()) + 1;
            }
        }
        Ok(words)
    }

    fn table(
        &self,
        table: &mut KeyTable,
        layout: &KeyLayout,
        image: StageImage,
    ) -> Result<(), ImageError> {
        for key_image in &image.keys {
            let key = self.key(layout, &key_image.key)?;
            // Oldest first: each newer one takes the head.
            for cell_image in key_image.cells.iter().rev() {
                let delta = self.words(&table.rules.aggregates, &cell_image.delta)?;
                let total = match &cell_image.total {
                    Some(total) => Some(self.words(&table.rules.aggregates, total)?),
                    None => None,
                };
                if total.is_some() != table.rules.keeps_total {
                    return Err(other_plan("the accumulation mode"));
                }
                let meta = Meta {
                    index: cell_image.index,
                    has_news: cell_image.has_news,
                    is_touched: false,
                    sent: cell_image.sent,
                };
                let values = (delta.as_slice(), total.as_deref());
                table.restore(&key, cell_image.window, meta, values, image.watermark);
            }
        }
        table.watermark = image.watermark;
        table.account = image.account;
        Ok(())
    }

    fn machines(
        &self,
        table: &mut MachineTable,
        layout: &KeyLayout,
        image: StageImage,
    ) -> Result<(), ImageError> {
        (table.watermark, table.output) = (image.watermark, image.output);
        table.account = image.account;
        if let Some(now) = image.now {
            table.start_at(now);
        }
        for MachineImage { key, mut machine, texts } in image.machines {
            let key = self.key(layout, &key)?;
            let mut texts = texts.into_iter();
            for words in accumulators(&mut machine) {
                let count = words.len();
                let aggregates = &table.rules.aggregates;
                if count != aggregates.words() {
                    return Err(other_plan("an aggregate"));
                }
                let named = aggregates.symbol_words().filter(|at| words[*at] != 0).count();
                let texts = texts.by_ref().take(named).collect();
                *words = self.words(aggregates, &Words { words: std::mem::take(words), texts })?;
            }
            table.restore(&key, machine);
        }
        Ok(())
    }

    fn top_k(&self, table: &mut TopKTable, image: StageImage) -> Result<(), ImageError> {
        // Groups are registered for the deadline that follows the watermark.
        table.watermark = image.watermark;
        table.account = image.account;
        for group_image in &image.groups {
            let parent = self.key(&table.spec.parent, &group_image.parent)?;
            let number = table.group(&parent, group_image.window);
            let mut chain = None;
            let mut entries = Vec::new();
            for (key, total) in group_image.candidates.iter().rev() {
                let key = self.key(&table.key, key)?;
                let total = self.words(&table.rules.aggregates, total)?;
                let entry = table.candidates.insert(&key, number, chain);
                table.candidates.total_mut(entry).copy_from_slice(&total);
                chain = Some(entry);
                entries.push(entry);
            }
            entries.reverse();
            let entry = |place: u32| {
                entries.get(place as usize).copied().ok_or_else(|| other_plan("a top-K list"))
            };
            let sent = |sent: &SentImage| -> Result<Sent, ImageError> {
                let values = self.words(&table.rules.aggregates, &sent.values)?;
                Ok(Sent { values: values.into(), index: sent.index, timing: sent.timing })
            };
            let mut listed = Vec::new();
            for (place, rank, known) in &group_image.listed {
                listed.push(Listed { entry: entry(*place)?, rank: *rank, sent: sent(known)? });
            }
            let other = group_image.other.as_ref().map(sent).transpose()?;
            let total = self.words(&table.rules.aggregates, &group_image.total)?;
            let (mut news, mut news_values) = (Vec::new(), Vec::new());
            for (place, values) in &group_image.news {
                news.push(entry(*place)?);
                if let Some(values) = values {
                    news_values.extend(self.words(&table.rules.aggregates, values)?);
                }
            }
            for (index, entry) in news.iter().enumerate() {
                table.candidates.set_news(*entry, Some(index));
            }
            if let Some(group) = table.groups.get_mut(number as usize) {
                group.entries = chain;
                group.count = entries.len();
                group.total = total;
                group.listed = listed;
                group.news = news;
                group.news_values = news_values;
                group.other = other;
                group.index = group_image.index;
            }
        }
        Ok(())
    }
}
