# Several ranks on one GPU: layouts as threads beside one rank, in FP32, BF16 and FP8; as processes through CUDA IPC, and through pinned
# shared memory, beside Hugging Face transformers; overlaps over an emulated link; faults. RANKS_ONLY names sections (the last line).
layouts=${LAYOUTS:-build/tests/run/test_layouts}
layouts_bf16=${LAYOUTS_BF16:-build/tests/run/test_bf16}
layouts_fp8=${LAYOUTS_FP8:-build/tests/run/test_fp8_layouts}
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1

# ---- threads
# counted WHAT LEAST FILE: lines that begin with ok, and those that do not agree.
counted() {
    local right wrong
    right=$(grep -c '^ok ' "$3")
    wrong=$(grep -c '^NOT OK ' "$3")
    say_if "$1" "$right agree, $wrong do not" "at least $2, all" [ "$wrong" -eq 0 -a "$right" -ge "$2" ]
    grep -A1 '^NOT OK ' "$3" | head -20
    grep -E 'rank [0-9]+ of|error' "$3" | head -3
}
ranks_threads() {
    local start_of=$SECONDS
    MOEFOLD_DEVICE=cuda MOEFOLD_VERBOSE=1 MOEFOLD_RANKS_MAX=8 MOEFOLD_LAYOUTS=1 MOEFOLD_WORDS=model.deterministic_mode=true \
        timeout 200 "$layouts" >"$dir/layouts.txt" 2>&1
    counted "layouts of 2 to 8 ranks as threads, FP32, beside one rank" 60 "$dir/layouts.txt"
    MOEFOLD_DEVICE=cuda MOEFOLD_VERBOSE=1 MOEFOLD_WORDS=model.deterministic_mode=true timeout 100 "$layouts_bf16" >"$dir/layouts-bf16.txt" 2>&1
    counted "the same, BF16" 20 "$dir/layouts-bf16.txt"
    say "seconds for these" "$((SECONDS - start_of))" "" -
}
ranks_fp8() {
    MOEFOLD_DEVICE=cuda MOEFOLD_VERBOSE=1 MOEFOLD_WORDS=model.deterministic_mode=true timeout 100 "$layouts_fp8" >"$dir/layouts-fp8.txt" 2>&1
    counted "layouts of 2 to 8 ranks as threads, FP8 blockwise and tensorwise, beside one rank" 8 "$dir/layouts-fp8.txt"
}

# ---- processes
. tests/cli/layout_words.sh

# agrees TRANSPORT CASE RANKS WORDS...: parity with the reference case.
agrees() {
    local way=$1 name=$2 ranks=$3 code
    shift 3
    # shellcheck disable=SC2046
    MOEFOLD_TRANSPORT=$way MOEFOLD_TIMEOUT_SECONDS=20 timeout 100 "$moefold" parity "$golden/$name-tiny" --ranks "$ranks" moefold.device=cuda \
        model.deterministic_mode=true $(words "$@") >"$work/out" 2>&1
    code=$?
    say_if "$ranks processes, $way: $name $*" "$(grep -oE '(agrees|differs).*' "$work/out" | head -1 | cut -c1-80)" "agrees" \
        bash -c "[ $code = 0 ] && grep -q ': agrees$' '$work/out'"
    [ $code = 0 ] || grep -v OMP_NUM_THREADS "$work/out" | tail -4 | cut -c1-300
}
ranks_processes() {
    local line
    while read -r line; do
        # shellcheck disable=SC2086
        agrees $line </dev/null
    done <<'LIST'
ipc qwen3-moe 2
ipc qwen3-moe 2 TP2
ipc qwen3-moe 2 PP2
ipc mixtral 2 CP2
ipc deepseek-v3 2 EP2 alltoall
ipc gpt-oss 4 CP2 EP2 cp:a2a
ipc qwen3-moe 4 TP2 EP2 ETP1 overlap:dp
ipc deepseek-v3 4 TP2 PP2 EP2 ETP1 deepep
ipc qwen3-next 4 CP2 EP2 PP2 VPP2 cp:a2a alltoall overlap:ep
ipc mixtral 4 TP2 EP2 ETP2 allgather
ipc qwen3-moe 4 TP2 CP2 EP4 ETP1
ipc mtp 4 TP2 EP4 ETP1 hybridep
shm qwen3-moe 2 EP2 alltoall
shm deepseek-v3 4 TP2 PP2 EP2 ETP1
LIST
}

# ---- planned bytes are those that steps touch, on all ranks
ranks_touched() {
    local how code
    for how in --as-threads ''; do
        # shellcheck disable=SC2086
        timeout 60 "$moefold" train tiny cluster.gpu=H200 moefold.device=cuda --ranks 4 $how --touched model.expert_model_parallel_size=4 \
            model.moe_router_force_load_balancing=true train.global_batch_size=4 train.train_iters=1 >"$work/out" 2>&1
        code=$?
        say_if "train --touched, 4 ranks ${how:-as processes}" "code $code: $(grep -oE 'planned.*' "$work/out" | tail -1 | cut -c1-120)" "code 0" [ $code = 0 ]
        [ $code = 0 ] || tail -4 "$work/out" | cut -c1-300
    done
}

