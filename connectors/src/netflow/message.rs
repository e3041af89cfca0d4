//! Messages and sets: how a datagram of version 9 or IPFIX is divided.
//!
//! Lengths that are off end a set or a message where its bytes end; what is whole before that is
//! kept, and the datagram is told to be damaged.

use nilometer_model::flow::FlowVersion;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What the header of a message says about all its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// Who sent it.
    pub(super) exporter: IpAddr,
    /// Version 9 or IPFIX.
    pub(super) version: FlowVersion,
    /// Source id or observation domain.
    pub(super) domain: u32,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub(super) header_ms: i64,
    /// Uptime of the exporter at that time, in milliseconds; IPFIX does not say.
    pub(super) uptime: Option<u32>,
    /// When it arrived.
    pub(super) arrival_ms: Option<i64>,
    /// Its sequence number.
    pub(super) sequence: u32,
}

/// A set: its number, and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set<'a> {
    pub(super) id: u16,
    pub(super) body: &'a [u8],
}

const HEADER_V9: usize = 20;
const HEADER_IPFIX: usize = 16;
const HEADER_SET: usize = 4;

/// Big-endian numbers at fixed places of a header.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// As [`word`], 16 bits.
pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The message of a version 9 datagram, and the bytes of its sets; `None` if the header is cut.
pub(super) fn message_v9(
    bytes: &[u8],
    exporter: IpAddr,
    arrival_ms: Option<i64>,
) -> Option<(Message, &[u8])> {
    let message = Message {
        exporter,
        version: FlowVersion::V9,
        domain: word(bytes, 16)?,
        header_ms: i64::from(word(bytes, 8)?) * 1_000,
        uptime: word(bytes, 4),
        arrival_ms,
        sequence: word(bytes, 12)?,
    };
    Some((message, bytes.get(HEADER_V9..)?))
}

/// The first IPFIX message of `bytes`, the bytes of its sets, and what is behind it; `None` if
/// the header is cut or its length is less than that of a header. A length beyond the end of
/// `bytes` is cut to it.
pub(super) fn message_ipfix(
    bytes: &[u8],
    exporter: IpAddr,
    arrival_ms: Option<i64>,
) -> Option<(Message, &[u8], &[u8])> {
    let length = usize::from(half(bytes, 2)?);
    let message = Message {
        exporter,
        version: FlowVersion::Ipfix,
        domain: word(bytes, 12)?,
        header_ms: i64::from(word(bytes, 4)?) * 1_000,
        uptime: None,
        arrival_ms,
        sequence: word(bytes, 8)?,
    };
    let (whole, rest) = bytes.split_at(length.min(bytes.len()));
    Some((message, whole.get(HEADER_IPFIX..)?, rest))
}

/// The length that the header of the IPFIX message at the beginning of `bytes` gives.
pub(super) fn length_ipfix(bytes: &[u8]) -> Option<usize> {
    half(bytes, 2).map(usize::from)
}

/// The sets of a message.
#[derive(Debug, Clone)]
pub(super) struct Sets<'a> {
    rest: &'a [u8],
    /// Whether something was found that is no set, or one that is cut.
    pub(super) is_damaged: bool,
}

impl<'a> Sets<'a> {
    /// The sets in `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, is_damaged: false }
    }
}

impl<'a> Iterator for Sets<'a> {
    type Item = Set<'a>;

    fn next(&mut self) -> Option<Set<'a>> {
        let (id, length) = match (half(self.rest, 0), half(self.rest, 2)) {
            (Some(id), Some(length)) if usize::from(length) >= HEADER_SET => (id, length),
            // Some exporters fill their datagrams up with zeros.
            _ => {
                self.is_damaged |= self.rest.iter().any(|byte| *byte != 0);
                self.rest = &[];
                return None;
            }
        };
        self.is_damaged |= usize::from(length) > self.rest.len();
        let (set, rest) = self.rest.split_at(usize::from(length).min(self.rest.len()));
        self.rest = rest;
        Some(Set { id, body: set.get(HEADER_SET..)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_end_where_their_bytes_end() {
        for (bytes, expected, is_damaged) in [
            (&[][..], vec![], false),
            (&[1, 0, 0, 6, 7, 7, 0, 2, 0, 4], vec![(256, &[7, 7][..]), (2, &[])], false),
            // Filled up with zeros.
            (&[1, 0, 0, 5, 7, 0, 0, 0, 0, 0], vec![(256, &[7][..])], false),
            (&[1, 0, 0, 5, 7, 0], vec![(256, &[7][..])], false),
            // Cut, senseless.
            (&[1, 0, 0, 9, 7], vec![(256, &[7][..])], true),
            (&[1, 0, 0, 5, 7, 1, 2], vec![(256, &[7][..])], true),
            (&[1, 0, 0, 3, 7, 7], vec![], true),
        ] {
            let mut sets = Sets::new(bytes);
            let found: Vec<_> = sets.by_ref().map(|set| (set.id, set.body)).collect();
            assert_eq!((found, sets.is_damaged), (expected, is_damaged), "{bytes:?}");
        }
    }

    #[test]
    fn headers_are_read_or_cut() {
        let exporter = "192.0.2.1".parse().unwrap();
        let v9: Vec<u8> = (0..24).collect();
        let (message, sets) = message_v9(&v9, exporter, Some(5)).unwrap();
        assert_eq!(message.domain, 0x1011_1213);
        assert_eq!(message.header_ms, 0x0809_0A0B * 1_000);
        assert_eq!(message.uptime, Some(0x0405_0607));
        assert_eq!((message.sequence, message.arrival_ms), (0x0C0D_0E0F, Some(5)));
        assert_eq!(sets, [20, 21, 22, 23]);
        assert_eq!(message_v9(&v9[..19], exporter, None), None);
        let mut ipfix = v9.clone();
        for (length, content, behind) in [(18, 2, 6), (24, 8, 0), (99, 8, 0)] {
            ipfix[2..4].copy_from_slice(&u16::to_be_bytes(length));
            let (message, sets, rest) = message_ipfix(&ipfix, exporter, None).unwrap();
            assert_eq!((message.domain, message.sequence), (0x0C0D_0E0F, 0x0809_0A0B));
            assert_eq!((sets.len(), rest.len()), (content, behind));
        }
        ipfix[2..4].copy_from_slice(&[0, 15]);
        assert_eq!(message_ipfix(&ipfix, exporter, None), None);
        assert_eq!(message_ipfix(&ipfix[..15], exporter, None), None);
    }
}
