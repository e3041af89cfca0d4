//! Fields of records: widths, kinds, times, variable lengths.

use super::*;

/// The fields of a template: number and length.
type Fields = &'static [(u16, u16)];
/// When a flow began and ended.
type Times = [Option<i64>; 2];

const TWENTIES: &str = "2020:2020:2020:2020:2020:2020:2020:2020";

#[test]
fn fields_of_every_width_and_kind_are_read() {
    // (fields, record, expected)
    let cases: &[(Fields, &[u8], Flow)] = &[
        (&[(1, 8)], &[0x80, 0, 0, 0, 0, 0, 0, 0], Flow { bytes: Some(1 << 63), ..flow() }),
        (&[(1, 5)], &[1, 0, 0, 0, 2], Flow { bytes: Some((1 << 32) + 2), ..flow() }),
        // Zero length, and fields that nobody knows.
        (
            &[(1, 2), (2, 0), (4_000, 3), (150, 0), (4, 1)],
            &[0, 9, 1, 2, 3, 17],
            Flow { bytes: Some(9), protocol: Some(17), ..flow() },
        ),
        (&[(61, 1)], &[255], Flow { direction: Some(Direction::Unknown), ..flow() }),
        (&[(61, 1)], &[1], Flow { direction: Some(Direction::Egress), ..flow() }),
        // The fields of both IP versions, one of them empty.
        (
            &[(8, 4), (27, 16), (12, 4), (28, 16)],
            &[vec![10, 0, 0, 1], vec![0; 16], vec![0; 4], [0x20; 16].to_vec()].concat(),
            Flow { src_address: ip("10.0.0.1"), dst_address: ip(TWENTIES), ..flow() },
        ),
        // octetDelta, else initiator, else total; packets alike; the reverse direction beside.
        (
            &[(85, 1), (231, 1), (86, 1), (232, 1), (299, 1)],
            &[3, 2, 4, 5, 6],
            Flow {
                bytes: Some(2),
                packets: Some(4),
                reverse_bytes: Some(5),
                reverse_packets: Some(6),
                ..flow()
            },
        ),
        (&[(85, 1), (231, 1), (1, 1)], &[3, 2, 1], Flow { bytes: Some(1), ..flow() }),
        // A port that is wider than a port.
        (&[(7, 4), (11, 4)], &[0, 0, 1, 0, 0, 1, 0, 0], Flow { src_port: Some(256), ..flow() }),
        (&[(34, 4)], &[0, 0, 0, 100], Flow { sampling_interval: Some(100.0), ..flow() }),
        (&[(305, 1), (306, 1)], &[1, 9], Flow { sampling_interval: Some(10.0), ..flow() }),
        (&[(309, 1), (310, 1)], &[2, 9], Flow { sampling_interval: Some(4.5), ..flow() }),
        (&[(311, 4)], &0.25f32.to_be_bytes(), Flow { sampling_interval: Some(4.0), ..flow() }),
        (&[(96, 6)], b"http\0\0", Flow { application: Some("http".into()), ..flow() }),
    ];
    for version in [V9, IPFIX] {
        for (fields, record, expected) in cases {
            let sets = [template(version, 256, fields), set(256, record)];
            let (flows, counts) = decode(&[datagram(version, 0, &sets)]);
            let expected = Flow {
                version: Some(if version == V9 { FlowVersion::V9 } else { FlowVersion::Ipfix }),
                ..expected.clone()
            };
            assert_eq!(flows, [expected], "{fields:?}");
            assert_eq!(counts.malformed, 0);
        }
    }
}

#[test]
fn times_are_absolute_or_of_the_uptime_or_of_the_message() {
    const HEADER: i64 = 1_000_000_000;
    const Y2106: [u8; 4] = [0xFF; 4];
    let cases: &[(u16, Fields, Vec<u8>, Times)] = &[
        (
            V9,
            &[(22, 4), (21, 4)],
            be32(&[4_000, 4_500]),
            [Some(HEADER - 1_000), Some(HEADER - 500)],
        ),
        // The counter wrapped in between; a flow that ends after its header.
        (
            V9,
            &[(22, 4), (21, 4)],
            be32(&[u32::MAX, 6_000]),
            [Some(HEADER - 5_001), Some(HEADER + 1_000)],
        ),
        // Absolute goes before relative.
        (
            V9,
            &[(22, 4), (152, 8), (21, 4)],
            [be32(&[4_000]), be64(&[5]), be32(&[4_500])].concat(),
            [Some(5), Some(HEADER - 500)],
        ),
        (
            IPFIX,
            &[(150, 4), (151, 4)],
            [be32(&[1]), Y2106.to_vec()].concat(),
            [Some(1_000), Some(4_294_967_295_000)],
        ),
        (
            IPFIX,
            &[(154, 8), (157, 8)],
            be64(&[2_208_988_801 << 32, (2_208_988_801 << 32) + (1 << 31)]),
            [Some(1_000), Some(1_500)],
        ),
        (IPFIX, &[(158, 4), (159, 4)], be32(&[1_500, 1]), [Some(HEADER - 2), Some(HEADER - 1)]),
        // No uptime in the message, none in options data: the flow ends with its message.
        (IPFIX, &[(22, 4), (21, 4)], be32(&[100, 350]), [Some(HEADER - 250), Some(HEADER)]),
        (
            IPFIX,
            &[(160, 8), (22, 4), (21, 4)],
            [be64(&[999_999_000]), be32(&[100, 350])].concat(),
            [Some(999_999_100), Some(999_999_350)],
        ),
        (IPFIX, &[(161, 4), (153, 8)], [be32(&[30]), be64(&[100])].concat(), [Some(70), Some(100)]),
        (
            IPFIX,
            &[(161, 4), (152, 8)],
            [be32(&[30]), be64(&[100])].concat(),
            [Some(100), Some(130)],
        ),
        (V9, &[(323, 8)], be64(&[77]), [None, Some(77)]),
        // Zero, and more than there is, is not known.
        (IPFIX, &[(152, 8), (153, 8)], be64(&[0, u64::MAX]), [None, None]),
        (IPFIX, &[(154, 8), (153, 8)], be64(&[0, 5]), [None, Some(5)]),
        (V9, &[(1, 1)], vec![1], [None, None]),
    ];
    for (version, fields, record, expected) in cases {
        let sets = [template(*version, 256, fields), set(256, record)];
        let (flows, _) = decode(&[datagram(*version, 0, &sets)]);
        let times: Vec<_> = flows.iter().map(|flow| [flow.first_ms, flow.last_ms]).collect();
        assert_eq!(times, [*expected], "{fields:?}");
    }
}

#[test]
fn fields_of_variable_length_may_be_empty_or_long() {
    let long = [vec![255, 1, 44], vec![b'x'; 300], vec![6]].concat();
    for version in [V9, IPFIX] {
        let sets = [
            template(version, 256, &[(96, u16::MAX), (1, 1)]),
            set(256, &[vec![0, 5], vec![1, b'a', 7], long.clone(), vec![9, b'c', b'u']].concat()),
        ];
        let (flows, counts) = decode(&[datagram(version, 0, &sets)]);
        let found: Vec<_> =
            flows.iter().map(|flow| (flow.application.as_deref(), flow.bytes)).collect();
        let x = "x".repeat(300);
        assert_eq!(found, [(None, Some(5)), (Some("a"), Some(7)), (Some(&*x), Some(6))]);
        assert_eq!(counts.malformed, 0, "the rest is padding");
    }
}
