//! The data sets that are available by name: where their files are searched for, and how they become rows, labels and groups.
//! The sets are described in [`super::sets`]; the formats are in the neighbouring modules.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg::learn::{Data, Groups};
use thalweg::{Note, Quantity};

use super::libsvm::Rows;
use super::prepared::{PreparedRows, Recipe};
use super::sets::{Form, GERMAN, GERMAN_LAYOUT, Reading};
pub use super::sets::{SETS, Set, SetFile};
use super::shaped_like::ShapedLike;
use super::source::{Hashes, Source, sha256};
use super::table::Table;
use super::{adult, cache, covtype, limits};
use crate::console::Bar;
use crate::{Error, Result};

/// Environment variable for a directory with data files.
pub const VARIABLE: &str = "THALWEG_DATA";

/// Options for finding and generating data sets.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Directory given by the user, searched before all others.
    pub data_dir: Option<PathBuf>,
    /// Whether to show progress while data are generated.
    pub progress: bool,
}

/// Location of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Embedded in the binary.
    Embedded,
    /// In this file.
    File(PathBuf),
    /// In none of the directories.
    Missing,
}

/// Result of comparing a file with the sha256 in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The hashes are equal.
    Match,
    /// The hashes differ: a different copy, or a damaged one.
    Differs,
    /// The file is not compressed, and the catalogue has only the hash of the gzip.
    NotChecked,
}

/// Hash of a file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileCheck {
    /// File name.
    pub file: String,
    /// The file's sha256.
    pub sha256: String,
    /// Comparison with the catalogue.
    pub check: Check,
}

/// Data set in memory.
#[derive(Debug, Clone)]
pub struct LoadedData {
    /// Rows, labels (+1 and -1), and groups where available.
    pub data: Data,
    /// Messages for the user, such as that the file differs from the catalogue's copy.
    pub notes: Vec<Note>,
    /// sha256 of the text, or of the embedded bytes. The same data have the same fingerprint, compressed or not.
    pub fingerprint: String,
    /// Labels of the file that correspond to +1 and -1.
    pub classes: (f64, f64),
    /// Sensitive columns, counted from 0, that are not features of a model; empty for most sets.
    pub sensitive: Vec<usize>,
    /// Data set that a stand-in is shaped like.
    pub stand_in: Option<String>,
}

/// Returns the displayed name of data, which marks a stand-in as such.
pub fn called(name: &str, stand_in: Option<&str>) -> String {
    match stand_in {
        None => name.into(),
        Some(set) if name.is_empty() => format!("stand-in shaped like {set}"),
        Some(set) => format!("{name} (stand-in shaped like {set})"),
    }
}

/// Returns the note about rows that are a stand-in.
fn stand_in_note(name: &str, stand_in: Option<&str>) -> Option<Note> {
    stand_in.map(|set| Note::StandIn { name: name.into(), set: set.into() })
}

/// Raw table in memory; fields as in [`LoadedData`].
#[derive(Debug, Clone)]
pub struct LoadedTable {
    /// Table.
    pub table: Table,
    /// Messages for the user.
    pub notes: Vec<Note>,
    /// sha256 of the text, or of the embedded bytes.
    pub fingerprint: String,
}

/// Counts of a data set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counts {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns, as in [`Set::columns`].
    pub columns: usize,
    /// Storage format of the rows in memory.
    pub form: &'static str,
    /// Labels with their numbers of rows.
    pub labels: Vec<LabelCount>,
    /// Groups; empty if there are none.
    pub groups: Vec<GroupCount>,
    /// Counts after the recipe has prepared a raw table; `None` if there is no recipe or it fails, which gives a note.
    pub prepared: Option<PreparedCounts>,
    /// Hashes of the files.
    pub files: Vec<FileCheck>,
    /// sha256 as in [`LoadedData::fingerprint`].
    pub fingerprint: String,
    /// Messages for the user.
    pub notes: Vec<Note>,
}

/// Counts of the rows returned by [`load`]; fields as in [`Counts`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PreparedCounts {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Storage format of the rows in memory.
    pub form: &'static str,
    /// Labels with their numbers of rows.
    pub labels: Vec<LabelCount>,
    /// Groups; empty if there are none.
    pub groups: Vec<GroupCount>,
}

