//! Groups and weights of rows, each from a column of a table. The terms that use them are in the library.

use serde::{Deserialize, Serialize};
use thalweg::learn::Groups;
use thalweg::{Note, thousands};

use super::cells::{Cell, MISSING_NAME, OTHER_NAME, cell, look_up, quote, same, values};
use crate::Result;
use crate::data::source::list;
use crate::data::table::Table;

/// Maximum number of groups from a column of numbers, and of text.
const MOST: (usize, usize) = (20, 100);

/// Division of rows into groups by a column. Different spellings of a number, such as `1` and `1.0`, are one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grouping {
    /// Name of the column.
    pub column: String,
    /// Value that is compared with all others; `None` if each value is a group.
    pub value: Option<String>,
    /// Names of the groups; with two, the first is the protected one.
    pub groups: Vec<String>,
}

impl Grouping {
    /// Learns groups from `COL`, where each value is a group, or `COL=VALUE`, where that value is compared with all others.
    /// Values are sorted, numbers before text, and missing cells are a group; of two groups of `COL` the smaller comes first.
    /// Also returns the groups of the rows, and messages for the user.
    pub fn learn(table: &Table, spec: &str) -> Result<(Grouping, Groups, Vec<Note>)> {
        let (column, value) = parts(table, spec)?;
        let (name, found) = (quote(&table.names()[column]), values(table, column));
        let mut counts: Vec<(&str, usize)> = found.list.iter().map(|v| (v.text, v.rows)).collect();
        let groups: Vec<(&str, usize)> = match value {
            Some(value) => {
                // Cells are compared as they are, so that a value that means missing can be selected too.
                let rows = (0..table.rows()).filter(|i| same(table.cell(*i, column), value)).count();
                if rows == 0 {
                    let known = || counts.iter().map(|(text, _)| *text);
                    let guess = thalweg::suggest::did_you_mean(value, known());
                    let (value, known) = (quote(value), list(known()));
                    return Err(table.bad(format!("no row has {value}{guess} in column {name}: its values are {known}")));
                }
                let other = if value == OTHER_NAME { "the rest" } else { OTHER_NAME };
                vec![(value, rows), (other, table.rows() - rows)]
            }
            None => {
                let (most, what) = if found.numbers { (MOST.0, "numbers") } else { (MOST.1, "values") };
                if counts.len() > most {
                    return Err(table.bad(format!(
                        "column {name} has {} different {what}; expected at most {most} groups; COLUMN=VALUE sets one value \
                         against all others, such as {}",
                        thousands(counts.len()),
                        quote(&format!("{}={}", table.names()[column], counts[0].0))
                    )));
                }
                if let Some((rows, _)) = found.missing {
                    match counts.iter_mut().find(|(text, _)| *text == MISSING_NAME) {
                        Some((_, count)) => *count += rows,
                        None => counts.push((MISSING_NAME, rows)),
                    }
                }
                if let [first, second] = counts.as_mut_slice()
                    && second.1 < first.1
                {
                    std::mem::swap(first, second);
                }
                counts
            }
        };
        if groups.len() < 2 || groups.iter().any(|(_, rows)| *rows == 0) {
            let only = groups.first().map_or_else(String::new, |(text, _)| format!(", {}", quote(text)));
            return Err(table.bad(format!("all rows are in one group of column {name}{only}; expected at least two groups")));
        }
        let small = groups.iter().filter(|(_, rows)| *rows < 2);
        let notes =
            small.map(|(text, _)| Note::SmallGroup { column: table.names()[column].clone(), group: text.to_string() }).collect();
        let grouping = Grouping {
            column: table.names()[column].clone(),
            value: value.map(String::from),
            groups: groups.iter().map(|(text, _)| text.to_string()).collect(),
        };
        let of_rows = grouping.of_rows(table, column)?;
        Ok((grouping, of_rows, notes))
    }

