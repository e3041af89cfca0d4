//! "The limit": what somebody would write by hand for this one job, as fast as plain maps allow.
//!
//! One thread, no actors, no plan: one map of packed integer keys per open window; at its end the
//! seven coarser groupings are regrouped from it, the top lists are picked, and the maps are
//! cleared for the next window. Sums are 64 bits wide, checked. The engine is measured against
//! this, and has to give the same results.

#![expect(clippy::indexing_slicing, reason = "the place was found or made just before")]

use super::job::{OUT_OF_ORDERNESS, SHAPES, WINDOW};
use super::listing::Emitter;
use super::packed::{
    ConversationKey, Listed, Parent, Record, Sums, compare_conversations, conversation_text,
};
use super::result::Pane;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use nilometer_model::flow::{Extent, share};
use nilometer_model::symbol::{Symbol, Symbols};
use nilometer_model::time::{EventTime, Window};
use std::collections::VecDeque;
use std::hash::Hash;

type Map<K> = HashMap<K, Sums, foldhash::fast::RandomState>;

fn add<K: Eq + Hash>(map: &mut Map<K>, key: K, sums: &Sums) {
    match map.entry(key) {
        Entry::Occupied(mut entry) => entry.get_mut().merge(sums),
        Entry::Vacant(entry) => {
            entry.insert(*sums);
        }
    }
}

/// The maps of the coarser groupings, kept between windows for their room.
#[derive(Debug, Default)]
struct Regrouped {
    conversation: Map<ConversationKey>,
    tos_application: Map<Listed<u32>>,
    application: Map<Listed<u32>>,
    tos_host: Map<Listed<u128>>,
    host: Map<Listed<u128>>,
    tos: Map<Parent>,
    interface: Map<Parent>,
}

/// The loop and its state.
#[derive(Debug)]
pub(super) struct Limit<'a> {
    symbols: &'a Symbols,
    /// Open windows by their start, the oldest first.
    open: VecDeque<(i64, Map<ConversationKey>)>,
    /// Cleared maps of windows past.
    spare: Vec<Map<ConversationKey>>,
    regrouped: Regrouped,
    newest: i64,
    oldest_end: i64,
    /// Most keys that one window had in each grouping.
    pub(super) live_max: [usize; 8],
    pub(super) panes: Vec<Pane>,
}

impl<'a> Limit<'a> {
    pub(super) fn new(symbols: &'a Symbols) -> Self {
        Self {
            symbols,
            open: VecDeque::new(),
            spare: Vec::new(),
            regrouped: Regrouped::default(),
            newest: i64::MIN,
            oldest_end: i64::MAX,
            live_max: [0; 8],
            panes: Vec::new(),
        }
    }

    /// Takes one record. None may come behind the watermark: the benchmark's input has none.
    pub(super) fn record(&mut self, record: &Record) {
        self.newest = self.newest.max(record.last);
        let size = WINDOW.as_millis();
        let key = ConversationKey {
            place: record.place,
            what: record.what,
            lower: record.lower,
            upper: record.upper,
        };
        let home = record.last - record.last.rem_euclid(size);
        if record.first >= home {
            let sums = sums(record, record.bytes, record.packets, 1);
            add(self.window(home), key, &sums);
        } else {
            self.split(record, key, home);
        }
        if self.newest - OUT_OF_ORDERNESS.as_millis() >= self.oldest_end {
            self.close_until(self.newest - OUT_OF_ORDERNESS.as_millis());
        }
    }

    #[cold]
    fn split(&mut self, record: &Record, key: ConversationKey, home: i64) {
        let size = WINDOW.as_millis();
        let time = EventTime::from_millis;
        let extent = Extent::new(time(record.first), time(record.last));
        let mut start = record.first - record.first.rem_euclid(size);
        while start <= home {
            let window = Window::new(time(start), time(start + size));
            let part = |amount: u64| share(extent, amount.into(), window) as u64;
            let flows = u32::from(start == home);
            let sums = sums(record, part(record.bytes), part(record.packets), flows);
            add(self.window(start), key, &sums);
            start += size;
        }
    }

    fn window(&mut self, start: i64) -> &mut Map<ConversationKey> {
        let place = match self.open.iter().position(|(open, _)| *open >= start) {
            Some(place) if self.open.get(place).is_some_and(|(open, _)| *open == start) => place,
            found => {
                let place = found.unwrap_or(self.open.len());
                self.open.insert(place, (start, self.spare.pop().unwrap_or_default()));
                self.oldest_end =
                    self.open.front().map_or(i64::MAX, |(start, _)| *start) + WINDOW.as_millis();
                place
            }
        };
        let (_, map) = &mut self.open[place];
        map
    }

