//! Stand-ins: made-up rows with the size, the sparsity and the class ratio of large published sets, for measuring the cost of
//! that size where the set itself is not available. They say nothing about the published data. Small made-up sets with groups
//! are in [`super::generator`].
//!
//! A row depends only on the seed and its number. Its columns are drawn with a probability proportional to 1 / column (Zipf's
//! law with exponent 1), without repetition. Its label is +1 where a linear model with weights in one of ten columns is above a
//! threshold, and is then flipped with a small probability. The threshold is the quantile of 100,000 other rows that gives the
//! class ratio of the set.

use std::io::{BufWriter, Write};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use serde::Deserialize;
use thalweg::Note;
use thalweg::math::rng::Purpose;
use thalweg::math::{Matrix, Rng};
use thalweg::run::output_file::OutputFile;

use super::cache::{self, Kind, Origin, Writer};
use super::libsvm::{Rows, STAND_IN};
use super::source::{Hashes, sha256};
use crate::{Error, Result};

/// A set whose shape is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Like {
    /// URL (malicious addresses)
    Url,
    /// RCV1 (news)
    Rcv1,
    /// Covertype (forests)
    Covtype,
}

/// Shape of a set.
#[derive(Debug)]
pub struct Shape {
    /// Displayed name.
    pub title: &'static str,
    /// Number of rows of the set.
    pub rows: usize,
    /// Number of columns of the set.
    pub columns: usize,
    /// Minimum number of columns of a stand-in.
    pub least: usize,
    /// Positive rows for each negative one.
    pub ratio: f64,
    /// Share of flipped labels.
    pub noise: f64,
}

impl Like {
    /// Returns the shape of the set.
    pub fn shape(self) -> &'static Shape {
        match self {
            Like::Url => &Shape { title: "URL", rows: 2_396_130, columns: 3_231_961, least: 1_000, ratio: 0.4939, noise: 0.01 },
            Like::Rcv1 => &Shape { title: "RCV1", rows: 697_641, columns: 47_236, least: 1_000, ratio: 1.1033, noise: 0.03 },
            Like::Covtype => &Shape { title: "Covertype", rows: 581_012, columns: 54, least: 15, ratio: 1.0509, noise: 0.2 },
        }
    }

    fn word(self) -> &'static str {
        match self {
            Like::Url => "url",
            Like::Rcv1 => "rcv1",
            Like::Covtype => "covtype",
        }
    }
}

/// Parameters of a stand-in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapedLike {
    /// Set that the rows are shaped like.
    pub like: Like,
    /// Number of rows; that of the set by default.
    pub rows: Option<usize>,
    /// Number of columns; that of the set by default.
    pub columns: Option<usize>,
    /// Random seed. Default 0.
    #[serde(default)]
    pub seed: u64,
}

/// Summary of a generated file.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FileSummary {
    /// Set that the rows are shaped like.
    pub stand_in: String,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Number of non-zero entries.
    pub stored: usize,
    /// Number of rows with the label +1.
    pub positive: usize,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Number of rows between progress reports.
const TOLD: usize = 1 << 12;

/// Number of rows that the threshold is estimated from.
const PILOT: usize = 100_000;

/// One of this many columns has a weight in the planted model.
const PLANTED: u64 = 10;

/// First number of the pilot rows, beyond the rows of any file.
const PILOT_FIRST: u64 = 1 << 63;

/// Writer that counts the bytes.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// Row under construction, and the model.
struct Generator {
    like: Like,
    columns: usize,
    seed: u64,
    /// Scores above it are positive.
    threshold: f64,
    ids: Vec<u32>,
    values: Vec<f64>,
}

impl ShapedLike {
    fn columns(&self) -> usize {
        self.columns.unwrap_or(self.like.shape().columns)
    }

    fn rows(&self) -> usize {
        self.rows.unwrap_or(self.like.shape().rows)
    }

