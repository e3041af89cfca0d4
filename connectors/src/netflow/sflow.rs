//! sFlow version 5: each flow sample is one packet, and a flow of its own.
//!
//! Samples are read by sflow-parser, one at a time, so that one that it refuses does not take the
//! others with it. Other samples (counters, discarded packets) are left out and counted.
//!
//! A sample carries no time: its flow has that of its arrival. Who exported it is its agent, since
//! sFlow datagrams are commonly relayed.

use super::message::word;
use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use nilometer_model::flow::{Direction, Flow, FlowVersion};
use sflow_parser::models::record_flows::{
    AsPathSegment, ExtendedGateway, HeaderProtocol, SampledHeader,
};
use sflow_parser::models::{Address, FlowData, FlowRecord};
use sflow_parser::{SampleData, parse_datagram};
use std::net::IpAddr;

/// The value of a field that the agent does not know.
const UNKNOWN: u32 = u32::MAX;
/// The same for an interface in a compact sample, whose two upper bits are the format.
const UNKNOWN_COMPACT: u32 = u32::MAX >> 2;
const FLOW_SAMPLE: u32 = 1;
const FLOW_SAMPLE_EXPANDED: u32 = 3;

/// What an sFlow datagram holds.
#[derive(Debug)]
pub(super) struct SflowDatagram {
    /// Address of the agent, or of whoever sent the datagram.
    pub(super) agent: IpAddr,
    /// Sub-agent.
    pub(super) domain: u32,
    /// Number of the datagram.
    pub(super) sequence: u32,
    /// Samples that are no flow samples.
    pub(super) other_samples: u64,
    /// Whether a part of it makes no sense.
    pub(super) is_damaged: bool,
}

/// Appends the flows of an sFlow datagram to `out`; `None` if its header makes no sense.
pub(super) fn decode(
    bytes: &[u8],
    sender: IpAddr,
    arrival_ms: Option<i64>,
    out: &mut Vec<Flow>,
) -> Option<SflowDatagram> {
    let header = 8 + match word(bytes, 4)? {
        0 => 0,
        1 => 4,
        2 => 16,
        _ => return None,
    };
    // Sub-agent, sequence, uptime, and the number of samples.
    let samples = header + 12;
    let mut datagram = SflowDatagram {
        agent: sender,
        domain: word(bytes, header)?,
        sequence: word(bytes, header + 4)?,
        other_samples: 0,
        is_damaged: false,
    };
    let announced = word(bytes, samples)?;
    let mut single = bytes.get(..samples)?.to_vec();
    single.extend_from_slice(&1u32.to_be_bytes());
    let mut rest = bytes.get(samples + 4..)?;
    for _ in 0..announced {
        let (Some(format), Some(length)) = (word(rest, 0), word(rest, 4)) else {
            datagram.is_damaged = true;
            break;
        };
        let end = (length as usize).saturating_add(8);
        let Some(sample) = rest.get(..end) else {
            datagram.is_damaged = true;
            break;
        };
        rest = rest.get(end..)?;
        if ![FLOW_SAMPLE, FLOW_SAMPLE_EXPANDED].contains(&format) {
            datagram.other_samples += 1;
            continue;
        }
        single.truncate(samples + 4);
        single.extend_from_slice(sample);
        match flow(&single, &mut datagram) {
            Some(flow) => out.push(Flow { arrival_ms, ..flow }),
            None => datagram.is_damaged = true,
        }
    }
    Some(datagram)
}

/// The flow of the only sample of a datagram; `None` if the sample makes no sense.
fn flow(single: &[u8], datagram: &mut SflowDatagram) -> Option<Flow> {
    let parsed = parse_datagram(single).ok()?;
    if let Some(agent) = ip(&parsed.agent_address) {
        datagram.agent = agent;
    }
    let (source, rate, input, output, records) =
        match parsed.samples.into_iter().next()?.sample_data {
            SampleData::FlowSample(sample) => {
                let interface = |number: u32| interface(number >> 30, number & UNKNOWN_COMPACT);
                let (input, output) = (interface(sample.input.0), interface(sample.output.0));
                let source = sample.source_id.0 & 0x00FF_FFFF;
                (source, sample.sampling_rate, input, output, sample.flow_records)
            }
            SampleData::FlowSampleExpanded(sample) => {
                let (input, output) = (sample.input, sample.output);
                let input = interface(input.format, input.value);
                let output = interface(output.format, output.value);
                let source = sample.source_id.source_id_index;
                (source, sample.sampling_rate, input, output, sample.flow_records)
            }
            _ => return None,
        };
    let is_egress = output == Some(source) && input != Some(source);
    let mut flow = Flow {
        exporter_address: Some(datagram.agent),
        domain: Some(datagram.domain),
        version: Some(FlowVersion::Sflow),
        input,
        output,
        direction: Some(if is_egress { Direction::Egress } else { Direction::Ingress }),
        packets: Some(1),
        sampling_interval: Some(rate.into()),
        ..Flow::default()
    };
    for record in &records {
        see(record, &mut flow);
    }
    Some(flow)
}

