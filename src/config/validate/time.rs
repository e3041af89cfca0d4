//! The watermark: how far event time has certainly come.

use crate::config::node::Origin;
use crate::config::problem::Problems;
use crate::config::raw::quantity::Limit;
use crate::config::raw::reader::Given;
use crate::config::raw::scalar::Choice;
use crate::config::raw::{RawConfig, RawWatermarkKind};
use crate::config::settings::{Setting, insert};
use nilometer_model::time::Span;
use nilometer_model::watermark::{WatermarkSettings, WatermarkSpec};
use nilometer_model::window::display_span;
use serde_json::Value as Json;

/// A source that is silent for so long holds nothing back, where sources are live.
const IDLE_AFTER: Span = Span::from_millis(30_000);
/// How far ahead of the clock an event time may move the watermark, where sources are live.
const MAX_FUTURE_SKEW: Span = Span::from_millis(300_000);

/// The watermark settings; defaults depend on whether a source is live and join `settings`.
pub(crate) fn watermark(
    raw: &RawConfig,
    is_live: bool,
    (settings, problems): (&mut Vec<Setting>, &mut Problems),
) -> Option<WatermarkSettings> {
    let raw = raw.watermark.value()?;
    let mut default = |name: &str, value: String| {
        let path = ["watermark".to_owned(), name.to_owned()];
        insert(settings, Setting::new(&path, Json::from(value), Origin::Default));
    };
    let kind = match &raw.kind {
        Given::Value(kind) if is_live && kind.value == RawWatermarkKind::EndOfInput => {
            problems.add_with_help(
                kind.place,
                "`end_of_input` never comes: a source is live",
                "write kind = \"bounded\" and out_of_orderness",
            );
            return None;
        }
        Given::Value(kind) => kind.value,
        Given::Wrong => return None,
        Given::Absent => {
            // Whoever says how late records may come wants the watermark to follow them.
            let is_bounded = is_live || !raw.out_of_orderness.is_absent();
            let kind =
                if is_bounded { RawWatermarkKind::Bounded } else { RawWatermarkKind::EndOfInput };
            default("kind", kind.name().into());
            kind
        }
    };
    let mut limit = |given: &Given<Limit>, name: &str, live: Span| match given {
        Given::Value(limit) => limit.value.0,
        Given::Wrong | Given::Absent => {
            let limit = is_live.then_some(live);
            default(name, limit.map_or_else(|| "off".into(), display_span));
            limit
        }
    };
    let idle_after = limit(&raw.idle_after, "idle_after", IDLE_AFTER);
    let max_future_skew = limit(&raw.max_future_skew, "max_future_skew", MAX_FUTURE_SKEW);
    let spec = match (kind, &raw.out_of_orderness) {
        (RawWatermarkKind::EndOfInput, Given::Value(bound)) => {
            problems.add_with_help(
                bound.place,
                "`out_of_orderness` means nothing to an `end_of_input` watermark",
                "leave it out, or write kind = \"bounded\"",
            );
            return None;
        }
        (RawWatermarkKind::EndOfInput, Given::Absent) => WatermarkSpec::EndOfInput,
        (RawWatermarkKind::Bounded, Given::Value(bound)) => {
            WatermarkSpec::Bounded { out_of_orderness: bound.value.0 }
        }
        (RawWatermarkKind::Bounded, Given::Absent) => {
            problems.add_with_help(
                raw.place,
                "`watermark` lacks `out_of_orderness`",
                "say how far behind the largest event time a record may come: \"2m\"",
            );
            return None;
        }
        (RawWatermarkKind::EndOfInput | RawWatermarkKind::Bounded, Given::Wrong) => return None,
    };
    Some(WatermarkSettings { spec, idle_after, max_future_skew })
}
