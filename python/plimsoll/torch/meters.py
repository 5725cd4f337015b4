"""What steps take: counted by PyTorch's allocator on a simulated card, or tensor by tensor on the host."""

import copy
import weakref
from typing import NamedTuple

from .sizes import format_bytes

STEPS = 2  # of each candidate: from the second on, steps are alike


class Peak(NamedTuple):
    allocated_bytes: int
    reserved_bytes: int  # with the allocator's cache; on the host the same as allocated

    def __str__(self):
        return f"{format_bytes(self.allocated_bytes)} allocated, {format_bytes(self.reserved_bytes)} reserved"


class CardMeter:
    """In a process with a simulated card: memory is without limit and values mean nothing, so nothing is restored."""

    def __init__(self, torch):
        self.cuda = torch.cuda

    def peak_of(self, run):
        self.cuda.empty_cache()
        self.cuda.reset_peak_memory_stats()
        for _ in range(STEPS):
            run()
        stats = self.cuda.memory_stats()
        return Peak(stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"])


class HostMeter:
    """On the CPU steps run for real: parameters, optimizer state and random numbers are restored afterwards."""

    def __init__(self, torch, model, optimizer):
        self.torch, self.model, self.optimizer = torch, model, optimizer

    def peak_of(self, run):
        saved = self._save()
        counter = _live_bytes(self.torch)(self._held())
        with counter:
            for _ in range(STEPS):
                run()
        self._restore(saved)
        return Peak(counter.peak, counter.peak)

    def _held(self):
        state = self.optimizer.state.values() if self.optimizer else []
        kept = [value for entry in state for value in entry.values() if isinstance(value, self.torch.Tensor)]
        return [*self.model.parameters(), *self.model.buffers(), *kept]

    def _save(self):
        values = [tensor.detach().clone() for tensor in (*self.model.parameters(), *self.model.buffers())]
        gradients = [parameter.grad for parameter in self.model.parameters()]
        state = copy.deepcopy(self.optimizer.state_dict()) if self.optimizer else None
        return values, gradients, state, self.torch.get_rng_state()

    def _restore(self, saved):
        values, gradients, state, random = saved
        with self.torch.no_grad():
            for tensor, value in zip((*self.model.parameters(), *self.model.buffers()), values):
                tensor.copy_(value)
        for parameter, gradient in zip(self.model.parameters(), gradients):
            parameter.grad = gradient
        if self.optimizer:
            self.optimizer.load_state_dict(state)
        self.torch.set_rng_state(random)


def _live_bytes(torch):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    class LiveBytes(TorchDispatchMode):
        """Bytes of the storages that are alive, those of `tensors` to begin with, and their peak."""

        def __init__(self, tensors):
            super().__init__()
            self.live = self.peak = 0
            self.known = weakref.WeakKeyDictionary()
            for tensor in tensors:
                self.count(tensor)

        def count(self, tensor):
            storage = tensor.untyped_storage()
            if storage in self.known:
                return
            self.known[storage] = True
            bytes_of = storage.nbytes()
            self.live += bytes_of
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self.forget, bytes_of)

        def forget(self, bytes_of):
            self.live -= bytes_of

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for value in tree_flatten(result)[0]:
                if isinstance(value, torch.Tensor):
                    self.count(value)
            return result

    return LiveBytes


class Work(NamedTuple):
    flops: int
    operators: int


def work_of(torch, run):
    """Floating-point operations and operators of `run`, by PyTorch's own counter; none where it has no counter."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += 1
            return function(*args, **(kwargs or {}))

    try:
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:
        run()
        return Work(0, 0)
    operators = Operators()
    with operators, FlopCounterMode(display=False) as flops:
        run()
    return Work(flops.get_total_flops(), operators.count)
