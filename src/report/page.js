"use strict";
// Draws the page from one JSON document, and again from another: drawPage(data) is all of it. One function a card;
// what is in the data is drawn, what is not is left out, so that a recipe, a plan and a run use the same page. The
// first screen is the answer: a sentence, what can be copied, memory and time, and what would make it faster.
function drawPage(data) {
const own = data.own || null, plan = data.plan || null, run = data.run || null, refused = data.refused || null, diff = data.diff || null;
const tune = data.tune || null, profile = data.profile || null, measured = run || tune || profile;
const GIB = 2 ** 30;
const narrow = matchMedia("(max-width: 760px)").matches;
const place = id => document.getElementById(id);
for (const id of ["head", "nav", "main", "foot"]) place(id).replaceChildren();
repaint.length = 0;

// ---- small things
function el(tag, attrs, ...children) {
  const svg = /^(svg|g|path|rect|line|circle|text|title|polyline)$/.test(tag);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k === "on") for (const [name, f] of Object.entries(v)) e.addEventListener(name, f);
    else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children.flat(9)) if (c !== null && c !== undefined) e.append(c);
  return e;
}
const grouped = n => Math.round(n).toLocaleString("en-US");
const some = (n, one, many) => `${grouped(n)} ${n === 1 ? one : many || one + "s"}`;
function bytesText(b) {
  for (const [u, name] of [[GIB, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]])
    if (Math.abs(b) >= 0.97 * u) return (b / u).toFixed(Math.abs(b) < 100 * u ? 1 : 0) + "\u00a0" + name;
  return grouped(b) + "\u00a0B";
}
// Three digits, as no step is known better.
function seconds(s) {
  const a = Math.abs(s);
  if (a >= 100) return grouped(s) + "\u00a0s";
  if (a >= 1) return s.toPrecision(3) + "\u00a0s";
  if (a >= 1e-3) return (s * 1e3).toPrecision(3) + "\u00a0ms";
  return a === 0 ? "0\u00a0s" : (s * 1e6).toPrecision(3) + "\u00a0µs";
}
const percent = x => x > 0 && x < 5e-4 ? "under 0.1\u00a0%" : (100 * x).toFixed(Math.abs(x) < 0.0995 ? 1 : 0) + "\u00a0%";
const change = x => Math.abs(x) < 5e-4 ? "equal" : (x < 0 ? "−" : "+") + percent(Math.abs(x));
// "132 s a step (111 to 158)", in one unit where that can be read.
function withBand(s, band, of = "") {
  const unit = seconds(s).split("\u00a0")[1];
  const bare = t => t.endsWith("\u00a0" + unit) ? t.split("\u00a0")[0] : t;
  return seconds(s) + of + (band ? ` (${bare(seconds(band.low_s))} to ${bare(seconds(band.high_s))})` : "");
}
// Whole percents that sum to 100.
function shares(list) {
  const sum = list.reduce((a, b) => a + b, 0), exact = list.map(v => sum > 0 ? 100 * v / sum : 0), out = exact.map(Math.floor);
  let left = Math.round(sum > 0 ? 100 - out.reduce((a, b) => a + b, 0) : 0);
  for (const i of exact.map((_, k) => k).sort((a, b) => exact[b] - out[b] - exact[a] + out[a])) if (left-- > 0) out[i]++;
  return out;
}
function median(list) {
  const a = [...list].sort((x, y) => x - y), n = a.length;
  return n ? (a[(n - 1) >> 1] + a[n >> 1]) / 2 : 0;
}
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const tint = (name, k) => `color-mix(in srgb, var(--${name}) ${[100, 55, 80, 40, 90, 30, 66][k % 7]}%, var(--pale))`;
const code = t => el("code", {}, t);
// A card can be folded. On a phone only the first ones stand open; paper has none of the pictures, and all tables.
const cards = [], folded = new Set(["knobs"]);
const open = narrow ? new Set(["rules", "parts", "rows", "loss", "beside", "schedule"]) : null;
function card(id, title, ...children) {
  const body = el("details", { open: !folded.has(id) && (!open || open.has(id)) },
    el("summary", {}, el("h2", { id: id + "-h" }, title)), children);
  const c = el("section", { class: "card", id, "aria-labelledby": id + "-h" }, body);
  place("main").append(c);
  cards.push([id, title]);
  return c;
}
// rows: arrays of cells; a cell is text, a node, or {n: text} for numbers
function table(heads, rows, attrs) {
  const cell = (c, i) => {
    const number = c !== null && typeof c === "object" && !(c instanceof Node) && "n" in c;
    return el("td", { class: number ? "n" : null, "data-label": heads[i].n || heads[i] }, number ? c.n : c);
  };
  return el("div", { class: "scroll", tabindex: attrs && attrs.stack ? null : 0, role: attrs && attrs.stack ? null : "region",
    "aria-label": attrs && !attrs.stack ? attrs.caption : null }, el("table", { class: attrs && attrs.stack ? "stack" : null },
    attrs && attrs.caption ? el("caption", { class: "hide" }, attrs.caption) : null,
    el("thead", {}, el("tr", {}, heads.map(h =>
      el("th", { scope: "col", class: h.n ? "n" : null }, h.n || h)))),
    el("tbody", {}, rows.map(r => el("tr", { class: r.cls, id: r.id }, r.map(cell))))));
}
const legend = items => el("ul", { class: "legend" }, items.map(([c, text, dash]) =>
  el("li", {}, el("i", { class: dash ? "dash" : null, style: dash ? `border-color:${c}` : `background:${c}` }), text)));

// A canvas as wide as its card, drawn again when the width or the colours change.
function canvas(height, label, draw, attrs) {
  const c = el("canvas", { role: "img", "aria-label": label, ...attrs });
  const paint = () => {
    const w = c.clientWidth, h = typeof height === "function" ? height(w) : height, r = window.devicePixelRatio || 1;
    if (!w) return;
    c.style.height = h + "px";
    c.width = Math.round(w * r);
    c.height = Math.round(h * r);
    const g = c.getContext("2d");
    g.setTransform(r, 0, 0, r, 0, 0);
    draw(g, w, h);
  };
  let width = 0;
  const resized = () => { if (c.clientWidth !== width) { width = c.clientWidth; paint(); } };
  new ResizeObserver(() => requestAnimationFrame(resized)).observe(c);
  repaint.push(paint);
  c.paint = paint;
  return c;
}

// The same for SVG: `build(width)` gives its children, in units of pixels.
function chart(height, attrs, build) {
  const c = el("svg", { ...attrs, height, style: `height:${height}px` });
  let width = 0;
  const resized = () => {
    if (!c.clientWidth || c.clientWidth === width) return;
    width = c.clientWidth;
    c.setAttribute("viewBox", `0 0 ${width} ${height}`);
    c.replaceChildren(...build(width).flat(9).filter(Boolean));
  };
  new ResizeObserver(() => requestAnimationFrame(resized)).observe(c);
  return c;
}

// ---- layouts in words
const sizesShort = b => [`TP ${b.tp}`, b.cp > 1 ? `CP ${b.cp}${b.cp_kind ? ` (${b.cp_kind})` : ""}` : null, b.ep > 1 ? `EP ${b.ep}` : null,
  b.etp > 1 ? `ETP ${b.etp}` : null, `PP ${b.pp}`, b.vpp > 1 ? `VPP ${b.vpp}` : null, b.dp > 1 ? `DP ${b.dp}` : null].filter(Boolean).join(", ");
const sizesText = b => `${sizesShort(b)}, microbatch ${b.micro_batch_size}`;
const recomputeText = r => !r || r === "-" ? "none" : r;
const knobOf = key => own ? (own.knobs.find(k => k[0] === key) || [])[1] : undefined;
const backends = { deepep: "DeepEP", hybridep: "HybridEP" };
function restText(b) {
  const overlap = { shared: "shared expert", wgrad: "expert wgrad with dispatch", ep: "EP", "ep+delay": "EP, delayed wgrad" };
  const list = b.ep > 1 ? ["dispatcher " + b.dispatcher] : [];
  if (b.beside && b.beside !== "-") list.push("overlap: " + (overlap[b.beside] || b.beside));
  list.push(recomputeText(b.recompute) === "none" ? "no recompute" : "recompute " + b.recompute);
  if (b.offload > 0) list.push(Math.round(100 * b.offload) + " % of the optimizer on the host");
  if (b.graphs && b.graphs !== "none") list.push("CUDA graphs " + b.graphs);
  if (b.tp_overlap) list.push("TP overlap");
  return list.join(", ");
}
const axisOf = (grid, name) => own.layout[grid].find(a => a.name === name) || { name, size: 1, stride: 1 };
function ownSizes() {
  const size = (grid, n) => axisOf(grid, n).size;
  return sizesShort({ tp: size("dense", "TP"), cp: size("dense", "CP"), ep: size("expert", "EP"), etp: size("expert", "EP") > 1 ? size("expert", "ETP") : 1,
    pp: size("dense", "PP"), vpp: own.layout.vpp, dp: size("dense", "DP") });
}

// ---- the first screen: one sentence by kind
const errors = own || refused ? (own || refused).violations.filter(v => v.severity === "error") : [];
const room = own ? own.memory.usable_bytes - own.memory.peak_bytes : 0;
const subject = own || plan || refused || diff.a;
const modelName = own || refused ? subject.model.name : plan && plan.model || "";
const cpu = subject.gpu === "cpu", each = cpu ? "rank" : "GPU";
const machine = plan ? `${grouped(plan.gpus)} x ${plan.gpu}` : own ? `${grouped(own.layout.world)} x ${own.gpu}` : subject.gpus ? `${grouped(subject.gpus)} x ${subject.gpu}` : "";
const roomText = () => own.price.fits ? `fits with ${bytesText(room)} free`
  : `does not fit: it needs ${bytesText(own.memory.peak_bytes)}, ${bytesText(-room)} more than can be used`;
