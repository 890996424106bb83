//! Small problems by formulas alone, with answers on paper.

use std::sync::Arc;

use crate::Result;
use crate::bilevel::{Formulas, Number};
use crate::sets::{Bounds, Set};

/// A problem that has nothing but its two boxes.
macro_rules! boxed {
    ($(#[$doc:meta])* $name:ident, $outer:expr, $inner:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            outer: Arc<dyn Set>,
            inner: Arc<dyn Set>,
        }

        impl $name {
            /// The problem.
            pub fn new() -> Result<Self> {
                Ok($name { outer: Arc::new($outer?), inner: Arc::new($inner?) })
            }
        }
    };
}

boxed! {
    /// `f = (x - 1)^2 / 2 + x y`, `g = max(0, |y| - 1)^3` on [-2, 2]: every y in [-1, 1] is an inner solution.
    ///
    /// The pessimistic value is the least of `(x - 1)^2 / 2 + |x|`, which is 1/2 at x = 0; the optimistic one that of
    /// `(x - 1)^2 / 2 - |x|`, which is -3/2 at x = 2.
    Interval, Bounds::uniform(-2.0, 2.0), Bounds::uniform(-2.0, 2.0)
}

impl Formulas for Interval {
    fn outer_dim(&self) -> usize {
        1
    }
    fn inner_dim(&self) -> usize {
        1
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.outer.clone()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.inner.clone()
    }
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        (x[0] - 1.0).powi(2) * 0.5 + x[0] * y[0]
    }
    fn inner<T: Number>(&self, _: &[T], y: &[T]) -> T {
        (y[0].abs() - 1.0).positive_part().powi(3)
    }
}

boxed! {
    /// A linear-quadratic problem: `f = (x - 1)^2 / 2 + y_1 + x y_2 - y_2^2 / 2`, `g = (y_1 - x)^2 / 2` on [-2, 2].
    ///
    /// Inner solutions are y_1 = x with any y_2. The worst is y_2 = x and leaves `x^2 + 1/2`: the pessimistic value is 1/2 at x = 0. The
    /// best is y_2 = -2 for a positive x and leaves `(x - 1)^2 / 2 - x - 2`: the optimistic value is -7/2 at x = 2.
    Quadratic, Bounds::uniform(-2.0, 2.0), Bounds::uniform(-2.0, 2.0)
}

impl Formulas for Quadratic {
    fn outer_dim(&self) -> usize {
        1
    }
    fn inner_dim(&self) -> usize {
        2
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.outer.clone()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.inner.clone()
    }
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        (x[0] - 1.0).powi(2) * 0.5 + y[0] + x[0] * y[1] - y[1] * y[1] * 0.5
    }
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T {
        (y[0] - x[0]).powi(2) * 0.5
    }
}

boxed! {
    /// A shop sets a price x from 0 to 2. Its customer wants about 2 - x units and is content with any amount y within half a unit of
    /// that: `g = max(0, |y - (2 - x)| - 1/2)^3`. The shop's loss is minus its revenue, `f = -x y`.
    ///
    /// A cautious shop counts on 3/2 - x units: the price 3/4 earns at least 9/16. An optimist counts on 5/2 - x, sets the price 5/4
    /// for a revenue of 25/16, and may earn as little as 5/16.
    Pricing, Bounds::uniform(0.0, 2.0), Bounds::uniform(-1.0, 4.0)
}

impl Formulas for Pricing {
    fn outer_dim(&self) -> usize {
        1
    }
    fn inner_dim(&self) -> usize {
        1
    }
    fn outer_set(&self) -> Arc<dyn Set> {
        self.outer.clone()
    }
    fn inner_set(&self) -> Arc<dyn Set> {
        self.inner.clone()
    }
    fn outer<T: Number>(&self, x: &[T], y: &[T]) -> T {
        -(x[0] * y[0])
    }
    fn inner<T: Number>(&self, x: &[T], y: &[T]) -> T {
        ((y[0] + x[0] - 2.0).abs() - 0.5).positive_part().powi(3)
    }
}
