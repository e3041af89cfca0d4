//! Datagrams of a capture file, pcap or pcapng.
//!
//! Memory is bounded: one buffer, which grows to the largest packet that makes sense. A capture
//! that is cut or damaged yields all that came before, and says how it ended.

use super::packet::{Packet, take_apart};
use super::{CaptureError, Datagram, Ending, PacketCounts};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for the packets of every usual capture.
const BUFFER_BYTES: usize = 1 << 18;
/// What is read before the parser starts; the first block of a capture is in it.
const HEAD_BYTES: u64 = 1 << 17;
/// A packet or block beyond this is taken as damage.
const BUFFER_BYTES_MAX: usize = 1 << 24;
const PCAPNG: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
/// Microseconds and nanoseconds, in both byte orders, and the variant with longer packet headers.
const PCAP: [[u8; 4]; 6] = [
    [0xD4, 0xC3, 0xB2, 0xA1],
    [0xA1, 0xB2, 0xC3, 0xD4],
    [0x4D, 0x3C, 0xB2, 0xA1],
    [0xA1, 0xB2, 0x3C, 0x4D],
    [0x34, 0xCD, 0xB2, 0xA1],
    [0xA1, 0xB2, 0xCD, 0x34],
];

/// Whether a file that begins with `head` is a capture.
pub fn is_capture(head: &[u8]) -> bool {
    PCAP.iter().chain([&PCAPNG]).any(|magic| head.starts_with(magic))
}

/// An open capture.
pub struct Capture {
    /// Absent if the file ends within its first header.
    blocks: Option<Box<dyn PcapReaderIterator + Send>>,
    /// Size of the parser's buffer in bytes.
    room: usize,
    trouble: Trouble,
    links: Links,
    counts: PacketCounts,
    /// Content of the datagram that was returned last. Overwritten by the next.
    payload: Vec<u8>,
    /// How the capture ended. Set once, then nothing more is read.
    ending: Option<Ending>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Capture {
    /// The capture that `content` holds, not packed (see [`crate::input`]).
    ///
    /// # Errors
    /// It is no capture, or the operating system refuses.
    pub fn new(mut content: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        // The parser wants all of the first header, or of the first block, at once.
        let mut head = Vec::new();
        let failed = content.by_ref().take(HEAD_BYTES).read_to_end(&mut head).err();
        let first = head.get(..PCAPNG.len()).unwrap_or(&head);
        if !is_capture(first) {
            return match failed {
                Some(error) => Err(error.into()),
                None => Err(CaptureError::NotACapture { found: first_bytes(first) }),
            };
        }
        let trouble = Trouble(Arc::new(Mutex::new(failed)));
        let rest = Watched { reader: content, trouble: trouble.clone() };
        Ok(Self {
            blocks: create_reader(BUFFER_BYTES, io::Cursor::new(head).chain(rest)).ok(),
            room: BUFFER_BYTES,
            trouble,
            links: Links::default(),
            counts: PacketCounts::default(),
            payload: Vec::new(),
            ending: None,
        })
    }

    /// The next datagram; `None` when the capture has ended, see [`Capture::ending`].
    ///
    /// # Errors
    /// The operating system refuses. Damage is no error.
    pub fn next_datagram(&mut self) -> io::Result<Option<Datagram<'_>>> {
        let found = loop {
            match self.step()? {
                Step::Datagram { exporter, arrival_ms } => break Some((exporter, arrival_ms)),
                Step::Other => {}
                Step::Ended => break None,
            }
        };
        Ok(found.map(|(exporter, arrival_ms)| Datagram {
            exporter,
            arrival_ms,
            payload: &self.payload,
        }))
    }

    /// How the capture ended; `None` while it goes on.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// What was in it so far.
    pub fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// Reads one block, or more of the file.
    fn step(&mut self) -> io::Result<Step> {
        if self.ending.is_some() {
            return Ok(Step::Ended);
        }
        let Some(blocks) = &mut self.blocks else {
            self.ending = Some(self.trouble.ending(Ending::CutShort)?);
            return Ok(Step::Ended);
        };
        let need = match blocks.next() {
            Ok((length, block)) => {
                let step = match self.links.packet(&block) {
                    None => Step::Other,
                    Some(packet) => self.counts.file(packet, &mut self.payload),
                };
                blocks.consume(length);
                return Ok(step);
            }
            Err(PcapError::Eof) => Need::Nothing(Ending::Whole),
            Err(PcapError::Incomplete(_)) => Need::Bytes,
            Err(PcapError::BufferTooSmall) => Need::Room,
            Err(PcapError::UnexpectedEof | PcapError::ReadError) => Need::More,
            Err(
                PcapError::HeaderNotRecognized
                | PcapError::NomError(..)
                | PcapError::OwnedNomError(..),
            ) => Need::Nothing(damaged("a block that makes no sense")),
        };
        let ending = match need {
            Need::Bytes => blocks.refill().is_err().then_some(Ending::CutShort),
            Need::Room => {
                self.room *= 2;
                let has_room = self.room <= BUFFER_BYTES_MAX && blocks.grow(self.room);
                let is_read = has_room && blocks.refill().is_ok();
                (!is_read).then(|| damaged("a packet longer than 16 MB"))
            }
            // The parser misses more too after the last packet, if that was a large one.
            Need::More if blocks.data().is_empty() => Some(Ending::Whole),
            Need::More => Some(Ending::CutShort),
            Need::Nothing(ending) => Some(ending),
        };
        if let Some(ending) = ending {
            self.ending = Some(self.trouble.ending(ending)?);
        }
        Ok(Step::Other)
    }
}

