//! Datagrams as bad exporters send them: what is whole is kept, what is not is counted.

use super::*;
use nilometer_model::flow::{Direction, Flow};
use proptest::prelude::*;

mod fields;

const V9: u16 = 9;
const IPFIX: u16 = 10;

fn words(words: &[u16]) -> Vec<u8> {
    words.iter().copied().flat_map(u16::to_be_bytes).collect()
}

/// A set with this number and content.
fn set(id: u16, body: &[u8]) -> Vec<u8> {
    [&words(&[id, body.len() as u16 + 4]), body].concat()
}

/// A template set that gives `id` these fields: number and length.
fn template(version: u16, id: u16, fields: &[(u16, u16)]) -> Vec<u8> {
    let fields: Vec<_> = fields.iter().flat_map(|(number, length)| [*number, *length]).collect();
    let count = fields.len() as u16 / 2;
    set(if version == V9 { 0 } else { 2 }, &[words(&[id, count]), words(&fields)].concat())
}

/// A datagram of domain 7, sent at 1,000,000 s and, in version 9, at an uptime of 5,000 ms.
fn datagram(version: u16, sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let sets = sets.concat();
    let head: &[u32] = match version {
        V9 => &[5_000, 1_000_000, sequence, 7],
        _ => &[1_000_000, sequence, 7],
    };
    let head: Vec<u8> = head.iter().copied().flat_map(u32::to_be_bytes).collect();
    let length = if version == V9 { 1 } else { (head.len() + 4 + sets.len()) as u16 };
    [words(&[version, length]), head, sets].concat()
}

fn from<'a>(exporter: &str, payload: &'a [u8]) -> Datagram<'a> {
    Datagram { exporter: exporter.parse().unwrap(), arrival_ms: Some(9), payload }
}

/// The flows of these datagrams from one exporter, and what was counted.
fn decode(datagrams: &[Vec<u8>]) -> (Vec<Flow>, DecoderCounts) {
    let mut decoder = FlowDecoder::new(DecoderSettings::LIVE);
    let mut flows = Vec::new();
    for payload in datagrams {
        decoder.decode(from("192.0.2.1:2055", payload), &mut flows);
    }
    decoder.finish(&mut flows);
    (flows, decoder.counts())
}

