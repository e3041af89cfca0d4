//! Flows of goflow2, pmacct and Akvorado from their JSON to the fields of a flow. The samples are
//! written by hand, by what each documents of its members.

use super::FlowLayout::{self, Akvorado, Goflow2, Pmacct};
use super::document_tests::flow_in;

/// The table of fields in goflow2's `docs/protocols.md`, with its renderers for addresses and
/// protocols.
const GOFLOW2_2: &str = r#"{"type":"SFLOW_5","time_received_ns":1700000000500000000,"sequence_num":5,
"sampling_rate":100,"sampler_address":"192.0.2.1","time_flow_start_ns":1700000000400999999,
"time_flow_end_ns":1700000000400999999,"bytes":70,"packets":1,"src_addr":"10.0.0.9",
"dst_addr":"10.0.0.10","etype":"IPv4","proto":"TCP","src_port":443,"dst_port":46344,"in_if":4,
"out_if":5,"src_mac":"00:00:5e:00:53:01","dst_mac":"00:00:5e:00:53:02","src_vlan":12,"dst_vlan":0,
"vlan_id":12,"ip_tos":186,"forwarding_status":0,"ip_ttl":64,"tcp_flags":16,"icmp_type":0,
"src_as":64513,"dst_as":64512,"next_hop":"10.0.0.254","next_hop_as":0,"src_net":"10.0.0.0/24",
"bgp_communities":[],"as_path":[],"mpls_label":[],"observation_domain_id":3}"#;

/// The sample in the README of its version 1.
const GOFLOW2_1: &str = r#"{"Type":"SFLOW_5","TimeFlowEnd":1621820000,"TimeFlowStart":1621820000,
"TimeReceived":1621820000,"Bytes":70,"Packets":1,"SamplingRate":100,
"SamplerAddress":"192.168.1.254","DstAddr":"10.0.0.1","DstMac":"ff:ff:ff:ff:ff:ff",
"SrcAddr":"192.168.1.1","SrcMac":"ff:ff:ff:ff:ff:ff","InIf":1,"OutIf":2,"Etype":2048,
"EtypeName":"IPv4","Proto":6,"ProtoName":"TCP","SrcPort":443,"DstPort":46344,"FragmentId":54044,
"FragmentOffset":16384,"IPTTL":64,"IPTos":0,"TCPFlags":16}"#;

/// The primitives of `aggregate`, as a plugin with `print_output: json` writes them.
const PMACCT_FLOW: &str = r#"{"event_type":"purge","class":"http","vlan":12,"as_src":64513,
"as_dst":64512,"peer_ip_src":"192.0.2.1","peer_ip_dst":"10.0.0.254","iface_in":4,"iface_out":5,
"ip_src":"10.0.0.9","ip_dst":"10.0.0.10","port_src":40000,"port_dst":80,"tcp_flags":"27",
"ip_proto":"tcp","tos":186,"sampling_rate":10,"sampling_direction":"e",
"timestamp_start":"2023-11-14 22:13:20.100000","timestamp_end":"2023-11-14 22:13:20.400000",
"timestamp_arrival":"2023-11-14 22:13:20.500000","export_proto_sysid":3,
"stamp_inserted":"2023-11-14 22:10:00","stamp_updated":"2023-11-14 22:16:00","packets":7,
"flows":1,"bytes":1000,"writer_id":"default_kafka/1"}"#;

/// A row of the table `flows`, as ClickHouse writes it with `FORMAT JSONEachRow`.
const AKVORADO_ROW: &str = r#"{"TimeReceived":"2023-11-14 22:13:20","SamplingRate":"10",
"ExporterAddress":"::ffff:192.0.2.1","ExporterName":"r1","SrcAddr":"::ffff:10.0.0.9",
"DstAddr":"::ffff:10.0.0.10","SrcAS":64513,"DstAS":64512,"InIfName":"Gi0/0/4","OutIfName":"Gi0/0/5",
"InIfBoundary":"external","EType":2048,"Proto":6,"SrcPort":40000,"DstPort":80,"Bytes":"1000",
"Packets":"7","ForwardingStatus":64,"FlowDirection":"egress","IPTos":186,"TCPFlags":27,
"SrcVlan":12,"DstCommunities":[]}"#;

