//! From the facts of a record to the flow that the jobs read.
//!
//! One decision per function: who exported it, on which interface it counts, how much it stands
//! for, when it happened, which conversation it belongs to. What is doubtful but usable is noted
//! ([`FlowNotes`]) and counted by the caller; what is not usable is a [`MalformedFlow`].

use std::net::IpAddr;

use crate::flow::applications::{Applications, UNKNOWN_APPLICATION};
use crate::flow::conversation::is_source_higher;
use crate::flow::exporters::{ExporterId, Exporters};
use crate::flow::record::{Direction, Flow};
use crate::flow::sampling::{is_valid_interval, scale};
use crate::flow::share::Extent;
use crate::time::{EventTime, Span};

/// What to do with the reverse direction of a biflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Biflow {
    /// Note that it was there, and leave it out.
    #[default]
    Count,
    /// Make it a record of its own, see [`reverse`].
    Split,
}

/// How flows are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowSettings {
    /// What to do with the reverse direction of a biflow.
    pub biflow: Biflow,
    /// Shift the times of a record whose header and arrival differ by more than this; never if
    /// absent.
    pub clock_correction: Option<Span>,
}

/// What was doubtful about a record that was used all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowNotes {
    /// Its sampling interval was zero, negative or not finite, and counted as 1.
    pub bad_sampling: bool,
    /// It ended before it began, and was taken as one instant at its end.
    pub reversed_times: bool,
    /// It gave no switched time, or the epoch, and took the time of its header or arrival.
    pub substituted_times: bool,
    /// It had a reverse direction, which was left out.
    pub reverse_direction: bool,
    /// Its times were shifted by the clock correction.
    pub clock_corrected: bool,
}

impl FlowNotes {
    /// Every note with its name in summaries and metrics.
    pub fn named(self) -> [(&'static str, bool); 5] {
        [
            ("bad_sampling", self.bad_sampling),
            ("reversed_times", self.reversed_times),
            ("substituted_times", self.substituted_times),
            ("reverse_direction", self.reverse_direction),
            ("clock_corrected", self.clock_corrected),
        ]
    }
}

/// Why a record cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum MalformedFlow {
    /// Nothing says who exported it.
    #[error("the record names no exporter: it needs an exporter node or address")]
    MissingExporter,
    /// Nothing says when it was.
    #[error("the record has no time: it needs a switched time, a header time or an arrival time")]
    NoTimes,
    /// A time at an end of the type, which means an infinity.
    #[error("time {millis} ms is outside the range of times")]
    TimeOutOfRange {
        /// What the record says.
        millis: i64,
    },
    /// More bytes or packets than there can be.
    #[error(
        "{amount} {unit} with sampling interval {interval} are more than 2^100: check the sampling"
    )]
    AmountTooLarge {
        /// What the record says, not scaled.
        amount: u64,
        /// Bytes or packets.
        unit: &'static str,
        /// What it is scaled by.
        interval: f64,
    },
}

impl MalformedFlow {
    /// The name of the reason in summaries, metrics and dead letters.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::MissingExporter => "missing_exporter",
            Self::NoTimes => "no_times",
            Self::TimeOutOfRange { .. } => "time_out_of_range",
            Self::AmountTooLarge { .. } => "amount_too_large",
        }
    }
}

/// A flow as the jobs read it: facts, and what was decided about them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalFlow<'a> {
    /// The facts.
    pub flow: &'a Flow,
    /// Who exported it.
    pub exporter: ExporterId<'a>,
    /// Which way it passed the exporter.
    pub direction: Direction,
    /// The interface that it counts on: its input if it is ingress, else its output; 0 if unset.
    pub if_index: u32,
    /// Differentiated services code point; 0 if unset.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Option<u8>,
    /// Name of the application, [`UNKNOWN_APPLICATION`] if nothing names it.
    pub application: &'a str,
    /// The end of the conversation whose address is lower as text.
    pub lower: Option<IpAddr>,
    /// The other end.
    pub upper: Option<IpAddr>,
    /// Name of the lower end.
    pub lower_hostname: Option<&'a str>,
    /// Name of the upper end.
    pub upper_hostname: Option<&'a str>,
    /// The sampling interval that scaled it; finite, above zero.
    pub sampling_interval: f64,
    /// Bytes, scaled by sampling; at most 2^100.
    pub bytes: u128,
    /// Packets, scaled by sampling; at most 2^100.
    pub packets: u128,
    /// When it was.
    pub extent: Extent,
    /// What was doubtful.
    pub notes: FlowNotes,
}

impl NormalFlow<'_> {
    /// Whether a router signalled congestion.
    pub fn is_congestion_encountered(&self) -> bool {
        self.ecn == Some(3)
    }

    /// Whether the ends do not use explicit congestion notification, as far as is known.
    pub fn is_non_ect(&self) -> bool {
        matches!(self.ecn, None | Some(0))
    }

    /// Whether all that identifies a conversation is there.
    pub fn is_conversation_complete(&self) -> bool {
        self.flow.protocol.is_some() && self.lower.is_some() && self.upper.is_some()
    }
}

