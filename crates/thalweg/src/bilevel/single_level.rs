//! Single-level reformulation of a bilevel problem: the inner maximum by its KKT conditions, the inner minimum by its value
//! function. Choosing a solver is done elsewhere.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{Bilevel, Pair, Pull};
use crate::error::check_finite;
use crate::math::rng::{Purpose, Rng};
use crate::math::vec;
use crate::oracle::{At, Description, Modulus, Pick, Scratch, Source, Structure, Subgradients, Values, Warm};
use crate::sets::{Bounds, Product, Set};
use crate::{Error, Result};

/// Gradient steps on the inner problem at each visited point. In TOML a number, or "adaptive".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InnerSteps {
    /// As many as the requested accuracy of the value function requires.
    #[default]
    Adaptive,
    /// A fixed number, N in the paper.
    Fixed(u64),
}

impl Serialize for InnerSteps {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match *self {
            InnerSteps::Adaptive => serializer.serialize_str("adaptive"),
            InnerSteps::Fixed(steps) => serializer.serialize_u64(steps),
        }
    }
}

impl<'de> Deserialize<'de> for InnerSteps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct NumberOrWord;
        impl Visitor<'_> for NumberOrWord {
            type Value = InnerSteps;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number of at least 1, or \"adaptive\"")
            }
            fn visit_u64<E: de::Error>(self, steps: u64) -> std::result::Result<InnerSteps, E> {
                Ok(InnerSteps::Fixed(steps))
            }
            fn visit_i64<E: de::Error>(self, steps: i64) -> std::result::Result<InnerSteps, E> {
                u64::try_from(steps).map(InnerSteps::Fixed).map_err(|_| E::invalid_value(de::Unexpected::Signed(steps), &self))
            }
            fn visit_str<E: de::Error>(self, word: &str) -> std::result::Result<InnerSteps, E> {
                if word == "adaptive" {
                    Ok(InnerSteps::Adaptive)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(word), &self))
                }
            }
        }
        deserializer.deserialize_any(NumberOrWord)
    }
}

/// Settings of the single-level reformulation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Form {
    /// Regularisation alpha of the inner problem: its value function is that of `g + (alpha / 2) ||y||^2`. Default 0.01.
    pub alpha: f64,
    /// Slack xi: inner solutions are all y with `g <= g*_alpha + xi`, and `C_i <= xi`. Default 0.01.
    pub xi: f64,
    /// Upper bound of the multipliers of the inner maximum; Delta_f / xi in the paper. If absent, ten times the largest at the
    /// start, and at least 10 ([`super::prepare`]); without a start, 10.
    pub multiplier_bound: Option<f64>,
    /// Unit of the multipliers: the variables are multipliers divided by this. Large multipliers require long steps for any
    /// change of x, which proximal terms would prevent. If absent, the largest at the start, and at least 1; without a start,
    /// 1, as published.
    pub multiplier_unit: Option<f64>,
    /// Steps on the inner problem at each point: a number, or "adaptive". Default "adaptive".
    pub inner_steps: InnerSteps,
    /// Accuracy of the value function with adaptive steps. If absent, a thousandth of xi.
    pub inner_accuracy: Option<f64>,
    /// Limit on adaptive steps; a run that exceeds it ends. Default 100,000.
    pub inner_limit: u64,
    /// Whether to use the best inner solution instead of the worst, without the rows and multipliers of the maximum. Default
    /// false.
    pub optimistic: bool,
}

impl Default for Form {
    fn default() -> Self {
        Form {
            alpha: 0.01,
            xi: 0.01,
            multiplier_bound: None,
            multiplier_unit: None,
            inner_steps: InnerSteps::Adaptive,
            inner_accuracy: None,
            inner_limit: 100_000,
            optimistic: false,
        }
    }
}

impl Form {
    /// Checks that every setting is in range.
    pub fn validate(&self) -> Result<()> {
        let given = [
            ("alpha", Some(self.alpha)),
            ("xi", Some(self.xi)),
            ("multiplier_bound", self.multiplier_bound),
            ("multiplier_unit", self.multiplier_unit),
            ("inner_accuracy", self.inner_accuracy),
        ];
        for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::setting(name, value, "a finite number larger than 0"));
            }
        }
        if self.inner_steps == InnerSteps::Fixed(0) {
            return Err(Error::setting("inner_steps", 0, "at least 1, or \"adaptive\""));
        }
        if self.inner_limit == 0 {
            return Err(Error::setting("inner_limit", 0, "at least 1"));
        }
        Ok(())
    }

    fn accuracy(&self) -> f64 {
        self.inner_accuracy.unwrap_or(1e-3 * self.xi)
    }

    /// Returns the upper bound of the multipliers and their unit.
    pub fn multipliers(&self) -> (f64, f64) {
        (self.multiplier_bound.unwrap_or(10.0), self.multiplier_unit.unwrap_or(1.0))
    }
}

