//! Kinds of values: what operators tell apart.

use crate::value::Type;
use std::fmt;

/// The kind of an expression's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Always null.
    Null,
    /// A truth value.
    Bool,
    /// A whole number.
    Int,
    /// A float.
    Double,
    /// A text.
    Text,
    /// An address.
    Ip,
    /// A JSON object.
    Object,
}

impl Kind {
    pub(super) const fn of(ty: Type) -> Self {
        match ty {
            Type::Bool => Self::Bool,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I64 | Type::Big => Self::Int,
            Type::F64 => Self::Double,
            Type::Text => Self::Text,
            Type::Ip => Self::Ip,
            Type::Object => Self::Object,
        }
    }

    pub(super) const fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Double)
    }

    /// Whether equality of the two can be asked: null is a value of every kind.
    pub(super) fn is_comparable(self, other: Self) -> bool {
        self == other
            || self == Self::Null
            || other == Self::Null
            || (self.is_number() && other.is_number())
    }

    /// Whether one value can be larger than another.
    pub(super) const fn has_order(self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Double | Self::Text => true,
            Self::Null | Self::Ip | Self::Object => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "double",
            Self::Text => "text",
            Self::Ip => "ip",
            Self::Object => "object",
        })
    }
}
