//! From the planner's decision to stages: names become slots, projections are compiled, a top-K
//! grows its stage of full sums, and every stage learns whether its input is exchanged.

use super::derive::{Node, aggregate_sources, column_sources};
use super::results::{read_fields, source};
use super::{PlanError, copies, fields_of, results_layout, type_of, window_fields};
use crate::aggregate::AggregateLayout;
use crate::engine::Engine;
use crate::key::{KeyLayout, KeyPacker};
use crate::pane::StageId;
use crate::plan::{
    ChangeInput, Exchange, Grouping, Job, OfSpec, PaneCopy, PaneInput, Plan, RecordCopy,
    RecordInput, ResultSource, SequenceInput, SpreadSlots, Stage, StageInput, StageKind, TopK,
    TopKSpec,
};
use crate::row::{Field, RowLayout, Slot};
use crate::sequence::record_fields;
use crate::trigger::Trigger;
use crate::value::Type;
use crate::window::WindowFn;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Suffix of the stage that keeps the full sums below a top-K.
pub(super) const ALL: &str = "/all";

pub(super) fn compile(job: &Job, nodes: &[Node]) -> Result<Plan, PlanError> {
    let shard_by = shard_by(job, nodes)?;
    let row = row_layout(job, nodes, &shard_by)?;
    let mut compiler = Compiler {
        job,
        row: Arc::new(row),
        stages: Vec::new(),
        sums: vec![StageId(0); job.groupings.len()],
        routes: Vec::new(),
    };
    for node in nodes {
        compiler.add(node, &shard_by);
    }
    for node in nodes {
        compiler.route_late(node.grouping);
    }
    let inputs: Vec<_> = compiler.stages.iter().map(|stage| stage.input.clone()).collect();
    for input in inputs {
        let parent = input.parent().and_then(|id| compiler.stages.get_mut(id.index()));
        let Some(parent) = parent else { continue };
        match input {
            StageInput::Records(_) => {}
            StageInput::Panes(_) => parent.has_children = true,
            StageInput::Changes(_) => parent.tells_changes = true,
        }
    }
    // A stage that reads panes fires with the one that it reads.
    let mut shares: Vec<_> =
        compiler.stages.iter().flat_map(|stage| stage.trigger.percentiles()).collect();
    shares.sort_unstable();
    shares.dedup();
    Ok(Plan {
        name: job.name.clone(),
        shares,
        row: compiler.row,
        stages: compiler.stages,
        shard_by,
        key_groups: job.key_groups.max(1),
        engine: Engine::Streaming,
    })
}

/// Fields that hold still over all copies of a record, in key order.
fn plain_fields(grouping: &Grouping) -> Vec<Box<str>> {
    let columns = grouping.key.iter();
    columns
        .filter_map(|column| match column.each.as_slice() {
            [only] if *only == column.name => Some(only.clone()),
            _ => None,
        })
        .collect()
}

/// The parent key of a top-K, the whole key of other groupings: what places its last stage.
fn placing_fields(grouping: &Grouping) -> Vec<Box<str>> {
    let mut fields = plain_fields(grouping);
    if let Some(top_k) = &grouping.top_k {
        fields.retain(|field| !top_k.entity.contains(field));
    }
    fields
}

/// Decides what places records on shards: what the user says, else the fields that all groupings
/// share, else those that the record-reading ones share.
fn shard_by(job: &Job, nodes: &[Node]) -> Result<Vec<Box<str>>, PlanError> {
    let reads_records =
        |index: usize| nodes.iter().any(|node| node.grouping == index && node.parent.is_none());
    let shared = |of: &mut dyn Iterator<Item = Vec<Box<str>>>| {
        let first = of.next().unwrap_or_default();
        of.fold(first, |kept, fields| kept.into_iter().filter(|f| fields.contains(f)).collect())
    };
    let mut roots = job
        .groupings
        .iter()
        .enumerate()
        .filter(|(index, _)| reads_records(*index))
        .map(|(_, grouping)| plain_fields(grouping));
    let by_roots = shared(&mut roots);
    if let Some(wanted) = &job.shard_by {
        if let Some(field) = wanted.iter().find(|field| !by_roots.contains(field)) {
            return Err(PlanError::NotSharded { field: field.clone() });
        }
        return Ok(wanted.clone());
    }
    let by_all: Vec<_> = shared(&mut job.groupings.iter().map(placing_fields));
    let by_all: Vec<_> = by_all.into_iter().filter(|field| by_roots.contains(field)).collect();
    Ok(if by_all.is_empty() { by_roots } else { by_all })
}

