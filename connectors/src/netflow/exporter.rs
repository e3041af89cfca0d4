//! What an exporter has told about itself: templates, sampling, names of applications and
//! interfaces, the state of its sequence numbers.
//!
//! Templates hold per observation domain; names and samplers per exporter, since exporters send
//! them in a domain of their own. Everything is bounded: a full table takes no new entry, the
//! domain or exporter that has been silent longest makes room for a new one, and all exporters
//! together have a budget in bytes.

use super::element::text;
use super::message::Message;
use super::record::Draft;
use super::template::{Definition, Template};
use super::unsampled::Described;
use nilometer_model::flow::{Flow, FlowVersion};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// Most exporters that are remembered.
const EXPORTERS_MAX: usize = 10_000;
/// Most domains of an exporter.
const DOMAINS_MAX: usize = 1_000;
/// Most templates of a domain.
const TEMPLATES_MAX: usize = 1_000;
/// Most entries of any table of an exporter.
const ENTRIES_MAX: usize = 100_000;

/// Bytes of all that exporters have told.
const BYTES_MAX: usize = 256 << 20;
/// What a domain takes at least, in bytes.
const DOMAIN_BYTES: usize = 512;
/// What an entry of a table takes, beside its text, in bytes.
const ENTRY_BYTES: usize = 64;

/// All exporters, by address.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Exporters {
    known: Recent<IpAddr, Exporter>,
    /// Bytes told since the last time that all was weighed, and what it weighed then. No less than
    /// what is held.
    bytes: usize,
    bytes_max: usize,
}

impl Default for Exporters {
    fn default() -> Self {
        Self { known: Recent::default(), bytes: 0, bytes_max: BYTES_MAX }
    }
}

impl Exporters {
    /// Goes on with the exporters of `image`.
    pub(super) fn resume(&mut self, image: Self) {
        *self = Self { bytes_max: self.bytes_max, ..image };
    }

    /// The exporter at `address`.
    pub(super) fn at(&mut self, address: IpAddr) -> &mut Exporter {
        self.known.get(address, EXPORTERS_MAX)
    }

    /// Keeps the budget, after the exporter at `address` has told something: the exporters that
    /// have been silent longest are forgotten if it is exceeded, until half of it is free.
    pub(super) fn settle(&mut self, address: IpAddr) {
        let exporter = self.known.get(address, EXPORTERS_MAX);
        let told = std::mem::take(&mut exporter.told_bytes);
        self.bytes = self.bytes.saturating_add(told);
        if self.bytes <= self.bytes_max {
            return;
        }
        self.bytes = self.known.values().map(Exporter::bytes).sum();
        while self.bytes > self.bytes_max / 2
            && let Some(forgotten) = self.known.forget_oldest()
        {
            self.bytes = self.bytes.saturating_sub(forgotten.bytes());
        }
    }
}

/// One exporter.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Exporter {
    domains: Recent<(FlowVersion, u32), Domain>,
    applications: HashMap<Box<[u8]>, Arc<str>>,
    interfaces: HashMap<u32, Arc<str>>,
    samplers: HashMap<u64, f64>,
    /// Bytes told since the budget was looked at.
    told_bytes: usize,
}

/// One observation domain.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Domain {
    templates: HashMap<u16, Arc<Template>>,
    /// The sampling of the whole domain, and of single interfaces.
    sampling: Option<f64>,
    sampling_by_interface: HashMap<u32, f64>,
    boot_ms: Option<i64>,
    /// The message before: its sequence number, and by how much that numbers on, if known.
    previous: Option<(u32, Option<u32>)>,
}

/// What a template record changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learned {
    /// An id that meant nothing.
    New,
    /// Nothing.
    Same,
    /// An id that meant something else.
    Changed,
    /// A record that cannot be used, or one too many.
    Refused,
    /// Ids mean nothing any more.
    Withdrawn,
}

impl Exporter {
    /// The domain that `message` is of.
    pub(super) fn domain(&mut self, message: &Message) -> &mut Domain {
        let key = (message.version, message.domain);
        if !self.domains.knows(key) {
            self.told_bytes += DOMAIN_BYTES;
        }
        self.domains.get(key, DOMAINS_MAX)
    }

