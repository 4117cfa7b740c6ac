#!/usr/bin/env python3
"""check_trace.py FILE [--whole|--measured] - is it what viewers of Chrome's trace events document, and is it true to itself?

The rules are those of the Trace Event Format and of Perfetto's page on Chrome JSON: phases B E X I C M s t f; pid and
tid whole numbers; ts and dur in microseconds; complete events of a thread nest; flows bind to slices by their time.
Beside those, our own: on each stream operations, waits and idle time are the span within 1 %, and every flow has one
start and one end. With --whole (a predicted step) compute is never idle without a reason, with --measured (steps of a run) seldom; in
both every message has both of its ends. Prints one JSON object with what it counted; an offence ends it with 1."""
import collections
import gzip
import json
import sys


def load(path):
    raw = open(path, "rb").read()
    return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)


def must(condition, *why):
    if not condition:
        sys.exit("check_trace: " + " ".join(str(w) for w in why))


def number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def check_event(e):
    must(isinstance(e, dict), "an event is no object:", e)
    must(e.get("ph") in {"X", "M", "s", "f"}, "phase", e)
    for key in ("pid", "tid"):
        must(type(e.get(key)) is int and e[key] >= 0, key, e)
    must(isinstance(e.get("name"), str) and e["name"], "name", e)
    must(isinstance(e.get("args", {}), dict), "args", e)
    if e["ph"] == "M":
        keys = {"process_name": "name", "thread_name": "name", "process_labels": "labels",
                "process_sort_index": "sort_index", "thread_sort_index": "sort_index"}
        must(e["name"] in keys and keys[e["name"]] in e["args"], "metadata", e)
        return
    must(number(e.get("ts")) and e["ts"] >= 0, "ts", e)
    must(isinstance(e.get("cat"), str) and e["cat"], "cat", e)
    if e["ph"] == "X":
        must(number(e.get("dur")) and e["dur"] >= 0, "dur", e)
        must(e["args"].get("what") in ("operation", "wait"), "args.what", e)
    else:
        must(isinstance(e.get("id"), str) and e["id"], "id", e)
        must(e["ph"] != "f" or e.get("bp") == "e", "bp", e)


def main():
    path, measured = sys.argv[1], "--measured" in sys.argv
    whole = measured or "--whole" in sys.argv
    most_idle = 0.2 if measured else 0.01
    d = load(path)
    must(d.get("displayTimeUnit") in ("ms", "ns"), "displayTimeUnit")
    head, events = d["otherData"], d["traceEvents"]
    span = head["span_s"] * 1e6
    threads, named, flows = collections.defaultdict(list), set(), collections.defaultdict(list)
    for e in events:
        check_event(e)
        if e["ph"] == "X":
            threads[e["pid"], e["tid"]].append(e)
        elif e["ph"] == "M" and e["name"] == "thread_name":
            named.add((e["pid"], e["tid"]))
        elif e["ph"] in "sf":
            flows[e["cat"], e["name"], e["id"]].append(e)
    must(named == set(threads), "threads without a name, or names without a thread")
    sends = {}
    worst = 0
    for at, list_ in threads.items():
        list_.sort(key=lambda e: e["ts"])
        end = operations = waits = idle = 0
        for e in list_:
            must(e["ts"] >= end - 2e-3, "overlap on", at, "at", e["ts"], "the one before ends at", end)
            idle += max(0, e["ts"] - end)
            end = e["ts"] + e["dur"]
            if e["args"]["what"] == "wait":
                waits += e["dur"]
            else:
                operations += e["dur"]
        idle += max(0, span - end)
        off = abs(operations + waits + idle - span) / span
        worst = max(worst, off)
        must(off < 0.01, "stream", at, "operations", operations, "waits", waits, "idle", idle, "span", span)
        if whole and at[1] == 0:
            must(idle < most_idle * span, "compute of rank", at[0], "is idle without a reason for", idle, "of", span)
    starts = {(p, t): {e["ts"] for e in l} for (p, t), l in threads.items()}
    for key, pair in flows.items():
        must(sorted(e["ph"] for e in pair) == ["f", "s"], "flow", key, "has", [e["ph"] for e in pair])
        s, f = sorted(pair, key=lambda e: e["ph"], reverse=True)
        must(s["ph"] == "s" and f["ts"] >= s["ts"], "flow", key, "goes back in time")
        for e in pair:
            must(e["ts"] in starts[e["pid"], e["tid"]], "flow", key, "binds to no slice")
    ranks = {at[0] for at in threads}
    for at, list_ in threads.items():
        for e in list_:
            a = e["args"]
            if "message" not in a:
                continue
            edge = e["ts"] <= 0 or e["ts"] + e["dur"] >= span - 2e-3
            ends = (at[0], a["peer"]) if a["message"] == "send" else (a["peer"], at[0])
            id_ = "-".join(str(x) for x in (*ends, a["tag"], a["number"]))
            if a["peer"] in ranks and (whole or not edge):
                must((e["cat"], "message", id_) in flows, a["message"], id_, "has no other end")
            sends[a["message"]] = sends.get(a["message"], 0) + 1
    print(json.dumps({"events": len(events), "streams": len(threads), "flows": len(flows), "worst": worst, **sends}))


main()
