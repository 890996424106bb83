//! Reference values of a problem: which ones its words ask for, and the numbers that they turn words into. How a value is
//! computed is not known here.

use super::best::Best;
use super::expression::{Argument, Bound, Bounded, Call, Expression};
use crate::{Error, Result};

/// The word for what belongs to the minimiser of the problem's loss.
pub(super) const ERM: &str = "erm";

/// The reference values that a problem asks for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    expressions: Vec<Expression>,
    /// Whose minimiser is meant by "erm".
    erm: Option<usize>,
}

impl Wanted {
    /// Goes through the words of a problem. `erm` says that the minimiser of its loss is asked for elsewhere, `settled` whose
    /// minimiser that is, if the words need not say it.
    pub(super) fn by(objective: &Expression, constraints: &[Bounded], erm: bool, settled: Option<&Expression>) -> Result<Self> {
        let mut wanted = Wanted::default();
        for (_, expression) in constraints.iter().filter_map(|c| c.bound.best.as_ref()) {
            wanted.index(expression);
        }
        let calls = || constraints.iter().map(|c| &c.expression).chain([objective]).flat_map(|e| &e.pieces).map(|(_, call)| call);
        if erm || calls().any(|call| call.arguments.iter().any(|argument| is_erm(call, argument))) {
            // What a bound is measured by is the loss of the problem. Else it is a loss over all rows: the smallest loss of
            // one label alone belongs to a model that always says the same.
            let bounding = wanted.expressions.iter().position(|e| e.pieces.iter().any(|(_, call)| is_loss(call)));
            let plain = |call: &&Call| is_loss(call) && call.arguments.is_empty();
            // A loss that stands inside another term counts where none stands alone.
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

    /// Looks the values up among those that are known and computes the others, each once.
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

    /// What an expression is never below, as far as it is known here.
    pub(super) fn lower(&self, expression: &Expression) -> f64 {
        self.of(expression).map_or(f64::NEG_INFINITY, |best| best.lower)
    }

    /// The number that a bound is.
    pub(super) fn bound(&self, bound: &Bound) -> Result<f64> {
        let best = match &bound.best {
            None => 0.0,
            Some((factor, expression)) => self.of(expression).map_or(f64::NAN, |best| factor * best.value),
        };
        let value = best + bound.plus;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(Error::setting("bound", format!("'{bound}', which is {value}"), "a finite number"))
        }
    }

    /// The expression with numbers in place of "erm": thresholds reach beyond the scores of the minimiser, on each side by
    /// half of their range.
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

    /// The radius of a ball, as a multiple of the minimiser's norm.
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