    /// Returns the groups of the rows of another table; `None` if it has no such column. A value without a group is an error.
    pub fn read(&self, table: &Table) -> Result<Option<Groups>> {
        table.column(&self.column).map(|j| self.of_rows(table, j)).transpose()
    }

    fn of_rows(&self, table: &Table, column: usize) -> Result<Groups> {
        let of_row = match &self.value {
            Some(value) => (0..table.rows()).map(|i| u32::from(!same(table.cell(i, column), value))).collect(),
            None => look_up(table, column, &self.groups, Some(MISSING_NAME)).map_err(|row| {
                let (cell, name) = (quote(table.cell(row, column)), quote(&self.column));
                let known = list(self.groups.iter().map(String::as_str));
                table.bad_at(row, format!("{cell} in column {name} is none of the groups {known}"))
            })?,
        };
        Ok(Groups { names: self.groups.clone(), of_row })
    }
}

/// Splits `COL` or `COL=VALUE` into column and value. Column names may contain `=`: the first split that names a column is
/// used.
fn parts<'a>(table: &Table, spec: &'a str) -> Result<(usize, Option<&'a str>)> {
    if let Some(column) = table.column(spec) {
        return Ok((column, None));
    }
    let split = |(at, _): (usize, &str)| table.column(spec[..at].trim()).map(|column| (column, Some(spec[at + 1..].trim())));
    match spec.match_indices('=').find_map(split) {
        Some(found) => Ok(found),
        None => Ok((table.find(spec.split('=').next().unwrap_or(spec).trim())?, None)),
    }
}

