#!/usr/bin/env bash
# Names and values that people did not mean as they look: folders called like numbers, bytes that are no text, control
# characters, files that are no files. From the repository's root.
. tests/cli/saying.sh

small=(tiny cluster.gpu=cpu model.num_layers=1 model.vocab_size=64 seq=16 gbs=1 mbs=1 train.train_iters=1)
train() { "$moefold" train "${small[@]}" "$@"; }

# ---- a folder called like a number is that folder
(cd "$work" && train checkpoint.save=1.1 && train checkpoint.save=1.10 logger.tensorboard_dir=007) >"$work/out" 2>&1
check folder_1.10_is_not_1.1 [ -d "$work/1.10/iter_0000001" -a -d "$work/1.1/iter_0000001" ]
check its_checkpoint_has_the_name grep -q 'save: \\"1.10' "$work/1.10/iter_0000001/metadata.json"
check folder_007_keeps_its_zeros [ -d "$work/007" ]
expect a_folder_to_load_is_as_written 2 '007' "$moefold" train "${small[@]}" checkpoint.load="$work/007"

# ---- names and values that are not UTF-8 are refused before anything is done
odd=$(printf 'odd\377name')
expect bytes_in_a_value 2 "argument 3, 'checkpoint.save=odd.xffname'" "$moefold" show tiny "checkpoint.save=$odd"
expect bytes_in_a_folder_of_a_run 2 'UTF-8' "$moefold" train "${small[@]}" --run "$work/$odd"
expect bytes_in_the_recipe 2 'UTF-8' "$moefold" price "$odd" --json
printf 'checkpoint:\n  save: odd\377name\n' >"$work/odd.yaml"
expect bytes_in_a_recipe 2 'odd.yaml:2: byte 0xff' "$moefold" show "$work/odd.yaml"
printf -- '--num-layers 2 --save odd\377name' >"$work/odd.txt"
expect bytes_in_a_list_of_arguments 2 "checkpoint.save='?odd.xffname" "$moefold" show "$work/odd.txt" --json

# ---- control characters are refused, and escaped where they are named
bell=$'\a' escape=$'\e]0;title'
expect control_in_an_argument 2 "'a.x1b]0;title.x07'" "$moefold" check --everything "a$escape$bell"
expect newline_in_a_file_name 2 'holds a control character' "$moefold" check --everything $'a\nb.yaml'
expect newline_in_a_value 2 "save='a.nb': holds a control" "$moefold" show tiny $'checkpoint.save=a\nb'
expect newline_between_items 0 'moe_act, layernorm' "$moefold" show tiny $'model.recompute_modules=[moe_act,\n layernorm]' --as recipe
printf 'model:\n  seq_length: "\\e[31m"\n' >"$work/e.yaml"
expect escape_in_a_quoted_value 2 'e.yaml:2:.*control character 0x1b' "$moefold" check --everything "$work/e.yaml"
printf 'model:\n  "a\\nb": 1\n' >"$work/n.yaml"
expect newline_in_an_unknown_knob 2 "unknown knob 'model.a.nb'" "$moefold" check --everything "$work/n.yaml"
printf -- '--num-layers 2 --foo\e[31m 3' >"$work/f.txt"
expect escape_in_a_flag 2 "'--foo.x1b\[31m'" "$moefold" check --everything "$work/f.txt"
mkdir "$work/model"
printf '{"model_type": "a\\u001b[31mb"}' >"$work/model/config.json"
expect escape_in_a_config 2 'holds a control character' "$moefold" check --everything "$work/model"
printf '[{"ph":"X","cat":"kernel","name":"k\\n\\u001b]0;x%s","ts":1,"dur":2,"pid":0,"tid":7,"args":{"correlation":1}}]' \
    "$(printf '\e[2J\377')" >"$work/trace.json"
"$moefold" profile tiny "$work/trace.json" cluster.gpu=H100 --everything >"$work/out" 2>&1
check escape_in_a_kernel grep -qF 'k\n\x1b]0;x\x1b[2J\xff' "$work/out"
check no_control_characters_are_printed [ -z "$(LC_ALL=C tr -d '\n\40-\176' <"$work/out")" ]
"$moefold" profile tiny "$work/trace.json" cluster.gpu=H100 --json >"$work/out"
check escape_in_a_kernel_as_json python3 -m json.tool "$work/out" /dev/null

