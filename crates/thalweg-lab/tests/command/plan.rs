//! `thalweg plan` as a user meets it: the check values of the theorems, as a table and as JSON, and refusals.

use crate::common::{Place, Ran};
use serde_json::Value;
use thalweg::solvers::{Interface, registry};

const CONSTANTS: [&str; 18] = [
    "plan",
    "--method",
    "ssg",
    "--eps",
    "0.1",
    "--lipschitz",
    "1",
    "--diameter",
    "1",
    "--rho",
    "1",
    "--rho-hat",
    "2",
    "--slater",
    "1",
    "--confidence",
    "0.05",
    "--noise=0.5",
];

fn plan(more: &[&str]) -> Ran {
    Place::new().run(&[CONSTANTS.as_slice(), more].concat())
}

#[test]
fn the_table_shows_the_check_values() {
    let text = plan(&[]).ended(0).out;
    for (theorem, rows) in [
        ("4.2-I", vec![["T", "1000000"], ["tol_t", "0.0025"], ["eta_t", "0.001"], ["Lam", "3"], ["S", "0"]]),
        ("4.2-II", vec![["T", "8000000"], ["S", "4000000"]]),
        ("4.3-I", vec![["T", "210337279"], ["tol_t", "0.0025"], ["eta_t", "0.001"]]),
        ("4.3-II", vec![["T", "899694335"], ["E", "53.0240021"]]),
        ("5.2-I", vec![["T", "210337279"]]),
        ("5.2-II", vec![["T", "1040555780"], ["E", "57.0240021"]]),
    ] {
        let (_, after) =
            text.split_once(&format!("Theorem {theorem}: ")).unwrap_or_else(|| panic!("{theorem} is not in\n{text}"));
        let section = after.split("Theorem ").next().unwrap();
        for [symbol, value] in rows {
            let found = section.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.windows(2).any(|w| w == [symbol, value])
            });
            assert!(found, "{symbol} = {value} is not in the section of {theorem}:\n{section}");
        }
    }
    assert!(!text.contains("B.1"), "the strong convexity was not given:\n{text}");
}

#[test]
fn the_json_form_has_the_check_values() {
    let plans = plan(&["--json"]).ended(0).json();
    let get = |theorem: &str| -> &Value {
        plans.as_array().unwrap().iter().find(|p| p["theorem"] == theorem).unwrap_or_else(|| panic!("{theorem}: {plans}"))
    };
    let close = |value: &Value, wanted: f64, relative: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - wanted).abs() <= relative * wanted, "{value} against {wanted}");
    };
    assert_eq!(get("4.2-I")["iterations"], 1e6);
    close(&get("4.2-I")["tol"], 0.0025, 1e-14);
    close(&get("4.2-I")["eta"], 0.001, 1e-14);
    assert_eq!(get("4.2-I")["multiplier_bound"], 3.0);
    assert_eq!((&get("4.2-II")["iterations"], &get("4.2-II")["burn_in"]), (&8e6.into(), &4e6.into()));
    assert_eq!(get("4.2-II")["eta"], serde_json::json!({ "rule": "inv-sqrt", "c": 1.0 }));
    assert_eq!(get("4.3-I")["iterations"], 210_337_279.0);
    assert_eq!(get("4.3-II")["iterations"], 899_694_335.0);
    close(&get("4.3-II")["e_factor"], 53.0240021, 1e-9);
    close(&get("5.2-I")["value_batch"], 4.5209e9, 1e-5);
    close(&get("5.2-II")["value_batch"], 1.52661e11, 3e-6);
    assert_eq!(get("5.2-II")["iterations"], 1_040_555_780.0);

    let printed = plan(&["--json", "--theorem", "5.2-I", "--as-printed"]).ended(0).json();
    assert_eq!(printed.as_array().unwrap().len(), 1);
    close(&printed[0]["value_batch"], 2.8255e8, 2e-5);
}

#[test]
fn a_strongly_convex_constraint_has_its_own_theorem() {
    let place = Place::new();
    let arguments = "plan --theorem B.1-I --eps 0.1 --lipschitz 1 --diameter 2 --rho 1 --rho-hat 2 --strong-convexity 1 --json";
    let plans = place.run(&arguments.split(' ').collect::<Vec<_>>()).ended(0).json();
    assert_eq!((&plans[0]["iterations"], &plans[0]["tol"]), (&160_000.0.into(), &0.0.into()));
    assert_eq!(plans[0]["strongly_convex"], true);
}

