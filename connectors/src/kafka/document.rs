//! Flow documents as messages of protocol buffers (`flow.proto`): what one says, as a flow.
//!
//! `nilometer.flow.in` is what prost-build makes of `flow.proto`, checked in so that a build needs no
//! compiler for it. Fields and enum values that are not known are left alone.

use super::flow_document::{Direction as Way, FlowDocument, NodeInfo};
use crate::account::Reason;
use nilometer_model::flow::{Direction, Flow, FlowVersion, Node};
use prost::Message;
use std::net::IpAddr;
use std::sync::Arc;

/// Why a message is no flow, with particulars.
pub(crate) type NoFlow = (Reason, String);

/// The flow that `message` is; `document` is memory to decode it in, whatever it holds.
///
/// # Errors
/// It is no message of this kind, or a value does not fit.
pub(crate) fn flow(message: &[u8], document: &mut FlowDocument) -> Result<Flow, NoFlow> {
    document.clear();
    document.merge(message).map_err(|error| (Reason::NotProtobuf, error.to_string()))?;
    let node = document
        .exporter_node
        .as_ref()
        .map(|node| Node::new(node.node_id, given(&node.foreign_source), given(&node.foregin_id)));
    Ok(Flow {
        node,
        domain: document.engine_id,
        version: version(document.netflow_version),
        input: document.input_snmp_ifindex,
        output: document.output_snmp_ifindex,
        direction: Some(direction(document.direction)),
        src_address: address("src_address", &document.src_address)?,
        dst_address: address("dst_address", &document.dst_address)?,
        src_port: fit("src_port", document.src_port)?,
        dst_port: fit("dst_port", document.dst_port)?,
        protocol: fit("protocol", document.protocol)?,
        tos: fit("tos", document.tos)?,
        dscp: fit("dscp", document.dscp)?,
        ecn: fit("ecn", document.ecn)?,
        tcp_flags: fit("tcp_flags", document.tcp_flags)?,
        // A text of the exporter's making; what is no number is no VLAN.
        vlan: document.vlan.parse().ok(),
        src_as: fit("src_as", document.src_as)?,
        dst_as: fit("dst_as", document.dst_as)?,
        next_hop: address("next_hop_address", &document.next_hop_address)?,
        application: text(&document.application),
        bytes: document.num_bytes,
        packets: document.num_packets,
        first_ms: fit("first_switched", document.first_switched)?,
        last_ms: fit("last_switched", document.last_switched)?,
        delta_ms: fit("delta_switched", document.delta_switched)?,
        header_ms: fit("timestamp", Some(document.timestamp).filter(|millis| *millis > 0))?,
        sampling_interval: document.sampling_interval,
        location: text(&document.location),
        src_hostname: text(&document.src_hostname),
        dst_hostname: text(&document.dst_hostname),
        ..Flow::default()
    })
}

/// `flow` as a message. What a document has no place for is left out.
pub fn write(flow: &Flow) -> Vec<u8> {
    let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let address = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string()).unwrap_or_default();
    let time = |millis: Option<i64>| millis.and_then(|millis| u64::try_from(millis).ok());
    let node = flow.node.as_ref().map(|node| {
        let (source, id) = node.foreign.as_ref().map_or(("", ""), |(source, id)| (source, id));
        NodeInfo {
            foreign_source: source.into(),
            foregin_id: id.into(),
            node_id: node.node_id,
            categories: Vec::new(),
        }
    });
    FlowDocument {
        timestamp: time(flow.header_ms.or(flow.last_ms)).unwrap_or(0),
        num_bytes: flow.bytes,
        num_packets: flow.packets,
        direction: flow.direction.map_or(Way::Ingress, way).into(),
        engine_id: flow.domain,
        netflow_version: flow.version.map_or(0, |version| match version {
            FlowVersion::V5 => 0,
            FlowVersion::V9 => 1,
            FlowVersion::Ipfix => 2,
            FlowVersion::Sflow => 3,
        }),
        input_snmp_ifindex: flow.input,
        output_snmp_ifindex: flow.output,
        src_address: address(flow.src_address),
        dst_address: address(flow.dst_address),
        next_hop_address: address(flow.next_hop),
        src_hostname: text(&flow.src_hostname),
        dst_hostname: text(&flow.dst_hostname),
        src_port: flow.src_port.map(u32::from),
        dst_port: flow.dst_port.map(u32::from),
        src_as: flow.src_as.map(u64::from),
        dst_as: flow.dst_as.map(u64::from),
        protocol: flow.protocol.map(u32::from),
        tos: flow.tos.map(u32::from),
        dscp: flow.dscp.or(flow.tos.map(|tos| tos >> 2)).map(u32::from),
        ecn: flow.ecn.or(flow.tos.map(|tos| tos & 3)).map(u32::from),
        tcp_flags: flow.tcp_flags.map(u32::from),
        vlan: flow.vlan.map(|vlan| vlan.to_string()).unwrap_or_default(),
        application: text(&flow.application),
        location: text(&flow.location),
        first_switched: time(flow.first_ms),
        delta_switched: time(flow.delta_ms.or(flow.first_ms)),
        last_switched: time(flow.last_ms),
        sampling_interval: flow.sampling_interval.or(flow.options_sampling),
        exporter_node: node,
        ..FlowDocument::default()
    }
    .encode_to_vec()
}

