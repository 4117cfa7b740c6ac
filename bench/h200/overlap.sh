# What overlaps hide, ranks as threads over an emulated link (moefold.comm_delay): of each overlap, off and on, the time of a step
# with the link and with one that takes no time (1ns); exposed is the difference. Predicted is the same difference of two prices, for a
# description of this GPU with the emulated link in it and its rates shared by the ranks: kernels of several ranks run side by side, and
# take as long as one of all their work; small ones take less than the sum of their times, and leave less to hide messages behind. A second
# row of each asks that the price of the step, off and on, is within 15 % of the step.
#
# On the GPU:      bench/h200.sh overlap
# Without one:     bash bench/h200/overlap.sh
#     runs small programs for a GPU on the CPU's device peers:us=N, where every operation takes N microseconds and streams run beside
#     each other (tests/emulated/paced.h), whatever else the machine does; its description has nothing but that time and the link.
# OVERLAP_ONLY names some of: EP DP PP TP. OVERLAP_US is N (500), or 10000 where others use the machine, too: a thread that is woken
# late makes a message late. Links take longer with N, so that predicted times are in the same proportion.
if [ -z "${part:-}" ]; then
    set -u
    moefold=${MOEFOLD:-./moefold}
    moefold_test=${MOEFOLD_TEST:-$(dirname "$(readlink -f "$moefold")")/moefold-test} # has peers
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    bad=0
    paced_us=${OVERLAP_US:-500}
    holds() { case $1 in *nan* | *inf*) return 1 ;; esac; awk "BEGIN {exit !($1)}"; }
    say_if() {
        local what=$1 seen=$2 asked=$3 as=yes
        shift 3
        "$@" || { as=no; bad=1; }
        printf '%s\t%s\t%s\t%s\n' "$what" "$seen" "$asked" "$as"
    }
    each() { grep '"event":"iteration"' | grep -o "\"$1\":[-0-9.e+]*" | sed 's/.*://'; }
    figure() { grep -o "\"$1\":[-0-9.e+]*" | head -1 | sed 's/.*://'; }
    median() { sort -g | awk '{t[NR] = $1} END {if (NR) print t[int((NR + 1) / 2)]; else print "nan"}'; }
fi
paced_us=${paced_us:-}

if [ -n "$paced_us" ]; then
    overlap_model=(tiny moefold.target=moefold moefold.device=cpu model.num_layers=4 model.seq_length=64
        train.micro_batch_size=1 train.train_iters=4 moefold.moe_buffer_factor=4.0 model.moe_router_force_load_balancing=true)
else
    overlap_model=(tiny moefold.device=cuda moefold.target=moefold model.num_layers=4 model.hidden_size=2048 model.num_attention_heads=16
        model.num_query_groups=4 model.kv_channels=128 model.num_moe_experts=16 model.moe_router_topk=4 model.moe_ffn_hidden_size=768
        model.vocab_size=8192 model.seq_length=4096 model.max_position_embeddings=4096 train.micro_batch_size=1 train.train_iters=5
        model.moe_router_force_load_balancing=true)
fi

