#!/usr/bin/env python3
"""random_commands.py [SEED [COUNT [SECONDS]]] - plan, price, check and show with random knobs of the right type.

The program as it is, one process a command: none may be ended by a signal, print what a sanitizer says, end with an exit
code that is not documented, or take longer than it may. What broke is printed as a command that can be repeated; the
last line counts. MOEFOLD names the program. From the repository's root.
"""
import collections
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time

PROGRAM = os.environ.get("MOEFOLD", "./moefold")
MODELS = ["tiny", "mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3", "recipes/qwen3-30b-4k-h100.yaml"]
GPUS = ["8xH100", "16xH100", "64xB200", "1xA100", "24xH200", "256xH100", "72xGB200"]
LENGTHS = ["4096", "128", "32768", "16"]
FORMS = {
    "plan": [["--seconds", "1"], ["--seconds", "1", "--json"], ["--seconds", "1", "--more"]],
    "price": [[], ["--json"], ["--routing", "1.5"]],
    "check": [[], ["--json"], ["--fix"], ["--rank", "1"], ["--all-ranks"]],
    "show": [[], ["--params"], ["--memory"], ["--schedule"], ["--ops"], ["--as", "megatron-lm"], ["--as", "megatron-bridge"]],
}
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 24, 32, 48, 60, 61, 64, 100, 128, 255, 256, 257, 300, 512, 1000, 1024, 4096,
         65536, 0, -1, 10**6, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1]
REALS = ["0", "0.5", "1", "1.5", "-1", "1e-9", "1e9", "1e18", "0.25", "8", "1e-320", "1e308"]
LAYOUT = ["model.tensor_model_parallel_size", "model.context_parallel_size", "model.expert_model_parallel_size",
          "model.expert_tensor_parallel_size", "model.pipeline_model_parallel_size",
          "model.virtual_pipeline_model_parallel_size", "train.micro_batch_size", "train.global_batch_size",
          "model.num_layers", "model.num_layers_in_first_pipeline_stage", "model.num_layers_in_last_pipeline_stage",
          "model.num_layers_per_virtual_pipeline_stage", "model.pipeline_model_parallel_layout", "model.mtp_num_layers"]
FILES = re.compile(r"path|dir|load|save|file|cache|tokenizer|moefold\.model|cluster\.gpu$|data_args")
LIMIT = 30  # seconds


def value(k):
    kind = k["type"]
    if "word" in kind and k["allowed"]:
        word = random.choice(k["allowed"].split("|"))
    elif "true/false" in kind:
        word = random.choice(["true", "false"])
    elif "whole" in kind:
        word = str(random.choice(SIZES[:24] if random.random() < 0.7 else SIZES))
    elif "number" in kind:
        word = random.choice(REALS)
    else:
        word = random.choice(["Ett|ttL", "Et|(tt|)*30mL", "([0]*1+[1]*3)", "x"])
    return f"[{word}]" if "list" in kind and random.random() < 0.5 else word


def command(knobs):
    name = random.choice(list(FORMS))
    words = [name, random.choice(MODELS), "--gpus", random.choice(GPUS), "--seq", random.choice(LENGTHS)]
    words += random.choice(FORMS[name])
    pins = name == "plan" and random.random() < 0.7
    for _ in range(random.randint(0, 5)):
        key = random.choice(LAYOUT) if random.random() < 0.6 else random.choice(list(knobs))
        if key in knobs:
            words += (["--pin"] if pins else []) + [f"{key}={value(knobs[key])}"]
    return words


def wrong(words):
    """What is wrong with a command, or None; and its exit code."""
    try:
        done = subprocess.run([PROGRAM] + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"longer than {LIMIT} s", "late"
    code, said = done.returncode, done.stderr
    if code < 0:
        return f"signal {-code}", code
    if code not in (0, 1, 2, 3):
        return f"exit code {code}", code
    if b"Sanitizer" in said or b"runtime error" in said:
        return said.decode(errors="replace")[:2000], code
    if code and not said and not done.stdout:
        return "refused without a word", code
    if "--json" in words and code == 0:
        try:
            json.loads(done.stdout)
        except ValueError as e:
            return f"no JSON: {e}", code
    return None, code


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    until = time.time() + (float(sys.argv[3]) if len(sys.argv) > 3 else 600)
    random.seed(seed)
    listed = json.loads(subprocess.run([PROGRAM, "knobs", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    knobs = {k["key"]: k for k in listed if not FILES.search(k["key"])}
    codes, bad, n = collections.Counter(), 0, 0
    while n < count and time.time() < until:
        words = command(knobs)
        what, code = wrong(words)
        n += 1
        codes[code] += 1
        if what:
            bad += 1
            print(f"{what}: {shlex.join([PROGRAM] + words)}", flush=True)
    ends = ", ".join(f"{codes[c]} ended with {c}" for c in sorted(codes, key=str))
    print(f"random commands: seed {seed}, {n} commands, {bad} broken ({ends})")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
