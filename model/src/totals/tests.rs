//! Totals of a small cascade: they agree, and what is wrong is found.

use super::*;
use crate::aggregate::Function;
use crate::pane::PaneMeta;
use crate::pane::{AccumulationMode, PaneKind};
use crate::plan::{AggregateSpec, Grouping};
use crate::plan::{KeyColumn, Ties, TopKSpec};
use crate::row::{Position, RowBatch};
use crate::shard::Output;
use crate::shard_tests::{Run, grouping, job};
use crate::time::Watermark;
use crate::value::Datum;

/// By a; by a and b in full; the largest c of each a; both b and c as one column, for each a.
fn groupings(mode: AccumulationMode, other: bool) -> Vec<Grouping> {
    let mut groupings = vec![
        grouping("by_a", &["a"], mode),
        grouping("by_a_b", &["a", "b"], mode),
        grouping("top_c", &["a", "c"], mode),
        grouping("each", &["a"], mode),
    ];
    groupings[2].top_k = Some(TopKSpec {
        k: 1,
        entity: vec!["c".into()],
        rank: vec!["sum".into()],
        require: Vec::new(),
        other,
        ties: Ties::Ascending,
    });
    let each = KeyColumn { name: "host".into(), each: vec!["b".into(), "c".into()] };
    groupings[3].key.push(each);
    groupings[3].aggregates[0].fields = vec!["v".into(), "v".into()];
    let count = AggregateSpec {
        name: "records".into(),
        function: Function::Count,
        fields: Vec::new(),
        spread: false,
    };
    groupings[0].aggregates.push(count);
    groupings
}

/// All panes of thirty records, a third of which come late.
fn panes(groupings: Vec<Grouping>) -> (Totals, Vec<PaneBatch>) {
    let totals = Totals::new(&job(groupings.clone()), Run::new(groupings.clone()).plan);
    let mut run = Run::new(groupings);
    let mut out = Output::default();
    for number in 0..30_u64 {
        let layout = run.plan.row.clone();
        let mut batch = RowBatch::new(layout.clone());
        let time = EventTime::from_millis(i64::try_from(number % 10).unwrap());
        let mut row = batch.push(time, Position::default());
        for (name, value) in [("a", number % 2), ("b", number % 3), ("c", number % 5)] {
            row.set_word(layout.slot(name).unwrap(), value);
        }
        row.set_word(layout.slot("v").unwrap(), number * number);
        run.shard.records(&batch, &mut out).unwrap();
        if number == 19 {
            let end = Watermark(EventTime::from_millis(10));
            run.shard.watermark(end, &mut out).unwrap();
        }
    }
    run.shard.watermark(Watermark::MAX, &mut out).unwrap();
    (totals, out.panes)
}

#[test]
fn groupings_of_one_cascade_agree_in_every_mode() {
    for mode in
        [AccumulationMode::Discarding, AccumulationMode::Accumulating, AccumulationMode::Retracting]
    {
        let (mut totals, panes) = panes(groupings(mode, true));
        panes.iter().for_each(|panes| totals.take(panes));
        let symbols = Symbols::default();
        assert!(totals.check(Some(30), &symbols).unwrap() > 12, "{mode:?}");
        let error = totals.check(Some(31), &symbols).unwrap_err();
        let grouping = "by_a".into();
        assert_eq!(error, TotalsError::Records { grouping, expected: 31, found: 30 });
    }
}

#[test]
fn panes_that_are_missing_are_missed() {
    let groupings = groupings(AccumulationMode::Accumulating, true);
    let (_, all) = panes(groupings.clone());
    for grouping in &groupings {
        let (mut totals, _) = panes(groupings.clone());
        let stage = totals.plan.stage(&grouping.name).unwrap().id;
        let last = all.iter().rposition(|panes| panes.stage == stage).unwrap();
        let kept = all.iter().enumerate().filter(|(at, _)| *at != last);
        kept.for_each(|(_, panes)| totals.take(panes));
        let error = totals.check(None, &Symbols::default()).unwrap_err();
        assert!(matches!(error, TotalsError::Differ(_)), "{error}");
    }
}

#[test]
fn a_list_without_other_is_not_complete_and_one_grouping_has_no_equal() {
    let symbols = Symbols::default();
    let (mut totals, panes) = panes(groupings(AccumulationMode::Discarding, false));
    panes.iter().for_each(|panes| totals.take(panes));
    assert!(totals.check(Some(30), &symbols).is_ok());
    let single = vec![grouping("by_a", &["a"], AccumulationMode::Discarding)];
    let totals = Totals::new(&job(single.clone()), Run::new(single).plan);
    assert_eq!(totals.check(None, &symbols), Err(TotalsError::Nothing));
}

#[test]
fn a_difference_names_key_window_and_aggregate() {
    let symbols = Symbols::default();
    let groupings = groupings(AccumulationMode::Discarding, true);
    let (mut totals, panes) = panes(groupings);
    panes.iter().for_each(|panes| totals.take(panes));
    let stage = totals.plan.stage("by_a_b").unwrap().clone();
    let mut extra = PaneBatch::new(stage.id);
    let mut key = vec![0; stage.key.words()];
    stage.key.write(&[Datum::Int(1), Datum::Int(9)], &mut key);
    let window = Window::new(EventTime::from_millis(0), EventTime::from_millis(10));
    let meta = PaneMeta {
        window,
        index: 0,
        timing: crate::pane::Timing::Late,
        is_last: false,
        kind: PaneKind::Insert,
        event_time: window.last_instant(),
        is_other: false,
    };
    let mut words = vec![0; stage.aggregates.words()];
    let one = (Datum::Int(1), window.start());
    stage.aggregates.add(&mut words, 0, one, &symbols).unwrap();
    extra.push(&key, meta, &words);
    totals.take(&extra);
    let text = totals.check(None, &symbols).unwrap_err().to_string();
    assert!(text.contains("`sum` of by_a is") && text.contains("[1] in [0,10)"), "{text}");
}
