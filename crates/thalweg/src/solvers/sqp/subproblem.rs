//! The quadratic subproblem: minimise the quadratic model of the Lagrangian subject to linearised rows, with a price for the largest
//! violation. It is solved by its dual, whose size is the number of rows.

use super::rows::Rows;
use crate::cuts::{ActiveSet, Program, Role};
use crate::math::vec;

/// Proximal coefficient of a free centre relative to the largest entry of the dual Hessian. Centres start at their best values, so
/// that the coefficient affects the path and not the solution.
const CENTRE: f64 = 1e4;

/// Products of gradients with the inverse of the Hessian, and the quadratic program over the rows.
#[derive(Default)]
pub(super) struct Subproblem {
    /// Dual Hessian: of the objective, then of every row.
    gram: Vec<f64>,
    roles: Vec<Role>,
    heights: Vec<f64>,
    set: ActiveSet,
    z: Vec<f64>,
}

/// Solution of a subproblem.
pub(super) struct Solution {
    /// Largest violation of the linearised rows, in the units of the constraints.
    pub(super) excess: f64,
    /// Sum of the multipliers of the rows of constraints, in the units of the constraints.
    pub(super) total: f64,
}

impl Subproblem {
    /// Returns whether no program was assembled yet.
    pub(super) fn is_empty(&self) -> bool {
        self.gram.is_empty()
    }

    /// Assembles the program. `base` has the products of the gradients of the objective and of the parts with the inverse of the
    /// Hessian, `sides` those with the coordinates of the box.
    pub(super) fn assemble(&mut self, rows: &Rows, units: &[f64], base: &[f64], width: usize) {
        let n = 1 + rows.count();
        // Combinations of the objective (0), the parts (1 + k) and the sides: sparse lists.
        let mut lists: Vec<Vec<(usize, f64)>> = vec![vec![(0, 1.0)]];
        for row in &rows.rows {
            let unit = units[row.constraint as usize];
            lists.push(row.terms.iter().map(|&(k, c)| (1 + k as usize, c / unit)).collect());
        }
        for (at, (_, sign, _)) in rows.sides.iter().enumerate() {
            lists.push(vec![(1 + rows.parts + at, *sign)]);
        }
        self.gram.clear();
        self.gram.resize(n * n, 0.0);
        let mut product = vec![0.0; width];
        for (i, list) in lists.iter().enumerate() {
            product.fill(0.0);
            for &(k, c) in list {
                vec::add_scaled(&mut product, c, &base[k * width..(k + 1) * width]);
            }
            for (j, other) in lists[..=i].iter().enumerate() {
                let entry: f64 = other.iter().map(|&(k, c)| c * product[k]).sum();
                self.gram[i * n + j] = entry;
                self.gram[j * n + i] = entry;
            }
        }
        let largest = (1..n).map(|i| self.gram[i * n + i]).fold(0.0, f64::max);
        let soft = CENTRE * if largest > 0.0 { largest } else { 1.0 };
        let centre = |i: usize| {
            let row = rows.rows.get(i.checked_sub(1)?)?;
            row.centre.map(|(k, c)| (k, c / units[row.constraint as usize]))
        };
        for i in 1..n {
            for j in 1..n {
                if let (Some((k, c)), Some((l, d))) = (centre(i), centre(j))
                    && k == l
                {
                    self.gram[i * n + j] += soft * c * d;
                }
            }
        }
        self.roles.clear();
        self.roles.push(Role::Minimised);
        self.roles.extend(rows.rows.iter().map(|_| Role::Penalised));
        self.roles.extend(rows.sides.iter().map(|_| Role::Hard));
    }

    /// Solves the program with these values of the rows, in the units of the constraints. `multipliers` are improved from their
    /// values, one for each row.
    pub(super) fn solve(&mut self, heights: &[f64], penalty: f64, multipliers: &mut [f64], constraints: usize) -> Solution {
        self.heights.clear();
        self.heights.push(0.0);
        self.heights.extend_from_slice(heights);
        self.z.clear();
        self.z.push(1.0);
        self.z.extend_from_slice(multipliers);
        let stride = self.heights.len();
        let program = Program { gram: &self.gram, stride, heights: &self.heights, roles: &self.roles, mu: 1.0, penalty };
        let solved = self.set.solve(&program, &mut self.z);
        multipliers.copy_from_slice(&self.z[1..]);
        Solution { excess: solved.excess, total: vec::sum(&multipliers[..constraints]) }
    }
}
