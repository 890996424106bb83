//! Helpers shared by the tests of several modules.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Returns a runner of 256 cases with a fixed seed, so that every run draws the same cases. It writes no files.
pub(crate) fn runner() -> TestRunner {
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Returns the sentences of notes.
pub(crate) fn sentences(notes: &[thalweg::Note]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}
