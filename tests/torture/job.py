"""job.py - a tiny training run: started, stopped, its folder copied, its end compared bit by bit.

The run has 8 steps and saves every second one. It is deterministic, so its end does not depend on how often it was ended
and resumed; whoever resumed must also say that it loaded, for a run that lost everything and started again would end the
same. Cases are named by words with slashes; a name is all that is needed to repeat one.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

PROGRAM = os.path.abspath(os.environ.get("MOEFOLD", "./moefold"))
INJECT = os.path.abspath(os.environ.get("TORTURE_INJECT", "build/torture/inject.so"))
LIMIT = 120  # seconds for one run of a second or less: longer is a hang
STEPS = 8
# Memory is quicker than a disk, and a kill empties no cache of the system's: nothing is lost by it. TMPDIR decides.
ROOM = None if os.environ.get("TMPDIR") or not os.access("/dev/shm", os.W_OK) else "/dev/shm"
MODEL = ["tiny", "cluster.gpu=cpu", "model.seq_length=16", "train.micro_batch_size=1", "train.global_batch_size=2",
         "optimizer.lr=3e-3", "model.num_layers=1", "model.hidden_size=32", "model.num_moe_experts=4",
         "model.moe_ffn_hidden_size=16", "model.vocab_size=64", "model.make_vocab_size_divisible_by=16", "--threads", "1"]
SAVED = re.compile(r"successfully saved checkpoint from iteration +(\d+) ")
LOADED = re.compile(r"successfully loaded checkpoint from .* at iteration (\d+)")
LINE = re.compile(r"iteration +(\d+)/")
LATEST = "latest_checkpointed_iteration.txt"


def keep_program():
    """Takes a copy of the program and of what it opens, so that a build meanwhile changes nothing. Its folder, which the
    caller removes: not in /dev/shm, where many machines let nothing run."""
    global PROGRAM
    real, room = os.path.realpath(PROGRAM), tempfile.mkdtemp(prefix="torture-program-")
    for path in [real] + glob.glob(os.path.join(glob.escape(os.path.dirname(real)), "moefold-*.so")):
        shutil.copy(path, room)
    PROGRAM = os.path.join(room, os.path.basename(real))
    return room


class Wrong(Exception):
    """A case that failed, in words."""


def words(folder, to=None, steps=STEPS, every=2, keep=2, ranks=1, also=(), load=None):
    """The command line that goes on in `folder` until step `to`."""
    line = [PROGRAM, "train"] + MODEL + [f"train.train_iters={steps}", f"checkpoint.save_interval={every}",
                                         f"checkpoint.most_recent_k={keep}", f"checkpoint.save={folder}",
                                         f"checkpoint.load={load or folder}"]
    line += [f"train.exit_interval={to}"] if to else []
    return line + (["--ranks", str(ranks)] if ranks > 1 else []) + list(also)


class Ended:
    """How a run ended and what it said."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        self.saved = max([int(n) for n in SAVED.findall(out)], default=-1)
        self.loaded = max([int(n) for n in LOADED.findall(out)], default=-1)
        self.step = max([int(n) for n in LINE.findall(out)], default=-1)

    def last_words(self):
        return f"exit code {self.code}: " + " / ".join(self.err.strip().splitlines()[-4:])


# ---- processes: all of a run have its mark in their environment

def processes(mark):
    """Numbers of those with the mark, zombies left out."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() in f.read():
                    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as s:
                        if s.read().rpartition(")")[2].split()[0] not in "ZX":
                            found.append(int(pid))
        except OSError:
            pass
    return found


def send(pid, name):
    try:
        os.kill(pid, getattr(signal, "SIG" + name))
    except ProcessLookupError:
        pass


def new_mark():
    return f"TORTURE_MARK={uuid.uuid4().hex}"


def environment(mark, **extra):
    key, value = mark.split("=")
    # It would refuse what is preloaded; Open MPI's leaks are not ours.
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:detect_leaks=0"
    return dict(os.environ, OMP_WAIT_POLICY="passive", ASAN_OPTIONS=sanitizer, **{key: value},
                **{k: str(v) for k, v in extra.items()})


def wait_until_gone(mark, seconds=20):
    """What is still there after that is ended, so that nothing of a case outlives it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not processes(mark):
            return True
        time.sleep(0.02)
    for pid in processes(mark):
        send(pid, "KILL")
    return False


def run(line, **extra):
    """Runs to the end. Sanitizers' reports, hangs and processes left behind are wrong wherever they occur."""
    mark = new_mark()
    p = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=environment(mark, **extra))
    try:
        out, err = p.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        wait_until_gone(mark, 0)
        p.communicate()
        raise Wrong(f"still running after {LIMIT} s: {' '.join(line)}") from None
    if "--ranks" in line and not wait_until_gone(mark):
        raise Wrong(f"processes are left after 20 s: {' '.join(line)}")
    return ended(p.returncode, out, err)


def ended(code, out, err):
    e = Ended(code, out.decode(errors="replace"), err.decode(errors="replace"))
    if "Sanitizer" in e.err or "runtime error:" in e.err:
        raise Wrong(e.err[:2000])
    return e


def iteration_folder(folder, n):
    return os.path.join(folder, f"iter_{n:07d}")


def digest(folder, n):
    """Of all tensors and counters of a checkpoint; None: it is not there. The recipe holds paths and is left out."""
    at = iteration_folder(folder, n)
    try:
        with open(os.path.join(at, "metadata.json"), encoding="utf-8") as f:
            meta = json.load(f)
        h = hashlib.sha256(json.dumps([meta["state"], meta["files"]], sort_keys=True).encode())
        for name in sorted(glob.glob(os.path.join(at, "*.safetensors"))):
            with open(name, "rb") as f:
                h.update(f.read())
        return h.hexdigest()
    except (OSError, ValueError, KeyError):
        return None


def leftovers(folder):
    return [n for n in sorted(os.listdir(folder)) if not re.fullmatch(rf"iter_\d+|{LATEST}|moefold\.lock", n)]


def make_room():
    return tempfile.mkdtemp(prefix="torture-", dir=ROOM)


class Folder:
    """A copy of a folder of checkpoints that goes with its case."""

    def __init__(self, like=None):
        self.room = make_room()
        self.path = os.path.join(self.room, "ck")
        if like:
            shutil.copytree(like, self.path, ignore=shutil.ignore_patterns("moefold.lock"))

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.room, ignore_errors=True)


def must_end_well(e, what):
    if e.code:
        raise Wrong(f"{what} does not end well: {e.last_words()}")


def must_load(e, least, what):
    if e.loaded < least:
        raise Wrong(f"{what} loaded iteration {e.loaded}, though {least} was saved: {e.last_words()}")


def must_equal(folder, n, reference, what):
    if digest(folder, n) != reference:
        raise Wrong(f"{what} does not end as the uninterrupted run (iteration {n} differs or is not there)")


def resume(folder, least, reference, line):
    """Goes on to the end: loads at least `least`, ends bit-equal, leaves nothing behind."""
    e = run(line)
    must_end_well(e, "the resumed run")
    must_load(e, least, "the resumed run")
    must_equal(folder, STEPS, reference, "the resumed run")
    left = leftovers(folder)
    if left:
        raise Wrong(f"the resumed run leaves {', '.join(left)} behind")
    return e


class Clock:
    """Seconds that a part may take."""

    def __init__(self, seconds):
        self.until = time.monotonic() + seconds

    def over(self):
        return time.monotonic() > self.until
