//! Encoding of table cells as columns of numbers, and its description, which is part of a model file. Tables are read in
//! [`crate::data`]; labels, groups and weights are in the neighbouring modules.

mod cells;
mod groups;
mod labels;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Deserializer, Serialize, de};
use thalweg::math::Matrix;

pub(crate) use cells::thousands;
pub use cells::{MISSING, is_missing};
pub use groups::{Grouping, weights};
pub use labels::Labels;

use crate::data::source::{list, show};
use crate::data::table::Table;
use crate::{Error, Result};
use cells::{Cell, MISSING_NAME, OTHER_NAME, cell, has_comma, is_date, number};

/// Version of the stored form.
const VERSION: u32 = 1;
/// Maximum number of frequent values in a column of text.
const MOST_LEVELS: usize = 1_000;
/// Minimum number of rows of a frequent value; in small tables 1% of the rows. Rarer values of a category count as "other".
const FREQUENT: usize = 10;
/// Maximum number of rows of a table in which text that differs in every row is accepted.
const FEW_ROWS: usize = 20;
/// A column with at least the first number of numeric cells counts as numbers with typing errors if one cell is not a number,
/// or if at most the second number of cells, and fewer than 1%, are not.
const SLIPS: (usize, usize) = (50, 100);

/// How the columns of a table become numbers. Columns are found by name, and each row is encoded independently of the others,
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

/// How one column becomes numbers.
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
            Column::Number { mean, deviation, .. } => mean.is_finite() && deviation.is_finite() && *deviation > 0.0,
            Column::Category { levels, .. } => self.width() > 0 && levels.is_sorted_by(|a, b| a < b),
        };
        let wanted = match self {
            Column::Number { .. } => "a finite mean and a deviation above 0",
            Column::Category { .. } => "levels in order, each once",
        };
        if sound { Ok(()) } else { Err(format!("the encoding of column '{}' is damaged; expected {wanted}", self.name())) }
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

/// Encoding learned for a column.
enum Learned {
    Kept(Column),
    /// Dropped, with the reason.
    Dropped(String),
}

impl Encoding {
    /// Learns the type of every column other than `label` and `leave_out` from its cells. Columns without information are
    /// dropped, each with a message for the user, which is returned too. Dates, numbers with typing errors and text with too
    /// many values are errors.
    pub fn learn(table: &Table, label: &str, leave_out: &[String]) -> Result<(Encoding, Vec<String>)> {
        let mut skip = vec![false; table.columns()];
        for name in leave_out.iter().map(String::as_str).chain([label]) {
            skip[table.find(name)?] = true;
        }
        let (mut columns, mut notes) = (vec![], vec![]);
        for (j, name) in table.names().iter().enumerate() {
            if skip[j] || skip[table.find(name)?] {
                continue;
            }
            let learned = match table.column(name) {
                // Only tables of the catalogue have repeated names.
                Some(first) if first != j => Learned::Dropped("it is a second column of that name".into()),
                _ => learn_column(table, j)?,
            };
            match learned {
                Learned::Kept(column) => columns.push(column),
                Learned::Dropped(why) => notes.push(format!("column {} is not used: {why}", quote(name))),
            }
        }
        if columns.is_empty() {
            return Err(table.bad(match notes.as_slice() {
                [] => "has no column besides the label and those left out; expected something to learn from".to_string(),
                some => format!("has no column to learn from: {}", some.join("; ")),
            }));
        }
        Ok((Encoding { version: VERSION, columns }, notes))
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

    /// Encodes the rows of a table as numbers, without storing zeros. Also returns messages for the user. Columns are found by
    /// name; columns that are not in the encoding are ignored.
    pub fn encode(&self, table: &Table) -> Result<(Matrix, Vec<String>)> {
        let (mut coders, mut absent, mut first) = (vec![], vec![], 0);
        for column in &self.columns {
            match table.column(column.name()) {
                Some(j) => coders.push(Coder::new(column, j, first)),
                None => absent.push(column.name()),
            }
            first += column.width();
        }
        if let [only] = absent.as_slice() {
            return Err(table.find(only).err().unwrap_or_else(|| table.bad(format!("has no column {}", quote(only)))));
        }
        if !absent.is_empty() {
            return Err(table.bad(format!("has no columns {}", list(absent))));
        }
        let (mut ptr, mut ids, mut values) = (Vec::with_capacity(table.rows() + 1), vec![], vec![]);
        ptr.push(0);
        for i in 0..table.rows() {
            for coder in &mut coders {
                let text = table.cell(i, coder.column);
                if let Some((id, value)) = coder.code(text).map_err(|what| table.bad_at(i, what))? {
                    ids.push(id);
                    values.push(value);
                }
            }
            ptr.push(ids.len());
        }
        let notes = coders.iter().flat_map(Coder::notes).collect();
        Ok((Matrix::sparse(self.features(), ptr, ids, values)?, notes))
    }
}

/// Encoder of the cells of one column.
struct Coder<'a> {
    name: &'a str,
    /// Index in the table.
    column: usize,
    kind: Kind<'a>,
    missing: Option<u32>,
    /// Number of missing cells for which there is no feature.
    unseen_missing: usize,
}

