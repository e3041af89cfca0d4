//! Exactly once: each epoch of a sink is one transaction, which holds its results, the offsets behind
//! what was read for them, and its stamp.
//!
//! The epoch is durable before it is let out, so a transaction that comes to nothing is made again
//! from the same bytes; a stamp that is there says that it need not be. Nothing depends on a
//! transaction that outlives its process.
//!
//! Invariant: an epoch is committed at most once, since its stamp is read after everybody else with
//! the same name has been shut out, and while nobody else has the name.

use super::carrier::{Carried, Carrier, Offsets, list, noted};
use super::changelog::{self, Awaited, Entries, Keys, PARTITION, PLAN};
use super::failure::{Failure, is_fatal, is_to_go_on};
use super::producer::{ANSWER, Link, code_of, is_for_good, not_taken, send};
use super::repeats::send_all;
use super::settings::{KafkaSinkSettings, TransactionSettings};
use super::stamp::{Claim, Digest, Stamp, Standing};
use crate::kafka::client::{KafkaError, Trouble};
use crate::kafka::nodes::note;
use crate::sink::Receipt;
use rdkafka::producer::{BaseRecord, Producer};
use serde::Serialize;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the standing of a reader in its group is asked for anew before its offsets are left out.
const OFFSET_ATTEMPTS: u32 = 5;

/// Writes epochs.
#[derive(Debug)]
pub(crate) struct Transactions {
    link: Link,
    settings: TransactionSettings,
    changelog: String,
    id: String,
    keys: Keys,
    claim: Claim,
    /// Epochs that have come out, as this process knows. Rises only.
    published: u64,
    /// The last stamp there is.
    last: Option<Stamp>,
    stage: Stage,
    /// What of the epoch was given so far.
    digest: Digest,
    /// How often offsets were refused, since they were taken.
    offset_failures: u32,
    /// The offsets of the last cut, by carrier.
    cut: Vec<Offsets>,
    /// Whether it was said that a transaction came to nothing, since one was committed.
    has_told: bool,
}

/// How far a client has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has no name yet. `since` another process, or the brokers, took it away, if it had it.
    New { was_fenced: bool },
    /// It has the name to itself, and has read the stamp.
    Ready,
    /// A transaction is open.
    Open { since: Instant },
}

impl Transactions {
    /// Goes on behind what the state knows. Connects with nobody yet.
    ///
    /// # Errors
    /// An option is wrong.
    pub(crate) fn new(
        settings: KafkaSinkSettings,
        transactions: TransactionSettings,
    ) -> Result<Self, KafkaError> {
        let published = settings.published();
        let id = transactions.id();
        let own = vec![
            ("transactional.id", id.clone()),
            ("transaction.timeout.ms", transactions.timeout_ms.to_string()),
        ];
        Ok(Self {
            link: Link::new(settings, own)?,
            changelog: transactions.changelog(),
            keys: Keys::new(&transactions),
            claim: Claim { incarnation: RandomState::new().hash_one(&id), number: 0 },
            id,
            published,
            last: None,
            stage: Stage::New { was_fenced: false },
            digest: Digest::default(),
            offset_failures: 0,
            cut: transactions.carriers.iter().map(|_| Offsets::new()).collect(),
            settings: transactions,
            has_told: false,
        })
    }

    /// How many epochs have come out.
    pub(crate) const fn published(&self) -> u64 {
        self.published
    }

    /// The epoch ends: whether offsets go with it that are not those of the one before.
    pub(crate) fn cut(&mut self) -> bool {
        let cut: Vec<_> =
            self.settings.carriers.iter().map(|carrier| carrier.take_up().offsets).collect();
        let is_news = cut != self.cut;
        self.cut = cut;
        is_news
    }

