#!/usr/bin/env python3
"""guard_price.py (tools/guard-price) - what price, check and plan say, kept so that a difference can be named.

  guard-price write FOLDER [JOBS]   runs $MOEFOLD (./moefold) over recipes/ and tests/guard/jobs.txt, or over JOBS, a
                             JSON file an answer
  guard-price lines FOLDER   one line an answer: a checksum and its leading figures (tests/guard/price.txt)
  guard-price rows FOLDER    every column: a line a row of a plan, a verdict with its repairs, a checksum of the rest
  guard-price diff A B       two such folders, key by key; exit code 1 where they differ

Numbers count to nine digits: the last bits of exp and pow are not the same on every machine. Sentences are left out.
"""
import hashlib, json, os, subprocess, sys
from pathlib import Path

FIGURES = {
    "price": ["step_s", "tflops_per_gpu", "peak_bytes", "memory.weights", "memory.gradients", "memory.optimizer",
              "memory.saved", "memory.temporaries"],
    "check": ["ok", "fits", "peak_bytes", "fullest_rank", "memory.total", "memory.weights", "memory.gradients",
              "memory.optimizer", "memory.buffers", "memory.host"],
    "plan": ["best.0." + k for k in ("tp", "cp", "ep", "etp", "pp", "vpp", "micro_batch_size", "dispatcher",
                                     "recompute", "step_s", "peak_bytes")],
}
# Sentences, which may be worded anew; what depends on the clock: what a search counted, and changes, which price tries
# for a second only; every rank's groups, which have tests of their own.
LEFT_OUT = ("changes", "evidence", "why.", "warnings", "violations", "fix.", "notes", "not_priced", "judged.",
            "layout.groups.")


def listed(file):
    for line in file.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, words = (part.strip() for part in line.split("|", 1))
            yield words.split()[0], name, words.split()


def jobs():
    for recipe in sorted(Path("recipes").glob("*.yaml")):
        for command in ("price", "check"):
            yield command, recipe.stem, [command, str(recipe)]
    for command, name, words in listed(Path("tests/guard/jobs.txt")):
        yield command, name, words
        if command == "price":
            yield "check", name, ["check"] + words[1:]


def write(folder, file=None):
    folder.mkdir(parents=True, exist_ok=True)
    program = os.environ.get("MOEFOLD", "./moefold")
    for command, name, words in listed(file) if file else jobs():
        ran = subprocess.run([program] + words + ["--json"], capture_output=True, text=True)
        refused = {"refused": ran.returncode, "says": ran.stderr.strip()}
        file = command + " " + name.replace("/", "-") + ".json"
        (folder / file).write_text(json.dumps(json.loads(ran.stdout or json.dumps(refused)), indent=1) + "\n")


def flat(value, key=""):
    """Keys with dots, and values: text, or numbers to nine digits."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        out = {}
        for k, v in items:
            out.update(flat(v, f"{key}.{k}" if key else str(k)))
        return out
    if key.startswith(LEFT_OUT):
        return {}
    return {key: f"{value:.9g}" if isinstance(value, float) else json.dumps(value)}


def read(folder):
    return {f.stem: flat(json.loads(f.read_text())) for f in sorted(folder.glob("*.json"))}


def lines(folder):
    for name, keys in read(folder).items():
        text = "".join(f"{k}={v}\n" for k, v in sorted(keys.items()))
        figures = " ".join(f"{k.removeprefix('best.0.')}={keys[k]}" for k in FIGURES[name.split()[0]] if k in keys)
        print(f"{name}: {hashlib.sha256(text.encode()).hexdigest()[:16]} {figures}")


def short(value):
    """One word: numbers to nine digits, of lists and objects the items."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return "(" + ",".join((f"{k}=" if isinstance(value, dict) else "") + short(v) for k, v in items) + ")"
    return f"{value:.9g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def verdict(answer):
    """A check's; repairs of what does not fit are left out: how far they are searched, the clock decides."""
    yield " ".join(f"{k}={short(answer.get(k))}" for k in ("ok", "fits", "peak_bytes", "fullest_rank"))
    for broken in answer["violations"]:
        words = [" ".join(edits) for edits in [broken["repair"], *broken["alternatives"]] if edits]
        yield f"{broken['severity']} {broken['rule']}" + (": " + "; or ".join(words) if words else "")
    if answer["fits"] and answer["fix"]:
        yield "fix: " + " ".join(answer["fix"])


def rows(folder):
    for file in sorted(folder.glob("*.json")):
        answer = json.loads(file.read_text())
        print(file.stem)
        if "refused" in answer:
            print(f"  exit code {answer['refused']}: {answer['says']}")
        elif file.stem.startswith("plan "):
            found = [" ".join(f"{k}={short(v)}" for k, v in row.items()) for row in answer["best"]]
            print("\n".join("  " + row for row in found) or f"  fits={short(answer['fits'])}")
        elif file.stem.startswith("check "):
            print("\n".join("  " + line for line in verdict(answer)))
        else:
            text = "".join(f"{k}={v}\n" for k, v in sorted(flat(answer).items()))
            print(f"  {len(text.splitlines())} figures, {hashlib.sha256(text.encode()).hexdigest()[:16]}")


def change(was, now):
    try:
        a, b = float(was), float(now)
        return f"  ({(b - a) / a * 100:+.3g} %)" if a else ""
    except ValueError:
        return ""


def diff(one, other):
    a, b = read(one), read(other)
    differ = 0
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            differ += 1
            print(f"{name}: only in {one if name in a else other}")
            continue
        x, y = a[name], b[name]
        keys = [k for k in list(x) + [k for k in y if k not in x] if x.get(k) != y.get(k)]
        differ += bool(keys)
        if keys:
            print(f"{name}: {len(keys)} of {len(x)} keys differ")
        for k in keys:
            was, now = x.get(k, "-"), y.get(k, "-")
            print(f"    {k}: {was} -> {now}{change(was, now)}")
    print(f"{differ} of {len(a.keys() | b.keys())} answers differ")
    return 1 if differ else 0


def main(words):
    folders = [Path(w) for w in words[1:]]
    if words[:1] == ["write"] and len(folders) in (1, 2):
        return write(*folders)
    if words[:1] == ["rows"] and len(folders) == 1:
        return rows(folders[0])
    if words[:1] == ["lines"] and len(folders) == 1:
        return lines(folders[0])
    if words[:1] == ["diff"] and len(folders) == 2:
        return diff(*folders)
    sys.stderr.write(__doc__)
    return 2


sys.exit(main(sys.argv[1:]))
