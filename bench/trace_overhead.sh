#!/usr/bin/env bash
# What a trace costs: the same run with every step traced and with none, in turn. From the repository's root.
#   ROUNDS=6 bench/trace_overhead.sh tiny cluster.gpu=cpu tp=2 pp=2 ep=2 etp=1 mbs=1 gbs=16 seq=256 --ranks 8
# Prints each round's medians of steps, and the median of their ratios.
set -euo pipefail
moefold=${MOEFOLD:-./moefold} rounds=${ROUNDS:-6} steps=${STEPS:-30}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- tiny cluster.gpu=cpu mbs=1 gbs=8 seq=256 --threads 1
run() { # FILE WORDS...
    "$moefold" train "${@:2}" train.train_iters="$steps" logger.log_interval=1 --metrics "$1" >/dev/null 2>"$work/log" || {
        tail -3 "$work/log" >&2
        exit 1
    }
}
for ((i = 1; i <= rounds; i++)); do
    run "$work/plain$i" "$@"
    run "$work/traced$i" "$@" --trace "$work/t.json.gz" --trace-steps "3-$steps"
done
python3 - "$work" "$rounds" <<'PY'
import json, statistics, sys
def steps(path):
    return [json.loads(l)["elapsed_ms"] for l in open(path) if '"iteration"' in l][3:]
ratios, least = [], [[], []]
for i in range(1, int(sys.argv[2]) + 1):
    a, b = (steps(f"{sys.argv[1]}/{n}{i}") for n in ("plain", "traced"))
    x, y = statistics.median(a), statistics.median(b)
    least[0] += a
    least[1] += b
    ratios.append(y / x)
    print(f"round {i}: plain {x:.3f} ms, traced {y:.3f} ms, ratio {y / x:.4f}")
low = [sorted(l)[len(l) // 10] for l in least]
print(f"median of ratios {statistics.median(ratios):.4f}; tenth part of all steps {low[0]:.3f} and {low[1]:.3f} ms, ratio {low[1] / low[0]:.4f}")
PY
