//! What tests of several modules share.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A runner of 256 cases whose seed is fixed: every run draws the same cases, and nothing is written.
pub(crate) fn runner() -> TestRunner {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}
