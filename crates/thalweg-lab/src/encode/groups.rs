//! Groups and weights of rows, each from a column of a table. The terms that use them are in the library.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thalweg::learn::Groups;
use thalweg::{Note, thousands};

use super::cells::{Cell, MISSING_NAME, OTHER_NAME, cell, look_up, quote, same, values};
use crate::Result;
use crate::data::source::list;
use crate::data::table::Table;

/// Maximum number of groups from a column of numbers, and of text.
const MOST: (usize, usize) = (20, 100);

/// Division of rows into groups: by a column, or by the combinations of the groups of several columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    columns: Vec<GroupColumn>,
    /// For each group, the group of each column that it consists of. With one column these are its groups in order.
    combinations: Vec<Vec<u32>>,
}

/// Division of rows into groups by a column. Different spellings of a number, such as `1` and `1.0`, are one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupColumn {
    /// Name of the column.
    pub column: String,
    /// Value that is compared with all others; `None` if each value is a group.
    pub value: Option<String>,
    /// Names of the groups; with two, the first is the protected one.
    pub groups: Vec<String>,
}

/// One of several columns whose combinations are the groups, as a coarser division of the same rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoarserGroups {
    /// Name of the column.
    pub column: String,
    /// Names of its groups.
    pub names: Vec<String>,
    /// For each combination, an index into `names`.
    pub of_group: Vec<u32>,
}

impl Grouping {
    /// Learns groups from one or more columns, each as in [`GroupColumn::learn`]. Several columns divide the rows by the
    /// combinations that occur, in the order of the columns and of their groups. Also returns the groups of the rows, and messages
    /// for the user.
    pub fn learn(table: &Table, specs: &[impl AsRef<str>]) -> Result<(Grouping, Groups, Vec<Note>)> {
        let (mut columns, mut divisions, mut notes) = (vec![], vec![], vec![]);
        for spec in specs {
            let (column, groups, more): (GroupColumn, Groups, _) = GroupColumn::learn(table, spec.as_ref())?;
            if columns.iter().any(|known: &GroupColumn| known.column == column.column) {
                return Err(
                    table.bad(format!("column {} is named twice for the groups; expected it once", quote(&column.column)))
                );
            }
            columns.push(column);
            divisions.push(groups);
            notes.extend(more);
        }
        if let ([only], [groups]) = (columns.as_slice(), divisions.as_slice()) {
            return Ok((Grouping::of(only.clone()), groups.clone(), notes));
        }
        let mut counts: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
        for i in 0..table.rows() {
            *counts.entry(combination(&divisions, i)).or_default() += 1;
        }
        let grouping = Grouping { columns, combinations: counts.keys().cloned().collect() };
        if counts.len() > MOST.1 {
            let (names, found) = (grouping.list_columns(), thousands(counts.len()));
            return Err(table.bad(format!(
                "columns {names} have {found} different combinations; expected at most {} groups; COLUMN=VALUE sets one value of a \
                 column against all others",
                MOST.1
            )));
        }
        let column = grouping.title();
        let small = grouping.names().into_iter().zip(counts.values()).filter(|(_, rows)| **rows < 2);
        let notes = small.map(|(group, _)| Note::SmallGroup { column: column.clone(), group }).collect();
        let groups = grouping.combined(table, &divisions)?;
        Ok((grouping, groups, notes))
    }