enum Kind<'a> {
    Number {
        id: u32,
        mean: f64,
        deviation: f64,
    },
    Category {
        ids: HashMap<&'a str, u32>,
        other: Option<u32>,
        /// Number of rows with a value for which there is no feature, and some of these values.
        unseen: usize,
        examples: BTreeSet<String>,
    },
}

impl<'a> Coder<'a> {
    /// Returns an encoder; `first` is the first feature of the column.
    fn new(column: &'a Column, place: usize, first: usize) -> Self {
        let first = first as u32;
        let (kind, missing, next) = match column {
            Column::Number { mean, deviation, missing, .. } => {
                (Kind::Number { id: first, mean: *mean, deviation: *deviation }, missing, first + 1)
            }
            Column::Category { levels, other, missing, .. } => {
                let ids: HashMap<&str, u32> = levels.iter().map(String::as_str).zip(first..).collect();
                let next = first + levels.len() as u32;
                let kind = Kind::Category { ids, other: other.then_some(next), unseen: 0, examples: BTreeSet::new() };
                (kind, missing, next + u32::from(*other))
            }
        };
        Coder { name: column.name(), column: place, kind, missing: missing.then_some(next), unseen_missing: 0 }
    }

    /// Returns the feature that a cell sets, if any, and its value.
    fn code(&mut self, text: &str) -> Result<Option<(u32, f64)>, String> {
        let is_missing = match &mut self.kind {
            Kind::Number { id, mean, deviation } => match cell(text) {
                Cell::Number(v) => {
                    let value = (v - *mean) / *deviation;
                    if !value.is_finite() {
                        let (cell, name) = (quote(text), quote(self.name));
                        return Err(format!("{cell} in column {name} is too far from the numbers that the model was trained on"));
                    }
                    return Ok((value != 0.0).then_some((*id, value)));
                }
                Cell::Missing => true,
                kind => return Err(format!("{} in column {} {}", quote(text), quote(self.name), no_number(kind))),
            },
            Kind::Category { ids, other, unseen, examples } => {
                if let Some(&id) = ids.get(text) {
                    return Ok(Some((id, 1.0)));
                }
                let is_missing = is_missing(text);
                if let (false, Some(id)) = (is_missing, other) {
                    return Ok(Some((*id, 1.0)));
                }
                if !is_missing {
                    *unseen += 1;
                    if examples.len() < 3 && !examples.contains(text) {
                        examples.insert(text.to_string());
                    }
                }
                is_missing
            }
        };
        if is_missing && self.missing.is_none() {
            self.unseen_missing += 1;
        }
        Ok(self.missing.filter(|_| is_missing).map(|id| (id, 1.0)))
    }

    fn notes(&self) -> Vec<String> {
        let name = quote(self.name);
        let rows = |n: usize| if n == 1 { "1 row has".to_string() } else { format!("{} rows have", thousands(n)) };
        let mut notes = vec![];
        let counts = match &self.kind {
            Kind::Number { .. } => "the mean",
            Kind::Category { unseen, examples, .. } => {
                if *unseen > 0 {
                    let (rows, examples) = (rows(*unseen), list(examples.iter().map(String::as_str)));
                    notes.push(format!(
                        "column {name}: {rows} a value that the model was not trained on, such as {examples}, which counts as none \
                         of its values"
                    ));
                }
                "none of its values"
            }
        };
        if self.unseen_missing > 0 {
            let rows = rows(self.unseen_missing);
            notes.push(format!("column {name}: {rows} no value, which the model was not trained on and counts as {counts}"));
        }
        notes
    }
}

