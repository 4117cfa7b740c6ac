#!/usr/bin/env bash
# Predicted beside measured step times of small recipes on this machine: `moefold bench` first, then every recipe once in each of
# ROUNDS (3) rounds, so that a busy minute hits all alike. Of a run the median of its steps counts (without the first), of the rounds
# the median. A run beside which other programs took more than a tenth of the cores is marked with *, and left out where
# another round was quiet. Memory is compared as far as the line prints it.
# KEEP=1: take hardware/local*.yaml as they are instead of measuring.
set -eu
moefold=${MOEFOLD:-./moefold}
rounds=${ROUNDS:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

shape=(cluster.gpu=cpu model.num_layers=4 model.hidden_size=256 model.num_attention_heads=4 model.num_query_groups=2
    model.kv_channels=64 model.num_moe_experts=8 model.moe_router_topk=2 model.moe_ffn_hidden_size=512 model.vocab_size=8192
    model.seq_length=512 train.micro_batch_size=1 train.global_batch_size=4 train.train_iters=7 logger.log_interval=1
    model.moe_router_force_load_balancing=true)
names=("1 rank" "1 rank, length 2048" "1 rank, wide" "2 ranks, DP" "2 ranks, EP" "2 ranks, TP" "2 ranks, PP" "2 ranks, CP" "4 ranks, TP x EP")
ranks=(1 1 1 2 2 2 2 2 4)
words=("" "model.seq_length=2048 train.global_batch_size=1" "model.hidden_size=512 model.num_attention_heads=8 train.global_batch_size=2"
    "" "model.expert_model_parallel_size=2" "model.tensor_model_parallel_size=2" "model.pipeline_model_parallel_size=2"
    "model.context_parallel_size=2" "model.tensor_model_parallel_size=2 model.expert_model_parallel_size=2")

# seconds that all programs, and that children of this shell, have computed; hundredths
computed() { awk '/^cpu /{print $2 + $3 + $4 + $7 + $8 + $9}' /proc/stat; }
own() { awk '{print $16 + $17}' "/proc/$$/stat"; }

median() { sort -g | awk '{t[NR] = $1} END {if (NR) print t[int((NR + 1) / 2)]}'; }

# $1 recipe: writes its steps' median in seconds to $work/$1.quiet or $work/$1.busy
run() {
    local i=$1 out=$work/out before own0 start share
    local extra=(${words[i]})
    [ "${ranks[i]}" -gt 1 ] && extra+=(--ranks "${ranks[i]}")
    before=$(computed) own0=$(own) start=${EPOCHREALTIME/./}
    "$moefold" train tiny "${shape[@]}" "${extra[@]}" --json --predict >"$out" 2>"$work/err" || { tail -3 "$work/err" >&2; return 1; }
    share=$(awk -v a="$(($(computed) - before))" -v o="$(($(own) - own0))" -v t="$((${EPOCHREALTIME/./} - start))" -v n="$(nproc)" \
        'BEGIN {s = (a - o) / 100 / (t * 1e-6 * n); print (s > 0.1) ? "busy" : "quiet"}')
    grep -o '"elapsed_ms": *[0-9.e-]*' "$out" | awk -F: '{print $2 / 1000}' | tail -n +2 | median >>"$work/$i.$share"
    grep -A 20 'seconds per step, predicted from' "$work/err" >"$work/$i.table"
    grep -o 'mem-max-allocated-gigabytes: [0-9.]*' "$work/err" | sed 's/.*: //' >"$work/$i.memory"
}

# $1 recipe, $2 key of `price --json`
priced() {
    local extra=(${words[$1]})
    "$moefold" price tiny "${shape[@]}" "${extra[@]}" "cluster.n_gpus=${ranks[$1]}" "cluster.gpus_per_node=${ranks[$1]}" --json |
        grep -o "\"$2\": *[0-9.e+-]*" | head -1 | sed 's/.*: *//'
}

[ -n "${KEEP:-}" ] || "$moefold" bench
for _ in $(seq "$rounds"); do
    for i in "${!names[@]}"; do run "$i"; done
done
printf '%-22s %12s %12s %8s   %s\n' recipe 'predicted s' 'measured s' error 'memory, GB predicted and measured'
for i in "${!names[@]}"; do
    from=$work/$i.quiet mark=
    [ -s "$from" ] || { from=$work/$i.busy mark='*'; }
    awk -v name="${names[i]}" -v p="$(priced "$i" step_s)" -v m="$(median <"$from")" -v mark="$mark" -v bytes="$(priced "$i" peak_bytes)" \
        -v held="$(cat "$work/$i.memory")" \
        'BEGIN {printf "%-22s %12.4f %12.4f %7.1f%%%s  %.6f %s\n", name, p, m, 100 * (p / m - 1), mark, bytes / 1e9, held}'
done
if [ -n "${TABLES:-}" ]; then
    for i in "${!names[@]}"; do
        echo "${names[i]}"
        cat "$work/$i.table"
    done
fi
