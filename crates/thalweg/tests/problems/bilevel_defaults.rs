//! Pessimistic bilevel problems with answers on paper, solved without a setting, in several units.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg::bilevel::{self, Bilevel, BilevelSolution, Formulas, FromFormulas, Number, Settings};
use thalweg::run::{Options, StopReason};
use thalweg::sets::{Bounds, Set};

/// Functions of two points in any number.
trait Functions: Send + Sync {
    const OUTER: (f64, f64);
    const INNER: (usize, f64, f64);
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T;
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T;
}

/// A problem with one outer variable in other units: `f -> scale f + shift`, g times a factor and plus a shift, x and y times factors.
struct Written<P> {
    problem: P,
    f: (f64, f64),
    g: (f64, f64),
    x: f64,
    y: f64,
}

impl<P: Functions> Formulas for Written<P> {
    fn outer_dim(&self) -> usize {
        1
    }
    fn inner_dim(&self) -> usize {
        P::INNER.0
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        Arc::new(Bounds::uniform(self.x * P::OUTER.0, self.x * P::OUTER.1).unwrap())
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        Arc::new(Bounds::uniform(self.y * P::INNER.1, self.y * P::INNER.2).unwrap())
    }
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        let (x, y) = (scaled(x, 1.0 / self.x), scaled(y, 1.0 / self.y));
        self.problem.outer(&x, &y) * self.f.0 + self.f.1
    }
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T {
        let (x, y) = (scaled(x, 1.0 / self.x), scaled(y, 1.0 / self.y));
        self.problem.inner(&x, &y) * self.g.0 + self.g.1
    }
}

fn scaled<T: Number>(values: &[T], factor: f64) -> Vec<T> {
    values.iter().map(|value| *value * factor).collect()
}

/// `f = (x - 1)^2 + x y`, and every y within 1 of x is a response. For a positive x the worst is x + 1, so that the value is
/// `2 x^2 - x + 1`: 7/8 at x = 1/4.
struct Band;
impl Functions for Band {
    const OUTER: (f64, f64) = (-3.0, 3.0);
    const INNER: (usize, f64, f64) = (1, -6.0, 6.0);
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        (x[0] - 1.0).powi(2) + x[0] * y[0]
    }
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T {
        ((y[0] - x[0]).abs() - 1.0).positive_part().powi(4)
    }
}

/// Stackelberg's duopoly: the price is 12 minus the amounts sold, and the follower makes its amount in two plants at no cost, so that
/// it is indifferent about the shares of the plants. It sells (12 - x) / 2; the leader earns x (12 - x) / 2: 18 at x = 6.
struct Duopoly;
impl Functions for Duopoly {
    const OUTER: (f64, f64) = (0.0, 12.0);
    const INNER: (usize, f64, f64) = (2, -1.0, 12.0);
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        -(x[0] * (-x[0] - y[0] - y[1] + 12.0))
    }
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T {
        -((y[0] + y[1]) * (-x[0] - y[0] - y[1] + 12.0))
    }
}

/// A toll x on the first of two roads for 6 units of traffic, the second of which takes a time equal to its traffic. Traffic y_1, y_2
/// is an equilibrium if it minimises `x y_1 + y_2^2 / 2`; that it adds up to 6 and is not negative is a penalty of 10^4. Then y_2 = x,
/// y_1 = 6 - x (1 + 10^-4), and the revenue x y_1 is largest, 9, at x = 3, both to four digits.
struct Toll;
impl Functions for Toll {
    const OUTER: (f64, f64) = (0.0, 6.0);
    const INNER: (usize, f64, f64) = (2, -2.0, 8.0);
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        -(x[0] * y[0])
    }
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T {
        let missing = y[0] + y[1] - 6.0;
        let negative = (-y[0]).positive_part().powi(3) + (-y[1]).positive_part().powi(3);
        x[0] * y[0] + y[1] * y[1] * 0.5 + missing * missing * 5e3 + negative * 1e4
    }
}

