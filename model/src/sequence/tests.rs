//! A sequence in a shard: what it tells of sessions whose records come in any order, early, late or
//! never; the accounts; restarts. One line for each record told.

use super::machine_tests::wifi;
use super::scene::{GOOD, Scene, job, span};
use super::spec::{OutputTime, Regress, Release, SequenceSpec, StepSpec};
use crate::engine::{Cycle, Engine, Pace};
use crate::planner::plan_for;
use crate::shard::Shard;
use crate::time::Watermark;
use std::sync::Arc;

#[test]
fn records_in_any_order_give_one_record_and_one_row() {
    let mut scene = Scene::new(wifi(), 0);
    assert!(
        scene.records("4 a dns ok; 0 a assoc ok; 3 a auth ok; 3 a auth ok").unwrap().is_empty()
    );
    assert!(scene.watermark(103).is_empty());
    assert_eq!(scene.watermark(104), ["final a@0 #0 connected - [0,4] 3+0late+1copies idle"]);
    assert!(scene.watermark(999).is_empty());
    assert_eq!(scene.watermark(1000), ["0 on_time connected 1 (3)"]);
    let account = scene.account();
    assert_eq!((account.on_time, account.duplicate, account.assigned), (3, 1, 4));
    assert!(scene.end().is_empty());
}

#[test]
fn a_terminal_record_ends_a_session_and_what_follows_begins_another() {
    let mut scene = Scene::new(wifi(), 0);
    scene.records("0 a assoc ok; 9 a bye; 12 a assoc ok; 5 a auth bad").unwrap();
    // The watermark has not passed the record that ends it.
    assert!(scene.watermark(9).is_empty());
    assert_eq!(scene.watermark(10), ["final a@0 #0 failed auth [0,9] 3+0late+0copies terminal"]);
    assert_eq!(
        scene.end(),
        [
            "final a@12 #0 abandoned assoc [12,12] 1+0late+0copies idle",
            "0 on_time failed 1 (3)",
            "0 on_time abandoned 1 (1)",
        ]
    );
}

#[test]
fn late_records_correct_what_was_told_and_the_sums() {
    let mut scene = Scene::new(wifi(), 200);
    scene.records("0 a assoc ok; 4 a dns ok; 9 a bye; 20 b assoc ok").unwrap();
    assert_eq!(scene.watermark(10), ["final a@0 #0 stuck auth [0,9] 3+0late+0copies terminal"]);
    // The missing step comes, twice, and a record that changes nothing.
    assert_eq!(
        scene.records("3 a auth ok; 3 a auth ok; 4 a dns x").unwrap(),
        [
            "minus a@0 #0 stuck auth [0,9] 3+0late+0copies terminal",
            "correction a@0 #1 connected - [0,9] 5+2late+1copies terminal",
        ]
    );
    assert!(scene.records("5 a dns x").unwrap().is_empty());
    let account = scene.account();
    assert_eq!((account.late, account.late_no_effect, account.duplicate), (2, 1, 1));
    // What was told stays as it was told, until something changes.
    scene.restart();
    assert_eq!(
        scene.records("2 a auth bad").unwrap(),
        [
            "minus a@0 #1 connected - [0,9] 5+2late+1copies terminal",
            "correction a@0 #2 connected - [0,9] 7+4late+1copies terminal",
        ]
    );
    assert_eq!(
        scene.watermark(208),
        ["final b@20 #0 abandoned assoc [20,20] 1+0late+0copies idle"]
    );
    // The session is gone with close and allowed lateness.
    scene.watermark(209);
    assert!(scene.records("8 a dns bad").unwrap().is_empty());
    assert_eq!(scene.account().expired, 1);
    assert_eq!(scene.watermark(1000), ["0 on_time connected 1 (7)", "0 on_time abandoned 1 (1)"]);
    assert!(scene.end().is_empty());
}

#[test]
fn a_correction_reaches_windows_that_were_told() {
    let spec = SequenceSpec { max_session_duration: span(150), ..wifi() };
    let mut scene = Scene::new(spec, 2000);
    scene.records(GOOD).unwrap();
    scene.watermark(900);
    assert_eq!(scene.watermark(1500), ["0 on_time connected 1 (3)"]);
    assert_eq!(
        scene.records("1 a assoc ask").unwrap(),
        [
            "minus a@0 #0 connected - [0,4] 3+0late+0copies idle",
            "correction a@0 #1 stuck assoc [0,4] 4+1late+0copies idle",
            "0 late connected 0 (0)",
            "0 late stuck 1 (4)",
        ]
    );
    scene.end();
}

