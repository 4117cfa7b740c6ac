"""faults.py - a failure or a kill at each file-system call of a run that loads and saves.

A scenario is a folder as a run finds it and the command that goes on in it. Played once with nothing injected it tells the
calls; then each call is a case: fault/SCENARIO/RANK/CALL/ACT/TIMES; a CALL below 0 is counted from the end. After a case the folder must hold what was saved
before, and a resumed run must end bit-equal with one that was never interrupted.
"""
import collections
import os
import random
import shutil

import job

# What a call may fail with; the first column is how its name starts.
ERRORS = [("write", ["EIO", "ENOSPC", "EDQUOT", "EINTR", "short"]), ("pwrite", ["EIO", "ENOSPC", "EINTR", "short"]),
          ("read", ["EIO", "EINTR", "short"]), ("pread", ["EIO", "EINTR", "short"]),
          ("open", ["EIO", "ENOSPC", "EINTR", "EMFILE", "EACCES"]), ("fsync", ["EIO", "ENOSPC", "EINTR"]),
          ("fdatasync", ["EIO", "ENOSPC"]), ("close", ["EIO", "EINTR", "EDQUOT"]), ("lock", ["EIO", "EINTR", "EACCES"]),
          ("", ["EIO", "EROFS", "ESTALE", "EACCES"])]
FOR_EVER = 1000000
KILLED = (-9, 128 + 9)  # the second: as a shell around the program says it
Scenario = collections.namedtuple("Scenario", "start to least words ranks keep")


class Faults:
    def __init__(self, room, with_ranks):
        self.room = room
        self.reference, self.scenarios, self.calls = {}, {}, {}
        for ranks in (1, 2) if with_ranks else (1,):
            self.make_reference(ranks)
        self.make_scenarios()

    def folder(self, name):
        return os.path.join(self.room, name)

    def make_reference(self, ranks):
        whole, start = self.folder(f"whole-{ranks}"), self.folder(f"start-{ranks}")
        e = job.run(job.words(whole, keep=-1, ranks=ranks))
        job.must_end_well(e, "the uninterrupted run")
        self.reference[ranks] = job.digest(whole, job.STEPS)
        if not self.reference[ranks]:
            raise job.Wrong("the uninterrupted run leaves no checkpoint")
        job.must_end_well(job.run(job.words(start, to=4, ranks=ranks)), "the run up to step 4")

    def make_scenarios(self):
        start, again = self.folder("start-1"), self.folder("again")
        shutil.copytree(self.folder("whole-1"), again)
        shutil.rmtree(job.iteration_folder(again, job.STEPS))
        with open(os.path.join(again, job.LATEST), "w", encoding="utf-8") as f:
            f.write("4")
        s = self.scenarios
        s["next"] = Scenario(start, 6, 4, [], 1, 2)  # saves 6, prunes 2
        s["again"] = Scenario(again, 6, 4, [], 1, 2)  # 6 is there already, but the text file says 4
        s["beside"] = Scenario(start, 6, 4, ["checkpoint.async_save=true", "checkpoint.save_interval=1"], 1, 2)
        s["first"] = Scenario(None, 2, -1, [], 1, 2)  # an empty folder
        s["crashed"] = Scenario(self.folder("crashed"), 6, 4, [], 1, 1)  # what a kill between two renames left
        if 2 in self.reference:
            s["ranks"] = Scenario(self.folder("start-2"), 6, 4, [], 2, 2)

    def line(self, s, folder, to):
        return job.words(folder, to=to, ranks=s.ranks, keep=s.keep, also=s.words)

    def trace(self, name, rank=0):
        """The names of the calls of a scenario, in order."""
        if (name, rank) not in self.calls:
            s = self.scenarios[name]
            with job.Folder(self.start(name)) as folder:
                log = os.path.join(os.path.dirname(folder), "log")
                e = job.run(self.line(s, folder, s.to), LD_PRELOAD=job.INJECT, TORTURE_UNDER=folder, TORTURE_LOG=log,
                            **({"TORTURE_RANK": rank} if s.ranks > 1 else {}))
                job.must_end_well(e, f"scenario {name} with nothing injected")
                with open(log, encoding="utf-8") as f:
                    self.calls[name, rank] = [x.split()[1] for x in f]
        return self.calls[name, rank]

    def start(self, name):
        """The folder that a scenario begins with; "crashed" is made when it is asked for."""
        to = self.scenarios[name].start
        if name == "crashed" and not os.path.exists(to):
            self.crash(to)
        return to

    def crash(self, to):
        """A folder whose iteration 6 stands aside: the rename after that was never made."""
        renames = [i for i, call in enumerate(self.trace("again"), 1) if call.startswith("rename")]
        shutil.copytree(self.scenarios["again"].start, to)
        e = job.run(job.words(to, to=6), LD_PRELOAD=job.INJECT, TORTURE_UNDER=to, TORTURE_AT=renames[1], TORTURE_ACT="kill")
        if e.code not in KILLED:
            raise job.Wrong(f"a kill at a rename did not kill: {e.last_words()}")

    def cases(self, seed):
        """All of "next" by a kill and a failure first, in a random order; then the rest."""
        pick = random.Random(seed)
        first, rest = [], []
        for name, s in self.scenarios.items():
            for rank in range(s.ranks):
                for n, call in enumerate(self.trace(name, rank), 1):
                    at = f"fault/{name}/{rank}/{n}"
                    errors = next(e for start, e in ERRORS if call.startswith(start))
                    error, times = pick.choice(errors), FOR_EVER if pick.random() < 0.15 else 1
                    to = first if name == "next" else rest
                    to += [f"{at}/{pick.choice(['kill', 'kill', 'power'])}/1", f"{at}/{error}/{times}"]
        pick.shuffle(first)
        pick.shuffle(rest)
        return first + rest

    def play(self, case, counts):
        _, name, rank, call, act, times = case.split("/")
        s = self.scenarios[name]
        if int(call) < 0:  # from the end
            call = len(self.trace(name, int(rank))) + 1 + int(call)
        with job.Folder(self.start(name)) as folder:
            aim = dict(LD_PRELOAD=job.INJECT, TORTURE_UNDER=folder, TORTURE_AT=call, TORTURE_ACT=act, TORTURE_TIMES=times)
            e = job.run(self.line(s, folder, s.to), **aim, **({"TORTURE_RANK": rank} if s.ranks > 1 else {}))
            kills = act in ("kill", "power")
            counts["kills" if kills else "injected failures"] += 1
            self.judge(s, e, kills, folder)
            job.resume(folder, max(s.least, e.saved), self.reference[s.ranks], self.line(s, folder, None))
            counts["resumes bit-equal"] += 1

    def judge(self, s, e, kills, folder):
        """The run into which something was injected: no crash, no silence, no start from nothing."""
        if e.code == 0:
            if e.loaded < s.least:
                raise job.Wrong(f"it started again from iteration {e.loaded}: {e.last_words()}")
            if e.saved < s.to:
                raise job.Wrong(f"it ended with 0, and its last checkpoint is {e.saved}")
        elif kills and (e.code in KILLED or s.ranks > 1):
            return
        elif e.code not in (2, 3):
            raise job.Wrong(f"it ended badly: {e.last_words()}")
        elif folder not in e.err:
            raise job.Wrong(f"its message names no file: {e.last_words()}")
