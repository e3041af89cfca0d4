//! The coordinator: tables of facts and what follows from them, and what holds for any facts.

use super::*;
use crate::engine::Cycle;
use crate::invariant::WM_1;
use crate::time::{EventTime, ProcessingTime, Span, Watermark};
use proptest::prelude::*;

const IDLE_AFTER: Option<Span> = Some(Span::from_millis(100));

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

fn mark(millis: i64) -> Watermark {
    Watermark(at(millis))
}

fn clock(millis: i64) -> ProcessingTime {
    ProcessingTime::from_millis(millis)
}

fn span(millis: i64) -> Span {
    Span::from_millis(millis)
}

fn coordinator(rules: ProgressRules, partitions: usize) -> Coordinator {
    Coordinator::new(rules, &vec![IDLE_AFTER; partitions], 0)
}

fn plain(partitions: usize) -> Coordinator {
    coordinator(ProgressRules::default(), partitions)
}

fn report(partition: u32, watermark: i64, reader: Reader) -> Progress {
    Progress {
        partition,
        watermark: mark(watermark),
        shares: Vec::new(),
        head: at(watermark),
        reader,
        has_records: false,
    }
}

fn records(partition: u32, watermark: i64) -> Progress {
    Progress { has_records: true, ..report(partition, watermark, Reader::Behind) }
}

/// Records, and nothing behind them.
fn last_records(partition: u32, watermark: i64) -> Progress {
    Progress { has_records: true, ..report(partition, watermark, Reader::AtEnd) }
}

fn silent(partition: u32) -> Progress {
    report(partition, i64::MIN, Reader::AtEnd)
}

fn finished(partition: u32) -> Progress {
    report(partition, i64::MIN, Reader::Finished)
}

fn state(all: &Coordinator, partition: usize) -> PartitionState {
    all.standing().partitions[partition].state
}

#[test]
fn the_watermark_is_the_minimum_and_waits_for_all() {
    let mut all = plain(2);
    assert_eq!(all.progress(&records(0, 50)), None);
    assert_eq!(all.progress(&records(1, 30)), Some(mark(30)));
    assert_eq!(all.holder(), Some(1));
    assert_eq!(all.progress(&records(1, 20)), None);
    assert_eq!(all.watermark(), mark(30));
    assert_eq!(all.progress(&finished(1)), Some(mark(50)));
    assert_eq!(all.progress(&finished(0)), Some(Watermark::MAX));
    assert_eq!(all.progress(&records(7, 0)), None);
    assert_eq!(all.progress(&records(0, 0)), None, "what has ended stays so");
    assert_eq!(state(&all, 0), PartitionState::Finished);
}

#[test]
fn a_partition_that_never_spoke_is_idle_once_its_end_is_confirmed() {
    let mut all = plain(2);
    all.tick(clock(0));
    all.progress(&records(0, 50));
    assert_eq!(all.tick(clock(1_000)), None, "its end is not confirmed");
    all.progress(&silent(1));
    assert_eq!(all.tick(clock(1_099)), None);
    assert_eq!(all.tick(clock(1_100)), Some(mark(50)));
    // A position below the end makes it active at once: what it has may be anything.
    all.progress(&report(1, i64::MIN, Reader::Behind));
    assert_eq!(state(&all, 1), PartitionState::Active);
    assert_eq!(all.progress(&records(0, 60)), None, "it holds");
    assert_eq!(all.progress(&records(1, 55)), Some(mark(55)));
}

#[test]
fn a_partition_that_never_spoke_holds_from_its_first_records_on() {
    let mut all = plain(2);
    all.tick(clock(0));
    all.progress(&records(0, 50));
    all.progress(&silent(1));
    assert_eq!(all.tick(clock(100)), Some(mark(50)));
    all.progress(&last_records(1, -1_000));
    assert_eq!(state(&all, 1), PartitionState::Active);
    assert_eq!(all.progress(&records(0, 60)), None);
}