const fn way(direction: Direction) -> Way {
    match direction {
        Direction::Ingress => Way::Ingress,
        Direction::Egress => Way::Egress,
        Direction::Unknown => Way::Unknown,
    }
}

fn text(text: &str) -> Option<Arc<str>> {
    given(text).map(Arc::from)
}

fn given(text: &str) -> Option<&str> {
    if text.is_empty() { None } else { Some(text) }
}

fn address(name: &str, text: &str) -> Result<Option<IpAddr>, NoFlow> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| (Reason::WrongType, format!("`{name}` is no address: {text:.60}"));
    text.parse().map(Some).map_err(wrong)
}

fn fit<N: Copy + std::fmt::Display, M: TryFrom<N>>(
    name: &str,
    number: Option<N>,
) -> Result<Option<M>, NoFlow> {
    let Some(number) = number else { return Ok(None) };
    let fits = M::try_from(number).map(Some);
    fits.map_err(|_| (Reason::OutOfRange, format!("`{name}` cannot be {number}")))
}

/// Whatever is neither is unknown.
fn direction(number: i32) -> Direction {
    match Way::try_from(number) {
        Ok(Way::Ingress) => Direction::Ingress,
        Ok(Way::Egress) => Direction::Egress,
        Ok(Way::Unknown) | Err(_) => Direction::Unknown,
    }
}

fn version(number: i32) -> Option<FlowVersion> {
    const BY_NUMBER: [FlowVersion; 4] =
        [FlowVersion::V5, FlowVersion::V9, FlowVersion::Ipfix, FlowVersion::Sflow];
    BY_NUMBER.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In memory that has held something else.
    fn flow(message: &[u8]) -> Result<Flow, NoFlow> {
        let mut document = FlowDocument::decode(WIRE).unwrap();
        (document.vlan, document.location) = ("7".into(), "elsewhere".into());
        super::flow(message, &mut document)
    }

    /// Written by hand from the wire format: field 2 = wrapper of 1000, field 3 = 255, field 13 =
    /// wrapper of 1700000000400, field 26 = "10.0.0.9", field 36 = { 2: "R1", 3: 7 }, and a field
    /// 999 that nobody knows.
    const WIRE: &[u8] = &[
        0x12, 3, 0x08, 0xE8, 0x07, // 2: { 1: 1000 }
        0x18, 0xFF, 0x01, // 3: 255
        0x6A, 7, 0x08, 0x90, 0xD3, 0x95, 0xFF, 0xBC, 0x31, // 13: { 1: 1700000000400 }
        0xD2, 0x01, 8, b'1', b'0', b'.', b'0', b'.', b'0', b'.', b'9', // 26
        0xA2, 0x02, 6, 0x12, 2, b'R', b'1', 0x18, 7, // 36: { 2: "R1", 3: 7 }
        0xB8, 0x3E, 5, // 999: 5
    ];

    #[test]
    fn a_message_is_read_by_its_field_numbers() {
        let flow = flow(WIRE).unwrap();
        assert_eq!((flow.bytes, flow.last_ms), (Some(1_000), Some(1_700_000_000_400)));
        assert_eq!(flow.direction, Some(Direction::Unknown));
        assert_eq!(flow.src_address, Some("10.0.0.9".parse().unwrap()));
        assert_eq!(flow.node, Some(Node::new(7, None, Some("R1"))));
        assert_eq!((flow.protocol, flow.version), (None, Some(FlowVersion::V5)));
    }

    #[test]
    fn what_is_written_is_read() {
        // A time that is not said is that of the end.
        let read = flow(WIRE).unwrap();
        let written = write(&read);
        let again = Flow { header_ms: None, ..flow(&written).unwrap() };
        assert_eq!(again, read);
        let settings = crate::generator::GeneratorSettings::default();
        let start = nilometer_model::time::EventTime::from_millis(1 << 40);
        for given in crate::generator::FlowGenerator::new(settings, start).take(500) {
            let read = flow(&write(&given)).unwrap();
            // What a document has no place for, or fills in.
            let expected = Flow {
                exporter_address: None,
                domain: given.domain,
                header_ms: given.header_ms.or(given.last_ms),
                delta_ms: given.delta_ms.or(given.first_ms),
                dscp: given.dscp.or(given.tos.map(|tos| tos >> 2)),
                ecn: given.ecn.or(given.tos.map(|tos| tos & 3)),
                version: given.version.or(Some(FlowVersion::V5)),
                direction: given.direction.or(Some(Direction::Ingress)),
                ..given
            };
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn what_makes_no_flow_is_told_with_its_field() {
        for (message, expected) in [
            (&[0x12][..], Reason::NotProtobuf),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Reason::NotProtobuf),
            (&[0x22, 1, 0xFF], Reason::NotProtobuf), // 4: not UTF-8
            (&[0x22, 1, b'x'], Reason::WrongType),   // 4: "x"
            (&[0xB2, 0x01, 3, 0x08, 0x80, 0x02], Reason::OutOfRange), // 22: 256
        ] {
            assert_eq!(flow(message).unwrap_err().0, expected, "{message:?}");
        }
        // Nothing said, or what nobody knows: a flow that the next stage judges.
        assert_eq!(flow(&[]).unwrap().bytes, None);
        assert_eq!(flow(&[0x18, 9]).unwrap().direction, Some(Direction::Unknown));
        assert_eq!(flow(&[0x88, 0x02, 77]).unwrap().version, None);
    }
}
