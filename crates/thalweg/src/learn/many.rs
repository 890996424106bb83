//! Large families of constraints: every pair of a positive and a negative row, or covariances with every sensitive attribute.
//! No family is stored explicitly; the objective is that of a [`Learning`] problem.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::pair_rows::{Collapsed, PairRows};
use super::problem::Learning;
use crate::math::Matrix;
use crate::oracle::region::{Cone, Linearised, RADIUS};
use crate::oracle::{
    At, Description, Draw, Modulus, Pick, Region, Scales, Scratch, Source, Structure, Subgradients, Values, Warm, point_by_point,
};
use crate::sets::Set;
use crate::sets::polyhedron::SweepResult;
use crate::{Error, Result};

/// Objective of a model subject to a family of constraints.
///
/// ```
/// use thalweg::learn::{Builder, Data, ManyConstraints, Split};
/// use thalweg::math::Matrix;
/// use thalweg::oracle::Description;
/// # fn main() -> thalweg::Result<()> {
/// let features = Matrix::dense(4, 2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.5, 0.0])?;
/// let data = Data { features, labels: vec![1.0, -1.0, 1.0, -1.0], groups: None, weights: None };
/// let model = Builder::new(data).split(Split::Shared).minimize("welsch".parse()?).build()?;
/// let problem = ManyConstraints::pairs(model, 0.0)?;
/// assert_eq!(problem.num_constraints(), 4);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ManyConstraints {
    model: Learning,
    family: Family,
    bound: f64,
}

/// Sensitive attributes of the rows: columns that a model must not depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributes {
    /// Name of each attribute.
    pub names: Vec<String>,
    /// Values of each attribute, one per row.
    pub values: Vec<Vec<f64>>,
}

#[derive(Debug)]
enum Family {
    Pairs(Pairs),
    Covariance(Covariance),
}

/// Constraints `score(negative) - score(positive) <= bound`, the positive rows outermost.
#[derive(Debug)]
struct Pairs {
    positives: Vec<u32>,
    negatives: Vec<u32>,
    /// Whether projections use one inequality per row instead of one per pair.
    collapsed: bool,
    /// Squared lengths of the pairs, for projections.
    squares: OnceLock<Vec<f64>>,
}

/// Constraints `cov <= bound` and `-cov <= bound` on the covariance of each attribute with false negatives and with false
/// positives: four constraints per attribute.
#[derive(Debug)]
struct Covariance {
    names: Vec<String>,
    /// Attributes minus their means, one row each.
    centred: Vec<f64>,
    /// Whether to use the published formula for false positives, which is about true negatives.
    as_printed: bool,
}

/// Returns the rows of one label.
fn rows_with(labels: &[f64], sign: f64) -> Vec<u32> {
    labels.iter().enumerate().filter(|(_, y)| **y == sign).map(|(i, _)| i as u32).collect()
}

impl ManyConstraints {
    /// Requires every positive row to score at least as high as every negative one, up to `bound`: `s(negative) - s(positive)
    /// <= bound`.
    pub fn pairs(model: Learning, bound: f64) -> Result<Self> {
        let labels = &model.data().labels;
        let (positives, negatives) = (rows_with(labels, 1.0), rows_with(labels, -1.0));
        let count = positives.len() * negatives.len();
        if count == 0 {
            return Err(Error::Problem("pairs need rows of both labels, but one label has none".into()));
        }
        if u32::try_from(count).is_err() {
            return Err(Error::setting("number of pairs", count, format!("at most {}", u32::MAX)));
        }
        ManyConstraints::new(
            model,
            Family::Pairs(Pairs { positives, negatives, collapsed: false, squares: OnceLock::new() }),
            bound,
        )
    }

    /// Makes projections use as many inequalities as there are rows instead of one per pair: the same set, described by a
    /// threshold between the positive and the negative rows.
    pub fn collapsed(mut self) -> Self {
        if let Family::Pairs(pairs) = &mut self.family {
            pairs.collapsed = true;
        }
        self
    }