# ---- a name cannot end a comment of a script: the file that a link leads to is not named
name=$'evil\ntouch pwned\n#.yaml'
(
    cd "$work" && cp "$OLDPWD/hardware/h100.yaml" "$name" && ln -s "$name" plain.yaml
    machine=(qwen3-30b-a3b cluster.gpu=./plain.yaml cluster.n_gpus=64 ep=8 gbs=64 model.recompute_granularity=full
        model.recompute_method=uniform model.recompute_num_layers=1)
    "$moefold" show "${machine[@]}" --as megatron-lm >a.sh
    "$moefold" show "${machine[@]}" --as recipe >a.yaml
    "$moefold" tune "${machine[@]}" --dir tuned --next
) >"$work/out" 2>&1
expect script_names_the_link 0 'planned for cluster.gpu=./plain.yaml ' cat "$work/a.sh"
expect trial_names_the_link 0 'planned for cluster.gpu=.*/plain.yaml ' cat "$work/tuned/000/job.sh"
expect recipe_of_a_link_is_read 0 'cluster.gpu' sh -c "cd '$work' && '$moefold' show a.yaml"
expect hostile_file_itself 2 'holds a control character' sh -c "cd '$work' && '$moefold' show tiny cluster.gpu=\"\$1\"" - "./$name"

# ---- only files are read: a pipe, a socket or a device in place of an input is an error, at once
mkfifo "$work/pipe"
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$work/socket"
at_once() { timeout 10 "$moefold" "$@" </dev/null; }
expect a_pipe_as_recipe 2 'pipe: is a pipe; a file is needed' at_once check "$work/pipe"
expect a_socket_as_recipe 2 'socket: is a socket' at_once check "$work/socket"
expect a_device_as_recipe 2 '/dev/zero: is a device' at_once check /dev/zero
expect a_pipe_of_overrides 2 'is a pipe' at_once check tiny --with "$work/pipe"
expect a_pipe_of_flags 2 'is a pipe' at_once check --from-megatron "$work/pipe"
expect a_pipe_to_compare_with 2 'is a pipe' at_once plan tiny --gpus 1xH100 --against "$work/pipe"
expect a_pipe_as_profile 2 'is a pipe' at_once profile tiny "$work/pipe"
expect a_pipe_as_trace 2 'is a pipe' at_once trace "$work/pipe" "$work/pipe"
expect a_pipe_as_routing 2 'is a pipe' at_once price tiny --routing "$work/pipe"
mkfifo "$work/pipe.yaml" "$work/pipe.json" "$work/pipe.log" "$work/pipe.sqlite"
expect a_pipe_as_machine 2 'is a pipe' at_once check tiny cluster.gpu="$work/pipe.yaml"
expect a_pipe_to_report 2 'is a pipe' at_once report "$work/pipe.json" -o "$work/page.html"
expect a_pipe_in_a_difference 2 'is a pipe' at_once diff "$work/pipe.log" "$work/pipe.sqlite"
mkdir "$work/hf" && mkfifo "$work/hf/config.json"
expect a_pipe_as_config 2 'is a pipe' at_once check "$work/hf"
rm "$work/hf/config.json" && cp tests/data/golden/qwen3-moe-tiny/config.json "$work/hf" && mkfifo "$work/hf/model.safetensors"
expect a_pipe_of_weights 2 'model.safetensors' at_once convert "$work/hf" "$work/out.hf" --to moefold
mkfifo "$work/data.idx" "$work/data.bin"
expect a_pipe_of_data 2 'data.idx: is a pipe' at_once train "${small[@]}" dataset.data_path="$work/data"
expect a_pipe_of_the_shell 0 'tiny: valid|valid' at_once check <(printf 'moefold: {model: tiny}\ncluster: {gpu: cpu}\n')
expect standard_input 0 'valid' sh -c "printf 'moefold: {model: tiny}\ncluster: {gpu: cpu}\n' | '$moefold' check /dev/stdin"
for name in latest_checkpointed_iteration.txt iter_0000001/metadata.json iter_0000001/weights-00000-of-00001.safetensors moefold.lock; do
    rm -rf "$work/piped" && cp -r "$work/1.1" "$work/piped" && rm "$work/piped/$name" && mkfifo "$work/piped/$name"
    at_once train "${small[@]}" checkpoint.load="$work/piped" checkpoint.save="$work/piped" train.train_iters=2 >"$work/out" 2>&1
    code=$?
    check "a_pipe_as_$(basename "$name")" [ "$code" = 2 -o "$code" = 3 ]
