//! Classification of text cells (missing, number, date, text), and the values of a column with their counts. The neighbouring
//! modules decide how columns are encoded.

use std::collections::HashMap;

use crate::data::source::show;
use crate::data::table::Table;

/// Cells that count as missing, compared exactly and without surrounding white space.
pub const MISSING: [&str; 10] = ["", "?", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None"];

/// Name of the group or feature of missing cells.
pub(super) const MISSING_NAME: &str = "missing";
/// Name of the group or feature of all other values.
pub(super) const OTHER_NAME: &str = "other";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    Missing,
    Number(f64),
    /// An infinity, a number too large for one, or another spelling of NaN than the missing ones.
    NotFinite,
    Text,
}

/// Returns whether a cell counts as missing.
pub fn is_missing(text: &str) -> bool {
    MISSING.contains(&text.trim())
}

pub(super) fn cell(text: &str) -> Cell {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() => Cell::Number(v),
        _ if MISSING.contains(&text) => Cell::Missing,
        Ok(_) => Cell::NotFinite,
        Err(_) => Cell::Text,
    }
}

pub(super) fn number(text: &str) -> Option<f64> {
    match cell(text) {
        Cell::Number(v) => Some(v),
        _ => None,
    }
}

/// Returns whether two cells have the same value: the same text or the same number, such as `1` and `1.0`.
pub(super) fn same(a: &str, b: &str) -> bool {
    a == b || number(a).is_some_and(|v| number(b) == Some(v))
}

/// Returns whether a cell is a date such as 2024-05-01, 2024/05/01, 01.05.2024 or 05/01/2024, with or without a time after it.
pub(super) fn is_date(text: &str) -> bool {
    let text = text.trim();
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, time.trim()),
        None => (text, ""),
    };
    let parts = |mark| -> Option<[&str; 3]> { date.split(mark).collect::<Vec<_>>().try_into().ok() };
    let digits =
        |part: &str, least: usize, most: usize| (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let upto = |part: &str, most: u32| digits(part, 1, 2) && part.parse().is_ok_and(|v: u32| (1..=most).contains(&v));
    let day = |month: &str, day: &str| upto(month, 12) && upto(day, 31);
    let is_day = match (parts('-').or_else(|| parts('/')), parts('.')) {
        // Dates with slashes come in two orders.
        (Some([a, b, c]), _) if digits(a, 4, 4) => day(b, c),
        (Some([a, b, c]), _) => digits(c, 4, 4) && (day(a, b) || day(b, a)),
        (None, Some([a, b, c])) => digits(c, 4, 4) && day(b, a),
        _ => false,
    };
    let clock = |time: &str| {
        let (hours, rest) = time.split_once(':').unwrap_or(("", ""));
        digits(hours, 1, 2) && rest.len() >= 2 && rest.chars().all(|c| c.is_ascii_digit() || ":.,+-ZzAaPpMm ".contains(c))
    };
    is_day && (time.is_empty() || clock(time))
}

/// Returns whether a cell would be a number with its comma replaced by a point.
pub(super) fn has_comma(text: &str) -> bool {
    text.matches(',').count() == 1 && number(&text.replace(',', ".")).is_some()
}

/// Values of a column.
pub(super) struct Values<'a> {
    /// Numbers in increasing order, then text in byte order.
    pub list: Vec<Value<'a>>,
    /// Number of missing cells and the row of the first.
    pub missing: Option<(usize, usize)>,
    /// Whether all values are numbers.
    pub numbers: bool,
}

/// Value of a column; different spellings of one number are one value.
pub(super) struct Value<'a> {
    /// Text of the first row that has it.
    pub text: &'a str,
    /// Number of rows that have it.
    pub rows: usize,
    first: usize,
}

/// Lists the values of column `j`.
pub(super) fn values(table: &Table, j: usize) -> Values<'_> {
    let mut found: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut missing: Option<(usize, usize)> = None;
    for i in 0..table.rows() {
        let text = table.cell(i, j);
        if is_missing(text) {
            missing.get_or_insert((0, i)).0 += 1;
        } else {
            found.entry(text).or_insert((0, i)).0 += 1;
        }
    }
    // Text is sorted after all numbers; 0 and -0 are adjacent.
    let mut order: Vec<(Option<f64>, Value)> =
        found.into_iter().map(|(text, (rows, first))| (number(text), Value { text, rows, first })).collect();
    let key = |v: Option<f64>| v.unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| key(a.0).total_cmp(&key(b.0)).then(a.1.text.cmp(b.1.text)));
    let numbers = order.iter().all(|(v, _)| v.is_some());
    order.dedup_by(|(next, value), (last, kept)| {
        let same = next.is_some() && next == last;
        if same {
            kept.rows += value.rows;
            if value.first < kept.first {
                (kept.text, kept.first) = (value.text, value.first);
            }
        }
        same
    });
    Values { list: order.into_iter().map(|(_, v)| v).collect(), missing, numbers }
}

