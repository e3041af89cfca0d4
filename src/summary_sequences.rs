//! What sequences keep, in the summary and for whoever asks a run.

use crate::standing::instant;
use crate::summary_table::{counted, grouped};
use nilometer_actors::meter::Meters;
use nilometer_model::pane::StageId;
use nilometer_model::plan::Plan;
use nilometer_model::sequence::SequenceUse;
use nilometer_model::time::EventTime;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a sequence keeps, over all shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SequenceSummary {
    /// Keys with a session, open or closed but not final yet.
    pub sessions: u64,
    /// Those of them that are not in memory.
    pub cold: u64,
    /// Records kept in memory.
    pub records: u64,
    /// Bytes in memory, about.
    pub bytes: u64,
    /// Time of the first record of the session that has gone on for the longest time, ms.
    pub oldest: Option<i64>,
    /// Deadlines that are registered.
    pub deadlines: u64,
}

/// What sequences keep, by name; those that keep nothing are left out.
pub(crate) fn kept(
    used: &BTreeMap<StageId, SequenceUse>,
    plan: &Plan,
) -> BTreeMap<Box<str>, SequenceSummary> {
    let name = |stage: &StageId| plan.stages.get(stage.index()).map(|stage| stage.name.clone());
    let used = used.iter().filter(|(_, used)| used.sessions > 0);
    used.filter_map(|(stage, used)| Some((name(stage)?, SequenceSummary::of(used)))).collect()
}

impl SequenceSummary {
    const fn of(used: &SequenceUse) -> Self {
        Self {
            sessions: used.sessions as u64,
            cold: used.cold as u64,
            records: used.records as u64,
            bytes: used.bytes as u64,
            oldest: match used.oldest {
                Some(oldest) => Some(oldest.as_millis()),
                None => None,
            },
            deadlines: used.deadlines as u64,
        }
    }

    /// Of a run that goes on, as at the last tick.
    pub(crate) fn now(meters: &Meters, plan: &Plan) -> BTreeMap<Box<str>, Self> {
        kept(&meters.sequences(), plan)
    }

    /// A sentence for people about the sequence of that name.
    pub fn describe(&self, name: &str) -> String {
        let cold = match self.cold {
            0 => String::new(),
            cold => format!(" ({} of them not in memory)", grouped(cold)),
        };
        let oldest = self.oldest.map_or_else(String::new, |oldest| {
            format!(
                "; the oldest that goes on began at {}",
                instant(EventTime::from_millis(oldest))
            )
        });
        format!(
            "sequence `{name}`: {}{cold}, {} in {} bytes, {}{oldest}",
            counted(self.sessions, "session", "sessions"),
            counted(self.records, "record", "records"),
            grouped(self.bytes),
            counted(self.deadlines, "deadline", "deadlines"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_said_in_words_and_in_json() {
        let mut used = SequenceUse {
            sessions: 1_200,
            cold: 0,
            records: 4_000,
            bytes: 300_000,
            oldest: None,
            deadlines: 1_201,
        };
        let told = |used: &SequenceUse| SequenceSummary::of(used).describe("wifi");
        assert_eq!(
            told(&used),
            "sequence `wifi`: 1,200 sessions, 4,000 records in 300,000 bytes, 1,201 deadlines"
        );
        used.merge(&SequenceUse {
            sessions: 2,
            cold: 1,
            records: 1,
            bytes: 100,
            oldest: Some(EventTime::from_millis(1_700_000_000_000)),
            deadlines: 1,
        });
        assert_eq!(
            told(&used),
            "sequence `wifi`: 1,202 sessions (1 of them not in memory), 4,001 records in 300,100 bytes, \
             1,202 deadlines; the oldest that goes on began at 2023-11-14T22:13:20Z"
        );
        assert_eq!(
            serde_json::to_string(&SequenceSummary::of(&used)).unwrap(),
            concat!(
                r#"{"sessions":1202,"cold":1,"records":4001,"bytes":300100,"#,
                r#""oldest":1700000000000,"deadlines":1202}"#
            )
        );
    }
}
