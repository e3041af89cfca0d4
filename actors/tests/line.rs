//! The line from sources to sinks, through real actors: nothing is lost, nothing overtakes, however
//! many shards there are and however it ends.

mod kit;

use kit::{
    Got, Record, batch, bounded, check, expected, in_system, job, parts, planned, run, source,
};
use nilometer_actors::node::{News, Node, Parts};
use nilometer_connectors::memory::MemorySource;
use nilometer_connectors::source::Source;
use nilometer_model::pane::Timing;
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::trigger::Trigger;
use nilometer_model::watermark::{FutureSkew, WatermarkSettings};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Records in the order of their times, a few per millisecond, with `seed` to tell sources apart.
fn in_order(seed: u32, count: u32) -> Vec<Record> {
    let record = |n: u32| {
        let mixed = n.wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503)) >> 7;
        (i64::from(n / 3), mixed % 23, mixed / 23 % 11, i64::from(mixed % 1_000) - 300)
    };
    (0..count).map(record).collect()
}

/// Lets every source estimate its watermark so.
fn estimate(parts: &mut Parts, settings: WatermarkSettings) {
    for source in &mut parts.sources {
        source.watermark = settings.into();
    }
}

#[test]
fn any_number_of_shards_gives_the_same_totals() {
    let plan = planned(&job());
    let first = in_order(1, 5_000);
    let mut second = in_order(2, 3_000);
    // The second source runs backwards: nearly all of it comes late.
    second.reverse();
    let all: Vec<_> = first.iter().chain(&second).copied().collect();
    for (shards, size) in [(1, 100), (2, 1), (2, 250), (7, 33)] {
        let got = Got::default();
        let sources = vec![source(&plan, &first, size), source(&plan, &second, size * 2)];
        let mut parts = parts(&plan, sources, vec![got.sink()]);
        parts.shards = shards;
        let outcome = run(parts);
        check(&outcome);
        assert!(got.totals(&plan) == expected(&all), "{shards} shards, {size} at a time");
        assert_eq!(outcome.records().accepted, 8_000);
        assert_eq!(outcome.shards.len(), shards);
        assert!(outcome.is_empty(), "no state survives the end of the input");
        assert_eq!(outcome.watermark(), Some(Watermark::MAX));
        let fine = plan.stage("fine").unwrap().id.index();
        let fine = &outcome.stages()[fine];
        assert_eq!((fine.assigned, fine.expired, fine.no_window), (8_000, 0, 0));
    }
}

#[test]
fn no_record_is_overtaken_by_the_watermark_that_covers_it() {
    // With an out-of-orderness of zero and times in order, a record that is handled behind the
    // watermark reported after it comes late; and a source that is ahead holds nobody back.
    let plan = planned(&job());
    for size in [1, 7, 64] {
        let inputs: Vec<_> = (0..3).map(|seed| in_order(seed, 4_000)).collect();
        let sources = inputs.iter().map(|records| source(&plan, records, size)).collect();
        let outcome = run(parts(&plan, sources, vec![Got::default().sink()]));
        check(&outcome);
        for (stage, account) in plan.stages.iter().zip(outcome.stages()) {
            assert_eq!(account.late + account.expired, 0, "{}, {size} at a time", stage.name);
        }
        assert_eq!(outcome.records().marks.get("reordered"), 0);
    }
}

#[test]
fn a_drain_lets_everything_pass_and_emits_what_is_due_and_no_more() {
    let plan = planned(&job());
    // Windows up to 90 are complete at 95, then comes late data for all of them, then silence.
    let due: Vec<_> = in_order(5, 300).into_iter().filter(|record| record.0 < 90).collect();
    let open: Vec<Record> = vec![(91, 1, 1, 1), (95, 2, 2, 2)];
    let late: Vec<_> = in_order(6, 270);
    for shards in [1, 3] {
        let got = Got::default();
        let batches = [&due, &open, &late].map(|records| Some(batch(&plan, records)));
        let (silent, is_silent) = channel();
        let endless = batches.into_iter().chain(std::iter::from_fn(move || {
            silent.send(()).ok();
            Some(None)
        }));
        let mut parts =
            parts(&plan, vec![Box::new(MemorySource::new(endless, None))], vec![got.sink()]);
        parts.shards = shards;
        let outcome = in_system(async {
            let node = Node::start(parts).unwrap();
            is_silent.recv().unwrap();
            node.drain();
            node.drain();
            node.finish().await
        });
        check(&outcome);
        let passed: Vec<_> = due.iter().chain(&late).copied().collect();
        assert!(got.totals(&plan) == expected(&passed), "{shards} shards");
        assert_eq!(outcome.records().accepted as usize, passed.len() + open.len());
        assert_eq!(outcome.watermark(), Some(Watermark(EventTime::from_millis(95))));
        // Those of (91, 1, 1) and (95, 2, 2); nothing of them has gone further than one stage.
        let incomplete = outcome.incomplete_windows();
        for (stage, windows) in plan.stages.iter().zip(incomplete) {
            assert_eq!(windows, if &*stage.name == "fine" { 2 } else { 0 }, "{}", stage.name);
        }
        assert!(!outcome.is_empty());
        assert!(!outcome.sources[0].is_finished);
    }
}