/// Number of rows with a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelCount {
    /// Label as in the data.
    pub label: String,
    /// Number of rows.
    pub rows: usize,
}

/// Number of rows in a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupCount {
    /// Name of the group.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// Number of rows with the positive label.
    pub positive: usize,
    /// `positive / rows`.
    pub positive_rate: f64,
}

/// Returns the data set of that name, or an error that suggests the most similar one.
pub fn get(name: &str) -> Result<&'static Set> {
    SETS.iter().find(|s| s.name == name).ok_or_else(|| {
        let known: Vec<&str> = SETS.iter().map(|s| s.name).collect();
        Error::Request(format!("unknown data set '{name}'{}", thalweg::suggest::did_you_mean_one_of(name, &known)))
    })
}

/// Lists the directories in search order: `data_dir`, the one in [`VARIABLE`], `./data`, and the user's data directory.
pub fn directories(options: &Options) -> Vec<PathBuf> {
    directories_from(options, |name| std::env::var_os(name))
}

fn directories_from(options: &Options, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let path = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // By the XDG base directory specification, relative paths are ignored.
    let user = path("XDG_DATA_HOME").filter(|p| p.is_absolute()).or_else(|| {
        let below = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
        path("HOME").map(|home| home.join(below))
    });
    let all = [options.data_dir.clone(), path(VARIABLE), Some("./data".into()), user.map(|u| u.join("thalweg"))];
    let mut unique: Vec<PathBuf> = vec![];
    for directory in all.into_iter().flatten() {
        if !unique.contains(&directory) {
            unique.push(directory);
        }
    }
    unique
}

/// Finds a data set.
pub fn find(set: &Set, options: &Options) -> Place {
    find_in(set, &directories(options))
}

fn find_in(set: &Set, directories: &[PathBuf]) -> Place {
    if set.embedded {
        return Place::Embedded;
    }
    let file = directories.iter().flat_map(|d| set.file_names().map(|name| d.join(name))).find(|path| path.is_file());
    file.map_or(Place::Missing, Place::File)
}

/// Returns the error for a data set that was not found: its file, its source, and where to put it.
pub fn missing(set: &Set, options: &Options) -> Error {
    missing_from(set, &directories(options))
}

fn missing_from(set: &Set, directories: &[PathBuf]) -> Error {
    let looked: Vec<String> =
        directories.iter().map(|d| format!("{}{}", d.display(), if d.is_dir() { "" } else { " (no such directory)" })).collect();
    Error::Request(format!(
        "the data set {} is missing: put the file {} into one of the directories that were looked in: {}. It comes from: {}",
        set.name,
        set.file_names().collect::<Vec<_>>().join(" or "),
        looked.join(", "),
        set.source
    ))
}

/// Loads a data set as rows, labels and groups. A raw table is prepared by its recipe; without one it is an error, see
/// [`table`].
pub fn load(name: &str, options: &Options) -> Result<LoadedData> {
    let set = get(name)?;
    if !set.is_loadable() {
        let loadable: Vec<&str> = SETS.iter().filter(|s| s.is_loadable()).map(|s| s.name).collect();
        let what = format!("{name} is a raw table, not rows of numbers: sets that can be loaded are {}", loadable.join(", "));
        return Err(Error::Request(what));
    }
    let SetContent { content, mut notes, fingerprint, stand_in, .. } = read(set, options)?;
    let data = match content {
        Content::Rows(data) => data,
        Content::Table(table, reading) => match reading.recipe {
            Some(recipe) => {
                let prepared = recipe.prepare(&table, &reading)?;
                notes.extend(prepared_notes(set, recipe, &reading, &prepared));
                prepared.data
            }
            None => return Err(Error::Request(format!("{name} is a raw table, not rows of numbers"))),
        },
    };
    Ok(LoadedData { data, classes: (1.0, -1.0), notes, fingerprint, sensitive: vec![], stand_in })
}

