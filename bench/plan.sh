#!/bin/sh
# plan.sh - how fast `moefold plan` judges layouts: two searches on one core.
set -e
program=${MOEFOLD:-./moefold}
for words in "deepseek-v3 --gpus 256xH100 --seq 131072" "qwen3-235b-a22b --gpus 256xGB200 --seq 4096"; do
    # shellcheck disable=SC2086
    "$program" plan $words --json | python3 -c '
import json, sys
o = json.load(sys.stdin)
j = o["judged"]
n = sum(j[k] for k in ("state", "saved", "slow", "played", "summed"))
b = o["best"][0] if o["best"] else {}
print("%-50s %12d layouts %7.2f s %12.0f a second; best %.3f s" % (
    sys.argv[1], n, j["seconds"], n / j["seconds"], b.get("step_s", float("nan"))))' "$words"
done
