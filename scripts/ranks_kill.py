#!/usr/bin/env python3
"""Ends runs of several ranks in every way, again and again: all processes must be gone within 10 s, with the status and
the first word of the rank that failed, and the run must go on from its newest checkpoint, on another number of ranks, to
the losses of a run that was never ended.

usage: scripts/ranks_kill.py BINARY [--kills N] [--seed N] [--kinds KIND..] [--early SHARE]

  kill    a random rank gets SIGKILL at a random step: mpirun's status is 137, it names the rank
  term    a random rank gets SIGTERM: it says so, all stop after the step with a checkpoint, status 130
  data    a random sample's target is no class of the model: the rank that reads it says so, status 2
  budget  a random rank is started with a budget that is too small: refused once for all, status 1
"""
import argparse
import array
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 10
POLL_S = 0.005
START_S = 120
END_S = 600
STEPS = 40
EVERY = 4
BATCH = 12
PIXELS = 28 * 28
CLASSES = 10
NPY_HEADER = 128
SKIPPED = 77  # as ctest has it
TOLERANCE = 1e-5  # sums over other numbers of ranks, 40 steps long
# What rank 0 says when the launcher ends it, because another has failed; and the end of a run that was stopped.
ECHO = r"plimsoll: (rank 0: its launcher ends it|stopped after step)"
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")


def rank_of(pid):
    for line in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if line.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(line.split(b"=")[1])
    return None


def ranks_of(launcher):
    """The processes that it started, by their rank."""
    try:
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        return {rank_of(child): int(child) for child in children}
    except OSError:
        return {}


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def losses_in(log):
    """By step; of a step that was run twice, the last."""
    losses = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut by a kill
        if "loss" in entry and "step" in entry:
            losses[entry["step"]] = entry["loss"]
    return losses


class Wrong(Exception):
    pass


class Job:
    """A run that is ended and taken up again: its folder, its log, its data."""

    def __init__(self, binary, folder, data, early=0.0):
        self.binary = binary
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "log.jsonl"
        self.output = folder / "output"
        self.data = data
        self.early = early

    def command(self, ranks, shard="none", data=None, small_rank=None):
        x, y = self.data, data or self.data.with_name("y.npy")
        train = [self.binary, "train", "lenet", "--batch", str(BATCH), "--steps", str(STEPS), "--threads", "1",
                 "--no-measure", "--no-shuffle", "--data", f"{x},{y}", "--checkpoint", str(self.checkpoints),
                 "--every", str(EVERY), "--resume", "--log", str(self.log)]
        if ranks > 1:
            train += ["--shard", shard]
        budget = "400MiB"
        if small_rank is not None:
            train = ["sh", "-c", f'[ "$OMPI_COMM_WORLD_RANK" = {small_rank} ] && b=20MiB || b={budget}; '
                     'exec "$@" --budget $b', "sh"] + train
        else:
            train += ["--budget", budget]
        return (["mpirun", "-n", str(ranks)] if ranks > 1 else []) + train

    def start(self, *args, **more):
        with open(self.output, "w") as output:
            return subprocess.Popen(self.command(*args, **more), env=ENVIRONMENT, stdout=output,
                                    stderr=subprocess.STDOUT)

    def finish(self, ranks):
        run = self.start(ranks)
        try:
            status = run.wait(END_S)
        except subprocess.TimeoutExpired:
            run.kill()
            raise Wrong(f"the run on {ranks} ranks did not come to its end in {END_S} s") from None
        if status != 0:
            raise Wrong(f"the run to the end on {ranks} ranks has status {status}")
        return losses_in(self.log)

    def steps_done(self):
        return max(losses_in(self.log), default=0)

    def own_words(self):
        """What plimsoll itself said of a failure, not mpirun, in order."""
        lines = self.output.read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("plimsoll: ") and not re.search(ECHO, line)]


def wait_for_step(job, run, step):
    deadline = time.monotonic() + START_S
    while job.steps_done() < step:
        if run.poll() is not None:
            return False
        if time.monotonic() > deadline:
            run.kill()
            raise Wrong(f"step {step} was not there after {START_S} s")
        time.sleep(POLL_S)
    return True


