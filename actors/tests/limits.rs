//! What happens when a part is slow or breaks: memory stays bounded, everything that can pass
//! passes, and the run ends with the reason.

mod kit;

use kit::{
    Got, Record, batch, bounded, check, expected, in_system, job, parts, planned, run, source,
};
use nilometer_actors::credit::Limits;
use nilometer_actors::node::{News, Node};
use nilometer_actors::report::Failure;
use nilometer_connectors::dead_letter::{DeadLetterFile, DeadLetters};
use nilometer_connectors::memory::MemorySource;
use nilometer_connectors::sink::SinkError;
use nilometer_connectors::source::{Polled, Progress, Source, SourceError, State};
use nilometer_model::expr::{Arithmetic, Binary, Literal, Refinement, Relation, TypedExpr};
use nilometer_model::plan::Plan;
use nilometer_model::row::{Field, RowBatch};
use nilometer_model::symbol::Symbols;
use nilometer_model::value::{Datum, Type};
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Every millisecond a record, so that every tenth begins a window and completes the one before.
fn steady(count: i64) -> Vec<Record> {
    (0..count).map(|time| (time, (time % 5) as u32, 0, 1)).collect()
}

/// An endless source of [`steady`] records, ten at a time.
fn endless(plan: &Arc<Plan>) -> Box<dyn Source> {
    let plan = plan.clone();
    let batches = (0..).map(move |turn: i64| {
        let ten: Vec<_> = (0..10).map(|n| (turn * 10 + n, (n % 5) as u32, 0, 1)).collect();
        Some(batch(&plan, &ten))
    });
    Box::new(MemorySource::new(batches, None))
}

#[test]
fn a_sink_that_blocks_stops_the_source_at_the_limit_and_not_before() {
    let plan = planned(&job());
    let records = steady(1_000);
    let (stand, stands) = channel();
    let (release, released) = channel::<()>();
    let got = Got::default();
    let kept = got.clone();
    let mut is_first = true;
    let sink = kit::sink(move |panes| {
        kept.push(panes);
        if std::mem::take(&mut is_first) {
            // From now on the sink stands, until the test lets it go.
            stand.send(()).unwrap();
            released.recv().unwrap();
        }
        Ok(())
    });
    // Two batches complete the first window; the others come once the sink stands.
    let batches: Vec<_> = records.chunks(10).map(|ten| batch(&plan, ten)).collect();
    let (polled, polls) = channel();
    let mut batches = batches.into_iter().enumerate().peekable();
    let source = std::iter::from_fn(move || {
        let number = batches.peek()?.0;
        if number == 2 && stands.recv_timeout(Duration::from_millis(5)).is_err() {
            return Some(None);
        }
        polled.send(number).unwrap();
        batches.next().map(|(_, batch)| Some(batch))
    });
    let mut parts = parts(&plan, vec![Box::new(MemorySource::new(source, None))], vec![sink]);
    // Any pane that waits makes a shard keep the credits of its sources.
    parts.shards = 1;
    parts.limits = Limits { in_flight_records_max: 100, output_bytes_max: 0, ..Limits::default() };
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        for number in 0..12 {
            assert_eq!(polls.recv_timeout(Duration::from_secs(30)), Ok(number));
        }
        // A hundred records are in flight. The source stands as well.
        let next = polls.recv_timeout(Duration::from_millis(300));
        assert_eq!(next, Err(RecvTimeoutError::Timeout));
        release.send(()).unwrap();
        node.finish().await
    });
    check(&outcome);
    assert_eq!(outcome.records().accepted, 1_000);
    assert!(got.totals(&plan) == expected(&records));
}

#[test]
fn bytes_in_flight_are_bounded_too() {
    let plan = planned(&job());
    let records = steady(500);
    let got = Got::default();
    let mut parts = parts(&plan, vec![source(&plan, &records, 10)], vec![got.sink()]);
    // One batch at a time.
    parts.limits = Limits { in_flight_bytes_max: 1, ..Limits::default() };
    let outcome = run(parts);
    check(&outcome);
    assert!(got.totals(&plan) == expected(&records));
}

