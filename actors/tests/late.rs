//! Copies that come late or too late reach the output that asks for them, each once and with its
//! record, and wait there like everything else: a slow one stops the sources.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod kit;

use kit::{Got, Record, batch, check, expected, in_system, job, parts, planned, run};
use nilometer_actors::credit::Limits;
use nilometer_actors::node::{Node, SinkPart};
use nilometer_connectors::memory::{MemorySink, MemorySource};
use nilometer_connectors::sink::Writer;
use nilometer_model::late::LateBatch;
use nilometer_model::plan::{LateSpec, Plan};
use nilometer_model::row::{RowBatch, read};
use nilometer_model::time::Span;
use nilometer_model::value::Datum;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The job of the kit with little lateness, its late copies asked for at two levels.
fn plan() -> Arc<Plan> {
    let mut job = job();
    for grouping in &mut job.groupings {
        grouping.allowed_lateness = Span::from_millis(5);
    }
    let ask = |sink: &str, include_late| Some(LateSpec { sink: sink.into(), include_late });
    job.groupings[0].late = ask("all_late", true);
    job.groupings[2].late = ask("dropped", false);
    planned(&job)
}

/// What a late sink is told, as (reason, key a, start of the window, watermark, offset, value).
type Told = (&'static str, i128, i64, i64, u64, i128);

fn read_late(plan: &Plan, late: &LateBatch) -> Vec<Told> {
    let stage = &plan.stages[late.stage.index()];
    assert_eq!(&*stage.name, "fine");
    let int = |datum| match datum {
        Datum::Int(number) => number,
        other => panic!("{other:?}"),
    };
    let value = plan.row.slot("v").unwrap();
    let told = late.iter().map(|copy| {
        let (key, value) = (int(stage.key.read(copy.key, 0)), int(read(copy.row, value)));
        let (start, watermark) = (copy.window.start().as_millis(), late.watermark.0.as_millis());
        (copy.reason.name(), key, start, watermark, copy.position.offset, value)
    });
    told.collect()
}

fn late_sink(name: &str, plan: &Arc<Plan>, told: &Arc<Mutex<Vec<Told>>>) -> SinkPart {
    let (plan, told) = (plan.clone(), told.clone());
    let sink = MemorySink::of_late(move |late| {
        told.lock().unwrap().extend(read_late(&plan, late));
        Ok(())
    });
    SinkPart { name: name.into(), writer: Writer::Late(Box::new(sink)) }
}

/// Batches, the second and later ones once `first_done` has heard of so many panes: by then every
/// shard has handled the watermark of the first.
fn once_fired(
    mut batches: impl Iterator<Item = RowBatch> + Send + 'static,
    (first_done, mut panes): (Receiver<usize>, usize),
) -> impl Iterator<Item = Option<RowBatch>> + Send + 'static {
    let mut is_first = true;
    std::iter::from_fn(move || {
        if std::mem::take(&mut is_first) {
            return batches.next().map(Some);
        }
        while panes > 0 {
            let Ok(fired) = first_done.recv_timeout(Duration::from_millis(5)) else {
                return Some(None);
            };
            panes = panes.saturating_sub(fired);
        }
        batches.next().map(Some)
    })
}

/// One record of every key in [0,10), and one that completes that window and expires it.
fn first(keys: u32) -> Vec<Record> {
    (0..keys).map(|a| (1, a, 0, 1)).chain([(100, 0, 0, 1)]).collect()
}

