"use strict";
// Draws the page from one JSON document, and again from another: drawPage(data) is all of it. One function a card
// (page_cards.js, page_runs.js); what is in the data is drawn, what is not is left out, so that a recipe, a plan and a
// run use the same page. The first screen is the answer: a sentence, what can be copied, memory and time, and what
// would make it faster.

// What is drawn: parts of the data, and what follows from them alone.
let data, own, plan, run, refused, diff, tune, profile, measured;
let cards, narrow, errors, room, subject, modelName, cpu, each, machine, ends, ofBoth;
function read(what) {
  data = what;
  [own, plan, run, refused, diff, tune, profile] = ["own", "plan", "run", "refused", "diff", "tune", "profile"].map(k => data[k] || null);
  measured = run || tune || profile;
  cards = [];
  narrow = matchMedia("(max-width: 760px)").matches;
  errors = own || refused ? (own || refused).violations.filter(v => v.severity === "error") : [];
  room = own ? own.memory.usable_bytes - own.memory.peak_bytes : 0;
  subject = own || plan || refused || diff.a;
  modelName = own || refused ? subject.model.name : plan && plan.model || "";
  cpu = subject.gpu === "cpu";
  each = cpu ? "rank" : "GPU";
  machine = plan ? `${grouped(plan.gpus)} x ${plan.gpu}` : own ? `${grouped(own.layout.world)} x ${own.gpu}` : subject.gpus ? `${grouped(subject.gpus)} x ${subject.gpu}` : "";
  ends = diff ? ["a", "b"].map(k => {
    const e = diff[k], m = diff.measured && diff.measured.a && diff.measured.b ? diff.measured[k] : null;
    return { letter: k.toUpperCase(), name: m ? m.run : e.recipe || e.file, step_s: m ? m.median_s : e.step_s, bytes: m && m.planned_bytes || e.peak_bytes || 0, m, e };
  }) : [];
  ofBoth = diff ? ends[0].m ? diff.measured : diff : null;
}
const GIB = 2 ** 30;
const place = id => document.getElementById(id);

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
const folded = new Set(["knobs"]), onPhones = new Set(["rules", "parts", "rows", "loss", "beside", "schedule"]);
function card(id, title, ...children) {
  const body = el("details", { open: !folded.has(id) && (!narrow || onPhones.has(id)) },
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

// ---- all of it
const repaint = [];
function drawPage(what) {
  read(what);
  for (const id of ["head", "nav", "main", "foot"]) place(id).replaceChildren();
  repaint.length = 0;
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
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint.forEach(paint => paint()));
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => { d.open = !d.closest("#knobs"); }));
drawPage(JSON.parse(document.getElementById("data").textContent));