#[test]
fn a_waking_partition_counts_when_it_has_caught_up_and_never_lowers_the_watermark() {
    let mut all = plain(2);
    all.tick(clock(0));
    all.progress(&records(0, 50));
    all.progress(&last_records(1, 40));
    assert_eq!(all.tick(clock(100)), Some(mark(50)));
    assert_eq!(all.progress(&records(1, 45)), None);
    assert_eq!(state(&all, 1), PartitionState::CatchingUp);
    assert_eq!(all.progress(&records(0, 60)), Some(mark(60)), "still catching up");
    assert_eq!(all.progress(&records(1, 70)), None);
    assert_eq!(all.progress(&records(0, 100)), Some(mark(70)), "it holds again");
}

#[test]
fn the_end_of_its_backlog_is_caught_up_as_well() {
    let mut all = plain(2);
    all.tick(clock(0));
    all.progress(&records(0, 50));
    all.progress(&last_records(1, 40));
    assert_eq!(all.tick(clock(100)), Some(mark(50)));
    all.progress(&records(1, 42));
    all.progress(&report(1, 42, Reader::Blocked));
    assert_eq!(state(&all, 1), PartitionState::CatchingUp, "it may have more");
    all.progress(&last_records(1, 44));
    assert_eq!(state(&all, 1), PartitionState::Active);
    assert_eq!(all.progress(&records(0, 60)), None, "it holds");
    // Silent again, it rests again.
    assert_eq!(all.tick(clock(200)), Some(mark(60)));
}

#[test]
fn a_partition_that_is_said_to_be_idle_holds_no_longer() {
    let mut all = plain(2);
    all.progress(&records(0, 50));
    all.progress(&records(1, 10));
    assert_eq!(all.rest(1), Some(mark(50)));
    assert_eq!(all.rest(7), None);
    assert_eq!(all.progress(&records(1, 20)), None);
    assert_eq!(all.progress(&records(0, 60)), Some(mark(60)), "it is catching up");
    all.progress(&finished(1));
    all.rest(1);
    assert_eq!(state(&all, 1), PartitionState::Finished);
}

#[test]
fn back_pressure_is_no_silence() {
    let mut all = plain(2);
    all.tick(clock(0));
    all.progress(&records(0, 50));
    all.progress(&last_records(1, 40));
    all.tick(clock(60));
    // It had been silent for 60 of its 100 ms when it could not read on.
    all.progress(&report(1, 40, Reader::Blocked));
    assert_eq!(all.tick_watched(clock(10_060)), None);
    all.progress(&report(1, 40, Reader::AtEnd));
    assert_eq!(all.tick(clock(10_099)), None);
    assert_eq!(all.tick(clock(10_100)), Some(mark(50)), "the clock went on where it had stopped");
}

#[test]
fn waiting_for_others_is_no_silence() {
    let rules = ProgressRules { max_drift: Some(span(10)), ..ProgressRules::default() };
    let mut all = coordinator(rules, 2);
    all.tick(clock(0));
    all.wait(0, at(500), mark(490));
    all.wait(1, at(100), mark(90));
    let grants: Vec<_> = all.grants().iter().map(|grant| grant.partition).collect();
    assert_eq!(grants, [1]);
    assert!(all.standing().partitions[0].is_waiting);
    assert_eq!(all.watermark(), mark(90), "who is ahead does not hold");
    for now in (0..10_000).step_by(100) {
        assert_eq!(all.tick(clock(now)), None);
    }
    assert_eq!(state(&all, 0), PartitionState::Active);
    // The one that is behind has come to its end: nobody waits for it, and in time nobody holds
    // back the watermark because of it either.
    all.progress(&last_records(1, 90));
    let grants: Vec<_> = all.grants().iter().map(|grant| grant.partition).collect();
    assert_eq!(grants, [0]);
    assert_eq!(all.progress(&records(0, 490)), None);
    assert_eq!(all.tick(clock(9_999)), None);
    assert_eq!(all.tick(clock(10_099)), Some(mark(490)));
}

#[test]
fn each_partition_has_its_own_patience() {
    let mut all =
        Coordinator::new(ProgressRules::default(), &[None, Some(span(10)), IDLE_AFTER], 0);
    all.tick(clock(0));
    for partition in 0..3 {
        all.progress(&last_records(partition, 50));
    }
    all.tick(clock(10));
    assert_eq!(state(&all, 1), PartitionState::Idle);
    assert_eq!(state(&all, 2), PartitionState::Active);
    all.tick_watched(clock(1_000_000));
    assert_eq!(state(&all, 2), PartitionState::Idle);
    assert_eq!(state(&all, 0), PartitionState::Active, "it is never idle");
}