#[test]
fn missing_and_senseless_constants_are_named() {
    let place = Place::new();
    let run = |arguments: &str| place.run(&arguments.split(' ').collect::<Vec<_>>());
    run("plan --eps 0.1").refused_with(
        "lipschitz is missing; Theorem 4.2-I needs M, a bound on the norm of all subgradients, a finite number larger than 0",
    );
    let most = "plan --eps 0.1 --lipschitz 1 --diameter 1 --rho 1 --rho-hat 2";
    run(&format!("{most} --theorem 4.2-I")).refused_with(
        "slater is missing; Theorem 4.2-I needs -g(x_feas), the margin of a strictly feasible point, a finite number larger than 0",
    );
    run(&format!("{most} --slater 1 --theorem 4.3-I"))
        .refused_with("confidence is missing; Theorem 4.3-I needs delta, the failure probability, between 0 and 1");
    run(&format!("{most} --slater 1 --confidence 0.1 --theorem 5.2-II")).refused_with(
        "noise is missing; Theorem 5.2-II needs sigma, the noise of one sample of the constraint value, a finite number, 0 or larger",
    );
    run(&format!("{most} --theorem B.1-I")).refused_with(
        "strong_convexity is missing; Theorem B.1-I needs mu, the strong-convexity constant of g, a finite number larger than 0",
    );
    run(&format!("{most} --slater -1")).refused_with(
        "slater must be a finite number larger than 0, got -1; it is -g(x_feas), the margin of a strictly feasible point",
    );
    run(&most.replace("--eps 0.1", "--eps 0")).refused_with("eps must be a finite number larger than 0, got 0");
    run(&most.replace("--rho-hat 2", "--rho-hat 1"))
        .refused_with("rho_hat must be a finite number larger than rho = 1, got 1; it is the proximal coefficient");
    run(&most.replace("--rho 1", "--rho -1"))
        .refused_with("rho must be a finite number, 0 or larger, got -1; it is the weak-convexity constant of f");
}

#[test]
fn unknown_theorems_and_methods_are_refused() {
    plan(&["--theorem", "4.2"]).refused(&["theorem must be", "got 4.2", "one of 4.2-I, 4.2-II, 4.3-I"]);
    let ran = Place::new().run(&["plan", "--method", "sgs", "--eps", "0.1"]);
    ran.refused_with("method 'sgs' has no planner; did you mean 'ssg'?");
    let ran = Place::new().run(&["plan", "--method", "newton", "--eps", "0.1"]);
    let known = registry::offered_by(Interface::Plan).join(", ");
    ran.refused_with(&format!("method 'newton' has no planner; expected one of {known}"));
}

fn run(arguments: &str) -> Ran {
    Place::new().run(&arguments.split_whitespace().collect::<Vec<_>>())
}

/// Whether the text has a line with the symbol followed by the value.
#[track_caller]
fn shows(text: &str, symbol: &str, value: &str) {
    let found = text.lines().any(|line| line.contains(&format!(" {symbol} ")) && line.ends_with(&format!(" {value}")));
    assert!(found, "{symbol} = {value} is not in\n{text}");
}

#[track_caller]
fn close(value: &Value, wanted: f64, relative: f64) {
    let near = value.as_f64().is_some_and(|v| (v - wanted).abs() <= relative * wanted);
    assert!(near, "{value} against {wanted}");
}

const THREES_ECON: &str = "plan --method threes-econ --eps 0.1 --objective-lipschitz 1 --constraint-lipschitz 1 \
    --mean-square-lipschitz 1 --noise 1 --objective-subgradient-noise 0 --constraint-subgradient-noise 0 --rho 1 --rho-g 0 \
    --diameter 1 --envelope-gap 1";

