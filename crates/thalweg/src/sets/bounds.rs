//! Boxes: a lower and an upper bound for each coordinate, either of which may be infinite. The non-negative orthant is in
//! `orthant`.

use super::{Set, Warm};
use crate::math::vec;
use crate::{Error, Result};

/// All points between a lower and an upper bound, coordinate by coordinate.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds(Sides);

#[derive(Debug, Clone, PartialEq)]
enum Sides {
    /// The same interval for every coordinate of a space of any dimension.
    Same(f64, f64),
    Each(Vec<f64>, Vec<f64>),
}

impl Bounds {
    /// Uses the same bounds for every coordinate, in a space of any dimension.
    pub fn uniform(lo: f64, hi: f64) -> Result<Self> {
        check_side(lo, hi, || "the box".into())?;
        Ok(Bounds(Sides::Same(lo, hi)))
    }

    /// Uses separate bounds for each coordinate.
    pub fn each(lo: Vec<f64>, hi: Vec<f64>) -> Result<Self> {
        crate::error::check_length("the list of upper bounds", hi.len(), lo.len())?;
        for (i, (&l, &h)) in lo.iter().zip(&hi).enumerate() {
            check_side(l, h, || format!("coordinate {} of the box", i + 1))?;
        }
        Ok(Bounds(Sides::Each(lo, hi)))
    }

    /// Returns the lower and the upper bound of coordinate `i`.
    pub fn side(&self, i: usize) -> (f64, f64) {
        match &self.0 {
            Sides::Same(lo, hi) => (*lo, *hi),
            Sides::Each(lo, hi) => (lo[i], hi[i]),
        }
    }
}

fn check_side(lo: f64, hi: f64, what: impl Fn() -> String) -> Result<()> {
    if lo.is_nan() || lo == f64::INFINITY {
        return Err(Error::setting(format!("lower bound of {}", what()), lo, "a number or -inf"));
    }
    if hi.is_nan() || hi == f64::NEG_INFINITY {
        return Err(Error::setting(format!("upper bound of {}", what()), hi, "a number or inf"));
    }
    if lo > hi {
        let wanted = format!("at most the upper bound {hi}");
        return Err(Error::setting(format!("lower bound of {}", what()), lo, wanted));
    }
    Ok(())
}

/// Clamps without a panic; NaN stays NaN.
#[inline(always)]
fn clip(v: f64, lo: f64, hi: f64) -> f64 {
    let v = if v < lo { lo } else { v };
    if v > hi { hi } else { v }
}

/// Returns the y of an interval that minimises `s * y`; `None` if it is unbounded below.
fn lowest(s: f64, (lo, hi): (f64, f64)) -> Option<f64> {
    let y = if s > 0.0 {
        lo
    } else if s < 0.0 {
        hi
    } else {
        clip(0.0, lo, hi)
    };
    y.is_finite().then_some(y)
}

impl Set for Bounds {
    fn dim(&self) -> Option<usize> {
        match &self.0 {
            Sides::Same(..) => None,
            Sides::Each(lo, _) => Some(lo.len()),
        }
    }

    fn project(&self, x: &mut [f64], _warm: &mut Warm) -> Result<()> {
        super::check_point(self, x.len())?;
        match &self.0 {
            Sides::Same(lo, hi) => x.iter_mut().for_each(|v| *v = clip(*v, *lo, *hi)),
            Sides::Each(lo, hi) => x.iter_mut().zip(lo).zip(hi).for_each(|((v, l), h)| *v = clip(*v, *l, *h)),
        }
        Ok(())
    }

    fn distance(&self, x: &[f64]) -> Result<f64> {
        super::check_point(self, x.len())?;
        let over = |v: f64, (lo, hi): (f64, f64)| if lo <= v && v <= hi { 0.0 } else { v - clip(v, lo, hi) };
        Ok(vec::norm_by(x.len(), |i| over(x[i], self.side(i))))
    }

    fn diameter(&self, dim: usize) -> f64 {
        match &self.0 {
            _ if dim == 0 => 0.0,
            Sides::Same(lo, hi) => (hi - lo) * (dim as f64).sqrt(),
            Sides::Each(lo, hi) => vec::norm_by(lo.len(), |i| hi[i] - lo[i]),
        }
    }