    /// Takes in a template record of `message`.
    pub(super) fn define(&mut self, definition: Definition, message: &Message) -> Learned {
        let domain = self.domain(message);
        let (learned, bytes) = domain.define(definition);
        self.told_bytes += bytes;
        learned
    }

    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let text = |text: &Arc<str>| ENTRY_BYTES + text.len();
        self.domains.values().map(Domain::bytes).sum::<usize>()
            + self.applications.values().map(text).sum::<usize>()
            + self.interfaces.values().map(text).sum::<usize>()
            + self.samplers.len() * ENTRY_BYTES
    }

    /// Takes in what an options record of `message` says; returns the sampler that it
    /// describes for the first time.
    pub(super) fn learn(&mut self, draft: &Draft<'_>, message: &Message) -> Option<Described> {
        let name = draft.application.and_then(text);
        if let (Some(id), Some(name)) = (draft.application_id, name) {
            let bytes = ENTRY_BYTES + name.len();
            let is_new = enter(&mut self.applications, id.into(), name.into());
            self.told_bytes += if is_new { bytes } else { 0 };
        }
        let [name, description] = draft.interface.map(|bytes| bytes.and_then(text));
        if let (Some(index), Some(name)) = (draft.flow.input, name.or(description)) {
            let bytes = ENTRY_BYTES + name.len();
            let is_new = enter(&mut self.interfaces, index, name.into());
            self.told_bytes += if is_new { bytes } else { 0 };
        }
        if draft.boot_ms.is_some() {
            self.domain(message).boot_ms = draft.boot_ms;
        }
        let interval = draft.rate.interval()?;
        if let Some(id) = draft.sampler {
            let is_new = enter(&mut self.samplers, id, interval);
            self.told_bytes += if is_new { ENTRY_BYTES } else { 0 };
            return is_new.then_some(Described { exporter: message.exporter, id, interval });
        }
        let domain = self.domain(message);
        // Interface 0 stands for all of them.
        match draft.flow.input.filter(|index| *index != 0) {
            Some(index) => {
                let is_new = enter(&mut domain.sampling_by_interface, index, interval);
                self.told_bytes += if is_new { ENTRY_BYTES } else { 0 };
            }
            None => domain.sampling = Some(interval),
        }
        None
    }

    /// The flow of a data record of `message`, and the sampler that it names if nothing says what
    /// that one does.
    pub(super) fn flow(&mut self, draft: Draft<'_>, message: &Message) -> (Flow, Option<u64>) {
        // Sampler 0 is none.
        let sampler = draft.sampler.filter(|sampler| *sampler != 0);
        let id = draft.application_id;
        let domain = self.domains.get((message.version, message.domain), DOMAINS_MAX);
        let mut flow = draft.flow(message, domain.boot_ms);
        let by_sampler = sampler.and_then(|sampler| self.samplers.get(&sampler).copied());
        flow.options_sampling = by_sampler.or_else(|| domain.sampling_of(&flow));
        if flow.application.is_none() {
            flow.application = id.and_then(|id| self.applications.get(id).cloned());
        }
        let name = |index: Option<u32>| self.interfaces.get(&index?).cloned();
        flow.input_interface = name(flow.input);
        flow.output_interface = name(flow.output);
        let is_sampled = flow.sampling_interval.or(flow.options_sampling).is_some();
        (flow, sampler.filter(|_| !is_sampled))
    }
}

impl Domain {
    /// The template that the records of set `id` follow.
    pub(super) fn template(&self, id: u16) -> Option<Arc<Template>> {
        self.templates.get(&id).cloned()
    }

    fn bytes(&self) -> usize {
        DOMAIN_BYTES
            + self.templates.values().map(|template| template.bytes()).sum::<usize>()
            + self.sampling_by_interface.len() * ENTRY_BYTES
    }

    /// Takes in a template record; returns the bytes that it takes, too.
    fn define(&mut self, definition: Definition) -> (Learned, usize) {
        let learned = match definition {
            Definition::Set { id, template } => return self.set(id, template),
            Definition::Withdraw { id } => {
                self.templates.remove(&id);
                Learned::Withdrawn
            }
            Definition::WithdrawAll { is_options } => {
                self.templates.retain(|_, template| template.is_options != is_options);
                Learned::Withdrawn
            }
        };
        (learned, 0)
    }

