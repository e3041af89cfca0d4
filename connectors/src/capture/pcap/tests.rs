//! Captures in every byte order and resolution, cut, damaged, packed.

use super::*;
use crate::input::Input;
use etherparse::PacketBuilder;

/// A raw IP packet from 192.0.2.`exporter`, port 2055, that holds `payload`.
fn packet(exporter: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    PacketBuilder::ipv4([192, 0, 2, exporter], [192, 0, 2, 255], 64)
        .udp(2055, 9995)
        .write(&mut out, payload)
        .unwrap();
    out
}

/// A pcap file of raw IP packets with these times, in the byte order of `word`.
fn pcap(magic: u32, packets: &[([u32; 2], Vec<u8>)], word: fn(u32) -> [u8; 4]) -> Vec<u8> {
    let version = if word(1) == [1, 0, 0, 0] { 4 << 16 | 2 } else { 2 << 16 | 4 };
    let mut out: Vec<u8> = [magic, version, 0, 0, 65_535, 101].into_iter().flat_map(word).collect();
    for ([seconds, fraction], data) in packets {
        let length = data.len() as u32;
        out.extend([*seconds, *fraction, length, length].into_iter().flat_map(word));
        out.extend_from_slice(data);
    }
    out
}

/// A little-endian pcapng block.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let length = (body.len() + padding.len() + 12) as u32;
    let mut out: Vec<u8> = [kind, length].into_iter().flat_map(u32::to_le_bytes).collect();
    out.extend_from_slice(body);
    out.extend_from_slice(&padding);
    out.extend_from_slice(&length.to_le_bytes());
    out
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().copied().flat_map(u32::to_le_bytes).collect()
}

fn section() -> Vec<u8> {
    block(0x0A0D_0D0A, &words(&[0x1A2B_3C4D, 1, u32::MAX, u32::MAX]))
}

/// An interface of raw IP with these options.
fn interface(options: &[u8]) -> Vec<u8> {
    block(1, &[&words(&[101, 0]), options].concat())
}

fn enhanced(interface: u32, ticks: u64, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let head = [interface, (ticks >> 32) as u32, ticks as u32, length, length];
    block(6, &[&words(&head), data].concat())
}

type Found = Vec<(String, Option<i64>, Vec<u8>)>;

/// Everything in a capture, and how it ended.
fn read(file: &[u8]) -> (Found, PacketCounts, Ending) {
    let input = Input::unpack(io::Cursor::new(file.to_vec()), 0).unwrap();
    let mut capture = Capture::new(input).unwrap();
    let mut found = Vec::new();
    while let Some(datagram) = capture.next_datagram().unwrap() {
        let payload = datagram.payload.to_vec();
        found.push((datagram.exporter.to_string(), datagram.arrival_ms, payload));
    }
    (found, capture.counts(), capture.ending().unwrap().clone())
}

fn found(exporter: u8, arrival_ms: Option<i64>, payload: &[u8]) -> (String, Option<i64>, Vec<u8>) {
    (format!("192.0.2.{exporter}:2055"), arrival_ms, payload.to_vec())
}

#[test]
fn pcap_files_of_every_kind_are_read() {
    for (magic, fraction) in [(0xA1B2_C3D4, 500_999), (0xA1B2_3C4D, 500_999_999)] {
        let packets = [([1, fraction], packet(1, b"a")), ([u32::MAX, 0], packet(2, b"bc"))];
        for word in [u32::to_le_bytes, u32::to_be_bytes] {
            let (datagrams, counts, ending) = read(&pcap(magic, &packets, word));
            assert_eq!(
                datagrams,
                [found(1, Some(1_500), b"a"), found(2, Some(4_294_967_295_000), b"bc")]
            );
            assert_eq!(counts, PacketCounts { datagrams: 2, ..PacketCounts::default() });
            assert_eq!(ending, Ending::Whole);
        }
    }
}

