//! From written terms to a problem: what each name means, which arguments it takes, and what it needs of the data.

use std::sync::Arc;

use super::data::{Data, Split};
use super::expression::{Argument, Bounded, Call, Expression};
use super::gap::RateGap;
use super::loss::{Loss, MeanLoss};
use super::penalty::Penalty;
use super::problem::{Function, Learning, Piece};
use super::roc::RocGap;
use super::term::{Term, Who};
use crate::sets::{Set, WholeSpace};
use crate::suggest::did_you_mean;
use crate::{Error, Result};

/// Every term: its name, its arguments.
const TERMS: &[(&str, &[&str])] = &[
    ("hinge", &["on"]),
    ("logistic", &["on"]),
    ("roc_gap", &["thresholds", "low", "high", "temperature"]),
    ("demographic_parity", &["temperature"]),
    ("equal_opportunity", &["temperature"]),
    ("l2", &[]),
    ("l1", &[]),
    ("scad", &[]),
];

/// Puts a learning problem together.
#[derive(Debug)]
pub struct Builder {
    data: Data,
    split: Split,
    intercept: bool,
    objective: Option<Expression>,
    constraints: Vec<Bounded>,
    domain: Box<dyn Set>,
}

impl Builder {
    /// A problem on `data`; every row serves losses and gaps alike until [`Builder::split`] says otherwise.
    pub fn new(data: Data) -> Self {
        let domain = Box::new(WholeSpace);
        Builder { data, split: Split::Shared, intercept: false, objective: None, constraints: vec![], domain }
    }

    /// How rows are divided between losses and gaps.
    pub fn split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }

    /// Whether the model has an intercept, its last variable. Default: no.
    pub fn intercept(mut self, intercept: bool) -> Self {
        self.intercept = intercept;
        self
    }

    /// What to minimise.
    pub fn minimize(mut self, expression: Expression) -> Self {
        self.objective = Some(expression);
        self
    }

    /// One more constraint.
    pub fn subject_to(mut self, constraint: Bounded) -> Self {
        self.constraints.push(constraint);
        self
    }

    /// The set that the variables stay in. Default: the whole space.
    pub fn domain(mut self, set: impl Set + 'static) -> Self {
        self.domain = Box::new(set);
        self
    }

    /// Checks everything and builds the problem.
    pub fn build(self) -> Result<Learning> {
        self.data.validate()?;
        let groups = self.data.groups.as_ref().map_or(0, |g| g.names.len()) as u32;
        let (data, parts) = self.data.split(self.split);
        let objective = self.objective.ok_or_else(|| Error::setting("minimize", "nothing", "a term, for example \"hinge\""))?;
        let objective = function(&objective, groups, None)?;
        let mut constraints: Vec<Function> = vec![];
        for bounded in &self.constraints {
            let mut built = function(&bounded.expression, groups, Some(bounded.bound))?;
            let twins = constraints.iter().filter(|c| c.expression == built.expression).count();
            if twins > 0 {
                built.name = format!("{} ({})", built.name, twins + 1);
            }
            constraints.push(built);
        }
        Learning::assemble(Arc::new(data), parts, self.intercept, objective, constraints, self.domain)
    }
}

/// Builds one objective (`bound` absent) or constraint.
fn function(expression: &Expression, groups: u32, bound: Option<f64>) -> Result<Function> {
    let mut pieces = vec![];
    let mut minimum = 0.0;
    for (factor, call) in &expression.pieces {
        let piece = piece(call, groups)?;
        minimum += factor
            * match &piece {
                Piece::Term(term) => term.minimum(),
                Piece::Penalty(_) => 0.0,
            };
        pieces.push((*factor, piece));
    }
    let text = expression.to_string();
    if let Some(bound) = bound
        && bound < minimum
    {
        return Err(Error::Problem(format!("'{text} <= {bound}' can never hold: {text} is never below {minimum}")));
    }
    Ok(Function::new(text, pieces, bound.unwrap_or(0.0)))
}

