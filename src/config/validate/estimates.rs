//! How the watermark of a source is estimated: what it says by itself, and what it takes over from
//! `[watermark]`. What goes with a kind of estimate is taken over only if it is of that kind there.

use super::expressions::report;
use super::groups::Scope;
use crate::cel;
use crate::config::pipeline::SourceWatermark;
use crate::config::place::Place;
use crate::config::problem::Problems;
use crate::config::raw::quantity::{Length, Limit};
use crate::config::raw::reader::{Given, Spanned};
use crate::config::raw::scalar::Choice;
use crate::config::raw::watermark::{
    RawClamped, RawPercentile, RawSourceWatermark, RawWatermark, RawWatermarkKind,
};
use nilometer_model::expr::TypedExpr;
use nilometer_model::time::Span;
use nilometer_model::watermark::{
    Clamped, FutureSkew, Punctuation, WatermarkSettings, WatermarkSpec,
};

/// A source that is silent for so long holds nothing back, where sources are live.
pub(crate) const IDLE_AFTER: Span = Span::from_millis(30_000);
/// How far in the future an event time of a live source may lie.
pub(crate) const MAX_FUTURE_SKEW: Span = Span::from_millis(300_000);

/// The kind where none is named: whoever says how late records may come wants the watermark to
/// follow them.
pub(crate) fn default_kind(raw: &RawWatermark, is_live: bool) -> RawWatermarkKind {
    let usual = if is_live { RawWatermarkKind::Bounded } else { RawWatermarkKind::EndOfInput };
    kind_of(&raw.mark, &raw.percentile, &raw.out_of_orderness).unwrap_or(usual)
}

/// The kind that what was given goes with; `None` if nothing was.
fn kind_of(
    mark: &Given<String>,
    percentile: &Given<RawPercentile>,
    bound: &Given<Length>,
) -> Option<RawWatermarkKind> {
    if !mark.is_absent() {
        Some(RawWatermarkKind::Punctuated)
    } else if !percentile.is_absent() {
        Some(RawWatermarkKind::Percentile)
    } else if !bound.is_absent() {
        Some(RawWatermarkKind::Bounded)
    } else {
        None
    }
}

/// What is said of the watermark of a source: by itself, and for all.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) own: Option<&'a RawSourceWatermark>,
    pub(crate) shared: &'a RawWatermark,
    /// Whether the source is live.
    pub(crate) is_live: bool,
    /// Whether any source is.
    pub(crate) is_any_live: bool,
    /// Of the pipeline.
    pub(crate) partitions: usize,
}

/// A setting as the source gives it, or as it is given for all.
fn either<'a, T>(own: Option<&'a Given<T>>, shared: &'a Given<T>) -> &'a Given<T> {
    own.filter(|own| !own.is_absent()).unwrap_or(shared)
}

