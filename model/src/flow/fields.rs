//! The fields of a flow by name, and how a flow becomes a row.
//!
//! The names are what configuration files, filters and keys use; they follow the names of
//! OpenNMS' flow document where it has them. Only the fields of the layout are computed.

use std::net::IpAddr;

use crate::flow::exporters::ExporterId;
use crate::flow::normal::NormalFlow;
use crate::flow::record::{Direction, FlowVersion};
use crate::row::{RowLayout, RowWriter, Slot};
use crate::symbol::{SymbolCache, Symbols, SymbolsFull};
use crate::value::{Datum, Type, Value};

/// A field of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "FLOW_FIELDS says what each is")]
pub enum FlowField {
    Exporter,
    ExporterAddress,
    Domain,
    NodeId,
    WindowPhase,
    ForeignSource,
    ForeignId,
    Location,
    IfIndex,
    Input,
    Output,
    InputInterface,
    OutputInterface,
    Direction,
    SrcAddress,
    DstAddress,
    AddressLower,
    AddressUpper,
    SrcPort,
    DstPort,
    Protocol,
    Tos,
    Dscp,
    Ecn,
    TcpFlags,
    Vlan,
    SrcAs,
    DstAs,
    NextHopAddress,
    Application,
    NetflowVersion,
    NumBytes,
    NumPackets,
    Bytes,
    Packets,
    BytesIngress,
    BytesEgress,
    PacketsIngress,
    PacketsEgress,
    SamplingInterval,
    FirstSwitched,
    LastSwitched,
    SrcHostname,
    DstHostname,
    HostnameLower,
    HostnameUpper,
    CongestionEncountered,
    NonEct,
    ConversationComplete,
}

/// What there is to know about a [`FlowField`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowFieldInfo {
    /// The field.
    pub field: FlowField,
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// What it says, for the documentation.
    pub meaning: &'static str,
}

const fn info(
    field: FlowField,
    name: &'static str,
    ty: Type,
    meaning: &'static str,
) -> FlowFieldInfo {
    FlowFieldInfo { field, name, ty, meaning }
}

/// Every field of a flow.
#[rustfmt::skip]
pub const FLOW_FIELDS: &[FlowFieldInfo] = &[
    info(FlowField::Exporter, "exporter", Type::Object, "who exported it: the node, or the address of an exporter that nobody named"),
    info(FlowField::ExporterAddress, "exporter_address", Type::Ip, "the address that it came from; of sFlow, that of its agent"),
    info(FlowField::Domain, "domain", Type::U32, "observation domain, source id, engine or sub-agent"),
    info(FlowField::NodeId, "node_id", Type::U32, "number of the exporter's node, 0 if nobody named it"),
    info(FlowField::WindowPhase, "window_phase", Type::U32, "what shifts windows by key: node_id of a named exporter, else 32 bits of a hash of it"),
    info(FlowField::ForeignSource, "foreign_source", Type::Text, "foreign source of the exporter's node"),
    info(FlowField::ForeignId, "foreign_id", Type::Text, "foreign id of the exporter's node"),
    info(FlowField::Location, "location", Type::Text, "where the exporter stands, empty if unset"),
    info(FlowField::IfIndex, "if_index", Type::U32, "the interface that it counts on: input if ingress, else output; 0 if unset"),
    info(FlowField::Input, "input_snmp_ifindex", Type::U32, "SNMP index of the input interface"),
    info(FlowField::Output, "output_snmp_ifindex", Type::U32, "SNMP index of the output interface"),
    info(FlowField::InputInterface, "input_interface", Type::Text, "name of the input interface"),
    info(FlowField::OutputInterface, "output_interface", Type::Text, "name of the output interface"),
    info(FlowField::Direction, "direction", Type::Text, "INGRESS, EGRESS or UNKNOWN"),
    info(FlowField::SrcAddress, "src_address", Type::Ip, "source address"),
    info(FlowField::DstAddress, "dst_address", Type::Ip, "destination address"),
    info(FlowField::AddressLower, "address_lower", Type::Ip, "the address that comes first as text; null if one is unset"),
    info(FlowField::AddressUpper, "address_upper", Type::Ip, "the other address"),
    info(FlowField::SrcPort, "src_port", Type::U16, "source port"),
    info(FlowField::DstPort, "dst_port", Type::U16, "destination port"),
    info(FlowField::Protocol, "protocol", Type::U8, "IP protocol number"),
    info(FlowField::Tos, "tos", Type::U8, "type of service, traffic class"),
    info(FlowField::Dscp, "dscp", Type::U8, "code point: as given, else of tos, else 0"),
    info(FlowField::Ecn, "ecn", Type::U8, "congestion notification: as given, else of tos"),
    info(FlowField::TcpFlags, "tcp_flags", Type::U16, "TCP flags seen"),
    info(FlowField::Vlan, "vlan", Type::U16, "VLAN id"),
    info(FlowField::SrcAs, "src_as", Type::U32, "autonomous system of the source"),
    info(FlowField::DstAs, "dst_as", Type::U32, "autonomous system of the destination"),
    info(FlowField::NextHopAddress, "next_hop_address", Type::Ip, "next hop"),
    info(FlowField::Application, "application", Type::Text, "as given, else by the rule table, else __unknown"),
    info(FlowField::NetflowVersion, "netflow_version", Type::Text, "V5, V9, IPFIX or SFLOW"),
    info(FlowField::NumBytes, "num_bytes", Type::U64, "bytes, not scaled by sampling"),
    info(FlowField::NumPackets, "num_packets", Type::U64, "packets, not scaled by sampling"),
    info(FlowField::Bytes, "bytes", Type::Big, "bytes, scaled by sampling"),
    info(FlowField::Packets, "packets", Type::Big, "packets, scaled by sampling"),
    info(FlowField::BytesIngress, "bytes_ingress", Type::Big, "bytes of an ingress flow, else 0"),
    info(FlowField::BytesEgress, "bytes_egress", Type::Big, "bytes of a flow that is not ingress, else 0"),
    info(FlowField::PacketsIngress, "packets_ingress", Type::Big, "packets of an ingress flow, else 0"),
    info(FlowField::PacketsEgress, "packets_egress", Type::Big, "packets of a flow that is not ingress, else 0"),
    info(FlowField::SamplingInterval, "sampling_interval", Type::F64, "the interval that scaled it"),
    info(FlowField::FirstSwitched, "first_switched", Type::I64, "begin, ms since the epoch"),
    info(FlowField::LastSwitched, "last_switched", Type::I64, "end, inclusive, ms since the epoch"),
    info(FlowField::SrcHostname, "src_hostname", Type::Text, "name of the source host"),
    info(FlowField::DstHostname, "dst_hostname", Type::Text, "name of the destination host"),
    info(FlowField::HostnameLower, "hostname_lower", Type::Text, "name of the host at address_lower"),
    info(FlowField::HostnameUpper, "hostname_upper", Type::Text, "name of the host at address_upper"),
    info(FlowField::CongestionEncountered, "congestion_encountered", Type::Bool, "whether ecn is 3"),
    info(FlowField::NonEct, "non_ect", Type::Bool, "whether ecn is 0 or unset"),
    info(FlowField::ConversationComplete, "conversation_complete", Type::Bool, "whether protocol and both addresses are set"),
];

