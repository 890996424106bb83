//! Applies an encoding: from the cells of a table to a matrix.

use std::collections::{BTreeSet, HashMap};

use thalweg::Note;
use thalweg::math::Matrix;

use super::cells::{Cell, cell, is_missing, no_number, quote};
use super::{Column, Encoding};
use crate::Result;
use crate::data::source::list;
use crate::data::table::Table;

impl Encoding {
    /// Encodes the rows of a table as numbers, without storing zeros. Also returns messages for the user. Columns are found by
    /// name; columns that are not in the encoding are ignored.
    pub fn encode(&self, table: &Table) -> Result<(Matrix, Vec<Note>)> {
        let (mut coders, mut absent, mut first) = (vec![], vec![], 0);
        for column in &self.columns {
            match table.column(column.name()) {
                Some(j) => coders.push(Coder::new(column, j, first)),
                None => absent.push(column.name()),
            }
            first += column.width();
        }
        if let [only] = absent.as_slice() {
            return Err(table.find(only).err().unwrap_or_else(|| table.lacks(format!("column {}", quote(only)))));
        }
        if !absent.is_empty() {
            return Err(table.lacks(format!("columns {}", list(absent))));
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
        /// Whether a missing cell is an error.
        complete: bool,
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
            Column::Number { mean, deviation, missing, complete, .. } => {
                (Kind::Number { id: first, mean: *mean, deviation: *deviation, complete: *complete }, missing, first + 1)
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
            Kind::Number { id, mean, deviation, complete } => match cell(text) {
                Cell::Number(v) => {
                    let value = (v - *mean) / *deviation;
                    if !value.is_finite() {
                        let (cell, name) = (quote(text), quote(self.name));
                        return Err(format!("{cell} in column {name} is too far from the numbers that the model was trained on"));
                    }
                    return Ok((value != 0.0).then_some((*id, value)));
                }
                Cell::Missing if *complete => {
                    return Err(format!(
                        "the cell in column {} is missing; the model was fitted to complete rows",
                        quote(self.name)
                    ));
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

    fn notes(&self) -> Vec<Note> {
        let column = || self.name.to_string();
        let mut notes = vec![];
        let numeric = match &self.kind {
            Kind::Number { .. } => true,
            Kind::Category { unseen, examples, .. } => {
                if *unseen > 0 {
                    let examples = examples.iter().cloned().collect();
                    notes.push(Note::UnknownValues { column: column(), rows: *unseen, examples });
                }
                false
            }
        };
        if self.unseen_missing > 0 {
            notes.push(Note::UnknownMissing { column: column(), rows: self.unseen_missing, numeric });
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dense, learn, read, repeat, table};
    use super::*;
    use crate::testing::runner;
    use proptest::prelude::*;

    fn bits(m: &Matrix) -> Vec<Vec<u64>> {
        dense(m).iter().map(|row| row.iter().map(|v| v.to_bits()).collect()).collect()
    }

    #[test]
    fn later_tables() {
        let (encoding, _) = Encoding::learn(&read("a,b,c,y\n1,u,u,0\n3,v,,1\n"), "y", &[]).unwrap();
        assert_eq!(encoding.names(), ["a", "b = u", "b = v", "c = u", "c = missing"]);
        let (rows, notes) = encoding.encode(&read("extra,c,b,a\n?,,w,\n?,x,NA,5\n?,y,w,2\n")).unwrap();
        assert_eq!(dense(&rows), [[0.0, 0.0, 0.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0, 0.0], [0.0; 5]]);
        assert_eq!(rows.stored(), 2);
        assert_eq!(
            crate::testing::sentences(&notes),
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
        assert_eq!(error("x,c\n1,2\n"), "my.csv has no columns 'a', 'b'");
        assert_eq!(error("A,b,c\n1,u,u\n"), "my.csv has no column 'a'; did you mean 'A'?");
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
