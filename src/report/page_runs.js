// page_runs.js - cards of what was measured or is compared: runs, differences, tunings, profiles.
// ---- two of a kind
// Two recipes, runs or profiles: what was measured of both, else what is predicted.
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
    // Ranks wait for cores that others have, or that they have taken from one another; the run counts the first.
    const others = s && typeof s.others_cores === "number" ? s.others_cores : null;
    const busy = others !== null ? others > 0.2 : delay > 0.25 * Math.max(0, step - p.step_s) && delay > 0.05 * step;
    compared = ratio > 1.15 ? `; ${ratio < 1.995 ? percent(ratio - 1) + " slower" : ratio.toFixed(1) + " times slower"} than predicted` +
      (busy ? ": other programs had the cores" : more && more[1] > 0 ? `, the most in ${more[0]}` : "")
      : ratio < 0.87 ? `; ${percent(1 - ratio)} faster than predicted` : `; ${seconds(step)} a step, as predicted (${change(ratio - 1)})`;
    lines.push(`${seconds(step)} a step measured (median of ${grouped(run.steps.length)}), ${withBand(p.step_s, p.band)} predicted for ${own.gpu}.` +
      (delay > 0.01 * step ? ` A rank waited ${seconds(delay)} of a step for a core` +
        (busy ? `${others !== null ? `; other programs had ${others.toFixed(1)}` : ""}, so the two cannot be compared.` : ".") : ""));
  }
  const state = !s ? "Not finished: " : s.outcome === "finished" ? "" : `${upper(s.outcome)}${asked ? ` at step ${grouped(last[0])} of ${grouped(asked)}` : ""}: `;
  if (s && s.error) lines.unshift(s.error);
  if (s) lines.push(`${some(s.ranks, "rank")} on ${s.machine || "an unnamed machine"}.`);
  return { good: s ? s.outcome === "finished" : null, text: state ? state + loss[0].toLowerCase() + loss.slice(1) + compared : loss + compared, lines,
    next: state ? null : own && own.gpu === "cpu" ? "moefold plan deepseek-v3 --gpus 256xH100 --seq 128K" : own ? `moefold plan --against ${own.words}` : null };
}

// ---- a run
const alwaysThere = ["weights", "gradients", "optimizer", "boundary", "step"];
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
