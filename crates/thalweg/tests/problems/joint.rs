//! The Wasserstein gap with its transport plan as a variable: against the term that eliminates the plan, against differences
//! and its weak-convexity constant, on batches, and under the methods that need it.

use crate::common::{Make, continues_bit_for_bit_on, solve};
use thalweg::eval::{Eval, Evaluator, ValueEval};
use thalweg::learn::{Data, Groups, JointWasserstein, Learning, Split};
use thalweg::math::rng::{Purpose, Rng};
use thalweg::math::{Matrix, vec};
use thalweg::oracle::{Description, Draw, Pick, Values, check};
use thalweg::run::{self, Options};
use thalweg::sets::{Ball, Transport, Warm};
use thalweg::solvers::ipp::Inner;
use thalweg::solvers::{Conex, FirstOrder, Ipp, Ssg, conex, ipp, ssg};

/// `m` rows of the first group and `n` of the second, in turn, with labels that the first column nearly gives away.
fn data(m: usize, n: usize, cols: usize, weighted: bool, seed: u64) -> Data {
    let mut rng = Rng::new(seed, Purpose::Data);
    let rows = m + n;
    let mut of_row: Vec<u32> = vec![0; m];
    of_row.resize(rows, 1);
    rng.shuffle(&mut of_row);
    let entries: Vec<f64> = (0..rows * cols).map(|_| 3.0 * rng.uniform() - 1.5).collect();
    let labels = (0..rows).map(|i| if entries[i * cols] + 0.8 * rng.uniform() > 0.4 { 1.0 } else { -1.0 }).collect();
    Data {
        labels,
        features: Matrix::dense(rows, cols, entries).unwrap(),
        groups: Some(Groups { names: vec!["first".into(), "second".into()], of_row }),
        weights: weighted.then(|| (0..rows).map(|_| 0.1 + rng.uniform()).collect()),
    }
}

fn model(data: Data) -> Learning {
    let builder = Learning::on(data).minimize("wasserstein_gap".parse().unwrap()).domain(Ball::new(5.0).unwrap());
    builder.subject_to("hinge <= 0.9".parse().unwrap()).build().unwrap()
}

fn joint(data: Data) -> JointWasserstein {
    JointWasserstein::new(model(data)).unwrap()
}

fn random(count: usize, size: f64, rng: &mut Rng) -> Vec<f64> {
    (0..count).map(|_| size * (2.0 * rng.uniform() - 1.0)).collect()
}

/// The model's variables and a random plan.
fn random_point(problem: &JointWasserstein, rng: &mut Rng) -> Vec<f64> {
    let d = problem.model().dim();
    let mut x = random(d, 1.0, rng);
    let [m, n] = problem.sides();
    x.extend((0..m * n).map(|_| rng.uniform() / (m * n) as f64));
    problem.domain().project(&mut x, &mut Warm::default()).unwrap();
    x
}

fn value(problem: &dyn Values, x: &[f64]) -> f64 {
    run::measure(problem, x, 0.0).unwrap().objective
}

