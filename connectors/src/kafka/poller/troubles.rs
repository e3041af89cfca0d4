//! What keeps a poller from reading: which of it ends the reading, and what people are told of the rest.

use super::{KafkaError, Poller, Trouble};
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError as ClientError;

impl Poller {
    /// Acts on what the client says, and tells people of it: of each state once, not of each attempt.
    ///
    /// # Errors
    /// Nothing more can come.
    pub(super) fn trouble(&mut self, error: &ClientError) -> Result<(), KafkaError> {
        let Some(code) = error.rdkafka_error_code() else { return Ok(()) };
        let trouble = Trouble::of(code);
        let reason = self.consumer.context().lock().reason.clone();
        let detail: Box<str> = if reason.is_empty() { code.to_string() } else { reason }.into();
        let is_fatal = matches!(error, ClientError::MessageConsumptionFatal(_));
        match trouble {
            Trouble::None => return Ok(()),
            Trouble::OutOfRange => {
                self.find_back();
                return Ok(());
            }
            Trouble::Fenced => {
                let instance = self.settings.instance.clone();
                return Err(KafkaError::Fenced { detail, instance });
            }
            Trouble::Refused if !self.has_read => {
                let brokers = self.settings.brokers.clone();
                return Err(KafkaError::Refused { brokers, detail });
            }
            Trouble::Forbidden if !self.has_read => return Err(KafkaError::Forbidden { detail }),
            Trouble::NoTopic if self.settings.until.is_some() => {
                return Err(KafkaError::NoTopic { detail });
            }
            Trouble::Other if is_fatal => return Err(KafkaError::Client(detail)),
            Trouble::Away
            | Trouble::Refused
            | Trouble::Forbidden
            | Trouble::NoTopic
            | Trouble::Other => {}
        }
        if self.told != Some(trouble) {
            self.told = Some(trouble);
            let text = match trouble {
                Trouble::Away => {
                    format!(
                        "cannot reach Kafka at {}: {detail}; tries again",
                        self.settings.brokers
                    )
                }
                Trouble::NoTopic => format!("{detail}; waits for the topic"),
                _ => format!("{detail} ({code}); tries again"),
            };
            self.settings.plight.is(&text);
            self.say(text);
        }
        Ok(())
    }

    /// Whatever was told of is over if it `is_so`, but that brokers are away: others may be.
    pub(super) fn works_again(&mut self, is_so: bool) {
        if is_so && self.told.is_some_and(|told| told != Trouble::Away) {
            self.is_over("goes on");
        }
    }

    /// What was told of last is over.
    pub(super) fn is_over(&mut self, text: &str) {
        self.told = None;
        self.settings.plight.is_over();
        self.say(text.into());
    }

    pub(super) fn say(&mut self, text: String) {
        self.queue.lock().notices.push(text);
        self.queue.tell();
    }
}
