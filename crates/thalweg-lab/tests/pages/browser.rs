//! Pages in a real browser: that the driver of these tests sees what a person would see, and clicks as one; that reports can be
//! read, sorted and exported. With THALWEG_SCREENSHOTS=DIR pictures of the reports are kept there.
use crate::common::Place;
use crate::common::chromium::Browser;
use serde_json::json;

const PAGE: &str = r##"<!doctype html><meta charset="utf-8"><title>small</title>
<body style="margin:0"><p id="says">nothing</p><div style="height:3000px"></div>
<button id="press">press</button> <button id="break">break</button> <button id="keep">keep</button>
<select id="choose"><option value="a">A</option><option value="b">B</option></select>
<div id="below" style="height:100px;background:#000"></div>
<script>
const says = text => document.getElementById("says").textContent = text;
document.getElementById("press").onclick = event => says("pressed " + event.isTrusted);
document.getElementById("break").onclick = () => { throw new Error("broken on purpose") };
document.getElementById("choose").onchange = event => says("chosen " + event.target.value);
document.onmousemove = event => window.mouse = [event.clientX, event.clientY];
document.getElementById("keep").onclick = () => {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob(["a,b\n1,2\n"], { type: "text/csv" }));
    a.download = "kept.csv";
    a.click();
};
console.warn("early", 7);
console.log("not a complaint");
</script>"##;

#[test]
fn a_page_is_opened_used_and_watched() {
    let Some(browser) = Browser::for_test("browser") else { return };
    let place = Place::new();
    place.put("page.html", PAGE);
    let page = browser.open(&format!("file://{}", place.path("page.html").display()), 800, 600);

    // What a page says while it is being loaded is heard.
    assert_eq!(page.console(), ["console, warning: early 7"]);
    assert_eq!(page.eval("document.title"), "small");
    assert_eq!(page.eval("new Promise(done => setTimeout(() => done([1, 'two']), 5))"), json!([1, "two"]));

    // A real click, far below the window; and one whose handler fails.
    assert_eq!(page.eval("says.name"), "says");
    page.click("#press");
    assert_eq!(page.eval("document.getElementById('says').textContent"), "pressed true");
    page.click("#break");
    let heard = page.console();
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[1].starts_with("exception: Error: broken on purpose"), "{heard:?}");

    page.select("#choose", "b");
    assert_eq!(page.eval("document.getElementById('says').textContent"), "chosen b");
    page.mouse_move(31.0, 41.0);
    assert_eq!(page.eval("mouse"), json!([31, 41]));
    assert_eq!(page.eval("[innerWidth, innerHeight]"), json!([800, 600]));
    page.resize(400, 300);
    assert_eq!(page.eval("[innerWidth, innerHeight]"), json!([400, 300]));

    let kept = tempfile::tempdir().unwrap();
    page.download_to(kept.path());
    page.click("#keep");
    assert_eq!(page.downloaded(), "kept.csv");
    assert_eq!(std::fs::read_to_string(kept.path().join("kept.csv")).unwrap(), "a,b\n1,2\n");

    // The whole page, not the window: width and height are in the first chunk of the file.
    page.screenshot(&place.path("page.png"));
    let picture = std::fs::read(place.path("page.png")).unwrap();
    assert_eq!(&picture[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert!(number(16) == 400 && number(20) > 3100, "{} x {}", number(16), number(20));
    assert!(picture.ends_with(b"IEND\xaeB`\x82"));
}

#[test]
fn a_slip_of_a_test_is_a_panic_with_a_sentence() {
    let Some(browser) = Browser::for_test("browser") else { return };
    let page = browser.open("about:blank", 300, 200);
    let panics = |slip: &dyn Fn()| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(slip)).unwrap_err();
        caught.downcast_ref::<String>().unwrap().clone()
    };
    assert!(panics(&|| drop(page.eval("nobody.home"))).starts_with("nobody.home: ReferenceError: nobody is not defined"));
    assert_eq!(panics(&|| page.click("#absent")), "#absent: there is no such element");
    page.eval("document.body.innerHTML = '<button id=under>x</button><div style=\"position:fixed;inset:0\"></div>'");
    assert!(panics(&|| page.click("#under")).starts_with("#under cannot be clicked: at its middle is "));
    assert!(panics(&|| drop(browser.open("file:///there/is/no/such/file.html", 300, 200))).contains("cannot be opened"));
    assert_eq!(page.console(), Vec::<String>::new());
}

