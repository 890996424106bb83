//! The result of a run: the outcome, its point on held-out rows, certificates, bounds, reference values, and the status.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg::Note;
use thalweg::assess::{MeasuredStationarity, Measures, NearStationarity, PenalisedStationarity};
use thalweg::certify::Certificate;
use thalweg::run::{self, Outcome, Point};

use super::equip::RunSetup;
use super::pose::{Instance, Problem};
use crate::bilevel::BilevelValue;
use crate::lenient;
use crate::metrics::present_name;
use crate::model::Reference;
use crate::verdict::{Completion, Status};

/// Finished run, as it is printed, shown on pages and stored.
#[derive(Debug, Clone, Serialize)]
pub struct Finished {
    /// Status of the result.
    pub status: Status,
    /// Description of the problem, with a hash of the data.
    pub problem: String,
    /// Notes about the data and the problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problem_notes: Vec<Note>,
    /// Bound of each constraint. Constraint values in the outcome are relative to it.
    pub bounds: Vec<f64>,
    /// Reference values that bounds, thresholds, domain and start are computed from.
    pub references: Vec<Reference>,
    /// Outcome of the run.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Pessimistic and optimistic value at the x of a bilevel problem.
    pub bilevel: Option<BilevelValue>,
    /// The same terms at the returned model on the held-out rows.
    pub held_out: Option<Point>,
    /// Near-stationarity of the returned point, if requested.
    pub certificate: Option<Certificates>,
}

/// Near-stationarity of a point, in the requested forms.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Certificates {
    /// Proved bounds.
    #[serde(default)]
    pub bounds: Option<Certificate>,
    /// Estimate by a switching subgradient run, without a bound on its error.
    #[serde(default, alias = "ssg")]
    pub switching: Option<NearStationarity>,
    /// Estimate for a smoothed penalty, without a bound on its error.
    #[serde(default)]
    pub penalised: Option<PenalisedStationarity>,
    /// Why there is no certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether the run, repeated for the certificates, gave the same iterates bit for bit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<bool>,
}

impl Certificates {
    /// Computes the certificates that `measures` requests at `x`. An error is recorded in the result, so that the finished run
    /// is not lost.
    pub fn compute(measures: &Measures, problem: &Problem, x: &[f64]) -> Self {
        match measures.take(problem.oracle(), x) {
            Ok(MeasuredStationarity { bounds, switching, penalised }) => {
                Certificates { bounds, switching, penalised, ..Certificates::default() }
            }
            Err(e) => Certificates::refused(e.to_string()),
        }
    }

    /// Returns an empty result with the reason.
    pub fn refused(reason: String) -> Self {
        Certificates { refused: Some(reason), ..Certificates::default() }
    }

    /// Returns the lower and upper bound on the distance to the proximal point, if there is a finite one.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let bounds = self.bounds.as_ref().filter(|bounds| bounds.upper.is_finite())?;
        Some([if bounds.lower.is_finite() { bounds.lower } else { 0.0 }, bounds.upper])
    }

    /// Reads the JSON of the store, including that of older versions.
    pub fn from_json(value: &Value) -> serde_json::Result<Self> {
        lenient::read(value)
    }
}

/// Measures the returned point of a run: on held-out rows, with the requested certificates and, for a bilevel problem, at the
/// worst and the best follower response.
pub fn finish(instance: &Instance, setup: &RunSetup, mut outcome: Outcome) -> Finished {
    let problem = &instance.problem;
    let mut status = Status::of(&outcome.ended, outcome.point.feasible);
    let x = &outcome.point.x;
    let mut notes = vec![];
    // The run is over: an error in a measurement becomes a note, so that the point is not lost.
    let held_out = instance.held_out.as_ref().and_then(|rows| {
        let measured = run::measure(rows, problem.of_model(x), setup.options.feasibility);
        measured.map_err(|e| notes.push(Note::HeldOutNotMeasured { reason: e.to_string() })).ok()
    });
    // Certificates can take longer than the run, so they are skipped after an interrupt or a failure.
    let ended = matches!(status, Status::Interrupted | Status::Failed);
    let measures = &setup.options.certificate;
    let certificate = (!measures.is_empty() && !ended).then(|| Certificates::compute(measures, problem, x));
    if let Some(certificates) = &certificate {
        let Certificates { bounds, switching, .. } = certificates.clone();
        outcome.compare(&MeasuredStationarity { bounds, switching, penalised: None });
        status = Status::of(&outcome.ended, outcome.point.feasible);
    }
    let x = &outcome.point.x;
    if let Some(reason) = certificate.as_ref().and_then(|c| c.refused.as_ref()) {
        notes.push(Note::CertificateFailed { reason: reason.clone() });
    }
    let bilevel = match problem {
        Problem::Bilevel(bilevel) if !ended => {
            let value = bilevel.value(x);
            value.map_err(|e| notes.push(Note::BilevelValueFailed { reason: e.to_string() })).ok()
        }
        _ => None,
    };
    outcome.notes.extend(notes);
    Finished {
        status,
        problem: problem.oracle().fingerprint(),
        problem_notes: instance.notes.clone(),
        bounds: outcome.point.constraints.iter().map(|c| problem.bound(c.index)).collect(),
        references: problem.references().iter().map(Reference::from).collect(),
        outcome,
        bilevel,
        held_out,
        certificate,
    }
}

