//! A shard of which very much is due at once, and sinks that take it bit by bit: what is on the way
//! stays within its bound, whatever table it comes of, and what has passed is told behind all of it.

use super::closing::Closing;
use super::credit::{Credit, Limits, Taker};
use super::{FromShard, Mark, Route, ShardNode, ShardParts};
use crate::pane::{AccumulationMode, PaneMeta};
use crate::plan::{Grouping, Ties, TopKSpec};
use crate::planner::plan;
use crate::row::{Position, RowBatch};
use crate::shard::Shard;
use crate::shard_tests::{grouping, job};
use crate::symbol::Symbols;
use crate::time::{EventTime, Span, Watermark};
use crate::trigger::Trigger;
use crate::value::Datum;
use crate::window::{Touching, WindowFn};
use std::collections::VecDeque;
use std::sync::Arc;

const SLICE: usize = 16;
/// Bytes that may be in front of the sink before it is waited for: some tens of panes.
const BYTES: usize = 4_000;

/// The only shard of a node, with records for 600 keys in front of a watermark.
fn node(groupings: Vec<Grouping>, limits: Limits) -> ShardNode<()> {
    node_of(groupings, limits, 1)
}

/// The first of so many shards.
fn node_of(groupings: Vec<Grouping>, limits: Limits, shards: usize) -> ShardNode<()> {
    let plan = Arc::new(plan(&job(groupings)).unwrap());
    let symbols = Arc::new(Symbols::default());
    let routes = plan.stages.iter().map(|_| Route { panes: vec![0], late: Vec::new() }).collect();
    let mut rows = RowBatch::new(plan.row.clone());
    for number in 0..600_u32 {
        let time = EventTime::from_millis(i64::from(number % 10));
        let mut row = rows.push(time, Position::default());
        for (field, value) in [("a", number / 60), ("b", number / 6), ("c", number), ("v", 1)] {
            if let Some(slot) = plan.row.slot(field) {
                row.set(slot, Datum::Int(i128::from(value)));
            }
        }
    }
    let shard = Shard::new(plan, symbols, 0, shards);
    let closing = Closing::new(shards, 0);
    let mut node = ShardNode::new(ShardParts { shard, closing, limits, routes });
    node.records(&rows, Credit::default(), ());
    node
}

