//! What a generator of connections promises: the same every time, in order of arrival, with a truth
//! that accounts for every record.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn generate(settings: ConnectionSettings) -> (Vec<ConnectionRecord>, Vec<Truth>) {
    let mut generator = ConnectionGenerator::new(settings);
    let records: Vec<_> = generator.by_ref().collect();
    let truths = generator.take_finished();
    (records, truths)
}

fn text(records: &[ConnectionRecord]) -> String {
    let mut text = String::new();
    for record in records {
        write_connection(record, &mut text);
    }
    text
}

#[test]
fn a_seed_fixes_every_record_and_another_seed_gives_others() {
    let settings = ConnectionSettings { sessions: 200, ..ConnectionSettings::default() };
    let (records, truths) = generate(settings.clone());
    assert_eq!(generate(settings.clone()), (records.clone(), truths));
    let (others, _) = generate(ConnectionSettings { seed: 2, ..settings });
    assert_ne!(records, others);
    for line in text(&records).lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["client"].as_str().unwrap().starts_with("02:"), "{line}");
    }
}

#[test]
fn all_that_can_happen_happens_and_the_truth_accounts_for_every_record() {
    let settings = ConnectionSettings { sessions: 3_000, ..ConnectionSettings::default() };
    let (records, truths) = generate(settings.clone());
    assert_eq!(truths.len(), 3_000 + settings.bots as usize);
    let ways: BTreeSet<_> = truths
        .iter()
        .map(|truth| (truth.verdict.name(), truth.verdict.step().map(Step::name)))
        .collect();
    // Each step fails, hangs and is left; a session that has begun elsewhere, connects, never ends.
    assert_eq!(ways.len(), 3 * 4 + 3, "{ways:?}");
    let total = |part: fn(&Truth) -> u32| truths.iter().map(|t| u64::from(part(t))).sum::<u64>();
    let (lost, copies) = (total(|t| t.lost), total(|t| t.copies));
    assert_eq!(records.len() as u64, total(|t| t.records) + copies);
    assert!(lost > 50 && copies > 500, "{lost} {copies}");
    assert!(total(|t| t.roams) > 300 && total(|t| t.roam_failures) > 30);
    assert!(total(|t| t.restarts) > 300);
    let retries = |t: &Truth| t.steps.iter().map(|step| step.attempts.saturating_sub(1)).sum();
    assert!(total(retries) > 1_000);
    let long = |t: &Truth| u32::from(t.last.since(t.first) > Span::from_millis(600_000));
    assert!(total(long) > 30);
    let late = |t: &Truth| u32::from(t.behind > Span::from_millis(10_000));
    assert!(total(late) > 100);
    let ends = truths.iter().filter(|t| t.verdict == Verdict::Endless);
    assert!(ends.clone().all(|bot| bot.records > 1_000) && ends.count() == 2);
}

#[test]
fn records_of_a_session_come_apart_and_those_of_a_client_rest_between() {
    let settings = ConnectionSettings {
        sessions: 2_000,
        lost_share: 0.0,
        copy_share: 0.0,
        bots: 0,
        ..ConnectionSettings::default()
    };
    let (records, truths) = generate(settings);
    let mut clients: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for record in &records {
        clients.entry(record.place.client).or_default().push(record.time.as_millis());
    }
    for times in clients.values_mut() {
        times.sort_unstable();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
    let mut spans: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for truth in &truths {
        spans.entry(truth.place.client).or_default().push((truth.first, truth.last));
    }
    assert!(spans.len() < truths.len(), "clients come again");
    for spans in spans.values_mut() {
        spans.sort_unstable();
        let rest = |pair: &[(EventTime, EventTime)]| pair[1].0.since(pair[0].1).as_millis();
        assert!(spans.windows(2).all(|pair| rest(pair) > 240_000));
    }
}

#[test]
fn records_come_as_late_as_the_truth_says() {
    let settings = ConnectionSettings {
        sessions: 500,
        lost_share: 0.0,
        copy_share: 0.0,
        bots: 0,
        late_share: 0.02,
        ..ConnectionSettings::default()
    };
    let (records, truths) = generate(settings);
    let mut newest = EventTime::MIN;
    let mut behind: BTreeMap<_, Span> = BTreeMap::new();
    for record in &records {
        newest = newest.max(record.time);
        let client = record.place.client;
        let of = truths.iter().position(|truth| {
            truth.place.client == client && (truth.first..=truth.last).contains(&record.time)
        });
        let most = behind.entry(of.unwrap()).or_default();
        *most = (*most).max(newest.since(record.time));
    }
    for (number, truth) in truths.iter().enumerate() {
        assert_eq!(behind.get(&number), Some(&truth.behind));
    }
}

#[test]
fn the_clock_of_an_access_point_is_wrong_by_as_much_throughout() {
    let generate = |skew| {
        let clock_skew = Span::from_millis(skew);
        let all = ConnectionSettings { sessions: 500, ..ConnectionSettings::default() };
        generate(ConnectionSettings { clock_skew, ..all })
    };
    let ((right, _), (wrong, truths)) = (generate(0), generate(3_000));
    assert_eq!(right.len(), wrong.len());
    // They come in the order of what is true, and differ in their clocks alone.
    let mut skews: BTreeMap<_, BTreeSet<i64>> = BTreeMap::new();
    for (right, wrong) in right.iter().zip(&wrong) {
        assert_eq!(ConnectionRecord { time: right.time, ..*wrong }, *right);
        let skew = wrong.time.as_millis() - right.time.as_millis();
        assert!(skew.abs() <= 3_000);
        skews.entry((right.place.network, right.place.ap)).or_default().insert(skew);
    }
    assert_eq!(skews.len(), 8);
    assert!(skews.values().all(|of_one| of_one.len() == 1), "{skews:?}");
    assert!(skews.values().flatten().collect::<BTreeSet<_>>().len() > 4, "{skews:?}");
    // The truth is that of the clocks, and the order within a session stays.
    assert!(truths.iter().all(|truth| truth.first <= truth.last));
}

#[test]
fn settings_out_of_range_do_no_harm() {
    let settings = ConnectionSettings {
        sessions: 50,
        rate: 0,
        networks: 0,
        aps: 0,
        disorder: Span::ZERO,
        clock_skew: Span::from_millis(i64::MAX),
        late_share: 2.0,
        late_by: Span::from_millis(i64::MAX),
        lost_share: 0.0,
        copy_share: 1.0,
        bots: 1,
        ..ConnectionSettings::default()
    };
    let (records, truths) = generate(settings);
    assert_eq!(truths.len(), 51);
    assert!(!records.is_empty());
    let nothing = ConnectionSettings { sessions: 0, ..ConnectionSettings::default() };
    let (records, truths) = generate(nothing);
    assert_eq!((records.len(), truths.len()), (0, 2));
    let lost = ConnectionSettings { lost_share: 1.0, bots: 0, ..ConnectionSettings::default() };
    let (records, truths) = generate(lost);
    assert_eq!((records.len(), truths.len()), (0, 1_000));
}
