//! Watermarks through real actors: sources in step, idle ones, times too far ahead, arrival.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod kit;

use kit::{
    Got, Record, batch, bounded, check, expected, in_system, job, parts, planned, run, source,
};
use nilometer_actors::node::{Node, Outcome, Parts, SinkPart};
use nilometer_connectors::memory::MemorySource;
use nilometer_connectors::source::Source;
use nilometer_model::pane::Timing;
use nilometer_model::plan::Plan;
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::trigger::Trigger;
use nilometer_model::watermark::{
    AllIdle, Clamped, FutureSkew, PartitionState, Percentile, ProgressRules, Standing,
    WatermarkSettings, WatermarkSpec,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

const fn span(millis: i64) -> Span {
    Span::from_millis(millis)
}

fn estimate(parts: &mut Parts, settings: WatermarkSettings) {
    for source in &mut parts.sources {
        source.watermark = settings.into();
    }
}

/// Copies that came late or too late, over all stages.
fn late(outcome: &Outcome) -> u64 {
    outcome.stages().iter().map(|account| account.late + account.expired).sum()
}

/// Waits for about as long as a reader may; `false` once the other end is let go.
fn is_held(end: &Receiver<()>) -> bool {
    end.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout)
}

/// What a sink keeps, the sink, and the timings of its panes as they come.
fn telling() -> (Got, SinkPart, Receiver<Timing>) {
    let (emitted, panes) = channel();
    let got = Got::default();
    let keep = got.clone();
    let sink = kit::sink(move |panes| {
        keep.push(panes);
        panes.panes.iter().for_each(|pane| _ = emitted.send(pane.timing));
        Ok(())
    });
    (got, sink, panes)
}

/// Runs until so many panes have come, then drains: their timings.
fn run_until(parts: Parts, panes: &Receiver<Timing>, count: usize) -> (Outcome, Vec<Timing>) {
    in_system(async {
        let node = Node::start(parts).unwrap();
        let next = |_| panes.recv_timeout(Duration::from_secs(30)).unwrap();
        let timings = (0..count).map(next).collect();
        node.drain();
        (node.finish().await, timings)
    })
}

/// What each of several sources has read last: its event time; `None` before its first and behind
/// its last record.
type Heads = Arc<Mutex<Vec<Option<i64>>>>;

/// A source of one record at a time, which tells where it stands, and checks where the others do
/// when what it read last has been handed on.
fn in_step(
    plan: &Arc<Plan>,
    (number, times): (usize, Vec<i64>),
    (heads, max_drift): (Heads, i64),
) -> Box<dyn Source> {
    let (plan, total) = (plan.clone(), times.len() as u64);
    let mut times = times.into_iter();
    let records = std::iter::from_fn(move || {
        let mut heads = heads.lock().unwrap();
        if let Some(handed_on) = heads[number] {
            let behind = heads.iter().flatten().min().unwrap();
            assert!(handed_on <= behind + max_drift, "{number} handed on {handed_on}: {heads:?}");
        }
        let next = times.next();
        heads[number] = next;
        next.map(|time| Some(batch(&plan, &[(time, 1, 1, 1)])))
    });
    Box::new(MemorySource::new(records, Some(total)))
}

#[test]
fn no_source_runs_ahead_of_one_that_has_something_to_read() {
    let plan = planned(&job());
    for max_drift in [0, 7, 1_000_000] {
        let inputs: Vec<Vec<i64>> = vec![
            (0..400).collect(),
            (0..100).map(|n| n * 5).collect(),
            (300..500).collect(),
            vec![],
        ];
        let heads = Heads::default();
        heads.lock().unwrap().resize(inputs.len(), None);
        // Nobody reads before all are heard, so all stand somewhere when the first goes.
        let sources = inputs.iter().cloned().enumerate();
        let sources = sources.map(|input| in_step(&plan, input, (heads.clone(), max_drift)));
        let got = Got::default();
        let mut parts = parts(&plan, sources.collect(), vec![got.sink()]);
        parts.progress.max_drift = Some(span(max_drift));
        let outcome = run(parts);
        check(&outcome);
        let all: Vec<Record> = inputs.iter().flatten().map(|time| (*time, 1, 1, 1)).collect();
        assert!(got.totals(&plan) == expected(&all), "drift {max_drift}");
        assert_eq!(late(&outcome), 0, "in order, and each promises for itself");
        assert_eq!(outcome.watermark(), Some(Watermark::MAX));
    }
}

