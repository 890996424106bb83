//! Writing: text, JSON and aligned columns to standard output in one locked write, messages to standard error, and files, which
//! are written whole or not at all. A closed pipe (as with `head`) is not an error. Text for people never contains control
//! characters other than line breaks, wherever it came from; data are written as they are, except to a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use thalweg::Note;
use thalweg::run::output_file;
use thalweg::run::{ConstraintValue, Point};

use crate::{Error, Result};

/// Formats a note with the options of the command that it suggests.
pub fn with_options(note: &Note) -> String {
    match note {
        Note::DomainChosen { .. } => format!("{note}; choose another with --domain RADIUS or --domain all"),
        Note::FirstConstraintSwept { .. } => format!("{note}; choose another with --of"),
        Note::Repeat { solver, settings, seed: Some(seed) } => {
            let set: String = settings.iter().map(|(name, value)| format!(" --set {name}={value}")).collect();
            format!("to repeat: --solver {solver}{set} --seed {seed}")
        }
        _ => note.to_string(),
    }
}

/// Number of constraints above which only the worst are shown, and the others are counted.
pub const CROWD: usize = 20;

/// Selects the constraints of a point to show, each with its bound: all, or if there are more than [`CROWD`] the `worst` ones,
/// worst first.
pub fn few<'p>(point: &'p Point, bounds: &[f64], worst: usize) -> Vec<(&'p ConstraintValue, f64)> {
    let mut all: Vec<_> = point.constraints.iter().zip(bounds.iter().copied()).collect();
    if point.total > CROWD {
        all.sort_by(|(a, _), (b, _)| b.value.total_cmp(&a.value));
        all.truncate(worst);
    }
    all
}

/// Name of standard output in place of a file.
pub const STANDARD_OUTPUT: &str = "-";

/// Writes text for people to standard output.
pub fn print(text: &str) -> Result<()> {
    write(&mut std::io::stdout().lock(), &visible_lines(text))
}

/// Writes data, such as CSV, to standard output: byte for byte, except that a terminal gets no control characters.
pub fn print_data(text: &str) -> Result<()> {
    if std::io::stdout().is_terminal() { print(text) } else { write(&mut std::io::stdout().lock(), text) }
}

/// Writes a message in one line to standard error. A closed standard error cannot be reported.
pub fn message(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{}", visible(&text.to_string()));
}

/// Returns whether a file is standard output.
pub fn is_standard_output(file: &Path) -> bool {
    file.as_os_str() == STANDARD_OUTPUT
}

/// Writes a file, completely or not at all; [`STANDARD_OUTPUT`], devices and pipes are written directly.
pub fn write_whole(file: &Path, text: &str) -> Result<()> {
    if is_standard_output(file) {
        return print_data(text);
    }
    output_file::write_file(file, text.as_bytes()).map_err(|e| Error::io(file, &e))
}

/// Checks that [`write_whole`] could write this file, or returns why not. It leaves no file behind.
pub fn check_writable(file: &Path) -> Result<(), String> {
    if is_standard_output(file) {
        return Ok(());
    }
    if file.is_dir() || file.file_name().is_none() {
        return Err("is a directory; expected a file".into());
    }
    let parent = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(format!("there is no directory {}; expected one that exists", parent.display()));
    }
    output_file::check_writable(file).map_err(|e| format!("cannot be written: {e}"))
}

/// Checks that the file of an option can be written, and that it is none of the files that the command reads, each with its
/// description.
pub fn check_output(option: &str, file: &Path, read: &[(&str, &Path)]) -> Result<()> {
    let refuse = |what: String| Error::Request(format!("{option} {}: {what}", file.display()));
    match read.iter().find(|(_, other)| is_same_file(file, other)) {
        Some((what, _)) => Err(refuse(format!("is {what}; expected another file"))),
        None => check_writable(file).map_err(refuse),
    }
}

/// Returns whether two paths name one regular file. Devices and pipes may be read and written at the same time.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    if is_standard_output(a) || is_standard_output(b) {
        return false;
    }
    // A file may have several names; one that does not exist yet cannot be canonicalised.
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b && a.is_file(),
        _ => a == b,
    }
}

