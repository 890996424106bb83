//! Raw tables of the catalogue prepared for learning: the recipe of a set defines which rows are kept and how columns become
//! numbers. Tables are read in [`super::table`]; the columns of user tables are typed from their cells in [`crate::encode`].

use thalweg::learn::{Data, Groups};
use thalweg::math::Matrix;

use super::sets::Reading;
use super::source::{list, show};
use super::table::Table;
use crate::{Error, Result};

/// How a raw table becomes rows of numbers. Label and groups are defined by the `Reading` of the set, which counting uses too.
/// Every cell that is read must have a value listed in the recipe, so that a damaged file is rejected.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Number of rows kept from the catalogue's copy.
    pub rows: usize,
    /// Source of the encoding, in one line.
    pub about: &'static str,
    /// Rules that a row must pass to be kept.
    pub(super) keep: &'static [(&'static str, Rule)],
    /// Values of the label column in rows that are not positive.
    pub(super) negative: &'static [&'static str],
    /// Those of `negative` for which the outcome is unknown; a note counts their rows.
    pub(super) unknown: &'static [&'static str],
    /// Columns to read, in the order of the features. They include the group column, so that its cells are checked.
    pub(super) columns: &'static [(&'static str, Code)],
    /// Whether a column of ones is appended.
    pub(super) constant: bool,
}

/// Table prepared by a recipe.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PreparedRows {
    pub(super) data: Data,
    /// Number of rows with one of [`Recipe::unknown`].
    pub(super) unknown: usize,
}

/// Rule for keeping rows by their cell in a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// Keeps rows with a number from the first to the second, both included. An empty cell is not a number, and its row is
    /// dropped.
    Within(f64, f64),
    /// Keeps rows with one of the words of `stay`; every other row must have one of `go`.
    Words { stay: &'static [&'static str], go: &'static [&'static str] },
}

/// Features of a column. Numbers are divided by the largest absolute value of their column in the kept rows, so that they lie
/// in [-1, 1].
#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    /// One feature: a number of at least 0.
    Scaled,
    /// One feature: a number of either sign.
    Signed,
    /// One feature: the number after a prefix, from `least` to `most`.
    Numbered { prefix: &'static str, least: u32, most: u32 },
    /// One feature: 0 for the first word, 1 for the second.
    TwoValued([&'static str; 2]),
    /// One feature for each word, 1 in rows that have it.
    Full(&'static [&'static str]),
    /// One feature for each word but the first, 1 in rows that have it.
    WithoutFirst(&'static [&'static str]),
}
use Code::{Full, Scaled, Signed, TwoValued, WithoutFirst};

/// Races in ProPublica's tables.
const RACES: &[&str] = &["African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other"];

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
    unknown: &[],
    columns: &[
        ("sex", TwoValued(["Female", "Male"])),
        ("c_charge_degree", TwoValued(["F", "M"])),
        ("age_cat", Full(&["Less than 25", "25 - 45", "Greater than 45"])),
        ("race", Full(RACES)),
        ("age", Scaled),
        ("juv_fel_count", Scaled),
        ("juv_misd_count", Scaled),
        ("juv_other_count", Scaled),
        ("priors_count", Scaled),
    ],
    constant: false,
};

/// Rows and columns as in publications with n = 11,757 and d = 14, which include the rows with an unknown outcome.
pub(super) const COMPAS_ALL: Recipe = Recipe {
    rows: 11_757,
    about: "which coding published results with 14 columns used is not known, so the columns and the scale of the numbers are a \
            choice, and published numbers are not comparable",
    keep: &[],
    negative: &["0", "-1"],
    unknown: &["-1"],
    columns: &[
        ("sex", TwoValued(["Female", "Male"])),
        ("age", Scaled),
        ("juv_fel_count", Scaled),
        ("juv_misd_count", Scaled),
        ("juv_other_count", Scaled),
        ("priors_count", Scaled),
        ("race", WithoutFirst(RACES)),
        ("c_charge_degree", WithoutFirst(&["F", "M", "O"])),
    ],
    constant: true,
};

