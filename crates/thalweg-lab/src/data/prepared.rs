//! Raw tables of the catalogue made ready for learning: one recipe per set says which rows stay and which columns become which
//! numbers. Reading tables is done in [`super::table`]; a user's own columns are typed from their cells in [`crate::encode`].

use thalweg::learn::{Data, Groups};
use thalweg::math::Matrix;

use super::sets::Reading;
use super::source::{list, show};
use super::table::Table;
use crate::{Error, Result};

/// How a raw table becomes rows of numbers. What the label and the groups are is in the `Reading` of the set, which counting
/// uses too. Every cell that is looked at must be one that the recipe knows: a damaged file is refused, not guessed at.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Number of rows that stay of the catalogue's copy.
    pub rows: usize,
    /// Where the coding comes from, in one line.
    pub about: &'static str,
    /// A row stays if it passes all of these.
    pub(super) keep: &'static [(&'static str, Rule)],
    /// What the label's column has in rows that are not positive.
    pub(super) negative: &'static [&'static str],
    /// The columns to read, in the order of the features. The groups' column is among them, so that its cells are checked.
    pub(super) columns: &'static [(&'static str, Code)],
}

/// Which rows stay, by their cell in a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// Those with a number from the first to the second; an empty cell is no number, and its row goes.
    Within(f64, f64),
    /// Those with one of the words of `stay`; every other row must have one of `go`.
    Words { stay: &'static [&'static str], go: &'static [&'static str] },
}

/// Features that a column becomes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    /// One: the number divided by the largest of its column in the rows that stay, so that it lies in [0, 1].
    Scaled,
    /// One: 0 for the first word, 1 for the second.
    TwoValued([&'static str; 2]),
    /// One for each word, 1 in rows that have it.
    Full(&'static [&'static str]),
}
use Code::{Full, Scaled, TwoValued};

/// Rows and columns as in publications with n = 6,172 and d = 16. The filter is ProPublica's own.
pub(super) const COMPAS_TWO_YEARS: Recipe = Recipe {
    rows: 6_172,
    about: "ProPublica's filter; which coding published results with 16 columns used is not known, so the columns and the scale \
            of the numbers are a choice",
    keep: &[
        ("days_b_screening_arrest", Rule::Within(-30.0, 30.0)),
        ("is_recid", Rule::Words { stay: &["0", "1"], go: &["-1"] }),
        ("c_charge_degree", Rule::Words { stay: &["F", "M"], go: &["O"] }),
        ("score_text", Rule::Words { stay: &["Low", "Medium", "High"], go: &["N/A"] }),
    ],
    negative: &["0"],
    columns: &[
        ("sex", TwoValued(["Female", "Male"])),
        ("c_charge_degree", TwoValued(["F", "M"])),
        ("age_cat", Full(&["Less than 25", "25 - 45", "Greater than 45"])),
        ("race", Full(&["African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other"])),
        ("age", Scaled),
        ("juv_fel_count", Scaled),
        ("juv_misd_count", Scaled),
        ("juv_other_count", Scaled),
        ("priors_count", Scaled),
    ],
};

impl Recipe {
    /// Number of features.
    pub fn columns(&self) -> usize {
        self.columns.iter().map(|(_, code)| code.width()).sum()
    }

    /// What is done, in words: a line for each rule and each column, features counted from 1.
    pub fn steps(&self) -> Vec<String> {
        let mut steps: Vec<String> =
            self.keep.iter().map(|(name, rule)| format!("rows with {name} {}", rule.describe())).collect();
        let mut first = 1;
        for (name, code) in self.columns {
            let last = first + code.width() - 1;
            let which = if first == last { format!("column {first}") } else { format!("columns {first} to {last}") };
            steps.push(format!("{which}: {name}, {}", code.describe()));
            first = last + 1;
        }
        steps
    }

