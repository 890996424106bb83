//! Rates of predictions by group, with their intervals, and the tables of them in the output of commands. Terms that bound such
//! rates are in the library.

use thalweg::certify::clopper_pearson;
use thalweg::learn::RowCount;

use crate::model::{CellQuality, GroupQuality, Quality};
use crate::output::{align, between};

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Maximum number of groups in a short table.
const LISTED: usize = 10;

/// Labelled rows with the scores of a model.
#[derive(Debug, Clone, Copy)]
pub struct ScoredRows<'a> {
    /// Score of each row; above 0 the prediction is positive.
    pub scores: &'a [f64],
    /// +1 or -1 for each row.
    pub labels: &'a [f64],
    /// Weight of each row; `None` means 1 each.
    pub weights: Option<&'a [f64]>,
}

/// Some of the rows, by index in increasing order.
#[derive(Debug)]
pub struct RowsOf<'a> {
    of: ScoredRows<'a>,
    rows: Vec<usize>,
}

impl<'a> ScoredRows<'a> {
    /// Returns all rows.
    pub fn all(self) -> RowsOf<'a> {
        RowsOf { of: self, rows: (0..self.scores.len()).collect() }
    }

    /// Measures every group that has a row of positive weight. `of_row` has the group of each row, an index into `names`.
    pub fn by_group(self, names: &[String], of_row: impl Iterator<Item = u32>) -> Vec<GroupQuality> {
        let mut rows: Vec<Vec<usize>> = vec![vec![]; names.len()];
        for (i, k) in of_row.enumerate() {
            rows[k as usize].push(i);
        }
        let groups = names.iter().zip(rows).map(|(name, rows)| (name, RowsOf { of: self, rows }));
        groups.filter(|(_, rows)| rows.present()).map(|(name, rows)| rows.quality(name)).collect()
    }
}

impl<'a> RowsOf<'a> {
    fn weight(&self, i: usize) -> f64 {
        self.of.weights.map_or(1.0, |w| w[i])
    }

    /// Returns whether there is a row of positive weight.
    fn present(&self) -> bool {
        self.rows.iter().any(|&i| self.weight(i) > 0.0)
    }

    fn share(&self, holds: impl Fn(usize) -> bool) -> f64 {
        // The sum of no numbers is -0, which would be printed as such.
        let sum = |rows: &mut dyn Iterator<Item = usize>| 0.0 + rows.map(|i| self.weight(i)).sum::<f64>();
        sum(&mut self.rows.iter().copied().filter(|&i| holds(i))) / sum(&mut self.rows.iter().copied())
    }

    /// Returns the share of positive labels.
    pub fn positive(&self) -> f64 {
        self.share(|i| self.of.labels[i] > 0.0)
    }

    /// Returns the share of positive predictions.
    pub fn predicted(&self) -> f64 {
        self.share(|i| self.of.scores[i] > 0.0)
    }

    /// Returns the share of correct predictions.
    pub fn accuracy(&self) -> f64 {
        self.share(|i| (self.of.scores[i] > 0.0) == (self.of.labels[i] > 0.0))
    }

    fn count(&self) -> RowCount {
        RowCount::of(self.rows.iter().map(|&i| self.weight(i)))
    }

    /// Returns the interval of a share of these rows; `None` without rows of positive weight.
    fn interval(&self, share: f64) -> Option<[f64; 2]> {
        let effective = self.count().effective;
        // Rounding may put the share of all rows above 1.
        clopper_pearson((share * effective).clamp(0.0, effective), effective, CONFIDENCE).ok()
    }

    /// Measures the rows with one label.
    fn cell(&self, positive: bool) -> Option<CellQuality> {
        let rows = self.rows.iter().copied().filter(|&i| (self.of.labels[i] > 0.0) == positive).collect();
        let cell = RowsOf { of: self.of, rows };
        let predicted = cell.predicted();
        cell.interval(predicted).map(|interval| CellQuality { rows: cell.count().rows, predicted, interval })
    }

    fn quality(&self, name: &str) -> GroupQuality {
        let (predicted, accuracy) = (self.predicted(), self.accuracy());
        GroupQuality {
            group: name.into(),
            rows: self.count().rows,
            positive: self.positive(),
            predicted,
            predicted_interval: self.interval(predicted),
            accuracy,
            accuracy_interval: self.interval(accuracy),
            positives: self.cell(true),
            negatives: self.cell(false),
        }
    }
}

