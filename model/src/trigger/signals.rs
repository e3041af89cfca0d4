//! Which signals triggers wait for: any other could change nothing.

use super::Trigger;
use crate::plan::Plan;

/// The signals that triggers of a plan wait for, in plan order; one may stand there several times.
pub fn signals(plan: &Plan) -> Vec<&str> {
    let mut known = Vec::new();
    for stage in &plan.stages {
        collect(&stage.trigger, &mut known);
    }
    known
}

fn collect<'p>(trigger: &'p Trigger, signals: &mut Vec<&'p str>) {
    if let Trigger::OnSignal(name) = trigger {
        signals.push(name);
    }
    for child in trigger.children() {
        collect(child, signals);
    }
}
