//! What records are made of: against text and bytes written by hand from `pane.proto` and the docs.

use super::block::{Block, Records};
use super::encode::PaneRecords;
use super::{OutFormat, Retractions};
use crate::panes::tests::{Scene, grouping, ip, meta, minute, plan_of, text};
use nilometer_model::aggregate::Function;
use nilometer_model::pane::{AccumulationMode, PaneBatch, PaneKind, PaneMeta};
use nilometer_model::time::Window;
use nilometer_model::value::{Type, Value};
use nilometer_model::window::WindowFn;

/// Key, whether there is a value, kind.
type Seen = (String, bool, String);

fn seen(scene: &Scene, retractions: Retractions, batch: &PaneBatch) -> Vec<Seen> {
    let records = PaneRecords::new(
        ("out", OutFormat::Pane),
        retractions,
        scene.plan.clone(),
        scene.symbols.clone(),
    );
    let mut block = Block::default();
    records.write(batch, &[], &mut block);
    let bytes = block.take();
    let own = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let of = |record: super::block::Outgoing<'_>| {
        let (_, kind) = record.headers.clone().nth(2).unwrap();
        (own(record.key.unwrap()), record.value.is_some(), own(kind))
    };
    Records(&bytes).map(of).collect()
}

fn sums(mode: AccumulationMode) -> Scene {
    let sums = grouping("sums", &["k"], &[("n", Function::Count, "")]);
    let sums = nilometer_model::plan::Grouping { mode, ..sums };
    Scene::new(plan_of(&[("k", Type::Text)], vec![sums]))
}

fn push(scene: &Scene, batch: &mut PaneBatch, (key, index, kind): (&str, u32, PaneKind)) {
    let one: &[Value] = &[Value::Int(1)];
    scene.push(batch, meta(minute(), index, kind), &[text(key)], &[one]);
}

fn key(k: &str, more: &str) -> String {
    format!(
        r#"{{"pipeline":"flows \"x\"","stage":"sums","key":{{"k":"{k}"}},"window":{{"start":-60000,"end":0}}{more}}}"#
    )
}

#[test]
fn results_are_taken_back_by_records_or_by_tombstones() {
    use PaneKind::{Insert, Retract};
    let scene = sums(AccumulationMode::Retracting);
    let mut batch = scene.batch("sums");
    for pane in [
        ("a", 0, Insert),
        ("a", 0, Retract),
        ("a", 1, Insert),
        ("b", 0, Retract),
        ("a", 1, Retract),
    ] {
        push(&scene, &mut batch, pane);
    }
    let of = |k: &str, has_value, kind: &str| (key(k, ""), has_value, kind.to_owned());
    let (insert, retract) = ("insert", "retract");
    let records = [
        of("a", true, insert),
        of("a", true, retract),
        of("a", true, insert),
        of("b", true, retract),
        of("a", true, retract),
    ];
    assert_eq!(seen(&scene, Retractions::Records, &batch), records);
    let tombstones = [
        of("a", true, insert),
        of("a", true, insert),
        of("b", false, retract),
        of("a", false, retract),
    ];
    assert_eq!(seen(&scene, Retractions::Tombstones, &batch), tombstones);
}

#[test]
fn each_pane_that_counts_for_itself_has_a_key_of_its_own() {
    let scene = sums(AccumulationMode::Discarding);
    let mut batch = scene.batch("sums");
    push(&scene, &mut batch, ("a", 0, PaneKind::Insert));
    push(&scene, &mut batch, ("a", 1, PaneKind::Insert));
    let keys = seen(&scene, Retractions::Records, &batch).into_iter().map(|(key, ..)| key);
    let expected = [key("a", r#","index":0"#), key("a", r#","index":1"#)];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

/// A field of the wire format with a length before its bytes.
fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

/// A message `Field` of a name and the bytes of its value, as field `number` of another.
fn field(number: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    part(number, &[part(1, name), value.to_vec()].concat())
}

#[test]
fn a_message_has_the_bytes_that_its_schema_asks_for() {
    let fields = [
        ("name", Type::Text),
        ("addr", Type::Ip),
        ("obj", Type::Object),
        ("yes", Type::Bool),
        ("big", Type::Big),
        ("none", Type::Text),
    ];
    let names = fields.map(|(name, _)| name);
    let values = [
        ("n", Function::Count, ""),
        ("sum", Function::Sum, "big"),
        ("mean", Function::Mean, "big"),
    ];
    let all = grouping("all", &names[..4], &values);
    let all = nilometer_model::plan::Grouping {
        key: names
            .iter()
            .filter(|name| **name != "big")
            .map(|name| nilometer_model::plan::KeyColumn::plain(name))
            .collect(),
        ..all
    };
    let scene = Scene::new(plan_of(&fields, vec![all]));
    let mut batch = scene.batch("all");
    let key = [
        text("é"),
        ip("2001:db8::1"),
        Value::Object(r#"{"a":1}"#.into()),
        Value::Bool(true),
        Value::Null,
    ];
    let big = Value::Int(i128::MAX);
    let record: &[Value] = &[Value::Int(1), big, Value::Int(-2)];
    let meta = PaneMeta { is_last: true, ..meta(minute(), 3, PaneKind::Retract) };
    scene.push(&mut batch, meta, &key, &[record]);
    let encoder = PaneRecords::new(
        ("out", OutFormat::Protobuf),
        Retractions::Records,
        scene.plan.clone(),
        scene.symbols.clone(),
    );
    let mut block = Block::default();
    encoder.write(&batch, &[], &mut block);
    let bytes = block.take();
    let record = Records(&bytes).next().unwrap();
    // -60000 as a varint of ten bytes.
    let start = [0x20, 0xa0, 0xab, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let last_instant = [0x58, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let expected = [
        part(1, b"flows \"x\""),
        part(2, b"all"),
        field(3, b"name", &part(6, "é".as_bytes())),
        field(3, b"addr", &part(7, b"2001:db8::1")),
        field(3, b"obj", &part(8, br#"{"a":1}"#)),
        field(3, b"yes", &[0x10, 1]),
        field(3, b"none", &[]),
        start.to_vec(),
        vec![0x28, 0],
        // Index 3, late, the last one, a retract, of mode retracting.
        vec![0x30, 3, 0x38, 4, 0x40, 1, 0x48, 2, 0x50, 3],
        last_instant.to_vec(),
        field(12, b"n", &[0x18, 2]),
        field(12, b"sum", &part(4, i128::MAX.to_string().as_bytes())),
        field(12, b"mean", &[&[0x29][..], &(-2.0_f64).to_le_bytes()].concat()),
    ];
    assert_eq!(record.value.unwrap(), expected.concat());
}

#[test]
fn bounds_that_a_window_does_not_have_are_left_out() {
    let mut all = grouping("all", &["k"], &[("n", Function::Count, "")]);
    all.window = WindowFn::Global;
    let scene = Scene::new(plan_of(&[("k", Type::Text)], vec![all]));
    let mut batch = scene.batch("all");
    let one: &[Value] = &[Value::Int(1)];
    scene.push(&mut batch, meta(Window::GLOBAL, 0, PaneKind::Insert), &[text("a")], &[one]);
    let records = seen(&scene, Retractions::Records, &batch);
    assert!(records[0].0.ends_with(r#""window":{"start":null,"end":null}}"#), "{records:?}");
}