#[test]
fn a_sink_that_breaks_ends_the_run_and_holds_nobody() {
    let plan = planned(&job());
    let mut written = 0;
    let broken = kit::sink(move |_| {
        written += 1;
        let source = io::Error::from(io::ErrorKind::StorageFull);
        if written < 3 { Ok(()) } else { Err(SinkError::Write { path: "out".into(), source }) }
    });
    let mut parts = parts(&plan, vec![endless(&plan)], vec![broken]);
    parts.limits = Limits { output_bytes_max: 0, ..Limits::default() };
    let (news, outcome) = in_system(async {
        let mut node = Node::start(parts).unwrap();
        let news = node.news().await;
        (news, node.finish().await)
    });
    let News::Failed { text, .. } = news else { panic!("{news:?}") };
    assert!(text.starts_with("sink `out`: cannot write `out`"), "{text}");
    let [Failure::Sink { .. }] = &*outcome.failures else { panic!("{:?}", outcome.failures) };
    assert_eq!(outcome.in_flight(), Some(0), "the shards took what was read");
    assert!(outcome.sinks[0].has_failed);
    assert_eq!(outcome.sinks.len() + outcome.sources.len() + outcome.shards.len(), 4);
}

/// A source that breaks in the middle of a poll.
struct Breaking(Option<RowBatch>);