#[test]
fn all_idle_holds_or_follows_the_clock() {
    for (all_idle, expected) in [
        (AllIdle::Hold, None),
        (AllIdle::Advance(span(30)), Some(mark(470))),
        (AllIdle::Advance(span(i64::MAX)), None),
        (AllIdle::Advance(span(450)), None),
    ] {
        let mut all = coordinator(ProgressRules { all_idle, ..ProgressRules::default() }, 2);
        all.tick(clock(0));
        all.progress(&last_records(0, 50));
        all.progress(&last_records(1, 50));
        assert_eq!(all.tick(clock(99)), None);
        assert_eq!(all.tick(clock(500)), expected, "{all_idle:?}");
    }
}

#[test]
fn one_that_catches_up_holds_the_clock_back() {
    let rules = ProgressRules { all_idle: AllIdle::Advance(span(0)), ..ProgressRules::default() };
    let mut all = coordinator(rules, 2);
    all.tick(clock(0));
    all.progress(&last_records(0, 50));
    all.progress(&last_records(1, 50));
    assert_eq!(all.tick(clock(500)), Some(mark(500)));
    all.progress(&records(0, 60));
    assert_eq!(all.tick(clock(900)), None, "it has not come to the end of its backlog");
    all.progress(&finished(0));
    assert_eq!(all.tick(clock(950)), Some(mark(950)), "whoever is left is idle");
}

#[test]
fn second_watermarks_are_minima_and_never_behind_the_first() {
    let mut all = Coordinator::new(ProgressRules::default(), &[IDLE_AFTER; 2], 2);
    let told = |partition, watermark, shares: [i64; 2]| Progress {
        shares: shares.map(mark).to_vec(),
        ..records(partition, watermark)
    };
    all.progress(&told(0, 50, [90, 20]));
    assert_eq!(all.shares(), [Watermark::MIN, Watermark::MIN]);
    all.progress(&told(1, 40, [70, 60]));
    assert_eq!(all.shares(), [mark(70), mark(50)]);
    all.progress(&told(1, 40, [10, 10]));
    assert_eq!(all.shares(), [mark(70), mark(50)], "{WM_1}");
    all.progress(&finished(1));
    assert_eq!(all.shares(), [mark(90), mark(50)]);
    all.progress(&finished(0));
    assert_eq!(all.shares(), [Watermark::MAX, Watermark::MAX]);
}

#[test]
fn it_is_known_who_holds_the_watermark_and_by_how_much() {
    let mut all = plain(3);
    all.tick(clock(0));
    all.progress(&records(0, 1_000));
    all.progress(&last_records(1, 400));
    let unheard = Holder { partition: 2, watermark: Watermark::MIN, by: Some(span(i64::MAX)) };
    assert_eq!(all.standing().holder, Some(unheard));
    all.progress(&last_records(2, 700));
    all.tick(clock(60));
    let standing = all.standing();
    let holder = Holder { partition: 1, watermark: mark(400), by: Some(span(300)) };
    assert_eq!((standing.watermark, standing.holder), (mark(400), Some(holder)));
    let lags = standing.partitions.iter().map(|partition| partition.lag.as_millis());
    assert_eq!(lags.collect::<Vec<_>>(), [0, 600, 300]);
    assert_eq!(standing.partitions[1].silent, span(60));
    assert_eq!(standing.still, span(60));
    all.tick(clock(160));
    let holder = Holder { partition: 0, watermark: mark(1_000), by: None };
    assert_eq!(all.standing().holder, Some(holder));
    all.progress(&finished(0));
    assert_eq!(all.standing().holder, None);
}

#[test]
fn a_long_standstill_is_told_of_ever_more_seldom() {
    let mut all = plain(1);
    let mut told = Vec::new();
    for second in 0..1_000 {
        all.tick(clock(second * 1_000));
        if second == 500 {
            all.progress(&records(0, 5));
        }
        told.extend(all.take_standstill().map(|standing| (second, standing.still.as_millis())));
    }
    let expected = [
        (60, 60_000),
        (120, 120_000),
        (240, 240_000),
        (480, 480_000),
        (560, 60_000),
        (620, 120_000),
        (740, 240_000),
        (980, 480_000),
    ];
    assert_eq!(told, expected);
}

