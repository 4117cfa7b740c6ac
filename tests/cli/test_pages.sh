#!/usr/bin/env bash
# What a reader sees of reports: the pages of forty inputs in Chromium, wide and narrow, light, dark and on paper
# (page_browser.js). --pages DIR keeps them. From the repository's root.
. tests/cli/saying.sh
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ] || ! command -v node >/dev/null; then
    echo "ok pages_can_be_read # skip there is no chromium or no node"
    exit 0
fi
export CHROMIUM=$chromium
dir=$work
if [ "${1:-}" = --pages ]; then mkdir -p "$2" && dir=$2; fi
pages=()
page() { # NAME [CODE] then words of report
    local name=$1 code=0
    shift
    case $1 in [0-9]) code=$1 && shift ;; esac
    expect "${name}_is_written" "$code" 'Written to' "$moefold" report "$@" -o "$dir/$name.html"
    pages+=("$name")
}
planned() { # NAME CODE then words of plan
    local name=$1 code=$2
    shift 2
    "$moefold" plan "$@" --json >"$work/$name.json" 2>"$work/log"
    page "$name" "$code" "$work/$name.json"
}

# ---- plans: every GPU, dense and MoE, found, cut short, and none
planned plan-h100 0 deepseek-v3 --gpus 256xH100 --seq 128K
planned plan-h200 0 qwen3-30b-a3b --gpus 16xH200 --seq 32K
planned plan-h800 0 deepseek-v2 --gpus 64xH800 --seq 4K
planned plan-b200 0 gpt-oss-120b --gpus 64xB200 --seq 8K
planned plan-b300 0 mixtral-8x22b --gpus 32xB300 --seq 8K
planned plan-gb200 0 qwen3-235b-a22b --gpus 64xGB200 --seq 4K
planned plan-gb300 0 llama-3.1-70b --gpus 64xGB300 --seq 8K
planned plan-a100 0 llama-3-8b --gpus 8xA100 --seq 4K
planned plan-cpu 0 tiny --gpus 4xcpu --seq 64
planned plan-against 0 qwen3-30b-a3b --gpus 16xH100 --seq 4K --against recipes/qwen3-30b-4k-h100.yaml
planned plan-none 1 deepseek-v3 --gpus 8xH100 --seq 4K --seconds 5
planned plan-none-more 1 deepseek-v3 --gpus 16xH100 --seq 4K --seconds 5 --more
planned plan-illegal 1 qwen3-30b-a3b --gpus 16xH100 --seq 4K --pin tp=3

# ---- recipes: MoE and dense, with a search and without, that do not fit, that break rules
page moe recipes/dsv3-128k-h100.yaml
page moe-overlap recipes/qwen3-30b-4k-overlap-h100.yaml
page moe-gb200 recipes/qwen3-235b-128k-gb200.yaml --brief
page delta recipes/qwen3-next-8k-gb200.yaml --brief
page dense llama-3-8b --gpus 8xH100 tp=2 gbs=64 seq=8K
page dense-one qwen3-0.6b --gpus 1xH100 seq=4K gbs=8
page dense-large 1 llama-3-70b --gpus 8xH100 tp=8 gbs=16 seq=8K
page too-large 1 recipes/dsv3-128k-h100.yaml mbs=8 --brief
page too-large-searched 1 recipes/qwen3-30b-4k-h100.yaml mbs=16
page refused 1 recipes/qwen3-30b-4k-h100.yaml tp=3 ep=7
page not-known 1 qwen3-30b-a3b --gpus 16xH100 optimizer.optimizer=muon
page broken 1 recipes/dsv3-128k-h100.yaml gbs=60 --brief
page on-cpu tiny cluster.gpu=cpu cluster.n_gpus=8 tp=2 pp=2 vpp=2 ep=4 etp=1 mbs=1 gbs=16 seq=256
page ours tiny cluster.gpu=h100 moefold.target=moefold --gpus 8xH100 gbs=16
page deep 1 llama-3.1-405b --gpus 512xH100 tp=8 pp=16 gbs=64 seq=8K --brief

# ---- trials of an invented machine, and profiles beside their recipes
MOEFOLD=$moefold CACHE=$work/cache MOEFOLD_TUNE_PROGRAM=$PWD/tests/measure/machine.py "$moefold_test" tune tiny cluster.gpu=cpu \
    seq=64 gbs=16 mbs=1 --dir "$work/tuned" >"$work/log" 2>&1 || cat "$work/log"