/// Single-level reformulation (eq. 6 of Guan, Sow, Lin & Liang) of a [`Bilevel`] problem.
///
/// Variables are `z = (x, y, w, v)` in `X x Y x [0, bound]^(r + 1)`, the multipliers in a unit of their own, w for the
/// constraints C_i and v for the inner problem. With `s = g(x, y) - g*_alpha(x) - xi` and `c = -grad_y f + sum_i w_i
/// grad_y C_i + v grad_y g`, the constraints are, in this order, `C_i - xi`, `s`, `c`, `-c`, `w_i (C_i - xi)` and its negative
/// for each i, `v s` and `-v s`: q = 3 r + 2 m + 3 rows, each `<= 0`. An equality is two rows, so that no point satisfies all
/// of them strictly; solvers that relax them, such as [`crate::solvers::Adaprox`], are suitable.
///
/// The value function `g*_alpha(x) = min_y g + (alpha / 2) ||y||^2` is computed by gradient descent from the result of the last
/// visit: `yhat -= 2 / (L + 2 alpha) (grad_y g(x, yhat) + alpha yhat)`; `g(x, yhat) + (alpha / 2) ||yhat||^2` exceeds it by at
/// most `||gradient||^2 / (2 alpha)`, the stopping criterion of adaptive steps. Jacobian products require two products with
/// second derivatives and no matrix.
pub struct SingleLevel {
    problem: Arc<dyn Bilevel>,
    form: Form,
    domain: Product,
    /// Unit of the multipliers.
    unit: f64,
    /// Amount subtracted from every row.
    relaxed: f64,
}

/// Buffers of one evaluation.
struct Buffers {
    problem: Scratch,
    /// Gradient of g in y, and `sum_i w_i grad_y C_i`.
    g_y: Vec<f64>,
    c_y: Vec<f64>,
    /// C_i - xi, and weights of them.
    c: Vec<f64>,
    weights: Vec<f64>,
    /// Values and weights of all rows, and the b of second derivatives.
    rows: Vec<f64>,
    lam: Vec<f64>,
    b: Vec<f64>,
    /// Multipliers in their original unit.
    w: Vec<f64>,
    /// Gradient in x that is subtracted or discarded.
    x: Vec<f64>,
    /// Products with second derivatives since the last count.
    products: u64,
}

/// Returns the error of an inner problem whose squared gradient is not small enough after the largest number of steps.
fn not_converged(limit: u64, squared: f64, small: f64) -> Error {
    Error::Problem(format!(
        "the inner problem has not converged: after {limit} gradient steps its gradient is {:.3e} long, wanted at most {:.3e}; a larger \
         alpha or inner_accuracy needs fewer",
        squared.sqrt(),
        small.sqrt()
    ))
}

/// Layout of the value function's state in the memory of a run: yhat, then the smoothness constant and the value.
const SMOOTHNESS: usize = 0;
const VALUE: usize = 1;

impl SingleLevel {
    /// Reformulates a problem.
    pub fn new(problem: Arc<dyn Bilevel>, form: Form) -> Result<Self> {
        form.validate()?;
        let (bound, unit) = form.multipliers();
        let (n, m, r) = (problem.outer_dim(), problem.inner_dim(), problem.num_constraints());
        for (what, dim) in [("outer", n), ("inner", m)] {
            if dim == 0 {
                return Err(Error::Problem(format!("the bilevel problem has no {what} variable; expected at least one")));
            }
        }
        let mut blocks: Vec<(usize, Box<dyn Set>)> = vec![(n, Box::new(problem.outer_set())), (m, Box::new(problem.inner_set()))];
        if !form.optimistic {
            blocks.push((r + 1, Box::new(Bounds::uniform(0.0, bound / unit)?)));
        }
        Ok(SingleLevel { domain: Product::new(blocks)?, problem, form, unit, relaxed: 0.0 })
    }

    /// Relaxes every row by `beta`. Only a relaxation can be certified, since the rows themselves have no interior.
    pub fn relaxed(self, beta: f64) -> Self {
        SingleLevel { relaxed: beta, ..self }
    }

