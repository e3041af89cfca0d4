//! When the poller relies on what it knows of the ends of partitions no longer, and asks the brokers.

use super::{ANSWER, Duration, Instant, Poller, SystemTime};
use crate::kafka::outlook::Outlook;

/// Who has not looked for longer than this has stood still: as the clock of the engine has it.
const AWAKE: Duration = Duration::from_secs(1);

impl Poller {
    /// What the process knew before it stood still may have grown; what it does not read stays what it was.
    pub(super) fn notice_sleep(&mut self) {
        let (since, at) = self.looked;
        // A machine that sleeps stops the first one of these, and whoever sets the clock the other.
        let asleep = at.elapsed().unwrap_or_default();
        let stood_still = since.elapsed().max(asleep) > AWAKE;
        let mut state = self.queue.lock();
        for (known, track) in state.partitions.iter_mut().zip(&self.tracks) {
            if !track.is_ours {
                known.leave();
            } else if stood_still {
                known.doubt();
            }
        }
    }

    /// Asks where the partitions end of which nothing is known.
    pub(super) fn ask(&mut self) {
        let begun = Instant::now();
        let state = self.queue.lock();
        let asked = state.partitions.iter().zip(&self.tracks).enumerate();
        let asked = asked.filter(|(_, (known, track))| {
            track.is_ours && !known.is_finished && known.outlook == Outlook::Doubtful
        });
        let asked: Vec<_> = asked.map(|(number, (known, _))| (number, known.place())).collect();
        drop(state);
        for (number, (topic, partition)) in asked {
            // The poll must go on: what is not answered soon is asked again behind it.
            let log = if begun.elapsed() < ANSWER { self.log(&topic, partition) } else { None };
            if let Some(log) = log
                && let Some(known) = self.queue.lock().partitions.get_mut(number)
            {
                known.hear_end(log.high);
            }
        }
        // Questions take their time, in which nobody stands still.
        self.looked = (Instant::now(), SystemTime::now());
    }
}
