//! Speed of parsing LIBSVM text, compared with limits for the same bytes in the same run: counting lines, hashing, and reading.
//! The texts are like the URL data, all ones, and the first of them compressed.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use flate2::{Compression, write::GzEncoder};
use thalweg::math::Rng;
use thalweg::math::rng::Purpose;
use thalweg_lab::data::libsvm;
use thalweg_lab::data::source::{Source, sha256};

const ROWS: usize = 40_000;

/// Returns rows of 115 columns out of 3.2 million; one column in `valued` has a value of four decimals.
fn text(valued: usize) -> String {
    let mut rng = Rng::new(1, Purpose::Data);
    let mut text = String::new();
    let mut ids = vec![];
    for _ in 0..ROWS {
        ids.clear();
        ids.extend((0..115).map(|_| (3.2e6_f64.ln() * rng.uniform()).exp() as u32 + 1));
        ids.sort_unstable();
        ids.dedup();
        text += if rng.uniform() < 0.33 { "+1" } else { "-1" };
        for id in &ids {
            match valued > 0 && rng.below(valued) == 0 {
                true => write!(text, " {id}:0.{:04}", 1 + rng.below(9998)).unwrap(),
                false => write!(text, " {id}:1").unwrap(),
            }
        }
        text.push('\n');
    }
    text
}

/// Measures the best of seven repeats, since other work on the machine only slows it down.
fn rate(bytes: usize, work: &mut dyn FnMut()) -> f64 {
    let seconds = (0..7)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    bytes as f64 / 1e6 / seconds
}

fn plain(path: &Path) -> usize {
    let mut file = std::fs::File::open(path).unwrap();
    let mut block = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        let got = file.read(&mut block).unwrap();
        if got == 0 {
            return total;
        }
        total += got;
    }
}

fn main() {
    println!("{ROWS} rows, one core, MB of text in a second");
    println!("{:>24} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}", "", "rows", "lines", "sha256", "reading", "parsing", "limit");
    for (name, valued, gzip) in
        [("one in 40 has decimals", 40, false), ("all decimals", 1, false), ("all ones", 0, false), ("zipped", 40, true)]
    {
        let text = text(valued);
        let path = std::env::temp_dir().join(format!("thalweg-read-libsvm-{}", std::process::id()));
        if gzip {
            let mut zip = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
            zip.write_all(text.as_bytes()).unwrap();
            zip.finish().unwrap();
        } else {
            std::fs::write(&path, &text).unwrap();
        }
        let bytes = text.len();
        let rows = rate(bytes, &mut || assert_eq!(libsvm::read(&path, None).unwrap().labels.len(), ROWS));
        let lines = rate(bytes, &mut || assert_eq!(memchr::memchr_iter(b'\n', text.as_bytes()).count(), ROWS));
        let hash = rate(bytes, &mut || assert_eq!(sha256(text.as_bytes()).len(), 64));
        let reading = rate(bytes, &mut || assert!(plain(&path) > 0));
        // The remaining cost with the bytes in memory.
        let parsing = rate(bytes, &mut || {
            libsvm::parse(Source::new("text", text.as_bytes()).unwrap(), None).unwrap();
        });
        // Upper limit for any reader that hashes its input.
        let limit = 1.0 / (1.0 / hash + 1.0 / reading);
        println!("{name:>24} {rows:>8.0} {lines:>8.0} {hash:>8.0} {reading:>8.0} {parsing:>8.0} {limit:>8.0}");
        std::fs::remove_file(&path).unwrap();
    }
}
