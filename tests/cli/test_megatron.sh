#!/usr/bin/env bash
# Megatron-LM's files through the commands: lists, launch scripts, YAML. With MEGATRON_LM=DIR, a
# checkout of Megatron-LM, its own functional tests and examples are read too.
. tests/cli/saying.sh

data=tests/data/megatron
expect script 0 'TP 2 x CP 1 x DP 4 x PP 4' "$moefold" check --everything --from-megatron $data/launch.sh
expect script_set 0 'PP 2' "$moefold" check --everything --from-megatron $data/launch.sh --set PP=2 --set=NNODES=4
expect script_environment 0 'PP 4' env PP=2 "$moefold" check --everything --from-megatron $data/launch.sh
expect script_runs_nothing 0 'is sourced there; it is not read' "$moefold" check --everything --from-megatron $data/launch.sh
expect several 2 '3 training commands; --command N picks one' "$moefold" show --from-megatron $data/several.sh
expect command 0 'model.tensor_model_parallel_size  *2 ' "$moefold" show --from-megatron $data/several.sh --command 2
expect missing 2 'NODES for --nodes' "$moefold" show --from-megatron $data/several.sh --command 3
expect given 0 'cluster.n_gpus  *32 ' "$moefold" show --from-megatron $data/several.sh --command 3 --set NODES=4
expect named_alone 0 'PP 2' "$moefold" check --everything $data/launch.sh --set PP=2
expect yaml 0 'TP 2 x CP 1 x DP 2 x PP 2' "$moefold" check --everything --from-megatron $data/functional.yaml
expect yaml_vocabulary 0 'model.vocab_size  *50257 .*GPT2BPETokenizer' "$moefold" show --from-megatron $data/functional.yaml
expect set_alone 2 '--set is for a Megatron-LM script' "$moefold" check --everything tiny --set A=1
expect command_alone 2 '--command is for a Megatron-LM script' "$moefold" check --everything tiny --command 1
expect help 0 'NAME=value' "$moefold" check --everything --help
expect standard_input 0 'TP 2 x CP 1 x DP 4' "$moefold" check --everything --from-megatron - <$data/launch.sh
printf -- '--num-layer 4\n--hidden-siz 8\n--lr 1\n' >"$work/list.txt"
expect all_unknown 2 "2 unknown flags" "$moefold" check --everything --from-megatron "$work/list.txt"
expect first_unknown 2 "'--num-layers'" "$moefold" check --everything --from-megatron "$work/list.txt"
expect second_unknown 2 "'--hidden-size'" "$moefold" check --everything --from-megatron "$work/list.txt"

expect instances_count 0 'cluster.n_gpus  *2 ' "$moefold" show tiny ddp.num_distributed_optimizer_instances=2
expect sinkhorn_is_megatrons 0 'balancing-is-not-priced' "$moefold" check --everything tiny model.moe_router_load_balancing_type=sinkhorn model.moe_aux_loss_coeff=0.0

# ---- batch scripts of Slurm
model='--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 1 --global-batch-size 64 --vocab-size 512 --train-iters 2 --lr 1e-4 --bf16'
batch() { # NAME LINE... (header) -- COMMAND...
    { echo '#!/bin/bash'; while [ "$1" != -- ]; do echo "#SBATCH $1"; shift; done; shift; printf '%s\n' "$@"; } >"$work/batch.sh"
}
world() { # NAME GPUS HEADER... -- COMMAND
    local name=$1 gpus=$2
    shift 2
    batch "$@"
    expect "$name" 0 "^Layout *$gpus x H100" "$moefold" check --everything --from-megatron "$work/batch.sh"
}
world sbatch_equals 32 --nodes=4 --ntasks-per-node=8 -- "srun python pretrain_gpt.py $model"
world sbatch_blank 32 '--nodes 4' '--gpus-per-node 8' -- "srun python pretrain_gpt.py $model"
world sbatch_letter 32 '-N 4 -n 32' -- "srun python pretrain_gpt.py $model"
world sbatch_glued 16 -N2 --gres=gpu:8 -- "srun python pretrain_gpt.py $model"
world sbatch_typed 16 -N2 --gres=gpu:h100:8 -- "srun python pretrain_gpt.py $model"
world sbatch_all_gpus 16 --nodes=2 --gpus=16 '--ntasks-per-node=8 # eight ranks' -- "srun python pretrain_gpt.py $model"
world sbatch_one_task 16 --nodes=2 --gpus-per-node=h100:8 --ntasks-per-node=1 -- \
    "srun torchrun --nnodes \$SLURM_NNODES --nproc_per_node \$SLURM_GPUS_PER_NODE pretrain_gpt.py $model"
world slurm_variables 32 --nodes=4 --ntasks-per-node=8 -- 'WORLD=$((SLURM_JOB_NUM_NODES * SLURM_NTASKS_PER_NODE))' \
    'srun torchrun --nnodes=$((WORLD / 8)) --nproc-per-node 8 pretrain_gpt.py '"$model"
world launcher_wins 16 --nodes=4 --gpus-per-node=8 -- "srun --nodes=2 python pretrain_gpt.py $model"
world one_node_of_torchrun 8 --nodes=4 --gpus-per-node=8 -- "torchrun --nproc-per-node 8 pretrain_gpt.py $model"
world behind_the_first_command 8 --nodes=1 --gpus-per-node=8 -- 'true' '#SBATCH --nodes=4' "srun python pretrain_gpt.py $model"
batch --nodes=2 --gres=gpu:b200:8 -- "srun python pretrain_gpt.py $model"
expect sbatch_names_the_gpu 0 'cluster.gpu  *B200 .*#SBATCH' "$moefold" show --from-megatron "$work/batch.sh"
batch --nodes=2 -- 'IMAGE=""' 'if [ -z "$IMAGE" ]; then' '  exit 1' 'fi' "srun torchrun --nproc-per-node 8 pretrain_gpt.py $model"
expect blanks_to_fill_in 0 'model.num_layers  *4 ' "$moefold" show --from-megatron "$work/batch.sh"

