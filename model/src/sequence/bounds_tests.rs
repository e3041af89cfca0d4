//! What bounds sessions: the clock, number and age, and room; the watermark may stand still.

use super::machine_tests::wifi;
use super::scene::{GOOD, Scene, span};
use super::spec::{Bounds, OverflowPolicy, Release, SequenceSpec};
use crate::cold::{MemoryPages, Pages};
use crate::engine::{Cycle, Engine, Pace};
use crate::image::Log;
use crate::invariant::CLOCK_1;
use crate::pane::StageId;
use crate::shard::{Output, Shard, StageError};
use crate::symbol::Symbols;
use crate::tick::Tick;
use crate::time::{EventTime, ProcessingTime, Watermark};
use std::collections::BTreeSet;
use std::sync::Arc;

#[test]
fn the_clock_ends_what_the_watermark_leaves_open() {
    let mut scene = Scene::new(wifi(), 50);
    scene.clock(200);
    scene.records("0 a assoc ok; 4 a dns ok; 70000 a assoc ok").unwrap();
    // A second session of the same key, in the far future, does not keep the first one.
    assert!(scene.clock(100).is_empty());
    scene.restart();
    // What passes between two processes does not count.
    scene.now += 1_000_000;
    assert!(scene.clock(100).is_empty());
    let lines = scene.clock(400);
    assert_eq!(
        lines,
        [
            "clock a@0 #0 stuck auth [0,4] 2+0late+0copies idle",
            "clock a@70000 #0 abandoned assoc [70000,70000] 1+0late+0copies idle",
        ]
    );
    // What comes for it corrects it, in time or not.
    assert_eq!(
        scene.records("3 a auth ok").unwrap(),
        [
            "minus a@0 #0 stuck auth [0,4] 2+0late+0copies idle",
            "correction a@0 #1 connected - [0,4] 3+1late+0copies idle",
        ]
    );
    // By the clock it is gone, too.
    scene.clock(2_000);
    assert_eq!(scene.shard.sizes()[0].0, 0);
    scene.end();
}

#[test]
fn ticks_that_were_held_up_count_as_those_that_came_one_by_one() {
    let spec = || SequenceSpec { idle_timeout_processing: Some(span(5_000)), ..wifi() };
    let [mut free, mut held] = [Scene::new(spec(), 50), Scene::new(spec(), 50)];
    for scene in [&mut free, &mut held] {
        scene.clock(200);
        scene.records("0 a assoc ok").unwrap();
    }
    for passed in [3_000, 1_900] {
        assert!(free.clock(passed).is_empty());
        assert!(held.clock_held(passed).is_empty());
    }
    let closed = ["clock a@0 #0 abandoned assoc [0,0] 1+0late+0copies idle"];
    assert_eq!(free.clock(100), closed);
    assert_eq!(held.clock_held(100), closed, "{CLOCK_1}");
    let lived = |scene: &Scene| scene.shard.active().collect::<Vec<_>>();
    assert_eq!(lived(&free), [(StageId(0), span(5_000))]);
    assert_eq!(lived(&free), lived(&held), "{CLOCK_1}");
}

#[test]
fn shards_that_were_cut_at_different_ticks_go_on_together() {
    let plan = Scene::new(wifi(), 50).plan;
    let symbols = Arc::new(Symbols::default());
    let mut log = Log::default();
    let mut shards: Vec<_> =
        (0..2).map(|id| Shard::new(plan.clone(), symbols.clone(), id, 2)).collect();
    let first = Tick::after(None, ProcessingTime::from_millis(0));
    let tick = |last, now| Tick::after(Some(last), ProcessingTime::from_millis(now));
    let second = tick(first, 200);
    let mut out = Output::default();
    shards[0].tick(second, &mut out).unwrap();
    shards[1].tick(tick(second, 800), &mut out).unwrap();
    log.cut(&plan, &mut shards).unwrap();
    for count in [2, 3] {
        let mut restored = log.restore(&plan, &symbols, count).unwrap();
        for (began, tick) in [(200, first), (400, second)] {
            for shard in &mut restored {
                shard.tick(tick, &mut out).unwrap();
                let lived: Vec<_> = shard.active().map(|(_, lived)| lived).collect();
                assert_eq!(lived, [span(began)], "{CLOCK_1}, {count} shards");
            }
        }
    }
}

