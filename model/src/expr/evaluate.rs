//! Evaluates a bound expression on a row.
//!
//! Whole numbers are exact in 128 bits and checked; floats follow IEEE 754. Null is equal to null
//! and to nothing else; every other use of it is [`EvalError::NullOperand`]. `&&` and `||` do not
//! care for the order of their operands: one that decides the result hides an error of the other.
//! Where CEL has a value for an expression, the value here is the same.

use super::address;
use super::operator::{Arithmetic, Binary, Relation, Search, Unary};
use super::tree::{Constant, Members, Node, Values};
use crate::row::{self, Slot};
use crate::symbol::{Symbol, Symbols};
use crate::value::Datum;
use std::cmp::Ordering;

/// Why an expression has no value for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A number left the range of its type.
    #[error("a number is too large: compute with `double` values, or filter the record out")]
    Overflow,
    /// A whole number was divided by zero.
    #[error("a whole number is divided by zero: test the divisor first")]
    DivisionByZero,
    /// A field had no value where one is needed.
    #[error("a field has no value: test it with `has(field)` first")]
    NullOperand,
    /// A float that is not a number was ordered or made a whole number.
    #[error("a float is not a number (NaN): filter the record out")]
    NotANumber,
}

impl EvalError {
    /// The name under which it is counted.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::DivisionByZero => "division_by_zero",
            Self::NullOperand => "null_operand",
            Self::NotANumber => "not_a_number",
        }
    }
}

/// An expression bound to a row layout and a table of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    node: Bound,
}

type Bound = Node<Slot, Symbol>;

impl Expr {
    pub(super) const fn new(node: Bound) -> Self {
        Self { node }
    }

    /// The value for `row`, which must be of the layout that it was bound to; `symbols` the table.
    ///
    /// # Errors
    /// There is no value: see [`EvalError`].
    pub fn eval(&self, row: &[u64], symbols: &Symbols) -> Result<Datum, EvalError> {
        self.node.eval(Input { row, symbols })
    }

    /// The value of an expression that is a condition.
    ///
    /// # Errors
    /// As [`Self::eval`]; null is no truth value.
    pub fn test(&self, row: &[u64], symbols: &Symbols) -> Result<bool, EvalError> {
        self.node.truth(Input { row, symbols })
    }
}

/// What an evaluation reads.
#[derive(Clone, Copy)]
struct Input<'a> {
    row: &'a [u64],
    symbols: &'a Symbols,
}

// An operand of another kind than the one asked for can only be null: kinds were checked when the
// tree was made. The other kinds are listed so that a new one has to be thought about.
impl Bound {
    fn eval(&self, input: Input<'_>) -> Result<Datum, EvalError> {
        Ok(match self {
            Self::Constant(constant) => constant.datum(),
            Self::Field(slot) => row::read(input.row, *slot),
            Self::Has(slot) => Datum::Bool(!row::is_null(input.row, slot.index)),
            Self::Unary(operator, operand) => return unary(*operator, operand, input),
            Self::Binary(operator, operands) => return binary(*operator, operands, input),
            Self::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                return if condition.truth(input)? { then } else { otherwise }.eval(input);
            }
            Self::In(operand, members) => Datum::Bool(members.contains(operand.eval(input)?)),
        })
    }

    fn truth(&self, input: Input<'_>) -> Result<bool, EvalError> {
        match self.eval(input)? {
            Datum::Bool(truth) => Ok(truth),
            Datum::Null
            | Datum::Int(_)
            | Datum::Float(_)
            | Datum::Text(_)
            | Datum::Object(_)
            | Datum::Ip(_) => Err(EvalError::NullOperand),
        }
    }

    fn text<'a>(&self, input: Input<'a>) -> Result<&'a str, EvalError> {
        match self.eval(input)? {
            Datum::Text(symbol) => Ok(input.symbols.text(symbol)),
            Datum::Null
            | Datum::Bool(_)
            | Datum::Int(_)
            | Datum::Float(_)
            | Datum::Object(_)
            | Datum::Ip(_) => Err(EvalError::NullOperand),
        }
    }

    fn address(&self, input: Input<'_>) -> Result<u128, EvalError> {
        match self.eval(input)? {
            Datum::Ip(bits) => Ok(bits),
            Datum::Null
            | Datum::Bool(_)
            | Datum::Int(_)
            | Datum::Float(_)
            | Datum::Text(_)
            | Datum::Object(_) => Err(EvalError::NullOperand),
        }
    }

    fn number(&self, input: Input<'_>) -> Result<Number, EvalError> {
        match self.eval(input)? {
            Datum::Int(number) => Ok(Number::Int(number)),
            Datum::Float(number) => Ok(Number::Float(number)),
            Datum::Null | Datum::Bool(_) | Datum::Text(_) | Datum::Object(_) | Datum::Ip(_) => {
                Err(EvalError::NullOperand)
            }
        }
    }
}