    /// Returns the corner opposite to the slope; the value nearest to zero in coordinates with slope zero.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        for (i, (o, &s)) in out.iter_mut().zip(slope).enumerate() {
            *o = lowest(s, self.side(i))?;
        }
        Some(())
    }

    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        super::separate_coordinates(y, foot, cut);
    }

    fn sides(&self, i: usize) -> Option<(f64, f64)> {
        Some(self.side(i))
    }

    fn describe(&self) -> String {
        match &self.0 {
            Sides::Same(lo, hi) => format!("box from {lo} to {hi}"),
            Sides::Each(lo, _) => format!("box with bounds for each of {} coordinates", lo.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::testing;

    const INF: f64 = f64::INFINITY;

    fn twin(x: &[f64], lo: &[f64], hi: &[f64]) -> Vec<f64> {
        x.iter().zip(lo.iter().zip(hi)).map(|(x, (l, h))| x.clamp(*l, *h)).collect()
    }

    /// Random member; an infinite side is cut 30 beyond the other (or beyond zero).
    fn member(u: &[f64], lo: &[f64], hi: &[f64]) -> Vec<f64> {
        let cut = |l: f64, h: f64| match (l.is_finite(), h.is_finite()) {
            (true, true) => (l, h),
            (true, false) => (l, l + 30.0),
            (false, true) => (h - 30.0, h),
            (false, false) => (-30.0, 30.0),
        };
        u.iter().zip(lo.iter().zip(hi)).map(|(u, (&l, &h))| cut(l, h).0 * (1.0 - u) + cut(l, h).1 * u).collect()
    }

    #[test]
    fn keeps_every_promise_of_a_set() {
        let sides = [
            (vec![-1.0; 4], vec![2.5; 4]),
            (vec![-1.0, 0.0, 3.0, 2.0, -8.0], vec![1.0, 0.0, 4.0, 7.0, -7.5]),
            (vec![-INF, 0.0, -INF, 1.0], vec![1.0, INF, INF, 2.0]),
        ];
        for (lo, hi) in &sides {
            let set = Bounds::each(lo.clone(), hi.clone()).unwrap();
            testing::check_set(&set, lo.len(), |u| member(u, lo, hi), |x| twin(x, lo, hi));
        }
        for (lo, hi) in [(-1.0, 2.5), (-INF, 1.0), (2.0, 2.0)] {
            let (los, his) = (vec![lo; 3], vec![hi; 3]);
            let set = Bounds::uniform(lo, hi).unwrap();
            testing::check_set(&set, 3, |u| member(u, &los, &his), |x| twin(x, &los, &his));
        }
    }

    #[test]
    fn infinite_sides_have_no_corner() {
        let set = Bounds::each(vec![-INF, 1.0], vec![2.0, INF]).unwrap();
        let mut out = [0.0; 2];
        assert_eq!(set.linear_minimizer(&[-1.0, 1.0], &mut out), Some(()));
        assert_eq!(out, [2.0, 1.0]);
        assert_eq!(set.linear_minimizer(&[0.0, 0.0], &mut out), Some(()));
        assert_eq!(out, [0.0, 1.0]);
        assert_eq!(set.linear_minimizer(&[1.0, 1.0], &mut out), None);
        assert_eq!(set.linear_minimizer(&[-1.0, -1.0], &mut out), None);
        assert_eq!(set.diameter(2), INF);
        assert_eq!(Bounds::uniform(0.0, INF).unwrap().diameter(0), 0.0);
        assert_eq!(Bounds::uniform(-1.0, 1.0).unwrap().diameter(9), 6.0);
    }

    #[test]
    fn nan_stays_and_infinity_is_clipped() {
        let mut x = [f64::NAN, INF, -INF];
        let set = Bounds::uniform(-1.0, 2.0).unwrap();
        assert!(set.distance(&x).unwrap().is_nan());
        set.project(&mut x, &mut Warm::default()).unwrap();
        assert!(x[0].is_nan());
        assert_eq!(x[1..], [2.0, -1.0]);
        assert_eq!(Bounds::uniform(-INF, INF).unwrap().distance(&[INF, -INF]).unwrap(), 0.0);
    }

    #[test]
    fn bad_arguments_are_refused_with_a_sentence() {
        let refuse = |lo, hi| Bounds::uniform(lo, hi).unwrap_err().to_string();
        assert_eq!(refuse(2.0, 1.0), "lower bound of the box must be at most the upper bound 1, got 2");
        assert_eq!(refuse(f64::NAN, 1.0), "lower bound of the box must be a number or -inf, got NaN");
        assert_eq!(refuse(INF, INF), "lower bound of the box must be a number or -inf, got inf");
        assert_eq!(refuse(0.0, -INF), "upper bound of the box must be a number or inf, got -inf");
        let each = Bounds::each(vec![0.0, 3.0], vec![1.0, 2.0]).unwrap_err().to_string();
        assert_eq!(each, "lower bound of coordinate 2 of the box must be at most the upper bound 2, got 3");
        let length = Bounds::each(vec![0.0, 3.0], vec![1.0]).unwrap_err().to_string();
        assert_eq!(length, "the list of upper bounds has 1 entries; expected 2");
        let set = Bounds::each(vec![0.0; 3], vec![1.0; 3]).unwrap();
        let length = set.project(&mut [0.0; 2], &mut Warm::default()).unwrap_err().to_string();
        assert_eq!(length, "the point for the box with bounds for each of 3 coordinates has 2 entries; expected 3");
        assert_eq!(Bounds::uniform(0.0, INF).unwrap().describe(), "box from 0 to inf");
    }
}
