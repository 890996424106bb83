//! A compact binary file of rows (`.thw`) that is mapped into memory instead of being parsed, and the cache directory for large
//! LIBSVM files. The text format is parsed in [`super::libsvm`]; stand-ins are generated in [`super::shaped_like`].
//!
//! Layout of the file: a header of fixed length with its own checksum, four strings (the path of the text, its sha256 as stored
//! and as text, the data set that a stand-in is shaped like), then the sections `ids`, `values`, `ptr` and `labels`, each
//! aligned to 64 bytes and with an xxh3 checksum. The padding between them is zeros, and nothing follows them, so that every byte
//! of the file is checked. Row offsets (`ptr`) take 4 bytes each if that is enough, else 8; a label
//! takes one bit. Numbers are in the byte order of the writing machine, which the header records.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use bytemuck::{Pod, Zeroable};
use memmap2::Mmap;
use thalweg::Note;
use thalweg::math::{Compressed, Matrix, Offsets};
use thalweg::run::output_file::OutputFile;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::libsvm::{self, Rows};
use super::source::{Hashes, Source};
use crate::{Error, Result};

/// File name extension.
pub const EXTENSION: &str = "thw";

/// Environment variable for the cache directory of large files; `off` disables the cache.
pub const VARIABLE: &str = "THALWEG_CACHE";

/// Minimum size in bytes of LIBSVM files that are cached.
pub const LARGE: u64 = 32 << 20;

const MAGIC: [u8; 8] = *b"THALWEG\0";
const VERSION: u32 = 2;
/// Byte-order mark: reads as a different number if the bytes are in the other order.
const ORDER: u32 = 0x0102_0304;
const ALIGN: u64 = 64;
const BLOCK: usize = 1 << 20;

/// Kind of the stored entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Columns and values.
    Valued,
    /// Columns of ones.
    Ones,
    /// Columns of ones, at most 256 of them, one byte each.
    ByteOnes,
}

/// Origin of the rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// The text file with its length and time of modification; `None` for rows that were not read from text.
    pub text: Option<Stamp>,
    /// Hashes of the text, if it was read.
    pub hashes: Option<Hashes>,
    /// Data set that made-up rows are shaped like.
    pub stand_in: Option<String>,
}

/// Identifies one state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    path: String,
    length: u64,
    /// Nanoseconds since 1970.
    modified: u64,
}

impl Stamp {
    /// Returns the stamp of a file in its present state.
    pub fn of(path: &Path) -> Result<Self> {
        let io = |e| Error::io(path, &e);
        let about = std::fs::metadata(path).map_err(io)?;
        let modified = about.modified().map_err(io)?.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos() as u64);
        let whole = std::fs::canonicalize(path).map_err(io)?;
        Ok(Stamp { path: whole.display().to_string(), length: about.len(), modified })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
#[repr(C)]
struct Section {
    offset: u64,
    length: u64,
    checksum: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u32,
    order: u32,
    /// 0 for values, 1 for ones, 2 for ones with one byte per column.
    kind: u32,
    /// Whether the text was gzip.
    gzip: u32,
    rows: u64,
    columns: u64,
    stored: u64,
    /// Labels of the text that correspond to +1 and -1.
    classes: [f64; 2],
    /// Length of the text in bytes.
    source_length: u64,
    source_modified: u64,
    /// Lengths of the strings after the header: path, the two sha256, stand-in.
    words: [u64; 4],
    ids: Section,
    values: Section,
    ptr: Section,
    labels: Section,
    /// Checksum of the header before this field, and of the strings.
    checksum: u64,
}

const HEADER: usize = size_of::<Header>();

impl Header {
    fn sections(&self) -> [(&'static str, Section); 4] {
        [("ids", self.ids), ("values", self.values), ("ptr", self.ptr), ("labels", self.labels)]
    }

    fn checksum_with(&self, words: &[u8]) -> u64 {
        let mut state = Xxh3::new();
        state.update(&bytemuck::bytes_of(self)[..HEADER - size_of::<u64>()]);
        state.update(words);
        state.digest()
    }
}

/// File under construction, written section by section.
struct Draft {
    path: PathBuf,
    file: BufWriter<OutputFile>,
    header: Header,
    words: Vec<u8>,
}

impl Draft {
    fn new(path: &Path, columns: usize, kind: Kind, classes: (f64, f64), origin: &Origin) -> Result<Self> {
        let none = Hashes { placed: String::new(), text: String::new(), gzip: false };
        let hashes = origin.hashes.as_ref().unwrap_or(&none);
        let words = [
            origin.text.as_ref().map_or("", |text| &text.path),
            &hashes.placed,
            &hashes.text,
            origin.stand_in.as_deref().unwrap_or_default(),
        ];
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            order: ORDER,
            kind: kind as u32,
            gzip: hashes.gzip.into(),
            columns: columns as u64,
            classes: [classes.0, classes.1],
            source_length: origin.text.as_ref().map_or(0, |text| text.length),
            source_modified: origin.text.as_ref().map_or(0, |text| text.modified),
            words: words.map(|w| w.len() as u64),
            ..Header::zeroed()
        };
        let words = words.concat().into_bytes();
        let file = OutputFile::create_seekable(path).map_err(|e| Error::io(path, &e))?;
        let mut draft = Draft { path: path.into(), file: BufWriter::with_capacity(BLOCK, file), header, words: vec![] };
        draft.put(&[0; HEADER])?;
        draft.put(&words)?;
        Ok(Draft { words, ..draft })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io(&self.path, &e))
    }

