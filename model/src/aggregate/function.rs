//! What an aggregate computes: a closed set, each with its settings, and what holds for each.
//!
//! Settings are whole numbers, so that functions compare exactly: two aggregates are made of each
//! other's parts only if they keep the same.

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
    /// Number of different values, approximately: HyperLogLog with 2^`precision` registers.
    Distinct {
        /// From [`Function::PRECISION_MIN`] to [`Function::PRECISION_MAX`].
        precision: u8,
    },
    /// The value below which a part of the values lies, approximately: DDSketch. The result is
    /// within `accuracy` of the value at place floor(p (n - 1)) of n values in ascending order;
    /// null for none.
    Quantile {
        /// Which part, in millionths: more than 0, less than 1,000,000.
        p: u32,
        /// Largest relative error, in millionths: from [`Function::ACCURACY_MIN`] to
        /// [`Function::ACCURACY_MAX`].
        accuracy: u32,
    },
}

impl Function {
    /// Every function that has no settings.
    pub const PLAIN: [Self; 7] =
        [Self::Count, Self::Sum, Self::Min, Self::Max, Self::Mean, Self::First, Self::Last];

    /// Least precision of a distinct count: 16 registers.
    pub const PRECISION_MIN: u8 = 4;
    /// Precision of a distinct count unless set otherwise: 4,096 registers.
    pub const PRECISION: u8 = 12;
    /// Most precision of a distinct count: 65,536 registers.
    pub const PRECISION_MAX: u8 = 16;

    /// Finest relative accuracy of a quantile, in millionths.
    pub const ACCURACY_MIN: u32 = 100;
    /// Relative accuracy of a quantile unless set otherwise, in millionths: 1 %.
    pub const ACCURACY: u32 = 10_000;
    /// Coarsest relative accuracy of a quantile, in millionths.
    pub const ACCURACY_MAX: u32 = 500_000;

    /// The name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::First => "first",
            Self::Last => "last",
            Self::Distinct { .. } => "distinct",
            Self::Quantile { .. } => "quantile",
        }
    }

    /// Whether values of type `ty` can be aggregated so.
    pub const fn accepts(self, ty: Type) -> bool {
        match self {
            Self::Count
            | Self::Min
            | Self::Max
            | Self::First
            | Self::Last
            | Self::Distinct { .. } => true,
            Self::Sum | Self::Mean | Self::Quantile { .. } => ty.is_numeric(),
        }
    }

    /// Whether a part can be taken out of a whole again.
    pub const fn is_subtractable(self) -> bool {
        match self {
            Self::Count | Self::Sum | Self::Mean | Self::Quantile { .. } => true,
            Self::Min | Self::Max | Self::First | Self::Last | Self::Distinct { .. } => false,
        }
    }

    /// Whether a record must be seen once only: of the others, seeing it again changes nothing.
    pub const fn counts_once(self) -> bool {
        match self {
            Self::Count | Self::Sum | Self::Mean | Self::Quantile { .. } => true,
            Self::Min | Self::Max | Self::First | Self::Last | Self::Distinct { .. } => false,
        }
    }

    /// Whether what it keeps has no fixed size, and lies beside the words of a window.
    pub const fn has_side(self) -> bool {
        match self {
            Self::Distinct { .. } | Self::Quantile { .. } => true,
            Self::Count
            | Self::Sum
            | Self::Min
            | Self::Max
            | Self::Mean
            | Self::First
            | Self::Last => false,
        }
    }

    /// Whether its result over values of type `ty` is exact.
    pub fn is_exact(self, ty: Type) -> bool {
        match self {
            Self::Sum => ty != Type::F64,
            Self::Mean | Self::Distinct { .. } | Self::Quantile { .. } => false,
            Self::Count | Self::Min | Self::Max | Self::First | Self::Last => true,
        }
    }

    /// The type of its result over values of type `ty`.
    pub const fn result_type(self, ty: Type) -> Type {
        match self {
            Self::Count | Self::Distinct { .. } => Type::U64,
            Self::Mean | Self::Quantile { .. } => Type::F64,
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
            Self::Quantile { accuracy, .. } => Self::Quantile { p: 0, accuracy },
            Self::Count
            | Self::Sum
            | Self::Min
            | Self::Max
            | Self::Mean
            | Self::First
            | Self::Last
            | Self::Distinct { .. } => self,
        }
    }
}