/// The interface that a format and a value mean. Format 1 is a discarded packet, which has none;
/// any other value is taken as an index, as collectors commonly do, also that of a packet which
/// left by several interfaces.
fn interface(format: u32, value: u32) -> Option<u32> {
    (format != 1 && value != UNKNOWN && value != UNKNOWN_COMPACT).then_some(value)
}

fn ip(address: &Address) -> Option<IpAddr> {
    let address = match address {
        Address::Unknown => return None,
        Address::IPv4(address) => IpAddr::V4(*address),
        Address::IPv6(address) => IpAddr::V6(*address),
    };
    (!address.is_unspecified()).then_some(address)
}

fn narrow<N: TryFrom<u32>>(number: u32) -> Option<N> {
    N::try_from(number).ok()
}

/// Takes in one record of a sample. The packet's header goes before what the agent read from it.
fn see(record: &FlowRecord, flow: &mut Flow) {
    match &record.flow_data {
        FlowData::SampledHeader(header) => see_header(header, flow),
        FlowData::SampledEthernet(frame) => {
            flow.bytes.get_or_insert(frame.length.into());
        }
        FlowData::SampledIpv4(packet) => {
            flow.bytes.get_or_insert(packet.length.into());
            flow.src_address.get_or_insert(packet.src_ip.into());
            flow.dst_address.get_or_insert(packet.dst_ip.into());
            flow.protocol = flow.protocol.or(narrow(packet.protocol));
            flow.src_port = flow.src_port.or(narrow(packet.src_port));
            flow.dst_port = flow.dst_port.or(narrow(packet.dst_port));
            flow.tcp_flags = flow.tcp_flags.or(narrow(packet.tcp_flags));
            flow.tos = flow.tos.or(narrow(packet.tos));
        }
        FlowData::SampledIpv6(packet) => {
            flow.bytes.get_or_insert(packet.length.into());
            flow.src_address.get_or_insert(packet.src_ip.into());
            flow.dst_address.get_or_insert(packet.dst_ip.into());
            flow.protocol = flow.protocol.or(narrow(packet.protocol));
            flow.src_port = flow.src_port.or(narrow(packet.src_port));
            flow.dst_port = flow.dst_port.or(narrow(packet.dst_port));
            flow.tcp_flags = flow.tcp_flags.or(narrow(packet.tcp_flags));
            flow.tos = flow.tos.or(narrow(packet.priority));
        }
        FlowData::ExtendedSwitch(switch) => flow.vlan = flow.vlan.or(narrow(switch.src_vlan)),
        FlowData::ExtendedRouter(router) => flow.next_hop = ip(&router.next_hop),
        FlowData::ExtendedGateway(gateway) => see_gateway(gateway, flow),
        // The agent may send a hundred other kinds of records; none says more about the flow.
        _ => {}
    }
}

fn see_gateway(gateway: &ExtendedGateway, flow: &mut Flow) {
    flow.src_as = Some(gateway.src_as);
    let last = |segment: &AsPathSegment| segment.path.last().copied();
    flow.dst_as = gateway.dst_as_path.iter().rev().find_map(last);
}

