//! Made-up data from generators with a fixed seed, which give the same rows on every machine. Data files are read in the
//! neighbouring modules.

use thalweg::Note;
use thalweg::learn::Data;
use thalweg::math::rng::Purpose;
use thalweg::math::{Matrix, Rng};
use thalweg::suggest::did_you_mean_one_of;

use super::catalogue::LoadedData;
use super::source::sha256;
use crate::{Error, Result};

/// Generator: Gaussian features, a planted linear model, and noise on its scores.
#[derive(Debug)]
pub struct Generator {
    /// Name in a spec.
    pub name: &'static str,
    rows: usize,
    columns: usize,
    /// Standard deviation of the noise, relative to scores of standard deviation 1.
    noise: f64,
    /// Number of sensitive columns, whose entries become 1 if positive and 0 otherwise.
    sensitive: usize,
    seed: u64,
}

const fn fair(name: &'static str, columns: usize, sensitive: usize, seed: u64) -> Generator {
    Generator { name, rows: 2000, columns, noise: 0.1, sensitive, seed }
}

/// All generators: `gen` of the pairwise experiments, and `d1` to `d4` of those with covariances.
pub const GENERATORS: &[Generator] = &[
    Generator { name: "gen", rows: 2000, columns: 50, noise: 0.3, sensitive: 0, seed: 50 },
    fair("d1", 100, 10, 1),
    fair("d2", 200, 20, 2),
    fair("d3", 300, 20, 3),
    fair("d4", 400, 20, 4),
];

/// Returns the generator of that name, or an error that suggests the most similar one.
pub fn get(name: &str) -> Result<&'static Generator> {
    GENERATORS.iter().find(|s| s.name == name).ok_or_else(|| {
        let known: Vec<&str> = GENERATORS.iter().map(|s| s.name).collect();
        Error::Request(format!("unknown generator '{name}'{}", did_you_mean_one_of(name, &known)))
    })
}

impl Generator {
    /// Generates the rows.
    pub fn make(&self) -> Result<LoadedData> {
        let (n, d) = (self.rows, self.columns);
        let mut rng = Rng::new(self.seed, Purpose::Split);
        let mut entries = vec![0.0; n * d];
        let (mut model, mut noise) = (vec![0.0; d], vec![0.0; n]);
        [&mut entries, &mut model, &mut noise].into_iter().for_each(|list| rng.normals(list));
        let label = |i: usize| {
            let score: f64 = entries[i * d..(i + 1) * d].iter().zip(&model).map(|(x, w)| x * w).sum();
            if score / (d as f64).sqrt() + self.noise * noise[i] > 0.0 { 1.0 } else { -1.0 }
        };
        let labels: Vec<f64> = (0..n).map(label).collect();
        let mut columns: Vec<usize> = (0..d).collect();
        rng.shuffle(&mut columns);
        let mut sensitive = columns[..self.sensitive].to_vec();
        sensitive.sort_unstable();
        for row in entries.chunks_mut(d) {
            sensitive.iter().for_each(|&j| row[j] = if row[j] > 0.0 { 1.0 } else { 0.0 });
        }
        let bytes: Vec<u8> = entries.iter().chain(&labels).flat_map(|v| v.to_le_bytes()).collect();
        let note = Note::GeneratedRows { name: self.name.into(), rows: n, columns: d, sensitive: self.sensitive };
        Ok(LoadedData {
            data: Data { features: Matrix::dense(n, d, entries)?, labels, groups: None, weights: None },
            notes: vec![note],
            fingerprint: sha256(&bytes),
            classes: (1.0, -1.0),
            sensitive,
            stand_in: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_balanced_and_always_the_same() {
        for recipe in GENERATORS {
            let LoadedData { data, sensitive, fingerprint, .. } = recipe.make().unwrap();
            let positive = data.labels.iter().filter(|y| **y > 0.0).count();
            assert!((850..1150).contains(&positive), "{}: {positive}", recipe.name);
            assert_eq!(sensitive.len(), recipe.sensitive);
            for &j in &sensitive {
                let ones = (0..data.labels.len()).filter(|&i| {
                    let mut value = f64::NAN;
                    data.features.visit_row(i, |column, v| value = if column == j { v } else { value });
                    value == 1.0
                });
                assert!((850..1150).contains(&ones.count()));
            }
            assert_eq!(recipe.make().unwrap().fingerprint, fingerprint);
        }
        assert!(get("d5").unwrap_err().to_string().contains("did you mean"));
    }
}