    /// Bounds the covariance of each attribute with the scores of false negatives (label +1, score below 0) and of false
    /// positives (label -1, score above 0) on both sides by `bound`. `as_printed` uses the published formula for the second,
    /// which is about true negatives.
    pub fn covariance(model: Learning, attributes: Attributes, bound: f64, as_printed: bool) -> Result<Self> {
        let rows = model.data().labels.len();
        if attributes.names.is_empty() || attributes.names.len() != attributes.values.len() {
            let (names, columns) = (attributes.names.len(), attributes.values.len());
            return Err(Error::Problem(format!(
                "covariance needs sensitive attributes, each with a name, but there are {columns} with {names} names"
            )));
        }
        let mut centred = Vec::with_capacity(rows * attributes.names.len());
        for (name, column) in attributes.names.iter().zip(&attributes.values) {
            if column.len() != rows {
                return Err(Error::Length { what: format!("the attribute '{name}'"), got: column.len(), wanted: rows });
            }
            if let Some((i, value)) = crate::math::vec::first_not_finite(column) {
                return Err(Error::NotFinite { what: format!("row {} of the attribute '{name}'", i + 1), value });
            }
            let mean = column.iter().sum::<f64>() / rows.max(1) as f64;
            centred.extend(column.iter().map(|z| z - mean));
        }
        let family = Family::Covariance(Covariance { names: attributes.names, centred, as_printed });
        ManyConstraints::new(model, family, bound)
    }

    fn new(model: Learning, family: Family, bound: f64) -> Result<Self> {
        if model.num_constraints() > 0 {
            return Err(Error::Problem(format!(
                "a family of constraints stands alone, but there is '{}' beside it",
                model.constraint_name(0)
            )));
        }
        if model.data().weights.is_some() {
            return Err(Error::Problem("a family of constraints takes every row once, but the rows have weights".into()));
        }
        if !bound.is_finite() {
            return Err(Error::setting("bound of the constraints", bound, "a finite number"));
        }
        Ok(ManyConstraints { model, family, bound })
    }

    /// Returns the problem without the constraints.
    pub fn model(&self) -> &Learning {
        &self.model
    }

    /// As [`ManyConstraints::model`], mutable.
    pub fn model_mut(&mut self) -> &mut Learning {
        &mut self.model
    }

    /// Returns the bound of all constraints. A constraint's value is its left-hand side minus the bound.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    fn features(&self) -> &Matrix {
        &self.model.data().features
    }

    /// Fills the buffers with the scores of all rows at `x`, unless they hold them already.
    fn score(&self, x: &[f64], buffers: &mut Buffers) {
        let same = buffers.x.len() == x.len() && buffers.x.iter().zip(x).all(|(a, b)| a.to_bits() == b.to_bits());
        if same {
            return;
        }
        buffers.x.clear();
        buffers.x.extend_from_slice(x);
        let columns = self.features().cols();
        self.features().scores(0..buffers.scores.len(), &x[..columns], &mut buffers.scores);
        if let Some(offset) = x.get(columns) {
            buffers.scores.iter_mut().for_each(|s| *s += offset);
        }
    }

    /// Computes the weighted sum of gradients at the scores in the buffers.
    fn pull(&self, weights: &[f64], grad: &mut [f64], buffers: &mut Buffers) {
        let Buffers { scores, slopes, slots, .. } = buffers;
        slopes.clear();
        slopes.resize(scores.len(), 0.0);
        match &self.family {
            Family::Pairs(pairs) => {
                for (j, &w) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
                    let (positive, negative) = pairs.rows(j);
                    slopes[negative] += w;
                    slopes[positive] -= w;
                }
            }
            Family::Covariance(covariance) => {
                for (j, &w) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
                    covariance.add_slopes(j, w, scores, &self.model.data().labels, slopes);
                }
            }
        }
        grad.fill(0.0);
        let columns = self.features().cols();
        slots.resize(self.features().pull_slots(scores.len()), 0.0);
        self.features().pull(0..scores.len(), slopes, 1.0, &mut grad[..columns], slots);
        if let Some(intercept) = grad.get_mut(columns) {
            *intercept = slopes.iter().sum();
        }
    }
}

impl Pairs {
    fn count(&self) -> usize {
        self.positives.len() * self.negatives.len()
    }

    /// Returns the positive and the negative row of pair `j`.
    fn rows(&self, j: usize) -> (usize, usize) {
        let n = self.negatives.len();
        (self.positives[j / n] as usize, self.negatives[j % n] as usize)
    }
}

impl Covariance {
    fn count(&self) -> usize {
        4 * self.names.len()
    }

