//! Selects the cell of a solver's grid on a data set from the recorded iterates of its runs, by the rule in the spec's
//! `tune`.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};
use toml::Table;

use super::experiment::{After, By, FeasibilityRule, Tune};
use super::grid::short;
use super::store::Curve;

/// How the cells of an experiment were selected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Selection {
    /// Rule of the spec.
    Rule {
        /// Criterion.
        by: By,
        /// Which cells qualified.
        feasible: FeasibilityRule,
        /// Where on the curve cells were compared.
        after: After,
        /// Limits of the pilot runs; `None` if cells were compared by their whole runs.
        budget: Option<Table>,
    },
    /// Sentence in a store of an older version.
    Text(String),
}

impl Selection {
    /// Returns the rule of a spec.
    pub fn by(tune: &Tune) -> Self {
        let Tune { by, feasible, after, seeds: _, budget } = tune.clone();
        Selection::Rule { by, feasible, after, budget }
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (by, feasible, after, budget) = match self {
            Selection::Text(text) => return write!(f, "{text}"),
            Selection::Rule { by, feasible, after, budget } => (by, feasible, after, budget),
        };
        let what = match by {
            By::Objective => "the smallest objective",
            By::BestFeasible => "the smallest objective of a feasible recorded iterate",
            By::Violation => "the smallest violation",
            By::Validation => "the largest accuracy on the validation rows",
        };
        let limits = [
            after.iterations.map(|n| format!("{n} iterations")),
            after.passes.map(|n| format!("{n} passes")),
            after.seconds.map(|n| format!("{n} seconds")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        let after = if limits.is_empty() { "at the end".into() } else { format!("after {}", limits.join(" and ")) };
        write!(f, "For each solver and data set, the cell with {what} {after} was chosen")?;
        match feasible {
            FeasibilityRule::Required(true) => write!(f, ", among those that satisfy the constraints")?,
            FeasibilityRule::Required(false) => {}
            FeasibilityRule::Within(v) => write!(f, ", among those that satisfy the constraints within {v:e}")?,
        }
        write!(f, ".")?;
        let Some(budget) = budget else { return Ok(()) };
        let limits: Vec<String> = budget.iter().map(|(key, limit)| format!("{} {key}", short(limit))).collect();
        write!(
            f,
            " Cells were compared in trial runs of {}, without targets and certificates; the chosen cell then ran with the whole \
             budget. Only these runs count.",
            limits.join(" or ")
        )
    }
}

/// Values of a run at the iterate where cells are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Value to minimise; infinite if there is none.
    pub value: f64,
    /// Largest constraint value; minus infinity without constraints.
    pub violation: f64,
    /// Whether every constraint is satisfied.
    pub feasible: bool,
}

/// Why no cell qualifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoChoice {
    /// No cell satisfies the constraints; the least infeasible one is selected.
    Infeasible,
    /// Every cell failed; the first one is selected.
    Failed,
}

/// Returns the values of a run at that iterate; `None` if the run has no recorded iterate.
pub fn summarise(curves: &[Curve], tune: &Tune) -> Option<Summary> {
    let column = |name: &str| curves.iter().find(|c| c.name == name && c.role != "gauge").map(|c| c.numbers.as_slice());
    let last = last_within(curves, &tune.after)?;
    let (objective, violation, feasible) = (column("objective")?, column("violation")?, column("feasible")?);
    let at = |numbers: &[f64], i: usize| numbers.get(i).copied().unwrap_or(f64::NAN);
    let feasible = |i: usize| match tune.feasible {
        FeasibilityRule::Required(false) => true,
        FeasibilityRule::Required(true) => at(feasible, i) == 1.0,
        FeasibilityRule::Within(most) => at(violation, i) <= most,
    };
    let number = |v: f64| if v.is_nan() { f64::INFINITY } else { v };
    Some(match tune.by {
        By::Objective => Summary { value: number(at(objective, last)), violation: at(violation, last), feasible: feasible(last) },
        By::Violation => Summary { value: number(at(violation, last)), violation: at(violation, last), feasible: feasible(last) },
        By::Validation => {
            let accuracy = curves.iter().find(|c| c.name == "validation accuracy" && c.role == "gauge");
            let value = accuracy.map_or(f64::INFINITY, |c| number(-at(&c.numbers, last)));
            Summary { value, violation: at(violation, last), feasible: feasible(last) }
        }
        By::BestFeasible => {
            let best = (0..=last)
                .filter(|&i| feasible(i))
                .min_by(|&a, &b| number(at(objective, a)).total_cmp(&number(at(objective, b))));
            let shown = best.unwrap_or(last);
            let value = best.map_or(f64::INFINITY, |i| number(at(objective, i)));
            Summary { value, violation: at(violation, shown), feasible: best.is_some() }
        }
    })
}

