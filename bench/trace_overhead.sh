#!/usr/bin/env bash
# What a trace costs: runs in which every other step is traced. From the repository's root.
#   ROUNDS=6 bench/trace_overhead.sh tiny cluster.gpu=cpu tp=2 pp=2 ep=2 etp=1 mbs=1 gbs=16 seq=256 --ranks 8
# A traced step is set against the mean of the two beside it, so that what else the machine does moves both. Prints for
# each run the median of these ratios, of the step's seconds and of those without what rank 0 lost to other programs; then of all.
set -euo pipefail
moefold=${MOEFOLD:-./moefold} rounds=${ROUNDS:-6} steps=${STEPS:-60}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- tiny cluster.gpu=cpu mbs=1 gbs=8 seq=256 --threads 1
for ((i = 1; i <= rounds; i++)); do
    MOEFOLD_TRACE_EVERY_OTHER=1 "$moefold" train "$@" train.train_iters="$steps" --run "$work/$i" --trace-steps "2-$steps" \
        >/dev/null 2>"$work/log" || {
        tail -3 "$work/log" >&2
        exit 1
    }
    python3 - "$work" "$i" "$rounds" <<'PY'
import json, statistics, sys
work, now, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def ratios(i):  # the first in the lists is the second step, which is traced
    s = json.load(open(f"{work}/{i}/summary.json"))
    s["own"] = [x - y for x, y in zip(s["step_seconds"], s["delay_seconds"])]
    of = lambda x: [2 * x[k] / (x[k - 1] + x[k + 1]) for k in range(2, len(x) - 1, 2)]
    least = lambda x: [sorted(x[k::2])[len(x) // 20] * 1e3 for k in (1, 2)]
    return of(s["step_seconds"]), of(s["own"]), least(s["step_seconds"]), least(s["own"])
def line(name, lists):
    wall, core = (statistics.median(sum((l[k] for l in lists), [])) for k in (0, 1))
    print(f"{name}: traced over untraced step {wall:.4f}, without delays {core:.4f} ({len(lists[0][0]) * len(lists)} traced steps)", end="")
one = ratios(now)
line(f"run {now}", [one])
print("; fastest tenth %.3f and %.3f ms, without delays %.3f and %.3f ms" % (*one[2], *one[3]), flush=True)
if now == rounds:
    line("all", [ratios(i) for i in range(1, rounds + 1)])
    print()
PY
done
