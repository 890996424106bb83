//! Descriptions of certificates as text. The certificates are computed in the library.

use thalweg::assess::{NearStationarity, PenalisedStationarity};
use thalweg::certify::{Certificate, Conflict, ZerothOrderReport};
use thalweg::oracle::Source;
use thalweg::solvers::Stationary;

/// Describes the distance to stationarity of an inf-projection problem at a point.
pub fn slope_words(slope: f64) -> String {
    format!(
        "stationarity: distance {slope:.2e} from 0 to the subdifferential of the objective plus the normal cone of the domain\n"
    )
}

/// Describes a certificate with bounds: one line, and a line for each note.
pub fn bounds_words(c: &Certificate) -> String {
    let place = match (c.lower > 0.0, c.upper.is_finite()) {
        (_, false) => "no bound on the distance to the proximal point was found".to_string(),
        (false, true) => format!("the proximal point is at most {:.2e} away", c.upper),
        (true, true) => format!("the proximal point is between {:.2e} and {:.2e} away", c.lower, c.upper),
    };
    let rho_g: Vec<f64> = c.rho_g.iter().map(|rho| rho.value).collect();
    let mut text = format!(
        "near-stationarity: {place} ({}{} evaluations, {})\n",
        if c.upper.is_finite() { format!("{}, ", certificate_basis(c)) } else { String::new() },
        c.evaluations,
        constants(c.rho_f.value, &rho_g, c.mu, c.mu_g)
    );
    if c.relaxed > 0.0 {
        text += &format!("the proximal point may exceed the constraints by {:.2e}\n", c.relaxed);
    }
    if !c.reached {
        text += "the evaluation budget ran out before the requested precision";
        text += if c.estimated() { "\n" } else { "; the interval is still valid\n" };
    }
    text
}

/// Describes a proof that constraints conflict; `names` are those of the constraints.
pub fn conflict_words(c: &Conflict, names: &[&str]) -> String {
    let of: Vec<String> = c.conflicting.iter().filter_map(|&j| names.get(j as usize)).map(|name| format!("'{name}'")).collect();
    let place = c.radius.map_or("of the domain".into(), |radius| format!("within {radius:.2e} of this one"));
    let claimed = c.rho_g.iter().any(|rho| rho.source == Source::Claimed);
    let basis = if claimed { " and the claimed constants hold" } else { "" };
    format!(
        "no point {place} satisfies the constraints within their tolerances: {} (proved if the gradients are right{basis}, {} evaluations)\n",
        of.join(", "),
        c.evaluations
    )
}

/// Returns what the bounds of a certificate rest on.
pub fn certificate_basis(c: &Certificate) -> &'static str {
    let claimed = std::iter::once(&c.rho_f).chain(&c.rho_g).any(|rho| rho.source == Source::Claimed);
    match (c.estimated(), claimed) {
        (true, _) => "by estimated constants, not proved",
        (false, false) => "proved if the gradients are right",
        (false, true) => "proved if the gradients are right and the claimed constants hold",
    }
}

/// Returns what a bound of a solver rests on.
pub fn basis(estimated: bool) -> &'static str {
    if estimated { "by estimated constants, not proved" } else { "proved if the gradients are right and the constants hold" }
}

/// Describes the bound of a solver on its own point.
pub fn stationary_words(s: &Stationary) -> String {
    let relaxed = if s.relaxed > 0.0 { format!(", constraints relaxed by {:.2e}", s.relaxed) } else { String::new() };
    format!(
        "{}: the proximal point is within {:.2e} ({}{relaxed})\n",
        basis(s.estimated),
        s.upper,
        constants(s.rho_f, &s.rho_g, s.mu, 0.0)
    )
}

/// Describes the distance that a switching subgradient run found.
pub fn switching_words(c: &NearStationarity) -> String {
    format!("near-stationarity {:.3e} (by switching, {} iterations, without a bound on its error)\n", c.distance, c.iterations)
}

/// Describes the near-stationarity of a smoothed penalty.
pub fn penalised_words(c: &PenalisedStationarity) -> String {
    format!(
        "near-stationarity of the smoothed penalty {:.3e} ({} iterations, without a bound on its error)\n",
        c.gradient, c.iterations
    )
}

/// Describes a zeroth-order check of a point.
pub fn zeroth_order_words(found: &ZerothOrderReport) -> String {
    let ZerothOrderReport { beta, gradient, lagrangian, violations, complementarity, weights_residual, queries, .. } = found;
    let mut text = format!(
        "from function values alone: gradient norm of the penalised objective {} ± {} (penalty {} on squared violations)\n",
        short(gradient.value),
        rough(gradient.error),
        short(*beta)
    );
    if let (Some(lagrangian), Some(residual)) = (lagrangian, weights_residual) {
        text += &format!(
            "with the weights of the solver: eps_1 = {} ± {}, eps_2 = {}, eps_3 = {}, residual of the weights {}\n",
            short(lagrangian.value),
            rough(lagrangian.error),
            short(*violations),
            short(*complementarity),
            short(*residual)
        );
    }
    text + &format!("this took {} more values of the objective and {} of constraints\n", queries[0], queries[1])
}

