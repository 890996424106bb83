//! Stopping criterion of the bundle method: the bound on the distance of the centre from its proximal point, the errors of the
//! functions that the bound must allow for, and the points at which estimated constants are tested before a stop.

use super::{Bundle, PROVE, Saved, constant_index, violation};
use crate::cuts::Master;
use crate::cuts::constants::too_small;
use crate::cuts::noise::{Local, Noise, accuracy, opposite_points};
use crate::eval::Eval;
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::Warm;
use crate::sets::Set;
use crate::solvers::{Step, StepKind};
use crate::{Error, Result};

/// The proof starts when the predicted decrease is about this many times the stopping value.
pub(super) const NEAR: f64 = 500.0;

/// Points at which a stop with estimated constants is tested: fractions of the step that the constants suggest; distances in
/// random directions, times 1 + the largest entry of the centre; total number of points.
const SHARES: [f64; 4] = [1.0, 0.1, 1e-2, 1e-3];
const AROUND: [f64; 2] = [0.1, 1e-2];
const TRIALS: u32 = 16;

/// Returns the distance that ends a run, below eps if the proximal coefficients are estimates that sum up to `pull`.
pub(super) fn stopping_distance(eps: f64, pull: f64) -> f64 {
    eps / pull.max(1.0)
}

impl Saved {
    /// Returns the `k`-th point around the centre at which a stop with estimated constants is tested: along the negative
    /// subgradients, as far as the constants suggest and less, and in random directions. `None` if there is no such point.
    fn trial(&self, k: usize) -> Option<Vec<f64>> {
        let d = self.centre.len();
        let unit = 1.0 + self.centre.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let constants = &self.model.convexification(PROVE).constants;
        let down = |at: usize, share: f64| {
            let slope = &self.slopes[at * d..][..d];
            let length = vec::norm(slope);
            let step = (length / (constants[at] + self.stated)).min(unit);
            (length > 0.0).then(|| slope.iter().map(|s| -share * step * s / length).collect::<Vec<f64>>())
        };
        let shares = SHARES.len();
        let step = match k / shares {
            0 => down(0, SHARES[k % shares]),
            1 => {
                // The active constraint, or the most violated one.
                let by = if self.restoring { &self.g } else { &self.multipliers };
                let (j, _) = vec::first_max(by).filter(|(_, weight)| *weight > 0.0)?;
                down(1 + j, SHARES[k % shares])
            }
            _ => {
                let (k, n) = (k - 2 * shares, 2 * AROUND.len());
                let mut rng = Rng::new((k / n) as u64, Purpose::Directions);
                let direction: Vec<f64> = (0..d).map(|_| 2.0 * rng.uniform() - 1.0).collect();
                let length = vec::norm(&direction) * if k % 2 == 0 { 1.0 } else { -1.0 };
                let radius = unit * AROUND[k % n / 2];
                (length != 0.0).then(|| direction.iter().map(|v| radius * v / length).collect())
            }
        };
        step.map(|step| self.centre.iter().zip(step).map(|(c, s)| c + s).collect())
    }
}

impl Bundle {
    /// Bounds the distance of the centre from its proximal point. Returns whether that ends the run.
    pub(super) fn state_bound(&mut self, master: Master, feasible: bool) -> bool {
        let stuck = self.stuck();
        let s = &mut self.s;
        s.mean_cut = (master.linear, master.slope);
        s.error = master.error;
        // The centre satisfies constraints relaxed by its own violation, which costs the bound this much.
        let over = violation(&s.g);
        let over = if over + s.constraint_error() > 0.0 { over + s.constraint_error() } else { 0.0 };
        let relaxed = over * s.multipliers.iter().sum::<f64>() - master.lower + s.objective_error();
        s.upper = (2.0 * relaxed.max(0.0) / s.stated).sqrt() * (1.0 + accuracy(s.centre.len()));
        s.bounded = feasible;
        let of_constraints: f64 = s.estimated_constraints().map(|(j, rho)| s.multipliers[j] * rho).sum();
        let wanted = stopping_distance(self.settings.eps, s.pull_of_objective() + of_constraints);
        let near = s.upper <= self.settings.eps && feasible;
        // Where only rounding is left to gain, the bound is as good as it can be.
        let errors = s.rounding() + 4.0 * s.constraint_error() * s.multipliers.iter().sum::<f64>();
        let rounding = feasible && relaxed <= errors;
        (near && (s.upper <= wanted || stuck)) || rounding
    }

