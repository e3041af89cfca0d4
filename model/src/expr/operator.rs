//! The operators and functions of expressions, each once, with the spelling of the language.

/// Takes one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    /// The other truth value.
    Not,
    /// The number with the other sign.
    Negate,
    /// A number as a float.
    Double,
    /// A number as a whole number, cut towards zero.
    Int,
    /// How many characters (code points) a text has.
    Size,
    /// 4 or 6.
    Family,
    /// Whether an address is of the host itself.
    IsLoopback,
    /// Whether an address is `0.0.0.0` or `::`.
    IsUnspecified,
    /// Whether an address is in `169.254.0.0/16` or `fe80::/10`.
    IsLinkLocalUnicast,
    /// Whether an address is unicast, neither loopback nor link-local.
    IsGlobalUnicast,
    /// Whether an address lies in the block.
    Within(super::Cidr),
}

impl Unary {
    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Not => "!",
            Self::Negate => "-",
            Self::Double => "double",
            Self::Int => "int",
            Self::Size => "size",
            Self::Family => "family",
            Self::IsLoopback => "isLoopback",
            Self::IsUnspecified => "isUnspecified",
            Self::IsLinkLocalUnicast => "isLinkLocalUnicast",
            Self::IsGlobalUnicast => "isGlobalUnicast",
            Self::Within(_) => "containsIP",
        }
    }
}

/// Takes two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// Both are true.
    And,
    /// One is true.
    Or,
    /// A number of two numbers of one kind.
    Arithmetic(Arithmetic),
    /// A truth value of two values that can be compared.
    Compare(Relation),
    /// A truth value of two texts.
    Search(Search),
}

/// Makes a number of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient; of whole numbers, cut towards zero.
    Divide,
    /// Remainder of whole numbers, with the sign of the dividend.
    Remainder,
}

/// Compares two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The same value.
    Equal,
    /// Another value.
    NotEqual,
    /// Smaller.
    Less,
    /// Not larger.
    LessOrEqual,
    /// Larger.
    Greater,
    /// Not smaller.
    GreaterOrEqual,
}

impl Relation {
    /// Whether it asks which value is the larger one.
    pub(super) const fn is_order(self) -> bool {
        match self {
            Self::Equal | Self::NotEqual => false,
            Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => true,
        }
    }
}

/// Looks for the second text in the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Anywhere.
    Contains,
    /// At the start.
    StartsWith,
    /// At the end.
    EndsWith,
}

impl Binary {
    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Arithmetic(Arithmetic::Add) => "+",
            Self::Arithmetic(Arithmetic::Subtract) => "-",
            Self::Arithmetic(Arithmetic::Multiply) => "*",
            Self::Arithmetic(Arithmetic::Divide) => "/",
            Self::Arithmetic(Arithmetic::Remainder) => "%",
            Self::Compare(Relation::Equal) => "==",
            Self::Compare(Relation::NotEqual) => "!=",
            Self::Compare(Relation::Less) => "<",
            Self::Compare(Relation::LessOrEqual) => "<=",
            Self::Compare(Relation::Greater) => ">",
            Self::Compare(Relation::GreaterOrEqual) => ">=",
            Self::Search(Search::Contains) => "contains",
            Self::Search(Search::StartsWith) => "startsWith",
            Self::Search(Search::EndsWith) => "endsWith",
        }
    }
}
