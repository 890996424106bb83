//! SiPBA: a single loop of first-order steps for pessimistic bilevel problems. The problems, and the direct search over few outer
//! variables, are in [`crate::bilevel`].

use serde::{Deserialize, Serialize};

use super::{Eval, Method, PointOrigin, Solver, State, Step, StepKind};
use crate::bilevel::Pair;
use crate::math::vec;
use crate::oracle::{Scratch, Warm};
use crate::sets::Set;
use crate::{Error, Result};

/// Settings of [`Sipba`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// First price rho_0 of the follower's suboptimality. Default 10.
    pub rho: f64,
    /// First regularisation sigma_0. Default 0.01.
    pub sigma: f64,
    /// First step beta_0 in y and in z. Default 0.001.
    pub beta: f64,
    /// First step alpha_0 in x. Default 0.1.
    pub alpha: f64,
    /// Exponent p of the price, `rho_k = rho_0 (k + 1)^p`. Default 0.001.
    pub p: f64,
    /// Exponent q of the regularisation, `sigma_k = sigma_0 (k + 1)^-q`. Default 0.001.
    pub q: f64,
    /// Exponent s of the step in x, `alpha_k = alpha_0 (k + 1)^-s`. The theory takes 8 p + 8 q. Default 0.1.
    pub s: f64,
    /// Number of steps. Default 20,000.
    pub steps: u64,
    /// Finishes earlier once x, y and z have moved by at most this many units per unit of step ten times in a row. None by default.
    pub tolerance: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { rho: 10.0, sigma: 0.01, beta: 0.001, alpha: 0.1, p: 0.001, q: 0.001, s: 0.1, steps: 20_000, tolerance: None }
    }
}

impl Settings {
    /// Checks that every setting is in range.
    pub fn resolve(self) -> Result<Self> {
        let positive = [
            ("rho", Some(self.rho)),
            ("sigma", Some(self.sigma)),
            ("beta", Some(self.beta)),
            ("alpha", Some(self.alpha)),
            ("tolerance", self.tolerance),
        ];
        for (name, value) in positive.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        for (name, value) in [("p", self.p), ("q", self.q), ("s", self.s)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number, 0 or larger"));
            }
        }
        if self.steps == 0 {
            return Err(Error::setting("steps", 0, "at least 1"));
        }
        Ok(self)
    }
}

/// Number of consecutive small steps that finish the method.
const SMALL_STEPS: u64 = 10;

/// SiPBA, the smoothed single-loop method of Cao, Zeng and Zhang.
///
/// **Problem.** `min over x in X of max over y in S(x) of f(x, y)`, where S(x) minimises g(x, .) over Y: a
/// [`Bilevel`](crate::bilevel::Bilevel) problem without constraints that couple x and y. If the follower is not confined to Y, Y must
/// contain its responses.
///
/// **Assumptions.** f and g have Lipschitz gradients, f is concave and g convex in y, X and Y are convex with cheap projections.
///
/// **Iteration.** With `psi(x, y, z) = f(x, y) - rho_k (g(x, y) - g(x, z)) - sigma_k <y, z> + (sigma_k / 2) ||z||^2`, whose smallest
/// value over z of the largest over y tends to the pessimistic value: `y <- proj_Y(y + beta_k grad_y psi)` and `z <- proj_Y(z - beta_k
/// grad_z psi)`, both from the old y and z, then `x <- proj_X(x - alpha_k grad_x psi)` with the new ones. `beta_k = beta_0 (k + 1)^(-2 p -
/// q)`; the other schedules are in [`Settings`]. Gradients alone are used, and there is no inner loop.
///
/// **Guarantee.** For s >= 8 p + 8 q and suitable constants the hyper-gradient of the smoothed value tends to 0.
///
/// **Deviations.** The stopping criterion is ours. A multiplier in the point, which the single-level form of a problem may have, is
/// left as it is.
///
/// **Settings.** [`Settings`]: rho, sigma, beta, alpha, p, q, s, steps, tolerance.
///
/// **Reference.** Cao, Zeng and Zhang, *SiPBA*, arXiv 2509.26240.
#[derive(Default)]
pub struct Sipba {
    settings: Settings,
    s: Saved,
    work: Work,
}

/// State stored in a checkpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    /// Number of finished steps.
    k: u64,
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
    /// The rest of the point.
    rest: Vec<f64>,
    small: u64,
}

/// Buffers.
#[derive(Default)]
struct Work {
    scratch: Option<Scratch>,
    projections: [Warm; 2],
    f_y: Vec<f64>,
    g_y: Vec<f64>,
    g_z: Vec<f64>,
    g_x: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
}

impl Sipba {
    /// Creates a solver after checking the settings.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Sipba { settings: settings.resolve()?, ..Sipba::default() })
    }
}

impl Work {
    fn resize(&mut self, n: usize, m: usize) {
        [&mut self.x, &mut self.g_x].into_iter().for_each(|v| v.resize(n, 0.0));
        [&mut self.y, &mut self.z, &mut self.f_y, &mut self.g_y, &mut self.g_z].into_iter().for_each(|v| v.resize(m, 0.0));
    }
}