/// A number of either kind.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    const fn float(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

fn unary(operator: Unary, operand: &Bound, input: Input<'_>) -> Result<Datum, EvalError> {
    Ok(match operator {
        Unary::Not => Datum::Bool(!operand.truth(input)?),
        Unary::Negate => match operand.number(input)? {
            Number::Int(number) => Datum::Int(negate(number)?),
            Number::Float(number) => Datum::Float(-number),
        },
        Unary::Double => match operand.number(input)? {
            Number::Int(number) => Datum::Float(number as f64),
            Number::Float(number) => Datum::Float(number),
        },
        Unary::Int => match operand.number(input)? {
            Number::Int(number) => Datum::Int(number),
            Number::Float(number) => Datum::Int(truncate(number)?),
        },
        // A text has no more characters than memory has bytes.
        Unary::Size => Datum::Int(operand.text(input)?.chars().count() as i128),
        Unary::Family => Datum::Int(if address::is_v4(operand.address(input)?) { 4 } else { 6 }),
        Unary::IsLoopback => Datum::Bool(address::is_loopback(operand.address(input)?)),
        Unary::IsUnspecified => Datum::Bool(address::is_unspecified(operand.address(input)?)),
        Unary::IsLinkLocalUnicast => {
            Datum::Bool(address::is_link_local_unicast(operand.address(input)?))
        }
        Unary::IsGlobalUnicast => Datum::Bool(address::is_global_unicast(operand.address(input)?)),
        Unary::Within(cidr) => Datum::Bool(cidr.contains(operand.address(input)?)),
    })
}

fn binary(operator: Binary, operands: &[Bound; 2], input: Input<'_>) -> Result<Datum, EvalError> {
    let [left, right] = operands;
    Ok(match operator {
        Binary::And => Datum::Bool(junction(false, left, right, input)?),
        Binary::Or => Datum::Bool(junction(true, left, right, input)?),
        Binary::Arithmetic(operator) => match (left.number(input)?, right.number(input)?) {
            (Number::Int(left), Number::Int(right)) => Datum::Int(whole(operator, left, right)?),
            (left, right) => Datum::Float(float(operator, left.float(), right.float())),
        },
        Binary::Compare(relation) => {
            Datum::Bool(compare(relation, left.eval(input)?, right.eval(input)?, input.symbols)?)
        }
        Binary::Search(search) => {
            let (text, part) = (left.text(input)?, right.text(input)?);
            Datum::Bool(match search {
                Search::Contains => text.contains(part),
                Search::StartsWith => text.starts_with(part),
                Search::EndsWith => text.ends_with(part),
            })
        }
    })
}

/// `&&` (`decisive` false) and `||` (`decisive` true): one decisive operand is enough, whatever
/// becomes of the other.
fn junction(
    decisive: bool,
    left: &Bound,
    right: &Bound,
    input: Input<'_>,
) -> Result<bool, EvalError> {
    match left.truth(input) {
        Ok(truth) if truth == decisive => Ok(decisive),
        Ok(_) => right.truth(input),
        Err(error) if right.truth(input)? != decisive => Err(error),
        Err(_) => Ok(decisive),
    }
}

