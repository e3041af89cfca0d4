//! Tables for people, to the letter.

use super::summary_tests::{amounts, exporter, flow_scene};
use super::tests::{Scene, grouping, ip, meta, minute, plan_of, text};
use super::*;
use nilometer_model::aggregate::Function;
use nilometer_model::pane::{AccumulationMode, PaneKind};
use nilometer_model::time::{EventTime, Window};
use nilometer_model::value::{Type, Value};
use nilometer_model::window::WindowFn;

/// Collects what a table prints.
#[derive(Debug, Clone, Default)]
struct Paper(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

#[test]
fn a_table_shows_the_largest_results_as_people_read_them() {
    let scene = flow_scene();
    let paper = Paper::default();
    let settings = TableSettings { rows: 3, is_live: false, width: None };
    let mut sink =
        TableSink::on(settings, scene.plan.clone(), scene.symbols.clone(), Box::new(paper.clone()));
    let w0 = Window::new(EventTime::from_millis(0), EventTime::from_millis(60_000));
    let pane = |index, kind| meta(w0, index, kind);
    let mut hosts = scene.batch("EXPORTER_INTERFACE_HOST");
    let host = |address: &str| vec![exporter(), Value::Int(5), ip(address)];
    let mut push = |address: &str, bytes: i128, pane: PaneMeta| {
        let values = [&amounts(bytes, 0)[..], &[Value::Null]].concat();
        scene.push(&mut hosts, pane, &host(address), &[&values]);
    };
    push("10.0.0.1", 999, pane(0, PaneKind::Insert));
    push("10.0.0.2", 1_234_567, pane(0, PaneKind::Insert));
    push("10.0.0.3", 7, pane(0, PaneKind::Insert));
    push("10.0.0.4", 8_000_000, pane(0, PaneKind::Insert));
    push("10.0.0.4", 8_000_000, pane(0, PaneKind::Retract));
    push("10.0.0.1", 5_000, pane(1, PaneKind::Insert));
    push("::", 5_000, PaneMeta { is_other: true, ..pane(1, PaneKind::Insert) });
    sink.write(&hosts).unwrap();
    sink.flush().unwrap();
    assert_eq!(paper.text(), "", "bounded input prints at its end");
    sink.close().unwrap();
    let expected = "\
EXPORTER_INTERFACE_HOST: 3 of 4 rows, largest by bytes_ingress + bytes_egress; window fixed 1m
┌─────────────────────┬──────────┬──────────┬──────────┬───────────────┬──────────────┬────────────────────────┬─────────┐
│ from (UTC)          ┆ exporter ┆ if_index ┆ host     ┆ bytes_ingress ┆ bytes_egress ┆ congestion_encountered ┆ non_ect │
╞═════════════════════╪══════════╪══════════╪══════════╪═══════════════╪══════════════╪════════════════════════╪═════════╡
│ 1970-01-01 00:00:00 ┆ node 7   ┆        5 ┆ 10.0.0.2 ┆       1.23 MB ┆          0 B ┆ no                     ┆ yes     │
│ 1970-01-01 00:00:00 ┆ node 7   ┆        5 ┆ 10.0.0.1 ┆       5.00 kB ┆          0 B ┆ no                     ┆ yes     │
│ 1970-01-01 00:00:00 ┆ node 7   ┆        5 ┆ (other)  ┆       5.00 kB ┆          0 B ┆ no                     ┆ yes     │
└─────────────────────┴──────────┴──────────┴──────────┴───────────────┴──────────────┴────────────────────────┴─────────┘

";
    assert_eq!(paper.text(), expected);
}

#[test]
fn a_live_table_prints_what_is_new_and_adds_up_deltas() {
    let mut sums =
        grouping("sums", &["k"], &[("n", Function::Count, ""), ("v", Function::Sum, "v")]);
    sums.mode = AccumulationMode::Discarding;
    sums.window = WindowFn::Global;
    let scene = Scene::new(plan_of(&[("k", Type::Text), ("v", Type::I64)], vec![sums]));
    let paper = Paper::default();
    let settings = TableSettings { rows: 10, is_live: true, width: None };
    let mut sink =
        TableSink::on(settings, scene.plan.clone(), scene.symbols.clone(), Box::new(paper.clone()));
    let mut batch = scene.batch("sums");
    for (index, v) in [(0, -1_500), (1, 500)] {
        let pane = meta(Window::GLOBAL, index, PaneKind::Insert);
        scene.push(&mut batch, pane, &[text("a")], &[&[Value::Int(1), Value::Int(v)]]);
    }
    sink.write(&batch).unwrap();
    sink.flush().unwrap();
    let expected = "\
sums: 1 row; window global
┌───┬───┬────────┐
│ k ┆ n ┆      v │
╞═══╪═══╪════════╡
│ a ┆ 2 ┆ -1,000 │
└───┴───┴────────┘

";
    assert_eq!(paper.text(), expected);
    sink.close().unwrap();
    assert_eq!(paper.text(), "");
}

#[test]
fn a_table_adds_up_the_lists_of_deltas() {
    let (scene, batch) = super::tests::lists();
    let paper = Paper::default();
    let settings = TableSettings { rows: 10, is_live: false, width: None };
    let mut sink =
        TableSink::on(settings, scene.plan.clone(), scene.symbols.clone(), Box::new(paper.clone()));
    sink.write(&batch).unwrap();
    sink.close().unwrap();
    let text = paper.text();
    assert!(text.contains("┆ b\" (2) ┆ a, b\" and 1 more │"), "{text}");
}

#[test]
fn a_table_of_very_many_results_keeps_the_largest() {
    let sums = grouping("sums", &["k"], &[("v", Function::Sum, "v")]);
    let scene = Scene::new(plan_of(&[("k", Type::U32), ("v", Type::I64)], vec![sums]));
    let paper = Paper::default();
    let settings = TableSettings { rows: 1, is_live: false, width: None };
    let mut sink =
        TableSink::on(settings, scene.plan.clone(), scene.symbols.clone(), Box::new(paper.clone()));
    for part in 0..5 {
        let mut batch = scene.batch("sums");
        for k in 0..10_000 {
            let k = Value::Int(part * 10_000 + k);
            let pane = meta(minute(), 0, PaneKind::Insert);
            scene.push(&mut batch, pane, std::slice::from_ref(&k), &[std::slice::from_ref(&k)]);
        }
        sink.write(&batch).unwrap();
    }
    sink.close().unwrap();
    let text = paper.text();
    assert!(
        text.starts_with("sums: 1 of 50,000 rows, largest by v (30,000 small ones were let go"),
        "{text}"
    );
    assert!(text.contains("49999 ┆ 49,999"), "{text}");
}
