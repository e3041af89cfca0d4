//! Random triggers: the whole algebra, a few levels deep.

use nilometer_model::expr::{Binary, Literal, Relation, TypedExpr};
use nilometer_model::row::Field;
use nilometer_model::time::{ProcessingTime, Span};
use nilometer_model::trigger::{Condition, CustomTrigger, Facts, Seen, Trigger};
use nilometer_model::value::Type;
use nilometer_model::watermark::Percentile;
use proptest::prelude::*;
use std::sync::Arc;

/// The signal that random triggers wait for.
pub(crate) const SIGNAL: &str = "go";

/// At the third record, or ten milliseconds after the first.
#[derive(Debug)]
struct ThreeOrTen;

impl CustomTrigger for ThreeOrTen {
    fn name(&self) -> &str {
        "three_or_ten"
    }

    fn is_ready(&self, _: &Facts<'_>, seen: Seen) -> bool {
        seen.records >= 3 || seen.is_due
    }

    fn due(&self, now: ProcessingTime) -> Option<ProcessingTime> {
        Some(now.saturating_add(Span::from_millis(10)))
    }
}

/// Once the grouping's count `x_n` is above `bound`.
fn when(bound: i128) -> Trigger {
    let count = TypedExpr::field(&Field::new("x_n", Type::U64));
    let bound_expr = TypedExpr::literal(Literal::Int(bound));
    let compare = Binary::Compare(Relation::Greater);
    let typed = TypedExpr::binary(compare, count, bound_expr).unwrap();
    Trigger::When(Arc::new(Condition::new(&format!("x_n > {bound}"), typed)))
}

/// The second watermark of so many quarters of the records.
fn percentile(quarters: u32) -> Trigger {
    let percentile = Percentile::from_thousandths(quarters * 25_000).unwrap();
    Trigger::AfterWatermarkPercentile(percentile)
}

fn leaves() -> impl Strategy<Value = Trigger> {
    prop_oneof![
        3 => (1_u64..5).prop_map(Trigger::AfterCount),
        1 => (1_u64..400).prop_map(Trigger::AfterBytes),
        2 => (1_i64..30).prop_map(|delay| Trigger::AfterProcessingTime(Span::from_millis(delay))),
        2 => (1_i64..25).prop_map(|period| Trigger::Every(Span::from_millis(period))),
        2 => (0_i128..5).prop_map(when),
        1 => Just(Trigger::OnSignal(SIGNAL.into())),
        1 => Just(Trigger::Never),
        2 => Just(Trigger::AfterWatermark { early: None, late: None }),
        2 => (1_u32..4).prop_map(percentile),
        1 => Just(Trigger::Custom(Arc::new(ThreeOrTen))),
    ]
}

fn after_watermark(inner: BoxedStrategy<Trigger>) -> impl Strategy<Value = Trigger> {
    let part = move || prop::option::weighted(0.7, inner.clone().prop_map(Box::new));
    (part(), part()).prop_map(|(early, late)| Trigger::AfterWatermark { early, late })
}

fn trees() -> BoxedStrategy<Trigger> {
    let deeper = |inner: BoxedStrategy<Trigger>| {
        let list = || prop::collection::vec(inner.clone(), 1..4);
        let pair = || (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            list().prop_map(Trigger::All),
            list().prop_map(Trigger::Any),
            list().prop_map(Trigger::Sequence),
            inner.clone().prop_map(|inner| Trigger::Repeat(Box::new(inner))),
            pair().prop_map(|(first, until)| Trigger::RepeatUntil(first, until)),
            pair().prop_map(|(first, until)| Trigger::OrFinally(first, until)),
            after_watermark(inner.clone()),
        ]
    };
    leaves().boxed().prop_recursive(3, 8, 3, move |inner| deeper(inner.boxed())).boxed()
}

/// Triggers of any kind; those that may close windows among them.
pub(crate) fn triggers() -> impl Strategy<Value = Trigger> {
    prop_oneof![
        1 => Just(Trigger::default_trigger()),
        3 => after_watermark(trees()),
        4 => trees(),
        3 => trees().prop_map(|inner| Trigger::Repeat(Box::new(inner))),
    ]
}
