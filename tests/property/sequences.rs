//! Sequences: whatever the order of arrival, the cut of batches, the shards and the crashes, what is
//! told in the end is what comes of all records sorted, cut and run through the chain; what comes
//! late is corrected by the rules; and what reads sessions is always the sum over those that are told.

use crate::chains::{KEY, STEP_FIELDS, groupings, marks, specs};
use crate::config;
use crate::told::{held, is_early, is_told, live, sorted};
use crate::world::World;
use nilometer_model::account::StageAccount;
use nilometer_model::batch::{
    Fates, Placed, Record, Round, Session, Sessions, judge_sequence, roll_up,
};
use nilometer_model::engine::Engine;
use nilometer_model::invariant::{COLD_1, GC_1, ROLL_1};
use nilometer_model::pane::Timing;
use nilometer_model::plan::{Grouping, Job, Stage};
use nilometer_model::planner::plan_for;
use nilometer_model::row::{Field, Position};
use nilometer_model::sequence::spec::{Bounds, OverflowPolicy, Release, SequenceSpec};
use nilometer_model::sequence::{RecordField, record_fields};
use nilometer_model::time::{EventTime, ProcessingTime, Span, Watermark};
use nilometer_model::value::{Type, Value};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What happens to a node.
#[derive(Debug, Clone)]
enum Step {
    Round(Round),
    /// The clock goes on by so many milliseconds.
    Tick(i64),
    Restart,
}

/// What is run, and how.
#[derive(Clone)]
struct Case {
    spec: SequenceSpec,
    lateness: i64,
    steps: Vec<Step>,
    shards: usize,
    /// Decides the interleaving of messages.
    seed: u64,
    /// Panes that a shard fires at a time.
    slice: usize,
    engine: Engine,
}

impl fmt::Debug for Case {
    /// One line per record: a failure must be readable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, lateness, shards, seed, slice, engine, .. } = self;
        writeln!(f, "{spec:?}")?;
        writeln!(
            f,
            "lateness {lateness}, {shards} shards, seed {seed}, slice {slice}, {engine:?}"
        )?;
        for step in &self.steps {
            match step {
                Step::Round(Round::Records(records)) => {
                    writeln!(f, "batch")?;
                    for Placed { position, record } in records {
                        let (time, values) = (record.time, &record.values);
                        let place = (position.partition, position.offset);
                        writeln!(f, "  @{time} {place:?} {values:?}")?;
                    }
                }
                other => writeln!(f, "{other:?}")?,
            }
        }
        Ok(())
    }
}

/// A record on its way: itself, when it comes, and what is decided by dice.
#[derive(Debug, Clone)]
struct Draft {
    time: i64,
    key: u8,
    marks: Vec<Value>,
    partition: u32,
    comes: u16,
    /// Whether the one before comes again.
    is_copy: bool,
    dice: u8,
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let times =
        prop_oneof![2 => -20_i64..150, 1 => (0_i64..8).prop_map(|at| at * 10), 1 => 0_i64..5];
    let draft =
        (times, 0_u8..3, marks(), 0_u32..3, any::<u16>(), prop::bool::weighted(0.15), any::<u8>());
    let draft = draft.prop_map(|(time, key, marks, partition, comes, is_copy, dice)| Draft {
        time,
        key,
        marks,
        partition,
        comes,
        is_copy,
        dice,
    });
    prop::collection::vec(draft, 0..45)
}

/// How records come.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Anyhow; the watermark promises nothing that is not kept.
    InTime,
    /// Nearly by event time; the watermark promises too much.
    Late,
}

/// The records, copies among them.
fn place(drafts: &[Draft], base: i64) -> Vec<(Draft, Placed)> {
    let mut known: Vec<(Draft, Placed)> = Vec::new();
    let mut offsets = [0_u64; 3];
    for (number, draft) in (0_i128..).zip(drafts) {
        let offset = &mut offsets[draft.partition as usize];
        let position = Position { partition: draft.partition, offset: *offset };
        *offset += 1;
        let record = match known.last().filter(|_| draft.is_copy) {
            Some((_, before)) => before.record.clone(),
            None => {
                let mut values = vec![Value::Int(draft.key.into())];
                values.extend(draft.marks.iter().cloned());
                let id = if draft.dice % 7 == 0 { Value::Null } else { Value::Int(number) };
                values.push(id);
                let time = EventTime::from_millis(base.saturating_add(draft.time));
                Record { time, values }
            }
        };
        known.push((draft.clone(), Placed { position, record }));
    }
    known
}

