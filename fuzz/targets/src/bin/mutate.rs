//! Runs the targets on mutated inputs with a stable compiler: `mutate TARGET|all SECONDS [SEED]`, or `mutate --seeds DIR` to write
//! the first inputs for cargo fuzz. An input that panics is written to a file and ends the run with exit code 1.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use thalweg_fuzz_targets::{TARGETS, Target};

/// Random numbers by xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Pieces that readers react to.
const WORDS: [&str; 24] = [
    "\"",
    ",",
    ";",
    "\n",
    "\r",
    "\t",
    "|",
    "#",
    ":",
    "0:",
    "4294967295",
    "18446744073709551615",
    "-1",
    "1e400",
    "nan",
    "inf",
    "best(",
    "(",
    ")",
    "'",
    "null",
    "[",
    "{\"",
    "\u{feff}",
];

/// Changes an input in one to eight places; `other` is one to take pieces from.
fn mutated(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(16)).min(bytes.len());
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            2 if at < end => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
            4 if at < end => {
                let piece = bytes[at..end].to_vec();
                let times = 1 + random.below(20);
                let copies = piece.repeat(times);
                drop(bytes.splice(at..at, copies));
            }
            5 => bytes.truncate(at),
            6 if !other.is_empty() => {
                let from = random.below(other.len());
                let to = (from + 1 + random.below(64)).min(other.len());
                drop(bytes.splice(at..at, other[from..to].iter().copied()));
            }
            // Whole numbers in binary formats.
            _ if at + 8 <= bytes.len() => {
                let numbers = [0, 1, 0xff, 0xffff, u64::from(u32::MAX), u64::MAX, 1 << 40, bytes.len() as u64];
                bytes[at..at + 8].copy_from_slice(&numbers[random.below(numbers.len())].to_le_bytes());
            }
            _ => {}
        }
    }
    bytes.truncate(1 << 16);
    bytes
}

/// Runs a target until the time is over. Returns the number of inputs, or the file with one that panicked.
fn run((name, target, seeds): Target, time: Duration, seed: u64) -> Result<u64, String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut corpus = seeds();
    let fails = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| target(input))).is_err();
    let save = |input: &[u8]| {
        let file = format!("crash-{name}-{}", input.len());
        let written = std::fs::write(&file, input);
        Err(match written {
            Ok(()) => file,
            Err(e) => format!("{file} cannot be written: {e}"),
        })
    };
    if let Some(input) = corpus.iter().find(|input| fails(input)) {
        return save(input);
    }
    let first = corpus.len();
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < time {
        let input = mutated(&corpus[random.below(corpus.len())], &corpus[random.below(corpus.len())], &mut random);
        if fails(&input) {
            return save(&input);
        }
        count += 1;
        // Some mutated inputs are mutated further.
        if random.below(50) == 0 {
            if corpus.len() < 500 {
                corpus.push(input)
            } else {
                let at = first + random.below(500 - first);
                corpus[at] = input
            }
        }
    }
    Ok(count)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, directory] = arguments.as_slice()
        && option == "--seeds"
    {
        for (name, _, seeds) in TARGETS {
            let below = std::path::Path::new(directory).join(name);
            std::fs::create_dir_all(&below).expect("a directory for the inputs");
            for (k, seed) in seeds().iter().enumerate() {
                std::fs::write(below.join(format!("seed-{k}")), seed).expect("a file for an input");
            }
        }
        return ExitCode::SUCCESS;
    }
    let seconds = arguments.get(1).and_then(|s| s.parse().ok());
    let (Some(wanted), Some(seconds)) = (arguments.first(), seconds) else {
        println!("mutate TARGET|all SECONDS [SEED], or mutate --seeds DIR");
        return ExitCode::from(2);
    };
    let seed = arguments.get(2).and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut code = ExitCode::SUCCESS;
    for target in TARGETS.into_iter().filter(|(name, ..)| wanted == "all" || wanted == name) {
        match run(target, Duration::from_secs(seconds), seed) {
            Ok(count) => println!("{}: {count} inputs in {seconds} s, no panic", target.0),
            Err(file) => {
                println!("{}: a panic, with the input in {file}", target.0);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