fn bytes(flows: &[Flow]) -> Vec<Option<u64>> {
    flows.iter().map(|flow| flow.bytes).collect()
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

/// What every flow of [`datagram`] says.
fn flow() -> Flow {
    Flow {
        exporter_address: ip("192.0.2.1"),
        domain: Some(7),
        header_ms: Some(1_000_000_000),
        arrival_ms: Some(9),
        ..Flow::default()
    }
}

fn be32(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().copied().flat_map(u32::to_be_bytes).collect()
}

fn be64(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().copied().flat_map(u64::to_be_bytes).collect()
}

#[test]
fn templates_change_and_are_withdrawn() {
    for version in [V9, IPFIX] {
        let first = template(version, 256, &[(1, 1), (2, 1)]);
        let second = template(version, 256, &[(2, 1), (1, 1)]);
        let data = set(256, &[1, 2]);
        let (flows, counts) = decode(&[
            datagram(version, 0, &[first.clone(), data.clone(), first]),
            datagram(version, 1, &[second, data.clone()]),
        ]);
        assert_eq!(bytes(&flows), [Some(1), Some(2)]);
        assert_eq!((counts.templates, counts.template_changes), (1, 1));
    }
    let all = |id: u16| set(2, &words(&[id, 0]));
    for withdrawal in [all(256), all(2)] {
        let given = template(IPFIX, 256, &[(1, 1)]);
        let data = set(256, &[5]);
        let (flows, counts) = decode(&[
            datagram(IPFIX, 0, &[given, data.clone()]),
            datagram(IPFIX, 1, &[withdrawal, data]),
        ]);
        assert_eq!((bytes(&flows), counts.no_template), (vec![Some(5)], 1));
    }
}

#[test]
fn templates_that_make_no_sense_are_refused() {
    for version in [V9, IPFIX] {
        let empty = template(version, 256, &[(1, 0), (2, 0)]);
        let reserved = template(version, 255, &[(1, 1)]);
        let mut cut = template(version, 257, &[(1, 1), (2, 1)]);
        cut.truncate(cut.len() - 2);
        let length = cut.len() as u16;
        cut[2..4].copy_from_slice(&length.to_be_bytes());
        let good = template(version, 258, &[(1, 1)]);
        let sets = [empty, reserved, cut, good, set(256, &[1]), set(257, &[1]), set(258, &[1])];
        let (flows, counts) = decode(&[datagram(version, 0, &sets)]);
        assert_eq!(bytes(&flows), [Some(1)]);
        assert_eq!((counts.templates_refused, counts.no_template, counts.malformed), (2, 2, 1));
    }
}

#[test]
fn templates_hold_for_one_domain_of_one_exporter() {
    let given = datagram(V9, 0, &[template(V9, 256, &[(1, 1)])]);
    let data = datagram(V9, 1, &[set(256, &[5])]);
    let mut other_domain = data.clone();
    other_domain[19] = 8;
    let mut decoder = FlowDecoder::new(DecoderSettings::LIVE);
    let mut flows = Vec::new();
    for (exporter, payload) in [
        ("192.0.2.1:1", &given),
        ("192.0.2.2:1", &data),
        ("192.0.2.1:1", &other_domain),
        // The port makes no difference, and neither does the form of the address.
        ("192.0.2.1:2", &data),
        ("[::ffff:192.0.2.1]:1", &data),
    ] {
        decoder.decode(from(exporter, payload), &mut flows);
    }
    assert_eq!(bytes(&flows), [Some(5), Some(5)]);
    decoder.finish(&mut flows);
    assert_eq!((flows.len(), decoder.counts().no_template), (2, 2));
}

#[test]
fn data_waits_with_its_own_header() {
    let data = datagram(V9, 1, &[set(256, &be32(&[4_000]))]);
    let mut given = datagram(V9, 2, &[template(V9, 256, &[(21, 4)])]);
    given[4..8].copy_from_slice(&9_000_000u32.to_be_bytes());
    let (flows, counts) = decode(&[data, given]);
    assert_eq!((flows[0].last_ms, counts.no_template), (Some(1_000_000_000 - 1_000), 0));
}

#[test]
fn options_data_say_how_flows_were_sampled() {
    // Options template 300: scope interface, rate. Flows: input interface, bytes.
    let options = set(1, &words(&[300, 4, 4, 2, 2, 34, 2]));
    let flows = template(V9, 256, &[(10, 2), (1, 1)]);
    let of = |input: u16| set(256, &[words(&[input]), vec![1, 0]].concat()[..3]);
    let rate = |interface: u16, rate: u16| set(300, &words(&[interface, rate]));
    let (found, counts) = decode(&[
        datagram(V9, 0, &[options, flows, of(1)]),
        datagram(V9, 1, &[rate(0, 10), of(1), rate(1, 20), of(1), of(2), rate(0, 30), of(2)]),
    ]);
    let rates: Vec<_> = found.iter().map(|flow| flow.options_sampling).collect();
    assert_eq!(rates, [None, Some(10.0), Some(20.0), Some(10.0), Some(30.0)]);
    assert_eq!(counts.options_records, 3);
}

#[test]
fn flows_of_a_capture_wait_for_their_sampler() {
    // Options template 300: scope system, sampler, rate.
    let options = set(1, &words(&[300, 4, 8, 1, 1, 48, 1, 50, 2]));
    let flows = template(V9, 256, &[(48, 1), (1, 1)]);
    let of = |sampler: u8, bytes: u8| set(256, &[sampler, bytes]);
    let described = set(300, &[0, 3, 0, 50]);
    let datagrams = [
        datagram(V9, 0, &[options, flows, of(3, 1), of(0, 2), of(4, 3)]),
        datagram(V9, 1, &[described, of(3, 4)]),
    ];
    let live = [(1, None), (2, None), (3, None), (4, Some(50.0))];
    let bounded = [(2, None), (1, Some(50.0)), (4, Some(50.0)), (3, None)];
    for (settings, expected) in [(DecoderSettings::LIVE, live), (DecoderSettings::BOUNDED, bounded)]
    {
        let mut decoder = FlowDecoder::new(settings);
        let mut found = Vec::new();
        for payload in &datagrams {
            decoder.decode(from("192.0.2.1:1", payload), &mut found);
        }
        decoder.finish(&mut found);
        let found: Vec<_> =
            found.iter().map(|flow| (flow.bytes.unwrap(), flow.options_sampling)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn gaps_in_sequence_numbers_are_counted() {
    let v9 = |sequence| datagram(V9, sequence, &[template(V9, 256, &[(1, 1)])]);
    let given = template(IPFIX, 256, &[(1, 1)]);
    let ipfix = |sequence, data: &[u8]| datagram(IPFIX, sequence, &[given.clone(), set(256, data)]);
    let unread = datagram(IPFIX, 3, &[set(999, &[1])]);
    for (datagrams, gaps) in [
        (vec![v9(5), v9(6), v9(7)], 0),
        (vec![v9(u32::MAX), v9(0)], 0),
        (vec![v9(5), v9(7), v9(8), v9(6)], 2),
        (vec![ipfix(0, &[1, 2]), ipfix(2, &[3]), ipfix(3, &[4])], 0),
        // Numbered by what has been sent with the message.
        (vec![ipfix(2, &[1, 2]), ipfix(3, &[3]), ipfix(6, &[1, 2, 3])], 0),
        (vec![ipfix(0, &[1, 2]), ipfix(9, &[3])], 1),
        // How much was in between is not known.
        (vec![ipfix(0, &[1, 2, 3]), unread, ipfix(9, &[3])], 0),
    ] {
        assert_eq!(decode(&datagrams).1.sequence_gaps, gaps);
    }
}

#[test]
fn version_5_keeps_whole_records() {
    let record = [[10, 0, 0, 1], [10, 0, 0, 2]].concat();
    let record = [record, vec![0; 12], vec![0, 0, 1, 0], vec![0; 24]].concat();
    let with = |count: u16, records: usize, behind: &[u8]| {
        let head = [words(&[5, count]), be32(&[5_000, 1_000_000, 0, 0]), vec![1, 2, 0x40, 100]];
        [head.concat(), record.repeat(records), behind.to_vec()].concat()
    };
    for (payload, records, malformed) in [
        (with(2, 2, &[]), 2, 0),
        (with(0, 0, &[]), 0, 0),
        // More are announced than there are; one is cut; more than the standard allows.
        (with(30, 2, &[]), 2, 1),
        (with(3, 2, &record[..47]), 2, 1),
        (with(70, 70, &[]), 70, 0),
        (with(1, 1, &[1, 2, 3]), 1, 0),
        (with(2, 0, &[])[..23].to_vec(), 0, 1),
    ] {
        let (flows, counts) = decode(&[payload]);
        assert_eq!((flows.len(), counts.malformed), (records, malformed));
        for flow in flows {
            assert_eq!((flow.bytes, flow.domain), (Some(256), Some(0x0102)));
            assert_eq!(flow.sampling_interval, Some(100.0));
            assert_eq!(flow.last_ms, Some(1_000_000_000 - 5_000));
        }
    }
}

#[test]
fn what_is_no_datagram_of_flows_is_malformed() {
    let truncated = datagram(IPFIX, 0, &[])[..12].to_vec();
    for payload in
        [&b""[..], &[0], &[0, 9], &[0, 9, 0, 1], &[0, 0, 0, 4, 1], b"GET / HTTP/1.1", &truncated]
    {
        let (flows, counts) = decode(&[payload.to_vec()]);
        assert_eq!((flows.len(), counts.read, counts.malformed), (0, 1, 1), "{payload:?}");
    }
    // Two messages in one datagram, and something behind.
    let one = datagram(IPFIX, 0, &[template(IPFIX, 256, &[(1, 1)]), set(256, &[1])]);
    let (flows, counts) = decode(&[[&one[..], &one].concat()]);
    assert_eq!((flows.len(), counts.malformed), (2, 0));
    let (flows, counts) = decode(&[[&one[..], &[1, 2, 3]].concat()]);
    assert_eq!((flows.len(), counts.malformed), (1, 1));
}

proptest! {
    /// Whatever comes, nothing panics, and every datagram is counted once.
    #[test]
    fn any_bytes_are_survived(
        version in prop_oneof![Just(5u16), Just(9), Just(10), Just(0), any::<u16>()],
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8),
    ) {
        let datagrams: Vec<_> =
            datagrams.iter().map(|rest| [&words(&[version]), &rest[..]].concat()).collect();
        let (_, counts) = decode(&datagrams);
        prop_assert_eq!(counts.read, datagrams.len() as u64);
        prop_assert!(counts.malformed <= counts.read);
    }

    /// A good datagram with some bytes changed and its end cut gives no more records than fit.
    #[test]
    fn damaged_datagrams_are_survived(
        version in prop_oneof![Just(V9), Just(IPFIX)],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in any::<prop::sample::Index>(),
    ) {
        let fields = [(8, 4), (12, 4), (1, 4), (96, u16::MAX), (22, 4), (21, 4)];
        let record = [vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 9, 2], b"ab".to_vec(), vec![0; 8]].concat();
        let sets = [template(version, 256, &fields), set(256, &record.repeat(5))];
        let mut payload = datagram(version, 0, &sets);
        for (index, byte) in changes {
            let index = index.index(payload.len());
            payload[index] = byte;
        }
        payload.truncate(length.index(payload.len()) + 1);
        let (flows, counts) = decode(&[payload.clone(), payload]);
        prop_assert_eq!(counts.read, 2);
        prop_assert!(flows.len() <= 2 * 400);
    }
}
