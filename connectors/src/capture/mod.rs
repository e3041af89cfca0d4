//! Datagrams: what exporters sent, from captures, from files of one datagram each, and from the
//! network.
//!
//! Here a datagram is an address, a time and bytes; [`crate::netflow`] makes flows of it. What is
//! not a datagram (another protocol, a fragment, a damaged packet) is counted.

pub mod collector;
pub mod packet;
pub mod pcap;
pub mod single;

use std::io;
use std::net::SocketAddr;

/// What an exporter sent in one UDP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Where it came from.
    pub exporter: SocketAddr,
    /// When it arrived, in milliseconds since the Unix epoch, if that is known.
    pub arrival_ms: Option<i64>,
    /// Its content; shorter than sent if the capture cut the packet.
    pub payload: &'a [u8],
}

/// Packets of a capture that hold no datagram, and those that do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounts {
    /// Packets that held a datagram.
    pub datagrams: u64,
    /// Of those: datagrams of which the capture kept only a part.
    pub shortened: u64,
    /// Packets of other protocols than UDP.
    pub not_udp: u64,
    /// Fragments, which are not put together.
    pub fragments: u64,
    /// Packets that are damaged or of a link type that is not known.
    pub damaged: u64,
}

/// How an input of datagrams ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Where it should.
    Whole,
    /// Within a packet: the last one is left out.
    CutShort,
    /// Where its content stops making sense; all that came before was read.
    Damaged {
        /// What is wrong.
        detail: String,
    },
}

/// An input of datagrams that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The content is no capture.
    #[error("it begins with {found}, and a capture (pcap or pcapng) does not")]
    NotACapture {
        /// Its first bytes.
        found: String,
    },
}
