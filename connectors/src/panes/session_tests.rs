//! Sessions as JSON: every kind of record, against lines written by hand from the description.

use super::tests::plan_of;
use super::write_pane;
use super::*;
use nilometer_model::plan::{Grouping, KeyColumn};
use nilometer_model::row::{Position, RowBatch};
use nilometer_model::sequence::spec::{
    Bounds, Carried, OutputTime, OverflowPolicy, Regress, Release, SequenceSpec, StepSpec, Which,
};
use nilometer_model::shard::{Output, Shard};
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::value::{Type, Value};

const FIELDS: [&str; 5] = ["client", "step", "status", "why", "ap"];

fn step(name: &str, slow_after: Option<i64>) -> StepSpec {
    StepSpec {
        name: name.into(),
        success: vec!["ok".into()],
        failure: vec!["bad".into()],
        slow_after: slow_after.map(Span::from_millis),
        ..StepSpec::default()
    }
}

fn sessions() -> Grouping {
    let spec = SequenceSpec {
        step: "step".into(),
        status: Some("status".into()),
        reason: Some("why".into()),
        id: None,
        steps: vec![step("assoc", None), step("auth", Some(50))],
        ends: vec!["bye".into()],
        carried: vec![Carried { field: "ap".into(), which: Which::Last }],
        release: Release::Eager,
        idle_timeout: Span::from_millis(60_000),
        idle_timeout_processing: None,
        max_session_duration: Span::from_millis(600_000),
        max_events_per_session: 100,
        close_on_success: false,
        regress: Regress::Roam,
        output_time: OutputTime::First,
        bounds: Bounds { sessions: None, bytes: None, policy: OverflowPolicy::EmitEarlyOldest },
    };
    Grouping {
        allowed_lateness: Span::from_millis(10_000),
        sinks: vec!["out".into()],
        ..Grouping::sequence("sessions", vec![KeyColumn::plain("client")], spec)
    }
}

/// How every line begins.
const HEAD: &str =
    r#"{"pipeline":"flows \"x\"","stage":"sessions","key":{"client":"b"},"session_id":"#;
