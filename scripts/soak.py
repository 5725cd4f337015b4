#!/usr/bin/env python3
"""Random runs of plimsoll under hostile conditions: each in a memory cgroup as large as its budget.

usage: scripts/soak.py [MINUTES] [--seed N] [--runs N] [--binary PATH] [--verbose]

Every run draws a model, its sizes, an optimizer, a precision, a thread count, what is allowed, whether it may spill, a
budget between the smallest and twice that, and a fault: a signal, closed descriptors, full disks, a budget that changes,
a limit on file sizes. It is a finding when the process is killed or aborts, holds more than its budget, ends with a
status that does not say what happened, answers a signal late, leaves a file behind, or when losses differ from those of
a run without a budget: in any bit without micro-batches, by more than rounding with them.

A finding is printed with its seed; --seed repeats that run. Ends with "N runs, M findings"; the status is 1 when there
is one. Needs root: for cgroups and small file systems.
"""
import argparse
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ANSWER_S = 0.5  # to a signal, on a machine that is not busy with other things
RUN_LIMIT_S = 900
CUT_BYTES = 4 << 20  # that a run may hold more when its budget is cut than at its start

MODELS = {  # batch sizes, sequence lengths
    "mlp": ([1, 2, 3, 8, 32, 64, 257, 1000], None),
    "lenet": ([1, 2, 5, 16, 64, 200], None),
    "gpt2-nano": ([1, 2, 3, 4, 8], [16, 32, 64, 100]),
    "resnet18": ([1, 2], None),
    "mobilenet_v2": ([1, 2, 4], None),
    "p14": ([1, 2, 6], None),
}
HAS_BATCH_NORM = {"resnet18", "mobilenet_v2"}


class Finding(Exception):
    pass


def answer_limit():
    """Others that compute on the same processors make everything take longer."""
    return ANSWER_S + 2 * ANSWER_S * os.getloadavg()[0] / (len(os.sched_getaffinity(0)))


class MemoryGroup:
    """A memory cgroup, of either version, below that of this process."""

    count = 0

    def __init__(self, limit_bytes):
        MemoryGroup.count += 1
        self.path = os.path.join(self.parent(), f"plimsoll_soak_{os.getpid()}_{MemoryGroup.count}")
        os.mkdir(self.path)
        self.v1 = os.path.exists(os.path.join(self.path, "memory.limit_in_bytes"))
        self.write("memory.limit_in_bytes" if self.v1 else "memory.max", str(limit_bytes))
        if not self.v1:
            self.write("memory.swap.max", "0", may_fail=True)

    @staticmethod
    def parent():
        with open("/proc/self/cgroup") as file:
            for line in file:
                if ":memory:" in line:
                    return "/sys/fs/cgroup/memory" + line.split(":memory:")[1].strip()
                if line.startswith("0::") and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
                    return "/sys/fs/cgroup" + line[3:].strip()
        raise OSError("this system has no memory cgroups")

    def write(self, name, text, may_fail=False):
        try:
            with open(os.path.join(self.path, name), "w") as file:
                file.write(text)
        except OSError:
            if not may_fail:
                raise

    def enter(self):
        self.write("cgroup.procs", str(os.getpid()))

    def kills(self):
        with open(os.path.join(self.path, "memory.oom_control" if self.v1 else "memory.events")) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def close(self):
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.02)


