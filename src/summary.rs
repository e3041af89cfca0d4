//! The summary at the end of a run: where every record went, and whether the numbers add up.
//!
//! Facts in, numbers out: made from what the actors counted, checked here, printed as a table for
//! people and as JSON for programs. The JSON is public (`docs/output.md`).

use crate::summary_sequences::SequenceSummary;
use crate::summary_state::StateSummary;
use nilometer_actors::node::Outcome;
use nilometer_actors::report::{PartitionReport, SourceReport};
use nilometer_connectors::account::{Counts, Datagrams};
use nilometer_model::account::StageAccount;
use nilometer_model::plan::{Plan, Stage, StageInput};
use nilometer_model::time::Watermark;
use nilometer_model::window::WindowFn;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a run has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Outcomes of the records read.
    pub records: Records,
    /// Datagrams of collectors and captures.
    pub datagrams: Datagrams,
    /// Accounts of the stages, in plan order.
    pub stages: Stages,
    /// What was remarkable about records and input, by name; no outcomes.
    pub marks: Counts,
    /// What storing state has cost, where it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateSummary>,
    /// What sequences still kept at the end, by name; those that kept nothing are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sequences: BTreeMap<Box<str>, SequenceSummary>,
    /// Partitions of sources that read several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionSummary>,
}

/// How a partition stood at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionSummary {
    /// Name of the source.
    pub source: Arc<str>,
    /// Topic and number of the partition.
    pub partition: Arc<str>,
    /// Offset of the next record to be read.
    pub next: u64,
    /// Offset behind the last; `None` if that is not known.
    pub end: Option<u64>,
    /// Offsets between the two.
    pub lag: Option<u64>,
    /// What it promised, in ms; `None` if nothing.
    pub watermark: Option<i64>,
    /// Whether it was active, idle, catching up or finished.
    pub state: &'static str,
}

impl PartitionSummary {
    fn of(source: &SourceReport) -> impl Iterator<Item = Self> {
        source.partitions.iter().map(|PartitionReport { lag, standing }| Self {
            source: source.name.clone(),
            partition: lag.name.clone(),
            next: lag.next,
            end: lag.end,
            lag: lag.end.map(|end| end.saturating_sub(lag.next)),
            watermark: promised(standing.watermark),
            state: standing.state.name(),
        })
    }
}

/// A watermark in ms; `None` if it promises nothing.
fn promised(watermark: Watermark) -> Option<i64> {
    Some(watermark.0.as_millis()).filter(|_| watermark > Watermark::MIN)
}

/// Outcomes of the records read: each has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Records {
    /// Records read.
    pub read: u64,
    /// Records taken by the stages.
    pub accepted: u64,
    /// Input that makes no record.
    pub malformed: u64,
    /// Records that the filter left out.
    pub filtered: u64,
    /// Input that makes no record and was written to the dead-letter file.
    pub dead_lettered: u64,
    /// Records that had no outcome yet when the run ended.
    pub in_flight: u64,
}

/// Accounts of stages by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stages(pub Vec<StageSummary>);

/// The account of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageSummary {
    /// Name of the stage.
    pub name: Box<str>,
    /// Its account, over all shards.
    pub account: StageAccount,
    /// For a stage that reads records and splits none: window copies that each record gives.
    pub copies: Option<u64>,
}

impl Serialize for Stages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for stage in &self.0 {
            map.serialize_entry(&stage.name, &Line::of(&stage.account))?;
        }
        map.end()
    }
}

/// A stage in the JSON.
#[derive(Serialize)]
struct Line {
    on_time: u64,
    late: u64,
    expired: u64,
    closed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late_no_effect: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overflow: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_step: Option<u64>,
    no_window: u64,
    panes: u64,
    retracts: u64,
}

impl Line {
    const fn of(account: &StageAccount) -> Self {
        const fn unless_none(number: u64) -> Option<u64> {
            if number > 0 { Some(number) } else { None }
        }
        Self {
            on_time: account.on_time,
            late: account.late,
            expired: account.expired,
            closed: account.closed,
            // Only custom windows refuse anything.
            refused: unless_none(account.refused),
            // Only sequences know these.
            late_no_effect: unless_none(account.late_no_effect),
            duplicate: unless_none(account.duplicate),
            overflow: unless_none(account.overflow),
            unknown_step: unless_none(account.unknown_step),
            no_window: account.no_window,
            panes: account.panes,
            retracts: account.retracts,
        }
    }
}

