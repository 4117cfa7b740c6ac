#!/usr/bin/env bash
# `moefold tune` against every combination, on this machine: from bad starts of a small model (microbatch, recompute,
# dispatcher; a memory limit; a crash), the chosen recipe and the best of all are measured again in turns.
# Combinations are measured once for all starts of one rank, once for those of two; the three fastest twice more, in turn.
# TUNE_CASES="microbatch ..." does only those; TUNE_ROUNDS (10) of chosen and best in turn; TUNE_STEPS of a trial (12; 0: as
# `tune` itself chooses); TUNE_SECONDS (1200): no case begins later. Ends with one table and a verdict for each case: yes
# where the median of chosen over best is at most 1.03, in fewer trials than a third of the combinations. "Perhaps": the
# median is above, but by less than half of the rounds differ from one another. Exit code 1: not all are yes.
set -eu
moefold=$(readlink -f "${MOEFOLD:-./moefold}")
moefold_test=${MOEFOLD_TEST:-$(dirname "$moefold")/moefold-test} # starts other programs for trials
export OMP_WAIT_POLICY=passive MOEFOLD=$moefold
python3 - "$moefold" <<'PY'
import itertools, json, os, subprocess, statistics, sys, tempfile, time

moefold, rounds = sys.argv[1], int(os.environ.get("TUNE_ROUNDS", "10"))
JOB = ["tiny", "cluster.gpu=cpu", "seq=128", "gbs=16"]
NONE = ["model.recompute_method=null", "model.recompute_num_layers=null"]
FULL = ["model.recompute_granularity=full", "model.recompute_method=uniform", "model.recompute_num_layers=1", "model.recompute_modules=null"]
RECOMPUTE = [["model.recompute_granularity=null", "model.recompute_modules=null", *NONE]] + [
    ["model.recompute_granularity=selective", "model.recompute_modules=" + m, *NONE]
    for m in ("[layernorm]", "[moe_act]", "[layernorm,moe_act]", "[moe]", "[moe,layernorm]", "[core_attn]")] + [FULL]
TWO = ["cluster.n_gpus=2", "ep=2"]
DISPATCH = [["model.moe_token_dispatcher_type=" + d] for d in ("alltoall", "allgather")]
CASES = {
    "microbatch": (JOB, ["mbs=1"], RECOMPUTE, [[]], {}),
    "recompute": (JOB, ["mbs=4", *FULL[:3]], RECOMPUTE, [[]], {}),
    "dispatcher": (JOB + TWO, ["mbs=2", "model.moe_token_dispatcher_type=allgather"], RECOMPUTE[::2], DISPATCH, {}),
    "limited": (JOB + ["moefold.memory_limit=45000000"], ["mbs=1"], RECOMPUTE, [[]], {}),
    "crashing": (JOB, ["mbs=1"], RECOMPUTE, [[]], {"CRASH": "8"}),
}
STEPS = 8
trial_steps = os.environ.get("TUNE_STEPS", "12")
known = {}  # seconds of combinations, by their words without a memory limit
disturbed = [0]  # runs in which others had the cores for more than 2 % of a step


