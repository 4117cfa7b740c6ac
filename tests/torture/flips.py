"""flips.py - a flipped bit or a cut in a file of a checkpoint: refused by name, or without effect.

A case is flip/FILE/BYTE/BIT or cut/FILE/BYTES.
"""
import os
import random
import shutil

import job

AT = 6


class Flips:
    def __init__(self, room, reference):
        self.reference, self.source = reference, os.path.join(room, "flips")
        os.mkdir(self.source)
        whole = os.path.join(room, "whole-1")
        shutil.copytree(job.iteration_folder(whole, AT), job.iteration_folder(self.source, AT))
        with open(os.path.join(self.source, job.LATEST), "w", encoding="utf-8") as f:
            f.write(str(AT))

    def files(self):
        inside = os.path.basename(job.iteration_folder("", AT))
        names = sorted(os.listdir(os.path.join(self.source, inside)))
        return [f"{inside}:{n}" for n in names] + [job.LATEST]

    def path(self, folder, name):
        return os.path.join(folder, *name.split(":"))

    def cases(self, seed):
        """For ever: headers, where structure is, as often as all the rest."""
        pick = random.Random(seed)
        files = self.files()
        while True:
            name = pick.choices(files, [1 if n == job.LATEST else 8 for n in files])[0]
            size = os.path.getsize(self.path(self.source, name))
            at = pick.randrange(min(size, 4096) if pick.random() < 0.5 else size)
            yield f"cut/{name}/{at}" if pick.random() < 0.1 else f"flip/{name}/{at}/{pick.randrange(8)}"

    def play(self, case, counts):
        kind, name, at, *bit = case.split("/")
        with job.Folder(self.source) as folder:
            damaged, to = self.path(folder, name), folder + "-to"
            if kind == "cut":
                os.truncate(damaged, int(at))
            else:
                with open(damaged, "r+b") as f:
                    f.seek(int(at))
                    byte = f.read(1)[0] ^ 1 << int(bit[0])
                    f.seek(int(at))
                    f.write(bytes([byte]))
            e = job.run(job.words(to, load=folder))
            counts["bit flips" if kind == "flip" else "cut files"] += 1
            if e.code == 2:
                if os.path.basename(damaged) not in e.err and "iter_" not in e.err:
                    raise job.Wrong(f"the refusal does not name {name}: {e.last_words()}")
            elif e.code:
                raise job.Wrong(f"neither refused nor loaded: {e.last_words()}")
            else:
                job.must_load(e, AT, "the run")
                job.must_equal(to, job.STEPS, self.reference, "damage was not noticed; the run")
