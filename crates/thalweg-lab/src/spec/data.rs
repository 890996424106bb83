//! The `[data]` table: the source of the rows and their split.

use std::path::Path;

use thalweg::learn::{Attributes, Data, Split, gaussian_kernel};
use thalweg::math::rng::Purpose;
use thalweg::math::{Matrix, Rng};
use toml::Value;

use super::base_of;
use super::messages::{number, wrong};
use super::schema::DataSpec;
use crate::bilevel;
use crate::data::catalogue::{self, LoadedData, Options};
use crate::data::generator;
use crate::data::shaped_like::ShapedLike;
use crate::{Error, Result};

impl DataSpec {
    /// Returns the sha256 of the data's text, and the data, which are loaded to compute it; `None` for a bilevel problem, which
    /// includes its own. Relative paths start at the directory of `file`.
    pub(crate) fn fingerprint(&self, file: &Path, options: &Options) -> Result<(String, Option<LoadedData>)> {
        if let Some(value) = &self.bilevel {
            return Ok((bilevel::BilevelSpec::read(value)?.fingerprint(), None));
        }
        let loaded = self.load(base_of(file), options)?;
        Ok((loaded.fingerprint.clone(), Some(loaded)))
    }

    /// Returns the displayed name of the data; empty for a generated stand-in, which is named by its shape.
    pub(crate) fn called(&self) -> String {
        let file = self.file.as_ref().map(|file| file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned());
        let bilevel =
            self.bilevel.as_ref().and_then(|value| bilevel::BilevelSpec::read(value).ok()).map(|named| named.name().to_string());
        self.name.clone().or(self.generator.clone()).or(bilevel).or(file).unwrap_or_default()
    }