    fn set(&mut self, id: u16, template: Option<Template>) -> (Learned, usize) {
        let Some(template) = template.filter(|_| id > u16::from(u8::MAX)) else {
            // Records of this id can no longer be read as before.
            self.templates.remove(&id);
            return (Learned::Refused, 0);
        };
        match self.templates.get(&id) {
            Some(known) if **known == template => return (Learned::Same, 0),
            None if self.templates.len() >= TEMPLATES_MAX => return (Learned::Refused, 0),
            Some(_) | None => {}
        }
        let bytes = template.bytes();
        match self.templates.insert(id, Arc::new(template)) {
            Some(_) => (Learned::Changed, bytes),
            None => (Learned::New, bytes),
        }
    }

    /// Whether the sequence number of a message shows that something is missing before it.
    ///
    /// `step` is by how much the message numbers on, if that is known. An exporter numbers a
    /// message either by what it has sent before (as the standards have it) or by what it has sent
    /// with it; both are taken.
    pub(super) fn is_gap(&mut self, sequence: u32, step: Option<u32>) -> bool {
        let Some((before, step_before)) = self.previous.replace((sequence, step)) else {
            return false;
        };
        let moved = Some(sequence.wrapping_sub(before));
        step_before.is_some() && step.is_some() && moved != step_before && moved != step
    }

    fn sampling_of(&self, flow: &Flow) -> Option<f64> {
        if self.sampling_by_interface.is_empty() {
            return self.sampling;
        }
        let of = |index: Option<u32>| self.sampling_by_interface.get(&index?).copied();
        of(flow.input).or_else(|| of(flow.output)).or(self.sampling)
    }
}

/// Enters a value, unless the table is full; `true` if its key was not in the table.
fn enter<K: Eq + Hash, V>(table: &mut HashMap<K, V>, key: K, value: V) -> bool {
    if table.len() < ENTRIES_MAX || table.contains_key(&key) {
        return table.insert(key, value).is_none();
    }
    false
}

/// A bounded table that forgets what was not asked for longest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "K: Deserialize<'de> + Eq + Hash, V: Deserialize<'de>"))]
struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// Counts the questions; the time of this table.
    asked: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), asked: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Recent<K, V> {
    /// The value of `key`, a new one if there is none, with at most `limit` kept.
    fn get(&mut self, key: K, limit: usize) -> &mut V {
        self.asked += 1;
        if self.entries.len() >= limit && !self.knows(key) {
            self.forget_oldest();
        }
        let entry = self.entries.entry(key).or_default();
        entry.0 = self.asked;
        &mut entry.1
    }

    fn knows(&self, key: K) -> bool {
        self.entries.contains_key(&key)
    }

    fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    /// Takes out what was not asked for longest. Linear, but only called when there is no room.
    fn forget_oldest(&mut self) -> Option<V> {
        let oldest = self.entries.iter().min_by_key(|(_, (asked, _))| *asked);
        let key = oldest.map(|(key, _)| *key)?;
        self.entries.remove(&key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_makes_room() {
        let mut recent: Recent<u32, u32> = Recent::default();
        for key in [1, 2, 3, 1, 4] {
            *recent.get(key, 3) += 1;
        }
        assert!([1, 3, 4].into_iter().all(|key| recent.knows(key)) && !recent.knows(2));
        assert_eq!(*recent.get(1, 3), 2);
        assert_eq!((recent.forget_oldest(), recent.values().count()), (Some(1), 2));
    }

    #[test]
    fn all_exporters_share_a_budget() {
        let mut exporters = Exporters { bytes_max: 100_000, ..Exporters::default() };
        for host in 0..2_000u32 {
            let exporter = IpAddr::V4(host.into());
            let message = Message {
                exporter,
                version: FlowVersion::V9,
                domain: 7,
                header_ms: 0,
                uptime: None,
                arrival_ms: None,
                sequence: 0,
            };
            let mut draft = Draft::default();
            draft.application_id = Some(b"\x0d\0\0\x01");
            draft.application = Some(b"an application");
            exporters.at(exporter).domain(&message);
            exporters.at(exporter).learn(&draft, &message);
            exporters.settle(exporter);
            let held: usize = exporters.known.values().map(Exporter::bytes).sum();
            assert!(held <= exporters.bytes && held <= 100_000, "{held}");
            assert!(exporters.known.knows(exporter));
        }
    }
}
