//! Seconds for one inner iteration of AdaProx on robust hyper-representation, and how they grow with the number of inner
//! variables. With a directory as argument the data are saved there, for a comparison with other software, and every line names
//! each number.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use thalweg::bilevel::problems::HyperRepresentation;
use thalweg::bilevel::{Form, InnerSteps, SingleLevel};
use thalweg::eval::Evaluator;
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Description, Draw, Values, Warm};
use thalweg::solvers::{Adaprox, Eval, Method, Solver, StepKind, ValueEval, adaprox, pd};

const ROWS: usize = 200;
const FEATURES: usize = 50;
/// Iterations on a subproblem. The first subproblem has constraints relaxed until the start satisfies them, in the second they
/// are active; both are measured separately.
const ITERATIONS: u64 = 50;
const BETA: f64 = 0.2;
const TURNS: usize = 41;

struct Data {
    validation: (Vec<f64>, Vec<f64>),
    training: (Vec<f64>, Vec<f64>),
    lambda: Vec<f64>,
}

fn data(m: usize) -> Data {
    let mut rng = Rng::new(1, Purpose::Data);
    let mut truth = vec![0.0; FEATURES / 5];
    rng.normals(&mut truth);
    let mut rows = || {
        let (mut x, mut y) = (vec![0.0; ROWS * FEATURES], vec![0.0; ROWS]);
        rng.normals(&mut x);
        rng.normals(&mut y);
        for (y, row) in y.iter_mut().zip(x.chunks(FEATURES)) {
            *y = 0.1 * *y + row.iter().zip(&truth).map(|(x, t)| x * t).sum::<f64>();
        }
        (x, y)
    };
    let (validation, training) = (rows(), rows());
    let mut lambda = vec![0.0; FEATURES * m];
    rng.normals(&mut lambda);
    lambda.iter_mut().for_each(|l| *l /= (m as f64).sqrt());
    Data { validation, training, lambda }
}

fn form(inner_steps: InnerSteps) -> Form {
    Form { inner_steps, ..Form::default() }
}

fn settings(name: &str) -> adaprox::Settings {
    let inner = match name {
        name if name == adaprox::Inner::NAMES[0] => adaprox::Inner::Sg(adaprox::Sg::default()),
        _ => adaprox::Inner::Pd(pd::Settings::default()),
    };
    adaprox::Settings {
        inner_iterations: ITERATIONS,
        beta: BETA,
        sigma: Some(100.0),
        shrink: 0.0,
        inner,
        ..adaprox::Settings::default()
    }
}

fn write(folder: &Path, name: &str, numbers: &[f64]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join(name), bytes).unwrap();
}

/// Measures the median seconds of an iteration with active constraints, for both inner solvers.
fn measure(m: usize, folder: Option<&Path>) -> Vec<f64> {
    let data = data(m);
    let matrix = |x: &[f64]| Matrix::dense(ROWS, FEATURES, x.to_vec()).unwrap();
    let (validation, training) = (matrix(&data.validation.0), matrix(&data.training.0));
    let problem = HyperRepresentation::new((&validation, &data.validation.1), (&training, &data.training.1), data.lambda.clone());
    let problem = Arc::new(problem.unwrap());
    // The start: Lambda, the inner solution there, and a multiplier of 0.
    let exact = SingleLevel::new(problem.clone(), form(InnerSteps::Adaptive)).unwrap();
    let mut z = data.lambda.clone();
    z.resize(exact.dim(), 0.0);
    let mut warm = Warm::default();
    exact.refresh(&z, &mut warm, &mut exact.scratch()).unwrap();
    z[FEATURES * m..FEATURES * m + m].copy_from_slice(&warm.values);
    let single = SingleLevel::new(problem, form(InnerSteps::Fixed(5))).unwrap();
    let mut warm = Warm::default();
    single.refresh(&z, &mut warm, &mut single.scratch()).unwrap();
    let smoothness = warm.parts[0].values[0];
    if let Some(folder) = folder {
        write(folder, &format!("x1-{m}"), &data.validation.0);
        write(folder, &format!("y1-{m}"), &data.validation.1);
        write(folder, &format!("x2-{m}"), &data.training.0);
        write(folder, &format!("y2-{m}"), &data.training.1);
        write(folder, &format!("z-{m}"), &z);
        write(folder, &format!("smoothness-{m}"), &[smoothness]);
    }
    let mut medians = vec![];
    for &name in adaprox::Inner::NAMES {
        let mut seconds = [vec![], vec![]];
        let (mut objective, mut constraint_steps, mut products) = ([0.0; 2], [0; 2], [0; 2]);
        for _ in 0..TURNS {
            let mut solver = Adaprox::new(settings(name)).unwrap();
            let (ev, mut measuring) = (&mut Evaluator::new(&single, 1, 1e-6), Evaluator::new(&single, 1, 1e-6));
            Solver::<dyn Eval>::start(&mut solver, ev, &z).unwrap();
            // The last step of the second subproblem would end the run with an evaluation at its centre.
            for (k, count) in [(0, ITERATIONS), (1, ITERATIONS - 1)] {
                let before = ev.counts().more.values().sum::<u64>();
                let began = Instant::now();
                constraint_steps[k] = 0;
                for _ in 0..count {
                    let step = solver.step(ev as &mut dyn Eval).unwrap();
                    constraint_steps[k] += usize::from(step.kind == StepKind::Constraint);
                }
                seconds[k].push(began.elapsed().as_secs_f64() / count as f64);
                products[k] = ev.counts().more.values().sum::<u64>() - before;
                let mut at = vec![0.0; z.len()];
                solver.iterate(&mut at);
                objective[k] = measuring.objective(&at, &Draw::full()).unwrap();
            }
        }
        let median = seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[TURNS / 2]
        });
        for k in 0..2 {
            let (us, value, steps, products) = (1e6 * median[k], objective[k], constraint_steps[k], products[k]);
            match folder {
                None => {
                    println!("{m:5}  {name}  {:10}  {us:8.1}  {value:.12}  {steps:4}  {products:4}", ["relaxed", "binding"][k])
                }
                Some(_) => {
                    println!("m={m} inner={name} part={k} us={us:e} objective={value:e} steps={steps} products={products}")
                }
            }
        }
        medians.push(median[1]);
    }
    medians
}

fn main() {
    // Cargo adds an argument of its own.
    let folder = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let folder = folder.as_deref().map(Path::new);
    if folder.is_none() {
        println!(
            "    m      constraints  us for one iteration, the objective, steps on constraints, products with second derivatives"
        );
    }
    let times: Vec<Vec<f64>> = [512, 1024].iter().map(|&m| measure(m, folder)).collect();
    if folder.is_none() {
        println!("growth from 512 to 1024: sg {:.2}, pd {:.2}", times[1][0] / times[0][0], times[1][1] / times[0][1]);
        println!("sg over pd: {:.2} at 512, {:.2} at 1024", times[0][0] / times[0][1], times[1][0] / times[1][1]);
    }
}
