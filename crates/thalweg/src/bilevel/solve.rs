//! From a bilevel problem and a first x to an answer that can be judged: the method, a start that satisfies the rows, settings by pilot
//! runs where none are given, the run, and what is measured at its end.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::direct::{DirectSearch, FEW};
use super::extremes::Search;
use super::follower::minimum;
use super::responses::Responses;
use super::units::{InUnits, Units};
use super::{Bilevel, Derivatives, Extremes, Form, INTERRUPTED, SingleLevel, Stop, extremes_until, is_set};
use crate::auto::{BudgetedRuns, Work};
use crate::certify::{self, Certificate};
use crate::error::check_length;
use crate::eval::{Eval, Evaluator, ValueEval};
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::{Description, Draw, Pick, Warm};
use crate::run::{self, Budget, Diagnostics, Observer, Options, Outcome, Progress, Record, Row, StopReason};
use crate::solvers::{Adaprox, Sipba, adaprox, sipba};
use crate::suggest::did_you_mean_one_of;
use crate::{Error, Note, Result};

/// Method for bilevel problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// "direct" for up to five outer variables without settings of a reformulation or of its solver, otherwise "adaprox".
    #[default]
    Auto,
    /// Search over x by the worst response to each point. Nothing has to be set.
    Direct,
    /// [`Adaprox`] on the single-level reformulation.
    Adaprox,
    /// [`Sipba`], for problems without constraints that couple x and y.
    Sipba,
}

impl Method {
    /// Names of the methods.
    pub const NAMES: [(&str, Method); 4] =
        [("auto", Method::Auto), ("direct", Method::Direct), ("adaprox", Method::Adaprox), ("sipba", Method::Sipba)];
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::NAMES.map(|(name, _)| name);
        let found = Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method);
        found.ok_or_else(|| {
            let hint = did_you_mean_one_of(name, &known);
            Error::Problem(format!("unknown method '{name}' for bilevel problems{hint}"))
        })
    }
}

/// How a bilevel problem is solved.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The method. Default [`Method::Auto`].
    pub method: Method,
    /// The reformulation.
    pub form: Form,
    /// The solver; if absent, chosen by pilot runs with the inner solver of [`Settings::inner`].
    pub solver: Option<adaprox::Settings>,
    /// The inner solver where the rest is chosen.
    pub inner: adaprox::Inner,
    /// The settings of [`Sipba`], for [`Method::Sipba`].
    pub sipba: sipba::Settings,
    /// Slack of the inner solutions at which the answer is judged, see [`extremes`](super::extremes()). If absent, 1e-12 times a small
    /// excess of g over Y for the direct search, which uses it for every point, and 1e-6 otherwise.
    pub slack: Option<f64>,
    /// Whether the worst and the best response to the answer are computed. The direct search always computes them. Default true.
    pub extremes: bool,
    /// Near-stationarity of the answer in the problem relaxed by beta; none by default.
    pub certificate: Option<certify::Bounds>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            method: Method::Auto,
            form: Form::default(),
            solver: None,
            inner: adaprox::Inner::Sg(adaprox::Sg::default()),
            sipba: sipba::Settings::default(),
            slack: None,
            extremes: true,
            certificate: None,
        }
    }
}

impl Settings {
    /// Returns whether no setting of the reformulation, of its solver or of a certificate is given.
    fn is_plain(&self) -> bool {
        let form = Form { optimistic: self.form.optimistic, ..Form::default() };
        form == self.form && self.solver.is_none() && self.certificate.is_none()
    }

