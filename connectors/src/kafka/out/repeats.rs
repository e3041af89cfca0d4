//! At least once: records are sent until the brokers have them all, and again from the first where
//! that is not known.

use super::block::Records;
use super::producer::{Link, code_of, is_for_good, not_taken, send};
use super::settings::KafkaSinkSettings;
use crate::kafka::client::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::types::RDKafkaErrorCode;

/// Sends, without transactions.
#[derive(Debug)]
pub(crate) struct Repeats {
    link: Link,
    /// Whether the topic was found.
    is_found: bool,
}

impl Repeats {
    /// Connects with nobody yet.
    ///
    /// # Errors
    /// An option is wrong.
    pub(crate) fn new(settings: KafkaSinkSettings) -> Result<Self, KafkaError> {
        Ok(Self { link: Link::new(settings, Vec::new())?, is_found: false })
    }

    /// Sends the records of `block`, and returns when the brokers have them.
    ///
    /// # Errors
    /// They never will.
    pub(crate) fn send(&mut self, block: &[u8]) -> Result<(), KafkaError> {
        if !self.is_found {
            self.link.find()?;
            self.is_found = true;
        }
        while let Some(refusal) = self.attempt(block)? {
            let topic = self.link.settings.topic.clone();
            if is_for_good(refusal) {
                return Err(not_taken(&topic, refusal));
            }
            self.link.wait(refusal, &topic)?;
        }
        self.link.works();
        Ok(())
    }

    /// Sends all records once; says why if one was not taken.
    fn attempt(&mut self, block: &[u8]) -> Result<Option<RDKafkaErrorCode>, KafkaError> {
        let topic = self.link.settings.topic.clone();
        let sent = send_all(&mut self.link, &topic, block)?;
        let refusal = self.link.settle()?;
        Ok(sent.or(refusal))
    }
}

/// Headers of most records: room for more is made where they have more.
const HEADERS: usize = 8;

/// Hands the records of `block` to the client; says why if it does not take one.
///
/// # Errors
/// There is no client.
pub(crate) fn send_all(
    link: &mut Link,
    topic: &str,
    block: &[u8],
) -> Result<Option<RDKafkaErrorCode>, KafkaError> {
    let producer = link.producer()?;
    for outgoing in Records(block) {
        let mut headers = OwnedHeaders::new_with_capacity(HEADERS);
        for (key, value) in outgoing.headers {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let mut record = BaseRecord::<[u8], [u8]>::to(topic).headers(headers);
        (record.key, record.payload) = (outgoing.key, outgoing.value);
        if let Err(error) = send(producer, record) {
            return Ok(Some(code_of(&error)));
        }
    }
    Ok(None)
}