/// Finds the last recorded iterate within all limits.
fn last_within(curves: &[Curve], after: &After) -> Option<usize> {
    let axis = |name: &str| curves.iter().find(|c| c.role == "axis" && c.name == name).map(|c| c.numbers.as_slice());
    let (iterations, seconds) = (axis("iterations")?, axis("seconds")?);
    let (f, g) = (axis("passes_f")?, axis("passes_g")?);
    let within = |i: usize| {
        after.iterations.is_none_or(|n| iterations.get(i).is_some_and(|v| *v <= n as f64))
            && after.passes.is_none_or(|n| f.get(i).zip(g.get(i)).is_some_and(|(f, g)| f + g <= n))
            && after.seconds.is_none_or(|n| seconds.get(i).is_some_and(|v| *v <= n))
    };
    (0..iterations.len()).rev().find(|&i| within(i))
}

/// Selects a cell from the summaries of its runs, one for each seed (`None` for a failed run). Also returns the problem if
/// no cell qualifies.
pub fn choose(cells: &[Vec<Option<Summary>>]) -> (usize, Option<NoChoice>) {
    let whole = |c: &usize| !cells[*c].is_empty() && cells[*c].iter().all(Option::is_some);
    let of = |c: usize, get: fn(&Summary) -> f64| median(cells[c].iter().flatten().map(get).collect());
    // A cell qualifies if at least half of its seeds do.
    let feasible = |c: &usize| 2 * cells[*c].iter().flatten().filter(|s| s.feasible).count() >= cells[*c].len();
    let best = |among: Vec<usize>, get: fn(&Summary) -> f64| among.into_iter().min_by(|&a, &b| of(a, get).total_cmp(&of(b, get)));
    let finished: Vec<usize> = (0..cells.len()).filter(whole).collect();
    let competing: Vec<usize> = finished.iter().copied().filter(feasible).collect();
    if let Some(c) = best(competing, |s| s.value) {
        return (c, None);
    }
    if let Some(c) = best(finished, |s| s.violation) {
        return (c, Some(NoChoice::Infeasible));
    }
    (0, Some(NoChoice::Failed))
}

