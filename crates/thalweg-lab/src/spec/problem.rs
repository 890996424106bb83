//! The `[problem]` table and the problem built from it.

use std::path::Path;
use std::sync::Arc;

use thalweg::learn::{Argument, Attributes, BoundedExpression, Call, Expression, Learning, ManyConstraints};
use thalweg::sets::{Ball, Bounds, NonNegative, WholeSpace};
use thalweg::suggest::did_you_mean;
use toml::Value;

use super::messages::{number, wrong};
use super::read_numbers;
use super::schema::{Plan, ProblemSpec};
use crate::job::{Domain, ModelTerms};
use crate::metrics::MetricKind;
use crate::{Error, Result};

impl ProblemSpec {
    /// Parses the terms of the model, without a family of constraints. Metrics in `measured` may need the minimiser of the loss
    /// too.
    pub(crate) fn terms(&self, measured: &[MetricKind]) -> Result<ModelTerms> {
        self.check_plan()?;
        let minimize = self.minimize.parse()?;
        let domain = self.domain()?;
        let needs_erm = self.starts_at_erm() || measured.iter().any(MetricKind::needs_erm);
        let subject_to = match self.family()? {
            None => self.subject_to.iter().map(|c| c.parse()).collect::<thalweg::Result<_>>()?,
            Some(_) => vec![],
        };
        Ok(ModelTerms { minimize, subject_to, intercept: self.intercept, domain, needs_erm })
    }

    /// Returns whether a bound, a threshold, the domain, the start or one of the metrics in `measured` is computed from a
    /// reference value.
    pub(crate) fn uses_references(&self, measured: &[MetricKind]) -> Result<bool> {
        let terms = self.terms(measured)?;
        let erm = |expression: &Expression| expression.refers_to_erm();
        Ok(terms.needs_erm
            || matches!(terms.domain, Some(Domain::TimesErm(_)))
            || erm(&terms.minimize)
            || terms.subject_to.iter().any(|c| c.bound.best.is_some() || erm(&c.expression)))
    }

    /// Returns whether a term of the problem compares groups without stating how.
    pub(crate) fn compares_groups(&self) -> Result<bool> {
        let terms = self.terms(&[])?;
        let constraints = terms.subject_to.iter().any(|c| c.expression.leaves_comparison_open());
        Ok(constraints || terms.minimize.leaves_comparison_open())
    }

    /// Returns the family of constraints, if there is one; it must be the only constraint.
    pub(crate) fn family(&self) -> Result<Option<Family>> {
        let mut found = None;
        for written in &self.subject_to {
            let bounded: BoundedExpression = written.parse()?;
            let named = |(_, call): &(f64, Call)| [PAIRS, COVARIANCE].contains(&call.name.as_str());
            if !bounded.expression.pieces.iter().any(named) {
                // A family is not a term, so an error that lists the terms would not help.
                for (_, call) in &bounded.expression.pieces {
                    let hint = did_you_mean(&call.name, [PAIRS, COVARIANCE]);
                    if !hint.is_empty() {
                        return Err(Error::Request(format!("unknown term or family '{}'{hint}", call.name)));
                    }
                }
                continue;
            }
            let [(1.0, call)] = &bounded.expression.pieces[..] else {
                return Err(Error::Request(format!(
                    "'{written}': a family of constraints cannot be part of a sum or have a factor"
                )));
            };
            if self.subject_to.len() > 1 {
                return Err(Error::Request(format!("'{written}': a family of constraints must be the only entry of subject_to")));
            }
            if bounded.bound.best.is_some() {
                return Err(Error::Request(format!("'{written}'; expected a number as the bound of a family of constraints")));
            }
            let known = if call.name == COVARIANCE { "as_printed" } else { "collapsed" };
            if let Some((argument, _)) = call.arguments.iter().find(|(name, _)| name != known) {
                return Err(Error::Request(format!("unknown argument '{argument}' of {}; expected {known}", call.name)));
            }
            let yes = match call.arguments.first() {
                None => false,
                Some((_, Argument::Word(word))) if ["yes", "no"].contains(&word.as_str()) => word == "yes",
                Some((name, value)) => {
                    return Err(Error::Request(format!("{name} of {} must be \"yes\" or \"no\", got {value}", call.name)));
                }
            };
            let bound = bounded.bound.plus;
            found = Some(match call.name == PAIRS {
                true => Family::Pairs { bound, collapsed: yes },
                false => Family::Covariance { bound, as_printed: yes },
            });
        }
        if found.is_some() && self.plan != Plan::Eliminated {
            return Err(Error::Request("a family of constraints and a transport plan as a variable do not go together".into()));
        }
        Ok(found)
    }

    /// Returns the domain; `None` if the problem uses its own default.
    fn domain(&self) -> Result<Option<Domain>> {
        let wanted = "\"all\", \"non-negative\", { ball = RADIUS }, { ball_times_erm = FACTOR } or { box = [LOW, HIGH] }";
        let wrong = |value: &Value| wrong("domain", value, wanted);
        let Some(value) = &self.domain else { return Ok(None) };
        let side = |side: &Value| number(side).ok_or_else(|| wrong(value));
        match value {
            Value::String(s) if s == "all" => return Ok(Some(Domain::Set(Arc::new(WholeSpace)))),
            Value::String(s) if s == "non-negative" => return Ok(Some(Domain::Set(Arc::new(NonNegative)))),
            Value::Table(t) if t.len() == 1 => match (t.get("ball"), t.get("ball_times_erm"), t.get("box")) {
                (Some(radius), None, None) => return Ok(Some(Domain::Set(Arc::new(Ball::new(side(radius)?)?)))),
                (None, Some(times), None) => return Ok(Some(Domain::TimesErm(side(times)?))),
                (None, None, Some(Value::Array(sides))) if sides.len() == 2 => {
                    return Ok(Some(Domain::Set(Arc::new(Bounds::uniform(side(&sides[0])?, side(&sides[1])?)?))));
                }
                _ => {}
            },
            _ => {}
        }
        Err(wrong(value))
    }