const upper = t => t[0].toUpperCase() + t.slice(1);
function ofPlan() {
  const best = plan.best[0];
  if (best) {
    const free = plan.usable_bytes - best.peak_bytes, others = plan.best.slice(1), ties = others.filter(r => r.tie).length;
    const c = plan.claim, backend = backends[knobOf("model.moe_flex_dispatcher_backend")];
    const lines = [upper(`${restText(backend && best.dispatcher === "flex" ? { ...best, dispatcher: backend } : best)}, microbatch ${best.micro_batch_size}.`)];
    const why = best.before && best.before.replaceAll("`", "") || (others.every(r => r.step_s >= best.step_s) ? "it is the fastest" : null);
    if (ties) lines.push(`${ties === others.length ? `All ${grouped(ties)} other rows` : `${grouped(ties)} of ${grouped(others.length)} other rows`} are ties: the price cannot tell them apart` +
      (why ? `; this one is first because ${why}.` : "."));
    if (c) lines.push(`The fastest published run like it reaches ${c.tokens_per_s_per_gpu} tokens/s/GPU (${c.id}); with its routing this plan has ` +
      `${c.ratio.toFixed(2)} times that${c.price_error === null || c.price_error === undefined ? "" : `, and that run itself is priced ${percent(Math.abs(c.price_error))} too ${c.price_error > 0 ? "fast" : "slow"}`}.`);
    return { good: true, text: `Use ${sizesShort(best)}: ${withBand(best.step_s, best.band, " a step")}, fits with ${bytesText(free)} free`, lines,
      next: "moefold check best.yaml --all-ranks", before: "save the recipe as best.yaml, then" };
  }
  const enough = plan.fewest && plan.fewest.gpus || plan.fewest_gpus, seq = plan.seq_length ? ` --seq ${plan.seq_length}` : "", miss = plan.miss;
  const lines = [], broken = (plan.violations || []).length;
  if (miss) lines.push(`The nearest: ${sizesText(miss)}; ${restText(miss)}.`);
  return { good: false, lines, text: miss ? `Nothing fits on ${machine}: the nearest layout needs ${bytesText(miss.peak_bytes)}, and ${bytesText(plan.usable_bytes)} can be used` +
      (enough ? `; ${grouped(enough)} GPUs are the smallest cluster that is enough` : "") : `No layout on ${machine}: ${broken ? `every one breaks ${some(broken, "rule")}` : plan.why_not || "nothing fits on these GPUs"}`,
    next: !modelName || broken ? null : `moefold plan ${modelName} --gpus ${enough || plan.gpus}x${plan.gpu}${seq}${enough ? "" : " --more"}`,
    before: enough ? null : "look for the smallest cluster that is enough" };
}
function ofRecipe() {
  const p = own.price, best = (own.best || [])[0], gain = best ? 1 - best.step_s / p.step_s : 0;
  const drop = knobOf("model.recompute_modules"), all = knobOf("model.recompute_granularity") === "full", how = knobOf("model.moe_token_dispatcher_type");
  const lines = [[ownSizes(), `microbatch ${knobOf("train.micro_batch_size")}`,
    axisOf("expert", "EP").size > 1 && how ? "dispatcher " + (how === "flex" ? backends[knobOf("model.moe_flex_dispatcher_backend")] || how : how) : null,
    all ? "full recompute" : drop && drop !== "null" && drop !== "[]" ? "recompute " + drop.replace(/[[\]" ]/g, "").replaceAll(",", "+") : "no recompute"].filter(Boolean).join(", ") + "."];
  const fix = `moefold check ${own.words} --fix`;
  if (errors.length) return { good: false, text: `Breaks ${some(errors.length, "rule")}: ${errors[0].message}${p.fits ? "" : `; it ${roomText()}`}`,
    lines, next: fix };
  if (!p.fits) return { good: false, text: upper(roomText()) + (best ? `; a searched layout fits, at ${seconds(best.step_s)} a step` : ""),
    lines, next: best ? `moefold plan --against ${own.words}` : fix };
  const faster = gain > 5e-4, within = p.change_band && gain < p.change_band;
  if (faster) lines.push(`The searched layout: ${sizesText(best)}; ${restText(best)}.` + (within ? ` Less than ${percent(p.change_band)} is within the uncertainty of a difference.` : ""));
  return { good: true, lines, text: `Fits with ${bytesText(room)} free, at ${withBand(p.step_s, p.band, " a step")}` +
      (faster ? `; a searched layout is ${percent(gain)} faster` : best ? "; no searched layout is faster" : ""),
    next: faster && !within ? `moefold plan --against ${own.words}` : `moefold check ${own.words} --all-ranks` };
}
function ofRefused() {
  const fix = refused.fix.join(" "), few = refused.fix.length;
  return { good: false, text: errors.length ? `No program can be built: it breaks ${some(errors.length, "rule")}` +
      (few ? `; ${some(few, "changed knob")} would repair ${errors.length === 1 ? "it" : "all of them"}` : "") : refused.why_not,
    lines: fix ? [["The repair: ", code(fix), ". Each was applied and checked."]] : [], before: fix ? "with the repair" : null,
    next: fix ? `moefold check ${refused.words} ${fix}` : `moefold check ${refused.words} --fix` };
}
// Two recipes, runs or profiles: what was measured of both, else what is predicted.
const ends = diff ? ["a", "b"].map(k => {
  const e = diff[k], m = diff.measured && diff.measured.a && diff.measured.b ? diff.measured[k] : null;
  return { letter: k.toUpperCase(), name: m ? m.run : e.recipe || e.file, step_s: m ? m.median_s : e.step_s, bytes: m && m.planned_bytes || e.peak_bytes || 0, m, e };
}) : [];
const ofBoth = diff ? ends[0].m ? diff.measured : diff : null;
const partsOf = k => Object.entries(ofBoth.parts || {}).map(([name, v]) => ({ name, title: data.titles[name] || name, seconds: v[k] }));
function ofDiff() {
  const [a, b] = ends, by = ofBoth.change === undefined ? diff.time : ofBoth.change, lines = ends.map(x => `${x.letter} is ${x.name}${x.m ? `: ${grouped(x.m.steps)} steps, ` +
    `four in five between ${seconds(x.m.low_s)} and ${seconds(x.m.high_s)}` : ""}.`);
  const without = ends.find(x => !(x.step_s > 0));
  if (without) return { good: false, text: `${without.letter} has no step to compare: ${without.e.why_not || without.name}`, lines };
  const grown = b.bytes - a.bytes, most = partsOf("a").map((p, i) => [p.title, partsOf("b")[i].seconds - p.seconds]).sort((x, y) => by > 0 ? y[1] - x[1] : x[1] - y[1])[0];
  const size = Math.abs(by) >= 1 ? `${(by + 1).toFixed(1)} times as slow as` : `${percent(Math.abs(by))} ${by > 0 ? "slower" : "faster"} than`;
  const memory = a.bytes && b.bytes && Math.abs(grown) > 0.01 * a.bytes ? `, with ${bytesText(Math.abs(grown))} ${grown > 0 ? "more" : "less"} memory` : "";
  if (ofBoth.band) lines.push(`Runs like these differ by up to ${percent(ofBoth.band)} for noise alone.`);
  if (most && Math.abs(most[1]) > 0.005 * a.step_s && !ofBoth.noise) lines.push(`The most of it is ${most[0]}: ${most[1] > 0 ? "+" : "−"}${seconds(Math.abs(most[1]))}.`);
  return { good: null, lines, text: (ofBoth.noise ? "No difference beyond noise: B takes" : Math.abs(by) < 5e-4 ? "A and B take the same time: B takes" : `B is ${size} A:`) +
    ` ${seconds(b.step_s)} a step, A ${seconds(a.step_s)}${memory}`,
    next: a.m ? `moefold trace ${a.name}/trace.json.gz ${b.name}/trace.json.gz` : a.e.recipe ? `moefold plan --against ${by < 0 ? b.name : a.name}` : null };
}
function difference() {
  if (!diff) return;
  const signed = (v, show) => v === 0 ? "equal" : (v > 0 ? "+" : "−") + show(Math.abs(v)), two = (map, show, title) => Object.entries(map).filter(([, v]) => v.a !== v.b || v.a > 0)
    .sort(([, x], [, y]) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a)).map(([n, v]) => [title(n), { n: show(v.a) }, { n: show(v.b) }, { n: signed(v.b - v.a, show) }]);
  const heads = what => [what, { n: "A" }, { n: "B" }, { n: "B less A" }];
  if (ofBoth.parts) card("parts", "Time of a step, by kind", el("p", { class: "soft" }, ends[0].m ? "Measured, in the traced steps." : "Predicted."),
    table(heads("Kind"), two(ofBoth.parts, seconds, n => data.titles[n] || n), { caption: "Time by kind", stack: true }));
  const rows = diff.measured && diff.measured.operations || [];
  if (rows.length) card("operations", "Operations that differ", el("p", { class: "soft" }, "By more than they vary from step to step."),
    table(heads("Operation").concat([{ n: "Noise" }]), rows.map(r => [`${r.name}${r.phase ? " in " + r.phase : ""}${r.what === "wait" ? ", waiting" : ""} (${r.kind})`, { n: seconds(r.seconds[0]) },
      { n: seconds(r.seconds[1]) }, { n: signed(r.difference_s, seconds) }, { n: seconds(r.noise_s) }]), { caption: "Operations", stack: true }));
  const list = (diff.changes || []).filter(c => Math.abs(c.seconds) > 5e-4 * ends[0].step_s || Math.abs(c.bytes) > 0);
  if (list.length) card("changes", "What each change does", el("p", { class: "soft" }, "Predicted, one after the other from A to B: they add up to the difference."),
    table(["Change", { n: "Time" }, { n: "Memory" }, { n: "Step after it" }], list.map(c => [el("span", {}, c.names, el("br"), code(c.change)), { n: signed(c.seconds, seconds) },
      { n: signed(c.bytes, bytesText) }, { n: seconds(c.step_s) }]), { caption: "Changes", stack: true }));
  if (diff.regions) card("memory", "Memory of the fullest rank, by region", table(heads("Region"), two(diff.regions, bytesText, n => n.replaceAll("_", " ")), { caption: "Memory by region", stack: true }));
  if (diff.knobs && diff.knobs.length) card("settings", `${some(diff.knobs.length, "knob")} ${diff.knobs.length === 1 ? "differs" : "differ"}`, table(["Knob", "A", "B", "Set or not"], diff.knobs.map(k =>
    [code(k.key), code(JSON.stringify(k.a)), code(JSON.stringify(k.b)), k.follows ? "follows from others" : "set"]), { caption: "Knobs that differ", stack: true }));
}
function ofRun() {
  const s = run.summary, last = run.lines[run.lines.length - 1], first = run.lines.find(l => l[1] !== null), step = median(run.steps), p = own && own.price;
  const end = [...run.lines].reverse().find(l => l[1] !== null), asked = s && s.iterations, lines = [], delay = s && s.delay_s || 0;
  const loss = first && end ? `Loss ${first[1].toPrecision(3)} to ${end[1].toPrecision(3)} in ${some(last[0], "step")}` : `${some(last[0], "step")}, none with a loss`;
  const ratio = step && p && p.step_s > 0 ? step / p.step_s : 0;
  let compared = "";
  if (ratio) {
    const m = s && s.measured, q = s && s.predicted, more = m && q ? m.parts.map(x => [x.title, x.seconds - ((q.parts.find(y => y.name === x.name) || {}).seconds || 0)])
      .sort((a, b) => b[1] - a[1])[0] : null;
    const busy = delay > 0.25 * Math.max(0, step - p.step_s) && delay > 0.05 * step;
    compared = ratio > 1.15 ? `; ${ratio < 1.995 ? percent(ratio - 1) + " slower" : ratio.toFixed(1) + " times slower"} than predicted` +
      (busy ? ": other programs had the cores" : more && more[1] > 0 ? `, the most in ${more[0]}` : "")
      : ratio < 0.87 ? `; ${percent(1 - ratio)} faster than predicted` : `; ${seconds(step)} a step, as predicted (${change(ratio - 1)})`;
    lines.push(`${seconds(step)} a step measured (median of ${grouped(run.steps.length)}), ${withBand(p.step_s, p.band)} predicted for ${own.gpu}.` +
      (delay > 0.01 * step ? ` Other programs had the cores for ${seconds(delay)} of a step` + (busy ? ", so the two cannot be compared." : ".") : ""));
  }
  const state = !s ? "Not finished: " : s.outcome === "finished" ? "" : `${upper(s.outcome)}${asked ? ` at step ${grouped(last[0])} of ${grouped(asked)}` : ""}: `;
  if (s && s.error) lines.unshift(s.error);
  if (s) lines.push(`${some(s.ranks, "rank")} on ${s.machine || "an unnamed machine"}.`);
  return { good: s ? s.outcome === "finished" : null, text: state ? state + loss[0].toLowerCase() + loss.slice(1) + compared : loss + compared, lines,
    next: state ? null : own && own.gpu === "cpu" ? "moefold plan deepseek-v3 --gpus 256xH100 --seq 128K" : own ? `moefold plan --against ${own.words}` : null };
}

// Copies text. Where the clipboard is denied an old way is tried, and then the text is shown, selected.
function copier(label, what, text) {
  const b = el("button", { type: "button", class: "copy", on: { click: async () => {
    let done = false;
    try { await navigator.clipboard.writeText(text); done = true; } catch { done = false; }
    const area = el("textarea", { readonly: true, rows: 6, "aria-label": what });
    area.value = text;
    if (!done) {
      place("copied").replaceChildren(area);
      area.select();
      try { done = document.execCommand("copy"); } catch { done = false; }
      b.focus();
    }
    const lines = text.trim().split("\n").length;
    if (done) place("copied").replaceChildren(`Copied ${what} (${some(lines, "line")}).`);
    else { place("copied").replaceChildren(`The clipboard is denied: here is ${what}, selected for you to copy.`, area); area.focus(); area.select(); }
  } } }, label);
  return b;
}

const WHAT = [["compute", "compute"], ["communication", "communication"], ["waiting", "waiting"]];
function bar(label, segments, extra, wide = 1) {
  const sum = segments.reduce((n, x) => n + x.part, 0);
  return el("div", { class: "stackbar", role: "img", "aria-label": label, style: wide < 1 ? `width:${(100 * wide).toFixed(2)}%` : null }, segments.filter(x => x.part > 0).map(x =>
    el("span", { class: "seg " + (x.cls || ""), style: `flex:${(1e4 * x.part / sum).toFixed(2)} 1 0px;${x.fill ? `background-color:${x.fill}` : ""}`, title: x.title },
      el("span", { class: "segtext", "aria-hidden": "true" }, x.label ? x.label.map(t => el("span", {}, t)) : x.title))), extra || null);
}
// Time: what computes, what waits for communication, what waits. `parts`: name, title, what or not, seconds.
function timeBar(name, parts, step, longest = step) {
  const known = new Map((own ? own.parts : []).map(p => [p.name, p.what]));
  const what = p => p.what || known.get(p.name) || (/messages|copies/.test(p.name) ? "communication" : /wait|host|bubble|rest/.test(p.name) ? "waiting" : "compute");
  const list = parts.filter(p => p.seconds > 0), share = shares(list.map(p => p.seconds));
  const groups = WHAT.map(([w]) => ({ w, parts: list.map((p, i) => ({ ...p, share: share[i] })).filter(p => what(p) === w).sort((a, b) => b.seconds - a.seconds) }))
    .map(g => ({ ...g, share: g.parts.reduce((n, p) => n + p.share, 0) })).filter(g => g.parts.length);
  const short = t => t.replace("expert GEMM (grouped)", "expert GEMM").replace(" communication", "").replace("compute slowed by hidden transfers", "slowed by hidden transfers");
  return el("div", { class: "barbox" }, el("h3", {}, name, el("b", {}, seconds(step))),
    bar(`${name}: ` + groups.map(g => `${g.w} ${g.share} %`).join(", "), groups.flatMap(g => g.parts.map((p, k) =>
      ({ part: p.seconds, cls: g.w, fill: tint(g.w === "communication" ? "comm" : g.w === "waiting" ? "wait" : "compute", k), title: `${p.title}: ${seconds(p.seconds)}`, label: [short(p.title), p.share + " %"] }))), null, step / longest),
    el("dl", { class: "barlist" }, groups.map(g => [el("dt", {}, el("i", { class: "seg " + g.w }), `${g.w} ${g.share || "under 1"} %`),
      el("dd", {}, g.parts.filter(p => p.share > 0).map(p => `${short(p.title)} ${p.share}`).join(", ") || g.parts.map(p => short(p.title)).slice(0, 2).join(", "))])));
}
// Memory of the fullest rank: what sums to the peak, what is free, and the line of what can be used.
const MEMORY = [["weights", /^weight/], ["gradients", /^gradients|^dummy/], ["optimizer", /^optimizer/], ["activations", /^activations|^saved|^logits/],
  ["buffers", /^workspaces|^batch|^pipeline|^boundary|^step|^temporaries|^state|^graphs/], ["unused", /^unused/], ["libraries", /^outside/]];
const memoryNames = { activations: "activations, logits", buffers: "buffers, temporaries", unused: "held by the allocator", libraries: "libraries outside" };
function memoryGroups(regions) {
  const rest = [...regions], take = test => rest.filter(r => test.test(r.name)).reduce((n, r) => { rest.splice(rest.indexOf(r), 1); return n + r.bytes; }, 0);
  const groups = MEMORY.map(([name, test], k) => ({ name, title: memoryNames[name] || name, bytes: take(test), fill: tint("memory", k) }));
  return groups.concat([{ name: "other", title: "other", bytes: take(/^/), fill: tint("memory", 1) }]).filter(g => g.bytes > 0);
}
function memoryBar() {
  const m = own.memory, shown = memoryGroups(m.regions);
  const far = m.peak_bytes < 0.1 * m.usable_bytes, all = far ? m.peak_bytes : Math.max(m.peak_bytes, m.usable_bytes);
  const free = all - m.peak_bytes, at = 100 * m.usable_bytes / all;
  return el("div", { class: "barbox" }, el("h3", {}, "Memory of the fullest rank", el("b", {}, `${bytesText(m.peak_bytes)} of ${bytesText(m.usable_bytes)} usable`)),
    bar("Memory: " + shown.map(g => `${g.title} ${bytesText(g.bytes)}`).join(", ") + `; together ${bytesText(m.peak_bytes)} of ${bytesText(m.usable_bytes)} usable`,
      shown.map(g => ({ part: g.bytes, fill: g.fill, title: `${g.title}: ${bytesText(g.bytes)}`, label: [g.name, bytesText(g.bytes)] }))
        .concat(free > 0 ? [{ part: free, cls: "free", title: `free: ${bytesText(free)}`, label: ["free", bytesText(free)] }] : []),
      far ? null : el("span", { class: "usable" + (m.peak_bytes > m.usable_bytes ? " over" : ""), style: `left:${at.toFixed(2)}%`, title: `usable: ${bytesText(m.usable_bytes)}` })),
    el("p", { class: "keys" }, shown.map(g => el("span", { class: "key" }, el("i", { style: `background-color:${g.fill}` }), `${g.title} ${bytesText(g.bytes)}`)),
      far ? null : el("span", { class: "key" }, el("i", { class: "line" + (m.peak_bytes > m.usable_bytes ? " over" : "") }), `usable ${bytesText(m.usable_bytes)}`)));
}
// What makes it faster, fits, and gains more than the price may be wrong about.
function worthChanging() {
  if (!own || !own.changes || !own.changes.length) return null;
  const sure = own.price.change_band || 0.01, fits = own.changes.filter(c => c.fits && c.gain > 1e-3), best = fits.filter(c => c.gain > sure).slice(0, 3);
  if (!own.price.fits) {
    const makes = own.changes.filter(c => c.fits).sort((a, b) => a.step_s - b.step_s).slice(0, 3);
    return makes.length ? el("div", {}, el("h3", {}, "Makes it fit"), el("ul", { class: "todo" }, makes.map(c =>
      el("li", {}, code(c.change), ` ${seconds(c.step_s)} a step, ${bytesText(own.memory.usable_bytes - c.peak_bytes)} free`)))) : null;
  }
  if (best.length) return el("div", {}, el("h3", {}, "Worth changing"), el("ul", { class: "todo" }, best.map(c =>
    el("li", {}, code(c.change), ` ${change(c.gain)} tokens/s, ${bytesText(own.memory.usable_bytes - c.peak_bytes)} free`))));
  return el("p", { class: "soft" }, `No single change that fits gains more than the uncertainty of a difference (${percent(sure)}).`,
    fits.length ? [" The largest: ", code(fits[0].change), `, ${change(fits[0].gain)}.`] : null);
}
function head() {
  const said = plan ? ofPlan() : run ? ofRun() : tune ? ofTune() : profile ? ofProfile() : own ? ofRecipe() : refused ? ofRefused() : ofDiff(), p = own && own.price, box = place("head");
  const seq = plan ? plan.seq_length : diff ? null : subject.model.seq_length, gbs = plan ? plan.global_batch_size : own && own.global_batch_size;
  const kind = plan ? "Plan" : diff ? "Comparison" : run ? "Run " + run.path : tune ? "Trials in " + tune.told.dir : profile ? "Profile " + profile.file : subject.recipe === modelName ? "Recipe" : subject.recipe;
  const facts = [kind, modelName, machine, seq ? `${grouped(seq)} tokens` : null, gbs ? `global batch ${grouped(gbs)}` : null].filter(Boolean);
  document.title = [modelName, machine, diff ? "A against B" : plan ? "plan" : data.kind].filter(Boolean).join(", ") + " - moefold";
  const c = own && own.copies, notes = own && !measured ? own.violations.filter(v => v.severity !== "error") : [];
  box.append(el("p", { class: "kicker" }, facts.join(" · ")),
    el("h1", { class: said.good === false ? "bad" : said.good ? "good" : null }, diff && said.good !== false ? null : el("span", { class: "sign", "aria-hidden": "true" }, said.good === false ? "✗" : said.good ? "✓" : "…"), said.text + "."));
  for (const l of said.lines) box.append(el("p", { class: "line" }, l));
  if (plan && plan.complete === false && plan.best.length) box.append(el("p", { class: "bad" }, "The search was cut short: this is the best so far."));
  if (p && !measured && said.good) {
    const day = p.tokens_per_s_per_gpu * own.layout.world * 86400;
    const figures = [[p.tokens_per_s_per_gpu < 10 ? p.tokens_per_s_per_gpu.toPrecision(3) : grouped(p.tokens_per_s_per_gpu), "tokens/s a " + each],
      [p.tflops_per_gpu < 10 ? p.tflops_per_gpu.toPrecision(3) : grouped(p.tflops_per_gpu), "TFLOP/s a " + each], [percent(p.mfu_bf16), "MFU of BF16"],
      [day >= 1e12 ? (day / 1e12).toFixed(2) + " T" : day >= 1e9 ? (day / 1e9).toFixed(2) + " B" : (day / 1e6).toFixed(1) + " M", "tokens a day"]];
    box.append(el("ul", { class: "figures" }, figures.map(([v, w]) => el("li", {}, el("b", {}, v), " " + w))));
  }
  if (p && !measured) box.append(el("p", { class: "line" }, el("b", {}, `Bottleneck: ${p.wall}. `), p.evidence + ". All times are predicted.",
    own.estimate ? ` They are estimates: our kernels were not measured on ${own.gpu}.` : ""));
  box.append(el("div", { class: "bar copies" },
    c ? copier("Copy the recipe", "the recipe", c.recipe) : null,
    c && c.megatron ? copier("Copy Megatron-LM's arguments", "the arguments for Megatron-LM", c.megatron) : null,
    said.next ? copier("Copy the next command", "the next command", said.next) : null));
  if (said.next) box.append(el("p", { class: "line next" }, `Next${said.before ? ": " + said.before : ""}: `, code(said.next)));
  box.append(el("p", { class: "info copied", id: "copied", role: "status", "aria-live": "polite" }));
  const m = run && run.summary && run.summary.measured, longest = Math.max(p ? p.step_s : 0, m ? m.step_s : 0);
  if (own) box.append(el("div", { class: "bars" }, memoryBar(), el("div", {},
    m && m.parts.some(x => x.seconds > 0) ? timeBar("Time of a step, measured", m.parts, m.step_s, longest) : null,
    timeBar(measured ? "Time of a step, predicted" : "Time of a step", own.parts, p.step_s, longest))));
  if (diff && ofBoth.parts) box.append(el("div", { class: "bars" }, ends.map((x, i) =>
    timeBar(`Time of a step of ${x.letter}${x.m ? ", measured" : ""}`, partsOf("ab"[i]), x.step_s, Math.max(...ends.map(y => y.step_s))))));
  if (own && !measured) box.append(el("div", {}, worthChanging()));
  const more = notes.map(v => el("li", {}, `${v.severity}: ${v.message}`)).concat((own && !measured ? own.not_priced : []).map(n =>
    el("li", {}, "not priced: ", code(`${n.key}=${n.value}`), ` (the price assumes: ${n.assumed})`)),
    c && c.megatron_why_not ? [el("li", {}, `cannot be written for Megatron-LM: ${c.megatron_why_not}`)] : []);
  if (more.length) box.append(el("details", {}, el("summary", {}, some(more.length, "note")), el("ul", {}, more)));
}

// ---- schedule: stages x time
function unpack(stage, ticks, step) {
  const units = [], a = stage.units;
  let end = 0;
  for (let i = 0; i < a.length;) {
    const start = end + a[i], u = { start: start / ticks * step, end: (start + a[i + 1]) / ticks * step };
    end = start + a[i + 1];
    u.kind = a[i + 2] % 3;
    u.chunk = Math.floor(a[i + 2] / 3);
    u.micro = a[i + 3];
    i += 4;
    if (u.kind === 2) { u.withChunk = a[i]; u.withMicro = a[i + 1]; i += 2; }
    units.push(u);
  }
  return units;
}
function schedule(s, id, title, about) {
  const step = s.step_s, stages = s.stages.map(x => unpack(x, s.ticks, step));
  const rowH = stages.length > 24 ? 16 : 26, top = 6, axis = 38, left = 64;
  // The start of the step: until the last stage is at work, in units that can be read.
  const lengths = stages.flatMap(u => u.slice(0, 40)).map(u => u.end - u.start), unit = median(lengths) || step;
  const filled = Math.max(0, ...stages.map(u => u.length ? u[0].start : 0));
  const start = Math.min(step, Math.max(Math.min(1.2 * filled, (narrow ? 24 : 80) * unit), (narrow ? 10 : 34) * unit));
  let from = 0, to = start > 0.8 * step ? step : start, picked = null;
  const info = el("p", { class: "info", "aria-live": "polite" }, "Point at a microbatch, or select one.");
  const kinds = ["forward", "backward", "forward and backward, overlapped"];
  const vpp = own.layout.vpp;
  const chunkText = c => vpp > 1 ? `, chunk ${c}` : "";
  const text = (st, u) => `Stage ${st}, ${kinds[u.kind]} of microbatch ${u.micro}${chunkText(u.chunk)}` +
    (u.kind === 2 ? ` with that of ${u.withMicro}${chunkText(u.withChunk)}` : "") +
    `: ${seconds(u.end - u.start)}, from ${seconds(u.start)} on`;
  const x = (t, w) => left + (t - from) / (to - from) * (w - left);
  const hues = () => [css("--compute"), css("--compute2"), css("--compute3"), css("--compute4")];
  function drawUnits(g, w, units, y, hue) {
    let lo = 0, hi = units.length;
    while (lo < hi) { const m = (lo + hi) >> 1; if (units[m].end < from) lo = m + 1; else hi = m; }
    for (let i = lo; i < units.length && units[i].start < to; i++) {
      const u = units[i], a = Math.max(left, x(u.start, w)), b = Math.min(w, x(u.end, w));
      const wide = Math.max(0.6, b - a - (b - a > 3 ? 1 : 0));
      g.fillStyle = hue[u.kind];
      g.fillRect(a, y, wide, rowH - 4);
      if (vpp > 1 && b - a > 3) { // which chunk: a mark at its place along the upper edge
        g.fillStyle = css("--on");
        g.fillRect(a + wide * u.chunk / vpp, y, Math.max(1, wide / vpp), 2);
      }
      if (u.kind > 0 && b - a > 3) { // backwards are told from forwards without colour, too
        g.fillStyle = css("--on");
        g.fillRect(a, y + rowH - 5, wide, 1);
      }
      if (b - a > 22) {
        g.fillStyle = css("--on");
        g.fillText((u.kind === 1 ? "B" : u.kind === 2 ? "FB" : "F") + u.micro, a + 4, y + rowH / 2 + 2, b - a - 6);
      }
    }
  }
  function drawGap(g, w, a, b, y) { // units that are not in the page
    a = Math.max(left, a);
    b = Math.min(w, b);
    if (b <= a) return;
    g.save();
    g.beginPath();
    g.rect(a, y, b - a, rowH - 4);
    g.clip();
    g.fillStyle = css("--empty");
    g.fillRect(a, y, b - a, rowH);
    g.strokeStyle = css("--line");
    for (let k = a - rowH; k < b; k += 9) { g.beginPath(); g.moveTo(k, y + rowH); g.lineTo(k + rowH, y); g.stroke(); }
    g.fillStyle = css("--soft");
    if (b - a > 150) g.fillText("the steady state continues here", a + (b - a) / 2 - 70, y + rowH / 2 + 2);
    g.restore();
  }
  function draw(g, w) {
    const hue = hues(), soft = css("--soft"), h = stages.length * rowH;
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = css("--wait");
    g.fillRect(left, top, w - left, h);
    stages.forEach((units, i) => {
      const y = top + i * rowH + 2, st = s.stages[i];
      drawUnits(g, w, units, y, hue);
      if (st.left_out) drawGap(g, w, x(units[st.left_at - 1].end, w), x(units[st.left_at].start, w), y);
      const o = [s.optimizer_at, s.optimizer_at + s.optimizer_s];
      if (o[1] > from && o[0] < to) {
        g.fillStyle = hue[3];
        g.fillRect(Math.max(left, x(o[0], w)), y, Math.max(0.6, Math.min(w, x(o[1], w)) - Math.max(left, x(o[0], w))), rowH - 4);
      }
      g.fillStyle = soft;
      g.fillText("stage " + i, 2, y + rowH / 2 + 2, left - 8);
    });
    if (picked) {
      g.strokeStyle = css("--select");
      g.lineWidth = 2;
      const a = Math.max(left, x(picked.u.start, w)), b = Math.min(w, x(picked.u.end, w));
      if (b > left && a < w) g.strokeRect(a, top + picked.st * rowH + 1, Math.max(2, b - a), rowH - 2);
    }
    g.fillStyle = soft;
    const n = Math.max(2, Math.floor((w - left) / 120)), unit = niceStep((to - from) / n);
    for (let t = Math.ceil(from / unit) * unit; t <= to; t += unit) {
      const at = x(t, w);
      g.fillRect(at, top + h, 1, 5);
      g.textAlign = at > w - 40 ? "right" : "center";
      g.fillText(seconds(Math.abs(t) < unit / 1e6 ? 0 : t), at, top + h + 18);
    }
    g.textAlign = "left";
    g.fillText("time from the start of the step", left, top + h + 33);
  }
  const left_out = s.stages.reduce((n, st) => n + st.left_out, 0);
  const c = canvas(top + stages.length * rowH + axis,
    `Schedule of a step: ${stages.length} pipeline stages over ${seconds(step)}. Keys: plus and minus zoom, left and ` +
    "right move, zero shows the whole step, up and down choose a stage, n and p its next and previous microbatch.",
    draw, { tabindex: 0 });
  function view(a, b) {
    const least = step / 1e5, width = Math.min(step, Math.max(least, b - a));
    from = Math.max(0, Math.min(step - width, a));
    to = from + width;
    c.paint();
  }
  const zoom = (by, at = (from + to) / 2) => view(at - (at - from) * by, at + (to - at) * by);
  const move = part => view(from + part * (to - from), to + part * (to - from));
  function pick(st, i) {
    st = Math.max(0, Math.min(stages.length - 1, st));
    const units = stages[st];
    if (!units.length) return;
    i = Math.max(0, Math.min(units.length - 1, i));
    picked = { st, i, u: units[i] };
    info.textContent = text(st, units[i]);
    const u = units[i];
    if (u.end < from || u.start > to) view(u.start - (to - from) / 2, u.start + (to - from) / 2);
    else c.paint();
  }
  const near = (units, t) => { let k = 0; while (k < units.length - 1 && units[k].end < t) k++; return k; };
  c.addEventListener("keydown", e => {
    const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => view(0, step),
      ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), Home: () => view(0, to - from),
      End: () => view(step - (to - from), step), n: () => pick(picked ? picked.st : 0, picked ? picked.i + 1 : 0),
      p: () => pick(picked ? picked.st : 0, picked ? picked.i - 1 : 0),
      ArrowDown: () => picked ? pick(picked.st + 1, near(stages[Math.min(stages.length - 1, picked.st + 1)], picked.u.start)) : pick(0, 0),
      ArrowUp: () => picked ? pick(picked.st - 1, near(stages[Math.max(0, picked.st - 1)], picked.u.start)) : pick(0, 0) };
    if (!keys[e.key] || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    keys[e.key]();
  });
  const timeAt = px => from + (px - left) / (c.clientWidth - left) * (to - from);
  const spot = e => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  function at(e) {
    const [px, py] = spot(e), st = Math.floor((py - top) / rowH), t = timeAt(px);
    if (st < 0 || st >= stages.length || px < left) return null;
    const i = near(stages[st], t), u = stages[st][i];
    return u && u.start <= t && t <= u.end ? { st, i } : { st, t };
  }
  const pointers = new Map();
  let drag = null;
  c.addEventListener("pointerdown", e => {
    pointers.set(e.pointerId, spot(e));
    drag = { moved: false, from, to, start: [...pointers.values()].map(p => [...p]) };
  });
  c.addEventListener("pointermove", e => {
    if (!pointers.has(e.pointerId)) {
      const hit = at(e);
      if (hit && hit.i !== undefined) info.textContent = text(hit.st, stages[hit.st][hit.i]);
      else if (hit) info.textContent = `Stage ${hit.st} at ${seconds(hit.t)}: no layer runs (bubble, communication, optimizer)`;
      return;
    }
    pointers.set(e.pointerId, spot(e));
    const now = [...pointers.values()], scale = (drag.to - drag.from) / (c.clientWidth - left);
    if (now.length === 2 && drag.start.length === 2) {
      const was = Math.abs(drag.start[0][0] - drag.start[1][0]) || 1, is = Math.abs(now[0][0] - now[1][0]) || 1;
      const mid = drag.from + ((drag.start[0][0] + drag.start[1][0]) / 2 - left) * scale;
      view(mid - (mid - drag.from) * was / is, mid + (drag.to - mid) * was / is);
      drag.moved = true;
    } else if (Math.abs(now[0][0] - drag.start[0][0]) > 3 || drag.moved) {
      drag.moved = true;
      const by = (drag.start[0][0] - now[0][0]) * scale;
      view(drag.from + by, drag.to + by);
    }
  });
  const up = e => {
    const hit = drag && !drag.moved && e.type === "pointerup" ? at(e) : null;
    pointers.delete(e.pointerId);
    if (hit && hit.i !== undefined) pick(hit.st, hit.i);
  };
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) c.addEventListener(name, up);
  c.addEventListener("wheel", e => {
    if (!e.ctrlKey && document.activeElement !== c) return; // the page scrolls unless the picture was chosen
    e.preventDefault();
    zoom(e.deltaY > 0 ? 1.25 : 0.8, timeAt(spot(e)[0]));
  }, { passive: false });
  const button = (name, label, f) => el("button", { type: "button", "aria-label": label, on: { click: f }, class: "small" }, name);
  card(id, title, about ? el("p", {}, about) : null,
    el("p", { class: "soft" }, (to < step ? "The start of the step. " : "") +
      "Drag to move, pinch or use the wheel (after a click) to zoom; keys: + - 0, arrows, n and p."),
    el("div", { class: "bar" }, button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
      button("◀", "Earlier", () => move(-0.3)), button("▶", "Later", () => move(0.3)),
      button("Start", "Show the start", () => view(0, start)),
      button("Whole step", "Show the whole step", () => view(0, step))),
    c, info,
    legend([["var(--compute)", "F: forward"], ["var(--compute2)", "B: backward"]].concat(
      stages.some(u => u.some(x => x.kind === 2)) ? [["var(--compute3)", "FB: both, overlapped"]] : [],
      [["var(--compute4)", "optimizer"], ["var(--wait)", "waiting, exposed communication between stages"]])),
    vpp > 1 ? el("p", { class: "soft" }, `A mark on the upper edge says which of the stage's ${vpp} chunks of layers it is.`) : null,
    left_out ? el("p", { class: "soft" }, `${grouped(left_out)} units in the middle of the step are not drawn: the steady state repeats.`) : null,
    el("details", {}, el("summary", {}, "The stages as a table"), stageTable(stages, s)));
}
function niceStep(x) {
  const p = 10 ** Math.floor(Math.log10(x));
  for (const m of [1, 2, 5, 10]) if (m * p >= x) return m * p;
  return 10 * p;
}
function holds(x) {
  const last = x.first_layer + x.layers - 1;
  return [x.embedding ? "embedding" : null, x.layers ? x.layers > 1 ? `layers ${x.first_layer} to ${last}` : `layer ${last}` : null,
    x.mtp ? "prediction module" : null, x.loss ? "head and loss" : null].filter(Boolean).join(", ") || "no layer";
}
function stageTable(stages, s) {
  const layers = st => own.stages.filter(x => x.pp === st).map(holds).join("; ");
  return table(["Stage", { n: "First rank" }, { n: "In layers" }, { n: "Of the step" }, "Holds"], stages.map((units, i) => {
    const busy = units.reduce((n, u) => n + u.end - u.start, 0), all = s.stages[i].left_out === 0;
    return [String(i), { n: String(s.stages[i].rank) }, { n: all ? seconds(busy) : "-" },
      { n: all ? percent(busy / s.step_s) : "-" }, layers(i)];
  }), { caption: "Pipeline stages", stack: true });
}

// ---- time
function times() {
  const parts = own.parts.filter(p => p.seconds > 0 || p.hidden > 0), step = own.price.step_s;
  const sorted = WHAT.flatMap(([w]) => parts.filter(p => p.what === w).sort((a, b) => b.seconds - a.seconds));
  card("time", "Time of a step, by kind",
    el("p", { class: "soft" }, `Predicted, on pipeline rank ${own.price.slowest}, which computes the most. The rows add up to the step; what is hidden is not in it.`),
    table(["Kind", "Counts as", { n: "Time" }, { n: "Of the step" }, { n: "Hidden" }], sorted.map(p => [
      p.title + (p.what === "communication" ? ", exposed" : ""), el("span", { class: "tag " + p.what }, p.what),
      { n: seconds(p.seconds) }, { n: percent(p.seconds / step) }, { n: p.hidden > 0 ? seconds(p.hidden) : "" }])
      .concat([["Step", "", { n: seconds(step) }, { n: "100 %" }, { n: "" }]]), { caption: "Time by kind", stack: true }));
}

// ---- memory over the step
// What lies there for the whole step, what comes and goes in equal parts of it, and lines across.
function memoryPicture(id, title, text, v) {
  const H = 310, L = 62, B = 40, T = 8, n = v.saved.length, drawn = v.lines.filter(l => !l.above);
  const layers = memoryGroups(v.fixed).map(r => ({ title: r.title, fill: r.fill, at: () => r.bytes }))
    .concat([{ title: v.titles.saved, fill: tint("memory", 3), at: i => v.saved[i] }, { title: v.titles.temporaries, fill: tint("memory", 4), at: i => v.temporaries[i] }]);
  let most = 0;
  for (let i = 0; i < n; i++) most = Math.max(most, layers.reduce((sum, l) => sum + l.at(i), 0));
  const top = 1.06 * Math.max(most, ...drawn.map(l => l.bytes));
  function build(W) {
    const x = i => L + (W - L) * i / n, y = b => T + (H - T - B) * (1 - b / top);
    const base = new Array(n).fill(0), areas = [], grid = [];
    const size = top >= 4 * GIB ? GIB : top >= 4 * 2 ** 20 ? 2 ** 20 : 1024, unit = niceStep(top / size / 5) * size;
    layers.forEach((l, k) => {
      let up = "", down = "";
      for (let i = 0; i < n; i++) {
        const low = base[i], high = low + l.at(i);
        up += `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(high).toFixed(1)}L${x(i + 1).toFixed(1)} ${y(high).toFixed(1)}`;
        down = `L${x(i + 1).toFixed(1)} ${y(low).toFixed(1)}L${x(i).toFixed(1)} ${y(low).toFixed(1)}` + down;
        base[i] = high;
      }
      areas.push(el("path", { d: up + down + "Z", fill: l.fill, stroke: "var(--line)", "stroke-width": 0.5 }, el("title", {}, l.title)));
    });
    const lineAt = l => el("line", { x1: L, x2: W, y1: y(l.bytes), y2: y(l.bytes), stroke: l.colour, "stroke-width": 2, "stroke-dasharray": "7 5" });
    for (let b = 0; b <= top; b += unit)
      grid.push(el("line", { x1: L, x2: W, y1: y(b), y2: y(b), stroke: "var(--grid)" }),
        el("text", { x: L - 6, y: y(b) + 4, "text-anchor": "end" }, +(b / size).toPrecision(4) + (size === GIB ? " GiB" : size === 1024 ? " KiB" : " MiB")));
    const cuts = W < 480 ? 2 : 4;
    for (let i = 0; i <= cuts; i++)
      grid.push(el("text", { x: x(n * i / cuts), y: H - 22, "text-anchor": i === cuts ? "end" : i ? "middle" : "start" }, seconds(v.step * i / cuts)));
    grid.push(el("text", { x: W, y: H - 4, "text-anchor": "end" }, "time of the step"));
    return [grid, areas, drawn.map(lineAt)];
  }
  const said = v.lines.map(l => `${l.title} ${bytesText(l.bytes)}`);
  card(id, title, el("p", { class: "soft" }, text),
    chart(H, { role: "img", "aria-label": `Memory of rank ${v.rank} over the step: at most ${bytesText(most)} alive, ${said.join(", ")}` }, build),
    legend(layers.map(l => [l.fill, l.title]).concat(v.lines.map((l, i) => [l.colour, said[i] + (l.above ? ", above the picture" : ""), 1]))),
    v.after);
}
const alwaysThere = ["weights", "gradients", "optimizer", "boundary", "step"];
function memory() {
  const m = own.memory, fixed = m.regions.filter(r => !r.moves && r.bytes > 0);
  memoryPicture("memory", run ? "Memory over the step, predicted" : "Memory over the step",
    `Rank ${m.rank}, the fullest (stage ${m.stage}); the most memory that is live at each moment. ` +
      "Planned memory is allocated for the whole step; it is higher if activations and temporaries peak at different times.",
    { rank: m.rank, step: own.schedule.step_s, fixed, saved: m.saved, temporaries: m.temporaries,
      titles: { saved: "activations", temporaries: "temporaries and workspace" },
      lines: [{ colour: "var(--mark)", title: "planned", bytes: m.peak_bytes },
        { colour: "var(--bad)", title: "usable", bytes: m.usable_bytes, above: m.peak_bytes < 0.25 * m.usable_bytes }], // else it would hide all else
      after: table(["Region", { n: "Planned" }, { n: "Of usable" }], m.regions.filter(r => r.bytes > 0).map(r =>
        [r.title, { n: bytesText(r.bytes) }, { n: percent(r.bytes / m.usable_bytes) }])
        .concat([["all of these: planned", { n: bytesText(m.peak_bytes) }, { n: percent(m.peak_bytes / m.usable_bytes) }]])
        .concat(m.on_host > 0 ? [["activations on the host", { n: bytesText(m.on_host) }, { n: "" }]] : []), { caption: "Planned memory by region" }) });
}
// Of a run: what was alive by the stamps of its last traced step, and what the system counted.
function memoryMeasured() {
  const s = run.summary && run.summary.memory, o = s && s.over_step, p = s && s.process;
  if (!o || !s.regions) return;
  const titled = Object.fromEntries((own ? own.memory.regions : []).map(r => [r.name, r.title])), title = n => titled[n] || n;
  const fixed = alwaysThere.filter(n => s.regions[n] > 0).map(n => ({ name: n, title: title(n), bytes: s.regions[n] }));
  const lines = [{ colour: "var(--mark)", title: grownText(s) ? "allocated after routed buffers grew" : "planned", bytes: allocated(s) }];
  if (grownText(s)) lines.push({ colour: "var(--soft)", title: "planned", bytes: s.planned_bytes });
  const counted = [];
  if (p && p.first_step_bytes > 0) {
    const grown = p.first_step_bytes - p.before_bytes;
    if (p.ranks === 1 && !(s.beside_bytes >= 0)) lines.push({ colour: "var(--bad)", title: "in use, as the system counts it", bytes: grown });
    counted.push(["before the program was built", { n: bytesText(p.before_bytes) }, { n: "" }],
      ["after the first step", { n: bytesText(p.first_step_bytes) }, { n: "+" + bytesText(grown) }],
      ["after the last step", { n: bytesText(p.last_step_bytes) }, { n: (p.last_step_bytes < p.first_step_bytes ? "−" : "+") + bytesText(Math.abs(p.last_step_bytes - p.first_step_bytes)) }],
      ["peak", { n: bytesText(s.resident_bytes) }, { n: "" }]);
  }
  memoryPicture("memory-measured", "Memory over the step, measured",
    `Rank ${s.rank}, the fullest, in its last traced step: bytes are from its program, times are measured. ` +
      "Planned memory was allocated for the whole step; the system also counts the program, libraries, data and communication buffers." +
      (p && p.ranks > 1 ? ` Its process holds all ${grouped(p.ranks)} ranks.` : ""),
    { rank: s.rank, step: o.step_s, fixed, saved: o.saved, temporaries: o.temporaries,
      titles: { saved: title("saved"), temporaries: title("temporaries") }, lines,
      after: [s.beside_bytes >= 0 ? el("p", {}, `On the device, in addition to the plan: ${bytesText(s.beside_bytes)} (context, code, libraries, other processes).`) : null,
        counted.length ? table(["The process in the host's memory", { n: "Resident" }, { n: "Difference" }], counted,
          { caption: "Memory of the process as the system counts it", stack: true }) : null] });
}

// ---- ladder, changes
function ladder() {
  const list = own && own.ladder || plan && plan.ladder || [], usable = own ? own.memory.usable_bytes : plan.usable_bytes;
  if (!list.length) return;
  const most = Math.max(usable, ...list.map(r => r.peak_bytes)), fits = r => r.fits !== undefined ? r.fits : r.peak_bytes <= usable;
  const meter = r => el("span", { class: "track", "aria-hidden": "true" },
    el("span", { class: "meter" + (fits(r) ? "" : " over"), style: `width:${100 * r.peak_bytes / most}%` }), el("span", { class: "usable", style: `left:${100 * usable / most}%` }));
  card("ladder", "Memory ladder: more recompute, less memory",
    el("p", { class: "soft" }, (own && own.ladder ? "This layout with more and more recompute, each priced as a whole program." :
      "The first layout with more and more recompute, estimated from per-layer costs.") + ` The line is what can be used, ${bytesText(usable)}.`),
    table(["Recompute", { n: "Step" }, { n: "Peak" }, "Memory", "Fits?"], list.map(r => Object.assign([
      code(recomputeText(r.recompute)), { n: seconds(r.step_s) }, { n: bytesText(r.peak_bytes) }, meter(r),
      el("span", { class: fits(r) ? null : "bad" }, (fits(r) ? "fits" : "does not fit") + (r.own ? ", this recipe" : ""))], { cls: r.own ? "own" : null })),
      { caption: "Memory ladder", stack: true }));
}
function changes() {
  if (!own || !own.changes || !own.changes.length) return;
  const sure = own.price.change_band;
  const verdict = c => !c.fits ? [c.gain > 0 ? 2 : 3, "does not fit"] : c.gain < 5e-4 ? [4, c.gain > -5e-4 ? "changes nothing" : "slower"]
    : sure && c.gain < sure ? [1, "within the uncertainty"] : [0, "faster"];
  card("changes", "What single changes would do",
    el("p", { class: "soft" }, "Each of these alone, on top of this recipe." + (sure ? ` A difference of less than ${percent(sure)} is within the uncertainty.` : "")),
    table(["Change", { n: "Tokens/s" }, { n: "Step" }, { n: "Peak" }, "Verdict"], [...own.changes].sort((a, b) => verdict(a)[0] - verdict(b)[0]).map(c =>
      [code(c.change), { n: change(c.gain) }, { n: seconds(c.step_s) },
        { n: bytesText(c.peak_bytes) }, el("span", { class: c.fits ? null : "bad" }, verdict(c)[1])]), { caption: "Single changes", stack: true }));
}

// ---- speed against headroom
function front() {
  const source = plan || own, usable = plan ? plan.usable_bytes : own.memory.usable_bytes;
  const list = (source.front || []).map(f => ({ ...f, what: "front" }));
  const best = (source.best || []).map((f, i) => ({ ...f, what: "best", row: i + 1 }));
  const mine = !plan && own ? [{ step_s: own.price.step_s, peak_bytes: own.memory.peak_bytes, what: "own" }] : [];
  const all = list.concat(best, mine);
  if (!list.length && !best.length) {
    if (source.front_why_not) card("front", "Speed against headroom", el("p", {}, "Not searched: " + source.front_why_not));
    return;
  }
  const H = 360, L = 70, B = 44, T = 26, R = 22, free = f => (usable - f.peak_bytes) / GIB;
  const unit = Math.max(...all.map(f => f.step_s)) < 1 ? ["milliseconds", 1e3] : ["seconds", 1];
  const found = list.concat(best).map(free), far = mine.length && free(mine[0]) < 2 * Math.min(...found) - Math.max(...found) - 1; // stands at the edge then
  const xs = far ? found : all.map(free), ys = all.map(f => f.step_s), ties = best.filter(f => f.tie).map(f => f.step_s);
  const pad = (Math.max(...xs) - Math.min(...xs)) * 0.06 || 0.1 * Math.max(1e-3, Math.abs(xs[0]));
  let [x0, x1] = [Math.min(...xs) - pad, Math.max(...xs) + pad], [y0, y1] = [Math.min(...ys) * 0.985, Math.max(...ys) * 1.015];
  if (x0 < 0 && Math.min(...xs) >= 0) x0 = 0;
  const info = el("p", { class: "info", "aria-live": "polite" }, "Select a point, or step through them with the tab key.");
  const describe = f => (f.row ? `Row ${f.row}: ` : "") + (f.what === "own" ? "This recipe" : sizesText(f) + "; " + restText(f)) +
    `: ${withBand(f.step_s, f.band, " a step")}, ${bytesText(usable - f.peak_bytes)} free`;
  function show(f) {
    info.textContent = describe(f);
    document.querySelectorAll("tr.pick").forEach(r => r.classList.remove("pick"));
    const row = f.row && plan && place("row" + f.row);
    if (row) row.classList.add("pick");
  }
  function build(W) {
    const x = v => L + (W - L - R) * (v - x0) / (x1 - x0), y = v => T + (H - T - B) * (1 - (v - y0) / (y1 - y0));
    const grid = [], ux = niceStep((x1 - x0) / Math.max(3, W / 150)), uy = niceStep((y1 - y0) / 5);
    for (let v = Math.ceil(x0 / ux) * ux; v <= x1; v += ux)
      grid.push(el("line", { x1: x(v), x2: x(v), y1: T, y2: H - B, stroke: "var(--grid)" }),
        el("text", { x: x(v), y: H - B + 18, "text-anchor": "middle" }, +v.toPrecision(7)));
    for (let v = Math.ceil(y0 / uy) * uy; v <= y1; v += uy)
      grid.push(el("line", { x1: L, x2: W - R, y1: y(v), y2: y(v), stroke: "var(--grid)" }),
        el("text", { x: L - 8, y: y(v) + 4, "text-anchor": "end" }, +(v * unit[1]).toPrecision(6)));
    const tied = [];
    if (ties.length > 1) {
      const [low, high] = [y(Math.max(...ties)) - 9, y(Math.min(...ties)) + 9];
      tied.push(el("rect", { x: L, width: W - L - R, y: low, height: high - low, fill: "var(--tie)" }),
        el("text", { x: W - R - 6, y: low + 14, "text-anchor": "end" }, "ties"));
    }
    // A number stands in its dot; where another is, beside it with a line.
    const numbers = [], at = f => Math.max(L + 6, x(free(f)));
    const marks = new Map(best.map(f => {
      const px = at(f), py = y(f.step_s) + 4, taken = (a, b) => numbers.some(([c, d]) => Math.abs(a - c) < 18 && Math.abs(b - d) < 16);
      const rings = [0, 20, 34, 48, 62, 76].flatMap(r => [270, 315, 225, 0, 180, 45, 135, 90].slice(0, r ? 8 : 1).map(w => [px + r * Math.cos(w * Math.PI / 180), py + r * Math.sin(w * Math.PI / 180)]));
      const [nx, ny] = rings.find(([a, b]) => a > L && a < W - R && b > T + 10 && b < H - B && !taken(a, b)) || [px, py];
      numbers.push([nx, ny]);
      return [f, { x: nx, y: ny, off: nx !== px || ny !== py }];
    }));
    const dots = [...list, ...mine, ...[...best].reverse()].map(f => { const m = marks.get(f); return el("g", { class: "dot", tabindex: 0, role: "button", "aria-label": describe(f),
      on: { click: () => show(f), focus: () => show(f), pointerenter: () => show(f) } },
      m && m.off ? el("line", { x1: at(f), y1: y(f.step_s), x2: m.x, y2: m.y - 4, stroke: "var(--soft)" }) : null,
      el("circle", { cx: at(f), cy: y(f.step_s), r: f.what === "front" || m && m.off ? 5 : f.row === 1 ? 12 : 9,
        fill: f.what === "front" ? "var(--soft)" : f.what === "own" ? "var(--own)" : "var(--dot)", stroke: f.row === 1 ? "var(--ink)" : "var(--card)", "stroke-width": 2 }),
      m ? el("text", { class: "number" + (m.off ? " off" : ""), x: m.x, y: m.y, "text-anchor": "middle" }, f.row) : null,
      el("title", {}, describe(f))); });
    const tell = (f, t) => { // beside its dot, where no number stands
      const end = at(f) > W / 2, px = at(f) + (end ? -16 : 16), wide = 8 * t.length, [from, to] = end ? [px - wide, px] : [px, px + wide];
      const taken = py => numbers.some(([a, b]) => a > from - 8 && a < to + 8 && Math.abs(b - py) < 16);
      const py = [-18, 28, -34, 44, -50, 60].map(d => y(f.step_s) + d).find(v => v > T && v < H - B - 4 && !taken(v)) || T;
      for (let a = from; a <= to; a += 16) numbers.push([a, py]);
      return el("text", { class: "told", x: px, y: py, "text-anchor": end ? "end" : "start" }, t);
    };
    const line = [...list].sort((a, b) => free(a) - free(b)).map(f => `${x(free(f))},${y(f.step_s)}`).join(" ");
    return [tied, grid, line ? el("polyline", { points: line, fill: "none", stroke: "var(--soft)", "stroke-width": 2, "stroke-dasharray": "4 4" }) : null,
      x0 < 0 ? el("line", { x1: x(0), x2: x(0), y1: T, y2: H - B, stroke: "var(--bad)", "stroke-width": 2 }) : null, dots,
      mine.length ? tell(mine[0], `${far ? "◀ " : ""}this recipe: ${seconds(mine[0].step_s)}` + (far ? `, ${bytesText(-room)} too much` : "")) : null,
      best.length ? tell(best[0], withBand(best[0].step_s, best[0].band)) : null,
      el("text", { x: L - 8, y: 12, "text-anchor": "start", transform: `translate(${8 - L} 0)` }, `${unit[0]} a step (lower is faster)`),
      el("text", { x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle" }, "GiB free on the fullest rank (right is roomier)")];
  }
  const others = plan ? "row of the table" : "one of the best of a search";
  card("front", "Speed against headroom",
    el("p", { class: "soft" }, (plan ? "" : "Layouts of the same job, found by a search. ") +
      "The dashed line joins layouts that no other beats in both; the search estimates them from per-layer costs."),
    chart(H, { role: "group", "aria-label": "Step time over free memory" }, build), info,
    legend([["var(--dot)", others + ", by number"], ["var(--soft)", "fastest with so much free"]].concat(plan ? [] : [["var(--own)", "this recipe"]])),
    el("details", {}, el("summary", {}, "The points as a table"),
      table(["Layout", { n: "Step" }, { n: "Free" }], all.map(f => [f.what === "own" ? "this recipe" : (f.row ? `${f.row}: ` : "") + sizesText(f) + "; " + restText(f),
        { n: seconds(f.step_s) }, { n: bytesText(usable - f.peak_bytes) }]), { caption: "Step time and free memory", stack: true })));
}

// ---- a plan's rows and reasons
function rows() {
  if (!plan || !plan.best.length) return;
  const first = plan.best[0], ties = plan.best.filter(r => r.tie).length, shown = narrow ? 3 : plan.best.length;
  const list = plan.best.map((r, i) => Object.assign([{ n: String(i + 1) },
    el("span", {}, sizesText(r), el("br"), el("span", { class: "soft" }, restText(r)), r.before ? el("span", { class: "soft" }, el("br"), `Before a faster one: ${r.before.replaceAll("`", "")}.`) : null),
    { n: withBand(r.step_s, r.band) }, { n: i ? change(r.step_s / first.step_s - 1) : "" }, { n: bytesText(plan.usable_bytes - r.peak_bytes) },
    i === 0 ? "first" : r.tie ? "tie" : "slower", r.wall || ""], { id: "row" + (i + 1), cls: i ? null : "own" }));
  const part = l => table([{ n: "Row" }, "Layout", { n: "Step" }, { n: "Against row 1" }, { n: "Free" }, "Verdict", "Bottleneck"], l, { caption: "Best layouts", stack: true });
  card("rows", ties > 1 ? `The best ${plan.best.length}: ${ties} are ties` : `The best ${plan.best.length}`,
    el("p", { class: "soft" }, ties > 1 ? "The price cannot tell ties apart. They are ordered by what published runs support, by likeness to them, and by room." :
      first.band ? "The first is faster than the others by more than the uncertainty of a difference." : "How far prices may be off is not known of this machine."),
    part(list.slice(0, shown)), shown < list.length ? el("details", {}, el("summary", {}, some(list.length - shown, "more row")), part(list.slice(shown))) : null);
}
function reasons() {
  if (!plan || !plan.why || !plan.why.length) return;
  const first = plan.best[0], topics = [...new Set(plan.why.map(w => w.choice))];
  card("why", "Why this one", el("p", { class: "soft" }, "Row 1 with one choice made otherwise, all else equal."),
    table(["Choice", "Instead", { n: "Step" }, { n: "Against row 1" }, { n: "Peak" }, "Verdict"], topics.flatMap(t => plan.why.filter(w => w.choice === t).map(w =>
      [w.choice, w.instead, { n: w.step_s === null ? "" : seconds(w.step_s) },
        { n: w.step_s === null ? "" : change(w.step_s / first.step_s - 1) },
        { n: w.peak_bytes === null ? "" : bytesText(w.peak_bytes) },
        w.rule ? el("span", {}, "breaks ", code(w.rule)) : w.fits === false ? el("span", { class: "bad" }, "does not fit")
          : w.why_not || (w.step_s > first.step_s ? "slower" : "faster")])),
      { caption: "Alternatives to each choice", stack: true }));
}

// ---- broken rules
function rules() {
  const list = errors.length ? errors : plan ? plan.violations || [] : [];
  if (list.length) card("rules", some(list.length, "broken rule"), table(["Rule", "What is wrong", "A repair"],
    list.map(v => [code(v.rule), v.message, v.repair && v.repair.length ? code(v.repair.join(" ")) : "-"]), { caption: "Broken rules", stack: true }));
}

// ---- ranks
function ranks() {
  const l = own.layout, world = l.world, big = world > 4096, axis = axisOf;
  const coordinate = (a, r) => Math.floor(r / a.stride) % a.size;
  const group = (a, r) => { const base = r - coordinate(a, r) * a.stride; return Array.from({ length: a.size }, (_, i) => base + i * a.stride); };
  const kinds = { dense: ["TP", "CP", "DP", "PP"], expert: ["ETP", "EP", "EDP", "PP"] };
  const hue = { TP: "--tp", ETP: "--tp", CP: "--cp", EP: "--ep", DP: "--dp", EDP: "--dp", PP: "--pp" };
  let chosen = 0;
  const info = el("div", { "aria-live": "polite" });
  const short = list => list.length > 12 ? `${list.slice(0, 8).join(" ")} … ${list[list.length - 1]} (${list.length})` : list.join(" ");
  // Cells of a stage: columns run over the two inner axes, rows over the outer one.
  function picture(grid) {
    const [inner, second, outer] = kinds[grid].map(n => axis(grid, n)), pp = axis(grid, "PP");
    const cols = inner.size * second.size, rowsN = outer.size;
    const stagesShown = () => big ? [coordinate(pp, chosen)] : Array.from({ length: pp.size }, (_, i) => i);
    const shape = w => {
      const n = stagesShown().length;
      let cell = 22;
      for (; cell > 3; cell--) {
        const across = Math.max(1, Math.floor(w / (cols * cell + 10))), h = Math.ceil(n / across) * (rowsN * cell + 22);
        if (cols * cell + 10 <= w && h <= 560) break;
      }
      return { cell, across: Math.max(1, Math.floor(w / (cols * cell + 10))) };
    };
    const place = (r, w) => {
      const { cell, across } = shape(w), k = stagesShown().indexOf(coordinate(pp, r));
      const bx = k % across * (cols * cell + 10), by = Math.floor(k / across) * (rowsN * cell + 22) + 16;
      return [bx + (coordinate(inner, r) + inner.size * coordinate(second, r)) * cell, by + coordinate(outer, r) * cell, cell, k];
    };
    const height = w => { const { cell, across } = shape(w); return Math.ceil(stagesShown().length / across) * (rowsN * cell + 22) + 4; };
    const draw = (g, w) => {
      const colours = new Map();
      for (const name of [...kinds[grid]].reverse()) for (const r of group(axis(grid, name), chosen)) colours.set(r, css(hue[name]));
      g.font = "11px system-ui, sans-serif";
      for (let r = 0; r < world; r++) {
        const [x, y, c, k] = place(r, w);
        if (k < 0) continue;
        g.fillStyle = r === chosen ? css("--select") : colours.get(r) || css("--empty");
        g.fillRect(x, y, c - 1, c - 1);
        if (c >= 20 && world <= 1000) { g.fillStyle = r === chosen ? css("--card") : colours.has(r) ? css("--on") : css("--soft"); g.fillText(r, x + 2, y + c / 2 + 4, c - 4); }
      }
      stagesShown().forEach((st, k) => {
        const { cell, across } = shape(w);
        g.fillStyle = css("--soft");
        g.fillText("stage " + st, k % across * (cols * cell + 10), Math.floor(k / across) * (rowsN * cell + 22) + 11);
      });
    };
    const c = canvas(height, "", draw, { tabindex: 0 });
    const pickAt = e => {
      const b = c.getBoundingClientRect(), px = e.clientX - b.left, py = e.clientY - b.top;
      for (let r = 0; r < world; r++) {
        const [x, y, s, k] = place(r, c.clientWidth);
        if (k >= 0 && px >= x && px < x + s && py >= y && py < y + s) return choose(r);
      }
    };
    c.addEventListener("click", pickAt);
    c.addEventListener("keydown", e => {
      const along = { ArrowRight: [inner, second, 1], ArrowLeft: [inner, second, -1], ArrowDown: [outer, null, 1], ArrowUp: [outer, null, -1],
        PageDown: [pp, null, 1], PageUp: [pp, null, -1] }[e.key];
      if (!along) return;
      e.preventDefault();
      const [a, next, by] = along;
      let r = chosen, i = coordinate(a, r) + by;
      if (next && (i < 0 || i >= a.size)) {
        const j = coordinate(next, r) + by;
        if (j < 0 || j >= next.size) return;
        r += by * next.stride - coordinate(a, r) * a.stride + (by < 0 ? (a.size - 1) * a.stride : 0);
      } else if (i >= 0 && i < a.size) r += by * a.stride;
      choose(r);
    });
    c.setAttribute("aria-label", `${grid === "dense" ? "Dense" : "Expert"} grid: arrows move along ` +
      `${kinds[grid][0]} and ${kinds[grid][1]}, and ${kinds[grid][2]}; page up and down change the stage`);
    return c;
  }
  const pictures = { dense: picture("dense"), expert: picture("expert") };
  const input = el("input", { type: "number", min: 0, max: world - 1, value: 0, id: "rank", on: { change: () => choose(+input.value) } });
  function choose(r) {
    if (!(r >= 0 && r < world)) return;
    chosen = Math.floor(r);
    input.value = chosen;
    const line = grid => kinds[grid].map(n => `${n} ${coordinate(axis(grid, n), chosen)} of ${axis(grid, n).size}`).join(", ");
    const held = own.stages.filter(s => s.pp === coordinate(axis("dense", "PP"), chosen)).map(s =>
      holds(s));
    info.replaceChildren(el("p", {}, el("b", {}, `Rank ${chosen}`), `: node ${Math.floor(chosen / l.gpus_per_node)}` + (cpu ? "" : `, NVLink domain ${Math.floor(chosen / l.nvlink_domain)}`) +
      `. Dense grid: ${line("dense")}. Expert grid: ${line("expert")}. Holds ${held.join("; ")}.`),
      table(["Group", "Ranks"], ["dense", "expert"].flatMap(g => kinds[g].filter(n => axis(g, n).size > 1 && !(g === "expert" && n === "PP")).map(n =>
        [n, short(group(axis(g, n), chosen))])), { caption: "Groups of the rank" }));
    pictures.dense.paint();
    pictures.expert.paint();
  }
  const names = grid => kinds[grid].filter(n => axis(grid, n).size > 1).map(n => [`var(${hue[n]})`, n + " group"]);
  card("ranks", "Ranks", el("p", { class: "soft" }, `${grouped(world)} ranks on two grids` + (big ? "; only the stage of the chosen rank is drawn" : "") +
    ". Choose a rank to see its groups. In each stage, columns are the two inner sizes and rows the replicas."),
    el("div", { class: "bar" }, el("label", { for: "rank" }, "Rank"), input),
    el("div", { class: "grids" }, el("div", {}, el("h3", {}, `Dense grid: ${kinds.dense.map(n => n + " " + axis("dense", n).size).join(" x ")}`), pictures.dense, legend(names("dense"))),
      el("div", {}, el("h3", {}, `Expert grid: ${kinds.expert.map(n => n + " " + axis("expert", n).size).join(" x ")}`), pictures.expert, legend(names("expert")))), info);
  choose(0);
}

// ---- knobs
function knobs() {
  const from = { user: run ? "set by the run" : "set by you", chosen: "chosen by plan", preset: "preset", derived: "derived", default: "default", open: "not set" };
  // Of a plan nobody set what the plan chose: only the job was given, and what it kept.
  const job = /^(moefold\.model|cluster\.|model\.seq_length|train\.global_batch_size)/;
  const origin = k => k[2] === "model" ? "preset" : k[2] === "user" && plan && !job.test(k[0]) && !(k[0] in (plan.kept || {})) ? "chosen" : k[2];
  const list = own.knobs.map(k => [k[0], k[1], origin(k), k[3], k[4]]);
  const body = el("div", {}), count = el("p", { class: "soft", "aria-live": "polite" });
  const search = el("input", { type: "search", id: "knob", placeholder: "recompute" }), which = el("select", { id: "from" },
    el("option", { value: "" }, plan ? "chosen by plan, and set by you" : from.user), el("option", { value: "changed" }, "not at their default"), el("option", { value: "all" }, "all"),
    Object.entries(from).filter(([k]) => list.some(x => x[2] === k)).map(([k, v]) => el("option", { value: k }, v)));
  const wanted = { "": k => k[2] === "user" || k[2] === "chosen", changed: k => k[2] !== "default" && k[2] !== "open", all: () => true };
  const show = () => {
    const word = search.value.toLowerCase(), of = word && which.value === "" ? wanted.all : wanted[which.value] || (k => k[2] === which.value);
    const found = list.filter(k => of(k) && (!word || (k[0] + " " + k[1] + " " + k[3] + " " + k[4]).toLowerCase().includes(word)));
    count.textContent = `${found.length} of ${list.length} knobs`;
    body.replaceChildren(table(["Knob", "Value", "From", "Why"], found.map(k => [el("code", { title: k[4] }, k[0]), code(k[1] === "" ? '""' : k[1]),
      from[k[2]], el("span", {}, k[3] === "default" || k[2] === "chosen" ? "" : k[3], k[3] && k[3] !== "default" && k[2] !== "chosen" && k[4] ? el("br") : null, el("span", { class: "soft" }, k[4]))]),
      { caption: "Knobs", stack: true }));
  };
  search.addEventListener("input", show);
  which.addEventListener("change", show);
  card("knobs", "Knobs", el("div", { class: "bar" }, el("label", { for: "knob" }, "Find"), search, el("label", { for: "from" }, "Show"), which), count, body,
    own.notes.map(n => el("p", { class: "soft" }, n)));
  show();
}

// ---- a run
// Routed buffers that were too small grow: the plan of the recipe, and what was allocated in the end.
const allocated = m => m.allocated_bytes || m.planned_bytes;
const grownText = m => allocated(m) > m.planned_bytes ? `; ${bytesText(allocated(m))} after routed buffers grew` : "";
// Lines over the iterations: one picture a number, the validation's points in that of the loss.
function overSteps(label, list, points, show) {
  const H = 200, L = 62, R = 10, T = 10, B = 38, ys = list.map(p => p[1]).concat(points.map(p => p[1]));
  let y0 = Math.min(...ys), y1 = Math.max(...ys);
  const pad = (y1 - y0) * 0.06 || Math.abs(y1) * 0.05 || 1, x0 = list[0][0], x1 = Math.max(x0 + 1, list[list.length - 1][0]);
  y0 -= pad;
  y1 += pad;
  return chart(H, { role: "img", "aria-label": `${label} from ${show(list[0][1])} at step ${x0} to ${show(list[list.length - 1][1])} at step ${list[list.length - 1][0]}` }, W => {
    const x = v => L + (W - L - R) * (v - x0) / (x1 - x0), y = v => T + (H - T - B) * (1 - (v - y0) / (y1 - y0));
    const grid = [], uy = niceStep((y1 - y0) / 4), ux = Math.max(1, niceStep((x1 - x0) / Math.max(2, W / 140)));
    for (let v = Math.ceil(y0 / uy) * uy; v <= y1; v += uy)
      grid.push(el("line", { x1: L, x2: W - R, y1: y(v), y2: y(v), stroke: "var(--grid)" }),
        el("text", { x: L - 6, y: y(v) + 4, "text-anchor": "end" }, show(+v.toPrecision(6))));
    const inner = Array.from({ length: Math.floor((x1 - x0) / ux) + 1 }, (_, i) => (Math.ceil(x0 / ux) + i) * ux);
    for (const v of [x0, ...inner.filter(i => i > x0 + ux / 2 && i < x1 - ux / 2), x1])
      grid.push(el("text", { x: x(v), y: H - 20, "text-anchor": v === x0 ? "start" : v === x1 ? "end" : "middle" }, grouped(v)));
    grid.push(el("text", { x: L, y: H - 4 }, "training step"));
    return [grid, el("polyline", { points: list.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" "), fill: "none",
      stroke: "var(--data)", "stroke-width": 2 }),
      list.length < 60 ? list.map(p => el("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.5, fill: "var(--data)" }, el("title", {}, `step ${p[0]}: ${show(p[1])}`))) : null,
      points.map(p => el("circle", { cx: x(p[0]), cy: y(p[1]), r: 4, fill: "var(--mark)" }, el("title", {}, `validation after step ${p[0]}: ${show(p[1])}`)))];
  });
}
function losses() {
  const plain = v => String(+v.toPrecision(4)), some = k => run.lines.filter(l => l[k] !== null).map(l => [l[0], l[k]]);
  const pictures = [["Loss", 1, plain], ["Gradient norm", 2, plain], ["Seconds of a step", 4, seconds]].map(([name, k, show]) => {
    const list = some(k);
    return list.length ? [el("h3", {}, name), overSteps(name, list, k === 1 ? run.validation : [], show)] : null;
  });
  const shown = run.lines.length < run.all_lines ? `${grouped(run.lines.length)} of ${grouped(run.all_lines)} lines are drawn. ` : "";
  card("loss", "Loss and gradient norm", el("p", { class: "soft" }, shown + "Over the steps of the run."), pictures,
    run.validation.length ? legend([["var(--data)", "training"], ["var(--mark)", "validation"]]) : null,
    el("details", {}, el("summary", {}, "The last lines as a table"),
      table([{ n: "Step" }, { n: "lm loss" }, { n: "Gradient norm" }, { n: "Learning rate" }, { n: "Time" }], run.lines.slice(-30).map(l =>
        [{ n: grouped(l[0]) }].concat([1, 2, 3].map(k => ({ n: l[k] === null ? "-" : l[k].toPrecision(5) })), [{ n: seconds(l[4]) }])),
      { caption: "Lines of the run" })));
}

// Predicted beside measured, by kind: of the same rank, on its compute stream.
function beside() {
  const s = run.summary || {}, p = s.predicted, m = s.measured;
  if (!m) return;
  const of = (side, name) => side && side.parts.find(x => x.name === name), names = [...new Set(m.parts.concat(p ? p.parts : []).map(x => x.name))];
  const rows = names.map(n => ({ title: (of(m, n) || of(p, n)).title, p: (of(p, n) || { seconds: 0 }).seconds, m: (of(m, n) || { seconds: 0 }).seconds,
    hidden: (of(m, n) || { hidden: 0 }).hidden })).sort((a, b) => Math.max(b.p, b.m) - Math.max(a.p, a.m));
  const most = Math.max(...rows.map(r => Math.max(r.p, r.m))), wide = v => `${Math.max(0.3, 100 * v / most)}%`;
  const pair = r => el("span", { "aria-hidden": "true", style: "display:block;min-width:120px" },
    el("span", { class: "meter measured", style: `width:${wide(r.m)}` }),
    p ? el("span", { class: "meter predicted", style: `width:${wide(r.p)}` }) : null);
  const cells = r => [r.title, pair(r), { n: seconds(r.m) }].concat(p ? [{ n: seconds(r.p) }, { n: (r.m >= r.p ? "+" : "−") + seconds(Math.abs(r.m - r.p)) }] : [],
    [{ n: r.hidden > 0 ? seconds(r.hidden) : "" }]);
  card("beside", p ? "Predicted and measured" : "Time of a step, measured",
    el("p", { class: "soft" }, `${m.rank < 0 ? "Mean of all ranks" : "Rank " + m.rank}, ${m.steps} traced step${m.steps > 1 ? "s" : ""} from step ${m.first_step} on` +
      (p ? `; predicted from ${p.hardware}. ` : ". ") + "Communication counts while compute waits for it; the rest is hidden."),
    legend([["var(--data)", "measured (full)"]].concat(p ? [["var(--mark)", "predicted (outlined)"]] : [])),
    table(["Kind", "", { n: "Measured" }].concat(p ? [{ n: "Predicted" }, { n: "Difference" }] : [], [{ n: "Hidden" }]),
      rows.filter(r => r.p > 0 || r.m > 0).map(cells).concat([Object.assign(["Step", "", { n: seconds(m.step_s) }].concat(
        p ? [{ n: seconds(p.step_s) }, { n: (m.step_s >= p.step_s ? "+" : "−") + percent(Math.abs(m.step_s / p.step_s - 1)) }] : [], [""]), { cls: "own" })]),
      { caption: "Time by kind, measured and predicted", stack: true }),
    s.memory ? el("h3", {}, "Memory") : null,
    s.memory ? el("p", {}, `Rank ${s.memory.rank} was planned to take ${bytesText(s.memory.planned_bytes)}${grownText(s.memory)}` + (p ? `; predicted ${bytesText(p.peak_bytes)}` : "") +
      `. Its process used at most ${bytesText(s.memory.resident_bytes)} in the host's memory, program and libraries included.`) : null);
}

// Loads of experts: a cell an expert of a layer, as warm as its load is over the mean.
function loads() {
  const r = run.loads;
  if (!r || !r.layers.length) return;
  const left = 64, top = 4, axis = 36, rows = r.layers.length, rowH = Math.max(8, Math.min(24, 420 / rows));
  const flat = r.layers.flatMap(l => l.loads), high = Math.max(1001, Math.max(...flat)), low = Math.min(999, Math.min(...flat));
  const hue = v => v >= 1000 ? `color-mix(in srgb, ${css("--warm")} ${Math.round(100 * (v - 1000) / (high - 1000))}%, ${css("--empty")})`
    : `color-mix(in srgb, ${css("--cool")} ${Math.round(100 * (1000 - v) / (1000 - low))}%, ${css("--empty")})`;
  const info = el("p", { class: "info", "aria-live": "polite" }, "Point at a cell, or use the arrows.");
  let at = null;
  const most = r.layers.map(l => l.loads.indexOf(Math.max(...l.loads))), fullest = Math.max(...flat) / 1000;
  const say = () => { info.textContent = `Layer ${r.layers[at[0]].layer}, expert ${at[1]}: ${(r.layers[at[0]].loads[at[1]] / 1000).toFixed(2)} times the mean`; };
  const c = canvas(top + rows * rowH + axis, `Load of ${r.experts} experts in ${rows} layers over the mean of the layer; the most is ${fullest.toFixed(2)} times. Arrows choose a cell.`,
    (g, w) => {
      const cell = (w - left) / r.experts;
      g.font = "11px system-ui, sans-serif";
      r.layers.forEach((l, i) => {
        l.loads.forEach((v, e) => { g.fillStyle = hue(v); g.fillRect(left + e * cell, top + i * rowH, Math.max(0.5, cell - (cell > 4 ? 1 : 0)), rowH - (rowH > 9 ? 1 : 0)); });
        g.fillStyle = css("--ink");
        if (cell >= 34 && rowH >= 14) l.loads.forEach((v, e) => g.fillText((v / 1000).toFixed(2), left + e * cell + 4, top + i * rowH + rowH / 2 + 4));
        g.fillStyle = css("--soft");
        if (rowH >= 12 || i % Math.ceil(12 / rowH) === 0) g.fillText("layer " + l.layer, 2, top + i * rowH + Math.min(rowH, 14) - 3, left - 8);
      });
      g.fillStyle = css("--soft");
      const unit = Math.max(1, niceStep(r.experts / Math.max(2, (w - left) / 70)));
      for (let e = 0; e < r.experts; e += unit) g.fillText(String(e), left + e * cell, top + rows * rowH + 15);
      g.fillText("expert", left, top + rows * rowH + 31);
      if (at) { g.strokeStyle = css("--select"); g.lineWidth = 2; g.strokeRect(left + at[1] * cell, top + at[0] * rowH, Math.max(3, cell), rowH); }
    }, { tabindex: 0 });
  const go = (i, e) => { at = [Math.max(0, Math.min(rows - 1, i)), Math.max(0, Math.min(r.experts - 1, e))]; say(); c.paint(); };
  c.addEventListener("pointermove", e => {
    const b = c.getBoundingClientRect(), i = Math.floor((e.clientY - b.top - top) / rowH), x = Math.floor((e.clientX - b.left - left) / ((b.width - left) / r.experts));
    if (i >= 0 && i < rows && x >= 0 && x < r.experts) go(i, x);
  });
  c.addEventListener("keydown", e => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!by) return;
    e.preventDefault();
    go((at || [0, -1])[0] + by[0], (at || [0, -1])[1] + by[1]);
  });
  card("experts", "Load of experts", el("p", { class: "soft" }, `Tokens of each expert over the mean of its layer, in ${grouped(r.steps)} steps.` +
      (r.left_out > 0 ? ` ${grouped(r.left_out)} layers are not drawn.` : "")), c, info,
    legend([["var(--cool)", (low / 1000).toFixed(2) + " times the mean, the least"], ["var(--empty)", "the mean"], ["var(--warm)", (high / 1000).toFixed(2) + " times, the most"]]),
    el("details", {}, el("summary", {}, "The fullest of each layer as a table"), table([{ n: "Layer" }, { n: "Fullest expert" }, { n: "Over the mean" }, { n: "Emptiest" }],
      r.layers.map((l, i) => [{ n: String(l.layer) }, { n: String(most[i]) }, { n: (l.loads[most[i]] / 1000).toFixed(2) }, { n: (Math.min(...l.loads) / 1000).toFixed(2) }]),
      { caption: "Fullest experts" })));
}

// What a rank sends in a step, by group and by how far it goes.
function links() {
  const s = run.summary || {}, t = s.traffic || [];
  if (!t.length) return;
  const names = { node: "inside the node", domain: "inside the NVLink domain", across: "across" }, far = ["node", "domain", "across"].filter(l => t.some(x => x.link === l));
  const groups = [...new Set(t.map(x => x.group))], of = (g, l) => (t.find(x => x.group === g && x.link === l) || { bytes: 0 }).bytes;
  const all = g => far.reduce((n, l) => n + of(g, l), 0), most = Math.max(...groups.map(all));
  groups.sort((a, b) => all(b) - all(a));
  const bar = g => el("span", { "aria-hidden": "true", style: "display:flex;min-width:120px;height:10px" }, far.map((l, i) =>
    el("span", { style: `width:${100 * of(g, l) / most}%;background:${tint("comm", i)}` })));
  const exposed = Object.entries(s.streams || {}).filter(([, x]) => x.messages > 0);
  card("links", "Bytes by link", el("p", { class: "soft" }, "Bytes that a rank sends in a step; each number is the largest over all ranks."),
    table(["Group", ""].concat(far.map(l => ({ n: names[l] }))), groups.map(g => [g, bar(g)].concat(far.map(l => ({ n: bytesText(of(g, l)) })))),
      { caption: "Bytes of a step by group and link", stack: true }),
    legend(far.map((l, i) => [tint("comm", i), names[l]])),
    exposed.length ? table(["Stream", { n: "Messages" }, { n: "Exposed" }], exposed.map(([name, x]) => [name, { n: x.messages.toFixed(1) }, { n: seconds(x.exposed_s) }]),
      { caption: "Messages of a step by stream", stack: true }) : null);
}

// ---- what was tried, and a profile of another program
const recommended = () => tune.told.trials.find(t => t.trial === tune.told.best), firstTimed = () => tune.told.trials.find(t => t.end === "measured");
function ofTune() {
  const list = tune.told.trials, best = recommended(), first = firstTimed(), ends = {};
  for (const t of list) ends[t.end] = (ends[t.end] || 0) + 1;
  const counted = `${some(list.length, "trial")}: ${Object.entries(ends).map(([e, n]) => `${n} ${e}`).join(", ")}.`;
  if (!best) return { good: list.some(t => t.end === "pending") ? null : false, text: "No trial was measured yet", lines: [counted], next: `moefold tune RECIPE --dir ${tune.told.dir}` };
  const less = 1 - best.step_s / first.step_s;
  return { good: true, lines: [best.change ? [code(best.change)] : "The recipe as it was given.", counted],
    text: `Trial ${best.trial} is recommended: ${seconds(best.step_s)} a step` + (best.trial === first.trial ? ", and no change was faster" : `, ${percent(less)} less than trial ${first.trial}`),
    next: cpu ? `moefold train ${tune.told.dir}/best.yaml` : `moefold launch ${tune.told.dir}/best.yaml` };
}
// A line for each of two numbers: measured is full, expected is outlined.
const twoMeters = (m, e, most) => el("span", { "aria-hidden": "true", style: "display:block;min-width:100px" },
  m > 0 ? el("span", { class: "meter measured", style: `width:${Math.max(0.3, 100 * m / most)}%` }) : null,
  e > 0 ? el("span", { class: "meter predicted", style: `width:${Math.max(0.3, 100 * e / most)}%` }) : null);
function trials() {
  const list = tune.told.trials, first = firstTimed(), most = Math.max(...list.map(t => Math.max(t.step_s || 0, t.expected_s || 0)));
  const rows = list.map(t => Object.assign([{ n: String(t.trial) }, el("span", {}, t.change ? code(t.change) : "no change", t.said ? el("span", { class: "soft" }, " " + t.said) : null),
    twoMeters(t.step_s, t.expected_s, most), { n: t.expected_s > 0 ? seconds(t.expected_s) : "" }, { n: t.end === "measured" ? seconds(t.step_s) : t.end },
    { n: t.end === "measured" && first !== t ? change(t.step_s / first.step_s - 1) : "" }, t.wall || ""], { cls: t.trial === tune.told.best ? "own" : null }));
  card("trials", "Trials", el("p", { class: "soft" }, "In the order in which they were tried; the recommended one is marked. Times are those of the machine of the first trial."),
    legend([["var(--data)", "measured (full)"], ["var(--mark)", "expected (outlined)"]]),
    table([{ n: "Trial" }, "Change", "", { n: "Expected" }, { n: "Measured" }, { n: first ? `Against trial ${first.trial}` : "Change of time" }, "Limited by"], rows, { caption: "Trials", stack: true }));
  card("reasons-of-trials", "Why each was tried", table([{ n: "Trial" }, "Because", "What it showed"],
    list.map(t => [{ n: String(t.trial) }, t.reason, t.evidence ? `${t.wall}: ${t.evidence}` : t.said || t.end]), { caption: "Reasons of the trials", stack: true }));
}
function learned() {
  const rows = tune.learned.filter(r => r.measured_s > 0 || r.predicted_s > 0).sort((a, b) => b.measured_s - a.measured_s);
  if (!rows.length) return;
  const most = Math.max(...rows.map(r => Math.max(r.measured_s, r.predicted_s)));
  card("learned", "What was learned", el("p", { class: "soft" }, "Measured in the mean over all trials, and predicted for them by the machine as it was described. The quotients are in ",
    code(tune.told.dir + "/hardware.yaml"), ", which later prices can use."),
    table(["Part of the step", "", { n: "Predicted" }, { n: "Measured" }, { n: "Quotient" }], rows.map(r => [r.title, twoMeters(r.measured_s, r.predicted_s, most), { n: seconds(r.predicted_s) },
      { n: seconds(r.measured_s) }, { n: r.predicted_s > 0 ? (r.measured_s / r.predicted_s).toPrecision(3) : "" }]), { caption: "Measured over predicted, by part of the step", stack: true }));
}
function ofProfile() {
  const ratio = profile.measured_step_s / profile.predicted_step_s, lines = [];
  if (profile.wall) lines.push(`Limited by ${profile.wall}: ${profile.evidence} (predicted: ${profile.predicted_wall}).`);
  if (profile.explained < 0.995) lines.push(`${percent(1 - profile.explained)} of the time has no kind and no cause.`);
  if (profile.measured_peak_bytes) lines.push(`${bytesText(profile.measured_peak_bytes)} reserved at most, ${bytesText(profile.predicted_peak_bytes)} predicted.`);
  return { good: ratio < 1.15 ? true : null, lines, next: `moefold plan --against ${own.words}`,
    text: profile.measured_step_s > 0 ? `${seconds(profile.measured_step_s)} a step, ${ratio.toPrecision(3)} times as long as predicted (${seconds(profile.predicted_step_s)})` +
      (profile.gpu ? `, on ${profile.gpu}` : "") : "No step was measured" };
}
function profiled() {
  const m = r => r.measured_s || 0, p = r => r.predicted_s || 0, rows = profile.rows.filter(r => m(r) > 0 || p(r) > 0).sort((a, b) => Math.max(m(b), p(b)) - Math.max(m(a), p(a)));
  const most = Math.max(...rows.map(r => Math.max(m(r), p(r)))), known = r => r.measured_s !== null && r.measured_s !== undefined;
  if (rows.length) card("profiled", "Predicted and measured", el("p", { class: "soft" }, `${profile.source}. Every instant has a kind or a cause of waiting; communication counts while compute waits for it.`),
    legend([["var(--data)", "measured (full)"], ["var(--mark)", "predicted (outlined)"]]),
    table(["Kind", "", { n: "Measured" }, { n: "Predicted" }, { n: "Difference" }, { n: "Hidden" }], rows.map(r => [r.title, twoMeters(m(r), p(r), most),
      { n: known(r) ? seconds(m(r)) : "not told" }, { n: seconds(p(r)) }, { n: known(r) ? (m(r) >= p(r) ? "+" : "−") + seconds(Math.abs(m(r) - p(r))) : "" }, { n: r.hidden_s > 0 ? seconds(r.hidden_s) : "" }])
      .concat([Object.assign(["Step", "", { n: seconds(profile.measured_step_s) }, { n: seconds(profile.predicted_step_s) },
        { n: change(profile.measured_step_s / profile.predicted_step_s - 1) }, { n: "" }], { cls: "own" })]), { caption: "Time by kind, measured and predicted", stack: true }));
  if (profile.fixes.length) card("fixes", "What the guides do about it", el("p", { class: "soft" }, `Against ${profile.wall}, in the guides' order, with the predicted gain.`),
    table(["What", "Change", { n: "Tokens/s" }, "Memory"], profile.fixes.map(f => [f.what, f.change ? code(f.change) : "no knob", { n: f.change ? change(f.gain) : "not predicted" },
      !f.change ? "" : f.fits ? "fits" : "does not fit"]), { caption: "Changes against what limits the step", stack: true }));
  if (profile.unknown.length) card("unknown", "Kernels that are not known", table(["Kernel", { n: "Times" }, { n: "Time" }, "Operation"],
    profile.unknown.map(u => [u.kernel, { n: grouped(u.times) }, { n: seconds(u.seconds) }, u.operation || ""]), { caption: "Kernels without a kind" }));
}

// ---- all of it
head();
rules();
difference();
if (tune) { trials(); learned(); }
if (profile) profiled();
if (run) { losses(); beside(); }
rows();
reasons();
if (plan) front();
if (run && run.schedule)
  schedule(run.schedule, "measured", "Schedule, measured", "The last traced step, on the first rank of each stage.");
if (own) schedule(own.schedule, "schedule", run ? "Schedule, predicted" : "Schedule");
if (own || plan) ladder();
if (own && !plan) front();
changes();
if (own) times();
if (run) memoryMeasured();
if (own) memory();
if (run) { loads(); links(); }
if (own) { ranks(); knobs(); }
const unfold = id => { const d = place(id) && place(id).querySelector("details"); if (d) d.open = true; };
place("nav").append(...cards.map(([id, title]) => el("a", { href: "#" + id, on: { click: () => unfold(id) } }, title.split(":")[0])));
place("foot").append(el("p", { class: "soft" }, "Written by moefold " + data.version + ". This page needs no network."));
}

// Pictures are painted again when colours change; on paper every table is unfolded but the knobs.
const repaint = [];
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint.forEach(paint => paint()));
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => { d.open = !d.closest("#knobs"); }));
drawPage(JSON.parse(document.getElementById("data").textContent));