#[test]
fn a_late_record_goes_where_it_would_have_stood() {
    // In front of a session that goes on: its first record, under a name of its own still.
    let mut scene = Scene::new(wifi(), 500);
    scene.records("50 a auth ok; 60 a dns ok").unwrap();
    scene.watermark(100);
    assert!(scene.records("10 a assoc ok").unwrap().is_empty());
    assert_eq!(scene.watermark(160), ["final a@10 #0 connected - [10,60] 3+1late+0copies idle"]);
    // In front of one that is closed: the name that was told stays.
    assert_eq!(
        scene.records("-20 a assoc bad").unwrap(),
        [
            "minus a@10 #0 connected - [10,60] 3+1late+0copies idle",
            "correction a@10 #1 connected - [-20,60] 4+2late+0copies idle",
        ]
    );
    // Too far from all others: a session of its own.
    assert_eq!(
        scene.records("-200 a assoc bad").unwrap(),
        [
            "final a@-200 #0 failed assoc [-200,-200] 1+1late+0copies idle",
            "-1000 late failed 1 (1)",
        ]
    );
    // A late end within one that goes on cuts it there.
    scene.records("200 a assoc ok; 220 a auth ok; 230 a dns ok").unwrap();
    scene.watermark(240);
    assert_eq!(
        scene.records("225 a bye").unwrap(),
        ["final a@200 #0 abandoned auth [200,225] 3+1late+0copies terminal"]
    );
    let lines = scene.end();
    assert_eq!(lines[0], "final a@230 #0 incomplete_start - [230,230] 1+0late+0copies idle");
}

#[test]
fn a_late_end_ends_its_session_sooner() {
    let mut scene = Scene::new(wifi(), 500);
    scene.records("0 a assoc ok; 3 a auth ok; 5 a dhcp ask").unwrap();
    assert_eq!(scene.watermark(105), ["final a@0 #0 stuck dhcp [0,5] 3+0late+0copies idle"]);
    // The client did not wait for the address: it went.
    assert_eq!(
        scene.records("9 a bye").unwrap(),
        [
            "minus a@0 #0 stuck dhcp [0,5] 3+0late+0copies idle",
            "correction a@0 #1 abandoned dhcp [0,9] 4+1late+0copies terminal",
        ]
    );
    scene.end();
}