    /// Returns the method for a problem.
    fn chosen(&self, problem: &dyn Bilevel) -> Result<Method> {
        let constrained = problem.inner_set_binds() || !problem.inner_rows().is_empty();
        let few = problem.outer_dim() <= FEW;
        let reformulated = !self.is_plain();
        match self.method {
            Method::Adaprox | Method::Auto if constrained && (reformulated || self.method == Method::Adaprox) => {
                Err(Error::Problem(
                    "the reformulation that adaprox solves has no constraints of the follower; leave out the settings of adaprox for \
                     the direct search, or write the constraints as a penalty in the inner objective"
                        .into(),
                ))
            }
            Method::Auto if constrained && !few => Err(Error::Problem(format!(
                "a follower with constraints is covered for up to {FEW} outer variables, got {}; write the constraints as a penalty in \
                 the inner objective",
                problem.outer_dim()
            ))),
            Method::Auto if few && !reformulated => Ok(Method::Direct),
            Method::Auto => Ok(Method::Adaprox),
            Method::Direct if !few => Err(Error::setting(
                "method",
                "direct",
                format!("\"adaprox\" for {} outer variables; the direct search takes up to {FEW}", problem.outer_dim()),
            )),
            Method::Direct if reformulated => Err(Error::setting(
                "method",
                "direct",
                "\"adaprox\" with a certificate or with settings of the reformulation or its solver, which the direct search does not use",
            )),
            Method::Sipba if self.form.optimistic || self.certificate.is_some() => Err(Error::setting(
                "method",
                "sipba",
                "\"adaprox\" for the optimistic form and for certificates; sipba solves the pessimistic form only",
            )),
            given => Ok(given),
        }
    }

    /// Returns the method for a problem, after checking that it can use its derivatives.
    fn method(&self, problem: &dyn Bilevel) -> Result<Method> {
        let method = self.chosen(problem)?;
        if method != Method::Direct && problem.gradients() == Derivatives::Differences {
            return Err(Error::Problem(
                "some function has no gradient; adaprox and sipba need gradients, because differences of differences have at most four \
                 digits, and the direct search takes no settings of theirs"
                    .into(),
            ));
        }
        Ok(method)
    }
}

/// Slack of inner solutions after a run of [`Adaprox`].
const SLACK: f64 = 1e-6;
/// Slack of the direct search in the unit of g, and the same for rounding errors of g.
const DIRECT_SLACK: f64 = 1e-12;
const ROUNDING: f64 = 1e6 * f64::EPSILON;
/// The same where gradients are differences of values.
const DIFFERENCES_SLACK: f64 = 1e-8;

/// Settings that were chosen by pilot runs, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// The settings.
    pub settings: adaprox::Settings,
    /// Tolerance within which all rows are meant to hold.
    pub within: f64,
    /// Why the number of inner iterations is what it is.
    pub inner_iterations: InnerIterations,
    /// By how much a subproblem of the last pilot run lowered the objective.
    pub decrease: f64,
    /// The work of the pilot runs, which a time limit covers too.
    pub work: Work,
}

/// Why the search for a number of inner iterations ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InnerIterations {
    /// Twice as many lead to nearly the same point.
    Settled,
    /// More are not tried.
    Most,
    /// Time or an interrupt ended the pilot runs.
    CutShort,
}

impl Tuning {
    /// A sentence for each choice.
    pub fn reasons(&self) -> Vec<Note> {
        let adaprox::Settings { beta, sigma, inner_iterations, outer, .. } = &self.settings;
        vec![
            Note::BetaChosen { beta: *beta },
            Note::SigmaChosen { sigma: sigma.unwrap_or(f64::NAN) },
            Note::InnerIterationsChosen { inner_iterations: *inner_iterations, search: self.inner_iterations },
            Note::OuterChosen { outer: *outer, decrease: self.decrease },
        ]
    }
}

/// An answer to a bilevel problem, and what was measured there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BilevelSolution {
    /// The outer variables.
    pub x: Vec<f64>,
    /// The inner variables that came with them.
    pub y: Vec<f64>,
    /// Multipliers of the constraints and, last, of the inner problem; empty in the optimistic form.
    pub inner_multipliers: Vec<f64>,
    /// f(x, y).
    pub objective: f64,
    /// The largest row of the reformulation.
    pub violation: f64,
    /// What the rows were meant to be kept within: the relaxation beta, and the accuracy of subproblems.
    pub beta: f64,
    /// `g(x, y) - g*_alpha(x)`.
    pub inner_gap: f64,
    /// What x is worth at the worst and at the best.
    pub extremes: Option<Extremes>,
    /// Near-stationarity in the problem relaxed by beta.
    pub certificate: Option<Certificate>,
    /// The largest row at the start.
    pub start_violation: f64,
    /// How second derivatives were computed.
    pub derivatives: Derivatives,
    /// The method.
    pub method: Method,
    /// The settings of [`Adaprox`], if it was used.
    pub settings: Option<adaprox::Settings>,
    /// What a careful reader should know, beside the notes of the run.
    pub notes: Vec<Note>,
    /// The run itself; its point is z.
    pub outcome: Outcome,
}

