//! The thread that polls the brokers: it takes what they give, follows the assignment of the group,
//! and commits. It waits for nothing but the brokers, and for those never long: whoever polls seldom
//! is taken for dead by the group.
//!
//! Invariant: what has been put into the queue is never asked for again.

mod ends;
mod places;
mod rebalances;
mod share;
mod taking;
mod troubles;

use super::client::{KafkaError, Trouble};
use super::ears::{Change, Ears};
use super::nodes::{Standing, note};
use super::out::carrier::{self, Carrier};
use super::partitions::{Start, Until};
use super::queue::{Chunk, Known, Queue, name};
use super::statistics::Stand;
use super::valve::{Turn, Valve};
use crate::plight::Plight;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;
use rebalances::Rebalances;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use taking::take;
use troubles::Doubts;

/// How long a poll waits for a record.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a question to the brokers may take.
const ANSWER: Duration = Duration::from_secs(2);
/// How long commits are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(3);

/// So many statistics after a pause, what the client says of its own queue holds again: before, it
/// may have thrown away what it still says to have fetched.
const CALM: u32 = 4;

/// What a poller is made from.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) topics: Vec<String>,
    pub(crate) start: Start,
    pub(crate) until: Option<Until>,
    pub(crate) brokers: Box<str>,
    pub(crate) group: Box<str>,
    pub(crate) instance: Box<str>,
    pub(crate) nodes: usize,
    pub(crate) queue_bytes_max: usize,
    pub(crate) carrier: Option<Arc<Carrier>>,
    pub(crate) is_traced: bool,
    pub(crate) plight: Plight,
}

/// A partition, between the brokers and the queue.
#[derive(Debug, Clone, Copy)]
struct Track {
    /// Offset of the next record that the brokers are to give.
    next: i64,
    /// Whether it is this reader's now.
    is_ours: bool,
    /// Whether it is paused until others have caught up.
    is_held: bool,
    /// What was next when the brokers were made to answer for it anew.
    asked: Option<i64>,
}

impl Track {
    const fn new(next: i64) -> Self {
        Self { next, is_ours: false, is_held: false, asked: None }
    }
}

/// Polls, from its own thread.
pub(crate) struct Poller {
    consumer: BaseConsumer<Ears>,
    queue: Arc<Queue>,
    settings: Assignment,
    /// Numbers of the partitions, by topic and number in it.
    numbers: HashMap<Arc<str>, HashMap<i32, usize>>,
    /// By number.
    tracks: Vec<Track>,
    /// Partitions that were given and of which nobody has said yet where to begin.
    given: Vec<(Arc<str>, i32)>,
    rebalances: Rebalances,
    /// How it stands among several nodes.
    standing: Standing,
    /// Whether partitions that are found now were not there when the pipeline began.
    has_begun: bool,
    /// Whether the brokers have ever let it read.
    has_read: bool,
    chunk: Chunk,
    valve: Valve,
    /// When it looked for records last.
    looked: (Instant, SystemTime),
    /// Statistics since partitions were paused, resumed or sought last.
    calm: u32,
    /// What the operator was told of last.
    told: Option<Trouble>,
    doubts: Doubts,
}

impl Poller {
    /// Of a consumer that has subscribed. The partitions in `queue` are those that are known.
    pub(crate) fn new(
        consumer: BaseConsumer<Ears>,
        queue: Arc<Queue>,
        settings: Assignment,
    ) -> Self {
        let known = queue.lock().partitions.clone();
        let mut numbers = HashMap::<_, HashMap<_, _>>::new();
        for (number, known) in known.iter().enumerate() {
            numbers.entry(known.topic.clone()).or_default().insert(known.partition, number);
        }
        Self {
            consumer,
            queue,
            numbers,
            tracks: known.iter().map(|known| Track::new(known.next)).collect(),
            given: Vec::new(),
            rebalances: Rebalances::default(),
            standing: Standing::default(),
            has_begun: !known.is_empty(),
            has_read: false,
            chunk: Chunk::default(),
            valve: Valve::new(settings.queue_bytes_max),
            looked: (Instant::now(), SystemTime::now()),
            calm: 0,
            settings,
            told: None,
            doubts: Doubts::default(),
        }
    }