# described RANKS LINK: writes $work/gpu.yaml, a GPU that so many ranks share, with this link ("20us+40GB/s") between them.
described() {
    local us=${2%%us+*} rate=${2##*+}
    local factor
    case $rate in *TB/s) factor=1e12 ;; *GB/s) factor=1e9 ;; *MB/s) factor=1e6 ;; *) factor=1e3 ;; esac
    awk -v ranks="$1" -v us="$us" -v rate="${rate%%[TGMK]B/s}" -v factor="$factor" -v paced="$paced_us" '
        # A line of a curve, "key: {size: rate, ...}", with sizes so many times smaller.
        function wider(text, times,   n, i, pairs, pair, out) {
            out = text
            sub(/\{.*/, "{", out)
            sub(/.*\{/, "", text)
            sub(/\}.*/, "", text)
            n = split(text, pairs, /, */)
            for (i = 1; i <= n; i++) {
                split(pairs[i], pair, /: */)
                out = out (i > 1 ? ", " : "") int(pair[1] / times) ": " pair[2]
            }
            return out "}"
        }
        /^[a-z]/ {section = $1}
        {key = $1; line = $0}
        section ~ /^(node|domain|across):/ && key == "latency:" {line = "  latency: " (us > 0 ? us * 1e-6 : 1e-9)}
        section ~ /^(node|domain|across):/ && key == "bandwidth:" {line = "  bandwidth: " rate * factor}
        section ~ /^(node|domain|across):/ && key == "efficiency:" {line = "  efficiency: {1: 1, 1048576: 1}"}
        section == "device:" && key ~ /^(message|near)_share:/ {line = "  " key " 0"}
        # Kernels of several ranks side by side take as long as one of all their work: curves are read at so much.
        (section == "memory:" || section == "products:") && key ~ /^(efficiency|data|weight|added):/ && !paced {line = wider($0, section == "memory:" ? ranks : sqrt(ranks))}
        section == "peak:" && key ~ /:$/ && NF > 1 {line = "  " key " " (paced ? 1e18 : $2 / ranks)}
        section == "memory:" && key == "bandwidth:" {line = "  bandwidth: " (paced ? 1e18 : $2 / ranks)}
        section == "device:" && key == "least:" && paced {line = "  least: " paced * 1e-6}
        section == "host:" && key ~ /^(launch|graph_launch|sync|step):/ && paced {line = "  " key " 1e-9"}
        section == "launches:" && key ~ /:$/ && NF > 1 && paced {line = "  " key " 1"}
        section == "dispatch:" && key ~ /^(inside|across|copies):/ {line = "    " key " 1"}
        section == "dispatch:" && key == "start:" {line = "  start: 1e-9"}
        {print line}' hardware/h200-measured.yaml >"$work/gpu.yaml"
}

# stepped RANKS WORDS...: the median ms of a step but the first two; nan where the run fails.
stepped() {
    local ranks=$1 device= program=$moefold
    shift
    [ -n "$paced_us" ] && device=peers:us=$paced_us program=$moefold_test
    rm -f "$work/m"
    MOEFOLD_DEVICE=$device OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1 timeout -k 5 120 "$program" train "${overlap_model[@]}" \
        "cluster.gpu=H200" --ranks "$ranks" --as-threads --metrics "$work/m" "$@" >"$work/log" 2>&1 ||
        { echo "overlap: code $?: $(tail -3 "$work/log")"; } >&2
    [ -f "$work/m" ] && each elapsed_ms <"$work/m" | tail -n +3 | median || echo nan
}

# predicted RANKS LINK WORDS...: ms of a step. Stages wait at different times, in the bubble and for messages, and while one waits the others
# have its share of the GPU: a queue that all stages share, with the mean of their work (the head is on one of them), each away from it for
# the time of its messages (mean value analysis of a closed queue). Ranks of other kinds wait together, and nobody takes their share.
predicted() {
    local ranks=$1 link=$2
    shift 2
    described "$ranks" "$link"
    "$moefold" price "${overlap_model[@]}" "cluster.gpu=$work/gpu.yaml" "cluster.n_gpus=$ranks" "cluster.gpus_per_node=$ranks" "$@" \
        --json >"$work/price" 2>/dev/null
    awk -v step="$(figure step_s <"$work/price")" -v bubble="$(figure bubble <"$work/price")" -v away="$(sed 's/.*"exposed"://' "$work/price" | figure 'PP messages')" \
        -v head="$(figure 'head and loss' <"$work/price")" -v ranks="$ranks" -v paced="$paced_us" 'BEGIN {
            if (!step) {print "nan"; exit}
            if (paced || !bubble) {print 1e3 * step; exit}
            own = (step - bubble - away - head + head / ranks) / ranks
            for (n = 1; n <= ranks; n++) {took = own * (1 + queue); queue = n * took / (took + away)}
            print 1e3 * (took + away)}'
}

