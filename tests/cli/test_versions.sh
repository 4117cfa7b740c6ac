#!/usr/bin/env bash
# --versions and moefold.versions: rules by version, what a container holds, contradictions. From the repository's root.
. tests/cli/saying.sh
long=recipes/dsv3-128k-h100.yaml moe=(qwen3-30b-a3b ep=16 gbs=64 seq=4096 --gpus 16xH100)

# ---- the option and the knob are one, in every command
for way in '--versions te=2.0' 'moefold.versions=te=2.0'; do
    expect "check_knows_${way%% *}" 1 'te-fuses-permutation' "$moefold" check --everything "${moe[@]}" $way
done
expect price_says_it 1 'te-fuses-permutation.*this is Transformer Engine 2.0' "$moefold" price "${moe[@]}" --versions te=2.0
expect the_next_release_has_it 0 ': valid, fits' "$moefold" check --everything "${moe[@]}" --versions te=2.1
expect a_recipe_keeps_it 0 '^  versions: .*te=2.12,torch=2.9' \
    "$moefold" show "${moe[@]}" --versions te=2.12,torch=2.9 --as recipe
"$moefold" show "${moe[@]}" --versions te=2.12,cudnn=9.10 --as recipe >"$work/kept.yaml"
expect a_kept_recipe_is_read 0 'valid' "$moefold" check --everything "$work/kept.yaml"
expect report_takes_it 0 '' "$moefold" report "${moe[@]}" --versions te=2.12 --out "$work/page.html"
expect plan_says_what_no_layout_has 1 'versions-are-those-of-the-stack' \
    "$moefold" plan --everything qwen3-30b-a3b --gpus 16xH100 --seq 4K --gbs 64 --stack 25.11 --versions te=2.12
expect fix_repairs_it 1 'model.moe_permute_fusion=false' "$moefold" check --everything "${moe[@]}" --versions te=2.0 --fix

# ---- containers stand for versions; what is given must agree with them
ring=("$long" model.cp_comm_type=a2a model.hierarchical_context_parallel_sizes=null)
expect containers_have_versions 1 'mla-needs-a-ring' "$moefold" check --everything "${ring[@]}"
expect versions_alone_do_it 1 'this is Transformer Engine 2.14 \(moefold.versions' \
    "$moefold" check --everything "${ring[@]}" moefold.stack=null --versions te=2.14
without newer_ones_exchange_heads 'mla-needs-a-ring' "$moefold" check --everything "${ring[@]}" moefold.stack=null --versions te=2.15
expect contradictions_name_both 1 "te=2.12,torch=2.9.* contradicts moefold.stack='26.02', which holds PyTorch 2.10.0, not 2.9" \
    "$moefold" check --everything "$long" --versions te=2.12,torch=2.9
expect contradictions_have_a_repair 1 'repair: *moefold.stack=null' "$moefold" check --everything "$long" --versions torch=2.9
expect what_agrees_refines 0 'long-latents-go-round' "$moefold" check --everything "$long" --versions te=2.12.3,torch=2.10,nccl=2.28
expect old_container_failed 0 'fused permutation is known to have failed in PyTorch 25.11' \
    "$moefold" check --everything "${moe[@]}" moefold.stack=25.11
without new_container_does_not 'fused-permutation-failed' "$moefold" check --everything "${moe[@]}" moefold.stack=26.02

# ---- what cannot be read
expect unknown_names_have_a_repair 2 "'pytorch' is none of .*repair: torch=2.9" "$moefold" check --everything "${moe[@]}" --versions pytorch=2.9
expect versions_are_numbers 2 'te=new is no version.*repair: te=' "$moefold" price "${moe[@]}" --versions te=new
expect knobs_are_read_alike 2 "'cuda' is none of te, torch, cudnn, nccl" "$moefold" show "${moe[@]}" moefold.versions=cuda=13

# ---- what steadies the host is not modelled, and both commands say so
cat >"$work/job.sh" <<'E2'
numactl --cpunodebind=0 --membind 0 torchrun --nproc_per_node=1 pretrain_gpt.py --num-layers 4 --hidden-size 512 \
    --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --vocab-size 1000 \
    --global-batch-size 8 --manual-gc --manual-gc-interval 100 --swiglu --bf16 --lr 1e-4
E2
for word in numactl --manual-gc; do
    expect "check_says_that_${word}_is_not_modelled" 0 "$word'?: .*not modelled" "$moefold" check --everything "$work/job.sh"
done
expect a_key_of_bridge_does 0 'train.manual_gc: .*not modelled' "$moefold" check --everything "${moe[@]}" train.manual_gc=true
exit $failed
