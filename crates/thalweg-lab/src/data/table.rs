//! Raw tables: named columns of text cells, from delimited files and to CSV. Turning cells into numbers is done in
//! [`crate::encode`].

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use super::source::{Source, list, show};
use crate::{Error, Result};

/// Separators recognised in user files; of two that fit equally well, the first is used.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// How far [`sniff`] reads: records, and bytes in case a quote is never closed.
const SNIFFED: (usize, usize) = (50, 1 << 18);

/// Rows of text cells under column names. Tables are equal if their names and cells are.
#[derive(Debug, Clone)]
pub struct Table {
    names: Vec<String>,
    /// All cells, concatenated; a string per cell would take more memory than the cells.
    text: String,
    ends: Vec<usize>,
    /// Line of the file where each row starts; empty for a table that was not read from a file.
    lines: Vec<u32>,
    file: String,
    fingerprint: String,
}

/// Layout of a delimited file. Cells may be in double quotes; a doubled quote inside means one quote. White space around a cell
/// or its quotes is ignored.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Separator between cells.
    pub separator: u8,
    /// Names of the columns; `None` if they are in the first line.
    pub names: Option<&'static [&'static str]>,
    /// Selects columns, by name, that must not be kept.
    pub leave_out: fn(&str) -> bool,
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.text == other.text && self.ends == other.ends
    }
}

impl Eq for Table {}

