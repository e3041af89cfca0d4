//! The watermark: how far event time has certainly come, over all sources.

use super::estimates::{IDLE_AFTER, MAX_FUTURE_SKEW, Said, default_kind};
use super::groups::Scope;
use super::inputs::Input;
use crate::config::node::Origin;
use crate::config::pipeline::{SourceConfig, SourceKind, SourceWatermark};
use crate::config::problem::Problems;
use crate::config::raw::RawConfig;
use crate::config::raw::reader::Given;
use crate::config::raw::scalar::Choice;
use crate::config::raw::watermark::{RawAllIdle, RawWatermark};
use crate::config::settings::{Setting, insert};
use nilometer_model::expr::TypedExpr;
use nilometer_model::watermark::{AllIdle, ProgressRules};
use nilometer_model::window::display_span;
use serde_json::Value as Json;
use std::path::PathBuf;

/// The watermarks of a pipeline.
#[derive(Debug)]
pub(crate) struct Watermarks {
    /// What holds over all sources.
    pub(crate) rules: ProgressRules,
    /// What holds for a source; that of the first, if there are any.
    pub(crate) first: SourceWatermark,
    /// The sources, a partition each.
    pub(crate) sources: Vec<SourceConfig>,
}

impl Watermarks {
    /// Fields that rows must carry because records say by them what they promise.
    pub(crate) fn fields(&self) -> Vec<Box<str>> {
        let marks = self.sources.iter().filter_map(|source| source.watermark.mark.as_ref());
        let marks = marks.chain(&self.first.mark);
        marks.flat_map(TypedExpr::fields).map(Into::into).collect()
    }
}

/// Decides how watermarks are estimated; defaults depend on whether a source is live and join
/// `settings`. `None` if anything is wrong, which has then been reported.
pub(crate) fn watermarks(
    raw: &RawConfig,
    inputs: &[Input<'_>],
    scope: &Scope,
    (settings, problems): (&mut Vec<Setting>, &mut Problems),
) -> Option<Watermarks> {
    let raw = raw.watermark.value()?;
    let is_any_live = inputs.iter().any(|input| input.kind.is_live());
    list_defaults(raw, is_any_live, settings);
    let partitions: usize = inputs.iter().map(Input::partitions).sum();
    let mut sources = Some(Vec::new());
    for input in inputs {
        let own = match input.watermark {
            Given::Value(own) => Some(&own.value),
            Given::Absent => None,
            Given::Wrong => {
                sources = None;
                continue;
            }
        };
        let is_live = input.kind.is_live();
        let said = Said { own, shared: raw, is_live, is_any_live, partitions };
        match (&mut sources, said.estimate(scope, problems)) {
            (Some(sources), Some(watermark)) => sources.extend(expand(input, &watermark)),
            (_, None) => sources = None,
            (None, Some(_)) => {}
        }
    }
    let first = match sources.as_ref().and_then(|sources| sources.first()) {
        Some(first) => Some(first.watermark.clone()),
        None if inputs.is_empty() => {
            let said = Said { own: None, shared: raw, is_live: false, is_any_live, partitions };
            said.estimate(scope, problems)
        }
        None => None,
    };
    let rules = rules(raw, sources.as_deref(), problems);
    Some(Watermarks { rules: rules?, first: first?, sources: sources? })
}

/// The source, or one for each of its files.
fn expand(input: &Input<'_>, watermark: &SourceWatermark) -> Vec<SourceConfig> {
    match (&input.kind, input.per_file) {
        (SourceKind::Files { paths, format, line_bytes_max }, true) => {
            let (format, line_bytes_max) = (*format, *line_bytes_max);
            let one = |(number, path): (usize, &PathBuf)| SourceConfig {
                name: format!("{}.{number}", input.name),
                kind: SourceKind::Files { paths: vec![path.clone()], format, line_bytes_max },
                watermark: watermark.clone(),
            };
            paths.iter().enumerate().map(one).collect()
        }
        (kind, _) => {
            let (name, kind) = (input.name.clone(), kind.clone());
            vec![SourceConfig { name, kind, watermark: watermark.clone() }]
        }
    }
}

/// No hidden defaults: what follows from the sources is listed as well.
fn list_defaults(raw: &RawWatermark, is_live: bool, settings: &mut Vec<Setting>) {
    let mut default = |name: &str, value: String| {
        let path = ["watermark".to_owned(), name.to_owned()];
        insert(settings, Setting::new(&path, Json::from(value), Origin::Default));
    };
    if raw.kind.is_absent() {
        default("kind", default_kind(raw, is_live).name().into());
    }
    for (given, name, live) in [
        (&raw.idle_after, "idle_after", IDLE_AFTER),
        (&raw.max_future_skew, "max_future_skew", MAX_FUTURE_SKEW),
    ] {
        if given.is_absent() {
            default(name, if is_live { display_span(live) } else { "off".into() });
        }
    }
}

fn rules(
    raw: &RawWatermark,
    sources: Option<&[SourceConfig]>,
    problems: &mut Problems,
) -> Option<ProgressRules> {
    let all_idle = raw.all_idle.get()?;
    let rules = ProgressRules {
        all_idle: match &all_idle.value {
            RawAllIdle::Hold => AllIdle::Hold,
            RawAllIdle::Advance(advance) => AllIdle::Advance(advance.advance.value()?.0),
        },
        max_drift: raw.max_drift.value()?.0,
        close_after: raw.close_after.value()?.0,
    };
    let is_never = |source: &SourceConfig| source.watermark.settings.idle_after.is_none();
    if rules.all_idle != AllIdle::Hold && sources?.iter().all(is_never) {
        problems.add_with_help(
            all_idle.place,
            "`all_idle` means nothing here: no source is ever idle",
            "say when one is: idle_after = \"30s\"",
        );
        return None;
    }
    Some(rules)
}
