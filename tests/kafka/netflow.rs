//! Datagrams of NetFlow 5, by hand, and those of captures with what is known of them.

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;

/// One flow of a datagram: the interface it came in by, its bytes, and when it ended, in milliseconds
/// since the exporter started.
pub(crate) type Flow = (u16, u32, u32);

/// A datagram of an exporter that started at second `started`, and has been up for `uptime` milliseconds:
/// a header of 24 bytes, and 48 for each flow.
pub(crate) fn datagram((started, uptime): (u32, u32), flows: &[Flow]) -> Vec<u8> {
    let mut datagram = vec![0; 24 + 48 * flows.len()];
    let mut put = |at: usize, bytes: &[u8]| datagram[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &5_u16.to_be_bytes());
    put(2, &u16::try_from(flows.len()).unwrap().to_be_bytes());
    put(4, &uptime.to_be_bytes());
    put(8, &(started + uptime / 1_000).to_be_bytes());
    put(12, &(uptime % 1_000 * 1_000_000).to_be_bytes());
    for (number, (interface, bytes, ended)) in flows.iter().enumerate() {
        let at = 24 + 48 * number;
        put(at + 12, &interface.to_be_bytes());
        put(at + 16, &3_u32.to_be_bytes()); // packets
        put(at + 20, &bytes.to_be_bytes());
        put(at + 24, &ended.to_be_bytes());
        put(at + 28, &ended.to_be_bytes());
    }
    datagram
}

/// Datagrams that were captured, in their order.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) datagrams: Vec<Vec<u8>>,
    /// How many flows they hold, by their truth.
    pub(crate) records: i64,
    /// The bytes of these, by the interface that they came in by.
    pub(crate) bytes: BTreeMap<i64, i64>,
    /// How many of them ended in which second, by interface and start of the second: by what stands in
    /// the datagrams.
    pub(crate) ended: BTreeMap<(i64, i64), i64>,
}

impl Captures {
    /// Those of NetFlow 5, which can be read without any other, of five exporters.
    pub(crate) fn read() -> Self {
        const SESSIONS: [(&str, &str); 5] = [
            ("graylog/netflow-v5-2.dat", "graylog/netflow-v5-2.dat"),
            ("goflow2/TestDecodeNetFlowV5-0.bin", "goflow2/TestDecodeNetFlowV5-0.bin"),
            (
                "vflow/netflow-decoder_test-TestV5FlowPacket-0.bin",
                "vflow/netflow-decoder_test-TestV5FlowPacket-0.bin",
            ),
            ("python-netflow/v5", "python-netflow/PACKET_V5-0.bin"),
            ("softflowd-exports/ndpi-1kxun.v5.pcap", "softflowd-exports/ndpi-1kxun.v5.pcap"),
        ];
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flows");
        let truth = std::fs::read(data.join("truth.json")).unwrap();
        let truth: Json = serde_json::from_slice(&truth).unwrap();
        let mut captures = Self::default();
        for (session, file) in SESSIONS {
            let content = std::fs::read(data.join(file)).unwrap();
            if file.ends_with(".pcap") {
                captures.datagrams.extend(payloads(&content));
            } else {
                captures.datagrams.push(content);
            }
            let truth = &truth["sessions"][session];
            captures.records += truth["records"].as_i64().unwrap();
            let rate: i64 =
                truth["rates"].as_object().unwrap().keys().next().unwrap().parse().unwrap();
            for (group, sums) in truth["groups"].as_object().unwrap() {
                let interface = group.split("|in=").nth(1).unwrap().split('|').next().unwrap();
                let sum = captures.bytes.entry(interface.parse().unwrap()).or_default();
                *sum += sums[1].as_i64().unwrap() * rate;
            }
        }
        captures.datagrams.iter().flat_map(|datagram| ends(datagram)).for_each(|place| {
            *captures.ended.entry(place).or_default() += 1;
        });
        captures
    }
}

/// The interface that each flow of a datagram came in by, and the start of the second in which it ended.
fn ends(datagram: &[u8]) -> impl Iterator<Item = (i64, i64)> {
    let short = move |at: usize| i64::from(u16::from_be_bytes([datagram[at], datagram[at + 1]]));
    let long = move |at: usize| short(at) * 65_536 + short(at + 2);
    let started = long(8) * 1_000 + long(12) / 1_000_000 - long(4);
    let flows = 0..usize::try_from(short(2)).unwrap();
    flows.map(move |number| {
        let at = 24 + 48 * number;
        let ended = started + long(at + 28);
        (short(at + 12), ended - ended.rem_euclid(1_000))
    })
}

/// What is in the datagrams of a pcap file without link headers: a header of 24 bytes; each packet has
/// 16 in front of it, of which the third four say how long it is, and 28 of IP and UDP.
fn payloads(pcap: &[u8]) -> Vec<Vec<u8>> {
    let (mut payloads, mut at) = (Vec::new(), 24);
    while at < pcap.len() {
        let length = u32::from_le_bytes(pcap[at + 8..at + 12].try_into().unwrap()) as usize;
        payloads.push(pcap[at + 16 + 28..at + 16 + length].to_vec());
        at += 16 + length;
    }
    payloads
}
