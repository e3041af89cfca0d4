//! The three engines over one plan: the same totals where nothing expires, and each in its own way
//! of getting there.

use crate::job::Style;
use crate::laws::sorted;
use crate::records::{Event, arrivals};
use crate::world::{Seen, World};
use crate::{Case, cases, check_run, config, planned, play, run};
use nilometer_model::batch::Arrival;
use nilometer_model::engine::{Engine, Pace};
use nilometer_model::invariant::SHARD_1;
use nilometer_model::pane::{PaneKind, Timing};
use nilometer_model::time::Watermark;
use proptest::prelude::*;
use std::collections::BTreeSet;

const MICRO_BATCH: Engine = Engine::MicroBatch(Pace::Records(1));

/// The script with cycles in the place of watermarks, by bits of `choices`: some watermarks end no
/// cycle, some batches end one.
fn in_cycles(script: &[Event], mut choices: u64) -> Vec<Event> {
    let mut choose = || {
        choices = choices.rotate_right(1);
        choices & 1 == 1
    };
    let mut reached = Watermark::MIN;
    let mut cycles = Vec::new();
    for event in script {
        match event {
            Event::Batch(_) | Event::Tick(_) | Event::Signal | Event::Restart => {
                cycles.push(event.clone());
            }
            Event::Watermark(watermark) => reached = reached.max(*watermark),
        }
        if choose() {
            cycles.push(Event::Watermark(reached));
        }
    }
    cycles
}

/// Micro-batches of a case, and what they must give.
pub(crate) fn micro(case: &Case, choices: u64) -> Case {
    Case { script: in_cycles(&case.script, choices), engine: MICRO_BATCH, ..case.clone() }
}

/// Runs a stream whose watermark has stood still for too long behind some events, by bits of
/// `choices`: its windows emit what they hold.
pub(crate) fn timed_out(case: &Case, (mut choices, slice): (u64, usize), restarts: bool) -> World {
    let mut world = World::new(planned(case), case.shards, case.seed).in_slices(slice);
    let mut reached = Watermark::MIN;
    for event in &case.script {
        play(&mut world, case, std::slice::from_ref(event), restarts);
        if let Event::Watermark(watermark) = event {
            reached = reached.max(*watermark);
        }
        choices = choices.rotate_right(1);
        if choices & 1 == 1 {
            world.cycle(reached);
        }
    }
    world.end();
    world
}

/// What arrives, watermarks forgotten: the batch.
pub(crate) fn all(case: &Case) -> Vec<Arrival> {
    let mut all = arrivals(&case.script);
    all.retain(|arrival| matches!(arrival, Arrival::Record(_)));
    all
}

/// Inserts of each place.
fn inserts(world: &World) -> Vec<&Seen> {
    sorted(world.panes.iter().filter(|pane| pane.meta.kind == PaneKind::Insert))
}

proptest! {
    #![proptest_config(config())]

    /// Streaming, micro-batch and batch end with the totals of the batch where nothing expires.
    #[test]
    fn all_engines_end_with_the_same_totals(case in cases(Style::Patient), choices in any::<u64>()) {
        let batch = Case { engine: Engine::Batch, ..case.clone() };
        for case in [micro(&case, choices), batch, case] {
            let world = run(&case, false);
            // Nothing expires: so it is the batch over everything.
            prop_assert!(world.dropped.is_empty(), "{:?}", case.engine);
            check_run(&case, &world)?;
        }
    }

    /// A batch drops nothing, whatever the lateness, and fires each window once: on time and last.
    #[test]
    fn a_batch_fires_each_window_once(case in cases(Style::Any)) {
        let case = Case { engine: Engine::Batch, ..case };
        let world = run(&case, false);
        check_run(&case, &world)?;
        let mut places = BTreeSet::new();
        for pane in &world.panes {
            let meta = pane.meta;
            let is_whole = meta.timing == Timing::OnTime && meta.is_last && meta.index == 0;
            prop_assert!(is_whole && meta.kind == PaneKind::Insert, "{pane:?}");
            let place = (pane.stage, pane.key.clone(), meta.window, meta.is_other);
            prop_assert!(places.insert(place), "fired twice: {pane:?}");
        }
    }

    /// Windows that emit by the clock what they hold change nothing but when it is told: total and
    /// dropped stay those of the stream, what follows such a pane is late, and a restart is not seen.
    #[test]
    fn time_that_runs_out_changes_no_total(case in cases(Style::Any), choices in any::<u64>()) {
        for shards in [1, 3] {
            let case = Case { shards, ..case.clone() };
            check_run(&case, &timed_out(&case, (choices, usize::MAX), false))?;
        }
        let alone = Case { shards: 1, ..case };
        let run = |restarts| timed_out(&alone, (choices, usize::MAX), restarts);
        let (whole, restarted) = (run(false), run(true));
        prop_assert_eq!(sorted(&whole.panes), sorted(&restarted.panes));
    }

    /// Micro-batches: total and dropped are those of records judged by the watermark of the cycle
    /// before; a window fires at most once a cycle; shards and restarts change nothing, not even
    /// where deltas cross from one shard to another.
    #[test]
    fn micro_batches_fire_what_has_changed_once_a_cycle(
        case in cases(Style::Any), choices in any::<u64>(),
    ) {
        let case = micro(&case, choices);
        let alone = run(&Case { shards: 1, ..case.clone() }, false);
        check_run(&case, &alone)?;
        let cycles = case.script.iter().filter(|event| matches!(event, Event::Watermark(_)));
        let cycles = cycles.count() + 1;
        for pane in inserts(&alone) {
            prop_assert!((pane.meta.index as usize) < cycles, "{cycles} cycles: {pane:?}");
        }
        let restarted = run(&Case { shards: 1, ..case.clone() }, true);
        prop_assert_eq!(sorted(&alone.panes), sorted(&restarted.panes));
        for shards in [2, 7] {
            let world = run(&Case { shards, ..case.clone() }, true);
            prop_assert_eq!(sorted(&alone.panes), sorted(&world.panes), "{}: {} shards", SHARD_1, shards);
            prop_assert_eq!(alone.accounts(), world.accounts());
            prop_assert!(world.is_empty());
        }
    }
}
