"""stops.py - signals at random moments, again and again until a run is through: it ends bit-equal.

A case is stop/RANKS/NUMBER; the number seeds its chain of signals. One request saves the last step and exits with 4, two
end at once, but for SIGTERM that is repeated; a kill loses what was not saved. Nobody is left behind.
"""
import os
import random
import signal
import subprocess
import time

import job

ASKS = ["TERM", "INT", "HUP", "USR1", "USR2"]
STEPS, EVERY = 150, 40
STOPPED = 4


def is_rank(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return b"OMPI_COMM_WORLD_RANK=" in f.read()
    except OSError:
        return False


class Stops:
    def __init__(self, room, ranks):
        self.room, self.ranks, self.reference, self.seconds = room, ranks, {}, {}

    def prepare(self, ranks):
        whole = os.path.join(self.room, f"long-{ranks}")
        start = time.monotonic()
        job.must_end_well(job.run(self.line(whole, ranks)), "the uninterrupted run")
        self.seconds[ranks] = time.monotonic() - start
        self.reference[ranks] = job.digest(whole, STEPS)

    def line(self, folder, ranks):
        return job.words(folder, steps=STEPS, every=EVERY, ranks=ranks)

    def cases(self, seed):
        pick = random.Random(seed)
        while True:
            ranks = 2 if 2 in self.ranks and pick.random() < 0.4 else 1
            yield f"stop/{ranks}/{pick.randrange(10**9)}"

    def play(self, case, counts):
        ranks, pick = int(case.split("/")[1]), random.Random(case)
        if ranks not in self.reference:
            self.prepare(ranks)
        with job.Folder() as folder:
            least = -1
            for left in reversed(range(12)):
                told = self.signals(pick, ranks) if left else []
                e, sent = self.interrupt(folder, ranks, pick, told)
                counts["kills" if "KILL" in told else "stop signals"] += sent
                if e.code in (0, STOPPED):
                    job.must_load(e, least, "the next run")
                least = self.judge(e, told, least)
                if e.code == 0 and e.step >= STEPS:
                    break
            job.must_equal(folder, STEPS, self.reference[ranks], "the run after its last stop")
            if job.leftovers(folder):
                raise job.Wrong(f"it leaves {', '.join(job.leftovers(folder))} behind")
            counts["resumes bit-equal"] += 1

    def signals(self, pick, ranks):
        """(whom, name) of one request, rarely of two, or of a kill."""
        whom = pick.choice(["parent", "parent", "rank", "ranks"]) if ranks > 1 else "parent"
        chance = pick.random()
        if chance < 0.15:
            return [whom, "KILL"]
        first = pick.choice(ASKS)
        return [whom, first] if chance < 0.9 else [whom, first, pick.choice(ASKS)]

    def interrupt(self, folder, ranks, pick, told):
        mark = job.new_mark()
        delay, sent = pick.uniform(0, 0.9 * self.seconds[ranks]), 0
        p = subprocess.Popen(self.line(folder, ranks), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=job.environment(mark))
        try:
            for name in told[1:]:
                try:
                    out, err = p.communicate(timeout=delay)
                    break
                except subprocess.TimeoutExpired:
                    self.tell(p.pid, told[0], name, mark)
                    sent += 1
                delay = pick.uniform(0, 0.02)
            out, err = p.communicate(timeout=job.LIMIT)
        except subprocess.TimeoutExpired:
            raise job.Wrong(f"still running {job.LIMIT} s after {told}") from None
        finally:
            gone = job.wait_until_gone(mark)
            p.wait()
        if not gone:
            raise job.Wrong(f"processes were left behind after {told}")
        return job.ended(p.returncode, out, err), sent

    def tell(self, parent, whom, name, mark):
        ranks = [p for p in job.processes(mark) if is_rank(p)] if whom != "parent" else []
        if whom == "rank":
            ranks = ranks[-1:]
        for pid in ranks or [parent]:
            job.send(pid, name)

    def judge(self, e, told, least):
        """The iteration that the next run must load at least."""
        started, names = e.step > 0, told[1:]
        early = [-getattr(signal, "SIG" + n) for n in names]
        if "KILL" in names or (not started and e.code in early + [3]):
            pass
        elif e.code == 3 and len(names) > 1 and names != ["TERM", "TERM"]:  # repeats at once are one request
            pass
        elif e.code not in (0, STOPPED) or (e.code == STOPPED and not told):
            raise job.Wrong(f"told {' '.join(told)} it ended badly: {e.last_words()}")
        elif e.step > e.saved:
            raise job.Wrong(f"told {' '.join(told)} at step {e.step} it saved {e.saved} last and ended with {e.code}")
        elif (e.code == STOPPED) == (max(e.step, e.loaded) >= STEPS):
            raise job.Wrong(f"told {' '.join(told)} it ended with {e.code} at step {e.step}, loaded {e.loaded}")
        return max(least, e.saved)
