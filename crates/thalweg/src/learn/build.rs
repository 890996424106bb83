//! From written terms to a problem: what each name means, which arguments it takes, and what it needs of the data.

use std::sync::Arc;

use super::best::{Best, best, rehearse};
use super::data::{Data, Parts, Split};
use super::expression::{Argument, Bounded, Call, Expression};
use super::function::{Function, Piece};
use super::gap::{EqualisedOdds, RateGap};
use super::loss::{Loss, MeanLoss};
use super::penalty::Penalty;
use super::problem::Learning;
use super::rate::ErrorRate;
use super::references::{ERM, References, Wanted};
use super::roc::RocGap;
use super::self_paced::SelfPaced;
use super::term::{Subpopulation, Term};
use super::variance::Variance;
use super::wasserstein::WassersteinGap;
use crate::sets::{Ball, Set, WholeSpace};
use crate::suggest::did_you_mean;
use crate::{Error, Result};

/// Every term: its name, its arguments.
const TERMS: &[(&str, &[&str])] = &[
    ("hinge", &["on"]),
    ("logistic", &["on"]),
    ("welsch", &["scale", "on"]),
    ("truncated_logistic", &["scale", "on"]),
    ("variance", &["form"]),
    ("self_paced", &["age", "softness"]),
    ("false_positive_rate", &["temperature"]),
    ("false_negative_rate", &["temperature"]),
    ("roc_gap", &["thresholds", "low", "high", "temperature"]),
    ("demographic_parity", &["temperature"]),
    ("equal_opportunity", &["temperature"]),
    ("equalised_odds", &["temperature"]),
    ("wasserstein_gap", &[]),
    ("l2", &[]),
    ("l1", &[]),
    ("scad", &[]),
];

/// Terms that can stand inside [`OF_LOSSES`]: the losses of single rows.
const LOSSES: &[&str] = &["hinge", "logistic", "welsch", "truncated_logistic"];

/// Terms of a loss that stands inside them.
const OF_LOSSES: &[&str] = &[VARIANCE, "self_paced"];

const VARIANCE: &str = "variance";

/// The radius of the ball that the variables stay in where the objective has a variance and nobody names a domain. The gradient
/// of a variance grows with the losses, so that steps that are right near the minimum can run away from far off.
const VARIANCE_RADIUS: f64 = 10.0;

/// Puts a learning problem together.
#[derive(Debug)]
pub struct Builder {
    data: Arc<Data>,
    division: Division,
    equal_groups: Option<usize>,
    intercept: bool,
    objective: Option<Expression>,
    constraints: Vec<Bounded>,
    domain: Domain,
    needs_erm: bool,
    /// The expression whose minimiser "erm" means, if that is settled.
    erm: Option<String>,
    references: Vec<Best>,
}

/// How rows are divided between losses and gaps.
#[derive(Debug)]
enum Division {
    By(Split),
    /// They are where they should be.
    Done(Parts),
}

#[derive(Debug)]
enum Domain {
    /// The whole space, or a ball where the objective has a variance.
    Default,
    Set(Box<dyn Set>),
    /// A ball, its radius a multiple of the norm of the loss's minimiser.
    TimesErm(f64),
}

impl Builder {
    /// A problem on `data`; every row serves losses and gaps alike until [`Builder::split`] says otherwise.
    pub fn new(data: Data) -> Self {
        Builder {
            data: Arc::new(data),
            division: Division::By(Split::Shared),
            equal_groups: None,
            intercept: false,
            objective: None,
            constraints: vec![],
            domain: Domain::Default,
            needs_erm: false,
            erm: None,
            references: vec![],
        }
    }

    /// Another problem on the rows of one that is built.
    pub(super) fn beside(data: &Arc<Data>, parts: Parts, intercept: bool, references: &References) -> Self {
        Builder {
            data: Arc::clone(data),
            division: Division::Done(parts),
            equal_groups: None,
            intercept,
            objective: None,
            constraints: vec![],
            domain: Domain::Set(Box::new(WholeSpace)),
            needs_erm: false,
            erm: references.erm().map(|best| best.expression.clone()),
            references: references.list.clone(),
        }
    }

