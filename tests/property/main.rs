//! Random jobs over random records, compared with the batch oracle.
//!
//! P1: what sinks hold at the end is the batch over what was not dropped, and what was dropped is
//! what the rules say. The others locate a failure of it: P2 restart, P3 batch cuts, P4 other keys,
//! P5 shards, P6 watermarks, P7 panes, P8 rollups, P9 nothing left. Every test prints its seed:
//! `PROPTEST_RNG_SEED=n PROPTEST_CASES=m cargo test --test property` runs it again.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by a panic, and prints its seed"
)]

mod cost;
mod engines;
mod job;
mod laws;
mod marks;
mod records;
mod sinks;
mod world;

use job::{Style, jobs};
use nilometer_model::batch::{Arrival, Evaluation, evaluate, readers};
use nilometer_model::engine::Engine;
use nilometer_model::invariant::{LATE_1, ROLL_1};
use nilometer_model::plan::{Job, Plan};
use nilometer_model::planner::{plan, plan_for};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use records::{Event, scripts};
use sinks::{Place, Sinks};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use world::World;

/// The configuration of a property: as the environment says, the seed always fixed and printed.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(0),
    };
    println!("PROPTEST_RNG_SEED={seed} PROPTEST_CASES={}", config.cases);
    ProptestConfig {
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
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

fn planned(job: &Job) -> Arc<Plan> {
    Arc::new(plan(job).unwrap_or_else(|errors| panic!("{errors:?}")))
}

/// Runs the engine: everything in the script, then the end.
fn run(case: &Case, restarts: bool) -> World {
    let plan = plan_for(&case.job, case.engine).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut world = World::new(Arc::new(plan), case.shards, case.seed);
    for event in &case.script {
        match event {
            Event::Batch(records) => world.records(&case.job, records),
            Event::Watermark(watermark) => match case.engine {
                Engine::Streaming => world.watermark(*watermark),
                Engine::MicroBatch(_) => world.cycle(*watermark),
                // It stays at the beginning.
                Engine::Batch => {}
            },
            Event::Restart if restarts => world.restart(),
            Event::Restart => {}
        }
    }
    world.end();
    world
}

fn oracle(job: &Job, arrivals: &[Arrival]) -> Evaluation {
    let plan = planned(job);
    evaluate(job, &readers(job, &plan), arrivals).unwrap()
}

/// P1 for one run: totals and the exact set of what was dropped.
fn check_totals(case: &Case, world: &World, expected: &Evaluation) -> Result<(), TestCaseError> {
    let sinks = Sinks::of(&world.plan, &world.panes).map_err(TestCaseError::fail)?;
    let observed = |place: &Place| {
        world.plan.stage(&place.grouping).is_some_and(|stage| !stage.sinks.is_empty())
    };
    let wanted: BTreeMap<_, _> =
        expected.totals.iter().filter(|(place, _)| observed(place)).collect();
    let got: Vec<_> = sinks.places().collect();
    let missing: Vec<_> = wanted.keys().filter(|place| !got.contains(*place)).collect();
    prop_assert!(missing.is_empty(), "no sink has {missing:#?}");
    for place in got {
        let Some(values) = wanted.get(place) else {
            return Err(TestCaseError::fail(format!("the batch has no {place:?}")));
        };
        let stage = world.plan.stage(&place.grouping);
        let difference = stage.and_then(|stage| sinks.differs(stage, place, values));
        prop_assert!(difference.is_none(), "{ROLL_1}: {place:?}: {difference:?}");
    }
    let mut dropped: BTreeMap<(Box<str>, _), u64> = BTreeMap::new();
    for (place, copies) in &expected.expired {
        *dropped.entry((place.grouping.clone(), place.key.clone())).or_default() += copies;
    }
    prop_assert_eq!(&world.dropped, &dropped, "{} dropped", LATE_1);
    let counted: u64 = world.accounts().iter().map(|account| account.expired).sum();
    prop_assert_eq!(counted, dropped.values().sum::<u64>(), "drops counted, {:?}", case.shards);
    Ok(())
}
