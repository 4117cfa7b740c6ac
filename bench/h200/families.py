"""families.py NAME STEP_MS PREDICTED.json MEASURED.json - a step's operations, measured beside what the machine allows.

Prints every operation (name, kind, phase, summed over a step) and, after a tab, rows for bench/h200.sh: the step, and the operations
above 1 % of it that reach less than half of what their bytes at the copy's rate allow or, where products count, their prediction."""
import collections
import json
import sys

COPY = 4244e9  # bytes a second that a device copy reaches on an H200
PRODUCTS = {"GEMM", "expert GEMM (grouped)", "attention", "LM head and loss"}


def rows(path):
    """milliseconds, bytes and count of each operation in a step"""
    trace = json.load(open(path))
    steps = trace["otherData"].get("steps", 1) or 1
    found = collections.defaultdict(lambda: [0.0, 0.0, 0.0])
    for event in trace["traceEvents"]:
        args = event.get("args", {})
        if event["ph"] != "X" or args.get("what") not in ("operation", "wait"):
            continue
        if args["what"] == "wait" and event["tid"] != 0:
            continue
        row = found[event["cat"], event["name"], args.get("phase", "")]
        row[0] += event["dur"] / 1000 / steps
        row[1] += args.get("bytes", 0) / steps
        row[2] += 1 / steps
    return found, trace["otherData"].get("step_s", 0) * 1000


name, step_ms, predicted_file, measured_file = sys.argv[1:]
step_ms = float(step_ms)
predicted, predicted_ms = rows(predicted_file)
measured, traced_ms = rows(measured_file)
kinds = collections.defaultdict(lambda: [0.0, 0.0])
print(f"{name}: {step_ms:.1f} ms ({traced_ms:.1f} traced), predicted {predicted_ms:.1f}")
print(f"{'ms':>9} {'%':>5} {'predicted':>9} {'bytes allow':>11} {'times':>5}  operation")
findings = []
for key in sorted(set(measured) | set(predicted), key=lambda k: -max(measured[k][0], predicted[k][0])):
    ms, moved, times = measured[key]
    expected = predicted[key][0]
    kinds[key[0]][0] += ms
    kinds[key[0]][1] += expected
    bound = moved / COPY * 1000
    print(f"{ms:9.3f} {100 * ms / step_ms:5.1f} {expected:9.3f} {bound:11.3f} {times:5.0f}  {key[0]}: {key[1]} {key[2]}")
    allowed = expected if key[0] in PRODUCTS else bound
    if ms > 0.01 * step_ms and allowed < 0.5 * ms:
        findings.append((ms, allowed, key))
for kind, (ms, expected) in sorted(kinds.items(), key=lambda k: -k[1][0]):
    print(f"kind {kind}: {ms:.2f} ms, predicted {expected:.2f}")
error = predicted_ms / step_ms - 1
print(f"row\t{name}: ms; predicted, error\t{step_ms:.1f}; {predicted_ms:.1f}, {100 * error:+.1f} %\twithin 10 %\t{'yes' if abs(error) <= 0.1 else 'no'}")
for ms, allowed, (kind, what, phase) in findings:
    print(f"row\t{name}: {what} {phase} ({kind})\t{ms:.2f} ms, {100 * ms / step_ms:.1f} %; {allowed:.2f} ms allowed\thalf of it\tno")