    /// Measures the errors of all functions at the centre.
    pub(super) fn measure_noise<E: Eval + ?Sized>(&mut self, ev: &mut E) -> Result<()> {
        let x: Vec<f64> = self.s.centre_of_problem().collect();
        let here = Local::at(ev, &x)?;
        let s = &mut self.s;
        for ((owner, ..), noise) in here.parts().zip(here.noise(ev, &x)?) {
            let unit = s.units.of(owner);
            s.model.raise_noise(owner, Noise { value: noise.value / unit, slope: noise.slope * (s.units.longest() / unit) });
        }
        s.noise_known = true;
        opposite_points(&x).into_iter().try_for_each(|y| self.check_slopes(ev, y))
    }

    /// Compares the values at a point near the centre with the cuts there.
    pub(super) fn check_slopes<E: Eval + ?Sized>(&mut self, ev: &mut E, mut y: Vec<f64>) -> Result<()> {
        ev.domain().project(&mut y, &mut Warm::default())?;
        // Functions need not be defined at test points.
        let Ok(there) = Local::at(ev, &y) else { return Ok(()) };
        let s = &mut self.s;
        s.units.divide(&mut y);
        for (owner, value, row) in there.parts() {
            let unit = s.units.of(owner);
            let mut row = row.to_vec();
            s.units.convert_slope(owner, &mut row);
            // Estimated constants have test points of their own.
            if s.estimated[constant_index(owner)] {
                continue;
            }
            if let Some(pair) = s.model.contradiction(PROVE, owner, &y, value / unit, &row) {
                let pair = s.original_pair(pair);
                return Err(Error::Problem(too_small(&pair, |j| ev.constraint_name(j as usize).into_owned())));
            }
        }
        Ok(())
    }

    /// Returns whether the master returned the point just visited, so that the remaining gain is rounding. Used only if the
    /// stopping criterion may require more than is attainable.
    pub(super) fn stuck(&self) -> bool {
        let s = &self.s;
        s.any_estimated() && vec::distance(&s.y, &self.visited) <= 1e-6 * vec::distance(&s.y, &s.centre)
    }

    /// Chooses another test point before a stop that rests on estimates. Returns false if there were enough.
    pub(super) fn choose_test_point<E: Eval + ?Sized>(&mut self, ev: &E) -> Result<bool> {
        let s = &mut self.s;
        while s.any_estimated() && s.tried < TRIALS {
            if let Some(mut y) = s.trial(s.tried as usize) {
                s.units.scaled(ev.domain()).project(&mut y, &mut Warm::default())?;
                if y != s.centre {
                    s.y = y;
                    s.trying = true;
                    return Ok(true);
                }
            }
            s.tried += 1;
        }
        Ok(false)
    }

    /// Continues after a test point with the value `f`, if it has one.
    pub(super) fn tried<E: Eval + ?Sized>(&mut self, ev: &mut E, f: Option<f64>) -> Result<Step> {
        let s = &mut self.s;
        s.trying = false;
        s.model.limit(PROVE, self.settings.max_cuts);
        let mut serious = false;
        match f {
            Some(f) if s.raised => {
                s.tried = 0;
                let fall = violation(&s.g) - violation(&self.g);
                serious = if s.restoring { fall > 0.0 } else { s.f - f + s.penalty * fall > 0.0 };
                if serious {
                    self.move_centre(f);
                }
            }
            // If the test is passed, the centre stays: the model is right at this point and knows the possible gain.
            _ => s.tried += 1,
        }
        let finished = self.look(ev)?;
        Ok(Step { kind: if serious { StepKind::Objective } else { StepKind::Other }, finished })
    }
}
