# Several ranks on one GPU: layouts as threads beside one rank, in FP32, BF16 and FP8; as processes through CUDA IPC, and through pinned
# shared memory, beside Hugging Face transformers; graphs; faults. RANKS_ONLY names sections (the last line; eight and nccl, too).
layouts=${LAYOUTS:-build/tests/train/test_layouts}
layouts_bf16=${LAYOUTS_BF16:-build/tests/train/test_bf16}
layouts_fp8=${LAYOUTS_FP8:-build/tests/train/test_fp8_layouts}
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

# agreed CODE WHAT: is what parity printed "agrees"?
agreed() {
    say_if "$2" "$(grep -oE '(agrees|differs).*' "$work/out" | head -1 | cut -c1-80)" "agrees" \
        bash -c "[ $1 = 0 ] && grep -q ': agrees$' '$work/out'"
    [ "$1" = 0 ] || grep -v -e OMP_NUM_THREADS -e '^--' "$work/out" | head -4 | cut -c1-300
}

# agrees TRANSPORT CASE RANKS WORDS...: parity with the reference case.
agrees() {
    local way=$1 name=$2 ranks=$3
    shift 3
    # shellcheck disable=SC2046
    MOEFOLD_TRANSPORT=$way MOEFOLD_TIMEOUT_SECONDS=20 timeout 100 "$moefold" parity "$golden/$name-tiny" --ranks "$ranks" moefold.device=cuda \
        model.deterministic_mode=true $(words "$@") >"$work/out" 2>&1
    agreed $? "$ranks processes, $way: $name $*"
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
ipc mtp 4 TP2 EP4 ETP1 hybridep
shm qwen3-moe 2 EP2 alltoall
shm deepseek-v3 4 TP2 PP2 EP2 ETP1
LIST
    ranks_twelfth
}
# NCCL takes ranks of one GPU where each says that it is a host of its own.
over_nccl() { # CASE RANKS WORDS...
    local name=$1 ranks=$2
    shift 2
    # shellcheck disable=SC2016,SC2046
    MOEFOLD_TRANSPORT=nccl MOEFOLD_TIMEOUT_SECONDS=30 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_MAX_NCHANNELS=2 \
        timeout 100 mpirun --allow-run-as-root --oversubscribe -n "$ranks" \
        bash -c 'NCCL_HOSTID=host$OMPI_COMM_WORLD_RANK exec "$0" "$@"' "$moefold" parity "$golden/$name-tiny" cluster.n_gpus="$ranks" \
        moefold.device=cuda model.deterministic_mode=true $(words "$@") >"$work/out" 2>&1 </dev/null
    agreed $? "$ranks processes, NCCL over sockets: $name $*"
}
ranks_nccl() {
    local line
    while read -r line; do
        # shellcheck disable=SC2086
        over_nccl $line
    done <<'LIST'
qwen3-moe 2
qwen3-moe 2 TP2
qwen3-moe 2 PP2
mixtral 2 CP2
deepseek-v3 2 EP2 alltoall
deepseek-v3 2 EP2 allgather
gpt-oss 4 CP2 EP2 cp:a2a
qwen3-moe 4 TP2 EP2 ETP1 overlap:dp
deepseek-v3 4 TP2 PP2 EP2 ETP1 deepep
qwen3-next 4 CP2 EP2 PP2 VPP2 cp:a2a alltoall overlap:ep
mixtral 4 TP2 EP2 ETP2 allgather
mtp 4 TP2 EP4 ETP1 hybridep
qwen3-moe 4 TP2 CP2 EP4 ETP1
deepseek-v3 4 CP4 EP4
deepseek-v3 4 PP4
mixtral 4 CP2 TP2 cp:all_gather
qwen3-moe 8 TP2 CP2 PP2 EP2 ETP1
LIST
}
ranks_twelfth() { agrees ipc qwen3-moe 4 TP2 CP2 EP4 ETP1 </dev/null; }

