//! The table of the reference, B.5: Beam's trigger tests that are not transcripts.
//!
//! Data come in bundles while the watermark stands at the beginning; then it passes all windows, and
//! late data come in bundles of the same size. Beam's driver then stops; here the input also ends,
//! and what is left comes out (B.6, 2). On-time panes are always emitted. Letters are values; a
//! number before a letter is its event time.

use crate::kit::{Record, Run, after_watermark, fixed, repeat, sessions, span, sums};
use nilometer_model::pane::{AccumulationMode, Emission};
use nilometer_model::time::Window;
use nilometer_model::trigger::Trigger;
use nilometer_model::window::{Touching, WindowFn};
use std::collections::BTreeMap;

use AccumulationMode::{Accumulating, Discarding};

/// Behind the end of every window of the table, ahead of every expiry.
const LATE: i64 = 1_000;

struct Row {
    window: WindowFn,
    trigger: Trigger,
    mode: AccumulationMode,
    data: &'static str,
    late: &'static str,
    sizes: &'static [usize],
    /// For each window the values of its panes, and after a bar what comes at the end of the input.
    panes: &'static [&'static str],
}

/// Values of the records of one pane, as letters.
fn letters(sum: i128) -> String {
    ('a'..='z').filter(|letter| sum >> (*letter as u32 - 'a' as u32) & 1 == 1).collect()
}

/// Values in which a letter comes more than once would not show.
fn read(text: &str) -> Vec<Record<'static>> {
    text.split_whitespace()
        .map(|word| {
            let (time, letter) = word.split_at(word.len() - 1);
            let bit = 1 << (letter.chars().next().unwrap() as u32 - 'a' as u32);
            ("k", time.parse().unwrap(), bit)
        })
        .collect()
}

