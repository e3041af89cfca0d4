//! Two nodes in one group: each reads its partitions and no others, gets them back after a kill, and
//! says what is wrong where the group would give it what it cannot go on with.

use crate::broker::{Broker, Follower};
use crate::place::Place;
use crate::restart::Dice;
use crate::run::{Book, Results, Running, results_of, sums_to_topic};
use std::time::Duration;

/// Sessions that end soon, and small pieces.
const SOURCE: &str = "nodes = 2
options = { \"session.timeout.ms\" = 6000, \"heartbeat.interval.ms\" = 300, \"fetch.message.max.bytes\" = 10000, \"topic.metadata.refresh.interval.ms\" = 500 }
[source.watermark]
kind = \"bounded\"
out_of_orderness = \"1s\"";
const MORE: &str = "
[state]
dir = \"state\"
epoch = \"50ms\"
[limits]
batch_records = 200
in_flight_records = 2000
";
/// Partitions of the topics.
const PARTITIONS: i32 = 6;

/// Nodes over topics, and what they have been given to read.
struct Nodes {
    broker: &'static Broker,
    name: &'static str,
    topics: Vec<String>,
    pipeline: String,
    book: Book,
    produced: usize,
    out: Follower,
}

impl Nodes {
    /// Over topic `name`.
    fn over(name: &'static str) -> Self {
        Self::over_all(name, &[(name, PARTITIONS)])
    }

    /// Over these topics, each with so many partitions.
    fn over_all(name: &'static str, topics: &[(&str, i32)]) -> Self {
        let broker = Broker::shared();
        topics.iter().for_each(|(topic, partitions)| broker.topic(topic, *partitions));
        broker.topic(&format!("{name}-sums"), 2);
        let topics: Vec<_> = topics.iter().map(|(topic, _)| (*topic).to_owned()).collect();
        let pipeline = sums_to_topic(&broker.address, name, (SOURCE, "")) + MORE;
        let pipeline = pipeline
            .replace("shards = 2", "shards = 2\nshard_by = [\"k\"]")
            .replace(&format!("topics = [\"{name}\"]"), &format!("topics = {topics:?}"));
        let out = broker.follow(&format!("{name}-sums"));
        Self { broker, name, topics, pipeline, book: Book::default(), produced: 0, out }
    }

    fn place(&self) -> Place {
        Place::new(&self.pipeline)
    }

    /// Starts a node in its place.
    fn start(&self, instance: &str, place: &Place) -> Running {
        let set = |what: &str| format!("{what}.0.instance={instance}");
        place.start(&["--set", &set("source"), "--set", &set("sink")])
    }

    /// `count` more records, evenly over the partitions and topics.
    fn put(&mut self, count: i64) {
        let first = i64::try_from(self.book.values.len()).unwrap();
        self.book.fill_by_key(PARTITIONS, (first, count));
        let (records, apart) = (self.book.records(), usize::try_from(PARTITIONS).unwrap());
        for (number, topic) in self.topics.iter().enumerate() {
            let ours = records.iter().enumerate().skip(self.produced);
            let ours = ours.filter(|(at, _)| at / apart % self.topics.len() == number);
            let ours: Vec<_> = ours.map(|(_, record)| *record).collect();
            self.broker.produce(topic, &ours);
        }
        self.produced = self.book.values.len();
    }

    /// What has come out, each pane once.
    fn results(&mut self) -> Results {
        results_of(self.out.taken())
    }

    /// What has to come out of windows that are certainly complete.
    fn complete(&self) -> Results {
        let records = i64::try_from(self.book.values.len()).unwrap();
        let end = 1_700_000_000_000 + records - 3_000;
        self.book.results.clone().into_iter().filter(|((_, start), _)| *start < end).collect()
    }

    fn is_all_out(&mut self) -> bool {
        let (found, complete) = (self.results(), self.complete());
        complete.iter().all(|(key, values)| found.get(key) == Some(values))
    }

    fn group(&self) -> String {
        format!("{}-readers", self.name)
    }

    /// Offsets by partition of the first topic.
    fn committed(&self) -> Vec<Option<i64>> {
        self.broker.committed(&self.group(), &self.topics[0], PARTITIONS)
    }

    fn members(&self) -> usize {
        self.broker.members(&self.group())
    }

    /// The nodes that the group says to have each partition, which are the same in each topic.
    fn owners(&self) -> Vec<String> {
        let owners = self.owners_of(&self.topics[0]);
        self.topics.iter().for_each(|topic| assert_eq!(self.owners_of(topic), owners, "{topic}"));
        owners
    }

    fn owners_of(&self, topic: &str) -> Vec<String> {
        let noted = self.broker.committed_as(&self.group(), topic, PARTITIONS);
        noted.iter().map(|(_, note)| note.split('/').next().unwrap().to_owned()).collect()
    }
}

fn partitions(place: &Place) -> Vec<String> {
    let summary = place.summary();
    let partitions = summary["partitions"].as_array().unwrap();
    partitions.iter().map(|partition| partition["partition"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_nodes_share_the_work_and_whoever_is_killed_gets_its_part_back() {
    const KILLS: u64 = 6;
    let mut nodes = Nodes::over("shared");
    nodes.put(60_000);
    let places = [nodes.place(), nodes.place()];
    let names = ["a", "b"];
    let mut first = nodes.start("a", &places[0]);
    first.hear("group `shared-readers` has 1 of 2 nodes; some partitions wait until it has 2");
    assert_eq!(nodes.results(), Results::new(), "one alone does not begin");
    let mut running = [first, nodes.start("b", &places[1])];
    let mut dice = Dice(7);
    for kill in 0..KILLS {
        let victim = usize::try_from(kill).unwrap() % 2;
        let before = nodes.results().len();
        running[victim].until("it goes on", || nodes.results().len() > before);
        running[victim].listen(Duration::from_millis(dice.roll(300)));
        running[victim].signal("-KILL");
        running[victim] = nodes.start(names[victim], &places[victim]);
        nodes.put(6_000);
    }
    running[0].until("all is out", || nodes.is_all_out());
    assert_eq!(nodes.owners(), ["a", "a", "a", "b", "b", "b"]);
    running.into_iter().for_each(|node| drop(node.stop()));
    assert_eq!(partitions(&places[0]), ["shared/0", "shared/1", "shared/2"]);
    assert_eq!(partitions(&places[1]), ["shared/3", "shared/4", "shared/5"]);
    let read = places.map(|place| place.summary()["records"]["accepted"].as_i64().unwrap());
    assert_eq!(read, [48_000, 48_000], "each record once");
}

/// Each result is of records of both topics. In the end one of them gets a partition that the other
/// lacks.
#[test]
fn nodes_keep_what_belongs_together_of_several_topics() {
    let mut nodes = Nodes::over_all("joined", &[("joined-x", 6), ("joined-y", 6)]);
    // Kills at any instant are for others: few transactions, each with more in it.
    nodes.pipeline = nodes.pipeline.replace("epoch = \"50ms\"", "epoch = \"500ms\"");
    nodes.put(9_000);
    let places = [nodes.place(), nodes.place()];
    let mut a = nodes.start("a", &places[0]);
    a.hear("group `joined-readers` has 1 of 2 nodes");
    let mut b = nodes.start("b", &places[1]);
    b.until("it reads", || nodes.committed()[3..].iter().any(|offset| *offset > Some(0)));
    b.kill();
    nodes.put(6_000);
    let b = nodes.start("b", &places[1]);
    a.until("all is out", || nodes.is_all_out());
    assert_eq!(nodes.owners(), ["a", "a", "a", "b", "b", "b"]);
    nodes.broker.grow("joined-y", 7);
    let uneven = "its topics have different numbers of partitions (`joined-x` 6, `joined-y` 7)";
    for (node, place, first) in [(a, &places[0], 0), (b, &places[1], 3)] {
        let said = node.end(3);
        assert!(said.contains(uneven), "{said}");
        let theirs = |topic| (first..first + 3).map(move |at| format!("joined-{topic}/{at}"));
        let mut read = partitions(place);
        read.sort();
        assert_eq!(read, theirs("x").chain(theirs("y")).collect::<Vec<_>>());
        assert_eq!(place.summary()["records"]["accepted"], 7_500, "each record once");
    }
}

/// Whichever partitions of them a node has been given: here one of them has none of the second topic.
#[test]
fn nodes_refuse_topics_with_different_numbers_of_partitions() {
    let mut nodes = Nodes::over_all("uneven", &[("uneven-x", 6), ("uneven-y", 1)]);
    let uneven = "its topics have different numbers of partitions (`uneven-x` 6, `uneven-y` 1)";
    let places = [nodes.place(), nodes.place()];
    let running = [nodes.start("a", &places[0]), nodes.start("b", &places[1])];
    for said in running.map(|node| node.end(3)) {
        assert!(said.contains(uneven) && said.contains("let one node read them"), "{said}");
    }
    assert_eq!(nodes.owners_of("uneven-x"), [""; 6], "nothing is claimed");
    assert_eq!(nodes.results(), Results::new());
}

#[test]
fn a_node_that_has_no_part_says_so_and_the_others_go_on() {
    let mut nodes = Nodes::over("crowded");
    nodes.put(12_000);
    let (at_a, at_b) = (nodes.place(), nodes.place());
    let mut a = nodes.start("a", &at_a);
    let mut b = nodes.start("b", &at_b);
    a.until("both read", || nodes.is_all_out());
    // One too many: the others let go, with all that they have read in an epoch, and go on.
    let said = nodes.start("c", &nodes.place()).end(3);
    assert!(
        said.contains("group `crowded-readers` already has its 2 nodes, and `c` has no"),
        "{said}"
    );
    a.hear("lets go of its partitions: all that was read of them is stored");
    b.hear("lets go of its partitions: all that was read of them is stored");
    nodes.put(12_000);
    b.until("both go on", || nodes.is_all_out());
    // One in place of another: its state is not there.
    b.kill();
    a.hear("group `crowded-readers` has 1 of 2 nodes");
    nodes.put(12_000);
    a.until("the other goes on alone", || nodes.committed()[..3] == [Some(6_000); 3]);
    assert!(nodes.committed()[3..].iter().all(|offset| *offset <= Some(4_000)));
    let said = nodes.start("d", &nodes.place()).end(3);
    let expected = "group `crowded-readers` gives partition crowded/3 to `d`, and its state is where \
                    `b` runs: start `b` in place of this one";
    assert!(said.contains(expected), "{said}");
    // The right one goes on where it was.
    let mut b = nodes.start("b", &at_b);
    a.until("all is out", || nodes.is_all_out());
    // After a stop of both, whoever comes first.
    a.stop();
    b.signal("-TERM");
    b.until("the group has forgotten them", || nodes.members() == 0);
    b.end(0);
    nodes.put(12_000);
    let mut b = nodes.start("b", &at_b);
    b.hear("group `crowded-readers` has 1 of 2 nodes");
    b.until("it goes on alone", || nodes.committed()[3..] == [Some(8_000); 3]);
    let a = nodes.start("a", &at_a);
    b.until("all is out", || nodes.is_all_out());
    assert_eq!(nodes.owners(), ["a", "a", "a", "b", "b", "b"]);
    drop((a.stop(), b.stop()));
    let read = [at_a, at_b].map(|place| place.summary()["records"]["accepted"].as_i64().unwrap());
    assert_eq!(read, [24_000, 24_000], "each record once");
}