    fn position(&mut self) -> Result<u64> {
        self.file.stream_position().map_err(|e| Error::io(&self.path, &e))
    }

    /// Pads to the start of the next section and returns its offset.
    fn align(&mut self) -> Result<u64> {
        let at = self.position()?;
        let next = at.next_multiple_of(ALIGN);
        self.put(&[0; ALIGN as usize][..(next - at) as usize])?;
        Ok(next)
    }

    fn section(&mut self, bytes: &[u8]) -> Result<Section> {
        let section = Section { offset: self.align()?, length: bytes.len() as u64, checksum: xxh3_64(bytes) };
        self.put(bytes)?;
        Ok(section)
    }

    /// Writes the sections after ids and values, and completes the file. Returns its size in bytes.
    fn finish(mut self, ptr: &Offsets, labels: &[u8]) -> Result<u64> {
        self.header.rows = ptr.count() as u64 - 1;
        self.header.stored = ptr.at(ptr.count() - 1) as u64;
        self.header.ptr = match ptr {
            Offsets::Short(list) => self.section(bytemuck::cast_slice(list))?,
            Offsets::Long(list) => self.section(bytemuck::cast_slice(list))?,
        };
        self.header.labels = self.section(labels)?;
        let size = self.position()?;
        self.header.checksum = self.header.checksum_with(&self.words);
        let io = |e| Error::io(&self.path, &e);
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        self.file.write_all(bytemuck::bytes_of(&self.header)).map_err(io)?;
        let file = self.file.into_inner().map_err(|e| io(e.into_error()))?;
        file.commit(true).map_err(io)?;
        Ok(size)
    }
}

/// Labels as bits; 1 is +1.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn push(&mut self, positive: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(byte) = self.bytes.last_mut() {
            *byte |= u8::from(positive) << (self.count % 8);
        }
        self.count += 1;
    }
}

/// Writer of rows one by one; it keeps 4 bytes and a bit per row in memory.
pub struct Writer {
    draft: Draft,
    /// Values, which are appended after the columns at the end.
    values: BufWriter<OutputFile>,
    ids_sum: Xxh3,
    values_sum: Xxh3,
    ptr: Offsets,
    labels: Bits,
}

impl Writer {
    /// Creates a file.
    pub fn new(path: &Path, columns: usize, kind: Kind, classes: (f64, f64), origin: &Origin) -> Result<Self> {
        let mut draft = Draft::new(path, columns, kind, classes, origin)?;
        draft.header.ids.offset = draft.align()?;
        let values = OutputFile::working_space(path).map_err(|e| Error::io(path, &e))?;
        Ok(Writer {
            draft,
            values: BufWriter::with_capacity(BLOCK, values),
            ids_sum: Xxh3::new(),
            values_sum: Xxh3::new(),
            ptr: Offsets::new(),
            labels: Bits::default(),
        })
    }

    /// Adds a row: its columns, counted from 0 and increasing, in the integer width of the file's kind, and its values (empty
    /// for ones).
    pub fn push<T: Pod>(&mut self, positive: bool, ids: &[T], values: &[f64]) -> Result<()> {
        let (ids_bytes, value_bytes) = (bytemuck::cast_slice(ids), bytemuck::cast_slice(values));
        self.ids_sum.update(ids_bytes);
        self.draft.put(ids_bytes)?;
        self.values_sum.update(value_bytes);
        self.values.write_all(value_bytes).map_err(|e| Error::io(&self.draft.path, &e))?;
        self.labels.push(positive);
        self.ptr.push(self.ptr.at(self.ptr.count() - 1) + ids.len());
        Ok(())
    }