    /// Returns the attribute of constraint `j`, whether it is about false positives, and its sign.
    fn parts(j: usize) -> (usize, bool, f64) {
        (j / 4, j % 4 >= 2, if j.is_multiple_of(2) { 1.0 } else { -1.0 })
    }

    /// Returns the signed score of a misclassified row (at most 0; 0 for the other rows) and its derivative with respect to the
    /// score.
    fn wrong(&self, let_in: bool, label: f64, score: f64) -> (f64, f64) {
        let sign = match (let_in, label > 0.0) {
            (false, true) => 1.0,
            (true, false) if self.as_printed => 1.0,
            (true, false) => -1.0,
            _ => return (0.0, 0.0),
        };
        if sign * score < 0.0 { (sign * score, sign) } else { (0.0, 0.0) }
    }

    fn value(&self, j: usize, scores: &[f64], labels: &[f64]) -> f64 {
        let (attribute, let_in, sign) = Covariance::parts(j);
        let n = scores.len();
        let centred = &self.centred[attribute * n..(attribute + 1) * n];
        let rows = centred.iter().zip(scores.iter().zip(labels));
        sign * rows.map(|(z, (s, y))| z * self.wrong(let_in, *y, *s).0).sum::<f64>() / n as f64
    }

    fn add_slopes(&self, j: usize, weight: f64, scores: &[f64], labels: &[f64], slopes: &mut [f64]) {
        let (attribute, let_in, sign) = Covariance::parts(j);
        let n = scores.len();
        let factor = weight * sign / n as f64;
        let centred = &self.centred[attribute * n..(attribute + 1) * n];
        for ((slope, z), (s, y)) in slopes.iter_mut().zip(centred).zip(scores.iter().zip(labels)) {
            *slope += factor * z * self.wrong(let_in, *y, *s).1;
        }
    }
}

struct Buffers {
    model: Scratch,
    /// Point of the scores; empty at first.
    x: Vec<f64>,
    scores: Vec<f64>,
    /// Scores at several points, one row per point.
    several: Vec<f64>,
    slopes: Vec<f64>,
    slots: Vec<f64>,
    weights: Vec<f64>,
}

impl Description for ManyConstraints {
    fn dim(&self) -> usize {
        self.model.dim()
    }
    fn num_constraints(&self) -> usize {
        match &self.family {
            Family::Pairs(pairs) => pairs.count(),
            Family::Covariance(covariance) => covariance.count(),
        }
    }
    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        Cow::Owned(match &self.family {
            Family::Pairs(pairs) => {
                let (positive, negative) = pairs.rows(j);
                format!("row {} below row {}", negative + 1, positive + 1)
            }
            Family::Covariance(covariance) => {
                let (attribute, let_in, sign) = Covariance::parts(j);
                let minus = if sign < 0.0 { "-" } else { "" };
                let rows = if let_in { "let in" } else { "missed" };
                format!("{minus}covariance of {} with the {rows}", covariance.names[attribute])
            }
        })
    }
    fn constraint_scale(&self, _j: usize) -> f64 {
        self.bound.abs().max(1.0)
    }
    fn domain(&self) -> &dyn Set {
        self.model.domain()
    }
    fn streams(&self) -> &[usize] {
        self.model.streams()
    }
    fn objective_uses(&self, stream: usize) -> bool {
        self.model.objective_uses(stream)
    }
    /// Every constraint depends on all rows.
    fn constraint_uses(&self, _j: usize, _stream: usize) -> bool {
        false
    }
    fn objective_modulus(&self) -> Option<Modulus> {
        self.model.objective_modulus()
    }
    fn constraint_modulus(&self, _j: usize) -> Option<Modulus> {
        match &self.family {
            Family::Pairs(_) => Some(Modulus { value: 0.0, source: Source::Proved }),
            // Sums of concave pieces have no weak-convexity constant.
            Family::Covariance(_) => None,
        }
    }
    fn fingerprint(&self) -> String {
        let family = match &self.family {
            Family::Pairs(pairs) => format!("{} pairs", pairs.count()),
            Family::Covariance(c) => {
                format!("{} covariances with {}{}", c.count(), c.names.join(", "), if c.as_printed { " as printed" } else { "" })
            }
        };
        format!("{}; {family} <= {}", self.model.fingerprint(), self.bound)
    }
    fn structure(&self) -> &dyn Structure {
        self
    }
}