# ---- words in other words
cat >"$work/ssh.sh" <<S
#!/bin/bash
ARGS=($model)
for host in a b; do ssh \$host "cd /job && torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py \${ARGS[*]}" & done
S
expect command_over_ssh 0 '^Layout *16 x H100' "$moefold" check --everything --from-megatron "$work/ssh.sh"
printf 'export TP=2\n# a comment\nLAYERS="6"\n' >"$work/env.sh"
printf 'TP=4\nmodule load cuda\n' >"$work/site.sh"
printf '#!/bin/bash\nsource ./env.sh\n. "$(dirname "$0")"/site.sh\ntorchrun --nproc-per-node 8 pretrain_gpt.py %s --tensor-model-parallel-size $TP --num-layers $LAYERS\n' "$model" >"$work/sources.sh"
expect assignments_are_followed 0 'model.num_layers  *6 ' "$moefold" show --from-megatron "$work/sources.sh"
expect assignments_are_named 0 'env.sh is sourced there; its assignments are read' "$moefold" show --from-megatron "$work/sources.sh"
expect programs_are_not_followed 0 'site.sh is sourced there; it is not read' "$moefold" show --from-megatron "$work/sources.sh"
printf 'TOKENIZER_MODEL="meta-llama/Llama-3.1-8B"\nMODEL_ARGS=" \\\n    --num-layers 4 \\\n    --hidden-size 64 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --tokenizer-type HuggingFaceTokenizer \\\n"\n' >"$work/conf.sh"
expect arguments_in_a_text 0 'model.vocab_size  *128256 ' "$moefold" show --from-megatron "$work/conf.sh"

# ---- other programs
for other in bert:BERT t5:T5; do
    echo "torchrun --nproc-per-node 8 pretrain_${other%:*}.py $model" >"$work/other.sh"
    sed -i '1i #!/bin/bash' "$work/other.sh"
    expect "refused_${other%:*}" 2 "pretrain_${other%:*}.py trains ${other#*:}" "$moefold" check --everything --from-megatron "$work/other.sh"
done
cat >"$work/bridge.sh" <<'S'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
MODEL=qwen3_30b_a3b
CMD="uv run python scripts/training/run_recipe.py --recipe ${MODEL}_pretrain_config --dataset llm-pretrain-mock \
    model.expert_model_parallel_size=8 train.global_batch_size=64 logger.wandb_project=$PROJECT model.seq_length=4096"
srun --ntasks-per-node=8 bash -c "$CMD"
S
bridge=("$moefold" show --from-megatron "$work/bridge.sh")
expect bridge_recipe_names_the_model 0 'moefold.model  *qwen3-30b-a3b .*recipe qwen3_30b_a3b_pretrain_config' "${bridge[@]}"
expect bridge_overrides_are_read 0 'model.expert_model_parallel_size  *8 ' "${bridge[@]}"
expect bridge_has_its_defaults 0 'moefold.system  *megatron-bridge' "${bridge[@]}"
expect bridge_cluster 0 'cluster.n_gpus  *16 ' "${bridge[@]}"
expect bridge_says_what_is_left 0 'not what it sets itself' "${bridge[@]}"
sed -i 's/expert_model_parallel_size=8/expert_model_parallel_size=$EP/' "$work/bridge.sh"
expect bridge_missing 2 'EP for model.expert_model_parallel_size' "${bridge[@]}"
sed -i 's/qwen3_30b_a3b/stepfun_9b/' "$work/bridge.sh"
expect bridge_model_is_not_here 2 'moefold.model=stepfun_9b_pretrain_config' "${bridge[@]}" --set EP=1

# list -> recipe -> list keeps the verdict and the bytes.
verdict() { "$moefold" check --everything --json "$@" 2>&1 | grep -oE '^\{"ok":[a-z]+,"fits":[a-z]+,"peak_bytes":[a-z0-9]+'; }
round_trip() { # NAME FILE
    local first second third
    first=$(verdict --from-megatron "$2")
    "$moefold" show --from-megatron "$2" --as recipe >"$work/round.yaml" 2>/dev/null
    second=$(verdict "$work/round.yaml")
    third=$first
    if grep -q '"ok":true' <<<"$first"; then
        "$moefold" show "$work/round.yaml" --as megatron-lm >"$work/round.txt" 2>/dev/null
        third=$(verdict --from-megatron "$work/round.txt")
    fi
    check "$1_round_trip" [ -n "$first" -a "$first" = "$second" -a "$first" = "$third" ]
}
round_trip script $data/launch.sh
round_trip yaml $data/functional.yaml

# The files themselves.
megatron=${MEGATRON_LM:-}
if [[ $megatron ]]; then
    for file in "$megatron"/tests/functional_tests/test_cases/{moe,mixtral}/*/model_config.yaml; do
        name=$(basename "$(dirname "$file")")
        if grep -qE '^MODE: *(inference|rl)' "$file"; then
            expect "$name" 2 'only training is read' "$moefold" show --from-megatron "$file"
        else
            expect "$name" 0 'model.num_layers' "$moefold" show --from-megatron "$file"
            round_trip "$name" "$file"
        fi
    done
    for file in "$megatron"/examples/{gpt3,gptoss,llama,mixtral}/*.sh; do
        expect "$(basename "$file")" 0 'model.num_layers' "$moefold" show --from-megatron "$file"
    done
fi
exit $failed
