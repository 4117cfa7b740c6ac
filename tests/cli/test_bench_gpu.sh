#!/usr/bin/env bash
# `bench --device`, and where times of our own program on a GPU are from.
. tests/cli/saying.sh
root=$PWD
one=(qwen3-30b-a3b model.num_layers=2 cluster.n_gpus=1 train.global_batch_size=1)
ours=moefold.target=moefold

# ---- what is refused, before anything is measured
hidden() { CUDA_VISIBLE_DEVICES= "$moefold" bench --device cuda "$@"; }
expect no_gpu 3 'device cuda: .*(no GPU to use|moefold-cuda.so is not beside the program|driver is for CUDA)' hidden
expect no_such_device 2 'device gpu7: cpu, or cuda' "$moefold" bench --device gpu7
expect no_place 3 'out /nowhere/x.yaml' "$moefold" bench --out /nowhere/x.yaml
expect a_folder 2 'is a folder' "$moefold" bench --out hardware

# ---- a copy without measured files: estimates
mkdir -p "$work/bin" "$work/hardware" "$work/home"
cp "$moefold" "$work/bin/moefold"
cp "$root"/hardware/h[12]00.yaml "$work/hardware"
own=$work/bin/moefold
export HOME=$work/home
cd "$work" || exit 1
expect estimates_are_marked 0 'Estimate +times are estimates: our kernels were not measured on H200' "$own" price "${one[@]}" cluster.gpu=H200 $ours
expect in_json 0 '"estimate": ?true.*"measured": ?null|"measured": ?null.*"estimate": ?true' "$own" price "${one[@]}" cluster.gpu=H200 $ours --json
expect plans_are_marked 0 'Estimate +times are estimates' "$own" plan tiny --gpus 1xH100 --seq 512 --gbs 2 $ours
expect plans_in_json 0 '"estimate": ?true' "$own" plan tiny --gpus 1xH100 --seq 512 --gbs 2 $ours --json
without megatrons_times_are_not '[Ee]stimates?["| ]*(:|times)' "$own" price "${one[@]}" cluster.gpu=H200
without megatrons_json_is_not '"estimate"' "$own" price "${one[@]}" cluster.gpu=H200 --json

# ---- with one
sed -e '1,/^name:/s/^name: .*/name: H200\nmeasured: "2026-01-02"/' -e 's/^  visible: .*/  visible: 100 GiB/' -e 's/^framework: 1.*//' \
    hardware/h200.yaml >hardware/h200-measured.yaml
expect the_file_is_named 0 'Machine +.*h200-measured.yaml, measured with our kernels on 2026-01-02' "$own" price "${one[@]}" cluster.gpu=H200 $ours
expect it_is_used 0 'of 95.00 GiB usable' "$own" price "${one[@]}" cluster.gpu=H200 $ours
expect json_has_the_day 0 '"measured": ?"2026-01-02"' "$own" price "${one[@]}" cluster.gpu=H200 $ours --json
expect plans_use_it 0 '95.0 GiB of a GPU can be used' "$own" plan tiny --gpus 1xH200 --seq 512 --gbs 2 $ours
expect others_are_estimates_still 0 'times are estimates: our kernels were not measured on H100' "$own" price "${one[@]}" cluster.gpu=H100 $ours
expect megatron_has_its_own 0 'of 132.05 GiB usable' "$own" price "${one[@]}" cluster.gpu=H200
echo 'kinds: {NORMS: 1}' >>hardware/h200-measured.yaml
expect unknown_kinds_are_named 2 'h200-measured.yaml: kinds: NORMS is no kind of operation' "$own" price "${one[@]}" cluster.gpu=H200 $ours
exit $failed
