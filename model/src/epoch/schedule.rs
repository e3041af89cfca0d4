//! Decides when an epoch begins, and when a node that stores epochs may end.
//!
//! Invariant EPOCH-1: at most one epoch is in flight. The last one is cut behind the end of the
//! input, and the node ends when it is concluded: stored, and its panes published. Where nothing is
//! stored, or nothing can be stored any more, the end of the input is the end.

use super::Epoch;
use crate::time::{ProcessingTime, Span};

/// What the coordinator does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Wait,
    /// It begins an epoch.
    Begin(Epoch),
    /// All that was to be stored is: the node may end.
    End,
}

/// When epochs begin.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// From the beginning of one epoch to that of the next; `None` if nothing is stored.
    interval: Option<Span>,
    /// The epoch that began last. Rises only.
    last: Epoch,
    phase: Phase,
    /// The last tick.
    now: Option<ProcessingTime>,
    /// When the last epoch began; `None` until a tick has come.
    begun: Option<ProcessingTime>,
    /// Before that no further epoch begins.
    due: Option<ProcessingTime>,
    has_input_ended: bool,
    /// Whether somebody waits for the next epoch. Cleared when it begins.
    is_demanded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No epoch is in flight.
    Resting,
    /// One is.
    Running,
    /// The last one is.
    Final,
    /// There will be none.
    Over,
}

impl Schedule {
    /// Epochs after `last`, one per `interval`; without one there are none.
    ///
    /// An epoch that takes longer than half of the interval is followed by a rest as long as it
    /// took, so that a large state never takes more than half of the time. But one that is demanded
    /// begins as soon as none is in flight.
    pub const fn new(interval: Option<Span>, last: Epoch) -> Self {
        let phase = if interval.is_some() { Phase::Resting } else { Phase::Over };
        let (has_input_ended, is_demanded) = (false, false);
        let (now, begun, due) = (None, None, None);
        Self { interval, last, phase, now, begun, due, has_input_ended, is_demanded }
    }

    /// The epoch that began last: what comes from now on belongs to the one after it.
    pub const fn last(&self) -> Epoch {
        self.last
    }

    /// Whether there will be epochs.
    pub fn is_on(&self) -> bool {
        self.phase != Phase::Over
    }

