//! The simulation can fail: nodes that are tampered with are found out, by the check that names it.

use crate::simulate;
use crate::world::Sabotage;

/// What is said of runs with this sabotage, until one is found out.
fn found_out(sabotage: Sabotage) -> Vec<String> {
    let failed = (0..60).filter_map(|seed| simulate(seed, Some(sabotage)).err());
    failed.map(|failed| failed.said()).collect()
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
    ] {
        let said = found_out(sabotage);
        for rule in rules {
            let is_said = said.iter().any(|said| said.contains(rule));
            assert!(is_said, "{sabotage:?} is not found out by {rule}: {said:#?}");
        }
    }
}
