# What the host takes over: AdamW there by share, or state that is moved to the GPU to be updated; activations by module. The
# same curves, what is exposed, planned bytes beside touched ones, and the largest model that trains with and without.
#
# OFFLOAD=curves or largest: that half alone, as both take longer than one call may. CURVES=WORDS: of the first half those curves alone
# whose name begins so. LARGEST=plan: large models are found, not trained.
# LARGEST="0.625:20 none:11": these are trained, shares of the optimizer on the host and layers, as an earlier search found them.
# Host memory that may be taken: what is free, less 8 GiB for the program and one weight that is drawn; HOST_GIB names another.
shape=(qwen3-30b-a3b cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.device=cuda moefold.mock_data=true
    model.seq_length=4096 model.moe_router_force_load_balancing=true logger.log_interval=1)
one=("${shape[@]}" model.num_layers=1)
small=(tests/data/golden/qwen3-moe-tiny cluster.gpu=H200 cluster.n_gpus=1 moefold.target=moefold moefold.device=cuda
    moefold.mock_data=true model.seq_length=64 model.moe_router_force_load_balancing=true)
aware=(optimizer.use_precision_aware_optimizer=true optimizer.store_param_remainders=false)
beside=(optimizer.overlap_cpu_optimizer_d2h_h2d=true)
moved=(optimizer.offload_optimizer_states=true)
narrow=("${aware[@]}" optimizer.exp_avg_dtype=bf16 optimizer.exp_avg_sq_dtype=bf16)
modules=(model.fine_grained_activation_offloading=true 'model.offload_modules=[core_attn,attn_proj,expert_fc1,moe_act]')

share() { echo "${aware[@]}" optimizer.optimizer_cpu_offload=true optimizer.optimizer_offload_fraction="$1"; }

# trained NAME SECONDS WORDS...: a run folder of that name, or what the run ended with. Folder and log stay beside the rows.
trained() {
    local name=$1 limit=$2 code start=$SECONDS
    shift 2
    rm -rf "${work:?}/$name"
    timeout "$limit" "$moefold" train "$@" --run "$work/$name" >"$work/$name.log" 2>&1
    code=$?
    mkdir -p "$dir/offload"
    cp -r "$work/$name" "$work/$name.log" "$dir/offload" 2>/dev/null
    say "$name: seconds of the run, start and end included" $((SECONDS - start)) "" -
    [ $code -eq 0 ] && return 0
    say "$name: trains" "code $code: $(tail -1 "$work/$name.log")" "yes" no
    return 1
}
losses() { each 'lm loss' <"$work/$1/metrics.jsonl"; }
step_ms() { each elapsed_ms <"$work/$1/metrics.jsonl" | tail -n +2 | median; }

# copies NAME predicted|measured: seconds of `host copies` of a step that are exposed, and hidden.
copies() {
    sed -n "/\"$2\": {/,/^ },\?\$/p" "$work/$1/summary.json" | tr -d ' \n' |
        grep -o '"name":"hostcopies"[^}]*' | sed 's/.*"seconds":\([^,]*\),"hidden":\(.*\)/\1 \2/'
}

# priced NAME MS WORDS...: a step of so many ms beside its price.
priced() {
    local name=$1 seen=$2 planned
    shift 2
    planned=$("$moefold" price "$@" --json 2>/dev/null | figure step_s | awk '{print 1e3 * $1; seen = 1} END {if (!seen) print "nan"}')
    say_if "$name: ms of a step, predicted" "$seen, $planned" "within 10 %" holds "$planned >= 0.9 * $seen && $planned <= 1.1 * $seen"
}

# ---- the same curve, exposed time
curve() { # NAME MOST WORDS...: relative distance from `none` at most so much
    local name=$1 most=$2 seen hidden planned far
    shift 2
    case $name in "${CURVES:-}"*) ;; *) return ;; esac
    set -- "${one[@]}" train.micro_batch_size=4 train.global_batch_size=4 "$@"
    trained "$name" 40 "$@" train.train_iters=6 || return
    losses "$name" >"$work/$name.losses"
    far=$(apart "$work/$name.losses" "$work/none.losses")
    say_if "$name: losses of 6 steps beside those without" "$far" "at most $most" holds "$far <= $most"
    read -r seen hidden <<<"$(copies "$name" measured)"
    read -r planned _ <<<"$(copies "$name" predicted)"
    say "$name: a step; copies and the host's update exposed, hidden; predicted exposed" \
        "$(step_ms "$name") ms; ${seen:-nan} s, ${hidden:-nan} s; ${planned:-nan} s" "" -
    priced "$name" "$(step_ms "$name")" "$@"
}
all_curves() {
    trained none 40 "${one[@]}" train.micro_batch_size=4 train.global_batch_size=4 train.train_iters=6 || return
    losses none >"$work/none.losses"
    say "nothing offloaded: a step" "$(step_ms none) ms" "" -
    # shellcheck disable=SC2046
    curve "share 0.5 on the host" 1e-4 $(share 0.5) "${beside[@]}"
    # shellcheck disable=SC2046
    curve "all on the host" 1e-4 $(share 1) "${beside[@]}"
    curve "moved" 1e-4 "${moved[@]}"
    curve "activations of four modules" 1e-4 "${modules[@]}"
}