/// Every field that a record-reading stage, the placing, or the caller reads.
fn row_layout(job: &Job, nodes: &[Node], shard_by: &[Box<str>]) -> Result<RowLayout, PlanError> {
    let mut read: BTreeSet<&str> = BTreeSet::new();
    for node in nodes.iter().filter(|node| node.parent.is_none()) {
        let Some(grouping) = job.groupings.get(node.grouping) else { continue };
        read.extend(grouping.key.iter().flat_map(|column| &column.each).map(|name| &**name));
        let aggregates = grouping.aggregates.iter();
        read.extend(aggregates.flat_map(|aggregate| &aggregate.fields).map(|name| &**name));
        read.extend(grouping.gap_field.as_deref());
        read.extend(grouping.sequence.iter().flat_map(|sequence| sequence.fields()));
        read.extend(window_fields(grouping));
        if grouping.window.is_by_key() {
            read.extend(job.phase.as_ref().map(|phase| &*phase.field));
        }
    }
    read.extend(job.extra_fields.iter().chain(shard_by).map(|name| &**name));
    if let Some(spread) = &job.spread {
        read.extend([&*spread.first, &*spread.last]);
    }
    let fields: Vec<_> =
        job.fields.iter().filter(|field| read.contains(&*field.name)).cloned().collect();
    if fields.len() > RowLayout::FIELDS_MAX {
        return Err(PlanError::TooManyFields { fields: fields.len(), max: RowLayout::FIELDS_MAX });
    }
    Ok(RowLayout::new(fields))
}

/// A stage with the key and aggregates of `below`, numbered `number`, that reads its deltas.
fn above(below: &Stage, number: usize) -> Stage {
    let fields: Vec<_> = (0..below.key.fields().len()).collect();
    let copy = PaneCopy {
        key: KeyPacker::from_key(&below.key, &below.key, &fields),
        from: (0..below.aggregates.accumulators().len()).collect(),
        is_plain: true,
    };
    let input = PaneInput { parent: below.id, copies: vec![copy], same_window: true };
    Stage {
        id: StageId(number as u16),
        input: StageInput::Panes(input),
        reason: format!("reads the full sums {}{ALL}", below.name),
        rejected: Vec::new(),
        ..below.clone()
    }
}

/// Makes a stage a list of the largest entries of what it reads.
fn list(spec: &TopKSpec, stage: Stage) -> Stage {
    let fields = stage.key.fields();
    let number = |name: &str| stage.key.field(name);
    let is_entity =
        |field: &usize| fields.get(*field).is_some_and(|field| spec.entity.contains(&field.name));
    let parents: Vec<_> = (0..fields.len()).filter(|field| !is_entity(field)).collect();
    let parent = KeyLayout::new(parents.iter().filter_map(|field| fields.get(*field).cloned()));
    let top_k = TopK {
        k: spec.k,
        parent_of: KeyPacker::from_key(&parent, &stage.key, &parents),
        parent,
        entity: spec.entity.iter().filter_map(|name| number(name)).collect(),
        rank: spec.rank.iter().filter_map(|name| stage.aggregates.find(name)).collect(),
        require: spec.require.iter().filter_map(|name| number(name)).collect(),
        other: spec.other,
        ties: spec.ties,
        of_results: stage.kind == StageKind::Results,
    };
    let reason = format!("{}; lists the {} largest of each parent key", stage.reason, spec.k);
    Stage { kind: StageKind::TopK, top_k: Some(top_k), reason, ..stage }
}