/// Arithmetic on whole numbers.
pub(super) fn whole(operator: Arithmetic, left: i128, right: i128) -> Result<i128, EvalError> {
    match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide if right == 0 => return Err(EvalError::DivisionByZero),
        Arithmetic::Remainder if right == 0 => return Err(EvalError::DivisionByZero),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder => left.checked_rem(right),
    }
    .ok_or(EvalError::Overflow)
}

/// Arithmetic on floats: never fails, may give an infinity or NaN.
pub(super) fn float(operator: Arithmetic, left: f64, right: f64) -> f64 {
    match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    }
}

/// The whole number with the other sign.
pub(super) fn negate(number: i128) -> Result<i128, EvalError> {
    number.checked_neg().ok_or(EvalError::Overflow)
}

/// A float without its fraction, if it is within 64 bits (both ends left out, as in CEL).
fn truncate(number: f64) -> Result<i128, EvalError> {
    if number.is_nan() {
        return Err(EvalError::NotANumber);
    }
    if i64::MIN as f64 >= number || number >= i64::MAX as f64 {
        return Err(EvalError::Overflow);
    }
    Ok(number as i128)
}

fn compare(
    relation: Relation,
    left: Datum,
    right: Datum,
    symbols: &Symbols,
) -> Result<bool, EvalError> {
    Ok(match relation {
        Relation::Equal => is_equal(left, right),
        Relation::NotEqual => !is_equal(left, right),
        Relation::Less => order(left, right, symbols)?.is_lt(),
        Relation::LessOrEqual => order(left, right, symbols)?.is_le(),
        Relation::Greater => order(left, right, symbols)?.is_gt(),
        Relation::GreaterOrEqual => order(left, right, symbols)?.is_ge(),
    })
}

fn is_equal(left: Datum, right: Datum) -> bool {
    match (left, right) {
        (Datum::Int(left), Datum::Float(right)) | (Datum::Float(right), Datum::Int(left)) => {
            left as f64 == right
        }
        // One table, one symbol for each text. NaN is not equal to itself, null is.
        (left, right) => left == right,
    }
}

fn order(left: Datum, right: Datum, symbols: &Symbols) -> Result<Ordering, EvalError> {
    let floats = match (left, right) {
        (Datum::Null, _) | (_, Datum::Null) => return Err(EvalError::NullOperand),
        (Datum::Float(left), Datum::Float(right)) => (left, right),
        (Datum::Int(left), Datum::Float(right)) => (left as f64, right),
        (Datum::Float(left), Datum::Int(right)) => (left, right as f64),
        (left, right) => return Ok(left.compare(right, symbols)),
    };
    floats.0.partial_cmp(&floats.1).ok_or(EvalError::NotANumber)
}

impl Constant<Symbol> {
    fn datum(&self) -> Datum {
        match *self {
            Self::Null => Datum::Null,
            Self::Bool(truth) => Datum::Bool(truth),
            Self::Int(number) => Datum::Int(number),
            Self::Float(number) => Datum::Float(number),
            Self::Text(symbol) => Datum::Text(symbol),
            Self::Ip(bits) => Datum::Ip(bits),
        }
    }
}

impl Members<Symbol> {
    /// Whether `value` is equal to one of them.
    fn contains(&self, value: Datum) -> bool {
        match (&self.values, value) {
            (_, Datum::Null) => self.has_null,
            (Values::Bools(truths), Datum::Bool(truth)) => truths.contains(&truth),
            (Values::Ints(numbers), Datum::Int(number)) => numbers.binary_search(&number).is_ok(),
            (Values::Floats(numbers), Datum::Float(number)) => numbers.contains(&number),
            (Values::Texts(texts), Datum::Text(text)) => texts.contains(&text),
            (Values::Ips(addresses), Datum::Ip(bits)) => addresses.binary_search(&bits).is_ok(),
            (
                Values::Bools(_)
                | Values::Ints(_)
                | Values::Floats(_)
                | Values::Texts(_)
                | Values::Ips(_),
                Datum::Bool(_)
                | Datum::Int(_)
                | Datum::Float(_)
                | Datum::Text(_)
                | Datum::Object(_)
                | Datum::Ip(_),
            ) => false,
        }
    }
}