    /// Completes the file. Returns its size in bytes.
    pub fn finish(mut self) -> Result<u64> {
        let draft = &mut self.draft;
        let path = draft.path.clone();
        let io = |e| Error::io(&path, &e);
        draft.header.ids.length = draft.position()? - draft.header.ids.offset;
        draft.header.ids.checksum = self.ids_sum.digest();
        let offset = draft.align()?;
        let (values, file) = (&mut self.values, &mut draft.file);
        values.rewind().map_err(io)?;
        file.flush().map_err(io)?;
        let length = std::io::copy(values.get_mut(), file.get_mut()).map_err(io)?;
        draft.header.values = Section { offset, length, checksum: self.values_sum.digest() };
        self.draft.finish(&self.ptr, &self.labels.bytes)
    }
}

/// Writes rows from memory, with the columns present in them. Returns the size of the file in bytes.
pub fn write(path: &Path, rows: &Rows, origin: &Origin) -> Result<u64> {
    let Some(compressed) = rows.features.compressed() else {
        return Err(Error::file(path, "cannot be written: the rows are not compressed ones"));
    };
    let (kind, ptr, ids, values): (_, _, &[u8], &[f64]) = match compressed {
        Compressed::Valued(ptr, ids, values) => (Kind::Valued, ptr, bytemuck::cast_slice(ids), values),
        Compressed::Ones(ptr, ids) => (Kind::Ones, ptr, bytemuck::cast_slice(ids), &[]),
        Compressed::ByteOnes(ptr, ids) => (Kind::ByteOnes, ptr, ids, &[]),
    };
    let mut draft = Draft::new(path, rows.present, kind, rows.classes, origin)?;
    draft.header.ids = draft.section(ids)?;
    draft.header.values = draft.section(bytemuck::cast_slice(values))?;
    let mut labels = Bits::default();
    rows.labels.iter().for_each(|y| labels.push(*y > 0));
    draft.finish(ptr, &labels.bytes)
}

/// File that passed all checks.
#[derive(Debug, Clone)]
struct OpenFile {
    rows: Rows,
    text: Option<Stamp>,
}

/// Mapped files by path and header checksum, so that each is mapped once.
static MAPPED: LazyLock<Mutex<HashMap<(PathBuf, u64), OpenFile>>> = LazyLock::new(Mutex::default);

/// Opens a file given by the user; a damaged file is an error.
pub fn open(path: &Path) -> Result<Rows> {
    let file = File::open(path).map_err(|e| Error::io(path, &e))?;
    Ok(map(path, &file).map_err(|why| Error::file(path, why))?.rows)
}

/// Returns whether a file has this format, by its extension or by its first bytes.
pub fn is_cache(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    path.extension().is_some_and(|e| e == EXTENSION)
        // What a pipe has given cannot be read again.
        || (path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok_and(|()| first == MAGIC))
}

/// Returns the data set that a file is a stand-in for, from its header alone; `None` also for a file that cannot be read.
pub fn stand_in(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    if is_cache(path) {
        let mut header = Header::zeroed();
        file.read_exact(bytemuck::bytes_of_mut(&mut header)).ok()?;
        let [path, placed, text, name] = header.words;
        let mut word = String::new();
        file.seek_relative(path.checked_add(placed)?.checked_add(text)?.try_into().ok()?).ok()?;
        file.take(name.min(BLOCK as u64)).read_to_string(&mut word).ok()?;
        return (!word.is_empty()).then_some(word);
    }
    let mut line = vec![];
    Source::new("", file).ok()?.next_line(&mut line).ok()?;
    libsvm::stand_in(&line)
}