def has_mpi(pid):
    try:
        return "libmpi.so" in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def wait_for_ranks(run, ranks):
    deadline = time.monotonic() + START_S
    while run.poll() is None and time.monotonic() < deadline:
        started = ranks_of(run.pid)
        if len(started) == ranks and all(map(has_mpi, started.values())):
            return
        time.sleep(POLL_S)


def wait_for_end(run, started):
    """Seconds until all are gone."""
    start = time.monotonic()
    try:
        run.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        run.kill()
        raise Wrong(f"mpirun is there {LIMIT_S} s after a rank has failed") from None
    while any(map(is_alive, started)) and time.monotonic() - start < LIMIT_S:
        time.sleep(0.02)
    left = [pid for pid in started if is_alive(pid)]
    if left:
        raise Wrong(f"processes {left} are there {LIMIT_S} s after a rank has failed")
    return time.monotonic() - start


def require_status(run, expected):
    if run.returncode != expected:
        raise Wrong(f"the status is {run.returncode}, expected {expected}")


def require_word(job, pattern):
    """The first word of plimsoll's is that of the failure, and there is no second cause."""
    words = job.own_words()
    if not words or not re.match(pattern, words[0]):
        raise Wrong(f"the first word is {words[:1]}, expected {pattern}")
    return words


def signal_one(job, ranks, shard, rng, which):
    """Returns the seconds until all were gone; None where the run was over before the signal."""
    before = job.steps_done()
    if before >= STEPS - 2:
        return None
    run = job.start(ranks, shard)
    if which == signal.SIGKILL and rng.random() < job.early:
        wait_for_ranks(run, ranks)
        time.sleep(rng.uniform(0, 0.5))
    elif not wait_for_step(job, run, rng.randint(before + 1, STEPS - 2)):
        raise Wrong(f"the run ended by itself with status {run.returncode}")
    else:
        time.sleep(rng.uniform(0, 0.05))
    started = ranks_of(run.pid)
    if run.poll() is not None or len(started) != ranks:
        run.wait()
        return None
    victim = rng.choice(sorted(started))
    os.kill(started[victim], which)
    seconds = wait_for_end(run, started.values())
    if run.returncode == 0:  # it came in the last step
        return None
    if which == signal.SIGKILL:
        require_status(run, 128 + signal.SIGKILL)
        if not re.search(rf"process rank {victim} .*signal 9", job.output.read_text(errors="replace")):
            raise Wrong(f"nobody says that rank {victim} was killed")
    else:
        require_status(run, 130)
        require_word(job, rf"plimsoll: rank {victim}: stops after this step, with a checkpoint")
    return seconds


def kill(job, ranks, shard, rng):
    return signal_one(job, ranks, shard, rng, signal.SIGKILL)


def term(job, ranks, shard, rng):
    return signal_one(job, ranks, shard, rng, signal.SIGTERM)


def bad_data(job, ranks, shard, rng):
    before = job.steps_done()
    if before >= STEPS - 2:
        return None
    step = rng.randint(before + 1, STEPS - 1)  # counted from 0, as samples are
    sample = rng.randrange(BATCH)
    bad = job.log.with_name("bad.npy")
    targets = array.array("q", job.data.with_name("y.npy").read_bytes()[NPY_HEADER:])
    targets[step * BATCH + sample] = CLASSES
    write_npy(bad, "<i8", [len(targets)], targets)
    run = job.start(ranks, shard, data=bad)
    deadline = time.monotonic() + START_S
    while run.poll() is None and not job.own_words():
        if time.monotonic() > deadline:
            run.kill()
            raise Wrong(f"bad data in step {step + 1} was not found in {START_S} s")
        time.sleep(0.02)
    seconds = wait_for_end(run, ranks_of(run.pid).values())
    require_status(run, 2)
    least, larger = divmod(BATCH, ranks)
    bounds = [rank * least + min(rank, larger) for rank in range(ranks + 1)]
    reader = max(rank for rank in range(ranks) if bounds[rank] <= sample)
    label = f"rank {reader}: " if reader else ""
    words = require_word(job, rf"plimsoll: {label}{re.escape(str(bad))}")
    if len(words) != 1:
        raise Wrong(f"it is told more than once: {words}")
    if job.steps_done() != step:
        raise Wrong(f"the run ended after step {job.steps_done()}, expected {step}")
    return seconds


