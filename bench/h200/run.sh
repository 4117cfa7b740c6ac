# Everything that a run does, on the GPU and beside the CPU: validation, a step run again after an overflow, routing records,
# checkpoints between GPU and CPU, times by kind, memory beside the arena; faults, hangs and refusals by name.
tiny=(tiny cluster.n_gpus=1 model.seq_length=128 train.micro_batch_size=2 train.global_batch_size=4 model.deterministic_mode=true
    logger.log_interval=1)
on_gpu=("${tiny[@]}" cluster.gpu=H200 moefold.device=cuda)
fp32=("${tiny[@]}" cluster.gpu=cpu)

# ran NAME CODE PATTERN COMMAND...: exit code, and a pattern in what was printed.
ran() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    timeout 60 "$@" >"$work/out" 2>&1
    got=$?
    say_if "$name" "code $got: $(grep -oE -- "$pattern" "$work/out" | head -1 | cut -c1-200)" "code $code" \
        bash -c "[ $got = $code ] && grep -qE -- '$pattern' '$work/out'"
    [ $got = "$code" ] || tail -3 "$work/out"
}
# losses of a metrics file, one a line; of KIND iteration or validation
kind_losses() { grep "\"event\":\"$1\"" "$2" | sed -n 's/.*"lm loss":\([-0-9.e+]*\).*/\1/p'; }
compared() { # WHAT MOST A B
    local far
    far=$(apart "$3" "$4")
    say_if "$1" "$(percent "$far")" "$(percent "$2")" holds "$far <= $2"
}
trained() { timeout 60 "$moefold" train "$@" >"$work/log" 2>&1 || tail -2 "$work/log"; }

# Validation: FP32, beside the CPU's.
eval=(train.train_iters=4 validation.eval_interval=2 validation.eval_iters=2)
for d in cuda cpu; do
    trained "${fp32[@]}" moefold.device=$d "${eval[@]}" --metrics "$work/m" --save-routing "$work/loads-$d"
    kind_losses validation "$work/m" >"$work/v-$d"
    kind_losses iteration "$work/m" >"$work/t-$d"
    tr -c '0-9\n' '\n' <"$work/loads-$d" | grep . >"$work/l-$d"
    rm -f "$work/m"
done
compared "validation, FP32: beside the CPU's" 0.0001 "$work/v-cuda" "$work/v-cpu"
compared "4 steps, FP32: beside the CPU's" 0.0001 "$work/t-cuda" "$work/t-cpu"
moved=$(paste "$work/l-cuda" "$work/l-cpu" | awk '{d = $1 - $2; s += d < 0 ? -d : d; t += $2} END {print t ? s / t : "nan"}')
say_if "routing records, FP32: tokens at another expert than the CPU's" "$(percent "$moved")" "0.1 %" holds "$moved <= 0.001"

# Overflow: the step is run again with other buffers, and nothing else changes.
trained "${on_gpu[@]}" train.train_iters=6 --metrics "$work/whole"
MOEFOLD_FAULT=overflow:3 moefold=$moefold_test trained "${on_gpu[@]}" train.train_iters=6 --metrics "$work/again"
kind_losses iteration "$work/whole" >"$work/a"
kind_losses iteration "$work/again" >"$work/b"
say_if "an overflow in step 3" "$(grep -o 'step 3: rank 0.*of 1;' "$work/log" | head -1)" "the step runs again" grep -q 'and the step runs again' "$work/log"
say_if "the losses of all 6 steps then" "$(cmp -s "$work/a" "$work/b" && echo the same bits || echo others)" "the same" \
    bash -c "[ \$(wc -l <$work/a) = 6 ] && cmp -s $work/a $work/b"

# Checkpoints: saved on one, continued on the other; FP32.
for d in cuda cpu; do
    trained "${fp32[@]}" moefold.device=$d train.train_iters=6 train.exit_interval=3 checkpoint.save="$work/kept-$d"
    trained "${fp32[@]}" moefold.device=$d train.train_iters=6 --metrics "$work/whole-$d"
