//! Reference values of convex expressions: values worked by hand, what bounds, thresholds, balls and held-out rows make of
//! them, and refusals.

use thalweg::learn::{Best, Builder, Data, Groups, Learning, Split, best};
use thalweg::math::Matrix;
use thalweg::oracle::Description;
use thalweg::run::measure;

/// Rows of one column with their labels; groups by turns.
fn column(rows: &[(f64, f64)]) -> Data {
    table(1, &rows.iter().map(|(a, _)| *a).collect::<Vec<_>>(), &rows.iter().map(|(_, y)| *y).collect::<Vec<_>>())
}

fn table(cols: usize, features: &[f64], labels: &[f64]) -> Data {
    Data {
        features: Matrix::dense(labels.len(), cols, features.to_vec()).unwrap(),
        labels: labels.to_vec(),
        groups: Some(Groups { names: vec!["a".into(), "b".into()], of_row: (0..labels.len()).map(|i| i as u32 % 2).collect() }),
        weights: None,
    }
}

/// `(2 max(0, 1 - w) + max(0, 1 + w) + max(0, 1 - w / 2)) / 4` falls to 0.625 at w = 1 and rises from there.
const KINK: &[(f64, f64)] = &[(1.0, 1.0), (1.0, 1.0), (1.0, -1.0), (0.5, 1.0)];

fn build(data: Data, minimize: &str, subject_to: &[&str]) -> Builder {
    let builder = Learning::on(data).minimize(minimize.parse().unwrap());
    subject_to.iter().fold(builder, |b, c| b.subject_to(c.parse().unwrap()))
}

#[track_caller]
fn near(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance, "{got} is not {want}");
}

#[track_caller]
fn check(found: &Best, value: f64, minimizer: &[f64]) {
    near(found.value, value, 2e-7 * value.max(1e-3));
    assert!(found.lower <= value + 1e-12 && found.value >= found.lower, "{found:?}");
    near(found.lower, value, 2e-7 * value.max(1e-3));
    // A value that is nearly the smallest is reached a little before the minimiser.
    found.minimizer.iter().zip(minimizer).for_each(|(got, want)| near(*got, *want, 1e-3));
    assert_eq!(found.minimizer.len(), minimizer.len());
    near(found.norm, minimizer.iter().map(|v| v * v).sum::<f64>().sqrt(), 1e-3);
    assert!(found.evaluations > 0);
}

#[test]
fn smallest_values_are_those_worked_by_hand() {
    let of = |data: Data, expression: &str| best(&build(data, expression, &[]).build().unwrap()).unwrap();
    check(&of(column(KINK), "hinge"), 0.625, &[1.0]);
    assert_eq!(of(column(KINK), "hinge").expression, "hinge");
    near(of(column(KINK), "hinge").scores[0], 0.5, 1e-6);
    near(of(column(KINK), "hinge").scores[1], 1.0, 1e-6);
    // Separable: every w >= 1 has no loss, 1 is the shortest.
    check(&of(column(&[(1.0, 1.0), (2.0, 1.0), (-1.0, -1.0)]), "hinge"), 0.0, &[1.0]);
    // Flat between -1 and 1.
    check(&of(column(&[(1.0, 1.0), (1.0, -1.0)]), "hinge"), 1.0, &[0.0]);
    // max(0, 1 - w) + w^2 at w = 1/2.
    check(&of(column(&[(1.0, 1.0)]), "hinge + 2 * l2"), 0.75, &[0.5]);
    // Three of four: the entropy, at log 3.
    let entropy = -(0.75 * 0.75_f64.ln() + 0.25 * 0.25_f64.ln());
    let three = [(1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, -1.0)];
    check(&of(column(&three), "logistic"), entropy, &[3.0_f64.ln()]);
    check(&of(column(&three), "hinge(on = 'positives')"), 0.0, &[1.0]);
    check(&of(column(&three), "l1 + l2"), 0.0, &[0.0]);
    // Two columns that no row has together: (1, 1), where only two of the last three rows are right.
    let two = table(2, &[1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0], &[1.0, 1.0, 1.0, -1.0]);
    check(&of(two, "hinge"), 0.5, &[1.0, 1.0]);
    // The intercept is a variable like the others: with w = b = 1/2 the row of 1 has score 1, and nothing shorter does.
    let one = build(column(&[(1.0, 1.0)]), "hinge", &[]).intercept(true).build().unwrap();
    check(&best(&one).unwrap(), 0.0, &[0.5, 0.5]);
}

