//! Near-stationarity from a gradient of the Lagrangian, without solving the proximal subproblem. Cutting planes, which give an interval
//! instead of an upper bound, are in `bounds.rs`.

/// Bounds the distance of a point x from its proximal point, the solution of `min f(y) + ((rho_f + mu) / 2) ||y - x||^2` subject to
/// `g_j(y) + (rho_j / 2) ||y - x||^2 <= relaxed`, where rho_f and rho_j are weak-convexity constants.
///
/// `gradient` is an upper bound on the norm of a subgradient of the Lagrangian `f + sum_j lambda_j g_j` at x for some multipliers
/// `lambda >= 0`, and `gap` one on `sum_j lambda_j (relaxed - g_j(x))`.
///
/// The Lagrangian of the subproblem is strongly convex with constant mu, and at x it has that subgradient; so its smallest value, a lower
/// bound of the subproblem, is at least `f(x) - gap - gradient^2 / (2 mu)`. As x satisfies the constraints of the subproblem with the value
/// f(x), strong convexity gives the distance.
///
/// ```
/// // f(x) = x^2 / 2 at 0.1: the proximal point with mu = 1 is 0.05.
/// assert!(thalweg::certify::distance_bound(0.1, 0.0, 1.0) >= 0.05);
/// ```
pub fn distance_bound(gradient: f64, gap: f64, mu: f64) -> f64 {
    // A few roundings of this formula.
    let up = 1.0 + 16.0 * f64::EPSILON;
    up * ((gradient * gradient / mu + 2.0 * gap.max(0.0)) / mu).sqrt()
}

/// Radius around a point within which no point satisfies all constraints, given the weighted mean `level > 0` of constraint values there,
/// the norm of the weighted mean of their gradients, and of their weak-convexity constants.
pub fn infeasible_radius(level: f64, gradient: f64, rho: f64) -> f64 {
    if level <= 0.0 || level.is_nan() {
        return 0.0;
    }
    // The positive root of level - gradient r - rho r^2 / 2, without cancellation.
    2.0 * level / (gradient + (gradient * gradient + 2.0 * rho * level).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_for_quadratics_with_a_known_proximal_point() {
        // f = a x^2 / 2 + b x subject to x <= u: the proximal point is the clipped minimiser of f + mu (x - c)^2 / 2.
        for (a, b, u, c, lambda) in [(1.0, -2.0, 1.0, 0.9, 1.1), (0.0, -1.0, 0.5, 0.5, 1.0), (3.0, 1.0, 5.0, 0.2, 0.0)] {
            for mu in [0.1, 1.0, 10.0] {
                let proximal = f64::min((mu * c - b) / (a + mu), u);
                let gradient: f64 = a * c + b + lambda;
                let bound = distance_bound(gradient.abs(), lambda * (u - c), mu);
                assert!(bound >= (proximal - c).abs(), "{bound} {proximal}");
            }
        }
        assert_eq!(distance_bound(0.0, 0.0, 1.0), 0.0);
    }

    #[test]
    fn no_point_within_the_radius_is_feasible() {
        // 1 - 2 r - r^2 / 2 = 0.
        let radius = infeasible_radius(1.0, 2.0, 1.0);
        assert!((1.0 - 2.0 * radius - 0.5 * radius * radius).abs() < 1e-14);
        assert_eq!(infeasible_radius(0.5, 0.25, 0.0), 2.0);
        assert_eq!(infeasible_radius(-1.0, 1.0, 0.0), 0.0);
        assert_eq!(infeasible_radius(1.0, 0.0, 0.0), f64::INFINITY);
    }
}