done
for pair in "cuda cpu" "cpu cuda"; do
    read -r from to <<<"$pair"
    trained "${fp32[@]}" moefold.device="$to" train.train_iters=6 checkpoint.load="$work/kept-$from" --metrics "$work/resumed"
    kind_losses iteration "$work/resumed" >"$work/a"
    kind_losses iteration "$work/whole-$from" | tail -n 3 >"$work/b"
    compared "checkpoint of $from goes on on $to: 3 steps beside those of $from" 0.0001 "$work/a" "$work/b"
    rm -f "$work/resumed"
done

# Times by kind, memory beside the arena.
ran "train --predict: time of attention, predicted and measured" 0 'attention +[0-9.]+ +0\.0*[1-9][0-9]*' "$moefold" train "${on_gpu[@]}" train.train_iters=5 --predict
timeout 60 "$moefold" train "${on_gpu[@]}" train.train_iters=30 --json >"$work/json" 2>"$work/log"
beside=$(grep '"event":"memory"' "$work/json" | tail -1 | figure beside_bytes) grown=$(grep '"event":"memory"' "$work/json" | tail -1 | figure grown_bytes)
say "memory outside the arena after the first step, MiB" "$(awk "BEGIN {print ${beside:-0} / 1048576}")" "" -
say_if "how much it grew in 30 steps, bytes" "${grown:-nan}" "0" [ "${grown:-1}" = 0 ]

# By name: an operation that faults or hangs; what does not run here.
place='stream compute: [^;]*of layer [0-9]+, microbatch [0-9]+, [a-z ]+, is not finished .operation 200.'
MOEFOLD_FAULT=trap:200 ran "a fault on the GPU" 3 "$place" "$moefold_test" train "${on_gpu[@]}" train.train_iters=3
MOEFOLD_FAULT=hang:200 MOEFOLD_TIMEOUT_SECONDS=4 ran "a hang on the GPU" 3 "no operation has ended on the device for [0-9]+ s: $place" \
    "$moefold_test" train "${on_gpu[@]}" train.train_iters=3
ran "more than its memory" 1 'GiB are missing; memory by recompute: .*' "$moefold" train qwen3-30b-a3b cluster.gpu=H200 cluster.n_gpus=1 train.train_iters=1
ran "FP8 blockwise" 0 'lm loss' "$moefold" train "${on_gpu[@]}" mixed_precision=bf16_with_fp8_subchannel_scaling_mixed train.train_iters=1
ran "NVFP4, which Hopper has not, by reference kernels" 0 'lm loss' "$moefold" train "${on_gpu[@]}" mixed_precision=bf16_with_nvfp4_mixed \
    mixed_precision.fp4_param_gather=false train.train_iters=1
ran "NVFP4 in Megatron's plans for Hopper" 1 'nvfp4-needs-blackwell' "$moefold" check tiny cluster.gpu=H200 cluster.n_gpus=1 mixed_precision=bf16_with_nvfp4_mixed
ran "a cuDNN that is not there" 3 'moefold.cudnn_path=/nowhere: cuDNN, which BF16 attention needs, cannot be opened' \
    "$moefold" train "${on_gpu[@]}" moefold.cudnn_path=/nowhere train.train_iters=1
old=$(ls -d /usr/lib/*/libcudnn.so.9 2>/dev/null | head -1)
[ -n "$old" ] && ran "the system's cuDNN, where it is older" 3 'is cuDNN 9.[0-9]+.[0-9]+, which is too old: 9.19 or newer' \
    "$moefold" train "${on_gpu[@]}" moefold.cudnn_path="$(dirname "$old")" train.train_iters=1
CUDA_VISIBLE_DEVICES='' ran "no GPU that is visible" 3 'there is no usable GPU .*; repair: moefold.device=cpu' "$moefold" train "${on_gpu[@]}" train.train_iters=1
ran "moefold.device=auto takes the GPU" 0 'NVIDIA [A-Z0-9]+, .* free of .*, driver for CUDA [0-9.]+, cuDNN [0-9.]+' \
    "$moefold" train "${tiny[@]}" cluster.gpu=H200 train.train_iters=2