/// Loads a data set as a raw table. Sets of numbers are an error; see [`load`].
pub fn table(name: &str, options: &Options) -> Result<LoadedTable> {
    let set = get(name)?;
    if !set.is_table() {
        let tables: Vec<&str> = SETS.iter().filter(|s| s.is_table()).map(|s| s.name).collect();
        return Err(Error::Request(format!("{name} is not a raw table: raw tables are {}", tables.join(", "))));
    }
    let found = read(set, options)?;
    match found.content {
        Content::Table(table, _) => Ok(LoadedTable { table, notes: found.notes, fingerprint: found.fingerprint }),
        Content::Rows(_) => Err(Error::Request(format!("{name} is not a raw table"))),
    }
}

/// Loads any LIBSVM file, plain or gzip, or a `.thw` file. `columns` is the number of columns; `None` uses the largest one
/// present, which has a limit. `group` is a column counted from 1: rows with a non-zero entry there are the first group, the
/// others the second.
pub fn load_file(path: &Path, columns: Option<usize>, group: Option<usize>) -> Result<LoadedData> {
    let loaded = load_wide_file(path, columns, group)?;
    limits::check_columns(path, loaded.data.features.cols())?;
    Ok(loaded)
}

/// As [`load_file`], with any number of columns. Before anything has an entry for each of them, the caller must check or reduce
/// their number.
pub fn load_wide_file(path: &Path, columns: Option<usize>, group: Option<usize>) -> Result<LoadedData> {
    let (rows, notes) = cache::read(path, columns)?;
    of_rows(path, rows, notes, group)
}

/// Loads a stand-in from the cache directory, or generates it.
pub fn load_stand_in(shape: &ShapedLike, options: &Options) -> Result<LoadedData> {
    let bar = Bar::new(options.progress);
    let (rows, notes) = shape.load(cache::directory().as_deref(), &mut |share| bar.share(share))?;
    bar.finish();
    of_rows(Path::new(&shape.called()), rows, notes, None)
}

fn of_rows(path: &Path, rows: Rows, mut notes: Vec<Note>, group: Option<usize>) -> Result<LoadedData> {
    let mut data = Data { labels: rows.signs(), features: rows.features, groups: None, weights: None };
    notes.extend(stand_in_note(&path.display().to_string(), rows.stand_in.as_deref()));
    if let Some(column) = group {
        let width = data.features.cols();
        if column == 0 || column > width {
            return Err(Error::file(path, format!("the group column is {column}; expected 1 to {width}")));
        }
        let names = [format!("column {column}"), "the rest".to_string()];
        let groups = split(&data, column - 1, |v| v != 0.0, names);
        if let Some(empty) = (0..2).find(|k| !groups.of_row.contains(k)) {
            let which = if empty == 0 { "no row has" } else { "every row has" };
            return Err(Error::file(
                path,
                format!("{which} an entry in the group column {column}; expected rows with one and rows without"),
            ));
        }
        data.groups = Some(groups);
    }
    // A text with one label is refused with the line; this is for the binary form.
    if let Some(one) = [1.0, -1.0].into_iter().find(|y| data.labels.iter().all(|label| label == y)) {
        let label = if one > 0.0 { rows.classes.0 } else { rows.classes.1 };
        return Err(Error::file(path, format!("all rows have the same label {label}; expected two different labels")));
    }
    data.validate()?;
    let (classes, fingerprint, stand_in) = (rows.classes, rows.hashes.text, rows.stand_in);
    Ok(LoadedData { data, classes, notes, fingerprint, sensitive: vec![], stand_in })
}

/// Loads a data set and counts its rows, labels and groups.
pub fn count(name: &str, options: &Options) -> Result<Counts> {
    let set = get(name)?;
    let SetContent { content, files, fingerprint, mut notes, .. } = read(set, options)?;
    let mut prepared = None;
    let PreparedCounts { rows, columns, form, labels, groups } = match &content {
        Content::Rows(data) => count_rows(data),
        Content::Table(table, reading) => {
            let column = |name: &str| {
                table.column(name).ok_or_else(|| Error::Request(format!("{}: the table has no column {name}", set.name)))
            };
            let (label, group) = (column(reading.label)?, column(reading.group)?);
            let of_row = |i| usize::from(!reading.first.has(table.cell(i, group)));
            let groups = tally(&reading.names, table.rows(), of_row, |i| table.cell(i, label) == reading.positive);
            let labels = count_labels((0..table.rows()).map(|i| table.cell(i, label)));
            if let Some(recipe) = reading.recipe {
                // The raw table can be counted even if the recipe fails.
                match recipe.prepare(table, reading) {
                    Ok(made) => {
                        notes.extend(prepared_notes(set, recipe, reading, &made));
                        prepared = Some(count_rows(&made.data));
                    }
                    Err(error) => notes.push(Note::NotPrepared { reason: error.to_string() }),
                }
            }
            PreparedCounts { rows: table.rows(), columns: table.columns(), form: "table of text", labels, groups }
        }
    };
    Ok(Counts { rows, columns, form, labels, groups, prepared, files, fingerprint, notes })
}

