// page_text.js - a page of `moefold report`, drawn without a browser: `node page_text.js PAGE...`
// runs the page's own script on as much of a document as it uses, draws its canvases and charts,
// presses their keys, and says for each page which of its texts are no figure: NaN, undefined,
// null, Infinity, or an object (a knob's value, in code, may be null). Exit status 1 where there
// is such a text, or where the script fails.
"use strict";
const fs = require("fs"), vm = require("vm");

const bad = /NaN|undefined|\bnull\b|Infinity|\[object/, badCode = /NaN|undefined|Infinity|\[object/;
const WIDTH = 1200;

class Node {
  constructor(tag) {
    Object.assign(this, { tagName: tag, attributes: {}, children: [], listeners: {}, own: "", parent: null,
      style: {}, clientWidth: WIDTH, clientHeight: 300, value: "", hidden: false, checked: false });
    this.classList = { add() {}, remove() {}, toggle() {} };
  }
  setAttribute(k, v) { this.attributes[k] = String(v); if (k === "value" || k === "id") this[k] = String(v); }
  getAttribute(k) { return k in this.attributes ? this.attributes[k] : null; }
  removeAttribute(k) { delete this.attributes[k]; }
  append(...list) {
    for (const c of list) {
      const n = c instanceof Node ? c : Object.assign(new Node("#text"), { own: String(c) });
      n.parent = this;
      this.children.push(n);
    }
  }
  replaceChildren(...list) { this.children = []; this.own = ""; this.append(...list); }
  get firstChild() { return this.children[0] || null; }
  get textContent() { return this.own + this.children.map(c => c.textContent).join(" "); }
  set textContent(t) { this.children = []; this.own = String(t); }
  addEventListener(name, f) { (this.listeners[name] = this.listeners[name] || []).push(f); }
  dispatch(name, e) { for (const f of this.listeners[name] || []) f({ preventDefault() {}, target: this, ...e }); }
  getBoundingClientRect() { return { left: 0, top: 0, right: WIDTH, bottom: 300, width: WIDTH, height: 300 }; }
  setPointerCapture() {}
  releasePointerCapture() {}
  scrollIntoView() {}
  focus() {}
  getContext() { return this.pen = this.pen || pen(); }
  *all() { yield this; for (const c of this.children) yield* c.all(); }
}

// What is written on a canvas is text of the page as well, and a rectangle needs numbers.
const wrong = [];
function pen() {
  const known = { measureText: t => ({ width: 6 * String(t).length }), canvas: { width: WIDTH, height: 300 },
    createLinearGradient: () => ({ addColorStop() {} }), createPattern: () => null };
  return new Proxy(known, {
    get: (o, k) => k in o ? o[k] : (...args) => {
      const numbers = k === "fillText" ? args.slice(1, 3) : args.filter(x => typeof x !== "string" && typeof x !== "boolean" && !Array.isArray(x));
      if (k === "fillText" && bad.test(String(args[0]))) wrong.push(`canvas: ${args[0]}`);
      if (/Rect$|To$|^fillText$|^arc$|^rect$/.test(String(k)) && numbers.some(x => !Number.isFinite(x))) wrong.push(`canvas: ${String(k)}(${args})`);
    },
    set: (o, k, v) => { o[k] = v; return true; },
  });
}

function draw(path) {
  const page = fs.readFileSync(path, "utf8");
  const raw = /<script type="application\/json" id="data">([\s\S]*?)<\/script>/.exec(page)[1];
  const script = [...page.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(m => m[1]).join("\n");
  const byId = {}, root = new Node("html"), body = new Node("body");
  root.append(body);
  for (const id of ["data", "main", "head", "nav", "foot"]) {
    byId[id] = new Node("div");
    byId[id].setAttribute("id", id);
    if (id !== "data") body.append(byId[id]);
  }
  byId.data.own = raw;
  const find = id => byId[id] || [...body.all()].find(n => n.getAttribute("id") === id) || null;
  const observed = [], later = [];
  const document = { getElementById: find, createElement: t => new Node(t), createElementNS: (_, t) => new Node(t),
    querySelector: () => null, querySelectorAll: () => [], documentElement: root, body, addEventListener() {} };
  const context = { document, Node, console, devicePixelRatio: 1, location: { hash: "" },
    getComputedStyle: () => ({ getPropertyValue: () => "#123456" }), matchMedia: () => ({ matches: false, addEventListener() {} }),
    requestAnimationFrame: f => later.push(f), addEventListener() {},
    ResizeObserver: class { constructor(f) { this.f = f; } observe(n) { observed.push([this.f, n]); } disconnect() {} } };
  context.window = context;
  vm.runInNewContext(script, context, { filename: path });
  for (const [f, n] of observed) f([{ target: n, contentRect: { width: WIDTH } }]);
  while (later.length) later.shift()();
  const drawn = [...body.all()];
  const texts = new Set(), faults = new Set();
  const read = () => { for (const n of body.all()) {
    const text = n.children.length === 0 && n.textContent, code = n.tagName === "code" || n.parent && n.parent.tagName === "code";
    if (text) texts.add(text);
    if (text && (code ? badCode : bad).test(text)) faults.add(text);
    for (const [k, v] of Object.entries(n.attributes)) if (bad.test(v)) faults.add(`${n.tagName}: ${k}=${v}`);
  } };
  read();
  for (const key of ["n", "n", "ArrowDown", "ArrowRight", "+", "0", "End"])
    for (const n of drawn) if (n.listeners.keydown) { n.dispatch("keydown", { key }); read(); }
  for (const n of drawn) for (const name of ["click", "focus"])
    if (n.tagName === "circle" && n.listeners[name]) { n.dispatch(name, {}); read(); }
  for (const n of drawn) if (n.tagName === "canvas" && n.listeners.pointermove)
    for (const clientX of [70, 300, 1190]) { n.dispatch("pointermove", { clientX, clientY: 12, pointerId: 1 }); read(); }
  return [texts, faults];
}

let failed = false;
for (const path of process.argv.slice(2)) {
  wrong.length = 0;
  try {
    const [texts, faults] = draw(path), list = [...faults].concat(wrong);
    for (const t of list.slice(0, 20)) console.log(`${path}: ${t.slice(0, 200)}`);
    if (texts.size < 5) console.log(`${path}: only ${texts.size} texts`);
    failed = failed || list.length > 0 || texts.size < 5;
  } catch (e) {
    console.log(`${path}: ${e.stack}`);
    failed = true;
  }
}
process.exit(failed ? 1 : 0);
