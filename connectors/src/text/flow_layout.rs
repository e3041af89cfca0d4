//! The layouts of flows as JSON that are known by name: which member of an object is what.
//!
//! A member that stands twice, under two spellings too, counts as it stood last.

use super::number::TimeUnit;

/// Whose JSON it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowLayout {
    /// Flow documents of OpenNMS, under the names of their protocol buffer fields.
    Opennms,
    /// goflow2, under the names of either of its versions.
    Goflow2,
    /// The plugins of pmacct: nfacctd, sfacctd, pmacctd.
    Pmacct,
    /// Akvorado, under the names of its columns.
    Akvorado,
}

impl FlowLayout {
    /// The name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opennms => "opennms",
            Self::Goflow2 => "goflow2",
            Self::Pmacct => "pmacct",
            Self::Akvorado => "akvorado",
        }
    }

    /// Every member that is read, by its path.
    pub(crate) const fn members(self) -> &'static [Named] {
        match self {
            Self::Opennms => OPENNMS,
            Self::Goflow2 => GOFLOW2,
            Self::Pmacct => PMACCT,
            Self::Akvorado => AKVORADO,
        }
    }

    /// How the path of a member may be spelt: protocol buffers are printed in camel case, too.
    pub(crate) fn spellings(self, path: &str) -> Vec<String> {
        match self {
            Self::Opennms => vec![path.to_owned(), camel_case(path)],
            Self::Goflow2 | Self::Pmacct | Self::Akvorado => vec![path.to_owned()],
        }
    }
}

/// `exporter_node.node_id` as `exporterNode.nodeId`.
fn camel_case(path: &str) -> String {
    let mut letters = path.chars();
    let mut camel = String::with_capacity(path.len());
    while let Some(letter) = letters.next() {
        match letter {
            '_' => camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase())),
            letter => camel.push(letter),
        }
    }
    camel
}

/// A member and where it stands.
pub(crate) type Named = (&'static str, Member);

/// A member of a document that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    Timestamp,
    NumBytes,
    Direction,
    DstAddress,
    DstHostname,
    DstAs,
    DstPort,
    EngineId,
    DeltaSwitched,
    FirstSwitched,
    LastSwitched,
    NumPackets,
    Input,
    Output,
    NextHop,
    Protocol,
    SamplingInterval,
    SrcAddress,
    SrcHostname,
    SrcAs,
    SrcPort,
    TcpFlags,
    Tos,
    Version,
    Vlan,
    ExporterNode,
    ForeignSource,
    ForeignId,
    NodeId,
    Application,
    Location,
    Dscp,
    Ecn,
    ExporterAddress,
    /// A point in time; numbers are in this unit.
    At(Moment, TimeUnit),
    /// One in so many packets; 0 where that is not known.
    SamplingRate,
    /// A protocol, by name or number.
    ProtocolName,
    /// Ingress or egress, counted from 1, or by their names in small letters.
    Way,
    /// How it was exported, by the names of goflow2.
    Export,
    /// 0 where there is none.
    VlanId,
    /// `unknown` where there is none.
    Class,
    InputName,
    OutputName,
}

/// Which time of a flow it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    First,
    Last,
    Header,
    Arrival,
}

/// `foregin_id` is how the document spells it.
const OPENNMS: &[Named] = &[
    ("timestamp", Member::Timestamp),
    ("num_bytes", Member::NumBytes),
    ("direction", Member::Direction),
    ("dst_address", Member::DstAddress),
    ("dst_hostname", Member::DstHostname),
    ("dst_as", Member::DstAs),
    ("dst_port", Member::DstPort),
    ("engine_id", Member::EngineId),
    ("delta_switched", Member::DeltaSwitched),
    ("first_switched", Member::FirstSwitched),
    ("last_switched", Member::LastSwitched),
    ("num_packets", Member::NumPackets),
    ("input_snmp_ifindex", Member::Input),
    ("output_snmp_ifindex", Member::Output),
    ("next_hop_address", Member::NextHop),
    ("protocol", Member::Protocol),
    ("sampling_interval", Member::SamplingInterval),
    ("src_address", Member::SrcAddress),
    ("src_hostname", Member::SrcHostname),
    ("src_as", Member::SrcAs),
    ("src_port", Member::SrcPort),
    ("tcp_flags", Member::TcpFlags),
    ("tos", Member::Tos),
    ("netflow_version", Member::Version),
    ("vlan", Member::Vlan),
    ("exporter_node", Member::ExporterNode),
    ("exporter_node.foreign_source", Member::ForeignSource),
    ("exporter_node.foregin_id", Member::ForeignId),
    ("exporter_node.foreign_id", Member::ForeignId),
    ("exporter_node.node_id", Member::NodeId),
    ("application", Member::Application),
    ("location", Member::Location),
    ("dscp", Member::Dscp),
    ("ecn", Member::Ecn),
];

