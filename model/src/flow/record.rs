//! The facts of one flow record, whatever its export format.
//!
//! Nothing is defaulted or judged here: what the record did not say is `None`. Packet decoders and
//! the field maps of text formats both fill it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use crate::flow::exporters::Node;

/// Export format of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FlowVersion {
    /// NetFlow version 5.
    V5,
    /// NetFlow version 9.
    V9,
    /// IPFIX.
    Ipfix,
    /// sFlow version 5.
    Sflow,
}

impl FlowVersion {
    /// The name in the field `netflow_version`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V5 => "V5",
            Self::V9 => "V9",
            Self::Ipfix => "IPFIX",
            Self::Sflow => "SFLOW",
        }
    }
}

/// Which way a flow passed the interface that it was seen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// Into the exporter: the flow counts on its input interface.
    Ingress,
    /// Out of the exporter.
    Egress,
    /// Anything else; counts as egress.
    Unknown,
}

impl Direction {
    /// The direction of information element 61: 0 ingress, 1 egress, anything else unknown.
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Ingress,
            1 => Self::Egress,
            _ => Self::Unknown,
        }
    }

    /// The name in the field `direction`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "INGRESS",
            Self::Egress => "EGRESS",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no direction, version or the like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is none of {expected}")]
pub struct UnknownName {
    /// What was found.
    pub text: String,
    /// What is known.
    pub expected: &'static str,
}

impl FromStr for FlowVersion {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        [Self::V5, Self::V9, Self::Ipfix, Self::Sflow]
            .into_iter()
            .find(|version| version.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownName { text: text.into(), expected: "V5, V9, IPFIX, SFLOW" })
    }
}

/// What one flow record says. Times are milliseconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Where the record came from: the UDP source address of its datagram, or the sFlow agent.
    pub exporter_address: Option<IpAddr>,
    /// The node that exported it, where the record names it itself.
    pub node: Option<Node>,
    /// Observation domain, source id, engine or sub-agent.
    pub domain: Option<u32>,
    /// Export format.
    pub version: Option<FlowVersion>,
    /// SNMP index of the interface that the flow came in by.
    pub input: Option<u32>,
    /// SNMP index of the interface that the flow went out by.
    pub output: Option<u32>,
    /// Name of the input interface.
    pub input_interface: Option<Arc<str>>,
    /// Name of the output interface.
    pub output_interface: Option<Arc<str>>,
    /// Which way it passed the exporter; ingress where the record does not say.
    pub direction: Option<Direction>,
    /// Source address.
    pub src_address: Option<IpAddr>,
    /// Destination address.
    pub dst_address: Option<IpAddr>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Type of service, traffic class.
    pub tos: Option<u8>,
    /// Differentiated services code point, where it is given apart from `tos`.
    pub dscp: Option<u8>,
    /// Explicit congestion notification, where it is given apart from `tos`.
    pub ecn: Option<u8>,
    /// TCP flags seen.
    pub tcp_flags: Option<u16>,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// Autonomous system of the source.
    pub src_as: Option<u32>,
    /// Autonomous system of the destination.
    pub dst_as: Option<u32>,
    /// Next hop.
    pub next_hop: Option<IpAddr>,
    /// Name of the application.
    pub application: Option<Arc<str>>,
    /// Bytes, not scaled by sampling.
    pub bytes: Option<u64>,
    /// Packets, not scaled by sampling.
    pub packets: Option<u64>,
    /// Bytes of the reverse direction of a biflow.
    pub reverse_bytes: Option<u64>,
    /// Packets of the reverse direction of a biflow.
    pub reverse_packets: Option<u64>,
    /// Begin of the flow.
    pub first_ms: Option<i64>,
    /// End of the flow.
    pub last_ms: Option<i64>,
    /// Begin of the part of the flow that this record reports; goes before `first_ms`.
    pub delta_ms: Option<i64>,
    /// When the exporter sent the record.
    pub header_ms: Option<i64>,
    /// When the record arrived.
    pub arrival_ms: Option<i64>,
    /// One in how many packets was sampled, as the record or its header says.
    pub sampling_interval: Option<f64>,
    /// The same as the exporter's options data say.
    pub options_sampling: Option<f64>,
    /// Where the exporter stands.
    pub location: Option<Arc<str>>,
    /// Name of the source host.
    pub src_hostname: Option<Arc<str>>,
    /// Name of the destination host.
    pub dst_hostname: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_and_versions_have_names() {
        for (number, name) in [(0, "INGRESS"), (1, "EGRESS"), (2, "UNKNOWN"), (255, "UNKNOWN")] {
            assert_eq!(Direction::from_number(number).to_string(), name);
        }
        assert_eq!("ipfix".parse(), Ok(FlowVersion::Ipfix));
        assert_eq!("V9".parse(), Ok(FlowVersion::V9));
        assert_eq!(
            "V8".parse::<FlowVersion>().unwrap_err().to_string(),
            "`V8` is none of V5, V9, IPFIX, SFLOW"
        );
    }
}
