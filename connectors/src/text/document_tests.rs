//! Flow documents of OpenNMS from text to the fields of a flow.

use super::tests::{layout, row_text, run};
use super::*;
use nilometer_model::flow::{FLOW_FIELDS, Flow, FlowSettings};
use nilometer_model::row::Field;
use nilometer_model::value::Type;

/// All 46 fields of a flow document.
const DOCUMENT: &str = r#"{"timestamp":1700000000500,"num_bytes":1000,"direction":"EGRESS",
"dst_address":"10.0.0.10","dst_hostname":"beta","dst_as":64512,"dst_mask_len":24,"dst_port":80,
"engine_id":3,"engine_type":0,"delta_switched":1700000000100,"first_switched":1700000000000,
"last_switched":1700000000400,"num_flow_records":1,"num_packets":7,"flow_seq_num":99,
"input_snmp_ifindex":4,"output_snmp_ifindex":5,"ip_protocol_version":4,
"next_hop_address":"10.0.0.254","next_hop_hostname":"gate","protocol":6,
"sampling_algorithm":"SYSTEMATIC_COUNT_BASED_SAMPLING","sampling_interval":10.0,
"src_address":"10.0.0.9","src_hostname":"alpha","src_as":64513,"src_mask_len":24,"src_port":40000,
"tcp_flags":27,"tos":186,"netflow_version":"V9","vlan":"12",
"src_node":{"foreign_source":"FS","foregin_id":"S","node_id":8,"categories":["a"]},
"exporter_node":{"foreign_source":"FS","foregin_id":"R1","node_id":1,"categories":[]},
"dest_node":null,"application":"http","host":"collector","location":"Default",
"src_locality":"PRIVATE","dst_locality":1,"flow_locality":"PUBLIC","clock_correction":0,
"dscp":46,"ecn":2}"#;

/// The fields of the one flow that `line` is, as `name=value`, those that are null left out.
fn flow_of(line: &str) -> Result<Vec<String>, Vec<(String, u64)>> {
    flow_in(FlowLayout::Opennms, line)
}

/// The same of another layout.
pub(super) fn flow_in(names: FlowLayout, line: &str) -> Result<Vec<String>, Vec<(String, u64)>> {
    let layout =
        Arc::new(RowLayout::new(FLOW_FIELDS.iter().map(|info| Field::new(info.name, info.ty))));
    let format = TextFormat::Flows(names, FlowContext::default());
    let outcome = run(&[line.replace('\n', "").as_bytes()], format, &layout, (9, false));
    let Some(row) = outcome.rows.first() else {
        let reasons = outcome.out.account.malformed.sorted();
        return Err(reasons.into_iter().map(|(reason, count)| (reason.into(), count)).collect());
    };
    let values = row.split(' ').skip(1);
    let named =
        FLOW_FIELDS.iter().zip(values).map(|(info, value)| format!("{}={value}", info.name));
    Ok(named.filter(|field| !field.ends_with("=null")).collect())
}

#[test]
fn a_flow_document_gives_every_field_of_a_flow() {
    let all = r#"exporter={"node_id":1,"foreign_source":"FS","foreign_id":"R1"}
domain=3
node_id=1
window_phase=1
foreign_source="FS"
foreign_id="R1"
location="Default"
if_index=5
input_snmp_ifindex=4
output_snmp_ifindex=5
direction="EGRESS"
src_address="10.0.0.9"
dst_address="10.0.0.10"
address_lower="10.0.0.10"
address_upper="10.0.0.9"
src_port=40000
dst_port=80
protocol=6
tos=186
dscp=46
ecn=2
tcp_flags=27
vlan=12
src_as=64513
dst_as=64512
next_hop_address="10.0.0.254"
application="http"
netflow_version="V9"
num_bytes=1000
num_packets=7
bytes=10000
packets=70
bytes_ingress=0
bytes_egress=10000
packets_ingress=0
packets_egress=70
sampling_interval=10.0
first_switched=1700000000100
last_switched=1700000000400
src_hostname="alpha"
dst_hostname="beta"
hostname_lower="beta"
hostname_upper="alpha"
congestion_encountered=false
non_ect=false
conversation_complete=true"#;
    let expected: Vec<_> = all.lines().map(str::to_owned).collect();
    assert_eq!(flow_of(DOCUMENT).unwrap(), expected);

    // As protocol buffers print themselves: camel case, 64-bit numbers as text.
    let printed = r#"{"lastSwitched":"1700000000400","numBytes":"1000","inputSnmpIfindex":4,
"samplingInterval":"10","exporterNode":{"foreignSource":"FS","foreginId":"R1","nodeId":1}}"#;
    let fields = flow_of(printed).unwrap();
    let exporter = "exporter={\"node_id\":1,\"foreign_source\":\"FS\",\"foreign_id\":\"R1\"}";
    for field in [exporter, "last_switched=1700000000400", "bytes=10000", "if_index=4"] {
        assert!(fields.iter().any(|found| found == field), "no {field} in {fields:?}");
    }
}