#[test]
fn every_late_copy_is_told_once_with_its_record_and_the_watermark() {
    let plan = plan();
    for shards in [1, 3] {
        let (emitted, fired) = channel();
        let got = Got::default();
        let kept = got.clone();
        let panes = kit::sink(move |panes| {
            kept.push(panes);
            if panes.stage.index() == 0 {
                emitted.send(panes.panes.len()).ok();
            }
            Ok(())
        });
        let second: Vec<Record> =
            vec![(3, 7, 1, 70), (98, 2, 1, 20), (120, 3, 1, 30), (-5, 7, 1, 71), (99, 7, 1, 72)];
        let batches = [&first(20), &second].map(|records| batch(&plan, records));
        let (all_late, dropped) = (Arc::default(), Arc::default());
        let sinks = vec![
            panes,
            late_sink("all_late", &plan, &all_late),
            late_sink("dropped", &plan, &dropped),
        ];
        let source = once_fired(batches.into_iter(), (fired, 20));
        let mut parts = parts(&plan, vec![Box::new(MemorySource::new(source, None))], sinks);
        parts.shards = shards;
        let outcome = run(parts);
        check(&outcome);
        let all: Vec<Told> = vec![
            ("expired", 7, -10, 100, 3, 71),
            ("expired", 7, 0, 100, 0, 70),
            ("late", 2, 90, 100, 1, 20),
            ("late", 7, 90, 100, 4, 72),
        ];
        let sorted = |told: &Mutex<Vec<Told>>| {
            let mut told = told.lock().unwrap().clone();
            told.sort_unstable();
            told
        };
        assert_eq!(sorted(&all_late), all, "{shards} shards");
        assert_eq!(sorted(&dropped), all[..2], "{shards} shards");
        let counted: Vec<_> =
            first(20).into_iter().chain(second.into_iter().filter(|r| r.0 > 90)).collect();
        assert!(got.totals(&plan) == expected(&counted), "{shards} shards");
        let account = &outcome.stages()[0];
        assert_eq!((account.expired, account.late), (2, 2));
        let late_of = |name: &str| {
            let report = outcome.sinks.iter().find(|sink| &*sink.name == name);
            report.map(|report| (report.late, report.panes))
        };
        assert_eq!(late_of("all_late"), Some((4, 0)));
        assert_eq!(late_of("dropped"), Some((2, 0)));
    }
}

#[test]
fn a_late_output_that_blocks_stops_the_source() {
    let plan = plan();
    let (emitted, fired) = channel();
    let panes = kit::sink(move |panes| {
        emitted.send(panes.panes.len()).ok();
        Ok(())
    });
    let (release, released) = channel::<()>();
    let (told, hears) = channel();
    let blocked = MemorySink::of_late(move |late: &LateBatch| {
        told.send(late.len()).ok();
        // Stands until the test lets it go, and then for nothing more.
        released.recv().ok();
        Ok(())
    });
    let (polled, polls) = channel();
    let layout = plan.clone();
    let batches = (0..).map(move |number: u32| {
        polled.send(number).ok();
        // The first batch fires; of all others everything has expired.
        let expired: Vec<Record> = (0..10).map(|n| (2, n, 0, 1)).collect();
        batch(&layout, &if number == 0 { first(1) } else { expired })
    });
    let source = once_fired(batches, (fired, 1));
    let sinks = vec![
        panes,
        SinkPart { name: "all_late".into(), writer: Writer::Late(Box::new(blocked)) },
        late_sink("dropped", &plan, &Arc::default()),
    ];
    let mut parts = parts(&plan, vec![Box::new(MemorySource::new(source, None))], sinks);
    parts.shards = 1;
    parts.limits = Limits { in_flight_records_max: 100, output_bytes_max: 0, ..Limits::default() };
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        assert_eq!(hears.recv_timeout(Duration::from_secs(30)), Ok(10));
        // The first batch is handled, ten of expired records are in flight; then the source stands.
        for number in 0..=10 {
            assert_eq!(polls.recv_timeout(Duration::from_secs(30)), Ok(number));
        }
        assert!(polls.recv_timeout(Duration::from_millis(300)).is_err());
        node.drain();
        drop(release);
        node.finish().await
    });
    check(&outcome);
    assert_eq!(outcome.stages()[0].expired, 100);
}

#[test]
fn an_output_is_sent_only_what_it_takes() {
    let plan = plan();
    let start = |sinks: Vec<SinkPart>| {
        let parts = parts(&plan, vec![kit::source(&plan, &[], 1)], sinks);
        in_system(async { Node::start(parts).err() }).map(|error| error.to_string())
    };
    let late = |name: &str| late_sink(name, &plan, &Arc::default());
    let panes = |name: &str| SinkPart { name: name.into(), ..Got::default().sink() };
    for (sinks, expected) in [
        (
            vec![panes("out"), late("all_late")],
            "stage `fine` has a sink `dropped` that is not defined; define it or leave it out",
        ),
        (
            vec![panes("out"), panes("all_late"), late("dropped")],
            "stage `fine` sends its late copies to sink `all_late`, which does not take them; give it a sink that does",
        ),
        (
            vec![late("out"), late("all_late"), late("dropped")],
            "stage `fine` sends its panes to sink `out`, which does not take them; give it a sink that does",
        ),
    ] {
        assert_eq!(start(sinks).as_deref(), Some(expected));
    }
}
