//! Micro-batches and batches through real actors: the same totals as a stream, pane by pane what a
//! cycle decides, and an end that nobody waits for in vain.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod kit;

use kit::{
    Got, Record, batch, bounded, check, expected, in_system, job, parts, planned, run, source,
};
use nilometer_actors::node::{Node, SinkPart};
use nilometer_actors::report::Failure;
use nilometer_connectors::memory::MemorySource;
use nilometer_connectors::source::Source;
use nilometer_model::engine::{Engine, Pace};
use nilometer_model::pane::{PaneBatch, PaneMeta, Timing};
use nilometer_model::plan::{Job, Plan};
use nilometer_model::planner::plan_for;
use nilometer_model::row::RowBatch;
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::value::{Datum, Type};
use nilometer_model::watermark::{WatermarkSettings, WatermarkSpec};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const fn micro(records: u64) -> Engine {
    Engine::MicroBatch(Pace::Records(records))
}

fn planned_for(job: &Job, engine: Engine) -> Arc<Plan> {
    Arc::new(plan_for(job, engine).unwrap())
}

/// Records of a few keys, not in order.
fn mixed(seed: u32, count: u32) -> Vec<Record> {
    let record = |n: u32| {
        let mixed = n.wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503)) >> 7;
        (i64::from(n / 3 + mixed % 40), mixed % 23, mixed / 23 % 11, i64::from(mixed % 1_000) - 300)
    };
    (0..count).map(record).collect()
}

/// What a sink gets, in order, with somebody who is told of every batch.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<PaneBatch>>>);

impl Seen {
    fn sink(&self, mut tell: impl FnMut() + Send + 'static) -> SinkPart {
        let seen = self.clone();
        kit::sink(move |panes| {
            seen.0.lock().unwrap().push(panes.clone());
            tell();
            Ok(())
        })
    }

    /// The panes of one stage.
    fn panes(&self, plan: &Plan, stage: &str) -> Vec<(PaneMeta, i128)> {
        let stage = plan.stage(stage).unwrap();
        let mut panes = Vec::new();
        for batch in self.0.lock().unwrap().iter().filter(|batch| batch.stage == stage.id) {
            for (meta, _, values) in batch.iter(stage.key.words(), stage.aggregates.words()) {
                let Datum::Int(sum) = stage.aggregates.finish(values, 0) else { panic!("no sum") };
                panes.push((*meta, sum));
            }
        }
        panes
    }
}

/// Waits for about as long as a reader may; `false` once the other end is let go.
fn is_held(end: &Receiver<()>) -> bool {
    end.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout)
}

/// A source of `records`, one by one, which is then at its end until it is let go.
fn lingering(plan: &Arc<Plan>, records: &[Record], end: Receiver<()>) -> Box<dyn Source> {
    let mut records: Vec<_> = records.iter().map(|record| batch(plan, &[*record])).collect();
    records.reverse();
    let next =
        move || records.pop().map_or_else(|| is_held(&end).then_some(None), |one| Some(Some(one)));
    Box::new(MemorySource::new(std::iter::from_fn(next), None))
}

#[test]
fn all_engines_end_with_the_same_totals_on_any_number_of_shards() {
    let (first, second) = (mixed(1, 3_000), mixed(2, 1_000));
    let all: Vec<_> = first.iter().chain(&second).copied().collect();
    let every = Engine::MicroBatch(Pace::Every(Span::from_millis(1)));
    let engines = [Engine::Batch, every, micro(1), micro(700), micro(u64::MAX)];
    let plans = engines.map(|engine| planned_for(&job(), engine));
    for plan in std::iter::once(planned(&job())).chain(plans) {
        for (shards, size, max_drift) in [(1, 100, None), (3, 7, None), (2, 50, Some(0))] {
            let got = Got::default();
            let sources = vec![source(&plan, &first, size), source(&plan, &second, size)];
            let mut parts = parts(&plan, sources, vec![got.sink()]);
            parts.shards = shards;
            parts.progress.max_drift = max_drift.map(Span::from_millis);
            let outcome = run(parts);
            check(&outcome);
            assert!(got.totals(&plan) == expected(&all), "{:?}, {shards} shards", plan.engine);
            assert!(outcome.is_empty(), "no state survives the end of the input");
            assert_eq!(outcome.watermark(), Some(Watermark::MAX));
        }
    }
}

