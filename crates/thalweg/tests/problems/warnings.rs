//! Warnings of a fit: training that did not converge, models that predict no better than a constant, groups too small for their
//! bound, and features that give the label away.

use thalweg::Note;
use thalweg::learn::{Data, Degeneracy, FitOptions, Fitted, Groups, Learning, RowCount, fit, training_config};
use thalweg::math::Matrix;
use thalweg::math::rng::{Purpose, Rng};
use thalweg::run::{Budget, StopReason};
use thalweg::solvers::SolverName;

/// Rows of two columns, the first of which predicts the label; a share of the labels is positive.
fn data(rows: usize, positive: f64, signal: f64, groups: &[usize]) -> Data {
    let mut rng = Rng::new(3, Purpose::Data);
    let labels: Vec<f64> = (0..rows).map(|_| if rng.uniform() < positive { 1.0 } else { -1.0 }).collect();
    let values = labels.iter().flat_map(|y| [signal * y + 2.0 * rng.uniform() - 1.0, 2.0 * rng.uniform() - 1.0]).collect();
    // Group k has groups[k] of the rows, the last one the rest.
    let mut of_row = vec![groups.len() as u32; rows];
    let mut next = 0;
    for (k, &size) in groups.iter().enumerate() {
        of_row[next..next + size].fill(k as u32);
        next += size;
    }
    let names = (0..=groups.len()).map(|k| format!("group {k}")).collect();
    Data { features: Matrix::dense(rows, 2, values).unwrap(), labels, groups: Some(Groups { names, of_row }), weights: None }
}

fn problem(data: Data, minimize: &str, subject_to: &[&str]) -> Learning {
    let builder = Learning::on(data).intercept(true).minimize(minimize.parse().unwrap());
    subject_to.iter().fold(builder, |b, c| b.subject_to(c.parse().unwrap())).build().unwrap()
}

fn train(problem: &mut Learning, options: &FitOptions) -> Fitted {
    fit(problem, &[0.0; 3], options, &mut ()).unwrap()
}

fn warnings(fitted: &Fitted) -> Vec<&Note> {
    fitted.notes.iter().filter(|note| note.is_warning()).collect()
}

#[test]
fn a_good_model_has_no_warnings() {
    let fitted =
        train(&mut problem(data(2000, 0.4, 0.5, &[900]), "logistic", &["demographic_parity <= 0.1"]), &FitOptions::default());
    assert!(fitted.feasible && warnings(&fitted).is_empty(), "{:?}", fitted.notes);
}

#[test]
fn a_run_that_is_cut_short_did_not_converge() {
    let mut p = problem(data(2000, 0.4, 0.5, &[900]), "logistic", &[]);
    let short = FitOptions { budget: Budget::iterations(3), ..FitOptions::default() };
    let fitted = train(&mut p, &short);
    assert!(matches!(fitted.ended, StopReason::Budget(_)));
    let [note @ Note::NotConverged { ended }] = warnings(&fitted)[..] else { panic!("{:?}", fitted.notes) };
    assert_eq!(*ended, fitted.ended);
    let text = "training did not converge (stopped at the iteration limit); allow more iterations or time";
    assert_eq!(note.to_string(), text);
    let json = serde_json::json!(note);
    assert_eq!((&json["kind"], &json["warning"]), (&"not-converged".into(), &true.into()));
    assert_eq!(serde_json::from_value::<Note>(json).unwrap(), *note);
    // A solver without a stopping criterion uses the whole budget as planned.
    let switching =
        FitOptions { solver: Some(training_config(SolverName::Ssg)), budget: Budget::iterations(400), ..FitOptions::default() };
    let fitted = train(&mut p, &switching);
    assert!(matches!(fitted.ended, StopReason::Budget(_)) && warnings(&fitted).is_empty(), "{:?}", fitted.notes);
}

#[test]
fn models_that_are_no_better_than_a_constant_are_named() {
    let degenerate = |fitted: &Fitted| match warnings(fitted)[..] {
        [Note::DegenerateModel { cause }] => *cause,
        _ => panic!("{:?}", fitted.notes),
    };
    // Labels without a relation to the columns: the constant score is as good.
    let noise = train(&mut problem(data(500, 0.3, 0.0, &[]), "logistic + l2", &[]), &FitOptions::default());
    let Degeneracy::ConstantScore { objective, constant, score } = degenerate(&noise) else { panic!("{:?}", noise.notes) };
    let share = {
        let labels = data(500, 0.3, 0.0, &[]).labels;
        labels.iter().filter(|y| **y > 0.0).count() as f64 / 500.0
    };
    let entropy = -share * share.ln() - (1.0 - share) * (1.0 - share).ln();
    assert!((constant - entropy).abs() < 1e-9 && (score - (share / (1.0 - share)).ln()).abs() < 1e-9);
    assert!(objective > constant - 1e-3);
    // Few positive labels and a weak signal: the model gains a little, but predicts the same of nearly all rows.
    let rare = train(&mut problem(data(3000, 0.04, 0.2, &[]), "logistic", &[]), &FitOptions::default());
    let Degeneracy::NearlyConstant { rarer, rows, positive, label_share } = degenerate(&rare) else { panic!("{:?}", rare.notes) };
    assert!((rarer as f64) < 0.05 * label_share * 3000.0 && rows == 3000 && positive && label_share < 0.06);
    assert!(warnings(&rare)[0].to_string().starts_with("the predictions are nearly constant: "));
}

