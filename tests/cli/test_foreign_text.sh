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
expect control_in_an_argument 2 "'a.x1b]0;title.x07'" "$moefold" check "a$escape$bell"
expect newline_in_a_file_name 2 'holds a control character' "$moefold" check $'a\nb.yaml'
expect newline_in_a_value 2 "save='a.nb': holds a control" "$moefold" show tiny $'checkpoint.save=a\nb'
expect newline_between_items 0 'moe_act, layernorm' "$moefold" show tiny $'model.recompute_modules=[moe_act,\n layernorm]' --as recipe
printf 'model:\n  seq_length: "\\e[31m"\n' >"$work/e.yaml"
expect escape_in_a_quoted_value 2 'e.yaml:2:.*control character 0x1b' "$moefold" check "$work/e.yaml"
printf 'model:\n  "a\\nb": 1\n' >"$work/n.yaml"
expect newline_in_an_unknown_knob 2 "unknown knob 'model.a.nb'" "$moefold" check "$work/n.yaml"
printf -- '--num-layers 2 --foo\e[31m 3' >"$work/f.txt"
expect escape_in_a_flag 2 "'--foo.x1b\[31m'" "$moefold" check "$work/f.txt"
mkdir "$work/model"
printf '{"model_type": "a\\u001b[31mb"}' >"$work/model/config.json"
expect escape_in_a_config 2 'holds a control character' "$moefold" check "$work/model"
printf '[{"ph":"X","cat":"kernel","name":"k\\n\\u001b]0;x%s","ts":1,"dur":2,"pid":0,"tid":7,"args":{"correlation":1}}]' \
    "$(printf '\e[2J\377')" >"$work/trace.json"
"$moefold" profile tiny "$work/trace.json" cluster.gpu=H100 >"$work/out" 2>&1
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
expect trial_names_the_link 0 'planned for cluster.gpu=.*/plain.yaml ' cat "$work/tuned/000/megatron.sh"
expect recipe_of_a_link_is_read 0 'cluster.gpu' sh -c "cd '$work' && '$moefold' show a.yaml"
expect hostile_file_itself 2 'holds a control character' sh -c "cd '$work' && '$moefold' show tiny cluster.gpu=\"\$1\"" - "./$name"
exit $failed
