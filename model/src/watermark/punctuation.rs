//! Watermarks that records carry: an expression over the fields of a record says what its reader
//! may promise behind it.

use crate::expr::{BindError, EvalError, Expr, TypedExpr};
use crate::row::RowLayout;
use crate::symbol::Symbols;
use crate::time::EventTime;
use crate::value::{Datum, Type};

/// How records say what is promised.
#[derive(Debug, Clone, PartialEq)]
pub struct Punctuation {
    expression: Expr,
}

impl Punctuation {
    /// Whether an expression of this type can say it: a whole number, or a truth value.
    pub const fn accepts(ty: Option<Type>) -> bool {
        match ty {
            Some(ty) => ty.is_integer() || matches!(ty, Type::Bool),
            None => false,
        }
    }

    /// The punctuation that `expression` computes: a whole number is the watermark, in
    /// milliseconds since the Unix epoch; a truth value says whether the record's event time is.
    ///
    /// # Errors
    /// A field is missing in `layout`, or `symbols` is full.
    pub fn bind(
        expression: &TypedExpr,
        layout: &RowLayout,
        symbols: &Symbols,
    ) -> Result<Self, BindError> {
        Ok(Self { expression: expression.bind(layout, symbols)? })
    }

    /// What the record in `row`, at `time`, promises; `None` if it says nothing. A number beyond
    /// all times is the end of them.
    ///
    /// # Errors
    /// The expression has no value for this record.
    pub fn of(
        &self,
        row: &[u64],
        time: EventTime,
        symbols: &Symbols,
    ) -> Result<Option<EventTime>, EvalError> {
        Ok(match self.expression.eval(row, symbols)? {
            Datum::Bool(is_mark) => is_mark.then_some(time),
            Datum::Int(millis) => {
                let end = if millis < 0 { i64::MIN } else { i64::MAX };
                Some(EventTime::from_millis(i64::try_from(millis).unwrap_or(end)))
            }
            Datum::Null | Datum::Float(_) | Datum::Text(_) | Datum::Object(_) | Datum::Ip(_) => {
                None
            }
        })
    }
}