#[test]
fn the_worked_pair_of_two_and_two() {
    // Scores 0 and 1 in the first group, 0.5 and 2 in the second.
    let data = Data {
        features: Matrix::dense(4, 1, vec![0.0, 1.0, 0.5, 2.0]).unwrap(),
        labels: vec![1.0, -1.0, 1.0, -1.0],
        groups: Some(Groups { names: vec!["p".into(), "u".into()], of_row: vec![0, 0, 1, 1] }),
        weights: None,
    };
    let problem =
        JointWasserstein::new(Learning::on(data).minimize("wasserstein_gap".parse().unwrap()).build().unwrap()).unwrap();
    let uniform = problem.start(&[1.0]).unwrap();
    assert_eq!(uniform, [1.0, 0.25, 0.25, 0.25, 0.25]);
    assert_eq!(value(&problem, &uniform), 1.0);
    let best = problem.with_best_plan(&[1.0]).unwrap();
    assert_eq!(best, [1.0, 0.5, 0.0, 0.0, 0.5]);
    assert_eq!(value(&problem, &best), 0.75);
    // Subgradient at the uniform plan: distances 0.5, 2, 0.5, 1 for P; for w, 0.25 of the signed differences.
    let (mut grad, mut ev) = (vec![9.0; 5], Evaluator::new(&problem, 0, 0.0));
    assert_eq!(ev.objective_grad(&uniform, &Draw::full(), &mut grad).unwrap(), 1.0);
    assert_eq!(grad, [0.25 * (0.5 + 2.0 + 0.5 + 1.0), 0.5, 2.0, 0.5, 1.0]);
    // Equal scores have no sign.
    ev.objective_grad(&problem.start(&[0.0]).unwrap(), &Draw::full(), &mut grad).unwrap();
    assert_eq!(grad, [0.0; 5]);
}

#[test]
fn at_the_best_plan_both_forms_agree_and_no_plan_is_better() {
    let mut rng = Rng::new(1, Purpose::Data);
    for trial in 0..40_u64 {
        let (m, n) = (1 + trial as usize % 7, 1 + trial as usize * 3 % 11);
        let problem = joint(data(m, n, 3, trial % 2 == 1, trial));
        assert_eq!(problem.sides(), [m, n]);
        let w = random(3, 1.0, &mut rng);
        let eliminated = value(problem.model(), &w);
        let best = problem.with_best_plan(&w).unwrap();
        assert!(problem.domain().distance(&best).unwrap() < 1e-14);
        assert!((value(&problem, &best) - eliminated).abs() < 1e-12 * (1.0 + eliminated), "trial {trial}");
        let mut other = random_point(&problem, &mut rng);
        other[..3].copy_from_slice(&w);
        assert!(value(&problem, &other) >= eliminated - 1e-12, "trial {trial}");
        // The slope for w at the best plan is that of the term.
        let slope = |oracle: &dyn thalweg::oracle::Subgradients, x: &[f64]| {
            let mut grad = vec![0.0; x.len()];
            Evaluator::new(oracle, 0, 0.0).objective_grad(x, &Draw::full(), &mut grad).unwrap();
            grad
        };
        let (by_plan, by_term) = (slope(&problem, &best), slope(problem.model(), &w));
        assert!(vec::distance(&by_plan[..3], &by_term) < 1e-12, "trial {trial}");
    }
}

#[test]
fn another_unit_of_the_plan_is_the_same_problem() {
    let mut rng = Rng::new(6, Purpose::Data);
    let (m, n) = (6, 4);
    let plain = joint(data(m, n, 3, true, 8));
    let scaled = joint(data(m, n, 3, true, 8)).doubly_stochastic().unwrap();
    let unit = 24.0_f64.sqrt();
    let x = random_point(&plain, &mut rng);
    let y: Vec<f64> = x.iter().enumerate().map(|(k, v)| if k < 3 { *v } else { unit * v }).collect();
    assert!(scaled.domain().distance(&y).unwrap() < 1e-14);
    assert!((value(&plain, &x) - value(&scaled, &y)).abs() < 1e-14);
    assert!(
        (value(&plain, &plain.with_best_plan(&x[..3]).unwrap()) - value(&scaled, &scaled.with_best_plan(&x[..3]).unwrap())).abs()
            < 1e-14
    );
    assert!((value(&plain, &plain.start(&x[..3]).unwrap()) - value(&scaled, &scaled.start(&x[..3]).unwrap())).abs() < 1e-14);
    let [a, b] = [&plain, &scaled].map(|p| p.objective_modulus().unwrap().value);
    assert!((a - unit * b).abs() < 1e-12 * a);
    check::finite_differences(&scaled, &y, 1e-6, 1e-7).unwrap();
    for _ in 0..100 {
        let (x, y) = (random_point(&scaled, &mut rng), random_point(&scaled, &mut rng));
        check::subgradient_inequality(&scaled, &x, &y, 1e-12).unwrap();
    }
    // Equal groups: doubly stochastic.
    let equal = joint(data(5, 5, 3, false, 8)).doubly_stochastic().unwrap();
    assert!((equal.start(&[0.0; 3]).unwrap()[3..8].iter().sum::<f64>() - 1.0).abs() < 1e-15);
    assert_ne!(plain.fingerprint(), scaled.fingerprint());
}

