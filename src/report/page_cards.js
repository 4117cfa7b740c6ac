// page_cards.js - cards of what is predicted: schedule, time, memory, ladder, changes, rows and reasons of a plan, ranks,
// knobs.
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