#[test]
fn nothing_is_left_of_a_browser() {
    let Some(browser) = Browser::for_test("browser") else { return };
    let page = browser.open("about:blank", 300, 200);
    let profile = browser.profile();
    assert!(profile.is_dir());
    drop(browser);
    assert!(!profile.exists());
    // A page outlives its browser only as something that panics.
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| page.eval("1"))).is_err());
}

/// A small experiment with names that a page must not take for code, a run that fails, and two seeds.
const EXPERIMENT: &str = r#"
title = "Hostile <b>names</b> & \"quotes\""
seeds = 2
certificate = { bounds = { evaluations = 20 }, points = 4 }
[[data]]
label = "<img src=x onerror=\"document.title='broken'\">"
file = "rows.svm"
group = 1
test_fraction = 0.2
[[data]]
label = "half"
file = "half.svm"
group = 1
test_fraction = 0.2
[problem]
minimize = "logistic"
subject_to = ["demographic_parity <= 0.05"]
[[solver]]
label = "</script><script>document.title='broken'</script>"
name = "ssg"
eta = [0.05, 0.5]
batch_f = 40
[[solver]]
label = "bundle"
name = "bundle"
[[solver]]
label = "a solver with quite a long name that diverges"
name = "ssg"
eta = 1e308
[budget]
iterations = 300
[record]
every = 10
[tune]
feasible = 0.01
"#;

/// Rows in two groups whose labels depend on the group.
fn rows(count: usize) -> String {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut text = String::new();
    for i in 0..count {
        let (group, x, y) = (i % 3 == 0, next(), next());
        let label = if x + 0.5 * y + if group { 0.3 } else { 0.0 } + 0.6 * next() > 1.1 { 1 } else { -1 };
        text += &format!("{label} {}2:{x:.4} 3:{y:.4} 4:1\n", if group { "1:1 " } else { "" });
    }
    text
}

/// What is wrong with how a page is laid out: it is wider than the window, or words lie on words.
const LAYOUT: &str = r#"(() => {
    const wrong = [];
    if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
    const seen = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0 && getComputedStyle(e).visibility !== 'hidden'; };
    const name = e => `${e.tagName}.${e.getAttribute('class') || ''} '${e.textContent.trim().slice(0, 40)}'`;
    // Elements with text of their own.
    const texts = [...document.querySelectorAll('body *')].filter(e =>
        !['SCRIPT', 'STYLE', 'OPTION', 'TITLE'].includes(e.tagName.toUpperCase()) && seen(e) &&
        [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
    const box = e => { const range = document.createRange(); range.selectNodeContents(e); return e.closest('svg') ? e.getBoundingClientRect() : range.getBoundingClientRect(); };
    for (const e of texts) {
        const r = box(e);
        // What can be scrolled sideways inside its own frame is not cut.
        const frame = [...function* (p) { while ((p = p.parentElement)) yield p; }(e)].find(p => getComputedStyle(p).overflowX === 'auto');
        if (!frame && (r.left < -1 || r.right > innerWidth + 1)) wrong.push(`${name(e)} is cut: ${r.left} to ${r.right}`);
        const svg = e.closest('svg');
        if (svg) {
            const s = svg.getBoundingClientRect();
            if (r.left < s.left - 1 || r.right > s.right + 1 || r.top < s.top - 1 || r.bottom > s.bottom + 1) wrong.push(`${name(e)} leaves its chart`);
        }
    }
    // At a desk nothing has to be scrolled sideways.
    for (const frame of innerWidth >= 1200 ? document.querySelectorAll('.scroll') : []) {
        if (frame.scrollWidth > frame.clientWidth + 1) wrong.push(`a table is ${frame.scrollWidth} wide in a frame of ${frame.clientWidth}`);
    }
    for (const svg of document.querySelectorAll('svg')) {
        const inside = texts.filter(e => e.closest('svg') === svg);
        inside.forEach((a, i) => inside.slice(i + 1).forEach(b => {
            const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
            const w = Math.min(p.right, q.right) - Math.max(p.left, q.left), t = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
            if (w > 1 && t > 3 && !a.contains(b) && !b.contains(a)) wrong.push(`${name(a)} lies on ${name(b)}`);
        }));
    }
    return wrong;
})()"#;