fn constants(rho_f: f64, rho_g: &[f64], mu: f64, mu_g: f64) -> String {
    let mut list = vec![format!("rho_f = {}", short(rho_f))];
    let each: Vec<String> = rho_g.iter().map(|rho| short(*rho)).collect();
    match each.as_slice() {
        [] => {}
        [first, rest @ ..] if rest.iter().all(|rho| rho == first) => list.push(format!("rho_g = {first}")),
        several => list.push(format!("rho_g = ({})", several.join(", "))),
    }
    list.push(format!("mu = {}", short(mu)));
    if mu_g > 0.0 {
        list.push(format!("mu_g = {}", short(mu_g)));
    }
    format!("constants {}", list.join(", "))
}

/// Formats two significant digits, which are enough for an error.
fn rough(v: f64) -> String {
    if v == 0.0 || !(1e-3..100.0).contains(&v.abs()) {
        return if v == 0.0 { "0".into() } else { format!("{v:.1e}") };
    }
    let decimals = (1 - v.abs().log10().floor() as i32).max(0) as usize;
    format!("{v:.decimals$}")
}

/// Formats four significant digits.
fn short(v: f64) -> String {
    if v == 0.0 || !(1e-3..1e6).contains(&v.abs()) {
        return if v == 0.0 { "0".into() } else { format!("{v:.2e}") };
    }
    let decimals = (3 - v.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{v:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use thalweg::certify::{Bounds, certify};
    use thalweg::learn::{Scope, proof};
    use thalweg::oracle::{Modulus, Problem};
    use thalweg::run::{Evidence, StopReason};

    use super::*;

    /// The sentences that state a claim, as this crate and the library print them.
    fn sentences() -> Vec<String> {
        let square = || Problem::new(1).objective(|x| x[0] * x[0], |x, s| s[0] = 2.0 * x[0]);
        let bounds = |problem: &Problem| bounds_words(&certify(problem, &[0.5], &Bounds::default()).unwrap());
        let mut all = vec![bounds(&square().weak_convexity(0.0, 0.0)), bounds(&square().estimate_weak_convexity())];
        let proved = |source| Modulus { value: 0.0, source };
        let mut found = certify(&square().weak_convexity(0.0, 0.0), &[0.5], &Bounds::default()).unwrap();
        found.rho_f = proved(Source::Proved);
        all.push(bounds_words(&found));
        for source in [Source::Proved, Source::Claimed] {
            for radius in [None, Some(3.0)] {
                let (tolerances, multipliers, conflicting) = (vec![0.0], vec![1.0], vec![0]);
                let rho_g = vec![proved(source)];
                let conflict = Conflict { radius, tolerances, multipliers, conflicting, rho_g, evaluations: 1 };
                all.push(conflict_words(&conflict, &["a"]));
            }
        }
        for estimated in [false, true] {
            let bound = Stationary { upper: 1e-5, mu: 1.0, rho_f: 0.0, rho_g: vec![], relaxed: 0.0, estimated };
            all.push(stationary_words(&bound));
        }
        for (everywhere, radius) in [(false, Some(1.0)), (true, Some(1.0)), (false, None)] {
            let ended = StopReason::Infeasible { conflicting: vec!["a".into()], everywhere, radius };
            all.push(ended.headline(false));
        }
        let evidence = Evidence::Bound { upper: 1.0 };
        all.push(StopReason::Withdrawn { conflicting: vec!["a".into()], evidence }.headline(false));
        let (distance, envelope, violation, iterations, coefficients) = (1.0, 0.0, 0.0, 1, (1.0, 1.0));
        let switching = NearStationarity { distance, xhat: vec![], envelope, violation, iterations, coefficients };
        all.push(switching_words(&switching));
        for scope in [Scope::Everywhere, Scope::Within { radius: 3.0 }] {
            all.extend([proof(0.5, 0.5, scope, 1.0), proof(0.5, 0.4, scope, 1.0)]);
        }
        all
    }

    /// Whether a sentence has the parts of a pattern, in their order; "…" stands for any text.
    fn matches(pattern: &str, sentence: &str) -> bool {
        let mut rest = sentence;
        pattern.split('…').enumerate().all(|(k, part)| {
            let part = part.trim();
            match rest.find(part) {
                Some(at) if k > 0 || at == 0 => {
                    rest = &rest[at + part.len()..];
                    true
                }
                _ => false,
            }
        })
    }

    #[test]
    fn every_claim_names_what_it_rests_on() {
        let page = include_str!("../../../docs/results/trust.md");
        let table = page.split("## The sentences").nth(1).unwrap().split("\n## ").next().unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .filter(|line| line.starts_with("| ") && !line.starts_with("| sentence"))
            .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
            .collect();
        assert!(rows.len() > 20 && rows.iter().all(|row| row.len() == 3), "{rows:?}");
        for row in &rows {
            let words = row[2].split('"').nth(1).unwrap();
            assert!(row[0].contains(words), "'{}' does not name '{words}'", row[0]);
        }
        let sentences = sentences();
        for sentence in &sentences {
            assert!(rows.iter().any(|row| matches(row[0], sentence)), "trust.md has no row for '{sentence}'");
        }
        // Rows of the command that are not printed by the functions above have their words in the source.
        let sources =
            concat!(include_str!("commands/certify.rs"), include_str!("commands/tradeoff.rs"), include_str!("check/mod.rs"));
        for row in rows.iter().filter(|row| !row[1].starts_with("Python") && !row[0].contains("smoothed penalty")) {
            let last = row[0].rsplit('…').map(str::trim).find(|part| part.len() > 12).unwrap_or_default();
            let printed = sentences.iter().any(|sentence| matches(row[0], sentence));
            assert!(printed || (!last.is_empty() && sources.contains(last)), "nothing prints '{}'", row[0]);
        }
    }

    #[test]
    fn an_estimate_is_not_called_a_proof() {
        let problem = Problem::new(1)
            .objective(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum())
            .estimate_weak_convexity();
        let words = bounds_words(&certify(&problem, &[0.25], &Bounds::default()).unwrap());
        assert!(words.contains(" away (by estimated constants, not proved, "), "{words}");
        let proved = Stationary { upper: 1e-5, mu: 1.0, rho_f: 0.0, rho_g: vec![], relaxed: 0.0, estimated: false };
        assert!(stationary_words(&proved).starts_with("proved if the gradients are right and the constants hold: "));
        let words = stationary_words(&Stationary { estimated: true, ..proved });
        assert!(words.starts_with("by estimated constants, not proved: the proximal point is within 1.00e-5"), "{words}");
    }

    #[test]
    fn what_values_say_is_in_plain_numbers() {
        let problem = Problem::new(1).objective(|x| x[0], |_, s| s[0] = 1.0).constraint("cap", |x| x[0] - 0.5, |_, s| s[0] = 1.0);
        let found = thalweg::certify::check_zeroth_order(&problem, &[0.25], None, &thalweg::certify::ZerothOrderCheck::default())
            .unwrap();
        let words = zeroth_order_words(&found);
        assert!(
            words.starts_with("from function values alone: gradient norm of the penalised") && words.contains("(penalty 1 on "),
            "{words}"
        );
        assert!(words.ends_with("this took 64 more values of the objective and 1 of constraints\n"), "{words}");
        let weighed = thalweg::solvers::PenaltyWeights { beta: 2.0, lambda: 1e-6, margin: 0.0, weights: vec![1.0] };
        let found = thalweg::certify::check_zeroth_order(
            &problem,
            &[0.25],
            Some(weighed),
            &thalweg::certify::ZerothOrderCheck::default(),
        )
        .unwrap();
        let words = zeroth_order_words(&found);
        assert!(words.contains("eps_2 = 0, eps_3 = 0, residual of the weights 0"), "{words}");
        assert_eq!([0.0, 0.0844, 1.26, 12.34, 4e-7].map(rough), ["0", "0.084", "1.3", "12", "4.0e-7"]);
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 1.0, 0.25, 2.71849, 1234.5678, 123456.0, 3e-7, 1e9].map(short);
        assert_eq!(all, ["0", "1", "0.25", "2.718", "1235", "123456", "3.00e-7", "1.00e9"]);
    }

    #[test]
    fn a_claim_is_called_one_and_a_short_search_says_so() {
        let problem = Problem::new(1)
            .objective(|x| (x[0] * x[0] - 1.0).abs(), |x, s| s[0] = 2.0 * x[0] * (x[0] * x[0] - 1.0).signum())
            .constraint("cap", |x| x[0] - 0.5, |_, s| s[0] = 1.0)
            .weak_convexity(2.0, 0.0);
        let how = Bounds { mu: Some(2.0), ..Bounds::default() };
        let words = bounds_words(&certify(&problem, &[0.25], &how).unwrap());
        assert!(words.starts_with("near-stationarity: the proximal point is between 2."), "{words}");
        assert!(words.contains(" away (proved if the gradients are right and the claimed constants hold, "), "{words}");
        assert!(words.ends_with(" evaluations, constants rho_f = 2, rho_g = 0, mu = 2)\n"), "{words}");
        let words = bounds_words(&certify(&problem, &[0.25], &Bounds { evaluations: 1, width: 0.0, ..how }).unwrap());
        assert!(words.contains("and the claimed constants hold, 1 evaluations") && words.contains("ran out"), "{words}");
    }
}
