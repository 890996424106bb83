//! A small plot as a self-contained SVG file: one series of marked points with axes. The content is decided by the callers.

use std::fmt::Write as _;

/// Point of the plot.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
    /// Whether the point is filled and joined by the line; otherwise hollow.
    pub good: bool,
    /// Ends of a horizontal bar at the height of the point.
    pub across: Option<[f64; 2]>,
    /// Tooltip.
    pub title: String,
}

/// Plot.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Title above the plot.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Meaning of filled and hollow points.
    pub legend: [String; 2],
    /// Whether vertical coordinates are shares, shown in per cent.
    pub percent: bool,
    /// Horizontal coordinate of a dashed line.
    pub limit: Option<f64>,
    /// Points, in the order in which good ones are joined.
    pub marks: Vec<Mark>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 58.0;
/// Colours of filled and hollow points.
const GOOD: &str = "#1f6fb2";
const BAD: &str = "#c0392b";
/// Maximum number of characters in a line of text.
const LINE: usize = 74;

/// Mapping from numbers to positions along an axis.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Axis {
    /// Returns an axis for these values with a margin.
    fn of(values: &[f64], may_be_logarithmic: bool) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let logarithmic = may_be_logarithmic && low > 0.0 && high >= 5.0 * low;
        let (low, high) = if logarithmic { (low.log10(), high.log10()) } else { (low, high) };
        // Points that agree to the last digits still get an axis of positive length.
        let air = (0.06 * (high - low)).max(1e-9 * low.abs().max(high.abs()));
        let air = if air > 0.0 { air } else { 1.0 };
        let (low, high) = (low - air, high + air);
        let ticks = if logarithmic { logarithmic_ticks(low, high) } else { even_ticks(low, high) };
        Axis { low, high, logarithmic, ticks }
    }

    /// Returns the position of a value: 0 at the low end, 1 at the high end.
    fn share(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }
}

/// Returns about five multiples of 1, 2 or 5 times a power of ten.
fn even_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(10.0 * power);
    // At most a dozen, whatever the rounding errors at the ends.
    let first = (low / step).ceil();
    (0..12).map(|k| (first + f64::from(k)) * step).take_while(|t| *t <= high).collect()
}

/// Returns 1, 2 and 5 times the powers of ten, or only the powers if there are many; `low` and `high` are logarithms.
fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    let powers = low.floor() as i32..=high.ceil() as i32;
    let every = ((high - low) / 8.0).ceil().max(1.0) as usize;
    let inside = |t: &f64| (low..=high).contains(&t.log10());
    if high - low > 3.0 {
        return powers.step_by(every).map(|p| 10f64.powi(p)).filter(inside).collect();
    }
    powers.flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(p))).filter(inside).collect()
}

/// Formats the number of a tick with enough digits to distinguish it from its neighbours.
fn number(value: f64, ticks: &[f64], percent: bool) -> String {
    let factor = if percent { 100.0 } else { 1.0 };
    let step = ticks.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(f64::INFINITY, f64::min) * factor;
    let step = if step.is_finite() && step > 0.0 { step } else { value.abs().max(1e-300) * factor };
    let decimals = (-step.log10() - 1e-9).ceil().max(0.0) as usize;
    let largest = ticks.iter().fold(0.0_f64, |m, t| m.max(t.abs())) * factor;
    let sign = if percent { "%" } else { "" };
    if decimals > 6 || largest >= 1e6 {
        let digits = ((largest / step).log10().ceil().max(0.0) as usize).min(9);
        return format!("{:.digits$e}{sign}", value * factor);
    }
    // Avoids a minus sign before a zero.
    let value = if (value * factor).abs() < 0.5 * 10f64.powi(-(decimals as i32)) { 0.0 } else { value * factor };
    format!("{value:.decimals$}{sign}")
}

/// Formats the number of a logarithmic tick.
fn plain(value: f64) -> String {
    if (1e-4..1e5).contains(&value) { format!("{}", (value * 1e6).round() / 1e6) } else { format!("{value:.0e}") }
}

