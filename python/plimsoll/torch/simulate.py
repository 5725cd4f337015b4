"""Runs inside a script that `plimsoll estimate` starts: PyTorch believes in a card that is not there.

A library in the process answers for the CUDA libraries (python/simcuda): PyTorch's own allocator, its choice of kernels
and its autograd engine run as they would on the card; kernels do nothing. This module ends the run once the steps repeat,
states what is assumed of values that no kernel computed, and writes what was allocated.
"""

import atexit
import contextlib
import gzip
import json
import os
import sys
import time
import warnings

from . import phases

STEPS_TO_COMPARE = 3
LARGE = 1 << 16  # elements of a CPU tensor that is left as it is where random numbers would be written


class Run:
    def __init__(self, torch):
        self.torch = torch
        self.folder = os.environ["PLIMSOLL_ESTIMATE_DIR"]
        self.answers = "PLIMSOLL_FIT_REQUEST" in os.environ  # a second run that fit asked for: it ends by itself
        self.steps_asked = int(os.environ.get("PLIMSOLL_ESTIMATE_STEPS", "0"))
        self.pid = os.getpid()
        self.began = time.time()
        self.steps = 0
        self.marker = None  # the optimizer whose steps are counted
        self.marks = []  # allocations and bytes so far, after each step
        self.assumptions = {}
        self.written = False

    def assume(self, text):
        self.assumptions[text] = self.assumptions.get(text, 0) + 1

    def after_step(self, optimizer, args, kwargs):
        if self.answers:
            return
        self.marker = self.marker or optimizer
        if optimizer is not self.marker:
            return
        self.steps += 1
        stats = self.torch.cuda.memory_stats()
        self.marks.append((stats["allocation.all.allocated"], stats["allocated_bytes.all.allocated"]))
        if self.is_done():
            self.finish(0)

    def is_done(self):
        """After so many steps as asked; else once two steps in a row allocated alike."""
        if self.steps_asked:
            return self.steps >= self.steps_asked
        if self.steps < STEPS_TO_COMPARE:
            return False
        (a, b), (c, d), (e, f) = self.marks[-3:]
        return (c - a, d - b) == (e - c, f - d)

    def finish(self, status):
        self.write(stopped=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def write(self, stopped=False):
        if self.answers or self.written or os.getpid() != self.pid or not self.torch.cuda.is_initialized():
            return
        self.written = True
        torch = self.torch
        stats = torch.cuda.memory_stats()
        result = {
            "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
            "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
            "peak_requested_bytes": stats.get("requested_bytes.all.peak", 0),
            "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version() or 0,
            "steps": self.steps,
            "stopped": stopped,
            "seconds": round(time.time() - self.began, 3),
            "assumptions": [{"what": what, "times": times} for what, times in self.assumptions.items()],
        }
        events = torch.cuda.memory._snapshot()["device_traces"][0]
        allocations = phases.lifetimes(events)
        result.update(phases.at_peak(allocations))
        write_trace(allocations, os.path.join(self.folder, f"{self.pid}.csv.gz"))
        with open(os.path.join(self.folder, f"{self.pid}.json"), "w") as file:
            json.dump(result, file)


def write_trace(allocations, path):
    """Our trace format; an allocation is (begin, end, bytes, stream, category, tag), begin and end places in the trace."""
    lines = []
    for number, a in enumerate(allocations):
        tag = f'"{a.tag}"' if a.tag else ""
        lines.append((a.begin, f"alloc,{number},{a.bytes},{a.stream},{a.category},{tag}\n"))
        if a.end is not None:
            lines.append((a.end, f"free,{number},{a.bytes},{a.stream},{a.category},{tag}\n"))
    lines.sort()
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("event,id,bytes,stream,category,tag\n")
        file.writelines(line for _, line in lines)


def install(torch):
    from torch.optim import optimizer

    run = Run(torch)
    if not torch.backends.cuda.is_built():
        print("plimsoll: this PyTorch has no CUDA: install the CUDA build, which needs no GPU here", file=sys.stderr)
        os._exit(3)
    torch.cuda.init()
    if not run.answers:
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=5_000_000)
    phases.install(torch)
    optimizer.register_optimizer_step_post_hook(run.after_step)
    leave_random_numbers(torch)
    assume_values(torch, run)
    keep_files(torch, run)
    run_compiled_as_eager(torch, run)
    be_one_rank(torch, run)
    if os.environ.get("PLIMSOLL_ESTIMATE_FAKE_DATA"):
        repeat_one_batch(torch, run)
    atexit.register(run.write)


