//! The tree of an expression, the same before and after binding: only its leaves change.
//!
//! Invariant: a tree is well typed and at most [`super::DEPTH_MAX`] deep, because only
//! [`super::TypedExpr`] makes one.

use super::operator::{Binary, Unary};

/// A node; `F` names a field, `T` a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node<F, T> {
    Constant(Constant<T>),
    Field(F),
    /// Whether the field has a value.
    Has(F),
    Unary(Unary, Box<Self>),
    Binary(Binary, Box<[Self; 2]>),
    /// Condition, value if true, value if false.
    If(Box<[Self; 3]>),
    In(Box<Self>, Members<T>),
}

/// A value that is written in the expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Constant<T> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(T),
    Ip(u128),
}

/// The list on the right of `in`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Members<T> {
    pub(super) has_null: bool,
    pub(super) values: Values<T>,
}

/// Values of one kind, the kind of what is looked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values<T> {
    Bools(Box<[bool]>),
    /// Sorted.
    Ints(Box<[i128]>),
    Floats(Box<[f64]>),
    Texts(Box<[T]>),
    /// Sorted.
    Ips(Box<[u128]>),
}

/// Replaces leaves; stops at the first error.
pub(super) trait Binder<F, T> {
    /// What a field becomes.
    type Field;
    /// What a text becomes.
    type Text;
    /// Why it cannot.
    type Error;

    fn field(&mut self, field: &F) -> Result<Self::Field, Self::Error>;
    fn text(&mut self, text: &T) -> Result<Self::Text, Self::Error>;
}

impl<F, T> Node<F, T> {
    /// Calls `visit` with every field, as often as it stands there.
    pub(super) fn for_each_field<'a>(&'a self, visit: &mut impl FnMut(&'a F)) {
        match self {
            Self::Constant(_) => {}
            Self::Field(field) | Self::Has(field) => visit(field),
            Self::Unary(_, operand) | Self::In(operand, _) => operand.for_each_field(visit),
            Self::Binary(_, operands) => {
                operands.iter().for_each(|node| node.for_each_field(visit))
            }
            Self::If(parts) => parts.iter().for_each(|node| node.for_each_field(visit)),
        }
    }

    /// The same tree over other leaves.
    pub(super) fn bind<B: Binder<F, T>>(
        &self,
        binder: &mut B,
    ) -> Result<Node<B::Field, B::Text>, B::Error> {
        Ok(match self {
            Self::Constant(constant) => Node::Constant(constant.bind(binder)?),
            Self::Field(field) => Node::Field(binder.field(field)?),
            Self::Has(field) => Node::Has(binder.field(field)?),
            Self::Unary(operator, operand) => {
                Node::Unary(*operator, Box::new(operand.bind(binder)?))
            }
            Self::Binary(operator, operands) => {
                let [left, right] = &**operands;
                Node::Binary(*operator, Box::new([left.bind(binder)?, right.bind(binder)?]))
            }
            Self::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                Node::If(Box::new([
                    condition.bind(binder)?,
                    then.bind(binder)?,
                    otherwise.bind(binder)?,
                ]))
            }
            Self::In(operand, members) => {
                Node::In(Box::new(operand.bind(binder)?), members.bind(binder)?)
            }
        })
    }
}

impl<T> Constant<T> {
    fn bind<F, B: Binder<F, T>>(&self, binder: &mut B) -> Result<Constant<B::Text>, B::Error> {
        Ok(match self {
            Self::Null => Constant::Null,
            Self::Bool(truth) => Constant::Bool(*truth),
            Self::Int(number) => Constant::Int(*number),
            Self::Float(number) => Constant::Float(*number),
            Self::Text(text) => Constant::Text(binder.text(text)?),
            Self::Ip(bits) => Constant::Ip(*bits),
        })
    }
}

impl<T> Members<T> {
    fn bind<F, B: Binder<F, T>>(&self, binder: &mut B) -> Result<Members<B::Text>, B::Error> {
        let values = match &self.values {
            Values::Bools(truths) => Values::Bools(truths.clone()),
            Values::Ints(numbers) => Values::Ints(numbers.clone()),
            Values::Floats(numbers) => Values::Floats(numbers.clone()),
            Values::Texts(texts) => {
                Values::Texts(texts.iter().map(|text| binder.text(text)).collect::<Result<_, _>>()?)
            }
            Values::Ips(addresses) => Values::Ips(addresses.clone()),
        };
        Ok(Members { has_null: self.has_null, values })
    }
}