    /// Returns the bilevel problem.
    pub fn problem(&self) -> &Arc<dyn Bilevel> {
        &self.problem
    }

    /// Returns the settings of the reformulation.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Returns the outer and the inner part of z.
    pub fn pair<'a>(&self, z: &'a [f64]) -> Pair<'a> {
        let (x, rest) = z.split_at(self.problem.outer_dim());
        Pair { x, y: &rest[..self.problem.inner_dim()] }
    }

    /// Returns the multipliers in z, those of the constraints C_i first.
    pub fn inner_multipliers(&self, z: &[f64]) -> Vec<f64> {
        z[self.problem.outer_dim() + self.problem.inner_dim()..].iter().map(|w| self.unit * w).collect()
    }

    /// Returns the value of the inner problem at the last visited x, from the memory of the run.
    pub fn inner_value(&self, warm: &Warm) -> Option<f64> {
        warm.parts.first().and_then(|part| part.values.get(VALUE)).copied()
    }

    /// Returns `L` for this x: the problem's constant, or 1.05 times the result of a power iteration.
    fn smoothness(&self, at: Pair, b: &mut Buffers) -> Result<f64> {
        if let Some(known) = self.problem.inner_smoothness(at.x) {
            return Ok(known);
        }
        let mut rng = Rng::new(0, Purpose::Directions);
        let mut direction = vec![0.0; at.y.len()];
        rng.normals(&mut direction);
        let mut found = 0.0;
        for _ in 0..30 {
            let length = vec::norm(&direction);
            if !(length > 0.0 && length.is_finite()) {
                break;
            }
            vec::scale(&mut direction, 1.0 / length);
            b.b.copy_from_slice(&direction);
            direction.fill(0.0);
            self.problem.inner_second(at, &b.b, 1.0, &mut b.x, &mut direction, &mut b.problem)?;
            b.products += 1;
            found = vec::norm(&direction);
        }
        b.x.fill(0.0);
        check_finite("the smoothness of the inner problem", found)?;
        Ok(1.05 * found)
    }

    /// Minimises `g + (alpha / 2) ||y||^2` at x starting from `yhat`, and stores the smoothness constant and the value.
    fn descend(&self, x: &[f64], yhat: &mut [f64], found: &mut [f64], b: &mut Buffers) -> Result<u64> {
        if self.problem.inner_set_binds() {
            return self.descend_within(x, yhat, found, b);
        }
        let Form { alpha, inner_steps, inner_limit, .. } = self.form;
        let (limit, small) = match inner_steps {
            InnerSteps::Fixed(n) => (n, 0.0),
            InnerSteps::Adaptive => (inner_limit, 2.0 * alpha * self.form.accuracy()),
        };
        let (mut steps, mut before) = (0, f64::INFINITY);
        loop {
            let at = Pair { x, y: yhat };
            self.problem.visit(at, &mut b.problem)?;
            // Skips the last gradient if it is not used.
            let last = steps >= limit && small == 0.0;
            let g = self.problem.inner_grad(at, None, (!last).then_some(&mut b.g_y), &mut b.problem)?;
            check_finite("the inner objective", g)?;
            found[VALUE] = g + 0.5 * alpha * vec::norm_squared(yhat);
            if last {
                return Ok(steps);
            }
            vec::add_scaled(&mut b.g_y, alpha, yhat);
            if let Some((i, value)) = vec::first_not_finite(&b.g_y) {
                return Err(Error::NotFinite { what: format!("entry {} of the inner gradient", i + 1), value });
            }
            let squared = vec::norm_squared(&b.g_y);
            if squared <= small {
                return Ok(steps.max(1));
            }
            if steps >= limit {
                return Err(not_converged(limit, squared, small));
            }
            // If L is large enough, gradients of a convex function never grow; the first one has no predecessor.
            if squared > before * (1.0 + 1e-9) || found[SMOOTHNESS].is_nan() {
                let first = found[SMOOTHNESS].is_nan();
                let gradient = std::mem::take(&mut b.g_y);
                let estimate = self.smoothness(Pair { x, y: yhat }, b);
                b.g_y = gradient;
                let larger = if first { 0.0 } else { 2.0 * found[SMOOTHNESS] };
                found[SMOOTHNESS] = estimate?.max(larger);
                check_finite("the smoothness of the inner problem", found[SMOOTHNESS])?;
            }
            before = squared;
            vec::add_scaled(yhat, -2.0 / (found[SMOOTHNESS] + 2.0 * alpha), &b.g_y);
            steps += 1;
        }
    }

    /// The same by projected steps, for a follower that is confined to Y. The length of a step, divided by its size, takes the place of
    /// the gradient.
    fn descend_within(&self, x: &[f64], yhat: &mut [f64], found: &mut [f64], b: &mut Buffers) -> Result<u64> {
        let Form { alpha, inner_steps, inner_limit, .. } = self.form;
        let (limit, small) = match inner_steps {
            InnerSteps::Fixed(n) => (n, 0.0),
            InnerSteps::Adaptive => (inner_limit, 2.0 * alpha * self.form.accuracy()),
        };
        let (set, mut warm) = (self.problem.inner_set(), Warm::default());
        set.project(yhat, &mut warm)?;
        if found[SMOOTHNESS].is_nan() {
            found[SMOOTHNESS] = self.smoothness(Pair { x, y: yhat }, b)?;
        }
        let step = 1.0 / (found[SMOOTHNESS] + alpha);
        let mut next = yhat.to_vec();
        for steps in 0..=limit {
            let at = Pair { x, y: yhat };
            self.problem.visit(at, &mut b.problem)?;
            let g = self.problem.inner_grad(at, None, Some(&mut b.g_y), &mut b.problem)?;
            check_finite("the inner objective", g)?;
            found[VALUE] = g + 0.5 * alpha * vec::norm_squared(yhat);
            next.copy_from_slice(yhat);
            vec::add_scaled(&mut next, -step * alpha, yhat);
            vec::add_scaled(&mut next, -step, &b.g_y);
            set.project(&mut next, &mut warm)?;
            let squared = (vec::distance(&next, yhat) / step).powi(2);
            if squared <= small || steps == limit {
                return if small > 0.0 && squared > small { Err(not_converged(limit, squared, small)) } else { Ok(steps.max(1)) };
            }
            yhat.copy_from_slice(&next);
        }
        Ok(limit)
    }

    fn count(&self) -> (usize, usize) {
        (self.problem.inner_dim(), self.problem.num_constraints())
    }

    /// Computes all rows into `b.rows`; visits (x, y). `g*_alpha` comes from `warm`.
    fn rows(&self, at: At, b: &mut Buffers) -> Result<()> {
        let (m, r) = self.count();
        let pair = self.pair(at.x);
        let Some(value) = self.inner_value(at.warm) else {
            return Err(Error::Oracle(
                "the inner problem was not brought up to date at this point; expected a refresh before".into(),
            ));
        };
        self.problem.visit(pair, &mut b.problem)?;
        self.problem.constraint_values(pair, &mut b.c, &mut b.problem)?;
        b.c.iter_mut().for_each(|c| *c -= self.form.xi);
        b.rows[..r].copy_from_slice(&b.c);
        if self.form.optimistic {
            b.rows[r] = self.problem.inner(pair, &mut b.problem)? - value - self.form.xi;
            return Ok(());
        }
        let multipliers = &at.x[pair.x.len() + m..];
        b.w.iter_mut().zip(multipliers).for_each(|(w, z)| *w = self.unit * z);
        let (w, v) = b.w.split_at(r);
        let (plus, rest) = b.rows[r + 1..].split_at_mut(m);
        let (minus, products) = rest.split_at_mut(m);
        let s = self.problem.stationarity(pair, v[0], plus, &mut b.g_y, &mut b.problem)? - value - self.form.xi;
        if r > 0 {
            b.c_y.fill(0.0);
            self.problem.constraint_vjp(pair, w, None, Some(&mut b.c_y), &mut b.problem)?;
            vec::add_scaled(plus, 1.0, &b.c_y);
        }
        minus.iter_mut().zip(plus).for_each(|(minus, plus)| *minus = -*plus);
        let factors = w.iter().zip(&b.c).map(|(w, c)| w * c).chain([v[0] * s]);
        for (pair, product) in products.chunks_mut(2).zip(factors) {
            pair.copy_from_slice(&[product, -product]);
        }
        b.rows[r] = s;
        Ok(())
    }

    /// Computes `grad = outer grad f + J^T lam` after [`SingleLevel::rows`] at the same point.
    fn pull(&self, at: At, outer: f64, b: &mut Buffers, grad: &mut [f64]) -> Result<()> {
        let (m, r) = self.count();
        let pair = self.pair(at.x);
        let (dx, rest) = grad.split_at_mut(pair.x.len());
        let (dy, dw) = rest.split_at_mut(m);
        dw.fill(0.0);
        let (mut inner, s, mut multiplier) = (b.lam[r], b.rows[r], 0.0);
        b.weights.copy_from_slice(&b.lam[..r]);
        let (mut curved, mut w) = (false, [].as_slice());
        if !self.form.optimistic {
            let v;
            (w, v) = b.w.split_at(r);
            multiplier = v[0];
            let (c, products) = b.lam[r + 1..].split_at(2 * m);
            let (plus, minus) = c.split_at(m);
            for ((b, plus), minus) in b.b.iter_mut().zip(plus).zip(minus) {
                *b = plus - minus;
            }
            curved = b.b.iter().any(|b| *b != 0.0);
            for (i, pair) in products.chunks(2).enumerate() {
                // A = l + w (l4 - l5), and (l4 - l5) times the constraint for its multiplier.
                let net = pair[0] - pair[1];
                if i < r {
                    b.weights[i] += w[i] * net;
                    dw[i] += net * b.c[i];
                } else {
                    inner += multiplier * net;
                    dw[i] += net * s;
                }
            }
        }
        let what = Pull { outer, inner, yhat: &at.warm.values, b: curved.then_some(&b.b), multiplier };
        let along = self.problem.pull(pair, what, dx, dy, [&mut b.x, &mut b.g_y], &mut b.problem)?;
        b.products += if curved { 2 } else { 0 };
        if curved {
            dw[r] += along;
        }
        if r > 0 {
            self.problem.visit(pair, &mut b.problem)?;
            if b.weights.iter().any(|w| *w != 0.0) {
                self.problem.constraint_vjp(pair, &b.weights, Some(dx), Some(dy), &mut b.problem)?;
            }
            if curved {
                self.problem.constraint_second(pair, &b.b, w, dx, dy, &mut b.problem)?;
                b.products += 1;
                // b . grad_y C_i, one constraint after the other.
                for (i, dw) in dw.iter_mut().enumerate().take(r) {
                    b.weights.fill(0.0);
                    b.weights[i] = 1.0;
                    b.c_y.fill(0.0);
                    self.problem.constraint_vjp(pair, &b.weights, None, Some(&mut b.c_y), &mut b.problem)?;
                    *dw += vec::dot(&b.b, &b.c_y);
                }
            }
        }
        vec::scale(dw, self.unit);
        Ok(())
    }
}

