//! Robust hyper-representation: a linear map of the features is learnt so that every linear model which fits the training rows on
//! top of it does well on the validation rows. Where the rows come from is not decided here.

use std::sync::Arc;

use super::least_squares::{LeastSquares, check_rows};
use crate::bilevel::{Bilevel, Derivatives, Pair, Pull};
use crate::math::rng::{Purpose, Rng};
use crate::math::wide::{add_combined, apply, outer_products};
use crate::math::{Matrix, vec};
use crate::oracle::Scratch;
use crate::sets::{Ball, Set};
use crate::{Error, Result};

/// `f = c_1 ||X_1 Lambda u - Y_1||^2` on validation rows and `g = c_2 ||X_2 Lambda u - Y_2||^2` on training rows: the outer variable
/// is Lambda (d x m, row after row), the inner one u.
///
/// With m > d there are many u for each Lambda. Where X_2 has full column rank they all give the same Lambda u, so that the worst
/// of them is finite. f is convex in u, not concave: what is solved are necessary conditions of the inner maximum.
///
/// Only `X^T X`, `X^T Y` and `||Y||^2` of both kinds of rows are kept. A gradient costs `O(d m + d^2)` and a product with second
/// derivatives the same, however many rows there are.
#[derive(Debug, Clone)]
pub struct HyperRepresentation {
    outer: LeastSquares,
    inner: LeastSquares,
    features: usize,
    width: usize,
    start: Vec<f64>,
    outer_set: Arc<dyn Set>,
    inner_set: Arc<dyn Set>,
    /// Rows of validation and of training, for the fingerprint alone.
    rows: [usize; 2],
}

/// How much larger than the start a solution may be.
const ROOM: f64 = 10.0;

impl HyperRepresentation {
    /// From validation and training rows with their targets, and a first Lambda, one row of it for each feature. Both sums of
    /// squares are divided by twice the number of their rows; Lambda stays in the ball of ten times the norm of the first one, u
    /// in that of ten times the larger of 1 and the norm of the least u that solves the inner problem there.
    pub fn new(validation: (&Matrix, &[f64]), training: (&Matrix, &[f64]), start: Vec<f64>) -> Result<Self> {
        let features = training.0.cols();
        if features == 0 {
            return Err(Error::Problem("the training rows have no feature; expected at least one".into()));
        }
        check_rows("validation", validation.0, validation.1, features)?;
        check_rows("training", training.0, training.1, features)?;
        let width = start.len() / features;
        if width == 0 || !start.len().is_multiple_of(features) {
            let wanted = format!("one row for each of the {features} features, all of the same length");
            return Err(Error::Problem(format!("the first Lambda has {} entries; expected {wanted}", start.len())));
        }
        if let Some((i, value)) = vec::first_not_finite(&start) {
            return Err(Error::NotFinite { what: format!("entry {} of the first Lambda", i + 1), value });
        }
        let mean = |(x, y): (&Matrix, &[f64])| LeastSquares::new(x, y, 0..x.rows(), 1.0 / x.rows() as f64);
        let mut problem = HyperRepresentation {
            outer: mean(validation),
            inner: mean(training),
            features,
            width,
            outer_set: Arc::new(Ball::new(ROOM * vec::norm(&start))?),
            inner_set: Arc::new(Ball::new(1.0)?),
            start,
            rows: [validation.0.rows(), training.0.rows()],
        };
        let least = problem.least_solution();
        problem.inner_set = Arc::new(Ball::new(ROOM * vec::norm(&least).max(1.0))?);
        Ok(problem)
    }

