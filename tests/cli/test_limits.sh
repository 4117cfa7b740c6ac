#!/usr/bin/env bash
# Values at the edge of what a machine or a number can be are refused with a message. From the repository's root.
set -u
export COLUMNS=1000 # so that no line that is looked for is wrapped
moefold=${MOEFOLD:-./moefold}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expect NAME CODE PATTERN COMMAND...
expect() {
    local name=$1 code=$2 pattern=$3 out got
    shift 3
    out=$(timeout 60 "$@" 2>&1)
    got=$?
    if [ "$got" = "$code" ] && grep -qE -- "$pattern" <<<"$out"; then
        echo "ok $name"
    else
        echo "not ok $name: exit code $got"
        tail -3 <<<"$out" | sed 's/^/    /'
        failed=1
    fi
}
small=(tiny cluster.gpu=cpu train.global_batch_size=2 train.train_iters=1)

# ---- threads
for word in abc -5 0 100000 2x; do
    expect "threads_$word" 2 "--threads $word: a whole number from 1 to 1024" "$moefold" train "${small[@]}" "--threads=$word"
done
expect threads_2 0 'done after 1 step' "$moefold" train "${small[@]}" --threads 2

# ---- lengths of a run that no counter holds
expect iterations_of_2_62 1 'train.train_iters=4611686018427387904: .*lower it' "$moefold" train "${small[@]}" \
    train.train_iters=4611686018427387904
expect validation_of_2_62 1 'validation.eval_iters=4611686018427387904: .*lower it|eval_iters=4611686018427387904' "$moefold" \
    train "${small[@]}" validation.eval_interval=1 validation.eval_iters=4611686018427387904

# ---- a full disk behind the standard output
if [ -w /dev/full ]; then
    for words in "--version" "help" "knobs" "show tiny" "check tiny --gpus 1xH100"; do
        # shellcheck disable=SC2086
        expect "full_output_${words%% *}" 3 'standard output could not be written' bash -c "'$moefold' $words >/dev/full"
    done
fi

# ---- loads that EP ranks cannot have
qwen=(qwen3-30b-a3b --gpus 16xH100 --seq 4096)
expect routing_beyond_ep 2 '--routing 9: .*expert_model_parallel_size is 8.*--routing 8' "$moefold" price "${qwen[@]}" ep=8 --routing 9
expect routing_beyond_any_ep 2 '--routing 500: .*expert_model_parallel_size is at most 16.*--routing 16' "$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4096 --routing 500
expect routing_up_to_ep 0 'fullest EP rank has 8.000 times' bash -c "'$moefold' price --everything ${qwen[*]} ep=8 --routing 8 || true"

# ---- hardware that cannot be
for key in bf16 latency bandwidth; do
    sed -E "s/^( +$key:) .*/\\1 1e-320/" hardware/h100.yaml >"$work/h.yaml"
    expect "hardware_$key" 2 "h.yaml:[0-9]+: [a-z.0-9]+$key: \"1e-320\" is not a number from" "$moefold" price qwen3-30b-a3b \
        --gpus "16x$work/h.yaml" --seq 4096
done
sed -E 's/(efficiency: \{[^:]*: *)[0-9.]+/\11e-320/' hardware/h100.yaml >"$work/h.yaml"
expect hardware_curve 2 'is not a fraction from' "$moefold" price qwen3-30b-a3b --gpus "16x$work/h.yaml" --seq 4096

# ---- a backend is not taken from folders above
mkdir -p "$work/up/bin"
cp "$(readlink -f "$moefold")" "$work/up/bin/moefold"
printf 'not an object' >"$work/up/moefold-mpi.so"
expect no_backend_from_above 3 "there is no moefold-mpi.so in the program's folder" env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 \
    "$work/up/bin/moefold" train "${small[@]}" cluster.n_gpus=2
exit $failed