fn count_rows(data: &Data) -> PreparedCounts {
    let positive = |i: usize| data.labels[i] > 0.0;
    let groups = data.groups.as_ref().map(|g| tally(&g.names, data.labels.len(), |i| g.of_row[i] as usize, positive));
    PreparedCounts {
        rows: data.features.rows(),
        columns: data.features.cols(),
        form: data.features.form(),
        labels: count_labels((0..data.labels.len()).map(|i| if positive(i) { "+1" } else { "-1" })),
        groups: groups.unwrap_or_default(),
    }
}

/// Returns notes if the number of remaining rows differs from that of the catalogue's copy, and if there are rows with an
/// unknown outcome.
fn prepared_notes(set: &Set, recipe: &Recipe, reading: &Reading, prepared: &PreparedRows) -> Vec<Note> {
    let (name, rows, known, unknown) = (set.name, prepared.data.features.rows(), recipe.rows, prepared.unknown);
    let mut notes = vec![];
    // Without a filter, a different number of rows is already noted for the table.
    if rows != known && !recipe.keep.is_empty() {
        notes.push(Note::SizeDiffers { set: name.into(), quantity: Quantity::FilteredRows, found: rows, expected: known });
    }
    if unknown > 0 {
        let (label, values) = (reading.label.into(), recipe.unknown.iter().map(ToString::to_string).collect());
        notes.push(Note::UnknownOutcomes { set: name.into(), unknown, rows, label, values });
    }
    notes
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Place::Embedded => f.write_str("embedded"),
            Place::File(path) => path.display().fmt(f),
            Place::Missing => f.write_str("missing"),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Check::Match => "match",
            Check::Differs => "differs",
            Check::NotChecked => "not checked",
        })
    }
}

enum Content {
    Rows(Data),
    Table(Table, Reading),
}

struct SetContent {
    content: Content,
    files: Vec<FileCheck>,
    fingerprint: String,
    notes: Vec<Note>,
    stand_in: Option<String>,
}

fn read(set: &Set, options: &Options) -> Result<SetContent> {
    let placed = match find(set, options) {
        Place::Missing => return Err(missing(set, options)),
        Place::Embedded => None,
        Place::File(path) => Some(path),
    };
    let (mut told, mut stand_in) = (vec![], None);
    let (content, files, fingerprint) = match (set.form, &placed) {
        (Form::A9a, _) => embedded(set, Content::Rows(adult::a9a()?), &adult::PARTS.map(|(_, bytes)| bytes)),
        (Form::Adult(reading), _) => {
            embedded(set, Content::Table(adult::table()?, reading), &adult::PARTS.map(|(_, bytes)| bytes))
        }
        (Form::German(reading), _) => {
            let table = Table::parse(&mut Source::new("german.data", GERMAN)?, &GERMAN_LAYOUT)?;
            embedded(set, Content::Table(table, reading), &[GERMAN])
        }
        (_, None) => return Err(missing(set, options)),
        (Form::Libsvm { group }, Some(path)) => {
            let (rows, more) = cache::read(path, Some(set.columns))?;
            stand_in = rows.stand_in.clone();
            told.extend(more);
            told.extend(stand_in_note(&path.display().to_string(), stand_in.as_deref()));
            let mut data = Data { labels: rows.signs(), features: rows.features, groups: None, weights: None };
            data.groups = group.map(|g| split(&data, g.column, |v| v == g.value, g.names.map(String::from)));
            from_file(set, path, Content::Rows(data), &rows.hashes)
        }
        (Form::Covtype, Some(path)) => {
            let rows = covtype::parse(Source::open(path)?)?;
            let data = Data { labels: rows.signs(), features: rows.features, groups: None, weights: None };
            from_file(set, path, Content::Rows(data), &rows.hashes)
        }
        (Form::Table(layout, reading), Some(path)) => {
            let mut source = Source::open(path)?;
            let table = Table::parse(&mut source, &layout)?;
            from_file(set, path, Content::Table(table, reading), &source.finish()?)
        }
    };
    let mut notes: Vec<Note> = files.iter().filter_map(|f| f.note(set)).chain(told).collect();
    let (rows, columns) = match &content {
        Content::Rows(data) => (data.features.rows(), data.features.cols()),
        Content::Table(table, _) => (table.rows(), table.columns()),
    };
    for (quantity, found, expected) in [(Quantity::Rows, rows, set.rows), (Quantity::Columns, columns, set.columns)] {
        if found != expected {
            notes.push(Note::SizeDiffers { set: set.name.into(), quantity, found, expected });
        }
    }
    if let Content::Rows(data) = &content {
        data.validate()?;
    }
    Ok(SetContent { content, files, fingerprint, notes, stand_in })
}