/// What the sink gets until the shard has handled the watermark: by stage, key and window. A batch
/// has `most` panes at most, and there are `stages`.
fn drain(node: &mut ShardNode<()>, (most, stages): (usize, usize)) -> Vec<Got> {
    let (mut waiting, mut got) = (VecDeque::new(), Vec::new());
    let (mut largest, mut is_marked, mut has_passed) = (0, false, false);
    loop {
        // Behind what the records have fired.
        if !is_marked && !node.is_held() {
            node.marked(Mark::Watermark(Watermark(EventTime::from_millis(1_000))));
            is_marked = true;
        }
        for send in node.take_sends() {
            match send {
                FromShard::Panes { panes, bytes, .. } => {
                    assert!(panes.panes.len() <= most, "{} panes at a time", panes.panes.len());
                    largest = bytes.max(largest);
                    waiting.push_back((panes, bytes));
                }
                FromShard::Passed(_) => has_passed = true,
                FromShard::Returned { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let bytes: usize = waiting.iter().map(|(_, bytes)| bytes).sum();
        let is_bounded = most == usize::MAX || bytes <= BYTES + stages * largest;
        assert!(is_bounded, "{bytes} bytes are in front of the sink");
        assert_eq!(node.in_front_of_sinks(), bytes);
        let is_done = is_marked && !node.shard().is_firing();
        assert_eq!(has_passed, is_done, "passed, with {bytes} bytes to go");
        let Some((panes, bytes)) = waiting.pop_front() else { break };
        let words = panes.keys.len() / panes.panes.len();
        let keys = panes.keys.chunks(words).map(<[u64]>::to_vec);
        got.extend(panes.panes.iter().zip(keys).map(|(meta, key)| (panes.stage.0, key, *meta)));
        node.handled(Taker::Sink, bytes);
    }
    assert!(has_passed && !node.is_held());
    got.sort_by_key(|(stage, key, meta)| (*stage, key.clone(), meta.window));
    got
}

type Got = (u16, Vec<u64>, PaneMeta);

#[test]
fn what_is_in_front_of_a_sink_is_bounded_however_much_is_due() {
    let fine = || grouping("fine", &["a", "b", "c"], AccumulationMode::Retracting);
    let coarse = || grouping("coarse", &["a", "b"], AccumulationMode::Accumulating);
    let mut list = grouping("list", &["a", "b", "c"], AccumulationMode::Accumulating);
    list.top_k = Some(TopKSpec {
        k: 3,
        entity: vec!["c".into()],
        rank: vec!["sum".into()],
        require: Vec::new(),
        other: true,
        ties: Ties::Ascending,
    });
    let millis = Span::from_millis;
    let sliding = WindowFn::Sliding { size: millis(50), period: millis(2), offset: 0 };
    let touching = Touching::Merge;
    let session = WindowFn::Session { gap: millis(5), max_duration: None, touching };
    let second = Trigger::Repeat(Box::new(Trigger::AfterCount(2)));
    for (groupings, at_least, of_one_key) in [
        (vec![fine()], 600, 1),
        (vec![fine(), coarse()], 700, 1),
        (vec![fine(), list], 1_000, 4),
        (vec![Grouping { window: sliding, ..fine() }], 600 * 25, 1),
        (vec![Grouping { window: session, ..coarse() }], 100, 2),
        // The general machine: what one window gives is its pane, and the one that it takes back.
        (
            vec![Grouping { window: sliding, trigger: second, allow_closing: true, ..coarse() }],
            100,
            1,
        ),
    ] {
        let name = format!("{groupings:?}");
        let limits =
            |slice_panes| Limits { output_bytes_max: BYTES, slice_panes, ..Limits::default() };
        let bounds = (SLICE + of_one_key, groupings.len() + 1);
        let sliced = drain(&mut node(groupings.clone(), limits(SLICE)), bounds);
        let whole = drain(&mut node(groupings, limits(usize::MAX)), (usize::MAX, 1));
        assert!(sliced.len() >= at_least, "{} of {name}", sliced.len());
        assert!(sliced == whole, "{name}");
    }
}

/// A shard does not wait for others while it fires, since they may wait for it. What is then on the
/// way to them is a delta for each window that was open: no round gives more, and before it has been
/// taken no source gets the credits for more records.
#[test]
fn what_is_in_front_of_other_shards_is_bounded_by_the_open_windows() {
    let fine = grouping("fine", &["a", "b", "c"], AccumulationMode::Discarding);
    let all = grouping("all", &[], AccumulationMode::Discarding);
    let limits = Limits { output_bytes_max: BYTES, slice_panes: SLICE, ..Limits::default() };
    let mut node = node_of(vec![fine, all], limits, 2);
    // A window has two words, the key of the total none, its sum two.
    let of_one = 4 * 8;
    let mut sent = 0;
    for watermark in [1_000, 2_000, 3_000] {
        node.marked(Mark::Watermark(Watermark(EventTime::from_millis(watermark))));
        let mut in_front_of_sinks = 1;
        while in_front_of_sinks > 0 {
            for send in node.take_sends() {
                match send {
                    FromShard::Exchanged { deltas, bytes, .. } => {
                        assert!(bytes <= SLICE * of_one, "{deltas:?}");
                        sent += bytes;
                    }
                    FromShard::Panes { .. }
                    | FromShard::StageMarked(_)
                    | FromShard::Passed(_)
                    | FromShard::Returned { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            in_front_of_sinks = node.in_front_of_sinks();
            node.handled(Taker::Sink, in_front_of_sinks);
        }
        assert!(!node.is_held(), "it waits for no shard");
        assert_eq!(sent, 600 * of_one, "behind watermark {watermark}");
    }
    let mut rows = RowBatch::new(node.shard().plan.row.clone());
    rows.push(EventTime::from_millis(5_000), Position::default());
    node.records(&rows, Credit { records: 1, bytes: 8 }, ());
    let is_returned = |send: &FromShard<()>| matches!(send, FromShard::Returned { .. });
    assert!(!node.take_sends().iter().any(is_returned));
    node.handled(Taker::Shard, sent);
    assert!(node.take_sends().iter().any(is_returned));
}