    /// Checks the sizes.
    pub fn check(&self) -> Result<()> {
        let (least, columns) = (self.like.shape().least, self.columns());
        if columns < least || columns > u32::MAX as usize {
            return Err(Error::Request(format!("columns must be {least} to {}, got {columns}", u32::MAX)));
        }
        if self.rows() == 0 {
            return Err(Error::Request("rows must be at least 1, got 0".into()));
        }
        Ok(())
    }

    /// Returns the file name in the cache directory.
    fn file_name(&self) -> String {
        format!("shaped-like-{}-{}x{}-{}.{}", self.like.word(), self.rows(), self.columns(), self.seed, cache::EXTENSION)
    }

    /// Returns the displayed name.
    pub fn called(&self) -> String {
        format!("{} rows, seed {}", self.rows(), self.seed)
    }

    /// Generates the rows one by one: a label, columns counted from 0, values. `told` is called with the completed share.
    fn each(
        &self,
        told: &mut dyn FnMut(f64),
        mut visit: impl FnMut(bool, &[u32], &[f64]) -> Result<()>,
    ) -> Result<(usize, usize)> {
        self.check()?;
        let mut generator = Generator::new(self.like, self.columns(), self.seed);
        let (mut stored, mut positive) = (0, 0);
        for i in 0..self.rows() {
            let label = generator.row(i as u64);
            visit(label, &generator.ids, &generator.values)?;
            stored += generator.ids.len();
            positive += usize::from(label);
            if i.is_multiple_of(TOLD) {
                told(i as f64 / self.rows() as f64);
            }
        }
        Ok((stored, positive))
    }

    /// Writes a file: LIBSVM text for `.svm` and `.txt`, compressed if `.gz` follows, binary for `.thw`.
    pub fn write(&self, path: &Path, told: &mut dyn FnMut(f64)) -> Result<FileSummary> {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let (stem, gzip) = name.strip_suffix(".gz").map_or((name.as_str(), false), |stem| (stem, true));
        let ((stored, positive), bytes) = match Path::new(stem).extension().and_then(|e| e.to_str()) {
            Some("thw") if !gzip => {
                let origin = Origin { stand_in: Some(self.like.shape().title.into()), ..Origin::default() };
                let mut writer = Writer::new(path, self.columns(), Kind::Valued, (1.0, -1.0), &origin)?;
                let counts = self.each(told, |label, ids, values| writer.push(label, ids, values))?;
                (counts, writer.finish()?)
            }
            Some("svm" | "txt") => {
                let io = |e| Error::io(path, &e);
                let output = OutputFile::create(path).map_err(io)?;
                let mut file = Counted { inner: BufWriter::with_capacity(1 << 20, output), bytes: 0 };
                let counts = if gzip {
                    let mut zip = GzEncoder::new(file, Compression::fast());
                    let counts = self.text(path, &mut zip, told)?;
                    file = zip.finish().map_err(io)?;
                    counts
                } else {
                    self.text(path, &mut file, told)?
                };
                let output = file.inner.into_inner().map_err(|e| io(e.into_error()))?;
                output.commit(false).map_err(io)?;
                (counts, file.bytes)
            }
            _ => {
                return Err(Error::file(path, "is called neither .svm, .txt, .svm.gz, .txt.gz nor .thw; expected one of these"));
            }
        };
        let stand_in = self.like.shape().title.into();
        Ok(FileSummary { stand_in, rows: self.rows(), columns: self.columns(), stored, positive, bytes })
    }

    fn text(&self, path: &Path, to: &mut impl Write, told: &mut dyn FnMut(f64)) -> Result<(usize, usize)> {
        let mut line = vec![];
        let mut put = |line: &mut Vec<u8>| {
            line.push(b'\n');
            let written = to.write_all(line).map_err(|e| Error::io(path, &e));
            line.clear();
            written
        };
        line.extend_from_slice(format!("{STAND_IN}{}", self.like.shape().title).as_bytes());
        put(&mut line)?;
        self.each(told, |label, ids, values| {
            line.extend_from_slice(if label { b"+1" } else { b"-1" });
            for (c, v) in ids.iter().zip(values) {
                // Writing to a vector cannot fail.
                let _ = write!(line, " {}:{v}", c + 1);
            }
            put(&mut line)
        })
    }