done

# ---- a lock that is not ours is left as it is
foreign() { # NAME PATTERN
    expect "$1" 3 "$2" at_once train "${small[@]}" checkpoint.save="$work/locked"
    check "$1,_and_is_left_as_it_was" [ "$(cat "$work/locked/moefold.lock")" = precious ]
}
mkdir "$work/locked" && echo precious >"$work/locked/moefold.lock"
foreign a_lock_of_another_kind 'moefold.lock: is not a lock of moefold: other text stands in it; repair: remove it'
rm "$work/locked/moefold.lock" && echo precious >"$work/mine" && ln "$work/mine" "$work/locked/moefold.lock"
foreign a_lock_with_two_names 'is not a lock of moefold: the file has another name'
rm "$work/locked/moefold.lock" && : >"$work/mine" && ln "$work/mine" "$work/locked/moefold.lock"
expect an_empty_lock_with_two_names 3 'has another name' at_once train "${small[@]}" checkpoint.save="$work/locked"
check nothing_is_written_there [ ! -s "$work/mine" ]
rm "$work/locked/moefold.lock" && : >"$work/locked/moefold.lock"
expect an_empty_lock_is_taken 0 'saved checkpoint' at_once train "${small[@]}" checkpoint.save="$work/locked"

# ---- what show writes can be read
quoted() { sed 's/[\\'"'"']/\\&/g' <<<"$1"; }
for word in --load '--a --b' '# x' '{a: b}' 'a: b' '- a' '&a' "it's" '"q"' '\x' '[a' '%x' '@x' '!x' '|' 'a\' $'a\tb'; do
    "$moefold" show tiny cluster.gpu=cpu "checkpoint.save='$(quoted "$word")'" --as recipe >"$work/read.yaml" 2>"$work/out"
    "$moefold" show "$work/read.yaml" --json >"$work/read.json" 2>>"$work/out"
    check "recipe_with_${word// /_}_is_read" python3 -c '
import json, sys
assert json.load(open(sys.argv[1]))["knobs"]["checkpoint.save"]["value"] == sys.argv[2]' "$work/read.json" "$word"
done

# ---- folders of another owner: what may be read is read, and where nothing may be written nothing changes
nobody() { (cd / && setpriv --reuid=65534 --regid=65534 --clear-groups timeout 20 "$moefold" "$@"); }
if [ "$(id -u)" != 0 ] || ! nobody --version >/dev/null 2>&1; then
    echo "ok folders_of_another_owner # skip: not root, or nobody else may run the program"
else
    chmod 711 "$work" && cp -r "$work/1.1" "$work/theirs"
    before=$(cd "$work/theirs" && find . -type f -exec md5sum {} + | sort)
    expect their_checkpoint_is_read 0 'done after' nobody train "${small[@]}" checkpoint.load="$work/theirs" train.train_iters=2
    expect their_folder_is_not_saved_in 3 'theirs/moefold.lock: cannot be created: Permission denied; repair: ' \
        nobody train "${small[@]}" checkpoint.save="$work/theirs" checkpoint.load="$work/theirs" train.train_iters=2
    expect their_folder_takes_no_run 2 'theirs' nobody train "${small[@]}" --run "$work/theirs/run"
    expect their_folder_takes_no_weights 3 'theirs' nobody convert "$work/theirs" "$work/theirs/out"
    mkdir -m 1777 "$work/open" && : >"$work/open/moefold.lock"
    expect their_lock_is_not_taken 3 'open/moefold.lock: cannot be' nobody train "${small[@]}" checkpoint.save="$work/open"
    install -m 600 "$work/read.yaml" "$work/secret.yaml"
    expect their_secret_is_not_read 2 'secret.yaml: Permission denied' nobody check "$work/secret.yaml"
    expect their_folder_is_not_tuned_in 2 'theirs' nobody tune "${small[@]}" --dir "$work/theirs/tuned" --minutes 1
    check their_folder_is_as_it_was [ "$before" = "$(cd "$work/theirs" && find . -type f -exec md5sum {} + | sort)" ]
fi

# ---- a cluster of any size is searched, or refused, in seconds
expect a_million_gpus 0 'Searched' timeout 60 "$moefold" plan --everything qwen3-30b-a3b --gpus 1048576xH100 --seq 1M
exit $failed
