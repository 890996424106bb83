//! Schedules: numbers that may depend on the iteration, such as steps, tolerances and weights. Rules that depend on gradients
//! or values do not belong here.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A number for each iteration t = 0, 1, ...
///
/// In TOML and Python a schedule is a number, or a table `{ rule = "inv-sqrt", c = 0.1 }`. A table with the rule "constant" is
/// serialised as a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Schedule {
    /// `c`; rule "constant", or a plain number.
    Constant(f64),
    /// `c / sqrt(t + 1)`; rule "inv-sqrt".
    InvSqrt(f64),
    /// `c / (t + 1)`; rule "inv-linear".
    InvLinear(f64),
    /// `c / (t + 2)`; rule "strongly-convex": with c = 2 / mu, the step for mu-strongly convex problems.
    StronglyConvex(f64),
    /// `c (t + 1)^p`; rule "power".
    Power {
        /// Factor.
        c: f64,
        /// Exponent.
        p: f64,
    },
    /// `c / (1 + t / after)^p`; rule "decay": nearly constant for about `after` iterations, then decreasing.
    Decay {
        /// Initial value.
        c: f64,
        /// Exponent.
        p: f64,
        /// Number of iterations near the initial value.
        after: f64,
    },
    /// The schedule that a theorem prescribes; rule "theory". Must be resolved before the first step.
    Theory,
}

const RULES: &str = "\"constant\", \"inv-sqrt\", \"inv-linear\", \"strongly-convex\", \"power\", \"decay\" or \"theory\"";

impl Schedule {
    /// Returns the number of iteration `t`. NaN for `Theory`, which [`Schedule::resolve`] removes.
    pub fn at(&self, t: u64) -> f64 {
        let n = t as f64 + 1.0;
        match *self {
            Schedule::Constant(c) => c,
            Schedule::InvSqrt(c) => c / n.sqrt(),
            Schedule::InvLinear(c) => c / n,
            Schedule::StronglyConvex(c) => c / (n + 1.0),
            Schedule::Power { c, p } => c * n.powf(p),
            Schedule::Decay { c, p, after } => c * (1.0 + t as f64 / after).powf(-p),
            Schedule::Theory => f64::NAN,
        }
    }

    /// Returns this schedule, or `concrete` for `Theory`. `name` is the setting in the error message.
    pub fn resolve(&self, name: &str, concrete: Option<&Schedule>) -> Result<Schedule> {
        match (self, concrete) {
            (Schedule::Theory, None | Some(Schedule::Theory)) => Err(Error::setting(
                name,
                "theory",
                "a number or another rule: no theorem prescribes this setting here, or its constants are not given",
            )),
            (Schedule::Theory, Some(&concrete)) => Ok(concrete),
            _ => Ok(*self),
        }
    }

    /// Checks that numbers are finite and positive; zero passes if `allow_zero`. `name` is the setting.
    pub fn validate(&self, name: &str, allow_zero: bool) -> Result<()> {
        let (c, p, key) = match *self {
            Schedule::Theory => return Ok(()),
            Schedule::Constant(c) => (c, 0.0, name.to_string()),
            Schedule::InvSqrt(c) | Schedule::InvLinear(c) | Schedule::StronglyConvex(c) => (c, 0.0, format!("{name}.c")),
            Schedule::Power { c, p } | Schedule::Decay { c, p, .. } => (c, p, format!("{name}.c")),
        };
        if !c.is_finite() || c < 0.0 || (c == 0.0 && !allow_zero) {
            let wanted = if allow_zero { "a finite number, 0 or larger" } else { "a finite number larger than 0" };
            return Err(Error::setting(key, c, wanted));
        }
        if !p.is_finite() {
            return Err(Error::setting(format!("{name}.p"), p, "a finite number"));
        }
        if let Schedule::Decay { after, .. } = *self
            && !(after > 0.0 && after.is_finite())
        {
            return Err(Error::setting(format!("{name}.after"), after, "a finite number larger than 0"));
        }
        Ok(())
    }

