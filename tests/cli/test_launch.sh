#!/usr/bin/env bash
# The batch script that `launch` writes, and what it refuses.
. tests/cli/saying.sh
has() { grep -qxE -- "$1" "$work/script"; }
hasnt() { ! grep -qE -- "$1" "$work/script"; }

"$moefold" launch tiny cluster.gpu=cpu cluster.n_gpus=256 cluster.gpus_per_node=8 --slurm \
    'moefold.comm_delay=node=1us across=2us' --time 2:30:00 >"$work/script" 2>/dev/null
check a_recipe_has_a_script [ $? = 0 ]
check it_is_shell bash -n "$work/script"
check nodes has '#SBATCH --nodes=32'
check ranks has '#SBATCH --ntasks=256'
check ranks_of_a_node has '#SBATCH --ntasks-per-node=8'
check nodes_are_ours has '#SBATCH --exclusive'
check time_is_as_asked_for has '#SBATCH --time=2:30:00'
check a_failed_rank_ends_all grep -q -- '^srun .*--kill-on-bad-exit=1' "$work/script"
check it_trains_the_same_recipe grep -q \
    " train tiny cluster.gpu=cpu .* 'moefold.comm_delay=node=1us across=2us'\$" "$work/script"

# The script as it would run, with a srun of our own: the words arrive as they were given.
mkdir "$work/bin"
printf '#!/bin/sh\nshift 4\nshift\necho "threads $OMP_NUM_THREADS"\nfor w; do echo "<$w>"; done\n' \
    >"$work/bin/srun"
chmod +x "$work/bin/srun"
run_script() { PATH=$work/bin:$PATH SLURM_CPUS_ON_NODE=$1 bash "$work/script"; }
expect words_arrive_whole 0 '^<moefold.comm_delay=node=1us across=2us>$' run_script 96
expect a_rank_has_its_part_of_the_cores 0 '^threads 12$' run_script 96
expect a_rank_has_a_thread 0 '^threads 1$' run_script 4

small=(tiny cluster.gpu=cpu cluster.n_gpus=12 cluster.gpus_per_node=8)
"$moefold" launch "${small[@]}" --slurm --out "$work/script" 2>"$work/said"
check a_cpu_recipe_has_a_script has '#SBATCH --ntasks=12'
check nodes_are_rounded_up has '#SBATCH --nodes=2'
check cpus_ask_for_no_gpus hasnt 'gpus-per-node='
check it_says_what_it_wrote grep -q "wrote $work/script" "$work/said"
check options_of_launch_stay_here hasnt ' train .* --(slurm|out)'

expect rules_are_kept 1 'error experts-divide-by-ep' \
    "$moefold" launch tiny cluster.gpu=cpu model.expert_model_parallel_size=3 --slurm
# what our runtime cannot run is not sent to a cluster
expect no_gpu_backend 1 'cluster.gpu=H100: our GPU backend runs on one node, but this layout has 256 ranks and cluster.gpus_per_node=8; repair' \
    "$moefold" launch recipes/dsv3-128k-h100.yaml --slurm
expect nothing_is_ignored 1 'model.mtp_use_repeated_layer|mtp.*does not support this yet; repair' \
    "$moefold" launch "${small[@]}" model.mtp_num_layers=1 model.mtp_use_repeated_layer=true --slurm
check nothing_is_written test -z "$("$moefold" launch recipes/dsv3-128k-h100.yaml --slurm 2>/dev/null)"
expect which_system 2 '--slurm' "$moefold" launch "${small[@]}"
expect bad_time 2 '--time soon' "$moefold" launch "${small[@]}" --slurm --time soon
expect bad_file 3 "--out: $work/none/x: cannot be written: No such" "$moefold" launch "${small[@]}" --slurm --out "$work/none/x"

exit $failed
