//! Functions that keep what has no fixed size, each with its settings, and what holds for each.
//!
//! Settings are whole numbers, so that functions compare exactly: two aggregates are made of each
//! other's parts only if they keep the same.

use super::custom::CustomFunction;
use crate::value::Type;
use std::fmt;

/// Parts of one, in millionths: 0.99 is 990,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millionths(pub u32);

impl Millionths {
    /// One.
    pub const ONE: Self = Self(1_000_000);

    /// As a number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE.0)
    }
}

impl fmt::Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

/// What an aggregate without a fixed size computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SideFunction {
    /// Number of different values, approximately: HyperLogLog with 2^`precision` registers.
    Distinct {
        /// From [`SideFunction::PRECISION_MIN`] to [`SideFunction::PRECISION_MAX`].
        precision: u8,
    },
    /// The value below which a part of the values lies, approximately: DDSketch. The result is
    /// within `accuracy` of the value at place floor(p (n - 1)) of n values in ascending order;
    /// null for none.
    Quantile {
        /// Which part: more than 0, less than 1.
        p: Millionths,
        /// Largest relative error: from [`SideFunction::ACCURACY_MIN`] to
        /// [`SideFunction::ACCURACY_MAX`].
        accuracy: Millionths,
    },
    /// The values that came most often, with how often at most, and by how much that may be too
    /// high: Space-Saving. No count is too high by more than records / `counters`.
    Frequent {
        /// How many are shown, at least 1.
        k: u32,
        /// How many are counted, at least `k`.
        counters: u32,
    },
    /// The values themselves: the first by (event time, value), and how many more there were.
    Collect {
        /// Most values, at least 1.
        values_max: u32,
        /// Most bytes, of which a value takes [`SideFunction::COLLECT_OVERHEAD`] and those of its
        /// text.
        bytes_max: u32,
    },
    /// What the user wrote.
    Custom(CustomFunction),
}

impl SideFunction {
    /// Least precision of a distinct count: 16 registers.
    pub const PRECISION_MIN: u8 = 4;
    /// Precision of a distinct count unless set otherwise: 4,096 registers.
    pub const PRECISION: u8 = 12;
    /// Most precision of a distinct count: 65,536 registers.
    pub const PRECISION_MAX: u8 = 16;

    /// Finest relative accuracy of a quantile.
    pub const ACCURACY_MIN: Millionths = Millionths(100);
    /// Relative accuracy of a quantile unless set otherwise: 1 %.
    pub const ACCURACY: Millionths = Millionths(10_000);
    /// Coarsest relative accuracy of a quantile.
    pub const ACCURACY_MAX: Millionths = Millionths(500_000);

    /// How many values are shown of the most frequent unless set otherwise.
    pub const K: u32 = 10;
    /// How many values are counted for each that is shown unless set otherwise.
    pub const COUNTERS_PER_K: u32 = 10;
    /// Most values that may be counted.
    pub const COUNTERS_MAX: u32 = 100_000;

    /// Bytes of each collected value beside its text.
    pub const COLLECT_OVERHEAD: u32 = 32;
    /// Most values that may be collected.
    pub const COLLECT_VALUES_MAX: u32 = 1_000_000;
    /// Most bytes that may be collected: 64 MiB.
    pub const COLLECT_BYTES_MAX: u32 = 64 << 20;

    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Distinct { .. } => "distinct",
            Self::Quantile { .. } => "quantile",
            Self::Frequent { .. } => "frequent",
            Self::Collect { .. } => "collect",
            Self::Custom(custom) => custom.name(),
        }
    }

    /// Whether values of type `ty` can be aggregated so.
    pub fn accepts(self, ty: Type) -> bool {
        match self {
            Self::Distinct { .. } | Self::Frequent { .. } | Self::Collect { .. } => true,
            Self::Quantile { .. } => ty.is_numeric(),
            Self::Custom(custom) => custom.accepts(ty),
        }
    }

    /// Whether a part can be taken out of a whole again.
    pub fn is_subtractable(self) -> bool {
        match self {
            Self::Quantile { .. } => true,
            Self::Distinct { .. } | Self::Frequent { .. } | Self::Collect { .. } => false,
            Self::Custom(custom) => custom.is_subtractable(),
        }
    }

    /// Whether a record must be seen once only: of the others, seeing it again changes nothing.
    pub const fn counts_once(self) -> bool {
        match self {
            Self::Quantile { .. }
            | Self::Frequent { .. }
            | Self::Collect { .. }
            | Self::Custom(_) => true,
            Self::Distinct { .. } => false,
        }
    }

    /// How far its result may be from the exact one, for people; `None` if it is exact.
    pub fn error(self) -> Option<String> {
        match self {
            Self::Distinct { precision } => {
                let registers = 1_u32 << precision;
                let percent = 104.0 / f64::from(registers).sqrt();
                let exact = registers / 8;
                Some(format!("exact up to {exact} values, then standard error {percent:.2} %"))
            }
            Self::Quantile { accuracy, .. } => {
                let percent = accuracy.as_f64() * 100.0;
                Some(format!("within {percent} % of a value at that place"))
            }
            Self::Frequent { counters, .. } => {
                Some(format!("each count too high by its error, at most records / {counters}"))
            }
            Self::Collect { .. } => None,
            Self::Custom(custom) => {
                (!custom.is_exact()).then(|| format!("as {} says", custom.name()))
            }
        }
    }

    /// The type of its result over values of type `ty`; lists are objects.
    pub fn result_type(self, ty: Type) -> Type {
        match self {
            Self::Distinct { .. } => Type::U64,
            Self::Quantile { .. } => Type::F64,
            Self::Frequent { .. } | Self::Collect { .. } => Type::Object,
            Self::Custom(custom) => custom.result_type(ty),
        }
    }

    /// What it keeps, whatever it makes of it.
    #[must_use]
    pub const fn kept(self) -> Self {
        match self {
            Self::Quantile { accuracy, .. } => Self::Quantile { p: Millionths(0), accuracy },
            Self::Frequent { counters, .. } => Self::Frequent { k: 0, counters },
            Self::Distinct { .. } | Self::Collect { .. } | Self::Custom(_) => self,
        }
    }
}
