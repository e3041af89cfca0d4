//! State beyond memory: budgets so small that everything goes into pages after every round.

use crate::job::Style;
use crate::laws::sorted;
use crate::wide::Closing;
use crate::world::World;
use crate::{Case, cases, check_run, config, planned, play, run, wide_cases};
use nilometer_model::invariant::{COLD_1, GC_1};
use nilometer_model::plan::Stage;
use nilometer_model::window::WindowFn;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

/// Runs the engine within a budget of so many bytes.
fn run_within(case: &Case, budget: usize, restarts: bool) -> World {
    let mut world = World::new(planned(case), case.shards, case.seed);
    world.keep_within(Some(budget));
    play(&mut world, case, &case.script, restarts);
    world.end();
    world
}

/// Every result is that of a run with all state in memory, and the batch; nothing is left, neither
/// in memory nor in pages.
fn check(case: &Case, budget: usize) -> Result<(), TestCaseError> {
    let mut world = run_within(case, budget, true);
    check_run(case, &world)?;
    for _ in 0..3 {
        world.cut();
    }
    prop_assert_eq!(world.page_count(), 0, "{} pages stay", GC_1);
    // Across shards order is nobody's promise.
    let alone = Case { shards: 1, ..case.clone() };
    let (free, tight) = (run(&alone, true), run_within(&alone, budget, true));
    prop_assert_eq!(sorted(&free.panes), sorted(&tight.panes), "{}", COLD_1);
    prop_assert_eq!(free.accounts(), tight.accounts());
    let listed = |world: &World| {
        let mut late = world.late.clone();
        late.sort_by(|a, b| (a.record, &a.place).cmp(&(b.record, &b.place)));
        late
    };
    prop_assert_eq!(listed(&free), listed(&tight));
    Ok(())
}

/// A crash at some event: what was cut before is gone on with, whatever went into pages or came back
/// since.
fn check_crash(case: &Case, (cut, crash): (usize, usize)) -> Result<(), TestCaseError> {
    let whole = run_within(case, 1, false);
    let mut world = World::new(planned(case), case.shards, case.seed);
    world.keep_within(Some(1));
    let (before, behind) = case.script.split_at(cut.min(case.script.len()));
    play(&mut world, case, before, false);
    // Two cuts, so that pages are deleted.
    world.cut();
    let epoch = world.epoch();
    play(&mut world, case, &behind[..crash.min(behind.len())], false);
    world.go_back(&epoch);
    play(&mut world, case, behind, false);
    world.end();
    check_run(case, &world)?;
    prop_assert_eq!(whole.accounts().len(), world.accounts().len());
    Ok(())
}

/// What all stages of a plan are; `None` if they differ.
fn kind(world: &World) -> Option<&'static str> {
    let kind = |stage: &Stage| match (&stage.top_k, stage.window) {
        (Some(_), _) => "lists",
        (None, _) if stage.is_plain() => "windows",
        (None, WindowFn::Sliding { .. }) if stage.trigger.is_default() => "slices",
        (None, _) => "machines",
    };
    let mut kinds: Vec<_> = world.plan.stages.iter().map(kind).collect();
    // A list stands on a stage of its own.
    let has_lists = kinds.contains(&"lists");
    kinds.retain(|kind| !has_lists || *kind != "windows");
    kinds.dedup();
    <[&str; 1]>::try_from(kinds).ok().map(|[kind]| kind)
}

/// The properties say something: keys of every kind of stage do go, and come back.
#[test]
fn keys_of_every_kind_go_and_come_back() {
    let strategy = prop_oneof![
        cases(Style::Patient),
        cases(Style::Any),
        wide_cases(Style::Any, Closing::Allowed)
    ];
    let mut runner = TestRunner::deterministic();
    let mut moved: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for _ in 0..300 {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        let world = run_within(&case, 1, false);
        if let Some(kind) = kind(&world) {
            let (went, came) = world.moved();
            let sum = moved.entry(kind).or_default();
            *sum = (sum.0 + went, sum.1 + came);
        }
    }
    for kind in ["windows", "slices", "machines", "lists"] {
        let (went, came) = moved.get(kind).copied().unwrap_or_default();
        assert!(went > 20 && came == went, "{kind}: {moved:?}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn results_are_the_same_within_any_budget(
        case in cases(Style::Any), budget in prop_oneof![Just(1_usize), 100..5_000_usize],
    ) {
        check(&case, budget)?;
    }

    #[test]
    fn so_they_are_of_any_window_and_trigger(
        case in wide_cases(Style::Any, Closing::Allowed),
        budget in prop_oneof![Just(1_usize), 100..5_000_usize],
    ) {
        check(&case, budget)?;
    }

    #[test]
    fn a_crash_finds_the_keys_of_the_last_epoch_each_once(
        case in prop_oneof![cases(Style::Any), wide_cases(Style::Any, Closing::Allowed)],
        cut in 0_usize..20, crash in 0_usize..20,
    ) {
        check_crash(&case, (cut, crash))?;
    }

    /// A budget may come and go between two runs.
    #[test]
    fn a_budget_may_change(
        case in wide_cases(Style::Any, Closing::Allowed), budgets in prop::collection::vec(
            prop_oneof![Just(None), Just(Some(1_usize)), Just(Some(2_000))], 1..6),
    ) {
        let mut world = World::new(planned(&case), case.shards, case.seed);
        for (number, budget) in budgets.iter().enumerate() {
            world.restart_within(*budget);
            let part = case.script.len().div_ceil(budgets.len());
            let events = case.script.iter().skip(number * part).take(part);
            play(&mut world, &case, &events.cloned().collect::<Vec<_>>(), true);
        }
        world.end();
        check_run(&case, &world)?;
    }
}