#[test]
fn a_silent_source_holds_nobody_back_once_it_is_idle() {
    let plan = planned(&job());
    // Each goes on until the test lets go of its end; nobody speaks on either.
    let (_quiet_end, quiet_held) = channel();
    let (_lively_end, lively_held) = channel();
    let silence = |end: &Receiver<()>| {
        end.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout)
    };
    let quiet = std::iter::from_fn(move || silence(&quiet_held).then_some(None));
    let (records, layout) = (in_order(1, 300), plan.clone());
    // All at once, and then the last record again and again.
    let mut next = batch(&plan, &records);
    let lively = std::iter::from_fn(move || {
        let again = batch(&layout, &records[299..]);
        silence(&lively_held).then(|| Some(std::mem::replace(&mut next, again)))
    });
    let (emitted, panes) = channel();
    let sink = kit::sink(move |panes| {
        emitted.send(panes.stage).ok();
        Ok(())
    });
    let sources: Vec<Box<dyn Source>> =
        vec![Box::new(MemorySource::new(lively, None)), Box::new(MemorySource::new(quiet, None))];
    let mut parts = parts(&plan, sources, vec![sink]);
    let idle_after = Some(Span::from_millis(300));
    estimate(&mut parts, WatermarkSettings { idle_after, ..bounded(0) });
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        // Panes fire only if the second source, which never spoke, is taken for idle.
        panes.recv_timeout(Duration::from_secs(30)).expect("no pane");
        node.drain();
        node.finish().await
    });
    check(&outcome);
    assert_eq!(outcome.watermark(), Some(Watermark(EventTime::from_millis(99))));
}

#[test]
fn records_ahead_of_the_clock_do_not_move_the_watermark_past_it() {
    let plan = planned(&job());
    let far = i64::MAX - 5;
    let records: Vec<Record> = vec![(0, 1, 1, 1), (far, 1, 1, 1), (5, 1, 1, 1)];
    let mut parts = parts(&plan, vec![source(&plan, &records, 1)], vec![Got::default().sink()]);
    let future_skew = FutureSkew::Clock(Span::from_millis(300_000));
    estimate(&mut parts, WatermarkSettings { future_skew, ..bounded(0) });
    let outcome = run(parts);
    check(&outcome);
    let marks = outcome.records().marks;
    assert_eq!((marks.get("clamped"), marks.get("reordered")), (1, 1));
}

#[test]
fn news_end_and_stay_ended() {
    let plan = planned(&job());
    let parts = parts(&plan, vec![source(&plan, &[], 1)], Vec::new());
    let unknown = in_system(async { Node::start(parts).err() });
    assert_eq!(
        unknown.map(|error| error.to_string()).as_deref(),
        Some("stage `fine` has a sink `out` that is not defined; define it or leave it out")
    );
    let parts = kit::parts(&plan, vec![source(&plan, &[], 1)], vec![Got::default().sink()]);
    in_system(async {
        let mut node = Node::start(parts).unwrap();
        for _ in 0..2 {
            assert!(matches!(node.news().await, News::Ended));
        }
        assert_eq!(node.finish().await.records().read, 0);
    });
}

#[test]
fn a_trigger_that_waits_for_the_clock_fires_without_records() {
    let mut job = job();
    job.groupings.truncate(1);
    job.groupings[0].trigger = Trigger::AfterWatermark {
        early: Some(Box::new(Trigger::AfterProcessingTime(Span::from_millis(1)))),
        late: Some(Box::new(Trigger::AfterCount(1))),
    };
    let plan = planned(&job);
    let mut once = Some(batch(&plan, &[(5, 1, 1, 7)]));
    let (_end, held) = channel::<()>();
    let silent = std::iter::from_fn(move || {
        once.take().map(Some).or_else(|| {
            let waited = held.recv_timeout(Duration::from_millis(5));
            (waited == Err(RecvTimeoutError::Timeout)).then_some(None)
        })
    });
    let (emitted, panes) = channel();
    let sink = kit::sink(move |panes| {
        emitted.send(panes.panes[0].timing).ok();
        Ok(())
    });
    let parts = parts(&plan, vec![Box::new(MemorySource::new(silent, None))], vec![sink]);
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        assert_eq!(panes.recv_timeout(Duration::from_secs(30)), Ok(Timing::Early));
        node.drain();
        node.finish().await
    });
    check(&outcome);
}