#[test]
fn windows_close_once_the_watermark_has_stood_still_for_long_in_quiet() {
    let rules = ProgressRules { close_after: Some(span(1_000)), ..ProgressRules::default() };
    let mut all = Coordinator::new(rules, &[None; 2], 0);
    let mut now = 0;
    let mut pass = |all: &mut Coordinator, millis: i64| {
        now += millis;
        all.tick_watched(clock(now));
        all.closes().map(|cycle| (cycle.number, cycle.watermark))
    };
    pass(&mut all, 0);
    all.progress(&last_records(0, 50));
    assert_eq!(pass(&mut all, 5_000), None, "the other may have more");
    all.progress(&last_records(1, 50));
    assert_eq!(pass(&mut all, 999), None);
    all.progress(&report(1, 50, Reader::Blocked));
    assert_eq!(pass(&mut all, 5_000), None, "nor does back-pressure count");
    all.progress(&silent(1));
    assert_eq!(pass(&mut all, 1), Some((1, mark(50))));
    assert_eq!(pass(&mut all, 50_000), None, "there is nothing new");
    all.progress(&last_records(0, 40));
    assert_eq!(pass(&mut all, 1), Some((2, mark(50))), "it stands as before");
    all.progress(&last_records(0, 60));
    assert_eq!(pass(&mut all, 999), None, "it has closed what there was");
    all.progress(&finished(1));
    assert_eq!(pass(&mut all, 999), None, "it has risen");
    assert_eq!(pass(&mut all, 1), Some((3, mark(60))));
    assert_eq!(plain(1).closes(), None);
}

/// How many records come late when one partition, idle for long, has an hour of records at once,
/// all of them from ahead of the watermark, while another goes on and reads as fast as it may.
fn late_in_catch_up(max_drift: Option<Span>) -> usize {
    let minute = 60_000;
    let mut all = coordinator(ProgressRules { max_drift, ..ProgressRules::default() }, 2);
    all.tick(clock(0));
    all.progress(&last_records(0, 0));
    all.progress(&records(1, 70 * minute));
    assert_eq!(all.tick(clock(100)), Some(mark(70 * minute)), "the first is idle");
    let mut rests = [0, 1].map(|ahead| (0..60).map(move |n| (70 + ahead + n) * minute));
    let mut at_hand = [None, None];
    let mut late = 0;
    loop {
        for (number, rest) in (0_u32..).zip(&mut rests) {
            let next = &mut at_hand[number as usize];
            if next.is_none() {
                *next = rest.next();
                match *next {
                    Some(time) => all.wait(number, at(time), Watermark::MIN),
                    None => all.progress(&silent(number)),
                };
            }
        }
        let turn = match max_drift {
            Some(_) => all.grants().iter().map(|grant| grant.partition as usize).collect(),
            None => vec![usize::from(at_hand[1].is_some())],
        };
        if at_hand == [None, None] {
            return late;
        }
        for reader in turn {
            let time = at_hand[reader].take().unwrap();
            late += usize::from(mark(time) < all.watermark());
            all.progress(&records(reader as u32, time));
        }
    }
}

#[test]
fn a_backlog_does_not_turn_into_late_data_where_it_is_read_in_step() {
    assert_eq!(late_in_catch_up(Some(span(60_000))), 0);
    assert_eq!(late_in_catch_up(None), 60, "without it, nearly all of it does");
}

