//! `nilometer bench sequences`: what it costs to judge sessions in the order of event time, against
//! a loop written by hand that keeps a map of vectors and sorts each at its close.
//!
//! Very many sessions, all open at once with four records each, some of which come behind later
//! ones. First one shard by itself: its records of sessions are compared with those of the loop, so
//! a fast wrong answer fails. Then the real actors over lines of JSON.

mod by_hand;
mod engine;
mod input;
mod report;

use super::report::Printed;
use super::result::compare_all;
use super::{BenchError, Output};
use crate::failure::Failure;
use clap::Args;
use input::Input;
use nilometer_model::symbol::Symbols;
use report::{Json, Report};
use std::sync::Arc;

/// What to measure.
#[derive(Debug, Args)]
pub(super) struct SequencesArgs {
    /// Sessions that are open at once
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,
    /// Records of a hundred that come behind a later one of their session, at most 75
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=75))]
    disorder: u8,
    /// How often everything is run; the best counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// Shards of the run over JSON; the default is one per core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// One result: what a session came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Session {
    client: u64,
    outcome: Outcome,
    /// The step that failed or was the last; none if it is connected.
    step: Option<u8>,
    time_to_connect: Option<i64>,
    /// By step: from its first attempt to its result, ms.
    durations: [Option<i64>; 4],
    attempts: [u32; 4],
}

/// How a session of the benchmark can come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Connected,
    Failed,
    Abandoned,
}

pub(super) fn execute(args: &SequencesArgs) -> Result<(), Failure> {
    sequences(args)?.print(args.output)
}

fn sequences(args: &SequencesArgs) -> Result<Report, BenchError> {
    let input = Input { sessions: args.sessions, disorder: args.disorder, seed: args.seed };
    let records = input.records();
    let (plan, symbols) = (engine::plan()?, Arc::new(Symbols::default()));
    // Memory first, while nothing that was freed can be used again.
    let batches = engine::batches(&plan, &symbols, &records)?;
    let (mut best, sessions) = engine::run((&plan, &symbols), &batches)?;
    let grown_bytes = best.grown_bytes;
    let mut by_hand = by_hand::run(&records);
    compare_all("sessions", sessions, std::mem::take(&mut by_hand.sessions))?;
    for _ in 1..args.repeat {
        best = best.min(engine::run((&plan, &symbols), &batches)?.0);
        by_hand = by_hand.min(by_hand::run(&records));
    }
    drop(batches);
    let count = records.len() as u64;
    let disordered = input::disordered(&records);
    let shards = args.shards.map_or_else(super::cores, usize::from);
    let json = json((&input, args.repeat), (&plan, &symbols), shards)?;
    let per_session = |bytes: u64| bytes as f64 / f64::from(args.sessions);
    let ns = |seconds: f64| seconds * 1e9 / count as f64;
    Ok(Report {
        bench: "sequences",
        sessions: args.sessions,
        records: count,
        disordered,
        runs: args.repeat,
        limit_ns_per_record: ns(by_hand.seconds()),
        limit_taking_ns_per_record: ns(by_hand.taking),
        ns_per_record: ns(best.total()),
        taking_ns_per_record: ns(best.taking),
        closing_ns_per_session: best.closing * 1e9 / f64::from(args.sessions),
        records_per_core_second: count as f64 / best.total(),
        ratio: by_hand.seconds() / best.total(),
        bytes_per_session: grown_bytes.map(per_session),
        json,
        results_equal: true,
    })
}

/// Runs the real actors over lines of JSON.
fn json(
    (input, repeat): (&Input, u16),
    engine: engine::Engine<'_>,
    shards: usize,
) -> Result<Json, BenchError> {
    let mut best: Option<Json> = None;
    for _ in 0..repeat {
        let run = engine::run_json(engine, input.json(), shards)?;
        if run.results != u64::from(input.sessions) {
            let what = format!("{} sessions of {}", run.results, input.sessions);
            return Err(BenchError::Results(what));
        }
        let records = u64::from(input.sessions) * input::STEPS as u64;
        let side = super::report::Side::new(records, run.wall, run.processor);
        let is_better = best.as_ref().is_none_or(|best| side.wall_seconds < best.side.wall_seconds);
        if is_better {
            best = Some(Json { shards, side, times_the_reference: report::against(side) });
        }
    }
    best.ok_or_else(|| BenchError::Input("nothing was run".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_and_loop_agree_whatever_the_disorder() {
        for (sessions, disorder) in [(1, 0), (2_000, 3), (500, 75)] {
            let (repeat, shards, seed) = (1, Some(2), 3);
            let output = Output::Json;
            let args = SequencesArgs { sessions, disorder, repeat, shards, seed, output };
            let report = sequences(&args).unwrap();
            assert!(report.results_equal);
            assert_eq!(report.records, u64::from(sessions) * 4);
            let share = report.disordered as f64 / report.records as f64;
            match disorder {
                0 => assert_eq!(share, 0.0),
                3 => assert!((0.025..0.035).contains(&share), "{share}"),
                _ => assert!(share > 0.2, "{share}"),
            }
            let value: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
            assert_eq!(value["sessions"], sessions);
            assert!(report.text().contains("of the loop"));
        }
    }

    #[test]
    fn a_wrong_result_fails() {
        let input = Input { sessions: 50, disorder: 3, seed: 1 };
        let right = by_hand::run(&input.records()).sessions;
        let mut wrong = right.clone();
        wrong.last_mut().unwrap().attempts[0] += 1;
        let error = compare_all("sessions", right.clone(), wrong).unwrap_err();
        assert!(matches!(error, BenchError::Results(_)), "{error}");
        let error = compare_all("sessions", right.clone(), right[1..].to_vec()).unwrap_err();
        assert!(matches!(error, BenchError::Results(_)), "{error}");
    }
}
