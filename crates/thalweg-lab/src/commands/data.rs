//! `thalweg data`: the available data sets, their content, and the directories searched for their files; conversion to binary
//! files, and stand-ins. The work is done in [`crate::data`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::Ending;
use crate::console::Bar;
use crate::data::cache;
use crate::data::catalogue::{self, Counts, GroupCount, LabelCount, Options, Place, SETS, Set};
use crate::data::shaped_like::{Like, ShapedLike};
use crate::output::{align, json, print};
use crate::trace::write_whole;
use crate::verdict::DONE;
use crate::{Error, Result};

/// Known data sets: which there are, what is in them, and where their files are looked for.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example: thalweg data info adult")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    /// List the known data sets and where each was found
    List(Common),
    /// Show everything about a data set: read it and count rows, labels and groups
    Info {
        /// Name of the data set
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Write a raw table as CSV with a header line, as `thalweg fit` reads it
    Table {
        /// Name of the data set
        name: String,
        /// Write to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Look in this directory first
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Write a LIBSVM file in binary form, which is mapped instead of being read
    Convert {
        /// The LIBSVM file, plain or gzip
        file: PathBuf,
        /// The file to write, called .thw
        out: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a stand-in: made-up rows in the shape of a large published set
    Synth {
        /// The set that the rows have the shape of
        #[arg(long)]
        like: Like,
        /// The file to write: text (.svm, .txt), zipped text (.svm.gz, .txt.gz) or binary (.thw)
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Number of rows, by default that of the set
        #[arg(long, value_name = "N")]
        rows: Option<usize>,
        /// Number of columns, by default that of the set
        #[arg(long, value_name = "D")]
        columns: Option<usize>,
        /// Seed of the rows
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Show no progress bar
        #[arg(long)]
        quiet: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the directories that are looked in, or the file of a data set
    Path {
        /// Name of the data set
        name: Option<String>,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Clone, Default, clap::Args)]
struct Common {
    /// Look in this directory first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Ending {
    print(&answer(&args.what)?)?;
    Ok(ExitCode::from(DONE))
}

/// Returns the text that the command prints.
fn answer(what: &What) -> Result<String> {
    match what {
        What::List(common) => list(common),
        What::Info { name, common } => info(catalogue::get(name)?, common),
        What::Table { name, out, data_dir } => table(name, out.as_deref(), data_dir.clone()),
        What::Convert { file, out, json } => convert(file, out, *json),
        What::Synth { like, out, rows, columns, seed, quiet, json } => {
            let rows = ShapedLike { like: *like, rows: *rows, columns: *columns, seed: *seed };
            make(&rows, out, *quiet, *json)
        }
        What::Path { name: None, common } => directories(common),
        What::Path { name: Some(name), common } => path(catalogue::get(name)?, common),
    }
}

fn table(name: &str, out: Option<&Path>, data_dir: Option<PathBuf>) -> Result<String> {
    let table = catalogue::table(name, &Options { data_dir, ..Options::default() })?.table;
    let Some(out) = out else { return Ok(table.to_csv()) };
    write_whole(out, &table.to_csv())?;
    Ok(format!("{}: {} rows, {} columns\n", out.display(), table.rows(), table.columns()))
}

/// Output of `convert --json`.
#[derive(Serialize)]
struct Converted {
    rows: usize,
    columns: usize,
    stored: usize,
    form: &'static str,
    stand_in: Option<String>,
    bytes: u64,
}

fn convert(file: &Path, out: &Path, as_json: bool) -> Result<String> {
    if out.extension().is_none_or(|e| e != cache::EXTENSION) {
        return Err(Error::file(out, format!("expected a file called .{}", cache::EXTENSION)));
    }
    let (rows, bytes) = cache::convert(file, out)?;
    let features = &rows.features;
    let (columns, stored, form) = (features.cols(), features.stored(), features.form());
    let made = Converted { rows: features.rows(), columns, stored, form, stand_in: rows.stand_in, bytes };
    if as_json {
        return json(&made);
    }
    let about = catalogue::called(&out.display().to_string(), made.stand_in.as_deref());
    Ok(format!("{about}: {} rows, {columns} columns, {stored} non-zeros, {form}, {bytes} bytes\n", made.rows))
}

fn make(shape: &ShapedLike, out: &Path, quiet: bool, as_json: bool) -> Result<String> {
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

/// Catalogue entry of a set, and its location.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
    rows: usize,
    columns: usize,
    label: &'static str,
    groups: Option<&'static str>,
    raw_table: bool,
    /// Whether a spec can name it.
    in_specs: bool,
    /// How a raw table is prepared for specs.
    recipe: Option<Steps>,
    files: Vec<File>,
    source: &'static str,
    licence: &'static str,
    #[serde(flatten)]
    place: At,
}

#[derive(Serialize)]
struct Steps {
    about: &'static str,
    rows: usize,
    columns: usize,
    steps: Vec<String>,
}

#[derive(Serialize)]
struct File {
    name: &'static str,
    sha256: &'static str,
}

#[derive(Serialize)]
struct At {
    /// "embedded", "file" or "missing".
    place: &'static str,
    path: Option<PathBuf>,
}

impl At {
    fn new(place: &Place) -> Self {
        match place {
            Place::Embedded => At { place: "embedded", path: None },
            Place::File(path) => At { place: "file", path: Some(path.clone()) },
            Place::Missing => At { place: "missing", path: None },
        }
    }
}

impl Entry {
    fn new(set: &Set, place: &Place) -> Self {
        Entry {
            name: set.name,
            about: set.about,
            rows: set.rows,
            columns: set.columns,
            label: set.label,
            groups: set.groups,
            raw_table: set.is_table(),
            in_specs: set.is_loadable(),
            recipe: set.recipe().map(|r| Steps { about: r.about, rows: r.rows, columns: r.columns(), steps: r.steps() }),
            files: set.files.iter().map(|f| File { name: f.name, sha256: f.sha256 }).collect(),
            source: set.source,
            licence: set.licence,
            place: At::new(place),
        }
    }
}

fn list(common: &Common) -> Result<String> {
    let options = common.options();
    let found: Vec<_> = SETS.iter().map(|set| (set, catalogue::find(set, &options))).collect();
    if common.json {
        return json(&found.iter().map(|(set, place)| Entry::new(set, place)).collect::<Vec<_>>());
    }
    let header = ["name", "rows", "columns", "in specs", "where"].map(String::from);
    let rows = found.iter().map(|(set, place)| {
        let in_specs = match set.recipe() {
            Some(recipe) => format!("{} x {}", recipe.rows, recipe.columns()),
            None => if set.is_loadable() { "as it is" } else { "no" }.into(),
        };
        let place = match place {
            Place::File(path) => catalogue::called(&path.display().to_string(), cache::stand_in(path).as_deref()),
            other => other.to_string(),
        };
        [set.name.into(), set.rows.to_string(), set.columns.to_string(), in_specs, place]
    });
    let rows: Vec<_> = [header].into_iter().chain(rows).collect();
    Ok(align(&rows, &[1, 2]))
}

/// Output of `info --json`: the catalogue entry, and the counts if the set is available.
#[derive(Serialize)]
struct Info {
    #[serde(flatten)]
    entry: Entry,
    counted: Option<Counts>,
    missing: Option<String>,
}

fn info(set: &Set, common: &Common) -> Result<String> {
    let options = common.options();
    let place = catalogue::find(set, &options);
    let entry = Entry::new(set, &place);
    let (counted, missing) = match place {
        // A missing set is not an error here: the output explains how to obtain it.
        Place::Missing => (None, Some(catalogue::missing(set, &options).to_string())),
        _ => (Some(catalogue::count(set.name, &options)?), None),
    };
    let info = Info { entry, counted, missing };
    if common.json { json(&info) } else { Ok(describe(set, &place, &info)) }
}

fn describe(set: &Set, place: &Place, info: &Info) -> String {
    let mut lines: Vec<[String; 2]> = vec![];
    let mut line = |key: &str, value: String| lines.push([key.into(), value]);
    line("name", set.name.into());
    line("about", set.about.into());
    line("kind", if set.is_table() { "raw table".into() } else { "rows of numbers".into() });
    line("where", place.to_string());
    match &info.counted {
        None => {
            line("rows", format!("{} in the catalogue's copy", set.rows));
            line("columns", format!("{} in the catalogue's copy", set.columns));
        }
        Some(counted) => {
            line("rows", counted.rows.to_string());
            line("columns", counted.columns.to_string());
            line("in memory", counted.form.into());
        }
    }
    line("label", set.label.into());
    info.counted.iter().for_each(|c| lines_of_labels(&c.labels, &mut line));
    line("groups", set.groups.unwrap_or("none").into());
    info.counted.iter().for_each(|c| lines_of_groups(&c.groups, &mut line));
    if let Some(recipe) = &info.entry.recipe {
        let prepared = info.counted.as_ref().and_then(|c| c.prepared.as_ref());
        line(
            "in specs",
            match prepared {
                None => format!("{} rows, {} columns in the catalogue's copy", recipe.rows, recipe.columns),
                Some(ready) => format!("{} rows, {} columns, {}", ready.rows, ready.columns, ready.form),
            },
        );
        if let Some(ready) = prepared {
            lines_of_labels(&ready.labels, &mut line);
            lines_of_groups(&ready.groups, &mut line);
        }
        recipe.steps.iter().for_each(|step| line("", step.clone()));
        line("", recipe.about.into());
    }
    match &info.counted {
        None => set.files.iter().for_each(|file| line("sha256", format!("{} of {}", file.sha256, file.name))),
        Some(counted) => {
            for file in &counted.files {
                line("sha256", format!("{}: {} {}", file.check, file.sha256, file.file));
            }
            line("fingerprint", counted.fingerprint.clone());
        }
    }
    line("source", set.source.into());
    line("licence", set.licence.into());
    for note in info.counted.iter().flat_map(|c| &c.notes).chain(&info.missing) {
        line("note", note.clone());
    }
    align(&lines, &[])
}

fn lines_of_labels(labels: &[LabelCount], line: &mut impl FnMut(&str, String)) {
    labels.iter().for_each(|label| line("", format!("{}: {} rows", label.label, label.rows)));
}

fn lines_of_groups(groups: &[GroupCount], line: &mut impl FnMut(&str, String)) {
    for group in groups {
        let rate = 100.0 * group.positive_rate;
        line("", format!("{}: {} rows, {} positive ({rate:.2}%)", group.name, group.rows, group.positive));
    }
}

#[derive(Serialize)]
struct Directory {
    path: PathBuf,
    exists: bool,
}

fn directories(common: &Common) -> Result<String> {
    let all = catalogue::directories(&common.options());
    if common.json {
        let all: Vec<_> = all.into_iter().map(|path| Directory { exists: path.is_dir(), path }).collect();
        return json(&all);
    }
    Ok(all.iter().map(|d| format!("{}\n", d.display())).collect())
}

fn path(set: &Set, common: &Common) -> Result<String> {
    let options = common.options();
    match catalogue::find(set, &options) {
        Place::Missing => Err(catalogue::missing(set, &options)),
        place if common.json => json(&At::new(&place)),
        Place::Embedded => Err(Error::Request(format!("{} is inside the command and has no file", set.name))),
        Place::File(path) => Ok(format!("{}\n", path.display())),
    }
}

impl Common {
    fn options(&self) -> Options {
        Options { data_dir: self.data_dir.clone(), ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn ask(words: &[&str]) -> Result<String> {
        let words = std::iter::once("data").chain(words.iter().copied());
        answer(&Command::try_parse_from(words).map_err(|e| Error::Request(e.to_string()))?.args.what)
    }

    /// Returns a directory with a small svmguide3.
    fn placed() -> tempfile::TempDir {
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("svmguide3"), "1 1:0.5\n-1 2:0.25 22:1\n-1\n").unwrap();
        here
    }

    fn text(path: &Path) -> &str {
        path.to_str().unwrap()
    }

    #[test]
    fn the_list_is_aligned_and_says_where() {
        let here = placed();
        let list = ask(&["list", "--data-dir", text(here.path())]).unwrap();
        let lines: Vec<&str> = list.lines().collect();
        assert_eq!(lines.len(), 13);
        assert_eq!(lines[0], "name               rows  columns  in specs    where");
        assert_eq!(lines[1], "a9a               48842      123  as it is    embedded");
        assert_eq!(lines[2], "adult             48842       15  no          embedded");
        assert!(lines[3].starts_with("bank              41188       21  41188 x 54  "), "{}", lines[3]);
        assert!(lines[4].starts_with("compas            11757       40  11757 x 14  "), "{}", lines[4]);
        assert!(lines[5].starts_with("compas-two-years   7214       46  6172 x 16   "), "{}", lines[5]);
        assert_eq!(lines[6], "german             1000       21  1000 x 21   embedded");
        let file = here.path().join("svmguide3");
        assert_eq!(lines[9], format!("svmguide3          1243       22  as it is    {}", file.display()));
        let json: serde_json::Value =
            serde_json::from_str(&ask(&["list", "--json", "--data-dir", text(here.path())]).unwrap()).unwrap();
        assert_eq!(json[8]["path"], text(&file));
        assert_eq!(json[0]["place"], "embedded");
        assert_eq!((&json[1]["raw_table"], &json[1]["in_specs"]), (&true.into(), &false.into()));
        assert_eq!((&json[4]["raw_table"], &json[4]["in_specs"]), (&true.into(), &true.into()));
        assert_eq!(json[4]["recipe"]["rows"], 6_172);
    }

    #[test]
    fn info_counts_what_is_there() {
        let here = placed();
        let info = ask(&["info", "svmguide3", "--data-dir", text(here.path())]).unwrap();
        for part in [
            "rows         3\n",
            "columns      22\n",
            "+1: 1 rows\n",
            "-1: 2 rows\n",
            "not checked: ",
            "catalogue's copy has 1243",
        ] {
            assert!(info.contains(part), "{part}\n{info}");
        }
        let info = ask(&["info", "a9a"]).unwrap();
        assert!(info.contains("female: 16192 rows, 1769 positive (10.93%)"), "{info}");
        assert!(info.contains("sha256       match: c7a2b471"), "{info}");
        assert!(info.contains("CC BY 4.0"), "{info}");
        let json: serde_json::Value = serde_json::from_str(&ask(&["info", "german", "--json"]).unwrap()).unwrap();
        assert_eq!(json["counted"]["groups"][0]["rows"], 310);
        assert_eq!(json["counted"]["files"][0]["check"], "match");
        assert_eq!(json["name"], "german");
        let ready = &json["counted"]["prepared"];
        assert_eq!((&ready["rows"], &ready["columns"]), (&1_000.into(), &21.into()));
        assert_eq!((&ready["labels"][0]["rows"], &ready["groups"][0]["positive"]), (&700.into(), &201.into()));
        assert_eq!(json["recipe"]["steps"][20], "column 21: 1 in every row");
        let info = ask(&["info", "german"]).unwrap();
        for part in [
            "in specs     1000 rows, 21 columns, sparse\n",
            "female: 310 rows, 201 positive (64.84%)\n",
            "column 4: purpose, 0 for 'A40' to 10 for 'A410', divided by its largest number in these rows\n",
            "so both are a choice, and published numbers are not comparable\n",
        ] {
            assert!(info.contains(part), "{part}\n{info}");
        }
    }

    #[test]
    fn a_raw_table_is_written_as_csv() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("german.csv");
        let said = ask(&["table", "german", "--out", text(&file)]).unwrap();
        assert_eq!(said, format!("{}: 1000 rows, 21 columns\n", file.display()));
        let written = std::fs::read_to_string(&file).unwrap();
        assert_eq!(written, ask(&["table", "german"]).unwrap());
        let again = crate::data::table::Table::read(&file).unwrap();
        let given = catalogue::table("german", &Options::default()).unwrap().table;
        assert_eq!(again.names(), given.names());
        assert!((0..1_000).all(|i| again.row(i).eq(given.row(i))));
        let refused = ask(&["table", "a9a"]).unwrap_err().to_string();
        assert!(refused.starts_with("a9a is not a raw table: raw tables are adult, "), "{refused}");
    }

    #[test]
    fn info_of_a_missing_set_says_how_to_get_it() {
        let set = catalogue::get("w8a").unwrap();
        let missing = Some(catalogue::missing(set, &Options::default()).to_string());
        let info = Info { entry: Entry::new(set, &Place::Missing), counted: None, missing };
        let text = describe(set, &Place::Missing, &info);
        assert!(text.contains("where    missing\n"), "{text}");
        assert!(text.contains("note     the data set w8a is missing: put the file w8a.gz or w8a into"), "{text}");
        assert!(text.contains("rows     49749 in the catalogue's copy\n"), "{text}");
        let set = catalogue::get("compas-two-years").unwrap();
        let info = Info { entry: Entry::new(set, &Place::Missing), counted: None, missing: None };
        let text = describe(set, &Place::Missing, &info);
        for part in [
            "in specs  6172 rows, 16 columns in the catalogue's copy\n",
            "          rows with days_b_screening_arrest from -30 to 30\n",
            "          column 1: sex, 0 for 'Female', 1 for 'Male'\n",
            "          columns 3 to 5: age_cat, one column for each of 'Less than 25', '25 - 45', 'Greater than 45'\n",
            "          column 16: priors_count, divided by its largest number in these rows\n",
            "the scale of the numbers are a choice\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let set = catalogue::get("bank").unwrap();
        let info = Info { entry: Entry::new(set, &Place::Missing), counted: None, missing: None };
        let text = describe(set, &Place::Missing, &info);
        for part in [
            "column 6: emp.var.rate, divided by its largest absolute number in these rows\n",
            "columns 22 to 24: marital, one column for each of 'married', 'single', 'unknown'; none for 'divorced'\n",
            "column 38: contact, 0 for 'cellular', 1 for 'telephone'\n",
            "column 54: 1 in every row\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn paths() {
        let here = placed();
        let all = ask(&["path", "--data-dir", text(here.path())]).unwrap();
        assert_eq!(all.lines().next(), Some(text(here.path())));
        assert!(all.lines().any(|l| l == "./data"), "{all}");
        let one = ask(&["path", "svmguide3", "--data-dir", text(here.path())]).unwrap();
        assert_eq!(one, format!("{}\n", here.path().join("svmguide3").display()));
        let json: serde_json::Value = serde_json::from_str(&ask(&["path", "--json"]).unwrap()).unwrap();
        assert!(json[0]["exists"].is_boolean());
        let json: serde_json::Value = serde_json::from_str(&ask(&["path", "a9a", "--json"]).unwrap()).unwrap();
        assert_eq!(json["place"], "embedded");
        assert_eq!(ask(&["path", "a9a"]).unwrap_err().to_string(), "a9a is inside the command and has no file");
    }

    #[test]
    fn an_unknown_name_gets_a_suggestion() {
        for command in ["info", "path"] {
            let error = ask(&[command, "adlut"]).unwrap_err().to_string();
            assert!(error.starts_with("there is no data set \"adlut\" (did you mean adult?)"), "{error}");
        }
    }
}
