//! `list`, `info` and `path`: the known data sets, what is in them, and where their files are looked for.

use std::path::PathBuf;

use serde::Serialize;

use super::Common;
use crate::data::cache;
use crate::data::catalogue::{self, Counts, GroupCount, LabelCount, Place, SETS, Set};
use crate::output::{align, json};
use crate::{Error, Result};

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
    place: FileLocation,
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
struct FileLocation {
    /// "embedded", "file" or "missing".
    place: &'static str,
    path: Option<PathBuf>,
}

impl FileLocation {
    fn new(place: &Place) -> Self {
        match place {
            Place::Embedded => FileLocation { place: "embedded", path: None },
            Place::File(path) => FileLocation { place: "file", path: Some(path.clone()) },
            Place::Missing => FileLocation { place: "missing", path: None },
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
            place: FileLocation::new(place),
        }
    }
}

pub(super) fn list(common: &Common) -> Result<String> {
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
    counts: Option<Counts>,
    missing: Option<String>,
}

pub(super) fn info(set: &Set, common: &Common) -> Result<String> {
    let options = common.options();
    let place = catalogue::find(set, &options);
    let entry = Entry::new(set, &place);
    let (counts, missing) = match place {
        // A missing set is not an error here: the output explains how to obtain it.
        Place::Missing => (None, Some(catalogue::missing(set, &options).to_string())),
        _ => (Some(catalogue::count(set.name, &options)?), None),
    };
    let info = Info { entry, counts, missing };
    if common.json { json(&info) } else { Ok(describe(set, &place, &info)) }
}

fn describe(set: &Set, place: &Place, info: &Info) -> String {
    let mut lines: Vec<[String; 2]> = vec![];
    let mut line = |key: &str, value: String| lines.push([key.into(), value]);
    line("name", set.name.into());
    line("about", set.about.into());
    line("kind", if set.is_table() { "raw table".into() } else { "rows of numbers".into() });
    line("where", place.to_string());
    match &info.counts {
        None => {
            line("rows", format!("{} in the catalogue's copy", set.rows));
            line("columns", format!("{} in the catalogue's copy", set.columns));
        }
        Some(counts) => {
            line("rows", counts.rows.to_string());
            line("columns", counts.columns.to_string());
            line("in memory", counts.form.into());
        }
    }
    line("label", set.label.into());
    info.counts.iter().for_each(|c| lines_of_labels(&c.labels, &mut line));
    line("groups", set.groups.unwrap_or("none").into());
    info.counts.iter().for_each(|c| lines_of_groups(&c.groups, &mut line));
    if let Some(recipe) = &info.entry.recipe {
        let prepared = info.counts.as_ref().and_then(|c| c.prepared.as_ref());
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
    match &info.counts {
        None => set.files.iter().for_each(|file| line("sha256", format!("{} of {}", file.sha256, file.name))),
        Some(counts) => {
            for file in &counts.files {
                line("sha256", format!("{}: {} {}", file.check, file.sha256, file.file));
            }
            line("fingerprint", counts.fingerprint.clone());
        }
    }
    line("source", set.source.into());
    line("licence", set.licence.into());
    let notes = info.counts.iter().flat_map(|c| c.notes.iter().map(ToString::to_string));
    for note in notes.chain(info.missing.clone()) {
        line("note", note);
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

pub(super) fn directories(common: &Common) -> Result<String> {
    let all = catalogue::directories(&common.options());
    if common.json {
        let all: Vec<_> = all.into_iter().map(|path| Directory { exists: path.is_dir(), path }).collect();
        return json(&all);
    }
    Ok(all.iter().map(|d| format!("{}\n", d.display())).collect())
}

pub(super) fn path(set: &Set, common: &Common) -> Result<String> {
    let options = common.options();
    match catalogue::find(set, &options) {
        Place::Missing => Err(catalogue::missing(set, &options)),
        place if common.json => json(&FileLocation::new(&place)),
        Place::Embedded => Err(Error::Request(format!("{} is inside the command and has no file", set.name))),
        Place::File(path) => Ok(format!("{}\n", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, text};
    use super::*;
    use crate::data::catalogue::Options;

    /// Returns a directory with a small svmguide3.
    fn placed() -> tempfile::TempDir {
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("svmguide3"), "1 1:0.5\n-1 2:0.25 22:1\n-1\n").unwrap();
        here
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
        assert_eq!(json["counts"]["groups"][0]["rows"], 310);
        assert_eq!(json["counts"]["files"][0]["check"], "match");
        assert_eq!(json["name"], "german");
        let ready = &json["counts"]["prepared"];
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
    fn info_of_a_missing_set_says_how_to_get_it() {
        let set = catalogue::get("w8a").unwrap();
        let missing = Some(catalogue::missing(set, &Options::default()).to_string());
        let info = Info { entry: Entry::new(set, &Place::Missing), counts: None, missing };
        let text = describe(set, &Place::Missing, &info);
        assert!(text.contains("where    missing\n"), "{text}");
        assert!(text.contains("note     the data set w8a is missing: put the file w8a.gz or w8a into"), "{text}");
        assert!(text.contains("rows     49749 in the catalogue's copy\n"), "{text}");
        let set = catalogue::get("compas-two-years").unwrap();
        let info = Info { entry: Entry::new(set, &Place::Missing), counts: None, missing: None };
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
        let info = Info { entry: Entry::new(set, &Place::Missing), counts: None, missing: None };
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
            assert!(error.starts_with("unknown data set 'adlut'; did you mean 'adult'?"), "{error}");
        }
    }
}
