//! Everything that is left to chance comes from here, so that a seed decides a run.

use nilometer_connectors::generator;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A sequence that its seed decides.
#[derive(Debug, Clone)]
pub(crate) struct Dice(generator::Dice);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(generator::Dice::new(seed))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.word()
    }

    /// A number below `below`, which is at least 1.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        (self.next() % below.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// Whether one of `in_how_many` has come up.
    pub(crate) fn one_in(&mut self, in_how_many: usize) -> bool {
        self.below(in_how_many) == 0
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// What a strategy of the property tests gives.
    pub(crate) fn draw<S: Strategy>(&mut self, strategy: &S) -> S::Value {
        let seed: Vec<u8> = (0..4).flat_map(|_| self.next().to_le_bytes()).collect();
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        strategy.new_tree(&mut runner).unwrap().current()
    }
}