fn damaged(what: &str) -> Ending {
    Ending::Damaged { detail: what.into() }
}

fn first_bytes(head: &[u8]) -> String {
    if head.is_empty() {
        return "nothing".into();
    }
    head.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the parser needs before it can go on.
enum Need {
    /// More bytes of the file.
    Bytes,
    /// A larger buffer.
    Room,
    /// More than the file has.
    More,
    /// Nothing: this is the end.
    Nothing(Ending),
}

/// What one step found.
enum Step {
    /// A datagram, its content in `payload`.
    Datagram { exporter: SocketAddr, arrival_ms: Option<i64> },
    /// Anything else.
    Other,
    /// The end.
    Ended,
}

/// A packet as the file holds it.
struct Captured<'a> {
    link: Linktype,
    arrival_ms: Option<i64>,
    data: &'a [u8],
}

/// The interfaces that packets were captured on.
#[derive(Debug, Default)]
struct Links {
    /// Holds the interfaces of a pcapng section, or the one of a pcap file, in order. Cleared by
    /// the next section.
    known: Vec<Link>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    kind: Linktype,
    ticks_per_second: u64,
    offset_seconds: i64,
}

impl Link {
    /// The time of `ticks` on this interface, in milliseconds.
    fn millis(self, ticks: u64) -> Option<i64> {
        let millis = u128::from(ticks) * 1_000 / u128::from(self.ticks_per_second.max(1));
        let offset = self.offset_seconds.checked_mul(1_000)?;
        i64::try_from(millis).ok()?.checked_add(offset)
    }
}

impl Links {
    /// More interfaces than this have no meaning; further ones are not kept.
    const KNOWN_MAX: usize = 1 << 16;

    /// The packet in `block`; `None` if it holds none. A packet of an interface that nobody
    /// described comes with a link type that nobody knows.
    fn packet<'a>(&mut self, block: &'a PcapBlockOwned<'_>) -> Option<Captured<'a>> {
        const MICROS: u64 = 1_000_000;
        const NANOS: u64 = 1_000_000_000;
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let is_nanos = header.is_nanosecond_precision();
                let ticks_per_second = if is_nanos { NANOS } else { MICROS };
                self.add(Link { kind: header.network, ticks_per_second, offset_seconds: 0 });
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let link = self.known.first().copied()?;
                let ticks =
                    u64::from(packet.ts_sec) * link.ticks_per_second + u64::from(packet.ts_usec);
                let arrival_ms = link.millis(ticks);
                Some(Captured { link: link.kind, arrival_ms, data: packet.data })
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.known.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.add(Link {
                    kind: interface.linktype,
                    ticks_per_second: interface.ts_resolution().unwrap_or(MICROS),
                    offset_seconds: interface.ts_offset(),
                });
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let link = self.known.get(packet.if_id as usize);
                Some(Captured {
                    link: link.map_or(UNKNOWN_LINK, |link| link.kind),
                    arrival_ms: link.and_then(|link| link.millis(ticks)),
                    data: packet.packet_data(),
                })
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => Some(Captured {
                link: self.known.first().map_or(UNKNOWN_LINK, |link| link.kind),
                arrival_ms: None,
                data: packet.packet_data(),
            }),
            PcapBlockOwned::NG(
                Block::NameResolution(_)
                | Block::InterfaceStatistics(_)
                | Block::SystemdJournalExport(_)
                | Block::DecryptionSecrets(_)
                | Block::ProcessInformation(_)
                | Block::Custom(_)
                | Block::Unknown(_),
            ) => None,
        }
    }

    fn add(&mut self, link: Link) {
        if self.known.len() < Self::KNOWN_MAX {
            self.known.push(link);
        }
    }
}

/// The link type of a packet whose interface nobody described.
const UNKNOWN_LINK: Linktype = Linktype(-1);

impl PacketCounts {
    /// Counts a packet, and keeps the content of a datagram.
    fn file(&mut self, captured: Captured<'_>, payload: &mut Vec<u8>) -> Step {
        match take_apart(captured.link, captured.data) {
            Packet::Datagram { datagram, is_shortened } => {
                self.datagrams += 1;
                self.shortened += u64::from(is_shortened);
                payload.clear();
                payload.extend_from_slice(datagram.payload);
                let exporter = datagram.exporter;
                return Step::Datagram { exporter, arrival_ms: captured.arrival_ms };
            }
            Packet::NotUdp => self.not_udp += 1,
            Packet::Fragment => self.fragments += 1,
            Packet::Damaged => self.damaged += 1,
        }
        Step::Other
    }
}

/// The error that reading the file met, which the parser does not pass on.
#[derive(Debug, Clone)]
struct Trouble(Arc<Mutex<Option<io::Error>>>);

impl Trouble {
    fn error(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the file ended, given that for the parser it ended in `seen`.
    fn ending(&self, seen: Ending) -> io::Result<Ending> {
        match self.error().take() {
            None => Ok(seen),
            Some(error) if error.raw_os_error().is_some() => Err(error),
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Ending::CutShort),
            Some(error) => Ok(Ending::Damaged { detail: error.to_string() }),
        }
    }
}

/// Ends where its reader fails, and keeps the error.
struct Watched<R> {
    reader: R,
    trouble: Trouble,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut trouble = self.trouble.error();
        loop {
            if trouble.is_some() {
                return Ok(0);
            }
            match self.reader.read(bytes) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => *trouble = Some(error),
            }
        }
    }
}

#[cfg(test)]
mod tests;
