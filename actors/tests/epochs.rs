//! Epochs through real actors, over a store in memory that fails or is lost when the test says so:
//! whatever becomes of a run, the next one goes on behind the last epoch, and each record counts
//! once in what sinks have published.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[expect(dead_code, reason = "every test uses a part of the kit")]
mod kit;

use actix::System;
use kit::{Record, Totals, expected, job};
use nilometer_actors::checkpoint::{Changes, Checkpoint, Shape, outbox_block};
use nilometer_actors::node::{Node, Outcome, Parts, SinkPart, StatePart};
use nilometer_actors::report::Failure;
use nilometer_connectors::memory::MemorySource;
use nilometer_connectors::panes::{Delivery, PaneFormat, PaneTarget, PaneWriter};
use nilometer_connectors::sink::{Held, Receipt, Sink, SinkError, Writer};
use nilometer_connectors::source::Source;
use nilometer_connectors::store::memory::Disk;
use nilometer_connectors::store::{Store, StoreError};
use nilometer_model::epoch::{Bounds, Epoch};
use nilometer_model::invariant::{EPOCH_1, EPOCH_2, POS_1};
use nilometer_model::pane::PaneBatch;
use nilometer_model::plan::Plan;
use nilometer_model::planner::plan;
use nilometer_model::row::RowBatch;
use nilometer_model::time::Span;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Of everything as little as can be.
const TIGHT: Bounds = Bounds { epoch_bytes_max: 1, unpublished_bytes_max: 0, block_bytes: 1 };

/// A job, its records in two sources, a disk for its state, and a file for its panes.
struct World {
    plan: Arc<Plan>,
    records: [Vec<Record>; 2],
    disk: Disk,
    directory: tempfile::TempDir,
    is_in_step: bool,
    bounds: Bounds,
    interval: Span,
}

