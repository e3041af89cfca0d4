//! The properties once more, over any window and any trigger: what is true whoever decides when a
//! window fires.

use crate::engines::{all, micro};
use crate::job::Style;
use crate::laws::{is_exchanged, sorted, with_script, without};
use crate::records::recut;
use crate::sinks::Sinks;
use crate::wide::Closing;
use crate::world::{Listed, Seen, World};
use crate::{Case, check_run, config, planned, play, run, run_on_any_shards, wide_cases};
use nilometer_model::batch::{Evaluation, evaluate, readers};
use nilometer_model::engine::Engine;
use nilometer_model::invariant::{ROLL_1, SHARD_1};
use nilometer_model::late::LateReason;
use nilometer_model::plan::StageInput;
use nilometer_model::value::Value;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// By grouping: how many copies the sinks have counted, and how many were dropped of those that
/// read records themselves.
fn counted(case: &Case, world: &World) -> Result<BTreeMap<Box<str>, i128>, TestCaseError> {
    let readers = readers(&case.job, &world.plan);
    let expected = crate::oracle(case, &crate::records::arrivals(&case.script), world);
    let wanted: BTreeMap<_, _> = expected.totals.iter().collect();
    let sinks = Sinks::of(&world.plan, &world.panes).map_err(TestCaseError::fail)?;
    let sinks = sinks.settle(&world.plan, &wanted).map_err(TestCaseError::fail)?;
    let mut counts = BTreeMap::new();
    for (index, grouping) in case.job.groupings.iter().enumerate() {
        if readers[index] != index {
            continue;
        }
        let places = sinks.places().filter(|place| place.grouping == grouping.name);
        let results = places.map(|place| match sinks.result(place, 0) {
            Some(Value::Int(count)) => *count,
            other => panic!("{place:?} counts {other:?}"),
        });
        let is_dropped = |late: &&Listed| {
            late.place.grouping == grouping.name && late.reason != LateReason::Late
        };
        let dropped = world.late.iter().filter(is_dropped).count() as i128;
        counts.insert(grouping.name.clone(), results.sum::<i128>() + dropped);
    }
    Ok(counts)
}

/// The batch over everything that arrives.
fn batch(case: &Case) -> Evaluation {
    let alone: Vec<_> = (0..case.job.groupings.len()).collect();
    evaluate(&case.job, &alone, &all(case)).unwrap()
}

/// By stage that no other shard sends to: what it emitted.
fn on_their_shards(world: &World) -> Vec<&Seen> {
    sorted(
        world
            .panes
            .iter()
            .filter(|pane| !is_exchanged(world, &world.plan.stages[pane.stage.index()])),
    )
}

