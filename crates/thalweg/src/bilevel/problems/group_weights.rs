//! Robust group weights: the weight of each group of training rows is chosen such that every model that fits the weighted rows
//! does well on the validation rows. The division of rows into groups is given.

use std::sync::Arc;

use super::least_squares::{LeastSquares, check_rows};
use crate::bilevel::{Bilevel, Derivatives, Pair};
use crate::error::check_length;
use crate::math::{Matrix, vec};
use crate::oracle::Scratch;
use crate::sets::{Ball, Bounds, Set};
use crate::{Error, Result};

/// Robust group weights. Outer variables are weights `x_k` in `[low, 1]`, one for each group; the inner variable is a linear
/// model y. With n training and n_v validation rows,
///
/// `g = sum_k x_k / (2 n) sum over rows i of group k of (a_i . y - b_i)^2` and
/// `f = 1 / (2 n_v) sum over validation rows of (a_i . y - b_i)^2`.
///
/// g has no regularisation: with linearly dependent columns, such as those of encoded categories, or with fewer rows than
/// columns, many models fit equally well, and the pessimistic choice of weights assumes the one that does worst on the
/// validation rows. f is convex in y, not concave, so that necessary conditions of the inner maximum are solved. Without a
/// bound some of these models would be arbitrarily bad, so models have norm at most `radius`. This is a constraint `C =
/// (||y||^2 - radius^2) / 2 <= 0` with its own multiplier, not the set Y, on whose boundary the conditions would not hold.
///
/// Only `A^T A`, `A^T b` and `||b||^2` of each group and of the validation rows are stored.
#[derive(Debug, Clone)]
pub struct GroupWeights {
    outer: LeastSquares,
    /// Sums of squares of the groups, each divided by the number of all training rows.
    groups: Vec<LeastSquares>,
    columns: usize,
    outer_set: Arc<dyn Set>,
    inner_set: Arc<dyn Set>,
    radius: f64,
    rows: [usize; 2],
}

impl GroupWeights {
    /// Builds the problem from training rows with labels -1 or 1 and the group of each, counted from 0, and validation rows
    /// with labels. Weights are at least `low`, models have norm at most `radius`.
    pub fn new(
        training: (&Matrix, &[f64]),
        groups: &[usize],
        validation: (&Matrix, &[f64]),
        low: f64,
        radius: f64,
    ) -> Result<Self> {
        if !(low > 0.0 && low < 1.0) {
            return Err(Error::setting("low", low, "a number above 0 and below 1"));
        }
        if !(radius > 0.0 && radius.is_finite()) {
            return Err(Error::setting("radius", radius, "a finite number larger than 0"));
        }
        let columns = training.0.cols();
        if columns == 0 {
            return Err(Error::Problem("the training rows have no column; expected at least one".into()));
        }
        for (what, (features, labels)) in [("training", training), ("validation", validation)] {
            check_rows(what, features, labels, columns)?;
            if let Some(i) = labels.iter().position(|label| label.abs() != 1.0) {
                return Err(Error::Problem(format!("{what} label {} is {}; expected -1 or 1", i + 1, labels[i])));
            }
        }
        check_length("the list of groups", groups.len(), training.0.rows())?;
        let mut members: Vec<Vec<usize>> = vec![];
        for (row, &group) in groups.iter().enumerate() {
            if group >= groups.len() {
                let wanted = format!("a number below {}, the number of rows", groups.len());
                return Err(Error::Problem(format!("the group of training row {} is {group}; expected {wanted}", row + 1)));
            }
            members.resize(members.len().max(group + 1), vec![]);
            members[group].push(row);
        }
        if let Some(empty) = members.iter().position(Vec::is_empty) {
            return Err(Error::Problem(format!("group {empty} has no training row; expected at least one in each")));
        }
        let sum =
            |(x, y): (&Matrix, &[f64]), rows: &[usize]| LeastSquares::new(x, y, rows.iter().copied(), 1.0 / x.rows() as f64);
        let all: Vec<usize> = (0..validation.0.rows()).collect();
        Ok(GroupWeights {
            outer: sum(validation, &all),
            groups: members.iter().map(|rows| sum(training, rows)).collect(),
            columns,
            outer_set: Arc::new(Bounds::uniform(low, 1.0)?),
            // Larger than the constraint, which is relaxed during a run.
            inner_set: Arc::new(Ball::new(2.0 * radius)?),
            radius,
            rows: [validation.0.rows(), training.0.rows()],
        })
    }
}

