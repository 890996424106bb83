//! UCI Adult, embedded in the binary: the raw table, and a9a rebuilt from it. The rules reproduce the published a9a in all
//! 48,842 rows: each word, and each interval of a number, has a column of its own, and `?` sets none.

use thalweg::learn::{Data, Groups};
use thalweg::math::Matrix;

use super::source::{Source, show};
use super::table::Table;
use crate::Result;

/// Embedded files, training part first: name and gzip bytes.
pub const PARTS: [(&str, &[u8]); 2] =
    [("adult.data", include_bytes!("../../assets/adult.data.gz")), ("adult.test", include_bytes!("../../assets/adult.test.gz"))];

/// Name of the label column in [`table`].
pub const LABEL: &str = "income";
/// Label of the positive class.
pub const POSITIVE: &str = ">50K";
const NEGATIVE: &str = "<=50K";
const SEX: usize = 9;

/// Number of columns of a9a.
pub const COLUMNS: usize = 123;

/// Columns of a9a for one attribute.
enum Code {
    /// One column for each of these words.
    Words(&'static str),
    /// One column for each interval: up to and including the first number, from there up to and including the next, …, above
    /// the last.
    Cuts(&'static [u32]),
}
use Code::{Cuts, Words};

/// Attributes in the order of the files, with their columns in a9a.
const ATTRIBUTES: [(&str, Code); 14] = [
    ("age", Cuts(&[25, 32, 40, 49])),
    ("workclass", Words("Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked")),
    ("fnlwgt", Cuts(&[106_637, 158_656, 196_337, 259_865])),
    (
        "education",
        Words(
            "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters \
             1st-4th 10th Doctorate 5th-6th Preschool",
        ),
    ),
    ("education-num", Cuts(&[8, 9, 10, 12])),
    (
        "marital-status",
        Words("Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"),
    ),
    (
        "occupation",
        Words(
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners \
             Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv \
             Armed-Forces",
        ),
    ),
    ("relationship", Words("Wife Own-child Husband Not-in-family Other-relative Unmarried")),
    ("race", Words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")),
    ("sex", Words("Female Male")),
    ("capital-gain", Cuts(&[0])),
    ("capital-loss", Cuts(&[0])),
    ("hours-per-week", Cuts(&[34, 39, 40, 47])),
    (
        "native-country",
        Words(
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan \
             Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal \
             Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua \
             Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
        ),
    ),
];

/// Fields of a row: the attributes, and the label without the full stop that it has in the test part.
type Fields<'a> = [&'a str; ATTRIBUTES.len() + 1];

/// Returns a9a: the 32,561 rows of the training part, then the 16,281 of the test part. The label +1 is an income above 50K;
/// the groups are "female" (protected) and "male".
pub fn a9a() -> Result<Data> {
    let (mut ptr, mut ids, mut labels, mut of_row) = (vec![0], vec![], vec![], vec![]);
    for (name, bytes) in PARTS {
        each_row(name, bytes, |fields| {
            encode(fields, &mut ids)?;
            ptr.push(ids.len());
            labels.push(match fields[ATTRIBUTES.len()] {
                POSITIVE => 1.0,
                NEGATIVE => -1.0,
                other => return Err(format!("{LABEL} is {}; expected {POSITIVE} or {NEGATIVE}", show(other.as_bytes()))),
            });
            of_row.push(match fields[SEX] {
                "Female" => 0,
                "Male" => 1,
                other => return Err(format!("sex is {}; expected Female or Male", show(other.as_bytes()))),
            });
            Ok(())
        })?;
    }
    let features = Matrix::ones(COLUMNS, ptr, ids)?;
    let groups = Some(Groups { names: vec!["female".into(), "male".into()], of_row });
    Ok(Data { features, labels, groups, weights: None })
}

/// Returns Adult as published, training part first; `?` marks a missing value.
pub fn table() -> Result<Table> {
    let mut table = Table::new(ATTRIBUTES.iter().map(|(name, _)| *name).chain([LABEL])).called("adult");
    for (name, bytes) in PARTS {
        each_row(name, bytes, |fields| {
            table.push(fields.iter().copied());
            Ok(())
        })?;
    }
    Ok(table)
}

/// Returns [`table`] as CSV text with a header line.
pub fn csv() -> Result<String> {
    Ok(table()?.to_csv())
}

/// Calls `visit` with the rows of a part.
fn each_row(name: &str, bytes: &[u8], mut visit: impl FnMut(&Fields) -> Result<(), String>) -> Result<()> {
    let mut source = Source::new(name, bytes)?;
    let text = source.text()?;
    for (number, line) in (1..).zip(text.lines()) {
        // The test part starts with a note between bars.
        if line.is_empty() || line.starts_with('|') {
            continue;
        }
        fields(line).and_then(|fields| visit(&fields)).map_err(|what| source.bad_at(number, what))?;
    }
    Ok(())
}

fn fields(line: &str) -> Result<Fields<'_>, String> {
    let mut fields = [""; ATTRIBUTES.len() + 1];
    let mut count = 0;
    for part in line.split(',') {
        if let Some(field) = fields.get_mut(count) {
            *field = part.trim();
        }
        count += 1;
    }
    if count != fields.len() {
        return Err(format!("has {count} fields; expected {}", fields.len()));
    }
    let label = &mut fields[ATTRIBUTES.len()];
    *label = label.strip_suffix('.').unwrap_or(label);
    Ok(fields)
}

/// Appends the columns, counted from 0, that a row sets in a9a.
fn encode(fields: &Fields, ids: &mut Vec<u32>) -> Result<(), String> {
    let mut first = 0;
    for ((name, code), &field) in ATTRIBUTES.iter().zip(fields) {
        let (place, columns) = match code {
            Words(words) => (words.split(' ').position(|w| w == field), words.split(' ').count()),
            Cuts(cuts) => (field.parse().ok().map(|v: u32| cuts.partition_point(|c| *c < v)), cuts.len() + 1),
        };
        match place {
            Some(place) => ids.push((first + place) as u32),
            None if field == "?" => (),
            None => return Err(format!("{name} is {}, which a9a has no column for", show(field.as_bytes()))),
        }
        first += columns;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_123_columns_and_sex_is_72_and_73() {
        let width = |code: &Code| match code {
            Words(words) => words.split(' ').count(),
            Cuts(cuts) => cuts.len() + 1,
        };
        assert_eq!(ATTRIBUTES.iter().map(|(_, c)| width(c)).sum::<usize>(), COLUMNS);
        assert_eq!(ATTRIBUTES[..SEX].iter().map(|(_, c)| width(c)).sum::<usize>(), 71);
        assert_eq!(ATTRIBUTES[SEX].0, "sex");
    }

    #[test]
    fn a_row_by_hand() {
        // First row of the training part, and of the published a9a.
        let line = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, \
                    United-States, <=50K";
        let mut ids = vec![];
        encode(&fields(line).unwrap(), &mut ids).unwrap();
        let counted_from_one: Vec<u32> = ids.iter().map(|c| c + 1).collect();
        assert_eq!(counted_from_one, [3, 11, 14, 19, 39, 42, 55, 64, 67, 73, 75, 76, 80, 83]);
    }

    #[test]
    fn a_missing_value_sets_no_column_and_an_unknown_one_is_refused() {
        let line = "25, ?, 1, 11th, 7, Divorced, ?, Wife, Black, Female, 0, 0, 40, ?, >50K.";
        let found = fields(line).unwrap();
        assert_eq!(found[14], POSITIVE);
        let mut ids = vec![];
        encode(&found, &mut ids).unwrap();
        assert_eq!(ids.len(), 11);
        let error = encode(&fields(&line.replace("Wife", "Cousin")).unwrap(), &mut ids).unwrap_err();
        assert_eq!(error, "relationship is Cousin, which a9a has no column for");
        assert_eq!(fields("1, 2").unwrap_err(), "has 2 fields; expected 15");
        let error = each_row("part", b"|note\n\n1,2\n", |_| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "part, line 3: has 2 fields; expected 15");
    }

    #[test]
    fn the_csv_has_a_header_and_all_rows() {
        let csv = csv().unwrap();
        assert!(csv.starts_with("age,workclass,fnlwgt,education,"));
        assert_eq!(csv.lines().count(), 48_843);
        assert!(csv.ends_with(
            "Self-emp-inc,182148,Bachelors,13,Married-civ-spouse,Exec-managerial,Husband,White,Male,0,0,60,United-States,>50K\n"
        ));
    }
}
