#!/usr/bin/env bash
# A hardware file of the user's: cluster.gpu names it in every command, `plan --out` keeps it, rules follow its
# architecture, and what is wrong with it is named with its line. From the repository's root.
. tests/cli/saying.sh
root=$PWD
mkdir -p "$work/hw" "$work/out"
# An H100 with half the links and 40 GiB; a Blackwell with NVLink over nine nodes of eight.
sed -e 's/^name: .*/name: slow/' -e 's/visible: 79.1 GiB/visible: 40 GiB/' \
    -e 's/bandwidth: 50 GB/bandwidth: 25 GB/' hardware/h100.yaml >"$work/slow.yaml"
sed -e 's/^name: .*/name: wide/' -e 's/gpus: 72/gpus: 36/' hardware/gb200.yaml >"$work/hw/wide.yaml"
sed -e 's/^name: .*/name: slow/' -e '/^architecture/d' hardware/h100.yaml >"$work/unsaid.yaml"
sed -e 's/^name: .*/name: slow/' -e 's/^architecture: .*/architecture: volta/' hardware/h100.yaml >"$work/volta.yaml"
sed -e 's/bf16: 989.5 TF/bf16: fast/' hardware/h100.yaml >"$work/fast.yaml"
sed -e 's/^name: .*/name: cores/' hardware/cpu.yaml >"$work/cores.yaml"
cp "$work/slow.yaml" "$work/slow"
cp "$work/slow.yaml" "$work/h100"
cd "$work" || exit 1
small=(qwen3-30b-a3b --seq 4096 --gbs 64)

# ---- plan keeps it
expect plan_takes_a_file 0 'written to w.yaml' "$moefold" plan --everything "${small[@]}" --gpus 16x./slow.yaml --out w.yaml
expect plan_writes_the_path 0 '^  gpu: "?\./slow.yaml' cat w.yaml
expect plan_rewrites_the_path 0 'written to' "$moefold" plan --everything "${small[@]}" --gpus 16x./slow.yaml --out out/w.yaml
expect path_from_its_folder 0 '^  gpu: "?\.\./slow.yaml' cat out/w.yaml
expect plan_rewrites_into_folders 0 'written to' "$moefold" plan --everything "${small[@]}" --gpus 72xhw/wide.yaml --out out/x.yaml
expect path_between_folders 0 '^  gpu: "?\.\./hw/wide.yaml' cat out/x.yaml
expect plan_keeps_whole_paths 0 'written to' "$moefold" plan --everything "${small[@]}" --gpus "16x$work/slow.yaml" --out out/y.yaml
expect whole_paths_stay 0 "^  gpu: .?$work/slow.yaml" cat out/y.yaml

# ---- every command takes it, from any folder
expect check_takes_it 0 '"ok":true' "$moefold" check --everything out/w.yaml --json
cd / || exit 1
expect check_elsewhere 0 '"ok":true' "$moefold" check --everything "$work/out/w.yaml" --json
expect show_takes_it 0 'slow.yaml' "$moefold" show "$work/out/w.yaml"
expect price_elsewhere 0 '"usable_bytes":40802189312' "$moefold" price "$work/out/w.yaml" --json
cd "$work" || exit 1
expect price_takes_it 0 '"usable_bytes":40802189312' "$moefold" price out/w.yaml --json
expect launch_takes_it 0 'sbatch|SBATCH' "$moefold" launch tiny cluster.gpu=./cores.yaml cluster.n_gpus=16 train.train_iters=5 --slurm
expect from_the_command_line 0 'slow.yaml' "$moefold" show tiny cluster.gpu=slow.yaml
expect without_an_ending 0 '\./slow' "$moefold" show tiny cluster.gpu=slow
expect shipped_names_win 0 'cluster.gpu +H100' "$moefold" show tiny cluster.gpu=h100
expect a_path_is_a_file 0 'cluster.gpu +\./h100' "$moefold" show tiny cluster.gpu=./h100
expect as_recipe_keeps_it 0 '"ok":true' bash -c "'$moefold' show out/w.yaml --as recipe >again.yaml && '$moefold' check again.yaml --json"
against=$("$moefold" plan --everything "${small[@]}" --gpus 16x./slow.yaml --against out/w.yaml 2>&1)
check plan_against_it test $? = 0

# ---- its architecture, memory and neighbours
expect hopper_has_no_mxfp8 1 'mxfp8-needs-blackwell' "$moefold" check --everything tiny cluster.gpu=./slow.yaml mixed_precision=bf16_with_mxfp8_mixed
without blackwell_has_it 'mxfp8-needs-blackwell' "$moefold" check --everything tiny cluster.gpu=hw/wide.yaml mixed_precision=bf16_with_mxfp8_mixed
expect domain_of_the_file 0 'nvlink_domain +36' "$moefold" show tiny cluster.gpu=hw/wide.yaml
expect node_of_the_file 0 'gpus_per_node +4' "$moefold" show tiny cluster.gpu=hw/wide.yaml
expect wide_domains_take_hybridep 0 'moe_flex_dispatcher_backend +hybridep' "$moefold" show tiny cluster.gpu=hw/wide.yaml model.moe_token_dispatcher_type=flex

# ---- what is wrong with it
expect missing_file 2 'cluster.gpu=\./nowhere.yaml.*No such file' "$moefold" check --everything tiny cluster.gpu=./nowhere.yaml
printf 'moefold:\n  model: tiny\ncluster:\n  gpu: fast.yaml\n' >bad.yaml
expect wrong_file 2 'bad.yaml:4: cluster.gpu=\./fast.yaml: \./fast.yaml:[0-9]+: peak.bf16: "fast"' "$moefold" check --everything bad.yaml
expect wrong_file_in_price 2 'fast.yaml:[0-9]+: peak.bf16' "$moefold" price bad.yaml
expect wrong_file_in_plan 2 'fast.yaml:[0-9]+: peak.bf16' "$moefold" plan --everything tiny --gpus 8x./fast.yaml
expect architecture_unsaid 2 'unsaid.yaml: architecture is missing; write ampere, hopper' "$moefold" check --everything tiny cluster.gpu=./unsaid.yaml
expect architecture_unknown 2 'volta.yaml:[0-9]+: architecture: "volta"' "$moefold" check --everything tiny cluster.gpu=./volta.yaml
expect unknown_name 1 'H100' "$moefold" check --everything tiny cluster.gpu=H199

# ---- this machine
expect local_needs_a_measurement 2 'cluster.gpu=local: this machine was not measured; repair' env HOME="$work" "$moefold" price tiny cluster.gpu=local
mkdir -p hardware
sed 's/^name: .*/name: local/' "$root/hardware/cpu.yaml" >hardware/local.yaml
expect local_is_priced 0 '"usable_bytes":[1-9]' env HOME="$work" "$moefold" price tiny cluster.gpu=local --json
expect local_is_checked 0 'valid' "$moefold" check --everything tiny cluster.gpu=local
expect plan_keeps_local 0 'written to' env HOME="$work" "$moefold" plan --everything tiny --gpus local --seq 512 --gbs 8 --out l.yaml
expect local_in_the_recipe 0 '^  gpu: "?local' cat l.yaml
exit $failed
