//! Rights that are taken away while a run goes on: what is said and what `/health` shows, that the run goes
//! on once they are given back, and that nothing was lost.

use crate::broker::Broker;
use crate::place::Place;
use crate::run::{Book, WELL, health, results_of, sums_to_topic};
use crate::secure::SECURE;
use std::io::{Read, Write};
use std::net::TcpStream;

/// What a right is of, as the protocol of Kafka numbers it.
const TOPIC: u8 = 2;
const GROUP: u8 = 3;
const TRANSACTIONAL_ID: u8 = 5;
/// What it allows.
const READ: u8 = 3;
const WRITE: u8 = 4;
const CREATE: u8 = 5;
const DESCRIBE: u8 = 8;

/// A right of a user of the name `bob`: what it is of, its name, and what it allows.
type Right = (u8, &'static str, u8);

/// Everything that the page on Kafka says the user of a pipeline may have to be allowed.
const RIGHTS: [Right; 8] = [
    (TOPIC, "rights", READ),
    (GROUP, "rights-readers", READ),
    (TOPIC, "rights-sums", WRITE),
    (TOPIC, "nilometer.rights.changelog", READ),
    (TOPIC, "nilometer.rights.changelog", WRITE),
    (TOPIC, "nilometer.rights.changelog", CREATE),
    (TRANSACTIONAL_ID, "nilometer.rights.out.nilometer", WRITE),
    (TRANSACTIONAL_ID, "nilometer.rights.out.nilometer", DESCRIBE),
];

/// Gives a right, or takes it away: requests 30 and 31 of the protocol, version 1. Whoever is inside may.
fn change(inside: &Broker, (of, name, allows): Right, is_given: bool) {
    let text = |text: &str| {
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        [&length[..], text.as_bytes()].concat()
    };
    let request = [
        vec![0, if is_given { 30 } else { 31 }, 0, 1, 0, 0, 0, 7],
        text("test"),
        vec![0, 0, 0, 1, of],
        text(name),
        // A name as it stands.
        vec![3],
        text("User:bob"),
        text("*"),
        vec![allows, 3],
    ]
    .concat();
    let mut stream = TcpStream::connect(&inside.address).unwrap();
    stream.write_all(&u32::try_from(request.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    // Behind the number of the request and the time: one result, without an error.
    assert_eq!(answer[..14], [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], "{name}: {answer:?}");
}

#[test]
fn a_right_that_is_taken_away_holds_up_and_loses_nothing() {
    let inside = SECURE.inside();
    inside.topic("rights", 2);
    inside.topic("rights-sums", 1);
    RIGHTS.iter().for_each(|right| change(&inside, *right, true));
    let access = format!(
        "\"security.protocol\" = \"SASL_SSL\", \"ssl.ca.location\" = \"{}\", \
         \"sasl.mechanism\" = \"SCRAM-SHA-512\", \"sasl.username\" = \"bob\", \
         \"sasl.password\" = \"bob-secret\", \"topic.metadata.refresh.interval.ms\" = 300",
        SECURE.path("ca.pem").display()
    );
    let source = format!(
        "options = {{ {access}, \"heartbeat.interval.ms\" = 300, \"session.timeout.ms\" = 2000 }}\n\
         [source.watermark]\nkind = \"bounded\"\nout_of_orderness = \"0s\""
    );
    let sink = format!("options = {{ {access} }}");
    let place = Place::new(
        &(sums_to_topic(&SECURE.address, "rights", (&source, &sink))
            + "[state]\ndir = \"state\"\nepoch = \"50ms\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"),
    );
    let mut run = place.start(&[]);
    let (mut book, mut records) = (Book::default(), 0);
    let mut put = |book: &mut Book| {
        let mut more = Book::default();
        more.fill(2, (records, 3_000));
        book.fill(2, (records, 3_000));
        inside.produce("rights", &more.records());
        records += 3_000;
        1_700_000_000_000 + records
    };
    let mut end = put(&mut book);
    let is_out = |book: &Book, end: i64| {
        let found = results_of(&inside.read("rights-sums"));
        let complete = book.results.iter().filter(|((_, start), _)| start + 1_100 < end);
        complete.into_iter().all(|(key, values)| found.get(key) == Some(values))
    };
    run.until("all is out", || is_out(&book, end));
    let address = run.admin();
    assert!(health(&address).ends_with(WELL), "{}", health(&address));
    for (right, who, what) in [
        (RIGHTS[0], "source `in`", "Topic authorization failed"),
        (RIGHTS[1], "source `in`", "Group authorization failed"),
        (RIGHTS[2], "sink `out`", "Topic authorization failed"),
        (RIGHTS[6], "sink `out`", "Transactional Id authorization failed"),
    ] {
        run.said.clear();
        change(&inside, right, false);
        end = put(&mut book);
        run.hear(what);
        run.until("it is shown", || {
            let shown = health(&address);
            shown.contains(&format!("\"{who}\":\"")) && shown.contains(what)
        });
        change(&inside, right, true);
        run.until("all is out", || is_out(&book, end));
        run.until("nothing is held up", || health(&address).ends_with(WELL));
    }
    // Nothing comes, and the topic can be seen all the while: nobody says that it may be read again.
    change(&inside, (TOPIC, "rights", DESCRIBE), true);
    change(&inside, RIGHTS[0], false);
    run.until("it is shown", || health(&address).contains("Topic authorization failed"));
    run.said.clear();
    change(&inside, RIGHTS[0], true);
    run.hear("goes on");
    run.until("nothing is held up", || health(&address).ends_with(WELL));
    run.stop();
    assert_eq!(place.summary()["records"]["accepted"], records);
}
