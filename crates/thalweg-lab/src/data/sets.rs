//! The table of data sets that are available by name: description, files, source and terms. They are found, read and counted in
//! [`super::catalogue`].

use super::prepared::{BANK, COMPAS_ALL, COMPAS_TWO_YEARS, GERMAN_CREDIT, Recipe};
use super::table::Layout;
use super::{adult, covtype};

/// Embedded German credit data.
pub(super) const GERMAN: &[u8] = include_bytes!("../../assets/german.data.gz");

/// Data set with a name.
#[derive(Debug, Clone, Copy)]
pub struct Set {
    /// Name on the command line and in specs.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Files of the set.
    pub files: &'static [SetFile],
    /// Number of rows.
    pub rows: usize,
    /// Number of feature columns; for a raw table, all columns including the label.
    pub columns: usize,
    /// Meaning of the label.
    pub label: &'static str,
    /// Meaning of the groups; the first is the protected one.
    pub groups: Option<&'static str>,
    /// Where to obtain it.
    pub source: &'static str,
    /// Terms of use, as far as known.
    pub licence: &'static str,
    /// Whether it is embedded in the binary.
    pub embedded: bool,
    pub(super) form: Form,
}

/// File of a set.
#[derive(Debug, Clone, Copy)]
pub struct SetFile {
    /// File name; the name without `.gz` is accepted too.
    pub name: &'static str,
    /// sha256 of the gzip file.
    pub sha256: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    A9a,
    Libsvm { group: Option<ColumnGroup> },
    Covtype,
    Adult(Reading),
    German(Reading),
    Table(Layout, Reading),
}

/// Value in a column (counted from 0) of the rows in the first group.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnGroup {
    pub(super) column: usize,
    pub(super) value: f64,
    pub(super) names: [&'static str; 2],
}

/// Label and group columns of a raw table, and its recipe if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) label: &'static str,
    pub(super) positive: &'static str,
    pub(super) group: &'static str,
    pub(super) first: First,
    pub(super) names: [&'static str; 2],
    pub(super) recipe: Option<&'static Recipe>,
}

/// Cells of the group column that put a row into the first group; all others put it into the second.
#[derive(Debug, Clone, Copy)]
pub(super) enum First {
    /// These words.
    Words(&'static [&'static str]),
    /// All words but this one.
    AllBut(&'static str),
    /// Numbers from the first to the second, both included.
    Within(f64, f64),
}

impl First {
    pub(super) fn has(&self, cell: &str) -> bool {
        match self {
            First::Words(words) => words.contains(&cell),
            First::AllBut(word) => cell != *word,
            First::Within(low, high) => cell.parse().is_ok_and(|v: f64| (*low..=*high).contains(&v)),
        }
    }
}

const CSV: Layout = Layout { separator: b',', names: None, leave_out: |_| false };
/// ProPublica's originals name real people; those columns are dropped while reading, so that they cannot be printed.
const COMPAS: Layout = Layout { leave_out: personal, ..CSV };
pub(super) const GERMAN_LAYOUT: Layout = Layout {
    separator: b' ',
    names: Some(&[
        "status",
        "duration",
        "credit-history",
        "purpose",
        "credit-amount",
        "savings",
        "employment",
        "instalment-rate",
        "personal-status",
        "other-debtors",
        "residence-since",
        "property",
        "age",
        "other-instalment-plans",
        "housing",
        "existing-credits",
        "job",
        "people-liable",
        "telephone",
        "foreign-worker",
        "risk",
    ]),
    ..CSV
};

fn personal(column: &str) -> bool {
    matches!(column, "name" | "first" | "last" | "dob") || column.ends_with("_case_number")
}

const ADULT_FILES: &[SetFile] = &[
    SetFile { name: "adult.data.gz", sha256: "c7a2b4716a97f930123e0baf879188d701e798172631a654fc703d4b082907f3" },
    SetFile { name: "adult.test.gz", sha256: "8a2c1bffa6e7ce5abfa43881ae5e87c4311ebc2b3cd526c9c40a43f19f06f799" },
];
const UCI_ADULT: &str = "UCI Machine Learning Repository, Adult (Becker and Kohavi 1996), DOI 10.24432/C5XW20";
const CC_BY: &str = "CC BY 4.0";
const NONE_STATED: &str = "none stated";
const RACE: Reading = Reading {
    label: "is_recid",
    positive: "1",
    group: "race",
    first: First::AllBut("Caucasian"),
    names: ["not Caucasian", "Caucasian"],
    recipe: None,
};

impl Set {
    /// Returns whether the set is a raw table for [`super::catalogue::table`] rather than rows of numbers.
    pub fn is_table(&self) -> bool {
        self.reading().is_some()
    }

