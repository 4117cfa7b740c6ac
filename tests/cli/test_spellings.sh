#!/bin/bash
# One architecture, one answer: the properties of tests/cli/spellings.py, all presets of them where TEST_ALL is set.
cd "$(dirname "$0")/../.." || exit 1
. tests/cli/saying.sh
# shellcheck disable=SC2086
python3 tests/cli/spellings.py "$moefold" "$work" ${TEST_ALL:+all} || failed=1

# ---- a plan and a recipe beside it are of one model, whatever either is called
expect a_recipe_of_the_model_by_another_name 0 '^Against' \
    "$moefold" plan --everything Qwen/Qwen3-30B-A3B --gpus 16xH100 --against recipes/qwen3-30b-4k-h100.yaml
expect a_list_of_another_model_is_refused 2 'is a recipe of another model, but the plan is for deepseek-v3' \
    "$moefold" plan --everything deepseek-v3 --gpus 64xH100 --against tests/data/megatron/qwen3_30b_a3b.txt

# ---- a cluster is one, whether --gpus or the knobs name it
layout() { "$moefold" check --everything qwen3-30b-a3b ep=8 seq=4K gbs=512 "$@" | grep '^Layout'; }
for n in 24 64 76 128 144 256; do
    by_option=$(layout --gpus "${n}xGB200") by_knobs=$(layout cluster.gpu=GB200 cluster.n_gpus=$n)
    check "one_cluster_of_${n}_however_it_is_spelled" [ "$by_option" = "$by_knobs" ]
done
check racks_are_cut_into_equal_blocks grep -q 'domain of 64$' <<<"$(layout cluster.gpu=GB200 cluster.n_gpus=256)"
check a_domain_that_is_given_stays grep -q 'domain of 72$' <<<"$(layout cluster.nvlink_domain=72 --gpus 256xGB200)"
exit $failed
