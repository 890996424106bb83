//! `table`, `convert` and `generate`: write files from known sets, from LIBSVM files and from made-up rows.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::console::Bar;
use crate::data::cache;
use crate::data::catalogue::{self, Options};
use crate::data::shaped_like::ShapedLike;
use crate::data::table::CellFormat;
use crate::output::{align, check_output, is_standard_output, json, write_whole};
use crate::{Error, Result};

/// Writes a raw table to a file, or to standard output. Returns the message to print.
pub(super) fn table(name: &str, out: &Path, data_dir: Option<PathBuf>, cells: CellFormat) -> Result<String> {
    let table = catalogue::table(name, &Options { data_dir, ..Options::default() })?.table;
    write_whole(out, &table.to_csv_with(cells))?;
    if is_standard_output(out) {
        return Ok(String::new());
    }
    Ok(format!("{}: {} rows, {} columns\n", out.display(), table.rows(), table.columns()))
}

/// Output of `convert --json`.
#[derive(Serialize)]
struct Conversion {
    rows: usize,
    columns: usize,
    stored: usize,
    form: &'static str,
    stand_in: Option<String>,
    bytes: u64,
}

pub(super) fn convert(file: &Path, out: &Path, as_json: bool) -> Result<String> {
    if out.extension().is_none_or(|e| e != cache::EXTENSION) {
        return Err(Error::file(out, format!("expected a file called .{}", cache::EXTENSION)));
    }
    check_output("the binary form", out, &[("the file that is read", file)])?;
    let (rows, bytes) = cache::convert(file, out)?;
    let features = &rows.features;
    let (columns, stored, form) = (features.cols(), features.stored(), features.form());
    let made = Conversion { rows: features.rows(), columns, stored, form, stand_in: rows.stand_in, bytes };
    if as_json {
        return json(&made);
    }
    let about = catalogue::called(&out.display().to_string(), made.stand_in.as_deref());
    Ok(format!("{about}: {} rows, {columns} columns, {stored} non-zeros, {form}, {bytes} bytes\n", made.rows))
}

pub(super) fn make(shape: &ShapedLike, out: &Path, quiet: bool, as_json: bool) -> Result<String> {
    shape.check()?;
    let bar = Bar::new(!quiet);
    let made = shape.write(out, &mut |share| bar.share(share))?;
    bar.finish();
    if as_json {
        return json(&made);
    }
    let (rows, each) = (made.rows, made.stored as f64 / made.rows as f64);
    let ratio = made.positive as f64 / (rows - made.positive).max(1) as f64;
    let lines = [
        ["file", &catalogue::called(&out.display().to_string(), Some(&made.stand_in))],
        ["rows", &rows.to_string()],
        ["columns", &made.columns.to_string()],
        ["non-zeros", &format!("{}, {each:.1} in a row", made.stored)],
        ["classes", &format!("{} positive, {ratio:.4} for each negative one", made.positive)],
        ["bytes", &made.bytes.to_string()],
    ];
    Ok(align(&lines.map(|line| line.map(String::from)), &[]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, text};
    use super::*;

    #[test]
    fn a_raw_table_is_written_as_csv() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("german.csv");
        let said = ask(&["table", "german", "--out", text(&file)]).unwrap();
        assert_eq!(said, format!("{}: 1000 rows, 21 columns\n", file.display()));
        let again = crate::data::table::Table::read(&file).unwrap();
        let given = catalogue::table("german", &Options::default()).unwrap().table;
        assert_eq!(again.names(), given.names());
        assert!((0..1_000).all(|i| again.row(i).eq(given.row(i))));
        let refused = ask(&["table", "a9a"]).unwrap_err().to_string();
        assert!(refused.starts_with("a9a is not a raw table: raw tables are adult, "), "{refused}");
    }
}
