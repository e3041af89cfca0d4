//! From a data record to a flow, or to what it says about the exporter.
//!
//! A draft collects what the fields say; the end decides between fields that say the same thing:
//! bytes are octetDelta, else initiatorOctets, else octetTotal; times are absolute ones, else
//! relative to the exporter's uptime, else the header's.

use super::element::{Element, TimeUnit, address, float, narrow, text, unsigned};
use super::message::Message;
use nilometer_model::flow::{Direction, Flow, times};
use std::net::IpAddr;

/// What the fields of a record have said so far.
#[derive(Debug, Default)]
pub(super) struct Draft<'a> {
    /// What goes into the flow as it is.
    pub(super) flow: Flow,
    octets: Amounts,
    packets: Amounts,
    start: Times,
    end: Times,
    observed_ms: Option<i64>,
    duration_ms: Option<i64>,
    /// The rate that the record gives.
    pub(super) rate: Rate,
    /// The sampler that it names.
    pub(super) sampler: Option<u64>,
    /// The application that it names by number.
    pub(super) application_id: Option<&'a [u8]>,
    /// The name of the application that it gives.
    pub(super) application: Option<&'a [u8]>,
    /// The name, else the description, of the interface that it gives.
    pub(super) interface: [Option<&'a [u8]>; 2],
    /// When the exporter booted.
    pub(super) boot_ms: Option<i64>,
}

/// Bytes or packets, by the field that gave them.
#[derive(Debug, Clone, Copy, Default)]
struct Amounts {
    delta: Option<u64>,
    initiator: Option<u64>,
    total: Option<u64>,
    responder: Option<u64>,
    reverse: Option<u64>,
}

impl Amounts {
    fn forward(self) -> Option<u64> {
        self.delta.or(self.initiator).or(self.total)
    }

    fn backward(self) -> Option<u64> {
        self.responder.or(self.reverse)
    }
}

/// Begin or end, by the kind of field that gave it.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    absolute_ms: Option<i64>,
    uptime: Option<u32>,
}

/// A sampling rate, by the fields that give it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    interval: Option<u64>,
    packet_interval: Option<u64>,
    packet_space: Option<u64>,
    size: Option<u64>,
    population: Option<u64>,
    probability: Option<f64>,
}

impl Rate {
    /// One in how many packets is sampled; may be no number that makes sense.
    pub(super) fn interval(self) -> Option<f64> {
        let ratio = |all: u64, sampled: u64| all as f64 / sampled as f64;
        let interval = self.interval.map(|interval| interval as f64);
        interval
            .or_else(|| {
                let sampled = self.packet_interval?;
                let skipped = self.packet_space.unwrap_or(0);
                Some(ratio(sampled.saturating_add(skipped), sampled))
            })
            .or_else(|| Some(ratio(self.population?, self.size?)))
            .or_else(|| Some(1.0 / self.probability?))
    }
}

impl<'a> Draft<'a> {
    /// Takes in one field of a record of `message`.
    pub(super) fn see(&mut self, element: Element, bytes: &'a [u8], message: &Message) {
        let flow = &mut self.flow;
        match element {
            Element::OctetDelta => self.octets.delta = unsigned(bytes),
            Element::OctetTotal => self.octets.total = unsigned(bytes),
            Element::InitiatorOctets => self.octets.initiator = unsigned(bytes),
            Element::ResponderOctets => self.octets.responder = unsigned(bytes),
            Element::ReverseOctets => self.octets.reverse = unsigned(bytes),
            Element::PacketDelta => self.packets.delta = unsigned(bytes),
            Element::PacketTotal => self.packets.total = unsigned(bytes),
            Element::InitiatorPackets => self.packets.initiator = unsigned(bytes),
            Element::ResponderPackets => self.packets.responder = unsigned(bytes),
            Element::ReversePackets => self.packets.reverse = unsigned(bytes),
            Element::Protocol => flow.protocol = narrow(bytes),
            Element::Tos => flow.tos = narrow(bytes),
            Element::Dscp => flow.dscp = narrow(bytes),
            Element::TcpFlags => flow.tcp_flags = narrow(bytes),
            Element::SrcPort => flow.src_port = narrow(bytes),
            Element::DstPort => flow.dst_port = narrow(bytes),
            Element::SrcAddress => prefer(&mut flow.src_address, address(bytes)),
            Element::DstAddress => prefer(&mut flow.dst_address, address(bytes)),
            Element::NextHop => prefer(&mut flow.next_hop, address(bytes)),
            Element::Input => flow.input = narrow(bytes),
            Element::Output => flow.output = narrow(bytes),
            Element::Direction => flow.direction = unsigned(bytes).map(Direction::from_number),
            Element::Vlan => flow.vlan = narrow(bytes),
            Element::SrcAs => flow.src_as = narrow(bytes),
            Element::DstAs => flow.dst_as = narrow(bytes),
            Element::Start(unit) => self.start.see(unit, bytes, message),
            Element::End(unit) => self.end.see(unit, bytes, message),
            Element::Observed(unit) => self.observed_ms = absolute(unit, bytes, message),
            Element::DurationMillis => self.duration_ms = narrow(bytes),
            Element::SystemInit => self.boot_ms = absolute(TimeUnit::Millis, bytes, message),
            Element::SamplerId => self.sampler = unsigned(bytes),
            Element::SamplingInterval => self.rate.interval = unsigned(bytes),
            Element::PacketInterval => self.rate.packet_interval = unsigned(bytes),
            Element::PacketSpace => self.rate.packet_space = unsigned(bytes),
            Element::SamplingSize => self.rate.size = unsigned(bytes),
            Element::SamplingPopulation => self.rate.population = unsigned(bytes),
            Element::SamplingProbability => self.rate.probability = float(bytes),
            Element::ApplicationId => self.application_id = Some(bytes),
            Element::ApplicationName => self.application = Some(bytes),
            Element::InterfaceName => self.interface[0] = Some(bytes),
            Element::InterfaceDescription => self.interface[1] = Some(bytes),
        }
    }