impl Description for SingleLevel {
    fn dim(&self) -> usize {
        let more = if self.form.optimistic { 0 } else { self.problem.num_constraints() + 1 };
        self.problem.outer_dim() + self.problem.inner_dim() + more
    }

    fn num_constraints(&self) -> usize {
        let (m, r) = self.count();
        if self.form.optimistic { r + 1 } else { 3 * r + 2 * m + 3 }
    }

    fn constraint_name(&self, j: usize) -> Cow<'_, str> {
        let (m, r) = self.count();
        let number = |i: usize, of: usize| if of == 1 { String::new() } else { format!(" {}", i + 1) };
        Cow::Owned(if j < r {
            format!("constraint{}", number(j, r))
        } else if j == r {
            "inner value".into()
        } else if j < r + 1 + m {
            format!("stationarity in y{}", number(j - r - 1, m))
        } else if j < r + 1 + 2 * m {
            format!("minus stationarity in y{}", number(j - r - 1 - m, m))
        } else {
            let (k, sign) = ((j - r - 1 - 2 * m) / 2, if (j - r - 1).is_multiple_of(2) { "" } else { "minus " });
            let of = if k < r { format!("constraint{}", number(k, r)) } else { "inner value".into() };
            format!("{sign}complementarity of the {of}")
        })
    }

    fn domain(&self) -> &dyn Set {
        &self.domain
    }

    /// Unknown; solvers that estimate it may start with 0.
    fn objective_modulus(&self) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Estimated })
    }

    fn constraint_modulus(&self, _: usize) -> Option<Modulus> {
        Some(Modulus { value: 0.0, source: Source::Estimated })
    }

    fn structure(&self) -> &dyn Structure {
        self
    }

    fn fingerprint(&self) -> String {
        format!("{}, {:?}, relaxed by {}, domain {}", self.problem.fingerprint(), self.form, self.relaxed, self.domain.describe())
    }
}

