// Draws the page from the JSON in #data. No library, no network; names and words only ever become text nodes.
//
// What a test can hold on to (ids of a second experiment on a page end in "-2"):
//   #title #lead #alerts; section[data-kind="experiment|bounds|groups|scores|tradeoff|facts"]
//   selects #y-axis #x-axis #cells #level #profile-cost, checkboxes #log-x #log-y
//   #legend button[data-solver="NAME"], aria-pressed: the only solver that is drawn
//   #verdicts [data-panel="0"]: who wins, in words
//   svg[data-panel="0"] with path.curve[data-solver] (.dashed, .faint), path.band[data-solver], g.marks[data-solver]
//   svg[data-chart="profile|bounds|groups|scores|tradeoff"]; .tip: box of values, hidden when away
//   #table th[aria-sort] button[data-sort="KEY"], tr[data-panel][data-solver][data-cell], td[data-key="KEY"], td[data-best]
//   [data-download="svg|csv"] in each section, [data-copy="markdown|latex"]; textarea.copybox if the clipboard is refused
'use strict';
(() => {
const { abs, ceil, log10, max, min } = Math;
const page = JSON.parse(document.getElementById('data').textContent);

// ---- elements: h('p.note', { id: 'x', onclick: f }, 'text', child) ----

function build(element, look, rest) {
  if (look) element.setAttribute('class', look);
  for (const part of rest) {
    if (part === null || part === undefined) continue;
    if (part.nodeType || typeof part !== 'object') element.append(part);
    else if (Array.isArray(part)) element.append(...part);
    else for (const [name, value] of Object.entries(part)) {
      if (typeof value === 'function') element.addEventListener(name.slice(2), value);
      else if (value !== undefined) element.setAttribute(name, value);
    }
  }
  return element;
}
function h(tag, ...rest) {
  const [name, look] = tag.split('.');
  return build(document.createElement(name), look, rest);
}
const s = (tag, look, ...rest) => build(document.createElementNS('http://www.w3.org/2000/svg', tag), look, rest);
const round = v => Math.round(v * 10) / 10;
const path = (look, d, more) => s('path', look, { d }, more);
const label = (x, y, words, look, more) => s('text', look, { x: round(x), y: round(y) }, more, words);
const options = pairs => pairs.map(([value, words]) => h('option', { value }, words));
const button = (words, more) => h('button', { type: 'button' }, more, words);

// ---- numbers ----

const known = Number.isFinite;
const finite = values => values.filter(known);

function number(v, digits = 4) {
  if (!known(v)) return '–';
  const size = abs(v);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return v.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return v.toLocaleString('en', { maximumSignificantDigits: digits });
}
const percent = (v, digits = 1) => known(v) ? (100 * v).toFixed(digits) + '\u00a0%' : '–';
const about = (v, digits) => number(100 * v, digits) + '\u00a0%';

// As many decimals for all as the largest needs for five digits, so that columns align.
function alike(values) {
  const largest = max(...finite(values).map(abs), 0);
  if (largest >= 1e7 || largest < 1e-4) return v => number(v, 5);
  const d = min(8, max(0, 4 - Math.floor(log10(largest))));
  return v => known(v) ? v.toLocaleString('en', { minimumFractionDigits: d, maximumFractionDigits: d }) : '–';
}

// Infinite stands for "never" and is a value like others here.
const ascending = values => values.filter(v => v !== null && !Number.isNaN(v)).sort((a, b) => a - b);
function quantile(sorted, q) {
  if (!sorted.length) return NaN;
  const at = (sorted.length - 1) * q, a = sorted[Math.floor(at)], b = sorted[ceil(at)];
  return a === b ? a : b === Infinity ? b : a + (at % 1) * (b - a);
}
const median = values => quantile(ascending(values), 0.5);

// ---- axes ----

function linearTicks(lo, hi, count) {
  const raw = (hi - lo) / count, unit = 10 ** Math.floor(log10(raw));
  const step = unit * ([1, 2, 5].find(m => m * unit >= raw * 0.999) || 10), ticks = [];
  for (let i = ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9 && ticks.length < 50; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(lo, hi, count) {
  const from = ceil(log10(lo) - 1e-9), to = Math.floor(log10(hi) + 1e-9), ticks = [];
  const factors = to - from < 2 ? [1, 2, 5] : [1], every = max(1, ceil((to - from + 1) / count));
  for (let e = factors.length > 1 ? from - 1 : from; e <= to; e += every) for (const m of factors) ticks.push(Number(`${m}e${e}`));
  const inside = ticks.filter(v => v >= lo * 0.999999 && v <= hi * 1.000001);
  return inside.length > 1 ? inside : linearTicks(lo, hi, count).filter(v => v > 0);
}

function tickLabel(v, log) {
  const size = abs(v), power = Math.round(log10(size));
  if (v === 0 || !(log ? size >= 1e5 || size < 1e-3 : size >= 1e9 || size < 1e-5)) {
    return v.toLocaleString('en', { maximumSignificantDigits: 10 }).replace('-', '−');
  }
  if (abs(v / 10 ** power - 1) > 1e-9) return number(v, 3);
  return '10' + String(power).replace(/./g, c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]);
}

// From values to pixels. On a logarithmic scale, what is below `lo` goes to the pixel `floor`.
function scale([lo, hi], log, from, to, floor) {
  const f = log ? log10 : v => v, a = f(lo), b = f(hi);
  const at = v => log && !(v >= lo) ? floor : max(-1e4, min(1e4, from + (f(v) - a) / (b - a) * (to - from)));
  const inverse = p => {
    const u = a + (p - from) / (to - from) * (b - a);
    return log ? 10 ** u : u;
  };
  return Object.assign(at, { log, from, inverse });
}

// Some air around a range.
function spread(lo, hi, log) {
  if (log) return lo < hi ? [lo / (hi / lo) ** 0.03, hi * (hi / lo) ** 0.03] : [lo / 2, hi * 2];
  const pad = lo < hi ? (hi - lo) * 0.04 : abs(lo) * 0.1 || 1;
  return [lo - pad, hi + pad];
}

const named = (kind, title) => ({ 'data-chart': kind, 'aria-label': title });
const chart = (width, height, more) => s('svg', 'chart', { role: 'img', viewBox: `0 0 ${width} ${height}` }, more);

// An empty chart with grid, axes and their words. `x` and `y` have range, log, words and perhaps show and ticks; `below` is the
// name of the place under a logarithmic axis for what it cannot show.
function plane(width, height, x, y, more, below) {
  const ticksY = y.ticks || (y.log ? logTicks : linearTicks)(...y.range, 6);
  const showX = x.show || (v => tickLabel(v, x.log)), showY = y.show || (v => tickLabel(v, y.log));
  const left = ceil(16 + 6.7 * max(...[...ticksY.map(showY), below || ''].map(t => t.length)));
  const box = { left, right: width - 14, top: 30, bottom: height - 44 }, foot = box.bottom - (below ? 26 : 0);
  const atX = scale(x.range, x.log, left, box.right, NaN), atY = scale(y.range, y.log, foot, box.top, below ? box.bottom - 6 : foot);
  const svg = chart(width, height, more);
  const row = (at, words) => svg.append(path('grid', `M${left} ${round(at)}H${box.right}`), label(left - 8, at + 4, words, 'end'));
  for (const v of ticksY) row(atY(v), showY(v));
  if (below) {
    // Two strokes across the axis: below them it is no longer logarithmic.
    row(box.bottom - 6, below);
    svg.append(path('axis', `M${left - 5} ${foot + 10}l10 -5m-10 9l10 -5`));
  }
  for (const v of (x.log ? logTicks : linearTicks)(...x.range, max(3, (box.right - left) / 85))) {
    const at = atX(v), words = showX(v), over = at + 3.7 * words.length > width;
    svg.append(path('axis', `M${round(at)} ${box.bottom}v4`), label(over ? width : at, box.bottom + 18, words, over ? 'end' : 'mid'));
  }
  svg.append(path('axis', `M${left} ${box.bottom}H${box.right}`), label(0, 13, y.words, 'ink'), label(box.right, box.bottom + 36, x.words, 'ink end'));
  return { svg, box, x: atX, y: atY };
}

// ---- marks ----

const poly = points => r => 'M' + points.map(([x, y]) => `${round(x * r)} ${round(y * r)}`).join('L') + 'Z';
const circle = r => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
const diamond = poly([[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]);
const SHAPES = [
  circle, poly([[-.9, -.9], [.9, -.9], [.9, .9], [-.9, .9]]), poly([[0, -1.2], [1.15, .85], [-1.15, .85]]), diamond,
  poly([[0, 1.2], [1.15, -.85], [-1.15, -.85]]),
  poly([[-.4, -1.2], [.4, -1.2], [.4, -.4], [1.2, -.4], [1.2, .4], [.4, .4], [.4, 1.2], [-.4, 1.2], [-.4, .4], [-1.2, .4], [-1.2, -.4], [-.4, -.4]]),
  poly([[0, -1.5], [.4, -.4], [1.5, 0], [.4, .4], [0, 1.5], [-.4, .4], [-1.5, 0], [-.4, -.4]]),
  poly([[-1, -1.2], [1, -1.2], [.3, 0], [1, 1.2], [-1, 1.2], [-.3, 0]]),
];
const colour = i => 's' + i % 8;
const place = (x, y) => ({ transform: `translate(${round(x)} ${round(y)})` });
// With more than eight names a colour comes again, with another shape.
const mark = (i, x, y, hollow, r = 4) =>
  path(`${hollow ? 'hollow' : 'mark'} ${colour(i)}`, SHAPES[(i + 3 * Math.floor(i / 8)) % 8](r), place(x, y));
const cross = (x, y) => path('fail', `M${round(x - 4)} ${round(y - 4)}l8 8m0 -8l-8 8`);
const picture = (width, ...parts) => s('svg', '', { width, height: 14, 'aria-hidden': 'true' }, parts);
const dot = i => picture(14, mark(i, 7, 7));
const glyph = i => picture(26, path('curve ' + colour(i), 'M1 7H25'), mark(i, 13, 7));
const KEYS = {
  line: () => path('curve s7', 'M1 7H25'), dashed: () => path('curve dashed s7', 'M1 7H25'), band: () => path('band s7', 'M1 1H25V13H1Z'),
  bar: () => path('value s7', 'M1 3H25V11H1Z'), fail: () => cross(13, 7), filled: () => path('mark s7', circle(4), place(13, 7)),
  hollow: () => path('hollow s7', circle(4), place(13, 7)), diamond: () => path('hollow s7', diamond(5), place(13, 7)),
};
const key = entries => h('div.key', entries.map(([name, words]) => h('span', picture(26, KEYS[name]()), words)));

// ---- hover ----

// A vertical guide and a box of values that follow the pointer. Nothing is computed here: `rows` look values up by pixel.
function hover(holder, svg, box, heading, rows, snap = k => k) {
  const guide = path('guide', '', { display: 'none' }), title = h('div.x');
  const lines = rows.map(row => h('tr', h('td', row.index === undefined ? null : dot(row.index), ' ' + row.name), h('td'), h('td')));
  const tip = h('div.tip', { hidden: '' }, title, h('table', h('tbody', lines)));
  const last = box.right - box.left;
  let at = -1, wanted = -1, width = 0;
  const show = () => {
    if (wanted === at) return;
    at = wanted;
    tip.hidden = at < 0;
    guide.setAttribute('display', at < 0 ? 'none' : 'inline');
    if (at < 0) return void (width = 0);
    guide.setAttribute('d', `M${box.left + at} ${box.top}V${box.bottom}`);
    title.textContent = heading(at);
    rows.forEach((row, i) => {
      lines[i].hidden = Boolean(row.hidden && row.hidden());
      row.at(at).forEach((words, j) => { lines[i].cells[j + 1].textContent = words; });
    });
    // Only ever grows while it is shown, so that it does not jump from side to side.
    width = max(width, tip.offsetWidth);
    const zoom = svg.clientWidth / svg.viewBox.baseVal.width, x = (box.left + at) * zoom;
    const left = x + 14 + width <= svg.clientWidth ? x + 14 : max(0, x - 14 - width);
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(box.top * zoom)}px)`;
  };
  const ask = (index, inside = true) => {
    wanted = inside ? snap(max(0, min(last, Math.round(index)))) : -1;
    requestAnimationFrame(show);
  };
  const follow = event => {
    const r = svg.getBoundingClientRect(), x = (event.clientX - r.left) * svg.viewBox.baseVal.width / r.width - box.left;
    ask(x, x > -8 && x < last + 8);
  };
  // A finger that is lifted leaves too, and would take the values away with it.
  const leave = event => { if (event.pointerType !== 'touch') ask(0, false); };
  const press = event => {
    const step = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
    if (step) event.preventDefault();
    if (step) ask((at < 0 ? last / 2 : at) + step);
  };
  build(svg, 'chart', [{ tabindex: 0, onpointermove: follow, onpointerdown: follow, onpointerleave: leave, onblur: leave, onkeydown: press }, guide]);
  holder.append(tip);
}

// ---- export ----

function download(name, type, text) {
  const href = URL.createObjectURL(new Blob([text], { type })), link = h('a', { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

function csv(rows) {
  const field = v => {
    const text = v === null || v === undefined || Number.isNaN(v) ? '' : String(v);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return rows.map(row => row.map(field).join(',') + '\r\n').join('');
}

const LOOKS = {
  path: ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity'], rect: ['fill'],
  text: ['fill', 'font-size', 'font-weight', 'text-anchor'],
};

// A copy that looks the same without our style sheet.
function standalone(original) {
  if (original.nodeType !== 1) return original.cloneNode();
  if (original.getAttribute('display') === 'none' || original.classList.contains('guide')) return '';
  const copy = original.cloneNode(false), look = getComputedStyle(original);
  copy.removeAttribute('class');
  for (const name of LOOKS[original.tagName] || []) copy.setAttribute(name, look.getPropertyValue(name));
  copy.append(...[...original.childNodes].map(standalone));
  return copy;
}

function wrap(words, letters) {
  const lines = [''];
  for (const word of words.split(/\s+/)) {
    const last = lines.at(-1);
    if (last && last.length + word.length >= letters) lines.push(word);
    else lines[lines.length - 1] = last ? last + ' ' + word : word;
  }
  return lines.map(l => l.length > letters ? l.slice(0, letters - 1) + '…' : l);
}

// All charts of a section in one file: heading, legend, charts in two columns; always in light colours.
function exportSvg(title, legend, charts) {
  document.documentElement.setAttribute('data-light', '');
  const sizes = charts.map(c => c.svg.viewBox.baseVal), wide = max(...sizes.map(v => v.width)), columns = min(2, charts.length);
  const gap = 32, width = columns * wide + (columns + 1) * gap, body = s('g');
  const write = (x, y, words, size, fill = '#1b1f24') => body.append(label(x, y, words, '', { 'font-size': size, fill, 'font-weight': size > 14 ? 650 : 400 }));
  const draw = (x, y, from) => body.append(s('g', '', place(x, y), [...from.childNodes].map(standalone)));
  let x = gap, y = 68, tallest = 0;
  write(gap, 40, title, 18);
  for (const [drawn, words] of legend) {
    const room = 52 + 7 * words.length;
    if (x > gap && x + room > width - gap) [x, y] = [gap, y + 22];
    draw(x, y - 11, drawn);
    write(x + 32, y, words, 13);
    x += room;
  }
  y += legend.length ? 34 : 6;
  charts.forEach((c, i) => {
    if (i && i % columns === 0) [y, tallest] = [y + tallest + 28, 0];
    const left = gap + (i % columns) * (wide + gap);
    let top = y;
    if (c.label) write(left, top, c.label, 15);
    for (const line of wrap(c.words || '', wide / 6.6)) write(left, top += 17, line, 12, '#59636e');
    draw(left, top += 14, c.svg);
    tallest = max(tallest, top - y + sizes[i].height);
  });
  document.documentElement.removeAttribute('data-light');
  const size = { width, height: ceil(y + tallest + gap) };
  const out = s('svg', '', { ...size, viewBox: `0 0 ${width} ${size.height}`, 'font-family': 'system-ui, Helvetica, Arial, sans-serif', 'font-size': 12 },
    s('rect', '', { ...size, fill: '#fff' }), body);
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(out);
}

function copyText(text, beside, pressed) {
  const words = pressed.textContent;
  const done = () => {
    pressed.textContent = 'Copied';
    setTimeout(() => { pressed.textContent = words; }, 1500);
  };
  // Some browsers refuse this to files: then the text is shown, selected.
  const refused = () => {
    const box = h('textarea.copybox', { readonly: '', 'aria-label': 'Text to copy' });
    box.value = text;
    beside.parentNode.querySelector('.copybox')?.remove();
    beside.after(box);
    box.focus();
    box.select();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, refused);
  else refused();
}

// Heading of a section with its downloads; `parts` says what is shown at the moment.
function heading(title, parts) {
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 60) || 'thalweg';
  const svg = () => download(name + '.svg', 'image/svg+xml', exportSvg(title, parts.legend ? parts.legend() : [], parts.charts()));
  const table = () => download(name + '.csv', 'text/csv', csv(parts.rows()));
  return h('div.head', h('h2', title), h('div.tools',
    button('SVG', { 'data-download': 'svg', onclick: svg }),
    button('CSV', { 'data-download': 'csv', onclick: table })));
}

// Calls `draw(width)` when the width of `holder` has changed.
function responsive(holder, draw) {
  let last = 0;
  const check = () => {
    const width = Math.floor(holder.clientWidth);
    if (width > 50 && width !== last) draw(last = width);
  };
  new ResizeObserver(() => requestAnimationFrame(check)).observe(holder);
  return check;
}

// ---- experiment: what is read from a run ----

const BOTTOMS = [
  ['passes', 'passes of both'], ['passes_f', 'passes of f'], ['passes_g', 'passes of g'], ['samples', 'samples'],
  ['iterations', 'iterations'], ['seconds', 'seconds'],
];
const CERTIFIED = 'near-stationarity';

// Missing numbers are null in the data.
function columnsOf(trace) {
  const columns = new Map(trace.columns.map(([name, values]) => [name, values.map(v => v === null ? NaN : v)]));
  const f = columns.get('passes_f'), g = columns.get('passes_g');
  if (f || g) columns.set('passes', f && g ? f.map((v, i) => Number((v + g[i]).toPrecision(9))) : f || g);
  columns.feasible = trace.feasible;
  return columns;
}

// The quantities that can be shown: those with a meaning of their own first, then all other columns.
function quantities(runs) {
  const names = new Set(runs.flatMap(r => [...r.columns.keys()])), list = [];
  for (const [name] of BOTTOMS) names.delete(name);
  if (names.delete('objective')) list.push(['objective', 'objective'], ['gap', 'objective above the best']);
  if (names.delete('violation')) list.push(['infeasibility', 'infeasibility']);
  if (runs.some(r => r.certified.get('upper'))) list.push([CERTIFIED, CERTIFIED]);
  return [...list, ...[...names].map(name => ['column:' + name, name])];
}

// Recorded points of a run for the chosen axes: x, y, feasible, and the lower end of an interval. Kept until the axes change.
function points(run, xName, yName) {
  if (run.points && run.points.axes === xName + ' ' + yName) return run.points;
  const columns = yName === CERTIFIED ? run.certified : run.columns, get = name => columns.get(name) || [];
  // Objectives are written with ten digits: a difference beyond them is rounding.
  const special = {
    objective: () => get('objective'), gap: () => get('objective').map(v => abs(v - run.best) > 1e-9 * abs(run.best) ? v - run.best : 0),
    infeasibility: () => get('violation').map(v => max(0, v)), [CERTIFIED]: () => get('upper'),
  };
  const ys = special[yName] ? special[yName]() : get(yName.slice(7)), low = yName === CERTIFIED && get('lower');
  const out = { axes: xName + ' ' + yName, x: [], y: [], feasible: [], low: low && [] };
  get(xName).forEach((x, i) => {
    if (!known(x) || !known(ys[i])) return;
    out.x.push(x);
    out.y.push(ys[i]);
    out.feasible.push(columns.feasible[i] === 1);
    if (low) out.low.push(low[i]);
  });
  return run.points = out;
}

// Values of a run at each pixel. Between points as the line is drawn; a stretch is feasible if both of its ends are. After its
// end a run keeps its last value, so that a median over seeds does not jump when one of them stops; not if it failed.
function sample(p, count, x, y, hold) {
  const empty = () => new Float64Array(count).fill(NaN), out = { y: empty(), low: p.low && empty(), feasible: new Uint8Array(count) };
  const blend = (a, b, t) => y.log && a > 0 && b > 0 ? a * (b / a) ** t : a + t * (b - a);
  const first = x.log ? p.x.findIndex(v => v > 0) : 0, last = p.x.length - 1, pixel = p.x.map(v => x(v) - x.from);
  if (first < 0) return out;
  for (let k = 0, i = first; k < count && last >= 0; k++) {
    while (i < last && pixel[i + 1] <= k) i++;
    if (k < pixel[i] - 0.5) continue;
    if (i === last && !hold && k > pixel[i] + 0.5) break;
    const j = min(i + 1, last), t = i === j ? 0 : max(0, (k - pixel[i]) / (pixel[j] - pixel[i]));
    out.y[k] = blend(p.y[i], p.y[j], t);
    out.feasible[k] = p.feasible[i] && (t === 0 || p.feasible[j]) ? 1 : 0;
    if (p.low) out.low[k] = blend(p.low[i], p.low[j], t);
  }
  return out;
}

// Median, quartiles and number of feasible runs at each pixel. An interval has its median ends instead of quartiles.
function combine(samples, end) {
  const count = samples[0].y.length, empty = () => new Float64Array(count).fill(NaN);
  const out = { y: empty(), low: empty(), high: empty(), feasible: new Uint16Array(count), runs: new Uint16Array(count) };
  for (let k = 0; k <= min(count - 1, end); k++) {
    const there = samples.filter(one => known(one.y[k])), values = ascending(there.map(one => one.y[k]));
    out.y[k] = quantile(values, 0.5);
    out.low[k] = samples[0].low ? median(there.map(one => one.low[k])) : quantile(values, 0.25);
    out.high[k] = samples[0].low ? out.y[k] : quantile(values, 0.75);
    out.feasible[k] = there.filter(one => one.feasible[k]).length;
    out.runs[k] = there.length;
  }
  return out;
}

// Path data of the solid and of the dashed parts; `list` has pixel x, pixel y, feasible.
function strokes(list) {
  const out = { solid: '', dashed: '' }, ended = {};
  for (let i = 1; i < list.length; i++) {
    const a = list[i - 1], b = list[i], kind = a[2] && b[2] ? 'solid' : 'dashed';
    out[kind] += (ended[kind] === i - 1 ? '' : `M${round(a[0])} ${round(a[1])}`) + `L${round(b[0])} ${round(b[1])}`;
    ended[kind] = i;
  }
  return out;
}

function bandPath(left, low, high, y) {
  let d = '', upper = [], lower = [];
  for (let k = 0; k <= low.length; k++) {
    if (known(low[k]) && known(high[k])) {
      upper.push(`${left + k} ${round(y(high[k]))}`);
      lower.push(`${left + k} ${round(y(low[k]))}`);
    } else {
      if (upper.length > 2) d += `M${upper.join('L')}L${lower.reverse().join('L')}Z`;
      [upper, lower] = [[], []];
    }
  }
  return d;
}

// ---- experiment: results ----

// One row for each panel, solver and cell.
function results(e, all, level) {
  const groups = new Map();
  for (const run of e.runs.filter(r => all || r.tuned)) {
    const id = JSON.stringify([run.panel, run.solver, run.cell]);
    groups.set(id, [...(groups.get(id) || []), run]);
  }
  const rows = [...groups.values()].map(runs => resultOf(runs, level));
  for (const panel of e.panels.keys()) markBest(rows.filter(r => r.panel === panel));
  return rows.sort(rank);
}

function resultOf(runs, level) {
  const objectives = ascending(runs.map(r => r.objective)), certificates = runs.map(r => r.certificate).filter(Boolean);
  const cost = i => median(runs.map(r => r.reached[level] ? r.reached[level][i] : Infinity));
  const failed = runs.filter(r => r.failed), feasible = runs.filter(r => r.feasible).length;
  const { panel, solver, cell } = runs[0];
  return {
    panel, solver, cell, runs: runs.length, failed, feasible,
    objective: quantile(objectives, 0.5), quartiles: objectives.length > 1 ? [0.25, 0.75].map(q => quantile(objectives, q)) : null,
    violation: max(...finite(runs.map(r => r.violation))), least: median(runs.map(r => r.least ?? Infinity)),
    passes: cost(0), seconds: cost(1), reached: runs.filter(r => r.reached[level]).length,
    certificate: certificates.length ? [0, 1].map(i => median(certificates.map(c => c[i]))) : null,
    time: median(runs.map(r => r.seconds)), iterations: median(runs.map(r => r.iterations)),
    notes: [...new Set(runs.flatMap(r => r.notes))],
    trusted: feasible === runs.length && !failed.length && objectives.length > 0, best: new Set(),
  };
}

// Equal to six digits is equal: nobody wins by rounding.
function markBest(rows) {
  for (const name of ['objective', 'least', 'passes', 'seconds']) {
    const candidates = rows.filter(r => known(r[name]) && (r.trusted || name !== 'objective')), least = min(...candidates.map(r => r[name]));
    for (const row of candidates) if (row[name] - least <= 1e-6 * abs(least)) row.best.add(name);
  }
}

// Winners first: what can be trusted by objective, then the others, what has no objective last.
const rank = (a, b) => a.panel - b.panel || b.trusted - a.trusted || known(b.objective) - known(a.objective) || a.objective - b.objective;
const interval = pair => pair ? `[${number(pair[0], 3)}, ${number(pair[1], 3)}]` : '–';

// What the table shows: `of` is for sorting, `show` gives the main text and small lines below it.
function tableColumns(e, rows, level) {
  const formats = e.panels.map((_, i) => alike(rows.filter(r => r.panel === i).map(r => r.objective)));
  const cost = name => r => [
    known(r[name]) ? number(r[name], 3) : 'never', r.reached > 0 && r.reached < r.runs ? `${r.reached} of ${r.runs} do` : '',
  ];
  const there = { violation: r => known(r.violation), certificate: r => r.certificate, settings: r => r.cell || r.failed.length || r.notes.length };
  const within = ` to ${about(e.levels[level])}`;
  return [
    { key: 'panel', title: 'Problem', text: 'name', of: r => r.panel, show: r => [e.panels[r.panel].label] },
    { key: 'solver', title: 'Solver', text: 'name', of: r => r.solver, show: r => [r.solver] },
    { key: 'objective', title: 'Objective', of: r => r.objective, show: r => [[r.objective], r.quartiles || []].map(v => v.map(formats[r.panel]).join(' … ')) },
    { key: 'violation', title: 'Largest violation', of: r => r.violation, show: r => [known(r.violation) ? r.violation.toExponential(1) : '–'] },
    { key: 'feasible', title: 'Feasible', of: r => r.feasible / r.runs, show: r => [`${r.feasible === r.runs ? '✓' : '✗'} ${r.feasible}/${r.runs}`] },
    { key: 'least', title: 'Best feasible', of: r => r.least, show: r => [known(r.least) ? formats[r.panel](r.least) : 'none'] },
    { key: 'passes', title: 'Passes' + within, of: r => r.passes, show: cost('passes') },
    { key: 'seconds', title: 'Seconds' + within, of: r => r.seconds, show: cost('seconds') },
    { key: 'certificate', title: 'Near-stationarity', of: r => r.certificate ? r.certificate[1] : NaN, show: r => [interval(r.certificate)] },
    { key: 'iterations', title: 'Iterations', of: r => r.iterations, show: r => [number(r.iterations, 7)] },
    { key: 'time', title: 'Seconds', of: r => r.time, show: r => [number(r.time, 3)] },
    { key: 'settings', title: 'Settings', text: 'wrap', of: r => r.cell, show: r => [r.cell] },
  ].filter(c => !there[c.key] || rows.some(there[c.key]));
}

function failures(row) {
  const reasons = new Map();
  for (const run of row.failed) reasons.set(run.ended, [...(reasons.get(run.ended) || []), run.seed]);
  return [...reasons].map(([words, seeds]) => `✗ failed (seed ${seeds.join(', ')}): ${words}`);
}

const LATEX = { '\\': '\\textbackslash{}', '~': '\\textasciitilde{}', '^': '\\textasciicircum{}', '–': '--', '−': '$-$', '…': '\\ldots{}', '≤': '$\\le$', '≥': '$\\ge$', '×': '$\\times$', '<': '$<$', '>': '$>$', '✓': '', '✗': '' };
const FORMS = {
  markdown: {
    text: t => t.replace(/[\\|*_`<>[\]]/g, '\\$&'), bold: t => `**${t}**`, row: cells => `| ${cells.join(' | ')} |`, gap: '',
    open: columns => '\n' + `|${columns.map(c => c.text ? '---' : '--:').join('|')}|`, close: '',
  },
  latex: {
    text: t => t.replace(/[\\{}$&#%_~^–−…≤≥×<>✓✗]/g, c => LATEX[c] ?? '\\' + c).replace(/(-?\b\d(?:\.\d+)?)e(-?\d+)\b/g, '$$$1\\cdot 10^{$2}$$').trim(),
    bold: t => `\\textbf{${t}}`, row: cells => cells.join(' & ') + ' \\\\', gap: '\\midrule\n',
    start: columns => `% needs booktabs\n\\begin{tabular}{${columns.map(c => c.text ? 'l' : 'r').join('')}}\n\\toprule\n`,
    open: () => '\n\\midrule', close: '\n\\bottomrule\n\\end{tabular}',
  },
};

function tableText(kind, columns, rows) {
  const form = FORMS[kind];
  const cell = (c, r) => {
    const words = form.text([c.show(r)[0], ...(c.key === 'settings' ? failures(r) : [])].join(' ').replace(/\s+/g, ' ').trim());
    return r.best.has(c.key) ? form.bold(words) : words;
  };
  const lines = rows.map((r, i) => '\n' + (i && rows[i - 1].panel !== r.panel ? form.gap : '') + form.row(columns.map(c => cell(c, r))));
  return (form.start ? form.start(columns) : '') + form.row(columns.map(c => form.text(c.title))) + form.open(columns) + lines.join('') + form.close + '\n';
}

// Who wins on a panel, by how much, and what can be said for it.
function verdict(e, all, panel, level) {
  const rows = all.filter(r => r.panel === panel), trusted = rows.filter(r => r.trusted), facts = [], show = alike(rows.map(r => r.objective));
  const add = (name, ...words) => facts.push(h('dt', name), h('dd', ...words));
  const first = (name, list) => {
    const order = list.filter(r => known(r[name])).sort((a, b) => a[name] - b[name]), winners = order.filter(r => r.best.has(name));
    return [winners[0], order[winners.length], h('b', winners.map(r => r.solver).join(', '))];
  };
  const [best, next, who] = first('objective', trusted), [fast, slow, quick] = first('passes', rows);
  if (best) {
    const more = next && best.objective !== 0 ? '+' + about((next.objective - best.objective) / abs(best.objective), 2) : next && show(next.objective);
    add('Lowest', who, ` ${show(best.objective)}`, next ? h('small', ` · next ${next.solver} ${more}`) : null);
  } else add('Lowest', h('span.bad', '✗ no method is feasible in every seed'));
  if (fast) {
    const more = slow && fast.passes > 0 ? ` · next ${slow.solver} ${number(slow.passes / fast.passes, 2)}×` : '';
    add('Fastest', quick, ` ${number(fast.passes, 3)} passes to ${about(e.levels[level])}`, h('small', more));
  }
  if (rows.some(r => known(r.violation))) {
    const good = trusted.length === rows.length;
    add('Feasible', h(good ? 'span.good' : 'span.bad', `${good ? '✓' : '✗'} ${trusted.length} of ${rows.length}`), ' methods in every seed');
  }
  if (best && best.certificate) add('Certified', 'near-stationarity ' + interval(best.certificate));
  return h('div.verdict', { 'data-panel': panel }, h('h3', e.panels[panel].label), h('dl', facts));
}

// ---- experiment: the curves ----

// Range of what is drawn. A run that failed, or a cell that was not chosen, must not flatten all others.
function extent(runs, log) {
  const range = (some, values, positive) => {
    let lo = Infinity, hi = -Infinity, least = Infinity;
    for (const { points: p } of some) for (let i = 0; i < p.x.length; i++) {
      if (log.x && !(p.x[i] > 0)) continue;
      for (const v of values(p, i)) {
        least = min(least, v);
        if (positive ? v > 0 : known(v)) [lo, hi] = [min(lo, v), max(hi, v)];
      }
    }
    return lo <= hi ? [lo, hi, least] : [1e-3, 1, least];
  };
  const good = runs.filter(r => r.tuned && !r.failed && r.points.x.length);
  let [lo, hi, least] = range(good.length ? good : runs, (p, i) => p.low && known(p.low[i]) ? [p.y[i], p.low[i]] : [p.y[i]], log.y);
  // More than 14 decades are not worth the room.
  if (log.y) lo = max(lo, hi * 1e-14);
  // Nor is a solver that flew off.
  const usual = median(good.map(r => max(...r.points.y)));
  if (!log.y && hi - lo > 20 * (usual - lo)) hi = lo + 2 * (usual - lo);
  const y = spread(lo, hi, log.y), highest = range(runs, (p, i) => [p.y[i]], log.y)[1], [a, b] = range(runs, (p, i) => [p.x[i]], log.x);
  return { x: a < b ? [a, b] : spread(a, b, log.x), y, below: log.y && least < lo, zero: least === 0, beyond: highest > y[1] ? highest : 0 };
}

// The charts of the problems. `view` has the data of the section and the state of its controls, which the functions below share.
function curvesOf(view) {
  const { e, order, solvers, tops, bottoms, state, isLog, visible } = view;
  const shown = panel => e.runs.filter(r => r.panel === panel && (state.all || r.tuned));
  const wordsOf = (list, name) => (list.find(l => l[0] === name) || ['', ''])[1];
  const keys = h('div'), holders = e.panels.map((_, panel) => ({ panel, plot: h('div.plot'), svg: null }));
  const figures = holders.map(({ plot, panel }) => h('figure', h('figcaption', h('h3', e.panels[panel].label), h('p.note', e.panels[panel].words)), plot));

  function drawPanels() {
    for (const holder of holders) drawPanel(holder, holder.plot.clientWidth);
    const tuned = e.runs.filter(r => r.tuned), seeds = new Set(tuned.map(r => r.panel + r.solver)).size < tuned.length;
    keys.replaceChildren(key([
      ['line', seeds ? 'median over seeds' : 'one run'], ...(state.y === CERTIFIED ? [['band', 'from lower to upper bound']] : seeds ? [['band', 'quartiles']] : []),
      ['dashed', seeds ? 'infeasible in half of the seeds' : 'infeasible'], ...(tuned.some(r => r.failed) ? [['fail', 'a run failed here']] : []),
    ]));
  }

  function drawPanel(holder, width) {
    if (width < 50) return;
    const runs = shown(holder.panel), log = { x: isLog(state.x), y: isLog(state.y) }, words = wordsOf(tops, state.y);
    for (const run of runs) points(run, state.x, state.y);
    const span = extent(runs, log), below = span.below ? (span.zero ? '0' : '≤ ' + number(span.y[0], 1)) : '';
    const height = Math.round(min(360, max(250, width * 0.58)));
    const p = plane(width, height, { range: span.x, log: log.x, words: wordsOf(bottoms, state.x) }, { range: span.y, log: log.y, words },
      { 'data-panel': holder.panel, 'aria-label': `${e.panels[holder.panel].label}: ${words}` }, below);
    const { svg, box } = p, clip = `clip-${order}-${holder.panel}`, back = s('g', '', { 'clip-path': `url(#${clip})` }), front = s('g'), rows = [];
    svg.append(s('clipPath', '', { id: clip }, s('rect', '', { x: box.left - 1, y: box.top - 6, width: box.right - box.left + 8, height: box.bottom - box.top + 7 })), back, front);
    for (const run of runs.filter(r => !r.tuned)) curve(back, run.solver, pixels(run.points, p), ' faint');
    solvers.forEach((solver, index) => {
      const mine = runs.filter(r => r.tuned && r.solver === solver && r.points.x.length);
      if (mine.length) rows.push(drawSolver(back, front, p, solver, index, mine));
    });
    if (!rows.length) svg.append(label((box.left + box.right) / 2, height / 2, 'not recorded', 'mid'));
    if (span.beyond) svg.append(label(box.right, 13, `↑ beyond: up to ${number(span.beyond, 2)}`, 'end'));
    holder.plot.replaceChildren(holder.svg = svg);
    hover(holder.plot, svg, box, k => `${number(p.x.inverse(box.left + k))} ${wordsOf(bottoms, state.x)}`, rows);
    if (state.only !== null) view.isolate();
  }

  const pixels = (q, p) => q.x.map((v, i) => [p.x(v), p.y(q.y[i]), q.feasible[i]]).filter(point => known(point[0]));

  function curve(layer, solver, list, kind = '') {
    const d = strokes(list), look = `curve${kind} ${colour(solvers.indexOf(solver))}`;
    if (d.solid) layer.append(path(look, d.solid, { 'data-solver': solver }));
    if (d.dashed) layer.append(path(look + ' dashed', d.dashed, { 'data-solver': solver }));
  }

  // One solver on a panel: band, line, marks; gives back what the box of values looks up.
  function drawSolver(back, front, p, solver, index, runs) {
    const { box, y } = p, count = box.right - box.left + 1, single = runs.length === 1, bounds = state.y === CERTIFIED, own = { 'data-solver': solver };
    const end = max(...finite(runs.map(r => Math.round(p.x(r.points.x.at(-1)) - box.left))));
    const sum = combine(runs.map(r => sample(r.points, count, p.x, y, !single && !r.failed)), end);
    const good = k => sum.feasible[k] * 2 > sum.runs[k], last = sum.y.findLastIndex(known), marks = s('g', 'marks', own);
    if (!single || bounds) back.append(path('band ' + colour(index), bandPath(box.left, sum.low, sum.high, y), own));
    const line = single ? pixels(runs[0].points, p) : [...sum.y].map((v, k) => [box.left + k, y(v), good(k)]).filter((_, k) => known(sum.y[k]));
    curve(back, solver, line);
    // Marks tell solvers apart without colour; each solver has its own places, so that they do not hide each other.
    const places = [0, 1, 2, 3, 4].map(j => Math.round((j + (index + 1) / (solvers.length + 1)) * count / 5)).filter(k => k < last - 12);
    for (const k of [...places, last]) {
      if (!known(sum.y[k]) || y(sum.y[k]) < box.top - 8) continue;
      if (bounds && line.length < 2) marks.append(path('whisker ' + colour(index), `M${box.left + k} ${round(y(sum.y[k]))}V${round(y(sum.low[k]))}m-4 0h8`));
      marks.append(mark(index, box.left + k, y(sum.y[k]), !good(k)));
    }
    for (const run of runs.filter(r => r.failed)) {
      const stop = pixels(run.points, p).at(-1);
      if (stop) marks.append(cross(stop[0], max(box.top, stop[1])));
    }
    front.append(marks);
    const words = k => !sum.runs[k] ? '' : single ? (good(k) ? 'feasible' : 'infeasible') : `${sum.feasible[k]}/${sum.runs[k]} feasible`;
    const value = k => bounds && sum.runs[k] ? interval([sum.low[k], sum.y[k]]) : number(sum.y[k], 5);
    return { index, name: solver, hidden: () => !visible(solver), at: k => [value(k), words(k)] };
  }

  return { keys, holders, figures, shown, draw: drawPanels, drawPanel };
}

// ---- experiment: the table ----

// What is missing comes last in both directions.
function sorter(column, sign) {
  const missing = v => typeof v === 'number' ? !known(v) : !v;
  return (a, b) => {
    const [p, q] = [column.of(a), column.of(b)];
    if (missing(p) || missing(q)) return missing(p) - missing(q);
    return sign * (typeof p === 'string' ? p.localeCompare(q, 'en', { numeric: true }) : p - q);
  };
}

// Verdicts and results.
function tableOf(view) {
  const { e, solvers, state, id } = view, verdicts = h('div.verdicts', { id: id('verdicts') }), tableBox = h('div.scroll');
  let current = [[], []];
  function drawTable() {
    const tuned = results(e, false, state.level), rows = results(e, state.all, state.level), columns = tableColumns(e, rows, state.level);
    verdicts.replaceChildren(...e.panels.map((_, i) => verdict(e, tuned, i, state.level)));
    const by = state.sort && columns.find(c => c.key === state.sort.key);
    if (by) rows.sort(sorter(by, state.sort.down ? -1 : 1));
    current = [columns, rows];
    const head = columns.map(c => h('th' + (c.text ? '.text' : ''), { scope: 'col', 'aria-sort': by !== c ? 'none' : state.sort.down ? 'descending' : 'ascending' },
      button(c.title, { 'data-sort': c.key, onclick: () => sortBy(c.key) })));
    tableBox.replaceChildren(h('table.results', { id: id('table') }, h('thead', h('tr', head)), h('tbody', rows.map((row, i) => tableRow(columns, row, rows[i - 1])))));
  }

  // Up, down, and back to the winners of each panel first.
  function sortBy(name) {
    const again = state.sort && state.sort.key === name;
    state.sort = again && state.sort.down ? null : { key: name, down: Boolean(again) };
    drawTable();
    tableBox.querySelector(`[data-sort="${name}"]`).focus();
  }

  function tableRow(columns, row, before) {
    const fresh = !before || before.panel !== row.panel;
    const cells = columns.map(c => {
      const [main, ...small] = c.show(row), best = row.best.has(c.key), td = h('td', { 'data-key': c.key, 'data-best': best ? '' : undefined });
      td.className = [c.text ? 'text ' + c.text : '', c.key === 'panel' && !fresh ? 'repeat' : '', c.key === 'feasible' && row.feasible < row.runs ? 'bad' : ''].join(' ').trim();
      td.append(best ? h('b', { title: 'best of this problem' }, '★ ' + main) : main, ...small.filter(Boolean).map(words => h('small', words)));
      if (c.key === 'solver') td.prepend(dot(solvers.indexOf(row.solver)), ' ');
      if (c.key === 'settings') td.append(...failures(row).map(words => h('small.bad', words)), ...row.notes.map(words => h('small', words)));
      return td;
    });
    return h(fresh && before && !state.sort ? 'tr.first' : 'tr', { 'data-panel': row.panel, 'data-solver': row.solver, 'data-cell': row.cell }, cells);
  }

  return { verdicts, tableBox, draw: drawTable, current: () => current };
}

// ---- experiment: the profile ----

// Of all problems and seeds, which share is solved within a factor of the fastest.
function profileOf(view) {
  const { e, solvers, state, visible } = view, profile = { plot: h('div.plot'), svg: null };
  const instances = new Map();
  for (const run of e.runs.filter(r => r.tuned)) {
    const name = run.panel + '/' + run.seed;
    instances.set(name, [...(instances.get(name) || []), run]);
  }
  function ratios() {
    const cost = run => run.reached[state.level]?.[state.cost] ?? Infinity;
    // A level that holds at the start costs nothing, and nothing has no factor.
    const least = 1e-3 * min(...finite(e.runs.map(cost)).filter(c => c > 0), 1e9), out = new Map(solvers.map(name => [name, []]));
    for (const runs of instances.values()) {
      const best = min(...runs.map(cost));
      for (const run of runs) if (known(cost(run))) out.get(run.solver).push(max(cost(run), least) / max(best, least));
    }
    return out;
  }

  function drawProfile(width = profile.plot.clientWidth) {
    if (instances.size < 3 || width < 50) return;
    const all = ratios(), most = max(2, ...[...all.values()].flat()) * 1.2;
    const { svg, box, x, y } = plane(width, 300, { range: [1, most], log: true, words: `factor of the fewest ${['passes', 'seconds'][state.cost]}`, show: v => tickLabel(v, true) + '×' },
      { range: [-0.02, 1.03], words: `solved, of ${instances.size} problems and seeds`, ticks: [0, .25, .5, .75, 1], show: v => percent(v, 0) },
      named('profile', 'Performance profile'));
    const rows = solvers.map((solver, index) => {
      const list = all.get(solver).sort((a, b) => a - b), own = { 'data-solver': solver }, marks = s('g', 'marks', own);
      const steps = list.map((r, i) => `H${round(x(r))}V${round(y((i + 1) / instances.size))}`).join('');
      const solved = k => list.filter(r => x(r) <= box.left + k + 0.01).length;
      for (const part of [0.3, 0.7, 1]) {
        const k = Math.round((box.right - box.left) * (part - (part < 1 ? 0.25 * index / solvers.length : 0)));
        marks.append(mark(index, box.left + k, y(solved(k) / instances.size)));
      }
      svg.append(path('curve ' + colour(index), `M${box.left} ${round(y(0))}${steps}H${box.right}`, own), marks);
      return { index, name: solver, hidden: () => !visible(solver), at: k => [percent(solved(k) / instances.size, 0), `${solved(k)}/${instances.size}`] };
    });
    profile.plot.replaceChildren(profile.svg = svg);
    hover(profile.plot, svg, box, k => `within ${number(x.inverse(box.left + k), 3)}× of the fastest`, rows);
    if (state.only !== null) view.isolate();
  }

  return { profile, count: instances.size, draw: drawProfile };
}

// ---- experiment: the section ----

let experiments = 0;

function experiment(e) {
  const order = ++experiments, id = name => order > 1 ? `${name}-${order}` : name;
  e.runs = e.runs.filter(r => e.panels[r.panel]);
  for (const run of e.runs) {
    run.columns = columnsOf(run.trace);
    run.certified = columnsOf(run.certified);
    run.best ??= NaN;
  }
  const solvers = [...new Set(e.runs.map(r => r.solver))], tops = quantities(e.runs);
  const bottoms = BOTTOMS.filter(([name]) => e.runs.some(r => (r.columns.get(name) || []).some(v => v > 0)));
  const state = { y: tops[0]?.[0] || '', x: bottoms[0]?.[0] || '', logs: {}, all: false, level: 1, only: null, sort: null, cost: 0 };
  const isLog = name => state.logs[name] ?? ['infeasibility', 'gap', CERTIFIED].includes(name);
  const visible = solver => state.only === null || state.only === solver;
  const view = { e, order, id, solvers, tops, bottoms, state, isLog, visible, isolate };
  const curves = curvesOf(view), table = tableOf(view), ranking = profileOf(view), { holders } = curves, { profile } = ranking;

  // Controls; not filled in by a browser that remembers them, because the charts start anew.
  const select = (name, words, pairs, change) => h('label', words, h('select', { id: id(name), autocomplete: 'off', onchange: event => change(event.target.value) }, options(pairs)));
  const check = (axis, words) => {
    const box = h('input', { type: 'checkbox', id: id('log-' + axis), autocomplete: 'off', onchange: () => { state.logs[state[axis]] = box.checked; curves.draw(); } });
    return [box, h('label.check', box, words)];
  };
  const [boxX, logX] = check('x', 'log x'), [boxY, logY] = check('y', 'log y');
  const sync = () => { [boxX.checked, boxY.checked] = [isLog(state.x), isLog(state.y)]; };
  const axis = name => value => { state[name] = value; sync(); curves.draw(); };
  const levels = e.levels.map((tau, i) => [i, `within ${about(tau)} of the best`]);
  const several = e.runs.some(r => !r.tuned);
  const bar = h('div.bar', select('y-axis', 'y axis', tops, axis('y')), select('x-axis', 'x axis', bottoms, axis('x')), logX, logY,
    several ? select('cells', 'cells', [['tuned', 'tuned only'], ['all', 'all cells']], v => { state.all = v === 'all'; curves.draw(); table.draw(); }) : null,
    select('level', 'solved means', levels, v => { state.level = Number(v); table.draw(); ranking.draw(); }));
  bar.querySelector('#' + id('level')).value = '1';
  sync();

  // Legend.
  const buttons = solvers.map((solver, i) => button(solver, {
    'data-solver': solver, 'aria-pressed': 'false', onclick: () => { state.only = state.only === solver ? null : solver; isolate(); },
  }));
  buttons.forEach((b, i) => b.prepend(glyph(i)));
  const legend = h('div.legend', { id: id('legend'), role: 'group', 'aria-label': 'Solvers: press one to see it alone' }, buttons);
  function isolate() {
    buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(state.only === solvers[i])));
    legend.classList.toggle('isolating', state.only !== null);
    for (const part of section.querySelectorAll('svg.chart [data-solver]')) part.setAttribute('display', visible(part.dataset.solver) ? 'inline' : 'none');
  }

  // Downloads: what is shown at the moment.
  const parts = {
    legend: () => solvers.map((name, i) => [buttons[i].firstChild, name]).filter(l => visible(l[1])),
    charts: () => [
      ...holders.map(o => ({ svg: o.svg, ...e.panels[o.panel] })), { svg: profile.svg, label: 'Performance profile', words: levels[state.level][1] },
    ].filter(c => c.svg),
    rows: () => {
      const bounds = state.y === CERTIFIED, out = [['panel', 'solver', 'cell', 'seed', state.x, ...(bounds ? ['lower', 'upper'] : [state.y.replace('column:', '')]), 'feasible']];
      for (const [i, panel] of e.panels.entries()) for (const run of curves.shown(i).filter(r => visible(r.solver))) {
        const p = points(run, state.x, state.y);
        p.x.forEach((x, k) => out.push([panel.label, run.solver, run.cell, run.seed, x, ...(bounds ? [p.low[k]] : []), p.y[k], p.feasible[k]]));
      }
      return out;
    },
  };
  const copy = (kind, words) => button(words, { 'data-copy': kind, onclick: event => copyText(tableText(kind, ...table.current()), tableHead, event.currentTarget) });
  const tableHead = h('div.head', h('h3', 'Results'), h('div.tools', copy('markdown', 'Copy as Markdown'), copy('latex', 'Copy as LaTeX')));
  const cost = h('select', { id: id('profile-cost'), autocomplete: 'off', 'aria-label': 'Cost', onchange: event => { state.cost = Number(event.target.value); ranking.draw(); } }, options([[0, 'passes'], [1, 'seconds']]));
  const section = h('section', { 'data-kind': 'experiment' }, heading(e.title, parts), e.runs.length > 1 ? table.verdicts : null, bar, legend, curves.keys, h('div.panels', curves.figures),
    h('section', tableHead, table.tableBox, h('p.note', '★ best of this problem; an objective counts only if every seed is feasible. Medians over seeds, quartiles below. “To 1 %”: the first feasible point within 1 % of the way from the start to the best feasible objective of all runs.')),
    ranking.count < 3 ? null : h('section', h('div.head', h('h3', 'Performance profile'), h('div.tools', cost)),
      h('div.panels', profile.plot, h('p.note', 'Share of problems and seeds that a method solves within a factor of the fastest: higher and further left is better.'))));
  const checks = [...holders.map(o => responsive(o.plot, width => curves.drawPanel(o, width))), responsive(profile.plot, ranking.draw)];
  const ready = () => { table.draw(); curves.draw(); checks.forEach(c => c()); };
  return { section, ready };
}

