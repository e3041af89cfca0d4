//! The spans of a node: that they are what happened, and hang together across actors.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod kit;

use kit::{Got, Record};
use nilometer_actors::node::{Parts, StatePart};
use nilometer_actors::trace::Tracing;
use nilometer_connectors::source::{Polled, Position, Progress, Source, SourceError, State};
use nilometer_connectors::store::memory::Disk;
use nilometer_model::epoch::Bounds;
use nilometer_model::plan::Plan;
use nilometer_model::time::Span;
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState, TracerProvider};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanProcessor};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps spans that have ended.
#[derive(Debug, Clone, Default)]
struct Ended(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for Ended {
    fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.lock().unwrap().push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// What a run of `parts` has made, by name.
fn spans(parts: Parts, sampler: Sampler) -> BTreeMap<String, Vec<SpanData>> {
    let ended = Ended::default();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(ended.clone())
        .with_sampler(sampler)
        .build();
    let tracing = Tracing::new(BoxedTracer::new(Box::new(provider.tracer("test"))));
    kit::check(&kit::run(Parts { tracing, ..parts }));
    let mut spans = BTreeMap::<_, Vec<_>>::new();
    for span in ended.0.lock().unwrap().drain(..) {
        spans.entry(span.name.to_string()).or_default().push(span);
    }
    spans
}

fn attribute(span: &SpanData, name: &str) -> i64 {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    match found.map(|attribute| &attribute.value) {
        Some(Value::I64(number)) => *number,
        other => panic!("{name} of {span:?}: {other:?}"),
    }
}

fn ids<'a>(spans: impl IntoIterator<Item = &'a SpanContext>) -> HashSet<(TraceId, SpanId)> {
    spans.into_iter().map(|context| (context.trace_id(), context.span_id())).collect()
}

fn links(span: &SpanData) -> HashSet<(TraceId, SpanId)> {
    ids(span.links.iter().map(|link| &link.span_context))
}

/// One key; 40 windows of one record each, read four at a time.
fn one_key() -> Vec<Record> {
    (0..40).map(|number| (number * kit::WINDOW, 1, 1, 1)).collect()
}

fn parts(plan: &Arc<Plan>) -> Parts {
    kit::parts(plan, vec![kit::source(plan, &one_key(), 4)], vec![Got::default().sink()])
}

#[test]
fn panes_point_to_the_batches_that_they_come_from() {
    let (plan, got) = (kit::planned(&kit::job()), Got::default());
    let parts = kit::parts(&plan, vec![kit::source(&plan, &one_key(), 4)], vec![got.sink()]);
    let spans = spans(parts, Sampler::AlwaysOn);
    assert_eq!(got.totals(&plan), kit::expected(&one_key()));
    let batches = &spans["source batch"];
    assert_eq!(batches.len(), 10);
    assert!(batches.iter().all(|span| attribute(span, "nilometer.records") == 4));
    // Roots, since nobody says where the records came from, and each of a trace of its own.
    assert!(batches.iter().all(|span| span.parent_span_id == SpanId::INVALID));
    let traces: HashSet<_> = batches.iter().map(|span| span.span_context.trace_id()).collect();
    assert_eq!(traces.len(), 10);
    // One key is of one shard, which has taken each batch.
    let parents = |name: &str| {
        let of = |span: &SpanData| (span.span_context.trace_id(), span.parent_span_id);
        spans[name].iter().map(of).collect::<HashSet<_>>()
    };
    let read = ids(batches.iter().map(|span| &span.span_context));
    assert_eq!(parents("shard batch"), read);
    // Every pane was fired in a round and written under it, and every batch has led to one.
    let rounds = ids(spans["firing round"].iter().map(|span| &span.span_context));
    assert!(parents("sink write").is_subset(&rounds));
    let written: i64 =
        spans["sink write"].iter().map(|span| attribute(span, "nilometer.panes")).sum();
    assert_eq!(written, 4 * 40);
    for name in ["firing round", "sink write"] {
        let linked: HashSet<_> = spans[name].iter().flat_map(links).collect();
        assert_eq!(linked, read, "{name}");
    }
    // A window of ten milliseconds holds records of one batch, so what fires one window at a time
    // points to one batch.
    let exact = spans["sink write"].iter().filter(|span| attribute(span, "nilometer.panes") == 1);
    assert!(exact.clone().count() > 0);
    assert!(exact.clone().all(|span| links(span).len() == 1));
    assert!(!spans.contains_key("epoch"));
}

#[test]
fn an_epoch_is_a_trace_of_its_own() {
    let plan = kit::planned(&kit::job());
    let parts = parts(&plan);
    let state = StatePart {
        memory: None,
        store: Box::new(Disk::default().open().unwrap()),
        interval: Span::from_millis(1),
        bounds: Bounds::default(),
        host: Vec::new(),
        checkpoint: None,
    };
    let spans = spans(Parts { state: Some(state), ..parts }, Sampler::AlwaysOn);
    let epochs = &spans["epoch"];
    let numbers: Vec<_> = epochs.iter().map(|span| attribute(span, "nilometer.epoch")).collect();
    assert_eq!(numbers, (1..=epochs.len() as i64).collect::<Vec<_>>());
    // One source, two shards, one sink; the coordinator writes, too.
    for (name, each) in
        [("epoch cut", 3), ("epoch write", 5), ("epoch flush", 1), ("epoch publish", 1)]
    {
        for epoch in epochs {
            let trace = epoch.span_context.trace_id();
            let of = spans[name].iter().filter(|span| span.span_context.trace_id() == trace);
            assert_eq!(of.clone().count(), each, "{name}");
            for span in of {
                assert_eq!(span.parent_span_id, epoch.span_context.span_id());
                assert!(epoch.start_time <= span.start_time && span.end_time <= epoch.end_time);
            }
        }
    }
}

/// A source whose records say which spans made them.
struct Made {
    source: Box<dyn Source>,
    by: Vec<SpanContext>,
}

impl Source for Made {
    fn poll(&mut self, records_max: usize, out: &mut Polled) -> Result<State, SourceError> {
        for context in &self.by {
            out.contexts.add(context.clone());
        }
        self.source.poll(records_max, out)
    }

    fn progress(&self) -> Option<Progress> {
        self.source.progress()
    }

    fn position(&self) -> Position {
        self.source.position()
    }
}

fn remote(span: u64, is_sampled: bool) -> SpanContext {
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    SpanContext::new(TraceId::from(7), SpanId::from(span), flags, true, TraceState::NONE)
}

#[test]
fn a_batch_is_part_of_the_span_that_made_it_and_points_to_several() {
    let plan = kit::planned(&kit::job());
    let sampler = || Sampler::ParentBased(Box::new(Sampler::AlwaysOn));
    for (by, parent, linked) in [
        (vec![remote(1, true)], SpanId::from(1), 0),
        (vec![remote(1, true), remote(2, true)], SpanId::INVALID, 2),
    ] {
        let source = Made { source: kit::source(&plan, &one_key(), 40), by };
        let parts = kit::parts(&plan, vec![Box::new(source)], vec![Got::default().sink()]);
        let spans = spans(parts, sampler());
        let [batch] = &*spans["source batch"] else { panic!("{spans:?}") };
        assert_eq!((batch.parent_span_id, batch.links.len()), (parent, linked));
        let is_remote = batch.span_context.trace_id() == TraceId::from(7);
        assert_eq!(is_remote, linked == 0);
        assert_eq!(spans["shard batch"][0].parent_span_id, batch.span_context.span_id());
    }
    // Who made it does not want it, and so does nobody behind.
    let source = Made { source: kit::source(&plan, &one_key(), 40), by: vec![remote(1, false)] };
    let parts = kit::parts(&plan, vec![Box::new(source)], vec![Got::default().sink()]);
    let spans = spans(parts, sampler());
    assert!(!spans.contains_key("source batch") && !spans.contains_key("shard batch"));
}

#[test]
fn what_is_not_sampled_is_not_made() {
    let plan = kit::planned(&kit::job());
    assert!(spans(parts(&plan), Sampler::AlwaysOff).is_empty());
}
