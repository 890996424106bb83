//! Runs of `conex` and `ipp` on a9a against an independent implementation.
//!
//! The numbers come from plain dense formulas and sparse products of another language, which share no code with this one.
//! Every one of the 301 iterates was compared and agreed to 1e-12 relative; these five of each run are kept. The gap between
//! the winning threshold and the next is never below 2e-9, so rounding does not choose another one.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may give up like tests

mod common;

use common::{Place, cells};

const CONEX: &str = r#"
name = "conex"
eta = { rule = "inv-sqrt", c = 0.05 }
tau = 20
theta = 1.0
"#;
const IPP_SSG: &str = r#"
name = "ipp"
rho_hat = 3.0
[solver.inner]
name = "ssg"
eta = 0.05
tol = 1e-5
"#;
/// Coefficients 20 (k + 1) and 0.1 / (k + 1), as the paper would print them.
const IPP_CONEX: &str = r#"
name = "ipp"
rho_hat = 3.0
[solver.inner]
name = "conex"
eta = { rule = "inv-linear", c = 0.05 }
tau = { rule = "power", c = 10.0, p = 1.0 }
theta = "growing"
"#;

/// t, objective, hinge minus its bound, norm.
type Known = [(u64, f64, f64, f64); 5];

/// Runs 300 iterations from w_j = 0.01 sin j and compares five of them.
fn check(solver: &str, bound: f64, known: Known) {
    let place = Place::new();
    place.put(
        "run.toml",
        format!(
            r#"
[data]
name = "a9a"
[problem]
minimize = "roc_gap(thresholds = 400, low = -3.0, high = 3.0)"
subject_to = ["hinge <= {bound}"]
domain = {{ ball = 30.0 }}
start = "sin"
[budget]
iterations = 300
[record]
at = [1, 2, 10, 100, 300]
[solver]{solver}"#
        ),
    );
    let ran = place.run(&["solve", "run.toml", "--trace", "run.csv"]);
    assert!(ran.err.is_empty() && ran.code < Some(2), "{ran:?}");
    let text = place.read("run.csv");
    let (_, rows) = cells(&text);
    assert_eq!(rows.len(), known.len());
    for (row, (t, objective, violation, norm)) in rows.iter().zip(known) {
        assert_eq!(row[0], t.to_string());
        // The hinge loss itself is what is compared relatively: its distance from the bound may be close to 0.
        for (name, got, wanted, shift) in
            [("objective", row[1], objective, 0.0), ("hinge", row[2], violation, bound), ("norm", row[3], norm, 0.0)]
        {
            let (got, wanted) = (got.parse::<f64>().unwrap() + shift, wanted + shift);
            assert!((got - wanted).abs() <= 1e-8 * wanted.abs(), "{name} of iterate {t}: {got:?} against {wanted:?}");
        }
        // A value and a subgradient of the constraint each time; of the objective as the solver needs it.
        if !solver.contains("ssg") {
            assert_eq!((row[4].parse(), row[5].parse()), (Ok(t as f64), Ok(2.0 * t as f64)));
        }
    }
}

#[test]
fn conex_agrees() {
    check(
        CONEX,
        0.45,
        [
            (1, 0.028150347937440423, 0.15589945987739, 0.7411544256772572),
            (2, 0.021995219792921183, 0.15920425207901773, 0.7399973570677743),
            (10, 0.057002360429698196, -0.0001781556197842371, 0.6068114965409657),
            (100, 0.007168284579766981, -0.004564838887137712, 0.7697388735739934),
            (300, 0.0028319380710715714, -0.0017611585425816867, 0.7644899569585712),
        ],
    );
    check(
        CONEX,
        0.36,
        [
            (1, 0.0313237316450275, 0.30708015868555916, 0.8618192346001149),
            (2, 0.02524313302196135, 0.3103847153254127, 0.8607030866918084),
            (10, 0.07998076980916768, 0.0774807024740356, 0.7947356699073477),
            (100, 0.17963628023995148, 0.002927972323644057, 1.9508419883014856),
            (300, 0.1959403399079661, -0.0029206883323953936, 2.3032383620253554),
        ],
    );
}

#[test]
fn ipp_with_ssg_inside_agrees() {
    check(
        IPP_SSG,
        0.45,
        [
            (1, 0.0010926305235979261, 0.44970408049030747, 0.10787676057063955),
            (2, 0.0029738585198479384, 0.3589108574568501, 0.1618846767728719),
            (10, 0.018859249497762465, 0.03018405564786031, 0.4438502932552479),
            (100, 0.05323771723610038, -0.00020509591366063562, 0.5853135499885824),
            (300, 0.017444866718962726, -0.00043240916024561704, 0.6173593447168626),
        ],
    );
    check(
        IPP_SSG,
        0.36,
        [
            (1, 0.0010926305235979261, 0.5397040804903075, 0.10787676057063955),
            (2, 0.0029738585198479384, 0.4489108574568501, 0.1618846767728719),
            (10, 0.018859249497762465, 0.12018405564786033, 0.4438502932552479),
            (100, 0.07956774159728264, 0.07521176148476977, 0.7192313274253065),
            (300, 0.1531440216796205, 0.02307715050216602, 1.3617300296053956),
        ],
    );
}

#[test]
fn ipp_with_conex_inside_agrees() {
    check(
        IPP_CONEX,
        0.45,
        [
            (1, 0.01833823466842266, 0.059078352319793026, 0.38117523312366003),
            (2, 0.013050099088441403, 0.057219927667805315, 0.38254622448913883),
            (10, 0.019381214031234106, 0.026083996942238064, 0.4440876790459441),
            (100, 0.05300681504509164, -0.001976134431699861, 0.5955792317332954),
            (300, 0.020290000256305896, -0.00018923374414964167, 0.6106713213066925),
        ],
    );
    check(
        IPP_CONEX,
        0.36,
        [
            (1, 0.019996895474370335, 0.12357453883662545, 0.44063879200753436),
            (2, 0.01568319302833915, 0.1300583895961394, 0.4108423006480341),
            (10, 0.045802661354116425, 0.10929579882121798, 0.4798531897631469),
            (100, 0.16595594805177238, 0.01321564644508011, 1.5780494754013663),
            (300, 0.17263680475967003, 0.005176791516276369, 1.8366691077136879),
        ],
    );
}
