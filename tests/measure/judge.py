#!/usr/bin/env python3
"""judge.py ANSWER.json START... - what `tune --json` chose beside all 40 combinations of microbatch and recompute (and,
with EP, dispatchers instead of some of them), each measured on the invented machine of machine.py."""
import itertools, json, os, sys

sys.path.insert(0, os.path.dirname(__file__))
import machine

answer, start = json.load(open(sys.argv[1])), sys.argv[2:]
job = [w for w in start if not w.startswith(("mbs=", "model.recompute_", "model.moe_token_dispatcher"))]
NONE = ["model.recompute_method=null", "model.recompute_num_layers=null"]
recompute = [["model.recompute_granularity=null", "model.recompute_modules=null", *NONE]]
for m in ("[layernorm]", "[moe_act]", "[layernorm,moe_act]", "[moe,layernorm]"):
    recompute.append(["model.recompute_granularity=selective", "model.recompute_modules=" + m, *NONE])
recompute.append(["model.recompute_granularity=full", "model.recompute_method=uniform", "model.recompute_num_layers=1",
                  "model.recompute_modules=null"])
dispatch = [[]]
if any(w.startswith("ep=") for w in start):
    dispatch = [["model.moe_token_dispatcher_type=alltoall"], ["model.moe_token_dispatcher_type=allgather"]]
    recompute = recompute[::2]
batches = [1, 2, 4, 8, 16]
times = {}
for m, r, d in itertools.product(batches, recompute, dispatch):
    fail = os.environ.get("FAIL")
    if fail and eval(fail, {"k": {"train.micro_batch_size": m}}):
        continue
    words = [*job, "train.micro_batch_size=%d" % m, *r, *d]
    try:
        parts, p = machine.step_of(words)
    except SystemExit:
        continue
    if p["fits"] and not p["violations"]:
        times[tuple(words)] = sum(parts.values())
assert 8 <= len(times) <= 40, len(times)
best = min(times.values())
trials = answer["trials"]
chosen = trials[answer["best"]]
ratio = chosen["step_s"] / best
print("chosen %.5f s, best of %d %.5f s: ratio %.4f in %d trials; %s" % (
    chosen["step_s"], len(times), best, ratio, len(trials), chosen["change"]))
assert ratio <= 1.03, ratio
assert len(trials) < 40 / 3, len(trials)