#[test]
fn a_restart_finds_partitions_by_their_numbers_and_waits_for_new_ones() {
    let mut stored = Coordinator::new(ProgressRules::default(), &[IDLE_AFTER; 2], 1);
    for (partition, watermark) in [(0, 30), (1, 20)] {
        let report = records(partition, watermark);
        stored.progress(&Progress { shares: vec![mark(watermark + 5)], ..report });
    }
    let stored = stored;
    let standing = |all: &Coordinator| {
        let partitions = all.standing().partitions;
        partitions.iter().map(|known| known.watermark).collect::<Vec<_>>()
    };
    let begin = |partitions: &[Option<usize>], shares: &[Option<usize>]| {
        let (idle_after, count) = (vec![IDLE_AFTER; partitions.len()], shares.len());
        let mut all = Coordinator::new(ProgressRules::default(), &idle_after, count);
        let renumbering = Renumbering { partitions: partitions.into(), shares: shares.into() };
        all.restore(&stored, &renumbering);
        all
    };
    // In another order, and without the one that held all back.
    assert_eq!(standing(&begin(&[Some(1), Some(0)], &[Some(0)])), [mark(20), mark(30)]);
    let mut alone = begin(&[Some(0)], &[]);
    assert_eq!(alone.watermark(), mark(20), "what was given out stays");
    assert_eq!(alone.progress(&records(0, 31)), Some(mark(31)));
    // A new one is waited for, and takes nothing back.
    let mut more = begin(&[Some(0), None, Some(1)], &[None, Some(0)]);
    assert_eq!(standing(&more), [mark(30), Watermark::MIN, mark(20)]);
    assert_eq!((more.watermark(), more.shares()), (mark(20), &[mark(20), mark(25)][..]));
    assert_eq!(more.progress(&records(2, 30)), None);
    assert_eq!(more.progress(&records(1, 10)), None);
    assert_eq!(more.progress(&records(1, 25)), Some(mark(25)));
}

#[derive(Debug, Clone)]
enum Fact {
    Report(Progress),
    Wait(u32, i64, i64),
    Stop(u32),
    Tick(i64),
    Restart,
}

fn facts() -> impl Strategy<Value = Fact> {
    let time = || prop_oneof![8 => -100_i64..1_000, 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => any::<i64>()];
    let reader = prop_oneof![
        3 => Just(Reader::Behind),
        4 => Just(Reader::AtEnd),
        2 => Just(Reader::Blocked),
        1 => Just(Reader::Finished),
    ];
    let reports = (0_u32..4, time(), time(), reader, any::<bool>());
    prop_oneof![
        6 => reports.prop_map(|(partition, watermark, share, reader, has_records)| {
            Fact::Report(Progress {
                shares: vec![mark(share)],
                has_records,
                ..report(partition, watermark, reader)
            })
        }),
        2 => (0_u32..4, time(), time()).prop_map(|(partition, head, watermark)| Fact::Wait(partition, head, watermark)),
        1 => (0_u32..4).prop_map(Fact::Stop),
        4 => time().prop_map(Fact::Tick),
        1 => Just(Fact::Restart),
    ]
}

proptest! {
    #[test]
    fn no_facts_take_a_watermark_back(
        facts in prop::collection::vec(facts(), 1..80),
        all_idle in prop_oneof![Just(AllIdle::Hold), (0_i64..50).prop_map(|d| AllIdle::Advance(span(d)))],
        max_drift in prop::option::of((0_i64..50).prop_map(span)),
        idle_after in prop::option::of((0_i64..200).prop_map(span)),
    ) {
        let rules = ProgressRules { all_idle, max_drift, close_after: Some(span(10)) };
        let mut all = Coordinator::new(rules, &[idle_after; 3], 1);
        for fact in facts {
            let before = (all.watermark(), all.shares()[0]);
            let risen = match fact {
                Fact::Report(report) => all.progress(&report),
                Fact::Wait(partition, head, watermark) => all.wait(partition, at(head), mark(watermark)),
                Fact::Stop(partition) => { all.stop(partition); None }
                Fact::Tick(now) => all.tick(clock(now)),
                Fact::Restart => {
                    let bytes = postcard::to_allocvec(&all).unwrap();
                    all = postcard::from_bytes(&bytes).unwrap();
                    None
                }
            };
            all.grants();
            all.closes();
            prop_assert!(all.watermark() >= before.0, "{WM_1}");
            prop_assert!(all.shares()[0] >= before.1 && all.shares()[0] >= all.watermark(), "{WM_1}");
            prop_assert_eq!(risen, (all.watermark() > before.0).then_some(all.watermark()));
            let standing = all.standing();
            if let Some(holder) = standing.holder {
                let active = standing.partitions.iter();
                let mut active = active.filter(|known| known.state == PartitionState::Active);
                prop_assert!(active.all(|known| known.watermark >= holder.watermark));
            }
        }
    }
}

