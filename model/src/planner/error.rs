//! What can be wrong with what was asked for.

use crate::expr::BindError;
use crate::sequence::check::SequenceError;
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
    /// A sequence cannot be judged so.
    #[error("sequence `{grouping}`: {error}")]
    Sequence {
        /// The sequence.
        grouping: Box<str>,
        /// What is wrong with it.
        error: SequenceError,
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
        "grouping `{grouping}`: top_k does not go with session windows: each key's merge by themselves, so that no two share one; list the results of its sessions instead, in a grouping of their own: of = \"{grouping}\""
    )]
    TopKOfSessions {
        /// The grouping.
        grouping: Box<str>,
    },
    /// A list of the largest entries, whose totals have a fixed size, with an aggregate that has none.
    #[error(
        "grouping `{grouping}`: top_k does not go with `{aggregate}`: what {function} keeps has no fixed size; give it to a grouping of its own, without top_k"
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
    /// A grouping reads the results of one that is not there.
    #[error(
        "grouping `{grouping}`: there is no grouping `{of}` to read the results of{}",
        suggest(suggestion)
    )]
    UnknownParent {
        /// The grouping.
        grouping: Box<str>,
        /// The one that is not known.
        of: Box<str>,
        /// The nearest name, if one is near.
        suggestion: Option<Box<str>>,
    },
    /// Groupings read each other's results.
    #[error("grouping `{grouping}` reads results that are made of its own: {}", circle(cycle))]
    Circle {
        /// The grouping.
        grouping: Box<str>,
        /// All groupings on the way round, each of which reads the next one's.
        cycle: Vec<Box<str>>,
    },
    /// A name in a grouping is no result of the one that it reads.
    #[error(
        "grouping `{grouping}`: `{field}` is neither a key column nor an aggregate of `{of}`{}",
        suggest(suggestion)
    )]
    UnknownResult {
        /// The grouping.
        grouping: Box<str>,
        /// The one that it reads.
        of: Box<str>,
        /// The name that is not known.
        field: Box<str>,
        /// The nearest name, if one is near.
        suggestion: Option<Box<str>>,
    },
    /// A result is called as what a row says of its window.
    #[error(
        "grouping `{grouping}`: `{name}` of `{of}` is called as what a row says of its window; rename it there"
    )]
    ReservedName {
        /// The grouping.
        grouping: Box<str>,
        /// The one that it reads.
        of: Box<str>,
        /// The name.
        name: Box<str>,
    },
    /// A grouping reads the results of a list.
    #[error(
        "grouping `{grouping}`: `{of}` lists its largest entries only, and totals never pass through a list; read the results of a grouping without top_k"
    )]
    OfList {
        /// The grouping.
        grouping: Box<str>,
        /// The one that it reads.
        of: Box<str>,
    },
    /// Windows over results that would merge.
    #[error(
        "grouping `{grouping}`: {window} does not go with the results of `{of}`: what is taken back cannot part windows that have merged; use windows that stay as they are"
    )]
    MergingResults {
        /// The grouping.
        grouping: Box<str>,
        /// The one that it reads.
        of: Box<str>,
        /// Its windows.
        window: String,
    },
    /// Rows of windows without an end have no time.
    #[error(
        "grouping `{grouping}`: the windows of `{of}` have no end, and so its results no time that {window} could go by; use a global window here, or emit.timestamp = \"latest\" there"
    )]
    EndlessResults {
        /// The grouping.
        grouping: Box<str>,
        /// The one that it reads.
        of: Box<str>,
        /// Its windows.
        window: String,
    },
    /// State over results goes before what it is made of.
    #[error(
        "grouping `{grouping}`: its allowed lateness ({own}) is shorter than that of `{of}` ({needed}), whose results may change for as long; give it at least as much"
    )]
    ShorterLateness {
        /// The grouping.
        grouping: Box<str>,
        /// The one that it reads.
        of: Box<str>,
        /// Its allowed lateness.
        own: String,
        /// The other's.
        needed: String,
    },
    /// A trigger over results that closes its windows.
    #[error(
        "grouping `{grouping}`: its trigger {trigger} closes windows, and what it has counted of `{of}` could not be taken back any more; repeat it, or give it a late part"
    )]
    ClosesResults {
        /// The grouping.
        grouping: Box<str>,
        /// The one that it reads.
        of: Box<str>,
        /// Its trigger.
        trigger: String,
    },
    /// A delta that is not defined.
    #[error(
        "grouping `{grouping}`: discarding panes cannot tell the {function} `{aggregate}` of results that are taken back; use mode accumulating or retracting"
    )]
    DiscardedResults {
        /// The grouping.
        grouping: Box<str>,
        /// The aggregate.
        aggregate: Box<str>,
        /// Its function.
        function: &'static str,
    },
    /// An aggregate that a list over results cannot carry.
    #[error(
        "grouping `{grouping}`: a top_k of results carries counts and whole sums only, not the {function} `{aggregate}`"
    )]
    ListedResults {
        /// The grouping.
        grouping: Box<str>,
        /// The aggregate.
        aggregate: Box<str>,
        /// Its function.
        function: &'static str,
    },
    /// A list over results that does not know of an entry whether any row is left.
    #[error(
        "grouping `{grouping}`: a top_k of results counts its rows, since sums may be zero with rows and without; add rows = \"count()\""
    )]
    UncountedResults {
        /// The grouping.
        grouping: Box<str>,
    },
    /// An expression that does not fit the rows.
    #[error("grouping `{grouping}`: {error}")]
    Expression {
        /// The grouping.
        grouping: Box<str>,
        /// What does not fit.
        error: BindError,
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

fn circle(cycle: &[Box<str>]) -> String {
    let all = cycle.iter().chain(cycle.first());
    all.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" of ")
}
