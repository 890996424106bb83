//! Recorded iterates as columns of a page, the same for every command. The commands decide what else is on their pages.

use thalweg::run::Row;

use super::{Column, Trace};

/// Constraint that iterates are compared with.
pub(super) struct Limit<'a> {
    /// Name of the constraint.
    pub name: &'a str,
    /// Index among all constraints.
    pub index: usize,
    /// Bound; the values in a row are relative to it.
    pub bound: f64,
    /// Feasibility tolerance.
    pub tolerance: f64,
}

/// Converts the recorded iterates with their metrics, and those of the iterates with bounds on near-stationarity. The limits
/// may be only a few of the `total` constraints; feasibility then follows from the number of violated constraints in each row.
pub(super) fn traces(rows: &[Row], total: usize, limits: &[Limit], metrics: &[String]) -> (Trace, Trace) {
    let keeps = |row: &Row| match limits.len() < total {
        true => row.objective.is_finite() && row.violated == 0,
        false => keeps(row, limits),
    };
    let mut columns = axes(rows.iter());
    let mut add = |name: &str, values: Vec<f64>| {
        // Two constraints may have the same name, and a constraint the name of another column.
        let taken = |name: &str| columns.iter().any(|c: &Column| c.name == name);
        let numbered = (2..).map(|i| format!("{name} ({i})"));
        let name = std::iter::once(name.to_string()).chain(numbered).find(|name| !taken(name)).unwrap_or_default();
        columns.push(Column { name, values });
    };
    add("objective", rows.iter().map(|r| r.objective).collect());
    if total > 0 {
        add("violation", rows.iter().map(|r| r.violation).collect());
    }
    if limits.len() < total {
        add("share of violated constraints", rows.iter().map(|r| r.violated as f64 / total as f64).collect());
    }
    // With very many constraints, rows do not list each.
    for limit in limits.iter().filter(|limit| rows.iter().any(|r| limit.index < r.constraints.len())) {
        let value = |r: &Row| r.constraints.get(limit.index).map_or(f64::NAN, |g| g + limit.bound);
        add(limit.name, rows.iter().map(value).collect());
    }
    for (j, name) in metrics.iter().enumerate() {
        add(name, rows.iter().map(|r| r.metrics.get(j).copied().unwrap_or(f64::NAN)).collect());
    }
    add("norm of the point", rows.iter().map(|r| r.norm).collect());
    type Optional = (&'static str, fn(&Row) -> Option<f64>);
    let optional: [Optional; 2] = [
        ("near-stationarity by switching", |r| r.stationarity),
        ("near-stationarity of the smoothed penalty", |r| r.penalty_stationarity),
    ];
    for (name, get) in optional {
        if rows.iter().any(|r| get(r).is_some()) {
            add(name, rows.iter().map(|r| get(r).unwrap_or(f64::NAN)).collect());
        }
    }
    let bounded = || rows.iter().filter_map(|r| r.stationarity_bounds.map(|bounds| (r, bounds)));
    let mut certified = Trace { columns: vec![], feasible: bounded().map(|(r, _)| keeps(r)).collect() };
    if bounded().next().is_some() {
        certified.columns = axes(bounded().map(|(r, _)| r));
        certified.columns.push(Column { name: "lower".into(), values: bounded().map(|(_, (lower, _))| lower).collect() });
        certified.columns.push(Column { name: "upper".into(), values: bounded().map(|(_, (_, upper))| upper).collect() });
    }
    (Trace { columns, feasible: rows.iter().map(keeps).collect() }, certified)
}

fn axes<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Vec<Column> {
    type Axis = (&'static str, fn(&Row) -> f64);
    let axes: [Axis; 5] = [
        ("iterations", |r| r.iteration as f64),
        ("passes_f", |r| r.passes_f),
        ("passes_g", |r| r.passes_g),
        ("samples", |r| r.samples as f64),
        ("seconds", |r| r.seconds),
    ];
    axes.into_iter().map(|(name, get)| Column { name: name.into(), values: rows.clone().map(get).collect() }).collect()
}

fn keeps(row: &Row, limits: &[Limit]) -> bool {
    // A value that is not a number satisfies no bound. Bounds may have changed since the row was measured.
    row.objective.is_finite() && limits.iter().zip(&row.constraints).all(|(limit, g)| *g <= limit.tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(iteration: u64, constraints: &[f64], bounds: Option<(f64, f64)>) -> Row {
        Row {
            iteration,
            objective: 0.5,
            violation: constraints.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            violated: constraints.iter().filter(|g| **g > 0.0).count(),
            norm: 1.0,
            passes_f: 2.0,
            passes_g: 3.0,
            samples: 9,
            seconds: 4.0,
            step: None,
            stationarity: None,
            stationarity_bounds: bounds,
            penalty_stationarity: None,
            constraints: constraints.to_vec(),
            metrics: vec![0.875],
        }
    }

    #[test]
    fn constraints_are_shown_with_their_bounds_and_names_of_their_own() {
        let limit = |index, name, bound| Limit { name, index, bound, tolerance: 1e-6 };
        let limits = [limit(0, "hinge", 0.5), limit(1, "hinge", 1.0), limit(2, "objective", 0.0)];
        let rows = [row(0, &[0.25, -0.5, 0.0], None), row(7, &[-0.25, 0.0, 1e-7], Some((0.0, 0.125)))];
        let (trace, certified) = traces(&rows, 3, &limits, &["accuracy".into()]);
        let names: Vec<&str> = trace.columns.iter().map(|c| c.name.as_str()).collect();
        let axes = ["iterations", "passes_f", "passes_g", "samples", "seconds"];
        let own = ["objective", "violation", "hinge", "hinge (2)", "objective (2)", "accuracy", "norm of the point"];
        assert_eq!(names, [&axes[..], &own[..]].concat());
        assert_eq!(trace.columns[7].values, [0.75, 0.25]);
        assert_eq!(trace.columns[8].values, [0.5, 1.0]);
        assert_eq!(trace.columns[10].values, [0.875, 0.875]);
        assert_eq!(trace.feasible, [false, true]);
        assert_eq!(
            certified.columns.iter().map(|c| c.values.clone()).collect::<Vec<_>>(),
            [vec![7.0], vec![2.0], vec![3.0], vec![9.0], vec![4.0], vec![0.0], vec![0.125]]
        );
        assert_eq!(certified.feasible, [true]);
        // Without constraints there is no violation.
        let (trace, certified) = traces(&[row(0, &[], None)], 0, &[], &[]);
        assert!(trace.columns.iter().all(|c| c.name != "violation") && trace.feasible == [true]);
        assert!(certified.columns.is_empty());
    }

    /// Tests a first constraint that is not among the limits and is violated at the start.
    #[test]
    fn of_many_constraints_some_have_curves_and_all_are_counted() {
        let limits = [Limit { name: "third", index: 2, bound: 0.5, tolerance: 1e-6 }];
        let rows = [row(0, &[0.25, -0.5, -0.125], None), row(7, &[-0.25, 0.0, -0.5], None)];
        let column = |trace: &Trace, name: &str| trace.columns.iter().find(|c| c.name == name).map(|c| c.values.clone());
        let (trace, _) = traces(&rows, 3, &limits, &[]);
        assert_eq!(column(&trace, "third").unwrap(), [0.375, 0.0]);
        assert_eq!(column(&trace, "share of violated constraints").unwrap(), [1.0 / 3.0, 0.0]);
        assert_eq!(trace.feasible, [false, true]);
        // With very many constraints, rows have the worst value and the count.
        let crowded = rows.map(|r| Row { constraints: vec![], ..r });
        let (trace, _) = traces(&crowded, 3, &limits, &[]);
        assert_eq!(column(&trace, "third"), None);
        assert_eq!((column(&trace, "violation").unwrap(), trace.feasible), (vec![0.25, 0.0], vec![false, true]));
    }
}