    /// Whether an epoch is in flight.
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Final)
    }

    /// Whether the epoch in flight is the last.
    pub const fn is_final(&self) -> bool {
        matches!(self.phase, Phase::Final)
    }

    /// The time has come to `now`.
    pub fn tick(&mut self, now: ProcessingTime) -> Next {
        let Some(interval) = self.interval else { return Next::Wait };
        self.now = Some(now);
        let due = *self.due.get_or_insert(now.saturating_add(interval));
        match self.phase {
            Phase::Resting if now >= due => self.begin(Phase::Running),
            Phase::Resting | Phase::Running | Phase::Final | Phase::Over => Next::Wait,
        }
    }

    /// Somebody has come to a bound, and waits for the next epoch to begin.
    pub fn demanded(&mut self) -> Next {
        match self.phase {
            Phase::Resting => self.begin(Phase::Running),
            Phase::Running => {
                self.is_demanded = true;
                Next::Wait
            }
            Phase::Final | Phase::Over => Next::Wait,
        }
    }

    /// All sources have ended.
    pub fn input_ended(&mut self) -> Next {
        self.has_input_ended = true;
        match self.phase {
            Phase::Resting => self.begin(Phase::Final),
            Phase::Running | Phase::Final => Next::Wait,
            Phase::Over => Next::End,
        }
    }

    /// The epoch in flight is stored and published.
    pub fn concluded(&mut self, epoch: Epoch) -> Next {
        if epoch != self.last {
            return Next::Wait;
        }
        match self.phase {
            Phase::Running => {
                self.phase = Phase::Resting;
                if let (Some(now), Some(begun), Some(interval)) =
                    (self.now, self.begun, self.interval)
                {
                    let after_rest = now.saturating_add(now.since(begun));
                    self.due = Some(after_rest.max(begun.saturating_add(interval)));
                }
                match (self.has_input_ended, self.is_demanded) {
                    (true, _) => self.begin(Phase::Final),
                    (false, true) => self.begin(Phase::Running),
                    (false, false) => Next::Wait,
                }
            }
            Phase::Final => {
                self.phase = Phase::Over;
                Next::End
            }
            Phase::Resting | Phase::Over => Next::Wait,
        }
    }

    /// Nothing can be stored any more: whatever is in flight is given up.
    pub fn give_up(&mut self) -> Next {
        let was_over = self.phase == Phase::Over;
        self.phase = Phase::Over;
        if self.has_input_ended && !was_over { Next::End } else { Next::Wait }
    }

    fn begin(&mut self, phase: Phase) -> Next {
        self.phase = phase;
        self.is_demanded = false;
        self.last = self.last.next();
        self.begun = self.now;
        Next::Begin(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::EPOCH_1;

    fn at(millis: i64) -> ProcessingTime {
        ProcessingTime::from_millis(millis)
    }

    fn epoch(number: u64) -> Epoch {
        Epoch::from_number(number)
    }

    fn schedule() -> Schedule {
        Schedule::new(Some(Span::from_millis(1_000)), epoch(7))
    }

    #[test]
    fn one_epoch_at_a_time_and_a_rest_behind_a_long_one() {
        let mut schedule = schedule();
        for (now, next) in [
            (5_000, Next::Wait),
            (5_900, Next::Wait),
            (6_000, Next::Begin(epoch(8))),
            (9_000, Next::Wait), // in flight
        ] {
            assert_eq!(schedule.tick(at(now)), next, "{EPOCH_1} at {now}");
        }
        assert_eq!((schedule.last(), schedule.is_running()), (epoch(8), true));
        assert_eq!(schedule.concluded(epoch(7)), Next::Wait, "another epoch");
        assert!(schedule.is_running());
        assert_eq!(schedule.concluded(epoch(8)), Next::Wait);
        assert!(!schedule.is_running());
        // It took 3 s: the next begins 3 s after its end.
        assert_eq!(schedule.tick(at(11_999)), Next::Wait);
        assert_eq!(schedule.tick(at(12_000)), Next::Begin(epoch(9)));
        schedule.tick(at(12_200));
        schedule.concluded(epoch(9));
        assert_eq!(schedule.tick(at(12_999)), Next::Wait);
        assert_eq!(schedule.tick(at(13_000)), Next::Begin(epoch(10)));
    }

    #[test]
    fn an_epoch_that_is_demanded_begins_as_soon_as_none_is_in_flight() {
        let mut schedule = schedule();
        schedule.tick(at(0));
        assert_eq!(schedule.demanded(), Next::Begin(epoch(8)), "before it is due");
        assert_eq!(schedule.demanded(), Next::Wait, "{EPOCH_1}");
        schedule.tick(at(9_000));
        assert_eq!(schedule.concluded(epoch(8)), Next::Begin(epoch(9)), "without a rest");
        assert_eq!(schedule.concluded(epoch(9)), Next::Wait, "it is demanded once");
        schedule.input_ended();
        assert_eq!(schedule.demanded(), Next::Wait, "nothing follows the last");
    }

    #[test]
    fn the_last_epoch_lies_behind_the_end_of_the_input() {
        let mut resting = schedule();
        assert_eq!(resting.input_ended(), Next::Begin(epoch(8)));
        assert!(resting.is_final());
        assert_eq!(resting.tick(at(i64::MAX)), Next::Wait);
        assert_eq!(resting.concluded(epoch(8)), Next::End);
        assert_eq!(resting.concluded(epoch(8)), Next::Wait, "ends once");

        let mut running = schedule();
        running.tick(at(0));
        running.tick(at(1_000));
        assert_eq!(running.input_ended(), Next::Wait);
        assert!(!running.is_final());
        assert_eq!(running.concluded(epoch(8)), Next::Begin(epoch(9)));
        assert!(running.is_final());
        assert_eq!(running.concluded(epoch(9)), Next::End);
    }

    #[test]
    fn without_a_store_the_end_of_the_input_is_the_end() {
        let mut without = Schedule::new(None, Epoch::NONE);
        assert_eq!(without.tick(at(1_000_000)), Next::Wait);
        assert_eq!(without.input_ended(), Next::End);

        let mut broken = schedule();
        broken.tick(at(0));
        broken.tick(at(1_000));
        assert_eq!(broken.give_up(), Next::Wait);
        assert_eq!(broken.tick(at(5_000)), Next::Wait);
        assert_eq!(broken.input_ended(), Next::End);
        assert_eq!(broken.give_up(), Next::Wait, "ends once");

        let mut late = schedule();
        late.input_ended();
        assert_eq!(late.give_up(), Next::End);
    }
}
