//! The Wasserstein distance between the score distributions of two groups, with the transport plan eliminated. The problem with
//! the plan as a variable is [`super::JointWasserstein`].

use super::term::{Constant, Part, RowNorms, Subpopulation, Term, View, Work};

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
/// **Mini-batches.** The estimate is the distance between the scores of the batch, with each group's weights scaled to 1. It is
/// biased upwards: two small samples differ even if their groups do not.
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
    fn populations(&self) -> (Part, Vec<Subpopulation>) {
        (Part::Gaps, vec![Subpopulation::Group(0), Subpopulation::Group(1)])
    }

    fn is_coupled(&self) -> bool {
        true
    }

    fn couple(&self, views: [View; 2], work: &mut Work) {
        work.coupling.make(views);
    }

    /// Half of the mean distance between a row and its partners, equal for both groups.
    fn measure(&self, _: usize, _: View, work: &mut Work, out: &mut [f64]) {
        out[0] = 0.5 * work.coupling.cost;
    }

    fn outer(&self, statistics: &[f64]) -> f64 {
        statistics[0] + statistics[1]
    }

    fn outer_slopes(&self, _: &[f64], out: &mut [f64]) {
        out.fill(1.0);
    }

    /// Derivative of both statistics together, since a row is also a partner in the other group's mean.
    fn slopes(&self, k: usize, view: View, weights: &[f64], work: &mut Work, out: &mut [f64]) {
        let factor = weights[0] * view.scores.len() as f64;
        out.iter_mut().zip(&work.coupling.slopes[k]).for_each(|(out, slope)| *out = factor * slope);
    }

    fn modulus(&self, _: &[RowNorms], _: Constant) -> Option<f64> {
        None
    }
}

/// Sorted coupling of two groups of scores.
#[derive(Debug, Default)]
pub(super) struct Coupling {
    /// Rows in ascending order of their scores, equal ones by index.
    orders: [Vec<u32>; 2],
    /// Derivative of the cost with respect to each score.
    slopes: [Vec<f64>; 2],
    /// Cost of the plan.
    cost: f64,
}

