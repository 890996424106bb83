//! Search for features that predict the label alone, a common mistake in tables: a column that is only known once the label is.

use super::problem::Learning;

/// Rows that are looked at, spread evenly over all.
const ROWS: usize = 4000;
/// Fewest rows of either label; with fewer, a feature may separate them by chance.
const FEWEST: usize = 10;
/// Balanced accuracy of a threshold on a single feature from which it gives the label away.
const PERFECT: f64 = 0.99;

impl Learning {
    /// Returns the features of which a single threshold predicts the label with a balanced accuracy of at least 0.99, and that
    /// accuracy, from the largest down. At most 4,000 rows are looked at, and none if fewer than 10 of them have one of the
    /// labels. Row weights are ignored.
    pub fn features_that_give_the_label_away(&self) -> Vec<(usize, f64)> {
        let data = self.data();
        let n = data.features.rows();
        let stride = n.div_ceil(ROWS).max(1);
        let rows: Vec<usize> = (0..n).step_by(stride).collect();
        let positives = rows.iter().filter(|&&i| data.labels[i] > 0.0).count();
        let of_label = [positives, rows.len() - positives];
        if of_label.iter().any(|&count| count < FEWEST) {
            return vec![];
        }
        // Entries other than 0 by feature; the rows with a 0 follow from the counts.
        let mut entries: Vec<(usize, f64, bool)> = vec![];
        for &i in &rows {
            data.features.visit_row(i, |column, value| {
                if value != 0.0 {
                    entries.push((column, value, data.labels[i] > 0.0));
                }
            });
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let accuracies = entries.chunk_by(|a, b| a.0 == b.0).map(|of_one| (of_one[0].0, best_threshold(of_one, of_label)));
        let mut found: Vec<(usize, f64)> = accuracies.filter(|(_, accuracy)| *accuracy >= PERFECT).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found
    }
}

/// Returns the largest balanced accuracy of a threshold on one feature, in either direction. The entries other than 0 are sorted;
/// `of_label` counts all rows with a positive and with a negative label.
fn best_threshold(entries: &[(usize, f64, bool)], of_label: [usize; 2]) -> f64 {
    let mut zeros = of_label;
    entries.iter().for_each(|(_, _, positive)| zeros[usize::from(!positive)] -= 1);
    let mut below = [0_usize; 2];
    let mut best = 0.5_f64;
    let mut cut = |below: &[usize; 2]| {
        let shares = [0, 1].map(|k| below[k] as f64 / of_label[k] as f64);
        best = best.max(0.5 + 0.5 * (shares[0] - shares[1]).abs());
    };
    let mut passed_zero = false;
    for equal in entries.chunk_by(|a, b| a.1 == b.1) {
        if equal[0].1 > 0.0 && !passed_zero {
            passed_zero = true;
            (0..2).for_each(|k| below[k] += zeros[k]);
            cut(&below);
        }
        equal.iter().for_each(|(_, _, positive)| below[usize::from(!positive)] += 1);
        cut(&below);
    }
    best
}
