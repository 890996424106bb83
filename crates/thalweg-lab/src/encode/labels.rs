//! The label of a table: a column with two values, one of which is the positive label. Unless the user selects it, it is
//! inferred by common conventions.

use serde::{Deserialize, Serialize};

use super::cells::{Value, is_missing, look_up, number, quote, same, values};
use crate::data::source::list;
use crate::data::table::Table;
use crate::{Error, Result};
use thalweg::Note;

/// Pairs of words for yes and no, in lower case.
const WORDS: [(&str, &str); 5] = [("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("positive", "negative")];

/// Label column and its two values. Different spellings of a number, such as `1` and `1.0`, are one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// Name of the column.
    pub column: String,
    /// Value of the label +1.
    pub positive: String,
    /// Value of the label -1.
    pub negative: String,
}

impl Labels {
    /// Learns the two values of a column, and returns the label of each row. `positive` selects the value of the label +1. By
    /// default it is 1 of 0 and 1 or of -1 and 1; the affirmative of yes and no, y and n, true and false, t and f, positive and
    /// negative (ignoring case); else the rarer value, with a message for the user.
    pub fn learn(table: &Table, label: &str, positive: Option<&str>) -> Result<(Labels, Vec<f64>, Vec<Note>)> {
        let column = table.find(label)?;
        let found = values(table, column);
        if let Some((_, row)) = found.missing {
            return Err(missing(table, row, column));
        }
        let name = quote(label);
        let all = || list(found.list.iter().map(|v| v.text));
        let [a, b] = found.list.as_slice() else {
            return Err(table.bad(match found.list.as_slice() {
                [] => "has no rows".to_string(),
                [only] => format!("all rows have the same label {} in column {name}; expected two values", quote(only.text)),
                _ => format!("column {name} has more than two values, {}; expected two for a label", all()),
            }));
        };
        let mut notes = vec![];
        let (plus, minus) = match positive {
            Some(wanted) if same(wanted.trim(), a.text) => (a, b),
            Some(wanted) if same(wanted.trim(), b.text) => (b, a),
            Some(wanted) => {
                let guess = thalweg::suggest::did_you_mean(wanted, [a.text, b.text]);
                let hint = if guess.is_empty() { format!("; expected {}", all()) } else { guess };
                return Err(table.bad(format!("no row has the label {} in column {name}{hint}", quote(wanted))));
            }
            None => usual(a, b).unwrap_or_else(|| {
                let (rare, common) = if b.rows <= a.rows { (b, a) } else { (a, b) };
                notes.push(Note::PositiveInferred {
                    column: label.into(),
                    value: rare.text.into(),
                    rows: rare.rows,
                    of: table.rows(),
                    rarer: rare.rows < common.rows,
                });
                (rare, common)
            }),
        };
        let labels = Labels { column: label.into(), positive: plus.text.into(), negative: minus.text.into() };
        let signs = labels.signs(table, column)?;
        Ok((labels, signs, notes))
    }

    /// Returns the label of each row of another table; `None` if the column is absent or empty.
    pub fn read(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        match table.column(&self.column) {
            Some(j) if !(0..table.rows()).all(|i| is_missing(table.cell(i, j))) => self.signs(table, j).map(Some),
            _ => Ok(None),
        }
    }

    fn signs(&self, table: &Table, column: usize) -> Result<Vec<f64>> {
        let known = [self.positive.clone(), self.negative.clone()];
        let found = look_up(table, column, &known, None).map_err(|row| {
            let cell = table.cell(row, column);
            if is_missing(cell) {
                return missing(table, row, column);
            }
            let wanted = list(known.iter().map(String::as_str));
            table.bad_at(row, format!("the label in column {} is {}; expected one of {wanted}", quote(&self.column), quote(cell)))
        })?;
        Ok(found.into_iter().map(|k| if k == 0 { 1.0 } else { -1.0 }).collect())
    }
}

fn missing(table: &Table, row: usize, column: usize) -> Error {
    let (name, cell) = (quote(&table.names()[column]), table.cell(row, column));
    let cell = if cell.is_empty() { "the cell is empty".to_string() } else { format!("the cell is {}", quote(cell)) };
    table.bad_at(row, format!("the label in column {name} is missing ({cell})"))
}

/// Orders two values as positive and negative by convention; `None` if no convention applies.
fn usual<'a, 'b>(a: &'a Value<'b>, b: &'a Value<'b>) -> Option<(&'a Value<'b>, &'a Value<'b>)> {
    let is_usual = |plus: &str, minus: &str| match (number(plus), number(minus)) {
        (Some(plus), Some(minus)) => plus == 1.0 && (minus == 0.0 || minus == -1.0),
        _ => WORDS.contains(&(plus.trim().to_lowercase().as_str(), minus.trim().to_lowercase().as_str())),
    };
    [(a, b), (b, a)].into_iter().find(|(plus, minus)| is_usual(plus.text, minus.text))
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    fn learn(cells: &[&str], positive: Option<&str>) -> Result<(Labels, Vec<f64>, Vec<Note>)> {
        Labels::learn(&table("y", cells), "y", positive)
    }

    fn error(cells: &[&str], positive: Option<&str>) -> String {
        learn(cells, positive).unwrap_err().to_string()
    }

    #[test]
    fn usual_pairs_need_no_choice() {
        for (minus, plus) in [
            ("0", "1"),
            ("-1", "1"),
            ("-1", "+1"),
            ("0.0", "1.0"),
            ("no", "yes"),
            ("No", "Yes"),
            ("N", "Y"),
            ("FALSE", "TRUE"),
            ("False", "True"),
            ("f", "t"),
            ("negative", "positive"),
        ] {
            // The result is not the rarer value, which would follow from the other rule.
            let (labels, signs, notes) = learn(&[plus, plus, minus], None).unwrap();
            assert_eq!((labels.positive.as_str(), labels.negative.as_str()), (plus, minus));
            assert_eq!(signs, [1.0, 1.0, -1.0]);
            assert!(notes.is_empty());
            let (labels, signs, _) = learn(&[plus, minus], Some(minus)).unwrap();
            assert_eq!((labels.positive.as_str(), signs), (minus, vec![-1.0, 1.0]));
        }
    }

    #[test]
    fn else_the_rarer_value_is_positive() {
        let (labels, signs, notes) = learn(&["bad", "good", "good"], None).unwrap();
        assert_eq!((labels.positive.as_str(), signs), ("bad", vec![1.0, -1.0, -1.0]));
        assert_eq!(
            crate::testing::sentences(&notes),
            ["label 'y': 'bad' counts as positive (1 of 3 rows), because it is the rarer value"]
        );
        let (labels, _, notes) = learn(&["b", "a"], None).unwrap();
        assert_eq!(labels.positive, "b");
        assert!(notes[0].to_string().ends_with("because it is the last in order"));
        assert_eq!(learn(&["1", "1", "2"], None).unwrap().0.positive, "2");
        let (labels, _, notes) = learn(&["b", "a"], Some("a")).unwrap();
        assert_eq!((labels.positive.as_str(), notes.len()), ("a", 0));
    }

    #[test]
    fn spellings_of_a_number_are_one_label() {
        let (labels, signs, _) = learn(&["1", "0.0", "1.0", "0"], Some("1.00")).unwrap();
        assert_eq!(signs, [1.0, -1.0, 1.0, -1.0]);
        assert_eq!((labels.positive.as_str(), labels.negative.as_str()), ("1", "0.0"));
    }

    #[test]
    fn what_is_no_label_is_refused() {
        assert_eq!(error(&["a", "a"], None), "the table: all rows have the same label 'a' in column 'y'; expected two values");
        assert_eq!(
            error(&["10", "9", "1"], None),
            "the table: column 'y' has more than two values, '1', '9', '10'; expected two for a label"
        );
        let many: Vec<String> = (0..2000).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            error(&many, None),
            "the table: column 'y' has more than two values, '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', … (2000 in \
             all); expected two for a label"
        );
        assert_eq!(error(&["a", "b", "?"], None), "the table, line 4: the label in column 'y' is missing (the cell is '?')");
        assert_eq!(error(&["a", "", "b"], None), "the table, line 3: the label in column 'y' is missing (the cell is empty)");
        assert_eq!(
            error(&[">50K", "<=50K"], Some(">50k")),
            "the table: no row has the label '>50k' in column 'y'; did you mean '>50K'?"
        );
        let error = Labels::learn(&table("income", &["a", "b"]), "incme", None).unwrap_err().to_string();
        assert_eq!(error, "the table has no column 'incme'; did you mean 'income'?");
    }

    #[test]
    fn other_tables_are_read_with_the_same_labels() {
        let labels = Labels { column: "y".into(), positive: "1".into(), negative: "0".into() };
        assert_eq!(labels.read(&table("y", &["1.0", "0", "0"])).unwrap(), Some(vec![1.0, -1.0, -1.0]));
        assert_eq!(labels.read(&table("x", &["1", "0"])).unwrap(), None);
        assert_eq!(labels.read(&table("y", &["", "NA"])).unwrap(), None);
        let error = labels.read(&table("y", &["1", "2"])).unwrap_err().to_string();
        assert_eq!(error, "the table, line 3: the label in column 'y' is '2'; expected one of '1', '0'");
        assert!(
            labels.read(&table("y", &["1", ""])).unwrap_err().to_string().contains("line 3: the label in column 'y' is missing")
        );
        let json = serde_json::to_string(&labels).unwrap();
        assert_eq!(json, r#"{"column":"y","positive":"1","negative":"0"}"#);
        assert_eq!(serde_json::from_str::<Labels>(&json).unwrap(), labels);
        assert!(serde_json::from_str::<Labels>(&json.replace("column", "colum")).is_err());
    }
}
