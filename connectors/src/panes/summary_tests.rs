//! Summary documents against documents written by hand.

use super::tests::{Scene, grouping, ip, meta, plan_of, text};
use super::*;
use nilometer_model::aggregate::Function;
use nilometer_model::pane::{AccumulationMode, PaneKind};
use nilometer_model::plan::{Ties, TopKSpec};
use nilometer_model::time::{EventTime, Window};
use nilometer_model::value::{Type, Value};

/// Flow groupings: a total, and the top hosts, applications and conversations.
pub(super) fn flow_scene() -> Scene {
    let fields = [
        ("exporter", Type::Object),
        ("if_index", Type::U32),
        ("dscp", Type::U8),
        ("host", Type::Ip),
        ("location", Type::Text),
        ("protocol", Type::U8),
        ("address_lower", Type::Ip),
        ("address_upper", Type::Ip),
        ("application", Type::Text),
        ("bytes_ingress", Type::Big),
        ("bytes_egress", Type::Big),
        ("packets_ingress", Type::Big),
        ("packets_egress", Type::Big),
        ("congestion_encountered", Type::Bool),
        ("non_ect", Type::Bool),
        ("host_name", Type::Text),
    ];
    let bytes = [
        ("bytes_ingress", Function::Sum, "bytes_ingress"),
        ("bytes_egress", Function::Sum, "bytes_egress"),
        ("congestion_encountered", Function::Max, "congestion_encountered"),
        ("non_ect", Function::Max, "non_ect"),
    ];
    let packets = [
        ("packets_ingress", Function::Sum, "packets_ingress"),
        ("packets_egress", Function::Sum, "packets_egress"),
        ("flows", Function::Count, ""),
    ];
    let total = grouping(
        "EXPORTER_INTERFACE_TOS",
        &["exporter", "if_index", "dscp"],
        &[&bytes[..], &packets].concat(),
    );
    let top = |name: &str, entity: &[&str], extra: &[(&str, Function, &str)]| {
        let key = [&["exporter", "if_index"], entity].concat();
        let mut grouping = grouping(name, &key, &[&bytes[..], extra].concat());
        grouping.mode = AccumulationMode::Accumulating;
        grouping.top_k = Some(TopKSpec {
            k: 10,
            entity: entity.iter().map(|name| (*name).into()).collect(),
            rank: vec!["bytes_ingress".into(), "bytes_egress".into()],
            require: Vec::new(),
            other: true,
            ties: Ties::Ascending,
        });
        grouping
    };
    let conversation = ["location", "protocol", "address_lower", "address_upper", "application"];
    Scene::new(plan_of(
        &fields,
        vec![
            total,
            top("EXPORTER_INTERFACE_HOST", &["host"], &[("host_name", Function::Min, "host_name")]),
            top("EXPORTER_INTERFACE_APPLICATION", &["application"], &[]),
            top("EXPORTER_INTERFACE_CONVERSATION", &conversation, &[]),
        ],
    ))
}

