//! What somebody would write by hand for one window function, as fast as plain maps allow: records
//! in the order of their times, one thread, no plan, sums of 64 bits.

use super::input::Record;
use super::{PERIOD, Pane, SIZE};
use hashbrown::HashMap;
use std::time::Instant;

type Map<T> = HashMap<u64, T, foldhash::fast::RandomState>;

/// Seconds that a loop took, and its panes.
pub(super) fn timed(run: impl FnOnce() -> Vec<Pane>) -> (f64, Vec<Pane>) {
    let begun = Instant::now();
    let panes = run();
    (begun.elapsed().as_secs_f64(), panes)
}

/// Windows side by side: one map, emptied at the end of each.
pub(super) fn fixed(records: &[Record]) -> Vec<Pane> {
    let (mut sums, mut panes) = (Map::<(u64, u64)>::default(), Vec::new());
    let mut start = i64::MIN;
    for record in records {
        if record.time >= start.saturating_add(SIZE) {
            emit_fixed(&mut sums, start, &mut panes);
            start = record.time - record.time % SIZE;
        }
        let (count, sum) = sums.entry(record.key).or_default();
        *count += 1;
        *sum += u64::from(record.value);
    }
    emit_fixed(&mut sums, start, &mut panes);
    panes
}

fn emit_fixed(sums: &mut Map<(u64, u64)>, start: i64, panes: &mut Vec<Pane>) {
    let pane = |(key, (count, sum))| Pane { key, start, end: start + SIZE, count, sum };
    panes.extend(sums.drain().map(pane));
}

/// Periods of one window.
const PERIODS: usize = (SIZE / PERIOD) as usize;

/// The last periods of a key as a ring, and their sum.
struct Ring {
    periods: [(u64, u64); PERIODS],
    count: u64,
    sum: u64,
}

/// Windows that overlap: a running sum for each key, from which the oldest period is taken out.
pub(super) fn sliding(records: &[Record]) -> Vec<Pane> {
    let (mut rings, mut panes) = (Map::<Ring>::default(), Vec::new());
    let Some(first) = records.first() else { return panes };
    let mut period = first.time / PERIOD;
    for record in records {
        while period < record.time / PERIOD {
            step(&mut rings, period, &mut panes);
            period += 1;
        }
        let ring = rings.entry(record.key).or_insert_with(|| Ring {
            periods: [(0, 0); PERIODS],
            count: 0,
            sum: 0,
        });
        if let Some((count, sum)) = ring.periods.get_mut(place(period)) {
            *count += 1;
            *sum += u64::from(record.value);
        }
        ring.count += 1;
        ring.sum += u64::from(record.value);
    }
    for _ in 0..PERIODS {
        step(&mut rings, period, &mut panes);
        period += 1;
    }
    panes
}

fn place(period: i64) -> usize {
    usize::try_from(period).unwrap_or(0) % PERIODS
}

/// A period has ended: every key emits, and lets its oldest period go.
fn step(rings: &mut Map<Ring>, period: i64, panes: &mut Vec<Pane>) {
    let end = (period + 1) * PERIOD;
    rings.retain(|key, ring| {
        let (count, sum) = (ring.count, ring.sum);
        panes.push(Pane { key: *key, start: end - SIZE, end, count, sum });
        if let Some(oldest) = ring.periods.get_mut(place(period + 1)) {
            let (count, sum) = std::mem::take(oldest);
            ring.count -= count;
            ring.sum -= sum;
        }
        ring.count > 0
    });
}

/// Sessions: each key's open one, closed by a record after the gap, or at the end.
pub(super) fn sessions(records: &[Record], gap: i64) -> Vec<Pane> {
    let (mut open, mut panes) = (Map::<Pane>::default(), Vec::new());
    for record in records {
        let Record { time, key, value } = *record;
        let new = Pane { key, start: time, end: time + gap, count: 0, sum: 0 };
        let session = open.entry(key).or_insert(new);
        if time > session.end {
            panes.push(std::mem::replace(session, new));
        }
        session.end = time + gap;
        session.count += 1;
        session.sum += u64::from(value);
    }
    panes.extend(open.into_values());
    panes
}