/// Cuts what comes into batches, with watermarks, ticks and restarts between.
fn steps(
    mut placed: Vec<(Draft, Placed)>,
    order: Order,
    (slack, batch): (i64, usize),
) -> Vec<Step> {
    match order {
        Order::InTime => placed.sort_by_key(|(draft, _)| draft.comes),
        Order::Late => placed.sort_by_key(|(draft, _)| draft.time + i64::from(draft.comes % 60)),
    }
    let mut steps = Vec::new();
    let mut open = Vec::new();
    let mut highest = EventTime::MIN;
    for (index, (draft, record)) in placed.iter().enumerate() {
        highest = highest.max(record.record.time);
        open.push(record.clone());
        let dice = draft.dice;
        if open.len() >= batch || dice % 3 == 0 {
            steps.push(Step::Round(Round::Records(std::mem::take(&mut open))));
        }
        if dice % 3 == 0 {
            let to_come = placed.iter().skip(index + 1).map(|(_, placed)| placed.record.time);
            let promised = match order {
                Order::InTime => to_come.min(),
                Order::Late => {
                    Some(highest.min(EventTime::LAST).saturating_sub(Span::from_millis(slack)))
                }
            };
            let promised = promised.filter(|promised| *promised < EventTime::MAX);
            steps.extend(
                promised.map(|promised| Step::Round(Round::Watermark(Watermark(promised)))),
            );
        }
        if dice % 5 == 0 {
            steps.push(Step::Tick(i64::from(dice)));
        }
        if dice % 11 == 0 {
            steps.push(Step::Restart);
        }
    }
    steps.extend((!open.is_empty()).then_some(Step::Round(Round::Records(open))));
    steps
}

fn cases(order: Order) -> impl Strategy<Value = Case> {
    let bases = prop_oneof![
        8 => Just(0_i64),
        1 => Just(1_700_000_000_000),
        1 => Just(i64::MAX - 50),
        1 => Just(i64::MIN + 10),
    ];
    let lateness = prop_oneof![1 => Just(0_i64), 2 => Just(20), 1 => Just(1000)];
    let how = (
        prop_oneof![Just(1_usize), Just(2), Just(7)],
        any::<u64>(),
        prop_oneof![Just(1_usize), Just(4_096)],
    );
    (specs(), drafts(), bases, lateness, 0_i64..40, 1_usize..9, how).prop_map(
        move |(mut spec, drafts, base, lateness, slack, batch, (shards, seed, slice))| {
            let placed = place(&drafts, base);
            if matches!(order, Order::InTime) {
                // A key with twice as many records as a session may have is let in before its time.
                let of_key =
                    |key: u8| placed.iter().filter(move |(draft, _)| draft.key == key).count();
                let most = (0..3).map(of_key).max().unwrap_or(0) as u32;
                let most = most
                    .max(placed.iter().filter(|(draft, _)| draft.is_copy).count() as u32 + most);
                spec.max_events_per_session = spec.max_events_per_session.max(most / 2 + 1);
            }
            let steps = steps(placed, order, (slack, batch));
            Case { spec, lateness, steps, shards, seed, slice, engine: Engine::Streaming }
        },
    )
}

impl Case {
    fn job(&self) -> Job {
        let fields = [(KEY, Type::U8)].into_iter().chain(STEP_FIELDS);
        let fields = fields.map(|(name, ty)| Field::new(name, ty)).collect();
        let groupings = groupings(self.spec.clone(), Span::from_millis(self.lateness));
        Job { shard_by: Some(vec![KEY.into()]), key_groups: 16, ..Job::new("p", fields, groupings) }
    }

    fn world(&self) -> World {
        let plan = plan_for(&self.job(), self.engine).unwrap_or_else(|errors| panic!("{errors:?}"));
        World::new(Arc::new(plan), self.shards, self.seed).in_slices(self.slice)
    }

