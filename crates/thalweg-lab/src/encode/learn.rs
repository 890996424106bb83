//! Learns an encoding: the type of each column, and its mean and deviation or its levels.

use std::collections::HashMap;

use super::cells::{Cell, cell, has_comma, is_date, is_missing, no_number, number, quote};
use super::{Column, Encoding, VERSION};
use crate::data::table::Table;
use crate::{Error, Result};
use thalweg::{DropReason, Note, thousands};

/// Maximum number of frequent values in a column of text.
const MOST_LEVELS: usize = 1_000;
/// Minimum number of rows of a frequent value; in small tables 1% of the rows. Rarer values of a category count as "other".
const FREQUENT: usize = 10;
/// Maximum number of rows of a table in which text that differs in every row is accepted.
const FEW_ROWS: usize = 20;
/// A column with at least the first number of numeric cells counts as numbers with typing errors if one cell is not a number,
/// or if at most the second number of cells, and fewer than 1%, are not.
const SLIPS: (usize, usize) = (50, 100);

/// Encoding learned for a column.
enum LearnedColumn {
    Kept(Column),
    /// Dropped, with the reason.
    Dropped(DropReason),
}

impl Encoding {
    /// Learns the type of every column other than `label` and `leave_out` from its cells. Columns without information are
    /// dropped, each with a message for the user, which is returned too. Dates, numbers with typing errors and text with too
    /// many values are errors.
    pub fn learn(table: &Table, label: &str, leave_out: &[String]) -> Result<(Encoding, Vec<Note>)> {
        Self::learn_with(table, label, leave_out, &[])
    }

    /// Does the same as [`Encoding::learn`], with each value of the columns `categorical` as a category even if all are numbers.
    pub fn learn_with(table: &Table, label: &str, leave_out: &[String], categorical: &[String]) -> Result<(Encoding, Vec<Note>)> {
        let categorical: Vec<usize> = categorical.iter().map(|name| table.find(name)).collect::<Result<_>>()?;
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
                Some(first) if first != j => LearnedColumn::Dropped(DropReason::RepeatedName),
                _ if categorical.contains(&j) => learn_category(table, j)?,
                _ => learn_column(table, j)?,
            };
            match learned {
                LearnedColumn::Kept(column) => columns.push(column),
                LearnedColumn::Dropped(reason) => notes.push(Note::ColumnDropped { column: name.clone(), reason }),
            }
        }
        if columns.is_empty() {
            return Err(table.bad(match notes.as_slice() {
                [] => "has no column besides the label and those left out; expected something to learn from".to_string(),
                some => {
                    let notes: Vec<String> = some.iter().map(ToString::to_string).collect();
                    format!("has no column to learn from: {}", notes.join("; "))
                }
            }));
        }
        Ok((Encoding { version: VERSION, columns }, notes))
    }
}

