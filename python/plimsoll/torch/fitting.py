"""`fit`: a training step made to fit a budget by checkpointing and micro-batches; `max_batch`: the largest batch."""

import json
import sys
from typing import NamedTuple

from . import batches, blocks, meters, reruns
from .sizes import format_bytes, parse_bytes

MOST_PARTS = 64
LAUNCH_SECONDS = 5e-6  # that an operator takes at the least
FLOPS_PER_CLOCK = 800  # of a multiprocessor, reached in practice with 16-bit products


class DoesNotFit(RuntimeError):
    """No candidate fits. `least_bytes` is the smallest budget that one would fit in."""

    def __init__(self, message, least_bytes):
        super().__init__(message)
        self.least_bytes = least_bytes


class Candidate(NamedTuple):
    checkpointed: int  # of the model's repeated blocks, the first so many
    micro_batches: int

    def __str__(self):
        return f"{self.checkpointed} blocks checkpointed, {self.micro_batches} micro-batches"


class Fitted:
    """What was chosen, in force on the model until `undo` or the end of the `with` block.

    Called with a batch it runs the step on it, in micro-batches where that was chosen: a step that returns a loss is
    differentiated here, and the loss of the whole batch is returned.
    """

    def __init__(self, problem, candidate, peak=None, context_bytes=0):
        self.problem = problem
        self.checkpointed, self.micro_batches = candidate
        self.blocks = len(problem.blocks)
        self.peak = peak
        self.context_bytes = context_bytes
        self.checkpointing = blocks.Checkpointing(problem.blocks, self.checkpointed)

    def __call__(self, batch=None):
        return self.problem.run(batch, self.micro_batches)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.undo()

    def __str__(self):
        text = f"{self.checkpointed} of {self.blocks} blocks checkpointed, {self.micro_batches} micro-batches"
        return text + (f": {self.peak}" if self.peak else "")

    def undo(self):
        self.checkpointing.undo()
        self.checkpointing.blocks = []


class _Problem:
    """The user's step and what belongs to it."""

    def __init__(self, model, step, batch, optimizer, count, backward, allow_batch_norm, most_micro_batches):
        self.model, self.step, self.batch, self.optimizer = model, step, batch, optimizer
        self.count = count or batches.size_of
        self.backward = backward or (lambda loss: loss.backward())
        self.blocks = blocks.find_blocks(model)
        self.returns_loss = None  # known once it has run
        self.most = most_micro_batches
        norms = [] if allow_batch_norm else blocks.batch_norms(model)
        self.parts_refused = "batch normalisation is over micro-batches then" if norms else ""

    def run(self, batch, parts):
        """One forward and backward pass; the update as well, if it is the step's."""
        if parts == 1:
            result = self.step() if batch is None else self.step(batch)
            return self._finish(result, 1.0)
        pieces = batches.split(batch, parts)
        counts = [self.count(piece) for piece in pieces]
        total = sum(counts)
        losses = [self._finish(self.step(piece), count / total) for piece, count in zip(pieces, counts)]
        return sum(losses[1:], losses[0])

    def _finish(self, result, weight):
        import torch

        self.returns_loss = isinstance(result, torch.Tensor) and result.requires_grad
        if not self.returns_loss:
            return result
        loss = result if isinstance(weight, float) and weight == 1.0 else result * weight
        self.backward(loss)
        return loss.detach()

    def whole_step(self, parts):
        """As in training: forward, backward and update."""
        self.run(self.batch, parts)
        if self.returns_loss:
            if self.optimizer is None:
                raise TypeError("step returns a loss: give optimizer=, whose state takes memory as well")
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    def most_parts(self):
        if self.batch is None or not self.returns_loss or self.parts_refused:
            return 1
        return min(self.most, batches.size_of(self.batch))