fn embedded(set: &Set, content: Content, parts: &[&[u8]]) -> (Content, Vec<FileCheck>, String) {
    let files = set.files.iter().zip(parts).map(|(placed, bytes)| {
        let sha256 = sha256(bytes);
        let check = if sha256 == placed.sha256 { Check::Match } else { Check::Differs };
        FileCheck { file: format!("{} (embedded)", placed.name), sha256, check }
    });
    (content, files.collect(), sha256(&parts.concat()))
}

fn from_file(set: &Set, path: &Path, content: Content, hashes: &Hashes) -> (Content, Vec<FileCheck>, String) {
    let check = match set.files.first() {
        Some(placed) if hashes.gzip && placed.sha256 == hashes.placed => Check::Match,
        Some(_) if hashes.gzip => Check::Differs,
        _ => Check::NotChecked,
    };
    let file = FileCheck { file: path.display().to_string(), sha256: hashes.placed.clone(), check };
    (content, vec![file], hashes.text.clone())
}

impl FileCheck {
    fn note(&self, set: &Set) -> Option<Note> {
        match self.check {
            Check::Match => None,
            Check::Differs => Some(Note::ChecksumDiffers { file: self.file.clone(), set: set.name.into() }),
            Check::NotChecked => Some(Note::ChecksumNotChecked { file: self.file.clone() }),
        }
    }
}

/// Splits rows into two groups by their value in a column; a row without an entry there has 0.
fn split(data: &Data, column: usize, first: impl Fn(f64) -> bool, names: [String; 2]) -> Groups {
    let of_row = (0..data.features.rows()).map(|i| {
        let mut value = 0.0;
        data.features.visit_row(i, |c, v| {
            if c == column {
                value = v;
            }
        });
        u32::from(!first(value))
    });
    Groups { of_row: of_row.collect(), names: names.into() }
}

fn count_labels<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<LabelCount> {
    let mut counts = BTreeMap::new();
    for label in labels {
        *counts.entry(label).or_insert(0) += 1;
    }
    counts.into_iter().map(|(label, rows)| LabelCount { label: label.into(), rows }).collect()
}

