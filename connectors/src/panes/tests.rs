//! Panes as text: every format against text written by hand from its description.

use super::*;
use crate::sink::Receipt;
use nilometer_model::aggregate::Function;
use nilometer_model::aggregate::side::SideFunction;
use nilometer_model::pane::{AccumulationMode, PaneKind, Timing};
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn};
use nilometer_model::planner::plan;
use nilometer_model::row::Field;
use nilometer_model::time::{EventTime, Span, Window};
use nilometer_model::trigger::Trigger;
use nilometer_model::value::{Type, Value};
use nilometer_model::window::{Phase, WindowFn};
use std::path::Path;

pub(crate) fn grouping(
    name: &str,
    key: &[&str],
    aggregates: &[(&str, Function, &str)],
) -> Grouping {
    let aggregate = |(name, function, field): &(&str, Function, &str)| AggregateSpec {
        name: (*name).into(),
        function: *function,
        fields: if field.is_empty() { vec![] } else { vec![(*field).into()] },
        spread: false,
    };
    Grouping {
        name: name.into(),
        key: key.iter().map(|name| KeyColumn::plain(name)).collect(),
        window: WindowFn::Fixed {
            size: Span::from_millis(60_000),
            offset: 0,
            phase: Phase::Aligned,
        },
        trigger: Trigger::default_trigger(),
        emission: nilometer_model::pane::Emission::default(),
        gap_field: None,
        allow_closing: false,
        mode: AccumulationMode::Retracting,
        allowed_lateness: Span::ZERO,
        aggregates: aggregates.iter().map(aggregate).collect(),
        top_k: None,
        sinks: vec!["out".into()],
        late: None,
        of: None,
        sequence: None,
    }
}

pub(crate) fn plan_of(fields: &[(&str, Type)], groupings: Vec<Grouping>) -> Arc<Plan> {
    let job = Job {
        name: "flows \"x\"".into(),
        fields: fields.iter().map(|(name, ty)| Field::new(name, *ty)).collect(),
        groupings,
        shard_by: None,
        key_groups: 256,
        extra_fields: Vec::new(),
        spread: None,
        phase: Default::default(),
        cascade: false,
    };
    Arc::new(plan(&job).unwrap())
}

/// A plan with panes to write.
pub(crate) struct Scene {
    pub(crate) plan: Arc<Plan>,
    pub(crate) symbols: Arc<Symbols>,
}

impl Scene {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self { plan, symbols: Arc::default() }
    }

    /// Appends a pane of the batch's stage, of records with these values of the aggregates.
    pub(crate) fn push(
        &self,
        batch: &mut PaneBatch,
        meta: PaneMeta,
        key: &[Value],
        records: &[&[Value]],
    ) {
        let stage = &self.plan.stages[batch.stage.index()];
        let datum = |value: &Value| value.intern(&self.symbols).unwrap();
        let key: Vec<_> = key.iter().map(datum).collect();
        let mut key_words = vec![0; stage.key.words()];
        stage.key.write(&key, &mut key_words);
        let mut values = stage.aggregates.empty();
        for record in records {
            for (number, value) in record.iter().enumerate() {
                let input = (datum(value), EventTime::MIN);
                stage.aggregates.add(&mut values, number, input, &self.symbols).unwrap();
            }
        }
        batch.push(&key_words, meta, &values);
    }

    pub(crate) fn batch(&self, stage: &str) -> PaneBatch {
        PaneBatch::new(self.plan.stage(stage).unwrap().id)
    }

    /// What a sink of the format writes.
    pub(crate) fn lines(&self, format: PaneFormat, batches: &[PaneBatch]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/for/it/out.txt");
        let target = PaneTarget::File(path.clone());
        let mut sink = PaneWriter::open(
            "out",
            (&target, format),
            Delivery::AtOnce,
            self.plan.clone(),
            self.symbols.clone(),
        )
        .unwrap();
        for batch in batches {
            sink.write(batch).unwrap();
        }
        sink.close().unwrap();
        std::fs::read_to_string(path).unwrap()
    }
}

pub(crate) fn meta(window: Window, index: u32, kind: PaneKind) -> PaneMeta {
    PaneMeta {
        window,
        index,
        timing: if index == 0 { Timing::OnTime } else { Timing::Late },
        is_last: index == 9,
        kind,
        event_time: window.last_instant(),
        is_other: false,
    }
}