#[test]
fn threes_econ_has_the_check_values() {
    let text = run(&format!("{THREES_ECON} --theorem 3.4 --beta 10 --nu 0.01")).ended(0).out;
    for (symbol, value) in [
        ("L_F^2", "202"),
        ("S1", "1600000000"),
        ("S2", "40000"),
        ("q", "40000"),
        ("alpha", "1.75899386e-6"),
        ("K", "22741"),
        ("K q", "909640000"),
    ] {
        shows(&text, symbol, value);
    }
    let plans = run(&format!("{THREES_ECON} --theorem 3.4 --beta 10 --nu 0.01 --json")).ended(0).json();
    let steps = &plans[0]["steps"];
    assert_eq!((&steps["s1"], &steps["q"], &steps["epochs"]), (&1.6e9.into(), &4e4.into(), &22_741.0.into()));
    close(&steps["alpha"], 1.75899e-6, 1e-5);
    assert_eq!(plans[0]["transfer"], Value::Null);
}

#[test]
fn threes_econ_goes_from_slaters_condition_to_the_steps() {
    let plans = run(&format!("{THREES_ECON} --slater 0.5 --samples 10000 --json")).ended(0).json();
    let theorems: Vec<&str> = plans.as_array().unwrap().iter().map(|p| p["theorem"].as_str().unwrap()).collect();
    assert_eq!(theorems, ["2.5", "3.7"]);
    let transfer = &plans[1]["transfer"];
    assert_eq!((&transfer["case"], &transfer["regularity"]), (&"i".into(), &0.5.into()));
    close(&transfer["beta_above"], 2.2, 1e-12);
    close(&plans[1]["beta"], 4.4, 1e-12);
    assert_eq!((&plans[1]["steps"]["s1"], &plans[1]["steps"]["q"]), (&1e4.into(), &100.0.into()));

    let uniform = "--rho-g 1 --level 1 --slater-margin 0.5 --slater-curvature 3 --samples 50 --theorem 3.12";
    let text = run(&THREES_ECON.replace("--rho-g 0", uniform)).ended(0).out;
    assert!(text.starts_with("Proposition 3.12: finite sum"), "{text}");
    for (symbol, value) in [("gamma", "0.707106781"), ("C0", "0.0625"), ("beta", "32"), ("q", "1"), ("S1", "50")] {
        shows(&text, symbol, value);
    }
}

const CONEX: &str = "plan --method conex --eps 0.1 --constraint-lipschitz 1 --multiplier-bound 2 --diameter 4";

#[test]
fn conex_has_both_cases() {
    let text = run(&format!("{CONEX} --objective-kink 2")).ended(0).out;
    assert!(text.starts_with("ConEx, convex case\n"), "{text}");
    for (symbol, value) in [("T", "25610"), ("eta_t", "0.00625"), ("tau_t", "4"), ("theta_t", "1")] {
        shows(&text, symbol, value);
    }
    let strongly = "--objective-smoothness 1 --constraint-smoothness 0.5 --strong-convexity 0.5";
    let text = run(&format!("{CONEX} {strongly}")).ended(0).out;
    for (symbol, value) in [("t0", "18"), ("eta_t", "4 / (t + 19)"), ("tau_t", "(t + 1) / 192"), ("gamma_t", "t + 20")] {
        shows(&text, symbol, value);
    }
    let plans = run(&format!("{CONEX} {strongly} --json")).ended(0).json();
    assert_eq!(plans[0]["steps"], serde_json::json!({ "case": "strongly-convex", "alpha": 0.5, "t0": 18.0, "c": 192.0 }));
}

const IPP: &str = "plan --method ipp --eps 0.1 --lipschitz 1 --diameter 1 --rho 1 --rho-hat 3 --rho-hat-g 2";

#[test]
fn ipp_plans_its_subproblems() {
    let text = run(&format!("{IPP} --multiplier-bound 2")).ended(0).out;
    assert!(text.contains("IPP, each subproblem by ssg\n") && text.contains("IPP, each subproblem by conex\n"), "{text}");
    for (symbol, value) in [("T", "160"), ("eta_t", "1 / (t + 2)"), ("eta_t", "1 / (t + 17)"), ("t0", "16")] {
        shows(&text, symbol, value);
    }
    // What the constants allow: without a bound on the multipliers only ssg.
    let plans = run(&format!("{IPP} --json")).ended(0).json();
    assert_eq!(plans.as_array().unwrap().len(), 1);
    assert_eq!((&plans[0]["settings"]["inner"], &plans[0]["settings"]["iterations"]), (&"ssg".into(), &160.0.into()));
    run(&format!("{IPP} --inner conex")).refused(&["multiplier_bound is missing; IPP with conex needs B, "]);
    run(&format!("{IPP} --inner conx")).refused(&["inner solver 'conx'", "did you mean 'conex'?"]);
}

