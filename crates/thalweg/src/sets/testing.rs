//! Checks of the contract of [`Set`] on random points. Members come from the caller, not from the projection under test.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::{Set, Warm};
use crate::math::vec;

/// Returns a runner of 256 cases with a fixed seed.
pub(crate) fn runner() -> TestRunner {
    let config = ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Checks projection, distance, diameter and linear minimiser of `set` against their definitions and against `twin`, a naive
/// projection. `member` maps a point of the unit cube to a member of the set.
pub(crate) fn check_set(set: &dyn Set, dim: usize, member: impl Fn(&[f64]) -> Vec<f64>, twin: impl Fn(&[f64]) -> Vec<f64>) {
    let minimisers = check_set_without_minimisers(set, dim, member, twin);
    // A bounded set has a minimiser for every slope.
    assert!(set.diameter(dim).is_infinite() || minimisers == 256, "only {minimisers} of 256 slopes have a minimiser");
}

/// As [`check_set`] for a set without all linear minimisers; returns how many it found.
pub(crate) fn check_set_without_minimisers(
    set: &dyn Set,
    dim: usize,
    member: impl Fn(&[f64]) -> Vec<f64>,
    twin: impl Fn(&[f64]) -> Vec<f64>,
) -> u32 {
    let point = prop::collection::vec(prop_oneof![-8.0..8.0f64, (-2i32..3).prop_map(f64::from), -100.0..100.0f64], dim);
    let cube = prop::collection::vec(0.0..1.0f64, dim);
    let warm = RefCell::new(Warm::default());
    let project = |x: &[f64]| {
        let mut y = x.to_vec();
        set.project(&mut y, &mut warm.borrow_mut()).unwrap();
        y
    };
    let gap = |x: &[f64], y: &[f64]| -> Vec<f64> { x.iter().zip(y).map(|(x, y)| x - y).collect() };
    let diameter = set.diameter(dim);
    let (minimisers, outside) = (Cell::new(0), Cell::new(0));
    let check = |(x, z, u, u2): (Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>)| {
        let (y, y2) = (member(&u), member(&u2));
        let size = 1.0 + vec::norm(&x) + vec::norm(&y) + vec::norm(&z);
        let tol = 1e-12 * size;
        let px = project(&x);

        let naive = twin(&x);
        assert!(vec::distance(&px, &naive) <= 10.0 * tol, "{x:?} goes to {px:?}, by the twin to {naive:?}");
        assert!(vec::distance(&project(&px), &px) <= tol, "projecting {px:?} twice moves it");
        assert!(vec::distance(&project(&y), &y) <= tol, "member {y:?} moves");
        assert!(set.distance(&y).unwrap() <= tol, "member {y:?} is outside by {}", set.distance(&y).unwrap());
        assert!(vec::distance(&px, &project(&z)) <= vec::distance(&x, &z) + tol, "{x:?} and {z:?} move apart");
        let angle = vec::dot(&gap(&x, &px), &gap(&y, &px));
        assert!(angle <= tol * size, "{y:?} is nearer to {x:?} than {px:?}: {angle}");
        let far = set.distance(&x).unwrap();
        assert!((far - vec::distance(&x, &px)).abs() <= tol, "distance of {x:?} is {far}, not that to {px:?}");
        assert!(vec::distance(&y, &y2) <= diameter * (1.0 + 1e-12) + tol, "{y:?} and {y2:?} are farther apart than {diameter}");

        let mut corner = vec![0.0; dim];
        if set.linear_minimizer(&z, &mut corner).is_some() {
            minimisers.set(minimisers.get() + 1);
            assert!(set.distance(&corner).unwrap() <= tol, "minimiser {corner:?} of {z:?} is outside");
            assert!(vec::dot(&z, &corner) <= vec::dot(&z, &y) + tol * size, "{y:?} is lower than {corner:?} along {z:?}");
            assert!(vec::dot(&z, &corner) <= vec::dot(&z, &px) + tol * size, "{px:?} is lower than {corner:?} along {z:?}");
        }
        outside.set(outside.get() + u32::from(far > 0.0));
        Ok(())
    };
    runner().run(&(point.clone(), point, cube.clone(), cube), check).unwrap();
    // Points inside the set alone would test nothing.
    assert!(outside.get() > 20 || set.describe() == "whole space", "only {} of 256 points are outside", outside.get());
    minimisers.get()
}

/// Settings of the interior-point solver that tests compare with.
pub(crate) fn tight_clarabel() -> clarabel::solver::DefaultSettings<f64> {
    clarabel::solver::DefaultSettings {
        verbose: false,
        tol_gap_abs: 1e-10,
        tol_gap_rel: 1e-10,
        tol_feas: 1e-10,
        ..clarabel::solver::DefaultSettings::default()
    }
}