    fn close_until(&mut self, watermark: i64) {
        while let Some((start, _)) = self.open.front()
            && watermark >= start.saturating_add(WINDOW.as_millis())
        {
            let Some((start, mut raw)) = self.open.pop_front() else { return };
            self.close(start, &raw);
            raw.clear();
            self.spare.push(raw);
        }
        let size = WINDOW.as_millis();
        self.oldest_end = self.open.front().map_or(i64::MAX, |(start, _)| start + size);
    }

    /// Closes all windows.
    pub(super) fn end(&mut self) {
        self.close_until(i64::MAX);
    }

    fn close(&mut self, start: i64, raw: &Map<ConversationKey>) {
        let mut groups = std::mem::take(&mut self.regrouped);
        groups.fill(raw);
        for (most, live) in self.live_max.iter_mut().zip(groups.lens(raw)) {
            *most = live.max(*most);
        }
        let symbols = self.symbols;
        let by_text = |a: u32, b: u32| {
            let text = |number| symbols.text(Symbol::from_number(number));
            text(a).cmp(text(b))
        };
        let mut out = Emitter { symbols, start, panes: &mut self.panes };
        out.totals(SHAPES[0], &groups.interface);
        out.totals(SHAPES[1], &groups.tos);
        let text = |number: &u32| symbols.text(Symbol::from_number(*number)).to_owned();
        let of = |(key, sums): (&Listed<u32>, &Sums)| (key.parent, key.entity, *sums);
        out.list(SHAPES[2], groups.application.iter().map(of), |a, b| by_text(*a, *b), text);
        out.list(SHAPES[3], groups.tos_application.iter().map(of), |a, b| by_text(*a, *b), text);
        let of = |(key, sums): (&ConversationKey, &Sums)| {
            (Parent { place: key.place, tos: Parent::ALL_TOS }, *key, *sums)
        };
        let compare =
            |a: &ConversationKey, b: &ConversationKey| compare_conversations(symbols, a, b);
        let name = |key: &ConversationKey| conversation_text(symbols, key);
        out.list(SHAPES[4], groups.conversation.iter().map(of), compare, name);
        let of = |(key, sums): (&ConversationKey, &Sums)| {
            (Parent { place: key.place, tos: key.what.dscp().into() }, *key, *sums)
        };
        out.list(SHAPES[5], raw.iter().map(of), compare, name);
        let of = |(key, sums): (&Listed<u128>, &Sums)| (key.parent, key.entity, *sums);
        let host = |bits: &u128| nilometer_model::value::ip_address(*bits).to_string();
        out.list(SHAPES[6], groups.host.iter().map(of), u128::cmp, host);
        out.list(SHAPES[7], groups.tos_host.iter().map(of), u128::cmp, host);
        groups.clear();
        self.regrouped = groups;
    }
}

fn sums(record: &Record, bytes: u64, packets: u64, flows: u32) -> Sums {
    let (is_congested, is_non_ect) = (record.is_congested, record.is_non_ect);
    let mut sums = Sums { flows, is_congested, is_non_ect, ..Sums::default() };
    if record.is_ingress {
        (sums.bytes_ingress, sums.packets_ingress) = (bytes, packets);
    } else {
        (sums.bytes_egress, sums.packets_egress) = (bytes, packets);
    }
    sums
}

impl Regrouped {
    fn fill(&mut self, raw: &Map<ConversationKey>) {
        for (key, sums) in raw {
            let parent = Parent { place: key.place, tos: key.what.dscp().into() };
            let entity = key.what.application().number();
            add(&mut self.tos_application, Listed { parent, entity }, sums);
            add(&mut self.tos_host, Listed { parent, entity: key.lower }, sums);
            add(&mut self.tos_host, Listed { parent, entity: key.upper }, sums);
            let what = key.what.without_tos();
            add(&mut self.conversation, ConversationKey { what, ..*key }, sums);
        }
        for (key, sums) in &self.tos_host {
            let parent = Parent { tos: Parent::ALL_TOS, ..key.parent };
            add(&mut self.host, Listed { parent, entity: key.entity }, sums);
        }
        for (key, sums) in &self.tos_application {
            let parent = Parent { tos: Parent::ALL_TOS, ..key.parent };
            add(&mut self.application, Listed { parent, entity: key.entity }, sums);
            add(&mut self.tos, key.parent, sums);
        }
        for (parent, sums) in &self.tos {
            add(&mut self.interface, Parent { tos: Parent::ALL_TOS, ..*parent }, sums);
        }
    }

    /// Keys of each grouping, in the order of [`SHAPES`].
    fn lens(&self, raw: &Map<ConversationKey>) -> [usize; 8] {
        [
            self.interface.len(),
            self.tos.len(),
            self.application.len(),
            self.tos_application.len(),
            self.conversation.len(),
            raw.len(),
            self.host.len(),
            self.tos_host.len(),
        ]
    }

    fn clear(&mut self) {
        self.conversation.clear();
        self.tos_application.clear();
        self.application.clear();
        self.tos_host.clear();
        self.host.clear();
        self.tos.clear();
        self.interface.clear();
    }
}