proptest! {
    #![proptest_config(config())]

    /// P1, P7, P8, P9.
    #[test]
    fn whatever_fires_the_end_is_the_batch(case in wide_cases(Style::Any, Closing::Allowed)) {
        check_run(&case, &run(&case, false))?;
    }

    /// What is counted, expired, closed and refused is what there is.
    #[test]
    fn nothing_disappears(case in wide_cases(Style::Any, Closing::Allowed)) {
        let mut case = case;
        // What covers an interval is counted once and dropped window by window.
        case.job.spread = None;
        let counted = counted(&case, &run(&case, false))?;
        let mut all: BTreeMap<Box<str>, i128> = BTreeMap::new();
        for (place, values) in &batch(&case).totals {
            if let (true, Value::Int(count)) = (counted.contains_key(&place.grouping), &values[0]) {
                *all.entry(place.grouping.clone()).or_default() += count;
            }
        }
        let counted: BTreeMap<_, _> = counted.into_iter().filter(|(_, count)| *count > 0).collect();
        prop_assert_eq!(counted, all, "{}", ROLL_1);
    }

    /// Streaming, micro-batch and batch: where nothing expires the same totals, each dropping what
    /// the rules say otherwise.
    #[test]
    fn engines_differ_in_when_not_in_what(
        case in prop_oneof![
            wide_cases(Style::Any, Closing::Never), wide_cases(Style::Patient, Closing::Never),
        ],
        choices in any::<u64>(),
    ) {
        let batch = Case { engine: Engine::Batch, ..case.clone() };
        for case in [micro(&case, choices), batch, case] {
            check_run(&case, &run(&case, true))?;
        }
    }

    /// P2.
    #[test]
    fn restarts_change_nothing(case in wide_cases(Style::Any, Closing::Allowed)) {
        check_run(&case, &run(&case, true))?;
        let alone = Case { shards: 1, ..case };
        let (before, after) = (run(&alone, false), run(&alone, true));
        prop_assert_eq!(sorted(&before.panes), sorted(&after.panes));
        prop_assert_eq!(before.accounts(), after.accounts());
        prop_assert_eq!(before.late, after.late);
    }

    /// P2.
    #[test]
    fn restarts_with_other_shards_change_nothing(
        case in wide_cases(Style::Any, Closing::Allowed), choices in any::<u64>(),
    ) {
        let micro = micro(&case, choices);
        for case in [case, micro] {
            check_run(&case, &run_on_any_shards(&case, choices))?;
        }
    }

    /// P3. What a trigger that finishes keeps out does depend on when it is asked.
    #[test]
    fn cuts_change_no_total(
        case in wide_cases(Style::Any, Closing::Never), sizes in [1_usize..4, 4..40],
    ) {
        let mut dropped = Vec::new();
        for size in sizes {
            let cut = with_script(&case, recut(&case.script, size));
            let world = run(&cut, false);
            check_run(&cut, &world)?;
            let is_lost = |late: &&Listed| late.reason != LateReason::Late;
            let mut lost: Vec<_> = world.late.iter().filter(is_lost).cloned().collect();
            lost.sort_by(|a, b| (a.record, &a.place).cmp(&(b.record, &b.place)));
            dropped.push(lost);
        }
        prop_assert_eq!(&dropped[0], &dropped[1]);
    }

    /// P4 of stages that read records.
    #[test]
    fn keys_stand_alone(
        case in wide_cases(Style::SharedColumn, Closing::Allowed), out in 0_i128..3,
    ) {
        let out = Value::Int(out);
        let (all, fewer) = (run(&case, false), run(&without(&case, &out), false));
        // A stage above another one sees the watermark that all keys below it have let pass.
        let others = |world: &World| {
            let is_other = |pane: &&Seen| {
                let stage = &world.plan.stages[pane.stage.index()];
                let is_out = stage.key.field("a").is_some_and(|field| pane.key.0[field] == out);
                matches!(stage.input, StageInput::Records(_)) && !is_out
            };
            sorted(world.panes.iter().filter(is_other)).into_iter().cloned().collect::<Vec<_>>()
        };
        prop_assert_eq!(others(&all), others(&fewer));
    }

    /// P5. Of stages that read records pane by pane: one above another sees the watermark that all
    /// keys of its shard below it have let pass.
    #[test]
    fn any_number_of_shards_will_do(case in wide_cases(Style::Any, Closing::Allowed)) {
        let readers = |world: &World| {
            let is_reader = |pane: &&Seen| {
                let stage = &world.plan.stages[pane.stage.index()];
                matches!(stage.input, StageInput::Records(_))
            };
            sorted(world.panes.iter().filter(is_reader)).into_iter().cloned().collect::<Vec<_>>()
        };
        let alone = run(&Case { shards: 1, ..case.clone() }, false);
        for shards in [2, 7] {
            let case = Case { shards, ..case.clone() };
            let world = run(&case, false);
            check_run(&case, &world)?;
            prop_assert_eq!(readers(&alone), readers(&world), "{}: {} shards", SHARD_1, shards);
        }
    }

    /// P10: from a snapshot on, the same input gives the same panes with the same values, whatever
    /// the order of messages between shards.
    #[test]
    fn a_replay_gives_the_same_panes(
        case in wide_cases(Style::Any, Closing::Allowed),
        cut in any::<prop::sample::Index>(),
        seed in any::<u64>(),
        choices in any::<u64>(),
    ) {
        for case in [micro(&case, choices), case] {
            let (before, after) = case.script.split_at(cut.index(case.script.len() + 1));
            let mut first = World::new(planned(&case), case.shards, case.seed);
            play(&mut first, &case, before, false);
            let log = first.cut().clone();
            let mut replays = Vec::new();
            for seed in [case.seed, case.seed, seed] {
                let mut world = World::of_log(planned(&case), &log, (case.shards, seed));
                play(&mut world, &case, after, true);
                world.end();
                prop_assert!(world.is_empty());
                replays.push(world);
            }
            let all = |world: &World| sorted(&world.panes).into_iter().cloned().collect::<Vec<_>>();
            prop_assert_eq!(all(&replays[0]), all(&replays[1]), "the same interleaving");
            let [_, one, other] = &replays[..] else { unreachable!("three were made") };
            if case.engine == Engine::Streaming {
                prop_assert_eq!(on_their_shards(one), on_their_shards(other));
            } else {
                // Cycles order what crosses from one shard to another.
                prop_assert_eq!(all(one), all(other));
            }
        }
    }
}