impl World {
    fn new(count: i64) -> Self {
        let of = |source: i64| {
            let one = |number: i64| {
                let key = number as u32;
                (number * 3 + source, key % 7, key % 5, number)
            };
            (0..count).map(one).collect()
        };
        Self {
            plan: Arc::new(plan(&job()).unwrap()),
            records: [of(0), of(1)],
            disk: Disk::default(),
            directory: tempfile::tempdir().unwrap(),
            is_in_step: false,
            bounds: Bounds::default(),
            interval: Span::from_millis(1),
        }
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    fn source(&self, source: usize) -> Box<dyn Source> {
        let batches: Vec<_> = self.records[source]
            .chunks(10)
            .map(|records| kit::batch(&self.plan, records))
            .collect::<Vec<RowBatch>>();
        Box::new(MemorySource::new(batches.into_iter().map(Some), None).repeatable())
    }

    /// Starts a node behind the last epoch, as a host does.
    fn start(&self) -> Node {
        Node::start(self.parts()).unwrap()
    }

    fn parts(&self) -> Parts {
        let store = self.disk.open().unwrap();
        let names: [Arc<str>; 2] = ["s0".into(), "s1".into()];
        let sinks: [Arc<str>; 1] = ["out".into()];
        let changes = Changes::default();
        let shape = Shape { sources: &names, sinks: &sinks, changes: &changes };
        let checkpoint = Checkpoint::load(&store, shape).unwrap();
        let mut sources = vec![self.source(0), self.source(1)];
        let mut delivery = Delivery::Held;
        if let Some(checkpoint) = &checkpoint {
            for (source, cut) in sources.iter_mut().zip(&checkpoint.sources) {
                let cut = cut.as_ref().unwrap();
                assert!(cut.is_exact);
                source.resume(&cut.position).unwrap();
            }
            delivery = Delivery::Resumed { behind: checkpoint.sinks[0].as_ref().unwrap().begins };
        }
        let parts = kit::parts(&self.plan, sources, Vec::new());
        let target = (&PaneTarget::File(self.out()), PaneFormat::Pane);
        let (plan, symbols) = (self.plan.clone(), parts.symbols.clone());
        let mut writer = PaneWriter::open("out", target, delivery, plan, symbols).unwrap();
        if let Some(checkpoint) = &checkpoint {
            for number in checkpoint.sinks[0].as_ref().unwrap().missing() {
                let block = outbox_block(&store, "out", number).unwrap();
                assert_eq!(writer.publish(&block, true).unwrap(), Receipt::Taken);
            }
        }
        let mut parts = Parts {
            sinks: vec![SinkPart { name: "out".into(), writer: Writer::Panes(Box::new(writer)) }],
            state: Some(StatePart {
                memory: None,
                store: Box::new(store),
                interval: self.interval,
                bounds: self.bounds,
                host: b"host".to_vec(),
                checkpoint,
            }),
            ..parts
        };
        // Others than before, mostly.
        let last = parts.state.as_ref().and_then(|state| state.checkpoint.as_ref());
        parts.shards = last.map_or(2, |last| 1 + last.epoch.number() as usize % 3);
        parts.limits.batch_records = 10;
        if self.bounds == TIGHT {
            parts.limits.slice_panes = 2;
            parts.limits.output_bytes_max = 0;
        }
        if self.is_in_step {
            parts.progress.max_drift = Some(Span::from_millis(5));
        }
        parts
    }

    /// Runs a node to its end.
    fn run(&self) -> Outcome {
        System::new().block_on(async { self.start().finish().await })
    }

    fn last(&self) -> Epoch {
        self.disk.open().unwrap().last()
    }

    /// The sums that were published, each as it came last.
    fn totals(&self) -> Totals {
        let mut totals = Totals::new();
        let mut seen = std::collections::BTreeSet::new();
        for line in std::fs::read_to_string(self.out()).unwrap().lines() {
            let (identity, _) = line.split_once(",\"event_time\"").unwrap();
            assert!(seen.insert(identity.to_owned()), "twice: {line}");
            let between = |from: &str, to: &str| {
                let (_, rest) = line.split_once(from).unwrap();
                rest.split_once(to).unwrap().0.to_owned()
            };
            let key = between("\"key\":{", "}");
            let key = key.split(',').filter_map(|member| member.split_once(':'));
            let key = key.map(|(_, value)| value.parse().unwrap()).collect();
            let start = between("\"start\":", ",").parse().unwrap();
            let sum = between("\"sum\":", "}").parse().unwrap();
            totals.insert((between("\"stage\":\"", "\""), key, start), sum);
        }
        totals
    }

    fn check(&self, when: &str) {
        let all: Vec<_> = self.records.concat();
        assert!(self.totals() == expected(&all), "{POS_1} {when}");
    }
}

#[test]
fn a_run_with_a_state_publishes_what_it_has_stored() {
    for (bounds, count) in [(Bounds::default(), 3_000), (TIGHT, 400)] {
        let world = World { bounds, ..World::new(count) };
        let outcome = world.run();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        let store = outcome.store.unwrap();
        assert!(store.epochs > 0 && outcome.shards.iter().all(|shard| shard.pause_max.is_some()));
        assert_eq!(world.last().number(), store.epochs, "{EPOCH_1}");
        world.check("at once");
        // Everything is done: another run finds nothing to do, and changes nothing.
        let outcome = world.run();
        assert_eq!(outcome.records().accepted, 2 * count as u64, "accounts go on");
        assert!(outcome.is_empty());
        world.check("again");
    }
}

/// An epoch may hold one batch of each source: each waits for the next, which begins at once.
#[test]
fn a_source_that_has_filled_an_epoch_waits_for_the_next() {
    let world = World { bounds: TIGHT, interval: Span::from_millis(i64::MAX), ..World::new(200) };
    let outcome = world.run();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert!(outcome.store.unwrap().epochs >= 20, "as many as a source has batches");
    world.check("without a clock");
}

/// A sink that hangs when it publishes first, until it is let go.
struct Hanging {
    sink: Box<dyn Sink>,
    hangs: Sender<()>,
    let_go: Option<Receiver<()>>,
}

impl Sink for Hanging {
    fn write(&mut self, batch: &PaneBatch) -> Result<(), SinkError> {
        self.sink.write(batch)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.sink.close()
    }