/// What `/api/v0/outlet/flows` answers, by the troubleshooting guide.
const AKVORADO_FLOW: &str = r#"{"TimeReceived":1753631373,"SamplingRate":100000,
"ExporterAddress":"::ffff:203.0.113.15","InIf":10,"OutIf":21,"SrcVlan":0,"DstVlan":0,
"SrcAddr":"::ffff:216.58.206.244","DstAddr":"::ffff:192.0.2.144","NextHop":"","SrcAS":15169,
"DstAS":64501,"SrcNetMask":24,"DstNetMask":24,"OtherColumns":null}"#;

/// Asserts that the flow has these fields: `name=value`, or `name` for one that is null.
fn check(layout: FlowLayout, line: &str, fields: &[&str]) {
    let found = flow_in(layout, line).unwrap_or_else(|reasons| panic!("{line}: {reasons:?}"));
    for field in fields {
        let is_so = match field.contains('=') {
            true => found.iter().any(|known| known == field),
            false => !found.iter().any(|known| known.starts_with(&format!("{field}="))),
        };
        assert!(is_so, "{line}: no {field} in {found:?}");
    }
}

#[test]
fn flows_of_goflow2_are_read_by_the_names_of_both_versions() {
    check(
        Goflow2,
        GOFLOW2_2,
        &[
            "exporter={\"node_id\":0,\"address\":\"192.0.2.1\"}",
            "domain=3",
            "netflow_version=\"SFLOW\"",
            "first_switched=1700000000400",
            "last_switched=1700000000400",
            "direction=\"INGRESS\"",
            "if_index=4",
            "output_snmp_ifindex=5",
            "src_address=\"10.0.0.9\"",
            "dst_address=\"10.0.0.10\"",
            "src_port=443",
            "dst_port=46344",
            "protocol=6",
            "tos=186",
            "dscp=46",
            "tcp_flags=16",
            "vlan=12",
            "src_as=64513",
            "dst_as=64512",
            "next_hop_address=\"10.0.0.254\"",
            "bytes_ingress=7000",
            "packets_ingress=100",
        ],
    );
    check(
        Goflow2,
        GOFLOW2_1,
        &[
            "exporter={\"node_id\":0,\"address\":\"192.168.1.254\"}",
            "last_switched=1621820000000",
            "protocol=6",
            "if_index=1",
            "bytes=7000",
            "vlan",
        ],
    );
    let flow = |members: &str| format!("{{\"sampler_address\":\"::1\",\"bytes\":9,{members}}}");
    for (members, field) in [
        // Not known: its name is empty, or none that is known here.
        (r#""time_received_ns":5000000,"proto":"""#, "protocol"),
        (r#""time_received_ns":5000000,"proto":"Chaos""#, "protocol"),
        (r#""time_received_ns":5000000,"proto":"ICMPv6""#, "protocol=58"),
        (r#""time_received_ns":5000000,"sampling_rate":0"#, "bytes=9"),
        (r#""time_received_ns":5000000,"type":"SFLOW_6""#, "netflow_version"),
        (r#""time_received_ns":5000000,"type":4"#, "netflow_version=\"IPFIX\""),
        (r#""time_received_ns":5000000,"flow_direction":1"#, "bytes_egress=9"),
        // What has no times of its own came when it was received.
        (r#""time_received_ns":5000000,"time_flow_end_ns":0"#, "last_switched=5"),
        // As the renderer `datetimenano` prints it.
        (r#""time_received_ns":"1970-01-01T00:00:00.005000001Z""#, "last_switched=5"),
        (r#""TimeReceived":1,"TimeFlowEnd":0,"TimeFlowEndMs":7"#, "last_switched=7"),
    ] {
        check(Goflow2, &flow(members), &[field]);
    }
}

#[test]
fn flows_of_pmacct_are_read_by_their_primitives() {
    check(
        Pmacct,
        PMACCT_FLOW,
        &[
            "exporter={\"node_id\":0,\"address\":\"192.0.2.1\"}",
            "domain=3",
            "first_switched=1700000000100",
            "last_switched=1700000000400",
            "direction=\"EGRESS\"",
            "if_index=5",
            "src_address=\"10.0.0.9\"",
            "src_port=40000",
            "protocol=6",
            "dscp=46",
            "tcp_flags=27",
            "vlan=12",
            "src_as=64513",
            "next_hop_address=\"10.0.0.254\"",
            "application=\"http\"",
            "bytes_egress=10000",
            "packets_egress=70",
        ],
    );
    let flow = |members: &str| format!("{{\"peer_ip_src\":\"192.0.2.1\",\"bytes\":9,{members}}}");
    for (members, field) in [
        // `timestamps_since_epoch`, `timestamps_rfc3339`.
        (r#""timestamp_end":"1700000000.400000""#, "last_switched=1700000000400"),
        (r#""timestamp_end":"2023-11-14T23:13:20.400000+01:00""#, "last_switched=1700000000400"),
        (r#""stamp_inserted":"2023-11-14 22:10:00""#, "last_switched=1699999800000"),
        (
            r#""stamp_inserted":"2023-11-14 22:10:00","timestamp_end":"0000-00-00 00:00:00""#,
            "last_switched=1699999800000",
        ),
        (r#""timestamp_end":"7","ip_proto":"ipv6-icmp""#, "protocol=58"),
        (r#""timestamp_end":"7","ip_proto":"253""#, "protocol=253"),
        (r#""timestamp_end":"7","class":"unknown""#, "application=\"__unknown\""),
        (r#""timestamp_end":"7","sampling_direction":"u""#, "direction=\"INGRESS\""),
        (r#""timestamp_end":"7","ip_src":"","as_src":0"#, "src_address"),
    ] {
        check(Pmacct, &flow(members), &[field]);
    }
}

#[test]
fn flows_of_akvorado_are_read_by_their_columns() {
    check(
        Akvorado,
        AKVORADO_ROW,
        &[
            "exporter={\"node_id\":0,\"address\":\"192.0.2.1\"}",
            "first_switched=1700000000000",
            "last_switched=1700000000000",
            "direction=\"EGRESS\"",
            "if_index=0",
            "src_address=\"10.0.0.9\"",
            "dst_port=80",
            "protocol=6",
            "tos=186",
            "tcp_flags=27",
            "vlan=12",
            "dst_as=64512",
            "bytes_egress=10000",
            "packets_egress=70",
        ],
    );
    check(
        Akvorado,
        AKVORADO_FLOW,
        &[
            "exporter={\"node_id\":0,\"address\":\"203.0.113.15\"}",
            "last_switched=1753631373000",
            "if_index=10",
            "src_as=15169",
            "vlan",
            "next_hop_address",
        ],
    );
    for (direction, expected) in
        [("1", "INGRESS"), ("2", "EGRESS"), ("0", "INGRESS"), ("\"undefined\"", "INGRESS")]
    {
        let line = format!(
            "{{\"TimeReceived\":5,\"ExporterAddress\":\"::1\",\"FlowDirection\":{direction}}}"
        );
        check(Akvorado, &line, &[&format!("direction=\"{expected}\"")]);
    }
}

#[test]
fn what_is_no_flow_is_rejected_for_a_reason() {
    for (layout, line, reason) in [
        (Goflow2, r#"{"time_flow_end_ns":5000000,"bytes":1}"#, "missing_exporter"),
        (Goflow2, r#"{"sampler_address":"::1","bytes":1}"#, "no_times"),
        (Goflow2, r#"{"sampler_address":"::1","time_flow_end_ns":-5000000}"#, "out_of_range"),
        (Goflow2, r#"{"sampler_address":"::1","time_flow_end_ns":[]}"#, "wrong_type"),
        (Goflow2, r#"{"sampler_address":"a router"}"#, "wrong_type"),
        (Goflow2, r#"{"sampler_address":"::1","proto":256}"#, "out_of_range"),
        (Goflow2, r#"{"sampler_address":"::1","proto":{}}"#, "wrong_type"),
        (Goflow2, r#"{"sampler_address":"::1","type":true}"#, "wrong_type"),
        // What its Kafka plugin writes before and behind a purge, with `kafka_markers`.
        (
            Pmacct,
            r#"{"event_type":"purge_init","writer_id":"default_kafka/1"}"#,
            "missing_exporter",
        ),
        (Pmacct, r#"{"peer_ip_src":"::1","timestamp_end":"yesterday"}"#, "wrong_type"),
        (Pmacct, r#"{"peer_ip_src":"::1","timestamp_end":"2023-13-01 00:00:00"}"#, "wrong_type"),
        (Pmacct, r#"{"peer_ip_src":"::1","tcp_flags":"SA"}"#, "wrong_type"),
        (Akvorado, r#"{"TimeReceived":5,"ExporterAddress":""}"#, "missing_exporter"),
        (
            Akvorado,
            r#"{"TimeReceived":5,"ExporterAddress":"::1","FlowDirection":[]}"#,
            "wrong_type",
        ),
        (Akvorado, r#"{"TimeReceived":5,"ExporterAddress":"::1","Bytes":-1}"#, "out_of_range"),
    ] {
        assert_eq!(flow_in(layout, line), Err(vec![(reason.into(), 1)]), "{line}");
    }
}
