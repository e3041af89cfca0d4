//! Flows that name a sampler which their exporter has not described yet.
//!
//! Bounded in number: the flow that has waited longest goes on as it is. So does every flow at
//! the end of the input; none is lost here.

use nilometer_model::flow::Flow;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::IpAddr;

/// All flows that wait, in the order in which they came.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Unsampled {
    /// Flows and the samplers that they name.
    waiting: VecDeque<(u64, Flow)>,
    flows_max: usize,
}

impl Unsampled {
    /// Room for `flows_max` flows; none wait if it is zero.
    pub(super) fn new(flows_max: usize) -> Self {
        Self { waiting: VecDeque::new(), flows_max }
    }

    /// Goes on with the flows that waited in `image`.
    pub(super) fn resume(&mut self, image: Self) {
        self.waiting = image.waiting;
    }

    /// Lets a flow wait for `sampler`; what goes on instead is appended to `out`.
    pub(super) fn put(&mut self, sampler: u64, flow: Flow, out: &mut Vec<Flow>) {
        self.waiting.push_back((sampler, flow));
        while self.waiting.len() > self.flows_max
            && let Some((_, oldest)) = self.waiting.pop_front()
        {
            out.push(oldest);
        }
    }

    /// A sampler is described: the flows that waited for it go on, to `out`.
    pub(super) fn release(&mut self, sampler: Described, out: &mut Vec<Flow>) {
        let is_of = |(id, flow): &(u64, Flow)| {
            *id == sampler.id && flow.exporter_address == Some(sampler.exporter)
        };
        if !self.waiting.iter().any(is_of) {
            return;
        }
        let (released, rest) = self.waiting.drain(..).partition::<Vec<_>, _>(is_of);
        self.waiting = rest.into();
        out.extend(
            released
                .into_iter()
                .map(|(_, flow)| Flow { options_sampling: Some(sampler.interval), ..flow }),
        );
    }

    /// Ends the waiting: all flows go on, to `out`.
    pub(super) fn clear(&mut self, out: &mut Vec<Flow>) {
        out.extend(self.waiting.drain(..).map(|(_, flow)| flow));
    }
}

/// A sampler that an exporter has described.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Described {
    /// The exporter.
    pub(super) exporter: IpAddr,
    /// Number of the sampler.
    pub(super) id: u64,
    /// One in how many packets it samples.
    pub(super) interval: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(exporter: &str, bytes: u64) -> Flow {
        Flow {
            exporter_address: Some(exporter.parse().unwrap()),
            bytes: Some(bytes),
            ..Flow::default()
        }
    }

    fn bytes(flows: &[Flow]) -> Vec<(u64, Option<f64>)> {
        flows.iter().map(|flow| (flow.bytes.unwrap(), flow.options_sampling)).collect()
    }

    #[test]
    fn flows_wait_for_their_own_sampler() {
        let mut unsampled = Unsampled::new(10);
        let mut out = Vec::new();
        for (exporter, sampler, bytes) in [("::1", 1, 1), ("::2", 1, 2), ("::1", 2, 3)] {
            unsampled.put(sampler, flow(exporter, bytes), &mut out);
        }
        assert_eq!(out, []);
        let exporter = "::1".parse().unwrap();
        unsampled.release(Described { exporter, id: 1, interval: 50.0 }, &mut out);
        assert_eq!(bytes(&out), [(1, Some(50.0))]);
        unsampled.clear(&mut out);
        assert_eq!(bytes(&out), [(1, Some(50.0)), (2, None), (3, None)]);
    }

    #[test]
    fn the_oldest_goes_on_when_there_is_no_room() {
        for (room, expected) in [(2, vec![0, 1]), (0, vec![0, 1, 2, 3])] {
            let mut unsampled = Unsampled::new(room);
            let mut out = Vec::new();
            for number in 0..4 {
                unsampled.put(1, flow("::1", number), &mut out);
            }
            let went: Vec<_> = bytes(&out).into_iter().map(|(number, _)| number).collect();
            assert_eq!(went, expected);
        }
    }
}