impl Coupling {
    fn make(&mut self, views: [View; 2]) {
        for ((view, order), slopes) in views.iter().zip(&mut self.orders).zip(&mut self.slopes) {
            sort(view.scores, order);
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

/// Sorts the rows by score, equal ones by index. Starting from the previous order makes sorting cheap and does not affect the
/// result.
pub(super) fn sort(scores: &[f64], order: &mut Vec<u32>) {
    if order.len() != scores.len() {
        order.clear();
        order.extend(0..scores.len() as u32);
    }
    let score = |i: u32| scores[i as usize];
    order.sort_unstable_by(|&i, &j| score(i).total_cmp(&score(j)).then(i.cmp(&j)));
}

/// Applies the north-west corner rule to the sorted scores: calls `add(i, j, P_ij)` for every pair with mass, at most `n_1 +
/// n_2` times.
pub(super) fn sweep(views: [View; 2], orders: &[Vec<u32>; 2], add: &mut impl FnMut(usize, usize, f64)) {
    let total = |view: &View| view.weights.map_or(view.scores.len() as f64, |w| w.iter().sum());
    let totals = [total(&views[0]), total(&views[1])];
    let whole = totals[0] * totals[1];
    if whole <= 0.0 {
        // A batch in which all rows have weight 0 has no coupling.
        return;
    }
    // Multiplying each weight by the total of the other group makes all masses exact integers if there are no row weights.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Rng;
    use crate::math::rng::Purpose;

    fn view<'a>(scores: &'a [f64], weights: Option<&'a [f64]>) -> View<'a> {
        View { scores, labels: &[], weights }
    }

    fn couple(views: [View; 2]) -> Coupling {
        let mut coupling = Coupling::default();
        coupling.make(views);
        coupling
    }

    /// Coarse scores, so that ties within and between groups are common.
    fn coarse(n: usize, rng: &mut Rng) -> Vec<f64> {
        (0..n).map(|_| (8.0 * rng.uniform()).floor() / 4.0 - 1.0).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn the_worked_pair_of_two_and_two() {
        let (p, u) = ([1.0, 0.0], [0.5, 2.0]);
        let coupling = couple([view(&p, None), view(&u, None)]);
        assert_eq!(coupling.cost, 0.75);
        assert_eq!(coupling.slopes, [vec![-0.5, -0.5], vec![0.5, 0.5]]);
        // One row against three: convex in its score, slope 1/3 - 1/3 + 0 at the middle one.
        let coupling = couple([view(&[1.0], None), view(&[0.0, 1.0, 4.0], None)]);
        assert_eq!(coupling.cost, 4.0 / 3.0);
        assert!(coupling.slopes[0][0].abs() < 1e-16);
        assert_eq!(coupling.slopes[1], [-1.0 / 3.0, 0.0, 1.0 / 3.0]);
        // Rows without weight are not there.
        let coupling = couple([view(&[9.0, 1.0], Some(&[0.0, 2.0])), view(&[0.0, -5.0, 2.0], Some(&[1.0, 0.0, 2.0]))]);
        assert!(close(coupling.cost, 1.0) && coupling.slopes[0][0] == 0.0 && coupling.slopes[1][1] == 0.0);
        let nothing = couple([view(&[9.0], Some(&[0.0])), view(&[1.0], Some(&[1.0]))]);
        assert_eq!((nothing.cost, &nothing.slopes), (0.0, &[vec![0.0], vec![0.0]]));
        assert!(couple([view(&[f64::NAN], None), view(&[1.0], None)]).cost.is_nan());
    }

    /// The smallest total distance over all ways to pair `first` with `second`.
    fn least(first: &[f64], second: &mut Vec<f64>) -> f64 {
        let Some((s, rest)) = first.split_first() else { return 0.0 };
        let mut best = f64::INFINITY;
        for j in 0..second.len() {
            let partner = second.swap_remove(j);
            best = best.min((s - partner).abs() + least(rest, second));
            second.push(partner);
            let last = second.len() - 1;
            second.swap(j, last);
        }
        best
    }

    /// With n rows on both sides the corners of the set of plans are the permutations (Birkhoff), so that the best of them has
    /// the value of the linear program; other sizes become that by repeating rows.
    #[test]
    fn the_cost_is_the_value_of_the_linear_program() {
        let mut rng = Rng::new(1, Purpose::Data);
        let sizes =
            [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (1, 2), (2, 1), (2, 3), (3, 2), (1, 5), (2, 4), (6, 3), (4, 2)];
        for (m, n) in sizes.into_iter().cycle().take(140) {
            let (p, u) = (coarse(m, &mut rng), coarse(n, &mut rng));
            let all = (1..=m * n).find(|k| k % m == 0 && k % n == 0).unwrap();
            let repeat = |s: &[f64]| s.iter().flat_map(|&v| vec![v; all / s.len()]).collect::<Vec<_>>();
            let want = least(&repeat(&p), &mut repeat(&u)) / all as f64;
            let cost = couple([view(&p, None), view(&u, None)]).cost;
            assert!(close(cost, want), "{p:?} {u:?}: {cost} {want}");
        }
    }

    /// The sorted plan the slow way: sorted rows occupy intervals of [0, 1], and P_ij is the length that two of them share.
    fn naive_plan(p: &[f64], v: &[f64], u: &[f64], w: &[f64]) -> Vec<Vec<f64>> {
        let intervals = |scores: &[f64], weights: &[f64]| {
            let total: f64 = weights.iter().sum();
            let before = |i: usize| {
                let first = |j: &usize| scores[*j] < scores[i] || (scores[*j] == scores[i] && *j < i);
                (0..scores.len()).filter(first).map(|j| weights[j]).sum::<f64>() / total
            };
            (0..scores.len()).map(|i| [before(i), before(i) + weights[i] / total]).collect::<Vec<_>>()
        };
        let (rows, columns) = (intervals(p, v), intervals(u, w));
        let shared = |[a, b]: [f64; 2], [c, d]: [f64; 2]| (b.min(d) - a.max(c)).max(0.0);
        rows.iter().map(|&row| columns.iter().map(|&column| shared(row, column)).collect()).collect()
    }

    #[test]
    fn the_sweep_agrees_with_a_plan_made_the_slow_way_and_with_the_integral() {
        let mut rng = Rng::new(2, Purpose::Data);
        let mut coupling = Coupling::default();
        for trial in 0..200 {
            let (m, n) = (1 + trial % 13, 1 + trial * 7 % 11);
            let (p, u) = (coarse(m, &mut rng), coarse(n, &mut rng));
            let mut weights =
                |n: usize| (0..n).map(|_| if trial % 2 == 0 { 1.0 } else { 0.1 + rng.uniform() }).collect::<Vec<f64>>();
            let (v, w) = (weights(m), weights(n));
            let given = |w| (trial % 2 == 1).then_some(w);
            // The same buffers throughout: nothing may be left of the trial before.
            coupling.make([view(&p, given(&v[..])), view(&u, given(&w[..]))]);

            let plan = naive_plan(&p, &v, &u, &w);
            let pairs = || (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
            let sign = |i: usize, j: usize| if p[i] == u[j] { 0.0 } else { (p[i] - u[j]).signum() };
            let cost: f64 = pairs().map(|(i, j)| plan[i][j] * (p[i] - u[j]).abs()).sum();
            assert!(close(coupling.cost, cost), "trial {trial}");
            for i in 0..m {
                assert!(close(plan[i].iter().sum(), v[i] / v.iter().sum::<f64>()));
                assert!(close(coupling.slopes[0][i], (0..n).map(|j| plan[i][j] * sign(i, j)).sum()), "trial {trial}");
            }
            for j in 0..n {
                assert!(close((0..m).map(|i| plan[i][j]).sum(), w[j] / w.iter().sum::<f64>()));
                assert!(close(coupling.slopes[1][j], -(0..m).map(|i| plan[i][j] * sign(i, j)).sum::<f64>()), "trial {trial}");
            }
            // The integral of |F_1 - F_2| is the value of the dual, which no plan can be below.
            let mut ends = [p.clone(), u.clone()].concat();
            ends.sort_by(f64::total_cmp);
            let below = |scores: &[f64], weights: &[f64], t: f64| {
                let part = |i: &usize| scores[*i] <= t;
                (0..scores.len()).filter(part).map(|i| weights[i]).sum::<f64>() / weights.iter().sum::<f64>()
            };
            let integral: f64 = ends.windows(2).map(|e| (e[1] - e[0]) * (below(&p, &v, e[0]) - below(&u, &w, e[0])).abs()).sum();
            assert!(close(coupling.cost, integral), "trial {trial}");
        }
    }
}