fn tally(
    names: &[impl ToString],
    rows: usize,
    of_row: impl Fn(usize) -> usize,
    positive: impl Fn(usize) -> bool,
) -> Vec<GroupCount> {
    let mut counts = vec![(0, 0); names.len()];
    for i in 0..rows {
        let (rows, positives) = &mut counts[of_row(i)];
        *rows += 1;
        *positives += usize::from(positive(i));
    }
    let rate = |rows: usize, positive: usize| if rows == 0 { 0.0 } else { positive as f64 / rows as f64 };
    names
        .iter()
        .zip(counts)
        .map(|(name, (rows, positive))| GroupCount {
            name: name.to_string(),
            rows,
            positive,
            positive_rate: rate(rows, positive),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn numer_row(label: &str, sex: u32) -> String {
        let pairs: Vec<String> = (1..=24).map(|c| format!("{c}:{}", if c == 7 { sex } else { 3 })).collect();
        format!("{label} {}\n", pairs.join(" "))
    }

    fn at(directory: &Path) -> Options {
        Options { data_dir: Some(directory.into()), ..Options::default() }
    }

    #[test]
    fn the_catalogue_is_in_order() {
        let mut names: Vec<_> = SETS.iter().map(|s| s.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12);
        for set in SETS {
            assert!(!set.files.is_empty(), "{}", set.name);
            assert!(set.files.iter().all(|f| f.sha256.len() == 64 && f.name.ends_with(".gz")), "{}", set.name);
            assert_eq!(set.embedded, ["a9a", "adult", "german"].contains(&set.name));
            assert!(!set.about.contains('\n') && !set.source.is_empty() && !set.licence.is_empty());
        }
    }

    #[test]
    fn directories_come_in_order() {
        let with = |pairs: &[(&str, &str)], data_dir: Option<&str>| {
            let options = Options { data_dir: data_dir.map(PathBuf::from), ..Options::default() };
            directories_from(&options, |n| pairs.iter().find(|(k, _)| *k == n).map(|(_, v)| v.into()))
        };
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            with(&[(VARIABLE, "/there"), ("XDG_DATA_HOME", "/xdg"), ("HOME", "/me")], Some("here")),
            paths(&["here", "/there", "./data", "/xdg/thalweg"])
        );
        let home = if cfg!(target_os = "macos") { "/me/Library/Application Support/thalweg" } else { "/me/.local/share/thalweg" };
        assert_eq!(with(&[(VARIABLE, ""), ("XDG_DATA_HOME", "relative"), ("HOME", "/me")], None), paths(&["./data", home]));
        assert_eq!(with(&[(VARIABLE, "./data")], Some("./data")), paths(&["./data"]));
    }

    #[test]
    fn a_missing_set_says_what_to_do() {
        let here = tempfile::tempdir().unwrap();
        let directories = [here.path().to_path_buf(), "no/such".into()];
        let set = get("w8a").unwrap();
        assert_eq!(find_in(set, &directories), Place::Missing);
        assert_eq!(
            missing_from(set, &directories).to_string(),
            format!(
                "the data set w8a is missing: put the file w8a.gz or w8a into one of the directories that were looked in: {}, \
                 no/such (no such directory). It comes from: LIBSVM data page (binary), w8a",
                here.path().display()
            )
        );
    }

    #[test]
    fn unknown_names_get_a_suggestion_and_tables_are_refused() {
        let options = Options::default();
        let error = load("w8", &options).unwrap_err().to_string();
        assert!(error.starts_with("unknown data set 'w8'; did you mean 'w8a'?"), "{error}");
        let error = load("adult", &options).unwrap_err();
        assert!(matches!(&error, Error::Request(_)));
        let loadable = "sets that can be loaded are a9a, bank, compas, compas-two-years, german, german-numer, w8a,";
        assert!(error.to_string().contains(loadable), "{error}");
        let error = table("a9a", &options).unwrap_err().to_string();
        assert!(error.contains("raw tables are adult, bank, compas, compas-two-years, german"), "{error}");
    }

    #[test]
    fn plain_and_gzip_files_are_found_and_judged() {
        let here = tempfile::tempdir().unwrap();
        let text = numer_row("1", 2) + &numer_row("-1", 1) + &numer_row("-1", 4);
        std::fs::write(here.path().join("german.numer"), &text).unwrap();
        let plain = load("german-numer", &at(here.path())).unwrap();
        assert_eq!(plain.data.labels, [1.0, -1.0, -1.0]);
        assert_eq!(plain.data.groups.as_ref().unwrap().of_row, [0, 1, 1]);
        assert_eq!(plain.notes.len(), 2, "{:?}", plain.notes);
        assert!(matches!(plain.notes[0], Note::ChecksumNotChecked { .. }));
        assert_eq!(plain.notes[1].to_string(), "german-numer has 3 rows here; the catalogue's copy has 1000");

        let mut zip = GzEncoder::new(std::fs::File::create(here.path().join("german.numer.gz")).unwrap(), Compression::fast());
        zip.write_all(text.as_bytes()).unwrap();
        zip.finish().unwrap();
        let zipped = load("german-numer", &at(here.path())).unwrap();
        assert!(zipped.notes[0].to_string().contains("is not that of the catalogue's copy"), "{:?}", zipped.notes);
        assert_eq!(zipped.fingerprint, plain.fingerprint);
        assert_eq!(zipped.data, plain.data);
        assert_eq!(count("german-numer", &at(here.path())).unwrap().files[0].check, Check::Differs);
    }

    #[test]
    fn personal_columns_are_dropped_while_reading() {
        let here = tempfile::tempdir().unwrap();
        let text =
            "id,name,first,last,dob,race,c_case_number,is_recid\n1,A B,A,B,2000-01-01,Other,12,1\n2,C,C,C,x,Caucasian,3,-1\n";
        std::fs::write(here.path().join("compas-scores.csv"), text).unwrap();
        let found = table("compas", &at(here.path())).unwrap();
        assert_eq!(found.table.names(), ["id", "race", "is_recid"]);
        assert_eq!(found.table.to_csv(), "id,race,is_recid\n1,Other,1\n2,Caucasian,-1\n");
        let counts = count("compas", &at(here.path())).unwrap();
        assert_eq!((counts.groups[0].rows, counts.groups[0].positive), (1, 1));
        std::fs::write(here.path().join("compas-scores.csv"), "id,race\n1,Other\n").unwrap();
        let error = count("compas", &at(here.path())).unwrap_err().to_string();
        assert_eq!(error, "compas: the table has no column is_recid");
    }

    #[test]
    fn a_raw_table_with_a_recipe_is_both() {
        let here = tempfile::tempdir().unwrap();
        let text = "sex,age,age_cat,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,days_b_screening_arrest,\
                    c_charge_degree,is_recid,score_text,two_year_recid\n\
                    Male,50,Greater than 45,Other,0,0,0,4,-30,F,1,Low,1\n\
                    Male,50,Greater than 45,Other,0,0,0,4,,F,1,Low,1\n\
                    Female,25,25 - 45,Caucasian,0,0,0,1,3,M,0,Low,0\n";
        let file = here.path().join("compas-scores-two-years.csv");
        std::fs::write(&file, text).unwrap();
        let (name, options) = ("compas-two-years", at(here.path()));
        let loaded = load(name, &options).unwrap();
        assert_eq!((loaded.data.features.rows(), loaded.data.features.cols()), (2, 16));
        let short = "compas-two-years has 2 rows after its filter here; the catalogue's copy has 6172";
        assert!(loaded.notes.iter().any(|n| n.to_string() == short), "{:?}", loaded.notes);
        let raw = table(name, &options).unwrap();
        assert_eq!((raw.table.rows(), raw.table.columns(), raw.fingerprint), (3, 13, loaded.fingerprint));
        let counts = count(name, &options).unwrap();
        assert_eq!((counts.rows, counts.columns, counts.groups[0].positive), (3, 13, 2));
        let ready = counts.prepared.unwrap();
        assert_eq!((ready.rows, ready.columns, ready.form, ready.groups[0].positive), (2, 16, "sparse", 1));
        assert!(counts.notes.iter().any(|n| n.to_string() == short), "{:?}", counts.notes);

        // A table that the recipe rejects can still be counted.
        std::fs::write(&file, text.replace("Female", "?")).unwrap();
        let wanted = format!("{}, line 4: sex is '?'; expected one of 'Female', 'Male'", file.display());
        assert_eq!(load(name, &options).unwrap_err().to_string(), wanted);
        let counts = count(name, &options).unwrap();
        assert_eq!((counts.rows, counts.prepared), (3, None));
        assert_eq!(counts.notes.last(), Some(&Note::NotPrepared { reason: wanted.to_string() }));
    }

    #[test]
    fn unknown_outcomes_are_counted_in_a_note() {
        let here = tempfile::tempdir().unwrap();
        let text = "name,sex,age,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,c_charge_degree,is_recid\n\
                    A,Male,50,Other,0,0,0,4,F,1\nB,Female,25,Caucasian,0,0,0,1,M,-1\nC,Male,25,Asian,0,0,0,1,M,0\n";
        let file = here.path().join("compas-scores.csv");
        std::fs::write(&file, text).unwrap();
        let options = at(here.path());
        let unknown = "compas: 1 of 3 rows have an unknown outcome (is_recid is '-1') and count as -1";
        let loaded = load("compas", &options).unwrap();
        assert_eq!(loaded.data.labels, [1.0, -1.0, -1.0]);
        assert_eq!(loaded.notes.last().map(ToString::to_string).as_deref(), Some(unknown), "{:?}", loaded.notes);
        // There is no filter, so only the number of rows of the table is noted.
        assert_eq!(loaded.notes.iter().filter(|n| n.to_string().contains("rows")).count(), 2, "{:?}", loaded.notes);
        let counts = count("compas", &options).unwrap();
        assert_eq!(counts.notes, loaded.notes);
        assert_eq!(counts.prepared.map(|ready| (ready.rows, ready.columns)), Some((3, 14)));
        std::fs::write(&file, text.replace("-1", "0")).unwrap();
        assert!(!load("compas", &options).unwrap().notes.iter().any(|n| n.to_string().contains("unknown")));
    }

    #[test]
    fn the_embedded_sets_are_whole() {
        let nowhere = at(Path::new("no/such"));
        for (name, rows, columns, labels, groups) in [
            ("a9a", 48_842, 123, [("+1", 11_687), ("-1", 37_155)], [("female", 16_192, 1_769), ("male", 32_650, 9_918)]),
            ("adult", 48_842, 15, [("<=50K", 37_155), (">50K", 11_687)], [("female", 16_192, 1_769), ("male", 32_650, 9_918)]),
            ("german", 1_000, 21, [("1", 700), ("2", 300)], [("female", 310, 201), ("male", 690, 499)]),
        ] {
            let counts = count(name, &nowhere).unwrap();
            assert_eq!((counts.rows, counts.columns), (rows, columns), "{name}");
            let found: Vec<_> = counts.labels.iter().map(|l| (l.label.as_str(), l.rows)).collect();
            assert_eq!(found, labels, "{name}");
            let found: Vec<_> = counts.groups.iter().map(|g| (g.name.as_str(), g.rows, g.positive)).collect();
            assert_eq!(found, groups, "{name}");
            assert!(counts.files.iter().all(|f| f.check == Check::Match), "{name}");
            assert!(counts.notes.is_empty(), "{:?}", counts.notes);
        }
        let german = load("german", &nowhere).unwrap();
        assert_eq!((german.data.features.rows(), german.data.features.cols(), german.notes.len()), (1_000, 21, 0));
        assert_eq!(german.data.labels.iter().filter(|y| **y == 1.0).count(), 700);
        let a9a = load("a9a", &nowhere).unwrap();
        assert_eq!(a9a.data.features.form(), "sparse ones, one-byte columns");
        assert_eq!(a9a.fingerprint.len(), 64);
        let groups = a9a.data.groups.as_ref().unwrap();
        for (column, group) in [(71, 0), (72, 1)] {
            let by_column = split(&a9a.data, column, |v| v == 1.0, ["a".into(), "b".into()]);
            assert!(by_column.of_row.iter().zip(&groups.of_row).all(|(c, g)| (*c == 0) == (*g == group)));
        }
    }

    #[test]
    fn any_file_with_a_group_column() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("mine.svm");
        std::fs::write(&path, "1 1:2 3:1\n0 1:1 2:0.5\n0 1:1 2:0 3:-1\n").unwrap();
        let groups = |column| load_file(&path, None, Some(column)).map(|l| l.data.groups.unwrap());
        let found = groups(2).unwrap();
        assert_eq!(found.names, ["column 2", "the rest"]);
        assert_eq!(found.of_row, [1, 0, 1]);
        assert_eq!(groups(3).unwrap().of_row, [0, 1, 0]);
        assert!(groups(1).unwrap_err().to_string().contains("every row has an entry in the group column 1"));
        assert!(groups(4).unwrap_err().to_string().contains("the group column is 4; expected 1 to 3"));
        assert!(groups(0).unwrap_err().to_string().contains("expected 1 to 3"));
        let error = load_file(&path, Some(5), Some(5)).unwrap_err().to_string();
        assert!(error.contains("no row has an entry in the group column 5"), "{error}");
        let plain = load_file(&path, Some(5), None).unwrap();
        assert_eq!(plain.data.features.cols(), 5);
        assert!(plain.data.groups.is_none() && plain.notes.is_empty());
        assert!(load_file(&here.path().join("none"), None, None).is_err());
    }
}
