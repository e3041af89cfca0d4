//! Normalisation of flows: identities, interfaces, sampling, times, conversations, rows.

use crate::flow::{
    ApplicationRule, Applications, Biflow, Direction, ExporterEntry, Exporters, FLOW_FIELDS, Flow,
    FlowField, FlowNotes, FlowRows, FlowSettings, FlowVersion, MalformedFlow, Node, normalise,
    reverse, share,
};
use crate::row::{Field, Position, RowBatch, RowLayout, read};
use crate::symbol::Symbols;
use crate::time::{EventTime, Span, Window};
use crate::value::{Type, Value};
use std::net::IpAddr;
use std::sync::Arc;

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

/// A record that has what every record needs.
fn flow() -> Flow {
    Flow { exporter_address: ip("192.0.2.1"), last_ms: Some(1_000), ..Flow::default() }
}

fn exporters() -> Exporters {
    let entry = |address: &str, node: Node, sampling| ExporterEntry {
        address: address.parse().unwrap(),
        node,
        sampling,
    };
    let node = || Node::new(1, Some("FS"), Some("R1"));
    Exporters::new([
        entry("198.51.100.1", node(), Some(100.0)),
        entry("2001:db8::1", node(), None),
        entry("198.51.100.2", Node::new(2, None, None), None),
    ])
    .unwrap()
}

fn applications() -> Applications {
    let rule = |ports, name: &str| ApplicationRule { protocol: Some(6), ports, name: name.into() };
    Applications::new([rule(Some(80..=80), "http")]).unwrap()
}

/// The value of the field called `name`, as JSON.
fn value(flow: &Flow, settings: FlowSettings, name: &str) -> String {
    let (exporters, applications) = (exporters(), applications());
    let normal = normalise(flow, &exporters, &applications, settings).unwrap();
    let mut out = String::new();
    normal.value(FlowField::from_name(name).unwrap().field).write_json(&mut out);
    out
}

fn check(flow: &Flow, expected: &[(&str, &str)]) {
    for (name, expected) in expected {
        assert_eq!(value(flow, FlowSettings::default(), name), *expected, "{name} of {flow:?}");
    }
}

fn notes(flow: &Flow, settings: FlowSettings) -> FlowNotes {
    normalise(flow, &exporters(), &applications(), settings).unwrap().notes
}

fn malformed(flow: &Flow) -> MalformedFlow {
    normalise(flow, &exporters(), &applications(), FlowSettings::default()).unwrap_err()
}

#[test]
fn exporters_are_nodes_or_addresses() {
    let named = r#"{"node_id":1,"foreign_source":"FS","foreign_id":"R1"}"#;
    let bare = r#"{"node_id":2,"foreign_source":null,"foreign_id":null}"#;
    let unknown = r#"{"node_id":0,"address":"192.0.2.1"}"#;
    for (address, node, expected, id) in [
        (ip("198.51.100.1"), None, named, "1"),
        (ip("2001:db8::1"), None, named, "1"),
        (ip("::ffff:198.51.100.2"), None, bare, "2"),
        (ip("192.0.2.1"), None, unknown, "0"),
        (ip("::ffff:192.0.2.1"), None, unknown, "0"),
        (ip("192.0.2.1"), Some(Node::new(1, Some("FS"), Some("R1"))), named, "1"),
        (None, Some(Node::new(2, Some("FS"), None)), bare, "2"),
    ] {
        let flow = Flow { exporter_address: address, node, ..flow() };
        check(&flow, &[("exporter", expected), ("node_id", id)]);
    }
    let nobody = malformed(&Flow { exporter_address: None, ..flow() });
    assert_eq!(nobody, MalformedFlow::MissingExporter);
    assert_eq!(nobody.reason(), "missing_exporter");
}