#[test]
fn only_the_rows_of_losses_count() {
    // Of six rows the first four serve losses.
    let rows = [KINK, &[(100.0, -1.0), (-100.0, 1.0)]].concat();
    let problem = build(column(&rows), "demographic_parity", &["hinge <= 2 * best(hinge)"]).split(Split::Ordered);
    let problem = problem.needs_erm(true).build().unwrap();
    check(problem.erm().unwrap(), 0.625, &[1.0]);
    near(problem.erm().unwrap().scores[1], 1.0, 1e-6);
    // A row of weight 0 is as good as absent.
    let weights = Some(vec![1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    let problem = build(Data { weights, ..column(&rows) }, "hinge", &[]).needs_erm(true).build().unwrap();
    check(problem.erm().unwrap(), 0.625, &[1.0]);
    near(problem.erm().unwrap().scores[0], 0.5, 1e-6);
}

#[test]
fn bounds_are_multiples_of_reference_values_plus_numbers() {
    let constraints = [
        "hinge <= 1.2 * best(hinge)",
        "logistic <= best(hinge) + 0.5",
        "l2 <= best(hinge + 2 * l2)",
        "l1 <= 3",
        "hinge <= best(hinge)",
    ];
    let problem = build(column(KINK), "l2", &constraints).build().unwrap();
    near(problem.bound(0), 0.75, 1e-6);
    near(problem.bound(1), 1.125, 1e-6);
    near(problem.bound(3), 3.0, 0.0);
    // Each distinct expression was computed once, in the order of the constraints.
    let found: Vec<&str> = problem.references().iter().map(|b| b.expression.as_str()).collect();
    assert_eq!(found, ["hinge", "hinge + 2 * l2"]);
    assert_eq!(problem.bound(2), problem.references()[1].value);
    assert_eq!(problem.bound(4), problem.references()[0].value);
    assert_eq!(problem.constraint_name(0), "hinge");
    assert_eq!(problem.constraint_name(4), "hinge (2)");
    assert!(problem.erm().is_none(), "nothing asked for it");
    // The minimiser keeps the bound that is its own value.
    let x = &problem.references()[0].minimizer;
    assert!(measure(&problem, x, 1e-6).unwrap().constraints[4].satisfied);
}

#[test]
fn without_words_for_them_nothing_is_computed() {
    let problem = build(column(KINK), "hinge", &["l2 <= 1"]).build().unwrap();
    assert!(problem.references().is_empty() && problem.erm().is_none());
}

#[test]
fn thresholds_reach_beyond_the_scores_of_the_minimiser() {
    // Scores from 0.5 to 1: thresholds from 0.25 to 1.25.
    for (words, numbers) in [
        ("low = 'erm', high = 'erm'", "low = 0.25, high = 1.25"),
        ("low = 'erm', high = 3", "low = 0.25, high = 3"),
        ("low = -1, high = 'erm'", "low = -1, high = 1.25"),
    ] {
        let term = |range: &str| format!("roc_gap(thresholds = 3, {range}, temperature = 0.1)");
        let words = build(column(KINK), &term(words), &["hinge <= 1"]).build().unwrap();
        let numbers = build(column(KINK), &term(numbers), &["hinge <= 1"]).build().unwrap();
        for x in [[-1.0], [0.7], [2.0]] {
            let value = |problem| measure(problem, &x, 0.0).unwrap().objective;
            near(value(&words), value(&numbers), 1e-5);
        }
        // The numbers tell problems apart; people see their own words.
        assert!(!words.fingerprint().contains("erm"), "{}", words.fingerprint());
    }
    let constraint = build(column(KINK), "hinge", &["roc_gap(low = 'erm', high = 'erm') <= 0.5"]).build().unwrap();
    assert_eq!(constraint.constraint_name(0), "roc_gap(low = \"erm\", high = \"erm\")");
}

#[test]
fn balls_are_multiples_of_the_norm_of_the_minimiser() {
    let two = || table(2, &[1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0], &[1.0, 1.0, 1.0, -1.0]);
    let problem = build(two(), "hinge", &[]).domain_times_erm(5.0).build().unwrap();
    near(problem.domain().diameter(2), 10.0 * 2.0_f64.sqrt(), 1e-3);
    assert_eq!(problem.domain().diameter(2), 10.0 * problem.erm().unwrap().norm);
    let refusal = |builder: Builder| builder.build().unwrap_err().to_string();
    let flat = column(&[(1.0, 1.0), (1.0, -1.0)]);
    for times in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refusal = refusal(build(flat.clone(), "hinge", &[]).domain_times_erm(times));
        assert!(refusal.contains("ball_times_erm must be a finite number larger than 0, got "), "{refusal}");
    }
}

#[test]
fn the_loss_is_the_one_in_a_bound_or_else_the_first_over_all_rows() {
    let erm = |minimize: &str, subject_to: &[&str]| {
        let problem = build(column(KINK), minimize, subject_to).needs_erm(true).build().unwrap();
        problem.erm().unwrap().expression.clone()
    };
    assert_eq!(erm("hinge + 0.02 * scad", &["demographic_parity <= 0.1"]), "hinge");
    assert_eq!(erm("logistic", &["2 * hinge + l1 <= 5"]), "hinge");
    assert_eq!(erm("logistic", &["l2 <= 2 * best(l2) + 1"]), "logistic");
    assert_eq!(erm("hinge", &["l2 <= best(l1) + 1", "l2 <= best(logistic + 0.5 * l2)"]), "logistic + 0.5 * l2");
    assert_eq!(erm("logistic(on = 'positives')", &["logistic(on = 'negatives') <= 5", "hinge <= 5"]), "hinge");
    let refusal = |minimize: &str, subject_to: &[&str]| {
        build(column(KINK), minimize, subject_to).needs_erm(true).build().unwrap_err().to_string()
    };
    for (minimize, constraint) in [
        ("l2", "demographic_parity <= 0.1"),
        ("logistic(on = 'positives')", "logistic(on = 'negatives') <= 5"),
        ("roc_gap(low = 'erm', high = 3)", "l2 <= best(l1) + 1"),
    ] {
        let refusal = refusal(minimize, &[constraint]);
        assert!(
            refusal.contains("\"erm\" means the minimiser of the problem's loss, but it has none; expected hinge"),
            "{refusal}"
        );
    }
}

#[test]
fn held_out_rows_are_measured_against_the_values_of_training() {
    let constraints = ["hinge <= 1.2 * best(hinge)", "roc_gap(low = 'erm', high = 'erm') <= 0.5"];
    let trained = build(column(KINK), "l2", &constraints).domain_times_erm(5.0).build().unwrap();
    let others = column(&[(3.0, 1.0), (4.0, -1.0), (9.0, 1.0), (1.0, -1.0)]);
    let held = build(others.clone(), "l2", &constraints).domain_times_erm(5.0).references(trained.references().to_vec());
    let held = held.build().unwrap();
    assert_eq!(held.references(), trained.references());
    assert_eq!((held.bound(0), held.bound(1)), (trained.bound(0), trained.bound(1)));
    let words = |p: &Learning| p.fingerprint().split(", data").next().unwrap().to_string();
    assert_eq!(words(&held), words(&trained));
    let own = build(others.clone(), "l2", &constraints).domain_times_erm(5.0).build().unwrap();
    assert_ne!(own.bound(0), trained.bound(0));
    // References of a model with another number of variables.
    let wider = build(others, "l2", &constraints).intercept(true).references(trained.references().to_vec());
    assert_eq!(wider.build().unwrap_err().to_string(), "the minimiser of best(hinge) has 1 entries; expected 2");
}

#[test]
fn what_cannot_be_a_reference_value_is_refused() {
    for (constraint, part) in [
        (
            "l2 <= best(demographic_parity)",
            "best(demographic_parity) cannot be computed, because demographic_parity is not convex",
        ),
        ("l2 <= 2 * best(hinge + 0.02 * scad)", "best(hinge + 0.02 * scad) cannot be computed"),
        ("l2 <= best(roc_gap(low = -1, high = 1))", "expected a sum of hinge, logistic, l2 and l1"),
        ("l2 <= best(roc_gap(low = 'erm', high = 1))", "low of roc_gap must be a number inside best(…), got \"erm\""),
        ("l2 <= best(hing)", "term must be one of hinge, "),
        ("l2 <= best(hing)", "got 'hing'"),
        ("hinge <= 0.9 * best(hinge)", "'hinge <= 0.9 * best(hinge)', with a bound of 0.5625"),
        ("hinge <= best(hinge) + -0.1", "can never hold: hinge is never below 0.62"),
        ("l2 <= best(hinge) + -1", "can never hold: l2 is never below 0"),
        ("l2 <= 1e308 * best(hinge) + 1.7e308", "bound must be a finite number, got "),
        ("l2 <= 1e308 * best(hinge) + 1.7e308", "which is inf"),
    ] {
        let refusal = build(column(KINK), "hinge", &[constraint]).build().unwrap_err().to_string();
        assert!(refusal.contains(part), "{constraint}: {refusal}");
    }
    for (minimize, part) in [
        ("hinge + roc_gap(low = 'erm', high = -5)", "low of roc_gap must be "),
        ("hinge + roc_gap(low = 'erm', high = -5)", "got 0.2"),
        ("hinge + roc_gap(low = 'erm', high = 'arm')", "high of roc_gap must be a number or \"erm\", got \"arm\""),
        ("hinge + roc_gap(low = 'erm')", "high of roc_gap must be a number or \"erm\", got nothing"),
        ("hinge + roc_gap(low = 0, high = 1, temperature = 'erm')", "temperature of roc_gap must be a number, got \"erm\""),
    ] {
        let refusal = build(column(KINK), minimize, &[]).build().unwrap_err().to_string();
        assert!(refusal.contains(part), "{minimize}: {refusal}");
    }
    let constrained = build(column(KINK), "hinge", &["l2 <= 1"]).build().unwrap();
    assert!(best(&constrained).unwrap_err().to_string().contains("best(hinge) is asked of a problem with constraints"));
    let flat = build(column(&[(1.0, 1.0), (1.0, -1.0)]), "l1 + hinge", &["hinge <= 2 * best(l1 + hinge)"]);
    let refusal = flat.domain_times_erm(5.0).build().unwrap_err().to_string();
    assert!(refusal.contains("the domain would be a point: ball_times_erm = 5, but the minimiser"), "{refusal}");
}

#[test]
fn words_are_checked_without_computing() {
    let check = |minimize: &str, constraint: &str| build(column(KINK), minimize, &[constraint]).domain_times_erm(5.0).check();
    // Whether these can hold depends on the value.
    check("hinge", "hinge <= 0.5 * best(hinge) + 0.4").unwrap();
    check("roc_gap(low = 'erm', high = -5)", "hinge <= best(hinge) + -0.1").unwrap();
    for (minimize, constraint, part) in [
        ("hing", "hinge <= best(hinge)", "did you mean hinge?"),
        ("hinge", "l2 <= best(scad)", "not convex"),
        ("l2", "l1 <= 3", "\"erm\" means the minimiser"),
        ("hinge", "l2 <= -1", "can never hold"),
    ] {
        let refusal = check(minimize, constraint).unwrap_err().to_string();
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[test]
fn a_reference_value_is_told_in_words() {
    let found = Best {
        expression: "hinge".into(),
        value: 0.350_806_04,
        lower: 0.350_806_01,
        minimizer: vec![3.0, 4.0],
        norm: 5.0,
        scores: [-1.0, 1.0],
        evaluations: 412,
    };
    assert_eq!(found.to_string(), "best(hinge) = 0.350806 (proved to 1e-7), least norm 5.000000, 412 evaluations");
    let wide = Best { lower: 0.3, ..found };
    assert!(wide.to_string().starts_with("best(hinge) = 0.350806 (proved to be at least 0.300000), "), "{wide}");
}

#[test]
fn a_problem_beside_another_has_its_rows_its_references_and_its_meaning_of_erm() {
    let words = ["logistic <= 1.5 * best(logistic + 0.1 * l2)"];
    let gap = "roc_gap(thresholds = 5, low = 'erm', high = 'erm')";
    let features: Vec<f64> = (0..180).map(|i| (f64::from(i) * 1.7).sin()).collect();
    let labels: Vec<f64> = (0..60).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
    for split in [Split::Shuffle(4), Split::Ordered, Split::Shared] {
        let problem = build(table(3, &features, &labels), gap, &words).split(split).intercept(true).build().unwrap();
        // No loss in its words: what "erm" means is settled by the other problem. With another loss it still is.
        for more in [[].as_slice(), &["hinge <= 100"]] {
            let builder = problem.on_same_data().minimize(gap.parse().unwrap());
            let beside = more.iter().fold(builder, |builder, more| builder.subject_to(more.parse().unwrap())).build().unwrap();
            let x = [0.3, -0.2, 0.5, 0.1];
            let [own, other] = [&problem, &beside].map(|p| measure(p, &x, 0.0).unwrap().objective);
            assert_eq!(own.to_bits(), other.to_bits(), "{split:?}");
            assert_eq!(beside.references(), problem.references());
            assert!(std::ptr::eq(beside.data(), problem.data()), "the rows are not copied");
        }
    }
}