    /// Polls until it is told to stop, or nothing more can come.
    pub(crate) fn run(mut self) {
        while !self.queue.lock().is_stopping {
            if let Err(failure) = self.step() {
                self.hand_on();
                self.queue.lock().failure = Some(failure);
                self.queue.tell();
                break;
            }
        }
        self.commit();
        let ears = self.consumer.context().clone();
        let since = Instant::now();
        while ears.commits.load(Ordering::Relaxed) > 0 && since.elapsed() < FAREWELL {
            self.consumer.poll(PATIENCE);
        }
        ears.is_closing.store(true, Ordering::Relaxed);
        drop(self.consumer);
        self.queue.lock().has_stopped = true;
        self.queue.tell();
    }

    fn step(&mut self) -> Result<(), KafkaError> {
        let mut patience = PATIENCE;
        // What is there at once goes in one piece.
        loop {
            let consumer = &self.consumer;
            match consumer.poll(patience) {
                None => break,
                Some(Ok(message)) => {
                    let is_traced = self.settings.is_traced;
                    let into = (&mut self.chunk, &mut *self.tracks);
                    take(&message, into, &self.numbers, is_traced);
                    if self.chunk.is_full() {
                        break;
                    }
                }
                Some(Err(error)) => {
                    self.trouble(&error)?;
                    break;
                }
            }
            patience = Duration::ZERO;
        }
        // Before what was read is given, since it may be that of one partition only.
        self.follow()?;
        self.notice_sleep();
        self.hand_on();
        self.share_out()?;
        self.begin();
        self.ask();
        self.look();
        self.commit();
        self.acknowledge();
        self.say_standing();
        self.turn();
        self.align();
        Ok(())
    }

    /// Says how it stands in its group, if somebody asks.
    fn say_standing(&self) {
        let Some(carrier) = self.settings.carrier.as_ref().filter(|carrier| carrier.is_asked())
        else {
            return;
        };
        if let Some(group) = self.consumer.group_metadata() {
            carrier.stands(group);
        }
    }

    /// Puts what has been read into the queue.
    fn hand_on(&mut self) {
        if self.chunk.records.is_empty() {
            return;
        }
        // A record of one topic says nothing of another that may not be read, or is not there.
        self.works_again(!matches!(self.told, Some(Trouble::Forbidden | Trouble::NoTopic)));
        let mut state = self.queue.lock();
        let spare = state.spare.pop().unwrap_or_default();
        let chunk = std::mem::replace(&mut self.chunk, spare);
        for raw in &chunk.records {
            if let Some(known) = state.partitions.get_mut(raw.partition) {
                known.waiting += 1;
                known.is_at_end = false;
            }
        }
        state.bytes += chunk.size();
        state.chunks.push_back(chunk);
        drop(state);
        self.queue.tell();
    }