impl Values for ManyConstraints {
    fn scratch(&self) -> Scratch {
        let rows = self.model.data().labels.len();
        Scratch::new(Buffers {
            model: self.model.scratch(),
            x: vec![],
            scores: vec![0.0; rows],
            several: vec![],
            slopes: vec![],
            slots: vec![],
            weights: vec![],
        })
    }
    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let buffers: &mut Buffers = scratch.get()?;
        self.model.objective(at, &mut buffers.model)
    }
    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let buffers: &mut Buffers = scratch.get()?;
        if let (Family::Pairs(pairs), Pick::These(ids)) = (&self.family, which)
            && 2 * ids.len() < buffers.scores.len()
        {
            // For a few pairs, compute only their scores. An intercept cancels.
            let x = &at.x[..self.features().cols()];
            for (&j, g) in ids.iter().zip(g) {
                let (positive, negative) = pairs.rows(j as usize);
                *g = self.features().row_dot(negative, x) - self.features().row_dot(positive, x) - self.bound;
            }
            return Ok(());
        }
        self.score(at.x, buffers);
        let scores = &buffers.scores;
        match (&self.family, which) {
            (Family::Pairs(pairs), Pick::All) => {
                for (row, &positive) in g.chunks_mut(pairs.negatives.len()).zip(&pairs.positives) {
                    let high = scores[positive as usize];
                    row.iter_mut().zip(&pairs.negatives).for_each(|(g, &n)| *g = scores[n as usize] - high - self.bound);
                }
            }
            (Family::Pairs(pairs), Pick::These(ids)) => {
                for (&j, g) in ids.iter().zip(g) {
                    let (positive, negative) = pairs.rows(j as usize);
                    *g = scores[negative] - scores[positive] - self.bound;
                }
            }
            (Family::Covariance(covariance), which) => {
                let labels = &self.model.data().labels;
                let value = |j: usize| covariance.value(j, scores, labels) - self.bound;
                match which {
                    Pick::All => g.iter_mut().enumerate().for_each(|(j, g)| *g = value(j)),
                    Pick::These(ids) => ids.iter().zip(g).for_each(|(&j, g)| *g = value(j as usize)),
                }
            }
        }
        Ok(())
    }
    fn constraint_values_many(
        &self,
        points: &[f64],
        draw: &Draw,
        warm: &Warm,
        which: Pick,
        out: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Family::Covariance(covariance) = &self.family else {
            return point_by_point(self, points, draw, warm, which, out, scratch);
        };
        let (dim, width) = (self.dim().max(1), which.count(covariance.count()).max(1));
        // Reads every row once for all points, since the rows of a kernel model exceed the cache.
        let Buffers { several, scores, .. } = scratch.get()?;
        let (rows, columns) = (scores.len(), self.features().cols());
        several.resize(points.len() / dim * rows, 0.0);
        for i in 0..rows {
            for (x, scores) in points.chunks(dim).zip(several.chunks_mut(rows)) {
                scores[i] = self.features().row_dot(i, &x[..columns]) + x.get(columns).copied().unwrap_or(0.0);
            }
        }
        for (scores, g) in several.chunks(rows).zip(out.chunks_mut(width)) {
            let labels = &self.model.data().labels;
            which.each(covariance.count(), |k, j| g[k] = covariance.value(j, scores, labels) - self.bound);
        }
        Ok(())
    }
    fn objective_many(&self, points: &[f64], draw: &Draw, warm: &Warm, out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let buffers: &mut Buffers = scratch.get()?;
        self.model.objective_many(points, draw, warm, out, &mut buffers.model)
    }
}

impl Structure for ManyConstraints {
    fn scales(&self) -> Option<&Scales> {
        self.model.scales()
    }
    fn region(&self) -> Option<&dyn Region> {
        match &self.family {
            // The set is a cone only if the bound is 0.
            Family::Pairs(_) if self.bound != 0.0 => None,
            _ => Some(self),
        }
    }
}

impl Subgradients for ManyConstraints {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let buffers: &mut Buffers = scratch.get()?;
        self.model.objective_grad(at, grad, &mut buffers.model)
    }
    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.constraint_values(at, Pick::All, g, scratch)?;
        let buffers: &mut Buffers = scratch.get()?;
        let mut weights = std::mem::take(&mut buffers.weights);
        weights.clear();
        weights.resize(g.len(), 0.0);
        weigh(g, &mut weights);
        if weights.iter().any(|&w| w != 0.0) {
            self.pull(&weights, grad, buffers);
        }
        buffers.weights = weights;
        Ok(())
    }
}