// ---- the other charts ----

// A section with one chart that is drawn anew when its width changes. `draw` gives the chart and, perhaps, what makes it answer.
function simple(kind, data, rows, draw, before, legend) {
  const plot = h('div.plot');
  let svg = null;
  const section = h('section.half', { 'data-kind': kind }, heading(data.title, { legend: () => legend || [], rows, charts: () => [{ svg }] }), before, plot);
  const ready = responsive(plot, width => {
    const [drawn, after] = draw(width);
    plot.replaceChildren(svg = drawn);
    if (after) after(plot);
  });
  return { section, ready };
}
const entriesOf = legend => h('div.legend', legend.map(([drawn, words]) => h('span.entry', drawn, words)));

function bounds(data) {
  const draw = width => {
    const svg = chart(width, 0, named('bounds', data.title));
    let top = 0;
    for (const c of data.constraints) {
      const lines = wrap(c.name, Math.floor((width - 120) / 8.8));
      const values = finite([0, c.bound, c.value, c.held_out]), lo = min(...values), hi = max(...values);
      const x = scale([lo, lo + (hi - lo || 1) * 1.12], false, 1, width - 1), ok = c.satisfied, look = ok === false ? 's1' : 's0';
      const [words, tone] = ok === null ? ['not enforced', ''] : ok ? ['✓ satisfied', 'good'] : ['✗ violated', 'bad'];
      const share = c.bound > 0 ? `, ${about(c.value / c.bound, 3)} of the bound` : '';
      const held = known(c.held_out) ? ` · held-out ${number(c.held_out)}, ${c.held_out > c.bound ? 'above it' : 'within'}` : '';
      const said = wrap(`training ${number(c.value)}${share}${held}`, Math.floor(width / 6.4)), y = top + 18 * lines.length + 17 * said.length + 17;
      const row = s('g', '', { 'data-constraint': c.name }, lines.map((line, j) => label(0, top + 14 + 18 * j, line, 'strong big')),
        label(width, top + 14, words, `end big ${tone}`), said.map((line, j) => label(0, y - 12 - 17 * (said.length - 1 - j), line)), path('trough', `M0 ${y}H${width}v16H0Z`));
      if (known(c.value)) row.append(path('value ' + look, `M${round(x(0))} ${y + 3}H${round(x(c.value))}v10H${round(x(0))}Z`));
      if (known(c.bound)) {
        const at = x(c.bound), side = at < 50 ? '' : at > width - 50 ? ' end' : ' mid';
        row.append(path('bound', `M${round(at)} ${y - 4}v24`), label(at, y + 33, `bound ${number(c.bound)}`, 'ink' + side));
      }
      if (known(c.held_out)) row.append(path('hollow ' + look, diamond(5), place(x(c.held_out), y + 8)));
      svg.append(row);
      top = y + 58;
    }
    svg.setAttribute('viewBox', `0 0 ${width} ${top}`);
    return [svg];
  };
  const rows = () => [['constraint', 'bound', 'training', 'held-out', 'satisfied'], ...data.constraints.map(c => [c.name, c.bound, c.value, c.held_out, c.satisfied])];
  return simple('bounds', data, rows, draw, key([['bar', 'training rows'], ...(data.constraints.some(c => known(c.held_out)) ? [['diamond', 'held-out rows']] : [])]));
}

