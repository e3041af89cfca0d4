//! From datagrams to flows: NetFlow 5 and 9, IPFIX, sFlow 5.
//!
//! [`FlowDecoder`] holds what exporters have told about their records (templates, options data),
//! per exporter address and observation domain. It judges nothing: what a flow means is decided in
//! [`nilometer_model::flow`]. Whatever a datagram holds, its whole records are kept, the rest is
//! counted, and memory is bounded.

mod element;
mod exporter;
mod message;
mod pending;
mod record;
mod sflow;
mod template;
mod unsampled;
mod v5;

use crate::capture::Datagram;
use exporter::{Exporters, Learned};
use message::{Message, Set, Sets, half};
use nilometer_model::flow::{Flow, FlowVersion};
use pending::Pending;
use record::Draft;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use template::Definition;
use unsampled::Unsampled;

/// How datagrams are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderSettings {
    /// Bytes of data sets that may wait for their template, over all exporters. With zero, data
    /// without a template is counted at once.
    pub template_wait_bytes_max: usize,
    /// Flows that may wait for the options data that say at which rate their sampler works, over
    /// all exporters. With zero, such a flow goes on at once and counts as not sampled. It delays
    /// flows, so it is for captures.
    pub sampler_wait_flows_max: usize,
}

impl DecoderSettings {
    /// For a collector: data waits for its template, which exporters repeat; nothing else waits.
    pub const LIVE: Self = Self { template_wait_bytes_max: 16 << 20, sampler_wait_flows_max: 0 };
    /// For captures and other bounded input. Data from before its template is counted and not
    /// read: the capture began after the exporter did, and what the template id meant then is a
    /// guess. A sampler's rate is none: it is known by number, so flows wait for it.
    pub const BOUNDED: Self = Self { template_wait_bytes_max: 0, sampler_wait_flows_max: 100_000 };
}

/// What was found in the datagrams so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DecoderCounts {
    /// Datagrams.
    pub read: u64,
    /// Of those: datagrams of no known format, or of which a part makes no sense.
    pub malformed: u64,
    /// Data sets whose template did not come, not in time, or not yet.
    pub no_template: u64,
    /// Places where an exporter's sequence numbers are not consecutive.
    pub sequence_gaps: u64,
    /// Template records that were new.
    pub templates: u64,
    /// Template records that changed the meaning of a template id.
    pub template_changes: u64,
    /// Template records that cannot be used.
    pub templates_refused: u64,
    /// Options records.
    pub options_records: u64,
    /// sFlow samples that describe no packet: counters and the like.
    pub other_samples: u64,
}

/// Makes flows of datagrams.
#[derive(Debug, Serialize, Deserialize)]
pub struct FlowDecoder {
    exporters: Exporters,
    pending: Pending,
    unsampled: Unsampled,
    counts: DecoderCounts,
}

/// A datagram, or a part of it, that makes no sense.
struct Malformed;

impl FlowDecoder {
    /// A decoder that knows no template yet.
    pub fn new(settings: DecoderSettings) -> Self {
        Self {
            exporters: Exporters::default(),
            pending: Pending::new(settings.template_wait_bytes_max),
            unsampled: Unsampled::new(settings.sampler_wait_flows_max),
            counts: DecoderCounts::default(),
        }
    }

    /// Goes on with all that the decoder of `image` has learned and counted, within the bounds of
    /// this one.
    pub(crate) fn resume(&mut self, image: Self) {
        self.exporters.resume(image.exporters);
        self.pending.resume(image.pending);
        self.unsampled.resume(image.unsampled);
        self.counts = image.counts;
    }