fn replay(row: &Row, data: &[Record<'_>], size: usize) -> Vec<String> {
    let mut grouping = sums(row.window, row.trigger.clone(), row.mode);
    grouping.allowed_lateness = span(1_000_000);
    grouping.emission = Emission { on_time_always: true, ..Emission::default() };
    let mut run = Run::new(grouping);
    let mut panes = Vec::new();
    data.chunks(size).for_each(|bundle| panes.extend(run.records(bundle)));
    panes.extend(run.watermark(LATE));
    read(row.late).chunks(size).for_each(|bundle| panes.extend(run.records(bundle)));
    let mut windows: BTreeMap<Window, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for pane in panes {
        windows.entry(pane.window).or_default().0.push(letters(pane.value));
    }
    for pane in run.end() {
        windows.entry(pane.window).or_default().1.push(letters(pane.value));
    }
    let describe = |(window, (panes, left)): (Window, (Vec<String>, Vec<String>))| {
        let words = std::iter::once(window.to_string()).chain(panes);
        let bar = (!left.is_empty()).then(|| "|".to_owned());
        words.chain(bar).chain(left).collect::<Vec<_>>().join(" ")
    };
    windows.into_iter().map(describe).collect()
}

fn check(rows: &[Row]) {
    for row in rows {
        for size in row.sizes {
            let got = replay(row, &read(row.data), *size);
            assert_eq!(got, row.panes, "{} {}, bundles of {size}", row.window, row.trigger);
        }
    }
}

fn end() -> Trigger {
    after_watermark(None, None)
}

fn count(count: u64) -> Trigger {
    Trigger::AfterCount(count)
}

fn beam_sessions() -> WindowFn {
    sessions(10, Touching::Separate)
}

#[test]
fn early_and_late_firings() {
    check(&[
        Row {
            window: fixed(10),
            trigger: after_watermark(Some(count(2)), None),
            mode: Accumulating,
            data: "1a 2b 3c",
            late: "",
            sizes: &[2],
            panes: &["[0,10) ab abc"],
        },
        Row {
            window: fixed(10),
            trigger: after_watermark(Some(count(2)), None),
            mode: Accumulating,
            data: "1a 2b 3c",
            late: "",
            sizes: &[3],
            panes: &["[0,10) abc abc"],
        },
        Row {
            window: fixed(100),
            trigger: after_watermark(Some(count(3)), Some(count(2))),
            mode: Discarding,
            data: "0a 1b 2c 3d 4e 5f 6g 7h 8i",
            late: "0v 1w 2x 3y 4z",
            sizes: &[2],
            panes: &["[0,100) abcd efgh i vw xy | z"],
        },
        Row {
            window: beam_sessions(),
            trigger: after_watermark(Some(count(2)), Some(count(1))),
            mode: Accumulating,
            data: "1a 15b 7c 30d",
            late: "1x 2y 21z",
            sizes: &[2],
            panes: &["[1,25) abc abc abcxy", "[1,40) abcdxyz", "[30,40) d"],
        },
    ]);
}

#[test]
fn counts_and_their_combinations() {
    let any = || Trigger::Any(vec![count(5), end()]);
    let any_again = repeat(Trigger::Any(vec![count(3), end()]));
    let row = |window, trigger, sizes, panes| Row {
        window,
        trigger,
        mode: Accumulating,
        data: "1a 2b 3c",
        late: "1x 2y 3z",
        sizes,
        panes,
    };
    check(&[
        // The third record of small bundles finds its window closed.
        Row {
            data: "1a 2b 3c 11z",
            late: "",
            ..row(fixed(10), count(2), &[1, 2], &["[0,10) ab", "[10,20) | z"])
        },
        Row {
            data: "1a 2b 3c 11z",
            late: "",
            ..row(fixed(10), count(2), &[3, 4], &["[0,10) abc", "[10,20) | z"])
        },
        row(fixed(10), any(), &[1, 2, 3], &["[0,10) abc"]),
        Row {
            data: "0a 1b 2c 3d 4e 5f 6g",
            ..row(
                fixed(100),
                any_again,
                &[1],
                &["[0,100) abc abcdef abcdefg abcdefgx abcdefgxy abcdefgxyz"],
            )
        },
        Row {
            late: "",
            ..row(beam_sessions(), Trigger::All(vec![count(2), end()]), &[1, 2, 3], &["[1,13) abc"])
        },
        row(beam_sessions(), Trigger::All(vec![count(5), end()]), &[1, 2], &["[1,13) abcxy"]),
    ]);
}

#[test]
fn sessions_by_count() {
    let row = |trigger, mode, sizes, panes| Row {
        window: beam_sessions(),
        trigger,
        mode,
        data: "1a 15b 6c 2d 7e",
        late: "",
        sizes,
        panes,
    };
    check(&[
        Row {
            data: "1a 15b 6c 30s 31t 50z 50y",
            ..row(count(2), Accumulating, &[1, 2, 3], &["[1,25) abc", "[30,41) st", "[50,60) yz"])
        },
        row(repeat(count(2)), Accumulating, &[1, 3], &["[1,25) abc abcde"]),
        row(repeat(count(2)), Discarding, &[1, 3], &["[1,25) abc de"]),
    ]);
}

#[test]
fn sequences_go_on_where_they_were_when_sessions_grow() {
    let each = || Trigger::Sequence(vec![count(2), count(3)]);
    let row = |trigger, panes| Row {
        window: beam_sessions(),
        trigger,
        mode: Accumulating,
        data: "0a 1b 2c 3d 4e 5f 6g 7h 8i 9j",
        late: "",
        sizes: &[2],
        panes,
    };
    check(&[
        // Beam's driver has no third pane: a finished session poisons what merges into it (B.6, 4).
        // Here it starts anew, since its end lies ahead again.
        row(each(), &["[0,11) ab", "[0,15) abcdef", "[0,17) abcdefgh", "[0,19) | abcdefghij"]),
        row(
            repeat(each()),
            &["[0,11) ab", "[0,15) abcdef", "[0,17) abcdefgh", "[0,19) | abcdefghij"],
        ),
    ]);
}

#[test]
fn sessions_are_the_same_in_any_order_and_bundling() {
    // Each order is a key of its own, in a bundling of its own. Of 40,320 orders every seventh: that
    // is coprime with the eight places of a value.
    let orders = orders(&read("1a 2b 15c 16d 30z 9e 10f 30y"));
    let orders: Vec<_> = orders.into_iter().step_by(7).enumerate().collect();
    let keys: Vec<_> = orders.iter().map(|(number, _)| number.to_string()).collect();
    assert_eq!(keys.len(), 5_760);
    let mut run = Run::new(sums(beam_sessions(), end(), Accumulating));
    for bundle in 0..8 {
        let mut records = Vec::new();
        for ((number, order), key) in orders.iter().zip(&keys) {
            let size = [1, 2, 3, 5, 8][number % 5];
            let part = order.chunks(size).nth(bundle).unwrap_or_default();
            records.extend(part.iter().map(|(_, time, value)| (key.as_str(), *time, *value)));
        }
        assert!(run.records(&records).is_empty());
    }
    let mut panes: BTreeMap<(Window, String), usize> = BTreeMap::new();
    for pane in run.end() {
        *panes.entry((pane.window, letters(pane.value))).or_default() += 1;
    }
    let panes: Vec<_> = panes
        .into_iter()
        .map(|((window, letters), keys)| format!("{window} {letters}: {keys} keys"))
        .collect();
    assert_eq!(panes, ["[1,26) abcdef: 5760 keys", "[30,40) yz: 5760 keys"]);
}

/// Every order of `data`.
fn orders(data: &[Record<'static>]) -> Vec<Vec<Record<'static>>> {
    let Some((first, rest)) = data.split_first() else { return vec![Vec::new()] };
    let with_first = |order: Vec<Record<'static>>| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, *first);
            order
        })
    };
    orders(rest).into_iter().flat_map(with_first).collect()
}