/// Checks that at most one of these outputs is standard output, and that nothing else is printed there.
pub fn check_standard_output(outputs: &[(&str, Option<&Path>)], as_json: bool) -> Result<()> {
    let json = as_json.then_some("--json");
    let options = outputs.iter().filter(|(_, file)| file.is_some_and(is_standard_output)).map(|(option, _)| *option);
    match options.chain(json).collect::<Vec<_>>()[..] {
        [first, second, ..] => Err(Error::Request(format!(
            "{first} {STANDARD_OUTPUT} and {second} both write to standard output; expected one of them"
        ))),
        _ => Ok(()),
    }
}

/// Returns whether a character must not reach a terminal: control characters, and those that reorder text.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Bytes below 32 and 127 are controls; the others that are hidden are not ASCII.
    if text.bytes().all(|b| (32..127).contains(&b)) || !text.chars().any(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Escapes line breaks, other control characters, and characters that reorder text, as in `\n` and `\u{1b}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Escapes control characters as [`visible`] does, but keeps the line breaks.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_hidden(c))
}

/// Writes a value to standard output as indented JSON and a line break.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&json(value)?)
}

/// Largest number of characters of one piece of input that a message quotes.
pub use thalweg::error::QUOTED;

/// Largest number of characters of a message; its middle is left out.
const MESSAGE: usize = 1500;

/// Shortens words and quoted passages of more than [`QUOTED`] characters, which only input has, and the whole message where many
/// pieces of input are in it.
pub fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= QUOTED {
        return Cow::Borrowed(text);
    }
    let mut short = String::with_capacity(text.len().min(4 * MESSAGE));
    let mut rest = text;
    while let Some(open) = rest.find(['\'', '"', '`']) {
        let (before, passage) = rest.split_at(open);
        let mark = &passage[..1];
        // An apostrophe within a word opens nothing.
        let opens = !before.ends_with(|c: char| c.is_alphanumeric());
        let Some(length) = passage[1..].find(mark).filter(|_| opens) else {
            short += before;
            short += mark;
            rest = &passage[1..];
            continue;
        };
        short += before;
        short += &format!("{mark}{}{mark}", thalweg::error::quoted(&passage[1..=length]));
        rest = &passage[length + 2..];
    }
    short += rest;
    let word = |piece: &str| {
        let word = piece.trim_end();
        format!("{}{}", thalweg::error::quoted(word), &piece[word.len()..])
    };
    let mut short: String = short.split_inclusive(char::is_whitespace).map(word).collect();
    let count = short.chars().count();
    if count > MESSAGE {
        let head: String = short.chars().take(MESSAGE / 2).collect();
        short = format!("{head} … {}", short.chars().skip(count - MESSAGE / 2).collect::<String>());
    }
    Cow::Owned(short)
}

/// Formats a value as indented JSON and a line break. The text has no control characters other than line breaks.
pub fn json(value: &impl serde::Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).map_err(|e| Error::Request(format!("cannot be written as JSON: {e}")))?;
    let hidden = |c: char| c != '\n' && is_hidden(c);
    if !text.is_ascii() || text.contains('\x7f') {
        // All of them have four hexadecimal digits, and occur only within strings.
        let escape = |c: char| if hidden(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
        text = if text.contains(hidden) { text.chars().map(escape).collect() } else { text };
    }
    Ok(text + "\n")
}

/// Formats a number with as few digits as necessary, at most six.
pub fn short(value: f64) -> String {
    let rounded = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded == 0.0 || (1e-4..1e6).contains(&f64::abs(rounded)) { format!("{rounded}") } else { format!("{rounded:e}") }
}

/// Formats an interval, with its ends multiplied by `factor`.
pub fn between([low, high]: [f64; 2], decimals: usize, factor: f64) -> String {
    format!("{:.decimals$} to {:.decimals$}", factor * low, factor * high)
}

