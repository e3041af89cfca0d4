//! A whole node, simulated: sources, coordinator, shards, sinks and a store on one thread, in every
//! interleaving that a seed picks; killed at any step, with a disk that loses what was not flushed,
//! and started again.
//!
//! `SIM_SEED=n cargo test --test sim` runs one seed again; `SIM_SEEDS=n` says how many fresh ones
//! there are (300). A seed that has failed goes into `seeds.txt`, which runs first. At the end every
//! rare path (`probes`) must have been come by.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by a panic, and prints its seed"
)]

#[path = "../property/chains.rs"]
mod chains;
mod dice;
mod endings;
mod handling;
#[expect(dead_code, reason = "shared with the property tests, which use more of it")]
#[path = "../property/job.rs"]
mod job;
mod letters;
mod negative;
mod node;
mod options;
mod output;
mod partition;
mod probes;
#[expect(dead_code, reason = "shared with the property tests, which use more of it")]
#[path = "../property/records.rs"]
mod records;
mod sequences;
#[expect(dead_code, reason = "shared with the property tests, which use more of it")]
#[path = "../property/sinks.rs"]
mod sinks;
mod storing;
#[path = "../property/told.rs"]
mod told;
#[path = "../property/triggers.rs"]
mod triggers;
mod verdict;
mod watch;
#[path = "../property/wide.rs"]
mod wide;
#[path = "../property/windows.rs"]
mod windows;
mod world;

use probes::Probes;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Sabotage, World};

/// Seeds that have failed once, one a line.
const KEPT: &str = include_str!("seeds.txt");
/// Fresh seeds, unless the environment says otherwise.
const FRESH: u64 = 300;

/// Runs one seed to its end and judges it; what it came by, or how it failed.
fn simulate(seed: u64, sabotage: Option<Sabotage>) -> Result<Probes, Failed> {
    let mut world = World::new(seed, sabotage);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        world.run();
        verdict::judge(&mut world);
    }));
    match ended {
        Ok(()) => {
            if world.options.plan.engine == nilometer_model::engine::Engine::Batch {
                world.probes.hit("batch");
            }
            Ok(world.probes)
        }
        Err(panic) => Err(Failed { panic, trace: world.trace() }),
    }
}

/// How a run has failed.
struct Failed {
    panic: Box<dyn std::any::Any + Send>,
    /// The last steps.
    trace: String,
}

impl Failed {
    /// What the check said that failed.
    fn said(&self) -> String {
        let text = self.panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| self.panic.downcast_ref::<&str>().map(|text| (*text).into()));
        text.unwrap_or_default()
    }
}

/// How many seeds have been run, of how many: told now and then, so that it is seen to go on.
struct Progress {
    done: AtomicU64,
    all: u64,
}

impl Progress {
    const fn of(all: u64) -> Self {
        Self { done: AtomicU64::new(0), all }
    }

    fn one_more(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(FRESH) {
            println!("{done} of {} seeds", self.all);
        }
    }
}

/// Runs seeds one after the other; the first that fails is told of.
fn run(seeds: impl Iterator<Item = u64>, progress: &Progress) -> Probes {
    let mut probes = Probes::default();
    for seed in seeds {
        progress.one_more();
        match simulate(seed, None) {
            Ok(hit) => probes.add(&hit),
            Err(failed) => {
                println!("the last steps:\n{}", failed.trace);
                println!("again by SIM_SEED={seed} cargo test --test sim");
                resume_unwind(failed.panic);
            }
        }
    }
    probes
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[test]
fn a_node_keeps_its_promises_in_every_interleaving() {
    if let Some(seed) = number("SIM_SEED") {
        run([seed].into_iter(), &Progress::of(1));
        return;
    }
    let kept =
        KEPT.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let kept: Vec<u64> = kept.map(|line| line.parse().unwrap()).collect();
    let (first, fresh) = (RandomState::new().hash_one(0), number("SIM_SEEDS").unwrap_or(FRESH));
    println!("{} seeds kept, {fresh} fresh from {first}", kept.len());
    let progress = Progress::of(fresh + kept.len() as u64);
    let mut probes = run(kept.into_iter(), &progress);
    // As many at a time as there are cores: each run is alone on its thread.
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let parts: Vec<_> = std::thread::scope(|scope| {
        let part = |own: usize| {
            let (progress, seeds) = (&progress, (own as u64..fresh).step_by(cores));
            scope.spawn(move || run(seeds.map(|number| first.wrapping_add(number)), progress))
        };
        let parts: Vec<_> = (0..cores).map(part).collect();
        parts
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    parts.iter().for_each(|part| probes.add(part));
    println!("{probes:?}");
    if fresh >= FRESH {
        let missed = probes.missed();
        assert!(missed.is_empty(), "no run has come by: {missed:?}");
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..5 {
        let trace = || {
            let mut world = World::new(seed, None);
            world.run();
            (world.trace(), world.watch.panes, world.outputs.map(|output| output.settled()))
        };
        assert_eq!(trace(), trace());
    }
}
