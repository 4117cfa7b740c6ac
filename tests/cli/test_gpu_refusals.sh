#!/usr/bin/env bash
# What keeps a GPU from being used is named before anything starts. A stand-in for the CUDA object answers for GPUs that are not here,
# and a stand-in for cuDNN has another version.
. tests/cli/saying.sh
export OMP_NUM_THREADS=1
mkdir "$work/fake"
${CC:-cc} -std=c11 -Isrc -Ibuild/generated -fPIC -shared tests/device/fake_cuda.c -o "$work/fake/moefold-cuda.so" || exit 1
GiB=$((1 << 30))
small=(tiny cluster.gpu=H200 cluster.n_gpus=1 model.seq_length=64 train.train_iters=1)
on() { # FAKE_GPU WORDS...
    FAKE_GPU=$1 FAKE_CUDNN=${cudnn-cuDNN 9.19.0 (/here)} MOEFOLD_BACKENDS=$work/fake MOEFOLD_CUDNN=${named-} "$moefold" train "${@:2}"
}
h200() { on "1 13000 13000 9 0 $((140 * GiB)) ${free:-$((139 * GiB))} NVIDIA H200" "$@"; }
cuda=moefold.device=cuda

expect no_driver 3 'there is no usable GPU \(no NVIDIA driver is installed\); repair: moefold.device=cpu' on "0 0 13000" "${small[@]}" $cuda
expect old_driver 3 "the GPU's driver supports CUDA 12.2, but this program needs 13.0; repair: install a newer driver, or set moefold.device=cpu" \
    on "0 12020 13000" "${small[@]}" $cuda
expect none_visible 3 'there is no usable GPU \(none is visible; check CUDA_VISIBLE_DEVICES\)' on "0 13000 13000" "${small[@]}" $cuda
expect out_of_order 3 'there is no usable GPU \(GPU 0: out of order\)' on "-1 13000 13000" "${small[@]}" $cuda
expect another_gpu 3 'NVIDIA A100-SXM4-80GB has compute capability 8.0: our kernels need 9.0' \
    on "1 13000 13000 8 0 $((80 * GiB)) $((79 * GiB)) NVIDIA A100-SXM4-80GB" "${small[@]}" $cuda
expect a_newer_gpu 3 'NVIDIA B200 has compute capability 10.0: our kernels need 9.0' \
    on "1 13000 13000 10 0 $((180 * GiB)) $((179 * GiB)) NVIDIA B200" "${small[@]}" $cuda
expect auto_takes_the_gpu 3 'NVIDIA H200, 139.00 GiB free of 140.00 GiB, driver for CUDA 13.0, cuDNN 9.19.0 \(/here\)' \
    h200 "${small[@]}"
expect one_local_rank_takes_it 3 'the fake GPU was opened' h200 tiny cluster.gpu=local cluster.n_gpus=1 train.train_iters=1
expect the_cpu_is_taken_where_it_is_asked_for 0 'done after 1 steps' h200 "${small[@]}" moefold.device=cpu

# MXFP8 and NVFP4 on Hopper: Megatron has none, our own programs have reference kernels, and no price takes those for native ones.
mxfp8=(mixed_precision=bf16_with_mxfp8_mixed mixed_precision.fp8_param_gather=false mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=false)
nvfp4=(mixed_precision=bf16_with_nvfp4_mixed mixed_precision.fp4_param_gather=false)
ours=moefold.target=moefold
expect mxfp8_on_hopper 3 'the fake GPU was opened' h200 "${small[@]}" $cuda "${mxfp8[@]}"
expect nvfp4_on_hopper 3 'the fake GPU was opened' h200 "${small[@]}" $cuda "${nvfp4[@]}"
expect mxfp8_in_megatron 1 'mxfp8-needs-blackwell' "$moefold" check --everything "${small[@]}" "${mxfp8[@]}"
expect nvfp4_in_megatron 1 'nvfp4-needs-blackwell' "$moefold" check --everything "${small[@]}" "${nvfp4[@]}"
expect mxfp8_is_noted 0 'note +our-hopper-multiplies-by-reference' "$moefold" check --everything "${small[@]}" $ours "${mxfp8[@]}"
expect mxfp8_is_estimated 0 'times are estimates: H200 has no MXFP8 or NVFP4 GEMMs' "$moefold" price "${small[@]}" $ours "${mxfp8[@]}"
expect nvfp4_is_estimated 0 '"estimate": *true' "$moefold" price "${small[@]}" $ours "${nvfp4[@]}" --json
expect mxfp8_is_no_megatron_run 1 'mixed_precision=bf16_with_mxfp8_mixed .* cannot be written for Megatron-LM' \
    "$moefold" show "${small[@]}" $ours moefold.pack_step=false "${mxfp8[@]}" --as megatron-lm
expect several_ranks 1 'this is one process; repair: start with --ranks 8' h200 tiny cluster.gpu=H200 cluster.n_gpus=8