impl BilevelSolution {
    /// Returns whether the value that the leader counts on agrees with the worst response (or the best, in the optimistic form) that
    /// was found: within a tenth of the gap between the two, and beta. `None` if they were not computed.
    pub fn agrees(&self, optimistic: bool) -> Option<bool> {
        let found = self.extremes.as_ref()?;
        let meant = if optimistic { &found.optimistic } else { &found.pessimistic };
        let rounding = 1e-6 * (self.objective.abs() + found.gap().abs());
        Some((self.objective - meant.value).abs() <= AGREE * found.gap().abs() + self.beta + rounding)
    }
}

/// Share of the gap between the worst and the best response up to which values agree.
const AGREE: f64 = 0.1;

/// A problem that is ready to be solved.
pub struct PreparedProblem {
    /// The reformulation, with a bound on multipliers and a unit for them.
    pub problem: SingleLevel,
    /// The start.
    pub start: Vec<f64>,
    /// The largest row there.
    pub violation: f64,
}

impl PreparedProblem {
    /// Evaluates the rows of a problem at its start.
    fn new(problem: SingleLevel, start: Vec<f64>) -> Result<Self> {
        let mut rows = vec![0.0; problem.num_constraints()];
        {
            let mut ev = Evaluator::new(&problem, 0, 0.0);
            ev.refresh(&start)?;
            ev.constraint_values(&start, &Draw::full(), Pick::All, &mut rows)?;
        }
        let violation = vec::first_max(&rows).map_or(f64::NEG_INFINITY, |(_, v)| v);
        Ok(PreparedProblem { problem, start, violation })
    }
}

/// Reformulates a problem and finds a start at `x` (phase I): the inner solution that the form asks for, the worst or the best, with
/// its multipliers. They also give the bound and the unit of multipliers where the form leaves these open.
pub fn prepare(problem: &Arc<dyn Bilevel>, form: Form, x: &[f64]) -> Result<PreparedProblem> {
    prepare_until(problem, form, x, None)
}

/// Returns the first x, projected onto X.
fn first(problem: &Arc<dyn Bilevel>, x: &[f64]) -> Result<Vec<f64>> {
    check_length("the start", x.len(), problem.outer_dim())?;
    if let Some((i, value)) = vec::first_not_finite(x) {
        return Err(Error::NotFinite { what: format!("entry {} of the start", i + 1), value });
    }
    let mut x = x.to_vec();
    problem.outer_set().project(&mut x, &mut Warm::default())?;
    Ok(x)
}

/// The same as [`prepare`]; once interrupted, the start is the inner solution that the search has reached.
fn prepare_until(problem: &Arc<dyn Bilevel>, form: Form, x: &[f64], interrupt: Stop) -> Result<PreparedProblem> {
    let x = first(problem, x)?;
    let single = SingleLevel::new(problem.clone(), form)?;
    let mut z = x.clone();
    z.resize(single.dim(), 0.0);
    let (solution, value) = {
        let mut ev = Evaluator::new(&single, 0, 0.0);
        ev.refresh(&z)?;
        (ev.warm().values.clone(), single.inner_value(ev.warm()).unwrap_or(f64::NAN))
    };
    let (n, m, xi) = (x.len(), problem.inner_dim(), form.xi);
    let sign = if form.optimistic { 1.0 } else { -1.0 };
    let found = Search::new(&**problem, &x, value + xi, xi, sign).run(&[&solution], interrupt)?;
    let largest = found.multipliers.iter().copied().fold(1.0, f64::max);
    let form = Form {
        multiplier_bound: Some(form.multiplier_bound.unwrap_or(10.0 * largest)),
        multiplier_unit: Some(form.multiplier_unit.unwrap_or(largest)),
        ..form
    };
    let single = SingleLevel::new(problem.clone(), form)?;
    z[n..n + m].copy_from_slice(&found.y);
    let (_, unit) = form.multipliers();
    z[n + m..].iter_mut().zip(&found.multipliers).for_each(|(z, w)| *z = w / unit);
    single.domain().project(&mut z, &mut Warm::default())?;
    PreparedProblem::new(single, z)
}