/// The same coordinator in a process that begins later.
fn restarted(all: &Coordinator, rules: ProgressRules, partitions: usize) -> Coordinator {
    let mut next = coordinator(rules, partitions);
    let stored = postcard::from_bytes(&postcard::to_stdvec(all).unwrap()).unwrap();
    next.restore(&stored, &Renumbering::none(stored.partitions.len(), stored.shares().len()));
    next
}

#[test]
fn what_is_left_before_windows_time_out_is_kept_and_passes_once_readers_have_caught_up() {
    let rules = ProgressRules { close_after: Some(span(1_000)), ..ProgressRules::default() };
    let mut all = coordinator(rules, 2);
    all.tick(clock(0));
    all.progress(&last_records(0, 50));
    all.progress(&last_records(1, 40));
    all.tick(clock(600));
    assert_eq!(all.closes(), None);

    let mut all = restarted(&all, rules, 2);
    // A day later; then one of them reads what has come meanwhile, or cannot read.
    for (now, second) in [
        (86_400_000, None),
        (86_401_000, Some(report(1, 40, Reader::Behind))),
        (86_405_000, Some(report(1, 40, Reader::Blocked))),
        (86_409_000, Some(silent(1))),
    ] {
        all.tick_watched(clock(now));
        assert_eq!(all.closes(), None, "{now}");
        all.progress(&silent(0));
        if let Some(second) = &second {
            all.progress(second);
        }
    }
    all.tick(clock(86_409_399));
    assert_eq!(all.closes(), None, "400 ms were left");
    all.tick(clock(86_409_400));
    let cycle = Cycle { number: 1, watermark: mark(40) };
    assert_eq!(all.closes(), Some(cycle));
    // Once; and after another restart the number goes on.
    all.progress(&last_records(1, 40));
    let mut all = restarted(&all, rules, 2);
    all.tick(clock(90_000_000));
    for silent in [silent(0), silent(1)] {
        all.progress(&silent);
    }
    all.tick(clock(90_001_000));
    assert_eq!(all.closes(), Some(Cycle { number: 2, ..cycle }));
}

#[test]
fn what_is_left_before_a_partition_is_idle_is_kept_and_passes_once_it_has_caught_up() {
    let mut all = plain(2);
    all.tick(clock(0));
    all.progress(&last_records(0, 50));
    all.progress(&last_records(1, 40));
    all.progress(&records(0, 60));
    all.tick(clock(70));
    let mut all = restarted(&all, ProgressRules::default(), 2);
    all.tick(clock(1_000_000));
    all.tick_watched(clock(1_005_000));
    assert_eq!(state(&all, 1), PartitionState::Active, "nobody knows what it has");
    all.progress(&silent(1));
    all.tick(clock(1_005_029));
    assert_eq!(state(&all, 1), PartitionState::Active);
    assert_eq!(all.tick(clock(1_005_030)), Some(mark(60)), "70 ms before, 30 after");
    assert_eq!(state(&all, 1), PartitionState::Idle);
}

/// Else all that came while there was no process would be late.
#[test]
fn the_clock_leads_again_once_idle_partitions_have_nothing_left() {
    let rules = ProgressRules { all_idle: AllIdle::Advance(span(10)), ..ProgressRules::default() };
    let mut all = coordinator(rules, 2);
    all.tick(clock(1_000));
    all.progress(&last_records(0, 50));
    all.progress(&last_records(1, 40));
    assert_eq!(all.tick(clock(1_100)), Some(mark(1_090)));

    let mut all = restarted(&all, rules, 2);
    assert_eq!(all.tick(clock(9_000)), None);
    all.progress(&silent(0));
    assert_eq!(all.tick(clock(9_100)), None, "the other may have anything");
    assert_eq!(all.progress(&records(1, 2_000)), Some(mark(2_000)), "by its own word");
    assert_eq!(all.progress(&last_records(1, 4_000)), Some(mark(4_000)));
    assert_eq!(all.tick(clock(9_199)), None);
    assert_eq!(all.tick(clock(9_200)), Some(mark(9_190)));
}

const PATIENCE: i64 = 30_000;

/// Two partitions that have been silent for so long, at their ends, with `rules`.
fn silent_for(millis: i64, rules: ProgressRules) -> Coordinator {
    let mut all = Coordinator::new(rules, &[Some(span(PATIENCE)); 2], 0);
    all.tick(clock(0));
    all.progress(&last_records(0, 5_000));
    all.progress(&last_records(1, 5_000));
    for now in (0..=millis).step_by(200) {
        all.tick(clock(now));
    }
    all
}