expect algorithms_that_are_not_there 2 'moefold.cublaslt=/nowhere/x.txt: there is no such file; repair: write one with .moefold bench --device cuda RECIPE' \
    h200 "${small[@]}" $cuda moefold.cublaslt=/nowhere/x.txt
expect none_is_no_file 3 'the fake GPU was opened' h200 "${small[@]}" $cuda moefold.cublaslt=none

# Graphs: ranks as threads of one process run without, and the repair is taken; ranks as processes may have them.
graphed=(tiny cluster.gpu=H200 model.seq_length=64 train.train_iters=1 train.global_batch_size=2 $cuda)
expect graphs_of_threads 1 'model.cuda_graph_impl=full_iteration with --as-threads: .* cannot use CUDA graphs; repair: model.cuda_graph_impl=none with model.cuda_graph_modules=\[\], or --ranks 2 without --as-threads' \
    h200 "${graphed[@]}" --ranks 2 --as-threads model.cuda_graph_impl=full_iteration
expect threads_without_graphs 3 'the fake GPU was opened' h200 "${graphed[@]}" --ranks 2 --as-threads model.cuda_graph_impl=none 'model.cuda_graph_modules=[]'
expect one_thread_may_have_graphs 3 'the fake GPU was opened' h200 "${graphed[@]}" --ranks 1 --as-threads model.cuda_graph_impl=full_iteration

# Memory: how much is missing, and the ladder with what would help.
large=(qwen3-30b-a3b model.num_layers=4 cluster.gpu=H200 cluster.n_gpus=1 model.seq_length=4096 train.micro_batch_size=8
    train.global_batch_size=8 train.train_iters=1)
free=$((57 * GiB)) expect too_little_memory 1 \
    'does not fit: it needs [0-9.]+ GiB, and 64.00 MiB for libraries; of the 140.00 GiB of this NVIDIA H200, 57.00 GiB are free: [0-9.]+ [GM]iB are missing; memory by recompute: none [0-9.]+ GiB,.*, full [0-9.]+ GiB \(fits\); repair: model.recompute_granularity=' \
    h200 "${large[@]}"
expect ranks_that_share_it 1 'does not fit: 8 ranks share a GPU and need [0-9.]+ GiB, and 600.00 MiB each for contexts and libraries; this NVIDIA H200 has 140.00 GiB; repair: use more GPUs' \
    h200 qwen3-30b-a3b model.num_layers=4 cluster.gpu=H200 model.seq_length=4096 train.micro_batch_size=4 train.global_batch_size=32 \
    train.train_iters=1 --ranks 8
free=$((10 * GiB)) expect far_too_little_memory 1 '10.00 GiB are free: [0-9.]+ GiB are missing; memory by recompute: .*; none fits; repair: fewer tokens' \
    h200 "${large[@]}"
words=$(free=$((57 * GiB)) h200 "${large[@]}" 2>&1 | sed -n 's/.*; repair: //p')
free=$((57 * GiB)) expect the_repair_fits 3 'the fake GPU was opened' h200 "${large[@]}" $words

# cuDNN: one that was named and is not there, or is too old, is refused; one that nobody named is only missed.
cudnn= named=/nowhere expect a_named_cudnn_that_is_not_there 3 'MOEFOLD_CUDNN=/nowhere: cuDNN cannot be opened' h200 "${small[@]}"
cudnn= expect a_cudnn_in_the_recipe_that_is_not_there 3 'moefold.cudnn_path=/nowhere: cuDNN cannot be opened' \
    h200 "${small[@]}" moefold.cudnn_path=/nowhere
cudnn= expect no_cudnn_is_said 3 'driver for CUDA 13.0, no cuDNN' h200 "${small[@]}"
if [ -e "$(dirname "$(readlink -f "$moefold")")/moefold-cuda.so" ]; then
    mkdir "$work/old"
    {
        echo '#include <stddef.h>'
        echo 'size_t cudnnGetVersion(void) { return 91400; }'
        for f in GetErrorString GetLastErrorString Create SetStream BackendCreateDescriptor BackendDestroyDescriptor BackendFinalize \
            BackendSetAttribute BackendGetAttribute BackendExecute; do echo "int cudnn$f(void) { return 0; }"; done
    } | ${CC:-cc} -x c - -fPIC -shared -o "$work/old/libcudnn.so.9" || exit 1
    MOEFOLD_CUDNN=$work/old expect an_old_cudnn_is_refused_by_its_version 3 \
        'MOEFOLD_CUDNN=.*/old: .*libcudnn.so.9 is cuDNN 9.14.0, which is too old: 9.19 or newer is needed' \
        "$moefold" train "${small[@]}" $cuda
    expect a_folder_without_cudnn_is_named 3 'moefold.cudnn_path=/nowhere: cuDNN, which BF16 attention needs, cannot be opened: .*/nowhere/libcudnn.so.9' \
        "$moefold" train "${small[@]}" $cuda moefold.cudnn_path=/nowhere
else
    echo "ok an_old_cudnn_is_refused_by_its_version # skip: no CUDA object was built"
fi
exit $failed
