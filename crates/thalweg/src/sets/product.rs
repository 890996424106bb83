//! Products of sets: consecutive blocks of coordinates, each in a set of its own. Sets that couple blocks do not belong here.

use super::{Set, Warm};
use crate::{Error, Result};

/// Product `X_1 x X_2 x ...`: the first coordinates in the first set, the next ones in the second, and so on.
#[derive(Debug)]
pub struct Product {
    blocks: Vec<Block>,
    dim: usize,
}

#[derive(Debug)]
struct Block {
    set: Box<dyn Set>,
    dim: usize,
}

impl Product {
    /// Builds the product of the given sets, each with its number of coordinates.
    pub fn new(blocks: Vec<(usize, Box<dyn Set>)>) -> Result<Self> {
        if blocks.is_empty() {
            return Err(Error::Problem("a product of sets has no block; expected at least one".into()));
        }
        for (k, (dim, set)) in blocks.iter().enumerate() {
            match set.dim() {
                Some(wanted) if wanted != *dim => {
                    let what = format!("block {} of the product, the {},", k + 1, set.describe());
                    return Err(Error::Length { what, got: *dim, wanted });
                }
                _ => {}
            }
        }
        let dim = blocks.iter().map(|(dim, _)| dim).sum();
        Ok(Product { blocks: blocks.into_iter().map(|(dim, set)| Block { set, dim }).collect(), dim })
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }
}

impl Set for Product {
    fn dim(&self) -> Option<usize> {
        Some(self.dim)
    }

    /// Each block uses its own part of `warm`.
    fn project(&self, x: &mut [f64], warm: &mut Warm) -> Result<()> {
        super::check_point(self, x.len())?;
        let mut rest = x;
        for (block, warm) in self.blocks.iter().zip(warm.parts(self.blocks.len())) {
            let (head, tail) = rest.split_at_mut(block.dim);
            block.set.project(head, warm)?;
            rest = tail;
        }
        Ok(())
    }

    fn distance(&self, x: &[f64]) -> Result<f64> {
        super::check_point(self, x.len())?;
        let (mut rest, mut total) = (x, 0.0_f64);
        for block in &self.blocks {
            let (head, tail) = rest.split_at(block.dim);
            total = total.hypot(block.set.distance(head)?);
            rest = tail;
        }
        Ok(total)
    }

    fn diameter(&self, _dim: usize) -> f64 {
        self.blocks.iter().fold(0.0_f64, |total, b| total.hypot(b.set.diameter(b.dim)))
    }

    /// Minimises block by block; `None` if one block has no minimiser.
    fn linear_minimizer(&self, slope: &[f64], out: &mut [f64]) -> Option<()> {
        super::slope_fits(self, slope, out)?;
        let mut first = 0;
        for block in &self.blocks {
            let range = first..first + block.dim;
            block.set.linear_minimizer(&slope[range.clone()], &mut out[range])?;
            first += block.dim;
        }
        Some(())
    }

    /// Separates block by block.
    fn separate(&self, y: &[f64], foot: &[f64], cut: &mut dyn FnMut(usize, &[f64])) {
        let mut first = 0;
        for block in &self.blocks {
            let range = first..first + block.dim;
            if y[range.clone()] != foot[range.clone()] {
                block.set.separate(&y[range.clone()], &foot[range], &mut |from, normal| cut(first + from, normal));
            }
            first += block.dim;
        }
    }

    fn describe(&self) -> String {
        let blocks: Vec<_> = self.blocks.iter().map(|b| format!("{} ({} coordinates)", b.set.describe(), b.dim)).collect();
        format!("product of {}", blocks.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{Ball, Bounds, NonNegative, Simplex, WholeSpace, testing};

    fn bounded() -> Product {
        Product::new(vec![
            (2, Box::new(Bounds::uniform(-1.0, 2.0).unwrap())),
            (3, Box::new(Simplex::new(1.5).unwrap())),
            (0, Box::new(WholeSpace)),
            (4, Box::new(Simplex::new(4.0).unwrap())),
        ])
        .unwrap()
    }

    #[test]
    fn keeps_every_promise_of_a_set() {
        let share = |u: &[f64], total: f64| -> Vec<f64> {
            let sum: f64 = u.iter().map(|u| u + 1e-9).sum();
            u.iter().map(|u| total * (u + 1e-9) / sum).collect()
        };
        let member = |u: &[f64]| {
            let mut y = vec![3.0 * u[0] - 1.0, 3.0 * u[1] - 1.0];
            y.extend(share(&u[2..5], 1.5));
            y.extend(share(&u[5..9], 4.0));
            y
        };
        // Block by block, each in a projection of its own with fresh working space.
        let twin = |x: &[f64]| {
            let mut y: Vec<f64> = x[..2].iter().map(|v| v.clamp(-1.0, 2.0)).collect();
            for (range, total) in [(2..5, 1.5), (5..9, 4.0)] {
                let mut part = x[range].to_vec();
                Simplex::new(total).unwrap().project(&mut part, &mut Warm::default()).unwrap();
                y.extend(part);
            }
            y
        };
        testing::check_set(&bounded(), 9, member, twin);
    }

    #[test]
    fn products_nest_and_keep_their_working_space() {
        let inner = Product::new(vec![(2, Box::new(Simplex::new(1.0).unwrap()))]).unwrap();
        let set = Product::new(vec![(2, Box::new(Ball::new(1.0).unwrap())), (2, Box::new(inner))]).unwrap();
        let mut warm = Warm::default();
        let mut x = [3.0, 4.0, 0.5, 0.0];
        set.project(&mut x, &mut warm).unwrap();
        for (got, wanted) in x.iter().zip([0.6, 0.8, 0.75, 0.25]) {
            assert!((got - wanted).abs() < 1e-15, "{x:?}");
        }
        let memory = |w: &Warm| (w.parts.as_ptr(), w.parts[1].parts[0].values.as_ptr(), w.parts[1].parts[0].values.capacity());
        let before = memory(&warm);
        assert!(before.2 >= 2);
        set.project(&mut [9.0, 9.0, 1.0, 1.0], &mut warm).unwrap();
        assert_eq!(memory(&warm), before);
    }

    #[test]
    fn one_unbounded_block_makes_the_product_unbounded() {
        let set = Product::new(vec![(1, Box::new(NonNegative)), (2, Box::new(Ball::new(1.0).unwrap()))]).unwrap();
        assert_eq!(set.diameter(3), f64::INFINITY);
        let mut out = [0.0; 3];
        assert_eq!(set.linear_minimizer(&[-1.0, 0.0, 1.0], &mut out), None);
        assert_eq!(set.linear_minimizer(&[1.0, 0.0, 1.0], &mut out), Some(()));
        assert_eq!(out, [0.0, 0.0, -1.0]);
        assert_eq!(set.count(), 2);
    }

    #[test]
    fn bad_arguments_are_refused_with_a_sentence() {
        assert_eq!(Product::new(vec![]).unwrap_err().to_string(), "a product of sets has no block; expected at least one");
        let ball = Ball::around(vec![0.0; 3], 2.0).unwrap();
        let message = Product::new(vec![(1, Box::new(WholeSpace)), (2, Box::new(ball))]).unwrap_err().to_string();
        assert_eq!(message, "block 2 of the product, the ball of radius 2, has 2 entries; expected 3");
        let message = bounded().project(&mut [0.0; 8], &mut Warm::default()).unwrap_err().to_string();
        assert!(message.starts_with("the point for the product of box from -1 to 2 (2 coordinates) and simplex of total 1.5"));
        assert!(message.ends_with("has 8 entries; expected 9"), "{message}");
    }
}