class _Search:
    """The fastest candidate that fits. Peaks fall with checkpointed blocks, so the least number is bisected."""

    def __init__(self, problem, meter, limit_bytes, flops_per_second):
        import torch

        self.problem, self.meter, self.limit = problem, meter, limit_bytes
        self.flops_per_second = flops_per_second
        self.peaks = {}
        self.plain = self._work(torch, 0)
        self.all = self._work(torch, len(problem.blocks)) if problem.blocks else self.plain

    def _work(self, torch, count):
        checkpointing = blocks.Checkpointing(self.problem.blocks, count)
        try:
            run = lambda: self.problem.whole_step(1)  # noqa: E731
            if isinstance(self.meter, meters.HostMeter):
                found = []
                self.meter.peak_of(lambda: found.append(meters.work_of(torch, run)))
                return found[0]
            return meters.work_of(torch, run)
        finally:
            checkpointing.undo()

    def seconds(self, candidate):
        """By operations and operators: for comparing candidates, no more."""
        share = candidate.checkpointed / len(self.problem.blocks) if self.problem.blocks else 0
        flops = self.plain.flops + share * (self.all.flops - self.plain.flops)
        operators = self.plain.operators + share * (self.all.operators - self.plain.operators)
        return flops / self.flops_per_second + candidate.micro_batches * operators * LAUNCH_SECONDS

    def peak(self, candidate):
        if candidate not in self.peaks:
            checkpointing = blocks.Checkpointing(self.problem.blocks, candidate.checkpointed)
            try:
                self.peaks[candidate] = self.meter.peak_of(lambda: self.problem.whole_step(candidate.micro_batches))
            finally:
                checkpointing.undo()
        return self.peaks[candidate]

    def fits(self, candidate):
        return self.peak(candidate).reserved_bytes <= self.limit

    def least_checkpointed(self, parts):
        """The fewest blocks with which `parts` micro-batches fit, or None."""
        low, high = 0, len(self.problem.blocks)
        if self.fits(Candidate(0, parts)):
            return 0
        if not self.fits(Candidate(high, parts)):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.fits(Candidate(middle, parts)) else (middle, high)
        return high

    def run(self):
        """All that fit, the fastest first."""
        found, parts, most = [], 1, self.problem.most_parts()
        while True:
            count = self.least_checkpointed(parts)
            if count is not None:
                found.append(Candidate(count, parts))
            if count == 0 or parts >= most:
                break
            parts = min(2 * parts, most)
        return sorted(found, key=self.seconds)

    def least_peak(self):
        return min(self.peaks.items(), key=lambda entry: entry[1].reserved_bytes)


def fit(
    model,
    budget,
    step,
    batch=None,
    optimizer=None,
    count=None,
    backward=None,
    most_micro_batches=MOST_PARTS,
    allow_batch_norm=False,
    card=None,
    cap=True,
):
    """Makes `step` fit: chooses checkpointing of the model's repeated blocks and micro-batches, and puts them in force.

    model      the module that `step` trains; on the card, or on the CPU
    budget     bytes of the whole process on the card ("16GiB"); on the CPU of the tensors
    step       called with `batch`: returns the mean loss (then it may be run in micro-batches; give `optimizer`), or is
               the whole training step and returns none
    batch      an example of the largest batch: nested tuples, lists and dicts of tensors
    count      of a micro-batch, what the loss is a mean over: samples if not given; for tokens
               lambda batch: (batch["labels"] != -100).sum()
    backward   instead of loss.backward(), for instance with a gradient scaler
    most_micro_batches  1: checkpointing alone, with losses that are equal to the bit
    allow_batch_norm  micro-batches also where batch normalisation will then see smaller batches
    card       the card to predict for, if it is not the one of this machine: "rtx4090"
    cap        keep PyTorch to the budget from now on

    Returns a Fitted. Raises DoesNotFit with the least budget that would do.
    """
    import torch

    problem = _Problem(model, step, batch, optimizer, count, backward, allow_batch_norm, most_micro_batches)
    limit = parse_bytes(budget)
    call = reruns.next_call()
    on_card = any(parameter.is_cuda for parameter in model.parameters())
    asked = reruns.request()
    if asked is not None and call < asked["call"]:
        checkpointed, parts, allocated, reserved, context = asked["earlier"][call]
        return Fitted(problem, Candidate(checkpointed, parts), meters.Peak(allocated, reserved), context)
    if asked is not None and call == asked["call"]:
        reruns.answer(_answer(torch, problem, asked))
    if on_card:
        fitted = _fit_on_card(torch, problem, limit, call, card)
        if cap:
            _cap(torch, limit - fitted.context_bytes)
    else:
        fitted = _fit_on_host(torch, problem, limit)
    _earlier.append([fitted.checkpointed, fitted.micro_batches, *fitted.peak, fitted.context_bytes])
    return fitted


_earlier = []  # what each call of this script chose


def _answer(torch, problem, asked):
    """In the second run: candidates that fit with their peaks, or the peak of one candidate from a fresh start."""
    meter = meters.CardMeter(torch)
    if asked["task"] == "confirm":
        candidate = Candidate(*asked["candidate"])
        blocks.Checkpointing(problem.blocks, candidate.checkpointed)
        for _ in range(meters.STEPS + 1):
            problem.whole_step(candidate.micro_batches)
        stats = torch.cuda.memory_stats()
        return {"peak": [stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]]}
    problem.whole_step(1)  # the optimizer's state is there from now on
    search = _Search(problem, meter, asked["limit_bytes"], asked["flops_per_second"])
    found = search.run()
    best, least = search.least_peak()
    return {
        "candidates": [[list(candidate), search.seconds(candidate)] for candidate in found],
        "plain_seconds": search.seconds(Candidate(0, 1)),
        "peaks": [[list(candidate), list(peak)] for candidate, peak in search.peaks.items()],
        "least": [list(best), list(least)],
        "returns_loss": problem.returns_loss,
    }


