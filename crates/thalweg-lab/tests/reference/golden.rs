//! Oracles and a trajectory against an independent implementation: a9a, the first 32,561 rows for losses, the rest for gaps.

#![allow(clippy::approx_constant)] // golden values

use std::sync::LazyLock;

use crate::common::{Place, cells};
use thalweg::learn::{Builder, Data, Learning, Split, best};
use thalweg::math::Matrix;
use thalweg::oracle::{At, Composite, Description, Draw, Pick, Scratch, Structure, Subgradients, Values, Warm};
use thalweg::run::{Options, Record, StopReason, minimize};
use thalweg::sets::Ball;
use thalweg::solvers::{Bundle, Lbfgs, Mspg, bundle, lbfgs, mspg, st_spg};
use thalweg_lab::data::adult;

const COLUMNS: usize = adult::COLUMNS;
const ROC: &str = "roc_gap(thresholds = 400, low = -3.0, high = 3.0)";

/// A term, its value, the norm of its subgradient and the first five entries.
type Known = (&'static str, f64, f64, [f64; 5]);

/// At w_j = 0.1 sin j.
const AT_SIN: [Known; 8] = [
    (
        "hinge",
        0.90497303523765,
        1.3475401517836674,
        [0.18988974540093978, 0.1227542151653819, 0.08482540462516508, 0.04892355885875741, 0.07198796105770708],
    ),
    (
        "roc_gap(thresholds = 400, low = -3.0, high = 3.0)",
        0.007824948135951026,
        0.42116682173515346,
        [0.02701304136496229, -0.0005774972456002239, -0.00949650108741499, -0.009940774473089255, -0.007023920561514789],
    ),
    (
        "demographic_parity",
        0.007797243333982906,
        0.4202759086659879,
        [0.02721166761099017, -0.00043037171282962056, -0.009422831869469357, -0.009894007135397224, -0.0070064455015193886],
    ),
    (
        "hinge + 0.02 * scad",
        1.218754103292213,
        1.3809103550909008,
        [0.2298897454009398, 0.1627542151653819, 0.12482540462516509, 0.00892355885875741, 0.03198796105770708],
    ),
    (
        "logistic(on = 'positives')",
        0.7176409945688724,
        1.360527061447097,
        [-0.0072273781868680805, -0.05788127507821631, -0.12932770185013814, -0.15844955909142638, -0.15693937455449875],
    ),
    (
        "logistic(on = 'negatives')",
        0.6310925570128518,
        1.1593514177416868,
        [0.11801063813784783, 0.0964039964791785, 0.09094190563910715, 0.0733515772096917, 0.08719658947839891],
    ),
    (
        "hinge(on = 'positives')",
        1.0396968798113289,
        2.6674955997952567,
        [-0.014538961867108787, -0.11988266802703737, -0.25940568804999364, -0.30531819920928455, -0.3008544828465757],
    ),
    (
        "hinge(on = 'negatives')",
        0.8622396345377221,
        2.4966332403119056,
        [0.25473300970873786, 0.1997168284789644, 0.19401294498381877, 0.1612864077669903, 0.19025080906148867],
    ),
];
const SCAD_AT_SIN: f64 = 15.689053402728138;

/// At w = 0.
const AT_ZERO: [Known; 8] = [
    (
        "hinge",
        1.0,
        1.3475401517836674,
        [0.18988974540093978, 0.1227542151653819, 0.08482540462516508, 0.04892355885875741, 0.07198796105770708],
    ),
    ("roc_gap(thresholds = 400, low = -3.0, high = 3.0)", 0.0, 0.0, [0.0, 0.0, 0.0, 0.0, 0.0]),
    ("demographic_parity", 0.0, 0.0, [0.0, 0.0, 0.0, 0.0, 0.0]),
    (
        "hinge + 0.02 * scad",
        1.0,
        1.3475401517836674,
        [0.18988974540093978, 0.1227542151653819, 0.08482540462516508, 0.04892355885875741, 0.07198796105770708],
    ),
    (
        "logistic(on = 'positives')",
        0.6931471805599453,
        1.3337477998976284,
        [-0.0072694809335543936, -0.059941334013518685, -0.12970284402499682, -0.15265909960464227, -0.15042724142328784],
    ),
    (
        "logistic(on = 'negatives')",
        0.6931471805599451,
        1.2483166201559528,
        [0.12736650485436893, 0.0998584142394822, 0.09700647249190938, 0.08064320388349515, 0.09512540453074433],
    ),
    (
        "hinge(on = 'positives')",
        1.0,
        2.6674955997952567,
        [-0.014538961867108787, -0.11988266802703737, -0.25940568804999364, -0.30531819920928455, -0.3008544828465757],
    ),
    (
        "hinge(on = 'negatives')",
        1.0,
        2.4966332403119056,
        [0.25473300970873786, 0.1997168284789644, 0.19401294498381877, 0.1612864077669903, 0.19025080906148867],
    ),
];

fn sin() -> Vec<f64> {
    (1..=COLUMNS).map(|j| 0.1 * (j as f64).sin()).collect()
}

/// Every known term as the objective of one problem and as a constraint `<= 0` of another.
fn both_ways(term: &str) -> (Learning, Learning) {
    static DATA: LazyLock<Data> = LazyLock::new(|| adult::a9a().unwrap());
    let on = || Builder::new(DATA.clone()).split(Split::Ordered);
    let objective = on().minimize(term.parse().unwrap()).build().unwrap();
    let constraint = on().minimize("l2".parse().unwrap()).subject_to(format!("{term} <= 0").parse().unwrap()).build().unwrap();
    (objective, constraint)
}

/// Value and subgradient of the objective.
fn objective(problem: &Learning, x: &[f64], draw: &Draw) -> (f64, Vec<f64>) {
    let warm = Warm::default();
    let (at, mut scratch) = (At { x, draw, warm: &warm }, problem.scratch());
    let mut grad = vec![f64::NAN; problem.dim()];
    let with_grad = problem.objective_grad(at, &mut grad, &mut scratch).unwrap();
    let alone = problem.objective(at, &mut problem.scratch()).unwrap();
    assert_eq!(with_grad.to_bits(), alone.to_bits());
    (alone, grad)
}

/// Value and subgradient of the only constraint.
fn constraint(problem: &Learning, x: &[f64], draw: &Draw) -> (f64, Vec<f64>) {
    let warm = Warm::default();
    let (at, mut scratch) = (At { x, draw, warm: &warm }, problem.scratch());
    let (mut g, mut alone) = ([f64::NAN], [f64::NAN]);
    let mut grad = vec![f64::NAN; problem.dim()];
    problem.constraint_vjp(at, &mut g, &mut |_, w| w[0] = 1.0, &mut grad, &mut scratch).unwrap();
    problem.constraint_values(at, Pick::All, &mut alone, &mut problem.scratch()).unwrap();
    assert_eq!(g[0].to_bits(), alone[0].to_bits());
    (g[0], grad)
}

/// The same by way of statistics.
fn by_statistics(problem: &Learning, x: &[f64], draw: &Draw) -> (f64, Vec<f64>, Vec<f64>) {
    let warm = Warm::default();
    let (at, mut scratch): (At, Scratch) = (At { x, draw, warm: &warm }, problem.scratch());
    let mut statistics = vec![f64::NAN; problem.num_statistics()];
    let (mut g, mut grad) = ([f64::NAN], vec![f64::NAN; problem.dim()]);
    problem.statistic_values(at, &mut statistics, &mut scratch).unwrap();
    problem.constraints_from(&statistics, &mut g).unwrap();
    problem.statistic_vjp(at, &statistics, &[1.0], &mut grad, &mut scratch).unwrap();
    (g[0], grad, statistics)
}

/// All rows of every stream, written out.
fn every_row(problem: &Learning) -> Draw {
    let ids: Vec<Vec<u32>> = problem.streams().iter().map(|&n| (0..n as u32).collect()).collect();
    Draw::these(&ids.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// `tolerance` is relative, and absolute where the wanted number is 0.
#[track_caller]
fn close(what: &str, got: f64, wanted: f64, tolerance: f64) {
    let scale = if wanted == 0.0 { 1.0 } else { wanted.abs() };
    assert!((got - wanted).abs() <= tolerance * scale, "{what}: {got:?} against {wanted:?}");
}

/// Compares vectors by the distance between them, relative to the length of the second.
#[track_caller]
fn near(what: &str, got: &[f64], wanted: &[f64], tolerance: f64) {
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    let apart: Vec<f64> = got.iter().zip(wanted).map(|(a, b)| a - b).collect();
    assert!(norm(&apart) <= tolerance * norm(wanted).max(tolerance), "{what}: {} apart, norm {}", norm(&apart), norm(wanted));
}

fn check(x: &[f64], known: &[Known]) {
    for &(term, value, norm, first) in known {
        let (as_objective, as_constraint) = both_ways(term);
        let full = Draw::full();
        for (way, (f, grad)) in
            [("objective", objective(&as_objective, x, &full)), ("constraint", constraint(&as_constraint, x, &full))]
        {
            close(&format!("{term} as {way}"), f, value, 1e-10);
            let length = grad.iter().map(|v| v * v).sum::<f64>().sqrt();
            close(&format!("{term} as {way}, norm of the subgradient"), length, norm, 1e-10);
            for (j, wanted) in first.into_iter().enumerate() {
                close(&format!("{term} as {way}, entry {} of the subgradient", j + 1), grad[j], wanted, 1e-10);
            }
        }

        let (g, pulled) = constraint(&as_constraint, x, &full);
        let (by_means, pulled_by_means, _) = by_statistics(&as_constraint, x, &full);
        close(&format!("{term} from statistics"), by_means, g, 1e-12);
        near(&format!("{term}, subgradient from statistics"), &pulled_by_means, &pulled, 1e-12);

        let rows = every_row(&as_objective);
        let (f, grad) = objective(&as_objective, x, &full);
        let (drawn, drawn_grad) = objective(&as_objective, x, &rows);
        close(&format!("{term}, every row drawn"), drawn, f, 1e-12);
        near(&format!("{term}, subgradient, every row drawn"), &drawn_grad, &grad, 1e-12);
        let rows = every_row(&as_constraint);
        let (drawn, drawn_grad, _) = by_statistics(&as_constraint, x, &rows);
        close(&format!("{term} from statistics, every row drawn"), drawn, g, 1e-12);
        near(&format!("{term}, subgradient from statistics, every row drawn"), &drawn_grad, &pulled, 1e-12);
    }
}

#[test]
fn oracles_at_sin_agree_with_the_reference() {
    check(&sin(), &AT_SIN);
}

#[test]
fn oracles_at_zero_agree_with_the_reference() {
    check(&[0.0; COLUMNS], &AT_ZERO);
}

#[test]
fn scad_is_the_sum_over_all_weights() {
    let (problem, _) = both_ways("scad");
    close("scad", objective(&problem, &sin(), &Draw::full()).0, SCAD_AT_SIN, 1e-10);
    assert_eq!(objective(&problem, &[0.0; COLUMNS], &Draw::full()).0, 0.0);
}

#[test]
fn the_signed_gaps_and_the_winning_threshold_agree_with_the_reference() {
    let (_, problem) = both_ways(ROC);
    let gaps = |x: &[f64]| -> Vec<f64> {
        let (_, _, means) = by_statistics(&problem, x, &Draw::full());
        let (protected, others) = means.split_at(400);
        protected.iter().zip(others).map(|(p, u)| p - u).collect()
    };
    let at_sin = gaps(&sin());
    let winner = (0..400).max_by(|&a, &b| at_sin[a].abs().total_cmp(&at_sin[b].abs())).unwrap();
    assert_eq!(winner, 191);
    close("the winning gap", at_sin[191], AT_SIN[1].1, 1e-10);
    close("gap 0", at_sin[0], 0.0016131010097272247, 1e-10);
    close("gap 199", at_sin[199], 0.007800581042508359, 1e-10);
    close("gap 399", at_sin[399], 0.0012985850842739538, 1e-10);
    // The runner-up is only 4.4e-8 behind.
    let second = (0..400).filter(|&j| j != 191).map(|j| at_sin[j].abs()).fold(0.0, f64::max);
    close("distance to the second", at_sin[191] - second, 4.400564146411767e-08, 1e-5);
    assert!(gaps(&[0.0; COLUMNS]).iter().all(|gap| gap.abs() <= 1e-13));
    let (_, problem) = both_ways("demographic_parity");
    let (_, _, rates) = by_statistics(&problem, &sin(), &Draw::full());
    close("signed difference of rates", rates[0] - rates[1], 0.007797243333982906, 1e-10);
}

/// t, objective, violation, norm, tolerance.
const TRAJECTORY: [(u64, f64, f64, f64, f64); 7] = [
    (0, 0.0, 0.55, 0.0, 1e-10),
    (1, 0.0018825786616493145, 0.4592067769665426, 0.06737700758918337, 1e-10),
    (2, 0.003763766349518083, 0.368413553933085, 0.13475401517836674, 1e-10),
    (10, 0.019277136996938837, 0.030588878462182834, 0.43479185969856987, 1e-10),
    (100, 0.008871781284892966, 0.001902073937800841, 0.6158363401239259, 1e-10),
    (500, 0.004406086503573325, -0.00030521885186152176, 0.7029184798739777, 1e-10),
    (1000, 0.0038830992626768257, -0.0001957921157773601, 0.7322147818695074, 1.0391687510491465e-10),
];
/// Steps from t = 0 to 120: f on the objective, g on the constraint.
const STEPS: &str = concat!(
    "ggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggfgfggfgggfggfgggfggfgggfggfgggfggfgggf",
    "ggfgggfggfggfgggfggfg",
);

const EXPERIMENT: &str = include_str!("../../../../experiments/roc-a9a.toml");

/// Solves a spec in an empty directory and returns the trace.
fn trace(spec: &str) -> String {
    let place = Place::new();
    place.put("run.toml", spec);
    place.run(&["solve", "run.toml", "--trace", "run.csv"]).ended(0);
    assert_eq!(place.files(), ["run.csv", "run.toml"]);
    place.read("run.csv")
}

#[test]
fn the_experiment_reproduces_the_reference_trajectory() {
    let text = trace(EXPERIMENT);
    let (header, rows) = cells(&text);
    assert_eq!(header.join(","), "iteration,objective,violation,norm,passes_f,passes_g,samples,seconds,step");
    assert_eq!(rows.len(), TRAJECTORY.len());
    for (row, (t, objective, violation, norm, tolerance)) in rows.iter().zip(TRAJECTORY) {
        assert_eq!(row[0], t.to_string());
        for (name, got, wanted) in [("objective", row[1], objective), ("violation", row[2], violation), ("norm", row[3], norm)] {
            let got: f64 = got.parse().unwrap();
            assert!((got - wanted).abs() <= tolerance, "{name} of iterate {t}: {got:?} against {wanted:?}");
        }
    }
}

#[test]
fn every_step_of_the_experiment_is_the_reference_step() {
    let (before, _) = EXPERIMENT.split_once("[budget]").unwrap();
    let text = trace(&format!("{before}[budget]\niterations = 1001\n[record]\nevery = 1\n"));
    let (_, rows) = cells(&text);
    assert_eq!(rows.len(), 1002);
    let letters: String = rows.iter().map(|r| if r[8].is_empty() { "-" } else { &r[8][..1] }).collect();
    assert_eq!(letters.replace('c', "g").replace('o', "f")[..121], *STEPS);
    assert_eq!(letters[..1001].matches('o').count(), 836);
    assert_eq!(letters[..1001].matches('c').count(), 165);
    assert_eq!(&letters[1001..], "-", "no step was made from the last iterate");
    // Constraints are visited once in every iteration and once more for their subgradient; f only on its own steps.
    for (t, row) in rows.iter().enumerate() {
        let objective_steps = letters[..t].matches('o').count();
        assert_eq!(row[4].parse::<f64>().unwrap(), objective_steps as f64, "passes_f of iterate {t}");
        assert_eq!(row[5].parse::<f64>().unwrap(), (2 * t - objective_steps) as f64, "passes_g of iterate {t}");
    }
}

/// The best known gaps under a bound on the hinge loss, and their multipliers: within 1%, and not below.
#[test]
fn the_bundle_reaches_the_best_known_gaps() {
    for (bound, best, multiplier) in [("0.36", 0.1053055, 6.672), ("0.35115684916647", 0.2091682, 38.742)] {
        let problem = Builder::new(adult::a9a().unwrap())
            .split(Split::Ordered)
            .minimize(ROC.parse().unwrap())
            .subject_to(format!("hinge <= {bound}").parse().unwrap())
            .build()
            .unwrap();
        let mut solver = Bundle::new(bundle::Settings::default()).unwrap();
        let outcome = minimize(&problem, &mut solver, &[0.0; COLUMNS], &Options::iterations(600), &mut ()).unwrap();
        let found = outcome.point.objective;
        let say = format!("{found} after {} steps, {:?}, {}", outcome.iterations, outcome.multipliers, outcome.ended);
        assert!(outcome.point.feasible, "{say}");
        assert!(found >= best - 1e-6 && found <= 1.01 * best, "{say}");
        assert!((outcome.multipliers.unwrap()[0] / multiplier - 1.0).abs() < 0.05, "{say}");
    }
}

/// The rows with other units in their columns.
fn with_columns(units: &[f64]) -> Data {
    let data = adult::a9a().unwrap();
    let (mut ptr, mut ids, mut values) = (vec![0_usize], vec![], vec![]);
    for i in 0..data.features.rows() {
        data.features.visit_row(i, |column, v| {
            ids.push(column as u32);
            values.push(v * units[column % units.len()]);
        });
        ptr.push(ids.len());
    }
    Data { features: Matrix::sparse(COLUMNS, ptr, ids, values).unwrap(), ..data }
}

/// The smallest hinge loss and the best known gap do not depend on factors of the terms and on the units of the columns.
#[test]
fn reference_values_do_not_depend_on_units() {
    const SMALLEST: f64 = 0.350_806_043_123_351_84;
    let (best_gap, multiplier) = (0.105_305_47, 6.6717);
    let mixed = [1e-6, 1.0, 1e3, 1e6, 1e-3];
    for (f, g, columns) in [
        (1e-6, 1e-6, &[1.0][..]),
        (1e6, 1e6, &[1.0]),
        (1e-6, 1e6, &[1.0]),
        (1.0, 1.0, &[1e-6]),
        (1.0, 1.0, &[1e6]),
        (1.0, 1.0, &mixed),
    ] {
        let say = format!("{f:e} {g:e} {columns:?}");
        let rows = with_columns(columns);
        let on = |objective: &str| Builder::new(rows.clone()).split(Split::Ordered).minimize(objective.parse().unwrap());
        let found = best(&on(&format!("{g:e} * hinge")).build().unwrap()).unwrap();
        assert!(found.lower <= g * SMALLEST && found.lower >= g * SMALLEST * (1.0 - 2e-7), "{say}: {found}");
        assert!(found.value >= g * SMALLEST * (1.0 - 1e-14) && found.value <= g * SMALLEST * (1.0 + 2e-7), "{say}: {found}");
        let problem = on(&format!("{f:e} * {ROC}")).subject_to(format!("{g:e} * hinge <= {:e}", g * 0.36).parse().unwrap());
        let problem = problem.build().unwrap();
        let mut solver = Bundle::new(bundle::Settings::default()).unwrap();
        let outcome = minimize(&problem, &mut solver, &[0.0; COLUMNS], &Options::iterations(600), &mut ()).unwrap();
        let gap = outcome.point.objective / f;
        assert!(outcome.point.feasible && outcome.point.violation <= 1e-6 * g, "{say}: {:?}", outcome.point.violation);
        assert_eq!(outcome.ended, StopReason::Finished, "{say}");
        assert!(gap >= best_gap - 1e-6 && gap <= 1.01 * best_gap, "{say}: {gap}");
        assert!((outcome.multipliers.unwrap()[0] * g / f / multiplier - 1.0).abs() < 0.05, "{say}");
    }
}

/// The objective with its variance and a factor, minimised by L-BFGS over a ball and with a regulariser.
#[test]
fn the_variance_of_a_loss_does_not_depend_on_units() {
    let all = adult::a9a().unwrap();
    let rows = all.select(&(0..32_561).collect::<Vec<_>>());
    for f in [1e-6, 1.0, 1e6] {
        let text = |more: &str| format!("{f:e} * logistic + {:e} * variance(logistic){more}", 0.05 * f);
        let on = |text: String| Builder::new(rows.clone()).minimize(text.parse().unwrap());
        for (problem, value) in [
            (on(text("")).domain(Ball::new(5.0).unwrap()), 0.336_135_839_778_977_6),
            (on(text("")).domain(Ball::new(2.0).unwrap()), 0.364_279_827_997_898_3),
            (on(text(&format!(" + {:e} * l2", 1e-4 * f))), 0.337_385_079_886_628_5),
        ] {
            let mut solver = Lbfgs::new(lbfgs::Settings::default()).unwrap();
            let outcome = minimize(&problem.build().unwrap(), &mut solver, &[0.0; COLUMNS], &quiet(1_000), &mut ()).unwrap();
            assert_eq!(outcome.ended, StopReason::Finished, "{f:e}");
            close(&format!("{f:e}"), outcome.point.objective / f, value, 1e-10);
        }
    }
}

/// The logistic loss with its variance, lambda 0.1, on all rows of the training file of a9a: full-batch MSPG with a step of 0.1 in x
/// and y from 0, by the problem's g, l and h. t, the joint function of x and y, the objective, y and the norm of x.
const INF_PROJECTION: [[f64; 5]; 5] = [
    [0.0, 0.7171698312558554, 0.6931471805599454, 0.0, 0.0],
    [1.0, 0.6691172061884814, 0.6485453244277225, 0.006862843371880647, 0.07204722587368248],
    [2.0, 0.6352813113550156, 0.6170962144293473, 0.013213675509315584, 0.13221437476921294],
    [10.0, 0.5378982481571157, 0.5270103963735919, 0.0551936403371581, 0.3991333453570479],
    [100.0, 0.40094294381181683, 0.4002436633652681, 0.27443612505699483, 1.3174463437066515],
];

#[test]
fn the_loss_with_its_variance_is_the_reference_inf_projection() {
    let all = adult::a9a().unwrap();
    let rows: Vec<usize> = (0..32_561).collect();
    let problem =
        Builder::new(all.select(&rows)).minimize("logistic + 0.05 * variance(logistic)".parse().unwrap()).build().unwrap();
    let pair = problem.inf_projection().unwrap();
    let (mut x, mut y, mut l) = (vec![0.0; COLUMNS], 0.0, [0.0]);
    let mut grad = vec![0.0; COLUMNS];
    let eta = 0.1;
    for t in 0..=100 {
        let g = pair.convex(&x, Pick::All, &mut grad).unwrap();
        pair.mapping(&x, Pick::All, &mut l).unwrap();
        if let Some([_, joint, value, wanted, norm]) = INF_PROJECTION.iter().find(|row| row[0] == f64::from(t)) {
            close(&format!("joint function, iterate {t}"), g + pair.power().value(y) - y * l[0], *joint, 1e-10);
            close(&format!("objective, iterate {t}"), objective(&problem, &x, &Draw::full()).0, *value, 1e-10);
            close(&format!("y, iterate {t}"), y, *wanted, 1e-10);
            close(&format!("norm, iterate {t}"), x.iter().map(|v| v * v).sum::<f64>().sqrt(), *norm, 1e-10);
        }
        pair.add_mapping_pull(&x, Pick::All, &[y], -1.0, &mut grad).unwrap();
        x.iter_mut().zip(&grad).for_each(|(x, d)| *x -= eta * d);
        y = pair.power().prox(y + eta * l[0], eta);
    }
}

/// Stages of SPG with all rows in every step, gamma = mu = 1, with the steps of the rule "smooth" and the output that the paper prints,
/// weights t of z_t: stage, objective, y and the norm of x. (For these steps the bound is proved for weights t + 1 of z_{t+1}, which
/// St-SPG takes.)
const STAGES: [[f64; 4]; 6] = [
    [2.0, 0.5607432877241939, 0.022276798577631096, 0.2881889034947299],
    [3.0, 0.5244978307991598, 0.05132264324317624, 0.41584872145911334],
    [5.0, 0.4777888188756134, 0.11058379571089147, 0.6335982618923652],
    [10.0, 0.4191299941317686, 0.22195459047458063, 1.0830955713820805],
    [20.0, 0.38203016131402406, 0.31986692998103694, 1.6215828710970872],
    [40.0, 0.36077823782468127, 0.3510486597527507, 2.1701799969445075],
];

fn quiet(steps: u64) -> Options {
    Options { record: Record::nothing(), ..Options::iterations(steps) }
}

/// The method itself, with lazy and with written iterates.
#[test]
fn mspg_goes_the_reference_way_through_all_rows() {
    let all = adult::a9a().unwrap();
    let rows: Vec<usize> = (0..32_561).collect();
    let problem =
        Builder::new(all.select(&rows)).minimize("logistic + 0.05 * variance(logistic)".parse().unwrap()).build().unwrap();
    let start = vec![0.0; COLUMNS];
    for iterates in [st_spg::Iterates::Dense, st_spg::Iterates::Lazy] {
        for [t, _, value, y, norm] in INF_PROJECTION {
            let mut solver = Mspg::new(mspg::Settings { growth: 1e9, iterates, ..mspg::Settings::default() }).unwrap();
            let outcome = minimize(&problem, &mut solver, &start, &quiet(t as u64), &mut ()).unwrap();
            close(&format!("objective, iteration {t}"), outcome.point.objective, value, 1e-10);
            close(&format!("y, iteration {t}"), solver.coupled()[0], y, 1e-10);
            close(&format!("norm, iteration {t}"), outcome.point.x.iter().map(|v| v * v).sum::<f64>().sqrt(), norm, 1e-10);
        }
    }
}

#[test]
fn stages_with_the_printed_output_go_the_reference_way() {
    let all = adult::a9a().unwrap();
    let rows: Vec<usize> = (0..32_561).collect();
    let problem =
        Builder::new(all.select(&rows)).minimize("logistic + 0.05 * variance(logistic)".parse().unwrap()).build().unwrap();
    let pair = problem.inf_projection().unwrap();
    let (mut x, mut y, mut l) = (vec![0.0; COLUMNS], 0.0, [0.0]);
    let (mut d, mut pull) = (vec![0.0; COLUMNS], vec![0.0; COLUMNS]);
    for k in 1..40_u32 {
        let (steps, total) = (k + 1, f64::from((k + 1) * (k + 2) / 2));
        pull.fill(0.0);
        pair.add_mapping_pull(&x, Pick::All, &[y], -1.0, &mut pull).unwrap();
        let (mut z, mut mean) = (x.clone(), vec![0.0; COLUMNS]);
        for t in (1..=steps).map(f64::from) {
            mean.iter_mut().zip(&z).for_each(|(m, z)| *m += t / total * z);
            pair.convex(&z, Pick::All, &mut d).unwrap();
            for (j, z) in z.iter_mut().enumerate() {
                *z = (x[j] + *z * (t + 1.0) / 3.0 - d[j] - pull[j]) / (1.0 + (t + 1.0) / 3.0);
            }
        }
        x = mean;
        pair.mapping(&x, Pick::All, &mut l).unwrap();
        let (mut z, mut mean) = (y, 0.0);
        for t in (1..=steps).map(f64::from) {
            mean += t / total * z;
            z = pair.power().clip((y + z * (t + 1.0) / 3.0 - (pair.power().slope(z) - l[0])) / (1.0 + (t + 1.0) / 3.0));
        }
        y = mean;
        if let Some([_, value, wanted, norm]) = STAGES.iter().find(|row| row[0] == f64::from(k + 1)) {
            close(&format!("objective, stage {}", k + 1), objective(&problem, &x, &Draw::full()).0, *value, 1e-10);
            close(&format!("y, stage {}", k + 1), y, *wanted, 1e-10);
            close(&format!("norm, stage {}", k + 1), x.iter().map(|v| v * v).sum::<f64>().sqrt(), *norm, 1e-10);
        }
    }
}
