//! The trace of a run as CSV: one row per recorded iterate, with 17 significant digits, so that it can be read back exactly.

use std::fmt::Write as _;

use thalweg::run::Row;
use thalweg::solvers::StepKind;

use crate::data::table::quote_cell;
use crate::output::CROWD;

/// Formats a trace. Columns with `stationarity` in their names are present only if some row has them, `violated` only if there
/// are too many constraints to list. The metrics named in `metrics` come last.
pub fn csv(rows: &[Row], metrics: &[String]) -> String {
    type Optional = (&'static str, fn(&Row) -> Option<f64>);
    let optional: [Optional; 4] = [
        ("stationarity_lower", |r| r.stationarity_bounds.map(|(lower, _)| lower)),
        ("stationarity_upper", |r| r.stationarity_bounds.map(|(_, upper)| upper)),
        ("stationarity", |r| r.stationarity),
        ("penalty_stationarity", |r| r.penalty_stationarity),
    ];
    // With very many constraints, rows have only the largest value.
    let crowd = |r: &Row| r.constraints.len() > CROWD || (r.constraints.is_empty() && r.violation > f64::NEG_INFINITY);
    let crowded = rows.iter().any(crowd);
    let optional: Vec<Optional> = optional.into_iter().filter(|(_, get)| rows.iter().any(|r| get(r).is_some())).collect();
    let mut text = String::from("iteration,objective,violation,norm,passes_f,passes_g,samples,seconds,step");
    if crowded {
        text += ",violated";
    }
    optional.iter().for_each(|(name, _)| text = format!("{text},{name}"));
    metrics.iter().for_each(|name| text = format!("{text},{}", quote_cell(name)));
    text.push('\n');
    for r in rows {
        let numbers = [r.objective, r.violation, r.norm, r.passes_f, r.passes_g].map(digits).join(",");
        let step = match r.step {
            Some(StepKind::Objective) => "objective",
            Some(StepKind::Constraint) => "constraint",
            Some(StepKind::Other) | None => "",
        };
        // Writing to a String cannot fail.
        let _ = write!(text, "{},{numbers},{},{},{step}", r.iteration, r.samples, digits(r.seconds));
        if crowded {
            let _ = write!(text, ",{}", r.violated);
        }
        for (_, get) in &optional {
            let _ = write!(text, ",{}", get(r).map_or(String::new(), digits));
        }
        for i in 0..metrics.len() {
            let _ = write!(text, ",{}", r.metrics.get(i).copied().map_or(String::new(), digits));
        }
        text.push('\n');
    }
    text
}

/// Formats a number with 17 significant digits.
pub(crate) fn digits(v: f64) -> String {
    format!("{v:.16e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_exactly() {
        for v in [0.1, 1.0 / 3.0, -5e-324, 1.797e308, 0.0, f64::NEG_INFINITY] {
            assert_eq!(digits(v).parse::<f64>().unwrap().to_bits(), v.to_bits(), "{v}");
        }
    }

    #[test]
    fn steps_are_words_and_the_last_is_empty() {
        let row = |iteration, step| Row {
            iteration,
            objective: 1.0,
            violation: -2.0,
            violated: 0,
            norm: 0.5,
            passes_f: 1.0,
            passes_g: 2.0,
            samples: 30,
            seconds: 0.0,
            step,
            stationarity: None,
            stationarity_bounds: None,
            penalty_stationarity: None,
            constraints: vec![-2.0],
            metrics: vec![0.25, f64::NAN],
        };
        let text = csv(&[row(0, Some(StepKind::Constraint)), row(1, None)], &[]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "iteration,objective,violation,norm,passes_f,passes_g,samples,seconds,step");
        assert!(lines[1].starts_with("0,1.0000000000000000e0,-2.0000000000000000e0,5.0000000000000000e-1,"));
        assert!(lines[1].ends_with(",constraint"));
        assert!(lines[2].ends_with(",2.0000000000000000e0,30,0.0000000000000000e0,"));
        // Metrics come last, under names that may have commas.
        let text = csv(&[row(0, None)], &["accuracy".into(), "roc_gap(low = 0, high = 1)".into()]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(",seconds,step,accuracy,\"roc_gap(low = 0, high = 1)\""), "{}", lines[0]);
        assert!(lines[1].ends_with(",,2.5000000000000000e-1,NaN"), "{}", lines[1]);
    }
}
