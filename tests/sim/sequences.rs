//! Runs of sequences: what is drawn for them, what holds on the way, and how their end is judged.
//!
//! Where neither the clock nor want of room ends a session, what is told in the end is what the
//! oracle makes of what was handled of each key, in that order. In any run nobody holds two records
//! of one session, groups hold the sum over those that stand, every record is counted, and a shard
//! never keeps more sessions than it may.

use crate::chains::{BOUNDLESS, KEY, STEP_FIELDS, groupings, marks, specs};
use crate::dice::Dice;
use crate::node::PUNCTUATION;
use crate::options::millis;
use crate::partition::Partition;
use crate::probes::Probes;
use crate::told::{held, is_told, live, sorted};
use crate::watch::Handled;
use crate::world::World;
use nilometer_model::account::StageAccount;
use nilometer_model::batch::{Arrival, Fates, Placed, Record, Round, judge_sequence, roll_up};
use nilometer_model::engine::Engine;
use nilometer_model::invariant::{LATE_1, ROLL_1};
use nilometer_model::pane::{PaneKind, PaneMeta, Timing};
use nilometer_model::plan::{Job, LateSpec, Stage};
use nilometer_model::row::Field;
use nilometer_model::sequence::spec::{Bounds, OverflowPolicy, Release, SequenceSpec};
use nilometer_model::sequence::{RecordField, SequenceUse, record_fields};
use nilometer_model::time::{EventTime, Span};
use nilometer_model::value::{Type, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A sequence and groups of its sessions.
pub(crate) fn job(dice: &mut Dice) -> Job {
    let mut spec = dice.draw(&specs());
    if dice.one_in(3) {
        spec.idle_timeout_processing = Some(millis(dice.between(1, 200)));
        if let Release::BoundedWait(wait) = &mut spec.release {
            *wait = millis(dice.between(1, 100));
        }
    }
    if dice.one_in(3) {
        let policies = [
            OverflowPolicy::EmitEarlyOldest,
            OverflowPolicy::DropNewest,
            OverflowPolicy::PauseSource,
        ];
        let policy = dice.pick(&policies);
        if policy == OverflowPolicy::PauseSource {
            // Sources that wait need the clock.
            spec.idle_timeout_processing.get_or_insert(millis(50));
        }
        spec.bounds = Bounds { sessions: Some(dice.between(1, 4) as u64), policy, ..BOUNDLESS };
    }
    let fields =
        [(KEY, Type::U8)].into_iter().chain(STEP_FIELDS).chain([(PUNCTUATION, Type::Bool)]);
    let fields = fields.map(|(name, ty)| Field::new(name, ty)).collect();
    // So long a source would wait for each session.
    let longest = if spec.bounds.policy == OverflowPolicy::PauseSource { 20 } else { 1_000 };
    let mut groupings = groupings(spec, millis(dice.pick(&[0, 20, longest, longest])));
    for grouping in groupings.iter_mut().filter(|grouping| grouping.sequence.is_some()) {
        grouping.late = Some(LateSpec { sink: "late".into(), include_late: true });
    }
    Job { shard_by: Some(vec![KEY.into()]), key_groups: 16, ..Job::new("p", fields, groupings) }
}

/// The values of a record, in the order of the fields.
pub(crate) fn values(dice: &mut Dice, keys: i64) -> Vec<Value> {
    let mut values = vec![Value::Int(dice.between(0, keys - 1).into())];
    values.extend(dice.draw(&marks()));
    let id = if dice.one_in(7) { Value::Null } else { Value::Int(dice.between(0, 1 << 30).into()) };
    values.extend([id, Value::Bool(dice.one_in(2))]);
    values
}

/// The sequence of a run, if it is of that kind.
pub(crate) fn of(job: &Job) -> Option<&Arc<SequenceSpec>> {
    job.groupings.iter().find_map(|grouping| grouping.sequence.as_ref())
}

/// Lets some records come again, as copies.
pub(crate) fn copy_some(dice: &mut Dice, partitions: &mut [Partition]) {
    let mut known: Vec<Record> = Vec::new();
    for entry in partitions.iter_mut().flat_map(|partition| &mut partition.entries) {
        if !known.is_empty() && dice.one_in(8) {
            entry.record = known[dice.below(known.len())].clone();
        }
        known.push(entry.record.clone());
    }
}

/// By shard: how many sessions it kept when it was looked at last.
pub(crate) type Kept = BTreeMap<usize, usize>;

/// A shard has handled a message.
pub(crate) fn after(
    (spec, shards): (&SequenceSpec, usize),
    (shard, used): (usize, SequenceUse),
    kept: &mut Kept,
) {
    let before = kept.insert(shard, used.sessions).unwrap_or(usize::MAX);
    let Bounds { sessions: Some(most), policy, .. } = spec.bounds else { return };
    let most = (most as usize).div_ceil(shards);
    match policy {
        OverflowPolicy::EmitEarlyOldest | OverflowPolicy::DropNewest => {
            let is_bounded = used.sessions <= most.max(before);
            assert!(
                is_bounded,
                "BOUND: {used:?} in shard {shard}, {before} before, {:?}",
                spec.bounds
            );
        }
        // What is on its way comes in.
        OverflowPolicy::PauseSource | OverflowPolicy::Fail => {}
    }
}

/// Until when the session that began at `first` may be kept.
pub(crate) fn kept_until(spec: &SequenceSpec, stage: &Stage, first: EventTime) -> EventTime {
    let delay = match spec.release {
        Release::WatermarkPlus(delay) => delay,
        Release::Watermark | Release::BoundedWait(_) | Release::Eager | Release::OnTerminal => {
            Span::ZERO
        }
    };
    let closed = first.later(spec.max_session_duration).later(millis(1));
    closed.later(delay.max(stage.allowed_lateness))
}

/// A record of a session is told, or taken back.
pub(crate) fn told(
    spec: &SequenceSpec,
    (meta, values): (&PaneMeta, &[Value]),
    probes: &mut Probes,
) {
    if meta.kind == PaneKind::Retract {
        return;
    }
    let fields = record_fields(spec);
    let at = fields.iter().position(|(field, _)| *field == RecordField::CloseCause).unwrap();
    if let Value::Text(cause) = &values[at] {
        match &**cause {
            "max_age" => probes.hit("endless session is cut by age"),
            "max_events" => probes.hit("endless session is cut by number"),
            "memory" => probes.hit("session is closed for want of room"),
            _ => {}
        }
    }
    match meta.timing {
        Timing::TimedOut => probes.hit("clock closes a session"),
        Timing::Late if meta.index > 0 => probes.hit("session is corrected"),
        Timing::Early if meta.index > 0 => probes.hit("session that goes on is told anew"),
        Timing::Early | Timing::OnTime | Timing::Late => {}
    }
}

/// What a process finds that starts behind an epoch.
pub(crate) fn found(world: &mut World) {
    let shards = world.node.shards.iter().map(|unit| unit.node.shard());
    let used: Vec<_> = shards.map(|shard| shard.sequences().next()).collect();
    for (shard, (_, used)) in
        used.into_iter().enumerate().filter_map(|(at, used)| Some((at, used?)))
    {
        world.watch.kept.insert(shard, used.sessions);
        if used.oldest.is_some() {
            world.probes.hit("start in the midst of a session");
        } else if used.sessions > 0 {
            world.probes.hit("start with sessions that may be corrected");
        }
    }
}

/// What a key group has handled, as the oracle hears of it.
fn rounds(log: &[Handled], engine: Engine) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    let mut open: (u64, Vec<Placed>) = (0, Vec::new());
    // Between cycles nothing is settled.
    let is_one = |a: u64, b: u64| engine != Engine::Streaming || a == b;
    for Handled { position, letter, arrival, .. } in log {
        let ends = match arrival {
            Arrival::Record(_) => !is_one(open.0, *letter),
            Arrival::Watermark(_) => true,
        };
        if ends && !open.1.is_empty() {
            rounds.push(Round::Records(std::mem::take(&mut open.1)));
        }
        match arrival {
            Arrival::Record(record) => {
                open.0 = *letter;
                open.1.push(Placed { position: *position, record: record.clone() });
            }
            Arrival::Watermark(watermark) => rounds.push(Round::Watermark(*watermark)),
        }
    }
    rounds.extend((!open.1.is_empty()).then_some(Round::Records(open.1)));
    rounds
}