/// Maps a file and checks all of it. Returns the reason if the file is rejected.
fn map(path: &Path, file: &File) -> Result<OpenFile, String> {
    if size_of::<usize>() != 8 {
        return Err("is for machines with addresses of 8 bytes, and those of this one are shorter".into());
    }
    let length = file.metadata().map_err(|e| e.to_string())?.len();
    let cut = |wanted: u64| format!("is cut short: it has {length} bytes of at least {wanted}");
    if length < HEADER as u64 {
        return Err(cut(HEADER as u64));
    }
    // SAFETY: mapped bytes must not change while they are borrowed. These files are written under another name and renamed when
    // complete, and nothing here writes to one again; a renamed or removed file keeps its bytes for those who have mapped it.
    // Overwriting one in place while the command runs breaks this, as for every program that maps files.
    #[allow(unsafe_code)]
    let mapped = unsafe { Mmap::map(file) }.map_err(|e| format!("cannot be mapped: {e}"))?;
    let header: Header = bytemuck::pod_read_unaligned(&mapped[..HEADER]);
    if header.magic != MAGIC {
        return Err("is not a thalweg file of rows: its first bytes are others".into());
    }
    if header.order == ORDER.swap_bytes() {
        return Err("was written on a machine with the other byte order".into());
    }
    if header.version != VERSION {
        return Err(format!("has version {}; expected {VERSION}", header.version));
    }
    let words_end = header.words.iter().fold(HEADER as u64, |end, w| end.saturating_add(*w));
    if words_end > length {
        return Err(cut(words_end));
    }
    let words = &mapped[HEADER..words_end as usize];
    if header.order != ORDER || header.checksum != header.checksum_with(words) {
        return Err("is damaged: the checksum of its header is another".into());
    }
    let ends = header.sections().map(|(_, section)| section.offset.saturating_add(section.length));
    if let Some(end) = ends.into_iter().max().filter(|end| *end > length) {
        return Err(cut(end));
    }
    let key = (std::fs::canonicalize(path).unwrap_or_else(|_| path.into()), header.checksum);
    if let Some(known) = MAPPED.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(known.clone());
    }
    let mut end = words_end;
    for (name, section) in header.sections() {
        if section.offset != end.next_multiple_of(ALIGN) {
            return Err(format!("is damaged: its section {name} begins at byte {}", section.offset));
        }
        if mapped[end as usize..section.offset as usize].iter().any(|b| *b != 0) {
            return Err(format!("is damaged: the padding before its section {name} is not zero"));
        }
        end = section.offset + section.length;
        let bytes = &mapped[section.offset as usize..(section.offset + section.length) as usize];
        if xxh3_64(bytes) != section.checksum {
            return Err(format!("is damaged: the checksum of its section {name} is another"));
        }
    }
    if end != length {
        return Err(format!("is damaged: it has {length} bytes, and its sections end at byte {end}"));
    }
    let mut next = words;
    let words = header.words.map(|length| {
        let (word, rest) = next.split_at(length as usize);
        next = rest;
        String::from_utf8_lossy(word).into_owned()
    });
    // The mapping is leaked, so that matrices can borrow from it without reference counts.
    let bytes: &'static [u8] = Box::leak(Box::new(mapped));
    let opened = opened(&header, words, bytes).map_err(|why| format!("is damaged: {why}"))?;
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, opened.clone());
    Ok(opened)
}