function groups(data) {
  const names = data.groups.map(g => g[0]), legend = data.groups.map(([name, rows], i) => [dot(i), `${name} (${rows.toLocaleString('en')} rows)`]);
  const gap = shares => {
    const there = shares.map((v, i) => [v, names[i]]).filter(p => known(p[0])).sort((a, b) => a[0] - b[0]), [low, high] = [there[0], there.at(-1)];
    return there.length > 1 ? `${(100 * (high[0] - low[0])).toFixed(1)} points, ${high[1]} over ${low[1]}` : '';
  };
  const draw = width => {
    const most = 1.04 * max(0.05, ...finite(data.rates.flatMap(r => [...r.training, ...r.held_out]))), x = scale([0, most], false, 84, width - 14);
    const svg = chart(width, 0, named('groups', data.title)), grid = s('g');
    svg.append(grid);
    let top = 0;
    for (const rate of data.rates) {
      const row = s('g', '', { 'data-rate': rate.name }, label(0, top + 14, rate.name, 'strong big'));
      top += 22;
      for (const [name, shares, hollow] of [['training', rate.training, false], ['held-out', rate.held_out, true]]) {
        const there = finite(shares);
        if (!there.length) continue;
        row.append(label(0, top + 15, name), path('axis', `M${round(x(min(...there)))} ${top + 11}H${round(x(max(...there)))}`));
        shares.forEach((v, i) => { if (known(v)) row.append(build(mark(i, x(v), top + 11, hollow, 5.5), '', [s('title', '', `${names[i]}, ${name}: ${percent(v, 2)}`)])); });
        if (gap(shares)) row.append(label(0, top + 33, 'largest gap ' + gap(shares), 'ink'));
        top += 44;
      }
      svg.append(row);
      top += 12;
    }
    for (const v of linearTicks(0, most, max(3, width / 110))) grid.append(path('grid', `M${round(x(v))} 4V${top}`), label(x(v), top + 16, percent(v, 0), 'mid'));
    svg.setAttribute('viewBox', `0 0 ${width} ${top + 24}`);
    return [svg];
  };
  const rows = () => [['rate', 'group', 'training', 'held-out'], ...data.rates.flatMap(r => names.map((n, i) => [r.name, n, r.training[i], r.held_out[i]]))];
  return simple('groups', data, rows, draw, [entriesOf(legend), key([['filled', 'training rows'], ['hollow', 'held-out rows']])], legend);
}