    fn rounds(&self) -> Vec<Round> {
        let rounds = self.steps.iter().filter_map(|step| match step {
            Step::Round(round) => Some(round.clone()),
            Step::Tick(_) | Step::Restart => None,
        });
        rounds.collect()
    }

    /// What comes of all records together, without any watermark.
    fn all_at_once(&self) -> Sessions {
        let records = self.rounds().into_iter().filter_map(|round| match round {
            Round::Records(records) => Some(records),
            Round::Watermark(_) => None,
        });
        let all = [Round::Records(records.flatten().collect())];
        self.judged((&all, false))
    }

    fn judged(&self, rounds: (&[Round], bool)) -> Sessions {
        let job = self.job();
        let sequence: &Grouping = &job.groupings[0];
        judge_sequence(&job, sequence, rounds)
    }
}

/// Plays some steps.
fn play(world: &mut World, case: &Case, steps: &[Step], restarts: bool) {
    play_watched(world, case, (steps, restarts), |_| ());
}

/// Plays some steps, with a look at the node after each.
fn play_watched(
    world: &mut World,
    case: &Case,
    (steps, restarts): (&[Step], bool),
    mut look: impl FnMut(&World),
) {
    let job = case.job();
    let mut now = 0;
    for step in steps {
        match step {
            Step::Round(Round::Records(records)) => world.placed(&job, records),
            Step::Round(Round::Watermark(watermark)) => match case.engine {
                Engine::Streaming => world.watermark(*watermark),
                Engine::MicroBatch(_) => world.cycle(*watermark),
                Engine::Batch => {}
            },
            Step::Tick(length) => {
                now += length;
                world.tick(ProcessingTime::from_millis(now));
            }
            Step::Restart if restarts => world.restart_anyhow(),
            Step::Restart => {}
        }
        look(world);
    }
}

fn run(case: &Case, restarts: bool) -> World {
    let mut world = case.world();
    play(&mut world, case, &case.steps, restarts);
    world.end();
    world
}

/// What groups hold is the sum over the sessions that are told, and nothing is left.
fn check_sums(case: &Case, world: &World) -> Result<Vec<Session>, TestCaseError> {
    let stage = world.plan.stage("sessions").unwrap();
    let live = live(&case.spec, stage, &world.panes).map_err(TestCaseError::fail)?;
    prop_assert!(world.is_empty(), "{GC_1}");
    let accounts = world.accounts();
    prop_assert!(accounts.iter().all(StageAccount::is_balanced), "{accounts:?}");
    let expected = roll_up(&case.job(), &live).unwrap();
    for stage in world.plan.stages.iter().filter(|stage| stage.sequence.is_none()) {
        let stage: &Stage = stage;
        let mut held = held(stage, &world.panes).map_err(TestCaseError::fail)?;
        held.retain(|_, values| values[0] != Value::Int(0));
        let wanted = expected.iter().filter(|(place, _)| place.grouping == stage.name);
        let wanted: BTreeMap<_, _> =
            wanted.map(|(place, values)| (place.clone(), values.clone())).collect();
        prop_assert_eq!(held, wanted, "{} {}", ROLL_1, stage.name);
    }
    let account = &accounts[world.plan.stage("sessions").unwrap().id.index()];
    let at = record_fields(&case.spec).iter().position(|(field, _)| *field == RecordField::Events);
    let told: i128 = live
        .iter()
        .map(|session| match session.values[at.unwrap()] {
            Value::Int(count) => count,
            _ => 0,
        })
        .sum();
    let counted = i128::from(account.on_time + account.late);
    let at_most = counted + i128::from(account.late_no_effect);
    prop_assert!((counted..=at_most).contains(&told), "{told} records told: {account:?}");
    Ok(live)
}

