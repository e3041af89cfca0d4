//! What keeps a poller from reading: which of it ends the reading, and what people are told of the rest.

use super::{CALM, KafkaError, Poller, Trouble};
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::topic_partition_list::Offset;
use std::time::Duration;

/// Whether something that was told of holds on: the client says once that it is refused, and nothing when
/// it is not any more. So it is made to ask anew, from time to time.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Statistics since it asked anew; `None` before that.
    since: Option<u32>,
    /// Whether it was refused since.
    is_refused: bool,
}

/// What is to be done about something that was told of.
#[derive(Debug, PartialEq, Eq)]
enum Doubt {
    /// It is too early to say.
    Wait,
    /// Ask anew.
    Ask,
    /// It is over.
    IsOver,
}

impl Doubts {
    /// The next statistics have come: whether the brokers `have_answered` for everything since they were
    /// asked.
    fn tick(&mut self, have_answered: bool) -> Doubt {
        match self.since {
            Some(since) if since < CALM => {
                self.since = Some(since + 1);
                return Doubt::Wait;
            }
            Some(_) if have_answered && !self.is_refused => {
                *self = Self::default();
                return Doubt::IsOver;
            }
            Some(_) | None => {}
        }
        *self = Self { since: Some(0), is_refused: false };
        Doubt::Ask
    }
}

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
        self.doubts.is_refused = true;
        if self.told != Some(trouble) {
            self.doubts = Doubts::default();
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

    /// Finds out whether what was told of last holds on, if nothing else says so: that brokers or topics
    /// are back is said.
    pub(super) fn doubt(&mut self, have_answered: bool) {
        match self.told {
            None | Some(Trouble::Away | Trouble::NoTopic) => return,
            Some(_) => {}
        }
        match self.doubts.tick(have_answered) {
            Doubt::Wait => {}
            Doubt::IsOver => self.is_over("goes on"),
            Doubt::Ask => self.ask_anew(),
        }
    }

    /// Makes the client ask for what comes next, and tell what it is answered.
    fn ask_anew(&mut self) {
        self.calm = 0;
        let state = self.queue.lock();
        for (known, track) in state.partitions.iter().zip(&mut self.tracks) {
            // What has come on is answered for.
            let is_silent = track.asked.replace(track.next).is_none_or(|asked| asked == track.next);
            if track.is_ours && is_silent && !known.is_finished {
                let next = Offset::Offset(track.next);
                self.consumer.seek(&known.topic, known.partition, next, Duration::ZERO).ok();
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_over_once_all_is_answered_and_none_has_come_since() {
        // What was answered before it asked does not count.
        let mut doubts = Doubts { since: None, is_refused: true };
        assert_eq!(doubts.tick(true), Doubt::Ask);
        for (is_refused, have_answered, expected) in [
            (true, true, Doubt::Ask),
            (false, false, Doubt::Ask),
            (true, false, Doubt::Ask),
            (false, true, Doubt::IsOver),
        ] {
            for _ in 0..CALM {
                assert_eq!(doubts.tick(true), Doubt::Wait);
            }
            doubts.is_refused |= is_refused;
            assert_eq!(doubts.tick(have_answered), expected, "{is_refused} {have_answered}");
        }
        assert_eq!(doubts.tick(true), Doubt::Ask, "the next one begins anew");
    }
}
