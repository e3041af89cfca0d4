//! Derived fields and the filter, applied to a batch before anything else sees it.
//!
//! Every record of the batch is kept, or counted as filtered, or listed as failed with its reason:
//! never two of them, never none.

use super::{BindError, EvalError, Expr, TypedExpr};
use crate::row::{Position, RowBatch, RowLayout, Slot};
use crate::symbol::Symbols;
use crate::value::Type;
use std::sync::Arc;

/// Derived fields and a filter, bound to a row layout. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Refinement {
    derived: Vec<Derived>,
    filter: Option<Expr>,
    /// How many derived fields are computed before the filter: up to the last that it reads, so
    /// that it can guard those behind.
    before_filter: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Derived {
    name: Arc<str>,
    slot: Slot,
    expr: Expr,
}

/// What became of the records of a batch that are no longer in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refined {
    /// How many the filter took out.
    pub filtered: u64,
    /// Those for which an expression has no value, in the order of the batch.
    pub failed: Vec<Failed>,
    /// Their rows, in step with them.
    pub rows: Vec<Box<[u64]>>,
}

/// A record for which an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{expression}`: {error}")]
pub struct Failed {
    /// Where the record stands in its input.
    pub position: Position,
    /// The derived field, or `filter`.
    pub expression: Arc<str>,
    /// Why.
    pub error: EvalError,
}

impl Refinement {
    /// Binds derived fields, in their order, and a filter.
    ///
    /// A derived field that `layout` lacks is left out: the plan reads it nowhere. So `layout`
    /// must hold every field that the filter or a remaining derived field reads.
    ///
    /// # Errors
    /// A field is missing or has another type, the filter is no condition, or `symbols` is full.
    pub fn bind(
        derived: &[(Box<str>, TypedExpr)],
        filter: Option<&TypedExpr>,
        layout: &RowLayout,
        symbols: &Symbols,
    ) -> Result<Self, BindError> {
        let read = filter.map(TypedExpr::fields).unwrap_or_default();
        let mut bound = Vec::new();
        let mut before_filter = 0;
        for (name, expr) in derived {
            let Some(slot) = layout.slot(name) else { continue };
            let wanted = expr.ty().unwrap_or(slot.ty);
            if slot.ty != wanted {
                return Err(BindError::FieldType { name: name.clone(), found: slot.ty, wanted });
            }
            let expr = expr.bind(layout, symbols)?;
            bound.push(Derived { name: (&**name).into(), slot, expr });
            if read.contains(&&**name) {
                before_filter = bound.len();
            }
        }
        let filter = match filter {
            Some(filter) if filter.ty() == Some(Type::Bool) => Some(filter.bind(layout, symbols)?),
            Some(filter) => return Err(BindError::NotACondition { found: filter.kind() }),
            None => None,
        };
        Ok(Self { derived: bound, filter, before_filter })
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.derived.is_empty() && self.filter.is_none()
    }

    /// Fills the derived fields of every record and takes out those that the filter refuses or
    /// that have no value. `batch` must be of the layout, `symbols` the table of [`Self::bind`].
    pub fn apply(&self, batch: &mut RowBatch, symbols: &Symbols) -> Refined {
        let mut refined = Refined::default();
        // Ascending indices of the records to take out; allocates nothing if there is none.
        let mut out = Vec::new();
        for index in 0..batch.len() {
            match self.refine(batch, index, symbols) {
                Ok(true) => continue,
                Ok(false) => refined.filtered += 1,
                Err((expression, error)) => {
                    let position = batch.position(index);
                    refined.failed.push(Failed { position, expression, error });
                    refined.rows.push(batch.row(index).into());
                }
            }
            out.push(index);
        }
        let mut out = out.into_iter().peekable();
        if out.peek().is_some() {
            batch.retain(|index| out.next_if_eq(&index).is_none());
        }
        refined
    }

    /// Fills the derived fields of record `index`. Whether the record stays; an error names the
    /// expression.
    pub(crate) fn refine(
        &self,
        batch: &mut RowBatch,
        index: usize,
        symbols: &Symbols,
    ) -> Result<bool, (Arc<str>, EvalError)> {
        let (first, rest) = self.derived.split_at(self.before_filter);
        derive(first, batch, index, symbols)?;
        if let Some(filter) = &self.filter {
            let keeps = filter.test(batch.row(index), symbols);
            if !keeps.map_err(|error| ("filter".into(), error))? {
                return Ok(false);
            }
        }
        derive(rest, batch, index, symbols)?;
        Ok(true)
    }
}