#[test]
fn a_batch_fires_each_window_once_in_order_whatever_its_sources_promise() {
    let plan = planned_for(&job(), Engine::Batch);
    // Backwards: with a bounded watermark nearly all of it would come late.
    let mut records = mixed(3, 2_000);
    records.reverse();
    let seen = Seen::default();
    let mut parts = parts(&plan, vec![source(&plan, &records, 10)], vec![seen.sink(|| ())]);
    parts.shards = 1;
    let outcome = run(parts);
    check(&outcome);
    for stage in ["fine", "by_a", "by_b", "all"] {
        let panes = seen.panes(&plan, stage);
        let is_whole =
            |meta: &PaneMeta| meta.index == 0 && meta.is_last && meta.timing == Timing::OnTime;
        assert!(panes.iter().all(|(meta, _)| is_whole(meta)), "{stage}");
        assert!(panes.is_sorted_by_key(|(meta, _)| meta.window.end()), "{stage}");
    }
    assert!(outcome.stages().iter().all(|account| account.late + account.expired == 0));
}

#[test]
fn a_batch_that_is_told_to_stop_gives_no_result_that_lacks_something() {
    let plan = planned_for(&job(), Engine::Batch);
    let (read, is_read) = channel();
    let mut all = Some(batch(&plan, &mixed(4, 300)));
    let reader = std::iter::from_fn(move || {
        let next = all.take();
        if next.is_none() {
            read.send(()).ok();
        }
        Some(next)
    });
    let got = Got::default();
    let parts = parts(&plan, vec![Box::new(MemorySource::new(reader, None))], vec![got.sink()]);
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        is_read.recv().unwrap();
        node.drain();
        node.finish().await
    });
    check(&outcome);
    assert!(got.totals(&plan).is_empty());
    assert!(outcome.incomplete_windows()[0] > 0);
}

#[test]
fn a_cycle_of_records_decides_what_a_pane_holds_at_every_level() {
    // Two sources, ten records each to a cycle, all in one window; the second has fewer.
    let one = |count| vec![(3, 1, 1, 1); count];
    for shards in [1, 3] {
        let plan = planned_for(&job(), micro(10));
        let seen = Seen::default();
        let sources = vec![source(&plan, &one(35), 5), source(&plan, &one(12), 2)];
        let mut parts = parts(&plan, sources, vec![seen.sink(|| ())]);
        parts.shards = shards;
        for source in &mut parts.sources {
            source.watermark = bounded(1_000).into();
        }
        let outcome = run(parts);
        check(&outcome);
        for stage in ["fine", "by_a", "by_b", "all"] {
            let panes = seen.panes(&plan, stage);
            let sums: Vec<_> = panes.iter().map(|(meta, sum)| (meta.index, *sum)).collect();
            // 10 + 10, 10 + 2, 10, and at the end 5.
            assert_eq!(sums, [(0, 20), (1, 32), (2, 42), (3, 47)], "{stage}, {shards} shards");
            let timings: Vec<_> = panes.iter().map(|(meta, _)| meta.timing).collect();
            assert_eq!(timings, [Timing::Early, Timing::Early, Timing::Early, Timing::OnTime]);
        }
    }
}

#[test]
fn records_of_a_cycle_are_judged_by_the_watermark_of_the_cycle_before() {
    let mut job = job();
    for grouping in &mut job.groupings {
        grouping.allowed_lateness = Span::ZERO;
    }
    // In each cycle one record is behind another; the fifth is of a window that has gone.
    let times = [1, 15, 2, 16, 3, 17];
    let records: Vec<Record> = (0..).zip(times).map(|(n, time)| (time, 1, 1, 1 << n)).collect();
    for (engine, expired, first) in [(micro(3), 1, 1 + 4), (Engine::Batch, 0, 1 + 4 + 16)] {
        let plan = planned_for(&job, engine);
        let got = Got::default();
        let outcome = run(parts(&plan, vec![source(&plan, &records, 1)], vec![got.sink()]));
        check(&outcome);
        let fine = plan.stage("fine").unwrap().id.index();
        assert_eq!(outcome.stages()[fine].expired, expired, "{engine:?}");
        let totals = got.totals(&plan);
        for (start, total) in [(0, first), (10, 2 + 8 + 32)] {
            assert_eq!(totals.get(&("all".into(), vec![], start)), Some(&total), "{engine:?}");
        }
    }
}

#[test]
fn a_drain_ends_the_last_cycle() {
    let plan = planned_for(&job(), micro(1_000_000));
    let records = mixed(5, 200);
    let (silent, is_silent) = channel();
    let mut all = Some(batch(&plan, &records));
    let reader = std::iter::from_fn(move || {
        let next = all.take();
        if next.is_none() {
            silent.send(()).ok();
        }
        Some(next)
    });
    let got = Got::default();
    let parts = parts(&plan, vec![Box::new(MemorySource::new(reader, None))], vec![got.sink()]);
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        is_silent.recv().unwrap();
        node.drain();
        node.finish().await
    });
    check(&outcome);
    // What is there is told, early where the watermark has not come so far.
    assert!(got.totals(&plan) == expected(&records));
    assert!(!outcome.sources[0].is_finished);
    assert_ne!(outcome.watermark(), Some(Watermark::MAX));
}

