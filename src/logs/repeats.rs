//! What is told again and again is told a few times and then counted. Pure: times in, decisions out.
//!
//! Lines are the same if they come from the same place in the program and differ in numbers only.
//! Invariants: memory is bounded; what is not told is counted, and the count is told.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tracing::Level;

/// Lines of one kind that are told within [`PERIOD`].
const TOLD_MAX: u32 = 20;
/// How long lines are counted together.
const PERIOD: Duration = Duration::from_secs(10);
/// Kinds that are told apart; all others count as one.
const KINDS_MAX: usize = 256;

/// What lines have in common.
type Kind = u64;

/// How many lines of a kind there were.
#[derive(Debug)]
struct Counted {
    since: Duration,
    told: u32,
    untold: u64,
    /// One of them.
    line: Line<String>,
}

/// A line: how bad it is, what part of the program it comes from, and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line<T> {
    pub(super) level: Level,
    pub(super) target: T,
    pub(super) text: T,
}

/// Lines that were told, and those that were not.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    kinds: HashMap<Kind, Counted>,
}

/// Lines that were not told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Untold {
    pub(super) count: u64,
    /// The first of them.
    pub(super) line: Line<String>,
}

impl Repeats {
    /// Whether to tell `line`, which comes from `place` at `now`, a time that never goes back.
    pub(super) fn is_told(&mut self, place: usize, line: Line<&str>, now: Duration) -> bool {
        let kind = kind(place, line.text);
        let is_known = self.kinds.contains_key(&kind);
        let kind = if is_known || self.kinds.len() < KINDS_MAX { kind } else { Kind::MAX };
        let counted = self.kinds.entry(kind).or_insert_with(|| Counted {
            since: now,
            told: 0,
            untold: 0,
            line: Line { level: line.level, target: String::new(), text: String::new() },
        });
        if counted.told < TOLD_MAX {
            counted.told += 1;
            return true;
        }
        if counted.untold == 0 {
            let Line { level, target, text } = line;
            counted.line = Line { level, target: target.to_owned(), text: text.to_owned() };
        }
        counted.untold = counted.untold.saturating_add(1);
        false
    }

    /// What was not told, of kinds that began long enough before `now`; they begin anew.
    pub(super) fn over(&mut self, now: Duration) -> Vec<Untold> {
        self.forget(|counted| now.saturating_sub(counted.since) >= PERIOD)
    }

    /// All that was not told; all begin anew.
    pub(super) fn finish(&mut self) -> Vec<Untold> {
        self.forget(|_| true)
    }

    fn forget(&mut self, is_over: impl Fn(&Counted) -> bool) -> Vec<Untold> {
        let over = self.kinds.extract_if(|_, counted| is_over(counted));
        let untold = over.filter(|(_, counted)| counted.untold > 0);
        let mut untold: Vec<_> = untold
            .map(|(_, counted)| Untold { count: counted.untold, line: counted.line })
            .collect();
        untold.sort_by(|a, b| a.line.cmp(&b.line));
        untold
    }
}

/// Place and text, but for numbers.
fn kind(place: usize, line: &str) -> Kind {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    let mut was_digit = false;
    for letter in line.chars() {
        let is_digit = letter.is_ascii_digit();
        if !(is_digit && was_digit) {
            (if is_digit { '0' } else { letter }).hash(&mut hasher);
        }
        was_digit = is_digit;
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line<&str> {
        Line { level: Level::WARN, target: "nilometer", text }
    }

    fn untold(count: u64, text: &str) -> Untold {
        let line = Line { level: Level::WARN, target: "nilometer".into(), text: text.into() };
        Untold { count, line }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_repeats_is_told_a_few_times_and_counted() {
        let mut repeats = Repeats::default();
        let told =
            (0..50).filter(|number| repeats.is_told(1, line(&format!("lost {number}")), at(0)));
        assert_eq!(told.count(), 20);
        // Another place, or other words, are another kind.
        assert!(
            repeats.is_told(2, line("lost 1"), at(1)) && repeats.is_told(1, line("found 1"), at(1))
        );
        assert_eq!(repeats.over(at(9)), []);
        assert_eq!(repeats.over(at(10)), [untold(30, "lost 20")]);
        assert!(repeats.is_told(1, line("lost 99"), at(10)));
        assert_eq!(repeats.over(at(1_000)), []);
        let told = (0..21).filter(|_| repeats.is_told(1, line("lost"), at(2_000)));
        assert_eq!(told.count(), 20);
        assert_eq!(repeats.finish(), [untold(1, "lost")]);
        assert_eq!(repeats.finish(), []);
    }

    #[test]
    fn kinds_are_bounded() {
        let mut repeats = Repeats::default();
        for number in 0..KINDS_MAX * 4 {
            let word: String = format!("{number:b}").replace('0', "a").replace('1', "b");
            repeats.is_told(1, line(&word), at(0));
        }
        assert_eq!(repeats.kinds.len(), KINDS_MAX + 1);
        let untold: u64 = repeats.over(at(10)).iter().map(|untold| untold.count).sum();
        assert_eq!(untold, (KINDS_MAX * 3) as u64 - u64::from(TOLD_MAX));
    }
}