/// Numbers that do not add up: a fault of this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Imbalance {
    /// Records have more or fewer outcomes than were read.
    #[error(
        "the account of records does not balance: read {} is not accepted {} + malformed {} + filtered {} + dead-lettered {} + in flight {}; this is a fault of nilometer, please report it",
        .0.read, .0.accepted, .0.malformed, .0.filtered, .0.dead_lettered, .0.in_flight
    )]
    Records(Records),
    /// The shards took more records than the sources handed on.
    #[error(
        "the shards took {taken} records, more than the sources handed on; this is a fault of nilometer, please report it"
    )]
    Taken {
        /// What the shards took.
        taken: u64,
    },
    /// Window copies of a stage have more or fewer outcomes than were assigned.
    #[error(
        "the account of stage `{}` does not balance: assigned {} is not on time {} + late {} + expired {} + closed {} + refused {} + late without effect {} + duplicate {} + overflow {} + unknown step {}; this is a fault of nilometer, please report it",
        .0.name, .0.account.assigned, .0.account.on_time, .0.account.late, .0.account.expired,
        .0.account.closed, .0.account.refused, .0.account.late_no_effect, .0.account.duplicate,
        .0.account.overflow, .0.account.unknown_step
    )]
    Stage(Box<StageSummary>),
    /// A stage that reads records was not given all of their copies.
    #[error(
        "stage `{}` was assigned {} window copies and {} records fell into no window, but {accepted} records were accepted; this is a fault of nilometer, please report it",
        .stage.name, .stage.account.assigned, .stage.account.no_window
    )]
    Copies {
        /// The stage.
        stage: Box<StageSummary>,
        /// Records accepted.
        accepted: u64,
    },
}

/// Window copies that a record gives to `stage`, where the number is fixed.
fn copies(stage: &Stage) -> Option<u64> {
    let input = match &stage.input {
        StageInput::Records(input) if input.spread.is_none() => input,
        StageInput::Records(_) | StageInput::Panes(_) | StageInput::Changes(_) => return None,
    };
    match stage.window {
        // Every time lies in exactly one.
        WindowFn::Global
        | WindowFn::Fixed { .. }
        | WindowFn::Session { .. }
        | WindowFn::Calendar(_) => Some(input.copies.len() as u64),
        WindowFn::Sliding { .. } | WindowFn::Custom(_) => None,
    }
}

impl Summary {
    /// The numbers of `outcome`, a run of `plan`, which have to add up.
    ///
    /// # Errors
    /// They do not.
    pub fn of(plan: &Plan, outcome: &Outcome) -> Result<Self, Imbalance> {
        let account = outcome.records();
        let taken = account.accepted;
        let in_flight = outcome.in_flight().ok_or(Imbalance::Taken { taken })?;
        let accounts = outcome.stages().into_iter();
        let stages = plan.stages.iter().zip(accounts).map(|(stage, account)| StageSummary {
            name: stage.name.clone(),
            account,
            copies: copies(stage),
        });
        let summary = Self {
            records: Records {
                read: account.read,
                accepted: account.accepted,
                malformed: account.malformed.total(),
                filtered: account.filtered,
                dead_lettered: account.dead_lettered.total(),
                in_flight,
            },
            datagrams: account.datagrams,
            stages: Stages(stages.collect()),
            marks: account.marks,
            state: StateSummary::of(outcome),
            sequences: crate::summary_sequences::kept(&outcome.sequences(), plan),
            partitions: outcome.sources.iter().flat_map(PartitionSummary::of).collect(),
        };
        summary.check(outcome.failures.is_empty())?;
        Ok(summary)
    }

    /// Whether the numbers add up; after a failure a stage may lack what it could not take.
    fn check(&self, is_complete: bool) -> Result<(), Imbalance> {
        let Records { read, accepted, malformed, filtered, dead_lettered, in_flight } =
            self.records;
        let outcomes = [accepted, malformed, filtered, dead_lettered, in_flight];
        if outcomes.into_iter().try_fold(0, u64::checked_add) != Some(read) {
            return Err(Imbalance::Records(self.records));
        }
        for stage in &self.stages.0 {
            if !stage.account.is_balanced() {
                return Err(Imbalance::Stage(Box::new(stage.clone())));
            }
            let Some(copies) = stage.copies.filter(|_| is_complete) else { continue };
            // A record without a window is counted once for each of its keys.
            let given = stage.account.assigned.checked_add(stage.account.no_window);
            if given != accepted.checked_mul(copies) {
                return Err(Imbalance::Copies { stage: Box::new(stage.clone()), accepted });
            }
        }
        Ok(())
    }

