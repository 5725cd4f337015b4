"""What the memory is for: each allocation by where in the step it was made and how long it lived."""

import bisect
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Optional

OUTSIDE, FORWARD, AFTER, BACKWARD, UPDATE = "outside", "forward", "after", "backward", "update"
LOSS = "after the model, such as the loss"
WORKSPACES = {32 << 20, (8 << 20) + (128 << 10), 1 << 20}  # that cuBLAS and cuBLASLt keep for good

_times = [0]  # nanoseconds at which a phase or a module began
_marks = [(OUTSIDE, "")]
_modules = []  # names of those whose forward runs
_names = {}


@dataclass
class Allocation:
    begin: int
    bytes: int
    stream: int
    time_us: int
    end: Optional[int] = None
    end_us: Optional[int] = None
    category: str = "other"
    tag: str = ""


def _mark(phase):
    _times.append(time.time_ns())
    _marks.append((phase, _modules[-1] if _modules else ""))


def install(torch):
    from torch.nn.modules import module
    from torch.optim import optimizer

    module.register_module_forward_pre_hook(_enter_module)
    module.register_module_forward_hook(_leave_module)
    backward = torch.autograd.backward

    def marked_backward(*args, **kwargs):
        _mark(BACKWARD)
        try:
            return backward(*args, **kwargs)
        finally:
            _mark(FORWARD if _modules else OUTSIDE)

    torch.autograd.backward = marked_backward
    optimizer.register_optimizer_step_pre_hook(lambda *args: _mark(UPDATE))
    optimizer.register_optimizer_step_post_hook(lambda *args: _mark(OUTSIDE))


def _enter_module(module, args):
    if not _modules and id(module) not in _names:
        _names.update((id(part), name) for name, part in module.named_modules(prefix=type(module).__name__))
    in_backward = _marks[-1][0] == BACKWARD  # checkpointed modules run again there
    _modules.append(_names.get(id(module), type(module).__name__))
    _mark(BACKWARD if in_backward else FORWARD)


def _leave_module(module, args, output):
    if _modules:
        _modules.pop()
    in_backward = _marks[-1][0] == BACKWARD
    _mark(BACKWARD if in_backward else FORWARD if _modules else AFTER)


def _at(time_us):
    return _marks[bisect.bisect_right(_times, time_us * 1000) - 1]


def lifetimes(events):
    """Allocations of a recorded history, in the order they were made, with their category and module."""
    found, alive, streams = [], {}, {}
    for place, event in enumerate(events):
        if event["action"] == "alloc":
            stream = streams.setdefault(event["stream"], len(streams))
            made = Allocation(place, event["size"], stream, event["time_us"])
            found.append(made)
            alive[event["addr"]] = made
        elif event["action"] == "free_completed" and event["addr"] in alive:
            freed = alive.pop(event["addr"])
            freed.end, freed.end_us = place, event["time_us"]
    updates = [t // 1000 for t, (phase, _) in zip(_times, _marks) if phase == UPDATE]
    for made in found:
        made.category, made.tag = _classify(made, updates)
    return found


def _classify(made, updates):
    phase, module = _at(made.time_us)
    lived_through_update = made.end is None or bisect.bisect(updates, made.end_us) > bisect.bisect(updates, made.time_us)
    kept = made.end is None
    if kept and made.bytes in WORKSPACES and phase in (FORWARD, BACKWARD):
        return "scratch", "cuBLAS workspace"
    if phase == UPDATE:
        return ("optimizer_state", "") if kept else ("scratch", "optimizer step")
    if phase == BACKWARD:
        return ("gradient", "") if lived_through_update else ("activation", module or "backward")
    if phase == AFTER and not lived_through_update:
        return "activation", LOSS
    if phase == FORWARD:
        return ("other", module) if kept and lived_through_update and len(updates) > 1 else ("activation", module)
    first_update = updates[0] if updates else None
    if kept and (first_update is None or made.time_us < first_update):
        return "parameter", ""
    return "input", ""


def merged(modules):
    """[(name, bytes, count)], the largest first; what repeated blocks hold is one row: Gpt.blocks.[0-11].mlp."""
    rows = defaultdict(list)  # by the name without its first number; where that is the end, by the bytes as well
    for name, size in modules.items():
        found = re.match(r"(.*?\.)(\d+)(\..+)?$", name)
        key = (found[1], found[3] or "", None if found[3] else size) if found else (name, None, None)
        rows[key].append((int(found[2]) if found else 0, size))
    result = []
    for (head, tail, _), members in rows.items():
        numbers = sorted(number for number, _ in members)
        name = head if tail is None else head + _ranges(numbers) + tail
        result.append((name, sum(size for _, size in members), len(members)))
    return sorted(result, key=lambda row: -row[1])


def _ranges(numbers):
    """[0-11] for what follows on one another, [0-3,7] else, 4 for one alone."""
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return text if len(numbers) == 1 else f"[{text}]"


def at_peak(allocations, largest=12):
    """Bytes by category and by module when most was alive."""
    changes = [(a.begin, 1, a) for a in allocations] + [(a.end, -1, a) for a in allocations if a.end is not None]
    changes.sort(key=lambda change: change[:2])
    live, most, at = 0, -1, 0
    for place, sign, a in changes:
        live += sign * a.bytes
        if live > most:
            most, at = live, place
    alive = [a for a in allocations if a.begin <= at and (a.end is None or a.end > at)]
    categories, modules = Counter(), Counter()
    for a in alive:
        categories[a.category] += a.bytes
        if a.tag:
            modules[a.tag] += a.bytes
    peak = next((a for a in alive if a.begin == at), None)
    return {
        "at_peak": {f"{name}_bytes": count for name, count in categories.most_common()},
        "modules": [{"name": name, "bytes": size, "count": count} for name, size, count in merged(modules)[:largest]],
        "peak_in": {"phase": _at(peak.time_us)[0], "module": _at(peak.time_us)[1]} if peak else {},
    }
