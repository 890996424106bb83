//! The LIBSVM format: one row per line, a label and then `column:value` pairs with columns counted from 1. Only two-class files
//! are accepted; rows of ones are stored without values.

use std::io::Read;
use std::path::Path;

use thalweg::math::{Matrix, Offsets};

use super::source::{Hashes, Source, show};
use crate::{Error, Result};

/// Maximum number of different labels to list before a file is rejected.
const LISTED: usize = 10;

/// Start of a comment that marks the rows as made up and names the set they are shaped like.
pub const STAND_IN: &str = "# thalweg stand-in: ";

/// Content of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// One row per line; explicit zeros are not stored.
    pub features: Matrix,
    /// +1 for the larger of the two labels of the file, -1 for the smaller.
    pub labels: Vec<i8>,
    /// Labels of the file that correspond to +1 and -1.
    pub classes: (f64, f64),
    /// Hashes of the file.
    pub hashes: Hashes,
    /// Largest column present, counted from 1, even if its value was 0.
    pub present: usize,
    /// Data set that the rows are shaped like, if the file is marked as a stand-in.
    pub stand_in: Option<String>,
}

impl Rows {
    /// Returns the labels as floats.
    pub fn signs(&self) -> Vec<f64> {
        self.labels.iter().map(|&y| f64::from(y)).collect()
    }
}

/// Reads a file, plain or gzip. `columns` is the number of columns, `None` for the largest one that is present.
pub fn read(path: &Path, columns: Option<usize>) -> Result<Rows> {
    parse(Source::open(path)?, columns)
}

/// Reads the features of a file whose labels do not matter; any number is accepted as a label.
pub fn read_features(path: &Path, columns: usize) -> Result<Matrix> {
    let mut source = Source::open(path)?;
    read_rows(&mut source, Some(columns), |_, _| Ok(()))?.matrix(columns)
}

/// Parses any source, as [`read`] does a file.
pub fn parse<R: Read>(mut source: Source<R>, columns: Option<usize>) -> Result<Rows> {
    let mut labels = Labels { of_row: vec![], distinct: vec![] };
    let rows = read_rows(&mut source, columns, |label, line| labels.push(label, line))?;
    let (labels, classes) = labels.signs(|line, what| source.bad_at(line, what))?;
    let columns = match columns {
        Some(c) => c,
        None if rows.largest == 0 => return Err(source.bad("no row has a feature, so the number of columns must be stated")),
        None => rows.largest as usize,
    };
    let (present, stand_in) = (rows.largest as usize, rows.stand_in.clone());
    Ok(Rows { features: rows.matrix(columns)?, labels, classes, hashes: source.finish()?, present, stand_in })
}

/// Reads a source to its end. `labelled` is called with the label of each row and its line, and may reject it.
fn read_rows<R: Read>(
    source: &mut Source<R>,
    columns: Option<usize>,
    mut labelled: impl FnMut(f64, usize) -> Result<(), String>,
) -> Result<RowBuilder> {
    // Column ids are stored as u32, counted from 0.
    let most = columns.map_or(u64::from(u32::MAX), |c| (c as u64).min(u64::from(u32::MAX)));
    let mut rows = RowBuilder { ptr: Offsets::new(), ids: vec![], values: None, largest: 0, stand_in: None };
    let mut line = vec![];
    while source.next_line(&mut line)? {
        let text = match memchr::memchr(b'#', &line) {
            None => line.as_slice(),
            Some(at) => {
                rows.stand_in = stand_in(&line[at..]).or(rows.stand_in.take());
                &line[..at]
            }
        };
        let (token, rest) = next_token(text);
        if token.is_empty() {
            continue;
        }
        let Some(label) = number(token).filter(|y| y.is_finite()) else {
            return Err(source.bad(format!("label {}; expected a finite number", show(token))));
        };
        labelled(label, source.line()).map_err(|what| source.bad(what))?;
        rows.push(rest, most).map_err(|what| source.bad(what))?;
    }
    if rows.ptr.count() == 1 {
        return Err(source.bad("the file has no rows"));
    }
    Ok(rows)
}

/// Returns the set that a comment names as the one the rows are shaped like.
pub(super) fn stand_in(comment: &[u8]) -> Option<String> {
    comment.strip_prefix(STAND_IN.as_bytes()).map(|name| show(name.trim_ascii()))
}

/// Compressed rows under construction.
struct RowBuilder {
    ptr: Offsets,
    ids: Vec<u32>,
    /// `None` as long as every stored value is 1.
    values: Option<Vec<f64>>,
    /// Largest column so far, counted from 1, even if its value was 0.
    largest: u32,
    /// As in [`Rows::stand_in`].
    stand_in: Option<String>,
}

