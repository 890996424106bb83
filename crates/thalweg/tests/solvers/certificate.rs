//! The certificate with bounds against brute force on small random problems, and what it refuses.
use std::sync::Arc;

use crate::common::certify;
use thalweg::certify::{Bounds, Certificate};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Problem, Source};
use thalweg::sets;

fn symmetric(rng: &mut Rng) -> f64 {
    2.0 * rng.uniform() - 1.0
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A weakly convex part whose constant is known by formula.
#[derive(Debug, Clone)]
enum Part {
    /// `|curve ||x||^2 / 2 + <slope, x> + height|`: constant |curve|.
    Absolute { curve: f64, slope: Vec<f64>, height: f64 },
    /// `size cos(<wave, x>)`: constant `size ||wave||^2`.
    Cosine { size: f64, wave: Vec<f64> },
    /// `curve ||x||^2 / 2 + <slope, x>`: constant -curve, or 0.
    Square { curve: f64, slope: Vec<f64> },
}

impl Part {
    fn random(dim: usize, rng: &mut Rng) -> Self {
        let mut row = || -> Vec<f64> { (0..dim).map(|_| 2.0 * symmetric(rng)).collect() };
        let row = row();
        if rng.uniform() < 0.6 {
            Part::Absolute { curve: 3.0 * symmetric(rng), slope: row, height: symmetric(rng) }
        } else {
            Part::Cosine { size: rng.uniform(), wave: row }
        }
    }

    fn constant(&self) -> f64 {
        match self {
            Part::Absolute { curve, .. } => curve.abs(),
            Part::Cosine { size, wave } => size * dot(wave, wave),
            Part::Square { curve, .. } => (-curve).max(0.0),
        }
    }

    fn value(&self, x: &[f64]) -> f64 {
        match self {
            Part::Absolute { curve, slope, height } => (0.5 * curve * dot(x, x) + dot(slope, x) + height).abs(),
            Part::Cosine { size, wave } => size * dot(wave, x).cos(),
            Part::Square { curve, slope } => 0.5 * curve * dot(x, x) + dot(slope, x),
        }
    }

    fn add_slope(&self, x: &[f64], out: &mut [f64]) {
        match self {
            Part::Absolute { curve, slope, height } => {
                let sign = (0.5 * curve * dot(x, x) + dot(slope, x) + height).signum();
                out.iter_mut().zip(slope).zip(x).for_each(|((o, s), x)| *o += sign * (s + curve * x));
            }
            Part::Cosine { size, wave } => {
                let sine = dot(wave, x).sin();
                out.iter_mut().zip(wave).for_each(|(o, w)| *o -= size * sine * w);
            }
            Part::Square { curve, slope } => out.iter_mut().zip(slope).zip(x).for_each(|((o, s), x)| *o += s + curve * x),
        }
    }
}

/// Sum or maximum of parts, minus a number.
#[derive(Debug, Clone)]
struct Function {
    parts: Vec<Part>,
    maximum: bool,
    minus: f64,
}

impl Function {
    fn random(dim: usize, rng: &mut Rng) -> Self {
        let parts = (0..1 + rng.below(3)).map(|_| Part::random(dim, rng)).collect();
        Function { parts, maximum: rng.below(2) == 0, minus: 0.0 }
    }

    /// A constraint: half of them convex.
    fn constraint(dim: usize, rng: &mut Rng) -> Self {
        let slope = (0..dim).map(|_| 2.0 * symmetric(rng)).collect();
        let part = match rng.below(4) {
            0 => Part::Square { curve: 0.0, slope },
            1 => Part::Square { curve: 2.0, slope },
            2 => Part::Square { curve: -1.0, slope },
            _ => Part::random(dim, rng),
        };
        Function { parts: vec![part], maximum: false, minus: 0.0 }
    }

    fn constant(&self) -> f64 {
        let constants = self.parts.iter().map(Part::constant);
        if self.maximum { constants.fold(0.0, f64::max) } else { constants.sum() }
    }

    fn value(&self, x: &[f64]) -> f64 {
        let values = self.parts.iter().map(|part| part.value(x));
        (if self.maximum { values.fold(f64::NEG_INFINITY, f64::max) } else { values.sum() }) - self.minus
    }

    fn slope(&self, x: &[f64], out: &mut [f64]) {
        if self.maximum {
            let largest = self.parts.iter().max_by(|a, b| a.value(x).total_cmp(&b.value(x)));
            largest.unwrap().add_slope(x, out);
        } else {
            self.parts.iter().for_each(|part| part.add_slope(x, out));
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Domain {
    All,
    Box,
    Ball,
    Product,
}

impl Domain {
    /// Range of the last coordinate, given those before it.
    fn range(self, before: &[f64], dim: usize) -> (f64, f64) {
        match self {
            Domain::All => (-20.0, 20.0),
            Domain::Box => (-1.0, 1.5),
            Domain::Ball => {
                let left = (1.44 - dot(before, before)).max(0.0).sqrt();
                (-left, left)
            }
            Domain::Product if before.len() + 1 < dim => (0.0, 1.0),
            Domain::Product => (-0.7, 0.7),
        }
    }

    fn put(self, problem: Problem, dim: usize) -> Problem {
        match self {
            Domain::All => problem,
            Domain::Box => problem.domain(sets::Bounds::uniform(-1.0, 1.5).unwrap()),
            Domain::Ball => problem.domain(sets::Ball::new(1.2).unwrap()),
            Domain::Product => {
                let last: (usize, Box<dyn sets::Set>) = (1, Box::new(sets::Ball::new(0.7).unwrap()));
                let first: (usize, Box<dyn sets::Set>) = (1, Box::new(sets::Bounds::uniform(0.0, 1.0).unwrap()));
                problem.domain(sets::Product::new(if dim == 1 { vec![last] } else { vec![first, last] }).unwrap())
            }
        }
    }

    fn random(self, dim: usize, rng: &mut Rng) -> Vec<f64> {
        let mut x = vec![];
        for _ in 0..dim {
            let (low, high) = self.range(&x, dim);
            let (low, high) = (low.max(-1.5), high.min(1.5));
            x.push(low + rng.uniform() * (high - low));
        }
        x
    }
}

/// Minimum of a convex function of one variable, by thirds.
fn thirds(mut low: f64, mut high: f64, value: &mut dyn FnMut(f64) -> f64) -> (f64, f64) {
    for _ in 0..60 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if value(a) <= value(b) {
            high = b;
        } else {
            low = a;
        }
    }
    let middle = 0.5 * (low + high);
    (middle, value(middle))
}

/// The minimum of a convex function over a domain in one or two variables: thirds inside thirds.
fn brute(domain: Domain, dim: usize, value: &dyn Fn(&[f64]) -> f64) -> Vec<f64> {
    let (low, high) = domain.range(&[], dim);
    if dim == 1 {
        return vec![thirds(low, high, &mut |x| value(&[x])).0];
    }
    let inner = |x: f64| {
        let (low, high) = domain.range(&[x], dim);
        thirds(low, high, &mut |y| value(&[x, y]))
    };
    let x = thirds(low, high, &mut |x| inner(x).1).0;
    vec![x, inner(x).0]
}

struct Case {
    dim: usize,
    domain: Domain,
    f: Function,
    g: Vec<Function>,
}

const PRICE: f64 = 300.0;

impl Case {
    fn problem(&self) -> Problem {
        let (f, slope) = (Arc::new(self.f.clone()), Arc::new(self.f.clone()));
        let mut problem = Problem::new(self.dim).objective(move |x| f.value(x), move |x, s| slope.slope(x, s));
        for (j, g) in self.g.iter().enumerate() {
            let (g, slope) = (Arc::new(g.clone()), Arc::new(g.clone()));
            problem = problem.constraint(format!("g{j}"), move |x| g.value(x), move |x, s| slope.slope(x, s));
        }
        self.domain.put(problem.weak_convexity(self.f.constant(), self.rho_g()), self.dim)
    }

    fn rho_g(&self) -> f64 {
        self.g.iter().map(Function::constant).fold(0.0, f64::max)
    }

    /// The distance from the centre to the solution of the subproblem, and what the constraints exceed the level by there.
    fn distance(&self, centre: &[f64], mu: f64, mu_g: f64, level: f64) -> (f64, f64) {
        let square = |y: &[f64]| y.iter().zip(centre).map(|(y, c)| (y - c) * (y - c)).sum::<f64>();
        let excess = |y: &[f64]| {
            let pull = 0.5 * (self.rho_g() + mu_g) * square(y);
            self.g.iter().map(|g| g.value(y) + pull - level).fold(0.0, f64::max)
        };
        let merit = |y: &[f64]| self.f.value(y) + 0.5 * (self.f.constant() + mu) * square(y) + PRICE * excess(y);
        let xhat = brute(self.domain, self.dim, &merit);
        (square(&xhat).sqrt(), excess(&xhat))
    }
}

fn holds(case: &Case, centre: &[f64], found: &Certificate) -> bool {
    let (distance, excess) = case.distance(centre, found.mu, found.mu_g, found.relaxed);
    if excess > 1e-7 || found.multipliers.iter().sum::<f64>() > 0.5 * PRICE {
        return false; // brute force failed, or there is no such point
    }
    let say = format!("{distance} {found:?} {:?} {:?} {:?}", case.f, case.g, case.domain);
    assert!(found.lower <= distance + 1e-5 && distance <= found.upper + 1e-5, "{say}");
    assert!(found.reached, "{say}");
    assert!(found.upper - found.lower <= (0.01 * found.upper).max(1e-4) + 1e-12, "{say}");
    true
}

#[test]
fn intervals_contain_what_brute_force_finds() {
    let mut rng = Rng::new(5, Purpose::Data);
    let domains = [Domain::All, Domain::Box, Domain::Ball, Domain::Product];
    let (mut feasible, mut infeasible, mut tight) = (0, 0, 0);
    for trial in 0..48 {
        let dim = 1 + trial % 2;
        let domain = domains[trial / 2 % 4];
        let f = Function::random(dim, &mut rng);
        let centre = domain.random(dim, &mut rng);
        let inside = trial % 3 != 0;
        let mut g: Vec<Function> = (0..1 + rng.below(2)).map(|_| Function::constraint(dim, &mut rng)).collect();
        for g in &mut g {
            g.minus = g.value(&centre) + 0.3 * rng.uniform() * if inside { 1.0 } else { -0.5 };
        }
        let case = Case { dim, domain, f, g };
        let mu_g = if trial % 5 == 0 { 0.4 } else { 0.0 };
        let mu = Some(0.2 + 2.0 * rng.uniform());
        let how = Bounds { mu, mu_g, width: 0.01, target: 1e-4, evaluations: 400, ..Bounds::default() };
        let found = certify(&case.problem(), &centre, &how).unwrap();
        assert_eq!(found.point.feasible, inside);
        assert_eq!(found.certified(), inside);
        if inside {
            assert!(found.relaxed == 0.0);
        }
        if holds(&case, &centre, &found) {
            *(if inside { &mut feasible } else { &mut infeasible }) += 1;
            tight += usize::from(found.multipliers.iter().any(|l| *l > 0.01));
        }
    }
    assert!(feasible >= 30 && infeasible >= 8 && tight >= 10, "{feasible} {infeasible} {tight}");
}

#[test]
fn a_problem_without_a_constant_is_refused() {
    let problem = Problem::new(1).objective(|x| x[0].abs(), |x, s| s[0] = x[0].signum()).constraint(
        "cap",
        |x| x[0] - 1.0,
        |_, s| s[0] = 1.0,
    );
    let refusal = certify(&problem, &[0.5], &Bounds::default()).unwrap_err().to_string();
    assert!(refusal.contains("the objective has no known weak-convexity constant") && refusal.contains("rho_f"), "{refusal}");
    let refusal = certify(&problem, &[0.5], &Bounds { rho_f: Some(0.0), ..Bounds::default() }).unwrap_err().to_string();
    assert!(refusal.contains("constraint 'cap' has no known") && refusal.contains("rho_g"), "{refusal}");
    let claimed = Bounds { rho_f: Some(0.0), rho_g: Some(0.0), ..Bounds::default() };
    let found = certify(&problem, &[0.5], &claimed).unwrap();
    assert_eq!((found.rho_f.source, found.rho_g[0].source), (Source::Claimed, Source::Claimed));
    assert!(found.lower <= 0.5 + 1e-12 && 0.5 <= found.upper + 1e-12, "{found:?}");
    for (how, name) in [
        (Bounds { mu: Some(0.0), ..claimed }, "mu"),
        (Bounds { mu_g: -1.0, ..claimed }, "mu_g"),
        (Bounds { width: f64::NAN, ..claimed }, "width"),
        (Bounds { rho_f: Some(-1.0), ..claimed }, "rho_f"),
    ] {
        let refusal = certify(&problem, &[0.5], &how).unwrap_err().to_string();
        assert!(refusal.contains(name), "{refusal}");
    }
    let boxed = Problem::new(1).weak_convexity(0.0, 0.0).domain(sets::Bounds::uniform(0.0, 1.0).unwrap());
    let refusal = certify(&boxed, &[2.0], &Bounds::default()).unwrap_err().to_string();
    assert!(refusal.contains("outside the domain"), "{refusal}");
}

/// Where only one point keeps the constraints, none is found exactly: the problem is relaxed, and that is said.
#[test]
fn constraints_that_leave_one_point_are_relaxed() {
    let problem = Problem::new(2)
        .objective(|x| x[1] * x[1], |x, s| s[1] = 2.0 * x[1])
        .constraint("below", |x| x[0] * x[0] + x[1] - 0.25, |x, s| s.copy_from_slice(&[2.0 * x[0], 1.0]))
        .constraint("above", |x| 0.25 - x[1], |_, s| s[1] = -1.0)
        .weak_convexity(0.0, 0.0);
    let found = certify(&problem, &[1.0, 1.0], &Bounds { width: 0.01, ..Bounds::default() }).unwrap();
    assert!(found.relaxed > 0.0 && found.relaxed < 1e-3 && !found.certified(), "{found:?}");
    // Relaxed by r: below y = 1/4 - r lies nothing, and |x| is at most the root of 2r.
    let far = (1.0 + 0.5625_f64).sqrt();
    let slack = (2.0 * found.relaxed).sqrt() + found.relaxed;
    assert!(found.lower <= far + slack && found.upper >= far - slack, "{found:?}");
    // A point that is feasible within its tolerance: the constraints are relaxed by exactly its violation.
    let problem = Problem::new(1)
        .objective(|x| -x[0], |_, s| s[0] = -1.0)
        .constraint("cap", |x| x[0] - 1.0, |_, s| s[0] = 1.0)
        .weak_convexity(0.0, 0.0);
    let found = certify(&problem, &[1.0 + 5e-7], &Bounds { target: 1e-9, ..Bounds::default() }).unwrap();
    assert!(found.certified() && (found.relaxed - 5e-7).abs() < 1e-12, "{found:?}");
    // Values of 1 with 16 digits allow no smaller bound than about 1e-7, and the certificate says so.
    assert!(found.upper <= 2.0 * found.resolution && found.resolution < 2e-7 && !found.reached, "{found:?}");
    assert!((found.multipliers[0] - 1.0).abs() < 1e-6);
}

/// Gradients that no visited value contradicts, unless values near the point are compared with them.
#[test]
fn wrong_gradients_are_refused() {
    for (wrong, x) in [(0.0, 0.5), (-1.0, 0.5), (0.5, -3.0), (2.0, 1e-3)] {
        for scale in [1e-6, 1.0, 1e6] {
            let problem = Problem::new(1)
                .objective(move |x| scale * (x[0] * x[0] + x[0]), move |x, s| s[0] = wrong * scale * (2.0 * x[0] + 1.0))
                .weak_convexity(0.0, 0.0);
            let refusal = certify(&problem, &[x], &Bounds::default()).unwrap_err().to_string();
            assert!(refusal.contains("the constant or the subgradients are wrong"), "{wrong} {x}: {refusal}");
        }
    }
    // One wrong entry of a constraint's gradient.
    let problem = Problem::new(3)
        .constraint("sum", |x| x[0] + 2.0 * x[1] + x[2] * x[2] - 9.0, |x, s| s.copy_from_slice(&[1.0, 1.0, 2.0 * x[2]]))
        .weak_convexity(0.0, 0.0);
    let refusal = certify(&problem, &[1.0, 1.0, 1.0], &Bounds::default()).unwrap_err().to_string();
    assert!(refusal.contains("constraint 'sum'") && refusal.contains("subgradients are wrong"), "{refusal}");
}

/// Intervals ignored rounding: large constants hid the objective, and the interval had a width of zero.
#[test]
fn intervals_contain_the_truth_in_spite_of_rounding() {
    for constant in [0.0, 1e3, 1e6, 1e9] {
        for centre in [1e-5, 1e-3, 0.7] {
            let problem =
                Problem::new(1).objective(move |x| constant + 0.5 * x[0] * x[0], |x, s| s[0] = x[0]).weak_convexity(0.0, 0.0);
            let found = certify(&problem, &[centre], &Bounds::default()).unwrap();
            // With the coefficient 1 the proximal point is half of the way to 0.
            let truth = 0.5 * centre;
            assert!(found.lower <= truth && truth <= found.upper, "{constant} {centre}: {found:?}");
            assert!(found.lower < found.upper && found.resolution > 0.0, "{found:?}");
        }
    }
    // Least squares whose targets are far larger than the residuals.
    let rows: Vec<(f64, f64)> =
        (0..40).map(|i| (1.0 + 0.1 * f64::from(i), 2e5 * (1.0 + 0.1 * f64::from(i)) + f64::from(i % 3))).collect();
    let (data, again) = (rows.clone(), rows.clone());
    let problem = Problem::new(1)
        .objective(
            move |x| data.iter().map(|(a, b)| 0.5 * (a * x[0] - b).powi(2)).sum::<f64>() / 40.0,
            move |x, s| s[0] = again.iter().map(|(a, b)| a * (a * x[0] - b)).sum::<f64>() / 40.0,
        )
        .weak_convexity(0.0, 0.0);
    // The residual is small against the targets; products of its parts are exact.
    let (square, least) = rows.iter().fold((0.0, 0.0), |(s, l), (a, b)| (s + a * a / 40.0, l + a * (b - 2e5 * a) / 40.0));
    for off in [1e-3, 1e-2, 1.0] {
        let centre = 2e5 + least / square + off;
        let found = certify(&problem, &[centre], &Bounds::default()).unwrap();
        // xhat - c = -(h / (h + 1)) (c - x*).
        let truth = square / (square + 1.0) * (centre - 2e5 - least / square);
        assert!(found.lower <= truth && truth <= found.upper, "{off}: {truth} {found:?}");
    }
}

/// `x^2 - 3 |x - 1/2|` is convex between 0.9 and its proximal point 1.3, and has a concave kink on the other side.
#[test]
fn a_constant_that_is_wrong_beyond_the_proximal_point_is_refused() {
    let problem = |rho: f64| {
        Problem::new(1)
            .objective(|x| x[0] * x[0] - 3.0 * (x[0] - 0.5).abs(), |x, s| s[0] = 2.0 * x[0] - 3.0 * (x[0] - 0.5).signum())
            .weak_convexity(rho, 0.0)
    };
    let bounds = Bounds { mu: Some(1.0), ..Bounds::default() };
    let refused = certify(&problem(0.0), &[0.9], &bounds).unwrap_err().to_string();
    assert!(refused.contains("the weak-convexity constant 0 of the objective is too small"), "{refused}");
    // In two variables the kink lies beside the line to the proximal point, on one to a visited point.
    let beside = Problem::new(2)
        .objective(
            |x| (x[0] - 2.0).abs().max((x[1] - 1.0).abs()) - 3.0 * (x[1] + 1.2).abs().min(1.0),
            |x, s| {
                s.fill(0.0);
                let (a, b) = (x[0] - 2.0, x[1] - 1.0);
                if a.abs() >= b.abs() {
                    s[0] = a.signum()
                } else {
                    s[1] = b.signum()
                }
                if (x[1] + 1.2).abs() < 1.0 {
                    s[1] -= 3.0 * (x[1] + 1.2).signum();
                }
            },
        )
        .weak_convexity(0.0, 0.0);
    let found = certify(&beside, &[0.0, 0.0], &bounds);
    assert!(found.is_err() || found.is_ok_and(|found| found.evaluations <= bounds.evaluations), "spends no more than it may");
}