/// Whether the oracle knows all that ends a session.
fn is_exact(spec: &SequenceSpec) -> bool {
    spec.idle_timeout_processing.is_none() && spec.bounds.sessions.is_none()
}

/// Judges a run of a sequence that has ended.
pub(crate) fn judge(world: &mut World) {
    let (job, plan) = (world.options.job.clone(), world.options.plan.clone());
    let spec = of(&job).unwrap();
    let stage = plan.stages.iter().find(|stage| stage.sequence.is_some()).unwrap();
    let published = world.published();
    let live = live(spec, stage, &published).unwrap_or_else(|rule| panic!("SESSION: {rule}"));
    let sums = roll_up(&job, &live).unwrap();
    for stage in plan.stages.iter().filter(|stage| stage.sequence.is_none()) {
        let held = held(stage, &published).unwrap_or_else(|rule| panic!("{ROLL_1}: {rule}"));
        let held: BTreeMap<_, _> =
            held.into_iter().filter(|(_, values)| values[0] != Value::Int(0)).collect();
        let wanted = sums.iter().filter(|(place, _)| place.grouping == stage.name);
        let wanted: BTreeMap<_, _> =
            wanted.map(|(place, values)| (place.clone(), values.clone())).collect();
        assert_eq!(held, wanted, "{ROLL_1}: {}", stage.name);
    }
    let fates = fates(world, stage);
    if is_exact(spec) {
        world.probes.hit("sequence that the oracle judges");
        let grouping = job.groupings.iter().find(|one| one.name == stage.name).unwrap();
        let is_live = plan.engine != Engine::Batch;
        let (mut wanted, mut sum) = (Vec::new(), Fates::default());
        for log in &world.watch.logs {
            let rounds = rounds(log, plan.engine);
            let given = judge_sequence(&job, grouping, (&rounds, is_live));
            wanted.extend(given.sessions);
            add(&mut sum, &given.fates);
        }
        let is_told = |field| is_told(spec, field);
        assert_eq!(sorted(spec, &live, is_told), sorted(spec, &wanted, is_told), "SESSION");
        assert_eq!(fates, sum, "{LATE_1}");
    }
}

fn add(sum: &mut Fates, one: &Fates) {
    sum.on_time += one.on_time;
    sum.late += one.late;
    sum.duplicate += one.duplicate;
    sum.expired += one.expired;
    sum.overflow += one.overflow;
    sum.unknown_step += one.unknown_step;
}

/// What became of all records.
fn fates(world: &mut World, stage: &Stage) -> Fates {
    let mut sum = Fates::default();
    for unit in &world.node.shards {
        let account: StageAccount = unit.node.shard().accounts()[stage.id.index()].clone();
        for (count, probe) in [
            (account.duplicate, "copy of a record of a session"),
            (account.unknown_step, "record of a step that is not known"),
            (account.overflow, "record of a session has no room"),
        ] {
            if count > 0 {
                world.probes.hit(probe);
            }
        }
        let late = account.late + account.late_no_effect;
        let StageAccount { on_time, duplicate, expired, overflow, unknown_step, .. } = account;
        add(&mut sum, &Fates { on_time, late, duplicate, expired, overflow, unknown_step });
    }
    sum
}
