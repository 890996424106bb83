//! Raw tables: named columns of text cells, from delimited files and to CSV. Turning cells into numbers is not done here.

use std::io::Read;

use super::source::{Source, show};
use crate::Result;

/// Rows of text cells under column names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    names: Vec<String>,
    /// All cells, one after the other; a string per cell would cost more than the cells.
    text: String,
    ends: Vec<usize>,
}

/// How a delimited file is laid out. Cells may be in double quotes; a doubled quote inside stands for one.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// What stands between cells.
    pub separator: char,
    /// Names of the columns; `None` if the first line has them.
    pub names: Option<&'static [&'static str]>,
    /// Columns that must not be kept, by name.
    pub leave_out: fn(&str) -> bool,
}

impl Table {
    /// A table without rows.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Table { names: names.into_iter().map(Into::into).collect(), text: String::new(), ends: vec![] }
    }

    /// Reads a delimited source to its end.
    pub fn parse<R: Read>(source: &mut Source<R>, layout: &Layout) -> Result<Self> {
        let text = source.text()?;
        // Spreadsheets put a byte order mark before the first name.
        let start = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut records = Records { text: start, line: 1, separator: layout.separator, cells: vec![] };
        let all: Vec<String> = match layout.names {
            Some(names) => names.iter().map(|n| n.to_string()).collect(),
            None => match records.next().map_err(|(line, what)| source.bad_at(line, what))? {
                Some(_) => records.cells.clone(),
                None => vec![],
            },
        };
        let keep: Vec<bool> = all.iter().map(|n| !(layout.leave_out)(n)).collect();
        let mut table = Table::new(all.iter().zip(&keep).filter(|(_, k)| **k).map(|(n, _)| n.as_str()));
        while let Some(line) = records.next().map_err(|(line, what)| source.bad_at(line, what))? {
            if records.cells.len() != all.len() {
                return Err(source.bad_at(line, format!("has {} cells: wanted {}", records.cells.len(), all.len())));
            }
            table.push(records.cells.iter().zip(&keep).filter(|(_, k)| **k).map(|(c, _)| c.as_str()));
        }
        if table.rows() == 0 {
            return Err(source.bad_at(records.line, "the file has no rows"));
        }
        Ok(table)
    }

    /// Adds a row, which must have a cell for each column.
    pub(crate) fn push<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        for cell in cells {
            self.text.push_str(cell);
            self.ends.push(self.text.len());
        }
    }

    /// Names of the columns; names may repeat.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len().checked_div(self.names.len()).unwrap_or(0)
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.names.len()
    }

    /// The first column of that name, counted from 0.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    /// The cell in row `i` and column `j`, both counted from 0.
    pub fn cell(&self, i: usize, j: usize) -> &str {
        let k = i * self.names.len() + j;
        let start = if k == 0 { 0 } else { self.ends[k - 1] };
        &self.text[start..self.ends[k]]
    }

    /// The cells of row `i`.
    pub fn row(&self, i: usize) -> impl Iterator<Item = &str> {
        (0..self.names.len()).map(move |j| self.cell(i, j))
    }

    /// The table as CSV text with a header line.
    pub fn to_csv(&self) -> String {
        let mut csv = String::with_capacity(self.text.len() + self.ends.len() + 1024);
        write_record(&mut csv, self.names.iter().map(String::as_str));
        for i in 0..self.rows() {
            write_record(&mut csv, self.row(i));
        }
        csv
    }
}

fn write_record<'a>(csv: &mut String, cells: impl Iterator<Item = &'a str>) {
    for (j, cell) in cells.enumerate() {
        if j > 0 {
            csv.push(',');
        }
        // A row of one empty cell would look like a blank line.
        if cell.contains([',', '"', '\n', '\r']) || (j == 0 && cell.is_empty()) {
            csv.push('"');
            csv.push_str(&cell.replace('"', "\"\""));
            csv.push('"');
        } else {
            csv.push_str(cell);
        }
    }
    csv.push('\n');
}

/// Walks over the records of a text.
struct Records<'a> {
    /// What is left.
    text: &'a str,
    /// Line that `text` starts in.
    line: usize,
    separator: char,
    /// Cells of the last record.
    cells: Vec<String>,
}

