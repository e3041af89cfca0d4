//! `nilometer bench state`: what storing epochs costs, and a restart.
//!
//! Very many keys, all live, through the real actors: once without a state; once with one, while all
//! keys change again and again; then a restart from what is stored, behind which few keys change. Then
//! the same with a tenth of the memory that the keys take: all are asked for once, and then few.
//! At the end every record must be in the results once, so a fast wrong answer fails.

mod engine;
mod feed;
mod report;

use super::report::Printed;
use super::{BenchError, Output, cores};
use crate::failure::Failure;
use clap::Args;
use engine::{Ending, Ran, Settings};
use feed::Records;
use nilometer_connectors::store::StoreError;
use report::{Few, Report, Tight};
use std::io;
use std::path::{Path, PathBuf};

/// What to measure.
#[derive(Debug, Args)]
pub(super) struct StateArgs {
    /// Keys, all of which are live
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Records; the default is twenty per key
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// From one epoch to the next, ms
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    epoch: u32,
    /// Shards; the default is one per core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// Where the state lies for as long as this takes; the default is a new directory among the
    /// temporary ones
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) fn execute(args: &StateArgs) -> Result<(), Failure> {
    state(args)?.print(args.output)
}

/// A directory that goes with this value.
struct Directory(PathBuf);

impl Directory {
    fn new(wanted: Option<&Path>, of: &str) -> Result<Self, BenchError> {
        let name = format!("nilometer-bench-{}-{of}", std::process::id());
        let path = wanted.map_or_else(std::env::temp_dir, Path::to_owned).join(name);
        let unusable =
            |source| StoreError::Directory { path: path.to_string_lossy().into(), source };
        std::fs::create_dir_all(&path).map_err(unusable)?;
        Ok(Self(path))
    }

    /// Bytes of all files in it.
    fn bytes(&self) -> io::Result<u64> {
        let (mut bytes, mut open) = (0, vec![self.0.clone()]);
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory)? {
                let entry = entry?;
                let metadata = entry.metadata()?;
                if metadata.is_dir() {
                    open.push(entry.path());
                } else {
                    bytes += metadata.len();
                }
            }
        }
        Ok(bytes)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed is among temporary files.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn state(args: &StateArgs) -> Result<Report, BenchError> {
    let records = args.records.unwrap_or_else(|| args.keys.saturating_mul(20));
    let keys = args.keys.min(records);
    let shards = args.shards.map_or_else(cores, usize::from);
    let plan = engine::plan()?;
    let directory = Directory::new(args.dir.as_deref(), "ample")?;
    let without = Settings {
        plan: &plan,
        shards,
        epoch: args.epoch,
        state: None,
        memory: None,
        ending: Ending::Drains,
    };
    let with = Settings { state: Some(&directory.0), ..without };
    let all = Records { first: 0, count: records, keys };
    let off = engine::run(without, all)?;
    let on = engine::run(with, all)?;
    let disk_bytes = directory.bytes().map_err(|error| BenchError::Input(error.to_string()))?;
    let changing = keys.div_ceil(100);
    let few = Records { first: records, count: records.div_ceil(2), keys: changing };
    let again = engine::run(Settings { ending: Ending::Ends, ..with }, few)?;
    check(&again, keys, records + few.count)?;
    Ok(Report {
        bench: "state",
        keys,
        records,
        shards,
        epoch_ms: args.epoch,
        off_records_per_second: off.records_per_second(records),
        on_records_per_second: on.records_per_second(records),
        ratio: on.records_per_second(records) / off.records_per_second(records),
        epochs: on.epochs,
        bytes_per_epoch: on.bytes_per_epoch(),
        pause_max_ms: on.pause_max_ms,
        disk_bytes,
        disk_bytes_per_key: disk_bytes as f64 / keys as f64,
        restart_seconds: again.start_seconds,
        few: Few::of(&again, few),
        tight: tight(args, keys, without)?,
        results_equal: true,
    })
}

/// With a tenth of the memory that all keys take.
fn tight(args: &StateArgs, keys: u64, settings: Settings<'_>) -> Result<Tight, BenchError> {
    let directory = Directory::new(args.dir.as_deref(), "tight")?;
    let settings = Settings { state: Some(&directory.0), ..settings };
    let each = |round: u64| Records { first: round * keys, count: keys, keys };
    // A budget that nothing reaches, so that it is counted what they take.
    let whole = Settings { memory: Some(usize::MAX), ..settings };
    let state_bytes = engine::run(whole, each(0))?.memory.bytes;
    let budget = state_bytes / 10;
    let tight = Settings { memory: Some(budget), ..settings };
    let all = engine::run(tight, each(1))?;
    let disk_bytes = directory.bytes().map_err(|error| BenchError::Input(error.to_string()))?;
    let changing = Records { first: 2 * keys, count: keys, keys: keys.div_ceil(100) };
    let few = engine::run(Settings { ending: Ending::Ends, ..tight }, changing)?;
    check(&few, keys, 3 * keys)?;
    Ok(Tight {
        state_bytes,
        budget,
        records_per_second: all.records_per_second(keys),
        came: all.memory.came,
        pause_max_ms: all.pause_max_ms,
        disk_bytes_per_key: disk_bytes as f64 / keys as f64,
        restart_seconds: few.start_seconds,
        few: Few::of(&few, changing),
    })
}

/// Every key has one result, and every record is in one.
fn check(ran: &Ran, keys: u64, records: u64) -> Result<(), BenchError> {
    let keys = keys.min(records);
    if (ran.results, ran.counted) == (keys, records) {
        return Ok(());
    }
    let (results, counted) = (ran.results, ran.counted);
    Err(BenchError::Results(format!(
        "{results} results that count {counted} records, and there were {keys} keys and {records} records"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_counted_once_across_the_restart() {
        // Of more keys than records there are as many.
        for (keys, shards) in [(500, 1), (1_000, 3), (30_000, 2)] {
            let directory = tempfile::tempdir().unwrap();
            let args = StateArgs {
                keys,
                records: Some(20_000),
                epoch: 5,
                shards: Some(shards),
                dir: Some(directory.path().to_owned()),
                output: Output::Json,
            };
            let report = state(&args).unwrap();
            assert!(report.epochs > 0 && report.few.epochs > 0);
            assert!(report.disk_bytes > 0 && report.bytes_per_epoch > 0.0);
            let value: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
            assert_eq!(value["few"]["keys"], keys.min(20_000) / 100);
            assert!(report.text().contains("of the speed without"));
            assert!(report.tight.came > 0 && report.tight.budget < report.tight.state_bytes);
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it is removed");
        }
    }

    #[test]
    fn a_record_that_is_lost_fails() {
        let ran = Ran { results: 10, counted: 99, ..Ran::default() };
        assert!(matches!(check(&ran, 10, 100), Err(BenchError::Results(_))));
    }
}