/// The names of version 2, then those of version 1, whose times are in seconds or milliseconds.
const GOFLOW2: &[Named] = &[
    ("type", Member::Export),
    ("time_received_ns", Member::At(Moment::Arrival, TimeUnit::Nanos)),
    ("time_flow_start_ns", Member::At(Moment::First, TimeUnit::Nanos)),
    ("time_flow_end_ns", Member::At(Moment::Last, TimeUnit::Nanos)),
    ("sampling_rate", Member::SamplingRate),
    ("sampler_address", Member::ExporterAddress),
    ("observation_domain_id", Member::EngineId),
    ("flow_direction", Member::Direction),
    ("bytes", Member::NumBytes),
    ("packets", Member::NumPackets),
    ("src_addr", Member::SrcAddress),
    ("dst_addr", Member::DstAddress),
    ("src_port", Member::SrcPort),
    ("dst_port", Member::DstPort),
    ("proto", Member::ProtocolName),
    ("in_if", Member::Input),
    ("out_if", Member::Output),
    ("src_vlan", Member::VlanId),
    ("ip_tos", Member::Tos),
    ("tcp_flags", Member::TcpFlags),
    ("src_as", Member::SrcAs),
    ("dst_as", Member::DstAs),
    ("next_hop", Member::NextHop),
    ("Type", Member::Export),
    ("TimeReceived", Member::At(Moment::Arrival, TimeUnit::Seconds)),
    ("TimeFlowStart", Member::At(Moment::First, TimeUnit::Seconds)),
    ("TimeFlowEnd", Member::At(Moment::Last, TimeUnit::Seconds)),
    ("TimeFlowStartMs", Member::At(Moment::First, TimeUnit::Millis)),
    ("TimeFlowEndMs", Member::At(Moment::Last, TimeUnit::Millis)),
    ("SamplingRate", Member::SamplingRate),
    ("SamplerAddress", Member::ExporterAddress),
    ("ObservationDomainID", Member::EngineId),
    ("FlowDirection", Member::Direction),
    ("Bytes", Member::NumBytes),
    ("Packets", Member::NumPackets),
    ("SrcAddr", Member::SrcAddress),
    ("DstAddr", Member::DstAddress),
    ("SrcPort", Member::SrcPort),
    ("DstPort", Member::DstPort),
    ("Proto", Member::ProtocolName),
    ("InIf", Member::Input),
    ("OutIf", Member::Output),
    ("SrcVlan", Member::VlanId),
    ("IPTos", Member::Tos),
    ("TCPFlags", Member::TcpFlags),
    ("SrcAS", Member::SrcAs),
    ("DstAS", Member::DstAs),
    ("NextHop", Member::NextHop),
];

/// The primitives of `aggregate`, under the names that they have in JSON. The bin of `history` stands
/// for flows that say no time.
const PMACCT: &[Named] = &[
    ("peer_ip_src", Member::ExporterAddress),
    ("iface_in", Member::Input),
    ("iface_out", Member::Output),
    ("ip_src", Member::SrcAddress),
    ("ip_dst", Member::DstAddress),
    ("port_src", Member::SrcPort),
    ("port_dst", Member::DstPort),
    ("ip_proto", Member::ProtocolName),
    ("tos", Member::Tos),
    ("tcp_flags", Member::TcpFlags),
    ("vlan", Member::VlanId),
    ("as_src", Member::SrcAs),
    ("as_dst", Member::DstAs),
    ("peer_ip_dst", Member::NextHop),
    ("class", Member::Class),
    ("sampling_rate", Member::SamplingRate),
    ("sampling_direction", Member::Way),
    ("export_proto_sysid", Member::EngineId),
    ("timestamp_start", Member::At(Moment::First, TimeUnit::Seconds)),
    ("timestamp_end", Member::At(Moment::Last, TimeUnit::Seconds)),
    ("timestamp_arrival", Member::At(Moment::Arrival, TimeUnit::Seconds)),
    ("stamp_inserted", Member::At(Moment::Header, TimeUnit::Seconds)),
    ("packets", Member::NumPackets),
    ("bytes", Member::NumBytes),
];

/// What is stored of a flow: it has one time, that of its arrival.
const AKVORADO: &[Named] = &[
    ("TimeReceived", Member::At(Moment::Last, TimeUnit::Seconds)),
    ("SamplingRate", Member::SamplingRate),
    ("ExporterAddress", Member::ExporterAddress),
    ("FlowDirection", Member::Way),
    ("InIf", Member::Input),
    ("OutIf", Member::Output),
    ("InIfName", Member::InputName),
    ("OutIfName", Member::OutputName),
    ("SrcAddr", Member::SrcAddress),
    ("DstAddr", Member::DstAddress),
    ("SrcPort", Member::SrcPort),
    ("DstPort", Member::DstPort),
    ("Proto", Member::ProtocolName),
    ("IPTos", Member::Tos),
    ("TCPFlags", Member::TcpFlags),
    ("SrcVlan", Member::VlanId),
    ("SrcAS", Member::SrcAs),
    ("DstAS", Member::DstAs),
    ("NextHop", Member::NextHop),
    ("Bytes", Member::NumBytes),
    ("Packets", Member::NumPackets),
];