pub(crate) fn minute() -> Window {
    Window::new(EventTime::from_millis(-60_000), EventTime::from_millis(0))
}

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.into())
}

pub(crate) fn ip(text: &str) -> Value {
    Value::Ip(text.parse().unwrap())
}

/// A key and values of every type that there is.
fn every_type() -> (Scene, PaneBatch) {
    let fields = [
        ("yes", Type::Bool),
        ("name", Type::Text),
        ("addr", Type::Ip),
        ("obj", Type::Object),
        ("low", Type::I64),
        ("big", Type::Big),
        ("real", Type::F64),
    ];
    let key = ["name", "addr", "obj", "yes", "low", "real"];
    let values = [
        ("n", Function::Count, ""),
        ("sum", Function::Sum, "big"),
        ("mean", Function::Mean, "low"),
        ("max", Function::Max, "real"),
        ("first", Function::First, "name"),
    ];
    let scene = Scene::new(plan_of(&fields, vec![grouping("all", &key, &values)]));
    let mut batch = scene.batch("all");
    let key = [
        text("a\"\n,é"),
        ip("2001:db8::1"),
        Value::Object(r#"{"a":{"b":null}}"#.into()),
        Value::Bool(true),
        Value::Int(i64::MIN.into()),
        Value::Float(2.0),
    ];
    let int = Value::Int;
    let first: &[Value] = &[int(1), int(i128::MAX), int(3), Value::Float(f64::NAN), text("x")];
    scene.push(&mut batch, meta(minute(), 0, PaneKind::Insert), &key, &[first]);
    scene.push(&mut batch, meta(minute(), 0, PaneKind::Retract), &key, &[first]);
    let second: &[Value] = &[int(1), int(-1), int(4), Value::Float(f64::INFINITY), Value::Null];
    scene.push(&mut batch, meta(minute(), 9, PaneKind::Insert), &key, &[second, second]);
    let nulls = [Value::Null, Value::Null, Value::Null, Value::Null, Value::Null, Value::Null];
    scene.push(&mut batch, meta(Window::GLOBAL, 0, PaneKind::Insert), &nulls, &[]);
    (scene, batch)
}

#[test]
fn the_pane_format_is_the_public_schema() {
    let (scene, batch) = every_type();
    let key = r#""key":{"name":"a\"\n,é","addr":"2001:db8::1","obj":{"a":{"b":null}},"yes":true,"low":-9223372036854775808,"real":2.0}"#;
    let line = |window, pane, event_time, values| {
        format!(
            r#"{{"pipeline":"flows \"x\"","stage":"all",{key},"window":{window},"pane":{pane},"event_time":{event_time},"values":{values}}}"#
        )
    };
    let minute = r#"{"start":-60000,"end":0}"#;
    let first = r#"{"n":1,"sum":170141183460469231731687303715884105727,"mean":3.0,"max":"NaN","first":"x"}"#;
    let second = r#"{"n":2,"sum":-2,"mean":4.0,"max":"inf","first":null}"#;
    let expected = [
        line(
            minute,
            r#"{"index":0,"timing":"on_time","is_last":false,"kind":"insert","mode":"retracting"}"#,
            -1,
            first,
        ),
        line(
            minute,
            r#"{"index":0,"timing":"on_time","is_last":false,"kind":"retract","mode":"retracting"}"#,
            -1,
            first,
        ),
        line(
            minute,
            r#"{"index":9,"timing":"late","is_last":true,"kind":"insert","mode":"retracting"}"#,
            -1,
            second,
        ),
        r#"{"pipeline":"flows \"x\"","stage":"all","key":{"name":null,"addr":null,"obj":null,"yes":null,"low":null,"real":null},"window":{"start":null,"end":null},"pane":{"index":0,"timing":"on_time","is_last":false,"kind":"insert","mode":"retracting"},"event_time":9223372036854775807,"values":{"n":0,"sum":0,"mean":null,"max":null,"first":null}}"#.to_owned(),
    ];
    let lines = scene.lines(PaneFormat::Pane, &[batch]);
    for (line, expected) in lines.lines().zip(&expected) {
        assert_eq!(line, expected);
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(lines.lines().count(), expected.len());
    assert!(lines.ends_with("}\n"));
}

#[test]
fn csv_has_the_columns_of_all_stages_of_its_sink() {
    let (scene, batch) = every_type();
    assert_eq!(
        scene.lines(PaneFormat::Csv, &[batch]),
        "pipeline,stage,window_start,window_end,pane_index,pane_timing,pane_is_last,pane_kind,pane_mode,event_time,name,addr,obj,yes,low,real,n,sum,mean,max,first\n\
        \"flows \"\"x\"\"\",all,-60000,0,0,on_time,false,insert,retracting,-1,\"a\"\"\n,é\",2001:db8::1,\"{\"\"a\"\":{\"\"b\"\":null}}\",true,-9223372036854775808,2.0,1,170141183460469231731687303715884105727,3.0,NaN,x\n\
        \"flows \"\"x\"\"\",all,-60000,0,0,on_time,false,retract,retracting,-1,\"a\"\"\n,é\",2001:db8::1,\"{\"\"a\"\":{\"\"b\"\":null}}\",true,-9223372036854775808,2.0,1,170141183460469231731687303715884105727,3.0,NaN,x\n\
        \"flows \"\"x\"\"\",all,-60000,0,9,late,true,insert,retracting,-1,\"a\"\"\n,é\",2001:db8::1,\"{\"\"a\"\":{\"\"b\"\":null}}\",true,-9223372036854775808,2.0,2,-2,4.0,inf,\n\
        \"flows \"\"x\"\"\",all,,,0,on_time,false,insert,retracting,9223372036854775807,,,,,,,0,0,,,\n"
    );

    let mut unseen = grouping("unseen", &["b"], &[("n", Function::Count, "")]);
    unseen.sinks.clear();
    let plan = plan_of(
        &[("a", Type::U8), ("b", Type::U8)],
        vec![
            grouping("by_a", &["a"], &[("n", Function::Count, "")]),
            unseen,
            grouping("by_both", &["b", "a"], &[("m", Function::Sum, "b")]),
        ],
    );
    let scene = Scene::new(plan);
    let (mut by_a, mut by_both) = (scene.batch("by_a"), scene.batch("by_both"));
    let pane = meta(minute(), 0, PaneKind::Insert);
    scene.push(&mut by_a, pane, &[Value::Int(1)], &[&[Value::Int(1)]]);
    scene.push(&mut by_both, pane, &[Value::Int(2), Value::Int(1)], &[&[Value::Int(2)]]);
    let lines = scene.lines(PaneFormat::Csv, &[by_both, by_a]);
    let cells: Vec<_> = lines
        .lines()
        .map(|line| line.split_once("event_time,").or_else(|| line.split_once("-1,")).unwrap().1)
        .collect();
    assert_eq!(cells, ["a,b,n,m", "1,2,,2", "1,,1,"]);
}

/// The most frequent of texts, and the first of them.
pub(crate) fn lists() -> (Scene, PaneBatch) {
    let often = Function::Side(SideFunction::Frequent { k: 1, counters: 10 });
    let some = Function::Side(SideFunction::Collect { values_max: 2, bytes_max: 999 });
    let mut lists = grouping("lists", &["k"], &[("often", often, "v"), ("some", some, "v")]);
    lists.mode = AccumulationMode::Discarding;
    let scene = Scene::new(plan_of(&[("k", Type::U8), ("v", Type::Text)], vec![lists]));
    let mut batch = scene.batch("lists");
    for texts in [vec!["b\"", "b\""], vec!["a"]] {
        let records: Vec<_> = texts.into_iter().map(|t| [text(t), text(t)]).collect();
        let records: Vec<_> = records.iter().map(|values| &values[..]).collect();
        let pane = meta(minute(), 0, PaneKind::Insert);
        scene.push(&mut batch, pane, &[Value::Int(1)], &records);
    }
    (scene, batch)
}

#[test]
fn lists_are_objects_in_every_format() {
    let (scene, batch) = lists();
    let lines = scene.lines(PaneFormat::Pane, std::slice::from_ref(&batch));
    let values: Vec<_> =
        lines.lines().map(|line| line.split_once("\"values\":").unwrap().1).collect();
    assert_eq!(
        values,
        [
            r#"{"often":{"entries":[{"value":"b\"","count":2,"error":0}],"others_at_most":0},"some":{"values":["b\"","b\""],"left_out":0}}}"#,
            r#"{"often":{"entries":[{"value":"a","count":1,"error":0}],"others_at_most":0},"some":{"values":["a"],"left_out":0}}}"#,
        ]
    );
    let csv = scene.lines(PaneFormat::Csv, std::slice::from_ref(&batch));
    assert!(
        csv.ends_with(
            ",1,\"{\"\"entries\"\":[{\"\"value\"\":\"\"a\"\",\"\"count\"\":1,\"\"error\"\":0}],\
             \"\"others_at_most\"\":0}\",\"{\"\"values\"\":[\"\"a\"\"],\"\"left_out\"\":0}\"\n"
        ),
        "{csv}"
    );
    let summary = scene.lines(PaneFormat::FlowSummary, &[batch]);
    assert!(summary.contains(r#","some":{"values":["a"],"left_out":0},"pane":"#), "{summary}");
}

#[test]
fn outputs_that_cannot_be_written_say_what_to_do() {
    let (scene, mut batch) = every_type();
    let open = |path: &Path| {
        PaneWriter::open(
            "out",
            (&PaneTarget::File(path.to_path_buf()), PaneFormat::Pane),
            Delivery::AtOnce,
            scene.plan.clone(),
            scene.symbols.clone(),
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let error = open(directory.path()).unwrap_err().to_string();
    assert!(error.starts_with("cannot create `") && error.contains("another `path`"), "{error}");

    let mut full = open(Path::new("/dev/full")).unwrap();
    full.write(&batch).unwrap();
    let error = full.flush().unwrap_err();
    assert!(!error.is_broken_pipe());
    let error = error.to_string();
    assert!(error.starts_with("cannot write `/dev/full`: "), "{error}");
    assert!(error.ends_with("free some space, or set `path` to another disk"), "{error}");

    // Without a flush the buffer is bounded: the error comes while panes are written.
    let copy = batch.clone();
    for _ in 0..100 {
        batch.keys.extend_from_slice(&copy.keys);
        batch.values.extend_from_slice(&copy.values);
        batch.panes.extend_from_slice(&copy.panes);
    }
    let mut full = open(Path::new("/dev/full")).unwrap();
    assert!(full.write(&batch).is_err());
}

#[test]
fn what_is_held_is_published_once_and_a_restart_goes_on_behind_it() {
    let (scene, batch) = every_type();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.csv");
    let open = |delivery| {
        let target = (&PaneTarget::File(path.clone()), PaneFormat::Csv);
        PaneWriter::open("out", target, delivery, scene.plan.clone(), scene.symbols.clone())
    };
    let written = || std::fs::read_to_string(&path).unwrap();
    let take = |writer: &mut PaneWriter| Sink::take(writer, 0).unwrap();

    let mut first = open(Delivery::Held).unwrap();
    first.write(&batch).unwrap();
    first.flush().unwrap();
    assert_eq!(written(), "", "nothing is published before it is stored");
    assert_eq!(first.take(1 << 20), None, "a block that is not full stays");
    let one = take(&mut first);
    assert_eq!((one.begins, take(&mut first).block), (Some(0), Vec::new()));
    assert_eq!(first.publish(&one.block[..5], false).unwrap(), Receipt::Taken);
    assert_eq!(first.publish(&one.block[5..], true).unwrap(), Receipt::Taken);
    first.write(&batch).unwrap();
    let two = take(&mut first);
    assert_eq!(two.begins, Some(one.block.len() as u64));
    assert_eq!(first.publish(&two.block, true).unwrap(), Receipt::Taken);
    first.close().unwrap();
    let whole = written();
    assert_eq!(whole.as_bytes(), [&*one.block, &*two.block].concat());

    // Killed while the second block was published: some of it is there, and something behind.
    for found in [&whole[..one.block.len()], &whole[..one.block.len() + 3], &whole, "", "x"] {
        let is_whole = found.len() >= one.block.len();
        std::fs::write(&path, found).unwrap();
        match open(Delivery::Resumed { behind: two.begins }) {
            Ok(mut second) => {
                assert!(is_whole);
                assert_eq!(second.publish(&two.block, true).unwrap(), Receipt::Taken);
                assert!(written() == whole);
                second.write(&batch).unwrap();
                let three = take(&mut second);
                assert_eq!(three.block, two.block, "no second header");
                assert_eq!(three.begins, Some(whole.len() as u64));
            }
            Err(error) => {
                assert!(!is_whole, "{error}");
                let expected = format!("has {} bytes and {}", found.len(), one.block.len());
                assert!(error.to_string().contains(&expected), "{error}");
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
    assert!(open(Delivery::Resumed { behind: Some(0) }).is_ok());
    let error = open(Delivery::Resumed { behind: Some(1) }).map(drop).unwrap_err().to_string();
    assert!(error.contains("has 0 bytes and 1 were written"), "{error}");
}
