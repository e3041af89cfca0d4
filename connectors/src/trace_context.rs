//! The W3C trace context of records, as headers carry it.
//!
//! Invariant: a context says nothing about its record. One that makes no sense is none, and of many only
//! the first are kept.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The header that says which span made a record.
pub(crate) const PARENT: &str = "traceparent";
/// The header with what tracing systems add to it.
pub(crate) const STATE: &str = "tracestate";

/// The contexts of several records: each once, in the order in which they were found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contexts(Vec<SpanContext>);

impl Contexts {
    /// Most contexts that are kept; those beyond are forgotten.
    pub const MAX: usize = 32;

    /// Adds one; returns its number, `None` if it is forgotten.
    pub fn add(&mut self, context: SpanContext) -> Option<usize> {
        if let Some(known) = self.0.iter().position(|known| *known == context) {
            return Some(known);
        }
        if self.0.len() >= Self::MAX {
            return None;
        }
        self.0.push(context);
        Some(self.0.len() - 1)
    }

    /// All of them.
    pub fn as_slice(&self) -> &[SpanContext] {
        &self.0
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// The two headers of a record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Headers<'a> {
    pub(crate) parent: Option<&'a str>,
    pub(crate) state: Option<&'a str>,
}

impl Headers<'_> {
    /// The context that they say.
    pub(crate) fn context(&self) -> Option<SpanContext> {
        self.parent?;
        let found = TraceContextPropagator::new().extract_with_context(&Context::new(), self);
        let context = found.span().span_context().clone();
        context.is_valid().then_some(context)
    }
}

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            PARENT => self.parent,
            STATE => self.state,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![PARENT, STATE]
    }
}

/// Headers that are to be written.
struct Written(Vec<(&'static str, String)>);

impl Injector for Written {
    fn set(&mut self, key: &str, value: String) {
        match key {
            PARENT => self.0.push((PARENT, value)),
            STATE if !value.is_empty() => self.0.push((STATE, value)),
            _ => {}
        }
    }
}

/// The headers that say `context`.
pub(crate) fn headers(context: &SpanContext) -> Vec<(&'static str, String)> {
    let mut written = Written(Vec::new());
    let context = Context::new().with_remote_span_context(context.clone());
    TraceContextPropagator::new().inject_context(&context, &mut written);
    written.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

    /// The example of the W3C recommendation.
    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn example() -> SpanContext {
        SpanContext::new(
            TraceId::from(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128),
            SpanId::from(0xb7ad_6b71_6920_3331_u64),
            TraceFlags::SAMPLED,
            true,
            TraceState::from_key_value([("congo", "t61rcWkgMzE")]).unwrap(),
        )
    }

    #[test]
    fn a_context_comes_back_as_it_was_written() {
        let written = headers(&example());
        let state = "congo=t61rcWkgMzE";
        assert_eq!(written, [(PARENT, EXAMPLE.to_owned()), (STATE, state.to_owned())]);
        let read = Headers { parent: Some(EXAMPLE), state: Some(state) }.context();
        assert_eq!(read, Some(example()));
    }

    #[test]
    fn what_makes_no_sense_is_no_context() {
        for parent in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-zz",
            "\u{e4}\u{f6}\u{fc}-\u{1f4a9}---",
        ] {
            let read = Headers { parent: Some(parent), state: None }.context();
            assert_eq!(read, None, "{parent}");
        }
        assert_eq!(Headers { parent: None, state: Some("a=b") }.context(), None);
        // A state that makes no sense takes nothing from the context.
        let read = Headers { parent: Some(EXAMPLE), state: Some("=,=") }.context().unwrap();
        assert_eq!(read.trace_id(), example().trace_id());
    }

    #[test]
    fn contexts_are_kept_once_and_not_without_end() {
        let of = |number: u64| {
            let (trace, span) = (TraceId::from(1), SpanId::from(number));
            SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE)
        };
        let mut contexts = Contexts::default();
        for number in 1..=40 {
            let expected = usize::try_from(number - 1).unwrap();
            let expected = (expected < Contexts::MAX).then_some(expected);
            assert_eq!(contexts.add(of(number)), expected);
        }
        assert_eq!(contexts.add(of(3)), Some(2));
        assert_eq!(contexts.as_slice().len(), Contexts::MAX);
        contexts.clear();
        assert_eq!(contexts.as_slice(), []);
    }
}
