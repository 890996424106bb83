//! How much memory a reading of LIBSVM text takes at most: measured in a process of its own, by what the system says of it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod common;

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

const ROWS: usize = 200_000;
const EACH: usize = 100;

/// Most bytes that were resident, from the start of the process.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Reads rows of which the columns are so many apart.
fn read(apart: usize, value: &str) -> usize {
    let pairs: String = (1..=EACH).map(|c| format!(" {}:{value}", c * apart)).collect();
    let rows = Repeated { row: format!("+1{pairs}\n-1{pairs}\n").into_bytes(), left: ROWS / 2, at: 0 };
    let before = peak();
    let rows = libsvm::parse(Source::new("rows", rows).unwrap(), None).unwrap();
    assert_eq!((rows.labels.len(), rows.features.stored()), (ROWS, ROWS * EACH));
    peak() - before
}

/// What [`reading_takes_what_the_rows_take`] starts.
#[test]
#[ignore = "is run by another test, in a process of its own"]
fn child() {
    let (apart, value) = (std::env::var("APART").unwrap(), std::env::var("VALUE").unwrap());
    println!("peak = {}", read(apart.parse().unwrap(), &value));
}

#[test]
fn reading_takes_what_the_rows_take() {
    if !cfg!(target_os = "linux") {
        return common::skipped("reading_takes_what_the_rows_take", "needs /proc");
    }
    for (apart, value, each) in [("1000", "0.25", 12), ("1000", "1", 4), ("2", "1", 5)] {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child", "--nocapture"])
            .envs([("APART", apart), ("VALUE", value)])
            .output()
            .unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        let peak: usize = out.lines().find_map(|l| l.split("peak = ").nth(1)).unwrap().trim().parse().unwrap();
        // A row has a pointer and a label of 8 bytes each; buffers and lists that are still small may double.
        let allowed = each * ROWS * EACH + 16 * ROWS + (24 << 20);
        assert!(peak <= allowed, "{each} bytes for an entry: {peak} of {allowed}");
    }
}