/// Part of a stored result besides the outcome. Older stores lack some of it.
#[derive(Deserialize)]
struct Rest {
    #[serde(default)]
    problem: String,
    #[serde(default)]
    problem_notes: Vec<Note>,
    #[serde(default)]
    bounds: Vec<f64>,
    #[serde(default)]
    references: Vec<Reference>,
    #[serde(default)]
    bilevel: Option<BilevelValue>,
    #[serde(default)]
    held_out: Option<Point>,
    #[serde(default)]
    certificate: Option<Certificates>,
}

impl Finished {
    /// Describes why the run ended.
    pub fn message(&self) -> String {
        self.outcome.ended.to_string()
    }

    /// Returns whether the run met the stopping criterion of its solver.
    pub fn completion(&self) -> Completion {
        Completion::of(&self.outcome.solver, &self.outcome.ended)
    }

    /// Describes the verdict in a sentence.
    pub fn sentence(&self) -> String {
        self.completion().headline(&self.outcome.ended, self.outcome.point.feasible)
    }

    /// Keeps the part that is stored as JSON. Coordinates, recorded iterates, notes and times have columns of their own;
    /// without times, a repeated run gives the same text.
    pub fn for_store(mut self) -> Self {
        let o = &mut self.outcome;
        (o.trace, o.notes, o.seconds) = (vec![], vec![], 0.0);
        for point in [Some(&mut o.point), o.best_feasible.as_mut(), self.held_out.as_mut()].into_iter().flatten() {
            point.x = vec![];
        }
        self
    }

    /// Reads the JSON of the store, including that of older versions.
    pub fn from_json(value: &Value) -> serde_json::Result<Self> {
        let mut outcome: Outcome = lenient::read(value)?;
        outcome.metrics.iter_mut().for_each(|metric| metric.name = present_name(&metric.name));
        let Rest { problem, problem_notes, bounds, references, bilevel, held_out, certificate } = lenient::read(value)?;
        let status = Status::of(&outcome.ended, outcome.point.feasible);
        Ok(Finished { status, problem, problem_notes, bounds, references, outcome, bilevel, held_out, certificate })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thalweg::certify::Bounds;
    use thalweg::run::{Evidence, StopReason};

    use super::*;
    use crate::job::{Job, execute};
    use crate::spec::Spec;

    #[test]
    fn a_verdict_that_the_requested_certificate_contradicts_is_withdrawn() {
        let text = "[data]\nname = 'a9a'\nsample = 50\n[problem]\nminimize = 'l2'\nsubject_to = ['hinge <= 0.9']\n\
                    [solver]\nname = 'ssg'\neta = 1e-9\n[budget]\niterations = 1\n";
        let file = Path::new("run.toml");
        let spec = Spec::parse(text, file).unwrap();
        let mut job = Job::new(&spec, file, &Default::default()).unwrap();
        let mut outcome = execute(&job.instance, &mut job.setup, &mut ()).unwrap();
        assert!(!outcome.point.feasible, "the hinge loss is 1 at the start");
        outcome.ended = StopReason::Infeasible { conflicting: vec!["hinge".into()], everywhere: true, radius: None };
        let plain = finish(&job.instance, &job.setup, outcome.clone());
        assert_eq!(plain.status, Status::Infeasible);
        job.setup.options.certificate.bounds = Some(Bounds::default());
        let finished = finish(&job.instance, &job.setup, outcome);
        assert!(finished.certificate.as_ref().and_then(|c| c.bounds.as_ref()).is_some_and(|c| c.proximal_feasible));
        assert_eq!(finished.status, Status::Withdrawn);
        assert_eq!(finished.status.exit_code(), 1);
        assert!(matches!(finished.outcome.ended, StopReason::Withdrawn { evidence: Evidence::FeasiblePoint { .. }, .. }));
        let sentence = finished.sentence();
        assert!(sentence.contains("the solver's verdict that constraint 'hinge' cannot be satisfied is withdrawn"), "{sentence}");
    }
}
