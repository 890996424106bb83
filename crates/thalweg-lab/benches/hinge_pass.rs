//! Hinge value and subgradient over all of a9a, as evaluated by a solver, compared with the bare loop that any implementation
//! needs: gather the scores of the same rows, scatter slopes back. Also measures how the cost grows with the number of rows.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::hint::black_box;
use std::time::Instant;

use thalweg::eval::{Eval, Evaluator};
use thalweg::learn::{Data, Learning};
use thalweg::oracle::{Description, Draw};
use thalweg_lab::data::adult;

/// Bare loop on rows of ones with byte columns.
struct Bare {
    ptr: Vec<usize>,
    ids: Vec<u8>,
    scores: Vec<f64>,
    labels: Vec<f64>,
}

impl Bare {
    fn new(data: &Data) -> Self {
        let (mut ptr, mut ids) = (vec![0], vec![]);
        for i in 0..data.features.rows() {
            data.features.visit_row(i, |c, _| ids.push(c as u8));
            ptr.push(ids.len());
        }
        Bare { ptr, ids, scores: vec![0.0; data.labels.len()], labels: data.labels.clone() }
    }

    fn pass(&mut self, x: &[f64], grad: &mut [f64]) {
        for (i, s) in self.scores.iter_mut().enumerate() {
            *s = self.ids[self.ptr[i]..self.ptr[i + 1]].iter().map(|&c| x[c as usize]).sum();
        }
        grad.fill(0.0);
        for (i, y) in self.labels.iter().enumerate() {
            for &c in &self.ids[self.ptr[i]..self.ptr[i + 1]] {
                grad[c as usize] += y;
            }
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let whole = adult::a9a().unwrap();
    println!("rows     bare ms  hinge value and subgradient ms  ratio");
    for share in [4, 2, 1] {
        let rows: Vec<usize> = (0..whole.labels.len() / share).collect();
        let data = whole.select(&rows);
        let mut bare = Bare::new(&data);
        let problem =
            Learning::on(data).minimize("l2".parse().unwrap()).subject_to("hinge <= 0.3".parse().unwrap()).build().unwrap();
        let mut ev = Evaluator::new(&problem, 0, 0.0);
        let full = Draw::full();
        let mut grad = vec![0.0; problem.dim()];
        let mut g = [0.0];
        let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        for k in 0..400 {
            // Every point is different, so that no cached value is reused.
            let x: Vec<f64> = (0..123).map(|j| 0.1 * ((j + k) as f64).sin()).collect();
            let start = Instant::now();
            bare.pass(black_box(&x), &mut grad);
            let middle = Instant::now();
            black_box(&mut grad);
            ev.constraint_vjp(black_box(&x), &full, &mut g, &mut |_, w| w[0] = 1.0, &mut grad).unwrap();
            let end = Instant::now();
            black_box(&mut grad);
            let (a, b) = ((middle - start).as_secs_f64() * 1e3, (end - middle).as_secs_f64() * 1e3);
            theirs.push(a);
            ours.push(b);
            ratios.push(b / a);
        }
        println!("{:6}  {:8.3}  {:30.3}  {:5.2}", rows.len(), median(theirs), median(ours), median(ratios));
    }
}