/// Values and gradients at the visited point.
struct PointCache {
    /// Value and gradient in y of each group's sum.
    values: Vec<f64>,
    slopes: Vec<f64>,
    /// Buffer for a gradient or a product.
    work: Vec<f64>,
}

impl Bilevel for GroupWeights {
    fn outer_dim(&self) -> usize {
        self.groups.len()
    }
    fn inner_dim(&self) -> usize {
        self.columns
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.outer_set.clone()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.inner_set.clone()
    }
    fn num_constraints(&self) -> usize {
        1
    }
    fn derivatives(&self) -> Derivatives {
        Derivatives::Exact
    }

    fn constraint_values(&self, at: Pair, c: &mut [f64], _: &mut Scratch) -> Result<()> {
        c[0] = 0.5 * (vec::norm_squared(at.y) - self.radius * self.radius);
        Ok(())
    }

    fn constraint_vjp(
        &self,
        at: Pair,
        weights: &[f64],
        _: Option<&mut [f64]>,
        dy: Option<&mut [f64]>,
        _: &mut Scratch,
    ) -> Result<()> {
        dy.into_iter().for_each(|dy| vec::add_scaled(dy, weights[0], at.y));
        Ok(())
    }

    fn constraint_second(
        &self,
        _: Pair,
        b: &[f64],
        weights: &[f64],
        _: &mut [f64],
        dy: &mut [f64],
        _: &mut Scratch,
    ) -> Result<()> {
        vec::add_scaled(dy, weights[0], b);
        Ok(())
    }

    fn scratch(&self) -> Scratch {
        let (groups, columns) = (self.groups.len(), self.columns);
        Scratch::new(PointCache { values: vec![0.0; groups], slopes: vec![0.0; groups * columns], work: vec![0.0; columns] })
    }

    fn visit(&self, at: Pair, scratch: &mut Scratch) -> Result<()> {
        let k = scratch.get::<PointCache>()?;
        let slopes = k.slopes.chunks_exact_mut(self.columns);
        for ((group, value), slope) in self.groups.iter().zip(&mut k.values).zip(slopes) {
            *value = group.gradient(at.y, slope);
        }
        Ok(())
    }

    fn outer_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        let k = scratch.get::<PointCache>()?;
        dx.into_iter().for_each(|dx| dx.fill(0.0));
        Ok(self.outer.gradient(at.y, dy.unwrap_or(&mut k.work)))
    }

    fn inner_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        let k = scratch.get::<PointCache>()?;
        dx.into_iter().for_each(|dx| dx.copy_from_slice(&k.values));
        if let Some(dy) = dy {
            dy.fill(0.0);
            k.slopes.chunks_exact(self.columns).zip(at.x).for_each(|(slope, x)| vec::add_scaled(dy, *x, slope));
        }
        Ok(vec::dot(at.x, &k.values))
    }

    fn outer_second(&self, _: Pair, b: &[f64], weight: f64, _: &mut [f64], dy: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let k = scratch.get::<PointCache>()?;
        self.outer.times(b, &mut k.work);
        vec::add_scaled(dy, weight, &k.work);
        Ok(())
    }

    fn inner_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let k = scratch.get::<PointCache>()?;
        let slopes = k.slopes.chunks_exact(self.columns);
        for (((group, slope), dx), x) in self.groups.iter().zip(slopes).zip(dx).zip(at.x) {
            *dx += weight * vec::dot(b, slope);
            group.times(b, &mut k.work);
            vec::add_scaled(dy, weight * x, &k.work);
        }
        Ok(())
    }

    fn fingerprint(&self) -> String {
        let marks: Vec<f64> = self.groups.iter().chain([&self.outer]).map(|sum| vec::sum(&sum.gram)).collect();
        format!(
            "weights of {} groups, {} and {} rows, {} columns, sums {marks:?}",
            self.groups.len(),
            self.rows[0],
            self.rows[1],
            self.columns
        )
    }
}
