//! How much memory a reading of LIBSVM text takes at most: measured in a process of its own, by what the system says of it.

use std::io::Read;

use thalweg_lab::data::libsvm;
use thalweg_lab::data::source::Source;

/// One row again and again, as a stream: the text itself is never in memory.
struct Repeated {
    row: Vec<u8>,
    left: usize,
    at: usize,
}

impl Read for Repeated {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let mut done = 0;
        while done < into.len() && self.left > 0 {
            let part = &self.row[self.at..];
            let got = part.len().min(into.len() - done);
            into[done..done + got].copy_from_slice(&part[..got]);
            (done, self.at) = (done + got, self.at + got);
            if self.at == self.row.len() {
                (self.at, self.left) = (0, self.left - 1);
            }
        }
        Ok(done)
    }
}

/// Most bytes that were resident, from the start of the process.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Reads rows with so many entries each, of which the columns are so many apart; says how many bytes that took.
fn read(rows: usize, each: usize, apart: usize, value: &str) -> usize {
    let pairs: String = (1..=each).map(|c| format!(" {}:{value}", c * apart)).collect();
    let text = Repeated { row: format!("+1{pairs}\n-1{pairs}\n").into_bytes(), left: rows / 2, at: 0 };
    let before = peak();
    let read = libsvm::parse(Source::new("rows", text).unwrap(), None).unwrap();
    assert_eq!((read.labels.len(), read.features.stored()), (rows, rows * each));
    peak() - before
}

/// What [`reading_takes_what_the_rows_take`] starts.
#[test]
#[ignore = "is run by another test, in a process of its own"]
fn child() {
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    println!("peak = {}", read(number("ROWS"), number("EACH"), number("APART"), &std::env::var("VALUE").unwrap()));
}

#[test]
fn reading_takes_what_the_rows_take() {
    if !cfg!(target_os = "linux") {
        return crate::common::skipped("reading_takes_what_the_rows_take", "needs /proc");
    }
    // Some with many entries, of which a row's own share is small, and some with few.
    let many = [(200_000, 100, 1000, "0.25", 12), (200_000, 100, 1000, "1", 4), (200_000, 100, 2, "1", 5)];
    let few = [(8_000_000, 1, 1000, "1", 4), (8_000_000, 1, 1000, "0.25", 12)];
    for (rows, each, apart, value, bytes) in many.into_iter().chain(few) {
        let numbers = [("ROWS", rows), ("EACH", each), ("APART", apart)].map(|(name, n)| (name, n.to_string()));
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "memory::child", "--nocapture"])
            .envs(numbers)
            .env("VALUE", value)
            .output()
            .unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        let peak: usize = out.lines().find_map(|l| l.split("peak = ").nth(1)).unwrap().trim().parse().unwrap();
        // A row has an offset of 4 bytes and a label of one; buffers and lists that are still small may double.
        let allowed = bytes * rows * each + 8 * rows + (24 << 20);
        assert!(peak <= allowed, "{rows} rows of {each} entries of {bytes} bytes: {peak} of {allowed}");
    }
}