    /// The flow, of a record of `message`; `boot_ms` is when the exporter booted, as far as its
    /// options data say.
    pub(super) fn flow(self, message: &Message, boot_ms: Option<i64>) -> Flow {
        let (first_ms, last_ms) = self.times(message, self.boot_ms.or(boot_ms));
        Flow {
            exporter_address: Some(message.exporter),
            domain: Some(message.domain),
            version: Some(message.version),
            header_ms: Some(message.header_ms),
            arrival_ms: message.arrival_ms,
            bytes: self.octets.forward(),
            packets: self.packets.forward(),
            reverse_bytes: self.octets.backward(),
            reverse_packets: self.packets.backward(),
            first_ms,
            last_ms,
            sampling_interval: self.rate.interval(),
            application: self.application.and_then(text).map(Into::into),
            ..self.flow
        }
    }

    fn times(&self, message: &Message, boot_ms: Option<i64>) -> (Option<i64>, Option<i64>) {
        let (up_first, up_last) = (self.start.uptime, self.end.uptime);
        let instant = |switched: u32| match (message.uptime, boot_ms) {
            (Some(uptime), _) => times::from_uptime(message.header_ms, uptime, switched),
            (None, Some(boot)) => times::from_boot(boot, switched, message.header_ms),
            // Nothing says when the exporter booted: the flow ends with its message. Its length
            // is known all the same.
            (None, None) => {
                let before_end = up_last.unwrap_or(switched).wrapping_sub(switched);
                message.header_ms.saturating_sub(before_end.into())
            }
        };
        let first = self.start.absolute_ms.or(up_first.map(instant));
        let last = self.end.absolute_ms.or(up_last.map(instant)).or(self.observed_ms);
        match (first, last, self.duration_ms) {
            (None, Some(last), Some(length)) => (last.checked_sub(length), Some(last)),
            (Some(first), None, Some(length)) => (Some(first), first.checked_add(length)),
            _ => (first, last),
        }
    }
}

impl Times {
    fn see(&mut self, unit: TimeUnit, bytes: &[u8], message: &Message) {
        match unit {
            TimeUnit::Uptime => self.uptime = narrow(bytes),
            TimeUnit::Seconds | TimeUnit::Millis | TimeUnit::Ntp | TimeUnit::DeltaMicros => {
                self.absolute_ms = absolute(unit, bytes, message);
            }
        }
    }
}

/// The time that a field gives, in milliseconds since the Unix epoch; `None` if it gives none, or
/// zero, which is what exporters send that do not know.
fn absolute(unit: TimeUnit, bytes: &[u8], message: &Message) -> Option<i64> {
    let number = unsigned(bytes).filter(|number| *number != 0);
    match unit {
        TimeUnit::Seconds => i64::try_from(number?).ok()?.checked_mul(1_000),
        TimeUnit::Millis => i64::try_from(number?).ok(),
        TimeUnit::Ntp => number.map(|bits| times::from_ntp((bits >> 32) as u32, bits as u32)),
        TimeUnit::DeltaMicros => {
            let before = i64::try_from(unsigned(bytes)?).ok()?;
            Some(message.header_ms.checked_mul(1_000)?.checked_sub(before)?.div_euclid(1_000))
        }
        TimeUnit::Uptime => None,
    }
}

/// Takes an address over, unless there is one already or it is unspecified: exporters send the
/// fields of both IP versions and leave one empty.
fn prefer(slot: &mut Option<IpAddr>, address: Option<IpAddr>) {
    if slot.is_none_or(|known| known.is_unspecified()) {
        *slot = address.or(*slot);
    }
}
