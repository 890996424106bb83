//! A promise about unseen rows in words and as a picture. The tests behind it are in [`thalweg::learn::fit_unseen`].

use thalweg::learn::{Promise, TestedCandidate};
use thalweg::thousands;

use crate::model::{Model, confidence};
use crate::output::{align, between, short};
use crate::plot::{Mark, Plot};

/// Describes the tests on the safety set.
pub fn words(promise: &Promise) -> String {
    let at_most = format!("at most ({})", confidence(promise));
    let mut rows = vec![["safety set", "bound", "value", &at_most, "rows"].map(String::from)];
    for c in &promise.constraints {
        let sizes = c.rows.iter().map(|n| thousands(*n)).collect::<Vec<_>>().join(" + ");
        rows.push([c.name.clone(), short(c.bound), format!("{:.4}", c.value), format!("{:.4}", c.at_most), sizes]);
    }
    let tested = promise.path.iter().filter(|c| c.confirmed.is_some()).count();
    let confirmed = promise.path.iter().filter(|c| c.confirmed == Some(true)).count();
    let of = promise.path.len();
    let mut text = align(&rows, &[1, 2, 3, 4]);
    text += &match (confirmed, promise.path.get(confirmed.saturating_sub(1))) {
        (0, _) | (_, None) => format!("{tested} of {of} candidates tested, none confirmed\n"),
        (_, Some(last)) => format!(
            "{tested} of {of} candidates tested from strict to loose, {confirmed} confirmed; the last was trained with {} of the bound\n",
            share(last)
        ),
    };
    text + "\n"
}

/// Plots the candidates: the values on the safety set, with their upper bounds, against the bounds that they were trained with. With
/// several constraints the one that is closest to its bound is shown.
pub fn plot(model: &Model) -> Option<Plot> {
    let promise = model.measured.promise.as_ref()?;
    let (shown, constraint) = promise
        .constraints
        .iter()
        .enumerate()
        .max_by(|(_, a), (_, b)| (a.at_most / a.bound).total_cmp(&(b.at_most / b.bound)))?;
    let percent = confidence(promise);
    let mark = |candidate: &TestedCandidate| {
        let [value, at_most] = *candidate.tests.get(shown)?;
        let good = candidate.confirmed == Some(true);
        Some(Mark {
            x: value,
            y: candidate.share,
            good,
            across: Some([value, at_most]),
            title: format!(
                "trained with {} of the bound: {}, {}",
                share(candidate),
                between([value, at_most], 4, 1.0),
                if good { "confirmed" } else { "not confirmed" }
            ),
        })
    };
    Some(Plot {
        title: format!("Tests of {} <= {} from strict to loose", constraint.name, short(constraint.bound)),
        x_label: format!("{} on the safety set, at most (bars, {percent})", constraint.name),
        y_label: "bound in training, of the requested one".into(),
        legend: ["confirmed".into(), "not confirmed".into()],
        percent: true,
        limit: Some(constraint.bound),
        marks: promise.path.iter().filter_map(mark).collect(),
    })
}

fn share(candidate: &TestedCandidate) -> String {
    format!("{:.0}%", 100.0 * candidate.share)
}
