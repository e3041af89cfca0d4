//! What an aggregate computes: a closed set, and what holds for each.

use super::side::SideFunction;
use crate::value::Type;

/// What an aggregate computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Number of records.
    Count,
    /// Sum of the values; 0 for none.
    Sum,
    /// Smallest value; null for none.
    Min,
    /// Largest value; null for none.
    Max,
    /// Arithmetic mean as a float; null for none.
    Mean,
    /// Value with the earliest event time (of several, the smallest value); null for none.
    First,
    /// Value with the latest event time (of several, the largest value); null for none.
    Last,
    /// Spread about the mean: the mean of the squares of what each value differs by, as a float.
    /// Null for none.
    Variance {
        /// Of a sample: the squares are divided by n - 1, and one value has none. Else of a whole
        /// population: they are divided by n.
        is_sample: bool,
        /// The square root of it: the standard deviation.
        is_root: bool,
    },
    /// What has no fixed size, and lies beside the words of a window.
    Side(SideFunction),
}

impl Function {
    /// The variance of a population.
    pub const VARIANCE: Self = Self::Variance { is_sample: false, is_root: false };
    /// The standard deviation of a population.
    pub const STDDEV: Self = Self::Variance { is_sample: false, is_root: true };
    /// The variance of a sample.
    pub const VARIANCE_SAMPLE: Self = Self::Variance { is_sample: true, is_root: false };
    /// The standard deviation of a sample.
    pub const STDDEV_SAMPLE: Self = Self::Variance { is_sample: true, is_root: true };

    /// Every function that has a fixed size.
    pub const FIXED: [Self; 11] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::First,
        Self::Last,
        Self::VARIANCE,
        Self::STDDEV,
        Self::VARIANCE_SAMPLE,
        Self::STDDEV_SAMPLE,
    ];

    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::First => "first",
            Self::Last => "last",
            Self::Variance { is_sample: false, is_root: false } => "variance",
            Self::Variance { is_sample: false, is_root: true } => "stddev",
            Self::Variance { is_sample: true, is_root: false } => "variance_sample",
            Self::Variance { is_sample: true, is_root: true } => "stddev_sample",
            Self::Side(function) => function.name(),
        }
    }

    /// Whether values of type `ty` can be aggregated so.
    pub fn accepts(self, ty: Type) -> bool {
        match self {
            Self::Count | Self::Min | Self::Max | Self::First | Self::Last => true,
            Self::Sum | Self::Mean | Self::Variance { .. } => ty.is_numeric(),
            Self::Side(function) => function.accepts(ty),
        }
    }

    /// Whether a part can be taken out of a whole again.
    pub fn is_subtractable(self) -> bool {
        match self {
            Self::Count | Self::Sum | Self::Mean | Self::Variance { .. } => true,
            Self::Min | Self::Max | Self::First | Self::Last => false,
            Self::Side(function) => function.is_subtractable(),
        }
    }

    /// Whether a record must be seen once only: of the others, seeing it again changes nothing.
    pub const fn counts_once(self) -> bool {
        match self {
            Self::Count | Self::Sum | Self::Mean | Self::Variance { .. } => true,
            Self::Min | Self::Max | Self::First | Self::Last => false,
            Self::Side(function) => function.counts_once(),
        }
    }

    /// Whether what it keeps has no fixed size, and lies beside the words of a window.
    pub const fn has_side(self) -> bool {
        match self {
            Self::Side(_) => true,
            Self::Count
            | Self::Sum
            | Self::Min
            | Self::Max
            | Self::Mean
            | Self::First
            | Self::Last
            | Self::Variance { .. } => false,
        }
    }

    /// How far its result over values of type `ty` may be from the exact one, for people; `None` if
    /// it is exact.
    pub fn error(self, ty: Type) -> Option<String> {
        let rounding = || Some("rounding of floats".to_owned());
        match self {
            Self::Sum if ty != Type::F64 => None,
            Self::Sum | Self::Mean | Self::Variance { .. } => rounding(),
            Self::Count | Self::Min | Self::Max | Self::First | Self::Last => None,
            Self::Side(function) => function.error(),
        }
    }

    /// The type of its result over values of type `ty`.
    pub fn result_type(self, ty: Type) -> Type {
        match self {
            Self::Count => Type::U64,
            Self::Mean | Self::Variance { .. } => Type::F64,
            Self::Side(function) => function.result_type(ty),
            Self::Sum => match ty {
                Type::F64 => Type::F64,
                Type::Bool
                | Type::U8
                | Type::U16
                | Type::U32
                | Type::U64
                | Type::I64
                | Type::Big
                | Type::Text
                | Type::Ip
                | Type::Object => Type::Big,
            },
            Self::Min | Self::Max | Self::First | Self::Last => ty,
        }
    }

    /// What it keeps, whatever it makes of it: functions that keep the same are made of each
    /// other's parts.
    #[must_use]
    pub const fn kept(self) -> Self {
        match self {
            Self::Variance { .. } => Self::VARIANCE,
            Self::Side(function) => Self::Side(function.kept()),
            Self::Count
            | Self::Sum
            | Self::Min
            | Self::Max
            | Self::Mean
            | Self::First
            | Self::Last => self,
        }
    }
}
