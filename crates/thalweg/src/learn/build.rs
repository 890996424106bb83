//! Builds a problem from expressions: the meaning of each term's name, its arguments and the data it requires. The grammar is
//! in `expression.rs`, reference values are in `references.rs`.

use std::sync::Arc;

use super::best::{Best, best, placeholder};
use super::data::{Data, Parts, Split};
use super::expression::{Argument, BoundedExpression, Call, Expression};
use super::function::{Function, Piece};
use super::gap::{EqualisedOdds, GroupComparison, RateGap};
use super::loss::{Loss, MeanLoss};
use super::penalty::Penalty;
use super::problem::Learning;
use super::rate::ErrorRate;
use super::references::{ERM, References, RequiredReferences};
use super::roc::RocGap;
use super::self_paced::SelfPaced;
use super::term::{Subpopulation, Term};
use super::variance::Variance;
use super::wasserstein::WassersteinGap;
use crate::sets::{Ball, Set, WholeSpace};
use crate::suggest::{did_you_mean, did_you_mean_one_of};
use crate::{Error, Result, error::check_length};

/// Name and arguments of every term.
const TERMS: &[(&str, &[&str])] = &[
    ("hinge", &["on"]),
    ("logistic", &["on"]),
    ("welsch", &["scale", "on"]),
    ("truncated_logistic", &["scale", "on"]),
    ("variance", &["form"]),
    ("self_paced", &["age", "softness"]),
    ("false_positive_rate", &["temperature"]),
    ("false_negative_rate", &["temperature"]),
    ("roc_gap", &["thresholds", "low", "high", "temperature", COMPARE]),
    ("demographic_parity", &["temperature", COMPARE]),
    ("equal_opportunity", &["temperature", COMPARE]),
    ("equalised_odds", &["temperature", COMPARE]),
    ("wasserstein_gap", &[]),
    ("l2", &[]),
    (RIDGE, &[]),
    ("l1", &[]),
    ("scad", &[]),
];

/// Losses of single rows, which can be the argument of [`TERMS_OF_A_LOSS`].
pub(super) const LOSSES: &[&str] = &["hinge", "logistic", "welsch", "truncated_logistic"];

/// Terms that take a loss as their argument.
const TERMS_OF_A_LOSS: &[&str] = &[VARIANCE, "self_paced"];

const VARIANCE: &str = "variance";

/// Argument of gaps between groups: which differences count.
const COMPARE: &str = "compare";

/// Regulariser with scales that are computed from the rows of losses.
pub(super) const RIDGE: &str = "ridge";

/// Regularisers: functions of the weights alone.
pub(super) const PENALTIES: &[&str] = &["l2", RIDGE, "l1", "scad"];

/// Radius of the default domain if the objective contains a variance. The gradient of a variance grows with the losses, so that
/// steps that suit the minimum can diverge from far away.
const VARIANCE_RADIUS: f64 = 10.0;

/// Builder of a learning problem.
#[derive(Debug)]
pub struct Builder {
    data: Arc<Data>,
    division: Division,
    equal_groups: Option<usize>,
    intercept: bool,
    objective: Option<Expression>,
    constraints: Vec<BoundedExpression>,
    domain: Domain,
    needs_erm: bool,
    /// Expression whose minimiser "erm" refers to, if it is already known.
    erm: Option<String>,
    references: Vec<Best>,
    column_scales: Option<Arc<[f64]>>,
    /// Whether the scales were given instead of computed from the rows.
    given_scales: bool,
}

/// What the meaning of a term depends on besides its arguments.
struct Context {
    /// Number of groups.
    groups: u32,
    /// Scales of the columns for `ridge`; empty if no expression contains it.
    scales: Arc<[f64]>,
}

/// Assignment of rows to losses and gaps.
#[derive(Debug)]
enum Division {
    By(Split),
    /// The rows are already in order.
    Done(Parts),
}

#[derive(Debug)]
enum Domain {
    /// The whole space, or a ball if the objective contains a variance.
    Default,
    Set(Box<dyn Set>),
    /// A ball with a multiple of the norm of the loss's minimiser as its radius.
    TimesErm(f64),
}

