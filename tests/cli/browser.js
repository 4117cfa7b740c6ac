// browser.js - headless Chromium through its pipe (no network, no packages): open(url, options) gives a page.
"use strict";
const { spawn } = require("child_process"), fs = require("fs"), os = require("os"), path = require("path");

exports.launch = async (program = process.env.CHROMIUM || "chromium") => {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), "page-browser-"));
  const child = spawn(program, ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
    "--no-first-run", "--disable-extensions", `--user-data-dir=${profile}`], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const waiting = new Map(), heard = [];
  let number = 0, rest = "";
  child.stdio[4].on("data", chunk => {
    const parts = (rest + chunk).split("\0");
    rest = parts.pop();
    for (const text of parts) {
      const m = JSON.parse(text), w = waiting.get(m.id);
      if (!m.id) { heard.forEach(f => f(m)); continue; }
      waiting.delete(m.id);
      if (m.error) w.no(new Error(`${w.method}: ${m.error.message}`)); else w.yes(m.result);
    }
  });
  child.on("exit", () => waiting.forEach(w => w.no(new Error(`${w.method}: the browser has ended`))));
  const send = (method, params = {}, sessionId) => new Promise((yes, no) => {
    waiting.set(++number, { yes, no, method });
    child.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
  });
  const once = (method, session) => new Promise(yes => {
    const f = m => { if (m.method === method && m.sessionId === session) { heard.splice(heard.indexOf(f), 1); yes(m.params); } };
    heard.push(f);
  });
  return {
    // said: what the page wrote to its console, and exceptions.
    async open(url, { width = 1400, height = 900, dark = false, mobile = false } = {}) {
      const { targetId } = await send("Target.createTarget", { url: "about:blank" });
      const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
      const on = (method, params) => send(method, params, sessionId), said = [];
      heard.push(m => {
        if (m.sessionId !== sessionId) return;
        if (m.method === "Runtime.exceptionThrown") said.push(m.params.exceptionDetails.exception?.description || m.params.exceptionDetails.text);
        if (m.method === "Log.entryAdded") said.push(m.params.entry.text);
        if (m.method === "Runtime.consoleAPICalled") said.push(m.params.args.map(a => a.value).join(" "));
      });
      for (const domain of ["Page", "Runtime", "Log"]) await on(domain + ".enable");
      await on("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile });
      await on("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
      const loaded = once("Page.loadEventFired", sessionId);
      await on("Page.navigate", { url });
      await loaded;
      const run = async f => {
        const r = await on("Runtime.evaluate", { expression: typeof f === "string" ? f : `(${f})()`, awaitPromise: true, returnByValue: true });
        if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception?.description || r.exceptionDetails.text);
        return r.result.value;
      };
      await run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(r))))");
      return { on, run, said, close: () => send("Target.closeTarget", { targetId }),
        key: async (key, o = {}) => {
          const code = { Tab: 9, Enter: 13, " ": 32, ArrowRight: 39, ArrowDown: 40 }[key], text = key === "Enter" ? "\r" : key.length === 1 ? key : undefined;
          await on("Input.dispatchKeyEvent", { type: "keyDown", key, code: key, windowsVirtualKeyCode: code, text, ...o });
          await on("Input.dispatchKeyEvent", { type: "keyUp", key, code: key, windowsVirtualKeyCode: code, ...o });
        },
        picture: async (file, whole = true) => {
          const size = whole ? await run("({ w: innerWidth, h: document.documentElement.scrollHeight })") : null;
          const r = await on("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole, ...(size ? { clip: { x: 0, y: 0, width: size.w, height: Math.min(size.h, 12000), scale: 1 } } : {}) });
          fs.writeFileSync(file, Buffer.from(r.data, "base64"));
        },
        pdf: async () => Buffer.from((await on("Page.printToPDF", { printBackground: true, paperWidth: 8.27, paperHeight: 11.69,
          marginTop: 0.4, marginBottom: 0.4, marginLeft: 0.4, marginRight: 0.4 })).data, "base64") };
    },
    async close() {
      await send("Browser.close").catch(() => {});
      await new Promise(r => child.exitCode !== null ? r() : child.on("exit", r));
      fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
};