    fn take(&mut self, least: usize) -> Option<Held> {
        self.sink.take(least)
    }

    fn publish(&mut self, block: &[u8], is_last: bool) -> Result<Receipt, SinkError> {
        if let Some(let_go) = self.let_go.take() {
            self.hangs.send(()).unwrap();
            let_go.recv().unwrap();
        }
        self.sink.publish(block, is_last)
    }
}

/// Nobody reads an output: what is read, and what waits, is as much as two epochs may hold.
#[test]
fn a_sink_that_hangs_stops_the_sources_until_it_is_let_go() {
    let world = World {
        // Some ten batches of records, and some tens of panes.
        bounds: Bounds { epoch_bytes_max: 4_000, unpublished_bytes_max: 5_000, block_bytes: 500 },
        ..World::new(3_000)
    };
    let mut parts = world.parts();
    let (hangs, has_hung) = channel();
    let (release, let_go) = channel();
    let mut part = parts.sinks.remove(0);
    let Writer::Panes(sink) = part.writer else { panic!("a sink of panes") };
    part.writer = Writer::Panes(Box::new(Hanging { sink, hangs, let_go: Some(let_go) }));
    parts.sinks.push(part);
    let (polled, polls) = channel();
    for (source, part) in parts.sources.iter_mut().enumerate() {
        let (plan, polled) = (world.plan.clone(), polled.clone());
        let batches: Vec<Vec<Record>> =
            world.records[source].chunks(10).map(<[_]>::to_vec).collect();
        let batches = batches.into_iter().map(move |records| {
            polled.send(()).unwrap();
            Some(kit::batch(&plan, &records))
        });
        part.reader = Box::new(MemorySource::new(batches, None));
    }
    let outcome = System::new().block_on(async {
        let node = Node::start(parts).unwrap();
        has_hung.recv_timeout(Duration::from_secs(60)).unwrap();
        let mut count = 0;
        while polls.recv_timeout(Duration::from_millis(400)).is_ok() {
            count += 1;
        }
        assert!(count < 100, "{count} of 600 batches are read");
        release.send(()).unwrap();
        node.finish().await
    });
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    world.check("after it was let go");
}

/// The disk fills up at any point; what is on it then is gone on with.
#[test]
fn a_disk_that_is_full_loses_nothing() {
    for bounds in [Bounds::default(), TIGHT] {
        let world = World { bounds, ..World::new(if bounds == TIGHT { 400 } else { 2_000 }) };
        check_full_disk(&world);
    }
}

fn check_full_disk(world: &World) {
    let mut failed = 0;
    for operations in [0, 1, 5, 13, 14, 15, 29, 30, 60] {
        world.disk.fail_after(None);
        let before = world.last();
        world.disk.fail_after(Some(operations));
        let outcome = world.run();
        match outcome.failures.first() {
            Some(Failure::Store(StoreError::Full { .. })) => failed += 1,
            Some(other) => panic!("{other}"),
            None => break,
        }
        world.disk.crash();
        world.disk.fail_after(None);
        assert!(world.last() >= before, "{EPOCH_2}");
    }
    assert!(failed > 2);
    world.disk.fail_after(None);
    assert!(world.run().failures.is_empty());
    world.check("after the disk was full");
}

/// A node is stopped after so many pieces of news, and its threads with it; another goes on.
#[test]
fn a_node_that_is_drained_goes_on() {
    for is_in_step in [false, true] {
        let world = World { is_in_step, ..World::new(2_000) };
        for _ in 0..3 {
            let outcome = System::new().block_on(async {
                let node = world.start();
                node.drain();
                node.finish().await
            });
            assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        }
        assert!(world.run().failures.is_empty());
        world.check("after drains");
    }
}
