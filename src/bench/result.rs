//! Results of the engine and of the hand-written loop in one form, and their comparison.
//!
//! Nothing is rounded or left out: every pane of one side must be on the other, with equal values.

use super::BenchError;
use super::job::{CONVERSATION, Entity, SHAPES, Shape};
use nilometer_model::aggregate::ValuesRef;
use nilometer_model::pane::{PaneBatch, PaneKind, PaneMeta};
use nilometer_model::plan::{Plan, Stage};
use nilometer_model::symbol::Symbols;
use nilometer_model::value::{Datum, Value};
use std::fmt::Debug;
use std::time::Instant;

/// The seven aggregates of a pane, in the order of the job; truth values as 0 and 1.
pub(super) type Values = [Option<i128>; 7];

/// What stands for all entries that a list leaves out.
pub(super) const OTHER: &str = "__other";

/// The values of what a list leaves out: sums can be taken out of a total, truth values not.
pub(super) fn other_values(values: Values) -> Values {
    let [a, b, c, d, flows, _, _] = values;
    [a, b, c, d, flows, None, None]
}

/// One result: a pane of one of the eight groupings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pane {
    pub(super) grouping: &'static str,
    /// Start of its window.
    pub(super) start: i64,
    pub(super) exporter: String,
    pub(super) if_index: u32,
    pub(super) dscp: Option<u8>,
    /// What is listed, as text; empty where the grouping lists nothing.
    pub(super) entity: String,
    pub(super) values: Values,
}

/// The two sides differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Difference {
    /// A result that only one side has.
    #[error("only the {side} has {pane:?}")]
    OneSided {
        /// Which side.
        side: &'static str,
        /// The result.
        pane: Box<Pane>,
    },
    /// The engine gave a pane that the job does not know.
    #[error("the engine gave a pane of stage {stage} that cannot be: {meta:?}")]
    Unexpected {
        /// Number of the stage.
        stage: u16,
        /// What it said about itself.
        meta: Box<PaneMeta>,
    },
}

/// Compares the results of both sides, whatever their order.
pub(super) fn compare(mut engine: Vec<Pane>, mut limit: Vec<Pane>) -> Result<(), Difference> {
    engine.sort_unstable();
    limit.sort_unstable();
    if engine == limit {
        return Ok(());
    }
    let differ = engine.iter().zip(&limit).find(|(a, b)| a != b);
    let (side, pane) = match differ {
        Some((a, b)) if a < b => ("engine", a),
        Some((_, b)) => ("loop", b),
        None => match (engine.get(limit.len()), limit.get(engine.len())) {
            (Some(pane), _) => ("engine", pane),
            (None, Some(pane)) => ("loop", pane),
            (None, None) => return Ok(()),
        },
    };
    Err(Difference::OneSided { side, pane: Box::new(pane.clone()) })
}

/// Compares the results of both sides, of which there are many `what`, whatever their order.
pub(super) fn compare_all<T: Ord + Debug>(
    what: &str,
    mut engine: Vec<T>,
    mut by_hand: Vec<T>,
) -> Result<(), BenchError> {
    engine.sort_unstable();
    by_hand.sort_unstable();
    if engine == by_hand {
        return Ok(());
    }
    let differ = engine.iter().zip(&by_hand).find(|(engine, by_hand)| engine != by_hand);
    Err(BenchError::Results(match differ {
        Some((engine, by_hand)) => format!("{engine:?} of the engine, {by_hand:?} of the loop"),
        None => format!("{} {what} of the engine, {} of the loop", engine.len(), by_hand.len()),
    }))
}

/// The results that the engine's panes stand for.
pub(super) fn of_engine(
    batches: Vec<(PaneBatch, Instant)>,
    plan: &Plan,
    symbols: &Symbols,
) -> Result<Vec<Pane>, Difference> {
    let mut panes = Vec::new();
    for (batch, _) in batches {
        let stage = plan.stages.get(batch.stage.index());
        let shape = stage.and_then(|stage| SHAPES.iter().find(|shape| shape.name == &*stage.name));
        let widths = stage.map_or((0, 0), |stage| (stage.key.words(), stage.aggregates.words()));
        for (meta, key, values) in batch.iter(widths.0, widths.1) {
            // Every window fires once: no pane is taken back or comes a second time.
            let (Some(stage), Some(shape), PaneKind::Insert, 0) =
                (stage, shape, meta.kind, meta.index)
            else {
                let (stage, meta) = (batch.stage.0, Box::new(*meta));
                return Err(Difference::Unexpected { stage, meta });
            };
            panes.push(pane((stage, *shape), meta, (key, values), symbols));
        }
    }
    Ok(panes)
}

fn pane(
    (stage, shape): (&Stage, Shape),
    meta: &PaneMeta,
    (key, values): (&[u64], ValuesRef<'_>),
    symbols: &Symbols,
) -> Pane {
    let field = |name: &str| {
        let datum = stage.key.field(name).map_or(Datum::Null, |field| stage.key.read(key, field));
        datum.value(symbols)
    };
    let entity = match shape.entity {
        Entity::Total => String::new(),
        _ if meta.is_other => OTHER.to_owned(),
        Entity::Application => text(&field("application")),
        Entity::Host => text(&field("host")),
        Entity::Conversation => CONVERSATION.map(|name| text(&field(name))).join(" "),
    };
    let number = |value: &Value| match value {
        Value::Int(number) => u32::try_from(*number).ok(),
        _ => None,
    };
    let mut results = [None; 7];
    for (index, value) in results.iter_mut().enumerate() {
        *value = match stage.aggregates.finish(values, index) {
            Datum::Int(number) => Some(number),
            Datum::Bool(truth) => Some(truth.into()),
            _ => None,
        };
    }
    Pane {
        grouping: shape.name,
        start: meta.window.start().as_millis(),
        exporter: text(&field("exporter")),
        if_index: number(&field("if_index")).unwrap_or(0),
        dscp: number(&field("dscp")).and_then(|number| u8::try_from(number).ok()),
        entity,
        values: results,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) | Value::Object(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Ip(address) => address.to_string(),
        Value::Null | Value::Bool(_) | Value::Float(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane(entity: &str, bytes: i128) -> Pane {
        Pane {
            grouping: "EXPORTER_INTERFACE_HOST",
            start: 0,
            exporter: "{}".to_owned(),
            if_index: 1,
            dscp: None,
            entity: entity.to_owned(),
            values: [Some(bytes), None, None, None, None, None, None],
        }
    }

    #[test]
    fn order_does_not_matter_and_every_difference_is_found() {
        let (a, b) = (pane("a", 1), pane("b", 2));
        let side = |engine: &[&Pane], limit: &[&Pane]| {
            let owned = |panes: &[&Pane]| panes.iter().map(|pane| (*pane).clone()).collect();
            match compare(owned(engine), owned(limit)) {
                Ok(()) => None,
                Err(Difference::OneSided { side, pane }) => Some((side, pane.entity)),
                Err(Difference::Unexpected { .. }) => None,
            }
        };
        assert_eq!(side(&[&a, &b], &[&b, &a]), None);
        assert_eq!(side(&[&a, &b], &[&a]), Some(("engine", "b".to_owned())));
        assert_eq!(side(&[&b], &[&a, &b]), Some(("loop", "a".to_owned())));
        assert_eq!(side(&[], &[&a]), Some(("loop", "a".to_owned())));
        assert_eq!(side(&[&pane("a", 2)], &[&a]), Some(("loop", "a".to_owned())));
    }
}
