"use strict";
// Draws the page from the data that stand in it. One function a card; what is in the data is drawn, what is not is
// left out, so that a recipe, a plan and a run use the same page.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const own = data.own || null, plan = data.plan || null, run = data.run || null;
const GIB = 2 ** 30;

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
const gib = bytes => Math.abs(bytes) < 0.1 * GIB ? bytesText(bytes) : (bytes / GIB).toFixed(Math.abs(bytes) < 100 * GIB ? 2 : 1) + " GiB";
function bytesText(b) {
  const units = [[GIB, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]];
  for (const [u, name] of units) if (Math.abs(b) >= u) return (b / u).toFixed(2) + " " + name;
  return grouped(b) + " B";
}
function seconds(s) {
  const a = Math.abs(s);
  if (a >= 100) return grouped(s) + " s";
  if (a >= 1) return s.toPrecision(3) + " s";
  if (a >= 1e-3) return (s * 1e3).toPrecision(3) + " ms";
  return a === 0 ? "0 s" : (s * 1e6).toPrecision(3) + " µs";
}
const percent = x => (100 * x).toFixed(1) + " %";
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = i => `var(--c${i % 10})`;
const cards = [];
function card(id, title, ...children) {
  const c = el("section", { class: "card", id, "aria-labelledby": id + "-h" },
    el("h2", { id: id + "-h" }, title), children);
  document.getElementById("main").append(c);
  cards.push([id, title]);
  return c;
}
// rows: arrays of cells; a cell is text, a node, or {n: text} for numbers, {t: sort text}
function table(heads, rows, attrs) {
  const cell = (c, i) => {
    const number = c !== null && typeof c === "object" && !(c instanceof Node) && "n" in c;
    return el("td", { class: number ? "n" : null, "data-label": heads[i].n || heads[i] }, number ? c.n : c);
  };
  return el("div", { class: "scroll" }, el("table", { class: attrs && attrs.stack ? "stack" : null },
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
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
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

// ---- head
const sizesText = b => `TP ${b.tp} CP ${b.cp}${b.cp > 1 ? " (" + b.cp_kind + ")" : ""} EP ${b.ep} ETP ${b.etp} ` +
  `PP ${b.pp} VPP ${b.vpp} DP ${b.dp}, microbatch ${b.micro_batch_size}`;
const recomputeText = r => !r || r === "-" ? "none" : r;
function restText(b) {
  const overlap = { shared: "shared expert", wgrad: "expert wgrad with dispatch", ep: "EP", "ep+delay": "EP, delayed wgrad" };
  const list = ["dispatcher " + b.dispatcher];
  if (b.beside && b.beside !== "-") list.push("overlap: " + (overlap[b.beside] || b.beside));
  list.push(recomputeText(b.recompute) === "none" ? "no recompute" : "recompute " + b.recompute);
  if (b.offload > 0) list.push(Math.round(100 * b.offload) + " % of the optimizer on the host");
  if (b.graphs && b.graphs !== "none") list.push("CUDA graphs " + b.graphs);
  if (b.tp_overlap) list.push("TP overlap");
  return list.join(", ");
}
const tile = (value, what) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, what));
function head() {
  const h = document.getElementById("head");
  const title = plan ? "Plan" + (own ? ": " + own.model.name : "") : run ? "Run " + run.path : own.recipe;
  h.append(el("h1", {}, title));
  const facts = [];
  if (plan) facts.push(`${grouped(plan.gpus)} x ${plan.gpu}`);
  else facts.push(`${own.model.name} on ${grouped(own.layout.world)} x ${own.gpu}`);
  const seq = plan ? plan.seq_length : own.model.seq_length, gbs = plan ? plan.global_batch_size : own.global_batch_size;
  if (seq) facts.push(`sequence length ${grouped(seq)}`);
  if (gbs) facts.push(`global batch ${grouped(gbs)}`);
  h.append(el("p", { class: "soft" }, facts.join(", "), run ? "." : ". All times are predicted.",
    (own || plan).estimate ? ` ${run ? "Predicted times" : "They"} are estimates: our kernels were not measured on ${(own || plan).gpu}.` : ""));
  if (run) runTiles(h);
  if (!own || run) return;
  const p = own.price, room = own.memory.usable_bytes - own.memory.peak_bytes;
  h.append(el("div", { class: "tiles" },
    tile(seconds(p.step_s), "a step"), tile(p.tokens_per_s_per_gpu.toFixed(1), "tokens/s a GPU"),
    tile(p.tflops_per_gpu < 10 ? p.tflops_per_gpu.toPrecision(3) : p.tflops_per_gpu.toFixed(1), "TFLOP/s a GPU"), tile(percent(p.mfu_bf16), "MFU of BF16"),
    tile(gib(own.memory.peak_bytes), "on the fullest rank of " + gib(own.memory.usable_bytes)),
    tile(el("em", { class: p.fits ? "good" : "bad" }, p.fits ? "fits" : "does not fit"),
      p.fits ? gib(room) + " free" : gib(-room) + " too much")));
  h.append(el("p", {}, el("b", {}, "Wall: " + p.wall + ". "), p.evidence, "."));
  for (const v of own.violations)
    if (v.severity !== "note")
      h.append(el("p", { class: v.severity === "error" ? "bad" : "soft" }, `${v.severity}: ${v.rule}: ${v.message}`));
  for (const n of own.not_priced)
    h.append(el("p", { class: "soft" }, `Not priced: ${n.key}=${n.value} (the price assumes: ${n.assumed})`));
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
  const rowH = stages.length > 24 ? 16 : 26, top = 6, axis = 24, left = 64;
  let from = 0, to = step, picked = null;
  const info = el("p", { class: "info", "aria-live": "polite" }, "Point at a microbatch, or select one.");
  const kinds = ["forward", "backward", "forward and backward, overlapped"];
  const vpp = own.layout.vpp;
  const chunkText = c => vpp > 1 ? `, chunk ${c}` : "";
  const text = (st, u) => `Stage ${st}, ${kinds[u.kind]} of microbatch ${u.micro}${chunkText(u.chunk)}` +
    (u.kind === 2 ? ` with that of ${u.withMicro}${chunkText(u.withChunk)}` : "") +
    `: ${seconds(u.end - u.start)}, from ${seconds(u.start)} on`;
  const x = (t, w) => left + (t - from) / (to - from) * (w - left);
  const hues = () => [css("--c0"), css("--c1"), css("--c2"), css("--c7")];
  function drawUnits(g, w, units, y, hue) {
    let lo = 0, hi = units.length;
    while (lo < hi) { const m = (lo + hi) >> 1; if (units[m].end < from) lo = m + 1; else hi = m; }
    for (let i = lo; i < units.length && units[i].start < to; i++) {
      const u = units[i], a = Math.max(left, x(u.start, w)), b = Math.min(w, x(u.end, w));
      g.globalAlpha = vpp > 1 ? 1 - 0.55 * u.chunk / vpp : 1;
      g.fillStyle = hue[u.kind];
      g.fillRect(a, y, Math.max(0.6, b - a - (b - a > 3 ? 1 : 0)), rowH - 4);
      g.globalAlpha = 1;
      if (b - a > 26) {
        g.fillStyle = css("--card");
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
    g.strokeStyle = css("--line");
    for (let k = a - rowH; k < b; k += 9) { g.beginPath(); g.moveTo(k, y + rowH); g.lineTo(k + rowH, y); g.stroke(); }
    g.fillStyle = css("--soft");
    if (b - a > 150) g.fillText("the steady state continues here", a + (b - a) / 2 - 70, y + rowH / 2 + 2);
    g.restore();
  }
  function draw(g, w) {
    const hue = hues(), soft = css("--soft"), h = stages.length * rowH;
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = css("--empty");
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
  const place = e => { const r = c.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  function at(e) {
    const [px, py] = place(e), st = Math.floor((py - top) / rowH), t = timeAt(px);
    if (st < 0 || st >= stages.length || px < left) return null;
    const i = near(stages[st], t), u = stages[st][i];
    return u && u.start <= t && t <= u.end ? { st, i } : { st, t };
  }
  const pointers = new Map();
  let drag = null;
  c.addEventListener("pointerdown", e => {
    pointers.set(e.pointerId, place(e));
    drag = { moved: false, from, to, start: [...pointers.values()].map(p => [...p]) };
  });
  c.addEventListener("pointermove", e => {
    if (!pointers.has(e.pointerId)) {
      const hit = at(e);
      if (hit && hit.i !== undefined) info.textContent = text(hit.st, stages[hit.st][hit.i]);
      else if (hit) info.textContent = `Stage ${hit.st} at ${seconds(hit.t)}: no layer runs (bubble, communication, optimizer)`;
      return;
    }
    pointers.set(e.pointerId, place(e));
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
    zoom(e.deltaY > 0 ? 1.25 : 0.8, timeAt(place(e)[0]));
  }, { passive: false });
  const button = (name, label, f) => el("button", { type: "button", "aria-label": label, on: { click: f } }, name);
  card(id, title, about ? el("p", {}, about) : null,
    el("p", { class: "soft" }, "Stages over time. Drag to move, pinch or use the wheel (after a click) to zoom; keys: + - 0, arrows, n and p."),
    el("div", { class: "bar" }, button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
      button("◀", "Earlier", () => move(-0.3)), button("▶", "Later", () => move(0.3)),
      button("Start", "Show the start", () => view(0, Math.min(step, step / 20))),
      button("Whole step", "Show the whole step", () => view(0, step))),
    c, info,
    legend([["var(--c0)", "forward"], ["var(--c1)", "backward"]].concat(
      stages.some(u => u.some(x => x.kind === 2)) ? [["var(--c2)", "both, overlapped"]] : [],
      [["var(--c7)", "optimizer"], ["var(--empty)", "waiting"]])),
    vpp > 1 ? el("p", { class: "soft" }, "Later chunks of a stage are drawn paler.") : null,
    left_out ? el("p", { class: "soft" }, `${grouped(left_out)} units in the middle of the step are not drawn: the steady state repeats.`) : null,
    el("details", {}, el("summary", {}, "The stages as a table"), stageTable(stages, s)));
}
function niceStep(x) {
  const p = 10 ** Math.floor(Math.log10(x));
  for (const m of [1, 2, 5, 10]) if (m * p >= x) return m * p;
  return 10 * p;
}
function stageTable(stages, s) {
  const layers = st => own.stages.filter(x => x.pp === st).map(x =>
    [x.embedding ? "embedding" : null, x.layers ? `layers ${x.first_layer} to ${x.first_layer + x.layers - 1}` : null,
      x.mtp ? "prediction module" : null, x.loss ? "head and loss" : null].filter(Boolean).join(", ") || "no layer").join("; ");
  return table(["Stage", { n: "First rank" }, { n: "In layers" }, { n: "Of the step" }, "Holds"], stages.map((units, i) => {
    const busy = units.reduce((n, u) => n + u.end - u.start, 0), all = s.stages[i].left_out === 0;
    return [String(i), { n: String(s.stages[i].rank) }, { n: all ? seconds(busy) : "-" },
      { n: all ? percent(busy / s.step_s) : "-" }, layers(i)];
  }), { caption: "Pipeline stages", stack: true });
}

// ---- time
function times() {
  const parts = own.parts.filter(p => p.seconds > 0 || p.hidden > 0), step = own.price.step_s;
  const sorted = [...parts].sort((a, b) => b.seconds - a.seconds), hue = new Map(sorted.map((p, i) => [p.name, colour(i)]));
  const name = p => p.title + (p.exposed ? ", exposed" : "");
  const bar = el("div", { role: "img", style: "display:flex;height:30px;border-radius:6px;overflow:hidden;background:var(--empty)",
    "aria-label": "Parts of the step: " + sorted.slice(0, 6).map(p => `${name(p)} ${percent(p.seconds / step)}`).join(", ") },
    sorted.filter(p => p.seconds > 0).map(p => el("span", { title: `${name(p)}: ${seconds(p.seconds)}`,
      style: `background:${hue.get(p.name)};width:${100 * p.seconds / step}%` })));
  card("time", "Time of a step",
    el("p", { class: "soft" }, `Predicted, on pipeline rank ${own.price.slowest}, which computes the most. The rows add up to the step.`), bar,
    table(["Kind", { n: "Seconds" }, { n: "Of the step" }, { n: "Hidden" }], sorted.map(p => [
      el("span", {}, el("i", { style: `display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;background:${hue.get(p.name)}` }), name(p)),
      { n: seconds(p.seconds) }, { n: percent(p.seconds / step) }, { n: p.hidden > 0 ? seconds(p.hidden) : "" }])
      .concat([["Step", { n: seconds(step) }, { n: "100.0 %" }, { n: "" }]]), { caption: "Time by kind", stack: true }));
}

// ---- memory over the step
// What lies there for the whole step, what comes and goes in equal parts of it, and lines across.
function memoryPicture(id, title, text, v) {
  const H = 300, L = 62, B = 26, T = 8, n = v.saved.length, drawn = v.lines.filter(l => !l.above);
  const layers = v.fixed.map(r => ({ title: r.title, at: () => r.bytes }))
    .concat([{ title: v.titles.saved, at: i => v.saved[i] }, { title: v.titles.temporaries, at: i => v.temporaries[i] }]);
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
      areas.push(el("path", { d: up + down + "Z", fill: colour(k) }, el("title", {}, l.title)));
    });
    const lineAt = l => el("line", { x1: L, x2: W, y1: y(l.bytes), y2: y(l.bytes), stroke: l.colour, "stroke-width": 2, "stroke-dasharray": "7 5" });
    for (let b = 0; b <= top; b += unit)
      grid.push(el("line", { x1: L, x2: W, y1: y(b), y2: y(b), stroke: "var(--grid)" }),
        el("text", { x: L - 6, y: y(b) + 4, "text-anchor": "end" }, +(b / size).toPrecision(4) + (size === GIB ? " GiB" : size === 1024 ? " KiB" : " MiB")));
    const cuts = W < 480 ? 2 : 4;
    for (let i = 0; i <= cuts; i++)
      grid.push(el("text", { x: x(n * i / cuts), y: H - 6, "text-anchor": i === cuts ? "end" : i ? "middle" : "start" }, seconds(v.step * i / cuts)));
    return [grid, areas, drawn.map(lineAt)];
  }
  const said = v.lines.map(l => `${l.title} ${bytesText(l.bytes)}`);
  card(id, title, el("p", { class: "soft" }, text),
    chart(H, { role: "img", "aria-label": `Memory of rank ${v.rank} over the step: at most ${bytesText(most)} alive, ${said.join(", ")}` }, build),
    legend(layers.map((l, k) => [colour(k), l.title]).concat(v.lines.map((l, i) => [l.colour, said[i] + (l.above ? ", above the picture" : ""), 1]))),
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
  const fixed = alwaysThere.filter(n => s.regions[n] > 0).map(n => ({ title: title(n), bytes: s.regions[n] }));
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
  const most = Math.max(...list.map(r => r.peak_bytes)), fits = r => r.fits !== undefined ? r.fits : r.peak_bytes <= usable;
  card("ladder", "Memory ladder",
    el("p", { class: "soft" }, own && own.ladder ? "This layout with more and more recompute, each with its predicted step." :
      "The first layout with more and more recompute (estimated from per-layer costs)."),
    table(["Recompute", { n: "Step" }, { n: "Peak" }, "", ""], list.map(r => Object.assign([
      el("code", {}, recomputeText(r.recompute)), { n: seconds(r.step_s) }, { n: gib(r.peak_bytes) },
      el("span", { class: "meter", style: `width:${90 * r.peak_bytes / most}%;min-width:${Math.round(90 * r.peak_bytes / most)}px;background:${fits(r) ? "var(--c0)" : "var(--c4)"}` }),
      fits(r) ? r.own ? "this recipe" : "" : el("span", { class: "bad" }, "does not fit" + (r.own ? ", this recipe" : ""))], { cls: r.own ? "own" : null })),
      { caption: "Memory ladder", stack: true }));
}
function changes() {
  if (!own || !own.changes || !own.changes.length) return;
  card("changes", "What single changes would gain", table(["Change", { n: "Gain" }, { n: "Step" }, { n: "Peak" }, ""],
    own.changes.map(c => [el("code", {}, c.change), { n: (c.gain >= 0 ? "+" : "") + percent(c.gain) }, { n: seconds(c.step_s) },
      { n: gib(c.peak_bytes) }, c.fits ? "" : el("span", { class: "bad" }, "does not fit")]), { caption: "Single changes", stack: true }));
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
  const H = 340, L = 64, B = 44, T = 14, R = 16, free = f => (usable - f.peak_bytes) / GIB;
  const xs = all.map(free), ys = all.map(f => f.step_s);
  const reach = Math.max(...xs) - Math.min(...xs), pad = reach * 0.06 || 1e-3;
  let [x0, x1] = [Math.min(...xs) - pad, Math.max(...xs) + pad], [y0, y1] = [Math.min(...ys) * 0.98, Math.max(...ys) * 1.02];
  if (x0 < 0 && Math.min(...xs) >= 0) x0 = 0;
  const info = el("p", { class: "info", "aria-live": "polite" }, "Select a point.");
  const describe = f => (f.row ? `Row ${f.row}: ` : "") + (f.what === "own" ? "This recipe" : sizesText(f) + "; " + restText(f)) +
    `: ${seconds(f.step_s)} a step, ${gib(usable - f.peak_bytes)} free`;
  const fill = { front: "var(--c7)", best: "var(--c0)", own: "var(--select)" };
  function show(f) {
    info.textContent = describe(f);
    document.querySelectorAll("tr.pick").forEach(r => r.classList.remove("pick"));
    const row = f.row && document.getElementById("row" + f.row);
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
        el("text", { x: L - 6, y: y(v) + 4, "text-anchor": "end" }, seconds(+v.toPrecision(6))));
    const dots = all.map(f => el("circle", { class: "dot", cx: x(free(f)), cy: y(f.step_s), r: f.what === "front" ? 6 : 8, fill: fill[f.what],
      stroke: "var(--card)", "stroke-width": 2, tabindex: 0, role: "button", "aria-label": describe(f),
      on: { click: () => show(f), focus: () => show(f), pointerenter: () => show(f) } }, el("title", {}, describe(f))));
    const line = [...list].sort((a, b) => free(a) - free(b)).map(f => `${x(free(f))},${y(f.step_s)}`).join(" ");
    return [grid, el("polyline", { points: line, fill: "none", stroke: "var(--c7)", "stroke-width": 2, "stroke-dasharray": "4 4" }),
      x0 < 0 ? el("line", { x1: x(0), x2: x(0), y1: T, y2: H - B, stroke: "var(--bad)", "stroke-width": 2 }) : null, dots,
      el("text", { x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle" }, "GiB free on the fullest rank")];
  }
  card("front", "Speed against headroom",
    el("p", { class: "soft" }, (plan ? "" : "Layouts of the same job, found by a search. ") +
      "Lower points are faster, points further right leave more memory free. The search estimates its points from per-layer costs."),
    chart(H, { role: "group", "aria-label": "Step time over free memory" }, build),
    info, legend([["var(--c7)", "front"], ["var(--c0)", plan ? "the rows of the table" : "the best of a search"]].concat(plan ? [] : [["var(--select)", "this recipe"]])),
    el("details", {}, el("summary", {}, "The points as a table"),
      table(["Layout", { n: "Step" }, { n: "Free" }], all.map(f => [f.what === "own" ? "this recipe" : sizesText(f) + "; " + restText(f),
        { n: seconds(f.step_s) }, { n: gib(usable - f.peak_bytes) }]), { caption: "Step time and free memory", stack: true })));
}

// ---- a plan's rows and reasons
function rows() {
  if (!plan) return;
  if (!plan.best.length) {
    const why = plan.why_not || "nothing fits on these GPUs";
    card("rows", "No layout", el("p", { class: "bad" }, why),
      plan.miss ? el("p", {}, `The nearest: ${sizesText(plan.miss)}; ${restText(plan.miss)}: needs ${gib(plan.miss.peak_bytes)} of ${gib(plan.usable_bytes)}.`) : null,
      plan.fewest ? el("p", {}, `The smallest cluster that holds the job: ${grouped(plan.fewest.gpus)} GPUs.`) : null,
      (plan.violations || []).map(v => el("p", {}, `${v.rule}: ${v.message}`)));
    return;
  }
  const first = plan.best[0], band = r => r.band ? ` ± ${percent(r.band.high_s / r.step_s - 1)}` : "";
  card("rows", `The best ${plan.best.length}`, plan.complete === false ? el("p", { class: "bad" }, "The search was cut short: this is the best so far.") : null,
    table([{ n: "Row" }, { n: "Step" }, { n: "Slower by" }, { n: "tokens/s a GPU" }, { n: "TFLOP/s a GPU" }, { n: "Peak" }, "Layout", "Wall"],
      plan.best.map((r, i) => Object.assign([{ n: String(i + 1) }, { n: seconds(r.step_s) + band(r) }, { n: i ? percent(r.step_s / first.step_s - 1) : "" },
        { n: r.tokens_per_s_per_gpu ? r.tokens_per_s_per_gpu.toFixed(1) : "" }, { n: r.tflops_per_gpu ? r.tflops_per_gpu.toFixed(1) : "" },
        { n: gib(r.peak_bytes) }, el("span", {}, sizesText(r), el("br"), el("span", { class: "soft" }, restText(r))), r.wall || ""],
        { id: "row" + (i + 1) })), { caption: "Best layouts", stack: true }));
}
function reasons() {
  if (!plan || !plan.why || !plan.why.length) return;
  const first = plan.best[0], topics = [...new Set(plan.why.map(w => w.choice))];
  card("why", "Why", el("p", { class: "soft" }, "The first row with one choice changed, all else equal."),
    table(["Choice", "Instead", { n: "Step" }, { n: "Change" }, { n: "Peak" }, ""], topics.flatMap(t => plan.why.filter(w => w.choice === t).map(w =>
      [w.choice, w.instead, { n: w.step_s === null ? "" : seconds(w.step_s) },
        { n: w.step_s === null ? "" : (w.step_s >= first.step_s ? "+" : "") + percent(w.step_s / first.step_s - 1) },
        { n: w.peak_bytes === null ? "" : gib(w.peak_bytes) },
        w.rule ? el("span", {}, "breaks ", el("code", {}, w.rule)) : w.fits === false ? el("span", { class: "bad" }, "does not fit") : ""])),
      { caption: "Alternatives to each choice", stack: true }));
}

// ---- ranks
function ranks() {
  const l = own.layout, world = l.world, big = world > 4096;
  const axis = (grid, name) => l[grid].find(a => a.name === name) || { name, size: 1, stride: 1 };
  const coordinate = (a, r) => Math.floor(r / a.stride) % a.size;
  const group = (a, r) => { const base = r - coordinate(a, r) * a.stride; return Array.from({ length: a.size }, (_, i) => base + i * a.stride); };
  const kinds = { dense: ["TP", "CP", "DP", "PP"], expert: ["ETP", "EP", "EDP", "PP"] };
  const hue = { TP: "--c3", ETP: "--c3", CP: "--c1", EP: "--c2", DP: "--c0", EDP: "--c0", PP: "--c4" };
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
        if (c >= 20 && world <= 1000) { g.fillStyle = colours.has(r) || r === chosen ? css("--card") : css("--soft"); g.fillText(r, x + 2, y + c / 2 + 4, c - 4); }
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
      [s.embedding ? "embedding" : null, s.layers ? `layers ${s.first_layer}–${s.first_layer + s.layers - 1}` : null,
        s.mtp ? "prediction module" : null, s.loss ? "head and loss" : null].filter(Boolean).join(", ") || "no layer");
    info.replaceChildren(el("p", {}, el("b", {}, `Rank ${chosen}`), `: node ${Math.floor(chosen / l.gpus_per_node)}, NVLink domain ` +
      `${Math.floor(chosen / l.nvlink_domain)}. Dense grid: ${line("dense")}. Expert grid: ${line("expert")}. Holds ${held.join("; ")}.`),
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
  const from = { user: "set by you", model: "the model", derived: "derived", default: "default", open: "not set" };
  const body = el("div", {}), count = el("p", { class: "soft", "aria-live": "polite" });
  const search = el("input", { type: "search", id: "knob", placeholder: "recompute" }), which = el("select", { id: "from" },
    el("option", { value: "" }, "not at their default"), el("option", { value: "all" }, "all"),
    Object.entries(from).map(([k, v]) => el("option", { value: k }, v)));
  const show = () => {
    const word = search.value.toLowerCase();
    const list = own.knobs.filter(k => (which.value === "all" || word && which.value === "" || (which.value ? k[2] === which.value : k[2] !== "default" && k[2] !== "open")) &&
      (!word || (k[0] + " " + k[1] + " " + k[3] + " " + k[4]).toLowerCase().includes(word)));
    count.textContent = `${list.length} of ${own.knobs.length} knobs`;
    body.replaceChildren(table(["Knob", "Value", "From", "Why"], list.map(k => [el("code", { title: k[4] }, k[0]), el("code", {}, k[1]),
      from[k[2]], el("span", {}, k[3] === "default" ? "" : k[3], k[3] && k[3] !== "default" && k[4] ? el("br") : null, el("span", { class: "soft" }, k[4]))]),
      { caption: "Knobs", stack: true }));
  };
  search.addEventListener("input", show);
  which.addEventListener("change", show);
  card("knobs", "Knobs", el("div", { class: "bar" }, el("label", { for: "knob" }, "Find"), search, el("label", { for: "from" }, "Show"), which), count, body,
    own.notes.map(n => el("p", { class: "soft" }, n)));
  show();
}

// ---- a run
function median(list) {
  const a = [...list].sort((x, y) => x - y), n = a.length;
  return n ? (a[(n - 1) >> 1] + a[n >> 1]) / 2 : 0;
}
// Routed buffers that were too small grow: the plan of the recipe, and what was allocated in the end.
const allocated = m => m.allocated_bytes || m.planned_bytes;
const grownText = m => allocated(m) > m.planned_bytes ? `; ${bytesText(allocated(m))} after routed buffers grew` : "";
function runTiles(h) {
  const s = run.summary, last = run.lines[run.lines.length - 1], step = median(run.steps), p = own && own.price;
  const good = s && s.outcome === "finished";
  h.append(el("div", { class: "tiles" },
    tile(el("em", { class: good ? "good" : "bad" }, s ? s.outcome : "not finished"), `after ${grouped(last[0])} steps`),
    tile(step ? seconds(step) : "-", "a step, measured (median)"),
    p ? tile(seconds(p.step_s), "a step, predicted for " + own.gpu) : null,
    s ? tile(grouped(s.tokens_per_second), "tokens/s, all ranks") : null,
    tile(last[1] === null ? "-" : last[1].toPrecision(5), "lm loss of the last step"),
    s && s.memory ? tile(bytesText(s.memory.planned_bytes), `planned on rank ${s.memory.rank}, the fullest` + grownText(s.memory)) : null));
  if (s && s.error) h.append(el("p", { class: "bad" }, s.error));
  if (s) h.append(el("p", { class: "soft" }, `${grouped(s.ranks)} rank${s.ranks > 1 ? "s" : ""} on ${s.machine || "an unnamed machine"}.` +
    (s.delay_s > 0.01 * step ? ` Other programs had the cores for ${seconds(s.delay_s)} of a step.` : "")));
}

// Lines over the iterations: one picture a number, the validation's points in that of the loss.
function overSteps(label, list, points, show) {
  const H = 190, L = 62, R = 10, T = 10, B = 24, ys = list.map(p => p[1]).concat(points.map(p => p[1]));
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
      grid.push(el("text", { x: x(v), y: H - 6, "text-anchor": v === x0 ? "start" : v === x1 ? "end" : "middle" }, grouped(v)));
    return [grid, el("polyline", { points: list.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" "), fill: "none",
      stroke: "var(--c0)", "stroke-width": 2 }),
      list.length < 60 ? list.map(p => el("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.5, fill: "var(--c0)" }, el("title", {}, `step ${p[0]}: ${show(p[1])}`))) : null,
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
    run.validation.length ? legend([["var(--c0)", "training"], ["var(--mark)", "validation"]]) : null,
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
    el("span", { class: "meter", style: `width:${wide(r.m)};background:var(--c0)` }),
    p ? el("span", { class: "meter", style: `width:${wide(r.p)};background:var(--mark);margin-top:2px` }) : null);
  const cells = r => [r.title, pair(r), { n: seconds(r.m) }].concat(p ? [{ n: seconds(r.p) }, { n: (r.m >= r.p ? "+" : "−") + seconds(Math.abs(r.m - r.p)) }] : [],
    [{ n: r.hidden > 0 ? seconds(r.hidden) : "" }]);
  card("beside", p ? "Predicted and measured" : "Time of a step, measured",
    el("p", { class: "soft" }, `${m.rank < 0 ? "Mean of all ranks" : "Rank " + m.rank}, ${m.steps} traced step${m.steps > 1 ? "s" : ""} from step ${m.first_step} on` +
      (p ? `; predicted from ${p.hardware}. ` : ". ") + "Communication counts while compute waits for it; the rest is hidden."),
    legend([["var(--c0)", "measured"]].concat(p ? [["var(--mark)", "predicted"]] : [])),
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
  const left = 64, top = 4, axis = 22, rows = r.layers.length, rowH = Math.max(8, Math.min(24, 420 / rows));
  const flat = r.layers.flatMap(l => l.loads), high = Math.max(2000, Math.max(...flat));
  const hue = v => v >= 1000 ? `color-mix(in srgb, ${css("--c4")} ${Math.round(100 * Math.min(1, (v - 1000) / (high - 1000)))}%, ${css("--empty")})`
    : `color-mix(in srgb, ${css("--c0")} ${Math.round(100 * (1000 - v) / 1000)}%, ${css("--empty")})`;
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
        g.fillStyle = css("--soft");
        if (rowH >= 12 || i % Math.ceil(12 / rowH) === 0) g.fillText("layer " + l.layer, 2, top + i * rowH + Math.min(rowH, 14) - 3, left - 8);
      });
      g.fillStyle = css("--soft");
      const unit = Math.max(1, niceStep(r.experts / Math.max(2, (w - left) / 70)));
      for (let e = 0; e < r.experts; e += unit) g.fillText(String(e), left + e * cell, top + rows * rowH + 15);
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
    legend([[`var(--c0)`, "no token"], ["var(--empty)", "the mean"], ["var(--c4)", (high / 1000).toFixed(1) + " times the mean or more"]]),
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
    el("span", { style: `width:${100 * of(g, l) / most}%;background:${colour(i)}` })));
  const exposed = Object.entries(s.streams || {}).filter(([, x]) => x.messages > 0);
  card("links", "Bytes by link", el("p", { class: "soft" }, "Bytes that a rank sends in a step; each number is the largest over all ranks."),
    table(["Group", ""].concat(far.map(l => ({ n: names[l] }))), groups.map(g => [g, bar(g)].concat(far.map(l => ({ n: bytesText(of(g, l)) })))),
      { caption: "Bytes of a step by group and link", stack: true }),
    legend(far.map((l, i) => [colour(i), names[l]])),
    exposed.length ? table(["Stream", { n: "Messages" }, { n: "Exposed" }], exposed.map(([name, x]) => [name, { n: x.messages.toFixed(1) }, { n: seconds(x.exposed_s) }]),
      { caption: "Messages of a step by stream", stack: true }) : null);
}

// ---- all of it
head();
rows();
if (plan) front();
reasons();
if (run) { losses(); beside(); }
if (run && run.schedule)
  schedule(run.schedule, "measured", "Schedule, measured", "The last traced step, on the first rank of each stage.");
if (own) {
  schedule(own.schedule, "schedule", run ? "Schedule, predicted" : "Schedule");
  times();
}
if (run) memoryMeasured();
if (own) memory();
if (run) { loads(); links(); }
ladder();
if (!plan) front();
changes();
if (own) { ranks(); knobs(); }
document.getElementById("nav").append(...cards.map(([id, title]) => el("a", { href: "#" + id }, title)));
document.getElementById("foot").append(el("p", { class: "soft" }, "Written by moefold " + data.version + ". This page needs no network."));
})();