impl Builder {
    /// Starts a problem on `data`. Losses and gaps use every row unless [`Builder::split`] divides them.
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
            column_scales: None,
            given_scales: false,
        }
    }

    /// Starts a problem on the rows of an existing one, divided in the same way.
    pub(super) fn on_same_data(problem: &Learning, parts: Parts) -> Self {
        Builder {
            data: Arc::clone(&problem.data),
            division: Division::Done(parts),
            equal_groups: None,
            intercept: problem.intercept,
            objective: None,
            constraints: vec![],
            domain: Domain::Set(Box::new(WholeSpace)),
            needs_erm: false,
            erm: problem.references.erm().map(|best| best.expression.clone()),
            references: problem.references.list.clone(),
            column_scales: problem.column_scales.clone(),
            given_scales: problem.given_scales,
        }
    }

    /// Sets how rows are divided between losses and gaps.
    pub fn split(mut self, split: Split) -> Self {
        self.division = Division::By(split);
        self
    }

    /// Drops rows that gaps are computed on, at random with a fixed seed, until every group has as many as the smallest and at
    /// most `most`. Default: all rows stay. Requires a split in which losses have rows of their own.
    pub fn equal_groups(mut self, most: Option<usize>) -> Self {
        self.equal_groups = most;
        self
    }

    /// Sets whether the model has an intercept, its last variable. Default: no.
    pub fn intercept(mut self, intercept: bool) -> Self {
        self.intercept = intercept;
        self
    }

    /// Sets the objective.
    pub fn minimize(mut self, expression: Expression) -> Self {
        self.objective = Some(expression);
        self
    }

    /// Adds a constraint.
    pub fn subject_to(mut self, constraint: BoundedExpression) -> Self {
        self.constraints.push(constraint);
        self
    }

    /// Sets the domain of the variables. Default: the whole space, or the ball of radius 10 around 0 if the objective contains
    /// a variance.
    pub fn domain(mut self, set: impl Set + 'static) -> Self {
        self.domain = Domain::Set(Box::new(set));
        self
    }

    /// Sets the domain to a ball around 0 whose radius is `times` the norm of the minimiser of the problem's loss.
    pub fn domain_times_erm(mut self, times: f64) -> Self {
        self.domain = Domain::TimesErm(times);
        self
    }

    /// Sets whether [`Learning::erm`] is computed even if no expression refers to it. Default: no.
    pub fn needs_erm(mut self, needs: bool) -> Self {
        self.needs_erm = needs;
        self
    }

    /// Sets reference values that are already known.
    pub fn references(mut self, references: Vec<Best>) -> Self {
        self.references = references;
        self
    }

    /// Sets the scales of the columns that `ridge` uses. By default they are computed from the rows of losses by
    /// [`Data::column_scales`].
    pub fn column_scales(mut self, scales: Vec<f64>) -> Self {
        self.given_scales = true;
        self.column_scales = Some(scales.into());
        self
    }

    /// Takes reference values and column scales from the problem on the training rows. Held-out rows are measured with them, so
    /// that bounds and regularisers are the same functions of the model.
    pub fn held_out_of(mut self, trained: &Learning) -> Self {
        self.references = trained.references().to_vec();
        if let Some(scales) = trained.column_scales() {
            self = self.column_scales(scales.to_vec());
        }
        self
    }

    /// Checks everything, computes the reference values that expressions refer to, and builds the problem.
    ///
    /// `best(EXPRESSION)` in a bound is the smallest value of a convex expression on the rows of the problem, over all weights.
    /// "erm" refers to the minimiser of least norm of the problem's loss: of the first `best(EXPRESSION)` that contains a loss,
    /// else of the first loss over all rows in the constraints or in the objective.
    pub fn build(self) -> Result<Learning> {
        self.assemble(true)
    }

    /// Checks the problem without computing reference values.
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
        if let Some(scales) = &self.column_scales {
            check_length("the list of column scales", scales.len(), data.features.cols())?;
            if let Some(j) = scales.iter().position(|s| !(s.is_finite() && *s >= 0.0)) {
                return Err(Error::setting(format!("scale of column {}", j + 1), scales[j], "a finite number of at least 0"));
            }
        }
        let objective = self.objective.ok_or_else(|| Error::setting("minimize", "nothing", "a term, for example \"hinge\""))?;
        let mut needs_erm = self.needs_erm;
        if let Domain::TimesErm(times) = self.domain {
            if !(times > 0.0 && times.is_finite()) {
                return Err(Error::setting("ball_times_erm", times, "a finite number larger than 0"));
            }
            needs_erm = true;
        }
        let erm = self.erm.map(|expression| expression.parse()).transpose()?;
        let wanted = RequiredReferences::by(&objective, &self.constraints, needs_erm, erm.as_ref())?;
        let bounds = || self.constraints.iter().filter_map(|c| c.bound.best.as_ref()).map(|(_, expression)| expression);
        let expressions = || self.constraints.iter().map(|c| &c.expression).chain([&objective]).chain(bounds());
        let has_ridge = expressions().flat_map(|e| &e.pieces).any(|(_, call)| call.name == RIDGE);
        let given = self.column_scales.clone();
        let column_scales =
            has_ridge.then(|| given.unwrap_or_else(|| data.column_scales(parts.losses.clone(), self.intercept).into()));
        let context = Context { groups, scales: column_scales.clone().unwrap_or_default() };
        let alone = |expression: &Expression| {
            let objective = function(expression, None, &context, &References::default())?;
            Learning::assemble(Arc::clone(&data), parts.clone(), self.intercept, objective, vec![], Arc::new(WholeSpace))
        };
        let functions = |references: &References| -> Result<(Function, Vec<Function>)> {
            let objective = function(&objective, None, &context, references)?;
            let mut constraints: Vec<Function> = vec![];
            for bounded in &self.constraints {
                let mut built = function(&bounded.expression, Some(bounded), &context, references)?;
                let twins = constraints.iter().filter(|c| c.expression == built.expression).count();
                if twins > 0 {
                    built.name = format!("{} ({})", built.name, twins + 1);
                }
                constraints.push(built);
            }
            Ok((objective, constraints))
        };
        let mut references = wanted.find(dim, &self.references, |e| placeholder(&alone(e)?))?;
        // Terms are checked before the reference values are computed, which can take long.
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
        problem.set_references(references);
        problem.set_column_scales(column_scales, self.given_scales);
        Ok(problem)
    }
}