    /// The rows that stay, in the order of the table.
    pub(super) fn prepare(&self, table: &Table, reading: &Reading) -> Result<Data> {
        let rules = located(table, self.keep)?;
        let codes = located(table, self.columns)?;
        let (label, group) = (table.find(reading.label)?, table.find(reading.group)?);
        let (mut ptr, mut ids, mut values, mut labels, mut of_row) = (vec![0], vec![], vec![], vec![], vec![]);
        let mut largest = vec![0.0_f64; self.columns()];
        for i in 0..table.rows() {
            let refuse = |name: &str, cell: &str, wanted: String| {
                table.bad_at(i, format!("{name} is '{}': wanted {wanted}", show(cell.as_bytes())))
            };
            let mut stays = true;
            for (name, place, rule) in &rules {
                let cell = table.cell(i, *place);
                stays &= rule.passes(cell).map_err(|wanted| refuse(name, cell, wanted))?;
            }
            if !stays {
                continue;
            }
            let mut first = 0;
            for (name, place, code) in &codes {
                let cell = table.cell(i, *place);
                let (offset, value) = code.feature(cell).map_err(|wanted| refuse(name, cell, wanted))?;
                let id = first + offset;
                if value != 0.0 {
                    ids.push(id as u32);
                    values.push(value);
                    largest[id] = largest[id].max(value);
                }
                first += code.width();
            }
            ptr.push(ids.len());
            labels.push(match table.cell(i, label) {
                cell if cell == reading.positive => 1.0,
                cell if self.negative.contains(&cell) => -1.0,
                cell => return Err(refuse(reading.label, cell, one_of([reading.positive].iter().chain(self.negative)))),
            });
            of_row.push(u32::from(!(reading.first)(table.cell(i, group))));
        }
        if labels.is_empty() {
            let rules: Vec<String> = self.keep.iter().map(|(name, rule)| format!("{name} {}", rule.describe())).collect();
            return Err(table.bad(format!("none of its {} rows stays: wanted rows with {}", table.rows(), rules.join("; "))));
        }
        // The largest of a column of zeros and ones is 1: only numbers change.
        ids.iter().zip(&mut values).for_each(|(id, value)| *value /= largest[*id as usize]);
        let features = Matrix::sparse(self.columns(), ptr, ids, values)?;
        let groups = Some(Groups { names: reading.names.map(String::from).into(), of_row });
        let data = Data { features, labels, groups, weights: None };
        data.validate()?;
        Ok(data)
    }
}