    /// Returns the grouping by one column.
    pub fn of(column: GroupColumn) -> Self {
        let combinations = (0..column.groups.len() as u32).map(|k| vec![k]).collect();
        Grouping { columns: vec![column], combinations }
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[GroupColumn] {
        &self.columns
    }

    /// Returns the names of the columns, with commas between them.
    pub fn title(&self) -> String {
        self.columns.iter().map(|c| c.column.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn list_columns(&self) -> String {
        list(self.columns.iter().map(|c| c.column.as_str()))
    }

    /// Returns the names of the groups; those of combinations have commas between their parts.
    pub fn names(&self) -> Vec<String> {
        self.combinations.iter().map(|key| self.name(key)).collect()
    }

    fn name(&self, key: &[u32]) -> String {
        let part = |(column, k): (&GroupColumn, &u32)| column.groups.get(*k as usize).cloned().unwrap_or_default();
        self.columns.iter().zip(key).map(part).collect::<Vec<_>>().join(", ")
    }

    /// Returns the divisions by each of several columns; empty for one column, whose groups are the groups.
    pub fn by_column(&self) -> Vec<CoarserGroups> {
        if self.columns.len() < 2 {
            return vec![];
        }
        let coarser = |(j, column): (usize, &GroupColumn)| CoarserGroups {
            column: column.column.clone(),
            names: column.groups.clone(),
            of_group: self.combinations.iter().map(|key| key[j]).collect(),
        };
        self.columns.iter().enumerate().map(coarser).collect()
    }

    /// Returns the groups of the rows of another table; `None` if it lacks one of the columns. A value or combination that is no
    /// group is an error.
    pub fn read(&self, table: &Table) -> Result<Option<Groups>> {
        let divisions: Option<Vec<Groups>> =
            self.columns.iter().map(|c| c.read(table).transpose()).collect::<Option<Result<_>>>().transpose()?;
        match divisions {
            Some(divisions) if self.columns.len() > 1 => self.combined(table, &divisions).map(Some),
            divisions => Ok(divisions.and_then(|mut one| one.pop())),
        }
    }

    /// Returns the combination of each row.
    fn combined(&self, table: &Table, divisions: &[Groups]) -> Result<Groups> {
        let known: HashMap<&[u32], u32> = self.combinations.iter().map(Vec::as_slice).zip(0..).collect();
        let of_row = (0..table.rows()).map(|i| {
            let key = combination(divisions, i);
            known.get(key.as_slice()).copied().ok_or_else(|| {
                let (name, columns) = (quote(&self.name(&key)), self.list_columns());
                table.bad_at(
                    i,
                    format!("the combination {name} of columns {columns} did not occur in training, so it is no group"),
                )
            })
        });
        Ok(Groups { names: self.names(), of_row: of_row.collect::<Result<_>>()? })
    }

    fn check(&self) -> Result<(), String> {
        let key = |key: &Vec<u32>| {
            key.len() == self.columns.len()
                && key.iter().zip(&self.columns).all(|(k, column)| (*k as usize) < column.groups.len())
        };
        let sound = self.columns.len() > 1 && self.combinations.iter().all(key) && self.combinations.is_sorted_by(|a, b| a < b);
        let columns = self.list_columns();
        if sound {
            Ok(())
        } else {
            Err(format!("the groups of columns {columns} are damaged; expected combinations of their groups in order, each once"))
        }
    }
}

/// Returns the groups of row `i` in each division.
fn combination(divisions: &[Groups], i: usize) -> Vec<u32> {
    divisions.iter().map(|groups| groups.of_row[i]).collect()
}

/// Stored form: the column itself if there is one.
#[derive(Serialize)]
#[serde(untagged)]
enum Stored<'a> {
    One(&'a GroupColumn),
    Several { columns: &'a [GroupColumn], combinations: &'a [Vec<u32>] },
}

/// Fields of both stored forms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    column: Option<String>,
    value: Option<String>,
    groups: Option<Vec<String>>,
    columns: Option<Vec<GroupColumn>>,
    combinations: Option<Vec<Vec<u32>>>,
}

impl Serialize for Grouping {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.columns.as_slice() {
            [only] => Stored::One(only).serialize(serializer),
            columns => Stored::Several { columns, combinations: &self.combinations }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Grouping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Fields::deserialize(deserializer)? {
            Fields { column: Some(column), value, groups: Some(groups), columns: None, combinations: None } => {
                Ok(Grouping::of(GroupColumn { column, value, groups }))
            }
            Fields { column: None, value: None, groups: None, columns: Some(columns), combinations: Some(combinations) } => {
                let grouping = Grouping { columns, combinations };
                grouping.check().map_err(de::Error::custom)?;
                Ok(grouping)
            }
            _ => Err(de::Error::custom("the groups need either a column and its groups, or columns and their combinations")),
        }
    }
}

impl GroupColumn {
    /// Learns groups from `COL`, where each value is a group, or `COL=VALUE`, where that value is compared with all others.
    /// Values are sorted, numbers before text, and missing cells are a group; of two groups of `COL` the smaller comes first.
    /// Also returns the groups of the rows, and messages for the user.
    pub fn learn(table: &Table, spec: &str) -> Result<(GroupColumn, Groups, Vec<Note>)> {
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
                    let hint = if guess.is_empty() { format!("; its values are {}", list(known())) } else { guess };
                    return Err(table.bad(format!("no row has {} in column {name}{hint}", quote(value))));
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
        let grouping = GroupColumn {
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
        let (grouping, groups, notes) = Grouping::learn(&table("g", cells), &[spec]).unwrap();
        assert_eq!(grouping.names(), groups.names);
        assert_eq!(grouping.read(&table("g", cells)).unwrap(), Some(groups.clone()));
        let json = serde_json::to_string(&grouping).unwrap();
        assert_eq!(serde_json::from_str::<Grouping>(&json).unwrap(), grouping);
        (groups.names, groups.of_row, notes)
    }

    fn error(cells: &[&str], spec: &str) -> String {
        Grouping::learn(&table("g", cells), &[spec]).unwrap_err().to_string()
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
        assert_eq!(Grouping::learn(&odd, &["a=b"]).unwrap().1.names, ["x", "y"]);
        assert_eq!(Grouping::learn(&odd, &["a=b=y"]).unwrap().1.names, ["y", "other"]);
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
            "the table: no row has 'female' in column 'g'; did you mean 'Female'?"
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
        let column = GroupColumn { column: "g".into(), value: None, groups: vec!["1".into(), "0".into()] };
        let grouping = Grouping::of(column);
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
