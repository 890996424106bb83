//! Repair of an infeasible returned point by projection onto the constraints.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Point;
use crate::eval::Measure;
use crate::eval::{Evaluator, ValueEval};
use crate::math::vec;
use crate::oracle::Values;
use crate::{Error, Result};

/// Sweeps over the rows between two checks of the interrupt flag.
const SWEEPS: usize = 50;
/// Maximum number of sweeps of a projection.
const MAX_SWEEPS: usize = 50_000;
/// Maximum number of projections. One is enough for linear constraints; others are linearised at the previous point.
const MAX_PROJECTIONS: usize = 30;
/// Tolerance of a projection, as a fraction of the feasibility tolerance. A constraint may be the sum of two rows, and the point
/// is measured afterwards.
const TOLERANCE_FRACTION: f64 = 0.25;
/// Smallest tolerance of a projection.
const MIN_TOLERANCE: f64 = 1e-12;

/// Checks that the problem supports projection onto its constraints.
pub(super) fn check<P: Values + ?Sized>(problem: &P) -> Result<()> {
    if problem.num_constraints() > 0 && problem.structure().region().is_none() {
        return Err(Error::Problem(
            "repair needs a problem that can project onto its constraints; give the problem a region, or turn repair off".into(),
        ));
    }
    Ok(())
}

/// Projects `x` onto the constraints. `before` has the values at `x`. The work counts as work of the run.
pub(super) fn repair<P: Values + ?Sized>(
    ev: &mut Evaluator<'_, P>,
    points: &mut Measure<'_, P>,
    x: &mut [f64],
    before: Point,
    interrupt: Option<&AtomicBool>,
) -> Result<()> {
    let tolerance = (TOLERANCE_FRACTION * ev.feasibility()).max(MIN_TOLERANCE);
    let (mut point, mut next) = (before, x.to_vec());
    for _ in 0..MAX_PROJECTIONS {
        ev.region_begin(&point.x, &point.x)?;
        let mut sweeps = 0;
        loop {
            let swept = ev.region_sweep(&mut next, SWEEPS, tolerance)?;
            sweeps += SWEEPS;
            if swept.done {
                break;
            }
            if interrupt.is_some_and(|s| s.load(Ordering::Relaxed)) {
                return Err(Error::Problem("interrupted".into()));
            }
            if sweeps >= MAX_SWEEPS {
                let violation = swept.violation;
                return Err(Error::Problem(format!("a row is still violated after {MAX_SWEEPS} sweeps, by {violation:.1e}")));
            }
        }
        let unchanged = vec::distance(&next, &point.x) <= 1e-12 * (1.0 + vec::norm(&next));
        point = points.point(&next)?;
        if point.feasible {
            x.copy_from_slice(&next);
            return Ok(());
        }
        if unchanged {
            break;
        }
    }
    Err(Error::Problem(format!("the projection still violates a constraint by {:.1e}", point.violation)))
}
