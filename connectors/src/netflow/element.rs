//! Information elements: which of them a flow is made of, and how their bytes read.
//!
//! NetFlow version 9 numbers its fields as IPFIX does up to 127 and, where exporters use more,
//! mostly beyond; so one table serves both. A field that is not in it is skipped.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The enterprise number of the reverse direction of a biflow (RFC 5103).
const REVERSE: u32 = 29_305;
const CISCO: u32 = 9;
const NTOP: u32 = 35_632;

/// What a field says about a flow, or about the exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Element {
    OctetDelta,
    OctetTotal,
    InitiatorOctets,
    ResponderOctets,
    ReverseOctets,
    PacketDelta,
    PacketTotal,
    InitiatorPackets,
    ResponderPackets,
    ReversePackets,
    Protocol,
    Tos,
    Dscp,
    TcpFlags,
    SrcPort,
    DstPort,
    SrcAddress,
    DstAddress,
    NextHop,
    Input,
    Output,
    Direction,
    Vlan,
    SrcAs,
    DstAs,
    Start(TimeUnit),
    End(TimeUnit),
    Observed(TimeUnit),
    DurationMillis,
    SystemInit,
    SamplerId,
    SamplingInterval,
    PacketInterval,
    PacketSpace,
    SamplingSize,
    SamplingPopulation,
    SamplingProbability,
    ApplicationId,
    ApplicationName,
    InterfaceName,
    InterfaceDescription,
}

/// How a time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TimeUnit {
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Millis,
    /// Seconds since 1900 and their binary fraction: "microseconds" and "nanoseconds" of IPFIX.
    Ntp,
    /// Microseconds before the export time of the message.
    DeltaMicros,
    /// Milliseconds of uptime of the exporter, 32 bits that wrap.
    Uptime,
}

impl Element {
    /// The element with this number; of an enterprise, if that is given.
    pub(super) fn new(enterprise: Option<u32>, number: u16) -> Option<Self> {
        match enterprise {
            None => Self::iana(number),
            Some(REVERSE) => match number {
                1 | 85 => Some(Self::ReverseOctets),
                2 | 86 => Some(Self::ReversePackets),
                _ => None,
            },
            // The ends of a connection, in records that aggregate its two directions.
            Some(CISCO) => match number {
                12_236 | 12_238 => Some(Self::SrcAddress),
                12_237 | 12_239 => Some(Self::DstAddress),
                12_240 => Some(Self::SrcPort),
                12_241 => Some(Self::DstPort),
                _ => None,
            },
            Some(NTOP) => (number == 119).then_some(Self::ApplicationName),
            Some(_) => None,
        }
    }

    fn iana(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::OctetDelta,
            2 => Self::PacketDelta,
            4 => Self::Protocol,
            5 => Self::Tos,
            6 => Self::TcpFlags,
            7 => Self::SrcPort,
            8 | 27 => Self::SrcAddress,
            10 => Self::Input,
            11 => Self::DstPort,
            12 | 28 => Self::DstAddress,
            14 => Self::Output,
            15 | 62 => Self::NextHop,
            16 => Self::SrcAs,
            17 => Self::DstAs,
            21 => Self::End(TimeUnit::Uptime),
            22 => Self::Start(TimeUnit::Uptime),
            34 => Self::SamplingInterval,
            48 | 302 => Self::SamplerId,
            50 => Self::SamplingInterval,
            58 => Self::Vlan,
            61 => Self::Direction,
            82 => Self::InterfaceName,
            83 => Self::InterfaceDescription,
            85 => Self::OctetTotal,
            86 => Self::PacketTotal,
            95 => Self::ApplicationId,
            96 => Self::ApplicationName,
            150 => Self::Start(TimeUnit::Seconds),
            151 => Self::End(TimeUnit::Seconds),
            152 => Self::Start(TimeUnit::Millis),
            153 => Self::End(TimeUnit::Millis),
            154 | 156 => Self::Start(TimeUnit::Ntp),
            155 | 157 => Self::End(TimeUnit::Ntp),
            158 => Self::Start(TimeUnit::DeltaMicros),
            159 => Self::End(TimeUnit::DeltaMicros),
            160 => Self::SystemInit,
            161 => Self::DurationMillis,
            195 => Self::Dscp,
            231 => Self::InitiatorOctets,
            232 => Self::ResponderOctets,
            298 => Self::InitiatorPackets,
            299 => Self::ResponderPackets,
            305 => Self::PacketInterval,
            306 => Self::PacketSpace,
            309 => Self::SamplingSize,
            310 => Self::SamplingPopulation,
            311 => Self::SamplingProbability,
            322 => Self::Observed(TimeUnit::Seconds),
            323 => Self::Observed(TimeUnit::Millis),
            324 | 325 => Self::Observed(TimeUnit::Ntp),
            // Palo Alto's App-ID, and ntop's protocol, in version 9.
            56_701 | 57_591 => Self::ApplicationName,
            _ => return None,
        })
    }
}

/// A whole number of any width; `None` if there are no bytes, or if it is over 64 bits.
pub(super) fn unsigned(bytes: &[u8]) -> Option<u64> {
    let (high, low) = bytes.split_at(bytes.len().saturating_sub(8));
    if bytes.is_empty() || high.iter().any(|byte| *byte != 0) {
        return None;
    }
    Some(low.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A whole number that fits `N`.
pub(super) fn narrow<N: TryFrom<u64>>(bytes: &[u8]) -> Option<N> {
    N::try_from(unsigned(bytes)?).ok()
}

/// A double, of four or eight bytes.
pub(super) fn float(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => Some(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        8 => Some(f64::from_be_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// An address, of four or sixteen bytes. `0.0.0.0` and `::` are addresses too.
pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// A text, without the zero bytes and blanks that fill it up; `None` if nothing is left.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end)?);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_at_every_width() {
        for (bytes, expected) in [
            (&[][..], None),
            (&[7], Some(7)),
            (&[1, 0, 2], Some(0x1_0002)),
            (&[1, 2, 3, 4, 5], Some(0x01_0203_0405)),
            (&[0xFF; 8], Some(u64::MAX)),
            (&[0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0], Some(1 << 63)),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 0], None),
        ] {
            assert_eq!(unsigned(bytes), expected, "{bytes:?}");
        }
        assert_eq!(narrow::<u8>(&[0, 0, 255]), Some(255));
        assert_eq!(narrow::<u8>(&[1, 0]), None);
        assert_eq!(float(&2.5f32.to_be_bytes()), Some(2.5));
        assert_eq!(float(&0.1f64.to_be_bytes()), Some(0.1));
        assert_eq!(float(&[1]), None);
    }

    #[test]
    fn addresses_and_texts_read_or_do_not() {
        assert_eq!(address(&[192, 0, 2, 1]), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(address(&[0; 16]), Some("::".parse().unwrap()));
        assert_eq!(address(&[1, 2]), None);
        for (bytes, expected) in [
            (&b"skype\0\0\0"[..], Some("skype")),
            (b"  padded  ", Some("padded")),
            (b"two\0words", Some("two")),
            (b"\0\0", None),
            (b"", None),
            (b"\xFFx", Some("\u{FFFD}x")),
        ] {
            assert_eq!(text(bytes).as_deref(), expected, "{bytes:?}");
        }
    }
}
