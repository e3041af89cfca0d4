//! Data-driven triggers: an expression over the results of a window.

use super::Facts;
use crate::aggregate::{Accumulator, AggregateLayout};
use crate::expr::{BindError, Expr, TypedExpr};
use crate::row::{Field, Position, RowBatch, RowLayout};
use crate::symbol::Symbols;
use crate::time::EventTime;
use std::fmt;
use std::sync::Arc;

/// A truth value over the aggregates of a window, by their names.
#[derive(Debug, Clone)]
pub struct Condition {
    text: Box<str>,
    typed: TypedExpr,
    /// What is evaluated; made when the stage is.
    bound: Option<(Expr, Arc<RowLayout>)>,
}

impl Condition {
    /// The condition `typed`, which the user wrote as `text`.
    pub fn new(text: &str, typed: TypedExpr) -> Self {
        Self { text: text.into(), typed, bound: None }
    }

    /// The fields that a condition over `aggregates` may name: their results, but for lists and
    /// texts that they make themselves.
    pub fn fields(aggregates: &AggregateLayout) -> Vec<Field> {
        Self::results(aggregates)
            .map(|(_, result)| result)
            .map(|result| Field { name: result.name.clone(), ty: result.result_type() })
            .collect()
    }

    /// Number and aggregate of each field, in order.
    fn results(aggregates: &AggregateLayout) -> impl Iterator<Item = (usize, &Accumulator)> {
        let all = aggregates.accumulators().iter().enumerate();
        all.filter(|(_, result)| !result.is_own_text())
    }

    /// Makes the condition ready for windows of `aggregates`.
    ///
    /// # Errors
    /// It names something that is no aggregate, or the table of texts is full.
    pub fn bind(&self, aggregates: &AggregateLayout, symbols: &Symbols) -> Result<Self, BindError> {
        let layout = Arc::new(RowLayout::new(Self::fields(aggregates)));
        let bound = (self.typed.bind(&layout, symbols)?, layout);
        Ok(Self { bound: Some(bound), ..self.clone() })
    }

    /// Whether it holds. An expression that fails on the results (a null, a division by zero)
    /// does not hold.
    pub(super) fn is_true(&self, facts: &Facts<'_>) -> bool {
        let Some((expression, layout)) = &self.bound else { return false };
        let mut results = RowBatch::new(Arc::clone(layout));
        let mut row = results.push(EventTime::MIN, Position::default());
        for (slot, (index, _)) in layout.slots().iter().zip(Self::results(facts.aggregates)) {
            row.set(*slot, facts.aggregates.finish(facts.values, index));
        }
        expression.test(results.row(0), facts.symbols).unwrap_or(false)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Arithmetic, Binary, Literal, Relation};
    use crate::pane::AccumulationMode;
    use crate::planner::plan;
    use crate::shard_tests::{Run, grouping, job};
    use crate::trigger::Trigger;
    use crate::value::Type;

    fn sum() -> TypedExpr {
        TypedExpr::field(&Field::new("sum", Type::Big))
    }

    fn number(number: i128) -> TypedExpr {
        TypedExpr::literal(Literal::Int(number))
    }

    /// When `left > right`, again and again.
    fn greater(left: TypedExpr, right: TypedExpr) -> Trigger {
        let typed = TypedExpr::binary(Binary::Compare(Relation::Greater), left, right).unwrap();
        let condition = Condition::new("left > right", typed);
        Trigger::Repeat(Box::new(Trigger::When(Arc::new(condition))))
    }

    /// `sum > bound`, again and again.
    fn above(bound: i128) -> Trigger {
        greater(sum(), number(bound))
    }

    #[test]
    fn a_condition_that_fails_does_not_hold_and_loses_nothing() {
        let divide = Binary::Arithmetic(Arithmetic::Divide);
        let quotient = TypedExpr::binary(divide, number(100), sum()).unwrap();
        let mut sums = grouping("s", &["a"], AccumulationMode::Accumulating);
        sums.trigger = greater(quotient, number(9));
        let mut run = Run::new(vec![sums]);
        assert_eq!(run.records(&[(1, [1, 0, 0], 0)]), Vec::<String>::new());
        assert_eq!(run.records(&[(1, [1, 0, 0], 10)]), ["s 1 [0,10)#0 early +10"]);
        assert_eq!(run.records(&[(1, [1, 0, 0], -10)]), Vec::<String>::new());
        assert_eq!(run.watermark(i64::MAX), ["s 1 [0,10)#1 on +0 last"]);
        assert!(run.shard.is_empty());
    }

    #[test]
    fn a_condition_looks_at_what_the_next_pane_would_show() {
        for (mode, second) in [
            (AccumulationMode::Accumulating, vec!["s 1 [0,10)#1 early +12"]),
            // The delta begins anew with each pane.
            (AccumulationMode::Discarding, vec![]),
        ] {
            let mut sums = grouping("s", &["a"], mode);
            sums.trigger = above(10);
            let mut run = Run::new(vec![sums]);
            assert_eq!(run.records(&[(1, [1, 0, 0], 10)]), Vec::<String>::new());
            assert_eq!(run.records(&[(1, [1, 0, 0], 1)]), ["s 1 [0,10)#0 early +11"], "{mode:?}");
            run.restart();
            assert_eq!(run.records(&[(1, [1, 0, 0], 1)]), second, "{mode:?}");
            run.watermark(i64::MAX);
            assert!(run.shard.is_empty());
        }
    }

    #[test]
    fn a_condition_sees_totals_also_where_no_sink_does() {
        let mut fine = grouping("fine", &["a", "b"], AccumulationMode::Accumulating);
        fine.trigger = above(10);
        fine.sinks = Vec::new();
        let coarse = grouping("coarse", &["a"], AccumulationMode::Accumulating);
        let mut run = Run::new(vec![fine, coarse]);
        run.records(&[(1, [1, 2, 0], 11)]);
        run.records(&[(1, [1, 2, 0], 1)]);
        // Both have been handed on, so that nothing waits for the end of the window.
        assert_eq!(run.shard.accounts()[1].assigned, 2);
    }

    #[test]
    fn who_waits_for_results_of_its_own_does_not_regroup_others() {
        let groupings = |trigger: Trigger| {
            let mut fine = grouping("fine", &["a", "b"], AccumulationMode::Accumulating);
            let mut coarse = grouping("coarse", &["a"], AccumulationMode::Accumulating);
            fine.trigger = trigger.clone();
            coarse.trigger = trigger;
            vec![fine, coarse]
        };
        let count = || Trigger::Repeat(Box::new(Trigger::AfterCount(3)));
        for (trigger, reads) in [(count(), 1), (above(10), 2)] {
            assert_eq!(plan(&job(groupings(trigger))).unwrap().record_reads(), reads);
        }
    }
}
