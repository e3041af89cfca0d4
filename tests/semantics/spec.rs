//! Specifications of the transcripts, read from YAML. What a file says and this does not understand
//! is an error, but for what Beam itself passes over.

use crate::grammar::parse;
use nilometer_model::pane::{AccumulationMode, TimestampCombiner};
use nilometer_model::trigger::Trigger;
use nilometer_model::window::WindowFn;
use saphyr::{LoadableYamlNode, Yaml};

/// One document of a file.
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) window: WindowFn,
    pub(crate) trigger: Trigger,
    pub(crate) mode: AccumulationMode,
    pub(crate) timestamp: TimestampCombiner,
    pub(crate) allowed_lateness: i64,
    /// The specification must fail with this message.
    pub(crate) error: Option<String>,
    pub(crate) actions: Vec<Action>,
}

/// One step of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// One batch; each number is a value and its event time.
    Input(Vec<i64>),
    Watermark(i64),
    /// What the action before has caused, in any order.
    Expect(Vec<Expected>),
    /// Windows that are known to have state, or to be closed.
    State(Vec<(i64, i64)>),
}

/// What is said of a pane; what is not said is not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Expected {
    /// Start and last instant.
    pub(crate) window: Option<(i64, i64)>,
    pub(crate) values: Option<Vec<i64>>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) index: Option<i64>,
    pub(crate) nonspeculative_index: Option<i64>,
    pub(crate) early: Option<bool>,
    pub(crate) late: Option<bool>,
    pub(crate) is_final: Option<bool>,
}

/// All specifications of a file.
pub(crate) fn read(text: &str) -> Vec<Spec> {
    // One key has no space before its list, which YAML 1.1 allows and YAML 1.2 does not.
    let text = text.replace("values:[", "values: [");
    let documents = Yaml::load_from_str(&text).unwrap();
    documents.iter().map(|document| spec(document).unwrap()).collect()
}

fn entries<'a>(yaml: &'a Yaml<'a>) -> Result<Vec<(&'a str, &'a Yaml<'a>)>, String> {
    let mapping = yaml.as_mapping().ok_or_else(|| format!("{yaml:?} is no mapping"))?;
    let name = |key: &'a Yaml<'a>| key.as_str().ok_or_else(|| format!("{key:?} is no name"));
    mapping.iter().map(|(key, value)| Ok((name(key)?, value))).collect()
}

fn text<'a>(yaml: &'a Yaml<'a>) -> Result<&'a str, String> {
    yaml.as_str().ok_or_else(|| format!("{yaml:?} is no text"))
}

fn number(yaml: &Yaml<'_>) -> Result<i64, String> {
    yaml.as_integer().ok_or_else(|| format!("{yaml:?} is no number"))
}

fn truth(yaml: &Yaml<'_>) -> Result<bool, String> {
    yaml.as_bool().ok_or_else(|| format!("{yaml:?} is not a truth value"))
}

fn list<'a>(yaml: &'a Yaml<'a>) -> Result<&'a [Yaml<'a>], String> {
    yaml.as_sequence().map(Vec::as_slice).ok_or_else(|| format!("{yaml:?} is no list"))
}

fn numbers(yaml: &Yaml<'_>) -> Result<Vec<i64>, String> {
    list(yaml)?.iter().map(number).collect()
}

fn bounds(yaml: &Yaml<'_>) -> Result<(i64, i64), String> {
    match numbers(yaml)?.as_slice() {
        [start, last] => Ok((*start, *last)),
        _ => Err(format!("{yaml:?} is no window")),
    }
}

fn spec(document: &Yaml<'_>) -> Result<Spec, String> {
    let mut spec = Spec {
        name: "unnamed".to_owned(),
        window: WindowFn::Global,
        trigger: Trigger::default_trigger(),
        mode: AccumulationMode::Accumulating,
        timestamp: TimestampCombiner::EndOfWindow,
        allowed_lateness: 0,
        error: None,
        actions: Vec::new(),
    };
    for (key, value) in entries(document)? {
        match key {
            "name" => spec.name = text(value)?.to_owned(),
            "window_fn" => spec.window = parse(text(value)?)?.window()?,
            "trigger_fn" => spec.trigger = parse(text(value)?)?.trigger()?,
            "accumulation_mode" => spec.mode = mode(text(value)?)?,
            "timestamp_combiner" => spec.timestamp = timestamp(text(value)?)?,
            "allowed_lateness" => spec.allowed_lateness = number(value)?,
            "error" => spec.error = Some(text(value)?.to_owned()),
            "transcript" => {
                spec.actions = list(value)?.iter().map(action).collect::<Result<_, _>>()?;
            }
            // Names of Beam's runners; and a slip in `bad_output`, which Beam passes over, so that
            // the specification runs with the global window.
            "broken_on" | "windowfn" => {}
            other => return Err(format!("`{other}` is no key of a specification")),
        }
    }
    Ok(spec)
}

fn mode(name: &str) -> Result<AccumulationMode, String> {
    match name {
        "accumulating" => Ok(AccumulationMode::Accumulating),
        "discarding" => Ok(AccumulationMode::Discarding),
        other => Err(format!("`{other}` is no mode")),
    }
}

fn timestamp(name: &str) -> Result<TimestampCombiner, String> {
    match name {
        "OUTPUT_AT_EOW" => Ok(TimestampCombiner::EndOfWindow),
        "OUTPUT_AT_EARLIEST" => Ok(TimestampCombiner::Earliest),
        "OUTPUT_AT_LATEST" => Ok(TimestampCombiner::Latest),
        "OUTPUT_AT_EARLIEST_TRANSFORMED" => Ok(TimestampCombiner::EarliestTransformed),
        other => Err(format!("`{other}` is no timestamp combiner")),
    }
}

fn action(yaml: &Yaml<'_>) -> Result<Action, String> {
    match entries(yaml)?.as_slice() {
        [("input", values)] => Ok(Action::Input(numbers(values)?)),
        [("watermark", instant)] => Ok(Action::Watermark(number(instant)?)),
        [("expect", panes)] => {
            Ok(Action::Expect(list(panes)?.iter().map(expected).collect::<Result<_, _>>()?))
        }
        [("state", states)] => {
            let mut known = Vec::new();
            for (state, windows) in entries(states)? {
                match state {
                    "present" | "tombstone" => {
                        for window in list(windows)? {
                            known.push(bounds(window)?);
                        }
                    }
                    // Beam's harness does nothing with states, and this one contradicts the
                    // tombstone beside it: both windows have fired once, by the same trigger.
                    "absent" => {}
                    other => return Err(format!("`{other}` is no state")),
                }
            }
            Ok(Action::State(known))
        }
        other => Err(format!("{other:?} is no action")),
    }
}

fn expected(yaml: &Yaml<'_>) -> Result<Expected, String> {
    let mut expected = Expected::default();
    for (key, value) in entries(yaml)? {
        match key {
            "window" => expected.window = Some(bounds(value)?),
            "values" => expected.values = Some(numbers(value)?),
            "timestamp" => expected.timestamp = Some(number(value)?),
            "index" => expected.index = Some(number(value)?),
            "nonspeculative_index" => expected.nonspeculative_index = Some(number(value)?),
            "early" => expected.early = Some(truth(value)?),
            "late" => expected.late = Some(truth(value)?),
            "final" => expected.is_final = Some(truth(value)?),
            other => return Err(format!("`{other}` is nothing that a pane has")),
        }
    }
    Ok(expected)
}