/// Reads the rows of a mapped file after checking the bounds and checksums of its sections.
fn opened(header: &Header, words: [String; 4], bytes: &'static [u8]) -> Result<OpenFile, String> {
    fn list<T: Pod>(bytes: &'static [u8], section: Section) -> Result<&'static [T], String> {
        let bytes = &bytes[section.offset as usize..(section.offset + section.length) as usize];
        bytemuck::try_cast_slice(bytes).map_err(|e| format!("a section has {} bytes ({e})", section.length))
    }
    let columns = usize::try_from(header.columns).ok().filter(|c| *c <= u32::MAX as usize).ok_or("it has too many columns")?;
    // The length of the section gives the bytes per offset, 4 or 8.
    let ptr: Offsets = match header.ptr.length / header.rows.saturating_add(1) {
        4 => list::<u32>(bytes, header.ptr)?.into(),
        _ => list::<u64>(bytes, header.ptr)?.into(),
    };
    let features = match header.kind {
        // Values that are all 1 would give a different kind of matrix than the one that was written.
        0 => Matrix::sparse(columns, ptr, list::<u32>(bytes, header.ids)?, list::<f64>(bytes, header.values)?),
        1 => Matrix::ones(columns, ptr, list::<u32>(bytes, header.ids)?),
        2 => Matrix::byte_ones(columns, ptr, list::<u8>(bytes, header.ids)?),
        other => return Err(format!("its rows are of kind {other}; expected 0, 1 or 2")),
    }
    .map_err(|e| e.to_string())?;
    let (rows, stored) = (features.rows() as u64, features.stored() as u64);
    if (rows, stored) != (header.rows, header.stored) {
        return Err(format!("it says {} rows and {} entries and has {rows} and {stored}", header.rows, header.stored));
    }
    let bits: &[u8] = list(bytes, header.labels)?;
    if bits.len() as u64 != rows.div_ceil(8) {
        return Err(format!("it has {} bytes of labels for {rows} rows", bits.len()));
    }
    let labels = (0..features.rows()).map(|i| if bits[i / 8] >> (i % 8) & 1 == 1 { 1 } else { -1 }).collect();
    let [path, placed, text, stand_in] = words;
    let hashes = if text.is_empty() {
        // Rows that were not read from text are identified by their checksums.
        let sum = format!("xxh3 {:016x}", xxh3_64(bytemuck::cast_slice(&header.sections().map(|(_, s)| s.checksum))));
        Hashes { placed: sum.clone(), text: sum, gzip: false }
    } else {
        Hashes { placed, text, gzip: header.gzip != 0 }
    };
    let stamp = Stamp { path, length: header.source_length, modified: header.source_modified };
    Ok(OpenFile {
        rows: Rows {
            features,
            labels,
            classes: (header.classes[0], header.classes[1]),
            hashes,
            present: columns,
            stand_in: (!stand_in.is_empty()).then_some(stand_in),
        },
        text: (!stamp.path.is_empty()).then_some(stamp),
    })
}

/// Returns the cache directory; `None` if it is disabled or there is no home directory.
pub fn directory() -> Option<PathBuf> {
    directory_from(|name| std::env::var_os(name))
}

fn directory_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    match path(VARIABLE) {
        Some(word) if word.as_os_str() == "off" => None,
        Some(directory) => Some(directory),
        // By the XDG base directory specification, relative paths are ignored.
        None => path("XDG_CACHE_HOME")
            .filter(|p| p.is_absolute())
            .or_else(|| path("HOME").map(|home| home.join(".cache")))
            .map(|base| base.join("thalweg")),
    }
}

/// Reads the rows of a LIBSVM file or a `.thw` file, and returns them with messages for the user. `columns` as in
/// [`libsvm::read`]. A large text is parsed once and then cached in `directory` until it changes.
pub fn read(path: &Path, columns: Option<usize>) -> Result<(Rows, Vec<Note>)> {
    read_with(path, columns, directory().as_deref(), LARGE)
}

fn read_with(path: &Path, columns: Option<usize>, directory: Option<&Path>, large: u64) -> Result<(Rows, Vec<Note>)> {
    if is_cache(path) {
        return Ok((widened(path, open(path)?, columns)?, vec![]));
    }
    let keep = directory.filter(|_| std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() >= large));
    let Some(directory) = keep else {
        return Ok((libsvm::read(path, columns)?, vec![]));
    };
    let stamp = Stamp::of(path)?;
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let kept = directory.join(format!("{name}-{:016x}.{EXTENSION}", xxh3_64(stamp.path.as_bytes())));
    let mut notes = vec![];
    if let Ok(file) = File::open(&kept) {
        let whole = map(&kept, &file).and_then(|opened| match opened.text {
            Some(text) if text == stamp => Ok(opened.rows),
            _ => Err(format!("is older than {}", path.display())),
        });
        match whole {
            Ok(rows) => return Ok((widened(path, rows, columns)?, notes)),
            Err(reason) => notes.push(Note::BinaryFileReplaced { file: kept.display().to_string(), reason }),
        }
    }
    let rows = libsvm::read(path, columns)?;
    let origin = Origin { text: Some(stamp), hashes: Some(rows.hashes.clone()), stand_in: rows.stand_in.clone() };
    let made =
        std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, &e)).and_then(|()| write(&kept, &rows, &origin));
    match made {
        Ok(_) => notes.push(Note::BinaryFileSaved { file: path.display().to_string(), binary: kept.display().to_string() }),
        Err(e) => notes.push(Note::BinaryFileNotSaved { file: path.display().to_string(), reason: e.to_string() }),
    }
    Ok((rows, notes))
}