struct Compiler<'a> {
    job: &'a Job,
    row: Arc<RowLayout>,
    stages: Vec<Stage>,
    /// By grouping: the stage of its full sums.
    sums: Vec<StageId>,
    /// By stage: the fields that place its keys.
    routes: Vec<Vec<Box<str>>>,
}

impl Compiler<'_> {
    fn add(&mut self, node: &Node, shard_by: &[Box<str>]) {
        let Some(grouping) = self.job.groupings.get(node.grouping) else { return };
        let key = KeyLayout::new(grouping.key.iter().map(|column| Field {
            name: column.name.clone(),
            ty: self.type_of(grouping, column.each.first().map(|name| &**name)),
        }));
        let aggregates = results_layout(grouping, &fields_of(self.job, grouping));
        let sequence = self.sequence_input(grouping, &key);
        let input = match (node.parent, &grouping.of) {
            (None, _) => StageInput::Records(self.record_input(grouping, &key, &self.row)),
            (Some(parent), Some(of)) => {
                StageInput::Changes(self.change_input((grouping, of), parent, (&key, &aggregates)))
            }
            (Some(parent), None) => {
                StageInput::Panes(self.pane_input(grouping, parent, (&key, &aggregates)))
            }
        };
        let parent_route =
            input.parent().map_or_else(|| shard_by.to_vec(), |parent| self.route(parent));
        let id = StageId(self.stages.len() as u16);
        let stage = Stage {
            id,
            name: grouping.name.clone(),
            kind: match &input {
                StageInput::Records(_) if sequence.is_some() => StageKind::Sequence,
                StageInput::Records(_) => StageKind::Window,
                StageInput::Panes(_) => StageKind::Rollup,
                StageInput::Changes(_) => StageKind::Results,
            },
            key,
            aggregates,
            window: grouping.window,
            trigger: match &input {
                // It goes with the stage below, whose trigger is the same.
                StageInput::Panes(_) if !grouping.trigger.is_default() => Trigger::continuation(),
                StageInput::Panes(_) | StageInput::Records(_) | StageInput::Changes(_) => {
                    grouping.trigger.clone()
                }
            },
            mode: grouping.mode,
            emission: grouping.emission,
            allowed_lateness: grouping.allowed_lateness,
            sinks: grouping.sinks.clone(),
            late: Vec::new(),
            top_k: None,
            sequence,
            has_children: false,
            tells_changes: false,
            exchange: None,
            reason: node.reason.clone(),
            rejected: node.rejected.clone(),
            input,
        };
        if let Some(sums) = self.sums.get_mut(node.grouping) {
            *sums = id;
        }
        let placing = plain_fields(grouping);
        match &grouping.top_k {
            None => self.push(stage, parent_route, (&placing, &placing)),
            // Nobody else reads its full sums, and they come as panes: the list takes those itself.
            Some(spec) if matches!(stage.input, StageInput::Panes(_)) && !node.is_parent => {
                let listed = placing_fields(grouping);
                self.push(list(spec, stage), parent_route, (&listed, &listed));
            }
            Some(spec) => {
                let listed = placing_fields(grouping);
                let name: Box<str> = [&grouping.name, ALL].concat().into();
                let sums = Stage { name, sinks: Vec::new(), ..stage.clone() };
                self.push(sums, parent_route, (&placing, &listed));
                let stage = list(spec, above(&stage, self.stages.len()));
                self.push(stage, self.route(id), (&listed, &listed));
            }
        }
    }

    /// Adds a stage. It is local if its `placing` fields contain the parent's route: all deltas of
    /// one key then come from one shard. Else its input is exchanged by `fallback`.
    fn push(
        &mut self,
        mut stage: Stage,
        parent_route: Vec<Box<str>>,
        (placing, fallback): (&[Box<str>], &[Box<str>]),
    ) {
        let is_record_stage = matches!(stage.input, StageInput::Records(_));
        let is_local = parent_route.iter().all(|field| placing.contains(field));
        if is_record_stage || is_local && !parent_route.is_empty() {
            self.routes.push(parent_route);
        } else {
            let numbers: Vec<_> =
                fallback.iter().filter_map(|field| stage.key.field(field)).collect();
            let layout = KeyLayout::new(
                numbers.iter().filter_map(|number| stage.key.fields().get(*number).cloned()),
            );
            let packer = KeyPacker::from_key(&layout, &stage.key, &numbers);
            // Without a field to place by, the route is empty and one shard owns every key: it is
            // local when the parent's is, too.
            let is_same_shard = parent_route.is_empty() && fallback.is_empty();
            let fields = fallback.to_vec();
            stage.exchange =
                (!is_same_shard).then(|| Exchange { fields: fields.clone(), layout, packer });
            self.routes.push(fields);
        }
        self.stages.push(stage);
    }

    /// Sends the late copies of a grouping from where its records are read.
    fn route_late(&mut self, grouping: usize) {
        let late = self.job.groupings.get(grouping).and_then(|grouping| grouping.late.as_ref());
        let (Some(late), Some(sums)) = (late, self.sums.get(grouping)) else { return };
        let mut reader = *sums;
        while let Some(below) =
            self.stages.get(reader.index()).and_then(|stage| stage.input.parent())
        {
            reader = below;
        }
        let Some(stage) = self.stages.get_mut(reader.index()) else { return };
        match stage.late.iter_mut().find(|known| known.sink == late.sink) {
            Some(known) => known.include_late |= late.include_late,
            None => stage.late.push(late.clone()),
        }
    }

    fn route(&self, stage: StageId) -> Vec<Box<str>> {
        self.routes.get(stage.index()).cloned().unwrap_or_default()
    }

    fn type_of(&self, grouping: &Grouping, field: Option<&str>) -> Type {
        field.and_then(|name| type_of(self.job, grouping, name)).unwrap_or(Type::U64)
    }

    fn slot(&self, field: &str) -> Option<Slot> {
        self.row.slot(field)
    }

    /// How a grouping reads the rows of `layout`.
    fn record_input(
        &self,
        grouping: &Grouping,
        key: &KeyLayout,
        layout: &RowLayout,
    ) -> RecordInput {
        let nth = |fields: &[Box<str>], copy: usize| {
            let name = fields.get(copy).or_else(|| fields.first())?;
            layout.slot(name)
        };
        let copies = (0..copies(grouping)).map(|copy| {
            let slots: Vec<_> =
                grouping.key.iter().filter_map(|column| nth(&column.each, copy)).collect();
            RecordCopy {
                key: KeyPacker::from_row(key, &slots),
                inputs: grouping
                    .aggregates
                    .iter()
                    .map(|aggregate| nth(&aggregate.fields, copy))
                    .collect(),
            }
        });
        // Windows that follow from their records have no parts: a record counts where it ends.
        let has_parts = match grouping.window {
            WindowFn::Session { .. } | WindowFn::Custom(_) => false,
            WindowFn::Global
            | WindowFn::Fixed { .. }
            | WindowFn::Sliding { .. }
            | WindowFn::Calendar(_) => true,
        };
        let reads_records = grouping.of.is_none();
        let spread = self.job.spread.as_ref().filter(|_| has_parts && reads_records);
        let spread = spread.and_then(|spread| {
            Some(SpreadSlots {
                first: self.slot(&spread.first)?,
                last: self.slot(&spread.last)?,
                max_duration: spread.max_duration,
            })
        });
        let phase = self.job.phase.as_ref().filter(|_| reads_records);
        let phase = phase.and_then(|phase| self.slot(&phase.field));
        RecordInput {
            copies: copies.collect(),
            spread,
            is_spread: grouping.aggregates.iter().map(|aggregate| aggregate.spread).collect(),
            phase: phase.filter(|_| grouping.window.is_by_key()),
            gap: grouping.gap_field.as_ref().and_then(|field| layout.slot(field)),
            window: window_fields(grouping).iter().filter_map(|field| layout.slot(field)).collect(),
        }
    }

    /// How a sequence reads records.
    fn sequence_input(&self, grouping: &Grouping, key: &KeyLayout) -> Option<SequenceInput> {
        let spec = grouping.sequence.clone()?;
        let slot = |name: &Option<Box<str>>| self.slot(name.as_deref()?);
        let columns = grouping.key.iter().filter_map(|column| self.slot(column.each.first()?));
        Some(SequenceInput {
            key: KeyPacker::from_row(key, &columns.collect::<Vec<_>>()),
            step: self.slot(&spec.step)?,
            status: slot(&spec.status),
            reason: slot(&spec.reason),
            id: slot(&spec.id),
            carried: spec.carried.iter().filter_map(|carried| self.slot(&carried.field)).collect(),
            fields: record_fields(&spec).into_iter().map(|(field, _)| field).collect(),
            spec,
        })
    }

    /// How a grouping reads the results of `parent`.
    fn change_input(
        &self,
        (grouping, of): (&Grouping, &OfSpec),
        parent: usize,
        (key, aggregates): (&KeyLayout, &AggregateLayout),
    ) -> ChangeInput {
        let row = RowLayout::new(read_fields(self.job, grouping, of));
        let below = self.job.groupings.get(parent);
        let sources = row
            .fields()
            .iter()
            .map(|field| below.map_or(ResultSource::Derived, |below| source(below, &field.name)));
        let accumulators = aggregates.accumulators().iter();
        ChangeInput {
            parent: self.sums.get(parent).copied().unwrap_or(StageId(0)),
            sources: sources.collect(),
            derived: of.derived.clone(),
            filter: of.filter.clone(),
            rows: self.record_input(grouping, key, &row),
            keeps_values: accumulators.map(|aggregate| !aggregate.is_reversible()).collect(),
            trails: below.is_some_and(|below| below.window.joins_at_end()),
            row: Arc::new(row),
        }
    }

    fn pane_input(
        &self,
        grouping: &Grouping,
        parent: usize,
        (key, values): (&KeyLayout, &AggregateLayout),
    ) -> PaneInput {
        let id = self.sums.get(parent).copied().unwrap_or(StageId(0));
        let (Some(below), Some(stage)) =
            (self.job.groupings.get(parent), self.stages.get(id.index()))
        else {
            return PaneInput { parent: id, copies: Vec::new(), same_window: true };
        };
        let columns: Vec<_> =
            grouping.key.iter().filter_map(|column| column_sources(column, below)).collect();
        let aggregates: Vec<_> = grouping
            .aggregates
            .iter()
            .filter_map(|aggregate| aggregate_sources(aggregate, below))
            .collect();
        let count = columns.iter().chain(&aggregates).map(Vec::len).max().unwrap_or(1);
        let nth = |sources: &Vec<usize>, copy: usize| {
            sources.get(copy).or_else(|| sources.first()).copied()
        };
        let copies = (0..count).map(|copy| {
            let fields: Vec<_> = columns.iter().filter_map(|sources| nth(sources, copy)).collect();
            let from: Vec<_> = aggregates.iter().filter_map(|sources| nth(sources, copy)).collect();
            PaneCopy {
                key: KeyPacker::from_key(key, &stage.key, &fields),
                is_plain: values.lies_as(&stage.aggregates, &from),
                from,
            }
        });
        PaneInput {
            parent: id,
            copies: copies.collect(),
            same_window: below.window == grouping.window,
        }
    }
}