impl FlowField {
    /// The field called `name`.
    pub fn from_name(name: &str) -> Option<&'static FlowFieldInfo> {
        FLOW_FIELDS.iter().find(|info| info.name == name)
    }
}

/// The value of a field, its text borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell<'a> {
    Null,
    Bool(bool),
    Int(u128),
    Signed(i64),
    Float(f64),
    Text(&'a str),
    Ip(IpAddr),
    Exporter(ExporterId<'a>),
}

impl<'a> Cell<'a> {
    fn int<N: Into<u128>>(number: Option<N>) -> Self {
        number.map_or(Self::Null, |number| Self::Int(number.into()))
    }

    fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }

    fn ip(address: Option<IpAddr>) -> Self {
        address.map_or(Self::Null, Self::Ip)
    }
}

fn cell<'a>(normal: &NormalFlow<'a>, field: FlowField) -> Cell<'a> {
    let flow = normal.flow;
    let is_ingress = normal.direction == Direction::Ingress;
    let one_way = |amount: u128, counts: bool| Cell::Int(if counts { amount } else { 0 });
    match field {
        FlowField::Exporter => Cell::Exporter(normal.exporter),
        FlowField::ExporterAddress => Cell::ip(flow.exporter_address),
        FlowField::Domain => Cell::int(flow.domain),
        FlowField::NodeId => Cell::int(Some(normal.exporter.node_id())),
        FlowField::WindowPhase => Cell::int(Some(normal.exporter.window_phase())),
        FlowField::ForeignSource => Cell::text(normal.exporter.foreign().map(|(source, _)| source)),
        FlowField::ForeignId => Cell::text(normal.exporter.foreign().map(|(_, id)| id)),
        FlowField::Location => Cell::Text(flow.location.as_deref().unwrap_or("")),
        FlowField::IfIndex => Cell::int(Some(normal.if_index)),
        FlowField::Input => Cell::int(flow.input),
        FlowField::Output => Cell::int(flow.output),
        FlowField::InputInterface => Cell::text(flow.input_interface.as_deref()),
        FlowField::OutputInterface => Cell::text(flow.output_interface.as_deref()),
        FlowField::Direction => Cell::Text(normal.direction.name()),
        FlowField::SrcAddress => Cell::ip(flow.src_address),
        FlowField::DstAddress => Cell::ip(flow.dst_address),
        FlowField::AddressLower => Cell::ip(normal.lower),
        FlowField::AddressUpper => Cell::ip(normal.upper),
        FlowField::SrcPort => Cell::int(flow.src_port),
        FlowField::DstPort => Cell::int(flow.dst_port),
        FlowField::Protocol => Cell::int(flow.protocol),
        FlowField::Tos => Cell::int(flow.tos),
        FlowField::Dscp => Cell::int(Some(normal.dscp)),
        FlowField::Ecn => Cell::int(normal.ecn),
        FlowField::TcpFlags => Cell::int(flow.tcp_flags),
        FlowField::Vlan => Cell::int(flow.vlan),
        FlowField::SrcAs => Cell::int(flow.src_as),
        FlowField::DstAs => Cell::int(flow.dst_as),
        FlowField::NextHopAddress => Cell::ip(flow.next_hop),
        FlowField::Application => Cell::Text(normal.application),
        FlowField::NetflowVersion => Cell::text(flow.version.map(FlowVersion::name)),
        FlowField::NumBytes => Cell::int(flow.bytes),
        FlowField::NumPackets => Cell::int(flow.packets),
        FlowField::Bytes => Cell::Int(normal.bytes),
        FlowField::Packets => Cell::Int(normal.packets),
        FlowField::BytesIngress => one_way(normal.bytes, is_ingress),
        FlowField::BytesEgress => one_way(normal.bytes, !is_ingress),
        FlowField::PacketsIngress => one_way(normal.packets, is_ingress),
        FlowField::PacketsEgress => one_way(normal.packets, !is_ingress),
        FlowField::SamplingInterval => Cell::Float(normal.sampling_interval),
        FlowField::FirstSwitched => Cell::Signed(normal.extent.first().as_millis()),
        FlowField::LastSwitched => Cell::Signed(normal.extent.last().as_millis()),
        FlowField::SrcHostname => Cell::text(flow.src_hostname.as_deref()),
        FlowField::DstHostname => Cell::text(flow.dst_hostname.as_deref()),
        FlowField::HostnameLower => Cell::text(normal.lower_hostname),
        FlowField::HostnameUpper => Cell::text(normal.upper_hostname),
        FlowField::CongestionEncountered => Cell::Bool(normal.is_congestion_encountered()),
        FlowField::NonEct => Cell::Bool(normal.is_non_ect()),
        FlowField::ConversationComplete => Cell::Bool(normal.is_conversation_complete()),
    }
}