/// A source that gives `records`, is then at its end until it is let go, and says that it was
/// dropped.
fn lingering(plan: &Arc<Plan>, records: &[Record], end: Receiver<()>) -> Box<dyn Source> {
    let mut first = Some(batch(plan, records));
    let records = std::iter::from_fn(move || {
        first.take().map(Some).or_else(|| is_held(&end).then_some(None))
    });
    Box::new(MemorySource::new(records, None))
}

/// A source of `records` one by one, which lets go of `others` when it has none left.
fn releasing(plan: &Arc<Plan>, records: Vec<Record>, others: Sender<()>) -> Box<dyn Source> {
    let (plan, mut records) = (plan.clone(), records.into_iter());
    let mut others = Some(others);
    let records = std::iter::from_fn(move || {
        let next = records.next();
        if next.is_none() {
            drop(others.take());
        }
        next.map(|record| Some(batch(&plan, &[record])))
    });
    Box::new(MemorySource::new(records, None))
}

#[test]
fn nobody_waits_for_a_source_at_its_end_whether_it_is_idle_or_not() {
    let plan = planned(&job());
    for idle_after in [None, Some(span(1)), Some(span(250))] {
        // The first stands at its end, far behind, until the second has read everything: if that
        // waited for it, nobody would ever go on.
        let (release, end) = channel();
        let ahead: Vec<Record> = (0..50).map(|n| (1_000 + n * 100, 1, 1, 1)).collect();
        let sources =
            vec![lingering(&plan, &[(0, 1, 1, 1)], end), releasing(&plan, ahead.clone(), release)];
        let got = Got::default();
        let mut parts = parts(&plan, sources, vec![got.sink()]);
        parts.progress.max_drift = Some(span(10));
        estimate(&mut parts, WatermarkSettings { idle_after, ..bounded(0) });
        let outcome = run(parts);
        check(&outcome);
        let all: Vec<_> = ahead.into_iter().chain([(0, 1, 1, 1)]).collect();
        assert!(got.totals(&plan) == expected(&all), "{idle_after:?}");
        assert_eq!(outcome.records().read, 51);
    }
}

#[test]
fn what_waits_for_its_turn_passes_in_a_drain() {
    let plan = planned(&job());
    // The first has more to read for ever and comes nowhere; the second waits for it.
    let (plan_of_first, (told, is_told)) = (plan.clone(), channel());
    let mut count = 0;
    let first = std::iter::from_fn(move || {
        count += 1;
        if count == 100 {
            told.send(()).unwrap();
        }
        Some(Some(batch(&plan_of_first, &[(0, 1, 1, 1)])))
    });
    let second = source(&plan, &[(1_000, 2, 2, 7), (2_000, 2, 2, 7)], 1);
    let sources: Vec<Box<dyn Source>> = vec![Box::new(MemorySource::new(first, None)), second];
    let got = Got::default();
    let mut parts = parts(&plan, sources, vec![got.sink()]);
    parts.progress.max_drift = Some(span(999));
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        is_told.recv().unwrap();
        node.drain();
        node.finish().await
    });
    check(&outcome);
    let second = outcome.sources.iter().find(|source| &*source.name == "s1").unwrap();
    assert_eq!((second.account.read, second.account.accepted), (1, 1), "one was in hand");
    let standing = outcome.standing.unwrap();
    assert_eq!(standing.holder.map(|holder| holder.partition), Some(0));
    assert_eq!(standing.watermark, Watermark(EventTime::from_millis(0)));
}

