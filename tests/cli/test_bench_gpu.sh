#!/usr/bin/env bash
# `bench --device`, and where times of our own program on a GPU are from.
. tests/cli/saying.sh
root=$PWD
one=(qwen3-30b-a3b model.num_layers=2 cluster.n_gpus=1 train.global_batch_size=1)
ours=moefold.target=moefold

# ---- what is refused, before anything is measured
hidden() { CUDA_VISIBLE_DEVICES= "$moefold" bench --device cuda "$@"; }
expect no_gpu 3 "device cuda: .*(no usable GPU|there is no moefold-cuda.so in the program's folder|driver supports CUDA)" hidden
expect no_such_device 2 'device gpu7: cpu, or cuda' "$moefold" bench --device gpu7
expect no_place 3 'out /nowhere/x.yaml' "$moefold" bench --out /nowhere/x.yaml
expect a_folder 2 'is a folder' "$moefold" bench --out hardware


# GPUs that are not here, by a stand-in for the object.
mkdir "$work/fake" "$work/empty"
${CC:-cc} -std=c11 -Isrc -Ibuild/generated -fPIC -shared tests/device/fake_cuda.c -o "$work/fake/moefold-cuda.so" || exit 1
ln -s "$root/build/moefold-mpi.so" "$work/fake"
on() { # FAKE_GPU WORDS...
    (cd "$work/empty" && FAKE_GPU=$1 FAKE_CUDNN=${cudnn-cuDNN 9.19.0 (/here)} MOEFOLD_BACKENDS=$work/fake MOEFOLD_CUDNN= "$moefold" bench --device cuda "${@:2}")
}
h200="1 13000 13000 9 0 150000000000 149000000000 NVIDIA H200"
expect old_drivers 3 "device cuda: the GPU's driver supports CUDA 12.2.*repair: install a newer driver, or set --device cpu" on "0 12020 13000"
expect other_gpus 3 'device cuda: NVIDIA B200 has compute capability 10.0' on "1 13000 13000 10 0 190000000000 189000000000 NVIDIA B200"
expect several_ranks 3 'NVIDIA H200, communication between 2 ranks, .*all else is taken from .*hardware/h200-measured.yaml' on "$h200" --ranks 2
expect several_ranks_open_it 3 'the fake GPU was opened' on "$h200" --ranks 2
expect several_threads_open_it 3 'the fake GPU was opened' on "$h200" --ranks 2 --as-threads
expect without_a_measured_file 3 'communication between 2 ranks, .*all else is taken from .*hardware/h100.yaml' on "${h200%200}100" --ranks 2 --as-threads
expect it_says_what_it_measures 3 'moefold bench: NVIDIA H200, .* s of measurements' on "$h200"
expect gpus_without_a_file 3 'no hardware description for NVIDIA H20: peaks and links are taken from H100' on "${h200%0}"
expect a_recipe_is_for_the_gpu 2 'device cpu with a recipe: .*repair: give --device cuda' "$moefold" bench tiny cluster.n_gpus=1
expect a_recipe_opens_the_gpu 3 'the fake GPU was opened' on "$h200" tiny cluster.n_gpus=1
expect a_recipe_that_is_wrong 1 'tp-divides|tensor_model_parallel_size' on "$h200" tiny cluster.n_gpus=1 model.tensor_model_parallel_size=3
expect a_recipe_has_a_place_too 3 'out /nowhere/x.txt' on "$h200" tiny cluster.n_gpus=1 --out /nowhere/x.txt
cudnn= expect old_libraries 3 'device cuda: .*cuDNN' on "$h200"

# ---- a copy without measured files: estimates
mkdir -p "$work/bin" "$work/hardware" "$work/home"
cp "$moefold" "$work/bin/moefold"
cp "$root"/hardware/h[12]00.yaml "$work/hardware"
own=$work/bin/moefold
export HOME=$work/home
cd "$work" || exit 1
expect estimates_are_marked 0 'Estimate +times are estimates: our kernels were not measured on H200' "$own" price --everything "${one[@]}" cluster.gpu=H200 $ours
expect in_json 0 '"estimate": ?true.*"measured": ?null|"measured": ?null.*"estimate": ?true' "$own" price "${one[@]}" cluster.gpu=H200 $ours --json
expect plans_are_marked 0 'Estimate +times are estimates' "$own" plan --everything tiny --gpus 1xH100 --seq 512 --gbs 2 $ours
expect plans_in_json 0 '"estimate": ?true' "$own" plan --everything tiny --gpus 1xH100 --seq 512 --gbs 2 $ours --json
without megatrons_times_are_not '[Ee]stimates?["| ]*(:|times)' "$own" price "${one[@]}" cluster.gpu=H200
without megatrons_json_is_not '"estimate"' "$own" price "${one[@]}" cluster.gpu=H200 --json

# ---- with one
sed -e '1,/^name:/s/^name: .*/name: H200\nmeasured: "2026-01-02"/' -e 's/^  visible: .*/  visible: 100 GiB/' -e 's/^framework: 1.*//' \
    hardware/h200.yaml >hardware/h200-measured.yaml
expect the_file_is_named 0 'Machine +.*h200-measured.yaml, measured with our kernels on 2026-01-02' "$own" price --everything "${one[@]}" cluster.gpu=H200 $ours
expect it_is_used 0 'of 95.00 GiB usable' "$own" price --everything "${one[@]}" cluster.gpu=H200 $ours
expect json_has_the_day 0 '"measured": ?"2026-01-02"' "$own" price "${one[@]}" cluster.gpu=H200 $ours --json
expect plans_use_it 0 '95.0 GiB of a GPU are usable' "$own" plan --everything tiny --gpus 1xH200 --seq 512 --gbs 2 $ours
expect others_are_estimates_still 0 'times are estimates: our kernels were not measured on H100' "$own" price "${one[@]}" cluster.gpu=H100 $ours
expect megatron_has_its_own 0 'of 132.81 GiB usable' "$own" price --everything "${one[@]}" cluster.gpu=H200
echo 'kinds: {NORMS: 1}' >>hardware/h200-measured.yaml
expect unknown_kinds_are_named 2 'h200-measured.yaml: kinds: NORMS is not a kind of operation' "$own" price "${one[@]}" cluster.gpu=H200 $ours
exit $failed
