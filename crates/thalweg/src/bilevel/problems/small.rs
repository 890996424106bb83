//! Small bilevel problems given by formulas, with solutions that can be checked by hand. Problems on data are in the other files
//! of this directory.

use std::sync::Arc;

use crate::Result;
use crate::bilevel::{Formulas, Number};
use crate::sets::{Bounds, Set};

/// Defines a problem by f and g over an interval for every outer and one for every inner variable.
macro_rules! formulas_on_boxes {
    (
        $(#[$doc:meta])*
        $name:ident: $outer_dim:literal in [$outer_low:literal, $outer_high:literal], $inner_dim:literal in [$inner_low:literal, $inner_high:literal];
        f = |$fx:ident, $fy:ident| $f:expr;
        g = |$gx:ident, $gy:ident| $g:expr;
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            outer: Arc<dyn Set>,
            inner: Arc<dyn Set>,
        }

        impl $name {
            /// Builds the problem.
            pub fn new() -> Result<Self> {
                let outer = Arc::new(Bounds::uniform($outer_low, $outer_high)?);
                Ok($name { outer, inner: Arc::new(Bounds::uniform($inner_low, $inner_high)?) })
            }
        }

        impl Formulas for $name {
            fn outer_dim(&self) -> usize {
                $outer_dim
            }
            fn inner_dim(&self) -> usize {
                $inner_dim
            }
            fn outer_set(&self) -> Arc<dyn Set> {
                self.outer.clone()
            }
            fn inner_set(&self) -> Arc<dyn Set> {
                self.inner.clone()
            }
            fn outer<T: Number>(&self, $fx: &[T], $fy: &[T]) -> T {
                $f
            }
            fn inner<T: Number>(&self, $gx: &[T], $gy: &[T]) -> T {
                $g
            }
        }
    };
}

formulas_on_boxes! {
    /// `f = (x - 1)^2 / 2 + x y`, `g = max(0, |y| - 1)^3` on [-2, 2]: every y in [-1, 1] is an inner solution.
    ///
    /// The pessimistic value is the least of `(x - 1)^2 / 2 + |x|`, which is 1/2 at x = 0; the optimistic one that of
    /// `(x - 1)^2 / 2 - |x|`, which is -3/2 at x = 2.
    Interval: 1 in [-2.0, 2.0], 1 in [-2.0, 2.0];
    f = |x, y| (x[0] - 1.0).powi(2) * 0.5 + x[0] * y[0];
    g = |_x, y| (y[0].abs() - 1.0).positive_part().powi(3);
}

formulas_on_boxes! {
    /// A linear-quadratic problem: `f = (x - 1)^2 / 2 + y_1 + x y_2 - y_2^2 / 2`, `g = (y_1 - x)^2 / 2` on [-2, 2].
    ///
    /// Inner solutions are y_1 = x with any y_2. The worst is y_2 = x and leaves `x^2 + 1/2`: the pessimistic value is 1/2 at x = 0. The
    /// best is y_2 = -2 for a positive x and leaves `(x - 1)^2 / 2 - x - 2`: the optimistic value is -7/2 at x = 2.
    Quadratic: 1 in [-2.0, 2.0], 2 in [-2.0, 2.0];
    f = |x, y| (x[0] - 1.0).powi(2) * 0.5 + y[0] + x[0] * y[1] - y[1] * y[1] * 0.5;
    g = |x, y| (y[0] - x[0]).powi(2) * 0.5;
}

formulas_on_boxes! {
    /// A shop sets a price x from 0 to 2. Its customer buys about 2 - x units and is indifferent between all amounts y within half a
    /// unit of that: `g = max(0, |y - (2 - x)| - 1/2)^3`. The shop's loss is minus its revenue, `f = -x y`.
    ///
    /// The pessimistic solution assumes 3/2 - x units: the price 3/4 earns at least 9/16. The optimistic one assumes 5/2 - x, sets the
    /// price 5/4 for a revenue of 25/16, and may earn as little as 5/16.
    Pricing: 1 in [0.0, 2.0], 1 in [-1.0, 4.0];
    f = |x, y| -(x[0] * y[0]);
    g = |x, y| ((y[0] + x[0] - 2.0).abs() - 0.5).positive_part().powi(3);
}
