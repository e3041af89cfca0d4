//! Builds expressions from their parts and refuses what is not well typed.
//!
//! All whole-number types are one kind, computed in 128 bits; adding it to a `double` needs a
//! conversion, comparing the two does not. Constants are folded, so that what fails for every
//! record is refused here.

use super::evaluate::{self, EvalError, Expr};
use super::operator::{Arithmetic, Binary, Unary};
use super::range::Range;
use super::tree::{Binder, Constant, Members, Node, Values};
use super::{BindError, DEPTH_MAX, Kind, TypeError};
use crate::row::{Field, RowLayout, Slot};
use crate::symbol::{Symbol, Symbols};
use crate::value::{Type, ip_bits};
use std::net::IpAddr;
use std::sync::Arc;

/// A value written in an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A float.
    Double(f64),
    /// A text.
    Text(Arc<str>),
    /// An address.
    Ip(IpAddr),
}

/// A well-typed expression over named fields.
#[derive(Debug, Clone, PartialEq)]
pub struct TypedExpr {
    node: Named,
    kind: Kind,
    /// What a whole number can be; without meaning for other kinds.
    range: Range,
    depth: u16,
}

type Named = Node<Field, Arc<str>>;

impl TypedExpr {
    /// The value of a field.
    pub fn field(field: &Field) -> Self {
        let (low, high) = field.ty.integer_range().unwrap_or((0, 0));
        let node = Node::Field(field.clone());
        Self { node, kind: Kind::of(field.ty), range: Range::new(low, high), depth: 1 }
    }

    /// Whether a field has a value.
    pub fn has(field: &Field) -> Self {
        Self::leaf(Node::Has(field.clone()), Kind::Bool)
    }

    /// A value written down.
    pub fn literal(literal: Literal) -> Self {
        let (constant, kind) = match literal {
            Literal::Null => (Constant::Null, Kind::Null),
            Literal::Bool(truth) => (Constant::Bool(truth), Kind::Bool),
            Literal::Int(number) => return Self::whole(number),
            Literal::Double(number) => (Constant::Float(number), Kind::Double),
            Literal::Text(text) => (Constant::Text(text), Kind::Text),
            Literal::Ip(address) => (Constant::Ip(ip_bits(address)), Kind::Ip),
        };
        Self::leaf(Node::Constant(constant), kind)
    }

    fn whole(number: i128) -> Self {
        let leaf = Self::leaf(Node::Constant(Constant::Int(number)), Kind::Int);
        Self { range: Range::of(number), ..leaf }
    }

    const fn leaf(node: Named, kind: Kind) -> Self {
        Self { node, kind, range: Range::ALL, depth: 1 }
    }

    fn inner(node: Named, kind: Kind, range: Range, below: u16) -> Result<Self, TypeError> {
        if below >= DEPTH_MAX {
            return Err(TypeError::TooDeep { limit: DEPTH_MAX });
        }
        Ok(Self { node, kind, range, depth: below + 1 })
    }

    /// The kind of its value.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The type of a field that holds its value: for whole numbers the narrowest that always
    /// fits. `None` if it is always null.
    pub fn ty(&self) -> Option<Type> {
        match self.kind {
            Kind::Null => None,
            Kind::Bool => Some(Type::Bool),
            Kind::Int => Some(self.range.ty()),
            Kind::Double => Some(Type::F64),
            Kind::Text => Some(Type::Text),
            Kind::Ip => Some(Type::Ip),
            Kind::Object => Some(Type::Object),
        }
    }