impl Method for Sipba {
    fn name(&self) -> &'static str {
        "sipba"
    }

    fn iterate(&self, out: &mut [f64]) {
        let Saved { x, y, rest, .. } = &self.s;
        out.iter_mut().zip(x.iter().chain(y).chain(rest)).for_each(|(out, v)| *out = *v);
    }

    fn output(&self, out: &mut [f64]) -> PointOrigin {
        self.iterate(out);
        PointOrigin::OutputRule
    }

    fn save(&self) -> Result<State> {
        State::pack(&self.s)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.s = state.unpack()?;
        Ok(())
    }
}

impl<'e> Solver<dyn Eval + 'e> for Sipba {
    fn start(&mut self, ev: &mut (dyn Eval + 'e), x: &[f64]) -> Result<()> {
        let Some(view) = ev.bilevel() else {
            return Err(Error::Problem("sipba needs a bilevel problem, such as bilevel = \"toy\" in [data]".into()));
        };
        let problem = view.problem();
        let coupled = problem.num_constraints() + problem.inner_rows().len();
        if coupled > 0 {
            return Err(Error::Problem(format!(
                "sipba takes no constraints that couple x and y, but the problem has {coupled}; write them into the sets of x and y, or \
                 use adaprox"
            )));
        }
        let (n, m) = (problem.outer_dim(), problem.inner_dim());
        let (first, rest) = x.split_at(n);
        let (second, rest) = rest.split_at(m);
        self.s = Saved { x: first.to_vec(), y: second.to_vec(), z: second.to_vec(), rest: rest.to_vec(), k: 0, small: 0 };
        self.work = Work { scratch: Some(problem.scratch()), ..Work::default() };
        self.work.resize(n, m);
        Ok(())
    }

    fn step(&mut self, ev: &mut (dyn Eval + 'e)) -> Result<Step> {
        let Settings { rho, sigma, beta, alpha, p, q, s: exponent, steps, tolerance } = self.settings;
        let Saved { k, x, y, z, small, .. } = &mut self.s;
        let work = &mut self.work;
        let Some(mut view) = ev.bilevel() else {
            return Err(Error::Problem("sipba needs a bilevel problem".into()));
        };
        let problem = view.problem();
        // A restored run has no buffers yet.
        work.resize(x.len(), y.len());
        let scratch = work.scratch.get_or_insert_with(|| problem.scratch());
        let t = (*k + 1) as f64;
        let (rho, sigma) = (rho * t.powf(p), sigma * t.powf(-q));
        let (beta, alpha) = (beta * t.powf(-2.0 * p - q), alpha * t.powf(-exponent));

        let at = Pair { x, y };
        problem.visit(at, scratch)?;
        view.outer_grad(at, None, Some(&mut work.f_y), scratch)?;
        view.inner_grad(at, None, Some(&mut work.g_y), scratch)?;
        let at = Pair { x, y: z };
        problem.visit(at, scratch)?;
        view.inner_grad(at, None, Some(&mut work.g_z), scratch)?;
        for i in 0..y.len() {
            // y + beta grad_y psi and z - beta grad_z psi
            work.y[i] = y[i] + beta * (work.f_y[i] - rho * work.g_y[i] - sigma * z[i]);
            work.z[i] = z[i] - beta * (rho * work.g_z[i] - sigma * y[i] + sigma * z[i]);
        }
        let [outer, inner] = &mut work.projections;
        let set = problem.inner_set();
        set.project(&mut work.y, inner)?;
        set.project(&mut work.z, inner)?;

        let at = Pair { x, y: &work.y };
        problem.visit(at, scratch)?;
        view.outer_grad(at, Some(&mut work.x), None, scratch)?;
        view.inner_grad(at, Some(&mut work.g_x), None, scratch)?;
        vec::add_scaled(&mut work.x, -rho, &work.g_x);
        let at = Pair { x, y: &work.z };
        problem.visit(at, scratch)?;
        view.inner_grad(at, Some(&mut work.g_x), None, scratch)?;
        vec::add_scaled(&mut work.x, rho, &work.g_x);
        // x - alpha grad_x psi
        work.x.iter_mut().zip(x.iter()).for_each(|(d, x)| *d = x - alpha * *d);
        problem.outer_set().project(&mut work.x, outer)?;
        view.count_projections(3);
        [&work.x, &work.y, &work.z].into_iter().try_for_each(|v| super::check_iterate(v))?;

        let moved =
            (vec::distance(&work.x, x) / alpha).max(vec::distance(&work.y, y) / beta).max(vec::distance(&work.z, z) / beta);
        *small = if tolerance.is_some_and(|tolerance| moved <= tolerance) { *small + 1 } else { 0 };
        std::mem::swap(x, &mut work.x);
        std::mem::swap(y, &mut work.y);
        std::mem::swap(z, &mut work.z);
        *k += 1;
        Ok(Step { kind: StepKind::Other, finished: *k >= steps || *small >= SMALL_STEPS })
    }
}
