#!/usr/bin/env bash
# What a trace costs: runs in which every other step is traced. From the repository's root.
#   bench/trace_overhead.sh                    eight CPU ranks of `tiny`, 170 s; ends with a verdict
#   bench/trace_overhead.sh RECIPE WORDS ...   any other run, as `moefold train` takes it
# SECONDS_MAX (170): no run begins later than would end by then; ROUNDS: so many runs at most; STEPS (120) of a run.
# A traced step is set against the geometric mean of the two beside it, so that what else the machine does moves both. The
# figure is the mean of the middle half of the logarithms of all these ratios. Its interval (95 %) is read off 2,000 samples
# of stretches of ten ratios in a row: neighbours share steps, and disturbances last. It is below 1 % where the whole
# interval is; an interval of more than 2 % says nothing. "Without delays": of rank 0 without the seconds in which another program had its core.
# Exit code: 0 below 1 %, 1 not below, 3 cannot be told.
set -euo pipefail
moefold=${MOEFOLD:-./moefold} rounds=${ROUNDS:-1000} steps=${STEPS:-120} limit=${SECONDS_MAX:-170}
moefold_test=${MOEFOLD_TEST:-$(dirname "$(readlink -f "$moefold")")/moefold-test} # leaves out every other step
for word in "$rounds" "$steps" "$limit"; do
    case $word in '' | *[!0-9]* | 0*)
        echo "trace_overhead: ROUNDS=$rounds STEPS=$steps SECONDS_MAX=$limit: whole numbers of at least 1 are needed" >&2
        exit 2
        ;;
    esac
done
[ "$steps" -ge 30 ] || { echo "trace_overhead: STEPS=$steps: at least 30 are needed" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive
[ $# -gt 0 ] || set -- tiny cluster.gpu=cpu tp=2 pp=2 ep=2 etp=1 mbs=1 gbs=16 seq=256 --ranks 8
echo "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) before; $*"
SECONDS=0
for ((i = 1; i <= rounds; i++)); do
    from=$SECONDS
    MOEFOLD_TRACE_EVERY_OTHER=1 "$moefold_test" train "$@" train.train_iters="$steps" --run "$work/$i" --trace-steps "2-$steps" \
        >/dev/null 2>"$work/log" || {
        tail -3 "$work/log" >&2
        exit 2
    }
    [ $((2 * SECONDS - from)) -le "$limit" ] || break
done
python3 - "$work" "$SECONDS" <<'PY'
import glob, json, math, random, statistics, sys

STRETCH, SAMPLES = 10, 2000


def ratios(seconds):
    """Logarithms; the first in the list is the second step, which is traced."""
    x = [math.log(max(s, 1e-9)) for s in seconds]
    return [x[k] - (x[k - 1] + x[k + 1]) / 2 for k in range(2, len(x) - 1, 2)]


def middle(x):
    x = sorted(x)
    n = len(x) // 4
    return statistics.mean(x[n:len(x) - n])


def figure(runs):
    """Percent: all, and both ends of its interval."""
    stretches = [r[k:k + STRETCH] for r in runs for k in range(0, len(r) - STRETCH + 1)]
    n = sum(len(r) for r in runs)
    rng = random.Random(1)
    seen = sorted(middle(sum(rng.choices(stretches, k=-(-n // STRETCH)), [])) for _ in range(SAMPLES))
    return [100 * math.expm1(x) for x in (middle(sum(runs, [])), seen[SAMPLES // 40], seen[-SAMPLES // 40])]


runs, own, steps, lost = [], [], [], []
for path in sorted(glob.glob(sys.argv[1] + "/*/summary.json"), key=lambda p: int(p.split("/")[-2])):
    s = json.load(open(path))
    runs.append(ratios(s["step_seconds"]))
    own.append(ratios([x - y for x, y in zip(s["step_seconds"], s["delay_seconds"])]))
    steps += s["step_seconds"]
    lost += s["delay_seconds"]
print("each run: " + " ".join("%+.2f" % (100 * math.expm1(middle(r))) for r in runs) + " %")
wall, alone = figure(runs), figure(own)
print("%d runs, %d traced steps of %.1f ms; rank 0 waited for a core for %.1f %% of the time" % (
    len(runs), sum(map(len, runs)), 1e3 * statistics.median(steps), 100 * sum(lost) / sum(steps)))
print("without delays: %+.2f %% (%+.2f to %+.2f)" % tuple(alone))
known = wall[2] - wall[1] <= 2 and not wall[1] < 1 <= wall[2]
verdict = "cannot be told: longer, or on a quieter machine" if not known else "below 1 %" if wall[2] < 1 else "not below 1 %"
if not known:  # an interval is half as wide after four times as long
    wanted = min(1, max(abs(1 - wall[0]), 0.05))
    verdict += "; about %.0f s are needed as it is now" % (float(sys.argv[2]) * ((wall[2] - wall[1]) / 2 / wanted) ** 2)
print("a traced step takes %+.2f %% (95 %%: %+.2f to %+.2f): %s" % (*wall, verdict))
sys.exit(3 if not known else 0 if wall[2] < 1 else 1)
PY