    /// Appends the flows of one datagram to `out`, and those that waited for a template in it.
    pub fn decode(&mut self, datagram: Datagram<'_>, out: &mut Vec<Flow>) {
        self.counts.read += 1;
        let bytes = datagram.payload;
        let exporter = datagram.exporter.ip().to_canonical();
        let decoded = match (half(bytes, 0), half(bytes, 2)) {
            (Some(5), _) => self.decode_v5(bytes, exporter, datagram.arrival_ms, out),
            (Some(9), _) => self.decode_v9(bytes, exporter, datagram.arrival_ms, out),
            (Some(10), _) => self.decode_ipfix(bytes, exporter, datagram.arrival_ms, out),
            (Some(0), Some(5)) => self.decode_sflow(bytes, exporter, datagram.arrival_ms, out),
            _ => Err(Malformed),
        };
        if let Err(Malformed) = decoded {
            self.counts.malformed += 1;
        }
    }

    /// Ends the input: flows that wait for their sampler are appended to `out`.
    pub fn finish(&mut self, out: &mut Vec<Flow>) {
        self.unsampled.clear(out);
    }

    /// What was found so far.
    pub fn counts(&self) -> DecoderCounts {
        let no_template = self.counts.no_template + self.pending.len();
        DecoderCounts { no_template, ..self.counts }
    }

    fn decode_v5(
        &mut self,
        bytes: &[u8],
        exporter: IpAddr,
        arrival_ms: Option<i64>,
        out: &mut Vec<Flow>,
    ) -> Result<(), Malformed> {
        let datagram = v5::decode(bytes, exporter, arrival_ms, out).ok_or(Malformed)?;
        let message = Message {
            exporter,
            version: FlowVersion::V5,
            domain: datagram.domain,
            header_ms: 0,
            uptime: None,
            arrival_ms,
            sequence: datagram.sequence,
        };
        self.check_sequence(&message, Some(datagram.records));
        if datagram.is_damaged { Err(Malformed) } else { Ok(()) }
    }

    fn decode_v9(
        &mut self,
        bytes: &[u8],
        exporter: IpAddr,
        arrival_ms: Option<i64>,
        out: &mut Vec<Flow>,
    ) -> Result<(), Malformed> {
        let (message, sets) = message::message_v9(bytes, exporter, arrival_ms).ok_or(Malformed)?;
        // Version 9 numbers datagrams.
        self.check_sequence(&message, Some(1));
        self.sets(&message, sets, out).map(drop)
    }

    fn decode_ipfix(
        &mut self,
        mut bytes: &[u8],
        exporter: IpAddr,
        arrival_ms: Option<i64>,
        out: &mut Vec<Flow>,
    ) -> Result<(), Malformed> {
        let mut outcome = Ok(());
        // A datagram may hold several messages.
        while !bytes.is_empty() {
            if half(bytes, 0) != Some(10) {
                return Err(Malformed);
            }
            let is_cut = message::length_ipfix(bytes).is_none_or(|length| length > bytes.len());
            let (message, sets, rest) =
                message::message_ipfix(bytes, exporter, arrival_ms).ok_or(Malformed)?;
            let known = self.sets(&message, sets, out);
            // IPFIX numbers data records: after data that was not read the number is not known.
            self.check_sequence(&message, known.as_ref().ok().copied().flatten());
            if is_cut || known.is_err() {
                outcome = Err(Malformed);
            }
            bytes = rest;
        }
        outcome
    }
}

impl FlowDecoder {
    fn decode_sflow(
        &mut self,
        bytes: &[u8],
        exporter: IpAddr,
        arrival_ms: Option<i64>,
        out: &mut Vec<Flow>,
    ) -> Result<(), Malformed> {
        let datagram = sflow::decode(bytes, exporter, arrival_ms, out).ok_or(Malformed)?;
        self.counts.other_samples += datagram.other_samples;
        let message = Message {
            exporter: datagram.agent,
            version: FlowVersion::Sflow,
            domain: datagram.domain,
            header_ms: 0,
            uptime: None,
            arrival_ms,
            sequence: datagram.sequence,
        };
        self.check_sequence(&message, Some(1));
        if datagram.is_damaged { Err(Malformed) } else { Ok(()) }
    }