    /// Takes a block of the next epoch; behind the last one it is committed.
    ///
    /// # Errors
    /// It never will be.
    pub(crate) fn publish(&mut self, block: &[u8], is_last: bool) -> Result<Receipt, KafkaError> {
        self.prepare()?;
        let number = self.published.saturating_add(1);
        self.digest.add(block);
        let digest = self.digest.finish();
        match Stamp::standing(self.last, number) {
            Standing::Next => {
                if let Err(failure) = self.write((block, is_last), number) {
                    self.digest = Digest::default();
                    self.recover(failure)?;
                    return Ok(Receipt::Again);
                }
            }
            Standing::MayBeOut if !is_last => {}
            Standing::MayBeOut if self.last.is_some_and(|last| last.digest == digest) => {}
            Standing::MayBeOut | Standing::Strange => {
                let stamped = self.last.map_or(0, |last| last.number);
                return Err(self.strange((stamped, number)));
            }
        }
        if is_last {
            self.published = number;
            self.digest = Digest::default();
            self.offset_failures = 0;
        }
        Ok(Receipt::Taken)
    }

    fn strange(&self, (stamped, number): (u64, u64)) -> KafkaError {
        strange(&self.settings, (stamped, number))
    }

    /// Writes a block of epoch `number`, and commits behind the last one.
    fn write(&mut self, (block, is_last): (&[u8], bool), number: u64) -> Result<(), Failure> {
        if !matches!(self.stage, Stage::Open { .. }) {
            self.link.producer()?.begin_transaction()?;
            self.stage = Stage::Open { since: Instant::now() };
        }
        let topic = self.link.settings.topic.clone();
        if let Some(refusal) = send_all(&mut self.link, &topic, block)? {
            return Err(Failure::Record(refusal));
        }
        if !is_last {
            let producer = self.link.producer()?;
            producer.poll(Duration::ZERO);
            let refusal = producer.context().take_refusal().map(|code| self.link.why(code));
            return refusal.map_or(Ok(()), |code| Err(Failure::Record(code)));
        }
        let digest = self.digest.finish();
        let stamp = Stamp { number, digest, incarnation: self.claim.incarnation };
        self.put(&self.keys.stamp.clone(), &stamp)?;
        if let Some(refusal) = self.link.settle()? {
            return Err(Failure::Record(refusal));
        }
        self.send_offsets(&stamp)?;
        self.commit()?;
        self.last = Some(stamp);
        self.has_told = false;
        self.link.works();
        Ok(())
    }

    /// Sends an entry of the changelog.
    fn put(&mut self, key: &str, entry: &impl Serialize) -> Result<(), Failure> {
        // Numbers only: nothing that JSON cannot say.
        let value = serde_json::to_vec(entry).unwrap_or_default();
        let record = BaseRecord::<[u8], [u8]>::to(&self.changelog).partition(PARTITION);
        let record = record.key(key.as_bytes()).payload(&*value);
        Ok(send(self.link.producer()?, record)?)
    }

    fn send_offsets(&mut self, stamp: &Stamp) -> Result<(), Failure> {
        if self.offset_failures >= OFFSET_ATTEMPTS {
            self.link.settings.teller.say(
                "the group does not take the offsets of an epoch: its results come without them, and \
                 who watches lag sees them with the next one",
            );
            return Ok(());
        }
        for carrier in self.settings.carriers.clone() {
            let Carried { offsets, instance, group } = carrier.take_up();
            let Some(group) = group.filter(|_| !offsets.is_empty()) else { continue };
            let list = list(&offsets, &note(&instance, &stamp.text(&self.id)));
            let producer = self.link.producer()?;
            let mut sent = producer.send_offsets_to_transaction(&list, &group, ANSWER);
            while sent.as_ref().is_err_and(is_to_go_on) {
                sent = producer.send_offsets_to_transaction(&list, &group, ANSWER);
            }
            sent.map_err(Failure::Offsets)?;
        }
        Ok(())
    }