    /// How rows are divided between losses and gaps.
    pub fn split(mut self, split: Split) -> Self {
        self.division = Division::By(split);
        self
    }

    /// Leaves out rows that gaps are computed on, at random and always the same ones, until every group has as many of them as
    /// the smallest, and not more than `most`. Default: all stay. Needs a split in which losses have rows of their own.
    pub fn equal_groups(mut self, most: Option<usize>) -> Self {
        self.equal_groups = most;
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

    /// The set that the variables stay in. Default: the whole space; the ball of radius 10 around 0 if the objective has a
    /// variance in it.
    pub fn domain(mut self, set: impl Set + 'static) -> Self {
        self.domain = Domain::Set(Box::new(set));
        self
    }

    /// The variables stay in a ball around 0 whose radius is `times` the norm of the minimiser of the problem's loss.
    pub fn domain_times_erm(mut self, times: f64) -> Self {
        self.domain = Domain::TimesErm(times);
        self
    }

    /// Whether [`Learning::erm`] is wanted although no word of the problem asks for it. Default: no.
    pub fn needs_erm(mut self, needs: bool) -> Self {
        self.needs_erm = needs;
        self
    }

    /// Reference values that are known and need not be computed. Rows that are only measured are measured against those of
    /// the rows that were trained on: `.references(trained.references().to_vec())`.
    pub fn references(mut self, references: Vec<Best>) -> Self {
        self.references = references;
        self
    }

    /// Checks everything, computes the reference values that are asked for, and builds the problem.
    ///
    /// `best(EXPRESSION)` in a bound is the smallest value of a convex expression on the rows of the problem, over all
    /// weights. "erm" is about the minimiser (the shortest, if there are several) of the problem's loss: of the first
    /// `best(EXPRESSION)` that holds a loss, else of the first loss over all rows in the constraints or in the objective.
    pub fn build(self) -> Result<Learning> {
        self.assemble(true)
    }

    /// Refuses what cannot be built, as far as that is known without computing reference values.
    pub fn check(self) -> Result<()> {
        self.assemble(false).map(|_| ())
    }

    fn assemble(self, compute: bool) -> Result<Learning> {
        self.data.validate()?;
        let data_rows = self.data.labels.len();
        let groups = self.data.groups.as_ref().map_or(0, |g| g.names.len()) as u32;
        let (mut data, mut parts) = match self.division {
            Division::By(split) => (split.moved(&self.data).map_or(self.data, Arc::new), split.parts(data_rows)),
            Division::Done(parts) => (self.data, parts),
        };
        if let Some(most) = self.equal_groups {
            let (fewer, divided) = data.equal_groups(parts, most)?;
            (data, parts) = (Arc::new(fewer), divided);
        }
        let dim = data.features.cols() + usize::from(self.intercept);
        let objective = self.objective.ok_or_else(|| Error::setting("minimize", "nothing", "a term, for example \"hinge\""))?;
        let mut needs_erm = self.needs_erm;
        if let Domain::TimesErm(times) = self.domain {
            if !(times > 0.0 && times.is_finite()) {
                return Err(Error::setting("ball_times_erm", times, "a finite number larger than 0"));
            }
            needs_erm = true;
        }
        let erm = self.erm.map(|expression| expression.parse()).transpose()?;
        let wanted = Wanted::by(&objective, &self.constraints, needs_erm, erm.as_ref())?;
        let alone = |expression: &Expression| {
            let objective = function(expression, None, groups, &References::default())?;
            Learning::assemble(Arc::clone(&data), parts.clone(), self.intercept, objective, vec![], Arc::new(WholeSpace))
        };
        let functions = |references: &References| -> Result<(Function, Vec<Function>)> {
            let objective = function(&objective, None, groups, references)?;
            let mut constraints: Vec<Function> = vec![];
            for bounded in &self.constraints {
                let mut built = function(&bounded.expression, Some(bounded), groups, references)?;
                let twins = constraints.iter().filter(|c| c.expression == built.expression).count();
                if twins > 0 {
                    built.name = format!("{} ({})", built.name, twins + 1);
                }
                constraints.push(built);
            }
            Ok((objective, constraints))
        };
        let mut references = wanted.find(dim, &self.references, |e| rehearse(&alone(e)?))?;
        // A slip in a term should not wait for reference values.
        let mut built = functions(&references)?;
        if compute && !references.list.is_empty() {
            references = wanted.find(dim, &self.references, |e| best(&alone(e)?))?;
            built = functions(&references)?;
        }
        let spread = objective.pieces.iter().any(|(_, call)| call.name == VARIANCE);
        let domain: Arc<dyn Set> = match self.domain {
            Domain::Default if spread => Arc::new(Ball::new(VARIANCE_RADIUS)?),
            Domain::Default => Arc::new(WholeSpace),
            Domain::Set(set) => Arc::from(set),
            Domain::TimesErm(times) => Arc::new(Ball::new(references.radius(times)?)?),
        };
        let (objective, constraints) = built;
        let mut problem = Learning::assemble(data, parts, self.intercept, objective, constraints, domain)?;
        problem.refer(references);
        Ok(problem)
    }
}

/// Builds one objective (`bounded` absent) or constraint.
fn function(written: &Expression, bounded: Option<&Bounded>, groups: u32, references: &References) -> Result<Function> {
    let expression = references.resolve(written);
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
    let bound = bounded.map_or(Ok(0.0), |bounded| references.bound(&bounded.bound))?;
    minimum = references.lower(written).max(minimum);
    if let Some(bounded) = bounded
        && bound < minimum
    {
        let value = if bounded.bound.best.is_some() { format!(", with a bound of {bound},") } else { String::new() };
        return Err(Error::Problem(format!("'{bounded}'{value} can never hold: {written} is never below {minimum}")));
    }
    // The name is as people wrote it; the expression tells problems apart, so it has the numbers.
    let mut function = Function::new(expression.to_string(), pieces, bound);
    function.name = written.to_string();
    Ok(function)
}

/// Refuses a term that does not exist and arguments that it does not take.
fn known(call: &Call) -> Result<()> {
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
    Ok(())
}

/// A loss that is alone or inside another term.
fn mean_loss(call: &Call) -> Result<MeanLoss> {
    known(call)?;
    let arguments = Arguments { call };
    let on = arguments.on()?;
    let loss = match call.name.as_str() {
        "hinge" => Loss::Hinge,
        "logistic" => Loss::Logistic,
        "welsch" => Loss::Welsch(arguments.scale()?.unwrap_or(1.0)),
        _ => Loss::TruncatedLogistic(arguments.scale()?),
    };
    Ok(MeanLoss { loss, on })
}

fn piece(call: &Call, groups: u32) -> Result<Piece> {
    let name = call.name.as_str();
    known(call)?;
    let arguments = Arguments { call };
    let of = match (OF_LOSSES.contains(&name), &call.of) {
        (true, Some(of)) if LOSSES.contains(&of.name.as_str()) => Some(mean_loss(of)?),
        (false, None) => None,
        (true, of) => {
            let found = of.as_ref().map_or("nothing".into(), |of| format!("'{}'", of.name));
            let hint = of.as_ref().map_or(String::new(), |of| did_you_mean(&of.name, LOSSES.iter().copied()));
            let wanted = format!("one of {}{hint}, as in {name}(logistic)", LOSSES.join(", "));
            return Err(Error::setting(format!("loss of {name}"), found, wanted));
        }
        (false, Some(of)) => {
            let wanted = format!("no term inside {name}; only {} hold one", OF_LOSSES.join(" and "));
            return Err(Error::setting(format!("argument of {name}"), format!("'{of}'"), wanted));
        }
    };
    let groups = |what: &str| match groups {
        0 => Err(Error::Problem(format!("{what} compares groups, but the data have none: name a group column"))),
        1 => Err(Error::Problem(format!("{what} compares groups, but the data have only one"))),
        n => Ok(n),
    };
    let term: Box<dyn Term> = match (name, of) {
        ("self_paced", Some(MeanLoss { loss, on })) => {
            let (age, softness) = (arguments.number("age", 1.0)?, arguments.number("softness", 1.0)?);
            Box::new(SelfPaced::new(loss, on, age, softness)?)
        }
        (_, Some(MeanLoss { loss, on })) => Box::new(Variance::new(loss, on, arguments.root()?)),
        (name, None) if LOSSES.contains(&name) => Box::new(mean_loss(call)?),
        ("false_positive_rate", _) => Box::new(ErrorRate::false_positive(arguments.temperature()?)),
        ("false_negative_rate", _) => Box::new(ErrorRate::false_negative(arguments.temperature()?)),
        ("roc_gap", _) => {
            let count = arguments.number("thresholds", 400.0)?;
            if count < 1.0 || count.fract() != 0.0 || count > 1e7 {
                return Err(Error::setting("thresholds of roc_gap", count, "a whole number from 1 to 10,000,000"));
            }
            let (low, high) = (arguments.threshold("low")?, arguments.threshold("high")?);
            if low > high {
                return Err(Error::setting("low of roc_gap", low, format!("at most high, which is {high}")));
            }
            Box::new(RocGap::new(groups(name)?, count as usize, low, high, arguments.temperature()?)?)
        }
        ("demographic_parity", _) => Box::new(RateGap::demographic_parity(groups(name)?, arguments.temperature()?)),
        ("equal_opportunity", _) => Box::new(RateGap::equal_opportunity(groups(name)?, arguments.temperature()?)),
        ("equalised_odds", _) => Box::new(EqualisedOdds::new(groups(name)?, arguments.temperature()?)),
        ("wasserstein_gap", _) => match groups(name)? {
            2 => Box::new(WassersteinGap),
            n => {
                let what = format!("{name} is a distance between two groups, but the data have {n}; expected two");
                return Err(Error::Problem(what));
            }
        },
        ("l2", _) => return Ok(Piece::Penalty(Penalty::L2)),
        ("l1", _) => return Ok(Piece::Penalty(Penalty::L1)),
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

    fn number(&self, name: &str, default: f64) -> Result<f64> {
        match self.get(name) {
            Some(Argument::Number(v)) => Ok(*v),
            Some(other) => Err(Error::setting(self.named(name), other, "a number")),
            None => Ok(default),
        }
    }

    /// An end of a range of thresholds. Where "erm" can be meant, a number stands in its place by now.
    fn threshold(&self, name: &str) -> Result<f64> {
        match self.get(name) {
            Some(Argument::Number(v)) => Ok(*v),
            Some(Argument::Word(w)) if w == ERM => Err(Error::setting(self.named(name), "\"erm\"", "a number inside best(…)")),
            Some(other) => Err(Error::setting(self.named(name), other, "a number or \"erm\"")),
            None => Err(Error::setting(self.named(name), "nothing", "a number or \"erm\"")),
        }
    }

    fn temperature(&self) -> Result<f64> {
        let t = self.number("temperature", 1.0)?;
        if t > 0.0 { Ok(t) } else { Err(Error::setting(self.named("temperature"), t, "a number above 0")) }
    }

    fn scale(&self) -> Result<Option<f64>> {
        if self.get("scale").is_none() {
            return Ok(None);
        }
        let scale = self.number("scale", 1.0)?;
        if scale > 0.0 && scale.is_finite() {
            return Ok(Some(scale));
        }
        Err(Error::setting(self.named("scale"), scale, "a finite number above 0"))
    }

    /// Whether a variance is wanted as the root of its share.
    fn root(&self) -> Result<bool> {
        match self.get("form") {
            None => Ok(false),
            Some(Argument::Word(w)) if w == "plain" => Ok(false),
            Some(Argument::Word(w)) if w == "sqrt" => Ok(true),
            Some(other) => Err(Error::setting(self.named("form"), other, "\"plain\" or \"sqrt\"")),
        }
    }

    fn on(&self) -> Result<Subpopulation> {
        match self.get("on") {
            None => Ok(Subpopulation::Everyone),
            Some(Argument::Word(w)) if w == "positives" => Ok(Subpopulation::Positives),
            Some(Argument::Word(w)) if w == "negatives" => Ok(Subpopulation::Negatives),
            Some(other) => Err(Error::setting(self.named("on"), other, "\"positives\" or \"negatives\"")),
        }
    }
}