/// The run gives what the oracle says, to the record.
fn check(case: &Case, world: &World, expected: &Sessions) -> Result<(), TestCaseError> {
    let live = check_sums(case, world)?;
    let is_told = |field| is_told(&case.spec, field);
    let wanted = sorted(&case.spec, &expected.sessions, is_told);
    prop_assert_eq!(sorted(&case.spec, &live, is_told), wanted);
    if !is_early(&case.spec) {
        let by_time = |sessions: &[Session]| {
            let mut times: Vec<_> =
                sessions.iter().map(|one| (one.key.clone(), one.time)).collect();
            times.sort();
            times
        };
        prop_assert_eq!(by_time(&live), by_time(&expected.sessions));
    }
    let account = &world.accounts()[world.plan.stage("sessions").unwrap().id.index()];
    let fates = Fates {
        on_time: account.on_time,
        late: account.late + account.late_no_effect,
        duplicate: account.duplicate,
        expired: account.expired,
        overflow: account.overflow,
        unknown_step: account.unknown_step,
    };
    prop_assert_eq!(fates, expected.fates);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// Any order, any batches, any shards, restarts: all records sorted, cut and run.
    #[test]
    fn any_order_in_time_gives_what_sorted_records_give(case in cases(Order::InTime)) {
        let expected = case.all_at_once();
        prop_assert_eq!(expected.fates.late + expected.fates.expired, 0);
        for restarts in [false, true] {
            let world = run(&case, restarts);
            check(&case, &world, &expected)?;
            let late = world.panes.iter().find(|pane| pane.meta.timing == Timing::Late);
            prop_assert!(is_early(&case.spec) || late.is_none(), "{late:?}");
        }
    }

    /// The same on the other engines.
    #[test]
    fn any_engine_gives_what_sorted_records_give(case in cases(Order::InTime), choice in 0_usize..2) {
        use nilometer_model::engine::Pace;
        let expected = case.all_at_once();
        let engine = [Engine::Batch, Engine::MicroBatch(Pace::Records(2))][choice];
        let case = Case { engine, ..case };
        check(&case, &run(&case, engine != Engine::Batch), &expected)?;
    }

    /// What comes late is corrected, or counted, by the rules.
    #[test]
    fn late_records_correct_what_was_told_by_the_rules(case in cases(Order::Late)) {
        let expected = case.judged((&case.rounds(), true));
        check(&case, &run(&case, false), &expected)?;
        check(&case, &run(&case, true), &expected)?;
    }

    /// A restart in the middle of a cycle changes nothing either, whatever is late in it.
    #[test]
    fn a_restart_changes_no_cycle(case in cases(Order::Late)) {
        use nilometer_model::engine::Pace;
        let case = Case { engine: Engine::MicroBatch(Pace::Records(2)), ..case };
        let [whole, again] = [false, true].map(|restarts| run(&case, restarts));
        let expected = check_sums(&case, &whole)?;
        let stage = again.plan.stage("sessions").unwrap();
        let found = live(&case.spec, stage, &again.panes).map_err(TestCaseError::fail)?;
        let told = |sessions: &[Session]| sorted(&case.spec, sessions, |_| true);
        prop_assert_eq!(told(&found), told(&expected));
        let accounts = again.accounts();
        prop_assert!(accounts.iter().all(StageAccount::is_balanced), "{accounts:?}");
        let [late, wanted] = [&again, &whole].map(|world| {
            let account = &world.accounts()[0];
            [account.late, account.late_no_effect]
        });
        prop_assert_eq!(late, wanted);
        prop_assert!(again.is_empty(), "{GC_1}");
    }

    /// A crash anywhere: what was cut before is gone on with, by the same watermark.
    #[test]
    fn a_crash_changes_no_session(
        case in cases(Order::Late), cut in 0_usize..30, crash in 0_usize..30,
    ) {
        let expected = case.judged((&case.rounds(), true));
        let mut world = case.world();
        let (before, behind) = case.steps.split_at(cut.min(case.steps.len()));
        play(&mut world, &case, before, false);
        let epoch = world.epoch();
        play(&mut world, &case, &behind[..crash.min(behind.len())], true);
        world.go_back(&epoch);
        play(&mut world, &case, behind, false);
        world.end();
        check(&case, &world, &expected)?;
    }

    /// Keys that nothing comes for lie in pages: nothing changes, and no page stays.
    #[test]
    fn sessions_are_the_same_within_any_budget(
        case in cases(Order::Late), budget in prop_oneof![Just(1_usize), 500..5_000_usize],
    ) {
        let expected = case.judged((&case.rounds(), true));
        let mut world = case.world();
        world.keep_within(Some(budget));
        play(&mut world, &case, &case.steps, true);
        world.end();
        check(&case, &world, &expected)?;
        for _ in 0..3 {
            world.cut();
        }
        prop_assert_eq!(world.page_count(), 0, "{} pages stay", GC_1);
        let alone = Case { shards: 1, ..case };
        let mut tight = alone.world();
        tight.keep_within(Some(budget));
        play(&mut tight, &alone, &alone.steps, false);
        tight.end();
        let free = run(&alone, false);
        prop_assert_eq!(crate::laws::sorted(&free.panes), crate::laws::sorted(&tight.panes), "{}", COLD_1);
        prop_assert_eq!(free.accounts(), tight.accounts());
    }

    /// With bounds of every policy, and a clock that lets in and closes: still no session twice, all
    /// sums right, every record accounted for, nothing left.
    #[test]
    fn bounds_and_the_clock_break_no_sum(
        case in cases(Order::Late), sessions in prop::option::of(1_u64..4),
        bytes in prop::option::of(1_u64..2_000), policy in 0_usize..3,
        idle in prop::option::of(1_i64..200), budget in prop::option::of(Just(1_usize)),
    ) {
        let mut case = case;
        let policies = [OverflowPolicy::EmitEarlyOldest, OverflowPolicy::DropNewest, OverflowPolicy::PauseSource];
        let policy = policies[policy];
        // Sources that wait need the clock.
        let idle = idle.or((policy == OverflowPolicy::PauseSource).then_some(50));
        case.spec.idle_timeout_processing = idle.map(Span::from_millis);
        case.spec.bounds = Bounds { sessions, bytes, policy };
        if idle.is_some() && matches!(case.spec.release, Release::BoundedWait(_)) {
            case.spec.release = Release::BoundedWait(Span::from_millis(100));
        }
        if sessions.is_some() || bytes.is_some() {
            case.shards = 1;
        }
        let mut world = case.world();
        world.keep_within(budget);
        let mut most = (0, 0);
        play_watched(&mut world, &case, (&case.steps, false), |world| {
            let used = world.sequence();
            most = (most.0.max(used.sessions), most.1.max(used.bytes));
        });
        world.end();
        check_sums(&case, &world)?;
        if policy != OverflowPolicy::PauseSource {
            // The key of the last record, and its records until it is their turn.
            let own = 600 + 56 * 2 * case.spec.max_events_per_session as usize;
            // What was told of it early is kept.
            let told = 8 * 2 * record_fields(&case.spec).len() + 200;
            let own = if is_early(&case.spec) { own + told } else { own };
            prop_assert!(sessions.is_none_or(|sessions| most.0 <= sessions as usize), "{most:?}");
            prop_assert!(bytes.is_none_or(|bytes| most.1 <= bytes as usize + own), "{most:?}");
        }
        let account = &world.accounts()[world.plan.stage("sessions").unwrap().id.index()];
        let records = case.rounds().iter().map(|round| match round {
            Round::Records(records) => records.len() as u64,
            Round::Watermark(_) => 0,
        }).sum::<u64>();
        let fates = [
            account.on_time, account.late, account.late_no_effect, account.duplicate,
            account.expired, account.overflow, account.unknown_step,
        ];
        prop_assert_eq!(fates.iter().sum::<u64>(), records, "{:?}", account);
    }
}

/// The property says something: sessions do go into pages, and come back.
#[test]
fn sessions_go_and_come_back() {
    let mut runner = TestRunner::deterministic();
    let mut moved = (0, 0);
    for _ in 0..30 {
        let case = cases(Order::Late).new_tree(&mut runner).unwrap().current();
        let mut world = case.world();
        world.keep_within(Some(1));
        play(&mut world, &case, &case.steps, false);
        world.end();
        moved = (moved.0 + world.moved().0, moved.1 + world.moved().1);
    }
    assert!(moved.0 > 20 && moved.0 == moved.1, "{moved:?}");
}
