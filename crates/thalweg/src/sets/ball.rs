//! The Euclidean ball around the origin or a given centre. Balls of other norms do not belong here.

use super::{Set, Warm};
use crate::error::check_finite;
use crate::math::vec;
use crate::{Error, Result};

/// All points within `radius` of the centre.
#[derive(Debug, Clone, PartialEq)]
pub struct Ball {
    radius: f64,
    /// `None` for the origin of a space of any dimension.
    centre: Option<Vec<f64>>,
}

impl Ball {
    /// Builds the ball around the origin of a space of any dimension. A radius of 0 gives the origin alone.
    pub fn new(radius: f64) -> Result<Self> {
        Ok(Ball { radius: check_radius(radius)?, centre: None })
    }

    /// Builds the ball around `centre`.
    pub fn around(centre: Vec<f64>, radius: f64) -> Result<Self> {
        if let Some((i, v)) = vec::first_not_finite(&centre) {
            check_finite(&format!("coordinate {} of the centre of the ball", i + 1), v)?;
        }
        Ok(Ball { radius: check_radius(radius)?, centre: Some(centre) })
    }

    /// Returns the radius.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Returns the centre; `None` for the origin.
    pub fn centre(&self) -> Option<&[f64]> {
        self.centre.as_deref()
    }

    fn off_centre(&self, x: &[f64]) -> f64 {
        match &self.centre {
            None => vec::norm(x),
            Some(c) => vec::norm_by(c.len(), |i| x[i] - c[i]),
        }
    }
}

fn check_radius(radius: f64) -> Result<f64> {
    if radius >= 0.0 && radius.is_finite() {
        Ok(radius)
    } else {
        Err(Error::setting("radius of the ball", radius, "a finite number, 0 or larger"))
    }
}

impl Set for Ball {
    fn dim(&self) -> Option<usize> {
        self.centre.as_ref().map(Vec::len)
    }

    fn project(&self, x: &mut [f64], _warm: &mut Warm) -> Result<()> {
        super::check_point(self, x.len())?;
        let far = self.off_centre(x);
        // The centre and NaN both fail the comparison and stay unchanged.
        if far > self.radius {
            let shrink = self.radius / far;
            match &self.centre {
                None => vec::scale(x, shrink),
                Some(c) => x.iter_mut().zip(c).for_each(|(x, c)| *x = c + (*x - c) * shrink),
            }
        }
        Ok(())
    }

    fn distance(&self, x: &[f64]) -> Result<f64> {
        super::check_point(self, x.len())?;
        let over = self.off_centre(x) - self.radius;
        Ok(if over < 0.0 { 0.0 } else { over })
    }

    fn diameter(&self, dim: usize) -> f64 {
        if dim == 0 { 0.0 } else { 2.0 * self.radius }
    }