fn learn_column(table: &Table, j: usize) -> Result<LearnedColumn> {
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
        return Ok(LearnedColumn::Dropped(DropReason::Missing));
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

fn learn_numbers(table: &Table, j: usize, numbers: &[f64], missing: usize) -> Result<LearnedColumn> {
    let name = &table.names()[j];
    let (low, high) = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
    if low == high {
        // With one number and missing cells, whether a cell is missing can be informative.
        return if missing > 0 { learn_category(table, j) } else { Ok(LearnedColumn::Dropped(DropReason::Constant)) };
    }
    let counts_up = || numbers.windows(2).all(|v| v[0] < v[1]) && numbers.iter().all(|v| v.fract() == 0.0);
    if missing == 0 && numbers.len() > FEW_ROWS && high - low < 2.0 * numbers.len() as f64 && counts_up() {
        return Ok(LearnedColumn::Dropped(DropReason::RowNumbers));
    }
    // Scaled by the power of two in the largest number, so that squares stay in range without rounding.
    let largest = low.abs().max(high.abs()).max(f64::MIN_POSITIVE);
    let (scale, n) = (f64::from_bits(largest.to_bits() & f64::INFINITY.to_bits()), numbers.len() as f64);
    let mean = numbers.iter().map(|v| v / scale).sum::<f64>() / n;
    let deviation = (numbers.iter().map(|v| (v / scale - mean).powi(2)).sum::<f64>() / n).sqrt();
    let column = Column::Number {
        name: name.clone(),
        mean: mean * scale,
        deviation: deviation * scale,
        missing: missing > 0,
        complete: false,
    };
    match column.check() {
        Ok(()) => Ok(LearnedColumn::Kept(column)),
        Err(_) => {
            let name = quote(name);
            Err(table.bad(format!("the numbers of column {name} lie too close together, from {low} to {high}, to be told apart")))
        }
    }
}

fn learn_category(table: &Table, j: usize) -> Result<LearnedColumn> {
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
        return Ok(LearnedColumn::Dropped(DropReason::Constant));
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
        return Ok(LearnedColumn::Dropped(DropReason::AllDifferent { values: present }));
    }
    let least = FREQUENT.min(rows.div_ceil(100));
    let mut kept: Vec<String> =
        levels.iter().filter(|(_, (count, _))| *count >= least).map(|(text, _)| text.to_string()).collect();
    kept.sort_unstable();
    let other = kept.len() < levels.len();
    if kept.is_empty() && missing == 0 {
        return Ok(LearnedColumn::Dropped(DropReason::NoFrequentValue { values: levels.len(), least }));
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
    Ok(LearnedColumn::Kept(Column::Category { name: name.clone(), levels: kept, other, missing: missing > 0 }))
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
    use super::super::tests::{learn, read, repeat, table};
    use super::*;

    fn error(cells: &[&str]) -> String {
        learn(cells).unwrap_err().to_string()
    }

    /// Returns the reason why a column is dropped.
    fn dropped(cells: &[&str]) -> String {
        let (encoding, notes) = Encoding::learn(&table("x", cells), "x", &[]).unwrap();
        assert!(notes.is_empty() && encoding.names() == ["z"]);
        error(cells).replace("the table: has no column to learn from: column 'x' is not used: ", "")
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
    fn numbers_can_be_categories() {
        let table = read("code,z,y\n3,1.5,0\n1,0,1\n3,2,1\n2,1,0\n");
        let learn = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|s| s.to_string()).collect();
            Encoding::learn_with(&table, "y", &[], &names)
        };
        assert_eq!(learn(&[]).unwrap().0.names(), ["code", "z"]);
        assert_eq!(learn(&["code"]).unwrap().0.names(), ["code = 1", "code = 2", "code = 3", "z"]);
        assert!(learn(&["cod"]).unwrap_err().to_string().contains("column 'cod'; did you mean 'code'?"));
    }

    #[test]
    fn columns_are_chosen_by_name() {
        let table = read("a,b,c,y\n1,2,u,0\n2,2,v,1\n");
        let (encoding, notes) = Encoding::learn(&table, "y", &["c".into()]).unwrap();
        assert_eq!(encoding.names(), ["a"]);
        assert_eq!(crate::testing::sentences(&notes), ["column 'b' is not used: all its cells are the same"]);
        let error = |leave_out: &[&str], label: &str| {
            let leave_out: Vec<String> = leave_out.iter().map(|s| s.to_string()).collect();
            Encoding::learn(&table, label, &leave_out).unwrap_err().to_string()
        };
        assert_eq!(error(&["d"], "y"), "my.csv has no column 'd'; its columns are 'a', 'b', 'c', 'y'");
        assert_eq!(error(&[], "Y"), "my.csv has no column 'Y'; did you mean 'y'?");
        assert!(error(&["a", "b", "c"], "y").contains("has no column besides the label"));
        let mut twice = Table::new(["a", "y", "a"]);
        [["1", "0", "x"], ["2", "1", "y"]].into_iter().for_each(|row| twice.push(row));
        let (encoding, notes) = Encoding::learn(&twice, "y", &[]).unwrap();
        assert_eq!((encoding.names(), notes.len()), (vec!["a".to_string()], 1));
    }
}
