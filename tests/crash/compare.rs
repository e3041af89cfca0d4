//! What two outputs have in common: every byte but the order of the lines, or what they come to.

use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Not a byte differs but the order of the lines.
pub(crate) fn same_lines(whole: &str, found: &str) {
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let (whole, found) = (sorted(whole), sorted(found));
    let only_in = |one: &[String], other: &[String]| {
        let only = one.iter().filter(|line| other.binary_search(line).is_err()).take(3);
        only.cloned().collect::<Vec<_>>()
    };
    let (missing, more) = (only_in(&whole, &found), only_in(&found, &whole));
    assert!(whole == found, "missing: {missing:#?}\nmore: {more:#?}");
}

/// The stage whose panes are entries of lists: they have the index of the firing of their list, in
/// which not every entry is new.
const LIST: &str = "largest";

/// Stage, key and window.
type Place = (String, String, String);

/// What the panes in a file come to, result by result. No pane may come twice, none may be left
/// out.
pub(crate) fn totals(text: &str) -> BTreeMap<Place, Json> {
    let mut totals: BTreeMap<Place, Json> = BTreeMap::new();
    let mut next: BTreeMap<Place, u64> = BTreeMap::new();
    for line in text.lines() {
        let pane: Json = serde_json::from_str(line).unwrap();
        let of = |name: &str| pane[name].to_string();
        let place = (of("stage"), of("key"), of("window"));
        let index = pane["pane"]["index"].as_u64().unwrap();
        if pane["pane"]["kind"] == "retract" {
            let before = totals.remove(&place);
            assert_eq!(before.as_ref(), Some(&pane["values"]), "taken back: {line}");
            continue;
        }
        let next = next.entry(place.clone()).or_default();
        let is_entry = pane["stage"] == LIST;
        assert!(index == *next || is_entry && index >= *next, "pane {next} of {line}");
        *next = index + 1;
        let values = &pane["values"];
        if pane["pane"]["mode"] == "discarding" {
            let total = totals.entry(place).or_insert_with(|| Json::Object(serde_json::Map::new()));
            add(total, values);
        } else {
            totals.insert(place, values.clone());
        }
    }
    totals
}

/// Adds deltas up; all values are whole numbers.
fn add(total: &mut Json, delta: &Json) {
    for (name, value) in delta.as_object().unwrap() {
        let sum = total[name].as_i64().unwrap_or(0) + value.as_i64().unwrap();
        total[name] = sum.into();
    }
}

/// Which records are late depends on when a watermark comes by, in every run; what each window
/// comes to does not.
pub(crate) fn same_totals(whole: &str, found: &str) {
    let (whole, found) = (totals(whole), totals(found));
    let only_in = |one: &BTreeMap<Place, Json>, other: &BTreeMap<Place, Json>| {
        let only = one.iter().filter(|(place, values)| other.get(*place) != Some(*values));
        only.take(3).map(|(place, values)| format!("{place:?}: {values}")).collect::<Vec<_>>()
    };
    let (missing, more) = (only_in(&whole, &found), only_in(&found, &whole));
    assert!(whole == found, "missing: {missing:#?}\nmore: {more:#?}");
}