#[test]
fn pcapng_sections_and_interfaces_are_told_apart() {
    // Resolution 10^-3, offset 7 s.
    let millis = [9, 0, 1, 0, 3, 0, 0, 0, 14, 0, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let file = [
        section(),
        interface(&[]),
        interface(&millis),
        enhanced(0, 1_500_999, &packet(1, b"micros")),
        enhanced(1, 1_500, &packet(1, b"millis")),
        enhanced(2, 0, &packet(1, b"unknown interface")),
        block(0xBAD, b"another block"),
        block(3, &[&words(&[29]), &packet(2, b"x")[..]].concat()),
        section(),
        enhanced(0, 0, &packet(1, b"no interface yet")),
        interface(&[]),
        enhanced(0, 2_000_000, &packet(3, b"last")),
    ]
    .concat();
    let (datagrams, counts, ending) = read(&file);
    assert_eq!(
        datagrams,
        [
            found(1, Some(1_500), b"micros"),
            found(1, Some(8_500), b"millis"),
            found(2, None, b"x"),
            found(3, Some(2_000), b"last"),
        ]
    );
    assert_eq!(counts, PacketCounts { datagrams: 4, damaged: 2, ..PacketCounts::default() });
    assert_eq!(ending, Ending::Whole);
}

#[test]
fn a_capture_that_is_cut_anywhere_keeps_what_came_before() {
    let packets = [([1, 0], packet(1, b"first")), ([2, 0], packet(2, b"second"))];
    let pcap = pcap(0xA1B2_C3D4, &packets, u32::to_le_bytes);
    let blocks = [
        section(),
        interface(&[]),
        enhanced(0, 0, &packet(1, b"first")),
        enhanced(0, 0, &packet(2, b"second")),
    ];
    let ends: Vec<_> = (1..blocks.len()).map(|count| blocks[..count].concat().len()).collect();
    let pcap_ends = vec![24, 24 + 16 + packets[0].1.len()];
    for (file, ends) in [(pcap, pcap_ends), (blocks.concat(), ends)] {
        let first = *ends.last().unwrap();
        for length in 4..file.len() {
            let (datagrams, _, ending) = read(&file[..length]);
            assert_eq!(datagrams.len(), usize::from(length >= first), "{length}");
            let expected = if ends.contains(&length) { Ending::Whole } else { Ending::CutShort };
            assert_eq!(ending, expected, "{length}");
        }
    }
}

#[test]
fn a_capture_that_is_damaged_keeps_what_came_before() {
    let packets = [([1, 0], packet(1, b"first")), ([2, 0], packet(2, b"second"))];
    let mut endless = pcap(0xA1B2_C3D4, &packets, u32::to_le_bytes);
    let second = 24 + 16 + packets[0].1.len();
    endless[second + 8..second + 12].copy_from_slice(&0x7FFF_FFFFu32.to_le_bytes());
    endless.resize(20 << 20, 0);
    let (datagrams, _, ending) = read(&endless);
    assert_eq!(datagrams.len(), 1);
    assert_eq!(ending, Ending::Damaged { detail: "a packet longer than 16 MB".into() });
    let mut senseless = [section(), interface(&[]), enhanced(0, 0, &packet(1, b"x"))].concat();
    senseless.extend(block(6, b"too short"));
    let (datagrams, _, ending) = read(&senseless);
    assert_eq!(datagrams.len(), 1);
    assert!(!matches!(ending, Ending::Whole), "{ending:?}");
}

#[test]
fn large_packets_fit() {
    let payload = vec![7; 65_000];
    let padding = vec![0; 1 << 20];
    let file = [
        section(),
        block(0xBAD, &padding),
        interface(&[]),
        enhanced(0, 0, &packet(1, &payload)),
        block(0xBAD, &padding),
    ]
    .concat();
    let (datagrams, _, ending) = read(&file);
    assert!(datagrams == [found(1, Some(0), &payload)]);
    assert_eq!(ending, Ending::Whole);
}

#[test]
fn packed_captures_end_early_too() {
    use io::Write;
    let packets: Vec<_> = (0..200u32).map(|n| ([n, 0], packet(1, &n.to_be_bytes()))).collect();
    let file = pcap(0xA1B2_C3D4, &packets, u32::to_le_bytes);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&file[..], 0).unwrap();
    for packed in [&gzip, &zstd] {
        let (datagrams, _, ending) = read(packed);
        assert_eq!((datagrams.len(), ending), (200, Ending::Whole));
    }
    let (datagrams, _, ending) = read(&gzip[..gzip.len() / 2]);
    assert!((1..200).contains(&datagrams.len()), "{}", datagrams.len());
    assert_eq!(ending, Ending::CutShort);
    let mut damaged = gzip.clone();
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0xFF);
    let (datagrams, _, ending) = read(&damaged);
    assert!(datagrams.len() < 200);
    assert!(!matches!(ending, Ending::Whole), "{ending:?}");
}

#[test]
fn what_is_no_capture_is_an_error() {
    for (content, message) in [
        (&b""[..], "it begins with nothing, and a capture (pcap or pcapng) does not"),
        (b"{}", "it begins with 7b7d, and a capture (pcap or pcapng) does not"),
        (b"not a capture", "it begins with 6e6f7420, and a capture (pcap or pcapng) does not"),
    ] {
        let input = Input::unpack(io::Cursor::new(content), 0).unwrap();
        assert_eq!(Capture::new(input).unwrap_err().to_string(), message);
    }
}
