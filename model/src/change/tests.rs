//! What becomes of stages, by tables: groupings as they were, groupings as they are.

use super::{Fate, Reason, StagePrint, compare};
use crate::aggregate::{Function, side::SideFunction};
use crate::pane::AccumulationMode::{Accumulating, Discarding};
use crate::plan::{Grouping, OfSpec, TopKSpec};
use crate::planner::plan;
use crate::shard_tests::{grouping, job};
use crate::time::Span;
use crate::trigger::Trigger;
use crate::window::{Phase, WindowFn};
use std::collections::BTreeMap;

fn prints(groupings: &[Grouping], filter: &str) -> Vec<StagePrint> {
    let job = job(groupings.to_vec());
    let records = |_: &Grouping| BTreeMap::from([("filter".into(), filter.into())]);
    StagePrint::of_plan(&plan(&job).unwrap(), &job, records)
}

/// A line for each stage, those that continue left out.
fn lines(was: &[StagePrint], is: &[StagePrint]) -> Vec<String> {
    let text = |setting: Option<Box<str>>| setting.unwrap_or_else(|| "nothing".into());
    let reason = |reason: Reason| match reason {
        Reason::Setting { name, was, is } => format!("{name} {} -> {}", text(was), text(is)),
        Reason::Input { was, is } => format!("input {was} -> {is}"),
        Reason::InputBegins { stage } => format!("below {stage}"),
        Reason::ReaderBegins { stage } => format!("above {stage}"),
    };
    let mut lines = Vec::new();
    for change in compare(was, is) {
        let what = match change.fate {
            Fate::Continues => continue,
            Fate::New => "new".to_owned(),
            Fate::Removed => "removed".to_owned(),
            Fate::Changed(reasons) => {
                reasons.into_iter().map(reason).collect::<Vec<_>>().join("; ")
            }
        };
        lines.push(format!("{}: {what}", change.name));
    }
    lines
}

#[track_caller]
fn check(was: &[Grouping], is: &[Grouping], expected: &[&str]) {
    assert_eq!(lines(&prints(was, "true"), &prints(is, "true")), expected);
}

fn fine() -> Grouping {
    grouping("fine", &["a", "b"], Accumulating)
}

fn coarse() -> Grouping {
    grouping("coarse", &["a"], Accumulating)
}

fn fixed(millis: i64) -> WindowFn {
    WindowFn::Fixed { size: Span::from_millis(millis), offset: 0, phase: Phase::Aligned }
}

/// Counts the results of `fine`.
fn of_fine(name: &str) -> Grouping {
    let mut of = grouping(name, &["a"], Accumulating);
    of.of = Some(OfSpec { grouping: "fine".into(), derived: Vec::new(), filter: None });
    of.aggregates = vec![crate::plan::AggregateSpec::new("n", Function::Count, None)];
    of
}

#[test]
fn each_setting_that_decides_what_a_window_means_changes_its_stage() {
    type Change = fn(&mut Grouping);
    let table: [(Change, &str); 9] = [
        (|g| g.key.reverse(), "key a: u32, b: u32 -> b: u32, a: u32"),
        (|g| g.window = fixed(20), "window fixed 10ms -> fixed 20ms"),
        (
            |g| g.mode = Discarding,
            "kept windows with totals -> windows; mode accumulating -> discarding",
        ),
        (|g| g.allowed_lateness = Span::ZERO, "allowed_lateness 100ms -> 0ms"),
        (
            |g| g.trigger = Trigger::Repeat(Box::new(Trigger::AfterCount(2))),
            "kept windows with totals -> windows with triggers and totals; \
             trigger repeat(after_watermark) -> repeat(count(2))",
        ),
        (
            |g| g.emission.on_time_always = true,
            "emit on_time when_new, closing when_new, timestamp end_of_window -> on_time always, \
             closing when_new, timestamp end_of_window; \
             kept windows with totals -> windows with triggers and totals",
        ),
        (
            |g| g.aggregates[0].fields = vec!["a".into()],
            "aggregates.sum sum(v: i64) -> sum(a: u32)",
        ),
        (
            |g| g.aggregates[0].function = Function::Side(SideFunction::Distinct { precision: 12 }),
            "aggregates.sum sum(v: i64) -> distinct(v: i64, precision 12); \
             kept windows with totals -> windows with triggers and totals",
        ),
        (
            |g| g.sinks.clear(),
            "kept windows with totals -> windows; mode accumulating -> without sinks",
        ),
    ];
    for (change, expected) in table {
        let mut changed = fine();
        change(&mut changed);
        check(&[fine()], &[changed], &[&format!("fine: {expected}")]);
    }
    let (was, is) = (prints(&[fine()], "true"), prints(&[fine()], "v > 0"));
    assert_eq!(lines(&was, &is), ["fine: filter true -> v > 0"]);
}

