//! Generated flow records, and [`connections`]: for a first look, for load, for the benchmark.
//!
//! A seed and the settings fix every record: the same seed gives the same records on every run.
//! Nothing here reads a clock, except where the settings ask for times that start now.
//!
//! A record belongs to a conversation, and the conversation fixes who exported it, on which
//! interface it counts, its ends, its application and its code point. So the number of
//! conversations is the number of keys, whatever the number of records.

pub mod connections;
mod dice;
mod flows;
mod json;
mod source;

pub use dice::Dice;
pub use flows::FlowGenerator;
pub use json::write_opennms;
pub use source::GeneratorSource;

use nilometer_model::time::{EventTime, Span};

/// What to generate.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorSettings {
    /// Fixes every random choice.
    pub seed: u64,
    /// How many records; endless if absent.
    pub records: Option<u64>,
    /// Records per second of event time, at least 1.
    pub rate: u64,
    /// Event time of the first record.
    pub start: Start,
    /// Exporters, at least 1.
    pub exporters: u32,
    /// Interfaces of each exporter, at least 1.
    pub interfaces: u32,
    /// Hosts, at least 1 and at most [`GeneratorSettings::HOSTS_MAX`].
    pub hosts: u32,
    /// Applications, at least 1.
    pub applications: u32,
    /// Different code points, 1 to 64.
    pub dscps: u8,
    /// Conversations, at least 1.
    pub conversations: u64,
    /// How unequal conversations, hosts and applications are: rank r comes about as often as
    /// (r + 1)^-skew. 1 is Zipf's law; 0 is each conversation equally often, in turn.
    pub skew: f64,
    /// Most that a record comes behind others of its time.
    pub disorder: Span,
    /// Part of the records that come later than that, 0 to 1.
    pub late_share: f64,
    /// Most that those come behind.
    pub late_by: Span,
    /// Usual length of a flow.
    pub duration: Span,
    /// Part of the flows that are long, 0 to 1.
    pub long_share: f64,
    /// Most that those last.
    pub long_duration: Span,
    /// Sampling intervals that the exporters have, in turn; none is no sampling.
    pub sampling: Vec<u32>,
    /// Part of the conversations that are over IPv6, 0 to 1.
    pub ipv6_share: f64,
}

/// When generated records begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this event time; records then come as fast as they are read.
    At(EventTime),
    /// Now, and records come when their time has come.
    Now,
}

impl GeneratorSettings {
    /// Most hosts that there can be: as many as 10.0.0.0/8 has addresses, nearly.
    pub const HOSTS_MAX: u32 = 16_000_000;
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            records: None,
            rate: 1_000,
            // 2023-11-14T22:00:00Z, a whole hour.
            start: Start::At(EventTime::from_millis(1_699_999_200_000)),
            exporters: 4,
            interfaces: 8,
            hosts: 2_000,
            applications: 40,
            dscps: 4,
            conversations: 20_000,
            skew: 1.0,
            disorder: Span::from_millis(10_000),
            late_share: 0.01,
            late_by: Span::from_millis(600_000),
            duration: Span::from_millis(8_000),
            long_share: 0.02,
            long_duration: Span::from_millis(300_000),
            sampling: vec![1, 1, 100, 1_000],
            ipv6_share: 0.2,
        }
    }
}