#[test]
fn a_partition_that_jumps_ten_years_ahead_makes_nobody_late() {
    let plan = planned(&job());
    let decade = 315_360_000_000;
    for clamped in [Clamped::Keep, Clamped::Reject] {
        for (drift, size) in [(None, 1), (None, 20), (Some(5), 1), (Some(5), 20)] {
            let steady: Vec<Record> = (0..100).map(|n| (n, 1, 1, 1)).collect();
            let mut jumping: Vec<Record> = (0..200).map(|n| (n, 2, 2, 1)).collect();
            jumping.insert(1, (decade, 2, 2, 5));
            let sources = vec![source(&plan, &steady, size), source(&plan, &jumping, size)];
            let got = Got::default();
            let mut parts = parts(&plan, sources, vec![got.sink()]);
            parts.progress.max_drift = drift.map(span);
            let future_skew = FutureSkew::Others(span(1_000));
            estimate(&mut parts, WatermarkSettings { future_skew, clamped, ..bounded(0) });
            let outcome = run(parts);
            check(&outcome);
            assert_eq!(late(&outcome), 0, "{clamped:?} {drift:?} {size}");
            let records = outcome.records();
            assert_eq!(records.marks.get("clamped"), 1);
            let rejected = u64::from(clamped == Clamped::Reject);
            assert_eq!(records.malformed.get("too_far_ahead"), rejected);
            let mut all = [steady, jumping].concat();
            all.retain(|record| rejected == 0 || record.0 < decade);
            assert!(got.totals(&plan) == expected(&all), "{clamped:?} {drift:?} {size}");
        }
    }
}

#[test]
fn without_a_limit_a_jump_makes_what_follows_late() {
    // The counterpart: the test above can fail.
    let plan = planned(&job());
    let jumping: Vec<Record> = vec![(0, 1, 1, 1), (315_360_000_000, 1, 1, 1), (1, 1, 1, 1)];
    let mut parts = parts(&plan, vec![source(&plan, &jumping, 1)], vec![Got::default().sink()]);
    // In step, so that the last record is handed on behind the watermark of the one before.
    parts.progress.max_drift = Some(span(1));
    let outcome = run(parts);
    check(&outcome);
    assert_eq!(late(&outcome), 1);
}

#[test]
fn records_that_take_the_time_of_their_arrival_are_never_late_and_need_no_successor() {
    let plan = planned(&job());
    // Their own times are all over the place.
    let records: Vec<Record> = vec![(i64::MAX, 1, 1, 1), (0, 1, 1, 1), (-5, 1, 1, 1)];
    let (_end, held) = channel();
    let (emitted, panes) = channel();
    let sink = kit::sink(move |panes| {
        let windows = panes.panes.iter().map(|pane| pane.window.start().as_millis());
        windows.for_each(|start| _ = emitted.send(start));
        Ok(())
    });
    let mut parts = parts(&plan, vec![lingering(&plan, &records, held)], vec![sink]);
    estimate(&mut parts, WatermarkSettings::new(WatermarkSpec::Ingestion));
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        // Windows of 10 ms: the clock alone completes them.
        let start = panes.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(start > 1_700_000_000_000, "{start}");
        node.drain();
        node.finish().await
    });
    check(&outcome);
    assert_eq!(late(&outcome), 0);
    assert_eq!(outcome.incomplete_windows().iter().sum::<usize>(), 0);
}

#[test]
fn while_all_are_idle_the_watermark_follows_the_clock_if_it_is_to() {
    let plan = planned(&job());
    let (_end, held) = channel();
    let (emitted, panes) = channel();
    let sink = kit::sink(move |panes| {
        emitted.send(panes.stage).ok();
        Ok(())
    });
    // Its only record lies ahead of all that its source promises.
    let mut parts = parts(&plan, vec![lingering(&plan, &[(5, 1, 1, 1)], held)], vec![sink]);
    parts.progress =
        ProgressRules { all_idle: AllIdle::Advance(span(1_000)), ..ProgressRules::default() };
    let idle_after = Some(span(1));
    estimate(&mut parts, WatermarkSettings { idle_after, ..bounded(1_000) });
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        panes.recv_timeout(Duration::from_secs(30)).unwrap();
        node.drain();
        node.finish().await
    });
    check(&outcome);
    assert_eq!(outcome.incomplete_windows().iter().sum::<usize>(), 0);
    let standing = outcome.standing.unwrap();
    assert_eq!(standing.partitions[0].state, PartitionState::Idle);
    assert_eq!(standing.holder, None);
}

