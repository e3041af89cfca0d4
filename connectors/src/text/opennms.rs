//! The preset `opennms`: flow documents of OpenNMS as JSON, under the names of their protocol
//! buffer fields.
//!
//! Wrapped numbers stand as plain values. As the JSON form of protocol buffers allows, numbers may
//! be text, and names may be in camel case. Fields that no job reads are accepted and left alone.

use crate::account::Reason;
use crate::flow_intake::FlowIntake;
use crate::source::{Found, Polled};
use crate::text::members::Members;
use crate::text::ndjson::not_json;
use crate::text::number::{double, whole};
use crate::text::schema::{Scalar, complaint};
use nilometer_model::flow::{Direction, Flow, FlowVersion, Node};
use nilometer_model::row::Position;
use std::net::IpAddr;
use std::sync::Arc;

/// A member of a document that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
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
}

/// Every member that is read, by its path. `foregin_id` is how the document spells it.
const MEMBERS: &[(&str, Member)] = &[
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

/// Makes flows of documents.
#[derive(Debug)]
pub(crate) struct Documents {
    members: Members,
    intake: FlowIntake,
}

impl Documents {
    /// Documents for `intake`.
    pub(crate) fn new(intake: FlowIntake) -> Self {
        let mut members = Members::default();
        for (number, (path, _)) in MEMBERS.iter().enumerate() {
            members.want(path, number);
            members.want(&camel_case(path), number);
        }
        Self { members, intake }
    }

    /// The next document stands at `position`.
    pub(crate) fn place(&mut self, position: Position) {
        self.intake.place(position);
    }

    /// How many records were begun.
    pub(crate) fn count(&self) -> u64 {
        self.intake.count_so_far()
    }

    /// Goes on behind `count` records that were begun by another.
    pub(crate) fn resume(&mut self, count: u64) {
        self.intake.resume(count);
    }

    /// Makes a flow of the line `text`, in which the input ended if it `is_cut`, and counts it as
    /// read.
    pub(crate) fn decode(&mut self, text: &str, is_cut: bool, found: Found<'_>, out: &mut Polled) {
        let mut document = Document::default();
        let mut fault = None;
        let read = self.members.read(text, &mut |number, raw| {
            let Some((path, member)) = MEMBERS.get(number) else { return };
            if let Err((reason, expected)) = document.take(*member, raw)
                && fault.is_none()
            {
                fault = Some((reason, complaint(path, expected, raw)));
            }
        });
        if let Some((reason, detail)) = read.err().map(|error| not_json(&error, is_cut)).or(fault) {
            return self.intake.reject(found, reason, &detail, out);
        }
        self.intake.take(&document.flow(), found, out);
    }

    /// Counts input as read that is no text, and rejects it.
    pub(crate) fn reject(
        &mut self,
        found: Found<'_>,
        reason: Reason,
        detail: &str,
        out: &mut Polled,
    ) {
        self.intake.reject(found, reason, detail, out);
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

/// What one document has said so far.
#[derive(Debug, Default)]
struct Document<'a> {
    flow: Flow,
    has_node: bool,
    node_id: Option<u32>,
    foreign_source: Option<Text<'a>>,
    foreign_id: Option<Text<'a>>,
}

type Text<'a> = std::borrow::Cow<'a, str>;

/// Why a value does not fit, and what was expected.
type Misfit = (Reason, &'static str);

impl<'a> Document<'a> {
    fn take(&mut self, member: Member, raw: &'a str) -> Result<(), Misfit> {
        let value = Scalar::of_json(raw).map_err(|reason| (reason, "text"))?;
        let flow = &mut self.flow;
        match member {
            Member::Timestamp => flow.header_ms = millis(&value)?,
            Member::NumBytes => flow.bytes = unsigned(&value, "u64")?,
            Member::Direction => flow.direction = direction(&value)?,
            Member::DstAddress => flow.dst_address = address(&value)?,
            Member::DstHostname => flow.dst_hostname = shared(value)?,
            Member::DstAs => flow.dst_as = unsigned(&value, "u32")?,
            Member::DstPort => flow.dst_port = unsigned(&value, "u16")?,
            Member::EngineId => flow.domain = unsigned(&value, "u32")?,
            Member::DeltaSwitched => flow.delta_ms = millis(&value)?,
            Member::FirstSwitched => flow.first_ms = millis(&value)?,
            Member::LastSwitched => flow.last_ms = millis(&value)?,
            Member::NumPackets => flow.packets = unsigned(&value, "u64")?,
            Member::Input => flow.input = unsigned(&value, "u32")?,
            Member::Output => flow.output = unsigned(&value, "u32")?,
            Member::NextHop => flow.next_hop = address(&value)?,
            Member::Protocol => flow.protocol = unsigned(&value, "u8")?,
            Member::SamplingInterval => flow.sampling_interval = interval(&value)?,
            Member::SrcAddress => flow.src_address = address(&value)?,
            Member::SrcHostname => flow.src_hostname = shared(value)?,
            Member::SrcAs => flow.src_as = unsigned(&value, "u32")?,
            Member::SrcPort => flow.src_port = unsigned(&value, "u16")?,
            Member::TcpFlags => flow.tcp_flags = unsigned(&value, "u16")?,
            Member::Tos => flow.tos = unsigned(&value, "u8")?,
            Member::Version => flow.version = version(&value)?,
            Member::Vlan => flow.vlan = unsigned(&value, "u16")?,
            Member::ExporterNode => self.has_node = is_node(&value)?,
            Member::ForeignSource => self.foreign_source = text(value)?,
            Member::ForeignId => self.foreign_id = text(value)?,
            Member::NodeId => self.node_id = unsigned(&value, "u32")?,
            Member::Application => flow.application = shared(value)?,
            Member::Location => flow.location = shared(value)?,
            Member::Dscp => flow.dscp = unsigned(&value, "u8")?,
            Member::Ecn => flow.ecn = unsigned(&value, "u8")?,
        }
        Ok(())
    }

    fn flow(mut self) -> Flow {
        let has_part =
            self.node_id.is_some() || self.foreign_source.is_some() || self.foreign_id.is_some();
        if self.has_node || has_part {
            self.flow.node = Some(Node::new(
                self.node_id.unwrap_or(0),
                self.foreign_source.as_deref(),
                self.foreign_id.as_deref(),
            ));
        }
        self.flow
    }
}

/// A whole number, plain or as text; null and empty text are no value.
fn integer(value: &Scalar<'_>, expected: &'static str) -> Result<Option<i128>, Misfit> {
    let digits = match value {
        Scalar::Null => return Ok(None),
        Scalar::Text(text) if text.is_empty() => return Ok(None),
        Scalar::Number(digits) => digits,
        Scalar::Text(digits) => &**digits,
        Scalar::Bool(_) | Scalar::Nested(_) => return Err((Reason::WrongType, expected)),
    };
    whole(digits).map(Some).map_err(|reason| (reason, expected))
}

fn unsigned<N: TryFrom<i128>>(
    value: &Scalar<'_>,
    expected: &'static str,
) -> Result<Option<N>, Misfit> {
    let number = integer(value, expected)?;
    number.map(|number| N::try_from(number).map_err(|_| (Reason::OutOfRange, expected))).transpose()
}

fn millis(value: &Scalar<'_>) -> Result<Option<i64>, Misfit> {
    match unsigned::<i64>(value, "time in ms")? {
        Some(before_1970) if before_1970 < 0 => Err((Reason::OutOfRange, "time in ms")),
        millis => Ok(millis),
    }
}

fn interval(value: &Scalar<'_>) -> Result<Option<f64>, Misfit> {
    let number = match value {
        Scalar::Null => return Ok(None),
        Scalar::Number(text) => double(text),
        Scalar::Text(text) => match &**text {
            "" => return Ok(None),
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            digits => double(digits),
        },
        Scalar::Bool(_) | Scalar::Nested(_) => Err(Reason::WrongType),
    };
    number.map(Some).map_err(|reason| (reason, "number"))
}

fn text<'a>(value: Scalar<'a>) -> Result<Option<Text<'a>>, Misfit> {
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Scalar::Bool(_) | Scalar::Number(_) | Scalar::Nested(_) => Err((Reason::WrongType, "text")),
    }
}