/// Writes a problem in x and y alone, for methods without multipliers of the inner maximum. The start is x and the point of Y nearest
/// to 0.
pub fn prepare_plain(problem: &Arc<dyn Bilevel>, form: Form, x: &[f64]) -> Result<PreparedProblem> {
    let mut start = first(problem, x)?;
    let single = SingleLevel::new(Arc::clone(problem), Form { optimistic: true, ..form })?;
    start.resize(single.dim(), 0.0);
    single.domain().project(&mut start, &mut Warm::default())?;
    PreparedProblem::new(single, start)
}

/// Points around the start at which the curvature is looked at, and how far away they are.
const PROBES: usize = 16;
const PROBE_RADIUS: f64 = 0.05;
/// Subproblems of a pilot run, and how often sigma is raised.
const PILOT: u64 = 5;
const RAISES: usize = 6;
/// Smallest sigma, and iterations on a subproblem that are tried.
const LEAST_SIGMA: f64 = 5.0;
const FEWEST: u64 = 500;
const MOST: u64 = 8000;
/// How many subproblems there may be, and the share of the largest move that ends the run before.
const OUTER: (f64, f64) = (100.0, 2000.0);
const SETTLED: f64 = 0.02;

/// Chooses sigma, beta, K and T by looking at the functions around z and by short runs.
///
/// Subproblems are solved to a quarter of beta, not to the beta / (2 K) of the theory, which takes the switching method many more
/// iterations; all rows are then kept within 1.125 beta.
///
/// The options are those of the run that follows: the short runs take at most half of its time, and end with its interrupt. The
/// settings are then those that the short runs so far support.
pub fn choose(problem: &SingleLevel, z: &[f64], inner: &adaprox::Inner, options: &Options) -> Result<Tuning> {
    let mut runs = BudgetedRuns::before(options);
    let mut ev = Evaluator::new(problem, 0, 0.0);
    ev.refresh(z)?;
    let f = ev.objective(z, &Draw::full())?;
    let scale = f.abs().max(1.0);
    let beta = 0.02 * scale;
    let inner = match inner {
        adaprox::Inner::Sg(sg) => adaprox::Inner::Sg(adaprox::Sg { eps: sg.eps.or(Some(0.25 * beta)), ..sg.clone() }),
        other => other.clone(),
    };
    let settings = |sigma: f64, iterations: u64, outer: u64, beta: f64| adaprox::Settings {
        outer,
        inner_iterations: iterations,
        beta,
        sigma: Some(sigma),
        settled: Some(SETTLED),
        inner: inner.clone(),
        ..adaprox::Settings::default()
    };
    let pilot = |runs: &mut BudgetedRuns, sigma: f64, iterations: u64| -> Result<(Adaprox, Outcome)> {
        // As much relaxation for each subproblem as 100 of them would have.
        let mut solver = Adaprox::new(settings(sigma, iterations, PILOT, beta * PILOT as f64 / 100.0))?;
        let options = Options { record: Record::nothing(), ..Options::iterations(PILOT * iterations) };
        let outcome = runs.run(problem, &mut solver, z, &options, &mut ())?;
        Ok((solver, outcome))
    };
    let (mut sigma, mut iterations) = (bending(&mut ev, z, options.interrupt.as_ref())?.max(LEAST_SIGMA), FEWEST);
    let (mut solver, mut outcome) = pilot(&mut runs, sigma, iterations)?;
    for _ in 0..RAISES {
        if runs.is_over() {
            break;
        }
        // Steps that are far too long end in a failure, or far above the start.
        let failed = matches!(outcome.ended, StopReason::Failed { .. }) || outcome.point.objective > f + scale;
        if solver.sigma_asked() <= sigma && !failed {
            break;
        }
        sigma = (1.5 * solver.sigma_asked()).max(if failed { 4.0 * sigma } else { 0.0 });
        (solver, outcome) = pilot(&mut runs, sigma, iterations)?;
    }
    // Twice the iterations until that changes little.
    let mut settled = false;
    while iterations < MOST && !runs.is_over() {
        let (_, next) = pilot(&mut runs, sigma, 2 * iterations)?;
        if runs.is_over() {
            break;
        }
        let (moved, change) = (vec::distance(&next.point.x, z), vec::distance(&next.point.x, &outcome.point.x));
        settled = moved > 0.0 && change <= 0.25 * moved;
        if settled {
            break;
        }
        (iterations, outcome) = (2 * iterations, next);
    }
    let inner_iterations = match settled {
        true => InnerIterations::Settled,
        false if iterations < MOST => InnerIterations::CutShort,
        false => InnerIterations::Most,
    };
    let decrease = (f - outcome.point.objective) / PILOT as f64;
    let (fewest, most) = OUTER;
    let outer = if decrease > 0.0 { (4.0 * scale / decrease).ceil().clamp(fewest, most) } else { most } as u64;
    let settings = settings(sigma, iterations, outer, beta);
    Ok(Tuning { settings, within: 1.125 * beta, inner_iterations, decrease, work: *runs.used() })
}