const DSZOG: &str = "plan --method dszog --eps 0.4 --smoothness 4 --strong-concavity 2 --weights-lipschitz 2 --variables-noise 1 \
    --weights-noise 0.5 --variables-scale-min 0.5 --variables-scale-max 2 --weights-scale-min 0.25 --weights-scale-max 1 --gap 3 \
    --dimension 6 --constraints 10 --directions 3 --m1 5 --m2 4 --m3 6 --a 0.5 --beta 2";

#[test]
fn dszog_has_the_values_of_its_theorem() {
    let text = run(DSZOG).ended(0).out;
    assert!(text.starts_with("Theorem 5.14, up to a constant: "), "{text}");
    // T = 75/eta_w, and 42 values for each of T + 1 estimates.
    for (symbol, value) in [
        ("kappa", "2"),
        ("c1l, c1u", "0.5 to 2"),
        ("mu", "0.0037037037"),
        ("a", "0.5"),
        ("b", "0.0025"),
        ("eta_p", "3.90625e-7"),
        ("eta_w", "5.39479661e-10"),
        ("eps1", "0.4"),
    ] {
        shows(&text, symbol, value);
    }
    assert!(text.contains("\nUp to a constant factor, the mean of ||grad gfun(w_t)||^2"), "{text}");
    let json = |more: &str| run(&format!("{DSZOG} --json {more}")).ended(0).json()[0].clone();
    let (plain, strict) = (json(""), json("--strict"));
    close(&plain["iterations"], 75.0 / 5.394796609394436e-10, 1e-10);
    close(&plain["queries"], 42.0 * 75.0 / 5.394796609394436e-10, 1e-9);
    assert_eq!(
        (&plain["queries_per_estimate"], &plain["strict"], &strict["strict"]),
        (&42.0.into(), &false.into(), &true.into())
    );
    // (2 * 10 * .16 + 2 * 100 * 4)/4 = 200.8.
    close(&plain["stationarity"]["eps2"], 200.8f64.powf(0.25), 1e-12);
    close(&plain["eta_p"], 72.0 * strict["eta_p"].as_f64().unwrap(), 1e-12);
    let text = run(&format!("{DSZOG} --strict")).ended(0).out;
    assert!(text.starts_with("Theorem 5.14, with the constants of its proof: ") && text.contains("\nThe mean of"), "{text}");

    // Norms in the place of scalings, and a mixture that is chosen.
    let norms = DSZOG.replace("--variables-scale-min 0.5 --variables-scale-max 2", "--variables-largest-norm 4");
    shows(&run(&norms.replace(" --a 0.5", "")).ended(0).out, "c1l, c1u", "0.499999998 to 100000000");
}

#[test]
fn dszog_refuses_with_sentences() {
    for (from, to, words) in [
        ("--strong-concavity 2", "--strong-concavity 0", &["strong_concavity must be", "tau", "got 0"][..]),
        ("--eps 0.4", "--eps -0.4", &["eps must be", "larger than 0", "got -0.4"]),
        ("--a 0.5", "--a 1.5", &["a must be larger than 0 and at most 1, got 1.5; it is the share of the new p in the mixture"]),
        (
            "--variables-scale-max 2",
            "--variables-scale-max 0.2",
            &["variables_scale_max must be", "at least c1l = 0.5", "got 0.2"],
        ),
        ("--smoothness 4", "--smoothness 1", &["smoothness must be", "at least strong_concavity = 2", "got 1"]),
        (
            "--weights-scale-min 0.25",
            "",
            &["weights_scale_min is missing; Theorem 5.14 needs c2l, ", "(weights_largest_norm can replace it)"],
        ),
        (
            "--gap 3",
            "--gap 3 --variables-largest-norm 1",
            &["variables_largest_norm cannot be given together with variables_scale_min", "got variables_largest_norm = 1"],
        ),
        ("--m1 5", "--m1 0", &["m1 must be", "a whole number", "got 0"]),
        ("--gap 3", "--gap 3 --rho 1", &["--rho is no constant of dszog", "--strong-concavity"]),
        ("--gap 3", "--gap 3 --theorem 5.14", &["--theorem is for ssg and threes-econ", "dszog"]),
    ] {
        run(&DSZOG.replace(from, to)).refused(words);
    }
}

