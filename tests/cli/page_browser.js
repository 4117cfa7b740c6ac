// page_browser.js - pages of `moefold report` in headless Chromium: `node page_browser.js PAGE...`
// reads each at 1400 and 390 pixels, in the dark and on paper, folded and unfolded, and says what a reader would trip
// over: no title, a text that is no figure, texts on top of each other, a chart with nothing in it, sideways scrolling,
// pale text, more than six sheets of paper. --use PAGE OTHER presses keys and buttons, and draws the data of the other in
// it; --first prints the first sentence.
"use strict";
const { launch } = require("./browser.js"), path = require("path");

// In the page: everything that is wrong with how it looks now.
function look(paper) {
  const wrong = [], say = t => wrong.push(t), bad = /NaN|undefined|Infinity|\[object|\bnull\b/;
  const shown = e => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true, contentVisibilityAuto: true });
  const h1 = document.querySelector("h1"), text = document.body.innerText;
  if (!/ - moefold$/.test(document.title) || document.title.length < 20) say(`title: ${document.title}`);
  if (!h1 || !/\w.{15,}\.$/.test(h1.innerText)) say(`first sentence: ${h1 && h1.innerText}`);
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .hide, svg")).pop();
    say(`sideways scrolling: ${document.documentElement.scrollWidth} of ${innerWidth}, ${wide && wide.outerHTML.slice(0, 120)}`);
  }
  // texts
  const texts = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || e.closest("script, style, noscript, .hide, .skip, option, textarea") || !shown(e)) continue;
    if (e.closest("thead") && getComputedStyle(e.closest("thead")).position === "absolute") continue; // of a table whose rows are stacked
    if (bad.test(n.data) && !e.closest("code, #knobs")) say(`text: ${n.data.trim().slice(0, 100)}`);
    const range = document.createRange();
    range.selectNodeContents(n);
    for (const r of range.getClientRects()) if (r.width > 1 && r.height > 1) texts.push({ e, r, t: n.data.trim() });
  }
  for (const e of document.querySelectorAll("[aria-label], [title]"))
    for (const a of ["aria-label", "title"]) if (e.closest("#knobs") === null && bad.test(e.getAttribute(a) || "")) say(`${a}: ${e.getAttribute(a)}`);
  // one on top of another; a text that its box cuts is not seen there
  const seen = texts.filter(x => !x.e.closest(".segtext")).sort((a, b) => a.r.top - b.r.top);
  for (let i = 0; i < seen.length; i++)
    for (let k = i + 1; k < seen.length && seen[k].r.top < seen[i].r.bottom - 3; k++) {
      const a = seen[i].r, b = seen[k].r;
      if (seen[i].e !== seen[k].e && a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        say(`overlap: "${seen[i].t.slice(0, 50)}" and "${seen[k].t.slice(0, 50)}"`);
    }
  // contrast
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map(), rgba = c => {
    if (!known.has(c)) {
      probe.clearRect(0, 0, 1, 1); probe.fillStyle = c; probe.fillRect(0, 0, 1, 1);
      known.set(c, [...probe.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(c);
  };
  const light = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => {
    const over = [];
    for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3]) over.push(c); if (c[3] === 255) break; }
    return over.reverse().reduce((a, c) => a.map((v, i) => v + (c[i] - v) * c[3] / 255), [255, 255, 255]);
  };
  const told = new Set();
  for (const { e, t } of texts) {
    if (told.has(e)) continue;
    told.add(e);
    const svg = e.closest("svg"), style = getComputedStyle(e);
    if (svg && e.classList.contains("number")) continue; // on its dot: as .seg
    const a = light(rgba(svg ? style.fill : style.color)), b = light(ground(svg ? svg.parentElement : e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}: "${t.slice(0, 50)}" <${e.tagName} class=${e.getAttribute("class")}>`);
  }
  // charts
  for (const c of document.querySelectorAll("canvas")) {
    if (!shown(c) || !c.clientWidth) continue;
    const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, hues = new Set();
    for (let i = 0; i < d.length; i += 4 * 7) hues.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
    if (hues.size < 3) say(`empty picture: ${c.getAttribute("aria-label")}`);
  }
  for (const s of document.querySelectorAll("svg"))
    if (shown(s) && s.clientWidth && (s.querySelectorAll("path, circle, polyline").length < 1 || s.querySelectorAll("text").length < 3)) say(`empty chart: ${s.getAttribute("aria-label")}`);
  for (const b of document.querySelectorAll(".stackbar")) {
    const wide = [...b.querySelectorAll(":scope > .seg")].reduce((n, s) => n + s.getBoundingClientRect().width, 0), gaps = b.children.length;
    if (!b.children.length || Math.abs(wide - b.clientWidth) > gaps + 1) say(`a bar of ${wide.toFixed(0)} of ${b.clientWidth}: ${b.getAttribute("aria-label")}`);
  }
  for (const c of document.querySelectorAll(".card > details[open]"))
    if (shown(c) && c.innerText.trim().length < c.querySelector("h2").innerText.length + 20 && !c.querySelector("canvas, svg")) say(`empty card: ${c.parentElement.id}`);
  if (paper) {
    if ([...document.querySelectorAll("canvas, button, nav")].some(shown)) say("paper: pictures or buttons are printed");
    if (!document.querySelector("table") && document.querySelector(".card")) say("paper: no table");
  } else if (!/This page needs no network/.test(text)) say("no foot");
  return wrong;
}

// Pictures are drawn when their size is known, a frame or two after that: on a busy machine that takes its time.
async function drawn() {
  for (let i = 0; i < 100; i++) {
    await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
    if ([...document.querySelectorAll("svg")].every(s => !s.clientWidth || s.children.length) && [...document.querySelectorAll("canvas")].every(c => !c.clientWidth || c.style.height)) return;
    await new Promise(r => setTimeout(r, 30));
  }
}

async function read(browser, file) {
  const url = "file://" + path.resolve(file), wrong = new Set();
  for (const [name, how] of [["1400", {}], ["390", { width: 390, height: 844, mobile: true }], ["dark", { dark: true }], ["390 dark", { width: 390, height: 844, mobile: true, dark: true }]]) {
    const page = await browser.open(url, how), note = list => list.forEach(t => wrong.add(`${name}: ${t}`));
    await page.run(drawn);
    note(await page.run(`(${look})()`));
    const high = await page.run("document.documentElement.scrollHeight");
    if (how.width && high > 8000) note([`${high} pixels long`]);
    await page.run("document.querySelectorAll('details').forEach(d => d.open = true)");
    await page.run(drawn);
    note((await page.run(`(${look})()`)).map(t => "unfolded: " + t));
    if (name === "1400" || name === "dark") {
      const pdf = (await page.pdf()).toString("latin1"), sheets = (pdf.match(/\/Type\s*\/Page\b/g) || []).length;
      if (sheets < 1 || sheets > 6) note([`${sheets} sheets of paper`]);
      await page.on("Emulation.setEmulatedMedia", { media: "print", features: [{ name: "prefers-color-scheme", value: "light" }] });
      note((await page.run(`(${look})(true)`)).map(t => "paper: " + t));
    }
    note(page.said.filter(t => !/willReadFrequently/.test(t)).map(t => "console: " + t));
    await page.close();
  }
  return [...wrong];
}

// By keys alone, and by buttons; `other` is a page whose data are drawn in this one.
async function use(browser, file, other) {
  const wrong = [], must = (name, good) => { if (!good) wrong.push("use: " + name); };
  const page = await browser.open("file://" + path.resolve(file), {});
  await page.on("Page.bringToFront");
  const wanted = await page.run("[...document.querySelectorAll('a, button, input, select, summary, canvas, [tabindex=\"0\"]')].filter(e => e.checkVisibility() && e.clientWidth !== undefined).length");
  const reached = new Set();
  let unseen = 0;
  for (let i = 0; i < wanted + 40; i++) {
    await page.key("Tab");
    const at = await page.run("(() => { const e = document.activeElement, s = getComputedStyle(e); if (e === document.body) return null; e.dataset.at ||= String(Math.random()); " +
      "return { id: e.dataset.at, seen: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 }; })()");
    if (!at) continue;
    reached.add(at.id);
    if (!at.seen) unseen++;
  }
  must(`${wanted} controls, ${reached.size} reached by the tab key`, reached.size >= wanted);
  must(`${unseen} controls do not show that they have the focus`, unseen === 0);
  // buttons copy: by the clipboard, by the old way, and by showing the text where both are denied
  await page.run("window.copied = []; Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { writeText: async t => { copied.push(t); } } })");
  const press = async i => {
    await page.run(`document.querySelectorAll("button.copy")[${i}].focus()`);
    await page.key("Enter");
    await page.run("new Promise(r => setTimeout(r, 50))");
    return page.run("({ said: document.getElementById('copied').innerText, text: document.querySelector('#copied textarea')?.value || '', all: copied })");
  };
  const buttons = await page.run("document.querySelectorAll('button.copy').length");
  for (let i = 0; i < buttons; i++) {
    const r = await press(i);
    must(`button ${i} copies`, /^Copied .*line/.test(r.said) && r.all.length === i + 1 && r.all[i].length > 10);
  }
  await page.run("Object.defineProperty(navigator, 'clipboard', { configurable: true, value: undefined }); document.execCommand = () => { copied.push(document.activeElement.value); return true; }");
  let r = await press(0);
  must("the old way copies", /^Copied/.test(r.said) && r.all[buttons] === r.all[0]);
  await page.run("document.execCommand = () => false");
  r = await press(0);
  must("what cannot be copied is shown", /denied/.test(r.said) && r.text === r.all[0]);
  // cards by keys
  await page.run("document.querySelector('#knobs summary').focus()");
  await page.key("Enter");
  must("knobs unfold", await page.run("document.querySelector('#knobs details').open && document.querySelectorAll('#knobs tbody tr').length > 3"));
  await page.run("(() => { const i = document.getElementById('knob'); i.value = 'recompute_modules'; i.dispatchEvent(new Event('input')); })()");
  must("a knob is found", await page.run("document.querySelectorAll('#knobs tbody tr').length") === 1);
  const info = "document.querySelector('#schedule .info').textContent";
  await page.run("document.querySelector('#schedule canvas').focus()");
  await page.key("n");
  const first = await page.run(info);
  await page.key("n");
  must("next microbatch", /microbatch/.test(first) && await page.run(info) !== first);
  await page.key("ArrowDown");
  must("next stage", /^Stage 1/.test(await page.run(info)));
  const image = "document.querySelector('#schedule canvas').toDataURL()";
  await page.key("0");
  const whole = await page.run(image);
  for (const k of ["+", "+", "+"]) await page.key(k);
  must("zoom", await page.run(image) !== whole);
  await page.key("0");
  must("whole step again", await page.run(image) === whole);
  await page.run("document.querySelector('#ranks details').open = true, document.querySelector('#ranks canvas').focus()");
  for (const k of ["ArrowRight", "ArrowDown"]) await page.key(k);
  must("rank by key", /Rank [^0]/.test(await page.run("document.getElementById('ranks').textContent")));
  await page.run("(() => { const i = document.getElementById('rank'); i.value = 3; i.dispatchEvent(new Event('change')); })()");
  must("rank by number", /Rank 3:/.test(await page.run("document.getElementById('ranks').textContent")));
  must("labels", await page.run("[...document.querySelectorAll('input, select')].every(i => document.querySelector(`label[for=${i.id}]`))"));
  must("names", await page.run("[...document.querySelectorAll('button, svg, canvas')].every(b => b.textContent.trim() || b.getAttribute('aria-label'))"));
  // another document in the same page, and back
  const before = await page.run("document.body.innerText");
  const data = JSON.stringify(require("fs").readFileSync(other, "utf8").match(/id="data">([\s\S]*?)<\/script>/)[1]);
  await page.run(`drawPage(JSON.parse(${data}))`);
  await page.run(drawn);
  must("another is drawn", await page.run("document.body.innerText") !== before && (await page.run(`(${look})()`)).length === 0);
  await page.run("drawPage(JSON.parse(document.getElementById('data').textContent)), new Promise(r => setTimeout(r, 50))");
  must("the first is drawn again", (await page.run("document.querySelector('h1').innerText")) === before.split("\n").find(l => l && before.indexOf(l) >= 0 && /\.$/.test(l)));
  must("nothing is said on the console", page.said.length === 0);
  await page.close();
  return wrong;
}

(async () => {
  const [how] = process.argv.slice(2), option = how.startsWith("--"), files = process.argv.slice(option ? 3 : 2);
  const browser = await launch();
  let failed = false;
  const first = async file => {
    const page = await browser.open("file://" + path.resolve(file), {});
    console.log((await page.run("document.querySelector('h1').innerText")).replace(/^[^\w]\s*/, "").replace(/\u00a0|\n/g, " "));
    return [];
  };
  for (const file of how === "--use" ? files.slice(0, 1) : files) {
    const wrong = await (how === "--use" ? use(browser, file, files[1]) : how === "--first" ? first(file) : read(browser, file)).catch(e => [e.stack]);
    for (const t of wrong.slice(0, 12)) console.log(`${path.basename(file)}: ${t.slice(0, 240)}`);
    failed = failed || wrong.length > 0;
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
})();
