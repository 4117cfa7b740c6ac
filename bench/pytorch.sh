#!/usr/bin/env bash
# Tokens a second beside PyTorch on the same two threads, turn by turn. Makes a virtual environment of its own with
# torch and transformers (build/venv) unless PYTHON names an interpreter that has them. Minutes; not part of the tests.
# Asks for it by WITH_PYTORCH=1, so that `make bench` stays short.
set -eu
if [ -z "${WITH_PYTORCH:-}" ]; then
    echo "set WITH_PYTORCH=1 to run this comparison (it installs torch and transformers into build/venv)"
    exit 0
fi
python=${PYTHON:-build/venv/bin/python}
if [ -z "${PYTHON:-}" ] && [ ! -x "$python" ]; then
    python3 -m venv build/venv
    build/venv/bin/pip install -q torch transformers
fi
threads=${THREADS:-2}
cores=0-$((threads - 1))
for shape in "1 1024" "4 1024" "1 4096" "1 8192"; do
    echo "== batch x length: $shape"
    # shellcheck disable=SC2086
    OMP_WAIT_POLICY=passive taskset -c "$cores" build/bench/step "$threads" $shape 2>/dev/null
    for variant in eager grouped_mm eager+compile grouped_mm+compile; do
        # shellcheck disable=SC2086
        timeout 300 taskset -c "$cores" "$python" bench/pytorch.py "$threads" $shape "$variant" 2>/dev/null ||
            echo "pytorch $shape $variant: failed"
    done
    # shellcheck disable=SC2086
    OMP_WAIT_POLICY=passive taskset -c "$cores" build/bench/step "$threads" $shape 2>/dev/null
done
