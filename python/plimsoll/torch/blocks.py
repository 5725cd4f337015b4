"""The repeated blocks of a model, and activation checkpointing of some of them."""

import contextlib
import copy


def find_blocks(model):
    """Outermost modules that their container repeats (layers of a transformer, bottlenecks of a ResNet), in order.

    A block has parameters and parts of its own, and a sibling of the same class. Empty where nothing repeats.
    """
    found = []
    _collect(model, found)
    return found


def _collect(module, found):
    from torch import nn

    children = list(module.children())
    classes = [type(child) for child in children]
    for child in children:
        repeated = isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict)) and classes.count(type(child)) > 1
        if repeated and _is_block(child):
            found.append(child)
        else:
            _collect(child, found)


def _is_block(module):
    from torch import nn

    if isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict)):
        return False
    parts = any(True for _ in module.children())
    return parts and any(True for _ in module.parameters())


class Checkpointing:
    """The first `count` of `blocks` keep their inputs alone and run a second time in the backward pass.

    Random numbers are the same both times, and batch statistics are updated once: the training is bit for bit that
    without checkpointing. `undo` restores the blocks.
    """

    def __init__(self, blocks, count):
        self.blocks = blocks[:count]
        for block in self.blocks:
            block.forward = _checkpointed(block, block.forward)

    def undo(self):
        for block in self.blocks:
            del block.forward


def _own_cache(value):
    """A copy of a transformer's cache of keys and values, which the block would fill a second time; else the value."""
    if not (hasattr(value, "update") and hasattr(value, "get_seq_length")):
        return value
    own = copy.copy(value)
    for name, held in vars(value).items():
        if isinstance(held, list):
            setattr(own, name, [part if hasattr(part, "storage") else copy.copy(part) for part in held])
    return own


def _checkpointed(block, forward):
    import torch
    from torch.utils.checkpoint import checkpoint

    norms = batch_norms(block)

    def run(*args, **kwargs):
        if not (block.training and torch.is_grad_enabled()):
            return forward(*args, **kwargs)
        passes = []

        def once(*args, **kwargs):
            statistics = _frozen_statistics(norms) if passes else contextlib.nullcontext()
            passes.append(None)
            with statistics:
                return forward(*map(_own_cache, args), **{name: _own_cache(value) for name, value in kwargs.items()})

        return checkpoint(once, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)

    return run


def batch_norms(module):
    from torch.nn.modules.batchnorm import _BatchNorm

    return [part for part in module.modules() if isinstance(part, _BatchNorm)]


@contextlib.contextmanager
def _frozen_statistics(norms):
    """Puts running statistics back afterwards: by `data`, since autograd has saved the buffers."""
    buffers = [buffer for norm in norms for buffer in norm.buffers()]
    kept = [buffer.detach().clone() for buffer in buffers]
    try:
        yield
    finally:
        for buffer, value in zip(buffers, kept):
            buffer.data.copy_(value)
