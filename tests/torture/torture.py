#!/usr/bin/env python3
"""torture.py [--only CASE] - failures, kills, flipped bits, signals and random commands, for minutes.

TORTURE_SECONDS (300) is how long, TORTURE_SEED (1) what is drawn, TORTURE_JOBS (one a core) how many at a time,
TORTURE_PARTS (all) which parts, MOEFOLD the program. The last line counts. What failed is printed with the command that repeats it, and the exit code is 1. From the
repository's root; `make torture` builds what is needed. docs/STOPPING.md says what is promised.
"""
import collections
import concurrent.futures
import glob
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import faults
import flips
import job
import stops

SEED = int(os.environ.get("TORTURE_SEED", "1"))
SECONDS = float(os.environ.get("TORTURE_SECONDS", "300"))
JOBS = int(os.environ.get("TORTURE_JOBS", str(os.cpu_count() or 1)))
SHARES = {"faults": 0.52, "flips": 0.1, "stops": 0.18, "commands": 0.12, "fuzz": 0.08}
PARTS = os.environ.get("TORTURE_PARTS", " ".join(SHARES)).split()
ENOUGH = 20  # failures; more of them tell nothing new
SUMMARY = ["kills", "injected failures", "bit flips", "cut files", "stop signals", "resumes bit-equal", "random commands",
           "fuzz executions"]


class Torture:
    def __init__(self):
        self.counts, self.failed, self.notes, self.lock = collections.Counter(), [], [], threading.Lock()

    def fail(self, what, repeat):
        with self.lock:
            self.failed.append(repeat)
            print(f"FAIL  {what}\n      repeat: {repeat}", flush=True)

    def play(self, part, case):
        counts = collections.Counter()
        try:
            part.play(case, counts)
        except (job.Wrong, OSError) as e:
            self.fail(f"{case}: {e}", f"TORTURE_SEED={SEED} python3 tests/torture/torture.py --only {case}")
        with self.lock:
            self.counts += counts

    def spend(self, part, cases, clock):
        """Plays cases on all cores until there are none, time is over or too many failed; on each at least one. How many
        were played."""
        played, cases = itertools.count(), iter(cases)

        def work():
            while len(self.failed) < ENOUGH:
                with self.lock:
                    case = next(cases, None)
                if case is None:
                    return
                self.play(part, case)
                next(played)
                if clock.over():
                    return

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for f in [pool.submit(work) for _ in range(JOBS)]:
                f.result()
        return next(played)

    def commands(self, seconds):
        """The random-command fuzzer, one on each core; its seed and number repeat what it found."""
        def one(n):
            line = [sys.executable, "tests/fuzz/random_commands.py", str(SEED * 1000 + n), "1000000", str(seconds)]
            done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
            found = re.search(r"seed \d+, (\d+) commands, (\d+) broken", done.stdout)
            with self.lock:
                self.counts["random commands"] += int(found[1]) if found else 0
            if done.returncode:
                self.fail("random commands: " + done.stdout.strip(), " ".join(line))

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(one, range(JOBS)))

    def fuzz(self, seconds):
        """Every reader's libFuzzer target for as long as its part of the time allows."""
        programs = [p for p in sorted(glob.glob("build/fuzz/fuzz_*")) if "." not in os.path.basename(p) and os.access(p, os.X_OK)]
        programs = [p for p in programs if os.path.exists(f"tests/fuzz/{os.path.basename(p)}.c")]
        if not programs:
            self.notes.append("libFuzzer targets left out: clang with libFuzzer is not here, or they are not built")
            return
        each = max(1, int(seconds * JOBS / len(programs)))

        def one(program):
            line = ["tools/fuzz", program]
            extra = {"FUZZ_SECONDS": str(each), "FUZZ_SEED": str(SEED)}
            done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False, env=dict(os.environ, **extra))
            found = re.search(r": (\d+) inputs", done.stdout)
            with self.lock:
                self.counts["fuzz executions"] += int(found[1]) if found else 0
            if done.returncode:
                self.fail(done.stdout.strip(), f"FUZZ_SECONDS={each} FUZZ_SEED={SEED} " + " ".join(line))

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(one, programs))

    def all(self, room):
        start = time.monotonic()
        f = faults.Faults(room, shutil.which("mpirun"))
        total = sum(SHARES[p] for p in PARTS)
        left = max(1.0, SECONDS - (time.monotonic() - start))
        for part in PARTS:
            seconds = left * SHARES[part] / total
            getattr(self, "do_" + part)(room, f, seconds)

    def do_faults(self, _, f, seconds):
        clock = job.Clock(seconds)
        cases = f.cases(SEED)
        base = sum(c.startswith("fault/next/") for c in cases)
        n = self.spend(f, cases, clock)
        self.notes.append(f"{min(n, base)} of {base} cases at the calls of one save, {n} of {len(cases)} of all scenarios")

    def do_flips(self, room, f, seconds):
        part = flips.Flips(room, f.reference[1])
        self.spend(part, part.cases(SEED), job.Clock(seconds))

    def do_stops(self, room, f, seconds):
        clock = job.Clock(seconds)
        part = stops.Stops(room, f.reference)
        for ranks in f.reference:
            part.prepare(ranks)
        self.spend(part, part.cases(SEED), clock)

    def do_commands(self, _room, _f, seconds):
        self.commands(seconds)

    def do_fuzz(self, _room, _f, seconds):
        self.fuzz(seconds)

    def only(self, room, case):
        kind, which = case.split("/")[:2]
        f = faults.Faults(room, which in ("ranks", "2"))
        if kind == "fault":
            part = f
        elif kind == "stop":
            part = stops.Stops(room, f.reference)
        else:
            part = flips.Flips(room, f.reference[1])
        self.play(part, case)

    def summary(self):
        for note in self.notes:
            print(f"torture: {note}")
        said = ", ".join(f"{self.counts[k]:,} {k}" for k in SUMMARY)
        verdict = f"{len(self.failed)} FAILED (seed {SEED})" if self.failed else "no loss, no crash"
        print(f"torture: seed {SEED}: {said}: {verdict}")
        return 1 if self.failed else 0


def main():
    for s in (signal.SIGINT, signal.SIGHUP):  # whoever runs us beside may have them ignored, and runs would inherit it
        signal.signal(s, signal.default_int_handler)
    t = Torture()
    room, program = job.make_room(), job.keep_program()
    try:
        if sys.argv[1:2] == ["--only"]:
            t.only(room, sys.argv[2])
        else:
            t.all(room)
    except (job.Wrong, OSError) as e:
        t.fail(f"it could not begin: {e}", f"TORTURE_SEED={SEED} python3 tests/torture/torture.py")
    finally:
        shutil.rmtree(room, ignore_errors=True)
        shutil.rmtree(program, ignore_errors=True)
    return t.summary()


if __name__ == "__main__":
    sys.exit(main())