    fn rule(&self) -> &'static str {
        match self {
            Schedule::Constant(_) => "constant",
            Schedule::InvSqrt(_) => "inv-sqrt",
            Schedule::InvLinear(_) => "inv-linear",
            Schedule::StronglyConvex(_) => "strongly-convex",
            Schedule::Power { .. } => "power",
            Schedule::Decay { .. } => "decay",
            Schedule::Theory => "theory",
        }
    }

    /// Builds a schedule from the keys of a table. The error is a sentence.
    fn from_keys(rule: Option<&str>, c: Option<f64>, p: Option<f64>, after: Option<f64>) -> std::result::Result<Self, String> {
        let Some(rule) = rule else {
            return Err(format!("a schedule has no rule; expected rule = {RULES}"));
        };
        let factor = || c.ok_or_else(|| format!("the schedule \"{rule}\" has no c; expected c = a number"));
        let schedule = match rule {
            "constant" => Schedule::Constant(factor()?),
            "inv-sqrt" => Schedule::InvSqrt(factor()?),
            "inv-linear" => Schedule::InvLinear(factor()?),
            "strongly-convex" => Schedule::StronglyConvex(factor()?),
            "power" => {
                let p = p.ok_or("the schedule \"power\" has no p; expected p = the exponent of t + 1")?;
                Schedule::Power { c: factor()?, p }
            }
            "decay" => {
                let p = p.ok_or("the schedule \"decay\" has no p; expected p = the exponent that it falls with")?;
                let after = after.ok_or("the schedule \"decay\" has no after; expected after = a number of iterations")?;
                Schedule::Decay { c: factor()?, p, after }
            }
            "theory" => match c {
                None => Schedule::Theory,
                Some(c) => return Err(format!("the schedule \"theory\" takes no c, which the theorem prescribes; got c = {c}")),
            },
            other => return Err(format!("rule must be {RULES}, got \"{other}\"")),
        };
        match (p, after) {
            (_, Some(after)) if rule != "decay" => {
                Err(format!("the schedule \"{rule}\" takes no after, only \"decay\" does; got after = {after}"))
            }
            (Some(p), _) if !["power", "decay"].contains(&rule) => {
                Err(format!("the schedule \"{rule}\" takes no p, only \"power\" and \"decay\" do; got p = {p}"))
            }
            _ => Ok(schedule),
        }
    }
}

impl From<f64> for Schedule {
    fn from(c: f64) -> Self {
        Schedule::Constant(c)
    }
}

/// Formats the rule as a formula, with nine digits.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Schedule::Constant(c) => write!(f, "{}", short(c)),
            Schedule::InvSqrt(c) => write!(f, "{} / sqrt(t + 1)", short(c)),
            Schedule::InvLinear(c) => write!(f, "{} / (t + 1)", short(c)),
            Schedule::StronglyConvex(c) => write!(f, "{} / (t + 2)", short(c)),
            Schedule::Power { c, p } => write!(f, "{} (t + 1)^{}", short(c), short(p)),
            Schedule::Decay { c, p, after } => write!(f, "{} / (1 + t / {})^{}", short(c), short(after), short(p)),
            Schedule::Theory => write!(f, "theory"),
        }
    }
}

/// A theorem that prescribes settings, and the constants that it takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Theory<T, C> {
    /// Name of the theorem.
    pub theorem: T,
    /// Target accuracy.
    pub eps: f64,
    /// Constants of the problem.
    pub constants: C,
}

/// Formats a number with nine significant digits, for tables.
pub(crate) fn short(x: f64) -> String {
    let x: f64 = format!("{x:.8e}").parse().unwrap_or(x);
    if x == 0.0 || (1e-4..1e9).contains(&x.abs()) { format!("{x}") } else { format!("{x:e}") }
}

/// Representation in formats that are not self-describing, such as checkpoints, which cannot distinguish a number from a table.
#[derive(Serialize, Deserialize)]
struct Packed {
    rule: String,
    c: Option<f64>,
    p: Option<f64>,
    after: Option<f64>,
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (c, p, after) = match *self {
            Schedule::Constant(c) | Schedule::InvSqrt(c) | Schedule::InvLinear(c) | Schedule::StronglyConvex(c) => {
                (Some(c), None, None)
            }
            Schedule::Power { c, p } => (Some(c), Some(p), None),
            Schedule::Decay { c, p, after } => (Some(c), Some(p), Some(after)),
            Schedule::Theory => (None, None, None),
        };
        if !serializer.is_human_readable() {
            return Packed { rule: self.rule().into(), c, p, after }.serialize(serializer);
        }
        if let Schedule::Constant(c) = *self {
            return serializer.serialize_f64(c);
        }
        let keys = 1 + [c, p, after].iter().flatten().count();
        let mut map = serializer.serialize_map(Some(keys))?;
        map.serialize_entry("rule", self.rule())?;
        for (key, value) in [("c", c), ("p", p), ("after", after)] {
            if let Some(value) = value {
                map.serialize_entry(key, &value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(NumberOrTable);
        }
        let Packed { rule, c, p, after } = Packed::deserialize(deserializer)?;
        Schedule::from_keys(Some(&rule), c, p, after).map_err(de::Error::custom)
    }
}

struct NumberOrTable;

impl<'de> Visitor<'de> for NumberOrTable {
    type Value = Schedule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number or a table such as {{ rule = \"inv-sqrt\", c = 0.1 }}")
    }

