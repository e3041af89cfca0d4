//! From one record of a partition to records of the pipeline, or to a dead letter: whatever it
//! holds, it has an outcome, and the next one is read.

use super::document;
use super::flow_document::FlowDocument;
use super::queue::{Chunk, Raw};
use super::source::{KafkaFormat, RecordTime};
use crate::account::Reason;
use crate::capture::Datagram;
use crate::dead_letter::Place;
use crate::flow_feed::{FeedImage, FlowFeed};
use crate::flow_intake::FlowIntake;
use crate::netflow::{DecoderSettings, FlowDecoder};
use crate::source::{Found, Polled};
use crate::text::{Documents, JsonDecoder, JsonRecords, Rows};
use nilometer_model::row::{Position, RowLayout};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Makes records of values.
#[derive(Debug)]
pub(crate) struct Decoder {
    form: Form,
    /// Most bytes of a value.
    bytes_max: usize,
}

#[derive(Debug)]
enum Form {
    Json { decoder: JsonDecoder, time: RecordTime },
    Document(FlowIntake, Box<FlowDocument>),
    Datagram { feed: Box<FlowFeed>, exporter: Option<IpAddr> },
}

impl Decoder {
    pub(crate) fn new(
        format: KafkaFormat,
        bytes_max: usize,
        layout: &Arc<RowLayout>,
        symbols: Arc<Symbols>,
    ) -> Self {
        let intake = |context, symbols| FlowIntake::new(context, layout, symbols, 0);
        let form = match format {
            KafkaFormat::Json { schema, time } => {
                let rows = Rows::new(&schema, layout, symbols, 0);
                Form::Json { decoder: JsonDecoder::Records(JsonRecords::new(rows)), time }
            }
            KafkaFormat::Flows(names, context) => Form::Json {
                decoder: JsonDecoder::Flows(Documents::new(names, intake(context, symbols))),
                time: RecordTime::Field,
            },
            KafkaFormat::FlowProtobuf(context) => {
                Form::Document(intake(context, symbols), Box::default())
            }
            KafkaFormat::Netflow { context, exporter } => Form::Datagram {
                feed: Box::new(FlowFeed::new(DecoderSettings::LIVE, intake(context, symbols))),
                exporter,
            },
        };
        Self { form, bytes_max }
    }

    /// Makes records of `raw`, a record of `chunk` in the partition called `origin`.
    pub(crate) fn take(
        &mut self,
        (chunk, raw): (&Chunk, &Raw),
        origin: &Arc<str>,
        out: &mut Polled,
    ) {
        let offset = u64::try_from(raw.offset).unwrap_or(0);
        let position = Position { partition: raw.partition as u32, offset };
        let value = chunk.value(raw).filter(|value| !value.is_empty());
        let found = Found::new(origin, Place::Offset(offset), value.unwrap_or_default());
        let reject = match value {
            None => Some((Reason::NoValue, "")),
            Some(value) if value.len() > self.bytes_max => {
                Some((Reason::TooLong, "beyond `record_max`"))
            }
            Some(_) => None,
        };
        match &mut self.form {
            Form::Json { decoder, time } => {
                let time = match time {
                    RecordTime::Field => None,
                    RecordTime::Timestamp => raw.timestamp.map(EventTime::from_millis),
                };
                match reject {
                    Some(reject) => decoder.reject_one(position, reject, found, out),
                    None => decoder.take_one((position, time), found, out),
                }
            }
            Form::Document(intake, document) => {
                intake.place(position);
                let flow = match reject {
                    Some((reason, detail)) => Err((reason, detail.to_owned())),
                    None => document::flow(found.raw, document),
                };
                match flow {
                    Ok(flow) => intake.take(&flow, found, out),
                    Err((reason, detail)) => intake.reject(found, reason, &detail, out),
                }
            }
            Form::Datagram { feed, exporter } => {
                feed.place(position);
                let sender = sender(chunk.key(raw)).or(exporter.map(|ip| SocketAddr::new(ip, 0)));
                match (reject, sender) {
                    (Some(reject), _) => feed.reject(reject, found, out),
                    (None, None) => feed.reject(NO_SENDER, found, out),
                    (None, Some(exporter)) => {
                        let arrival_ms = raw.timestamp;
                        let datagram = Datagram { exporter, arrival_ms, payload: found.raw };
                        feed.take_found(datagram, found, out);
                    }
                }
            }
        }
    }

    /// What has been learned on the way, for a later process.
    pub(crate) fn image(&self) -> Option<FeedImage<&FlowDecoder>> {
        match &self.form {
            Form::Datagram { feed, .. } => Some(feed.image()),
            Form::Json { .. } | Form::Document(..) => None,
        }
    }

    /// Goes on with what another had learned.
    pub(crate) fn resume(&mut self, image: Option<FeedImage<FlowDecoder>>) {
        if let (Form::Datagram { feed, .. }, Some(image)) = (&mut self.form, image) {
            feed.resume(image);
        }
    }
}

/// A datagram that does not say who sent it.
const NO_SENDER: (Reason, &str) = (
    Reason::Flow(nilometer_model::flow::MalformedFlow::MissingExporter),
    "the key of the record is no address, and the source has no `exporter`",
);

/// Who sent a datagram, by the key of its record: an address, with or without a port.
fn sender(key: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(key).ok()?.trim();
    let address = || text.parse().ok().map(|ip| SocketAddr::new(ip, 0));
    text.parse().ok().or_else(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_senders() {
        for (key, expected) in [
            (&b"192.0.2.7"[..], Some("192.0.2.7:0")),
            (b" 192.0.2.7:2055\n", Some("192.0.2.7:2055")),
            (b"2001:db8::1", Some("[2001:db8::1]:0")),
            (b"[2001:db8::1]:9", Some("[2001:db8::1]:9")),
            (b"", None),
            (b"router-1", None),
            (b"\xff", None),
        ] {
            assert_eq!(sender(key), expected.map(|text| text.parse().unwrap()), "{key:?}");
        }
    }
}
