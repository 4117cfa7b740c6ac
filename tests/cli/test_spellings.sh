#!/bin/bash
# One architecture, one answer: the properties of tests/cli/spellings.py, all presets of them where TEST_ALL is set.
cd "$(dirname "$0")/../.." || exit 1
. tests/cli/saying.sh
# shellcheck disable=SC2086
python3 tests/cli/spellings.py "$moefold" "$work" ${TEST_ALL:+all} || failed=1

# ---- a plan and a recipe beside it are of one model, whatever either is called
expect a_recipe_of_the_model_by_another_name 0 '^Against' \
    "$moefold" plan Qwen/Qwen3-30B-A3B --gpus 16xH100 --against recipes/qwen3-30b-4k-h100.yaml
expect a_list_of_another_model_is_refused 2 'is a recipe of another model, but the plan is for deepseek-v3' \
    "$moefold" plan deepseek-v3 --gpus 64xH100 --against tests/data/megatron/qwen3_30b_a3b.txt

# ---- a cluster is one, whether --gpus or the knobs name it
layout() { "$moefold" check qwen3-30b-a3b ep=8 seq=4K gbs=512 "$@" | grep '^Layout'; }
if [ "$(layout --gpus 256xGB200)" = "$(layout cluster.gpu=GB200 cluster.n_gpus=256)" ]; then
    ok one_cluster_however_it_is_spelled
else
    bad one_cluster_however_it_is_spelled "domains differ: $(layout --gpus 256xGB200), $(layout cluster.gpu=GB200 cluster.n_gpus=256)"
fi
exit $failed