const ADAPROX: &str = "plan --method adaprox --eps 0.1 --objective-smoothness 1 --inner-smoothness 1 \
    --objective-hessian-lipschitz 0.5 --inner-hessian-lipschitz 0.25 --inner-hessian-bound 1 --inner-gap-lipschitz 2 --lipschitz 1 \
    --inner-curvature 2 --inner-radius 1 --diameter 3 --objective-range 1 --multiplier-bound 2 --alpha 0.5 --xi 0.5";

#[test]
fn adaprox_has_the_values_of_its_theorems() {
    // Without the number of rows only sg.
    let text = run(ADAPROX).ended(0).out;
    assert!(text.starts_with("AdaProx, each subproblem by sg\n") && !text.contains("by pd"), "{text}");
    for (symbol, value) in [
        ("L_c", "10"),
        ("sigma", "20"),
        ("mu", "10"),
        ("M", "61"),
        ("K", "14400"),
        ("beta", "0.0125"),
        ("beta/(2K)", "4.34027778e-7"),
        ("T", "3429273600"),
        ("1/gamma_{t+1}", "0.2 / (t + 2)"),
    ] {
        shows(&text, symbol, value);
    }
    assert!(text.contains("At every x, its value is within 0.866025404 of the pessimistic one"), "{text}");
    let plans = run(&format!("{ADAPROX} --constraints 9 --json")).ended(0).json();
    assert_eq!(plans.as_array().unwrap().len(), 2);
    assert_eq!(plans[0]["inner"], serde_json::json!({ "name": "sg" }));
    assert_eq!(plans[1]["inner"], serde_json::json!({ "name": "pd", "t0": 18.0, "c_tau": 16744.5, "bound": 2.0 }));
    assert_eq!((&plans[1]["outer"], &plans[1]["sigma"]), (&14_400.0.into(), &20.0.into()));
    // 3600 * 4.025/288000.
    close(&plans[1]["bounds"]["squared_residual"], 0.0503125, 1e-12);

    let printed = run(&format!("{ADAPROX} --inner sg --as-printed --json")).ended(0).json()[0].clone();
    assert_eq!((&printed["outer"], &printed["inner_iterations"]), (&240.0.into(), &57_154_560.0.into()));
    close(&printed["bounds"]["squared_residual"], 3.01875, 1e-12);
    assert_eq!(printed["as_printed"], true);

    let wanted = ADAPROX.replace("--alpha 0.5 --xi 0.5", "--value-error 0.5").replace("--diameter 3", "--outer-diameter 1");
    let plan = run(&format!("{wanted} --json")).ended(0).json()[0].clone();
    assert_eq!((&plan["alpha"], &plan["xi"], &plan["inner_multiplier"]), (&0.25.into(), &0.125.into(), &8.0.into()));
    close(&plan["diameter"], 69f64.sqrt(), 1e-12);
}

#[test]
fn adaprox_refuses_with_sentences() {
    for (from, to, words) in [
        ("--inner-smoothness 1", "--inner-smoothness 0", &["inner_smoothness must be", "L_g", "got 0"][..]),
        ("--inner-gap-lipschitz 2", "", &["inner_gap_lipschitz is missing; AdaProx with sg needs M_g, "]),
        ("--multiplier-bound 2", "--multiplier-bound 0.5", &["multiplier_bound must be", "1 or larger", "got 0.5"]),
        ("--diameter 3", "--diameter 2", &["diameter must be", "at least 2.82842712", "got 2"]),
        ("--xi 0.5", "", &["xi is missing", "regularised minimum"]),
        (
            "--xi 0.5",
            "--xi 0.5 --value-error 1",
            &["value_error cannot be given together with alpha or xi", "got value_error = 1"],
        ),
        (
            "--diameter 3",
            "--diameter 3 --outer-diameter 1",
            &["outer_diameter cannot be given together with diameter", "got outer_diameter = 1"],
        ),
        ("--eps 0.1", "--eps 0.1 --inner pd", &["constraints is missing; AdaProx with pd needs q, "]),
        ("--eps 0.1", "--eps 0.1 --inner ssg", &["inner solver 'ssg' has no planner; did you mean 'sg'?"]),
        ("--eps 0.1", "--eps 0.1 --rho 1", &["--rho is no constant of adaprox", "--inner-curvature"]),
        ("--eps 0.1", "--eps 0.1 --strict", &["--strict is for dszog", "adaprox"]),
    ] {
        run(&ADAPROX.replace(from, to)).refused(words);
    }
}

