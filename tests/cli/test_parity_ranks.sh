#!/usr/bin/env bash
# `moefold parity --ranks N`: the reference cases under the richest layouts that rules allow for each.
#
# Six runs, one a case, unless MOEFOLD_LAYOUTS=all asks for every line. A reference has two samples, so virtual stages (which
# need two microbatches) go with one replica.
set -u
moefold=${MOEFOLD:-./moefold}
failed=0

# words of the list below, as the overrides that they stand for
words() {
    local w
    for w; do
        case $w in
            TP*) echo "model.tensor_model_parallel_size=${w#TP}" ;;
            CP*) echo "model.context_parallel_size=${w#CP}" ;;
            EP*) echo "model.expert_model_parallel_size=${w#EP}" ;;
            ETP*) echo "model.expert_tensor_parallel_size=${w#ETP}" ;;
            PP*) echo "model.pipeline_model_parallel_size=${w#PP}" ;;
            VPP*) echo "model.virtual_pipeline_model_parallel_size=${w#VPP}" ;;
            stages:*) echo "model.pipeline_model_parallel_layout=${w#stages:}" ;;
            cp:a2a+p2p) echo "model.cp_comm_type=a2a+p2p model.hierarchical_context_parallel_sizes=[2,2]" ;;
            cp:latent) echo "moefold.mla_latent_ring=true" ;;
            cp:*) echo "model.cp_comm_type=${w#cp:}" ;;
            deepep | hybridep) echo "model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=$w" ;;
            alltoall | allgather) echo "model.moe_token_dispatcher_type=$w" ;;
            overlap:ep) echo "comm_overlap.overlap_moe_expert_parallel_comm=true" ;;
            overlap:wgrad) echo "comm_overlap.delay_wgrad_compute=true" ;;
            overlap:dp) echo "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.bucket_size=8000" ;;
            overlap:p2p) echo "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false" ;;
            overlap:tp) echo "comm_overlap.tp_comm_overlap=true" ;;
            overlap:shared) echo "model.moe_shared_expert_overlap=true" ;;
            recompute) echo "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1" ;;
            *) echo "not-a-word:$w" ;;
        esac
    done
}

# CASE RANKS WORDS...
run() {
    local name=$1 ranks=$2 out
    shift 2
    # shellcheck disable=SC2046
    if out=$("$moefold" parity "tests/data/golden/$name-tiny" --ranks "$ranks" $(words "$@") 2>&1) && grep -q ': agrees$' <<<"$out"; then
        echo "ok parity: $name, $ranks ranks, $*"
    else
        echo "not ok parity: $name, $ranks ranks, $*"
        grep -v '^moefold: OMP_NUM_THREADS' <<<"$out" | head -20 | sed 's/^/# /'
        failed=1
    fi
}

# Lines that begin with * run always.
list="
* qwen3-moe   8  TP2 CP2 EP4 ETP1 PP2
  qwen3-moe   8  TP2 CP2 EP2 ETP2 PP2 deepep
  qwen3-moe   8  TP2 CP2 EP4 ETP1 PP2 VPP2 alltoall overlap:ep
  qwen3-moe   8  CP4 EP4 PP2 VPP2 cp:a2a+p2p hybridep overlap:p2p
  qwen3-moe   8  TP2 CP2 EP8 ETP1 overlap:dp overlap:tp
  qwen3-moe  16  TP2 CP2 EP4 ETP2 PP2 overlap:dp
* deepseek-v3 8  TP2 CP2 EP4 ETP1 PP2 VPP2 alltoall overlap:ep overlap:wgrad
  deepseek-v3 8  TP2 CP2 EP4 ETP1 PP2
  deepseek-v3 8  TP2 CP2 EP4 ETP1 PP2 cp:latent hybridep recompute
  deepseek-v3 8  TP4 CP2 EP4 ETP2 alltoall overlap:shared
  deepseek-v3 8  TP2 CP4 EP8 ETP1 cp:latent overlap:dp
  deepseek-v3 16 TP2 CP2 EP8 ETP1 PP2 deepep
* mixtral     8  TP2 CP2 EP2 ETP2 PP2 allgather
  mixtral     8  TP2 CP2 EP4 ETP1 PP2 VPP2 alltoall overlap:ep overlap:wgrad
  mixtral     8  CP2 EP4 PP2 cp:all_gather deepep overlap:dp
* gpt-oss     8  CP2 EP4 PP2 cp:a2a
  gpt-oss     8  TP2 EP4 ETP1 PP2 overlap:dp
  gpt-oss     4  TP2 EP2 ETP1 PP2 VPP2 alltoall overlap:ep
  gpt-oss     4  CP2 EP2 PP2 VPP2 cp:a2a overlap:p2p
* qwen3-next  8  CP2 EP4 PP2 cp:a2a
  qwen3-next  8  TP2 EP2 ETP2 PP2 overlap:dp
  qwen3-next  4  CP2 EP2 PP2 VPP2 cp:a2a alltoall overlap:ep
  qwen3-next  8  TP2 EP2 ETP1 PP4 recompute
* mtp         8  TP2 CP2 EP4 ETP1 PP2 stages:Ettt|mL
  mtp         8  TP2 EP2 ETP1 PP4 stages:Et|t|tm|L
  mtp         8  TP2 CP2 EP4 ETP1 PP2 stages:Et|t|t|mL alltoall overlap:ep
  mtp        16  TP2 CP2 EP8 ETP1 PP2 hybridep
"

if ! command -v mpirun >/dev/null; then
    echo "ok parity_on_ranks # skip mpirun (Open MPI) is not installed"
    exit 0
fi
while read -r line; do
    [ -n "$line" ] || continue
    [ "${MOEFOLD_LAYOUTS:-}" = all ] || [ "${line:0:1}" = '*' ] || continue
    # shellcheck disable=SC2086
    run ${line#\*} </dev/null
done <<<"$list"
exit $failed
