//! What has passed between two ticks, as far as it says that somebody is silent.
//!
//! A process that stalls, or a machine that sleeps, does not look: what has come meanwhile is not
//! known before it has been read. So no more counts than [`ProcessingTime::active_since`] says, and
//! where ticks are so far apart that somebody would be taken for silent for it, nothing does.

use crate::time::{ProcessingTime, Span};

/// What has passed since the last tick.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    /// On the clock.
    pub(super) elapsed: Span,
    /// Of it, in which somebody has looked. At most `elapsed`.
    pub(super) seen: Span,
}

impl Passed {
    /// Between two ticks.
    pub(super) const fn between(before: ProcessingTime, now: ProcessingTime) -> Self {
        Self { elapsed: now.since(before), seen: now.active_since(before) }
    }

    /// Between two ticks, where somebody has looked all the time.
    pub(super) const fn watched(before: ProcessingTime, now: ProcessingTime) -> Self {
        Self { elapsed: now.since(before), seen: now.since(before) }
    }

    /// Whether nobody has looked for so long that who has been silent for `limit` may have had
    /// something to say all the time: silence begins anew. Never without a limit.
    pub(super) fn is_unseen(self, limit: Option<Span>) -> bool {
        self.seen < self.elapsed && limit.is_some_and(|limit| limit < self.elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_seen_is_no_silence() {
        for ((elapsed, limit), (seen, is_unseen)) in [
            ((0, Some(0)), (0, false)),
            ((200, Some(30_000)), (200, false)),
            ((1_000, Some(30_000)), (1_000, false)),
            // A stall for which nobody would be taken for silent.
            ((1_001, Some(30_000)), (1_000, false)),
            ((30_000, Some(30_000)), (1_000, false)),
            ((30_001, Some(30_000)), (1_000, true)),
            ((3_600_000, Some(30_000)), (1_000, true)),
            // A limit that is shorter than ticks may be apart.
            ((1_000, Some(100)), (1_000, false)),
            ((1_001, Some(100)), (1_000, true)),
            ((3_600_000, None), (1_000, false)),
            ((i64::MAX, Some(0)), (1_000, true)),
            ((-5, Some(0)), (0, false)),
        ] {
            let [start, now] = [0, elapsed].map(ProcessingTime::from_millis);
            let limit = limit.map(Span::from_millis);
            let passed = Passed::between(start, now);
            let got = (passed.seen.as_millis(), passed.is_unseen(limit));
            assert_eq!(got, (seen, is_unseen), "{elapsed} of {limit:?}");
            // Watched, all of it is silence.
            let watched = Passed::watched(start, now);
            assert_eq!((watched.seen, watched.is_unseen(limit)), (now.since(start), false));
        }
    }
}