/// Size in bytes above which a list no longer doubles when it is full, since half of it might stay empty.
const DOUBLES: usize = 64 << 20;

/// Reserves room for `more` entries. Above [`DOUBLES`] a list grows by an eighth, which remaps pages of memory instead of
/// copying.
#[inline]
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more && list.len() * size_of::<T>() > DOUBLES {
        list.reserve_exact(more.max(list.len() / 8));
    }
}

impl RowBuilder {
    fn matrix(self, columns: usize) -> Result<Matrix> {
        Ok(match self.values {
            None => Matrix::ones(columns, self.ptr, self.ids)?,
            Some(values) => Matrix::sparse(columns, self.ptr, self.ids, values)?,
        })
    }

    /// Appends the pairs of a row.
    fn push(&mut self, mut text: &[u8], most: u64) -> Result<(), String> {
        let mut last = 0;
        // The shortest pair, such as 1:1, takes four bytes with the space before it.
        let more = text.len() / 4 + 1;
        make_room(&mut self.ids, more);
        self.values.iter_mut().for_each(|values| make_room(values, more));
        while let Some((column, value, token, rest)) = next_pair(text)? {
            text = rest;
            if column == 0 {
                return Err(format!("{} has column 0: columns are counted from 1", show(token)));
            }
            if column > most {
                return Err(format!("{} has column {column}; expected at most {most}", show(token)));
            }
            // `most` is at most u32::MAX.
            let column = column as u32;
            if column <= last {
                return Err(format!("column {column} comes after column {last}: the columns of a row must increase"));
            }
            if !value.is_finite() {
                return Err(format!("{} has the value {value}; expected a finite number", show(token)));
            }
            last = column;
            if value == 0.0 {
                continue;
            }
            match &mut self.values {
                Some(values) => values.push(value),
                None if value == 1.0 => (),
                None => {
                    let mut values = vec![1.0; self.ids.len()];
                    values.push(value);
                    self.values = Some(values);
                }
            }
            self.ids.push(column - 1);
        }
        self.largest = self.largest.max(last);
        self.ptr.push(self.ids.len());
        Ok(())
    }
}

/// Distinct labels with the line of their first occurrence, and the label of each row.
struct Labels {
    /// One byte per row: at most [`LISTED`] labels are distinguished.
    of_row: Vec<u8>,
    distinct: Vec<(f64, usize)>,
}

impl Labels {
    fn push(&mut self, label: f64, line: usize) -> Result<(), String> {
        let known = self.distinct.iter().position(|(y, _)| *y == label);
        if known.is_none() {
            self.distinct.push((label, line));
            if self.distinct.len() > LISTED {
                return Err(self.too_many());
            }
        }
        self.of_row.push(known.unwrap_or(self.distinct.len() - 1) as u8);
        Ok(())
    }

    fn too_many(&self) -> String {
        let more = if self.distinct.len() > LISTED { ", …" } else { "" };
        let list: Vec<String> = self.distinct.iter().take(LISTED).map(|(y, _)| y.to_string()).collect();
        format!("there are more than two different labels ({}{more}); expected two", list.join(", "))
    }

    /// Maps the larger label to +1 and the smaller to -1, and returns both.
    fn signs(self, bad: impl Fn(usize, String) -> Error) -> Result<(Vec<i8>, (f64, f64))> {
        let (large, small) = match *self.distinct.as_slice() {
            [(y, line)] => {
                return Err(bad(line, format!("all rows have the same label {y}; expected two different labels")));
            }
            [(a, _), (b, _)] => (a.max(b), a.min(b)),
            [_, _, (_, line), ..] => return Err(bad(line, self.too_many())),
            [] => (1.0, -1.0),
        };
        let sign = |code: u8| if self.distinct[usize::from(code)].0 == large { 1 } else { -1 };
        Ok((self.of_row.into_iter().map(sign).collect(), (large, small)))
    }
}

/// Returns the next token without white space, and the rest.
#[inline]
fn next_token(text: &[u8]) -> (&[u8], &[u8]) {
    let start = text.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(text.len());
    let text = &text[start..];
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    text.split_at(end)
}

/// Pair, its text, and the rest.
type Pair<'a> = (u64, f64, &'a [u8], &'a [u8]);

