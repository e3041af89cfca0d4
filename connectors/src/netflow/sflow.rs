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