/// A machine sleeps for an hour, in which both partitions get an hour of records; then it reads one
/// backlog behind the other.
#[test]
fn what_comes_while_the_machine_sleeps_is_not_late() {
    let hour = 3_600_000;
    for (before, all_idle) in [
        (1_000, AllIdle::Hold),
        (29_800, AllIdle::Hold),
        (29_800, AllIdle::Advance(span(10_000))),
        (40_000, AllIdle::Hold),
    ] {
        let mut all = silent_for(before, ProgressRules { all_idle, ..ProgressRules::default() });
        let awake = before + hour;
        assert_eq!(all.tick(clock(awake)), None, "{before} {all_idle:?}");
        assert_eq!(all.tick(clock(awake + 200)), None, "{before} {all_idle:?}");
        assert_eq!([0, 1].map(|partition| state(&all, partition)), [PartitionState::Active; 2]);
        assert_eq!(all.progress(&records(0, 1_000_000)), None);
        assert_eq!(all.progress(&last_records(0, hour)), None, "the other has not been read");
        assert_eq!(all.progress(&records(1, 9_000)), Some(mark(9_000)));
        assert_eq!(all.progress(&last_records(1, hour - 7)), Some(mark(hour - 7)));
        // Silent again, and seen to be, both are idle.
        for now in (awake..=awake + PATIENCE + 400).step_by(200) {
            all.tick(clock(now));
        }
        assert_eq!([0, 1].map(|partition| state(&all, partition)), [PartitionState::Idle; 2]);
    }
}

#[test]
fn the_clock_leads_again_when_nothing_has_come_while_the_machine_slept() {
    let rules =
        ProgressRules { all_idle: AllIdle::Advance(span(10_000)), ..ProgressRules::default() };
    let mut all = silent_for(40_000, rules);
    assert_eq!(all.watermark(), mark(30_000));
    for (now, risen) in (0..=30).map(|second| (1_000_000 + second * 1_000, second == 30)) {
        let expected = risen.then(|| mark(now - 10_000));
        assert_eq!(all.tick(clock(now)), expected, "{now}");
    }
}

#[test]
fn a_process_that_stalls_now_and_then_knows_who_is_silent() {
    let mut all = silent_for(0, ProgressRules::default());
    // Of each two seconds and a half, one counts.
    for stall in 1..=30 {
        assert_eq!(state(&all, 1), PartitionState::Active, "{stall}");
        all.tick(clock(stall * 2_500));
    }
    assert_eq!(state(&all, 1), PartitionState::Idle);
}

#[test]
fn windows_do_not_time_out_because_the_machine_slept() {
    let rules = ProgressRules { close_after: Some(span(30_000)), ..ProgressRules::default() };
    let mut all = silent_for(29_800, rules);
    all.tick(clock(5_000_000));
    assert_eq!(all.closes(), None);
    assert!(all.standing().still >= span(4_000_000), "on the clock it has stood still");
    for second in 1..30 {
        all.tick(clock(5_000_000 + second * 1_000));
        assert_eq!(all.closes(), None, "{second}");
    }
    all.tick(clock(5_030_000));
    assert_eq!(all.closes().map(|cycle| cycle.number), Some(1));
}

#[test]
fn sources_wait_for_their_turn_where_one_may_run_ahead() {
    let plain = WatermarkSettings::new(WatermarkSpec::EndOfInput);
    let others = WatermarkSettings { future_skew: FutureSkew::Others(span(5)), ..plain };
    let drift = Some(span(5));
    for (sources, max_drift, expected) in [
        (vec![plain], None, false),
        (vec![plain], drift, true),
        (vec![others], None, true),
        (vec![plain, plain], None, false),
        (vec![plain, plain], drift, true),
        (vec![plain, others], None, true),
    ] {
        let rules = ProgressRules { max_drift, ..ProgressRules::default() };
        let sources: Vec<Estimation> = sources.into_iter().map(Into::into).collect();
        assert_eq!(rules.reads_in_step(sources.iter()), expected, "{sources:?}, {max_drift:?}");
    }
}
