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
    "$moefold" launch tiny cluster.gpu=cpu model.expert_model_parallel_size=3
# what our runtime cannot run is not sent to a cluster
own=(launch recipes/dsv3-128k-h100.yaml moefold.target=moefold)
expect no_gpu_backend 1 'our GPU backend runs on one node|target-can-run' "$moefold" "${own[@]}"
expect nothing_is_ignored 1 'model.mtp_use_repeated_layer|mtp.*does not support this yet; repair' \
    "$moefold" launch "${small[@]}" model.mtp_num_layers=1 model.mtp_use_repeated_layer=true
check nothing_is_written test -z "$("$moefold" "${own[@]}" 2>/dev/null)"
expect bad_time 2 '--time soon' "$moefold" launch "${small[@]}" --time soon
expect bad_file 3 "--out: $work/none/x: cannot be written: No such" "$moefold" launch "${small[@]}" --out "$work/none/x"
expect slurm_is_what_is_written 0 '^#SBATCH --ntasks=12$' "$moefold" launch "${small[@]}"
check with_or_without_a_word [ "$("$moefold" launch "${small[@]}")" = "$("$moefold" launch "${small[@]}" --slurm)" ]
expect what_nobody_knows_is_to_be_filled_in 0 '^##SBATCH --partition=PARTITION$' "$moefold" launch "${small[@]}"

# ---- for Megatron: one torchrun on each node, with the words of the export
far=recipes/dsv3-128k-h100.yaml
"$moefold" launch $far --time 4:00:00 --out "$work/script" 2>"$work/said"
check a_gpu_recipe_is_megatrons has '# Trains with Megatron-LM on 256 GPUs; submit it with sbatch.'
check its_nodes has '#SBATCH --nodes=32'
check one_launcher_on_each has '#SBATCH --ntasks-per-node=1'
check its_gpus has '#SBATCH --gpus-per-node=8'
check an_image_is_to_be_filled_in has '# container=\(--container-image=IMAGE .*'
check it_says_where_it_is grep -q "sbatch $work/script" "$work/said"
"$moefold" launch $far --as megatron-bridge >"$work/bridge" 2>/dev/null
check bridge_has_a_recipe_of_its_own grep -q '^recipe=deepseek_v3_pretrain_config ' "$work/bridge"
"$moefold" launch glm-4.6 --gpus 512xH100 --as megatron-bridge >"$work/unknown" 2>/dev/null
check or_asks_for_one grep -q '^recipe=${RECIPE:?' "$work/unknown"
expect the_system_of_the_recipe_counts 0 'run_recipe.py' "$moefold" launch $far moefold.system=megatron-bridge
price_of() { "$moefold" price --json "$@" --gpus 256xH100 moefold.stack=26.02 | grep -oE '"(step_s|peak_bytes)":[0-9.e+-]+' | head -2; }
check lm_reads_back_as_the_same_job [ "$(price_of "$work/script")" = \
    "$(price_of $far model.cross_entropy_fusion_impl=native)" ]
check bridge_reads_back_as_the_same_job [ "$(price_of "$work/bridge")" = "$(price_of $far)" ]

# As it would run: the words of `show --as` arrive, then those that stand in `extra`.
printf '#!/bin/sh\n[ "$*" = "show hostnames node[1-2]" ] && printf "node1\\nnode2\\n"\n' >"$work/bin/scontrol"
cat >"$work/bin/srun" <<'END'
#!/bin/bash
while [[ ${1-} == --* ]]; do echo "srun <$1>"; shift; done
echo "at $PET_RDZV_ENDPOINT job $PET_RDZV_ID max ${CUDA_DEVICE_MAX_CONNECTIONS-none} in $PWD"
printf '%s\n' "$@"
END
chmod +x "$work/bin/srun" "$work/bin/scontrol"
mkdir -p "$work/lm"
sed 's/^extra=()/extra=(--lr "1 2")/; s/^container=()/container=("--container-image=a b")/' "$work/script" >"$work/filled"
(cd /tmp && PATH=$work/bin:$PATH SLURM_JOB_ID=77 SLURM_JOB_NODELIST='node[1-2]' MEGATRON=$work/lm bash "$work/filled") >"$work/words"
check they_meet_at_the_first_node grep -q "^at node1:29500 job 77 max 1 in $work/lm" "$work/words"
check the_image_is_the_one_given grep -qx 'srun <--container-image=a b>' "$work/words"
check what_was_added_is_last [ "$(tail -n 2 "$work/words")" = $'--lr\n1 2' ]
"$moefold" show $far --as megatron-lm 2>/dev/null | grep -v '^#' >"$work/export"
check all_flags_arrive [ "$(sed -n '/^--swiglu$/,$p' "$work/words" | head -n -2 | tr '\n' ' ')" = \
    "$(sed 1d "$work/export" | tr -d "\\\\'" | tr -s ' \n' ' ')" ]
(cd /tmp && PATH=$work/bin:$PATH SLURM_JOB_ID=77 SLURM_JOB_NODELIST='node[1-2]' RECIPE=mine bash "$work/bridge") >"$work/words"
check bridge_gets_its_overrides grep -qx 'model.context_parallel_size=32' "$work/words"
check bridge_gets_its_recipe grep -qx 'deepseek_v3_pretrain_config' "$work/words"
if command -v shellcheck >/dev/null; then
    "$moefold" launch "${small[@]}" --requeue checkpoint.save=ck >"$work/own"
    check the_linter_of_shells_is_content shellcheck -s bash "$work/script" "$work/bridge" "$work/unknown" "$work/own"
else
    echo "no shellcheck: the scripts were not checked by it"
fi

expect what_megatron_has_no_flag_for_is_refused 1 'mla_latent_ring=true .* cannot be written for Megatron-LM' \
    "$moefold" launch $far moefold.stack=null model.cp_comm_type=p2p model.hierarchical_context_parallel_sizes=null \
    moefold.mla_latent_ring=true --out "$work/refused"
check and_leaves_no_file [ ! -e "$work/refused" ]
expect what_does_not_fit_is_said 0 'warning: this job will run out of memory: rank 0 needs [0-9.]+ GiB of 75.14 GiB usable' \
    "$moefold" launch qwen3-30b-a3b --gpus 1xH100
without what_fits_is_not 'run out of memory' "$moefold" launch $far
expect megatron_is_not_queued_again 2 'requeue: Megatron ends with the same code' "$moefold" launch $far --requeue checkpoint.save=x
expect which_megatron 2 'as megatron: known are megatron-lm and megatron-bridge' "$moefold" launch $far --as megatron
expect our_own_is_no_megatron 2 'as megatron-lm: moefold.target=moefold' "$moefold" launch "${small[@]}" --as megatron-lm

exit $failed