    /// Follows what the group has decided.
    fn follow(&mut self) -> Result<(), KafkaError> {
        let changes = std::mem::take(&mut self.consumer.context().lock().changes);
        for change in changes {
            if let Change::Given(_) = change {
                self.hear_given();
            }
            match change {
                Change::Given(names) if self.is_shared() => self.is_given(names),
                // Until the client hears that nothing is new, it reads nothing of the rest.
                Change::Given(names) if names.is_empty() => {
                    self.consumer.incremental_assign(&TopicPartitionList::new()).ok();
                }
                Change::Given(names) => self.given.extend(names),
                Change::Taken(_) if self.is_shared() => self.let_go(),
                Change::Taken(names) => {
                    let was_lost = self.consumer.assignment_lost();
                    // Topics that it may not read are left out of what the group shares out.
                    let comes_back = was_lost || self.told == Some(Trouble::Forbidden);
                    self.give_back(&names);
                    self.given.retain(|name| !names.contains(name));
                    for (topic, partition) in &names {
                        let number = self.number(topic, *partition);
                        if let Some(track) = number.and_then(|at| self.tracks.get_mut(at)) {
                            track.is_ours = false;
                        }
                    }
                    if !comes_back {
                        let names = names.iter().map(|(topic, number)| name(topic, *number));
                        let partitions = names.collect::<Vec<_>>().join(", ").into();
                        let group = self.settings.group.clone();
                        return Err(KafkaError::TakenAway { partitions, group });
                    }
                    self.tell_lost(&names);
                    if was_lost {
                        self.say("lost touch with its group; goes on when it is back".into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets go of those of `names` that are read: the client would let go of none if it did not read one.
    fn give_back(&self, names: &[(Arc<str>, i32)]) {
        let Ok(reading) = self.consumer.assignment() else { return };
        let is_read = |(topic, partition): &&(Arc<str>, i32)| {
            reading.find_partition(topic, *partition).is_some()
        };
        let read: Vec<_> = names.iter().filter(is_read).cloned().collect();
        self.consumer.incremental_unassign(&list(&read)).ok();
    }

    /// Looks where each partition stands.
    fn look(&mut self) {
        let Some(statistics) = self.consumer.context().lock().statistics.take() else { return };
        if self.told == Some(Trouble::Away) && statistics.is_connected() {
            self.is_over("the brokers are back");
        }
        self.calm = if self.valve.is_closed() { 0 } else { self.calm.saturating_add(1) };
        let is_calm = self.calm >= CALM;
        let mut finished = TopicPartitionList::new();
        let mut has_answered = !self.tracks.is_empty();
        let mut state = self.queue.lock();
        for (known, track) in state.partitions.iter_mut().zip(&self.tracks) {
            let stand = statistics.stand(&known.topic, known.partition);
            let Some(stand) = stand.filter(|_| track.is_ours) else {
                known.is_at_end = false;
                has_answered &= track.is_ours && known.is_finished;
                continue;
            };
            let has_moved = track.asked.is_some_and(|asked| asked != track.next);
            has_answered &=
                known.is_finished || has_moved || (stand.is_fetched && stand.is_reachable);
            let stand = Stand { has_more: stand.has_more || !is_calm, ..stand };
            if known.stand(stand, track.next) {
                finished.add_partition(&known.topic, known.partition);
            }
        }
        drop(state);
        self.queue.tell();
        if finished.count() > 0 {
            self.consumer.pause(&finished).ok();
        }
        self.doubt(has_answered);
    }

    fn commit(&mut self) {
        let Some(mut offsets) = self.queue.lock().commit.take() else { return };
        offsets.retain(|(topic, partition, _)| {
            let track = self.number(topic, *partition).and_then(|number| self.tracks.get(number));
            track.is_some_and(|track| track.is_ours || self.standing.is_leaving)
        });
        let committed = carrier::list(&offsets, &note(&self.settings.instance, ""));
        if committed.count() > 0 && self.consumer.commit(&committed, CommitMode::Async).is_ok() {
            self.consumer.context().commits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Pauses when the queue is full, and goes on when it is half empty.
    fn turn(&mut self) {
        let state = self.queue.lock();
        let Some(turn) = self.valve.turn(state.bytes) else { return };
        let open = state.partitions.iter().zip(&self.tracks);
        let is_open =
            |known: &Known, track: &Track| !known.is_finished && track.is_ours && !track.is_held;
        let open = open.filter(|(known, track)| is_open(known, track));
        let names = list(&open.map(|(known, _)| known.place()).collect::<Vec<_>>());
        drop(state);
        self.turn_to(turn, &names);
    }

    /// Pauses partitions, or lets them go on.
    fn turn_to(&mut self, turn: Turn, partitions: &TopicPartitionList) {
        if partitions.count() == 0 {
            return;
        }
        self.calm = 0;
        let turned = match turn {
            Turn::Close => self.consumer.pause(partitions),
            Turn::Open => self.consumer.resume(partitions),
        };
        if let Err(error) = turned {
            self.say(format!("cannot pause or go on: {error}"));
        }
    }

    /// Pauses the partitions that are to wait for others, and lets those go on that need not any more.
    fn align(&mut self) {
        let (mut wait, mut go) = (TopicPartitionList::new(), TopicPartitionList::new());
        let state = self.queue.lock();
        for ((known, track), held) in state.partitions.iter().zip(&mut self.tracks).zip(&state.held)
        {
            if track.is_held == *held || !track.is_ours || known.is_finished {
                continue;
            }
            track.is_held = *held;
            let list = if *held { &mut wait } else { &mut go };
            list.add_partition(&known.topic, known.partition);
        }
        drop(state);
        self.turn_to(Turn::Close, &wait);
        // While the valve is closed, nothing goes on; when it opens, they do.
        if !self.valve.is_closed() {
            self.turn_to(Turn::Open, &go);
        }
    }
}

fn list(names: &[(Arc<str>, i32)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in names {
        list.add_partition(topic, *partition);
    }
    list
}