    /// Loads the rows from a file in `directory`, which is generated if missing, or generates them in memory if there is no
    /// directory. Also returns messages for the user.
    pub fn load(&self, directory: Option<&Path>, told: &mut dyn FnMut(f64)) -> Result<(Rows, Vec<Note>)> {
        self.check()?;
        let Some(directory) = directory else { return Ok((self.in_memory(told)?, vec![])) };
        let file = directory.join(self.file_name());
        let mut notes = vec![];
        if file.exists() {
            match cache::open(&file) {
                Ok(rows) => return Ok((rows, notes)),
                Err(e) => notes.push(Note::StandInReplaced { reason: e.to_string() }),
            }
        }
        let made = std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, &e));
        match made.and_then(|()| self.write(&file, told)) {
            Ok(_) => Ok((cache::open(&file)?, notes)),
            Err(e) => {
                notes.push(Note::StandInNotSaved { reason: e.to_string() });
                Ok((self.in_memory(told)?, notes))
            }
        }
    }

    fn in_memory(&self, told: &mut dyn FnMut(f64)) -> Result<Rows> {
        let (mut ptr, mut all, mut numbers, mut labels) = (vec![0], vec![], vec![], vec![]);
        self.each(told, |label, ids, values| {
            all.extend_from_slice(ids);
            numbers.extend_from_slice(values);
            ptr.push(all.len());
            labels.push(if label { 1 } else { -1 });
            Ok(())
        })?;
        let sum = sha256(self.file_name().as_bytes());
        Ok(Rows {
            features: Matrix::sparse(self.columns(), ptr, all, numbers)?,
            labels,
            classes: (1.0, -1.0),
            hashes: Hashes { placed: sum.clone(), text: sum, gzip: false },
            present: self.columns(),
            stand_in: Some(self.like.shape().title.into()),
        })
    }
}