def measure(words, ranks):
    """Lower quartile of steps, in a process of its own: of one rank without the seconds in which other programs
    had its core, of two by the clock. None: it does not run."""
    with tempfile.TemporaryDirectory() as d:
        run = [moefold, "train", *words, "train.train_iters=%d" % STEPS, "--threads", "1", "--run", d + "/run"]
        if ranks > 1:
            run += ["--ranks", str(ranks)]
        if subprocess.run(run, capture_output=True).returncode:
            return None
        o = json.load(open(d + "/run/summary.json"))
        if o["delay_s"] > 0.02 * statistics.mean(o["step_seconds"]):
            disturbed[0] += 1
        s = sorted(x - (y if ranks == 1 else 0) for x, y in zip(o["step_seconds"], o["delay_seconds"]))
        return s[len(s) // 4]


def fits(words):
    p = subprocess.run([moefold, "check", *words], capture_output=True, text=True)
    return p.returncode == 0


def all_times(job, recompute, dispatch, ranks, crash):
    """Seconds of every combination that fits and does not crash."""
    times = {}
    for m, r, x in itertools.product((1, 2, 4, 8, 16), recompute, dispatch):
        words = (*job, "mbs=%d" % m, *r, *x)
        key = tuple(w for w in words if not w.startswith("moefold.memory_limit"))
        if str(m) == crash or not fits(words):
            continue
        if key not in known:
            known[key] = measure(key, ranks)
        if known[key]:
            times[words] = known[key]
    return times


def fastest(times, ranks):
    """Of one time each the least is a lucky one: the first three run twice more, in turn."""
    first = sorted(times, key=times.get)[:3]
    again = {w: [times[w]] for w in first}
    for i in range(2):
        for w in first[::-1] if i % 2 else first:
            again[w].append(measure(w, ranks) or times[w])
    return min(first, key=lambda w: statistics.median(again[w]))


def crash_program(folder, micro):
    """Stands in for the program: trials of one microbatch crash."""
    path = folder + "/crashes"
    with open(path, "w") as f:
        f.write('#!/bin/bash\ngrep -q "micro_batch_size: %s$" "$2" && kill -SEGV $$\nexec "%s" "$@"\n' % (micro, moefold))
    os.chmod(path, 0o755)
    return path


def verdict(ratios, trials, combinations):
    """The median, and whether it is as wanted."""
    s = sorted(ratios)
    median, half = statistics.median(s), s[-1 - len(s) // 4] - s[len(s) // 4]
    if 3 * trials >= combinations:
        return "no: too many trials"
    return "yes" if median <= 1.03 else "perhaps" if median - half <= 1.03 else "no"


table = [("start", "combinations", "trials", "chosen over best", "range of %d rounds" % rounds, "walls", "seconds", "as asked")]
cases = os.environ.get("TUNE_CASES", " ".join(CASES)).split()
strange = [c for c in cases if c not in CASES]
if strange:
    sys.exit("tune.sh: TUNE_CASES=%s: no such case; there are %s" % (" ".join(strange), " ".join(CASES)))
first = time.monotonic()
for name in cases:
    job, start, recompute, dispatch, more = CASES[name]
    ranks = 2 if "ep=2" in job else 1
    begun = time.monotonic()
    if begun - first > float(os.environ.get("TUNE_SECONDS", "1200")):
        table.append((name, "", "", "", "", "", "", "not run: no time"))
        continue
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ)
        if "CRASH" in more:
            env["MOEFOLD_TUNE_PROGRAM"] = crash_program(d, more["CRASH"])
        out = subprocess.run([moefold_test if "CRASH" in more else moefold, "tune", *job, *start, "--threads", "1", "--dir", d + "/t", "--json",
                              *(["--steps", trial_steps] if trial_steps != "0" else [])], env=env, capture_output=True, text=True)
        if out.returncode:
            print(name, "FAILED", out.stderr, flush=True)
            table.append((name, "", "", "", "", "", "", "no: tune failed"))
            continue
        answer = json.loads(out.stdout)
        if answer["best"] is None:
            print(name, "FAILED: no trial was measured:", answer["trials"][-1]["said"], flush=True)
            table.append((name, "", "%d" % len(answer["trials"]), "", "", "", "", "no: nothing was measured"))
            continue
        chosen = answer["trials"][answer["best"]]
        choice = [d + "/t/best.yaml"]
        tuned = time.monotonic() - begun
        times = all_times(job, recompute, dispatch, ranks, more.get("CRASH"))
        best = fastest(times, ranks)
        ratios = []
        for i in range(rounds):
            pair = [measure(w, ranks) for w in ((choice, best) if i % 2 else (best, choice))]
            a, b = pair if i % 2 else pair[::-1]
            ratios.append(a / b)
        ends = sorted({t["end"] for t in answer["trials"]})
        walls = [t["wall"] for t in answer["trials"]]
        print("%-11s chosen over best of %d: median %.3f (%.3f to %.3f) in %d rounds; %d trials (%s); walls %s" % (
            name, len(times), statistics.median(ratios), min(ratios), max(ratios), rounds, len(answer["trials"]),
            ", ".join(ends), ",".join(w or "-" for w in walls)))
        print("            %.0f s, of which tuning %.0f s; others had the cores in %d of the runs of this comparison" % (
            time.monotonic() - begun, tuned, disturbed[0]))
        disturbed[0] = 0
        n = len(answer["trials"])
        table.append((name, "%d" % len(times), "%d" % n, "%.3f" % statistics.median(ratios), "%.3f to %.3f" % (min(ratios), max(ratios)),
                      " ".join(sorted({w or "-" for w in walls})), "%.0f" % (time.monotonic() - begun), verdict(ratios, n, len(times))))
        print("            chosen %s; best %s" % (chosen["change"] or "the start", " ".join(best[len(job):])), flush=True)
print()
for i, row in enumerate(table):
    print("| " + " | ".join(row) + " |")
    if i == 0:
        print("|" + "---|" * len(row))
sys.exit(any(row[-1] != "yes" for row in table[1:]))
PY