#[test]
fn descending_in_the_plan_alone_finds_the_eliminated_value() {
    let problem = joint(data(12, 9, 3, false, 5));
    let w = [0.7, -0.4, 0.2];
    let mut x = problem.start(&w).unwrap();
    let (mut grad, mut ev) = (vec![0.0; x.len()], Evaluator::new(&problem, 0, 0.0));
    for _ in 0..400 {
        ev.objective_grad(&x, &Draw::full(), &mut grad).unwrap();
        grad[..3].fill(0.0);
        vec::add_scaled(&mut x, -0.05, &grad);
        ev.project(&mut x).unwrap();
    }
    // A linear function over a polytope: the projected gradient method ends at a corner.
    assert!((value(&problem, &x) - value(problem.model(), &w)).abs() < 1e-10);
}

#[test]
fn slopes_agree_with_differences_and_with_the_constant() {
    let mut rng = Rng::new(2, Purpose::Data);
    for (m, n, weighted) in [(4, 4, false), (3, 6, true), (5, 2, false)] {
        let problem = joint(data(m, n, 3, weighted, 7));
        let x = random_point(&problem, &mut rng);
        check::finite_differences(&problem, &x, 1e-6, 1e-7).unwrap();
        for _ in 0..300 {
            let (x, y) = (random_point(&problem, &mut rng), random_point(&problem, &mut rng));
            check::subgradient_inequality(&problem, &x, &y, 1e-12).unwrap();
        }
    }
}

/// The constant is the largest singular value of the matrix of differences: along its singular pair nothing smaller will do.
#[test]
fn the_constant_is_the_spectral_norm_of_all_differences() {
    let problem = joint(data(6, 5, 4, false, 3));
    let features = &problem.model().data().features;
    let of_row = &problem.model().data().groups.as_ref().unwrap().of_row;
    let row =
        |i: usize| (0..4).map(move |c| features.row_dot(i, &(0..4).map(|k| f64::from(u8::from(k == c))).collect::<Vec<_>>()));
    let group = |k: u32| (0..11).filter(move |&i| of_row[i] == k);
    let differences: Vec<Vec<f64>> = group(0)
        .flat_map(|i| group(1).map(move |j| (i, j)))
        .map(|(i, j)| row(i).zip(row(j)).map(|(a, b)| a - b).collect())
        .collect();
    let mut w = vec![1.0; 4];
    for _ in 0..2000 {
        let image: Vec<f64> = differences.iter().map(|d| vec::dot(d, &w)).collect();
        w.fill(0.0);
        differences.iter().zip(&image).for_each(|(d, v)| vec::add_scaled(&mut w, *v, d));
        let norm = vec::norm(&w);
        vec::scale(&mut w, 1.0 / norm);
    }
    let image: Vec<f64> = differences.iter().map(|d| vec::dot(d, &w)).collect();
    let norm = vec::norm(&image);
    let stated = problem.objective_modulus().unwrap().value;
    assert!(stated >= norm * (1.0 - 1e-12) && stated <= norm * 1.0001, "{stated} against {norm}");
    // At w = t v with plans from P to P - s u, u the signs' image: the model falls short by the whole constant.
    let plan: Vec<f64> = vec![1.0; 30];
    let at = |t: f64, s: f64| -> Vec<f64> {
        let unit = image.iter().map(|v| v.abs() / norm);
        w.iter().map(|w| t * w).chain(plan.iter().zip(unit).map(|(p, u)| p + s * u)).collect()
    };
    // Between (t, -t) and (-t, t) the function lies above its middle by less than any smaller constant allows.
    let (t, s) = (0.1, 0.1);
    let middle = value(&problem, &at(1.0, 0.0));
    let (up, down) = (value(&problem, &at(1.0 + t, -s)), value(&problem, &at(1.0 - t, s)));
    let bend = (up + down - 2.0 * middle) / (t * t + s * s);
    assert!((bend + norm).abs() < 1e-6 * norm, "{bend} against {norm}");
}

