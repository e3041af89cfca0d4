//! A client that writes: made, found its brokers and its topic, and heard of what became of records.
//!
//! Invariant: what can pass by itself (brokers that are away, a topic that is not there yet, a right
//! that was taken away) is told of once and waited for; what cannot is an error at the start.

use super::settings::{KafkaSinkSettings, TopicPlan};
use crate::kafka::client::{KafkaError, Trouble, not_made, without_secrets};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a question to the brokers may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(2);

/// How long it is between two looks at what has become of records.
const MOMENT: Duration = Duration::from_micros(500);

/// How long it is between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// What the callbacks of a client have heard.
#[derive(Debug, Default)]
struct Heard {
    /// The last error of the client.
    error: Option<(RDKafkaErrorCode, String)>,
    /// Why the first record was not taken, of those since it was asked last.
    refusal: Option<RDKafkaErrorCode>,
}

/// Listens to the client.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    heard: Mutex<Heard>,
    /// Offset of the record that was taken last, plus one; 0 where the brokers did not say.
    behind: AtomicI64,
}

impl Listener {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a record was not taken, if one was not.
    pub(crate) fn take_refusal(&self) -> Option<RDKafkaErrorCode> {
        self.lock().refusal.take()
    }

    /// Offset of the record that was taken last, if the brokers said so.
    pub(crate) fn offset(&self) -> Option<i64> {
        self.behind.load(Ordering::Relaxed).checked_sub(1).filter(|offset| *offset >= 0)
    }
}

impl ClientContext for Listener {
    /// Whatever matters comes as an error, too.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: ClientError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        let mut heard = self.lock();
        // That nobody is left to talk to is said behind every refusal, and tells less.
        let is_refused =
            |(code, _): &(RDKafkaErrorCode, String)| Trouble::of(*code) == Trouble::Refused;
        if !heard.error.as_ref().is_some_and(is_refused) {
            heard.error = Some((code, without_secrets(reason)));
        }
    }
}

impl ProducerContext for Listener {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(taken) => {
                self.behind.store(taken.offset().saturating_add(1).max(0), Ordering::Relaxed);
            }
            Err((error, _)) => {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                self.lock().refusal.get_or_insert(code);
            }
        }
    }
}

