//! Reference values of a problem: which ones its expressions refer to, and the numbers that they resolve to. How a value is
//! computed is in `best.rs`.

use super::best::Best;
use super::expression::{Argument, Bound, BoundedExpression, Call, Expression};
use crate::{Error, Result};

/// Name that refers to the minimiser of the problem's loss.
pub(super) const ERM: &str = "erm";

/// Reference values that a problem requires.
#[derive(Debug, Default)]
pub(super) struct RequiredReferences {
    expressions: Vec<Expression>,
    /// Index of the expression whose minimiser "erm" refers to.
    erm: Option<usize>,
}

impl RequiredReferences {
    /// Collects the reference values in the expressions of a problem. `erm` is set if the minimiser of its loss is required for
    /// another reason, `settled` is the expression to minimise if it is already known.
    pub(super) fn by(
        objective: &Expression,
        constraints: &[BoundedExpression],
        erm: bool,
        settled: Option<&Expression>,
    ) -> Result<Self> {
        let mut wanted = RequiredReferences::default();
        for (_, expression) in constraints.iter().filter_map(|c| c.bound.best.as_ref()) {
            wanted.index(expression);
        }
        let expressions = || constraints.iter().map(|c| &c.expression).chain([objective]);
        let calls = || expressions().flat_map(|e| &e.pieces).map(|(_, call)| call);
        if erm || expressions().any(Expression::refers_to_erm) {
            // The loss in a bound is the loss of the problem, else the first loss over all rows: the smallest loss over one
            // label alone belongs to a constant model.
            let bounding = wanted.expressions.iter().position(|e| e.pieces.iter().any(|(_, call)| is_loss(call)));
            let plain = |call: &&Call| is_loss(call) && call.arguments.is_empty();
            // A loss inside another term is used only if no other exists.
            let bare = || calls().find(plain).or_else(|| calls().filter_map(|call| call.of.as_deref()).find(plain));
            wanted.erm = match settled {
                Some(expression) => Some(wanted.index(expression)),
                None => bounding.or_else(|| bare().map(|call| wanted.index(&Expression { pieces: vec![(1.0, call.clone())] }))),
            };
            if wanted.erm.is_none() {
                return Err(Error::Problem(
                    "\"erm\" means the minimiser of the problem's loss, but it has none; expected hinge or logistic over all \
                     rows in a constraint or in the objective, or a bound such as hinge <= 1.001 * best(hinge)"
                        .into(),
                ));
            }
        }
        Ok(wanted)
    }

    fn index(&mut self, expression: &Expression) -> usize {
        self.expressions.iter().position(|e| e == expression).unwrap_or_else(|| {
            self.expressions.push(expression.clone());
            self.expressions.len() - 1
        })
    }

    /// Takes values that are already known and computes the others, each once.
    pub(super) fn find(
        &self,
        dim: usize,
        known: &[Best],
        mut compute: impl FnMut(&Expression) -> Result<Best>,
    ) -> Result<References> {
        let one = |expression: &Expression| {
            let text = expression.to_string();
            match known.iter().find(|best| best.expression == text) {
                None => compute(expression),
                Some(best) if best.minimizer.len() == dim => Ok(best.clone()),
                Some(best) => {
                    Err(Error::Length { what: format!("the minimiser of best({text})"), got: best.minimizer.len(), wanted: dim })
                }
            }
        };
        Ok(References { list: self.expressions.iter().map(one).collect::<Result<_>>()?, erm: self.erm })
    }
}

fn is_loss(call: &Call) -> bool {
    call.name == "hinge" || call.name == "logistic"
}

impl Expression {
    /// Returns whether a term has thresholds computed from the minimiser of the problem's loss.
    pub fn refers_to_erm(&self) -> bool {
        self.pieces.iter().any(|(_, call)| call.arguments.iter().any(|argument| is_erm(call, argument)))
    }
}

fn is_erm(call: &Call, (name, value): &(String, Argument)) -> bool {
    call.name == "roc_gap" && (name == "low" || name == "high") && matches!(value, Argument::Word(w) if w == ERM)
}

/// The reference values of a problem.
#[derive(Debug, Default)]
pub(super) struct References {
    pub(super) list: Vec<Best>,
    pub(super) erm: Option<usize>,
}

impl References {
    pub(super) fn erm(&self) -> Option<&Best> {
        self.erm.map(|i| &self.list[i])
    }

    fn of(&self, expression: &Expression) -> Option<&Best> {
        let text = expression.to_string();
        self.list.iter().find(|best| best.expression == text)
    }

    /// Returns the known lower bound of an expression for all weights.
    pub(super) fn lower(&self, expression: &Expression) -> f64 {
        self.of(expression).map_or(f64::NEG_INFINITY, |best| best.lower_everywhere())
    }

    /// Returns the number that a bound resolves to.
    pub(super) fn bound(&self, bound: &Bound) -> Result<f64> {
        let best = match &bound.best {
            None => 0.0,
            Some((factor, expression)) => self.of(expression).map_or(f64::NAN, |best| factor * best.value),
        };
        let value = best + bound.plus;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(Error::setting("bound", value, format!("a finite number: it is '{bound}'")))
        }
    }

    /// Replaces "erm" by numbers: thresholds extend beyond the scores of the minimiser by half of their range on each side.
    pub(super) fn resolve(&self, expression: &Expression) -> Expression {
        let mut resolved = expression.clone();
        let Some(Best { scores: [low, high], .. }) = self.erm() else { return resolved };
        let beyond = 0.5 * (high - low);
        for (_, call) in &mut resolved.pieces {
            for i in 0..call.arguments.len() {
                if is_erm(call, &call.arguments[i]) {
                    let (name, value) = &mut call.arguments[i];
                    *value = Argument::Number(if name == "low" { low - beyond } else { high + beyond });
                }
            }
        }
        resolved
    }

    /// Returns a ball's radius as a multiple of the minimiser's norm.
    pub(super) fn radius(&self, times: f64) -> Result<f64> {
        let norm = self.erm().map_or(f64::NAN, |best| best.norm);
        if norm > 0.0 {
            return Ok(times * norm);
        }
        Err(Error::Problem(format!(
            "the domain would be a point: ball_times_erm = {times}, but the minimiser of the loss has norm {norm}"
        )))
    }
}
