//! Writing to standard output: text, JSON and aligned columns in one locked write. A closed pipe (as with `head`) is not an
//! error. Messages on standard error are written by the command's `main`.

use std::io::{ErrorKind, Write};
use std::path::Path;

use thalweg::Note;
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

/// Writes text to standard output.
pub fn print(text: &str) -> Result<()> {
    write(&mut std::io::stdout().lock(), text)
}

/// Writes a value to standard output as indented JSON and a line break.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&json(value)?)
}

/// Formats a value as indented JSON and a line break.
pub fn json(value: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::Request(format!("cannot be written as JSON: {e}")))?;
    Ok(text + "\n")
}

/// Formats a number with as few digits as necessary, at most six.
pub fn short(value: f64) -> String {
    let rounded = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded == 0.0 || (1e-4..1e6).contains(&f64::abs(rounded)) { format!("{rounded}") } else { format!("{rounded:e}") }
}

/// Formats rows of cells as lines with aligned columns, two spaces apart; the columns in `right` (counted from 0) are
/// right-aligned.
pub fn align<R: AsRef<[String]>>(rows: &[R], right: &[usize]) -> String {
    let width = |cell: &String| cell.chars().count();
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let widest = |j: usize| rows.iter().filter_map(|row| row.as_ref().get(j)).map(width).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (j, cell) in row.as_ref().iter().enumerate() {
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