def leave_random_numbers(torch):
    """Large CPU tensors keep what memory they have instead of random numbers: no kernel will read them."""

    def unless_large(original):
        def fill(tensor, *args, **kwargs):
            if tensor.device.type == "cpu" and tensor.numel() >= LARGE and tensor.is_floating_point():
                return tensor
            return original(tensor, *args, **kwargs)

        return fill

    for name in ("normal_", "uniform_", "trunc_normal_", "orthogonal_"):
        for owner in (torch.Tensor, torch.nn.init):
            if hasattr(owner, name):
                setattr(owner, name, unless_large(getattr(owner, name)))
    for name in ("xavier_normal_", "xavier_uniform_", "kaiming_normal_", "kaiming_uniform_"):
        setattr(torch.nn.init, name, unless_large(getattr(torch.nn.init, name)))


def assume_values(torch, run):
    """What comes back from the card is zeros, but for what is told here and in docs/pytorch.md."""
    tensor = torch.Tensor
    item, to_bool, to_float = tensor.item, tensor.__bool__, tensor.__float__
    all_of = tensor.all

    def known(t):
        return getattr(t, "_plimsoll_value", None)

    def assumed_item(t):
        if not t.is_cuda:
            return item(t)
        if known(t) is not None:
            return known(t)
        if t.is_floating_point():
            run.assume(".item() of a floating-point tensor is 1.0")
            return 1.0
        run.assume(".item() of another tensor is 0")
        return item(t)

    def assumed_bool(t):
        if not t.is_cuda:
            return to_bool(t)
        if known(t) is not None:
            return bool(known(t))
        run.assume("a condition on a tensor is false")
        return False

    def assumed_all(t, *args, **kwargs):
        result = all_of(t, *args, **kwargs)
        if result.is_cuda and result.numel() == 1:
            run.assume(".all() is true")
            result._plimsoll_value = True
        return result

    tensor.item = assumed_item
    tensor.__bool__ = assumed_bool
    tensor.__float__ = lambda t: float(assumed_item(t)) if t.is_cuda else to_float(t)
    tensor.all = assumed_all
    torch.all = assumed_all
    # Whether gradients overflowed is asked by .item(): they did not.
    torch.amp.GradScaler._maybe_opt_step = lambda self, optimizer, state, *args, **kwargs: optimizer.step(*args, **kwargs)
    assume_all_nonzero(torch, run)


def assume_all_nonzero(torch, run):
    from torch import library

    def nonzero(t):
        run.assume("nonzero() and boolean masks select every element")
        return torch.empty_strided((t.numel(), t.dim()), (1, max(1, t.numel())), dtype=torch.int64, device=t.device)

    run.overrides = library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced is the point
        run.overrides.impl("nonzero", nonzero, "CUDA")


def keep_files(torch, run):
    """Checkpoints would hold zeros: none is written."""

    def save(*args, **kwargs):
        run.assume("torch.save() writes nothing")

    torch.save = save


def run_compiled_as_eager(torch, run):
    def compile(model=None, **kwargs):
        run.assume("torch.compile() runs as eager")
        return model if model is not None else (lambda function: function)

    torch.compile = compile


def be_one_rank(torch, run):
    """Of a group of processes this one alone is there: collectives do nothing, and no memory of NCCL is seen."""
    if not torch.distributed.is_available():
        return
    begin = torch.distributed.init_process_group

    def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, **kwargs):
        try:
            from torch.testing._internal.distributed.fake_pg import FakeStore
        except ImportError:
            print("plimsoll: this PyTorch cannot stand in for other ranks: estimate one process", file=sys.stderr)
            os._exit(3)
        ranks = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "1"))
        run.assume(f"one of {ranks} ranks: its tensors alone, NCCL's own memory is not known")
        number = rank if rank >= 0 else int(os.environ.get("RANK", "0"))
        begin(backend="fake", store=FakeStore(), rank=number, world_size=ranks)

    torch.distributed.init_process_group = init_process_group
    torch.nn.parallel.DistributedDataParallel = data_parallel(torch, run)


def data_parallel(torch, run):
    """In place of DDP, whose sums need the other ranks: the module, and the buckets that its gradients are copied to."""

    class DistributedDataParallel(torch.nn.Module):
        def __init__(self, module, *args, gradient_as_bucket_view=False, **kwargs):
            super().__init__()
            self.module = module
            run.assume("DistributedDataParallel takes one copy of the gradients for its buckets")
            trained = [] if gradient_as_bucket_view else [p for p in module.parameters() if p.requires_grad]
            self.buckets = [torch.empty_like(parameter, requires_grad=False) for parameter in trained]

        def forward(self, *args, **kwargs):
            return self.module(*args, **kwargs)

        def no_sync(self):
            return contextlib.nullcontext()

    return DistributedDataParallel


def repeat_one_batch(torch, run):
    """--fake-data: the first batch of each loader is read, in this process, and stands for all the others."""
    loader = torch.utils.data.DataLoader
    read = loader.__iter__

    def repeated(self):
        run.assume("every batch of a data loader is like its first (--fake-data)")
        self.num_workers = self.timeout = 0
        first = next(read(self))
        try:
            count = len(self)
        except TypeError:
            count = 1 << 30
        return iter(lambda: first, None) if count >= 1 << 30 else (first for _ in range(count))

    loader.__iter__ = repeated