#[test]
fn the_interface_is_the_input_of_ingress_and_the_output_of_all_else() {
    for (direction, expected, ingress, egress) in [
        (None, "3", "9", "0"),
        (Some(Direction::from_number(0)), "3", "9", "0"),
        (Some(Direction::from_number(1)), "4", "0", "9"),
        (Some(Direction::from_number(255)), "4", "0", "9"),
    ] {
        let flow = Flow {
            direction,
            input: Some(3),
            output: Some(4),
            bytes: Some(9),
            packets: Some(9),
            ..flow()
        };
        check(
            &flow,
            &[
                ("if_index", expected),
                ("bytes_ingress", ingress),
                ("bytes_egress", egress),
                ("packets_ingress", ingress),
                ("packets_egress", egress),
            ],
        );
    }
    check(&flow(), &[("if_index", "0"), ("input_snmp_ifindex", "null"), ("bytes", "0")]);
}

#[test]
fn code_points_come_as_given_or_of_tos() {
    for (tos, dscp, ecn, expected) in [
        (None, None, None, ["0", "null", "false", "true"]),
        (Some(0xBB), None, None, ["46", "3", "true", "false"]),
        (Some(0xB8), None, None, ["46", "0", "false", "true"]),
        (Some(0xBB), Some(10), Some(1), ["10", "1", "false", "false"]),
        (None, None, Some(2), ["0", "2", "false", "false"]),
        (None, Some(46), None, ["46", "null", "false", "true"]),
    ] {
        let flow = Flow { tos, dscp, ecn, ..flow() };
        let names = ["dscp", "ecn", "congestion_encountered", "non_ect"];
        let expected: Vec<_> = names.into_iter().zip(expected).collect();
        check(&flow, &expected);
    }
}

#[test]
fn conversations_are_ordered_as_text() {
    let hosts = |flow: Flow| Flow {
        src_hostname: Some("s".into()),
        dst_hostname: Some("d".into()),
        ..flow
    };
    for (src, dst, expected) in [
        (ip("10.0.0.9"), ip("10.0.0.10"), ["\"10.0.0.10\"", "\"10.0.0.9\"", "\"d\"", "\"s\""]),
        (ip("10.0.0.10"), ip("10.0.0.9"), ["\"10.0.0.10\"", "\"10.0.0.9\"", "\"s\"", "\"d\""]),
        (ip("10.0.0.8"), None, ["null", "\"10.0.0.8\"", "\"d\"", "\"s\""]),
        (None, ip("10.0.0.8"), ["null", "\"10.0.0.8\"", "\"s\"", "\"d\""]),
        (None, None, ["null", "null", "\"d\"", "\"s\""]),
        (ip("2001:db8::1"), ip("::1"), ["\"2001:db8::1\"", "\"::1\"", "\"s\"", "\"d\""]),
    ] {
        let flow = hosts(Flow { src_address: src, dst_address: dst, ..flow() });
        let names = ["address_lower", "address_upper", "hostname_lower", "hostname_upper"];
        check(&flow, &names.into_iter().zip(expected).collect::<Vec<_>>());
        check(&flow, &[("conversation_complete", "false")]);
        let whole = Flow { protocol: Some(6), ..flow };
        let is_whole = if src.is_some() && dst.is_some() { "true" } else { "false" };
        check(&whole, &[("conversation_complete", is_whole)]);
    }
}

#[test]
fn applications_come_as_given_or_by_rule() {
    let tcp = Flow { protocol: Some(6), src_port: Some(80), ..flow() };
    check(&tcp, &[("application", "\"http\"")]);
    check(&Flow { application: Some("web".into()), ..tcp.clone() }, &[("application", "\"web\"")]);
    check(&Flow { application: Some("".into()), ..tcp }, &[("application", "\"http\"")]);
    check(&flow(), &[("application", "\"__unknown\""), ("location", "\"\"")]);
}

