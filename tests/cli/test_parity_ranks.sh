#!/usr/bin/env bash
# `moefold parity --ranks N`: the reference cases under the richest layouts that rules allow for each.
# Runs alone.
#
# Six runs, one a case, unless MOEFOLD_LAYOUTS=all asks for every line. A reference has two samples, so virtual stages (which
# need two microbatches) go with one replica.
set -u
moefold=${MOEFOLD:-./moefold}
failed=0

. tests/cli/layout_words.sh # the words of the list below

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
