//! Seeded randomness: the same seed gives the same numbers on every machine and in every version.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): one word of state, and any number of a sequence can be
//! computed without those before it, which makes [`Dice::of`] a hash as well.

use serde::{Deserialize, Serialize};

/// A sequence of random numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dice {
    state: u64,
}

impl Dice {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A sequence of its own for item `number` of the sequence of `seed`.
    pub fn of(seed: u64, number: u64) -> Self {
        let mut dice = Self::new(seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        dice.state = dice.word();
        dice
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Self::STEP);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number in `[0, bound)`; 0 if `bound` is 0. The bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number in `[low, high]`, small ones more likely: its logarithm is uniform. `low` is at
    /// least 1.
    pub fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let ratio = (high as f64 + 1.0) / low as f64;
        ((low as f64 * ratio.powf(self.unit())) as u64).clamp(low, high)
    }
}

/// Ranks in `[0, count)` that follow a power law: rank r about as likely as (r + 1)^-skew.
///
/// By inversion of the continuous distribution, so a rank costs one power whatever the count is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PowerLaw {
    count: u64,
    skew: f64,
}

impl PowerLaw {
    /// A law over at least one rank; `skew` 0 is uniform, 1 is Zipf's.
    pub(crate) fn new(count: u64, skew: f64) -> Self {
        Self { count: count.max(1), skew }
    }

    /// A rank.
    pub(crate) fn rank(self, dice: &mut Dice) -> u64 {
        if self.skew == 0.0 {
            return dice.below(self.count);
        }
        let (unit, end) = (dice.unit(), self.count as f64 + 1.0);
        let exponent = 1.0 - self.skew;
        let place = if exponent.abs() < 1e-9 {
            end.powf(unit)
        } else {
            ((end.powf(exponent) - 1.0) * unit + 1.0).powf(exponent.recip())
        };
        (place as u64).clamp(1, self.count) - 1
    }
}

/// Every number of `[0, count)` once per round, in a scrambled order that is the same each round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep {
    count: u64,
    step: u64,
}

impl Sweep {
    /// A sweep over at least one number.
    pub(crate) fn new(count: u64) -> Self {
        let count = count.max(1);
        // Near the golden section, so that neighbours lie far apart; coprime, so that none is
        // left out.
        let mut step = ((count as f64 * 0.618_033_988_75) as u64).max(1);
        while gcd(step, count) != 1 {
            step += 1;
        }
        Self { count, step }
    }

    /// Number `index` of the sweep.
    pub(crate) fn at(self, index: u64) -> u64 {
        (u128::from(index % self.count) * u128::from(self.step) % u128::from(self.count)) as u64
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_published_algorithm() {
        // Reference output of SplitMix64 for the seed 1234567.
        let mut dice = Dice::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!([0; 5].map(|_: u64| dice.word()), expected);
    }

    #[test]
    fn ranks_follow_the_law_and_stay_in_range() {
        for (count, skew, share_of_first) in
            [(1, 1.0, 1.0), (10, 0.0, 0.1), (1_000, 1.0, 0.1), (1_000, 1.5, 0.3)]
        {
            let (law, mut dice) = (PowerLaw::new(count, skew), Dice::new(7));
            let ranks: Vec<_> = (0..20_000).map(|_| law.rank(&mut dice)).collect();
            assert!(ranks.iter().all(|rank| *rank < count));
            let first = ranks.iter().filter(|rank| **rank == 0).count() as f64 / 20_000.0;
            assert!((first - share_of_first).abs() < 0.02, "{count} {skew}: {first}");
        }
    }

    #[test]
    fn a_sweep_visits_every_number_once_per_round() {
        for count in [1, 2, 10, 97, 1_000, 65_536] {
            let sweep = Sweep::new(count);
            let mut seen: Vec<_> = (0..count).map(|index| sweep.at(index)).collect();
            assert_eq!(sweep.at(count), sweep.at(0));
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn numbers_lie_in_their_bounds() {
        let mut dice = Dice::of(3, 4);
        for _ in 0..10_000 {
            assert!(dice.below(7) < 7);
            assert!((0.0..1.0).contains(&dice.unit()));
            assert!((40..=1_500).contains(&dice.log_uniform(40, 1_500)));
        }
        assert_eq!((dice.below(0), dice.below(1)), (0, 0));
        assert!(!dice.chance(0.0) && dice.chance(1.0));
    }
}