// Share above the threshold; inside a bin by its part, which is then not exact.
function above(edges, shares, threshold) {
  let sum = 0, exact = true;
  shares.forEach((share, i) => {
    const part = max(0, min(1, (edges[i + 1] - threshold) / (edges[i + 1] - edges[i])));
    sum += share * part;
    if (share > 0 && part > 1e-9 && part < 1 - 1e-9) exact = false;
  });
  return (exact ? '' : '≈ ') + percent(sum);
}

function scores(data) {
  const { edges, threshold } = data, legend = data.groups.map(([name, shares], i) => [glyph(i), `${name}: ${above(edges, shares, threshold)} above`]);
  const draw = width => {
    const most = max(1e-9, ...data.groups.flatMap(g => g[1])), lo = min(edges[0], threshold), hi = max(edges.at(-1), threshold);
    const { svg, box, x, y } = plane(width, 300, { range: hi > lo ? [lo, hi] : [lo, lo + 1], words: 'score' },
      { range: [0, most * 1.08], words: 'share of the group', show: v => percent(v, most < 0.05 ? 1 : 0) }, named('scores', data.title));
    data.groups.forEach(([name, shares], i) => {
      const d = `M${round(x(edges[0]))} ${box.bottom}${shares.map((v, k) => `V${round(y(v))}H${round(x(edges[k + 1]))}`).join('')}V${box.bottom}`;
      const peak = shares.indexOf(max(...shares));
      svg.append(path('band ' + colour(i), d + 'Z'), path('curve ' + colour(i), d, { 'data-group': name }));
      if (peak >= 0) svg.append(mark(i, x((edges[peak] + edges[peak + 1]) / 2), y(shares[peak])));
    });
    const at = x(threshold), end = at > box.right - 120;
    svg.append(path('bound', `M${round(at)} ${box.top - 8}V${box.bottom}`), label(at + (end ? -6 : 6), box.top, `threshold ${number(threshold)}`, end ? 'ink end' : 'ink'));
    return [svg];
  };
  const rows = () => [['group', 'from', 'to', 'share'], ...data.groups.flatMap(([name, shares]) => shares.map((v, i) => [name, edges[i], edges[i + 1], v]))];
  return simple('scores', data, rows, draw, entriesOf(legend), legend);
}

