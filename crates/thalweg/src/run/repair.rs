//! What may be done after a run so that the returned point keeps its constraints: projections onto the set that these describe,
//! where the problem knows it. During a run only methods project.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Point;
use crate::eval::Measure;
use crate::eval::{Evaluator, ValueEval};
use crate::math::vec;
use crate::oracle::Values;
use crate::{Error, Result};

/// Visits to each row between two looks at whether someone wants to end.
const SWEEPS: usize = 50;
/// Visits to each row before a projection is given up.
const MOST: usize = 50_000;
/// Projections: one is enough for linear constraints, others are seen from the point before.
const ROUNDS: usize = 30;
/// What a projection may violate a row by, as a share of what the constraints may be violated by: a constraint may be the sum of
/// two rows, and the point is measured afterwards.
const SHARE: f64 = 0.25;
/// The same where constraints may not be violated at all.
const LEAST: f64 = 1e-12;

/// Refuses what cannot be repaired.
pub(super) fn check<P: Values + ?Sized>(problem: &P) -> Result<()> {
    if problem.num_constraints() > 0 && problem.structure().region().is_none() {
        return Err(Error::Problem(
            "repair projects the returned point onto the constraints, and this problem does not say how; expected one with a region, \
             or no repair"
                .into(),
        ));
    }
    Ok(())
}

/// Moves `x`, which is measured as `before`, onto the constraints. The work is counted.
pub(super) fn repair<P: Values + ?Sized>(
    ev: &mut Evaluator<'_, P>,
    points: &mut Measure<'_, P>,
    x: &mut [f64],
    before: Point,
    interrupt: Option<&AtomicBool>,
) -> Result<()> {
    let tolerance = (SHARE * ev.feasibility()).max(LEAST);
    let (mut point, mut next) = (before, x.to_vec());
    for _ in 0..ROUNDS {
        ev.region_begin(&point.x, &point.x)?;
        let mut visits = 0;
        loop {
            let swept = ev.region_sweep(&mut next, SWEEPS, tolerance)?;
            visits += SWEEPS;
            if swept.done {
                break;
            }
            if interrupt.is_some_and(|s| s.load(Ordering::Relaxed)) {
                return Err(Error::Problem("interrupted".into()));
            }
            if visits >= MOST {
                let violation = swept.violation;
                return Err(Error::Problem(format!("after {MOST} visits to each row one is still violated by {violation:.1e}")));
            }
        }
        let stood = vec::distance(&next, &point.x) <= 1e-12 * (1.0 + vec::norm(&next));
        point = points.point(&next)?;
        if point.feasible {
            x.copy_from_slice(&next);
            return Ok(());
        }
        if stood {
            break;
        }
    }
    Err(Error::Problem(format!("the nearest point that was found violates a constraint by {:.1e}", point.violation)))
}