#[test]
fn a_silent_source_holds_no_cycle_once_it_is_idle() {
    let plan = planned_for(&job(), micro(4));
    let (_quiet_end, quiet) = channel();
    let (_lively_end, lively) = channel();
    let (seen, (emitted, panes)) = (Seen::default(), channel());
    let sink = seen.sink(move || _ = emitted.send(()));
    let records = [(3, 1, 1, 1); 6];
    let sources = vec![lingering(&plan, &records, lively), lingering(&plan, &[], quiet)];
    let mut parts = parts(&plan, sources, vec![sink]);
    let idle_after = Some(Span::from_millis(1));
    for source in &mut parts.sources {
        source.watermark = WatermarkSettings { idle_after, ..bounded(0) }.into();
    }
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        // Four levels in each of two cycles: four records, then two and silence.
        for _ in 0..8 {
            panes.recv_timeout(Duration::from_secs(30)).expect("no pane");
        }
        node.drain();
        node.finish().await
    });
    check(&outcome);
    let sums: Vec<_> = seen.panes(&plan, "all").iter().map(|(_, sum)| *sum).collect();
    assert_eq!(sums, [4, 6]);
    assert_eq!(outcome.watermark(), Some(Watermark(EventTime::from_millis(3))));
}

#[test]
fn a_source_by_arrival_is_told_the_time_in_every_engine() {
    for engine in [Engine::Streaming, micro(10), Engine::Batch] {
        let plan = planned_for(&job(), engine);
        let got = Got::default();
        let mut parts = parts(&plan, vec![source(&plan, &[(1, 1, 1, 1); 25], 5)], vec![got.sink()]);
        parts.sources[0].watermark = WatermarkSettings::new(WatermarkSpec::Ingestion).into();
        let outcome = run(parts);
        check(&outcome);
        let totals = got.totals(&plan);
        let all = totals.iter().filter(|(place, _)| place.0 == "all").map(|(_, sum)| *sum);
        assert_eq!(all.sum::<i128>(), 25, "{engine:?}");
    }
}

/// A batch whose sum overflows with its second record, for the keys `keys`.
fn overflowing(plan: &Arc<Plan>, keys: &[u32]) -> RowBatch {
    let records: Vec<_> = keys.iter().map(|key| (0, *key, *key, 0)).collect();
    let mut batch = batch(plan, &records);
    let slot = plan.row.slot("v").unwrap();
    for index in 0..keys.len() {
        batch.row_mut(index).set(slot, Datum::Int(i128::MAX));
    }
    batch
}

#[test]
fn a_shard_that_fails_in_a_cycle_ends_the_run_and_nobody_waits_for_it() {
    let mut job = job();
    job.fields[2].ty = Type::Big;
    let plan = planned_for(&job, micro(8));
    // Each key overflows by itself with its records; or only all keys together do, at the end of
    // a cycle, in stages that are exchanged.
    let cases: [(&[u32], &str); 2] = [(&[1, 1], "fine"), (&[1, 2, 3, 4, 5, 6, 7, 8], "all")];
    for (keys, stage) in cases {
        for shards in [1, 2, 5] {
            let huge = overflowing(&plan, keys);
            let (seen, layout) = (Arc::new(Mutex::new(0)), plan.clone());
            let polled = seen.clone();
            // Then it goes on for ever: only the failure ends the run.
            let endless = std::iter::once(huge).chain(std::iter::repeat_with(move || {
                *polled.lock().unwrap() += 1;
                batch(&layout, &[(5, 9, 9, 1)])
            }));
            let reader = Box::new(MemorySource::new(endless.map(Some), None));
            let mut parts = parts(&plan, vec![reader], vec![Got::default().sink()]);
            parts.shards = shards;
            let outcome = run(parts);
            let [Failure::Stage { error, .. }, ..] = &*outcome.failures else {
                panic!("{:?}", outcome.failures)
            };
            let told = format!("stage `{stage}`");
            assert!(error.to_string().starts_with(&told), "{shards} shards: {error}");
            assert_eq!(outcome.shards.len(), shards, "every shard has come to its end");
            assert_eq!(outcome.sinks.len(), 1);
        }
    }
}