    /// Checks the table and returns the source of the data.
    pub(crate) fn source(&self) -> Result<Source<'_>> {
        if let Some(name) = &self.generator {
            generator::get(name)?;
            let others = [("name", self.name.is_some()), ("file", self.file.is_some()), ("columns", self.columns.is_some())];
            return match others.iter().chain(&[("group", self.group.is_some())]).find(|(_, given)| *given) {
                Some((key, _)) => Err(Error::Request(format!("[data] has generator and {key}; expected one of them"))),
                None => Ok(Source::Generator(name)),
            };
        }
        if let Some(shape) = &self.shaped_like {
            shape.check().map_err(|e| Error::Request(format!("shaped_like: {e}")))?;
            let others = [("name", self.name.is_some()), ("file", self.file.is_some()), ("columns", self.columns.is_some())];
            return match others.iter().chain(&[("group", self.group.is_some())]).find(|(_, given)| *given) {
                Some((key, _)) => Err(Error::Request(format!("[data] has shaped_like and {key}; expected one of them"))),
                None => Ok(Source::StandIn(shape)),
            };
        }
        match (&self.name, &self.file) {
            (Some(_), Some(_)) => Err(Error::Request("[data] has name and file; expected one of them".into())),
            (None, None) => Err(Error::Request("[data] has neither name nor file; expected one of them".into())),
            (Some(_), None) if self.columns.is_some() || self.group.is_some() => {
                Err(Error::Request("columns and group belong to a file: a named data set brings its own".into()))
            }
            (Some(name), None) => Ok(Source::Named(name)),
            (None, Some(_)) if self.columns.is_some_and(|n| n == 0 || n > u32::MAX as usize) => {
                let columns = self.columns.unwrap_or_default();
                Err(Error::Request(format!("columns must be a whole number from 1 to {}, got {columns}", u32::MAX)))
            }
            (None, Some(file)) => Ok(Source::File(file)),
        }
    }

    pub(crate) fn load(&self, base: &Path, options: &Options) -> Result<LoadedData> {
        match self.source()? {
            Source::Named(name) => catalogue::load(name, options),
            Source::File(file) => catalogue::load_file(&base.join(file), self.columns, self.group),
            Source::Generator(name) => generator::get(name)?.make(),
            Source::StandIn(shape) => catalogue::load_stand_in(shape, options),
        }
    }

    /// Returns the coefficient of the Gaussian kernel, if there is a kernel.
    pub(crate) fn kernel(&self) -> Result<Option<Gamma>> {
        let wrong = |value: &Value| wrong("kernel", value, "\"rbf\" or { rbf = GAMMA }, a number above 0");
        match &self.kernel {
            None => Ok(None),
            Some(Value::String(name)) if name == "rbf" => Ok(Some(Gamma::OneByColumns)),
            Some(value @ Value::Table(t)) if t.len() == 1 => match t.get("rbf").and_then(number) {
                Some(gamma) if gamma > 0.0 && gamma.is_finite() => Ok(Some(Gamma::Given(gamma))),
                _ => Err(wrong(value)),
            },
            Some(other) => Err(wrong(other)),
        }
    }

    /// Returns whether the rows of a run depend on its seed: whether [`DataSpec::divide`] samples or splits them.
    pub(crate) fn depends_on_seed(&self) -> bool {
        let splits = |fraction: Option<f64>| fraction.is_some_and(|fraction| fraction != 0.0);
        self.sample.is_some() || splits(self.test_fraction) || splits(self.validation_fraction)
    }

    /// Prepares the rows of a run: samples and splits them, separates the sensitive columns, and applies the kernel.
    pub(crate) fn divide(&self, loaded: LoadedData, seed: u64) -> Result<RowSplit> {
        let mut data = loaded.data;
        if self.scale {
            data.features = data.features.scaled();
        }
        if let Some(sample) = self.sample {
            let rows = data.labels.len();
            if sample == 0 || sample > rows {
                return Err(Error::Request(format!("sample must be 1 to {rows}, the rows that there are, got {sample}")));
            }
            let mut order: Vec<usize> = (0..rows).collect();
            Rng::new(seed, Purpose::Sampling).shuffle(&mut order);
            data = data.select(&order[..sample]);
        }
        let (test, validation) = (self.test_fraction.unwrap_or(0.0), self.validation_fraction.unwrap_or(0.0));
        // An invalid share of test rows is reported where it is used.
        let both = (0.0..1.0).contains(&test) && test + validation >= 1.0;
        if !(0.0..1.0).contains(&validation) || both {
            let wanted = "a number from 0 on that leaves rows to train on beside test_fraction";
            return Err(Error::Request(format!("validation_fraction must be {wanted}, got {validation}")));
        }
        let mut aside = |fraction: f64, seed: u64| -> Result<Option<Data>> {
            if fraction == 0.0 {
                return Ok(None);
            }
            let (kept, held) = data.hold_out(fraction, seed)?;
            data = kept;
            Ok((!held.labels.is_empty()).then_some(held))
        };
        // The validation share refers to all rows, but is taken from those that remain after the test.
        let held_out = if self.test_fraction.is_some() { aside(test, seed)? } else { None };
        let validation = aside(validation / (1.0 - test), seed)?;
        let sensitive = match &self.sensitive {
            None => loaded.sensitive,
            Some(columns) => {
                let width = data.features.cols();
                if let Some(column) = columns.iter().find(|c| **c == 0 || **c > width) {
                    return Err(Error::Request(format!("sensitive column {column}; expected 1 to {width}")));
                }
                if let Some((_, column)) = columns.iter().enumerate().find(|(i, c)| columns[..*i].contains(c)) {
                    return Err(Error::Request(format!("sensitive has column {column} twice; expected each once")));
                }
                if columns.len() == width {
                    return Err(Error::Request(format!(
                        "sensitive has all {width} columns; expected some that are left for the model"
                    )));
                }
                columns.iter().map(|c| c - 1).collect()
            }
        };
        let mut divided = RowSplit { data, held_out, validation, attributes: None };
        if !sensitive.is_empty() {
            divided.attributes = Some(part(&mut divided.data, &sensitive)?);
            for other in [&mut divided.held_out, &mut divided.validation].into_iter().flatten() {
                part(other, &sensitive)?;
            }
        }
        if let Some(gamma) = self.kernel()? {
            let centres = divided.data.features.clone();
            let gamma = match gamma {
                Gamma::OneByColumns => 1.0 / centres.cols().max(1) as f64,
                Gamma::Given(gamma) => gamma,
            };
            let all = [Some(&mut divided.data), divided.held_out.as_mut(), divided.validation.as_mut()];
            for data in all.into_iter().flatten() {
                data.features = gaussian_kernel(&data.features, &centres, gamma)?;
            }
        }
        Ok(divided)
    }

    /// Returns the maximum number of rows per group in gaps; `None` if all are used.
    pub(crate) fn equal_groups(&self) -> Result<Option<usize>> {
        match &self.equal_groups {
            None | Some(Value::Boolean(false)) => Ok(None),
            Some(Value::Boolean(true)) => Ok(Some(usize::MAX)),
            Some(Value::Integer(most)) if *most > 0 => Ok(Some(*most as usize)),
            Some(other) => Err(wrong("equal_groups", other, "true, false, or the most rows that each group keeps")),
        }
    }

    pub(crate) fn split(&self) -> Result<Split> {
        let wanted = "\"ordered\", \"shared\" or { shuffle = SEED }";
        match &self.split {
            None => Ok(Split::Ordered),
            Some(Value::String(s)) if s == "ordered" => Ok(Split::Ordered),
            Some(Value::String(s)) if s == "shared" => Ok(Split::Shared),
            Some(Value::Table(t)) if t.len() == 1 => match t.get("shuffle") {
                Some(Value::Integer(seed)) if *seed >= 0 => Ok(Split::Shuffle(*seed as u64)),
                _ => Err(wrong("split", &Value::Table(t.clone()), wanted)),
            },
            Some(other) => Err(wrong("split", other, wanted)),
        }
    }
}

/// Source of data.
pub(crate) enum Source<'a> {
    Generator(&'a str),
    StandIn(&'a ShapedLike),
    Named(&'a str),
    File(&'a Path),
}

/// Coefficient of a Gaussian kernel.
pub(crate) enum Gamma {
    OneByColumns,
    Given(f64),
}

/// Rows of a run.
pub(crate) struct RowSplit {
    pub(crate) data: Data,
    pub(crate) held_out: Option<Data>,
    pub(crate) validation: Option<Data>,
    /// Sensitive columns of the training rows.
    pub(crate) attributes: Option<Attributes>,
}

/// Removes columns from the features and returns them.
fn part(data: &mut Data, columns: &[usize]) -> Result<Attributes> {
    let (rows, width) = (data.features.rows(), data.features.cols());
    let mut place: Vec<Option<usize>> = (0..width).map(Some).collect();
    columns.iter().for_each(|&c| place[c] = None);
    let mut kept = 0;
    for slot in place.iter_mut().flatten() {
        *slot = kept;
        kept += 1;
    }
    let mut values = vec![vec![0.0; rows]; columns.len()];
    let mut entries = vec![0.0; rows * kept];
    for i in 0..rows {
        data.features.visit_row(i, |column, v| match place[column] {
            Some(to) => entries[i * kept + to] = v,
            None => columns.iter().zip(&mut values).filter(|(c, _)| **c == column).for_each(|(_, list)| list[i] = v),
        });
    }
    data.features = Matrix::dense(rows, kept, entries)?;
    Ok(Attributes { names: columns.iter().map(|c| format!("column {}", c + 1)).collect(), values })
}