/// Builds an objective, or a constraint if `bounded` is given.
fn function(
    written: &Expression,
    bounded: Option<&BoundedExpression>,
    context: &Context,
    references: &References,
) -> Result<Function> {
    let mut expression = references.resolve(written);
    state_comparison(&mut expression, context.groups);
    let mut pieces = vec![];
    let mut minimum = 0.0;
    for (factor, call) in &expression.pieces {
        let piece = piece(call, context)?;
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
    // The name is the expression as written. The expression itself identifies the problem, so it contains the numbers.
    let mut function = Function::new(expression.to_string(), pieces, bound);
    function.name = written.to_string();
    Ok(function)
}

impl Expression {
    /// Returns whether a term compares groups without stating how, so that the default decides.
    pub fn leaves_comparison_open(&self) -> bool {
        self.pieces.iter().any(|(_, call)| leaves_comparison_open(call))
    }
}

fn leaves_comparison_open(call: &Call) -> bool {
    let takes = TERMS.iter().any(|(name, arguments)| *name == call.name && arguments.contains(&COMPARE));
    takes && call.arguments.iter().all(|(name, _)| name != COMPARE)
}

/// States which differences count in each gap between three or more groups. They identify the problem: an unstated comparison
/// had another meaning in earlier versions.
fn state_comparison(expression: &mut Expression, groups: u32) {
    for (_, call) in expression.pieces.iter_mut().filter(|_| groups > 2) {
        if leaves_comparison_open(call) {
            call.arguments.push((COMPARE.into(), Argument::Word(GroupComparison::default().as_str().into())));
        }
    }
}

/// Checks that a term exists and takes the given arguments.
fn known(call: &Call) -> Result<()> {
    let name = call.name.as_str();
    let Some((_, known)) = TERMS.iter().find(|(n, _)| *n == name) else {
        let names: Vec<&str> = TERMS.iter().map(|(n, _)| *n).collect();
        return Err(Error::Problem(format!("unknown term '{name}'{}", did_you_mean_one_of(name, &names))));
    };
    for (argument, _) in &call.arguments {
        if !known.contains(&argument.as_str()) {
            if known.is_empty() {
                return Err(Error::Problem(format!("{name} takes no argument, got '{argument}'")));
            }
            let hint = did_you_mean_one_of(argument, known);
            return Err(Error::Problem(format!("unknown argument '{argument}' of {name}{hint}")));
        }
    }
    Ok(())
}

/// Reads a loss, alone or as the argument of another term.
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

fn piece(call: &Call, context: &Context) -> Result<Piece> {
    let name = call.name.as_str();
    known(call)?;
    let arguments = Arguments { call };
    let of = match (TERMS_OF_A_LOSS.contains(&name), &call.of) {
        (true, Some(of)) if LOSSES.contains(&of.name.as_str()) => Some(mean_loss(of)?),
        (false, None) => None,
        (true, of) => {
            let wanted = format!("one of {}, as in {name}(logistic)", LOSSES.join(", "));
            let Some(of) = of else { return Err(Error::setting(format!("loss of {name}"), "nothing", wanted)) };
            let hint = did_you_mean(&of.name, LOSSES.iter().copied());
            let hint = if hint.is_empty() { format!("; expected {wanted}") } else { hint };
            return Err(Error::Problem(format!("unknown loss '{}' of {name}{hint}", of.name)));
        }
        (false, Some(of)) => {
            let wanted = format!("no term inside {name}; only {} hold one", TERMS_OF_A_LOSS.join(" and "));
            return Err(Error::setting(format!("argument of {name}"), format!("'{of}'"), wanted));
        }
    };
    let groups = |what: &str| match context.groups {
        0 => Err(Error::MissingGroups(format!("{what} compares groups"))),
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
            let gap = RocGap::new(groups(name)?, count as usize, low, high, arguments.temperature()?)?;
            Box::new(gap.compare(arguments.compare()?))
        }
        ("demographic_parity", _) => {
            Box::new(RateGap::demographic_parity(groups(name)?, arguments.temperature()?).compare(arguments.compare()?))
        }
        ("equal_opportunity", _) => {
            Box::new(RateGap::equal_opportunity(groups(name)?, arguments.temperature()?).compare(arguments.compare()?))
        }
        ("equalised_odds", _) => {
            Box::new(EqualisedOdds::new(groups(name)?, arguments.temperature()?).compare(arguments.compare()?))
        }
        ("wasserstein_gap", _) => match groups(name)? {
            2 => Box::new(WassersteinGap),
            n => {
                let what = format!("{name} is a distance between two groups, but the data have {n}; expected two");
                return Err(Error::Problem(what));
            }
        },
        ("l2", _) => return Ok(Piece::Penalty(Penalty::L2)),
        (RIDGE, _) => return Ok(Piece::Penalty(Penalty::Ridge(Arc::clone(&context.scales)))),
        ("l1", _) => return Ok(Piece::Penalty(Penalty::L1)),
        _ => return Ok(Piece::Penalty(Penalty::Scad)),
    };
    Ok(Piece::Term(term))
}

/// Arguments of a call with their defaults.
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

    /// Reads an end of a range of thresholds. A valid "erm" has been replaced by a number before.
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

    /// Reads which differences of a gap count.
    fn compare(&self) -> Result<GroupComparison> {
        let Some(given) = self.get(COMPARE) else { return Ok(GroupComparison::default()) };
        let known = |word: &str| GroupComparison::ALL.into_iter().find(|c| c.as_str() == word);
        match given {
            Argument::Word(w) if known(w).is_some() => Ok(known(w).unwrap_or_default()),
            other => Err(Error::setting(self.named(COMPARE), other, "\"between-groups\" or \"to-overall\"")),
        }
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

    /// Reads whether the variance is used in its square-root form.
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