impl Table {
    /// Returns a table without rows.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Table {
            names: names.into_iter().map(Into::into).collect(),
            text: String::new(),
            ends: vec![],
            lines: vec![],
            file: "the table".into(),
            fingerprint: String::new(),
        }
    }

    /// Reads a user's file, plain or gzip: a header line with a name for each column, then rows. The separator (comma,
    /// semicolon, tab or bar) is detected from the first lines; see [`Layout`] for the rest.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_source(Source::open(path)?)
    }

    /// Reads any source, as [`Table::read`] does a file.
    pub fn from_source<R: Read>(mut source: Source<R>) -> Result<Self> {
        let text = source.text()?;
        let layout = Layout { separator: sniff(&text), names: None, leave_out: |_| false };
        let mut table = Self::from_text(&source, &text, &layout)?;
        table.check_header(&source)?;
        table.fingerprint = source.finish()?.text;
        Ok(table)
    }

    /// Reads a delimited source of known layout to its end.
    pub fn parse<R: Read>(source: &mut Source<R>, layout: &Layout) -> Result<Self> {
        let text = source.text()?;
        Self::from_text(source, &text, layout)
    }

    fn from_text<R: Read>(source: &Source<R>, text: &str, layout: &Layout) -> Result<Self> {
        let mut records = Records::new(text, layout.separator);
        let mut next = |record: &mut Record| records.next(record).map_err(|(line, what)| source.bad_at(line, what));
        let mut record = Record::default();
        let all: Vec<String> = match layout.names {
            Some(names) => names.iter().map(|n| n.to_string()).collect(),
            None => match next(&mut record)? {
                Some(_) => record.cells().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect(),
                None => return Err(Error::file(source.path(), "is empty; expected a header line and rows")),
            },
        };
        let keep: Vec<bool> = all.iter().map(|n| !(layout.leave_out)(n)).collect();
        let whole = !keep.contains(&false);
        let mut table = Table::new(all.iter().zip(&keep).filter(|(_, k)| **k).map(|(n, _)| n.as_str()));
        table.file = source.name().into();
        // Cells are never longer than the text they are read from.
        let mut bytes = Vec::with_capacity(text.len());
        while let Some(line) = next(&mut record)? {
            if record.ends.len() != all.len() {
                let (got, s) = (record.ends.len(), if record.ends.len() == 1 { "" } else { "s" });
                return Err(source.bad_at(line, format!("has {got} cell{s}; expected {}", all.len())));
            }
            if whole {
                table.ends.extend(record.ends.iter().map(|end| bytes.len() + end));
                bytes.extend_from_slice(&record.bytes[..record.len()]);
            } else {
                for (cell, _) in record.cells().zip(&keep).filter(|(_, k)| **k) {
                    bytes.extend_from_slice(cell);
                    table.ends.push(bytes.len());
                }
            }
            table.lines.push(u32::try_from(line).unwrap_or(u32::MAX));
        }
        if table.lines.is_empty() {
            let what = if layout.names.is_some() { "is empty; expected rows" } else { "has a header line and no rows" };
            return Err(Error::file(source.path(), what));
        }
        bytes.shrink_to_fit();
        // The cells are pieces of UTF-8 text cut at ASCII characters, so this cannot fail.
        table.text = String::from_utf8(bytes).map_err(|e| Error::file(source.path(), e.to_string()))?;
        Ok(table)
    }

    /// Checks that a user's table has at least two columns, with distinct names.
    fn check_header<R: Read>(&self, source: &Source<R>) -> Result<()> {
        let refuse = |what: String| Err(source.bad_at(1, what));
        if let [only] = self.names.as_slice() {
            let only = show(only.as_bytes());
            return refuse(format!(
                "the header has one column, '{only}'; expected at least two, with a comma, semicolon, tab or bar between them"
            ));
        }
        let numbers: Option<Vec<f64>> = self.names.iter().map(|n| n.parse().ok()).collect();
        // Some programs number columns without names; such numbers count as names.
        let counted = |numbers: &[f64]| [0, 1].iter().any(|s| numbers.iter().zip(*s..).all(|(v, k)| *v == f64::from(k)));
        if numbers.is_some_and(|numbers| !counted(&numbers)) {
            return refuse("every cell is a number; expected a header line with the names of the columns".into());
        }
        let mut first = std::collections::HashMap::new();
        for (j, name) in (1..).zip(&self.names) {
            if name.is_empty() {
                return refuse(format!("column {j} has no name; expected a name for each column"));
            }
            if let Some(before) = first.insert(name, j) {
                let name = show(name.as_bytes());
                return refuse(format!("columns {before} and {j} have the same name '{name}'; expected different names"));
            }
        }
        Ok(())
    }

    /// Renames the table in messages.
    pub(crate) fn called(mut self, name: &str) -> Self {
        self.file = name.into();
        self
    }

    /// Appends a row, which must have a cell for each column.
    pub(crate) fn push<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        for cell in cells {
            self.text.push_str(cell);
            self.ends.push(self.text.len());
        }
    }

    /// Selects the given rows, in that order; each keeps its line.
    pub fn select(&self, rows: &[usize]) -> Table {
        let mut table = Table {
            text: String::new(),
            ends: Vec::with_capacity(rows.len() * self.columns()),
            lines: rows.iter().map(|&i| self.line(i) as u32).collect(),
            names: self.names.clone(),
            file: self.file.clone(),
            fingerprint: self.fingerprint.clone(),
        };
        rows.iter().for_each(|&i| table.push(self.row(i)));
        table
    }

    /// Returns the file that the table was read from, or its name in messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the sha256 of the text that a user's table was read from, compressed or not; empty for other tables.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the line of the file, counted from 1, where row `i`, counted from 0, starts. For a table that was not read from
    /// a file, this is the line in its CSV text, if no cell has a line break.
    pub fn line(&self, i: usize) -> usize {
        self.lines.get(i).map_or(i + 2, |line| *line as usize)
    }

    /// Returns an error about the whole table.
    pub fn bad(&self, what: impl Into<String>) -> Error {
        Error::File { file: self.file.clone(), what: what.into() }
    }

    /// Returns the error that the table has no such part.
    pub fn lacks(&self, what: impl std::fmt::Display) -> Error {
        Error::Request(format!("{} has no {what}", self.file))
    }

    /// Returns an error at row `i`, counted from 0.
    pub fn bad_at(&self, i: usize, what: impl Into<String>) -> Error {
        Error::Line { file: self.file.clone(), line: self.line(i), what: what.into() }
    }

    /// Returns the names of the columns; names may repeat.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len().checked_div(self.names.len()).unwrap_or(0)
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.names.len()
    }

    /// Finds the first column of that name, counted from 0.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    /// Finds the column of a name given by the user, or returns an error that suggests the most similar one.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.column(name).ok_or_else(|| {
            let names = || self.names.iter().map(String::as_str);
            let hint = match thalweg::suggest::nearest(name, names()) {
                Some(near) => format!("did you mean '{}'?", show(near.as_bytes())),
                None => format!("its columns are {}", list(names())),
            };
            let headerless = if self.has_values_as_names() {
                "; the first line looks like a row of values: if the file has no header line, add one with the names of the columns"
            } else {
                ""
            };
            self.lacks(format!("column '{}'; {hint}{headerless}", show(name.as_bytes())))
        })
    }

    /// Returns whether the names look like a row of values: some are numbers or occur as cells of their own column.
    fn has_values_as_names(&self) -> bool {
        /// Rows that are compared with the names.
        const ROWS: usize = 1000;
        let is_value = |(j, name): (usize, &String)| {
            let repeated = || (0..self.rows().min(ROWS)).any(|i| self.cell(i, j) == name);
            name.parse::<f64>().is_ok_and(f64::is_finite) || repeated()
        };
        self.names.iter().enumerate().any(is_value)
    }

    /// Returns the cell in row `i` and column `j`, both counted from 0.
    pub fn cell(&self, i: usize, j: usize) -> &str {
        let k = i * self.names.len() + j;
        let start = if k == 0 { 0 } else { self.ends[k - 1] };
        &self.text[start..self.ends[k]]
    }

    /// Iterates over the cells of row `i`.
    pub fn row(&self, i: usize) -> impl Iterator<Item = &str> {
        (0..self.names.len()).map(move |j| self.cell(i, j))
    }

    /// Formats the table as CSV text with a header line.
    pub fn to_csv(&self) -> String {
        self.to_csv_with(CellFormat::default())
    }

    /// Formats the table as CSV text with a header line and this format of the cells.
    pub fn to_csv_with(&self, format: CellFormat) -> String {
        let mut csv = String::with_capacity(self.text.len() + self.ends.len() + 1024);
        write_record(&mut csv, self.names.iter().map(String::as_str), format);
        for i in 0..self.rows() {
            write_record(&mut csv, self.row(i), format);
        }
        csv
    }
}