#[test]
fn small_groups_are_listed_with_the_uncertainty_of_their_rates() {
    let counted = RowCount::of([2.0, 0.0, 3.0].into_iter());
    assert_eq!((counted.rows, counted.effective), (5, 5.0), "whole weights are repeated rows");
    let counted = RowCount::of([0.5, 1.5, 0.0].into_iter());
    assert_eq!((counted.rows, counted.effective), (2, 1.6));
    let sizes =
        |constraints: &[&str], groups: &[usize]| problem(data(6000, 0.4, 0.5, groups), "logistic", constraints).group_notes();
    assert_eq!(sizes(&["demographic_parity <= 0.05"], &[2000]).unwrap(), []);
    let notes = sizes(&["demographic_parity <= 0.05", "logistic <= 0.6"], &[40, 2000]).unwrap();
    let [Note::SmallGroups { constraint, bound, groups }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((constraint.as_str(), *bound, groups.len()), ("demographic_parity", 0.05, 1));
    assert_eq!((groups[0].group.as_str(), groups[0].label, groups[0].rows), ("group 0", None, 40));
    // SciPy: binomtest(20, 40).proportion_ci(0.95) = (0.338, 0.662).
    assert!((groups[0].uncertainty - 0.162).abs() < 1e-3, "{groups:?}");
    // Equalised odds counts the rows of either label; a factor divides the bound.
    let notes = sizes(&["2 * equalized_odds <= 0.12"], &[500]).unwrap();
    let [Note::SmallGroups { bound, groups, .. }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((*bound, groups.len()), (0.06, 1));
    assert!(groups[0].label == Some(1) && groups[0].rows < 260, "{groups:?}");
    assert!(notes[0].to_string().contains("'group 0' with positive label ("), "{}", notes[0]);
    // They are notes of the fit too.
    let fitted =
        train(&mut problem(data(600, 0.4, 0.5, &[30]), "logistic", &["demographic_parity <= 0.1"]), &FitOptions::default());
    assert!(matches!(warnings(&fitted)[0], Note::SmallGroups { .. }), "{:?}", fitted.notes);
}

#[test]
fn very_many_groups_are_a_warning() {
    let notes = |groups: usize| {
        let p = problem(data(6000, 0.4, 0.5, &vec![90; groups - 1]), "logistic", &["demographic_parity <= 0.5"]);
        p.group_notes().unwrap()
    };
    assert_eq!(notes(50), []);
    assert_eq!(notes(51), [Note::ManyGroups { groups: 51 }]);
}

#[test]
fn features_that_give_the_label_away_are_found() {
    let mut data = data(400, 0.4, 0.3, &[]);
    let labels = data.labels.clone();
    // The second column is the label with one error, the first is no more than informative.
    let values =
        (0..400).flat_map(|i| [data.features.row_dot(i, &[1.0, 0.0]), if i == 7 { 3.0 * labels[i] } else { -3.0 * labels[i] }]);
    data.features = Matrix::dense(400, 2, values.collect()).unwrap();
    for matrix in [data.features.clone(), sparse(&data.features)] {
        let p = problem(Data { features: matrix, ..data.clone() }, "logistic", &[]);
        let found = p.features_that_give_the_label_away();
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [1]);
        assert!(found[0].1 > 0.99 && found[0].1 < 1.0, "{found:?}");
    }
    let p = problem(Data { features: Matrix::dense(400, 1, labels).unwrap(), ..data }, "logistic", &[]);
    assert_eq!(p.features_that_give_the_label_away(), [(0, 1.0)]);
}

/// The same matrix in compressed rows.
fn sparse(dense: &Matrix) -> Matrix {
    let (mut starts, mut columns, mut values) = (vec![0], vec![], vec![]);
    for i in 0..dense.rows() {
        dense.visit_row(i, |c, v| {
            if v != 0.0 {
                columns.push(c as u32);
                values.push(v);
            }
        });
        starts.push(columns.len());
    }
    Matrix::sparse(dense.cols(), starts, columns, values).unwrap()
}