impl Structure for SingleLevel {
    fn bilevel(&self) -> Option<&dyn Bilevel> {
        Some(&*self.problem)
    }
}

impl Values for SingleLevel {
    fn scratch(&self) -> Scratch {
        let (m, r) = self.count();
        let q = self.num_constraints();
        Scratch::new(Buffers {
            problem: self.problem.scratch(),
            g_y: vec![0.0; m],
            c_y: vec![0.0; m],
            c: vec![0.0; r],
            weights: vec![0.0; r],
            rows: vec![0.0; q],
            lam: vec![0.0; q],
            b: vec![0.0; m],
            w: vec![0.0; if self.form.optimistic { 0 } else { r + 1 }],
            x: vec![0.0; self.problem.outer_dim()],
            products: 0,
        })
    }

    fn refresh(&self, z: &[f64], warm: &mut Warm, scratch: &mut Scratch) -> Result<u64> {
        let pair = self.pair(z);
        let b = scratch.get::<Buffers>()?;
        if warm.values.len() != pair.y.len() {
            warm.values.clear();
            warm.values.resize(pair.y.len(), 0.0);
            warm.parts(1)[0].values = vec![f64::NAN, f64::NAN];
        }
        let Warm { values: yhat, parts } = warm;
        let Some(found) = parts.first_mut() else { return Ok(0) };
        let steps = self.descend(pair.x, yhat, &mut found.values, b)?;
        let inner_set = self.problem.inner_set();
        let away = inner_set.distance(yhat)?;
        if away > 1e-6 * (1.0 + vec::norm(yhat)) {
            return Err(Error::Problem(format!(
                "the solution of the inner problem lies {away:.3e} outside Y ({}); expected a set with every inner solution inside",
                inner_set.describe()
            )));
        }
        Ok(steps)
    }