#[test]
fn wide_data_state_a_larger_constant() {
    // Beyond 512 columns the Frobenius norm stands in; it holds too.
    let wide = joint(data(3, 4, 600, false, 1));
    let mut rng = Rng::new(3, Purpose::Data);
    let (x, y) = (random_point(&wide, &mut rng), random_point(&wide, &mut rng));
    check::subgradient_inequality(&wide, &x, &y, 1e-10).unwrap();
    let stated = wide.objective_modulus().unwrap().value;
    assert!(stated > 10.0 && stated < 1e4, "{stated}");
}

#[test]
fn batches_are_sums_over_pairs_and_unbiased_once_rescaled() {
    let (m, n) = (4, 3);
    let plain = joint(data(m, n, 2, false, 9));
    let scaled = joint(data(m, n, 2, false, 9)).rescale(true);
    let mut rng = Rng::new(4, Purpose::Data);
    let x = random_point(&plain, &mut rng);
    let ask = |problem: &JointWasserstein, draw: &Draw| {
        let mut ev = Evaluator::new(problem, 0, 0.0);
        let mut grad = vec![f64::NAN; x.len()];
        let f = ev.objective_grad(&x, draw, &mut grad).unwrap();
        assert!((f - ev.objective(&x, draw).unwrap()).abs() < 1e-14);
        grad.push(f);
        grad
    };
    let whole = ask(&plain, &Draw::full());
    assert_eq!(whole, ask(&scaled, &Draw::full()), "on all rows there is nothing to rescale");
    // Which of the streams are the groups' is the model's affair; the third is that of the losses.
    let streams = plain.streams();
    let groups: Vec<usize> = (0..streams.len()).filter(|&k| plain.objective_uses(k)).collect();
    assert_eq!(groups.iter().map(|&k| streams[k]).collect::<Vec<_>>(), [m, n]);
    let pairs = |n: u32| (0..n).flat_map(move |i| (0..n).filter(move |&j| j != i).map(move |j| [i, j]));
    let (mut mean, mut count) = (vec![0.0; x.len() + 1], 0.0);
    for first in pairs(m as u32) {
        for second in pairs(n as u32) {
            let lists: Vec<&[u32]> = (0..streams.len())
                .map(|k| {
                    if k == groups[0] {
                        &first[..]
                    } else if k == groups[1] {
                        &second[..]
                    } else {
                        &[][..]
                    }
                })
                .collect();
            let draw = Draw::these(&lists);
            let (small, large) = (ask(&plain, &draw), ask(&scaled, &draw));
            for (a, b) in small.iter().zip(&large) {
                assert!((3.0 * a - b).abs() < 1e-14, "12 pairs of which 4 are drawn");
            }
            // Entries of pairs that were not drawn are 0, and the others are as on all rows.
            let plan = |v: &[f64], i: usize, j: usize| v[2 + i * n + j];
            for i in 0..m {
                for j in 0..n {
                    let drawn = first.contains(&(i as u32)) && second.contains(&(j as u32));
                    assert_eq!(plan(&small, i, j), if drawn { plan(&whole, i, j) } else { 0.0 });
                }
            }
            vec::add_scaled(&mut mean, 1.0, &large);
            count += 1.0;
        }
    }
    vec::scale(&mut mean, 1.0 / count);
    assert!(vec::distance(&mean, &whole) < 1e-13);
}

