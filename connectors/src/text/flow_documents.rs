//! Flows from JSON objects, each in one of the layouts that are known by name: see [`FlowLayout`] for
//! which member is what, and [`super::flow_values`] for how values are written.
//!
//! Members that no job reads are accepted and left alone.

use crate::account::Reason;
use crate::flow_intake::FlowIntake;
use crate::source::{Found, Polled};
use crate::text::flow_layout::{FlowLayout, Member, Moment};
use crate::text::flow_values::{self as values, Misfit, Text};
use crate::text::members::Members;
use crate::text::ndjson::not_json;
use crate::text::schema::{Scalar, complaint};
use nilometer_model::flow::{Flow, Node};
use nilometer_model::row::Position;

/// Makes flows of documents.
#[derive(Debug)]
pub(crate) struct Documents {
    layout: FlowLayout,
    members: Members,
    intake: FlowIntake,
}

impl Documents {
    /// Documents of `layout` for `intake`.
    pub(crate) fn new(layout: FlowLayout, intake: FlowIntake) -> Self {
        let mut members = Members::default();
        for (number, (path, _)) in layout.members().iter().enumerate() {
            for name in layout.spellings(path) {
                members.want(&name, number);
            }
        }
        Self { layout, members, intake }
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
        let wanted = self.layout.members();
        let read = self.members.read(text, &mut |number, raw| {
            let Some((path, member)) = wanted.get(number) else { return };
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

/// What one document has said so far.
#[derive(Debug, Default)]
struct Document<'a> {
    flow: Flow,
    has_node: bool,
    node_id: Option<u32>,
    foreign_source: Option<Text<'a>>,
    foreign_id: Option<Text<'a>>,
}

impl<'a> Document<'a> {
    fn take(&mut self, member: Member, raw: &'a str) -> Result<(), Misfit> {
        let value = Scalar::of_json(raw).map_err(|reason| (reason, "text"))?;
        let flow = &mut self.flow;
        match member {
            Member::Timestamp => flow.header_ms = values::millis(&value)?,
            Member::NumBytes => flow.bytes = values::unsigned(&value, "u64")?,
            Member::Direction => flow.direction = values::direction(&value)?,
            Member::DstAddress => flow.dst_address = values::address(&value)?,
            Member::DstHostname => flow.dst_hostname = values::shared(value)?,
            Member::DstAs => flow.dst_as = values::unsigned(&value, "u32")?,
            Member::DstPort => flow.dst_port = values::unsigned(&value, "u16")?,
            Member::EngineId => flow.domain = values::unsigned(&value, "u32")?,
            Member::DeltaSwitched => flow.delta_ms = values::millis(&value)?,
            Member::FirstSwitched => flow.first_ms = values::millis(&value)?,
            Member::LastSwitched => flow.last_ms = values::millis(&value)?,
            Member::NumPackets => flow.packets = values::unsigned(&value, "u64")?,
            Member::Input => flow.input = values::unsigned(&value, "u32")?,
            Member::Output => flow.output = values::unsigned(&value, "u32")?,
            Member::NextHop => flow.next_hop = values::address(&value)?,
            Member::Protocol => flow.protocol = values::unsigned(&value, "u8")?,
            Member::SamplingInterval => flow.sampling_interval = values::interval(&value)?,
            Member::SrcAddress => flow.src_address = values::address(&value)?,
            Member::SrcHostname => flow.src_hostname = values::shared(value)?,
            Member::SrcAs => flow.src_as = values::unsigned(&value, "u32")?,
            Member::SrcPort => flow.src_port = values::unsigned(&value, "u16")?,
            Member::TcpFlags => flow.tcp_flags = values::unsigned(&value, "u16")?,
            Member::Tos => flow.tos = values::unsigned(&value, "u8")?,
            Member::Version => flow.version = values::version(&value)?,
            Member::Vlan => flow.vlan = values::unsigned(&value, "u16")?,
            Member::ExporterNode => self.has_node = values::is_node(&value)?,
            Member::ForeignSource => self.foreign_source = values::text(value)?,
            Member::ForeignId => self.foreign_id = values::text(value)?,
            Member::NodeId => self.node_id = values::unsigned(&value, "u32")?,
            Member::Application => flow.application = values::shared(value)?,
            Member::Location => flow.location = values::shared(value)?,
            Member::Dscp => flow.dscp = values::unsigned(&value, "u8")?,
            Member::Ecn => flow.ecn = values::unsigned(&value, "u8")?,
            Member::ExporterAddress => flow.exporter_address = values::address(&value)?,
            Member::At(Moment::First, unit) => flow.first_ms = values::instant(&value, unit)?,
            Member::At(Moment::Last, unit) => flow.last_ms = values::instant(&value, unit)?,
            Member::At(Moment::Header, unit) => flow.header_ms = values::instant(&value, unit)?,
            Member::At(Moment::Arrival, unit) => flow.arrival_ms = values::instant(&value, unit)?,
            Member::SamplingRate => flow.sampling_interval = values::rate(&value)?,
            Member::ProtocolName => flow.protocol = values::protocol(&value)?,
            Member::Way => flow.direction = values::way(&value)?,
            Member::Export => flow.version = values::export(&value)?,
            Member::VlanId => flow.vlan = values::unsigned(&value, "u16")?.filter(|id| *id > 0),
            Member::Class => flow.application = values::class(value)?,
            Member::InputName => flow.input_interface = values::shared(value)?,
            Member::OutputName => flow.output_interface = values::shared(value)?,
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
