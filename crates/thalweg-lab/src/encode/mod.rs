//! Encoding of table cells as numbers, which is stored in model files. `learn.rs` learns an encoding and `apply.rs` applies it;
//! the neighbouring modules read labels, groups and weights. Tables are read in [`crate::data`].

mod apply;
mod cells;
mod frame;
mod groups;
mod labels;
mod learn;

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize, de};

pub use cells::{MISSING, is_missing};
pub use frame::FrameCells;
pub use groups::{CoarserGroups, GroupColumn, Grouping, weights};
pub use labels::Labels;

use crate::Result;
use cells::{MISSING_NAME, OTHER_NAME};

/// Version of the stored form.
const VERSION: u32 = 1;

/// Encoding of the columns of a table. Columns are found by name, and each row is encoded independently of the others,
/// so the order of columns does not matter.
///
/// - A column whose cells are all numbers becomes one feature with mean 0 and standard deviation 1 over the cells that are not
///   missing; a missing cell becomes 0.
/// - Any other column is a category: a feature `NAME = LEVEL` for each of its values, in byte order, which is 1 in rows with
///   that value. Values in fewer than 10 rows (in tables of fewer than 1,000 rows: in fewer than 1% of them) share the feature
///   `NAME = other`, and so do values that first occur in later tables.
/// - If cells of a column are missing, see [`MISSING`], the feature `NAME = missing` is 1 in those rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    #[serde(deserialize_with = "known_version")]
    version: u32,
    #[serde(deserialize_with = "checked_columns")]
    columns: Vec<Column>,
}

/// Encoding of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Column {
    /// `(value - mean) / deviation`.
    Number {
        /// Name of the column.
        name: String,
        /// Mean of the cells that are not missing.
        mean: f64,
        /// Standard deviation of these cells, dividing by their number.
        deviation: f64,
        /// Whether there is a feature for missing cells.
        missing: bool,
        /// Whether a missing cell is an error: rows of models fitted in Python have none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        complete: bool,
    },
    /// One feature for each value.
    Category {
        /// Name of the column.
        name: String,
        /// Values with a feature of their own, in byte order.
        levels: Vec<String>,
        /// Whether there is a feature for all other values.
        other: bool,
        /// Whether there is a feature for missing cells.
        missing: bool,
    },
}

impl Column {
    /// Returns the name of the column in tables.
    pub fn name(&self) -> &str {
        match self {
            Column::Number { name, .. } | Column::Category { name, .. } => name,
        }
    }

    /// Returns the number of features.
    fn width(&self) -> usize {
        match self {
            Column::Number { missing, .. } => 1 + usize::from(*missing),
            Column::Category { levels, other, missing, .. } => levels.len() + usize::from(*other) + usize::from(*missing),
        }
    }

    fn check(&self) -> Result<(), String> {
        let sound = match self {
            Column::Number { mean, deviation, missing, complete, .. } => {
                mean.is_finite() && deviation.is_finite() && *deviation > 0.0 && !(*missing && *complete)
            }
            Column::Category { levels, .. } => self.width() > 0 && levels.is_sorted_by(|a, b| a < b),
        };
        let wanted = match self {
            Column::Number { .. } => {
                "a finite mean, a deviation above 0, and a feature for missing cells only where they are allowed"
            }
            Column::Category { .. } => "levels in order, each once",
        };
        if sound { Ok(()) } else { Err(format!("the encoding of column '{}' is damaged; expected {wanted}", self.name())) }
    }
}

impl Encoding {
    /// Returns the encoding of columns of numbers as they are, in this order; missing cells are errors.
    pub fn of_numbers(names: impl IntoIterator<Item = String>) -> Self {
        let column = |name| Column::Number { name, mean: 0.0, deviation: 1.0, missing: false, complete: true };
        Encoding { version: VERSION, columns: names.into_iter().map(column).collect() }
    }

    /// Returns whether the weights of columns of numbers refer to their units and not to standard deviations.
    pub fn keeps_units(&self) -> bool {
        self.columns.iter().any(|column| matches!(column, Column::Number { complete: true, .. }))
    }

