//! Data-driven triggers: an expression over the results of a window.

use super::Facts;
use crate::aggregate::AggregateLayout;
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

    /// The fields that a condition over `aggregates` may name: their results.
    pub fn fields(aggregates: &AggregateLayout) -> Vec<Field> {
        let results = aggregates.accumulators().iter();
        results
            .map(|result| Field { name: result.name.clone(), ty: result.result_type() })
            .collect()
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
        for (index, slot) in layout.slots().iter().enumerate() {
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