/// How much the objective and the rows bend around z: the largest change of a gradient per distance, of those seen until interrupted.
fn bending<E: Eval + ?Sized>(ev: &mut E, z: &[f64], interrupt: Stop) -> Result<f64> {
    let (q, full) = (ev.num_constraints(), Draw::full());
    let mut rng = Rng::new(0, Purpose::Directions);
    let (mut h, mut largest) = (vec![0.0; q], 0.0_f64);
    // Random mixtures of rows with weights that add up to 1 bend no more than the rows themselves, and single ones are among them.
    for probe in (0..PROBES).take_while(|_| !is_set(interrupt)) {
        let mut weights = vec![0.0; q];
        if probe % 2 == 0 || q == 0 {
            weights.iter_mut().skip(probe / 2 % q.max(1)).take(1).for_each(|w| *w = 1.0);
        } else {
            weights.iter_mut().for_each(|w| *w = rng.uniform());
            let total = vec::sum(&weights);
            vec::scale(&mut weights, 1.0 / total);
        }
        let mut gradient = |ev: &mut E, z: &[f64]| -> Result<(Vec<f64>, Vec<f64>)> {
            ev.refresh(z)?;
            let (mut slope, mut pulled) = (vec![0.0; z.len()], vec![0.0; z.len()]);
            ev.objective_grad(z, &full, &mut slope)?;
            if q > 0 {
                ev.constraint_vjp(z, &full, &mut h, &mut |_, w| w.copy_from_slice(&weights), &mut pulled)?;
            }
            Ok((slope, pulled))
        };
        let mut moved = vec![0.0; z.len()];
        rng.normals(&mut moved);
        let length = PROBE_RADIUS * (1.0 + vec::norm(z)) / vec::norm(&moved).max(1e-300);
        moved.iter_mut().zip(z).for_each(|(moved, z)| *moved = z + length * *moved);
        ev.project(&mut moved)?;
        let away = vec::distance(&moved, z);
        if away > 0.0 {
            let (here, there) = (gradient(ev, z)?, gradient(ev, &moved)?);
            largest = largest.max(vec::distance(&here.0, &there.0) / away).max(vec::distance(&here.1, &there.1) / away);
        }
    }
    Ok(largest)
}