    /// Returns the columns in use, in the order of the features.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the names of the features, which are distinct.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec![];
        for column in &self.columns {
            let name = column.name();
            let mut add = |level: &str| names.push(format!("{name} = {level}"));
            let missing = match column {
                Column::Number { missing, .. } => {
                    names.push(name.to_string());
                    *missing
                }
                Column::Category { levels, other, missing, .. } => {
                    levels.iter().for_each(|level| add(level));
                    if *other {
                        add(OTHER_NAME);
                    }
                    *missing
                }
            };
            if missing {
                names.push(format!("{name} = {MISSING_NAME}"));
            }
        }
        // A value may itself be "other".
        let mut taken = HashSet::new();
        for name in &mut names {
            let mut candidate = name.clone();
            let mut count = 1;
            while !taken.insert(candidate.clone()) {
                count += 1;
                candidate = format!("{name} ({count})");
            }
            *name = candidate;
        }
        names
    }

    /// Returns the number of features.
    pub fn features(&self) -> usize {
        self.columns.iter().map(Column::width).sum()
    }
}

fn known_version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        VERSION => Ok(VERSION),
        other => Err(de::Error::custom(format!("the encoding has version {other}: this program reads version {VERSION}"))),
    }
}

fn checked_columns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Column>, D::Error> {
    let columns: Vec<Column> = Vec::deserialize(from)?;
    let mut names = HashSet::new();
    for column in &columns {
        column.check().map_err(de::Error::custom)?;
        if !names.insert(column.name()) {
            return Err(de::Error::custom(format!("the encoding has column '{}' twice", column.name())));
        }
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::Source;
    use crate::data::table::Table;
    use thalweg::math::Matrix;

    /// Returns a table with one column under test and a column of numbers.
    pub(super) fn table(name: &str, cells: &[&str]) -> Table {
        let mut table = Table::new([name, "z"]);
        for (i, cell) in cells.iter().enumerate() {
            table.push([*cell, ["1.5", "0", "-2"][i % 3]]);
        }
        table
    }

    pub(super) fn read(csv: &str) -> Table {
        Table::from_source(Source::new("my.csv", csv.as_bytes()).unwrap()).unwrap()
    }

    /// Learns with the other column as label.
    pub(super) fn learn(cells: &[&str]) -> Result<(Encoding, Vec<thalweg::Note>)> {
        Encoding::learn(&table("x", cells), "z", &[])
    }

    pub(super) fn dense(m: &Matrix) -> Vec<Vec<f64>> {
        (0..m.rows())
            .map(|i| {
                let mut row = vec![0.0; m.cols()];
                m.visit_row(i, |c, v| row[c] = v);
                row
            })
            .collect()
    }

    pub(super) fn repeat<'a>(parts: &[(&'a str, usize)]) -> Vec<&'a str> {
        parts.iter().flat_map(|(text, count)| vec![*text; *count]).collect()
    }

    fn encoded(cells: &[&str]) -> (Vec<String>, Vec<Vec<f64>>) {
        let (encoding, _) = learn(cells).unwrap();
        let (matrix, notes) = encoding.encode(&table("x", cells)).unwrap();
        assert!(notes.is_empty());
        assert_eq!(matrix.cols(), encoding.features());
        (encoding.names(), dense(&matrix))
    }

    #[test]
    fn numbers_are_standardised() {
        let (names, rows) = encoded(&["1", "3", "1.0", "3e0"]);
        assert_eq!((names, rows), (vec!["x".to_string()], vec![vec![-1.0], vec![1.0], vec![-1.0], vec![1.0]]));
        let (names, rows) = encoded(&["1", "", "3", "NA", "2"]);
        assert_eq!(names, ["x", "x = missing"]);
        let d = (2.0_f64 / 3.0).sqrt();
        for (row, wanted) in rows.iter().zip([[-1.0 / d, 0.0], [0.0, 1.0], [1.0 / d, 0.0], [0.0, 1.0], [0.0, 0.0]]) {
            assert!(row.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-15), "{rows:?}");
        }
        // Squares of these numbers overflow or underflow.
        for cells in [["1e200", "3e200"], ["-1e308", "1e308"], ["1e-300", "3e-300"]] {
            let rows = encoded(&cells).1;
            assert!((rows[0][0] + 1.0).abs() < 1e-15 && (rows[1][0] - 1.0).abs() < 1e-15, "{cells:?} {rows:?}");
        }
        // One number and missing cells count as two values.
        let (names, rows) = encoded(&["5", "", "5"]);
        assert_eq!(
            (names, rows),
            (vec!["x = 5".into(), "x = missing".into()], vec![vec![1.0, 0.0], vec![0.0, 1.0], vec![1.0, 0.0]])
        );
    }

    #[test]
    fn categories_have_a_feature_for_each_value() {
        let (names, rows) = encoded(&["b", "a", "?", "b", "1"]);
        assert_eq!(names, ["x = 1", "x = a", "x = b", "x = missing"]);
        assert_eq!(rows.concat(), [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0].map(f64::from));
        // Rare values are merged: below 1% of the rows, and below 10 rows in tables of 1,000 rows or more.
        let names = |parts: &[(&str, usize)]| learn(&repeat(parts)).unwrap().0.names();
        assert_eq!(names(&[("a", 200), ("b", 97), ("c", 2), ("d", 1)]), ["x = a", "x = b", "x = other"]);
        assert_eq!(names(&[("a", 200), ("b", 97), ("c", 3)]), ["x = a", "x = b", "x = c"]);
        assert_eq!(names(&[("a", 1200), ("b", 10), ("c", 9)]), ["x = a", "x = b", "x = other"]);
        assert_eq!(names(&[("a", 200_000), ("b", 10), ("c", 9)]), ["x = a", "x = b", "x = other"]);
        // Names stay distinct if a value equals the name of a generated feature.
        let parts = [("other", 200), ("missing", 200), ("", 200), ("c", 1)];
        assert_eq!(names(&parts), ["x = missing", "x = other", "x = other (2)", "x = missing (2)"]);
    }

    #[test]
    fn the_stored_form_is_checked() {
        let (encoding, _) = Encoding::learn(&read("a,b,y\n1,u,0\n4,,1\n"), "y", &[]).unwrap();
        let json = serde_json::to_string(&encoding).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"version":1,"columns":[{"kind":"number","name":"a","mean":2.5,"deviation":1.5,"missing":false},"#,
                r#"{"kind":"category","name":"b","levels":["u"],"other":false,"missing":true}]}"#
            )
        );
        assert_eq!(serde_json::from_str::<Encoding>(&json).unwrap(), encoding);
        let error = |from: &str, to: &str| {
            assert!(json.contains(from));
            serde_json::from_str::<Encoding>(&json.replace(from, to)).unwrap_err().to_string()
        };
        assert!(
            error(r#""version":1"#, r#""version":2"#).starts_with("the encoding has version 2: this program reads version 1")
        );
        assert!(error(r#""mean""#, r#""men""#).contains("unknown field `men`"));
        assert!(error(r#""version""#, r#""of":1,"version""#).contains("unknown field `of`"));
        assert!(error("1.5", "0").contains("column 'a' is damaged; expected a finite mean, a deviation above 0, "));
        assert!(error(r#"["u"]"#, r#"["v","u"]"#).contains("column 'b' is damaged; expected levels in order, each once"));
        assert!(error(r#""name":"b""#, r#""name":"a""#).contains("has column 'a' twice"));
    }

    #[test]
    fn adult_is_typed_as_expected() {
        let table = read(&crate::data::adult::csv().unwrap());
        let (labels, signs, notes) = Labels::learn(&table, "income", None).unwrap();
        assert_eq!((labels.positive.as_str(), labels.negative.as_str()), (">50K", "<=50K"));
        assert_eq!(signs.iter().filter(|y| **y > 0.0).count(), 11_687);
        assert_eq!(
            crate::testing::sentences(&notes),
            ["label 'income': '>50K' counts as positive (11,687 of 48,842 rows), because it is the rarer value"]
        );
        let (encoding, notes) = Encoding::learn(&table, "income", &[]).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        let numbers: Vec<&str> =
            encoding.columns().iter().filter(|c| matches!(c, Column::Number { missing: false, .. })).map(Column::name).collect();
        assert_eq!(numbers, ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]);
        let gaps: Vec<&str> =
            encoding.columns().iter().filter(|c| matches!(c, Column::Category { missing: true, .. })).map(Column::name).collect();
        assert_eq!(gaps, ["workclass", "occupation", "native-country"]);
        let names = encoding.names();
        for name in ["workclass = Private", "workclass = missing", "sex = Female", "native-country = other"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
        // All values but Holand-Netherlands, which occurs in one row.
        assert_eq!(names.len(), 6 + (8 + 1) + 16 + 7 + (14 + 1) + 6 + 5 + 2 + (41 + 1));
        let (rows, notes) = encoding.encode(&table).unwrap();
        assert!(notes.is_empty());
        assert_eq!((rows.rows(), rows.cols()), (48_842, names.len()));
        let (grouping, groups, _) = Grouping::learn(&table, &["sex"]).unwrap();
        assert_eq!(grouping.names(), ["Female", "Male"]);
        assert_eq!(groups.of_row.iter().filter(|k| **k == 0).count(), 16_192);
    }
}