/// A client that writes to one topic.
pub(crate) struct Link {
    pub(crate) settings: KafkaSinkSettings,
    /// Options that follow from how it writes.
    own: Vec<(&'static str, String)>,
    producer: Option<BaseProducer<Listener>>,
    /// Whether the brokers have ever let it write.
    has_worked: bool,
    /// What the operator was told of last.
    told: Option<Trouble>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("topic", &self.settings.topic).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects with nobody yet.
    ///
    /// # Errors
    /// An option is wrong.
    pub(crate) fn new(
        settings: KafkaSinkSettings,
        mut own: Vec<(&'static str, String)>,
    ) -> Result<Self, KafkaError> {
        own.push(("enable.idempotence", "true".to_owned()));
        own.push(("compression.type", settings.compression.name().to_owned()));
        for (name, value) in [
            // As the clients of most other languages place keys.
            ("partitioner", "murmur2_random"),
            ("queue.buffering.max.kbytes", "65536"),
            ("topic.metadata.refresh.interval.ms", "10000"),
        ] {
            if !settings.client.sets(name) {
                own.push((name, value.to_owned()));
            }
        }
        let mut link = Self { settings, own, producer: None, has_worked: false, told: None };
        // Wrong options are known before anything is read.
        link.make()?;
        Ok(link)
    }

    fn make(&mut self) -> Result<(), KafkaError> {
        let config = self.settings.client.config(&self.own)?;
        let made = config.create_with_context(Listener::default());
        self.producer = Some(made.map_err(not_made)?);
        Ok(())
    }

    /// The client is of no use any more; the next one is another.
    pub(crate) fn forget(&mut self) {
        self.producer = None;
    }

    /// The client, as it is.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn producer(&mut self) -> Result<&BaseProducer<Listener>, KafkaError> {
        if self.producer.is_none() {
            self.make()?;
        }
        self.producer.as_ref().ok_or_else(|| KafkaError::Client("it is gone".into()))
    }

    /// Waits until the brokers are there and have the topic, which is made if that is wanted.
    ///
    /// # Errors
    /// They do not let this client in, or the topic cannot be made.
    pub(crate) fn find(&mut self) -> Result<(), KafkaError> {
        let (topic, create) = (self.settings.topic.clone(), self.settings.create.clone());
        self.find_topic(&topic, create.as_ref())
    }

    /// The same for any topic.
    ///
    /// # Errors
    /// They do not let this client in, or the topic cannot be made.
    pub(crate) fn find_topic(
        &mut self,
        topic: &str,
        create: Option<&TopicPlan>,
    ) -> Result<(), KafkaError> {
        loop {
            let found = self.producer()?.client().fetch_metadata(Some(topic), ANSWER);
            let trouble = match found {
                Ok(metadata) => {
                    let known = metadata.topics().iter().find(|known| known.name() == topic);
                    let error = known.and_then(|known| known.error()).map(RDKafkaErrorCode::from);
                    match error {
                        None if known.is_some_and(|known| !known.partitions().is_empty()) => {
                            return Ok(());
                        }
                        None => RDKafkaErrorCode::UnknownTopicOrPartition,
                        Some(code) => code,
                    }
                }
                Err(error) => code_of(&error),
            };
            match (Trouble::of(trouble), create) {
                (Trouble::NoTopic, Some(plan)) => self.create(topic, plan)?,
                _ => self.wait(trouble, topic)?,
            }
        }
    }

    /// Why a record was refused: those that a client gives up do not say it themselves.
    pub(crate) fn why(&self, refusal: RDKafkaErrorCode) -> RDKafkaErrorCode {
        let fatal = self.producer.as_ref().and_then(|producer| producer.client().fatal_error());
        match (refusal, fatal) {
            (RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight, Some((code, _))) => {
                code
            }
            _ => refusal,
        }
    }

    /// Waits a little.
    ///
    /// # Errors
    /// The client cannot be made.
    pub(crate) fn pause(&mut self) -> Result<(), KafkaError> {
        self.producer()?.poll(PAUSE);
        Ok(())
    }

    /// Tells of an error that may pass, once, and waits a little.
    ///
    /// # Errors
    /// It will not pass.
    pub(crate) fn wait(&mut self, code: RDKafkaErrorCode, topic: &str) -> Result<(), KafkaError> {
        let has_worked = self.has_worked;
        let producer = self.producer()?;
        producer.poll(PAUSE);
        let said = producer.context().lock().error.take();
        // A client that is not let in only sees that nobody answers.
        let heard = said.filter(|(said, _)| {
            Trouble::of(*said) == Trouble::Refused || Trouble::of(code) == Trouble::of(*said)
        });
        let (code, detail) = heard.unwrap_or_else(|| (code, code.to_string()));
        let trouble = Trouble::of(code);
        match trouble {
            Trouble::Refused if !has_worked => {
                let brokers = self.settings.client.brokers.clone();
                return Err(KafkaError::Refused { brokers, detail: detail.into() });
            }
            Trouble::Forbidden if !has_worked => return Err(self.may_not(topic, detail)),
            Trouble::None
            | Trouble::Away
            | Trouble::Refused
            | Trouble::Forbidden
            | Trouble::NoTopic
            | Trouble::OutOfRange
            | Trouble::Fenced
            | Trouble::Other => {}
        }
        self.tell(trouble, &detail, topic);
        Ok(())
    }

    /// Says what holds results up, unless it was the last thing said.
    fn tell(&mut self, trouble: Trouble, detail: &str, topic: &str) {
        if self.told == Some(trouble) {
            return;
        }
        self.told = Some(trouble);
        self.settings.teller.holds_up(&match trouble {
            Trouble::Away => format!(
                "cannot reach Kafka at {}: {detail}; tries again, results wait",
                self.settings.client.brokers
            ),
            Trouble::NoTopic => {
                format!("topic `{topic}` is not there; waits for it: make it, or set `create`")
            }
            _ => format!("{detail}; tries again, results wait"),
        });
    }

    fn may_not(&self, topic: &str, detail: String) -> KafkaError {
        let also = self.settings.transactions.as_ref().map(|transactions| {
            let (changelog, id) = (transactions.changelog(), transactions.id());
            format!(", read and write topic `{changelog}`, and write transactional id `{id}`")
        });
        let also = also.unwrap_or_default().into();
        KafkaError::MayNotWrite { detail: detail.into(), topic: topic.into(), also }
    }

    /// Waits until every record that was sent is taken, or refused; says why if one was refused.
    ///
    /// # Errors
    /// The client cannot be made.
    pub(crate) fn settle(&mut self) -> Result<Option<RDKafkaErrorCode>, KafkaError> {
        loop {
            let producer = self.producer()?;
            if producer.in_flight_count() == 0 {
                let refusal = producer.context().take_refusal();
                return Ok(refusal.map(|refusal| self.why(refusal)));
            }
            serve(producer);
            let is_away =
                |(code, _): &(RDKafkaErrorCode, String)| Trouble::of(*code) == Trouble::Away;
            let said = producer.context().lock().error.take_if(|said| is_away(said));
            if let Some((_, detail)) = said {
                self.tell(Trouble::Away, &detail, "");
            }
        }
    }

    /// The brokers have taken something: whatever was told of is over.
    pub(crate) fn works(&mut self) {
        self.has_worked = true;
        if self.told.take().is_some() {
            self.settings.teller.is_over("Kafka takes results again");
        }
    }

    fn create(&mut self, name: &str, plan: &TopicPlan) -> Result<(), KafkaError> {
        let replication = TopicReplication::Fixed(plan.replication.unwrap_or(-1));
        let policy = if plan.is_compacted { "compact" } else { "delete" };
        let topic = NewTopic::new(name, plan.partitions.unwrap_or(-1), replication)
            .set("cleanup.policy", policy);
        let admin: AdminClient<DefaultClientContext> =
            self.settings.client.config(&[])?.create().map_err(not_made)?;
        let options =
            AdminOptions::new().operation_timeout(Some(ANSWER)).request_timeout(Some(ANSWER));
        let made = wait_for(admin.create_topics([&topic], &options));
        match Creation::of(made) {
            Creation::Made => {
                self.settings.teller.say(&format!("topic `{name}` was not there, and is made"));
                Ok(())
            }
            Creation::WasThere => Ok(()),
            Creation::NotNow(code) => self.wait(code, name),
            Creation::Never(code) => {
                Err(KafkaError::NotMade { topic: name.into(), detail: code.to_string().into() })
            }
        }
    }
}

/// What has become of the wish for a topic.
#[derive(Debug, PartialEq, Eq)]
enum Creation {
    /// It is made.
    Made,
    /// Somebody was faster.
    WasThere,
    /// Nobody knows, or it cannot be made now. It may be there when it is looked for again.
    NotNow(RDKafkaErrorCode),
    /// The brokers will never make it so.
    Never(RDKafkaErrorCode),
}

impl Creation {
    fn of(answer: KafkaResult<Vec<TopicResult>>) -> Self {
        use RDKafkaErrorCode as Code;
        let code = match answer.map(|made| made.into_iter().next()) {
            Ok(None | Some(Ok(_))) => return Self::Made,
            Ok(Some(Err((_, code)))) => code,
            Err(error) => code_of(&error),
        };
        match code {
            Code::TopicAlreadyExists => Self::WasThere,
            Code::InvalidTopic
            | Code::InvalidPartitions
            | Code::InvalidReplicationFactor
            | Code::InvalidReplicaAssignment
            | Code::InvalidConfig
            | Code::InvalidRequest
            | Code::PolicyViolation
            | Code::UnsupportedVersion
            | Code::InvalidArgument => Self::Never(code),
            _ => Self::NotNow(code),
        }
    }
}

/// The code of an error of the client.
pub(crate) fn code_of(error: &ClientError) -> RDKafkaErrorCode {
    match error {
        ClientError::Transaction(error) => error.code(),
        ClientError::AdminOp(code) => *code,
        other => other.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown),
    }
}

