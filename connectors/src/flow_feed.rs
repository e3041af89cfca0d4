//! From datagrams to records: decoded, then taken in. What the sources of flows have in common.
//!
//! Every datagram is counted, and every flow of it has one outcome. The counts of the decoder and
//! of the packets around are passed on to the account of the source.

use crate::account::{Reason, SourceAccount};
use crate::capture::{Datagram, PacketCounts};
use crate::dead_letter::Place;
use crate::flow_intake::FlowIntake;
use crate::netflow::{DecoderCounts, DecoderSettings, FlowDecoder};
use crate::source::{Found, Polled};
use nilometer_model::flow::Flow;
use nilometer_model::row::Position;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Makes records of datagrams.
#[derive(Debug)]
pub(crate) struct FlowFeed {
    decoder: FlowDecoder,
    intake: FlowIntake,
    /// Flows of one datagram. Cleared by the next.
    flows: Vec<Flow>,
    /// What the account of the source has been told.
    told: DecoderCounts,
}

/// A feed, for a later process: what its decoder has learned, the records begun, and what has been
/// told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FeedImage<D> {
    decoder: D,
    records: u64,
    told: DecoderCounts,
}

impl FlowFeed {
    pub(crate) fn new(settings: DecoderSettings, intake: FlowIntake) -> Self {
        Self {
            decoder: FlowDecoder::new(settings),
            intake,
            flows: Vec::new(),
            told: DecoderCounts::default(),
        }
    }

    /// What a later process needs to go on.
    pub(crate) fn image(&self) -> FeedImage<&FlowDecoder> {
        FeedImage { decoder: &self.decoder, records: self.intake.count_so_far(), told: self.told }
    }

    /// Goes on where `image` was taken.
    pub(crate) fn resume(&mut self, image: FeedImage<FlowDecoder>) {
        self.decoder.resume(image.decoder);
        self.intake.resume(image.records);
        self.told = image.told;
    }

    /// The flows of the next datagram stand at `position`.
    pub(crate) fn place(&mut self, position: Position) {
        self.intake.place(position);
    }

    /// Counts a datagram as a record that gives no flow, and rejects it.
    pub(crate) fn reject(
        &mut self,
        (reason, detail): (Reason, &str),
        found: Found<'_>,
        out: &mut Polled,
    ) {
        self.intake.reject(found, reason, detail, out);
    }

    /// Takes in the flows of `datagram`, `found` in its input. Returns the bytes of the dead letters
    /// that this gave.
    pub(crate) fn take_found(
        &mut self,
        datagram: Datagram<'_>,
        found: Found<'_>,
        out: &mut Polled,
    ) -> usize {
        self.decoder.decode(datagram, &mut self.flows);
        self.empty(found, out)
    }

    /// Takes in the flows of `datagram`, number `number` of `origin`. Returns the bytes of the
    /// dead letters that this gave.
    pub(crate) fn take(
        &mut self,
        datagram: Datagram<'_>,
        origin: &Arc<str>,
        number: u64,
        out: &mut Polled,
    ) -> usize {
        self.take_found(datagram, Found::new(origin, Place::Packet(number), datagram.payload), out)
    }

    /// Takes in the flows that are left when `origin` has ended after `number` datagrams.
    pub(crate) fn finish(&mut self, origin: &Arc<str>, number: u64, out: &mut Polled) {
        self.decoder.finish(&mut self.flows);
        self.empty(Found::new(origin, Place::Packet(number), &[]), out);
    }

    fn empty(&mut self, mut found: Found<'_>, out: &mut Polled) -> usize {
        let before = out.letters.len();
        for flow in self.flows.drain(..) {
            self.intake.take(&flow, found, out);
            if out.letters.len() > before {
                // One letter holds the datagram, the others of the same datagram refer to it.
                found.raw = &[];
            }
        }
        self.tell(&mut out.account);
        out.letter_bytes(before)
    }

    /// Passes on what the decoder has counted since the last time.
    fn tell(&mut self, account: &mut SourceAccount) {
        let counts = self.decoder.counts();
        account.datagrams.read = counts.read;
        account.datagrams.malformed = counts.malformed;
        account.datagrams.no_template = counts.no_template;
        for (name, now, told) in [
            ("sequence_gaps", counts.sequence_gaps, self.told.sequence_gaps),
            ("template_changes", counts.template_changes, self.told.template_changes),
            ("templates_refused", counts.templates_refused, self.told.templates_refused),
            ("options_records", counts.options_records, self.told.options_records),
            ("other_samples", counts.other_samples, self.told.other_samples),
        ] {
            account.marks.add(name, now.saturating_sub(told));
        }
        self.told = counts;
    }
}

/// Passes on what was between the datagrams of a capture.
pub(crate) fn tell_packets(counts: PacketCounts, account: &mut SourceAccount) {
    for (name, count) in [
        ("packets_shortened", counts.shortened),
        ("packets_not_udp", counts.not_udp),
        ("packets_fragmented", counts.fragments),
        ("packets_damaged", counts.damaged),
    ] {
        account.marks.add(name, count);
    }
}
