"""What a command of moefold says of a recipe, and whether its repairs repair. Read by test_repairs.sh and properties.py."""
import collections, json, os, re, shlex, subprocess

MOEFOLD = os.environ["MOEFOLD"]


def run(*words, seconds=120, env=None):
    return subprocess.run([MOEFOLD, *words], capture_output=True, text=True, timeout=seconds, env=env)


def asked(command, words):
    """The JSON of a command; what is not JSON is a fault by itself."""
    done = run(command, *words, "--json")
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"unreadable": (done.stderr or done.stdout).strip()}


def printed(words):
    """[(rule, severity, [(words of a repair, the remark behind it)], says that none was found)] of `check`."""
    found = []
    for line in run("check", *words, "--everything").stdout.splitlines():
        head = re.match(r"  (error|warning|note) +([a-z0-9-]+)$", line)
        repair = re.match(r" {11}(?:repair:|or:     ) (.*)$", line)
        remark = re.match(r" {20}\((.*)\)$", line)
        if re.match(r"[A-Z]", line):
            if found or line.startswith("Model"):
                break
        elif head:
            found.append((head[2], head[1], [], []))
        elif repair and found:
            found[-1][2].append([shlex.split(repair[1]), ""])
        elif remark and found and found[-1][2]:
            found[-1][2][-1][1] = remark[1]
        elif line.startswith("           no repair was found") and found:
            found[-1][3].append(line.strip())
    return found


def count(answer, most):
    return collections.Counter(v["rule"] for v in answer["violations"] if v["severity"] in most)


def fault(words, before, rule, severity, repair, remark):
    """Why this is no repair; None: it is one."""
    after = asked("show", [*words, *repair])
    if "unreadable" in after:
        return "cannot be appended: " + after["unreadable"]
    memory = rule == "state-fits-the-gpu"  # its repair may draw another warning
    strict = ("error",) if severity == "error" or memory else ("error", "warning")
    every = ("error", "warning", "note")
    if count(after, every)[rule] >= count(before, every)[rule]:
        return "leaves the rule broken"
    worse = count(after, strict) - count(before, strict)
    if worse:
        return "breaks " + ", ".join(worse)
    said_not = "does not fit" in remark
    if after["ok"] and after["fits"] is not None and after["fits"] == said_not:
        return f"fits: {after['fits']}, but the remark is ({remark})"
    if remark.startswith("fits then") and not (after["ok"] and after["fits"]):
        return "does not fit, or is not valid"
    return None


def faults(words):
    """Of all that check prints: (number of repairs, [what is wrong])."""
    before = asked("show", words)
    if "unreadable" in before:
        return 0, []
    n, wrong = 0, []
    for rule, severity, repairs, none in printed(words):
        if severity == "error" and not repairs and not none:
            wrong.append(f"{rule}: neither a repair nor that none was found")
        for repair, remark in repairs:
            n += 1
            why = fault(words, before, rule, severity, repair, remark)
            if why:
                wrong.append(f"{rule}: {shlex.join(repair)}: {why}")
    return n, wrong