/// How text from the input is written to CSV.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct CellFormat {
    /// Put an apostrophe before texts that begin with = + - @, which spreadsheets take for formulas
    #[arg(long)]
    pub spreadsheet_safe: bool,
}

impl CellFormat {
    /// Formats a cell, as [`quote_cell`] does.
    pub(crate) fn quote(self, cell: &str) -> Cow<'_, str> {
        let is_formula = || cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
        if self.spreadsheet_safe && is_formula() {
            Cow::Owned(format!("\"'{}\"", cell.replace('"', "\"\"")))
        } else {
            quote_cell(cell)
        }
    }
}

/// Formats a cell for CSV: in quotes if it contains the separator, a quote or a line break, or has white space at an end.
pub(crate) fn quote_cell(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', '"', '\n', '\r']) || cell.trim_ascii() != cell {
        Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(cell)
    }
}

fn write_record<'a>(csv: &mut String, cells: impl Iterator<Item = &'a str>, format: CellFormat) {
    for (j, cell) in cells.enumerate() {
        if j > 0 {
            csv.push(',');
        }
        // A row of one empty cell would look like a blank line.
        if j == 0 && cell.is_empty() { csv.push_str("\"\"") } else { csv.push_str(&format.quote(cell)) }
    }
    csv.push('\n');
}