#[test]
fn sampling_is_the_records_then_the_options_then_the_exporters() {
    let counted = |address: &str, record, options| Flow {
        exporter_address: ip(address),
        sampling_interval: record,
        options_sampling: options,
        bytes: Some(10),
        packets: Some(1),
        ..flow()
    };
    for (address, record, options, bytes, is_bad) in [
        ("192.0.2.1", None, None, "10", false),
        ("198.51.100.1", None, None, "1000", false),
        ("198.51.100.1", None, Some(5.0), "50", false),
        ("198.51.100.1", Some(2.5), Some(5.0), "25", false),
        ("198.51.100.1", Some(0.0), None, "10", true),
        ("192.0.2.1", Some(0.0), None, "10", true),
        ("192.0.2.1", Some(-4.0), None, "10", true),
        ("192.0.2.1", Some(f64::NAN), Some(5.0), "10", true),
        ("192.0.2.1", None, Some(f64::INFINITY), "10", true),
    ] {
        let flow = counted(address, record, options);
        check(&flow, &[("bytes", bytes), ("num_bytes", "10")]);
        assert_eq!(notes(&flow, FlowSettings::default()).bad_sampling, is_bad, "{flow:?}");
    }
    let huge = Flow {
        bytes: Some(1 << 63),
        sampling_interval: Some(f64::from(1u32 << 31) * 128.0),
        ..flow()
    };
    assert_eq!(
        malformed(&huge).to_string(),
        "9223372036854775808 bytes with sampling interval 274877906944 are more than 2^100: check the sampling"
    );
    let most = Flow { sampling_interval: Some(f64::from(1u32 << 31) * 64.0), ..huge };
    check(&most, &[("bytes", "1267650600228229401496703205376")]);
}

#[test]
fn times_fall_back_and_are_noted() {
    const Y2106: i64 = 4_294_967_295_000;
    let plain = FlowNotes::default();
    let substituted = FlowNotes { substituted_times: true, ..plain };
    let reversed = FlowNotes { reversed_times: true, ..plain };
    for (delta, first, last, header, arrival, expected, noted) in [
        (Some(5), Some(3), Some(9), Some(20), None, (5, 9), plain),
        (None, Some(3), Some(9), Some(20), None, (3, 9), plain),
        (Some(0), Some(3), Some(9), Some(20), None, (3, 9), plain),
        (None, None, Some(9), Some(20), None, (9, 9), plain),
        (None, Some(3), None, Some(20), None, (3, 3), plain),
        (None, None, None, Some(20), Some(30), (20, 20), substituted),
        (None, Some(0), Some(0), Some(0), Some(30), (30, 30), substituted),
        (Some(10), None, Some(9), Some(20), None, (9, 9), reversed),
        (None, Some(-7), Some(-3), Some(20), None, (-7, -3), plain),
        (None, Some(1), Some(Y2106), None, None, (1, Y2106), plain),
    ] {
        let flow = Flow {
            delta_ms: delta,
            first_ms: first,
            last_ms: last,
            header_ms: header,
            arrival_ms: arrival,
            ..flow()
        };
        let (first, last) = (expected.0.to_string(), expected.1.to_string());
        check(&flow, &[("first_switched", &first), ("last_switched", &last)]);
        assert_eq!(notes(&flow, FlowSettings::default()), noted, "{flow:?}");
    }
    assert_eq!(malformed(&Flow { last_ms: None, ..flow() }).reason(), "no_times");
    assert_eq!(malformed(&Flow { last_ms: Some(0), ..flow() }).reason(), "no_times");
    let never = malformed(&Flow { last_ms: Some(i64::MAX), ..flow() });
    assert_eq!(never.reason(), "time_out_of_range");
}

#[test]
fn clocks_are_corrected_beyond_the_threshold() {
    let settings =
        FlowSettings { clock_correction: Some(Span::from_millis(100)), ..FlowSettings::default() };
    for (header, arrival, expected) in [
        (Some(1_000), Some(1_100), 900),
        (Some(1_000), Some(1_101), 1_001),
        (Some(1_000), Some(500), 400),
        (Some(0), Some(5_000), 900),
        (Some(1_000), None, 900),
        (None, Some(5_000), 900),
    ] {
        let flow = Flow { last_ms: Some(900), header_ms: header, arrival_ms: arrival, ..flow() };
        assert_eq!(value(&flow, settings, "last_switched"), expected.to_string(), "{flow:?}");
        assert_eq!(notes(&flow, settings).clock_corrected, expected != 900, "{flow:?}");
        assert_eq!(value(&flow, FlowSettings::default(), "last_switched"), "900");
    }
}