    /// Generated data: features are independent standard normal numbers, targets a combination of a fifth of them plus normal
    /// numbers times `noise`; the entries of the first Lambda have variance `1 / m`, so that its rows are about 1 long.
    pub fn synthetic(n1: usize, n2: usize, d: usize, m: usize, noise: f64, seed: u64) -> Result<Self> {
        for (name, value) in [("n1", n1), ("n2", n2), ("d", d), ("m", m)] {
            if value == 0 {
                return Err(Error::setting(name, value, "at least 1"));
            }
        }
        if !(noise >= 0.0 && noise.is_finite()) {
            return Err(Error::setting("noise", noise, "a finite number, 0 or larger"));
        }
        let mut rng = Rng::new(seed, Purpose::Data);
        let mut chosen: Vec<usize> = (0..d).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(d.div_ceil(5));
        let mut truth = vec![0.0; chosen.len()];
        rng.normals(&mut truth);
        let mut rows = |n: usize| -> Result<(Matrix, Vec<f64>)> {
            let (mut x, mut y) = (vec![0.0; n * d], vec![0.0; n]);
            rng.normals(&mut x);
            rng.normals(&mut y);
            for (y, row) in y.iter_mut().zip(x.chunks_exact(d)) {
                *y = noise * *y + chosen.iter().zip(&truth).map(|(j, t)| row[*j] * t).sum::<f64>();
            }
            Ok((Matrix::dense(n, d, x)?, y))
        };
        let (validation, training) = (rows(n1)?, rows(n2)?);
        let mut start = vec![0.0; d * m];
        rng.normals(&mut start);
        vec::scale(&mut start, 1.0 / (m as f64).sqrt());
        HyperRepresentation::new((&validation.0, &validation.1), (&training.0, &training.1), start)
    }

    /// The same with the factors `c_1` and `c_2` before the sums of squares.
    pub fn scaled(mut self, outer: f64, inner: f64) -> Result<Self> {
        for (name, factor, sum, rows) in
            [("c_1", outer, &mut self.outer, self.rows[0]), ("c_2", inner, &mut self.inner, self.rows[1])]
        {
            if !(factor > 0.0 && factor.is_finite()) {
                return Err(Error::setting(name, factor, "a finite number larger than 0"));
            }
            // What is kept now has 1 / (2 rows).
            sum.scale(2.0 * factor * rows as f64);
        }
        Ok(self)
    }

    /// The same with Lambda in the ball of this Frobenius norm.
    pub fn outer_radius(self, radius: f64) -> Result<Self> {
        Ok(HyperRepresentation { outer_set: Arc::new(Ball::new(radius)?), ..self })
    }

    /// The same with u in the ball of this norm.
    pub fn inner_radius(self, radius: f64) -> Result<Self> {
        Ok(HyperRepresentation { inner_set: Arc::new(Ball::new(radius)?), ..self })
    }

    /// The first Lambda.
    pub fn start(&self) -> &[f64] {
        &self.start
    }

    /// The least minimiser of g at the first Lambda: conjugate gradients from 0 never leave the row space.
    fn least_solution(&self) -> Vec<f64> {
        let (d, m) = (self.features, self.width);
        let (mut u, mut residual, mut image) = (vec![0.0; m], vec![0.0; m], vec![0.0; m]);
        let (mut w, mut t) = (vec![0.0; d], vec![0.0; d]);
        self.inner.gradient(&w, &mut t);
        combine(&self.start, &t, &mut residual);
        vec::scale(&mut residual, -1.0);
        let (mut direction, mut square) = (residual.clone(), vec::norm_squared(&residual));
        let enough = 1e-16 * square;
        for _ in 0..2 * d.min(m) {
            if square <= enough {
                break;
            }
            apply(&self.start, &direction, &mut w);
            self.inner.times(&w, &mut t);
            combine(&self.start, &t, &mut image);
            let step = square / vec::dot(&direction, &image);
            if !step.is_finite() {
                break;
            }
            vec::add_scaled(&mut u, step, &direction);
            vec::add_scaled(&mut residual, -step, &image);
            let before = std::mem::replace(&mut square, vec::norm_squared(&residual));
            direction.iter_mut().zip(&residual).for_each(|(p, r)| *p = r + square / before * *p);
        }
        u
    }
}

