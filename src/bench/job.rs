//! What is measured: the eight groupings of flow records, in one-minute windows.
//!
//! The same job for the engine and for the hand-written loop. No state outlives its window, so that
//! memory shows the keys of one window and neither side keeps more than it needs.

use nilometer_model::aggregate::Function;
use nilometer_model::flow::FLOW_FIELDS;
use nilometer_model::pane::AccumulationMode;
use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn, Spread, Ties, TopKSpec};
use nilometer_model::row::Field;
use nilometer_model::time::Span;
use nilometer_model::trigger::Trigger;
use nilometer_model::window::{Phase, WindowFn};

/// Length of a window.
pub(super) const WINDOW: Span = Span::from_millis(60_000);

/// How far behind the newest record the watermark stays.
pub(super) const OUT_OF_ORDERNESS: Span = Span::from_millis(10_000);

/// Entries of a top list.
pub(super) const TOP_K: usize = 10;

/// Name of the only sink.
pub(super) const SINK: &str = "panes";

/// What a top list lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entity {
    /// Nothing is listed: the grouping is emitted in full.
    Total,
    Application,
    Conversation,
    Host,
}

/// One of the eight groupings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) has_tos: bool,
    pub(super) entity: Entity,
}

const fn shape(name: &'static str, has_tos: bool, entity: Entity) -> Shape {
    Shape { name, has_tos, entity }
}

/// The eight groupings.
pub(super) const SHAPES: [Shape; 8] = [
    shape("EXPORTER_INTERFACE", false, Entity::Total),
    shape("EXPORTER_INTERFACE_TOS", true, Entity::Total),
    shape("EXPORTER_INTERFACE_APPLICATION", false, Entity::Application),
    shape("EXPORTER_INTERFACE_TOS_APPLICATION", true, Entity::Application),
    shape("EXPORTER_INTERFACE_CONVERSATION", false, Entity::Conversation),
    shape("EXPORTER_INTERFACE_TOS_CONVERSATION", true, Entity::Conversation),
    shape("EXPORTER_INTERFACE_HOST", false, Entity::Host),
    shape("EXPORTER_INTERFACE_TOS_HOST", true, Entity::Host),
];

/// Fields of a conversation, in key order.
pub(super) const CONVERSATION: [&str; 5] =
    ["location", "protocol", "address_lower", "address_upper", "application"];

impl Shape {
    /// Key columns of what is listed.
    fn entity_columns(self) -> Vec<KeyColumn> {
        match self.entity {
            Entity::Total => Vec::new(),
            Entity::Application => vec![KeyColumn::plain("application")],
            Entity::Conversation => CONVERSATION.map(KeyColumn::plain).to_vec(),
            Entity::Host => vec![KeyColumn {
                name: "host".into(),
                each: vec!["address_lower".into(), "address_upper".into()],
            }],
        }
    }

    fn grouping(self) -> Grouping {
        let entity = self.entity_columns();
        let parent = ["exporter", "if_index"].into_iter().chain(self.has_tos.then_some("dscp"));
        let names: Vec<Box<str>> = entity.iter().map(|column| column.name.clone()).collect();
        let top_k = (!names.is_empty()).then(|| TopKSpec {
            k: TOP_K,
            entity: names,
            rank: vec!["bytes_ingress".into(), "bytes_egress".into()],
            require: Vec::new(),
            other: true,
            ties: Ties::Ascending,
        });
        Grouping {
            name: self.name.into(),
            key: parent.map(KeyColumn::plain).chain(entity).collect(),
            window: WindowFn::Fixed { size: WINDOW, offset: 0, phase: Phase::Aligned },
            trigger: Trigger::default_trigger(),
            emission: nilometer_model::pane::Emission::default(),
            gap_field: None,
            allow_closing: false,
            mode: AccumulationMode::Discarding,
            allowed_lateness: Span::ZERO,
            aggregates: aggregates(self.entity == Entity::Host),
            top_k,
            sinks: vec![SINK.into()],
            late: None,
            of: None,
            sequence: None,
        }
    }
}

/// The aggregates of every grouping; where a record counts for two hosts, so do its values.
fn aggregates(is_twofold: bool) -> Vec<AggregateSpec> {
    let times = if is_twofold { 2 } else { 1 };
    let of = |name: &str, function: Function, is_split: bool| AggregateSpec {
        name: name.into(),
        function,
        fields: vec![name.into(); times],
        spread: is_split,
    };
    vec![
        of("bytes_ingress", Function::Sum, true),
        of("bytes_egress", Function::Sum, true),
        of("packets_ingress", Function::Sum, true),
        of("packets_egress", Function::Sum, true),
        AggregateSpec {
            name: "flows".into(),
            function: Function::Count,
            fields: Vec::new(),
            spread: false,
        },
        of("congestion_encountered", Function::Max, false),
        of("non_ect", Function::Max, false),
    ]
}

/// The job, with the cascade or with eight passes over the records.
pub(super) fn job(cascade: bool) -> Job {
    Job {
        name: "bench".into(),
        fields: FLOW_FIELDS.iter().map(|info| Field::new(info.name, info.ty)).collect(),
        groupings: SHAPES.map(Shape::grouping).to_vec(),
        shard_by: None,
        key_groups: nilometer_model::key::KEY_GROUPS,
        extra_fields: Vec::new(),
        spread: Some(Spread {
            first: "first_switched".into(),
            last: "last_switched".into(),
            max_duration: None,
        }),
        phase: None,
        cascade,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_model::planner::plan;

    #[test]
    fn the_cascade_reads_records_few_times_and_without_it_every_grouping_does() {
        assert!(plan(&job(true)).unwrap().record_reads() <= 3);
        assert_eq!(plan(&job(false)).unwrap().record_reads(), 8);
    }
}