#[test]
fn a_report_is_read_sorted_and_exported() {
    let Some(browser) = Browser::for_test("browser") else { return };
    let place = Place::new();
    place.put("rows.svm", rows(300));
    place.put("half.svm", rows(150));
    place.put("hostile.toml", EXPERIMENT);
    place.run(&["lab", "run", "hostile.toml", "--jobs", "2", "--quiet"]).ended(1);
    place.run(&["lab", "report"]).ended(0);
    let page = browser.open(&format!("file://{}", place.path("report.html").display()), 1280, 900);
    let text =
        |selector: &str| page.eval(&format!("document.querySelector({selector:?}).textContent")).as_str().unwrap().to_string();
    let count = |selector: &str| page.eval(&format!("document.querySelectorAll({selector:?}).length")).as_u64().unwrap();
    let quiet = |what: &str| assert_eq!(page.console(), Vec::<String>::new(), "{what}");

    // Names are text, whatever is in them.
    assert_eq!(text("#title"), "Hostile <b>names</b> & \"quotes\"");
    assert!(text("#legend").contains("</script><script>document.title='broken'</script>"));
    assert_eq!(count("#title b") + count("img"), 0);
    assert_eq!(page.eval("document.title"), "Hostile <b>names</b> & \"quotes\"");
    // A run that failed is at the top and in the table.
    assert!(text("#alerts").contains("runs failed"), "{}", text("#alerts"));
    assert!(text("#table").contains("it failed at iteration"), "{}", text("#table"));
    assert_eq!(count("svg[data-panel]"), 2);
    quiet("after loading");

    // Both axes; every choice draws something finite.
    let curve =
        || page.eval("[...document.querySelectorAll('svg[data-panel] path.curve')].map(p => p.getAttribute('d')).join('|')");
    let mut drawn = vec![];
    for axis in ["#y-axis", "#x-axis"] {
        let choices = page.eval(&format!("[...document.querySelector({axis:?}).options].map(o => o.value)"));
        let choices: Vec<String> = serde_json::from_value(choices).unwrap();
        assert!(choices.len() >= 5, "{axis}: {choices:?}");
        for choice in &choices {
            page.select(axis, choice);
            let d = curve().as_str().unwrap().to_string();
            assert!(d.len() > 20 && !d.contains("NaN") && !d.contains("Infinity"), "{axis} {choice}: {d}");
            drawn.push(d);
        }
        // The last of a list may draw what the first does, but not all of them.
        assert!(drawn.iter().collect::<std::collections::HashSet<_>>().len() >= 4, "{axis}");
        page.select(axis, &choices[0]);
    }
    let words = text("#y-axis");
    for part in ["objective", "infeasibility", "near-stationarity", "demographic_parity", "held-out accuracy"] {
        assert!(words.contains(part), "'{part}' is not in {words}");
    }
    quiet("after switching axes");

    let before = curve();
    page.click("#log-y");
    let logarithmic = curve();
    assert_ne!(before, logarithmic);
    page.click("#log-x");
    assert_ne!(curve(), logarithmic);
    page.click("#log-y");
    page.click("#log-x");
    assert_eq!(curve(), before);

    // One solver alone, and all again.
    let drawn_of = |which: &str| {
        let of = format!("[...document.querySelectorAll({:?})]", format!("svg[data-panel] path.curve{which}"));
        page.eval(&format!("{of}.filter(p => p.checkVisibility()).length")).as_u64().unwrap()
    };
    let (all, bundle) = (drawn_of(""), drawn_of("[data-solver=bundle]"));
    page.click("#legend [data-solver=bundle]");
    assert!(bundle > 0 && bundle < all, "{bundle} of {all}");
    assert_eq!((drawn_of("[data-solver=bundle]"), drawn_of("")), (bundle, bundle));
    assert_eq!(page.eval("document.querySelector('#legend [data-solver=bundle]').getAttribute('aria-pressed')"), "true");

    // The CSV has what is shown, with the numbers of the store.
    let kept = tempfile::tempdir().unwrap();
    page.download_to(kept.path());
    page.click("[data-download=csv]");
    let csv = std::fs::read_to_string(kept.path().join(page.downloaded())).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|h| h.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {header:?}"));
    let (solver, panel, seed, x, y) = (at("solver"), at("p"), at("seed"), header.len() - 3, header.len() - 2);
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert!(lines.len() > 10 && lines.iter().all(|line| &line[solver] == "bundle"));
    let listed = place.run(&["lab", "list", "--only", "half / bundle / seed 1", "--json"]).ended(0).json();
    let shown = place.run(&["lab", "show", listed[0]["run"].as_str().unwrap(), "--json"]).ended(0).json();
    let column = |name: &str| -> Vec<f64> {
        let found = shown["recorded"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap();
        found["numbers"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let (f, g, objective) = (column("passes_f"), column("passes_g"), column("objective"));
    let mut compared = 0;
    for line in lines.iter().filter(|line| &line[panel] == "half" && &line[seed] == "1") {
        let passes: f64 = line[x].parse().unwrap();
        let i =
            (0..f.len()).find(|&i| (f[i] + g[i] - passes).abs() <= 1e-6 * (1.0 + passes)).unwrap_or_else(|| panic!("{line:?}"));
        let value: f64 = line[y].parse().unwrap();
        assert!((value - objective[i]).abs() <= 1e-6 * objective[i].abs(), "{value} is not {}", objective[i]);
        compared += 1;
    }
    assert!(compared >= 5, "{compared}");
    page.click("[data-download=svg]");
    let svg = std::fs::read_to_string(kept.path().join(page.downloaded())).unwrap();
    assert!(
        svg.starts_with("<?xml") && svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && !svg.contains("<script"),
        "{svg}"
    );
    page.click("#legend [data-solver=bundle]");
    assert_eq!(drawn_of(""), all);

    // Values under the pointer.
    let (a, b) = page.middle("svg[data-panel='1']");
    page.mouse_move(a, b);
    let tip =
        page.eval("(t => t && !t.hidden ? t.textContent : '')([...document.querySelectorAll('.tip')].find(t => !t.hidden))");
    assert!(tip.as_str().unwrap().contains("bundle"), "{tip}");

    // Sorting by a column, both ways; what has no number stays last.
    let cells = || -> Vec<String> {
        serde_json::from_value(
            page.eval("[...document.querySelectorAll('#table td[data-key=objective]')].map(c => c.textContent)"),
        )
        .unwrap()
    };
    page.click("#table th button[data-sort=objective]");
    let numbers = |cells: &[String]| -> Vec<f64> {
        cells.iter().filter_map(|c| c.trim_start_matches('★').split_whitespace().next()?.get(..6)?.parse().ok()).collect()
    };
    let up = numbers(&cells());
    assert!(up.len() >= 4 && up.is_sorted(), "{up:?} {:?}", cells());
    page.click("#table th button[data-sort=objective]");
    let down = numbers(&cells());
    assert!(down.iter().rev().is_sorted() && down.len() == up.len(), "{down:?}");
    quiet("at the end");

    // Neither at a desk nor on a telephone is anything cut or covered; pictures are kept for a person to look at.
    for (width, height) in [(1280, 900), (390, 844)] {
        page.resize(width, height);
        page.eval("new Promise(done => setTimeout(done, 300))");
        assert_eq!(page.eval(LAYOUT), json!([]), "at {width}");
        if let Some(directory) = std::env::var_os("THALWEG_SCREENSHOTS") {
            page.screenshot(&std::path::PathBuf::from(directory).join(format!("report-{width}.png")));
        }
    }
    quiet("after resizing");
}

#[test]
fn the_pages_of_fit_solve_and_tradeoff_can_be_read() {
    let Some(browser) = Browser::for_test("browser") else { return };
    let place = Place::new();
    let table: String = (0..240)
        .map(|i| {
            format!(
                "{},{},{},{}\n",
                i % 17,
                (i * 7) % 13,
                if i % 3 == 0 { "a <b>" } else { "b" },
                i32::from((i * 5) % 17 + i % 3 > 9)
            )
        })
        .collect();
    place.put("table.csv", format!("x,y,group,label\n{table}"));
    place.put("rows.svm", rows(200));
    place.put(
        "run.toml",
        "[data]\nfile = 'rows.svm'\ngroup = 1\n[problem]\nminimize = 'hinge'\nsubject_to = ['demographic_parity <= 0.05']\n\
         [solver]\nname = 'bundle'\n[budget]\niterations = 200\n[record]\nevery = 1\n",
    );
    // Two hundred and fifty constraints, by values alone.
    place.put(
        "crowd.toml",
        "[data]\nsynthetic = 'gen'\nsample = 60\ntest_fraction = 0.3\nvalidation_fraction = 0.2\n[problem]\nminimize = 'welsch'\n\
         subject_to = ['pairs <= 0']\nstart = 'sin'\n[solver]\nname = 'dszog'\n[budget]\niterations = 60\n[record]\nevery = 1\n",
    );
    let ran = place.run(&["solve", "crowd.toml", "--quiet", "--report", "crowd.html"]);
    assert_eq!(ran.err, "");
    let asked = ["table.csv", "--label", "label", "--group", "group", "--subject-to", "demographic_parity <= 0.1", "--quiet"];
    place.run(&[&["fit"], &asked[..], &["--report", "fit.html"]].concat());
    place.run(&["solve", "run.toml", "--quiet", "--report", "solve.html"]).ended(0);
    place.run(&[&["tradeoff"], &asked[..], &["--bounds", "0.05,0.1,0.2", "--report", "tradeoff.html"]].concat());
    for (name, kinds) in [
        ("fit", &["bounds", "groups", "scores", "experiment", "facts"][..]),
        ("solve", &["bounds", "experiment", "facts"]),
        ("crowd", &["bounds", "experiment", "facts"]),
        ("tradeoff", &["tradeoff", "facts"]),
    ] {
        let page = browser.open(&format!("file://{}", place.path(&format!("{name}.html")).display()), 1280, 900);
        for kind in kinds {
            let there = page.eval(&format!("document.querySelectorAll('section[data-kind={kind}]').length"));
            assert!(there.as_u64() >= Some(1), "{name}: {kind}");
        }
        assert_eq!(page.console(), Vec::<String>::new(), "{name}");
        for (width, height) in [(1280, 900), (390, 844)] {
            page.resize(width, height);
            page.eval("new Promise(done => setTimeout(done, 300))");
            assert_eq!(page.eval(LAYOUT), json!([]), "{name} at {width}");
            if let Some(directory) = std::env::var_os("THALWEG_SCREENSHOTS") {
                page.screenshot(&std::path::PathBuf::from(directory).join(format!("{name}-{width}.png")));
            }
        }
    }
}