    fn objective(&self, at: At, scratch: &mut Scratch) -> Result<f64> {
        let b = scratch.get::<Buffers>()?;
        let pair = self.pair(at.x);
        self.problem.visit(pair, &mut b.problem)?;
        self.problem.outer(pair, &mut b.problem)
    }

    fn constraint_values(&self, at: At, which: Pick, g: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        let b = scratch.get::<Buffers>()?;
        self.rows(at, b)?;
        which.each(b.rows.len(), |k, j| g[k] = b.rows[j] - self.relaxed);
        Ok(())
    }

    fn extra_counts(&self, scratch: &mut Scratch, counts: &mut BTreeMap<String, u64>) -> Result<()> {
        let products = std::mem::take(&mut scratch.get::<Buffers>()?.products);
        if products > 0 {
            match counts.get_mut(PRODUCTS) {
                Some(count) => *count += products,
                None => drop(counts.insert(PRODUCTS.into(), products)),
            }
        }
        Ok(())
    }
}

/// Name of the counter of products with second derivatives.
const PRODUCTS: &str = "products with second derivatives";

impl Subgradients for SingleLevel {
    fn objective_grad(&self, at: At, grad: &mut [f64], scratch: &mut Scratch) -> Result<f64> {
        let b = scratch.get::<Buffers>()?;
        let pair = self.pair(at.x);
        let (dx, rest) = grad.split_at_mut(pair.x.len());
        let (dy, multipliers) = rest.split_at_mut(pair.y.len());
        multipliers.fill(0.0);
        self.problem.visit(pair, &mut b.problem)?;
        self.problem.outer_grad(pair, Some(dx), Some(dy), &mut b.problem)
    }

    fn constraint_vjp(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let b = scratch.get::<Buffers>()?;
        self.rows(at, b)?;
        g.iter_mut().zip(&b.rows).for_each(|(g, row)| *g = row - self.relaxed);
        b.lam.fill(0.0);
        weigh(g, &mut b.lam);
        if b.lam.iter().any(|l| *l != 0.0) {
            self.pull(at, 0.0, b, grad)?;
        }
        Ok(())
    }

    fn lagrangian(
        &self,
        at: At,
        g: &mut [f64],
        weigh: &mut dyn FnMut(&[f64], &mut [f64]),
        grad: &mut [f64],
        _: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<f64> {
        let b = scratch.get::<Buffers>()?;
        self.rows(at, b)?;
        g.iter_mut().zip(&b.rows).for_each(|(g, row)| *g = row - self.relaxed);
        b.lam.fill(0.0);
        weigh(g, &mut b.lam);
        let f = self.problem.outer(self.pair(at.x), &mut b.problem)?;
        self.pull(at, 1.0, b, grad)?;
        Ok(f)
    }
}