#[test]
fn an_eager_session_is_told_at_once_and_taken_back_when_it_changes() {
    let spec = SequenceSpec { release: Release::Eager, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    assert_eq!(
        scene.records("0 a assoc ok; 4 a dns ok").unwrap(),
        ["early a@0 #0 in_progress dns [0,4] 2+0late+0copies -"]
    );
    scene.restart();
    assert_eq!(
        scene.records("3 a auth bad").unwrap(),
        [
            "minus a@0 #0 in_progress dns [0,4] 2+0late+0copies -",
            "early a@0 #1 failed auth [0,4] 3+0late+0copies -",
        ]
    );
    // The name is that which was told first.
    let earlier = scene.records("-5 a assoc ask").unwrap();
    assert_eq!(earlier[1], "early a@0 #2 failed auth [-5,4] 4+0late+0copies -");
    assert_eq!(
        scene.watermark(104),
        [
            "minus a@0 #2 failed auth [-5,4] 4+0late+0copies -",
            "final a@0 #3 failed auth [-5,4] 4+0late+0copies idle",
        ]
    );
    scene.end();
}

#[test]
fn on_terminal_is_told_once_the_chain_is_complete() {
    let spec = SequenceSpec { release: Release::OnTerminal, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    assert!(scene.records("0 a assoc ok; 3 a auth ok").unwrap().is_empty());
    assert_eq!(
        scene.records("4 a dns ok").unwrap(),
        ["early a@0 #0 connected - [0,4] 3+0late+0copies -"]
    );
    // What comes between corrects it.
    let corrected = scene.records("2 a assoc bad").unwrap();
    assert_eq!(corrected[1], "early a@0 #1 failed assoc [0,4] 4+0late+0copies -");
    scene.end();
}

#[test]
fn steps_that_are_not_known_are_counted() {
    let mut scene = Scene::new(wifi(), 0);
    scene.records("0 a assoc ok; 1 a what ok; 2 a").unwrap();
    assert_eq!((scene.account().unknown_step, scene.account().on_time), (2, 1));
    scene.end();
}

#[test]
fn sessions_may_count_where_they_are_closed() {
    let spec = SequenceSpec { output_time: OutputTime::Close, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    scene.records("900 a assoc ok; 950 a auth ok").unwrap();
    assert_eq!(
        scene.watermark(1050),
        ["final a@900 #0 abandoned auth [900,950] 2+0late+0copies idle"]
    );
    assert_eq!(scene.end(), ["1000 on_time abandoned 1 (2)"]);
}

#[test]
fn the_output_watermark_waits_for_what_is_open() {
    let mut scene = Scene::new(wifi(), 0);
    scene.records("900 a assoc ok; 980 a auth ok; 1050 a dns ok").unwrap();
    scene.watermark(1100);
    assert_eq!(scene.shard.passed().0.as_millis(), 900);
    let lines = scene.watermark(1150);
    assert_eq!(
        lines,
        ["final a@900 #0 connected - [900,1050] 3+0late+0copies idle", "0 on_time connected 1 (3)",]
    );
    assert_eq!(scene.shard.passed().0.as_millis(), 1150);
    scene.end();
}

#[test]
fn other_engines_give_the_same_sessions_in_the_end() {
    for engine in [Engine::Batch, Engine::MicroBatch(Pace::Records(2))] {
        let mut scene = Scene::new(wifi(), 0);
        let planned = plan_for(&job(wifi(), 0), engine).unwrap();
        scene.plan = Arc::new(planned);
        scene.shard = Shard::new(scene.plan.clone(), scene.symbols.clone(), 0, 1);
        assert!(scene.records(GOOD).unwrap().is_empty());
        assert!(scene.clock(10_000).is_empty());
        let cycle = Cycle { number: 1, watermark: Watermark::MAX };
        let lines = match engine {
            Engine::Batch | Engine::Streaming => scene.watermark(i64::MAX),
            Engine::MicroBatch(_) => scene.step(|shard, out| shard.cycle(cycle, out)).unwrap(),
        };
        assert_eq!(lines[0], "final a@0 #0 connected - [0,4] 3+0late+0copies idle", "{engine:?}");
        assert_eq!(lines[1], "0 on_time connected 1 (3)");
        assert!(scene.shard.is_empty());
    }
}

#[test]
fn nothing_is_read_of_fields_that_are_not_there() {
    // A record is then all that a step needs.
    let step = |name: &str| StepSpec { name: name.into(), ..StepSpec::default() };
    let steps = ["assoc", "auth", "dns"].map(step).to_vec();
    let spec = SequenceSpec { status: None, steps, ..wifi() };
    let mut scene = Scene::new(spec, 0);
    scene.records("0 a assoc; 3 a auth; 3 a auth; 500 b assoc; 504 b auth; 507 b dns").unwrap();
    let lines = scene.end();
    assert_eq!(lines[0], "final a@0 #0 abandoned auth [0,3] 2+0late+1copies idle");
    assert_eq!(lines[1], "final b@500 #0 connected - [500,507] 3+0late+0copies idle");
}

#[test]
fn a_session_of_its_own_begins_where_the_chain_begins_anew() {
    let spec = SequenceSpec { regress: Regress::Session, ..wifi() };
    let mut scene = Scene::new(spec, 200);
    scene
        .records("3 a auth bad; 20 a assoc ok; 0 a assoc ok; 22 a auth ok; 40 a assoc ok")
        .unwrap();
    // What begins the next one has not been let in.
    assert!(scene.watermark(20).is_empty());
    assert_eq!(scene.watermark(21), ["final a@0 #0 failed auth [0,3] 2+0late+0copies restart"]);
    // It belongs to the first one, which ends where it ended.
    assert_eq!(
        scene.records("9 a auth ok; 10 a dns ok").unwrap(),
        [
            "minus a@0 #0 failed auth [0,3] 2+0late+0copies restart",
            "correction a@0 #1 connected - [0,10] 4+2late+0copies restart",
        ]
    );
    assert_eq!(
        scene.end(),
        [
            "final a@20 #0 abandoned auth [20,22] 2+0late+0copies restart",
            "final a@40 #0 abandoned assoc [40,40] 1+0late+0copies idle",
            "0 on_time connected 1 (4)",
            "0 on_time abandoned 2 (3)",
        ]
    );
}