def small_budget(job, ranks, shard, rng):
    run = job.start(ranks, shard, small_rank=rng.randrange(ranks))
    deadline = time.monotonic() + START_S
    while run.poll() is None and not job.own_words():
        if time.monotonic() > deadline:
            run.kill()
            raise Wrong(f"a budget that is too small was not refused in {START_S} s")
        time.sleep(0.02)
    seconds = wait_for_end(run, ranks_of(run.pid).values())
    require_status(run, 1)
    if len(require_word(job, r"plimsoll: lenet does not fit in 20\.00 MiB")) != 1:
        raise Wrong("it is refused more than once")
    return seconds


KINDS = {"kill": kill, "term": term, "data": bad_data, "budget": small_budget}


def write_npy(path, kind, shape, values):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header = b"\x93NUMPY\x01\x00" + (NPY_HEADER - 10).to_bytes(2, "little")
    path.write_bytes(header + text.ljust(NPY_HEADER - 11).encode() + b"\n" + bytes(memoryview(values).cast("B")))


def write_images(folder, rng):
    """The path of the images; targets are beside them."""
    samples = STEPS * BATCH
    write_npy(folder / "x.npy", "|u1", [samples, 1, 28, 28], rng.randbytes(samples * PIXELS))
    write_npy(folder / "y.npy", "<i8", [samples], array.array("q", (rng.randrange(CLASSES) for _ in range(samples))))
    return folder / "x.npy"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--early", type=float, default=0.0, metavar="SHARE",
                        help="of the kills, that come while the ranks start: Open MPI's mpirun may then stay longer")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun")
        sys.exit(SKIPPED)
    rng = random.Random(options.seed)
    taken = {kind: [] for kind in options.kinds}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        images = write_images(folder, rng)
        (folder / "alone").mkdir()
        alone = Job(options.binary, folder / "alone", images).finish(1)
        jobs = done = 0
        while done < options.kills:
            own = folder / f"job{jobs}"
            own.mkdir()
            job = Job(options.binary, own, images, options.early)
            fresh = 0
            while fresh < 4 and done < options.kills:
                kind = options.kinds[done % len(options.kinds)]
                ranks, shard = rng.choice([2, 3, 4]), rng.choice(["none", "optimizer", "gradients"])
                try:
                    seconds = KINDS[kind](job, ranks, shard, rng)
                except Wrong as wrong:
                    print(job.output.read_text(errors="replace")[-3000:])
                    sys.exit(f"failure {done + 1} ({kind}, {ranks} ranks, --shard {shard}, seed {options.seed}): {wrong}")
                if seconds is None:
                    break
                taken[kind].append(seconds)
                done, fresh = done + 1, fresh + 1
            ranks = rng.choice([1, 2, 3, 4])
            try:
                found = job.finish(ranks)
            except Wrong as wrong:
                print(job.output.read_text(errors="replace")[-3000:])
                sys.exit(f"after {done} failures (seed {options.seed}): {wrong}")
            worst = max(abs(found.get(step, float("inf")) - loss) / abs(loss) for step, loss in alone.items())
            print(f"{done} failures, then to the end on {ranks} ranks: losses differ by {worst:.1e} at most", flush=True)
            if worst > TOLERANCE:
                sys.exit(f"the losses are not those of a run that was never ended (seed {options.seed})")
            shutil.rmtree(own)
            jobs += 1
    for kind, seconds in taken.items():
        if seconds:
            print(f"{kind:8} {len(seconds):3} times, all gone after {max(seconds):.1f} s at most")


if __name__ == "__main__":
    main()