    /// Counts a gap if the sequence number of `message` shows one; see `Domain::is_gap`.
    fn check_sequence(&mut self, message: &Message, step: Option<u32>) {
        let domain = self.exporters.at(message.exporter).domain(message);
        self.counts.sequence_gaps += u64::from(domain.is_gap(message.sequence, step));
        self.exporters.settle(message.exporter);
    }

    /// Reads the sets of a message. Returns the number of their data records; `None` if there was
    /// data without a template.
    fn sets(
        &mut self,
        message: &Message,
        bytes: &[u8],
        out: &mut Vec<Flow>,
    ) -> Result<Option<u32>, Malformed> {
        let (templates, options) = match message.version {
            FlowVersion::V9 | FlowVersion::V5 | FlowVersion::Sflow => (0, 1),
            FlowVersion::Ipfix => (2, 3),
        };
        let mut sets = Sets::new(bytes);
        let mut is_damaged = false;
        let mut records = Some(0u32);
        for set in sets.by_ref() {
            if set.id == templates || set.id == options {
                is_damaged |= self.define(message, set.body, set.id == options, out);
            } else if set.id > u16::from(u8::MAX) {
                let read = self.data(message, set, out);
                records = records.zip(read).map(|(sum, read)| sum.saturating_add(read));
            }
        }
        self.exporters.settle(message.exporter);
        if is_damaged || sets.is_damaged { Err(Malformed) } else { Ok(records) }
    }

    /// Takes in the template records of a set, and reads the data that has waited for them.
    /// `true` if one of them makes no sense.
    fn define(
        &mut self,
        message: &Message,
        body: &[u8],
        is_options: bool,
        out: &mut Vec<Flow>,
    ) -> bool {
        let (definitions, mut is_damaged) = if message.version == FlowVersion::Ipfix {
            template::definitions_ipfix(body, is_options)
        } else {
            template::definitions_v9(body, is_options)
        };
        for definition in definitions {
            let id = match &definition {
                Definition::Set { id, .. } => Some(*id),
                Definition::Withdraw { .. } | Definition::WithdrawAll { .. } => None,
            };
            match self.exporters.at(message.exporter).define(definition, message) {
                Learned::New => self.counts.templates += 1,
                Learned::Changed => self.counts.template_changes += 1,
                Learned::Same | Learned::Withdrawn => {}
                Learned::Refused => {
                    self.counts.templates_refused += 1;
                    is_damaged = true;
                }
            }
            let waited = id.map(|id| self.pending.take(message, id)).unwrap_or_default();
            for waiting in &waited {
                let set = Set { id: waiting.id, body: &waiting.body };
                self.data(&waiting.message, set, out);
            }
        }
        is_damaged
    }

    /// Reads a data set. Returns the number of its records; `None` if it has no template (yet).
    fn data(&mut self, message: &Message, set: Set<'_>, out: &mut Vec<Flow>) -> Option<u32> {
        let exporter = self.exporters.at(message.exporter);
        let Some(template) = exporter.domain(message).template(set.id) else {
            self.counts.no_template += self.pending.put(*message, set.id, set.body);
            return None;
        };
        let mut records = 0u32;
        let mut rest = set.body;
        loop {
            let mut draft = Draft::default();
            let after = template.read(rest, |element, bytes| draft.see(element, bytes, message));
            let Some(after) = after else { return Some(records) };
            rest = after;
            records += 1;
            if template.is_options {
                self.counts.options_records += 1;
                if let Some(described) = exporter.learn(&draft, message) {
                    self.unsampled.release(described, out);
                }
                continue;
            }
            match exporter.flow(draft, message) {
                (flow, None) => out.push(flow),
                (flow, Some(sampler)) => self.unsampled.put(sampler, flow, out),
            }
        }
    }
}

#[cfg(test)]
mod tests;