/// Detects the separator: the one that splits most of the first records into as many cells as the header has, which must be two
/// or more; of several, the one with the most cells.
fn sniff(text: &str) -> u8 {
    let mut end = text.len().min(SNIFFED.1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut best = (0.0, 0, SEPARATORS[0]);
    for separator in SEPARATORS {
        let mut records = Records::new(&text[..end], separator);
        let mut record = Record::default();
        let (mut wanted, mut seen, mut fit) = (0, 0, 0);
        while seen < SNIFFED.0 {
            match records.next(&mut record) {
                Ok(None) => break,
                // A record truncated by the end of the sample is ignored.
                _ if seen > 0 && end < text.len() && records.at >= end => break,
                Err(_) => {
                    seen += 1;
                    break;
                }
                Ok(Some(_)) => {
                    seen += 1;
                    if seen == 1 {
                        wanted = record.ends.len();
                    }
                    fit += usize::from(record.ends.len() == wanted);
                }
            }
        }
        let share = fit as f64 / f64::from(seen.max(1) as u32);
        if wanted >= 2 && (share, wanted) > (best.0, best.1) {
            best = (share, wanted, separator);
        }
    }
    best.2
}

/// Cells of one record.
#[derive(Default)]
struct Record {
    /// Cells, concatenated, with room for more.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Record {
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// Iterator over the records of a text. The grammar is that of `csv-core`; what it tolerates (a quote that is not closed, text
/// after a closing quote) is an error here, because it means that rows were lost.
struct Records<'a> {
    text: &'a [u8],
    /// Number of bytes of `text` read so far.
    at: usize,
    /// Current line, counted from 1.
    line: usize,
    separator: u8,
    core: csv_core::Reader,
}

impl<'a> Records<'a> {
    fn new(text: &'a str, separator: u8) -> Self {
        // Spreadsheets put a byte order mark before the first name.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).as_bytes();
        let core = csv_core::ReaderBuilder::new().delimiter(separator).build();
        Records { text, at: 0, line: 1, separator, core }
    }

    /// Reads the next record and returns the line where it starts. Blank lines are skipped.
    fn next(&mut self, record: &mut Record) -> Result<Option<usize>, (usize, String)> {
        loop {
            self.pass_line_ends();
            if self.at == self.text.len() {
                return Ok(None);
            }
            record.ends.clear();
            let (start, mut quoted) = (self.line, false);
            loop {
                let (is_quoted, last) = self.cell(record)?;
                quoted |= is_quoted;
                if last {
                    break;
                }
            }
            if quoted || record.ends.len() > 1 || record.len() > 0 {
                return Ok(Some(start));
            }
        }
    }

    fn pass_line_ends(&mut self) {
        while let Some(b'\r' | b'\n') = self.text.get(self.at) {
            let pair = self.text[self.at..].starts_with(b"\r\n");
            self.at += if pair { 2 } else { 1 };
            self.line += 1;
        }
    }

    /// Appends the next cell; returns whether it was in quotes and whether it ends the record.
    fn cell(&mut self, record: &mut Record) -> Result<(bool, bool), (usize, String)> {
        let blank = |b: &u8| matches!(*b, b' ' | b'\t') && *b != self.separator;
        let blanks = self.text[self.at..].iter().take_while(|b| blank(b)).count();
        // A quote after blanks opens a cell too.
        if self.text.get(self.at + blanks) == Some(&b'"') {
            self.at += blanks;
        }
        let (from, start) = (self.at, record.len());
        let mut end = start;
        let last = loop {
            if record.bytes.len() < end + 64 {
                record.bytes.resize(2 * (end + 64), 0);
            }
            let (result, read, written) = self.core.read_field(&self.text[self.at..], &mut record.bytes[end..]);
            self.at += read;
            end += written;
            match result {
                csv_core::ReadFieldResult::Field { record_end } => break record_end,
                csv_core::ReadFieldResult::End => break true,
                csv_core::ReadFieldResult::InputEmpty | csv_core::ReadFieldResult::OutputFull => (),
            }
        };
        let raw = &self.text[from..self.at];
        // The last cell may end with the text, every other one with a separator.
        let (raw, ended) = match raw {
            [raw @ .., b'\r' | b'\n'] if last => (raw, true),
            [raw @ .., _] if !last => (raw, true),
            raw => (raw, false),
        };
        let quoted = raw.first() == Some(&b'"');
        if quoted {
            end -= self.check_quotes(raw)?;
            self.line += raw.iter().filter(|b| **b == b'\n').count();
        } else {
            let cell = &record.bytes[start..end];
            let (front, back) = (cell.len() - cell.trim_ascii_start().len(), cell.len() - cell.trim_ascii_end().len());
            if front == cell.len() {
                end = start;
            } else if front + back > 0 {
                record.bytes.copy_within(start + front..end - back, start);
                end -= front + back;
            }
        }
        record.ends.push(end);
        if last && ended {
            // Of a CR LF pair, the reader leaves the line feed.
            if self.text[self.at..].starts_with(b"\n") && self.text[self.at - 1] == b'\r' {
                self.at += 1;
            }
            self.line += 1;
        }
        Ok((quoted, last))
    }

    /// Checks the raw text of a cell that opens with a quote. Returns the length of the blanks after its closing quote.
    fn check_quotes(&self, raw: &[u8]) -> Result<usize, (usize, String)> {
        let cell = raw.trim_ascii_end();
        // A pair of quotes means one quote; the first single quote closes the cell.
        let mut close = 1;
        while close < cell.len() && (cell[close] != b'"' || cell.get(close + 1) == Some(&b'"')) {
            close += if cell[close] == b'"' { 2 } else { 1 };
        }
        if close >= cell.len() {
            return Err((self.line, "a double quote is opened and never closed".into()));
        }
        let after = cell[close + 1..].trim_ascii_start();
        if after.is_empty() {
            return Ok(raw.len() - cell.len());
        }
        let lines = cell[..close].iter().filter(|b| **b == b'\n').count();
        let here = if lines == 0 { String::new() } else { format!(" in line {}, of the quote opened here", self.line + lines) };
        let after: String = String::from_utf8_lossy(after).chars().take(1).collect();
        let (after, separator) = (show(after.as_bytes()), char::from(self.separator));
        Err((self.line, format!("{after} follows a closing quote{here}; expected {separator:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::runner;
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use std::io::Write;

    const COMMA: Layout = Layout { separator: b',', names: None, leave_out: |_| false };

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
        let layout = Layout { separator: b' ', names: Some(&["x", "y"]), ..COMMA };
        assert_eq!(from("A1 3\nA2 4", &layout).unwrap().to_csv(), "x,y\nA1,3\nA2,4\n");
    }

    #[test]
    fn errors_have_the_line() {
        let error = |text| from(text, &COMMA).unwrap_err().to_string();
        assert_eq!(error("a,b\n1,2\n\n3\n"), "some.csv, line 4: has 1 cell; expected 2");
        assert_eq!(error("a,b\r\n\"1\r\n1\",2\r\n3,4,5\n"), "some.csv, line 4: has 3 cells; expected 2");
        assert_eq!(error("a,b\n\"1\n1\",2\n3,\"4\n"), "some.csv, line 4: a double quote is opened and never closed");
        assert_eq!(error("a,b\n\"1\" é,2\n"), "some.csv, line 2: é follows a closing quote; expected ','");
        assert_eq!(
            error("a,b\n\"1,2\n3,\"4\"\n"),
            "some.csv, line 2: 4 follows a closing quote in line 3, of the quote opened here; expected ','"
        );
        assert_eq!(error("a,b\n"), "some.csv: has a header line and no rows");
        assert_eq!(error("a,b"), "some.csv: has a header line and no rows");
        assert_eq!(error(""), "some.csv: is empty; expected a header line and rows");
        assert_eq!(error("\u{feff} \r\n\n"), "some.csv: is empty; expected a header line and rows");
        let layout = Layout { names: Some(&["x", "y"]), ..COMMA };
        assert_eq!(from("\n", &layout).unwrap_err().to_string(), "some.csv: is empty; expected rows");
    }

    fn user(text: impl AsRef<[u8]>) -> Result<Table> {
        Table::from_source(Source::new("my.csv", text.as_ref())?)
    }

    fn cells(table: &Table) -> Vec<Vec<&str>> {
        (0..table.rows()).map(|i| table.row(i).collect()).collect()
    }

    #[test]
    fn the_separator_is_found() {
        for (text, wanted) in [
            ("a,b\n1,2\n", ["1", "2"]),
            ("a;b\n1,5;2,5\n", ["1,5", "2,5"]),
            ("a\tb\n1;,\t\n", ["1;,", ""]),
            ("a|b\r\n\"x|y\"|2", ["x|y", "2"]),
            // Commas in quotes are ignored.
            ("\"a,x\";\"b,x\"\n\"1,1\";\"2,2\"\n", ["1,1", "2,2"]),
            ("\"a\";\"b\"\n\"1\n;2\";\"3\"\n", ["1\n;2", "3"]),
            // A name with a comma is outvoted by the rows.
            ("a, or b;c\n1;2\n3;4\n", ["1", "2"]),
        ] {
            let table = user(text).unwrap();
            assert_eq!(table.row(0).collect::<Vec<_>>(), wanted, "{text:?}");
        }
        // A ragged line among regular ones does not change the result.
        let error = |text: &str| user(text).unwrap_err().to_string();
        assert_eq!(error("a;b;c\n1;2;3\n1;2\n4;5;6\n"), "my.csv, line 3: has 2 cells; expected 3");
        let long: String = (0..100_000).map(|i| format!("{i}|x\n")).collect();
        assert_eq!(user(format!("a|b\n{long}")).unwrap().rows(), 100_000);
        assert_eq!(error(&format!("a|b\n{long}1|2|3")), "my.csv, line 100002: has 3 cells; expected 2");
        assert_eq!(error(&format!("a,b\n1,\"{long}")), "my.csv, line 2: a double quote is opened and never closed");
    }

    #[test]
    fn blanks_and_lines() {
        let table = user("\u{feff} a , b\r\n  \r\n 1 , \"x, \" \r\n\"two\r\nlines\" ,\t3\r\n,\r\n").unwrap();
        assert_eq!(table.names(), ["a", "b"]);
        assert_eq!(cells(&table), [["1", "x, "], ["two\r\nlines", "3"], ["", ""]]);
        assert_eq!((0..3).map(|i| table.line(i)).collect::<Vec<_>>(), [3, 4, 6]);
        assert_eq!(table.bad_at(1, "is wrong").to_string(), "my.csv, line 4: is wrong");
        assert_eq!(table.bad("is wrong").to_string(), "my.csv: is wrong");
        // Line ends of old Macintoshes.
        let table = user("a,b\r1,2\r3,\"4\"\r").unwrap();
        assert_eq!((cells(&table), table.line(1)), (vec![vec!["1", "2"], vec!["3", "4"]], 3));
        // A quote inside an unquoted cell is an ordinary character.
        assert_eq!(cells(&user("a,b\n5\" wide,\n").unwrap()), [["5\" wide", ""]]);
        assert_eq!(Table::new(["a"]).line(0), 2);
    }

    #[test]
    fn headers_are_checked() {
        let error = |text: &str| user(text).unwrap_err().to_string();
        assert_eq!(error("a,b,a\n1,2,3\n"), "my.csv, line 1: columns 1 and 3 have the same name 'a'; expected different names");
        assert_eq!(error("a,,b\n1,2,3\n"), "my.csv, line 1: column 2 has no name; expected a name for each column");
        assert_eq!(
            error("a\n1\n"),
            "my.csv, line 1: the header has one column, 'a'; expected at least two, with a comma, semicolon, tab or bar \
             between them"
        );
        assert_eq!(
            error("39,2.5\n50,3\n"),
            "my.csv, line 1: every cell is a number; expected a header line with the names of the columns"
        );
        assert_eq!(user("0,1,2\n5,6,7\n").unwrap().names(), ["0", "1", "2"]);
        assert_eq!(error(""), "my.csv: is empty; expected a header line and rows");
        assert_eq!(error("a,b\n"), "my.csv: has a header line and no rows");
    }

    #[test]
    fn files_of_all_kinds() {
        let here = tempfile::tempdir().unwrap();
        let error = Table::read(here.path()).unwrap_err().to_string();
        assert_eq!(error, format!("{}: is a directory; expected a file", here.path().display()));
        assert!(Table::read(&here.path().join("none")).unwrap_err().to_string().ends_with("none: there is no such file"));
        let mut zip = GzEncoder::new(vec![], Compression::fast());
        zip.write_all(b"a,b\n1,2\n").unwrap();
        let packed = zip.finish().unwrap();
        let (plain, zipped) = (user("a,b\n1,2\n").unwrap(), user(&packed).unwrap());
        assert_eq!(plain, zipped);
        assert_eq!(plain.fingerprint(), crate::data::source::sha256(b"a,b\n1,2\n"));
        assert_eq!(plain.fingerprint(), zipped.fingerprint());
        let error = user(&packed[..packed.len() - 9]).unwrap_err().to_string();
        assert!(error.starts_with("my.csv: the gzip is damaged or cut short ("), "{error}");
        let mut flipped = packed.clone();
        flipped[packed.len() - 6] ^= 1;
        assert!(user(&flipped).unwrap_err().to_string().contains("the gzip is damaged"));
        assert_eq!(user(b"a,b\n1,\0\n").unwrap_err().to_string(), "my.csv, line 2: is not text: it has a NUL byte here");
        assert!(user(b"a,b\n1,\xe9t\xe9\n").unwrap_err().to_string().starts_with("my.csv, line 2: is not text: the byte 0xe9"));
    }

    /// Writes cells in quotes where needed or where `always`, independently of [`Table::to_csv`].
    fn written(names: &[&str], rows: &[Vec<String>], separator: u8, crlf: bool, always: bool) -> String {
        let style = if always { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
        let end = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let mut writer = csv::WriterBuilder::new().delimiter(separator).terminator(end).quote_style(style).from_writer(vec![]);
        writer.write_record(names).unwrap();
        rows.iter().for_each(|row| writer.write_record(row).unwrap());
        String::from_utf8(writer.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn random_tables_are_read_back() {
        let cell = prop_oneof!["[a-z0-9.]{0,6}", "[a\",;|\\t\\r\\n é漢]{0,5}", " [ab]{0,2} ", "\\?|NA|nan|"];
        let rows = prop::collection::vec(prop::collection::vec(cell, 3), 1..8);
        let how = (rows, 0..4_usize, any::<bool>(), any::<bool>(), any::<bool>());
        let seen = runner().run(&how, |(rows, separator, crlf, bom, always)| {
            // The csv crate does not quote white space at the ends of a cell, which is kept only in quotes.
            let bare = |cell: &String| cell.trim_ascii().to_string();
            let kept = |row: &Vec<String>| -> Vec<String> {
                row.iter()
                    .map(|c| {
                        if always || c.contains(['"', '\n', '\r', char::from(SEPARATORS[separator])]) {
                            c.clone()
                        } else {
                            bare(c)
                        }
                    })
                    .collect()
            };
            let text = written(&["a", "b;", "é\n"], &rows, SEPARATORS[separator], crlf, always);
            let text = if bom { format!("\u{feff}{text}") } else { text };
            let table = from(&text, &Layout { separator: SEPARATORS[separator], ..COMMA }).unwrap();
            prop_assert_eq!(cells(&table), rows.iter().map(kept).collect::<Vec<_>>(), "{:?}", text);
            for i in 0..table.rows() {
                prop_assert!(i == 0 || table.line(i) > table.line(i - 1));
            }
            Ok(())
        });
        seen.unwrap();
    }

    #[test]
    fn random_tables_are_sniffed_and_read_back() {
        // Cells have any character except an unquoted alternative separator, which would be ambiguous.
        let cell = prop_oneof!["[a-zé漢0-9.]{1,6}", "\"[a\n,;|\\t é]{0,5}\"", "NA|\\?|"];
        let rows = prop::collection::vec(prop::collection::vec(cell, 3), 1..8);
        let ends = prop_oneof![Just("\n"), Just("\r\n")];
        let seen = runner().run(&(rows, 0..4_usize, ends, any::<bool>()), |(rows, separator, end, bom)| {
            let separator = char::from(SEPARATORS[separator]).to_string();
            let lines: Vec<String> = rows.iter().map(|row| row.join(&separator)).collect();
            let text =
                format!("{}{}{end}{}", if bom { "\u{feff}" } else { "" }, ["a", "b", "c"].join(&separator), lines.join(end));
            // A row of empty cells is not a blank line, since it has separators.
            let wanted: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(|c| c.trim_matches('"')).collect()).collect();
            let table = user(&text).unwrap();
            prop_assert_eq!(cells(&table), wanted, "{:?}", text);
            prop_assert_eq!(user(table.to_csv()).unwrap(), table);
            Ok(())
        });
        seen.unwrap();
    }

    #[test]
    fn csv_is_read_back() {
        let rows = prop::collection::vec(prop::collection::vec("[a\",;\\n\\r é]{0,4}", 3), 1..8);
        let seen = runner().run(&rows, |rows| {
            let mut table = Table::new(["a", "b", "c"]);
            rows.iter().for_each(|row| table.push(row.iter().map(String::as_str)));
            prop_assert_eq!(from(&table.to_csv(), &COMMA).unwrap(), table);
            Ok(())
        });
        seen.unwrap();
    }

    #[test]
    fn no_text_makes_it_panic() {
        let seen = runner().run(&"[ab\",;\\r\\n é]{0,40}", |text| {
            let _ = user(&text);
            // A text that is accepted gives the same cells as the csv crate.
            if let Ok(table) = from(&text, &COMMA) {
                let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
                let theirs: Vec<Vec<String>> =
                    reader.records().filter_map(|r| r.ok()).map(|r| r.iter().map(String::from).collect()).collect();
                if !text.contains(['"', ' ']) {
                    prop_assert_eq!(cells(&table), theirs);
                }
            }
            Ok(())
        });
        seen.unwrap();
    }
}