fn learn_column(table: &Table, j: usize) -> Result<Learned> {
    let (mut numbers, mut missing, mut text, mut not_finite, mut first_bad) = (vec![], 0, 0, 0, None);
    for i in 0..table.rows() {
        match cell(table.cell(i, j)) {
            Cell::Number(v) => numbers.push(v),
            Cell::Missing => missing += 1,
            kind => {
                text += usize::from(kind == Cell::Text);
                not_finite += usize::from(kind == Cell::NotFinite);
                first_bad.get_or_insert((i, kind));
                if text > SLIPS.1 {
                    break;
                }
            }
        }
    }
    if missing == table.rows() {
        return Ok(Learned::Dropped("all its cells are missing".into()));
    }
    let Some((row, kind)) = first_bad else {
        return learn_numbers(table, j, &numbers, missing);
    };
    let bad = text + not_finite;
    let slips = numbers.len() >= SLIPS.0 && (bad == 1 || (bad <= SLIPS.1 && 100 * bad < numbers.len() + bad));
    if slips || (text == 0 && !numbers.is_empty()) {
        let others = if bad == 1 { "the other " } else { "" };
        return Err(table.bad_at(
            row,
            format!(
                "{} {}, although {others}{} cells of column {} are",
                quote(table.cell(row, j)),
                no_number(kind),
                thousands(numbers.len()),
                quote(&table.names()[j])
            ),
        ));
    }
    learn_category(table, j)
}

fn learn_numbers(table: &Table, j: usize, numbers: &[f64], missing: usize) -> Result<Learned> {
    let name = &table.names()[j];
    let (low, high) = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
    if low == high {
        // With one number and missing cells, whether a cell is missing can be informative.
        return if missing > 0 { learn_category(table, j) } else { Ok(Learned::Dropped("all its cells are the same".into())) };
    }
    let counts_up = || numbers.windows(2).all(|v| v[0] < v[1]) && numbers.iter().all(|v| v.fract() == 0.0);
    if missing == 0 && numbers.len() > FEW_ROWS && high - low < 2.0 * numbers.len() as f64 && counts_up() {
        return Ok(Learned::Dropped("it counts up from row to row, as row numbers do".into()));
    }
    // Scaled by the power of two in the largest number, so that squares stay in range without rounding.
    let largest = low.abs().max(high.abs()).max(f64::MIN_POSITIVE);
    let (scale, n) = (f64::from_bits(largest.to_bits() & f64::INFINITY.to_bits()), numbers.len() as f64);
    let mean = numbers.iter().map(|v| v / scale).sum::<f64>() / n;
    let deviation = (numbers.iter().map(|v| (v / scale - mean).powi(2)).sum::<f64>() / n).sqrt();
    let column = Column::Number { name: name.clone(), mean: mean * scale, deviation: deviation * scale, missing: missing > 0 };
    match column.check() {
        Ok(()) => Ok(Learned::Kept(column)),
        Err(_) => {
            let name = quote(name);
            Err(table.bad(format!("the numbers of column {name} lie too close together, from {low} to {high}, to be told apart")))
        }
    }
}

