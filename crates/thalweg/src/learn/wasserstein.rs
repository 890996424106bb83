//! The distance between the score distributions of two groups, with the best transport plan put in its place. The problem that
//! keeps the plan as a variable is not here.

use super::term::{Constant, Part, RowNorms, Term, View, Who, Work};

/// The 1-Wasserstein distance between the scores of two groups:
///
/// ```text
/// W(w) = min over plans P of sum_ij P_ij |s_i - s_j|,   i in the first group, j in the second,
/// ```
///
/// where a plan is non-negative and gives every row its share of its group's weight. On a line the plan that pairs sorted
/// scores from the lowest upwards (the north-west corner rule) is a best one, and `W` is the integral of `|F_1 - F_2|` over
/// the distribution functions; two sorts and one sweep compute it for groups of any sizes and row weights.
///
/// **Subgradient.** The slope of score i is `sum_j P_ij sgn(s_i - s_j)` with the sorted plan P and sgn(0) = 0: the derivative
/// where W has one, elsewhere a subgradient of the convex function `sum_ij P_ij |s_i - s_j|` with P held fixed.
///
/// **Batches.** The estimate on a batch is the distance between the batch's scores, each group's weights scaled to 1. It is
/// biased upwards: two small samples differ even where their groups do not.
///
/// **No weak-convexity constant.** W is a minimum of convex functions, one for each plan, and where the best plan changes it
/// can have a concave kink. Take scores s and 0 in the first group, -1 and 1 in the second. For s slightly below 0 its partner
/// is -1 and moving up costs, above 0 its partner is 1 and moving up saves: `W = 1 - |s| / 2` near s = 0. A function with
/// constant rho has `f(h) + f(-h) - 2 f(0) >= -rho h^2`; here the left-hand side is `-h`, for every h up to 1, so that no rho
/// will do. The dual form, the largest of `mean_1 phi(s) - mean_2 phi(s)` over all phi of slope at most 1, does not help: it
/// is a maximum over functions of the scores that need not be weakly convex themselves, as phi may have concave kinks. With
/// scores that are linear in the weights such a crossing, of two rows of one group between two of the other, is the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WassersteinGap;

impl Term for WassersteinGap {
    fn populations(&self) -> (Part, Vec<Who>) {
        (Part::Gaps, vec![Who::Group(0), Who::Group(1)])
    }

    fn is_coupled(&self) -> bool {
        true
    }

    fn couple(&self, views: [View; 2], work: &mut Work) {
        work.coupling.make(views);
    }

    /// Half of the distance between a row and its partners, on the mean: the same for both groups.
    fn measure(&self, _: usize, _: View, work: &mut Work, out: &mut [f64]) {
        out[0] = 0.5 * work.coupling.cost;
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        statistics[0] + statistics[1]
    }

    fn outer_slopes(&self, _: &[f64], out: &mut [f64]) {
        out.fill(1.0);
    }

    /// The derivative of both statistics together: a row is a partner in the other group's mean as well.
    fn slopes(&self, k: usize, view: View, weights: &[f64], work: &mut Work, out: &mut [f64]) {
        let factor = weights[0] * view.scores.len() as f64;
        out.iter_mut().zip(&work.coupling.slopes[k]).for_each(|(out, slope)| *out = factor * slope);
    }

    fn modulus(&self, _: &[RowNorms], _: Constant) -> Option<f64> {
        None
    }
}

/// The sorted coupling of two groups of scores.
#[derive(Debug, Default)]
pub(super) struct Coupling {
    /// Rows from the lowest score to the highest, equal ones by their place.
    orders: [Vec<u32>; 2],
    /// Derivative of the cost by each score.
    slopes: [Vec<f64>; 2],
    /// The cost of the plan.
    cost: f64,
}

impl Coupling {
    fn make(&mut self, views: [View; 2]) {
        for ((view, order), slopes) in views.iter().zip(&mut self.orders).zip(&mut self.slopes) {
            // What was sorted before is nearly sorted now, and costs little; the order itself does not depend on it.
            if order.len() != view.scores.len() {
                order.clear();
                order.extend(0..view.scores.len() as u32);
            }
            let score = |i: u32| view.scores[i as usize];
            order.sort_unstable_by(|&i, &j| score(i).total_cmp(&score(j)).then(i.cmp(&j)));
            slopes.clear();
            slopes.resize(view.scores.len(), 0.0);
        }
        let [first, second] = views;
        let [slopes, others] = &mut self.slopes;
        self.cost = 0.0;
        let mut add = |i: usize, j: usize, mass: f64| {
            let distance = first.scores[i] - second.scores[j];
            self.cost += mass * distance.abs();
            let sign = f64::from(i8::from(distance > 0.0) - i8::from(distance < 0.0));
            slopes[i] += mass * sign;
            others[j] -= mass * sign;
        };
        sweep(views, &self.orders, &mut add);
    }
}

/// The north-west corner rule along the sorted scores: calls `add(i, j, P_ij)` for every pair that shares mass, at most
/// `n_1 + n_2` times.
fn sweep(views: [View; 2], orders: &[Vec<u32>; 2], add: &mut impl FnMut(usize, usize, f64)) {
    let total = |view: &View| view.weights.map_or(view.scores.len() as f64, |w| w.iter().sum());
    let totals = [total(&views[0]), total(&views[1])];
    let whole = totals[0] * totals[1];
    if whole <= 0.0 {
        // A batch of rows of weight 0 says nothing.
        return;
    }
    // Each weight times the total of the other group: without row weights all masses are whole numbers, and exact.
    let mut rows = orders[0].iter().map(|&i| (i as usize, views[0].weight(i as usize) * totals[1]));
    let mut partners = orders[1].iter().map(|&j| (j as usize, views[1].weight(j as usize) * totals[0]));
    let (mut row, mut partner) = (rows.next(), partners.next());
    while let (Some((i, left)), Some((j, room))) = (row, partner) {
        let mass = left.min(room);
        if mass > 0.0 {
            add(i, j, mass / whole);
        }
        row = if left <= mass { rows.next() } else { Some((i, left - mass)) };
        partner = if room <= mass { partners.next() } else { Some((j, room - mass)) };
    }
}