/// Extent of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The first groups, without accuracies and without the numbers of rows by label.
    Short,
    /// Everything.
    Full,
}

/// Formats the rates by group, and by each of several columns, as tables under this title; empty without groups.
pub fn tables(title: &str, quality: &Quality, extent: Extent) -> String {
    if quality.groups.is_empty() {
        return String::new();
    }
    let mut text = table(title, &quality.groups, Some(quality), extent);
    for column in &quality.by_column {
        text += &table(&format!("{title} by {}", column.column), &column.groups, None, extent);
    }
    if quality.groups.iter().any(|g| g.predicted_interval.is_some()) {
        text +=
            "(exact 95% intervals of the shares in brackets; the last columns are the share of positive predictions by label)\n";
    }
    text
}

fn table(title: &str, groups: &[GroupQuality], all: Option<&Quality>, extent: Extent) -> String {
    let full = extent == Extent::Full;
    let listed = if full { groups.len() } else { LISTED };
    let mut header = vec!["", "rows", "positive labels", "positive predictions"];
    header.extend(full.then_some("accuracy"));
    header.extend(["of positive labels", "of negative labels"]);
    let mut rows: Vec<Vec<String>> = vec![header.into_iter().map(String::from).collect()];
    for g in groups.iter().take(listed) {
        let mut row = vec![g.group.clone(), g.rows.to_string(), percent(g.positive), rate(g.predicted, g.predicted_interval)];
        row.extend(full.then(|| rate(g.accuracy, g.accuracy_interval)));
        row.extend([cell(g.positives, full), cell(g.negatives, full)]);
        rows.push(row);
    }
    if let Some(q) = all {
        let mut row = vec!["all".into(), q.rows.to_string(), percent(q.positive), percent(q.predicted)];
        row.extend(full.then(|| percent(q.accuracy)));
        rows.push(row);
    }
    let mut text = format!("\n{title}\n{}", align(&rows, &[1, 2, 3, 4, 5, 6]));
    if groups.len() > listed {
        text += &format!("({} more groups, which thalweg explain shows)\n", groups.len() - listed);
    }
    text
}

fn percent(v: f64) -> String {
    format!("{:.2}%", 100.0 * v)
}

fn rate(v: f64, interval: Option<[f64; 2]>) -> String {
    percent(v) + &interval.map_or(String::new(), |ends| format!(" ({})", between(ends, 1, 100.0)))
}

fn cell(found: Option<CellQuality>, with_rows: bool) -> String {
    let Some(c) = found else { return "none".into() };
    let rows = if with_rows { format!(" of {}", c.rows) } else { String::new() };
    rate(c.predicted, Some(c.interval)) + &rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand_and_groups_without_weight_are_left_out() {
        let (scores, labels) = ([1.0, -1.0, 2.0, 0.0, 3.0], [1.0, 1.0, -1.0, -1.0, 1.0]);
        let rows = ScoredRows { scores: &scores, labels: &labels, weights: Some(&[1.0, 3.0, 2.0, 2.0, 0.0]) };
        let names = ["a", "b", "c", "d"].map(String::from);
        let found = rows.by_group(&names, [0, 0, 1, 1, 2].into_iter());
        assert_eq!(found.iter().map(|g| g.group.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let (a, b) = (&found[0], &found[1]);
        assert_eq!((a.rows, a.positive, a.predicted, a.accuracy), (4, 1.0, 0.25, 0.25));
        assert_eq!((b.rows, b.positive, b.predicted, b.accuracy), (4, 0.0, 0.5, 0.5));
        assert_eq!((a.negatives, b.positives), (None, None));
        assert_eq!(a.positives.map(|c| (c.rows, c.predicted)), Some((4, 0.25)));
        assert_eq!(a.predicted_interval.unwrap(), clopper_pearson(1.0, 4.0, 0.95).unwrap());
        assert_eq!(rows.all().accuracy(), 3.0 / 8.0);
        // A share of no rows has no sign.
        assert_eq!(percent(b.positive), "0.00%");
    }
}
