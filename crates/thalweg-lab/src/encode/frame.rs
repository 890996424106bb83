//! Columns of a data frame as the cells of a table, so that rows in memory are encoded by the same code as those of a file.
//! Reading frames is left to the callers.

use std::collections::HashMap;

use super::cells::number;
use super::{Column, Encoding};
use crate::data::table::Table;

/// Cells of a column of a data frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameCells {
    /// Numbers; NaN is a missing cell.
    Numbers(Vec<f64>),
    /// Text.
    Text(Vec<String>),
}

impl Encoding {
    /// Returns a table of these columns, which must have the same number of rows, under `name` in messages. A number is written
    /// with as few digits as determine it, or in a category as the level that spells it: frames do not tell 1 from 1.0.
    pub fn table_of_frame(&self, name: &str, columns: Vec<(String, FrameCells)>) -> Table {
        let (names, cells): (Vec<String>, Vec<FrameCells>) = columns.into_iter().unzip();
        let texts: Vec<Vec<String>> = names
            .iter()
            .zip(cells)
            .map(|(name, cells)| match cells {
                FrameCells::Text(text) => text,
                FrameCells::Numbers(numbers) => self.spelled(name, &numbers),
            })
            .collect();
        let rows = texts.iter().map(Vec::len).min().unwrap_or(0);
        let mut table = Table::new(names).called(name);
        (0..rows).for_each(|i| table.push(texts.iter().map(|column| column[i].trim())));
        table
    }

    fn spelled(&self, name: &str, numbers: &[f64]) -> Vec<String> {
        let levels = match self.columns.iter().find(|column| column.name() == name) {
            Some(Column::Category { levels, .. }) => levels.as_slice(),
            _ => &[],
        };
        // -0 and 0 are one number.
        let bits = |v: f64| (v + 0.0).to_bits();
        let known: HashMap<u64, &String> = levels.iter().rev().filter_map(|level| Some((bits(number(level)?), level))).collect();
        let spell = |v: &f64| match known.get(&bits(*v)) {
            _ if v.is_nan() => String::new(),
            Some(level) => (*level).clone(),
            None => v.to_string(),
        };
        numbers.iter().map(spell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dense, read, repeat, table};
    use super::*;

    #[test]
    fn a_frame_gives_the_bits_of_the_file() {
        let (encoding, _) = Encoding::learn(&read("a,b,y\n0.1,u,0\n-3e-7,v,1\n1e22,,1\n,u,0\n"), "y", &[]).unwrap();
        let file = read("a,b\n0.30000000000000004,u\n,v\n1e300,\n");
        let text = |cells: &[&str]| FrameCells::Text(cells.iter().map(|s| s.to_string()).collect());
        let numbers = FrameCells::Numbers(vec![0.1 + 0.2, f64::NAN, 1e300]);
        let frame = encoding.table_of_frame("X", vec![("b".into(), text(&[" u", "v", ""])), ("a".into(), numbers)]);
        let bits =
            |t: &Table| -> Vec<u64> { dense(&encoding.encode(t).unwrap().0).concat().iter().map(|v| v.to_bits()).collect() };
        assert_eq!(bits(&frame), bits(&file));
        let infinite = FrameCells::Numbers(vec![1.0, f64::INFINITY]);
        let frame = encoding.table_of_frame("X", vec![("a".into(), infinite), ("b".into(), text(&["u", "u"]))]);
        assert_eq!(encoding.encode(&frame).unwrap_err().to_string(), "X, line 3: 'inf' in column 'a' is not a finite number");
    }

    #[test]
    fn numbers_of_a_category_are_its_levels() {
        let cells = repeat(&[("1.0", 300), ("2", 300), ("x", 300), ("0", 300)]);
        let (encoding, _) = Encoding::learn(&table("x", &cells), "z", &[]).unwrap();
        assert_eq!(encoding.names(), ["x = 0", "x = 1.0", "x = 2", "x = x"]);
        let frame = encoding.table_of_frame("X", vec![("x".into(), FrameCells::Numbers(vec![2.0, 1.0, -0.0, 7.5]))]);
        let cells: Vec<&str> = (0..4).map(|i| frame.cell(i, 0)).collect();
        assert_eq!(cells, ["2", "1.0", "0", "7.5"]);
    }
}
