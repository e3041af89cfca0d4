//! `nilometer generate`: records without a network, as lines of JSON.

use crate::failure::Failure;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, value_parser};
use nilometer_connectors::generator::connections::{
    ConnectionGenerator, ConnectionSettings, write_connection, write_truth,
};
use nilometer_connectors::generator::{FlowGenerator, GeneratorSettings, Start, write_opennms};
use nilometer_model::time::{EventTime, Span};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer generate flows --records 100000 --seed 7 > flows.ndjson
  nilometer generate flows --keys 1000000 --skew 0 | zstd > flows.ndjson.zst
  nilometer generate connections --truth truth.ndjson > connections.ndjson";

/// What to generate.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Flow records under the field names of OpenNMS, one JSON object per line
    Flows(FlowsArgs),
    /// Records of clients that connect to wireless networks, out of order, one JSON object per line
    Connections(ConnectionsArgs),
}

#[derive(Debug, Args)]
struct FlowsArgs {
    /// How many records
    #[arg(long, default_value_t = 1_000)]
    records: u64,
    /// Seed: the same seed gives the same records
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Conversations, at least 1
    #[arg(long, default_value_t = 20_000, value_parser = at_least_one())]
    keys: u64,
    /// Records per second of event time, at least 1
    #[arg(long, default_value_t = 1_000, value_parser = at_least_one())]
    rate: u64,
    /// How unequal conversations, hosts and applications are: 1 is Zipf's law, 0 all alike
    #[arg(long, default_value_t = 1.0, value_parser = skew)]
    skew: f64,
    /// Event time of the first record, in milliseconds since the Unix epoch
    #[arg(long, value_name = "MS")]
    start: Option<i64>,
}

#[derive(Debug, Args)]
struct ConnectionsArgs {
    /// How many sessions, bots left out
    #[arg(long, default_value_t = 1_000)]
    sessions: u64,
    /// Seed: the same seed gives the same records
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sessions that begin per second of event time, at least 1
    #[arg(long, default_value_t = 2, value_parser = at_least_one())]
    rate: u64,
    /// Networks, at least 1
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..))]
    networks: u32,
    /// Access points of each network, at least 1
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    aps: u32,
    /// Most that a record comes after it was written, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    disorder: u32,
    /// Most that the clock of an access point is wrong, in milliseconds, at most 4000
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = value_parser!(u32).range(..=4_000))]
    clock_skew: u32,
    /// Part of the records that come later than that, 0 to 1
    #[arg(long, default_value_t = 0.005, value_parser = part)]
    late_share: f64,
    /// Most that those come after they were written, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300_000)]
    late_by: u32,
    /// Part of the records that never come, 0 to 1
    #[arg(long, default_value_t = 0.002, value_parser = part)]
    lost_share: f64,
    /// Part of the records that come twice, 0 to 1
    #[arg(long, default_value_t = 0.02, value_parser = part)]
    copy_share: f64,
    /// Clients that are refused, and try again without end
    #[arg(long, default_value_t = 2)]
    bots: u32,
    /// When the first session begins, in milliseconds since the Unix epoch
    #[arg(long, value_name = "MS", default_value_t = 1_699_999_200_000)]
    start: i64,
    /// File for the true verdict of each session, one JSON object per line
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
}

impl ConnectionsArgs {
    fn settings(&self) -> ConnectionSettings {
        let millis = |millis: u32| Span::from_millis(millis.into());
        ConnectionSettings {
            seed: self.seed,
            sessions: self.sessions,
            rate: self.rate,
            start: EventTime::from_millis(self.start),
            networks: self.networks,
            aps: self.aps,
            disorder: millis(self.disorder),
            clock_skew: millis(self.clock_skew),
            late_share: self.late_share,
            late_by: millis(self.late_by),
            lost_share: self.lost_share,
            copy_share: self.copy_share,
            bots: self.bots,
        }
    }
}

fn at_least_one() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..)
}

fn part(text: &str) -> Result<f64, String> {
    number_in(text, 1.0)
}

fn skew(text: &str) -> Result<f64, String> {
    number_in(text, 10.0)
}

fn number_in(text: &str, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    let is_in = (0.0..=most).contains(&number);
    if is_in { Ok(number) } else { Err(format!("it is not in 0 to {most}")) }
}

/// Writes the records to stdout.
///
/// # Errors
/// Standard output or the side file cannot be written.
pub fn execute(args: &GenerateArgs) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match &args.kind {
        Kind::Flows(args) => Ok(write_flows(args, &mut stdout)?),
        Kind::Connections(args) => write_connections(args, &mut stdout),
    }
}

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 1 << 16;