# In deterministic mode the GPU's AdamW is the same AdamW, and copies change nothing.
bits=("${one[@]}" train.micro_batch_size=1 train.global_batch_size=2 train.train_iters=3 model.deterministic_mode=true)
same_bits() { # NAME WORDS...
    local name=$1
    shift
    trained "$name" 40 "${bits[@]}" "$@" || return
    say_if "$name, deterministic: losses to the bit" "$(losses "$name" | tail -1)" "$(losses plain | tail -1)" \
        cmp -s <(losses plain) <(losses "$name")
}
all_bits() {
    trained plain 40 "${bits[@]}" || return
    same_bits "moved state" "${moved[@]}"
    same_bits "four modules" "${modules[@]}"
}

# ---- planned is touched
touched() { # NAME WORDS...
    local name=$1 code
    shift
    timeout 30 "$moefold" train "${small[@]}" train.micro_batch_size=1 train.global_batch_size=2 train.train_iters=1 "$@" --touched --json \
        >"$work/json" 2>"$work/err"
    code=$?
    say_if "$name: bytes touched of planned" "$(figure touched_bytes <"$work/json") of $(figure planned_bytes <"$work/json")" "equal" [ $code -eq 0 ]
}
if [ "${OFFLOAD:-curves}" = curves ]; then
    all_curves
    [ -n "${CURVES:-}" ] || all_bits
    # shellcheck disable=SC2046
    touched "share 0.5 on the host" $(share 0.5) "${beside[@]}"
    touched "moved" "${moved[@]}"
    touched "activations of four modules" "${modules[@]}" model.min_offloaded_tensor_size=1
fi

# ---- the largest model
free=${HOST_GIB:-$(awk '/MemAvailable/ {printf "%d", $2 / 1048576}' /proc/meminfo)}
fits() { # LAYERS WORDS...: on the GPU by plan, and on the host
    local n=$1 gpu host
    shift
    "$moefold" check "${shape[@]}" train.micro_batch_size=1 train.global_batch_size=1 model.num_layers="$n" "$@" --json >"$work/check" 2>/dev/null
    gpu=$(grep -o '"fits": *[a-z]*' "$work/check" | head -1)
    host=$(tr -d ' ' <"$work/check" | grep -o '"host":[0-9]*' | head -1 | sed 's/.*://')
    [ "${gpu##*[: ]}" = true ] && holds "${host:-0} <= ($free - 8) * 1073741824"
}
largest() { # WORDS...: layers of Qwen3-30B-A3B
    local low=8 high=32 n
    while [ $((high - low)) -gt 1 ]; do
        n=$(((low + high) / 2))
        if fits "$n" "$@"; then low=$n; else high=$n; fi
    done
    echo "$low"
}
# trains NAME LAYERS WORDS...: two steps, and the second beside its price.
trains() {
    local name=$1 n=$2
    shift 2
    set -- "${shape[@]}" train.micro_batch_size=1 train.global_batch_size=1 model.num_layers="$n" "$@"
    trained "$name" 80 "$@" train.train_iters=2 || return
    say_if "$name: $n layers train" "losses $(losses "$name" | tr '\n' ' ')" "two, finite" \
        bash -c "[ $(losses "$name" | grep -cE '^[0-9.e+-]+$') = 2 ]"
    priced "$name" "$(step_ms "$name")" "$@"
}
# NAME plan|train WORDS...
try_largest() {
    local name=$1 how=$2 n
    shift 2
    n=$(largest "$@")
    say "$name: largest by plan" "$n layers" "" -
    if [ "$how" = train ] && [ "${LARGEST:-train}" = train ]; then trains "$name" "$n" "$@"; fi
}
# "0.625:20" or "none:11"
train_found() {
    local of=${1%%:*} n=${1##*:}
    case $of in
    none) trains "nothing offloaded" "$n" ;;
    # shellcheck disable=SC2046
    *) trains "share $of on the host" "$n" $(share "$of") "${beside[@]}" ;;
    esac
}
all_largest() {
    local best=0.75 most=0 part_of n
    say "host memory that may be taken" "$((free - 8)) GiB" "" -
    case ${LARGEST:-train} in
    *:*)
        for part_of in $LARGEST; do train_found "$part_of"; done
        return
        ;;
    esac
    for part_of in 0.625 0.75 0.875; do
        # shellcheck disable=SC2046
        n=$(largest $(share $part_of) "${beside[@]}")
        [ "$n" -gt "$most" ] && most=$n best=$part_of
    done
    # shellcheck disable=SC2046
    try_largest "share $best on the host" train $(share "$best") "${beside[@]}"
    try_largest "state moved, BF16 moments" train "${narrow[@]}" "${moved[@]}"
    try_largest "nothing offloaded" train
    try_largest "state moved" plan "${moved[@]}"
    try_largest "nothing offloaded, BF16 moments" plan "${narrow[@]}"
}
if [ "${OFFLOAD:-largest}" = largest ]; then all_largest; fi