/// Mixes two numbers into 64 bits (the last steps of SplitMix64).
fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(b).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Generator {
    fn new(like: Like, columns: usize, seed: u64) -> Self {
        let mut new = Generator { like, columns, seed, threshold: 0.0, ids: vec![], values: vec![] };
        let Shape { ratio, noise, .. } = like.shape();
        let mut scores: Vec<f64> = (0..PILOT as u64).map(|i| new.fill(PILOT_FIRST + i).0).collect();
        scores.sort_unstable_by(f64::total_cmp);
        // With a share s above the threshold and noise f, the share s (1 - f) + (1 - s) f is positive.
        let positive = ratio / (1.0 + ratio);
        let above = ((positive - noise) / (1.0 - 2.0 * noise)).clamp(0.0, 1.0);
        new.threshold = scores[(((1.0 - above) * PILOT as f64) as usize).min(PILOT - 1)];
        new
    }

    /// Generates a row and returns whether it is positive.
    fn row(&mut self, number: u64) -> bool {
        let (score, chance) = self.fill(number);
        (score > self.threshold) != (chance < self.like.shape().noise)
    }

    /// Generates a row; returns its score and a number from 0 to 1 for the noise.
    fn fill(&mut self, number: u64) -> (f64, f64) {
        let mut rng = Rng::new(mix(self.seed, number), Purpose::Data);
        self.ids.clear();
        self.values.clear();
        match self.like {
            Like::Url => {
                self.distinct(&mut rng, 100, 32);
                for &c in &self.ids {
                    // As in the set, most columns are indicators; the others have four decimals.
                    let value = if c % 40 == 3 { (1 + rng.below(9_999)) as f64 / 1e4 } else { 1.0 };
                    self.values.push(value);
                }
            }
            Like::Rcv1 => {
                self.distinct(&mut rng, 20, 107);
                let mut squares = 0.0;
                for &c in &self.ids {
                    // Term frequency and inverse document frequency.
                    let (often, rare) = (1.0 - (1.0 - rng.uniform()).ln(), 1.0 + f64::from(c + 1).ln());
                    self.values.push(often * rare);
                    squares += (often * rare).powi(2);
                }
                let norm = squares.sqrt();
                self.values.iter_mut().for_each(|v| *v = (*v / norm * 1e7).round().max(1.0) / 1e7);
            }
            Like::Covtype => {
                for c in 0..10 {
                    let size = (rng.uniform() + rng.uniform() + rng.uniform()) / 3.0;
                    self.ids.push(c);
                    self.values.push((1.0 + (size * 999.0).floor()) / 1e3);
                }
                let soils = self.columns - 14;
                self.ids.extend([10 + zipf(&mut rng, 4), 14 + zipf(&mut rng, soils)]);
                self.values.extend([1.0, 1.0]);
            }
        }
        let score = self.ids.iter().zip(&self.values).map(|(&c, v)| self.weight(c) * v).sum();
        (score, rng.uniform())
    }

    /// Draws from `least` to below `least + spread` distinct columns, in increasing order.
    fn distinct(&mut self, rng: &mut Rng, least: usize, spread: usize) {
        let wanted = least + rng.below(spread);
        while self.ids.len() < wanted {
            for _ in self.ids.len()..wanted {
                self.ids.push(zipf(rng, self.columns));
            }
            self.ids.sort_unstable();
            self.ids.dedup();
        }
    }

    /// Returns a weight of the planted model: uniform on [-1, 1] in one of ten columns, and 0 in the others. Every numeric
    /// column of Covertype has one.
    fn weight(&self, column: u32) -> f64 {
        let bits = mix(!self.seed, u64::from(column));
        if self.like != Like::Covtype && !bits.is_multiple_of(PLANTED) {
            return 0.0;
        }
        (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Draws a column of `0..n` with a probability proportional to log(1 + 1 / (c + 1)), which is nearly 1 / (c + 1).
#[inline]
fn zipf(rng: &mut Rng, n: usize) -> u32 {
    let place = ((n as f64 + 1.0).ln() * rng.uniform()).exp();
    ((place as u32).max(1) - 1).min(n as u32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::libsvm;

    fn stand_in(like: Like, rows: usize) -> ShapedLike {
        ShapedLike { like, rows: Some(rows), columns: None, seed: 3 }
    }

    fn entries(rows: &Rows, i: usize) -> Vec<(usize, f64)> {
        let mut row = vec![];
        rows.features.visit_row(i, |c, v| row.push((c, v)));
        row
    }

    #[test]
    fn stand_ins_have_the_shape_that_they_claim() {
        for (like, mean) in [(Like::Url, 115.5), (Like::Rcv1, 73.0), (Like::Covtype, 12.0)] {
            let shape = like.shape();
            let rows = stand_in(like, 8_000).in_memory(&mut |_| ()).unwrap();
            assert_eq!(rows.features.cols(), shape.columns);
            let each = rows.features.stored() as f64 / 8e3;
            assert!((each - mean).abs() < 1.5, "{like:?}: {each} entries in a row");
            let positive = rows.labels.iter().filter(|y| **y > 0).count() as f64 / 8e3;
            // Five standard errors of these rows and of the pilot rows.
            assert!((positive - shape.ratio / (1.0 + shape.ratio)).abs() < 0.03, "{like:?}: {positive}");
        }
    }

    #[test]
    fn columns_follow_a_power_law_and_values_their_set() {
        let url = stand_in(Like::Url, 4_000).in_memory(&mut |_| ()).unwrap();
        let mut counts = vec![0_usize; 2_000];
        let mut real = 0;
        for i in 0..4_000 {
            for (c, v) in entries(&url, i) {
                counts.get_mut(c).into_iter().for_each(|n| *n += 1);
                assert!(v == 1.0 || c % 40 == 3);
                real += usize::from(v != 1.0);
            }
        }
        // Where a column is rare in a row, doubling its number halves its frequency.
        let around = |c: usize| counts[c - c / 10..c + c / 10].iter().sum::<usize>() as f64 / (c / 5) as f64;
        assert!((around(500) / around(1_000) - 2.0).abs() < 0.3, "{} {}", around(500), around(1_000));
        let share = real as f64 / url.features.stored() as f64;
        assert!((0.02..0.05).contains(&share), "{share}");
        let rcv1 = stand_in(Like::Rcv1, 50).in_memory(&mut |_| ()).unwrap();
        (0..50).for_each(|i| assert!((rcv1.features.row_norm_squared(i) - 1.0).abs() < 1e-5));
    }

    #[test]
    fn a_row_depends_on_seed_and_number_alone_and_every_file_holds_the_same() {
        let here = tempfile::tempdir().unwrap();
        for like in [Like::Url, Like::Rcv1, Like::Covtype] {
            let (short, long) = (stand_in(like, 40), stand_in(like, 90));
            let (few, many) = (short.in_memory(&mut |_| ()).unwrap(), long.in_memory(&mut |_| ()).unwrap());
            (0..40).for_each(|i| assert_eq!((few.labels[i], entries(&few, i)), (many.labels[i], entries(&many, i))));
            let other = ShapedLike { seed: 4, ..short.clone() }.in_memory(&mut |_| ()).unwrap();
            assert_ne!(other.features, few.features);
            for name in ["a.svm", "b.txt.gz", "c.thw"] {
                let path = here.path().join(name);
                let made = short.write(&path, &mut |_| ()).unwrap();
                let (rows, _) = cache::read(&path, Some(short.columns())).unwrap();
                assert_eq!((&rows.features, &rows.labels), (&few.features, &few.labels), "{like:?} {name}");
                assert_eq!(rows.stand_in.as_deref(), Some(like.shape().title));
                assert_eq!(cache::stand_in(&path), rows.stand_in);
                assert_eq!((made.rows, made.stored), (40, few.features.stored()));
                assert_eq!(made.positive, few.labels.iter().filter(|y| **y > 0).count());
                assert_eq!(made.bytes, std::fs::metadata(&path).unwrap().len());
                std::fs::remove_file(path).unwrap();
            }
        }
        assert_eq!(libsvm::stand_in(b"# thalweg stand-in: URL\n").as_deref(), Some("URL"));
    }

    #[test]
    fn made_once_and_then_mapped() {
        let here = tempfile::tempdir().unwrap();
        let wanted = ShapedLike { columns: Some(1_500), ..stand_in(Like::Url, 60) };
        let (rows, notes) = wanted.load(Some(here.path()), &mut |_| ()).unwrap();
        assert!(notes.is_empty());
        let file = here.path().join("shaped-like-url-60x1500-3.thw");
        let before = std::fs::metadata(&file).unwrap().modified().unwrap();
        let mut told = false;
        assert_eq!(wanted.load(Some(here.path()), &mut |_| told = true).unwrap().0, rows);
        assert!(!told);
        assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), before);
        assert_eq!(wanted.load(None, &mut |_| ()).unwrap().0.features, rows.features);
        let (again, notes) = wanted.load(Some(&file), &mut |_| ()).unwrap();
        assert_eq!(again.features, rows.features);
        assert!(notes[0].to_string().starts_with("the stand-in is in memory and was not stored: "), "{notes:?}");
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "nothing").unwrap();
        let (again, notes) = wanted.load(Some(here.path()), &mut |_| ()).unwrap();
        assert_eq!(again.features, rows.features);
        assert!(notes[0].to_string().ends_with("; it was generated again"), "{notes:?}");
    }

    #[test]
    fn impossible_sizes_and_names_are_refused() {
        let refused = |rows: ShapedLike| rows.check().unwrap_err().to_string();
        assert_eq!(refused(stand_in(Like::Url, 0)), "rows must be at least 1, got 0");
        let narrow = ShapedLike { columns: Some(14), ..stand_in(Like::Covtype, 5) };
        assert_eq!(refused(narrow), "columns must be 15 to 4294967295, got 14");
        let error = stand_in(Like::Url, 5).write(Path::new("rows.csv"), &mut |_| ()).unwrap_err().to_string();
        assert!(error.starts_with("rows.csv: is called neither .svm, .txt,"), "{error}");
    }
}