    /// Names of the fields that it reads, each once, in alphabetical order.
    pub fn fields(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.node.for_each_field(&mut |field| names.push(&*field.name));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// `operator` on one operand.
    ///
    /// # Errors
    /// The operand has the wrong kind, or the tree is too deep.
    pub fn unary(operator: Unary, operand: Self) -> Result<Self, TypeError> {
        let (fits, wanted, kind, range) = match operator {
            Unary::Not => (operand.kind == Kind::Bool, "bool", Kind::Bool, Range::ALL),
            Unary::Negate => {
                (operand.kind.is_number(), "a number", operand.kind, operand.range.negate())
            }
            Unary::Double => (operand.kind.is_number(), "a number", Kind::Double, Range::ALL),
            Unary::Int => {
                let range = match operand.kind {
                    Kind::Int => operand.range,
                    Kind::Double
                    | Kind::Null
                    | Kind::Bool
                    | Kind::Text
                    | Kind::Ip
                    | Kind::Object => Range::new(i64::MIN.into(), i64::MAX.into()),
                };
                (operand.kind.is_number(), "a number", Kind::Int, range)
            }
            Unary::Size => {
                (operand.kind == Kind::Text, "text", Kind::Int, Range::new(0, i64::MAX.into()))
            }
            Unary::Family => (operand.kind == Kind::Ip, "ip", Kind::Int, Range::new(4, 6)),
            Unary::IsLoopback
            | Unary::IsUnspecified
            | Unary::IsLinkLocalUnicast
            | Unary::IsGlobalUnicast
            | Unary::Within(_) => (operand.kind == Kind::Ip, "ip", Kind::Bool, Range::ALL),
        };
        if !fits {
            return Err(TypeError::Operand {
                operator: operator.name(),
                wanted,
                found: operand.kind,
            });
        }
        if let (Unary::Negate, Node::Constant(Constant::Int(number))) = (operator, &operand.node) {
            return Ok(Self::whole(evaluate::negate(*number).map_err(TypeError::Fails)?));
        }
        Self::inner(Node::Unary(operator, Box::new(operand.node)), kind, range, operand.depth)
    }

    /// `operator` on two operands.
    ///
    /// # Errors
    /// The operands have the wrong kinds, the result is an error for every record, or the tree is
    /// too deep.
    pub fn binary(operator: Binary, left: Self, right: Self) -> Result<Self, TypeError> {
        let (kind, range) = match operator {
            Binary::And | Binary::Or => {
                left.must_be(Kind::Bool, "bool", operator)?;
                right.must_be(Kind::Bool, "bool", operator)?;
                (Kind::Bool, Range::ALL)
            }
            Binary::Arithmetic(arithmetic) => return Self::arithmetic(arithmetic, left, right),
            Binary::Compare(relation) => {
                let is_possible = left.kind.is_comparable(right.kind)
                    && (!relation.is_order() || left.kind.has_order() && right.kind.has_order());
                if !is_possible {
                    return Err(mismatch(operator, &left, &right));
                }
                (Kind::Bool, Range::ALL)
            }
            Binary::Search(_) => {
                left.must_be(Kind::Text, "text", operator)?;
                right.must_be(Kind::Text, "text", operator)?;
                (Kind::Bool, Range::ALL)
            }
        };
        Self::pair(operator, left, right, (kind, range))
    }

    fn arithmetic(operator: Arithmetic, left: Self, right: Self) -> Result<Self, TypeError> {
        let whole = Binary::Arithmetic(operator);
        let (kind, range) = match (left.kind, right.kind, operator) {
            (Kind::Int, Kind::Int, _) => (Kind::Int, ranges(operator, left.range, right.range)),
            (
                Kind::Double,
                Kind::Double,
                Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply | Arithmetic::Divide,
            ) => (Kind::Double, Range::ALL),
            (_, _, _) => return Err(mismatch(whole, &left, &right)),
        };
        match (operator, &left.node, &right.node) {
            (_, Node::Constant(Constant::Int(left)), Node::Constant(Constant::Int(right))) => {
                let value = evaluate::whole(operator, *left, *right);
                Ok(Self::whole(value.map_err(TypeError::Fails)?))
            }
            (Arithmetic::Divide | Arithmetic::Remainder, _, Node::Constant(Constant::Int(0))) => {
                Err(TypeError::Fails(EvalError::DivisionByZero))
            }
            (_, _, _) => Self::pair(whole, left, right, (kind, range)),
        }
    }

    fn pair(
        operator: Binary,
        left: Self,
        right: Self,
        (kind, range): (Kind, Range),
    ) -> Result<Self, TypeError> {
        let below = left.depth.max(right.depth);
        Self::inner(Node::Binary(operator, Box::new([left.node, right.node])), kind, range, below)
    }

    /// `condition ? then : otherwise`.
    ///
    /// # Errors
    /// The condition is not a truth value, the two values are of different kinds, or the tree is
    /// too deep.
    pub fn conditional(condition: Self, then: Self, otherwise: Self) -> Result<Self, TypeError> {
        if condition.kind != Kind::Bool {
            let found = condition.kind;
            return Err(TypeError::Operand { operator: "? :", wanted: "bool", found });
        }
        let (kind, range) = match (then.kind, otherwise.kind) {
            (Kind::Null, kind) => (kind, otherwise.range),
            (kind, Kind::Null) => (kind, then.range),
            (kind, other) if kind == other => (kind, then.range.union(otherwise.range)),
            (then, otherwise) => return Err(TypeError::Branches { then, otherwise }),
        };
        let below = condition.depth.max(then.depth).max(otherwise.depth);
        let parts = Box::new([condition.node, then.node, otherwise.node]);
        Self::inner(Node::If(parts), kind, range, below)
    }

    /// Whether `value` is equal to an element of `list`; elements are literals.
    ///
    /// # Errors
    /// An element is computed or of a kind that never equals the value, or the tree is too deep.
    pub fn is_in(value: Self, list: Vec<Self>) -> Result<Self, TypeError> {
        let mut members = Vec::with_capacity(list.len());
        for element in list {
            let is_possible = element.kind == Kind::Null
                || element.kind == value.kind
                || (value.kind == Kind::Double && element.kind == Kind::Int);
            if !is_possible || matches!(value.kind, Kind::Null | Kind::Object) {
                return Err(TypeError::Element { value: value.kind, element: element.kind });
            }
            match element.node {
                Node::Constant(constant) => members.push(constant),
                Node::Field(_)
                | Node::Has(_)
                | Node::Unary(..)
                | Node::Binary(..)
                | Node::If(_)
                | Node::In(..) => return Err(TypeError::ComputedElement),
            }
        }
        let members = Members::new(value.kind, members);
        let node = Node::In(Box::new(value.node), members);
        Self::inner(node, Kind::Bool, Range::ALL, value.depth)
    }

    fn must_be(&self, kind: Kind, wanted: &'static str, operator: Binary) -> Result<(), TypeError> {
        if self.kind == kind {
            return Ok(());
        }
        Err(TypeError::Operand { operator: operator.name(), wanted, found: self.kind })
    }

    /// The expression over the slots of `layout`, its texts in `symbols`.
    ///
    /// # Errors
    /// The layout lacks a field or has it with another type, or `symbols` is full.
    pub fn bind(&self, layout: &RowLayout, symbols: &Symbols) -> Result<Expr, BindError> {
        Ok(Expr::new(self.node.bind(&mut RowBinder { layout, symbols })?))
    }
}

fn mismatch(operator: Binary, left: &TypedExpr, right: &TypedExpr) -> TypeError {
    TypeError::Operands { operator: operator.name(), left: left.kind, right: right.kind }
}

fn ranges(operator: Arithmetic, left: Range, right: Range) -> Range {
    match operator {
        Arithmetic::Add => left.add(right),
        Arithmetic::Subtract => left.subtract(right),
        Arithmetic::Multiply => left.multiply(right),
        Arithmetic::Divide => left.divide(right),
        Arithmetic::Remainder => left.remainder(right),
    }
}

impl Members<Arc<str>> {
    /// The members of a list in which a value of kind `kind` is looked for.
    fn new(kind: Kind, list: Vec<Constant<Arc<str>>>) -> Self {
        let has_null = list.contains(&Constant::Null);
        let (mut truths, mut numbers, mut floats) = (Vec::new(), Vec::new(), Vec::new());
        let (mut texts, mut addresses) = (Vec::new(), Vec::new());
        for constant in list {
            match constant {
                Constant::Null => {}
                Constant::Bool(truth) => truths.push(truth),
                Constant::Int(number) if kind == Kind::Double => floats.push(number as f64),
                Constant::Int(number) => numbers.push(number),
                Constant::Float(number) => floats.push(number),
                Constant::Text(text) => texts.push(text),
                Constant::Ip(bits) => addresses.push(bits),
            }
        }
        numbers.sort_unstable();
        addresses.sort_unstable();
        let values = match kind {
            Kind::Bool => Values::Bools(truths.into()),
            Kind::Int | Kind::Null | Kind::Object => Values::Ints(numbers.into()),
            Kind::Double => Values::Floats(floats.into()),
            Kind::Text => Values::Texts(texts.into()),
            Kind::Ip => Values::Ips(addresses.into()),
        };
        Self { has_null, values }
    }
}

/// Finds the slots of fields and interns texts.
struct RowBinder<'a> {
    layout: &'a RowLayout,
    symbols: &'a Symbols,
}

impl Binder<Field, Arc<str>> for RowBinder<'_> {
    type Field = Slot;
    type Text = Symbol;
    type Error = BindError;

    fn field(&mut self, field: &Field) -> Result<Slot, BindError> {
        let name = || field.name.clone();
        let slot =
            self.layout.slot(&field.name).ok_or_else(|| BindError::NoField { name: name() })?;
        if slot.ty != field.ty {
            return Err(BindError::FieldType { name: name(), found: slot.ty, wanted: field.ty });
        }
        Ok(slot)
    }

    fn text(&mut self, text: &Arc<str>) -> Result<Symbol, BindError> {
        Ok(self.symbols.intern(text)?)
    }
}