function tradeoff(data) {
  const there = data.points.filter(p => known(p.x) && known(p.y)), names = [...new Set(data.points.flatMap(p => p.facts.map(f => f[0])))];
  const fact = (p, name) => (p.facts.find(f => f[0] === name) || ['', ''])[1];
  const draw = width => {
    const xs = there.map(p => p.x), ys = there.map(p => p.y), low = min(...xs, 1e99), high = max(...xs), log = low > 0 && high >= 5 * low;
    const range = there.length ? spread(min(...ys), max(...ys)) : [0, 1], ticks = linearTicks(...range, 6);
    const decimals = max(0, ceil(-log10((ticks[1] - ticks[0]) * 100) - 1e-9)) || 0;
    const { svg, box, x, y } = plane(width, Math.round(min(360, max(260, width * 0.55))), { range: there.length ? spread(low, high, log) : [0, 1], log, words: data.x_label },
      { range, ticks, words: data.y_label, show: data.percent ? v => percent(v, decimals) : undefined }, named('tradeoff', data.title));
    const feasible = there.filter(p => p.feasible).map(p => `${round(x(p.x))} ${round(y(p.y))}`);
    if (feasible.length) svg.append(path('curve s0', 'M' + feasible.join('L')));
    svg.append(...there.map(p => mark(0, x(p.x), y(p.y), !p.feasible, 5)));
    const nearest = k => there.reduce((best, p) => abs(x(p.x) - box.left - k) < abs(x(best.x) - box.left - k) ? p : best);
    const lines = names.map(name => ({ name, at: k => [fact(nearest(k), name)] }));
    return [svg, plot => { if (there.length) hover(plot, svg, box, k => nearest(k).feasible ? '✓ feasible' : '✗ not feasible', lines, k => Math.round(x(nearest(k).x) - box.left)); }];
  };
  const rows = () => [[data.x_label, data.y_label, 'feasible', ...names], ...data.points.map(p => [p.x, p.y, p.feasible, ...names.map(n => fact(p, n))])];
  return simple('tradeoff', data, rows, draw, key([['filled', 'every constraint satisfied'], ['hollow', 'a constraint is violated']]));
}