page tuned "$work/tuned"
page profile qwen3-30b-a3b model.num_layers=4 --gpus 1xH200 seq=4K gbs=1 mbs=1 tests/data/profile/megatron-1x4k.json.gz --without optimizer
page log recipes/qwen3-30b-4k-h100.yaml tests/data/profile/megatron.log

# ---- runs: finished, going on, failed, of a dense model
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
trained() { # NAME then words of train
    local name=$1
    shift
    "$moefold" train "$@" --run "$work/$name" >"$work/log" 2>&1
}
trained moe-run tiny cluster.gpu=cpu pp=2 ep=2 etp=1 mbs=1 gbs=8 seq=64 train.train_iters=12 validation.eval_interval=4 validation.eval_iters=1 --ranks 4
page run "$work/moe-run"
mkdir "$work/half" && cp "$work/moe-run"/{recipe.yaml,metrics.jsonl} "$work/half" && printf '{"event":"itera' >>"$work/half/metrics.jsonl"
page run-half "$work/half"
trained dense-run tiny cluster.gpu=cpu model.num_moe_experts=null mbs=1 gbs=4 seq=64 train.train_iters=4
page run-dense "$work/dense-run"
cp -r "$work/moe-run" "$work/failed"
python3 - "$work/failed/summary.json" <<'PY'
import json, sys
s = json.load(open(sys.argv[1]))
s.update(outcome="failed", error="rank 2 lost its peer", iteration=7)
json.dump(s, open(sys.argv[1], "w"))
PY
page run-failed "$work/failed"

# ---- comparisons: of runs, recipes and logs
compared() { # NAME then words of diff
    local name=$1
    shift
    "$moefold" diff "$@" --json >"$work/$name.json" 2>"$work/log"
    page "$name" 0 "$work/$name.json"
}
compared diff-runs "$work/moe-run" "$work/dense-run"
compared diff-recipes recipes/dsv3-128k-h100.yaml recipes/dsv3-128k-h100-tp.yaml
compared diff-same recipes/qwen3-30b-4k-h100.yaml recipes/qwen3-30b-4k-h100.yaml
compared diff-broken tiny tiny tp=3 --gpus 8xH100
compared diff-logs tests/data/profile/megatron.log tests/data/profile/megatron.log

# ---- in the browser
sentence() { # NAME PATTERN: of its first screen
    expect "${1}_says_its_answer" 0 "$2" node tests/cli/page_browser.js --first "$dir/$1.html"
}
# One page in six here, every page where TEST_ALL is set: minutes.
files=()
for i in "${!pages[@]}"; do
    if [ -n "${TEST_ALL:-}" ] || ((i % 6 == 0)); then files+=("${pages[i]}.html"); fi
done
check every_page_can_be_read node tests/cli/page_browser.js "${files[@]/#/$dir/}"
sentence plan-h100 '^Use TP .*: [0-9.]+ s a step \([0-9.]+ to [0-9.]+\), fits with [0-9.]+ .iB free\.$'
sentence plan-none '^Nothing fits on 8 x H100: the nearest layout needs .*, and .* can be used(; [0-9]+ GPUs are the smallest cluster that is enough)?\.$'
sentence plan-illegal '^No layout on 16 x H100: every one breaks 2 rules'
sentence moe '^Fits with [0-9.]+ GiB free, at .* a step \(.*\)(; a searched layout is [0-9.]+ % faster|; no searched layout is faster)\.$'
sentence refused '^No program can be built: it breaks [0-9]+ rules; [0-9]+ changed knobs would repair all of them\.$'
sentence broken '^Breaks 1 rule: '
sentence too-large '^Breaks 1 rule: .*; it does not fit: it needs .*more than can be used\.$'
sentence too-large-searched '^Does not fit: it needs .* more than can be used; a searched layout fits, at .* a step\.$'
sentence diff-recipes '^B is [0-9.]+ % slower than A: [0-9,]+ s a step, A [0-9,]+ s, with .* less memory\.$'
sentence diff-broken '^A has no step to compare: '
sentence run '^Loss [0-9.]+ to [0-9.]+ in 12 steps; '
sentence run-half '^Not finished: loss '
sentence run-failed '^Failed at step .* of 12: loss '
for name in plan-h100 moe run; do check "${name}_can_be_used" node tests/cli/page_browser.js --use "$dir/$name.html" "$dir/plan-none.html"; done
exit $failed
