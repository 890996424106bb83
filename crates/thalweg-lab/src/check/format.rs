//! The file of a certificate, as this program reads it. Writing it is left to others.

use serde::Deserialize;

/// Formats that this program reads.
pub const FORMAT: u32 = 2;

#[derive(Debug, Deserialize)]
pub struct File {
    pub problem: String,
    /// Name and fingerprint of the data.
    pub data: Option<String>,
    pub model: Option<Model>,
    pub proximity: Option<Proximity>,
    pub conflict: Option<Conflict>,
    #[serde(default)]
    pub references: Vec<Reference>,
}

/// Claim about the distance of a point from its proximal point.
#[derive(Debug, Deserialize)]
pub struct Proximity {
    pub point: Vec<f64>,
    pub lower: f64,
    pub upper: Option<f64>,
    pub relaxed: f64,
    pub mu: f64,
    pub mu_g: f64,
    pub rho_f: Constant,
    pub rho_g: Vec<Constant>,
    pub record: Record,
}

#[derive(Debug, Deserialize)]
pub struct Constant {
    pub value: f64,
    pub source: String,
}

#[derive(Debug, Deserialize)]
pub struct Record {
    pub visits: Vec<Visit>,
    pub cuts: Vec<Cut>,
    pub domain_cuts: Vec<DomainCut>,
    pub upper: Vec<(f64, usize)>,
    pub domain: Domain,
}

#[derive(Debug, Deserialize)]
pub struct Visit {
    pub point: Vec<f64>,
    pub values: Vec<f64>,
    pub value_errors: Vec<f64>,
    pub slopes: Vec<Vec<f64>>,
    pub slope_errors: Vec<f64>,
}

#[derive(Debug, Deserialize)]
pub struct Cut {
    pub function: usize,
    pub visit: usize,
    pub weight: f64,
}

#[derive(Debug, Deserialize)]
pub struct DomainCut {
    pub weight: f64,
    pub normal: Vec<f64>,
    pub foot: Vec<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    Whole,
    Ball { radius: f64 },
    Box { low: Vec<Option<f64>>, high: Vec<Option<f64>> },
    Other { description: String },
}

/// Claim that no point near a point, or of the domain, satisfies all constraints within their tolerances.
#[derive(Debug, Deserialize)]
pub struct Conflict {
    pub point: Vec<f64>,
    /// Distance from the point within which no point does; the whole domain if there is none.
    pub radius: Option<f64>,
    /// Tolerance of each constraint.
    pub tolerances: Vec<f64>,
    pub rho_g: Vec<Constant>,
    pub record: Record,
}

/// Rows and functions of a linear model.
#[derive(Debug, Deserialize)]
pub struct Model {
    pub columns: usize,
    pub intercept: bool,
    pub labels: Vec<f64>,
    pub weights: Option<Vec<f64>>,
    pub rows: Vec<Vec<(usize, f64)>>,
    /// Scales of the columns in `ridge`.
    pub scales: Option<Scales>,
    pub functions: Vec<Function>,
}

/// Scales of the columns: their standard deviations over the rows from `first` to before `end`, unless they are part of the problem.
#[derive(Debug, Deserialize)]
pub struct Scales {
    pub values: Vec<f64>,
    pub given: bool,
    pub first: usize,
    pub end: usize,
}

#[derive(Debug, Deserialize)]
pub struct Function {
    pub expression: String,
    pub bound: f64,
    pub pieces: Option<Vec<Piece>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Piece {
    Loss { factor: f64, loss: Loss, scale: Option<f64>, rows: Option<Vec<usize>> },
    Penalty { factor: f64, penalty: Penalty },
    Rates { factor: f64, temperature: f64, thresholds: Vec<f64>, comparison: Comparison, families: Vec<Vec<Vec<usize>>> },
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    Hinge,
    Logistic,
    TruncatedLogistic,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Penalty {
    L2,
    Ridge,
    L1,
    Scad,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    BetweenGroups,
    ToOverall,
    Share,
    Rest,
}

/// Claim about the smallest value of a convex function.
#[derive(Debug, Deserialize)]
pub struct Reference {
    pub function: Function,
    pub value: f64,
    pub lower: f64,
    /// Norm of the weights that the lower bound holds for; all weights if there is none.
    pub radius: Option<f64>,
    pub point: Vec<f64>,
    pub multipliers: Vec<Vec<(f64, f64)>>,
    pub combinations: Vec<(usize, Vec<(usize, f64)>)>,
}