# ---- overlaps, as threads, over an emulated link
wide=(tiny cluster.gpu=H200 moefold.device=cuda model.num_layers=4 model.hidden_size=1024 model.num_attention_heads=8 model.num_query_groups=4
    model.kv_channels=128 model.num_moe_experts=16 model.moe_router_topk=4 model.moe_ffn_hidden_size=768 model.vocab_size=8192
    model.seq_length=2048 train.micro_batch_size=1 train.train_iters=6 logger.log_interval=1 --as-threads)
stepped() { # WORDS...: the median ms of a step but the first
    timeout -k 5 60 "$moefold" train "${wide[@]}" --metrics "$work/m" "$@" >"$work/log" 2>&1 || { echo "code $?" && tail -3 "$work/log"; } >&2
    each elapsed_ms <"$work/m" | tail -n +2 | median
    rm -f "$work/m"
}
# overlap NAME LINK OFF ON WORDS...: exposed is what the link adds to a step.
overlap() {
    local name=$1 link=$2 off=$3 on=$4 free0 free1 off_ms on_ms
    shift 4
    # shellcheck disable=SC2086
    free0=$(stepped "$@" $off)
    # shellcheck disable=SC2086
    free1=$(stepped "$@" $on)
    # shellcheck disable=SC2086
    off_ms=$(stepped "$@" "moefold.comm_delay=$link" $off)
    # shellcheck disable=SC2086
    on_ms=$(stepped "$@" "moefold.comm_delay=$link" $on)
    say_if "$name, each link $link: ms a step off, on (no link: off, on); exposed off, on" \
        "$(awk "BEGIN {printf \"%.1f, %.1f (%.1f, %.1f); %.1f, %.1f\", $off_ms, $on_ms, $free0, $free1, $off_ms - $free0, $on_ms - $free1}")" \
        "less exposed when on" holds "$on_ms - $free1 < $off_ms - $free0"
}
ranks_overlaps() {
    ep_overlap=comm_overlap.overlap_moe_expert_parallel_comm
    overlap "EP2: dispatch and combine" 20us+40GB/s $ep_overlap=false $ep_overlap=true --ranks 2 model.expert_model_parallel_size=2 \
        model.moe_token_dispatcher_type=alltoall train.global_batch_size=16
    reduce=ddp.overlap_grad_reduce gather=ddp.overlap_param_gather
    overlap "DP2: gradients and weights" 20us+20GB/s "$reduce=false $gather=false" "$reduce=true $gather=true" --ranks 2 \
        train.global_batch_size=8 ddp.bucket_size=10000000
    overlap "PP4 VPP2: stage to stage" 20us+2GB/s "comm_overlap.overlap_p2p_comm=false comm_overlap.batch_p2p_comm=true" \
        "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false" --ranks 4 model.num_layers=8 model.pipeline_model_parallel_size=4 \
        model.virtual_pipeline_model_parallel_size=2 train.global_batch_size=8
    overlap "TP2: products in chunks" 20us+40GB/s comm_overlap.tp_comm_overlap=false comm_overlap.tp_comm_overlap=true --ranks 2 \
        model.tensor_model_parallel_size=2 train.global_batch_size=4
}

# ---- faults
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1; }
rank_process() { # RANK: of the job that runs; the process that has it in its environment
    local p
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/exe")" = "$(readlink -f "$moefold")" ] || continue
        tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" && { basename "$p"; return; }
    done
}
# fault NAME SIGNAL PATTERN TRANSPORT: rank 1 of 4 gets the signal in the middle of a run.
fault() {
    local name=$1 signal=$2 pattern=$3 way=$4 before job pid began code
    before=$(used)
    MOEFOLD_TRANSPORT=$way MOEFOLD_TIMEOUT_SECONDS=5 timeout -k 5 90 "$moefold" train tiny cluster.gpu=H200 moefold.device=cuda --ranks 4 \
        model.expert_model_parallel_size=4 train.train_iters=100000 train.global_batch_size=4 logger.log_interval=1 >"$work/out" 2>"$work/err" &
    job=$!
    for _ in $(seq 400); do
        grep -q 'iteration *5/' "$work/out" && break
        sleep 0.1
    done
    pid=$(rank_process 1)
    began=$SECONDS
    [ -n "$pid" ] && kill "-$signal" "$pid"
    wait $job
    code=$?
    say_if "$name: seconds until all ended; code; what another rank said" \
        "$((SECONDS - began)); $code; $(grep -oE "$pattern" "$work/err" | head -1 | cut -c1-160)" "at most 15; 3; it names its operation" \
        bash -c "[ -n '$pid' ] && [ $((SECONDS - began)) -le 15 ] && [ $code = 3 ] && grep -qE '$pattern' '$work/err'"
    sleep 1
    say_if "the same: MiB in use on the GPU before, after" "$before, $(used)" "the same" [ "$(used)" -le $((before + 16)) ]
    grep -qE "$pattern" "$work/err" || tail -5 "$work/err" | cut -c1-300
}
ranks_faults() {
    fault "a rank is killed, CUDA IPC" KILL 'rank [023] of 4: (told to end.*while it (waits|computes)|no answer|no operation).*' ipc
    fault "a rank is stopped, CUDA IPC" STOP 'rank [023] of 4: (no answer for [0-9]+ s in|no operation has ended).*' ipc
    fault "a rank is stopped, shared memory" STOP 'rank [023] of 4: (no answer for [0-9]+ s in|no operation has ended).*' shm
}

for section in ${RANKS_ONLY:-threads fp8 processes touched overlaps faults}; do "ranks_$section"; done