pub(super) fn exporter() -> Value {
    Value::Object(r#"{"node_id":7,"foreign_source":null,"foreign_id":null}"#.into())
}

/// The aggregates of the flow groupings that all have.
pub(super) fn amounts(ingress: i128, egress: i128) -> Vec<Value> {
    vec![Value::Int(ingress), Value::Int(egress), Value::Bool(false), Value::Bool(true)]
}

/// A pane of each kind of grouping.
fn batches(scene: &Scene) -> Vec<PaneBatch> {
    let w0 = Window::new(
        EventTime::from_millis(1_699_999_963_410),
        EventTime::from_millis(1_700_000_023_410),
    );
    let pane = meta(w0, 0, PaneKind::Insert);
    let other = PaneMeta { is_other: true, ..pane };
    let parent = [exporter(), Value::Int(5)];
    let key = |entity: &[Value]| [&parent[..], entity].concat();
    let mut total = scene.batch("EXPORTER_INTERFACE_TOS");
    let packets = [Value::Int(2), Value::Int(3), Value::Int(1)];
    let values = [&amounts(1500, 4300)[..], &packets].concat();
    scene.push(&mut total, pane, &key(&[Value::Int(46)]), &[&values]);
    let mut hosts = scene.batch("EXPORTER_INTERFACE_HOST");
    let named = [&amounts(1000, 4000)[..], &[text("beta")]].concat();
    scene.push(&mut hosts, pane, &key(&[ip("10.0.0.10")]), &[&named]);
    let unnamed = [&amounts(500, 0)[..], &[Value::Null]].concat();
    scene.push(&mut hosts, pane, &key(&[Value::Null]), &[&unnamed]);
    scene.push(&mut hosts, other, &key(&[Value::Null]), &[&unnamed]);
    let mut applications = scene.batch("EXPORTER_INTERFACE_APPLICATION");
    scene.push(&mut applications, pane, &key(&[text("http")]), &[&amounts(1, 2)]);
    let mut conversations = scene.batch("EXPORTER_INTERFACE_CONVERSATION");
    let ends = [text("Default"), Value::Int(6), ip("10.0.0.10"), ip("10.0.0.9"), text("a=b")];
    scene.push(&mut conversations, pane, &key(&ends), &[&amounts(1, 2)]);
    let ends = [text(""), Value::Null, Value::Null, ip("10.0.0.8"), text("dns")];
    let global = meta(Window::GLOBAL, 0, PaneKind::Retract);
    scene.push(&mut conversations, global, &key(&ends), &[&amounts(0, 2)]);
    scene.push(&mut conversations, other, &key(&ends), &[&amounts(0, 2)]);
    vec![total, hosts, applications, conversations]
}

#[test]
fn summary_documents_have_the_names_that_consumers_know() {
    let scene = flow_scene();
    let batches = batches(&scene);
    let head = |name: &str, kind: &str| {
        format!(
            r#"{{"grouped_by":"EXPORTER_INTERFACE_{name}","aggregation_type":"{kind}","@timestamp":1700000023410,"range_start":1699999963410,"range_end":1700000023410,"resolution":60000,"exporter":{{"node_id":7,"foreign_source":null,"foreign_id":null}},"if_index":5"#
        )
    };
    let pane = |mode: &str| {
        format!(
            r#""pane":{{"index":0,"timing":"on_time","is_last":false,"kind":"insert","mode":"{mode}"}}}}"#
        )
    };
    let amounts = |ingress, egress| {
        format!(
            r#""bytes_ingress":{ingress},"bytes_egress":{egress},"congestion_encountered":false,"non_ect":true"#
        )
    };
    let top = |name: &str, members: &str, ingress: i32, egress: i32, more: &str| {
        format!(
            r#"{},{members},{}{more},"bytes_total":{},{}"#,
            head(name, "TOPK"),
            amounts(ingress, egress),
            ingress + egress,
            pane("accumulating")
        )
    };
    let expected = [
        format!(
            r#"{},"dscp":46,{},"packets_ingress":2,"packets_egress":3,"flows":1,"bytes_total":5800,"packets_total":5,{}"#,
            head("TOS", "TOTAL"),
            amounts(1500, 4300),
            pane("retracting")
        ),
        top("HOST", r#""host_address":"10.0.0.10""#, 1000, 4000, r#","host_name":"beta""#),
        top("HOST", r#""host_address":"""#, 500, 0, ""),
        top("HOST", r#""host_address":"__other""#, 500, 0, ""),
        top("APPLICATION", r#""application":"http""#, 1, 2, ""),
        top(
            "CONVERSATION",
            r#""conversation_key":"[\"Default\",6,\"10.0.0.10\",\"10.0.0.9\",\"a\\u003db\"]""#,
            1,
            2,
            "",
        ),
        r#"{"grouped_by":"EXPORTER_INTERFACE_CONVERSATION","aggregation_type":"TOPK","exporter":{"node_id":7,"foreign_source":null,"foreign_id":null},"if_index":5,"conversation_key":"[\"\",null,\"\",\"10.0.0.8\",\"dns\"]","bytes_ingress":0,"bytes_egress":2,"congestion_encountered":false,"non_ect":true,"bytes_total":2,"pane":{"index":0,"timing":"on_time","is_last":false,"kind":"retract","mode":"accumulating"}}"#.to_owned(),
        top("CONVERSATION", r#""conversation_key":"__other""#, 0, 2, ""),
    ];
    let lines = scene.lines(PaneFormat::FlowSummary, &batches);
    for (line, expected) in lines.lines().zip(&expected) {
        assert_eq!(line, expected);
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(lines.lines().count(), expected.len());

    let lines = scene.lines(PaneFormat::Pane, &batches[3..]);
    let other = r#""key":{"exporter":{"node_id":7,"foreign_source":null,"foreign_id":null},"if_index":5,"location":"__other","protocol":"__other","address_lower":"__other","address_upper":"__other","application":"__other"}"#;
    assert!(lines.lines().nth(2).unwrap().contains(other), "{lines}");
}