    /// Returns the boundary point opposite to the slope; the centre for a slope of zero.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        match &self.centre {
            None => out.fill(0.0),
            Some(c) => out.copy_from_slice(c),
        }
        let length = vec::norm(slope);
        if length > 0.0 {
            // Divide before multiplying: radius / length overflows for a tiny slope.
            out.iter_mut().zip(slope).for_each(|(o, s)| *o -= self.radius * (s / length));
        }
        length.is_finite().then_some(())
    }

    fn ball_around_origin(&self) -> Option<f64> {
        self.centre.is_none().then_some(self.radius)
    }

    fn describe(&self) -> String {
        match &self.centre {
            None => format!("ball of radius {}", self.radius),
            Some(c) if c.iter().all(|&v| v == 0.0) => format!("ball of radius {}", self.radius),
            Some(_) => format!("ball of radius {} around a given centre", self.radius),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::testing;

    /// Random member: a corner of the cube pulled to the sphere, then inwards by the first draw.
    fn member(u: &[f64], centre: &[f64], radius: f64) -> Vec<f64> {
        let d: Vec<f64> = u.iter().map(|u| u - 0.5).collect();
        let length = d.iter().map(|d| d * d).sum::<f64>().sqrt().max(1e-9);
        centre.iter().zip(&d).map(|(c, d)| c + radius * u[0].sqrt() * d / length).collect()
    }

    /// By the definition: the nearest point of a ball lies on the segment to the centre.
    fn twin(x: &[f64], centre: &[f64], radius: f64) -> Vec<f64> {
        let far = x.iter().zip(centre).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
        let t = if far == 0.0 { 1.0 } else { (radius / far).min(1.0) };
        x.iter().zip(centre).map(|(x, c)| (1.0 - t) * c + t * x).collect()
    }

    #[test]
    fn keeps_every_promise_of_a_set() {
        let origin = [0.0; 5];
        let ball = Ball::new(3.0).unwrap();
        testing::check_set(&ball, 5, |u| member(u, &origin, 3.0), |x| twin(x, &origin, 3.0));
        let centre = [1.0, -2.0, 0.5];
        let ball = Ball::around(centre.to_vec(), 4.5).unwrap();
        testing::check_set(&ball, 3, |u| member(u, &centre, 4.5), |x| twin(x, &centre, 4.5));
        let point = Ball::around(centre.to_vec(), 0.0).unwrap();
        testing::check_set(&point, 3, |_| centre.to_vec(), |_| centre.to_vec());
    }

    #[test]
    fn extremes_are_projected() {
        let mut warm = Warm::default();
        let ball = Ball::new(5.0).unwrap();
        let mut x = [0.0, 0.0];
        ball.project(&mut x, &mut warm).unwrap();
        assert_eq!(x, [0.0, 0.0]);
        let mut x = [3e200, 4e200];
        ball.project(&mut x, &mut warm).unwrap();
        assert!((x[0] - 3.0).abs() < 1e-14 && (x[1] - 4.0).abs() < 1e-14, "{x:?}");
        let mut x = [3e200, 4e200 + 1.0];
        Ball::around(vec![0.0, 1.0], 5.0).unwrap().project(&mut x, &mut warm).unwrap();
        assert!((x[0] - 3.0).abs() < 1e-14 && (x[1] - 5.0).abs() < 1e-14, "{x:?}");
        for ball in [Ball::new(1.0).unwrap(), Ball::around(vec![1.0, 1.0], 0.5).unwrap()] {
            let mut x = [f64::NAN, 7.0];
            ball.project(&mut x, &mut warm).unwrap();
            assert!(x[0].is_nan());
            assert!(ball.distance(&x).unwrap().is_nan());
        }
    }

    #[test]
    fn minimiser_of_a_tiny_slope_lies_on_the_sphere() {
        let mut out = [0.0; 2];
        Ball::new(10.0).unwrap().linear_minimizer(&[3e-310, -4e-310], &mut out).unwrap();
        assert!((out[0] + 6.0).abs() < 1e-6 && (out[1] - 8.0).abs() < 1e-6, "{out:?}");
        let ball = Ball::around(vec![1.0, 2.0], 3.0).unwrap();
        ball.linear_minimizer(&[0.0, 0.0], &mut out).unwrap();
        assert_eq!(out, [1.0, 2.0]);
        assert_eq!(ball.linear_minimizer(&[1.0], &mut out[..1]), None);
    }

    #[test]
    fn bad_arguments_are_refused_with_a_sentence() {
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            let message = Ball::new(bad).unwrap_err().to_string();
            assert_eq!(message, format!("radius of the ball must be a finite number, 0 or larger, got {bad}"));
        }
        let message = Ball::around(vec![0.0, f64::NAN], 1.0).unwrap_err().to_string();
        assert_eq!(message, "coordinate 2 of the centre of the ball is NaN; expected a finite number");
        let ball = Ball::around(vec![1.0, 2.0], 30.0).unwrap();
        let message = ball.project(&mut [1.0], &mut Warm::default()).unwrap_err().to_string();
        assert_eq!(message, "the point for the ball of radius 30 around a given centre has 1 entries; expected 2");
        assert!(ball.distance(&[1.0, 2.0, 3.0]).unwrap_err().to_string().contains("3 entries"));
        assert_eq!(Ball::new(30.0).unwrap().describe(), "ball of radius 30");
    }
}