impl ManyConstraints {
    /// Calls `work` with the set as projections use it.
    fn with_region<T>(&self, work: impl FnOnce(&dyn Region) -> T) -> T {
        let features = self.features();
        match &self.family {
            Family::Pairs(Pairs { positives, negatives, collapsed: true, .. }) => {
                work(&Collapsed { features, positives, negatives, radius: RADIUS })
            }
            Family::Pairs(Pairs { positives, negatives, squares, .. }) => {
                let squares = squares.get_or_init(|| PairRows::squares(features, positives, negatives));
                work(&Cone { rows: PairRows { features, positives, negatives, squares }, radius: RADIUS })
            }
            Family::Covariance(covariance) => {
                let values = |at: &[f64], f: &mut [f64], rows: &mut [f64]| {
                    let which: Vec<u32> = (0..covariance.count() as u32).collect();
                    let at = At { x: at, draw: &Draw::full(), warm: &Warm::default() };
                    self.constraint_rows(at, &which, f, rows, &mut self.scratch())
                };
                work(&Linearised { constraints: covariance.count(), radius: RADIUS, values })
            }
        }
    }
}

/// The feasible set: a cone for pairs, a linearisation for covariances.
impl Region for ManyConstraints {
    fn begin(&self, at: &[f64], target: &[f64], warm: &mut Warm) -> Result<u64> {
        self.with_region(|region| region.begin(at, target, warm))
    }
    fn sweep(&self, x: &mut [f64], sweeps: usize, tolerance: f64, warm: &mut Warm) -> Result<SweepResult> {
        self.with_region(|region| region.sweep(x, sweeps, tolerance, warm))
    }
    fn lmo_target(&self, at: &[f64], slope: &[f64], out: &mut [f64]) {
        self.with_region(|region| region.lmo_target(at, slope, out));
    }
    fn lmo_finish(&self, x: &mut [f64]) {
        self.with_region(|region| region.lmo_finish(x));
    }
    fn describe(&self) -> String {
        self.with_region(|region| region.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Builder, Data, Split};
    use super::*;
    use crate::oracle::check;

    fn model(rows: usize, columns: usize, entries: Vec<f64>, labels: Vec<f64>, intercept: bool) -> Learning {
        let data = Data { features: Matrix::dense(rows, columns, entries).unwrap(), labels, groups: None, weights: None };
        let builder = Builder::new(data).split(Split::Shared).intercept(intercept);
        builder.minimize("welsch".parse().unwrap()).build().unwrap()
    }

    fn small(intercept: bool) -> Learning {
        let entries = vec![1.0, 0.0, 0.0, 1.0, 0.5, 0.5, -1.0, 0.0, 2.0, 1.0];
        model(5, 2, entries, vec![1.0, -1.0, 1.0, -1.0, -1.0], intercept)
    }

    fn attributes() -> Attributes {
        Attributes {
            names: vec!["first".into(), "second".into()],
            values: vec![vec![1.0, 0.0, 0.0, 1.0, 1.0], vec![0.3, -1.0, 2.0, 0.0, 0.5]],
        }
    }

    fn all(problem: &ManyConstraints, x: &[f64]) -> Vec<f64> {
        let (draw, warm) = (Draw::full(), Warm::default());
        let mut g = vec![0.0; problem.num_constraints()];
        let at = At { x, draw: &draw, warm: &warm };
        problem.constraint_values(at, Pick::All, &mut g, &mut problem.scratch()).unwrap();
        g
    }

    #[test]
    fn pairs_are_those_of_the_rows_however_they_are_asked_for() {
        let problem = ManyConstraints::pairs(small(false), 0.0).unwrap();
        assert_eq!(problem.num_constraints(), 6);
        assert_eq!(problem.constraint_name(5), "row 5 below row 3");
        let x = [0.3, -0.7];
        let every = all(&problem, &x);
        let (draw, warm) = (Draw::full(), Warm::default());
        let at = At { x: &x, draw: &draw, warm: &warm };
        let mut scratch = problem.scratch();
        let (mut some, mut one) = ([0.0; 4], [0.0]);
        problem.constraint_values(at, Pick::These(&[5, 0, 3, 5]), &mut some, &mut scratch).unwrap();
        problem.constraint_values(at, Pick::These(&[4]), &mut one, &mut scratch).unwrap();
        assert_eq!((some, one), ([every[5], every[0], every[3], every[5]], [every[4]]));
        // Scores 0.3, -0.7, -0.2, -0.3, -0.1.
        assert!((every[0] - (-1.0)).abs() < 1e-12 && (every[5] - 0.1).abs() < 1e-12);
    }

    #[test]
    fn several_points_at_once_are_each_point_by_itself() {
        let (draw, warm) = (Draw::full(), Warm::default());
        for problem in [
            ManyConstraints::pairs(small(true), 0.1).unwrap(),
            ManyConstraints::covariance(small(true), attributes(), 0.05, false).unwrap(),
        ] {
            let points = [0.3, -0.7, 0.1, -1.0, 0.2, 0.4];
            for which in [Pick::All, Pick::These(&[3, 0, 5])] {
                let width = which.count(problem.num_constraints());
                let mut scratch = problem.scratch();
                let mut together = vec![0.0; 2 * width];
                problem.constraint_values_many(&points, &draw, &warm, which, &mut together, &mut scratch).unwrap();
                for (x, together) in points.chunks(3).zip(together.chunks(width)) {
                    let mut alone = vec![0.0; width];
                    problem.constraint_values(At { x, draw: &draw, warm: &warm }, which, &mut alone, &mut scratch).unwrap();
                    assert!(alone.iter().zip(together).all(|(a, b)| (a - b).abs() < 1e-15), "{alone:?} {together:?}");
                }
            }
        }
    }

    /// Spec 3.9, test 10.
    #[test]
    fn covariances_have_their_worked_values() {
        let attributes = Attributes { names: vec!["z".into()], values: vec![vec![1.0, 0.0]] };
        let rows = |labels| model(2, 1, vec![-1.0, 2.0], labels, false);
        let problem = ManyConstraints::covariance(rows(vec![1.0, 1.0]), attributes.clone(), 0.0, false).unwrap();
        assert_eq!(all(&problem, &[1.0]), [-0.25, 0.25, 0.0, -0.0]);
        // Of negative rows, those above 0 are let in; as printed, those below.
        let problem = ManyConstraints::covariance(rows(vec![-1.0, -1.0]), attributes.clone(), 0.05, false).unwrap();
        assert_eq!(all(&problem, &[1.0])[2..], [0.5 - 0.05, -0.5 - 0.05]);
        let problem = ManyConstraints::covariance(rows(vec![-1.0, -1.0]), attributes, 0.0, true).unwrap();
        assert_eq!(all(&problem, &[1.0])[2..], [-0.25, 0.25]);
    }

    #[test]
    fn gradients_agree_with_differences() {
        for intercept in [false, true] {
            let mut x = vec![0.31, -0.72];
            x.extend(intercept.then_some(0.05));
            let pairs = ManyConstraints::pairs(small(intercept), 0.1).unwrap();
            check::finite_differences(&pairs, &x, 1e-6, 1e-6).unwrap();
            let covariance = ManyConstraints::covariance(small(intercept), attributes(), 0.05, false).unwrap();
            check::finite_differences(&covariance, &x, 1e-6, 1e-6).unwrap();
        }
    }

    #[test]
    fn what_makes_no_family_is_refused() {
        let refused = |r: Result<ManyConstraints>| r.unwrap_err().to_string();
        let one = model(2, 1, vec![1.0, 2.0], vec![1.0, 1.0], false);
        assert!(refused(ManyConstraints::pairs(one, 0.0)).contains("one label has none"));
        let none = Attributes { names: vec![], values: vec![] };
        assert!(refused(ManyConstraints::covariance(small(false), none, 0.0, false)).contains("needs sensitive attributes"));
        let short = Attributes { names: vec!["z".into()], values: vec![vec![1.0]] };
        assert!(refused(ManyConstraints::covariance(small(false), short, 0.0, false)).contains("'z'"));
        let data =
            Data { features: Matrix::dense(2, 1, vec![1.0, 2.0]).unwrap(), labels: vec![1.0, -1.0], groups: None, weights: None };
        let more = Builder::new(data).minimize("l2".parse().unwrap()).subject_to("hinge <= 1".parse().unwrap()).build().unwrap();
        assert!(refused(ManyConstraints::pairs(more, 0.0)).contains("there is 'hinge' beside it"));
    }
}
