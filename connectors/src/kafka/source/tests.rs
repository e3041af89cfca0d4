//! The source of topics: where it stands, what it makes of the queue, and what becomes of it when
//! its group lets it down.

use super::*;
use crate::flow_feed::FeedImage;
use crate::kafka::client::ClientOption;
use crate::netflow::FlowDecoder;
use crate::secret::Secret;
use crate::source::Change::{Gained, Lost};
use crate::text::{RecordSchema, TimeUnit};
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::time::Instant;

const PATIENT: Duration = Duration::from_secs(60);

/// The mock group waits for a second less than a session before it gives partitions again, and for
/// three seconds before it does so first.
const OPTIONS: [(&str, &str); 2] =
    [("session.timeout.ms", "5000"), ("heartbeat.interval.ms", "100")];

/// A source of topic `t`, whose records are none: their values are no JSON.
fn source(
    brokers: &str,
    options: &[(&str, &str)],
    queue_bytes_max: usize,
    until: Option<Until>,
) -> (KafkaSource, Polled) {
    let options = options.iter().map(|(name, value)| ClientOption {
        name: (*name).into(),
        value: Secret::Text((*value).into()),
    });
    let schema =
        RecordSchema { time: "ts".into(), time_unit: TimeUnit::Millis, fields: Vec::new() };
    let settings = KafkaSettings {
        client: ClientSettings { brokers: brokers.into(), options: options.collect() },
        topics: vec!["t".into()],
        group: "g".into(),
        instance: "n".into(),
        nodes: 1,
        format: KafkaFormat::Json { schema, time: RecordTime::Field },
        record_bytes_max: 1 << 20,
        start: Start::Earliest,
        until,
        queue_bytes_max,
        carrier: None,
        is_traced: false,
        plight: Plight::default(),
    };
    let layout = Arc::new(RowLayout::new([]));
    let source = KafkaSource::open(settings, &layout, Arc::default()).unwrap();
    (source, Polled::new(layout, true))
}

/// The group takes everything away while the queue is full, and the queue drains before it gives
/// anything back.
#[test]
fn what_is_lost_while_it_is_paused_goes_on_when_it_comes_back() {
    const RECORDS: u64 = 400;
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
    let value = "x".repeat(4 << 10);
    for _ in 0..RECORDS {
        producer.send(BaseRecord::<str, _>::to("t").partition(0).payload(&value)).unwrap();
    }
    producer.flush(PATIENT).unwrap();
    let (mut source, mut out) = source(&brokers, &OPTIONS, 1, None);
    let since = Instant::now();
    while out.account.read == 0 && since.elapsed() < PATIENT {
        source.poll(1, &mut out).unwrap();
    }
    // Behind the open chunk there is another one: it is full.
    assert!(source.queue.wait(PATIENT, |state| state.bytes > 0).bytes > 0);
    let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID;
    cluster.request_errors(RDKafkaApiKey::Heartbeat, &[unknown]);
    let is_lost = |state: &queue::State| !state.rebalances.is_empty();
    drop(source.queue.wait(PATIENT, is_lost));
    while out.account.read < RECORDS && since.elapsed() < PATIENT {
        source.poll(usize::MAX, &mut out).unwrap();
        out.letters.clear();
    }
    assert_eq!(out.account.read, RECORDS, "{:?}", out.notices);
    let changes: Vec<_> = out.rebalances.iter().map(|rebalance| rebalance.change).collect();
    assert_eq!(changes, [Gained, Lost, Gained]);
}

/// A reading that was killed when one of two partitions had come to its end, behind which more has come since.
/// Then the group takes both away, and gives them again.
#[test]
fn what_has_been_read_to_its_end_is_not_read_on() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 2, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
    for number in 0..40 {
        producer.send(BaseRecord::<str, _>::to("t").partition(number % 2).payload("x")).unwrap();
    }
    producer.flush(PATIENT).unwrap();
    let (mut source, mut out) = source(&brokers, &OPTIONS, 1 << 20, Some(Until::Now));
    let topic = "t".into();
    let known = [(0, 5, 5), (1, 15, 20)];
    let known = known.map(|(at, next, end)| Known::begun((&topic, at), next, Some(end)));
    let partitions = known.iter().map(Stored::of).collect();
    let feed = None::<FeedImage<FlowDecoder>>;
    let until = Some(Until::Now);
    source.resume(&position_of(&KafkaPosition { partitions, until, feed })).unwrap();
    source.start().unwrap();
    // They are fetched together.
    let state = source.queue.wait(PATIENT, |state| state.partitions[1].is_finished);
    let waiting = [0, 1].map(|at: usize| state.partitions[at].waiting);
    assert_eq!((waiting, state.is_complete), ([0, 5], true));
    drop(state);
    let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID;
    cluster.request_errors(RDKafkaApiKey::Heartbeat, &[unknown]);
    let is_back = |state: &queue::State| state.rebalances.len() == 3;
    let state = source.queue.wait(PATIENT, is_back);
    let changes: Vec<_> = state.rebalances.iter().map(|rebalance| rebalance.change).collect();
    assert_eq!(changes, [Gained, Lost, Gained]);
    let lags = state.partitions.iter().map(Known::lag).map(|lag| (lag.next, lag.end));
    assert_eq!(lags.collect::<Vec<_>>(), [(5, Some(5)), (15, Some(20))]);
    drop(state);
    assert_eq!(source.poll(usize::MAX, &mut out).unwrap(), State::End);
    assert_eq!((out.account.read, source.queue.lock().bytes), (5, 0));
}

#[test]
fn a_poll_leaves_few_letters_however_much_waits() {
    let (mut source, mut out) = source("127.0.0.1:1", &[], 1 << 20, None);
    // Nobody polls: the queue is filled by hand.
    source.waiting = None;
    let (value, begun) = (vec![b'x'; 1 << 10], Known::begun((&"t".into(), 0), 0, None));
    let mut state = source.queue.lock();
    state.has_stopped = true;
    state.partitions.push(Known { waiting: 3_000, ..begun });
    for first in [0, 1_000, 2_000] {
        let mut chunk = Chunk::default();
        (first..first + 1_000).for_each(|at| chunk.push((0, at, None), None, Some(&value)));
        state.chunks.push_back(chunk);
    }
    drop(state);
    let mut read = 0;
    while read < 3_000 {
        assert_eq!(source.poll(usize::MAX, &mut out).unwrap(), State::More);
        let last = out.letters.last().unwrap().bytes();
        let bytes = out.letter_bytes(0);
        let is_bounded = bytes < Polled::LETTER_BYTES_MAX + last;
        assert!(is_bounded && out.account.read > read, "{bytes} {}", out.account.read);
        read = out.account.read;
        assert_eq!(source.queue.lock().partitions[0].next, read as i64);
        out.letters.clear();
    }
    assert_eq!(read, 3_000);
}