fn write_flows(args: &FlowsArgs, out: &mut impl Write) -> io::Result<()> {
    let defaults = GeneratorSettings::default();
    let start = match (args.start, defaults.start) {
        (Some(millis), _) => EventTime::from_millis(millis),
        (None, Start::At(start)) => start,
        (None, Start::Now) => EventTime::MIN,
    };
    let settings = GeneratorSettings {
        seed: args.seed,
        records: Some(args.records),
        rate: args.rate,
        start: Start::At(start),
        conversations: args.keys,
        skew: args.skew,
        ..defaults
    };
    let mut text = String::new();
    for flow in FlowGenerator::new(settings, start) {
        write_opennms(&flow, &mut text);
        if text.len() >= CHUNK_BYTES {
            out.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn write_connections(args: &ConnectionsArgs, out: &mut impl Write) -> Result<(), Failure> {
    let mut side = args.truth.as_deref().map(SideFile::create).transpose()?;
    let mut generator = ConnectionGenerator::new(args.settings());
    let (mut text, mut truths) = (String::new(), String::new());
    loop {
        let record = generator.next();
        let is_over = record.is_none();
        if let Some(record) = record {
            write_connection(&record, &mut text);
        }
        if is_over || text.len() >= CHUNK_BYTES {
            out.write_all(text.as_bytes())?;
            text.clear();
            for truth in generator.take_finished() {
                write_truth(&truth, &mut truths);
            }
            if let Some(side) = &mut side {
                side.write(&truths, is_over)?;
            }
            truths.clear();
        }
        if is_over {
            return Ok(out.flush()?);
        }
    }
}

/// A file beside the records.
struct SideFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> SideFile<'a> {
    fn create(path: &'a Path) -> Result<Self, Failure> {
        match File::create(path) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(Failure::File { path: path.into(), error }),
        }
    }

    fn write(&mut self, text: &str, is_last: bool) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes());
        let written = if is_last { written.and_then(|()| self.file.sync_all()) } else { written };
        written.map_err(|error| Failure::File { path: self.path.into(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;
    use clap::error::ErrorKind;

    #[test]
    fn as_many_lines_come_as_were_asked_for_and_the_same_every_time() {
        let lines = |records, start| {
            let args = FlowsArgs { records, seed: 3, keys: 50, rate: 10, skew: 1.0, start };
            let mut out = Vec::new();
            write_flows(&args, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = lines(500, None);
        assert_eq!(text, lines(500, None));
        assert_ne!(text, lines(500, Some(0)));
        assert_eq!(text.lines().count(), 500);
        assert!(text.lines().all(|line| line.contains("\"exporter_node\":{")));
        assert_eq!(lines(0, None), "");
    }

    #[test]
    fn connections_come_with_the_truth_of_every_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.ndjson");
        let args = ConnectionsArgs {
            sessions: 300,
            seed: 5,
            rate: 2,
            networks: 2,
            aps: 3,
            disorder: 5_000,
            clock_skew: 1_000,
            late_share: 0.01,
            late_by: 60_000,
            lost_share: 0.01,
            copy_share: 0.02,
            bots: 1,
            start: 0,
            truth: Some(path.clone()),
        };
        let mut out = Vec::new();
        write_connections(&args, &mut out).unwrap();
        let json = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let text = String::from_utf8(out).unwrap();
        let truths = std::fs::read_to_string(&path).unwrap();
        let sum = |name: &str| {
            let numbers = truths.lines().map(|line| json(line).get(name).unwrap().as_u64());
            numbers.map(Option::unwrap).sum::<u64>()
        };
        assert_eq!(truths.lines().count(), 301);
        let records = text.lines().count() as u64;
        assert!(text.lines().map(json).all(|record| record.get("step").is_some()));
        let copies = sum("copies");
        assert!(records > 2_000 && copies > 0 && sum("lost") > 0);
        assert_eq!(records, sum("records") + copies);
        let nowhere = folder.path().join("no/such/folder");
        let error =
            write_connections(&ConnectionsArgs { truth: Some(nowhere), ..args }, &mut Vec::new());
        assert_eq!(error.unwrap_err().exit_code(), 4);
    }

    #[test]
    fn numbers_of_which_nothing_could_come_are_refused() {
        for (arguments, is_taken) in [
            ("flows --rate 0", false),
            ("flows --keys 0", false),
            ("flows --rate 1 --keys 1 --records 0", true),
            ("connections --rate 0", false),
            ("connections --networks 0", false),
            ("connections --aps 0", false),
            ("connections --clock-skew 4001", false),
            ("connections --rate 1 --networks 1 --aps 1 --clock-skew 4000 --sessions 0", true),
        ] {
            let words = ["nilometer", "generate"].into_iter().chain(arguments.split(' '));
            let error = Cli::try_parse_from(words).err();
            assert_eq!(error.is_none(), is_taken, "{arguments}");
            assert!(error.is_none_or(|error| error.kind() == ErrorKind::ValueValidation));
        }
    }

    #[test]
    fn a_skew_is_a_number_in_its_range() {
        assert_eq!(skew("1.5"), Ok(1.5));
        assert!(part("1.1").is_err() && part("1") == Ok(1.0));
        assert!(skew("-1").is_err() && skew("NaN").is_err() && skew("x").is_err());
    }
}
