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
    " train tiny cluster.gpu=cpu .* 'moefold.comm_delay=node=1us across=2us' || code=" "$work/script"

# The script as it would run, with a srun of our own: the words arrive as they were given.
mkdir "$work/bin"
printf '#!/bin/sh\nshift 4\nshift\necho "threads $OMP_NUM_THREADS"\nfor w; do echo "<$w>"; done\n' \
    >"$work/bin/srun"
chmod +x "$work/bin/srun"
run_script() { PATH=$work/bin:$PATH SLURM_CPUS_ON_NODE=$1 bash "$work/script"; }
expect words_arrive_whole 0 '^<moefold.comm_delay=node=1us across=2us>$' run_script 96
expect a_rank_has_its_part_of_the_cores 0 '^threads 12$' run_script 96
expect a_rank_has_a_thread 0 '^threads 1$' run_script 4

check its_log_is_continued has '#SBATCH --open-mode=append'
check it_is_not_queued_again hasnt 'requeue'

# A run that was stopped and has saved is queued again where that was asked for; the script has its code.
"$moefold" launch tiny cluster.gpu=cpu cluster.n_gpus=8 cluster.gpus_per_node=8 --slurm --requeue checkpoint.save=ck >"$work/script"
check requeue_is_asked_for has '#SBATCH --requeue'
check options_of_requeue_stay_here hasnt ' train .* --requeue'
printf '#!/bin/sh\necho "scontrol $*"\n' >"$work/bin/scontrol"
printf '#!/bin/sh\nkill -TERM $PPID\nexit "$SRUN_CODE"\n' >"$work/bin/srun" # the script is told, too, and lives
chmod +x "$work/bin/scontrol"
for code in 0 3 4; do
    out=$(SLURM_JOB_ID=77 SRUN_CODE=$code run_script 4)
    check "its_code_is_the_ranks_$code" [ $? = $code ]
    [ $code = 4 ] && queued='scontrol requeue 77' || queued=
    check "queued_again_after_$code" [ "$out" = "$queued" ]
done
expect requeue_needs_a_folder 2 'requeue: checkpoint.save is not set.*repair: checkpoint.save=FOLDER' \
    "$moefold" launch tiny cluster.gpu=cpu cluster.n_gpus=8 --slurm --requeue

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
