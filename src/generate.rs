//! `nilometer generate`: records without a network, as lines of JSON.

use crate::failure::Failure;
use clap::{Args, Subcommand};
use nilometer_connectors::generator::{FlowGenerator, GeneratorSettings, Start, write_opennms};
use nilometer_model::time::EventTime;
use std::io::{self, Write};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  nilometer generate flows --records 100000 --seed 7 > flows.ndjson
  nilometer generate flows --keys 1000000 --skew 0 | zstd > flows.ndjson.zst";

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
}

#[derive(Debug, Args)]
struct FlowsArgs {
    /// How many records
    #[arg(long, default_value_t = 1_000)]
    records: u64,
    /// Seed: the same seed gives the same records
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Conversations
    #[arg(long, default_value_t = 20_000)]
    keys: u64,
    /// Records per second of event time
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// How unequal conversations, hosts and applications are: 1 is Zipf's law, 0 all alike
    #[arg(long, default_value_t = 1.0, value_parser = skew)]
    skew: f64,
    /// Event time of the first record, in milliseconds since the Unix epoch
    #[arg(long, value_name = "MS")]
    start: Option<i64>,
}

fn skew(text: &str) -> Result<f64, String> {
    let skew: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.0..=10.0).contains(&skew) { Ok(skew) } else { Err("it is not in 0 to 10".to_owned()) }
}

/// Writes the records to stdout.
///
/// # Errors
/// Standard output cannot be written.
pub fn execute(args: &GenerateArgs) -> Result<(), Failure> {
    let Kind::Flows(args) = &args.kind;
    Ok(write_flows(args, &mut io::stdout().lock())?)
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_skew_is_a_number_in_its_range() {
        assert_eq!(skew("1.5"), Ok(1.5));
        assert!(skew("-1").is_err() && skew("NaN").is_err() && skew("x").is_err());
    }
}
