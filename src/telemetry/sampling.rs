//! Which spans are kept.
//!
//! What is part of a span is kept if that is. A trace that begins here is kept if it points to a span that
//! is (so that the way of a record does not end where many come together), else with the share that
//! was set, by the number of the trace.

use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

/// Decides which spans are kept.
#[derive(Debug, Clone)]
pub(super) struct Follow {
    share: Sampler,
    /// Whether the makers of records decide for what goes on with them.
    is_parent_based: bool,
}

impl Follow {
    /// Keeps `share` of the traces that begin here, from 0 to 1.
    pub(super) const fn new(share: f64, is_parent_based: bool) -> Self {
        Self { share: Sampler::TraceIdRatioBased(share), is_parent_based }
    }
}

impl ShouldSample for Follow {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let span = parent.map(|parent| parent.span().span_context().clone());
        let span = span.filter(|span| span.is_valid());
        let is_kept = |links: &[Link]| {
            let mut links = links.iter().map(|link| &link.span_context);
            links.any(|span| span.is_sampled() && (self.is_parent_based || !span.is_remote()))
        };
        let decided = match &span {
            Some(span) if self.is_parent_based || !span.is_remote() => Some(span.is_sampled()),
            Some(_) => None,
            None if is_kept(links) => Some(true),
            None => None,
        };
        let Some(is_kept) = decided else {
            return self.share.should_sample(parent, trace, name, kind, attributes, links);
        };
        SamplingResult {
            decision: if is_kept {
                SamplingDecision::RecordAndSample
            } else {
                SamplingDecision::Drop
            },
            attributes: Vec::new(),
            trace_state: span.map(|span| span.trace_state().clone()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceState};

    #[test]
    fn parents_and_links_decide_before_the_share_does() {
        let span = |is_sampled: bool, is_remote| {
            let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
            // The share keeps small numbers.
            let trace = TraceId::from(if is_sampled { u128::MAX } else { 1 });
            SpanContext::new(trace, SpanId::from(1), flags, is_remote, TraceState::NONE)
        };
        let (on, off, remote_on, remote_off) =
            (span(true, false), span(false, false), span(true, true), span(false, true));
        for (parent, links, is_parent_based, share, expected) in [
            (None, &[][..], true, 0.0, false),
            (None, &[], true, 1.0, true),
            (Some(&on), &[], true, 0.0, true),
            (Some(&off), &[], true, 1.0, false),
            (Some(&remote_on), &[], true, 0.0, true),
            (Some(&remote_off), &[], true, 1.0, false),
            (None, &[&off, &on], true, 0.0, true),
            (None, &[&off], true, 0.0, false),
            (None, &[&remote_on], true, 0.0, true),
            // Others do not decide here.
            (Some(&remote_on), &[], false, 0.0, false),
            (Some(&remote_off), &[], false, 1.0, true),
            (Some(&on), &[], false, 0.0, true),
            (None, &[&remote_on], false, 0.0, false),
            (None, &[&on], false, 0.0, true),
        ] {
            let context = parent
                .map(|span: &SpanContext| Context::new().with_remote_span_context(span.clone()));
            let trace = parent.map_or(TraceId::from(5), SpanContext::trace_id);
            let links: Vec<_> =
                links.iter().map(|span| Link::with_context((*span).clone())).collect();
            let sampler = Follow::new(share, is_parent_based);
            let kind = SpanKind::Internal;
            let found = sampler.should_sample(context.as_ref(), trace, "x", &kind, &[], &links);
            let is_kept = found.decision == SamplingDecision::RecordAndSample;
            assert_eq!(is_kept, expected, "{parent:?} {links:?} {is_parent_based} {share}");
        }
    }
}