/// Returns the median, the lower of the two middle numbers for an even count.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Point = (f64, f64, f64);

    fn curves(rows: &[Point]) -> Vec<Curve> {
        let column = |role: &str, name: &str, get: &dyn Fn(usize, &Point) -> f64| Curve {
            role: role.into(),
            name: name.into(),
            numbers: rows.iter().enumerate().map(|(i, row)| get(i, row)).collect(),
        };
        vec![
            column("axis", "iterations", &|i, _| 10.0 * i as f64),
            column("axis", "passes_f", &|i, _| i as f64),
            column("axis", "passes_g", &|i, _| i as f64),
            column("axis", "seconds", &|i, _| 0.1 * i as f64),
            column("value", "objective", &|_, row| row.0),
            column("value", "violation", &|_, row| row.1),
            column("value", "feasible", &|_, row| row.2),
            // A metric of the same name is ignored.
            column("gauge", "objective", &|_, _| -100.0),
        ]
    }

    fn tune(text: &str) -> Tune {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_selection_is_stored_as_its_rule_and_shown_as_a_sentence() {
        let text = "by = 'validation'\nfeasible = 0.01\nafter = { iterations = 30, seconds = 1.5 }\nbudget = { passes = 2 }";
        let selection = Selection::by(&tune(text));
        let json = serde_json::json!(selection);
        assert_eq!((&json["by"], &json["feasible"], &json["budget"]["passes"]), (&"validation".into(), &0.01.into(), &2.into()));
        assert_eq!(serde_json::from_value::<Selection>(json).unwrap(), selection);
        assert_eq!(
            selection.to_string(),
            "For each solver and data set, the cell with the largest accuracy on the validation rows after 30 iterations and 1.5 \
             seconds was chosen, among those that satisfy the constraints within 1e-2. Cells were compared in trial runs of 2 \
             passes, without targets and certificates; the chosen cell then ran with the whole budget. Only these runs count."
        );
        let plain = Selection::by(&tune(""));
        assert_eq!(serde_json::from_value::<Selection>(serde_json::json!(plain)).unwrap(), plain);
    }

    #[test]
    fn a_run_is_looked_at_where_the_spec_says() {
        let c = curves(&[(5.0, 1.0, 0.0), (4.0, -1.0, 1.0), (3.0, 0.01, 0.0), (4.5, -1.0, 1.0)]);
        let seen = |text: &str| summarise(&c, &tune(text)).unwrap();
        assert_eq!(seen(""), Summary { value: 4.5, violation: -1.0, feasible: true });
        assert_eq!(seen("after = { iterations = 29 }"), Summary { value: 3.0, violation: 0.01, feasible: false });
        assert_eq!(seen("after = { passes = 2.0 }\nfeasible = 0.5"), Summary { value: 4.0, violation: -1.0, feasible: true });
        assert!(seen("after = { seconds = 0.25 }\nfeasible = 0.02").feasible);
        assert_eq!(seen("by = 'best-feasible'").value, 4.0);
        assert_eq!(
            seen("by = 'best-feasible'\nafter = { iterations = 5 }"),
            Summary { value: f64::INFINITY, violation: 1.0, feasible: false }
        );
        assert_eq!(seen("by = 'violation'\nfeasible = false\nafter = { iterations = 20 }").value, 0.01);
        assert_eq!(summarise(&curves(&[]), &tune("")), None);
    }

    /// Tests that the largest accuracy on validation rows is selected; a constraint of that name and other accuracies are
    /// ignored.
    #[test]
    fn a_run_can_be_looked_at_on_the_validation_rows() {
        let rows = [(5.0, 1.0, 0.0), (4.0, -1.0, 1.0), (3.0, -0.5, 1.0)];
        let with = |numbers: &[f64]| {
            let curve = |role: &str, name: &str, numbers: &[f64]| Curve {
                role: role.into(),
                name: name.into(),
                numbers: numbers.to_vec(),
            };
            let mut all = curves(&rows);
            all.push(curve("gauge", "held-out accuracy", &[0.99; 3]));
            all.push(curve("constraint", "validation accuracy", &[0.98; 3]));
            all.push(curve("gauge", "validation accuracy", numbers));
            all
        };
        let seen = |numbers: &[f64], text: &str| summarise(&with(numbers), &tune(&format!("by = 'validation'\n{text}"))).unwrap();
        assert_eq!(seen(&[0.5, 0.9, 0.75], ""), Summary { value: -0.75, violation: -0.5, feasible: true });
        assert_eq!(seen(&[0.5, 0.9, 0.75], "after = { iterations = 10 }").value, -0.9);
        assert_eq!(
            seen(&[0.5, 0.9, 0.75], "after = { iterations = 0 }"),
            Summary { value: -0.5, violation: 1.0, feasible: false }
        );
        assert_eq!(seen(&[0.5, 0.9, f64::NAN], "").value, f64::INFINITY);
        let without = summarise(&curves(&rows), &tune("by = 'validation'")).unwrap();
        assert_eq!(without.value, f64::INFINITY);
        // The most accurate of three cells is selected; a cell without a number is not.
        let cells: Vec<_> = [[0.5, 0.5, 0.7], [0.5, 0.5, 0.8], [0.5, 0.5, f64::NAN]].map(|n| vec![Some(seen(&n, ""))]).into();
        assert_eq!(choose(&cells), (1, None));
    }

    #[test]
    fn the_smallest_median_among_those_that_keep_the_constraints() {
        let seen = |value, feasible| Some(Summary { value, violation: if feasible { -1.0 } else { value }, feasible });
        let cells = vec![
            vec![seen(1.0, false), seen(1.0, false), seen(1.0, true)],
            vec![seen(3.0, true), seen(9.0, true), seen(4.0, false)],
            vec![seen(5.0, true), seen(5.0, true), seen(5.0, true)],
            vec![seen(0.0, true), None, seen(0.0, true)],
        ];
        assert_eq!(choose(&cells), (1, None));
        let (cell, note) = choose(&[vec![seen(2.0, false)], vec![seen(1.0, false)]]);
        assert_eq!((cell, note), (1, Some(NoChoice::Infeasible)));
        let (cell, note) = choose(&[vec![None], vec![None]]);
        assert_eq!((cell, note), (0, Some(NoChoice::Failed)));
        // A value that is not a number is never selected.
        assert_eq!(choose(&[vec![seen(f64::INFINITY, true)], vec![seen(7.0, true)]]), (1, None));
    }
}