/// Solves `problem` from the outer variables `x`.
///
/// `options` conduct the run of the method; a feasibility below what the relaxation leaves is raised to that. Their interrupt also ends
/// the search for a start and the short runs before, and what is computed after the run: the outcome then has what was reached.
/// `Err` means refused before the first step; whatever happens later ends in the outcome, with the last good point.
///
/// ```
/// use std::sync::Arc;
/// use thalweg::bilevel::{self, Bilevel, FromFormulas, problems::Pricing};
/// use thalweg::run::Options;
/// # fn main() -> thalweg::Result<()> {
/// let shop: Arc<dyn Bilevel> = Arc::new(FromFormulas(Pricing::new()?));
/// let found = bilevel::solve(&shop, &[1.25], &bilevel::Settings::default(), &Options::default(), &mut ())?;
/// // The cautious price is 3/4.
/// assert!((found.x[0] - 0.75).abs() < 0.01, "{:?}", found.x);
/// # Ok(()) }
/// ```
pub fn solve(
    problem: &Arc<dyn Bilevel>,
    x: &[f64],
    settings: &Settings,
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<BilevelSolution> {
    match settings.method(&**problem)? {
        Method::Direct => by_direct_search(problem, x, settings, options, observer),
        Method::Sipba => by_sipba(problem, x, settings, options, observer),
        Method::Adaprox if settings.method == Method::Auto && settings.is_plain() => {
            in_stages(problem, x, settings, options, observer)
        }
        _ => by_adaprox(problem, x, settings, options, observer),
    }
}

/// Solves a problem by [`DirectSearch`].
fn by_direct_search(
    problem: &Arc<dyn Bilevel>,
    x: &[f64],
    settings: &Settings,
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<BilevelSolution> {
    let x = first(problem, x)?;
    let interrupt = options.interrupt.as_ref();
    let optimistic = settings.form.optimistic;
    let (n, m) = (problem.outer_dim(), problem.inner_dim());
    let scaled = match InUnits::measure(problem, &x, interrupt) {
        Err(_) if is_set(interrupt) => InUnits::plain(problem),
        measured => measured?,
    };
    let (units, scaled) = (scaled.units.clone(), Arc::new(scaled));
    let least = minimum(&*scaled, &units.to_x(&x), &vec![0.0; m], None)?;
    let exact = problem.gradients() == Derivatives::Exact;
    let smallest = if exact { DIRECT_SLACK } else { DIFFERENCES_SLACK }.max(ROUNDING * least.value.abs());
    let slack = settings.slack.map_or(smallest, |slack| slack / units.g());
    let responses = Responses::new(Arc::clone(&scaled), slack)?;
    let mut solver = DirectSearch::new(Arc::clone(&scaled), slack, optimistic, interrupt);
    let start: Vec<f64> = x.iter().copied().chain(units.original_y(&least.y)).collect();
    // Values of constraints are multiples of their slack.
    let mut options = Options { feasibility: 1.0, ..options.clone() };
    if options.budget == Budget::default() {
        options.budget.iterations = Some(solver.most());
    }
    let outcome = run::minimize_zeroth_order(&responses, &mut solver, &start, &options, observer)?;
    let (x, y) = outcome.point.x.split_at(n);
    let mut notes: Vec<Note> = vec![];
    if !exact {
        notes.push(Note::GradientDifferences);
    }
    let extremes = match extremes_until(&*scaled, &units.to_x(x), slack, interrupt) {
        Ok(found) => Some(units.extremes(found)),
        Err(e) => {
            notes.push(Note::ExtremesFailed { reason: e.to_string() });
            None
        }
    };
    let (x, y) = (x.to_vec(), y.to_vec());
    let violation = (outcome.point.violation + 1.0).max(0.0) * slack * units.g();
    Ok(BilevelSolution {
        inner_multipliers: vec![],
        objective: outcome.point.objective,
        violation,
        beta: 2.0 * slack * units.g(),
        inner_gap: violation,
        extremes,
        certificate: None,
        start_violation: 0.0,
        derivatives: problem.derivatives(),
        method: Method::Direct,
        settings: None,
        x,
        y,
        notes,
        outcome,
    })
}

/// Solves a problem by [`Sipba`]. The point is measured by the rows of the reformulation that concern x and y alone.
fn by_sipba(
    problem: &Arc<dyn Bilevel>,
    x: &[f64],
    settings: &Settings,
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<BilevelSolution> {
    let PreparedProblem { problem: single, start, violation: start_violation } = prepare_plain(problem, settings.form, x)?;
    let mut solver = Sipba::new(settings.sipba.clone())?;
    let mut options = options.clone();
    if options.budget == Budget::default() {
        options.budget.iterations = Some(settings.sipba.steps);
    }
    let outcome = run::minimize(&single, &mut solver, &start, &options, observer)?;
    let pair = single.pair(&outcome.point.x);
    let (x, y) = (pair.x.to_vec(), pair.y.to_vec());
    let interrupt = options.interrupt.as_ref();
    let mut notes: Vec<Note> = vec![];
    let extremes = measured(problem, &x, settings, interrupt, &mut notes);
    Ok(BilevelSolution {
        inner_multipliers: vec![],
        objective: outcome.point.objective,
        violation: outcome.point.violation,
        beta: options.feasibility,
        inner_gap: inner_gap(&single, &outcome.point.x).unwrap_or(f64::NAN),
        extremes,
        certificate: None,
        start_violation,
        derivatives: problem.derivatives(),
        method: Method::Sipba,
        settings: None,
        x,
        y,
        notes,
        outcome,
    })
}

/// Returns the worst and the best response to x, if they are wanted; a failure becomes a note.
fn measured(
    problem: &Arc<dyn Bilevel>,
    x: &[f64],
    settings: &Settings,
    interrupt: Stop,
    notes: &mut Vec<Note>,
) -> Option<Extremes> {
    if !settings.extremes {
        return None;
    }
    match extremes_until(&**problem, x, settings.slack.unwrap_or(SLACK), interrupt) {
        Ok(found) => Some(found),
        Err(e) => {
            notes.push(Note::ExtremesFailed { reason: e.to_string() });
            None
        }
    }
}

/// Slacks xi of the stages of [`in_stages`], in the unit of g.
const STAGES: [f64; 3] = [0.1, 0.01, 0.001];

/// Solves a problem by [`Adaprox`] in units of its own, with a slack that becomes smaller from stage to stage, and returns the stage with
/// the best value at its worst response. The stages share the time limit; other limits apply to each.
fn in_stages(
    problem: &Arc<dyn Bilevel>,
    x: &[f64],
    settings: &Settings,
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<BilevelSolution> {
    let begun = Instant::now();
    let x = first(problem, x)?;
    let interrupt = options.interrupt.as_ref();
    let scaled = match InUnits::measure(problem, &x, interrupt) {
        Err(_) if is_set(interrupt) => InUnits::plain(problem),
        measured => measured?,
    };
    let units = scaled.units.clone();
    let scaled: Arc<dyn Bilevel> = Arc::new(scaled);
    let mut observer = InOriginalUnits { observer, units: &units };
    let (mut at, mut best): (Vec<f64>, Option<BilevelSolution>) = (units.to_x(&x), None);
    for (k, xi) in STAGES.into_iter().enumerate() {
        let form = Form { xi, ..settings.form };
        let slack = Some(settings.slack.map_or(SLACK, |slack| slack / units.g()));
        let stage = Settings { form, slack, extremes: true, ..settings.clone() };
        let mut options = options.clone();
        let left = |limit: f64| (limit - begun.elapsed().as_secs_f64()).max(0.0) / (STAGES.len() - k) as f64;
        options.budget.seconds = options.budget.seconds.map(left);
        let found = match (by_adaprox(&scaled, &at, &stage, &options, &mut observer), &best) {
            (Ok(found), _) => found,
            (Err(error), None) => return Err(error),
            // The earlier stage stands.
            (Err(_), Some(_)) => break,
        };
        let over = matches!(found.outcome.ended, StopReason::Interrupted | StopReason::Failed { .. });
        at.clone_from(&found.x);
        let value = |found: &BilevelSolution| {
            let Some(measured) = &found.extremes else { return f64::INFINITY };
            let meant = if settings.form.optimistic { &measured.optimistic } else { &measured.pessimistic };
            if meant.violation <= 0.1 * measured.slack { meant.value } else { f64::INFINITY }
        };
        if best.as_ref().is_none_or(|best| value(&found) < value(best)) {
            best = Some(found);
        }
        if over {
            break;
        }
    }
    let mut found = best.ok_or_else(|| Error::Problem("no stage of the bilevel method was run".into()))?;
    found.x = units.original_x(&found.x);
    found.y = units.original_y(&found.y);
    found.objective = units.original_f(found.objective);
    found.extremes = found.extremes.map(|extremes| units.extremes(extremes));
    found.outcome.point.objective = found.objective;
    found.outcome.trace.iter_mut().for_each(|row| row.objective = units.original_f(row.objective));
    found.notes.insert(0, Note::BilevelUnits { outer: units.f(), inner: units.g() });
    Ok(found)
}

/// Passes records of a run in other units on in the original ones.
struct InOriginalUnits<'o> {
    observer: &'o mut (dyn Observer + Send),
    units: &'o Units,
}

impl Observer for InOriginalUnits<'_> {
    fn recorded(&mut self, row: &Row, z: &[f64], diagnostics: &Diagnostics) {
        let row = Row { objective: self.units.original_f(row.objective), ..row.clone() };
        self.observer.recorded(&row, &self.units.original_point(z), diagnostics);
    }

    fn progressed(&mut self, progress: &Progress) {
        self.observer.progressed(progress);
    }
}

/// Solves a problem by [`Adaprox`] on its reformulation.
fn by_adaprox(
    problem: &Arc<dyn Bilevel>,
    x: &[f64],
    settings: &Settings,
    options: &Options,
    observer: &mut (dyn Observer + Send),
) -> Result<BilevelSolution> {
    let PreparedProblem { problem: single, start: z, violation: start_violation } =
        prepare_until(problem, settings.form, x, options.interrupt.as_ref())?;
    let mut notes: Vec<Note> = vec![];
    let mut options = options.clone();
    let (solver_settings, beta) = match &settings.solver {
        Some(given) => (given.clone().resolve()?, given.feasibility()),
        None => {
            let tuning = choose(&single, &z, &settings.inner, &options)?;
            notes.extend(tuning.reasons());
            options.budget = tuning.work.leaves(&options.budget);
            (tuning.settings, tuning.within)
        }
    };
    let mut solver = Adaprox::new(solver_settings.clone())?;
    options.feasibility = options.feasibility.max(beta);
    if options.budget == Budget::default() {
        options.budget.iterations = Some(solver_settings.outer * solver_settings.inner_iterations);
    }
    let outcome = run::minimize(&single, &mut solver, &z, &options, observer)?;
    let point = &outcome.point;
    let pair = single.pair(&point.x);
    let (x, y) = (pair.x.to_vec(), pair.y.to_vec());
    let inner_gap = inner_gap(&single, &point.x).unwrap_or(f64::NAN);
    let interrupt = options.interrupt.as_ref();
    let extremes = measured(problem, &x, settings, interrupt, &mut notes);
    let certificate = settings.certificate.as_ref().and_then(|how| {
        let relaxed = SingleLevel::new(problem.clone(), *single.form()).map(|single| single.relaxed(beta));
        let relaxed =
            relaxed.and_then(|relaxed| if is_set(interrupt) { Err(Error::Problem(INTERRUPTED.into())) } else { Ok(relaxed) });
        match relaxed.and_then(|relaxed| certify::certify(&relaxed, &point.x, how)) {
            Ok(found) => Some(found),
            Err(e) => {
                notes.push(Note::CertificateFailed { reason: e.to_string() });
                None
            }
        }
    });
    if problem.derivatives() == Derivatives::Differences {
        notes.push(Note::FiniteDifferences);
    }
    let multipliers = single.inner_multipliers(&point.x);
    let (bound, _) = single.form().multipliers();
    if multipliers.iter().any(|w| *w >= bound * (1.0 - 1e-9)) {
        notes.push(Note::InnerMultiplierAtBound { bound });
    }
    Ok(BilevelSolution {
        inner_multipliers: multipliers,
        objective: point.objective,
        violation: point.violation,
        beta,
        inner_gap,
        extremes,
        certificate,
        start_violation,
        derivatives: problem.derivatives(),
        method: Method::Adaprox,
        settings: Some(solver_settings),
        x,
        y,
        notes,
        outcome,
    })
}

/// `g(x, y) - g*_alpha(x)` at z.
pub fn inner_gap(single: &SingleLevel, z: &[f64]) -> Result<f64> {
    let mut ev = Evaluator::new(single, 0, 0.0);
    ev.refresh(z)?;
    let value = single.inner_value(ev.warm()).unwrap_or(f64::NAN);
    let (problem, pair) = (single.problem(), single.pair(z));
    let mut scratch = problem.scratch();
    problem.visit(pair, &mut scratch)?;
    Ok(problem.inner(pair, &mut scratch)? - value)
}