/// Reads the weights of the rows from a column: finite numbers of at least 0, not all of them 0.
pub fn weights(table: &Table, column: &str) -> Result<Vec<f64>> {
    let j = table.find(column)?;
    let weight = |i: usize| match cell(table.cell(i, j)) {
        Cell::Number(w) if w >= 0.0 => Ok(w),
        kind => {
            let what = if kind == Cell::Missing { "missing".into() } else { quote(table.cell(i, j)) };
            Err(table.bad_at(i, format!("the weight in column {} is {what}; expected a number of at least 0", quote(column))))
        }
    };
    let weights = (0..table.rows()).map(weight).collect::<Result<Vec<f64>>>()?;
    if weights.iter().all(|w| *w == 0.0) {
        return Err(table.bad(format!("all weights in column {} are 0; expected some above 0", quote(column))));
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    fn learn(cells: &[&str], spec: &str) -> (Vec<String>, Vec<u32>, Vec<Note>) {
        let (grouping, groups, notes) = Grouping::learn(&table("g", cells), spec).unwrap();
        assert_eq!(grouping.groups, groups.names);
        assert_eq!(grouping.read(&table("g", cells)).unwrap(), Some(groups.clone()));
        let json = serde_json::to_string(&grouping).unwrap();
        assert_eq!(serde_json::from_str::<Grouping>(&json).unwrap(), grouping);
        (groups.names, groups.of_row, notes)
    }

    fn error(cells: &[&str], spec: &str) -> String {
        Grouping::learn(&table("g", cells), spec).unwrap_err().to_string()
    }

    #[test]
    fn each_value_is_a_group() {
        let (names, of_row, notes) = learn(&["m", "f", "m", "m", "f"], "g");
        assert_eq!((names, of_row), (vec!["f".to_string(), "m".into()], vec![1, 0, 1, 1, 0]));
        assert!(notes.is_empty());
        // The smaller of two groups comes first, whatever its name; more than two are sorted by name.
        assert_eq!(learn(&["a", "b", "a"], "g").0, ["b", "a"]);
        assert_eq!(learn(&["c", "a", "b", "a", "b"], "g").0, ["a", "b", "c"]);
        assert_eq!(
            crate::testing::sentences(&learn(&["c", "a", "b", "a", "b"], "g").2),
            ["group 'c' of column 'g' has only one row"]
        );
        let (names, of_row, _) = learn(&["10", "NA", "9.0", "9", "?", "missing"], "g");
        assert_eq!((names, of_row), (["9.0", "10", "missing"].map(String::from).to_vec(), vec![1, 2, 0, 0, 2, 2]));
        assert_eq!(learn(&["2", "10", "2.0", "10"], "g").0, ["2", "10"]);
    }

    #[test]
    fn a_value_against_the_others() {
        let (names, of_row, _) = learn(&["a", "b", "c", "", "b"], "g=b");
        assert_eq!((names, of_row), (vec!["b".to_string(), "other".into()], vec![1, 0, 1, 1, 0]));
        assert_eq!(learn(&["other", "x"], "g=other").0, ["other", "the rest"]);
        assert_eq!(learn(&["1.0", "x"], "g = 1").1, [0, 1]);
        assert_eq!(learn(&["NA", "x"], "g=NA").1, [0, 1]);
        let mut odd = Table::new(["a=b", "c"]);
        [["x", "1"], ["y", "2"]].into_iter().for_each(|row| odd.push(row));
        assert_eq!(Grouping::learn(&odd, "a=b").unwrap().1.names, ["x", "y"]);
        assert_eq!(Grouping::learn(&odd, "a=b=y").unwrap().1.names, ["y", "other"]);
    }

    #[test]
    fn what_makes_no_groups_is_refused() {
        assert_eq!(
            error(&["a", "a"], "g"),
            "the table: all rows are in one group of column 'g', 'a'; expected at least two groups"
        );
        assert!(error(&["a", "a"], "g=a").contains("all rows are in one group of column 'g', 'a'"));
        assert_eq!(error(&["a", "b"], "h=a"), "the table has no column 'h'; its columns are 'g', 'z'");
        assert_eq!(
            error(&["Female", "Male"], "g=female"),
            "the table: no row has 'female' (did you mean Female?) in column 'g': its values are 'Female', 'Male'"
        );
        let many: Vec<String> = (0..101).map(|i| (1000 + i).to_string()).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            error(&many, "g"),
            "the table: column 'g' has 101 different numbers; expected at most 20 groups; COLUMN=VALUE sets one value against all \
             others, such as 'g=1000'"
        );
        many[0] = "x";
        assert!(error(&many, "g").contains("has 101 different values; expected at most 100 groups"));
    }

    #[test]
    fn other_tables_are_read_with_the_same_groups() {
        let grouping = Grouping { column: "g".into(), value: None, groups: vec!["1".into(), "0".into()] };
        assert_eq!(grouping.read(&table("g", &["0", "1.0"])).unwrap().unwrap().of_row, [1, 0]);
        assert_eq!(grouping.read(&table("h", &["0"])).unwrap(), None);
        let error = |cells: &[&str]| grouping.read(&table("g", cells)).unwrap_err().to_string();
        assert_eq!(error(&["0", "2"]), "the table, line 3: '2' in column 'g' is none of the groups '1', '0'");
        assert!(error(&[""]).starts_with("the table, line 2: '' in column 'g'"));
    }

    #[test]
    fn weights_are_numbers_of_at_least_0() {
        assert_eq!(weights(&table("w", &["1", "0", "2.5"]), "w").unwrap(), [1.0, 0.0, 2.5]);
        let error = |cells: &[&str], name| weights(&table("w", cells), name).unwrap_err().to_string();
        for (cell, shown) in [("-1", "'-1'"), ("inf", "'inf'"), ("a", "'a'"), ("", "missing"), ("NaN", "missing")] {
            let wanted = format!("the table, line 3: the weight in column 'w' is {shown}; expected a number of at least 0");
            assert_eq!(error(&["1", cell], "w"), wanted);
        }
        assert_eq!(error(&["0", "0"], "w"), "the table: all weights in column 'w' are 0; expected some above 0");
        assert!(error(&["1"], "v").starts_with("the table has no column 'v'"));
    }
}
