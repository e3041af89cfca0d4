//! Random jobs over random records, compared with the batch oracle.
//!
//! P1: what sinks hold at the end is the batch over what was not dropped, and what was dropped is
//! what the rules say. The others locate a failure of it: P2 restart, P3 batch cuts, P4 other keys,
//! P5 shards, P6 watermarks, P7 panes, P8 rollups, P9 nothing left, P10 replay. Every test prints
//! its seed: `PROPTEST_RNG_SEED=n PROPTEST_CASES=m cargo test --test property` runs it again.
//! `laws` goes deep (lists, splits, cascades; the default trigger), `wide_laws` wide (any window,
//! any trigger); `negative` shows that the checks can fail.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by a panic, and prints its seed"
)]

mod chains;
mod cost;
mod engines;
mod job;
mod laws;
mod looks;
mod marks;
mod memory;
mod negative;
mod records;
mod results;
mod sequences;
mod sinks;
mod slices;
mod told;
mod triggers;
mod wide;
mod wide_laws;
mod windows;
mod world;

use job::{Style, jobs};
use nilometer_model::account::StageAccount;
use nilometer_model::batch::{Arrival, Evaluation, evaluate_without, readers};
use nilometer_model::engine::Engine;
use nilometer_model::invariant::{GC_1, LATE_1, ROLL_1};
use nilometer_model::late::LateReason;
use nilometer_model::plan::{Job, Plan};
use nilometer_model::planner::plan_for;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngSeed};
use records::{Event, arrivals, clocked_scripts, scripts};
use sinks::{Place, Sinks};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use wide::{Closing, wide_jobs};
use world::World;

/// The configuration of a property: as the environment says, the seed always fixed and printed.
/// What has failed once is kept in a file, and runs first ever after.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(0),
    };
    println!("PROPTEST_RNG_SEED={seed} PROPTEST_CASES={}", config.cases);
    let regressions = FileFailurePersistence::Direct("tests/property/regressions.txt");
    ProptestConfig {
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: Some(Box::new(regressions)),
        max_shrink_iters: 2_000,
        ..config
    }
}

/// What is run: a job, what arrives, and how.
#[derive(Clone)]
struct Case {
    job: Job,
    script: Vec<Event>,
    /// Decides the interleaving of messages.
    seed: u64,
    shards: usize,
    engine: Engine,
}

impl fmt::Debug for Case {
    /// One line per grouping and event: a failure must be readable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, script, seed, shards, engine } = self;
        writeln!(f, "{shards} shards, seed {seed}, cascade {}, {engine:?}", job.cascade)?;
        writeln!(f, "{:?}, {:?}", job.spread, job.phase)?;
        for grouping in &job.groupings {
            writeln!(f, "{grouping:?}")?;
        }
        for event in script {
            match event {
                Event::Batch(records) => {
                    writeln!(f, "batch")?;
                    for record in records {
                        writeln!(f, "  @{} {:?}", record.time, record.values)?;
                    }
                }
                Event::Watermark(watermark) => writeln!(f, "watermark {watermark}")?,
                Event::Tick(now) => writeln!(f, "tick {}", now.as_millis())?,
                Event::Signal => writeln!(f, "signal")?,
                Event::Restart => writeln!(f, "restart")?,
            }
        }
        Ok(())
    }
}

fn cases(style: Style) -> impl Strategy<Value = Case> {
    let shards = prop_oneof![Just(1_usize), Just(2), Just(7)];
    (jobs(style), scripts(), any::<u64>(), shards).prop_map(|(job, script, seed, shards)| Case {
        job,
        script,
        seed,
        shards,
        engine: Engine::Streaming,
    })
}

/// Wide jobs, with scripts in which the clock ticks and signals are given.
fn wide_cases(style: Style, closing: Closing) -> impl Strategy<Value = Case> {
    let shards = prop_oneof![Just(1_usize), Just(2), Just(7)];
    (wide_jobs(style, closing), clocked_scripts(), any::<u64>(), shards).prop_map(
        |(job, script, seed, shards)| Case { job, script, seed, shards, engine: Engine::Streaming },
    )
}

fn planned(case: &Case) -> Arc<Plan> {
    let plan = plan_for(&case.job, case.engine).unwrap_or_else(|errors| panic!("{errors:?}"));
    Arc::new(plan)
}

/// Runs the engine: everything in the script, then the end.
fn run(case: &Case, restarts: bool) -> World {
    let mut world = World::new(planned(case), case.shards, case.seed);
    play(&mut world, case, &case.script, restarts);
    world.end();
    world
}