impl Said<'_> {
    /// The watermark of the source; `None` if it is wrong, which has then been reported.
    pub(crate) fn estimate(
        self,
        scope: &Scope,
        problems: &mut Problems,
    ) -> Option<SourceWatermark> {
        let Self { own, shared, is_live, .. } = self;
        let idle_after = either(own.map(|own| &own.idle_after), &shared.idle_after);
        let future_skew = either(own.map(|own| &own.max_future_skew), &shared.max_future_skew);
        let future_skew = limit(future_skew, is_live.then_some(MAX_FUTURE_SKEW));
        let clamped = self.clamped(future_skew, problems);
        let records = either(own.map(|own| &own.lateness_records), &shared.lateness_records);
        let (spec, mark) = self.spec(scope, problems)?;
        let settings = WatermarkSettings {
            spec,
            idle_after: limit(idle_after, self.is_any_live.then_some(IDLE_AFTER))?,
            future_skew: match future_skew? {
                // Transcripts, which need no source, have a clock.
                Some(skew) if is_live || self.partitions == 0 => FutureSkew::Clock(skew),
                // There is nobody to hold a single partition against.
                Some(skew) if self.partitions > 1 => FutureSkew::Others(skew),
                Some(_) | None => FutureSkew::Off,
            },
            clamped: clamped?,
            lateness_records: u32::try_from(records.value()?.0).unwrap_or(u32::MAX),
        };
        Some(SourceWatermark { settings, mark })
    }

    /// What becomes of records too far in the future, which means something only where there is a
    /// limit.
    fn clamped(self, skew: Option<Option<Span>>, problems: &mut Problems) -> Option<Clamped> {
        let given = either(self.own.map(|own| &own.clamped), &self.shared.clamped).get()?;
        match (given.value, skew) {
            (RawClamped::Keep, _) => Some(Clamped::Keep),
            (RawClamped::Reject, Some(None)) => {
                problems.add_with_help(
                    given.place,
                    "`clamped` means nothing here: there is no limit to the future",
                    "leave it out, or say what is too far: max_future_skew = \"5m\"",
                );
                None
            }
            (RawClamped::Reject, _) => Some(Clamped::Reject),
        }
    }

    /// The kind, and where it is said.
    fn kind(self, problems: &mut Problems) -> Option<(RawWatermarkKind, Place)> {
        let Self { own, shared, is_live, is_any_live, .. } = self;
        let table = own.map_or(shared.place, |own| own.place);
        match either(own.map(|own| &own.kind), &shared.kind) {
            Given::Value(kind) if is_live && kind.value == RawWatermarkKind::EndOfInput => {
                problems.add_with_help(
                    kind.place,
                    "`end_of_input` never comes: a source is live",
                    "write kind = \"bounded\" and out_of_orderness",
                );
                None
            }
            Given::Value(kind) => Some((kind.value, table)),
            Given::Wrong => None,
            // What the source gives by itself goes before what is given for all.
            Given::Absent => {
                let kind =
                    own.and_then(|own| kind_of(&own.mark, &own.percentile, &own.out_of_orderness));
                Some((kind.unwrap_or_else(|| default_kind(shared, is_any_live)), table))
            }
        }
    }

    /// The estimate, and what records say where it is theirs to say.
    fn spec(
        self,
        scope: &Scope,
        problems: &mut Problems,
    ) -> Option<(WatermarkSpec, Option<TypedExpr>)> {
        let (kind, table) = self.kind(problems)?;
        let Self { own, shared, .. } = self;
        let shared_kind = shared.kind.value().copied();
        let shared_kind = shared_kind.unwrap_or_else(|| default_kind(shared, self.is_any_live));
        let takes_over = own.is_none() || shared_kind == kind;
        let bound = part(own.map(|own| &own.out_of_orderness), &shared.out_of_orderness);
        let percentile = part(own.map(|own| &own.percentile), &shared.percentile);
        let mark = part(own.map(|own| &own.mark), &shared.mark);
        let parts = Parts {
            kind,
            table,
            bound: bound.filter(|(_, is_own)| *is_own || takes_over).map(|(given, _)| given),
            percentile: percentile
                .filter(|(_, is_own)| *is_own || takes_over)
                .map(|(given, _)| given),
            mark: mark.filter(|(_, is_own)| *is_own || takes_over).map(|(given, _)| given),
        };
        parts.refuse_misplaced(problems)?;
        parts.spec(scope, problems)
    }
}

/// A setting that was given, and whether the source itself gives it.
fn part<'a, T>(own: Option<&'a Given<T>>, shared: &'a Given<T>) -> Option<(&'a Given<T>, bool)> {
    let own = own.filter(|own| !own.is_absent()).map(|own| (own, true));
    own.or_else(|| (!shared.is_absent()).then_some((shared, false)))
}

/// A kind of estimate and what goes with it, as far as it was given.
struct Parts<'a> {
    kind: RawWatermarkKind,
    /// Where it is said.
    table: Place,
    bound: Option<&'a Given<Length>>,
    percentile: Option<&'a Given<RawPercentile>>,
    mark: Option<&'a Given<String>>,
}