    /// Rejects the key `plan` if the objective has no transport plan.
    fn check_plan(&self) -> Result<()> {
        let minimize: Expression = self.minimize.parse()?;
        if self.plan != Plan::Eliminated && minimize.to_string() != "wasserstein_gap" {
            return Err(Error::Request(format!(
                "plan = \"{}\" with minimize = \"{minimize}\"; expected minimize = \"wasserstein_gap\", whose transport plan can be a \
                 variable",
                self.plan.name()
            )));
        }
        if let (Some(rescale), Plan::Eliminated) = (self.rescale, self.plan) {
            return Err(Error::Request(format!(
                "rescale must be only where plan is \"joint\" or \"doubly-stochastic\", whose batches it is about, got {rescale}"
            )));
        }
        Ok(())
    }

    pub(crate) fn starts_at_erm(&self) -> bool {
        matches!(&self.start, Some(Value::String(s)) if s == "erm")
    }

    /// Returns the starting point for every value but "erm"; for a joint problem, with or without the plan.
    pub(crate) fn named_start(&self, dim: usize, all: usize, base: &Path) -> Result<Vec<f64>> {
        let wanted = "\"zero\", \"erm\", \"sin\", a list of numbers, or a file of numbers";
        let sized = |x: Vec<f64>, from: &str| {
            if x.len() == dim || x.len() == all {
                Ok(x)
            } else {
                let plan = if all > dim { format!(", {all} with its transport plan") } else { String::new() };
                Err(Error::Request(format!("{from} has {} numbers: the problem has {dim} variables{plan}", x.len())))
            }
        };
        let mut zero = vec![];
        // A mistyped column number in a data file can request more memory than available.
        if zero.try_reserve_exact(dim).is_err() {
            return Err(Error::Request(format!("the problem has {dim} variables; expected as many as the memory can hold")));
        }
        zero.resize(dim, 0.0);
        match &self.start {
            None => Ok(zero),
            Some(Value::String(s)) if s == "zero" => Ok(zero),
            Some(Value::String(s)) if s == "sin" => Ok((1..=dim).map(|j| 0.01 * (j as f64).sin()).collect()),
            Some(Value::Array(list)) => {
                let x: Option<Vec<f64>> = list.iter().map(number).collect();
                sized(x.ok_or_else(|| wrong("start", &Value::Array(list.clone()), wanted))?, "start")
            }
            Some(value @ Value::String(s)) => {
                let file = base.join(s);
                if !file.exists() {
                    return Err(wrong("start", value, wanted));
                }
                sized(read_numbers(&file)?, &file.display().to_string())
            }
            Some(other) => Err(wrong("start", other, wanted)),
        }
    }
}

/// Constraints for every pair of a positive and a negative row.
const PAIRS: &str = "pairs";
/// Constraints on covariances with sensitive columns.
const COVARIANCE: &str = "covariance";

/// Family of constraints.
pub(crate) enum Family {
    Pairs { bound: f64, collapsed: bool },
    Covariance { bound: f64, as_printed: bool },
}

impl Family {
    pub(crate) fn pose(self, model: Learning, sensitive: Option<Attributes>) -> Result<ManyConstraints> {
        Ok(match (self, sensitive) {
            (Family::Pairs { bound, collapsed: false }, _) => ManyConstraints::pairs(model, bound)?,
            (Family::Pairs { bound, collapsed: true }, _) => ManyConstraints::pairs(model, bound)?.collapsed(),
            (Family::Covariance { bound, as_printed }, Some(attributes)) => {
                ManyConstraints::covariance(model, attributes, bound, as_printed)?
            }
            (Family::Covariance { .. }, None) => {
                return Err(Error::Request(
                    "covariance is about sensitive columns; expected sensitive = [COLUMNS] in [data]".into(),
                ));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::Spec;

    #[test]
    fn reference_values_are_found_in_the_parsed_problem() {
        let uses = |problem: &str, measure: &str| {
            let text = format!(
                "measure = [{measure}]\n[data]\nname = 'a9a'\n[problem]\n{problem}\n[solver]\nname = 'auto'\n[budget]\niterations = 1\n"
            );
            toml::from_str::<Spec>(&text).unwrap().uses_references()
        };
        for problem in [
            "minimize = 'l2'\nsubject_to = ['hinge <= 1.1 *best( hinge )']",
            "minimize = 'hinge'\ndomain = { ball_times_erm = 5 }",
            "minimize = 'hinge'\nstart = 'erm'",
            "minimize = \"roc_gap(low = 'erm', high = 'erm')\"\nsubject_to = ['hinge <= 1']",
            "minimize = 'hinge'\nsubject_to = [\"roc_gap(low = 'erm', high = 3) <= 1\"]",
        ] {
            assert!(uses(problem, ""), "{problem}");
        }
        let plain = "minimize = 'hinge'\nsubject_to = ['l2 <= 1', 'demographic_parity <= 0.1']\nstart = 'intermediate.json'";
        assert!(!uses(plain, "'accuracy', 'logistic'"));
        assert!(uses(plain, "\"roc_gap(low = 'erm', high = 'erm')\""));
        assert!(!uses("minimize = 'hinge'\nsubject_to = ['covariance <= 0.1']", "") && !uses("minimize = 'no_such_term'", ""));
    }
}
