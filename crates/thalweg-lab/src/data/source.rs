//! Bytes of a data set, plain or gzip, with their hashes. The readers interpret them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::limits::{self, TextLimit};
use crate::{Error, Result};

/// Block size; large, since the files have up to millions of short lines.
const BLOCK: usize = 1 << 20;

/// sha256 of a source that was read to its end, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashes {
    /// Hash of the bytes as stored.
    pub placed: String,
    /// Hash of the text inside, which is the same for a file and its gzip.
    pub text: String,
    /// Whether the stored bytes were gzip.
    pub gzip: bool,
}

/// Source of text with a name for messages and a line counter. Gzip is recognised by its first two bytes, not by the file name.
#[derive(Debug)]
pub struct Source<R: Read> {
    name: String,
    text: BufReader<Limited<R>>,
    line: usize,
}

/// Text with a limit on its length.
#[derive(Debug)]
struct Limited<R: Read> {
    text: Decoded<R>,
    limit: TextLimit,
}

#[derive(Debug)]
enum Decoded<R: Read> {
    Plain(Hashing<BufReader<R>>),
    Gzip(Box<Hashing<MultiGzDecoder<Hashing<BufReader<R>>>>>),
}

/// Reader that hashes the bytes it passes on.
#[derive(Debug)]
struct Hashing<R> {
    inner: R,
    state: Sha256,
    count: u64,
}

impl<R> Hashing<R> {
    fn new(inner: R) -> Self {
        Hashing { inner, state: Sha256::new(), count: 0 }
    }
}

impl Source<File> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |e| Error::io(path, &e);
        let file = File::open(path).map_err(io)?;
        let limit = if file.metadata().map_err(io)?.is_file() { TextLimit::None } else { TextLimit::Stream };
        Self::limited(&path.display().to_string(), file, limit)
    }
}

impl<R: Read> Source<R> {
    /// Reads from any reader; `name` is used in messages.
    pub fn new(name: &str, from: R) -> Result<Self> {
        Self::limited(name, from, TextLimit::None)
    }

    /// Reads from any reader; a gzip has a limit of its own.
    fn limited(name: &str, from: R, limit: TextLimit) -> Result<Self> {
        let mut raw = BufReader::with_capacity(BLOCK, from);
        let gzip = raw.fill_buf().map_err(|e| Error::io(Path::new(name), &e))?.starts_with(&[0x1f, 0x8b]);
        let raw = Hashing::new(raw);
        let limited = if gzip {
            let text = Decoded::Gzip(Box::new(Hashing::new(MultiGzDecoder::new(raw))));
            Limited { text, limit: TextLimit::Gzip }
        } else {
            Limited { text: Decoded::Plain(raw), limit }
        };
        Ok(Source { name: name.into(), text: BufReader::with_capacity(BLOCK, limited), line: 0 })
    }

    /// Reads the next line, with its end, into `line`; false at the end of the source.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        self.line += 1;
        let (most, too_long) = (limits::line(), limits::too_long);
        match Read::by_ref(&mut self.text).take(most.saturating_add(1)).read_until(b'\n', line) {
            Ok(got) if got as u64 > most => Err(self.bad(too_long(most))),
            Ok(got) => Ok(got > 0),
            Err(e) => Err(self.bad(format!("cannot be read any further: {e}"))),
        }
    }

    /// Returns the whole text. Binary data are rejected at the first block, before the rest is read.
    pub fn text(&mut self) -> Result<String> {
        let mut bytes = vec![];
        loop {
            let start = bytes.len();
            if let Err(e) = (&mut self.text).take(BLOCK as u64).read_to_end(&mut bytes) {
                return Err(self.broken(&e));
            }
            if bytes.len() == start {
                break;
            }
            if let Some(at) = bytes[start..].iter().position(|b| *b == 0) {
                return Err(self.not_text(&bytes, start + at, "it has a NUL byte here"));
            }
        }
        String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            let what = format!("the byte {:#04x} here is not UTF-8", e.as_bytes()[at]);
            self.not_text(e.as_bytes(), at, &what)
        })
    }

    fn not_text(&self, bytes: &[u8], at: usize, what: &str) -> Error {
        let line = 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
        // Two kinds of files that are often mistaken for text.
        let what = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is in UTF-16, save it as UTF-8",
            [b'P', b'K', 3, 4, ..] => "it is a zip archive or a workbook, save the table as CSV",
            _ => what,
        };
        self.bad_at(line, format!("is not text: {what}"))
    }

    fn broken(&self, error: &io::Error) -> Error {
        let file = Path::new(&self.name);
        match (&self.text.get_ref().text, error.kind()) {
            (Decoded::Gzip(_), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
                Error::file(file, format!("the gzip is damaged or cut short ({error})"))
            }
            _ => Error::io(file, error),
        }
    }

    /// Returns the name used in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name as a path, for errors about the whole file.
    pub(super) fn path(&self) -> &Path {
        Path::new(&self.name)
    }

    /// Returns the number of the line last read, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns an error at the line last read.
    pub fn bad(&self, what: impl Into<String>) -> Error {
        self.bad_at(self.line, what)
    }

    /// Returns an error at a given line.
    pub fn bad_at(&self, line: usize, what: impl Into<String>) -> Error {
        Error::Line { file: self.name.clone(), line: line.max(1), what: what.into() }
    }

    /// Reads the rest and returns the hashes.
    pub fn finish(self) -> Result<Hashes> {
        let Source { name, mut text, .. } = self;
        io::copy(&mut text, &mut io::sink()).map_err(|e| Error::io(Path::new(&name), &e))?;
        Ok(match text.into_inner().text {
            Decoded::Plain(raw) => {
                let placed = hex(&raw.state.finalize());
                Hashes { text: placed.clone(), placed, gzip: false }
            }
            Decoded::Gzip(decoded) => {
                let Hashing { inner, state, .. } = *decoded;
                Hashes { placed: hex(&inner.into_inner().state.finalize()), text: hex(&state.finalize()), gzip: true }
            }
        })
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoded::Plain(raw) => raw.read(into),
            Decoded::Gzip(decoded) => decoded.read(into),
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.text.read(into)?;
        let (given, stored) = match &self.text {
            Decoded::Plain(raw) => (raw.count, raw.count),
            Decoded::Gzip(decoded) => (decoded.count, decoded.inner.get_ref().count),
        };
        self.limit.check(given, stored).map_err(io::Error::other)?;
        Ok(got)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(into)?;
        self.count += got as u64;
        self.state.update(&into[..got]);
        Ok(got)
    }
}

