//! Time for a table of a million rows and six columns: reading it, learning its encoding, and encoding it.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // benchmarks print and may panic

use std::fmt::Write;
use std::time::Instant;

use thalweg::math::Rng;
use thalweg::math::rng::Purpose;
use thalweg_lab::data::source::Source;
use thalweg_lab::data::table::Table;
use thalweg_lab::encode::{Encoding, Labels};

fn main() {
    const ROWS: usize = 1_000_000;
    let mut rng = Rng::new(1, Purpose::Data);
    let mut csv = String::from("age,income,score,town,remark,label\n");
    for _ in 0..ROWS {
        let mut pick = |n: usize| (rng.uniform() * n as f64) as usize;
        let (age, income, score, town, label) = (pick(80), pick(100_000), pick(1_000_000), pick(300), pick(2));
        let remark = ["", "\"late, but paid\"", "none so far", "NA"][pick(4)];
        writeln!(csv, "{age},{income}.5,0.{score:06},town {town},{remark},{label}").unwrap();
    }
    println!("{ROWS} rows, {:.0} MB", csv.len() as f64 / 1e6);
    let path = std::env::temp_dir().join(format!("thalweg-read-table-{}.csv", std::process::id()));
    std::fs::write(&path, &csv).unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        Source::open(&path).unwrap().text().unwrap();
        let text = start.elapsed();
        let start = Instant::now();
        let table = Table::read(&path).unwrap();
        let read = start.elapsed();
        let start = Instant::now();
        let (encoding, _) = Encoding::learn(&table, "label", &[]).unwrap();
        Labels::learn(&table, "label", None).unwrap();
        let learn = start.elapsed();
        let start = Instant::now();
        let (rows, _) = encoding.encode(&table).unwrap();
        let encode = start.elapsed();
        println!(
            "read {read:.2?} (its bytes alone {text:.2?}), learn {learn:.2?}, encode {encode:.2?}: {} x {}",
            rows.rows(),
            rows.cols()
        );
    }
    std::fs::remove_file(&path).unwrap();
}