impl Parts<'_> {
    /// Reports what does not go with the kind; `None` if there is any.
    fn refuse_misplaced(&self, problems: &mut Problems) -> Option<()> {
        use RawWatermarkKind::{Bounded, Percentile, Punctuated};
        let kind = self.kind;
        let mut is_right = true;
        for (name, place, fits) in [
            ("out_of_orderness", self.bound.and_then(placed), &[Bounded, Percentile][..]),
            ("percentile", self.percentile.and_then(placed), &[Percentile]),
            ("mark", self.mark.and_then(placed), &[Punctuated]),
        ] {
            let Some(place) = place.filter(|_| !fits.contains(&kind)) else { continue };
            let article = if kind.name().starts_with(['e', 'i']) { "an" } else { "a" };
            let message =
                format!("`{name}` means nothing to {article} `{}` watermark", kind.name());
            let usual = fits.first().map_or("", |kind| kind.name());
            let help = format!("leave it out, or write kind = \"{usual}\"");
            problems.add_with_help(place, message, help);
            is_right = false;
        }
        is_right.then_some(())
    }

    fn spec(
        &self,
        scope: &Scope,
        problems: &mut Problems,
    ) -> Option<(WatermarkSpec, Option<TypedExpr>)> {
        use RawWatermarkKind::{Bounded, EndOfInput, Ingestion, Percentile, Punctuated};
        let mut wrong = |message: &str, help: &str| {
            problems.add_with_help(self.table, message, help);
            None
        };
        let spec = match (self.kind, self.bound, self.percentile, self.mark) {
            (EndOfInput, ..) => WatermarkSpec::EndOfInput,
            (Bounded, None, ..) => {
                return wrong(
                    "`watermark` lacks `out_of_orderness`",
                    "say how far behind the largest event time a record may come: \"2m\"",
                );
            }
            (Bounded, Some(bound), ..) => {
                WatermarkSpec::Bounded { out_of_orderness: bound.value()?.0 }
            }
            (Percentile, _, None, _) => {
                return wrong(
                    "`watermark` lacks `percentile`",
                    "say how many percent of the records shall be in time: 99",
                );
            }
            (Percentile, bound, Some(percentile), _) => {
                let least = bound.map_or(Some(Span::ZERO), |bound| Some(bound.value()?.0));
                let percentile = percentile.value()?.0;
                WatermarkSpec::Percentile { percentile, out_of_orderness: least? }
            }
            (Punctuated, .., None) => {
                return wrong(
                    "`watermark` lacks `mark`",
                    "say what a record promises: mark = \"kind == 'mark'\"",
                );
            }
            (Punctuated, .., Some(mark)) => {
                let mark = compile(mark.get()?, scope, problems)?;
                return Some((WatermarkSpec::Punctuated, Some(mark)));
            }
            (Ingestion, ..) if scope.is_flow => {
                return wrong(
                    "flows are split over the windows of their own times, not of their arrival",
                    "write kind = \"bounded\" and out_of_orderness",
                );
            }
            (Ingestion, ..) => WatermarkSpec::Ingestion,
        };
        Some((spec, None))
    }
}

/// What records promise.
fn compile(mark: &Spanned<String>, scope: &Scope, problems: &mut Problems) -> Option<TypedExpr> {
    let expression = match cel::compile(&mark.value, scope.known_fields()?) {
        Ok(expression) => expression,
        Err(errors) => {
            report(mark, errors, (scope, problems));
            return None;
        }
    };
    if Punctuation::accepts(expression.ty()) {
        return Some(expression);
    }
    let message = format!("a {} is no watermark", expression.kind());
    let help = "give a whole number, in ms since the Unix epoch, or a condition";
    problems.add_with_help(mark.place, message, help);
    None
}

/// Where a setting stands, if it was given.
fn placed<T>(given: &Given<T>) -> Option<Place> {
    given.get().map(|given| given.place)
}

/// A limit as given, or its default; `None` if it is wrong.
fn limit(given: &Given<Limit>, default: Option<Span>) -> Option<Option<Span>> {
    match given {
        Given::Value(limit) => Some(limit.value.0),
        Given::Absent => Some(default),
        Given::Wrong => None,
    }
}
