#!/usr/bin/env bash
# Whatever stands in a word of `launch --slurm`, the script runs nothing of it: the word arrives at train as it was given.
. tests/cli/saying.sh
mkdir "$work/bin" "$work/there"
cat >"$work/bin/srun" <<'END'
#!/bin/bash
# writes the words behind the program's name, each with a zero byte at its end
while [ $# -gt 0 ] && [ "$1" != train ]; do shift; done
printf '%s\0' "$@" >"$WORDS"
END
chmod +x "$work/bin/srun"

# WORD... arrive as given, and nothing else runs: the folder of the run stays empty.
arrives() {
    printf '%s\0' train tiny cluster.gpu=cpu "$@" >"$work/given"
    "$moefold" launch tiny cluster.gpu=cpu "$@" --slurm --out "$work/script" 2>"$work/said" ||
        { cat "$work/said"; return 1; }
    rm -f "$work/arrived"
    (cd "$work/there" && PATH=$work/bin:$PATH WORDS=$work/arrived SLURM_CPUS_ON_NODE=8 HOME=/root \
        bash "$work/script" >/dev/null 2>&1)
    cmp "$work/given" "$work/arrived" && [ -z "$(ls -A "$work/there")" ]
}

check a_line_break_starts_no_command arrives $'dataset.data_path=[/x,\ntouch\tbroken-in\n]' dataset.split=1
expect a_line_break_in_a_word_is_refused 2 'save=./x.ntouch' "$moefold" launch tiny cluster.gpu=cpu --slurm $'checkpoint.save=/x\ntouch\tbroken-in'
check a_tab_makes_no_word arrives $'checkpoint.save=/x\ty'
expect a_carriage_return_is_refused 2 'save=/x.ry' "$moefold" launch tiny cluster.gpu=cpu --slurm $'checkpoint.save=/x\ry'
check quotes_do_not_end arrives "checkpoint.save=/x'; touch broken-in; '"
check no_command_is_put_in arrives 'checkpoint.save=/x$(touch broken-in)`touch broken-in`'
check no_variable_is_put_in arrives 'checkpoint.save=/x$HOME${HOME}'
check no_folder_is_put_in arrives 'checkpoint.save=~/x'
check no_file_name_is_put_in arrives 'checkpoint.save=/*?[a-z]{a,b}'
check nothing_is_written_or_read arrives 'checkpoint.save=/x>broken-in</dev/null'
check nothing_is_left_running arrives 'checkpoint.save=/x&touch broken-in&' 'checkpoint.load=/x|y'
check no_comment_hides_a_word arrives 'checkpoint.save=/x #y' 'train.train_iters=3'
check the_end_is_quoted_too arrives $'checkpoint.save=/x\\'
check an_empty_word_stays arrives 'checkpoint.save='
check all_that_is_text_arrives arrives "checkpoint.save=/x$(printf "$(printf '\\%03o' 9 {32..126} 194 169)")y"
# names of files reach the lines of sbatch
printf 'moefold:\n  model: tiny\ncluster:\n  gpu: cpu\n' >"$work"/$'a\n#SBATCH --hold\n.yaml'
expect a_name_ends_no_line 2 'a.n#SBATCH --hold' "$moefold" launch "$work"/$'a\n#SBATCH --hold\n.yaml' --slurm
expect a_time_ends_no_line 2 'holds a control character' "$moefold" launch tiny cluster.gpu=cpu --slurm --time $'1\n#SBATCH --wrap=x'
exit $failed