    /// The summary as one line of JSON.
    pub fn json(&self) -> String {
        // Numbers and names: nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_actors::report::ShardReport;
    use nilometer_connectors::account::SourceAccount;
    use nilometer_model::aggregate::Function;
    use nilometer_model::pane::AccumulationMode;
    use nilometer_model::plan::{AggregateSpec, Grouping, Job, KeyColumn};
    use nilometer_model::row::Field;
    use nilometer_model::time::Span;
    use nilometer_model::trigger::Trigger;
    use nilometer_model::value::Type;
    use nilometer_model::window::WindowFn;

    /// A stage `hosts` that reads records, two copies of each, and one that regroups it.
    fn plan() -> Plan {
        let grouping = |name: &str, key: Vec<KeyColumn>| Grouping {
            name: name.into(),
            key,
            window: WindowFn::Global,
            trigger: Trigger::default_trigger(),
            emission: nilometer_model::pane::Emission::default(),
            gap_field: None,
            allow_closing: false,
            mode: AccumulationMode::Accumulating,
            allowed_lateness: Span::ZERO,
            aggregates: vec![AggregateSpec {
                name: "n".into(),
                function: Function::Count,
                fields: Vec::new(),
                spread: false,
            }],
            top_k: None,
            sinks: vec!["out".into()],
            late: None,
            of: None,
            sequence: None,
        };
        let host = KeyColumn { name: "host".into(), each: vec!["a".into(), "b".into()] };
        let exporter = KeyColumn::plain("exporter");
        let job = Job {
            name: "t".into(),
            fields: ["exporter", "a", "b"].map(|name| Field::new(name, Type::U32)).to_vec(),
            groupings: vec![grouping("hosts", vec![exporter, host])],
            shard_by: None,
            key_groups: 8,
            extra_fields: Vec::new(),
            spread: None,
            phase: None,
            cascade: true,
        };
        nilometer_model::planner::plan(&job).unwrap()
    }

    /// A balanced run over two shards: 10 read, 7 accepted.
    fn outcome() -> Outcome {
        let mut account =
            SourceAccount { read: 10, accepted: 7, filtered: 1, ..SourceAccount::default() };
        account.malformed.add("not_json", 2);
        account.marks.add("reordered", 3);
        account.datagrams.dropped = 5;
        let shard = |records, late| ShardReport {
            records,
            accounts: vec![StageAccount {
                assigned: 2 * records,
                on_time: 2 * records - late,
                late,
                panes: 4,
                ..StageAccount::default()
            }],
            incomplete_windows: vec![0],
            is_empty: true,
            pause_max: None,
            memory: None,
            sequences: Vec::new(),
        };
        Outcome {
            sources: vec![SourceReport {
                name: "s".into(),
                account,
                is_finished: true,
                partitions: Vec::new(),
            }],
            shards: vec![shard(3, 1), shard(4, 0)],
            ..Outcome::default()
        }
    }

    #[test]
    fn the_json_has_every_number_and_no_other() {
        let summary = Summary::of(&plan(), &outcome()).unwrap();
        let expected = concat!(
            r#"{"records":{"read":10,"accepted":7,"malformed":2,"filtered":1,"dead_lettered":0,"in_flight":0},"#,
            r#""datagrams":{"read":0,"malformed":0,"no_template":0,"dropped":5},"#,
            r#""stages":{"hosts":{"on_time":13,"late":1,"expired":0,"closed":0,"no_window":0,"panes":8,"retracts":0}},"#,
            r#""marks":{"reordered":3}}"#,
        );
        assert_eq!(summary.json(), expected);
    }

    #[test]
    fn what_custom_windows_refuse_is_told_where_there_is_any() {
        let mut outcome = outcome();
        let account = &mut outcome.shards[1].accounts[0];
        (account.on_time, account.refused) = (account.on_time - 3, 3);
        let summary = Summary::of(&plan(), &outcome).unwrap();
        let stage =
            r#""hosts":{"on_time":10,"late":1,"expired":0,"closed":0,"refused":3,"no_window":0,"#;
        assert!(summary.json().contains(stage), "{}", summary.json());
    }

    #[test]
    fn numbers_that_do_not_add_up_are_told_with_all_of_them() {
        type Change = fn(&mut Outcome);
        let cases: [(Change, &str); 4] = [
            (
                |outcome| outcome.sources[0].account.read = 11,
                "read 11 is not accepted 7 + malformed 2 + filtered 1 + dead-lettered 0 + in flight 0;",
            ),
            (
                |outcome| outcome.shards[1].records = 5,
                "the shards took 8 records, more than the sources handed on;",
            ),
            (
                |outcome| outcome.shards[0].accounts[0].expired = 1,
                "stage `hosts` does not balance: assigned 14 is not on time 13 + late 1 + expired 1 + closed 0 + refused 0 + late without effect 0 + duplicate 0 + overflow 0 + unknown step 0;",
            ),
            (
                |outcome| {
                    outcome.shards[0].accounts[0].assigned -= 1;
                    outcome.shards[0].accounts[0].late = 0;
                },
                "stage `hosts` was assigned 13 window copies and 0 records fell into no window, but 7 records were accepted;",
            ),
        ];
        for (change, expected) in cases {
            let mut outcome = outcome();
            change(&mut outcome);
            let text = Summary::of(&plan(), &outcome).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn what_no_shard_took_is_in_flight() {
        let mut outcome = outcome();
        outcome.shards.pop();
        outcome.failures.push(nilometer_actors::report::Failure::Order {
            name: "out".into(),
            shard: 1,
            stage: nilometer_model::pane::StageId(0),
            passed: nilometer_model::time::Watermark::MIN,
        });
        let summary = Summary::of(&plan(), &outcome).unwrap();
        assert_eq!((summary.records.accepted, summary.records.in_flight), (3, 4));
    }
}