/// Returns the next pair of a row, column and value; `None` at the end of the row.
#[inline(always)]
fn next_pair(text: &[u8]) -> Result<Option<Pair<'_>>, String> {
    let start = match text {
        [b' ', b, ..] if !b.is_ascii_whitespace() => 1,
        _ => match text.iter().position(|b| !b.is_ascii_whitespace()) {
            None => return Ok(None),
            Some(start) => start,
        },
    };
    let text = &text[start..];
    let (column, at) = short_digits(text).unwrap_or_else(|| digits(text, 0));
    // Up to 19 digits cannot overflow; longer numbers and unusual input take the slow path.
    if at > 0 && at < 20 && text.get(at) == Some(&b':') {
        if let [b':', b'1', b' ' | b'\n', ..] = text[at..] {
            let (token, rest) = text.split_at(at + 2);
            return Ok(Some((column, 1.0, token, rest)));
        }
        if let Some((value, end)) = decimal(text, at + 1).filter(|(_, end)| text.get(*end).is_none_or(u8::is_ascii_whitespace)) {
            let (token, rest) = text.split_at(end);
            return Ok(Some((column, value, token, rest)));
        }
    }
    let (token, rest) = next_token(text);
    pair(token).map(|(column, value)| Some((column, value, token, rest)))
}

/// Parses column and value of `column:value`.
#[cold]
fn pair(token: &[u8]) -> Result<(u64, f64), String> {
    let at = token.iter().position(|b| !b.is_ascii_digit()).unwrap_or(token.len());
    // Saturates, since wrapping could give a valid column.
    let column = token[..at].iter().fold(0_u64, |c, b| c.saturating_mul(10).saturating_add(u64::from(b - b'0')));
    match &token[at..] {
        [b':', value @ ..] if at > 0 => number(value).map(|value| (column, value)),
        _ => None,
    }
    .ok_or_else(|| format!("{}; expected column:value, such as 12:0.5", show(token)))
}