fn shared(value: Scalar<'_>) -> Result<Option<Arc<str>>, Misfit> {
    Ok(text(value)?.map(Arc::from))
}

fn address(value: &Scalar<'_>) -> Result<Option<IpAddr>, Misfit> {
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) if text.is_empty() => Ok(None),
        Scalar::Text(text) => text.parse().map(Some).map_err(|_| (Reason::WrongType, "address")),
        Scalar::Bool(_) | Scalar::Number(_) | Scalar::Nested(_) => {
            Err((Reason::WrongType, "address"))
        }
    }
}

/// A direction by name or number; whatever it does not know is unknown, as in the wire format.
fn direction(value: &Scalar<'_>) -> Result<Option<Direction>, Misfit> {
    let known = [Direction::Ingress, Direction::Egress, Direction::Unknown];
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => {
            let named = known.into_iter().find(|direction| direction.name() == &**text);
            Ok(Some(named.unwrap_or(Direction::Unknown)))
        }
        Scalar::Number(_) => {
            let number: Option<u64> = unsigned(value, "direction")?;
            Ok(number.map(Direction::from_number))
        }
        Scalar::Bool(_) | Scalar::Nested(_) => Err((Reason::WrongType, "direction")),
    }
}

/// An export format by name or number; one that is not known is none.
fn version(value: &Scalar<'_>) -> Result<Option<FlowVersion>, Misfit> {
    const BY_NUMBER: [FlowVersion; 4] =
        [FlowVersion::V5, FlowVersion::V9, FlowVersion::Ipfix, FlowVersion::Sflow];
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => Ok(text.parse().ok()),
        Scalar::Number(_) => {
            let number: Option<usize> = unsigned(value, "version")?;
            Ok(number.and_then(|number| BY_NUMBER.get(number)).copied())
        }
        Scalar::Bool(_) | Scalar::Nested(_) => Err((Reason::WrongType, "version")),
    }
}

fn is_node(value: &Scalar<'_>) -> Result<bool, Misfit> {
    match value {
        Scalar::Null => Ok(false),
        Scalar::Nested(raw) if raw.starts_with('{') => Ok(true),
        Scalar::Nested(_) | Scalar::Bool(_) | Scalar::Number(_) | Scalar::Text(_) => {
            Err((Reason::WrongType, "node"))
        }
    }
}