/// Formats rows of cells as lines with aligned columns, two spaces apart; the columns in `right` (counted from 0) are
/// right-aligned. Line breaks within cells are escaped.
pub fn align<R: AsRef<[String]>>(rows: &[R], right: &[usize]) -> String {
    let rows: Vec<Vec<Cow<str>>> = rows.iter().map(|row| row.as_ref().iter().map(|cell| visible(cell)).collect()).collect();
    let width = |cell: &Cow<str>| cell.chars().count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |j: usize| rows.iter().filter_map(|row| row.get(j)).map(width).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (j, cell) in row.iter().enumerate() {
            let space = " ".repeat(widths[j] - width(cell));
            let (before, after) = if right.contains(&j) { (space.as_str(), "") } else { ("", space.as_str()) };
            line += &format!("{}{before}{cell}{after}", if j > 0 { "  " } else { "" });
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn write(out: &mut impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::io(Path::new("standard output"), &e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails(ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn notes_name_the_options_of_the_command() {
        let swept = Note::FirstConstraintSwept { constraint: "l2".into(), constraints: 2 };
        assert_eq!(swept.to_string(), "sweeping the bound of 'l2', the first of 2 constraints");
        assert_eq!(with_options(&swept), "sweeping the bound of 'l2', the first of 2 constraints; choose another with --of");
        let domain = with_options(&Note::DomainChosen { domain: "ball".into() });
        assert!(domain.ends_with("has a variance; choose another with --domain RADIUS or --domain all"), "{domain}");
        let settings = [("eta".to_string(), "0.5".to_string())].into();
        let repeat = |seed| Note::Repeat { solver: thalweg::solvers::SolverName::Ssg, settings: Clone::clone(&settings), seed };
        assert_eq!(with_options(&repeat(Some(3))), "to repeat: --solver ssg --set eta=0.5 --seed 3");
        assert_eq!(with_options(&repeat(None)), "to repeat: name = \"ssg\", eta = 0.5");
        assert_eq!(with_options(&Note::LastGoodPoint), Note::LastGoodPoint.to_string());
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["é", "10", "x"], ["long", "5", ""]].map(|row| row.map(String::from));
        assert_eq!(align(&rows, &[1]), "é     10  x\nlong   5\n");
        assert_eq!(align::<[String; 2]>(&[], &[]), "");
    }

    #[test]
    fn hidden_characters_become_visible() {
        assert!(matches!(visible("plain é 表"), Cow::Borrowed(_)));
        assert_eq!(visible("a\u{1b}[31m\n\t\u{7f}\u{9b}\u{202e}b"), "a\\u{1b}[31m\\n\\t\\u{7f}\\u{9b}\\u{202e}b");
        assert_eq!(visible_lines("a\n\u{1b}b"), "a\n\\u{1b}b");
        assert_eq!(align(&[["a\nb", "c"].map(String::from)], &[]), "a\\nb  c\n");
        let text = "\u{1b}\n\u{7f}\u{9b}\u{2066}é";
        let written = json(&[text]).unwrap();
        assert_eq!(written, "[\n  \"\\u001b\\n\\u007f\\u009b\\u2066é\"\n]\n");
        assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), [text]);
    }

    #[test]
    fn long_words_are_shortened() {
        let long = "é".repeat(QUOTED + 1);
        assert_eq!(shortened(&format!("a {long} b")), format!("a {}… b", "é".repeat(QUOTED)));
        assert!(matches!(shortened("a b"), Cow::Borrowed(_)));
        let many = "ab ".repeat(300);
        let start: String = many.chars().take(QUOTED).collect();
        for mark in ["'", "\"", "`"] {
            let message = format!("the solver's name {mark}{many}{mark} is not {mark}ssg{mark}");
            assert_eq!(shortened(&message), format!("the solver's name {mark}{start}…{mark} is not {mark}ssg{mark}"));
        }
        // Without quotes, or with quotes in it, the whole is shortened.
        for text in [many.repeat(10), "'ab' ".repeat(3000)] {
            let short = shortened(&text);
            assert!(short.chars().count() == MESSAGE + 3 && short.contains(" … "), "{short}");
        }
    }

    #[test]
    fn one_output_can_be_standard_output() {
        let (dash, file) = (Some(Path::new("-")), Some(Path::new("f")));
        assert!(check_standard_output(&[("--out", dash), ("--report", file), ("--trace", None)], false).is_ok());
        assert!(check_standard_output(&[("--out", file)], true).is_ok());
        let error = check_standard_output(&[("--out", dash), ("--report", dash)], false).unwrap_err().to_string();
        assert_eq!(error, "--out - and --report both write to standard output; expected one of them");
        assert!(check_standard_output(&[("--out", dash)], true).is_err());
        assert!(!is_same_file(Path::new("-"), Path::new("-")));
    }

    #[test]
    fn only_a_broken_pipe_is_forgiven() {
        let mut out = vec![];
        write(&mut out, "text\n").unwrap();
        assert_eq!(out, b"text\n");
        assert!(write(&mut Fails(ErrorKind::BrokenPipe), "text").is_ok());
        let error = write(&mut Fails(ErrorKind::StorageFull), "text").unwrap_err().to_string();
        assert!(error.starts_with("standard output: "), "{error}");
        assert_eq!(json(&[1]).unwrap(), "[\n  1\n]\n");
    }
}