const MSPG: &str = "plan --method mspg --eps 0.1 --convex-smoothness 0 --mapping-smoothness 0 --mapping-lipschitz 1 --coupled-bound 1 \
    --objective-range 1 --noise 0 --uniform-convexity 1";

#[test]
fn mspg_has_the_values_of_its_proposition() {
    // L = 2, eta = 1/8, c_2 = 10, C = 1: 4 * 80/T <= 1/100.
    let text = run(MSPG).ended(0).out;
    assert!(text.starts_with("Proposition 1 with Lemma 3: MSPG"), "{text}");
    for (symbol, value) in [("L", "2"), ("eta", "0.125"), ("c_1, c_2", "18, 10"), ("T", "32000"), ("sum m_t", "512016000")] {
        shows(&text, symbol, value);
    }
    assert!(text.contains("drawn uniformly, has dist(0, dF)^2 of at most 0.01 in expectation"), "{text}");
    let plan = run(&format!("{MSPG} --growth 2 --c 0.4 --json")).ended(0).json()[0].clone();
    // eta = 1/5, c_2 = 22: 4 * 110/T.
    assert_eq!((&plan["eta"], &plan["iterations"], &plan["growth"]), (&0.2.into(), &44_000.0.into(), &2.0.into()));
    for (from, to, words) in [
        ("--noise 0", "", &["noise is missing; Proposition 1 needs sigma_0, "][..]),
        ("--uniform-convexity 1", "", &["holder_constant is missing; Lemma 3 needs L_h*, "]),
        ("--noise 0", "--noise 0 --c 0.5", &["c must be", "between 0 and 1/2", "got 0.5"]),
        ("--noise 0", "--noise 0 --gamma 1", &["--gamma is no constant of mspg", "--holder-exponent"]),
        ("--noise 0", "--noise 0 --inner sg", &["--inner is for ipp and adaprox", "mspg"]),
    ] {
        run(&MSPG.replace(from, to)).refused(words);
    }
}

const ST_SPG: &str = "plan --method st-spg --eps 2 --noise 1 --coupled-bound 1 --objective-range 4 --mu 0.5";

#[test]
fn st_spg_has_the_values_of_its_theorem() {
    // G = 68 and K = 4 * 140 * 2/(0.5 * 4).
    let text = run(ST_SPG).ended(0).out;
    assert!(text.starts_with("Theorem 3: St-SPG"), "{text}");
    for (symbol, value) in [("G", "68"), ("K", "560"), ("T_k^x", "k + 1"), ("T_k^y", "ceil(k / 0.5) + 1")] {
        shows(&text, symbol, value);
    }
    assert!(text.contains("472360") && text.contains("471520") && text.contains("not the gradient"), "{text}");
    let plan = run(&format!("{ST_SPG} --stages 56 --json")).ended(0).json()[0].clone();
    assert_eq!((&plan["stages"], &plan["bound_x"], &plan["bound_y"]), (&56.0.into(), &20.0.into(), &40.0.into()));
    for (from, to, words) in [
        ("--noise 1", "", &["noise is missing; Theorem 3 needs sigma, "][..]),
        ("--mu 0.5", "--mu 0", &["mu must be", "the proximal coefficient in y", "got 0"]),
        ("--mu 0.5", "--weight 0", &["weight must be a finite number, 1 or larger, got 0; it is alpha, "]),
        ("--mu 0.5", "--growth 1", &["--growth is no constant of st-spg", "--coupled-bound"]),
    ] {
        run(&ST_SPG.replace(from, to)).refused(words);
    }
}