/// Escapes text for XML and truncates it to the length of a line. Control characters are not allowed in XML.
fn text(words: &str) -> String {
    let mut cut: String = words.chars().filter(|c| !c.is_control()).take(LINE).collect();
    if words.chars().count() > LINE {
        cut.pop();
        cut.push('…');
    }
    cut.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Draws the plot as SVG.
pub fn svg(plot: &Plot) -> String {
    let marks: Vec<&Mark> = plot.marks.iter().filter(|m| m.x.is_finite() && m.y.is_finite()).collect();
    let across_axis = marks.iter().flat_map(|m| m.across.into_iter().flatten().chain([m.x])).chain(plot.limit);
    let x = Axis::of(&across_axis.filter(|v| v.is_finite()).collect::<Vec<_>>(), true);
    let y = Axis::of(&marks.iter().map(|m| m.y).collect::<Vec<_>>(), false);
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let across = |v: f64| LEFT + x.share(v) * (right - LEFT);
    let up = |v: f64| floor - y.share(v) * (floor - TOP);
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <title>{0}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\" font-weight=\"600\">{0}</text>",
        text(&plot.title)
    );
    let mut begin = LEFT + 5.0;
    for (words, hollow) in plot.legend.iter().zip([false, true]) {
        if !marks.iter().any(|m| m.good != hollow) {
            continue;
        }
        let _ = writeln!(out, "{}", circle(begin, 42.0, hollow, ""));
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"46\">{}</text>", begin + 10.0, text(words));
        begin += 34.0 + 6.6 * words.chars().count() as f64;
    }
    for &tick in &y.ticks {
        let (at, words) = (up(tick), number(tick, &y.ticks, plot.percent));
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#e6e6e6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{words}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for &tick in &x.ticks {
        let at = across(tick);
        let words = if x.logarithmic { plain(tick) } else { number(tick, &x.ticks, false) };
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{floor}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#666\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{words}</text>",
            floor + 5.0,
            floor + 19.0
        );
    }
    let _ = writeln!(
        out,
        "<path d=\"M{LEFT} {TOP}V{floor}H{right}\" fill=\"none\" stroke=\"#666\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}{}</text>\n\
         <text transform=\"translate(18 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        0.5 * (LEFT + right),
        HEIGHT - 14.0,
        text(&plot.x_label),
        if x.logarithmic { " (logarithmic)" } else { "" },
        0.5 * (TOP + floor),
        text(&plot.y_label)
    );
    let joined: Vec<String> = marks.iter().filter(|m| m.good).map(|m| format!("{:.1},{:.1}", across(m.x), up(m.y))).collect();
    if joined.len() > 1 {
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f6fb2\" stroke-opacity=\"0.45\" stroke-width=\"1.5\"/>",
            joined.join(" ")
        );
    }
    if let Some(limit) = plot.limit.filter(|limit| limit.is_finite()) {
        let at = across(limit);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{floor}\" stroke=\"#666\" stroke-dasharray=\"5 4\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">bound</text>",
            TOP - 6.0
        );
    }
    for m in &marks {
        if let Some([low, high]) = m.across.filter(|ends| ends.iter().all(|end| end.is_finite())) {
            let (from, to, at) = (across(low), across(high), up(m.y));
            let colour = if m.good { GOOD } else { BAD };
            let _ = writeln!(
                out,
                "<path d=\"M{from:.1} {at:.1}H{to:.1}M{from:.1} {:.1}v8M{to:.1} {:.1}v8\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-opacity=\"0.55\" stroke-width=\"1.5\"/>",
                at - 4.0,
                at - 4.0
            );
        }
    }
    for m in &marks {
        let _ = writeln!(out, "{}", circle(across(m.x), up(m.y), !m.good, &m.title));
    }
    if marks.is_empty() {
        let middle = 0.5 * (LEFT + right);
        let _ = writeln!(out, "<text x=\"{middle:.1}\" y=\"200\" text-anchor=\"middle\">no run returned a point</text>");
    }
    out + "</svg>\n"
}

/// Draws a marker; filling distinguishes it as well as colour.
fn circle(x: f64, y: f64, hollow: bool, title: &str) -> String {
    let (fill, stroke) = if hollow { ("#fff", BAD) } else { (GOOD, GOOD) };
    let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", text(title)) };
    format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.8\">{title}</circle>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(even_ticks(-0.1, 1.1), [0.0, 0.5, 1.0]);
        let ticks = even_ticks(0.8212, 0.8449);
        assert_eq!(ticks.iter().map(|t| number(*t, &ticks, true)).collect::<Vec<_>>(), ["82.5%", "83.0%", "83.5%", "84.0%"]);
        assert_eq!(
            logarithmic_ticks(-2.05, -0.65).into_iter().map(plain).collect::<Vec<_>>(),
            ["0.01", "0.02", "0.05", "0.1", "0.2"]
        );
        assert!(logarithmic_ticks(-40.0, 40.0).len() <= 12);
    }

    #[test]
    fn anything_can_be_plotted() {
        let mark =
            |x: f64, y, good| Mark { x, y, good, across: good.then_some([x, 2.0 * x + 1.0]), title: "a < b & \"c\"".into() };
        for marks in [
            vec![],
            vec![mark(0.0, 0.0, true)],
            vec![mark(1.0, 5.0, true), mark(1.0, 5.0, false)],
            vec![mark(f64::NAN, 1.0, true), mark(1e-300, 1e300, true), mark(1.0, -1e300, false)],
            vec![mark(1e300, 1.0, true), mark(-1e300, 1.0 + 1e-15, true)],
        ] {
            let plot = Plot {
                title: "a <b> \u{1} ".repeat(20),
                x_label: "x".into(),
                y_label: "y".into(),
                legend: ["satisfied".into(), "violated".into()],
                percent: false,
                limit: Some(0.5),
                marks,
            };
            let svg = svg(&plot);
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains('\u{1}'), "{svg}");
        }
    }
}
