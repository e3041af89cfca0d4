//! The simulation can fail: nodes that are tampered with are found out, by the check that names it.

use crate::simulate;
use crate::world::Sabotage;

/// What is said of runs with this sabotage, until all `rules` have been named.
fn found_out(sabotage: Sabotage, rules: &[&str]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for seed in 0..200 {
        said.extend(simulate(seed, Some(sabotage)).err().map(|failed| failed.said()));
        if rules.iter().all(|rule| said.iter().any(|said| said.contains(rule))) {
            break;
        }
    }
    said
}

#[test]
fn a_node_that_breaks_a_promise_is_found_out() {
    for (sabotage, rules) in [
        (Sabotage::MarkOvertakes, &["ORDER-1"][..]),
        (Sabotage::RecordsLost, &["LIVENESS", "a record is missing"]),
        (Sabotage::PanesTwice, &["PANE-2"]),
        (Sabotage::PanesLost, &["PANE-2", "ROLL-1"]),
        (Sabotage::PassedOvertakes, &["ORDER-1"]),
        (Sabotage::CreditsLost, &["LIVENESS"]),
        (Sabotage::BarrierOvertakes, &["POS-1"]),
        (Sabotage::MarkNotHeld, &["ORDER-1"]),
        (Sabotage::RecordsNotHeld, &["POS-1"]),
        (Sabotage::PublishedEarly, &["EPOCH-2"]),
        (Sabotage::PartMissing, &["EPOCH-2"]),
        (Sabotage::NotRepublished, &["PANE-2", "ROLL-1"]),
    ] {
        let said = found_out(sabotage, rules);
        for rule in rules {
            let is_said = said.iter().any(|said| said.contains(rule));
            assert!(is_said, "{sabotage:?} is not found out by {rule}: {said:#?}");
        }
    }
}