fn derive(
    fields: &[Derived],
    batch: &mut RowBatch,
    index: usize,
    symbols: &Symbols,
) -> Result<(), (Arc<str>, EvalError)> {
    for field in fields {
        let value = field.expr.eval(batch.row(index), symbols);
        let value = value.map_err(|error| (field.name.clone(), error))?;
        batch.row_mut(index).set(field.slot, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Arithmetic, Binary, Literal, Relation};
    use crate::row::{Field, read};
    use crate::time::EventTime;
    use crate::value::Datum;

    fn field(name: &str, ty: Type) -> TypedExpr {
        TypedExpr::field(&Field::new(name, ty))
    }

    fn divide(left: TypedExpr, right: TypedExpr) -> TypedExpr {
        TypedExpr::binary(Binary::Arithmetic(Arithmetic::Divide), left, right).unwrap()
    }

    fn more_than(left: TypedExpr, number: i128) -> TypedExpr {
        let number = TypedExpr::literal(Literal::Int(number));
        TypedExpr::binary(Binary::Compare(Relation::Greater), left, number).unwrap()
    }

    /// Rows of `packets`, `bytes`, `size` (bytes / packets), `large` (size > 100).
    fn batch(rows: &[(Datum, u64)]) -> (RowBatch, Vec<(Box<str>, TypedExpr)>) {
        let size = divide(field("bytes", Type::U32), field("packets", Type::U8));
        let large = more_than(field("size", Type::U32), 100);
        let layout = RowLayout::new([
            Field::new("packets", Type::U8),
            Field::new("bytes", Type::U32),
            Field::new("size", size.ty().unwrap()),
            Field::new("large", large.ty().unwrap()),
        ]);
        let mut batch = RowBatch::new(Arc::new(layout.clone()));
        for (index, (packets, bytes)) in rows.iter().enumerate() {
            let position = Position { partition: 3, offset: index as u64 };
            let mut row = batch.push(EventTime::from_millis(index as i64), position);
            row.set(layout.slots()[0], *packets);
            row.set_word(layout.slots()[1], *bytes);
        }
        (batch, vec![("size".into(), size), ("large".into(), large)])
    }

    fn failed(offset: u64, expression: &str, error: EvalError) -> Failed {
        let position = Position { partition: 3, offset };
        Failed { position, expression: expression.into(), error }
    }

    #[test]
    fn every_record_is_kept_filtered_or_failed() {
        let rows = [
            (Datum::Int(2), 300),
            (Datum::Int(0), 300),
            (Datum::Int(5), 300),
            (Datum::Null, 300),
            (Datum::Int(1), 101),
        ];
        let (mut batch, derived) = batch(&rows);
        let symbols = Symbols::default();
        let filter = field("large", Type::Bool);
        let layout = batch.layout().clone();
        let refinement = Refinement::bind(&derived, Some(&filter), &layout, &symbols).unwrap();
        let refined = refinement.apply(&mut batch, &symbols);
        let failures = vec![
            failed(1, "size", EvalError::DivisionByZero),
            failed(3, "size", EvalError::NullOperand),
        ];
        assert_eq!((refined.filtered, refined.failed), (1, failures));
        let packets: Vec<_> = refined.rows.iter().map(|row| read(row, layout.slots()[0])).collect();
        assert_eq!(packets, [Datum::Int(0), Datum::Null]);
        let kept: Vec<_> = (0..batch.len())
            .map(|index| (batch.position(index).offset, read(batch.row(index), layout.slots()[2])))
            .collect();
        assert_eq!(kept, [(0, Datum::Int(150)), (4, Datum::Int(101))]);
    }

    #[test]
    fn a_filter_guards_the_derived_fields_that_it_does_not_read() {
        let (mut batch, derived) = batch(&[(Datum::Int(0), 300), (Datum::Int(1), 300)]);
        let symbols = Symbols::default();
        let filter = more_than(field("packets", Type::U8), 0);
        let layout = batch.layout().clone();
        let refinement = Refinement::bind(&derived, Some(&filter), &layout, &symbols).unwrap();
        let refined = refinement.apply(&mut batch, &symbols);
        assert_eq!(refined, Refined { filtered: 1, ..Refined::default() });
        assert_eq!(read(batch.row(0), layout.slots()[3]), Datum::Bool(true));
    }

    #[test]
    fn a_filter_without_a_truth_value_fails_the_record() {
        let layout = Arc::new(RowLayout::new([Field::new("flag", Type::Bool)]));
        let mut batch = RowBatch::new(layout.clone());
        batch.push(EventTime::MIN, Position { partition: 3, offset: 8 });
        let symbols = Symbols::default();
        let filter = field("flag", Type::Bool);
        let refinement = Refinement::bind(&[], Some(&filter), &layout, &symbols).unwrap();
        let refined = refinement.apply(&mut batch, &symbols);
        assert_eq!(refined.failed, [failed(8, "filter", EvalError::NullOperand)]);
        assert!(batch.is_empty());
    }

    #[test]
    fn what_does_not_match_the_layout_is_not_bound() {
        let symbols = Symbols::with_limit(0);
        let layout = RowLayout::new([Field::new("n", Type::U8), Field::new("t", Type::Text)]);
        let wide = ("n".into(), field("n", Type::U16));
        let text = TypedExpr::literal(Literal::Text("new".into()));
        let is_new = Binary::Compare(Relation::Equal);
        let is_new = TypedExpr::binary(is_new, field("t", Type::Text), text).unwrap();
        let number = field("n", Type::U8);
        let missing = more_than(field("gone", Type::U8), 1);
        for (derived, filter, expected) in [
            (&[wide][..], None, "field `n` is u8 in the row, the expression was made for u16"),
            (&[], Some(&number), "a filter must be bool, this one is int"),
            (&[], Some(&missing), "field `gone` is not in the row"),
            (&[], Some(&is_new), "more than 0 different texts"),
        ] {
            let error = Refinement::bind(derived, filter, &layout, &symbols).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
        let unread = [("unread".into(), number)];
        assert!(Refinement::bind(&unread, None, &layout, &symbols).unwrap().is_empty());
    }
}
