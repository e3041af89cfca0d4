//! What a node shows while it runs: enough to see where it is, and no more work than somebody looks at.

#[expect(dead_code, reason = "every test uses a part of the kit")]
mod kit;

use kit::{Got, batch, check, in_system, job, parts, planned};
use nilometer_actors::node::{News, Node};
use nilometer_connectors::memory::MemorySource;
use std::sync::mpsc::channel;

#[test]
fn a_source_that_its_input_keeps_shows_what_it_has_read() {
    let plan = planned(&job());
    let (reads, read) = channel();
    let (go_on, goes_on) = channel::<()>();
    let mut batches = vec![batch(&plan, &[(0, 1, 1, 1), (1, 2, 2, 2)])].into_iter();
    let source = std::iter::from_fn(move || {
        let next = batches.next();
        if next.is_none() {
            // From now on it hears nothing, ticks neither, until its input has ended.
            reads.send(()).unwrap();
            goes_on.recv().unwrap();
        }
        next.map(Some)
    });
    let sources = vec![Box::new(MemorySource::new(source, None)) as _];
    let parts = parts(&plan, sources, vec![Got::default().sink()]);
    in_system(async {
        let node = Node::start(parts).unwrap();
        let handle = node.handle();
        read.recv().unwrap();
        let figures = handle.meters().sources()[0].figures();
        assert_eq!((figures.account.read, figures.account.accepted), (2, 2));
        go_on.send(()).unwrap();
        check(&node.finish().await);
    });
}

#[test]
fn sizes_are_measured_only_where_somebody_looks() {
    for is_watched in [false, true] {
        let plan = planned(&job());
        let (go_on, goes_on) = channel();
        let mut batches = vec![batch(&plan, &[(0, 1, 1, 1), (1, 2, 2, 2)])].into_iter();
        let source = std::iter::from_fn(move || {
            if batches.len() > 0 {
                goes_on.recv().unwrap();
            }
            batches.next().map(Some)
        });
        let sources = vec![Box::new(MemorySource::new(source, None)) as _];
        let parts = parts(&plan, sources, vec![Got::default().sink()]);
        in_system(async {
            let mut node = Node::start(parts).unwrap();
            let handle = is_watched.then(|| node.handle());
            go_on.send(()).unwrap();
            while !matches!(node.news().await, News::Ended) {}
            let shards = node.meters().shards().into_iter();
            let sizes: Vec<_> = shards.map(|shard| shard.unwrap().sizes.len()).collect();
            assert_eq!(sizes, vec![if is_watched { plan.stages.len() } else { 0 }; 2]);
            drop(handle);
            check(&node.finish().await);
        });
    }
}
