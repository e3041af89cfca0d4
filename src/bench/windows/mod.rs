//! `nilometer bench windows`: what window functions cost, against loops written by hand.
//!
//! One shard by itself, without sources, sinks and other threads: records in, panes out. Fixed,
//! sliding and session windows over the same records, and very many sessions open at once. Each is
//! run several times, the best counts; its panes are compared with those of the loop, so a fast
//! wrong answer fails.

mod engine;
mod input;
mod loops;
mod report;

use super::report::Printed;
use super::result::compare_all;
use super::{BenchError, Output};
use crate::failure::Failure;
use clap::Args;
use engine::Spent;
use input::{Input, Record};
use nilometer_model::time::Span;
use nilometer_model::window::{Phase, Touching, WindowFn};
use report::{Figures, OpenSessions, Report};

/// What to measure.
#[derive(Debug, Args)]
pub(super) struct WindowsArgs {
    /// Keys, of which each record has a random one
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Records, evenly spread over four minutes of event time
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Sessions that are open at once
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    sessions: u64,
    /// How often everything is run; the best counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// One result: a pane. Each window of a key has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pane {
    key: u64,
    /// Bounds of its window.
    start: i64,
    end: i64,
    count: u64,
    sum: u64,
}

/// Length of fixed and sliding windows, ms.
const SIZE: i64 = 60_000;

/// From one sliding window to the next, ms.
const PERIOD: i64 = 1_000;

pub(super) fn execute(args: &WindowsArgs) -> Result<(), Failure> {
    windows(args)?.print(args.output)
}

fn windows(args: &WindowsArgs) -> Result<Report, BenchError> {
    // Memory first, while nothing that was freed can be used again.
    let open = open_sessions(args)?;
    let settings = Input { keys: args.keys, records: args.records, seed: args.seed };
    let records: Vec<_> = settings.records().collect();
    // Two thirds of a key's records come within twice their mean distance, the others begin anew.
    let gap =
        (2 * settings.span() * args.keys.cast_signed()).checked_div(args.records.cast_signed());
    let gap = gap.unwrap_or(0).clamp(1, SIZE);
    let fixed = WindowFn::Fixed { size: Span::from_millis(SIZE), offset: 0, phase: Phase::Aligned };
    let sliding = WindowFn::Sliding {
        size: Span::from_millis(SIZE),
        period: Span::from_millis(PERIOD),
        offset: 0,
    };
    let figures = vec![
        measure(args, fixed, &records, loops::fixed)?,
        measure(args, sliding, &records, loops::sliding)?,
        measure(args, session(gap), &records, |records| loops::sessions(records, gap))?,
    ];
    Ok(Report {
        bench: "windows",
        records: args.records,
        keys: args.keys,
        event_time_seconds: settings.span() / 1_000,
        runs: args.repeat,
        sliding_to_fixed: report::sliding_to_fixed(&figures),
        windows: figures,
        open_sessions: open,
        results_equal: true,
    })
}

fn session(gap: i64) -> WindowFn {
    let touching = Touching::Merge;
    WindowFn::Session { gap: Span::from_millis(gap), max_duration: None, touching }
}

/// Runs a window function and its loop, and compares their panes.
fn measure(
    args: &WindowsArgs,
    window: WindowFn,
    records: &[Record],
    by_hand: impl Fn(&[Record]) -> Vec<Pane>,
) -> Result<Figures, BenchError> {
    let plan = engine::plan(window)?;
    let batches = engine::batches(&plan, records);
    let mut best: Option<Spent> = None;
    let mut limit = f64::INFINITY;
    let mut panes = 0;
    for run in 0..args.repeat {
        let (spent, of_engine) = engine::run(&plan, &batches)?;
        let (seconds, of_loop) = loops::timed(|| by_hand(records));
        best = Some(best.map_or(spent, |best| best.min(spent)));
        limit = limit.min(seconds);
        panes = of_loop.len();
        if run == 0 {
            compare_all("panes", of_engine, of_loop)?;
        }
    }
    let count = records.len() as f64;
    let spent = best.unwrap_or_default();
    Ok(Figures {
        window: window.to_string(),
        panes: panes as u64,
        limit_ns_per_record: limit * 1e9 / count,
        ns_per_record: spent.total() * 1e9 / count,
        taking_ns_per_record: spent.taking * 1e9 / count,
        firing_ns_per_pane: spent.firing * 1e9 / (panes as f64).max(1.0),
        ratio: limit / spent.total(),
    })
}

/// Two records of each of very many keys, all of which have an open session between them.
fn open_sessions(args: &WindowsArgs) -> Result<OpenSessions, BenchError> {
    let gap = SIZE;
    let records = input::once_each(args.sessions, args.seed);
    let plan = engine::plan(session(gap))?;
    let batches = engine::batches(&plan, &records);
    let (first, second) = batches.split_at(batches.len() / 2);
    let mut best = engine::open(&plan, (first, second))?;
    for _ in 1..args.repeat {
        // Memory is that of the first: later ones use what was freed.
        best = engine::Opened {
            grown_bytes: best.grown_bytes,
            ..best.min(engine::open(&plan, (first, second))?)
        };
    }
    let (_, of_engine) = engine::run(&plan, &batches)?;
    let mut limit = f64::INFINITY;
    for _ in 0..args.repeat {
        limit = limit.min(loops::timed(|| loops::sessions(&records, gap)).0);
    }
    compare_all("panes", of_engine, loops::sessions(&records, gap))?;
    let sessions = args.sessions as f64;
    Ok(OpenSessions {
        sessions: args.sessions,
        opening_ns: best.opening * 1e9 / sessions,
        joining_ns: best.joining * 1e9 / sessions,
        firing_seconds: best.firing,
        bytes_per_session: best.grown_bytes.map(|bytes| bytes as f64 / sessions),
        limit_ns_per_record: limit * 1e9 / (2.0 * sessions),
        ratio: limit / (best.opening + best.joining + best.firing),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_and_loops_agree() {
        for (keys, records) in [(1, 500), (40, 5_000), (3_000, 4_000)] {
            let output = Output::Json;
            let args = WindowsArgs { keys, records, sessions: 2_000, repeat: 1, seed: 3, output };
            let report = windows(&args).unwrap();
            assert!(report.results_equal);
            // Sliding windows give about sixty panes for each of a fixed one.
            let [fixed, sliding, sessions] = [0, 1, 2].map(|index| report.windows[index].panes);
            assert!(sliding > 10 * fixed && sessions > 0, "{fixed} {sliding} {sessions}");
            let value: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
            assert_eq!(value["windows"][1]["window"], "sliding 1m every 1s");
            assert_eq!(value["open_sessions"]["sessions"], 2_000);
            assert!(report.text().contains("sliding 1m every 1s"));
        }
    }

    #[test]
    fn a_wrong_result_fails() {
        let settings = Input { keys: 5, records: 100, seed: 1 };
        let records: Vec<_> = settings.records().collect();
        let right = loops::sliding(&records);
        let mut wrong = right.clone();
        wrong.last_mut().unwrap().sum += 1;
        let error = compare_all("panes", right.clone(), wrong).unwrap_err();
        assert!(matches!(error, BenchError::Results(_)), "{error}");
        let error = compare_all("panes", right.clone(), right[1..].to_vec()).unwrap_err();
        assert!(matches!(error, BenchError::Results(_)), "{error}");
    }
}
