#!/usr/bin/env bash
# `make run` shows the main job soon: without a GPU it does not wait for nvcc. From the repository's root.
set -u
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

commands() { # what make would do where nvidia-smi ends with CODE
    printf '#!/bin/sh\nexit %s\n' "$1" >"$work/nvidia-smi"
    chmod +x "$work/nvidia-smi"
    PATH="$work:$PATH" MAKEFLAGS='' make -n -B run 2>/dev/null
}
verdict() { # NAME CONDITION: 0 is good
    if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; fi
}
commands 1 >"$work/without"
grep -q 'src/cli/plan\.c' "$work/without" && grep -q 'tools/demo' "$work/without"
verdict run_builds_and_shows $?
! grep -q 'moefold-cuda\.so' "$work/without"
verdict without_a_gpu_nvcc_is_not_waited_for $?
if MAKEFLAGS='' make -n -B all 2>/dev/null | grep -q 'moefold-cuda\.so'; then
    commands 0 | grep -q 'moefold-cuda\.so'
    verdict with_a_gpu_its_kernels_are_built $?
else
    echo "ok with_a_gpu_its_kernels_are_built # SKIP no CUDA toolkit"
fi

# ---- what it shows, in a window of 80 columns: with mpirun into a file, with ranks as threads on a terminal
moefold=$(readlink -f "${MOEFOLD:-./moefold}")
page=build/report.html
shown() { # NAME FILE
    [ "$(sed -n '/^[0-9]\. /{s/^\([0-9]\. [A-Z][a-z]*\).*/\1/;p}' "$2" | tr '\n' ' ')" = "$steps" ]
    verdict "$1_has_its_steps" $?
    ! grep -qE '.{81}' "$2"
    verdict "$1_fits_80_columns" $?
    [ "$(grep -oE 'lm loss 6\.96[0-9]+ -> [0-9]+\.[0-9]{2}' "$2" | sort | uniq -c | grep -c '^ *[2-9] ')" = 1 ]
    verdict "$1_has_one_loss_in_every_layout" $?
    tr '\n' ' ' <"$2" | grep -qE 'a step took [0-9.]+ m?s \(median\), +[0-9.]+ m?s +were +predicted: '
    verdict "$1_compares_predicted_and_measured" $?
    tail -n 30 "$2" | grep -q '^deepseek-v3, 131,072 tokens, 256 H100' && tail -n 30 "$2" | grep -q '^TAKE  ' &&
        tail -n 5 "$2" | grep -q '^NEXT  .*moefold check '
    verdict "$1_ends_with_the_layout_for_256_gpus" $?
    [ -s $page ]
    verdict "$1_writes_the_page_it_names" $?
}
plain() { sed 's/\x1b\[[0-9;]*[mK]//g; s/\r$//; s/.*\r//' "$1"; }

steps="1. Plan 2. Prove 3. Train 4. Train 5. Report 6. What "
if nvidia-smi -L >/dev/null 2>&1 && [ -e "$(dirname "$moefold")/moefold-cuda.so" ]; then
    steps="1. Plan 2. Prove 3. Train 4. Train 5. Train 6. Report 7. What "
fi
if command -v mpirun >/dev/null && [ -e "$(dirname "$moefold")/moefold-mpi.so" ]; then
    rm -f $page
    COLUMNS='' DEMO_STEPS=6 MOEFOLD=$moefold tools/demo </dev/null >"$work/file" 2>&1
    verdict demo_with_mpirun $?
    shown demo_with_mpirun "$work/file"
fi
mkdir -p "$work/alone/build" # without the object for Open MPI
cp "$moefold" "$work/alone/build/moefold"
ln -s "$PWD/hardware" "$work/alone/hardware"
steps="1. Plan 2. Prove 3. Train 4. Train 5. Report 6. What "
rm -f $page
python3 - "$work/alone/build/moefold" >"$work/terminal" <<'P'
import fcntl, os, pty, struct, sys, termios
os.environ.update(MOEFOLD=sys.argv[1], DEMO_STEPS="6", COLUMNS="", TERM="xterm-256color")
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    os.execv("tools/demo", ["tools/demo"])
try:
    while piece := os.read(terminal, 65536):
        sys.stdout.buffer.write(piece)
except OSError:  # the other end is closed
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
verdict demo_on_a_terminal $?
plain "$work/terminal" >"$work/seen"
shown demo_on_a_terminal "$work/seen"
grep -q 'threads (no mpirun' "$work/seen"
verdict demo_without_mpirun_says_so $?
exit $failed