    /// Returns the recipe of a raw table; `None` if there is none, and for rows of numbers, which need none.
    pub fn recipe(&self) -> Option<&'static Recipe> {
        self.reading().and_then(|reading| reading.recipe)
    }

    /// Returns whether [`super::catalogue::load`] accepts the set: it is rows of numbers, or has a recipe.
    pub fn is_loadable(&self) -> bool {
        !self.is_table() || self.recipe().is_some()
    }

    fn reading(&self) -> Option<&Reading> {
        match &self.form {
            Form::Adult(reading) | Form::German(reading) | Form::Table(_, reading) => Some(reading),
            Form::A9a | Form::Libsvm { .. } | Form::Covtype => None,
        }
    }

    /// Lists the accepted names of the first file.
    pub(super) fn file_names(&self) -> impl Iterator<Item = &'static str> {
        self.files.iter().take(1).flat_map(|f| [Some(f.name), f.name.strip_suffix(".gz")]).flatten()
    }
}

/// All data sets, in the order of listings.
pub const SETS: &[Set] = &[
    Set {
        name: "a9a",
        about: "Adult in LIBSVM's binary coding: training part, then test part",
        files: ADULT_FILES,
        rows: 48_842,
        columns: adult::COLUMNS,
        label: "+1 = income above 50K",
        groups: Some("female (column 72), male (column 73)"),
        source: UCI_ADULT,
        licence: "CC BY 4.0 (Adult); the coding is rebuilt by rules of our own",
        embedded: true,
        form: Form::A9a,
    },
    Set {
        name: "adult",
        about: "UCI Adult (census income), raw table: training part, then test part",
        files: ADULT_FILES,
        rows: 48_842,
        columns: 15,
        label: "income: >50K is positive",
        groups: Some("sex: female, male"),
        source: UCI_ADULT,
        licence: CC_BY,
        embedded: true,
        form: Form::Adult(Reading {
            label: adult::LABEL,
            positive: adult::POSITIVE,
            group: "sex",
            first: First::Words(&["Female"]),
            names: ["female", "male"],
            recipe: None,
        }),
    },
    Set {
        name: "bank",
        about: "UCI Bank Marketing, bank-additional-full, raw table; specs get it coded, numbers divided by their largest",
        files: &[SetFile {
            name: "bank-additional-full.csv.gz",
            sha256: "25ef5a7f820659c9010405d079b068761b9e4a75c232a6271ee6a77fc3de52ae",
        }],
        rows: 41_188,
        columns: 21,
        label: "y: yes is positive",
        groups: Some("age 25 to 60, other ages"),
        source: "UCI Machine Learning Repository, Bank Marketing, bank-additional-full.csv",
        licence: "CC BY 4.0; cite Moro, Cortez and Rita 2014",
        embedded: false,
        form: Form::Table(
            Layout { separator: b';', ..CSV },
            Reading {
                label: "y",
                positive: "yes",
                group: "age",
                first: First::Within(25.0, 60.0),
                names: ["age 25 to 60", "other ages"],
                recipe: Some(&BANK),
            },
        ),
    },
    Set {
        name: "compas",
        about: "ProPublica COMPAS, all defendants, raw table without names; specs get it coded, numbers divided by their largest",
        files: &[SetFile {
            name: "compas-scores.csv.gz",
            sha256: "acbeb9be534c0a88d23302a5cda894683c5f47322c3375f37689c016dad42396",
        }],
        rows: 11_757,
        columns: 40,
        label: "is_recid: 1 is positive; -1 is unknown, which specs count as negative",
        groups: Some("race: not Caucasian, Caucasian"),
        source: "ProPublica compas-analysis repository, compas-scores.csv",
        licence: "public court records; the repository states none",
        embedded: false,
        form: Form::Table(COMPAS, Reading { recipe: Some(&COMPAS_ALL), ..RACE }),
    },
    Set {
        name: "compas-two-years",
        about: "ProPublica COMPAS, two-year follow-up, raw table without names; specs get it filtered, numbers divided by their largest",
        files: &[SetFile {
            name: "compas-scores-two-years.csv.gz",
            sha256: "79f4e1e3ede929073138fd0ab820b44252deaf9aeca9ab55977c6ac2f6454f4b",
        }],
        rows: 7_214,
        columns: 46,
        label: "two_year_recid: 1 is positive",
        groups: Some("race: not Caucasian, Caucasian"),
        source: "ProPublica compas-analysis repository, compas-scores-two-years.csv",
        licence: "public court records; the repository states none",
        embedded: false,
        form: Form::Table(COMPAS, Reading { label: "two_year_recid", recipe: Some(&COMPAS_TWO_YEARS), ..RACE }),
    },
    Set {
        name: "german",
        about: "UCI Statlog German credit, raw table; specs get each attribute as one number, divided by its largest",
        files: &[SetFile { name: "german.data.gz", sha256: "a4cc977b7fc38d60827f2f881d8377954ece4d7ade5d026e827307bb63395df2" }],
        rows: 1_000,
        columns: 21,
        label: "risk: 1 = good is positive; german-numer has it the other way round",
        groups: Some("personal-status: female (A92, A95), male"),
        source: "UCI Machine Learning Repository, Statlog German Credit (Hofmann 1994), DOI 10.24432/C5NC77",
        licence: CC_BY,
        embedded: true,
        form: Form::German(Reading {
            label: "risk",
            positive: "1",
            group: "personal-status",
            first: First::Words(&["A92", "A95"]),
            names: ["female", "male"],
            recipe: Some(&GERMAN_CREDIT),
        }),
    },
    Set {
        name: "german-numer",
        about: "German credit in LIBSVM's numeric coding, not scaled",
        files: &[SetFile { name: "german.numer.gz", sha256: "c4a9dd3212e01ea878e05fb14c26b55a8ce600f76b50860b416f51896d65aabb" }],
        rows: 1_000,
        columns: 24,
        label: "+1 = bad risk",
        groups: Some("female (column 7 is 2), male"),
        source: "LIBSVM data page (binary), german.numer",
        licence: "CC BY 4.0 (Statlog German Credit)",
        embedded: false,
        form: Form::Libsvm { group: Some(ColumnGroup { column: 6, value: 2.0, names: ["female", "male"] }) },
    },
    Set {
        name: "w8a",
        about: "web pages by keywords, zeros and ones",
        files: &[SetFile { name: "w8a.gz", sha256: "bbb05ebf2874051515c57bb657ee66dfa1cec7293005d6bc0eaf255d45d9befb" }],
        rows: 49_749,
        columns: 300,
        label: "+1 = page of the category",
        groups: None,
        source: "LIBSVM data page (binary), w8a",
        licence: NONE_STATED,
        embedded: false,
        form: Form::Libsvm { group: None },
    },
    Set {
        name: "svmguide3",
        about: "vehicle data of the LIBSVM guide, training part",
        files: &[SetFile { name: "svmguide3.gz", sha256: "236dda5110ad7d15b360b05efb2299a5b68ce9320f4c2abf625fb2d5d507d106" }],
        rows: 1_243,
        columns: 22,
        label: "+1 and -1",
        groups: None,
        source: "LIBSVM data page (binary), svmguide3",
        licence: NONE_STATED,
        embedded: false,
        form: Form::Libsvm { group: None },
    },
    Set {
        name: "covtype-sample",
        about: "random sample of UCI Covertype, not the full 581,012 rows",
        files: &[SetFile {
            name: "covtype-sample.data.gz",
            sha256: "3907e9424bb37888fbf29865160dcf6f47f30d01922c7bf31ddfec70895e08c1",
        }],
        rows: 19_851,
        columns: covtype::COLUMNS,
        label: "+1 = cover type 2",
        groups: None,
        source: "UCI Machine Learning Repository, Covertype: lines of covtype.data",
        licence: "CC BY 4.0; copyright J. A. Blackard and Colorado State University",
        embedded: false,
        form: Form::Covtype,
    },
    Set {
        name: "rcv1-slice",
        about: "slice of RCV1-v2, rows of unit norm; not rcv1_train.binary",
        files: &[SetFile {
            name: "rcv1-slice.svm.gz",
            sha256: "f59f4c250cf2a86d7ddc0a302ef01bc2a0535f3de58dc98c75217a808e5c4f9d",
        }],
        rows: 1_747,
        columns: 47_236,
        label: "+1 = most likely topic CCAT",
        groups: None,
        source: "Vowpal Wabbit repository, rcv1_small.dat, rcv1_small_test.data and rcv1_smaller.dat in the LIBSVM format",
        licence: "BSD 3-clause (repository); RCV1-v2 is distributed for research",
        embedded: false,
        form: Form::Libsvm { group: None },
    },
    Set {
        name: "reuters-money-fx",
        about: "Reuters-21578, topic money-fx",
        files: &[SetFile {
            name: "reuters-money-fx.svm.gz",
            sha256: "5428611b48a29aef2fcd2cc1b8ed1e389d1ad0a96910bfe25b000c440e386fb0",
        }],
        rows: 7_770,
        columns: 8_315,
        label: "+1 = topic money-fx",
        groups: None,
        source: "tick-datasets repository, binary/reuters, reuters.trn unpacked",
        licence: "BSD 3-clause (repository); Reuters-21578 is distributed for research",
        embedded: false,
        form: Form::Libsvm { group: None },
    },
];
