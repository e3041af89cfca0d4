//! The end of a run: what sinks hold is the batch over what was not dropped, what was dropped is what
//! the rules say, and nothing is left (P1, P9).
//!
//! What a shard drops of a key group depends on what it has heard before of that, and on nothing
//! else: so each key group is judged by the oracle over what was handled of it, in order. What stages above give is the batch over
//! all records but for those.

use crate::sequences;
use crate::sinks::Sinks;
use crate::watch::{Handled, Listed, is_record};
use crate::world::{LATE, World};
use nilometer_model::account::StageAccount;
use nilometer_model::batch::{Closed, Evaluation, Place, evaluate_without, readers};
use nilometer_model::invariant::{GC_1, LATE_1, ROLL_1};
use nilometer_model::late::LateReason;
use nilometer_model::value::Value;
use std::collections::BTreeMap;

/// Judges a run that has ended.
pub(crate) fn judge(world: &mut World) {
    for (number, shard) in world.node.shards.iter().enumerate() {
        let shard = shard.node.shard();
        assert!(shard.is_empty(), "{GC_1}: shard {number} still has {:?}", shard.windows());
    }
    let late = world.outputs[LATE].settled().into_iter();
    let late: Vec<_> = late.map(|number| &world.watch.late[number as usize]).collect();
    if sequences::of(&world.options.job).is_some() {
        account(world, &late);
        return sequences::judge(world);
    }
    let totals = expected(world, &late);
    let plan = &world.options.plan;
    let is_observed =
        |place: &Place| plan.stage(&place.grouping).is_some_and(|stage| !stage.sinks.is_empty());
    let wanted: BTreeMap<_, _> = totals.iter().filter(|(place, _)| is_observed(place)).collect();
    let published = world.published();
    let sinks = Sinks::of(plan, &published).unwrap_or_else(|rule| panic!("{rule}"));
    let sinks = sinks.settle(plan, &wanted).unwrap_or_else(|rule| panic!("{rule}"));
    for place in wanted.keys() {
        assert!(sinks.has(place), "{ROLL_1}: no sink has {place:?}");
    }
    for place in sinks.places() {
        let values = wanted.get(place);
        let values = values.unwrap_or_else(|| panic!("{ROLL_1}: the batch has no {place:?}"));
        let stage = plan.stage(&place.grouping).unwrap();
        let difference = sinks.differs(stage, place, values);
        assert!(difference.is_none(), "{ROLL_1}: {place:?}: {difference:?}");
    }
    account(world, &late);
}

/// Every record and every copy is counted once.
fn account(world: &World, late: &[&Listed]) {
    let read: usize = world.options.partitions.iter().map(|known| known.entries.len()).sum();
    let handled: u64 = world.node.shards.iter().map(|shard| shard.node.records_taken()).sum();
    let rejected: u64 =
        world.node.sources.iter().map(|source| source.account.malformed.total()).sum();
    assert_eq!(read as u64, handled + rejected, "a record is missing");
    let mut counted: BTreeMap<LateReason, u64> = BTreeMap::new();
    // Stage by stage: what had no outcome yet when it was stored has it on the shard that its key is on
    // since then, and was assigned on another.
    let mut accounts: Vec<StageAccount> = Vec::new();
    for shard in &world.node.shards {
        let own = shard.node.shard().accounts();
        accounts.resize_with(own.len(), StageAccount::default);
        accounts.iter_mut().zip(&own).for_each(|(account, own)| account.merge(own));
    }
    for account in accounts {
        assert!(StageAccount::is_balanced(&account), "{account:?}");
        for (reason, count) in [
            (LateReason::Expired, account.expired),
            (LateReason::Closed, account.closed),
            (LateReason::Refused, account.refused),
            (LateReason::Overflow, account.overflow),
        ] {
            *counted.entry(reason).or_default() += count;
        }
    }
    for (reason, count) in counted {
        let told = late.iter().filter(|late| late.reason == reason).count();
        assert_eq!(count, told as u64, "{LATE_1}: {reason:?} copies that nobody is told of");
    }
}

/// The totals that there must be; checks on the way that each shard drops what it must.
fn expected(world: &World, copies: &[&Listed]) -> BTreeMap<Place, Vec<Value>> {
    let (job, watch) = (&world.options.job, &world.watch);
    let readers = readers(job, &world.options.plan);
    let mut totals = BTreeMap::new();
    let is_merging = |place: &Place| {
        let grouping = job.groupings.iter().find(|grouping| grouping.name == place.grouping);
        grouping.is_some_and(|grouping| grouping.window.is_merging())
    };
    let mut all = Vec::new();
    let mut dropped = Closed::new();
    for (group, log) in watch.logs.iter().enumerate() {
        let late = || copies.iter().filter(move |late| late.group == group);
        let mut numbers = BTreeMap::new();
        for (index, handled) in log.iter().filter(|one| is_record(one)).enumerate() {
            let Handled { record, arrival, .. } = handled;
            numbers.insert(*record, index);
            for copy in late().filter(|copy| copy.record == *record && is_dropped(copy)) {
                dropped.insert((all.len(), copy.place.clone()));
            }
            all.push(arrival.clone());
        }
        let closed = late().filter(|copy| copy.reason == LateReason::Closed);
        let closed = closed.map(|copy| (numbers[&copy.record], copy.place.clone())).collect();
        let arrivals: Vec<_> = log.iter().map(|handled| handled.arrival.clone()).collect();
        let own = evaluate_without(job, &readers, &arrivals, &closed).unwrap();
        check_dropped(copies, group, &own);
        totals.extend(own.totals.into_iter().filter(|(place, _)| is_merging(place)));
    }
    let together = evaluate_without(job, &readers, &all, &dropped).unwrap();
    totals.extend(together.totals.into_iter().filter(|(place, _)| !is_merging(place)));
    totals
}

fn is_dropped(late: &Listed) -> bool {
    late.reason != LateReason::Late
}

/// What a shard has dropped of a key group is what the oracle says.
fn check_dropped(copies: &[&Listed], group: usize, own: &Evaluation) {
    for (reason, wanted) in
        [(LateReason::Expired, &own.expired), (LateReason::Refused, &own.refused)]
    {
        let mut told: BTreeMap<Place, u64> = BTreeMap::new();
        let listed = copies.iter().filter(|late| (late.group, late.reason) == (group, reason));
        for late in listed {
            *told.entry(late.place.clone()).or_default() += 1;
        }
        assert_eq!(&told, wanted, "{LATE_1}: {reason:?} in key group {group}");
    }
}