/// What is known at the visited point.
struct Known {
    /// Lambda u.
    w: Vec<f64>,
    /// f and g as functions of Lambda u, with gradients; `None` until they are asked for.
    f: Option<f64>,
    g: Option<f64>,
    f_w: Vec<f64>,
    g_w: Vec<f64>,
    /// Lambda times another vector, and working space for what becomes of it.
    w_b: Vec<f64>,
    of_hat: Vec<f64>,
    e: Vec<f64>,
    more: Vec<f64>,
}

impl Known {
    fn of_f(&mut self, problem: &HyperRepresentation) -> f64 {
        *self.f.get_or_insert_with(|| problem.outer.gradient(&self.w, &mut self.f_w))
    }

    fn of_g(&mut self, problem: &HyperRepresentation) -> f64 {
        *self.g.get_or_insert_with(|| problem.inner.gradient(&self.w, &mut self.g_w))
    }
}

/// `out = Lambda^T t`.
fn combine(lambda: &[f64], t: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    add_combined(lambda, t, out);
}

/// The only entry that is not 0, if there is only one: a method that steps on one constraint at a time asks for nothing else.
fn only_entry(b: &[f64]) -> Option<(usize, f64)> {
    let mut entries = b.iter().copied().enumerate().filter(|(_, b)| *b != 0.0);
    entries.next().filter(|_| entries.next().is_none())
}

impl Bilevel for HyperRepresentation {
    fn outer_dim(&self) -> usize {
        self.start.len()
    }
    fn inner_dim(&self) -> usize {
        self.width
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.outer_set.clone()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.inner_set.clone()
    }
    fn derivatives(&self) -> Derivatives {
        Derivatives::Exact
    }

    fn scratch(&self) -> Scratch {
        let d = || vec![0.0; self.features];
        Scratch::new(Known { w: d(), f: None, g: None, f_w: d(), g_w: d(), w_b: d(), of_hat: d(), e: d(), more: d() })
    }

    fn visit(&self, at: Pair, scratch: &mut Scratch) -> Result<()> {
        let k = scratch.get::<Known>()?;
        apply(at.x, at.y, &mut k.w);
        (k.f, k.g) = (None, None);
        Ok(())
    }

