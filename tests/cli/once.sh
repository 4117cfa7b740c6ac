# once.sh - a command that changes nothing is run once a script, however many of its lines are looked at. Read by
# `. tests/cli/once.sh` once `work` names a folder that goes with the script.

export COLUMNS=1000 # so that no line that is looked for is wrapped

# What it printed on both channels, and its exit code; from the second time on as the first run had them.
once() { # COMMAND...
    local at
    at=$work/once-$(printf '%q ' "$@" | md5sum | cut -c1-32)
    if [ ! -e "$at.code" ]; then
        "$@" >"$at.out" 2>"$at.err"
        echo $? >"$at.code"
    fi
    cat "$at.out"
    cat "$at.err" >&2
    return "$(<"$at.code")"
}
