//! What the tests of several solvers share. Each file uses its own part of this.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)] // helpers of tests may give up like tests

use std::time::Duration;

use thalweg::certify::{self, Certificate};
use thalweg::learn::{Data, Groups, Learning};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::oracle::{Problem, Subgradients};
use thalweg::run::{self, Checkpoint, Options, Outcome, Record};
use thalweg::sets::{Ball, Bounds};
use thalweg::solvers::FirstOrder;
use thalweg_lab::check::check;
use thalweg_lab::proof::Proof;

/// Certifies a point. The independent checker of the command has to confirm the certificate from its record.
#[track_caller]
pub fn certify(problem: &dyn Subgradients, x: &[f64], how: &certify::Bounds) -> thalweg::Result<Certificate> {
    let plain = certify::certify(problem, x, how);
    let (found, record) = match certify::certify_with_record(problem, x, how) {
        Ok(recorded) => recorded,
        Err(e) => {
            assert_eq!(plain.unwrap_err(), e);
            return Err(e);
        }
    };
    assert_eq!(plain.unwrap(), found, "a record must not change the certificate");
    let proof = Proof::new(problem.fingerprint(), x, Some((&found, record)), None).unwrap();
    let verdict = check(proof.to_json().unwrap().as_bytes()).unwrap();
    assert!(verdict.confirmed, "{}: {:?}", verdict.sentence, verdict.refusals);
    Ok(found)
}

/// f = -x1 - x2 in the unit disc with x1 <= 0.5: solution (0.5, 0.8660254), multipliers 0.5773503 and 0.4226497.
pub fn disc() -> Problem {
    Problem::new(2)
        .objective(|x| -x[0] - x[1], |_, s| s.fill(-1.0))
        .constraint(
            "disc",
            |x| x[0] * x[0] + x[1] * x[1] - 1.0,
            |x, s| {
                s[0] = 2.0 * x[0];
                s[1] = 2.0 * x[1];
            },
        )
        .constraint("half", |x| x[0] - 0.5, |_, s| s[0] = 1.0)
        .domain(Ball::new(2.0).unwrap())
        .weak_convexity(0.0, 0.0)
}

/// f = -x^2 / 2 (weakly convex with constant 1), g = x - 1 on [-5, 5].
pub fn hill() -> Problem {
    Problem::new(1)
        .objective(|x| -x[0] * x[0] / 2.0, |x, s| s[0] = -x[0])
        .constraint("at most one", |x| x[0] - 1.0, |_, s| s[0] = 1.0)
        .domain(Bounds::uniform(-5.0, 5.0).unwrap())
        .weak_convexity(1.0, 0.0)
}

/// A learning problem with two groups and two constraints, one of them weakly convex.
pub fn learning(rows: usize) -> Learning {
    let mut rng = Rng::new(21, Purpose::Data);
    let data = Data {
        features: Matrix::dense(rows, 5, (0..5 * rows).map(|_| rng.uniform() - 0.5).collect()).unwrap(),
        labels: (0..rows).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect(),
        groups: Some(Groups { names: vec!["p".into(), "u".into()], of_row: (0..rows as u32).map(|i| i % 2).collect() }),
        weights: None,
    };
    Learning::on(data)
        .minimize("logistic + 0.01 * l1".parse().unwrap())
        .subject_to("demographic_parity <= 0.01".parse().unwrap())
        .subject_to("hinge <= 0.9".parse().unwrap())
        .domain(Ball::new(5.0).unwrap())
        .build()
        .unwrap()
}

pub fn solve(problem: &dyn Subgradients, mut solver: Box<FirstOrder<'static>>, x: &[f64], options: &Options) -> Outcome {
    run::minimize(problem, &mut *solver, x, options, &mut ()).unwrap()
}

/// Everything but the time, as bits.
pub fn bits(outcome: &Outcome) -> String {
    let mut outcome = outcome.clone();
    outcome.seconds = 0.0;
    outcome.trace.iter_mut().for_each(|r| r.seconds = 0.0);
    outcome.notes.clear();
    format!("{outcome:?} {:?}", outcome.point.x.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
}

/// Makes a solver, the same one each time.
pub type Make<'a> = &'a dyn Fn() -> Box<FirstOrder<'static>>;

/// A run that ends at odd places, is saved, loaded and continued against one that is not.
pub fn continues_bit_for_bit(name: &str, solvers: &[Make]) {
    continues_bit_for_bit_on(&learning(120), &[0.1; 5], name, solvers);
}

/// [`continues_bit_for_bit`] on any problem.
pub fn continues_bit_for_bit_on(problem: &dyn Subgradients, start: &[f64], name: &str, solvers: &[Make]) {
    continues_bit_for_bit_at(&[1, 37, 38, 131, 230], 10, problem, start, name, solvers);
}

/// [`continues_bit_for_bit`] on any problem, with runs that end at these iterations and record every few of them. The last one must
/// come before the method finishes.
pub fn continues_bit_for_bit_at(
    stops: &[u64],
    every: u64,
    problem: &dyn Subgradients,
    start: &[f64],
    name: &str,
    solvers: &[Make],
) {
    let last = stops[stops.len() - 1];
    let folder = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (k, solver) in solvers.iter().enumerate() {
        let whole = Options { record: Record { every: Some(every), ..Record::default() }, seed: 3, ..Options::iterations(last) };
        let want = solve(problem, solver(), start, &whole);
        let plan = Checkpoint {
            file: folder.join(format!("{k}.save")),
            every: Duration::from_secs(3600),
            resume: true,
            settings: "s".into(),
        };
        let record = Record { at: Some((0..=last).step_by(every as usize).collect()), ..Record::default() };
        let mut got = None;
        for &stop in stops {
            let checkpoint = Some(plan.clone());
            let options = Options { checkpoint, record: record.clone(), seed: 3, ..Options::iterations(stop) };
            got = Some(solve(problem, solver(), start, &options));
        }
        assert_eq!(bits(&got.unwrap()), bits(&want), "variant {k}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The bits of the result must not depend on the number of threads.
pub fn same_bits_on_two_threads(solvers: &[Make]) {
    let problem = learning(9_000);
    for solver in solvers {
        let run = |threads| {
            let options = Options { threads, record: Record { every: Some(7), ..Record::default() }, ..Options::iterations(60) };
            bits(&solve(&problem, solver(), &[0.0; 5], &options))
        };
        assert_eq!(run(1), run(2));
    }
}