fn learn_category(table: &Table, j: usize) -> Result<Learned> {
    let name = &table.names()[j];
    let rows = table.rows();
    // Number of rows with each value, and the first of them.
    let mut levels: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut missing = 0;
    for i in 0..rows {
        let text = table.cell(i, j);
        if let Some((count, _)) = levels.get_mut(text) {
            *count += 1;
        } else if is_missing(text) {
            missing += 1;
        } else {
            levels.insert(text, (1, i));
        }
    }
    let present = rows - missing;
    if levels.len() == 1 && missing == 0 {
        return Ok(Learned::Dropped("all its cells are the same".into()));
    }
    refuse_dates(table, name, &levels, present)?;
    if levels.keys().all(|text| has_comma(text) || number(text).is_some()) {
        let comma = levels.iter().filter(|(text, _)| has_comma(text)).min_by_key(|(_, (_, first))| *first);
        if let Some((text, (_, first))) = comma {
            let (cell, name) = (quote(text), quote(name));
            return Err(
                table.bad_at(*first, format!("{cell} in column {name} is a number with a comma; expected a decimal point"))
            );
        }
    }
    if levels.len() == present && present > FEW_ROWS {
        return Ok(Learned::Dropped(format!("its {} values are text and all different", thousands(present))));
    }
    let least = FREQUENT.min(rows.div_ceil(100));
    let mut kept: Vec<String> =
        levels.iter().filter(|(_, (count, _))| *count >= least).map(|(text, _)| text.to_string()).collect();
    kept.sort_unstable();
    let other = kept.len() < levels.len();
    if kept.is_empty() && missing == 0 {
        let (all, least) = (thousands(levels.len()), rows_of(least));
        return Ok(Learned::Dropped(format!("it has {all} different values, and none of them is in at least {least}")));
    }
    if kept.len() > MOST_LEVELS {
        return Err(table.bad(format!(
            "column {} is text with {} values that are in at least {} each; expected at most {}; leave it out with {}, or turn it \
             into numbers or fewer values",
            quote(name),
            thousands(kept.len()),
            rows_of(least),
            thousands(MOST_LEVELS),
            leave_out(name)
        )));
    }
    Ok(Learned::Kept(Column::Category { name: name.clone(), levels: kept, other, missing: missing > 0 }))
}

/// Rejects a column of dates: one with dates in more than half of its cells.
fn refuse_dates(table: &Table, name: &str, levels: &HashMap<&str, (usize, usize)>, present: usize) -> Result<()> {
    let dates = || levels.iter().filter(|(text, _)| is_date(text));
    let count: usize = dates().map(|(_, (count, _))| count).sum();
    match dates().min_by_key(|(_, (_, first))| *first) {
        Some((text, (_, first))) if 2 * count > present => Err(date_error(table, name, text, *first)),
        _ => Ok(()),
    }
}

fn date_error(table: &Table, name: &str, text: &str, row: usize) -> Error {
    let (cell, name, option) = (quote(text), quote(name), leave_out(name));
    table.bad_at(row, format!("column {name} has dates such as {cell}: leave it out with {option}, or turn it into numbers"))
}

fn no_number(kind: Cell) -> &'static str {
    if kind == Cell::NotFinite { "is not a finite number" } else { "is not a number" }
}

/// Quotes a name or cell for a message.
fn quote(text: &str) -> String {
    format!("'{}'", show(text.as_bytes()))
}

fn rows_of(n: usize) -> String {
    if n == 1 { "1 row".into() } else { format!("{} rows", thousands(n)) }
}