class SmallDisk:
    """A file system with so many bytes."""

    def __init__(self, path, size_bytes):
        self.path = path
        os.makedirs(path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "plimsoll_soak", path], check=True)

    def fill(self):
        file = os.open(os.path.join(self.path, "ballast"), os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(file, bytes(4096))
        except OSError:
            os.close(file)

    def close(self):
        subprocess.run(["umount", self.path], check=False)


class Case:
    """One run: all that is drawn comes from the seed."""

    def __init__(self, seed, binary, verbose):
        self.seed = seed
        self.random = random.Random(seed)
        self.binary = binary
        self.verbose = verbose
        self.folder = tempfile.mkdtemp(prefix="plimsoll-soak-")
        self.disks = []
        self.notes = []
        for name in ("tmp", "cache", "spill", "out"):
            os.mkdir(os.path.join(self.folder, name))

    def close(self):
        for disk in self.disks:
            disk.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def note(self, text):
        self.notes.append(text)
        if self.verbose:
            print(f"    {text}", flush=True)

    def environment(self, cache):
        environment = dict(os.environ, TMPDIR=self.path("tmp"), XDG_CACHE_HOME=cache)
        return environment

    def start(self, arguments, group=None, closed=(), stdout=subprocess.PIPE, cache=None, file_limit=None):
        command = [self.binary] + arguments
        self.note("$ plimsoll " + " ".join(arguments) + (f"  # closed: {closed}" if closed else ""))

        def prepare():
            for number in (signal.SIGINT, signal.SIGTERM):  # a shell's job in the background has them ignored
                signal.signal(number, signal.SIG_DFL)
            if group:
                group.enter()
            if file_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
            for fd in closed:
                os.close(fd)

        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                                preexec_fn=prepare, env=self.environment(cache or self.path("cache")),
                                cwd=self.path("out"))

    def run(self, arguments, **how):
        process = self.start(arguments, **how)
        try:
            out, err = process.communicate(timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Finding(f"no end after {RUN_LIMIT_S} s")
        return process.returncode, (out or b"").decode(), err.decode()

    # -- what is drawn

    def draw_model(self):
        draw = self.random
        self.model = draw.choice(list(MODELS))
        batches, sequences = MODELS[self.model]
        arguments = [self.model, "--batch", str(draw.choice(batches))]
        if sequences:
            arguments += ["--seq", str(draw.choice(sequences))]
        self.optimizer = draw.choice(["sgd", "momentum", "adam", "adamw"])
        self.precision = draw.choice(["f32", "f32", "bf16", "f16"])
        arguments += ["--optimizer", self.optimizer, "--precision", self.precision]
        arguments += ["--threads", str(draw.choice([1, len(os.sched_getaffinity(0))]))]
        return arguments

    def draw_budget_options(self):
        draw = self.random
        options = []
        for measure in ("batch-norm-micro-batches", "8-bit-state"):
            if draw.random() < 0.25:
                options += ["--allow", measure]
        if draw.random() < 0.3:
            options += ["--spill-dir", self.path("spill")]
        if draw.random() < 0.5:
            options += ["--no-measure"]
        return options

    def draw_budget(self, smallest):
        draw = self.random
        factor = draw.choice([1, 1, 1.02, 1.1, 1 + draw.random()])
        return int(smallest * factor)

    # -- what is checked

    def expect_status(self, status, allowed, err):
        if status not in allowed:
            raise Finding(f"ended with {status}, expected {' or '.join(map(str, allowed))}: {err.strip()[-300:]}")

    def check_losses(self, reference, found):
        losses = [step["loss"] for step in found["steps"]]
        expected = [step["loss"] for step in reference["steps"]]
        if len(losses) != len(expected):
            raise Finding(f"{len(losses)} steps, expected {len(expected)}")
        kinds = {measure["kind"] for measure in found.get("measures", [])}
        in_parts = len(found.get("micro_batches", [0])) > 1
        sliced = found.get("form", {}).get("batch_chunks", 1) > 1
        if not in_parts and not sliced and "8-bit-state" not in kinds:
            if losses != expected:
                raise Finding(f"losses {losses}, without a budget {expected}: not one bit may differ")
            return
        tolerance = 1e-4 if self.precision == "f32" else 2e-2
        if "8-bit-state" in kinds or (in_parts and self.model in HAS_BATCH_NORM):
            tolerance = 0.3  # by leave: the numbers change
        if in_parts and self.model in HAS_BATCH_NORM:  # with statistics of other samples every step goes another way
            losses, expected = losses[:1], expected[:1]
        for loss, other in zip(losses, expected):
            if loss is None or other is None or not math.isclose(loss, other, rel_tol=tolerance, abs_tol=tolerance):
                raise Finding(f"losses {losses}, without a budget {expected}: more than {tolerance} apart")

    def check_files(self, allowed=()):
        allowed = {"cache/plimsoll", "cache/plimsoll/costs.json", "cache/plimsoll/costs.json.lock", *allowed}
        for folder, folders, files in os.walk(self.folder):
            for name in files + folders:
                path = os.path.relpath(os.path.join(folder, name), self.folder)
                if path in ("tmp", "cache", "spill", "out", "disk") or path in allowed:
                    continue
                raise Finding(f"left behind: {path}")

    def check_json(self, out):
        try:
            return json.loads(out)
        except ValueError:
            raise Finding(f"stdout is no JSON: {out[:200]!r}")

    # -- kinds of runs

    def smallest_budget(self, arguments, options):
        status, out, err = self.run(["train"] + arguments + options + ["--steps", "1", "--budget", "1MiB", "--json"])
        self.expect_status(status, [1], err)
        refusal = self.check_json(out)
        if "smallest_budget_bytes" not in refusal:
            raise Finding(f"a refusal without the smallest budget: {out[:300]}")
        return refusal["smallest_budget_bytes"]

    def soak_training(self):
        draw = self.random
        arguments = self.draw_model() + ["--seed", str(draw.randrange(1000))]
        options = self.draw_budget_options()
        steps = ["--steps", str(draw.randint(1, 4))]
        smallest = self.smallest_budget(arguments, options)
        status, out, err = self.run(["train"] + arguments + steps + ["--json"])
        self.expect_status(status, [0], err)
        reference = self.check_json(out)
        budget = self.draw_budget(smallest)
        if draw.random() < 0.5:
            shutil.rmtree(self.path("cache"))
            os.mkdir(self.path("cache"))
        group = MemoryGroup(budget)
        try:
            fault = draw.choice([self.no_fault, self.no_fault, self.by_signal, self.closed_descriptors, self.full_stdout,
                                 self.full_cache, self.changing_budget, self.limited_files])
            self.note(f"{fault.__name__}, smallest {smallest}, budget {budget}")
            fault(arguments + steps + options, budget, smallest, group, reference)
            if group.kills() > 0:
                raise Finding(f"the kernel killed it at its own budget of {budget} bytes (smallest {smallest})")
        finally:
            group.close()
        self.check_files()

    def finish_training(self, outcome, budget, group, reference):
        status, out, err = outcome
        if group.kills() > 0:
            return  # told by the caller
        if status == 1:
            refusal = self.check_json(out)
            raise Finding(f"refused at {budget}, now the smallest is {refusal.get('smallest_budget_bytes')}")
        self.expect_status(status, [0], err)
        found = self.check_json(out)
        peak = found.get("peak_since_budget_bytes", found["process_peak_bytes"])
        if peak > budget:
            raise Finding(f"the process took {peak} bytes of a budget of {budget}")
        self.check_losses(reference, found)

    def train(self, arguments, budget, more=()):
        return ["train"] + arguments + ["--budget", str(budget), "--json", *more]

    def no_fault(self, arguments, budget, smallest, group, reference):
        outcome = self.run(self.train(arguments, budget), group=group)
        self.finish_training(outcome, budget, group, reference)

    def by_signal(self, arguments, budget, smallest, group, reference):
        number = self.random.choice([signal.SIGTERM, signal.SIGINT])
        process = self.start(self.train(arguments, budget), group=group)
        try:
            out, err = process.communicate(timeout=3 * self.random.random() ** 2)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            sent = time.monotonic()
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise Finding(f"no answer to {number.name} within 60 s")
            if time.monotonic() - sent > answer_limit():
                raise Finding(f"{number.name} was answered after {time.monotonic() - sent:.1f} s")
            if process.returncode in (-number, 128 + number):
                # Before main begins nothing is there yet to say anything.
                return
        self.finish_training((process.returncode, out.decode(), err.decode()), budget, group, reference)

    def closed_descriptors(self, arguments, budget, smallest, group, reference):
        closed = [fd for fd in (0, 1, 2) if self.random.random() < 0.5] or [2]
        status, out, err = self.run(self.train(arguments, budget), group=group, closed=closed)
        if 1 in closed:
            if group.kills() == 0:
                self.expect_status(status, [0], err)
        else:
            self.finish_training((status, out, err), budget, group, reference)

    def full_stdout(self, arguments, budget, smallest, group, reference):
        with open("/dev/full", "wb") as full:
            status, _, err = self.run(self.train(arguments, budget), group=group, stdout=full)
        if group.kills() == 0:
            self.expect_status(status, [2], err)

    def full_cache(self, arguments, budget, smallest, group, reference):
        disk = SmallDisk(self.path("disk"), 64 << 10)
        self.disks.append(disk)
        disk.fill()
        outcome = self.run(self.train(arguments, budget), group=group, cache=disk.path)
        self.finish_training(outcome, budget, group, reference)
        left = set(os.listdir(disk.path)) - {"ballast", "plimsoll"}
        if left or (os.path.exists(disk.path + "/plimsoll") and
                    set(os.listdir(disk.path + "/plimsoll")) - {"costs.json", "costs.json.lock"}):
            raise Finding(f"left on the full disk: {left}")
        disk.close()
        self.disks.remove(disk)
        shutil.rmtree(disk.path, ignore_errors=True)

    def changing_budget(self, arguments, budget, smallest, group, reference):
        """Down to anything from the smallest on, to nonsense, away and back: never above what the group holds."""
        file = self.path("budget")
        with open(file, "w") as out:
            out.write(str(budget))
        texts = [str(self.random.randint(smallest, budget)) for _ in range(3)] + ["", "nonsense", None, str(budget)]
        process = self.start(self.train(arguments, budget, ["--budget-file", file]), group=group)
        while process.poll() is None and texts:
            time.sleep(self.random.random() * 0.5)
            text = texts.pop(self.random.randrange(len(texts)))
            try:
                if text is None:
                    os.unlink(file)
                else:
                    with open(file + ".new", "w") as out:
                        out.write(text)
                    os.replace(file + ".new", file)
            except FileNotFoundError:
                pass
        try:
            out, err = process.communicate(timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Finding(f"no end after {RUN_LIMIT_S} s")
        for name in (file, file + ".new"):
            if os.path.exists(name):
                os.unlink(name)
        out, err = out.decode(), err.decode()
        if group.kills() > 0:
            return
        if process.returncode == 2 and "budget: found" in err and not json.loads(out or "{}").get("steps"):
            return  # the file was no size when the run began
        if process.returncode == 2 and "reading" in err and "budget" in err:
            return  # or gone
        close = max(smallest * 1.02, smallest + CUT_BYTES)
        if process.returncode == 1 and self.check_json(out).get("budget_bytes", 0) < close:
            return  # close to the smallest, with kernels bound, it may not fit again (docs/reliability.md)
        if process.returncode == 1 and ("--spill-dir" in arguments or "8-bit-state" in arguments):
            refused = self.check_json(out)
            if refused.get("smallest_budget_bytes", 0) > refused["budget_bytes"]:
                return  # state stays where it is and as it is while a run goes on (docs/budget.md)
        self.expect_status(process.returncode, [0], err)
        found = self.check_json(out)
        if found["peak_since_budget_bytes"] > found["budget_bytes"]:
            raise Finding(f"the process took {found['peak_since_budget_bytes']} of {found['budget_bytes']}")
        self.precision = "bf16"  # whole for some steps and in parts for others: to rounding
        found["form"] = {"batch_chunks": 2}
        self.check_losses(reference, found)

    def limited_files(self, arguments, budget, smallest, group, reference):
        """`ulimit -f`: spill file, cost cache and the arena itself may not grow beyond it."""
        status, out, err = self.run(self.train(arguments, budget), group=group,
                                    file_limit=self.random.choice([0, 4096, 1 << 20, 16 << 20, 1 << 30]))
        if status in (1, 2) and group.kills() == 0:
            if "error" not in self.check_json(out):
                raise Finding(f"ended with {status} and no error: {out[:200]}")
            return
        self.finish_training((status, out, err), budget, group, reference)

    def soak_plan(self):
        """A plan to a disk that may be full: the old file or the new one, never a part of it."""
        draw = self.random
        arguments = self.draw_model()
        disk = SmallDisk(self.path("disk"), draw.choice([16 << 10, 256 << 10, 16 << 20]))
        self.disks.append(disk)
        target = os.path.join(disk.path, "plan.json")
        old = "an older plan\n"
        with open(target, "w") as file:
            file.write(old)
        if draw.random() < 0.5:
            disk.fill()
        status, out, err = self.run(["plan"] + arguments + ["--budget", "100GiB", "--json", "-o", target])
        self.expect_status(status, [0, 2], err)
        with open(target) as file:
            text = file.read()
        if status == 2 and text != old:
            raise Finding(f"the old file is not whole: {text[:100]!r}")
        self.check_json(out)
        if status == 0:
            self.check_json(text)
            status, out, err = self.run(["plan", "--check", target, "--json", *arguments[-2:]])
            self.expect_status(status, [0], err)
        left = set(os.listdir(disk.path)) - {"plan.json", "ballast"}
        if left:
            raise Finding(f"left on the disk: {left}")
        disk.close()
        self.disks.remove(disk)
        os.rmdir(disk.path)
        self.check_files()

    def soak_other_verb(self):
        """Signals, closed descriptors and full outputs for the verbs that do not train."""
        draw = self.random
        data = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "data")
        traces = sorted(name for name in os.listdir(os.path.join(data, "traces")) if name.endswith(".csv.gz"))
        trace = os.path.join(data, "traces", draw.choice(traces))
        arguments = draw.choice([
            ["replay", trace], ["explain", trace], ["pack", "--trace", trace, "--time-limit", "2"], ["models"],
            ["estimate"] + self.draw_model(), ["run"] + self.draw_model()[:3], ["tensor", "3x4"],
            ["plan"] + self.draw_model() + ["--budget", "40MiB", "--time-limit", "3"],
            ["plan"] + self.draw_model() + ["--budget", "80MiB", "--max-batch", "--time-limit", "3"],
        ])
        if draw.random() < 0.5:
            arguments = arguments + ["--json"]
        kind = draw.choice(["signal", "closed", "full"])
        if kind == "full":
            with open("/dev/full", "wb") as full:
                status, _, err = self.run(arguments, stdout=full)
            # What goes to stderr alone has nothing to fail with.
            self.expect_status(status, [1, 2] if arguments[0] == "plan" else [2], err)
        elif kind == "closed":
            closed = [fd for fd in (0, 1, 2) if draw.random() < 0.5] or [1]
            status, out, err = self.run(arguments, closed=closed)
            self.expect_status(status, [0, 1], err)
        else:
            number = draw.choice([signal.SIGTERM, signal.SIGINT])
            process = self.start(arguments)
            try:
                process.communicate(timeout=draw.random() ** 2)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                sent = time.monotonic()
                _, err = process.communicate(timeout=60)
                if time.monotonic() - sent > answer_limit() and process.returncode == -number:
                    raise Finding(f"{number.name} was answered after {time.monotonic() - sent:.1f} s")
                self.expect_status(process.returncode, [-number, 128 + number, 0, 1], err.decode())
        self.check_files()

    def soak(self):
        kind = self.random.random()
        if kind < 0.75:
            self.soak_training()
        elif kind < 0.87:
            self.soak_plan()
        else:
            self.soak_other_verb()


def run_case(seed, binary, verbose):
    """What was found; empty: nothing."""
    case = Case(seed, binary, verbose)
    try:
        case.soak()
        return ""
    except Finding as finding:
        text = f"FINDING seed {seed}: {finding}\n"
        return text + "".join(f"    {note}\n" for note in case.notes)
    finally:
        case.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, nargs="?", default=10)
    parser.add_argument("--seed", type=int, help="repeat the run with this seed")
    parser.add_argument("--runs", type=int, default=None, help="so many runs at most")
    parser.add_argument("--binary", default="build/release/cli/plimsoll")
    parser.add_argument("--verbose", action="store_true", help="print every command")
    options = parser.parse_args()
    binary = os.path.abspath(options.binary)
    if os.geteuid() != 0:
        sys.exit("soak: root is needed for memory cgroups and small disks")
    if not os.access(binary, os.X_OK):
        sys.exit(f"soak: no binary {binary}; ./dev soak builds it")
    try:
        MemoryGroup(1 << 30).close()
    except OSError as error:
        sys.exit(f"soak: no memory cgroup: {error}")
    if options.seed is not None:
        found = run_case(options.seed, binary, True)
        print(found, end="")
        print(f"1 runs, {1 if found else 0} findings")
        return 1 if found else 0
    seed = first = random.SystemRandom().randrange(1_000_000) * 1000
    end = time.monotonic() + 60 * options.minutes
    findings = 0
    while time.monotonic() < end and (options.runs is None or seed - first < options.runs):
        found = run_case(seed, binary, options.verbose)
        if found:
            findings += 1
            print(found, end="", flush=True)
        seed += 1
        if (seed - first) % 20 == 0:
            print(f"{seed - first} runs, {findings} findings", flush=True)
    print(f"{seed - first} runs, {findings} findings (seeds {first} to {seed - 1})")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