/// What comes, how far the watermark then is, and what is told, behind the name.
const STORY: [(&[&str], i64, &[&str]); 4] = [
    (
        &["2000 b assoc ok - x"],
        0,
        &[
            r#""revision":0,"kind":"early","by_clock":false,"event_time":2000,"outcome":"in_progress","step":"assoc","reason":null,"close_cause":null,"t_first":2000,"t_last":2000,"t_connected":null,"t_closed":null,"time_to_connect_ms":null,"n_events":1,"n_out_of_order":0,"n_late":0,"n_duplicate":0,"restarts":0,"roams":0,"roam_failures":0,"ap":"x","steps":[{"step":"assoc","result":"success","t_start":2000,"t_end":2000,"duration_ms":0,"attempts":1,"status":"ok","reason":null,"slow":null}]}"#,
        ],
    ),
    (
        &["5000 b bye - - -", "2100 b auth bad mic y", "2100 b auth bad mic y"],
        0,
        &[
            r#""revision":0,"kind":"retraction","by_clock":false,"event_time":2000,"outcome":"in_progress","step":"assoc","reason":null,"close_cause":null,"t_first":2000,"t_last":2000,"t_connected":null,"t_closed":null,"time_to_connect_ms":null,"n_events":1,"n_out_of_order":0,"n_late":0,"n_duplicate":0,"restarts":0,"roams":0,"roam_failures":0,"ap":"x","steps":[{"step":"assoc","result":"success","t_start":2000,"t_end":2000,"duration_ms":0,"attempts":1,"status":"ok","reason":null,"slow":null}]}"#,
            r#""revision":1,"kind":"early","by_clock":false,"event_time":2000,"outcome":"failed","step":"auth","reason":"mic","close_cause":null,"t_first":2000,"t_last":5000,"t_connected":null,"t_closed":null,"time_to_connect_ms":null,"n_events":3,"n_out_of_order":1,"n_late":0,"n_duplicate":1,"restarts":0,"roams":0,"roam_failures":0,"ap":"y","steps":[{"step":"assoc","result":"success","t_start":2000,"t_end":2000,"duration_ms":0,"attempts":1,"status":"ok","reason":null,"slow":null},{"step":"auth","result":"failure","t_start":2000,"t_end":2100,"duration_ms":100,"attempts":1,"status":"bad","reason":"mic","slow":true}]}"#,
        ],
    ),
    (
        &[],
        5_001,
        &[
            r#""revision":1,"kind":"retraction","by_clock":false,"event_time":2000,"outcome":"failed","step":"auth","reason":"mic","close_cause":null,"t_first":2000,"t_last":5000,"t_connected":null,"t_closed":null,"time_to_connect_ms":null,"n_events":3,"n_out_of_order":1,"n_late":0,"n_duplicate":1,"restarts":0,"roams":0,"roam_failures":0,"ap":"y","steps":[{"step":"assoc","result":"success","t_start":2000,"t_end":2000,"duration_ms":0,"attempts":1,"status":"ok","reason":null,"slow":null},{"step":"auth","result":"failure","t_start":2000,"t_end":2100,"duration_ms":100,"attempts":1,"status":"bad","reason":"mic","slow":true}]}"#,
            r#""revision":2,"kind":"final","by_clock":false,"event_time":2000,"outcome":"failed","step":"auth","reason":"mic","close_cause":"terminal","t_first":2000,"t_last":5000,"t_connected":null,"t_closed":5000,"time_to_connect_ms":null,"n_events":3,"n_out_of_order":1,"n_late":0,"n_duplicate":1,"restarts":0,"roams":0,"roam_failures":0,"ap":"y","steps":[{"step":"assoc","result":"success","t_start":2000,"t_end":2000,"duration_ms":0,"attempts":1,"status":"ok","reason":null,"slow":null},{"step":"auth","result":"failure","t_start":2000,"t_end":2100,"duration_ms":100,"attempts":1,"status":"bad","reason":"mic","slow":true}]}"#,
        ],
    ),
    (
        &["2200 b auth ok - -"],
        0,
        &[
            r#""revision":2,"kind":"retraction","by_clock":false,"event_time":2000,"outcome":"failed","step":"auth","reason":"mic","close_cause":"terminal","t_first":2000,"t_last":5000,"t_connected":null,"t_closed":5000,"time_to_connect_ms":null,"n_events":3,"n_out_of_order":1,"n_late":0,"n_duplicate":1,"restarts":0,"roams":0,"roam_failures":0,"ap":"y","steps":[{"step":"assoc","result":"success","t_start":2000,"t_end":2000,"duration_ms":0,"attempts":1,"status":"ok","reason":null,"slow":null},{"step":"auth","result":"failure","t_start":2000,"t_end":2100,"duration_ms":100,"attempts":1,"status":"bad","reason":"mic","slow":true}]}"#,
            r#""revision":3,"kind":"correction","by_clock":false,"event_time":2000,"outcome":"connected","step":null,"reason":null,"close_cause":"terminal","t_first":2000,"t_last":5000,"t_connected":2200,"t_closed":5000,"time_to_connect_ms":200,"n_events":4,"n_out_of_order":2,"n_late":1,"n_duplicate":1,"restarts":0,"roams":0,"roam_failures":0,"ap":"y","steps":[{"step":"assoc","result":"success","t_start":2000,"t_end":2000,"duration_ms":0,"attempts":1,"status":"ok","reason":null,"slow":null},{"step":"auth","result":"success","t_start":2000,"t_end":2200,"duration_ms":200,"attempts":2,"status":"ok","reason":null,"slow":true}]}"#,
        ],
    ),
];

#[test]
fn every_kind_of_record_is_written_as_described() {
    let plan = plan_of(&FIELDS.map(|name| (name, Type::Text)), vec![sessions()]);
    let symbols: Arc<Symbols> = Arc::default();
    let mut shard = Shard::new(plan.clone(), symbols.clone(), 0, 1);
    let mut offset = 0;
    let mut names = Vec::new();
    for (records, watermark, expected) in STORY {
        let mut batch = RowBatch::new(plan.row.clone());
        for record in records {
            let mut words = record.split(' ');
            let time = EventTime::from_millis(words.next().unwrap().parse().unwrap());
            let mut row = batch.push(time, Position { partition: 0, offset });
            offset += 1;
            for (name, word) in FIELDS.into_iter().zip(words).filter(|(_, word)| *word != "-") {
                let value = Value::Text(word.into()).intern(&symbols).unwrap();
                row.set(plan.row.slot(name).unwrap(), value);
            }
        }
        let mut out = Output::default();
        if watermark > 0 {
            shard.watermark(Watermark(EventTime::from_millis(watermark)), &mut out).unwrap();
        } else {
            shard.records(&batch, &mut out).unwrap();
        }
        let mut lines = Vec::new();
        for batch in &out.panes {
            let stage = &plan.stages[batch.stage.index()];
            for pane in panes(batch, stage) {
                let mut line = String::new();
                write_pane("flows \"x\"", stage, pane, &symbols, &mut line);
                // A name is a hash: the same in all lines, and all that is known of it.
                let rest = line.strip_prefix(HEAD).unwrap();
                let (name, rest) = rest.split_at(18);
                assert!(name[1..17].chars().all(|digit| digit.is_ascii_hexdigit()), "{name}");
                names.push(name.to_owned());
                lines.push(rest.strip_prefix(',').unwrap().to_owned());
            }
        }
        assert_eq!(lines, expected);
    }
    names.dedup();
    assert_eq!(names.len(), 1);
}
