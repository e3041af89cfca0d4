//! Datagrams from the network: a UDP socket, a thread that does nothing but empty it, and a queue
//! that is bounded in bytes.
//!
//! A datagram that finds no place in the queue is dropped and counted, and so is, where the
//! operating system tells (Linux), one that found no place in the socket's own buffer. The thread
//! ends when the collector is dropped.

use super::Datagram;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long the thread waits for a datagram before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(100);
/// The thread asks the operating system for its drops once per so many datagrams, and when it is
/// idle.
const DATAGRAMS_PER_CHECK: u32 = 4_096;

/// A datagram as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    exporter: SocketAddr,
    arrival_ms: i64,
    payload: Box<[u8]>,
}

impl Received {
    /// The datagram.
    pub fn datagram(&self) -> Datagram<'_> {
        Datagram {
            exporter: self.exporter,
            arrival_ms: Some(self.arrival_ms),
            payload: &self.payload,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.payload.len()
    }
}

/// A socket that collects datagrams.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    queue: Arc<Queue>,
    reader: Option<JoinHandle<()>>,
}

/// What the thread and its owner share.
#[derive(Debug)]
struct Queue {
    content: Mutex<Content>,
    filled: Condvar,
    bytes_max: usize,
    /// Datagrams that found no place here, and in the socket's buffer.
    dropped: AtomicU64,
    dropped_before: AtomicU64,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Content {
    waiting: VecDeque<Received>,
    bytes: usize,
    /// Why the thread ended.
    failure: Option<io::Error>,
}

impl Collector {
    /// Bytes of datagrams that wait at most, unless set otherwise.
    pub const BYTES_MAX: usize = 64 << 20;