# Eight processes take turns on a GPU without MPS: how long is a step? Nothing is asked.
ranks_eight() {
    local n
    for n in 2 4 8; do
        MOEFOLD_TRANSPORT=ipc timeout -k 5 40 "$moefold" train tiny cluster.gpu=H200 moefold.device=cuda --ranks $n \
            "model.expert_model_parallel_size=$n" train.global_batch_size=8 train.train_iters=3 logger.log_interval=1 --metrics "$work/m" \
            >"$work/out" 2>&1
        say "$n processes over CUDA IPC, in turns: ms of a step" "$(each elapsed_ms <"$work/m" | tail -n +2 | median)" "" -
        rm -f "$work/m"
    done
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

# ---- graphs: stretches between messages. The same losses, fewer operations put
graphed() { # HOW WORDS...: losses of a run, then its host line
    local how=$1
    shift
    # shellcheck disable=SC2086
    timeout 40 "$moefold" train tiny cluster.gpu=H200 moefold.device=cuda --ranks 2 $how model.expert_model_parallel_size=2 \
        model.moe_token_dispatcher_type=alltoall model.deterministic_mode=true train.global_batch_size=4 train.train_iters=6 \
        logger.log_interval=1 --metrics "$work/m" "$@" >"$work/out" 2>&1 || { echo "code $?: $(tail -n 2 "$work/out" | cut -c1-300)" >&2; }
    grep -o '"lm loss":[0-9.]*' "$work/m" | tr '\n' ' '
    rm -f "$work/m"
}
ranks_graphs() {
    local off on puts got
    off=$(graphed '') puts=$(grep -oE '^host: .*' "$work/out")
    for on in model.cuda_graph_impl=full_iteration \
        "model.cuda_graph_impl=transformer_engine model.cuda_graph_modules=[attn,moe_router,moe_preprocess]"; do
        # shellcheck disable=SC2086
        got=$(graphed '' $on)
        say_if "2 ranks as processes, ${on##*=}: losses beside eager; host eager, host with graphs" \
            "$([ "$got" = "$off" ] && echo the same || echo others); $puts, $(grep -oE '^host: .*' "$work/out")" \
            "the same, graphs" bash -c "[ -n '$off' ] && [ '$got' = '$off' ] && grep -qE '^host: .* graphs? of' '$work/out'"
    done
    graphed --as-threads model.cuda_graph_impl=full_iteration >/dev/null 2>&1
    say_if "2 ranks as threads, full_iteration" "$(grep -oE 'cannot use CUDA graphs' "$work/out")" "refused" \
        grep -q 'cannot use CUDA graphs; repair: ' "$work/out"
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
# left BEFORE PATTERN: no memory of the GPU stays in use; what was said instead of the pattern is shown.
left() {
    sleep 1
    say_if "the same: MiB in use on the GPU before, after" "$1, $(used)" "the same" [ "$(used)" -le $(($1 + 16)) ]
    grep -qE "$2" "$work/err" || tail -5 "$work/err" | cut -c1-300
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
    left "$before" "$pattern"
}
# A peer of IPC that disappears: it leaves with code 0 in the middle of a step, and with it the memory that others have open.
ranks_gone() {
    local before began code pattern='rank [023] of 4: (told to end.*while it (waits|computes|is)|no answer|no operation|CUDA).*'
    before=$(used)
    began=$SECONDS
    MOEFOLD_FAULT=leave:2000:1 MOEFOLD_TRANSPORT=ipc MOEFOLD_TIMEOUT_SECONDS=5 timeout -k 5 60 "$moefold_test" train tiny cluster.gpu=H200 \
        moefold.device=cuda --ranks 4 model.expert_model_parallel_size=4 train.train_iters=100000 train.global_batch_size=4 \
        logger.log_interval=1 >"$work/out" 2>"$work/err"
    code=$?
    say_if "a peer of CUDA IPC disappears: seconds of the run; code; what another rank said" \
        "$((SECONDS - began)); $code; $(grep -oE "$pattern" "$work/err" | head -1 | cut -c1-160)" "at most 25; not 0; it names its operation" \
        bash -c "[ $((SECONDS - began)) -le 25 ] && [ $code != 0 ] && grep -qE '$pattern' '$work/err'"
    left "$before" "$pattern"
}
ranks_faults() {
    fault "a rank is killed, CUDA IPC" KILL 'rank [023] of 4: (told to end.*while it (waits|computes)|no answer|no operation).*' ipc
    fault "a rank is stopped, CUDA IPC" STOP 'rank [023] of 4: (no answer for [0-9]+ s in|no operation has ended).*' ipc
    fault "a rank is stopped, shared memory" STOP 'rank [023] of 4: (no answer for [0-9]+ s in|no operation has ended).*' shm
}

for section in ${RANKS_ONLY:-threads fp8 processes touched graphs faults gone}; do "ranks_$section"; done