#[test]
fn what_decides_nothing_changes_nothing() {
    let mut other = fine();
    other.sinks.push("second".into());
    other.allow_closing = true;
    check(&[fine()], &[other], &[]);
    let mut unseen = fine();
    unseen.sinks.clear();
    let mut unseen_other = unseen.clone();
    unseen_other.mode = Discarding;
    check(&[unseen], &[unseen_other], &[]);
}

#[test]
fn stages_above_one_that_changes_change_with_it_and_others_do_not() {
    let mut wider = fine();
    wider.window = fixed(5);
    let beside = grouping("beside", &["c"], Accumulating);
    check(
        &[fine(), coarse(), beside.clone()],
        &[wider, coarse(), beside.clone()],
        &["fine: window fixed 10ms -> fixed 5ms", "coarse: below fine"],
    );
    // Its deltas are on their way no more, and what is above has not had them.
    check(
        &[fine(), coarse(), beside.clone()],
        &[coarse(), beside],
        &["coarse: input panes of fine -> records", "fine: removed"],
    );
    check(&[fine(), coarse()], &[fine()], &["coarse: removed"]);
}

#[test]
fn a_new_stage_may_come_between_a_stage_and_what_it_reads() {
    check(&[coarse()], &[fine(), coarse()], &["fine: new"]);
    check(&[fine()], &[fine(), coarse()], &["coarse: new"]);
    // But not if the state is kept in another form where it reads panes.
    let mut sliding = coarse();
    sliding.window =
        WindowFn::Sliding { size: Span::from_millis(20), period: Span::from_millis(10), offset: 0 };
    let mut finer = sliding.clone();
    finer.name = "finer".into();
    finer.key = fine().key;
    check(
        std::slice::from_ref(&sliding),
        &[finer, sliding.clone()],
        &["finer: new", "coarse: kept slices with totals -> windows with totals"],
    );
}

#[test]
fn a_list_is_a_stage_of_its_own() {
    let listed = |k| {
        let mut listed = fine();
        listed.top_k = Some(TopKSpec {
            k,
            entity: vec!["b".into()],
            rank: vec!["sum".into()],
            require: Vec::new(),
            other: false,
            ties: crate::plan::Ties::Ascending,
        });
        listed
    };
    check(&[listed(3)], &[listed(4)], &["fine: top_k 3 of b by sum -> 4 of b by sum"]);
    let mut longer = listed(3);
    longer.window = fixed(20);
    check(
        &[listed(3)],
        &[longer],
        &["fine/all: window fixed 10ms -> fixed 20ms", "fine: window fixed 10ms -> fixed 20ms"],
    );
}

#[test]
fn who_groups_results_has_seen_all_of_them_or_both_begin_anew() {
    let stage = |name: &str, group: &Grouping, change: fn(&mut Grouping)| {
        let mut changed = group.clone();
        changed.name = name.into();
        change(&mut changed);
        changed
    };
    let changed =
        stage("above", &of_fine("above"), |g| g.allowed_lateness = Span::from_millis(101));
    check(
        &[fine(), of_fine("above"), coarse()],
        &[fine(), changed, coarse()],
        &["fine: above above", "above: allowed_lateness 100ms -> 101ms", "coarse: below fine"],
    );
    check(
        &[fine(), of_fine("above")],
        &[fine(), of_fine("above"), of_fine("second")],
        &[
            "fine: results read by above -> read by above, second",
            "above: below fine",
            "second: new",
        ],
    );
}