/// Adds to each column its place in the table: the first of that name, since names may repeat.
fn located<T: Copy>(table: &Table, columns: &[(&'static str, T)]) -> Result<Vec<(&'static str, usize, T)>, Error> {
    columns.iter().map(|&(name, what)| Ok((name, table.find(name)?, what))).collect()
}

impl Rule {
    /// Whether a row with this cell stays; else what was wanted.
    fn passes(&self, cell: &str) -> Result<bool, String> {
        match self {
            Rule::Within(..) if cell.is_empty() => Ok(false),
            Rule::Within(low, high) => match cell.parse::<f64>() {
                Ok(v) if v.is_finite() => Ok((*low..=*high).contains(&v)),
                _ => Err("a number or nothing".into()),
            },
            Rule::Words { stay, .. } if stay.contains(&cell) => Ok(true),
            Rule::Words { go, .. } if go.contains(&cell) => Ok(false),
            Rule::Words { stay, go } => Err(one_of(stay.iter().chain(*go))),
        }
    }

    fn describe(&self) -> String {
        match self {
            Rule::Within(low, high) => format!("from {low} to {high}"),
            Rule::Words { go, .. } => format!("other than {}", list(go.iter().copied())),
        }
    }
}

impl Code {
    /// Number of features.
    fn width(&self) -> usize {
        match self {
            Scaled | TwoValued(_) => 1,
            Full(words) => words.len(),
        }
    }

    /// Which of its features a cell sets, and to what, before the division; else what was wanted.
    fn feature(&self, cell: &str) -> Result<(usize, f64), String> {
        let place = |words: &[&str]| words.iter().position(|w| *w == cell).ok_or_else(|| one_of(words));
        match self {
            Scaled => match cell.parse::<f64>() {
                Ok(v) if v.is_finite() && v >= 0.0 => Ok((0, v)),
                _ => Err("a number of at least 0".into()),
            },
            TwoValued(words) => Ok((0, if place(words)? == 0 { 0.0 } else { 1.0 })),
            Full(words) => Ok((place(words)?, 1.0)),
        }
    }

    fn describe(&self) -> String {
        match self {
            Scaled => "divided by its largest number in these rows".into(),
            TwoValued([zero, one]) => format!("0 for '{zero}', 1 for '{one}'"),
            Full(words) => format!("one column for each of {}", list(words.iter().copied())),
        }
    }
}

fn one_of<'a>(words: impl IntoIterator<Item = &'a &'a str>) -> String {
    format!("one of {}", list(words.into_iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::super::sets::{Form, SETS};
    use super::super::source::Source;
    use super::super::table::Layout;
    use super::*;

    /// The layout, reading and recipe of the set.
    fn known() -> (Layout, Reading, &'static Recipe) {
        let set = SETS.iter().find(|s| s.name == "compas-two-years").unwrap();
        match set.form {
            Form::Table(layout, reading) => (layout, reading, reading.recipe.unwrap()),
            _ => panic!("another form"),
        }
    }

    /// Names as in ProPublica's original, with columns that name people and a second column of the same name.
    const HEADER: &str = "name,sex,dob,age,age_cat,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,\
                          days_b_screening_arrest,c_charge_degree,is_recid,score_text,priors_count,two_year_recid";
    /// Invented people; the third to the seventh do not pass the filter, each for another reason.
    const ROWS: [&str; 8] = [
        "A,Male,x,50,Greater than 45,Other,0,0,0,4,-30,F,1,Low,99,1",
        "B,Female,x,25,25 - 45,Caucasian,2,0,1,1,30,M,0,High,99,0",
        "C,Male,x,90,Greater than 45,Asian,9,9,9,9,31,F,1,Low,99,1",
        "D,Male,x,90,Greater than 45,Asian,9,9,9,9,,F,1,Low,99,1",
        "E,Male,x,90,Greater than 45,Asian,9,9,9,9,0,F,-1,Low,99,1",
        "F,Male,x,90,Greater than 45,Asian,9,9,9,9,0,O,1,Low,99,1",
        "G,Male,x,90,Greater than 45,Asian,9,9,9,9,0,M,1,N/A,99,1",
        "H,Male,x,20,Less than 25,\"Native American\",1,0,0,0,-1.0,M,1,Medium,99,1",
    ];

    fn text() -> String {
        format!("{HEADER}\r\n{}\r\n", ROWS.join("\r\n"))
    }

    fn from(text: &str) -> Result<Data> {
        let (layout, reading, recipe) = known();
        let table = Table::parse(&mut Source::new("some.csv", text.as_bytes())?, &layout)?;
        assert!(!table.names().iter().any(|n| n == "name" || n == "dob"));
        recipe.prepare(&table, &reading)
    }

    #[test]
    fn rows_by_hand() {
        let data = from(&text()).unwrap();
        assert_eq!((data.features.rows(), data.features.cols()), (3, 16));
        assert_eq!(data.labels, [1.0, -1.0, 1.0]);
        let groups = data.groups.unwrap();
        assert_eq!((groups.names, groups.of_row), (vec!["not Caucasian".into(), "Caucasian".into()], vec![0, 1, 0]));
        // Sex and charge; three ages; six races; age over 50, counts over 2, 0, 1 and 4, which are the largest that stay.
        #[rustfmt::skip]
        let wanted = [
            [1.0, 0.0,  0.0, 0.0, 1.0,  0.0, 0.0, 0.0, 0.0, 0.0, 1.0,  1.0, 0.0, 0.0, 0.0, 1.0],
            [0.0, 1.0,  0.0, 1.0, 0.0,  0.0, 0.0, 1.0, 0.0, 0.0, 0.0,  0.5, 1.0, 0.0, 1.0, 0.25],
            [1.0, 1.0,  1.0, 0.0, 0.0,  0.0, 0.0, 0.0, 0.0, 1.0, 0.0,  0.4, 0.5, 0.0, 0.0, 0.0],
        ];
        for (i, wanted) in wanted.iter().enumerate() {
            let mut row = [0.0; 16];
            data.features.visit_row(i, |c, v| row[c] = v);
            assert_eq!(row, *wanted, "row {i}");
        }
    }

    #[test]
    fn other_orders_of_columns_give_the_same() {
        let reversed = |line: &str| line.split(',').rev().collect::<Vec<_>>().join(",");
        // The second priors_count would come first.
        let text = text().replace(",priors_count,two_year_recid", ",unused,two_year_recid");
        let turned: String = text.lines().map(|line| reversed(line) + "\n").collect();
        assert_eq!(from(&turned).unwrap(), from(&text).unwrap());
    }

    #[test]
    fn damaged_cells_are_named_with_their_line() {
        let error = |old: &str, new: &str| {
            assert!(text().contains(old), "{old}");
            from(&text().replacen(old, new, 1)).unwrap_err().to_string()
        };
        assert_eq!(error("B,Female", "B,female"), "some.csv, line 3: sex is 'female': wanted one of 'Female', 'Male'");
        assert_eq!(error("x,20", "x,"), "some.csv, line 9: age is '': wanted a number of at least 0");
        assert_eq!(error("x,20", "x,-20"), "some.csv, line 9: age is '-20': wanted a number of at least 0");
        assert_eq!(error("x,20", "x,inf"), "some.csv, line 9: age is 'inf': wanted a number of at least 0");
        assert_eq!(
            error("Less than 25", "<25"),
            "some.csv, line 9: age_cat is '<25': wanted one of 'Less than 25', '25 - 45', 'Greater than 45'"
        );
        assert_eq!(
            error("Caucasian", "caucasian"),
            "some.csv, line 3: race is 'caucasian': wanted one of 'African-American', 'Asian', 'Caucasian', 'Hispanic', \
             'Native American', 'Other'"
        );
        assert_eq!(error("High,99,0", "High,99,2"), "some.csv, line 3: two_year_recid is '2': wanted one of '1', '0'");
        // Cells of the filter are checked in rows that go, too.
        assert_eq!(
            error("9,31,F,1,Low", "9,31,F,1,Lwo"),
            "some.csv, line 4: score_text is 'Lwo': wanted one of 'Low', 'Medium', 'High', 'N/A'"
        );
        assert_eq!(error("9,31,", "9,3l,"), "some.csv, line 4: days_b_screening_arrest is '3l': wanted a number or nothing");
        assert_eq!(error("9,31,", "9,nan,"), "some.csv, line 4: days_b_screening_arrest is 'nan': wanted a number or nothing");
    }

    #[test]
    fn a_column_or_all_rows_may_be_absent() {
        let error = from(&text().replacen("juv_fel_count", "juv_fel_cuont", 1)).unwrap_err().to_string();
        assert!(error.starts_with("some.csv: has no column 'juv_fel_count' (did you mean juv_fel_cuont?)"), "{error}");
        assert!(!error.contains("dob"), "{error}");
        let error = from(&format!("{HEADER}\n{}\n{}\n", ROWS[2], ROWS[3])).unwrap_err().to_string();
        assert_eq!(
            error,
            "some.csv: none of its 2 rows stays: wanted rows with days_b_screening_arrest from -30 to 30; is_recid other than \
             '-1'; c_charge_degree other than 'O'; score_text other than 'N/A'"
        );
    }

    #[test]
    fn every_recipe_is_sound() {
        for set in SETS {
            let Some(recipe) = set.recipe() else { continue };
            let (Form::Adult(reading) | Form::German(reading) | Form::Table(_, reading)) = set.form else {
                panic!("{}", set.name)
            };
            assert!(recipe.columns.iter().any(|(name, _)| *name == reading.group), "{}: unchecked groups", set.name);
            assert!(!recipe.negative.contains(&reading.positive), "{}", set.name);
            assert!(recipe.rows <= set.rows && !recipe.about.contains('\n'), "{}", set.name);
            assert!(recipe.columns.iter().all(|(name, _)| *name != reading.label), "{}: the label is a feature", set.name);
            if let Form::Table(layout, _) = set.form {
                let read = recipe.columns.iter().map(|(name, _)| name).chain(recipe.keep.iter().map(|(name, _)| name));
                assert_eq!(read.filter(|name| (layout.leave_out)(name)).count(), 0, "{}", set.name);
            }
        }
        let (_, _, recipe) = known();
        assert_eq!((recipe.columns(), recipe.steps().len()), (16, 13));
    }
}