#[test]
fn the_reverse_direction_is_counted_or_a_record() {
    let one_way = Flow { reverse_bytes: Some(0), reverse_packets: Some(0), ..flow() };
    assert_eq!(reverse(&one_way), None);
    assert!(!notes(&one_way, FlowSettings::default()).reverse_direction);
    let biflow = Flow {
        input: Some(1),
        output: Some(2),
        src_address: ip("10.0.0.1"),
        dst_address: ip("10.0.0.2"),
        src_port: Some(80),
        dst_port: Some(9),
        src_hostname: Some("a".into()),
        bytes: Some(7),
        packets: Some(1),
        reverse_bytes: Some(70),
        reverse_packets: Some(5),
        ..flow()
    };
    let split = FlowSettings { biflow: Biflow::Split, ..FlowSettings::default() };
    assert!(notes(&biflow, FlowSettings::default()).reverse_direction);
    assert!(!notes(&biflow, split).reverse_direction);
    let back = reverse(&biflow).unwrap();
    check(
        &back,
        &[
            ("bytes", "70"),
            ("packets", "5"),
            ("if_index", "2"),
            ("src_address", "\"10.0.0.2\""),
            ("src_port", "9"),
            ("dst_hostname", "\"a\""),
        ],
    );
    assert_eq!(reverse(&back), None);
}

/// F3 of the worked example: sampled, over the end of a window of node 1.
#[test]
fn a_sampled_flow_splits_over_two_windows() {
    const W0: i64 = 1_699_999_963_410;
    let flow = Flow {
        node: Some(Node::new(1, Some("FS"), Some("R1"))),
        first_ms: Some(W0 + 45_000),
        last_ms: Some(W0 + 74_999),
        bytes: Some(100),
        sampling_interval: Some(10.0),
        ..Flow::default()
    };
    let (exporters, applications) = (exporters(), applications());
    let normal = normalise(&flow, &exporters, &applications, FlowSettings::default()).unwrap();
    let window = |start: i64| {
        Window::new(EventTime::from_millis(start), EventTime::from_millis(start + 60_000))
    };
    assert_eq!(share(normal.extent, normal.bytes, window(W0)), 500);
    assert_eq!(share(normal.extent, normal.bytes, window(W0 + 60_000)), 500);
}

#[test]
fn rows_hold_what_the_layout_names() {
    let mut fields: Vec<_> =
        FLOW_FIELDS.iter().map(|info| Field::new(info.name, info.ty)).collect();
    fields.push(Field::new("derived", Type::U64));
    let layout = Arc::new(RowLayout::new(fields));
    let mut rows = FlowRows::new(&layout);
    let symbols = Symbols::default();
    let flow = Flow {
        exporter_address: ip("198.51.100.1"),
        domain: Some(6),
        version: Some(FlowVersion::Ipfix),
        input: Some(u32::MAX),
        src_address: ip("2001:db8::1"),
        dst_address: ip("10.0.0.1"),
        src_port: Some(u16::MAX),
        protocol: Some(17),
        tos: Some(3),
        bytes: Some(u64::MAX),
        packets: Some(2),
        first_ms: Some(-5),
        src_hostname: Some("host".into()),
        ..flow()
    };
    let (exporters, applications) = (exporters(), applications());
    let normal = normalise(&flow, &exporters, &applications, FlowSettings::default()).unwrap();
    let mut batch = RowBatch::new(layout.clone());
    let mut row = batch.push(normal.extent.last(), Position::default());
    rows.write(&normal, &symbols, &mut row).unwrap();
    for info in FLOW_FIELDS {
        let slot = layout.slot(info.name).unwrap();
        let got = read(batch.row(0), slot).value(&symbols);
        assert_eq!(got, normal.value(info.field), "{}", info.name);
    }
    assert_eq!(read(batch.row(0), layout.slot("derived").unwrap()).value(&symbols), Value::Null);
    assert_eq!(normal.value(FlowField::Bytes), Value::Int(i128::from(u64::MAX) * 100));
    assert_eq!(normal.value(FlowField::FirstSwitched), Value::Int(-5));
}
