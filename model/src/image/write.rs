//! From the machines of a shard to their image.
#![expect(clippy::indexing_slicing, reason = "accumulators have the widths of their layout")]

use super::{
    CellImage, GroupImage, KeptImage, KeyImage, MachineImage, SentImage, SlicesImage, Stored,
    Words, accumulators,
};
use crate::aggregate::AggregateLayout;
use crate::kept::KeptValue;
use crate::key::KeyLayout;
use crate::key_machine::KeyMachine;
use crate::machine_table::{Actor, MachineTable};
use crate::open_window::OpenWindow;
use crate::sliding::SlidingTable;
use crate::symbol::{Symbol, Symbols};
use crate::table::KeyTable;
use crate::topk::{Sent, TopKTable};
use crate::value::{Value, ip_bits};

pub(super) struct Writer<'a> {
    pub(super) symbols: &'a Symbols,
}

fn stored(value: Value) -> Stored {
    match value {
        Value::Null => Stored::Null,
        Value::Bool(truth) => Stored::Bool(truth),
        Value::Int(number) => Stored::Int(number),
        Value::Float(number) => Stored::Float(number),
        Value::Text(text) => Stored::Text((*text).into()),
        Value::Object(text) => Stored::Object((*text).into()),
        Value::Ip(address) => Stored::Ip(ip_bits(address)),
    }
}

impl Writer<'_> {
    fn key(&self, layout: &KeyLayout, key: &[u64]) -> Vec<Stored> {
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

    pub(super) fn keys(&self, table: &KeyTable, layout: &KeyLayout) -> Vec<KeyImage> {
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

    pub(super) fn slices(&self, table: &SlidingTable, layout: &KeyLayout) -> Vec<SlicesImage> {
        let aggregates = &table.windows.rules.aggregates;
        let image = table.slices().map(|(key, slices)| SlicesImage {
            key: self.key(layout, key),
            slices: slices.map(|(start, values)| (start, self.words(aggregates, values))).collect(),
        });
        image.collect()
    }

    pub(super) fn machines(&self, table: &MachineTable, layout: &KeyLayout) -> Vec<MachineImage> {
        let aggregates = &table.rules.aggregates;
        let image = |actor: &Actor| {
            let (mut machine, mut texts) = (actor.machine.clone(), Vec::new());
            for values in accumulators(&mut machine) {
                let image = self.words(aggregates, &values.words);
                values.words.clone_from(&image.words);
                texts.extend(image.texts);
            }
            let kept = self.kept(aggregates, &machine);
            MachineImage { key: self.key(layout, &actor.key), machine, texts, kept }
        };
        table.actors().map(image).collect()
    }

    fn kept(&self, aggregates: &AggregateLayout, machine: &KeyMachine) -> Vec<KeptImage> {
        let windows = (0..).zip(&machine.windows);
        let of_window = |(window, open): (u32, &OpenWindow)| {
            let image = |value: KeptValue| KeptImage {
                window,
                aggregate: value.aggregate as u32,
                value: stored(value.datum.value(self.symbols)),
                time: value.time,
                count: value.count,
            };
            open.kept.iter(aggregates).map(image).collect::<Vec<_>>()
        };
        windows.flat_map(of_window).collect()
    }

    pub(super) fn groups(&self, table: &TopKTable) -> Vec<GroupImage> {
        let aggregates = &table.rules.aggregates;
        let sent = |sent: &Sent| SentImage {
            values: self.words(aggregates, &sent.values),
            index: sent.index,
            timing: sent.timing,
        };
        let groups = table.groups.iter().filter_map(|group| {
            let window = group.window?;
            let (layout, known) = (&table.layout, &group.candidates);
            let width = group.news_values.len() / group.news.len().max(1);
            let news = group.news.iter().enumerate().map(|(index, entry)| {
                let values = &group.news_values[index * width..(index + 1) * width];
                let values = (width > 0).then(|| self.words(aggregates, values));
                (*entry, values)
            });
            let candidates = known.entries(layout).map(|entry| {
                let key = self.key(&table.key, known.key(layout, entry));
                (key, self.words(aggregates, known.total(layout, entry)))
            });
            let listed =
                group.listed.iter().map(|listed| (listed.entry, listed.rank, sent(&listed.sent)));
            Some(GroupImage {
                parent: self.key(&table.spec.parent, &group.parent),
                window,
                index: group.index,
                sent: group.sent,
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
