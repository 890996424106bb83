//! Execution of a job.

use std::path::Path;

use thalweg::Note;
use thalweg::run::{self, Observer, Options, Outcome};

use super::equip::{RunSetup, equip};
use super::pose::{Instance, pose};
use crate::Result;
use crate::data::catalogue;
use crate::spec::Spec;

/// Spec with its data loaded and everything built.
pub struct Job {
    /// Problem on its data.
    pub instance: Instance,
    /// Solver, start and options.
    pub setup: RunSetup,
}

impl Job {
    /// Checks a spec, loads its data and builds everything. Relative paths start at the directory of `file`.
    pub fn new(spec: &Spec, file: &Path, options: &catalogue::Options) -> Result<Self> {
        spec.check()?;
        let instance = pose(spec, file, options)?;
        let setup = equip(spec, &instance, file, None)?;
        Ok(Job { instance, setup })
    }

    /// Returns the notes about the problem and the setup.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.instance.notes.iter().chain(&self.setup.notes)
    }
}

/// Runs the solver on the problem with the options of the setup. Pilot runs count towards the time limit.
pub fn execute(instance: &Instance, setup: &mut RunSetup, observer: &mut (dyn Observer + Send)) -> thalweg::Result<Outcome> {
    let options = Options { budget: setup.pilots.leaves(&setup.options.budget), ..setup.options.clone() };
    run::minimize_with(instance.problem.oracle(), &mut setup.solver, &setup.start, &options, observer)
}