/// Writes the rows of a LIBSVM file, or of another `.thw` file, to `to`. Returns its size in bytes.
pub fn convert(path: &Path, to: &Path) -> Result<(Rows, u64)> {
    let rows = if is_cache(path) { open(path)? } else { libsvm::read(path, None)? };
    let origin = Origin { text: Some(Stamp::of(path)?), hashes: Some(rows.hashes.clone()), stand_in: rows.stand_in.clone() };
    let size = write(to, &rows, &origin)?;
    Ok((rows, size))
}

/// Reads the features of a file, as [`libsvm::read_features`] does for a text.
pub fn read_features(path: &Path, columns: usize) -> Result<Matrix> {
    if !is_cache(path) {
        return libsvm::read_features(path, columns);
    }
    Ok(widened(path, open(path)?, Some(columns))?.features)
}

/// Widens the rows to this many columns.
fn widened(path: &Path, rows: Rows, columns: Option<usize>) -> Result<Rows> {
    let present = rows.features.cols();
    let Some(wanted) = columns.filter(|c| *c != present) else { return Ok(rows) };
    if wanted < present {
        return Err(Error::file(path, format!("has {present} columns; expected at most {wanted}")));
    }
    Ok(Rows { features: rows.features.with_columns(wanted)?, ..rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::Source;

    const VALUED: &str = "2 1:0.5 300:1\n1\n2 7:-3\n1 2:1 3:1\n1 1:1\n2 5:1\n2 5:1\n1 5:1\n2 299:1\n";

    fn parsed(text: &str) -> Rows {
        libsvm::parse(Source::new("rows.svm", text.as_bytes()).unwrap(), None).unwrap()
    }

    fn words(error: Result<Rows>) -> String {
        error.unwrap_err().to_string()
    }

    #[test]
    fn every_kind_is_opened_as_it_was_written_and_mapped_once() {
        let here = tempfile::tempdir().unwrap();
        let ones = VALUED.replace("0.5", "1").replace("-3", "1");
        for (k, text) in [VALUED, &ones, "+1 1:1 256:1\n-1 3:1\n"].into_iter().enumerate() {
            let path = here.path().join(format!("{k}.thw"));
            let rows = Rows { stand_in: (k == 1).then(|| "URL".into()), ..parsed(text) };
            let origin = Origin { text: None, hashes: Some(rows.hashes.clone()), stand_in: rows.stand_in.clone() };
            let size = write(&path, &rows, &origin).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
            assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), k + 1, "no parts are left");
            let opened = open(&path).unwrap();
            assert_eq!(opened, rows);
            assert_eq!(stand_in(&path), rows.stand_in);
            let place = |rows: &Rows| match rows.features.compressed().unwrap() {
                Compressed::Valued(_, ids, _) | Compressed::Ones(_, ids) => ids.as_ptr() as usize,
                Compressed::ByteOnes(_, ids) => ids.as_ptr() as usize,
            };
            assert_eq!(place(&opened), place(&open(&path).unwrap()));
            assert_eq!(place(&opened) % ALIGN as usize, 0);
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let here = tempfile::tempdir().unwrap();
        let whole = here.path().join("whole.thw");
        write(&whole, &parsed(VALUED), &Origin::default()).unwrap();
        let bytes = std::fs::read(&whole).unwrap();
        let header: Header = bytemuck::pod_read_unaligned(&bytes[..HEADER]);
        let mut count = 0;
        let mut refused = |bytes: &[u8]| {
            count += 1;
            let path = here.path().join(format!("{count}.thw"));
            std::fs::write(&path, bytes).unwrap();
            words(open(&path))
        };
        let damaged = |at: u64| {
            let mut bytes = bytes.clone();
            bytes[at as usize] ^= 4;
            bytes
        };
        for (name, section) in header.sections() {
            let error = refused(&damaged(section.offset + section.length / 2));
            assert!(error.ends_with(&format!("is damaged: the checksum of its section {name} is another")), "{error}");
        }
        assert!(refused(&damaged(40)).ends_with("the checksum of its header is another"));
        assert!(refused(&damaged(0)).contains("is not a thalweg file of rows"));
        assert!(refused(&damaged(8)).ends_with("has version 6; expected 2"));
        assert!(refused(b"").contains("is cut short: it has 0 bytes"));
        for end in [7, HEADER - 1, HEADER + 3, bytes.len() - 1] {
            assert!(refused(&bytes[..end]).contains("is cut short"), "{end}");
        }
        let mut other = bytes.clone();
        other[12..16].reverse();
        assert!(refused(&other).ends_with("was written on a machine with the other byte order"));
        assert_eq!(
            words(open(&here.path().join("none.thw"))),
            format!("{}: there is no such file", here.path().join("none.thw").display())
        );
        // Matching checksums do not make rows valid.
        for (ids, values, part) in [
            ([3_u32, 3], [0.5, 0.5], "row 1 has column 4 after column 4"),
            ([3, 9], [0.5, 0.5], "row 1 has column 10 of 9"),
            ([3, 4], [0.5, f64::NAN], "stored value 2"),
        ] {
            let path = here.path().join(format!("{}.thw", part.replace(' ', "-")));
            let mut writer = Writer::new(&path, 9, Kind::Valued, (1.0, -1.0), &Origin::default()).unwrap();
            writer.push(true, &ids, &values).unwrap();
            writer.finish().unwrap();
            let error = words(open(&path));
            assert!(error.contains("is damaged: ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_change_of_any_byte_is_found() {
        let here = tempfile::tempdir().unwrap();
        let whole = here.path().join("whole.thw");
        for text in [VALUED, "+1 1:1 256:1\n-1 3:1\n"] {
            write(&whole, &parsed(text), &Origin::default()).unwrap();
            let bytes = std::fs::read(&whole).unwrap();
            let path = here.path().join("changed.thw");
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x20;
                std::fs::write(&path, changed).unwrap();
                assert!(open(&path).is_err(), "byte {at} of {}", bytes.len());
                std::fs::remove_file(&path).unwrap();
            }
            std::fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
            assert!(words(open(&path)).contains("and its sections end at byte "));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_large_text_is_read_once() {
        let here = tempfile::tempdir().unwrap();
        let (text, kept) = (here.path().join("rows.svm"), here.path().join("kept"));
        std::fs::write(&text, VALUED).unwrap();
        let read = |columns| read_with(&text, columns, Some(&kept), 1).unwrap();
        let (first, notes) = read(Some(400));
        assert_eq!(first.features.cols(), 400);
        assert!(notes.len() == 1 && matches!(&notes[0], Note::BinaryFileSaved { .. }), "{notes:?}");
        let file = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
        // Later reads give the same rows as parsing the text, whatever the number of columns in the first read.
        for columns in [None, Some(300), Some(400)] {
            let (again, notes) = read(columns);
            assert_eq!((&again, notes.len()), (&libsvm::read(&text, columns).unwrap(), 0));
        }
        let error = read_with(&text, Some(299), Some(&kept), 1).unwrap_err().to_string();
        assert!(error.ends_with("has 300 columns; expected at most 299"), "{error}");

        std::fs::write(&text, VALUED.replace("0.5", "0.25")).unwrap();
        let (changed, notes) = read(None);
        assert!(
            notes[0].to_string().contains("is older than")
                && notes[0].to_string().ends_with("; it was written again from the text"),
            "{notes:?}"
        );
        assert_eq!(changed, libsvm::read(&text, None).unwrap());
        assert_eq!(read(None), (changed.clone(), vec![]));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.pop();
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
        // A truncated file is rejected even if its header was read before.
        let (again, notes) = read(None);
        assert!(notes[0].to_string().contains("is cut short"), "{notes:?}");
        assert_eq!(again, changed);

        // Small files are not cached, and a directory that cannot be created only gives a note.
        assert!(read_with(&text, None, Some(&here.path().join("other")), 1 << 20).unwrap().1.is_empty());
        assert!(!here.path().join("other").exists());
        let (rows, notes) = read_with(&text, None, Some(&text.join("below")), 1).unwrap();
        assert_eq!(rows, changed);
        assert!(notes[0].to_string().contains("is not stored in binary form: "), "{notes:?}");
    }

    #[test]
    fn the_directory_is_where_the_user_wants_it() {
        let from = |set: &[(&str, &str)]| {
            let set: HashMap<String, String> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            directory_from(|name| set.get(name).map(OsString::from)).map(|p| p.display().to_string())
        };
        assert_eq!(from(&[("THALWEG_CACHE", "x"), ("HOME", "/h")]).as_deref(), Some("x"));
        assert_eq!(from(&[("THALWEG_CACHE", "off"), ("HOME", "/h")]), None);
        assert_eq!(from(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]).as_deref(), Some("/c/thalweg"));
        assert_eq!(from(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]).as_deref(), Some("/h/.cache/thalweg"));
        assert_eq!(from(&[]), None);
    }
}
