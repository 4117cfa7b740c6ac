#!/usr/bin/env python3
"""An invented machine for `moefold tune`: stands in for `moefold train RECIPE --run DIR ...`, in no time.

What a step takes there is our price with every kind of operation slower or faster by a factor of its own, and so much
for every microbatch: nothing that a tuner could know before it measures. FAIL is a Python expression over the knobs (k)
and says which trials end badly: 'crash', 'memory' or 'error'. BUSY: other programs have the core of every trial for up to
four times as long as a step takes, each step otherwise. LUCK is an expression, too: what the first measurement of a trial
is multiplied by, and no later one. CACHE is a folder in which prices are kept: a recipe is priced once.
"""
import hashlib, json, os, random, signal, subprocess, sys

FACTORS = {"products": 2.5, "experts": 1.6, "attention": 4.0, "head and loss": 0.8, "routing": 3.0, "elementwise": 2.0,
           "EP messages": 2.0, "TP messages": 1.5, "DP messages": 1.3, "optimizer": 1.2}
MICROBATCH = float(os.environ.get("MICROBATCH", "0.0004"))


def asked(command, words):
    """The answer of `moefold COMMAND WORDS --json`, or what it says instead."""
    text = "".join(open(w).read() if os.path.isfile(w) else w + "\n" for w in words)
    kept = os.path.join(os.environ.get("CACHE", "/nowhere"), hashlib.sha1((command + text).encode()).hexdigest())
    if os.path.exists(kept):
        return json.load(open(kept))
    out = subprocess.run([os.environ["MOEFOLD"], command, *words, "--json"], capture_output=True, text=True)
    if out.returncode not in (0, 1) or not out.stdout:
        raise SystemExit("moefold train: " + out.stderr)
    if os.path.isdir(os.path.dirname(kept)):
        with open(kept + ".part", "w") as f:
            f.write(out.stdout)
        os.rename(kept + ".part", kept)
    return json.loads(out.stdout)


def knobs_of_words(words):
    return {key: x["value"] for key, x in asked("show", words)["knobs"].items()}


def parts_of(words):
    p = asked("price", words)
    if p.get("why_not"):
        raise SystemExit(p["why_not"])
    return {k: v * FACTORS.get(k, 1) for k, v in p["parts"].items()}, p


def step_of(words):
    """Seconds by part; the price."""
    parts, p = parts_of(words)
    k = knobs_of_words(words)
    parts["elementwise"] += MICROBATCH * k["train.global_batch_size"] / k["train.micro_batch_size"]
    return parts, p


if __name__ == "__main__":
    recipe, run = sys.argv[2], sys.argv[sys.argv.index("--run") + 1]
    k = knobs_of_words([recipe])
    fail = os.environ.get("FAIL")
    bad = eval(fail, {"k": k}) if fail else None  # a test's own words
    if bad == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if bad == "memory":
        sys.exit(print("moefold train: cannot allocate 3.00 GiB for the planned arena: no memory") or 3)
    if bad == "error":
        sys.exit(print("moefold train: the data ended") or 2)
    parts, p = step_of([recipe])
    if os.environ.get("LUCK") and run.endswith("/run"):
        parts = {n: s * eval(os.environ["LUCK"], {"k": k}) for n, s in parts.items()}
    step = sum(parts.values())
    random.seed(open(recipe).read() + run)
    busy = [random.uniform(0.5, 4) * step if os.environ.get("BUSY") else 0.0 for _ in range(8)]
    os.makedirs(run, exist_ok=True)
    with open(run + "/summary.json", "w") as f:
        json.dump({"moefold": "run", "outcome": "finished", "ranks": k["cluster.n_gpus"], "delay_seconds": busy,
                   "step_seconds": [step + b for b in busy],
                   "measured": {"step_s": step, "parts": [{"name": n, "seconds": s} for n, s in parts.items()]}}, f)