/// Solves a problem without settings and returns the answer in the original units.
fn solve<P: Functions + 'static>(written: Written<P>, start: f64) -> (f64, f64, BilevelSolution) {
    let (f, unit) = (written.f, written.x);
    let problem: Arc<dyn Bilevel> = Arc::new(FromFormulas(written));
    let found = bilevel::solve(&problem, &[unit * start], &Settings::default(), &Options::default(), &mut ()).unwrap();
    assert_eq!(found.outcome.ended, StopReason::Finished, "{:?}", found.outcome.ended);
    assert!(found.outcome.success() && found.agrees(false) == Some(true), "{found:?}");
    let worst = found.extremes.as_ref().unwrap().pessimistic.value;
    (found.x[0] / unit, (worst - f.1) / f.0, found)
}

fn plain<P>(problem: P) -> Written<P> {
    Written { problem, f: (1.0, 0.0), g: (1.0, 0.0), x: 1.0, y: 1.0 }
}

#[test]
fn a_band_of_responses_has_the_answer_on_paper_in_all_units() {
    let problems = [
        plain(Band),
        Written { f: (1.0, 100.0), ..plain(Band) },
        Written { f: (0.01, 0.0), ..plain(Band) },
        Written { f: (1e3, -5e5), ..plain(Band) },
        Written { g: (1e-4, 0.0), ..plain(Band) },
        Written { g: (1e5, 3e5), ..plain(Band) },
        Written { x: 1e-3, ..plain(Band) },
        Written { x: 50.0, y: 1e-2, ..plain(Band) },
    ];
    for (k, problem) in problems.into_iter().enumerate() {
        for start in [1.5, -2.0, 0.3] {
            // A constant that dwarfs g leaves fewer of its digits.
            let tolerance = if k == 5 { 2e-2 } else { 5e-3 };
            let written = Written { problem: Band, ..problem };
            let (x, value, _) = solve(written, start);
            assert!((x - 0.25).abs() < tolerance && (value - 0.875).abs() < tolerance, "{k}, from {start}: {x} {value}");
        }
    }
}

#[test]
fn an_indifferent_follower_of_stackelberg_has_the_answer_on_paper() {
    for written in [plain(Duopoly), Written { f: (1e-3, 20.0), g: (1e3, 0.0), x: 1e-2, y: 30.0, ..plain(Duopoly) }] {
        let (x, value, _) = solve(written, 1.0);
        assert!((x - 6.0).abs() < 5e-3 && (value + 18.0).abs() < 5e-3, "{x} {value}");
    }
}

#[test]
fn a_toll_with_a_penalised_follower_has_the_answer_on_paper() {
    for written in [plain(Toll), Written { f: (10.0, -7.0), g: (1e-2, 0.0), x: 1e2, y: 1e-3, ..plain(Toll) }] {
        let (x, value, _) = solve(written, 1.0);
        assert!((x - 3.0).abs() < 5e-3 && (value + 9.0).abs() < 5e-3, "{x} {value}");
    }
}

#[test]
fn the_search_repeats_itself_and_ends_when_asked() {
    let (_, _, first) = solve(plain(Band), 1.5);
    let (_, _, second) = solve(plain(Band), 1.5);
    assert_eq!((&first.x, &first.y, &first.extremes), (&second.x, &second.y, &second.extremes));
    let problem: Arc<dyn Bilevel> = Arc::new(FromFormulas(plain(Band)));
    let interrupt = Some(Arc::new(AtomicBool::new(true)));
    let options = Options { interrupt, ..Options::default() };
    let found = bilevel::solve(&problem, &[1.5], &Settings::default(), &options, &mut ()).unwrap();
    assert!(found.outcome.ended == StopReason::Interrupted && found.x == [1.5] && found.extremes.is_none(), "{found:?}");
    let few = bilevel::solve(&problem, &[1.5], &Settings::default(), &Options::iterations(7), &mut ()).unwrap();
    assert_eq!(few.outcome.iterations, 7);
}