#[test]
fn flow_documents_with_gaps_and_faults() {
    let has = |line: &str, field: &str| {
        let fields = flow_of(line).unwrap_or_else(|reasons| panic!("{line}: {reasons:?}"));
        assert!(fields.iter().any(|found| found == field), "{line}: no {field} in {fields:?}");
    };
    for (members, field) in [
        (r#""direction":255"#, "direction=\"UNKNOWN\""),
        (r#""direction":"UNRECOGNIZED""#, "direction=\"UNKNOWN\""),
        (r#""direction":1"#, "direction=\"EGRESS\""),
        (r#""direction":0"#, "direction=\"INGRESS\""),
        (r#""direction":null"#, "direction=\"INGRESS\""),
        (r#""direction":255,"input_snmp_ifindex":1,"output_snmp_ifindex":2"#, "if_index=2"),
        (r#""num_bytes":9223372036854775808"#, "bytes=9223372036854775808"),
        (r#""num_bytes":0"#, "bytes=0"),
        (r#""num_bytes":null"#, "bytes=0"),
        (r#""sampling_interval":"NaN","num_bytes":7"#, "bytes=7"),
        (r#""sampling_interval":0.5,"num_bytes":7"#, "bytes=3"),
        (r#""src_address":"","dst_address":"2001:db8::1""#, "address_upper=\"2001:db8::1\""),
        (r#""netflow_version":2"#, "netflow_version=\"IPFIX\""),
        (r#""netflow_version":3"#, "netflow_version=\"SFLOW\""),
        (r#""application":"""#, "application=\"__unknown\""),
        (r#""first_switched":5,"delta_switched":null"#, "first_switched=5"),
        (r#""last_switched":4294967295000"#, "last_switched=4294967295000"),
    ] {
        has(
            &format!("{{\"last_switched\":7,\"exporter_node\":{{\"node_id\":1}},{members}}}"),
            field,
        );
    }
    has(r#"{"last_switched":7,"exporter_node":{}}"#, "node_id=0");
    has(r#"{"last_switched":7,"exporter_node":{"foreign_source":"F","foreign_id":"I"}}"#, {
        "foreign_id=\"I\""
    });
    has(r#"{"timestamp":70,"exporter_node":{"node_id":1}}"#, "last_switched=70");
    for (line, reason) in [
        (r#"{"last_switched":7}"#, "missing_exporter"),
        (r#"{"last_switched":7,"exporter_node":null}"#, "missing_exporter"),
        (r#"{"last_switched":7,"exporter_node":5}"#, "wrong_type"),
        (r#"{"exporter_node":{"node_id":1}}"#, "no_times"),
        (r#"{"last_switched":-7,"exporter_node":{}}"#, "out_of_range"),
        (r#"{"last_switched":9223372036854775808,"exporter_node":{}}"#, "out_of_range"),
        (r#"{"last_switched":true,"exporter_node":{}}"#, "wrong_type"),
        (r#"{"last_switched":7,"exporter_node":{"node_id":-1}}"#, "out_of_range"),
        (r#"{"last_switched":7,"exporter_node":{},"src_address":"1.2.3"}"#, "wrong_type"),
        (r#"{"last_switched":7,"exporter_node":{},"protocol":256}"#, "out_of_range"),
        (r#"{"last_switched":7,"exporter_node":{},"num_bytes":1.5}"#, "wrong_type"),
        (r#"{"last_switched":7,"exporter_node":{},"num_bytes":-1}"#, "out_of_range"),
        (r#"{"last_switched":7,"exporter_node":{},"application":7}"#, "wrong_type"),
        (r#"{"last_switched":7,"exporter_node":{},"vlan":"blue"}"#, "wrong_type"),
        (r#"{"last_switched":7,"exporter_node":{}"#, "cut_short"),
    ] {
        assert_eq!(flow_of(line), Err(vec![(reason.into(), 1)]), "{line}");
    }
}

#[test]
fn marks_of_flows_are_counted() {
    let layout = layout(&[("bytes", Type::Big)]);
    let context = FlowContext { settings: FlowSettings::default(), ..FlowContext::default() };
    let content =
        r#"{"last_switched":7,"first_switched":9,"exporter_node":{},"sampling_interval":0}"#;
    let outcome = run(
        &[content.as_bytes()],
        TextFormat::Flows(FlowLayout::Opennms, context),
        &layout,
        (9, false),
    );
    assert_eq!(outcome.rows, ["7 0"]);
    assert_eq!(outcome.out.account.marks.sorted(), [("bad_sampling", 1), ("reversed_times", 1)]);
}

#[test]
fn flows_written_as_documents_come_back_the_same() {
    use crate::generator::{FlowGenerator, GeneratorSettings, write_opennms};
    use nilometer_model::time::EventTime;
    let layout =
        Arc::new(RowLayout::new(FLOW_FIELDS.iter().map(|info| Field::new(info.name, info.ty))));
    let symbols = Arc::new(Symbols::default());
    let mut intake = FlowIntake::new(FlowContext::default(), &layout, symbols.clone(), 2);
    let mut direct = Polled::new(layout.clone(), false);
    let mut text = String::new();
    let origin: Arc<str> = "generator".into();
    let flows = FlowGenerator::new(GeneratorSettings::default(), EventTime::from_millis(1 << 40));
    for flow in flows.take(500) {
        // A document has no place for these.
        let flow = Flow { exporter_address: None, domain: None, ..flow };
        write_opennms(&flow, &mut text);
        intake.take(&flow, Found::new(&origin, Place::Record(1), b""), &mut direct);
    }
    let format = TextFormat::Flows(FlowLayout::Opennms, FlowContext::default());
    let read = run(&[text.as_bytes()], format, &layout, (64, false));
    assert_eq!((direct.batch.len(), read.rows.len()), (500, 500));
    for (index, row) in read.rows.iter().enumerate() {
        assert_eq!(*row, row_text(&direct.batch, index, &symbols));
    }
}
