//! The properties themselves.

use crate::job::Style;
use crate::records::{Event, arrivals, recut};
use crate::world::{Seen, World};
use crate::{Case, cases, check_run, check_totals, config, run, run_on_any_shards};
use nilometer_model::aggregate::Function;
use nilometer_model::aggregate::side::SideFunction;
use nilometer_model::batch::{Arrival, evaluate};
use nilometer_model::invariant::SHARD_1;
use nilometer_model::pane::{PaneKind, Timing};
use nilometer_model::plan::{AggregateSpec, Stage};
use nilometer_model::time::{EventTime, Span, Watermark};
use nilometer_model::value::Value;
use nilometer_model::watermark::{Generator, Surroundings, WatermarkSettings, WatermarkSpec};
use proptest::prelude::*;

/// Panes by place; those of one place in the order in which they came.
pub(crate) fn sorted<'a>(panes: impl IntoIterator<Item = &'a Seen>) -> Vec<&'a Seen> {
    let mut panes: Vec<_> = panes.into_iter().collect();
    panes.sort_by(|a, b| {
        let place = |pane: &Seen| (pane.stage, pane.meta.window, pane.meta.is_other);
        place(a).cmp(&place(b)).then_with(|| a.key.cmp(&b.key))
    });
    panes
}

/// Whether what reaches the stage has crossed from one shard to another: its input then comes in
/// an order that nobody promises.
pub(crate) fn is_exchanged(world: &World, stage: &Stage) -> bool {
    let parent = stage.input.parent().and_then(|id| world.plan.stages.get(id.index()));
    stage.exchange.is_some() || parent.is_some_and(|parent| is_exchanged(world, parent))
}

pub(crate) fn with_script(case: &Case, script: Vec<Event>) -> Case {
    Case { script, ..case.clone() }
}

/// The same case without the records whose first field is `out`.
pub(crate) fn without(case: &Case, out: &Value) -> Case {
    let script = case.script.iter().map(|event| match event {
        Event::Batch(records) => {
            let kept = records.iter().filter(|record| record.values[0] != *out);
            Event::Batch(kept.cloned().collect())
        }
        Event::Watermark(_) | Event::Tick(_) | Event::Signal | Event::Restart => event.clone(),
    });
    with_script(case, script.collect())
}