fn number(text: &[u8]) -> Option<f64> {
    match decimal(text, 0) {
        Some((value, end)) if end == text.len() => Some(value),
        _ => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Parses the digits from `at` on, wrapping after 19 of them, and returns the number and where they end.
#[inline(always)]
fn digits(text: &[u8], mut at: usize) -> (u64, usize) {
    let mut number = 0_u64;
    while let Some(digit) = text.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (number, at)
}

/// Parses the digits at the start of a text like [`digits`], but without a branch per digit: their number varies, so that the
/// processor would mispredict the end of most columns. `None` if the text is too short or has eight or more digits.
#[inline(always)]
fn short_digits(text: &[u8]) -> Option<(u64, usize)> {
    let bytes = u64::from_le_bytes(*text.first_chunk()?) ^ 0x3030_3030_3030_3030;
    // The high bit is set for bytes other than 0 to 9. A carry only affects bytes after the first of them.
    let others = (bytes.wrapping_add(0x7676_7676_7676_7676) | bytes) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() / 8;
    if count == 0 || count == 8 {
        return (count == 0).then_some((0, 0));
    }
    // Pad with leading zeros, then combine neighbours into pairs, fours and eight.
    let pairs = bytes << (64 - 8 * count);
    let pairs = pairs.wrapping_mul(10).wrapping_add(pairs >> 8);
    const ODD: u64 = 0x0000_00FF_0000_00FF;
    let first = (pairs & ODD).wrapping_mul(0x000F_4240_0000_0064);
    let last = (pairs >> 16 & ODD).wrapping_mul(0x0000_2710_0000_0001);
    Some((first.wrapping_add(last) >> 32, count as usize))
}

/// Parses the decimal number at `at` and returns where it ends; `None` if the fast path does not apply or there is no number.
/// Both the digits and the power of ten are exact, so the one product or quotient is rounded once and the result equals that of
/// `str::parse` bit for bit.
#[inline(always)]
fn decimal(text: &[u8], mut at: usize) -> Option<(f64, usize)> {
    const POWERS: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
        1e22,
    ];
    let negative = text.get(at) == Some(&b'-');
    at += usize::from(matches!(text.get(at), Some(b'-' | b'+')));
    let start = at;
    let (mut mantissa, whole) = digits(text, at);
    at = whole;
    let (mut count, mut power) = (at - start, 0_i64);
    if text.get(at) == Some(&b'.') {
        at += 1;
        while let Some(digit) = text.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        power = -((at - whole - 1) as i64);
        count += at - whole - 1;
    }
    if count == 0 || count > 19 || mantissa >= 1 << 53 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = text.get(at + 1);
        let first = at + 1 + usize::from(matches!(sign, Some(b'-' | b'+')));
        let (exponent, end) = digits(text, first);
        if end == first || end - first > 4 {
            return None;
        }
        power += if sign == Some(&b'-') { -(exponent as i64) } else { exponent as i64 };
        at = end;
    }
    let ten = *POWERS.get(power.unsigned_abs() as usize)?;
    let size = if power < 0 { mantissa as f64 / ten } else { mantissa as f64 * ten };
    Some((if negative { -size } else { size }, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use std::io::Write;

    fn from(text: &str, columns: Option<usize>) -> Result<Rows> {
        parse(Source::new("rows.svm", text.as_bytes())?, columns)
    }

    fn entries(rows: &Rows) -> Vec<Vec<(usize, f64)>> {
        (0..rows.features.rows())
            .map(|i| {
                let mut row = vec![];
                rows.features.visit_row(i, |c, v| row.push((c, v)));
                row
            })
            .collect()
    }

    #[test]
    fn odd_but_lawful_lines_are_read() {
        let text = "+1 1:1 3:7.168048E-05 \r\n# a comment\n-1\t2:-2e1 # 9:9\n\n  -1  \n+1 4:0 5:0.0\n\n";
        let rows = from(text, None).unwrap();
        assert_eq!(rows.labels, [1, -1, -1, 1]);
        assert_eq!(entries(&rows), [vec![(0, 1.0), (2, 7.168048e-5)], vec![(1, -20.0)], vec![], vec![]]);
        assert_eq!(rows.features.cols(), 5, "a zero that is written out still counts for the number of columns");
        assert_eq!(rows.features.form(), "sparse");
        assert_eq!(from(text, Some(9)).unwrap().features.cols(), 9);
    }

    #[test]
    fn a_comment_can_say_that_the_rows_are_a_stand_in() {
        assert_eq!(from("# thalweg stand-in: URL\n1 1:1\n-1 2:1\n", None).unwrap().stand_in.as_deref(), Some("URL"));
        assert_eq!(from("# made by hand\n1 1:1\n-1 2:1\n", None).unwrap().stand_in, None);
    }

    #[test]
    fn ones_take_the_compact_form_and_zeros_are_dropped() {
        let rows = from("1 1:1 2:0 4:1.0\n-1 3:1\n", None).unwrap();
        assert_eq!(rows.features.form(), "sparse ones, one-byte columns");
        assert_eq!(rows.features.stored(), 3);
    }

    #[test]
    fn two_labels_become_signs() {
        let labels = |text: &str| from(text, Some(1)).unwrap().labels;
        assert_eq!(labels("0\n1\n0\n"), [-1, 1, -1]);
        assert_eq!(labels("1\n2\n"), [-1, 1]);
        assert_eq!(labels("+1\n-1"), [1, -1]);
        assert_eq!(labels("-3.5\n-7\n"), [1, -1]);
        let refused = |text: &str| from(text, Some(1)).unwrap_err().to_string();
        assert_eq!(
            refused("# one label\n1\n+1\n1.0\n"),
            "rows.svm, line 2: all rows have the same label 1; expected two different labels"
        );
        assert_eq!(refused("-1\n"), "rows.svm, line 1: all rows have the same label -1; expected two different labels");
    }

    #[test]
    fn every_error_names_file_and_line() {
        for (text, line, part) in [
            ("1 12:abc\n", 1, "12:abc; expected column:value"),
            ("1 1:1\n-1 12\n", 2, "12; expected column:value"),
            ("1 x:1\n", 1, "x:1; expected column:value"),
            ("1 :1\n", 1, ":1; expected column:value"),
            ("1 3:\n", 1, "3:; expected column:value"),
            ("1 -3:1\n", 1, "-3:1; expected column:value"),
            ("1 3:1:1\n", 1, "3:1:1; expected column:value"),
            ("1 qid:4 1:1\n", 1, "qid:4; expected column:value"),
            ("1 1:1\n\n1 2:nan\n", 3, "2:nan has the value NaN; expected a finite number"),
            ("1 2:inf\n", 1, "2:inf has the value inf"),
            ("1 2:-1e999\n", 1, "2:-1e999 has the value -inf"),
            ("1 0:1\n", 1, "columns are counted from 1"),
            ("1 4:1 3:1\n", 1, "column 3 comes after column 4"),
            ("1 4:0 4:1\n", 1, "column 4 comes after column 4"),
            ("1 1:1\n-1 6:1\n", 2, "6:1 has column 6; expected at most 5"),
            ("1 6:0\n", 1, "6:0 has column 6; expected at most 5"),
            ("1 99999999999999999999:1\n", 1, "expected at most 5"),
            ("one 1:1\n", 1, "label one; expected a finite number"),
            ("1:1 2:1\n", 1, "label 1:1; expected a finite number"),
            ("nan 1:1\n", 1, "label nan; expected a finite number"),
            ("1,2 1:1\n", 1, "label 1,2; expected a finite number"),
            ("", 1, "the file has no rows"),
            ("# nothing\n\n", 3, "the file has no rows"),
            ("1\n2\n1\n3\n0.5\n", 4, "more than two different labels (1, 2, 3, 0.5); expected two"),
            ("2 1:1\n2 1:1\n", 1, "all rows have the same label 2"),
        ] {
            let error = from(text, Some(5)).unwrap_err();
            assert!(matches!(&error, Error::Line { file, line: l, .. } if file == "rows.svm" && *l == line), "{text:?}: {error}");
            assert!(error.to_string().contains(part), "{text:?}: {error}");
        }
        let many: String = (0..20).map(|y| format!("{y} 1:1\n")).collect();
        let error = from(&many, None).unwrap_err().to_string();
        assert!(error.contains("line 11: ") && error.contains("(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …)"), "{error}");
        let error = from("1\n-1\n", None).unwrap_err().to_string();
        assert!(error.contains("the number of columns must be stated"), "{error}");
        let error = from("1 4294967296:1\n", None).unwrap_err().to_string();
        assert!(error.contains("expected at most 4294967295"), "{error}");
    }

    #[test]
    fn a_zipped_file_is_known_by_its_bytes() {
        let mut zip = GzEncoder::new(tempfile::NamedTempFile::new().unwrap(), Compression::fast());
        zip.write_all(b"1 1:1\n-1 2:1\n").unwrap();
        let file = zip.finish().unwrap();
        let rows = read(file.path(), None).unwrap();
        assert_eq!(rows.labels, [1, -1]);
        assert!(rows.hashes.gzip);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn written_rows_are_read_back(
            ones in any::<bool>(),
            plain in prop::collection::vec((any::<bool>(), prop::collection::btree_map(0_u32..300, -1e3_f64..1e3, 0..12)), 1..30),
        ) {
            // Both labels occur, whatever is drawn.
            let mut text = String::from("+1\n-1\n");
            let (mut ptr, mut ids, mut values, mut labels) = (vec![0, 0, 0], vec![], vec![], vec![1, -1]);
            for (label, row) in &plain {
                text += if *label { "+1" } else { "-1" };
                labels.push(if *label { 1 } else { -1 });
                for (&c, &v) in row.iter().filter(|(_, v)| **v != 0.0) {
                    let v = if ones { 1.0 } else { v };
                    text += &format!(" {}:{v}", c + 1);
                    ids.push(c);
                    values.push(v);
                }
                text.push('\n');
                ptr.push(ids.len());
            }
            let rows = from(&text, Some(300)).unwrap();
            prop_assert_eq!(&rows.features, &Matrix::sparse(300, ptr, ids, values).unwrap());
            prop_assert_eq!(&rows.labels, &labels);
        }

        #[test]
        fn short_digits_are_digits(text in "[0-9]{0,9}[: .a-z0-9\u{ff}]{0,9}", bytes in prop::collection::vec(any::<u8>(), 8)) {
            for text in [text.as_bytes(), &bytes] {
                let naive = digits(text, 0);
                prop_assert_eq!(short_digits(text), (text.len() >= 8 && naive.1 < 8).then_some(naive));
            }
        }

        #[test]
        fn short_decimals_have_the_bits_of_parse(text in "[-+]?[0-9]{0,9}(\\.[0-9]{0,14})?([eE][-+]?[0-9]{0,3})?") {
            let parsed: Option<f64> = text.parse().ok();
            prop_assert_eq!(number(text.as_bytes()).map(f64::to_bits), parsed.map(f64::to_bits), "{}", text);
        }

        #[test]
        fn numbers_as_printed_have_the_bits_of_parse(value in any::<f64>(), short in any::<f32>()) {
            for text in [format!("{value}"), format!("{value:e}"), format!("{short}"), format!("{short:e}")] {
                let parsed: Option<f64> = text.parse().ok();
                prop_assert_eq!(number(text.as_bytes()).map(f64::to_bits), parsed.map(f64::to_bits), "{}", text);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(Source::new("noise", bytes.as_slice()).unwrap(), None);
        }

        #[test]
        fn no_text_like_a_row_makes_it_panic(text in "[-+0-9:. #e\\n]{0,80}") {
            let _ = from(&text, None);
        }
    }
}