/// Normalises one record.
///
/// # Errors
/// The record cannot be used; see [`MalformedFlow`].
pub fn normalise<'a>(
    flow: &'a Flow,
    exporters: &'a Exporters,
    applications: &'a Applications,
    settings: FlowSettings,
) -> Result<NormalFlow<'a>, MalformedFlow> {
    let entry = flow.exporter_address.and_then(|address| exporters.get(address));
    let exporter = match (&flow.node, entry, flow.exporter_address) {
        (Some(node), _, _) => ExporterId::Node(node),
        (None, Some(entry), _) => ExporterId::Node(&entry.node),
        (None, None, Some(address)) => ExporterId::Address(address.to_canonical()),
        (None, None, None) => return Err(MalformedFlow::MissingExporter),
    };
    let mut notes = FlowNotes::default();
    let given = flow.sampling_interval.or(flow.options_sampling);
    notes.bad_sampling = given.is_some_and(|interval| !is_valid_interval(interval));
    let interval = given
        .or(entry.and_then(|entry| entry.sampling))
        .filter(|interval| is_valid_interval(*interval))
        .unwrap_or(1.0);
    let extent = extent(flow, settings, &mut notes)?;
    notes.reverse_direction = settings.biflow == Biflow::Count && has_reverse(flow);
    let direction = flow.direction.unwrap_or(Direction::Ingress);
    let counted = match direction {
        Direction::Ingress => flow.input,
        Direction::Egress | Direction::Unknown => flow.output,
    };
    let (source, destination) = (canonical(flow.src_address), canonical(flow.dst_address));
    let mut ends = [(source, &flow.src_hostname), (destination, &flow.dst_hostname)];
    if is_source_higher(source, destination) {
        ends.swap(0, 1);
    }
    let [(lower, lower_hostname), (upper, upper_hostname)] = ends;
    Ok(NormalFlow {
        flow,
        exporter,
        direction,
        if_index: counted.unwrap_or(0),
        dscp: flow.dscp.or(flow.tos.map(|tos| tos >> 2)).unwrap_or(0),
        ecn: flow.ecn.or(flow.tos.map(|tos| tos & 3)),
        application: application(flow, applications),
        lower,
        upper,
        lower_hostname: lower_hostname.as_deref(),
        upper_hostname: upper_hostname.as_deref(),
        sampling_interval: interval,
        bytes: scaled(flow.bytes, "bytes", interval)?,
        packets: scaled(flow.packets, "packets", interval)?,
        extent,
        notes,
    })
}

/// The reverse direction of a biflow as a record of its own, its ends and interfaces swapped;
/// `None` if the record has no reverse direction.
pub fn reverse(flow: &Flow) -> Option<Flow> {
    has_reverse(flow).then(|| Flow {
        input: flow.output,
        output: flow.input,
        input_interface: flow.output_interface.clone(),
        output_interface: flow.input_interface.clone(),
        src_address: flow.dst_address,
        dst_address: flow.src_address,
        src_port: flow.dst_port,
        dst_port: flow.src_port,
        src_as: flow.dst_as,
        dst_as: flow.src_as,
        src_hostname: flow.dst_hostname.clone(),
        dst_hostname: flow.src_hostname.clone(),
        bytes: flow.reverse_bytes,
        packets: flow.reverse_packets,
        reverse_bytes: None,
        reverse_packets: None,
        // The next hop is that of the forward direction.
        next_hop: None,
        ..flow.clone()
    })
}

fn has_reverse(flow: &Flow) -> bool {
    flow.reverse_bytes.unwrap_or(0) > 0 || flow.reverse_packets.unwrap_or(0) > 0
}

fn canonical(address: Option<IpAddr>) -> Option<IpAddr> {
    address.map(|address| address.to_canonical())
}

fn application<'a>(flow: &'a Flow, applications: &'a Applications) -> &'a str {
    let given = flow.application.as_deref().filter(|name| !name.is_empty());
    given.unwrap_or_else(|| {
        applications
            .find(flow.protocol, flow.src_port, flow.dst_port)
            .map_or(UNKNOWN_APPLICATION, |name| name)
    })
}

fn scaled(amount: Option<u64>, unit: &'static str, interval: f64) -> Result<u128, MalformedFlow> {
    let amount = amount.unwrap_or(0);
    scale(amount, interval).ok_or(MalformedFlow::AmountTooLarge { amount, unit, interval })
}

/// When the flow was: its own times, else the header's, else that of its arrival.
fn extent(
    flow: &Flow,
    settings: FlowSettings,
    notes: &mut FlowNotes,
) -> Result<Extent, MalformedFlow> {
    let (first, last) = match (known(flow.delta_ms).or(known(flow.first_ms)), known(flow.last_ms)) {
        (Some(first), Some(last)) => (first, last),
        (None, Some(instant)) | (Some(instant), None) => (instant, instant),
        (None, None) => {
            notes.substituted_times = true;
            let instant = known(flow.header_ms).or(known(flow.arrival_ms));
            let instant = instant.ok_or(MalformedFlow::NoTimes)?;
            (instant, instant)
        }
    };
    notes.reversed_times = last < first;
    let shift = correction(flow, settings);
    notes.clock_corrected = shift != 0;
    let shifted = |millis: i64| {
        let millis = millis.saturating_add(shift);
        if millis == i64::MIN || millis == i64::MAX {
            return Err(MalformedFlow::TimeOutOfRange { millis });
        }
        Ok(EventTime::from_millis(millis))
    };
    Ok(Extent::new(shifted(first)?, shifted(last)?))
}

/// A time other than the epoch itself, which is what exporters send that do not know the time.
fn known(millis: Option<i64>) -> Option<i64> {
    millis.filter(|millis| *millis != 0)
}

/// By how much the exporter's clock is corrected, in milliseconds.
fn correction(flow: &Flow, settings: FlowSettings) -> i64 {
    let (Some(threshold), Some(header), Some(arrival)) =
        (settings.clock_correction, known(flow.header_ms), known(flow.arrival_ms))
    else {
        return 0;
    };
    let skew = arrival.saturating_sub(header);
    if skew.saturating_abs() > threshold.as_millis() { skew } else { 0 }
}