#[test]
fn a_bounded_wait_lets_records_in_by_the_clock() {
    let spec = SequenceSpec { release: Release::BoundedWait(span(300)), ..wifi() };
    let mut scene = Scene::new(SequenceSpec { idle_timeout_processing: None, ..spec }, 50);
    scene.clock(200);
    scene.records("0 a assoc ok; 9 a bye").unwrap();
    assert!(scene.clock(200).is_empty());
    assert_eq!(scene.clock(200), ["clock a@0 #0 abandoned assoc [0,9] 2+0late+0copies terminal"]);
    scene.end();
}

#[test]
fn a_delay_behind_the_watermark_waits_for_it() {
    let spec = SequenceSpec { release: Release::WatermarkPlus(span(30)), ..wifi() };
    let mut scene = Scene::new(spec, 0);
    scene.records("0 a assoc ok; 9 a bye").unwrap();
    assert!(scene.watermark(39).is_empty());
    // Behind the watermark, and in time.
    scene.records("9 a auth ok").unwrap();
    assert_eq!(scene.watermark(40), ["final a@0 #0 abandoned auth [0,9] 3+0late+0copies terminal"]);
    assert_eq!(scene.account().late, 0);
    scene.end();
}

#[test]
fn an_endless_session_is_cut_by_number_and_by_age() {
    let mut scene = Scene::new(wifi(), 0);
    // A bot that never stops, with a watermark that stands still: released by number.
    let text: String = (0..40).map(|n| format!("{n} bot dns x{n};")).collect();
    let lines = scene.records(&text).unwrap();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[0], "clock bot@0 #0 incomplete_start - [0,7] 8+0late+0copies max_events");
    scene.end();
    // Slowly: by age, as the watermark goes on.
    let mut scene = Scene::new(SequenceSpec { max_events_per_session: 100, ..wifi() }, 0);
    let mut lines = Vec::new();
    for number in 0..30 {
        scene.records(&format!("{} slow dns x{number}", number * 90)).unwrap();
        lines.extend(scene.watermark(number * 90 - 100));
    }
    assert_eq!(lines[0], "final slow@0 #0 incomplete_start - [0,990] 12+0late+0copies max_age");
    scene.end();
}

#[test]
fn what_has_no_room_is_closed_dropped_or_ends_the_run() {
    let bound = |policy| {
        let bounds = Bounds { sessions: Some(2), bytes: None, policy };
        Scene::new(SequenceSpec { bounds, ..wifi() }, 0)
    };
    let text = "0 a assoc ok; 1 b assoc ok; 5 a auth ok; 6 c assoc ok; 7 c auth ok";
    let mut scene = bound(OverflowPolicy::EmitEarlyOldest);
    assert_eq!(
        scene.records(text).unwrap(),
        ["final b@1 #0 overflow - [1,1] 1+0late+0copies memory"]
    );
    assert_eq!(scene.shard.sizes()[0].0, 2);
    scene.end();

    let mut scene = bound(OverflowPolicy::DropNewest);
    assert!(scene.records(text).unwrap().is_empty());
    assert_eq!((scene.account().overflow, scene.account().on_time), (2, 3));
    assert!(!scene.shard.is_full());
    scene.end();

    let mut scene = bound(OverflowPolicy::PauseSource);
    assert!(scene.records(text).unwrap().is_empty());
    assert!(scene.shard.is_full());
    scene.watermark(200);
    assert!(!scene.shard.is_full());
    scene.end();

    let error = bound(OverflowPolicy::Fail).records(text).unwrap_err();
    assert!(error.to_string().starts_with("sequence `sessions` keeps 2 sessions"), "{error}");

    // Bytes, for ten times as many sessions as there is room for.
    let bounds =
        Bounds { sessions: None, bytes: Some(40_000), policy: OverflowPolicy::EmitEarlyOldest };
    let mut scene = Scene::new(SequenceSpec { bounds, ..wifi() }, 0);
    for number in 0..2_000 {
        scene.records(&format!("{number} k{number} assoc ok; {number} k{number} auth ok")).unwrap();
        let (_, bytes) = scene.shard.sizes()[0];
        assert!(bytes <= 41_000, "{bytes}");
    }
    scene.end();
}

