//! UCI Covertype as published: lines of comma-separated integers, 54 attributes and the cover type. The task is LIBSVM's
//! two-class one, cover type 2 against the rest.

use std::io::Read;

use thalweg::math::Matrix;

use super::libsvm::Rows;
use super::source::{Source, show};
use crate::Result;

/// Number of attributes.
pub const COLUMNS: usize = 54;

/// Reads a source to its end; zeros are not stored.
pub fn parse<R: Read>(mut source: Source<R>) -> Result<Rows> {
    let (mut ptr, mut ids, mut values, mut labels) = (vec![0], vec![], vec![], vec![]);
    let mut line = vec![];
    while source.next_line(&mut line)? {
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let mut count = 0;
        for cell in text.split(|b| *b == b',') {
            let Some(value) = std::str::from_utf8(cell).ok().and_then(|c| c.trim().parse::<i32>().ok()) else {
                return Err(source.bad(format!("{} in place {}; expected an integer", show(cell), count + 1)));
            };
            if count < COLUMNS && value != 0 {
                ids.push(count as u32);
                values.push(f64::from(value));
            } else if count == COLUMNS {
                if !(1..=7).contains(&value) {
                    return Err(source.bad(format!("cover type {value}; expected 1 to 7")));
                }
                labels.push(if value == 2 { 1 } else { -1 });
            }
            count += 1;
        }
        if count != COLUMNS + 1 {
            return Err(source.bad(format!("has {count} numbers; expected {}", COLUMNS + 1)));
        }
        ptr.push(ids.len());
    }
    if labels.is_empty() {
        return Err(source.bad("the file has no rows"));
    }
    let features = Matrix::sparse(COLUMNS, ptr, ids, values)?;
    let (classes, hashes) = ((1.0, -1.0), source.finish()?);
    Ok(Rows { features, labels, classes, hashes, present: COLUMNS, stand_in: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Result<Rows> {
        parse(Source::new("c.data", text.as_bytes())?)
    }

    fn line(last: &str) -> String {
        format!("7,-3,{}{last}\r\n", "0,".repeat(52))
    }

    #[test]
    fn rows_and_labels() {
        let rows = from(&(line("2") + &line("1") + "\n")).unwrap();
        assert_eq!(rows.labels, [1, -1]);
        assert_eq!(rows.features.stored(), 4);
        let mut first = vec![];
        rows.features.visit_row(0, |c, v| first.push((c, v)));
        assert_eq!(first, [(0, 7.0), (1, -3.0)]);
    }

    #[test]
    fn errors_have_the_line() {
        let error = |text: String| from(&text).unwrap_err().to_string();
        assert_eq!(error(line("2") + &line("8")), "c.data, line 2: cover type 8; expected 1 to 7");
        assert_eq!(error(line("x")), "c.data, line 1: x in place 55; expected an integer");
        assert_eq!(error("1,2\n".into()), "c.data, line 1: has 2 numbers; expected 55");
        assert_eq!(error(line("2,1")), "c.data, line 1: has 56 numbers; expected 55");
        assert_eq!(error(String::new()), "c.data, line 1: the file has no rows");
    }
}