/// As [`run`] with restarts, each with any number of shards; between them all is cut now and then, so
/// that a restart has changes to read beside bases.
fn run_on_any_shards(case: &Case, mut choices: u64) -> World {
    let mut world = World::new(planned(case), case.shards, case.seed);
    for event in &case.script {
        match event {
            Event::Restart => world.restart_anyhow(),
            Event::Batch(_) | Event::Watermark(_) | Event::Tick(_) | Event::Signal => {
                play(&mut world, case, std::slice::from_ref(event), false);
                if choices & 1 == 1 {
                    world.cut();
                }
            }
        }
        choices = choices.rotate_right(1);
    }
    world.end();
    world
}

/// Plays some of a script.
fn play(world: &mut World, case: &Case, events: &[Event], restarts: bool) {
    for event in events {
        match event {
            Event::Batch(records) => world.records(&case.job, records),
            Event::Watermark(watermark) => match case.engine {
                Engine::Streaming => world.watermark(*watermark),
                Engine::MicroBatch(_) => world.cycle(*watermark),
                // It stays at the beginning.
                Engine::Batch => {}
            },
            Event::Tick(now) => world.tick(*now),
            Event::Signal => world.signal(triggers::SIGNAL),
            Event::Restart if restarts => world.restart(),
            Event::Restart => {}
        }
    }
}

/// What a run must give, where `closed` was kept out by triggers.
fn oracle(case: &Case, arrivals: &[Arrival], world: &World) -> Evaluation {
    let readers = readers(&case.job, &world.plan);
    evaluate_without(&case.job, &readers, arrivals, &world.closed()).unwrap()
}

/// P1 and P7 for one run, and P9 behind it: totals, the exact set of what was dropped, and nothing
/// left.
fn check_run(case: &Case, world: &World) -> Result<(), TestCaseError> {
    let arrivals = match case.engine {
        Engine::Streaming | Engine::MicroBatch(_) => arrivals(&case.script),
        Engine::Batch => engines::all(case),
    };
    check_totals(case, world, &oracle(case, &arrivals, world))?;
    prop_assert!(world.is_empty(), "{GC_1}: {:?} leaves state after the end", case.engine);
    Ok(())
}

/// P1 for one run.
fn check_totals(case: &Case, world: &World, expected: &Evaluation) -> Result<(), TestCaseError> {
    let sinks = Sinks::of(&world.plan, &world.panes).map_err(TestCaseError::fail)?;
    let observed = |place: &Place| {
        world.plan.stage(&place.grouping).is_some_and(|stage| !stage.sinks.is_empty())
    };
    let wanted: BTreeMap<_, _> =
        expected.totals.iter().filter(|(place, _)| observed(place)).collect();
    let sinks = sinks.settle(&world.plan, &wanted).map_err(TestCaseError::fail)?;
    let missing: Vec<_> = wanted.keys().filter(|place| !sinks.has(place)).collect();
    prop_assert!(missing.is_empty(), "no sink has {missing:#?}");
    for place in sinks.places() {
        let Some(values) = wanted.get(place) else {
            return Err(TestCaseError::fail(format!("the batch has no {place:?}")));
        };
        let stage = world.plan.stage(&place.grouping);
        let difference = stage.and_then(|stage| sinks.differs(stage, place, values));
        prop_assert!(difference.is_none(), "{ROLL_1}: {place:?}: {difference:?}");
    }
    check_dropped(case, world, expected)
}

/// The set of what was dropped, and that all of it was counted.
fn check_dropped(case: &Case, world: &World, expected: &Evaluation) -> Result<(), TestCaseError> {
    let mut dropped: BTreeMap<(Box<str>, _), u64> = BTreeMap::new();
    for (place, copies) in &expected.expired {
        *dropped.entry((place.grouping.clone(), place.key.clone())).or_default() += copies;
    }
    prop_assert_eq!(&world.dropped, &dropped, "{} dropped", LATE_1);
    let is_listed = |place: &Place| {
        let mut groupings = case.job.groupings.iter();
        groupings.any(|grouping| grouping.name == place.grouping && grouping.late.is_some())
    };
    for (reason, wanted) in
        [(LateReason::Expired, &expected.expired), (LateReason::Refused, &expected.refused)]
    {
        let wanted = wanted.iter().filter(|(place, _)| is_listed(place));
        let wanted: BTreeMap<_, _> =
            wanted.map(|(place, copies)| (place.clone(), *copies)).collect();
        prop_assert_eq!(world.listed(reason), wanted, "{} {:?}", LATE_1, reason);
    }
    let accounts = world.accounts();
    prop_assert!(accounts.iter().all(StageAccount::is_balanced), "{accounts:?}");
    let sum = |of: fn(&StageAccount) -> u64| accounts.iter().map(of).sum::<u64>();
    prop_assert_eq!(sum(|account| account.expired), dropped.values().sum::<u64>(), "expired");
    prop_assert_eq!(sum(|account| account.refused), expected.refused.values().sum::<u64>());
    let closed: u64 = world.listed(LateReason::Closed).values().sum();
    prop_assert_eq!(sum(|account| account.closed), closed, "closed");
    Ok(())
}