proptest! {
    #![proptest_config(config())]

    /// P1, and with it P7 and P8 (every rollup and every pane is looked at), P9.
    #[test]
    fn streaming_equals_the_batch_over_what_was_not_dropped(case in cases(Style::Any)) {
        check_run(&case, &run(&case, false))?;
    }

    /// P1 where nothing expires: the batch over all records, no mark and no cascade known to it.
    #[test]
    fn with_patience_nothing_is_dropped(case in cases(Style::Patient)) {
        let world = run(&case, false);
        let mut all = arrivals(&case.script);
        all.retain(|arrival| matches!(arrival, Arrival::Record(_)));
        let alone: Vec<_> = (0..case.job.groupings.len()).collect();
        let batch = evaluate(&case.job, &alone, &all).unwrap();
        prop_assert!(world.dropped.is_empty());
        check_totals(&case, &world, &batch)?;
    }

    /// Disorder within the out-of-orderness: the generator's watermark makes nothing late.
    #[test]
    fn order_within_the_out_of_orderness_is_in_time(case in cases(Style::Any)) {
        let mut case = case;
        case.job.spread = None;
        for grouping in &mut case.job.groupings {
            for aggregate in &mut grouping.aggregates {
                aggregate.spread = false;
            }
        }
        let case = with_script(&case, generated(&case.script));
        let world = run(&case, false);
        prop_assert!(world.dropped.is_empty());
        let late = world.panes.iter().find(|pane| pane.meta.timing != Timing::OnTime);
        prop_assert!(late.is_none(), "{late:?}");
        check_run(&case, &world)?;
    }

    /// P1 for counts with fewer counters than values: within their errors, for any batches, rollups,
    /// shards and restarts.
    #[test]
    fn frequent_values_are_within_their_errors(
        case in cases(Style::Any), counters in 1_u32..4, restarts in any::<bool>(),
    ) {
        let mut case = case;
        let often = Function::Side(SideFunction::Frequent { k: 300, counters });
        for grouping in case.job.groupings.iter_mut().filter(|known| known.top_k.is_none()) {
            grouping.aggregates.push(AggregateSpec::new("x_counted", often, Some("v")));
        }
        check_run(&case, &run(&case, restarts))?;
    }

    /// P2: a restart at any point changes nothing.
    #[test]
    fn a_restart_changes_nothing(case in cases(Style::Any)) {
        check_run(&case, &run(&case, true))?;
        // With several shards a restart delivers earlier what is on the way.
        let alone = Case { shards: 1, ..case };
        let (before, after) = (run(&alone, false), run(&alone, true));
        prop_assert_eq!(sorted(&before.panes), sorted(&after.panes));
        prop_assert_eq!(before.accounts(), after.accounts());
    }

    /// P2: nor does one with another number of shards, whatever was cut before.
    #[test]
    fn a_restart_with_other_shards_changes_nothing(
        case in cases(Style::Any), choices in any::<u64>(),
    ) {
        check_run(&case, &run_on_any_shards(&case, choices))?;
    }

    /// P3: how records are cut into batches changes no total, no drop and nothing on time.
    #[test]
    fn batch_cuts_change_no_total(case in cases(Style::Any), sizes in [1_usize..4, 4..40]) {
        let mut on_time: Option<Vec<Seen>> = None;
        for size in sizes {
            let cut = Case { shards: 1, ..with_script(&case, recut(&case.script, size)) };
            let world = run(&cut, false);
            check_run(&cut, &world)?;
            // A retract repeats the timing of what it takes back: it may well be late itself.
            let panes = world.panes.iter().filter(|pane| {
                pane.meta.timing == Timing::OnTime && pane.meta.kind == PaneKind::Insert
            });
            let panes: Vec<_> = sorted(panes).into_iter().cloned().collect();
            if let Some(before) = on_time.replace(panes.clone()) {
                prop_assert_eq!(before, panes);
            }
        }
    }

    /// P4: what comes of one key does not depend on others.
    #[test]
    fn keys_do_not_see_each_other(case in cases(Style::SharedColumn), out in 0_i128..3) {
        let out = Value::Int(out);
        let (all, fewer) = (run(&case, false), run(&without(&case, &out), false));
        let others = all.panes.iter().filter(|pane| {
            let stage = &all.plan.stages[pane.stage.index()];
            stage.key.field("a").is_none_or(|field| pane.key.0[field] != out)
        });
        prop_assert_eq!(sorted(others), sorted(&fewer.panes));
    }

    /// P5: the number of shards changes nothing.
    #[test]
    fn shards_change_nothing(case in cases(Style::Any)) {
        let alone = run(&Case { shards: 1, ..case.clone() }, false);
        check_run(&case, &alone)?;
        for shards in [2, 7] {
            let world = run(&Case { shards, ..case.clone() }, false);
            check_run(&case, &world)?;
            for (index, stage) in world.plan.stages.iter().enumerate() {
                if is_exchanged(&world, stage) {
                    continue;
                }
                let of = |world: &World| {
                    let panes = world.panes.iter().filter(|pane| pane.stage == stage.id);
                    sorted(panes).into_iter().cloned().collect::<Vec<_>>()
                };
                prop_assert_eq!(of(&alone), of(&world), "{}: {} shards", SHARD_1, shards);
                let accounts = (&alone.accounts()[index], &world.accounts()[index]);
                prop_assert_eq!(accounts.0, accounts.1);
            }
        }
    }
}

/// The script with the watermarks of a generator whose out-of-orderness is the records' own.
fn generated(script: &[Event]) -> Vec<Event> {
    let mut out_of_orderness = 0_i64;
    let mut highest = i64::MIN;
    for arrival in arrivals(script) {
        if let Arrival::Record(record) = arrival {
            let time = record.time.as_millis();
            highest = highest.max(time);
            out_of_orderness = out_of_orderness.max(highest.saturating_sub(time));
        }
    }
    let spec = WatermarkSpec::Bounded { out_of_orderness: Span::from_millis(out_of_orderness) };
    let mut generator = Generator::new(WatermarkSettings::new(spec), &[]);
    let mut given = Watermark(EventTime::MIN);
    let mut events = Vec::new();
    for event in script {
        let Event::Batch(records) = event else { continue };
        events.push(event.clone());
        for record in records {
            generator.observe(record.time, Surroundings::default());
        }
        given = given.max(generator.watermark());
        events.push(Event::Watermark(given));
    }
    events
}