/// Takes in the first bytes of the packet.
fn see_header(header: &SampledHeader, flow: &mut Flow) {
    flow.bytes = Some(header.frame_length.into());
    let sliced = match header.protocol {
        HeaderProtocol::EthernetIso88023 => LaxSlicedPacket::from_ethernet(&header.header).ok(),
        HeaderProtocol::Ipv4 | HeaderProtocol::Ipv6 => {
            LaxSlicedPacket::from_ip(&header.header).ok()
        }
        // Other link layers: the packet counts, its ends are not known.
        _ => None,
    };
    let Some(sliced) = sliced else { return };
    flow.vlan = sliced.vlan_ids().first().map(|id| id.value());
    match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let head = ip.header();
            flow.src_address = Some(head.source_addr().into());
            flow.dst_address = Some(head.destination_addr().into());
            flow.tos = Some(head.dcp().value() << 2 | head.ecn().value());
            flow.protocol = Some(ip.payload().ip_number.0);
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let head = ip.header();
            flow.src_address = Some(head.source_addr().into());
            flow.dst_address = Some(head.destination_addr().into());
            flow.tos = Some(head.traffic_class());
            flow.protocol = Some(ip.payload().ip_number.0);
        }
        Some(LaxNetSlice::Arp(_)) | None => {}
    }
    match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => {
            flow.src_port = Some(udp.source_port());
            flow.dst_port = Some(udp.destination_port());
        }
        Some(TransportSlice::Tcp(tcp)) => {
            flow.src_port = Some(tcp.source_port());
            flow.dst_port = Some(tcp.destination_port());
            // The low byte of the flags: FIN to CWR.
            flow.tcp_flags = tcp.slice().get(13).map(|flags| u16::from(*flags));
        }
        Some(TransportSlice::Icmpv4(_) | TransportSlice::Icmpv6(_) | TransportSlice::Igmp(_))
        | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().copied().flat_map(u32::to_be_bytes).collect()
    }

    /// Something with its format and length before it.
    fn framed(format: u32, body: &[u8]) -> Vec<u8> {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let length = (body.len() + padding.len()) as u32;
        [words(&[format, length]), body.to_vec(), padding].concat()
    }

    /// A datagram of agent 192.0.2.7, sub-agent 3, number 40, with these samples.
    fn datagram(samples: &[Vec<u8>]) -> Vec<u8> {
        let head = words(&[5, 1, 0xC000_0207, 3, 40, 1_000, samples.len() as u32]);
        [head, samples.concat()].concat()
    }

    /// A flow sample of source 9, rate 100, with these records.
    fn sample(input: u32, output: u32, records: &[Vec<u8>]) -> Vec<u8> {
        let head = words(&[1, 9, 100, 0, 0, input, output, records.len() as u32]);
        framed(FLOW_SAMPLE, &[head, records.concat()].concat())
    }

    fn tcp_header() -> Vec<u8> {
        let mut packet = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .single_vlan(7.try_into().unwrap())
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(443, 9, 0, 0)
            .syn()
            .ack(1)
            .write(&mut packet, &[])
            .unwrap();
        // Protocol Ethernet, frame length, stripped, header.
        let length = packet.len() as u32;
        framed(1, &[words(&[1, 1_500, 4, length]), packet].concat())
    }

    fn decoded(bytes: &[u8]) -> (Vec<Flow>, Option<SflowDatagram>) {
        let mut flows = Vec::new();
        let datagram = decode(bytes, "192.0.2.1".parse().unwrap(), Some(8), &mut flows);
        (flows, datagram)
    }

    #[test]
    fn a_sample_is_a_flow_of_one_packet() {
        let (flows, found) = decoded(&datagram(&[sample(4, 9, &[tcp_header()])]));
        let found = found.unwrap();
        assert_eq!((found.domain, found.sequence, found.is_damaged), (3, 40, false));
        let expected = Flow {
            exporter_address: Some("192.0.2.7".parse().unwrap()),
            domain: Some(3),
            version: Some(FlowVersion::Sflow),
            input: Some(4),
            output: Some(9),
            direction: Some(Direction::Egress),
            src_address: Some("10.0.0.1".parse().unwrap()),
            dst_address: Some("10.0.0.2".parse().unwrap()),
            src_port: Some(443),
            dst_port: Some(9),
            protocol: Some(6),
            tos: Some(0),
            tcp_flags: Some(0x12),
            vlan: Some(7),
            bytes: Some(1_500),
            packets: Some(1),
            sampling_interval: Some(100.0),
            arrival_ms: Some(8),
            ..Flow::default()
        };
        assert_eq!(flows, [expected]);
    }

    #[test]
    fn what_the_agent_read_of_a_packet_stands_in_for_its_header() {
        let ipv4 = words(&[60, 17, 0x0A00_0001, 0x0A00_0002, 53, 99, 0, 184]);
        let router = words(&[1, 0x0A00_00FE, 24, 24]);
        let gateway =
            words(&[1, 0x0A00_00FD, 65_000, 65_001, 65_002, 1, 2, 2, 64_900, 64_901, 0, 0]);
        let records = [framed(3, &ipv4), framed(1_002, &router), framed(1_003, &gateway)];
        // A discarded packet has no output.
        let (flows, _) = decoded(&datagram(&[sample(9, 1 << 30 | 258, &records)]));
        let [flow] = &flows[..] else { panic!("{flows:?}") };
        assert_eq!((flow.bytes, flow.protocol, flow.tos), (Some(60), Some(17), Some(184)));
        assert_eq!((flow.src_port, flow.dst_port), (Some(53), Some(99)));
        assert_eq!(flow.dst_address, Some("10.0.0.2".parse().unwrap()));
        assert_eq!(flow.next_hop, Some("10.0.0.254".parse().unwrap()));
        assert_eq!((flow.src_as, flow.dst_as), (Some(65_001), Some(64_901)));
        assert_eq!((flow.input, flow.output), (Some(9), None));
        assert_eq!(flow.direction, Some(Direction::Ingress));
    }

    #[test]
    fn one_bad_sample_does_not_take_the_others_with_it() {
        let good = sample(1, 2, &[tcp_header()]);
        let counters = framed(2, &words(&[1, 2, 3]));
        // A header of a protocol that does not exist.
        let bad = sample(1, 2, &[framed(1, &words(&[99, 1_500, 4, 0]))]);
        let (flows, found) = decoded(&datagram(&[counters, good.clone(), bad, good.clone()]));
        let found = found.unwrap();
        assert_eq!((flows.len(), found.other_samples, found.is_damaged), (2, 1, true));
        let whole = datagram(&[good.clone(), good]);
        for length in 0..whole.len() {
            let (flows, found) = decoded(&whole[..length]);
            let first = 28 + (whole.len() - 28) / 2;
            assert_eq!(flows.len(), usize::from(length >= first), "{length}");
            assert!(found.is_none_or(|found| found.is_damaged), "{length}");
        }
    }
}
