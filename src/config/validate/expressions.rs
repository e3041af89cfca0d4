//! The filter and derived fields.

use super::groups::Scope;
use super::names::check_word;
use crate::cel::{self, CelError};
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::lists::Names;
use crate::config::raw::reader::{Given, Spanned};
use nilometer_model::expr::TypedExpr;
use nilometer_model::plan::Grouping;
use nilometer_model::row::Field;
use std::collections::BTreeSet;

/// Expressions of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    /// Fields computed from others, in this order.
    pub(crate) derived: Vec<(Box<str>, TypedExpr)>,
    /// Condition on records.
    pub(crate) filter: Option<TypedExpr>,
}

impl Expressions {
    /// Compiles the expressions and adds derived fields to `scope`; what is wrong is reported and
    /// left out.
    pub(crate) fn new(raw: &RawConfig, scope: &mut Scope, problems: &mut Problems) -> Self {
        Self::over((&raw.derive, &raw.filter), "records already have a field", scope, problems)
    }

    /// As [`Self::new`], of these settings; `taken` says that a name is taken.
    pub(crate) fn over(
        (derive, filter): (&Given<Names<String>>, &Given<String>),
        taken: &str,
        scope: &mut Scope,
        problems: &mut Problems,
    ) -> Self {
        let mut expressions = Self::default();
        let derived = derive.value().map_or(&[][..], |derive| &derive.names);
        for (name, source) in derived {
            check_word(&name.value, "field", name.place, problems);
            if scope.ty(&name.value).is_some() {
                let message = format!("{taken} `{}`", name.value);
                problems.add_with_help(name.place, message, "give it another name");
                continue;
            }
            let Some(fields) = scope.known_fields() else { continue };
            match cel::compile(&source.value, fields) {
                Ok(expr) => {
                    if let Some(ty) = expr.ty() {
                        scope.add(Field::new(&name.value, ty));
                    }
                    expressions.derived.push((name.value.as_str().into(), expr));
                }
                Err(errors) => {
                    report(source, errors, (scope, problems));
                    scope.forget(&name.value);
                }
            }
        }
        if let Some((filter, fields)) = filter.get().zip(scope.known_fields()) {
            match cel::compile_filter(&filter.value, fields) {
                Ok(expr) => expressions.filter = Some(expr),
                Err(errors) => report(filter, errors, (scope, problems)),
            }
        }
        expressions
    }

    /// Fields that rows must carry for the expressions, given what the groupings read.
    pub(crate) fn fields(&self, groupings: &[Grouping]) -> Vec<Box<str>> {
        // Others name fields of results.
        let of_records = || groupings.iter().filter(|grouping| grouping.of.is_none());
        let columns = of_records().flat_map(|grouping| &grouping.key);
        let aggregates = of_records().flat_map(|grouping| &grouping.aggregates);
        let read = columns.flat_map(|column| &column.each);
        let read = read.chain(aggregates.flat_map(|aggregate| &aggregate.fields));
        let read = read.chain(of_records().filter_map(|grouping| grouping.gap_field.as_ref()));
        let mut read: BTreeSet<&str> = read.map(|field| &**field).collect();
        read.extend(
            of_records().flat_map(|grouping| &grouping.sequence).flat_map(|it| it.fields()),
        );
        let mut extra: BTreeSet<&str> = self.filter.iter().flat_map(TypedExpr::fields).collect();
        read.extend(&extra);
        // A derived field uses only those above it, so one pass from the last finds all.
        for (name, expr) in self.derived.iter().rev() {
            if read.contains(&**name) {
                read.extend(expr.fields());
                extra.extend(expr.fields());
            }
        }
        extra.into_iter().map(Into::into).collect()
    }
}

/// Reports what is wrong with an expression.
pub(crate) fn report(
    source: &Spanned<String>,
    errors: Vec<CelError>,
    (scope, problems): (&Scope, &mut Problems),
) {
    for error in errors {
        let range = error.offset..error.offset.saturating_add(error.length);
        // A field that could not be derived has been reported where it is.
        if source.value.get(range.clone()).is_some_and(|name| scope.is_broken(name)) {
            continue;
        }
        let place = source.place.inside(source.value.len(), range);
        match error.help {
            Some(help) => problems.add_with_help(place, error.message, help),
            None => problems.add(place, error.message),
        }
    }
}
