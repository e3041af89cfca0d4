//! Typed expressions over the slots of a row: filters and derived fields.
//!
//! A [`TypedExpr`] is built by constructors that refuse what is not well typed, so that one that
//! exists cannot go wrong by type. Bound to a layout it is an [`Expr`]: evaluation follows no name,
//! allocates nothing, and its only failures are those of [`EvalError`]. [`Refinement`] applies
//! them to batches. Which texts make which expressions is decided elsewhere: there is no parser
//! here.

mod address;
mod error;
mod evaluate;
mod kind;
mod operator;
mod range;
mod refine;
#[cfg(test)]
mod tests;
mod tree;
mod typed;

pub use address::{Cidr, CidrError};
pub use error::{BindError, TypeError};
pub use evaluate::{EvalError, Expr};
pub use kind::Kind;
pub use operator::{Arithmetic, Binary, Relation, Search, Unary};
pub use refine::{Failed, Refined, Refinement};
pub use typed::{Literal, TypedExpr};

/// Deepest tree that an expression may be: what bounds the stack of an evaluation.
pub const DEPTH_MAX: u16 = 128;
