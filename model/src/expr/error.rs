//! Why an expression cannot be made or bound.

use super::{EvalError, Kind};
use crate::symbol::SymbolsFull;
use crate::value::Type;

/// Why parts do not make an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// The operand of an operator or function has the wrong kind.
    #[error("`{operator}` takes {wanted}, not {found}")]
    Operand {
        /// How the operator is written.
        operator: &'static str,
        /// What it takes.
        wanted: &'static str,
        /// What it was given.
        found: Kind,
    },
    /// Two operands do not go together.
    #[error("`{operator}` cannot take {left} and {right}")]
    Operands {
        /// How the operator is written.
        operator: &'static str,
        /// Kind on the left.
        left: Kind,
        /// Kind on the right.
        right: Kind,
    },
    /// The two values of a condition are of different kinds.
    #[error("`? :` gives {then} or {otherwise}: both must be of one type")]
    Branches {
        /// Kind if true.
        then: Kind,
        /// Kind if false.
        otherwise: Kind,
    },
    /// An element of a list is not what is looked for.
    #[error("`in` looks for {value} in a list with {element}")]
    Element {
        /// Kind of what is looked for.
        value: Kind,
        /// Kind of the element.
        element: Kind,
    },
    /// An element of a list is computed.
    #[error("the list of `in` must hold literals")]
    ComputedElement,
    /// It has the same error for every record.
    #[error("this fails for every record ({})", .0.reason())]
    Fails(EvalError),
    /// It is nested too deeply.
    #[error("nested too deeply: at most {limit} levels")]
    TooDeep {
        /// Levels allowed.
        limit: u16,
    },
}

/// Why an expression cannot be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The layout lacks a field.
    #[error("field `{name}` is not in the row: name it among the fields that rows must carry")]
    NoField {
        /// Its name.
        name: Box<str>,
    },
    /// The field has another type.
    #[error("field `{name}` is {found} in the row, the expression was made for {wanted}")]
    FieldType {
        /// Its name.
        name: Box<str>,
        /// Type in the layout.
        found: Type,
        /// Type in the expression.
        wanted: Type,
    },
    /// A filter must be true or false.
    #[error("a filter must be bool, this one is {found}")]
    NotACondition {
        /// What it is.
        found: Kind,
    },
    /// No room for the texts of the expression.
    #[error(transparent)]
    SymbolsFull(#[from] SymbolsFull),
}
