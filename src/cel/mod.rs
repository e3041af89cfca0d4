//! Filters and derived fields as text: a subset of CEL, parsed by the `cel` crate, checked and
//! lowered here to the model's typed expressions. `docs/expressions.md` describes the subset.
//!
//! Invariant: whatever the text, the answer is an expression or errors with places in the text;
//! what lies outside the subset is an error that names the construct, never a guess.

mod check;
mod functions;
#[cfg(test)]
mod property;
mod syntax;
#[cfg(test)]
mod tests;

use cel::Env;
use nilometer_model::expr::{Kind, TypedExpr};
use nilometer_model::row::Field;
use std::fmt;

/// Longest text of an expression, in bytes.
pub const SOURCE_BYTES_MAX: usize = 16 * 1024;

/// Deepest nesting of parentheses, lists and conditions.
pub const NESTING_MAX: u16 = 48;

/// Stack of the thread that parses: the parser takes up to 200 KiB of it per level of nesting,
/// more than the stack of an ordinary thread has.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// What is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CelError {
    /// What is wrong.
    pub message: String,
    /// Byte in the text of the expression where it begins.
    pub offset: usize,
    /// How many bytes it covers; 0 at the end of the text.
    pub length: usize,
    /// What to do about it.
    pub help: Option<String>,
}

impl fmt::Display for CelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// Compiles the expression of a derived field over `fields`.
///
/// # Errors
/// Everything that is wrong with it; after a syntax error only that one.
pub fn compile(source: &str, fields: &[Field]) -> Result<TypedExpr, Vec<CelError>> {
    let expr = typed(source, ("field", fields))?;
    if expr.kind() == Kind::Null {
        return Err(vec![whole(source, "the expression is always null".into())]);
    }
    Ok(expr)
}

/// Compiles a filter over `fields`: an expression that is true or false.
///
/// # Errors
/// As [`compile`]; also if it is anything else than true or false.
pub fn compile_filter(source: &str, fields: &[Field]) -> Result<TypedExpr, Vec<CelError>> {
    condition(source, ("a filter", "field"), fields)
}

/// Compiles the condition of a trigger over `results`, the aggregates of a window.
///
/// # Errors
/// As [`compile_filter`].
pub fn compile_when(source: &str, results: &[Field]) -> Result<TypedExpr, Vec<CelError>> {
    condition(source, ("the condition of a trigger", "aggregate"), results)
}

/// Compiles a truth value; `what` it is, and what the names in it are, for messages.
fn condition(
    source: &str,
    (what, noun): (&str, &'static str),
    fields: &[Field],
) -> Result<TypedExpr, Vec<CelError>> {
    let expr = typed(source, (noun, fields))?;
    if expr.kind() != Kind::Bool {
        let message = format!("{what} must be bool, this one is {}", expr.kind());
        return Err(vec![whole(source, message)]);
    }
    Ok(expr)
}

/// An error about all of `source`.
fn whole(source: &str, message: String) -> CelError {
    CelError { message, offset: 0, length: source.len(), help: None }
}

/// Compiles an expression over names that are each a `noun`.
fn typed(
    source: &str,
    (noun, fields): (&'static str, &[Field]),
) -> Result<TypedExpr, Vec<CelError>> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("an expression has at most {SOURCE_BYTES_MAX} bytes");
        return Err(vec![whole(source, message)]);
    }
    let failed = |message: &str| Err(vec![whole(source, message.into())]);
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().name("cel".into()).stack_size(STACK_BYTES);
        match parser.spawn_scoped(scope, || parse(source, (noun, fields))) {
            Ok(thread) => thread.join().unwrap_or_else(|_| failed("the parser gave up on this")),
            Err(_) => failed("no memory to parse this"),
        }
    })
}

fn parse(
    source: &str,
    (noun, fields): (&'static str, &[Field]),
) -> Result<TypedExpr, Vec<CelError>> {
    // Without the standard macros: `has` is then an ordinary call, which may name a plain field.
    let parser =
        Env::default().parser().enable_optional_syntax(false).max_recursion_depth(NESTING_MAX);
    match parser.parse_with_source_info(source) {
        Ok((tree, places)) => check::check(&tree, &places, (noun, fields)),
        Err(errors) => Err(vec![syntax::explain(source, &errors)]),
    }
}
