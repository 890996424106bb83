//! Limits on what is read from files, so that a small or endless input cannot take all memory. A regular file without
//! compression is not limited as a whole: it takes as much space on the disk as it claims. The limits are those of the process;
//! [`LimitArgs`] raises them.

use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// Bytes that a gzip file, a pipe or a device may give; for gzip also [`RATIO`] times its size.
const TEXT: u64 = 4 << 30;
/// Times its own size that a gzip file may give, beyond [`FREE`] bytes. Text of tables rarely exceeds 30.
const RATIO: u64 = 100;
/// Bytes that a gzip file may give whatever its size is.
const FREE: u64 = 64 << 20;
/// Bytes of a line of a LIBSVM file.
const LINE: u64 = 64 << 20;
/// Columns of a LIBSVM file. Every solver has several numbers for each column.
const COLUMNS: u64 = 20_000_000;

static MAX_TEXT: AtomicU64 = AtomicU64::new(0);
static MAX_LINE: AtomicU64 = AtomicU64::new(LINE);
static MAX_COLUMNS: AtomicU64 = AtomicU64::new(COLUMNS);

/// Options that raise the limits.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Read at most this much text from a gzip file, a pipe or a device, such as 20G [default: 4G, and 100 times the gzip]
    #[arg(long, value_name = "SIZE", global = true, hide_short_help = true)]
    max_text: Option<Size>,
    /// Read lines of a LIBSVM file up to this length [default: 64M]
    #[arg(long, value_name = "SIZE", global = true, hide_short_help = true)]
    max_line: Option<Size>,
    /// Accept this many columns of a LIBSVM file [default: 20000000]
    #[arg(long, value_name = "N", global = true, hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    max_columns: Option<u64>,
}

impl LimitArgs {
    /// Sets the limits of the process.
    pub fn set(self) {
        MAX_TEXT.store(self.max_text.map_or(0, |size| size.0), Ordering::Relaxed);
        MAX_LINE.store(self.max_line.map_or(LINE, |size| size.0), Ordering::Relaxed);
        MAX_COLUMNS.store(self.max_columns.unwrap_or(COLUMNS), Ordering::Relaxed);
    }
}

/// Number of bytes, with an optional K, M, G or T for powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size(u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
            Some(b'K') => (&text[..text.len() - 1], 10),
            Some(b'M') => (&text[..text.len() - 1], 20),
            Some(b'G') => (&text[..text.len() - 1], 30),
            Some(b'T') => (&text[..text.len() - 1], 40),
            _ => (text, 0),
        };
        let bytes = digits.parse::<u64>().ok().filter(|&n| n > 0).and_then(|n| n.checked_mul(1 << shift));
        bytes.map(Size).ok_or_else(|| "expected a number of bytes above 0, such as 500M or 20G".into())
    }
}

/// Formats a number of bytes as [`Size`] reads it.
fn size(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Limit on the text of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLimit {
    /// A regular file without compression.
    None,
    /// A pipe or a device.
    Stream,
    /// A gzip file.
    Gzip,
}

impl TextLimit {
    /// Checks the number of bytes given so far, of which `stored` were read from the file.
    #[inline]
    pub fn check(self, given: u64, stored: u64) -> Result<(), String> {
        if self == TextLimit::None || (given <= FREE && MAX_TEXT.load(Ordering::Relaxed) == 0) {
            return Ok(());
        }
        let option = MAX_TEXT.load(Ordering::Relaxed);
        let (most, why) = match (option, self) {
            (0, TextLimit::Gzip) if given <= TEXT => {
                (FREE.max(RATIO.saturating_mul(stored)), format!("{RATIO} times the size of the gzip"))
            }
            (0, _) => (TEXT, size(TEXT)),
            (option, _) => (option, size(option)),
        };
        if given <= most {
            return Ok(());
        }
        let what = if self == TextLimit::Gzip { "the gzip contains more text" } else { "gives more text" };
        Err(format!("{what} than {why}; expected less, or a larger limit with --max-text SIZE"))
    }
}

/// Returns the largest length of a line.
pub fn line() -> u64 {
    MAX_LINE.load(Ordering::Relaxed)
}

/// Describes a line of more than `most` bytes.
pub fn too_long(most: u64) -> String {
    format!("the line is longer than {}; expected a shorter one, or a larger limit with --max-line SIZE", size(most))
}

/// Returns the number of bytes of a pipe or device with settings or a model.
pub fn small_stream() -> u64 {
    match MAX_TEXT.load(Ordering::Relaxed) {
        0 => FREE,
        option => option,
    }
}

/// Describes a pipe or a device that gives more than `most` bytes.
pub fn too_much(most: u64) -> String {
    format!("gives more text than {}; expected less, or a larger limit with --max-text SIZE", size(most))
}

/// Returns the largest number of columns that needs no statement by the user.
pub fn columns() -> usize {
    usize::try_from(MAX_COLUMNS.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
}

/// Checks the number of columns of a file, before anything has an entry for each.
pub fn check_columns(file: &Path, found: usize) -> Result<()> {
    let most = columns();
    if found <= most {
        return Ok(());
    }
    let what = format!("has {found} columns; expected at most {most}, or a larger limit with --max-columns N");
    Err(Error::file(file, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [("1", 1), ("20G", 20 << 30), ("64m", 64 << 20), ("3K", 3072), ("2T", 2 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(size(bytes), text.to_uppercase());
        }
        for bad in ["", "0", "-1", "G", "1.5G", "18446744073709551615T", "é"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn text_is_limited_by_its_source() {
        let gzip = |given, stored| TextLimit::Gzip.check(given, stored);
        assert!(TextLimit::None.check(u64::MAX, 0).is_ok());
        assert!(TextLimit::Stream.check(TEXT, TEXT).is_ok() && TextLimit::Stream.check(TEXT + 1, TEXT).is_err());
        assert!(gzip(FREE, 1).is_ok() && gzip(FREE + 1, 1).is_err());
        assert!(gzip(RATIO * 10_000_000, 10_000_000).is_ok() && gzip(RATIO * 10_000_000 + 1, 10_000_000).is_err());
        assert!(gzip(TEXT, TEXT).is_ok() && gzip(TEXT + 1, TEXT).is_err());
        let sentence = gzip(FREE + 1, 1).unwrap_err();
        assert_eq!(
            sentence,
            "the gzip contains more text than 100 times the size of the gzip; expected less, or a larger limit with --max-text SIZE"
        );
    }
}