impl Source for Breaking {
    fn poll(&mut self, _: usize, out: &mut Polled) -> Result<State, SourceError> {
        let Some(batch) = self.0.take() else { panic!("polled again after a failure") };
        out.batch = batch;
        out.account.read += out.batch.len() as u64;
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        Err(SourceError::File { path: "in".into(), source })
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

#[test]
fn a_source_that_breaks_ends_the_run_and_what_it_read_counts() {
    let plan = planned(&job());
    let records = steady(20);
    let broken = Breaking(Some(batch(&plan, &records)));
    let got = Got::default();
    let sources: Vec<Box<dyn Source>> = vec![endless(&plan), Box::new(broken)];
    let mut parts = parts(&plan, sources, vec![got.sink()]);
    // The endless one would run far ahead.
    for source in &mut parts.sources {
        source.watermark = bounded(i64::MAX).into();
    }
    let outcome = run(parts);
    let [Failure::Source { name, .. }] = &*outcome.failures else {
        panic!("{:?}", outcome.failures)
    };
    assert_eq!(&**name, "s1");
    assert_eq!(outcome.in_flight(), Some(0));
    assert_eq!(outcome.records().in_flight(), Some(0));
    let broken = outcome.sources.iter().find(|source| &*source.name == "s1").unwrap();
    assert_eq!((broken.account.accepted, broken.is_finished), (20, false));
}

#[test]
fn a_stage_that_cannot_go_on_ends_the_run_and_its_records_stay_in_flight() {
    // A sum of values of 128 bits overflows with the second record.
    let mut job = job();
    job.fields[2].ty = Type::Big;
    let plan = planned(&job);
    let mut huge = batch(&plan, &[(0, 1, 1, 0), (0, 1, 1, 0), (0, 1, 1, 0)]);
    let slot = plan.row.slot("v").unwrap();
    for index in 0..3 {
        huge.row_mut(index).set(slot, Datum::Int(i128::MAX));
    }
    let batches = std::iter::once(Some(huge)).chain(std::iter::repeat_with(|| None));
    let reader = Box::new(MemorySource::new(batches, None));
    let outcome = run(parts(&plan, vec![reader], vec![Got::default().sink()]));
    let [Failure::Stage { error, .. }] = &*outcome.failures else {
        panic!("{:?}", outcome.failures)
    };
    assert!(error.to_string().starts_with("stage `fine`"), "{error}");
    assert_eq!((outcome.records().accepted, outcome.in_flight()), (0, Some(3)));
    assert_eq!(outcome.records().in_flight(), Some(3));
}

/// The filter 10 / (v - 1) > 0: it has no value for v = 1, and is false for v = 0.
fn filter() -> Option<TypedExpr> {
    let int = |number| TypedExpr::literal(Literal::Int(number));
    let number =
        |operator, left, right| TypedExpr::binary(Binary::Arithmetic(operator), left, right).ok();
    let v = TypedExpr::field(&Field::new("v", Type::I64));
    let quotient = number(Arithmetic::Divide, int(10), number(Arithmetic::Subtract, v, int(1))?)?;
    TypedExpr::binary(Binary::Compare(Relation::Greater), quotient, int(0)).ok()
}

#[test]
fn what_the_filter_leaves_out_and_what_it_cannot_judge_are_counted() {
    let plan = planned(&job());
    let symbols = Arc::new(Symbols::default());
    let filter = filter().unwrap();
    let records: Vec<Record> = (0..30).map(|n| (n, 1, 1, n % 3)).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dead.ndjson");
    for keeps_letters in [false, true] {
        let got = Got::default();
        let mut parts = parts(&plan, vec![source(&plan, &records, 7)], vec![got.sink()]);
        let refinement = Refinement::bind(&[], Some(&filter), &plan.row, &symbols).unwrap();
        parts.refinement = Arc::new(refinement);
        parts.symbols = symbols.clone();
        parts.dead_letters = keeps_letters
            .then(|| DeadLetters::new(Some(DeadLetterFile::create(&path).unwrap()), None));
        let outcome = run(parts);
        check(&outcome);
        let account = outcome.records();
        assert_eq!((account.read, account.accepted, account.filtered), (30, 10, 10));
        let letters = account.dead_lettered.get("expression");
        let malformed = account.malformed.get("expression");
        assert_eq!((malformed, letters), if keeps_letters { (0, 10) } else { (10, 0) });
        let twos: Vec<_> = records.iter().filter(|record| record.3 == 2).copied().collect();
        assert!(got.totals(&plan) == expected(&twos));
    }
    let letters = std::fs::read_to_string(path).unwrap();
    assert_eq!(letters.lines().count(), 10);
    assert!(letters.lines().next().unwrap().contains(r#""origin":"s0","record":2,"#), "{letters}");
}

#[test]
fn letters_that_nobody_takes_hold_up_only_who_wrote_them() {
    const REJECTED: i64 = 2_000;
    let plan = planned(&job());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dead.ndjson");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Open to both sides, so that neither waits for the other.
    let mut pipe = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let (release, released) = channel::<()>();
    let records: Vec<Record> = (0..REJECTED).map(|time| (time, 1, 1, 1)).collect();
    let ten: Vec<Record> = (0..10).map(|time| (time, 1, 1, 2)).collect();
    let ten = batch(&plan, &ten);
    let late = std::iter::once_with(move || {
        released.recv().unwrap();
        Some(ten)
    });
    let sources: Vec<Box<dyn Source>> =
        vec![source(&plan, &records, 1_000), Box::new(MemorySource::new(late, None))];
    let mut parts = parts(&plan, sources, vec![Got::default().sink()]);
    let refinement =
        Refinement::bind(&[], Some(&filter().unwrap()), &plan.row, &parts.symbols).unwrap();
    parts.refinement = Arc::new(refinement);
    parts.dead_letters = Some(DeadLetters::new(Some(DeadLetterFile::create(&path).unwrap()), None));
    let outcome = in_system(async {
        let node = Node::start(parts).unwrap();
        // Once the first letter has come through, the others fill the pipe, and the first source waits.
        let first = tokio::task::spawn_blocking(move || pipe.read_exact(&mut [0]).map(|()| pipe));
        let pipe = first.await.unwrap().unwrap();
        release.send(()).unwrap();
        while !node.meters().sources()[1].figures().has_ended {
            tokio::task::yield_now().await;
        }
        assert!(!node.meters().sources()[0].figures().has_ended);
        let rest = BufReader::new(pipe).lines().take(REJECTED as usize);
        let rest = tokio::task::spawn_blocking(move || rest.map_while(Result::ok).count());
        let outcome = node.finish().await;
        assert_eq!(rest.await.unwrap(), REJECTED as usize);
        outcome
    });
    check(&outcome);
    let account = outcome.records();
    assert_eq!(account.dead_lettered.get("expression"), REJECTED as u64);
    assert_eq!(account.read, REJECTED as u64 + 10);
}
