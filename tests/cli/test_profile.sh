#!/usr/bin/env bash
# `moefold profile`: profiles and logs of other programs beside the price. From the repository's root.
. tests/cli/saying.sh
data=tests/data/profile
small=(qwen3-30b-a3b model.num_layers=4 --gpus 1xH200 seq=4K)

expect the_small_batch_is_bound_by_the_host 0 '^LIMITED +by the host .launches.: [5-9][0-9] %' \
    "$moefold" profile "${small[@]}" gbs=1 mbs=1 $data/megatron-1x4k.json.gz --without optimizer
expect the_large_one_computes 0 '^LIMITED +by compute' \
    "$moefold" profile "${small[@]}" gbs=8 mbs=8 $data/megatron-8x4k.json.gz --without optimizer
expect all_figures_are_there 0 '^Wall +host: [5-9][0-9] %' \
    "$moefold" profile "${small[@]}" gbs=1 mbs=1 $data/megatron-1x4k.json.gz --without optimizer --everything
expect the_reasons_alone 0 '^Host +launches these late: expert GEMM' \
    "$moefold" profile "${small[@]}" gbs=1 mbs=1 $data/megatron-1x4k.json.gz --without optimizer --why
expect graphs_are_a_fix_of_the_host 0 'cuda_graph_impl=transformer_engine' \
    "$moefold" profile "${small[@]}" gbs=1 mbs=1 $data/megatron-1x4k.json.gz
expect a_log_is_taken 0 '^STEP +21.10 s .21.0 to 21.2. measured, the median of the last 2' \
    "$moefold" profile recipes/qwen3-30b-4k-h100.yaml $data/megatron.log
expect another_gpu_is_said 0 'measured on NVIDIA H200, predicted for H100' \
    "$moefold" profile recipes/qwen3-30b-4k-h100.yaml $data/nsight.sqlite

# Rows add up on both sides; both readers explain the same events alike.
"$moefold" profile "${small[@]}" gbs=1 mbs=1 $data/megatron-1x4k.json.gz --without optimizer --json >"$work/torch.json"
python3 tests/measure/nsight_of.py $data/megatron-1x4k.json.gz "$work/all.sqlite"
"$moefold" profile "${small[@]}" gbs=1 mbs=1 "$work/all.sqlite" --without optimizer --json >"$work/nsight.json"
judged() {
    python3 - "$work/torch.json" "$work/nsight.json" <<'PY'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
for d in a, b:
    for key in "measured", "predicted":
        total = sum(r[key + "_s"] for r in d["rows"])
        assert abs(total - d[key + "_step_s"]) < 1e-6 * total, (key, total, d[key + "_step_s"])
    assert d["explained"] >= 0.95 and not d["unknown"], d["explained"]
    assert d["wall"] == "host" and d["fixes"][0]["change"] is None
x = {r["name"]: r["measured_s"] for r in a["rows"]}
y = {r["name"]: r["measured_s"] for r in b["rows"]}
for name in x:  # nsys does not tell of PyTorch's profiler, which is then the host's
    if name not in ("profiler", "launches"):
        assert abs(x[name] - y[name]) <= 1e-3 * x[name] + 1e-6, (name, x[name], y[name])
assert abs(x["profiler"] + x["launches"] - y["launches"]) < 1e-3 * y["launches"]
PY
}
check both_readers_agree judged

expect no_file 2 'no profile is named' "$moefold" profile tiny
expect missing_file 2 'none.json: No such file' "$moefold" profile tiny none.json
expect a_folder 2 'is a folder' "$moefold" profile tiny tests
expect other_program 2 "none of its [0-9]+ lines is an iteration line" "$moefold" profile tiny README.md
: >"$work/empty"
expect empty_file 2 'is empty; repair' "$moefold" profile tiny "$work/empty"
head -c 200000 $data/megatron-1x4k.json.gz >"$work/cut.json.gz"
expect truncated 2 'cut short; repair' "$moefold" profile tiny "$work/cut.json.gz"
gzip -dc $data/megatron-1x4k.json.gz | head -c 3000000 >"$work/cut.json"
expect truncated_plain 2 'cut short after 3000000 bytes' "$moefold" profile tiny "$work/cut.json"
head -c 20000 $data/nsight.sqlite >"$work/cut.sqlite"
expect truncated_export 2 'SQLite cannot read it|without kernels' "$moefold" profile tiny "$work/cut.sqlite"
# What launchers write before a line changes nothing, and '[' is no trace.
tagged() { # NAME TAG
    sed "s/^/$2/" $data/megatron.log >"$work/tagged.log"
    expect "$1" 0 '^STEP +21.10 s .21.0 to 21.2. measured, the median of the last 2' "$moefold" profile recipes/qwen3-30b-4k-h100.yaml "$work/tagged.log"
    check "$1_keeps_timers" cmp -s <("$moefold" profile recipes/qwen3-30b-4k-h100.yaml $data/megatron.log --everything | grep -v '^FILE\|^Profile\|^STEP\|megatron.log\|median') \
        <("$moefold" profile recipes/qwen3-30b-4k-h100.yaml "$work/tagged.log" --everything | grep -v '^FILE\|^Profile\|^STEP\|tagged.log\|median')
}
tagged log_of_torchrun '[default0]:'
tagged log_of_a_rank '[rank3]: '
tagged log_with_dates '[2026-11-18 10:00:00] '
tagged log_of_srun '3: [default3]:'
{ echo '[####----] step 1 of 2'; cat $data/megatron.log; } >"$work/progress.log"
expect log_of_our_progress 0 '^STEP +21.10 s .21.0 to 21.2. measured, the median of the last 2' "$moefold" profile recipes/qwen3-30b-4k-h100.yaml "$work/progress.log"
expect other_part 2 "only the optimizer can be left out" "$moefold" profile tiny $data/megatron.log --without head
"$moefold" price tiny --trace "$work/ours.json" >/dev/null
expect our_own_trace 2 'moefold trace A B' "$moefold" profile tiny "$work/ours.json"

# ---- nothing that stands in an SQLite file is run, and SQLite waits for nothing beside it
python3 - "$work/view.sqlite" "$work/computed.sqlite" <<'PY'
import sqlite3, sys
names = "create table StringIds (id integer not null primary key, value text%s);"
endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select n as start, n as end, 0 as deviceId, " \
    "0 as streamId, n as correlationId, 0 as globalPid, 1 as demangledName from c where n < 0"
sqlite3.connect(sys.argv[1]).executescript(names % "" + "create view CUPTI_ACTIVITY_KIND_KERNEL as " + endless)
sqlite3.connect(sys.argv[2]).executescript(names % " as (hex(zeroblob(500000000)))")
PY
expect a_view_that_never_ends 2 'CUPTI_ACTIVITY_KIND_KERNEL is not a plain table' timeout 10 "$moefold" profile tiny "$work/view.sqlite"
expect a_computed_column 2 'StringIds is not a plain table' timeout 10 "$moefold" profile tiny "$work/computed.sqlite"
cp tests/data/profile/nsight.sqlite "$work/export.sqlite" && mkfifo "$work/export.sqlite-journal"
expect a_pipe_beside_an_export 2 'journal: is not a file' timeout 10 "$moefold" profile tiny "$work/export.sqlite"
exit $failed