    fn outer_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        let k = scratch.get::<Known>()?;
        let f = k.of_f(self);
        gradients(at, &k.f_w, dx, dy);
        Ok(f)
    }

    fn inner_grad(&self, at: Pair, dx: Option<&mut [f64]>, dy: Option<&mut [f64]>, scratch: &mut Scratch) -> Result<f64> {
        let k = scratch.get::<Known>()?;
        let g = k.of_g(self);
        gradients(at, &k.g_w, dx, dy);
        Ok(g)
    }

    fn outer_second(
        &self,
        at: Pair,
        b: &[f64],
        weight: f64,
        dx: &mut [f64],
        dy: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let k = scratch.get::<Known>()?;
        k.of_f(self);
        second(&self.outer, at, b, weight, dx, dy, &k.f_w, [&mut k.w_b, &mut k.e]);
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
        let k = scratch.get::<Known>()?;
        k.of_g(self);
        second(&self.inner, at, b, weight, dx, dy, &k.g_w, [&mut k.w_b, &mut k.e]);
        Ok(())
    }

    /// One pass over Lambda.
    fn stationarity(&self, at: Pair, multiplier: f64, c: &mut [f64], _: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let k = scratch.get::<Known>()?;
        k.of_f(self);
        let g = k.of_g(self);
        for ((e, f), g) in k.e.iter_mut().zip(&k.f_w).zip(&k.g_w) {
            *e = multiplier * g - f;
        }
        combine(at.x, &k.e, c);
        Ok(g)
    }

    /// Three passes over Lambda, and one that writes: the gradient in Lambda has rank three.
    fn pull(
        &self,
        at: Pair,
        pull: Pull,
        dx: &mut [f64],
        dy: &mut [f64],
        _: [&mut [f64]; 2],
        scratch: &mut Scratch,
    ) -> Result<f64> {
        let k = scratch.get::<Known>()?;
        let Pull { outer, inner, yhat, b, multiplier } = pull;
        let (m, only) = (self.width, b.and_then(only_entry));
        k.of_g(self);
        let mut along = 0.0;
        k.of_f(self);
        for ((e, f), g) in k.e.iter_mut().zip(&k.f_w).zip(&k.g_w) {
            *e = outer * f + inner * g;
        }
        if let Some(b) = b {
            match only {
                Some((j, b)) => k.w_b.iter_mut().zip(at.x.chunks_exact(m)).for_each(|(w, row)| *w = b * row[j]),
                None => apply(at.x, b, &mut k.w_b),
            }
            along = vec::dot(&k.w_b, &k.g_w);
            self.outer.times(&k.w_b, &mut k.more);
            vec::add_scaled(&mut k.e, -1.0, &k.more);
            self.inner.times(&k.w_b, &mut k.more);
            vec::add_scaled(&mut k.e, multiplier, &k.more);
            for ((more, f), g) in k.more.iter_mut().zip(&k.f_w).zip(&k.g_w) {
                *more = multiplier * g - f;
            }
        } else {
            k.more.fill(0.0);
        }
        if inner != 0.0 {
            apply(at.x, yhat, &mut k.w_b);
            self.inner.gradient(&k.w_b, &mut k.of_hat);
            vec::scale(&mut k.of_hat, -inner);
        }
        combine(at.x, &k.e, dy);
        let (first, last) = ((&*k.e, at.y), (&*k.of_hat, yhat));
        match (b.filter(|_| only.is_none()), inner != 0.0) {
            (Some(b), true) => outer_products(dx, &[first, (&k.more, b), last]),
            (Some(b), false) => outer_products(dx, &[first, (&k.more, b)]),
            (None, true) => outer_products(dx, &[first, last]),
            (None, false) => outer_products(dx, &[first]),
        }
        if let Some((j, b)) = only {
            dx.chunks_exact_mut(m).zip(&k.more).for_each(|(row, of_b)| row[j] += of_b * b);
        }
        Ok(along)
    }

    fn fingerprint(&self) -> String {
        let marks = [&self.outer, &self.inner].map(|sum| vec::sum(&sum.gram));
        format!(
            "hyper-representation, {} and {} rows, Lambda {} x {}, start {:?}, sums {marks:?}",
            self.rows[0],
            self.rows[1],
            self.features,
            self.width,
            vec::norm(&self.start)
        )
    }
}

/// `t u^T` and `Lambda^T t`.
fn gradients(at: Pair, t: &[f64], dx: Option<&mut [f64]>, dy: Option<&mut [f64]>) {
    if let Some(dx) = dx {
        outer_products(dx, &[(t, at.y)]);
    }
    if let Some(dy) = dy {
        combine(at.x, t, dy);
    }
}

/// Adds `weight (t b^T + e u^T)` and `weight Lambda^T e` with `e = gram Lambda b`.
#[allow(clippy::too_many_arguments)] // those of the trait, and two buffers
fn second(
    sum: &LeastSquares,
    at: Pair,
    b: &[f64],
    weight: f64,
    dx: &mut [f64],
    dy: &mut [f64],
    t: &[f64],
    [w_b, e]: [&mut Vec<f64>; 2],
) {
    apply(at.x, b, w_b);
    sum.times(w_b, e);
    vec::scale(e, weight);
    add_combined(at.x, e, dy);
    for ((row, t), e) in dx.chunks_exact_mut(b.len().max(1)).zip(t).zip(&*e) {
        for ((out, b), u) in row.iter_mut().zip(b).zip(at.y) {
            *out += weight * t * b + e * u;
        }
    }
}