    /// Listens on `address`, port 0 for any free one. At most `bytes_max` bytes of datagrams wait;
    /// `now_ms` tells the time of arrival in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The socket or the thread cannot be had.
    pub fn listen(
        address: SocketAddr,
        bytes_max: usize,
        now_ms: impl Fn() -> i64 + Send + 'static,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let address = socket.local_addr()?;
        let queue = Arc::new(Queue {
            content: Mutex::default(),
            filled: Condvar::new(),
            bytes_max,
            dropped: AtomicU64::new(0),
            dropped_before: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let shared = queue.clone();
        let reader = thread::Builder::new().name("collector".into()).spawn(move || {
            let outcome = read(&socket, &shared, now_ms);
            shared.content().failure = outcome.err();
            shared.filled.notify_all();
        })?;
        Ok(Self { address, queue, reader: Some(reader) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next datagram; waits at most `patience` for one.
    ///
    /// # Errors
    /// The socket cannot be read any more.
    pub fn next(&self, patience: Duration) -> io::Result<Option<Received>> {
        let is_empty =
            |content: &mut Content| content.waiting.is_empty() && content.failure.is_none();
        let waited = self.queue.filled.wait_timeout_while(self.queue.content(), patience, is_empty);
        let (mut content, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(received) = content.waiting.pop_front() {
            content.bytes -= received.bytes();
            return Ok(Some(received));
        }
        content.failure.take().map_or(Ok(None), Err)
    }

    /// Listens no more. Datagrams that wait are dropped and counted.
    pub fn stop(&mut self) {
        self.queue.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // A thread that panicked has nothing more to say.
            reader.join().unwrap_or_default();
        }
        let mut content = self.queue.content();
        self.queue.dropped.fetch_add(content.waiting.len() as u64, Ordering::Relaxed);
        content.waiting.clear();
        content.bytes = 0;
    }

    /// Datagrams that were lost between the network and the queue, as far as is known.
    pub fn dropped(&self) -> u64 {
        let here = self.queue.dropped.load(Ordering::Relaxed);
        here.saturating_add(self.queue.dropped_before.load(Ordering::Relaxed))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Queue {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the operating system for what it has dropped at `address`.
    fn check(&self, address: SocketAddr) {
        if let Some(dropped) = socket_drops(address) {
            self.dropped_before.store(dropped, Ordering::Relaxed);
        }
    }

    fn put(&self, received: Received) {
        let mut content = self.content();
        if content.bytes + received.bytes() > self.bytes_max {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        content.bytes += received.bytes();
        content.waiting.push_back(received);
        drop(content);
        self.filled.notify_one();
    }
}

/// Empties `socket` into `queue` until that is over.
fn read(socket: &UdpSocket, queue: &Queue, now_ms: impl Fn() -> i64) -> io::Result<()> {
    let address = socket.local_addr()?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let mut unchecked = 0;
    while !queue.is_over.load(Ordering::Relaxed) {
        let is_idle = match socket.recv_from(&mut buffer) {
            Ok((length, exporter)) => {
                let payload = buffer.get(..length).unwrap_or_default().into();
                queue.put(Received { exporter, arrival_ms: now_ms(), payload });
                false
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => true,
                // A signal, or an answer to something that was never sent from here.
                io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused => false,
                _ => return Err(error),
            },
        };
        unchecked += 1;
        if is_idle || unchecked >= DATAGRAMS_PER_CHECK {
            unchecked = 0;
            queue.check(address);
        }
    }
    queue.check(address);
    Ok(())
}

/// Datagrams that the socket at `address` had no room for, as Linux counts them.
fn socket_drops(address: SocketAddr) -> Option<u64> {
    let table = if address.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
    let table = std::fs::read_to_string(table).ok()?;
    let local = local_address(address);
    table.lines().find_map(|line| drops_of(line, &local))
}

/// An address as the table has it: words of 32 bits, each in the order of this machine, and the port.
fn local_address(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks();
    let words = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

/// The drops that a line of the table gives, if it is about the socket at `local`.
fn drops_of(line: &str, local: &str) -> Option<u64> {
    let mut columns = line.split_ascii_whitespace();
    if columns.nth(1)? != local {
        return None;
    }
    columns.last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn loopback() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[test]
    fn datagrams_arrive_in_order_with_their_sender_and_time() {
        let collector = Collector::listen(loopback(), Collector::BYTES_MAX, || 77).unwrap();
        let sender = UdpSocket::bind(loopback()).unwrap();
        for number in 0..100u32 {
            sender.send_to(&number.to_be_bytes(), collector.address()).unwrap();
        }
        for number in 0..100u32 {
            let received = collector.next(LONG).unwrap().unwrap();
            let expected = Datagram {
                exporter: sender.local_addr().unwrap(),
                arrival_ms: Some(77),
                payload: &number.to_be_bytes(),
            };
            assert_eq!(received.datagram(), expected);
        }
        assert_eq!(collector.next(Duration::ZERO).unwrap(), None);
        assert_eq!(collector.dropped(), 0);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let room = 10 * (size_of::<Received>() + 100);
        let mut collector = Collector::listen(loopback(), room, || 0).unwrap();
        let sender = UdpSocket::bind(loopback()).unwrap();
        // Sent one by one, so that the socket's own buffer is never full.
        let (mut kept, mut lost) = (0, 0);
        for sent in 1..=25 {
            sender.send_to(&[7; 100], collector.address()).unwrap();
            while kept + lost < sent {
                kept = collector.queue.content().waiting.len() as u64;
                lost = collector.dropped();
                thread::yield_now();
            }
        }
        assert_eq!((kept, lost), (10, 15));
        for _ in 0..7 {
            assert!(collector.next(LONG).unwrap().is_some());
        }
        collector.stop();
        assert_eq!((collector.dropped(), collector.queue.content().bytes), (15 + 3, 0));
        assert_eq!(collector.next(Duration::ZERO).unwrap(), None);
    }

    #[test]
    fn the_operating_system_counts_its_drops() {
        let line = "  123: 0100007F:0807 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                    0        0 4711 2 0000000000000000 42";
        for (local, drops) in [
            ("0100007F:0807", Some(42)),
            ("0100007F:0808", None),
            // Another socket, at the same port of another address.
            ("00000000:0807", None),
            ("0200007F:0807", None),
        ] {
            assert_eq!(drops_of(line, local), drops, "{local}");
        }
        assert_eq!(drops_of("  sl  local_address rem_address   st tx_queue", "0:0"), None);
        assert_eq!(drops_of("", "0:0"), None);
    }

    /// Lines of a machine that stores the lowest byte first.
    #[cfg(target_endian = "little")]
    #[test]
    fn addresses_are_as_the_table_has_them() {
        for (address, local) in [
            ("127.0.0.1:2055", "0100007F:0807"),
            ("0.0.0.0:68", "00000000:0044"),
            ("192.168.1.20:53", "1401A8C0:0035"),
            ("[::1]:323", "00000000000000000000000001000000:0143"),
            ("[fe80::1]:546", "000080FE000000000000000001000000:0222"),
        ] {
            assert_eq!(local_address(address.parse().unwrap()), local, "{address}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn drops_of_another_socket_at_the_same_port_are_not_its_own() {
        let full = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = full.local_addr().unwrap().port();
        let quiet = UdpSocket::bind(("127.0.0.2", port)).unwrap();
        let sender = UdpSocket::bind(loopback()).unwrap();
        let drops = |socket: &UdpSocket| socket_drops(socket.local_addr().unwrap());
        for _ in 0..1_000 {
            sender.send_to(&[7; 8_000], full.local_addr().unwrap()).unwrap();
        }
        assert!(drops(&full).unwrap() > 0);
        assert_eq!(drops(&quiet), Some(0));
    }

    #[test]
    fn an_address_in_use_is_an_error() {
        let first = Collector::listen(loopback(), 1, || 0).unwrap();
        let error = Collector::listen(first.address(), 1, || 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