def _fit_on_card(torch, problem, limit, call, card):
    file = reruns.card_file(card or torch.cuda.get_device_name())
    with open(file) as text:
        description = json.load(text)
    context = description["contextBytes"]
    question = {
        "call": call,
        "earlier": _earlier,
        "task": "search",
        "limit_bytes": limit - context,
        "flops_per_second": description["multiProcessorCount"] * description["smClockRateKHz"] * 1e3 * FLOPS_PER_CLOCK,
    }
    found = reruns.ask(question, file)
    problem.returns_loss = found["returns_loss"]
    refused = []  # that fitted where others had run before them, and do not from a fresh start
    for candidate, seconds in found["candidates"]:
        confirmed = reruns.ask({**question, "task": "confirm", "candidate": candidate}, file)
        peak = meters.Peak(*confirmed["peak"])
        if peak.reserved_bytes <= limit - context:
            fitted = Fitted(problem, Candidate(*candidate), peak, context)
            _say(f"{fitted}, context {format_bytes(context)}; predicted time x {seconds / found['plain_seconds']:.2f}")
            return fitted
        refused.append((Candidate(*candidate), peak))
    if not refused:
        candidate, peak = found["least"]
        refused.append((Candidate(*candidate), meters.Peak(*peak)))
    raise _does_not_fit(problem, limit, *min(refused, key=lambda entry: entry[1].reserved_bytes), context)


def _fit_on_host(torch, problem, limit):
    meter = meters.HostMeter(torch, problem.model, problem.optimizer)
    search = _Search(problem, meter, limit, 1e11)
    found = search.run()
    if not found:
        raise _does_not_fit(problem, limit, *search.least_peak(), 0)
    return Fitted(problem, found[0], search.peak(found[0]))


def _does_not_fit(problem, limit, candidate, peak, context):
    least = peak.reserved_bytes + context
    lines = [f"the step does not fit in {format_bytes(limit)}", f"  least budget: {format_bytes(least)}, with {candidate}"]
    if context:
        lines.append(f"  of it the CUDA context: {format_bytes(context)}")
    if not problem.blocks:
        lines.append("  no repeated blocks were found to checkpoint")
    if problem.parts_refused:
        lines.append(f"  no micro-batches: {problem.parts_refused}; allow_batch_norm=True allows them")
    elif problem.batch is None or problem.returns_loss is False:
        lines.append("  no micro-batches: they need a step that takes batch= and returns the loss")
    return DoesNotFit("\n".join(lines), least)


def _cap(torch, allocator_bytes):
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, allocator_bytes / total))


def _say(text):
    print(f"plimsoll: {text}", file=sys.stderr)


def max_batch(step, budget, most=1 << 20, card=None):
    """The largest n up to `most` for which step(n), a whole training step on a batch of n, fits in `budget`.

    Predicted without one failed try: nothing runs on the card. Raises DoesNotFit when a batch of 1 does not fit.
    """
    import torch

    limit = parse_bytes(budget)
    call = reruns.next_call()
    asked = reruns.request()
    if asked is not None and call < asked["call"]:
        return asked["earlier"][call][0]
    if asked is not None and call == asked["call"]:
        reruns.answer(_largest_batch(torch, step, asked["limit_bytes"], asked["most"]))
    file = reruns.card_file(card or torch.cuda.get_device_name())
    with open(file) as text:
        context = json.load(text)["contextBytes"]
    question = {"call": call, "earlier": _earlier, "limit_bytes": limit - context, "most": most}
    found = reruns.ask(question, file)
    if found["batch"] == 0:
        least = found["reserved_bytes"] + context
        raise DoesNotFit(f"a batch of 1 takes {format_bytes(least)}, more than {format_bytes(limit)}", least)
    _earlier.append([found["batch"]])
    _say(f"batches up to {found['batch']} fit: {format_bytes(found['reserved_bytes'])} reserved of {format_bytes(limit)}")
    return found["batch"]


def _largest_batch(torch, step, limit, most):
    meter = meters.CardMeter(torch)
    step(1)
    peaks = {}

    def fits(size):
        peaks[size] = meter.peak_of(lambda: step(size)).reserved_bytes
        return peaks[size] <= limit

    if not fits(1):
        return {"batch": 0, "reserved_bytes": peaks[1]}
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return {"batch": low, "reserved_bytes": peaks[low]}