#[test]
fn room_is_kept_whatever_a_round_brings() {
    let bounds = Bounds { sessions: Some(1), bytes: None, policy: OverflowPolicy::EmitEarlyOldest };
    let mut scene = Scene::new(SequenceSpec { bounds, ..wifi() }, 1_000);
    scene.watermark(500);
    // Both come late, and the first has made nothing due yet.
    scene.records("400 a assoc ok; 410 b assoc ok").unwrap();
    assert_eq!(scene.shard.sizes()[0].0, 1);
    // What is lost in any case takes nobody's room.
    scene.watermark(1_450);
    assert!(scene.records("400 c assoc ok").unwrap().is_empty());
    assert_eq!((scene.shard.sizes()[0].0, scene.account().expired), (1, 1));
    scene.end();
}

#[test]
fn sources_that_wait_for_sessions_that_were_told_do_not_wait_for_ever() {
    let bounds = Bounds { sessions: Some(1), bytes: None, policy: OverflowPolicy::PauseSource };
    let idle_timeout_processing = Some(span(600));
    let mut scene = Scene::new(SequenceSpec { bounds, idle_timeout_processing, ..wifi() }, 1_000);
    scene.records(GOOD).unwrap();
    // It is closed, and kept; while sources wait the watermark goes no further.
    assert_eq!(scene.watermark(150).len(), 1);
    assert!(scene.shard.is_full());
    scene.clock(1_600);
    assert!(scene.shard.is_full());
    scene.clock(200);
    assert!(!scene.shard.is_full());
    scene.end();
}

/// A cycle cannot end while sources wait, so what came late is not asked at its end.
#[test]
fn a_late_session_makes_sources_wait_no_longer_than_the_clock_lets_it() {
    let bounds = Bounds { sessions: Some(1), bytes: None, policy: OverflowPolicy::PauseSource };
    let idle_timeout_processing = Some(span(600));
    let spec = SequenceSpec { bounds, idle_timeout_processing, ..wifi() };
    let mut scene = Scene::on(Engine::MicroBatch(Pace::Records(6)), spec, 1_000);
    let cycle = Cycle { number: 1, watermark: Watermark(EventTime::from_millis(500)) };
    scene.step(|shard, out| shard.cycle(cycle, out)).unwrap();
    scene.records("400 a assoc ok").unwrap();
    assert_eq!(scene.account().late, 1);
    assert!(scene.shard.is_full());
    scene.clock(600 + 600 + 1_000 + 400);
    assert!(!scene.shard.is_full());
    assert_eq!(scene.shard.sizes()[0].0, 0);
}

#[test]
fn a_page_that_is_lost_fails_the_shard_and_hangs_nobody() {
    let mut scene = Scene::new(wifi(), 0);
    let pages = Arc::new(MemoryPages::default());
    scene.shard.keep_within(Some(0), pages.clone()).unwrap();
    scene.records(GOOD).unwrap();
    assert_eq!(pages.count(), 1);
    pages.retain(&BTreeSet::new()).unwrap();
    let watermark = Watermark(EventTime::from_millis(1_000));
    let error = scene.step(|shard, out| shard.watermark(watermark, out)).unwrap_err();
    assert!(matches!(error, StageError::Page { .. }), "{error}");
}