impl NormalFlow<'_> {
    /// The value of `field`, which owns its text.
    pub fn value(&self, field: FlowField) -> Value {
        match cell(self, field) {
            Cell::Null => Value::Null,
            Cell::Bool(truth) => Value::Bool(truth),
            Cell::Int(number) => Value::Int(number as i128),
            Cell::Signed(number) => Value::Int(number.into()),
            Cell::Float(number) => Value::Float(number),
            Cell::Text(text) => Value::Text(text.into()),
            Cell::Ip(address) => Value::Ip(address),
            Cell::Exporter(exporter) => {
                let mut text = String::new();
                exporter.write_json(&mut text);
                Value::Object(text.into())
            }
        }
    }
}

/// Writes flows into rows of one layout.
#[derive(Debug)]
pub struct FlowRows {
    slots: Vec<(FlowField, Slot)>,
    /// Holds the symbols of the texts seen. It bounds itself.
    cache: SymbolCache,
    /// Scratch for the text of an exporter.
    text: String,
}

impl FlowRows {
    /// A writer for the flow fields of `layout`; its other fields stay null, for whoever derives
    /// them.
    pub fn new(layout: &RowLayout) -> Self {
        let slots = layout.fields().iter().zip(layout.slots());
        let slots = slots.filter_map(|(field, slot)| {
            let info = FlowField::from_name(&field.name)?;
            (info.ty == slot.ty).then_some((info.field, *slot))
        });
        Self { slots: slots.collect(), cache: SymbolCache::default(), text: String::new() }
    }

    /// Writes `flow` into `row`, which belongs to the layout that this writer was made for.
    ///
    /// # Errors
    /// The table of texts is full.
    pub fn write(
        &mut self,
        flow: &NormalFlow<'_>,
        symbols: &Symbols,
        row: &mut RowWriter<'_>,
    ) -> Result<(), SymbolsFull> {
        for (field, slot) in &self.slots {
            let datum = match cell(flow, *field) {
                Cell::Null => Datum::Null,
                Cell::Bool(truth) => Datum::Bool(truth),
                Cell::Int(number) => Datum::Int(number as i128),
                Cell::Signed(number) => Datum::Int(number.into()),
                Cell::Float(number) => Datum::Float(number),
                Cell::Text(text) => Datum::Text(self.cache.intern(symbols, text)?),
                Cell::Ip(address) => Datum::ip(address),
                Cell::Exporter(exporter) => {
                    self.text.clear();
                    exporter.write_json(&mut self.text);
                    Datum::Object(self.cache.intern(symbols, &self.text)?)
                }
            };
            row.set(*slot, datum);
        }
        Ok(())
    }
}
