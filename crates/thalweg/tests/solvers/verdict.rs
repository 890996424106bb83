//! A verdict of infeasibility is compared with what is known about the problem before it is returned, and withdrawn if a feasible
//! point is known or proved to exist.

use crate::common::certify;
use thalweg::Result;
use thalweg::certify::Bounds;
use thalweg::oracle::Problem;
use thalweg::run::{Evidence, Options, Outcome, StopReason, minimize};
use thalweg::solvers::{Bundle, Eval, Infeasible, Method, PointOrigin, Solver, State, Step, Verdict, bundle};

/// A solver that stays at the start and calls the first constraint infeasible.
struct Wrong {
    x: Vec<f64>,
    verdict: Verdict,
}

impl Method for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }
    fn version(&self) -> u32 {
        1
    }
    fn iterate(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.x);
    }
    fn output(&self, out: &mut [f64]) -> PointOrigin {
        self.iterate(out);
        PointOrigin::OutputRule
    }
    fn verdict(&self) -> Option<&Verdict> {
        Some(&self.verdict)
    }
    fn save(&self) -> Result<State> {
        State::pack(&0)
    }
    fn restore(&mut self, _: &State) -> Result<()> {
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Wrong {
    fn start(&mut self, _: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        self.x = x.to_vec();
        Ok(())
    }
    fn step(&mut self, _: &mut (dyn Eval + 'e)) -> Result<Step> {
        Ok(Step { finished: true, ..Step::default() })
    }
}

/// Runs the solver that is wrong on `min x^2` subject to `x >= 1`.
fn wrong(start: f64, everywhere: bool) -> Outcome {
    let found = Infeasible { violation: 1.0, conflicting: vec![0], upper: 0.0, radius: 1e3, everywhere, estimated: false };
    let mut solver = Wrong { x: vec![], verdict: Verdict::Infeasible(found) };
    minimize(&at_least(1.0), &mut solver, &[start], &Options::iterations(10), &mut ()).unwrap()
}

/// `min x^2` subject to `x >= bound`.
fn at_least(bound: f64) -> Problem {
    Problem::new(1)
        .objective(|x| x[0] * x[0], |x, s| s[0] = 2.0 * x[0])
        .constraint("demand", move |x| bound - x[0], |_, s| s[0] = -1.0)
        .weak_convexity(0.0, 0.0)
}

#[test]
fn a_verdict_is_withdrawn_if_the_certificate_of_its_point_has_a_feasible_one() {
    for everywhere in [true, false] {
        let outcome = wrong(-3.0, everywhere);
        let StopReason::Withdrawn { conflicting, evidence: Evidence::FeasiblePoint { distance } } = &outcome.ended else {
            panic!("{:?}", outcome.ended)
        };
        assert_eq!((conflicting.as_slice(), outcome.point.feasible), (["demand".to_string()].as_slice(), false));
        assert!((distance - 4.0).abs() < 1e-3, "{distance}");
        let best = outcome.best_feasible.as_ref().expect("the feasible point is returned");
        assert!((best.x[0] - 1.0).abs() < 1e-3, "{best:?}");
        let words = outcome.ended.headline(false);
        let expected = "not feasible; the solver's verdict that constraint 'demand' cannot be satisfied is withdrawn, because a point \
                        4.0e0 away is feasible";
        assert_eq!(words, expected);
    }
}

#[test]
fn a_verdict_is_withdrawn_at_a_feasible_point() {
    let outcome = wrong(2.0, true);
    assert!(outcome.point.feasible);
    assert!(matches!(outcome.ended, StopReason::Withdrawn { evidence: Evidence::FeasiblePoint { distance: 0.0 }, .. }));
    assert!(outcome.ended.to_string().ends_with("is withdrawn, because the returned point is feasible"), "{}", outcome.ended);
}

#[test]
fn a_true_verdict_stays() {
    let problem = at_least(1.0).constraint("supply", |x| x[0] + 1.0, |_, s| s[0] = 1.0).weak_convexity(0.0, 0.0);
    let mut solver = Bundle::new(bundle::Settings::default()).unwrap();
    let outcome = minimize(&problem, &mut solver, &[3.0], &Options::iterations(500), &mut ()).unwrap();
    assert!(matches!(outcome.ended, StopReason::Infeasible { .. }), "{:?}", outcome.ended);
    // Nor does the certificate of its point contradict it.
    let mut ended = outcome.ended.clone();
    ended.compare_with(&certify(&problem, &outcome.point.x, &Bounds::default()).unwrap());
    assert_eq!(ended, outcome.ended);
}

#[test]
fn a_bound_contradicts_a_verdict_within_its_radius_only() {
    let mut certificate = certify(&at_least(1.0), &[0.5], &Bounds::default()).unwrap();
    assert!(certificate.proximal_feasible && certificate.upper < 1.0);
    // As if the feasible point had been lost, and only the bound was left.
    certificate.proximal_feasible = false;
    let verdict = |radius, everywhere| StopReason::Infeasible { conflicting: vec!["demand".into()], everywhere, radius };
    for (radius, everywhere, contradicted) in
        [(Some(2.0), false, true), (Some(0.1), false, false), (None, false, false), (Some(0.1), true, true)]
    {
        let mut ended = verdict(radius, everywhere);
        ended.compare_with(&certificate);
        let withdrawn = matches!(ended, StopReason::Withdrawn { evidence: Evidence::Bound { .. }, .. });
        assert_eq!(withdrawn, contradicted, "{radius:?} {everywhere}");
    }
    // A relaxed subproblem proves nothing about the constraints themselves.
    certificate.relaxed = 0.5;
    let mut ended = verdict(Some(2.0), false);
    ended.compare_with(&certificate);
    assert!(matches!(ended, StopReason::Infeasible { .. }));
    // Other reasons stay.
    let mut ended = StopReason::Finished;
    certificate.proximal_feasible = true;
    ended.compare_with(&certificate);
    assert_eq!(ended, StopReason::Finished);
}