// ---- facts, and all together ----

function facts(data) {
  // Hashes and commands are compared letter by letter.
  const exact = v => /^[0-9a-f]{12,}$/i.test(v) || /^thalweg\s/.test(v);
  const part = p => h('div', p.title ? h('h3', p.title) : null,
    h('dl', p.rows.flatMap(([name, value]) => [h('dt', name), h(exact(value) ? 'dd.mono' : 'dd', value)])), p.words.map(words => h('p', words)));
  return { section: h('section', { 'data-kind': 'facts' }, h('div.head', h('h2', data.title)), h('div.parts', data.parts.map(part))), ready: () => {} };
}

const main = document.getElementById('page');
const built = page.sections.map(data => ({ experiment, bounds, groups, scores, tradeoff, facts })[data.kind](data));
main.append(h('header', h('h1', { id: 'title' }, page.title), h('p.lead', { id: 'lead' }, page.lead),
  page.alerts.length ? h('div.alerts', { id: 'alerts', role: 'note' }, h('b', 'Before you believe it'), h('ul', page.alerts.map(words => h('li', words)))) : null),
...built.map(b => b.section));
main.after(h('footer', `Made by thalweg ${page.version}. This file needs nothing else.`));
// Last, because widths are known only when everything is in place.
built.forEach(b => b.ready());
})();