/// Returns the option that excludes a column, quoted for a shell.
fn leave_out(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    if plain { format!("--leave-out {name}") } else { format!("--leave-out {}", quote(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::Source;
    use crate::testing::runner;
    use proptest::prelude::*;

    /// Returns a table with one column under test and a column of numbers.
    pub(super) fn table(name: &str, cells: &[&str]) -> Table {
        let mut table = Table::new([name, "z"]);
        for (i, cell) in cells.iter().enumerate() {
            table.push([*cell, ["1.5", "0", "-2"][i % 3]]);
        }
        table
    }

    fn read(csv: &str) -> Table {
        Table::from_source(Source::new("my.csv", csv.as_bytes()).unwrap()).unwrap()
    }

    /// Learns with the other column as label.
    fn learn(cells: &[&str]) -> Result<(Encoding, Vec<String>)> {
        Encoding::learn(&table("x", cells), "z", &[])
    }

    fn error(cells: &[&str]) -> String {
        learn(cells).unwrap_err().to_string()
    }

    /// Returns the reason why a column is dropped.
    fn dropped(cells: &[&str]) -> String {
        let (encoding, notes) = Encoding::learn(&table("x", cells), "x", &[]).unwrap();
        assert!(notes.is_empty() && encoding.names() == ["z"]);
        error(cells).replace("the table: has no column to learn from: column 'x' is not used: ", "")
    }

    fn dense(m: &Matrix) -> Vec<Vec<f64>> {
        (0..m.rows())
            .map(|i| {
                let mut row = vec![0.0; m.cols()];
                m.visit_row(i, |c, v| row[c] = v);
                row
            })
            .collect()
    }

    fn bits(m: &Matrix) -> Vec<Vec<u64>> {
        dense(m).iter().map(|row| row.iter().map(|v| v.to_bits()).collect()).collect()
    }

    fn encoded(cells: &[&str]) -> (Vec<String>, Vec<Vec<f64>>) {
        let (encoding, _) = learn(cells).unwrap();
        let (matrix, notes) = encoding.encode(&table("x", cells)).unwrap();
        assert!(notes.is_empty());
        assert_eq!(matrix.cols(), encoding.features());
        (encoding.names(), dense(&matrix))
    }

    fn repeat<'a>(parts: &[(&'a str, usize)]) -> Vec<&'a str> {
        parts.iter().flat_map(|(text, count)| vec![*text; *count]).collect()
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
    fn columns_that_tell_nothing_are_dropped() {
        assert_eq!(dropped(&["a", "a"]), "all its cells are the same");
        assert_eq!(dropped(&["2", "2.0"]), "all its cells are the same");
        assert_eq!(dropped(&["", "NA"]), "all its cells are missing");
        let ids: Vec<String> = (0..21).map(|i| format!("id{i}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(dropped(&ids), "its 21 values are text and all different");
        assert_eq!(learn(&ids[..20]).unwrap().0.features(), 20);
        let numbered: Vec<String> = (0..21).map(|i| (7 + i + i / 4).to_string()).collect();
        let numbered: Vec<&str> = numbered.iter().map(String::as_str).collect();
        assert_eq!(dropped(&numbered), "it counts up from row to row, as row numbers do");
        assert_eq!(learn(&numbered[..20]).unwrap().0.names(), ["x"]);
        let mut mixed = numbered.clone();
        mixed.swap(3, 9);
        assert_eq!(learn(&mixed).unwrap().0.names(), ["x"]);
        let sparse: Vec<String> = (0..21).map(|i| (5 * i).to_string()).collect();
        assert_eq!(learn(&sparse.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().0.names(), ["x"]);
        let names: Vec<String> = (0..1000).map(|i| format!("name {}", i / 2)).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(dropped(&names), "it has 500 different values, and none of them is in at least 10 rows");
        names[0] = "";
        assert_eq!(learn(&names).unwrap().0.names(), ["x = other", "x = missing"]);
    }

    #[test]
    fn dates_are_refused() {
        assert_eq!(
            error(&["", "2024-05-01", "2024-05-02", "soon"]),
            "the table, line 3: column 'x' has dates such as '2024-05-01': leave it out with --leave-out x, \
             or turn it into numbers"
        );
        assert!(learn(&["2024-05-01", "a", "b", "a"]).is_ok());
        let table = read("my day,y\n01.05.2024 10:30,1\n02.05.2024 9:00,2\n");
        let error = Encoding::learn(&table, "y", &[]).unwrap_err().to_string();
        assert!(
            error.starts_with("my.csv, line 2: column 'my day' has dates") && error.contains("--leave-out 'my day'"),
            "{error}"
        );
    }

    #[test]
    fn slips_among_numbers_are_refused() {
        let cells: Vec<String> = (0..1000).map(|i| (i * i % 97).to_string()).collect();
        let with = |slips: &[(usize, &'static str)]| {
            let mut cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            slips.iter().for_each(|(i, text)| cells[*i] = text);
            learn(&cells).map_err(|e| e.to_string())
        };
        assert_eq!(
            with(&[(500, "12,5")]).unwrap_err(),
            "the table, line 502: '12,5' is not a number, although the other 999 cells of column 'x' are"
        );
        assert_eq!(
            with(&[(7, "1e999"), (8, "x")]).unwrap_err(),
            "the table, line 9: '1e999' is not a finite number, although 998 cells of column 'x' are"
        );
        let ten: Vec<(usize, &str)> = (0..10).map(|i| (i, "many")).collect();
        assert!(with(&ten[..9]).is_err());
        assert!(with(&ten).is_ok());
        let few = |numbers: usize| learn(&[repeat(&[("1", 5), ("2", numbers - 5)]), vec!["x"]].concat());
        assert!(few(50).unwrap_err().to_string().contains("although the other 50 cells"));
        assert!(few(49).is_ok());
        // An infinity is an error where every other cell is a number.
        assert_eq!(
            error(&["1", "2", "inf"]),
            "the table, line 4: 'inf' is not a finite number, although the other 2 cells of column 'x' are"
        );
        assert_eq!(
            error(&["1", "12,5"]),
            "the table, line 3: '12,5' in column 'x' is a number with a comma; expected a decimal point"
        );
        assert!(learn(&["1", "1,2", "1,2,3"]).is_ok());
    }

    #[test]
    fn too_many_values_are_refused() {
        let cells: Vec<String> = (0..10_010).map(|i| format!("zip {}", i / 10)).collect();
        let mut cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        assert_eq!(
            error(&cells),
            "the table: column 'x' is text with 1,001 values that are in at least 10 rows each; expected at most 1,000; leave it \
             out with --leave-out x, or turn it into numbers or fewer values"
        );
        cells[0] = "zip 1";
        assert_eq!(learn(&cells).unwrap().0.features(), 1001);
    }

    #[test]
    fn columns_are_chosen_by_name() {
        let table = read("a,b,c,y\n1,2,u,0\n2,2,v,1\n");
        let (encoding, notes) = Encoding::learn(&table, "y", &["c".into()]).unwrap();
        assert_eq!(encoding.names(), ["a"]);
        assert_eq!(notes, ["column 'b' is not used: all its cells are the same"]);
        let error = |leave_out: &[&str], label: &str| {
            let leave_out: Vec<String> = leave_out.iter().map(|s| s.to_string()).collect();
            Encoding::learn(&table, label, &leave_out).unwrap_err().to_string()
        };
        assert_eq!(error(&["d"], "y"), "my.csv: has no column 'd': its columns are 'a', 'b', 'c', 'y'");
        assert_eq!(error(&[], "Y"), "my.csv: has no column 'Y' (did you mean y?): its columns are 'a', 'b', 'c', 'y'");
        assert!(error(&["a", "b", "c"], "y").contains("has no column besides the label"));
        let mut twice = Table::new(["a", "y", "a"]);
        [["1", "0", "x"], ["2", "1", "y"]].into_iter().for_each(|row| twice.push(row));
        let (encoding, notes) = Encoding::learn(&twice, "y", &[]).unwrap();
        assert_eq!((encoding.names(), notes.len()), (vec!["a".to_string()], 1));
    }

    #[test]
    fn later_tables() {
        let (encoding, _) = Encoding::learn(&read("a,b,c,y\n1,u,u,0\n3,v,,1\n"), "y", &[]).unwrap();
        assert_eq!(encoding.names(), ["a", "b = u", "b = v", "c = u", "c = missing"]);
        let (rows, notes) = encoding.encode(&read("extra,c,b,a\n?,,w,\n?,x,NA,5\n?,y,w,2\n")).unwrap();
        assert_eq!(dense(&rows), [[0.0, 0.0, 0.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0, 0.0], [0.0; 5]]);
        assert_eq!(rows.stored(), 2);
        assert_eq!(
            notes,
            [
                "column 'a': 1 row has no value, which the model was not trained on and counts as the mean",
                "column 'b': 2 rows have a value that the model was not trained on, such as 'w', \
                 which counts as none of its values",
                "column 'b': 1 row has no value, which the model was not trained on and counts as none of its values",
                "column 'c': 2 rows have a value that the model was not trained on, such as 'x', 'y', \
                 which counts as none of its values",
            ]
        );
        let error = |csv| encoding.encode(&read(csv)).unwrap_err().to_string();
        assert_eq!(error("x,c\n1,2\n"), "my.csv: has no columns 'a', 'b'");
        assert_eq!(error("A,b,c\n1,u,u\n"), "my.csv: has no column 'a' (did you mean A?): its columns are 'A', 'b', 'c'");
        assert_eq!(error("a,b,c\n1,u,u\n1x,u,u\n"), "my.csv, line 3: '1x' in column 'a' is not a number");
        assert_eq!(error("a,b,c\ninf,u,u\n"), "my.csv, line 2: 'inf' in column 'a' is not a finite number");
        let (narrow, _) = Encoding::learn(&read("a,y\n1e-9,0\n2e-9,1\n"), "y", &[]).unwrap();
        let far = narrow.encode(&read("a,y\n1e-9,0\n1e300,1\n")).unwrap_err().to_string();
        assert!(far.starts_with("my.csv, line 3: '1e300' in column 'a' is too far"), "{far}");
        // Values that were not in the training table count as other, if there is such a feature.
        let (encoding, _) = learn(&repeat(&[("a", 200), ("b", 200), ("c", 1)])).unwrap();
        let (rows, notes) = encoding.encode(&table("x", &["new", "c", "a"])).unwrap();
        assert_eq!((dense(&rows).concat(), notes.len()), ([0, 0, 1, 0, 0, 1, 1, 0, 0].map(f64::from).to_vec(), 0));
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
        assert!(error("1.5", "0").contains("column 'a' is damaged; expected a finite mean and a deviation above 0"));
        assert!(error(r#"["u"]"#, r#"["v","u"]"#).contains("column 'b' is damaged; expected levels in order, each once"));
        assert!(error(r#""name":"b""#, r#""name":"a""#).contains("has column 'a' twice"));
    }

    #[test]
    fn adult_is_typed_as_expected() {
        let table = read(&crate::data::adult::csv().unwrap());
        let (labels, signs, notes) = Labels::learn(&table, "income", None).unwrap();
        assert_eq!((labels.positive.as_str(), labels.negative.as_str()), (">50K", "<=50K"));
        assert_eq!(signs.iter().filter(|y| **y > 0.0).count(), 11_687);
        assert_eq!(notes, ["label 'income': '>50K' counts as positive (11,687 of 48,842 rows), because it is the rarer value"]);
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
        let (grouping, groups, _) = Grouping::learn(&table, "sex").unwrap();
        assert_eq!(grouping.groups, ["Female", "Male"]);
        assert_eq!(groups.of_row.iter().filter(|k| **k == 0).count(), 16_192);
    }

    /// Generates rows of a random table: numbers, words, numbers with missing cells and words with missing cells.
    fn random_rows() -> impl Strategy<Value = Vec<[String; 4]>> {
        let any_number = || prop_oneof![any::<i16>().prop_map(|v| v.to_string()), (-1e6..1e6_f64).prop_map(|v| v.to_string())];
        let word = "[a-cé\",; ]{1,2}";
        let row = (any_number(), word, prop_oneof![any_number(), Just(String::new())], prop_oneof![word, Just("NA".to_string())]);
        prop::collection::vec(row.prop_map(|(a, b, c, d)| [a, b, c, d]), 3..40)
    }

    /// Returns the rows as a table with the columns in this order.
    fn arranged(rows: &[[String; 4]], order: &[usize]) -> Table {
        let mut table = Table::new(order.iter().map(|j| ["p", "q", "r", "s"][*j]).chain(["y"]));
        for (i, row) in rows.iter().enumerate() {
            table.push(order.iter().map(|j| row[*j].as_str()).chain([["0", "1"][i % 2]]));
        }
        table
    }

    #[test]
    fn random_tables_encode_alike_in_any_order_row_by_row_and_from_json() {
        let kept = std::cell::Cell::new(0);
        let order = Just([0, 1, 2, 3]).prop_shuffle();
        let seen = runner().run(&(random_rows(), order), |(rows, order)| {
            let table = arranged(&rows, &[0, 1, 2, 3]);
            let Ok((encoding, _)) = Encoding::learn(&table, "y", &[]) else { return Ok(()) };
            kept.set(kept.get() + 1);
            let (matrix, notes) = encoding.encode(&table).unwrap();
            prop_assert!(notes.is_empty());
            prop_assert_eq!(matrix.cols(), encoding.names().len());
            let wanted = bits(&matrix);
            prop_assert_eq!(bits(&encoding.encode(&arranged(&rows, &order)).unwrap().0), wanted.clone());
            let through_csv = read(&arranged(&rows, &order).to_csv());
            prop_assert_eq!(bits(&encoding.encode(&through_csv).unwrap().0), wanted.clone());
            let back: Encoding = serde_json::from_str(&serde_json::to_string(&encoding).unwrap()).unwrap();
            prop_assert_eq!(&back, &encoding);
            prop_assert_eq!(bits(&back.encode(&table).unwrap().0), wanted.clone());
            for (row, wanted) in rows.iter().zip(wanted) {
                let alone = arranged(std::slice::from_ref(row), &[0, 1, 2, 3]);
                prop_assert_eq!(bits(&encoding.encode(&alone).unwrap().0), vec![wanted]);
            }
            Ok(())
        });
        seen.unwrap();
        assert!(kept.get() > 200, "{}", kept.get());
    }
}