# overlap NAME RANKS LINK OFF ON WORDS...
overlap() {
    local name=$1 ranks=$2 link=$3 off=$4 on=$5 way words free held open said=() pair
    shift 5
    case " ${OVERLAP_ONLY:-EP DP PP TP} " in *" ${name%%[0-9]*} "*) ;; *) return ;; esac
    for way in off on; do
        words=${!way}
        # shellcheck disable=SC2086
        free=$(stepped "$ranks" "$@" moefold.comm_delay=1ns $words) held=$(stepped "$ranks" "$@" "moefold.comm_delay=$link" $words)
        # shellcheck disable=SC2086
        pair=$(predicted "$ranks" "$link" "$@" $words)
        # shellcheck disable=SC2086
        open=$(predicted "$ranks" 0us+999TB/s "$@" $words)
        case "$free $held $pair $open" in *nan*)
            say_if "$name, link $link, $way: ms of a step with and without the link, and their prices" "$held, $free; $pair, $open" "numbers" false
            return
            ;;
        esac
        pair=$(awk "BEGIN {printf \"%.1f %.1f %.1f %.1f\", $free, $held, $pair, $pair - $open}")
        said+=($pair)
    done
    say_if "$name, link $link: exposed ms off, on (predicted off, on); ms of a step off, on (predicted off, on)" \
        "$(awk "BEGIN {printf \"%.1f, %.1f (%.1f, %.1f); %.1f, %.1f (%.1f, %.1f)\", ${said[1]} - ${said[0]}, ${said[5]} - ${said[4]},
            ${said[3]}, ${said[7]}, ${said[1]}, ${said[5]}, ${said[2]}, ${said[6]}}")" \
        "less exposed when on" holds "${said[5]} - ${said[4]} < ${said[1]} - ${said[0]}"
    say_if "$name: price of a step beside the step, off, on" \
        "$(awk "BEGIN {printf \"%+.1f %%, %+.1f %%\", 100 * (${said[2]} / ${said[1]} - 1), 100 * (${said[6]} / ${said[5]} - 1)}")" "within 15 %" \
        holds "${said[2]} <= 1.15 * ${said[1]} && ${said[2]} >= 0.85 * ${said[1]} && ${said[6]} <= 1.15 * ${said[5]} && ${said[6]} >= 0.85 * ${said[5]}"
}

ep_overlap=comm_overlap.overlap_moe_expert_parallel_comm
reduce=ddp.overlap_grad_reduce gather=ddp.overlap_param_gather
p2p=comm_overlap.overlap_p2p_comm batch=comm_overlap.batch_p2p_comm
if [ -n "$paced_us" ]; then
    # link MB/s: with N = 500, and a latency of a fifth of an operation
    link() { echo "$((paced_us / 5))us+$(($1 * 500000 / paced_us))KB/s"; }
    links=("$(link 50)" "$(link 20)" "$(link 2)" "$(link 50)")
    replicas=(train.global_batch_size=2 ddp.bucket_size=40000)
    tensors=(train.global_batch_size=4)
    stages=(train.global_batch_size=8)
else
    links=(20us+100GB/s 20us+40GB/s 20us+8GB/s 20us+100GB/s)
    replicas=(train.global_batch_size=2 model.seq_length=8192 model.max_position_embeddings=8192
        ddp.bucket_size=10000000)
    # A product of half the rows must take about as long as a message: of 1,024 channels it takes 10 us, of a message's 72.
    tensors=(train.global_batch_size=2 model.hidden_size=4096 model.num_attention_heads=32 model.num_query_groups=8
        model.moe_ffn_hidden_size=256 model.num_moe_experts=8 model.moe_router_topk=1 model.moe_router_pre_softmax=true model.vocab_size=2048
        model.seq_length=8192 model.max_position_embeddings=8192)
    stages=(train.global_batch_size=16 train.train_iters=4)
fi
overlap "EP2: dispatch and combine" 2 "${links[0]}" $ep_overlap=false $ep_overlap=true model.expert_model_parallel_size=2 \
    model.moe_token_dispatcher_type=alltoall train.global_batch_size=8
overlap "TP2: products in chunks" 2 "${links[3]}" comm_overlap.tp_comm_overlap=false comm_overlap.tp_comm_overlap=true \
    model.tensor_model_parallel_size=2 "${tensors[@]}"
overlap "DP2: gradients and weights" 2 "${links[1]}" "$reduce=false $gather=false" "$reduce=true $gather=true" "${replicas[@]}"
overlap "PP4 VPP2: stage to stage" 4 "${links[2]}" "$p2p=false $batch=true" "$p2p=true $batch=false" model.num_layers=8 \
    model.pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=2 "${stages[@]}"
[ -n "${part:-}" ] || exit $bad
