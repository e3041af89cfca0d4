//! What can be wrong with what was asked for.

use crate::trigger::Closing;

/// A mistake in what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is nothing to compute.
    #[error("no grouping is given: add at least one [[group]]")]
    NoGroupings,
    /// Two groupings have one name.
    #[error("grouping `{grouping}` is given twice: names of groupings are unique")]
    DuplicateGrouping {
        /// The name.
        grouping: Box<str>,
    },
    /// A name in a grouping is no field.
    #[error(
        "grouping `{grouping}`: `{field}` is not a field of the records{}",
        suggest(suggestion)
    )]
    UnknownField {
        /// The grouping.
        grouping: Box<str>,
        /// The name that is not known.
        field: Box<str>,
        /// The nearest field name, if one is near.
        suggestion: Option<Box<str>>,
    },
    /// A name in a grouping is neither a key column nor an aggregate of it.
    #[error("grouping `{grouping}`: `{name}` is not {what} of it{}", suggest(suggestion))]
    UnknownName {
        /// The grouping.
        grouping: Box<str>,
        /// The name.
        name: Box<str>,
        /// What it should be: "a key column" or "an aggregate".
        what: &'static str,
        /// The nearest name, if one is near.
        suggestion: Option<Box<str>>,
    },
    /// A column or aggregate name appears twice in a grouping.
    #[error("grouping `{grouping}`: `{name}` appears twice")]
    DuplicateName {
        /// The grouping.
        grouping: Box<str>,
        /// The name.
        name: Box<str>,
    },
    /// An aggregate does not take values of its field's type.
    #[error(
        "grouping `{grouping}`: aggregate `{aggregate}` cannot take the {function} of a field of type {ty}"
    )]
    WrongType {
        /// The grouping.
        grouping: Box<str>,
        /// The aggregate.
        aggregate: Box<str>,
        /// The function.
        function: &'static str,
        /// The type of the field.
        ty: &'static str,
    },
    /// Fields that stand for each other have different types or numbers.
    #[error(
        "grouping `{grouping}`: `{name}` lists {found} fields where {expected} of one type are needed"
    )]
    UnevenCopies {
        /// The grouping.
        grouping: Box<str>,
        /// Column or aggregate.
        name: Box<str>,
        /// How many fields it lists.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// A whole-number setting is out of range.
    #[error("grouping `{grouping}`: {what} must be at least 1")]
    TooSmall {
        /// The grouping.
        grouping: Box<str>,
        /// The setting.
        what: &'static str,
    },
    /// A function cannot be used in that place.
    #[error("grouping `{grouping}`: rank `{aggregate}` must be a count or a sum of numbers")]
    NotRankable {
        /// The grouping.
        grouping: Box<str>,
        /// The aggregate.
        aggregate: Box<str>,
    },
    /// A list of the largest entries of windows that merge.
    #[error(
        "grouping `{grouping}`: top_k does not go with session windows: each key's merge by themselves, so that no two share one"
    )]
    TopKOfSessions {
        /// The grouping.
        grouping: Box<str>,
    },
    /// A list of the largest entries, whose totals have a fixed size, with an aggregate that has none.
    #[error(
        "grouping `{grouping}`: top_k does not go with `{aggregate}`: a {function} has no fixed size; give it to a grouping of its own, without top_k"
    )]
    TopKOfSide {
        /// The grouping.
        grouping: Box<str>,
        /// The aggregate.
        aggregate: Box<str>,
        /// Its function.
        function: &'static str,
    },
    /// A window would hold more copies of a record than the plan allows.
    #[error(
        "grouping `{grouping}`: {overlap} windows of it overlap, more than max_overlap ({max}) where a record is copied into each: make the period longer or the windows shorter, or let the watermark or the clock alone say when it emits"
    )]
    TooManyCopies {
        /// The grouping.
        grouping: Box<str>,
        /// Windows that hold one record.
        overlap: i64,
        /// The most that are allowed.
        max: i64,
    },
    /// A record would be held by more windows than anybody can read the panes of.
    #[error(
        "grouping `{grouping}`: {overlap} windows of it overlap, more than {max}, and each emits a pane of its own: make the period longer or the windows shorter"
    )]
    TooManyWindows {
        /// The grouping.
        grouping: Box<str>,
        /// Windows that hold one record.
        overlap: i64,
        /// The most that are allowed.
        max: i64,
    },
    /// A trigger can finish and close its windows for records that come later.
    #[error(
        "grouping `{grouping}`: {closing}; repeat it, give it a late part, or allow it: allow_closing"
    )]
    LosesData {
        /// The grouping.
        grouping: Box<str>,
        /// Why.
        closing: Closing,
    },
    /// Records that cover an interval need whole-number bounds.
    #[error("`{field}` must be a whole-number field: it bounds the interval that a record covers")]
    NotAnInstant {
        /// The field.
        field: Box<str>,
    },
    /// `shard_by` names something that is no field.
    #[error("shard_by: `{field}` is not a field that every record-reading grouping has in its key")]
    NotSharded {
        /// The field.
        field: Box<str>,
    },
    /// More fields than a row can have.
    #[error("the plan reads {fields} fields; a row has at most {max}")]
    TooManyFields {
        /// How many are read.
        fields: usize,
        /// How many there may be.
        max: usize,
    },
}

fn suggest(suggestion: &Option<Box<str>>) -> String {
    suggestion.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}
