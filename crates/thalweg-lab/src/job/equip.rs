//! Setup of a run on its problem: start, solver, options and metrics.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg::Note;
use thalweg::assess::Measures;
use thalweg::auto::Work;
use thalweg::oracle::{Description, Warm};
use thalweg::run::Options;
use thalweg::solvers::AnySolver;

use super::pose::{Instance, Problem};
use crate::metrics::metrics;
use crate::spec::solver::PreparedSolver;
use crate::spec::{Spec, base_of};
use crate::{Result, bilevel};

/// Solver, start and options of a run.
pub struct RunSetup {
    /// Starting point.
    pub start: Vec<f64>,
    /// Solver.
    pub solver: AnySolver,
    /// Description of the settings of the solver and of the record. A checkpoint written with different settings is rejected.
    pub settings: String,
    /// Options of the run, without a checkpoint. Their feasibility tolerance includes the relaxation of the rows of a bilevel
    /// problem.
    pub options: Options,
    /// Work of the pilot runs that chose the solver. It counts towards the time limit of the next run.
    pub pilots: Work,
    /// Notes about the choice of the solver.
    pub notes: Vec<Note>,
    /// Relaxation of the rows of a bilevel problem; 0 for all other problems.
    relaxed: f64,
}

impl RunSetup {
    /// Raises the tolerance of the certificates to that of the run, so that a point is feasible for both or for neither.
    pub fn relax(&self, mut measures: Measures) -> Measures {
        if let Some(bounds) = &mut measures.bounds {
            bounds.feasibility = bounds.feasibility.max(self.relaxed);
        }
        measures
    }
}

/// Sets up a run of `spec` on its `instance`. Relative paths start at the directory of `file`. The `interrupt` ends pilot runs
/// and the run itself.
pub fn equip(spec: &Spec, instance: &Instance, file: &Path, interrupt: Option<Arc<AtomicBool>>) -> Result<RunSetup> {
    let problem = instance.problem.oracle();
    let certificate = spec.certificate()?;
    let start = start(spec, &instance.problem, base_of(file))?;
    // A start outside the domain is projected onto it before anything is measured there.
    let mut inside = start.clone();
    problem.domain().project(&mut inside, &mut Warm::default())?;
    certificate.check(problem, &inside)?;
    let metrics = match &instance.problem {
        Problem::Bilevel(bilevel) => bilevel::metrics(spec.measure.as_deref(), bilevel)?,
        _ => metrics(spec.measure.as_deref(), instance)?,
    };
    let options = Options { interrupt, ..spec.options(certificate, metrics) };
    let PreparedSolver { solver, settings: words, relaxed, notes, work } =
        spec.prepare_solver(&instance.problem, &start, &options)?;
    let settings = format!(
        "{words} {:?}, {:?}, feasibility {:?}, certificate {certificate:?}, measure {:?}, start {:016x}",
        spec.record,
        spec.stop,
        spec.feasibility,
        spec.measure,
        fingerprint(&start)
    );
    let mut setup = RunSetup { start, solver, settings, options, pilots: work, notes, relaxed: relaxed.unwrap_or(0.0) };
    setup.options.feasibility = setup.options.feasibility.max(setup.relaxed);
    setup.options.certificate = setup.relax(certificate);
    Ok(setup)
}

/// Returns the starting point of a run.
fn start(spec: &Spec, problem: &Problem, base: &Path) -> Result<Vec<f64>> {
    let model = match problem {
        Problem::Bilevel(bilevel) => return Ok(bilevel.prepared.start.clone()),
        Problem::Model(model) => &**model,
        Problem::Joint(joint) => joint.model(),
        Problem::Many(many) => many.model(),
    };
    let start = match (spec.problem.starts_at_erm(), model.erm()) {
        (true, Some(erm)) => erm.minimizer.clone(),
        _ => spec.problem.named_start(model.dim(), problem.oracle().dim(), base)?,
    };
    match problem {
        // If the start has no transport plan, every row is paired with every other.
        Problem::Joint(joint) if start.len() == model.dim() => Ok(joint.start(&start)?),
        _ => Ok(start),
    }
}

/// Hashes a point for the description of the settings.
fn fingerprint(x: &[f64]) -> u64 {
    x.iter().fold(0xCBF2_9CE4_8422_2325, |h, v| (h ^ v.to_bits()).rotate_left(23).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