#[test]
fn a_constraint_step_leaves_the_plan_alone_to_the_last_bit() {
    let problem = joint(data(30, 20, 3, false, 2));
    // At 0 the hinge loss is 1, above its bound: the first steps are the constraint's.
    let mut rng = Rng::new(5, Purpose::Data);
    let mut x = random_point(&problem, &mut rng);
    x[..3].fill(0.0);
    let mut solver = Ssg::new(ssg::Settings { eta: 0.01.into(), output: ssg::Output::Last, ..Default::default() }).unwrap();
    let outcome = run::minimize(&problem, &mut solver, &x, &Options::iterations(3), &mut ()).unwrap();
    assert_ne!(outcome.point.x[..3], x[..3]);
    assert_eq!(outcome.point.x[3..], x[3..], "the projection left a plan as it was");
    // And the rows of ConEx have nothing there.
    let (mut g, mut row, mut ev) = ([0.0], vec![f64::NAN; x.len()], Evaluator::new(&problem, 0, 0.0));
    ev.constraint_rows(&x, &Draw::full(), &[0], &mut g, &mut row).unwrap();
    assert!(row[3..].iter().all(|v| *v == 0.0) && row[..3].iter().any(|v| *v != 0.0));
    let mut of_model = [0.0];
    ev.constraint_values(&x, &Draw::full(), Pick::All, &mut of_model).unwrap();
    assert_eq!(of_model, g);
}

fn methods() -> Vec<(&'static str, Box<FirstOrder<'static>>)> {
    let batch_f = Some(3);
    let switching =
        ssg::Settings { eta: 0.02.into(), tol: 1e-4.into(), batch_f, output: ssg::Output::Last, ..Default::default() };
    let extrapolated = conex::Settings { eta: 0.01.into(), tau: 0.5.into(), batch_f, ..Default::default() };
    let inner = |inner| ipp::Settings { rho_hat: Some(0.5), inner_iterations: 50, inner, ..Default::default() };
    vec![
        ("ssg", Box::new(Ssg::new(switching.clone()).unwrap())),
        ("conex", Box::new(Conex::new(extrapolated.clone()).unwrap())),
        ("ipp with ssg", Box::new(Ipp::new(inner(Inner::Ssg(switching))).unwrap())),
        ("ipp with conex", Box::new(Ipp::new(inner(Inner::Conex(extrapolated))).unwrap())),
    ]
}

#[test]
fn every_method_lowers_the_gap_on_batches_and_nearly_keeps_the_bound() {
    let problem = joint(data(30, 30, 3, false, 11));
    let start = problem.start(&[1.0, 0.3, -0.2]).unwrap();
    let before = run::measure(&problem, &start, 0.0).unwrap();
    for (name, solver) in methods() {
        let outcome = solve(&problem, solver, &start, &Options { seed: 1, ..Options::iterations(3000) });
        let x = &outcome.point.x;
        assert!(problem.domain().distance(x).unwrap() < 1e-12, "{name}");
        assert!(
            outcome.point.objective < 0.7 * before.objective,
            "{name}: {} from {}",
            outcome.point.objective,
            before.objective
        );
        assert!(outcome.point.violation < 5e-3, "{name}: {}", outcome.point.violation);
        // A batch of 3 of 30 rows of each group: a tenth of a pass each time it is asked.
        assert!(outcome.passes.objective <= 300.0 + 1e-9, "{name}: {}", outcome.passes.objective);
    }
}

#[test]
fn runs_continue_bit_for_bit_with_the_projections_own_memory() {
    let problem = joint(data(9, 7, 3, false, 13));
    let start = problem.start(&[1.0, 0.3, -0.2]).unwrap();
    let makes: Vec<Box<dyn Fn() -> Box<FirstOrder<'static>>>> =
        (0..methods().len()).map(|k| Box::new(move || methods().swap_remove(k).1) as Box<_>).collect();
    let makes: Vec<Make> = makes.iter().map(|make| &**make).collect();
    continues_bit_for_bit_on(&problem, &start, "joint", &makes);
}