/// Reads a file of settings or of a model. What is not a regular file has a limit, since it may be endless.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let io = |e| Error::io(path, &e);
    let file = File::open(path).map_err(io)?;
    let most = if file.metadata().map_err(io)?.is_file() { u64::MAX } else { limits::small_stream() };
    let mut bytes = vec![];
    (&file).take(most).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 == most {
        return Err(Error::file(path, limits::too_much(most)));
    }
    Ok(bytes)
}

/// Computes the sha256 of bytes in memory, in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Formats a piece of a file for a message: short and printable, whatever the bytes are.
pub(crate) fn show(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST)]);
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Lists the first values for a message, and how many there are.
pub(crate) fn list<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 10;
    let all: Vec<&str> = values.into_iter().collect();
    let shown: Vec<String> = all.iter().take(MOST).map(|v| format!("'{}'", show(v.as_bytes()))).collect();
    let rest = if all.len() > MOST { format!(", … ({} in all)", all.len()) } else { String::new() };
    shown.join(", ") + &rest
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn plain_and_gzip_give_the_same_lines_and_text_hash() {
        // Two concatenated gzip members are one text.
        let packed = [gzip(b"abc\n"), gzip(b"d\n\nlast")].concat();
        for bytes in [b"abc\nd\n\nlast".as_slice(), &packed] {
            let mut source = Source::new("some", bytes).unwrap();
            let mut line = vec![];
            let mut lines = vec![];
            while source.next_line(&mut line).unwrap() {
                lines.push((source.line(), String::from_utf8(line.clone()).unwrap()));
            }
            let wanted = ["abc\n", "d\n", "\n", "last"].map(String::from);
            assert_eq!(lines, (1..).zip(wanted).collect::<Vec<_>>());
            let hashes = source.finish().unwrap();
            assert_eq!(hashes.placed, sha256(bytes));
            assert_eq!(hashes.text, sha256(b"abc\nd\n\nlast"));
            assert_eq!(hashes.gzip, bytes == packed);
        }
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn finish_reads_to_the_end() {
        let packed = gzip(b"abc\nrest");
        let mut source = Source::new("some", packed.as_slice()).unwrap();
        source.next_line(&mut vec![]).unwrap();
        assert_eq!(source.finish().unwrap().placed, sha256(&packed));
    }

    #[test]
    fn damage_is_an_error_with_the_line() {
        let mut packed = gzip(b"abc\ndef\n");
        packed.truncate(packed.len() - 6);
        let mut source = Source::new("cut.gz", packed.as_slice()).unwrap();
        let mut line = vec![];
        let error = loop {
            match source.next_line(&mut line) {
                Ok(true) => (),
                Ok(false) => panic!("the end of a damaged file was taken for its end"),
                Err(e) => break e.to_string(),
            }
        };
        assert!(error.starts_with("cut.gz, line "), "{error}");
        assert!(error.contains("cannot be read any further"), "{error}");
        let mut source = Source::new("bytes", b"a\nb\xff".as_slice()).unwrap();
        assert_eq!(source.text().unwrap_err().to_string(), "bytes, line 2: is not text: the byte 0xff here is not UTF-8");
        let text = |bytes: &[u8]| Source::new("file", bytes).unwrap().text().unwrap_err().to_string();
        assert_eq!(text(b"a\n\0\n\xff"), "file, line 2: is not text: it has a NUL byte here");
        assert_eq!(text(b"\xff\xfea\0,\0"), "file, line 1: is not text: it is in UTF-16, save it as UTF-8");
        assert!(text(b"PK\x03\x04\n\0").contains("save the table as CSV"));
        assert_eq!(text(&packed), "file: the gzip is damaged or cut short (unexpected end of file)");
        let missing = Source::open(Path::new("no/such/file")).unwrap_err().to_string();
        assert_eq!(missing, "no/such/file: there is no such file");
    }

    #[test]
    fn pieces_are_shown_short_and_printable() {
        assert_eq!(show(b"12:abc"), "12:abc");
        assert_eq!(show(b"\x00\xff"), "\\0\u{fffd}");
        assert_eq!(show(&[b'a'; 100]).chars().count(), 41);
        assert_eq!(list(["a", "b"]), "'a', 'b'");
        assert!(list(["a"; 12]).ends_with("'a', … (12 in all)"));
    }
}
