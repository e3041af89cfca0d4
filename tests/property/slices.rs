//! Firing in slices: however few panes a shard fires at a time, the same come of it, and for each
//! key and window in the same order.

use crate::engines::{micro, timed_out};
use crate::job::Style;
use crate::laws::sorted;
use crate::wide::Closing;
use crate::world::World;
use crate::{Case, cases, check_run, config, planned, play, wide_cases};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Slices of one pane, of some, and none.
const SIZES: [usize; 3] = [1, 3, usize::MAX];

fn run(case: &Case, slice: usize) -> World {
    let mut world = World::new(planned(case), case.shards, case.seed).in_slices(slice);
    play(&mut world, case, &case.script, true);
    world.end();
    world
}

/// That two runs on one shard cannot be told apart.
fn same(one: &World, other: &World) -> Result<(), TestCaseError> {
    let (panes, others) = (sorted(&one.panes), sorted(&other.panes));
    let differing = panes.iter().zip(&others).find(|(one, other)| one != other);
    prop_assert!(differing.is_none() && panes.len() == others.len(), "{differing:#?}");
    prop_assert_eq!(one.accounts(), other.accounts());
    prop_assert_eq!(&one.late, &other.late);
    prop_assert_eq!(&one.dropped, &other.dropped);
    Ok(())
}

fn check_slices(case: Case) -> Result<(), TestCaseError> {
    let alone = Case { shards: 1, ..case };
    let [one, some, all] = SIZES.map(|slice| run(&alone, slice));
    prop_assert_eq!(all.slices, 0);
    same(&one, &all)?;
    same(&some, &all)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn slices_change_nothing(case in cases(Style::Any)) {
        check_slices(case)?;
    }

    #[test]
    fn slices_change_nothing_of_any_window_and_trigger(
        case in wide_cases(Style::Any, Closing::Allowed),
    ) {
        check_slices(case)?;
    }

    #[test]
    fn slices_change_nothing_of_cycles(case in cases(Style::Any), choices in any::<u64>()) {
        check_slices(micro(&case, choices))?;
        let alone = Case { shards: 1, ..case };
        let [one, some, all] = SIZES.map(|slice| timed_out(&alone, (choices, slice), true));
        same(&one, &all)?;
        same(&some, &all)?;
    }

    /// Where deltas cross from one shard to another slices may change when late panes come, and
    /// nothing else.
    #[test]
    fn slices_change_no_total_of_several_shards(case in cases(Style::Any), choices in any::<u64>()) {
        for shards in [2, 7] {
            let case = Case { shards, ..case.clone() };
            check_run(&case, &run(&case, 1))?;
            // Nothing fires before its cycle ends: not even that changes.
            let case = micro(&case, choices);
            let (one, all) = (run(&case, 1), run(&case, usize::MAX));
            prop_assert_eq!(sorted(&one.panes), sorted(&all.panes));
        }
    }
}

#[test]
fn jobs_do_fire_in_slices() {
    let mut runner = TestRunner::deterministic();
    let sliced = |_| {
        let narrow = cases(Style::Any).new_tree(&mut runner).unwrap().current();
        let wide = wide_cases(Style::Any, Closing::Allowed).new_tree(&mut runner).unwrap();
        usize::from([narrow, wide.current()].iter().all(|case| run(case, 1).slices > 5))
    };
    let sliced: usize = (0..40).map(sliced).sum();
    assert!(sliced > 10, "only {sliced}");
}