/// Takes in what has become of records; waits a moment if nothing has.
///
/// A poll of the client waits for its whole time, whatever comes, and spends the last millisecond of
/// it asking again and again: in here, where most of the waiting is done, that would be most of the
/// work.
fn serve(producer: &BaseProducer<Listener>) {
    let before = producer.in_flight_count();
    producer.poll(Duration::ZERO);
    if producer.in_flight_count() == before {
        thread::sleep(MOMENT);
    }
}

/// Sends a record, and waits for room.
pub(crate) fn send(
    producer: &BaseProducer<Listener>,
    mut record: rdkafka::producer::BaseRecord<'_, [u8], [u8]>,
) -> KafkaResult<()> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((ClientError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                serve(producer);
                record = back;
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// Whether no later attempt can bring it about that a record which was refused so is taken.
pub(crate) const fn is_for_good(refusal: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        refusal,
        Code::MessageSizeTooLarge
            | Code::InvalidMessage
            | Code::InvalidMessageSize
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::PolicyViolation
            | Code::UnsupportedCompressionType
            | Code::UnsupportedForMessageFormat
    )
}

/// A topic does not take a record, for good.
pub(crate) fn not_taken(topic: &str, refusal: RDKafkaErrorCode) -> KafkaError {
    let way_out = match refusal {
        RDKafkaErrorCode::MessageSizeTooLarge => {
            "; raise `max.message.bytes` of the topic, and `message.max.bytes` among the `options`"
        }
        _ => "",
    };
    KafkaError::NotTaken { topic: topic.into(), detail: format!("{refusal}{way_out}").into() }
}

/// Waits for what another thread brings about.
fn wait_for<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RDKafkaErrorCode as Code;

    #[test]
    fn only_what_the_brokers_refuse_for_good_is_never_made() {
        let each = |answer| Ok(vec![answer]);
        let refused = |code| each(Err(("t".to_owned(), code)));
        for (answer, expected) in [
            (each(Ok("t".into())), Creation::Made),
            (refused(Code::TopicAlreadyExists), Creation::WasThere),
            (refused(Code::PolicyViolation), Creation::Never(Code::PolicyViolation)),
            (
                refused(Code::InvalidReplicationFactor),
                Creation::Never(Code::InvalidReplicationFactor),
            ),
            (refused(Code::RequestTimedOut), Creation::NotNow(Code::RequestTimedOut)),
            (refused(Code::NotController), Creation::NotNow(Code::NotController)),
            (
                refused(Code::TopicAuthorizationFailed),
                Creation::NotNow(Code::TopicAuthorizationFailed),
            ),
            // As a client says that nobody has answered, or that nobody is there.
            (
                Err(ClientError::AdminOp(Code::OperationTimedOut)),
                Creation::NotNow(Code::OperationTimedOut),
            ),
            (
                Err(ClientError::AdminOp(Code::BrokerTransportFailure)),
                Creation::NotNow(Code::BrokerTransportFailure),
            ),
            (Err(ClientError::Canceled), Creation::NotNow(Code::Unknown)),
        ] {
            let text = format!("{answer:?}");
            assert_eq!(Creation::of(answer), expected, "{text}");
        }
    }

    #[test]
    fn what_is_too_large_names_the_way_out() {
        let said = |code| not_taken("sums", code).to_string();
        let text = said(Code::MessageSizeTooLarge);
        assert!(text.contains("raise `max.message.bytes` of the topic"), "{text}");
        assert!(!said(Code::InvalidRecord).contains("raise"));
    }
}