const BMD: &str = "plan --method bmd --eps 0.7 --lipschitz 3 --loss-bound 2 --start-distance 2 --samples 10 --rho 2 --delta 0.25";

#[test]
fn bmd_has_the_steps_of_its_bound() {
    // R G = 6, l_max sqrt(2 rho / delta) = 8: T = (14 / .7)^2.
    let text = run(BMD).ended(0).out;
    assert!(text.starts_with("Constant steps: BMD"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("steps, one sample each") && line.ends_with(" 400")), "{text}");
    let plan = run(&format!("{BMD} --iterations 1600 --json")).ended(0).json()[0].clone();
    assert_eq!((plan["iterations"].as_f64(), plan["weights_part"].as_f64()), (Some(1600.0), Some(8.0)));
    for (from, to, words) in [
        ("--loss-bound 2", "", &["loss_bound is missing", "l_max"][..]),
        ("--delta 0.25", "--delta 1", &["delta must be", "below 1", "got 1"]),
        ("--delta 0.25", "--gamma 1", &["--gamma is no constant of bmd", "--start-distance"]),
    ] {
        run(&BMD.replace(from, to)).refused(words);
    }
}

#[test]
fn complexities_are_shown_for_one_or_all_methods() {
    let text = run("plan --complexity").ended(0).out;
    assert!(text.starts_with("method "), "{text}");
    for method in ["ssg", "conex", "ipp", "threes-econ", "dszog", "adaprox", "mspg", "st-spg", "bmd"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{method} "))), "{method} is not in\n{text}");
    }
    let text = run("plan --method threes-econ --complexity").ended(0).out;
    assert_eq!(text.lines().count(), 6, "{text}");
    assert!(text.contains("O(sqrt(N) eps^-4)"), "{text}");
    let rows = run("plan --complexity --method ssg --json").ended(0).json();
    assert_eq!(rows[1]["constraint_values"], "O(eps^-8)");
    run("plan --complexity --method threes").refused(&["method 'threes' has no planner", "did you mean 'threes-econ'?"]);
}

#[test]
fn constants_and_choices_of_other_methods_are_refused() {
    run("plan --eps 0.1 --beta 3").refused(&["--beta is no constant of ssg", "expected", "--rho-hat"]);
    run(&format!("{CONEX} --rho 1")).refused(&["--rho is no constant of conex", "--objective-kink"]);
    run(&format!("{CONEX} --theorem 3.4")).refused(&["--theorem is for ssg and threes-econ", "conex"]);
    run(&format!("{IPP} --as-printed")).refused(&["--as-printed is for ssg and adaprox", "ipp"]);
    run(&format!("{IPP} --strict")).refused(&["--strict is for dszog", "ipp"]);
    run("plan --eps 0.1 --inner ssg").refused(&["--inner is for ipp and adaprox"]);
    run(&format!("{THREES_ECON} --theorem 3.5")).refused(&["theorem must be", "got 3.5", "one of 2.5, 3.4, 3.7, 3.12"]);
    run(&format!("{THREES_ECON} --theorem 3.4 --beta 10"))
        .refused(&["nu is missing; Theorem 3.4 needs the smoothing parameter, "]);
    run(THREES_ECON).refused(&["regularity is missing; Theorem 2.5 needs theta, "]);
    run(CONEX).refused(&["objective_kink is missing; ConEx needs H_f, "]);
    run(&CONEX.replace("--diameter 4", "--diameter inf")).refused(&["diameter must be", "got inf", "D"]);
    let ran = run("plan --method ssg");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--eps"), "{}", ran.err);
}

#[test]
fn the_documentation_shows_what_is_printed() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, examples) in [("README.md", 1), ("docs/plan.md", 10)] {
        let page = std::fs::read_to_string(root.join(file)).unwrap();
        let mut found = 0;
        for block in page.split("```sh\ncargo run --release -- plan ").skip(1) {
            let (arguments, rest) = block.split_once("\n```\n\n```text\n").unwrap();
            let (shown, _) = rest.split_once("```\n").unwrap();
            assert_eq!(run(&format!("plan {arguments}")).ended(0).out, shown, "{file}: {arguments}");
            found += 1;
        }
        assert_eq!(found, examples, "{file}");
    }
}
