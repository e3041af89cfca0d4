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

fn node(groupings: Vec<Grouping>, limits: Limits) -> ShardNode<()> {
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
    let shard = Shard::new(plan, symbols, 0, 1);
    let closing = Closing::new(1, 0);
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
        // The general machine: a key fires all of its windows at once.
        (
            vec![Grouping { window: sliding, trigger: second, allow_closing: true, ..coarse() }],
            100,
            31,
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