    /// Commits what is open, however long that takes.
    fn commit(&mut self) -> Result<(), Failure> {
        let changelog = self.changelog.clone();
        loop {
            match self.link.producer()?.commit_transaction(ANSWER) {
                Ok(()) => {
                    self.stage = Stage::Ready;
                    return Ok(());
                }
                Err(error) if is_to_go_on(&error) => self.link.wait(code_of(&error), &changelog)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends a transaction that comes to nothing, so that the next one can begin.
    fn recover(&mut self, failure: Failure) -> Result<(), KafkaError> {
        let (error, code) = match failure {
            Failure::Gone(error) => return Err(error),
            Failure::Record(code) => (None, code),
            Failure::Offsets(error) => {
                self.offset_failures = self.offset_failures.saturating_add(1);
                self.settings.carriers.iter().for_each(|carrier: &Arc<Carrier>| carrier.ask());
                let code = code_of(&error);
                (Some(error), code)
            }
            Failure::Client(error) => {
                let code = code_of(&error);
                (Some(error), code)
            }
        };
        if !std::mem::replace(&mut self.has_told, true) {
            let text =
                format!("a transaction came to nothing ({code}): its results are written again");
            self.link.settings.teller.say(&text);
        }
        let topic = self.link.settings.topic.clone();
        if !error.is_some_and(|error| is_fatal(&error)) && self.abort()? {
            self.stage = Stage::Ready;
        } else {
            self.forget(Trouble::of(code) == Trouble::Fenced);
        }
        if is_for_good(code) {
            return Err(not_taken(&topic, code));
        }
        match Trouble::of(code) {
            Trouble::None | Trouble::OutOfRange | Trouble::Fenced | Trouble::Other => {
                self.link.pause()
            }
            Trouble::Away | Trouble::Refused | Trouble::Forbidden | Trouble::NoTopic => {
                self.link.wait(code, &topic)
            }
        }
    }

    /// Takes back what is open; `false` if the client is of no use any more.
    fn abort(&mut self) -> Result<bool, KafkaError> {
        let topic = self.link.settings.topic.clone();
        loop {
            let producer = self.link.producer()?;
            let aborted = producer.abort_transaction(ANSWER);
            // What was sent is not taken, as it should be.
            producer.context().take_refusal();
            match aborted {
                Ok(()) => return Ok(true),
                Err(error) if is_to_go_on(&error) => self.link.wait(code_of(&error), &topic)?,
                Err(error) => {
                    self.forget(Trouble::of(code_of(&error)) == Trouble::Fenced);
                    return Ok(false);
                }
            }
        }
    }

    /// The client is of no use any more.
    fn forget(&mut self, is_fenced: bool) {
        let since = match self.stage {
            Stage::Open { since } => Some(since),
            Stage::New { .. } | Stage::Ready => None,
        };
        // The brokers end what is open for too long, and shut its client out as they would another.
        let limit = Duration::from_millis(self.settings.timeout_ms.into());
        let was_long = since.is_some_and(|since| since.elapsed() >= limit);
        if is_fenced && was_long {
            self.link.settings.teller.say(
                "a transaction was open for longer than `transaction_timeout`, and the brokers have ended \
                 it; its results are written again",
            );
        }
        let was_fenced = matches!(self.stage, Stage::New { was_fenced: true });
        self.stage = Stage::New { was_fenced: was_fenced || (is_fenced && !was_long) };
        self.link.forget();
    }

    /// Gets a client that has its name to itself, and reads what has come out.
    fn prepare(&mut self) -> Result<(), KafkaError> {
        while let Stage::New { was_fenced } = self.stage {
            self.link.find()?;
            self.link.find_topic(&self.changelog, Some(&PLAN))?;
            self.look_for_others(was_fenced)?;
            // Whoever writes now is not shut out for a state that must not write.
            let stamped = self.read(None)?.stamp.map_or(0, |stamp| stamp.number);
            let number = self.published.saturating_add(1);
            if stamped > number {
                return Err(self.strange((stamped, number)));
            }
            let offset = match self.begin() {
                Ok(offset) => offset,
                Err(failure) => {
                    self.digest = Digest::default();
                    self.recover(failure)?;
                    continue;
                }
            };
            let entries = self.read(Some(Awaited { claim: self.claim, offset }))?;
            if entries.claim != Some(self.claim) {
                return Err(KafkaError::Superseded { id: self.id.as_str().into() });
            }
            self.last = entries.stamp;
            self.compare()?;
            self.stage = Stage::Ready;
            self.link.works();
        }
        Ok(())
    }

    /// Shuts out whoever had the name before, and says who has it now; at which offset, if the brokers
    /// told.
    fn begin(&mut self) -> Result<Option<i64>, Failure> {
        let changelog = self.changelog.clone();
        loop {
            match self.link.producer()?.init_transactions(ANSWER) {
                Ok(()) => break,
                Err(error) if is_to_go_on(&error) => self.link.wait(code_of(&error), &changelog)?,
                Err(error) => return Err(error.into()),
            }
        }
        self.claim.number = self.claim.number.saturating_add(1);
        self.link.producer()?.begin_transaction()?;
        self.put(&self.keys.claim.clone(), &self.claim.clone())?;
        if let Some(refusal) = self.link.settle()? {
            return Err(Failure::Record(refusal));
        }
        let offset = self.link.producer()?.context().offset();
        let stage = self.stage;
        self.commit()?;
        self.stage = stage;
        Ok(offset)
    }

    /// A process that was shut out looks whether another has taken the name: it must not take it back.
    fn look_for_others(&mut self, was_fenced: bool) -> Result<(), KafkaError> {
        // The other one says so at once, but perhaps a moment later.
        for _ in 0..if was_fenced { 10 } else { 0 } {
            let claim = self.read(None)?.claim;
            if claim.is_some_and(|claim| claim.incarnation != self.claim.incarnation) {
                return Err(KafkaError::Superseded { id: self.id.as_str().into() });
            }
            self.link.pause()?;
        }
        Ok(())
    }

    /// Compares the stamps beside the offsets with that of the changelog, which were committed at once. Of
    /// a state that has let nothing out there is nothing to compare.
    fn compare(&mut self) -> Result<(), KafkaError> {
        if self.published == 0 {
            return Ok(());
        }
        for carrier in self.settings.carriers.clone() {
            let noted = loop {
                match noted(&self.link.settings.client, &carrier, &self.id)? {
                    Ok(noted) => break noted,
                    Err(code) if Trouble::of(code) == Trouble::Away => {
                        self.link.wait(code, &self.changelog)?;
                    }
                    // What may not be looked at is no check.
                    Err(_) => break None,
                }
            };
            if let Some(noted) = noted.filter(|noted| !noted.is_known(self.last)) {
                return Err(KafkaError::StrangeOffsets {
                    group: carrier.group.clone(),
                    id: self.id.as_str().into(),
                    changelog: self.changelog.as_str().into(),
                    noted: noted.number,
                });
            }
        }
        Ok(())
    }

    fn read(&mut self, awaited: Option<Awaited>) -> Result<Entries, KafkaError> {
        loop {
            let place = (&self.link.settings.client, self.changelog.as_str());
            match changelog::read(place, &self.keys, awaited)? {
                Ok(entries) => return Ok(entries),
                Err(code) => self.link.wait(code, &self.changelog)?,
            }
        }
    }
}

/// Looks whether the state of a sink goes with what has come out, if the brokers say so soon.
///
/// # Errors
/// It does not, or the client cannot be made.
pub(crate) fn check(
    settings: &KafkaSinkSettings,
    transactions: &TransactionSettings,
    has_output: bool,
) -> Result<(), KafkaError> {
    let (keys, changelog) = (Keys::new(transactions), transactions.changelog());
    let seen = changelog::glance((&settings.client, &changelog), &keys, ANSWER)?;
    let Some(Entries { stamp, .. }) = seen else { return Ok(()) };
    let number = settings.published().saturating_add(1);
    if Stamp::goes_with(stamp, number, has_output) {
        return Ok(());
    }
    Err(strange(transactions, (stamp.map_or(0, |stamp| stamp.number), number)))
}

fn strange(settings: &TransactionSettings, (stamped, number): (u64, u64)) -> KafkaError {
    KafkaError::StrangeStamp {
        changelog: settings.changelog().into(),
        id: settings.id().into(),
        stamped,
        number,
    }
}