#[test]
fn groups_can_be_made_equal_and_the_losses_keep_their_rows() {
    let all = data(50, 20, 3, false, 17);
    let build = |most| {
        let builder = Learning::on(all.clone()).minimize("wasserstein_gap".parse().unwrap()).split(Split::Ordered);
        builder.equal_groups(most).subject_to("hinge <= 0.9".parse().unwrap()).build().unwrap()
    };
    let (fewer, full) = (build(Some(usize::MAX)), build(None));
    let in_gaps = |k: u32| all.groups.as_ref().unwrap().of_row[46..].iter().filter(|g| **g == k).count();
    let least = in_gaps(0).min(in_gaps(1));
    assert!(in_gaps(0) != in_gaps(1));
    assert_eq!(JointWasserstein::new(build(Some(usize::MAX))).unwrap().sides(), [least, least]);
    assert_eq!(JointWasserstein::new(build(Some(3))).unwrap().sides(), [3, 3]);
    assert_eq!(fewer.data().labels.len(), 46 + 2 * least);
    assert_eq!(build(Some(usize::MAX)).fingerprint(), fewer.fingerprint(), "always the same rows");
    let w = [0.5, -0.2, 0.1];
    let [a, b] = [&fewer, &full].map(|p| run::measure(p, &w, 0.0).unwrap());
    assert_eq!(a.constraints[0].value, b.constraints[0].value);
    assert_ne!(a.objective, b.objective);
    // Another problem on the same rows has the same division.
    let beside = fewer.on_same_data().minimize("wasserstein_gap".parse().unwrap()).subject_to("hinge <= 0.9".parse().unwrap());
    let beside = run::measure(&beside.build().unwrap(), &w, 0.0).unwrap();
    assert_eq!((beside.objective, beside.constraints[0].value), (a.objective, a.constraints[0].value));

    let refused = |data: Data, split| {
        let builder = Learning::on(data).minimize("wasserstein_gap".parse().unwrap()).split(split);
        builder.equal_groups(Some(9)).build().unwrap_err().to_string()
    };
    assert!(refused(all.clone(), Split::Shared).contains("the losses are on the same rows; expected the split"));
    assert!(refused(Data { groups: None, ..all }, Split::Ordered).contains("equal_groups needs groups"));
}

#[test]
fn what_has_no_plan_is_refused_with_a_sentence() {
    let with = |text: &str| {
        let built = Learning::on(data(4, 4, 2, false, 1)).minimize(text.parse().unwrap()).build().unwrap();
        JointWasserstein::new(built).unwrap_err().to_string()
    };
    for text in ["hinge", "2 * wasserstein_gap", "wasserstein_gap + 0.1 * l2", "demographic_parity"] {
        let message = with(text);
        assert!(message.contains(text) && message.contains("wasserstein_gap alone"), "{message}");
    }
    let problem = joint(data(4, 4, 2, false, 1));
    assert!(problem.start(&[1.0]).unwrap_err().to_string().contains("has 1 entries; expected 2"));
    // A plan that no memory holds is refused before it is made: 20,000 x 20,000 entries.
    let many = data(20_000, 20_000, 1, false, 1);
    let many = Learning::on(many).minimize("wasserstein_gap".parse().unwrap()).build().unwrap();
    let message = JointWasserstein::new(many).unwrap_err().to_string();
    assert!(message.contains("20000 x 20000 rows") && message.contains("equal_groups"), "{message}");
    // Sums of rows and of columns that do not fit together.
    let message = Transport::new(vec![0.5, 0.5], vec![0.4, 0.4]).unwrap_err().to_string();
    assert!(message.contains("total of the column sums") && message.contains("0.8"), "{message}");
}
