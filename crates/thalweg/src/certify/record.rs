//! Record of what the interval of a certificate follows from, as plain data for an independent check. The interval is computed
//! in `bounds.rs`.

use serde::Serialize;

use super::bounds::Visit;
use crate::cuts::Owner;
use crate::cuts::noise::Local;
use crate::sets::Set;
use crate::{Error, Result};

/// Values, cuts and multipliers that the interval of a [`Certificate`](super::Certificate) follows from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProximityRecord {
    /// The certified point first, then the other points that a cut or the upper bound was computed at.
    pub visits: Vec<RecordedVisit>,
    /// Cuts of the objective and of constraints with a positive multiplier.
    pub cuts: Vec<RecordedCut>,
    /// Half-spaces that contain the domain, with a positive multiplier.
    pub domain_cuts: Vec<DomainCut>,
    /// Visited points, and their shares, of the mean at which the subproblem is bounded from above. Empty if there is none.
    pub upper: Vec<(f64, usize)>,
    /// The domain.
    pub domain: DomainRecord,
}

/// Values and subgradients of all functions at a point: of the objective, then of each constraint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedVisit {
    /// The point.
    pub point: Vec<f64>,
    /// Values of the functions.
    pub values: Vec<f64>,
    /// Bounds on the errors of the values.
    pub value_errors: Vec<f64>,
    /// Subgradients of the functions.
    pub slopes: Vec<Vec<f64>>,
    /// Bounds on the norms of the errors of the subgradients.
    pub slope_errors: Vec<f64>,
}

/// Linearisation of a function at a visited point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecordedCut {
    /// 0 for the objective, 1 for the first constraint.
    pub function: usize,
    /// Index of the visited point.
    pub visit: usize,
    /// Multiplier. Those of the objective sum to 1.
    pub weight: f64,
}

/// Half-space `<normal, x - foot> <= 0` that contains the domain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DomainCut {
    /// Multiplier.
    pub weight: f64,
    /// The normal.
    pub normal: Vec<f64>,
    /// Point on the boundary.
    pub foot: Vec<f64>,
}

/// Domain of a problem as plain data.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DomainRecord {
    /// The whole space.
    #[default]
    Whole,
    /// Ball around the origin.
    Ball {
        /// Its radius.
        radius: f64,
    },
    /// Box; an infinite side is `None`.
    Box {
        /// Lower bounds.
        low: Vec<Option<f64>>,
        /// Upper bounds.
        high: Vec<Option<f64>>,
    },
    /// Another set.
    Other {
        /// Description of the set.
        description: String,
    },
}

impl DomainRecord {
    pub(super) fn of(domain: &dyn Set, dim: usize) -> Self {
        let finite = |x: f64| x.is_finite().then_some(x);
        let sides: Option<Vec<(f64, f64)>> = (0..dim).map(|i| domain.sides(i)).collect();
        match (domain.ball_around_origin(), sides) {
            (Some(f64::INFINITY), _) => DomainRecord::Whole,
            (Some(radius), _) => DomainRecord::Ball { radius },
            (None, Some(sides)) => {
                let (low, high) = sides.into_iter().map(|(low, high)| (finite(low), finite(high))).unzip();
                DomainRecord::Box { low, high }
            }
            (None, None) => DomainRecord::Other { description: domain.describe() },
        }
    }
}

/// Cut with a positive multiplier, before its point is identified.
pub(super) struct ActiveCut {
    owner: Owner,
    weight: f64,
    slope: Vec<f64>,
    offset: Vec<f64>,
}

impl From<(Owner, f64, &[f64], Vec<f64>)> for ActiveCut {
    fn from((owner, weight, slope, offset): (Owner, f64, &[f64], Vec<f64>)) -> Self {
        ActiveCut { owner, weight, slope: slope.to_vec(), offset }
    }
}

/// What a search keeps for the record.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) visits: Vec<(Visit, Local)>,
    /// Cuts of the master program with the best lower bound.
    pub(super) cuts: Vec<ActiveCut>,
}

impl Recorder {
    /// Reduces the visited points to those that are needed. `between` gives the two points that `proximal` lies between.
    pub(super) fn finish(
        self,
        centre: &[f64],
        proximal: &[f64],
        between: Option<(f64, [Vec<f64>; 2])>,
        domain: &dyn Set,
    ) -> Result<ProximityRecord> {
        let mut record = ProximityRecord { domain: DomainRecord::of(domain, centre.len()), ..ProximityRecord::default() };
        // Position of a visited point in the record.
        let mut listed: Vec<usize> = vec![];
        let mut place = |at: Option<usize>| -> Option<usize> {
            let at = at?;
            listed.iter().position(|known| *known == at).or_else(|| {
                listed.push(at);
                Some(listed.len() - 1)
            })
        };
        let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        let visited = |y: &[f64]| self.visits.iter().position(|(visit, _)| same(&visit.y, y));
        place(visited(centre));
        for cut in self.cuts {
            let function = match cut.owner {
                Owner::Objective => 0,
                Owner::Constraint(j) => 1 + j as usize,
                Owner::Domain => {
                    let foot = cut.offset.iter().zip(centre).map(|(d, c)| c + d).collect();
                    record.domain_cuts.push(DomainCut { weight: cut.weight, normal: cut.slope, foot });
                    continue;
                }
            };
            let at = self.visits.iter().position(|(visit, there)| {
                let offset: Vec<f64> = visit.y.iter().zip(centre).map(|(y, c)| y - c).collect();
                same(&offset, &cut.offset) && there.parts().nth(function).is_some_and(|(.., slope)| same(slope, &cut.slope))
            });
            let Some(visit) = place(at) else {
                let what = "the certificate cannot be recorded, because some of its cuts were merged; expected fewer evaluations";
                return Err(Error::Problem(what.into()));
            };
            record.cuts.push(RecordedCut { function, visit, weight: cut.weight });
        }
        let shares = match between {
            Some((share, [from, to])) => vec![(1.0 - share, from), (share, to)],
            None => vec![(1.0, proximal.to_vec())],
        };
        record.upper = shares.into_iter().filter_map(|(share, y)| Some((share, place(visited(&y))?))).collect();
        record.visits = listed.iter().map(|&at| recorded(&self.visits[at])).collect();
        Ok(record)
    }
}

fn recorded((visit, there): &(Visit, Local)) -> RecordedVisit {
    let slopes: Vec<Vec<f64>> = there.parts().map(|(.., slope)| slope.to_vec()).collect();
    RecordedVisit {
        point: visit.y.clone(),
        values: std::iter::once(visit.f).chain(visit.g.iter().copied()).collect(),
        value_errors: std::iter::once(visit.f_error).chain(visit.g_error.iter().copied()).collect(),
        slope_errors: visit.slope_errors.clone(),
        slopes,
    }
}