#[test]
fn a_second_watermark_makes_windows_fire_early_on_every_shard() {
    let half = Percentile::from_percent(50.0).unwrap();
    let early = Some(Box::new(Trigger::AfterWatermarkPercentile(half)));
    let late = Some(Box::new(Trigger::AfterCount(1)));
    let mut job = job();
    for grouping in &mut job.groupings {
        grouping.trigger = Trigger::AfterWatermark { early: early.clone(), late: late.clone() };
    }
    let plan = planned(&job);
    // Two sources, of which the second has come to 20: half of the records are complete up to there,
    // and nothing is for sure.
    let first: Vec<Record> = (0..300).map(|n| (n / 3, (n % 7) as u32, (n % 5) as u32, 1)).collect();
    let second: Vec<Record> = vec![(5, 1, 1, 1), (20, 1, 1, 1)];
    let complete = first.iter().chain(&second).copied().filter(|record| record.0 < 20);
    let wanted = expected(&complete.collect::<Vec<_>>());
    for shards in [1, 3] {
        let ((_first_end, first_held), (_second_end, second_held)) = (channel(), channel());
        let (got, sink, panes) = telling();
        let sources =
            vec![lingering(&plan, &first, first_held), lingering(&plan, &second, second_held)];
        let mut parts = parts(&plan, sources, vec![sink]);
        parts.shards = shards;
        estimate(&mut parts, bounded(1_000));
        let (outcome, timings) = run_until(parts, &panes, wanted.len());
        check(&outcome);
        assert!(timings.iter().all(|timing| *timing == Timing::Early), "{shards} shards");
        assert!(got.totals(&plan) == wanted, "{shards} shards");
    }
}

#[test]
fn windows_close_by_the_clock_once_at_every_level_also_across_shards() {
    let plan = planned(&job());
    // All in one window, none of which the watermark comes near.
    let records: Vec<Record> = (0..300).map(|n| (i64::from(n % 10), n % 7, n % 5, 1)).collect();
    let wanted = expected(&records);
    for shards in [1, 3] {
        let (_end, held) = channel();
        let (got, sink, panes) = telling();
        let mut parts = parts(&plan, vec![lingering(&plan, &records, held)], vec![sink]);
        parts.shards = shards;
        parts.progress.close_after = Some(span(1));
        estimate(&mut parts, bounded(1_000));
        let (outcome, timings) = run_until(parts, &panes, wanted.len());
        check(&outcome);
        assert!(timings.iter().all(|timing| *timing == Timing::TimedOut), "{shards} shards");
        assert!(panes.try_recv().is_err(), "each closes once");
        assert!(got.totals(&plan) == wanted, "{shards} shards");
    }
}

#[test]
fn who_holds_the_watermark_can_be_asked_while_the_node_runs() {
    let plan = planned(&job());
    let ((_ahead_end, ahead), (_behind_end, behind)) = (channel(), channel());
    let sources = vec![
        lingering(&plan, &[(500, 1, 1, 1)], ahead),
        lingering(&plan, &[(200, 1, 1, 1)], behind),
    ];
    let parts = parts(&plan, sources, vec![Got::default().sink()]);
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        let standing = loop {
            let standing = node.meters().standing();
            let at_last = |standing: &Standing| standing.watermark == Watermark(at(200));
            match standing.filter(at_last) {
                Some(standing) => break standing,
                None => tokio::task::yield_now().await,
            }
        };
        let holder = standing.holder.unwrap();
        assert_eq!((holder.partition, holder.by), (1, Some(span(300))));
        let heads: Vec<_> =
            standing.partitions.iter().map(|known| (known.head, known.lag)).collect();
        assert_eq!(heads, [(at(500), Span::ZERO), (at(200), span(300))]);
        node.drain();
        node.finish().await
    });
    check(&outcome);
}
