//! The machine and the build of a run. Nothing here identifies a person or a computer.

use serde::{Deserialize, Serialize};

/// Machine and build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Version of Thalweg.
    pub thalweg: String,
    /// [`RELEASE`], or "with debug assertions".
    pub build: String,
    /// Operating system.
    pub system: String,
    /// Architecture of the processor.
    pub architecture: String,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Number of cores.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: Option<u64>,
}

/// Build without debug assertions, whose times can be compared.
pub const RELEASE: &str = "release";

impl Default for Host {
    fn default() -> Self {
        let unknown = || "unknown".to_string();
        let (thalweg, build, system, architecture) = (unknown(), unknown(), unknown(), unknown());
        Host { thalweg, build, system, architecture, processor: None, cores: 0, memory_gib: None }
    }
}

impl Host {
    /// Returns this machine and build.
    pub fn current() -> Self {
        Host {
            thalweg: env!("CARGO_PKG_VERSION").into(),
            build: if cfg!(debug_assertions) { "with debug assertions" } else { RELEASE }.into(),
            system: std::env::consts::OS.into(),
            architecture: std::env::consts::ARCH.into(),
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: memory(),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Host { thalweg, build, system, architecture, cores, .. } = self;
        let processor = self.processor.as_deref().unwrap_or("unknown processor");
        let memory = self.memory_gib.map_or(String::new(), |n| format!(", {n} GiB"));
        write!(f, "{processor}, {cores} cores{memory}, {architecture} on {system}, Thalweg {thalweg} ({build})")
    }
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}

fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text.lines().find(|line| line.starts_with("MemTotal"))?.split_whitespace().nth(1)?.parse().ok()?;
    Some((kib + (1 << 19)) >> 20)
}

/// Returns the current time as text: 2026-11-16T03:15:09Z.
pub fn now() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    moment(seconds)
}

/// Formats seconds since 1970 as a date and a time, by the 400-year cycle of the calendar.
fn moment(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the leap day is the last of a year.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (400 * era + year + u64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(moment(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(moment(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_machine_says_something() {
        let host = Host::current();
        assert!(host.cores >= 1 && host.to_string().contains("Thalweg "), "{host}");
    }
}