    fn visit_f64<E: de::Error>(self, c: f64) -> std::result::Result<Schedule, E> {
        Ok(Schedule::Constant(c))
    }

    fn visit_i64<E: de::Error>(self, c: i64) -> std::result::Result<Schedule, E> {
        Ok(Schedule::Constant(c as f64))
    }

    fn visit_u64<E: de::Error>(self, c: u64) -> std::result::Result<Schedule, E> {
        Ok(Schedule::Constant(c as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Schedule, A::Error> {
        let (mut rule, mut c, mut p, mut after) = (None::<String>, None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            let again = match key.as_str() {
                "rule" => rule.replace(map.next_value()?).is_some(),
                "c" => c.replace(map.next_value()?).is_some(),
                "p" => p.replace(map.next_value()?).is_some(),
                "after" => after.replace(map.next_value()?).is_some(),
                _ => return Err(de::Error::custom(format!("a schedule has no key \"{key}\"; expected rule, c, p or after"))),
            };
            if again {
                return Err(de::Error::custom(format!("a schedule has the key \"{key}\" twice; expected it once")));
            }
        }
        Schedule::from_keys(rule.as_deref(), c, p, after).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Settings {
        eta: Schedule,
    }

    fn read(text: &str) -> std::result::Result<Schedule, String> {
        toml::from_str::<Settings>(text).map(|s| s.eta).map_err(|e| e.message().to_string())
    }

    const ALL: [Schedule; 7] = [
        Schedule::Constant(0.25),
        Schedule::InvSqrt(0.1),
        Schedule::InvLinear(3.0),
        Schedule::StronglyConvex(3.0),
        Schedule::Power { c: 2.0, p: -0.75 },
        Schedule::Decay { c: 2.0, p: 0.5, after: 300.0 },
        Schedule::Theory,
    ];

    #[test]
    fn values_follow_the_rules() {
        assert_eq!(Schedule::from(0.5).at(0), 0.5);
        assert_eq!(Schedule::from(0.5).at(1_000_000), 0.5);
        assert_eq!((Schedule::InvSqrt(6.0).at(0), Schedule::InvSqrt(6.0).at(8)), (6.0, 2.0));
        assert_eq!((Schedule::InvLinear(6.0).at(0), Schedule::InvLinear(6.0).at(2)), (6.0, 2.0));
        assert_eq!((Schedule::StronglyConvex(6.0).at(0), Schedule::StronglyConvex(6.0).at(1)), (3.0, 2.0));
        let power = Schedule::Power { c: 3.0, p: 2.0 };
        assert_eq!((power.at(0), power.at(3)), (3.0, 48.0));
        let decay = Schedule::Decay { c: 6.0, p: 0.5, after: 10.0 };
        assert_eq!((decay.at(0), decay.at(80)), (6.0, 2.0));
        assert!(Schedule::Theory.at(0).is_nan());
    }

    #[test]
    fn numbers_and_tables_are_read() {
        assert_eq!(read("eta = 0.1"), Ok(Schedule::Constant(0.1)));
        assert_eq!(read("eta = 2"), Ok(Schedule::Constant(2.0)));
        assert_eq!(read("eta = { rule = \"constant\", c = 2 }"), Ok(Schedule::Constant(2.0)));
        assert_eq!(read("eta = { c = 0.1, rule = \"inv-sqrt\" }"), Ok(Schedule::InvSqrt(0.1)));
        assert_eq!(read("eta = { rule = \"inv-linear\", c = 1e-3 }"), Ok(Schedule::InvLinear(1e-3)));
        assert_eq!(read("eta = { rule = \"power\", c = 1, p = -1 }"), Ok(Schedule::Power { c: 1.0, p: -1.0 }));
        assert_eq!(read("[eta]\nrule = \"theory\""), Ok(Schedule::Theory));
    }

    #[test]
    fn written_schedules_are_read_back() {
        for eta in ALL {
            let text = toml::to_string(&Settings { eta }).unwrap();
            assert_eq!(read(&text), Ok(eta), "{text}");
            let bytes = postcard::to_stdvec(&Settings { eta }).unwrap();
            assert_eq!(postcard::from_bytes::<Settings>(&bytes).unwrap(), Settings { eta });
        }
        assert_eq!(toml::to_string(&Settings { eta: 0.25.into() }).unwrap(), "eta = 0.25\n");
        let table = toml::to_string(&Settings { eta: Schedule::Power { c: 2.0, p: 0.5 } }).unwrap();
        assert_eq!(table, "[eta]\nrule = \"power\"\nc = 2.0\np = 0.5\n");
    }

    #[test]
    fn bad_tables_are_refused_with_a_sentence() {
        let cases = [
            ("{ c = 1.0 }", format!("a schedule has no rule; expected rule = {RULES}")),
            ("{ rule = \"sqrt\", c = 1.0 }", format!("rule must be {RULES}, got \"sqrt\"")),
            ("{ rule = \"inv-sqrt\" }", "the schedule \"inv-sqrt\" has no c; expected c = a number".into()),
            ("{ rule = \"power\", c = 1.0 }", "the schedule \"power\" has no p; expected p = the exponent of t + 1".into()),
            ("{ rule = \"power\", p = 1.0 }", "the schedule \"power\" has no c; expected c = a number".into()),
            (
                "{ rule = \"inv-linear\", c = 1.0, p = 2.0 }",
                "the schedule \"inv-linear\" takes no p, only \"power\" and \"decay\" do; got p = 2".into(),
            ),
            (
                "{ rule = \"decay\", c = 1.0, p = 1 }",
                "the schedule \"decay\" has no after; expected after = a number of iterations".into(),
            ),
            (
                "{ rule = \"power\", c = 1.0, p = 1, after = 2 }",
                "the schedule \"power\" takes no after, only \"decay\" does; got after = 2".into(),
            ),
            (
                "{ rule = \"theory\", c = 1.0 }",
                "the schedule \"theory\" takes no c, which the theorem prescribes; got c = 1".into(),
            ),
            ("{ rule = \"constant\", q = 1.0 }", "a schedule has no key \"q\"; expected rule, c, p or after".into()),
            (
                "\"theory\"",
                "invalid type: string \"theory\", expected a number or a table such as { rule = \"inv-sqrt\", c = 0.1 }".into(),
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(read(&format!("eta = {text}")), Err(wanted));
        }
    }

    #[test]
    fn theory_is_resolved_or_refused() {
        let concrete = Schedule::InvSqrt(2.0);
        assert_eq!(Schedule::Theory.resolve("eta", Some(&concrete)), Ok(concrete));
        assert_eq!(Schedule::Constant(1.0).resolve("eta", Some(&concrete)), Ok(Schedule::Constant(1.0)));
        assert_eq!(Schedule::Constant(1.0).resolve("eta", None), Ok(Schedule::Constant(1.0)));
        for none in [None, Some(&Schedule::Theory)] {
            let message = Schedule::Theory.resolve("eta", none).unwrap_err().to_string();
            assert!(message.starts_with("eta must be a number or another rule, got theory"), "{message}");
        }
    }

    #[test]
    fn numbers_are_validated_by_name() {
        let refuse = |s: Schedule, zero| s.validate("eta", zero).unwrap_err().to_string();
        assert_eq!(refuse(0.0.into(), false), "eta must be a finite number larger than 0, got 0");
        assert_eq!(refuse((-1.0).into(), true), "eta must be a finite number, 0 or larger, got -1");
        assert_eq!(refuse(Schedule::InvSqrt(f64::NAN), true), "eta.c must be a finite number, 0 or larger, got NaN");
        assert_eq!(refuse(Schedule::InvLinear(f64::INFINITY), false), "eta.c must be a finite number larger than 0, got inf");
        assert_eq!(refuse(Schedule::Power { c: 1.0, p: f64::INFINITY }, false), "eta.p must be a finite number, got inf");
        assert_eq!(Schedule::Constant(0.0).validate("tol", true), Ok(()));
        for good in ALL {
            assert_eq!(good.validate("eta", false), Ok(()));
        }
    }

    #[test]
    fn formulas_are_short() {
        let shown: Vec<String> = ALL.iter().map(Schedule::to_string).collect();
        assert_eq!(
            shown,
            ["0.25", "0.1 / sqrt(t + 1)", "3 / (t + 1)", "3 / (t + 2)", "2 (t + 1)^-0.75", "2 / (1 + t / 300)^0.5", "theory"]
        );
        assert_eq!(Schedule::Constant(0.002_500_000_000_000_000_5).to_string(), "0.0025");
        assert_eq!(Schedule::Constant(1.52661e11).to_string(), "1.52661e11");
        assert_eq!(Schedule::Constant(5e-6).to_string(), "5e-6");
    }
}
