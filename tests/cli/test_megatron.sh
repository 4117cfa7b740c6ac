#!/usr/bin/env bash
# Megatron-LM's files through the commands: lists, launch scripts, YAML. With MEGATRON_LM=DIR, a
# checkout of Megatron-LM, its own functional tests and examples are read too.
. tests/cli/saying.sh

data=tests/data/megatron
expect script 0 'TP 2 x CP 1 x DP 4 x PP 4' "$moefold" check --from-megatron $data/launch.sh
expect script_set 0 'PP 2' "$moefold" check --from-megatron $data/launch.sh --set PP=2 --set=NNODES=4
expect script_environment 0 'PP 4' env PP=2 "$moefold" check --from-megatron $data/launch.sh
expect script_runs_nothing 0 'is sourced there; it is not read' "$moefold" check --from-megatron $data/launch.sh
expect several 2 '3 training commands; --command N picks one' "$moefold" show --from-megatron $data/several.sh
expect command 0 'model.tensor_model_parallel_size  *2 ' "$moefold" show --from-megatron $data/several.sh --command 2
expect missing 2 'NODES for --nodes' "$moefold" show --from-megatron $data/several.sh --command 3
expect given 0 'cluster.n_gpus  *32 ' "$moefold" show --from-megatron $data/several.sh --command 3 --set NODES=4
expect named_alone 0 'PP 2' "$moefold" check $data/launch.sh --set PP=2
expect yaml 0 'TP 2 x CP 1 x DP 2 x PP 2' "$moefold" check --from-megatron $data/functional.yaml
expect yaml_vocabulary 0 'model.vocab_size  *50257 .*GPT2BPETokenizer' "$moefold" show --from-megatron $data/functional.yaml
expect set_alone 2 '--set is for a Megatron-LM script' "$moefold" check tiny --set A=1
expect command_alone 2 '--command is for a Megatron-LM script' "$moefold" check tiny --command 1
expect help 0 'NAME=value' "$moefold" check --help
expect standard_input 0 'TP 2 x CP 1 x DP 4' "$moefold" check --from-megatron - <$data/launch.sh
printf -- '--num-layer 4\n--hidden-siz 8\n--lr 1\n' >"$work/list.txt"
expect all_unknown 2 "2 unknown flags" "$moefold" check --from-megatron "$work/list.txt"
expect first_unknown 2 "'--num-layers'" "$moefold" check --from-megatron "$work/list.txt"
expect second_unknown 2 "'--hidden-size'" "$moefold" check --from-megatron "$work/list.txt"

expect instances_count 0 'cluster.n_gpus  *2 ' "$moefold" show tiny ddp.num_distributed_optimizer_instances=2
expect sinkhorn_is_megatrons 0 'balancing-is-not-priced' "$moefold" check tiny model.moe_router_load_balancing_type=sinkhorn model.moe_aux_loss_coeff=0.0

# list -> recipe -> list keeps the verdict and the bytes.
verdict() { "$moefold" check --json "$@" 2>&1 | grep -oE '^\{"ok":[a-z]+,"fits":[a-z]+,"peak_bytes":[a-z0-9]+'; }
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