impl Records<'_> {
    /// Reads the next record into `cells` and gives the line it starts in. Blank lines are passed over.
    fn next(&mut self) -> Result<Option<usize>, (usize, String)> {
        self.cells.clear();
        while let Some(rest) = self.text.strip_prefix('\n').or_else(|| self.text.strip_prefix("\r\n")) {
            self.text = rest;
            self.line += 1;
        }
        if self.text.is_empty() {
            return Ok(None);
        }
        let start = self.line;
        loop {
            let cell = if self.text.starts_with('"') { self.quoted()? } else { self.bare() };
            self.cells.push(cell);
            if let Some(rest) = self.text.strip_prefix(self.separator) {
                self.text = rest;
            } else if let Some(rest) = self.text.strip_prefix('\n').or_else(|| self.text.strip_prefix("\r\n")) {
                self.text = rest;
                self.line += 1;
                return Ok(Some(start));
            } else if self.text.is_empty() {
                return Ok(Some(start));
            } else {
                let what = format!("{} follows a closing quote: wanted {:?}", show(&self.text.as_bytes()[..1]), self.separator);
                return Err((self.line, what));
            }
        }
    }

    fn bare(&mut self) -> String {
        let end = self.text.find([self.separator, '\n']).unwrap_or(self.text.len());
        let (cell, rest) = self.text.split_at(end);
        // A carriage return belongs to the end of the line.
        let cell = if rest.starts_with(self.separator) { cell } else { cell.strip_suffix('\r').unwrap_or(cell) };
        self.text = rest;
        cell.to_string()
    }

    fn quoted(&mut self) -> Result<String, (usize, String)> {
        let opened = self.line;
        let mut cell = String::new();
        self.text = &self.text[1..];
        loop {
            let Some(end) = self.text.find('"') else {
                return Err((opened, "a double quote is opened and never closed".into()));
            };
            let part = &self.text[..end];
            self.line += part.matches('\n').count();
            cell.push_str(part);
            self.text = &self.text[end + 1..];
            match self.text.strip_prefix('"') {
                Some(rest) => {
                    cell.push('"');
                    self.text = rest;
                }
                None => return Ok(cell),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COMMA: Layout = Layout { separator: ',', names: None, leave_out: |_| false };

    fn from(text: &str, layout: &Layout) -> Result<Table> {
        Table::parse(&mut Source::new("some.csv", text.as_bytes())?, layout)
    }

    #[test]
    fn quotes_line_ends_and_blank_lines() {
        let table = from("\u{feff}a,b,a\r\n1,\"x, \"\"y\"\"\",\r\n\r\n\"two\nlines\",,3\r\n", &COMMA).unwrap();
        assert_eq!(table.names(), ["a", "b", "a"]);
        assert_eq!(table.rows(), 2);
        assert_eq!(table.row(0).collect::<Vec<_>>(), ["1", "x, \"y\"", ""]);
        assert_eq!(table.row(1).collect::<Vec<_>>(), ["two\nlines", "", "3"]);
        assert_eq!((table.column("a"), table.column("c")), (Some(0), None));
    }

    #[test]
    fn columns_can_be_left_out_and_named() {
        let layout = Layout { leave_out: |n| n == "secret", ..COMMA };
        let table = from("a,secret,b\n1,hush,2\n", &layout).unwrap();
        assert_eq!(table.to_csv(), "a,b\n1,2\n");
        let layout = Layout { separator: ' ', names: Some(&["x", "y"]), ..COMMA };
        assert_eq!(from("A1 3\nA2 4", &layout).unwrap().to_csv(), "x,y\nA1,3\nA2,4\n");
    }

    #[test]
    fn errors_have_the_line() {
        let error = |text| from(text, &COMMA).unwrap_err().to_string();
        assert_eq!(error("a,b\n1,2\n\n3\n"), "some.csv, line 4: has 1 cells: wanted 2");
        assert_eq!(error("a,b\n\"1\n1\",2\n3,\"4\n"), "some.csv, line 4: a double quote is opened and never closed");
        assert_eq!(error("a,b\n\"1\"x,2\n"), "some.csv, line 2: x follows a closing quote: wanted ','");
        assert_eq!(error("a,b\n"), "some.csv, line 2: the file has no rows");
        assert_eq!(error(""), "some.csv, line 1: the file has no rows");
    }

    proptest! {
        #[test]
        fn csv_is_read_back(rows in prop::collection::vec(prop::collection::vec("[a\",;\\n é]{0,4}", 3), 1..8)) {
            let mut table = Table::new(["a", "b", "c"]);
            rows.iter().for_each(|row| table.push(row.iter().map(String::as_str)));
            prop_assert_eq!(from(&table.to_csv(), &COMMA).unwrap(), table);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[a\",\\r\\né]{0,40}") {
            let _ = from(&text, &COMMA);
        }
    }
}