/// Finds the index in `known` of each cell of column `j`, compared by [`same`]; missing cells are looked up as `missing`. `Err`
/// has the first row whose cell is not in the list.
pub(super) fn look_up(table: &Table, j: usize, known: &[String], missing: Option<&str>) -> Result<Vec<u32>, usize> {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    let find = |i: usize| {
        let cell = table.cell(i, j);
        if let Some(&k) = seen.get(cell) {
            return Ok(k);
        }
        let text = if is_missing(cell) { missing.ok_or(i)? } else { cell };
        let k = known.iter().position(|v| same(v, text)).ok_or(i)? as u32;
        seen.insert(cell, k);
        Ok(k)
    };
    (0..table.rows()).map(find).collect()
}

/// Quotes a name or cell for a message.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", show(text.as_bytes()))
}

/// Explains in an error message why a cell is not a number.
pub(super) fn no_number(kind: Cell) -> &'static str {
    if kind == Cell::NotFinite { "is not a finite number" } else { "is not a number" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_cells() {
        for text in MISSING {
            assert_eq!(cell(text), Cell::Missing, "{text}");
        }
        assert_eq!(cell(" NA "), Cell::Missing);
        for (text, value) in [("1", 1.0), (" -2.5e3", -2500.0), ("+.5", 0.5), ("0", 0.0)] {
            assert_eq!(cell(text), Cell::Number(value), "{text}");
        }
        for text in ["inf", "-Infinity", "1e999", "NAN"] {
            assert_eq!(cell(text), Cell::NotFinite, "{text}");
        }
        for text in ["na", "none", "12,5", "0x10", "1 000", "1_000", "a"] {
            assert_eq!(cell(text), Cell::Text, "{text}");
        }
        assert!(same("1", "1.0") && same("a", "a") && !same("a", "A") && !same("1", "2") && !same("NA", "nan"));
        assert!(has_comma("12,5") && has_comma("1,234") && !has_comma("1,2,3") && !has_comma("a,b") && !has_comma("12.5"));
    }

    #[test]
    fn dates() {
        for text in [
            "2024-05-01",
            "2024/5/1",
            "01.05.2024",
            "05/01/2024",
            "31/12/2024",
            "2024-05-01T12:30:00Z",
            "2024-05-01 06:03",
            "2013-08-13 06:03:42.123+02:00",
            "5/1/2024 6:03 PM",
        ] {
            assert!(is_date(text), "{text}");
        }
        for text in
            ["2024", "2024-13-01", "2024-05-32", "1.2.3", "10.0.0.2024", "a-b-c", "2024-05-01 noon", "12:30", "555-12-1234"]
        {
            assert!(!is_date(text), "{text}");
        }
    }

    #[test]
    fn spellings_of_a_number_are_one_value() {
        let mut table = Table::new(["a", "b"]);
        for row in [["10", "x"], ["2.0", "NA"], ["2", ""], ["-0", "10"], ["0", "2"]] {
            table.push(row);
        }
        let found = values(&table, 0);
        assert!(found.numbers && found.missing.is_none());
        assert_eq!(found.list.iter().map(|v| (v.text, v.rows)).collect::<Vec<_>>(), [("-0", 2), ("2.0", 2), ("10", 1)]);
        let found = values(&table, 1);
        assert!(!found.numbers);
        assert_eq!(found.missing, Some((2, 1)));
        assert_eq!(found.list.iter().map(|v| v.text).collect::<Vec<_>>(), ["2", "10", "x"]);
        let known = ["2".to_string(), "0".into(), "10".into()];
        assert_eq!(look_up(&table, 0, &known, None), Ok(vec![2, 0, 0, 1, 1]));
        assert_eq!(look_up(&table, 0, &known[..2], None), Err(0));
        assert_eq!(look_up(&table, 1, &["x".to_string()], None), Err(1));
    }
}