fn piece(call: &Call, groups: u32) -> Result<Piece> {
    let name = call.name.as_str();
    let Some((_, known)) = TERMS.iter().find(|(n, _)| *n == name) else {
        let names: Vec<&str> = TERMS.iter().map(|(n, _)| *n).collect();
        let hint = did_you_mean(name, names.iter().copied());
        return Err(Error::setting("term", format!("'{name}'"), format!("one of {}{hint}", names.join(", "))));
    };
    for (argument, _) in &call.arguments {
        if !known.contains(&argument.as_str()) {
            let hint = did_you_mean(argument, known.iter().copied());
            let accepts = if known.is_empty() { "no argument".into() } else { format!("one of {}{hint}", known.join(", ")) };
            return Err(Error::setting(format!("argument of {name}"), format!("'{argument}'"), accepts));
        }
    }
    let arguments = Arguments { call };
    let groups = |what: &str| match groups {
        0 => Err(Error::Problem(format!("{what} compares groups, but the data have none: name a group column"))),
        1 => Err(Error::Problem(format!("{what} compares groups, but the data have only one"))),
        n => Ok(n),
    };
    let term: Box<dyn Term> = match name {
        "hinge" => Box::new(MeanLoss { loss: Loss::Hinge, on: arguments.on()? }),
        "logistic" => Box::new(MeanLoss { loss: Loss::Logistic, on: arguments.on()? }),
        "roc_gap" => {
            let count = arguments.number("thresholds", Some(400.0))?;
            if count < 1.0 || count.fract() != 0.0 || count > 1e7 {
                return Err(Error::setting("thresholds of roc_gap", count, "a whole number from 1 to 10,000,000"));
            }
            let (low, high) = (arguments.number("low", None)?, arguments.number("high", None)?);
            if low > high {
                return Err(Error::setting("low of roc_gap", low, format!("at most high, which is {high}")));
            }
            Box::new(RocGap::new(groups(name)?, count as usize, low, high, arguments.temperature()?)?)
        }
        "demographic_parity" => Box::new(RateGap::demographic_parity(groups(name)?, arguments.temperature()?)),
        "equal_opportunity" => Box::new(RateGap::equal_opportunity(groups(name)?, arguments.temperature()?)),
        "l2" => return Ok(Piece::Penalty(Penalty::L2)),
        "l1" => return Ok(Piece::Penalty(Penalty::L1)),
        _ => return Ok(Piece::Penalty(Penalty::Scad)),
    };
    Ok(Piece::Term(term))
}

/// The arguments of a call, read with their defaults.
struct Arguments<'c> {
    call: &'c Call,
}

impl Arguments<'_> {
    fn get(&self, name: &str) -> Option<&Argument> {
        self.call.arguments.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    fn named(&self, name: &str) -> String {
        format!("{name} of {}", self.call.name)
    }

    fn number(&self, name: &str, default: Option<f64>) -> Result<f64> {
        match (self.get(name), default) {
            (Some(Argument::Number(v)), _) => Ok(*v),
            (Some(other), _) => Err(Error::setting(self.named(name), other, "a number")),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(Error::setting(self.named(name), "nothing", "a number")),
        }
    }

    fn temperature(&self) -> Result<f64> {
        let t = self.number("temperature", Some(1.0))?;
        if t > 0.0 { Ok(t) } else { Err(Error::setting(self.named("temperature"), t, "a number above 0")) }
    }

    fn on(&self) -> Result<Who> {
        match self.get("on") {
            None => Ok(Who::Everyone),
            Some(Argument::Word(w)) if w == "positives" => Ok(Who::Positives),
            Some(Argument::Word(w)) if w == "negatives" => Ok(Who::Negatives),
            Some(other) => Err(Error::setting(self.named("on"), other, "\"positives\" or \"negatives\"")),
        }
    }
}