/// Rows and columns as in publications with n = 41,188 and d = 54. Words are in alphabetical order, months and days in calendar
/// order; no call was made in January or February.
pub(super) const BANK: Recipe = Recipe {
    rows: 41_188,
    about: "which coding and which scale published results with 54 columns used is not known, so both are a choice, and published \
            numbers are not comparable",
    keep: &[],
    negative: &["no"],
    unknown: &[],
    columns: &[
        ("age", Scaled),
        ("duration", Scaled),
        ("campaign", Scaled),
        ("pdays", Scaled),
        ("previous", Scaled),
        ("emp.var.rate", Signed),
        ("cons.price.idx", Signed),
        ("cons.conf.idx", Signed),
        ("euribor3m", Signed),
        ("nr.employed", Scaled),
        (
            "job",
            WithoutFirst(&[
                "admin.",
                "blue-collar",
                "entrepreneur",
                "housemaid",
                "management",
                "retired",
                "self-employed",
                "services",
                "student",
                "technician",
                "unemployed",
                "unknown",
            ]),
        ),
        ("marital", WithoutFirst(&["divorced", "married", "single", "unknown"])),
        (
            "education",
            WithoutFirst(&[
                "basic.4y",
                "basic.6y",
                "basic.9y",
                "high.school",
                "illiterate",
                "professional.course",
                "university.degree",
                "unknown",
            ]),
        ),
        ("default", WithoutFirst(NO_UNKNOWN_YES)),
        ("housing", WithoutFirst(NO_UNKNOWN_YES)),
        ("loan", WithoutFirst(NO_UNKNOWN_YES)),
        ("contact", TwoValued(["cellular", "telephone"])),
        ("month", WithoutFirst(&["mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])),
        ("day_of_week", WithoutFirst(&["mon", "tue", "wed", "thu", "fri"])),
        ("poutcome", WithoutFirst(&["failure", "nonexistent", "success"])),
    ],
    constant: true,
};
const NO_UNKNOWN_YES: &[&str] = &["no", "unknown", "yes"];

/// Rows and columns as in publications with n = 1,000 and d = 21. A symbol is A, the number of its attribute and its own
/// number, as in A11 to A14 and A40 to A410; some in the description of the data, such as A47, do not occur.
pub(super) const GERMAN_CREDIT: Recipe = Recipe {
    rows: 1_000,
    about: "which coding and which scale published results with 21 columns used is not known, so both are a choice, and published \
            numbers are not comparable",
    keep: &[],
    negative: &["2"],
    unknown: &[],
    columns: &[
        ("status", numbered("A1", 1, 4)),
        ("duration", Scaled),
        ("credit-history", numbered("A3", 0, 4)),
        ("purpose", numbered("A4", 0, 10)),
        ("credit-amount", Scaled),
        ("savings", numbered("A6", 1, 5)),
        ("employment", numbered("A7", 1, 5)),
        ("instalment-rate", Scaled),
        ("personal-status", numbered("A9", 1, 5)),
        ("other-debtors", numbered("A10", 1, 3)),
        ("residence-since", Scaled),
        ("property", numbered("A12", 1, 4)),
        ("age", Scaled),
        ("other-instalment-plans", numbered("A14", 1, 3)),
        ("housing", numbered("A15", 1, 3)),
        ("existing-credits", Scaled),
        ("job", numbered("A17", 1, 4)),
        ("people-liable", Scaled),
        ("telephone", numbered("A19", 1, 2)),
        ("foreign-worker", numbered("A20", 1, 2)),
    ],
    constant: true,
};

const fn numbered(prefix: &'static str, least: u32, most: u32) -> Code {
    Code::Numbered { prefix, least, most }
}

impl Recipe {
    /// Returns the number of features.
    pub fn columns(&self) -> usize {
        self.columns.iter().map(|(_, code)| code.width()).sum::<usize>() + usize::from(self.constant)
    }

    /// Describes the steps: a line for each rule and each column, features counted from 1.
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
        if self.constant {
            steps.push(format!("column {first}: 1 in every row"));
        }
        steps
    }

    /// Returns the kept rows, in the order of the table.
    pub(super) fn prepare(&self, table: &Table, reading: &Reading) -> Result<PreparedRows> {
        let rules = located(table, self.keep)?;
        let codes = located(table, self.columns)?;
        let (label, group) = (table.find(reading.label)?, table.find(reading.group)?);
        let (mut ptr, mut ids, mut values, mut labels, mut of_row) = (vec![0], vec![], vec![], vec![], vec![]);
        let mut largest = vec![0.0_f64; self.columns()];
        let mut unknown = 0;
        for i in 0..table.rows() {
            let refuse = |name: &str, cell: &str, wanted: String| {
                table.bad_at(i, format!("{name} is '{}'; expected {wanted}", show(cell.as_bytes())))
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
                    largest[id] = largest[id].max(value.abs());
                }
                first += code.width();
            }
            if self.constant {
                ids.push(first as u32);
                values.push(1.0);
                largest[first] = 1.0;
            }
            ptr.push(ids.len());
            unknown += usize::from(self.unknown.contains(&table.cell(i, label)));
            labels.push(match table.cell(i, label) {
                cell if cell == reading.positive => 1.0,
                cell if self.negative.contains(&cell) => -1.0,
                cell => return Err(refuse(reading.label, cell, one_of([reading.positive].iter().chain(self.negative)))),
            });
            of_row.push(u32::from(!reading.first.has(table.cell(i, group))));
        }
        if labels.is_empty() {
            let rules: Vec<String> = self.keep.iter().map(|(name, rule)| format!("{name} {}", rule.describe())).collect();
            return Err(table.bad(format!("none of its {} rows stays; expected rows with {}", table.rows(), rules.join("; "))));
        }
        // The largest entry of a column of zeros and ones is 1, so only numbers change.
        ids.iter().zip(&mut values).for_each(|(id, value)| *value /= largest[*id as usize]);
        let features = Matrix::sparse(self.columns(), ptr, ids, values)?;
        let groups = Some(Groups { names: reading.names.map(String::from).into(), of_row });
        let data = Data { features, labels, groups, weights: None };
        data.validate()?;
        Ok(PreparedRows { data, unknown })
    }
}

/// Adds the index of each column in the table: the first of that name, since names may repeat.
fn located<T: Copy>(table: &Table, columns: &[(&'static str, T)]) -> Result<Vec<(&'static str, usize, T)>, Error> {
    columns.iter().map(|&(name, what)| Ok((name, table.find(name)?, what))).collect()
}

impl Rule {
    /// Returns whether a row with this cell is kept, or what was expected.
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
    /// Returns the number of features.
    fn width(&self) -> usize {
        match self {
            Scaled | Signed | Code::Numbered { .. } | TwoValued(_) => 1,
            Full(words) => words.len(),
            WithoutFirst(words) => words.len().saturating_sub(1),
        }
    }

    /// Returns the feature that a cell sets and its value before the division, or what was expected.
    fn feature(&self, cell: &str) -> Result<(usize, f64), String> {
        let place = |words: &[&str]| words.iter().position(|w| *w == cell).ok_or_else(|| one_of(words));
        match self {
            Scaled => match cell.parse::<f64>() {
                Ok(v) if v.is_finite() && v >= 0.0 => Ok((0, v)),
                _ => Err("a number of at least 0".into()),
            },
            Signed => match cell.parse::<f64>() {
                Ok(v) if v.is_finite() => Ok((0, v)),
                _ => Err("a number".into()),
            },
            Code::Numbered { prefix, least, most } => {
                let number = cell.strip_prefix(prefix).and_then(|rest| rest.parse::<u32>().ok());
                // The number is formatted again, so that neither A1+1 nor A101 with the prefix A1 is accepted as A11.
                match number.filter(|k| (least..=most).contains(&k) && cell == format!("{prefix}{k}")) {
                    Some(k) => Ok((0, f64::from(k))),
                    None => Err(format!("one of '{prefix}{least}' to '{prefix}{most}'")),
                }
            }
            TwoValued(words) => Ok((0, if place(words)? == 0 { 0.0 } else { 1.0 })),
            Full(words) => Ok((place(words)?, 1.0)),
            WithoutFirst(words) => Ok(match place(words)? {
                0 => (0, 0.0),
                k => (k - 1, 1.0),
            }),
        }
    }

    fn describe(&self) -> String {
        match self {
            Scaled => "divided by its largest number in these rows".into(),
            Signed => "divided by its largest absolute number in these rows".into(),
            Code::Numbered { prefix, least, most } => {
                format!(
                    "{least} for '{prefix}{least}' to {most} for '{prefix}{most}', divided by its largest number in these rows"
                )
            }
            TwoValued([zero, one]) => format!("0 for '{zero}', 1 for '{one}'"),
            Full(words) => format!("one column for each of {}", quoted(words)),
            WithoutFirst([]) => "no column".into(),
            WithoutFirst([first, rest @ ..]) => format!("one column for each of {}; none for '{first}'", quoted(rest)),
        }
    }
}

/// Quotes all words: a recipe is shown in full, where a message may be shortened.
fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
}

fn one_of<'a>(words: impl IntoIterator<Item = &'a &'a str>) -> String {
    format!("one of {}", list(words.into_iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::super::sets::{Form, GERMAN_LAYOUT, SETS};
    use super::super::source::Source;
    use super::super::table::Layout;
    use super::*;

    /// Returns the layout, reading and recipe of a set.
    fn known(name: &str) -> (Layout, Reading, &'static Recipe) {
        let set = SETS.iter().find(|s| s.name == name).unwrap();
        match set.form {
            Form::Table(layout, reading) => (layout, reading, reading.recipe.unwrap()),
            Form::German(reading) => (GERMAN_LAYOUT, reading, reading.recipe.unwrap()),
            _ => panic!("another form"),
        }
    }

    /// Applies the recipe of a set to a text in the format of its file.
    fn made(name: &str, text: &str) -> Result<PreparedRows> {
        let (layout, reading, recipe) = known(name);
        let table = Table::parse(&mut Source::new("some.csv", text.as_bytes())?, &layout)?;
        assert!(!table.names().iter().any(|n| n == "name" || n == "dob"));
        recipe.prepare(&table, &reading)
    }

    /// Returns the error for the text with one piece replaced.
    fn refused(name: &str, text: &str, old: &str, new: &str) -> String {
        assert!(text.contains(old), "{old}");
        made(name, &text.replacen(old, new, 1)).unwrap_err().to_string()
    }

    /// Returns the entries of a row, columns counted from 1.
    fn entries(data: &Data, i: usize) -> Vec<(usize, f64)> {
        let mut entries = vec![];
        data.features.visit_row(i, |c, v| entries.push((c + 1, v)));
        entries
    }

    /// Names as in ProPublica's original, with columns of personal data and a repeated name.
    const HEADER: &str = "name,sex,dob,age,age_cat,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,\
                          days_b_screening_arrest,c_charge_degree,is_recid,score_text,priors_count,two_year_recid";
    /// Invented people; the third to the seventh are dropped by the filter, each for a different reason.
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
        made("compas-two-years", text).map(|prepared| prepared.data)
    }

    #[test]
    fn rows_by_hand() {
        let data = from(&text()).unwrap();
        assert_eq!((data.features.rows(), data.features.cols()), (3, 16));
        assert_eq!(data.labels, [1.0, -1.0, 1.0]);
        let groups = data.groups.unwrap();
        assert_eq!((groups.names, groups.of_row), (vec!["not Caucasian".into(), "Caucasian".into()], vec![0, 1, 0]));
        // Sex and charge; three ages; six races; age over 50, counts over 2, 0, 1 and 4, which are the largest in the kept
        // rows.
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
        // Otherwise the second priors_count would come first.
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
        assert_eq!(error("B,Female", "B,female"), "some.csv, line 3: sex is 'female'; expected one of 'Female', 'Male'");
        assert_eq!(error("x,20", "x,"), "some.csv, line 9: age is ''; expected a number of at least 0");
        assert_eq!(error("x,20", "x,-20"), "some.csv, line 9: age is '-20'; expected a number of at least 0");
        assert_eq!(error("x,20", "x,inf"), "some.csv, line 9: age is 'inf'; expected a number of at least 0");
        assert_eq!(
            error("Less than 25", "<25"),
            "some.csv, line 9: age_cat is '<25'; expected one of 'Less than 25', '25 - 45', 'Greater than 45'"
        );
        assert_eq!(
            error("Caucasian", "caucasian"),
            "some.csv, line 3: race is 'caucasian'; expected one of 'African-American', 'Asian', 'Caucasian', 'Hispanic', \
             'Native American', 'Other'"
        );
        assert_eq!(error("High,99,0", "High,99,2"), "some.csv, line 3: two_year_recid is '2'; expected one of '1', '0'");
        // Cells of the filter are checked in dropped rows too.
        assert_eq!(
            error("9,31,F,1,Low", "9,31,F,1,Lwo"),
            "some.csv, line 4: score_text is 'Lwo'; expected one of 'Low', 'Medium', 'High', 'N/A'"
        );
        assert_eq!(error("9,31,", "9,3l,"), "some.csv, line 4: days_b_screening_arrest is '3l'; expected a number or nothing");
        assert_eq!(error("9,31,", "9,nan,"), "some.csv, line 4: days_b_screening_arrest is 'nan'; expected a number or nothing");
    }

    #[test]
    fn a_column_or_all_rows_may_be_absent() {
        let error = from(&text().replacen("juv_fel_count", "juv_fel_cuont", 1)).unwrap_err().to_string();
        assert!(error.starts_with("some.csv has no column 'juv_fel_count'; did you mean 'juv_fel_cuont'?"), "{error}");
        assert!(!error.contains("dob"), "{error}");
        let error = from(&format!("{HEADER}\n{}\n{}\n", ROWS[2], ROWS[3])).unwrap_err().to_string();
        assert_eq!(
            error,
            "some.csv: none of its 2 rows stays; expected rows with days_b_screening_arrest from -30 to 30; is_recid other than \
             '-1'; c_charge_degree other than 'O'; score_text other than 'N/A'"
        );
    }

    /// As in bank-additional-full.csv: semicolons, words and names in quotes. The ages are 56, 24, 25, 60 and 61.
    const BANK_TEXT: &str = "\"age\";\"job\";\"marital\";\"education\";\"default\";\"housing\";\"loan\";\"contact\";\"month\";\
        \"day_of_week\";\"duration\";\"campaign\";\"pdays\";\"previous\";\"poutcome\";\"emp.var.rate\";\"cons.price.idx\";\
        \"cons.conf.idx\";\"euribor3m\";\"nr.employed\";\"y\"\r\n\
        56;\"housemaid\";\"married\";\"basic.4y\";\"no\";\"no\";\"no\";\"telephone\";\"may\";\"mon\";250;1;999;0;\
        \"nonexistent\";1.1;90;-36;4;5000;\"no\"\r\n\
        24;\"admin.\";\"divorced\";\"unknown\";\"unknown\";\"yes\";\"unknown\";\"cellular\";\"mar\";\"fri\";500;4;0;2;\
        \"success\";-2.2;45;-18;1;2500;\"yes\"\r\n\
        25;\"unknown\";\"unknown\";\"illiterate\";\"yes\";\"unknown\";\"yes\";\"cellular\";\"dec\";\"tue\";0;2;0;0;\
        \"failure\";0;90;-9;2;5000;\"no\"\r\n\
        60;\"blue-collar\";\"single\";\"basic.6y\";\"no\";\"no\";\"no\";\"cellular\";\"apr\";\"thu\";0;1;0;1;\
        \"failure\";0;90;-9;2;5000;\"yes\"\r\n\
        61;\"technician\";\"single\";\"university.degree\";\"no\";\"no\";\"no\";\"cellular\";\"nov\";\"wed\";0;1;0;0;\
        \"failure\";0;90;-9;2;5000;\"no\"\r\n";

    #[test]
    fn bank_by_hand() {
        let PreparedRows { data, unknown } = made("bank", BANK_TEXT).unwrap();
        assert_eq!((data.features.rows(), data.features.cols(), unknown), (5, 54, 0));
        assert_eq!(data.labels, [-1.0, 1.0, -1.0, 1.0, -1.0]);
        let groups = data.groups.as_ref().unwrap();
        assert_eq!(groups.names, ["age 25 to 60", "other ages"]);
        assert_eq!(groups.of_row, [0, 1, 0, 0, 1]);
        // Numbers over 61, 500, 4, 999, 2, 2.2 (of -2.2), 90, 36 (of -36), 4 and 5000; then the words without the first ones.
        let ones = |columns: &[usize]| columns.iter().map(|c| (*c, 1.0)).collect::<Vec<_>>();
        let row = |numbers: &[(usize, f64)], words: &[usize]| [numbers.to_vec(), ones(words)].concat();
        #[rustfmt::skip]
        let wanted = [
            row(&[(1, 56.0 / 61.0), (2, 0.5), (3, 0.25), (4, 1.0), (6, 1.1 / 2.2), (7, 1.0), (8, -1.0), (9, 1.0), (10, 1.0)],
                &[13, 22, 38, 40, 52, 54]),
            row(&[(1, 24.0 / 61.0), (2, 1.0), (3, 1.0), (5, 1.0), (6, -1.0), (7, 0.5), (8, -0.5), (9, 0.25), (10, 0.5)],
                &[31, 32, 35, 36, 51, 53, 54]),
            row(&[(1, 25.0 / 61.0), (3, 0.5), (7, 1.0), (8, -0.25), (9, 0.5), (10, 1.0)], &[21, 24, 28, 33, 34, 37, 47, 48, 54]),
            row(&[(1, 60.0 / 61.0), (3, 0.25), (5, 0.5), (7, 1.0), (8, -0.25), (9, 0.5), (10, 1.0)], &[11, 23, 25, 39, 50, 54]),
            row(&[(1, 1.0), (3, 0.25), (7, 1.0), (8, -0.25), (9, 0.5), (10, 1.0)], &[19, 23, 30, 46, 49, 54]),
        ];
        for (i, wanted) in wanted.iter().enumerate() {
            assert_eq!(entries(&data, i), *wanted, "row {i}");
        }
    }

    #[test]
    fn bank_refuses_what_it_does_not_know() {
        let error = |old: &str, new: &str| refused("bank", BANK_TEXT, old, new);
        assert_eq!(
            error("\"may\"", "\"jan\""),
            "some.csv, line 2: month is 'jan'; expected one of 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'"
        );
        assert_eq!(
            error("\"divorced\"", "\"widowed\""),
            "some.csv, line 3: marital is 'widowed'; expected one of 'divorced', 'married', 'single', 'unknown'"
        );
        assert_eq!(
            error("\"telephone\"", "\"post\""),
            "some.csv, line 2: contact is 'post'; expected one of 'cellular', 'telephone'"
        );
        assert_eq!(error("-2.2", "-2,2"), "some.csv, line 3: emp.var.rate is '-2,2'; expected a number");
        assert_eq!(error("-2.2", "nan"), "some.csv, line 3: emp.var.rate is 'nan'; expected a number");
        // The groups come from the age, so a cell that is not an age has none.
        assert_eq!(error("\r\n24;", "\r\n-24;"), "some.csv, line 3: age is '-24'; expected a number of at least 0");
        assert_eq!(error("\r\n24;", "\r\n;"), "some.csv, line 3: age is ''; expected a number of at least 0");
        assert_eq!(error("2500;\"yes\"", "2500;\"maybe\""), "some.csv, line 3: y is 'maybe'; expected one of 'yes', 'no'");
        let error = error("\"euribor3m\"", "\"euribor\"");
        assert!(error.starts_with("some.csv has no column 'euribor3m'; did you mean 'euribor'?"), "{error}");
    }

    /// As in compas-scores.csv: a repeated name, a comma in quotes, and the original's columns of personal data.
    const COMPAS_TEXT: &str = "id,name,sex,dob,age,race,juv_fel_count,decile_score,juv_misd_count,juv_other_count,priors_count,\
        c_charge_degree,c_charge_desc,is_recid,decile_score,priors_count\r\n\
        1,A,Male,x,48,Other,0,1,0,0,8,F,\"Theft, grand\",0,99,99\r\n\
        2,B,Female,x,24,African-American,2,1,0,5,0,M,,1,99,99\r\n\
        3,C,Male,x,96,Caucasian,1,1,4,0,2,O,,-1,99,99\r\n\
        4,D,Female,x,24,\"Native American\",0,1,1,0,0,F,,-1,99,99\r\n";

    #[test]
    fn compas_by_hand() {
        let PreparedRows { data, unknown } = made("compas", COMPAS_TEXT).unwrap();
        assert_eq!((data.features.rows(), data.features.cols(), unknown), (4, 14, 2));
        assert_eq!(data.labels, [-1.0, 1.0, -1.0, -1.0]);
        let groups = data.groups.as_ref().unwrap();
        assert_eq!(groups.names, ["not Caucasian", "Caucasian"]);
        assert_eq!(groups.of_row, [0, 0, 1, 0]);
        // Sex; age over 96, counts over 2, 4, 5 and 8; five of the six races; M and O; the constant.
        #[rustfmt::skip]
        let wanted = [
            vec![(1, 1.0), (2, 0.5), (6, 1.0), (11, 1.0), (14, 1.0)],
            vec![(2, 0.25), (3, 1.0), (5, 1.0), (12, 1.0), (14, 1.0)],
            vec![(1, 1.0), (2, 1.0), (3, 0.5), (4, 1.0), (6, 0.25), (8, 1.0), (13, 1.0), (14, 1.0)],
            vec![(2, 0.25), (4, 0.25), (10, 1.0), (14, 1.0)],
        ];
        for (i, wanted) in wanted.iter().enumerate() {
            assert_eq!(entries(&data, i), *wanted, "row {i}");
        }
        let error = |old: &str, new: &str| refused("compas", COMPAS_TEXT, old, new);
        assert_eq!(error(",O,,", ",X,,"), "some.csv, line 4: c_charge_degree is 'X'; expected one of 'F', 'M', 'O'");
        assert_eq!(error(",x,96", ",x,old"), "some.csv, line 4: age is 'old'; expected a number of at least 0");
        assert_eq!(error("M,,1", "M,,"), "some.csv, line 3: is_recid is ''; expected one of '1', '0', '-1'");
        let error = error("c_charge_degree", "c_degree");
        assert!(error.starts_with("some.csv has no column 'c_charge_degree'") && !error.contains("dob"), "{error}");
    }

    /// As in german.data: blanks and no header. A95 is a woman too.
    const GERMAN_TEXT: &str = "A11 6 A34 A43 1000 A65 A75 4 A93 A101 4 A121 60 A143 A152 2 A173 1 A192 A201 1\n\
        A12 48 A30 A410 4000 A61 A73 2 A92 A103 2 A124 30 A141 A153 1 A174 2 A191 A202 2\n\
        A14 12 A32 A40 2000 A62 A71 1 A95 A102 1 A122 15 A142 A151 1 A171 1 A191 A201 1\n";

    #[test]
    fn german_by_hand() {
        let PreparedRows { data, unknown } = made("german", GERMAN_TEXT).unwrap();
        assert_eq!((data.features.rows(), data.features.cols(), unknown), (3, 21, 0));
        assert_eq!(data.labels, [1.0, -1.0, 1.0]);
        let groups = data.groups.as_ref().unwrap();
        assert_eq!(groups.names, ["female", "male"]);
        assert_eq!(groups.of_row, [1, 0, 0]);
        let numbers = [
            [1, 6, 4, 3, 1_000, 5, 5, 4, 3, 1, 4, 1, 60, 3, 2, 2, 3, 1, 2, 1, 1],
            [2, 48, 0, 10, 4_000, 1, 3, 2, 2, 3, 2, 4, 30, 1, 3, 1, 4, 2, 1, 2, 1],
            [4, 12, 2, 0, 2_000, 2, 1, 1, 5, 2, 1, 2, 15, 2, 1, 1, 1, 1, 1, 1, 1],
        ];
        let largest: [u32; 21] = [4, 48, 4, 10, 4_000, 5, 5, 4, 5, 3, 4, 4, 60, 3, 3, 2, 4, 2, 2, 2, 1];
        for (i, numbers) in numbers.iter().enumerate() {
            let mut row = [0.0; 21];
            data.features.visit_row(i, |c, v| row[c] = v);
            let wanted: Vec<f64> = numbers.iter().zip(largest).map(|(v, most)| f64::from(*v) / f64::from(most)).collect();
            assert_eq!(row, wanted[..], "row {i}");
        }
    }

    #[test]
    fn german_refuses_symbols_of_other_attributes() {
        let error = |old: &str, new: &str| refused("german", GERMAN_TEXT, old, new);
        for wrong in ["A10", "A15", "A1", "A101", "A1+1", "11", "a11", "?"] {
            let wanted = format!("some.csv, line 1: status is '{wrong}'; expected one of 'A11' to 'A14'");
            assert_eq!(error("A11", wrong), wanted);
        }
        assert_eq!(error("A410", "A411"), "some.csv, line 2: purpose is 'A411'; expected one of 'A40' to 'A410'");
        assert_eq!(error("A410", "A4010"), "some.csv, line 2: purpose is 'A4010'; expected one of 'A40' to 'A410'");
        assert_eq!(error("A40 2000", "A40 x"), "some.csv, line 3: credit-amount is 'x'; expected a number of at least 0");
        assert_eq!(error("A201 1\nA12", "A201 0\nA12"), "some.csv, line 1: risk is '0'; expected one of '1', '2'");
        assert_eq!(error("A14 12 A32", "A14 A32"), "some.csv, line 3: has 20 cells; expected 21");
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
            assert!(recipe.unknown.iter().all(|word| recipe.negative.contains(word)), "{}", set.name);
            for (name, code) in recipe.columns {
                let (Full(words) | WithoutFirst(words)) = code else { continue };
                let distinct: std::collections::BTreeSet<_> = words.iter().collect();
                assert!(words.len() > 1 && distinct.len() == words.len(), "{}: {name}", set.name);
            }
            assert!(recipe.rows <= set.rows && !recipe.about.contains('\n'), "{}", set.name);
            assert!(recipe.columns.iter().all(|(name, _)| *name != reading.label), "{}: the label is a feature", set.name);
            if let Form::Table(layout, _) = set.form {
                let read = recipe.columns.iter().map(|(name, _)| name).chain(recipe.keep.iter().map(|(name, _)| name));
                assert_eq!(read.filter(|name| (layout.leave_out)(name)).count(), 0, "{}", set.name);
            }
        }
        for (name, columns, steps) in [("compas-two-years", 16, 13), ("compas", 14, 9), ("bank", 54, 21), ("german", 21, 21)] {
            let (_, _, recipe) = known(name);
            assert_eq!((recipe.columns(), recipe.steps().len()), (columns, steps), "{name}");
        }
    }
}
